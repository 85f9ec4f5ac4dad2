"""What one sender may take: requests in flight, connections; and which names, origins and tokens are taken."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import time
from pathlib import Path

import httpx
import pytest

from tacit.server.http import intake
from tacit.server.storage.store import Store, survey_id
from tacit.server.storage.vault import VaultError

from support.listening import listening
from support.service import TOKEN, Days, key, plain_plan, serving

PLAIN = f"/api/surveys/{survey_id(plain_plan())}"


def test_one_connection_has_few_requests_in_flight(tmp_path: Path, days: Days, monkeypatch: pytest.MonkeyPatch):
    """Uvicorn would take them all: ten connections that send and do not read took gigabytes."""
    store = Store(tmp_path / "data", days)
    store.create(plain_plan())
    with listening(store, monkeypatch) as url:
        target = httpx.URL(url)
        request = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
        with socket.create_connection((target.host, target.port)) as connection:
            connection.settimeout(10)
            connection.sendall(request * 10)
            answered = b""
            while answered.count(b"HTTP/1.1 200") < 10:
                answered += connection.recv(65536)
        sent = 0
        with socket.create_connection((target.host, target.port)) as connection:
            connection.settimeout(5)
            with contextlib.suppress(OSError):
                while sent < 2_000:
                    connection.sendall(request * 100)
                    sent += 1
        assert sent < 2_000
        assert httpx.get(f"{url}/livez").status_code == 200
    store.close()


def test_one_address_has_so_many_connections(tmp_path: Path, days: Days, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(intake, "MOST_CONNECTIONS", 5)
    store = Store(tmp_path / "data", days)

    async def ask(url: httpx.URL) -> tuple[asyncio.StreamWriter | None, bool]:
        try:
            reader, writer = await asyncio.open_connection(url.host, url.port)
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            return writer, b"200 OK" in await asyncio.wait_for(reader.read(100), 5)
        except OSError:
            return None, False

    async def several(url: httpx.URL) -> list[bool]:
        asked = [await ask(url) for _ in range(8)]
        for writer, _ in asked:
            if writer is not None:
                writer.close()
        return [answered for _, answered in asked]

    with listening(store, monkeypatch) as url:
        assert asyncio.run(several(httpx.URL(url))) == [True] * 5 + [False] * 3
        time.sleep(0.2)
        assert asyncio.run(several(httpx.URL(url)))[:5] == [True] * 5, "connections that ended do not count"
    store.close()


def test_the_host_is_that_of_the_public_url(tmp_path: Path, days: Days):
    store = Store(tmp_path / "data", days)
    with serving(store, public_url="https://survey.example/x/") as client:
        client.open(plain_plan())
        for host, status in (("survey.example", 200), ("SURVEY.example", 200), ("evil.example", 421), ("", 421)):
            assert client.get("/", headers={"Host": host}).status_code == status, host
            assert client.get("/livez", headers={"Host": host}).status_code == 200
    store.close()


def test_a_page_of_a_named_origin_may_send_and_no_other(tmp_path: Path, days: Days):
    store = Store(tmp_path / "data", days)
    with serving(store, origins=["https://pages.example"]) as client:
        client.open(plain_plan())
        for origin, status in (("https://pages.example", 200), ("https://evil.example", 403)):
            browser = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
            body = {"key": key(1), "report": 1}
            sent = client.post(f"{PLAIN}/reports", body, headers=browser)
            assert sent.status_code == status
            assert sent.headers.get("access-control-allow-origin") == (origin if status == 200 else None)
            asked = client.request("OPTIONS", f"{PLAIN}/reports", headers=browser)
            assert (asked.status_code == 204) is (status == 200)
        browser["Origin"] = "https://pages.example"
        assert client.get(PLAIN, headers=browser).headers["access-control-allow-origin"] == "https://pages.example"
        managed = client.request("PATCH", PLAIN, json={}, headers=browser, admin=True)
        assert managed.status_code == 200 or managed.status_code == 403
        assert "access-control-allow-origin" not in client.request("OPTIONS", f"{PLAIN}/tally", headers=browser).headers
    store.close()


def test_live_and_ready_are_told_apart(tmp_path: Path, days: Days, monkeypatch: pytest.MonkeyPatch):
    store = Store(tmp_path / "data", days)
    with serving(store, clock=iter(range(10**6)).__next__) as client:
        assert [client.get(path).status_code for path in ("/livez", "/readyz", "/healthz")] == [200] * 3

        def full() -> None:
            raise VaultError("No space left on device")

        monkeypatch.setattr(store.vault, "check", full)
        assert [client.get(path).status_code for path in ("/livez", "/readyz", "/healthz")] == [200, 503, 503]
        monkeypatch.undo()
        client.app.state.draining = True
        assert [client.get(path).status_code for path in ("/livez", "/readyz", "/healthz")] == [200, 503, 200]
        numbers = client.get("/metrics", admin=True).text
        for name in (
            "tacit_http_seconds_bucket",
            "tacit_queue 0.0",
            "tacit_commit_seconds",
            "tacit_build_info{version=",
        ):
            assert name in numbers
        assert "tacit_unavailable_total 3.0" in numbers
    store.close()


def test_what_administrators_did_is_written_down(tmp_path: Path, days: Days, caplog: pytest.LogCaptureFixture):
    store = Store(tmp_path / "data", days)
    with caplog.at_level(logging.INFO, "tacit.audit"), serving(store) as client:
        survey = client.open(plain_plan())
        client.report(survey, 1, 1)
        client.get(f"{survey}/tally", admin=True)
        client.patch(survey, {"open": False}, admin=True)
        client.request("DELETE", "/api/tokens/none", admin=True)
    told = [record.audit for record in caplog.records if record.name == "tacit.audit"]
    assert told == [
        {"who": "administrator", "did": "POST /api/surveys", "status": 201},
        {"who": "administrator", "did": f"PATCH {survey}", "status": 200},
        {"who": "administrator", "did": "DELETE /api/tokens/none", "status": 404},
    ]
    assert TOKEN not in json.dumps(told)
    store.close()


def test_no_request_is_written_down_by_opentelemetry(tmp_path: Path, days: Days, monkeypatch: pytest.MonkeyPatch):
    """FastAPI records every request wherever a tracer was set up for the process."""
    asked = []
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: asked.append(1) or object())
    store = Store(tmp_path, days)
    with serving(store) as client:
        assert client.get("/livez").status_code == 200
    store.close()
    assert not asked
