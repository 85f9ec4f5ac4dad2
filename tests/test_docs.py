"""What the documentation shows is run: README code blocks, README commands, and what an import drags in."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_python_example_works_by_copy_and_paste():
    (example,) = blocks("python")
    ran = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True)
    assert "someone believed to be" in ran.stdout
    assert ran.stdout.splitlines()[-2:] == ["LIP 0.4", "LDP 0.19"]


def test_every_command_of_the_readme_is_a_make_target():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = [line.split()[1] for block in blocks("sh") for line in block.splitlines() if line.startswith("make ")]
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_link_of_the_readme_leads_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / link).exists(), link


@pytest.mark.parametrize("heavy", ["matplotlib", "typer", "rich", "scipy.stats", "scipy.optimize", "highspy"])
def test_importing_tacit_imports_nothing_heavy(heavy):
    code = f"import sys, tacit, tacit.design; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_command_tells_its_version_and_the_demo_its_story():
    version = subprocess.run([sys.executable, "-m", "tacit", "--version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"tacit \d+\.\d+\.\d+\n", version.stdout)
    demo = subprocess.run([sys.executable, "-m", "tacit", "demo"], capture_output=True, text=True, check=True)
    assert "4.152" in demo.stdout
    assert "by ours only" in demo.stdout
