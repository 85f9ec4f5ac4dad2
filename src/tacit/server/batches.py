"""Batches from gateways: many reports in one request, as lines of JSON or an Arrow stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tacit.plan import Plan
from tacit.server.problems import Refusal

NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"


def count_batch(plan: Plan, body: bytes, media_type: str) -> tuple[list[tuple[int, int, int]], int]:
    """The reports of a batch as (group, report, how often), and how many the plan cannot have sent."""
    from tacit.engines.reading import InputError
    from tacit.engines.tallies import tally_table

    table = _table(body, media_type)
    try:
        tally = tally_table(plan, table)
    except InputError as error:
        raise Refusal(422, f"The batch cannot be read: {error}") from error
    return [
        (k, report, times)
        for k, group in enumerate(plan.groups)
        if group.name in tally.groups
        for report, times in _pairs(tally.groups[group.name])
    ], tally.refused


def _pairs(counts: Any) -> Sequence[tuple[int, int]]:
    return list(zip(counts.reports.tolist(), counts.counts.tolist(), strict=True))


def _table(body: bytes, media_type: str) -> Any:
    import pyarrow as pa
    import pyarrow.json

    try:
        if media_type == ARROW:
            return pa.ipc.open_stream(pa.py_buffer(body)).read_all()
        if media_type == NDJSON:
            if not body.strip():
                return pa.table({"report": pa.array([], pa.int64()), "group": pa.array([], pa.string())})
            options = pyarrow.json.ParseOptions(newlines_in_values=False)
            return pyarrow.json.read_json(pa.py_buffer(body), parse_options=options)
    except (pa.ArrowException, OSError, ValueError) as error:
        # Arrow's own message may quote the data.
        raise Refusal(422, f"The batch is not readable as {media_type}.") from error
    raise Refusal(415, f"A batch is {NDJSON} or {ARROW}.")
