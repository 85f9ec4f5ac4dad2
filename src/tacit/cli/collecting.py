"""`tacit perturb`, `tally` and `merge`: from answers to reports to counts. Argument parsing and printing only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tacit.cli.app import (
    FILES,
    Engine,
    FileFormat,
    Force,
    GroupColumn,
    JsonFlag,
    KeepOrder,
    KeptColumns,
    Master,
    OffsetColumn,
    Output,
    Overwrite,
    PlanFile,
    ReportColumn,
    ReportFile,
    WeightColumn,
    check_target,
    command,
    err,
    escape,
    files_on,
    keep_reports,
    keep_tally,
    option,
    out,
    progress_bar,
    tell_perturbed,
    warn_of_second_draw,
    write_tally,
)

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


@command("perturb", epilog="Example: tacit perturb plan.json answers.parquet -o reports.parquet --keep region")
def perturb_command(
    plan: PlanFile,
    answers: Annotated[str, typer.Argument(metavar="ANSWERS", help=FILES)],
    output: Output = "-",
    column: Annotated[str | None, option(metavar="NAME", help=_COLUMN)] = None,
    group_column: GroupColumn = None,
    person: Annotated[str | None, option(metavar="NAME", help=_PERSON)] = None,
    ledger: Annotated[Path | None, option(metavar="FILE", help=_LEDGER)] = None,
    limit: Annotated[str | None, option(metavar="ε", help=_LIMIT)] = None,
    history: Annotated[list[str] | None, option(metavar="REPORTS", help=_HISTORY)] = None,
    keep: KeptColumns = None,
    keep_order: KeepOrder = False,
    force: Force = False,
    on_unknown: Annotated[Literal["stop", "skip"], option(metavar="ACTION", help=_UNKNOWN)] = "stop",
    draw_arms: Annotated[bool, option("--draw-arms", help=_ARMS)] = False,
    input_format: FileFormat = None,
    output_format: FileFormat = None,
    overwrite: Overwrite = False,
    engine: Engine = "embedded",
    master: Master = None,
    as_json: JsonFlag = False,
) -> None:
    """Randomize answers with secure random bits. The output never holds an answer, only reports."""
    from contextlib import nullcontext

    from tacit.files import Ledger, arms_drawn, followed
    from tacit.plan import load_plan

    if engine == "spark" and (draw_arms or overwrite or keep_order or person or ledger or history):
        what = "writes a new folder, in random order, draws no arms and does not compare persons"
        raise ValueError(f"Spark {what}: leave --overwrite, --keep-order, --draw-arms, --person and --ledger out.")
    if engine == "embedded":
        check_target(output, plan, answers, *([ledger] if ledger else []), *(history or ()))
        keep_reports(output, overwrite)
    if ledger is None and limit is not None:
        raise ValueError("--limit is on what the reports of a person add up to: give --person and --ledger, too.")
    noted = None if ledger is None else Ledger.open(ledger, limit)
    loaded = load_plan(plan)
    kept = tuple(keep or ())
    order: dict[str, Any] = {"force": force}
    if engine == "embedded":
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
    with files_on(engine, master) as files, progress_bar("randomizing") as watch, source as opened:
        done = files.perturb_file(
            loaded, opened, output, column=column, group_column=group_column, keep=kept, on_unknown=on_unknown, **order,
            progress=watch, source_format=None if draw_arms or history else input_format, target_format=output_format,
        )  # fmt: skip
    tell_perturbed(done, output, keep_order, as_json, {} if noted is None else {"ledger": noted.sums()})
    if not as_json:
        _tell_sums(err if output == "-" else out, noted)
    if engine == "embedded" and output != "-":
        warn_of_second_draw(loaded, output, done.reports)


def _tell_sums(console: Any, ledger: Any) -> None:
    """What the reports of people in the ledger add up to, rounded up."""
    from math import ceil

    from tacit.show.sentences import CHANGED

    if ledger is not None and ledger.is_new:
        console.print(
            f"{escape(str(ledger.path))} is new: it knows no earlier reports. Use it in every wave.", soft_wrap=True
        )
    for row in [] if ledger is None else ledger.sums():
        levels = (row["lip"], row["ldp"])
        lip, odds = ("no bound" if each is None else f"{ceil(100 * each) / 100:g}" for each in levels)
        console.print(
            f"{row['people']:,} people have answered {row['waves']} {'wave' if row['waves'] == 1 else 'waves'}: LIP at "
            f"most {lip}, LDP {odds}.",
            soft_wrap=True,
        )
    if ledger is not None and any(each.rule == "layers" for each in ledger.occasions.values()):
        console.print(
            f"Reports of two layers count once in each group. This is right for an answer that stays, and is known to "
            f"stay. {CHANGED}",
            soft_wrap=True,
        )


@command("tally", epilog="Example: tacit tally plan.json reports.parquet -o monday.json")
def tally_command(
    plan: PlanFile,
    reports: ReportFile,
    output: Output = "tally.json",
    report_column: ReportColumn = "report",
    group_column: GroupColumn = None,
    weight_column: WeightColumn = None,
    offset_column: OffsetColumn = None,
    input_format: FileFormat = None,
    overwrite: Overwrite = False,
    engine: Engine = "embedded",
    master: Master = None,
    as_json: JsonFlag = False,
) -> None:
    """Count reports per group, into a .json or .parquet file. Tallies merge, so each batch can be counted where it is.

    Reports that the plan cannot have sent are refused and counted. A tally that is there is replaced, nothing else.
    """
    from tacit.files import save_tally
    from tacit.files.tallies import tally_format
    from tacit.plan import load_plan

    check_target(output, plan, reports)
    if output != "-":
        tally_format(output)
    keep_tally(output, overwrite)
    loaded = load_plan(plan)
    with files_on(engine, master) as files, progress_bar("counting") as watch:
        counted = files.tally_file(
            loaded, reports, report_column=report_column, group_column=group_column, weight_column=weight_column,
            offset_column=offset_column, progress=watch, format=input_format,
        )  # fmt: skip
    write_tally(counted, save_tally, output, "counted", as_json)


@command("merge", epilog="Example: tacit merge monday.json tuesday.json -o week.json")
def merge_command(
    tallies: Annotated[list[Path], typer.Argument(metavar="TALLIES...", help="Tallies of one plan.")],
    output: Output = "tally.json",
    plan: Annotated[Path | None, option("--plan", metavar="PLAN", help=_NEWEST)] = None,
    overwrite: Overwrite = False,
    as_json: JsonFlag = False,
) -> None:
    """Merge tallies of the same plan. The order does not matter. The same reports are not counted twice."""
    from tacit.files import load_tally, save_tally
    from tacit.files.tallies import tally_format
    from tacit.plan import load_plan
    from tacit.tally import merge_all

    check_target(output, *tallies)
    if output != "-":
        tally_format(output)
    twice = [
        path for place, path in enumerate(tallies) if path.resolve() in {each.resolve() for each in tallies[:place]}
    ]
    if twice:
        raise ValueError(f"{twice[0]} is named twice, and would count twice.")
    sizes: dict[Any, list[Path]] = {}
    newest = None if plan is None else load_plan(plan)

    def loaded() -> Iterator[Tally]:
        for path in tallies:
            tally = load_tally(path)
            sizes.setdefault(frozenset((name, kept.total) for name, kept in tally.groups.items()), []).append(path)
            yield tally if newest is None else tally.under(newest)

    merged = merge_all(loaded())
    keep_tally(output, overwrite, merged)
    write_tally(merged, save_tally, output, f"in {len(tallies)} tallies", as_json)
    for alike in (paths for size, paths in sizes.items() if size and len(paths) > 1):
        err.print(
            f"[bold red]warning:[/bold red] {escape(' and '.join(map(str, alike)))} have the same number of reports in "
            "every group. If they are draws of the same answers, each person counts more than once: intervals are too "
            "narrow, and people have given more than was promised. Merge one of them.",
            soft_wrap=True,
        )
    if not merged.sources.complete:
        err.print(
            "[yellow]note:[/yellow] some tallies do not name all that they counted (small files, pipes, folders "
            "of a cluster, the service), so reports that were counted twice may not be noticed.",
            soft_wrap=True,
        )
