"""The recipes of docs/findings.md work in their order: shell commands, and Python by copy and paste.

Commands run in this process, so that a page of them takes a few seconds.
"""

from __future__ import annotations

import re
import shlex
import subprocess

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


def test_every_link_leads_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / link).exists(), link
