"""The HTML page: complete, self-contained, escaped, and loud when the prior is contradicted."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np
import pytest

from tacit import GroupPrior, Histogram, Prior, Sum, Survey, make_plan
from tacit.estimates import difference, estimate
from tacit.plan import Plan
from tacit.show.page import MAX_BARS, MAX_TABLE, Brand, page, ticks_between, write_page
from tacit.tally import Counts, Tally

NASTY = '<b onload="x">&'


def tally_of(plan: Plan, n: int = 1000, skew: float = 0.0) -> Tally:
    """Reports as the prior predicts them, or with some of them moved to the first report."""
    groups = {}
    for group in plan.groups:
        shares = group.mechanism.marginal * (1 - skew)
        shares[0] += skew
        groups[group.name] = Counts.of(np.repeat(np.arange(len(shares)), np.rint(n * shares).astype(int)))
    return Tally(plan.hash, groups)


def html_of(plan: Plan, skew: float = 0.0, parts: bool = False, **options) -> str:
    tally = tally_of(plan, skew=skew)
    result = estimate(plan, tally, **({"estimator": "mmse"} | options))
    return page(plan, replace(result, by=NASTY, parts={NASTY: result, "": result}) if parts else result)


def one(prior: Prior, task: object, **options) -> Plan:
    return make_plan(prior, task, 1, **({"aim": "mmse"} | options))


SURVEY = one(Prior.of({"yes": 0.3, "no": 0.7}), Survey("yes"), question=f"Well {NASTY}?")
PLANS = {
    "survey": SURVEY,
    "sum": one(Prior.uniform(4), Sum()),
    "histogram": one(Prior.of({NASTY: 0.5, "b": 0.3, "c": 0.2, "never": 0}), Histogram()),
    "groups": make_plan(
        [
            GroupPrior(name=NASTY, prior=Prior.of({"yes": 0.3, "no": 0.7}), share=Fraction(1, 2)),
            GroupPrior(name="old", prior=Prior.of({"yes": 0.1, "no": 0.9}), share=Fraction(1, 2)),
        ],
        Survey("yes"),
        1,
    ),
}


class Outline(HTMLParser):
    """Collects tags and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("parts", [False, True])
def test_the_page_loads_nothing_and_runs_nothing(name, parts):
    text = html_of(PLANS[name], parts=parts)
    assert not re.search(r"https?:|//|url\(|@import", text)
    outline = Outline(text)
    assert not {"script", "link", "img", "iframe", "object", "a", "b"} & set(outline.tags)
    assert not {"src", "href", "onload", "xlink:href", "style"} & set(outline.attributes)
    assert {"svg", "table", "title", "h1"} <= set(outline.tags)


@pytest.mark.parametrize("name", PLANS)
def test_names_are_escaped(name):
    text = html_of(PLANS[name], parts=True)
    assert NASTY not in text
    assert "&lt;b onload=&quot;x&quot;&gt;&amp;" in text


def test_the_alarm_shows_only_when_the_prior_is_contradicted():
    calm, loud = html_of(SURVEY, estimator="unbiased"), html_of(SURVEY, skew=0.5)
    assert "do not contradict the prior" in calm
    assert 'class="warn"' not in calm
    assert 'class="warn"' in loud
    assert "contradict the prior" in loud
    assert "prefer the estimator 'unbiased'" in html.unescape(loud)
    prior_free = html_of(SURVEY, skew=0.5, estimator="unbiased")
    assert "does not use it" in prior_free
    assert "prefer the" not in prior_free


def test_what_trusts_the_prior_says_so():
    trusting, free = (html_of(SURVEY, estimator=name) for name in ("mmse", "unbiased"))
    assert "hold only if the prior is exactly right" in trusting
    assert "exactly right" not in free


def test_the_headline_and_the_promise_are_the_plans_own():
    text = html_of(SURVEY)
    assert '<div class="big">30.0%</div>' in text
    assert "of 1,000 people" in text
    assert "in total 300" in text
    assert "LIP ε = 1" in text
    assert "30% is believed with at most" in text
    assert ">known before<" in text


def test_the_most_frequent_answer_is_named_only_if_the_reports_tell_it():
    sure, close = (
        html_of(one(Prior.of({"a": a, "b": b, "c": 0.1}), Histogram(), aim="unbiased"), estimator="unbiased")
        for a, b in ((0.2, 0.7), (0.44, 0.46))
    )
    assert "“b” is the most frequent answer among 1,000 people" in sure
    assert "“b” leads, too close to call with “a”" in close


def test_parts_of_a_histogram_stand_side_by_side_if_they_are_few():
    plan = PLANS["histogram"]
    result = estimate(plan, tally_of(plan), "unbiased")
    few, many = (
        page(plan, replace(result, by="region", parts={f"part {k}": result for k in range(n)})) for n in (2, 9)
    )
    assert "part 1<small>1,000 reports</small>" in few
    assert "<h3>part 8 " in many


def test_a_comparison_is_drawn_told_and_judged():
    plan = PLANS["groups"]
    tally = tally_of(plan)
    found = difference(plan, tally, by="group")
    text = html.unescape(page(plan, estimate(plan, tally), comparison=found, command="tacit <&> x"))
    assert "differences with intervals" in text
    assert f">{'lower' if found.rows[0].difference < 0 else 'higher'}</td>" in text
    assert "chance alone would rarely make such a difference" in text
    assert "by <code>tacit <&> x</code>" in text
    # Of more than a page holds the surest are there, wherever they stand, and it says so.
    none = replace(found.rows[0], part="nobody", difference=0.0, low=-1.0, high=1.0)
    many = replace(found, rows=(*[none] * (MAX_TABLE + 5), found.rows[0]))
    text = html.unescape(page(plan, estimate(plan, tally), comparison=many))
    assert f"Shown are the surest {MAX_TABLE} of {MAX_TABLE + 6}." in text
    assert f"<span>{found.rows[0].part}</span>" in text


def test_rounds_are_called_by_their_names_and_methods_are_for_specialists():
    plan = PLANS["groups"]
    tally = tally_of(plan)
    found = difference(plan, tally, by="group", before=tally, names=("2015", "now"))
    text = page(plan, estimate(plan, tally), comparison=found)
    assert "<h2>Compared with 2015</h2>" in text
    assert '>now</th><th role="columnheader">2015</th>' in text
    assert text.index("Details for specialists") < text.index("Estimator")
    assert not re.search(
        r"assisted|unbiased|LIP|chi-square|--[a-z]", text[text.index("<body>") : text.index("<details>")]
    )


def test_the_logo_is_in_the_page_and_nothing_but_an_image_is_taken(tmp_path):
    logo = tmp_path / "logo.svg"
    logo.write_text("<svg/>")
    text = page(SURVEY, estimate(SURVEY, tally_of(SURVEY)), brand=Brand(NASTY, logo))
    assert f'<img alt="" src="data:image/svg+xml;base64,PHN2Zy8+">{html.escape(NASTY)}</header><h1>' in text
    for wrong in (tmp_path / "logo.html", tmp_path / "large.png"):
        wrong.write_bytes(b"x" * (600_000 if wrong.suffix == ".png" else 10))
        with pytest.raises(ValueError, match="The logo must be"):
            Brand(None, wrong).heading()


def test_values_outside_the_guarantee_are_named():
    assert "Outside the guarantee, with prior zero: never." in html_of(PLANS["histogram"])


def test_many_values_are_cut():
    plan = one(Prior.uniform(MAX_TABLE + 20), Histogram())
    text = html_of(plan)
    assert text.count('class="dot"') == MAX_BARS + 1
    assert f"The largest {MAX_TABLE} of {MAX_TABLE + 20}: chosen for being large" in text


def test_an_empty_tally_makes_a_page():
    tally = Tally(SURVEY.hash, {})
    assert "0 randomized reports" in page(SURVEY, estimate(SURVEY, tally))


def test_the_page_is_written_whole(tmp_path):
    tally = tally_of(SURVEY)
    write_page(tmp_path / "estimate.html", SURVEY, estimate(SURVEY, tally))
    assert (tmp_path / "estimate.html").read_text().endswith("</html>\n")
    assert [path.name for path in tmp_path.iterdir()] == ["estimate.html"]


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-257, 9350), (8500, 8800), (5, 5), (0, 0), (-3e-7, 2e-7), (0, 4e9)])
def test_ticks_enclose_their_range_and_are_few(low, high):
    ticks = ticks_between(low, high)
    assert ticks[0] <= low
    assert ticks[-1] >= high
    assert 2 <= len(ticks) <= 9
    assert ticks == sorted(set(ticks))


def test_too_few_reports_are_not_a_finding():
    """Two reports of a rare answer: no share of 141%, no chart of what cannot be."""
    plan = one(Prior.of({"yes": 0.1, "no": 0.9}), Survey("yes"), aim="unbiased")
    tally = Tally(plan.hash, {None: Counts.of([1, 1])})
    shown = page(plan, estimate(plan, tally, "unbiased"))
    assert "Too few reports yet" in shown
    assert "%</div>" not in shown
    assert "<figure>" not in shown
    enough = page(plan, estimate(plan, tally_of(plan), "unbiased"))
    assert "Too few" not in enough
    assert "<figure>" in enough
