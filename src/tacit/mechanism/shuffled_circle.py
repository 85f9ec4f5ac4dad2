"""The mechanism `shuffled-circle`: every report carries a seed, which puts the values in an order of its own.

Any number of values, and nothing is made in advance; drawing and counting a report looks at every value, which
`plane_circle` does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats, Integers
from tacit.mechanism.circle import Circle
from tacit.mechanism.protocol import COVERAGE_UNIT, NotEstimableError
from tacit.mechanism.shuffled_circle_information import CircleInformation, circle_information
from tacit.mechanism.shuffled_circle_rule import ShuffledCircleRule


@dataclass(frozen=True, kw_only=True)
class ShuffledCircle(ShuffledCircleRule, Circle):
    """A shuffled circle as a mechanism."""

    kind: ClassVar[str] = "shuffled-circle"

    @property
    def steps_per_report(self) -> int:
        """Every piece of the circle is looked at."""
        return len(self.piece_cells)

    def draw_many(self, values: Integers, words: NDArray[np.uint64]) -> Integers:
        """`draw` for arrays, O(d) for each."""
        from tacit.mechanism import shuffled_circle_loops as loops

        reports = np.empty(len(values), dtype=np.int64)
        rule = (
            self.cell_array.astype(np.uint64), np.array(self.pieces, dtype=np.uint64), self.first_pieces,
            self.offsets.astype(np.uint64), self.piece_cells.astype(np.uint32), np.uint64(self.base),
            np.uint64(self.step), np.uint64(self.circle), self.cell_bits, self.seed_bits, self.choice_bits,
        )  # fmt: skip
        loops.draw(values, words, *rule, reports)
        return reports

    def fold(self, reports: Integers, times: Integers | None = None) -> Integers:
        """T_x, O(d) for each report."""
        from tacit.mechanism import shuffled_circle_loops as loops

        of_pieces = loops.fold_reports(np.ascontiguousarray(reports, dtype=np.int64), times, *self._arcs)
        sums: Integers = np.add.reduceat(of_pieces, self.first_pieces)
        return sums

    def coverage(self, reports: Integers) -> Floats:
        """c_x, O(d) for each report."""
        from tacit.mechanism import shuffled_circle_loops as loops

        of_pieces = loops.cover_reports(np.ascontiguousarray(reports, dtype=np.int64), *self._arcs)
        covered: Floats = np.add.reduceat(of_pieces, self.first_pieces, axis=1) / COVERAGE_UNIT
        return covered

    @cached_property
    def _arcs(self) -> tuple[Any, ...]:
        """What the compiled loops ask of a circle."""
        return self.piece_cells.astype(np.uint32), self._units, self.arc, self.circle, self.cell_bits

    @cached_property
    def information(self) -> CircleInformation:
        """J, averaged over all orders."""
        if len(self.weights) == 1:
            raise NotEstimableError("A circle of one value tells nothing: everybody holds it.")
        pieces = np.array(self.pieces)
        return circle_information(self.cell_array, pieces, self.arc, self.circle, float(self.amplitude))
