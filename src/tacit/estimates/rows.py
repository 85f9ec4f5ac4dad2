"""What an estimate consists of, and what every estimator needs to write one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.estimates.prior_check import PriorCheck
from tacit.exact import Floats
from tacit.mechanism import Estimator
from tacit.plan import Plan
from tacit.prior import Value
from tacit.task import Histogram, Survey, Task, WeightedSum


@dataclass(frozen=True, kw_only=True)
class Row:
    """One estimated number: a value's count, or a sum (value None)."""

    value: Value | None
    estimate: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
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
        numbers = {name: getattr(row, name) / n for name in ("estimate", "standard_error", "low", "high")}
        return Row(value=row.value, **numbers)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "n_reports": self.n_reports,
            "estimator": self.estimator,
            "level": self.level,
            "estimates": [{name: _known(getattr(row, name)) for name in Row.__dataclass_fields__} for row in self.rows],
            "prior_check": [
                {"group": check.group, "statistic": check.statistic, "p_value": check.p_value}
                for check in self.prior_check
            ],
            "influence": self.influence,
            "projected": self.projected,
        }


def row_values(task: Task, values: Sequence[Value]) -> list[Value | None]:
    """What the rows of an estimate are about: each value of a histogram, a survey's one value, or a total (None)."""
    if isinstance(task, Histogram):
        return list(values)
    return [task.wanted[0] if isinstance(task, Survey) and len(task.wanted) == 1 else None]


def possible_totals(task: Task, totals: Floats, n_reports: int) -> Floats:
    """The nearest totals that could be: counts of `n_reports` people for a histogram and a survey, anything for a sum.

    >>> possible_totals(Histogram(), np.array([5.0, -1.0, 2.0]), 6).tolist()
    [4.5, 0.0, 1.5]
    """
    if isinstance(task, Histogram):
        return _nearest_counts(np.nan_to_num(totals), n_reports)
    if isinstance(task, Survey):
        clipped: Floats = np.clip(totals, 0.0, n_reports)
        return clipped
    return totals


def prior_totals(plan: Plan, people: Sequence[tuple[float, float, float]]) -> Floats:
    """What the priors alone expect the rows to be, given each group's (respondents, Σ weights, Σ offsets).

    With a and b the group's weight and offset, a weighted sum is expected to be a·(Σ weights · E x + Σ offsets) + b·n.
    """
    total = np.zeros(len(row_values(plan.task, plan.values)))
    for group, (n, weights, offsets) in zip(plan.groups, people, strict=True):
        p = group.prior.probabilities
        if isinstance(plan.task, WeightedSum):
            a, b = float(group.weight), float(group.offset)
            total += a * (weights * float(p @ group.prior.numbers) + offsets) + b * n
        else:
            total += n * (p if isinstance(plan.task, Histogram) else p @ plan.task.g(group.prior))
    return total


def _nearest_counts(estimates: Floats, total: float) -> Floats:
    """The nearest vector (Euclidean) that is non-negative and sums to `total`."""
    ordered = np.sort(estimates)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(ordered) + 1)
    shift = excess[np.flatnonzero(ordered > excess)[-1]] if len(ordered) else 0.0
    projected: Floats = np.maximum(estimates - shift, 0.0)
    return projected


def _known(number: Any) -> Any:
    return None if isinstance(number, float) and math.isnan(number) else number
