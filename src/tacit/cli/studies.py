"""`tacit compare`, `reproduce` and `demo`: to learn what it is about. Argument parsing and printing only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tacit.cli.app import (
    JsonFlag,
    Overwrite,
    PriorFile,
    TaskOption,
    ValueOption,
    check_target,
    command,
    err,
    keep_file,
    option,
    out,
    print_json,
    progress_bar,
)

_AIM = "Of estimates that do not use the prior (unbiased), or do, if it is right (mmse)."


@command("compare", epilog="Example: tacit compare priors.csv --task survey --value yes --plot errors.png")
def compare_command(
    priors: PriorFile,
    task: TaskOption,
    value: ValueOption = None,
    epsilons: Annotated[str, option("--epsilon", metavar="LIST", help="Budgets: 0.5,1,2")] = "0.25,0.5,1,2,4",
    aim: Annotated[Literal["mmse", "unbiased"], option(metavar="AIM", help=_AIM)] = "unbiased",
    plot: Annotated[Path | None, option(metavar="FILE", help="Also draw it, as PNG, SVG or PDF.")] = None,
    overwrite: Overwrite = False,
    as_json: JsonFlag = False,
) -> None:
    """Compare the error of LIP, LDP and the published form, by ε. Also the level that the latter really reaches."""
    from tacit.designs import read_priors
    from tacit.designs.planning import make_task
    from tacit.evaluation import comparison

    budgets = [part.strip() for part in epsilons.split(",") if part.strip()]
    if plot is not None:
        check_target(plot, priors)
        keep_file(plot, overwrite)
    with progress_bar("designing") as watch:
        groups = read_priors(priors)
        rows = comparison.compare(groups, make_task(task, value or [], groups), budgets, watch, aim=aim)
    if plot is not None:
        comparison.draw(rows, plot, aim)
    if as_json:
        print_json({"rows": [row.to_dict() for row in rows]})
    else:
        comparison.show_rows(out, rows, aim)


@command("reproduce", epilog="Example: tacit reproduce 2 5 8 --out figures --data ../shared/data")
def reproduce_command(
    figures: Annotated[
        list[str] | None, typer.Argument(metavar="[FIGURE]...", help="Such as 2, 6a, 8; else all.")
    ] = None,
    folder: Annotated[Path, option("--out", metavar="DIR", help="Folder to write to.")] = Path("out/figures"),
    data: Annotated[Path | None, option(metavar="DIR", help="Folder with the public data sets.")] = None,
    runs: Annotated[int, option(metavar="N", help="Monte-Carlo runs.")] = 10_000,
    seed: Annotated[int, option(metavar="S", help="The same seed gives the same files.")] = 0,
    force: Annotated[bool, option("--force", help="Compute also what an earlier call kept.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Draw the paper's figures, as published and as corrected. A page explains what changed."""
    from tacit.evaluation.figure import Options
    from tacit.evaluation.reproduce import reproduce
    from tacit.show import terminal

    if data is not None and not data.is_dir():
        raise ValueError(f"There is no folder {data} with data.")
    with progress_bar("computing figures") as watch:
        watch(0, None)
        made = reproduce(figures or [], folder, Options(runs=runs, seed=seed, data=data), watch, force=force)
    if as_json:
        print_json(made.to_dict())
    else:
        terminal.print_reproduction(out, made)
    if not made.agrees:
        err.print("[red]Monte Carlo contradicts theory; see the page.[/red]")
        raise typer.Exit(1)


@command("demo", epilog="Example: tacit demo")
def demo_command(as_json: JsonFlag = False) -> None:
    """See all of it once: a survey of simulated people. From the plan to the estimate, in the folder out/demo."""
    from tacit.cli import demo

    if as_json:
        print_json(demo.run_for_scripts())
    else:
        demo.run()
