"""The gain of a channel for a task, and smaller problems with the same gain.

A task is a matrix g with one row per value. With the posterior mean as estimator, report y removes
|Σ_x P(x) (g(x) - E g) v_y(x)|² of the prior variance, so a channel removes

    Σ_y λ_y gain(v_y),    gain(v) = |Fᵀ (v - 1)|²,    F = diag(P) g.

Columns of F may be rotated freely. When the rows of F are orthogonal (histograms, weighted or partial) the
gain is separable, Σ_x w_x (v(x) - 1)² with w_x = |F_x|².
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.designs._program.lifts import Array


def normalised(g: Array) -> tuple[Array, float]:
    """The task to search with, and its unit: g = unit · rows + a constant for each column.

    Every error of g is unit² times that of the rows, and a constant changes none: P·(v − 1) = 0. So values far from
    zero, or of any size, have the same design as the same values in [−½, ½]. Columns with one entry at most are
    kept, because separable gains depend on their zeros.

    >>> rows, unit = normalised(np.array([[1940.0], [1960.0], [2000.0]]))
    >>> rows.ravel().round(3).tolist(), unit
    ([-0.5, -0.167, 0.5], 60.0)
    """
    g = np.asarray(g, dtype=float)
    if g.shape[1] > 1 and int(np.count_nonzero(g, axis=0).max(initial=0)) <= 1:
        unit = float(np.abs(g).max(initial=0.0)) or 1.0
        return g / unit, unit
    low, high = g.min(axis=0), g.max(axis=0)
    unit = float((high - low).max(initial=0.0)) or 1.0
    return (g - (low / 2 + high / 2)) / unit, unit


@dataclass(frozen=True, slots=True)
class Gain:
    """gain(v) = Σ_x weights_x (v_x - 1)² if `weights` is given, else |factorᵀ (v - 1)|²."""

    factor: Array
    weights: Array | None = None

    @classmethod
    def of(cls, prior: Array, g: Array) -> Gain:
        """Gain of task `g` (d, m) under `prior`; finds separable tasks and drops dependent columns."""
        g = np.asarray(g, dtype=float).reshape(len(prior), -1)
        if g.shape[1] > 1 and int(np.count_nonzero(g, axis=0).max(initial=0)) <= 1:
            return cls(np.empty((len(prior), 0)), prior**2 * (g**2).sum(axis=1))
        # Centring changes nothing in exact arithmetic (P · (v - 1) = 0) and keeps F at the size of the task.
        factor = prior[:, None] * (g - prior @ g)
        if factor.shape[1] > 1:
            left, scale, _ = np.linalg.svd(factor, full_matrices=False)
            keep = scale > 1e-13 * scale.max(initial=0.0)
            factor = left[:, keep] * scale[keep]
        return cls(factor)

    def __call__(self, lifts: Array) -> Array:
        """Gain of every row of `lifts`."""
        if self.weights is not None:
            return np.asarray((lifts - 1) ** 2 @ self.weights)
        return np.asarray((((lifts - 1) @ self.factor) ** 2).sum(axis=1))

    def slopes(self, lifts: Array) -> Array:
        """Gradient of the gain at every row of `lifts`."""
        if self.weights is not None:
            return np.asarray(2 * self.weights * (lifts - 1))
        return np.asarray(2 * (lifts - 1) @ self.factor @ self.factor.T)


@dataclass(frozen=True, slots=True)
class Merged:
    """A problem in which values of one group share a lift: `group[x]` is the group of value x.

    Restricting to shared lifts can only lose gain; it loses nothing when the grouped rows of g are equal.
    """

    group: NDArray[np.intp]
    prior: Array
    gain: Gain

    @classmethod
    def by(cls, group: NDArray[np.intp], prior: Array, gain: Gain) -> Merged:
        """Add up the prior and the rows of F over each group."""
        n = int(group.max()) + 1
        mass = _sums(group, prior, n)
        if gain.weights is not None:
            return cls(group, mass, Gain(np.empty((n, 0)), _sums(group, gain.weights, n)))
        factor = np.zeros((n, gain.factor.shape[1]))
        np.add.at(factor, group, gain.factor)
        return cls(group, mass, Gain(factor))

    def expand_duals(self, prior: Array, gain: Gain, duals: Array) -> list[Array]:
        """Duals of the ungrouped problem, in the ways worth trying; any vector gives a valid bound.

        Each group's dual is shared by prior mass. For a single column, μ / P is also interpolated between groups:
        at the optimum it is nearly a function of g.
        """
        ways = [np.asarray(duals[self.group] * prior / self.prior[self.group])]
        if gain.factor.shape[1] == 1 and len(prior) > len(self.prior):
            knot = self.gain.factor[:, 0] / self.prior
            order = np.argsort(knot)
            level = np.interp(gain.factor[:, 0] / prior, knot[order], (duals / self.prior)[order])
            ways.append(level * prior)
        return ways

    def merge_duals(self, duals: Array) -> Array:
        """Dual of a group that shares one lift."""
        return _sums(self.group, duals, len(self.prior))

    def merge_lifts(self, prior: Array, lifts: Array) -> Array:
        """Mean lift of each group, which is feasible because lift sets are convex."""
        share = np.zeros((len(prior), len(self.prior)))
        share[np.arange(len(prior)), self.group] = prior / self.prior[self.group]
        return np.asarray(lifts @ share)


def _sums(group: NDArray[np.intp], values: Array, n: int) -> Array:
    return np.bincount(group, values, n).astype(float)


def equal_rows(g: Array) -> NDArray[np.intp]:
    """Group of each value, values with equal rows of g together: one lift per group is enough.

    Replacing v by its prior-weighted mean over a group keeps Σ P v = 1, every bound on v, and Fᵀv.
    """
    if g.shape[1] == 1:
        return np.asarray(np.unique(g[:, 0], return_inverse=True)[1].reshape(-1), dtype=np.intp)
    # As bytes whose order is that of the numbers: hundreds of long rows are compared at once.
    bits = (g + 0.0).view(np.int64)
    rows = [row.tobytes() for row in np.where(bits < 0, ~bits, bits ^ np.iinfo(np.int64).min).astype(">i8")]
    place = {row: k for k, row in enumerate(sorted(set(rows)))}
    return np.array([place[row] for row in rows], dtype=np.intp)


def bundles(prior: Array, gain: Gain, count: int) -> NDArray[np.intp]:
    """Group of each value for an approximate problem with about `count` groups.

    A separable gain needs light bundles, so that sets of nearly any mass can be composed; any other gain needs bundles
    of values that are alike for the task.
    """
    if count >= len(prior):
        return np.arange(len(prior))
    return _bundles_by_task(prior, gain.factor, count) if gain.weights is None else _bundles_by_mass(prior, count)


def _bundles_by_task(prior: Array, factor: Array, count: int) -> NDArray[np.intp]:
    """Split the group with the largest variance of g within, at its mean, until there are `count` groups."""
    rows = factor / prior[:, None]
    group = np.zeros(len(prior), dtype=np.intp)
    heap: list[tuple[float, int, int, float]] = []

    def push(label: int) -> None:
        members = group == label
        share = prior[members] / prior[members].sum()
        mean = share @ rows[members]
        spread = share @ (rows[members] - mean) ** 2
        axis = int(np.argmax(spread))
        heapq.heappush(heap, (-float(spread.sum() * prior[members].sum()), label, axis, float(mean[axis])))

    push(0)
    for label in range(1, count):
        spread, split, axis, mean = heapq.heappop(heap)
        if spread == 0:
            break
        group[(group == split) & (rows[:, axis] > mean)] = label
        push(split)
        push(label)
    return group


def _bundles_by_mass(prior: Array, count: int) -> NDArray[np.intp]:
    order = np.argsort(-prior, kind="stable")
    group = np.empty(len(prior), dtype=np.intp)
    alone = count // 2
    group[order[:alone]] = np.arange(alone)
    tail = order[alone:]
    # Bundle masses fall geometrically from the size of the lightest lone value's multiple to single values.
    shares = np.geomspace(1.0, 1e-2, count - alone)
    edges = np.cumsum(shares / shares.sum()) * prior[tail].sum()
    middle = np.cumsum(prior[tail]) - prior[tail] / 2
    slot = np.minimum(np.searchsorted(edges, middle), count - alone - 1)
    _, dense = np.unique(slot, return_inverse=True)
    group[tail] = alone + dense
    return group
