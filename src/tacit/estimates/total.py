"""From a tally to the total, with an interval, under a chosen estimator.

Every group's mechanism reads its own reports (`Mechanism.read`); here the groups are put together. The interval is for
the total of the people who took part, not of a population they might stand for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np

from tacit.estimates.prior_check import ALARM_LEVEL, PriorCheck, check_prior
from tacit.estimates.rows import Estimate, Row, possible_totals, row_values
from tacit.mechanism import Covered, Estimator, Kept, NotEstimableError, Reading, Received
from tacit.plan import Group, Plan
from tacit.tally import UNIT, Counts, Coverage, GroupTally, Tally
from tacit.task import Histogram, Sum, Survey, WeightedSum


def estimate(
    plan: Plan, tally: Tally, estimator: Estimator | None = None, level: float = 0.95, *, project: bool = False
) -> Estimate:
    """Estimate the plan's total from a tally.

    `unbiased` (the default where the reports allow it) does not use the prior; `mmse` (the paper's) has the least error
    if the prior is exactly right; `mle` finds the distribution that explains the reports best. `project` moves the
    estimates, not the intervals, to what counts can be: at least zero and, for a histogram, adding up to the number of
    reports.
    """
    if estimator is None:
        try:
            return estimate(plan, tally, "unbiased", level, project=project)
        except NotEstimableError:
            estimator = "mmse"
    if estimator not in get_args(Estimator):
        raise ValueError(f"The 'estimator' must be one of {', '.join(get_args(Estimator))}. Got {estimator!r} instead.")
    if not 0 < level < 1:
        raise ValueError(f"The 'level' must lie between 0 and 1. Got {level} instead.")
    if tally.plan != plan.hash:
        raise ValueError(f"This tally belongs to another plan: {tally.plan[:12]}…, not {plan.hash[:12]}….")
    from scipy.special import ndtri

    counted = [(group, tally.groups.get(group.name, Counts())) for group in plan.groups]
    parts = [_part(plan, group, counts, estimator) for group, counts in counted]
    total = np.sum([part.estimate for part in parts], axis=0)
    errors = np.sqrt(np.sum([part.variance for part in parts], axis=0))
    reach = float(ndtri(0.5 + level / 2)) * errors
    shown = possible_totals(plan.task, total, tally.n_reports) if project else total
    rows = tuple(
        Row(
            value=value,
            estimate=float(centre),
            standard_error=float(error),
            low=float(middle - width),
            high=float(middle + width),
        )
        for value, centre, error, middle, width in zip(
            row_values(plan.task, plan.values), shown, errors, total, reach, strict=True
        )
    )
    checks = [_check(group, counts) for group, counts in counted if counts.total]
    # Many groups have many chances to look odd: each gets its share of the false alarms.
    shared = tuple(replace(check, alarm_level=ALARM_LEVEL / len(checks)) for check in checks)
    influence = max(part.influence for part in parts)
    return Estimate(
        n_reports=tally.n_reports, estimator=estimator, level=level, rows=rows, prior_check=shared,
        influence=influence, projected=project,
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
    return found


def _part(plan: Plan, group: Group, counts: GroupTally, estimator: Estimator) -> Reading:
    """One group's reading; a weighted sum's a and b are the group's, times and plus those of the reports."""
    if isinstance(plan.task, Histogram | Survey):
        return group.mechanism.read(estimator, group.prior, plan.task, _kept(counts))
    read = group.mechanism.read(estimator, group.prior, Sum(rounded=plan.between), _kept(counts))
    if not isinstance(plan.task, WeightedSum):
        return read
    a, b = float(group.weight), float(group.offset)
    offset = b * counts.total + a * counts.weight_sums[1]
    return Reading(a * read.estimate + offset, a * a * read.variance, abs(a) * read.influence)


def _kept(counts: GroupTally) -> Kept:
    if isinstance(counts, Coverage):
        return Covered(counts.coverage, counts.total)
    often = counts.counts.astype(np.float64)
    if counts.sums is None:
        return Received(counts.reports, often, often, often)
    weights, squares = counts.sums[:2].astype(np.float64) * UNIT
    return Received(counts.reports, often, weights, squares)


def _check(group: Group, counts: GroupTally) -> PriorCheck:
    return check_prior(group.name, *group.mechanism.prior_statistic(group.prior, _kept(counts)))
