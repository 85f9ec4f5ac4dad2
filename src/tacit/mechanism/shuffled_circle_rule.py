"""The rule of the mechanism `shuffled-circle`: every report carries a public random order of the values. Integers only.

The circle.  The prior P on its d possible values is laid out in n_x ≥ 1 cells, M = 2^B cells in all (`cells`), so that
P̃ = n/M differs from P by a total variation δ (`cell_error`), a rational. If 2^B < 2d there is no room to follow P: then
M = d, and every value has one cell. The cells of x are cut into k_x = ⌈n_x/limit⌉ pieces of nearly equal length, piece
i = 0, …, k_x−1 from cell ⌊i n_x/k_x⌋ on, and the pieces of all values are numbered in the order of the values. The
limit is the arc, but at least ⌊M/2⌈√d⌉⌋, so that there are at most about 2√d pieces more than values. A seed of S bits,
public and drawn without regard to the answer, puts the pieces in an order: piece j gets the key

    key = mul(h ⊕ ⌊h/2^15⌋, 0x846ca68b),   h = mul(a, j) + b   (mod 2^32),   a odd, a and b a function of the seed,

and on the circle the pieces lie in the order of their keys, each on its own cells. Every step of the key can be
undone, so no two pieces share one. (The shift matters: keys a·j + b alone are a lattice, and values whose places in
the domain form a progression keep theirs on every circle.)

Why pieces.  Left whole, a value longer than the arc often holds all of it, and all other values are uncovered together:
they are told apart from it but not from each other. Cut very fine, it is covered to the same part by every arc, and
little is learned of it: if two light values share a gap between pieces with probability s, a light value varies by
1/(1−s) times as much as it would alone, and the heavy one by about 1/s. The sum over d values is least at s = 1/√d, but
then the heavy one is far worse than under LDP. With pieces as long as the arc neither it nor any other is.

The report.  It is a seed and a position; an arc of L cells starts there and covers the share c_x of the cells of x. The
cells covered are L for every report, so Σ P̃_x c_x = m = L/M. A position is sent with a probability proportional to
1 − mq + q·c_x, where the amplitude q is a multiple of M/2^W.

What is sampled.  All randomness is two words uniform on {0, …, 2^w − 1}, w = `word_bits`. The last S/2 bits of the two
are the seed. What is left, α of word 1 and β of word 2, has W = w − S/2 bits:

    α < base:  the position is ⌊β M/2^W⌋;
    else:      t = (α − base) // step is a cell of the arc, exactly uniform because base = 2^W − L·step;
               u = ⌊β n_x/2^W⌋ is a cell of the value; the position is the place of u on the circle, less t (mod M).

There is no rejection and no floating point, and q = step·M/2^W. Of the 2^2W pairs (α, β) value x sends a position for

    base·b + step·C_x,     C_x = #{β : cell u of x lies on the arc} = 2^W c_x + e_x,   |e_x| < k_x,   0 ≤ C_x ≤ 2^W,

where b, the number of β that give this position, is the same for every value and at least ⌊2^W/M⌋, which it is for all
positions if M is a power of two. (β ↦ u is monotone, so a run of cells i, …, j−1 gets ⌈j 2^W/n⌉ − ⌈i 2^W/n⌉ words, less
than one off from what it should; and what an arc covers of x is at most one run of each piece, or else leaves out one
run only; all n cells get 2^W exactly.) `ShuffledCircleRule.lift_range` draws the conclusion.
"""

from __future__ import annotations

import math
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


@dataclass(frozen=True, kw_only=True)
class ShuffledCircleRule:
    """A shuffled circle for the prior `weights[x]`/Σ weights; see the module's docstring.

    where: `arc` = L, `step` = q·2^W/M, `cell_bits` = B, `seed_bits` = S, `word_bits` = w.

    >>> rule = ShuffledCircleRule(weights=(9, 1, 4, 2), arc=4, step=9, cell_bits=4, seed_bits=4, word_bits=8)
    >>> rule.cells, rule.pieces, rule.piece_cells.tolist(), rule.base, rule.draw(0, (255, 255))
    ((9, 1, 4, 2), (3, 1, 1, 1), [3, 3, 3, 1, 4, 2], 28, 243)
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
        if len(self.weights) > 1 << self.cell_bits:
            raise ValueError(f"A circle of {1 << self.cell_bits} cells has no room for {len(self.weights)} values.")
        if not (0 < self.arc < self.circle and self.step > 0 and self.base > 0):
            raise ValueError(f"The 'arc' and 'step' must be positive and leave a base. Got {self.arc} and {self.step}.")

    # -- the circle ----------------------------------------------------------------------------------------------

    @property
    def circle(self) -> int:
        """M, the cells of the circle: one for each value, or else at least twice as many."""
        return len(self.weights) if 1 << self.cell_bits < 2 * len(self.weights) else 1 << self.cell_bits

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """n_x, the cells of every value."""
        return lay_out(self.weights, self.circle)

    @cached_property
    def cell_error(self) -> Fraction:
        """δ = ½ Σ |n_x/M − P_x|, exactly."""
        total, circle = sum(self.weights), self.circle
        more = sum(max(0, n * total - w * circle) for n, w in zip(self.cells, self.weights, strict=True))
        return Fraction(more, circle * total)

    @cached_property
    def cell_array(self) -> Integers:
        """`cells` as an array."""
        return np.array(self.cells, dtype=np.int64)

    @cached_property
    def pieces(self) -> tuple[int, ...]:
        """k_x, into how many pieces the cells of every value are cut."""
        root = math.isqrt(len(self.weights) - 1) + 1
        limit = max(self.arc, self.circle // (2 * root))
        return tuple(-(-n // limit) for n in self.cells)

    @cached_property
    def owners(self) -> Integers:
        """The value of every piece."""
        return np.repeat(np.arange(len(self.weights)), self.pieces)

    @cached_property
    def first_pieces(self) -> Integers:
        """The number of every value's first piece."""
        counts = np.array(self.pieces, dtype=np.int64)
        return np.cumsum(counts) - counts

    @cached_property
    def offsets(self) -> Integers:
        """⌊i n/k⌋, the first cell of every piece among those of its value."""
        within = np.arange(len(self.owners)) - self.first_pieces[self.owners]
        offsets: Integers = within * self.cell_array[self.owners] // np.array(self.pieces)[self.owners]
        return offsets

    @cached_property
    def piece_cells(self) -> Integers:
        """The cells of every piece."""
        ends = np.append(self.offsets[1:], 0)
        ends[self.first_pieces[1:] - 1] = self.cell_array[:-1]
        ends[-1] = self.cell_array[-1]
        return ends - self.offsets

    def starts(self, seed: int) -> Integers:
        """The first cell of every piece on the circle of `seed`."""
        order = np.argsort(keys_of(seed, len(self.owners)))
        sizes = self.piece_cells[order]
        starts = np.empty(len(order), dtype=np.int64)
        starts[order] = np.cumsum(sizes) - sizes
        return starts

    def start(self, seed: int, piece: int) -> int:
        """The first cell of one piece: the cells of all pieces with smaller keys."""
        keys = keys_of(seed, len(self.owners))
        return int(self.piece_cells[keys < keys[piece]].sum())

    def covered_cells(self, report: int) -> Integers:
        """How many cells of every value the arc of `report` covers; L in all."""
        seed, position = divmod(report, 1 << self.cell_bits)
        first = self.starts(seed) - position
        covered = np.zeros(len(first), dtype=np.int64)
        for turn in (0, self.circle):  # Cells counted from the position: the arc is 0, …, L−1.
            begin, end = first + turn, first + turn + self.piece_cells
            covered += np.maximum(np.minimum(end, self.arc) - np.maximum(begin, 0), 0)
        of_values: Integers = np.add.reduceat(covered, self.first_pieces)
        return of_values

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
        """q = step·M/2^W: lifts under P̃ are 1 + q(c_x − m)."""
        return Fraction(self.step * self.circle, 1 << self.choice_bits)

    def draw(self, value: int, words: tuple[int, ...]) -> int:
        """The report seed·2^B + position of `value`: a pure function of two uniform words."""
        half = self.seed_bits // 2
        alpha, beta = words[0] >> half, words[1] >> half
        low = (1 << half) - 1
        seed = (words[0] & low) << half | (words[1] & low)
        if alpha < self.base:
            position = beta * self.circle >> self.choice_bits
        else:
            cell = beta * self.cells[value] >> self.choice_bits
            piece = int(self.first_pieces[value]) + ((cell + 1) * self.pieces[value] - 1) // self.cells[value]
            place = self.start(seed, piece) + cell - int(self.offsets[piece])
            position = (place - (alpha - self.base) // self.step) % self.circle
        return seed << self.cell_bits | position

    def word_pairs(self, value: int, report: int) -> int:
        """The exact number of pairs (α, β), of 2^2W, for which `value` sends `report` once its seed is drawn."""
        seed, position = divmod(report, 1 << self.cell_bits)
        if position >= self.circle:
            return 0
        length, starts, on_arc = self.cells[value], self.starts(seed), 0
        for piece in np.flatnonzero(self.owners == value).tolist():
            size, offset = int(self.piece_cells[piece]), int(self.offsets[piece])
            first = int(starts[piece]) - position
            for turn in (0, self.circle):
                begin, end = max(0, -first - turn), min(size, self.arc - first - turn)
                if begin < end:
                    on_arc += self._words_below(offset + end, length) - self._words_below(offset + begin, length)
        uniform = self._words_below(position + 1, self.circle) - self._words_below(position, self.circle)
        return self.base * uniform + self.step * on_arc

    def likelihood(self, value: int, report: int) -> Fraction:
        """Q(report|value), exactly."""
        return Fraction(self.word_pairs(value, report), 1 << 2 * self.choice_bits + self.seed_bits)

    def _words_below(self, cells: int, length: int) -> int:
        """How many β have ⌊β·length/2^W⌋ < cells."""
        return -(-(cells << self.choice_bits) // length)

    # -- the promise ---------------------------------------------------------------------------------------------

    @property
    def uniform_words(self) -> int:
        """⌊2^W/M⌋: so many β, or one more, give each position to those who ignore the value."""
        return (1 << self.choice_bits) // self.circle

    @property
    def odds(self) -> Fraction:
        """r, a bound of the ratio of the likelihoods of two values: ln r is the LDP level, whatever the prior.

        By the module's count a likelihood is between base·b (no word of x on the arc) and that plus step·2^W (all of
        them), and b ≥ ⌊2^W/M⌋. It is reached if an arc can cover one value whole and nothing of another.
        """
        return 1 + Fraction(self.step << self.choice_bits, self.base * self.uniform_words)

    @cached_property
    def slack(self) -> Fraction:
        """δ + 2^−W max k_x: how far Σ P_x C_x/2^W can be from m."""
        return self.cell_error + Fraction(max(self.pieces), 1 << self.choice_bits)

    def lift_range(self, radius: Fraction = Fraction(0)) -> tuple[Fraction, Fraction]:
        """Exact bounds (highest, lowest) of the lifts under every prior within total variation `radius` of P.

        Proof.  Let R be such a prior; it is within radius + δ of P̃. In units of 2^W a likelihood is
        base·b/2^W + step·C_x/2^W with C_x in [0, 2^W], and its mean under R is base·b/2^W + step·c̄, where
        c̄ = Σ R_x C_x/2^W. Because Σ P̃ c = m, c is in [0, 1] and |e_x| < k_x, with τ' = radius + `slack`

            max(0, m − τ')  ≤  c̄  ≤  min(1, m + τ').

        A lift is the first divided by the second, and both its bounds are widest at the least b. Seeds cancel: they
        have the same distribution for every value. ∎
        """
        off = radius + self.slack
        least, most = max(Fraction(0), self.share - off), min(Fraction(1), self.share + off)
        base = Fraction(self.base * self.uniform_words, 1 << self.choice_bits)
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
    """The keys of the pieces 0, …, size−1 under a seed: on the circle they lie in increasing order of keys.

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
