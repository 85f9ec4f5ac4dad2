"""The randomizer: a pure function from an answer and a random word to a report.

The rule is the same in every implementation of Tacit, whatever the language: with A the channel's integer row for the
answer x, over 2^w, and u a uniform integer below 2^w,

    report = the number of outputs y with A_x0 + … + A_xy ≤ u.

So report y is sent for exactly A_xy of the 2^w words: the realised probability is the stated one, with no float, no
rejection and no rounding on the way.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Channel
from tacit.core_tail import WORDS_PER_SAMPLE, CoreTail
from tacit.plan import Plan
from tacit.prior import Prior
from tacit.randomness import RandomWords, SecureWords, WordBits

#: Slots per row of the table that a word's leading bits look up before thresholds are compared.
_GUIDE_BITS = 10
#: Reports drawn per call of the kernel: words and reports stay in the cache.
_CHUNK = 2**20

Rows = NDArray[np.uint32]


class Randomizer:
    """One or more channels, ready to be applied to one answer or to millions.

    Row numbers count through the inputs of all channels in turn: the input x of channel c is row starts[c] + x.

    >>> from tacit.prior import Prior
    >>> from tacit.design import optimal_binary
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

    def reports(self, rows: Rows, words: RandomWords | None = None) -> NDArray[np.uint32]:
        """A report for each row, with fresh secure words."""
        source = words or _secure()
        reports = np.empty(len(rows), dtype=np.uint32)
        if self.word_bits > 64:
            reports[:] = [self.report(int(row), source) for row in rows]
            return reports
        bits: WordBits = 32 if self.word_bits == 32 else 64
        for start in range(0, len(rows), _CHUNK):
            part = slice(start, start + _CHUNK)
            self.apply(rows[part], source.draw(len(rows[part]), bits), reports[part])
        return reports

    def apply(self, rows: Rows, words: Any, reports: NDArray[np.uint32]) -> None:
        """The rule for arrays: `reports` is overwritten. Rows must be valid row numbers."""
        thresholds, stops, guide = self._tables
        shift = words.dtype.type(self.word_bits - _GUIDE_BITS)
        _kernel()(rows, words, thresholds, stops, guide, shift, reports)

    @cached_property
    def _tables(self) -> tuple[Any, NDArray[np.uint32], NDArray[np.uint32]]:
        """Thresholds padded to one width, the last possible report of each row, and where each slot starts to look."""
        width = max(1, *(len(row) for row in self._thresholds))
        full = 2**self.word_bits
        thresholds = np.zeros((len(self._thresholds), width), dtype=np.uint32 if self.word_bits == 32 else np.uint64)
        # An output after the last one with weight has a threshold of 2^w, which the word type cannot hold.
        stops = np.array([sum(t < full for t in row) for row in self._thresholds], dtype=np.uint32)
        guide = np.zeros((len(self._thresholds), 2**_GUIDE_BITS), dtype=np.uint32)
        slots = [slot << (self.word_bits - _GUIDE_BITS) for slot in range(2**_GUIDE_BITS)]
        for x, row in enumerate(self._thresholds):
            thresholds[x, : stops[x]] = row[: stops[x]]
            guide[x] = [bisect_right(row, slot) for slot in slots]
        return thresholds, stops, guide


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
        first, second, third = (source.integer(64) for _ in range(WORDS_PER_SAMPLE))
        return mechanism.sample_one(inside, (first, second, third))

    def reports(self, groups: Any, positions: Any, words: RandomWords | None = None) -> NDArray[np.int64]:
        """A report for each respondent."""
        source = words or _secure()
        if not self._implicit:
            assert self._table is not None
            return self._table.reports(self._rows(groups, positions), source).astype(np.int64)
        reports = np.empty(len(positions), dtype=np.int64)
        in_table = ~np.isin(groups, list(self._implicit))
        if in_table.any() and self._table is not None:
            rows = self._rows(groups[in_table], positions[in_table])
            reports[in_table] = self._table.reports(rows, source)
        for k, (mechanism, stand_in) in self._implicit.items():
            mine = np.flatnonzero(groups == k)
            for start in range(0, len(mine), _CHUNK):
                part = mine[start : start + _CHUNK]
                inside = stand_in.many(positions[part], source)
                drawn = source.draw(len(part) * WORDS_PER_SAMPLE, 64).reshape(-1, WORDS_PER_SAMPLE)
                reports[part] = mechanism.sample(inside, drawn)
        return reports

    def _rows(self, groups: Any, positions: Any) -> Rows:
        rows: Rows = (self._starts[groups] + positions).astype(np.uint32)
        return rows


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


@cache
def _kernel() -> Callable[..., None]:
    """The compiled loop. The memory it reads depends on the answer, its arithmetic and its branches barely do."""
    import numba

    def apply(rows: Any, words: Any, thresholds: Any, stops: Any, guide: Any, shift: Any, reports: Any) -> None:
        for i in numba.prange(len(rows)):
            x, word = rows[i], words[i]
            y = guide[x, word >> shift]
            while y < stops[x] and word >= thresholds[x, y]:
                y += 1
            reports[i] = y

    compiled: Callable[..., None] = numba.njit(apply, parallel=True, nogil=True)
    return compiled
