"""What the circles have in common as mechanisms: histograms of any size, private for a prior or a ball of priors.

`circle_rule` has their integers and the proof of their privacy, `circle_reading` what their reports tell. A report is
order · 2^B + position: nobody outside these rooms takes it apart.

What the reports of a circle tell: sums of coverage, and histograms read from them.

Reports are kept as sums of coverage: T_x = Σ c_x over the reports, d integers in units of 2^-20 that can be added
(`fold`). All is read from those. Every mechanism has its own `information`: what they determine.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats, Integers
from tacit.mechanism.auditing import Audit, Belief, Level, Notion, SetLevel, bounded_audit, bounded_belief
from tacit.mechanism.circle._moments import CircleMoments
from tacit.mechanism.circle._rule import WORDS_PER_SAMPLE
from tacit.mechanism.kept import COVERAGE_UNIT, Coverage, Kept
from tacit.mechanism.protocol import ENOUGH_TO_SCORE, NotEstimableError, PlainEstimator, Reading
from tacit.mechanism.sampling import RuleSampler, StandIn
from tacit.prior import Prior, PriorSet, Value
from tacit.task import Task

#: The prior check looks at the coverage of so many values, the heaviest ones, and of the others in so many bins.
_CHECKED_ALONE, _CHECKED_BINS = 11, 5
#: The influence of a report is searched among this many values, those of the largest variance.
_SEARCHED = 8


@dataclass(frozen=True, kw_only=True)
class CircleReading(CircleMoments):
    """A circle and what its reports tell."""

    @abstractmethod
    def fold(self, reports: Integers, times: Integers | None = None) -> Integers:
        """T_x = Σ times·c_x over the reports for every value of the support, in units of 2^-20.

        The sums are integers: any split of the reports adds up to the same. Below 2^43 reports in all.
        """

    @cached_property
    def _units(self) -> Integers:
        """The units of every piece: those of a value share 2^20 in proportion to their cells, ends rounded down.

        All pieces of a value are covered equally often in the mean, so that how the units are shared out adds no bias.
        """
        ends, sizes = self.offsets + self.piece_cells, self.cell_array[self.owners]
        units: Integers = ends * COVERAGE_UNIT // sizes - self.offsets * COVERAGE_UNIT // sizes
        return units

    def gains(self) -> Floats:
        """Cov(holding x, c_x)²/Var(c_x) for every value of the support: what a report removes from P_x(1 − P_x).

        It is P_x² q² D_x where the circle follows the prior.
        """
        _, variance, covariance = self._under_prior
        gains: Floats = np.zeros(1) if len(self.weights) == 1 else covariance**2 / variance
        return gains

    def gain(self, task: Task) -> float:
        """Σ_x P_x² E[(lift_x − 1)²]."""
        _check_task(task)
        return float(self.gains().sum())

    def variances(self) -> Floats:
        """The variance per respondent of the unbiased share of every value, if the prior is true.

        It is (J⁻¹)_xx − P_x² where the circle follows the prior, and exact as well where every value has one cell.
        """
        if len(self.weights) == 1:
            return np.zeros(1)
        variances: Floats = self.information.inverse_diagonal() - self._prior**2
        if not self.follows_prior:
            holders, others = self._squares
            variances += (self._prior - self._shares) * (holders - others)
        return variances

    def unbiased_variance(self, task: Task) -> float:
        """Σ_x of `variances`."""
        _check_task(task)
        return float(self.variances().sum())

    def read(self, estimator: PlainEstimator, task: Task, kept: Kept) -> Reading:
        """The histogram from the sums T of N reports.

        mmse:      the best guess from c_x that is linear in it, P_x N + slope·(T_x − N·mean). Where the circle follows
                   the prior this is Σ Pr(x|report) = P_x (N + q(T_x − mN)). Its spread is P(1−P) − gain.
        unbiased:  J⁻¹ Σ v = P̃N + q J⁻¹(T − mN), unbiased under every truth because E[v | X = x] = J e_x.
        """
        folded, weight = self._folded(kept)
        _check_task(task)
        if estimator == "mle":
            raise NotEstimableError("Sums of coverage have no likelihood. Use the estimator 'unbiased' or 'mmse'.")
        prior, inside = self.prior, list(self.prior.support)
        if estimator == "mmse":
            p, (mean, variance, covariance) = prior.probabilities[inside], self._under_prior
            slope = covariance / np.maximum(variance, 1e-300)
            sums = p * weight + slope * self._away(folded, weight, mean)
            spread, changed = p * (1 - p) - self.gains(), float(slope.max())
            added = float(np.abs([p - slope * mean, p + slope * (1 - mean)]).max())
        else:
            sums = self.unbiased_sums(folded, weight)
            spread = self._spread_of_one(sums / weight if weight else self._shares)
            changed, added = self._influence
        outside = 0.0 if estimator == "mmse" else np.nan  # No report speaks of a value outside the support.
        estimate, spreads = np.full((2, len(prior)), outside)
        estimate[inside], spreads[inside] = sums, weight * np.maximum(spread, 0.0)
        return Reading(estimate, spreads, changed, added)

    def pseudo_values(self, task: Task, reports: Integers, values: Sequence[int] | None = None) -> Floats:
        """J⁻¹v of each report: P̃ + q J⁻¹(c − m). For some values J is solved once for each, not for each report."""
        _check_task(task)
        covered, support = self.coverage(reports), np.array(self.prior.support)
        if values is None:
            rows = np.full((len(reports), len(self.prior)), np.nan)
            rows[:, support] = self.unbiased_sums(covered * COVERAGE_UNIT, 1.0)
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
        sums = kept.folded(self.fold)
        most = sums.total * COVERAGE_UNIT
        if sums.coverage.shape != (len(self.weights),) or not ((sums.coverage >= 0) & (sums.coverage <= most)).all():
            raise ValueError("These sums of coverage cannot be of this mechanism's reports.")
        # Every report covers L cells, so Σ n_x T_x is known but for the rounding of each piece to whole units.
        # In two halves, since the products may be larger than 64 bits.
        high, low = (int(self.cell_array @ half) for half in (sums.coverage >> 32, sums.coverage & (1 << 32) - 1))
        covered = (high << 32) + low
        if abs(covered - self.arc * most) > self.circle * sums.total * (self.most_pieces + 1):
            raise ValueError("These sums of coverage cannot be of this mechanism's reports: they do not add up.")
        return sums.coverage, float(sums.total)

    def prior_statistic(self, kept: Kept) -> tuple[float, int]:
        """The coverage of the heaviest values and of bins of the others against the prior: if that is true, its mean is
        known and so, up to a scale where the circle does not follow the prior, is its covariance A.
        """
        folded, weight = self._folded(kept)
        if len(self.weights) == 1 or weight == 0:
            return 0.0, 0
        bins, inverse, freedom = self._checked
        off = bins @ self._away(folded, weight, self._under_prior[0])
        return float(off @ inverse @ off) / weight, freedom

    def prior_scores(self, kept: Kept) -> Floats:
        """(T − N·mean)²/(N·variance) of every value, where the heaviest ones and bins are not all that there are."""
        folded, weight = self._folded(kept)
        mean, variance, _ = self._under_prior
        scored = (weight * variance >= ENOUGH_TO_SCORE) & (len(self.weights) > _CHECKED_ALONE + _CHECKED_BINS)
        scores: Floats = self._away(folded, weight, mean)[scored] ** 2 / (weight * variance[scored])
        return scores

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
        images = np.array([self.information.multiply(row) - row.sum() for row in bins])
        covariance = images @ bins.T / float(self.amplitude) ** 2
        freedom = int(np.linalg.matrix_rank(covariance, rtol=1e-9, hermitian=True))
        inverse = np.linalg.pinv(covariance, rtol=1e-9, hermitian=True).astype(np.float64)
        return bins, inverse, freedom

    def under(self, prior: Prior) -> Self:
        """Itself under a prior of the same weights; raises for any other, since the rule follows the prior."""
        if self.weights != prior.on_support().weights:
            raise ValueError("This mechanism was made for another prior.")
        return replace(self, prior=prior)


@lru_cache(maxsize=64)
def _solved_for(circle: CircleReading, values: tuple[int, ...]) -> Floats:
    """Columns of J⁻¹: reports come in many batches, and the circles of many groups take turns."""
    units = np.zeros((len(values), len(circle.weights)))
    units[np.arange(len(values)), values] = 1.0
    columns: Floats = circle.information.solve(units).T
    return columns


def _best_cover(worth: Floats, shares: Floats, mass: float) -> float:
    """max Σ worth·c over c in [0, 1] with Σ shares·c = mass: the best density first, the last value in part."""
    order = np.argsort(-worth / shares, kind="stable")
    reached = np.cumsum(shares[order])
    c = np.clip((mass - (reached - shares[order])) / shares[order], 0.0, 1.0)
    return float(worth[order] @ c)


def _check_task(task: Task) -> None:
    if not task.per_value:
        raise NotEstimableError(f"This mechanism serves histograms only. Got the task {task.kind!r} instead.")


@dataclass(frozen=True, kw_only=True)
class Circle(CircleReading):
    """A circle as a mechanism: it serves histograms, with or without the prior."""

    kind: ClassVar[str]
    words_per_report: ClassVar[int] = WORDS_PER_SAMPLE
    #: The integers that a plan holds, each below 2^53.
    _integers: ClassVar[tuple[str, ...]] = ("arc", "step", "cell_bits", "seed_bits", "word_bits")

    def table(self) -> None:
        """It is a rule, not a table."""
        return None

    @property
    def is_quick(self) -> bool:
        """Its errors are found at once."""
        return True

    @property
    def n_possible_reports(self) -> None:
        """Orders and positions are too many to be listed."""
        return None

    # -- the promise ---------------------------------------------------------------------------------------------

    def audit(self) -> Audit:
        """Bounds of the levels; the LDP level is reached if an arc can cover one value whole and nothing of another."""
        return replace(bounded_audit(self.prior, *self.lift_range()), ldp=Level(self.odds))

    def set_levels(self, prior_set: PriorSet) -> tuple[SetLevel, SetLevel]:
        """Bounds of the levels under every prior as far from the nominal one as the set reaches."""
        self.under(prior_set.prior)
        highest, lowest = self.lift_range(prior_set.radius)
        return SetLevel(highest), SetLevel(1 / lowest if lowest else None)

    def keeps(self, notion: Notion, epsilon: Fraction) -> bool:
        """Whether the bounds keep a promise, decided exactly; MIP by the upper level, a bound of it."""
        return self.audit().bounds(notion, epsilon)

    def belief(self, value: Value) -> Belief:
        """A range in which a report can put the belief that someone holds `value`."""
        return bounded_belief(self.prior, value, *self.lift_range())

    # -- reports -------------------------------------------------------------------------------------------------

    @classmethod
    def sampler(cls, mechanisms: Sequence[Self]) -> RuleSampler:
        """The randomizer of several circles of a kind."""
        return RuleSampler([(each, StandIn(each.prior)) for each in mechanisms])

    def can_send(self, report: int) -> bool:
        """Whether there are such an order and such a position; everybody can send all of them."""
        order, position = divmod(report, 1 << self.cell_bits)
        return 0 <= order < self.orders and position < self.circle

    def can_send_many(self, reports: Integers) -> NDArray[np.bool_]:
        """The same for an array."""
        orders, positions = reports >> self.cell_bits, reports & (1 << self.cell_bits) - 1
        good: NDArray[np.bool_] = (orders >= 0) & (orders < self.orders) & (positions < self.circle)
        return good

    @property
    def n_sums(self) -> int:
        """A sum for each possible value: nearly every report is different."""
        return len(self.weights)

    def keep(self, reports: Integers, times: Integers | None = None) -> Coverage:
        """The sums of coverage of the reports."""
        return Coverage.of(self.fold(reports, times), reports, times)

    @property
    @abstractmethod
    def steps_per_report(self) -> int:
        """What drawing a report costs, in steps of a loop."""

    @abstractmethod
    def draw_many(self, values: Integers, words: NDArray[np.uint64]) -> Integers:
        """`draw` for arrays: a pure function of two words of `word_bits` bits for each value, shape (n, 2)."""

    # -- the contract --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """What a plan holds beside the prior: some integers below 2^53."""
        return {"kind": self.kind, **{name: getattr(self, name) for name in self._integers}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], prior: Prior) -> Self:
        """Read what `to_dict` wrote; the cells are laid out again, by integers only."""
        numbers = {name: data[name] for name in cls._integers}
        for name, number in numbers.items():
            if type(number) is not int or not 0 <= number < 2**53:
                raise ValueError(
                    f"The {name!r} of a {cls.kind.replace('-', ' ')} must be an integer from 0 to 2^53 - 1."
                )
        return cls(prior=prior, **numbers)
