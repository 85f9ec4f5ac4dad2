"""Limits: how often an address may send, how large a request may be, and how long it may take."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tacit.server.http import intake
from tacit.server.http.intake import RateLimit, network
from tacit.server.storage.store import Store

from support.service import TOKEN, Client, Days, key, plain_plan, serving, stored

Headers = list[tuple[bytes, bytes]]


class Clock:
    """Seconds that the test counts."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_an_address_that_sends_too_often_is_told_when_to_come_back(tmp_path: Path, days: Days):
    store, clock = Store(tmp_path, days), Clock()
    with serving(store, rate=6, clock=clock) as client:
        survey = client.open(plain_plan())
        for number in range(6):
            assert client.report(survey, number, 0) == "counted"
        for path, body in (
            ("reports", {"key": key(9), "report": 0}),
            ("credentials", {"invitation": "", "blinded": ""}),
        ):
            refused = client.post(f"{survey}/{path}", body)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "10")
            assert refused.json() == {
                "type": "about:blank",
                "title": "Too Many Requests",
                "status": 429,
                "detail": "Too many submissions from this address. Try later.",
            }
        assert client.get(survey).status_code == 200, "reading is not limited"
        clock.now += 9.9
        assert client.post(f"{survey}/reports", {"key": key(9), "report": 0}).headers["retry-after"] == "1"
        clock.now += 0.2
        assert client.report(survey, 9, 0) == "counted"
        assert client.post(f"{survey}/reports", {"key": key(10), "report": 0}).status_code == 429
        clock.now += 3600
        assert [client.report(survey, number, 0) for number in range(10, 16)] == ["counted"] * 6
        assert client.post(f"{survey}/reports", {"key": key(16), "report": 0}).status_code == 429
        assert sum(stored(store).values()) == 13
    store.close()


def test_waiting_as_long_as_told_is_enough():
    clock = Clock()
    limit = RateLimit(7, clock)
    for _ in range(50):
        while wait := limit.wait("192.0.2.1"):
            clock.now += wait
    assert clock.now - 1000 < (50 - 7) * 60 / 7 + 50


def test_addresses_are_limited_one_by_one():
    limit = RateLimit(1, Clock())
    assert [limit.wait(address) for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1")] == [0, 0, 60]
    # An IPv6 user has a whole /64.
    assert [limit.wait(f"2001:db8::{n}") for n in (1, 2)] == [0, 60]
    assert limit.wait("2001:db8:0:1::1") == 0


@pytest.mark.parametrize("address", ["", "unix:", "not:an:address", "fe80::1%eth0", "::ffff:192.0.2.1"])
def test_any_address_is_an_address(address: str):
    assert isinstance(network(address), str)


def test_few_addresses_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(intake, "_ADDRESSES", 10)
    limit = RateLimit(1, Clock())
    for number in range(100):
        limit.wait(f"192.0.2.{number}")
    assert len(limit._buckets) == 10
    assert limit.wait("192.0.2.99") == 60, "the latest are remembered"
    assert limit.wait("192.0.2.1") == 0, "the longest silent are forgotten"


def test_a_rate_of_zero_limits_nobody():
    limit = RateLimit(0, Clock())
    assert not any(limit.wait("192.0.2.1") for _ in range(1000))
    assert not limit._buckets


# -- size -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["reports", "credentials", "batches", "invitations", ""])
def test_strangers_may_send_little(client: Client, path: str):
    survey = client.open(plain_plan())
    for content in (b" " * (intake.BODY_BYTES + 1), iterated(b" " * 1000, 17)):
        refused = client.request("POST", f"{survey}/{path}", content=content)
        assert refused.status_code == 413
        assert refused.headers["connection"] == "close"


def iterated(part: bytes, times: int) -> Any:
    async def parts() -> Any:
        for _ in range(times):
            yield part

    return parts()


def test_a_body_of_exactly_the_limit_is_read(client: Client):
    survey = client.open(plain_plan())
    body = b'{"key": "' + key(1).encode() + b'", "report": 1'
    padded = body + b" " * (intake.BODY_BYTES - len(body) - 1) + b"}"
    assert client.request("POST", f"{survey}/reports", content=padded).json() == {"status": "counted"}


def test_the_administrator_may_send_more(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(intake, "BATCH_BYTES", 100_000)
    survey = client.open(plain_plan())
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": key(1)}
    lines = b'{"report": 1}\n' * 7000
    assert client.request("POST", f"{survey}/batches", content=lines, headers=headers, admin=True).status_code == 200
    refused = client.request("POST", f"{survey}/batches", content=lines + lines, headers=headers, admin=True)
    assert (refused.status_code, refused.json()["detail"]) == (
        413,
        "The body of this request may have 100,000 bytes at most.",
    )


@pytest.mark.parametrize("stated", [b"-1", b"+5", b"1e3", b"0x10", b"9" * 400, b"\xb2", b""])
def test_a_nonsensical_length_is_refused(client: Client, stated: bytes):
    answers = ask(client, [(b"content-length", stated)], [])
    assert answers[0]["status"] == 413


# -- time -----------------------------------------------------------------------------------------------------------


def ask(client: Client, headers: Headers, messages: list[dict[str, Any] | float], path: str = "/healthz") -> list[Any]:
    """What the app answers to ASGI messages that come after the given pauses; they say that they are JSON."""
    if all(name != b"content-type" for name, _ in headers):
        headers = [*headers, (b"content-type", b"application/json")]
    answered: list[Any] = []
    waiting = iter(messages)

    async def receive() -> dict[str, Any]:
        for message in waiting:
            if isinstance(message, dict):
                return message
            await asyncio.sleep(message)
        await asyncio.sleep(60)
        raise AssertionError("nobody should wait so long")

    async def send(message: Any) -> None:
        answered.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": headers,
        "client": ("192.0.2.7", 1), "server": ("test", 80),
    }  # fmt: skip

    async def run() -> None:
        await asyncio.wait_for(client.app(scope, receive, send), 30)

    client.portal.call(run)
    return answered


def part(data: bytes) -> dict[str, Any]:
    return {"type": "http.request", "body": data, "more_body": True}


def test_a_body_that_trickles_in_is_given_up(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(intake, "BODY_SECONDS", 0.3)
    trickle: list[dict[str, Any] | float] = [step for _ in range(100) for step in (part(b" "), 0.02)]
    for headers in ([(b"content-length", b"2000")], [(b"transfer-encoding", b"chunked")]):
        start, body = ask(client, headers, trickle)
        assert start["status"] == 408
        assert b"longer than 0.3 seconds" in body["body"]
        assert (b"connection", b"close") in start["headers"]
        assert any(name == b"content-security-policy" for name, _ in start["headers"])


def test_the_administrator_has_more_time(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(intake, "BODY_SECONDS", 0.1)
    monkeypatch.setattr(intake, "BATCH_SECONDS", 20.0)
    survey = client.open(plain_plan())
    headers = [
        (b"authorization", f"Bearer {TOKEN}".encode()), (b"content-type", b"application/x-ndjson"),
        (b"idempotency-key", key(1).encode()), (b"transfer-encoding", b"chunked"),
    ]  # fmt: skip
    last = {"type": "http.request", "body": b'{"report": 1}\n', "more_body": False}
    start, *_ = ask(client, headers, [part(b'{"report": 1}\n'), 0.4, last], f"{survey}/batches")
    assert start["status"] == 200
    assert sum(stored(client.store).values()) == 2


def test_a_client_that_leaves_gets_no_answer_and_counts_nothing(client: Client):
    survey = client.open(plain_plan())
    body = b'{"key": "' + key(1).encode() + b'", "report": 1}'
    messages: list[dict[str, Any] | float] = [part(body), {"type": "http.disconnect"}]
    assert (
        ask(
            client,
            [(b"content-length", b"1000"), (b"content-type", b"application/json")],
            messages,
            f"{survey}/reports",
        )
        == []
    )
    assert stored(client.store) == {}
