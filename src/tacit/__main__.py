"""`python -m tacit`, and the entry point of the `tacit` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command, or say which extra it needs."""
    try:
        from tacit.cli import collecting, estimating, plans, serve, studies  # noqa: F401 (they add their commands)
        from tacit.cli.app import app
        from tacit.cli.personal import app as personal
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich"):
            raise
        sys.exit("The tacit command needs its extra: pip install 'tacit-privacy[cli]'")
    except KeyboardInterrupt:
        sys.exit(130)
    app.add_typer(personal, name="personal")
    app()


if __name__ == "__main__":
    main()
