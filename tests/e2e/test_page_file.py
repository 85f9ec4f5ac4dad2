"""`tacit page`: the survey page as one file, opened from the disk, which sends its report to the service alone."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from typer.testing import CliRunner

from tacit.cli.everything import app
from tacit.server.site.texts import Texts, write_texts
from tacit.server.storage.store import Store, survey_id

from support.browsing import GUILTY, WAIT, yes_no_plan
from support.listening import listening
from support.service import Days, stored

PLAN = yes_no_plan("Did you, from a file?")
SURVEY = survey_id(PLAN)


def written(folder: Path, service: str, name: str = "page.html") -> tuple[Path, str]:
    """The file that the command writes, and the hash that it says."""
    PLAN.save(folder / "plan.json")
    words = ["page", str(folder / "plan.json"), "--service", service, "--output", str(folder / name), "--json"]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0, said.output
    return folder / name, json.loads(said.stdout)["sha256"]


def test_a_page_from_a_file_randomizes_and_sends(tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch):
    store = Store(tmp_path / "data", Days())
    store.create(PLAN)
    write_texts(store, SURVEY, Texts(language="de", contact="team@survey.example"))
    with listening(store, monkeypatch, origins=("null",)) as url:
        file, digest = written(tmp_path, url)
        assert hashlib.sha256(file.read_bytes()).hexdigest() == digest
        page = browser.new_context().new_page()
        page.set_default_timeout(WAIT)
        asked, said = [], []
        page.on("request", lambda request: asked.append(request.url) if request.url.startswith("http") else None)
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(file.as_uri())
        expect(page.get_by_test_id("question"), str(said)).to_have_text("Did you, from a file?")
        expect(page.get_by_test_id("randomize")).to_contain_text("zufällig")
        page.get_by_role("radio", name=GUILTY).check()
        page.get_by_test_id("randomize").click()
        page.get_by_test_id("send").click()
        expect(page.get_by_test_id("status"), str(said)).not_to_be_empty()
        assert said == []
        assert sum(stored(store).values()) == 1
        assert {each.partition(SURVEY)[0] for each in asked} == {f"{url}/api/surveys/"}, "nothing else is asked for"
        assert "/plan" not in "".join(asked), "the plan is in the file"
        page.context.close()
    store.close()


def test_the_same_version_writes_the_same_bytes(tmp_path: Path):
    one, two = (
        written(tmp_path, "https://survey.example/", "one.html"),
        written(tmp_path, "https://survey.example", "two.html"),
    )
    assert one[1] == two[1]
    text = one[0].read_text(encoding="utf-8")
    assert "connect-src https://survey.example/;" in text
    for outside in ('src="', 'href="http', "unsafe"):
        assert outside not in text.replace('src="data:', "")
