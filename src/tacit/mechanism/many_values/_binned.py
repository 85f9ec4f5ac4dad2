"""The circle for the aim `mmse`: heavy values whole in bins, the others on a ring in one order.

Reports that are read with the prior gain Σ P_x² q² Var(c_x). The mean of c_x is fixed, so each term is largest if x is
covered whole or not at all. An arc of a ring does that but for the values that its ends cut, of which a value of n out
of R cells loses n/3R of E[c²]: for light values nearly nothing. So heavy values are put into bins. That values of one
bin are never told apart does not matter to this aim; there is no unbiased estimate.

The circle has M cells, every report covers L of them, and every value is covered to the part s = L/M in the mean. The
`heavy` heaviest values are gone through, from the heaviest on, and each is put into the first of K bins that has room
for it, of L cells each; n_j of them are taken in the end. All other values lie on a ring of R cells in their own
order. With K L ≤ M, the order of a report is

    j < K:  it covers bin j whole and an arc of ℓ_j = L − n_j cells of the ring; with chance L/M;
    K:      it covers an arc of ℓ_K = L cells of the ring; with the chance (M − KL)/M that is left.

So every report covers L cells, a value in a bin is covered with chance L/M, and a cell of the ring as well:

    (Σ_j L ℓ_j + (M − KL) L)/(M R) = L (M − Σ n_j)/(M R) = L/M.

What is sampled.  All randomness is four words α, β, γ, τ uniform on {0, …, 2^w − 1}. With base = 2^w − L·step,

    α < base:             the order is that of cell ⌊γM/2^w⌋ on a line where every bin has L cells and order K the
                          others; the position is ⌊βR/2^w⌋;
    else, x in bin j:     the order is j, the position as above;
    else, x on the ring:  the order is that of cell ⌊γR/2^w⌋ on a line where order j has ℓ_j cells and K has M − KL;
                          u = ⌊βn_x/2^w⌋ is a cell of x and t = ⌊τ/σ⌋ one of the arc, σ = ⌈2^w/ℓ⌉: the position is
                          that of u, less t.

The cells of an arc have σ words τ each and the last ones less, or none: it is 2^w/σ cells long, hardly less than ℓ.
Of 2^2w pairs (β, τ) value x on the ring sends a position for σ·(2^w c_x + e_x), |e_x| < 2, c_x the part of it under
that arc, because what an arc or a cell covers of x is one run of its cells, or all but one run (`_circle`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats, Integers
from tacit.mechanism.kept import COVERAGE_UNIT
from tacit.mechanism.many_values._circle import Circle, CircleWeights, Stretch, mean_square_under_arcs
from tacit.mechanism.protocol import NotEstimableError

#: Each of the heavy values looks for room in the bins: at most this many looks.
MOST_LOOKS = 2**27


class OnlySpreads:
    """A_xx of a binned circle; what J determines does not exist."""

    def __init__(self, spreads: Floats) -> None:
        self.spreads = spreads

    def multiply(self, right: Floats) -> Floats:
        """Raises `NotEstimableError`, as all others do."""
        raise NotEstimableError(
            "These reports do not tell all values apart, as unbiased estimates and pseudo-values need: they are read "
            "with the prior only. Use the estimator 'mmse', or plan again with the aim 'unbiased'."
        )

    def solve(self, right: Floats) -> Floats:
        """See `multiply`."""
        return self.multiply(right)

    def inverse_diagonal(self) -> Floats:
        """See `multiply`."""
        return self.multiply(self.spreads)


@dataclass(frozen=True, kw_only=True)
class BinnedCircle(Circle):
    """Bins and a ring; see the module's docstring.

    >>> bits = {"cell_bits": 4, "seed_bits": 0, "word_bits": 5}
    >>> rule = BinnedCircle(cells=(3, 4, 2, 2, 5), arc=6, step=2, bins=2, heavy=2, **bits)
    >>> rule.bin_of.tolist(), rule.arcs, rule.ring, rule.draw(1, (31, 8, 0, 0)), rule.draw(2, (31, 0, 31, 0))
    ([-1, 1, -1, -1, 0], (1, 2, 6), 7, 17, 35)
    """

    bins: int
    heavy: int

    words: ClassVar[int] = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seed_bits or self.heavy > len(self.cells) or self.heavy * self.bins > MOST_LOOKS:
            raise ValueError(f"Bins take no 'seed_bits', and not too many 'heavy' values. Got {self.heavy}.")
        if self.bins * self.arc > self.circle:
            raise ValueError(f"There are too many 'bins' of {self.arc} cells. Got {self.bins}.")
        if self.ring <= 0 or max(self.arcs[: self.orders]) > self.ring:
            raise ValueError("The 'heavy' values leave too few others on the ring for an arc.")
        if min(self._words_of(self.for_all)) == 0:
            raise ValueError(f"Words of {self.word_bits} bits are too short for these bins.")

    # -- bins and ring -------------------------------------------------------------------------------------------

    @cached_property
    def pieces(self) -> tuple[int, ...]:
        """Every value is in one piece."""
        return (1,) * len(self.cells)

    @property
    def orders(self) -> int:
        """One for each bin, and one without if there are cells left for it."""
        return self.bins + (self.bins * self.arc < self.circle)

    @cached_property
    def bin_of(self) -> Integers:
        """The bin of every value; −1 on the ring."""
        found, room = np.full(len(self.cells), -1), np.full(self.bins, self.arc)
        for x in np.argsort(-self.cell_array, kind="stable")[: self.heavy].tolist():
            j = int(np.argmax(room >= self.cells[x]))
            if room[j] >= self.cells[x]:
                room[j] -= self.cells[x]
                found[x] = j
        return found

    @cached_property
    def arcs(self) -> tuple[int, ...]:
        """ℓ, the arc of every order."""
        taken = np.bincount(self.bin_of[self.bin_of >= 0], self.cell_array[self.bin_of >= 0], minlength=self.bins)
        return (*(self.arc - taken.astype(np.int64)).tolist(), self.arc)

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """σ, the words τ of every cell of an arc, by order; there is no arc of 0 cells."""
        return tuple(-(-(1 << self.choice_bits) // max(arc, 1)) for arc in self.arcs)

    @cached_property
    def on_ring(self) -> Integers:
        """The values on the ring."""
        return np.flatnonzero(self.bin_of < 0)

    @cached_property
    def ring(self) -> int:
        """R, its cells."""
        return int(self.cell_array[self.on_ring].sum())

    @cached_property
    def starts(self) -> Integers:
        """The first cell of every value on the ring; 0 of the others."""
        starts, cells = np.zeros(len(self.cells), dtype=np.int64), self.cell_array[self.on_ring]
        starts[self.on_ring] = np.cumsum(cells) - cells
        return starts

    def stretches(self, value: int, order: int) -> list[Stretch]:
        """Where a value of the ring lies."""
        return [(int(self.starts[value]), self.cells[value], 0)]

    # -- the words -----------------------------------------------------------------------------------------------

    @cached_property
    def for_all(self) -> tuple[int, ...]:
        """The first γ of every order but the first, if the answer is ignored."""
        left = self.circle - self.bins * self.arc
        return self._edges([self.arc] * self.bins + [left] * (left > 0))

    @cached_property
    def for_ring(self) -> tuple[int, ...]:
        """The same for a value on the ring that is not ignored."""
        left = self.circle - self.bins * self.arc
        return self._edges([*self.arcs[:-1], *[left] * (left > 0)])

    def _edges(self, line: Sequence[int]) -> tuple[int, ...]:
        total = sum(line)
        return tuple(-(-(part << self.choice_bits) // total) for part in accumulate(line[:-1]))

    def _words_of(self, edges: Sequence[int]) -> list[int]:
        """How many γ lead to every order."""
        ends = [0, *edges, 1 << self.choice_bits]
        return [after - before for before, after in pairwise(ends)]

    def draw(self, value: int, words: tuple[int, ...]) -> int:
        """The report order·2^B + position of `value`: a pure function of four uniform words."""
        (alpha, beta, gamma, tau), w, own = words, self.choice_bits, int(self.bin_of[value])
        if alpha < self.base or own >= 0:
            order = bisect_right(self.for_all, gamma) if alpha < self.base else own
            return order << self.cell_bits | beta * self.ring >> w
        order = bisect_right(self.for_ring, gamma)
        position = (int(self.starts[value]) + (beta * self.cells[value] >> w) - tau // self.steps[order]) % self.ring
        return order << self.cell_bits | position

    @property
    def steps_per_report(self) -> int:
        """What drawing a report costs, in steps of a loop."""
        return 16

    def draw_many(self, values: Integers, words: NDArray[np.uint64]) -> Integers:
        """`draw` for arrays, with four words of `word_bits` bits for each value."""
        ignored, own = words[:, 0] < np.uint64(self.base), self.bin_of[values]
        edges = [np.array(edges, dtype=np.uint64) for edges in (self.for_all, self.for_ring)]
        of_all, of_ring = (np.searchsorted(each, words[:, 2], side="right") for each in edges)
        orders: Integers = np.where(ignored, of_all, np.where(own >= 0, own, of_ring))
        moved = ~ignored & (own < 0)
        length = np.where(moved, self.cell_array[values], self.ring)
        back = (words[:, 3] // np.array(self.steps, dtype=np.uint64)[orders]).astype(np.int64)
        cell = self._scaled(words[:, 1], length) + np.where(moved, self.starts[values] - back, 0)
        return orders << self.cell_bits | cell % self.ring

    def _scaled(self, words: NDArray[np.uint64], length: Integers) -> Integers:
        """⌊word·length/2^w⌋ of words of up to 52 bits and lengths below 2^31, in two halves."""
        half, size = self.choice_bits // 2, length.astype(np.uint64)
        low = (words & np.uint64((1 << half) - 1)) * size >> np.uint64(half)
        return ((words >> np.uint64(half)) * size + low >> np.uint64(self.choice_bits - half)).astype(np.int64)

    def likelihood_of_uniform(self, order: int, position: int) -> Fraction:
        """The chance of an order and a position if the answer is ignored."""
        if position >= self.ring or order >= self.orders:
            return Fraction(0)
        return Fraction(self._words_of(self.for_all)[order] * self._at(position), 1 << 2 * self.choice_bits)

    def _at(self, position: int) -> int:
        """How many β give a position of the ring."""
        return self._words_below(position + 1, self.ring) - self._words_below(position, self.ring)

    def likelihood(self, value: int, report: int) -> Fraction:
        """Q(report|value), exactly."""
        order, position = divmod(report, 1 << self.cell_bits)
        one, ignored = 1 << self.choice_bits, Fraction(self.base, 1 << self.choice_bits)
        whole = ignored * self.likelihood_of_uniform(order, position)
        if position >= self.ring or order >= self.orders:
            return whole
        if self.bin_of[value] >= 0:
            own = int(order == self.bin_of[value])
            return whole + own * (1 - ignored) * Fraction(self._at(position), one)
        cells, rest = divmod(one, self.steps[order])
        pairs = self.steps[order] * self._onto(value, position, cells) + rest * self._onto(value, position + cells, 1)
        return whole + (1 - ignored) * Fraction(self._words_of(self.for_ring)[order] * pairs, one**3)

    def _onto(self, value: int, position: int, arc: int) -> int:
        """How many β pick a cell of a value on an arc of the ring."""
        start, size, words = int(self.starts[value]) - position % self.ring, self.cells[value], 0
        for first in (start, start + self.ring):  # Cells counted from the position: the arc is 0, …, arc − 1.
            begin, end = max(0, -first), min(size, arc - first)
            if begin < end:
                words += self._words_below(end, size) - self._words_below(begin, size)
        return words

    def most_off(self, deviations: Sequence[int]) -> int:
        """Within which the deviations of any arc's values add up, each as far as it is covered.

        Their running sums along the ring are linear between the ends of values. An arc has the difference of two of
        them, or all less that.
        """
        sums: list[int] = list(accumulate((deviations[x] for x in self.on_ring.tolist()), initial=0))
        return max(sums) - min(sums) + abs(sums[-1])

    def report_weights(self) -> Iterator[CircleWeights]:
        """The words (α, β, γ, τ) for which values send a report of every order, where positions have more words and
        where they have less.
        """
        one, kept = 1 << self.choice_bits, self.arc * self.step
        of_all, of_ring = self._words_of(self.for_all), self._words_of(self.for_ring)
        for order, (for_all, for_ring) in enumerate(zip(of_all, of_ring, strict=True)):
            step, own = self.steps[order], order if order < self.bins else None
            for b in {one // self.ring, -(-one // self.ring)}:
                uniform = b * for_all * one
                onto, arc = kept * for_ring * step * one, Fraction(one, step)
                in_bin = 0 if own is None else kept * b * one**2
                yield CircleWeights(uniform, self.base * uniform, onto, arc, self.rounding, in_bin, own)

    @property
    def rounding(self) -> Fraction:
        """How far the mass under an arc can be from what it should be: |e_x|/2^w."""
        return Fraction(2, 1 << self.choice_bits)

    def can_send_many(self, reports: Integers) -> NDArray[np.bool_]:
        """Whether there are such orders and such positions; every value can send all of them."""
        orders, positions = reports >> self.cell_bits, reports & (1 << self.cell_bits) - 1
        good: NDArray[np.bool_] = (orders >= 0) & (orders < self.orders) & (positions < self.ring)
        return good

    # -- coverage ------------------------------------------------------------------------------------------------

    def covered(self, reports: Integers, often: Floats) -> Floats:
        """Σ often·c_x over the reports for every value, in O((N + d) log N).

        Added up, the arcs are a step function on the ring, and its integral is linear between the ends of arcs.
        """
        orders, positions = reports >> self.cell_bits, (reports & (1 << self.cell_bits) - 1).astype(np.float64)
        in_bin, sums = self.bin_of >= 0, np.empty(len(self.cells))
        sums[in_bin] = np.bincount(orders, weights=often, minlength=self.bins)[self.bin_of[in_bin]]
        ends = positions + np.array(self.arcs, dtype=np.float64)[orders]
        around = np.flatnonzero(ends > self.ring)
        knots = np.concatenate([positions, ends, positions[around] - self.ring, ends[around] - self.ring])
        changes = np.concatenate([often, -often, often[around], -often[around]])
        starts, sizes = self.starts[self.on_ring], self.cell_array[self.on_ring]
        integral = _integral(knots, changes, np.append(starts, self.ring).astype(np.float64))
        sums[self.on_ring] = np.diff(integral) / sizes
        return sums

    def fold(self, reports: Integers, times: Integers | None = None) -> Integers:
        """`covered` in units of 2^-20, rounded at the end: reports are counted one by one until they are read."""
        often = np.ones(len(reports)) if times is None else times.astype(np.float64)
        return np.rint(self.covered(reports, often) * COVERAGE_UNIT).astype(np.int64)

    def coverage(self, reports: Integers) -> Floats:
        """c_x of every value, a row for each report."""
        return np.array([self.covered(reports[i : i + 1], np.ones(1)) for i in range(len(reports))])

    def information_at(self, amplitude: float) -> OnlySpreads:
        """The variance of the coverage: s − s² of a value in a bin, and on the ring E[c²] of a segment under arcs."""
        part, spreads = float(self.share), np.full(len(self.cells), float(self.share))
        sizes, which = np.unique(self.cell_array[self.on_ring], return_inverse=True)
        chances = np.append(np.full(self.bins, part), 1 - self.bins * part)
        square = mean_square_under_arcs(sizes.astype(np.float64), np.array(self.arcs), chances, self.ring)
        spreads[self.on_ring] = square[which]
        return OnlySpreads(spreads - part**2)


def _integral(knots: Floats, changes: Floats, points: Floats) -> Floats:
    """At `points` the sum over knots k of change_k·max(point − k, 0)."""
    order = np.argsort(knots, kind="stable")
    knots, slope = knots[order], np.append(0.0, np.cumsum(changes[order]))
    steps = np.append(0.0, np.cumsum(slope[1:-1] * np.diff(knots))) if len(knots) else np.zeros(1)
    at = np.searchsorted(knots, points, side="right")
    before = np.maximum(at - 1, 0)
    reached = points - knots[before] if len(knots) else points * 0.0
    return np.where(at > 0, steps[before] + slope[at] * reached, 0.0)
