"""A database of the first version becomes one of this version, with everything it knew and nothing that links."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from tacit.server import schema
from tacit.server.store import Store, Submission, survey_id
from tacit.server.tokens import Grant, grant_of

from support.service import FIRST_DAY, TOKEN, Days, grouped_plan, key, plain_plan, stored

PLAIN, CLOSED = survey_id(plain_plan()), survey_id(grouped_plan())
TABLES = Path(__file__).parent / "first_version"


def first_version(where: str) -> None:
    """A database as the first version left it: an open survey with five reports, and a closed one."""
    folder = Path(where)
    if "://" in where:
        engine = sa.create_engine(where.replace("postgresql:", "postgresql+psycopg:"))
    else:
        folder.mkdir(mode=0o700)
        engine = sa.create_engine(f"sqlite:///{folder}/tacit.sqlite")
    with engine.begin() as connection:
        script = (TABLES / f"{engine.dialect.name}.sql").read_text(encoding="utf-8")
        for statement in script.split(";")[:-1]:
            connection.exec_driver_sql(statement)
        survey = sa.text("INSERT INTO surveys VALUES (:id, :plan, :ask, :public, :opened, :closed, :secret, :key)")
        for plan, closed in ((plain_plan(), None), (grouped_plan(), FIRST_DAY)):
            row = {"id": survey_id(plan), "plan": json.dumps(plan.to_dict()), "ask": "Who?", "public": True}
            row |= {"opened": FIRST_DAY, "closed": closed, "secret": b"s", "key": None}
            connection.execute(
                survey.bindparams(sa.bindparam("opened", type_=sa.Date), sa.bindparam("closed", type_=sa.Date)), row
            )
        for table, count in (("counts", "2, 5"), ("totals", "5")):
            day = sa.bindparam("day", FIRST_DAY, sa.Date)
            connection.execute(sa.text(f"INSERT INTO {table} VALUES ('{PLAIN}', :day, 0, {count})").bindparams(day))
        for number in range(5):
            connection.exec_driver_sql(f"INSERT INTO keys VALUES ('{PLAIN}', '{key(number)}')")
        redeemed = {"name": PLAIN, "number": b"i" * 16, "blinded": b"b" * 32}
        connection.execute(sa.text("INSERT INTO redemptions VALUES (:name, :number, :blinded)"), redeemed)
        hashed = hashlib.sha256(TOKEN.encode()).digest()
        connection.execute(sa.text("INSERT INTO settings VALUES ('admin_token', :hash)"), {"hash": hashed})
    engine.dispose()


def test_everything_is_still_known(where: str, days: Days):
    first_version(where)
    store = Store(where, days)
    assert stored(store) == {(PLAIN, 0, 2): 5}
    again = [Submission(PLAIN, key(number), ((0, 2, 1),)) for number in range(7)]
    assert store.count(again) == ["already counted"] * 5 + ["counted"] * 2
    assert store.redeem(PLAIN, b"i" * 16, b"c" * 32) == "spent"
    assert store.redeem(PLAIN, b"i" * 16, b"b" * 32) == "redeemed"
    assert store.count([Submission(CLOSED, key(1), ((0, 0, 1),))]) == ["closed"]
    assert grant_of(store, f"Bearer {TOKEN}") == Grant("all")
    survey = store.survey(PLAIN)
    assert survey is not None
    assert (survey.public_results, survey.publish_every, survey.group_question) == (True, 20, "Who?")
    store.close()
    reopened = Store(where, days)
    assert stored(reopened) == {(PLAIN, 0, 2): 7}
    reopened.close()


def test_the_tables_are_those_of_a_new_database(where: str, days: Days):
    first_version(where)
    store = Store(where, days)
    with store.database.reading.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": store.database.kind == "postgresql"})
        assert compare_metadata(context, schema.metadata) == []
        assert connection.scalar(sa.select(schema.alembic_version.c.version_num)) == schema.REVISION
    store.close()


def test_the_old_keys_are_gone_from_the_files(tmp_path: Path, days: Days):
    first_version(str(tmp_path / "data"))
    file = tmp_path / "data" / "tacit.sqlite"
    assert key(3).encode() in file.read_bytes()
    Store(tmp_path / "data", days).close()
    assert key(3).encode() not in file.read_bytes()


def test_a_step_that_fails_changes_nothing(where: str, days: Days, monkeypatch: pytest.MonkeyPatch):
    first_version(where)
    with monkeypatch.context() as broken:
        broken.setattr("tacit.server.vault.Vault.create", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Store(where, days)
    store = Store(where, days)
    assert stored(store) == {(PLAIN, 0, 2): 5}
    store.close()


def test_a_database_that_is_up_to_date_needs_no_alembic(tmp_path: Path, days: Days):
    Store(tmp_path, days).close()
    code = "import sys; from datetime import date; from tacit.server.store import Store; "
    code += f"Store({str(tmp_path)!r}, date.today).close(); assert 'alembic' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
