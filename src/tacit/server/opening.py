"""Opening a database: a new one gets its tables, one of an earlier revision is upgraded, any other is refused."""

from __future__ import annotations

import sqlalchemy as sa

from tacit.randomize.randomness import secret_bytes
from tacit.server import schema
from tacit.server.engines import Database

#: Processes that start at once prepare the tables one after the other, under this PostgreSQL lock.
_LOCK = 7_236_548


def prepare(database: Database) -> str:
    """Make sure that the tables are there and of this version; the name under which the vault keeps its secrets."""
    try:
        with database.writing.begin() as connection:
            be_alone(connection)
            return _create(connection) if _is_empty(connection) else _check(connection)
    except sa.exc.DBAPIError as error:
        where = "" if database.file is None else f" {database.file}"
        raise OSError(f"The database{where} cannot be used: {str(error.orig).strip()}.") from error


def be_alone(connection: sa.Connection) -> None:
    """Let no other process make tables or secrets until this transaction ends; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))


def _is_empty(connection: sa.Connection) -> bool:
    """Whether there are no tables at all; refuses the tables of another program."""
    tables = set(sa.inspect(connection).get_table_names())
    if tables and not tables >= {"alembic_version", "settings"}:
        raise ValueError(
            f"The database is not one of tacit's: it has the tables {', '.join(sorted(tables)[:5])}. Name an empty one."
        )
    return not tables


def _create(connection: sa.Connection) -> str:
    """All tables, and a new random name."""
    # Without Alembic, whose import takes longer than all of this. Its baseline creates the same, which a test compares.
    schema.metadata.create_all(connection, checkfirst=False)
    connection.execute(sa.insert(schema.alembic_version), {"version_num": schema.REVISION})
    name = secret_bytes(8).hex()
    connection.execute(sa.insert(schema.settings), {"name": "identity", "value": name.encode()})
    return name


def _check(connection: sa.Connection) -> str:
    """The name of a database of this revision, upgraded to it if need be."""
    revision = connection.scalar(sa.select(schema.alembic_version.c.version_num))
    if revision is None or revision > schema.REVISION:
        raise ValueError(
            f"The database is of revision {revision}; this version of tacit knows {schema.REVISION}. "
            "Use the version that made it, or a newer one."
        )
    if revision < schema.REVISION:
        from tacit.server.migrations import upgrade

        upgrade(connection)
    found = connection.scalar(sa.select(schema.settings.c.value).where(schema.settings.c.name == "identity"))
    if found is None:
        raise ValueError("The database has lost its name, under which its secrets are kept. Restore it from a backup.")
    return bytes(found).decode()
