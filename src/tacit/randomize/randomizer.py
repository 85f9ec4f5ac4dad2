"""The randomizer: a pure function from an answer and a random word to a report.

The rule is the same in every implementation of Tacit, whatever the language: with A the channel's integer row for the
answer x, over 2^w, and u a uniform integer below 2^w,

    report = the number of outputs y with A_x0 + … + A_xy ≤ u.

So report y is sent for exactly A_xy of the 2^w words: the realised probability is the stated one, with no float, no
rejection and no rounding on the way.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cache, cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.mechanism.core_tail import WORDS_PER_SAMPLE, CoreTail
from tacit.mechanism.table import Channel
from tacit.plan.contract import Plan
from tacit.prior import Prior
from tacit.randomize.randomness import RandomWords, SecureWords, WordBits

#: Slots per row of the table that a word's leading bits look up before thresholds are compared.
_GUIDE_BITS = 10
#: Reports drawn per call of the kernel: few enough to bound memory, enough to keep the threads busy.
_CHUNK = 2**21

Rows = NDArray[Any]
Reports = NDArray[np.int64]


class Randomizer:
    """One or more channels, ready to be applied to one answer or to millions.

    Row numbers count through the inputs of all channels in turn: the input x of channel c is row starts[c] + x.

    >>> from tacit.prior import Prior
    >>> from tacit.designs import optimal_binary
    >>> randomizer = Randomizer([optimal_binary(Prior.of({"yes": 0.3, "no": 0.7}), 1)])
    >>> randomizer.report(0) in (0, 1)
    True
    """

    def __init__(self, channels: Sequence[Channel]) -> None:
        self.starts = tuple(accumulate((len(channel.values) for channel in channels), initial=0))
        self.word_bits = max(_word_bits(channel.denominator) for channel in channels)
        self._thresholds = [
            [threshold * 2**self.word_bits // channel.denominator for threshold in accumulate(row[:-1])]
            for channel in channels
            for row in channel.weights.tolist()
        ]

    def report_for(self, row: int, word: int) -> int:
        """The report for a row and a word: the rule above, by bisection."""
        return bisect_right(self._thresholds[row], word)

    def report(self, row: int, words: RandomWords | None = None) -> int:
        """One respondent's report, with a fresh secure word."""
        return self.report_for(row, (words or _secure()).integer(self.word_bits))

    def reports(self, rows: Rows, words: RandomWords | None = None) -> Reports:
        """A report for each row, with fresh secure words."""
        source = words or _secure()
        reports = np.empty(len(rows), dtype=np.int64)
        if self.word_bits > 64:
            reports[:] = [self.report(int(row), source) for row in rows]
            return reports
        bits: WordBits = 32 if self.word_bits == 32 else 64
        for start in range(0, len(rows), _CHUNK):
            part = slice(start, start + _CHUNK)
            self.apply(rows[part], source.draw(len(rows[part]), bits), reports[part])
        return reports

    def apply(self, rows: Rows, words: Any, reports: Reports) -> None:
        """The rule for arrays: `reports` is overwritten. Rows must be valid row numbers."""
        from tacit.mechanism import kernels

        last, guide = self._tables
        kernels.table(rows, words, last, guide, words.dtype.type(self.word_bits - _GUIDE_BITS), reports)

    @cached_property
    def _tables(self) -> tuple[Any, NDArray[np.uint32]]:
        """The last word of each report, by row; and the report at which each slot of leading bits starts to look.

        A slot starts beyond all reports whose words lie before it, so a report without words is never looked at.
        """
        width = max(len(row) for row in self._thresholds) + 1
        words = np.uint32 if self.word_bits == 32 else np.uint64
        last = np.full((len(self._thresholds), width), 2**self.word_bits - 1, dtype=words)
        guide = np.zeros((len(self._thresholds), 2**_GUIDE_BITS), dtype=np.uint32)
        slots = [slot << (self.word_bits - _GUIDE_BITS) for slot in range(2**_GUIDE_BITS)]
        for x, row in enumerate(self._thresholds):
            last[x, : len(row)] = [max(threshold - 1, 0) for threshold in row]
            guide[x] = [bisect_right(row, slot) for slot in slots]
        return last, guide


class PlanRandomizer:
    """A plan, ready to randomize the answers of its groups.

    Groups and answers are given as positions in `plan.groups` and `plan.values`; a report is an integer that means
    something only together with its group. The holder of a zero-prior value in a core-and-tail group sends the report
    of a stand-in drawn from the prior, which says nothing about them.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        tables = [(k, group.mechanism) for k, group in enumerate(plan.groups) if isinstance(group.mechanism, Channel)]
        self._table = Randomizer([channel for _, channel in tables]) if tables else None
        self._starts = np.zeros(len(plan.groups), dtype=np.int64)
        for (k, _), start in zip(tables, self._table.starts if self._table else (), strict=False):
            self._starts[k] = start
        self._implicit = {
            k: (group.mechanism, _StandIn(group.prior))
            for k, group in enumerate(plan.groups)
            if isinstance(group.mechanism, CoreTail)
        }

    def report(self, group: int, position: int, words: RandomWords | None = None) -> int:
        """One respondent's report."""
        source = words or _secure()
        if group not in self._implicit:
            assert self._table is not None
            return self._table.report(int(self._starts[group]) + position, source)
        mechanism, stand_in = self._implicit[group]
        inside = stand_in.one(position, source)
        first, second, third = (source.integer(mechanism.word_bits) for _ in range(WORDS_PER_SAMPLE))
        return mechanism.sample_one(inside, (first, second, third))

    def reports(self, groups: Any, positions: Any, words: RandomWords | None = None) -> Reports:
        """A report for each respondent."""
        source = words or _secure()
        if not self._implicit:
            assert self._table is not None
            return self._table.reports(self._rows(groups, positions), source)
        if len(self.plan.groups) == 1:
            return self._circle(0, positions, source)
        reports = np.empty(len(positions), dtype=np.int64)
        in_table = ~np.isin(groups, list(self._implicit))
        if in_table.any() and self._table is not None:
            reports[in_table] = self._table.reports(self._rows(groups[in_table], positions[in_table]), source)
        for k in self._implicit:
            mine = np.flatnonzero(groups == k)
            reports[mine] = self._circle(k, positions[mine], source)
        return reports

    def _circle(self, group: int, positions: Any, source: RandomWords) -> Reports:
        """The reports of one core-and-tail group."""
        mechanism, stand_in = self._implicit[group]
        reports = np.empty(len(positions), dtype=np.int64)
        for start in range(0, len(positions), _CHUNK):
            part = slice(start, start + _CHUNK)
            inside = stand_in.many(positions[part], source)
            drawn = source.draw(len(inside) * WORDS_PER_SAMPLE, 64).reshape(-1, WORDS_PER_SAMPLE)
            if mechanism.word_bits < 64:
                drawn = drawn >> np.uint64(64 - mechanism.word_bits)
            reports[part] = circle_reports(mechanism, inside, drawn)
        return reports

    def _rows(self, groups: Any, positions: Any) -> Rows:
        rows: Rows = self._starts[groups] + positions if len(self.plan.groups) > 1 else np.asarray(positions)
        return rows


def circle_reports(mechanism: CoreTail, values: Any, words: Any) -> Reports:
    """`CoreTail.sample` compiled: the reports of many values, a pure function of three 64-bit words for each."""
    if mechanism.word_bits != 64:
        return mechanism.sample(values, words)
    from tacit.mechanism import kernels

    reports = np.empty(len(values), dtype=np.int64)
    kernels.circle(values, words, *mechanism.tables, np.uint64(mechanism.cells), len(mechanism.core), reports)
    return reports


class _StandIn:
    """Positions in the domain to positions in the support; a value outside it is replaced by a draw from the prior."""

    def __init__(self, prior: Prior) -> None:
        self._inside = np.full(len(prior), -1, dtype=np.int64)
        self._inside[list(prior.support)] = np.arange(len(prior.support))
        # Thresholds of 64-bit words; their rounding concerns nobody's guarantee.
        sums = list(accumulate(prior.weights[x] for x in prior.support))
        self._edges = np.array([min(2**64 - 1, part * 2**64 // sums[-1]) for part in sums[:-1]], dtype=np.uint64)

    def one(self, position: int, words: RandomWords) -> int:
        inside = int(self._inside[position])
        return inside if inside >= 0 else int(np.searchsorted(self._edges, np.uint64(words.integer(64)), side="right"))

    def many(self, positions: Any, words: RandomWords) -> NDArray[np.int64]:
        if len(self._edges) + 1 == len(self._inside):
            return np.asarray(positions)
        inside: NDArray[np.int64] = self._inside[positions]
        outside = inside < 0
        if outside.any():
            inside[outside] = np.searchsorted(self._edges, words.draw(int(outside.sum()), 64), side="right")
        return inside


def _word_bits(denominator: int) -> int:
    """The words that a denominator 2^w takes: 32 or 64 bits where they suffice, w beyond."""
    bits = denominator.bit_length() - 1
    if denominator != 2**bits:
        raise ValueError(f"A randomizer needs a channel over a power of two. Got {denominator}; see round_channel.")
    return next((size for size in (32, 64) if bits <= size), bits)


@cache
def _secure() -> SecureWords:
    return SecureWords()
