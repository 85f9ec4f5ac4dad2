"""Batches from gateways: many reports in one request, as lines of JSON or an Arrow stream.

Both are read piece by piece, so that memory stays bounded and other requests get their turn.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from pydantic_core import from_json

from tacit.exact import Integers
from tacit.plan.contract import Plan
from tacit.server.counting import Folds
from tacit.server.pending import CROWD
from tacit.server.problems import Refusal
from tacit.tally import Coverage, keep

NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
#: So many different reports of groups that are counted one by one, at most: each is a row of the database.
MOST_DIFFERENT = 250_000
#: So many lines are read at a time.
_LINES = 5_000


@dataclass(frozen=True)
class Batch:
    """What a batch adds: (group, report, how often), sums of groups that keep sums, and how many were refused."""

    reports: list[tuple[int, int, int]]
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
        self._counts: list[Counter[int]] = [Counter() for _ in plan.groups]
        self._covered: dict[int, Coverage] = {}
        self._refused = 0

    def add(self, groups: Integers, reports: Integers, times: Integers) -> None:
        counted = 0
        for k, group in enumerate(self._plan.groups):
            mine = np.flatnonzero(groups == k)
            mine = mine[group.mechanism.can_send_many(reports[mine])]
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
        more = keep(self._plan.groups[k].mechanism, reports, times)
        assert isinstance(more, Coverage)
        self._covered[k] = self._covered[k].merge(more) if k in self._covered else more

    def done(self) -> Batch:
        reports = [(k, report, times) for k, counts in enumerate(self._counts) for report, times in counts.items()]
        return Batch(sorted(reports), self._covered, self._refused)


Piece = tuple[Integers, Integers, Integers]


def _lines(plan: Plan, body: bytes) -> Iterator[Piece]:
    """Lines of JSON. Most batches repeat a few lines, so each different one of a piece is read once.

    Arrow's reader would be as fast, but a line `null`, or one of many brackets, ends its process.
    """
    places = {group.name: k for k, group in enumerate(plan.groups)}
    file = io.BytesIO(body)
    while lines := list(islice(file, _LINES)):
        rows = Counter[tuple[int, int]]()
        for line, times in Counter(lines).items():
            # A carriage return ends a line, too.
            for part in line.splitlines():
                if part.strip():
                    rows[_row(places, part)] += times
        if rows:
            array = np.array(list(rows), dtype=np.int64)
            yield array[:, 0], array[:, 1], np.array(list(rows.values()), dtype=np.int64)


def _row(places: Mapping[str | None, int], line: bytes) -> tuple[int, int]:
    """The group and the report of a line; −1 for what no plan has."""
    try:
        row: Any = from_json(line)
    except ValueError as error:
        raise Refusal(422, f"The batch is not readable as {NDJSON}.") from error
    if not isinstance(row, dict):
        raise Refusal(422, f"The batch is not readable as {NDJSON}: each line must be an object.")
    name, report = row.get("group"), row.get("report")
    place = places.get(name, -1) if isinstance(name, str | None) else -1
    # True and 1.0 would pass for 1.
    return place, report if type(report) is int and 0 <= report < 2**63 else -1


def _stream(plan: Plan, body: bytes) -> Iterator[Piece]:
    import pyarrow as pa

    from tacit.files.columns import InputError, Matcher, reports_of
    from tacit.server.arrow_bounds import check_bounds

    names = [group.name for group in plan.groups if group.name is not None]
    columns = ["report", "group"] if names else ["report"]
    try:
        buffer = pa.py_buffer(body)
        check_bounds(buffer)
        reader = pa.ipc.open_stream(buffer)
        if any(reader.schema.names.count(column) != 1 for column in columns):
            raise Refusal(422, f"The batch must have, once each, the columns: {', '.join(columns)}.")
        for batch in reader:
            # Offsets and indices that point outside their buffers would be followed.
            batch.validate(full=True)
            table = pa.table(batch)
            reports = reports_of(table["report"], "report")
            groups = Matcher(names, "group")(table["group"]) if names else np.zeros(len(reports), np.int64)
            yield np.asarray(groups, np.int64), reports, np.ones(len(reports), np.int64)
    except InputError as error:
        raise Refusal(422, f"The batch cannot be read: {error}") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        # Arrow's own message may quote the data.
        raise Refusal(422, f"The batch is not readable as {ARROW}.") from error
