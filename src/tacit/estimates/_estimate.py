"""From a tally to the total, with an interval, under a chosen estimator.

Every group's mechanism reads its own reports (`Mechanism.read`), and `GroupReports` puts the groups together. The
interval is for the total of the people who took part, not of a population they might stand for.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import get_args

from tacit.estimates._participants import GroupReports
from tacit.estimates._rows import Estimate, Estimator
from tacit.mechanism import NotEstimableError
from tacit.plan import Plan
from tacit.tally import Counts, GroupTally, Tally


def estimate(
    plan: Plan,
    tally: Tally,
    estimator: Estimator | None = None,
    level: float = 0.95,
    *,
    group: str | Collection[str] | None = None,
    project: bool = False,
    simultaneous: bool = False,
) -> Estimate:
    """Estimate the plan's total from a tally.

    `assisted` (the default) is unbiased and moved towards the prior as far as the prior is worth it, by what the groups
    show or the plan states; its intervals hold whatever the truth is. Where nothing says what the prior is worth (one
    group and no set of priors, or reports with weights) it is `unbiased`, which does not use the prior at all. `mle`
    finds the distribution that explains the reports best. `mmse` (the paper's) has the least error if the prior is
    exactly right, and intervals that hold only then; it is the default where the reports allow nothing else.

    `group` asks for one group's total, or for that of some together; the others then tell what their priors are worth.
    `simultaneous` makes intervals that hold for all rows at once. `project` moves the estimates, not the intervals, to
    what counts can be: at least zero and, for a histogram, adding up to the number of reports.
    """
    if estimator is None:
        try:
            return estimate(plan, tally, "assisted", level, group=group, project=project, simultaneous=simultaneous)
        except NotEstimableError:
            estimator = "mmse"
    if estimator not in get_args(Estimator):
        raise ValueError(f"The 'estimator' must be one of {', '.join(get_args(Estimator))}. Got {estimator!r} instead.")
    if not 0 < level < 1:
        raise ValueError(f"The 'level' must lie between 0 and 1. Got {level} instead.")
    if estimator == "mmse" and any(group.without_prior for group in plan.groups):
        raise NotEstimableError(
            "The estimator 'mmse' trusts the prior, and this plan has none. Use 'unbiased' or 'mle'."
        )
    tally.check(plan)
    reports = GroupReports.of(plan, tally, group)
    if estimator == "assisted" and not reports.can_assist:
        estimator = "unbiased"
    readings = reports.read("unbiased" if estimator == "assisted" else estimator)
    values = plan.row_values
    found = reports.found(readings, estimator, 1 - (1 - level) / len(values) if simultaneous else level)
    shown = plan.task.possible(found.estimate, reports.total_weight) if project else found.estimate
    columns = {
        "estimate": shown, "standard_error": found.error, "low": found.low, "high": found.high,
        "prior": reports.prior_totals(), "prior_share": found.prior_share,
    }  # fmt: skip
    return Estimate(
        n_reports=reports.n_reports, total_weight=reports.total_weight, estimator=estimator, level=level, values=values,
        columns=columns,
        checks=partial(reports.checks, readings if estimator in ("assisted", "unbiased") else None),
        moves=partial(reports.influence, readings, estimator), projected=project, simultaneous=simultaneous,
        records_worth=found.records_worth, design_effect=reports.design_effect,
    )  # fmt: skip


def estimators(plan: Plan) -> list[Estimator]:
    """The estimators that a plan's reports allow, the one to prefer first; tried on every report of a table once."""
    counts: dict[str | None, GroupTally] = {
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
