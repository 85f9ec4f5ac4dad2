"""The door: from a tally or cells to totals with intervals, under a chosen estimator, for a chosen scope.

Every group's mechanism reads its own reports (`Mechanism.read`). For the participants the groups are put together by
`_participants.py`, for a population by `Part.found`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import get_args

import numpy as np

from tacit.estimates import _participants as participants
from tacit.estimates._cells import Cell, Collected, Part, cells_of
from tacit.estimates._rows import MANY_ROWS, Estimate, Estimator, Scope, check_level
from tacit.estimates.survey._weighting import Margin, collected
from tacit.mechanism import NotEstimableError
from tacit.plan import Plan
from tacit.tally import Counts, Kept, Tally

#: The scope of an estimate where neither weights nor a population say that the reports stand for other people.
DEFAULT_SCOPE: Scope = "participants"

#: One group, several, or all.
_Names = str | Collection[str] | None


def estimate(
    plan: Plan,
    reports: Tally | Sequence[Cell],
    estimator: Estimator | None = None,
    level: float = 0.95,
    *,
    scope: Scope | None = None,
    by: str | None = None,
    group: _Names = None,
    population: Sequence[Margin] = (),
    simultaneous: bool | None = None,
    project: bool = False,
) -> Estimate:
    """Estimate the plan's total, with intervals, and check the prior. `tacit estimate` calls this function.

    Args:
        plan: the plan of the reports.
        reports: a tally, or reports in cells by public columns (`cells_of`, `tacit.files.read_cells`).
        estimator: `assisted` is the unbiased estimate, moved towards the prior as far as the groups' reports or a
            stated set of priors support it; its intervals hold for every truth. `unbiased` does not use the prior.
            `mle` finds the distribution that explains the reports best. `mmse` (the paper's) has the least error if
            the prior is exactly right, and intervals that hold only then. By default `assisted`; `unbiased` where
            nothing shows how far the prior can be trusted (one group and no set of priors, or reports with weights);
            `mmse` where the reports allow nothing else.
        level: of the intervals, between 0 and 1.
        scope: `participants` for intervals about the people who took part, `population` for the people whom they stand
            for, with the sampling error, by the unbiased estimate. By default `population` where reports have design
            weights or a `population` is given, else `participants`.
        by: a margin whose categories are estimated as well (`Estimate.parts`): the groups ("group"), a part of crossed
            groups, or a public column of the cells. Parts by another column than the groups do not use the prior.
        group: the name of a group, or several names, whose total is asked for instead of that of all.
        population: how many people there are in the categories of public margins; the reports are weighted to these
            numbers (one margin post-stratifies, several are raked).
        simultaneous: whether intervals hold for all rows at once (Bonferroni); by default with more than 20 rows.
        project: move the estimates, not the intervals, to possible counts: at least 0 and, for a histogram, with the
            number of reports as their sum.

    >>> from tacit import Prior, Survey, make_plan
    >>> priors = {"north": Prior.of({"yes": 0.2, "no": 0.8}), "south": Prior.of({"yes": 0.4, "no": 0.6})}
    >>> plan = make_plan(priors, Survey("yes"), epsilon=2)
    >>> tally = Tally.of(plan, [0] * 300 + [1] * 700, ["north", "south"] * 500)
    >>> result = estimate(plan, tally, "unbiased", by="group")
    >>> result.n_reports, result.scope, list(result.parts)
    (1000, 'participants', ['north', 'south'])
    >>> sizes = Margin(("group",), {("north",): 2e6, ("south",): 1e6})
    >>> result = estimate(plan, tally, population=[sizes])
    >>> round(result.total_weight), result.scope
    (3000000, 'population')
    """
    if estimator is not None and estimator not in get_args(Estimator):
        raise ValueError(f"The 'estimator' must be one of {', '.join(get_args(Estimator))}. Got {estimator!r} instead.")
    check_level(level)
    cells = cells_of(plan, reports) if isinstance(reports, Tally) else reports
    unbiased = estimator in (None, "unbiased") and not project
    if scope is None:
        scope = "population" if unbiased and (population or _design_weights(plan, cells)) else DEFAULT_SCOPE
    rows = len(plan.row_values)
    asked = _Asked(
        level=level, scope=scope, simultaneous=rows > MANY_ROWS if simultaneous is None else simultaneous,
        rows=rows, project=project,
    )  # fmt: skip
    if not population and scope == "participants":
        return _of_participants(Collected(plan, cells), estimator, by, group, asked)
    if not unbiased:
        raise ValueError("Estimates for a population are unbiased: leave the estimator and 'project' out.")
    return _of_population(collected(plan, cells, by, population), by, group, asked)


@dataclass(frozen=True)
class _Asked:
    """The options of an estimate that its parts share; `rows` is the number of rows."""

    level: float
    scope: Scope
    simultaneous: bool
    rows: int
    project: bool

    @property
    def level_of_each(self) -> float:
        """The level of each interval."""
        return 1 - (1 - self.level) / self.rows if self.simultaneous else self.level


def _design_weights(plan: Plan, cells: Iterable[Cell]) -> bool:
    """Whether reports have weights that say whom they stand for; those of a weighted sum are part of what is asked."""
    return not plan.task.takes_weights and any(cell.has_weights for cell in cells)


# -- participants -----------------------------------------------------------------------------------------------------


def _of_participants(
    reports: Collected,
    estimator: Estimator | None,
    by: str | None,
    group: _Names,
    asked: _Asked,
) -> Estimate:
    """The total of the chosen groups, and of each part: by groups with the other groups beside it, else on its own."""
    whole = reports.by_group()
    names = _named(reports.plan, group)
    chosen = np.array([names is None or each.name in names for each in reports.plan.groups])
    result = _total(Part(whole, "everybody", chosen), estimator, asked)
    if by is None:
        return result
    parts = {}
    for part in reports.parts(by) if reports.cells else ():
        present = {cell.group.name for cell in part.cells}
        if by in reports.cells[0].of_group:
            mine = np.array([each.name in present for each in reports.plan.groups])
            parts[part.name] = _total(Part(whole, part.name, mine), estimator, asked)
        else:
            parts[part.name] = _of_column(part, by, estimator, asked)
    return replace(result, by=by, parts=parts)


def _of_column(part: Part, by: str, estimator: Estimator | None, asked: _Asked) -> Estimate:
    """A part by a public column. The prior says nothing about it, so the estimate must not use the prior."""
    alone = part.collected.by_group(part.chosen)
    try:
        return _total(alone.part(part.name), "mle" if estimator == "mle" else "unbiased", asked)
    except NotEstimableError as error:
        raise NotEstimableError(
            f"A breakdown by '{by}' must not use the prior, which knows nothing of it, and this plan's reports are "
            "read with the prior only. Plan with the aim 'unbiased', or with groups by that column."
        ) from error


def _total(part: Part, estimator: Estimator | None, asked: _Asked) -> Estimate:
    if estimator is None:
        try:
            return _total(part, "assisted", asked)
        except NotEstimableError:
            return _total(part, "mmse", asked)
    plan = part.collected.plan
    if estimator == "mmse" and any(group.without_prior for group in plan.groups):
        raise NotEstimableError(
            "The estimator 'mmse' trusts the prior, and this plan has none. Use 'unbiased' or 'mle'."
        )
    if estimator == "assisted" and not participants.can_assist(part):
        estimator = "unbiased"
    found = participants.found(part, estimator, asked.level_of_each)
    shown = plan.task.possible(found.estimate, part.size) if asked.project else found.estimate
    return Estimate(
        n_reports=part.n_reports, total_weight=part.size, estimator=estimator, level=asked.level,
        values=part.collected.values, columns=found.columns(shown, part.prior_total),
        checks=partial(participants.prior_checks, part, estimator in ("assisted", "unbiased")),
        moves=partial(participants.influence, part, estimator), projected=asked.project,
        simultaneous=asked.simultaneous, records_worth=found.records_worth, design_effect=part.design_effect,
    )  # fmt: skip


def _named(plan: Plan, group: _Names) -> set[str] | None:
    """The names of the groups that are asked for; None for all."""
    if group is None:
        return None
    asked = {group} if isinstance(group, str) else set(group)
    unknown = asked - {each.name for each in plan.groups}
    if unknown or not asked:
        raise ValueError(f"The plan has no group {min(unknown, default=None)!r}.")
    return asked


# -- a population -----------------------------------------------------------------------------------------------------


def _of_population(reports: Collected, by: str | None, group: _Names, asked: _Asked) -> Estimate:
    """The total of the people whom the chosen groups stand for, and of each part."""
    names = _named(reports.plan, group)
    everybody = reports.part(where=None if names is None else lambda cell: cell.group.name in names)
    checks = partial(participants.prior_checks, reports.by_group(everybody.chosen).part(), True)
    result = replace(_mean(everybody, asked), checks=checks)
    if by is None:
        return result
    return replace(result, by=by, parts={part.name: _mean(part, asked) for part in reports.parts(by)})


def _mean(part: Part, asked: _Asked) -> Estimate:
    found = part.found(asked.scope, asked.level_of_each)
    return Estimate(
        n_reports=part.n_reports, total_weight=part.size, estimator="unbiased", level=asked.level,
        values=part.collected.values, columns=found.columns(found.estimate, part.prior_total),
        checks=tuple, moves=part.influence, simultaneous=asked.simultaneous, scope=asked.scope,
        design_effect=part.design_effect,
    )  # fmt: skip


def estimators(plan: Plan) -> list[Estimator]:
    """The estimators that a plan's reports allow, the preferred one first; tried on every report of a table once."""
    counts: dict[str | None, Kept] = {
        group.name: Counts.of(range(group.mechanism.n_possible_reports))
        for group in plan.groups
        if group.mechanism.n_possible_reports is not None
    }
    found: list[Estimator] = []
    for name in ("unbiased", "mmse", "mle"):
        try:
            estimate(plan, Tally(plan.hash, counts), name)
        except NotEstimableError:
            continue
        found.append(name)
    several = len(plan.groups) > 1 or plan.groups[0].prior_set is not None
    believed = not any(group.without_prior for group in plan.groups)
    return ["assisted", *found] if several and believed and "unbiased" in found else found
