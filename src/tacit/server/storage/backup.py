"""Backup and restore: copying a store, while it is in use, to an empty one, be it SQLite or PostgreSQL.

A backup is a data folder like any other: `tacit serve --data BACKUP` serves it. Rows are written in the order of their
keys, so that a backup keeps no order at all, and what is sealed is sealed anew, under a seal of the backup's own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa

from tacit.server.storage import schema
from tacit.server.storage.store import Store
from tacit.server.storage.vault import Pending

#: Rows that are held in memory at a time.
_ROWS = 10_000
#: What is not copied as it is: the target has a name and a seal of its own.
_OWN = (schema.sealed, schema.alembic_version)


def copy_store(source: Store, target: Store, progress: Callable[[int, int | None], None] = lambda n, all: None) -> int:
    """Copy everything as it is at one moment; how many surveys that were. The target must be empty."""
    _check_unused(target)
    surveys = schema.surveys
    with source.counting.moment() as (connection, pending):
        rows = connection.execute(sa.select(surveys.c.id, surveys.c.life).where(surveys.c.closed.is_(None))).all()
        with target.database.writing.begin() as writing:
            tables = [table for table in schema.metadata.sorted_tables if table not in _OWN]
            for nth, table in enumerate(tables):
                progress(nth, len(tables))
                _copy_table(connection, writing, table)
            for name, life in rows:
                target.vault.create(life, source.vault.secret(life))
                content = pending.get(name, Pending()).sealed(target.vault.new_seals({life: 1})[life], life)
                writing.execute(sa.insert(schema.sealed), {"survey": name, "version": 1, "content": content})
    return len(rows)


def _check_unused(target: Store) -> None:
    """Refuse a place that has been used; the proof of health that every start may leave does not count."""
    own = {"identity", "checked"}
    with target.database.reading.connect() as connection:
        for table in (each for each in schema.metadata.sorted_tables if each not in _OWN):
            query = sa.select(sa.func.count()).select_from(table)
            if connection.scalar(query.where(table.c.name.not_in(own)) if table is schema.settings else query):
                raise ValueError(
                    f"The place to copy to is in use: its table {table.name} is not empty. Name a new folder or an "
                    "empty database."
                )


def _copy_table(reading: sa.Connection, writing: sa.Connection, table: sa.Table) -> None:
    query = sa.select(table).order_by(*table.primary_key)
    if table is schema.settings:
        query = query.where(table.c.name.not_in(("identity", "checked")))
    for rows in reading.execute(query, execution_options={"yield_per": _ROWS}).partitions(_ROWS):
        writing.execute(sa.insert(table), [row._asdict() for row in rows])


def check_new(folder: Path) -> None:
    """Refuse to write a backup over something."""
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty. Name a new folder for the backup.")
