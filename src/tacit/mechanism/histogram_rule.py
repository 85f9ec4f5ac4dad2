"""What mechanisms for histograms answer alike that are rules, not tables: their reports are too many to be listed.

Each value is covered or not by a report, or in part: the coverage c_x. Its levels are bounds, from bounds of the lifts
and of the ratio of two likelihoods. With the prior, reports are read by the best guess that is linear in c_x.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from tacit.exact import Floats
from tacit.mechanism.auditing import Audit, Belief, Level, Notion, bounded_audit, bounded_belief
from tacit.mechanism.protocol import ENOUGH_TO_SCORE, NotEstimableError
from tacit.prior import Prior, Value
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
    def lift_range(self) -> tuple[Fraction, Fraction]:
        """Exact bounds (highest, lowest) of the lifts."""

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
