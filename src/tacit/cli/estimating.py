"""`tacit estimate`: from reports to totals. Argument parsing and printing only."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

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
    from tacit.estimates import Estimate, Estimator
    from tacit.plan import Plan
    from tacit.tally import Tally

_ESTIMATORS = "assisted (default): the prior as far as it is worth. unbiased, mle: without it. mmse: trusts it."


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
    from tacit.plan.contract import Plan
    from tacit.show import results
    from tacit.show.sentences import selects

    loaded = Plan.load(plan)
    for target in (html, csv):
        if target is not None:
            check_target(target, plan, reports, *(population or ()))
            keep_file(target, overwrite)
    options: dict[str, Any] = {
        "report_column": report_column, "group_column": group_column, "weight_column": weight_column,
        "offset_column": offset_column, "format": input_format,
    }  # fmt: skip
    together = selects(loaded) if simultaneous is None else simultaneous
    if scope is None and estimator in (None, "unbiased") and not project:
        scope = "population" if population or _design_weights(loaded, reports, weight_column) else None
    sampled = bool(population) or scope == "population"
    if sampled and (estimator not in (None, "unbiased") or project):
        raise ValueError("Estimates for a population are unbiased: leave --estimator and --project out.")
    with files_on(engine, master) as files:
        options["count"] = files.tally_file
        if sampled:
            whole, result, broken_down = _for_population(
                loaded, reports, by, level, together, population=population, scope=scope,
                group_parts=names_of(group_parts), **options,
            )  # fmt: skip
        else:
            whole, result, broken_down = _for_participants(
                loaded, reports, by, level, together, estimator=estimator, project=project, parts=names_of(group_parts),
                **options,
            )  # fmt: skip
    if html is not None:
        from tacit.show.page import write_page

        write_page(html, loaded, result, broken_down, by, whole, command=typed())
    if csv is not None:
        from tacit.show.spreadsheet import estimate_rows, write_csv

        write_csv(csv, estimate_rows(loaded, result, broken_down, by))
    if as_json:
        data = {"plan": loaded.hash} | result.to_dict() | {"refused": whole.refused}
        print_json(data | ({"by": {name: part.to_dict() for name, part in broken_down.items()}} if by else {}))
        return
    counted = [whole.groups[group.name].total if group.name in whole.groups else 0 for group in loaded.groups]
    results.print_estimate(out, loaded, result, counted)
    tell_refused(whole.refused, weighted=weight_column is not None or offset_column is not None)
    if by is not None:
        results.print_breakdown(out, loaded, by, broken_down)


def _design_weights(plan: Plan, reports: str, column: str | None) -> bool:
    """Whether reports have weights that say whom they stand for; those of a weighted sum are part of what is asked."""
    from tacit.files.tallies import checked_tally, is_tally
    from tacit.tally import Counts

    if plan.task.takes_weights:
        return False
    if column is not None or not is_tally(reports):
        return column is not None
    kept = checked_tally(plan, reports).groups.values()
    return any(isinstance(counts, Counts) and counts.sums is not None for counts in kept)


#: The counts, the estimate of all, and of each part.
_Found: TypeAlias = "tuple[Tally, Estimate, dict[str, Estimate]]"


def _for_population(
    plan: Plan,
    reports: str,
    by: str | None,
    level: float,
    together: bool,
    *,
    population: list[Path] | None,
    scope: str | None,
    offset_column: str | None,
    **options: Any,
) -> _Found:
    """Weighted for a population, or with sampling included."""
    from tacit.cli.findings import collect
    from tacit.estimates import estimate

    if offset_column is not None:
        raise ValueError("Offsets are part of a weighted sum of those who took part: leave --for and --population out.")
    margins = [] if by is None else [by]
    whole, collected = collect(plan, reports, margins, population, scope, **options)
    checks = estimate(plan, whole, "unbiased").prior_check
    result = collected.part().estimate(level, simultaneous=together, prior_check=checks)
    parts = collected.parts(by) if by is not None else []
    return whole, result, {part.name: part.estimate(level, simultaneous=together) for part in parts}


def _for_participants(
    plan: Plan,
    reports: str,
    by: str | None,
    level: float,
    together: bool,
    *,
    estimator: Estimator | None,
    project: bool,
    parts: tuple[str, ...],
    **options: Any,
) -> _Found:
    """Of those who took part: by the plan's groups and what was crossed to make them, or by another public column."""
    from tacit.estimates import estimate, estimators
    from tacit.files import InputError, read_tallies
    from tacit.plan.crossing import margins

    asked = partial(estimate, plan, level=level, project=project, simultaneous=together)
    of_groups = _groups_by(plan, by, options["group_column"] or "group", margins(plan, parts) if parts else {})
    with progress_bar("counting") as watch:
        whole, tallies = read_tallies(plan, reports, by=None if of_groups else by, progress=watch, **options)
        result = asked(whole, estimator)
        if of_groups:
            present = {name: [each for each in groups if each in whole.groups] for name, groups in of_groups.items()}
            return whole, result, {name: asked(whole, estimator, group=some) for name, some in present.items() if some}
        # The prior knows nothing of the parts of another column.
        chosen: Estimator = "mle" if estimator == "mle" else "unbiased"
        if tallies and chosen not in estimators(plan):
            raise InputError(
                f"A breakdown by '{by}' must not use the prior, which knows nothing of it, and this plan's reports "
                "are read with the prior only. Plan with the aim 'unbiased', or with groups by that column."
            )
        return whole, result, {name: asked(part, chosen) for name, part in tallies.items()}


def _groups_by(plan: Plan, by: str | None, column: str, crossed: dict[str, dict[str, str]]) -> dict[str, list[str]]:
    """The groups of each category where a breakdown is by groups or by what was crossed to make them."""
    names = [group.name for group in plan.groups if group.name is not None]
    if by == column:
        return {name: [name] for name in names}
    found: dict[str, list[str]] = {}
    for name in names:
        if by is not None and by in crossed.get(name, {}):
            found.setdefault(crossed[name][by], []).append(name)
    return found
