"""The database: SQLite in a folder that only its owner reads, or PostgreSQL by its URL.

A new one gets its tables, one of an earlier revision is upgraded, any other is refused.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tacit.randomize.randomness import secret_bytes
from tacit.server.storage import schema

#: Seconds to wait for a database that does not answer or is locked, before a request is refused with 503.
PATIENCE = 5
_FILE = "tacit.sqlite"


class GoneError(OSError):
    """The database's file was deleted or replaced while it was in use."""


@dataclass(frozen=True)
class Database:
    """One engine that writes and one that reads, the same for PostgreSQL, and the folder of the vault."""

    writing: sa.Engine
    reading: sa.Engine
    vault: Path
    #: SQLite's file, and what it was when it was opened.
    file: Path | None = None
    opened: tuple[int, int] | None = None
    #: The connections to PostgreSQL that threads wait for, by thread.
    in_use: dict[int, Any] = field(default_factory=dict)

    def give_up(self, thread: int) -> None:
        """End the connection that a thread waits for: what it waits for fails, and the next one is a fresh one."""
        connection = self.in_use.get(thread)
        with suppress(Exception):
            if connection is not None:
                with socket.socket(fileno=os.dup(connection.fileno())) as line:
                    line.shutdown(socket.SHUT_RDWR)

    @property
    def kind(self) -> str:
        return self.writing.dialect.name

    def check_there(self) -> None:
        """Raise if the file is not the one that was opened: what is written would be lost."""
        if self.file is not None and _identity(self.file) != self.opened:
            raise GoneError(f"The database {self.file} was deleted or replaced while it was in use.")

    @contextmanager
    def served_once(self) -> Iterator[None]:
        """While the block lasts, refuse a second service on the same SQLite folder; the kernel unlocks a dead one's.

        The lock is a file of its own: closing any descriptor of the database would drop SQLite's locks.
        """
        if self.file is None:
            yield
            return
        descriptor = os.open(self.file.with_name("serving"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ValueError(
                    f"Another `tacit serve` uses the folder {self.file.parent}. Stop it first, or name another folder "
                    "with --data. For several services on the same surveys use PostgreSQL."
                ) from error
            yield
        finally:
            os.close(descriptor)


def open_database(where: str, vault: Path | None, allow_wide: bool) -> Database:
    """The database in a folder or at a URL."""
    if where.startswith(("postgresql:", "postgres:", "postgresql+psycopg:")):
        return _postgresql(where, vault)
    if "://" in where:
        raise ValueError(f"The data must be a folder or the URL of a PostgreSQL. Got {where.partition('://')[0]}://….")
    return _sqlite(Path(where), vault, allow_wide)


def _postgresql(where: str, vault: Path | None) -> Database:
    try:
        url = sa.make_url(where).set(drivername="postgresql+psycopg")
    except (sa.exc.ArgumentError, ValueError) as error:
        raise ValueError("The URL of the PostgreSQL is not one. Expected postgresql://user@host/database.") from error
    timeouts = f"-c lock_timeout={PATIENCE}s -c statement_timeout={12 * PATIENCE}s"
    # A peer that vanished without a word is given up by the kernel: within seconds while something is under way to it
    # (tcp_user_timeout, in milliseconds), and while an answer is awaited (keepalives).
    kept_alive = {"keepalives": 1, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
    engine = sa.create_engine(
        url,
        pool_timeout=PATIENCE,
        connect_args={"connect_timeout": PATIENCE, "options": timeouts, "tcp_user_timeout": int(1000 * PATIENCE)}
        | kept_alive,
    )
    database = Database(engine, engine, vault or Path(os.environ.get("TACIT_SECRETS", "tacit-secrets")))

    @sa.event.listens_for(engine, "checkout")
    def _used(connection: Any, *_: Any) -> None:
        database.in_use[threading.get_ident()] = connection
        # SQLAlchemy's own look whether a connection lives comes before this, when nobody could end it.
        try:
            engine.dialect.do_ping(connection)
        except sa.exc.DBAPIError as error:
            raise sa.exc.InvalidatePoolError from error
        except engine.dialect.loaded_dbapi.Error as error:
            raise sa.exc.InvalidatePoolError from error

    @sa.event.listens_for(engine, "checkin")
    def _returned(*_: Any) -> None:
        database.in_use.pop(threading.get_ident(), None)

    return database


def _sqlite(folder: Path, vault: Path | None, allow_wide: bool) -> Database:
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"The data must be a folder or the URL of a PostgreSQL. Got the file {folder}.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _keep_private(folder, allow_wide)
    file = folder / _FILE
    # Files that SQLite puts beside it get the same mode.
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    url = sa.URL.create("sqlite", database=str(file))
    # One writer: a second one, even of another process, waits for it.
    writing = sa.create_engine(url, pool_size=1, max_overflow=0, connect_args={"timeout": PATIENCE})
    reading = sa.create_engine(url, connect_args={"timeout": PATIENCE})
    _configure(writing, "BEGIN IMMEDIATE")
    _configure(reading, "BEGIN")
    return Database(writing, reading, vault or folder / "secrets", file, _identity(file))


def _keep_private(folder: Path, allow_wide: bool) -> None:
    """Refuse a folder that others can look into; its files are made private in any case."""
    if not any(folder.iterdir()):
        folder.chmod(0o700)
    for path in folder.glob(f"{_FILE}*"):
        with suppress(FileNotFoundError):
            path.chmod(0o600)
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o077 and not allow_wide:
        raise ValueError(
            f"Others on this machine can look into the data folder {folder} (mode {mode:04o}). Make it private, "
            f"chmod 700 {folder}, or give --allow-wide-folder."
        )


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _configure(engine: sa.Engine, begin: str) -> None:
    """Take transactions out of the driver's hands, and make commits durable and erased rows really gone."""

    @sa.event.listens_for(engine, "connect")
    def _connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
            _patiently(connection, f"PRAGMA {pragma}")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql(begin)


def _patiently(connection: Any, statement: str) -> None:
    """Do it again while processes that start at the same time are in each other's way: SQLite does not wait by itself
    where the mode of its log is set.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute(statement).close()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


# -- tables -----------------------------------------------------------------------------------------------------------

#: Processes that start at once prepare the tables one after the other, under this PostgreSQL lock.
_LOCK = 7_236_548


def prepare(database: Database, migrate: bool = True) -> str:
    """Make sure that the tables are there and of this version; the name under which the vault keeps its secrets."""
    try:
        with database.writing.begin() as connection:
            be_alone(connection)
            return _create(connection) if _is_empty(connection) else _check(connection, migrate)
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
    # Without Alembic, whose import takes longer than all of this.
    schema.metadata.create_all(connection, checkfirst=False)
    connection.execute(sa.insert(schema.alembic_version), {"version_num": schema.REVISION})
    name = secret_bytes(8).hex()
    connection.execute(sa.insert(schema.settings), {"name": "identity", "value": name.encode()})
    return name


def _check(connection: sa.Connection, migrate: bool) -> str:
    """The name of a database of this revision, upgraded to it if need be."""
    revision = connection.scalar(sa.select(schema.alembic_version.c.version_num))
    if revision is None or revision > schema.REVISION:
        raise ValueError(
            f"The database is of revision {revision}; this version of tacit knows {schema.REVISION}. "
            "Use the version that made it, or a newer one."
        )
    if revision < schema.REVISION:
        if not migrate:
            raise ValueError(
                f"The database is of revision {revision}; this version of tacit makes it {schema.REVISION} when it "
                "serves it, which nothing else does. Use the version that made it."
            )
        from tacit.server.storage.migrations import upgrade

        upgrade(connection)
    found = connection.scalar(sa.select(schema.settings.c.value).where(schema.settings.c.name == "identity"))
    if found is None:
        raise ValueError("The database has lost its name, under which its secrets are kept. Restore it from a backup.")
    return bytes(found).decode()
