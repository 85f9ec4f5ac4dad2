"""The notebooks run from top to bottom, and their stored results are still what they print."""

from __future__ import annotations

import json
from typing import Any

import matplotlib
import pytest

from support.places import ROOT

FOLDER = ROOT / "docs" / "notebooks"


def run(name: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str, dict[str, Any]]:
    """What a notebook prints now, what it has stored, and the names that it defines."""
    matplotlib.use("agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    stored = ""
    for number, cell in enumerate(json.loads((FOLDER / name).read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{name}[{number}]", "exec"), names)
            stored += "".join("".join(each["text"]) for each in cell["outputs"] if each["output_type"] == "stream")
    return capsys.readouterr().out, stored, names


def test_the_analyst_finds_what_the_simulation_put_in(capsys: pytest.CaptureFixture[str]):
    printed, stored, names = run("analyst.ipynb", capsys)
    assert printed.splitlines()[:4] == stored.splitlines()[:4]
    frame = names["frame"]
    assert ((frame["share_low"] <= frame["truth"]) & (frame["truth"] <= frame["share_high"])).all()
    assert "north − south" in printed


def test_the_researcher_finds_the_stated_variance(capsys: pytest.CaptureFixture[str]):
    printed, stored, names = run("researcher.ipynb", capsys)
    assert printed.splitlines()[:6] == stored.splitlines()[:6]
    assert abs(sum(names["errors"]) / names["runs"] - names["stated"]) < 0.25 * names["stated"]
    # A named wrong answer: the variance for a population, which includes the spread of the answers.
    assert names["plan"].groups[0].certificate.aimed > 1.1 * names["stated"]
