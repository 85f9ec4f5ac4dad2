"""The order of rows: held until all are there, then given out in random order.

Reports that stand in the order of the answers tell more than each alone. If the answers were sorted, the place where
the reports change is found exactly, and with it every answer. A random order removes that.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from tacit.mechanism.protocol import RandomWords

#: Rows that are held in memory. More go to files without a name, which the system removes with the process.
MOST_HELD = 2**21
#: Rows given out at a time.
_ROWS = 2**19
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
        from tacit.randomize._permutation import permutation

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
