"""Database and vault that are not of the same time, processes that start at once, clocks that jump: what must go on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from tacit.server.collector import Ending
from tacit.server.results.results import published
from tacit.server.storage import store as store_module
from tacit.server.storage.store import Store, Submission, copy_store, survey_id
from tacit.server.storage.vault import VaultError

from support.postgres import binaries
from support.service import Days, grouped_plan, key, plain_plan, stored

PLAIN, GROUPED = survey_id(plain_plan()), survey_id(grouped_plan())


def send(store: Store, survey: str, *numbers: int) -> list[str]:
    return [str(each) for each in store.count([Submission(survey, key(n), ((0, 1, 1),)) for n in numbers])]


def dumped_and_restored(store: Store, where: str, act: object) -> None:
    """Do something, then put PostgreSQL back to the time before it, as a recovery to a point in time does."""
    programs = binaries()
    assert programs is not None
    dump = subprocess.run(
        [programs / "pg_dump", "--clean", "--if-exists", where], check=True, capture_output=True
    ).stdout
    act()  # type: ignore[operator]
    store.close()
    command = [programs / "psql", "--quiet", "--set", "ON_ERROR_STOP=1", where]
    subprocess.run(command, check=True, capture_output=True, input=dump)


def test_a_postgresql_behind_its_vault_starts_and_only_the_survey_in_doubt_waits(on_postgres: str, days: Days):
    store = Store(on_postgres, days)
    for plan in (plain_plan(), grouped_plan()):
        store.create(plan)
        send(store, survey_id(plan), 1, 2, 3)
    dumped_and_restored(store, on_postgres, lambda: send(store, PLAIN, 4, 5, 6, 7, 8) and send(store, PLAIN, 9))

    again = Store(on_postgres, days)
    assert set(again.in_doubt()) == {PLAIN}
    with pytest.raises(VaultError, match="not of the same time"):
        send(again, PLAIN, 10)
    assert send(again, GROUPED, 1, 4) == ["already counted", "counted"], "the other survey goes on"
    outcomes = again.write([Submission(each, key(11), ((0, 1, 1),)) for each in (PLAIN, GROUPED)])
    assert isinstance(outcomes[0], VaultError), "also where both are written together"
    assert outcomes[1] == "counted"
    assert {survey.id: n for survey, n in again.surveys()} == {PLAIN: 0, GROUPED: 5}

    done = again.repair()
    assert set(done) == {PLAIN}
    assert "goes on without its newest reports" in done[PLAIN]
    assert send(again, PLAIN, 10, 4) == ["counted", "counted"]
    assert again.repair() == {}
    assert again.n_reports(PLAIN) == 2
    again.close()


def test_a_survey_whose_secrets_are_lost_is_closed_by_repair_with_its_counts(tmp_path: Path, days: Days):
    store = Store(tmp_path / "data", days)
    store.create(plain_plan())
    send(store, PLAIN, *range(25))
    store.create(grouped_plan())
    survey = store.survey(PLAIN)
    assert survey is not None
    store.vault.erase(survey.life)
    store.close()
    again = Store(tmp_path / "data", days)
    with pytest.raises(VaultError, match="no secrets of this survey"):
        send(again, PLAIN, 30)
    assert send(again, GROUPED, 1) == ["counted"]
    assert "closed" in again.repair()[PLAIN]
    assert send(again, PLAIN, 30) == ["closed"]
    assert again.n_reports(PLAIN) == 25
    again.close()


def test_secrets_without_a_survey_wait_for_a_second_look(tmp_path: Path, days: Days):
    """An older copy of the database, started by mistake, must not cost the newer one its secrets."""
    store = Store(tmp_path / "data", days)
    store.create(plain_plan())
    store.close()
    shutil.copytree(tmp_path / "data", tmp_path / "old")
    shutil.rmtree(tmp_path / "old" / "secrets")
    store = Store(tmp_path / "data", days)
    store.create(grouped_plan())
    send(store, GROUPED, 1)
    store.close()
    old = Store(tmp_path / "old", days, vault=tmp_path / "data" / "secrets")
    assert send(old, PLAIN, 1) == ["counted"]
    old.close()
    new = Store(tmp_path / "data", days)
    assert send(new, GROUPED, 1, 2) == ["already counted", "counted"]
    new.close()
    old = Store(tmp_path / "old", days, vault=tmp_path / "data" / "secrets")
    assert "1 secrets" in old.repair()["vault"]
    old.close()


def test_a_backup_does_not_change_what_it_copies(tmp_path: Path, days: Days, monkeypatch: pytest.MonkeyPatch):
    Store(tmp_path / "data", days).close()
    monkeypatch.setattr("tacit.server.storage.schema.REVISION", "0002")
    with pytest.raises(ValueError, match="Use the version that made it"):
        Store(tmp_path / "data", days, migrate=False)
    monkeypatch.undo()
    Store(tmp_path / "data", days, migrate=False).close()


def test_a_used_place_is_refused_whatever_is_in_it(where: str, tmp_path: Path, days: Days):
    source, target = Store(tmp_path / "source", days), Store(where, days)
    source.create(plain_plan())
    target.check()
    target.set_setting("texts:x", b"said")
    with pytest.raises(ValueError, match="its table settings is not empty"):
        copy_store(source, target)
    source.close()
    target.close()


def test_closing_goes_in_steps_between_which_others_count(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store_module, "_STEP", 100)
    store.create(plain_plan())
    store.create(grouped_plan())
    send(store, PLAIN, *range(950))
    longest: list[int] = []

    @sa.event.listens_for(store.database.writing, "after_cursor_execute")
    def erased(connection, cursor, statement: str, *_) -> None:
        if statement.startswith("DELETE FROM keys"):
            longest.append(cursor.rowcount)

    store.close_survey(PLAIN)
    assert send(store, PLAIN, 2000) == ["closed"]
    while store.erase_some_tags():
        assert send(store, GROUPED, len(longest)) == ["counted"]
    assert (sum(longest), max(longest)) == (950, 100)
    with store.database.reading.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM keys").scalar() == 0
    assert store.n_reports(PLAIN) == 950


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_processes_that_start_at_once_agree_on_one_token(kind: str, request: pytest.FixtureRequest, tmp_path: Path):
    """On an empty place; each prints the token only if it is the one that works."""
    where = str(tmp_path / "data") if kind == "sqlite" else str(request.getfixturevalue("postgres").new_database())
    program = (
        "import sys, threading\n"
        "from tacit.server.storage.store import Store\n"
        "from tacit.server.storage.tokens import first_token, grant_of\n"
        "from datetime import date\n"
        "ready, told = threading.Barrier(8), []\n"
        "def start():\n"
        "    ready.wait()\n"
        f"    store = Store({where!r}, lambda: date(2026, 1, 1))\n"
        "    token = first_token(store)\n"
        "    if token: told.append(grant_of(store, 'Bearer ' + token) is not None)\n"
        "    store.close()\n"
        "    done.append(1)\n"
        "done = []\n"
        "threads = [threading.Thread(target=start) for _ in range(8)]\n"
        "[each.start() for each in threads]; [each.join() for each in threads]\n"
        "print(len(done), told)\n"
    )
    ran = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=60) for process in ran]
    assert sorted(out for out, _ in said) == ["8 [True]\n", "8 []\n"], said


def test_a_clock_that_jumps_ahead_for_a_while_closes_nothing():
    steady, wall = [0.0], [1e9]
    ending = Ending(lambda: steady[0], lambda: wall[0])

    def pass_by(seconds: float, jump: float = 0.0) -> None:
        steady[0] += seconds
        wall[0] += seconds + jump

    assert not ending.is_over("a", False)
    pass_by(60, jump=40 * 86_400)
    assert not ending.is_over("a", True), "the first look"
    pass_by(60, jump=-40 * 86_400)
    assert not ending.is_over("a", False)
    for _ in range(59):
        pass_by(60)
        assert not ending.is_over("a", True)
    pass_by(60, jump=3600)
    assert not ending.is_over("a", True), "it was set in between"
    for _ in range(60):
        assert not ending.is_over("a", True)
        pass_by(60)
    assert ending.is_over("a", True)


def test_a_clock_that_is_set_back_publishes_no_single_reports(store: Store, days: Days):
    """What is public stays in steps, and on the day after which it was published last."""
    store.create(plain_plan(), public_results=True, publish_every=20)
    survey = store.survey(PLAIN)
    assert survey is not None
    send(store, PLAIN, *range(20))
    assert [tally.n_reports for _, tally in published(store, survey, plain_plan())] == [20]
    days.next(-5)
    shown = []
    for number in range(20, 65):
        send(store, PLAIN, number)
        shown.append([(day, tally.n_reports) for day, tally in published(store, survey, plain_plan())])
    first = days.day + timedelta(5)
    assert {n for each in shown for _, n in each} == {20, 40, 60}
    assert all([day for day, _ in each] == [first] for each in shown)


def test_a_repeated_report_does_not_keep_the_log_of_sqlite(tmp_path: Path, days: Days):
    store = Store(tmp_path, days)
    store.create(plain_plan())
    send(store, PLAIN, 1)
    store.tidy()
    assert store.tidied
    assert send(store, PLAIN, 1) == ["already counted"]
    assert store.tidied
    assert stored(store) == {(PLAIN, 0, 1): 1}
    store.close()


def test_a_full_disk_is_said_to_be_one(tmp_path: Path, days: Days, monkeypatch: pytest.MonkeyPatch):
    store = Store(tmp_path, days)
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(VaultError, match="No space left"):
        store.create(plain_plan())
    with pytest.raises(VaultError, match="No space left"):
        store.check()
    monkeypatch.undo()
    assert store.create(plain_plan())
    assert send(store, PLAIN, 1) == ["counted"]
    store.close()
