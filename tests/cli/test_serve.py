"""`tacit serve`: what it opens, what it prints, and what it refuses. The service itself is tested elsewhere."""

from __future__ import annotations

import json
import socket
import sqlite3
from contextlib import nullcontext
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tacit.__main__ import main
from tacit.plan import Plan
from tacit.server import run
from tacit.server.storage.store import Store, Survey, survey_id
from tacit.server.storage.tokens import Grant, grant_of

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
    monkeypatch.setattr(run, "little_garbage_collection", nullcontext)
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
    assert [each["survey"] for each in said["surveys"]] == [name, survey_id(grouped_plan())]
    # In the order of the plans: questions may be the same, and ids say nothing.
    assert serve(monkeypatch, *reversed(plans), "--data", str(tmp_path / "data"), "--json") == 0
    again = json.loads(capfd.readouterr().out)["surveys"]
    assert [each["survey"] for each in again] == [survey_id(grouped_plan()), name]
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
    assert [grant_of(store, f"Bearer {token}") for token in (first, replaced)] == [None, Grant("all")]
    store.close()


def test_a_second_service_on_the_same_folder_is_refused(served, plans, tmp_path: Path, monkeypatch, capfd):
    first = Store(tmp_path / "data", run.today)
    with first.database.served_once():
        assert serve(monkeypatch, plans[0], "--data", str(tmp_path / "data")) == 2
        assert "Another `tacit serve` uses the folder" in capfd.readouterr().err
        assert served == []
        assert first.surveys() == []
        # Another folder is another matter, and so are other commands on this one.
        assert serve(monkeypatch, "--data", str(tmp_path / "other")) == 0
        monkeypatch.setattr("sys.argv", ["tacit", "serve", "token", "board", "--data", str(tmp_path / "data")])
        with pytest.raises(SystemExit) as done:
            main()
        assert not done.value.code
    first.close()
    assert serve(monkeypatch, plans[0], "--data", str(tmp_path / "data")) == 0


def test_the_token_may_come_from_the_environment(served, tmp_path: Path, monkeypatch, capfd):
    monkeypatch.setenv("TACIT_TOKEN", TOKEN)
    assert serve(monkeypatch, "--data", str(tmp_path)) == 0
    store = Store(tmp_path, run.today)
    assert grant_of(store, f"Bearer {TOKEN}")
    store.close()


def test_an_empty_token_in_the_environment_lets_nobody_in(served, tmp_path: Path, monkeypatch, capfd):
    monkeypatch.setenv("TACIT_TOKEN", "")
    assert serve(monkeypatch, "--data", str(tmp_path)) != 0
    assert "at least 16 characters" in capfd.readouterr().err
    assert served == []


def survey_in(data: str, plan: Plan) -> Survey:
    store = Store(data, run.today)
    found = store.survey(survey_id(plan))
    store.close()
    assert found is not None
    return found


def test_what_is_given_for_a_survey_that_is_there_is_applied_or_refused(served, plans, tmp_path, monkeypatch, capfd):
    data = str(tmp_path / "data")
    assert serve(monkeypatch, plans[0], "--data", data, "--invited") == 0
    assert serve(monkeypatch, plans[0], "--data", data) == 0
    first = survey_in(data, plain_plan())
    assert (first.public_results, first.invited, first.group_question, first.ends) == (False, True, None, None)
    given = ["--public", "--group-question", "How old?", "--ends", "2030-01-31", "--publish-every", "50"]
    assert serve(monkeypatch, *plans, "--data", data, *given) == 0
    for plan, invited in ((plain_plan(), True), (grouped_plan(), False)):
        found = survey_in(data, plan)
        assert (found.public_results, found.invited, found.group_question) == (True, invited, "How old?")
        assert (found.ends, found.publish_every) == (date(2030, 1, 31), 50)
    assert serve(monkeypatch, plans[1], "--data", data, "--invited") != 0
    assert "is open to everybody and stays so" in " ".join(capfd.readouterr().err.split())


def test_the_service_writes_no_access_log_and_trusts_no_proxy_by_itself(served, tmp_path: Path, monkeypatch, capfd):
    assert serve(monkeypatch, "--data", str(tmp_path)) == 0
    assert [(each.access_log, each.proxy_headers) for each in served] == [(False, False)]
    assert not any(each.server_header for each in served)


def make_bad_places(folder: Path) -> None:
    """Data that cannot be served, and a text."""
    (folder / "text").write_text("a text")
    for name in ("foreign", "another", "newer", "wide"):
        (folder / name).mkdir(mode=0o700)
    (folder / "foreign" / "tacit.sqlite").write_text(
        "this is no database, but it is long enough to be taken for one" * 20
    )
    Store(folder / "newer", run.today).close()
    for name, statement in {
        "another": "CREATE TABLE recipes (cake TEXT)",
        "newer": "UPDATE alembic_version SET version_num = '9999'",
    }.items():
        connection = sqlite3.connect(folder / name / "tacit.sqlite")
        connection.execute(statement)
        connection.commit()
        connection.close()
    (folder / "wide" / "something").touch()
    (folder / "wide").chmod(0o755)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--rate", "-1"], "The rate must be 0 or more"),
        (["--certificate", "a.pem"], "--certificate and --private-key together"),
        (["--data", "mysql://localhost/x"], "a folder or the URL of a PostgreSQL"),
        (["--data", "postgresql://nobody@127.0.0.1:9/x"], "The database cannot be used"),
        (["missing.json"], "missing.json"),
        (["--host", "192.0.2.1"], "Cannot listen on 192.0.2.1 port 0"),
        (["--port", "99999"], "The port must be between 0 and 65535. Got 99999."),
        (["--proxy", "nonsense"], "A proxy must be an address, such as 127.0.0.1"),
        (["--certificate", "no.pem", "--private-key", "no.key"], "There is no file no.pem."),
        (["--certificate", "text", "--private-key", "text"], "text and text are not a certificate and its private key"),
        (["--publish-every", "1"], "Public results change by 2 reports at least"),
        (["--data", "foreign"], "foreign/tacit.sqlite cannot be used: file is not a database"),
        (["--data", "another"], "The database is not one of tacit's: it has the tables recipes."),
        (["--data", "newer"], "The database is of revision 9999; this version of tacit knows"),
        (["--data", "wide"], "Others on this machine can look into the data folder wide (mode 0755)"),
        (["--data", "text"], "The data must be a folder or the URL of a PostgreSQL. Got the file text."),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(served, tmp_path: Path, monkeypatch, capfd, words, told):
    monkeypatch.chdir(tmp_path)
    make_bad_places(tmp_path)
    assert serve(monkeypatch, *words) != 0
    out, said = capfd.readouterr()
    assert "http" not in out, "no address is told"
    assert told in " ".join(said.split())
    assert "Traceback" not in said
    assert served == [] or "--host" in words


def test_all_addresses_are_none_that_people_can_open(served, tmp_path: Path, monkeypatch, capfd):
    data = ["--data", str(tmp_path / "data"), "--host", "0.0.0.0"]
    assert serve(monkeypatch, *data) == 0
    assert "--public-url" in " ".join(capfd.readouterr().err.split())
    assert serve(monkeypatch, *data, "--public-url", "https://survey.example/") == 0
    assert "--public-url" not in capfd.readouterr().err
