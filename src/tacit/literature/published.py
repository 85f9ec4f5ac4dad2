"""The channel as published in Theorems 2, 3 and 5, kept for study: it breaks its own definition for rare values."""

from __future__ import annotations

from fractions import Fraction

from tacit.exact import Number, budget, exp_below
from tacit.mechanism import Channel, PrivacyError, audit, round_channel
from tacit.prior import Prior


def theorem3(prior: Prior, epsilon: Number, *, force: bool = False) -> Channel:
    """The published randomized response q_mm = 1 − (1−P_m)/E, q_mk = P_k/E, with E = e^ε.

    It tells the truth with probability 1 − 1/E and otherwise draws from the prior. Its upper lift
    1/E + (1−1/E)/P_m exceeds E whenever P_m < 1/(E+1), so it is ε-LIP, and then optimal, only if
    min P ≥ 1/(E+1). Elsewhere this raises `PrivacyError` with the level it really reaches, or, with `force=True`,
    returns the channel for study. Forced, zero-prior values keep the published rows, which expose their holders.

    >>> theorem3(Prior.of({"yes": 0.1, "no": 0.9}), epsilon=1)
    Traceback (most recent call last):
    tacit.mechanism.rounding.PrivacyError: Theorem 3 is not 1-LIP here: its level is 1.9005, because the prior ...
    """
    exact = budget(epsilon)
    bound = exp_below(exact)
    reached = Channel.from_matrix(prior, _rows(prior, bound), bits=256)
    if force:
        return reached
    rarest = min(prior.support, key=lambda x: prior.weights[x])
    if Fraction(prior.weights[rarest], prior.total) * (bound + 1) < 1:
        level = audit(reached, prior).lip.epsilon
        raise PrivacyError(
            f"Theorem 3 is not {float(exact):g}-LIP here: its level is {level:.5g}, because the prior of "
            f"{prior.values[rarest]!r} is below 1/(e^ε+1) = {float(1 / (bound + 1)):.4g}. "
            "Use the optimal design instead, or force=True to study it."
        )
    return round_channel(prior, _rows(prior.on_support(), bound), exact)


def _rows(prior: Prior, bound: Fraction) -> list[list[int]]:
    """q over the denominator total·numerator(E)."""
    a, b = bound.numerator, bound.denominator
    rows = [[weight * b for weight in prior.weights] for _ in prior.values]
    for x in range(len(prior)):
        rows[x][x] += prior.total * (a - b)
    return rows
