"""What is kept: tallies by day and, apart from them, keys. Nothing that ties a key to a report, and no time of day."""

from __future__ import annotations

import re
import sqlite3
from datetime import date
from pathlib import Path

import pytest
import sqlalchemy as sa

from tacit.server.storage.store import Store, Submission, survey_id
from tacit.server.storage.vault import tag

from support.postgres import Postgres
from support.service import Days, grouped_plan, key, plain_plan

PLAIN = survey_id(plain_plan())
#: The whole schema: a new column has to be written here, and in docs/service-data.md.
COLUMNS = {
    "surveys": {
        "id", "plan", "group_question", "public_results", "publish_every", "opened", "ends", "closed",
        "invitation_secret", "credential_key", "invitations", "life",
    },
    "counts": {"survey", "day", "group", "report", "count"},
    "arriving": {"survey", "day", "group", "piece", "content"},
    "coverage": {"survey", "day", "group", "sums"},
    "totals": {"survey", "day", "group", "count"},
    "refusals": {"survey", "day", "count"},
    "sealed": {"survey", "version", "content"},
    "published": {"survey", "day", "n_reports", "tally"},
    "keys": {"survey", "tag"},
    "redemptions": {"survey", "tag", "blinded"},
    "tokens": {"name", "hash", "role", "survey"},
    "settings": {"name", "value"},
    "alembic_version": {"version_num"},
}  # fmt: skip


def columns_of(store: Store) -> dict[str, dict[str, sa.types.TypeEngine[object]]]:
    """What the database itself says about its tables."""
    found = sa.inspect(store._reading)
    return {
        name: {str(column["name"]): column["type"] for column in found.get_columns(name)}
        for name in found.get_table_names()
    }


def is_number(kind: sa.types.TypeEngine[object]) -> bool:
    return isinstance(kind, sa.Integer | sa.Numeric | sa.Float)


def test_the_database_has_these_columns_and_no_others(store: Store):
    assert {name: set(columns) for name, columns in columns_of(store).items()} == COLUMNS


def test_no_time_is_finer_than_a_day(store: Store):
    kinds = [kind for columns in columns_of(store).values() for kind in columns.values()]
    assert not [kind for kind in kinds if isinstance(kind, sa.DateTime | sa.Time | sa.Interval)]
    assert sum(isinstance(kind, sa.Date) for kind in kinds) == 9
    numbers = [name for columns in columns_of(store).values() for name, kind in columns.items() if is_number(kind)]
    random, counted = {"piece"}, {"group", "report", "count", "n_reports", "version", "publish_every", "invitations"}
    assert set(numbers) == random | counted, "a time could also hide in a number"


def test_no_table_has_both_a_key_and_a_report_or_a_day(store: Store):
    for columns in columns_of(store).values():
        who = {"tag", "blinded"} & set(columns)
        what = {"report", "group", "count", "day"} & set(columns)
        assert not (who and what)


def test_the_database_adds_no_columns_that_tell_the_order_of_keys(tmp_path: Path, days: Days):
    opened = Store(tmp_path, days)
    opened.close()
    connection = sqlite3.connect(tmp_path / "tacit.sqlite")
    for table in (
        "keys",
        "redemptions",
        "published",
        "counts",
        "coverage",
        "totals",
        "refusals",
    ):
        with pytest.raises(sqlite3.OperationalError, match="no such column: rowid"):
            connection.execute(f"SELECT rowid FROM {table}")
    connection.close()


def test_sqlite_syncs_every_commit_and_overwrites_what_it_erases(tmp_path: Path, days: Days):
    store = Store(tmp_path, days)
    for engine in (store._writing, store._reading):
        with engine.connect() as connection:
            found = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "secure_delete")
            }
        assert found == {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1}
    store.close()


def test_postgresql_syncs_every_commit(on_postgres: str, days: Days):
    store = Store(on_postgres, days)
    with store._writing.connect() as connection:
        found = [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in ("fsync", "synchronous_commit")]
    assert found == ["on", "on"]
    store.close()


def files_in(*folders: Path) -> bytes:
    paths = sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())
    # PostgreSQL makes its log longer than what is written.
    return b"".join(path.read_bytes().rstrip(b"\0") for path in paths)


def fill(store: Store) -> tuple[list[str], list[str]]:
    """Many keys at once, and six one by one; some of them with the tags that they leave."""
    store.create(plain_plan())
    keys = [f"{i:04x}" + "fedcba9876543210" + f"{i:012x}" for i in range(506)]
    groups = [keys[:500], *([each] for each in keys[500:])]
    for group in groups:
        store.count([Submission(PLAIN, each, ((0, 0, 1),)) for each in group])
    survey = store.survey(PLAIN)
    assert survey is not None
    secret = store.vault.secret(survey.life)
    # A search for all of them would take long.
    some = [*keys[:500:50], *keys[500:]]
    return some, [tag(secret, "key", each.encode()) for each in some]


def found(names: list[str], data: bytes) -> int:
    return sum(name.encode() in data or bytes.fromhex(name) in data for name in names)


def test_closing_erases_while_the_service_runs(tmp_path: Path, days: Days):
    store = Store(tmp_path, days)
    keys, tags = fill(store)
    secret = next(iter(store.vault._secrets.values()))
    assert (found(keys, files_in(tmp_path)), found(tags, files_in(tmp_path))) == (0, 10), "tags would be found"
    assert secret in files_in(tmp_path)
    store.change(PLAIN, close=True)
    left = files_in(tmp_path)
    assert (found(keys, left), found(tags, left), secret in left) == (0, 0, False)
    assert plain_plan().hash.encode() in left, "the survey is still there"
    assert store.n_reports(PLAIN) == 506
    store.close()


def test_closing_erases_in_postgresql_but_for_its_log(postgres: Postgres, days: Days):
    # What other tests have logged is let go.
    postgres.checkpoint()
    store = Store(postgres.new_database(), days)
    keys, tags = fill(store)
    secret = next(iter(store.vault._secrets.values()))
    store.change(PLAIN, close=True)
    postgres.checkpoint()
    with store.database.reading.connect() as connection:
        number = connection.exec_driver_sql("SELECT oid FROM pg_database WHERE datname = current_database()").scalar()
    data = files_in(postgres.folder / "base" / str(number))
    assert (found(keys, data), found(tags, data)) == (0, 0)
    log = files_in(postgres.folder / "pg_wal")
    assert found(keys, log) == 0, "no key was ever written"
    assert found(tags, log) == 10, "tags of crowds are, until it is overwritten; what they were made with is gone"
    assert secret not in data + log
    assert secret not in files_in(store.vault.folder)
    store.close()


def test_deleting_erases_in_postgresql_but_for_its_log(postgres: Postgres, days: Days):
    """Question, signing key and counts too, and not only for queries: dead rows would keep them."""
    store = Store(postgres.new_database(), days)
    store.create(plain_plan(), credential_key=b"the key that signs credentials", group_question="Of which club?")
    store.create(grouped_plan())
    store.count([Submission(PLAIN, f"{n:032x}", ((0, 0, 1),)) for n in range(100)])
    store.set_setting(f"texts:{PLAIN}", b"what the team said")
    kept = [b"the key that signs", b"Of which club?", b"How often?", b"what the team said", PLAIN.encode()]
    with store.database.reading.connect() as connection:
        number = connection.exec_driver_sql("SELECT oid FROM pg_database WHERE datname = current_database()").scalar()
    postgres.checkpoint()
    assert all(each in files_in(postgres.folder / "base" / str(number)) for each in kept)
    store.delete(PLAIN)
    postgres.checkpoint()
    left = files_in(postgres.folder / "base" / str(number))
    assert [each for each in kept if each in left] == []
    assert b"Do you?" in left, "the other survey is there"
    store.close()


def test_the_files_hold_no_time_of_day(tmp_path: Path, days: Days):
    store = Store(tmp_path, days)
    store.create(plain_plan())
    store.count([Submission(PLAIN, key(1), ((0, 0, 1),))])
    store.close()
    data = (tmp_path / "tacit.sqlite").read_bytes()
    assert str(days.day).encode() in data
    assert not re.search(rb"\d\d:\d\d:\d\d", data)
    assert date.today().isoformat().encode() not in data or date.today() == days.day


@pytest.mark.parametrize("url", ["mysql://localhost/tacit", "https://example.org"])
def test_other_databases_are_refused_without_their_passwords(days: Days, url: str):
    with pytest.raises(ValueError, match="a folder or the URL of a PostgreSQL") as refused:
        Store(url.replace("//", "//me:secret@"), days)
    assert "secret" not in str(refused.value)
