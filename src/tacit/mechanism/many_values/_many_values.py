"""The mechanism `many-values`: histograms of many values, private for a prior, a ball of priors, or under LDP.

`_rule` has its integers and the proof of their privacy, `_reading` what reports tell. A report is an integer that no
other room takes apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
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
    """Giants by name and a circle for the rest, as a mechanism.

    >>> prior = Prior.of({"a": 8, "b": 2, "c": 2, "d": 2, "e": 1, "f": 1})
    >>> found = ManyValues(prior=prior, giants=1, covered=5, arc=4, step=9, cell_bits=4, seed_bits=4, word_bits=8)
    >>> found.cells, found.named, found.draw(0, (255, 3, 200)), found.draw(1, (255, 3, 200))
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

        of_states, places = np.empty(len(values), dtype=np.int64), np.empty(len(values), dtype=np.int64)
        for_circle = np.empty((len(values), self.circle.words), dtype=np.uint64)
        names = (self._name_edges, self._name_guide, np.uint64(self.circle.base), self.seed_bits // 2, self.name_bits)
        arcs = (np.uint64(self.arcs_for_all), np.uint64(self.arcs_for_giants))
        loops.name_giants(values, words, self._places, *names, *arcs, of_states, places, for_circle)
        drawn = self.circle.draw_many(places, for_circle)
        size = self.circle.orders << self.cell_bits if self.named_beside else 0
        reports: Integers = loops.put_together(of_states, drawn, self.with_arc, size)
        return reports

    @cached_property
    def _name_edges(self) -> NDArray[np.uint64]:
        return np.array(self.name_edges, dtype=np.uint64)

    @cached_property
    def _name_guide(self) -> NDArray[np.uint32]:
        """The giant that the first γ of each of 256 equal parts names."""
        parts = np.arange(256, dtype=np.uint64) << np.uint64(max(self.name_bits - 8, 0))
        return (np.searchsorted(self._name_edges, parts, side="right") - 1).astype(np.uint32)

    def can_send_many(self, reports: Integers) -> NDArray[np.bool_]:
        """Whether there are such names, orders and positions; every value can send all of them."""
        reports = np.asarray(reports, dtype=np.int64)
        arcs, names, rest = self.parts(reports)
        good: NDArray[np.bool_] = np.where(arcs, self.circle.can_send_many(rest), names < self.giants) & (reports >= 0)
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
        return {"kind": self.kind, **{name: getattr(self, name) for name in self._integers}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], prior: Prior) -> Self:
        """Read what `to_dict` wrote; the cells are laid out again, by integers only."""
        numbers = {name: data[name] for name in cls._integers}
        for name, number in numbers.items():
            if type(number) is not int or not 0 <= number < 2**53:
                raise ValueError(f"The {name!r} of a mechanism for many values must be an integer from 0 to 2^53 - 1.")
        return cls(prior=prior, **numbers)
