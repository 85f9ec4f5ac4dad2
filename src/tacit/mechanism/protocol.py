"""The one interface of all mechanisms: what plan, randomizer, files, estimates, service and studies ask of them.

Adding a mechanism means adding a folder with a class that has these methods, and a line in `tacit.mechanism.KINDS`. A
mechanism is bound to one prior and does not change; a report is an integer that only this room interprets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats, Integers
from tacit.mechanism.auditing import Audit, Belief, Notion, SetLevel, mechanism_of
from tacit.mechanism.kept import Kept
from tacit.prior import Prior, PriorSet, Value
from tacit.task import Task, prior_variance

if TYPE_CHECKING:
    from tacit.mechanism.table import Channel

#: Estimators for which the reports of one group suffice.
PlainEstimator = Literal["mmse", "unbiased", "mle"]
WordBits = Literal[8, 16, 32, 64]
#: A sum of this many variances of being covered is normal enough for a score far out: see `Mechanism.prior_scores`.
ENOUGH_TO_SCORE = 25.0
#: Report classes with fewer expected reports are pooled, so that the chi-square approximation holds.
MIN_EXPECTED = 5.0


class NotEstimableError(ValueError):
    """The reports do not determine what is asked, however many there are."""


class RandomWords(Protocol):
    """A source of independent uniform words."""

    @property
    def per_thread(self) -> bool:
        """Whether every thread has a stream of its own; else words are drawn in the order of the rows."""
        ...

    def draw(self, count: int, bits: WordBits) -> NDArray[Any]:
        """`count` words of `bits` bits."""
        ...

    def integer(self, bits: int) -> int:
        """One uniform integer below 2^bits."""
        ...


class HasMechanism(Protocol):
    """What holds a mechanism, such as a `Design` or a group of a plan."""

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism."""
        ...


class Sampler(Protocol):
    """The mechanisms of one kind in a plan, ready to draw reports. `member` counts through them."""

    def one(self, member: int, position: int, words: RandomWords) -> int:
        """The report of one respondent whose answer stands at `position` in the domain."""
        ...

    def many(self, members: Integers, positions: Integers, words: RandomWords) -> Integers:
        """A report for each respondent."""
        ...

    def each(self, positions: Integers, words: Sequence[RandomWords]) -> Integers:
        """What `one` draws for each respondent from a source of words of the respondent's own, of the first member."""
        ...


def are_below(reports: Integers, n_reports: int) -> NDArray[np.bool_]:
    """Whether 0 ≤ report < n_reports, in one look: read without their sign, negative ones are beyond all others.

    >>> are_below(np.array([-1, 0, 4, 5]), 5).tolist()
    [False, True, True, False]
    """
    return np.asarray(reports, dtype=np.int64).view(np.uint64) < np.uint64(n_reports)


def pearson(counts: Floats, marginal: Floats) -> tuple[float, int]:
    """The statistic Σ (n_y − Nλ_y)²/Nλ_y and its degrees of freedom; 0 of these with too few reports to tell.

    >>> pearson(np.array([480.0, 520.0]), np.array([0.5, 0.5]))
    (1.6, 1)
    """
    expected = counts.sum() * marginal
    rare = expected < MIN_EXPECTED
    observed, wanted = counts[~rare], expected[~rare]
    if expected[rare].sum() >= MIN_EXPECTED:
        observed, wanted = np.append(observed, counts[rare].sum()), np.append(wanted, expected[rare].sum())
    elif len(wanted) and rare.any():
        # Too few for a class of their own: they join the last one.
        observed[-1] += counts[rare].sum()
        wanted[-1] += expected[rare].sum()
    if len(wanted) < 2:
        return 0.0, 0
    return float(((observed - wanted) ** 2 / wanted).sum()), len(wanted) - 1


@dataclass(frozen=True)
class Reading:
    """What the reports of one group say: the estimated total per component, its variance, and how far one forged report
    can move a component: one that is `changed` to another, or one more that is `added`. Components that the reports do
    not separate from others are not `determined`; None if all are. One more person who holds a component, in place of
    one who does not, adds `slope` to its variance; 0 where that is negligible. For unbiased estimates from tables
    `by_answer` has g(x) and the variance of a report's part for every answer x, arrays of shape (answers,
    components).
    """

    estimate: Floats
    variance: Floats
    changed: float
    added: float
    determined: NDArray[np.bool_] | None = None
    slope: float | Floats = 0.0
    by_answer: tuple[Floats, Floats] | None = None


class Mechanism(Protocol):
    """How an answer becomes a report, and what reports tell."""

    kind: ClassVar[str]

    @property
    def prior(self) -> Prior:
        """The prior that it is bound to: every level, error and estimate is about this one."""
        ...

    def under(self, prior: Prior) -> Self:
        """The same mechanism bound to another prior; raises `ValueError` where it was made for its own only."""
        ...

    def table(self) -> Channel | None:
        """Itself where it is a table; None where it is a rule."""
        ...

    @property
    def is_quick(self) -> bool:
        """Whether its errors are found in milliseconds; then every reader of a plan finds them again."""
        ...

    @property
    def n_possible_reports(self) -> int | None:
        """How many different reports there are; None where they are too many to be listed."""
        ...

    # -- the promise ---------------------------------------------------------------------------------------------

    def audit(self) -> Audit:
        """Every privacy level, with witnesses."""
        ...

    def keeps(self, notion: Notion, epsilon: Fraction) -> bool:
        """Whether it keeps a promise, decided exactly."""
        ...

    def belief(self, value: Value) -> Belief:
        """A range in which a report can put the belief that someone holds `value`."""
        ...

    def set_levels(self, prior_set: PriorSet) -> tuple[SetLevel, SetLevel]:
        """The upper and the lower side of LIP for the worst prior of a set around the mechanism's own."""
        ...

    def likelihood(self, value: int, report: int) -> Fraction:
        """Q(report | value), exactly; `value` counts through the values of positive prior."""
        ...

    # -- reports -------------------------------------------------------------------------------------------------

    @classmethod
    def sampler(cls, mechanisms: Sequence[Self]) -> Sampler:
        """The randomizer of several mechanisms of this kind."""
        ...

    def can_send(self, report: int) -> bool:
        """Whether there is such a report."""
        ...

    def can_send_many(self, reports: Integers) -> NDArray[np.bool_]:
        """The same for an array."""
        ...

    @property
    def n_sums(self) -> int | None:
        """How many sums its reports are kept as; None where they are counted one by one."""
        ...

    def keep(self, reports: Integers, times: Integers | None = None) -> Kept:
        """What is kept of reports that it can send, each of which came once or `times` times."""
        ...

    # -- what reports tell ---------------------------------------------------------------------------------------

    def gain(self, task: Task) -> float:
        """Σ_y λ_y |E[g|y] − E g|²: the part of the prior variance that one report removes."""
        ...

    def unbiased_variance(self, task: Task) -> float:
        """The variance per respondent, at the prior, of the best estimate that does not use it; ∞ if there is none."""
        ...

    def read(self, estimator: PlainEstimator, task: Task, kept: Kept) -> Reading:
        """The total of `task` over those who sent the reports; raises `NotEstimableError` where they do not tell."""
        ...

    def pseudo_values(self, task: Task, reports: Integers, values: Sequence[int] | None = None) -> Floats:
        """A row r for each report with E[r | X = x] = g(x), for any belief: what `unbiased` adds up, one by one.

        Of a histogram for all values, or for those at some positions. NaN for a value outside the support; raises
        `NotEstimableError` where no such rows exist.
        """
        ...

    def prior_statistic(self, kept: Kept) -> tuple[float, int]:
        """A statistic that is a chi-square if the prior is true, and its degrees of freedom; 0 of these with too few
        reports to tell.
        """
        ...

    def prior_scores(self, kept: Kept) -> Floats:
        """Squares, each a chi-square of one degree if the prior is true, for values one by one, where `prior_statistic`
        puts many of them together; none where it does not, or with too few reports to tell.
        """
        ...

    # -- the contract --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """What a plan holds beside the prior."""
        ...

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], prior: Prior) -> Self:
        """The inverse of `to_dict`; raises `ValueError` for what no mechanism can be."""
        ...


def gain(mechanism: Mechanism | HasMechanism, task: Task) -> float:
    """Σ_y λ_y |E[g|y] − E g|²: the part of the prior variance that one report removes, per respondent.

    `mechanism` is a mechanism, a `Design` or a group of a plan; the `task` gives g.

    >>> from tacit import Channel, Prior, Survey
    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> gain(Channel.from_weights(prior, [[3, 1], [1, 3]]), Survey("yes"))
    0.0625
    """
    return mechanism_of(mechanism).gain(task)


def mse(mechanism: Mechanism | HasMechanism, task: Task) -> float:
    """The mean squared error that one respondent contributes to the MMSE estimate of the `task`, if the prior is right.

    Errors of independent respondents add. `mechanism` is a mechanism, a `Design` or a group of a plan.

    >>> from tacit import Channel, Prior, Survey
    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> mse(Channel.from_weights(prior, [[3, 1], [1, 3]]), Survey("yes"))
    0.1875
    """
    inner = mechanism_of(mechanism)
    return max(0.0, prior_variance(inner.prior, task) - gain(inner, task))


def unbiased_variance(mechanism: Mechanism | HasMechanism, task: Task) -> float:
    """The variance per respondent, at the prior, of the best estimate of the `task` that does not use the prior.

    Solving Qᵀp = report frequencies with weights 1/λ gives the covariance J⁻¹ − ppᵀ per respondent, where J = Σ_y λ_y
    v_y v_yᵀ, so for g the variance is tr(gᵀ J⁻¹ g) − |E g|². It is infinite if g is not determined by the reports (J
    singular in its direction). Values outside the support have no part in it. `mechanism` is a mechanism, a `Design` or
    a group of a plan.

    >>> from tacit import Channel, Prior, Survey
    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> round(unbiased_variance(Channel.from_weights(prior, [[3, 1], [1, 3]]), Survey("yes")), 9)
    1.0
    """
    # Where nothing varies, the difference of two floats may fall a hair below zero.
    return max(0.0, mechanism_of(mechanism).unbiased_variance(task))
