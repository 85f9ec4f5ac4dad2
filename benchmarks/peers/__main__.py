"""Tacit beside its peers: speed, size, error, coverage and the audited level, on the same people in the same run.

    make bench-peers                       a quarter of an hour on two idle cores
    make bench-peers ARGS=--quick          a few minutes

Every system makes reports of the values of the same people and reads shares from them. Errors are about these people,
so they are what privacy costs and nothing else. A system that is too slow for all of them runs on as many as there is
time for, and its error, which falls as 1/N, is scaled. Writes out/peers: results.csv, goals.csv, plots as PNG and SVG.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from peers import of_multi_freq, of_others, of_pure_ldp, of_tacit, show
from peers.audit import Level, audited
from peers.equal_level import best_ldp_error
from peers.machine import Goal, machine_goals
from peers.measure import measure, runs_for
from peers.peer import Peer
from peers.results import Cell, Row, goals, write_csv
from peers.truth import TRUTHS, people
from tacit import Prior

SIZES, BUDGETS = (2, 16, 100, 1_000, 10_000), (0.5, 1.0, 2.0)
QUICK_SIZES, QUICK_BUDGETS = (2, 100), (1.0,)
#: Seconds for all runs of one system in one cell; its audit samples for a quarter of that.
SECONDS, QUICK_SECONDS = 1.2, 0.8


def others(d: int, epsilon: float) -> list[Peer]:
    """Every peer's protocols; they do not look at the truth."""
    return [*of_pure_ldp.peers(d, epsilon), *of_multi_freq.peers(d, epsilon), *of_others.peers(d, epsilon)]


def run(options: argparse.Namespace, progress: Progress) -> Iterator[Row]:
    """All rows, cell by cell."""
    task = progress.add_task("", total=len(options.sizes) * len(options.budgets) * len(options.truths))
    for d in options.sizes:
        truths = {name: make(d) for name, make in TRUTHS.items() if name in options.truths}
        for epsilon in options.budgets:
            audits: dict[str, Level] = {}
            for name, truth in truths.items():
                cell = Cell(d, epsilon, name)
                progress.update(task, description=f"{cell}: designs")
                for peer in [*of_tacit.peers(truth, epsilon), *others(d, epsilon)]:
                    progress.update(task, description=f"{cell}: {peer.name}")
                    yield row(cell, peer, truth, audits, options)
                progress.advance(task)
    progress.update(task, description="all measured")


def row(cell: Cell, peer: Peer, truth: Prior, audits: dict[str, Level], options: argparse.Namespace) -> Row:
    """One system in one cell. A peer that fails is told, not dropped; Tacit must not."""
    try:
        draw = partial(people, truth, seed=options.seed)
        measured = measure(peer, cell.d, draw, runs_for(cell.d, options.quick), options.seconds)
        if peer.system == of_tacit.SYSTEM:
            level = audited(peer, cell.d)
        else:
            # The same code at the same ε: what the truth is does not matter.
            level = audits[peer.name] = audits.get(peer.name) or audited(peer, cell.d, options.seconds / 4)
    except Exception as failure:
        if peer.system == of_tacit.SYSTEM:
            raise
        return Row(cell, peer, failure=f"{type(failure).__name__}: {failure}")
    equal = best_ldp_error(truth, round(level.ldp, 9)) if peer.notion == "LIP" and level.ldp else None
    return Row(cell, peer, measured, level, best_ldp_error(truth, cell.epsilon), equal)


def write_goals(found: list[Goal], path: Path) -> None:
    """For scripts."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["what", "goal", "measured", "met"])
        writer.writerows([goal.what, goal.wanted, goal.measured, goal.met] for goal in found)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench-peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer sizes and budgets, less time for each")
    parser.add_argument("--out", type=Path, default=Path("out/peers"), help="folder for results and plots")
    parser.add_argument("--seed", type=int, default=0, help="of the people, not of anybody's reports")
    parser.add_argument("--sizes", type=lambda text: tuple(map(int, text.split(","))), help="numbers of values")
    parser.add_argument("--budgets", type=lambda text: tuple(map(float, text.split(","))), help="values of ε")
    parser.add_argument("--truths", type=lambda text: text.split(","), default=list(TRUTHS), help="Zipf, uniform")
    parser.add_argument(
        "--seconds", type=float, help=f"for one system in one cell; {SECONDS:g}, quick {QUICK_SECONDS:g}"
    )
    options = parser.parse_args()
    options.seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    options.sizes = options.sizes or (QUICK_SIZES if options.quick else SIZES)
    options.budgets = options.budgets or (QUICK_BUDGETS if options.quick else BUDGETS)
    return options


def main() -> None:
    options, console = parse(), Console(highlight=False, width=170)
    warnings.simplefilter("ignore")
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    ours: list[Goal] = []
    try:
        with Progress(*columns, console=Console(stderr=True)) as progress:
            for found in run(options, progress):
                rows.append(found)
                write_csv(rows, options.out / "results.csv")
        console.print(show.table(rows))
        ours = machine_goals(options.quick, Console(stderr=True).print)
    except KeyboardInterrupt:
        console.print(show.table(rows), "Interrupted: this is what there was until then.")
    reached = [*goals(rows), *ours]
    console.print(show.goal_table(reached))
    for note in show.notes(rows):
        console.print(f"[dim]{note}[/dim]")
    write_goals(reached, options.out / "goals.csv")
    written = show.draw(rows, options.out)
    missed = sum(goal.met is False for goal in reached)
    console.print(f"Goals missed: {missed} of {len(reached)}. Wrote {options.out} with {len(written)} plots.")


if __name__ == "__main__":
    main()
