"""What an estimate consists of, and what every estimator needs to write one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tacit.estimates._prior_check import PriorCheck
from tacit.exact import Floats
from tacit.plan import Plan
from tacit.prior import Value

#: `assisted` uses the prior as far as it is worth it, `unbiased` and `mle` not at all, `mmse` as if it were exact.
Estimator = Literal["assisted", "unbiased", "mmse", "mle"]
#: Whom an interval is about: those who took part, or a population they stand for, sampling included.
Scope = Literal["participants", "population"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One estimated number: a value's count, or a sum (value None).

    `standard_error` is that of the unbiased estimate where the estimator is `assisted`. `low` and `high` are NaN where
    the reports do not tell the value from others. `prior` is what the prior alone expects, and `prior_share` how much
    of the estimate is the prior: 0 if nothing, 1 if all.
    """

    value: Value | None
    estimate: float
    standard_error: float
    low: float
    high: float
    prior: float = math.nan
    prior_share: float = 0.0

    @property
    def margin(self) -> float:
        """Half the interval."""
        return (self.high - self.low) / 2

    def divided(self, by: float) -> Row:
        """The same per respondent, say: a share of a count, the mean of a sum."""
        numbers = {name: getattr(self, name) / by for name in ("estimate", "standard_error", "low", "high", "prior")}
        return Row(value=self.value, **numbers, prior_share=self.prior_share)


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """The result: rows, the check of the prior, and how much one forged report could move a row.

    `values` are what the rows are about, and `columns` their numbers, an array for each name of a `Row`. `checks` finds
    out whether the reports contradict the prior, and `moves` how far one that is changed to another, or one more, moves
    a row: both take as long as the rows do, and many never ask. `records_worth` says how many of its people a group's
    prior is worth, as the reports show it; None where they do not. `scope` says whom the intervals are about, and
    `design_effect` by how much unequal weights raise the variance (Kish).
    """

    n_reports: int
    total_weight: float
    estimator: Estimator
    level: float
    values: Sequence[Value | None]
    columns: Mapping[str, Floats] = field(repr=False)
    checks: Callable[[], tuple[PriorCheck, ...]] = field(repr=False, compare=False)
    moves: Callable[[], tuple[float, float]] = field(repr=False, compare=False)
    projected: bool = False
    simultaneous: bool = False
    records_worth: float | None = None
    scope: Scope = "participants"
    design_effect: float = 1.0

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The columns, row by row: made when they are asked for, as thousands take longer than all of an estimate."""
        # Numbers of numpy, one by one, would take longer still.
        numbers = np.column_stack([*self.columns.values()]).tolist()
        return tuple(
            Row(value=value, **dict(zip(self.columns, each, strict=True)))
            for value, each in zip(self.values, numbers, strict=True)
        )

    @cached_property
    def prior_check(self) -> tuple[PriorCheck, ...]:
        """Do the reports contradict the prior, all together and group by group?"""
        return self.checks()

    @cached_property
    def _moved(self) -> tuple[float, float]:
        return self.moves()

    @property
    def influence(self) -> float:
        """How far one report that is changed to another can move a row."""
        return self._moved[0]

    @property
    def influence_added(self) -> float:
        """How far one more report can move a row."""
        return self._moved[1]

    @property
    def mean(self) -> Row:
        """The total divided by the weights of the respondents, 1 each where they have none."""
        if len(self.values) != 1 or not self.n_reports:
            raise ValueError("A mean needs a single total and at least one report.")
        return self.per_respondent(self.rows[0])

    @property
    def weighted(self) -> bool:
        """Whether respondents have weights other than 1; those that sum to the number of reports are weights, too."""
        return self.total_weight != self.n_reports or self.design_effect > 1 + 1e-9

    def per_respondent(self, row: Row) -> Row:
        """A share of a count, the mean of a sum: divided by the respondents' weights, 1 each where they have none."""
        return row.divided(self.total_weight or 1.0)

    def to_dict(self) -> dict[str, Any]:
        """For JSON. Shares are of the reports; of a sum they are the mean."""
        return {
            "n_reports": self.n_reports,
            "total_weight": self.total_weight,
            "estimator": self.estimator,
            "level": self.level,
            "scope": self.scope,
            "design_effect": self.design_effect,
            "simultaneous": self.simultaneous,
            "estimates": [_row_dict(row, self.per_respondent(row)) for row in self.rows],
            "prior_check": [
                {
                    "group": check.group,
                    "pooled": check.pooled,
                    "statistic": check.statistic,
                    "degrees": check.degrees,
                    "p_value": check.p_value,
                    "contradicted": check.contradicted,
                }
                for check in self.prior_check
            ],
            "records_worth": self.records_worth,
            "influence": self.influence,
            "influence_added": self.influence_added,
            "projected": self.projected,
        }


def _row_dict(row: Row, each: Row) -> dict[str, Any]:
    numbers = {name: getattr(row, name) for name in Row.__dataclass_fields__} | {"margin": row.margin}
    numbers |= {"share": each.estimate, "share_low": each.low, "share_high": each.high, "share_margin": each.margin}
    return {name: _known(number) for name, number in numbers.items()}


def prior_totals(plan: Plan, people: Sequence[tuple[float, float, float]]) -> Floats:
    """What the priors alone expect the rows to be, given each group's (respondents, Σ weights, Σ offsets).

    With a and b the group's weight and offset, a weighted sum is expected to be a·(Σ weights · E x + Σ offsets) + b·n.
    NaN where a group has no prior.
    """
    total = np.zeros(len(plan.row_values))
    if any(group.without_prior for group in plan.groups):
        return total * np.nan
    for group, (n, weights, offsets) in zip(plan.groups, people, strict=True):
        a, b = float(group.weight), float(group.offset)
        total += a * (weights * plan.task.moments(group.prior)[0] + offsets) + b * n
    return total


def _known(number: Any) -> Any:
    return None if isinstance(number, float) and math.isnan(number) else number


def reach(variance: Floats, slope: float | Floats, z: float, side: int) -> Floats:
    """The distance r from an estimate x to the upper end (`side` 1) or the lower end (−1) of its interval.

    As in Wilson's interval (1927), each end is judged by its own variance. The estimate x of a count θ has a variance
    that is linear in θ. If few people hold a value, none may be seen: then x is 0, and the variance at x is nearly 0,
    but not the variance at the θ that would explain x. So θ belongs to the interval if

        (x − θ)² ≤ z² V(θ),     V(θ) = V(x) + s·(θ − x),

    which gives r = ±z²s/2 + √((z²s/2)² + z²V(x)), where `variance` is V(x) and `slope` s. With s = 0 this is z·√V(x).

    Unary encoding at a large ε: no report shows the value, and 3 people may hold it.

    >>> [round(float(reach(np.zeros(1), slope, 1.96, 1)[0]), 2) for slope in (0.0, 1.0)]
    [0.0, 3.84]
    """
    half = side * z * z * slope / 2
    found: Floats = half + np.sqrt(half * half + z * z * np.maximum(variance, 0.0))
    return found


def student(level: float, degrees: float = math.inf) -> float:
    """Half the width of an interval in standard errors, by Student's t; for infinitely many degrees the normal's.

    >>> round(student(0.95), 2), round(student(0.95, 10), 2)
    (1.96, 2.23)
    """
    from scipy.special import ndtri, stdtrit

    tail = 0.5 + level / 2
    return float(ndtri(tail) if math.isinf(degrees) else stdtrit(degrees, tail))
