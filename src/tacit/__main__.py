"""`python -m tacit`, and `run`, the entry point of the `tacit` command."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress


def main() -> None:
    """Run the command, or say which extra it needs."""
    try:
        from tacit.cli.everything import app
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich"):
            raise
        sys.exit("The tacit command needs its extra: pip install 'tacit-privacy[cli]'")
    except KeyboardInterrupt:
        sys.exit(130)
    app()


def run() -> None:
    """Run the command and end the process."""
    try:
        main()
    except SystemExit as done:
        if isinstance(done.code, int | None) and "pyarrow" in sys.modules:
            _leave(done.code or 0)
        raise


def _leave(code: int) -> None:
    """End the process without taking the interpreter down.

    A thread of Arrow's CSV reader may still be on its way back from a Python file, most of all after an error or an
    interrupt. If it comes back while the interpreter ends, Python stops with "Fatal Python error: PyGILState_Release".
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    run()
