"""One row on one line: a quote that nobody closes must not make a cell of the rows after it.

The CSV format lets a quoted cell go on over several lines. In a file of answers that is nearly always a stray quote,
and what it swallows are other people's answers, which would be lost or, in a column that is kept, written out. So rows
are compared with lines, and cells that are read must not hold line breaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tacit.files.columns import InputError

_NEW_LINE, _RETURN = b"\n\r"


class CountedLines:
    """The bytes of a file as Arrow asks for them, and how many lines with something on them went by.

    >>> from io import BytesIO
    >>> file = CountedLines(BytesIO(b'a,"b"\\n\\r\\nc,d'))
    >>> [len(file.read(6)), len(file.read(9)), file.lines]
    [6, 5, 2]
    """

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._end = file, b"\n"
        self.lines, self.quotes = 0, False

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.quotes = self.quotes or b'"' in data
        # A line has something on it if it begins with neither of its ends.
        letters = np.frombuffer(self._end[-1:] + data, dtype=np.uint8)
        begins = (letters[:-1] == _NEW_LINE) & (letters[1:] != _NEW_LINE) & (letters[1:] != _RETURN)
        self.lines += int(np.count_nonzero(begins))
        self._end = data or self._end
        return data

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def one_line_each(
    batches: Iterable[pa.RecordBatch], lines: CountedLines, malformed: Sized, name: str
) -> Iterator[pa.RecordBatch]:
    """The same batches; raises before one with a line break in a cell, and at the end if rows are fewer than lines."""
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        if lines.quotes and any(map(_breaks, batch.columns)):
            raise InputError(_said(name))
        yield batch
    if lines.quotes and rows + len(malformed) < lines.lines:
        raise InputError(_said(name))


def _breaks(column: pa.Array) -> bool:
    texts = column.dictionary if pa.types.is_dictionary(column.type) else column
    return bool(pc.any(pc.match_substring_regex(texts, "[\n\r]")).as_py())


def _said(name: str) -> str:
    return (
        f"{name} has a quoted cell that goes on over several lines, as a stray quote makes it, and rows would be lost "
        "in it. Close or remove the quote; take out line breaks, or give Parquet."
    )
