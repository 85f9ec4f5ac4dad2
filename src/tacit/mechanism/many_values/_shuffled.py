"""The orders of seeds: every seed shuffles the pieces of the values in its own way.

Any number of values, and nothing is made in advance; drawing and counting a report looks at every value, which
`_plane` does not.

Under a seed, which is the order, piece j gets the key

    key = mul(h ⊕ ⌊h/2^15⌋, 0x846ca68b),   h = mul(a, j) + b   (mod 2^32),   a odd, a and b a function of the seed,

and on the circle the pieces lie in the order of their keys, each on its own cells. Every step of the key can be
undone, so no two pieces share one. (The shift matters: keys a·j + b alone are a lattice, and values whose places in
the domain form a progression keep theirs on every circle.) All else, and the proof of its privacy: `_circle`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from tacit.exact import Floats, Integers
from tacit.mechanism.kept import COVERAGE_UNIT
from tacit.mechanism.many_values._circle import Circle, Stretch
from tacit.mechanism.many_values._shuffled_information import CircleInformation, circle_information

Keys = npt.NDArray[np.uint32]

_LOW_32 = 0xFFFFFFFF
_MULTIPLIER = 0x846CA68B


@dataclass(frozen=True, kw_only=True)
class ShuffledCircle(Circle):
    """A shuffled circle; see `_circle` and the module's docstring.

    >>> rule = ShuffledCircle(
    ...     cells=(9, 1, 4, 2), arc=4, step=9, cell_bits=4, seed_bits=4, word_bits=8
    ... )
    >>> rule.cells, rule.pieces, rule.piece_cells.tolist(), rule.base, rule.draw(0, (255, 255))
    ((9, 1, 4, 2), (3, 1, 1, 1), [3, 3, 3, 1, 4, 2], 28, 243)
    """

    @property
    def orders(self) -> int:
        """2^S: every seed is an order."""
        return 1 << self.seed_bits

    def stretches(self, value: int, order: int) -> list[Stretch]:
        """The pieces of a value, each after the cells of all pieces with smaller keys."""
        keys, first = keys_of(order, len(self.owners)), int(self.first_pieces[value])
        return [
            (int(self.piece_cells[keys < keys[j]].sum()), int(self.piece_cells[j]), int(self.offsets[j]))
            for j in range(first, first + self.pieces[value])
        ]

    @property
    def steps_per_report(self) -> int:
        """Every piece of the circle is looked at."""
        return len(self.piece_cells)

    def draw_many(self, values: Integers, words: NDArray[np.uint64]) -> Integers:
        """`draw` for arrays, O(d) for each."""
        from tacit.mechanism.many_values import _shuffled_kernels as loops

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
        from tacit.mechanism.many_values import _shuffled_kernels as loops

        of_pieces = loops.fold_reports(np.ascontiguousarray(reports, dtype=np.int64), times, *self._arcs)
        sums: Integers = np.add.reduceat(of_pieces, self.first_pieces)
        return sums

    def coverage(self, reports: Integers) -> Floats:
        """c_x, O(d) for each report."""
        from tacit.mechanism.many_values import _shuffled_kernels as loops

        of_pieces = loops.cover_reports(np.ascontiguousarray(reports, dtype=np.int64), *self._arcs)
        covered: Floats = np.add.reduceat(of_pieces, self.first_pieces, axis=1) / COVERAGE_UNIT
        return covered

    @cached_property
    def _arcs(self) -> tuple[Any, ...]:
        """What the compiled loops ask of a circle."""
        return self.piece_cells.astype(np.uint32), self._units, self.arc, self.circle, self.cell_bits

    def information_at(self, amplitude: float) -> CircleInformation:
        """11ᵀ + q²W, averaged over all orders."""
        return circle_information(self.cell_array, np.array(self.pieces), self.arc, self.circle, amplitude)


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
