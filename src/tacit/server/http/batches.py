"""Batches from gateways: many reports in one request, as lines of JSON or an Arrow stream.

Both are read piece by piece, so that memory stays bounded and other requests get their turn.
"""

from __future__ import annotations

import io
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from pydantic_core import from_json

from tacit.exact import Integers
from tacit.plan import Plan
from tacit.server.problems import Refusal
from tacit.server.storage.counting import PIECE, Folds
from tacit.server.storage.vault import CROWD
from tacit.tally import Counts, Coverage

NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
#: The most different reports of groups that are counted one by one: each becomes a row of the database.
MOST_DIFFERENT = 500_000
#: Lines, and rows of an Arrow stream, that are read at a time.
_LINES, _ROWS = 5_000, 50_000


@dataclass(frozen=True)
class Batch:
    """What a batch adds: (group, report, how often), the same as arrays for groups with many different reports, sums
    of groups that keep sums, and how many were refused.
    """

    reports: list[tuple[int, int, int]]
    many: Mapping[int, Counts] = field(default_factory=dict)
    covered: Mapping[int, Coverage] = field(default_factory=dict)
    refused: int = 0


def read_batch(plan: Plan, folds: Folds, body: bytes, media_type: str) -> Batch:
    """A batch, as far as the plan can have sent it."""
    if media_type == NDJSON:
        pieces = _lines(plan, body)
    elif media_type == ARROW:
        pieces = _stream(plan, body)
    else:
        raise Refusal(415, f"A batch is {NDJSON} or {ARROW}.")
    adding = _Adding(plan, folds)
    for groups, reports, times in pieces:
        adding.add(groups, reports, times)
    return adding.done()


class _Adding:
    """Adds up pieces: arrays of groups (−1 for an unknown one), reports (−1 for none) and how often each came."""

    def __init__(self, plan: Plan, folds: Folds) -> None:
        self._plan, self._folds = plan, folds
        self._counts: list[Counter[int]] = [Counter() for _ in plan.public_cells for _ in plan.groups]
        self._covered: dict[int, Coverage] = {}
        self._refused = 0

    def add(self, groups: Integers, reports: Integers, times: Integers) -> None:
        counted = 0
        for k in range(len(self._counts)):
            mine = np.flatnonzero(groups == k)
            mine = mine[self._plan.groups[k % len(self._plan.groups)].mechanism.can_send_many(reports[mine])]
            if not len(mine):
                continue
            counted += int(times[mine].sum())
            if k in self._folds and (k in self._covered or times[mine].sum() >= CROWD):
                self._cover(k, np.ascontiguousarray(reports[mine]), np.ascontiguousarray(times[mine]))
            else:
                sent, where = np.unique(reports[mine], return_inverse=True)
                often = np.bincount(where, times[mine]).astype(np.int64)
                self._counts[k].update(dict(zip(sent.tolist(), often.tolist(), strict=True)))
        self._refused += int(times.sum()) - counted
        if sum(map(len, self._counts)) > MOST_DIFFERENT:
            raise Refusal(413, f"A batch may hold {MOST_DIFFERENT:,} different reports at most. Send it in parts.")

    def _cover(self, k: int, reports: Integers, times: Integers) -> None:
        more = self._plan.groups[k % len(self._plan.groups)].mechanism.keep(reports, times).folded()
        self._covered[k] = self._covered[k].merge(more) if k in self._covered else more

    def done(self) -> Batch:
        many = {k: _arrays(counts) for k, counts in enumerate(self._counts) if len(counts) > PIECE}
        few = ((k, counts) for k, counts in enumerate(self._counts) if k not in many)
        reports = [(k, report, times) for k, counts in few for report, times in counts.items()]
        return Batch(sorted(reports), many, self._covered, self._refused)


def _arrays(counts: Counter[int]) -> Counts:
    """Reports, ascending, and how often each came; by calls that leave other threads their turn."""
    reports, times = (np.fromiter(each, np.int64, len(counts)) for each in (counts.keys(), counts.values()))
    order = np.argsort(reports)
    return Counts(reports[order], times[order])


Piece = tuple[Integers, Integers, Integers]


def _lines(plan: Plan, body: bytes) -> Iterator[Piece]:
    """Lines of JSON. Most batches repeat a few lines, so each different one of a piece is read once.

    Arrow's reader would be as fast, but a line `null`, or one of many brackets, ends its process.
    """
    file = io.BytesIO(body)
    while lines := list(islice(file, _LINES)):
        rows = Counter[tuple[int, int]]()
        for line, times in Counter(lines).items():
            # A carriage return ends a line, too.
            for part in line.splitlines():
                if part.strip():
                    rows[_row(plan, part)] += times
        if rows:
            array = np.array(list(rows), dtype=np.int64)
            yield array[:, 0], array[:, 1], np.array(list(rows.values()), dtype=np.int64)


def _row(plan: Plan, line: bytes) -> tuple[int, int]:
    """The group and the report of a line; −1 for what no plan has."""
    try:
        row: Any = from_json(line)
    except ValueError as error:
        raise Refusal(422, f"The batch is not readable as {NDJSON}.") from error
    if not isinstance(row, dict):
        raise Refusal(422, f"The batch is not readable as {NDJSON}: each line must be an object.")
    name, block, report = row.get("group"), row.get("block"), row.get("report")
    known = isinstance(name, str | None) and (block is None or type(block) is int)
    place = plan.counted_as.get((name, block), -1) if known else -1
    public = [row.get(question) for question in plan.public_questions]
    cell = plan.public_cells.get(tuple(map(str, public)), -1) if None not in public else -1
    place = -1 if place < 0 or cell < 0 else cell * len(plan.groups) + place
    # True and 1.0 would pass for 1.
    return place, report if type(report) is int and 0 <= report < 2**63 else -1


def _stream(plan: Plan, body: bytes) -> Iterator[Piece]:
    import pyarrow as pa

    from tacit.files.columns import InputError, Matcher, reports_of

    names, blocks = (_different(place[k] for place in plan.counted_as) for k in (0, 1))
    columns = ["report", *(["group"] if names else []), *(["block"] if blocks else []), *plan.public_questions]
    answers = [_different(cell[k] for cell in plan.public_cells) for k in range(len(plan.public_questions))]
    try:
        buffer = pa.py_buffer(body)
        check_bounds(buffer)
        reader = pa.ipc.open_stream(buffer)
        if any(reader.schema.names.count(column) != 1 for column in columns):
            raise Refusal(422, f"The batch must have, once each, the columns: {', '.join(columns)}.")
        for table in _slices(reader):
            reports = reports_of(table["report"], "report")
            groups = Matcher(names, "group")(table["group"]) if names else np.zeros(len(reports), np.int64)
            placed = np.asarray(groups, np.int64)
            if blocks:
                # `plan.groups` has all groups of the first block, then those of the second.
                drawn = np.asarray(Matcher(blocks, "block")(table["block"]), np.int64)
                placed = np.where((placed < 0) | (drawn < 0), -1, drawn * max(1, len(names)) + placed)
            cell = np.zeros(len(reports), np.int64)
            for name, known in zip(plan.public_questions, answers, strict=True):
                given = np.asarray(Matcher(known, name)(table[name]), np.int64)
                cell = np.where((cell < 0) | (given < 0), -1, cell * len(known) + given)
            placed = np.where((placed < 0) | (cell < 0), -1, cell * len(plan.groups) + placed)
            yield placed, reports, np.ones(len(reports), np.int64)
    except InputError as error:
        raise Refusal(422, f"The batch cannot be read: {error}") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        # Arrow's own message may quote the data.
        raise Refusal(422, f"The batch is not readable as {ARROW}.") from error


def _slices(reader: Any) -> Iterator[Any]:
    """Tables of some rows each."""
    import pyarrow as pa

    for batch in reader:
        # Offsets and indices that point outside their buffers would be followed.
        batch.validate(full=True)
        for start in range(0, batch.num_rows, _ROWS):
            yield pa.table(batch.slice(start, _ROWS))


def _different(labels: Iterable[Any]) -> list[Any]:
    return [label for label in dict.fromkeys(labels) if label is not None]


# -- bounds of an Arrow stream ----------------------------------------------------------------------------------------

#: Bytes and rows that a batch may unpack to.
MOST_BYTES, MOST_ROWS = 2**28, 20_000_000


def check_bounds(stream: Any) -> None:
    """Refuse a stream that would unpack to too much, before any of it is unpacked; no stream is left to its reader.

    A compressed buffer starts with the length that it unpacks to; where the buffers are is in a message's metadata, a
    FlatBuffer (https://arrow.apache.org/docs/format/Columnar.html#format-ipc):

        Message          2: header, a RecordBatch or a DictionaryBatch
        DictionaryBatch  1: data, a RecordBatch
        RecordBatch      0: length   2: buffers, of (offset, length)   3: compression
    """
    import pyarrow as pa

    size = rows = 0
    for message in pa.ipc.MessageReader.open_stream(stream):
        if message.type not in ("record batch", "dictionary"):
            continue
        try:
            n_rows, n_bytes = _unpacked(bytes(message.metadata), message.body, message.type == "dictionary")
        except (struct.error, IndexError) as error:
            raise ValueError("A message of the stream is not readable.") from error
        size, rows = size + n_bytes, rows + n_rows
        if size > MOST_BYTES or rows > MOST_ROWS:
            raise Refusal(
                413, f"A batch may unpack to {MOST_BYTES:,} bytes and {MOST_ROWS:,} rows at most. Send it in parts."
            )


def _unpacked(metadata: bytes, body: Any, dictionary: bool) -> tuple[int, int]:
    """Rows and bytes that a message unpacks to."""
    batch = _Table.root(metadata).table(2)
    if dictionary:
        batch = batch.table(1)
    n_rows = batch.integer(0)
    sizes = [length for _, length in batch.pairs(2)]
    if batch.has(3):
        packed = memoryview(body) if body is not None else memoryview(b"")
        stated = [struct.unpack_from("<q", packed, offset)[0] for offset, length in batch.pairs(2) if length]
        # −1 says that a buffer is not compressed after all.
        sizes += [max(0, size) for size in stated]
    if n_rows < 0 or any(size < 0 for size in sizes):
        raise IndexError
    return n_rows, sum(sizes)


class _Table:
    """A table of a FlatBuffer: fields by their number, at offsets that a vtable lists."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data, self._place = data, place
        vtable = place - self._read("<i", place)
        size = self._read("<H", vtable)
        self._offsets = [self._read("<H", vtable + k) for k in range(4, size, 2)]

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def _read(self, kind: str, place: int) -> int:
        if place < 0:
            raise IndexError
        return int(struct.unpack_from(kind, self._data, place)[0])

    def has(self, field: int) -> bool:
        return field < len(self._offsets) and self._offsets[field] > 0

    def integer(self, field: int) -> int:
        return self._read("<q", self._place + self._offsets[field]) if self.has(field) else 0

    def _followed(self, field: int) -> int:
        place = self._place + self._offsets[field]
        return place + self._read("<I", place)

    def table(self, field: int) -> _Table:
        return _Table(self._data, self._followed(field))

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """A vector of pairs of 64-bit integers."""
        if not self.has(field):
            return []
        start = self._followed(field)
        count = self._read("<I", start)
        if count * 16 > len(self._data):
            raise IndexError
        values = struct.unpack_from(f"<{2 * count}q", self._data, start + 4)
        return list(zip(values[::2], values[1::2], strict=True))
