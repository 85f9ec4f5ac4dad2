"""Rows on their way out: held until all are there, put in random order, written as CSV, Parquet, JSON lines or Arrow.

Reports that stand in the order of the answers tell more than each alone. If the answers were sorted, the place where
the reports change is found exactly, and with it every answer. A random order removes that.
"""

from __future__ import annotations

import csv
import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tacit.disk import atomic
from tacit.files.columns import InputError, with_stamp_column
from tacit.files.reading import STANDARD, Format, format_of
from tacit.mechanism.protocol import RandomWords

#: Rows that are held in memory. More go to files without a name, which the system removes with the process.
MOST_HELD = 2**21
#: Rows given out at a time; words drawn at a time for a permutation, which takes one for a row, or several.
_ROWS, _WORDS = 2**19, 2**16
#: Files to which rows are dealt, a power of two up to 256.
_BUCKETS = 64


class HeldRows:
    """Rows on their way out. `tables` gives them out when all were added: in random order, or in theirs if no `words`.

    Up to `MOST_HELD` rows are permuted in memory, each permutation equally likely. More are dealt to 64 files, each row
    to each with the same chance, and the files are permuted one after the other; so all permutations are equally likely
    again (Rao 1961, Sandelius 1962), and a file that is still too large is dealt once more. Each row is written and
    read once more for every factor of 64.

    >>> from tacit.randomize import SeededWords
    >>> with HeldRows(pa.schema([("x", pa.int64())]), SeededWords(1)) as held:
    ...     held.add(pa.table({"x": [1, 2, 3]}))
    ...     [sorted(table["x"].to_pylist()) for table in held.tables()]
    [[1, 2, 3]]
    """

    def __init__(self, schema: pa.Schema, words: RandomWords | None, folder: str | Path | None = None) -> None:
        self._schema, self._words, self._folder = schema, words, folder
        self._waiting: list[pa.Table] = []
        self._files: list[tuple[BinaryIO, Any]] = []
        self._counts = np.zeros(1 if words is None else _BUCKETS, dtype=np.int64)
        self._stack = ExitStack()

    def __enter__(self) -> HeldRows:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, table: pa.Table) -> None:
        """Hold these rows."""
        self._waiting.append(table)
        if self._files or sum(map(len, self._waiting)) > MOST_HELD:
            for each in self._waiting:
                self._deal(each)
            self._waiting = []

    def tables(self) -> Iterator[pa.Table]:
        """All rows, once."""
        if not self._files:
            yield from self._in_memory(self._waiting)
            return
        for (file, writer), count in zip(self._files, self._counts, strict=True):
            writer.close()
            file.seek(0)
            batches = pa.ipc.open_stream(file)
            if self._words is None:
                for batch in batches:
                    yield pa.Table.from_batches([batch])
            elif count <= MOST_HELD:
                yield from self._in_memory([batches.read_all()])
            else:
                with HeldRows(self._schema, self._words, self._folder) as smaller:
                    for batch in batches:
                        smaller.add(pa.Table.from_batches([batch]))
                    yield from smaller.tables()
            file.close()

    def _in_memory(self, tables: list[pa.Table]) -> Iterator[pa.Table]:
        if self._words is None or not tables:
            yield from tables
            return
        # One chunk: picking rows from many takes long.
        table = pa.concat_tables(tables).combine_chunks()
        order = permutation(len(table), self._words)
        for start in range(0, len(table), _ROWS):
            yield table.take(pa.array(order[start : start + _ROWS]))

    def _deal(self, table: pa.Table) -> None:
        """Write each row to one of the files, drawn for it alone."""
        if not self._files:
            for _ in self._counts:
                file = self._stack.enter_context(tempfile.TemporaryFile(dir=self._folder))  # noqa: SIM115 – it does
                self._files.append((file, pa.ipc.new_stream(file, self._schema)))
        if self._words is None:
            self._files[0][1].write_table(table)
            return
        bucket = self._words.draw(len(table), 8) % _BUCKETS
        counts = np.bincount(bucket, minlength=_BUCKETS)
        self._counts += counts
        dealt = table.take(pa.array(np.argsort(bucket, kind="stable")))
        for (_, writer), start, count in zip(self._files, np.cumsum(counts) - counts, counts, strict=True):
            writer.write_table(dealt.slice(start, count))


def permutation(count: int, words: RandomWords) -> NDArray[np.int32]:
    """A permutation of 0, …, count − 1, each with probability 1/count!, exactly: Fisher and Yates, from the last down.

    A number below m comes from a word u of 32 bits as ⌊u·m / 2³²⌋. The words with u·m mod 2³² < 2³² mod m are rejected,
    so that each number has equally many left (Lemire 2019).

    >>> from tacit.randomize import SeededWords
    >>> sorted(permutation(5, SeededWords(1)).tolist())
    [0, 1, 2, 3, 4]
    """
    order, left = np.arange(count, dtype=np.int32), count
    while left > 1:
        left = swaps()(order, left, words.draw(min(left, _WORDS), 32).astype(np.uint64))
    return order


@cache
def swaps() -> Callable[[Any, int, Any], int]:
    """Compiled: fix the places below `left` from the last down, as far as the words reach; how many are left."""
    import numba

    @numba.njit(cache=True, nogil=True)
    def swap(order: Any, left: Any, words: Any) -> Any:
        for word in words:
            if left < 2:
                break
            size = np.uint64(left)
            product = word * size
            if (product & np.uint64(2**32 - 1)) < np.uint64(2**32) % size:
                continue
            chosen = np.int64(product >> np.uint64(32))
            left -= 1
            order[left], order[chosen] = order[chosen], order[left]
        return left

    return swap


Write = Callable[[pa.Table], None]


@contextmanager
def holding(
    target: str | Path | Write,
    schema: pa.Schema,
    format: str | None,
    words: RandomWords | None,
    last: Callable[[], None] | None = None,
) -> Iterator[HeldRows]:
    """Rows for a path, for "-" or for a function that takes tables, an empty one first. They are written when the block
    has succeeded: in random order, or in theirs if there are no words. A target that cannot be written is refused
    before. `last` is called as late as can be before the rows are there: when they are on the disk under another name.
    """
    if callable(target):
        with HeldRows(schema, words) as held:
            yield held
            for table in (schema.empty_table(), *held.tables()):
                target(table)
        return
    check_target(target, schema, format)
    folder = None if str(target) == STANDARD else Path(target).resolve().parent
    with HeldRows(schema, words, folder) as held:
        yield held
        with writing(target, schema, format, last) as write:
            for table in held.tables():
                write(table)


def check_target(target: str | Path, schema: pa.Schema, format: str | None = None) -> None:
    """Raise unless tables of this schema can be written there."""
    kind = format_of(target, format)
    nested = [column.name for column in schema if pa.types.is_nested(column.type)]
    if nested and kind in ("csv", "jsonl"):
        raise InputError(f"A {kind} file cannot hold lists or structs. Got the column '{nested[0]}'.")
    if str(target) != STANDARD and not Path(target).resolve().parent.is_dir():
        raise InputError(f"There is no folder {Path(target).parent} to write {Path(target).name} to.")


@contextmanager
def writing(
    target: str | Path, schema: pa.Schema, format: str | None = None, last: Callable[[], None] | None = None
) -> Iterator[Write]:
    """Open a path or "-" for tables of one schema. A path gets its file only if the block, and then `last`, succeeds;
    what goes to "-" is there at once, so `last` comes first.
    """
    check_target(target, schema, format)
    kind = format_of(target, format)
    if str(target) == STANDARD:
        if last is not None:
            last()
        with _writer(sys.stdout.buffer, schema, kind, stream=True) as write:
            yield write
        sys.stdout.buffer.flush()
        return
    with atomic(target) as draft:
        with open(draft, "wb") as file, _writer(file, schema, kind) as write:
            yield write
        if last is not None:
            last()


@contextmanager
def _writer(file: BinaryIO, schema: pa.Schema, kind: Format, stream: bool = False) -> Iterator[Write]:
    if kind == "parquet":
        with pq.ParquetWriter(file, schema) as parquet:
            yield parquet.write_table
    elif kind == "arrow":
        with (pa.ipc.new_stream if stream else pa.ipc.new_file)(file, schema) as arrow:
            yield arrow.write_table
    elif kind == "csv":
        full = with_stamp_column(schema.empty_table(), schema).schema
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(full.names)
        file.write(line.getvalue().encode())
        with pa_csv.CSVWriter(file, full, write_options=pa_csv.WriteOptions(include_header=False)) as rows:
            yield lambda table: rows.write_table(with_stamp_column(table, schema))
    else:
        yield lambda table: _write_jsonl(file, with_stamp_column(table, schema))


def _write_jsonl(file: BinaryIO, table: pa.Table) -> None:
    for batch in table.to_batches():
        if not batch.num_rows:
            continue
        parts: list[Any] = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            parts += [("{" if not parts else ",") + json.dumps(name, ensure_ascii=False) + ":", _json_cells(column)]
        lines = pc.binary_join_element_wise(*parts, "}\n", "").cast(pa.large_string())
        file.write(lines.buffers()[2].slice(0, pc.sum(pc.binary_length(lines)).as_py()))


def _json_cells(column: pa.Array) -> pa.Array:
    """Each cell as JSON text; numbers directly, everything else once for each different cell."""
    if pa.types.is_integer(column.type):
        return pc.fill_null(column.cast(pa.string()), "null")
    codes = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    cells = codes.dictionary
    plain = pa.types.is_floating(cells.type) or pa.types.is_boolean(cells.type) or pa.types.is_integer(cells.type)
    texts = [_json_text(cell) for cell in (cells if plain else cells.cast(pa.string())).to_pylist()]
    return pc.fill_null(pa.array(texts, pa.string()).take(codes.indices), "null")


def _json_text(cell: Any) -> str:
    is_number = not isinstance(cell, float) or abs(cell) < float("inf")
    return json.dumps(cell, ensure_ascii=False) if is_number else "null"
