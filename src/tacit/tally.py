"""What a collector keeps: how often each report came, per group. Tallies of any split of the reports merge to the same.

Where nearly every report is different, a mechanism folds them instead: sums of coverage, an integer for each value.

Where respondents have public weights and offsets, a tally also keeps, per report, the sums of weights, squared weights
and offsets and the largest weight, in integer units of 2^-160, so that merging is exact in any order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tacit.exact import BigIntegers, Floats, Integers
from tacit.mechanism import Mechanism
from tacit.mechanism.protocol import COVERAGE_UNIT
from tacit.plan import Plan
from tacit.sources import Sources

#: Weights, their squares and offsets are read to a multiple of 2^-160; earlier tallies to one of 2^-20.
UNIT_BITS, _OLD_UNIT_BITS = 160, 20
#: Counts and their sums stay below this.
LIMIT = 2**63
#: Larger weights and offsets are refused.
LARGEST_WEIGHT = 2.0**53
#: So many numbers below 2^27 are added exactly as floats.
_ROOM = 2**25
#: The fields of a tally and of its groups, see files/tally.schema.json.
_FIELDS = ("tacit_tally", "plan", "refused", "groups")
#: Earlier tallies do not say what they counted.
_SOURCES = "sources"
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
        _check_size(self.total + other.total)
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
        reports = np.array(_whole(data["reports"], "reports"), dtype=np.int64)
        times = _whole(data["counts"], "counts")
        if len(reports) != len(times) or (np.diff(reports) <= 0).any() or 0 in times:
            raise ValueError("A tally needs ascending reports, each with a positive count.")
        _check_size(sum(times))
        counts = np.array(times, dtype=np.int64)
        names = _sums_of(data)
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


@dataclass(frozen=True, eq=False)
class Coverage:
    """One group's reports as sums that can be added: `coverage` has an integer for each possible value."""

    coverage: Integers
    total: int

    @property
    def collision_bits(self) -> float:
        """The same, from below: two reports that are equal agree in whether they cover a value, of which a share π of
        reports does, and that has the probability π² + (1 − π)².
        """
        covered = self.coverage / (max(1, self.total) * COVERAGE_UNIT)
        return -self.total * math.log2(float((covered**2 + (1 - covered) ** 2).min(initial=1.0)))

    @property
    def weight_sums(self) -> tuple[float, float]:
        """Σ weight and Σ offset: nobody has another than 1 and 0."""
        return float(self.total), 0.0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Coverage) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def merge(self, other: GroupTally) -> Coverage:
        """The sums of both together."""
        if not isinstance(other, Coverage) or len(other.coverage) != len(self.coverage):
            raise ValueError("Sums of coverage merge with others of the same mechanism only.")
        most = int(self.coverage.max(initial=0)) + int(other.coverage.max(initial=0))
        _check_size(max(most, self.total + other.total))
        return Coverage(self.coverage + other.coverage, self.total + other.total)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"total": self.total, "coverage": self.coverage.tolist()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Coverage:
        """The inverse of `to_dict`; refuses what no sums can be."""
        coverage, (total,) = _whole(data["coverage"], "coverage"), _whole([data["total"]], "total")
        return cls(np.array(coverage, dtype=np.int64), total)


#: What is kept of one group's reports.
GroupTally = Counts | Coverage


def keep(mechanism: Mechanism, reports: Integers, times: Integers | None = None) -> GroupTally:
    """What is kept of reports that the mechanism can send, each of which came once or `times` times."""
    folded = mechanism.fold(reports, times)
    if folded is None:
        return Counts.of(reports) if times is None else Counts.of_repeated(reports, times)
    return Coverage(folded, len(reports) if times is None else int(times.sum()))


@dataclass(frozen=True)
class Tally:
    """Counts per group for one plan, and how many reports were refused because the plan does not know them.

    `sources` say what was counted, as far as that is known; tallies that differ in them only are equal.
    """

    plan: str
    groups: Mapping[str | None, GroupTally]
    refused: int = 0
    sources: Sources = field(default=Sources(), compare=False)

    @classmethod
    def of(cls, plan: Plan, reports: Any, groups: Any = None) -> Tally:
        """Count an array of reports, with the names of their groups where the plan names groups.

        A report that its group cannot have sent, or of a group that the plan does not have, is refused and counted.

        >>> from tacit import Prior, Survey, make_plan
        >>> plan = make_plan(Prior.of({"yes": 0.3, "no": 0.7}), Survey("yes"), epsilon=1)
        >>> Tally.of(plan, [0, 1, 1, 7]).refused
        1
        """
        sent = np.asarray(reports)
        if sent.size and not np.issubdtype(sent.dtype, np.integer):
            raise ValueError(f"Reports must be integers. Got {sent.dtype} instead.")
        sent = sent.astype(np.int64)
        named = any(group.name is not None for group in plan.groups)
        if named == (groups is None):
            raise ValueError("Groups must be given where the plan names groups, and only there.")
        names = None if groups is None else np.asarray(groups, dtype=object)
        if names is not None and names.shape != sent.shape:
            raise ValueError(f"There must be one group for each report. Got {len(names)} for {len(sent)}.")
        counts: dict[str | None, GroupTally] = {}
        for group in plan.groups:
            mine = sent if names is None else sent[names == group.name]
            counts[group.name] = keep(group.mechanism, mine[group.mechanism.can_send_many(mine)])
        kept = sum(each.total for each in counts.values())
        return cls(plan.hash, {name: each for name, each in counts.items() if each.total}, len(sent) - kept)

    @property
    def n_reports(self) -> int:
        return sum(counts.total for counts in self.groups.values())

    @property
    def collision_bits(self) -> float:
        """How many bits it would take chance to send these reports again: −log₂ of the probability that it does."""
        return sum(counts.collision_bits for counts in self.groups.values())

    def merge(self, other: Tally) -> Tally:
        """Both together. Refuses the tally of another plan, and one that has counted the same.

        >>> one = Tally("plan", {None: Counts.of([0, 1])})
        >>> one.merge(Tally("plan", {None: Counts.of([1])}, refused=2)).to_dict()["groups"]
        [{'group': None, 'reports': [0, 1], 'counts': [1, 2]}]
        """
        if self.plan != other.plan:
            raise ValueError(f"These tallies belong to different plans: {self.plan[:12]}… and {other.plan[:12]}….")
        sources = self.sources.merge(other.sources)
        groups = dict(self.groups)
        for name, counts in other.groups.items():
            groups[name] = _merged(groups[name], counts) if name in groups else counts
        return Tally(self.plan, groups, self.refused + other.refused, sources)

    def to_dict(self) -> dict[str, Any]:
        """For JSON, groups in a fixed order."""
        names = sorted(self.groups, key=lambda name: (name is not None, name or ""))
        groups = [{"group": name} | self.groups[name].to_dict() for name in names if self.groups[name].total]
        known = {_SOURCES: self.sources.to_dict()} if self.sources.ids else {}
        return {"tacit_tally": 1, "plan": self.plan, "refused": self.refused, **known, "groups": groups}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Tally:
        """The inverse of `to_dict`; refuses what no tally can hold."""
        if not isinstance(data, Mapping) or data.get("tacit_tally") != 1 or data["tacit_tally"] is True:
            raise ValueError("Not a tally of format 1.")
        _check_fields(data, "A tally", (*_FIELDS, _SOURCES) if _SOURCES in data else _FIELDS)
        if not isinstance(data["plan"], str) or not isinstance(data["groups"], list):
            raise ValueError("A tally needs the hash of its plan and a list of groups.")
        groups = {}
        for group in data["groups"]:
            name, counts = _read_group(group)
            if name in groups:
                raise ValueError(f"The group {name!r} stands twice in this tally.")
            groups[name] = counts
        (refused,) = _whole([data["refused"]], "refused")
        return cls(data["plan"], groups, refused, Sources.from_dict(data.get(_SOURCES)))

    def check(self, plan: Plan) -> None:
        """Raise `ValueError` unless it is a tally that reports of this plan can add up to."""
        if self.plan != plan.hash:
            raise ValueError(f"This is a tally of another plan: {self.plan[:12]}…, not {plan.hash[:12]}….")
        mechanisms = {group.name: group.mechanism for group in plan.groups}
        for name, kept in self.groups.items():
            if name not in mechanisms:
                raise ValueError(f"This tally has a group {name!r}, which the plan does not have.")
            folded = mechanisms[name].fold(np.zeros(0, dtype=np.int64))
            whose = "the plan" if name is None else f"group {name!r}"
            if isinstance(kept, Coverage):
                most = kept.total * COVERAGE_UNIT
                if folded is None or len(folded) != len(kept.coverage) or int(kept.coverage.max(initial=0)) > most:
                    raise ValueError(f"This tally has sums of coverage that reports of {whose} cannot add up to.")
            elif folded is not None or not mechanisms[name].can_send_many(kept.reports).all():
                raise ValueError(f"This tally has a report that {whose} cannot have sent.")


def _often(reports: Integers) -> tuple[Integers, Integers]:
    """The different reports, ascending, and how often each came; where they are small numbers without sorting."""
    if len(reports) and int(reports.min()) >= 0 and int(reports.max()) < max(len(reports), 2**16):
        counts = np.bincount(reports)
        found = np.flatnonzero(counts)
        return found, counts[found].astype(np.int64)
    unique, counts = np.unique(reports, return_counts=True)
    return unique, counts.astype(np.int64)


def _merged(first: GroupTally, second: GroupTally) -> GroupTally:
    if isinstance(first, Coverage):
        return first.merge(second)
    if isinstance(second, Coverage):
        raise ValueError("Counts and sums of coverage cannot be merged.")
    return first.merge(second)


def _read_group(data: Any) -> tuple[str | None, GroupTally]:
    """A group's name and what is kept of its reports."""
    if not isinstance(data, Mapping) or not isinstance(data.get("group", ""), str | None):
        raise ValueError("A group of a tally must be an object with a name, a text or null.")
    if "coverage" in data:
        _check_fields(data, "A group of sums", ("group", "total", "coverage"))
        return data["group"], Coverage.from_dict(data)
    _check_fields(data, "A group of a tally", ("group", "reports", "counts", *_sums_of(data)))
    return data["group"], Counts.from_dict(data)


def _sums_of(data: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of a group's sums of weights: the present ones, the earlier ones, or none."""
    return next((names for names in (SUMS, _OLD_SUMS) if any(name in data for name in names)), ())


def _check_fields(data: Mapping[str, Any], what: str, names: Sequence[str]) -> None:
    if set(data) != set(names):
        raise ValueError(f"{what} must have the fields {', '.join(names)}, and no other.")


def _check_size(count: int) -> None:
    if count >= LIMIT:
        raise ValueError("A tally cannot count 2^63 reports and more.")


def _whole(numbers: Any, name: str) -> list[int]:
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


def merge_all(tallies: Iterable[Tally]) -> Tally:
    """All of them together."""
    remaining = iter(tallies)
    try:
        merged = next(remaining)
    except StopIteration:
        raise ValueError("There is no tally to merge.") from None
    for tally in remaining:
        merged = merged.merge(tally)
    return merged


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
