"""`tacit page`: the survey page as one file, opened from the disk, which sends its report to the service alone."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from typer.testing import CliRunner

from tacit.cli.everything import app
from tacit.plan import Plan
from tacit.server.site.texts import Texts, write_texts
from tacit.server.storage.store import Store, survey_id

from support import firefox
from support.browsing import GUILTY, PHONE, WAIT, yes_no_plan
from support.listening import listening
from support.questions import named
from support.service import Days, stored

PLAN = yes_no_plan("Did you, from a file?")
SURVEY = survey_id(PLAN)


def written(
    folder: Path, service: str, *more: str, name: str = "page.html", plan: Plan = PLAN
) -> tuple[Path, dict[str, Any]]:
    """The file that the command writes, and what it says."""
    plan.save(folder / "plan.json")
    words = ["page", str(folder / "plan.json"), "--service", service, "--output", str(folder / name), "--json", *more]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0, said.output
    return folder / name, json.loads(said.stdout)


def test_a_page_from_a_file_randomizes_and_sends(tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch):
    store = Store(tmp_path / "data", Days())
    store.create(PLAN)
    write_texts(store, SURVEY, Texts(language="de", contact="team@survey.example"))
    with listening(store, monkeypatch, origins=("null",)) as url:
        file, said_of_it = written(tmp_path, url)
        assert hashlib.sha256(file.read_bytes()).hexdigest() == said_of_it["sha256"]
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
        written(tmp_path, "https://survey.example/", name="one.html"),
        written(tmp_path, "https://survey.example", name="two.html"),
    )
    assert one[1]["sha256"] == two[1]["sha256"]
    text = one[0].read_text(encoding="utf-8")
    assert "connect-src https://survey.example/;" in text
    for outside in ('src="', 'href="http', "unsafe"):
        assert outside not in text.replace('src="data:', "")


#: Answers of a questionnaire, by test id.
ANSWERED = ("region-1", "smokes-1", "mood-1", "cough-box", "group-0")


@pytest.mark.parametrize("engine", ["chromium", "firefox"])
def test_a_questionnaire_from_a_file_is_sent(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, engine: str
):
    plan = named("Several questions, from a file")
    store = Store(tmp_path / "data", Days())
    store.create(plan)
    with listening(store, monkeypatch, origins=("null",)) as url:
        file, _ = written(tmp_path, url, plan=plan)
        if engine == "chromium":
            page = request.getfixturevalue("browser").new_context(viewport=PHONE).new_page()
            page.set_default_timeout(WAIT)
            page.goto(file.as_uri())
            for each in ANSWERED:
                page.get_by_test_id(each).check()
            page.get_by_test_id("hours-number").fill("5")
            page.get_by_test_id("randomize").click()
            page.get_by_test_id("send").click()
            expect(page.get_by_test_id("status")).to_have_text("Your report was counted.")
            page.context.close()
        else:
            with firefox.running(tmp_path) as browser:
                browser.go(file.as_uri())
                for each in ANSWERED:
                    browser.click(each)
                box = "document.querySelector('[data-testid=hours-number]')"
                browser.run(f"({box}.value = '5', {box}.dispatchEvent(new Event('input', {{ bubbles: true }})))")
                browser.click("randomize")
                browser.click("send")
                browser.wait(
                    "document.querySelector('[data-testid=status]')?.textContent === 'Your report was counted.'"
                )
                assert browser.complaints == []
        assert sum(stored(store).values()) == 1
    store.close()


# -- signed -----------------------------------------------------------------------------------------------------------


def verified(file: Path, *more: str) -> tuple[int, dict[str, str | None]]:
    """What `tacit verify-page` finds wrong."""
    said = CliRunner().invoke(app, ["verify-page", str(file), "--json", *more])
    return said.exit_code, {each["what"]: each["wrong"] for each in json.loads(said.stdout)["findings"]}


def test_a_signed_page_is_the_owners_and_the_one_that_tacit_writes(tmp_path: Path):
    secret, public = tmp_path / "owner.pem", tmp_path / "owner.pub"
    for words in (
        ["genpkey", "-algorithm", "ed25519", "-out", str(secret)],
        ["pkey", "-in", str(secret), "-pubout", "-out", str(public)],
    ):
        subprocess.run(["openssl", *words], check=True, capture_output=True)
    file, said = written(tmp_path, "https://survey.example/", "--sign-with", str(secret))
    signature = Path(said["signature"])
    key = ("--key", str(public))
    assert verified(file, *key) == (0, {"plan": None, "page": None, "signature": None})
    by_openssl = ["pkeyutl", "-verify", "-pubin", "-inkey", str(public), "-rawin", "-in", str(file), "-sigfile"]
    subprocess.run(["openssl", *by_openssl, str(signature)], check=True, capture_output=True)

    text = file.read_text(encoding="utf-8")
    leaking = file.with_name("leaking.html")
    leaking.write_text(text.replace("connect-src https://survey.example/", "connect-src *"), encoding="utf-8")
    assert verified(leaking, *key)[0] == 1
    shutil.copy(signature, tmp_path / "leaking.html.sig")
    code, wrong = verified(leaking, *key)
    assert code == 1
    assert "writes another page" in str(wrong["page"])
    assert "not the one that the owner" in str(wrong["signature"])

    elsewhere, _ = written(tmp_path, "https://thief.example/", name="elsewhere.html")
    assert verified(elsewhere) == (0, {"plan": None, "page": None})
    shutil.copy(signature, tmp_path / "elsewhere.html.sig")
    assert verified(elsewhere, *key)[1]["signature"] is not None
    written(tmp_path, "https://survey.example/")
    assert not signature.exists(), "the signature of an earlier page is not left beside another"

    for code_of, words in (
        (2, ["page", str(tmp_path / "plan.json"), "--service", "https://a.example", "--sign-with", str(public)]),
        (2, ["verify-page", str(file), "--key", str(secret)]),
        (2, ["verify-page", "https://survey.example/", "--key", str(public)]),
    ):
        assert CliRunner().invoke(app, words).exit_code == code_of, words
