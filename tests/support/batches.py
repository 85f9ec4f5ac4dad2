"""Batches of reports on the wire: lines of JSON and Arrow streams."""

from __future__ import annotations

import json
from collections.abc import Sequence

import httpx
import pyarrow as pa

from support.service import Client, key

NDJSON, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"
Row = tuple[str | None, int]


def as_lines(rows: Sequence[Row]) -> bytes:
    return b"".join(json.dumps({"group": group, "report": report}).encode() + b"\n" for group, report in rows)


def as_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def as_arrow(rows: Sequence[Row]) -> bytes:
    groups = pa.array([group for group, _ in rows], pa.string()).dictionary_encode()
    return as_stream(pa.table({"report": pa.array([report for _, report in rows], pa.int64()), "group": groups}))


def send_batch(client: Client, survey: str, body: bytes, kind: str = NDJSON, number: int = 1) -> httpx.Response:
    headers = {"Content-Type": kind, "Idempotency-Key": key(number)}
    return client.request("POST", f"{survey}/batches", content=body, headers=headers, admin=True)
