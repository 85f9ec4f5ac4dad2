"""The named priors of the tests, as integers, so that every test that says "zipf" means the same one."""

from __future__ import annotations

import numpy as np

from tacit import Prior

KINDS = ("zipf", "dirichlet", "uniform", "dominated")


def named_prior(kind: str, d: int, seed: int = 1) -> Prior:
    """A prior on 0, …, d − 1.

    "zipf" falls as 1/k; "dirichlet" is uniform over all priors, of its seed; "dominated" has one value of 0.9 before a
    tail that falls as 1/k.

    >>> [named_prior("dominated", 3).probability(k) for k in range(3)]
    [Fraction(9, 10), Fraction(1, 15), Fraction(1, 30)]
    """
    if kind == "zipf":
        weights = zipf_weights(d)
    elif kind == "dirichlet":
        weights = [1 + int(10**6 * share) for share in np.random.default_rng(seed).exponential(size=d)]
    elif kind == "uniform":
        weights = [1] * d
    elif kind == "dominated":
        tail = zipf_weights(d - 1)
        weights = [9 * sum(tail), *tail]
    else:
        raise ValueError(f"A named prior is one of {', '.join(KINDS)}, got {kind!r}.")
    return Prior(range(d), weights)


def named_shares(kind: str, d: int, seed: int = 1) -> np.ndarray:
    """The same in floats, for what is below exactness."""
    return named_prior(kind, d, seed).probabilities


def zipf_weights(d: int) -> list[int]:
    """Falling as 1/k, in integers.

    >>> zipf_weights(4)
    [1000000000, 500000000, 333333333, 250000000]
    """
    return [10**9 // k for k in range(1, d + 1)]
