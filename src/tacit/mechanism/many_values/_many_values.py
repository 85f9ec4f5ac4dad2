"""The mechanism `many-values`: histograms of many values, private for a prior, a ball of priors, or under LDP.

`_rule` has its integers and the proof of their privacy, `_reading` what reports tell. A report is an integer that no
other room takes apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Integers
from tacit.mechanism.kept import Counts, Coverage, Kept
from tacit.mechanism.many_values._reading import ManyValuesReading
from tacit.prior import Prior

#: What choosing a name costs, in steps of a loop.
_STEPS = 8


@dataclass(frozen=True, kw_only=True)
class ManyValues(ManyValuesReading):
    """A table of giants and a circle for the rest, as a mechanism.

    >>> prior = Prior.of({"a": 8, "b": 2, "c": 2, "d": 2, "e": 1, "f": 1})
    >>> rows = (160, 1, 0, 1), (96, 0, 0, 5)
    >>> bits = {"cell_bits": 4, "seed_bits": 4, "word_bits": 8}
    >>> found = ManyValues(prior=prior, giants=1, rows=rows, covered=5, arc=4, step=9, **bits)
    >>> found.cells, found.named, found.draw(0, (255, 3, 200)), found.draw(1, (255, 3, 100))
    ((8, 2, 2, 2, 1, 1), (0,), 256, 241)
    """

    kind: ClassVar[str] = "many-values"
    #: The integers that a plan holds, each below 2^53.
    _integers: ClassVar[tuple[str, ...]] = (
        "giants", "covered", "arc", "step", "cell_bits", "seed_bits", "word_bits", "slots", "first", "second", "light",
        "bins", "heavy", "margin",
    )  # fmt: skip

    @property
    def is_quick(self) -> bool:
        """Whether its errors are found in milliseconds."""
        return self.circle.is_quick

    def under(self, prior: Prior) -> Self:
        """The same mechanism for other names of the same values; raises `ValueError` for another prior."""
        if prior.on_support().weights != self.weights:
            raise ValueError("This mechanism was made for another prior.")
        return replace(self, prior=prior)

    def scaled(self, change: Callable[[int], int]) -> Self:
        """The same rule with the step `change(step)`."""
        return replace(self, step=change(self.step))

    # -- reports -------------------------------------------------------------------------------------------------

    @property
    def steps_per_report(self) -> int:
        """What drawing a report costs, in steps of a loop."""
        return self.circle.steps_per_report + (_STEPS if self.giants else 0)

    def draw_many(self, values: Integers, words: NDArray[np.uint64]) -> Integers:
        """`draw` for arrays: a pure function of `words_per_report` words for each value."""
        if not self.giants:
            return self.circle.draw_many(values, words)
        from tacit.mechanism.many_values import _kernels as loops

        rows, places = np.empty(len(values), dtype=np.int64), np.empty(len(values), dtype=np.int64)
        for_circle = np.empty((len(values), self.circle.words), dtype=np.uint64)
        numbers = (np.uint64(self.circle.base), self.seed_bits // 2, self.row_bits)
        loops.draw_rows(values, words, self._places, *self._columns, *numbers, rows, places, for_circle)
        reports: Integers = self.with_arc + rows - self.arc_rows
        arcs = rows < self.arc_rows
        drawn = self.circle.draw_many(places, for_circle)
        return np.where(arcs, (rows * self.circle.orders << self.cell_bits) + drawn, reports)

    @cached_property
    def _columns(self) -> tuple[Integers, Integers, NDArray[np.uint64]]:
        """Where the columns of the table begin, of all, of the others and of each giant; their rows, and where these
        end among the γ.
        """
        columns = [dict(enumerate(self.of_all)), dict(enumerate(self.of_others)), *self.of_giants]
        starts = np.cumsum([0, *map(len, columns)])
        rows = np.array([row for column in columns for row in column], dtype=np.int64)
        ends = np.array([end for column in columns for end in accumulate(column.values())], dtype=np.uint64)
        return starts, rows, ends

    def can_send_many(self, reports: Integers) -> NDArray[np.bool_]:
        """Whether there are such names, orders and positions; every value can send all of them."""
        reports = np.asarray(reports, dtype=np.int64)
        rows, rest = self.parts(reports)
        on_circle, alone = self.circle.can_send_many(rest), rows < max(len(self.rows), 1)
        good: NDArray[np.bool_] = np.where(rows < self.arc_rows, on_circle, alone) & (reports >= 0)
        return good

    @property
    def n_sums(self) -> int | None:
        """A sum for each possible value: nearly every report is different. None with bins: they count reports."""
        return None if self.bins else len(self.weights)

    def keep(self, reports: Integers, times: Integers | None = None) -> Kept:
        """The sums of coverage of the reports; with bins, how often each came."""
        if self.bins:
            return Counts.of(reports, times=times)
        return Coverage.of(self.fold(reports, times), reports, times)

    # -- the contract --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """What a plan holds beside the prior: some integers below 2^53."""
        numbers = {name: getattr(self, name) for name in self._integers}
        return {"kind": self.kind, **numbers, "rows": [list(row) for row in self.rows]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], prior: Prior) -> Self:
        """Read what `to_dict` wrote; the cells are laid out again, by integers only."""
        numbers, rows = {name: data[name] for name in cls._integers}, tuple(map(tuple, data["rows"]))
        for name, number in [*numbers.items(), *(("rows", number) for row in rows for number in row)]:
            if type(number) is not int or not 0 <= number < 2**53:
                raise ValueError(f"The {name!r} of a mechanism for many values must be an integer from 0 to 2^53 - 1.")
        if any(len(row) < 2 or len(row) % 2 for row in rows):
            raise ValueError("A row of a mechanism for many values must have its words, its arc, and pairs.")
        return cls(prior=prior, rows=rows, **numbers)
