"""Centralized information privacy (CIP): the error that a trusted server could reach, for comparison.

N people hold independent yes/no values with a common prior p. A trusted server knows S ~ Binomial(N, p) and
publishes Y such that no belief about one person moves by more than e^ε. Since Pr(X_i = 1 | Y) = E[S|Y]/N, that is

    L ≤ E[S|Y] ≤ U,   L = max(Np/E, N − E·N(1−p)),   U = min(E·Np, N − N(1−p)/E),   E = e^ε

(the paper's Proposition 5 omits two of the four bounds). Var E[S|Y] is largest if S is published as it is, except
that the lowest outcomes are pooled until their mean is L and the highest until it is U, splitting one outcome at
random where needed. If the pools would overlap, E[S|Y] takes only the values L and U.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np

from tacit.exact import Number, at_most_exp, budget, exp_below, rational
from tacit.mechanism import Channel, PrivacyError
from tacit.prior import Prior

T = TypeVar("T", Fraction, float)


@dataclass(frozen=True)
class Central:
    """A CIP mechanism: a channel on the sum S, under the prior of S."""

    channel: Channel
    prior: Prior
    mse: float


def central_mse(n: int, probability: float, epsilon: float) -> float:
    """The least MSE of any CIP mechanism for a common prior, in O(N).

    >>> round(central_mse(5, 0.5, 0.5), 6), round(central_mse(20, 0.1, 0.5), 6)
    (0.350893, 0.778992)
    """
    from scipy.stats import binom  # slow to import, and needed here only

    mean, variance = n * probability, n * probability * (1 - probability)
    if variance == 0:
        return 0.0
    if epsilon == 0:
        return variance
    low = max(mean * math.exp(-epsilon), n - math.exp(epsilon) * (n - mean))
    high = min(math.exp(epsilon) * mean, n - (n - mean) * math.exp(-epsilon))
    sums = np.arange(n + 1)
    mass = binom.pmf(sums, n, probability)
    bottom = np.array(_pool(mass.tolist(), low))
    top = np.array(_pool(mass[::-1].tolist(), n - high))[::-1]
    if (bottom + top > 1).any():
        return variance - (high - mean) * (mean - low)
    # Within a pool the error is the spread around its mean; single outcomes have none.
    spread = bottom * (sums - low) ** 2 + top * (sums - high) ** 2
    return float(mass @ spread)


def central(n: int, probability: Number, epsilon: Number) -> Central:
    """The optimal CIP mechanism for a common prior, as an exact channel from S to reports.

    >>> mechanism = central(5, 0.5, 0.5)
    >>> round(mechanism.mse, 6), mechanism.channel.n_possible_reports
    (0.350893, 4)
    """
    p, exact = rational(probability, "probability"), budget(epsilon)
    if n < 1 or not 0 <= p <= 1:
        raise ValueError(f"CIP needs n ≥ 1 and a probability in [0, 1]. Got n = {n}, probability = {probability}.")
    prior = Prior(range(n + 1), [math.comb(n, s) * p**s * (1 - p) ** (n - s) for s in range(n + 1)])
    mean, bound = n * p, exp_below(exact)
    low = max(mean / bound, n - bound * (n - mean))
    high = min(bound * mean, n - (n - mean) / bound)
    if len(prior.support) == 1 or bound == 1:
        rows = [[Fraction(1)] for _ in prior.values]
    else:
        rows = _two_pools(prior, low, high) or _two_reports(prior, mean, low, high)
    channel = Channel.from_weights(prior, _integers(rows))
    _check(channel, prior, exact)
    estimates = [_estimate(channel, prior, y) for y in range(channel.n_possible_reports)]
    marginal = channel.marginal_weights(prior)
    spread = sum(int(weight) * (estimate - mean) ** 2 for weight, estimate in zip(marginal, estimates, strict=True))
    return Central(channel, prior, float(mean * (1 - p) - spread / (channel.denominator * prior.total)))


def central_satisfies(channel: Channel, prior: Prior, epsilon: Number) -> bool:
    """Definition 4 (CIP) for a channel on sums with a binomial prior: an exact comparison, no tolerance."""
    n, exact = len(prior) - 1, budget(epsilon)
    mean = Fraction(sum(s * weight for s, weight in enumerate(prior.weights)), prior.total)
    for y, weight in enumerate(channel.marginal_weights(prior)):
        if weight:
            estimate = _estimate(channel, prior, y)
            for believed, before in ((estimate, mean), (n - estimate, n - mean)):
                if before and not (
                    believed and at_most_exp(believed / before, exact) and at_most_exp(before / believed, exact)
                ):
                    return False
    return True


def _pool(mass: list[T], target: T) -> list[T]:
    """Shares of the outcomes 0, 1, 2 …, lowest first, that pool to a mean of `target`."""
    nothing = target * 0
    shares = [nothing] * len(mass)
    deficit = nothing
    for value, weight in enumerate(mass):
        surplus = weight * (value - target)
        if surplus >= deficit:
            shares[value] = deficit / surplus if surplus else nothing
            break
        shares[value] = nothing + 1
        deficit -= surplus
    return shares


def _two_pools(prior: Prior, low: Fraction, high: Fraction) -> list[list[Fraction]] | None:
    """Rows onto (low pool, each sum, high pool), or None if the pools overlap."""
    n = len(prior) - 1
    mass = [Fraction(weight) for weight in prior.weights]
    bottom = _pool(mass, low)
    top = _pool(mass[::-1], n - high)[::-1]
    alone = [1 - below - above for below, above in zip(bottom, top, strict=True)]
    if min(alone) < 0:
        return None
    kept = [s for s in range(n + 1) if alone[s]]
    return [[bottom[s], *(alone[s] if s == k else Fraction(0) for k in kept), top[s]] for s in range(n + 1)]


def _two_reports(prior: Prior, mean: Fraction, low: Fraction, high: Fraction) -> list[list[Fraction]]:
    """Rows onto two reports whose means are exactly `low` and `high`.

    Cut the outcomes at the probability that the means require; the two halves lie further apart than needed, so mix
    with a coin that ignores S until the means fit.
    """
    share = (high - mean) / (high - low)
    cut: list[Fraction] = []
    left, lower_sum = share, Fraction(0)
    for s, weight in enumerate(prior.weights):
        taken = min(left, Fraction(weight, prior.total))
        cut.append(taken * prior.total / weight if weight else Fraction(0))
        left -= taken
        lower_sum += s * taken
    mix = (low - lower_sum / share) / (mean - lower_sum / share)
    return [[(1 - mix) * part + mix * share, (1 - mix) * (1 - part) + mix * (1 - share)] for part in cut]


def _integers(rows: list[list[Fraction]]) -> list[list[int]]:
    scale = math.lcm(*(cell.denominator for row in rows for cell in row))
    kept = [y for y in range(len(rows[0])) if any(row[y] for row in rows)]
    return [[int(row[y] * scale) for y in kept] for row in rows]


def _estimate(channel: Channel, prior: Prior, output: int) -> Fraction:
    posterior = channel.exact_posterior(prior, output)
    return sum((s * share for s, share in enumerate(posterior)), Fraction(0))


def _check(channel: Channel, prior: Prior, epsilon: Fraction) -> None:
    if not central_satisfies(channel, prior, epsilon):
        raise PrivacyError(f"The constructed mechanism is not CIP at ε = {float(epsilon):g}.")
