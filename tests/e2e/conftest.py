"""One service and one browser for all end-to-end tests; surveys are new, profiles empty.

The browser is for this package, not for the session: while Playwright runs, this thread has an event loop, which other
tests that start one of their own cannot bear.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

from support.browsing import Service, serving


def chromium() -> str:
    """The system's Chromium; without it these tests are skipped, except where everything must run.

    The same browser without windows comes first: 200 profiles open in two thirds of the time.
    """
    names = ("chromium-headless-shell", "chromium", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        told = "Chromium is missing, so the pages are UNTESTED: install Debian's package chromium."
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    return found


@pytest.fixture(scope="session")
def launching() -> dict[str, object]:
    """How to start the browser: root cannot have Chromium's sandbox."""
    return {"executable_path": chromium(), "args": ["--no-sandbox"] if os.geteuid() == 0 else []}


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="package")
def browser(playwright: Playwright, launching: dict[str, object]) -> Iterator[Browser]:
    opened = playwright.chromium.launch(**launching)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory, tacit_on_path: Path) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("collected"), tacit_on_path / "tacit") as running:
        yield running
