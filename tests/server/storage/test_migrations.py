"""The tables: Alembic leads to what the models say, and a database of a later revision is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from tacit.server.storage import schema
from tacit.server.storage.migrations import upgrade
from tacit.server.storage.store import Store

from support.service import Days


def differences(connection: sa.Connection) -> list[object]:
    """How the tables that are there differ from the models."""
    types = connection.dialect.name == "postgresql"
    found: list[object] = compare_metadata(
        MigrationContext.configure(connection, opts={"compare_type": types}), schema.metadata
    )
    return found


def test_alembic_leads_to_the_tables_of_the_models(where: str, days: Days):
    store = Store(where, days)
    with store.database.writing.begin() as connection:
        connection.execute(sa.delete(schema.alembic_version))
        upgrade(connection)
        assert differences(connection) == []
        assert connection.scalar(sa.select(schema.alembic_version.c.version_num)) == schema.REVISION
        # A column that is missing or too much is noticed.
        connection.exec_driver_sql("ALTER TABLE tokens ADD COLUMN more INTEGER")
        assert differences(connection) != []
    store.close()


def test_an_empty_database_is_created_and_needs_no_alembic(where: str, days: Days, tmp_path: Path):
    store = Store(where, days)
    with store.database.reading.connect() as connection:
        assert differences(connection) == []
        assert connection.scalar(sa.select(schema.alembic_version.c.version_num)) == schema.REVISION
    store.close()
    code = "import sys; from datetime import date; from tacit.server.storage.store import Store; "
    code += f"Store({str(tmp_path / 'another')!r}, date.today).close(); assert 'alembic' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("revision", ["9999", None])
def test_a_database_of_a_later_revision_is_refused_and_left_alone(where: str, days: Days, revision: str | None):
    store = Store(where, days)
    with store.database.writing.begin() as connection:
        connection.execute(sa.delete(schema.alembic_version))
        if revision is not None:
            connection.execute(sa.insert(schema.alembic_version), {"version_num": revision})
    store.close()
    for _ in range(2):
        with pytest.raises(ValueError, match=f"of revision {revision}; this version of tacit knows {schema.REVISION}"):
            Store(where, days)
