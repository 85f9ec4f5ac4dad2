"""Sums at any size: answers are rounded at random to a few knots, and the knots get the best channel of their own.

An answer x between the neighbouring knots a and b becomes b with probability (x − a)/(b − a), else a, so the expected
knot is x: whatever is unbiased for the knots is unbiased for x. The lift of x is a mixture of its knots' lifts, so a
promise that holds for the knots, under the prior that rounding induces, holds for every x between the ends, also for
answers that no prior has seen. Three to a dozen knots are within a per cent of the best channel.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tacit.designs.program.lifts import LiftSet
from tacit.exact import Floats
from tacit.prior import Prior

#: Numbers of knots that are tried, few first; more are taken only if they help by this share.
KNOT_COUNTS = (2, 3, 4, 5, 6, 8, 12)
LEAST_HELP = 5e-4


@dataclass(frozen=True)
class Knots:
    """Knots, in ascending order, and the prior that rounding to them induces; `weights[x, k]` is Pr(knot k | x)."""

    numbers: tuple[Fraction, ...]
    prior: Prior
    weights: Floats


def rounded_to(prior: Prior, numbers: tuple[Fraction, ...]) -> Knots:
    """The prior of the knots, exactly: p_k = Σ_x P_x Pr(k | x).

    >>> halves = rounded_to(Prior.of({0: 1, 1: 2, 4: 1}), (Fraction(0), Fraction(4)))
    >>> halves.prior.probabilities
    array([0.625, 0.375])
    """
    values = [Fraction(value) if type(value) is int else Fraction(str(value)) for value in prior.values]
    # All as integers, in units of what all of them are multiples of: an integer over another is the nearest float.
    unit = math.lcm(*(number.denominator for number in (*numbers, *values)))
    places = [int(knot * unit) for knot in numbers]
    weights, mass = np.zeros((len(prior), len(numbers))), [Fraction(0)] * len(numbers)
    # Of what lies between two knots: its weight, and its weight times how far above the lower one it is.
    held, raised = [0] * len(numbers), [0] * len(numbers)
    for x, (value, weight) in enumerate(zip(values, prior.weights, strict=True)):
        place = value.numerator * (unit // value.denominator)
        above = min(max(bisect_left(places, place), 1), len(places) - 1)
        low, high = places[above - 1], places[above]
        if not low <= place <= high:
            ends = f"{float(numbers[0]):g} and {float(numbers[-1]):g}"
            raise ValueError(f"The range must hold all values of the prior. It ends at {ends}.")
        weights[x, above - 1], weights[x, above] = (high - place) / (high - low), (place - low) / (high - low)
        held[above] += weight
        raised[above] += weight * (place - low)
    for above in range(1, len(places)):
        up = Fraction(raised[above], places[above] - places[above - 1])
        mass[above - 1] += held[above] - up
        mass[above] += up
    return Knots(numbers, Prior([_plain(knot) for knot in numbers], mass), weights)


def knot_grids(prior: Prior, low: Fraction, high: Fraction) -> Iterator[tuple[Fraction, ...]]:
    """Knots to try from `low` to `high`: evenly spread, and by the prior's quantiles."""
    order = np.argsort(prior.numbers, kind="stable")
    numbers, mass = prior.numbers[order], prior.probabilities[order]
    middle = np.cumsum(mass) - mass / 2
    for count in KNOT_COUNTS:
        even = tuple(low + (high - low) * k / (count - 1) for k in range(count))
        yield tuple(_short(knot, low, high) for knot in even)
        if count > 2:
            inner = np.interp(np.linspace(0, 1, count)[1:-1], middle, numbers)
            spread = sorted({low, high, *(_short(Fraction(float(knot)), low, high) for knot in inner)})
            yield tuple(spread)


def best_knots(
    prior: Prior, low: Fraction, high: Fraction, variance_of: Callable[[Knots], float]
) -> tuple[Knots, float]:
    """The knots of least variance; more of them have to help by a share, or fewer are taken.

    The same knots are tried whatever the promise is, so that a weaker promise is never the more expensive one.
    """
    best: tuple[Knots, float] | None = None
    for numbers in knot_grids(prior, low, high):
        knots = rounded_to(prior, numbers)
        if min(knots.prior.weights) == 0:
            continue
        variance = variance_of(knots)
        if best is None or variance < best[1] * (1 - LEAST_HELP):
            best = knots, variance
    if best is None:
        raise ArithmeticError("no grid of knots has a positive prior everywhere")
    return best


def _short(knot: Fraction, low: Fraction, high: Fraction) -> Fraction:
    """The knot with three digits, where the range leaves it so many, so that people can read it; within the ends."""
    if knot in (low, high):
        return knot
    size = max(abs(knot), (high - low) / 10**5)
    step = Fraction(10) ** (math.floor(math.log10(size)) - 2)
    return min(max(round(knot / step) * step, low), high)


def _plain(knot: Fraction) -> int | float:
    return int(knot) if knot.denominator == 1 else float(knot)


#: The bound is proved on so many bins of values.
_BINS = 12


def sum_variance_bound(p: Floats, numbers: Floats, lifts: LiftSet) -> float:
    """No channel for all values has a smaller unbiased variance of the sum than the best one for bins of values.

    Let B(x) be the bin of x, q_b = Σ_{x in b} P_x and m_b the mean of x in the bin. From any channel for x with lifts v
    make one for bins with lifts ṽ_b = Σ_{x in b} P_x v_x / q_b: a mixture, so it keeps every bound on lifts. Weights t
    that are unbiased for x, Σ_y λ_y v_y(x) t(y) = x, are then unbiased for m_b, with the same Σ λ t². Bins by distance
    and by spread are tried, and the better bound counts.
    """
    from tacit.designs.program.bounds import TINY, cheap_variance_bound
    from tacit.designs.program.prior_free import solve_prior_free

    order = np.argsort(numbers, kind="stable")
    p, numbers = p[order], numbers[order]
    if numbers[0] == numbers[-1]:
        return 0.0
    even = (numbers - numbers[0]) / (numbers[-1] - numbers[0])
    spread = p * np.abs(numbers - p @ numbers)
    by_spread = (np.cumsum(spread) - spread / 2) / spread.sum()
    bounds = []
    for place in (even, by_spread):
        _, group = np.unique(np.minimum((place * _BINS).astype(int), _BINS - 1), return_inverse=True)
        mass = np.bincount(group, p).astype(np.float64)
        means = np.bincount(group, p * numbers) / mass
        if mass.min() < TINY:
            bounds.append(cheap_variance_bound(mass, means[:, None], lifts))
            continue
        bounds.append(solve_prior_free(mass, means[:, None], lifts, gap=1e-3, time_limit=60.0).variance_bound)
    return max(bounds)
