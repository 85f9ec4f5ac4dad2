"""`tacit perturb`, `tally` and `merge`: from answers to reports to counts. Argument parsing and printing only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tacit.cli import app as cli

if TYPE_CHECKING:
    from tacit.tally import Tally

_ARMS = "Draw the arm of each row, for a plan with arms; no group column is needed then."
_COLUMN = "Column with the answers; else that of the plan's recoding, or value. Several questions have their own names."
_PERSON = "Column that says who a row is of. A person with two rows is refused. It is not written."
_LEDGER = "With --person: a file that notes who answered which wave, and refuses a second draw."
_LIMIT = "With --ledger: the largest LIP level that the reports of a person may add up to."
_HISTORY = (
    "For a plan by the belief rule: the reports of the wave before, with the --person column; repeatable, oldest first."
)
_NEWEST = "The newest of the plans, if tallies are of plans that differ in words only (tacit edit)."
_UNKNOWN = "What to do about rows that the plan cannot randomize: stop or skip."


@cli.command("perturb", epilog="Example: tacit perturb plan.json answers.parquet -o reports.parquet --keep region")
def perturb_command(
    plan: cli.PlanFile,
    answers: Annotated[str, typer.Argument(metavar="ANSWERS", help=cli.FILES)],
    to: cli.Target = cli.TO_OUTPUT,
    column: Annotated[str | None, cli.option(metavar="NAME", help=_COLUMN)] = None,
    group_column: cli.GroupColumn = None,
    person: Annotated[str | None, cli.option(metavar="NAME", help=_PERSON)] = None,
    ledger: Annotated[Path | None, cli.option(metavar="FILE", help=_LEDGER)] = None,
    limit: Annotated[str | None, cli.option(metavar="ε", help=_LIMIT)] = None,
    history: Annotated[list[str] | None, cli.option(metavar="REPORTS", help=_HISTORY)] = None,
    keep: cli.KeptColumns = None,
    keep_order: cli.KeepOrder = False,
    force: cli.Force = False,
    on_unknown: Annotated[Literal["stop", "skip"], cli.option(metavar="ACTION", help=_UNKNOWN)] = "stop",
    draw_arms: Annotated[bool, cli.option("--draw-arms", help=_ARMS)] = False,
    input_format: cli.FileFormat = None,
    output_format: cli.FileFormat = None,
    cluster: cli.Cluster = cli.CLUSTER,
) -> None:
    """Randomize answers with secure random bits. The output never holds an answer, only reports."""
    from contextlib import nullcontext

    from tacit.files import Ledger, arms_drawn, followed
    from tacit.plan import Plan

    embedded = cluster.engine == "embedded"
    if not embedded and (draw_arms or to.overwrite or keep_order or person or ledger or history):
        what = "writes a new folder, in random order, draws no arms and does not compare persons"
        raise ValueError(f"Spark {what}: leave --overwrite, --keep-order, --draw-arms, --person and --ledger out.")
    if embedded:
        to.check(plan, answers, *([ledger] if ledger else []), *(history or ()))
        cli.keep_reports(to.output, to.overwrite)
    if ledger is None and limit is not None:
        raise ValueError("--limit is on what the reports of a person add up to: give --person and --ledger, too.")
    noted = None if ledger is None else Ledger.open(ledger, limit)
    loaded = Plan.load(plan)
    kept = tuple(keep or ())
    order: dict[str, Any] = {"force": force}
    if embedded:
        order |= {"keep_order": keep_order, "person": person, "ledger": noted}
    source: Any = nullcontext(answers)
    if (loaded.follows is not None) != bool(history) or (history and person is None):
        raise ValueError(
            "A plan by the belief rule, and no other, needs --person and --history: a person's group follows from the "
            "reports that the person sent in the waves before."
        )
    if history or draw_arms:
        alone = loaded.single("Drawing arms")
        column = column or loaded.questions[0].name
        read = list(dict.fromkeys([column, *([person] if person else []), *kept]))
        if draw_arms:
            source = arms_drawn(alone, answers, read, group_column=group_column, format=input_format)
        else:
            source = followed(
                alone, answers, history or (), read, person=str(person), group_column=group_column, ledger=noted,
                format=input_format,
            )  # fmt: skip
        group_column = group_column or "group"
    with cluster.files() as files, cli.progress_bar("randomizing") as watch, source as opened:
        done = files.perturb_file(
            loaded, opened, to.output, column=column, group_column=group_column, keep=kept, progress=watch, **order,
            on_unknown=on_unknown, source_format=None if draw_arms or history else input_format,
            target_format=output_format,
        )  # fmt: skip
    cli.tell_perturbed(done, to, keep_order, {} if noted is None else {"ledger": noted.sums()})
    if not to.as_json:
        _tell_sums(to.console, noted)
    if embedded and to.output != "-":
        cli.warn_of_second_draw(loaded, to.output, done.reports)


def _tell_sums(console: Any, ledger: Any) -> None:
    """What the reports of people in the ledger add up to, rounded up."""
    from math import ceil

    from tacit.show.sentences import CHANGED

    if ledger is not None and ledger.is_new:
        console.print(f"{cli.escape(str(ledger.path))} is new: it knows no earlier reports. Use it in every wave.")
    for row in [] if ledger is None else ledger.sums():
        levels = (row["lip"], row["ldp"])
        lip, odds = ("no bound" if each is None else f"{ceil(100 * each) / 100:g}" for each in levels)
        console.print(
            f"{row['people']:,} people have answered {row['waves']} {'wave' if row['waves'] == 1 else 'waves'}: LIP at "
            f"most {lip}, LDP {odds}."
        )
    if ledger is not None and any(each.rule == "layers" for each in ledger.occasions.values()):
        console.print(
            f"Reports of two layers count once in each group. This is right for an answer that stays, and is known to "
            f"stay. {CHANGED}"
        )


@cli.command("tally", epilog="Example: tacit tally plan.json reports.parquet -o monday.json")
def tally_command(
    plan: cli.PlanFile,
    reports: cli.ReportFile,
    to: cli.Target = cli.TO_TALLY,
    columns: cli.WeightedColumns = cli.WEIGHTED,
    cluster: cli.Cluster = cli.CLUSTER,
) -> None:
    """Count reports per group, into a .json or .parquet file. Tallies merge, so each batch can be counted where it is.

    Reports that the plan cannot have sent are refused and counted. A tally that is there is replaced, nothing else.
    """
    from tacit.files import save_tally
    from tacit.files.tallies import tally_format
    from tacit.plan import Plan

    to.check(plan, reports)
    if to.output != "-":
        tally_format(to.output)
    to.keep_tally()
    loaded = Plan.load(plan)
    with cluster.files() as files, cli.progress_bar("counting") as watch:
        counted = files.tally_file(loaded, reports, progress=watch, **columns.given())
    to.put_tally(counted, save_tally, "counted")


@cli.command("merge", epilog="Example: tacit merge monday.json tuesday.json -o week.json")
def merge_command(
    tallies: Annotated[list[Path], typer.Argument(metavar="TALLIES...", help="Tallies of one plan.")],
    to: cli.Target = cli.TO_TALLY,
    plan: Annotated[Path | None, cli.option("--plan", metavar="PLAN", help=_NEWEST)] = None,
) -> None:
    """Merge tallies of the same plan. The order does not matter. The same reports are not counted twice."""
    from tacit.files import load_tally, save_tally
    from tacit.files.tallies import tally_format
    from tacit.plan import Plan
    from tacit.tally import merge_all

    to.check(*tallies)
    if to.output != "-":
        tally_format(to.output)
    twice = [
        path for place, path in enumerate(tallies) if path.resolve() in {each.resolve() for each in tallies[:place]}
    ]
    if twice:
        raise ValueError(f"{twice[0]} is named twice, and would count twice.")
    sizes: dict[Any, list[Path]] = {}
    newest = None if plan is None else Plan.load(plan)

    def loaded() -> Iterator[Tally]:
        for path in tallies:
            tally = load_tally(path)
            sizes.setdefault(frozenset((name, kept.total) for name, kept in tally.groups.items()), []).append(path)
            yield tally if newest is None else tally.under(newest)

    merged = merge_all(loaded())
    to.keep_tally(merged)
    to.put_tally(merged, save_tally, f"in {len(tallies)} tallies")
    for alike in (paths for size, paths in sizes.items() if size and len(paths) > 1):
        files = cli.escape(" and ".join(map(str, alike)))
        cli.err.print(
            f"[bold red]warning:[/bold red] {files} have the same number of reports in every group. If they are draws "
            "of the same answers, each person counts more than once: intervals are too narrow, and people have given "
            "more than was promised. Merge one of them."
        )
    if not merged.sources.complete:
        cli.err.print(
            "[yellow]note:[/yellow] some tallies do not name all that they counted (small files, pipes, folders "
            "of a cluster, the service), so reports that were counted twice may not be noticed."
        )
