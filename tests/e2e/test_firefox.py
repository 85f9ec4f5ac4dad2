"""A second browser, with another engine and another implementation of everything the page rests on."""

from __future__ import annotations

from pathlib import Path

from support import firefox
from support.browsing import TOKEN, Service, yes_no_plan


def test_a_survey_is_answered_end_to_end_in_firefox(service: Service, tmp_path: Path):
    """By invitation, so that the hashes on the page, the audit, the randomness, the memory and blind signatures run."""
    plan = yes_no_plan("Is there another browser?", share=0.1)
    survey = service.open(plan, invited=True)
    (invitation,) = service.client.post(f"/api/surveys/{survey}/invitations", json={"count": 1}).json()["invitations"]
    text = "document.querySelector('[data-testid={}]')?.textContent".format
    with firefox.running(tmp_path) as browser:
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
