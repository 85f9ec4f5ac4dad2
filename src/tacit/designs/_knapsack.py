"""Pricing for the core's column generation: the best coverage vector at given prices.

    maximise  Σ_x p_x² c_x² - μ_x c_x   subject to  0 ≤ c ≤ 1,  h - T ≤ p.c ≤ h

The objective is convex, so a vertex is best: every coordinate is 0 or 1 but for at most one, f, and if there is one
the mass p.c is at an end t of its window, so c_f = (t - m)/p_f with m the mass of the values at 1.  For a choice of f
the rest is a knapsack.  Its continuous relaxation takes values in decreasing order of (p² - μ)/p; the relaxed worth
G(m) is linear between prefixes of that order, so G(m) plus the convex term of f peaks at a prefix, which is a vertex,
or at an end of the window, where one value is split: that value is branched on.

where: `prior` = p, `price` = μ, `tail` = T, `share` = h.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tacit.exact import Floats

NO_SPLIT = -1


@dataclass(frozen=True)
class _Relaxed:
    """The relaxation of one node: its bound, the value to branch on (or `NO_SPLIT`), and its best vertex."""

    bound: float
    branch: int
    vertex_value: float
    vertex: Floats


@dataclass(frozen=True)
class Knapsack:
    """One pricing problem; see the module's docstring for the program and its symbols."""

    prior: Floats
    price: Floats
    tail: float
    share: float

    def chord_bound(self, low: Floats, high: Floats) -> float:
        """Return an upper bound in one sort, given that every vector has low ≤ c ≤ high.

        c² ≤ (low+high)c - low*high makes the program linear: a fractional knapsack, filled up to h, but no further
        than h - T once the worth turns negative.
        """
        square = self.prior * self.prior
        worth = square * (low + high) - self.price
        order = np.argsort(-worth / self.prior, kind="stable")
        room = (self.prior * (high - low))[order]
        density = (worth / self.prior)[order]
        before = np.cumsum(room) - room + float(self.prior @ low)
        limit = np.where(density > 0.0, self.share, self.share - self.tail)
        filled = float((np.clip(limit - before, 0.0, room) * density).sum())
        return float(worth @ low - square @ (low * high)) + filled

    def greedy(self) -> Floats:
        """Return one vector per value light enough to fit: it is forced in, then others in order while they fit.

        Values of negative worth, and parts of a value, are taken only while the tail could not fill the report.
        """
        light = np.flatnonzero(self.prior <= self.share)
        light = light[np.argsort(-(self.prior - self.price / self.prior)[light], kind="stable")]
        chosen = np.zeros((len(light) + 1, len(self.prior)))
        chosen[np.arange(len(light)), light] = 1.0
        mass = chosen @ self.prior
        for row, value in enumerate(light):
            room = np.maximum(self.share - mass, 0.0) / self.prior[value]
            short = mass < self.share - self.tail
            worthy = self.prior[value] ** 2 > self.price[value]
            take = np.where(short, np.minimum(1.0, room), (room >= 1.0) & worthy)
            take[row] = 0.0
            chosen[:, value] += take
            mass += take * self.prior[value]
        return chosen

    def search(self, nodes: int) -> tuple[float, Floats]:
        """Return an upper bound and the vertices met, by best-first branch and bound over at most `nodes` nodes.

        The bound is exact when the search finishes; otherwise it is the best bound still open, which is valid too.
        """
        free = np.full(len(self.prior), -1, np.int8)
        roots = [self._relax(free, split) for split in range(NO_SPLIT, len(self.prior))]
        heap = [(-root.bound, at, at - 1, free, root) for at, root in enumerate(roots)]
        heapq.heapify(heap)
        best, met, count = -np.inf, [], len(heap)
        while heap and -heap[0][0] > best:
            _, _, split, fixed, node = heapq.heappop(heap)
            best = max(best, node.vertex_value)
            if np.isfinite(node.vertex_value):
                met.append(node.vertex)
            if node.branch == NO_SPLIT or node.bound <= best:
                continue
            if count >= nodes:
                best = max(best, node.bound)
                break
            for side in (0, 1):
                child = fixed.copy()
                child[node.branch] = side
                relaxed = self._relax(child, split)
                count += 1
                heapq.heappush(heap, (-relaxed.bound, count, split, child, relaxed))
        return best, np.array(met).reshape(-1, len(self.prior))

    def _relax(self, fixed: npt.NDArray[np.int8], split: int) -> _Relaxed:
        """Relax the node with `fixed` values at 0 or 1 (-1: free) and `split` the one value allowed a part."""
        inside = (fixed == 1).astype(np.float64)
        base = float(self.prior @ inside)
        worth = self.prior * self.prior - self.price
        free = np.flatnonzero((fixed < 0) & (self.prior <= self.share - base))
        free = free[free != split]
        free = free[np.argsort(-(worth / self.prior)[free], kind="stable")]
        mass = base + np.append(0.0, np.cumsum(self.prior[free]))
        total = float(worth @ inside) + np.append(0.0, np.cumsum(worth[free]))
        best = _Relaxed(-np.inf, NO_SPLIT, -np.inf, inside)
        for low, high in self._windows(split):
            ends = np.clip([low, high], mass[0], mass[-1])
            points = np.append(mass, ends)
            part = (high - points) / self.prior[split] if split != NO_SPLIT else np.zeros(len(points))
            values = np.interp(points, mass, total)
            values += self.prior[split] ** 2 * part**2 - self.price[split] * part
            values[(points < low - 1e-15) | (points > high + 1e-15)] = -np.inf
            top, whole = int(np.argmax(values)), int(np.argmax(values[: len(mass)]))
            if values[top] > best.bound:
                cut = int(np.searchsorted(mass, points[top], side="left")) - 1
                branch = NO_SPLIT if top < len(mass) else int(free[cut])
                best = replace(best, bound=float(values[top]), branch=branch)
            if values[whole] > best.vertex_value:
                vertex = inside.copy()
                vertex[free[:whole]] = 1.0
                vertex[split] = part[whole] if split != NO_SPLIT else vertex[split]
                best = replace(best, vertex_value=float(values[whole]), vertex=vertex)
        return best

    def _windows(self, split: int) -> list[tuple[float, float]]:
        """Return the intervals that the mass of the values at 1 may lie in; with a part, one for each end t."""
        least = max(self.share - self.tail, 0.0)
        if split == NO_SPLIT:
            return [(least, self.share)]
        return [(max(end - float(self.prior[split]), 0.0), end) for end in (self.share, least)]
