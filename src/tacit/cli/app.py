"""The `tacit` command: argument parsing and printing only.

Every command prints for people, or JSON with --json. Exit codes: 0 done, 1 check failed, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from typer.core import TyperGroup

import tacit

_EXTRAS = {
    "files": ("pyarrow", "duckdb"),
    "perturb": ("cryptography", "numba"),
    "plot": ("matplotlib",),
    "serve": ("fastapi", "gmpy2", "httptools", "prometheus_client", "psycopg", "sqlalchemy", "uvicorn"),
}
out, err = Console(highlight=False), Console(stderr=True, highlight=False)


class _Commands(TyperGroup):
    """All commands fail in the same way: one clear line on standard error and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            err.print("interrupted; nothing was written")
            raise typer.Exit(130) from stop
        except BrokenPipeError:
            raise
        except (ValueError, TypeError, KeyError, OSError, ModuleNotFoundError) as error:
            err.print(f"[red]error:[/red] {escape(_message(error))}", soft_wrap=True)
            raise typer.Exit(2) from error


def _message(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        name = str(error.name).partition(".")[0]
        extra = next((extra for extra, packages in _EXTRAS.items() if name in packages), None)
        return f"{error}. Install it: pip install 'tacit[{extra}]'" if extra else str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    text = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
    return " ".join(text.split()) or type(error).__name__


app = typer.Typer(
    cls=_Commands,
    help="Ask a crowd, learn the total, never the person.\n\n"
    "Four steps: plan (once), perturb (on each device), tally (where reports arrive), estimate.",
    epilog="Start with: tacit demo",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

TaskName = Literal["histogram", "sum", "survey", "weighted-sum"]
DesignName = Literal["auto", "closed-form", "columns", "core-tail", "arcs", "repaired"]
FormatName = Literal["csv", "parquet", "jsonl", "arrow"]


def _option(*names: str, metavar: str | None = None, help: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=help)


_PRIORS = "CSV: value, probability or count; optionally group, epsilon, weight, offset."
_FILES = "A csv, parquet, jsonl or arrow file; - for standard input."
_FORMATS = "csv, parquet, jsonl or arrow; else by extension, csv for -."
_DESIGNS = "auto, closed-form, columns, core-tail, arcs or repaired."
_AIMS = "Least error of estimates that use the prior (mmse) or do not (prior_free)."
_TARGET = "Instead of --epsilon: find the smallest ε with at most this error of the total."
_UNKNOWN = "What to do about rows that the plan cannot randomize: stop or skip."
_ESTIMATORS = "mmse: least error, with the prior. unbiased, mle: without it."

PriorFile = Annotated[Path, typer.Argument(metavar="PRIORS", help=_PRIORS)]
PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan that `tacit plan` wrote.")]
ReportFile = Annotated[str, typer.Argument(metavar="REPORTS", help=_FILES)]
TaskOption = Annotated[TaskName, _option("--task", metavar="TASK", help="histogram, sum, survey or weighted-sum.")]
ValueOption = Annotated[list[str] | None, _option("--value", metavar="VALUE", help="Surveyed answer; repeatable.")]
JsonFlag = Annotated[bool, _option("--json", help="Print JSON for scripts instead of text.")]
Output = Annotated[str, _option("-o", "--output", metavar="FILE", help="File to write; - for standard output.")]
ReportColumn = Annotated[str, _option(metavar="NAME", help="Column with the reports.")]
GroupColumn = Annotated[str | None, _option(metavar="NAME", help="Column with the group names, else 'group'.")]
WeightColumn = Annotated[str | None, _option(metavar="NAME", help="Public weights a, for the sum of a·x + b.")]
OffsetColumn = Annotated[str | None, _option(metavar="NAME", help="Public offsets b, for the sum of a·x + b.")]
FileFormat = Annotated[FormatName | None, _option(metavar="FORMAT", help=_FORMATS)]


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
def _watching(title: str) -> Iterator[Callable[[int, int | None], None]]:
    """A progress bar on standard error, where a person can see it."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        job = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(job, completed=done, total=total)


def _print_json(data: Any, to: Console = out) -> None:
    from tacit.show.sentences import finite

    to.file.write(json.dumps(finite(data), ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def _target(path: str | Path) -> None:
    """Refuse what cannot be written before the work begins."""
    if str(path) == "-":
        return
    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder. Name a file to write.")
    if not Path(path).resolve().parent.is_dir():
        raise ValueError(f"There is no folder {Path(path).parent} to write {Path(path).name} to.")


@app.command("plan", epilog="Example: tacit plan priors.csv --task survey --value yes --epsilon 1 -o plan.json")
def plan_command(
    priors: PriorFile,
    task: TaskOption,
    output: Output = "plan.json",
    epsilon: Annotated[str | None, _option(metavar="ε", help="A report changes any belief by at most e^ε.")] = None,
    value: ValueOption = None,
    notion: Annotated[Literal["lip", "ldp"], _option(metavar="NOTION", help="The promise: lip or ldp.")] = "lip",
    method: Annotated[DesignName, _option("--design", metavar="NAME", help=_DESIGNS)] = "auto",
    aim: Annotated[Literal["mmse", "prior_free"], _option(metavar="AIM", help=_AIMS)] = "mmse",
    invertible: Annotated[bool, _option("--invertible", help="Allow prior-free estimates as well.")] = False,
    ldp_cap: Annotated[str | None, _option(metavar="ε", help="Also keep this LDP level.")] = None,
    max_outputs: Annotated[int | None, _option(metavar="N", help="At most this many reports.")] = None,
    target_rmse: Annotated[float | None, _option(metavar="R", help=_TARGET)] = None,
    respondents: Annotated[int | None, _option(metavar="N", help="How many will answer; else 1000.")] = None,
    question: Annotated[str | None, _option(metavar="TEXT", help="The question, kept in the plan.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Design a mechanism for each group, check its promise exactly, and write the plan."""
    from tacit.designs import planning
    from tacit.show import terminal

    _target(output)
    groups = planning.read_priors(priors)
    _check_budget(epsilon, target_rmse, respondents, all(each.epsilon is not None for each in groups))
    wanted, people = planning.make_task(task, value or [], groups), 1000 if respondents is None else respondents
    options: dict[str, Any] = {"notion": notion, "method": method.replace("closed-form", "closed form"), "aim": aim}
    options |= {"invertible": invertible, "ldp_cap": ldp_cap, "max_outputs": max_outputs, "question": question}
    with _watching("designing") as watch:
        if target_rmse is not None:
            made = planning.smallest_budget(groups, wanted, target_rmse, people, watch, **options)
        else:
            made = planning.make_plan(groups, wanted, epsilon, progress=watch, **options)
        made = planning.with_ldp_errors(made)
        summary = terminal.plan_summary(made, [each.share for each in groups], people)
    if output == "-":
        _print_json(made.to_dict())
    else:
        made.save(output)
    told = err if output == "-" else out
    if as_json:
        _print_json({"plan": made.hash, "file": output, **summary}, told)
    else:
        terminal.print_plan(told, made, summary, output)


def _check_budget(epsilon: str | None, target_rmse: float | None, respondents: int | None, stated: bool) -> None:
    if epsilon is not None and target_rmse is not None:
        raise ValueError("Give --epsilon or --target-rmse, not both.")
    if target_rmse is not None and respondents is None:
        raise ValueError("--target-rmse is the error of the total, so it needs --respondents.")
    if epsilon is None and target_rmse is None and not stated:
        raise ValueError("Give --epsilon, or --target-rmse with --respondents, or a column 'epsilon'.")


@app.command("audit", epilog="Example: tacit audit plan.json")
def audit_command(plan: PlanFile, as_json: JsonFlag = False) -> None:
    """Verify a plan again, in exact integers, and explain what it promises. Exit code 1 if it does not hold."""
    from tacit.plan.contract import Plan
    from tacit.show import sentences, terminal

    try:
        data = json.loads(plan.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{plan} is not JSON: {error}.") from error
    if not isinstance(data, dict) or "tacit_plan" not in data:
        raise ValueError(f"{plan} is not a plan: it has no field 'tacit_plan'.")
    try:
        loaded = Plan.from_dict(data)
    except ValueError as error:
        if as_json:
            _print_json({"holds": False, "reason": str(error)})
        err.print(f"[red]refused:[/red] {escape(_message(error))}", soft_wrap=True)
        raise typer.Exit(1) from error
    if as_json:
        groups = [
            terminal.group_summary(group) | {"outside": sentences.outside_values(group)} for group in loaded.groups
        ]
        _print_json({"holds": True, "plan": loaded.hash, "groups": groups})
    else:
        terminal.print_audit(out, loaded)


@app.command("channel", epilog="Example: tacit channel plan.json --json")
def channel_command(plan: PlanFile, as_json: JsonFlag = False) -> None:
    """Print the numbers that devices use: Pr(report | answer), as exact integers with --json."""
    from tacit.plan.contract import Plan
    from tacit.show import terminal

    loaded = Plan.load(plan)
    groups = [terminal.channel_facts(group) for group in loaded.groups]
    if as_json:
        _print_json({"plan": loaded.hash, "groups": groups})
    else:
        terminal.print_channels(out, groups)


@app.command("perturb", epilog="Example: tacit perturb plan.json answers.parquet -o reports.parquet --keep region")
def perturb_command(
    plan: PlanFile,
    answers: Annotated[str, typer.Argument(metavar="ANSWERS", help=_FILES)],
    output: Output = "-",
    column: Annotated[str, _option(metavar="NAME", help="Column with the answers.")] = "value",
    group_column: GroupColumn = None,
    keep: Annotated[list[str] | None, _option(metavar="NAME", help="Public column to keep; repeatable.")] = None,
    on_unknown: Annotated[Literal["stop", "skip"], _option(metavar="ACTION", help=_UNKNOWN)] = "stop",
    input_format: FileFormat = None,
    output_format: FileFormat = None,
    as_json: JsonFlag = False,
) -> None:
    """Randomize answers with secure random bits. The output never holds an answer, only reports."""
    from tacit.files.answers import perturb_file
    from tacit.plan.contract import Plan

    loaded = Plan.load(plan)
    _target(output)
    with _watching("randomizing") as watch:
        done = perturb_file(
            loaded, answers, output, column=column, group_column=group_column, keep=tuple(keep or ()),
            on_unknown=on_unknown, progress=watch, source_format=input_format, target_format=output_format,
        )  # fmt: skip
    told = err if output == "-" else out
    if as_json:
        facts = {"rows": done.rows, "reports": done.reports, "skipped": dict(done.skipped)}
        _print_json({"file": output} | facts, told)
    else:
        told.print(f"{done.reports:,} reports of {done.rows:,} rows, {sum(done.skipped.values()):,} skipped.")


def _save_tally(tally: Any, output: str, text: str, as_json: bool) -> None:
    """Write a tally, and say so."""
    from tacit.files.answers import save_tally

    if output == "-":
        typer.echo(json.dumps(tally.to_dict(), ensure_ascii=False))
    else:
        save_tally(tally, output)
    told = err if output == "-" else out
    if as_json:
        _print_json({"file": output, "plan": tally.plan, "n_reports": tally.n_reports, "refused": tally.refused}, told)
    else:
        wrote = "" if output == "-" else f"; wrote {escape(output)}"
        told.print(f"{tally.n_reports:,} reports {text}, {tally.refused:,} refused{wrote}.", soft_wrap=True)


@app.command("tally", epilog="Example: tacit tally plan.json reports.parquet -o monday.json")
def tally_command(
    plan: PlanFile,
    reports: ReportFile,
    output: Output = "tally.json",
    report_column: ReportColumn = "report",
    group_column: GroupColumn = None,
    weight_column: WeightColumn = None,
    offset_column: OffsetColumn = None,
    input_format: FileFormat = None,
    as_json: JsonFlag = False,
) -> None:
    """Count reports per group, into a .json or .parquet file. Tallies merge, so each batch can be counted where it is.

    Reports that the plan cannot have sent are refused and counted.
    """
    from tacit.files.answers import tally_file
    from tacit.plan.contract import Plan

    loaded = Plan.load(plan)
    _target(output)
    with _watching("counting") as watch:
        counted = tally_file(
            loaded, reports, report_column=report_column, group_column=group_column, weight_column=weight_column,
            offset_column=offset_column, progress=watch, format=input_format,
        )  # fmt: skip
    _save_tally(counted, output, "counted", as_json)


@app.command("merge", epilog="Example: tacit merge monday.json tuesday.json -o week.json")
def merge_command(
    tallies: Annotated[list[Path], typer.Argument(metavar="TALLIES...", help="Tallies of one plan.")],
    output: Output = "tally.json",
    as_json: JsonFlag = False,
) -> None:
    """Merge tallies of the same plan. The order does not matter."""
    from tacit.files.answers import load_tally
    from tacit.tally import merge_all

    _target(output)
    merged = merge_all(load_tally(path) for path in tallies)
    _save_tally(merged, output, f"in {len(tallies)} tallies", as_json)


@app.command("estimate", epilog="Example: tacit estimate plan.json reports.parquet --by region --html report.html")
def estimate_command(
    plan: PlanFile,
    reports: Annotated[str, typer.Argument(metavar="REPORTS", help="Reports or a tally; - for standard input.")],
    estimator: Annotated[Literal["mmse", "unbiased", "mle"], _option(metavar="NAME", help=_ESTIMATORS)] = "mmse",
    level: Annotated[float, _option(metavar="L", help="Level of the intervals, between 0 and 1.")] = 0.95,
    by: Annotated[str | None, _option(metavar="NAME", help="Also break down by this public column.")] = None,
    project: Annotated[bool, _option("--project", help="Move estimates to possible counts.")] = False,
    report_column: ReportColumn = "report",
    group_column: GroupColumn = None,
    weight_column: WeightColumn = None,
    offset_column: OffsetColumn = None,
    input_format: FileFormat = None,
    html: Annotated[Path | None, _option(metavar="FILE", help="Also write a page with plots.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Estimate the total with intervals, and check the reports against the prior."""
    from tacit.estimates import estimate
    from tacit.files.answers import read_tallies
    from tacit.plan.contract import Plan
    from tacit.show import terminal

    loaded = Plan.load(plan)
    if html is not None:
        _target(html)
    with _watching("counting") as watch:
        whole, parts = read_tallies(
            loaded, reports, by=by, report_column=report_column, group_column=group_column, progress=watch,
            weight_column=weight_column, offset_column=offset_column, format=input_format,
        )  # fmt: skip
        result = estimate(loaded, whole, estimator, level, project=project)
        broken_down = {name: estimate(loaded, part, estimator, level, project=project) for name, part in parts.items()}
    if html is not None:
        from tacit.show.page import write_report

        write_report(html, loaded, result, broken_down, by, whole)
    if as_json:
        data = {"plan": loaded.hash} | result.to_dict() | {"refused": whole.refused}
        _print_json(data | ({"by": {name: part.to_dict() for name, part in broken_down.items()}} if by else {}))
        return
    terminal.print_estimate(out, loaded, result)
    if whole.refused:
        out.print(f"[yellow]{whole.refused:,} rows were refused: the plan cannot have sent such reports.[/yellow]")
    if by is not None:
        terminal.print_breakdown(out, loaded, by, broken_down)


@app.command("compare", epilog="Example: tacit compare priors.csv --task survey --value yes --plot errors.png")
def compare_command(
    priors: PriorFile,
    task: TaskOption,
    value: ValueOption = None,
    epsilons: Annotated[str, _option("--epsilon", metavar="LIST", help="Budgets: 0.5,1,2")] = "0.25,0.5,1,2,4",
    plot: Annotated[Path | None, _option(metavar="FILE", help="Also draw it, as PNG, SVG or PDF.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Error against ε: LIP, LDP, the published form (with the level it really reaches), and no data."""
    from tacit.designs.planning import make_task, read_priors
    from tacit.evaluation import comparison

    budgets = [part.strip() for part in epsilons.split(",") if part.strip()]
    if plot is not None:
        _target(plot)
    with _watching("designing") as watch:
        groups = read_priors(priors)
        rows = comparison.compare(groups, make_task(task, value or [], groups), budgets, watch)
    if plot is not None:
        comparison.draw(rows, plot)
    if as_json:
        _print_json({"rows": [row.to_dict() for row in rows]})
    else:
        comparison.show_rows(out, rows)


@app.command("reproduce", epilog="Example: tacit reproduce 2 5 8 --out figures --data ../shared/data")
def reproduce_command(
    figures: Annotated[
        list[str] | None, typer.Argument(metavar="[FIGURE]...", help="Such as 2, 6a, 8; else all.")
    ] = None,
    folder: Annotated[Path, _option("--out", metavar="DIR", help="Folder to write to.")] = Path("out/figures"),
    data: Annotated[Path | None, _option(metavar="DIR", help="Folder with the public data sets.")] = None,
    runs: Annotated[int, _option(metavar="N", help="Monte-Carlo runs.")] = 10_000,
    seed: Annotated[int, _option(metavar="S", help="The same seed gives the same files.")] = 0,
    force: Annotated[bool, _option("--force", help="Compute also what an earlier call kept.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Draw the paper's figures, as published and corrected, with a page that explains what changed."""
    from tacit.evaluation.figure import Options
    from tacit.evaluation.reproduce import reproduce
    from tacit.show import terminal

    if data is not None and not data.is_dir():
        raise ValueError(f"There is no folder {data} with data.")
    with _watching("computing figures") as watch:
        watch(0, None)
        made = reproduce(figures or [], folder, Options(runs=runs, seed=seed, data=data), watch, force=force)
    if as_json:
        _print_json(made.to_dict())
    else:
        terminal.print_reproduction(out, made)
    if not made.agrees:
        err.print("[red]Monte Carlo contradicts theory; see the page.[/red]")
        raise typer.Exit(1)


@app.command("demo", epilog="Example: tacit demo")
def demo_command(as_json: JsonFlag = False) -> None:
    """A rare-disease survey from the plan to the estimate, on simulated people. Writes to out/demo."""
    from tacit.cli import demo

    if as_json:
        _print_json(demo.run_for_scripts())
    else:
        demo.run()
