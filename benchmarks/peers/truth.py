"""Who takes part: values drawn from a Zipf or a uniform distribution, and what is believed about them beforehand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from peers.peer import Integers
from studies.worth import zipf
from tacit import Prior

TRUTHS = {"Zipf": zipf, "uniform": Prior.uniform}


def people(truth: Prior, n: int, run: int, seed: int) -> Integers:
    """The positions of the values that n people hold; the same for every system."""
    rng = np.random.default_rng([seed, run, len(truth)])
    edges = np.cumsum(truth.probabilities)
    return np.minimum(np.searchsorted(edges, rng.random(n), side="right"), len(truth) - 1).astype(np.int64)


def shifted(truth: Prior, tau: Fraction) -> Prior:
    """A belief at total variation distance τ from the truth: τ is taken from every other value, in proportion, and
    given to the rest.

    >>> shifted(Prior.uniform(4), Fraction(1, 10)).weights
    (2, 3, 2, 3)
    """
    total = Fraction(truth.total)
    shares = [Fraction(weight) / total for weight in truth.weights]
    less, more = sum(shares[::2]), sum(shares[1::2])
    factors = 1 - tau / less, 1 + tau / more
    exact = [share * factors[x % 2] for x, share in enumerate(shares)]
    return Prior(truth.values, exact)
