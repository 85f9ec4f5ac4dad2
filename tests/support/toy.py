"""A mechanism of one's own, as a newcomer would write it: k-ary randomized response as a rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit import Histogram, Plan, make_plan
from tacit.exact import Floats, Integers, exp_below
from tacit.mechanism import KINDS, Audit, Belief, Channel, Counts, Kept, Notion, PlainEstimator, Reading, SetLevel
from tacit.mechanism.protocol import are_below
from tacit.mechanism.sampling import RuleSampler, StandIn
from tacit.prior import Prior, PriorSet, Value
from tacit.task import Task

if TYPE_CHECKING:
    import pytest

    from tacit.designs._methods import Design, Request


@dataclass(frozen=True, kw_only=True)
class KaryRule:
    """Two words α, β of w bits: the answer itself if α < `truth`, else ⌊β·d/2^w⌋, d a power of two.

    >>> KaryRule(prior=Prior.uniform(4), truth=3, word_bits=3).draw(2, (3, 7))
    3
    """

    kind: ClassVar[str] = "kary-rule"
    words_per_report: ClassVar[int] = 2
    steps_per_report: ClassVar[int] = 2

    prior: Prior
    truth: int
    word_bits: int = 32

    def __post_init__(self) -> None:
        d, words = len(self.prior), 1 << self.word_bits
        if d & (d - 1) or d > words or not 0 <= self.truth < words:
            raise ValueError("The values must be a power of two, and the truth below 2^w.")

    @cached_property
    def written_out(self) -> Channel:
        """For how many of the 2^2w pairs of words each value sends each report: what it promises, and how it reads."""
        d, words = len(self.prior), 1 << self.word_bits
        other = (words - self.truth) * words // d
        rows = [[other + self.truth * words * (x == y) for y in range(d)] for x in range(d)]
        return Channel.from_weights(self.prior, rows)

    def under(self, prior: Prior) -> KaryRule:
        if len(prior) != len(self.prior):
            raise ValueError("The prior must have as many values.")
        return replace(self, prior=prior)

    def table(self) -> None:
        return None

    @property
    def is_quick(self) -> bool:
        return True

    @property
    def n_possible_reports(self) -> int:
        return len(self.prior)

    # -- the promise ---------------------------------------------------------------------------------------------

    def audit(self) -> Audit:
        return self.written_out.audit()

    def keeps(self, notion: Notion, epsilon: Fraction) -> bool:
        return self.written_out.keeps(notion, epsilon)

    def belief(self, value: Value) -> Belief:
        return self.written_out.belief(value)

    def set_levels(self, prior_set: PriorSet) -> tuple[SetLevel, SetLevel]:
        return self.written_out.set_levels(prior_set)

    def likelihood(self, value: int, report: int) -> Fraction:
        return self.written_out.likelihood(value, report)

    # -- reports -------------------------------------------------------------------------------------------------

    @classmethod
    def sampler(cls, mechanisms: Sequence[KaryRule]) -> RuleSampler:
        return RuleSampler([(each, StandIn(Prior.uniform(len(each.prior)))) for each in mechanisms])

    def draw(self, value: int, words: tuple[int, ...]) -> int:
        return value if words[0] < self.truth else words[1] * len(self.prior) >> self.word_bits

    def draw_many(self, values: Integers, words: NDArray[np.uint64]) -> Integers:
        bits = np.uint64(self.word_bits - len(self.prior).bit_length() + 1)
        other = (words[:, 1] >> bits).astype(np.int64)
        return np.where(words[:, 0] < np.uint64(self.truth), values, other)

    def can_send(self, report: int) -> bool:
        return 0 <= report < len(self.prior)

    def can_send_many(self, reports: Integers) -> NDArray[np.bool_]:
        return are_below(reports, len(self.prior))

    @property
    def n_sums(self) -> None:
        return None

    def keep(self, reports: Integers, times: Integers | None = None) -> Counts:
        return Counts.of(reports, times=times)

    # -- what reports tell ---------------------------------------------------------------------------------------

    def gain(self, task: Task) -> float:
        return self.written_out.gain(task)

    def unbiased_variance(self, task: Task) -> float:
        return self.written_out.unbiased_variance(task)

    def read(self, estimator: PlainEstimator, task: Task, kept: Kept) -> Reading:
        return self.written_out.read(estimator, task, kept)

    def pseudo_values(self, task: Task, reports: Integers, values: Sequence[int] | None = None) -> Floats:
        return self.written_out.pseudo_values(task, reports, values)

    def prior_statistic(self, kept: Kept) -> tuple[float, int]:
        return self.written_out.prior_statistic(kept)

    def prior_scores(self, kept: Kept) -> Floats:
        return self.written_out.prior_scores(kept)

    # -- the contract --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "truth": str(self.truth), "word_bits": self.word_bits}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], prior: Prior) -> KaryRule:
        return cls(prior=prior, truth=int(data["truth"]), word_bits=data["word_bits"])


def kary(request: Request) -> Design:
    """The builder: the largest share of truth with 1 + d·truth/(2^w − truth) ≤ e^ε."""
    from tacit.designs._methods import designed

    ratio, d = exp_below(min(request.promise.levels.values())), len(request.prior)
    truth = int((ratio - 1) * (1 << 32) / (d + ratio - 1))
    mechanism = KaryRule(prior=request.prior, truth=truth)
    return designed(request, mechanism, request.cheap_bound, duals=None, method="k-ary rule", status="feasible")


def planted(monkeypatch: pytest.MonkeyPatch) -> Plan:
    """A plan with the mechanism, after a line in `KINDS` and one in the table of designs."""
    # Here, for Spark's workers import this module and need no designs.
    from tacit.designs import _design

    monkeypatch.setitem(KINDS, KaryRule.kind, KaryRule)
    monkeypatch.setitem(_design._BUILDERS, "kary", kary)
    row = ("four values", lambda request: len(request.prior) == 4, ("kary",))
    monkeypatch.setattr(_design, "TABLE", (row, *_design.TABLE))
    return make_plan(Prior.of({"a": 5, "b": 2, "c": 2, "d": 1}), Histogram(), 1, notion="ldp")
