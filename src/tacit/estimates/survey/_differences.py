"""Differences and ratios of two means: between groups, between rounds, or against what was known before.

Each side is the unbiased estimate of its own people, so that no prior pulls two sides together. Two parts of the same
reports may overlap (`Collected.variance`); different rounds are taken as independent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from tacit.estimates._rows import Scope, student
from tacit.estimates.survey._collected import Part
from tacit.exact import Floats
from tacit.plan import Group, Plan
from tacit.prior import Prior, Value


@dataclass(frozen=True)
class Known:
    """What a part is compared with that no report says: a prior, or last year's counts. `variance` is of its mean."""

    name: str
    mean: Floats
    variance: Floats
    n_records: int | None = None


Side = Part | Known


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One mean less another, with its interval and the probability `p_value` of a difference as large by chance alone.

    `first` and `second` are shares or means. The ratio has Fieller's interval, NaN where it has no ends: the second is
    not surely different from 0. `few` says that a side has too few reports to trust the interval much.
    """

    part: str
    other: str
    value: Value | None
    first: float
    second: float
    difference: float
    standard_error: float
    low: float
    high: float
    p_value: float
    ratio: float
    ratio_low: float
    ratio_high: float
    few: bool = False

    @property
    def told(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, kw_only=True)
class Differences:
    """Some differences that are read together.

    With `simultaneous` their intervals hold, and p-values are corrected, for all at once (Bonferroni).
    """

    rows: tuple[Difference, ...]
    level: float
    scope: Scope
    simultaneous: bool
    design_effect: float = 1.0

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        rows = [asdict(row) | {"told": row.told} for row in self.rows]
        about = {"level": self.level, "scope": self.scope, "simultaneous": self.simultaneous}
        return about | {"design_effect": self.design_effect, "differences": rows}


def differences(pairs: Sequence[tuple[Part, Side]], level: float = 0.95, *, simultaneous: bool = False) -> Differences:
    """Each pair's first mean less its second, row by row."""
    if not 0 < level < 1:
        raise ValueError(f"The 'level' must lie between 0 and 1. Got {level} instead.")
    if not pairs:
        raise ValueError("There is nothing to compare.")
    tests = sum(len(first.collected.values) for first, _ in pairs) if simultaneous else 1
    rows = [row for first, second in pairs for row in _compared(first, second, level, tests)]
    return Differences(
        rows=tuple(rows), level=level, scope=pairs[0][0].collected.scope, simultaneous=simultaneous,
        design_effect=max(first.design_effect for first, _ in pairs),
    )  # fmt: skip


def the_rest(part: Part) -> Part:
    """Everybody who is not in a part."""
    rest = Part(part.collected, "the others", ~part.chosen)
    if not rest.chosen.any():
        raise ValueError(f"There is nobody beside {part.name} to compare with.")
    return rest


def the_prior(part: Part) -> Known:
    """What the plan's priors expect of the same people, taken as exact."""
    if any(group.without_prior for group in part.collected.plan.groups):
        raise ValueError("This plan has no prior to compare with. Compare with other parts, rounds or numbers.")
    return Known("the prior", part.prior_mean, np.zeros(len(part.prior_mean)))


def known_before(part: Part, known: Mapping[str | None, tuple[Prior, int | None]], name: str) -> Known:
    """What earlier numbers say of people as in this part: by group where they are, in the mix that this part has.

    `known` has for each group a distribution and the records behind it, whose sampling is then part of the variance;
    without records it is taken as exact. The key None serves groups that are not there.
    """
    plan, asked = part.collected.plan, dict[str | None, Floats]()
    for cell, share in zip(part.collected.cells, part.composition, strict=True):
        if share:
            key = cell.group.name if cell.group.name in known else None
            if key not in known:
                raise ValueError(f"The earlier numbers say nothing of group {cell.group.name!r}.")
            # Groups that share earlier numbers share their error.
            asked[key] = asked.get(key, 0.0) + share * _asked(plan, cell.group, known[key][0])
    mean, variance = np.zeros((2, len(part.mean)))
    for key, g in asked.items():
        distribution, n = known[key]
        expected = distribution.probabilities @ g
        mean = mean + expected
        if n and part.collected.scope == "population":
            variance = variance + distribution.probabilities @ (g - expected) ** 2 / n
    behind = [known[key][1] for key in asked]
    return Known(name, mean, variance, None if None in behind else sum(filter(None, behind)))


def _asked(plan: Plan, group: Group, distribution: Prior) -> Floats:
    """g of each value of a distribution that may have another order, or for a sum other values, than the plan."""
    return float(group.weight) * plan.task.g_over(distribution, plan.values) + float(group.offset)


def _compared(first: Part, second: Side, level: float, tests: int) -> list[Difference]:
    places = _same_rows(first, second)
    other_mean, other_variance = second.mean[places], second.variance[places]
    variance = _variance(first, second, places)
    degrees = _degrees(first, second, first.variance, other_variance)
    covariance = (first.variance + other_variance - variance) / 2
    few = first.few or (isinstance(second, Part) and second.few)
    found = []
    for k, value in enumerate(first.collected.values):
        a, b, error = float(first.mean[k]), float(other_mean[k]), math.sqrt(max(float(variance[k]), 0.0))
        reach = student(1 - (1 - level) / tests, float(degrees[k]))
        spread = float(first.variance[k]), float(other_variance[k]), float(covariance[k])
        low, high = fieller(a, b, *spread, reach)
        numbers = {"first": a, "second": b, "difference": a - b, "standard_error": error}
        numbers |= {"low": a - b - reach * error, "high": a - b + reach * error}
        numbers |= {"ratio": a / b if b else math.nan, "ratio_low": low, "ratio_high": high}
        chance = _p_value(a - b, error, float(degrees[k]), tests)
        found.append(Difference(part=first.name, other=second.name, value=value, p_value=chance, few=few, **numbers))
    return found


def fieller(a: float, b: float, var_a: float, var_b: float, covariance: float, z: float) -> tuple[float, float]:
    """All ratios ρ with |a − ρb| ≤ z·√Var(a − ρb): an interval, or (NaN, NaN) where b is not surely different from 0.

    >>> low, high = fieller(2.0, 1.0, 0.01, 0.01, 0.0, 1.96)
    >>> round(low, 2), round(high, 2)
    (1.63, 2.53)
    """
    square, middle, constant = b * b - z * z * var_b, a * b - z * z * covariance, a * a - z * z * var_a
    root = middle * middle - square * constant
    if not square > 0 or not root >= 0:
        return math.nan, math.nan
    return (middle - math.sqrt(root)) / square, (middle + math.sqrt(root)) / square


def _variance(first: Part, second: Side, places: Sequence[int]) -> Floats:
    if isinstance(second, Part) and second.collected is first.collected:
        (slope, shift), (other, shifted) = first.moves, second.moves
        n = sum(
            cell.n_reports
            for cell, one, two in zip(first.collected.cells, first.chosen, second.chosen, strict=True)
            if one or two
        )
        return first.collected.variance(slope - other, shift - shifted, n)
    return first.variance + second.variance[places]


def _degrees(first: Part, second: Side, mine: Floats, other: Floats) -> Floats:
    """Of the difference, by Welch and Satterthwaite."""
    if isinstance(second, Part):
        with np.errstate(divide="ignore", invalid="ignore"):
            degrees = (mine + other) ** 2 / (mine**2 / first.degrees + other**2 / second.degrees)
    else:
        degrees = np.full(len(mine), first.degrees)
    return np.nan_to_num(degrees, nan=first.degrees, posinf=1e9)


def _p_value(difference: float, error: float, degrees: float, tests: int) -> float:
    from scipy.special import stdtr

    if not error > 0:
        return math.nan if difference else 1.0
    return min(1.0, tests * 2 * float(stdtr(degrees, -abs(difference) / error)))


def _same_rows(first: Part, second: Side) -> list[int]:
    """Where each row of the first stands in the second."""
    values = first.collected.values
    if isinstance(second, Known) or second.collected.plan is first.collected.plan:
        return list(range(len(values)))
    mine, others = first.collected.plan, second.collected.plan
    theirs = others.row_values
    if not mine.task.asks_the_same(mine.values, others.task, others.values):
        raise ValueError("The two plans ask for different things, so their reports cannot be compared.")
    return [theirs.index(value) for value in values]
