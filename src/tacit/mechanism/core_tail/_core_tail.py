"""The mechanism `core-tail`: a rule for histograms of any size, read with the prior. `core_tail_rule` has its integers.

A report is state · 2^32 + position: no code outside this folder interprets it.

The histogram under a core-tail channel: error, posteriors and their sums, without a d × d table.

Symbols as in `core_tail_rule`: q_xj = counts/2^w is the probability of state j given a core value x (q_j for the tail),
λ_j = Σ_x P_x q_xj that of the state, β_j = base/2^w, L_j the arc length and M the cells.  The lift is

    core:  q_xj / λ_j          tail:  (q_j / λ_j) (β_j + (1 - β_j) (M / L_j) c),   c the arc's coverage.

Floating point.  Positions count as equally likely here; they are to within a relative M/2^w, plus E/M where segments
are rounded, so results are accurate to about 1e-12 for M up to 2^24 and 1e-8 at the largest circle, 2^32.
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
from tacit.mechanism.auditing import Audit, Belief, Notion, SetLevel, bounded_audit, bounded_belief, bounded_set_levels
from tacit.mechanism.core_tail._rule import POSITION_BITS, WORDS_PER_SAMPLE, CoreState, CoreTailRule, Words
from tacit.mechanism.coverage import mean_square_coverage
from tacit.mechanism.kept import Counts, Kept
from tacit.mechanism.pearson import pearson
from tacit.mechanism.protocol import NotEstimableError, PlainEstimator, Reading
from tacit.mechanism.sampling import RuleSampler, StandIn
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

    def table(self) -> None:
        """It is a rule, not a table."""
        return None

    @property
    def is_quick(self) -> bool:
        """Its errors are found at once."""
        return True

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
        from tacit.mechanism.core_tail import _kernels as kernels

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

    @property
    def n_sums(self) -> None:
        """Reports are counted one by one: states and positions repeat."""
        return None

    def keep(self, reports: Integers, times: Integers | None = None) -> Counts:
        """How often each report came."""
        return Counts.of(reports, times=times)

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
        (counts, inside) = kept.counted(), list(prior.support)
        p = prior.probabilities[inside]
        estimate, variance = np.zeros((2, len(prior)))
        estimate[inside] = posterior_sum(self, counts.reports, counts.weighted()[0])
        variance[inside] = counts.weight_squares * np.maximum(p * (1 - p) - self._gains, 0.0)
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
        received = kept.counted()
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


@dataclass(frozen=True)
class _Lifts:
    """The channel in floating point: P, lift of the core by state, and floor, slope (per cell) and L by state."""

    prior: Floats
    core: Floats
    probability: Floats
    floor: Floats
    slope: Floats
    arc: Floats


def _lifts(channel: CoreTailRule) -> _Lifts:
    size = 1 << channel.word_bits
    total = sum(channel.weights)
    prior = np.array([weight / total for weight in channel.weights])
    chosen = np.array([[count / size for count in row] for row in channel.counts])
    tail_mass = channel.tail_sums[-1] / total
    probability = prior[list(channel.core)] @ chosen[:-1] + tail_mass * chosen[-1]
    base = np.array([base / size for base in channel.base])
    arc = np.array([(size - base) / step for base, step in zip(channel.base, channel.step, strict=True)])
    step = np.array([step / size for step in channel.step])
    lift = chosen / probability
    return _Lifts(prior, lift[:-1], probability, lift[-1] * base, lift[-1] * step * channel.cells, arc)


def histogram_gains(channel: CoreTailRule) -> Floats:
    """Return P_x² E[(lift_x - 1)²] for every value x: what one report removes from the variance P_x (1 - P_x)."""
    lifts = _lifts(channel)
    gains = np.empty(len(lifts.prior))
    gains[list(channel.core)] = (lifts.core - 1.0) ** 2 @ lifts.probability
    length, which = np.unique(np.array(channel.lengths, np.float64), return_inverse=True)
    variance = np.zeros(len(length))
    for weight, floor, slope, arc in zip(lifts.probability, lifts.floor, lifts.slope, lifts.arc, strict=True):
        mean = arc / channel.cells
        square = mean_square_coverage(length, float(arc), channel.cells)
        variance += weight * ((floor + slope * mean - 1.0) ** 2 + slope**2 * (square - mean**2))
    gains[list(channel.tail)] = variance[which]
    result: Floats = lifts.prior**2 * gains
    return result


def histogram_gain(channel: CoreTailRule) -> float:
    """Return the squared error that one report removes from Σ_x P_x (1 - P_x)."""
    return float(histogram_gains(channel).sum())


def histogram_mse(channel: CoreTailRule) -> float:
    """Return the mean squared error per respondent, summed over the histogram: Σ P(1-P) - gain."""
    prior = _lifts(channel).prior
    return float(prior @ (1.0 - prior)) - histogram_gain(channel)


def posterior_sum(channel: CoreTailRule, reports: Integers, counts: Integers | Floats | None = None) -> Floats:
    """Return for every value x the sum over `reports` of Pr(x|report) = P_x lift, in O((n + d) log(n + d)).

    With `counts`, report i came counts[i] times.

    Summed over reports, the arcs make a step function on the circle; its running integral G is piecewise linear, and
    a tail value collects (G(end) - G(start)) / length of its segment.
    """
    lifts = _lifts(channel)
    state, position = reports >> POSITION_BITS, (reports & (1 << POSITION_BITS) - 1).astype(np.float64)
    often = np.ones(len(reports)) if counts is None else counts.astype(np.float64)
    times = np.bincount(state, weights=often, minlength=len(lifts.arc))
    lift = np.empty(len(lifts.prior))
    lift[list(channel.core)] = lifts.core @ times
    start = np.array(channel.boundaries[:-1], np.float64)
    length = np.array(channel.lengths, np.float64)
    ends = position + lifts.arc[state]
    slope = lifts.slope[state] * often
    around = ends > channel.cells
    knots = np.concatenate([position, ends, (position - channel.cells)[around], (ends - channel.cells)[around]])
    changes = np.concatenate([slope, -slope, slope[around], -slope[around]])
    covered = _integral(knots, changes, np.concatenate([start, start + length]))
    lift[list(channel.tail)] = lifts.floor @ times + (covered[len(start) :] - covered[: len(start)]) / length
    total: Floats = lifts.prior * lift
    return total


def posterior(channel: CoreTailRule, report: int) -> Floats:
    """Return Pr(x|report) for every value x."""
    return posterior_sum(channel, np.array([report], np.int64))


def _integral(knots: Floats, changes: Floats, points: Floats) -> Floats:
    """Return at `points` the sum over knots k of change_k * max(point - k, 0), for changes that add up to 0."""
    order = np.argsort(knots, kind="stable")
    knots, changes = knots[order], changes[order]
    slope = np.append(0.0, np.cumsum(changes))
    steps = np.append(0.0, np.cumsum(slope[1:-1] * np.diff(knots))) if len(knots) else np.zeros(1)
    at = np.searchsorted(knots, points, side="right")
    before = np.maximum(at - 1, 0)
    reached = points - knots[before] if len(knots) else points * 0.0
    return np.where(at > 0, steps[before] + slope[at] * reached, 0.0)
