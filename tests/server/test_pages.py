"""The pages as files: nothing inline, nothing from elsewhere, and a charting library that is what its package holds."""

from __future__ import annotations

import hashlib
import json
import re

import pytest

from support.places import CLIENT, PAGES

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
    assert "<noscript>" in text


@pytest.mark.parametrize("path", sorted([*PAGES.glob("*.*"), *CLIENT.glob("*.js")]), ids=lambda path: path.name)
def test_nothing_points_elsewhere(path):
    found = re.findall(r"""["'(](?:https?:)?//[^"')\s]+""", path.read_text(encoding="utf-8"))
    assert [address for address in found if NAMESPACE not in address] == []


def test_the_check_for_addresses_can_fail():
    assert re.findall(r"""["'(](?:https?:)?//[^"')\s]+""", """<img src="//cdn.example/x.png">""")
