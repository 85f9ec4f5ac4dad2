"""The `tacit` command: argument parsing and printing only."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the `tacit` command."""
    try:
        import typer
    except ModuleNotFoundError:
        sys.exit("The tacit command needs its extra: pip install 'tacit[cli]'")
    import tacit
    from tacit import demo

    app = typer.Typer(help="Ask a crowd, learn the total, never the person.", no_args_is_help=True)

    def show_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"tacit {tacit.__version__}")
            raise typer.Exit

    @app.callback()
    def options(
        version: bool = typer.Option(
            False, "--version", callback=show_version, is_eager=True, help="Print the version."
        ),
    ) -> None:
        pass

    @app.command("demo")
    def demo_command() -> None:
        """Plan a yes/no survey on a rare disease and compare what it costs under LIP, LDP and without data."""
        demo.run()

    app()
