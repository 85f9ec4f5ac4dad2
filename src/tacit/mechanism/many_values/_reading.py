"""What the reports of `many-values` tell: sums of coverage, and histograms read from them.

Reports are kept as sums of coverage: T_x = Σ c_x over the reports, d integers in units of 2^-20 that can be added
(`fold`). All is read from those. Where the cells follow the prior, P̃ and P differ by less than matters here, and all
is stated for P̃. Cells of which every value has one, made for LDP or a wide ball, do not follow it; there the moments
under P are exact too, because all values are alike.

How much an unbiased sum varies.  What one report adds to the sum of x is z_x = (J⁻¹v)_x, and E[z_x v] = e_x. For a
giant its slope on c_x is b = (1 − P̃_x)/(qD), D = A_xx. For another value let w_x be c_x less the part s of the circle
under an arc if there is one: with D' = Var(c_x | arc), a the chance of an arc and P'_x/T the share of x on the circle
the slope of z_x on w_x is b' = (1 − P'_x/T)/(qaD'), because L' times "there is an arc" is Σ n_y c_y over the circle.
What is left of z_x is uncorrelated with it and small, of variance R = (J⁻¹)_xx − P̃_x² less b²D or b'²aD'. Under any
truth θ the means t of c_x and a_θ of "there is an arc" are seen in the reports. So is t₀ = t − θ_x/b, the coverage of x
by the reports of others. Reports of those who hold x and of others have different shares of parts of x:

    E c_x² = ρ t₀ + κ θ_x,    κ = (G/D + 2m)/b,    ρ such that it is D + m² under P̃,

with G the third central moment of c_x (and G', D', s, and a(D' + s²) under P̃, for a value on the circle). Both are 1
where c takes two values. (The variance at t alone is too small where x is covered once by chance and often in part.)
So Var z_x is R + b²(E c_x² − t²) for a giant and (a_θ/a)R + b'²(E c_x² − 2st + s²a_θ − (t − sa_θ)²) for another value;
given its sender's answer one report adds Var z_x − θ_x(1 − θ_x), as E[z_x | X] is 1 for x and 0 for others. The squares
of θ_x cancel: one more person who holds x adds b²κ − 1 − 2bt₀, in which t₀ − sa_θ + s stands for t₀ on the circle.

What the reports of `many-values` determine: J = E[v vᵀ] = 11ᵀ + q²A and its inverse, from that of the circle.

v = 1 + q(c − m) are the lifts, A is the covariance of the coverage c under reports that ignore the answer. With the
symbols of `_rule`, s = L'/M' the part of the circle under an arc, W the covariance on the circle given that there is an
arc, c_y the parts of giants that row y covers, and t_y = s if it has an arc, else 0,

    two others:         A = aW + m(s − m),        (the arc is there for all of them together)
    giants, another:    A = Σ_y λ_y t_y c_y − m²,
    giants:             A = Σ_y λ_y c_y c_yᵀ − m².

The inverse.  A report covers equally many cells of the circle wherever its arc is, so W π = 0 for the shares π of the
others in their sum. Let B be J of the giants and of the others as one value: κ = 1 + q²m(s − m) in its corner and
β = 1 + q²(Σ λtc − m²) beside it, and S = (11ᵀ + q²aW)⁻¹, which the circle has; S1 = π. Then J(f_G, f_O) = (r_G, r_O) is

    B(f_G, φ) = (r_G, ρ),   ρ = π·r_O,        f_O = S r_O + (φ − ρ)π,

since 1·f_O = φ: the table tells how many hold each giant or another value, the circle which of the others they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from tacit.exact import Floats, Integers
from tacit.mechanism.histogram_rule import HistogramRule, check_task, scores_of_coverage
from tacit.mechanism.kept import COVERAGE_UNIT, Kept
from tacit.mechanism.many_values._binned import BinnedCircle
from tacit.mechanism.many_values._circle import Information, unit_rows
from tacit.mechanism.many_values._rule import ManyValuesRule
from tacit.mechanism.protocol import NotEstimableError, PlainEstimator, Reading, pearson
from tacit.task import Task

#: The prior check looks at the coverage of the heaviest values, this many, and of the others in this many bins.
_CHECKED_ALONE, _CHECKED_BINS = 11, 5
#: With bins it counts reports by equal slices of the ring, this many.
_SLICES = 16
#: The influence of a report is searched among this many values, those of the largest variance.
_SEARCHED = 8
#: J is solved for rows of this many numbers at once: 8 MiB.
_AT_ONCE = 2**20
#: Cells follow the prior if they are within this total variation of it.
_CLOSE = Fraction(1, 100)


@dataclass(frozen=True, kw_only=True)
class ManyValuesReading(ManyValuesRule, HistogramRule):
    """A rule for many values, and what its reports tell."""

    # -- coverage ------------------------------------------------------------------------------------------------

    def parts(self, reports: Integers) -> tuple[Integers, Integers]:
        """The row of every report, and its order and position of the circle, 0 where it has no arc."""
        rows, rest = np.divmod(reports, self.circle.orders << self.cell_bits)
        alone = reports >= self.with_arc
        rows[alone], rest[alone] = reports[alone] - self.with_arc + self.arc_rows, 0
        return rows, rest

    @cached_property
    def row_cells(self) -> csr_array:
        """k_yg, the cells of every giant that each row covers: a row for each giant."""
        of = [(i, y, k) for y, row in enumerate(self.rows) for i, k in zip(row[2::2], row[3::2], strict=True)]
        places, columns, cells = np.array(of, dtype=np.int64).reshape(-1, 3).T
        return csr_array((cells, (places, columns)), shape=(self.giants, len(self.rows)))

    @cached_property
    def most_cells(self) -> Integers:
        """The most cells that a row covers of each giant."""
        most: Integers = self.row_cells.max(axis=1).toarray().ravel()
        return most

    @cached_property
    def row_units(self) -> csr_array:
        """What a row covers of every giant, in units of 2^-20 of `scales`."""
        units = self.row_cells.copy()
        units.data = units.data * COVERAGE_UNIT // np.repeat(self.most_cells, np.diff(units.indptr))
        return units

    @cached_property
    def scales(self) -> Floats:
        """The most that a report covers of every value, a part of a giant; `fold` counts parts of it."""
        scales = np.ones(len(self.weights))
        if self.giants:
            scales[list(self.named)] = self.most_cells / self.cell_array[list(self.named)]
        return scales

    def fold(self, reports: Integers, times: Integers | None = None) -> Integers:
        """T_x = Σ times·c_x over the reports for every value of the support, in units of 2^-20 of its `scales`.

        The sums are integers: any split of the reports adds up to the same. Below 2^43 reports in all.
        """
        if not self.giants:
            return self.circle.fold(reports, times)
        rows, rest = self.parts(np.ascontiguousarray(reports, dtype=np.int64))
        arcs, often = rows < self.arc_rows, np.zeros(len(self.rows), dtype=np.int64)
        np.add.at(often, rows, 1 if times is None else times)
        sums = np.zeros(len(self.weights), dtype=np.int64)
        sums[list(self.named)] = self.row_units @ often
        sums[self.others] = self.circle.fold(rest[arcs], None if times is None else times[arcs])
        return sums

    def coverage(self, reports: Integers) -> Floats:
        """c_x of every value of the support, a row for each report, as `fold` adds it up."""
        if not self.giants:
            return self.circle.coverage(reports)
        rows, rest = self.parts(np.ascontiguousarray(reports, dtype=np.int64))
        arcs, covered, named = rows < self.arc_rows, np.zeros((len(reports), len(self.weights))), list(self.named)
        covered[:, named] = self.row_units.T.tocsr()[rows].toarray() * self.scales[named] / COVERAGE_UNIT
        if arcs.any():
            covered[np.ix_(np.flatnonzero(arcs), self.others)] = self.circle.coverage(rest[arcs])
        return covered

    @cached_property
    def information(self) -> Information:
        """J of this mechanism and its inverse; raises `NotEstimableError` for one value."""
        if len(self.weights) == 1:
            raise NotEstimableError("A histogram of one value tells nothing: everybody holds it.")
        if not self.giants:
            return self.circle.information_at(float(self.amplitude))
        q, m, with_arc = float(self.amplitude), float(self.share), self._with_arc
        part, named = self.arc / self.circle.circle, list(self.named)
        inner = self.circle.information_at(q * with_arc**0.5)
        chances, covered = self._table
        beside = covered[:, : self.arc_rows] @ chances[: self.arc_rows] * part
        square = (covered * chances) @ covered.T
        spreads, around = np.empty(len(self.weights)), self._shares[self.others]
        spreads[named] = square.diagonal() - m**2
        spreads[self.others] = with_arc * inner.spreads + m * (part - m)
        return GiantsAndCircle(
            circle=inner, around=around / float(around.sum()), named=np.array(named), others=self.others,
            own=q**2 * square, among=1 - (q * m) ** 2, beside=1 + q**2 * (beside - m**2),
            common=1 + q**2 * m * (part - m), spreads=spreads,
        )  # fmt: skip

    @cached_property
    def _table(self) -> tuple[Floats, csr_array]:
        """λ of the rows, and c of every giant in them."""
        chances = np.array(self.of_all, dtype=np.float64) / (1 << self.row_bits)
        return chances, diags_array(1 / self.cell_array[list(self.named)]) @ self.row_cells

    @property
    def _with_arc(self) -> float:
        """a, the chance of an arc where the answer is ignored."""
        return self.covered * self.circle.circle / (self.total * self.arc)

    @property
    def follows_prior(self) -> bool:
        """Whether the cells are so near to the prior that the difference does not matter."""
        return self.cell_error < _CLOSE

    @cached_property
    def _shares(self) -> Floats:
        """P̃, as the cells have it."""
        shares: Floats = self.cell_array / self.total
        return shares

    @cached_property
    def _prior(self) -> Floats:
        """P, as the weights have it; P̃ where the cells follow it so closely that the difference does not matter."""
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
        """E(c_x − m)³ under P̃."""
        if not self.giants:
            return self.circle.skew
        m, with_arc = float(self.share), self._with_arc
        part, skew, (chances, covered) = self.arc / self.circle.circle, np.empty(len(self.weights)), self._table
        # On the circle c is that of an arc, of mean `part`, or 0.
        spread = self._spread_on_arcs
        with_one = self.circle.skew + 3 * (part - m) * spread + (part - m) ** 3
        skew[self.others] = with_arc * with_one - (1 - with_arc) * m**3
        skew[list(self.named)] = (covered**3 - 3 * m * covered**2) @ chances + 2 * m**3
        return skew

    @cached_property
    def _under_prior(self) -> tuple[Floats, Floats, Floats]:
        """Mean and variance of the coverage of x, and its covariance with holding x, if the prior is true.

        They are m, D and P_x q D_x where the cells follow the prior, P = P̃. Elsewhere the weight of a report is
        1 + qg, g = Σ P_x'(c_x' − m), and E[g|c_x] is taken as its regression (AP)_x/D_x·(c_x − m), which it is if all
        values have equally many cells; so with the drift f = qAP they are m + f, D + f E(c − m)³/D − f², P_x(qD − f).
        """
        q, mean, spread = float(self.amplitude), np.full(len(self.weights), float(self.share)), self._spread
        if self.follows_prior:
            return mean, spread, self._prior * q * spread
        drift = (self.information.multiply(self._prior) - 1) / q
        variance = np.maximum(spread + drift * self._skew / spread - drift**2, 0.0)
        return mean + drift, variance, self._prior * (q * spread - drift)

    @cached_property
    def _slope_and_rest(self) -> tuple[Floats, Floats]:
        """The slope b or b', and R, of every value."""
        p, q, spread = self._shares, float(self.amplitude), self._spread
        slope = (1 - p) / (q * spread)
        explained = slope**2 * spread
        if self.giants:
            on_circle = p[self.others] / float(p[self.others].sum())
            within = self._with_arc * self._spread_on_arcs
            slope[self.others] = (1 - on_circle) / (q * within)
            explained[self.others] = slope[self.others] ** 2 * within
        rest = self.information.inverse_diagonal() - p**2 - explained
        return slope, np.maximum(rest, 0.0)

    @property
    def _spread_on_arcs(self) -> Floats:
        """D', the variance of the coverage of the values on the circle, given that there is an arc."""
        m, part = float(self.share), self.arc / self.circle.circle
        spread: Floats = (self._spread[self.others] - m * (part - m)) / self._with_arc
        return spread

    @cached_property
    def _squares(self) -> tuple[Floats, Floats]:
        """ρ and κ of every value."""
        slope, m, chance = self._slope_and_rest[0], float(self.share), np.ones(len(self.weights))
        mean, spread, skew = np.full(len(self.weights), m), self._spread.copy(), self._skew.copy()
        if self.giants:
            mean[self.others], chance[self.others] = self._parts[self.others], self._with_arc
            spread[self.others], skew[self.others] = self._spread_on_arcs, self.circle.skew
        own = (skew / spread + 2 * mean) / slope
        unheld = mean * chance - self._shares / slope
        by_others = ((spread + mean**2) * chance - own * self._shares) / np.maximum(unheld, 1e-300)
        return np.clip(by_others, 0.0, 1.0), own

    @cached_property
    def _parts(self) -> Floats:
        """s for the values on a circle beside giants, 0 for all others."""
        parts = np.zeros(len(self.weights))
        if self.giants:
            parts[self.others] = self.arc / self.circle.circle
        return parts

    def _variance_at(self, covered: Floats, truth: Floats) -> tuple[Floats, Floats]:
        """What one report adds to the variance of the sum of x, given its sender's answer, where the coverage is
        `covered` at the share `truth`, or at 0 below it; and what one more person who holds x adds.
        """
        (slope, rest), (by_others, own), parts, arcs = self._slope_and_rest, self._squares, self._parts, 1.0
        if self.giants:
            arcs = float(np.clip(self.cell_array[self.others] @ covered[self.others] / self.arc, 0.0, 1.0))
            rest = np.where(parts > 0, arcs / self._with_arc, 1.0) * rest
        unheld, held = np.maximum(covered - truth / slope, 0.0), np.clip(truth, 0.0, 1.0)
        mean = unheld + held / slope
        square = by_others * unheld + own * held - 2 * parts * mean + parts**2 * arcs
        variance = rest + slope**2 * np.maximum(square - (mean - parts * arcs) ** 2, 0.0)
        growth = slope**2 * own - 1 - 2 * slope * (unheld - parts * arcs + parts)
        return variance - held * (1 - held), growth

    # -- errors --------------------------------------------------------------------------------------------------

    def gains(self) -> Floats:
        """Cov(holding x, c_x)²/Var(c_x) for every value of the support: what a report removes from P_x(1 − P_x).

        It is P_x² q² D_x where the cells follow the prior.
        """
        _, variance, covariance = self._under_prior
        gains: Floats = np.zeros(1) if len(self.weights) == 1 else covariance**2 / variance
        return gains

    def variances(self) -> Floats:
        """The variance per respondent of the unbiased share of every value, if the prior is true.

        It is (J⁻¹)_xx − P_x² where the cells follow the prior, and exact as well where every value has one cell; ∞ with
        bins.
        """
        if len(self.weights) == 1:
            return np.zeros(1)
        if self.bins:
            return np.full(len(self.weights), np.inf)
        if self.follows_prior:
            variances: Floats = self.information.inverse_diagonal() - self._prior**2
            return variances
        slope, rest = self._slope_and_rest
        return rest + slope**2 * self._under_prior[1]

    # -- estimates -----------------------------------------------------------------------------------------------

    def read(self, estimator: PlainEstimator, task: Task, kept: Kept) -> Reading:
        """The histogram from the sums T of N reports.

        mmse:      the best guess from c_x that is linear in it, P_x N + slope·(T_x − N·mean). Where cells follow the
                   prior this is Σ Pr(x|report) = P_x (N + q(T_x − mN)). Its spread is P(1−P) − gain.
        unbiased:  J⁻¹ Σ v = P̃N + q J⁻¹(T − mN), unbiased under every truth because E[v | X = x] = J e_x.
        """
        folded, weight = self._folded(kept)
        check_task(task, estimator)
        prior, inside, growth = self.prior, list(self.prior.support), np.zeros(len(self.prior))
        if estimator == "mmse":
            p, (mean, variance, covariance) = prior.probabilities[inside], self._under_prior
            slope = covariance / np.maximum(variance, 1e-300)
            sums, spread, changed, added = self.best_guess(p, self._away(folded, weight, mean), weight, mean, slope)
        else:
            sums = self.unbiased_sums(folded, weight)
            spread, growth[inside] = self._spread_and_growth(folded, sums, weight)
            changed, added = self._influence
        outside = 0.0 if estimator == "mmse" else np.nan  # No report tells anything of a value outside the support.
        estimate, spreads = np.full((2, len(prior)), outside)
        estimate[inside], spreads[inside] = sums, kept.weight_squares * np.maximum(spread, 0.0)
        return Reading(estimate, spreads, changed, added, slope=growth)

    def _spread_and_growth(self, folded: Integers, sums: Floats, weight: float) -> tuple[Floats, Floats]:
        """`_variance_at` for these reports."""
        if len(self.weights) == 1 or not weight:
            return np.zeros(len(self.weights)), np.zeros(len(self.weights))
        return self._variance_at(folded * self.scales / COVERAGE_UNIT / weight, sums / weight)

    def pseudo_values(self, task: Task, reports: Integers, values: Sequence[int] | None = None) -> Floats:
        """J⁻¹v of each report: P̃ + q J⁻¹(c − m). For some values J is solved once for each, not for each report."""
        check_task(task)
        if self.bins:
            self.information.solve(np.zeros(len(self.weights)))  # Says why there are none.
        covered, support = self.coverage(reports), np.array(self.prior.support)
        if values is None:
            rows = np.full((len(reports), len(self.prior)), np.nan)
            rows[:, support] = self._sums(covered - float(self.share), 1.0)
            return rows
        rows, asked = np.full((len(reports), len(values)), np.nan), np.asarray(values, dtype=np.int64)
        inside = np.isin(asked, support)
        if inside.any():
            rows[:, inside] = self._some_sums(covered, tuple(np.searchsorted(support, asked[inside]).tolist()))
        return rows

    def _some_sums(self, covered: Floats, values: tuple[int, ...]) -> Floats:
        """What `unbiased_sums` finds of each report for some values of the support."""
        if len(self.weights) == 1:
            return np.ones((len(covered), len(values)))
        told = float(self.amplitude) * (covered - float(self.share)) @ _solved_for(self, values)
        sums: Floats = self._shares[list(values)] + told
        return sums

    def _away(self, folded: NDArray[Any], weight: float, mean: Floats | float) -> Floats:
        """T − N·mean: how much more than in the mean every value is covered."""
        away: Floats = np.asarray(folded, dtype=np.float64) * self.scales / COVERAGE_UNIT - mean * weight
        return away

    def unbiased_sums(self, folded: NDArray[Any], weight: float) -> Floats:
        """P̃N + q J⁻¹(T − mN) for the values of the support. `folded` may have several rows."""
        return self._sums(self._away(folded, weight, float(self.share)), weight)

    def _sums(self, away: Floats, weight: float) -> Floats:
        """P̃N + q J⁻¹ away; of one report these are its pseudo-values."""
        if len(self.weights) == 1:
            return np.full(np.shape(away), weight)
        sums: Floats = self._shares * weight + float(self.amplitude) * self.information.solve(away)
        return sums

    @cached_property
    def _influence(self) -> tuple[float, float]:
        """How far one report changed to another, or added, can move an unbiased sum: P̃_x + q(J⁻¹(c − m))_x.

        Bounded by all c in [0, 1] with Σ P̃c = m, a knapsack, for the values of the largest (J⁻¹)_xx.
        """
        if len(self.weights) == 1:
            return 0.0, 1.0
        most = np.argsort(-self.information.inverse_diagonal(), kind="stable")[:_SEARCHED]
        share, q, changed, added = float(self.share), float(self.amplitude), 0.0, 0.0
        few = max(1, _AT_ONCE // len(self.weights))
        some = (most[start : start + few] for start in range(0, len(most), few))
        rows = (row for each in some for row in self.information.solve(unit_rows(each, len(self.weights))))
        for value, row in zip(most.tolist(), rows, strict=True):
            high, low = _best_cover(row, self._shares, share), -_best_cover(-row, self._shares, share)
            middle = self._shares[value] - q * share * row.sum()
            changed = max(changed, q * (high - low))
            added = max(added, abs(middle + q * high), abs(middle + q * low))
        return float(changed), float(added)

    def _folded(self, kept: Kept) -> tuple[NDArray[Any], float]:
        """T and N; reports that were kept one by one are folded, with bins by their weights."""
        if isinstance(self.circle, BinnedCircle):
            counts = kept.counted()
            often = counts.weighted()[0]
            return self._with_bins(counts.reports, often, self.circle), float(often.sum())
        sums = kept.folded(self.fold)
        most = sums.total * COVERAGE_UNIT
        if sums.coverage.shape != (len(self.weights),) or not ((sums.coverage >= 0) & (sums.coverage <= most)).all():
            raise ValueError("These sums of coverage cannot be of this mechanism's reports.")
        # Every report covers L cells, so Σ n_x T_x is known but for the rounding of each part to whole units.
        # In two halves, since the products may be larger than 64 bits.
        cells = self.cell_array.copy()
        cells[list(self.named)] = self.most_cells if self.giants else 0  # Those of a giant's unit.
        high, low = (int(cells @ half) for half in (sums.coverage >> 32, sums.coverage & (1 << 32) - 1))
        covered = (high << 32) + low
        if abs(covered - self.covered * most) > self.total * sums.total * (self.circle.most_pieces + 2):
            raise ValueError("These sums of coverage cannot be of this mechanism's reports: they do not add up.")
        return sums.coverage, float(sums.total)

    def _with_bins(self, reports: Integers, often: Floats, circle: BinnedCircle) -> Floats:
        """T of reports with bins, in units of 2^-20 of its `scales`."""
        (rows, rest), sums = self.parts(reports), np.empty(len(self.weights))
        arcs = rows < self.arc_rows
        if self.giants:
            sums[list(self.named)] = (
                self.row_units @ np.bincount(rows, weights=often, minlength=len(self.rows)) / COVERAGE_UNIT
            )
        sums[self.others] = circle.covered(rest[arcs], often[arcs])
        return sums * COVERAGE_UNIT

    # -- the prior check -----------------------------------------------------------------------------------------

    def prior_statistic(self, kept: Kept) -> tuple[float, int]:
        """The coverage of the heaviest values and of bins of the others against the prior: if that is true, its mean is
        known and so, up to a scale where the cells do not follow the prior, is its covariance A.
        """
        if isinstance(self.circle, BinnedCircle):
            return self._pearson(kept, self.circle)
        folded, weight = self._folded(kept)
        if len(self.weights) == 1 or weight == 0:
            return 0.0, 0
        bins, inverse, freedom = self._checked
        off = bins @ self._away(folded, weight, self._under_prior[0])
        return float(off @ inverse @ off) / weight, freedom

    def prior_scores(self, kept: Kept) -> Floats:
        """(T − N·mean)²/(N·variance) of every value, where the heaviest ones and bins are not all that there are."""
        if self.bins:
            return np.zeros(0)
        folded, weight = self._folded(kept)
        mean, variance, _ = self._under_prior
        if len(self.weights) <= _CHECKED_ALONE + _CHECKED_BINS:
            return np.zeros(0)
        return scores_of_coverage(self._away(folded, weight, mean), weight * variance)

    def _pearson(self, kept: Kept, circle: BinnedCircle) -> tuple[float, int]:
        """Pearson's chi-square of the reports by giant or bin and by slices of the ring."""
        counts, slices = kept.counted(), np.arange(_SLICES)
        rows, rest = self.parts(counts.reports)
        positions = rest & (1 << self.cell_bits) - 1
        places = np.where(rows < self.arc_rows, (rest >> self.cell_bits) * _SLICES + positions * _SLICES // circle.ring,
                          circle.orders * _SLICES + rows - self.arc_rows)  # fmt: skip
        chances = np.array(self.of_all or [1], dtype=np.float64) / sum(self.of_all or [1])
        of_orders = np.full(circle.orders, self.arc / circle.circle)
        of_orders[circle.bins :] = 1 - circle.bins * self.arc / circle.circle
        of_slices = np.diff(-(-np.append(slices, _SLICES) * circle.ring // _SLICES)) / circle.ring
        with_arc = chances[: self.arc_rows].sum()
        expected = np.concatenate([with_arc * np.outer(of_orders, of_slices).ravel(), chances[self.arc_rows :]])
        seen: Floats = np.bincount(places, weights=counts.counts, minlength=len(expected)).astype(np.float64)
        return pearson(seen, expected)

    @cached_property
    def _checked(self) -> tuple[Floats, Floats, int]:
        """What the prior check adds up, a row for each sum; the inverse of its covariance for one report; and its rank.

        Where all values have equally many cells, their coverage adds up to the same for every report.
        """
        _, variance, _ = self._under_prior
        falling = np.argsort(-self._prior, kind="stable")
        few = len(falling) <= _CHECKED_ALONE + _CHECKED_BINS
        groups = [*falling[: -1 if few else _CHECKED_ALONE, None]]
        groups += [] if few else np.array_split(falling[_CHECKED_ALONE:], _CHECKED_BINS)
        bins = np.zeros((len(groups), len(falling)))
        for row, values in zip(bins, groups, strict=True):
            row[values] = 1 / np.sqrt(variance[values] / self._spread[values])
        images = self.information.multiply(bins) - bins.sum(axis=1, keepdims=True)
        covariance = images @ bins.T / float(self.amplitude) ** 2
        freedom = int(np.linalg.matrix_rank(covariance, rtol=1e-9, hermitian=True))
        inverse = np.linalg.pinv(covariance, rtol=1e-9, hermitian=True).astype(np.float64)
        return bins, inverse, freedom


@lru_cache(maxsize=64)
def _solved_for(mechanism: ManyValuesReading, values: tuple[int, ...]) -> Floats:
    """Columns of J⁻¹: reports come in many batches, and the mechanisms of many groups take turns."""
    columns: Floats = mechanism.information.solve(unit_rows(np.array(values), len(mechanism.weights))).T
    return columns


def _best_cover(worth: Floats, shares: Floats, mass: float) -> float:
    """max Σ worth·c over c in [0, 1] with Σ shares·c = mass: the best density first, the last value in part."""
    order = np.argsort(-worth / shares, kind="stable")
    reached = np.cumsum(shares[order])
    c = np.clip((mass - (reached - shares[order])) / shares[order], 0.0, 1.0)
    return float(worth[order] @ c)


@dataclass(frozen=True, kw_only=True)
class GiantsAndCircle:
    """J of giants and a circle.

    where: `circle` is 11ᵀ + q²aW, `around` = π, `named` the giants and `others` the values on the circle. Of B, J of
    the giants is `own` + `among`·11ᵀ, `beside` = β, `common` = κ; `spreads` = A_xx.
    """

    circle: Information
    around: Floats
    named: Integers
    others: Integers
    own: csr_array
    among: float
    beside: Floats
    common: float
    spreads: Floats

    @cached_property
    def _inverse(self) -> Floats | None:
        """That of `own`, or None if it is diagonal: if no row covers two giants, of which there may be very many."""
        alone = self.own.nnz == len(self.named)
        return None if alone else np.linalg.inv(self.own.toarray()).astype(np.float64)

    def _by_own(self, right: Floats) -> Floats:
        """`own`⁻¹·right; for each row of a matrix."""
        product: Floats = right / self.own.diagonal() if self._inverse is None else right @ self._inverse
        return product

    @cached_property
    def _together(self) -> tuple[Floats, Floats]:
        """Z = `own`⁻¹(1, β), as rows, and C with B_GG⁻¹ = `own`⁻¹ − ZᵀCZ, B_GG the giants' block less ββᵀ/κ."""
        both = np.array([np.ones(len(self.named)), self.beside])
        solved = self._by_own(both)
        return solved, np.linalg.inv(np.diag([1 / self.among, -self.common]) + solved @ both.T).astype(np.float64)

    def _of_giants(self, right: Floats) -> Floats:
        """B_GG⁻¹·right."""
        solved, between = self._together
        product: Floats = self._by_own(right) - (right @ solved.T) @ between @ solved
        return product

    def multiply(self, right: Floats) -> Floats:
        """J·right; for each row of a matrix."""
        product = np.empty(np.shape(right))
        giants, others = right[..., self.named], right[..., self.others]
        of_giants, of_others = giants.sum(axis=-1, keepdims=True), others.sum(axis=-1, keepdims=True)
        product[..., self.named] = giants @ self.own + self.among * of_giants + of_others * self.beside
        seen = self.circle.multiply(others) + (self.common - 1) * of_others
        product[..., self.others] = seen + (giants @ self.beside)[..., None]
        return product

    def solve(self, right: Floats) -> Floats:
        """J⁻¹·right; for each row of a matrix."""
        result, inner = np.empty(np.shape(right)), (right[..., self.others] @ self.around)[..., None]
        giants = self._of_giants(right[..., self.named] - inner * self.beside / self.common)
        together = (inner - (giants @ self.beside)[..., None]) / self.common
        result[..., self.named] = giants
        result[..., self.others] = self.circle.solve(right[..., self.others]) + (together - inner) * self.around
        return result

    def inverse_diagonal(self) -> Floats:
        """(J⁻¹)_xx for every value."""
        (solved, between), inverse = self._together, np.empty(len(self.named) + len(self.others))
        own = 1 / self.own.diagonal() if self._inverse is None else np.diag(self._inverse)
        inverse[self.named] = own - (solved.T @ between * solved.T).sum(axis=1)
        corner = 1 / self.common + float(self.beside @ self._of_giants(self.beside)) / self.common**2
        inverse[self.others] = self.circle.inverse_diagonal() + (corner - 1) * self.around**2
        return inverse
