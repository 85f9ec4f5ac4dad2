"""The restricted linear program over lift vectors found so far, solved by HiGHS and extended in place.

    maximise  Σ_y λ_y gain_y   subject to   Σ_y λ_y c_y(x) = h_x for every x,  λ ≥ 0

with coverage c = (v - low) / (high - low) and h = (1 - low) / (high - low): the constraint Σ λ v = 1 in
sparser numbers. Σ λ = 1 follows, because P · v = 1 in every column.
"""

from __future__ import annotations

import highspy
import numpy as np

from tacit.designs._program.deadline import Deadline, TimeLimitError
from tacit.designs._program.lifts import Array

#: HiGHS' number for primal simplex.
_PRIMAL = 4
#: Operations of a step of the simplex method for each entry of the matrix, and entries that others make up for.
_PER_STEP, _OVERHEAD = 1.0, 20_000
#: What HiGHS takes as no limit.
_LONGEST, _MOST_STEPS = 1e6, 2**31 - 1


class SolverError(ArithmeticError):
    """The linear-programming solver returned no optimum."""


class GrowingProgram:
    """maximise Σ_y λ_y gain_y subject to Σ_y λ_y column_y = target, λ ≥ 0, for columns added as they are found.

    Every solve starts from the basis of the last one, which new columns leave feasible, by primal simplex; the first
    one too where `primal` says so.
    """

    def __init__(self, target: Array, *, primal: bool = False) -> None:
        self.target = target
        self._highs = self._new_model()
        if primal:
            self._highs.setOptionValue("simplex_strategy", _PRIMAL)

    def _new_model(self) -> highspy.Highs:
        model = highspy.Highs()  # type: ignore[no-untyped-call]
        options = {
            "output_flag": False,
            "threads": 1,
            "primal_feasibility_tolerance": 1e-10,
            "dual_feasibility_tolerance": 1e-10,
        }
        for name, value in options.items():
            model.setOptionValue(name, value)
        n = len(self.target)
        none = np.empty(0, dtype=np.int32)
        model.addRows(n, self.target, self.target, 0, np.zeros(n, dtype=np.int32), none, np.empty(0))
        model.changeObjectiveSense(highspy.ObjSense.kMaximize)
        return model

    def add(self, columns: Array, gains: Array) -> None:
        """Add columns, a row of `columns` each, with gains of order one: the solver's tolerances are absolute."""
        if not (np.isfinite(columns).all() and np.isfinite(gains).all()):
            # Given these, solvers run on beyond their time limit.
            raise SolverError("a column of the linear program is not finite")
        if len(columns):
            k, (of, places) = len(columns), np.nonzero(columns)
            starts = np.searchsorted(of, np.arange(k))
            self._highs.addCols(
                k, gains, np.zeros(k), np.full(k, np.inf), len(of),
                starts.astype(np.int32), places.astype(np.int32), columns[of, places],
            )  # fmt: skip

    def solve(self, deadline: Deadline) -> tuple[Array, Array]:
        """The best λ over all columns, and a price for each row."""
        model = self._highs
        cost = _PER_STEP * (model.getNumNz() + _OVERHEAD)
        model.setOptionValue("time_limit", model.getRunTime() + min(max(deadline.clock, 0.1), _LONGEST))
        model.setOptionValue("simplex_iteration_limit", int(min(max(deadline.operations / cost, 100), _MOST_STEPS)))
        model.run()
        deadline.spend(cost * model.getInfo().simplex_iteration_count)
        status = model.getModelStatus()
        if status in (highspy.HighsModelStatus.kTimeLimit, highspy.HighsModelStatus.kIterationLimit):
            raise TimeLimitError
        if status != highspy.HighsModelStatus.kOptimal:
            raise SolverError(f"HiGHS stopped with status {model.modelStatusToString(status)}")
        # Primal simplex from here on: the last basis stays primal feasible when columns are added.
        model.setOptionValue("simplex_strategy", _PRIMAL)
        solution = model.getSolution()
        return np.maximum(np.asarray(solution.col_value), 0.0), np.asarray(solution.row_dual)


class Master:
    """The restricted linear program over lift vectors, in coverage."""

    def __init__(self, prior: Array, low: Array, high: Array, scale: float) -> None:
        self.prior, self.low, self.width = prior, low, high - low
        self.scale = scale
        self.lifts = np.empty((0, len(low)))
        self.gains = np.empty(0)
        self._seen: set[bytes] = set()
        self._program = GrowingProgram((1 - low) / self.width)

    def add(self, lifts: Array, gains: Array) -> int:
        """Add the columns that are new; returns how many were."""
        cover = (lifts - self.low) / self.width
        keys = [row.tobytes() for row in np.round(cover, 11) + 0.0]
        fresh = []
        for i, key in enumerate(keys):
            if key not in self._seen:
                self._seen.add(key)
                fresh.append(i)
        self.lifts = np.concatenate([self.lifts, lifts[fresh]])
        self.gains = np.concatenate([self.gains, gains[fresh]])
        self._program.add(cover[fresh], gains[fresh] / self.scale)
        return len(fresh)

    def solve(self, deadline: Deadline) -> tuple[Array, Array]:
        """Optimal λ over all columns, and duals μ with gain_y ≤ μ·v_y on every column."""
        weights, prices = self._program.solve(deadline)
        # μ·v = prices·c on every column, because a multiple of P absorbs the constant.
        duals = prices * self.scale / self.width
        return weights, duals - (duals @ self.low) * self.prior


def _correction(lifts: Array, missing: Array) -> Array:
    """Small δ with Σ_y δ_y v_y = missing."""
    n_reports, n = lifts.shape
    if n_reports <= n:
        from scipy.linalg import lstsq  # slow to import, and needed here only

        return np.asarray(lstsq(lifts.T, missing, cond=1e-13, lapack_driver="gelsy")[0])
    # Many more reports than values: the normal equations are far cheaper, and `missing` is tiny already.
    square = lifts.T @ lifts / n_reports
    return np.asarray(lifts @ np.linalg.solve(square + 1e-12 * np.eye(n), missing) / n_reports)


def polished(lifts: Array, weights: Array) -> tuple[Array, Array]:
    """Drop unused reports and re-solve Σ_y λ_y v_y = 1 on the rest to machine precision."""
    for floor in (1e-10, 1e-9, 1e-8):
        keep = weights > floor
        lifts, weights = lifts[keep], weights[keep]
        exact = weights
        for _ in range(2):
            if np.abs(exact @ lifts - 1).max() < 1e-14:
                break
            exact = exact + _correction(lifts, 1 - exact @ lifts)
        # A weight at the solver's tolerance may turn negative: such a report is not needed.
        if (exact >= 0).all():
            return lifts, exact
    return lifts, weights
