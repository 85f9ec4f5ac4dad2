"""What is kept: tallies by day and, apart from them, keys. Nothing that ties a key to a report, and no time of day."""

from __future__ import annotations

import re
import sqlite3
from datetime import date
from pathlib import Path

import pytest
import sqlalchemy as sa

from tacit.server.store import Store, Submission, survey_id

from support.service import Days, key, plain_plan

PLAIN = survey_id(plain_plan())
#: The whole schema: a new column has to be written here, and in docs/service-data.md.
COLUMNS = {
    "surveys": {
        "id", "plan", "group_question", "public_results", "opened", "closed", "invitation_secret", "credential_key",
    },
    "counts": {"survey", "day", "group", "report", "count"},
    "coverage": {"survey", "day", "group", "sums"},
    "totals": {"survey", "day", "group", "count"},
    "refusals": {"survey", "day", "count"},
    "keys": {"survey", "key"},
    "redemptions": {"survey", "invitation", "blinded"},
    "settings": {"name", "value"},
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
    assert sum(isinstance(kind, sa.Date) for kind in kinds) == 6
    numbers = [name for columns in columns_of(store).values() for name, kind in columns.items() if is_number(kind)]
    assert set(numbers) == {"group", "report", "count"}, "a time could also hide in a number"


def test_no_table_has_both_a_key_and_a_report_or_a_day(store: Store):
    for columns in columns_of(store).values():
        who = {"key", "invitation", "blinded"} & set(columns)
        what = {"report", "group", "count", "day"} & set(columns)
        assert not (who and what)


def test_the_database_adds_no_columns_that_tell_the_order_of_keys(tmp_path: Path, days: Days):
    opened = Store(tmp_path, days)
    opened.close()
    connection = sqlite3.connect(tmp_path / "tacit.sqlite")
    for table in ("keys", "redemptions", "counts", "coverage", "totals", "refusals"):
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


def test_erased_keys_are_gone_from_the_files(tmp_path: Path, days: Days):
    store = Store(tmp_path, days)
    store.create(plain_plan())
    names = [f"{i:04x}" + "fedcba9876543210" + f"{i:012x}" for i in range(500)]
    store.count([Submission(PLAIN, name, ((0, 0, 1),)) for name in names])
    files = lambda: b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))  # noqa: E731
    assert names[7].encode() in files()
    store.change(PLAIN, close=True)
    store.close()
    left = files()
    assert not [name for name in names if name.encode() in left]
    assert plain_plan().hash.encode() in left, "the survey is still there"


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
