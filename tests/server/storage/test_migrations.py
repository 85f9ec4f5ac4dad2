"""The tables: Alembic's baseline creates what the models say, and a database of a later revision is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from tacit.server.storage import schema
from tacit.server.storage.database import open_database
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


def definitions(connection: sa.Connection) -> list[str]:
    """SQLite's own text of each table, columns in any order."""
    rows = connection.execute(sa.text("SELECT sql FROM sqlite_master WHERE type = 'table'")).scalars()
    return sorted("".join(sorted(sql.replace(",", "\n").splitlines())) for sql in rows)


def test_the_baseline_creates_the_tables_of_the_models(where: str, days: Days, tmp_path: Path):
    database = open_database(where, tmp_path / "secrets", allow_wide=True)
    with database.writing.begin() as connection:
        upgrade(connection)
        assert differences(connection) == []
        assert connection.scalar(sa.select(schema.alembic_version.c.version_num)) == schema.REVISION
        # A column that is missing or too much is noticed.
        connection.exec_driver_sql("ALTER TABLE tokens ADD COLUMN more INTEGER")
        assert differences(connection) != []
    database.writing.dispose()


def test_types_and_keys_are_the_same_on_sqlite(tmp_path: Path, days: Days):
    Store(tmp_path / "new", days).close()
    by_models = open_database(str(tmp_path / "new"), None, allow_wide=False)
    by_baseline = open_database(str(tmp_path / "baseline"), None, allow_wide=False)
    with by_models.reading.connect() as one, by_baseline.writing.begin() as other:
        upgrade(other)
        ours = [text for text in definitions(one) if "alembic_version" not in text]
        assert ours == [text for text in definitions(other) if "alembic_version" not in text]
        assert len(ours) == len(schema.metadata.tables) - 1


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
