"""The dashboard in a real browser: empty, with ten and with a million reports, and every number the service's own."""

from __future__ import annotations

import csv
import io
import json
import re
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import Browser, Page, expect

from tacit import Histogram, Matrix, Survey
from tacit.plan import Plan
from tacit.randomize import Randomizer

from support.browsing import (
    DESKTOP,
    GUILTY,
    INNOCENT,
    PHONE,
    UNAUTHORIZED,
    Service,
    javascript,
    planned,
    profile,
    send,
    shown_report,
    sign_in,
    yes_no_plan,
)

ARROW = "application/vnd.apache.arrow.stream"
SIZES = {"small": 0.5, "medium": 0.3, "large": 0.2}


def reports_of(plan: Plan, people: dict[str, int]) -> pa.Array:
    """One report for each of these people."""
    positions = [plan.values.index(answer) for answer, n in people.items() for _ in range(n)]
    return pa.array(Randomizer(plan).reports([0] * len(positions), pa.array(positions).to_numpy()))


def upload(service: Service, survey: str, key: int, reports: pa.Array) -> None:
    """Send reports as one Arrow batch."""
    sink = pa.BufferOutputStream()
    table = pa.table({"report": reports})
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    answer = service.send_batch(survey, key, sink.getvalue().to_pybytes(), ARROW)
    assert answer == {"status": "counted", "counted": len(reports), "refused": 0}


def painted(page: Page, name: str) -> int:
    """How many different colours a chart holds: an empty canvas has one."""
    script = """(canvas) => new Set(new Uint32Array(
      canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size"""
    count: int = page.get_by_test_id(name).evaluate(script)
    return count


def fits_the_screen(page: Page) -> bool:
    """Whether nothing sticks out to the right."""
    fits: bool = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return fits


@pytest.fixture(scope="module")
def million(service: Service) -> tuple[str, Plan]:
    """A survey of three answers with a million reports."""
    plan = planned("Which size do you take?", {None: SIZES}, Histogram(), 1)
    survey = service.open(plan, public_results=True)
    upload(service, survey, 1, reports_of(plan, {"small": 520_000, "medium": 290_000, "large": 190_000}))
    return survey, plan


def test_without_reports_it_says_so_and_shows_the_link(browser: Browser, service: Service):
    survey = service.open(yes_no_plan("Is it empty?"), public_results=True)
    with profile(browser, service, viewport=DESKTOP) as page:
        page.goto(f"/d/{survey}")
        expect(page.get_by_test_id("reports")).to_have_text("0")
        expect(page.get_by_role("heading", name="Waiting for the first report")).to_be_visible()
        expect(page.get_by_label("Link to the survey page")).to_have_value(f"{service.url}/s/{survey}")
        expect(page.get_by_test_id("interval-chart")).to_be_hidden()
        expect(page.get_by_test_id("prior-check")).to_contain_text("no reports")


def test_it_follows_the_reports_as_they_come(browser: Browser, service: Service):
    """From the empty page to two hundred reports, without a reload, by steps of two; one comes from a survey page."""
    plan = yes_no_plan("Is it live?")
    survey = service.open(plan, public_results=True, publish_every=2)
    with profile(browser, service, viewport=DESKTOP) as page:
        page.goto(f"/d/{survey}")
        expect(page.get_by_test_id("reports")).to_have_text("0")
        service.send_batch(survey, 1, b'{"report": 0}\n{"report": 1}\n{"report": 1}\n' * 3)
        expect(page.get_by_test_id("reports")).to_have_text("9")
        expect(page.get_by_test_id(f"estimate-{GUILTY}")).to_be_visible()
        respondent = page.context.new_page()
        respondent.goto(f"/s/{survey}")
        respondent.get_by_test_id("answer-0").check()
        respondent.get_by_test_id("randomize").click()
        shown_report(respondent)
        send(respondent)
        service.send_batch(survey, 2, b'{"report": 0}\n' * 190)
        page.bring_to_front()
        expect(page.get_by_test_id("reports")).to_have_text("200")
        assert painted(page, "interval-chart") > 4
        assert painted(page, "history-chart") > 4


def test_a_million_reports_are_estimated_as_the_service_does(
    browser: Browser, service: Service, million: tuple[str, Plan]
):
    survey, _ = million
    with profile(browser, service, viewport=DESKTOP) as page:
        page.goto(f"/d/{survey}")
        expect(page.get_by_test_id("reports")).to_have_text("1,000,000")
        seen = set()
        for estimator in ("unbiased", "mle", "mmse"):
            results = service.get(survey, "results", estimator=estimator)
            assert results["estimators"] == ["unbiased", "mmse", "mle"]
            page.locator("label", has=page.get_by_test_id(f"estimator-{estimator}")).click()
            for row in results["rows"]:
                cell = page.get_by_test_id(f"estimate-{row['name']}")
                expect(cell).to_have_attribute("data-value", javascript(row["estimate"]))
                assert abs(float(cell.inner_text().replace(",", "")) - row["estimate"]) < row["standard_error"]
            seen.add(page.get_by_test_id("estimate-large").inner_text())
        assert len(seen) > 1, "the switch must change what is shown"
        assert painted(page, "interval-chart") > 4


def test_the_downloads_hold_what_the_service_says(browser: Browser, service: Service, million: tuple[str, Plan]):
    survey, _ = million
    with profile(browser, service, viewport=DESKTOP) as page:
        page.goto("/")
        sign_in(page)
        page.get_by_role("heading", name="Surveys", exact=True).wait_for()
        page.goto(f"/d/{survey}")
        page.locator("label", has=page.get_by_test_id("estimator-unbiased")).click()
        results = service.get(survey, "results", estimator="unbiased")
        expect(page.get_by_test_id("estimate-large")).to_have_attribute(
            "data-value", javascript(next(row["estimate"] for row in results["rows"] if row["name"] == "large"))
        )
        found = {kind: downloaded(page, kind) for kind in ("csv", "json", "png")}
    assert {name for name, _ in found.values()} == {f"tacit-{survey}-unbiased.{kind}" for kind in found}
    rows = list(csv.DictReader(io.StringIO(found["csv"][1].decode())))
    assert [{key: text if key == "name" else float(text) for key, text in row.items()} for row in rows] == results[
        "rows"
    ]
    assert json.loads(found["json"][1]) == results, "the page has the token"
    picture = found["png"][1]
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", picture[16:24])
    assert width > 1000
    assert height > 300
    assert len(picture) > 20_000


def downloaded(page: Page, kind: str) -> tuple[str, bytes]:
    """The name and the content of the file behind a download button."""
    with page.expect_download() as waiting:
        page.get_by_test_id(f"download-{kind}").click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def test_reports_that_contradict_the_prior_raise_an_alarm(browser: Browser, service: Service):
    plan = yes_no_plan("Is the prior wrong?", share=0.05)
    survey = service.open(plan, public_results=True)
    upload(service, survey, 1, reports_of(plan, {GUILTY: 3000}))
    with profile(browser, service, viewport=DESKTOP) as page:
        page.goto(f"/d/{survey}")
        sentence = "The reports contradict the prior (p < 1e-16). This estimate does not use it."
        expect(page.get_by_test_id("alarm")).to_have_text(sentence)
        expect(page.get_by_test_id("prior-check")).to_contain_text(sentence)
        expect(page.get_by_test_id("prior-check")).to_have_class(re.compile("warning"))
        service.client.put(f"/api/surveys/{survey}/texts", json={"language": "de"}).raise_for_status()
        page.reload()
        said = "Die Meldungen widersprechen dem Vorwissen (p < 1e-16). Diese Schätzung nutzt es nicht."
        expect(page.get_by_test_id("alarm")).to_have_text(said)
        expect(page.get_by_test_id("reports")).to_have_text("3.000")
        expect(page.locator("html")).to_have_attribute("lang", "de")
        # On paper: dark text on white, without controls.
        page.emulate_media(media="print", color_scheme="dark")
        expect(page.get_by_test_id("download-csv")).to_be_hidden()
        expect(page.locator("body")).to_have_css("background-color", "rgb(255, 255, 255)")
        expect(page.locator("body")).to_have_css("color", "rgb(0, 0, 0)")
        page.emulate_media(media="screen", color_scheme="light")


def test_reports_that_agree_with_the_prior_raise_none(browser: Browser, service: Service):
    plan = yes_no_plan("Is the prior right?", share=0.05)
    survey = service.open(plan, public_results=True)
    upload(service, survey, 1, pa.array([y for y, n in enumerate(expected_counts(plan, 3000)) for _ in range(n)]))
    with profile(browser, service, viewport=DESKTOP) as page:
        page.goto(f"/d/{survey}")
        expect(page.get_by_test_id("reports")).to_have_text("3,000")
        expect(page.get_by_test_id("alarm")).to_be_hidden()
        expect(page.get_by_test_id("prior-check")).not_to_have_class(re.compile("warning"))


def expected_counts(plan: Plan, people: int) -> list[int]:
    """How often each of two reports is expected under the prior."""
    (group,) = plan.groups
    chance = group.prior.probabilities @ group.mechanism.weights[:, 0] / group.mechanism.denominator
    first = round(people * float(chance))
    return [first, people - first]


def test_private_results_need_the_token(browser: Browser, service: Service):
    survey = service.open(yes_no_plan("Is it private?"))
    service.send_batch(survey, 1, b'{"report": 1}\n' * 7)
    with profile(browser, service, expected=[UNAUTHORIZED], viewport=DESKTOP) as page:
        page.goto(f"/d/{survey}")
        expect(page.get_by_test_id("token")).to_be_focused()
        expect(page.get_by_test_id("reports")).to_be_hidden()
        page.get_by_test_id("token").fill("a wrong one")
        page.get_by_test_id("token-submit").click()
        expect(page.get_by_role("alert").filter(has_text="This token does not open these results.")).to_be_visible()
        sign_in(page)
        expect(page.get_by_test_id("reports")).to_have_text("7")
        page.reload()
        expect(page.get_by_test_id("reports")).to_have_text("7")
        assert page.evaluate("localStorage.length") == 0, "the token must be gone with the tab"
    with profile(browser, service) as page:
        page.goto(f"/d/{survey}")
        expect(page.get_by_test_id("token")).to_be_visible()


@pytest.mark.parametrize(("size", "schemes"), [(PHONE, ("light", "dark")), (DESKTOP, ("dark", "light"))])
def test_every_page_is_drawn_in_its_colours_and_fits_the_screen(
    browser: Browser, service: Service, million: tuple[str, Plan], size: Any, schemes: Any
):
    """Opened in one scheme and turned to the other while it is shown."""
    survey, _ = million
    with profile(browser, service, viewport=size, color_scheme=schemes[0]) as page:
        for address, ready in ((f"/d/{survey}", "reports"), ("/", "token"), (f"/s/{survey}", "randomize")):
            page.goto(address)
            page.get_by_test_id(ready).wait_for()
            check_colours_and_fit(page, address, schemes)
        page.get_by_test_id("answer-0").check()
        page.get_by_test_id("randomize").click()
        shown_report(page)
        check_colours_and_fit(page, "the report", schemes)


def check_colours_and_fit(page: Page, address: str, schemes: Any) -> None:
    """Assert both in each scheme, and turn back to the first."""
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        red, green, blue = map(int, re.findall(r"\d+", background))
        assert (red + green + blue < 3 * 64) == (scheme == "dark"), (address, background)
        assert fits_the_screen(page), address
    page.emulate_media(color_scheme=schemes[0])


def test_a_large_domain_shows_its_largest_answers_and_downloads_all(browser: Browser, service: Service):
    towns = {f"town {place}": 1 + 3000 // (place + 1) for place in range(3000)}
    plan = planned("Where do you work?", {None: towns}, Histogram(), 2, aim="mmse", method="many-values")
    survey = service.open(plan, public_results=True)
    upload(service, survey, 1, reports_of(plan, {"town 0": 4000, "town 7": 2000}))
    with profile(browser, service, viewport=DESKTOP) as page:
        page.goto(f"/d/{survey}")
        expect(page.get_by_test_id("estimate-town 0")).to_be_visible()
        expect(page.get_by_text("The largest 50 of 3,000")).to_be_visible()
        _, content = downloaded(page, "csv")
    assert len(content.splitlines()) == 1 + 3000


def test_an_unknown_survey_is_said_to_be_unknown(browser: Browser, service: Service):
    with profile(browser, service, expected=["status of 404"]) as page:
        for path in ("/d/0123456789abcdef", "/s/deadbeef"):
            page.goto(path)
            expect(page.get_by_role("heading", name="There is no survey here")).to_be_visible()
            expect(page.get_by_role("heading", name="Hier ist keine Umfrage")).to_be_visible()
            expect(page.locator("body")).not_to_contain_text("[0-9a-f]")


def test_two_reports_say_too_few_and_the_switch_is_what_is_shown(browser: Browser, service: Service):
    """No share beyond what is possible, no interval that shrank; assisted is not claimed before two groups answered."""
    priors = {"a": {GUILTY: 0.1, INNOCENT: 0.9}, "b": {GUILTY: 0.3, INNOCENT: 0.7}}
    survey = service.open(planned("Are two enough?", priors, Survey(GUILTY), 1), public_results=True, publish_every=2)
    service.send_batch(survey, 1, b'{"report": 1, "group": "a"}\n' * 2)
    assert abs(service.get(survey, "results")["rows"][0]["estimate"] / 2 - 0.5) > 0.5, "a share that cannot be"
    with profile(browser, service, viewport=DESKTOP) as page:
        page.goto(f"/d/{survey}")
        row = page.locator("#estimate-rows tr")
        expect(row).to_contain_text("too few reports")
        expect(row).to_contain_text("0% … 100%")
        expect(page.locator("#history")).to_be_hidden()
        page.locator("label", has=page.get_by_test_id("estimator-assisted")).click()
        expect(page.get_by_test_id("estimator-unbiased")).to_be_checked()
        expect(page.locator("#estimator-meaning")).to_contain_text("Until they are there")
        service.send_batch(survey, 2, b'{"report": 1, "group": "b"}\n' * 200 + b'{"report": 0, "group": "b"}\n' * 200)
        expect(page.get_by_test_id("estimator-assisted")).to_be_checked()
        expect(page.locator("#estimator-meaning")).not_to_contain_text("Until they are there")
        expect(row).not_to_contain_text("too few reports")
        expect(page.locator("#history")).to_be_visible()


def test_two_totals_of_a_matrix_are_asked_for_and_shown(browser: Browser, service: Service):
    """From the survey page, whose plan reader knows matrices, to a row for each total; none of them leads."""
    overlap = Matrix([[1, 0], [1, 1], [0, 1]], names=["at most medium", "at least medium"])
    plan = planned("Which size fits?", {None: SIZES}, overlap, 1)
    survey = service.open(plan, public_results=True, publish_every=2)
    upload(service, survey, 1, reports_of(plan, {"small": 1000, "medium": 1000, "large": 999}))
    with profile(browser, service, viewport=DESKTOP) as page:
        page.goto(f"/s/{survey}")
        page.get_by_test_id("answer-0").check()
        page.get_by_test_id("randomize").click()
        shown_report(page)
        send(page)
        page.goto(f"/d/{survey}")
        expect(page.get_by_test_id("reports")).to_have_text("3,000")
        for name in overlap.names:
            shown = page.get_by_test_id(f"estimate-{name}")
            expect(shown).to_be_visible()
            assert 1500 < float(shown.get_attribute("data-value") or 0) < 2500
        expect(page.locator("#headline")).to_be_hidden()
        assert painted(page, "interval-chart") > 4
