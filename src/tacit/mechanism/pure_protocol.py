"""What mechanisms have in common that need no prior: the pure protocols of Wang et al. (2017).

Every report covers some of the values. Whether it covers x is all that its likelihood under x depends on,

    Q(y|x) = A_y + B_y·1{y covers x},     (A_y + B_y)/A_y ≤ r   (`odds`),

so ln r is its LDP level whatever else it does. A report covers the value of its sender with probability p (`own`),
and each other value with one and the same probability q (`other`), so that among N reports the C_x that cover x give

    n̂_x = (C_x − Nq)/(p − q),     Var n̂_x = (n_x p(1−p) + (N − n_x) q(1−q))/(p − q)²,

unbiased for every truth, with a variance that is exact and contains no prior. Reports are kept as the sums C.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats, Integers
from tacit.mechanism.levels import Audit, Belief, Level, Notion, bounded_audit, bounded_belief
from tacit.mechanism.protocol import (
    COVERAGE_UNIT,
    ENOUGH_TO_SCORE,
    Covered,
    Kept,
    NotEstimableError,
    PlainEstimator,
    Reading,
    are_below,
)
from tacit.mechanism.set_levels import SetLevel
from tacit.mechanism.stand_in import RuleSampler, StandIn
from tacit.prior import Prior, PriorSet, Value
from tacit.task import Task

#: The prior check looks at the coverage of this many values, the heaviest ones, with correlations of so many reports.
_CHECKED, _SAMPLED = 16, 1 << 16


@dataclass(frozen=True, kw_only=True)
class PureProtocol(ABC):
    """A mechanism for `size` values, all alike; a subclass says what its reports are and which values they cover."""

    kind: ClassVar[str]
    prior: Prior = field(hash=False)

    def under(self, prior: Prior) -> Self:
        """The same mechanism for other beliefs about as many values: no prior enters its rule."""
        if len(prior) != self.size:
            raise ValueError(f"This mechanism was made for {self.size} values. Got a prior of {len(prior)}.")
        return replace(self, prior=prior)

    @property
    def size(self) -> int:
        """d, the number of values."""
        return len(self.prior)

    # -- what a subclass says ------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def odds(self) -> Fraction:
        """r, a bound of the ratio of the likelihoods of two values, in exact integers."""

    @property
    @abstractmethod
    def own(self) -> Fraction:
        """p, the probability that a report covers its sender's value."""

    @property
    @abstractmethod
    def other(self) -> Fraction:
        """q, the probability that a report covers another value."""

    @property
    @abstractmethod
    def cover_range(self) -> tuple[int, int]:
        """Of how many values, at least and at most, a report covers."""

    @property
    @abstractmethod
    def n_reports(self) -> int:
        """Reports are the integers below this."""

    @property
    def counts_at_once(self) -> bool:
        """Whether counting reports takes a time for each that does not grow with the values."""
        return False

    @property
    @abstractmethod
    def word_bits(self) -> int:
        """The bits of a random word."""

    @property
    @abstractmethod
    def words_per_report(self) -> int:
        """How many random words a report takes."""

    @property
    def steps_per_report(self) -> int:
        """What drawing a report costs: a step for each word."""
        return self.words_per_report

    @abstractmethod
    def draw(self, value: int, words: tuple[int, ...]) -> int:
        """The report of a value: a pure function of the words."""

    @abstractmethod
    def draw_many(self, values: Integers, words: NDArray[np.uint64]) -> Integers:
        """The same for arrays, words of shape (n, `words_per_report`)."""

    @abstractmethod
    def covers(self, reports: Integers, values: Integers | None = None) -> NDArray[np.bool_]:
        """Which values each report covers: a row for each, a column for each of all values or of some."""

    @abstractmethod
    def cover_counts(self, reports: Integers, times: Integers | None) -> Integers:
        """C_x for every value: how many of the reports, each of which came `times` times, cover it."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """What a plan holds beside the prior."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: Mapping[str, Any], prior: Prior) -> Self:
        """The inverse of `to_dict`; raises `ValueError` for what no such mechanism can be."""

    # -- the promise ---------------------------------------------------------------------------------------------

    @property
    def n_possible_reports(self) -> None:
        """Reports are kept as sums, never listed."""
        return None

    def lift_range(self) -> tuple[Fraction, Fraction]:
        """Exact bounds (highest, lowest) of the lifts of the values with positive prior.

        With m the prior mass of the values that a report covers, a covered value has the lift r'/(1 + (r'−1)m) and
        another one 1/(1 + (r'−1)m), for some r' ≤ r. Both are widest at r. A covered x has m ≥ P_x, and m is at least
        the mass of the fewest lightest values that a report can cover; the same from above for one that is not.
        """
        prior = self.prior
        weights, (fewest, most) = sorted(prior.weights), self.cover_range
        rarest = min(weight for weight in weights if weight)
        light = max(rarest, sum(weights[:fewest]))
        heavy = min(prior.total - rarest, sum(weights[len(weights) - most :]))
        more = self.odds - 1
        return self.odds / (1 + more * light / prior.total), 1 / (1 + more * heavy / prior.total)

    def audit(self) -> Audit:
        """The LDP level, which no prior enters, and bounds of the others under this one."""
        return replace(bounded_audit(self.prior, *self.lift_range()), ldp=Level(self.odds))

    def keeps(self, notion: Notion, epsilon: Fraction) -> bool:
        """Whether the bounds keep a promise, decided exactly."""
        return self.audit().bounds(notion, epsilon)

    def belief(self, value: Value) -> Belief:
        """A range in which a report can put the belief that someone holds `value`."""
        return bounded_belief(self.prior, value, *self.lift_range())

    def set_levels(self, prior_set: PriorSet) -> tuple[SetLevel, SetLevel]:
        """The LDP level bounds both sides under every prior there is."""
        self.under(prior_set.prior)
        return SetLevel(self.odds), SetLevel(self.odds)

    # -- reports -------------------------------------------------------------------------------------------------

    @classmethod
    def sampler(cls, mechanisms: Sequence[Self]) -> RuleSampler:
        """The randomizer of several: a value with prior zero is randomized like any other, and needs no stand-in."""
        return RuleSampler([(each, StandIn(Prior.uniform(each.size))) for each in mechanisms])

    def can_send(self, report: int) -> bool:
        """Whether there is such a report; everybody can send all of them."""
        return 0 <= report < self.n_reports

    def can_send_many(self, reports: Integers) -> NDArray[np.bool_]:
        """The same for an array."""
        return are_below(reports, self.n_reports)

    def fold(self, reports: Integers, times: Integers | None = None) -> Integers:
        """C_x for every value, in the units of coverage: a value that is covered is covered whole."""
        return self.cover_counts(np.ascontiguousarray(reports, dtype=np.int64), times) * COVERAGE_UNIT

    # -- what reports tell ---------------------------------------------------------------------------------------

    @cached_property
    def _chances(self) -> tuple[float, float]:
        return float(self.own), float(self.other)

    def gains(self) -> Floats:
        """What a report removes from P_x(1 − P_x) by covering x or not: Cov²/Var = (P_x(1−P_x)(p−q))²/π_x(1−π_x)."""
        (p, q), share = self._chances, self.prior.probabilities
        covered = share * p + (1 - share) * q
        gains: Floats = (share * (1 - share) * (p - q)) ** 2 / (covered * (1 - covered))
        return gains

    def gain(self, task: Task) -> float:
        """Σ_x of `gains`."""
        _check_task(task)
        return float(self.gains().sum())

    def variance_at(self, share: Any) -> Any:
        """π(1−π)/(p−q)², the variance per respondent of the estimated share of a value, π = share·p + (1−share)·q."""
        p, q = self._chances
        covered = share * p + (1 - share) * q
        return covered * (1 - covered) / (p - q) ** 2

    def unbiased_variance(self, task: Task) -> float:
        """Σ_x of `variance_at` the prior's shares."""
        _check_task(task)
        return float(self.variance_at(self.prior.probabilities).sum())

    def read(self, estimator: PlainEstimator, task: Task, kept: Kept) -> Reading:
        """The histogram from the sums C of N reports.

        unbiased:  (C_x − Nq)/(p − q), with its exact variance at the estimated counts. It grows with n_x by
                   (p(1−p) − q(1−q))/(p−q)² = (1−p−q)/(p−q), the slope.
        mmse:      Σ Pr(x | whether the report covers x), the mean under the prior given that alone.
        """
        _check_task(task)
        if estimator == "mle":
            raise NotEstimableError("Sums of coverage have no likelihood. Use the estimator 'unbiased' or 'mmse'.")
        counts, n = self._counted(kept)
        p, q = self._chances
        if estimator == "unbiased":
            estimate = (counts - n * q) / (p - q)
            share = np.clip(estimate / n, 0.0, 1.0) if n else np.zeros(self.size)
            spread = (share * p * (1 - p) + (1 - share) * q * (1 - q)) / (p - q) ** 2
            changed, added = 1 / (p - q), max(1 - q, q) / (p - q)
            return Reading(estimate, n * spread, changed, added, slope=(1 - p - q) / (p - q))
        share = self.prior.probabilities
        covered = share * p + (1 - share) * q
        slope = share * (1 - share) * (p - q) / (covered * (1 - covered))
        estimate = share * n + slope * (counts - n * covered)
        spread = np.maximum(share * (1 - share) - self.gains(), 0.0)
        most = np.abs([share - slope * covered, share + slope * (1 - covered)]).max()
        return Reading(estimate, n * spread, float(slope.max()), float(most))

    def pseudo_values(self, task: Task, reports: Integers, values: Sequence[int] | None = None) -> Floats:
        """(1 − q)/(p − q) for the values that a report covers, −q/(p − q) for the others."""
        _check_task(task)
        p, q = self._chances
        covered = self.covers(reports, None if values is None else np.asarray(values, dtype=np.int64))
        rows: Floats = (covered.astype(np.float64) - q) / (p - q)
        return rows

    def _counted(self, kept: Kept) -> tuple[Floats, float]:
        """C and N; reports that were kept one by one are folded."""
        if not isinstance(kept, Covered):
            times = np.rint(kept.counts).astype(np.int64)
            return self.cover_counts(kept.reports, times).astype(np.float64), float(kept.counts.sum())
        counts, rest = np.divmod(kept.coverage, COVERAGE_UNIT)
        fewest, most = self.cover_range
        fits = counts.shape == (self.size,) and not rest.any() and bool(((counts >= 0) & (counts <= kept.total)).all())
        if not fits or not fewest * kept.total <= int(counts.sum()) <= most * kept.total:
            raise ValueError("These sums of coverage cannot be of this mechanism's reports.")
        return counts.astype(np.float64), float(kept.total)

    def prior_statistic(self, kept: Kept) -> tuple[float, int]:
        """How often the heaviest values are covered against what the prior expects.

        Means and variances if the prior is true are exact, correlations those of a fixed sample of reports, which for
        16 values are right to a hundredth or two in every direction.
        """
        counts, n = self._counted(kept)
        if not n:
            return 0.0, 0
        (p, q), share = self._chances, self.prior.probabilities
        heaviest = np.argsort(-share, kind="stable")[: min(_CHECKED, self.size - 1)]
        expected = share[heaviest] * p + (1 - share[heaviest]) * q
        off = (counts[heaviest] - n * expected) / np.sqrt(n * expected * (1 - expected))
        return float(off @ np.linalg.solve(self._correlations(heaviest), off)), len(heaviest)

    def prior_scores(self, kept: Kept) -> Floats:
        """The same of every value, where the heaviest are not all that there are."""
        counts, n = self._counted(kept)
        (p, q), share = self._chances, self.prior.probabilities
        expected = share * p + (1 - share) * q
        variance = n * expected * (1 - expected)
        scored = (variance >= ENOUGH_TO_SCORE) & (self.size - 1 > _CHECKED)
        scores: Floats = (counts - n * expected)[scored] ** 2 / variance[scored]
        return scores

    def _correlations(self, values: Integers) -> Floats:
        """Of being covered, between some values, if the prior is true: those of a sample that is always the same."""
        rng = np.random.default_rng(0)
        words = rng.integers(0, 1 << 64, (_SAMPLED, self.words_per_report), dtype=np.uint64)
        answers = rng.choice(self.size, _SAMPLED, p=self.prior.probabilities)
        reports = self.draw_many(answers, words >> np.uint64(64 - self.word_bits))
        covered = self.covers(reports, values).astype(np.float64)
        spread = covered.std(axis=0)
        # Who is never covered in the sample is not known to go with anybody.
        off = (covered - covered.mean(axis=0)) / np.where(spread, spread, 1.0)
        found: Floats = off.T @ off / _SAMPLED
        np.fill_diagonal(found, 1.0)
        return found


def _check_task(task: Task) -> None:
    if not task.per_value:
        raise NotEstimableError(f"This mechanism serves histograms only. Got the task {task.kind!r} instead.")
