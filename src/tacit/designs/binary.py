"""The optimal ε-LIP channel for two values, in closed form for every prior."""

from __future__ import annotations

import math

import numpy as np

from tacit.exact import Floats, Number, budget, exp_below
from tacit.mechanism import Channel, round_channel
from tacit.prior import Prior


def optimal_binary(prior: Prior, epsilon: Number) -> Channel:
    """The channel of least MSE for a prior with at most two possible values.

    With p the prior of the rarer value and E = e^ε: if p ≥ 1/(E+1) it is the published Theorem 2, which touches both
    lower bounds. Otherwise the rare value's upper bound binds first:

        Q(rare|rare) = E/(E+1),   Q(rare|common) = (1 − pE) / ((E+1)(1−p)).

    Two outputs suffice and the choice is optimal for every convex utility.

    >>> from tacit.mechanism.auditing import audit
    >>> from tacit import Survey, mse
    >>> prior = Prior.of({"yes": 0.1, "no": 0.9})
    >>> round(mse(optimal_binary(prior, 1), Survey("yes")), 7)
    0.0791384
    """
    exact = budget(epsilon)
    inside = prior.on_support()
    if len(inside) > 2:
        raise ValueError(f"optimal_binary needs a prior with at most two possible values. Got {len(inside)}.")
    if len(inside) == 1:
        return round_channel(prior, [[1]], exact)
    bound = exp_below(exact)
    a, b = bound.numerator, bound.denominator
    rare = 0 if inside.weights[0] <= inside.weights[1] else 1
    p, rest = inside.weights[rare], inside.weights[1 - rare]
    if p * (a + b) >= inside.total * b:
        rows = [[inside.total * a - rest * b, rest * b], [p * b, inside.total * a - p * b]]
    else:
        lie = inside.total * b - p * a
        rows = [[a * rest, b * rest], [lie, (a + b) * rest - lie]]
    order = [rare, 1 - rare]
    return round_channel(prior, [[rows[order[x]][order[y]] for y in range(2)] for x in range(2)], exact)


def binary_mse(probability: Floats | float, epsilon: Floats | float) -> Floats:
    """The least MSE of any ε-LIP channel for a yes/no value: P₀P₁ − (u−P₁)(P₁−l), vectorised.

    Where u = min(E·P₁, 1−P₀/E) and l = max(P₁/E, 1−E·P₀) are the highest and lowest beliefs that the budget allows.

    >>> float(binary_mse(0.5, 1).round(6))
    0.150106
    """
    p1 = np.asarray(probability, dtype=np.float64)
    p0 = 1.0 - p1
    up, down = np.expm1(epsilon), -np.expm1(-np.asarray(epsilon, dtype=np.float64))
    # u − P₁ and P₁ − l, written so that nothing cancels for tiny budgets and priors.
    rise = np.minimum(p1 * up, p0 * down)
    fall = np.minimum(p1 * down, p0 * up)
    result: Floats = p0 * p1 - rise * fall
    return result


def published_binary_mse(probability: Floats | float, epsilon: Floats | float) -> Floats:
    """Theorem 2's MSE, P₀P₁(2/E − 1/E²): right if min P ≥ 1/(E+1), otherwise below what any ε-LIP channel reaches.

    >>> float(published_binary_mse(0.5, 1).round(6))
    0.150106
    """
    p1 = np.asarray(probability, dtype=np.float64)
    lie = np.exp(-np.asarray(epsilon, dtype=np.float64))
    result: Floats = p1 * (1.0 - p1) * lie * (2.0 - lie)
    return result


def opt_ldp_binary_mse(probability: Floats | float, epsilon: float) -> Floats:
    """Proposition 4: the MSE of symmetric randomized response read with the prior, the best that ε-LDP allows.

    >>> float(opt_ldp_binary_mse(0.5, 1).round(6))
    0.196612
    """
    p1 = np.asarray(probability, dtype=np.float64)
    p0 = 1.0 - p1
    e = math.exp(epsilon)
    result: Floats = p0 * p1 - (p0 * p1 * (e - 1.0)) ** 2 / ((p0 + p1 * e) * (p0 * e + p1))
    return result
