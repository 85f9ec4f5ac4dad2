"""A survey from the first click to the last number: opened by the team, answered 30 times, counted."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from scipy.stats import binomtest, combine_pvalues

from tacit.plan import Plan
from tacit.server.storage.store import survey_id

from support.browsing import (
    DESKTOP,
    GUILTY,
    INNOCENT,
    Service,
    choose,
    javascript,
    profile,
    shown_report,
    sign_in,
    tacit,
    yes_no_plan,
)
from support.wire import Sent

PEOPLE = 30
#: So many profiles are open at a time: their waiting overlaps. Opening one for each would take longer than all else.
AT_ONCE = 5
COUNTED = "Your report was counted."
ALPHA = 1e-9


@dataclass
class Crowd:
    """What 30 people's pages showed and sent, and what the network saw of them."""

    plan: Plan
    service: Service
    #: The true answer, as its position, and the report on the page, of each.
    shown: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)

    @property
    def survey(self) -> str:
        return survey_id(self.plan)


@pytest.fixture(scope="module")
def crowd(browser: Browser, service: Service, tmp_path_factory: pytest.TempPathFactory) -> Crowd:
    """The whole story once; the tests look at different sides of it."""
    # Of reports with so little in them few agree with the answer by chance.
    plan = yes_no_plan("Did you drive after drinking last month?", share=0.5, epsilon=0.1)
    file = tmp_path_factory.mktemp("plan") / "plan.json"
    plan.save(file)
    with profile(browser, service, viewport=DESKTOP) as page:
        page.goto("/")
        sign_in(page)
        page.get_by_test_id("plan-file").set_input_files(file)
        page.get_by_test_id("create").click()
        row = page.locator(f"[data-testid=survey-row][data-id='{survey_id(plan)}']")
        expect(row).to_contain_text("Did you drive after drinking last month?")
        link = row.get_by_role("link", name="Survey page").get_attribute("href")
        assert link == f"{service.url}/s/{survey_id(plan)}"
    crowd = Crowd(plan, service)
    before = service.wire.mark()
    answers = [0] * (PEOPLE // 2) + [1] * (PEOPLE // 2)
    with ExitStack() as open_profiles:
        pages = [open_profiles.enter_context(profile(browser, service, fresh=True)) for _ in range(AT_ONCE)]
        for page in pages:
            page.on("request", lambda request: crowd.urls.append(request.url))
        for start in range(0, len(answers), AT_ONCE):
            # Each answer's first five click with a mouse; it is the driver of the mouse that costs time.
            how = by_mouse if start % (PEOPLE // 2) == 0 else by_script
            take_part(crowd, pages, answers[start : start + AT_ONCE], how)
    crowd.sent = service.wire.requests(since=before)
    return crowd


def take_part(
    crowd: Crowd, pages: list[Page], answers: list[int], how: Callable[[list[Page], list[int]], list[dict[str, Any]]]
) -> None:
    """Some people answer at the same time, each on a device that remembers nothing.

    A profile serves one after the other: what it stored is gone before the next one comes, only the page's files stay.
    """
    for page in pages:
        page.goto(f"/s/{crowd.survey}", wait_until="commit")
    crowd.shown += zip(answers, how(pages, answers), strict=True)


def by_mouse(pages: list[Page], answers: list[int]) -> list[dict[str, Any]]:
    """Choose, randomize and send; the reports that the pages showed before they were sent."""
    for page, answer in zip(pages, answers, strict=True):
        choose(page, answer)
    shown = [shown_report(page) for page in pages]
    for page in pages:
        page.get_by_test_id("send").click()
    for page in pages:
        expect(page.get_by_test_id("status")).to_have_text(COUNTED)
        page.evaluate("localStorage.clear()")
    return shown


#: The same clicks by the page's own elements, each once it can be seen.
_CLICKS = """async ([answer, told]) => {
  const seen = async (name, text) => {
    for (;;) {
      const found = document.querySelector(`[data-testid="${name}"]`);
      if (found?.checkVisibility() && !found.disabled && found.innerText.includes(text ?? "")) return found;
      await new Promise((again) => setTimeout(again, 10));
    }
  };
  (await seen(`answer-${answer}`)).click();
  (await seen("randomize")).click();
  const shown = JSON.parse((await seen("report-json")).innerText);
  (await seen("send")).click();
  await seen("status", told);
  localStorage.clear();
  return shown;
}"""


def by_script(pages: list[Page], answers: list[int]) -> list[dict[str, Any]]:
    """As `by_mouse`, at a third of its cost."""
    for page, answer in zip(pages, answers, strict=True):
        page.evaluate(f"(words) => {{ window.shown = ({_CLICKS})(words); }}", [answer, COUNTED])
    return [page.evaluate("() => window.shown") for page in pages]


def test_the_collector_counted_what_was_shown_and_sent_and_nothing_else(crowd: Crowd):
    posted = crowd.service.posts(crowd.survey)
    keys = [post.json["key"] for post in posted]
    assert len(set(keys)) == len(keys) == len(crowd.shown) == PEOPLE
    assert {post.json["key"]: post.json for post in posted} == {report["key"]: report for _, report in crowd.shown}
    sent = Counter((post.json["group"], post.json["report"]) for post in posted)
    assert crowd.service.counts(crowd.survey) == sent


def test_the_dashboard_shows_what_the_command_line_estimates_from_the_exported_tally(
    browser: Browser, service: Service, tmp_path: Path
):
    plan = yes_no_plan("Is it on the dashboard?")
    survey = service.open(plan)
    service.send_batch(survey, 1, b'{"report": 0}\n' * 35 + b'{"report": 1}\n' * 45)
    plan.save(tmp_path / "plan.json")
    tally = service.get(survey, "tally")
    (tmp_path / "tally.json").write_text(json.dumps(tally), encoding="utf-8")
    with profile(browser, service, viewport=DESKTOP) as page:
        page.goto(f"/d/{survey}")
        sign_in(page)
        expect(page.get_by_test_id("reports")).to_have_text("80")
        for estimator in ("mmse", "unbiased", "mle"):
            said = tacit("estimate", f"{tmp_path}/plan.json", f"{tmp_path}/tally.json", "--estimator", estimator)
            (row,) = said["estimates"]
            page.locator("label", has=page.get_by_test_id(f"estimator-{estimator}")).click()
            cell = page.get_by_test_id(f"estimate-{GUILTY}")
            expect(cell).to_have_attribute("data-value", javascript(row["estimate"]))
            expect(cell).to_have_text(rounded(row["estimate"], row["margin"]))


def rounded(number: float, error: float) -> str:
    """Two significant digits of the margin, as the page writes numbers."""
    places = max(0, 1 - int(f"{error:e}".partition("e")[2]))
    return f"{number:,.{places}f}".replace("-", "−")


def test_nothing_leaves_the_page_but_the_report(crowd: Crowd):
    origin = crowd.service.url
    assert len(crowd.urls) > PEOPLE * 5
    assert {url.partition(origin)[2] for url in crowd.urls} == {request.target for request in crowd.sent}
    assert sum(request.target == f"/s/{crowd.survey}" for request in crowd.sent) == PEOPLE
    own = (
        r"/static/icon\.svg|"
        rf"/s/{crowd.survey}|/api/surveys/{crowd.survey}(/plan|/texts|/reports)?|"
        r"/v/[0-9a-f]{16}/(client|client/mechanism(/[a-z_]+)?|static|static/languages)/[a-z_]+\.(js|css|svg)"
    )
    for request in crowd.sent:
        assert re.fullmatch(own, request.target), request.target
        assert request.method == ("POST" if request.target.endswith("/reports") else "GET")
        assert "cookie" not in request.headers
        assert "authorization" not in request.headers
        assert "referer" not in request.headers
        if request.method == "GET":
            assert request.body == b""
        else:
            assert list(request.json) == ["key", "group", "report"]
            assert re.fullmatch("[0-9a-f]{32}", request.json["key"])
            assert request.json["group"] is None
            assert request.json["report"] in (0, 1)


def test_the_answer_is_in_no_byte_that_was_sent(crowd: Crowd):
    everything = b"\n".join(request.head + request.body for request in crowd.sent)
    assert everything.count(b"POST ") == PEOPLE
    for answer in (GUILTY, INNOCENT):
        assert answer.encode() not in everything
    # Requests of the same answer and report are the same but for the key: what differs could tell who answered what.
    alike = {
        (
            re.sub(rb"[0-9a-f]{32}", b"", request.head).replace(str(len(request.body)).encode(), b""),
            re.sub(rb"[0-9a-f]{32}", b"", request.body),
        )
        for request in crowd.sent
        if request.method == "POST"
    }
    assert len(alike) == len({request.json["report"] for request in crowd.sent if request.method == "POST"})


def test_no_answer_sets_a_cookie(crowd: Crowd):
    answered = crowd.service.wire.answered().lower()
    assert answered.count(b"http/1.1 200") + answered.count(b"http/1.1 304") > PEOPLE * 4
    assert b"set-cookie" not in answered


def fits(plan: Plan, reports: dict[int, list[int]]) -> bool:
    """Whether the reports of those who gave each answer fit the plan's channel: binomial tests, combined (Fisher)."""
    channel = plan.groups[0].mechanism
    chances = {answer: int(channel.weights[answer][1]) / channel.denominator for answer in reports}
    p_values = [binomtest(sum(drawn), len(drawn), chances[answer]).pvalue for answer, drawn in reports.items()]
    return bool(combine_pvalues(p_values).pvalue > ALPHA)


def test_a_page_that_sends_the_true_answers_would_be_noticed(crowd: Crowd):
    """That its draws have the plan's chances is shown below, by the same functions on the same page."""
    (group,) = crowd.plan.groups
    positions = [group.mechanism.labels.index(value) for value in crowd.plan.values]
    chance = math.prod(group.mechanism.weights[x][positions[x]] / group.mechanism.denominator for x, _ in crowd.shown)
    assert chance < 1e-7
    assert any(positions[answer] != shown["report"] for answer, shown in crowd.shown)


def test_the_page_draws_from_the_browsers_own_randomness(crowd: Crowd, browser: Browser):
    draw = """async ([plan, answer, times]) => {
      const { openPlan } = await import("/client/index.js");
      const opened = await openPlan(plan);
      return Array.from({ length: times }, () => opened.randomize(null, { value: answer }).report);
    }"""
    times = 20_000
    with profile(browser, crowd.service) as page:
        page.goto(f"/s/{crowd.survey}")
        page.get_by_test_id("randomize").wait_for()
        drawn = {
            crowd.plan.values.index(answer): page.evaluate(draw, [crowd.plan.to_dict(), answer, times])
            for answer in (GUILTY, INNOCENT)
        }
    assert all(min(Counter(reports).values()) > 1000 for reports in drawn.values())
    assert fits(crowd.plan, drawn)
    labels = [crowd.plan.values.index(label) for label in crowd.plan.groups[0].mechanism.labels]
    honest = {answer: [labels.index(answer)] * 400 for answer in drawn}
    assert not fits(crowd.plan, honest), "a browser that sends the true answer must be noticed"
    deaf = {answer: [0, 1] * (times // 2) for answer in drawn}
    assert not fits(crowd.plan, deaf), "a browser that ignores the answer must be noticed"
    swapped = {answer: [1 - report for report in reports] for answer, reports in drawn.items()}
    assert not fits(crowd.plan, swapped), "a browser that swaps the reports must be noticed"
    stuck = {answer: [1] * (times // 25) + reports[times // 25 :] for answer, reports in drawn.items()}
    assert not fits(crowd.plan, stuck), "a browser in which one draw of 25 is not random must be noticed"
