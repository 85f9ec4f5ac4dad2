"""Backup and restore: copying a store, while it is in use, to an empty one, be it SQLite or PostgreSQL.

A backup is a data folder like any other: `tacit serve --data BACKUP` serves it. Rows are written in the order of their
keys, so that a backup keeps no order at all, and what is sealed is sealed anew, under a seal of the backup's own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa

from tacit.server.storage import schema
from tacit.server.storage.counting import Counting
from tacit.server.storage.store import Store
from tacit.server.storage.vault import Pending

#: Rows that are held in memory at a time.
_ROWS = 10_000
#: What is not copied as it is: the target has a name and a seal of its own.
_OWN = (schema.sealed, schema.alembic_version)


def copy_store(source: Store, target: Store, progress: Callable[[int, int | None], None] = lambda n, all: None) -> int:
    """Copy everything as it is at one moment; how many surveys that were. The target must be empty."""
    with target.database.reading.connect() as connection:
        if connection.scalar(sa.select(sa.func.count()).select_from(schema.surveys)):
            raise ValueError("The place to copy to has surveys already. Name a new folder or an empty database.")
    with source.database.reading.connect() as connection:
        if source.database.kind == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        secrets, sealed = _moment(source, connection)
        with target.database.writing.begin() as writing:
            tables = [table for table in schema.metadata.sorted_tables if table not in _OWN]
            for nth, table in enumerate(tables):
                progress(nth, len(tables))
                _copy_table(connection, writing, table)
            for name, secret in secrets.items():
                target.vault.create(name, secret)
                with target.vault.locked(name) as held:
                    content = sealed[name].sealed(held.new_seal(1), name)
                writing.execute(sa.insert(schema.sealed), {"survey": name, "version": 1, "content": content})
    return len(secrets)


def _moment(source: Store, connection: sa.Connection) -> tuple[dict[str, bytes], dict[str, Pending]]:
    """The secrets and the sealed reports of all open surveys, and with the first of them the connection's moment."""
    with contextlib.ExitStack() as locks:
        held = {name: locks.enter_context(source.vault.locked(name)) for name in sorted(source.vault.names())}
        query = sa.select(schema.surveys.c.id, schema.surveys.c.vault_check)
        checks = {name: check for name, check in connection.execute(query) if check is not None}
        secrets = {name: source.vault.secret(name, check) for name, check in checks.items()}
        return secrets, {name: Counting.pending(connection, held[name], name)[1] for name in checks}


def _copy_table(reading: sa.Connection, writing: sa.Connection, table: sa.Table) -> None:
    query = sa.select(table).order_by(*table.primary_key)
    if table is schema.settings:
        query = query.where(table.c.name != "identity")
    for rows in reading.execute(query, execution_options={"yield_per": _ROWS}).partitions(_ROWS):
        writing.execute(sa.insert(table), [row._asdict() for row in rows])


def check_new(folder: Path) -> None:
    """Refuse to write a backup over something."""
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty. Name a new folder for the backup.")
