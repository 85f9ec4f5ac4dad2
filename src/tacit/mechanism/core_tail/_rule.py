"""The rule of the mechanism `core-tail`: ε-LIP for any prior on any number of values, in O(d) memory.

Coverage.  Write E = e^ε, h = 1/(E+1).  A report covers value x to the degree c_x in [0, 1], with covered prior
mass Σ_x P_x c_x = h, and the lift of x is (1 + g c_x)/(1 + g h), g = E² - 1: 1/E uncovered, E covered.  If every
x has mean coverage h, the channel is ε-LIP.  Here a report is a pair (state, position):

* the state j fixes the coverage c_jx of the few heavy values (the core), and with it the mass h - Σ_core P_x c_jx
  that the other values (the tail, mass T) must cover;
* the tail values lie on a circle of M cells, each on a segment of cells in proportion to its prior; an arc of
  L_j = M (h - Σ_core P_x c_jx)/T cells starts at the position, and a tail value is covered as far as the arc covers
  its segment.  The position is uniform, so the mean coverage of a tail value is E[L_j]/M = h.

An empty core is the plain arc mechanism.  The order of the tail on the circle does not change the histogram error,
because a value's distribution of coverage depends on its length and the arc's only; values keep their own order.

What is sampled.  All randomness is three words uniform on {0, ..., 2^w - 1}, w = `word_bits`:

    word 1 picks the state: state j gets counts[row][j] of the 2^w words; a core value has its own row, the tail one;
    word 2 says, for a tail value, whether the position ignores the value (words below base[j]) or which cell of the
           arc lies on the value: cell t = (word 2 - base[j]) // step[j], so arc cells get step[j] words each and the
           last one the remainder; the arc is (2^w - base[j])/step[j] = L_j cells long;
    word 3 picks uniformly the position (floor(word M / 2^w)) or the value's cell u (likewise); position = u - t.

There is no rejection and no floating point: Q(report|x) is an exact multiple of 2^-3w, given by `word_triples`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, chain, pairwise
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.exact import Integers
from tacit.prior import Prior

Words = npt.NDArray[np.uint64]

WORDS_PER_SAMPLE = 3
POSITION_BITS = 32
CORE_UNIT = 1 << 48


@dataclass(frozen=True)
class CoreState:
    """One coverage of the core: `weight` is proportional to its probability.

    Core value number i (by place in `CoreTailRule.core`) is covered if bit i of `covered` is set, to the degree
    n/2^48 if (i, n) is in `parts`, and not at all otherwise.
    """

    weight: int
    covered: int
    parts: tuple[tuple[int, int], ...] = ()

    def fits(self, size: int) -> bool:
        """Return whether the weight is positive and the coverage is in [0, 1] and about `size` values only."""
        parts = all(0 <= place < size and 0 <= n <= CORE_UNIT for place, n in self.parts)
        return self.weight > 0 and 0 <= self.covered < 1 << size and parts

    def coverage(self, size: int) -> list[int]:
        """Return the coverage of `size` core values in units of 2^-48."""
        units = [CORE_UNIT * (self.covered >> place & 1) for place in range(size)]
        for place, units_covered in self.parts:
            units[place] = units_covered
        return units


@dataclass(frozen=True, kw_only=True)
class CoreTailRule:
    """A core-tail channel on the values of positive `prior`; see the module's docstring.

    where: `core` lists the heavy values, `share` = h, `growth` = g, a hair below E² - 1 to leave room for
    rounding, `states` are the coverages of the core, `word_bits` = w.

    >>> states = (CoreState(1, 0),)
    >>> arc = CoreTailRule(prior=Prior.uniform(8), core=(), share=Fraction(1, 4), growth=Fraction(8), states=states)
    >>> arc.cells, arc.sample_one(3, (0, 2**64 - 1, 0))
    (8, 2)
    """

    prior: Prior
    core: tuple[int, ...]
    share: Fraction
    growth: Fraction
    states: tuple[CoreState, ...]
    word_bits: int = 64

    def __post_init__(self) -> None:
        size = len(self.core)
        if list(self.core) != sorted(set(self.core) & set(range(len(self.weights)))) or size == len(self.weights):
            raise ValueError("The 'core' must be increasing value indices that leave at least one value to the tail.")
        if not (0 < self.share < 1 and self.growth > 0):
            raise ValueError(f"The 'share' must be in (0, 1), 'growth' positive. Got {self.share} and {self.growth}.")
        if not self.states or not all(state.fits(size) for state in self.states):
            raise ValueError("The 'states' must be at least one, of positive weight, each within the core and [0, 1].")
        if not 2 <= self.word_bits <= 64:
            raise ValueError(f"The 'word_bits' must be in 2..64. Got {self.word_bits}.")

    # -- the circle ---------------------------------------------------------------------------------------------

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """The prior's integers on its support, whose values the rule numbers."""
        return self.prior.on_support().weights

    @cached_property
    def tail(self) -> tuple[int, ...]:
        """The values on the circle, in their own order."""
        ends = (-1, *self.core, len(self.weights))
        return tuple(chain.from_iterable(range(before + 1, after) for before, after in pairwise(ends)))

    @cached_property
    def tail_sums(self) -> tuple[int, ...]:
        """Running sums of the tail's weights, from 0 to its total."""
        return tuple(accumulate(map(self.weights.__getitem__, self.tail), initial=0))

    @cached_property
    def cells(self) -> int:
        """M: one cell per unit of the tail's weights, so that segments are exact, unless that exceeds 2^(w/2).

        Coarse cells lose less than fine ones: arcs then start on segment boundaries more often.
        """
        return min(self._units, 1 << self.word_bits // 2)

    @cached_property
    def _units(self) -> int:
        return self.tail_sums[-1] // gcd(*map(self.weights.__getitem__, self.tail))

    @cached_property
    def boundaries(self) -> tuple[int, ...]:
        """First cell of each tail value, then M: floor(M * running sum / total), exact when M is not capped."""
        cells, total = self.cells, self.tail_sums[-1]
        return tuple([cells * part // total for part in self.tail_sums])

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Cells of each tail value; one that rounds to none uses the cell it starts in."""
        # Boundaries are at most 2^32, so 64 bits hold them exactly.
        return tuple(np.maximum(np.diff(np.array(self.boundaries, np.int64)), 1).tolist())

    # -- the words ----------------------------------------------------------------------------------------------

    @cached_property
    def coverage(self) -> tuple[tuple[int, ...], ...]:
        """Coverage by state in units of 2^-48: a row for each core value, then the tail's L_j/M = (h - core mass)/T.

        The tail's is rounded down and kept in [0, 1]; the effect is part of `counts`, hence of the audit.
        """
        by_state = [state.coverage(len(self.core)) for state in self.states]
        wanted = sum(self.weights) * CORE_UNIT * self.share
        tail = []
        for units in by_state:
            mass = sum(self.weights[value] * n for value, n in zip(self.core, units, strict=True))
            tail.append(min(max(int((wanted - mass) / self.tail_sums[-1]), 0), CORE_UNIT))
        return (*(tuple(units[place] for units in by_state) for place in range(len(self.core))), tuple(tail))

    @cached_property
    def counts(self) -> tuple[tuple[int, ...], ...]:
        """Words per state: a row for each core value, then the tail's; every row sums to 2^w.

        Row x is proportional to weight_j (1 + g c_jx), rounded by differences of floored running sums.
        """
        one, more = self.growth.denominator * CORE_UNIT, self.growth.numerator
        rows = []
        for units in self.coverage:
            ideal = (state.weight * (one + more * n) for state, n in zip(self.states, units, strict=True))
            sums = tuple(accumulate(ideal, initial=0))
            edges = [(part << self.word_bits) // sums[-1] for part in sums]
            rows.append(tuple(b - a for a, b in pairwise(edges)))
        return tuple(rows)

    @cached_property
    def base(self) -> tuple[int, ...]:
        """Words 2 that ignore the value: ceil(2^w / (1 + g L_j/M))."""
        size = 1 << self.word_bits
        return tuple(-int(-size // (1 + self.growth * n / CORE_UNIT)) for n in self.coverage[-1])

    @cached_property
    def step(self) -> tuple[int, ...]:
        """Words 2 per covered cell: ceil(base g/M), so that full coverage has 1 + g times the words of none.

        With `base` rounded up too, (2^w - base)/step ≤ L_j: an arc never exceeds the circle.
        """
        return tuple(-int(-base * self.growth // self.cells) for base in self.base)

    @cached_property
    def tables(self) -> tuple[Words, Words, Words, npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """The same integers as arrays: state edges, last base word, step; by value (start, length - 1) and row.

        A circle has at most 2^32 cells, so a start and a length less one fit 32 bits, side by side for one look-up.
        """
        edges = np.array(self._edges, np.uint64)
        last_base = np.array([base - 1 for base in self.base], np.uint64)
        row = np.full(len(self.weights), len(self.core), np.uint32)
        row[list(self.core)] = np.arange(len(self.core))
        segments = np.zeros((len(self.weights), 2), np.uint32)
        segments[list(self.tail), 0] = self.boundaries[:-1]
        segments[list(self.tail), 1] = [length - 1 for length in self.lengths]
        # A step beyond 2^w (an arc shorter than one cell) acts as the largest word: every quotient is 0.
        step = np.array([min(step, (1 << 64) - 1) for step in self.step], np.uint64)
        return edges, last_base, step, segments, row

    @cached_property
    def _edges(self) -> tuple[tuple[int, ...], ...]:
        """Where the words 1 of the second and every further state begin, a row for each row of `counts`."""
        return tuple(tuple(accumulate(row[:-1])) for row in self.counts)

    def sample(self, values: npt.NDArray[np.integer[Any]], words: Words) -> Integers:
        """Return the reports of many values: `sample_one` for each, with `words` of shape (n, 3)."""
        if words.dtype != np.uint64 or words.shape != (len(values), WORDS_PER_SAMPLE):
            raise ValueError(f"The 'words' must be uint64 of shape (n, 3), n values. Got {words.dtype}, {words.shape}.")
        if len(values) and not 0 <= int(values.min()) <= int(values.max()) < len(self.weights):
            raise ValueError(f"The 'values' must be indices in 0..{len(self.weights) - 1}. Some are outside.")
        edges, last_base, step, segments, row_of = self.tables
        row = row_of[values].astype(np.intp)
        start, length = segments[values].astype(np.uint64).T
        state = _rank(edges, row, words[:, 0])
        reach = words[:, 1] - last_base[state] - np.uint64(1)
        on_value = (row == len(self.core)) & (words[:, 1] > last_base[state])
        position = _scale(words[:, 2], np.uint64(self.cells), self.word_bits)
        cell = start + _scale(words[:, 2], length + np.uint64(1), self.word_bits)
        around = (cell + np.uint64(self.cells) - reach // step[state]) % np.uint64(self.cells)
        position = np.where(on_value, around, position)
        return state << POSITION_BITS | position.astype(np.int64)

    def sample_one(self, value: int, words: tuple[int, int, int]) -> int:
        """Return the report state * 2^32 + position of `value`: a pure function of three uniform words."""
        place = bisect_left(self.core, value)
        in_core = place < len(self.core) and self.core[place] == value
        state = bisect_right(self._edges[place if in_core else -1], words[0])
        position = words[2] * self.cells >> self.word_bits
        if not in_core and words[1] >= self.base[state]:
            at = value - place
            cell = self.boundaries[at] + (words[2] * self.lengths[at] >> self.word_bits)
            position = (cell - (words[1] - self.base[state]) // self.step[state]) % self.cells
        return state << POSITION_BITS | position

    # -- exact probabilities ------------------------------------------------------------------------------------

    def word_triples(self, value: int, report: int) -> int:
        """Return the exact number of word triples, of 2^3w, for which `value` sends `report`.

        It is counts * 2^w * b for a core value and counts * (base * b + Σ over arc cells t of their words 2 times
        the words 3 that pick cell position + t) for a tail value, b the words 3 that pick the position.
        """
        state, position = report >> POSITION_BITS, report & (1 << POSITION_BITS) - 1
        size = 1 << self.word_bits
        at_position = _words_below(position + 1, self.cells, size) - _words_below(position, self.cells, size)
        place = bisect_left(self.core, value)
        if place < len(self.core) and self.core[place] == value:
            return self.counts[place][state] * size * at_position
        at = value - place
        whole, rest = divmod(size - self.base[state], self.step[state])
        covered = self.step[state] * self._words_on(at, position, whole)
        covered += rest * self._words_on(at, position + whole, 1)
        return self.counts[-1][state] * (self.base[state] * at_position + covered)

    def likelihood(self, value: int, report: int) -> Fraction:
        """Return Q(report|value), exactly."""
        return Fraction(self.word_triples(value, report), 1 << WORDS_PER_SAMPLE * self.word_bits)

    def state_marginal(self) -> tuple[Fraction, ...]:
        """Return λ_j, the probability of each state under the prior, exactly; positions are uniform given it."""
        scale = sum(self.weights) << self.word_bits
        mass = [*(self.weights[value] for value in self.core), self.tail_sums[-1]]
        columns = zip(*self.counts, strict=True)
        return tuple(Fraction(sum(w * n for w, n in zip(mass, column, strict=True)), scale) for column in columns)

    def to_rows(self) -> list[list[int]]:
        """Return the whole channel as `word_triples`, a row per value; for small circles only."""
        reports = [state << POSITION_BITS | cell for state in range(len(self.states)) for cell in range(self.cells)]
        return [[self.word_triples(value, report) for report in reports] for value in range(len(self.weights))]

    def _words_on(self, at: int, start: int, cells: int) -> int:
        """Return how many words 3 pick a cell of tail segment `at` on the arc of `cells` from `start`."""
        size, words = 1 << self.word_bits, 0
        for turn in (0, self.cells):
            first = min(max(start - turn - self.boundaries[at], 0), self.lengths[at])
            last = min(max(start + cells - turn - self.boundaries[at], 0), self.lengths[at])
            words += _words_below(last, self.lengths[at], size) - _words_below(first, self.lengths[at], size)
        return words

    def lift_range(self) -> tuple[Fraction, Fraction]:
        """Return exact bounds of the largest and the smallest lift Q(y|x)/λ(y), over all values and reports.

        Let A = counts, B = base, S = min(step, 2^w - base), and let b, floor or ceil of 2^w/M, be the words 3 of a
        position.  The triples of report (j, s) are 2^w b A_xj for a core value, between A_j B_j b and
        A_j (B_j b + S_j 2^w) for a tail value, and on average under the prior (times W = the sum of weights)

            2^w b Σ_core w_x A_xj + T_w A_j (B_j b + 2^w ((2^w - B_j)/M ± S_j δ)).

        δ bounds |prior mass of the arc - L_j/M|: with F(t) the tail prior's mass before cell t (for the u that
        word 3 really picks), M F(t) - t interpolates the rounding of boundaries, in [0, 1) and 0 if they are exact,
        plus less than M/2^w for rounding word 3.  An arc's mass is a mean of differences of F, so δ = 1/M (or 0)
        + 2^-w.  Each lift is a ratio of functions linear in b, so b at its two ends is the worst case.
        """
        size, total = 1 << self.word_bits, sum(self.weights)
        delta = Fraction(int(self.cells < self._units), self.cells) + Fraction(1, size)
        highest, lowest = Fraction(0), Fraction(total)
        for j, (base, step, tail) in enumerate(zip(self.base, self.step, self.counts[-1], strict=True)):
            rows = [row[j] for row in self.counts[:-1]]
            per_cell = min(step, size - base)
            core = sum(self.weights[x] * count for x, count in zip(self.core, rows, strict=True))
            for b in {size // self.cells, -(-size // self.cells)}:
                arc = Fraction(size * (size - base), self.cells)
                mean = size * b * core + self.tail_sums[-1] * tail * (base * b + arc)
                slack = self.tail_sums[-1] * tail * size * per_cell * delta
                upper = max(size * b * max(rows, default=0), tail * (base * b + per_cell * size))
                lower = min(size * b * min(rows, default=size), tail * base * b)
                if mean <= slack:  # Words too short to tell: W is more than any lift can be.
                    return Fraction(total), Fraction(0)
                highest = max(highest, upper * total / (mean - slack))
                lowest = min(lowest, lower * total / (mean + slack))
        return highest, lowest

    def within(self, ratio: Fraction) -> bool:
        """Whether 1/ratio ≤ lift ≤ ratio holds for every value and report, in exact arithmetic."""
        highest, lowest = self.lift_range()
        return highest <= ratio and lowest * ratio >= 1


def _words_below(cells: int, length: int, size: int) -> int:
    """Return how many words w < size have floor(w * length / size) < cells: ceil(cells * size / length)."""
    return -(-cells * size // length)


def _rank(edges: Words, row: npt.NDArray[np.intp], word: Words) -> Integers:
    """Return how many entries of `edges[row]` are at most `word`, by binary search in every row at once."""
    low, high = np.zeros(len(row), np.int64), np.full(len(row), edges.shape[1])
    for _ in range(edges.shape[1].bit_length()):
        middle = (low + high) // 2
        below = (low < high) & (edges[row, np.minimum(middle, edges.shape[1] - 1)] <= word)
        low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
    return low


def _scale(word: Words, length: Words | np.uint64, word_bits: int) -> Words:
    """Return floor(word * length / 2^word_bits) without overflow, for length ≤ 2^32.

    With word = a 2^32 + b, the 64-bit case is (a length + floor(b length / 2^32)) / 2^32: each term fits 64 bits.
    """
    half = np.uint64(32)
    if word_bits <= 32:
        return word * length >> np.uint64(word_bits)
    low_bits = np.uint64(word_bits - 32)
    high_part, low_part = word >> low_bits, word & (np.uint64(1) << low_bits) - np.uint64(1)
    return high_part * length + (low_part * length >> low_bits) >> half
