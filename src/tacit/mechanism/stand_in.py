"""A stand-in for whoever holds a value with prior zero: a value drawn from the prior, which says nothing about them."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from tacit.exact import Integers
from tacit.mechanism.protocol import RandomWords
from tacit.prior import Prior


class StandIn:
    """Positions in the domain to positions in the support; a value outside it is replaced by a draw from the prior."""

    def __init__(self, prior: Prior) -> None:
        self._inside = np.full(len(prior), -1, dtype=np.int64)
        self._inside[list(prior.support)] = np.arange(len(prior.support))
        # Thresholds of 64-bit words; their rounding concerns nobody's guarantee.
        sums = list(accumulate(prior.weights[x] for x in prior.support))
        self._edges = np.array([min(2**64 - 1, part * 2**64 // sums[-1]) for part in sums[:-1]], dtype=np.uint64)

    def one(self, position: int, words: RandomWords) -> int:
        """The place in the support of one answer or its stand-in."""
        inside = int(self._inside[position])
        return inside if inside >= 0 else int(np.searchsorted(self._edges, np.uint64(words.integer(64)), side="right"))

    def many(self, positions: Integers, words: RandomWords) -> Integers:
        """The same for an array."""
        if len(self._edges) + 1 == len(self._inside):
            return np.asarray(positions)
        inside: Integers = self._inside[positions]
        outside = inside < 0
        if outside.any():
            inside[outside] = np.searchsorted(self._edges, words.draw(int(outside.sum()), 64), side="right")
        return inside
