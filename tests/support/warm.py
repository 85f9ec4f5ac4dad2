"""Commands and services that start at once: a process that has imported everything forks for each.

The documentation has a hundred commands, and a service is killed twenty times. Each would import for a second.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import runpy
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

from support.places import ROOT

#: Run in the place of `tacit`, or of `python`: hands over its words, folder, environment and streams, and waits for the
#: exit code. Who stops it stops the process that does the work.
CALL = """#!{python} -IS
import json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX) as line:
    line.connect({address!r})
    call = json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(line, [len(call).to_bytes(4, "big")], [0, 1, 2])
    line.sendall(call)
    worker = int(line.recv(8))
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, frame: os.kill(worker, number))
    sys.exit(int(line.recv(8) or 70))
"""


@contextmanager
def warm_command(folder: Path) -> Iterator[Path]:
    """Puts a `tacit`, and a `python` for `-m tacit` and `-c`, into a folder for the PATH, while the context lasts."""
    address = folder / "line"
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])}
    words = [sys.executable, "-m", "support.warm", str(address)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=env) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        for name in ("tacit", "python"):
            (folder / name).write_text(CALL.format(python=sys.executable, address=str(address)))
            (folder / name).chmod(0o755)
        try:
            yield folder
        finally:
            server.kill()


_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tacit.cli.everything", "tacit.server.run", "psycopg"])


def started(words: Sequence[str], stdout: Path, stderr: Path, environment: Mapping[str, str]) -> BaseProcess:
    """A process of its own that does what `python` with these words does, its output in files."""
    process = _FORKS.Process(target=_become, args=(list(words), str(stdout), str(stderr), dict(environment)))
    process.start()
    return process


def _become(words: list[str], stdout: str, stderr: str, environment: dict[str, str]) -> None:
    for place, path in ((1, stdout), (2, stderr)):
        with open(path, "ab") as file:
            os.dup2(file.fileno(), place)
    os.environ.clear()
    os.environ.update(environment)
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


def _serve(address: str) -> None:
    import duckdb  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import scipy.stats  # noqa: F401
    from pydantic import TypeAdapter  # noqa: F401

    import tacit.cli.demo
    import tacit.designs.rules
    import tacit.server.run
    import tacit.show.page
    import tacit.show.plans
    import tacit.show.results  # noqa: F401
    from tacit import Prior, Randomizer, Survey, Tally, estimate, make_plan
    from tacit.cli.everything import FILES, command_of

    for name in FILES:
        command_of(name)
    # Much is imported by what is done, and loops are read from where they are kept: once for all forks.
    plan = make_plan(Prior.of({"yes": 0.2, "no": 0.8}), Survey("yes"), epsilon=1)
    estimate(plan, Tally.of(plan, Randomizer(plan).randomize(["yes", "no"])))

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            line, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _answer(line)
            line.close()
            # Those that have ended since.
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def _answer(line: socket.socket) -> None:
    """Be the command, in the caller's place."""
    size, streams, _, _ = socket.recv_fds(line, 4, 3)
    with line.makefile("rb") as given:
        words, folder, environment = json.loads(given.read(int.from_bytes(size, "big")))
    line.sendall(f"{os.getpid():8}".encode())
    for place, stream in enumerate(streams):
        os.dup2(stream, place)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    code = 70
    try:
        _run(words)
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        line.sendall(str(code).encode())
        os._exit(code)


def _run(words: list[str]) -> None:
    """What `tacit` does with these words, or `python`."""
    # Not `main`, which may end the process before its exit code is handed over.
    from tacit.cli.everything import app

    called, rest = words[0], words[1:]
    if Path(called).name == "tacit" or rest[:2] == ["-m", "tacit"]:
        sys.argv = ["tacit", *(rest if Path(called).name == "tacit" else rest[2:])]
        app()
        return
    assert rest[0] == "-c", rest
    sys.argv = ["-c", *rest[2:]]
    exec(rest[1], {"__name__": "__main__"})


if __name__ == "__main__":
    _serve(sys.argv[1])
