"""A relay between browsers and the service that keeps every byte: the network log that no browser can leave out of."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Sent:
    """One request as it was on the wire."""

    method: str
    target: str
    head: bytes
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def headers(self) -> dict[str, str]:
        """The headers, names in lower case."""
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


class Wire:
    """Listens on a free port of its own and passes everything to the service's port and back."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wire")
        self._sent: list[bytearray] = []
        self._answered: list[bytearray] = []
        self._relays: set[asyncio.Task[None]] = set()
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def mark(self) -> int:
        """A place in the log; what is sent over connections opened later, as by a fresh profile, comes after it."""
        return len(self._sent)

    def requests(self, since: int = 0) -> list[Sent]:
        """All requests since a mark, in order on each connection."""
        return [request for stream in self._sent[since:] for request in _parsed(bytes(stream))]

    def sent(self) -> bytes:
        """Everything that browsers sent, byte for byte."""
        return b"\n".join(map(bytes, list(self._sent)))

    def answered(self) -> bytes:
        """Everything that the service answered, byte for byte."""
        return b"\n".join(map(bytes, list(self._answered)))

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._relays.add(task)
        try:
            await self._relay(reader, writer)
        finally:
            self._relays.discard(task)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        service_reader, service_writer = await asyncio.open_connection("127.0.0.1", self._to_port)
        sent, answered = bytearray(), bytearray()
        self._sent.append(sent)
        self._answered.append(answered)
        try:
            await asyncio.gather(_pump(reader, service_writer, sent), _pump(service_reader, writer, answered))
        finally:
            for each in (writer, service_writer):
                each.close()

    async def _close(self) -> None:
        self._server.close()
        for task in self._relays:
            task.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray) -> None:
    """Pass bytes on until either side ends."""
    try:
        while data := await reader.read(2**16):
            kept += data
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    writer.close()


def _parsed(stream: bytes) -> list[Sent]:
    """The requests in what one connection sent."""
    found = []
    while stream:
        head, end, rest = stream.partition(b"\r\n\r\n")
        assert end, "a request was cut short"
        method, target, _ = head.split(b"\r\n")[0].decode("ascii").split(" ")
        request = Sent(method, target, head, b"")
        assert "transfer-encoding" not in request.headers
        size = int(request.headers.get("content-length", "0"))
        found.append(Sent(method, target, head, rest[:size]))
        stream = rest[size:]
    return found
