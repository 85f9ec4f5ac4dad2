"""Which privacy a channel gives for every prior of a set, decided on integers and rationals."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from operator import index

from tacit.exact import at_most_exp, log_above
from tacit.prior import Prior, PriorSet


@dataclass(frozen=True)
class SetLevel:
    """One side of the LIP level for a set of priors: ln(ratio), with what reaches it.

    `ratio` is exact, None if no finite level holds; `position` is the value's, `report` the column, and `worst` the
    member of the set under which they reach it. A mechanism too large to be searched has a proven bound and names none.
    """

    ratio: Fraction | None
    position: int | None = None
    report: int | None = None
    worst: Prior | None = None

    @property
    def epsilon(self) -> float:
        """ln(ratio), rounded up."""
        return math.inf if self.ratio is None else log_above(self.ratio)

    def holds(self, epsilon: Fraction) -> bool:
        """Whether ln(ratio) ≤ ε, exactly."""
        return self.ratio is not None and at_most_exp(self.ratio, epsilon)


def set_lift_levels(rows: Iterable[Iterable[int]], prior_set: PriorSet) -> tuple[SetLevel, SetLevel]:
    """The exact audit for a set U: the upper and the lower level of a channel, each at its worst over U.

        upper = max over y of  max_x w_x / min_U P·w,      lower = max over y of  max_U P·w / min_x w_x

    `rows` are the channel's integers, a row for each value of the domain and a column w for each report y. x runs over
    the support and y over the reports that somebody there sends. The channel is ε-LIP for every P of U exactly if both
    hold at ε. (Where P_x = 0 for some P of U, or P·w = 0, mixtures of P and the nominal prior come as close as one
    likes, so nothing is asked here that some member does not ask.)

    >>> from tacit.prior import Ball
    >>> ball = Ball(Prior.of({"yes": 0.5, "no": 0.5}), 0.1)
    >>> upper, lower = set_lift_levels([[3, 1], [1, 3]], ball)
    >>> upper.ratio, lower.ratio, upper.worst
    (Fraction(5, 3), Fraction(11, 5), Prior({'yes': 0.4, 'no': 0.6}))
    """
    prior = prior_set.prior
    columns = [list(column) for column in zip(*([index(cell) for cell in row] for row in rows), strict=True)]
    if not columns or len(columns[0]) != len(prior):
        raise ValueError(f"A channel needs one non-empty row for each of the prior's {len(prior)} values.")
    above: list[tuple[int, Fraction | None]] = []
    below: list[tuple[int, Fraction | None]] = []
    for report, column in enumerate(columns):
        inside = [column[x] for x in prior.support]
        if min(inside) < 0:
            raise ValueError(f"The weights of a channel must not be negative. Got one in report {report}.")
        if max(inside):
            low, high = prior_set.extremes(column)
            above.append((report, max(inside) / low if low else None))
            below.append((report, high / min(inside) if min(inside) else None))
    if not above:
        raise ValueError("A channel needs a value of the support that sends some report. Got zeros only.")
    upper, lower = max(above, key=_size), max(below, key=_size)
    most, least = columns[upper[0]], columns[lower[0]]
    return (
        SetLevel(upper[1], max(prior.support, key=most.__getitem__), upper[0], prior_set.lowest(most)[1]),
        SetLevel(lower[1], min(prior.support, key=least.__getitem__), lower[0], prior_set.highest(least)[1]),
    )


def bounded_set_levels(prior_set: PriorSet, highest: Fraction, lowest: Fraction) -> tuple[SetLevel, SetLevel]:
    """The levels for a set from bounds lowest ≤ v_y(x) ≤ highest of the lifts under its nominal prior.

    For P within total variation τ of it, the mean lift Σ P v is within τ(highest − lowest) of 1, and the lift under P
    is v divided by that.

    >>> from tacit.prior import Ball
    >>> upper, lower = bounded_set_levels(Ball(Prior.uniform(9), "1/10"), Fraction(2), Fraction(1, 2))
    >>> str(upper.ratio), str(lower.ratio)
    ('40/17', '23/10')
    """
    moved = prior_set.radius * (highest - lowest)
    upper = highest / (1 - moved) if moved < 1 else None
    return SetLevel(upper), SetLevel((1 + moved) / lowest if lowest else None)


def _size(level: tuple[int, Fraction | None]) -> tuple[bool, Fraction]:
    """Orders levels, an unbounded one above all."""
    return level[1] is None, level[1] or Fraction(0)
