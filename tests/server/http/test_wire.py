"""Slow and oversized requests over real connections, and what the service prints of them: nothing."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tacit.server.http import intake
from tacit.server.storage.store import Store, survey_id

from support.crash import ROUTES, started
from support.listening import connect, listening, read_all, read_answer
from support.service import Days, plain_plan, stored

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n"
SECONDS = 0.5


@pytest.fixture
def store(tmp_path: Path, days: Days) -> Iterator[Store]:
    opened = Store(tmp_path, days)
    opened.create(plain_plan())
    yield opened
    opened.close()


@pytest.fixture
def url(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A service with little patience."""
    monkeypatch.setattr(intake, "HEAD_SECONDS", SECONDS)
    monkeypatch.setattr(intake, "BODY_SECONDS", SECONDS)
    with listening(store, monkeypatch) as found:
        yield found


def closed_within(url: str, act: Callable[..., None], first: bytes = b"") -> tuple[float, bytes]:
    """How long the service keeps a connection on which a client acts so, and what it says."""
    with connect(url) as connection:
        if first:
            connection.sendall(first)
            assert read_answer(connection)[0] == 200
        begun = time.monotonic()
        act(connection)
        said = read_all(connection)
        return time.monotonic() - begun, said


def trickle(connection: object, data: bytes, pause: float) -> None:
    for byte in data:
        try:
            connection.sendall(bytes([byte]))  # type: ignore[attr-defined]
        except ConnectionError:
            return
        time.sleep(pause)


@pytest.mark.parametrize("first", [b"", HEALTH], ids=["at once", "after a request"])
@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\nX: ", b"\r\n\r\n\r\n"])
def test_a_head_that_does_not_end_is_given_up(url: str, first: bytes, sent: bytes):
    seconds, said = closed_within(url, lambda connection: connection.sendall(sent), first)
    assert SECONDS * 0.8 < seconds < 6
    assert said == b""


def test_a_client_that_says_nothing_is_given_up(url: str):
    seconds, said = closed_within(url, lambda connection: None)
    assert SECONDS * 0.8 < seconds < 6
    assert said == b""


def test_a_head_that_trickles_in_is_given_up(url: str):
    """Bytes that keep coming do not buy time."""
    seconds, said = closed_within(url, lambda connection: trickle(connection, HEALTH * 10, 0.03))
    assert seconds < 6
    assert said == b""


def test_blank_lines_that_trickle_in_buy_no_time(url: str):
    seconds, _ = closed_within(url, lambda connection: trickle(connection, b"\r\n" * 60, 0.05), HEALTH)
    assert seconds < 4


def test_a_body_that_trickles_in_is_given_up(url: str, store: Store):
    head = f"POST /api/surveys/{survey_id(plain_plan())}/reports HTTP/1.1\r\nHost: test\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 200\r\n\r\n"
    with connect(url) as connection:
        connection.sendall(head.encode())
        trickle(connection, b" " * 5, 0.01)
        status, body = read_answer(connection)
        assert (status, b"Too slow" in body or b"took longer" in body) == (408, True)
        assert read_all(connection) == b"", "and the connection is closed"
    assert stored(store) == {}


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\r\nHost: test\r\nX: " + b"x" * 200_000,
        b"GET /healthz HTTP/1.1\r\nHost: test\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: test\r\n" + b"X: y\r\n" * 12_000 + b"\r\n",
        b"GET /healthz?" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: test\r\n\r\n",
    ],
    ids=["endless", "large header", "many headers", "large target"],
)
@pytest.mark.parametrize("first", [b"", HEALTH], ids=["at once", "after a request"])
def test_a_large_head_is_not_answered(url: str, head: bytes, first: bytes):
    def send(connection: object) -> None:
        try:
            connection.sendall(head)  # type: ignore[attr-defined]
        except ConnectionError:
            return

    _, said = closed_within(url, send, first)
    assert not said.startswith(b"HTTP/1.1 200")


def test_a_head_of_ordinary_size_is_answered(url: str):
    with connect(url) as connection:
        connection.sendall(HEALTH[:-2] + b"Cookie: " + b"x" * 8000 + b"\r\n\r\n")
        assert read_answer(connection) == (200, b'{"status":"ok"}')


def test_requests_may_come_before_the_answers_to_those_before_them(url: str):
    with connect(url) as connection:
        connection.sendall(HEALTH * 2 + HEALTH[:10])
        time.sleep(SECONDS / 2)
        connection.sendall(HEALTH[10:-2] + b"Connection: close\r\n\r\n")
        assert read_all(connection).count(b"HTTP/1.1 200 OK") == 3


def test_a_connection_may_carry_many_requests(url: str):
    with connect(url) as connection:
        for _ in range(4):
            connection.sendall(HEALTH)
            assert read_answer(connection) == (200, b'{"status":"ok"}')
            time.sleep(SECONDS / 2)


@pytest.mark.parametrize(
    "request_",
    [
        b"\x00\xff\x00\xff\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=["bytes", "no target", "no version", "no length", "TLS"],
)
def test_what_is_not_http_is_refused(url: str, request_: bytes):
    _, said = closed_within(url, lambda connection: connection.sendall(request_))
    assert said == b"" or said.startswith(b"HTTP/1.1 4")
    assert httpx.get(f"{url}/healthz").status_code == 200


def test_the_service_does_not_say_what_it_runs_on(url: str):
    answer = httpx.get(f"{url}/healthz")
    assert "server" not in answer.headers
    assert answer.headers["content-security-policy"]


def test_nothing_about_requests_is_printed(tmp_path: Path):
    """Neither addresses, nor keys, nor reports, nor paths: not even of requests that fail."""
    with started(str(tmp_path / "data"), tmp_path) as service:
        body = {"key": "ab" * 16, "report": 1}
        assert httpx.post(f"{service.url}{ROUTES}/reports", json=body).status_code == 200
        assert httpx.post(f"{service.url}{ROUTES}/reports", json=body | {"report": "x"}).status_code == 422
        assert httpx.get(f"{service.url}/nothing-here").status_code == 404
        with connect(service.url) as connection:
            connection.sendall(b"\x00nonsense\r\n\r\n")
            read_all(connection)
        service.kill()
    printed = service.output.read_text()
    assert not re.search(r"127\.0\.0\.1|abab|nothing-here|nonsense|reports", printed), printed
