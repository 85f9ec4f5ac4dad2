"""Columns, and bounds for hulls, where there are too many values for all vertices to be listed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.designs.program.bounds import _by_chords, gain_dual_bound
from tacit.designs.program.gain import Gain
from tacit.designs.program.lifts import Array, LiftSet
from tacit.designs.program.master import SolverError
from tacit.designs.program.robust_lifts import RobustLifts

#: One of these small programs takes no longer.
_SECONDS_PER_SOLVE = 10.0
#: Nested lifts are sought from so many places more.
_AT_RANDOM = 256


class NestedClimber:
    """For a ball or a box: lifts on nested sets, found without a solver and without a bound."""

    def __init__(self, polytope: RobustLifts) -> None:
        self.polytope = polytope
        self._rng = np.random.default_rng(0)

    def climb(self, factor: Array, duals: Array, starts: Array, steps: int = 2) -> Array:
        """Move each start, and some at random, to the best lift for |F'v|² − μ·v linearised at it."""
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
        self._outer = self._enclosing()

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

    def bound(self, factor: Array, duals: Array) -> float:
        """An upper bound of |F'v|² − μ·v over V(U).

        With one column, |F'v|² = max_t 2t F'v − t², a linear program for each t, and chords between them. With more,
        the maximum over a larger set of lifts, visited vertex by vertex.
        """
        if factor.shape[1] == 1:
            f = factor[:, 0]
            ends = -self.best(-f)[0], self.best(f)[0]
            return _by_chords(lambda t: np.array([self.best(2 * one * f - duals)[0] for one in t[:, 0]]), *ends)
        total = factor.sum(axis=0)
        shifted = duals - 2 * factor @ total
        most = gain_dual_bound(self.prior, Gain(factor), self._outer, shifted)
        return float(most - shifted.sum() - total @ total)

    def _enclosing(self) -> LiftSet:
        """The range of lifts and of their ratios over V(U): the smallest set of its kind that contains V(U)."""
        n = len(self.prior)
        unit = np.eye(n)
        high = max(self.best(unit[x])[0] for x in range(n))
        low = min(-self.best(-unit[x])[0] for x in range(n))
        return LiftSet(low * (1 - 1e-8), high * (1 + 1e-8), self._ratio(high / low) * (1 + 1e-8))

    def _ratio(self, most: float) -> float:
        """The largest v_x / v_z over V(U): a ratio is raised by Dinkelbach's steps until no pair exceeds it."""
        n = len(self.prior)
        ratio = 1.0
        for x in range(n):
            for z in range(n):
                slope = np.eye(n)[x]
                slope[z] -= ratio
                surplus, v = self.best(slope)
                while x != z and surplus > 1e-10:
                    ratio = float(v[x] / v[z])
                    slope[z] = -ratio
                    surplus, v = self.best(slope)
        return min(ratio, most)


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
