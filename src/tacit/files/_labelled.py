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
from tacit.files.answers import BadRows, OnUnknown, PerturbSummary, check_on_unknown, known_groups, listed
from tacit.files.columns import MISSING, UNKNOWN, InputError, Matcher, stamped
from tacit.files.reading import (
    REPORT,
    STANDARD,
    Progress,
    check_file,
    format_of,
    group_column_of,
    reading,
)
from tacit.files.writing import writing
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

    Labels match as answers do: names without blanks around them, numbers by what they are worth. Rows with another
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
    check_on_unknown(on_unknown)
    if str(source) == STANDARD:
        raise InputError("The data must be a file: its columns are looked at before its rows.")
    groups, format_ = group_column_of(plan, group_column), format_of(source, source_format)
    kept = [name for name in column_names(source, format_, column) if name not in (column, groups)]
    if REPORT in kept:
        raise InputError(f"{source} has a column '{REPORT}' already, which is not '{column}'. Rename it.")
    matched = [column] if groups is None else [column, groups]
    chosen = dict(zip(matched, ("column", "group_column"), strict=False)) | dict.fromkeys(kept, "")
    with reading(source, chosen, format_) as opened:
        types = [opened.schema.field(name).type for name in kept]
        plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in types]
        named = [] if groups is None else [(groups, pa.string())]
        schema = stamped(pa.schema([*named, *zip(kept, plain, strict=True), (REPORT, pa.int64())]), plan.hash)
        match_label = Matcher(numbers_if_all(list(labels)), column)
        match_group = None if groups is None else Matcher(plan.group_names, groups, suggest=True)
        seen = np.zeros(len(labels), dtype=bool)
        bad, rows, written = BadRows(opened, "that are no report of the plan"), 0, 0
        with writing(target, schema, target_format) as write:
            for table in opened.tables():
                reports = match_label(table[column]).astype(np.int64)
                places = np.zeros_like(reports) if match_group is None else match_group(table[groups])
                seen[reports[reports >= 0]] = True
                good = (reports >= 0) & (places >= 0)
                if not good.all():
                    bad.note(rows, _reasons(reports, places))
                rows += len(good)
                if good.any() and (on_unknown == "skip" or not bad.counts):
                    write(_result(table.filter(pa.array(good)), schema, plan, places[good], reports[good]))
                    written += int(good.sum())
                if progress is not None:
                    progress(rows, opened.total)
            bad.hints["unknown label"] = _known_labels(labels, seen)
            if match_group is not None:
                bad.hints["unknown group"] = known_groups(plan.group_names, match_group.near)
            skipped = bad.finish(on_unknown)
    return PerturbSummary(rows + len(opened.malformed), written, skipped)


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


def _reasons(reports: Any, places: Any) -> dict[str, Any]:
    return {
        f"{how} {what}": found == marker
        for what, found in (("label", reports), ("group", places))
        for how, marker in (("missing", MISSING), ("unknown", UNKNOWN))
    }


def _known_labels(labels: Sequence[str], seen: Any) -> str:
    """The labels that were expected, and which of them came; others are not told, for they may be answers."""
    came = [label for label, has in zip(labels, seen, strict=True) if has]
    found = "all came" if all(seen) else f"only {listed(came)} came" if came else "none of them came"
    return f"The labels are {listed(labels)}, as they are written here; {found}. To read others, pass labels='NAMES'."


def _result(table: pa.Table, schema: pa.Schema, plan: Plan, places: Any, reports: Any) -> pa.Table:
    names = plan.group_names
    columns = []
    for field in schema:
        if field.name == REPORT:
            columns.append(pa.array(reports))
        elif names and field.name == schema.names[0]:
            columns.append(pa.array(np.array(names, dtype=object)[places], pa.string()))
        else:
            columns.append(table[field.name].cast(field.type))
    return pa.table(columns, schema=schema)
