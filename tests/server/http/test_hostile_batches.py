"""Batches as no gateway should send them: never a server's error, and only what the plan can have sent is counted."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.plan import Plan
from tacit.server.http.batches import ARROW, NDJSON
from tacit.server.storage.store import Store, survey_id

from support.service import (
    Client,
    Days,
    arc_plan,
    assert_nothing_bad_stored,
    can_send,
    grouped_plan,
    key,
    serving,
)

PLANS = [grouped_plan(), arc_plan()]
FEW = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    store = Store(tmp_path_factory.mktemp("hostile"), Days())
    with serving(store) as client:
        for plan in PLANS:
            client.open(plan)
        yield client
    store.close()


fresh = itertools.count(1)


#: How many reports each store holds, as far as was seen: looking before every request as well would double the looks.
held: Counter[Store] = Counter()


@dataclass(frozen=True)
class Sent:
    """A batch that was sent: the answer, and by how many reports the tallies grew, each of which the plan can send."""

    answer: httpx.Response
    grown: int

    @property
    def sound(self) -> bool:
        """Whether it is no server's error, and the tallies grew by what the answer says."""
        counted = self.answer.json()["counted"] if self.answer.status_code == 200 else 0
        return self.answer.status_code in (200, 413, 422) and self.grown == counted


def send(target: Client, plan: Plan, body: bytes, kind: str) -> Sent:
    """Send a batch, and look at what is stored."""
    headers = {"Content-Type": kind, "Idempotency-Key": key(next(fresh))}
    path = f"/api/surveys/{survey_id(plan)}/batches"
    answer = target.request("POST", path, content=body, headers=headers, admin=True)
    before, held[target.store] = held[target.store], assert_nothing_bad_stored(target.store, *PLANS)
    return Sent(answer, held[target.store] - before)


def stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


GOOD = pa.table({"report": [0, 1, 0, 1], "group": ["young", "old", "old", "young"]})
rows = st.lists(
    st.tuples(st.sampled_from(["young", "old", "arc", "table", "", None, "nobody"]), st.integers(-2, 9)), max_size=20
)


@FEW
@given(st.sampled_from(PLANS), rows, st.booleans())
def test_what_is_counted_and_what_is_refused(target: Client, plan: Plan, rows: list[tuple[Any, int]], lines: bool):
    """Against counting by hand."""
    good = sum(can_send(plan, group, report) for group, report in rows)
    if lines:
        body, kind = b"".join(json.dumps({"group": g, "report": r}).encode() + b"\n" for g, r in rows), NDJSON
    else:
        columns = {
            "report": pa.array([r for _, r in rows], pa.int64()),
            "group": pa.array([g for g, _ in rows], pa.string()),
        }
        body, kind = stream(pa.table(columns)), ARROW
    sent = send(target, plan, body, kind)
    assert sent.sound
    assert sent.answer.json() == {"status": "counted", "counted": good, "refused": len(rows) - good}


@FEW
@given(st.binary(max_size=400), st.sampled_from([NDJSON, ARROW]))
def test_any_bytes(target: Client, body: bytes, kind: str):
    assert send(target, grouped_plan(), body, kind).sound


@st.composite
def damaged(draw: st.DrawFn, body: bytes) -> bytes:
    """A good body with some bytes changed, cut off or put in."""
    data = bytearray(body)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data) - 1))
        match draw(st.integers(0, 3)):
            case 0:
                data[place] = draw(st.integers(0, 255))
            case 1:
                data[place : place + 4] = draw(
                    st.sampled_from([b"\xff" * 4, b"\x00" * 4, b"\x7f\xff\xff\xff", b"\x01"])
                )
            case 2:
                del data[max(1, place) :]
            case _:
                data[place:place] = draw(st.binary(max_size=8))
    return bytes(data)


@settings(FEW, max_examples=150)
@given(damaged(stream(GOOD)))
def test_damaged_streams(target: Client, body: bytes):
    assert send(target, grouped_plan(), body, ARROW).sound


@settings(FEW, max_examples=150)
@given(damaged(stream(pa.table({"report": GOOD["report"], "group": GOOD["group"].dictionary_encode()}))))
def test_damaged_streams_with_dictionaries(target: Client, body: bytes):
    assert send(target, grouped_plan(), body, ARROW).sound


anything = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers(), max_size=2)


@FEW
@given(st.lists(st.dictionaries(st.sampled_from(["report", "group", "more"]), anything, max_size=3), max_size=6))
def test_lines_of_any_kind(target: Client, lines: list[dict[str, Any]]):
    assert send(target, grouped_plan(), "\n".join(map(json.dumps, lines)).encode(), NDJSON).sound


@pytest.mark.parametrize(
    "lines",
    [
        b"[]", b"1", b"null", b"{}", b'{"report"}', b"{" * 5000, b"[" * 5000, b'{"report": ' + b"[" * 3000 + b"}",
        b'{"report": 1, "report": 2, "group": "young"}', b'{"report": {"a": 1}, "group": "young"}',
        b'{"report": "1", "group": "young"}\n{"report": 1, "group": "young"}',
        b'{"report": true, "group": "young"}', b'{"report": "2026-11-15", "group": "young"}',
        b'{"report": 18446744073709551616, "group": "young"}', b'{"report": 9223372036854775808, "group": "young"}',
        b'{"report": 1e999, "group": "young"}', b'{"report": -0.0, "group": "young"}',
        b'{"report": NaN, "group": "young"}', b'{"report": 1, "group": "\xff"}', b'{"report": 1, "group": "\\ud800"}',
        b'{"report": 1, "group": "you\\u0000ng"}', b'{"report": 1, "group": 5}', b'{"report": 1, "group": ["young"]}',
        b"\xef\xbb\xbf{}", b"\x00" * 100, b"report\n1\n", b'{"report": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"report": 1, "group": "' + b"x" * 3_000_000 + b'"}',
        b'{"report": 1, "group": "young", "more": ' + b'"x"' + b"}\n" + b'{"report": 1, "group": "young", "more": 1}',
    ],
    ids=lambda lines: repr(lines[:40]),
)  # fmt: skip
def test_lines_known_to_hurt_others(target: Client, lines: bytes):
    assert send(target, grouped_plan(), lines, NDJSON).sound


def array(values: list[Any], kind: Any) -> pa.Array:
    return pa.array(values, kind)


STREAMS = {
    "no column": pa.table({"x": [1]}),
    "no rows": pa.table({"report": pa.array([], pa.int64()), "group": pa.array([], pa.string())}),
    "no columns": pa.table({}),
    "two columns of one name": pa.Table.from_arrays([pa.array([1])] * 3, ["report", "report", "group"]),
    "nulls": pa.table({"report": array([None, 1], pa.int64()), "group": array([None, "old"], pa.string())}),
    "all null": pa.table({"report": pa.nulls(3), "group": pa.nulls(3)}),
    "negative": pa.table({"report": [-1, -(2**63)], "group": ["old", "old"]}),
    "huge": pa.table({"report": array([2**63, 2**64 - 1], pa.uint64()), "group": ["old", "old"]}),
    "floats": pa.table({"report": [1.0, 1.5, float("nan"), float("inf"), -0.0], "group": ["old"] * 5}),
    "half floats": pa.table({"report": array([1.0], pa.float16()), "group": ["old"]}),
    "decimals": pa.table({"report": array([1], pa.decimal128(5, 0)), "group": ["old"]}),
    "texts": pa.table({"report": ["1", "x", "9" * 30, "", "-1", "١"], "group": ["old"] * 6}),
    "binary": pa.table({"report": array([b"1"], pa.binary()), "group": ["old"]}),
    "binary groups": pa.table({"report": [1], "group": array([b"old"], pa.binary())}),
    "large strings": pa.table({"report": [1], "group": array(["old"], pa.large_string())}),
    "string views": pa.table({"report": [1], "group": array(["old"], pa.string_view())}),
    "booleans": pa.table({"report": [True], "group": ["old"]}),
    "times": pa.table({"report": array([1], pa.timestamp("us")), "group": ["old"]}),
    "lists": pa.table({"report": [[1]], "group": ["old"]}),
    "structs": pa.table({"report": [{"a": 1}], "group": [{"b": "old"}]}),
    "maps": pa.table({"report": [1], "group": array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))}),
    "dictionary groups": pa.table({"report": [0, 1], "group": pa.array(["old", None]).dictionary_encode()}),
    "dictionary reports": pa.table({"report": pa.array([0, 1, 7]).dictionary_encode(), "group": ["old"] * 3}),
    "dictionary of lists": pa.table(
        {"report": pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([[1]])), "group": ["old"]}
    ),
    "dictionary of nulls": pa.table(
        {"report": [1], "group": pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([None], pa.string()))}
    ),
    "runs": pa.table({"report": pa.RunEndEncodedArray.from_arrays([2], [1]), "group": ["old", "old"]}),
    "runs of groups": pa.table({"report": [1, 1], "group": pa.RunEndEncodedArray.from_arrays([2], ["old"])}),
    "integers as groups": pa.table({"report": [1], "group": [5]}),
}  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("plan", PLANS, ids=["grouped", "arc"])
def test_streams_of_any_kind(target: Client, name: str, plan: Plan):
    assert send(target, plan, stream(STREAMS[name]), ARROW).sound


def test_an_index_outside_its_dictionary_is_refused(target: Client):
    broken = pa.DictionaryArray.from_arrays(pa.array([0, 99_999_999], pa.int32()), pa.array(["old"]), safe=False)
    sent = send(target, grouped_plan(), stream(pa.table({"report": [1, 1], "group": broken})), ARROW)
    assert (sent.answer.status_code, sent.grown) == (422, 0)


def test_an_offset_outside_its_buffer_is_refused():
    """In a process of its own: followed, it would read whatever is there, or end the service."""
    name, edges = "x" * 777, [edge.to_bytes(4, "little") for edge in (0, 777, 2**30)]
    before, found, after = stream(pa.table({"report": [1], "group": [name]})).rpartition(edges[0] + edges[1])
    assert found
    body = before + edges[0] + edges[2] + after
    code = f"""
import json, sys
from tacit.plan import Plan
from tacit.server.http.batches import ARROW, read_batch
from tacit.server.problems import Refusal
try:
    read_batch(Plan.from_dict(json.loads(sys.stdin.read())), {{}}, {body!r}, ARROW)
except Refusal as refused:
    print(refused.status_code, refused.detail)
"""
    words = [sys.executable, "-c", code]
    plan = json.dumps(grouped_plan().to_dict())
    done = subprocess.run(words, input=plan, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, f"422 The batch is not readable as {ARROW}.\n"), done.stderr


def test_answers_never_quote_the_batch(target: Client):
    secret = "a-very-private-answer"
    lines = json.dumps({secret: secret, "group": secret}).encode()
    for body, kind in ((lines, NDJSON), (stream(pa.table({secret: [secret]})), ARROW), (b"{" + lines, NDJSON)):
        sent = send(target, grouped_plan(), body, kind)
        assert sent.sound
        assert secret not in sent.answer.text
