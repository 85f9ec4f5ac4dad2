"""`python -m studies`, or `make figures`: the paper's figures, as published and as corrected, and ours on real data."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from studies.figure import Options
from studies.loaders import DEFAULT_DATA
from studies.reproduce import FIGURES, Reproduction, reproduce
from tacit.cli.app import progress_bar


def main(words: list[str] | None = None) -> int:
    """Compute the figures and print what became of each; 1 if a simulated point contradicts theory."""
    asked = _parser().parse_args(words)
    options = Options(runs=asked.runs, seed=asked.seed, data=asked.data)
    with progress_bar("computing figures") as watch:
        watch(0, None)
        try:
            made = reproduce(asked.figures, asked.out, options, watch, force=asked.force)
        except ValueError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
    console = Console(highlight=False, soft_wrap=True)
    show(console, made)
    if not made.agrees:
        console.print("[red]Monte Carlo contradicts theory; see the page.[/red]")
    return 0 if made.agrees else 1


def show(console: Console, made: Reproduction) -> None:
    """Print the remark of each figure, or which data it lacks."""
    for outcome in made.outcomes:
        if outcome.figure is None:
            console.print(f"[yellow]{outcome.name}: left out. {escape(outcome.missing or '')}[/yellow]")
            continue
        took = f"{outcome.seconds:.1f} s" if outcome.computed else "kept"
        console.print(f"[bold]{escape(outcome.figure.title)}[/bold] ({took})")
        console.print(escape(outcome.figure.remark))
    console.print(f"wrote {escape(str(made.page))} in {made.seconds:.0f} s")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m studies", description=__doc__)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"all if none is named: {', '.join(FIGURES)}")
    parser.add_argument("--out", type=Path, default=Path("out/figures"), metavar="DIR", help="default: %(default)s")
    parser.add_argument(
        "--data", type=_folder, metavar="DIR", help=f"folder with the public data sets; default: {DEFAULT_DATA}"
    )
    parser.add_argument("--runs", type=int, default=10_000, metavar="N", help="Monte-Carlo runs; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the same seed gives the same files")
    parser.add_argument("--force", action="store_true", help="compute also the figures that an earlier call kept")
    return parser


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path}")
    return path


if __name__ == "__main__":
    sys.exit(main())
