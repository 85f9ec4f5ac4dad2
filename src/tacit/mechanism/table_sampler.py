"""Drawing reports from tables: one answer by bisection, millions through a compiled loop."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.exact import BigIntegers, Integers
from tacit.mechanism.protocol import RandomWords, WordBits

#: Slots per row of the table that a word's leading bits look up before thresholds are compared.
_GUIDE_BITS = 10
#: Reports drawn per call of the kernel: few enough that their words stay in the cache of the core that made them.
CHUNK = 2**16


class TableSampler:
    """One or more tables (integer rows and their denominator), stacked: the answer x of table c is row starts[c] + x.

    All take words of the same length, so that the words of a stream do not depend on whose turn it is.

    >>> rows = np.array([[3, 1], [1, 3]], dtype=object)
    >>> [TableSampler([(rows, 4)]).report_for(0, u << 30) for u in range(4)]
    [0, 0, 0, 1]
    """

    def __init__(self, tables: Sequence[tuple[BigIntegers, int]]) -> None:
        self.starts = np.array([0, *accumulate(len(rows) for rows, _ in tables)], dtype=np.int64)
        self.word_bits = max(_word_bits(denominator) for _, denominator in tables)
        self._thresholds = [
            [threshold * 2**self.word_bits // denominator for threshold in accumulate(row[:-1])]
            for rows, denominator in tables
            for row in rows.tolist()
        ]

    def report_for(self, row: int, word: int) -> int:
        """The report for a row and a word: the rule of the table, by bisection."""
        return bisect_right(self._thresholds[row], word)

    def one(self, member: int, position: int, words: RandomWords) -> int:
        """One respondent's report."""
        return self.report_for(int(self.starts[member]) + position, words.integer(self.word_bits))

    def many(self, members: Integers, positions: Integers, words: RandomWords) -> Integers:
        """A report for each respondent."""
        rows = positions if len(self.starts) == 2 else self.starts[members] + positions
        reports = np.empty(len(rows), dtype=np.int64)
        if self.word_bits > 64:
            reports[:] = [self.report_for(int(row), words.integer(self.word_bits)) for row in rows]
            return reports
        bits: WordBits = 32 if self.word_bits == 32 else 64
        _ = self._tables  # Made once, before the threads that share them.

        def draw(_: int, part: slice) -> None:
            for start in range(part.start, part.stop, CHUNK):
                few = slice(start, min(start + CHUNK, part.stop))
                self.apply(rows[few], words.draw(few.stop - few.start, bits), reports[few])

        if getattr(words, "per_thread", False):
            from tacit.mechanism.kernels import in_threads

            in_threads(len(rows), draw)
        else:
            # One stream, whose words are taken in the order of the respondents.
            draw(0, slice(0, len(rows)))
        return reports

    def apply(self, rows: NDArray[Any], words: NDArray[Any], reports: Integers) -> None:
        """The rule for arrays, on this core: `reports` is overwritten. Rows must be valid row numbers."""
        from tacit.mechanism import kernels

        last, guide = self._tables
        kernels.table(rows, words, last, guide, words.dtype.type(self.word_bits - _GUIDE_BITS), reports)

    @cached_property
    def _tables(self) -> tuple[Any, NDArray[Any]]:
        """The last word of each report, by row; and the report at which each slot of leading bits starts to look.

        A slot starts beyond all reports whose words lie before it, so a report without words is never looked at.
        """
        width = max(len(row) for row in self._thresholds) + 1
        words = np.uint32 if self.word_bits == 32 else np.uint64
        last = np.full((len(self._thresholds), width), 2**self.word_bits - 1, dtype=words)
        # The smaller the guide, the nearer to the core it stays.
        places = np.uint16 if width <= 2**16 else np.uint32
        guide = np.zeros((len(self._thresholds), 2**_GUIDE_BITS), dtype=places)
        slots = [slot << (self.word_bits - _GUIDE_BITS) for slot in range(2**_GUIDE_BITS)]
        for x, row in enumerate(self._thresholds):
            last[x, : len(row)] = [max(threshold - 1, 0) for threshold in row]
            guide[x] = [bisect_right(row, slot) for slot in slots]
        return last, guide


def _word_bits(denominator: int) -> int:
    """The words that a denominator 2^w takes: 32 or 64 bits where they suffice, w beyond."""
    bits = denominator.bit_length() - 1
    if denominator != 2**bits:
        raise ValueError(f"A randomizer needs a channel over a power of two. Got {denominator}; see round_channel.")
    return next((size for size in (32, 64) if bits <= size), bits)
