"""The lifts that keep ε-LIP under every prior of a set, in floats: the polytope, its vertices, its boundary.

With U a set of priors around P (the nominal one), E = e^ε and lifts normalised by P·v = 1, the allowed lifts are

    V(U) = { v : P·v = 1,  v_x ≤ E · min_U P'·v  and  max_U P'·v ≤ E · v_x  for every x }

**Vertices for balls and boxes.** Sort v. The member of U with the least P'·v then depends on the order alone (the
greedy rule), so with v = m + Σ_k a_k 1{S_k}, where S_1 ⊂ S_2 ⊂ … are the sets of largest entries and m, a_k ≥ 0,

    min_U P'·v = m + Σ_k a_k l(S_k),    max_U P'·v = m + Σ_k a_k u(S_k),    l(S) = min_U P'(S),  u(S) = max_U P'(S).

So the lifts of one order form a polytope with one equation and two inequalities besides m, a ≥ 0. At its vertices at
most two of the a_k are positive: v takes two levels, on a set S, with the stricter inequality tight; or three, on
nested sets S ⊂ T, with both tight:

    v = m + a 1{T} + b 1{S},   a : b = k(S) : −k(T),   k(S) = 1 − E l(S) − u(S),   so that k(S) > 0 > k(T).

All vertices of V(U) are among them: at most 3^d, and no solver is needed. U = {P} gives the vertices of LIP, the whole
simplex (l = 0, u = 1, k = 0) the patterns {1, E} of LDP.

**The best for a slope.** Of one order there are d²/2 of them, and for a ball the best v for slope·v is found in the
order of slope/P. Proof: P·v, the extremes over U and the range of v depend on nothing but the distribution of v under
P. Let values be divisible; v rearranged in the order of slope/P has the same distribution and no smaller slope·v, and
averaging it over each value changes neither P·v nor slope·v and narrows the rest. ∎ For a box it is a good guess.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.designs._program.lifts import Array, LiftSet, all_vertices
from tacit.prior.sets import Ball, Box, Hull, PriorSet

#: The vertices of a hull are listed while 2^d · members² is at most this: some seconds of qhull.
_QHULL_LIMIT = 40_000
#: This many lifts are worked on at a time.
_ROWS = 4096


@dataclass(frozen=True)
class RobustLifts:
    """The polytope V(U) of one set over values that are all possible, and the boundary that every ray meets."""

    prior_set: PriorSet
    epsilon: float

    @cached_property
    def prior(self) -> Array:
        """P, the nominal prior."""
        return self.prior_set.prior.probabilities

    @property
    def _e(self) -> float:
        return float(np.exp(self.epsilon))

    @cached_property
    def members(self) -> Array:
        """The nominal prior and the candidates of a hull, as rows."""
        if not isinstance(self.prior_set, Hull):
            raise TypeError(f"Only a hull has candidates. Got a {self.prior_set.kind} instead.")
        return np.array([one.probabilities for one in (self.prior_set.prior, *self.prior_set.candidates)])

    def _least(self, columns: Array, order: NDArray[np.intp]) -> Array:
        """min_U P'·w for every row w, which `order` has sorted, by the greedy rule for a ball or a box."""
        if isinstance(self.prior_set, Ball):
            radius, mass = float(self.prior_set.radius), self.prior[order]
            # Mass beyond the first 1 − τ, in the order of w, moves to the least w.
            kept = np.clip(1 - radius - (np.cumsum(mass, axis=1) - mass), 0.0, mass)
            return np.asarray((kept * columns).sum(axis=1) + radius * columns[:, 0])
        low, high = self._ends
        room = (high - low)[order]
        filled = low[order] + np.clip(1 - low.sum() - (np.cumsum(room, axis=1) - room), 0.0, room)
        return np.asarray((filled * columns).sum(axis=1))

    def gauge(self, directions: Array) -> Array:
        """How much of each ray 1 + s·u lies in the polytope: s ≤ 1/gauge. The order of v is the same along a ray."""
        # There may be hundreds of thousands: some at a time stay in the processor's cache.
        parts = [self._gauge(directions[k : k + _ROWS]) for k in range(0, len(directions), _ROWS)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _gauge(self, directions: Array) -> Array:
        if isinstance(self.prior_set, Hull):
            means = directions @ self.members.T
            least, most = means.min(axis=1), means.max(axis=1)
        else:
            order = np.argsort(directions, axis=1)
            columns = np.take_along_axis(directions, order, axis=1)
            least = self._least(columns, order)
            most = -self._least(-columns[:, ::-1], order[:, ::-1])
        up, down = directions.max(axis=1) - self._e * least, most - self._e * directions.min(axis=1)
        return np.asarray(np.maximum(up, down) / np.expm1(self.epsilon))

    def stretched(self, columns: Array) -> Array:
        """Each column moved along the ray from 1 through it to the boundary; constant ones are dropped."""
        directions = columns / (columns @ self.prior)[:, None] - 1
        gauge = self.gauge(directions)
        seen = gauge > 1e-12
        return np.asarray(1 + directions[seen] / gauge[seen, None])

    @cached_property
    def vertices(self) -> Array | None:
        """Every vertex and some other lifts of the polytope, or None if they cannot be listed."""
        if isinstance(self.prior_set, Hull):
            few = 2 ** len(self.prior) * len(self.members) ** 2 <= _QHULL_LIMIT
            return self._hull_vertices() if few else None
        return self._nested()

    @cached_property
    def pairs(self) -> tuple[Array, Array]:
        """Two-level lifts on each value alone and on all others, with weights that make a channel of full rank."""
        n = len(self.prior)
        single = np.eye(n) - self.prior[:, None]
        rise, fall = 1 / self.gauge(single), 1 / self.gauge(-single)
        lifts = np.concatenate([1 + rise[:, None] * single, 1 - fall[:, None] * single])
        return lifts, np.concatenate([fall, rise]) / np.tile(n * (rise + fall), 2)

    def candidates(self) -> Array:
        """Lifts on the boundary that are good starting points where vertices cannot be listed.

        The vertices of the box and of the ball around a hull, and of LIP, each stretched until it meets the boundary.
        """
        low, high = _hull_ends(self.prior_set)
        around: list[PriorSet] = [
            Ball(self.prior_set.prior, self.prior_set.radius),
            Box(self.prior_set.prior, low, high),
        ]
        found = [RobustLifts(one, self.epsilon)._nested() for one in around]
        found.append(all_vertices(self.prior, LiftSet.lip(self.epsilon)))
        return np.unique(np.round(self.stretched(np.concatenate(found)), 13), axis=0)

    # -- sets of values -------------------------------------------------------------------------------------------

    @cached_property
    def _ends(self) -> tuple[Array, Array]:
        assert isinstance(self.prior_set, Box)
        return np.array(self.prior_set.low, dtype=float), np.array(self.prior_set.high, dtype=float)

    def _capacities(self, sums: Callable[[Array], Array]) -> tuple[Array, Array, NDArray[np.bool_]]:
        """l(S) and u(S) for some sets, and for each whether the bound that every prior obeys is what binds.

        `sums` adds up what values have over each of the sets.
        """
        if isinstance(self.prior_set, Ball):
            mass, radius = sums(self.prior), float(self.prior_set.radius)
            ends = mass - radius, np.zeros(mass.shape), mass + radius, np.ones(mass.shape)
        else:
            low, high = self._ends
            ends = sums(low), 1 - (high.sum() - sums(high)), sums(high), 1 - (low.sum() - sums(low))
        return (
            np.maximum(ends[0], ends[1]),
            np.minimum(ends[2], ends[3]),
            np.stack([ends[0] < ends[1], ends[2] > ends[3]], axis=-1),
        )

    def _nested(self) -> Array:
        """The two-level and three-level lifts of the module's proof, for a ball or a box."""
        n, e = len(self.prior), self._e
        numbers = np.arange(1, 2**n - 1)
        sets = (numbers[:, None] >> np.arange(n) & 1).astype(bool)
        mass = sets @ self.prior
        low, high, branch = self._capacities(lambda of_values: sets @ of_values)
        flat = self._one_step(mass, low, high)
        centred = sets - mass[:, None]
        found = [1 + flat[:, None] * centred]
        k = 1 - e * low - high
        inner, outer = np.flatnonzero(k > 0), np.flatnonzero(k < 0)
        # Where the extreme members have one density on all of T∖S, for any order there, three equations are tight
        # (both inequalities and P·v = 1) for 2 + |T∖S| unknowns, so more than one value between leaves room to move.
        size = sets.sum(axis=1)
        for s in inner:
            t = outer[(numbers[outer] & numbers[s]) == numbers[s]]
            t = t[(size[t] == size[s] + 1) | (branch[t] != branch[s]).any(axis=1)]
            a, b = self._two_steps((k[s], mass[s], high[s]), (k[t], mass[t], high[t]))
            three = a[:, None] * centred[t]
            three += 1
            three += b[:, None] * centred[s]
            found.append(three)
        lifts = np.concatenate(found)
        # What rounding left outside by a unit in the last place is brought back.
        lifts -= 1
        lifts /= np.maximum(self.gauge(lifts), 1.0)[:, None]
        lifts += 1
        return lifts

    def _one_step(self, mass: Array, low: Array, high: Array) -> Array:
        """a of v = m + a 1{S} with the stricter inequality tight, for P(S), l(S) and u(S)."""
        up = np.expm1(self.epsilon)
        return np.asarray(up / (up * mass + np.maximum(1 - self._e * low, high)))

    def _two_steps(self, inner: tuple[Any, ...], outer: tuple[Any, ...]) -> tuple[Array, Array]:
        """a and b of v = m + a 1{T} + b 1{S} with both tight; for S, `inner`, and T are given k, P and u."""
        up, (k_s, mass_s, high_s), (k_t, mass_t, high_t) = np.expm1(self.epsilon), inner, outer
        scale = up / (k_s * (high_t + up * mass_t) - k_t * (high_s + up * mass_s))
        return scale * k_s, -scale * k_t

    def best_nested(self, slopes: Array) -> Array:
        """For every row of `slopes` the lift with the largest slope·v: in V(U), for a ball; for a box, of those in
        the order of slope/P.
        """
        rows, n = slopes.shape
        order = np.argsort(-slopes / self.prior, axis=1)
        rank = np.argsort(order, axis=1)
        mass = np.cumsum(self.prior[order], axis=1)[:, :-1]
        low, high, _ = self._capacities(lambda of_values: np.cumsum(of_values[order], axis=1)[:, :-1])
        # What raising the values of a set by one, and all by less, adds to slope·v.
        worth = np.cumsum(np.take_along_axis(slopes, order, axis=1), axis=1)
        worth = worth[:, :-1] - mass * worth[:, -1:]
        flat, k = self._one_step(mass, low, high), 1 - self._e * low - high
        inner, outer = np.where(k > 0, k, np.nan)[:, :, None], np.where(k < 0, k, np.nan)[:, None, :]
        a, b = self._two_steps((inner, mass[:, :, None], high[:, :, None]), (outer, mass[:, None, :], high[:, None, :]))
        three = np.nan_to_num(a * worth[:, None, :] + b * worth[:, :, None], nan=-np.inf).reshape(rows, -1)
        each, two, best = np.arange(rows), np.argmax(flat * worth, axis=1), np.argmax(three, axis=1)
        s, t = np.divmod(best, n - 1)

        def raised(last: NDArray[np.intp], step: Array) -> Array:
            return np.asarray(step[:, None] * ((rank <= last[:, None]) - mass[each, last, None]))

        better = three[each, best] > (flat * worth)[each, two]
        higher = raised(s, b[each, s, t]) + raised(t, a[each, s, t])
        return 1 + np.where(better[:, None], higher, raised(two, flat[each, two]))

    def _hull_vertices(self) -> Array | None:
        """Vertices from the facets of a hull, 2·d for each candidate, by qhull; None if it gives up."""
        from scipy.spatial import HalfspaceIntersection, QhullError

        n, e = len(self.prior), self._e
        rows = [np.eye(n) - e * one for one in self.members] + [one - e * np.eye(n) for one in self.members]
        facets = np.unique(np.concatenate(rows), axis=0)
        # Orthonormal directions u with P·u = 0, so that v = 1 + B u.
        basis = np.linalg.qr(np.column_stack([self.prior, np.eye(n)[:, 1:]]))[0][:, 1:]
        halfspaces = np.column_stack([facets @ basis, facets.sum(axis=1)])
        try:
            found = HalfspaceIntersection(halfspaces, np.zeros(n - 1)).intersections
        except QhullError:
            return None
        lifts = 1 + found @ basis.T
        gauge = self.gauge(lifts - 1)
        if np.abs(gauge - 1).max() > 1e-7:
            return None
        return np.unique(np.round(1 + (lifts - 1) / gauge[:, None], 14), axis=0)


def _hull_ends(prior_set: PriorSet) -> tuple[list[Fraction], list[Fraction]]:
    """The least and the largest probability of each value over the set."""
    n = len(prior_set.prior)
    ends = [prior_set.extremes([int(x == z) for z in range(n)]) for x in range(n)]
    return [low for low, _ in ends], [high for _, high in ends]
