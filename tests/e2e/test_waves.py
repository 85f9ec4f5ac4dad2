"""The same survey again in one browser: waves, corrected words, copies, limits, two tabs, and what it has told."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from playwright.sync_api import Browser, expect

from tacit import Histogram
from tacit.designs.panels import following_plan, with_layers
from tacit.files import Ledger
from tacit.plan import Plan
from tacit.randomize import Randomizer

from support.browsing import (
    QUIET,
    UNAUTHORIZED,
    Service,
    choose,
    planned,
    profile,
    randomize,
    send,
    shown_report,
    sign_in,
    violations,
    yes_no_plan,
)


def again(plan: Plan, wave: int) -> Plan:
    """A later wave of a plan, with the same channel."""
    return replace(plan, wave=wave, series=plan.hash)


def test_every_wave_is_asked_anew_until_the_limit_and_all_of_it_is_listed(
    browser: Browser, service: Service, tmp_path: Path
):
    first = replace(yes_no_plan("Is it asked every year?"), limit=Fraction(3))
    surveys = [service.open(plan) for plan in (first, again(first, 2), again(first, 3))]
    other = service.open(yes_no_plan("Does another survey look answered?"))
    with profile(browser, service) as page:
        reports = []
        for survey in surveys[:2]:
            reports.append(randomize(page, survey, 0))
            send(page, "Your report was counted.")
        page.goto(f"/s/{surveys[0]}")
        assert shown_report(page) == reports[0], "the first wave keeps its report"
        page.goto(f"/s/{surveys[2]}")
        expect(page.get_by_test_id("limit")).to_contain_text("a factor of 92.05. Its owner set a limit of 20.09")
        expect(page.get_by_test_id("answer-0")).to_be_hidden()
        expect(page.get_by_test_id("told-sum")).to_contain_text("has drawn 2 reports")
        page.goto(f"/s/{other}")
        expect(page.get_by_test_id("so-far")).to_contain_text("the 3 reports of this browser")
        page.goto("/told")
        expect(page.get_by_test_id("told-sum")).to_contain_text("by at most a factor of 14.28 in all")
        expect(page.get_by_test_id("told-sum")).to_contain_text("computed from all that these reports can be")
        assert violations(page) == []
        with page.expect_download() as saved:
            page.get_by_test_id("told-export").click()
        saved.value.save_as(tmp_path / "told.json")
        page.get_by_test_id("my-limit").select_option("10")
        expect(page.get_by_test_id("limit-note")).to_contain_text("Saved")
        page.goto(f"/s/{other}")
        expect(page.get_by_test_id("limit")).to_contain_text("You set a limit of 10")
        page.goto("/told")
        page.get_by_test_id("told-erase").click()
        page.get_by_test_id("told-erase-now").click()
        expect(page.get_by_test_id("told-sum")).to_contain_text("Nothing")
        assert page.evaluate("localStorage.length") == 0
    ledger = Ledger.open(tmp_path / "told.json")
    assert [(row["waves"], row["people"]) for row in ledger.sums()] == [(2, 1)]
    assert [service.counts(survey).total() for survey in surveys] == [1, 1, 0]


def test_a_corrected_typo_and_a_copy_draw_no_second_report(browser: Browser, service: Service):
    wrong = yes_no_plan("Is there a tpyo?")
    old, new = service.open(wrong), service.open(wrong.reworded("Is there a typo?"))
    copy = service.client.post(f"/api/surveys/{old}/copies").raise_for_status().json()
    assert (copy["wave"], copy["copy_of"]) == (1, old)
    with profile(browser, service) as page:
        drawn = randomize(page, old, 0)
        page.goto(f"/s/{new}")
        assert shown_report(page) == drawn, "not sent yet: it can be sent from either page"
        page.goto(f"/s/{old}")
        send(page, "Your report was counted.")
        page.goto(f"/s/{new}")
        expect(page.get_by_test_id("report-lead")).to_contain_text("before the words of this survey were corrected")
        expect(page.get_by_test_id("send")).to_be_hidden()
        page.goto(f"/s/{copy['id']}")
        expect(page.get_by_test_id("report-lead")).to_contain_text("this same survey at another address")
        send(page, "Your report was counted.")
        assert shown_report(page) == drawn
    assert [service.counts(survey).total() for survey in (old, new, copy["id"])] == [1, 0, 1]


def test_two_tabs_at_once_draw_once_and_altered_storage_draws_nothing(browser: Browser, service: Service):
    plan = yes_no_plan("Are there two tabs?")
    survey, other = service.open(plan), service.open(yes_no_plan("Is there another survey in the other tab?"))
    with profile(browser, service) as page:
        tabs = [page, page.context.new_page(), page.context.new_page()]
        for tab, opened in zip(tabs, (survey, survey, other), strict=True):
            tab.goto(f"/s/{opened}")
            tab.get_by_test_id("answer-0").check()
        for tab in tabs:
            tab.evaluate("document.querySelector('[data-testid=randomize]').click()")
        reports = [shown_report(tab) for tab in tabs]
        assert reports[0] == reports[1]
        assert reports[0]["key"] != reports[2]["key"]
        stored = json.loads(page.evaluate("localStorage.getItem('tacit:ledger')"))
        assert [len(stored["occasions"]), *map(len, stored["reports"].values())] == [2, 2]
        # Someone takes a report out, to have a second one drawn.
        page.goto(QUIET)
        stored["reports"] = stored["persons"] = {}
        page.evaluate("text => localStorage.setItem('tacit:ledger', text)", json.dumps(stored))
        page.goto(f"/s/{survey}")
        expect(page.get_by_test_id("refusal")).to_contain_text(re.compile("altered or damaged"))
        expect(page.get_by_test_id("told-damaged")).to_be_visible()
        expect(page.get_by_test_id("randomize")).to_be_hidden()


def test_the_dashboard_follows_the_waves_with_their_changes(browser: Browser, service: Service):
    first = yes_no_plan("Did it change?")
    surveys = [service.open(plan) for plan in (first, again(first, 2), again(first, 3))]
    for place, (survey, guilty) in enumerate(zip(surveys, (300, 330, 500), strict=True)):
        reports = [{"group": None, "report": int(k >= guilty)} for k in range(1000)]
        service.send_batch(survey, place, "".join(f"{json.dumps(report)}\n" for report in reports).encode())
    with profile(browser, service, expected=[UNAUTHORIZED]) as page:
        page.goto(f"/d/{surveys[1]}")
        sign_in(page)
        expect(page.locator("#waves-rows tr")).to_have_count(3)
        expect(page.locator("#changes-rows tr").nth(0)).to_contain_text(re.compile("not clear$"))
        expect(page.locator("#changes-rows tr").nth(2)).to_contain_text(re.compile("wave 1 – 3.*lower$"))
        drawn = """() => Chart.getChart("waves-chart").data.labels"""
        assert page.evaluate(drawn) == ["wave 1", "wave 2", "wave 3"]
        assert violations(page) == []


def test_a_server_that_offers_the_same_wave_under_another_plan_gets_no_second_report(
    browser: Browser, service: Service
):
    first = yes_no_plan("Is the wave believed?")
    honest, lie = again(first, 2), replace(again(first, 2).reworded("Is the wave really believed?"), earlier=())
    answered, offered = service.open(honest), service.open(lie)
    with profile(browser, service) as page:
        page.goto(f"/s/{answered}")
        expect(page.get_by_test_id("wave")).to_contain_text("This is wave 2")
        choose(page, 0)
        shown_report(page)
        page.goto(f"/s/{offered}")
        expect(page.get_by_test_id("limit")).to_contain_text("the same wave of the same survey")
        expect(page.get_by_test_id("randomize")).to_be_hidden()


def test_the_belief_rule_in_one_browser_and_what_is_said_of_it(browser: Browser, service: Service):
    first = yes_no_plan("Is it asked by the belief rule?")
    second = following_plan(first, "0.9")
    third = following_plan(second, "0.9")
    surveys = [service.open(plan) for plan in (first, second, third)]
    told = service.client.post(f"/api/surveys/{surveys[1]}/copies?next_wave=true")
    assert (told.status_code, "tacit next" in told.json()["detail"]) == (409, True)
    with profile(browser, service) as page:
        one = randomize(page, surveys[0], 0)
        send(page, "Your report was counted.")
        page.goto(f"/s/{surveys[1]}")
        after = f"after {one['report']}"
        expect(page.get_by_test_id("panel")).to_contain_text(
            f"Your group, {after}, says which reports this browser drew"
        )
        expect(page.get_by_test_id("so-far")).to_contain_text("the 2 reports of this browser")
        expect(page.get_by_test_id("so-far")).to_contain_text("a factor of 7.39 in all")
        two = randomize(page, surveys[1], 0)
        assert two["group"] == after
        expect(page.locator("#group-fact")).to_contain_text("these reports are of one person")
        assert violations(page) == []
        send(page, "Your report was counted.")
        assert randomize(page, surveys[2], 1)["group"] == f"{after} {two['report']}"
        page.goto("/told")
        expect(page.get_by_test_id("told-sum")).to_contain_text("by at most a factor of 20.09 in all")
        expect(page.get_by_test_id("told-sum")).to_contain_text("if answers to surveys that follow people change as")
        expect(page.get_by_test_id("told-list")).to_contain_text("a factor of 2.72 more")
        page.get_by_test_id("told-erase").click()
        page.get_by_test_id("told-erase-now").click()
        expect(page.get_by_test_id("told-sum")).to_contain_text("Nothing")
        page.goto(f"/s/{surveys[2]}")
        expect(page.get_by_test_id("panel")).to_contain_text("you answer as a new person")
        assert randomize(page, surveys[2], 0)["group"] == "new"
    assert service.counts(surveys[1]) == {(after, two["report"]): 1}


def test_two_layers_send_one_stored_report_in_every_wave(browser: Browser, service: Service, tmp_path: Path):
    # Every wave sends the stored report; two reports that are drawn anew are rarely alike.
    shares = {f"v{x}": Fraction(1, 12) for x in range(12)}
    first = with_layers(planned("Is it asked in two layers?", {None: shares}, Histogram(), 3), 3)
    assert first.groups[0].layers is not None
    assert first.groups[0].layers.resend == 4096
    surveys = [service.open(plan) for plan in (first, again(first, 2))]
    with profile(browser, service) as page:
        reports = []
        for survey in surveys:
            page.goto(f"/s/{survey}")
            expect(page.get_by_test_id("panel")).to_contain_text("by at most a factor of 20.09, as long as your answer")
            choose(page, 7)
            reports.append(shown_report(page)["report"])
            send(page, "Your report was counted.")
        expect(page.get_by_test_id("kept-layers")).to_contain_text("could find out your answer")
        page.goto("/told")
        expect(page.get_by_test_id("told-sum")).to_contain_text("by at most a factor of 20.09 in all")
        expect(page.get_by_test_id("told-list")).to_contain_text("All waves of this survey together")
        assert violations(page) == []
        with page.expect_download() as saved:
            page.get_by_test_id("told-export").click()
        saved.value.save_as(tmp_path / "told.json")
        page.get_by_test_id("told-erase").click()
        expect(page.get_by_role("alert")).to_contain_text("the third power of the factor")
    ledger = Ledger.open(tmp_path / "told.json")
    (stored,) = Randomizer(first).stored([0], [7], [""], ledger.memory).tolist()
    assert reports == [stored, stored]
    assert ledger.sums()[0]["lip"] == 3
    assert [service.counts(survey) for survey in surveys] == [{(None, stored): 1}] * 2
