"""Drawing reports from tables: one answer by bisection, millions through compiled loops that read words lazily."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.exact import BigIntegers, Integers
from tacit.mechanism.protocol import RandomWords, WordBits
from tacit.mechanism.sampling import in_chunks

#: The leading bits of a word index a table of this many bits per row, which says where to compare thresholds.
_GUIDE_BITS = 10
#: At most one in this many first parts of a word leaves the report undecided, so that more of the word is read.
_BEGINNINGS_PER_OPEN = 16
#: Largest table of first parts, in bytes: it stays in the processor's cache.
_MOST_BYTES = 2**20


class Beginnings(NamedTuple):
    """What the first bits of a word decide.

    bits: how many bits of a word are drawn first.
    shift: how many of these are not looked at yet.
    reports: for each row and beginning the report, or the type's largest number where it is left open.
    """

    bits: WordBits
    shift: int
    reports: NDArray[Any]


class TableSampler:
    """One or more tables (integer rows and their denominator), stacked: the answer x of table c is row starts[c] + x.

    The report is a pure function of one word u of w bits, y(u) = #{thresholds ≤ u}. All tables take words of the same
    length, so that the words of a stream do not depend on whose turn it is.

    Arrays read words lazily. With u = b·2^(w−k) + r, b the first k bits: y never falls as u grows, so where it is the
    same for r = 0 and r = 2^(w−k) − 1, b alone decides it, and r need not be drawn. Elsewhere r is drawn, and y(u) is
    found from the whole word. Uniform independent b and r make u uniform, so every report is sent for exactly as many
    of the 2^w words as if all had been drawn. Each threshold leaves at most one beginning open, and every value of a
    table as many as any other (some are read on in vain): how many words are read on tells nothing about the answers.

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

    def each(self, positions: Integers, words: Sequence[RandomWords]) -> Integers:
        """What `one` draws for each respondent from a source of words of the respondent's own, of the first table."""
        drawn = [self.one(0, position, source) for position, source in zip(positions.tolist(), words, strict=True)]
        return np.array(drawn, dtype=np.int64)

    def many(self, members: Integers, positions: Integers, words: RandomWords) -> Integers:
        """A report for each respondent."""
        reports = np.empty(len(positions), dtype=np.int64)
        _ = self.beginnings, self._tables  # Made once, before the threads that share them.

        def draw(few: slice) -> None:
            rows = positions[few] if len(self.starts) == 2 else self.starts[members[few]] + positions[few]
            self._draw(rows, words, reports[few])

        in_chunks(len(positions), words, draw)
        return reports

    def _draw(self, rows: NDArray[Any], words: RandomWords, reports: Integers) -> None:
        bits: WordBits = 32 if self.word_bits == 32 else 64
        if self.beginnings is None:
            drawn = words.draw(len(rows), bits)
            self.apply(rows, drawn, reports)
            if self.word_bits > 64:
                for i in np.flatnonzero(drawn == self._tables[0][rows, reports]).tolist():
                    reports[i] = self._whole(int(rows[i]), int(drawn[i]), words)
            return
        begun = words.draw(len(rows), self.beginnings.bits)
        left_open = self.begin(rows, begun, reports)
        if len(left_open):
            drawn = words.draw(len(left_open), bits)
            last = self.read_on(left_open, rows, begun, drawn, reports)
            if self.word_bits > 64:
                first = self.beginnings.bits
                for j, i in zip(last.tolist(), left_open[last].tolist(), strict=True):
                    reports[i] = self._whole(int(rows[i]), int(begun[i]) << 64 - first | int(drawn[j]) >> first, words)

    def _whole(self, row: int, first: int, words: RandomWords) -> int:
        """The report of a word beyond 64 bits, for which its first 64 are not enough: they are the last of a report's.

        Rare path.
        """
        more = self.word_bits - 64
        return self.report_for(row, first << more | words.integer(more))

    def apply(self, rows: NDArray[Any], words: NDArray[Any], reports: Integers) -> None:
        """The rule for arrays of whole words, or of the first 64 bits of longer ones whose other bits are zero.

        `reports` is overwritten. Rows must be valid.
        """
        from tacit.mechanism.table import _kernels as kernels

        kernels.table(rows, words, *self._tables, reports)

    def begin(self, rows: NDArray[Any], begun: NDArray[Any], reports: Integers) -> Integers:
        """The rule for arrays of beginnings: overwrites `reports`, says which are left open. Rows must be valid."""
        from tacit.mechanism.table import _kernels as kernels

        if self.beginnings is None:
            raise ValueError("This table is too large for words to be read lazily.")
        _, shift, decided = self.beginnings
        nothing = np.iinfo(decided.dtype).max
        return kernels.table_beginnings(rows, begun, begun.dtype.type(shift), decided, nothing, reports)

    def read_on(
        self, left_open: Integers, rows: NDArray[Any], begun: NDArray[Any], rest: NDArray[Any], reports: Integers
    ) -> Integers:
        """The rule where `begin` has left it open: the word is what has begun, then the first bits of `rest`.

        Says which of these words are the last of their reports.
        """
        from tacit.mechanism.table import _kernels as kernels

        return kernels.table_rest(left_open, rows, begun, rest, 8 * begun.itemsize, *self._tables, reports)

    @cached_property
    def beginnings(self) -> Beginnings | None:
        """What the first bits decide, where `beginning` says how many are looked at; else None."""
        width = max(len(row) for row in self._thresholds) + 1
        looked_at = beginning(len(self._thresholds), width)
        if looked_at is None:
            return None
        kind = _kind_of(width)
        reports = np.empty((len(self._thresholds), 2**looked_at), dtype=kind)
        for start, end in zip(self.starts[:-1], self.starts[1:], strict=True):
            reports[start:end] = self._decided(range(start, end), looked_at, np.iinfo(kind).max)
        bits: WordBits = 8 if looked_at == 8 else 16
        return Beginnings(bits, bits - looked_at, reports)

    def _decided(self, rows: range, bits: int, left_open: int) -> Integers:
        """The report that each beginning of this many bits decides, by row of one table; `left_open` where it does not.

        The same number is left open in every row.
        """
        first = np.array([self._reports_at(row, bits) for row in rows])
        last = np.array([self._reports_at(row, bits, ends=True) for row in rows])
        found = np.where(first == last, first, left_open)
        most = (first != last).sum(axis=1).max(initial=0)
        for row in found:
            closed = np.flatnonzero(row != left_open)
            row[closed[: most - (len(row) - len(closed))]] = left_open
        return found

    def _reports_at(self, row: int, bits: int, ends: bool = False) -> Integers:
        """y(u) for the first word u of each slot of `bits` leading bits, or for the last one: a threshold t is at most
        b·2^s, s = w − bits, if ⌈t/2^s⌉ ≤ b, and at most b·2^s + 2^s − 1 if ⌊t/2^s⌋ ≤ b.
        """
        shift = self.word_bits - bits
        up = 0 if ends else (1 << shift) - 1
        slots = np.array([threshold + up >> shift for threshold in self._thresholds[row]], dtype=np.int64)
        return np.searchsorted(slots, np.arange(2**bits), side="right")

    @cached_property
    def _tables(self) -> tuple[NDArray[Any], NDArray[Any], Any]:
        """The last word of each report, by row; the report at which each slot of leading bits starts to look; and how
        many bits a word has beyond those. Of words beyond 64 bits, all is about those whose other bits are zero.

        A slot starts beyond all reports whose words lie before it, so a report without words is never looked at.
        """
        width = max(len(row) for row in self._thresholds) + 1
        words, beyond = np.uint32 if self.word_bits == 32 else np.uint64, max(self.word_bits - 64, 0)
        last = np.full((len(self._thresholds), width), np.iinfo(words).max, dtype=words)
        # The smaller the guide, the nearer to the core it stays.
        places = np.uint16 if width <= 2**16 else np.uint32
        guide = np.zeros((len(self._thresholds), 2**_GUIDE_BITS), dtype=places)
        for x, row in enumerate(self._thresholds):
            last[x, : len(row)] = [max(threshold - 1 >> beyond, 0) for threshold in row]
            guide[x] = self._reports_at(x, _GUIDE_BITS)
        return last, guide, words(self.word_bits - beyond - _GUIDE_BITS)


def beginning(n_rows: int, n_reports: int) -> int | None:
    """How many first bits of a word leave few reports open, in a table that is small enough; None where there is none.

    >>> beginning(2, 2), beginning(12, 144), beginning(1000, 1000)
    (8, 12, None)
    """
    bits = max(8, (_BEGINNINGS_PER_OPEN * (n_reports - 1) - 1).bit_length())
    size = n_rows * np.dtype(_kind_of(n_reports)).itemsize << bits
    return bits if bits <= 16 and size <= _MOST_BYTES else None


def _kind_of(n_reports: int) -> type[np.uint8 | np.uint16]:
    """Numbers for all reports and for none."""
    return np.uint8 if n_reports < 2**8 else np.uint16


def _word_bits(denominator: int) -> int:
    """The words that a denominator 2^w takes: 32 or 64 bits where they suffice, w beyond."""
    bits = denominator.bit_length() - 1
    if denominator != 2**bits:
        raise ValueError(f"A randomizer needs a channel over a power of two. Got {denominator}; see round_channel.")
    return next((size for size in (32, 64) if bits <= size), bits)
