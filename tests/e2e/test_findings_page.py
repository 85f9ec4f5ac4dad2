"""The page that `--html` writes, in a real browser: whole on a phone, and a table on a desktop and on paper."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest
from playwright.sync_api import Browser, Page

from tacit import Histogram, Prior
from tacit.designs.planning import GroupPrior, make_plan
from tacit.estimates import estimate
from tacit.show.page import page as page_of
from tacit.tally import Counts, Tally

from support.browsing import DESKTOP, PHONE

AGES = [f"{age} to {age + 9} years" for age in range(18, 78, 10)]
#: Cells whose text is cut off by what they are in, and the first heads of columns.
CUT = """[...document.querySelectorAll("td")].filter((cell) =>
  cell.getBoundingClientRect().right > cell.closest(".scroll").getBoundingClientRect().right + 1).length"""


@pytest.fixture(scope="module")
def written() -> str:
    """A histogram of six groups side by side."""
    prior = Prior.of({"never": 0.5, "several times a week": 0.3, "every day": 0.2})
    plan = make_plan([GroupPrior(name=age, prior=prior, share=Fraction(1, 6)) for age in AGES], Histogram(), 1)
    reports = list(range(plan.groups[0].mechanism.n_possible_reports or 0)) * 100
    tally = Tally(plan.hash, {age: Counts.of(reports) for age in AGES})
    return page_of(plan, estimate(plan, tally, by="group"))


@pytest.fixture
def tab(browser: Browser, written: str) -> Iterator[Page]:
    context = browser.new_context(viewport=PHONE)
    opened = context.new_page()
    opened.set_content(written)
    yield opened
    context.close()


def test_on_a_phone_every_number_is_in_sight_and_says_what_it_is(tab: Page):
    assert tab.evaluate(CUT) == 0
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    labels = tab.evaluate("""[...document.querySelectorAll("td[data-label]")].map(
      (cell) => [cell.dataset.label, getComputedStyle(cell, "::before").content])""")
    assert len(labels) > 30
    assert all(shown == f'"{label}"' for label, shown in labels)
    assert not tab.locator("thead").first.is_visible()
    # The named wrong answer: without the rule for phones the numbers are out of sight.
    tab.add_style_tag(
        content="table { display: table !important } tr { display: table-row !important } "
        "td { display: table-cell !important; white-space: nowrap !important }"
    )
    assert tab.evaluate(CUT) > 0


#: Points and labels of charts that do not lie within the screen, and charts without a point.
OUTSIDE = """[...document.querySelectorAll("svg circle, svg text, svg line")].filter((each) => {
  const box = each.getBoundingClientRect();
  return getComputedStyle(each).display !== "none" && (box.left < 0 || box.right > innerWidth);
}).length + [...document.querySelectorAll(".chart")].filter((each) => !each.querySelector("circle.dot")).length"""


def test_charts_fit_every_screen(tab: Page):
    for width in (320, 390, 1280):
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate("document.querySelectorAll('.chart').length") >= 1
        assert tab.evaluate(OUTSIDE) == 0
    # The named wrong answer: a chart that keeps its width leaves a phone.
    tab.set_viewport_size(PHONE)
    tab.add_style_tag(content=".chart { width: 50rem }")
    assert tab.evaluate(OUTSIDE) > 0


def test_on_a_desktop_and_on_paper_it_is_a_table(tab: Page):
    tab.set_viewport_size(DESKTOP)
    for medium in ("screen", "print"):
        tab.emulate_media(media=medium)
        assert tab.locator("thead").first.is_visible()
        assert tab.evaluate(CUT) == 0
