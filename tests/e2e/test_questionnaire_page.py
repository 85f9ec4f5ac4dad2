"""Six questions in a browser: asked on one form, randomized once, sent as one report; and each on the dashboard."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tacit.plan import Plan, Question, block_name
from tacit.randomize import RecordRandomizer, SeededWords

from support.browsing import DESKTOP, PHONE, Service, profile, send, shown_report, sign_in, violations
from support.questions import block_of, clinic_records, named


def fits(page: Page) -> bool:
    """Whether nothing is wider than the screen."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def complaint(page: Page, text: str) -> None:
    page.get_by_test_id("randomize").click()
    expect(page.get_by_role("alert").filter(has_text=text)).to_be_visible()
    expect(page.get_by_test_id("report-json")).to_be_hidden()


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_six_questions_are_answered_changed_randomized_once_and_sent_once(
    browser: Browser, service: Service, size: dict[str, int]
):
    plan = named(f"Health, {size['width']} pixels wide")
    survey = service.open(plan)
    with profile(browser, service, viewport=size) as page:
        page.goto(f"/s/{survey}")
        expect(page.get_by_test_id("question")).to_have_text(plan.title or "")
        daily = page.get_by_text("How many cigarettes a day?")
        expect(page.get_by_test_id("asked").filter(visible=True)).to_have_count(5)
        expect(daily).to_be_hidden()
        expect(page.get_by_text("This is sent as it is, not randomized.").filter(visible=True)).to_have_count(2)
        complaint(page, "Please answer: Where do you live?")
        page.get_by_test_id("region-1").check()
        complaint(page, "Please answer: Do you smoke?")
        page.get_by_test_id("smokes-0").check()
        expect(page.get_by_role("alert").filter(has_text="Please answer")).to_have_count(0)
        expect(daily).to_be_visible()
        complaint(page, "Please answer: How many cigarettes a day?")
        expect(page.get_by_text("not asked", exact=True).filter(visible=True)).to_have_count(0)
        page.get_by_test_id("daily-2").check()
        page.get_by_test_id("smokes-1").check()
        expect(daily).to_be_hidden()
        page.get_by_test_id("hours-number").fill("17")
        complaint(page, "Enter a number from 0 to 16 first.")
        page.get_by_test_id("hours-number").fill("5.0625")
        page.get_by_test_id("mood-1").check()
        complaint(page, "Select what applies, or “None of these”")
        none, pain = page.get_by_test_id("none-5"), page.get_by_test_id("pain-box")
        none.check()
        pain.check()
        expect(none).not_to_be_checked()
        none.check()
        expect(pain).not_to_be_checked()
        page.get_by_test_id("cough-box").check()
        complaint(page, "Choose what describes you first.")
        page.get_by_test_id("group-0").check()
        expect(page.get_by_test_id("promise")).to_contain_text(
            "any combination of them, changes by at most a factor of 7.39"
        )
        expect(page.get_by_test_id("final")).to_contain_text("The draw is final")
        expect(page.get_by_test_id("outside")).to_be_hidden()
        assert page.evaluate("localStorage.length") == 0
        assert fits(page)
        page.locator("#beliefs summary").click()
        assert violations(page) == []
        page.get_by_test_id("randomize").click()
        shown = shown_report(page)
        assert set(shown) == {"key", "group", "block", "report", "public"}
        assert shown["public"] == {"region": "south"}
        asked = [question.text["en"] for question in plan.blocks[shown["block"] - 1].questions]
        for text in asked:
            expect(page.get_by_role("rowheader", name=text)).to_be_visible()
        expect(page.locator("#guess")).to_contain_text("your other answers had no part in it")
        assert "5.0625" not in page.content() + page.evaluate("JSON.stringify(localStorage)")
        assert fits(page)
        assert violations(page) == []
        send(page)
        page.reload()
        assert shown_report(page) == shown, "a second visit draws nothing"
        send(page, re.compile("already counted"))
    posts = service.posts(survey)
    assert [post.json for post in posts] == [shown, shown]
    assert b"5.0625" not in posts[0].body
    assert service.counts(survey) == {(block_name("old", shown["block"]), shown["report"]): 1}


def test_the_page_speaks_the_language_of_the_survey(browser: Browser, service: Service):
    survey = service.open(named("Gesundheit"))
    service.client.put(f"/api/surveys/{survey}/texts", json={"language": "de"}).raise_for_status()
    with profile(browser, service) as page:
        page.goto(f"/s/{survey}")
        expect(page.get_by_text("Rauchen Sie?")).to_be_visible()
        page.get_by_test_id("region-0").check()
        page.get_by_text("Ja", exact=True).click()
        page.get_by_text("bis zehn").click()
        expect(page.get_by_text("Nichts davon")).to_be_visible()
        page.get_by_test_id("randomize").click()
        expect(page.get_by_role("alert").filter(has_text="Geben Sie")).to_be_visible()


def test_one_question_in_three_languages_with_a_public_one(browser: Browser, service: Service):
    smokes = Question(
        name="smokes", answers=("yes", "no"), kind="yes-no", text={"en": "Do you smoke?", "de": "Rauchen Sie?"},
        labels={"de": ("Ja", "Nein")},
    )  # fmt: skip
    region = Question(
        name="region", answers=("Nord", "Süd"), public=True, text={"en": "Where?", "de": "Wo?"},
        labels={"en": ("North", "South")},
    )  # fmt: skip
    plan = Plan((region, smokes), (block_of((smokes,), [3, 7], 1),), "Health 2027")
    assert (region.words, smokes.words) == ("Wo?", "Do you smoke?"), "in the language of the answers"
    survey = service.open(plan)
    french = {"consent": "D'accord.", "introduction": "Bonjour."}
    texts = {
        "consent": "I agree.",
        "translations": {"fr": french},
        "organisation": "The city",
        "introduction": "Hello.",
    }
    service.client.put(f"/api/surveys/{survey}/texts", json=texts).raise_for_status()
    with profile(browser, service, viewport=PHONE) as page:
        page.goto(f"/s/{survey}")
        expect(page.locator("#brand")).to_have_text("The city")
        expect(page.get_by_test_id("language-en")).to_have_attribute("aria-pressed", "true")
        expect(page.get_by_test_id("final")).to_contain_text("The draw is final")
        page.get_by_test_id("smokes-1").check()
        page.get_by_test_id("region-0").check()
        page.get_by_test_id("agreed").check()
        page.get_by_test_id("language-de").press("Enter")
        expect(page.locator("html")).to_have_attribute("lang", "de")
        expect(page.get_by_label("Nein")).to_be_checked()
        expect(page.get_by_label("Nord")).to_be_checked()
        expect(page.get_by_test_id("introduction")).to_have_text("Hello.")
        page.get_by_test_id("language-fr").click()
        expect(page.get_by_test_id("introduction")).to_have_text("Bonjour.")
        expect(page.get_by_label("D'accord.")).to_be_checked()
        assert fits(page)
        assert violations(page) == []
        page.get_by_test_id("randomize").click()
        assert shown_report(page)["public"] == {"region": "Nord"}
        expect(page.get_by_test_id("guess-why")).to_contain_text("C'est voulu")
        page.get_by_test_id("language-en").click()
        expect(page.get_by_test_id("guess-why")).to_contain_text("This is intended")
        expect(page.locator("#code-fact")).to_be_hidden()


def test_on_a_phone_questions_can_come_one_after_the_other(browser: Browser, service: Service):
    survey = service.open(named("Step by step"))
    service.client.put(f"/api/surveys/{survey}/texts", json={"layout": "steps"}).raise_for_status()
    with profile(browser, service) as page:
        page.goto(f"/s/{survey}")
        step, go_on = page.get_by_test_id("step"), page.get_by_test_id("next")
        cards = page.get_by_test_id("asked").filter(visible=True)
        expect(step).to_have_text("Question 1 of 5")
        expect(page.get_by_test_id("randomize")).to_be_hidden()
        page.get_by_test_id("region-0").check()
        go_on.click()
        go_on.click()
        expect(page.get_by_role("alert").filter(has_text="Please answer: Do you smoke?")).to_be_visible()
        page.get_by_test_id("smokes-0").check()
        go_on.click()
        expect(step).to_have_text("Question 3 of 6")
        expect(cards).to_have_count(1)
        page.get_by_test_id("daily-0").check()
        page.get_by_test_id("back").click()
        page.get_by_test_id("smokes-1").check()
        go_on.click()
        page.get_by_test_id("hours-number").fill("3")
        page.get_by_test_id("hours-number").press("Enter")
        page.get_by_test_id("mood-0").check()
        go_on.click()
        page.get_by_test_id("pain-box").check()
        assert violations(page) == []
        go_on.click()
        expect(cards).to_have_count(0)
        page.get_by_test_id("group-1").check()
        page.get_by_test_id("randomize").click()
        shown = shown_report(page)
        send(page)
    assert service.counts(survey) == {(block_name("young", shown["block"]), shown["report"]): 1}


def test_the_dashboard_shows_every_question_and_tables_of_two(browser: Browser, service: Service):
    plan = named("A dashboard of six questions")
    survey = service.open(plan)
    with profile(browser, service, viewport=DESKTOP) as page:
        page.goto(f"/d/{survey}")
        sign_in(page)
        expect(page.get_by_text("Waiting for the first report")).to_be_visible()
    answers, groups = clinic_records(3000, 5)
    blocks, reports = RecordRandomizer(plan).randomize(answers, groups, SeededWords(5))
    rows = zip(groups, (blocks + 1).tolist(), reports.tolist(), strict=True)
    lines = [
        json.dumps({"group": group, "block": block, "report": report, "region": "south" if k % 4 else "north"})
        for k, (group, block, report) in enumerate(rows)
    ]
    service.send_batch(survey, 29, "\n".join(lines).encode())
    results: dict[str, Any] = service.get(survey, "results")
    with profile(browser, service, viewport=DESKTOP) as page:
        page.goto(f"/d/{survey}")
        sign_in(page)
        for place, title in enumerate(
            ["Do you smoke?", "How many cigarettes a day?", "How many hours of sport", "How are you?", "Which of these"]
        ):
            panel = page.get_by_test_id(f"panel-{place}")
            expect(panel.get_by_role("heading", name=title)).to_be_visible()
            assert page.get_by_test_id(f"chart-{place}").bounding_box()["height"] > 60  # type: ignore[index]
        for question in results["questions"]:
            counted = question["rows"][:1] if question["part_of"] else question["rows"]
            for row in counted:
                place = question["name"] if question["part_of"] else f"{question['name']}-{row['name']}"
                cell = page.get_by_test_id(f"estimate-{place}")
                shown = float(cell.get_attribute("data-value") or "nan")
                assert shown == pytest.approx(row["estimate"] / question["n_reports"])
        expect(page.get_by_test_id("crosstab-sentence")).to_contain_text("The answers are related")
        page.get_by_test_id("pair").select_option(label="Pain × A cough")
        expect(page.get_by_test_id("crosstab-sentence")).to_contain_text("odds ratio")
        page.get_by_test_id("of-question").select_option("hours")
        expect(page.get_by_text("The mean per person in each group")).to_be_visible()
        expect(page.get_by_test_id("public")).to_contain_text("2,250")
        page.get_by_test_id("by").select_option("region")
        expect(page.get_by_test_id("groups").get_by_role("rowheader", name="south")).to_be_visible()
        with page.expect_download() as loaded:
            page.get_by_test_id("download-png").click()
        assert loaded.value.path().stat().st_size > 20_000
        assert fits(page)
        assert violations(page) == []
        service.client.put(f"/api/surveys/{survey}/texts", json={"language": "de"}).raise_for_status()
        page.reload()
        expect(page.locator("#panel-0[lang=de]")).to_have_text("Rauchen Sie?")
        expect(page.get_by_test_id("panel-0").get_by_role("rowheader", name="Ja")).to_be_visible()
        page.set_viewport_size(PHONE)
        # Charts take their new width with the next frames.
        page.wait_for_timeout(300)
        assert fits(page)
        page.set_viewport_size(DESKTOP)
