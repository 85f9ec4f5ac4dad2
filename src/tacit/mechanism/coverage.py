"""Moments of the part of a segment that an arc covers, placed uniformly on a circle of cells. Closed forms."""

from __future__ import annotations

import numpy as np

from tacit.exact import Floats, Integers


def mean_square_coverage(length: Floats, arc: float, cells: int) -> Floats:
    """Return E[c²] of segments of `length` cells under an arc of `arc` cells placed uniformly on the circle.

    With n = `length`, L = `arc`, f its fractional part and M = `cells`, M n² E[c²] is the sum over pairs of
    cells of the number of arcs that cover both, R(k) = L - k for cells k ≥ 1 apart, R(0) = L - f + f²:

        n R(0) + 2 Σ_{k=1}^{min(n-1, L)} (n-k)(L-k) + 2 Σ_{k≥1} k (L-M+n-k)+       (the last: around the circle)

    which is n² L - n(n²-1)/3 - n f(1-f) when the segment fits inside and outside the arc.
    """
    whole = np.floor(arc)
    near = np.minimum(length - 1.0, whole)
    around = np.maximum(whole - cells + length, 0.0)
    pairs = near * length * arc - (length + arc) * near * (near + 1) / 2 + near * (near + 1) * (2 * near + 1) / 6
    wrapped = (arc - cells + length) * around * (around + 1) / 2 - around * (around + 1) * (2 * around + 1) / 6
    square: Floats = (length * (whole + (arc - whole) ** 2) + 2 * pairs + 2 * wrapped) / (cells * length * length)
    return square


def mean_square_under_arcs(length: Floats, arcs: Integers, chances: Floats, cells: int) -> Floats:
    """E[c²] of segments of `length` cells, if an arc is one of `arcs` with `chances` and placed uniformly.

    With n = `length`, L an arc and M = `cells`, M n² E[c²] is n²L − n(n²−1)/3 for L ≥ n, nL² − L(L²−1)/3 for L < n, and
    (a³ − a)/3 more for a = L + n − M > 0 (`mean_square_coverage`). All arcs at once, from running sums of powers.

    >>> found = mean_square_under_arcs(np.array([1.0, 3.0]), np.array([2, 6]), np.array([0.5, 0.5]), 7)
    >>> bool(np.allclose(found, sum(mean_square_coverage(np.array([1.0, 3.0]), arc, 7) for arc in (2.0, 6.0)) / 2))
    True
    """
    # In units of the circle, so that cubes do not lose what is small.
    rising = np.argsort(arcs, kind="stable")
    arc, n, cell = arcs[rising] / cells, length / cells, 1 / cells
    powers = np.cumsum(np.append(np.zeros((4, 1)), chances[rising] * arc ** np.arange(4)[:, None], axis=1), axis=1)
    shorter, around = (powers[:, np.searchsorted(arc, at, side="left")] for at in (n, 1 - n))
    longer, wrapped = powers[:, -1:] - shorter, powers[:, -1:] - around
    inside = n * longer[1] - longer[0] * (n**2 - cell**2) / 3
    outside = shorter[2] - (shorter[3] - cell**2 * shorter[1]) / (3 * n)
    off = n - 1
    cubes = wrapped[3] + 3 * off * wrapped[2] + 3 * off**2 * wrapped[1] + off**3 * wrapped[0]
    square: Floats = (inside + outside + (cubes - cell**2 * (wrapped[1] + off * wrapped[0])) / (3 * n)) / n
    return square


def third_central_moment(cells: Integers, arc: int, circle: int) -> Floats:
    """E(c − m)³ of the coverage of `cells` = n cells in one piece by an arc of L = `arc` out of M = `circle` cells.

    While the arc turns, c rises and falls evenly, by 1/n, between lo = max(0, n+L−M)/n and hi = min(n, L)/n; it stays
    at hi for |n − L| + 1 positions and at lo for |M − n − L| + 1. With both less m, by Euler and Maclaurin,

        M E(c − m)³ = |n − L| hi³ + |M − n − L| lo³ + n(hi⁴ − lo⁴)/2 + (hi² − lo²)/2n.

    >>> third_central_moment(np.array([1, 2]), 1, 4).tolist()
    [0.09375, 0.0]
    """
    n, m = cells.astype(np.float64), arc / circle
    low, high = np.maximum(0.0, n + arc - circle) / n - m, np.minimum(n, arc) / n - m
    stays = np.abs(n - arc) * high**3 + np.abs(circle - n - arc) * low**3
    moment: Floats = (stays + n * (high**4 - low**4) / 2 + (high**2 - low**2) / (2 * n)) / circle
    return moment
