"""The survey page where a number is asked for, and where the promise is for a set of priors."""

from __future__ import annotations

import json

from playwright.sync_api import Browser, expect

from tacit import make_plan
from tacit.plan import Plan, RecodedColumn, Recoding
from tacit.show.sentences import set_sentence

from support.browsing import Service, profile, send, shown_report
from support.places import GOLDEN


def golden(name: str) -> Plan:
    return Plan.from_dict(json.loads((GOLDEN / "client" / f"plan_{name}.json").read_text(encoding="utf-8"))["plan"])


def test_a_number_is_asked_for_in_its_range_and_only_a_report_is_sent(browser: Browser, service: Service):
    plan = golden("between")
    survey = service.open(plan)
    with profile(browser, service) as page:
        page.goto(f"/s/{survey}")
        field = page.get_by_test_id("answer-number")
        assert [field.get_attribute(name) for name in ("type", "min", "max", "inputmode")] == [
            "number", "0", "100", "decimal",
        ]  # fmt: skip
        for wrong in ("", "130", "-1"):
            field.fill(wrong)
            page.get_by_test_id("randomize").click()
            expect(page.get_by_role("alert").filter(has_text="Enter a number from 0 to 100")).to_be_visible()
            expect(page.get_by_test_id("report-json")).to_be_hidden()
        expect(page.get_by_text("That is not a number from 0 to 100.")).to_be_visible()
        assert page.evaluate("localStorage.length") == 0
        field.fill("37.0625")
        expect(page.get_by_text("That is not a number from 0 to 100.")).to_be_hidden()
        page.get_by_test_id("randomize").click()
        shown = shown_report(page)
        expect(page.get_by_text("a number near")).to_be_visible()
        assert "0625" not in page.content() + page.evaluate("JSON.stringify(localStorage)")
        send(page)
    (post,) = service.posts(survey)
    assert post.json == shown
    assert b"0625" not in post.body
    assert service.counts(survey) == {(None, shown["report"]): 1}


def test_the_promise_speaks_of_answers_near_a_number(browser: Browser, service: Service):
    survey = service.open(golden("weighted_between"))
    with profile(browser, service) as page:
        page.goto(f"/s/{survey}")
        page.get_by_test_id("group-1").check()
        expect(page.get_by_test_id("promise")).to_contain_text("someone believed to be near -0.1 with 7.69%")
        expect(page.get_by_test_id("promise-between")).to_contain_text("among -2.5, -0.1, 0.3, 1.0000001 and 7")
        field = page.get_by_test_id("answer-number")
        # The keypad for decimals has no minus sign.
        assert field.get_attribute("inputmode") == "text"
        field.fill("0.1")
        expect(page.get_by_test_id("outside")).to_be_hidden()


def test_the_page_says_for_whom_the_promise_holds(browser: Browser, service: Service):
    plan = golden("sets")
    survey = service.open(plan)
    with profile(browser, service) as page:
        page.goto(f"/s/{survey}")
        expect(page.get_by_test_id("promise-set")).to_be_hidden()
        for place, group in enumerate(plan.groups):
            page.get_by_test_id(f"group-{place}").check()
            expect(page.get_by_test_id("promise-set")).to_have_text(set_sentence(group) or "")


def test_crossed_groups_are_questions_of_their_own_and_an_age_becomes_its_group_here(
    browser: Browser, service: Service
):
    plan = golden("recoded")
    survey = service.open(plan)
    with profile(browser, service) as page:
        page.goto(f"/s/{survey}")
        expect(page.get_by_text("f / 0–17")).to_have_count(0)
        expect(page.get_by_role("group", name="How old are you?")).to_be_visible()
        page.get_by_test_id("answer-0").check()
        page.get_by_test_id("group-0-1").check()
        page.get_by_test_id("randomize").click()
        expect(page.get_by_role("alert").filter(has_text="Enter a number.")).to_be_visible()
        age = page.get_by_test_id("group-1-number")
        age.fill("-1")
        page.get_by_test_id("randomize").click()
        expect(page.get_by_test_id("report-json")).to_be_hidden()
        age.fill("43.75")
        expect(page.get_by_test_id("group-1-bin")).to_have_text("Used as: 18 and more")
        expect(page.get_by_test_id("promise")).to_contain_text("believed")
        page.get_by_test_id("randomize").click()
        shown = shown_report(page)
        assert shown["group"] == "m / 18 and more"
        assert "43.75" not in page.content() + page.evaluate("JSON.stringify(localStorage)")
        send(page)
    (post,) = service.posts(survey)
    assert b"43.75" not in post.body


def test_a_number_becomes_an_answer_on_the_device(browser: Browser, service: Service):
    prior = {"under 20": 5, "20 and more": 4, "no answer": 1}
    column = RecodedColumn(
        column="bmi", edges=(0, 20, 60), labels=("under 20", "20 and more"), missing=("99",), missing_as="no answer"
    )
    made, recoding = make_plan(prior, "histogram", 1), Recoding((column,), ())
    plan = Plan.of_groups(made.task, made.groups, "What is your BMI?", recoding=recoding)
    survey = service.open(plan)
    with profile(browser, service) as page:
        page.goto(f"/s/{survey}")
        page.get_by_test_id("answer-none-0").check()
        field = page.get_by_test_id("answer-number")
        field.fill("20.125")
        expect(page.get_by_test_id("answer-bin")).to_have_text("Used as: 20 and more")
        expect(page.get_by_test_id("answer-none-0")).not_to_be_checked()
        page.get_by_test_id("randomize").click()
        shown_report(page)
        assert "20.125" not in page.content() + page.evaluate("JSON.stringify(localStorage)")
