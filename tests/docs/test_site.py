"""`make docs`: the site builds strictly, has every name, loads nothing from other hosts, and can be searched."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.places import ROOT


def build(folder: Path, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    """Not `--quiet`, with which MkDocs does not count warnings, and nothing is strict."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", config, "-d", folder]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=env)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    ran = build(folder)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


def pages(site: Path) -> dict[str, str]:
    return {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}


def test_nothing_is_loaded_from_another_host(site: Path):
    for name, text in pages(site).items():
        loaded = re.findall(
            r"<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)", text
        )
        assert [url for url in loaded if "canonical" not in url] == [], name
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//", style.read_text(encoding="utf-8")), style


def test_the_reference_shows_signatures_and_options(site: Path):
    found = pages(site)
    designs = re.sub(r"<[^>]+>", "", found["api/designs.html"])
    assert re.search(r"design\(\s*prior: ", designs)
    assert 'id="tacit.plan._plan.Plan"' in found["api/plan.html"]
    assert "--target-rmse" in found["reference.html"]
    assert "POST /api/surveys/{survey}/reports" in found["http-api.html"]
    assert "<!-- command:" not in found["reference.html"]


def test_the_search_finds_a_command_and_a_function(site: Path):
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    titles = {entry["title"] for entry in index["docs"]}
    assert any("verify-page" in title for title in titles)
    assert any("round_channel" in title for title in titles)


def test_a_broken_link_stops_the_build(tmp_path: Path):
    """On a site of one page, with all other settings but the hook that fills pages."""
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[0]
    settings = settings.replace("hooks: [tools/site.py]\n", "").replace("tools/site.py", f"{ROOT}/tools/site.py")
    (tmp_path / "mkdocs.yml").write_text(settings, encoding="utf-8")
    (tmp_path / "docs").mkdir()
    for target, code in (("#here", 0), ("#nowhere", 1)):
        (tmp_path / "docs" / "index.md").write_text(f"# Here\n\n[there]({target})\n", encoding="utf-8")
        ran = build(tmp_path / "out", tmp_path / "mkdocs.yml")
        assert (ran.returncode != 0) == code, ran.stdout + ran.stderr
    assert "nowhere" in ran.stdout + ran.stderr
