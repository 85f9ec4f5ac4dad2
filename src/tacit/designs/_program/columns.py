"""Lift vectors to offer to the linear program: arcs, packed sets, improving columns; and `PlainLifts`, the oracle of
`search` for one prior under LIP or LDP.

All returned vectors are feasible; nothing here claims to be best. The oracle's proofs are those of `bounds`, written
for |Fᵀ(v−1)|²: with t = Fᵀ1,

    |Fᵀv|² − μ·v  =  |Fᵀ(v−1)|² − (μ − 2Ft)·v − |t|².
"""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from tacit.designs._program.bounds import TINY, gain_dual_bound
from tacit.designs._program.deadline import Deadline
from tacit.designs._program.gain import Gain
from tacit.designs._program.lifts import Array, LiftSet, all_vertices, best_lifts, exchanged, largest

Order = NDArray[np.intp]

#: Tables of this many cells are worked on at a time.
_CACHED_CELLS = 2**15
#: Each of this many values is left out in turn.
_MOST_HELD_BACK = 2000


def arc_design(prior: Array, lift_set: LiftSet, order: Order) -> tuple[Array, Array]:
    """The arc mechanism: lifts (2d, d) and their probabilities, feasible for every prior.

    Values lie on a circle of length 1 in the given order, x owning a segment of length P(x). A report is an arc
    of length h = (1 - lower) / (upper - lower) that starts or ends on a segment boundary; its lift is
    lower + (upper - lower) * (covered share of the segment). Coverage is piecewise linear between these positions, so
    weighting each by half of its two neighbouring gaps keeps the mean of a uniformly placed arc, which is 1.
    """
    lower, upper = _arc_box(prior, lift_set)
    length = (1 - lower) / (upper - lower)
    edges = np.concatenate([[0.0], np.cumsum(prior[order])])
    edges[-1] = 1.0
    start = np.sort(np.concatenate([edges[:-1], (edges[:-1] - length) % 1.0]))
    gap = np.diff(np.append(start, start[0] + 1))
    probability = (gap + np.roll(gap, 1)) / 2
    keep = probability > 0
    start, probability = start[keep, None], probability[keep]
    lifts = np.empty((len(start), len(prior)))
    # The table may have millions of cells: a few rows at a time stay in the processor's cache.
    rows = max(1, _CACHED_CELLS // len(prior))
    for first in range(0, len(start), rows):
        share = _covered(edges, start[first : first + rows], length)
        none, all_of_it = share < 1e-12, share > 1 - 1e-12
        share *= upper - lower
        share += lower
        share[none], share[all_of_it] = lower, upper
        lifts[first : first + rows, order] = share
    return lifts, probability / probability.sum()


def _covered(edges: Array, start: Array, length: float) -> Array:
    """The share of each segment that arcs cover, a row for each of the ascending starts."""
    share = np.zeros((len(start), len(edges) - 1))
    # Only arcs that go beyond the end of the circle come round to its beginning.
    round_again = int(np.searchsorted(start[:, 0] + length, 1.0, "right"))
    for turn, first in ((0.0, 0), (1.0, round_again)):
        covered = np.minimum(edges[1:] + turn, start[first:] + length)
        covered -= np.maximum(edges[:-1] + turn, start[first:])
        share[first:] += np.maximum(covered, 0.0, out=covered)
    share /= np.diff(edges)
    return share


def _arc_box(prior: Array, lift_set: LiftSet) -> tuple[float, float]:
    """A box inside the lift set; the middle one of the family [s, s R] when a ratio is bounded."""
    if lift_set.has_ratio:
        s_min, s_max = lift_set.smallest()
        s = float(np.clip(2 / (1 + lift_set.ratio), s_min, s_max))
        return s, s * lift_set.ratio
    low, high = lift_set.limits(prior)
    return float(low.min()), float(high.max())


def starting_orders(prior: Array, gain: Gain, rng: np.random.Generator, count: int) -> list[Order]:
    """Orders of the values on the circle: by the task or by mass, heavy and light in turn, and random ones."""
    score = prior if gain.weights is not None or gain.factor.shape[1] == 0 else gain.factor[:, 0] / prior
    by_score = np.argsort(-score, kind="stable").astype(np.intp)
    n = len(prior)
    turns = np.empty(n, dtype=np.intp)
    turns[0::2], turns[1::2] = by_score[: (n + 1) // 2], by_score[(n + 1) // 2 :][::-1]
    return [by_score, turns, *(rng.permutation(n).astype(np.intp) for _ in range(count - 2))]


def packed_sets(prior: Array, gain: Gain, lift_set: LiftSet, orders: Order, duals: Array) -> Array:
    """First fit: raise each value that still fits, in the order of each row; the rest of the mass goes to one value.

    That value is chosen best for gain(v) - duals · v; every value left over has room for it.
    """
    low, high = lift_set.limits(prior)
    weights = gain.weights if gain.weights is not None else np.zeros(len(prior))
    room = prior * (high - low)
    rows = np.arange(len(orders))
    left = np.full(len(orders), 1 - prior @ low)
    raised = np.zeros(orders.shape, dtype=bool)
    for x in orders.T:
        fits = room[x] <= left * (1 + 1e-13)
        raised[rows, x] = fits
        left = np.maximum(left - np.where(fits, room[x], 0.0), 0.0)
    part = low + left[:, None] / prior
    worth = weights * ((part - 1) ** 2 - (low - 1) ** 2) - duals * (part - low)
    worth[raised | (part > high * (1 + 1e-12))] = -np.inf
    free = np.argmax(worth, axis=1)
    lifts = np.where(raised, high, low)
    partial = np.isfinite(worth[rows, free]) & (left > 1e-15)
    lifts[rows[partial], free[partial]] = np.minimum(part[rows, free], high[free])[partial]
    return lifts


def improving(
    prior: Array, gain: Gain, lift_set: LiftSet, duals: Array, pool: Array, rng: np.random.Generator
) -> Array:
    """Candidates with a large gain(v) - duals · v; `pool` are lifts already in use, as places to start."""
    if gain.weights is not None and not lift_set.has_ratio:
        return _improving_sets(prior, gain, lift_set, duals, rng)
    if gain.weights is not None:
        ratio = lift_set.ratio
        boxes = [LiftSet(s, s * ratio) for s in lift_set.smallest() if 1 / ratio < s < 1]
        found = [_improving_sets(prior, gain, box, duals, rng) for box in boxes]
        return np.concatenate([_improving_patterns(prior, gain.weights, lift_set, duals, rng), *found])
    r = gain.factor.shape[1]
    ends = best_lifts(prior, lift_set, np.concatenate([gain.factor.T, -gain.factor.T]))
    reach = np.abs((ends - 1) @ gain.factor).max(axis=0)
    if r == 1:
        t = np.linspace(-reach, reach, 128)
    else:
        t = rng.normal(size=(128, r)) * reach * rng.uniform(0.2, 1.0, size=(128, 1))
    starts = best_lifts(prior, lift_set, 2 * t @ gain.factor.T - duals)
    return climb(prior, gain, lift_set, duals, np.concatenate([pool, starts]))


def climb(prior: Array, gain: Gain, lift_set: LiftSet, duals: Array, lifts: Array, steps: int = 4) -> Array:
    """Move each row to the best vertex for the gain linearised at it; a convex gain never falls."""
    for _ in range(steps):
        lifts = best_lifts(prior, lift_set, gain.slopes(lifts) - duals)
    return lifts


def _improving_sets(prior: Array, gain: Gain, lift_set: LiftSet, duals: Array, rng: np.random.Generator) -> Array:
    """Packed sets in the order of density, each value in turn held back, and in orders with noise."""
    assert gain.weights is not None
    low, high = lift_set.limits(prior)
    density = (gain.weights * ((high - 1) ** 2 - (low - 1) ** 2) / (high - low) - duals) / prior
    n = len(prior)
    # Of very many values only the densest are held back: the others are rarely raised.
    rows = np.arange(n) if n <= _MOST_HELD_BACK else np.argsort(-density)[:_MOST_HELD_BACK]
    held_back = np.tile(-density, (len(rows), 1))
    held_back[np.arange(len(rows)), rows] = np.inf
    scale = np.repeat([0.03, 0.1, 0.3, 1.0, 3.0], 32)[:, None] * density.std()
    noisy = -density + scale * rng.normal(size=(len(scale), n))
    orders = np.argsort(np.concatenate([held_back, noisy]), axis=1).astype(np.intp)
    return packed_sets(prior, gain, lift_set, orders, duals)


def _improving_patterns(
    prior: Array, weights: Array, lift_set: LiftSet, duals: Array, rng: np.random.Generator
) -> Array:
    """Patterns {s, s R}: for each s the values of largest density up to the mass that s leaves, then single flips."""
    ratio, (s_min, s_max) = lift_set.ratio, lift_set.smallest()
    s = np.repeat(np.geomspace(s_min, s_max, 66)[1:-1], 4)[:, None]
    density = (weights * ((s * ratio - 1) ** 2 - (s - 1) ** 2) / (s * (ratio - 1)) - duals) / prior
    noise = np.tile([0.0, 0.03, 0.1, 0.3], 64)[:, None] * density.std(axis=1, keepdims=True)
    order = np.argsort(-density + noise * rng.normal(size=density.shape), axis=1)
    filled = np.cumsum(prior[order], axis=1) <= (1 / s - 1) / (ratio - 1)
    shape = np.ones(density.shape)
    np.put_along_axis(shape, order, np.where(filled, ratio, 1.0), axis=1)
    rows = np.arange(len(shape))
    for _ in range(2 * len(prior)):
        change = np.where(shape == 1, ratio - 1, 1 - ratio)
        mass = (shape @ prior)[:, None] + np.hstack([np.zeros((len(shape), 1)), change * prior])
        square = (shape**2 @ weights)[:, None] + np.hstack([np.zeros((len(shape), 1)), change * (ratio + 1) * weights])
        pull = 2 * weights + duals
        linear = (shape @ pull)[:, None] + np.hstack([np.zeros((len(shape), 1)), change * pull])
        worth = square / mass**2 - linear / mass
        worth[(mass * s_min > 1 + 1e-12) | (mass * s_max < 1 - 1e-12)] = -np.inf
        best = np.argmax(worth, axis=1)
        if not best.any():
            break
        moved = best > 0
        shape[rows[moved], best[moved] - 1] = ratio + 1 - shape[rows[moved], best[moved] - 1]
    shape = np.unique(shape, axis=0)
    lifts = shape / (shape @ prior)[:, None]
    low = lifts.min(axis=1)
    return np.asarray(lifts[(low >= s_min * (1 - 1e-12)) & (low <= s_max * (1 + 1e-12))])


#: Lifts are climbed to from this many places at random, and from more where that finds nothing.
_FEWEST_STARTS, _MOST_STARTS = 256, 4096
#: This many lifts that were found are kept.
_MOST_SEEN = 20_000
#: Local search along edges: the most values it is tried for, how many good lifts it starts from, and how far each start
#: is moved at random, in shares of the box.
MOST_EXCHANGED, _NEAR, _NOISE = 64, 512, (0.5, 0.3)


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

    def price(self, factor: Array, duals: Array, level: float, lifts: Array, deadline: Deadline) -> tuple[Array, float]:
        """Lifts with |Fᵀv|² − μ·v above `level`, among all vertices or by climbing."""
        new, worth = self._best(factor, duals, level, _FEWEST_STARTS, lifts)
        deadline.spend(self._cost(_FEWEST_STARTS, factor))
        if self._pool is None and self.proves and not len(new):
            new, worth = self._best(factor, duals, level, _MOST_STARTS, lifts)
            deadline.spend(self._cost(_MOST_STARTS, factor))
        if self._pool is None or self.prior.min() < TINY:  # Floats do not tell which vertices a tiny value allows.
            return new, inf
        most = float(worth.max())
        return new, most + 1e-13 * (float(np.abs(duals).sum()) + abs(most))

    def _cost(self, starts: int, factor: Array) -> float:
        """Roughly how many operations it takes to look at these lifts once."""
        n = len(self.prior)
        if self._pool is not None:
            return float(self._pool.size * (2 + factor.shape[1] / 4))
        climbed = 8 * (starts + 1024) * n * (60 + n / 4) + len(self._seen) * n * 100
        return float(climbed + (160 * starts * n**2 if self._exchanges else 0))

    @property
    def _exchanges(self) -> bool:
        """Whether lifts are moved along edges."""
        return self.proves and not self.lift_set.has_ratio and len(self.prior) <= MOST_EXCHANGED

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
        if self._exchanges:
            found = np.concatenate([found, self._moved(gain, shifted, found, min(8 * places, 8192))])
        # What was found before is looked at again: duals move to and fro.
        self._seen = np.unique(np.round(np.concatenate([found, self._seen]), 12), axis=0)
        if len(self._seen) > _MOST_SEEN:
            value = gain(self._seen) - self._seen @ shifted
            self._seen = self._seen[largest(value, _MOST_SEEN // 2)]
        return self._seen

    def _moved(self, gain: Gain, duals: Array, lifts: Array, places: int) -> Array:
        """Local search along edges from good lifts, and again from places near to the best that this leads to."""
        low, high = self.limits()
        every = [exchanged(self.prior, (low - 1, high - 1), gain.factor, duals, lifts - 1)]
        for noise in _NOISE:
            found = np.unique(np.round(np.concatenate([*every, lifts - 1]), 12), axis=0)
            near = found[largest(((found @ gain.factor) ** 2).sum(axis=1) - found @ duals, _NEAR)]
            near = near[self._rng.integers(len(near), size=places)]
            near = near + noise * self._rng.normal(size=near.shape) * (high - low)
            starts = best_lifts(self.prior, self.lift_set, near * self.prior) - 1
            every.append(exchanged(self.prior, (low - 1, high - 1), gain.factor, duals, starts))
        return 1 + np.concatenate(every)

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
