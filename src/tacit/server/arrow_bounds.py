"""How much an Arrow stream would unpack to, said by its own messages, before anything of it is unpacked.

A compressed buffer starts with the length that it unpacks to; where the buffers are is in a message's metadata, a
FlatBuffer (https://arrow.apache.org/docs/format/Columnar.html#format-ipc):

    Message          2: header, a RecordBatch or a DictionaryBatch
    DictionaryBatch  1: data, a RecordBatch
    RecordBatch      0: length   2: buffers, of (offset, length)   3: compression
"""

from __future__ import annotations

import struct
from typing import Any

from tacit.server.problems import Refusal

#: Bytes and rows that a batch may unpack to.
MOST_BYTES, MOST_ROWS = 2**28, 20_000_000


def check_bounds(stream: Any) -> None:
    """Refuse a stream that would unpack to too much; whatever is not a stream is left to its reader."""
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
