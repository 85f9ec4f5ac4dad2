"""What the documentation shows is run: README code blocks, README commands, and what an import drags in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from support.places import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_python_example_works_by_copy_and_paste():
    (example,) = blocks("python")
    ran = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True)
    head, _, row = ran.stdout.splitlines()
    assert head.startswith("10,000 reports, estimator")
    name, estimated, low, high, *_ = row.replace(",", "").split()
    # The reports are drawn anew each time: allow three times the interval.
    assert name == "yes"
    assert 1000 - 2 * (float(high) - float(low)) < float(estimated) < 1000 + 2 * (float(high) - float(low))
    assert float(high) - float(low) < 700


def test_every_command_of_the_readme_is_a_make_target():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = [line.split()[1] for block in blocks("sh") for line in block.splitlines() if line.startswith("make ")]
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_commands_of_the_readme_lead_to_an_estimate(tmp_path, tacit_on_path):
    (tmp_path / "priors.csv").write_text("group,value,count\nyoung,yes,10\nyoung,no,990\nold,yes,300\nold,no,700\n")
    answers = ["group,value", *["young,no"] * 50, *["old,yes"] * 30, *["old,no"] * 20]
    (tmp_path / "answers.csv").write_text("\n".join(answers) + "\n")
    commands = [block for block in blocks("sh") if "tacit plan" in block]
    path = f"{tacit_on_path}:{os.environ['PATH']}"
    subprocess.run(["bash", "-e", "-c", *commands], cwd=tmp_path, check=True, env=os.environ | {"PATH": path})
    assert "<svg" in (tmp_path / "estimate.html").read_text()


def test_the_install_line_names_an_extra_that_exists():
    extras = re.findall(r"pip install '\.\[(\w+)\]'", README)
    assert extras == ["all"]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras)
    assert "pip install tacit" not in README


def test_every_link_of_the_readme_leads_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / link).exists(), link


def test_importing_tacit_imports_nothing_heavy():
    code = "import sys, tacit, tacit.designs; print(*sys.modules)"
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "tacit.designs" in imported
    assert not {"matplotlib", "typer", "rich", "scipy.stats", "scipy.optimize", "highspy"} & set(imported)


def python(*words: str, where: Path = ROOT) -> str:
    wide = os.environ | {"COLUMNS": "120"}
    command = [sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=where, env=wide).stdout


def test_the_command_tells_its_version():
    assert re.fullmatch(r"tacit \d+\.\d+\.\d+\n", python("-m", "tacit", "--version"))


def test_the_demo_tells_its_story_and_leaves_a_report(tmp_path, tacit_on_path):
    """With a few of its people at their browsers; `test_demo.py` looks at what became of each."""
    few = "demo.BROWSERS, demo.AGAIN = 60, 6; sys.executable = sys.argv[1]; everything.app(['demo'])"
    started = f"import sys; from tacit.cli import demo, everything; {few}"
    story = python("-c", started, str(tacit_on_path / "python"), where=tmp_path)
    assert "by ours only" in story
    truth = int(re.search(r"simulation only: ([\d,]+)", story)[1].replace(",", ""))
    low, high = (float(end.replace(",", "")) for end in re.search(r"([\d,.]+) … ([\d,.]+)", story).groups())
    # The interval is a 95% one and the reports are drawn anew each time: allow three times its width.
    assert low - (high - low) < truth < high + (high - low)
    assert "<svg" in (tmp_path / "out/demo/estimate.html").read_text()
