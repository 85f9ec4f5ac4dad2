"""Batches that are small on the wire and large in memory are refused before they are unpacked."""

from __future__ import annotations

import io
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from statistics import median
from time import perf_counter, sleep
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tacit.server.http import batches
from tacit.server.http.batches import ARROW, NDJSON, read_batch
from tacit.server.problems import Refusal
from tacit.server.storage.counting import PIECE
from tacit.server.storage.store import Store, Submission, survey_id
from tacit.tally import Counts

from support.crash import wide_plan
from support.service import Client, Days, arc_plan, key, plain_plan


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


# -- large batches and others ----------------------------------------------------------------------------------------

WIDE = survey_id(wide_plan())
LARGE = 30_000


def waiting(store: Store) -> int:
    """How many pieces of batches are not in the counts yet."""
    with store.database.reading.connect() as connection:
        return int(connection.exec_driver_sql("SELECT count(*) FROM arriving").scalar() or 0)


def tallied(store: Store) -> Counter[int]:
    [counts] = store.tally(WIDE, wide_plan()).groups.values()
    counted = counts.counted()
    return Counter(dict(zip(counted.reports.tolist(), counted.counts.tolist(), strict=True)))


def seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def test_a_report_that_comes_after_a_large_batch_does_not_wait_until_it_is_counted(client: Client):
    for plan in (wide_plan(), plain_plan()):
        client.open(plan)
    body = b"".join(b'{"report": %d}\n' % (7 * n) for n in range(LARGE)) * 2
    headers = {"Idempotency-Key": key(1), "Content-Type": NDJSON}

    def send() -> Any:
        path = f"/api/surveys/{WIDE}/batches"
        return client.request("POST", path, content=body, headers=headers, admin=True).json()

    expected = Counter({7 * n: 2 for n in range(LARGE)})
    assert send() == {"status": "counted", "counted": 2 * LARGE, "refused": 0}
    assert client.report(f"/api/surveys/{survey_id(plain_plan())}", 2, 1) == "counted"
    assert waiting(client.store) > LARGE // PIECE // 2, "it waited for the batch"
    assert tallied(client.store) == expected, "the tally has all of it from the first moment"
    assert send()["status"] == "already counted"
    end = perf_counter() + 120
    while waiting(client.store) and perf_counter() < end:
        sleep(0.05)
    assert (waiting(client.store), tallied(client.store)) == (0, expected)


def test_no_step_of_a_large_batch_takes_as_long_as_the_batch_in_one_step(store: Store):
    """One step for all rows is how it was, and how long others waited."""
    store.create(wide_plan())
    rows = [(0, 5 * n, 1) for n in range(LARGE)]
    at_once = seconds(lambda: store.count([Submission(WIDE, key(1), rows)]))
    counts = Counts(np.arange(LARGE) * 5, np.ones(LARGE, np.int64))
    arriving = seconds(lambda: store.count([Submission(WIDE, key(2), (), many={0: counts})]))
    steps = [seconds(store.counting.count_piece) for _ in range(LARGE // PIECE)]
    assert (waiting(store), store.counting.count_piece()) == (0, False)
    assert tallied(store) == Counter({5 * n: 2 for n in range(LARGE)})
    assert 2 * arriving < at_once
    assert 10 * median(steps) < at_once


def test_a_batch_whose_process_was_killed_is_whole_and_counted_further_by_the_next(where: str, days: Days):
    killed = Store(where, days)
    killed.create(wide_plan())
    counts = Counts(np.arange(5 * PIECE), np.full(5 * PIECE, 3))
    batch = Submission(WIDE, key(1), (), many={0: counts})
    killed.count([batch])
    killed.counting.count_piece()
    expected = Counter(dict.fromkeys(range(5 * PIECE), 3))
    again = Store(where, days)
    assert (waiting(again), tallied(again)) == (4, expected)
    assert again.count([batch]) == ["already counted"]
    killed.change(WIDE, close=True)
    while again.counting.count_piece():
        assert tallied(again) == expected
    assert (waiting(again), tallied(again), again.n_reports(WIDE)) == (0, expected, 15 * PIECE)
    again.count([Submission(WIDE, key(2), (), many={0: counts})])
    again.delete(WIDE)
    assert waiting(again) == 0
    for each in (killed, again):
        each.close()
