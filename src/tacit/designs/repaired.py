"""Randomized response, and with its weights repaired so that it is LIP for every prior."""

from __future__ import annotations

from fractions import Fraction

from tacit.exact import Number, budget, exp_below
from tacit.mechanism import Channel, round_channel
from tacit.prior import Prior, PriorSet


def repaired_response(prior: Prior, epsilon: Number, prior_set: PriorSet | None = None) -> Channel:
    """Tell the truth with probability s, otherwise report k with probability proportional to m_k.

        q = s·I + 1·cᵀ,  m_k = max(u_k, 1 − E·l_k),  s = (E−1)/(E−1+Σm),  c_k = s·m_k/(E−1),

    where E = e^ε, and l_k ≤ u_k are the least and the largest probability of value k over the set; both are the prior
    P_k without a set. Under a prior p report k has λ_k = s·p_k + c_k, so its lower lift c_k/λ_k reaches 1/E where
    m_k = u_k and its upper lift (s+c_k)/λ_k reaches E where m_k = 1 − E·l_k: ε-LIP for every prior of the set, optimal
    for one prior of two values, far from optimal for many. With l = 0 and u = 1 it is randomized response.

    >>> from tacit.mechanism.auditing import satisfies
    >>> prior = Prior.of({"a": 0.01, "b": 0.29, "c": 0.7})
    >>> satisfies(repaired_response(prior, 1), "lip", 1)
    True
    """
    exact = budget(epsilon)
    bound = exp_below(exact)
    inside = prior.on_support()
    # Rows over the denominator s/(E−1).
    fallback = [max(most, 1 - bound * least) for least, most in _ends(inside, prior_set)]
    rows = [list(fallback) for _ in inside.values]
    for x in range(len(inside)):
        rows[x][x] += bound - 1
    return round_channel(prior, rows, exact, prior_set=prior_set)


def _ends(inside: Prior, prior_set: PriorSet | None) -> list[tuple[Fraction, Fraction]]:
    """The least and the largest probability of each possible value over the set."""
    if prior_set is None:
        return [(share, share) for share in (Fraction(weight, inside.total) for weight in inside.weights)]
    values = prior_set.prior.values
    return [prior_set.extremes([int(value == one) for value in values]) for one in inside.values]


def randomized_response(prior: Prior, epsilon: Number) -> Channel:
    """k-ary randomized response over the possible values: ε-LDP, and so ε-LIP for every prior and every set of them.

    >>> from tacit.mechanism.auditing import satisfies
    >>> prior = Prior.of({"a": 0.01, "b": 0.29, "c": 0.7})
    >>> satisfies(randomized_response(prior, 1), "ldp", 1)
    True
    """
    exact = budget(epsilon)
    bound, d = exp_below(exact), len(prior.support)
    return round_channel(prior, [[bound if x == y else 1 for y in range(d)] for x in range(d)], exact, "ldp")
