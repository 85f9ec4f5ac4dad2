"""The rule of the mechanism `shuffled-circle`: every report carries a public random order of the values. Integers only.

The circle.  The prior P on its d possible values is laid out in n_x ≥ 1 cells, M = 2^B cells in all (`cells`), so that
P̃ = n/M differs from P by a total variation δ (`cell_error`), a rational. A seed of S bits, public and drawn without
regard to the answer, puts the values in an order: value x gets the key

    key = mul(h ⊕ ⌊h/2^15⌋, 0x846ca68b),   h = mul(a, x) + b   (mod 2^32),   a odd, a and b a function of the seed,

and on the circle the values lie in the order of their keys, each on its own n_x cells. Every step of the key can be
undone, so no two values share one. (The shift matters: keys a·x + b alone are a lattice, and values whose places in
the domain form a progression keep theirs on every circle.)

The report.  It is a seed and a position; an arc of L cells starts there and covers the share c_x of the cells of x. The
cells covered are L for every report, so Σ P̃_x c_x = m = L/M. A position is sent with a probability proportional to
1 − mq + q·c_x, where the amplitude q is a multiple of 2^(B−W).

What is sampled.  All randomness is two words uniform on {0, …, 2^w − 1}, w = `word_bits`. The last S/2 bits of the two
are the seed. What is left, α of word 1 and β of word 2, has W = w − S/2 bits:

    α < base:  the position is ⌊β M/2^W⌋, exactly uniform because M is a power of two;
    else:      t = (α − base) // step is a cell of the arc, exactly uniform because base = 2^W − L·step;
               u = ⌊β n_x/2^W⌋ is a cell of the value; the position is the start of x, plus u, less t (mod M).

There is no rejection and no floating point, and q = step/2^(W−B). Of the 2^2W pairs (α, β) value x sends a position for

    base·2^(W−B) + step·C_x,        C_x = #{β : cell u of x lies on the arc} = 2^W c_x + e_x,   |e_x| < 1.

(β ↦ u is monotone, so a run of cells i, …, j−1 gets ⌈j 2^W/n⌉ − ⌈i 2^W/n⌉ words, and what an arc covers of x is a run
or the complement of one; all n cells get 2^W exactly.) `ShuffledCircleRule.lift_range` draws the conclusion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tacit.exact import Integers

Keys = npt.NDArray[np.uint32]

WORDS_PER_SAMPLE = 2
#: A report holds a seed and a position; JSON and JavaScript hold integers below 2^53.
REPORT_BITS = 52
_LOW_32 = 0xFFFFFFFF
_MULTIPLIER = 0x846CA68B


@dataclass(frozen=True)
class ShuffledCircleRule:
    """A shuffled circle for the prior `weights[x]`/Σ weights; see the module's docstring.

    where: `arc` = L, `step` = q·2^(W−B), `cell_bits` = B, `seed_bits` = S, `word_bits` = w.

    >>> rule = ShuffledCircleRule((3, 1, 2, 2), arc=2, step=9, cell_bits=3, seed_bits=4, word_bits=8)
    >>> rule.cells, rule.base, rule.draw(0, (255, 255))
    ((3, 1, 2, 2), 46, 125)
    """

    weights: tuple[int, ...]
    arc: int
    step: int
    cell_bits: int = 28
    seed_bits: int = 24
    word_bits: int = 64

    def __post_init__(self) -> None:
        if min(self.weights, default=0) <= 0:
            raise ValueError("Every weight must be positive: a value of zero prior has no guarantee. Drop or floor it.")
        if self.seed_bits % 2 or not 0 <= self.seed_bits <= 32:
            raise ValueError(f"The 'seed_bits' must be even and in 0..32. Got {self.seed_bits} instead.")
        if not (1 <= self.cell_bits <= 30 and self.cell_bits + self.seed_bits <= REPORT_BITS):
            raise ValueError(f"The 'cell_bits' must be in 1..30, a report within 52 bits. Got {self.cell_bits}.")
        if not (self.cell_bits <= self.choice_bits <= REPORT_BITS and self.word_bits <= 64):
            raise ValueError(f"The 'word_bits' must be at most 64 and leave room for cells. Got {self.word_bits}.")
        if len(self.weights) > self.circle:
            raise ValueError(f"A circle of {self.circle} cells has no room for {len(self.weights)} values.")
        if not (0 < self.arc < self.circle and self.step > 0 and self.base > 0):
            raise ValueError(f"The 'arc' and 'step' must be positive and leave a base. Got {self.arc} and {self.step}.")

    # -- the circle ----------------------------------------------------------------------------------------------

    @property
    def circle(self) -> int:
        """M, the cells of the circle."""
        return 1 << self.cell_bits

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """n_x, the cells of every value."""
        return lay_out(self.weights, self.circle)

    @cached_property
    def cell_error(self) -> Fraction:
        """δ = ½ Σ |n_x/M − P_x|, exactly."""
        total = sum(self.weights)
        more = sum(max(0, n * total - w * self.circle) for n, w in zip(self.cells, self.weights, strict=True))
        return Fraction(more, self.circle * total)

    @cached_property
    def cell_array(self) -> Integers:
        """`cells` as an array."""
        return np.array(self.cells, dtype=np.int64)

    def starts(self, seed: int) -> Integers:
        """The first cell of every value on the circle of `seed`."""
        order = np.argsort(keys_of(seed, len(self.weights)))
        sizes = self.cell_array[order]
        starts = np.empty(len(order), dtype=np.int64)
        starts[order] = np.cumsum(sizes) - sizes
        return starts

    def start(self, seed: int, value: int) -> int:
        """The first cell of one value: the cells of all values with smaller keys."""
        keys = keys_of(seed, len(self.weights))
        return int(self.cell_array[keys < keys[value]].sum())

    def covered_cells(self, report: int) -> Integers:
        """How many cells of every value the arc of `report` covers; L in all."""
        seed, position = divmod(report, self.circle)
        first = self.starts(seed) - position
        covered = np.zeros(len(first), dtype=np.int64)
        for turn in (0, self.circle):  # Cells counted from the position: the arc is 0, …, L−1.
            begin, end = first + turn, first + turn + self.cell_array
            covered += np.maximum(np.minimum(end, self.arc) - np.maximum(begin, 0), 0)
        return covered

    # -- the words -----------------------------------------------------------------------------------------------

    @property
    def choice_bits(self) -> int:
        """W, the bits of a word beside the seed's."""
        return self.word_bits - self.seed_bits // 2

    @property
    def base(self) -> int:
        """How many α of 2^W ignore the value."""
        return (1 << self.choice_bits) - self.arc * self.step

    @property
    def share(self) -> Fraction:
        """m = L/M, the covered part of the circle."""
        return Fraction(self.arc, self.circle)

    @property
    def amplitude(self) -> Fraction:
        """q = step/2^(W−B): lifts under P̃ are 1 + q(c_x − m)."""
        return Fraction(self.step, 1 << self.choice_bits - self.cell_bits)

    def draw(self, value: int, words: tuple[int, int]) -> int:
        """The report seed·2^B + position of `value`: a pure function of two uniform words."""
        half = self.seed_bits // 2
        alpha, beta = words[0] >> half, words[1] >> half
        low = (1 << half) - 1
        seed = (words[0] & low) << half | (words[1] & low)
        if alpha < self.base:
            position = beta >> self.choice_bits - self.cell_bits
        else:
            cell = self.start(seed, value) + (beta * self.cells[value] >> self.choice_bits)
            position = (cell - (alpha - self.base) // self.step) % self.circle
        return seed << self.cell_bits | position

    def word_pairs(self, value: int, report: int) -> int:
        """The exact number of pairs (α, β), of 2^2W, for which `value` sends `report` once its seed is drawn."""
        seed, position = divmod(report, self.circle)
        length, first = self.cells[value], self.start(seed, value) - position
        on_arc = 0
        for turn in (0, self.circle):
            begin, end = max(0, -first - turn), min(length, self.arc - first - turn)
            if begin < end:
                on_arc += self._words_below(end, length) - self._words_below(begin, length)
        return (self.base << self.choice_bits - self.cell_bits) + self.step * on_arc

    def likelihood(self, value: int, report: int) -> Fraction:
        """Q(report|value), exactly."""
        return Fraction(self.word_pairs(value, report), 1 << 2 * self.choice_bits + self.seed_bits)

    def _words_below(self, cells: int, length: int) -> int:
        """How many β have ⌊β·length/2^W⌋ < cells."""
        return -(-(cells << self.choice_bits) // length)

    # -- the promise ---------------------------------------------------------------------------------------------

    @property
    def odds(self) -> Fraction:
        """r, the largest ratio of the likelihoods of two values: ln r is the LDP level, exactly, whatever the prior.

        By the module's count a likelihood is between base·2^(W−B) (no word of x on the arc) and that plus step·2^W
        (all of them), and r = 1 + step·M/base is the ratio of the two.
        """
        return 1 + Fraction(self.step * self.circle, self.base)

    def lift_range(self, radius: Fraction = Fraction(0)) -> tuple[Fraction, Fraction]:
        """Exact bounds (highest, lowest) of the lifts under every prior within total variation `radius` of P.

        Proof.  Let R be such a prior, τ' = radius + δ, so that R is within τ' of P̃. In units of 2^W a likelihood is
        base/M + step·C_x/2^W, and C_x is in [0, 2^W]. The likelihood's mean under R is base/M + step·c̄,
        c̄ = Σ R_x C_x/2^W, and because Σ P̃ c = m, c is in [0, 1] and |e_x| < 1,

            max(0, m − τ' − 2^−W)  ≤  c̄  ≤  min(1, m + τ' + 2^−W).

        A lift is the first divided by the second. Seeds cancel: they have the same distribution for every value. ∎
        """
        off = radius + self.cell_error + Fraction(1, 1 << self.choice_bits)
        least, most = max(Fraction(0), self.share - off), min(Fraction(1), self.share + off)
        base = Fraction(self.base, self.circle)
        return (base + self.step) / (base + self.step * least), base / (base + self.step * most)

    def within(self, ratio: Fraction, radius: Fraction = Fraction(0)) -> bool:
        """Whether 1/ratio ≤ lift ≤ ratio holds under every prior within `radius`, in exact arithmetic."""
        highest, lowest = self.lift_range(radius)
        return highest <= ratio and lowest * ratio >= 1


def lay_out(weights: Sequence[int], cells: int) -> tuple[int, ...]:
    """Cells in proportion to the weights, at least one each, by largest remainders; earlier values win ties.

    A value whose share is less than a cell gets one; the others divide what is left, until every share is a cell.

    >>> lay_out((6, 1, 1), 4), lay_out((1000, 1, 1, 1), 8)
    ((2, 1, 1), (5, 1, 1, 1))
    """
    total, room = sum(weights), cells
    small = [False] * len(weights)
    while True:
        found = [x for x, w in enumerate(weights) if not small[x] and w * room < total]
        if not found:
            break
        for x in found:
            small[x] = True
        total -= sum(weights[x] for x in found)
        room -= len(found)
    layout = [1 if small[x] else w * room // total for x, w in enumerate(weights)]
    left = cells - sum(layout)
    by_remainder = sorted((x for x in range(len(weights)) if not small[x]), key=lambda x: -(weights[x] * room % total))
    for x in by_remainder[:left]:
        layout[x] += 1
    return tuple(layout)


def keys_of(seed: int, size: int) -> Keys:
    """The keys of the values 0, …, size−1 under a seed: on the circle they lie in increasing order of keys.

    >>> keys_of(7, 3).tolist()
    [701323630, 1712764510, 2136487101]
    """
    multiplier, offset = np.array(seed_numbers(seed), dtype=np.uint32)
    mixed = np.arange(size, dtype=np.uint32) * multiplier + offset
    keys: Keys = (mixed ^ mixed >> np.uint32(15)) * np.uint32(_MULTIPLIER)
    return keys


def seed_numbers(seed: int) -> tuple[int, int]:
    """The odd multiplier a and the offset b of a seed."""
    return _mix(seed ^ 0x9E3779B9) | 1, _mix(seed + 0x51ED270B)


def _mix(number: int) -> int:
    """A bijection of 32-bit integers in which every bit of the argument moves every bit of the result."""
    h = number & _LOW_32
    h = (h ^ h >> 16) * 0x7FEB352D & _LOW_32
    h = (h ^ h >> 15) * _MULTIPLIER & _LOW_32
    return h ^ h >> 16
