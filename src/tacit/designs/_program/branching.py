"""Branch and bound for the largest |Fᵀu|² − μ·u over lifts, u = v − 1: a proof for tasks of many columns.

The u of all lifts of one prior are a box a ≤ u ≤ b with P·u = 0. A convex function is largest at a vertex, where all
coordinates but one are at an end. So a node holds some coordinates at their ends, and perhaps one that is in between;
the others are free. Let K = FFᵀ, and D a diagonal, not negative, with Σ D_x u_x² ≥ uᵀKu for all u of the free
coordinates with P·u = 0. In the box u_x² ≤ (a_x + b_x) u_x − a_x b_x, with equality at the ends, so that

    uᵀKu − μ·u  ≤  q(u) = uᵀ(K − D)u + Σ_x D_x ((a_x + b_x) u_x − a_x b_x) − μ·u,

which is concave, and below its tangent at any point w: the largest value of the tangent is a fractional knapsack, and
bounds the node. Steps of Frank and Wolfe look for the best w. What is held leaves P·u = 0 little room for the rest: in
each node a and b are as tight as it makes them, and a cell that cannot get all the way to one end is between or at the
other. That counts most where a few cells are likely and many are rare. All nodes of one depth have the same free
coordinates (but for the one in between), share a D that is made for them, and are worked on together. With fewer free
coordinates D becomes smaller: depth by depth most nodes fall below what is to be proved.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from tacit.designs._program.deadline import Deadline
from tacit.designs._program.lifts import Array, LiftSet, exchanged, knapsack, largest

#: At most this many values are branched on, with this many nodes of one depth.
MOST_BRANCHED, _MOST_NODES = 40, 700_000
#: Of nodes that are left this many are handed out.
_LEADS = 512
#: Steps for one node, and the share of the bound that is allowed for: more where nodes are too many.
_STEPS, _TIGHT, _LOOSE = 24, 4e-3, 2e-2
#: Operations of one step for each value, of one Newton step for its cube, and for moving a node.
_SORTED, _CUBED = 60, 2.0
#: How often the ends of a node's coordinates are moved, and what is left for rounding.
_TIGHTENED, _SLACK = 2, 1e-12
#: From this many directions a good lift is sought first.
_CLIMBS = 512


def branched(prior: Array, factor: Array, duals: Array, lift_set: LiftSet, deadline: Deadline) -> tuple[float, Array]:
    """An upper bound of |Fᵀ(v−1)|² − μ·v over all lifts, and where lifts near to it may be found.

    The bound is the largest value to a share of _TIGHT, or less sharp after the deadline or with too many nodes: then
    the target rises, and nodes that are bounded by it are left out.
    """
    low, high = lift_set.limits(prior)
    problem = _Problem(prior, factor - np.outer(prior, factor.sum(axis=0)), duals, low - 1, high - 1, deadline)
    reached, tight = problem.reached(), _TIGHT
    size = abs(reached + float(duals.sum()))
    target = reached + tight * size
    rest, parts = np.arange(len(prior)), {-1: _Part(np.zeros((1, len(prior))), np.array([inf]))}
    weights: dict[int, Array] = {-1: problem.first_weights()}
    worst = inf
    while True:
        spread, above = np.zeros(len(prior)), -inf
        for between, part in parts.items():
            free = rest if between < 0 else np.append(rest, between)
            box = problem.box(free, part, between)
            if not len(part.bounds):
                continue
            points = np.clip(part.points[:, free], *box)
            loss = ((points - box[0]) * (box[1] - points)).mean(axis=0)
            weights[between] = problem.weights(free, loss, weights[between if between in weights else -1])
            spread[free] += problem.bound(free, part, box, weights[between], target)
            above = max(above, float(part.bounds.max(initial=-inf)))
            if deadline.passed and worst < inf:
                return max(worst, target), 1 + part.points[largest(part.bounds, _LEADS)]
        worst = above
        if worst == -inf:
            return target, np.empty((0, len(prior)))
        while tight < _LOOSE and sum(len(part.bounds) for part in parts.values()) > _MOST_NODES:
            tight *= 1.3
            target = reached + tight * size
            for part in parts.values():
                part.keep(part.bounds > target)
        if not len(rest) or sum(len(part.bounds) for part in parts.values()) > _MOST_NODES:
            points = np.concatenate([part.points for part in parts.values()])
            bounds = np.concatenate([part.bounds for part in parts.values()])
            return max(worst, target), 1 + points[largest(bounds, _LEADS)]
        # Where the chords of all nodes together lose most.
        split = int(rest[np.argmax(spread[rest])])
        rest, parts = rest[rest != split], problem.split(parts, split)


@dataclass
class _Part:
    """Nodes with the same free coordinates: a point of each, what is held included, and a bound of each."""

    points: Array
    bounds: Array

    def keep(self, which: NDArray[np.bool_]) -> None:
        self.points, self.bounds = self.points[which], self.bounds[which]


class _Problem:
    """|Fᵀu|² − μ·u over low ≤ u ≤ high, P·u = 0; the constant −Σμ is added to all bounds."""

    def __init__(self, prior: Array, factor: Array, duals: Array, low: Array, high: Array, deadline: Deadline) -> None:
        self.deadline, self.prior, self.duals, self.low, self.high = deadline, prior, duals, low, high
        self.factor, self.kernel = factor, factor @ factor.T
        self.shift = -float(duals.sum())

    def reached(self) -> float:
        """The value of a good lift: each step leads to the best one for the square linearised at the last one."""
        u = np.random.default_rng(0).normal(size=(_CLIMBS, len(self.prior))) * self.high
        for _ in range(12):
            slopes = 2 * u @ self.kernel - self.duals
            u = knapsack(self.prior, self.low, self.high, np.argsort(-slopes / self.prior, axis=1), 0.0)
        u = exchanged(self.prior, (self.low, self.high), self.factor, self.duals, u)
        return float((((u @ self.factor) ** 2).sum(axis=1) - u @ self.duals).max()) + self.shift

    def first_weights(self) -> Array:
        """A multiple of the prior or of 1 that dominates K on P·u = 0."""
        root = np.sqrt(self.prior)
        direction = root / np.linalg.norm(root)
        project = np.eye(len(root)) - np.outer(direction, direction)
        most = np.linalg.eigvalsh(project @ (self.kernel / np.outer(root, root)) @ project)[-1]
        return np.asarray(max(most, 1e-12) * 1.1 * self.prior)

    def box(self, free: NDArray[np.intp], part: _Part, between: int) -> tuple[Array, Array]:
        """The ends of the free coordinates in each node, as far as P·u = 0 leaves them; nodes it rules out are dropped.

        A coordinate that has no room for its whole way to an end is in between or at the other end; where another one
        is in between, it is at the other end.
        """
        held, prior = np.setdiff1d(np.arange(len(self.prior)), free), self.prior[free]
        self.deadline.spend(len(part.points) * len(free) * _SORTED / 2)
        total = (-part.points[:, held] @ self.prior[held])[:, None]
        low, high = np.tile(self.low[free], (len(total), 1)), np.tile(self.high[free], (len(total), 1))
        at_end = (free != between) & (between >= 0)
        for _ in range(_TIGHTENED):
            spare = np.maximum(total - (low @ prior)[:, None], 0.0) + _SLACK
            over = prior * (high - low) > spare + _SLACK
            high = np.where(over, np.where(at_end, low, low + spare / prior), high)
            spare = np.maximum((high @ prior)[:, None] - total, 0.0) + _SLACK
            over = prior * (high - low) > spare + _SLACK
            low = np.where(over, np.where(at_end, high, high - spare / prior), low)
        most = 2 * len(self.prior) * _SLACK
        possible = (low @ prior < total[:, 0] + most) & (high @ prior > total[:, 0] - most)
        part.keep(possible)
        return low[possible], high[possible]

    def weights(self, free: NDArray[np.intp], loss: Array, start: Array) -> Array:
        """D with the least loss·D, the mean of Σ_x D_x (u_x − a_x)(b_x − u_x) over nodes, from one that is feasible.

        Newton's method for loss·D − τ log det(Zᵀ(D − K)Z), Z a basis of P·u = 0; each step stays feasible.
        """
        out = start.copy()
        if len(free) < 2:
            # P·u is given, so u is: nothing has to be dominated.
            out[free] = 0.0
            return out
        loss = np.maximum(loss, 1e-3 * loss.max()) + 1e-15
        basis = np.linalg.svd(self.prior[free][None])[2][1:].T
        kernel = basis.T @ self.kernel[np.ix_(free, free)] @ basis
        d = start[free] * (1 + 1e-3)
        tau = 0.1 * float(loss @ d) / len(d)
        for _ in range(30):
            self.deadline.spend(_CUBED * len(free) ** 3 + 1e5)
            inverse = basis @ np.linalg.solve((basis.T * d) @ basis - kernel, basis.T)
            slope, curve = loss - tau * np.diag(inverse), tau * inverse**2
            step = -np.linalg.solve(curve + 1e-12 * np.trace(curve) * np.eye(len(d)), slope)
            off = float(np.sqrt(max(float(-slope @ step) / tau, 0.0)))
            size = 1.0 if off < 0.25 else 1 / (1 + off)
            while size > 1e-4 and not _dominates(d + size * step, basis, kernel):
                size /= 2
            if size <= 1e-4:
                break
            d = d + size * step
            if off < 0.5:
                if tau * len(d) < 0.03 * float(loss @ d):
                    break
                tau *= 0.2
        out[free] = d
        return out

    def bound(
        self, free: NDArray[np.intp], part: _Part, box: tuple[Array, Array], weights: Array, target: float
    ) -> Array:
        """Lower the bounds of nodes by Frank and Wolfe's steps, until they are below the target or cannot be.

        Those above it are kept. Returned is what the chords of each free coordinate lose in all of them.
        """
        held = np.setdiff1d(np.arange(len(self.prior)), free)
        prior, (low, high) = self.prior[free], box
        d = weights[free] * (1 + 1e-10)
        curve = self.kernel[np.ix_(free, free)] - np.diag(d)
        fixed = part.points[:, held]
        total = np.clip(-fixed @ self.prior[held], low @ prior, high @ prior)
        slope = 2 * fixed @ self.kernel[np.ix_(held, free)] - self.duals[free] + d * (low + high)
        rest = ((fixed @ self.factor[held]) ** 2).sum(axis=1) - fixed @ self.duals[held] - (low * high) @ d + self.shift
        points = _moved(np.clip(part.points[:, free], low, high), prior, low, high, total)
        left = np.arange(len(points))
        for _ in range(_STEPS):
            if not len(left):
                break
            self.deadline.spend(len(left) * len(free) * (_SORTED + len(free) / 4))
            w = points[left]
            bent = w @ curve
            value = (w * (bent + slope[left])).sum(axis=1) + rest[left]
            uphill = 2 * bent + slope[left]
            order = np.argsort(-uphill / prior, axis=1)
            step = knapsack(prior, low[left], high[left], order, total[left]) - w
            rise = np.maximum((uphill * step).sum(axis=1), 0.0)
            part.bounds[left] = np.minimum(part.bounds[left], value + rise)
            bend = -2 * ((step @ curve) * step).sum(axis=1)
            points[left] = w + np.clip(rise / np.maximum(bend, 1e-300), 0.0, 1.0)[:, None] * step
            left = left[(part.bounds[left] > target) & (value <= target)]
        part.points[:, free] = points
        above = part.bounds > target
        part.keep(above)
        return np.asarray(d * ((points - low) * (high - points))[above].sum(axis=0))

    def split(self, parts: dict[int, _Part], split: int) -> dict[int, _Part]:
        """Each node with the coordinate at its lower end, at its upper end, and, if no other one is, in between."""
        children: dict[int, list[_Part]] = {}
        for between, part in parts.items():
            for end in (self.low[split], self.high[split]):
                points = part.points.copy()
                points[:, split] = end
                children.setdefault(between, []).append(_Part(points, part.bounds.copy()))
            if between < 0:
                children[split] = [_Part(part.points.copy(), part.bounds.copy())]
        return {
            between: _Part(np.concatenate([one.points for one in each]), np.concatenate([one.bounds for one in each]))
            for between, each in children.items()
            if any(len(one.bounds) for one in each)
        }


def _dominates(d: Array, basis: Array, kernel: Array) -> bool:
    """Whether D is positive, and D − K positive definite on the basis."""
    if d.min() <= 0:
        return False
    try:
        np.linalg.cholesky((basis.T * d) @ basis - kernel)
    except np.linalg.LinAlgError:
        return False
    return True


def _moved(points: Array, prior: Array, low: Array, high: Array, total: Array) -> Array:
    """The points moved towards an end of the box until P·u = total."""
    now = points @ prior
    end = np.where((total > now)[:, None], high, low)
    share = (total - now) / np.where(total == now, 1.0, end @ prior - now)
    return np.asarray(points + np.clip(share, 0.0, 1.0)[:, None] * (end - points))
