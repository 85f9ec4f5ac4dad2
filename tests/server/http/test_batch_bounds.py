"""Batches that are small on the wire and large in memory are refused before they are unpacked."""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from tacit.server.http import batches
from tacit.server.http.batches import ARROW, NDJSON, read_batch
from tacit.server.problems import Refusal

from support.service import arc_plan, plain_plan


def stream(table: pa.Table, compression: str | None) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return out.getvalue()


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_what_fits_is_counted(compression: str | None):
    body = stream(pa.table({"report": [0, 1, 2, 2, 7]}), compression)
    batch = read_batch(plain_plan(), {}, body, ARROW)
    assert (batch.reports, batch.refused) == ([(0, 0, 1), (0, 1, 1), (0, 2, 2)], 1)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_the_stated_sizes_are_added_up(compression: str, monkeypatch: pytest.MonkeyPatch):
    table = pa.table({"report": np.zeros(10_000, np.int64), "group": pa.array(["arc"] * 10_000).dictionary_encode()})
    body = stream(table, compression)
    monkeypatch.setattr(batches, "MOST_BYTES", 10_000 * 12 + 5_000)
    read_batch(arc_plan(), {}, body, ARROW)
    monkeypatch.setattr(batches, "MOST_BYTES", 10_000 * 12 - 1)
    with pytest.raises(Refusal, match="may unpack to"):
        read_batch(arc_plan(), {}, body, ARROW)


def test_a_bomb_takes_no_memory():
    """A hundred megabytes of zeros are some kilobytes; in a process of its own, whose memory can be looked at."""
    body = stream(pa.table({"report": np.zeros(2**26, np.int64)}), "zstd")
    assert len(body) < 200_000
    code = (
        "import sys, resource; from tacit.server.http.batches import check_bounds; import pyarrow as pa\n"
        "body = sys.stdin.buffer.read(); before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    check_bounds(pa.py_buffer(body))\nexcept Exception as error:\n    print(type(error).__name__)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=body, capture_output=True, check=True, timeout=60)
    assert done.stdout.split() == [b"Refusal", b"True"]


def test_rows_without_bytes_are_counted_too():
    with pytest.raises(Refusal, match="rows at most"):
        read_batch(plain_plan(), {}, stream(pa.table({"report": pa.nulls(30_000_000)}), None), ARROW)


def test_too_many_different_reports_are_refused_line_by_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batches, "MOST_DIFFERENT", 5)
    monkeypatch.setattr(batches, "_LINES", 4)
    lines = [b'{"group": "arc", "report": %d}\n' % n for n in range(7)]
    assert len(read_batch(arc_plan(), {}, b"".join(lines[:5] * 3), NDJSON).reports) == 5
    with pytest.raises(Refusal, match="5 different reports at most"):
        read_batch(arc_plan(), {}, b"".join(lines), NDJSON)


def test_pieces_add_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batches, "_LINES", 3)
    body = b"\n".join(
        [b'{"report": 1}', b"", b'{"report": 2}\r{"report": 2}', b'{"report": true}', b'{"report": 1}'] * 5
    )
    batch = read_batch(plain_plan(), {}, body, NDJSON)
    assert (batch.reports, batch.refused) == ([(0, 1, 10), (0, 2, 10)], 5)
