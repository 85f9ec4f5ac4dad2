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

_SIMULTANEOUS = "Whether intervals hold for all rows at once; yes if more than 20 rows are estimated."
_ESTIMATORS = "assisted (default): the prior as far as it is worth. unbiased, mle: without it. mmse: trusts it."


@app.command("estimate", epilog="Example: tacit estimate plan.json reports.parquet --by region --html estimate.html")
def estimate_command(
    plan: PlanFile,
    reports: Annotated[str, typer.Argument(metavar="REPORTS", help="Reports or a tally; - for standard input.")],
    estimator: Annotated[
        Literal["assisted", "unbiased", "mle", "mmse"] | None, option(metavar="NAME", help=_ESTIMATORS)
    ] = None,
    level: Annotated[float, option(metavar="L", help="Level of the intervals, between 0 and 1.")] = 0.95,
    by: Annotated[str | None, option(metavar="NAME", help="Also break down by this public column.")] = None,
    simultaneous: Annotated[bool | None, option("--simultaneous/--one-by-one", help=_SIMULTANEOUS)] = None,
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
    from functools import partial

    from tacit.estimates import Estimator, estimate, estimators
    from tacit.files import InputError, read_tallies
    from tacit.plan.contract import Plan
    from tacit.show import terminal
    from tacit.show.sentences import selects

    loaded = Plan.load(plan)
    if html is not None:
        check_target(html)
    by_group = by is not None and by == (group_column or "group") and loaded.groups[0].name is not None
    with progress_bar("counting") as watch:
        whole, parts = read_tallies(
            loaded, reports, by=None if by_group else by, report_column=report_column, group_column=group_column,
            progress=watch, weight_column=weight_column, offset_column=offset_column, format=input_format,
        )  # fmt: skip
        together = selects(loaded) if simultaneous is None else simultaneous
        asked = partial(estimate, loaded, level=level, project=project, simultaneous=together)
        result = asked(whole, estimator)
        if by_group:
            names = [str(group.name) for group in loaded.groups if group.name in whole.groups]
            broken_down = {name: asked(whole, estimator, group=name) for name in names}
        else:
            # The prior knows nothing of the parts of another column.
            chosen: Estimator = "mle" if estimator == "mle" else "unbiased"
            if parts and chosen not in estimators(loaded):
                raise InputError(
                    f"A breakdown by '{by}' must not use the prior, which knows nothing of it, and this plan's reports "
                    "are read with the prior only. Plan with the aim 'unbiased', or with groups by that column."
                )
            broken_down = {name: asked(part, chosen) for name, part in parts.items()}
    if html is not None:
        from tacit.show.page import write_page

        write_page(html, loaded, result, broken_down, by, whole)
    if as_json:
        data = {"plan": loaded.hash} | result.to_dict() | {"refused": whole.refused}
        print_json(data | ({"by": {name: part.to_dict() for name, part in broken_down.items()}} if by else {}))
        return
    counted = [whole.groups[group.name].total if group.name in whole.groups else 0 for group in loaded.groups]
    terminal.print_estimate(out, loaded, result, counted)
    if whole.refused:
        why = "the plan cannot have sent such reports"
        if weight_column is not None or offset_column is not None:
            why += ", or their weight or offset is missing or no number of at most 2^53"
        out.print(f"[yellow]{whole.refused:,} rows were refused: {why}.[/yellow]", soft_wrap=True)
    if by is not None:
        terminal.print_breakdown(out, loaded, by, broken_down)
