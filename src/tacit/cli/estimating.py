"""`tacit estimate`: from reports to totals. Argument parsing and printing only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tacit.cli.app import (
    CsvFile,
    Engine,
    FileFormat,
    GroupColumn,
    GroupParts,
    HtmlFile,
    JsonFlag,
    Master,
    OffsetColumn,
    Overwrite,
    PlanFile,
    PopulationFiles,
    ReportColumn,
    ScopeOption,
    SimultaneousOption,
    WeightColumn,
    check_target,
    command,
    files_on,
    keep_file,
    names_of,
    option,
    out,
    print_json,
    progress_bar,
    tell_refused,
)
from tacit.cli.everything import typed

if TYPE_CHECKING:
    from tacit.estimates import Cell, Margin
    from tacit.plan import Plan
    from tacit.tally import Tally

REFUSED = "the plan cannot have sent such reports, or a weight is missing or no number"
_ESTIMATORS = "assisted (default): the prior as far as the reports agree. unbiased, mle: without it. mmse: trusts it."
_BY = "Also break down by this public column, by the groups, or by a part of crossed groups."


@command("estimate", epilog="Example: tacit estimate plan.json reports.parquet --by region --html estimate.html")
def estimate_command(
    plan: PlanFile,
    reports: Annotated[str, typer.Argument(metavar="REPORTS", help="Reports or a tally; - for standard input.")],
    estimator: Annotated[
        Literal["assisted", "unbiased", "mle", "mmse"] | None, option(metavar="NAME", help=_ESTIMATORS)
    ] = None,
    level: Annotated[float, option(metavar="L", help="Level of the intervals, between 0 and 1.")] = 0.95,
    by: Annotated[str | None, option(metavar="NAME", help=_BY)] = None,
    group_parts: GroupParts = None,
    population: PopulationFiles = None,
    scope: ScopeOption = None,
    simultaneous: SimultaneousOption = None,
    project: Annotated[bool, option("--project", help="Move estimates to possible counts.")] = False,
    report_column: ReportColumn = "report",
    group_column: GroupColumn = None,
    weight_column: WeightColumn = None,
    offset_column: OffsetColumn = None,
    input_format: FileFormat = None,
    engine: Engine = "embedded",
    master: Master = None,
    html: HtmlFile = None,
    csv: CsvFile = None,
    overwrite: Overwrite = False,
    as_json: JsonFlag = False,
) -> None:
    """Estimate the total, with intervals, and check the prior. Reports that it cannot explain raise the alarm.

    The alarm may be looked at at any time, so it is blunt: `tacit difference --against prior`, looked at once, tells
    differences half as large.
    """
    from tacit.estimates import estimate
    from tacit.plan import Plan
    from tacit.show import results

    loaded = Plan.load(plan)
    for target in (html, csv):
        if target is not None:
            check_target(target, plan, reports, *(population or ()))
            keep_file(target, overwrite)
    weighted = weight_column is not None and not loaded.task.takes_weights
    with files_on(engine, master) as files:
        whole, cells, sizes = read_reports(
            loaded, reports, by, population, report_column=report_column, group_column=group_column,
            group_parts=group_parts, weight_column=weight_column, offset_column=offset_column, format=input_format,
            count=files.tally_by, needed=bool(population) or scope == "population" or weighted,
        )  # fmt: skip
    result = estimate(
        loaded, cells, estimator, level, scope=scope, by=by, population=sizes, simultaneous=simultaneous,
        project=project,
    )  # fmt: skip
    if html is not None:
        from tacit.show.page import write_page

        write_page(html, loaded, result, result.parts, by, whole, command=typed())
    if csv is not None:
        from tacit.show.spreadsheet import estimate_rows, write_csv

        write_csv(csv, estimate_rows(loaded, result, result.parts, by))
    if as_json:
        print_json({"plan": loaded.hash} | result.to_dict() | {"refused": whole.refused})
        return
    counted = [whole.groups[group.name].total if group.name in whole.groups else 0 for group in loaded.groups]
    results.print_estimate(out, loaded, result, counted)
    tell_refused(whole.refused, weighted=weight_column is not None or offset_column is not None)
    if by is not None:
        results.print_breakdown(out, loaded, by, result.parts)


def read_reports(
    plan: Plan,
    reports: str,
    by: str | None,
    population: list[Path] | None,
    *,
    group_parts: str | None,
    needed: bool,
    **options: Any,
) -> tuple[Tally, list[Cell], list[Margin]]:
    """All reports of a file counted, the same in cells by what is asked for, and the sizes of the population.

    A file without reports is an error where they are `needed`.
    """
    from tacit.files import read_cells, read_population

    sizes = [read_population(path) for path in population or ()]
    columns = [*([] if by is None else [by]), *(name for margin in sizes for name in margin.columns)]
    with progress_bar("counting") as watch:
        whole, cells = read_cells(plan, reports, columns, group_parts=names_of(group_parts), progress=watch, **options)
    if needed and not cells:
        refused = f" All {whole.refused:,} rows were refused: {REFUSED}." if whole.refused else ""
        raise ValueError(f"There are no reports in {reports}.{refused}")
    return whole, cells, sizes
