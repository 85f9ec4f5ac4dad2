"""Proven upper bounds on the gain of any channel. Nothing here depends on how a design was found.

For any dual vector μ, weak duality gives

    Σ_y λ_y gain(v_y)  ≤  Σ_x μ_x + max_v [ gain(v) - μ · v ]

over all feasible lifts v, for any μ. The inner maximum of a convex function is bounded from above by

    enumeration        d ≤ 14, exact
    knapsack grid      separable gains: exact but for masses rounded to a grid, the rounding taken as slack
    chords             (f.(v-1))² = max_t 2t f.(v-1) - t², a sort for each t; between two t the convex part lies
                       under its chord
    covered by balls   the same with several columns in the task, see `covered`
    branch and bound   many columns and up to 40 values, see `branching`
    chord relaxation   separable gains: each square replaced by its chord, a fractional knapsack

Where a value is less likely than TINY, floats cannot tell which vertices its share allows, and `cheap_bound` serves.

All results are rounded up by a few units in the last place of the largest term.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
from numpy.typing import NDArray

from tacit.designs._program.branching import MOST_BRANCHED, branched
from tacit.designs._program.deadline import Deadline
from tacit.designs._program.gain import Gain
from tacit.designs._program.lifts import Array, LiftSet, all_vertices, best_lifts, largest

ENUMERATION_LIMIT = 14
#: Where this many columns of a task are independent, more vertices are visited rather than their images covered.
_WIDE, WIDE_LIMIT = 5, 16
#: Below this probability a value's share of Σ P v = 1 drowns in the rounding of the others'.
TINY = 1e-9
_NODES = 4096
#: This many points are looked at to cover the images of all lifts: about two seconds.
_POINTS = 2e7
#: And that many at a time. A cover is tight enough if it proves the bound to this share.
_AT_ONCE, _TIGHT = 2048, 1.5e-3
#: From this many directions a good lift is sought first.
_CLIMBS = 256
#: Steps to the best D of `spread_bound`, and for how many values they are taken at most.
_SPREAD_STEPS, _MOST_SPREAD = 24, 200
#: Tables of this many cells are worked on at a time.
_CELLS_AT_ONCE = 2**22

_GRID_WORK = 2e8
#: This many knapsack tables at a time stay in the processor's cache.
_GRID_ROWS = 16

#: Operations for each value of a fractional knapsack.
_SORTED = 60

Support = Callable[[Array], Array]


def dual_bound(prior: Array, g: Array, lift_set: LiftSet, duals: Array, deadline: Deadline | None = None) -> float:
    """Upper bound on the gain of every channel for task `g` (d, m), valid for any `duals` (d,)."""
    return gain_dual_bound(prior, Gain.of(prior, g), lift_set, duals, deadline)


def gain_dual_bound(
    prior: Array,
    gain: Gain,
    lift_set: LiftSet,
    duals: Array,
    deadline: Deadline | None = None,
    leads: list[Array] | None = None,
) -> float:
    """As `dual_bound`, for a gain that is already at hand. After the deadline the bound is valid and less sharp.

    What the proof came across on the way, near to lifts with a large value, is added to `leads`.
    """
    deadline = Deadline() if deadline is None else deadline
    if lift_set.trivial or len(prior) == 1:
        return 0.0
    if prior.min() < TINY:
        return cheap_bound(prior, gain, lift_set)
    # A multiple of the prior moves between the two terms unchanged; the smallest duals round best.
    duals = duals - prior * (duals @ prior) / (prior @ prior)
    wide = gain.weights is None and is_wide(gain.factor)
    if len(prior) <= (WIDE_LIMIT if wide else ENUMERATION_LIMIT):
        inner = _enumerated(prior, gain, lift_set, duals)
        deadline.spend(2.0 ** len(prior) * len(prior) * 50)
    elif wide and len(prior) <= MOST_BRANCHED and not lift_set.has_ratio:
        inner, found = branched(prior, gain.factor, duals, lift_set, deadline)
        if leads is not None:
            leads.append(found)
    elif gain.weights is None:
        inner = _over_t(prior, gain.factor, lift_set, duals, deadline)
    else:
        inner = _separable(prior, gain.weights, lift_set, duals, deadline)
    high = lift_set.limits(prior)[1]
    noise = 1e-14 * len(prior) * (np.abs(duals) @ high + abs(inner))
    return float(duals.sum() + inner + noise)


def is_wide(factor: Array) -> bool:
    """Whether the task has too many independent columns to cover their images quickly."""
    scale = np.linalg.svd(factor, compute_uv=False)
    return int((scale > 1e-9 * scale.max(initial=0.0)).sum()) > _WIDE


def per_value_bound(prior: Array, lift_set: LiftSet, weights: Array | None = None) -> float:
    """Σ_x w_x (high_x - 1)(1 - low_x), w = P² for a histogram: each value on its own at its best.

    A lift with mean 1 in [low, high] has variance at most (high - 1)(1 - low).
    """
    low, high = lift_set.limits(prior)
    w = prior**2 if weights is None else weights
    return float(w @ ((high - 1) * (1 - low)) * (1 + 1e-13))


def cheap_bound(prior: Array, gain: Gain, lift_set: LiftSet) -> float:
    """A bound that needs no duals: per value, or per principal column of the task.

    For one column, t = f · (v - 1) has mean 0 and lies in [t_min, t_max], so E t² ≤ -t_min t_max.
    """
    if gain.weights is not None:
        return per_value_bound(prior, lift_set, gain.weights)
    ends = _linear_max(prior, lift_set, np.concatenate([gain.factor.T, -gain.factor.T]))
    ends -= np.concatenate([gain.factor.sum(axis=0), -gain.factor.sum(axis=0)])
    r = gain.factor.shape[1]
    return float(ends[:r] @ ends[r:] * (1 + 1e-13))


def cheap_variance_bound(prior: Array, g: Array, lift_set: LiftSet) -> float:
    """A bound of the unbiased variance that needs no search; 0 for more than some hundred values and several columns.

    An estimate r is unbiased for every truth iff E[r v(x)] = g(x) for every x, so Cov(r, Σ w v) = Σ w (g − E g) for all
    weights w and, by Cauchy and Schwarz, Var r ≥ (Σ w (g − E g))² / Var(Σ w v). With w = P (g − E g) the divisor is a
    gain; with the unit vector of x it is Var v(x) ≤ (high − 1)(1 − low). For several columns see `spread_bound`.
    """
    if lift_set.trivial or len(prior) == 1:
        return 0.0
    low, high = lift_set.limits(prior)
    # Differences of nearly equal numbers where P is nearly 1, so rounded up by what they may have lost.
    most = (high - 1 + 1e-15 * high) * (1 - low + 1e-15)
    if g.shape[1] == 1:
        off = g[:, 0] - prior @ g[:, 0]
        spread, gain = float(prior @ off**2), cheap_bound(prior, Gain.of(prior, g), lift_set)
        together = spread * (spread / gain) if gain > 0 else 0.0
        return float(max(together, (off**2 / most).max()) * (1 - 1e-13))
    if g.shape[0] != g.shape[1] or np.count_nonzero(g - np.diag(np.diag(g))):
        return spread_bound(prior, g, most) if len(prior) <= _MOST_SPREAD and prior.min() >= TINY else 0.0
    return float(((np.diag(g) * (1 - prior)) ** 2 / most).sum() * (1 - 1e-13))


def spread_bound(prior: Array, g: Array, most: Array) -> float:
    """‖D^½ C‖² / Σ_x D_x most_x, with C = g − E g, the sum of singular values as norm, and the best D found.

    The variance is tr(Cᵀ J⁺ C), J the covariance of the lifts, with J_xx ≤ most_x. For every diagonal D ≥ 0

        ‖D^½ C‖  =  ‖D^½ J^½ · J^−½ C‖  ≤  |D^½ J^½| · |J^−½ C|,   so   ‖D^½ C‖²  ≤  Σ_x D_x J_xx · tr(Cᵀ J⁺ C).

    Next to the optimum where the task tells all values apart, as a table of two questions does.
    """
    off, weights, bound = g - prior @ g, prior, 0.0
    for _ in range(_SPREAD_STEPS):
        left, scale, _ = np.linalg.svd(np.sqrt(weights)[:, None] * off, full_matrices=False)
        norm, size = float(scale.sum()), float(weights @ most)
        if norm <= 1e-9 * float(np.abs(g).max()):
            break
        bound = max(bound, norm**2 / size)
        # At the best D the slope of the logarithm is 0.
        weights = weights * ((left**2 @ scale) / norm / (weights * most / size)) ** 2
        weights = np.maximum(weights / weights.sum(), 1e-12)
    # C is a difference: where a value is rare it is known to fewer digits.
    return bound * (1 - 1e-9 - 1e-15 / float(prior.min()))


def _linear_max(prior: Array, lift_set: LiftSet, slopes: Array) -> Array:
    """max_v slopes_i · v over the lift set for every row of `slopes`."""
    return np.asarray(np.einsum("ij,ij->i", slopes, best_lifts(prior, lift_set, slopes)))


def _enumerated(prior: Array, gain: Gain, lift_set: LiftSet, duals: Array) -> float:
    """Exact max of gain(v) - μ · v: a convex function is largest at a vertex, and all are visited."""
    v = all_vertices(prior, lift_set)
    return float((gain(v) - v @ duals).max())


def _over_t(prior: Array, factor: Array, lift_set: LiftSet, duals: Array, deadline: Deadline) -> float:
    """max_v |Fᵀ(v-1)|² - μ · v = max_t G(t), G(t) = max_v [2 (F t) · (v-1) - μ · v] - |t|²."""
    if factor.shape[1] > 1:
        return covered(lambda slopes: best_lifts(prior, lift_set, slopes), prior, factor, duals, deadline)
    total = factor.sum(axis=0)
    rows = max(1, _CELLS_AT_ONCE // len(prior))

    def support(t: Array) -> Array:
        parts = [t[k : k + rows] for k in range(0, len(t), rows)]
        most = [_linear_max(prior, lift_set, 2 * part @ factor.T - duals) - 2 * part @ total for part in parts]
        return np.concatenate(most)

    top = _linear_max(prior, lift_set, factor.T) - total
    bottom = total + _linear_max(prior, lift_set, -factor.T)
    return _by_chords(support, -float(bottom[0]), float(top[0]), deadline, _SORTED * len(prior))


def _by_chords(support: Support, start: float, stop: float, deadline: Deadline, cost: float) -> float:
    """max_t H(t) - t² for convex H: on each interval H lies under its chord; split until nothing is gained.

    `cost` operations are counted for each H(t).
    """
    t = np.linspace(start, stop, 65)
    h = support(t[:, None])
    closed = -inf
    for _ in range(60):
        slope = np.diff(h) / np.maximum(np.diff(t), 1e-300)
        peak = np.clip(slope / 2, t[:-1], t[1:])
        above = h[:-1] + slope * (peak - t[:-1]) - peak**2
        floor = float((h - t**2).max())
        worst = max(closed, float(above.max()))
        split = above > floor + 1e-6 * max(worst - floor, 0.0) + 1e-7 * max(abs(start), abs(stop)) ** 2
        if not split.any() or len(t) > _NODES or deadline.passed:
            return worst
        middle = np.clip(peak, t[:-1] + 0.1 * np.diff(t), t[1:] - 0.1 * np.diff(t))[split]
        deadline.spend(cost * len(middle))
        t, index = np.unique(np.concatenate([t, middle]), return_index=True)
        h = np.concatenate([h, support(middle[:, None])])[index]
    return worst


def covered(
    best: Callable[[Array], Array],
    prior: Array,
    factor: Array,
    duals: Array,
    deadline: Deadline,
    tight: float = _TIGHT,
    work: float = _POINTS,
    cost: float = 0.0,
) -> float:
    """An upper bound of |Fᵀ(v-1)|² - μ·v over a set of lifts whose linear problem `best` solves exactly.

    `best` takes slopes, a row each, and returns the lift with the largest slope·v for each. The columns of F that the
    lifts tell apart (P·(v-1) = 0) span few dimensions r: let z = Fᵀ(v-1) there. For every point t and every lift

        |z|² - μ·v  =  2 t·z - |t|² + |z - t|² - μ·v  ≤  G(t) + |z - t|²,   G(t) = max_v (2 F t·(v-1) - μ·v) - |t|².

    So one linear problem bounds all lifts whose image z lies in a ball around t. A box that contains all images is
    bisected until every part lies in a ball that proves enough; a part starts with the point of the part it came from.
    Work grows with the number of nearly best lifts and exponentially in r only where there are no such lifts to
    tell apart: some hundredths of a second for r = 4, a second for r = 7. Once `work`/d points were tried, or at the
    deadline, the largest bound of a part that is left is returned; that is valid, and less sharp. `best` takes `cost`
    operations for a row, or a few for each value.
    """
    total = factor.sum(axis=0)
    left, scale, _ = np.linalg.svd(factor - np.outer(prior, total), full_matrices=False)
    keep = scale > 1e-12 * scale.max(initial=0.0)
    factor = left[:, keep] * scale[keep]
    r, total = factor.shape[1], factor.sum(axis=0)
    if not r:
        return float(-(duals @ best(-duals[None])[0]))

    def image(v: Array) -> Array:
        return np.asarray(v @ factor - total)

    def support(t: Array) -> Array:
        slopes = 2 * t @ factor.T - duals
        return np.asarray((slopes * best(slopes)).sum(axis=1) - 2 * t @ total - (t**2).sum(axis=1))

    ends = image(best(np.concatenate([factor.T, -factor.T])))
    high, low = np.diag(ends[:r]), np.diag(ends[r:])
    floor, z = -inf, np.random.default_rng(0).normal(size=(_CLIMBS, r)) * (high - low) / 2
    for _ in range(6):  # Each step leads to the best lift for the square linearised at the last one.
        v = best(2 * z @ factor.T - duals)
        z = image(v)
        floor = max(floor, float(((z**2).sum(axis=1) - v @ duals).max()))
    target = floor + tight * abs(float(duals.sum()) + floor)
    centre, half, t = ((low + high) / 2)[None], ((high - low) / 2)[None], ((low + high) / 2)[None]
    at = support(t)
    above = at + ((np.abs(t - centre) + half) ** 2).sum(axis=1)
    tried, most = 1, int(work / len(prior))
    while len(above) and (tried < most and not deadline.passed):
        order = largest(above, max(_AT_ONCE, len(above) // 3))
        later = np.ones(len(above), dtype=bool)
        later[order] = False
        rows, narrow = np.arange(len(order)), half[order]
        widest, step = np.argmax(narrow, axis=1), np.zeros(narrow.shape)
        step[rows, widest] = narrow[rows, widest] / 2
        parts, narrow = np.concatenate([centre[order] - step, centre[order] + step]), np.tile(narrow - step, (2, 1))
        old, old_at = np.tile(t[order], (2, 1)), np.tile(at[order], 2)
        new_at = support(parts)
        tried += len(parts)
        deadline.spend(len(parts) * (cost or _SORTED * len(prior)))
        bounds = np.stack([
            old_at + ((np.abs(old - parts) + narrow) ** 2).sum(axis=1), new_at + (narrow**2).sum(axis=1)
        ])  # fmt: skip
        better = bounds[1] < bounds[0]
        live = bounds.min(axis=0) > target
        centre, half = np.concatenate([centre[later], parts[live]]), np.concatenate([half[later], narrow[live]])
        t = np.concatenate([t[later], np.where(better[:, None], parts, old)[live]])
        at = np.concatenate([at[later], np.where(better, new_at, old_at)[live]])
        above = np.concatenate([above[later], bounds.min(axis=0)[live]])
    # Sums of products of slopes and lifts are rounded.
    noise = 1e-13 * (float(np.abs(duals).sum()) + float((np.maximum(high, -low) ** 2).sum()))
    return float(max(target, above.max(initial=-inf))) + noise


def _separable(prior: Array, weights: Array, lift_set: LiftSet, duals: Array, deadline: Deadline) -> float:
    """max_v Σ_x w_x (v_x-1)² - μ · v, by the tightest of the bounds that apply."""
    if lift_set.has_ratio:
        ratio, (s_min, s_max) = lift_set.ratio, lift_set.smallest()
        ends = [LiftSet(s, s * ratio) for s in (s_min, s_max) if 1 / ratio < s < 1]
        vertices = [_separable(prior, weights, end, duals, deadline) for end in ends]
        vertices.append(pattern_bound(prior, weights, lift_set, duals, deadline))
        return min(max(vertices), _relaxed_ratio(prior, weights, lift_set, duals))
    low, high = lift_set.limits(prior)
    at_low = weights * (low - 1) ** 2 - duals * low
    at_high = weights * (high - 1) ** 2 - duals * high
    room = prior * (high - low)
    capacity = float(1 - prior @ low)
    density = (at_high - at_low) / room
    order = np.argsort(-density)
    used = np.clip(capacity - (np.cumsum(room[order]) - room[order]), 0.0, room[order])
    relaxed = float(at_low.sum() + used @ density[order])
    if np.ptp(prior) <= 1e-14 and np.ptp(weights) <= 1e-14 * weights.max():
        return min(relaxed, _equal_values(low, high, weights, duals, capacity / room[0]))
    price = float(density[order][np.flatnonzero(used)[-1]])
    grid = PartGrid(prior, weights, duals, low, high, price)
    return min(relaxed, float(at_low.sum()) + grid.solve(deadline))


def _equal_values(low: Array, high: Array, weights: Array, duals: Array, count: float) -> float:
    """Exact for equal priors and weights: the cheapest duals are covered, the next one in part."""
    n, k = len(low), int(count + 1e-9)
    mu = np.sort(duals)
    v = np.repeat([high[0], low[0]], [k, n - k])
    if k < n:
        v[k] = n - v[:k].sum() - v[k + 1 :].sum()
    return float(weights @ (v - 1) ** 2 - mu @ v)


def _relaxed_ratio(prior: Array, weights: Array, lift_set: LiftSet, duals: Array) -> float:
    """Chord relaxation with a ratio. For a fixed price k of mass,

        B(k, s) = k + Σ_x max over v in {s, s R} of [ w (v-1)² - μ v - k P v ]

    bounds every v in [s, s R], and is convex in s, so an interval of s is bounded by its two ends.
    """
    ratio, (s_min, s_max) = lift_set.ratio, lift_set.smallest()
    s = np.geomspace(s_min, s_max, 257)[:, None]

    def value(v: Array) -> Array:
        return np.asarray(weights * (v - 1) ** 2 - duals * v)

    def bound(price: Array, at: Array) -> Array:
        here = np.maximum(value(at) - price * prior * at, value(at * ratio) - price * prior * at * ratio)
        return np.asarray(price[:, 0] + here.sum(axis=1))

    price = marginal_prices(prior, weights, duals, s, ratio)
    ends = [
        np.maximum(bound(k, s[:-1]), bound(k, s[1:])) for k in (price[:-1], price[1:], (price[:-1] + price[1:]) / 2)
    ]
    return float(np.min(ends, axis=0).max())


# -- dynamic programs over prior mass on a grid ----------------------------------------------------------------------
#
# Both maximise Σ_x [w_x (v_x-1)² - μ_x v_x] over vertices of a lift set. Masses are rounded down to grid steps, so
# that the true mass of a set of k values is known within k steps; every value of the remainder that this leaves open is
# allowed for, so rounding only raises the result.


def pattern_bound(prior: Array, weights: Array, lift_set: LiftSet, duals: Array, deadline: Deadline) -> float:
    """Bound over the vertices {s, s R} of a set with a ratio, where S is raised and s = 1 / (1 + (R-1) P(S)).

    For a fixed S and price k the function k (1 - P.v) + Σ_x [w (v-1)² - μ v] is convex in s and right at its own s,
    so on an interval of s its ends bound it: one knapsack table per end, read where P(S) is in reach. Infinite if the
    deadline passes on the way.
    """
    n, ratio = len(prior), lift_set.ratio
    intervals = int(np.clip(8000 / n, 96, 512))
    cells = int(np.clip(_GRID_WORK / (n * intervals * 8), 300, 4000))
    edges = np.geomspace(*lift_set.smallest(), intervals + 1)[:, None]
    size: NDArray[np.intp] = np.floor(prior * cells * (1 - 1e-12)).astype(np.intp)
    smallest = np.argsort(size, kind="stable")
    reach = (1 / edges[:, 0] - 1) / (ratio - 1)
    slack = int((np.cumsum(np.sort(prior)) <= reach.max() + 1e-12).sum()) + 1
    place = np.arange(cells + 1)
    inside = (place >= np.floor(reach[1:, None] * cells) - slack) & (place <= np.ceil(reach[:-1, None] * cells))
    price = marginal_prices(prior, weights, duals, np.sqrt(edges[1:] * edges[:-1]), ratio)
    best = -inf
    for s in (edges[:-1], edges[1:]):
        low = weights * (s - 1) ** 2 - duals * s - price * prior * s
        high = weights * (s * ratio - 1) ** 2 - duals * s * ratio - price * prior * s * ratio
        rise, rest = high - low, low.sum(axis=1) + price[:, 0]
        for first in range(0, intervals, _GRID_ROWS):
            if deadline.passed:
                return inf
            rows = slice(first, first + _GRID_ROWS)
            # P(S) falls as s grows: the first row of these reaches furthest.
            last = min(int(np.ceil(reach[first] * cells)), cells)
            table = np.full((len(rest[rows]), last + 1), -inf)
            table[:, 0] = 0.0
            filled = 0
            # The smallest first, so that most of the table stays empty for long.
            deadline.spend(table.size * n)
            for x in smallest[: np.searchsorted(size[smallest], last, "right")]:
                filled = min(filled + size[x], last)
                raised = table[:, : filled + 1 - size[x]] + rise[rows, x, None]
                np.maximum(table[:, size[x] : filled + 1], raised, out=table[:, size[x] : filled + 1])
            found = np.where(inside[rows, : last + 1], table, -inf).max(axis=1) + rest[rows]
            best = max(best, float(found.max()))
    return best


def marginal_prices(prior: Array, weights: Array, duals: Array, s: Array, ratio: float) -> Array:
    """Marginal value of mass at each s: the density of the value at which the relaxed knapsack is full."""
    rise = weights * ((s * ratio - 1) ** 2 - (s - 1) ** 2) - duals * s * (ratio - 1)
    density = rise / (prior * s * (ratio - 1))
    order = np.argsort(-density, axis=1)
    filled = s * (1 + (ratio - 1) * np.cumsum(prior[order], axis=1))
    last = np.minimum((filled < 1 - 1e-12).sum(axis=1), len(prior) - 1)
    return np.take_along_axis(np.take_along_axis(density, order, axis=1), last[:, None], axis=1)


class PartGrid:
    """Exact 0/1 knapsack with one value in part, masses rounded down to a grid.

    A vertex raises a set S in full and one further value f to use the remaining mass r = capacity - room(S).
    Rounding down hides at most |S| grid steps of mass, so r is known within that many steps, and a convex
    function of r is largest at an end. All sets without f come from one divide-and-conquer over values.
    """

    def __init__(self, prior: Array, weights: Array, duals: Array, low: Array, high: Array, price: float) -> None:
        n = len(prior)
        self.prior, self.weights, self.duals, self.low, self.price = prior, weights, duals, low, price
        self.room = prior * (high - low)
        self.capacity = float(1 - prior @ low)
        cells = int(np.clip(_GRID_WORK / (n * np.log2(n) * 4), 1000, 50_000))
        self.step = self.capacity / cells
        self.size: NDArray[np.intp] = np.floor(self.room / self.step * (1 - 1e-12)).astype(np.intp)
        self.slack = (int((np.cumsum(np.sort(self.room)) <= self.capacity).sum()) + 1) * self.step
        # Pricing mass at its marginal value makes the slack nearly free.
        self.value = self._part(np.arange(n), high) - price * self.room
        self.empty = np.full(cells + 1, -inf)
        self.empty[0] = 0.0

    def _part(self, x: NDArray[np.intp] | int, v: Array) -> Array:
        w, mu, low = self.weights[x], self.duals[x], self.low[x]
        return np.asarray(w * ((v - 1) ** 2 - (low - 1) ** 2) - mu * (v - low))

    def solve(self, deadline: Deadline) -> float:
        """The bound, infinite if the deadline passes on the way."""
        return self._without(np.argsort(-self.room), self.empty, deadline) + self.price * self.capacity

    def _without(self, values: NDArray[np.intp], table: Array, deadline: Deadline) -> float:
        """Best completion where the partly raised value is among `values` and `table` holds all others."""
        if deadline.passed:
            return inf
        if len(values) == 1:
            return self._completed(int(values[0]), table)
        deadline.spend(len(values) * len(table))
        half = len(values) // 2
        first, second = values[:half], values[half:]
        return max(
            self._without(first, self._add(second, table), deadline),
            self._without(second, self._add(first, table), deadline),
        )

    def _add(self, values: NDArray[np.intp], table: Array) -> Array:
        table = table.copy()
        for size, value in zip(self.size[values].tolist(), self.value[values].tolist(), strict=True):
            if size == 0:
                table += max(value, 0.0)
            elif size < len(table):
                # The right-hand side is evaluated before the slice is written, so no value enters twice.
                table[size:] = np.maximum(table[size:], table[:-size] + value)
        return table

    def _completed(self, free: int, table: Array) -> float:
        r_high = self.capacity - np.arange(len(table)) * self.step
        r_low = np.maximum(r_high - self.slack, 0.0)
        possible = r_low <= self.room[free]
        r_low, r_high = r_low[possible], np.minimum(r_high[possible], self.room[free])
        ends = [self._part(free, self.low[free] + r / self.prior[free]) - self.price * r for r in (r_low, r_high)]
        return float((table[possible] + np.maximum(*ends)).max(initial=-inf))
