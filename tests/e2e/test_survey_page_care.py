"""The survey page in the hands of people: double clicks, second tabs, shared browsers, long words, other languages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tacit import Histogram, Sum, Survey
from tacit.server.storage.store import Store, survey_id

from support.browsing import (
    CONFLICT,
    QUIET,
    Service,
    choose,
    planned,
    profile,
    send,
    shown_report,
    sign_in,
    yes_no_plan,
)
from support.listening import listening
from support.service import Days

LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
SMALL_PHONE = {"width": 320, "height": 640}


def in_sight(page: Page, name: str) -> bool:
    """Whether an element is on the screen without scrolling."""
    script = (
        "(e) => { const b = e.getBoundingClientRect(); return b.top >= 0 && b.bottom <= innerHeight && b.width > 0 }"
    )
    return bool(page.get_by_test_id(name).evaluate(script))


def test_a_double_click_draws_once_and_sends_nothing(browser: Browser, service: Service):
    survey = service.open(yes_no_plan("Is a double click one click?"))
    with profile(browser, service, viewport=SMALL_PHONE) as page:
        page.goto(f"/s/{survey}")
        page.get_by_test_id("answer-0").check()
        page.get_by_test_id("randomize").dblclick()
        shown = shown_report(page)
        page.wait_for_timeout(300)
        assert service.posts(survey) == []
        # While it is being sent, that is said where the finger is, and a second click sends nothing.
        page.route("**/reports", slowly)
        page.get_by_test_id("send").dblclick()
        expect(page.get_by_test_id("send")).to_have_text("Sending …")
        assert in_sight(page, "send")
        expect(page.get_by_test_id("status")).to_have_text("Your report was counted.")
        assert in_sight(page, "status")
    assert [post.json for post in service.posts(survey)] == [shown]


def slowly(route: Route) -> None:
    """Pass a request on after a while."""
    route.request.frame.page.wait_for_timeout(400)
    route.continue_()


def test_two_invited_people_share_a_browser_and_a_spent_invitation_offers_nothing(browser: Browser, service: Service):
    survey = service.open(yes_no_plan("Are there two of you?"), invited=True)
    made = service.client.post(f"/api/surveys/{survey}/invitations", json={"count": 2}).json()["invitations"]
    first, second = (f"{service.url}/s/{survey}#invitation={each}" for each in made)
    with profile(browser, service) as page:
        reports = []
        for link in (first, second):
            page.goto(QUIET)
            page.goto(link)
            choose(page, 0)
            reports.append(shown_report(page))
            send(page, "Your report was counted.")
        page.goto(QUIET)
        page.goto(first)
        assert {name: shown_report(page)[name] for name in reports[0]} == reports[0]
        kept: dict[str, str] = page.evaluate("({...localStorage})")
        assert [len(told) for told in json.loads(kept["tacit:ledger"])["reports"].values()] == [1, 1]
        assert not any(each in text for each in made for item in kept.items() for text in item)
    assert reports[0]["key"] != reports[1]["key"]
    assert service.counts(survey).total() == 2
    with profile(browser, service, expected=[CONFLICT]) as page:
        page.goto(first)
        choose(page, 1)
        page.get_by_test_id("send").click()
        for _ in range(2):
            expect(page.get_by_role("alert").filter(has_text="This invitation was used before")).to_be_visible()
            expect(page.get_by_test_id("send")).to_be_hidden()
            # Another visit from the link says so before anything is asked.
            page.goto(QUIET)
            page.goto(first)


def test_a_link_that_was_cut_off_is_noticed_at_once_and_nothing_is_asked_about_a_whole_one(
    browser: Browser, service: Service
):
    """The invitation is sent with a report and at no other time: opening a link tells nobody that it was opened."""
    survey = service.open(yes_no_plan("Is it all there?"), invited=True)
    (made,) = service.client.post(f"/api/surveys/{survey}/invitations", json={"count": 1}).json()["invitations"]
    before = service.wire.mark()
    with profile(browser, service, fresh=True) as page:
        page.goto(f"/s/{survey}#invitation={made[:-1]}")
        expect(page.get_by_test_id("invitation")).to_contain_text("This invitation is not complete")
        page.goto(QUIET)
        page.goto(f"/s/{survey}#invitation={made}")
        choose(page, 0)
        shown_report(page)
    sent = service.wire.requests(since=before)
    assert sent
    assert not [request.target for request in sent if made[:-1].encode() in request.head + request.body]


def test_the_question_comes_first_and_a_long_word_fits_a_phone(browser: Browser, service: Service):
    groups = {LONG: {LONG + "A": 0.3, "b": 0.7}, "c": {LONG + "A": 0.2, "b": 0.8}}
    survey = service.open(planned(f"{LONG}?", groups, Histogram(), 1), group_question=f"{LONG}!", public_results=True)
    texts = {"introduction": LONG, "consent": LONG, "privacy_notice": LONG, "contact": LONG}
    service.client.put(f"/api/surveys/{survey}/texts", json=texts).raise_for_status()
    with profile(browser, service, viewport=SMALL_PHONE) as page:
        page.goto(f"/s/{survey}")
        page.get_by_test_id("answer-0").check()
        page.get_by_test_id("group-0").check()
        places = [page.get_by_test_id(name).bounding_box() for name in ("question", "answer-0", "promise", "randomize")]
        assert [place["y"] for place in places if place] == sorted(place["y"] for place in places if place)
        page.get_by_text("How far can a report move a belief?").click()
        page.get_by_text("Privacy notice").click()
        assert fits(page)
        page.get_by_test_id("agreed").check()
        page.get_by_test_id("randomize").click()
        shown_report(page)
        assert fits(page)
        send(page)
        page.goto(f"/d/{survey}")
        page.get_by_test_id("reports").wait_for()
        assert fits(page)


def fits(page: Page) -> bool:
    """Whether nothing sticks out to the right."""
    found: bool = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return found


@pytest.mark.parametrize(("typed", "place"), [("  tOWN 17 ", 17), ("town  3", 3), ("Town 200", None)])
def test_dozens_of_answers_are_searched_in_any_case(browser: Browser, service: Service, typed: str, place: int | None):
    """Thirteen to two hundred answers are searched as thousands are; what is chosen is the plan's own spelling."""
    towns = {f"Town {each}": 1.0 for each in range(150)}
    plan = planned("Which town, in any case?", {None: towns}, Histogram(), 1)
    service.open(plan)
    with profile(browser, service) as page:
        page.goto(f"/s/{survey_id(plan)}")
        page.get_by_test_id("answer-input").fill(typed)
        if place is not None:
            page.evaluate("() => { crypto.getRandomValues = (array) => array.fill(0); }")
        page.get_by_test_id("randomize").click()
        if place is None:
            expect(page.get_by_role("alert").filter(has_text="Choose an answer first.")).to_be_visible()
            return
        # With this randomness the report is a function of the answer: the page randomized the town that was meant.
        draw = """async ([plan, value]) => {
          const { openPlan } = await import("/client/index.js");
          return (await openPlan(plan)).randomize(null, { value }).report;
        }"""
        assert shown_report(page)["report"] == page.evaluate(draw, [plan.to_dict(), f"Town {place}"])


def test_numbers_and_tables_are_for_people(browser: Browser, service: Service):
    earnings = planned("What do you earn?", {None: {1000.0: 0.2, 2500.0: 0.5, 4000.5: 0.3}}, Sum(), 1)
    with profile(browser, service) as page:
        page.goto(f"/s/{service.open(earnings)}")
        expect(page.locator(".choice")).to_have_text(["1000", "2500", "4000.5"])
        expect(page.get_by_test_id("promise")).to_contain_text("believed to be 1000 with")
        choose(page, 1)
        shown_report(page)
        assert "2500.0" not in page.locator("main").inner_text()
    many = {f"answer {each}": 1 + 500 // (each + 1) for each in range(300)}
    large = planned("Which of three hundred?", {None: many}, Histogram(), 2, aim="mmse", method="many-values")
    with profile(browser, service) as page:
        page.goto(f"/s/{service.open(large)}")
        page.get_by_text("How far can a report move a belief?").click()
        assert page.locator("#belief-rows tr").count() == 12
        expect(page.get_by_text("The 12 rarest answers")).to_be_visible()


# -- languages and texts ----------------------------------------------------------------------------------------------

RANDOMIZE = {
    "de": ("Auf diesem Gerät zufällig verändern", "Diese Meldung senden", "Ihre Meldung wurde gezählt.", "27,2\u00a0%"),
    "es": ("Aplicar el azar en este dispositivo", "Enviar este informe", "Su informe se ha contado.", "27,2\u00a0%"),
    "fr": ("Tirer au hasard sur cet appareil", "Envoyer ce rapport", "Votre rapport a été compté.", "27,2\u00a0%"),
}


@pytest.mark.parametrize("language", RANDOMIZE)
def test_a_survey_is_answered_in_its_language(browser: Browser, service: Service, language: str):
    button, send_it, counted, most = RANDOMIZE[language]
    survey = service.open(yes_no_plan(f"Is it said in {language}?", share=0.1))
    service.client.put(f"/api/surveys/{survey}/texts", json={"language": language}).raise_for_status()
    with profile(browser, service) as page:
        page.goto(f"/s/{survey}")
        expect(page.locator("html")).to_have_attribute("lang", language)
        expect(page.get_by_test_id("promise")).to_contain_text(most)
        page.get_by_test_id("answer-0").check()
        page.get_by_role("button", name=button).click()
        page.get_by_role("button", name=send_it).click()
        expect(page.get_by_test_id("status")).to_have_text(counted)
        left = page.evaluate("[...document.querySelectorAll('[data-say]')].filter((e) => !e.textContent).length")
        assert left == 0
    (post,) = service.posts(survey)
    assert set(post.json) == {"key", "group", "report"}


def test_the_team_says_who_asks_and_consent_comes_first(browser: Browser, service: Service):
    survey = service.open(yes_no_plan("Do you agree?"))
    with profile(browser, service, viewport={"width": 1000, "height": 900}) as page:
        page.goto("/")
        sign_in(page)
        page.locator(f"[data-id='{survey}']").get_by_role("button", name="Texts").click()
        page.get_by_label("Introduction").fill("We are the city.\n\nMore: https://city.example/x. <b>Bold</b>")
        page.get_by_label("Consent").fill("I am 18 or older.")
        page.get_by_label("Privacy notice").fill("Controller: the city.")
        page.get_by_test_id("contact").fill("survey@city.example")
        page.get_by_test_id("texts-save").click()
        expect(page.get_by_test_id("message")).to_have_text("The survey page says it from now on.")
        page.goto(f"/s/{survey}")
        expect(page.get_by_test_id("introduction")).to_contain_text("<b>Bold</b>")
        link = page.get_by_role("link", name="https://city.example/x")
        assert (link.get_attribute("href"), link.get_attribute("rel")) == (
            "https://city.example/x",
            "noreferrer noopener",
        )
        expect(page.get_by_test_id("about")).to_contain_text("survey@city.example")
        choose(page, 0)
        expect(page.get_by_role("alert").filter(has_text="Please agree first")).to_be_visible()
        expect(page.get_by_test_id("agreed")).to_be_focused()
        assert page.evaluate("localStorage.length") == 0
        page.get_by_label("I am 18 or older.").check()
        page.get_by_test_id("randomize").click()
        shown_report(page)


def test_the_owner_runs_a_survey_from_the_page(browser: Browser, service: Service):
    """Last day, tally, translations, next wave and deletion, without a command."""
    survey = service.open(yes_no_plan("Who runs it?"))
    with profile(browser, service, viewport={"width": 1000, "height": 900}) as page:
        page.goto("/")
        sign_in(page)
        row = page.locator(f"[data-id='{survey}']")
        row.get_by_role("button", name="Last day").click()
        page.get_by_test_id("last-day").fill("2099-12-31")
        page.get_by_test_id("ends-save").click()
        expect(row).to_contain_text("until 31\u00a0Dec\u00a02099")
        with page.expect_download() as handed:
            row.get_by_role("button", name="Download the tally").click()
        tally = json.loads(Path(handed.value.path()).read_text())
        assert tally["plan"].startswith(survey)
        row.get_by_role("button", name="Texts").click()
        page.get_by_label("Introduction").fill("Hello.")
        page.get_by_test_id("also-de").check()
        page.get_by_label("Introduction").fill("Guten Tag.")
        page.get_by_test_id("language").select_option("de")
        expect(page.get_by_label("Introduction")).to_have_value("Guten Tag.")
        page.get_by_test_id("texts-save").click()
        expect(page.get_by_test_id("message")).to_contain_text("says it from now on")
        kept = service.get(survey, "texts")
        assert (kept["language"], kept["introduction"]) == ("de", "Guten Tag.")
        assert kept["translations"]["en"]["introduction"] == "Hello."
        row.get_by_role("button", name="Next wave").click()
        page.get_by_test_id("confirm").click()
        expect(page.get_by_test_id("message")).to_contain_text("The next wave is open")
        expect(page.get_by_test_id("survey-row").filter(has_text="wave 2")).to_have_count(1)
        row.get_by_role("button", name="Delete").click()
        page.get_by_role("button", name="Cancel").click()
        expect(row).to_be_visible()
        row.get_by_role("button", name="Delete").click()
        page.get_by_test_id("confirm").click()
        expect(row).to_have_count(0)
    assert service.client.get(f"/api/surveys/{survey}").status_code == 404


# -- below a path, and tampered with ----------------------------------------------------------------------------------


@pytest.fixture
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a service that lives below a path of its host."""
    store = Store(tmp_path / "data", Days())
    store.create(yes_no_plan("Is it below?"))
    with listening(store, monkeypatch, below="/our/surveys/") as url:
        yield url
    store.close()


def test_below_a_path_every_page_works(browser: Browser, below: str):
    survey = survey_id(yes_no_plan("Is it below?"))
    context = browser.new_context()
    page, asked = context.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{below}/s/{survey}")
    choose(page, 0)
    shown_report(page)
    send(page)
    page.goto(f"{below}/d/{survey}")
    sign_in(page)
    expect(page.get_by_test_id("reports")).to_have_text("1")
    expect(page.get_by_role("link", name="Survey page")).to_have_attribute("href", f"{below}/s/{survey}")
    page.get_by_role("link", name="Tacit").click()
    expect(page.get_by_role("link", name="Results")).to_have_attribute("href", f"{below}/d/{survey}")
    assert len(asked) > 40
    assert [url for url in asked if not url.startswith(f"{below}/")] == []
    context.close()


@pytest.mark.parametrize("file", ["static/survey.js", "client/words.js", "client/promise.js"])
def test_a_script_that_was_altered_on_the_way_does_not_run(browser: Browser, service: Service, file: str):
    survey = service.open(yes_no_plan("Is it altered?"))
    expected = ["integrity", "ERR_FAILED", "Failed to fetch", "blocked", "Subresource"]
    with profile(browser, service, expected=expected, fresh=True) as page:

        def alter(route: Route) -> None:
            text = route.fetch().text() + "\ndocument.title = 'altered';"
            route.fulfill(content_type="text/javascript", body=text)

        page.route(re.compile(re.escape(file)), alter)
        page.goto(f"/s/{survey}")
        page.wait_for_timeout(500)
        expect(page.get_by_test_id("randomize")).to_be_hidden()
        assert page.title() == "Tacit"
        page.unroute_all()
        page.goto(f"/s/{survey}?again")
        expect(page.get_by_test_id("randomize")).to_be_visible()


def test_a_group_question_speaks_the_language_of_the_page(browser: Browser, service: Service):
    groups = {f"{age} and more": {"yes": 0.1, "no": 0.9} for age in range(13)}
    survey = service.open(planned("Wie alt?", groups, Survey("yes"), 1))
    service.client.put(f"/api/surveys/{survey}/texts", json={"language": "de"}).raise_for_status()
    with profile(browser, service) as page:
        page.goto(f"/s/{survey}")
        expect(page.get_by_role("group", name="Was trifft auf Sie zu?")).to_be_visible()
        page.get_by_test_id("answer-0").check()
        page.get_by_test_id("group-input").fill("7 AND MORE")
        expect(page.get_by_test_id("promise")).to_contain_text("Was auch gemeldet wird")
        page.get_by_test_id("randomize").click()
        assert shown_report(page)["group"] == "7 and more"
