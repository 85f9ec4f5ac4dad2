"""What mechanisms for histograms answer alike that are rules, not tables: their reports are too many to be listed.

Each value is covered or not by a report, or in part: the coverage c_x. Its levels are bounds, from bounds of the lifts
and of the ratio of two likelihoods. With the prior, reports are read by the best guess that is linear in c_x.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats, Integers
from tacit.mechanism.auditing import Audit, Belief, Level, Notion, SetLevel, bounded_audit, bounded_belief
from tacit.mechanism.protocol import ENOUGH_TO_SCORE, NotEstimableError
from tacit.mechanism.sampling import RuleSampler, StandIn
from tacit.prior import Prior, PriorSet, Value
from tacit.task import Task

Guess = tuple[Floats, Floats, float, float]


class HistogramRule(ABC):
    """A rule, with bounds of its levels; see the module's docstring."""

    prior: Prior

    def table(self) -> None:
        """It is a rule, not a table."""
        return None

    @property
    def n_possible_reports(self) -> None:
        """Reports are too many to be listed."""
        return None

    # -- the promise ---------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def odds(self) -> Fraction:
        """A bound of the ratio of the likelihoods of two values, for any prior."""

    @abstractmethod
    def lift_range(self, radius: Fraction = Fraction(0)) -> tuple[Fraction, Fraction]:
        """Exact bounds (highest, lowest) of the lifts under every prior within total variation `radius`."""

    @abstractmethod
    def under(self, prior: Prior) -> Self:
        """The same mechanism bound to another prior."""

    def within(self, ratio: Fraction, radius: Fraction = Fraction(0)) -> bool:
        """Whether 1/ratio ≤ lift ≤ ratio holds under every prior within `radius`, in exact arithmetic."""
        highest, lowest = self.lift_range(radius)
        return highest <= ratio and lowest * ratio >= 1

    @cached_property
    def _range(self) -> tuple[Fraction, Fraction]:
        return self.lift_range()

    def audit(self) -> Audit:
        """Bounds of the levels, proved in integers; they name no witness."""
        return replace(bounded_audit(self.prior, *self._range), ldp=Level(self.odds))

    def keeps(self, notion: Notion, epsilon: Fraction) -> bool:
        """Whether the bounds keep a promise, decided exactly."""
        return self.audit().bounds(notion, epsilon)

    def belief(self, value: Value) -> Belief:
        """A range in which a report can put the belief that someone holds `value`."""
        return bounded_belief(self.prior, value, *self._range)

    def set_levels(self, prior_set: PriorSet) -> tuple[SetLevel, SetLevel]:
        """Bounds of the levels under every prior as far from the nominal one as the set reaches."""
        self.under(prior_set.prior)
        highest, lowest = self.lift_range(prior_set.radius)
        return SetLevel(highest), SetLevel(1 / lowest if lowest else None)

    # -- reports -------------------------------------------------------------------------------------------------

    @classmethod
    def sampler(cls, mechanisms: Sequence[Any]) -> RuleSampler:
        """The randomizer of several mechanisms of this kind."""
        return RuleSampler([(each, StandIn(each.prior)) for each in mechanisms])

    @abstractmethod
    def can_send_many(self, reports: Integers) -> NDArray[np.bool_]:
        """Whether there are such reports."""

    def can_send(self, report: int) -> bool:
        """The same for one, of any size."""
        return abs(report) < 1 << 62 and bool(self.can_send_many(np.array([report]))[0])

    # -- what reports tell ---------------------------------------------------------------------------------------

    @abstractmethod
    def gains(self) -> Floats:
        """Cov(holding x, c_x)²/Var(c_x) for every possible value: what a report removes from P_x(1 − P_x)."""

    @abstractmethod
    def variances(self) -> Floats:
        """The variance per respondent of the unbiased share of every possible value, if the prior is true."""

    def gain(self, task: Task) -> float:
        """Σ_x of `gains`."""
        check_task(task)
        return float(self.gains().sum())

    def unbiased_variance(self, task: Task) -> float:
        """Σ_x of `variances`."""
        check_task(task)
        return float(self.variances().sum())

    def best_guess(self, p: Floats, away: Floats, n: float, mean: Floats, slope: Floats) -> Guess:
        """Of n reports P_x n + slope·away, `away` = Σ c_x − n·mean, with the variance of one, P(1−P) − gain; and how
        far one report changed, or added, moves it.
        """
        added = float(np.abs([p - slope * mean, p + slope * (1 - mean)]).max())
        return p * n + slope * away, np.maximum(p * (1 - p) - self.gains(), 0.0), float(slope.max()), added


def scores_of_coverage(away: Floats, variance: Floats) -> Floats:
    """away²/variance of every value, where that is normal enough for a score far out."""
    scored = variance >= ENOUGH_TO_SCORE
    return away[scored] ** 2 / variance[scored]


def check_task(task: Task, estimator: str = "") -> None:
    """Raise unless it is a histogram, and not to be read by its likelihood."""
    if not task.per_value:
        raise NotEstimableError(f"This mechanism serves histograms only. Got the task {task.kind!r} instead.")
    if estimator == "mle":
        raise NotEstimableError("Sums of coverage have no likelihood. Use the estimator 'unbiased' or 'mmse'.")
