"""A second browser, with another engine and another implementation of everything the page rests on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from support import firefox
from support.browsing import TOKEN, Service, yes_no_plan


def binary() -> str:
    """The system's Firefox; without it this is skipped, except where everything must run."""
    found = shutil.which("firefox-esr") or shutil.which("firefox")
    if found is None:
        told = "Firefox is missing, so the pages are UNTESTED in it: install Debian's package firefox-esr."
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    return found


def test_a_survey_is_answered_end_to_end_in_firefox(service: Service, tmp_path: Path):
    """By invitation, so that the hashes on the page, the audit, the randomness, the memory and blind signatures run."""
    plan = yes_no_plan("Is there another browser?", share=0.1)
    survey = service.open(plan, invited=True)
    (invitation,) = service.client.post(f"/api/surveys/{survey}/invitations", json={"count": 1}).json()["invitations"]
    text = "document.querySelector('[data-testid={}]')?.textContent".format
    with firefox.running(binary(), tmp_path) as browser:
        browser.go(f"{service.url}/s/{survey}#invitation={invitation}")
        browser.click("answer-0")
        assert "at most 27.2%" in browser.run(text("promise"))
        browser.click("randomize", times=2)
        shown = browser.wait(f"JSON.parse({text('report-json')} || 'null')")
        assert service.posts(survey) == []
        browser.click("send")
        browser.wait(f"{text('status')} === 'Your report was counted.'")
        browser.run(f"sessionStorage.setItem('tacit:admin', '{TOKEN}')")
        browser.go(f"{service.url}/d/{survey}")
        browser.wait(f"{text('reports')} === '1'")
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        assert browser.complaints == []
    (post,) = service.posts(survey)
    assert {name: post.json[name] for name in shown} == shown
    assert set(post.json) - set(shown) == {"credential"}
    assert service.counts(survey).total() == 1
