"""Moments of what one report of a circle says: of the coverage c, and of z = J⁻¹v, what it adds to each unbiased sum.

Where the circle follows the prior, P̃ and P differ by less than matters here, and all is said for P̃. A circle with one
cell for each value, made for LDP or a wide ball, does not; there the moments under P are exact too, because all values
are alike.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats, Integers
from tacit.mechanism.circle._rule import CircleRule

#: Up to so many sampled coverages are kept for the next estimate: 32 MiB with their squares, in short floats.
_KEPT_COVERAGES = 2**22
#: Beyond that, so many are made at once: few enough to stay in a core's cache.
_COVERAGES_AT_ONCE = 2**17
#: A circle follows the prior if its cells are within this total variation of it.
_CLOSE = Fraction(1, 100)


class Information(Protocol):
    """J = E[v vᵀ] = 11ᵀ + q²A of the lifts v = 1 + q(c − m), A the covariance of the coverage c; and its inverse."""

    @property
    def spreads(self) -> Floats:
        """A_xx for every value."""
        ...

    def multiply(self, right: Floats) -> Floats:
        """J·right."""
        ...

    def solve(self, right: Floats) -> Floats:
        """J⁻¹·right; for each row of a matrix."""
        ...

    def nearly_solve(self, rows: Floats) -> Floats:
        """The same for many rows, up to some hundredths."""
        ...

    def inverse_diagonal(self) -> Floats:
        """(J⁻¹)_xx for every value."""
        ...

    def inverse_row(self, value: int) -> Floats:
        """(J⁻¹)_xx' of one value x, for every x'."""
        ...


@dataclass(frozen=True, kw_only=True)
class CircleMoments(CircleRule):
    """A circle, its coverage and what that determines."""

    #: The variance under a truth far from the prior is taken over about this many coverages of single values.
    _sampled_coverages: ClassVar[int] = 2**24

    @property
    def _most_sampled(self) -> int:
        return 2**11

    @abstractmethod
    def coverage(self, reports: Integers) -> Floats:
        """c_x of every value of the support, a row for each report, as `fold` adds it up."""

    @property
    @abstractmethod
    def information(self) -> Information:
        """J of this circle and its inverse; raises `NotEstimableError` for a circle of one value."""

    @property
    def follows_prior(self) -> bool:
        """Whether the cells are so near to the prior that the difference does not matter."""
        return self.cell_error < _CLOSE

    @cached_property
    def _shares(self) -> Floats:
        """P̃, as the circle has it."""
        shares: Floats = self.cell_array / self.circle
        return shares

    @cached_property
    def _prior(self) -> Floats:
        """P, as the weights have it; P̃ where the circle follows it so closely that the difference does not matter."""
        if self.follows_prior:
            return self._shares
        total = sum(self.weights)
        return np.array([weight / total for weight in self.weights])

    @cached_property
    def _spread(self) -> Floats:
        """D_x = A_xx, the variance of the coverage of every value under P̃."""
        return np.zeros(1) if len(self.weights) == 1 else self.information.spreads

    @cached_property
    def _skew(self) -> Floats:
        """E(c_x − m)³ under P̃: exactly for a value in one piece, by a fixed sample of reports for the others."""
        skew = self._skew_in_one_piece()
        cut = np.flatnonzero(np.array(self.pieces) > 1)
        if len(cut):
            covered = self.coverage(self._sample)[:, cut]
            skew[cut] = ((covered - float(self.share)) ** 3).mean(axis=0)
        return skew

    def _skew_in_one_piece(self) -> Floats:
        return third_central_moment(self.cell_array, self.arc, self.circle)

    @cached_property
    def _under_prior(self) -> tuple[Floats, Floats, Floats]:
        """Mean and variance of the coverage of x, and its covariance with holding x, if the prior is true.

        They are m, D and P_x q D_x where the circle follows the prior, P = P̃. Elsewhere the weight of a report is
        1 + qg, g = Σ P_x'(c_x' − m), and E[g|c_x] is taken as its regression (AP)_x/D_x·(c_x − m), which it is if all
        values have equally many cells; so with the drift f = qAP they are m + f, D + f E(c − m)³/D − f², P_x(qD − f).
        """
        q, mean, spread = float(self.amplitude), np.full(len(self.weights), float(self.share)), self._spread
        if self.follows_prior:
            return mean, spread, self._prior * q * spread
        drift = (self.information.multiply(self._prior) - 1) / q
        variance = spread + drift * self._skew / spread - drift**2
        return mean + drift, variance, self._prior * (q * spread - drift)

    def _spread_of_one(self, shares: Floats) -> Floats:
        """The variance that one report adds to each unbiased sum, given its sender's answer, at estimated shares."""
        if len(self.weights) == 1:
            return np.zeros(1)
        truth = nearest_distribution(shares)
        holders, others = self._squares
        sampled_for_holders, drift = self._sampled_moments(truth)
        for_holders, for_others = np.maximum(np.maximum(holders - 1, sampled_for_holders), 0.0), np.maximum(others, 0.0)
        spread: Floats = truth * for_holders + (1 - truth) * for_others * drift
        return spread

    @cached_property
    def _squares(self) -> tuple[Floats, Floats]:
        """E[z_x² | X = x] and the mean of E[z_x² | X = x'] over the others, of what a report says of x, z = J⁻¹v.

        As E[z_x | X] is 1 for x and 0 for others, they are variances once 1 is taken from the first. Mixed by the share
        θ_x that holds x they are the variance for every truth in which the others are as the circle has them among
        themselves; `_sampled_moments` has what this leaves out.

        They are E[v_x z_x²] and, by the mean (J⁻¹)_xx of E[z_x² | X] under P̃, ((J⁻¹)_xx − P̃_x E[v_x z_x²])/(1 − P̃_x).
        From E[z_x v] = e_x follow E z_x = P̃_x and the slope b = (1−P̃_x)/qD_x of z_x on c_x; with the rest of z_x taken
        as independent of c_x (small; none for two values, nor where all have equally many cells)

            E[v_x z_x²] = (J⁻¹)_xx + 2q b P̃_x D_x + q b² E(c_x − m)³.
        """
        p, q, spread = self._shares, float(self.amplitude), self._spread
        slope, inverse = (1 - p) / (q * spread), self.information.inverse_diagonal()
        own = inverse + 2 * q * slope * p * spread + q * slope**2 * self._skew
        return own, (inverse - p * own) / (1 - p)

    @cached_property
    def _sample(self) -> Integers:
        """A fixed sample of reports, each order and position as likely as any other."""
        size = int(np.clip(self._sampled_coverages // len(self.weights), 256, self._most_sampled))
        rng = np.random.default_rng(0)
        orders, positions = rng.integers(0, self.orders, size), rng.integers(0, self.circle, size)
        reports: Integers = orders << self.cell_bits | positions
        return reports

    def _sampled_moments(self, truth: Floats) -> tuple[Floats, Floats]:
        """Var(z_x | X = x), and E[z_x² | X ≠ x] under a truth relative to the prior's, by a fixed sample of reports.

        E[z_x² | X = x'] = E[v_x' z_x²] over uniform reports, linear in the truth. Means are over the same reports: the
        first is scaled by the known E z_x² = (J⁻¹)_xx, and the second is 1 if truth and prior are equal. The relative
        error is a few hundredths; where arcs are so short that no sampled one covers x, both err towards the prior's.
        """
        own, all_squares, at_prior = self._sampled_at_prior
        # Of every report: what the others' lifts sum to under the truth, times the square of x.
        under_truth = sum((lifts @ truth.astype(lifts.dtype)) @ squares for lifts, squares in self._sampled_lifts())
        for_holders: Floats = self.information.inverse_diagonal() * own / np.maximum(all_squares, 1e-300) - 1
        means = (under_truth - truth * own) / np.maximum(1 - truth, 1e-9)
        drift: Floats = means / np.maximum(at_prior, 1e-300)
        return for_holders, drift

    @cached_property
    def _sampled_at_prior(self) -> tuple[Floats, Floats, Floats]:
        """What no truth changes: Σ v_x z_x², Σ z_x², and Σ over the others' lifts under the prior, times z_x²."""
        p = self._shares
        own, all_squares, under_prior = np.zeros((3, len(p)))
        for lifts, squares in self._sampled_lifts():
            own += (lifts * squares).sum(axis=0)
            all_squares += squares.sum(axis=0)
            under_prior += (lifts @ p.astype(lifts.dtype)) @ squares
        return own, all_squares, (under_prior - p * own) / np.maximum(1 - p, 1e-9)

    def _sampled_lifts(self) -> Iterable[tuple[NDArray[np.floating], NDArray[np.floating]]]:
        """v and z² of all sampled reports, asked for by every estimate: kept, or some at a time."""
        size, values = len(self._sample), len(self.weights)
        if size * values <= _KEPT_COVERAGES:
            return [self._kept_lifts]
        some = max(1, _COVERAGES_AT_ONCE // values)
        return (self._lifts_of(self._sample[start : start + some]) for start in range(0, size, some))

    @cached_property
    def _kept_lifts(self) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Half as much to read for every estimate; the sample itself is good to two digits."""
        lifts, squares = self._lifts_of(self._sample)
        return lifts.astype(np.float32), squares.astype(np.float32)

    def _lifts_of(self, reports: Integers) -> tuple[Floats, Floats]:
        """v and z² = (J⁻¹v)², a row for each report."""
        lifts = 1 + float(self.amplitude) * (self.coverage(reports) - float(self.share))
        return lifts, (self._shares + self.information.nearly_solve(lifts - 1)) ** 2


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


def nearest_distribution(shares: Floats) -> Floats:
    """The distribution nearest to `shares`, of which some may be negative: all less one number, cut at 0.

    >>> nearest_distribution(np.array([0.9, 0.5, -0.4])).round(6).tolist()
    [0.7, 0.3, 0.0]
    """
    falling = np.sort(shares)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(shares) + 1)
    nearest: Floats = np.maximum(shares - excess[np.flatnonzero(falling > excess)[-1]], 0.0)
    return nearest


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
