"""The mechanism `shuffled-circle`: histograms of any size, private for a prior or a ball of priors, read without one.

`shuffled_circle_rule` has its integers and the proof of its privacy, `shuffled_circle_information` what its reports
determine. A report is seed · 2^B + position: nobody outside this room takes it apart. Reports are kept as sums of
coverage: T_x = Σ c_x over the reports, d integers in units of 2^-20 that can be added (`fold`). All is read from those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats, Integers
from tacit.mechanism.levels import Audit, Belief, Level, Notion, bounded_audit, bounded_belief
from tacit.mechanism.protocol import Covered, Estimator, Kept, NotEstimableError, RandomWords, Reading
from tacit.mechanism.set_levels import SetLevel
from tacit.mechanism.shuffled_circle_information import (
    CircleInformation,
    circle_information,
    third_central_moment,
)
from tacit.mechanism.shuffled_circle_rule import WORDS_PER_SAMPLE, ShuffledCircleRule
from tacit.mechanism.stand_in import StandIn
from tacit.prior import Prior, PriorSet, Value
from tacit.task import Histogram, Task

#: Coverage is folded in units of 2^-20.
COVERAGE_UNIT = 1 << 20
#: Reports drawn per call of the compiled loop.
_CHUNK = 2**20
#: The prior check looks at the coverage of this many values, the heaviest ones.
_CHECKED = 16
#: The influence of a report is searched among this many values, those of the largest variance.
_SEARCHED = 8
#: The variance under a truth far from the prior is taken over about this many coverages of single values.
_SAMPLED_COVERAGES = 2**24


@dataclass(frozen=True)
class ShuffledCircle(ShuffledCircleRule):
    """A shuffled circle as a mechanism: it serves histograms, with or without the prior."""

    kind: ClassVar[str] = "shuffled-circle"

    @property
    def n_possible_reports(self) -> None:
        """Seeds and positions are too many to be listed."""
        return None

    # -- the promise ---------------------------------------------------------------------------------------------

    def audit(self, prior: Prior) -> Audit:
        """Bounds of the levels; the LDP level is exact."""
        self._check_prior(prior)
        return replace(bounded_audit(prior, *self.lift_range()), ldp=Level(self.odds))

    def set_levels(self, prior_set: PriorSet) -> tuple[SetLevel, SetLevel]:
        """Bounds of the levels under every prior as far from the nominal one as the set reaches."""
        self._check_prior(prior_set.prior)
        highest, lowest = self.lift_range(prior_set.radius)
        return SetLevel(highest), SetLevel(1 / lowest if lowest else None)

    def keeps(self, prior: Prior, notion: Notion, epsilon: Fraction) -> bool:
        """Whether the bounds keep a promise, decided exactly; MIP by the upper level, a bound of it."""
        levels = self.audit(prior)
        level = {"lip": levels.lip, "ldp": levels.ldp, "min_lift": levels.lip_lower}.get(notion, levels.lip_upper)
        return level.holds(epsilon)

    def belief(self, prior: Prior, value: Value) -> Belief:
        """A range in which a report can put the belief that someone holds `value`."""
        self._check_prior(prior)
        return bounded_belief(prior, value, *self.lift_range())

    def _check_prior(self, prior: Prior) -> None:
        if self.weights != prior.on_support().weights:
            raise ValueError("This mechanism was made for another prior.")

    # -- reports -------------------------------------------------------------------------------------------------

    @classmethod
    def sampler(cls, mechanisms: Sequence[ShuffledCircle], priors: Sequence[Prior]) -> ShuffledCircleSampler:
        """The randomizer of several shuffled circles."""
        return ShuffledCircleSampler(mechanisms, priors)

    def can_send(self, report: int) -> bool:
        """Whether there are such a seed and such a position; everybody can send all of them."""
        return 0 <= report < 1 << self.seed_bits + self.cell_bits

    def can_send_many(self, reports: Integers) -> NDArray[np.bool_]:
        """The same for an array."""
        good: NDArray[np.bool_] = (reports >= 0) & (reports < 1 << self.seed_bits + self.cell_bits)
        return good

    def draw_many(self, values: Integers, words: NDArray[np.uint64]) -> Integers:
        """`draw` for arrays: a pure function of two words of `word_bits` bits for each value, shape (n, 2)."""
        from tacit.mechanism import shuffled_circle_loops as loops

        reports = np.empty(len(values), dtype=np.int64)
        sizes = self.cell_array.astype(np.uint32)
        base, step = np.uint64(self.base), np.uint64(self.step)
        loops.draw(values, words, sizes, base, step, self.cell_bits, self.seed_bits, self.choice_bits, reports)
        return reports

    # -- what reports tell ---------------------------------------------------------------------------------------

    def fold(self, reports: Integers, times: Integers | None = None) -> Integers:
        """T_x = Σ times·c_x over the reports for every value of the support, in units of 2^-20.

        The sums are integers: any split of the reports adds up to the same. Below 2^43 reports in all, O(d) for each.
        """
        from tacit.mechanism import shuffled_circle_loops as loops

        sums: Integers = loops.fold_reports(
            np.ascontiguousarray(reports, dtype=np.int64), times, self.cell_array.astype(np.uint32), self.arc,
            self.cell_bits,
        )  # fmt: skip
        return sums

    @cached_property
    def information(self) -> CircleInformation:
        """J of this circle and its inverse."""
        if len(self.weights) == 1:
            raise NotEstimableError("A circle of one value tells nothing: everybody holds it.")
        return circle_information(self.cell_array, self.arc, self.circle, float(self.amplitude))

    @cached_property
    def _shares(self) -> Floats:
        """P̃, as the circle has it."""
        shares: Floats = self.cell_array / self.circle
        return shares

    @cached_property
    def _spread(self) -> Floats:
        """D_x, the variance of the coverage of every value under the prior."""
        return np.zeros(1) if len(self.weights) == 1 else self.information.spread[self.information.which]

    def gains(self, prior: Prior) -> Floats:
        """P_x² q² D_x for every value of the support: what a report removes from the variance P_x(1 − P_x)."""
        gains: Floats = (prior.probabilities[list(prior.support)] * float(self.amplitude)) ** 2 * self._spread
        return gains

    def gain(self, prior: Prior, task: Task) -> float:
        """Σ_x P_x² E[(lift_x − 1)²]."""
        _check_task(task)
        return float(self.gains(prior).sum())

    def variances(self) -> Floats:
        """(J⁻¹)_xx − P̃_x²: the variance per respondent of the unbiased share of every value, if the prior is true."""
        if len(self.weights) == 1:
            return np.zeros(1)
        variances: Floats = self.information.inverse_diagonal() - self._shares**2
        return variances

    def unbiased_variance(self, prior: Prior, task: Task) -> float:
        """Σ_x of `variances`."""
        _check_task(task)
        return float(self.variances().sum())

    def read(self, estimator: Estimator, prior: Prior, task: Task, kept: Kept) -> Reading:
        """The histogram from the sums T of N reports.

        mmse:      Σ Pr(x|report) = P_x (N + q(T_x − mN)); its spread is the mean under the prior, P(1−P) − gain.
        unbiased:  J⁻¹ Σ v = P̃N + q J⁻¹(T − mN), unbiased under every truth because E[v | X = x] = J e_x.
        """
        folded, weight = self._folded(kept)
        squares = weight
        _check_task(task)
        self._check_prior(prior)
        if estimator == "mle":
            raise NotEstimableError("Sums of coverage have no likelihood. Use the estimator 'unbiased' or 'mmse'.")
        inside = list(prior.support)
        if estimator == "mmse":
            p = prior.probabilities[inside]
            sums = p * (weight + float(self.amplitude) * self._away(folded, weight))
            spread, influence = p * (1 - p) - self.gains(prior), float(p.max()) * float(self.amplitude)
        else:
            sums = self.unbiased_sums(folded, weight)
            spread, influence = self._spread_of_one(sums / weight if weight else self._shares), self._influence
        outside = 0.0 if estimator == "mmse" else np.nan  # No report speaks of a value outside the support.
        estimate, variance = np.full((2, len(prior)), outside)
        estimate[inside], variance[inside] = sums, squares * np.maximum(spread, 0.0)
        return Reading(estimate, variance, influence)

    def _away(self, folded: NDArray[Any], weight: float) -> Floats:
        """T − mN: how much more than under the prior every value is covered."""
        away: Floats = np.asarray(folded, dtype=np.float64) / COVERAGE_UNIT - float(self.share) * weight
        return away

    def unbiased_sums(self, folded: NDArray[Any], weight: float) -> Floats:
        """P̃N + q J⁻¹(T − mN) for the values of the support; of one report these are its pseudo-values."""
        if len(self.weights) == 1:
            return np.array([weight])
        solved = self.information.solve(self._away(folded, weight))
        sums: Floats = self._shares * weight + float(self.amplitude) * solved
        return sums

    def _spread_of_one(self, shares: Floats) -> Floats:
        """The variance that one report adds to each unbiased sum, given its sender's answer, at estimated shares."""
        if len(self.weights) == 1:
            return np.zeros(1)
        truth = nearest_distribution(shares)
        for_holders, for_others = self._conditional_variances
        sampled_for_holders, drift = self._sampled_moments(truth)
        for_holders = np.maximum(for_holders, sampled_for_holders)
        spread: Floats = truth * for_holders + (1 - truth) * for_others * drift
        return spread

    @cached_property
    def _conditional_variances(self) -> tuple[Floats, Floats]:
        """Var(z_x | X = x) and the mean of Var(z_x | X = x') over the others, of what a report says of x, z = J⁻¹v.

        Mixed by the share θ_x that holds x they are the variance for every truth in which the others are as the prior
        has them among themselves; `_sampled_moments` has what this leaves out.

        As E[z_x | X] is 1 for x and 0 for others, they are E[v_x z_x²] − 1 and, by the mean (J⁻¹)_xx of E[z_x² | X]
        under the prior, ((J⁻¹)_xx − P̃_x E[v_x z_x²])/(1 − P̃_x). From E[z_x v] = e_x follow E z_x = P̃_x and the slope
        b = (1−P̃_x)/qD_x of z_x on c_x; with the rest of z_x taken as independent of c_x (small; none for two values)

            E[v_x z_x²] = (J⁻¹)_xx + 2q b P̃_x D_x + q b² E(c_x − m)³.
        """
        p, q, spread = self._shares, float(self.amplitude), self._spread
        slope, inverse = (1 - p) / (q * spread), self.information.inverse_diagonal()
        skew = third_central_moment(p, float(self.share))
        own = inverse + 2 * q * slope * p * spread + q * slope**2 * skew
        return np.maximum(own - 1, 0.0), np.maximum((inverse - p * own) / (1 - p), 0.0)

    def _sampled_moments(self, truth: Floats) -> tuple[Floats, Floats]:
        """Var(z_x | X = x), and E[z_x² | X ≠ x] under a truth relative to the prior's, by a fixed sample of reports.

        E[z_x² | X = x'] = E[v_x' z_x²] over uniform reports, linear in the truth. Means are over the same reports: the
        first is scaled by the known E z_x² = (J⁻¹)_xx, and the second is 1 if truth and prior are equal. The relative
        error is a few hundredths; where arcs are so short that no sampled one covers x, both err towards the prior's.
        """
        n_sampled = int(np.clip(_SAMPLED_COVERAGES // len(self.weights), 256, 2048))
        m, q, p = float(self.share), float(self.amplitude), self._shares
        others = np.maximum(1 - np.array([truth, p]), 1e-9)
        means, own, all_squares = np.zeros((2, len(p))), np.zeros(len(p)), np.zeros(len(p))
        for report in np.random.default_rng(0).integers(0, 1 << self.seed_bits + self.cell_bits, n_sampled).tolist():
            lifts = 1 + q * (self.covered_cells(report) / self.cell_array - m)
            squares = (p + self.information.solve(lifts - 1)) ** 2
            means += np.array([(at @ lifts - at * lifts) * squares for at in (truth, p)]) / others
            own, all_squares = own + lifts * squares, all_squares + squares
        for_holders: Floats = self.information.inverse_diagonal() * own / np.maximum(all_squares, 1e-300) - 1
        drift: Floats = means[0] / np.maximum(means[1], 1e-300)
        return for_holders, drift

    @cached_property
    def _influence(self) -> float:
        """How far one report exchanged for another can move an unbiased sum: the range of q(J⁻¹c)_x over coverages.

        Bounded by all c in [0, 1] with Σ P̃c = m, a knapsack, for the values of the largest (J⁻¹)_xx.
        """
        if len(self.weights) == 1:
            return 0.0
        most = np.argsort(-self.information.inverse_diagonal(), kind="stable")[:_SEARCHED]
        share, widest = float(self.share), 0.0
        for value in most.tolist():
            row = self.information.inverse_row(value)
            widest = max(widest, _best_cover(row, self._shares, share) + _best_cover(-row, self._shares, share))
        return float(self.amplitude) * widest

    def _folded(self, kept: Kept) -> tuple[Integers, float]:
        """T and N; reports that were kept one by one are folded."""
        if not isinstance(kept, Covered):
            folded = self.fold(kept.reports, np.rint(kept.counts).astype(np.int64))
            return folded, float(kept.counts.sum())
        most = kept.total * COVERAGE_UNIT
        if kept.coverage.shape != (len(self.weights),) or not ((kept.coverage >= 0) & (kept.coverage <= most)).all():
            raise ValueError("These sums of coverage cannot be of this mechanism's reports.")
        return kept.coverage, float(kept.total)

    def prior_statistic(self, prior: Prior, kept: Kept) -> tuple[float, int]:
        """The coverage of the heaviest values against the prior: if that is true, (T − mN)/√N of some values has mean 0
        and covariance A.
        """
        folded, weight = self._folded(kept)
        squares = weight
        n_checked = min(_CHECKED, len(self.weights) - 1)
        if n_checked == 0 or squares == 0:
            return 0.0, 0
        heaviest = np.argsort(-self.cell_array, kind="stable")[:n_checked]
        off = self._away(folded, weight)[heaviest]
        covariance = squares * self.information.coverage_covariance(heaviest)
        return float(off @ np.linalg.solve(covariance, off)), n_checked

    # -- the contract --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """What a plan holds beside the prior: five integers below 2^53."""
        return {
            "kind": self.kind,
            "arc": self.arc,
            "step": self.step,
            "cell_bits": self.cell_bits,
            "seed_bits": self.seed_bits,
            "word_bits": self.word_bits,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], prior: Prior) -> ShuffledCircle:
        """Read what `to_dict` wrote; the cells are laid out again, by integers only."""
        numbers = {name: data[name] for name in ("arc", "step", "cell_bits", "seed_bits", "word_bits")}
        for name, number in numbers.items():
            if type(number) is not int or not 0 <= number < 2**53:
                raise ValueError(f"The {name!r} of a shuffled circle must be an integer from 0 to 2^53 - 1.")
        return cls(prior.on_support().weights, **numbers)


class ShuffledCircleSampler:
    """Shuffled circles with their stand-ins, ready to draw."""

    def __init__(self, mechanisms: Sequence[ShuffledCircle], priors: Sequence[Prior]) -> None:
        self._members = [(each, StandIn(prior)) for each, prior in zip(mechanisms, priors, strict=True)]

    def one(self, member: int, position: int, words: RandomWords) -> int:
        """One respondent's report."""
        mechanism, stand_in = self._members[member]
        inside = stand_in.one(position, words)
        return mechanism.draw(inside, (words.integer(mechanism.word_bits), words.integer(mechanism.word_bits)))

    def many(self, members: Integers, positions: Integers, words: RandomWords) -> Integers:
        """A report for each respondent, one mechanism after the other."""
        if len(self._members) == 1:
            return self._of(0, positions, words)
        reports = np.empty(len(positions), dtype=np.int64)
        for member in range(len(self._members)):
            mine = np.flatnonzero(members == member)
            reports[mine] = self._of(member, positions[mine], words)
        return reports

    def _of(self, member: int, positions: Integers, words: RandomWords) -> Integers:
        mechanism, stand_in = self._members[member]
        reports = np.empty(len(positions), dtype=np.int64)
        for start in range(0, len(positions), _CHUNK):
            part = slice(start, start + _CHUNK)
            inside = stand_in.many(positions[part], words)
            drawn = words.draw(len(inside) * WORDS_PER_SAMPLE, 64).reshape(-1, WORDS_PER_SAMPLE)
            if mechanism.word_bits < 64:
                drawn = drawn >> np.uint64(64 - mechanism.word_bits)
            reports[part] = mechanism.draw_many(inside, drawn)
        return reports


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
