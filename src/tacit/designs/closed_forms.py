"""Channels that need no search: the best for two answers, and the repaired response for every prior."""

from __future__ import annotations

from fractions import Fraction

from tacit.exact import Number, budget, exp_below
from tacit.mechanism import Channel, Notion, round_channel
from tacit.prior import Prior, PriorSet


def optimal_binary(prior: Prior, epsilon: Number) -> Channel:
    """The channel of least MSE for a `prior` with at most two possible values, ε = `epsilon`.

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


def repaired_response(
    prior: Prior, epsilon: Number, prior_set: PriorSet | None = None, notion: Notion = "lip"
) -> Channel:
    """Tell the truth with probability s, otherwise report k with probability proportional to m_k.

        q = s·I + 1·cᵀ,  m_k = max(u_k, 1 − E·l_k),  s = (E−1)/(E−1+Σm),  c_k = s·m_k/(E−1),

    where E = e^ε, ε = `epsilon`, and l_k ≤ u_k are the least and the largest probability of value k over the
    `prior_set`; both are the `prior` P_k without a set. Under a prior p report k has λ_k = s·p_k + c_k, so its lower
    lift c_k/λ_k reaches 1/E where m_k = u_k and its upper lift (s+c_k)/λ_k reaches E where m_k = 1 − E·l_k: ε-LIP for
    every prior of the set, optimal for one prior of two values, far from optimal for many. With l = 0 and u = 1, which
    is the `notion` "ldp", it is k-ary randomized response.

    >>> from tacit.mechanism.auditing import satisfies
    >>> prior = Prior.of({"a": 0.01, "b": 0.29, "c": 0.7})
    >>> satisfies(repaired_response(prior, 1), "lip", 1), satisfies(repaired_response(prior, 1, notion="ldp"), "ldp", 1)
    (True, True)
    """
    exact = budget(epsilon)
    bound = exp_below(exact)
    inside = prior.on_support()
    ends = [(Fraction(0), Fraction(1)) for _ in inside.values] if notion == "ldp" else _ends(inside, prior_set)
    # Rows over the denominator s/(E−1).
    fallback = [max(most, 1 - bound * least) for least, most in ends]
    rows = [list(fallback) for _ in inside.values]
    for x in range(len(inside)):
        rows[x][x] += bound - 1
    return round_channel(prior, rows, exact, notion, prior_set=prior_set)


def _ends(inside: Prior, prior_set: PriorSet | None) -> list[tuple[Fraction, Fraction]]:
    """The least and the largest probability of each possible value over the set."""
    if prior_set is None:
        return [(share, share) for share in (Fraction(weight, inside.total) for weight in inside.weights)]
    values = prior_set.prior.values
    return [prior_set.extremes([int(value == one) for value in values]) for one in inside.values]
