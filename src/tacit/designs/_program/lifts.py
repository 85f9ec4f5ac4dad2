"""The feasible lifts of a privacy notion, and the linear problem over them.

Symbols used throughout this package:

    P       prior, one positive probability per value x
    v       lift vector, v(x) = Pr(x | report) / P(x), with Σ_x P(x) v(x) = 1
    λ       probability of each report; Σ_y λ_y v_y(x) = 1 for every x
    s       the smallest entry of a lift vector, when a ratio is bounded
    R       the bound on that ratio
    c       coverage, v = low + (high - low) c with 0 ≤ c ≤ 1
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Edges that `exchanged` follows at most, and tables of how many cells it works on at a time.
_MOST_EXCHANGES, _CELLS = 200, 2**18


@dataclass(frozen=True, slots=True)
class LiftSet:
    """Lift vectors with lower ≤ v ≤ upper, max v ≤ ratio * min v and Σ_x P(x) v(x) = 1.

    LIP at level ε is `LiftSet.lip(epsilon)`; one-sided budgets leave `lower=0` or `upper=inf`;
    LDP is `LiftSet.ldp(epsilon)`.
    """

    lower: float
    upper: float
    ratio: float = inf

    def __post_init__(self) -> None:
        if not 0 <= self.lower <= 1 <= self.upper or not self.ratio >= 1:
            raise ValueError(
                "A lift set needs 0 <= lower <= 1 <= upper and ratio >= 1. "
                f"Got lower={self.lower}, upper={self.upper}, ratio={self.ratio} instead."
            )

    @classmethod
    def lip(cls, epsilon: float, ldp_cap: float = inf) -> LiftSet:
        """Localized information privacy, optionally with its LDP level capped."""
        return cls(float(np.exp(-epsilon)), float(np.exp(epsilon)), float(np.exp(ldp_cap)))

    @classmethod
    def ldp(cls, epsilon: float) -> LiftSet:
        """Local differential privacy; the box is implied by the ratio."""
        return cls.lip(epsilon, epsilon)

    def tightened(self, share: float) -> LiftSet:
        """The same promise with every level times `share`, at most 1."""
        return LiftSet(self.lower**share, self.upper**share, self.ratio**share)

    @property
    def trivial(self) -> bool:
        """Whether the constant report (v = 1) is the only feasible one."""
        return self.lower == 1 or self.upper == 1 or self.ratio == 1

    @property
    def has_ratio(self) -> bool:
        """Whether the ratio cuts anything off the box."""
        return self.ratio * self.lower < self.upper and self.ratio < inf

    def smallest(self) -> tuple[float, float]:
        """Range of s such that every feasible v has s ≤ v ≤ s R for some s in the range."""
        return max(self.lower, 1 / self.ratio), min(1.0, self.upper / self.ratio)

    def limits(self, prior: Array) -> tuple[Array, Array]:
        """Tight range [low, high] of each value's lift.

        The rest of the prior bounds a value too: v(x) ≥ (1 - upper (1 - P)) / P, and likewise from above.
        Under a ratio the extreme is one value at s R and the rest at s, or the reverse.
        """
        rest = 1 - prior
        with np.errstate(invalid="ignore"):
            far = np.where(rest > 0, self.upper * rest, 0.0)
        low = np.maximum(self.lower, (1 - far) / prior)
        high = np.minimum(self.upper, (1 - self.lower * rest) / prior)
        if self.has_ratio:
            low = np.maximum(low, 1 / (prior + self.ratio * rest))
            high = np.minimum(high, self.ratio / (self.ratio * prior + rest))
        return np.minimum(low, 1.0), np.maximum(high, 1.0)


def best_lifts(prior: Array, lift_set: LiftSet, slopes: Array) -> Array:
    """Maximise slopes_i · v over the lift set, exactly, for every row i of `slopes`.

    Without a ratio this is a fractional knapsack: raise values in order of slope / P. With one, the
    optimum is a prefix of the same order at s R and the rest at s = 1 / (1 + (R-1) P(prefix)), or s sits at
    an end of its range and the knapsack of that box decides.
    """
    order = np.argsort(-slopes / prior, axis=1)
    if not lift_set.has_ratio:
        return knapsack(prior, *lift_set.limits(prior), order)
    s_min, s_max = lift_set.smallest()
    ratio = lift_set.ratio
    boxes = [LiftSet(s, s * ratio).limits(prior) for s in (s_min, s_max) if 1 / ratio < s < 1]
    choices = [_prefixes(prior, ratio, slopes, order, (s_min, s_max))]
    choices += [knapsack(prior, *box, order) for box in boxes]
    values = np.stack([np.einsum("ij,ij->i", slopes, v) for v in choices])
    return np.asarray(np.stack(choices)[np.argmax(values, axis=0), np.arange(len(slopes))])


def knapsack(prior: Array, low: Array, high: Array, order: NDArray[np.intp], total: Array | float = 1.0) -> Array:
    """Raise values from low to high in the given orders until Σ P v = total; one value ends in between.

    `low` and `high` are the same for all orders, or have a row for each.
    """

    def ordered(each: Array) -> Array:
        return each[order] if each.ndim == 1 else np.take_along_axis(each, order, axis=1)

    sorted_room = ordered(prior * (high - low))
    capacity = np.reshape(total - low @ prior, (-1, 1))
    before = np.cumsum(sorted_room, axis=1) - sorted_room
    left = np.minimum(capacity - before, sorted_room)
    # A difference at rounding level would otherwise leave a value a hair away from its bound.
    full = left >= sorted_room * (1 - 1e-13)
    part = ordered(low) + np.where(left > 1e-15, left, 0.0) / prior[order]
    out = np.empty(order.shape)
    np.put_along_axis(out, order, np.where(full, ordered(high), part), axis=1)
    return out


def exchanged(prior: Array, box: tuple[Array, Array], factor: Array, duals: Array, points: Array) -> Array:
    """Move each row u along the best edge, from one value to another, for |Fᵀu|² − μ·u, until no edge leads higher.

    Along t·(e_i/P_i − e_j/P_j) the square is convex in t, so it is best at the end of the edge: P·u stays the same, and
    u in the box.
    """
    size = max(1, _CELLS // len(prior) ** 2)
    parts = [points[k : k + size] for k in range(0, len(points), size)]
    return np.concatenate([_exchanged(prior, *box, factor, duals, part) for part in parts])


def _exchanged(prior: Array, low: Array, high: Array, factor: Array, duals: Array, points: Array) -> Array:
    kernel = factor @ factor.T / np.outer(prior, prior)
    bend = np.diag(kernel)[:, None] + np.diag(kernel) - 2 * kernel
    # The mass that each value can take and give.
    up, down = prior * (high - points), prior * (points - low)
    slopes = (2 * points @ factor @ factor.T - duals) / prior
    rows = np.arange(len(points))
    for _ in range(_MOST_EXCHANGES):
        step = np.minimum(up[rows, :, None], down[rows, None, :])
        here = slopes[rows]
        rise = (step * (here[:, :, None] - here[:, None, :] + step * bend)).reshape(len(rows), -1)
        best = np.argmax(rise, axis=1)
        each = np.arange(len(rows))
        better = rise[each, best] > 1e-12
        rows, best, moved = rows[better], best[better], step.reshape(len(each), -1)[each, best][better]
        if not len(rows):
            break
        i, j = np.divmod(best, len(prior))
        up[rows, i] -= moved
        down[rows, i] += moved
        up[rows, j] += moved
        down[rows, j] -= moved
        slopes[rows] += 2 * moved[:, None] * (kernel[i] - kernel[j])
    # From the nearer end, so that what lies at an end is there exactly.
    return np.asarray(np.clip(np.where(up < down, high - up / prior, low + down / prior), low, high))


def _prefixes(
    prior: Array, ratio: float, slopes: Array, order: NDArray[np.intp], s_range: tuple[float, float]
) -> Array:
    """Best pattern {s, s R} that raises a prefix of the order; v = 1 when no prefix is in range."""
    n = len(prior)
    mass = np.pad(np.cumsum(prior[order], axis=1), ((0, 0), (1, 0)))
    mass[:, -1] = 1.0
    gained = np.pad(np.cumsum(np.take_along_axis(slopes, order, axis=1), axis=1), ((0, 0), (1, 0)))
    s = 1 / (1 + (ratio - 1) * mass)
    value = s * (slopes.sum(axis=1, keepdims=True) + (ratio - 1) * gained)
    inside = (s >= s_range[0] * (1 - 1e-13)) & (s <= s_range[1] * (1 + 1e-13))
    value[~inside] = -inf
    best = np.argmax(value, axis=1)
    chosen = np.take_along_axis(s, best[:, None], axis=1)
    raised = np.empty(order.shape, dtype=bool)
    np.put_along_axis(raised, order, np.arange(n) < best[:, None], axis=1)
    out = np.where(raised, chosen * ratio, chosen)
    out[~inside.any(axis=1)] = 1.0
    return out


def all_vertices(prior: Array, lift_set: LiftSet) -> Array:
    """Every vertex of the lift set (some twice). Work grows as d 2^d; meant for d ≤ 14."""
    if not lift_set.has_ratio:
        return _box_vertices(prior, *lift_set.limits(prior))
    ratio = lift_set.ratio
    s_min, s_max = lift_set.smallest()
    raised = _subsets(len(prior))
    s = 1 / (1 + (ratio - 1) * (raised @ prior))
    inside = (s >= s_min * (1 - 1e-13)) & (s <= s_max * (1 + 1e-13))
    boxes = [LiftSet(end, end * ratio).limits(prior) for end in (s_min, s_max) if 1 / ratio < end < 1]
    flat = np.where(raised, ratio, 1.0)[inside] * s[inside, None]
    return np.concatenate([flat, *(_box_vertices(prior, *box) for box in boxes)])


def _subsets(n: int) -> NDArray[np.bool_]:
    return (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)


def _box_vertices(prior: Array, low: Array, high: Array) -> Array:
    """Vertices of low ≤ v ≤ high, P · v = 1: all but one coordinate at a bound."""
    n = len(prior)
    raised = _subsets(n - 1)
    found = []
    for free in range(n):
        others = np.delete(np.arange(n), free)
        v = np.empty((len(raised), n))
        v[:, others] = np.where(raised, high[others], low[others])
        v[:, free] = (1 - v[:, others] @ prior[others]) / prior[free]
        slack = 1e-12 * high[free]
        keep = (v[:, free] >= low[free] - slack) & (v[:, free] <= high[free] + slack)
        v = v[keep]
        v[:, free] = np.clip(v[:, free], low[free], high[free])
        found.append(v)
    return np.concatenate(found)


def largest(worth: Array, count: int) -> NDArray[np.intp]:
    """The places of the `count` largest entries, the largest first.

    >>> largest(np.array([3.0, 9.0, 5.0]), 2).tolist()
    [1, 2]
    """
    found = np.argpartition(-worth, count)[:count] if count < len(worth) else np.arange(len(worth))
    return np.asarray(found[np.argsort(-worth[found])])
