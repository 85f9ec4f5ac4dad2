"""What an operator meets: health, databases that are locked, frozen or deleted, tokens, end dates, logs."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tacit.server import collector
from tacit.server.invitations import to_text
from tacit.server.run import PAUSE, JsonLines, Seldom
from tacit.server.storage import database, vault, writer
from tacit.server.storage.store import Store, survey_id

from support import postgres as pg
from support.crash import ROUTES, started
from support.service import TOKEN, Client, Days, grouped_plan, key, plain_plan, serving, stored

PLAIN = f"/api/surveys/{survey_id(plain_plan())}"
REPORT = {"key": key(1), "report": 1}


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, days: Days) -> Iterator[Client]:
    """A service that loses its patience with the database soon."""
    for module in (writer, collector):
        monkeypatch.setattr(module, "PATIENCE", 1.0)
    monkeypatch.setattr(database, "PATIENCE", 0.5)
    monkeypatch.setattr(vault, "PATIENCE", 0.5)
    store = Store(tmp_path / "data", days)
    with serving(store, clock=iter(range(10**6)).__next__) as client:
        client.open(plain_plan())
        yield client
    store.close()


def test_a_locked_database_is_said_to_be_and_comes_back(hasty: Client, tmp_path: Path):
    locking = sqlite3.connect(tmp_path / "data" / "tacit.sqlite", isolation_level=None)
    locking.execute("BEGIN IMMEDIATE")
    for method, path, body in (("POST", f"{PLAIN}/reports", REPORT), ("GET", "/healthz", None)):
        answer = hasty.request(method, path, json=body)
        assert (answer.status_code, answer.headers.get("retry-after")) == (503, "5"), answer.text
    locking.execute("ROLLBACK")
    locking.close()
    assert hasty.get("/healthz").status_code == 200
    assert hasty.report(PLAIN, 1, 1) in ("counted", "already counted")
    assert sum(stored(hasty.store).values()) == 1


def test_a_process_that_holds_the_vault_makes_nobody_wait_for_ever(hasty: Client):
    with hasty.store.vault._locked(fcntl.LOCK_EX):
        assert hasty.post(f"{PLAIN}/reports", REPORT).status_code == 503
    assert hasty.report(PLAIN, 1, 1) in ("counted", "already counted")


def test_a_deleted_database_is_noticed(hasty: Client, tmp_path: Path):
    assert hasty.report(PLAIN, 1, 1) == "counted"
    for path in (tmp_path / "data").glob("tacit.sqlite*"):
        path.rename(path.with_name("moved-" + path.name))
    assert hasty.get("/healthz").status_code == 503
    assert hasty.post(f"{PLAIN}/reports", {"key": key(2), "report": 1}).status_code == 503, "it would be lost"
    for path in (tmp_path / "data").glob("moved-*"):
        path.rename(path.with_name(path.name.removeprefix("moved-")))
    assert hasty.get("/healthz").status_code == 200
    assert hasty.report(PLAIN, 2, 1) == "counted"


def test_a_full_database_is_not_healthy(hasty: Client):
    """SQLite says the same when a page more is not allowed as when the disk has none."""
    connection = hasty.store.database.writing.raw_connection()
    driver: Any = connection.driver_connection
    pages = driver.execute("PRAGMA page_count").fetchone()[0]
    driver.execute(f"PRAGMA max_page_count={pages}")
    connection.close()
    hasty.store.check = lambda: hasty.store.set_setting("filler", bytes(100_000))  # type: ignore[method-assign]
    assert hasty.get("/healthz").status_code == 503
    driver.execute("PRAGMA max_page_count=1000000")
    assert hasty.get("/healthz").status_code == 200


def test_head_is_answered_like_get_without_a_body(client: Client):
    for path in ("/healthz", "/", "/openapi.json", client.open(plain_plan())):
        head, full = client.request("HEAD", path), client.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == full.headers["content-length"]


# -- stopping -------------------------------------------------------------------------------------------------------


def test_a_frozen_postgresql_gives_503_and_does_not_keep_the_service_from_stopping(tmp_path: Path):
    if pg.binaries() is None:
        pytest.skip("PostgreSQL is missing; the fixture of the other tests says it louder.")
    with pg.running() as postgres, started(postgres.new_database(), tmp_path) as service:
        body = {"key": key(1), "report": 1}
        assert httpx.post(f"{service.url}{ROUTES}/reports", json=body).status_code == 200
        frozen = postgres.pids()
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            answers: list[int] = []
            asking = threading.Thread(
                target=lambda: answers.append(
                    httpx.post(f"{service.url}{ROUTES}/reports", json=body, timeout=30).status_code
                )
            )
            asking.start()
            asking.join(20)
            assert answers == [503]
            service.process.terminate()
            began = time.monotonic()
            service.process.join(30)
            assert time.monotonic() - began < 25, "it says 10 s; machines under load get more"
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)
        said = [json.loads(line) for line in service.output.read_text().splitlines() if line.startswith("{")]
        assert {"time", "level", "event", "cause"} <= set(said[0])


# -- tokens and surveys ----------------------------------------------------------------------------------------------


def with_token(client: Client, token: str, method: str, path: str, **options: Any) -> int:
    return client.request(method, path, headers={"Authorization": f"Bearer {token}"}, **options).status_code


def test_roles(client: Client):
    mine, other = client.open(plain_plan()), client.open(grouped_plan())
    name = mine.rpartition("/")[2]

    def made(role: str, survey: str | None = None) -> str:
        body = {"role": role, "survey": survey}
        answer = client.request("PUT", f"/api/tokens/{role}{'-one' if survey else ''}", json=body, admin=True)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["token"])

    tokens = [made("results"), made("results", name), made("survey", name), made("all")]
    asked = [
        ("GET", f"{mine}/results", [200, 200, 200, 200]),
        ("GET", f"{other}/results", [200, 403, 403, 200]),
        ("GET", f"{mine}/tally", [403, 403, 200, 200]),
        ("GET", f"{other}/tally", [403, 403, 403, 200]),
        ("PATCH", mine, [403, 403, 200, 200]),
        ("GET", "/api/surveys", [403, 403, 403, 200]),
        ("GET", "/api/tokens", [403, 403, 403, 200]),
        ("DELETE", other, [403, 403, 403, 200]),
        ("GET", "/metrics", [200, 200, 200, 200]),
    ]
    for method, path, expected in asked:
        bodies = {"json": {}} if method == "PATCH" else {}
        assert [with_token(client, each, method, path, **bodies) for each in tokens] == expected, (method, path)
    listed = client.get("/api/tokens", admin=True).json()
    assert {"name": "results-one", "role": "results", "survey": name} in listed
    assert not [each for each in tokens if each in json.dumps(listed)]
    assert client.request("PUT", "/api/tokens/x", json={"role": "survey"}, admin=True).status_code == 422
    assert client.request("DELETE", "/api/tokens/results", admin=True).status_code == 200
    assert with_token(client, tokens[0], "GET", f"{mine}/results") == 401
    assert client.request("DELETE", "/api/tokens/results", admin=True).status_code == 404


def test_a_token_is_revoked_in_all_processes_at_once(where: str, days: Days):
    first, second = Store(where, days), Store(where, days)
    with serving(first) as one, serving(second) as two:
        token = one.request("PUT", "/api/tokens/x", json={"role": "all"}, admin=True).json()["token"]
        assert with_token(two, token, "GET", "/api/surveys") == 200
        one.request("DELETE", "/api/tokens/x", admin=True)
        assert with_token(two, token, "GET", "/api/surveys") == 401
    first.close()
    second.close()


def test_guesses_are_limited_and_lock_out_nobody_else(tmp_path: Path, days: Days):
    store, now = Store(tmp_path / "data", days), [0.0]
    with serving(store, guesses=3, clock=lambda: now[0]) as client:
        assert [with_token(client, "wrong", "GET", "/api/surveys") for _ in range(5)] == [401, 401, 401, 429, 429]
        assert with_token(client, TOKEN, "GET", "/api/surveys") == 200, "the address may be shared with who guesses"
        for _ in range(5):
            basic = client.get("/", headers={"Authorization": "Basic dXNlcjpwYXNz"})
            assert basic.status_code == 200, "a proxy's own header is no guess"
        now[0] += 60
        assert with_token(client, "wrong", "GET", "/api/surveys") == 401
    store.close()


def test_a_survey_ends_after_its_last_day_and_is_then_closed(
    client: Client, days: Days, monkeypatch: pytest.MonkeyPatch
):
    last = days.day + timedelta(days=1)
    survey = client.open(plain_plan(), ends=last.isoformat())
    assert client.get(survey).json()["ends"] == last.isoformat()
    days.next()
    assert client.report(survey, 1, 1) == "counted"
    days.next()
    assert client.post(f"{survey}/reports", {"key": key(2), "report": 1}).status_code == 409
    assert client.get(survey).json()["open"] is False
    look = client.app.state.collector.make_rounds
    client.portal.call(look)
    assert client.get(survey).json()["closed"] is None, "the clock may have been set wrong"
    monkeypatch.setattr("tacit.server.collector._CONFIRMED", 0.0)
    client.portal.call(look)
    assert client.get(survey).json()["closed"] == days.day.isoformat()
    assert client.patch(survey, {"ends": None}, admin=True).status_code == 409
    assert sum(stored(client.store).values()) == 1


def test_a_deleted_survey_does_not_live_on_in_another_process(where: str, days: Days):
    """It had been open to everybody and public; the new one of the same plan is by invitation."""
    first, second = Store(where, days), Store(where, days)
    with serving(first) as one, serving(second) as two:
        survey = one.open(plain_plan(), public_results=True, publish_every=20)
        for number in range(25):
            assert two.report(survey, number, 1) == "counted"
        assert two.get(f"{survey}/results").json()["n_reports"] == 25
        assert two.get(f"{survey}/results", admin=True).json()["n_reports"] == 25
        one.request("DELETE", survey, admin=True)
        assert two.post(f"{survey}/reports", {"key": key(30), "report": 1}).status_code == 404
        assert one.open(plain_plan(), invited=True, public_results=True) == survey
        assert two.post(f"{survey}/reports", {"key": key(30), "report": 1}).status_code == 403
        assert two.get(survey).json()["credential_key"] == one.get(survey).json()["credential_key"] is not None
        assert two.get(f"{survey}/results", admin=True).json()["n_reports"] == 0
        assert two.get(f"{survey}/results").json()["n_reports"] == 0
        assert two.get(f"{survey}/results").json()["history"] == []
        batch = {"content": b'{"report": 2}\n' * 25, "headers": {"Content-Type": "application/x-ndjson"}}
        batch["headers"]["Idempotency-Key"] = key(31)  # type: ignore[index]
        assert two.request("POST", f"{survey}/batches", admin=True, **batch).json()["counted"] == 25
        rows = two.get(f"{survey}/results", admin=True).json()["rows"]
        assert rows == one.get(f"{survey}/results", admin=True).json()["rows"]
        again = one.post(f"{survey}/invitations", {"count": 1}, admin=True).json()["invitations"][0]
        exchange = {"invitation": again, "blinded": to_text((12345).to_bytes(256, "big"))}
        assert two.post(f"{survey}/credentials", exchange).status_code == 200
    first.close()
    second.close()


@pytest.mark.parametrize("during", ["a report", "tidying"])
def test_a_connection_that_died_silently_is_replaced(
    postgres: pg.Postgres, days: Days, monkeypatch: pytest.MonkeyPatch, during: str
):
    """A relay stops passing anything on and keeps its connections: only a fresh one leads to the database."""
    for module in (writer, collector):
        monkeypatch.setattr(module, "PATIENCE", 0.5)
    monkeypatch.setattr(writer, "_QUIET", 60.0 if during == "a report" else 0.1)
    with Relay(postgres.port) as relay:
        store = Store(postgres.new_database().replace(f":{postgres.port}/", f":{relay.port}/"), days)
        with serving(store) as client:
            survey = client.open(plain_plan())
            assert client.report(survey, 1, 1) == "counted"
            relay.go_silent()
            if during == "tidying":
                time.sleep(0.3)
            assert client.post(f"{survey}/reports", {"key": key(2), "report": 1}).status_code == 503
            assert client.get(survey).status_code in (200, 503)
            statuses = []
            # Each waits for half a second at most: seconds in all, never the minutes of a connection that is kept.
            for _ in range(80):
                statuses.append(client.post(f"{survey}/reports", {"key": key(2), "report": 1}).status_code)
                if statuses[-1] == 200:
                    break
            assert statuses[-1] == 200, statuses
            assert client.report(survey, 3, 1) == "counted"
            assert sum(stored(store).values()) == 3
        store.close()


class Relay:
    """Passes on what two sides say to each other, until it goes silent for the connections that it has."""

    def __init__(self, port: int) -> None:
        self._target, self._silent = port, threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._ended = threading.Event()
        self.port = self._listening.getsockname()[1]

    def go_silent(self) -> None:
        """Pass nothing on any more, but for new connections."""
        self._silent.set()
        self._silent = threading.Event()

    def __enter__(self) -> Relay:
        threading.Thread(target=self._take, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for each in (self._listening, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _take(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                self._open += [near, far]
                for a, b in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=(a, b, self._silent), daemon=True).start()

    def _pass(self, a: socket.socket, b: socket.socket, silent: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                if silent.is_set():
                    self._ended.wait(120)
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)


def test_a_survey_is_copied_and_deleted(client: Client):
    survey = client.open(plain_plan(), invited=True, public_results=True, publish_every=30)
    invitation = client.post(f"{survey}/invitations", {"count": 2}, admin=True).json()["invitations"][0]
    again = client.post(f"{survey}/copies", admin=True)
    assert (again.status_code, again.json()["id"]) == (201, f"{plain_plan().hash[:16]}-2")
    second = f"/api/surveys/{again.json()['id']}"
    own = {"id": "", "credential_key": "", "copy_of": ""}
    assert {**again.json(), **own} == {**client.get(survey).json(), **own}
    assert client.post(f"{second}/credentials", {"invitation": invitation, "blinded": "AAAA"}).status_code == 403
    assert client.post(f"{survey}/copies", admin=True).json()["id"].endswith("-3")
    assert client.get(f"{second}/plan").json() == client.get(f"{survey}/plan").json()
    client.request("PUT", f"{survey}/texts", json={"contact": "us"}, admin=True)
    later = client.post(f"{survey}/copies?next_wave=true", admin=True).json()
    plan = client.get(f"/api/surveys/{later['id']}/plan").json()
    assert (later["wave"], plan["wave"], plan["series"]) == (2, 2, plain_plan().hash)
    assert plan["blocks"] == client.get(f"{survey}/plan").json()["blocks"]
    assert client.get(f"/api/surveys/{later['id']}/texts").json()["contact"] == "us"
    assert client.post(f"{survey}/copies?next_wave=true", admin=True).status_code == 409
    assert client.request("DELETE", f"/api/surveys/{later['id']}", admin=True).status_code == 200
    assert client.request("DELETE", survey, admin=True).status_code == 200
    assert client.get(survey).status_code == 404
    assert len(client.store.vault.lives()) == 2
    assert client.get(second).status_code == 200
    assert client.open(plain_plan()) == survey


def test_invitations_are_counted_and_revoked(client: Client):
    survey = client.open(plain_plan(), invited=True)
    used, lost, kept = client.post(f"{survey}/invitations", {"count": 3}, admin=True).json()["invitations"]
    blinded = to_text((12345).to_bytes(256, "big"))
    exchange = {"invitation": used, "blinded": blinded}
    assert client.post(f"{survey}/credentials", exchange).status_code == 200
    assert client.get(f"{survey}/invitations", admin=True).json() == {"made": 3, "used": 1}
    revoked = client.post(f"{survey}/revocations", {"invitations": [used, lost]}, admin=True)
    assert revoked.json() == {"revoked": 1, "used": 1}
    answer = client.post(f"{survey}/credentials", {"invitation": lost, "blinded": blinded})
    assert (answer.status_code, answer.json()["detail"]) == (409, "This invitation was revoked.")
    assert client.post(f"{survey}/credentials", {"invitation": kept, "blinded": blinded}).status_code == 200
    assert client.post(f"{survey}/revocations", {"invitations": ["AAAA"]}, admin=True).status_code == 422


def test_a_report_of_another_plan_is_refused_where_it_says_so(client: Client):
    survey = client.open(plain_plan())
    wrong = client.post(f"{survey}/reports", REPORT | {"plan": grouped_plan().hash})
    assert (wrong.status_code, wrong.json()["detail"]) == (422, "This report was made with another plan.")
    assert client.report(survey, 1, 1, plan=plain_plan().hash) == "counted"
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": key(9)}
    path = f"{survey}/batches?plan={grouped_plan().hash}"
    assert client.request("POST", path, content=b'{"report": 1}\n', headers=headers, admin=True).status_code == 422


# -- reading once, logging seldom ------------------------------------------------------------------------------------


def test_a_plan_that_many_ask_for_at_once_is_read_once(client: Client, monkeypatch: pytest.MonkeyPatch):
    survey = client.open(plain_plan())
    service, made = client.app.state.collector, []
    service._ready.clear()

    class Slow(collector.ReadySurvey):
        def __init__(self, *words: Any) -> None:
            made.append(1)
            time.sleep(0.1)
            super().__init__(*words)

    monkeypatch.setattr(collector, "ReadySurvey", Slow)

    async def many() -> list[Any]:
        import asyncio

        return await asyncio.gather(*(service.ready(survey.rpartition("/")[2]) for _ in range(40)))

    assert len({id(each) for each in client.portal.call(many)}) == 1
    assert len(made) == 1


def test_the_log_says_when_and_why_and_not_too_often():
    now = [0.0]
    seldom, lines = Seldom(lambda: now[0]), []
    for _ in range(100):
        now[0] += PAUSE / 40
        record = logging.LogRecord("tacit.server", logging.ERROR, "", 0, "The database failed.", (), None)
        record.cause = "disk full"
        if seldom.filter(record):
            lines.append(json.loads(JsonLines().format(record)))
    assert [line.get("skipped", 0) for line in lines] == [0, 39, 39]
    assert {line["cause"] for line in lines} == {"disk full"}
    assert lines[0]["time"].endswith("+00:00")


def test_the_files_are_private(tmp_path: Path, days: Days):
    store = Store(tmp_path / "data", days)
    store.create(plain_plan())
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "data").rglob("*")}
    files = {path.name for path in (tmp_path / "data").rglob("*") if path.is_file()}
    assert {mode for name, mode in modes.items() if name in files} == {0o600}
    assert {mode for name, mode in modes.items() if name not in files} == {0o700}
    store.close()
    (tmp_path / "data").chmod(0o750)
    with pytest.raises(ValueError, match="chmod 700"):
        Store(tmp_path / "data", days)
    Store(tmp_path / "data", days, allow_wide=True).close()


def test_a_read_only_database_is_said_to_be(tmp_path: Path):
    """In a process of its own: root may write what is read-only, so it is SQLite that is told to say no."""
    folder = tmp_path / "data"
    Store(folder, Days()).close()
    code = (
        "import sys, sqlalchemy as sa; from tacit.server.storage import database; configure = database._configure\n"
        "def shut(engine, begin):\n"
        "    configure(engine, begin)\n"
        "    sa.event.listen(engine, 'connect', lambda c, _: c.execute('PRAGMA query_only=ON').close())\n"
        "database._configure = shut\n"
        f"sys.argv = ['tacit', 'serve', '--data', {str(folder)!r}, '--port', '0']\n"
        "from tacit.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "cannot be used: attempt to write a readonly database" in " ".join(done.stderr.split())
