"""`python -m tacit`, and the entry point of the `tacit` command."""

from __future__ import annotations

import sys


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


if __name__ == "__main__":
    main()
