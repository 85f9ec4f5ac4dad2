"""From a tally to the total, with an interval, under a chosen estimator.

Every estimator is a weight t(y) per report and component of g. The estimate of Σ_i (a_i g(X_i) + b_i) over the
respondents is Σ_i (a_i t(Y_i) + b_i); the a_i and b_i are 1 and 0 except in weighted sums. The interval is for the
total of the people who took part, not of a population they might stand for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from tacit.estimates.mle import information, maximum_likelihood
from tacit.estimates.mmse import mmse_weights
from tacit.estimates.prior_check import ALARM_LEVEL, PriorCheck, check_prior
from tacit.estimates.unbiased import NotEstimableError, unbiased_variance_weights, unbiased_weights
from tacit.mechanism.core_tail import POSITION_BITS, CoreTail
from tacit.mechanism.core_tail_histogram import histogram_gains, posterior_sum
from tacit.mechanism.table import Channel
from tacit.plan.contract import Group, Plan
from tacit.prior import Floats, Value
from tacit.tally import UNIT, Counts, Tally
from tacit.task import Histogram, Survey, WeightedSum

Estimator = Literal["mmse", "unbiased", "mle"]
#: The prior check of a circle counts reports by state and by this many equal slices of positions.
_SLICES = 16


@dataclass(frozen=True)
class Row:
    """One estimated number: a value's count, or a sum (value None)."""

    value: Value | None
    estimate: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """The result: rows, the check of the prior per group, and how much one forged report could move a row."""

    n_reports: int
    estimator: Estimator
    level: float
    rows: tuple[Row, ...]
    prior_check: tuple[PriorCheck, ...]
    influence: float
    projected: bool = False

    @property
    def mean(self) -> Row:
        """The total divided by the number of respondents."""
        if len(self.rows) != 1 or not self.n_reports:
            raise ValueError("A mean needs a single total and at least one report.")
        row, n = self.rows[0], self.n_reports
        return Row(row.value, row.estimate / n, row.standard_error / n, row.low / n, row.high / n)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "n_reports": self.n_reports,
            "estimator": self.estimator,
            "level": self.level,
            "estimates": [{name: _plain(getattr(row, name)) for name in Row.__dataclass_fields__} for row in self.rows],
            "prior_check": [
                {"group": check.group, "statistic": check.statistic, "p_value": check.p_value}
                for check in self.prior_check
            ],
            "influence": self.influence,
            "projected": self.projected,
        }


@dataclass(frozen=True)
class _Part:
    """One group's contribution: estimate and variance per component, and the range of t over reports."""

    estimate: Floats
    variance: Floats
    influence: float


def estimate(
    plan: Plan, tally: Tally, estimator: Estimator = "mmse", level: float = 0.95, *, project: bool = False
) -> Estimate:
    """Estimate the plan's total from a tally.

    `mmse` (the paper's) has the least error if the prior is right; `unbiased` does not use the prior; `mle` finds the
    distribution that explains the reports best. `project` moves the estimates, not the intervals, to what counts can
    be: at least zero and, for a histogram, adding up to the number of reports.
    """
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
    shown = _project(plan, total, tally.n_reports) if project else total
    rows = tuple(
        Row(value, float(centre), float(error), float(middle - width), float(middle + width))
        for value, centre, error, middle, width in zip(_row_values(plan), shown, errors, total, reach, strict=True)
    )
    checks = [_check(group, counts) for group, counts in counted if counts.total]
    # Many groups have many chances to look odd: each gets its share of the false alarms.
    shared = tuple(replace(check, alarm_level=ALARM_LEVEL / len(checks)) for check in checks)
    influence = max(part.influence for part in parts)
    return Estimate(tally.n_reports, estimator, level, rows, shared, influence, project)


def project_to_counts(estimates: Floats, total: float) -> Floats:
    """The nearest vector (Euclidean) that is non-negative and sums to `total`.

    >>> project_to_counts(np.array([5.0, -1.0, 2.0]), 6).tolist()
    [4.5, 0.0, 1.5]
    """
    ordered = np.sort(estimates)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(ordered) + 1)
    shift = excess[np.flatnonzero(ordered > excess)[-1]] if len(ordered) else 0.0
    projected: Floats = np.maximum(estimates - shift, 0.0)
    return projected


def _row_values(plan: Plan) -> list[Value | None]:
    if isinstance(plan.task, Histogram):
        return list(plan.values)
    return [plan.task.wanted[0] if isinstance(plan.task, Survey) and len(plan.task.wanted) == 1 else None]


def _project(plan: Plan, total: Floats, n_reports: int) -> Floats:
    if isinstance(plan.task, Histogram):
        return project_to_counts(np.nan_to_num(total), n_reports)
    if isinstance(plan.task, Survey):
        clipped: Floats = np.clip(total, 0.0, n_reports)
        return clipped
    return total


def _part(plan: Plan, group: Group, counts: Counts, estimator: Estimator) -> _Part:
    if isinstance(group.mechanism, CoreTail):
        return _core_tail_part(group.mechanism, group, counts, estimator)
    task = plan.task
    g = group.prior.numbers[:, None] if isinstance(task, WeightedSum) else task.g(group.prior)
    weights, squares, offset = _weights(plan, group, counts)
    method: Mapping[str, Callable[..., tuple[Floats, Floats]]] = {
        "mmse": _mmse,
        "unbiased": _unbiased,
        "mle": _mle,
    }
    t, variance = method[estimator](group, g, counts.dense(group.mechanism.n_outputs), squares)
    largest = float(group.weight) if isinstance(task, WeightedSum) else 1.0
    influence = abs(largest) * float(np.nanmax(t.max(axis=0) - t.min(axis=0)))
    return _Part(weights @ t + offset, variance, influence)


def _weights(plan: Plan, group: Group, counts: Counts) -> tuple[Floats, Floats, float]:
    """Σ a, Σ a² per report, and Σ b."""
    assert isinstance(group.mechanism, Channel)
    n = counts.dense(group.mechanism.n_outputs)
    if not isinstance(plan.task, WeightedSum):
        return n, n, 0.0
    a, b = float(group.weight), float(group.offset)
    if counts.sums is None:
        return a * n, a * a * n, b * float(n.sum())
    sums = counts.sums.astype(np.float64) * UNIT
    dense = np.zeros((2, len(n)))
    dense[:, counts.reports] = sums[:2]
    return a * dense[0], a * a * dense[1], a * float(sums[2].sum()) + b * float(n.sum())


def _mmse(group: Group, g: Floats, counts: Floats, squares: Floats) -> tuple[Floats, Floats]:
    assert isinstance(group.mechanism, Channel)
    means, variances = mmse_weights(group.mechanism, group.prior, g)
    return means, squares @ variances


def _unbiased(group: Group, g: Floats, counts: Floats, squares: Floats) -> tuple[Floats, Floats]:
    assert isinstance(group.mechanism, Channel)
    t = unbiased_weights(group.mechanism, group.prior, g)
    variance = np.maximum(squares @ unbiased_variance_weights(group.mechanism, group.prior, t), 0.0)
    if g.shape[1] == len(g):
        # A histogram's values outside the support: no report speaks of them.
        t[:, [x for x, weight in enumerate(group.prior.weights) if not weight]] = np.nan
    return t, variance


def _mle(group: Group, g: Floats, counts: Floats, squares: Floats) -> tuple[Floats, Floats]:
    assert isinstance(group.mechanism, Channel)
    inside = list(group.prior.support)
    p = maximum_likelihood(group.mechanism, group.prior, counts).distribution
    q = group.mechanism.matrix
    share = np.maximum(p @ q, 1e-300)
    posterior_means = (q * p[:, None] / share).T @ g
    matrix = information(group.mechanism, p)[np.ix_(inside, inside)]
    values, vectors = np.linalg.eigh(matrix)
    seen = values > 1e-10 * values[-1]
    loadings = vectors.T @ g[inside]
    if (np.abs(loadings[~seen]) > 1e-6 * max(1.0, float(np.abs(g).max()))).any():
        raise NotEstimableError(
            "The maximum of the likelihood is not unique for this plan: its reports do not tell all values apart. "
            "Use the estimator 'mmse', or plan again with 'invertible'."
        )
    sampled = (loadings[seen] ** 2 / values[seen, None]).sum(axis=0) - p[inside] @ g[inside] ** 2
    return posterior_means, np.maximum(sampled, 0.0) * float(squares.sum())


def _core_tail_part(mechanism: CoreTail, group: Group, counts: Counts, estimator: Estimator) -> _Part:
    """Posterior sums in O((N + d) log(N + d)); their spread is taken at its mean under the prior, N times the MSE."""
    if estimator != "mmse":
        raise NotEstimableError(
            f"The estimator {estimator!r} needs a table, and this plan's mechanism for {len(group.prior):,} values has "
            "none. Use 'mmse', or merge rare values into one and plan again."
        )
    inside = list(group.prior.support)
    p = group.prior.probabilities[inside]
    estimate, variance = np.zeros((2, len(group.prior)))
    estimate[inside] = posterior_sum(mechanism, counts.reports, counts.counts)
    variance[inside] = counts.total * np.maximum(p * (1 - p) - histogram_gains(mechanism), 0.0)
    highest, lowest = mechanism.levels()
    return _Part(estimate, variance, float(p.max()) * float(highest - lowest))


def _check(group: Group, counts: Counts) -> PriorCheck:
    if isinstance(group.mechanism, CoreTail):
        cells = group.mechanism.cells
        shares = np.array([float(share) for share in group.mechanism.state_probabilities()])
        slices = np.diff([-(-edge * cells // _SLICES) for edge in range(_SLICES + 1)]) / cells
        state, position = counts.reports >> POSITION_BITS, counts.reports & (1 << POSITION_BITS) - 1
        seen = np.zeros(len(shares) * _SLICES)
        np.add.at(seen, state * _SLICES + position * _SLICES // cells, counts.counts)
        return check_prior(group.name, seen, np.outer(shares, slices).ravel())
    marginal = group.mechanism.marginal(group.prior)
    return check_prior(group.name, counts.dense(group.mechanism.n_outputs), marginal)


def _plain(number: Any) -> Any:
    return None if isinstance(number, float) and math.isnan(number) else number
