"""Groups, the trend and small numbers on the dashboard; and that every page is accessible (axe-core)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tacit import Histogram, Survey
from tacit.plan import Plan
from tacit.server.storage.store import Store, Submission, survey_id

from support.browsing import (
    AXE,
    DESKTOP,
    PHONE,
    TOKEN,
    Service,
    choose,
    planned,
    profile,
    sign_in,
    violations,
    yes_no_plan,
)
from support.listening import listening
from support.service import Days, key

FIRST = date(2026, 3, 2)
WAYS = {
    name: {"car": 0.5 - k / 10, "train": 0.2 + k / 10, "on foot": 0.3}
    for k, name in enumerate(["north", "centre", "south"])
}


def ways() -> Plan:
    return planned("How do you travel?", {**WAYS}, Histogram(), 1)


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with three groups whose answers came on three days; its address."""
    days = Days(FIRST)
    store = Store(tmp_path_factory.mktemp("week"), days)
    plan = ways()
    store.create(plan, public_results=True, group_question="Where do you live?")
    for day in range(3):
        reports = [(group, report, 40 + 60 * (report == group)) for group in range(3) for report in range(3)]
        assert store.count([Submission(survey_id(plan), key(day), reports)]) == ["counted"]
        days.next()
    with pytest.MonkeyPatch.context() as monkeypatch, listening(store, monkeypatch) as url:
        yield url
    store.close()


@pytest.fixture
def page(browser: Browser, week: str) -> Iterator[Page]:
    context = browser.new_context(base_url=week, viewport=DESKTOP)
    yield context.new_page()
    context.close()


def test_groups_are_compared_and_chosen_by_the_team_and_hidden_from_others(page: Page):
    plan = ways()
    page.goto(f"/d/{survey_id(plan)}")
    expect(page.get_by_test_id("estimate-car")).to_be_visible()
    for name in ("groups", "trend", "group", "download-groups"):
        expect(page.get_by_test_id(name)).to_be_hidden()
    page.evaluate(f"sessionStorage.setItem('tacit:admin', '{TOKEN}')")
    page.reload()
    expect(page.get_by_test_id("groups")).to_be_visible()
    api: Any = page.request.get(
        f"/api/surveys/{survey_id(plan)}/results/groups", headers={"Authorization": f"Bearer {TOKEN}"}
    ).json()
    assert [part["group"] for part in api["parts"]] == list(WAYS)
    for part in api["parts"]:
        expect(page.get_by_test_id(f"group-{part['group']}")).to_have_attribute("data-value", str(part["estimate"]))
    compared = page.get_by_test_id("group-south").inner_text()
    page.get_by_test_id("value").select_option("on foot")
    expect(page.get_by_test_id("group-south")).not_to_have_text(compared)
    expect(page.get_by_text("The share of “on foot” in each group.")).to_be_visible()
    everybody = page.get_by_test_id("estimate-car").inner_text()
    page.get_by_test_id("group").select_option("south")
    expect(page.get_by_test_id("estimate-car")).not_to_have_text(everybody)
    with page.expect_download() as waiting:
        page.get_by_test_id("download-groups").click()
    assert len(Path(waiting.value.path()).read_text().splitlines()) == 1 + 3 * 3


def test_the_trend_has_a_point_for_each_day_or_week(page: Page):
    page.goto("/")
    sign_in(page)
    page.get_by_role("button", name="Texts").wait_for()
    page.goto(f"/d/{survey_id(ways())}")
    for day in range(3):
        expect(page.locator("#trend-rows")).to_contain_text(f"{(FIRST + timedelta(day)).day}\u00a0Mar\u00a02026")
    drawn = """() => { const chart = Chart.getChart("trend-chart");
      return [chart.data.datasets[0].data.length, chart.scales.y.min] }"""
    assert page.evaluate(drawn) == [3, 0]
    page.get_by_test_id("step").select_option("week")
    expect(page.locator("#trend-rows tr")).to_have_count(1)


def test_few_reports_say_little_and_shares_stay_between_nothing_and_all(browser: Browser, service: Service):
    """Three reports make no headline and no agreement with a prior; no headline is negative, no axis begins below 0."""
    few = service.open(yes_no_plan("Are three enough?"))
    service.send_batch(few, 1, b'{"report": 0}\n{"report": 1}\n{"report": 1}\n')
    rare = planned("Does anybody?", {None: {"yes": 0.02, "no": 0.98}}, Survey("yes"), 1)
    none = service.open(rare)
    labels = rare.groups[0].mechanism.labels
    service.send_batch(none, 1, f'{{"report": {labels.index("no")}}}\n'.encode() * 4000)
    axis = """() => { const { min, max } = Chart.getChart("interval-chart").scales.x; return [min, max] }"""
    with profile(browser, service, viewport=DESKTOP) as page:
        page.goto("/")
        sign_in(page)
        page.get_by_role("heading", name="Surveys", exact=True).wait_for()
        page.goto(f"/d/{few}")
        expect(page.locator("#headline-number")).to_have_text("too early")
        expect(page.get_by_test_id("prior-check")).to_have_text("There are too few reports to tell yet.")
        assert page.evaluate(axis) == [0, 100]
        expect(page.locator("#estimate-rows td").nth(1)).to_have_text("2% … 100%")
        page.goto(f"/d/{none}")
        expect(page.get_by_test_id("reports")).to_have_text("4,000")
        estimated = service.get(none, "results")["rows"][0]["estimate"]
        assert estimated < 0
        expect(page.locator("#headline-number")).to_have_text("0%")
        expect(page.locator("#headline-interval")).to_contain_text("chance goes below zero")
        assert page.evaluate(axis)[0] == 0


# -- accessibility ----------------------------------------------------------------------------------------------------


def all_violations(page: Page) -> list[tuple[str, str, str]]:
    """The same on a phone and on a desktop, light and dark; where only colours change, only they are looked at."""
    found = []
    colours = "{ runOnly: ['color-contrast'] }"
    for size, scheme, options in (
        (PHONE, "light", "{}"), (PHONE, "dark", colours), (DESKTOP, "dark", "{}"), (DESKTOP, "light", colours),
    ):  # fmt: skip
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found += [(f"{scheme} {size['width']}", *each) for each in violations(page, options)]
    return found


@pytest.fixture
def axe() -> None:
    if not AXE.is_file():
        told = "axe-core is missing, so accessibility is UNTESTED: run `npm ci` in browser."
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)


@pytest.mark.usefixtures("axe")
def test_no_page_violates_a_rule_of_accessibility(page: Page):
    survey = survey_id(ways())
    found = {}
    page.goto("/")
    found["sign in"] = all_violations(page)
    sign_in(page)
    page.get_by_role("button", name="Texts").wait_for()
    found["home"] = all_violations(page)
    page.get_by_role("button", name="Texts").click()
    page.get_by_test_id("texts-save").wait_for()
    found["texts"] = all_violations(page)
    page.goto(f"/d/{survey}")
    page.get_by_test_id("trend").wait_for()
    found["dashboard"] = all_violations(page)
    page.goto(f"/s/{survey}")
    page.get_by_test_id("randomize").wait_for()
    page.get_by_test_id("group-0").check()
    page.get_by_text("How far can a report move a belief?").click()
    found["survey"] = all_violations(page)
    choose(page, 0)
    page.get_by_test_id("send").wait_for()
    found["report"] = all_violations(page)
    page.goto("/s/0123456789abcdef")
    page.get_by_role("heading", name="There is no survey here").wait_for()
    found["nothing"] = all_violations(page)
    assert {name: each for name, each in found.items() if each} == {}


@pytest.mark.usefixtures("axe")
def test_the_check_of_accessibility_can_fail(page: Page):
    page.goto("/")
    page.evaluate("() => { document.querySelector('label').remove(); }")
    assert "label" in {rule for rule, _ in violations(page)}
