"""Channels whose promise holds for every prior of a set: the oracle of `search` over the lifts V(U) of `robust_lifts`.

For a ball, a box and a hull of few candidates all vertices are listed, so the optimum is found and proved. For a larger
hull, and for a ball or a box of more than twelve values, columns are found by climbing, and a bound is proved for a
hull and a task of one column, and for a ball and a task of few independent columns: `best_nested` solves the linear
problem over V(U), which is all that `covered` needs. Else the search ends when it gains next to nothing.

LDP's columns are in V(U) for any U, and so no design is worse than the best LDP one; a smaller U has more lifts.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from time import perf_counter
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.designs._program.bounds import TINY, _by_chords, covered, spread_bound
from tacit.designs._program.deadline import Deadline
from tacit.designs._program.gain import equal_rows
from tacit.designs._program.lifts import Array, largest
from tacit.designs._program.master import SolverError
from tacit.designs._program.robust_lifts import RobustLifts
from tacit.designs._program.search import Aim, Found, Progress, Search, keys, value_of
from tacit.prior.sets import Ball, Hull, PriorSet

#: Vertices are listed for up to this many values that the task tells apart; their number grows as 3^d.
MOST_VALUES = 12
#: Up to this many values it is climbed to, without a proof: it takes some seconds, and time grows as d³.
MOST_CLIMBED = 50
#: How many columns to look at again before all are, how many to climb from, and how many to add at a time.
_SHORT, _CLIMBS, _COLUMNS = 2048, 48, 64
#: One of these small programs takes no longer.
_SECONDS_PER_SOLVE = 10.0
#: The images of lifts in a ball are covered in this many dimensions, to this share, with this much work: some seconds.
_MOST_DIMENSIONS, _TIGHT, _POINTS = 8, 4e-3, 3e6
#: The ranges of lifts in a ball are found for up to this many values.
_MOST_SPREAD = 128
#: Operations for the best nested lift, for each pair of values, and for a small linear program.
_NESTED, _PER_LP = 60, 1e6
#: Nested lifts are sought from this many places more.
_AT_RANDOM = 256


def solve_robust(
    prior_set: PriorSet,
    g: Array,
    epsilon: float,
    *,
    aim: Aim = "unbiased",
    gap: float = 1e-4,
    time_limit: float | Deadline = 30.0,
    progress: Progress | None = None,
) -> Found:
    """The best channel for task `g` (d, m), a row for each value of the support, ε-LIP for every prior of the set.

    `progress` sees the value reached and the bound. An interrupt from the keyboard returns the best so far. Values with
    equal rows of g get one lift where the set allows that without loss.

    >>> from tacit.prior import Prior
    >>> from tacit.prior.sets import Ball
    >>> design = solve_robust(Ball(Prior.of({"yes": 0.41, "no": 0.59}), 0.03), np.eye(2), 1.0, aim="mmse")
    >>> round(design.value, 4), design.method, design.status
    (0.1848, 'closed form', 'optimal')
    """
    started, deadline = perf_counter(), Deadline.after(time_limit)
    support = prior_set.prior.support
    g = np.asarray(g, dtype=float).reshape(len(support), -1)
    if aim not in get_args(Aim):
        raise ValueError(f"The 'aim' must be 'unbiased' or 'mmse'. Got {aim!r} instead.")
    if not 0 <= epsilon < inf:
        raise ValueError(f"The 'epsilon' must be finite and not negative. Got {epsilon} instead.")
    merged, group = _merged(prior_set, g)
    n = len(merged.prior)
    rows = np.zeros((n, g.shape[1]))
    rows[group] = g
    if n > (most := _most_values(merged, aim)):
        raise ValueError(f"A design for a set of priors needs a task that tells at most {most} values apart. Got {n}.")
    if n == 1 or epsilon == 0:
        if n > 1 and aim == "unbiased":
            raise ValueError("An unbiased estimate needs reports that depend on the value. Got epsilon = 0.")
        found = Found.constant(n, aim)
    elif n == 2:
        found = _pair(merged, rows, epsilon, aim)
    else:
        lifts = SetLifts(RobustLifts(merged, epsilon), narrow=_is_narrow(merged, rows))
        found = Search(lifts, rows, aim=aim, gap=gap, deadline=deadline, progress=progress).run()
    masses = merged.prior.probabilities
    share = prior_set.prior.on_support().probabilities / masses[group]
    factor = None if found.factor is None else found.factor[group] * share[:, None]
    return replace(
        found, lifts=found.lifts[:, group], duals=found.duals[group] * share, factor=factor,
        seconds=perf_counter() - started,
    )  # fmt: skip


def proven_robust(ball: Ball, g: Array, epsilon: float, duals: Array) -> float:
    """The unbiased variance that no channel for every prior of a ball goes below, as proved by duals: μ (d,), F (d, m).

    As `proven_variance` for one prior, with the linear problem over V(U) in place of that over the lifts of LIP.
    """
    n, g = len(g), np.asarray(g, dtype=float).reshape(len(g), -1)
    merged, group = _merged(ball, g)
    member = (group[:, None] == np.arange(len(merged.prior))).astype(float)
    rows = np.zeros((len(merged.prior), g.shape[1]))
    rows[group] = g
    mu, factor = duals[:n] @ member, member.T @ duals[n:].reshape(n, -1)
    prior, total = merged.prior.probabilities, factor.sum(axis=0)
    best = RobustLifts(merged, epsilon).best_nested
    most = covered(best, prior, factor, mu, Deadline(), _TIGHT, _POINTS) + float(mu.sum() + total @ total)
    return float(2 * (factor * rows).sum() - most - ((prior @ rows) ** 2).sum())


def spread_bound_in(ball: Ball, g: Array, epsilon: float) -> float:
    """`spread_bound` for lifts that are allowed for every prior of a ball, which range less far than those of one
    prior; 0 for tasks of one column, for many values, and where one is very rare.
    """
    merged, group = _merged(ball, g)
    prior = merged.prior.probabilities
    if g.shape[1] == 1 or epsilon == 0 or not 2 < len(prior) <= _MOST_SPREAD or prior.min() < TINY:
        return 0.0
    rows = np.zeros((len(prior), g.shape[1]))
    rows[group] = g
    lifts, unit = RobustLifts(merged, epsilon), np.eye(len(prior))
    high, low = np.diag(lifts.best_nested(unit)), np.diag(lifts.best_nested(-unit))
    return spread_bound(prior, rows, ((high - 1) * (1 - low)) * (1 + 1e-12))


def _is_narrow(merged: PriorSet, g: Array) -> bool:
    """Whether the images of lifts span so few dimensions that they can be covered."""
    scale = np.linalg.svd(g - merged.prior.probabilities @ g, compute_uv=False)
    return int((scale > 1e-9 * scale[0]).sum()) <= min(_MOST_DIMENSIONS, len(g) - 2)


def values_searched(prior_set: PriorSet, g: Array, aim: Aim) -> int | None:
    """How many values a search tells apart: those of the task, where the set allows that without loss, or else all that
    are possible; None if they are too many.
    """
    merged, _ = _merged(prior_set, g)
    return len(merged.prior) if len(merged.prior) <= _most_values(merged, aim) else None


def _most_values(merged: PriorSet, aim: Aim) -> int:
    return MOST_VALUES if aim == "mmse" or isinstance(merged, Hull) else MOST_CLIMBED


def _merged(prior_set: PriorSet, g: Array) -> tuple[PriorSet, NDArray[np.intp]]:
    """The set over values that the task tells apart, or else over the support; and the group of each value there."""
    support = prior_set.prior.support
    for group in (equal_rows(g), np.arange(len(support), dtype=np.intp)):
        # Impossible values may join any group: they carry no mass.
        groups = [int(group[0])] * len(prior_set.prior)
        for x, label in zip(support, group, strict=True):
            groups[x] = int(label)
        merged = prior_set.merged(groups)
        if merged is not None:
            return merged, group
    raise AssertionError("Leaving out impossible values changes no set.")


def _pair(prior_set: PriorSet, g: Array, epsilon: float, aim: Aim) -> Found:
    """Two values: any set is an interval [a, b] of P'_1, V(U) is a segment, and its two ends are the best reports.

    With t = v_1/v_0 the ends are t⁺ = min(E(1−a)/(1−Ea) if Ea < 1, (E−1+b)/b) and
    t⁻ = max((1−E(1−b))/(Eb), (1−a)/(E−a)).
    """
    e, prior = float(np.exp(epsilon)), prior_set.prior.probabilities
    a, b = (float(end) for end in prior_set.extremes([0, 1]))
    above = min(e * (1 - a) / (1 - e * a) if e * a < 1 else inf, (e - 1 + b) / b)
    below = max((1 - e * (1 - b)) / (e * b), (1 - a) / (e - a))
    lifts = np.array([[1.0, above], [1.0, below]])
    lifts /= (lifts @ prior)[:, None]
    rise, fall = lifts[0, 1] - 1, 1 - lifts[1, 1]
    probabilities = np.array([fall, rise]) / (rise + fall)
    value = value_of(prior, g, aim, lifts, probabilities)
    return Found(
        lifts=lifts, probabilities=probabilities, value=value, bound=value, aim=aim, duals=np.zeros(2),
        method="closed form", status="optimal",
    )  # fmt: skip


class SetLifts:
    """V(U) as the oracle of `search`: vertices that are listed, or a climber that finds some."""

    def __init__(self, polytope: RobustLifts, *, narrow: bool = False) -> None:
        self.polytope, self.prior = polytope, polytope.prior
        self._pool, self._short = np.empty((0, len(self.prior))), np.empty(0, dtype=np.intp)
        self._climber: HullClimber | NestedClimber | None = None
        if not isinstance(polytope.prior_set, Hull) and len(self.prior) > MOST_VALUES:
            self._climber = NestedClimber(polytope, narrow)
        elif (vertices := polytope.vertices) is None:
            self._pool, self._climber = polytope.candidates(), HullClimber(polytope)
        else:
            self._pool = vertices
        self.method = "all vertices" if self._climber is None else "climbing"
        self._covers = narrow and isinstance(polytope.prior_set, Ball) and isinstance(self._climber, NestedClimber)
        self.proves = self._covers or self._climber is None

    def start(self) -> tuple[Array, Array]:
        """Two-level lifts on each value alone and on all others."""
        return self.polytope.pairs

    def limits(self) -> tuple[Array, Array]:
        """The least and the largest lift of each value, of those that are listed."""
        if not len(self._pool):
            unit = np.eye(len(self.prior))
            return np.diag(self.polytope.best_nested(-unit)).copy(), np.diag(self.polytope.best_nested(unit)).copy()
        return self._pool.min(axis=0), self._pool.max(axis=0)

    def towards(self, slopes: Array) -> Array:
        """Lifts on nested sets where nothing is listed."""
        nested = isinstance(self._climber, NestedClimber)
        return self.polytope.best_nested(slopes) if nested else np.empty((0, len(self.prior)))

    def price(self, factor: Array, duals: Array, level: float, lifts: Array, deadline: Deadline) -> tuple[Array, float]:
        """Lifts beside those in use with |Fᵀv|² − μ·v above `level`, the largest first, and a bound of them all (inf
        if not known).

        Looked for where they are cheap first: among those that were good a moment ago, among all that are listed, and
        by climbing. Where nothing is listed, by climbing from those in use.
        """
        known, n = set(keys(lifts)), len(self.prior)
        if isinstance(self._climber, NestedClimber):
            deadline.spend(3 * (len(lifts) + _AT_RANDOM) * _NESTED * n**2)
            return self._above(self._climber.climb(factor, duals, lifts), factor, duals, level, known)[0], inf
        new, _ = self._above(self._pool[self._short], factor, duals, level, known)
        if len(new):
            return new, inf
        new, worth = self._above(self._pool, factor, duals, level, known)
        deadline.spend(self._pool.size * (2 + factor.shape[1] / 4))
        self._short = largest(worth, _SHORT)
        if self._climber is None:
            most = float(worth.max())
            return new, most + 1e-13 * (float(np.abs(duals).sum()) + abs(most))
        if len(new):
            return new, inf
        deadline.spend(_CLIMBS * _PER_LP)
        climbed = self._climber.climb(factor, duals, self._pool[self._short[:_CLIMBS]])
        self._pool = np.concatenate([self._pool, climbed])
        return self._above(climbed, factor, duals, level, known)[0], inf

    @staticmethod
    def _above(lifts: Array, factor: Array, duals: Array, level: float, known: set[bytes]) -> tuple[Array, Array]:
        worth = ((lifts @ factor) ** 2).sum(axis=1) - lifts @ duals
        found = largest(worth, _COLUMNS)
        best = lifts[found[worth[found] > level]]
        return best[[one not in known for one in keys(best)]], worth

    def prove(self, factor: Array, duals: Array, deadline: Deadline) -> float:
        """An upper bound of |Fᵀv|² − μ·v over V(U): where vertices are listed, where F has one column, for a hull, or
        few independent ones, for a ball.
        """
        if self._covers:
            total, best, cost = factor.sum(axis=0), self.polytope.best_nested, _NESTED * len(duals) ** 2
            most = covered(best, self.prior, factor, duals - 2 * factor @ total, deadline, _TIGHT, _POINTS, cost)
            return float(most - total @ total)
        if isinstance(self._climber, HullClimber) and factor.shape[1] == 1:
            return self._climber.bound(factor[:, 0], duals, deadline)
        if self._climber is not None:
            return inf
        most = float((((self._pool @ factor) ** 2).sum(axis=1) - self._pool @ duals).max())
        return most + 1e-13 * (float(np.abs(duals).sum()) + abs(most))

    def other_bound(self, g: Array, lifts: Array, weights: Array, deadline: Deadline) -> float:
        """None."""
        return 0.0


class NestedClimber:
    """For a ball or a box: lifts on nested sets, found without a solver and without a bound.

    Where images of lifts under F span few dimensions (`narrow`), places to start from are drawn among these.
    """

    def __init__(self, polytope: RobustLifts, narrow: bool = False) -> None:
        self.polytope, self._narrow = polytope, narrow
        self._rng = np.random.default_rng(0)

    def climb(self, factor: Array, duals: Array, starts: Array, steps: int = 2) -> Array:
        """Move each start, and some at random, to the best lift for |F'v|² − μ·v linearised at it."""
        if self._narrow:
            total, images = factor.sum(axis=0), starts @ factor
            left, scale, right = np.linalg.svd(images - total, full_matrices=False)
            drawn = self._rng.normal(size=(_AT_RANDOM, len(scale))) * scale / np.sqrt(len(left))
            slopes = 2 * (total + drawn @ right) @ factor.T - duals
        else:
            slopes = self._rng.normal(size=(_AT_RANDOM, len(duals))) * self.polytope.prior
        v = np.concatenate([starts, self.polytope.best_nested(slopes)])
        for _ in range(steps):
            slopes = 2 * (v @ factor) @ factor.T - duals
            found = self.polytope.best_nested(slopes)
            v = np.where(((slopes * (found - v)).sum(axis=1) > 0)[:, None], found, v)
        gauge = self.polytope.gauge(v - 1)
        return np.unique(np.round(1 + (v - 1) / np.maximum(gauge, 1.0)[:, None], 12), axis=0)


class HullClimber:
    """A linear program over V(U), kept in memory: each call changes the slope and starts from the last basis.

    Variables are v, A ≤ min_c c·v and B ≥ max_c c·v, over the members c of the hull; v_x ≤ E·A and B ≤ E·v_x.
    """

    def __init__(self, polytope: RobustLifts) -> None:
        self.polytope = polytope
        self.prior = polytope.prior
        self._model = _program(polytope.members, float(np.exp(polytope.epsilon)))

    def best(self, slope: Array) -> tuple[float, Array]:
        """max slope·v over V(U), and where."""
        n = len(self.prior)
        costs = np.concatenate([slope, [0.0, 0.0]])
        if not np.isfinite(costs).all():
            raise SolverError("a slope of the linear program is not finite")
        self._model.setOptionValue("time_limit", self._model.getRunTime() + _SECONDS_PER_SOLVE)
        self._model.changeColsCost(n + 2, np.arange(n + 2, dtype=np.int32), costs)
        self._model.run()
        if self._model.modelStatusToString(self._model.getModelStatus()) != "Optimal":
            raise SolverError("HiGHS found no best lift of the hull")
        values = np.asarray(self._model.getSolution().col_value)
        return float(costs @ values), values[:n]

    def climb(self, factor: Array, duals: Array, starts: Array, steps: int = 4) -> Array:
        """Move each start to the best vertex for |F'v|² − μ·v linearised at it; a convex function never falls."""
        found = []
        for start in starts:
            v = start
            for _ in range(steps):
                before, v = v, self.best(2 * factor @ (factor.T @ v) - duals)[1]
                if np.abs(v - before).max() < 1e-9:
                    break
            found.append(v)
        columns = np.array(found)
        gauge = self.polytope.gauge(columns - 1)
        # A solver's vertex may stick out by its tolerance.
        return np.asarray(1 + (columns - 1) / np.maximum(gauge, 1.0)[:, None])

    def bound(self, f: Array, duals: Array, deadline: Deadline) -> float:
        """An upper bound of (f·v)² − μ·v over V(U): (f·v)² = max_t 2t f·v − t², a linear program for each t, and chords
        between them.
        """
        ends = -self.best(-f)[0], self.best(f)[0]

        def support(t: Array) -> Array:
            return np.array([self.best(2 * one * f - duals)[0] for one in t[:, 0]])

        return _by_chords(support, *ends, deadline, _PER_LP)


def _program(members: Array, e: float) -> Any:
    import highspy

    count, n = members.shape
    model = highspy.Highs()  # type: ignore[no-untyped-call]
    for name, option in (("output_flag", False), ("threads", 1), ("primal_feasibility_tolerance", 1e-10)):
        model.setOptionValue(name, option)
    model.addVars(n + 2, np.zeros(n + 2), np.full(n + 2, np.inf))
    model.changeObjectiveSense(highspy.ObjSense.kMaximize)
    ones, zeros = np.ones((count, 1)), np.zeros((count, 1))
    rows = np.concatenate([
        np.hstack([members, -ones, zeros]),
        np.hstack([-members, zeros, ones]),
        np.hstack([-np.eye(n), np.full((n, 1), e), np.zeros((n, 1))]),
        np.hstack([e * np.eye(n), np.zeros((n, 1)), -np.ones((n, 1))]),
    ])  # fmt: skip
    columns = np.arange(n + 2, dtype=np.int32)
    for row in rows:
        model.addRow(0.0, np.inf, n + 2, columns, row)
    model.addRow(1.0, 1.0, n, columns[:n], members[0])
    return model
