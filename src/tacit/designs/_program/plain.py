"""The lifts of one prior under LIP or LDP, as the oracle of `search`.

Proofs are those of `bounds`, written for |Fᵀ(v−1)|²: with t = Fᵀ1,

    |Fᵀv|² − μ·v  =  |Fᵀ(v−1)|² − (μ − 2Ft)·v − |t|².
"""

from __future__ import annotations

from math import inf

import numpy as np

from tacit.designs._program.bounds import TINY, gain_dual_bound
from tacit.designs._program.columns import arc_design, climb, packed_sets, starting_orders
from tacit.designs._program.deadline import Deadline
from tacit.designs._program.gain import Gain
from tacit.designs._program.lifts import Array, LiftSet, all_vertices, best_lifts, largest

#: Lifts are climbed to from this many places at random, and from more where that finds nothing.
_FEWEST_STARTS, _MOST_STARTS = 256, 4096
#: This many lifts that were found are kept.
_MOST_SEEN = 20_000


class PlainLifts:
    """The lifts of one prior under LIP or LDP: all vertices of few values, climbed to for more."""

    def __init__(self, prior: Array, lift_set: LiftSet, most_listed: int, *, proves: bool = True) -> None:
        self.prior, self.lift_set = prior, lift_set
        self._rng = np.random.default_rng(0)
        histogram = Gain(np.empty((len(prior), 0)), prior**2)
        orders = starting_orders(prior, histogram, self._rng, 4 if len(prior) <= 60 else 2)
        self._arcs = [arc_design(prior, lift_set, order) for order in orders]
        self._pool = all_vertices(prior, lift_set) if len(prior) <= most_listed else None
        self.method = "column generation" if self._pool is None else "all vertices"
        self.proves = proves
        self._seen, self._leads = np.empty((0, len(prior))), list[Array]()

    def start(self) -> tuple[Array, Array]:
        """Arcs in several orders, mixed equally: feasible, every weight positive, and of full rank in practice."""
        lifts, weights = zip(*self._arcs, strict=True)
        return np.concatenate(lifts), np.concatenate(weights) / len(weights)

    def limits(self) -> tuple[Array, Array]:
        """The least and the largest lift of each value."""
        return self.lift_set.limits(self.prior)

    def towards(self, slopes: Array) -> Array:
        """The lifts with the largest slope·v."""
        return best_lifts(self.prior, self.lift_set, slopes[: 0 if self._pool is not None else None])

    def price(self, factor: Array, duals: Array, level: float, lifts: Array) -> tuple[Array, float]:
        """Lifts with |Fᵀv|² − μ·v above `level`, among all vertices or by climbing."""
        new, worth = self._best(factor, duals, level, _FEWEST_STARTS, lifts)
        if self._pool is None and self.proves and not len(new):
            new, worth = self._best(factor, duals, level, _MOST_STARTS, lifts)
        if self._pool is None or self.prior.min() < TINY:  # Floats do not tell which vertices a tiny value allows.
            return new, inf
        most = float(worth.max())
        return new, most + 1e-13 * (float(np.abs(duals).sum()) + abs(most))

    def _best(self, factor: Array, duals: Array, level: float, starts: int, lifts: Array) -> tuple[Array, Array]:
        """The best lifts above the level, and the values of all that were looked at."""
        pool = self._climbed(factor, duals, lifts, starts) if self._pool is None else self._pool
        worth = ((pool @ factor) ** 2).sum(axis=1) - pool @ duals
        found = largest(worth, max(64, 16 * len(self.prior)))
        return pool[found[worth[found] > level]], worth

    def _climbed(self, factor: Array, duals: Array, lifts: Array, places: int) -> Array:
        """From the lifts in use and from others at random to lifts from which no step leads higher.

        Of the columns of F those count that lifts tell apart: a multiple of P changes nothing in Fᵀ(v−1).
        """
        prior, n, total = self.prior, len(self.prior), factor.sum(axis=0)
        shifted = duals - 2 * factor @ total
        left, scale, _ = np.linalg.svd(factor - np.outer(prior, total), full_matrices=False)
        gain = Gain(left * scale)
        starts = [lifts, *self._leads, 1 + self._rng.normal(size=(places, n)) * (self.limits()[1] - 1)]
        self._leads.clear()
        if gain.factor.shape[1] < n:
            images = (lifts - 1) @ gain.factor
            t = self._rng.normal(size=(512, images.shape[1])) * np.sqrt((images**2).mean(axis=0))
            starts.append(best_lifts(prior, self.lift_set, 2 * t @ gain.factor.T - shifted))
        elif not self.lift_set.has_ratio:
            orders = np.argsort(self._rng.random((256, n)), axis=1)
            starts.append(packed_sets(prior, gain, self.lift_set, orders, np.zeros(n)))
        found = climb(prior, gain, self.lift_set, shifted, np.concatenate(starts), steps=8)
        # What was found before is looked at again: duals move to and fro.
        self._seen = np.unique(np.round(np.concatenate([found, self._seen]), 12), axis=0)
        if len(self._seen) > _MOST_SEEN:
            value = gain(self._seen) - self._seen @ shifted
            self._seen = self._seen[largest(value, _MOST_SEEN // 2)]
        return self._seen

    def prove(self, factor: Array, duals: Array, deadline: Deadline) -> float:
        """An upper bound of |Fᵀv|² − μ·v over all lifts; none where only a good channel is wanted."""
        if not self.proves:
            return inf
        total = factor.sum(axis=0)
        shifted = duals - 2 * factor @ total
        left, scale, _ = np.linalg.svd(factor, full_matrices=False)
        most = gain_dual_bound(self.prior, Gain(left * scale), self.lift_set, shifted, deadline, self._leads)
        return float(most - shifted.sum() - total @ total)

    def other_bound(self, g: Array, lifts: Array, weights: Array, deadline: Deadline) -> float:
        """None for most tasks."""
        return 0.0
