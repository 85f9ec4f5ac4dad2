"""Intervals for sums: each end is judged by a variance that a total there can have.

A total θ = Σ g(x_i) of n people restricts the variance V = Σ v(x_i) of its estimate, v(x) = Var(t | x): with
l ≤ v ≤ u the convex and the concave envelope of v over g,

    n l(θ/n) ≤ V ≤ n u(θ/n).

If everybody holds the smallest value, both sides are equal, so V is known. θ belongs to the interval of an estimate T
with the estimated variance S if

    |T − θ| ≤ z √V(θ) + h,     V(θ) = S, moved into these bounds,

where h is half the largest step of T by one report. Totals of several groups add up: the lower bounds are combined by
infimal convolution, the upper ones by supremal convolution. For the mean of a population of which the fraction f took
part the answers vary as well, and the upper bound is that of E[v + (1−f) g²] − (1−f) (E g)². Few reports of a skewed
population show too little of its spread where its mean is far from what they show, so S grows with that bound there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.exact import Floats

#: Places at which an interval is searched, and halvings of the distance between two of them.
_PLACES, _HALVINGS = 1025, 40
#: Pieces of a curve that is no polyline.
_PIECES = 128


@dataclass(frozen=True)
class People:
    """`number` people with the same mechanism: `g` and `variance` of every answer that they may hold."""

    number: float
    g: Floats
    variance: Floats


@dataclass(frozen=True)
class Bounds:
    """Least and largest variance of every possible total, as polylines."""

    least: tuple[Floats, Floats]
    most: tuple[Floats, Floats]
    sampled: bool = False

    @classmethod
    def of(cls, people: Sequence[People], *, sampled: float) -> Bounds:
        """The bounds for these people; with `sampled` = 1 − f those for the mean of a population, times the number of
        people.

        >>> yes_no = People(10, np.array([0.0, 1.0]), np.array([0.2, 0.3]))
        >>> Bounds.of([yes_no], sampled=0.0).least
        (array([ 0., 10.]), array([2., 3.]))
        """
        least = [_scaled(each.number, *_hull(each.g, each.variance, 1)) for each in people]
        if not sampled:
            most = [_scaled(each.number, *_hull(each.g, each.variance, -1)) for each in people]
        else:
            most = [_scaled(each.number, *_with_sampling(each, sampled)) for each in people]
        return cls(_together(least, 1), _together(most, -1), sampled > 0)

    @property
    def possible(self) -> tuple[float, float]:
        """The smallest and the largest total."""
        return float(self.least[0][0]), float(self.least[0][-1])

    def variance(self, total: Floats, estimated: float | Floats) -> Floats:
        """V(θ): the estimated variance, moved into the bounds at each total."""
        low, high = np.interp(total, *self.least), np.interp(total, *self.most)
        moved: Floats = np.clip(estimated, low, np.maximum(low, high))
        return moved

    def at_ends(self, total: float, estimated: float, z: float, step: float) -> tuple[float, float]:
        """V at the lower and at the upper end of the interval."""
        places = np.linspace(*self.possible, _PLACES)
        here = max(float(np.interp(total, *self.most)), 1e-300)

        def spread(at: Floats) -> Floats:
            more = np.maximum(np.interp(at, *self.most) / here, 1.0) if self.sampled else 1.0
            return self.variance(at, estimated * more)

        def excess(at: Floats) -> Floats:
            found: Floats = np.abs(total - at) - z * np.sqrt(spread(at)) - step
            return found

        inside = np.flatnonzero(excess(places) <= 0)
        if not len(inside):
            nearest = self.variance(np.clip(total, *self.possible), estimated)
            return float(nearest), float(nearest)
        ends = []
        for first, before in ((inside[0], inside[0] - 1), (inside[-1], inside[-1] + 1)):
            accepted = places[first]
            refused = places[before] if 0 <= before < _PLACES else accepted
            for _ in range(_HALVINGS):
                middle = (accepted + refused) / 2
                accepted, refused = (middle, refused) if excess(middle) <= 0 else (accepted, middle)
            ends.append(float(spread(accepted)))
        return ends[0], ends[1]


def variances_at_ends(
    bounds: Sequence[Bounds], totals: Floats, variances: Floats, z: float, steps: Floats
) -> tuple[Floats, Floats]:
    """V at the lower and at the upper end of the interval of each total."""
    ends = [
        each.at_ends(float(total), float(variance), z, float(step))
        for each, total, variance, step in zip(bounds, totals, variances, steps, strict=True)
    ]
    low, high = np.array(ends).T
    return low, high


def counts_at_ends(
    total: Floats,
    randomized: Floats,
    slopes: tuple[Floats, Floats],
    size: float,
    sampled: float,
    z: float,
    step: Floats,
) -> tuple[Floats, Floats]:
    """V at the lower and at the upper end of the interval of a count, as in Wilson's interval (1927).

    The estimate x of a count θ among W = `size` people has the variance

        V(θ) = R + s (θ − x) + c θ(W − θ),

    with R the part of the randomization. If few people hold a value, none may be seen: the variance at x is nearly 0
    then, but not the variance at the θ that would explain x. Both ends solve |x − θ| = z √V(θ) + h.

    Args:
        total: x, the estimates.
        randomized: R, by estimate.
        slopes: s for the lower and for the upper end.
        size: W, the number of people.
        sampled: c, 1/n for a sample of n people that stand for many, 0 for the participants alone.
        z: half the width of an interval in standard errors.
        step: h, half the largest step of an estimate by one report.

    Returns:
        The variances at the lower and at the upper ends.

    Unary encoding at a large ε, where no report shows the value: with h = 0, 4 people may hold it.

    >>> none, slope = np.zeros(1), np.ones(1)
    >>> low, high = counts_at_ends(none, none, (slope, slope), 100.0, 0.0, 1.96, none)
    >>> round(1.96 * float(high[0]) ** 0.5, 2)
    3.84
    """
    found = []
    for side, slope in zip((-1, 1), slopes, strict=True):
        linear = slope + sampled * size
        at_zero = np.maximum(randomized - slope * total, 0.0)
        y, square = total + side * step, 1 + z * z * sampled
        middle = y + z * z * linear / 2
        root = np.sqrt(np.maximum(middle**2 - square * (y * y - z * z * at_zero), 0.0))
        end = (middle + side * root) / square
        found.append((np.maximum(side * (end - y), 0.0) / z) ** 2)
    return found[0], found[1]


def ends_within(
    total: Floats,
    variance: Floats,
    step: Floats,
    z: float,
    people: Sequence[tuple[float, Floats, Floats]],
    *,
    sampled: float,
) -> tuple[Floats, Floats]:
    """The ends of the intervals of sums, each by its own variance.

    Args:
        total: the estimates, by component.
        variance: their variances.
        step: half the largest step of an estimate by one report.
        z: half the width of an interval in standard errors.
        people: numbers of people with the g and the variance of every answer that they may hold, arrays of shape
            (answers, components); without any the variance is the same at both ends.
        sampled: 1 where the answers are a sample of a population's, 0 for the participants alone.

    Returns:
        The lower and the upper ends.

    >>> low, high = ends_within(*np.array([[50.0], [25.0], [0.5]]), 2.0, [], sampled=1.0)
    >>> float(low[0]), float(high[0])
    (39.5, 60.5)
    """
    low = high = variance
    if people:
        bounds = [
            Bounds.of([People(n, g[:, k], v[:, k]) for n, g, v in people], sampled=sampled) for k in range(len(total))
        ]
        low, high = variances_at_ends(bounds, total, variance, z, step)
    return total - z * np.sqrt(low) - step, total + z * np.sqrt(high) + step


def _hull(x: Floats, y: Floats, side: int) -> tuple[Floats, Floats]:
    """The convex envelope (`side` 1) or the concave one (−1) of points, as a polyline."""
    kept: list[tuple[float, float]] = []
    for point in sorted(zip(x.tolist(), (side * y).tolist(), strict=True)):
        if kept and point[0] == kept[-1][0]:
            continue
        while len(kept) > 1 and _turn(kept[-2], kept[-1], point) <= 0:
            kept.pop()
        kept.append(point)
    line = np.array(kept)
    return line[:, 0], side * line[:, 1]


def _turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _with_sampling(people: People, sampled: float) -> tuple[Floats, Floats]:
    """The largest E[v + s g²] − s (E g)² for every mean of g; centred, so that large numbers do not cancel."""
    centre = (people.g.min() + people.g.max()) / 2
    off = people.g - centre
    x, y = _hull(off, people.variance + sampled * off**2, -1)
    means = np.linspace(x[0], x[-1], _PIECES + 1) if len(x) > 1 else x
    return means + centre, np.interp(means, x, y) - sampled * means**2


def _scaled(number: float, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    return number * x, number * y


def _together(lines: Sequence[tuple[Floats, Floats]], side: int) -> tuple[Floats, Floats]:
    """The infimal (`side` 1) or supremal (−1) convolution of convex or concave polylines: pieces sorted by slope."""
    start = [sum(float(line[k][0]) for line in lines) for k in (0, 1)]
    steps = np.concatenate([np.array([np.diff(x), np.diff(y)]) for x, y in lines], axis=1)
    order = np.argsort(side * steps[1] / np.maximum(steps[0], 1e-300), kind="stable")
    x, y = (np.concatenate([[first], first + np.cumsum(row[order])]) for first, row in zip(start, steps, strict=True))
    return x, y
