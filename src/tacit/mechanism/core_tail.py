"""The mechanism `core-tail`: a rule for histograms of any size, read with the prior. `core_tail_rule` has its integers.

A report is state · 2^32 + position: nobody outside this room takes it apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats, Integers, exact_ratio
from tacit.mechanism.core_tail_histogram import histogram_gains, posterior_sum
from tacit.mechanism.core_tail_rule import POSITION_BITS, WORDS_PER_SAMPLE, CoreState, CoreTailRule, Words
from tacit.mechanism.levels import Audit, Belief, Notion, bounded_audit, bounded_belief
from tacit.mechanism.pearson import pearson
from tacit.mechanism.protocol import Kept, NotEstimableError, PlainEstimator, Reading, counted
from tacit.mechanism.set_levels import SetLevel, bounded_set_levels
from tacit.mechanism.stand_in import RuleSampler, StandIn
from tacit.prior import Prior, PriorSet, Value
from tacit.task import Task

#: The prior check counts reports by state and by this many equal slices of positions.
_SLICES = 16


@dataclass(frozen=True, kw_only=True)
class CoreTail(CoreTailRule):
    """A core-tail rule as a mechanism: it serves histograms, and is read with the prior only."""

    kind: ClassVar[str] = "core-tail"
    words_per_report: ClassVar[int] = WORDS_PER_SAMPLE
    steps_per_report: ClassVar[int] = 2 * WORDS_PER_SAMPLE

    @property
    def n_possible_reports(self) -> None:
        """Positions on a circle are too many to be listed."""
        return None

    # -- the promise ---------------------------------------------------------------------------------------------

    @cached_property
    def _range(self) -> tuple[Fraction, Fraction]:
        return self.lift_range()

    def audit(self) -> Audit:
        """Bounds of the levels, proved in integers; they name no witness."""
        return bounded_audit(self.prior, *self._range)

    def keeps(self, notion: Notion, epsilon: Fraction) -> bool:
        """Whether the bounds keep a promise, decided exactly; MIP by the upper level, which bounds it."""
        return self.audit().bounds(notion, epsilon)

    def belief(self, value: Value) -> Belief:
        """A range in which a report can put the belief that someone holds `value`."""
        return bounded_belief(self.prior, value, *self._range)

    def set_levels(self, prior_set: PriorSet) -> tuple[SetLevel, SetLevel]:
        """Bounds of the levels from those of the lifts and the radius of the set."""
        self.under(prior_set.prior)
        return bounded_set_levels(prior_set, *self._range)

    def under(self, prior: Prior) -> Self:
        """Itself under a prior of the same weights; raises for any other, since the rule follows the prior."""
        if self.weights != prior.on_support().weights:
            raise ValueError("This mechanism was made for another prior.")
        return replace(self, prior=prior)

    # -- reports -------------------------------------------------------------------------------------------------

    @classmethod
    def sampler(cls, mechanisms: Sequence[CoreTail]) -> RuleSampler:
        """The randomizer of several core-tail mechanisms."""
        return RuleSampler([(each, StandIn(each.prior)) for each in mechanisms])

    def draw(self, value: int, words: tuple[int, ...]) -> int:
        """The report of a value of the support."""
        first, second, third = words
        return self.sample_one(value, (first, second, third))

    def draw_many(self, values: Integers, words: Words) -> Integers:
        """`sample`, compiled where words have 64 bits: the reports of many values, three words for each."""
        if self.word_bits != 64:
            return self.sample(values, words)
        from tacit.mechanism import kernels

        reports = np.empty(len(values), dtype=np.int64)
        kernels.core_tail(values, words, *self.tables, np.uint64(self.cells), len(self.core), reports)
        return reports

    def can_send(self, report: int) -> bool:
        """Whether there is such a state and such a position."""
        state, position = report >> POSITION_BITS, report & (1 << POSITION_BITS) - 1
        return 0 <= state < len(self.states) and position < self.cells

    def can_send_many(self, reports: Integers) -> NDArray[np.bool_]:
        """The same for an array."""
        state, position = reports >> POSITION_BITS, reports & ((1 << POSITION_BITS) - 1)
        good: NDArray[np.bool_] = (reports >= 0) & (state < len(self.states)) & (position < self.cells)
        return good

    def fold(self, reports: Integers, times: Integers | None = None) -> None:
        """Reports are counted one by one: states and positions repeat."""
        return None

    # -- what reports tell ---------------------------------------------------------------------------------------

    @cached_property
    def _gains(self) -> Floats:
        return histogram_gains(self)

    def gain(self, task: Task) -> float:
        """Σ_x P_x² E[(lift_x − 1)²]."""
        _check_task(task)
        return float(self._gains.sum())

    def unbiased_variance(self, task: Task) -> float:
        """∞: one order on the circle does not tell the values apart."""
        return float("inf")

    def read(self, estimator: PlainEstimator, task: Task, kept: Kept) -> Reading:
        """Posterior sums in O((N + d) log(N + d)); their spread at its mean under the prior: N times the MSE."""
        _check_task(task)
        if estimator != "mmse":
            raise NotEstimableError(
                f"The estimator {estimator!r} needs reports that tell all values apart, and this plan's mechanism for "
                f"{len(self.prior):,} values has none. Use 'mmse', or plan again with the aim 'unbiased'."
            )
        prior = self.prior
        received, inside = counted(kept), list(prior.support)
        p = prior.probabilities[inside]
        estimate, variance = np.zeros((2, len(prior)))
        estimate[inside] = posterior_sum(self, received.reports, received.weights)
        variance[inside] = float(received.squares.sum()) * np.maximum(p * (1 - p) - self._gains, 0.0)
        highest, lowest = self._range
        most = float(p.max())
        return Reading(estimate, variance, most * float(highest - lowest), most * float(highest))

    def pseudo_values(self, task: Task, reports: Integers, values: Sequence[int] | None = None) -> Floats:
        """None exist: one order on the circle does not tell the values apart."""
        raise NotEstimableError(
            f"A core-tail mechanism for {len(self.prior):,} values has no pseudo-values: its reports are read with the "
            "prior only. Plan again with the aim 'unbiased'."
        )

    def prior_statistic(self, kept: Kept) -> tuple[float, int]:
        """Pearson's chi-square of the reports by state and slice of positions."""
        received = counted(kept)
        shares = np.array([float(share) for share in self.state_marginal()])
        slices = np.diff([-(-edge * self.cells // _SLICES) for edge in range(_SLICES + 1)]) / self.cells
        state, position = received.reports >> POSITION_BITS, received.reports & ((1 << POSITION_BITS) - 1)
        seen = np.zeros(len(shares) * _SLICES)
        np.add.at(seen, state * _SLICES + position * _SLICES // self.cells, received.counts)
        return pearson(seen, np.outer(shares, slices).ravel())

    def prior_scores(self, kept: Kept) -> Floats:
        """None: the statistic looks at all reports."""
        return np.zeros(0)

    # -- the contract --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """What a plan holds beside the prior: integers below 2^53, larger ones as strings, O(states) of them."""
        return {
            "kind": self.kind,
            "core": list(self.core),
            "share": str(self.share),
            "growth": str(self.growth),
            "states": [[s.weight, f"{s.covered:x}", [list(part) for part in s.parts]] for s in self.states],
            "word_bits": self.word_bits,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], prior: Prior) -> CoreTail:
        """Read what `to_dict` wrote; the tables are rebuilt, by integers only."""
        states = tuple(
            CoreState(weight, int(covered, 16), tuple((i, n) for i, n in parts))
            for weight, covered, parts in data["states"]
        )
        numbers = [*data["core"], data["word_bits"]]
        numbers += [part for state in states for part in (state.weight, *(n for pair in state.parts for n in pair))]
        if any(type(number) is not int for number in numbers):
            raise ValueError("The places, weights and bits of a core-tail mechanism must be integers.")
        share, growth = exact_ratio(data["share"]), exact_ratio(data["growth"])
        return cls(
            prior=prior,
            core=tuple(data["core"]),
            share=share,
            growth=growth,
            states=states,
            word_bits=data["word_bits"],
        )


def _check_task(task: Task) -> None:
    if not task.per_value:
        raise NotEstimableError(f"This mechanism serves histograms only. Got the task {task.kind!r} instead.")
