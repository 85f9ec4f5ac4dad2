"""The orders of a plane: values are points of a finite plane, and an order is a direction in it.

A report is drawn in constant time and counted by its lines: about √d of them, for tens of thousands of values.

A recurrence u_{n+2} = c_0 u_n + c_1 u_{n+1} over the integers mod a prime p that meets all p² − 1 states but 0
(`singer`) numbers the points of the affine plane of p² points, its origin left out: u_{o+j} is the value at point j of
a linear function, and o runs through all such functions. Under the order o piece j stands in the slot

    u_{o+j},    o = 0, …, (p² − 1)/2 − 1.

(The other half of the functions are the negatives of these: the same orders, read backwards.) Of two points some
functions tell nothing, those for which they are on one line; the others put them at every distance equally often.
So the orders are few and yet balanced: if all stood alone in their slots, any two values would be covered together
equally often, as in all orders there are.

In the circle the slots follow each other, 0, …, p−1. In a slot lie first all *light* pieces that stand there, as one
stretch which they share, a *line*; then the others, in the order of their numbers, each on its own cells. Light are
the values of fewer than `light` cells, none if that is 0. Sharing costs about (length of a line)/3 of a variance
m(1−m), and makes a report as cheap as its lines are few: p of them stand for p² values, and their places under every
order are known in advance (`_plane_kernels`). All else, and the proof of privacy: `_circle`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats, Integers
from tacit.mechanism.coverage import mean_square_coverage, third_central_moment
from tacit.mechanism.kept import COVERAGE_UNIT
from tacit.mechanism.many_values._circle import Circle, Stretch
from tacit.mechanism.many_values._plane_information import PlaneInformation
from tacit.mechanism.singer import is_prime, meets_all_states, terms_of

if TYPE_CHECKING:
    from tacit.mechanism.many_values._plane_kernels import Places

#: Pairs of stretches that take some milliseconds.
_QUICK_WORK = 2**20
#: The most slots of a plane, the most places of stretches that are computed in advance (64 MiB), and the most steps to
#: find what reports determine: a second or two.
MOST_SLOTS, MOST_PLACES, MOST_WORK = 199, 1 << 22, 1 << 28


@dataclass(frozen=True, kw_only=True)
class PlaneCircle(Circle):
    """A plane circle; see `_circle` and the module's docstring.

    where: `slots` = p, (`first`, `second`) = (c_0, c_1).

    >>> rule = PlaneCircle(
    ...     cells=(9, 1, 4, 2), arc=4, step=9, cell_bits=4, seed_bits=4, word_bits=8,
    ...     slots=5, first=3, second=1, light=3,
    ... )
    >>> rule.pieces, rule.own.tolist(), [rule.slots_of(order).tolist() for order in (0, 1)]
    ((3, 1, 1, 1), [0, 1, 2, 4], [[0, 1, 1, 4, 2, 4], [1, 1, 4, 2, 4, 0]])
    >>> [rule.stretches(x, 0) for x in range(4)]
    [[(0, 3, 0), (3, 3, 3), (6, 3, 6)], [(13, 3, 0)], [(9, 4, 0)], [(13, 3, 0)]]
    """

    slots: int
    first: int
    second: int
    light: int = 0
    steps_per_report: ClassVar[int] = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        recurrence = (self.first, self.second)
        if not (2 < self.slots <= MOST_SLOTS and is_prime(self.slots)):
            raise ValueError(f"The 'slots' must be an odd prime of at most {MOST_SLOTS}. Got {self.slots} instead.")
        if max(recurrence) >= self.slots or not meets_all_states(self.slots, recurrence):
            raise ValueError("'first' and 'second' must be below 'slots', and their recurrence meet all states.")
        if not 0 <= self.light <= self.arc:
            raise ValueError(f"The cells of a 'light' value must be at most those of the arc. Got {self.light}.")
        if self.orders > 1 << self.seed_bits:
            raise ValueError(f"The 'seed_bits' must reach all {self.orders} orders. Got {self.seed_bits} instead.")
        places = self.orders * self.n_stretches
        if len(self.owners) >= self.slots**2 or places > MOST_PLACES or self.work > MOST_WORK:
            raise ValueError(f"A plane of {self.slots} slots does not hold {len(self.owners)} pieces.")

    # -- the plane -----------------------------------------------------------------------------------------------

    @property
    def orders(self) -> int:
        """A = (p² − 1)/2."""
        return (self.slots**2 - 1) // 2

    @cached_property
    def terms(self) -> Integers:
        """u_0, u_1, …, as many as orders and pieces ask for."""
        return terms_of(self.slots, (self.first, self.second), self.orders + len(self.owners))

    def slots_of(self, order: int) -> Integers:
        """The slot of every piece."""
        return self.terms[order : order + len(self.owners)]

    @cached_property
    def is_light(self) -> NDArray[np.bool_]:
        """Whether a value shares its stretch; then it is in one piece, as it is shorter than the arc."""
        light: NDArray[np.bool_] = self.cell_array < self.light
        return light

    @cached_property
    def own(self) -> Integers:
        """The pieces on stretches of their own."""
        return np.flatnonzero(~self.is_light[self.owners])

    @property
    def n_lines(self) -> int:
        """One for each slot, some of which may be empty; none if no value is light."""
        return self.slots if self.is_light.any() else 0

    @property
    def n_stretches(self) -> int:
        """The lines and the pieces of their own."""
        return self.n_lines + len(self.own)

    @property
    def work(self) -> int:
        """How many pairs of stretches, over all orders, are so near that an arc covers something of both."""
        return self.orders * self.n_stretches**2 * self.arc // self.circle

    def layout(self, order: int) -> tuple[Integers, Integers]:
        """Start and size of every stretch: of the lines by their slots, then of the pieces in `own`."""
        slots, light = self.slots_of(order), self.is_light[self.owners]
        lines = np.zeros(self.n_lines, dtype=np.int64)
        np.add.at(lines, slots[light], self.piece_cells[light])
        sizes = np.concatenate([lines, self.piece_cells[self.own]])
        along = np.argsort(np.concatenate([np.arange(self.n_lines), slots[self.own]]), kind="stable")
        starts = np.empty(len(sizes), dtype=np.int64)
        starts[along] = np.cumsum(sizes[along]) - sizes[along]
        return starts, sizes

    def stretches(self, value: int, order: int) -> list[Stretch]:
        """The line of a light value, or the value's own pieces."""
        starts, sizes = self.layout(order)
        pieces = range(first := int(self.first_pieces[value]), first + self.pieces[value])
        if self.is_light[value]:
            slot = int(self.slots_of(order)[first])
            return [(int(starts[slot]), int(sizes[slot]), 0)]
        places = self.n_lines + np.searchsorted(self.own, np.array(pieces))
        return [
            (int(starts[place]), int(sizes[place]), int(self.offsets[piece]))
            for place, piece in zip(places, pieces, strict=True)
        ]

    # -- reports -------------------------------------------------------------------------------------------------

    @property
    def is_quick(self) -> bool:
        """Whether few enough pairs of stretches are near each other."""
        return self.work <= _QUICK_WORK

    def draw_many(self, values: Integers, words: NDArray[np.uint64]) -> Integers:
        """`draw` for arrays, in constant time for each."""
        from tacit.mechanism.many_values import _plane_kernels as loops

        reports = np.empty(len(values), dtype=np.int64)
        rule = (
            self.terms.astype(np.uint16), _places(self).spans, *self._drawn, np.uint64(self.base), np.uint64(self.step),
            np.uint64(self.circle), self.cell_bits, self.seed_bits, self.choice_bits,
        )  # fmt: skip
        loops.draw(values, words, *rule, reports)
        return reports

    @cached_property
    def _drawn(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """What drawing asks of values and of pieces: see `_plane_kernels.draw`."""
        numbers = np.zeros(len(self.owners), dtype=np.int64)
        numbers[self.own] = self.n_lines + np.arange(len(self.own))
        of_values = np.column_stack([np.where(self.is_light, 0, self.cell_array), self.pieces, self.first_pieces])
        return of_values.astype(np.uint64), np.column_stack([self.offsets, numbers]).astype(np.uint64)

    # -- what reports tell ---------------------------------------------------------------------------------------

    def fold(self, reports: Integers, times: Integers | None = None) -> Integers:
        """T_x, by the stretches that each report covers."""
        from tacit.mechanism.many_values._plane_kernels import fold_reports, sums_across

        reports = np.ascontiguousarray(reports, dtype=np.int64)
        of_stretches = fold_reports(reports, times, _places(self), self.slots, *self._arcs)
        sums = self._of_own(of_stretches.sum(axis=0))
        if self.n_lines and len(reports):
            sums[self._light] = sums_across(self.lines, of_stretches)
        return sums

    def coverage(self, reports: Integers) -> Floats:
        """c_x, a row for each report."""
        from tacit.mechanism.many_values._plane_kernels import cover_reports

        reports = np.ascontiguousarray(reports, dtype=np.int64)
        of_stretches = cover_reports(reports, _places(self), *self._arcs)
        rows = np.array([self._of_own(row) for row in of_stretches]).reshape(len(reports), len(self.cells))
        if self.n_lines:
            slopes = (reports >> self.cell_bits) % (self.slots + 1)
            rows[:, self._light] = np.take_along_axis(of_stretches, self.lines[slopes].astype(np.int64), axis=1)
        covered: Floats = rows / COVERAGE_UNIT
        return covered

    def _of_own(self, of_stretches: Integers) -> Integers:
        """What all values have, of stretches of their own."""
        sums = np.zeros(len(self.cells), dtype=np.int64)
        np.add.at(sums, self.owners[self.own], of_stretches[self.n_lines :])
        return sums

    @cached_property
    def _arcs(self) -> tuple[Any, ...]:
        """What the compiled loops ask of a circle."""
        units = np.concatenate([np.full(self.n_lines, COVERAGE_UNIT), self._units[self.own]])
        return units, self.arc, self.circle, self.cell_bits

    @cached_property
    def _light(self) -> Integers:
        """The light values."""
        return np.flatnonzero(self.is_light)

    @cached_property
    def lines(self) -> NDArray[np.uint16]:
        """The line of every light value, a row for each slope: its slot under the first order of that slope."""
        points = self.first_pieces[self._light]
        lines: NDArray[np.uint16] = self.terms[np.arange(self.slots + 1)[:, None] + points].astype(np.uint16)
        return lines

    @cached_property
    def _line_cells(self) -> Integers:
        """The cells of every line, a row for each slope."""
        cells = self.cell_array[self._light].astype(np.float64)
        rows = [np.bincount(row, weights=cells, minlength=self.slots) for row in self.lines]
        return np.rint(rows).astype(np.int64)

    def information_at(self, amplitude: float) -> PlaneInformation:
        """J over all orders, of another amplitude than the circle's own."""
        from tacit.mechanism.many_values._plane_kernels import cover_together

        share, light = float(self.share), self._light
        line_line, line_own, own_own = cover_together(_places(self), self.slots, self.n_lines, self.arc)
        own_cells = self.piece_cells[self.own]
        together = own_own / self.circle - share**2
        np.fill_diagonal(together, self._square(own_cells) - share**2)
        owners, parts = self.owners[self.own], own_cells / self.cell_array[self.owners[self.own]]
        spreads = np.zeros(len(self.cells))
        np.add.at(spreads, owners, self._own_spread(owners, parts, together))
        lines = line_line / self.circle - share**2
        if len(light):
            alone = self._square(np.maximum(self._line_cells, 1)) - share**2
            lines[:, np.arange(self.slots), np.arange(self.slots)] = alone
            empty = self._line_cells == 0
            lines[empty], lines.transpose(0, 2, 1)[empty] = 0.0, 0.0
            line_own = np.where(empty[:, :, None], 0.0, line_own / self.circle - share**2)
            spreads[light] = np.take_along_axis(alone, self.lines.astype(np.int64), axis=1).mean(axis=0)
        return PlaneInformation(
            shares=self.cell_array / self.circle, amplitude=amplitude, light=light, lines=self.lines, owners=owners,
            parts=parts, line_line=lines, line_own=line_own, own_own=together, spreads=spreads,
        )  # fmt: skip

    def _square(self, cells: Integers) -> Floats:
        """E[c²] of stretches of this many cells."""
        return mean_square_coverage(cells.astype(np.float64), float(self.arc), self.circle)

    @staticmethod
    def _own_spread(owners: Integers, parts: Floats, together: Floats) -> Floats:
        """What every piece adds to A_xx of its value."""
        same = owners[:, None] == owners[None, :]
        spread: Floats = parts * ((together * same) @ parts)
        return spread

    def _skew_in_one_piece(self) -> Floats:
        skew = super()._skew_in_one_piece()
        if self.n_lines:
            of_lines = third_central_moment(np.maximum(self._line_cells, 1), self.arc, self.circle)
            skew[self._light] = np.take_along_axis(of_lines, self.lines.astype(np.int64), axis=1).mean(axis=0)
        return skew


@lru_cache(maxsize=64)
def _places(circle: PlaneCircle) -> Places:
    """Where everything lies under every order: some MiB, kept for the circles that were asked for last."""
    from tacit.mechanism.many_values._plane_kernels import places_of

    return places_of(circle.terms, circle.orders, circle.slots, circle.piece_cells, circle.own, circle.cell_bits)
