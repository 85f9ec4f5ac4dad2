"""Reports in, pseudo-values out: a row of numbers for each report, for software that knows nothing of Tacit.

Rows keep their order and stream in bounded memory; reports that the plan cannot have sent are left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.estimates import positions_of, pseudo_names, pseudo_values
from tacit.exact import Floats
from tacit.files.answers import writing
from tacit.files.cells import Matcher, reports_of
from tacit.files.columns import STAMP, check_stamp
from tacit.files.reading import (
    REPORT,
    InputError,
    Progress,
    Source,
    format_of,
    group_column_of,
    group_names,
    reading,
)
from tacit.plan import Plan
from tacit.prior import Value

#: So many numbers are made at a time.
_AT_ONCE = 2**22


@dataclass(frozen=True)
class ExportSummary:
    """What a run did: rows written, rows refused, and which value each column of pseudo-values is about."""

    rows: int
    refused: int
    columns: dict[str, Any]


def export_file(
    plan: Plan,
    source: Any,
    target: str | Path,
    *,
    keep: Sequence[str] = (),
    values: Sequence[Value] | None = None,
    report_column: str = REPORT,
    group_column: str | None = None,
    progress: Progress | None = None,
    source_format: str | None = None,
    target_format: str | None = None,
) -> ExportSummary:
    """Write the columns group (where the plan names groups), `keep`, and pseudo-values: one row for each report.

    Of a histogram for all answers, or for some `values`, which takes far less time where there are thousands.
    """
    rows = _Rows.of(plan, report_column, group_column, keep, values)
    format_of(target, target_format)
    done = refused = 0
    with (
        reading(source, rows.read, source_format, optional=(STAMP,)) as opened,
        writing(target, rows.schema(opened), target_format) as write,
    ):
        for table, kept, numbers, _ in rows.of_tables(opened):
            write(rows.result(opened, kept, numbers))
            done, refused = done + len(numbers), refused + len(table) - len(numbers)
            if progress is not None:
                progress(done + refused, opened.total)
        refused += len(opened.malformed)
    return ExportSummary(done, refused, dict(zip(rows.names, rows.about, strict=True)))


def pseudo_table(
    plan: Plan,
    table: Any,
    *,
    keep: Sequence[str] = (),
    report_column: str = REPORT,
    group_column: str | None = None,
    format: str | None = None,
) -> tuple[pa.Table, Floats, NDArray[np.int32], int]:
    """In memory: the columns to keep, the pseudo-values, each row's group as a position, and how many were refused."""
    rows = _Rows.of(plan, report_column, group_column, keep)
    with reading(table, rows.read, format, optional=(STAMP,)) as opened:
        schema = pa.schema([opened.schema.field(name) for name in rows.keep])
        parts = list(rows.of_tables(opened))
        refused = sum(len(part[0]) - len(part[2]) for part in parts) + len(opened.malformed)
    if not parts:
        return schema.empty_table(), np.zeros((0, len(rows.about))), np.zeros(0, np.int32), refused
    kept = pa.concat_tables([part[1].select(rows.keep) for part in parts])
    return kept, np.concatenate([part[2] for part in parts]), np.concatenate([part[3] for part in parts]), refused


@dataclass(frozen=True)
class _Rows:
    """The columns of an export run."""

    plan: Plan
    report: str
    group: str | None
    keep: list[str]
    values: Sequence[Value] | None = None

    @classmethod
    def of(
        cls, plan: Plan, report: str, group: str | None, keep: Sequence[str], values: Sequence[Value] | None = None
    ) -> _Rows:
        rows = cls(plan, report, group_column_of(plan, group), list(dict.fromkeys(keep)), values)
        written = [*rows.keep, *rows.names]
        if len(set(written)) < len(written):
            raise InputError(f"A kept column must not be called as the pseudo-values are: {written[-1]}.")
        return rows

    @property
    def about(self) -> list[Any]:
        return self.plan.row_values if self.values is None else list(self.values)

    @cached_property
    def names(self) -> list[str]:
        """The columns of pseudo-values; of some values they are called as beside all others."""
        names = pseudo_names(self.plan)
        return names if self.values is None else [names[place] for place in positions_of(self.plan, self.values)]

    @property
    def read(self) -> dict[str, str]:
        """What is read, each with the parameter that chooses it."""
        chosen = {self.report: "report_column"} | ({} if self.group is None else {self.group: "group_column"})
        return chosen | {name: "" for name in self.keep if name not in chosen}

    def schema(self, source: Source) -> pa.Schema:
        kinds = [(name, source.schema.field(name).type) for name in self._before]
        plain = [(name, kind.value_type if pa.types.is_dictionary(kind) else kind) for name, kind in kinds]
        return pa.schema([*plain, *((name, pa.float64()) for name in self.names)])

    @property
    def _before(self) -> list[str]:
        """The columns that stand before the pseudo-values."""
        return list(dict.fromkeys([*([] if self.group is None else [self.group]), *self.keep]))

    def of_tables(self, source: Source) -> Iterator[tuple[pa.Table, pa.Table, Floats, NDArray[np.int32]]]:
        """For each table: itself, its good rows, their pseudo-values, and their groups."""
        match = None if self.group is None else Matcher(group_names(self.plan), self.group)
        # Whatever is asked of a report, what it covers of all values is looked at.
        size = max(1, _AT_ONCE // len(self.plan.row_values))
        check_stamp(source.schema, self.plan.hash, source.name)
        for whole in source.tables():
            check_stamp(whole, self.plan.hash, source.name)
            for start in range(0, len(whole), size):
                table = whole.slice(start, size)
                reports = reports_of(table[self.report], self.report)
                places = np.zeros(len(reports), np.int32) if match is None else match(table[self.group])
                good = places >= 0
                for place, group in enumerate(self.plan.groups):
                    mine = np.flatnonzero(places == place)
                    good[mine] = group.mechanism.can_send_many(reports[mine])
                kept = table.filter(pa.array(good))
                yield table, kept, pseudo_values(self.plan, reports[good], places[good], self.values), places[good]

    def result(self, source: Source, kept: pa.Table, values: Floats) -> pa.Table:
        schema = self.schema(source)
        arrays = [kept[name].cast(schema.field(name).type) for name in self._before]
        # NaN says that a value is outside the support: an empty cell.
        columns = [pa.array(column, from_pandas=True) for column in values.T]
        return pa.table([*arrays, *columns], schema=schema)
