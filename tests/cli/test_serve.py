"""`tacit serve`: what it opens, what it prints, and what it refuses. The service itself is tested elsewhere."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tacit.__main__ import main
from tacit.server import run
from tacit.server.tokens import set_token
from tacit.server.store import Store, survey_id

from support.service import TOKEN, grouped_plan, plain_plan


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The command stops as soon as it would serve; these are the configurations that it would serve with."""
    configurations: list[Any] = []

    class Server:
        def __init__(self, config: Any) -> None:
            configurations.append(config)

        def run(self, sockets: list[socket.socket]) -> None:
            assert sockets[0].getsockname()[1] > 0

    monkeypatch.setattr(run.uvicorn, "Server", Server)
    monkeypatch.delenv("TACIT_TOKEN", raising=False)
    return configurations


@pytest.fixture
def plans(tmp_path: Path) -> list[str]:
    found = []
    for plan in (plain_plan(), grouped_plan()):
        path = tmp_path / f"{plan.hash[:8]}.json"
        plan.save(path)
        found.append(str(path))
    return found


def serve(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["tacit", "serve", "--port", "0", *words])
    try:
        main()
    except SystemExit as done:
        return int(done.code or 0)
    return 0


def test_what_it_says_as_json(served, plans, tmp_path: Path, monkeypatch, capfd):
    assert serve(monkeypatch, *plans, "--data", str(tmp_path / "data"), "--json") == 0
    said = json.loads(capfd.readouterr().out)
    assert said["url"].startswith("http://127.0.0.1:")
    assert said["token"].startswith("tacit_")
    name = survey_id(plain_plan())
    assert {
        "survey": name,
        "question": "How often?",
        "page": f"{said['url']}/s/{name}",
        "dashboard": f"{said['url']}/d/{name}",
    } in said["surveys"]
    assert len(said["surveys"]) == 2


def test_the_token_is_told_once_and_can_be_replaced(served, tmp_path: Path, monkeypatch, capfd):
    def told(*words: str) -> Any:
        assert serve(monkeypatch, "--data", str(tmp_path), "--json", *words) == 0
        return json.loads(capfd.readouterr().out)["token"]

    first, again, replaced = told(), told(), told("--new-token")
    assert first
    assert again is None
    assert replaced not in (None, first)
    store = Store(tmp_path, run.today)
    assert [Administrator(store).allows(f"Bearer {token}") for token in (first, replaced)] == [False, True]
    store.close()


def test_the_token_may_come_from_the_environment(served, tmp_path: Path, monkeypatch, capfd):
    monkeypatch.setenv("TACIT_TOKEN", TOKEN)
    assert serve(monkeypatch, "--data", str(tmp_path)) == 0
    store = Store(tmp_path, run.today)
    assert Administrator(store).allows(f"Bearer {TOKEN}")
    store.close()


def test_an_empty_token_in_the_environment_lets_nobody_in(served, tmp_path: Path, monkeypatch, capfd):
    monkeypatch.setenv("TACIT_TOKEN", "")
    assert serve(monkeypatch, "--data", str(tmp_path)) != 0
    assert "at least 16 characters" in capfd.readouterr().err
    assert served == []


def test_a_second_start_leaves_surveys_as_they_are(served, plans, tmp_path: Path, monkeypatch, capfd):
    data = str(tmp_path / "data")
    assert serve(monkeypatch, plans[0], "--data", data, "--public", "--invited") == 0
    assert serve(monkeypatch, *plans, "--data", data, "--group-question", "How old?") == 0
    store = Store(data, run.today)
    first, second = (store.survey(survey_id(plan)) for plan in (plain_plan(), grouped_plan()))
    assert first is not None
    assert second is not None
    assert (first.public_results, first.invited, first.group_question) == (True, True, None)
    assert (second.public_results, second.invited, second.group_question) == (False, False, "How old?")
    store.close()


def test_the_service_writes_no_access_log_and_trusts_no_proxy_by_itself(served, tmp_path: Path, monkeypatch, capfd):
    assert serve(monkeypatch, "--data", str(tmp_path)) == 0
    assert serve(monkeypatch, "--data", str(tmp_path), "--proxy", "192.0.2.1") == 0
    assert [(each.access_log, each.proxy_headers) for each in served] == [(False, False), (False, True)]
    assert served[1].forwarded_allow_ips == "192.0.2.1"
    assert not any(each.server_header for each in served)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--rate", "-1"], "The rate must be 0 or more"),
        (["--certificate", "a.pem"], "--certificate and --private-key together"),
        (["--data", "mysql://localhost/x"], "a folder or the URL of a PostgreSQL"),
        (["--data", "postgresql://nobody@127.0.0.1:9/x"], "The database cannot be used"),
        (["missing.json"], "missing.json"),
        (["--host", "192.0.2.1"], "Cannot listen on 192.0.2.1 port 0"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(served, tmp_path: Path, monkeypatch, capfd, words, told):
    monkeypatch.chdir(tmp_path)
    assert serve(monkeypatch, *words) != 0
    said = capfd.readouterr().err
    assert told in " ".join(said.split())
    assert "Traceback" not in said
    assert served == [] or "--host" in words
