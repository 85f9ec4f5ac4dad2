"""How often each report came in one group. Counts of any split of the reports merge to the same.

Where respondents have public weights and offsets, also the sums per report of weights, squared weights and offsets and
the largest weight, in integer units of 2^-160, so that merging is exact in any order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tacit.exact import BigIntegers, Floats, Integers

#: Weights, their squares and offsets are read to a multiple of 2^-160; earlier tallies to one of 2^-20.
UNIT_BITS, _OLD_UNIT_BITS = 160, 20
#: Counts and their sums stay below this.
LIMIT = 2**63
#: Larger weights and offsets are refused.
LARGEST_WEIGHT = 2.0**53
#: So few different reports are compared with each of them: adding one to one of few numbers waits for the last time.
_FEW = 4
#: So many numbers below 2^27 are added exactly as floats.
_ROOM = 2**25
SUMS = ("weight_sums", "square_sums", "offset_sums", "largest_weights")
_OLD_SUMS = ("weights", "squared_weights", "offsets")


@dataclass(frozen=True, eq=False)
class Counts:
    """One group's reports, ascending and without repetition, with how often each came.

    `sums` has the rows Σ weight, Σ weight², Σ offset and max |weight| in units of 2^-160, or is None where nobody has a
    weight.
    """

    reports: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    counts: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    sums: BigIntegers | None = None

    @cached_property
    def total(self) -> int:
        # Above this mean a sum of 64 bits might wrap.
        small = int(self.counts.max(initial=0)) < LIMIT // max(1, len(self.counts))
        return int(self.counts.sum()) if small else sum(self.counts.tolist())

    @property
    def collision_bits(self) -> float:
        """−log₂ of the probability (Σ_y f_y²)^n that n reports of frequencies f come again in the same order."""
        shares = self.counts / max(1, self.total)
        return -self.total * math.log2(float((shares**2).sum())) if self.total else 0.0

    @property
    def weight_sums(self) -> tuple[float, float]:
        """Σ weight and Σ offset; where nobody has a weight, everybody's is 1 and the offset 0."""
        if self.sums is None:
            return float(self.total), 0.0
        weights, _, offsets = (math.ldexp(float(units), -UNIT_BITS) for units in self.sums[:3].sum(axis=1))
        return weights, offsets

    def weighted(self) -> tuple[Floats, Floats, float]:
        """Σ weight and Σ weight² per report, and the largest weight; where nobody has one, the counts and 1."""
        if self.sums is None:
            often = self.counts.astype(np.float64)
            return often, often, 1.0
        floats = self.sums.astype(np.float64) * 2.0**-UNIT_BITS
        return floats[0], floats[1], float(floats[3].max(initial=0.0))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counts) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(cls, reports: Any, weights: Any = None, offsets: Any = None) -> Counts:
        """Count an array of reports, with the respondents' weights and offsets where they have any.

        >>> Counts.of([2, 0, 2]).to_dict()
        {'reports': [0, 2], 'counts': [1, 2]}
        """
        array = np.asarray(reports, dtype=np.int64)
        if weights is None and offsets is None:
            return cls(*_often(array))
        unique, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
        weight = np.ones(len(array)) if weights is None else _finite(weights, len(array), "weights")
        offset = np.zeros(len(array)) if offsets is None else _finite(offsets, len(array), "offsets")
        columns = (weight, weight**2, offset)
        sums = [_exact_sums(column, inverse, len(unique)) for column in columns]
        largest = np.zeros(len(unique))
        np.maximum.at(largest, inverse, np.abs(weight))
        sums.append(_exact_sums(largest, np.arange(len(unique)), len(unique)))
        return cls(unique, counts.astype(np.int64), np.array(sums, dtype=object))

    @classmethod
    def of_repeated(cls, reports: Integers, times: Integers) -> Counts:
        """Count reports that came `times` times each."""
        if (np.diff(reports) > 0).all():
            return cls(reports, times)
        unique, inverse = np.unique(reports, return_inverse=True)
        counts = np.zeros(len(unique), np.int64)
        np.add.at(counts, inverse, times)
        return cls(unique, counts)

    def merge(self, other: Counts) -> Counts:
        """The counts of both together."""
        if (self.sums is None) != (other.sums is None) and self.total and other.total:
            raise ValueError("Tallies with and without weights cannot be merged.")
        # No single count can wrap where their sum does not.
        check_size(self.total + other.total)
        reports, inverse = np.unique(np.concatenate([self.reports, other.reports]), return_inverse=True)
        counts = np.zeros(len(reports), dtype=np.int64)
        np.add.at(counts, inverse, np.concatenate([self.counts, other.counts]))
        parts = [part.sums for part in (self, other) if part.sums is not None]
        if not parts:
            return Counts(reports, counts)
        sums = np.zeros((len(SUMS), len(reports)), dtype=object)
        for part in (self, other):
            if part.sums is not None:
                at = np.searchsorted(reports, part.reports)
                sums[:3, at] += part.sums[:3]
                sums[3, at] = np.maximum(sums[3, at], part.sums[3])
        return Counts(reports, counts, sums)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        data: dict[str, Any] = {"reports": self.reports.tolist(), "counts": self.counts.tolist()}
        if self.sums is not None:
            data |= {name: [str(unit) for unit in row] for name, row in zip(SUMS, self.sums, strict=True)}
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Counts:
        """The inverse of `to_dict`; refuses what no tally can hold."""
        reports = np.array(whole(data["reports"], "reports"), dtype=np.int64)
        times = whole(data["counts"], "counts")
        if len(reports) != len(times) or (np.diff(reports) <= 0).any() or 0 in times:
            raise ValueError("A tally needs ascending reports, each with a positive count.")
        check_size(sum(times))
        counts = np.array(times, dtype=np.int64)
        names = sums_of(data)
        if not names:
            return cls(reports, counts)
        rows = [_units(data[name], name) for name in names]
        if any(len(row) != len(reports) for row in rows) or any(unit < 0 for row in rows[1::2] for unit in row):
            raise ValueError("A tally needs a weight, a squared weight from 0 and an offset for each report.")
        if names == _OLD_SUMS:
            rows = [[unit << UNIT_BITS - _OLD_UNIT_BITS for unit in row] for row in rows]
            # No weight is larger than the root of the sum of squares.
            rows.append([math.isqrt(square << UNIT_BITS) + 1 for square in rows[1]])
        return cls(reports, counts, np.array(rows, dtype=object).reshape(len(SUMS), len(reports)))


def sums_of(data: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of a group's sums of weights: the present ones, the earlier ones, or none."""
    return next((names for names in (SUMS, _OLD_SUMS) if any(name in data for name in names)), ())


def check_size(count: int) -> None:
    if count >= LIMIT:
        raise ValueError("A tally cannot count 2^63 reports and more.")


def whole(numbers: Any, name: str) -> list[int]:
    """Plain integers from 0 to 2^63 − 1."""
    if not isinstance(numbers, list) or not all(type(number) is int and 0 <= number < LIMIT for number in numbers):
        raise ValueError(f"The field {name!r} of a tally must hold integers from 0 to 2^63 − 1.")
    return numbers


def _units(texts: Any, name: str) -> list[int]:
    """Integers of any sign that a tally writes as strings."""
    if not isinstance(texts, list) or not all(
        isinstance(text, str) and re.fullmatch("-?[0-9]{1,100}", text) for text in texts
    ):
        raise ValueError(f"The field {name!r} of a tally must hold integers in strings.")
    return [int(text) for text in texts]


def _often(reports: Integers) -> tuple[Integers, Integers]:
    """The different reports, ascending, and how often each came; where they are small numbers without sorting."""
    # Read without their sign, negative ones are beyond all others.
    largest = int(reports.view(np.uint64).max(initial=0))
    if largest < max(len(reports), 2**16):
        if largest < _FEW:
            above = [np.count_nonzero(reports == report) for report in range(1, largest + 1)]
            counts = np.array([len(reports) - sum(above), *above])
        else:
            counts = np.bincount(reports)
        found = np.flatnonzero(counts)
        return found, counts[found].astype(np.int64)
    unique, counts = np.unique(reports, return_counts=True)
    return unique, counts.astype(np.int64)


def _finite(column: Any, length: int, name: str) -> Floats:
    array = np.asarray(column, dtype=np.float64)
    if array.shape != (length,) or not np.isfinite(array).all() or (np.abs(array) > LARGEST_WEIGHT).any():
        raise ValueError(f"The {name} must be one finite number of at most 2^53 for each report.")
    return array


def _exact_sums(column: Floats, inverse: Integers, size: int) -> BigIntegers:
    """Σ column per class in integer units, exactly: numbers of one exponent are added as integers, in two halves."""
    mantissas, exponents = np.frexp(column)
    whole = (mantissas * 2.0**53).astype(np.int64)
    sums = np.zeros(size, dtype=object)
    for exponent in np.unique(exponents[whole != 0]).tolist():
        shift = UNIT_BITS - 53 + exponent
        at = np.flatnonzero(exponents == exponent)
        for start in range(0, len(at), _ROOM):
            here = at[start : start + _ROOM]
            # What lies below the unit is cut off each number, so that any split adds up to the same.
            units = whole[here] >> min(max(0, -shift), 63)
            halves = (units >> 27, units & (1 << 27) - 1)
            high, low = (np.bincount(inverse[here], weights=half, minlength=size).astype(np.int64) for half in halves)
            sums += ((high.astype(object) << 27) + low.astype(object)) << max(0, shift)
    return sums
