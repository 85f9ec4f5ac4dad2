"""The mechanism `plane-circle`: the circle in the orders of a finite plane, at the same cost for any number of values.

It is as private as the shuffled circle and reads histograms nearly as well, but a report is drawn in constant time and
counted by its lines: about √d of them. For tens of thousands of values.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats, Integers
from tacit.mechanism.circle import Circle
from tacit.mechanism.circle_moments import third_central_moment
from tacit.mechanism.core_tail_histogram import mean_square_coverage
from tacit.mechanism.plane_circle_information import PlaneInformation
from tacit.mechanism.plane_circle_rule import PlaneCircleRule
from tacit.mechanism.protocol import COVERAGE_UNIT, NotEstimableError

if TYPE_CHECKING:
    from tacit.mechanism.plane_circle_loops import Places

#: Arcs of ε up to 2 cover more than this.
_SHORT = Fraction(1, 10)


@dataclass(frozen=True, kw_only=True)
class PlaneCircle(PlaneCircleRule, Circle):
    """A plane circle as a mechanism."""

    kind: ClassVar[str] = "plane-circle"
    steps_per_report: ClassVar[int] = 8
    #: Drawing and counting are so fast that an estimate should not take longer: all of these are kept.
    _sampled_coverages: ClassVar[int] = 2**21
    _integers: ClassVar[tuple[str, ...]] = (*Circle._integers, "slots", "first", "second", "light")

    def draw_many(self, values: Integers, words: NDArray[np.uint64]) -> Integers:
        """`draw` for arrays, in constant time for each."""
        from tacit.mechanism import plane_circle_loops as loops

        reports = np.empty(len(values), dtype=np.int64)
        rule = (
            self.terms.astype(np.uint16), _places(self).spans, *self._drawn, np.uint64(self.base), np.uint64(self.step),
            np.uint64(self.circle), self.cell_bits, self.seed_bits, self.choice_bits,
        )  # fmt: skip
        loops.draw(values, words, *rule, reports)
        return reports

    @cached_property
    def _drawn(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """What drawing asks of values and of pieces: see `plane_circle_loops.draw`."""
        numbers = np.zeros(len(self.owners), dtype=np.int64)
        numbers[self.own] = self.n_lines + np.arange(len(self.own))
        of_values = np.column_stack([np.where(self.is_light, 0, self.cell_array), self.pieces, self.first_pieces])
        return of_values.astype(np.uint64), np.column_stack([self.offsets, numbers]).astype(np.uint64)

    # -- what reports tell ---------------------------------------------------------------------------------------

    @property
    def _most_sampled(self) -> int:
        """The shorter arcs are, the more of them it takes until some cover a value, and another one with it."""
        return 2**11 if self.share > _SHORT else 2**13

    def fold(self, reports: Integers, times: Integers | None = None) -> Integers:
        """T_x, by the stretches that each report covers."""
        from tacit.mechanism.plane_circle_loops import fold_reports, sums_across

        reports = np.ascontiguousarray(reports, dtype=np.int64)
        of_stretches = fold_reports(reports, times, _places(self), self.slots, *self._arcs)
        sums = self._of_own(of_stretches.sum(axis=0))
        if self.n_lines and len(reports):
            sums[self._light] = sums_across(self.lines, of_stretches)
        return sums

    def coverage(self, reports: Integers) -> Floats:
        """c_x, a row for each report."""
        from tacit.mechanism.plane_circle_loops import cover_reports

        reports = np.ascontiguousarray(reports, dtype=np.int64)
        of_stretches = cover_reports(reports, _places(self), *self._arcs)
        rows = np.array([self._of_own(row) for row in of_stretches]).reshape(len(reports), len(self.weights))
        if self.n_lines:
            slopes = (reports >> self.cell_bits) % (self.slots + 1)
            rows[:, self._light] = np.take_along_axis(of_stretches, self.lines[slopes].astype(np.int64), axis=1)
        covered: Floats = rows / COVERAGE_UNIT
        return covered

    def _of_own(self, of_stretches: Integers) -> Integers:
        """What all values have, of stretches of their own."""
        sums = np.zeros(len(self.weights), dtype=np.int64)
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

    @cached_property
    def information(self) -> PlaneInformation:
        """J, over all orders."""
        if len(self.weights) == 1:
            raise NotEstimableError("A circle of one value tells nothing: everybody holds it.")
        from tacit.mechanism.plane_circle_loops import cover_together

        share, light = float(self.share), self._light
        line_line, line_own, own_own = cover_together(_places(self), self.slots, self.n_lines, self.arc)
        own_cells = self.piece_cells[self.own]
        together = own_own / self.circle - share**2
        np.fill_diagonal(together, self._square(own_cells) - share**2)
        owners, parts = self.owners[self.own], own_cells / self.cell_array[self.owners[self.own]]
        spreads = np.zeros(len(self.weights))
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
            shares=self._shares, amplitude=float(self.amplitude), light=light, lines=self.lines, owners=owners,
            parts=parts, line_line=lines, line_own=line_own, own_own=together, spreads=spreads,
        )  # fmt: skip

    def _square(self, cells: Integers) -> Floats:
        """E[c²] of stretches of so many cells."""
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
    from tacit.mechanism.plane_circle_loops import places_of

    return places_of(circle.terms, circle.orders, circle.slots, circle.piece_cells, circle.own, circle.cell_bits)
