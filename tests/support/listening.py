"""The service on a loopback port of this process, for tests that need a real connection."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import uvicorn

from tacit.server import run
from tacit.server.storage.store import Store
from tacit.server.storage.tokens import set_token

from support.service import TOKEN


@contextmanager
def listening(store: Store, monkeypatch: pytest.MonkeyPatch, below: str = "", **more: Any) -> Iterator[str]:
    """The URL of the service as `tacit serve` runs it, in a thread; `below` is a path that its public URL ends in."""
    servers: list[uvicorn.Server] = []

    class Server(uvicorn.Server):
        def __init__(self, config: uvicorn.Config) -> None:
            super().__init__(config)
            servers.append(self)

    monkeypatch.setattr(run.uvicorn, "Server", Server)
    # This process has all tests in its memory, and keeps them out of garbage collection itself.
    monkeypatch.setattr(run, "little_garbage_collection", nullcontext)
    set_token(store, TOKEN)
    started: queue.Queue[run.Started] = queue.Queue()
    port = free_port() if below else 0
    address = run.Address(port=port, public_url=f"http://127.0.0.1:{port}{below}" if below else "", **more)
    thread = threading.Thread(target=run.serve, args=(store, address, 0, None, started.put))
    thread.start()
    try:
        url = started.get(timeout=20).url
        # Before another service of the same test is started.
        while not servers:
            time.sleep(0.01)
        yield url
    finally:
        servers[0].should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def connect(url: str) -> socket.socket:
    """A connection whose reads fail a test that would wait forever."""
    port = int(url.rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def read_all(connection: socket.socket) -> bytes:
    """All that comes until the other side closes, in whatever way."""
    data = b""
    try:
        while part := connection.recv(65536):
            data += part
    except ConnectionError:
        pass
    return data


def read_answer(connection: socket.socket) -> tuple[int, bytes]:
    """One answer: its status and body."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _more(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += _more(connection)
    return int(head.split()[1]), body


def _more(connection: socket.socket) -> bytes:
    part = connection.recv(65536)
    assert part, "the connection was closed in the middle of an answer"
    return part
