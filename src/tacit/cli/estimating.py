"""`tacit estimate`: from reports to totals. Argument parsing and printing only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tacit.cli.app import (
    FileFormat,
    GroupColumn,
    JsonFlag,
    OffsetColumn,
    PlanFile,
    ReportColumn,
    WeightColumn,
    app,
    check_target,
    option,
    out,
    print_json,
    progress_bar,
)

_ESTIMATORS = "unbiased (default where possible), mle: without the prior. mmse: trusts it."


@app.command("estimate", epilog="Example: tacit estimate plan.json reports.parquet --by region --html estimate.html")
def estimate_command(
    plan: PlanFile,
    reports: Annotated[str, typer.Argument(metavar="REPORTS", help="Reports or a tally; - for standard input.")],
    estimator: Annotated[Literal["unbiased", "mmse", "mle"] | None, option(metavar="NAME", help=_ESTIMATORS)] = None,
    level: Annotated[float, option(metavar="L", help="Level of the intervals, between 0 and 1.")] = 0.95,
    by: Annotated[str | None, option(metavar="NAME", help="Also break down by this public column.")] = None,
    project: Annotated[bool, option("--project", help="Move estimates to possible counts.")] = False,
    report_column: ReportColumn = "report",
    group_column: GroupColumn = None,
    weight_column: WeightColumn = None,
    offset_column: OffsetColumn = None,
    input_format: FileFormat = None,
    html: Annotated[Path | None, option(metavar="FILE", help="Also write a page with plots.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Estimate the total with intervals, and check the reports against the prior."""
    from tacit.estimates import estimate
    from tacit.files import read_tallies
    from tacit.plan.contract import Plan
    from tacit.show import terminal

    loaded = Plan.load(plan)
    if html is not None:
        check_target(html)
    with progress_bar("counting") as watch:
        whole, parts = read_tallies(
            loaded, reports, by=by, report_column=report_column, group_column=group_column, progress=watch,
            weight_column=weight_column, offset_column=offset_column, format=input_format,
        )  # fmt: skip
        result = estimate(loaded, whole, estimator, level, project=project)
        broken_down = {name: estimate(loaded, part, estimator, level, project=project) for name, part in parts.items()}
    if html is not None:
        from tacit.show.page import write_page

        write_page(html, loaded, result, broken_down, by, whole)
    if as_json:
        data = {"plan": loaded.hash} | result.to_dict() | {"refused": whole.refused}
        print_json(data | ({"by": {name: part.to_dict() for name, part in broken_down.items()}} if by else {}))
        return
    terminal.print_estimate(out, loaded, result)
    if whole.refused:
        out.print(f"[yellow]{whole.refused:,} rows were refused: the plan cannot have sent such reports.[/yellow]")
    if by is not None:
        terminal.print_breakdown(out, loaded, by, broken_down)
