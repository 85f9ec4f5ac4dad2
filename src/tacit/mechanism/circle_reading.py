"""What the reports of a circle tell: sums of coverage, and histograms read from them.

Reports are kept as sums of coverage: T_x = Σ c_x over the reports, d integers in units of 2^-20 that can be added
(`fold`). All is read from those. Every mechanism has its own `information`: what they determine.

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
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats, Integers
from tacit.mechanism.circle_rule import CircleRule
from tacit.mechanism.protocol import COVERAGE_UNIT, Covered, Kept, NotEstimableError, PlainEstimator, Reading
from tacit.prior import Prior
from tacit.task import Histogram, Task

#: The prior check looks at the coverage of this many values, the heaviest ones.
_CHECKED = 16
#: The influence of a report is searched among this many values, those of the largest variance.
_SEARCHED = 8
#: Up to so many sampled coverages are kept for the next estimate: 64 MiB with their squares.
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

    def coverage_covariance(self, values: NDArray[np.intp]) -> Floats:
        """A for some values."""
        ...


@dataclass(frozen=True, kw_only=True)
class CircleReading(CircleRule):
    """A circle and what its reports tell."""

    #: The variance under a truth far from the prior is taken over about this many coverages of single values.
    _sampled_coverages: ClassVar[int] = 2**24
    _most_sampled: ClassVar[int] = 2048

    @abstractmethod
    def fold(self, reports: Integers, times: Integers | None = None) -> Integers:
        """T_x = Σ times·c_x over the reports for every value of the support, in units of 2^-20.

        The sums are integers: any split of the reports adds up to the same. Below 2^43 reports in all.
        """

    @abstractmethod
    def coverage(self, reports: Integers) -> Floats:
        """c_x of every value of the support, a row for each report, as `fold` adds it up."""

    @property
    @abstractmethod
    def information(self) -> Information:
        """J of this circle and its inverse; raises `NotEstimableError` for a circle of one value."""

    @cached_property
    def _units(self) -> Integers:
        """The units of every piece: those of a value share 2^20 in proportion to their cells, ends rounded down.

        All pieces of a value are covered equally often in the mean, so that how the units are shared out adds no bias.
        """
        ends, sizes = self.offsets + self.piece_cells, self.cell_array[self.owners]
        units: Integers = ends * COVERAGE_UNIT // sizes - self.offsets * COVERAGE_UNIT // sizes
        return units

    @cached_property
    def _shares(self) -> Floats:
        """P̃, as the circle has it."""
        shares: Floats = self.cell_array / self.circle
        return shares

    @cached_property
    def _prior(self) -> Floats:
        """P, as the weights have it; P̃ where the circle follows it so closely that the difference does not matter."""
        if self.cell_error < _CLOSE:
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
        if self.cell_error < _CLOSE:
            return mean, spread, self._prior * q * spread
        drift = (self.information.multiply(self._prior) - 1) / q
        variance = spread + drift * self._skew / spread - drift**2
        return mean + drift, variance, self._prior * (q * spread - drift)

    def gains(self, prior: Prior) -> Floats:
        """Cov(holding x, c_x)²/Var(c_x) for every value of the support: what a report removes from P_x(1 − P_x).

        It is P_x² q² D_x where the circle follows the prior.
        """
        self._check_prior(prior)
        _, variance, covariance = self._under_prior
        gains: Floats = np.zeros(1) if len(self.weights) == 1 else covariance**2 / variance
        return gains

    def gain(self, prior: Prior, task: Task) -> float:
        """Σ_x P_x² E[(lift_x − 1)²]."""
        _check_task(task)
        return float(self.gains(prior).sum())

    def variances(self) -> Floats:
        """The variance per respondent of the unbiased share of every value, if the prior is true.

        It is (J⁻¹)_xx − P_x² where the circle follows the prior, and exact as well where every value has one cell.
        """
        if len(self.weights) == 1:
            return np.zeros(1)
        variances: Floats = self.information.inverse_diagonal() - self._prior**2
        if self.cell_error >= _CLOSE:
            holders, others = self._squares
            variances += (self._prior - self._shares) * (holders - others)
        return variances

    def unbiased_variance(self, prior: Prior, task: Task) -> float:
        """Σ_x of `variances`."""
        _check_task(task)
        return float(self.variances().sum())

    def read(self, estimator: PlainEstimator, prior: Prior, task: Task, kept: Kept) -> Reading:
        """The histogram from the sums T of N reports.

        mmse:      the best guess from c_x that is linear in it, P_x N + slope·(T_x − N·mean). Where the circle follows
                   the prior this is Σ Pr(x|report) = P_x (N + q(T_x − mN)). Its spread is P(1−P) − gain.
        unbiased:  J⁻¹ Σ v = P̃N + q J⁻¹(T − mN), unbiased under every truth because E[v | X = x] = J e_x.
        """
        folded, weight = self._folded(kept)
        _check_task(task)
        self._check_prior(prior)
        if estimator == "mle":
            raise NotEstimableError("Sums of coverage have no likelihood. Use the estimator 'unbiased' or 'mmse'.")
        inside = list(prior.support)
        if estimator == "mmse":
            p, (mean, variance, covariance) = prior.probabilities[inside], self._under_prior
            slope = covariance / np.maximum(variance, 1e-300)
            sums = p * weight + slope * self._away(folded, weight, mean)
            spread, changed = p * (1 - p) - self.gains(prior), float(slope.max())
            added = float(np.abs([p - slope * mean, p + slope * (1 - mean)]).max())
        else:
            sums = self.unbiased_sums(folded, weight)
            spread = self._spread_of_one(sums / weight if weight else self._shares)
            changed, added = self._influence
        outside = 0.0 if estimator == "mmse" else np.nan  # No report speaks of a value outside the support.
        estimate, spreads = np.full((2, len(prior)), outside)
        estimate[inside], spreads[inside] = sums, weight * np.maximum(spread, 0.0)
        return Reading(estimate, spreads, changed, added)

    def pseudo_values(self, prior: Prior, task: Task, reports: Integers) -> Floats:
        """J⁻¹v of each report, O(d) for each: P̃ + q J⁻¹(c − m)."""
        _check_task(task)
        self._check_prior(prior)
        rows = np.full((len(reports), len(prior)), np.nan)
        rows[:, list(prior.support)] = self.unbiased_sums(self.coverage(reports) * COVERAGE_UNIT, 1.0)
        return rows

    def _away(self, folded: NDArray[Any], weight: float, mean: Floats | float) -> Floats:
        """T − N·mean: how much more than in the mean every value is covered."""
        away: Floats = np.asarray(folded, dtype=np.float64) / COVERAGE_UNIT - mean * weight
        return away

    def unbiased_sums(self, folded: NDArray[Any], weight: float) -> Floats:
        """P̃N + q J⁻¹(T − mN) for the values of the support; of one report these are its pseudo-values.

        `folded` may have several rows.
        """
        if len(self.weights) == 1:
            return np.full(np.shape(folded), weight)
        solved = self.information.solve(self._away(folded, weight, float(self.share)))
        sums: Floats = self._shares * weight + float(self.amplitude) * solved
        return sums

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
        under_truth = sum((lifts @ truth) @ squares for lifts, squares in self._sampled_lifts())
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
            under_prior += (lifts @ p) @ squares
        return own, all_squares, (under_prior - p * own) / np.maximum(1 - p, 1e-9)

    def _sampled_lifts(self) -> Iterable[tuple[Floats, Floats]]:
        """v and z² of all sampled reports, asked for by every estimate: kept, or some at a time."""
        size, values = len(self._sample), len(self.weights)
        if size * values <= _KEPT_COVERAGES:
            return [self._kept_lifts]
        some = max(1, _COVERAGES_AT_ONCE // values)
        return (self._lifts_of(self._sample[start : start + some]) for start in range(0, size, some))

    @cached_property
    def _kept_lifts(self) -> tuple[Floats, Floats]:
        return self._lifts_of(self._sample)

    def _lifts_of(self, reports: Integers) -> tuple[Floats, Floats]:
        """v and z² = (J⁻¹v)², a row for each report."""
        lifts = 1 + float(self.amplitude) * (self.coverage(reports) - float(self.share))
        return lifts, (self._shares + self.information.nearly_solve(lifts - 1)) ** 2

    @cached_property
    def _influence(self) -> tuple[float, float]:
        """How far one report changed to another, or added, can move an unbiased sum: P̃_x + q(J⁻¹(c − m))_x.

        Bounded by all c in [0, 1] with Σ P̃c = m, a knapsack, for the values of the largest (J⁻¹)_xx.
        """
        if len(self.weights) == 1:
            return 0.0, 1.0
        most = np.argsort(-self.information.inverse_diagonal(), kind="stable")[:_SEARCHED]
        share, q, changed, added = float(self.share), float(self.amplitude), 0.0, 0.0
        for value in most.tolist():
            row = self.information.inverse_row(value)
            high, low = _best_cover(row, self._shares, share), -_best_cover(-row, self._shares, share)
            middle = self._shares[value] - q * share * row.sum()
            changed = max(changed, q * (high - low))
            added = max(added, abs(middle + q * high), abs(middle + q * low))
        return float(changed), float(added)

    def _folded(self, kept: Kept) -> tuple[Integers, float]:
        """T and N; reports that were kept one by one are folded."""
        if not isinstance(kept, Covered):
            folded = self.fold(kept.reports, np.rint(kept.counts).astype(np.int64))
            return folded, float(kept.counts.sum())
        most = kept.total * COVERAGE_UNIT
        if kept.coverage.shape != (len(self.weights),) or not ((kept.coverage >= 0) & (kept.coverage <= most)).all():
            raise ValueError("These sums of coverage cannot be of this mechanism's reports.")
        # Every report covers L cells, so Σ n_x T_x is known but for the rounding of each piece to whole units.
        covered = sum(n * t for n, t in zip(self.cells, kept.coverage.tolist(), strict=True))
        if abs(covered - self.arc * most) > self.circle * kept.total * (max(self.pieces) + 1):
            raise ValueError("These sums of coverage cannot be of this mechanism's reports: they do not add up.")
        return kept.coverage, float(kept.total)

    def prior_statistic(self, prior: Prior, kept: Kept) -> tuple[float, int]:
        """The coverage of the heaviest values against the prior: if that is true, its mean is known and so, up to a
        scale where the circle does not follow the prior, is its covariance A.
        """
        self._check_prior(prior)
        folded, weight = self._folded(kept)
        n_checked = min(_CHECKED, len(self.weights) - 1)
        if n_checked == 0 or weight == 0:
            return 0.0, 0
        mean, variance, _ = self._under_prior
        heaviest = np.argsort(-self._prior, kind="stable")[:n_checked]
        off = (self._away(folded, weight, mean) / np.sqrt(variance / self._spread))[heaviest]
        covariance = weight * self.information.coverage_covariance(heaviest)
        return float(off @ np.linalg.solve(covariance, off)), n_checked

    def _check_prior(self, prior: Prior) -> None:
        if self.weights != prior.on_support().weights:
            raise ValueError("This mechanism was made for another prior.")


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


def _best_cover(worth: Floats, shares: Floats, mass: float) -> float:
    """max Σ worth·c over c in [0, 1] with Σ shares·c = mass: the best density first, the last value in part."""
    order = np.argsort(-worth / shares, kind="stable")
    reached = np.cumsum(shares[order])
    c = np.clip((mass - (reached - shares[order])) / shares[order], 0.0, 1.0)
    return float(worth[order] @ c)


def _check_task(task: Task) -> None:
    if not isinstance(task, Histogram):
        raise NotEstimableError(f"This mechanism serves histograms only. Got {type(task).__name__} instead.")
