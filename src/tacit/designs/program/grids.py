"""Upper bounds for separable gains by dynamic programming over prior mass on a grid.

Both maximise Σ_x [w_x (v_x-1)² - μ_x v_x] over vertices of a lift set. Masses are rounded down to grid steps, so
that the true mass of a set of k values is known within k steps; every value of the remainder that this leaves open is
allowed for, so rounding only raises the result.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from tacit.designs.program.deadline import Deadline
from tacit.designs.program.lifts import Array, LiftSet

_GRID_WORK = 2e8
#: So many knapsack tables at a time stay in the processor's cache.
_GRID_ROWS = 16


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
