"""The circle of `many-values`: a report is a public order of the values and an arc of the circle. Integers only.

The circle.  Value x has n_x ≥ 1 cells, M in all. They are cut into k_x = ⌈n_x/limit⌉ pieces of nearly equal length,
piece i = 0, …, k_x−1 from cell ⌊i n_x/k_x⌋ on, and the pieces of all values are numbered in the order of the values.
The limit is the arc, but at least ⌊M/2⌈√d⌉⌋, so that there are at most about 2√d pieces more than values.

The orders.  A seed of S bits, public and drawn without regard to the answer, chooses one of A orders. Under an order
all values lie on stretches of the circle, which fill it: x on those of `stretches`, of ν_x cells in all. Either they
are its own pieces, ν_x = n_x, or it shares a stretch with others, and then ν_x is the sum of their n. There are two
families of orders: `_shuffled` shuffles the pieces by hashed keys, `_plane` takes the lines of a finite plane.

Why pieces.  Left whole, a value longer than the arc often holds all of it, and all other values are uncovered together:
they are told apart from it but not from each other. Such values are rare here: heavy ones are giants (`_rule`).

The report.  It is an order and a position; an arc of L cells starts there and covers the share c_x of the ν_x cells on
the stretches of x. Values that share a stretch have the same c, each with n_x cells of it. The cells covered are L for
every report, so Σ n_x c_x = L.

What is sampled.  All randomness is two words uniform on {0, …, 2^w − 1}, w = `word_bits`. The last S/2 bits of the two
are the seed. What is left, α of word 1 and β of word 2, has W = w − S/2 bits:

    α < base:  the position is ⌊β M/2^W⌋;
    else:      t = (α − base) // step is a cell of the arc, exactly uniform because base = 2^W − L·step;
               u = ⌊β ν_x/2^W⌋ is a cell of the stretches; the position is the place of u on the circle, less t (mod M).

There is no rejection and no floating point. Of the 2^2W pairs (α, β) value x sends a position for

    base·b + step·C_x,     C_x = #{β : cell u of x lies on the arc} = 2^W c_x + e_x,   |e_x| < k_x,   0 ≤ C_x ≤ 2^W,

where b, the number of β that give this position, is the same for every value and ⌊2^W/M⌋ or one more. (β ↦ u is
monotone, so a run of cells i, …, j−1 gets ⌈j 2^W/ν⌉ − ⌈i 2^W/ν⌉ words, less than one off from what it should; and what
an arc covers of x is at most one run of each of its k_x stretches, or else leaves out one run only; all ν cells get
2^W exactly.)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats, Integers
from tacit.mechanism.kept import COVERAGE_UNIT

#: A report holds an order and a position; JSON and JavaScript hold integers below 2^53.
REPORT_BITS = 52

#: The third moments of values in pieces are taken over about this many coverages, and at most this many reports.
_SAMPLED_COVERAGES, _MOST_SAMPLED = 2**21, 2**13

#: Weights of a sum below this are divided in 64 bits.
_EXACT_TOTAL = 2**61

#: A run of consecutive cells on the circle: where it starts, its length, and the first of the value's cells on it.
Stretch = tuple[int, int, int]


class Information(Protocol):
    """J = E[v vᵀ] = 11ᵀ + q²A of the lifts v = 1 + q(c − m), A the covariance of the coverage c; and its inverse."""

    @property
    def spreads(self) -> Floats:
        """A_xx for every value."""
        ...

    def multiply(self, right: Floats) -> Floats:
        """J·right; for each row of a matrix."""
        ...

    def solve(self, right: Floats) -> Floats:
        """J⁻¹·right; for each row of a matrix."""
        ...

    def inverse_diagonal(self) -> Floats:
        """(J⁻¹)_xx for every value."""
        ...


class CircleWeights(NamedTuple):
    """How many words make values send a report at one position.

    where: every value sends it for `common` of them, the `uniform` part of which ignored answers need, values under
    the arc for up to `on_arc` more, by an arc of `arc` cells up to `rounding`, and those of the bin `bin` for `in_bin`.
    """

    uniform: int
    common: int
    on_arc: int
    arc: Fraction
    rounding: Fraction
    in_bin: int = 0
    bin: int | None = None


@dataclass(frozen=True, kw_only=True)
class Circle(ABC):
    """A circle; see the module's docstring.

    where: `cells` = n, `arc` = L, `cell_bits` = B, the bits of a position, `seed_bits` = S, `word_bits` = w.
    """

    cells: tuple[int, ...] = field(hash=False)
    arc: int
    step: int
    cell_bits: int = 28
    seed_bits: int = 24
    word_bits: int = 64

    #: How many words a report takes.
    words: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.seed_bits % 2 or not 0 <= self.seed_bits <= 32:
            raise ValueError(f"The 'seed_bits' must be even and in 0..32. Got {self.seed_bits} instead.")
        if not (1 <= self.cell_bits <= 30 and self.orders << self.cell_bits <= 1 << REPORT_BITS):
            raise ValueError(f"The 'cell_bits' must be in 1..30, a report within 52 bits. Got {self.cell_bits}.")
        if not (self.cell_bits <= self.choice_bits <= REPORT_BITS and self.word_bits <= 64):
            raise ValueError(f"The 'word_bits' must be at most 64 and leave room for cells. Got {self.word_bits}.")
        if not len(self.cells) <= self.circle <= 1 << self.cell_bits:
            raise ValueError(f"A circle of {1 << self.cell_bits} cells has no room for {len(self.cells)} values.")
        if not (0 < self.arc < self.circle and self.step > 0 and self.base > 0):
            raise ValueError(f"The 'arc' and 'step' must be positive and leave a base. Got {self.arc} and {self.step}.")

    # -- the circle ----------------------------------------------------------------------------------------------

    @cached_property
    def circle(self) -> int:
        """M, the cells of the circle."""
        return sum(self.cells)

    @cached_property
    def cell_array(self) -> Integers:
        """`cells` as an array."""
        return np.array(self.cells, dtype=np.int64)

    @cached_property
    def pieces(self) -> tuple[int, ...]:
        """k_x, into how many pieces the cells of every value are cut."""
        root = math.isqrt(len(self.cells) - 1) + 1
        limit = max(self.arc, self.circle // (2 * root))
        return tuple(-(-n // limit) for n in self.cells)

    @cached_property
    def most_pieces(self) -> int:
        """The largest k_x."""
        return max(self.pieces)

    @cached_property
    def owners(self) -> Integers:
        """The value of every piece."""
        return np.repeat(np.arange(len(self.cells)), self.pieces)

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
        """The order that a seed chooses: all nearly equally often, which does not matter for privacy."""
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
        """L/M, the covered part of the circle."""
        return Fraction(self.arc, self.circle)

    @property
    def amplitude(self) -> Fraction:
        """step·M/2^W: likelihoods are proportional to 1 plus this times c_x less its mean."""
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

    def likelihood_of_uniform(self, order: int, position: int) -> Fraction:
        """The chance of an order and a position if the value is ignored."""
        if position >= self.circle:
            return Fraction(0)
        seeds = self._seeds_below(order + 1) - self._seeds_below(order)
        uniform = self._words_below(position + 1, self.circle) - self._words_below(position, self.circle)
        return Fraction(seeds * uniform, 1 << self.choice_bits + self.seed_bits)

    def report_weights(self) -> Iterator[CircleWeights]:
        """The words (α, β) for which values send a report, where positions have more words and where they have less."""
        words = 1 << self.choice_bits
        for b in {words // self.circle, -(-words // self.circle)}:
            yield CircleWeights(b, self.base * b, self.step * words, Fraction(self.arc), self.rounding)

    def most_off(self, deviations: Sequence[int]) -> int:
        """Within which the deviations of any arc's values add up: under some order those of one sign come together."""
        return max(sum(off for off in deviations if off > 0), -sum(off for off in deviations if off < 0))

    @property
    def rounding(self) -> Fraction:
        """2^−W max k_x, how far the mass under an arc can be from what it should be for the rounding of words."""
        return Fraction(self.most_pieces, 1 << self.choice_bits)

    def _words_below(self, cells: int, length: int) -> int:
        """How many β have ⌊β·length/2^W⌋ < cells."""
        return -(-(cells << self.choice_bits) // length)

    def can_send_many(self, reports: Integers) -> NDArray[np.bool_]:
        """Whether there are such orders and such positions; every value can send all of them."""
        orders, positions = reports >> self.cell_bits, reports & (1 << self.cell_bits) - 1
        good: NDArray[np.bool_] = (orders >= 0) & (orders < self.orders) & (positions < self.circle)
        return good

    @property
    def is_quick(self) -> bool:
        """Whether what its reports determine is found in milliseconds."""
        return True

    @property
    @abstractmethod
    def steps_per_report(self) -> int:
        """What drawing a report costs, in steps of a loop."""

    @abstractmethod
    def draw_many(self, values: Integers, words: NDArray[np.uint64]) -> Integers:
        """`draw` for arrays: a pure function of two words of `word_bits` bits for each value, shape (n, 2)."""

    # -- coverage ------------------------------------------------------------------------------------------------

    @abstractmethod
    def fold(self, reports: Integers, times: Integers | None = None) -> Integers:
        """Σ times·c_x over the reports for every value, in units of 2^-20; integers that can be added."""

    def coverage(self, reports: Integers) -> Floats:
        """c_x of every value, a row for each report, as `fold` adds it up."""
        rows = [self.fold(reports[i : i + 1]) for i in range(len(reports))]
        return np.array(rows).reshape(len(reports), len(self.cells)) / COVERAGE_UNIT

    @abstractmethod
    def information_at(self, amplitude: float) -> Information:
        """11ᵀ + q²W and its inverse, q the amplitude and W the covariance of the coverage."""

    @cached_property
    def _units(self) -> Integers:
        """The units of every piece: those of a value share 2^20 in proportion to their cells, ends rounded down.

        All pieces of a value are covered equally often in the mean, so that how the units are shared out adds no bias.
        """
        ends, sizes = self.offsets + self.piece_cells, self.cell_array[self.owners]
        units: Integers = ends * COVERAGE_UNIT // sizes - self.offsets * COVERAGE_UNIT // sizes
        return units

    @cached_property
    def skew(self) -> Floats:
        """E(c_x − L/M)³: exactly for a value in one piece, by a fixed sample of reports for the others."""
        skew = self._skew_in_one_piece()
        cut = np.flatnonzero(np.array(self.pieces) > 1)
        if len(cut):
            covered = self.coverage(self._sample)[:, cut]
            skew[cut] = ((covered - float(self.share)) ** 3).mean(axis=0)
        return skew

    def _skew_in_one_piece(self) -> Floats:
        return third_central_moment(self.cell_array, self.arc, self.circle)

    @property
    def _sample(self) -> Integers:
        """A fixed sample of reports, each order and position as likely as any other."""
        size = int(np.clip(_SAMPLED_COVERAGES // len(self.cells), 256, _MOST_SAMPLED))
        rng = np.random.default_rng(0)
        orders, positions = rng.integers(0, self.orders, size), rng.integers(0, self.circle, size)
        reports: Integers = orders << self.cell_bits | positions
        return reports


def unit_rows(places: Integers, size: int) -> Floats:
    """Rows of zeros, each with a one at its place."""
    rows = np.zeros((len(places), size))
    rows[np.arange(len(places)), places] = 1.0
    return rows


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
    each = np.array(weights, dtype=np.int64 if total < _EXACT_TOTAL else object)
    large = np.arange(len(each))
    while len(large):
        # w·room < total for integers: w is at most what is below the quotient.
        small = each[large] <= (total - 1) // room
        if not small.any():
            break
        total -= int(each[large[small]].sum())
        room -= int(small.sum())
        large = large[~small]
    layout, quotient, rest = np.ones(len(each), dtype=np.int64), *_divided(each[large], room, total)
    layout[large] = quotient
    left = cells - int(layout.sum())
    if left:
        least = np.partition(rest, len(rest) - left)[len(rest) - left]
        layout[large[rest > least]] += 1
        layout[large[np.flatnonzero(rest == least)[: cells - int(layout.sum())]]] += 1
    return tuple(layout.tolist())


def _divided(each: NDArray[Any], room: int, total: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """⌊each·room/total⌋ and the remainders.

    The quotient of floats is less than 1 off; what it leaves, below 2^63, is exact in 64 bits although products wrap.
    """
    if each.dtype == object:
        return each * room // total, each * room % total
    quotient = (each * (room / total)).astype(np.int64)
    rest = each * np.int64(room) - quotient * np.int64(total)
    over = (rest >= total).astype(np.int64) - (rest < 0)
    return quotient + over, rest - over * total


def mean_square_coverage(length: Floats, arc: float, cells: int) -> Floats:
    """Return E[c²] of segments of `length` cells under an arc of `arc` cells placed uniformly on the circle.

    With n = `length`, L = `arc`, f its fractional part and M = `cells`, M n² E[c²] is the sum over pairs of
    cells of the number of arcs that cover both, R(k) = L - k for cells k ≥ 1 apart, R(0) = L - f + f²:

        n R(0) + 2 Σ_{k=1}^{min(n-1, L)} (n-k)(L-k) + 2 Σ_{k≥1} k (L-M+n-k)+       (the last: around the circle)

    which is n² L - n(n²-1)/3 - n f(1-f) when the segment fits inside and outside the arc.
    """
    whole = np.floor(arc)
    near = np.minimum(length - 1.0, whole)
    around = np.maximum(whole - cells + length, 0.0)
    pairs = near * length * arc - (length + arc) * near * (near + 1) / 2 + near * (near + 1) * (2 * near + 1) / 6
    wrapped = (arc - cells + length) * around * (around + 1) / 2 - around * (around + 1) * (2 * around + 1) / 6
    square: Floats = (length * (whole + (arc - whole) ** 2) + 2 * pairs + 2 * wrapped) / (cells * length * length)
    return square


def mean_square_under_arcs(length: Floats, arcs: Integers, chances: Floats, cells: int) -> Floats:
    """E[c²] of segments of `length` cells, if an arc is one of `arcs` with `chances` and placed uniformly.

    With n = `length`, L an arc and M = `cells`, M n² E[c²] is n²L − n(n²−1)/3 for L ≥ n, nL² − L(L²−1)/3 for L < n, and
    (a³ − a)/3 more for a = L + n − M > 0 (`mean_square_coverage`). All arcs at once, from running sums of powers.

    >>> found = mean_square_under_arcs(np.array([1.0, 3.0]), np.array([2, 6]), np.array([0.5, 0.5]), 7)
    >>> bool(np.allclose(found, sum(mean_square_coverage(np.array([1.0, 3.0]), arc, 7) for arc in (2.0, 6.0)) / 2))
    True
    """
    # In units of the circle, so that cubes do not lose what is small.
    rising = np.argsort(arcs, kind="stable")
    arc, n, cell = arcs[rising] / cells, length / cells, 1 / cells
    powers = np.cumsum(np.append(np.zeros((4, 1)), chances[rising] * arc ** np.arange(4)[:, None], axis=1), axis=1)
    shorter, around = (powers[:, np.searchsorted(arc, at, side="left")] for at in (n, 1 - n))
    longer, wrapped = powers[:, -1:] - shorter, powers[:, -1:] - around
    inside = n * longer[1] - longer[0] * (n**2 - cell**2) / 3
    outside = shorter[2] - (shorter[3] - cell**2 * shorter[1]) / (3 * n)
    off = n - 1
    cubes = wrapped[3] + 3 * off * wrapped[2] + 3 * off**2 * wrapped[1] + off**3 * wrapped[0]
    square: Floats = (inside + outside + (cubes - cell**2 * (wrapped[1] + off * wrapped[0])) / (3 * n)) / n
    return square


def third_central_moment(cells: Integers, arc: int, circle: int) -> Floats:
    """E(c − m)³ of the coverage of `cells` = n cells in one piece by an arc of L = `arc` out of M = `circle` cells.

    While the arc turns, c rises and falls evenly, by 1/n, between lo = max(0, n+L−M)/n and hi = min(n, L)/n; it stays
    at hi for |n − L| + 1 positions and at lo for |M − n − L| + 1. With both less m, by Euler and Maclaurin,

        M E(c − m)³ = |n − L| hi³ + |M − n − L| lo³ + n(hi⁴ − lo⁴)/2 + (hi² − lo²)/2n.

    >>> third_central_moment(np.array([1, 2]), 1, 4).tolist()
    [0.09375, 0.0]
    """
    n, m = cells.astype(np.float64), arc / circle
    low, high = np.maximum(0.0, n + arc - circle) / n - m, np.minimum(n, arc) / n - m
    stays = np.abs(n - arc) * high**3 + np.abs(circle - n - arc) * low**3
    moment: Floats = (stays + n * (high**4 - low**4) / 2 + (high**2 - low**2) / (2 * n)) / circle
    return moment
