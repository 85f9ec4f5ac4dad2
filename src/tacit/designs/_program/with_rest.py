"""Tables of heavy values beside a circle that has all others: the lifts of these have two levels only, and a mean.

A report covers the part m of the prior: of heavy value g a part c_g, and of the others together nothing or the part t,
so that Σ P_g c_g is m or m − t·T, T the mass of the others. Every value is covered to the part m in the mean, and lifts
are v = 1 + q(c − m). The variance of the unbiased shares of heavy values, of the others together and of each of them
follows from J of these k + 1 values (`many_values._reading`), so that the best table is one of `search`, with weights
for g: the circle tells the others apart equally well for every table with this t.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

import numpy as np

from tacit.designs._program.columns import arc_design
from tacit.designs._program.deadline import Deadline
from tacit.designs._program.lifts import Array, LiftSet, knapsack, largest
from tacit.designs._program.search import Search

#: Exchanges begin at this many lifts at random, and are at most this many times the values.
_STARTS, _STEPS = 200, 3
#: The search ends once a few steps together gain less than this.
_GAP = 1e-3


@dataclass(frozen=True, slots=True)
class LiftsWithRest:
    """The lifts of heavy values and, last, of all others together, as a `Polytope` of `search`.

    where: `prior` = (P_1, …, P_k, T), m = `share`, q = `amplitude`, t = `arc`.
    """

    prior: Array
    share: float
    amplitude: float
    arc: float
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    method: str = "table beside a circle"
    proves: bool = False

    def start(self) -> tuple[Array, Array]:
        """Arcs over the heavy values alone, in a few orders."""
        heavy = self.prior[:-1] / (1 - self.prior[-1])
        lifts, weights = [], []
        for part, chance in ((self.arc, self.share / self.arc), (0.0, 1 - self.share / self.arc)):
            covered = (self.share - part * self.prior[-1]) / (1 - self.prior[-1])
            for _ in range(4):
                order = self.rng.permutation(len(heavy)).astype(np.intp)
                found, each = arc_design(heavy, LiftSet(0.0, 1 / covered), order)
                lifts.append(self._lifts(found * covered, part))
                weights.append(each * chance / 4)
        return np.concatenate(lifts), np.concatenate(weights)

    def _lifts(self, covered: Array, part: float) -> Array:
        with_rest = np.column_stack([covered, np.full(len(covered), part)])
        lifts: Array = 1 + self.amplitude * (with_rest - self.share)
        return lifts

    def limits(self) -> tuple[Array, Array]:
        """The least and the largest lift of each value."""
        low = np.full(len(self.prior), 1 - self.amplitude * self.share)
        return low, low + self.amplitude

    def towards(self, slopes: Array) -> Array:
        """The lifts with the largest slope·v for each level of the rest."""
        heavy, order = self.prior[:-1], np.argsort(-slopes[:, :-1] / self.prior[:-1], axis=1)
        none, whole = np.zeros(len(heavy)), np.ones(len(heavy))
        found = []
        for part in (self.arc, 0.0):
            covered = knapsack(heavy, none, whole, order, self.share - part * self.prior[-1])
            found.append(self._lifts(covered, part))
        return np.concatenate(found)

    def price(self, factor: Array, duals: Array, level: float, lifts: Array, deadline: Deadline) -> tuple[Array, float]:
        """Lifts with |Fᵀv|² − μ·v above `level`: those in use and others at random, after the best exchanges."""
        found = np.concatenate([lifts, self.towards(self.rng.normal(size=(_STARTS, len(self.prior))))])
        square = factor @ factor.T
        for _ in range(_STEPS * len(self.prior)):
            if not self._exchange(found, square, duals):
                break
        found = np.unique(np.round(found, 11), axis=0)
        worth = ((found @ factor) ** 2).sum(axis=1) - found @ duals
        best = largest(worth, 16 * len(self.prior))
        return found[best[worth[best] > level]], inf

    def _exchange(self, lifts: Array, square: Array, duals: Array) -> bool:
        """In every lift the exchange of mass between two heavy values that gains most: as much of it as possible, since
        the gain is convex. Whether there was one.
        """
        heavy, (low, high) = self.prior[:-1], self.limits()
        ups, downs = np.nonzero(~np.eye(len(heavy), dtype=np.bool_))
        slope, curve = 2 * lifts @ square - duals, np.diag(square)
        room, held = (high[:-1] - lifts[:, :-1]) * heavy, (lifts[:, :-1] - low[:-1]) * heavy
        mass = np.minimum(room[:, ups], held[:, downs])
        bend = curve[ups] / heavy[ups] ** 2 + curve[downs] / heavy[downs] ** 2
        bend = bend - 2 * square[ups, downs] / (heavy[ups] * heavy[downs])
        gain = mass * (slope[:, ups] / heavy[ups] - slope[:, downs] / heavy[downs] + mass * bend)
        best, rows = gain.argmax(axis=1), np.arange(len(lifts))
        moved = np.where(gain[rows, best] > 1e-9, mass[rows, best], 0.0)
        lifts[rows, ups[best]] += moved / heavy[ups[best]]
        lifts[rows, downs[best]] -= moved / heavy[downs[best]]
        return bool(moved.any())

    def prove(self, factor: Array, duals: Array, deadline: Deadline) -> float:
        """None: a good table is enough."""
        return inf

    def other_bound(self, g: Array, lifts: Array, weights: Array, deadline: Deadline) -> float:
        """None."""
        return 0.0


def best_table(prior: Array, share: float, amplitude: float, arc: float, weights: Array) -> tuple[Array, Array, Array]:
    """The coverage of the table whose variances, times `weights`, add up to least; its chances; and (J⁻¹)_gg.

    >>> prior = np.array([0.5, 0.1, 0.4])
    >>> covered, chances, _ = best_table(prior, 0.25, 2.0, 0.5, np.ones(3))
    >>> np.allclose(covered @ prior, 0.25), np.allclose(chances @ covered, 0.25)
    (True, True)
    """
    lifts = LiftsWithRest(prior, share, amplitude, arc)
    found = Search(lifts, np.diag(np.sqrt(weights)), aim="unbiased", gap=_GAP, deadline=Deadline()).run()
    moments = (found.lifts * found.probabilities[:, None]).T @ found.lifts
    covered = (found.lifts - 1) / amplitude + share
    return np.clip(covered, 0.0, 1.0), found.probabilities, np.diag(np.linalg.inv(moments))
