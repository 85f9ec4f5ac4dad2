"""Opening a database: a new one gets its tables, an older one is brought up to date, any other is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tacit.randomize.randomness import secret_bytes
from tacit.server import schema
from tacit.server.engines import Database

#: Processes that start at once prepare the tables one after the other, under this PostgreSQL lock.
_LOCK = 7_236_548
#: The tables of the version before there were revisions.
_FIRST = {"surveys", "counts", "coverage", "totals", "refusals", "keys", "redemptions", "settings"}


def prepare(database: Database) -> str:
    """See to it that the tables are there and of this version; the name under which the vault keeps its secrets."""
    try:
        with database.writing.begin() as connection:
            be_alone(connection)
            name, moved = _prepare(connection, database.vault)
        if moved and database.kind == "sqlite":
            # Pages that were written in the order in which reports came are written anew.
            with database.writing.connect() as connection:
                raw: Any = connection.connection.driver_connection
                raw.execute("VACUUM")
        return name
    except sa.exc.DBAPIError as error:
        where = "" if database.file is None else f" {database.file}"
        raise OSError(f"The database{where} cannot be used: {str(error.orig).strip()}.") from error


def be_alone(connection: sa.Connection) -> None:
    """Let no other process make tables or secrets until this transaction ends; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))


def _prepare(connection: sa.Connection, vault: Path) -> tuple[str, bool]:
    """The database's name, and whether it was of an earlier version."""
    revision = _revision(connection)
    if revision is None:
        # There is none, so none of them has to be looked for.
        schema.metadata.create_all(connection, checkfirst=False)
        connection.execute(sa.insert(schema.alembic_version), {"version_num": schema.REVISION})
        name = secret_bytes(8).hex()
        connection.execute(sa.insert(schema.settings), {"name": "identity", "value": name.encode()})
        return name, False
    if revision != schema.REVISION:
        # Alembic takes its time to import, and is needed once per version.
        from tacit.server.migrations import upgrade

        upgrade(connection, revision, vault)
    found = connection.scalar(sa.select(schema.settings.c.value).where(schema.settings.c.name == "identity"))
    if found is None:
        raise ValueError("The database has lost its name, under which its secrets are kept. Restore it from a backup.")
    return bytes(found).decode(), revision != schema.REVISION


def _revision(connection: sa.Connection) -> str | None:
    """The revision of the tables that are there; None if there are none."""
    tables = set(sa.inspect(connection).get_table_names())
    if not tables:
        return None
    if "alembic_version" in tables and "settings" in tables:
        revision = connection.scalar(sa.select(schema.alembic_version.c.version_num))
        if revision is not None and (revision <= schema.REVISION):
            return str(revision)
        raise ValueError(
            f"The database is of revision {revision}; this version of tacit knows {schema.REVISION}. "
            "Use the version that made it, or a newer one."
        )
    if tables >= _FIRST:
        return "0001"
    raise ValueError(
        f"The database is not one of tacit's: it has the tables {', '.join(sorted(tables)[:5])}. Name an empty one."
    )
