"""What a release needs: packages that build and pass their checks, one version, and the usual files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

import tacit

from support.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_lines_of_the_release_page_build_packages_that_pass_their_checks(tmp_path: Path):
    (block,) = re.findall(r"```sh\n(.*?)```", text("docs/releasing.md"), re.DOTALL)
    lines = [line.strip() for line in block.strip().splitlines()]
    assert [line.split()[2] for line in lines[:2]] == ["build", "twine"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for line in lines:
        here = line.replace(" dist/*", f" {tmp_path}/*").replace("--outdir dist", f"--outdir {tmp_path}")
        ran = subprocess.run(
            ["bash", "-ec", here], cwd=ROOT, env=os.environ | {"PATH": path}, capture_output=True, text=True
        )
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
    (wheel,), (source,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    with ZipFile(wheel) as archive:
        assert "tacit/browser/index.js" in archive.namelist()
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "src/tacit/__init__.py", "browser/index.js"} <= names
    assert not any(name.startswith(("out/", ".venv", "browser/node_modules")) for name in names)
    assert "index.d.ts" in ran.stderr


def test_there_is_one_version():
    recipe = re.search(r'set version = "(.+?)"', text("deploy/conda/meta.yaml"))[1]
    stated = yaml.safe_load(text("CITATION.cff"))["version"]
    assert {recipe, stated, json.loads(text("browser/package.json"))["version"]} == {tacit.__version__}


def test_the_recipe_for_conda_needs_what_the_package_needs():
    recipe = yaml.safe_load(re.sub(r"\{%.*?%\}\n|\{\{.*?\}\}", "", text("deploy/conda/meta.yaml")))
    needed = [line.replace(" ", "") for line in recipe["requirements"]["run"]]
    assert needed == [f"python{PROJECT['requires-python']}", *PROJECT["dependencies"]]
    extras = {line.replace(" ", "") for lines in PROJECT["optional-dependencies"].values() for line in lines}
    assert {line.replace(" ", "") for line in recipe["requirements"]["run_constrained"]} <= extras


def test_the_workflow_runs_what_runs_here():
    steps = yaml.safe_load(text(".github/workflows/ci.yml"))["jobs"]["check"]["steps"]
    assert {".ci/run", "make docs"} <= {step.get("run") for step in steps}


@pytest.mark.parametrize("name", [".github/ISSUE_TEMPLATE/bug.yml", ".github/ISSUE_TEMPLATE/wish.yml"])
def test_the_templates_have_fields_with_labels(name: str):
    template = yaml.safe_load(text(name))
    assert template["name"]
    assert all(field["type"] == "markdown" or field["attributes"]["label"] for field in template["body"])


def test_the_hooks_before_a_commit_are_the_linters_of_make_lint():
    hooks = yaml.safe_load(text(".pre-commit-config.yaml"))["repos"][0]["hooks"]
    makefile = text("Makefile")
    for hook in hooks:
        assert hook["entry"].split()[0].replace(".venv/bin", "$(BIN)") in makefile


def test_the_paper_cites_what_its_bibliography_has():
    cited = {key for group in re.findall(r"\[(@[^\]]+)\]", text("paper.md")) for key in re.findall(r"@(\w+)", group)}
    assert cited
    assert cited == set(re.findall(r"^@\w+\{(\w+),", text("paper.bib"), re.MULTILINE))
