"""The design of `tiers`: which values some reports leave out, how often, and how much the others are told apart.

For a ball of priors of radius τ > 0 a report about a light tail alone has more room than one about all values
(`tacit.mechanism.tiers`). `tail_lift` is the variance of its lifts, and a light value x has an unbiased variance of
about 1/Σ λ_j V_j over the tiers that do not leave it out. Starts are chosen from a grid, and the λ that are best for
them are found by these closed forms; steps by the exact audit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from tacit.designs._many_values import (
    _NO_PLANE,
    _alike,
    _amplitude,
    _following,
    _plane,
    _with_margin,
    _with_step,
    best_share,
)
from tacit.exact import Floats, Number, budget, exp_below, rational
from tacit.mechanism import PrivacyError, Tiers
from tacit.mechanism.many_values import MOST_WORK, ManyValues
from tacit.mechanism.tiers import lift_range_of_tier, tail_of
from tacit.prior import Prior

#: Starts are chosen among this many ranks, for up to this many tiers.
_STARTS, _TIERS = 12, 4
#: Tiers are drawn by this many leading bits of a word.
_CHANCE_BITS = 10
#: With less won than this, by the closed forms, there are no tiers.
_LEAST_WON = 0.03
#: Parts of the tail that reports cover are compared on this grid.
_PARTS = np.geomspace(1e-4, 0.9, 2000)
#: Lines of a plane may cost this part of a variance.
_MOST_LOST = 0.02
#: Bits of positions and seeds that leave room for tiers.
_BITS: dict[str, Any] = {"cell_bits": 27, "seed_bits": 22, "word_bits": 63}


def tail_lift(ratio: float, off: float, tail: float) -> tuple[float, float, float]:
    """V, the variance of the lifts of a light value in the tail; the amplitude q, and the part f of the tail covered.

    where: E = `ratio`, τ = `off`, T = `tail` < 1 is the mass of the tail. Heads have lift 1, the tail 1 + q(1 − f) or
    1 − qf. Moving the mass τ from where lifts are largest to where they are least, and back, leaves them within E iff

        q·((1−f) + Eτf + E·top) ≤ E−1   and   q·(Ef + τ(1−f) + bottom) ≤ E−1,

    where top and bottom are what the mass τ holds in units of q: at most fT has 1 − f, (1−f)T has f, and heads nothing.

    >>> [round(tail_lift(np.exp(4), 0.1, tail)[0], 1) for tail in (0.02, 0.3, 0.999)]
    [42.6, 31.1, 13.2]
    """
    e, f = ratio, _PARTS
    heads = 1 - tail
    covered, others = f * tail, (1 - f) * tail
    top = np.minimum(covered, off) * (1 - f) - f * np.maximum(off - covered - heads, 0.0)
    bottom = np.minimum(others, off) * f - (1 - f) * np.maximum(off - others - heads, 0.0)
    q = (e - 1) / np.maximum((1 - f) + e * off * f + e * top, e * f + off * (1 - f) + bottom)
    best = int(np.argmax(q * q * f * (1 - f)))
    return float((q * q * f * (1 - f))[best]), float(q[best]), float(f[best])


def design_tiers(prior: Prior, epsilon: Number, radius: Number, most_work: int = MOST_WORK) -> Tiers:
    """The tiers for a histogram under ε-LIP for every prior within total variation `radius`.

    Raises `PrivacyError` where tiers would win next to nothing.

    >>> found = design_tiers(Prior(range(300), [720720 // (x + 1) for x in range(300)]), 4, "0.1")
    >>> found.starts, found.within(exp_below(Fraction(4)), Fraction(1, 10))
    ((0, 4, 12, 35), True)
    """
    ratio, within = exp_below(budget(epsilon)), rational(radius, "radius")
    e, tau = float(ratio), float(within)
    # Of all values, those of a circle that follows the prior or takes all as alike, which is LDP.
    share, ldp = best_share(ratio, within), (e - 1) ** 2 / (4 * e)
    plain = max(float(_amplitude(ratio, share, within) ** 2 * share * (1 - share)), ldp)
    starts, shares = _best_starts(prior, e, tau, plain)
    if len(starts) == 1:
        raise PrivacyError("Tiers would win next to nothing.")
    chances = _rounded(shares)
    if plain <= ldp * (1 + 1e-9):
        size = {"cell_bits": (len(prior.support) - 1).bit_length()}
        first = _alike(prior, ratio, within, {**_BITS, **size})
    else:
        first = _following(prior, ratio, within, most_work, _BITS)
    others = [_about_tail(prior, start, ratio, within, most_work) for start in starts[1:]]
    return Tiers(prior=prior, starts=tuple(starts), chances=tuple(chances), parts=(first, *others))


def _best_starts(prior: Prior, e: float, tau: float, plain: float) -> tuple[Sequence[int], Floats]:
    """The starts of the least sum of variances by closed forms, and how often each tier is drawn."""
    falling = -np.sort(-prior.on_support().probabilities)
    size = len(falling)
    grid = np.unique(np.geomspace(1, 0.9 * size, _STARTS).astype(int))
    won = {int(k): tail_lift(e, tau, float(falling[k:].sum()))[0] for k in grid if 0 < k < size - 1}
    found: tuple[float, Sequence[int], Floats] = (1 - _LEAST_WON, (0,), np.ones(1))
    for count in range(1, _TIERS):
        for some in combinations([k for k in won if won[k] > plain], count):
            starts = (0, *some)
            each = np.array([plain, *(won[k] for k in some)])
            values = np.diff([*starts, size]) / size
            shares = np.full(count + 1, 1 / (count + 1))
            for _ in range(100):  # Multiplicative steps of a convex program.
                told = np.cumsum(shares * each)
                slopes = each * np.cumsum((values / told**2)[::-1])[::-1]
                shares = shares * np.sqrt(slopes / (values / told).sum())
                shares /= shares.sum()
            cost = float((values / np.cumsum(shares * each)).sum()) * plain
            if cost < found[0]:
                found = cost, starts, shares
    return found[1], found[2]


def _rounded(shares: Floats) -> list[int]:
    """Positive integers near to the shares that add up to a power of two."""
    chances = [max(1, round(float(share) * (1 << _CHANCE_BITS))) for share in shares]
    chances[-1] += (1 << _CHANCE_BITS) - sum(chances)
    return chances


def _about_tail(prior: Prior, start: int, ratio: Fraction, within: Fraction, most_work: int) -> ManyValues:
    """The rule of a tier: an arc over the best part of its tail, with the largest step that passes the exact audit."""
    tail = tail_of(prior, start)
    mass = Fraction(sum(tail.weights[x] for x in tail.support), prior.total)
    made = ManyValues(prior=tail, giants=0, covered=1, arc=1, step=1, **_BITS)
    _, q, part = tail_lift(float(ratio), float(within), float(mass))
    arc = min(max(round(part * made.total), 1), made.total - 1)
    plane, covered = _plane(-np.sort(-made.cell_array), arc, made.total, most_work), arc / made.total
    if plane["light"] and 3 * _MOST_LOST * covered * (1 - covered) * plane["slots"] < 1:
        plane = _NO_PLANE
    made = _with_margin(replace(made, covered=arc, arc=arc, **plane))
    words = 1 << made.circle.choice_bits
    most = min(int(q * words / made.total), (words - 1) // arc)

    def passes(step: int) -> bool:
        highest, lowest = lift_range_of_tier(_with_step(made, step), 1 - mass, within)
        return highest <= ratio and lowest * ratio >= 1

    made.lift_range()  # What does not depend on the step is made once.
    least = 0
    while most - least > max(1, most >> 20):
        middle = (least + most + 1) // 2
        least, most = (middle, most) if passes(middle) else (least, middle)
    if least < 1:
        raise PrivacyError("No step passes the exact audit.")
    return replace(made, step=least)
