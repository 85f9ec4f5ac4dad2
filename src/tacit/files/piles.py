"""Counts on their way to tallies, whatever engine brings the rows: sorted by group and by cells of public columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.files.cells import Matcher, as_numpy, numbers_of, reports_of, texts_of
from tacit.files.reading import InputError, group_names
from tacit.plan import Plan
from tacit.tally import LARGEST_WEIGHT, Counts, Coverage, GroupTally, Tally, keep

#: The column that says how many rows a row stands for. Not a name that a file would use.
ROW_COUNT = "tacit: number of rows"


@dataclass(frozen=True)
class ReportColumns:
    """The columns of a tally run, None where there is none."""

    report: str
    group: str | None
    by: tuple[str, ...]
    weight: str | None
    offset: str | None

    @property
    def weighted(self) -> bool:
        return self.weight is not None or self.offset is not None

    @property
    def named(self) -> dict[str, str]:
        """Each with the parameter that chooses it."""
        chosen = [(self.report, "report_column"), (self.group, "group_column"), *((name, "by") for name in self.by)]
        chosen += [(self.weight, "weight_column"), (self.offset, "offset_column")]
        named: dict[str, str] = {}
        for name, parameter in chosen:
            if name is not None:
                named.setdefault(name, parameter)
        return named


class Piles:
    """Counts on their way to tallies: for each cell of the `by` columns and each group, counts of growing size.

    Counts that follow on each other are only put side by side, others are merged with those of similar size: many
    reports, all different, cost one pass where they come in order and a logarithmic number of merges where not.
    """

    def __init__(self, plan: Plan, columns: ReportColumns) -> None:
        self._plan, self._columns = plan, columns
        self._match = None if columns.group is None else Matcher(group_names(plan), columns.group)
        sizes = [group.mechanism.n_possible_reports for group in plan.groups]
        #: How many reports each group has; None where some group's cannot be listed.
        self._sizes = None if None in sizes else np.array(sizes, dtype=np.int64)
        self._piles: dict[tuple[tuple[str, ...], int], list[Any]] = defaultdict(list)
        self.refused: dict[tuple[str, ...], int] = defaultdict(int)

    @property
    def countable(self) -> bool:
        """Whether reports repeat, so that counting different ones saves work."""
        none = np.zeros(0, dtype=np.int64)
        return all(group.mechanism.fold(none) is None for group in self._plan.groups)

    @property
    def keys(self) -> list[tuple[str, ...]]:
        """The cells of the `by` columns, sorted."""
        return sorted({key for key, _ in self._piles} | set(self.refused))

    def add(self, table: pa.Table) -> int:
        """Count a table; how many rows it stands for."""
        reports = reports_of(table[self._columns.report], self._columns.report)
        groups = self._groups(table, len(reports))
        times = as_numpy(table[ROW_COUNT]) if ROW_COUNT in table.column_names else None
        extra = [self._numbers(table, name) for name in (self._columns.weight, self._columns.offset)]
        self._check_design(extra[0])
        names, keys = self._keys(table, len(reports))
        good = self._in_range(groups, reports)
        for numbers in extra:
            if numbers is not None:
                good &= np.abs(numbers) <= LARGEST_WEIGHT  # False for NaN.
        for key, count in enumerate(np.bincount(keys[~good], None if times is None else times[~good])):
            if count:
                self.refused[names[key]] += int(count)
        cells = np.where(good, keys.astype(np.int64) * len(self._plan.groups) + groups, -1)
        for cell, rows in _classes(cells):
            if cell >= 0:
                key, group = divmod(cell, len(self._plan.groups))
                parts = [None if column is None else column[rows] for column in (times, *extra)]
                self._pile(names[key], group, self._kept(group, reports[rows], *parts))
        return len(reports) if times is None else int(times.sum())

    def tallies(self) -> dict[tuple[str, ...], Tally]:
        """A tally for each combination of cells of the `by` columns."""
        return {key: self.tally(key) for key in self.keys}

    def tally(self, key: tuple[str, ...]) -> Tally:
        """The tally for one combination of cells of the `by` columns."""
        counts = {
            group.name: _joined(self._piles[key, k])
            for k, group in enumerate(self._plan.groups)
            if (key, k) in self._piles
        }
        return Tally(self._plan.hash, counts, self.refused.get(key, 0))

    def _kept(self, group: int, reports: NDArray[np.int64], times: Any, weights: Any, offsets: Any) -> GroupTally:
        mechanism = self._plan.groups[group].mechanism
        if weights is None and offsets is None:
            return keep(mechanism, reports, times)
        if mechanism.fold(reports[:0]) is not None:
            raise InputError(
                "Weights need counts of single reports, and this plan's many values are kept as sums. Export "
                "pseudo-values instead (`tacit export`), which take any weights."
            )
        if offsets is not None and not self._plan.task.takes_weights:
            raise InputError("Offsets are for a weighted sum, and this plan asks for something else.")
        return Counts.of(reports, weights, offsets)

    def _pile(self, key: tuple[str, ...], group: int, counts: GroupTally) -> None:
        pile = self._piles[key, group]
        if isinstance(counts, Coverage):
            pile[:] = [pile[0].merge(counts) if pile else counts]
            return
        while pile and not _follows(pile[-1], counts) and len(pile[-1].reports) <= 2 * len(counts.reports):
            counts = Counts.merge(pile.pop(), counts)
        pile.append(counts)

    def _groups(self, table: pa.Table, size: int) -> NDArray[np.int32]:
        return np.zeros(size, np.int32) if self._match is None else self._match(table[self._columns.group])

    def _numbers(self, table: pa.Table, column: str | None) -> NDArray[np.float64] | None:
        return None if column is None else numbers_of(table[column], column)

    def _check_design(self, weights: NDArray[np.float64] | None) -> None:
        """The a of a·x + b is any number; a design weight says how many people somebody stands for."""
        if weights is not None and not self._plan.task.takes_weights and (weights < 0).any():
            raise InputError(
                f"Design weights say how many people a report stands for, so they must be 0 or more. The column "
                f"'{self._columns.weight}' has {int((weights < 0).sum()):,} below 0 among {len(weights):,} rows. "
                "Weights of any sign are for a plan of the task weighted-sum."
            )

    def _keys(self, table: pa.Table, size: int) -> tuple[list[tuple[str, ...]], NDArray[np.int64]]:
        """The combinations of cells of the `by` columns, each once, and which of them each row has."""
        names: list[tuple[str, ...]] = [()]
        keys = np.zeros(size, np.int64)
        for column in self._columns.by:
            cells = texts_of(table[column], column).combine_chunks().dictionary_encode()
            texts = cells.dictionary.to_pylist()
            if names == [()]:
                names, keys = [(text,) for text in texts], as_numpy(cells.indices).astype(np.int64)
                continue
            seen, keys = np.unique(keys * len(texts) + as_numpy(cells.indices), return_inverse=True)
            names = [(*names[key // len(texts)], texts[key % len(texts)]) for key in seen.tolist()]
        return names, keys

    def _in_range(self, groups: NDArray[np.int32], reports: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each group's mechanism can send the report."""
        mechanisms = [group.mechanism for group in self._plan.groups]
        if len(mechanisms) == 1:
            good: NDArray[np.bool_] = (groups == 0) & mechanisms[0].can_send_many(reports)
            return good
        if self._sizes is not None:
            return (groups >= 0) & (reports >= 0) & (reports < self._sizes[groups])
        good = np.zeros(len(reports), dtype=bool)
        for k, mechanism in enumerate(mechanisms):
            mine = np.flatnonzero(groups == k)
            good[mine] = mechanism.can_send_many(reports[mine])
        return good


def _classes(cells: NDArray[np.int64]) -> Iterator[tuple[int, Any]]:
    """Each different cell with the rows that hold it."""
    if len(cells) and (cells == cells[0]).all():
        yield int(cells[0]), slice(None)
        return
    # Numpy sorts 16 bits in linear time.
    order = np.argsort(cells.astype(np.int16) if cells.max(initial=0) < 2**15 else cells, kind="stable")
    starts = np.flatnonzero(np.diff(cells[order], prepend=cells[order][:1] - 1))
    for rows in np.split(order, starts[1:]):
        if len(rows):
            yield int(cells[rows[0]]), rows


def _follows(first: Counts, second: Counts) -> bool:
    """Whether all reports of the second are greater than those of the first, so that nothing has to be merged."""
    return first.sums is None and second.sums is None and bool(first.reports[-1] < second.reports[0])


def _joined(pile: list[Any]) -> GroupTally:
    if len(pile) > 1 and all(_follows(*pair) for pair in pairwise(pile)):
        return Counts(*(np.concatenate([getattr(part, name) for part in pile]) for name in ("reports", "counts")))
    joined: GroupTally = reduce(Counts.merge, reversed(pile))
    return joined
