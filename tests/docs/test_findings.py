"""The recipes of docs/findings.md work in their order: shell commands, and Python by copy and paste.

Commands run in this process, so that a page of them takes a few seconds.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess

import pandas as pd
import pytest
from typer.testing import CliRunner

from tacit.cli.everything import app

from support.places import ROOT

PAGE = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")


def test_the_recipes_work_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    done = {"tacit": set(), "python": 0}
    for kind, block in re.findall(r"^```(sh|python)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        if kind == "python":
            exec(compile(block, "findings.md", "exec"), {})
            done["python"] += 1
        elif block.startswith("tacit "):
            for line in block.splitlines():
                _, *words = shlex.split(line)
                ran = CliRunner().invoke(app, words)
                assert ran.exit_code == 0, f"{line}\n{ran.stdout}{ran.stderr}{ran.exception!r}"
                done["tacit"].add(words[0])
        else:
            subprocess.run(["bash", "-e", "-c", block], check=True)
    assert done == {
        "tacit": {"plan", "perturb", "tally", "estimate", "difference", "export", "regress"},
        "python": 2,
    }
    assert "95%" in capsys.readouterr().out


def test_the_recipe_for_r_runs(tmp_path, monkeypatch):
    """On the file of the page's own commands, and R's weighted mean is the one of Python."""
    if shutil.which("Rscript") is None:
        if os.environ.get("CI"):
            pytest.fail("R is missing: tools/system-packages.sh Rscript")
        pytest.skip("R is not installed")
    monkeypatch.chdir(tmp_path)
    for kind, block in re.findall(r"^```(sh|r)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        if kind == "r":
            script = block.replace("svymean(~pseudo, design)\n", "cat(coef(svymean(~pseudo, design)), '\\n')\n", 1)
            ran = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True)
            assert ran.returncode == 0, ran.stderr
            break
        for line in block.splitlines() if block.startswith("tacit ") else ():
            assert CliRunner().invoke(app, shlex.split(line)[1:]).exit_code == 0, line
        if not block.startswith("tacit "):
            subprocess.run(["bash", "-e", "-c", block], check=True)
    rows = pd.read_csv("pseudo.csv")
    mean = float((rows["pseudo"] * rows["weight"]).sum() / rows["weight"].sum())
    assert abs(float(ran.stdout.split()[0]) - mean) < 1e-6


def test_every_link_leads_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / link).exists(), link
