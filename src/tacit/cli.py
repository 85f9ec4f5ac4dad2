"""The `tacit` command: argument parsing and printing only.

Every command prints for people, or JSON with --json. Exit codes: 0 done, 1 a check failed, 2 bad input.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import tacit

app = typer.Typer(
    help="Ask a crowd, learn the total, never the person.\n\nThe four steps: plan, perturb, tally, estimate.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
out, err = Console(highlight=False), Console(stderr=True, highlight=False)

TaskName = Literal["histogram", "sum", "survey", "weighted-sum"]
PriorFile = Annotated[Path, typer.Argument(help="CSV: value, probability or count, and optionally group, epsilon.")]
PlanFile = Annotated[Path, typer.Argument(help="The plan, as `tacit plan` wrote it.")]
TaskOption = Annotated[TaskName, typer.Option("--task", help="What to estimate.")]
ValueOption = Annotated[list[str] | None, typer.Option("--value", help="The surveyed value; repeat it for a set.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for scripts instead of text.")]
Output = Annotated[Path, typer.Option("-o", "--output", help="File to write; it appears whole or not at all.")]


def main() -> None:
    """The command."""
    app()


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tacit {tacit.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    pass


@contextmanager
def _refusing() -> Iterator[None]:
    """Bad input becomes one clear line and exit code 2."""
    try:
        yield
    except (ValueError, TypeError, KeyError, OSError) as error:
        text = error.args[0] if isinstance(error, KeyError) and error.args else error
        err.print(f"[red]error:[/red] {text}", soft_wrap=True)
        raise typer.Exit(2) from error


@contextmanager
def _watching(title: str) -> Iterator[Callable[[int, int | None], None]]:
    """A progress bar on standard error, where a person can see it."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        job = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(job, completed=done, total=total)


def _print_json(data: Any) -> None:
    typer.echo(json.dumps(data, ensure_ascii=False, indent=1))


def _task(name: TaskName, values: list[str] | None, domain: tuple[Any, ...]) -> Any:
    from tacit.task import Histogram, Sum, Survey, WeightedSum

    if name != "survey":
        if values:
            raise ValueError(f"--value goes with --task survey, not with {name}.")
        return {"histogram": Histogram(), "sum": Sum(), "weighted-sum": WeightedSum()}[name]
    if not values:
        raise ValueError("--task survey needs --value: which answer is counted?")
    by_text = {str(value): value for value in domain}
    unknown = [value for value in values if value not in by_text]
    if unknown:
        raise ValueError(f"--value {unknown[0]} is not in the prior file. It has: {', '.join(list(by_text)[:8])}.")
    wanted = tuple(by_text[value] for value in values)
    return Survey(wanted[0]) if len(wanted) == 1 else Survey(wanted)


@app.command("plan")
def plan_command(
    priors: PriorFile,
    task: TaskOption,
    output: Output = Path("plan.json"),
    epsilon: Annotated[str | None, typer.Option(help="Budget ε: a report changes any belief by at most e^ε.")] = None,
    value: ValueOption = None,
    notion: Annotated[Literal["lip", "ldp"], typer.Option(help="The promise to design for.")] = "lip",
    method: Annotated[str, typer.Option("--design", help="auto, columns, core-tail, arcs, repaired, …")] = "auto",
    aim: Annotated[Literal["mmse", "prior_free"], typer.Option(help="Least error with or without the prior.")] = "mmse",
    invertible: Annotated[bool, typer.Option("--invertible", help="Allow prior-free estimates.")] = False,
    ldp_cap: Annotated[str | None, typer.Option(help="Also keep this LDP level.")] = None,
    max_outputs: Annotated[int | None, typer.Option(help="At most this many different reports.")] = None,
    target_rmse: Annotated[float | None, typer.Option(help="Find the smallest ε that reaches this error.")] = None,
    respondents: Annotated[int, typer.Option(help="How many people will answer.")] = 1000,
    question: Annotated[str | None, typer.Option(help="The question, kept in the plan.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Design a mechanism for each group and write the plan.

    [dim]tacit plan priors.csv --task survey --value yes --epsilon 1 -o plan.json[/dim]
    """
    from tacit import show
    from tacit.planning import make_plan, read_priors, smallest_budget

    with _refusing():
        groups = read_priors(priors)
        wanted = _task(task, value, groups[0].prior.values)
        if (epsilon is None) == (target_rmse is None) and any(each.epsilon is None for each in groups):
            raise ValueError("Give --epsilon, or --target-rmse with --respondents, or an epsilon column.")
        options = {
            "notion": notion,
            "method": method,
            "aim": aim,
            "invertible": invertible,
            "ldp_cap": ldp_cap,
            "max_outputs": max_outputs,
        }
        with _watching("designing") as watch:
            if target_rmse is not None:
                made = smallest_budget(groups, wanted, target_rmse, respondents, watch, question=question, **options)
            else:
                made = make_plan(groups, wanted, epsilon, question=question, progress=watch, **options)
        made.save(output)
        summary = show.plan_summary(made, groups, respondents)
    if as_json:
        _print_json({"plan": made.hash, "file": str(output), **summary})
    else:
        show.print_plan(out, made, summary, output)


@app.command("audit")
def audit_command(plan: PlanFile, as_json: JsonFlag = False) -> None:
    """Verify a plan again, in exact integers, and explain what it promises. Exit code 1 if it does not hold."""
    from tacit import show
    from tacit.plan import Plan, PlanError

    try:
        with _refusing_all_but(PlanError):
            loaded = Plan.load(plan)
    except PlanError as error:
        if as_json:
            _print_json({"holds": False, "reason": str(error)})
        else:
            err.print(f"[red]refused:[/red] {error}", soft_wrap=True)
        raise typer.Exit(1) from error
    if as_json:
        groups = [
            {"group": group.name, "epsilon": float(group.epsilon), "levels": group.levels} for group in loaded.groups
        ]
        _print_json({"holds": True, "plan": loaded.hash, "groups": groups})
    else:
        show.print_audit(out, loaded)


@contextmanager
def _refusing_all_but(passed: type[Exception]) -> Iterator[None]:
    try:
        yield
    except passed:
        raise
    except (ValueError, TypeError, KeyError, OSError) as error:
        err.print(f"[red]error:[/red] {error}", soft_wrap=True)
        raise typer.Exit(2) from error


@app.command("channel")
def channel_command(plan: PlanFile, as_json: JsonFlag = False) -> None:
    """Print the exact integers that devices use: Pr(report | value) = weight / denominator."""
    from tacit import show
    from tacit.plan import Plan

    with _refusing():
        groups = [show.channel_facts(group) for group in Plan.load(plan).groups]
    if as_json:
        _print_json({"groups": groups})
    else:
        show.print_channels(out, groups)


@app.command("perturb")
def perturb_command(
    plan: PlanFile,
    answers: Annotated[str, typer.Argument(help="CSV, Parquet, JSON lines or Arrow file; - for standard input.")],
    output: Annotated[str, typer.Option("-o", "--output", help="Reports; - for standard output.")] = "-",
    column: Annotated[str, typer.Option(help="Column with the answers.")] = "value",
    group_column: Annotated[str | None, typer.Option(help="Column with the group names.")] = None,
    keep: Annotated[list[str] | None, typer.Option(help="Public column to carry along; repeatable.")] = None,
    on_unknown: Annotated[Literal["stop", "skip"], typer.Option(help="What to do with bad rows.")] = "stop",
    as_json: JsonFlag = False,
) -> None:
    """Randomize answers with secure random bits. The output never holds an answer, only reports."""
    from tacit.engines.arrow import perturb_file
    from tacit.plan import Plan

    with _refusing(), _watching("randomizing") as watch:
        loaded = Plan.load(plan)
        done = perturb_file(
            loaded, answers, output, column=column, group_column=group_column, keep=tuple(keep or ()),
            on_unknown=on_unknown, progress=watch,
        )  # fmt: skip
    facts = {"rows": done.rows, "reports": done.reports, "skipped": dict(done.skipped)}
    if as_json:
        (sys.stderr if output == "-" else sys.stdout).write(json.dumps(facts) + "\n")
    else:
        err.print(f"{done.reports:,} reports of {done.rows:,} rows; skipped {sum(done.skipped.values()):,}.")


@app.command("tally")
def tally_command(
    plan: PlanFile,
    reports: Annotated[str, typer.Argument(help="File of reports; - for standard input.")],
    output: Output = Path("tally.json"),
    group_column: Annotated[str | None, typer.Option(help="Column with the group names.")] = None,
    weight_column: Annotated[str | None, typer.Option(help="Public weights, for weighted sums.")] = None,
    offset_column: Annotated[str | None, typer.Option(help="Public offsets, for weighted sums.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Count reports per group. Tallies merge, so each batch can be counted where it is."""
    from tacit.engines.arrow import save_tally, tally_file
    from tacit.plan import Plan

    with _refusing(), _watching("counting") as watch:
        loaded = Plan.load(plan)
        counted = tally_file(
            loaded, reports, group_column=group_column, weight_column=weight_column, offset_column=offset_column,
            progress=watch,
        )  # fmt: skip
        save_tally(counted, output)
    facts = {"file": str(output), "n_reports": counted.n_reports, "refused": counted.refused}
    if as_json:
        _print_json(facts)
    else:
        out.print(f"{counted.n_reports:,} reports counted, {counted.refused:,} refused; wrote {output}.")


@app.command("merge")
def merge_command(
    tallies: Annotated[list[Path], typer.Argument(help="Tallies of one plan.")],
    output: Output = Path("tally.json"),
    as_json: JsonFlag = False,
) -> None:
    """Merge tallies of the same plan, in any order."""
    from tacit.engines.arrow import load_tally, save_tally
    from tacit.tally import merge_all

    with _refusing():
        merged = merge_all(load_tally(path) for path in tallies)
        save_tally(merged, output)
    if as_json:
        _print_json({"file": str(output), "n_reports": merged.n_reports, "refused": merged.refused})
    else:
        out.print(f"{merged.n_reports:,} reports in {len(tallies)} tallies; wrote {output}.")


@app.command("estimate")
def estimate_command(
    plan: PlanFile,
    reports: Annotated[str, typer.Argument(help="Reports or a tally.")],
    estimator: Annotated[Literal["mmse", "unbiased", "mle"], typer.Option(help="mmse uses the prior.")] = "mmse",
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    by: Annotated[str | None, typer.Option(help="Also break down by this public column.")] = None,
    project: Annotated[bool, typer.Option("--project", help="Move estimates to possible counts.")] = False,
    group_column: Annotated[str | None, typer.Option(help="Column with the group names.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a report with plots.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Estimate the total with intervals, and check the reports against the prior."""
    from tacit import show
    from tacit.engines.arrow import read_tallies
    from tacit.estimate import estimate
    from tacit.plan import Plan

    with _refusing(), _watching("counting") as watch:
        loaded = Plan.load(plan)
        whole, parts = read_tallies(loaded, reports, by=by, group_column=group_column, progress=watch)
        result = estimate(loaded, whole, estimator, level, project=project)
        broken_down = {name: estimate(loaded, part, estimator, level, project=project) for name, part in parts.items()}
        if html is not None:
            from tacit.report import write_report

            write_report(html, loaded, result, broken_down)
    if as_json:
        data = result.to_dict()
        _print_json(data | ({"by": {name: part.to_dict() for name, part in broken_down.items()}} if by else {}))
    else:
        show.print_estimate(out, loaded, result)
        for name, part in broken_down.items():
            out.rule(f"{by} = {name}")
            show.print_estimate(out, loaded, part)


@app.command("compare")
def compare_command(
    priors: PriorFile,
    task: TaskOption,
    value: ValueOption = None,
    epsilons: Annotated[str, typer.Option("--epsilon", help="Budgets, separated by commas.")] = "0.25,0.5,1,2,4",
    plot: Annotated[Path | None, typer.Option(help="Also draw it: PNG or SVG.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Error against ε: LIP, LDP, the published form (with the level it really reaches), and no data."""
    from tacit import compare
    from tacit.planning import read_priors

    with _refusing(), _watching("designing") as watch:
        groups = read_priors(priors)
        wanted = _task(task, value, groups[0].prior.values)
        budgets = [part.strip() for part in epsilons.split(",") if part.strip()]
        rows = compare.compare(groups, wanted, budgets, watch)
        if plot is not None:
            compare.draw(rows, plot)
    if as_json:
        _print_json({"rows": [row.to_dict() for row in rows]})
    else:
        out.print(compare.table(rows))


@app.command("demo")
def demo_command() -> None:
    """A rare-disease survey from the plan to the estimate, on simulated people."""
    from tacit import demo

    demo.run()


def _table(*headers: str) -> Table:
    return Table(*headers)
