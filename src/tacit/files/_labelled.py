"""Data that were collected elsewhere: the words that people said, in a file, become the reports of a plan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tacit.disk import names_in, separator_of
from tacit.files.answers import Matched, OnUnknown, PerturbSummary, known_groups, listed, perturb_rows
from tacit.files.columns import MISSING, UNKNOWN, InputError, Matcher, plain_type, stamped
from tacit.files.giveaway import Watch
from tacit.files.reading import (
    REPORT,
    STANDARD,
    Progress,
    check_file,
    format_of,
    group_column_of,
    reading,
)
from tacit.files.writing import holding
from tacit.mechanism.protocol import RandomWords
from tacit.plan import Plan
from tacit.prior import numbers_if_all


def label_file(
    plan: Plan,
    labels: Sequence[str],
    source: str | Path,
    target: str | Path,
    *,
    column: str,
    group_column: str | None = None,
    on_unknown: OnUnknown = "stop",
    progress: Progress | None = None,
    source_format: str | None = None,
    target_format: str | None = None,
) -> PerturbSummary:
    """Write the report that each row stands for, and all other columns: labels[y], in `column`, is report y.

    Labels match as answers do: names without blanks around them, numbers by their value. Rows with another
    word, or without a group of the plan, stop the run, or are skipped and counted.

    Args:
        plan: the plan.
        labels: how the data write the reports, in their order.
        source: a file, a data frame, an Arrow table or a mapping of columns.
        target: the file to write.
        column: the column with what people said.
        group_column: the column with the group names, `group` by default.
        on_unknown: "stop" or "skip" at rows whose answer or group is not in the plan.
        progress: is called with the number of rows done.
        source_format: "csv", "parquet", "jsonl" or "arrow"; by default what the extension says.
        target_format: "csv", "parquet", "jsonl" or "arrow"; by default what the extension says.

    Returns:
        How many rows were read, written and skipped.

    >>> import tempfile
    >>> from tacit import Plan
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     said = Path(folder, "said.csv")
    ...     _ = said.write_text("card\\nred\\nblack\\n")
    ...     label_file(plan, ["red", "black"], said, Path(folder, "reports.csv"), column="card").reports
    2
    """
    if str(source) == STANDARD:
        raise InputError("The data must be a file: its columns are looked at before its rows.")
    groups, format_ = group_column_of(plan, group_column), format_of(source, source_format)
    kept = [name for name in column_names(source, format_, column) if name not in (column, groups)]
    if REPORT in kept:
        raise InputError(f"{source} has a column '{REPORT}' already, which is not '{column}'. Rename it.")
    chosen = {column: "column"} | ({} if groups is None else {groups: "group_column"}) | dict.fromkeys(kept, "")
    with reading(source, chosen, format_) as opened:
        named = [] if groups is None else [(groups, pa.string())]
        plain = [(name, plain_type(opened.schema.field(name).type)) for name in kept]
        schema = stamped(pa.schema([*named, *plain, (REPORT, pa.int64())]), plan.hash)
        reader, problem = _Labels(plan, labels, column, groups, schema), "that are no report of the plan"
        with holding(target, schema, target_format, None) as held:
            return perturb_rows(reader, opened, held, Watch(()), True, on_unknown, None, progress, problem=problem)


class _Labels:
    """The labels of a plan's reports, ready for tables of data."""

    def __init__(self, plan: Plan, labels: Sequence[str], column: str, groups: str | None, schema: pa.Schema) -> None:
        self._plan, self._labels, self._column, self._groups, self._schema = plan, labels, column, groups, schema
        self._match = Matcher(numbers_if_all(list(labels)), column)
        self._match_group = None if groups is None else Matcher(plan.group_names, groups, suggest=True)
        self._seen = np.zeros(len(labels), dtype=bool)

    @property
    def hints(self) -> dict[str, str]:
        hints = {"unknown label": _known_labels(self._labels, self._seen)}
        if self._match_group is not None:
            hints["unknown group"] = known_groups(self._plan.group_names, self._match_group.near)
        return hints

    def match(self, table: pa.Table) -> Matched:
        reports = self._match(table[self._column]).astype(np.int64)
        places = np.zeros_like(reports) if self._match_group is None else self._match_group(table[self._groups])
        self._seen[reports[reports >= 0]] = True
        good = (reports >= 0) & (places >= 0)
        reasons = {
            f"{how} {what}": found == marker
            for what, found in (("label", reports), ("group", places))
            for how, marker in (("missing", MISSING), ("unknown", UNKNOWN))
        }
        return Matched(table.filter(pa.array(good)), places[good], reports[good], good, reasons)

    def draw(self, matched: Matched, words: RandomWords | None = None) -> pa.Table:
        made: dict[str, Any] = {REPORT: pa.array(matched.held)}
        if self._groups is not None:
            made[self._groups] = pa.array(np.array(self._plan.group_names, dtype=object)[matched.groups], pa.string())
        columns = [
            made[field.name] if field.name in made else matched.rows[field.name].cast(field.type)
            for field in self._schema
        ]
        return pa.table(columns, schema=self._schema)


def column_names(path: str | Path, kind: str, needed: str) -> list[str]:
    """What the columns of a file are called; one is `needed`."""
    check_file(path)
    if kind == "parquet":
        return list(pq.read_schema(path).names)
    if kind == "arrow":
        with pa.OSFile(str(path)) as file:
            try:
                return list(pa.ipc.open_file(file).schema.names)
            except pa.ArrowInvalid:
                file.seek(0)
                return list(pa.ipc.open_stream(file).schema.names)
    with open(path, newline="", encoding="utf-8-sig") as text:
        if kind == "csv":
            header = text.readline()
            return names_in(header, separator_of(header, [needed]))
        first = json.loads(text.readline() or "{}")
        return list(first) if isinstance(first, dict) else []


def _known_labels(labels: Sequence[str], seen: Any) -> str:
    """The labels that were expected, and which of them came; others are not told, for they may be answers."""
    came = [label for label, has in zip(labels, seen, strict=True) if has]
    found = "all came" if all(seen) else f"only {listed(came)} came" if came else "none of them came"
    return f"The labels are {listed(labels)}, as they are written here; {found}. To read others, pass labels='NAMES'."
