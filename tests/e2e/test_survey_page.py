"""The survey page in a real browser: what it sends, when it refuses, and what it remembers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Playwright, Route, expect

from tacit import Histogram, Survey
from tacit.plan import Plan, PlanError, contract_hash
from tacit.server.storage.store import survey_id

from support.browsing import (
    CONFLICT,
    GUILTY,
    INNOCENT,
    WAIT,
    Service,
    Watch,
    choose,
    planned,
    profile,
    randomize,
    send,
    shown_report,
    sign_in,
    yes_no_plan,
)

REFUSED = "nothing was sent"


# -- the promise ------------------------------------------------------------------------------------------------------


def test_the_page_asks_the_question_and_makes_the_promise_of_the_plan(browser: Browser, service: Service):
    survey = service.open(yes_no_plan("Is the promise shown?", share=0.1))
    with profile(browser, service) as page:
        page.goto(f"/s/{survey}")
        expect(page.get_by_test_id("question")).to_have_text("Is the promise shown?")
        expect(page.get_by_test_id("promise")).to_contain_text("with 10% is believed with at most 27.2%")
        promise = service.client.get(f"/api/surveys/{survey}/results").json()["groups"][0]["promise"]
        shown = page.get_by_test_id("promise").inner_text()
    assert shown == promise[0].upper() + promise[1:]


def test_an_unanswered_question_is_asked_again_and_nothing_is_drawn(browser: Browser, service: Service):
    survey = service.open(yes_no_plan("Is an answer needed?"))
    with profile(browser, service) as page:
        page.goto(f"/s/{survey}")
        page.get_by_test_id("randomize").click()
        expect(page.get_by_role("alert").filter(has_text="Choose an answer first.")).to_be_visible()
        expect(page.get_by_test_id("report-json")).to_be_hidden()
        assert page.evaluate("localStorage.length") == 0


# -- tampered plans ---------------------------------------------------------------------------------------------------


def altered(plan: Plan) -> dict[str, Any]:
    """A plan in which everybody who is guilty says so: the table gives the answer away."""
    data = plan.to_dict()
    mechanism = data["blocks"][0]["groups"][0]["mechanism"]
    mechanism["rows"] = [[mechanism["denominator"], "0"], ["0", mechanism["denominator"]]]
    return data


def rehashed(data: dict[str, Any]) -> dict[str, Any]:
    return data | {"hash": contract_hash(data)}


def answer_with(page: Page, pattern: str, data: dict[str, Any]) -> None:
    """Answer requests to an address with this JSON, as somebody on the way could."""

    def reply(route: Route) -> None:
        route.fulfill(status=200, content_type="application/json", body=json.dumps(data))

    page.route(re.compile(pattern), reply)


def put_in_place(page: Page, service: Service, survey: str, data: dict[str, Any]) -> None:
    """Pretend that a survey of this plan exists at the address that its hash names."""
    address = data["hash"][:16]
    facts = service.client.get(f"/api/surveys/{survey}").json() | {"id": address, "plan": data["hash"]}
    answer_with(page, "/plan$", data)
    answer_with(page, "/texts$", {"language": "en"})
    answer_with(page, f"/api/surveys/{address}$", facts)
    shown = service.client.get(f"/s/{survey}")
    headers = {"Content-Security-Policy": shown.headers["content-security-policy"]}
    page.route(
        re.compile(f"/s/{address}$"),
        lambda route: route.fulfill(status=200, content_type="text/html", headers=headers, body=shown.text),
    )


def expect_refusal(page: Page, service: Service, survey: str, address: str, reason: str) -> None:
    """The page refuses for this reason, offers nothing to click, keeps nothing and sends nothing."""
    page.goto(f"/s/{address}")
    expect(page.get_by_test_id("refusal")).to_contain_text(re.compile(reason))
    expect(page.get_by_test_id("refusal")).to_contain_text(REFUSED)
    for name in ("randomize", "send", "answer-0", "answer-1"):
        expect(page.get_by_test_id(name)).to_be_hidden()
    assert page.evaluate("localStorage.length") == 0
    assert service.posts(survey) == service.posts(address) == []


def test_an_altered_plan_is_refused_by_its_hash(browser: Browser, service: Service):
    plan = yes_no_plan("Is the hash checked?")
    survey = service.open(plan)
    with profile(browser, service) as page:
        answer_with(page, "/plan$", altered(plan))
        expect_refusal(page, service, survey, survey, "hash")


def test_a_plan_that_breaks_its_promise_is_refused_although_all_else_fits(browser: Browser, service: Service):
    plan = yes_no_plan("Is the promise checked?")
    survey = service.open(plan)
    tampered = rehashed(altered(plan))
    with profile(browser, service) as page:
        put_in_place(page, service, survey, tampered)
        expect_refusal(page, service, survey, tampered["hash"][:16], "promise is not kept")


def test_the_page_draws_the_line_at_the_very_integer_where_it_is(browser: Browser, service: Service):
    """Units of 2⁻³² are moved in one row of the table: the page refuses the first step that breaks the promise."""
    plan = yes_no_plan("Is the promise checked in exact integers?")
    survey = service.open(plan)
    kept = next(units for units in range(10_000) if not keeps_its_promise(moved(plan, units + 1)))
    assert keeps_its_promise(moved(plan, kept))
    with profile(browser, service) as page:
        put_in_place(page, service, survey, moved(plan, kept))
        page.goto(f"/s/{moved(plan, kept)['hash'][:16]}")
        expect(page.get_by_test_id("answer-0")).to_be_visible()
    broken = moved(plan, kept + 1)
    with profile(browser, service) as page:
        put_in_place(page, service, survey, broken)
        expect_refusal(page, service, survey, broken["hash"][:16], "promise is not kept")


def moved(plan: Plan, units: int) -> dict[str, Any]:
    """The plan with some units of probability moved in the second row; what is derived from the table left out."""
    data = plan.to_dict()
    (group,) = data["blocks"][0]["groups"]
    for derived in ("levels", "certificate"):
        del group[derived]
    first, second = (int(cell) for cell in group["mechanism"]["rows"][1])
    group["mechanism"]["rows"][1] = [str(first + units), str(second - units)]
    return rehashed(data)


def keeps_its_promise(data: dict[str, Any]) -> bool:
    try:
        Plan.from_dict(data)
    except PlanError:
        return False
    return True


def test_another_valid_plan_is_refused_at_this_address(browser: Browser, service: Service):
    plan, other = yes_no_plan("Is this the plan?"), yes_no_plan("Or is it another one?", share=0.5, epsilon=3)
    survey = service.open(plan)
    facts = service.client.get(f"/api/surveys/{survey}").json()
    with profile(browser, service) as page:
        answer_with(page, "/plan$", other.to_dict())
        expect_refusal(page, service, survey, survey, "not the one that the survey names")
    with profile(browser, service) as page:
        answer_with(page, "/plan$", other.to_dict())
        answer_with(page, f"/api/surveys/{survey}$", facts | {"plan": other.hash})
        expect_refusal(page, service, survey, survey, "not the one that the address names")


def test_what_is_not_a_plan_is_refused(browser: Browser, service: Service):
    survey = service.open(yes_no_plan("Is anything taken for a plan?"))
    with profile(browser, service) as page:
        answer_with(page, "/plan$", {"hash": "0" * 64})
        expect_refusal(page, service, survey, survey, "[Nn]ot a plan")


# -- one report per profile -------------------------------------------------------------------------------------------


def test_a_second_visit_sends_the_same_report_again_and_it_counts_once(browser: Browser, service: Service):
    survey = service.open(yes_no_plan("Does it count once?"))
    with profile(browser, service) as page:
        shown = randomize(page, survey, 0)
        send(page, "Your report was counted.")
        tally = service.get(survey, "tally")
        second = page.context.new_page()
        second.goto(f"/s/{survey}")
        assert shown_report(second) == shown
        expect(second.get_by_test_id("answer-0")).to_be_hidden()
        send(second, "Your report was already counted. It counts once.")
    first, again = service.posts(survey)
    assert first.body == again.body
    assert first.json == shown
    assert service.get(survey, "tally") == tally
    assert service.counts(survey).total() == 1


def test_a_reload_before_sending_shows_the_same_report(browser: Browser, service: Service):
    survey = service.open(yes_no_plan("Does a reload draw again?"))
    with profile(browser, service) as page:
        shown = randomize(page, survey, 1)
        assert service.posts(survey) == []
        for _ in range(3):
            page.reload()
            assert shown_report(page) == shown
        send(page, "Your report was counted.")
    (post,) = service.posts(survey)
    assert post.json == shown


def test_two_tabs_of_one_profile_have_one_report(browser: Browser, service: Service):
    """Both ask before either has answered: the second shows what the first has drawn, and says that it does."""
    survey = service.open(yes_no_plan("Do two tabs draw twice?"))
    with profile(browser, service) as page:
        second = page.context.new_page()
        for tab in (page, second):
            tab.goto(f"/s/{survey}")
            tab.get_by_test_id("randomize").wait_for()
        choose(page, 0)
        shown = shown_report(page)
        expect(page.get_by_test_id("report-lead")).to_have_text("Read it, then send it. Nothing has been sent yet.")
        choose(second, 1)
        assert shown_report(second) == shown
        expect(second.get_by_test_id("report-lead")).to_contain_text("What you chose just now was not used.")
        send(second, "Your report was counted.")
        send(page, "Your report was already counted. It counts once.")
    assert service.counts(survey).total() == 1


def test_only_the_report_is_kept_on_the_device(browser: Browser, service: Service):
    survey = service.open(yes_no_plan("Is the answer kept?"))
    with profile(browser, service) as page:
        shown = randomize(page, survey, 0)
        kept = page.evaluate("({...localStorage})")
        assert list(kept) == ["tacit:ledger"]
        ((memento,),) = json.loads(kept["tacit:ledger"])["reports"].values()
        # The belief after the report, for a next wave: it follows from plan and report.
        assert len(memento.pop("belief")) == 2
        assert memento == shown | {"sent": []}
        assert GUILTY not in kept["tacit:ledger"]
        assert page.evaluate("sessionStorage.length") == 0
        assert page.evaluate("indexedDB.databases()") == []
        assert page.evaluate("caches.keys()") == []
        assert GUILTY not in page.evaluate("JSON.stringify(history.state)")
        assert page.evaluate("document.querySelectorAll('input:checked').length") == 0


def test_the_report_survives_the_browser(
    playwright: Playwright, launching: dict[str, Any], service: Service, tmp_path: Path
):
    """Closed after randomizing and started again, the browser still knows its report."""
    survey = service.open(yes_no_plan("Does it survive the browser?"))

    def visit() -> tuple[Any, Page]:
        context = playwright.chromium.launch_persistent_context(tmp_path, base_url=service.url, **launching)
        context.set_default_timeout(WAIT)
        return context, context.new_page()

    context, page = visit()
    shown = randomize(page, survey, 0)
    context.close()
    context, page = visit()
    watch = Watch(context)
    page.goto(f"/s/{survey}")
    assert shown_report(page) == shown
    send(page, "Your report was counted.")
    watch.check(service.url)
    context.close()
    assert [post.json for post in service.posts(survey)] == [shown]


def test_a_lost_acknowledgement_counts_once(browser: Browser, service: Service):
    """The service counts, but its answer is lost on the way: the page tries again with the same key."""
    survey = service.open(yes_no_plan("Is a retry counted twice?"))
    tries: list[str] = []

    def lose_the_first_answer(route: Route) -> None:
        tries.append(route.request.post_data or "")
        if len(tries) > 1:
            route.continue_()
            return
        headers = {"Content-Type": "application/json"}
        counted = service.client.post(f"/api/surveys/{survey}/reports", content=tries[0], headers=headers)
        assert counted.json() == {"status": "counted"}
        route.abort("connectionreset")

    with profile(browser, service, expected=["ERR_CONNECTION_RESET"]) as page:
        page.route("**/reports", lose_the_first_answer)
        shown = randomize(page, survey, 0)
        send(page, re.compile("already counted"))
    assert [json.loads(body) for body in tries] == [shown, shown]
    assert service.counts(survey).total() == 1


# -- invitations ------------------------------------------------------------------------------------------------------


def test_an_invitation_counts_one_report_and_is_never_sent_with_it(browser: Browser, service: Service, tmp_path: Path):
    plan = yes_no_plan("Were you invited?")
    plan.save(tmp_path / "plan.json")
    survey = survey_id(plan)
    with profile(browser, service) as page:
        page.goto("/")
        sign_in(page)
        page.get_by_test_id("plan-file").set_input_files(tmp_path / "plan.json")
        page.get_by_test_id("invited").check()
        page.get_by_test_id("create").click()
        row = page.locator(f"[data-testid=survey-row][data-id='{survey}']")
        row.get_by_role("button", name="Invitations").click()
        page.get_by_test_id("invite-count").fill("2")
        page.get_by_test_id("invite-make").click()
        expect(page.get_by_test_id("invite-links")).to_have_value(re.compile(r"invitation=.+\n.+invitation="))
        link, _ = page.get_by_test_id("invite-links").input_value().split("\n")
    invitation = link.partition("#invitation=")[2]
    before = service.wire.mark()
    with profile(browser, service, fresh=True) as page:
        page.goto(link)
        assert invitation not in page.url
        page.get_by_test_id("answer-0").check()
        page.get_by_test_id("randomize").click()
        shown = shown_report(page)
        send(page, "Your report was counted.")
        everything = service.wire.requests(since=before)
        expect(page.get_by_test_id("report-json")).to_contain_text("credential")
    with profile(browser, service, expected=[CONFLICT]) as page:
        page.goto(link)
        page.get_by_test_id("answer-1").check()
        page.get_by_test_id("randomize").click()
        page.get_by_test_id("send").click()
        expect(page.get_by_role("alert").filter(has_text="This invitation was used before")).to_be_visible()
    (post,) = service.posts(survey)
    assert set(post.json) == {"key", "group", "report", "credential"}
    assert {name: post.json[name] for name in shown} == shown
    (exchange, refused) = service.posts(survey, "credentials")
    assert set(exchange.json) == {"invitation", "blinded"}
    assert exchange.json["invitation"] == refused.json["invitation"] == invitation
    assert shown["key"].encode() not in exchange.head + exchange.body
    holding = [request.target for request in everything if invitation.encode() in request.head + request.body]
    assert holding == [exchange.target]
    assert service.counts(survey).total() == 1


def test_without_an_invitation_an_invited_survey_asks_nothing(browser: Browser, service: Service):
    survey = service.open(yes_no_plan("Is an invitation needed?"), invited=True)
    with profile(browser, service) as page:
        page.goto(f"/s/{survey}")
        expect(page.get_by_test_id("invitation")).to_contain_text("needs an invitation")
        expect(page.get_by_test_id("randomize")).to_be_hidden()


def test_a_closed_survey_takes_nothing(browser: Browser, service: Service):
    survey = service.open(yes_no_plan("Is it still open?"))
    with profile(browser, service) as page:
        randomize(page, survey, 0)
        service.client.patch(f"/api/surveys/{survey}", json={"open": False}).raise_for_status()
        page.reload()
        expect(page.get_by_text("The survey is closed and takes no more reports")).to_be_visible()
        expect(page.get_by_test_id("send")).to_be_hidden()
    with profile(browser, service) as page:
        page.goto(f"/s/{survey}")
        expect(page.get_by_test_id("closed")).to_contain_text("closed")
    assert service.posts(survey) == []


# -- other plans ------------------------------------------------------------------------------------------------------


def test_the_group_is_asked_and_sent_as_it_is(browser: Browser, service: Service):
    groups = {"under 40": {"yes": 0.02, "no": 0.98}, "40 and over": {"yes": 0.2, "no": 0.8}}
    plan = planned("Do you have heart disease?", groups, Survey("yes"), 1)
    survey = service.open(plan, group_question="How old are you?")
    with profile(browser, service) as page:
        page.goto(f"/s/{survey}")
        expect(page.get_by_role("group", name="How old are you?")).to_be_visible()
        page.get_by_test_id("answer-1").check()
        page.get_by_test_id("randomize").click()
        expect(page.get_by_role("alert").filter(has_text="Choose what describes you first.")).to_be_visible()
        page.get_by_test_id("group-0").check()
        expect(page.get_by_test_id("promise")).to_contain_text("2%")
        page.get_by_test_id("group-1").check()
        expect(page.get_by_test_id("promise")).to_contain_text("20%")
        page.get_by_test_id("randomize").click()
        shown = shown_report(page)
        send(page)
    assert shown["group"] == "40 and over"
    (post,) = service.posts(survey)
    assert post.json == shown
    assert service.counts(survey) == {("40 and over", shown["report"]): 1}


def test_one_of_thousands_of_answers_is_found_by_typing(browser: Browser, service: Service):
    towns = {f"town {place}": 1 + 3000 // (place + 1) for place in range(3000)}
    plan = planned("Where do you live?", {None: towns}, Histogram(), 2, aim="mmse", method="many-values")
    (group,) = plan.groups
    assert group.mechanism.kind == "many-values"
    survey = service.open(plan)
    with profile(browser, service) as page:
        page.goto(f"/s/{survey}")
        field = page.get_by_test_id("answer-input")
        field.press_sequentially("town 1234")
        page.get_by_role("option", name="town 1234").wait_for()
        field.press("ArrowDown")
        field.press("Enter")
        expect(field).to_have_value("town 1234")
        page.get_by_test_id("randomize").click()
        shown = shown_report(page)
        send(page)
    (post,) = service.posts(survey)
    assert post.json == shown
    assert b"town" not in post.body
    assert group.mechanism.can_send(shown["report"])
    assert service.counts(survey) == {(None, shown["report"]): 1}


# -- without a mouse, without eyes ------------------------------------------------------------------------------------


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the element with this test id has the focus."""
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.testid") == name:
            return
    pytest.fail(f"{name} cannot be reached with the Tab key")


def test_the_keyboard_is_enough(browser: Browser, service: Service):
    groups = {"young": {"yes": 0.1, "no": 0.9}, "old": {"yes": 0.3, "no": 0.7}}
    survey = service.open(planned("Can it be done without a mouse?", groups, Survey("yes"), 1))
    with profile(browser, service) as page:
        page.goto(f"/s/{survey}")
        page.get_by_test_id("randomize").wait_for()
        tab_to(page, "answer-0")
        page.keyboard.press("Space")
        tab_to(page, "group-0")
        page.keyboard.press("Space")
        page.keyboard.press("ArrowDown")
        expect(page.get_by_test_id("group-1")).to_be_checked()
        tab_to(page, "randomize")
        page.keyboard.press("Enter")
        shown = shown_report(page)
        expect(page.get_by_role("heading", level=1).filter(visible=True)).to_be_focused()
        tab_to(page, "send")
        page.keyboard.press("Enter")
        expect(page.get_by_test_id("status")).to_have_text("Your report was counted.")
    (post,) = service.posts(survey)
    assert post.json == shown
    assert shown["group"] == "old"


def test_a_screen_reader_hears_question_answers_and_buttons(browser: Browser, service: Service):
    survey = service.open(yes_no_plan("Is everything named?"))
    with profile(browser, service) as page:
        page.goto(f"/s/{survey}")
        asked = page.get_by_role("group", name="Is everything named?")
        expect(asked.get_by_role("radio")).to_have_count(2)
        for answer in (GUILTY, INNOCENT):
            expect(asked.get_by_role("radio", name=answer)).to_be_visible()
        asked.get_by_role("radio", name=INNOCENT).check()
        page.get_by_role("button", name="Randomize on this device").click()
        page.get_by_role("button", name="Send this report").click()
        expect(page.get_by_role("status").filter(has_text="Your report was counted.")).to_be_visible()
        expect(page).to_have_title("Is everything named?")


# -- the watch itself -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "deed",
    [
        "fetch('http://localhost:9/').catch(() => 0)",
        "navigator.sendBeacon('http://localhost:9/', 'seen')",
        "document.cookie = 'seen=1'",
        "document.body.append(Object.assign(document.createElement('script'), { text: '1' }))",
        "document.body.append(Object.assign(document.createElement('img'), { src: 'http://localhost:9/seen.png' }))",
        "setTimeout(() => { throw new Error('oops') })",
        "console.error('oops')",
        "new WebSocket('ws://localhost:9/')",
    ],
)
def test_the_watch_notices_what_must_not_happen(browser: Browser, service: Service, deed: str):
    survey = service.open(yes_no_plan("Is anybody watching?"))
    watched = profile(browser, service)
    page = watched.__enter__()
    page.goto(f"/s/{survey}")
    page.get_by_test_id("randomize").wait_for()
    page.evaluate(f"() => {{ try {{ {deed} }} catch {{}} }}")
    page.wait_for_timeout(200)
    with pytest.raises(AssertionError):
        watched.__exit__(None, None, None)
