"""A backup is the store at one moment, wherever it is restored to, and tells no more than the store."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tacit.__main__ import main
from tacit.server.run import today
from tacit.server.storage.store import Store, Submission, copy_store, survey_id
from tacit.server.storage.tokens import Grant, grant_of, make_token
from tacit.server.storage.vault import CROWD

from support.service import Days, grouped_plan, key, plain_plan, stored

PLAIN, GROUPED = survey_id(plain_plan()), survey_id(grouped_plan())


def filled(where: str | Path, clock: Callable[..., object]) -> Store:
    store = Store(where, clock)  # type: ignore[arg-type]
    store.create(plain_plan(), invitation_secret=b"s" * 32)
    store.create(grouped_plan())
    store.count([Submission(PLAIN, key(n), ((0, n % 3, 1),)) for n in range(CROWD + 5)])
    store.count([Submission(PLAIN, key(100), ((0, 1, 1),))])
    store.redeem(PLAIN, b"i" * 16, b"b" * 32)
    store.count([Submission(GROUPED, key(1), ((1, 0, 1),))])
    store.change(GROUPED, close=True)
    return store


def test_a_copy_knows_everything_and_goes_on_by_itself(where: str, tmp_path: Path, days: Days):
    store, backup = filled(where, days), Store(tmp_path / "backup", days)
    token = make_token(store, "board", "results")
    assert copy_store(store, backup) == 1
    before = stored(store)
    assert stored(backup) == before
    assert [survey for survey, _ in backup.surveys()] == [survey for survey, _ in store.surveys()]
    assert backup.count([Submission(PLAIN, key(n), ((0, 0, 1),)) for n in (3, 100, 101)]) == [
        "already counted", "already counted", "counted",
    ]  # fmt: skip
    assert backup.redeem(PLAIN, b"i" * 16, b"c" * 32) == "spent"
    assert grant_of(backup, f"Bearer {token}") == Grant("results")
    assert stored(store) == before
    with pytest.raises(ValueError, match="is in use"):
        copy_store(store, backup)
    again = Store(tmp_path / "again", days)
    copy_store(backup, again)
    assert stored(again) == stored(backup)
    for each in (store, backup, again):
        each.close()


def test_a_copy_under_load_is_one_moment(where: str, tmp_path: Path, days: Days):
    """Each submission has two reports in two places: a torn copy would have one without the other."""
    store, backup, stop = Store(where, days), Store(tmp_path / "backup", days), threading.Event()
    store.create(plain_plan())

    def load() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            group = range(number % 3 * CROWD + 1)
            store.count([Submission(PLAIN, f"{number:016x}{n:016x}", ((0, 0, 1), (0, 2, 1))) for n in group])

    thread = threading.Thread(target=load)
    thread.start()
    try:
        while store.n_reports(PLAIN) < 100:
            pass
        other = Store(where, days)
        copy_store(other, backup)
        other.close()
    finally:
        stop.set()
        thread.join()
    counts, n_keys = stored(backup), 0
    with backup.counting.moment(PLAIN) as (connection, pending):
        n_keys = int(connection.exec_driver_sql("SELECT count(*) FROM keys").scalar() or 0) + len(pending[PLAIN].keys)
    assert counts[PLAIN, 0, 0] == counts[PLAIN, 0, 2] == n_keys >= 50
    for each in (store, backup):
        each.close()


def test_the_commands(tmp_path: Path, on_postgres: str, monkeypatch: pytest.MonkeyPatch, capfd):
    filled(tmp_path / "data", today).close()

    def run(*words: str) -> object:
        monkeypatch.setattr("sys.argv", ["tacit", "serve", *words, "--json"])
        with pytest.raises(SystemExit) as done:
            main()
        out, err = capfd.readouterr()
        return json.loads(out) if not done.value.code else err

    data, backup = str(tmp_path / "data"), str(tmp_path / "monday")
    assert run("backup", backup, "--data", data) == {"copied": 1, "where": backup}
    assert (tmp_path / "monday").stat().st_mode & 0o777 == 0o700
    assert "is not empty" in str(run("backup", backup, "--data", data))
    assert run("restore", backup, "--data", on_postgres)["copied"] == 1  # type: ignore[index]
    original, restored = Store(data, today), Store(on_postgres, today)
    assert stored(restored) == stored(original)
    token = run("token", "board", "--role", "results", "--survey", PLAIN, "--data", data)["token"]  # type: ignore[index]
    assert grant_of(original, f"Bearer {token}") == Grant("results", PLAIN, "board")
    assert run("token", "board", "--revoke", "--data", data) == {"name": "board", "token": None}
    assert grant_of(original, f"Bearer {token}") is None
    assert "There is no survey" in str(run("token", "x", "--survey", "0" * 16, "--data", data))
    for words in (["backup", str(tmp_path / "tuesday")], ["token", "x"]):
        assert "There is no service in" in str(run(*words, "--data", str(tmp_path / "typo")))
    assert not (tmp_path / "typo").exists()
    assert "There is no backup in" in str(run("restore", str(tmp_path), "--data", str(tmp_path / "new")))
    original.close()
    restored.close()
