"""What the reports of a plane circle determine: J = E[v vᵀ] = 11ᵀ + q²A and its inverse, without a d × d table.

v = 1 + q(c − m) are the lifts, A is the covariance of the coverage c over orders and positions. The orders are few
enough to go through all of them, so A is exact but for the rounding of floats. (Orders are drawn equally often up to
p²/2^(S+1), below 1/1000, which moves no estimate by more than some millionths.) An arc covers a cell of one stretch and
one of another with a probability that depends on their distance only, and its mean over both has a closed form
(`_plane_kernels`). Orders of one slope, o mod (p+1), have the same lines, in other places. So A is kept as the
covariance between lines, for each slope; between lines and pieces of their own; and between these.

Solving.  Up to `_WRITTEN_OUT` values J is written out and inverted. Of more, J is nearly Ĵ, in which all light values
are alike: Ĵ has J's diagonal, J's block of the other values, and elsewhere its mean over the light values. Ĵ is solved
in O(d); conjugate gradients with it as preconditioner solve J in about ten steps of O(p(d + p²)). The diagonal of J⁻¹
is then Ĵ's, which is up to a few hundredths too small because a real order is not all orders at once, times what it
lacks at `_PROBES` values, for which it is solved; in between by interpolation along the shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats, Integers

#: The residual of a solution relative to its right side, and after how many steps at most.
_RESIDUAL, _MOST_STEPS = 1e-8, 200
#: At this many values the diagonal of the inverse is solved for, by this many steps: the same on every machine.
_PROBES, _PROBE_STEPS = 12, 7
#: This many rows are solved for at once.
_BLOCK = 32
#: Of at most this many values J is written out: 8 MiB.
_WRITTEN_OUT = 1024


@dataclass(frozen=True, kw_only=True)
class PlaneInformation:
    """A of a plane circle, taken apart; made by `PlaneCircle.information_at`.

    where: `shares` is P̃ and `amplitude` q. `light` are the values on lines, and `lines` their lines, a row for each
    slope; `owners` are the values of the pieces of their own, and `parts` the share of its value that each has.
    `line_line`, `line_own` and `own_own` are A between them, the first two for each slope. `spreads` is A's diagonal.
    """

    shares: Floats
    amplitude: float
    light: Integers
    lines: NDArray[Any]
    owners: Integers
    parts: Floats
    line_line: Floats
    line_own: Floats
    own_own: Floats
    spreads: Floats

    # -- A and J -------------------------------------------------------------------------------------------------

    def _covariance(self, right: Floats) -> Floats:
        """A·right."""
        result, of_own = np.zeros(len(right)), self.parts * right[self.owners]
        product = self.own_own @ of_own
        if len(self.light):
            from tacit.mechanism.many_values._plane_kernels import seen_by_lines

            seen, by_own = seen_by_lines(self.lines, right[self.light], of_own, self.line_line, self.line_own)
            product, result[self.light] = product + by_own, seen
        np.add.at(result, self.owners, self.parts * product)
        return result

    def _covariance_of_each(self, rows: Floats) -> Floats:
        """A·row for each row, all of them at once."""
        result, of_own = np.zeros(rows.shape), rows[:, self.owners] * self.parts
        product = of_own @ self.own_own
        if len(self.light):
            from tacit.mechanism.many_values._plane_kernels import line_means_of_each, line_sums_of_each

            slopes, size, _ = self.line_line.shape
            line_own = self.line_own.reshape(slopes * size, -1)
            of_lines = line_sums_of_each(self.lines, np.ascontiguousarray(rows[:, self.light].T), size)
            product = product + of_lines.reshape(slopes * size, -1).T @ line_own / slopes
            seen = np.matmul(self.line_line, of_lines) + (line_own @ of_own.T).reshape(of_lines.shape)
            result[:, self.light] = line_means_of_each(self.lines, seen).T
        np.add.at(result.T, self.owners, (product * self.parts).T)
        return result

    def multiply(self, right: Floats) -> Floats:
        """J·right; for each row of a matrix."""
        seen = self._covariance(right) if right.ndim == 1 else self._covariance_of_each(right)
        product: Floats = right.sum(axis=-1, keepdims=True) + self.amplitude**2 * seen
        return product

    def coverage_covariance(self, values: NDArray[np.intp]) -> Floats:
        """A for some values."""
        return np.array([self._covariance(self._unit(value))[values] for value in values])

    def _unit(self, value: int) -> Floats:
        unit = np.zeros(len(self.shares))
        unit[value] = 1.0
        return unit

    # -- the inverse ---------------------------------------------------------------------------------------------

    @cached_property
    def _others(self) -> Integers:
        """The values that are not light."""
        return np.setdiff1d(np.arange(len(self.shares)), self.light, assume_unique=True)

    @cached_property
    def _near(self) -> tuple[Floats, Floats, Floats]:
        """Ĵ: δ of its light values, (κ, k), and the inverse of the system for their sum s and the other values f.

        With κ the mean of J between light values and k_o that between them and the value o, a light value solves
        δ_x f_x + κs + k·f = r_x, so that (1 + Sκ)s + S k·f = Σ r_x/δ_x, S = Σ 1/δ_x, and k s + G f = r for the others.
        """
        light, others, square = self.light, self._others, self.amplitude**2
        place = np.searchsorted(others, self.owners)
        among = np.zeros((len(others), len(others)))
        np.add.at(among, (place[:, None], place[None, :]), self.parts[:, None] * self.own_own * self.parts)
        ones = np.zeros(len(self.shares))
        ones[light] = 1.0
        seen, n = self._covariance(ones), len(light)
        kappa = 1 + square * (float(seen[light].sum()) - float(self.spreads[light].sum())) / max(n * (n - 1), 1)
        delta = 1 + square * self.spreads[light] - kappa
        coupled: Floats = np.concatenate([[kappa], 1 + square * seen[others] / max(n, 1)])
        matrix = np.empty((1 + len(others),) * 2)
        matrix[0], matrix[1:, 0], matrix[1:, 1:] = float((1 / delta).sum()) * coupled, coupled[1:], 1 + square * among
        matrix[0, 0] += 1
        inverse: Floats = np.linalg.inv(matrix).astype(np.float64)
        return delta, coupled, inverse

    def nearly_solve(self, rows: Floats) -> Floats:
        """Ĵ⁻¹·right for each row."""
        delta, coupled, inverse = self._near
        inside = rows[..., self.light] / delta
        solved = np.concatenate([inside.sum(axis=-1)[..., None], rows[..., self._others]], axis=-1) @ inverse.T
        result = np.empty(rows.shape)
        result[..., self.light] = inside - (solved @ coupled)[..., None] / delta
        result[..., self._others] = solved[..., 1:]
        return result

    def solve(self, right: Floats) -> Floats:
        """J⁻¹·right; for each row of a matrix."""
        if len(self.shares) <= _WRITTEN_OUT:
            product: Floats = right @ self._inverse
            return product
        if right.ndim == 1:
            return self._by_gradients(right)
        from tacit.mechanism.sampling import in_threads

        solved = np.empty(right.shape)
        _ = self._near  # Made once, before the threads that share it.

        def work(_: int, blocks: slice) -> None:
            for start in range(blocks.start * _BLOCK, min(blocks.stop * _BLOCK, len(right)), _BLOCK):
                solved[start : start + _BLOCK] = self._by_gradients(right[start : start + _BLOCK])

        in_threads(-(-len(right) // _BLOCK), work, _BLOCK * self.lines.size)
        return solved

    def _by_gradients(self, right: Floats, residual: float = _RESIDUAL, steps: int = _MOST_STEPS) -> Floats:
        """Conjugate gradients, until the residual is small, or for a number of steps; for each row of a matrix."""
        found, rest, goal = np.zeros(right.shape), right, residual**2 * _dot(right, right)
        near = self.nearly_solve(rest)
        along, worth = near, _dot(rest, near)
        for _ in range(steps):
            # A row that is done stays as it is.
            going = _dot(rest, rest) > goal
            if not going.any():
                break
            image = self.multiply(along)
            length = np.where(going, worth, 0.0) / np.where(going, _dot(along, image), 1.0)
            found, rest = found + length * along, rest - length * image
            near = self.nearly_solve(rest)
            before, worth = worth, _dot(rest, near)
            along = near + np.where(going, worth, 0.0) / np.where(going, before, 1.0) * along
        return found

    @cached_property
    def _inverse(self) -> Floats:
        """J⁻¹ written out."""
        covariance, of_pieces = np.zeros((len(self.shares),) * 2), np.zeros((len(self.owners), len(self.shares)))
        np.add.at(of_pieces.T, self.owners, self.parts[:, None] * self.own_own)
        if len(self.light):
            slopes = np.arange(len(self.lines))[:, None]
            of_pieces[:, self.light] = self.line_own[slopes, self.lines].mean(axis=0).T
        np.add.at(covariance, self.owners, self.parts[:, None] * of_pieces)
        if len(self.light):
            from tacit.mechanism.many_values._plane_kernels import between_light_values

            covariance[np.ix_(self.light, self._others)] = covariance[np.ix_(self._others, self.light)].T
            covariance[np.ix_(self.light, self.light)] = between_light_values(self.line_line, self.lines)
        inverse: Floats = np.linalg.inv(1 + self.amplitude**2 * covariance).astype(np.float64)
        return inverse

    @cached_property
    def _diagonal(self) -> Floats:
        if len(self.shares) <= _WRITTEN_OUT:
            return np.diag(self._inverse).copy()
        delta, coupled, inverse = self._near
        diagonal = np.empty(len(self.shares))
        diagonal[self.light] = (1 - float(coupled @ inverse[:, 0]) / delta) / delta
        diagonal[self._others] = np.diag(inverse)[1:]
        falling = np.argsort(-self.shares, kind="stable")
        probed = np.unique(np.geomspace(1, len(falling), _PROBES).astype(np.int64)) - 1
        exact = [self._by_gradients(self._unit(value), 0.0, _PROBE_STEPS)[value] for value in falling[probed]]
        lacks = exact / diagonal[falling[probed]]
        diagonal[falling] *= np.interp(np.log1p(np.arange(len(falling))), np.log1p(probed), lacks)
        return diagonal

    def inverse_diagonal(self) -> Floats:
        """(J⁻¹)_xx for every value."""
        return self._diagonal

    def inverse_row(self, value: int) -> Floats:
        """(J⁻¹)_xx' of one value x, for every x'."""
        return self.solve(self._unit(value))


def _dot(left: Floats, right: Floats) -> Floats:
    """The inner product, of rows in pairs."""
    products: Floats = (left * right).sum(axis=-1, keepdims=True)
    return products
