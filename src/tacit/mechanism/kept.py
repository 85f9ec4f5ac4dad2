"""What is kept of a group's reports: how often each came (`Counts`), or sums of their coverage (`Coverage`).

A mechanism says which (`Mechanism.keep`) and reads it; tallies hold it. Both kinds merge: any split of the reports, in
any order, gives the same. Both answer the same questions, so that callers need not know which one they have.

Where respondents have public weights and offsets, counts also hold the sums per report of weights, squared weights and
offsets and the largest weight, in integer units of 2^-160, so that merging is exact in any order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.exact import BigIntegers, Floats, Integers

#: Weights, their squares and offsets are read to a multiple of 2^-160.
UNIT_BITS = 160
#: Coverage is kept in units of 2^-20.
COVERAGE_UNIT = 1 << 20
#: Counts and their sums stay below this.
LIMIT = 2**63
#: Larger weights and offsets are refused.
LARGEST_WEIGHT = 2.0**53
#: Up to this many different reports are counted by comparisons: `bincount` stalls where few counters take all hits.
_FEW = 4
#: This many numbers below 2^27 are added exactly as floats.
_ROOM = 2**25
#: Sums of coverage of reports, each with how often it came.
Fold = Callable[[Integers, Integers], Integers]
#: The names of the sums over weights and offsets that a tally keeps for each report.
SUMS = ("weight_sums", "square_sums", "offset_sums", "largest_weights")


class _Kept:
    """What both kinds answer alike; without weights every weight is 1 and every offset 0."""

    @property
    def has_weights(self) -> bool:
        """Whether respondents have weights of their own."""
        return False

    @property
    def least_weight_sum(self) -> float:
        """The least sum of weights of any report; 0 without weights."""
        return 0.0

    @property
    def largest_weight(self) -> float:
        """The largest weight."""
        return 1.0

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Counts(_Kept):
    """One group's reports, ascending and without repetition, with how often each came.

    `sums` has the rows Σ weight, Σ weight², Σ offset and max |weight| in units of 2^-160, or is None without
    weights.
    """

    reports: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    counts: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    sums: BigIntegers | None = None

    @cached_property
    def total(self) -> int:
        # Above this mean a sum of 64 bits might wrap.
        small = int(self.counts.max(initial=0)) < LIMIT // max(1, len(self.counts))
        return int(self.counts.sum()) if small else sum(self.counts.tolist())

    is_counted: ClassVar[bool] = True  # Single reports are known.

    @property
    def has_weights(self) -> bool:
        return self.sums is not None

    def counted(self) -> Counts:
        """Itself: reports that were counted one by one."""
        return self

    def folded(self, fold: Fold | None = None) -> Coverage:
        """The sums of coverage of the same reports, as their mechanism folds them."""
        if fold is None:
            raise ValueError("Counts and sums of coverage cannot be merged.")
        return Coverage(fold(self.reports, self.counts), self.total)

    def check(self, n_values: int | None, can_send: Callable[[Integers], NDArray[np.bool_]], whose: str) -> None:
        """Raise `ValueError` unless they are reports that can be sent, of a mechanism that counts them."""
        if n_values is not None or not can_send(self.reports).all():
            raise ValueError(f"This tally has a report that {whose} cannot have sent.")

    @property
    def collision_bits(self) -> float:
        """−log₂ of the probability (Σ_y f_y²)^n that n reports of frequencies f come again in the same order."""
        shares = self.counts / max(1, self.total)
        return -self.total * math.log2(float((shares**2).sum())) if self.total else 0.0

    @property
    def weight_sums(self) -> tuple[float, float]:
        """Σ weight and Σ offset."""
        if self.sums is None:
            return float(self.total), 0.0
        weights, _, offsets = (math.ldexp(float(units), -UNIT_BITS) for units in self.sums[:3].sum(axis=1))
        return weights, offsets

    def weighted(self) -> tuple[Floats, Floats, float]:
        """Σ weight and Σ weight² per report, and the largest weight; without weights, the counts and 1."""
        if self.sums is None:
            often = self.counts.astype(np.float64)
            return often, often, 1.0
        floats = self.sums.astype(np.float64) * 2.0**-UNIT_BITS
        return floats[0], floats[1], float(floats[3].max(initial=0.0))

    @property
    def least_weight_sum(self) -> float:
        return 0.0 if self.sums is None else float(min(self.sums[0], default=0))

    @property
    def weight_squares(self) -> float:
        """Σ weight²."""
        return float(self.weighted()[1].sum())

    @property
    def largest_weight(self) -> float:
        return self.weighted()[2]

    @classmethod
    def of(cls, reports: Any, weights: Any = None, offsets: Any = None, *, times: Integers | None = None) -> Counts:
        """Count an array of reports, each of which came once or `times` times, or with weights and offsets.

        >>> Counts.of([2, 0, 2]).to_dict()
        {'reports': [0, 2], 'counts': [1, 2]}
        """
        array = np.asarray(reports, dtype=np.int64)
        if times is not None:
            return cls(array, times) if (np.diff(array) > 0).all() else cls(*_added(array, times))
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

    def merge(self, more: Kept) -> Counts:
        """The counts of both together."""
        other = more.counted()
        if (self.sums is None) != (other.sums is None) and self.total and other.total:
            raise ValueError("Tallies with and without weights cannot be merged.")
        # No single count can wrap where their sum does not.
        check_size(self.total + other.total)
        both = (self, other)
        reports, counts = _added(*(np.concatenate([getattr(each, n) for each in both]) for n in ("reports", "counts")))
        if all(each.sums is None for each in both):
            return Counts(reports, counts)
        sums = np.zeros((len(SUMS), len(reports)), dtype=object)
        for part in both:
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
        if SUMS[0] not in data:
            return cls(reports, counts)
        rows = [_units(data[name], name) for name in SUMS]
        if any(len(row) != len(reports) for row in rows) or any(unit < 0 for row in rows[1::2] for unit in row):
            raise ValueError("A tally needs a weight, a squared weight from 0 and an offset for each report.")
        return cls(reports, counts, np.array(rows, dtype=object).reshape(len(SUMS), len(reports)))


@dataclass(frozen=True, eq=False)
class Coverage(_Kept):
    """Reports of which nearly every one is different, as sums that can be added: `coverage` has an integer for each
    possible value, in units of 2^-20, and `total` is the number of reports.
    """

    coverage: Integers
    total: int

    is_counted: ClassVar[bool] = False

    def counted(self) -> Counts:
        """Raises `ValueError`: single reports are not known."""
        raise ValueError("These are sums of coverage, which belong to another mechanism.")

    def folded(self, fold: Fold | None = None) -> Coverage:
        """Itself."""
        return self

    def check(self, n_values: int | None, can_send: Callable[[Integers], NDArray[np.bool_]], whose: str) -> None:
        """Raise `ValueError` unless they are sums for `n_values` values that reports can add up to."""
        if n_values != len(self.coverage) or int(self.coverage.max(initial=0)) > self.total * COVERAGE_UNIT:
            raise ValueError(f"This tally has sums of coverage that reports of {whose} cannot add up to.")

    @property
    def collision_bits(self) -> float:
        """A lower bound of −log₂ of the probability that the same reports come again in the same order.

        Two equal reports agree in whether they cover a value, of which a share π of reports does, and that has the
        probability π² + (1 − π)².
        """
        covered = self.coverage / (max(1, self.total) * COVERAGE_UNIT)
        return -self.total * math.log2(float((covered**2 + (1 - covered) ** 2).min(initial=1.0)))

    @classmethod
    def of(cls, folded: Integers, reports: Integers, times: Integers | None) -> Coverage:
        """The sums of reports, each of which came once or `times` times."""
        return cls(folded, len(reports) if times is None else int(times.sum()))

    @property
    def weight_sums(self) -> tuple[float, float]:
        """Σ weight and Σ offset."""
        return float(self.total), 0.0

    @property
    def weight_squares(self) -> float:
        """Σ weight²."""
        return float(self.total)

    def merge(self, more: Kept) -> Coverage:
        """The sums of both together."""
        other = more.folded()
        if len(other.coverage) != len(self.coverage):
            raise ValueError("Sums of coverage merge with others of the same mechanism only.")
        most = int(self.coverage.max(initial=0)) + int(other.coverage.max(initial=0))
        check_size(max(most, self.total + other.total))
        return Coverage(self.coverage + other.coverage, self.total + other.total)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"total": self.total, "coverage": self.coverage.tolist()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Coverage:
        """The inverse of `to_dict`; refuses what no sums can be."""
        coverage, (total,) = whole(data["coverage"], "coverage"), whole([data["total"]], "total")
        return cls(np.array(coverage, dtype=np.int64), total)


#: What is kept of one group's reports.
Kept = Counts | Coverage


def read_kept(data: Mapping[str, Any]) -> Kept:
    """What `to_dict` of either kind wrote; refuses other fields."""
    kind: type[Counts] | type[Coverage] = Coverage if "coverage" in data else Counts
    fields = ("total", "coverage") if kind is Coverage else ("reports", "counts", *(SUMS if SUMS[0] in data else ()))
    if set(data) != set(fields):
        raise ValueError(f"A group of a tally must have the fields {', '.join(fields)}, and no other.")
    return kind.from_dict(data)


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


def _added(reports: Integers, times: Integers) -> tuple[Integers, Integers]:
    """The different reports, ascending, and how often each came in all."""
    unique, inverse = np.unique(reports, return_inverse=True)
    counts = np.zeros(len(unique), dtype=np.int64)
    np.add.at(counts, inverse, times)
    return unique, counts


def _often(reports: Integers) -> tuple[Integers, Integers]:
    """The different reports, ascending, and how often each came; where they are small numbers without sorting."""
    # Viewed as unsigned, negative numbers are larger than all others.
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
