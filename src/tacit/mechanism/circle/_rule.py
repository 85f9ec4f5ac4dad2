"""The rule of the circles: a report is a public order of the values and an arc of the circle. Integers only.

The circle.  The prior P on its d possible values is laid out in n_x ≥ 1 cells, M = 2^B cells in all (`cells`), so that
P̃ = n/M differs from P by a total variation δ (`cell_error`), a rational. If 2^B < 2d there is no room to follow P: then
M = d, and every value has one cell. The cells of x are cut into k_x = ⌈n_x/limit⌉ pieces of nearly equal length, piece
i = 0, …, k_x−1 from cell ⌊i n_x/k_x⌋ on, and the pieces of all values are numbered in the order of the values. The
limit is the arc, but at least ⌊M/2⌈√d⌉⌋, so that there are at most about 2√d pieces more than values.

The orders.  A seed of S bits, public and drawn without regard to the answer, chooses one of A orders. Under an order
all values lie on stretches of the circle, which fill it: x on those of `stretches`, of ν_x cells in all. Either they
are its own pieces, ν_x = n_x, or it shares a stretch with others, and then ν_x is the sum of their n. Two mechanisms
have such orders: `shuffled_circle_rule` shuffles the pieces by hashed keys, `plane_circle_rule` takes the lines of a
finite plane.

Why pieces.  Left whole, a value longer than the arc often holds all of it, and all other values are uncovered together:
they are told apart from it but not from each other. Cut very fine, it is covered to the same part by every arc, and
little is learned of it: if two light values share a gap between pieces with probability s, a light value varies by
1/(1−s) times as much as it would alone, and the heavy one by about 1/s. The sum over d values is least at s = 1/√d, but
then the heavy one is far worse than under LDP. With pieces as long as the arc neither it nor any other is.

The report.  It is an order and a position; an arc of L cells starts there and covers the share c_x of the ν_x cells on
the stretches of x. Whoever shares a stretch has the same c, and n_x cells of it. The cells covered are L for every
report, so Σ P̃_x c_x = m = L/M. A position is sent with a probability proportional to 1 − mq + q·c_x, where the
amplitude q is a multiple of M/2^W.

What is sampled.  All randomness is two words uniform on {0, …, 2^w − 1}, w = `word_bits`. The last S/2 bits of the two
are the seed. What is left, α of word 1 and β of word 2, has W = w − S/2 bits:

    α < base:  the position is ⌊β M/2^W⌋;
    else:      t = (α − base) // step is a cell of the arc, exactly uniform because base = 2^W − L·step;
               u = ⌊β ν_x/2^W⌋ is a cell of the stretches; the position is the place of u on the circle, less t (mod M).

There is no rejection and no floating point, and q = step·M/2^W. Of the 2^2W pairs (α, β) value x sends a position for

    base·b + step·C_x,     C_x = #{β : cell u of x lies on the arc} = 2^W c_x + e_x,   |e_x| < k_x,   0 ≤ C_x ≤ 2^W,

where b, the number of β that give this position, is the same for every value and at least ⌊2^W/M⌋, which it is for all
positions if M is a power of two. (β ↦ u is monotone, so a run of cells i, …, j−1 gets ⌈j 2^W/ν⌉ − ⌈i 2^W/ν⌉ words, less
than one off from what it should; and what an arc covers of x is at most one run of each of its k_x stretches, or else
leaves out one run only; all ν cells get 2^W exactly.) `CircleRule.lift_range` draws the conclusion.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from tacit.exact import Integers
from tacit.prior import Prior

WORDS_PER_SAMPLE = 2
#: A report holds an order and a position; JSON and JavaScript hold integers below 2^53.
REPORT_BITS = 52

#: A run of consecutive cells on the circle: where it starts, its length, and the first of the value's cells on it.
Stretch = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class CircleRule(ABC):
    """A circle for the values of positive `prior`; see the module's docstring.

    where: `arc` = L, `step` = q·2^W/M, `cell_bits` = B, `seed_bits` = S, `word_bits` = w.
    """

    prior: Prior = field(hash=False)
    arc: int
    step: int
    cell_bits: int = 28
    seed_bits: int = 24
    word_bits: int = 64

    def __post_init__(self) -> None:
        if self.seed_bits % 2 or not 0 <= self.seed_bits <= 32:
            raise ValueError(f"The 'seed_bits' must be even and in 0..32. Got {self.seed_bits} instead.")
        if not (1 <= self.cell_bits <= 30 and self.orders << self.cell_bits <= 1 << REPORT_BITS):
            raise ValueError(f"The 'cell_bits' must be in 1..30, a report within 52 bits. Got {self.cell_bits}.")
        if not (self.cell_bits <= self.choice_bits <= REPORT_BITS and self.word_bits <= 64):
            raise ValueError(f"The 'word_bits' must be at most 64 and leave room for cells. Got {self.word_bits}.")
        if len(self.weights) > 1 << self.cell_bits:
            raise ValueError(f"A circle of {1 << self.cell_bits} cells has no room for {len(self.weights)} values.")
        if not (0 < self.arc < self.circle and self.step > 0 and self.base > 0):
            raise ValueError(f"The 'arc' and 'step' must be positive and leave a base. Got {self.arc} and {self.step}.")

    # -- the circle ----------------------------------------------------------------------------------------------

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """The prior's integers on its support, whose values the rule numbers."""
        return self.prior.on_support().weights

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
    def most_pieces(self) -> int:
        """The largest k_x."""
        return max(self.pieces)

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

    # -- the orders ----------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def orders(self) -> int:
        """A, how many there are."""

    @abstractmethod
    def stretches(self, value: int, order: int) -> list[Stretch]:
        """Where a value lies under an order."""

    def order_of(self, seed: int) -> int:
        """The order that a seed chooses: all nearly equally often, which concerns nobody's privacy."""
        return seed * self.orders >> self.seed_bits

    def _seeds_below(self, order: int) -> int:
        """How many seeds choose a smaller order."""
        return -(-(order << self.seed_bits) // self.orders)

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
        """The report order·2^B + position of `value`: a pure function of two uniform words."""
        half = self.seed_bits // 2
        alpha, beta = words[0] >> half, words[1] >> half
        low = (1 << half) - 1
        order = self.order_of((words[0] & low) << half | (words[1] & low))
        if alpha < self.base:
            position = beta * self.circle >> self.choice_bits
        else:
            stretches = self.stretches(value, order)
            cell = beta * _length(stretches) >> self.choice_bits
            start, _, first = next(each for each in reversed(stretches) if each[2] <= cell)
            position = (start + cell - first - (alpha - self.base) // self.step) % self.circle
        return order << self.cell_bits | position

    def word_pairs(self, value: int, report: int) -> int:
        """The exact number of pairs (α, β), of 2^2W, for which `value` sends `report` once its order is drawn."""
        order, position = divmod(report, 1 << self.cell_bits)
        if position >= self.circle:
            return 0
        stretches, on_arc = self.stretches(value, order), 0
        length = _length(stretches)
        for start, size, cell in stretches:
            for turn in (0, self.circle):  # Cells counted from the position: the arc is 0, …, L−1.
                first = start - position + turn
                begin, end = max(0, -first), min(size, self.arc - first)
                if begin < end:
                    on_arc += self._words_below(cell + end, length) - self._words_below(cell + begin, length)
        uniform = self._words_below(position + 1, self.circle) - self._words_below(position, self.circle)
        return self.base * uniform + self.step * on_arc

    def likelihood(self, value: int, report: int) -> Fraction:
        """Q(report|value), exactly."""
        order = report >> self.cell_bits
        seeds = self._seeds_below(order + 1) - self._seeds_below(order)
        return Fraction(seeds * self.word_pairs(value, report), 1 << 2 * self.choice_bits + self.seed_bits)

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
        return self.cell_error + Fraction(self.most_pieces, 1 << self.choice_bits)

    def lift_range(self, radius: Fraction = Fraction(0)) -> tuple[Fraction, Fraction]:
        """Exact bounds (highest, lowest) of the lifts under every prior within total variation `radius` of P.

        Proof.  Let R be such a prior; it is within radius + δ of P̃. In units of 2^W a likelihood is
        base·b/2^W + step·C_x/2^W with C_x in [0, 2^W], and its mean under R is base·b/2^W + step·c̄, where
        c̄ = Σ R_x C_x/2^W. Because Σ P̃ c = m, c is in [0, 1] and |e_x| < k_x, with τ' = radius + `slack`

            max(0, m − τ')  ≤  c̄  ≤  min(1, m + τ').

        A lift is the first divided by the second, and both its bounds are widest at the least b. Orders cancel:
        they have the same distribution for every value. ∎
        """
        off = radius + self.slack
        least, most = max(Fraction(0), self.share - off), min(Fraction(1), self.share + off)
        base = Fraction(self.base * self.uniform_words, 1 << self.choice_bits)
        return (base + self.step) / (base + self.step * least), base / (base + self.step * most)

    def within(self, ratio: Fraction, radius: Fraction = Fraction(0)) -> bool:
        """Whether 1/ratio ≤ lift ≤ ratio holds under every prior within `radius`, in exact arithmetic."""
        highest, lowest = self.lift_range(radius)
        return highest <= ratio and lowest * ratio >= 1


def _length(stretches: Sequence[Stretch]) -> int:
    """ν, the cells on all of them."""
    return sum(size for _, size, _ in stretches)


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
