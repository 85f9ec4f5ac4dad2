"""Randomized response, and with its weights repaired so that it is LIP for every prior."""

from __future__ import annotations

from tacit.exact import Number, budget, exp_below
from tacit.mechanism import Channel, round_channel
from tacit.prior import Prior


def repaired_response(prior: Prior, epsilon: Number) -> Channel:
    """Tell the truth with probability s, otherwise report k with probability proportional to m_k.

        q = s·I + 1·cᵀ,  m_k = max(P_k, 1 − E·P_k),  s = (E−1)/(E−1+Σm),  c_k = s·m_k/(E−1),

    where E = e^ε and P_k is the prior of value k. Report k has λ_k = s·P_k + c_k, so its lower lift c_k/λ_k reaches
    1/E where m_k = P_k and its upper lift (s+c_k)/λ_k reaches E where m_k = 1 − E·P_k: ε-LIP for every prior,
    optimal for two values, far from optimal for many.

    >>> from tacit.mechanism.auditing import satisfies
    >>> prior = Prior.of({"a": 0.01, "b": 0.29, "c": 0.7})
    >>> satisfies(repaired_response(prior, 1), prior, "lip", 1)
    True
    """
    exact = budget(epsilon)
    bound = exp_below(exact)
    inside = prior.on_support()
    # Rows over the denominator s/(E−1), times total·denominator(E) to make them integers.
    a, b, total = bound.numerator, bound.denominator, inside.total
    fallback = [max(weight * b, total * b - weight * a) for weight in inside.weights]
    rows = [list(fallback) for _ in inside.values]
    for x in range(len(inside)):
        rows[x][x] += total * (a - b)
    return round_channel(prior, rows, exact)


def randomized_response(prior: Prior, epsilon: Number) -> Channel:
    """k-ary randomized response over the possible values: ε-LDP, and so ε-LIP for every prior and every set of them.

    >>> from tacit.mechanism.auditing import satisfies
    >>> prior = Prior.of({"a": 0.01, "b": 0.29, "c": 0.7})
    >>> satisfies(randomized_response(prior, 1), prior, "ldp", 1)
    True
    """
    exact = budget(epsilon)
    bound, d = exp_below(exact), len(prior.support)
    return round_channel(prior, [[bound if x == y else 1 for y in range(d)] for x in range(d)], exact, "ldp")
