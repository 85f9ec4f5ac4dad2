"""Batches from gateways: many reports in one request, as lines of JSON or an Arrow stream."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from pydantic_core import from_json

from tacit.plan.contract import Plan
from tacit.server.problems import Refusal

NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"

#: (group, report, how often), and how many reports the plan cannot have sent.
Batch = tuple[list[tuple[int, int, int]], int]


def count_batch(plan: Plan, body: bytes, media_type: str) -> Batch:
    """The reports of a batch as (group, report, how often), and how many the plan cannot have sent."""
    if media_type == NDJSON:
        return _count_lines(plan, body)
    if media_type == ARROW:
        return _count_stream(plan, body)
    raise Refusal(415, f"A batch is {NDJSON} or {ARROW}.")


def _count_lines(plan: Plan, body: bytes) -> Batch:
    """Lines of JSON. Most batches repeat a few lines, so each different one is read once.

    Arrow's reader would be as fast, but a line `null`, or one of many brackets, ends its process.
    """
    groups = {group.name: (k, group) for k, group in enumerate(plan.groups)}
    counts: Counter[tuple[int, int]] = Counter()
    refused = 0
    for line, times in Counter(body.splitlines()).items():
        if not line.strip():
            continue
        row = _object(line)
        name, report = row.get("group"), row.get("report")
        place, group = groups.get(name, (0, None)) if isinstance(name, str | None) else (0, None)
        # True and 1.0 would pass for 1.
        if group is not None and type(report) is int and group.mechanism.can_send(report):
            counts[place, report] += times
        else:
            refused += times
    return [(k, report, times) for (k, report), times in sorted(counts.items())], refused


def _object(line: bytes) -> dict[str, Any]:
    try:
        row = from_json(line)
    except ValueError as error:
        raise Refusal(422, f"The batch is not readable as {NDJSON}.") from error
    if not isinstance(row, dict):
        raise Refusal(422, f"The batch is not readable as {NDJSON}: each line must be an object.")
    return row


def _count_stream(plan: Plan, body: bytes) -> Batch:
    import pyarrow as pa

    from tacit.files.cells import Matcher, reports_of
    from tacit.files.reading import InputError

    try:
        table = pa.ipc.open_stream(pa.py_buffer(body)).read_all()
        # Offsets and indices that point outside their buffers would be followed.
        table.validate(full=True)
        columns = ["report"] if plan.groups[0].name is None else ["report", "group"]
        if any(table.column_names.count(column) != 1 for column in columns):
            raise Refusal(422, f"The batch must have, once each, the columns: {', '.join(columns)}.")
        reports = reports_of(table["report"], "report")
        names = [group.name for group in plan.groups if group.name is not None]
        groups = Matcher(names, "group")(table["group"]) if names else np.zeros(len(reports), np.int32)
    except InputError as error:
        raise Refusal(422, f"The batch cannot be read: {error}") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        # Arrow's own message may quote the data.
        raise Refusal(422, f"The batch is not readable as {ARROW}.") from error
    counted: list[tuple[int, int, int]] = []
    for k, group in enumerate(plan.groups):
        mine = reports[groups == k]
        sent, times = np.unique(mine[group.mechanism.can_send_many(mine)], return_counts=True)
        counted += [(k, report, n) for report, n in zip(sent.tolist(), times.tolist(), strict=True)]
    return counted, len(reports) - sum(n for _, _, n in counted)
