"""`python -m tacit`, and the entry point of the `tacit` command."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command, or say which extra it needs."""
    # Designs are many small dense steps, which a single thread does fastest; numpy reads this when it loads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from tacit.cli import app
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich"):
            raise
        sys.exit("The tacit command needs its extra: pip install 'tacit[cli]'")
    app()


if __name__ == "__main__":
    main()
