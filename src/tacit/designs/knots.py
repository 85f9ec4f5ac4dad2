"""Sums at any size: answers are rounded at random to a few knots, and the knots get the best channel of their own.

An answer x between the neighbouring knots a and b becomes b with probability (x − a)/(b − a), else a, so the expected
knot is x: what is unbiased for the knots is unbiased for x. The lift of x is a mixture of its knots' lifts, so a
promise that holds for the knots, under the prior that rounding induces, holds for every x between the ends, also for
answers that no prior has seen. Three to a dozen knots are within a per cent of the best channel. For any other task
with one number g(x) for each answer, g(x) takes the place of x.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tacit.designs._program.deadline import Deadline
from tacit.designs._program.lifts import LiftSet
from tacit.exact import Floats
from tacit.prior import Prior, Value

#: Numbers of knots that are tried, few first; more are taken only if they help by this share.
KNOT_COUNTS = (2, 3, 4, 5, 6, 8, 12)
LEAST_HELP = 5e-4


@dataclass(frozen=True)
class Knots:
    """Knots, in ascending order, and the prior that rounding to them induces; `weights[x, k]` is Pr(knot k | x)."""

    numbers: tuple[Fraction, ...]
    prior: Prior
    weights: Floats


def places_of(numbers: Sequence[Value], low: Fraction | None = None, high: Fraction | None = None) -> list[Fraction]:
    """Where each number lies between two ends, 0 … 1; the ends are the least and the largest unless stated. Exact.

    >>> places_of([1940, 1970, 2000])
    [Fraction(0, 1), Fraction(1, 2), Fraction(1, 1)]
    """
    values = [Fraction(number) if type(number) is int else Fraction(str(number)) for number in numbers]
    low, high = min(values) if low is None else low, max(values) if high is None else high
    if low == high:
        raise ArithmeticError("all values are equal, so there is nothing to place knots between")
    return [(value - low) / (high - low) for value in values]


def rounded_to(places: Sequence[Fraction], prior: Prior, numbers: Sequence[Fraction]) -> Knots:
    """The prior of the knots, exactly: p_k = Σ_x P_x Pr(k | x), for values that lie at `places`.

    >>> halves = rounded_to([Fraction(0), Fraction(1), Fraction(4)], Prior.of({0: 1, 1: 2, 4: 1}), [0, 4])
    >>> halves.prior.probabilities
    array([0.625, 0.375])
    """
    # All as integers over one denominator: the quotient of two integers is the nearest float.
    unit = math.lcm(*(number.denominator for number in (*numbers, *places)))
    knots = [int(knot * unit) for knot in numbers]
    weights, mass = np.zeros((len(prior), len(numbers))), [Fraction(0)] * len(numbers)
    # Of what lies between two knots: its weight, and its weight times how far above the lower one it is.
    held, raised = [0] * len(numbers), [0] * len(numbers)
    for x, (value, weight) in enumerate(zip(places, prior.weights, strict=True)):
        place = value.numerator * (unit // value.denominator)
        above = min(max(bisect_left(knots, place), 1), len(knots) - 1)
        low, high = knots[above - 1], knots[above]
        if not low <= place <= high:
            raise ValueError("The range must hold all values of the prior. Give a wider one.")
        weights[x, above - 1], weights[x, above] = (high - place) / (high - low), (place - low) / (high - low)
        held[above] += weight
        raised[above] += weight * (place - low)
    for above in range(1, len(knots)):
        up = Fraction(raised[above], knots[above] - knots[above - 1])
        mass[above - 1] += held[above] - up
        mass[above] += up
    return Knots(tuple(map(Fraction, numbers)), Prior([_plain(knot) for knot in numbers], mass), weights)


def knot_grids(prior: Prior, places: Sequence[Fraction]) -> Iterator[tuple[Fraction, ...]]:
    """Knots to try from 0 to 1: evenly spread, and by the prior's quantiles with three digits."""
    at = np.array(places, dtype=np.float64)
    order = np.argsort(at, kind="stable")
    at, mass = at[order], prior.probabilities[order]
    middle = np.cumsum(mass) - mass / 2
    for count in KNOT_COUNTS:
        yield tuple(Fraction(k, count - 1) for k in range(count))
        if count > 2:
            inner = np.interp(np.linspace(0, 1, count)[1:-1], middle, at)
            spread = {Fraction(f"{max(knot, 1e-5):.3g}") for knot in inner}
            yield tuple(sorted({Fraction(0), Fraction(1), *(min(knot, Fraction(1)) for knot in spread)}))


def best_knots(
    prior: Prior,
    places: Sequence[Fraction],
    variance_of: Callable[[Knots], float],
    shown: Callable[[Fraction], Fraction] = lambda knot: knot,
) -> tuple[Knots, float]:
    """The knots between 0 and 1 of least variance; more of them have to help by a share, or fewer are taken.

    The same knots are tried for any promise, so that a weaker promise is never the more expensive one.
    `shown` moves a knot a little, to one that people can read.
    """
    best: tuple[Knots, float] | None = None
    for numbers in knot_grids(prior, places):
        knots = rounded_to(places, prior, sorted({shown(knot) for knot in numbers}))
        if min(knots.prior.weights) == 0:
            continue
        variance = variance_of(knots)
        if best is None or variance < best[1] * (1 - LEAST_HELP):
            best = knots, variance
    if best is None:
        raise ArithmeticError("no grid of knots has a positive prior everywhere")
    return best


def readable(knot: Fraction, low: Fraction, high: Fraction) -> Fraction:
    """The knot in three digits of its distance from the lower end, where the range leaves that many.

    >>> [float(readable(Fraction(end) + Fraction(200, 3), Fraction(end), Fraction(end + 100))) for end in (0, 1940)]
    [66.7, 2006.7]
    """
    if knot in (low, high):
        return knot
    size = max(knot - low, (high - low) / 10**5)
    step = Fraction(10) ** (math.floor(math.log10(size)) - 2)
    return min(max(round(knot / step) * step, low), high)


def _plain(knot: Fraction) -> int | float:
    return int(knot) if knot.denominator == 1 else float(knot)


#: The bound is proved on this many bins of values.
_BINS = 12


def sum_variance_bound(p: Floats, numbers: Floats, lifts: LiftSet, deadline: Deadline | None = None) -> float:
    """No channel for all values has a smaller unbiased variance of the sum than the best one for bins of values.

    Let B(x) be the bin of x, q_b = Σ_{x in b} P_x and m_b the mean of x in the bin. From any channel for x with lifts v
    make one for bins with lifts ṽ_b = Σ_{x in b} P_x v_x / q_b: a mixture, so it keeps every bound on lifts. Weights t
    that are unbiased for x, Σ_y λ_y v_y(x) t(y) = x, are then unbiased for m_b, with the same Σ λ t². Bins by distance
    and by spread are tried, and the better bound counts.
    """
    from tacit.designs._program.bounds import TINY, cheap_variance_bound
    from tacit.designs._program.unbiased import solve_unbiased

    order = np.argsort(numbers, kind="stable")
    p, numbers = p[order], numbers[order]
    if numbers[0] == numbers[-1]:
        return 0.0
    even = (numbers - numbers[0]) / (numbers[-1] - numbers[0])
    spread = p * np.abs(numbers - p @ numbers)
    by_spread = (np.cumsum(spread) - spread / 2) / spread.sum()
    bounds, until = [], (Deadline() if deadline is None else deadline).part(1, most=60.0)
    for place in (even, by_spread):
        _, group = np.unique(np.minimum((place * _BINS).astype(int), _BINS - 1), return_inverse=True)
        mass = np.bincount(group, p).astype(np.float64)
        means = np.bincount(group, p * numbers) / mass
        if mass.min() < TINY:
            bounds.append(cheap_variance_bound(mass, means[:, None], lifts))
            continue
        bounds.append(solve_unbiased(mass, means[:, None], lifts, gap=1e-3, time_limit=until).bound)
    return max(bounds)
