"""Pictures of the survey page and the dashboard, taken from the running service in a real browser.

    python docs/screenshots.py

A week of simulated answers to the demo's survey, and to one with several answers, is written into a fresh database with
an injected calendar; then `tacit serve` shows both. Reports and keys come from fixed seeds, so that the pictures change
only when the pages do.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page, sync_playwright

from tacit import Histogram, Prior
from tacit.cli import demo
from tacit.designs import GroupPrior, make_plan
from tacit.designs.planning import with_ldp
from tacit.plan import Plan
from tacit.randomize import Randomizer
from tacit.randomize.randomness import SeededWords
from tacit.server.results.results import published
from tacit.server.storage.store import Store, Submission, survey_id

Positions = NDArray[Any]
IMAGES = Path(__file__).parent / "images"
FIRST_DAY = date(2026, 3, 2)
PEOPLE_BY_DAY = (610, 1_480, 2_260, 3_040, 1_820, 970, 680)
HABIT = "How often do you drink alcohol?"
HABITS = GroupPrior(
    name=None,
    prior=Prior.of({"never": 0.32, "monthly": 0.27, "weekly": 0.21, "several times a week": 0.13, "daily": 0.07}),
    share=Fraction(1),
)
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1120, "height": 1200}
LARGEST = 200_000
#: Replaces the browser's randomness, for these pictures only.
SEED = """
let state = 20260302;
crypto.getRandomValues = (array) => {
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  for (let place = 0; place < bytes.length; place++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    bytes[place] = state >>> 24;
  }
  return array;
};
"""


def main() -> None:
    """Take all pictures."""
    IMAGES.mkdir(exist_ok=True)
    demo.make_plan()
    diabetes, habits = (
        Plan.load(demo.OUT / "plan.json"),
        with_ldp(make_plan([HABITS], Histogram(), 1, question=HABIT)),
    )
    with tempfile.TemporaryDirectory() as folder:
        for plan in (diabetes, habits):
            collect(plan, folder)
        with serving(folder) as url, sync_playwright() as playwright:
            arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = playwright.chromium.launch(executable_path=chromium(), args=arguments)
            take_part(browser, url, survey_id(diabetes))
            look_at_results(browser, url, survey_id(diabetes), "light")
            look_at_results(browser, url, survey_id(habits), "dark")
            browser.close()


def collect(plan: Plan, folder: str) -> None:
    """Count a week of simulated answers, each on its day."""
    today = FIRST_DAY
    store = Store(folder, lambda: today)
    store.create(plan, public_results=True, group_question="How old are you?")
    randomizer, words = Randomizer(plan), SeededWords(2026)
    for day, people in enumerate(PEOPLE_BY_DAY):
        today = FIRST_DAY + timedelta(day)
        groups, answers = simulate(plan, people, day)
        reports = randomizer.reports(groups, answers, words).tolist()
        counts = Counter(zip(groups.tolist(), reports, strict=True))
        rows = tuple((group, report, times) for (group, report), times in sorted(counts.items()))
        assert store.count([Submission(survey_id(plan), f"{day:032x}", rows)]) == ["counted"]
        survey = store.survey(survey_id(plan))
        assert survey is not None
        published(store, survey, plan)
    store.close()


def simulate(plan: Plan, people: int, seed: int) -> tuple[Positions, Positions]:
    """A crowd: groups and answers by their positions, close to the priors, not quite the same."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(len(plan.groups), size=people)
    answers = np.empty_like(groups)
    for place, group in enumerate(plan.groups):
        shares = group.prior.probabilities * np.linspace(1.03, 0.97, len(plan.values))
        mine = groups == place
        answers[mine] = rng.choice(len(plan.values), size=mine.sum(), p=shares / shares.sum())
    return groups, answers


@contextmanager
def serving(folder: str) -> Iterator[str]:
    """The service on a folder; its address."""
    command = [sys.executable, "-m", "tacit", "serve", "--data", folder, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = ""
            while not said.endswith("\n}\n"):
                said += next(process.stdout)
            yield json.loads(said)["url"]
        finally:
            process.terminate()


def chromium() -> str:
    """The system's browser."""
    names = ("chromium-headless-shell", "chromium", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        sys.exit("Screenshots need a browser: install Debian's package chromium.")
    return found


def take_part(browser: Browser, url: str, survey: str) -> None:
    """The survey page on a phone: with the answer chosen, and with the report that would be sent."""
    context = browser.new_context(viewport=PHONE, device_scale_factor=1.25)
    context.add_init_script(SEED)
    page = context.new_page()
    page.goto(f"{url}/s/{survey}")
    page.get_by_test_id("group-input").fill("45–49")
    page.get_by_test_id("group-input").blur()
    page.get_by_test_id("answer-1").check()
    save(page, "survey-question", full_page=True)
    page.get_by_test_id("randomize").click()
    page.get_by_test_id("send").wait_for()
    save(page, "survey-report", full_page=True)
    context.close()


def look_at_results(browser: Browser, url: str, survey: str, scheme: str) -> None:
    """The dashboard on a desktop."""
    context = browser.new_context(viewport=DESKTOP, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{url}/d/{survey}")
    page.get_by_test_id("history-chart").wait_for()
    save(page, f"dashboard-{scheme}")
    context.close()


def save(page: Page, name: str, full_page: bool = False) -> None:
    """Write a picture, small enough for a repository."""
    path = IMAGES / f"{name}.png"
    page.mouse.move(0, 0)
    page.wait_for_timeout(500)  # until colours that follow the mouse have settled
    page.screenshot(path=path, full_page=full_page)
    size = path.stat().st_size
    if size > LARGEST:
        sys.exit(f"{path} has {size:,} bytes; at most {LARGEST:,} are wanted.")
    print(f"{path.relative_to(Path.cwd())}  {size:,} bytes")


if __name__ == "__main__":
    main()
