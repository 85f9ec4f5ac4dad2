"""A real PostgreSQL for tests: Debian's binaries, a temporary directory, a free loopback port, durability left on."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg

from support.ports import free_port

_USER = "tacit_tests"
#: A database of its own for each test makes thousands of files: kept in memory where there is so much room. Processes
#: are killed here, and no machine loses its power, so nothing depends on what has reached a disk.
_MEMORY, _ROOM = Path("/dev/shm"), 4 * 2**30


def binaries() -> Path | None:
    """The folder of initdb and postgres: Debian keeps them out of the path."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    on_path = [Path(found).parent for found in [shutil.which("initdb")] if found]
    for folder in [*reversed(debian), *on_path]:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return None


class Postgres:
    """One cluster that can be stopped, killed and started again on the same data."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        self._owner = _unprivileged()
        self._process: subprocess.Popen[bytes] | None = None
        self._port = free_port()
        if self._owner is not None:
            os.chown(folder, self._owner.pw_uid, self._owner.pw_gid)
        options = ["--auth=trust", f"--username={_USER}", "--encoding=UTF8", "--locale=C", "--no-instructions"]
        self._start("initdb", *options, "-D", str(folder / "data")).wait(60)

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._port

    def url(self, database: str) -> str:
        """Where a database is."""
        return f"postgresql://{_USER}@127.0.0.1:{self._port}/{database}"

    def new_database(self) -> str:
        """The URL of a fresh database."""
        name = f"t{uuid4().hex}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return self.url(name)

    def start(self) -> None:
        """Start, and return when connections are taken."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self._port),
            "unix_socket_directories": str(self._folder),
            "max_connections": "60",
            "shared_buffers": "16MB",
            "min_wal_size": "32MB",
            # An abandoned lock fails the test that left it, instead of stopping all of them.
            "lock_timeout": "60s",
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            # After `kill`, the last of the old processes may keep a new one from starting for a moment.
            if self._process is None or self._process.poll() is not None:
                self._process = self._start("postgres", "-D", str(self._folder / "data"), *words)
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.url("postgres")):
                return
            time.sleep(0.05)
        raise RuntimeError(f"PostgreSQL does not start: {(self._folder / 'log').read_text()[-2000:]}")

    def kill(self) -> None:
        """Lose PostgreSQL at once, in the middle of whatever it does; its other processes die of it."""
        self._end(signal.SIGKILL)

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self._folder / "data"

    def checkpoint(self) -> None:
        """See to it that its files are as its memory is."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute("CHECKPOINT")

    def pids(self) -> list[int]:
        """All of its processes."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return [self._process.pid, *map(int, children)]

    def stop(self) -> None:
        """Stop at once; the data is thrown away afterwards, so nothing is folded in."""
        self._end(signal.SIGQUIT)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    def _start(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        owner = self._owner
        # Its own session: Ctrl-C leaves it to `stop`. Its own output: nobody who reads ours waits for it.
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(self._programs / program), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                start_new_session=True,
                env={"PATH": os.defpath, "LC_ALL": "C"},
                user=None if owner is None else owner.pw_uid,
                group=None if owner is None else owner.pw_gid,
                extra_groups=None if owner is None else [],
            )


def _unprivileged() -> pwd.struct_passwd | None:
    """Whom to run as: PostgreSQL refuses to run as root. None for whoever runs the tests."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("PostgreSQL refuses to run as root, and there is no user 'postgres' or 'nobody' to run it as.")


@contextlib.contextmanager
def running() -> Iterator[Postgres]:
    """A cluster for the time of the block. Raises FileNotFoundError if PostgreSQL is not installed."""
    programs = binaries()
    if programs is None:
        raise FileNotFoundError("PostgreSQL")
    roomy = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _ROOM
    place = _MEMORY if roomy else None
    with tempfile.TemporaryDirectory(prefix="tacit-postgres-", dir=place, ignore_cleanup_errors=True) as folder:
        # A socket's path may have about 100 letters, so the folder is not in pytest's.
        postgres = Postgres(programs, Path(folder))
        postgres.start()
        try:
            yield postgres
        finally:
            postgres.stop()
