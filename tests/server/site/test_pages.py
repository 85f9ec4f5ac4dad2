"""The pages as files: nothing inline, nothing from elsewhere, and a charting library that is what its package holds."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from urllib.parse import urljoin

import pytest

from tacit.server.problems import MEDIA_TYPE, BusyError
from tacit.server.storage.store import Store

from support.places import CLIENT, PAGES
from support.service import Client, Days, serving

#: Names of XML namespaces look like addresses and are never fetched.
NAMESPACE = "http://www.w3.org/"


def test_the_charting_library_is_the_one_of_its_manifest():
    manifest = json.loads((PAGES / "vendor/manifest.json").read_text())
    content = (PAGES / "vendor" / manifest["file"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == manifest["sha256"]
    assert f"Chart.js v{manifest['version']}".encode() in content[:200]
    assert (PAGES / "vendor/chart.LICENSE.md").is_file()


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.html")), ids=lambda path: path.name)
def test_a_page_has_nothing_inline(page):
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]* src=)", text) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:", text) == []
    assert '<html lang="en"' in text
    assert "<noscript>" in text or "<script" not in text


@pytest.mark.parametrize(
    "path",
    sorted([*PAGES.glob("*.*"), *CLIENT.glob("*.js"), *CLIENT.glob("mechanism/**/*.js")]),
    ids=lambda path: path.name,
)
def test_nothing_points_elsewhere(path):
    found = re.findall(r"""["'(](?:https?:)?//[^"')\s]+""", path.read_text(encoding="utf-8"))
    assert [address for address in found if NAMESPACE not in address] == []


def test_the_check_for_addresses_can_fail():
    assert re.findall(r"""["'(](?:https?:)?//[^"')\s]+""", """<img src="//cdn.example/x.png">""")


# -- where nothing is -------------------------------------------------------------------------------------------------

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize(
    "path", ["/s/deadbeef", "/d/0123456789abcdef", "/s/%00", "/our/surveys/s/deadbeef", "/nothing"]
)
def test_a_browser_is_told_in_words_where_nothing_is_and_a_program_in_json(tmp_path: Path, path: str):
    store = Store(tmp_path / "data", Days())
    with serving(store, public_url="https://host.example/our/surveys/") as client:
        shown = client.get(path, headers=BROWSER)
        assert (shown.status_code, shown.headers["content-type"]) == (404, "text/html; charset=utf-8")
        for language in ("de", "es", "fr"):
            assert f'lang="{language}"' in shown.text
        assert "[0-9a-f]" not in shown.text
        (style,) = re.findall(r'href="([^"]+\.css)"', shown.text)
        assert client.get(urljoin(path, style)).headers["content-type"].startswith("text/css")
        told = client.get(path)
        assert (told.status_code, told.headers["content-type"]) == (404, MEDIA_TYPE)
    store.close()


def test_a_browser_that_asks_the_api_gets_json(client: Client):
    assert client.get("/api/surveys/0123456789abcdef", headers=BROWSER).headers["content-type"] == MEDIA_TYPE


def test_a_database_that_does_not_answer_leaves_the_page(client: Client, monkeypatch: pytest.MonkeyPatch):
    """The page says it in the visitor's language, and can be opened again."""

    def fail(_: str) -> None:
        raise BusyError("gone")

    monkeypatch.setattr(client.store, "survey", fail)
    assert client.get("/s/0123456789abcdef", headers=BROWSER).status_code == 200
