"""Attacks on what is stored: whoever has the database must not learn which key or invitation came with which report.

Each attack is also made on the obvious layout, in which one transaction keeps a key and counts its report: there it
finds everything.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
import sqlalchemy as sa

from tacit.server.storage.store import Store, Submission, survey_id
from tacit.server.storage.vault import CROWD, Vault, VaultError, tag

from support.crash import wide_plan
from support.postgres import Postgres
from support.service import Days, key, many_groups_plan

WIDE = survey_id(wide_plan())
N = 3 * CROWD
#: A guess at random within its batch is right once per batch on average; so many, in 3 batches, with less than 1e-9.
MANY_RIGHT = 20


def number(nth: int) -> bytes:
    return nth.to_bytes(16, "big")


def tags(store: Store, kind: str, contents: list[bytes]) -> list[str]:
    """What the store keeps of keys or invitations, for the judge: an attacker without the vault cannot know."""
    secret = store.vault.secret(life(store))
    return [tag(secret, kind, content) for content in contents]


def life(store: Store) -> str:
    survey = store.survey(WIDE)
    assert survey is not None
    return survey.life


def collect(store: Store, reports: list[int]) -> None:
    """Invited people come one after the other, each with a report that nobody else has."""
    store.create(wide_plan())
    for nth, report in enumerate(reports):
        assert store.redeem(WIDE, number(nth), b"blinded %d" % nth) == "redeemed"
        assert store.count([Submission(WIDE, key(nth), ((0, report, 1),))]) == ["counted"]


def random_reports(seed: int) -> list[int]:
    return random.Random(seed).sample(range(10**6), N)


OBVIOUS = {
    "obvious_keys": "survey VARCHAR(16), tag VARCHAR(32), PRIMARY KEY (survey, tag)",
    "obvious_redemptions": "survey VARCHAR(16), tag VARCHAR(32), PRIMARY KEY (survey, tag)",
    "obvious_counts": "survey VARCHAR(16), report BIGINT, count BIGINT, PRIMARY KEY (survey, report)",
}


def collect_obviously(store: Store, reports: list[int]) -> tuple[list[str], list[str]]:
    """The same in the layout that this one replaces; what it keeps of keys and invitations."""
    rowless = " WITHOUT ROWID" if store.database.kind == "sqlite" else ""
    with store.database.writing.begin() as connection:
        for name, columns in OBVIOUS.items():
            connection.exec_driver_sql(f"CREATE TABLE {name} ({columns}){rowless}")
    seeded = random.Random(1)
    kept: tuple[list[str], list[str]] = [], []
    for report in reports:
        invitation, mine = (seeded.randbytes(16).hex() for _ in range(2))
        with store.database.writing.begin() as connection:
            connection.exec_driver_sql(f"INSERT INTO obvious_redemptions VALUES ('{WIDE}', '{invitation}')")
        with store.database.writing.begin() as connection:
            connection.exec_driver_sql(f"INSERT INTO obvious_keys VALUES ('{WIDE}', '{mine}')")
            connection.exec_driver_sql(f"INSERT INTO obvious_counts VALUES ('{WIDE}', {report}, 1)")
        kept[0].append(mine)
        kept[1].append(invitation)
    return kept


def right(guessed: list[object], true: list[object]) -> int:
    return sum(a == b for a, b in zip(guessed, true, strict=True))


# -- PostgreSQL: transactions and places of rows ---------------------------------------------------------------------


def by_transaction(store: Store, keys: str, counts: str) -> dict[str, set[int]]:
    """For each tag the reports whose counts were written by the same transaction."""
    found: dict[str, set[int]] = {}
    query = f"SELECT k.tag, c.report FROM {keys} k JOIN {counts} c ON k.xmin = c.xmin"
    with store.database.reading.connect() as connection:
        for one, report in connection.exec_driver_sql(query):
            found.setdefault(one, set()).add(report)
    return found


def in_order(store: Store, table: str, column: str) -> list[object]:
    """Rows in the order in which they were written: by transaction, then by place."""
    query = f"SELECT {column} FROM {table} ORDER BY age(xmin) DESC, ctid"
    with store.database.reading.connect() as connection:
        return list(connection.exec_driver_sql(query).scalars())


def test_transactions_and_places_tell_nothing(on_postgres: str, days: Days):
    store, reports = Store(on_postgres, days), random_reports(1)
    keys, invitations = collect_obviously(store, reports)
    assert by_transaction(store, "obvious_keys", "obvious_counts") == {
        k: {r} for k, r in zip(keys, reports, strict=True)
    }
    assert in_order(store, "obvious_keys", "tag") == keys
    assert in_order(store, "obvious_redemptions", "tag") == invitations
    assert in_order(store, "obvious_counts", "report") == reports

    collect(store, reports)
    linked = by_transaction(store, "keys", "counts")
    assert min(map(len, linked.values())) >= CROWD, "crowds are linked to crowds"
    assert by_transaction(store, "redemptions", "counts") == {}
    assert right(in_order(store, "counts", "report"), reports) < MANY_RIGHT
    for table, kind, contents in (
        ("keys", "key", [key(nth).encode() for nth in range(N)]),
        ("redemptions", "invitation", [number(nth) for nth in range(N)]),
    ):
        true = tags(store, kind, contents)
        assert sorted(true) == sorted(map(str, in_order(store, table, "tag"))), "the attack sees all of them"
        assert right(in_order(store, table, "tag"), list(true)) < MANY_RIGHT
        with store.database.reading.connect() as connection:
            sizes = connection.exec_driver_sql(f"SELECT count(*) FROM {table} GROUP BY xmin::text").scalars().all()
        assert min(sizes) >= CROWD, "a transaction wrote so many that none is alone"
    store.close()


def test_a_crowd_is_linked_to_a_crowd_only(on_postgres: str, days: Days):
    store, reports = Store(on_postgres, days), random_reports(2)
    store.create(wide_plan())
    store.count([Submission(WIDE, key(nth), ((0, report, 1),)) for nth, report in enumerate(reports)])
    linked = by_transaction(store, "keys", "counts")
    assert len(linked) == N
    assert min(map(len, linked.values())) >= CROWD
    # Retries make a group look like a crowd, with one new report in it.
    group = [Submission(WIDE, key(nth), ((0, report, 1),)) for nth, report in enumerate([*reports, 10**6])]
    assert store.count(group)[-1] == "counted"
    assert by_transaction(store, "keys", "counts") == linked
    store.close()


# -- SQLite: where cells lie in a file -------------------------------------------------------------------------------


def written_order(folder: Path, contents: list[str]) -> list[str]:
    """Cells fill a page from its end: what lies last was written first."""
    data = (folder / "tacit.sqlite").read_bytes()
    places = {each: data.rfind(each.encode()) for each in contents}
    assert min(places.values()) > 0, "the attack sees all of them"
    return sorted(contents, key=lambda each: -places[each])


def test_places_in_a_file_tell_nothing(tmp_path: Path, days: Days):
    few = 2 * CROWD
    store, reports = Store(tmp_path, days), random_reports(3)[:few]
    keys, _ = collect_obviously(store, reports)
    store.close()
    assert written_order(tmp_path, keys) == keys

    store = Store(tmp_path, days)
    collect(store, [*reports, 10**6])
    true = tags(store, "key", [key(nth).encode() for nth in range(few)])
    store.tidy()
    assert (tmp_path / "tacit.sqlite-wal").stat().st_size == 0, "nothing of the order is in the log"
    assert right(written_order(tmp_path, true), list(true)) < MANY_RIGHT
    redeemed = tags(store, "invitation", [number(nth) for nth in range(few)])
    assert right(written_order(tmp_path, redeemed), list(redeemed)) < MANY_RIGHT
    counted = sqlite3.connect(tmp_path / "tacit.sqlite").execute("SELECT sum(count) FROM counts").fetchone()[0]
    assert counted == few, "the newest is not in the counts"
    newest = tags(store, "key", [key(few).encode()])[0].encode()
    assert newest not in (tmp_path / "tacit.sqlite").read_bytes(), "nor is its tag in the keys"
    store.close()


# -- the database's log ----------------------------------------------------------------------------------------------


def logged_order(folder: Path, contents: list[str]) -> list[str]:
    """In which order PostgreSQL's log has them, by their first places in it."""
    log = b"".join(path.read_bytes() for path in sorted((folder / "pg_wal").glob("[0-9A-F]" * 24)))
    places = {each: log.find(each.encode()) for each in contents}
    assert min(places.values()) > 0, "the attack sees all of them"
    return sorted(contents, key=lambda each: places[each])


def test_the_log_of_postgresql_links_no_invitation_to_a_key(postgres: Postgres, days: Days):
    """Who writes down the order in the log knows, in the obvious layout, which invitation every key came after."""
    store, reports = Store(postgres.new_database(), days), random_reports(4)
    keys, invitations = collect_obviously(store, reports)
    pairs = dict(zip(logged_order(postgres.folder, invitations), logged_order(postgres.folder, keys), strict=True))
    assert pairs == dict(zip(invitations, keys, strict=True))

    collect(store, reports)
    mine = tags(store, "key", [key(nth).encode() for nth in range(N)])
    theirs = tags(store, "invitation", [number(nth) for nth in range(N)])
    guessed = dict(zip(logged_order(postgres.folder, theirs), logged_order(postgres.folder, mine), strict=True))
    assert right([guessed[each] for each in theirs], list(mine)) < MANY_RIGHT
    assert right(logged_order(postgres.folder, mine), list(mine)) < MANY_RIGHT
    store.close()


def test_each_group_has_a_crowd_of_its_own(store: Store):
    """People of ten groups come one after the other. A count that changes does so by 20 reports of its group; else a
    transaction, with the list of who is in which group, names the report of everybody who is alone in it.
    """
    plan = many_groups_plan(10)
    survey = survey_id(plan)
    store.create(plan)
    seeded, seen, sent = random.Random(5), Counter[int](), Counter[int]()
    for nth in range(300):
        group = seeded.randrange(10)
        sent[group] += 1
        assert store.count([Submission(survey, key(nth), ((group, nth % 2, 1),))]) == ["counted"]
        with store.database.reading.connect() as connection:
            now = Counter(dict(tuple(row) for row in connection.execute(sa.text('SELECT "group", count FROM totals'))))
        grown = {group: now[group] - seen[group] for group in now if now[group] != seen[group]}
        assert all(more >= CROWD for more in grown.values()), grown
        seen = now
    assert seen.total() > 5 * CROWD
    totals = Counter[int]()
    for day in store.totals(survey).values():
        totals.update(day)
    assert totals == sent, "whoever may look sees all of them"
    store.change(survey, close=True)
    assert sum(sum(day.values()) for day in store.totals(survey).values()) == 300


def test_what_waits_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch):
    """With more groups than fit, those that have most are counted before their crowd is full."""
    monkeypatch.setattr("tacit.server.storage.vault.MOST_SEALED", 100)
    plan = many_groups_plan(30)
    survey = survey_id(plan)
    store.create(plan)
    for nth in range(180):
        store.count([Submission(survey, key(nth), ((nth % 30, 0, 1),))])
        with store.counting.moment(survey) as (_, pending):
            assert pending[survey].reports.total() <= 100
    assert store.n_reports(survey) == 180


# -- the sealed row --------------------------------------------------------------------------------------------------


def test_what_is_sealed_is_two_sets_and_older_versions_stay_shut(store: Store):
    store.create(wide_plan())
    contents = []
    for nth in range(5):
        store.count([Submission(WIDE, key(nth), ((0, nth, 1),))])
        with store.database.reading.connect() as connection:
            contents.append(connection.exec_driver_sql("SELECT version, content FROM sealed").one())
    assert {len(bytes(content)) for _, content in contents} == {1792 + 16}, "its length does not tell what came"
    with store.counting.moment(WIDE) as (_, pending):
        assert pending[WIDE].reports == Counter({(store.today(), 0, nth): 1 for nth in range(5)})
        assert len(pending[WIDE].keys) == 5
    for version, _ in contents[:-1]:
        with pytest.raises(VaultError, match="no seal"):
            store.vault.seal(life(store), version)


def test_a_seal_that_a_killed_process_left_is_forgotten_at_the_next_start(
    tmp_path: Path, days: Days, monkeypatch: pytest.MonkeyPatch
):
    """Else log and vault together would show two versions, whose difference is one tag and one report."""
    killed = Store(tmp_path, days)
    killed.create(wide_plan())
    killed.count([Submission(WIDE, key(0), ((0, 0, 1),))])
    monkeypatch.setattr(Vault, "replace", lambda *_: None)
    killed.count([Submission(WIDE, key(1), ((0, 1, 1),))])
    monkeypatch.undo()
    assert killed.vault.seal(life(killed), 1) != killed.vault.seal(life(killed), 2)
    again = Store(tmp_path, days)
    with pytest.raises(VaultError, match="no seal"):
        again.vault.seal(life(again), 1)
    assert again.n_reports(WIDE) == 2
    assert not (log := tmp_path / "tacit.sqlite-wal").exists() or not log.stat().st_size
    again.close()
    killed.close()


def test_counts_change_by_batches_while_a_survey_is_open(store: Store):
    store.create(wide_plan())
    seen = set()
    for nth in range(N + 7):
        store.count([Submission(WIDE, key(nth), ((0, nth, 1),))])
        with store.database.reading.connect() as connection:
            seen.add(connection.scalar(sa.text("SELECT coalesce(sum(count), 0) FROM totals")))
        assert store.n_reports(WIDE) == nth + 1, "whoever may look sees all of them"
    assert seen == {0, CROWD, 2 * CROWD, 3 * CROWD}
    store.change(WIDE, close=True)
    assert store.n_reports(WIDE) == N + 7
