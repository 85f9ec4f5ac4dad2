"""The wheel: what is in it, and that each extra is enough for what its name promises, in a clean environment."""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import sys
import urllib.request
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

import tacit
from tacit import Prior, Survey, make_plan

from support import environments
from support.environments import Environment
from support.places import CLIENT, PAGES, ROOT

PLAN = """
from tacit import Prior, Survey, make_plan
plan = make_plan(Prior.of({"yes": 0.2, "no": 0.8}), Survey("yes"), epsilon=1)
"""

#: Some calls of the command, one after the other; where one fails, its exit code is printed as an error.
CALLS = """
import sys
from tacit.cli.everything import app
for words in {calls}:
    sys.argv = ["tacit", *words.split()]
    try:
        app()
    except SystemExit as stop:
        if stop.code:
            print(stop.code, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def files(wheel: Path) -> list[str]:
    with ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.fixture(scope="module")
def made(wheel: Path) -> Distribution:
    (found,) = distributions(path=[str(wheel)])
    return found


# -- what is in it --------------------------------------------------------------------------------------------------


def test_it_holds_what_the_library_and_the_service_read_at_run_time(files: list[str]):
    assert {"tacit/py.typed", "tacit/plan/plan.schema.json"} <= set(files)
    here = {path.relative_to(ROOT / "src").as_posix() for path in PAGES.rglob("*") if path.is_file()}
    client = [*CLIENT.glob("*.js"), *CLIENT.glob("mechanism/**/*.js")]
    here |= {"tacit/browser/" + path.relative_to(CLIENT).as_posix() for path in client}
    assert {"tacit/browser/index.js", "tacit/server/site/pages/survey.html"} <= here <= set(files)


def test_it_holds_every_module(files: list[str]):
    modules = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "tacit").rglob("*.py")}
    packed = {name for name in files if name.endswith(".py")}
    assert packed == modules


def test_it_holds_nothing_else(files: list[str]):
    assert not [name for name in files if not name.startswith(("tacit/", "tacit_privacy-"))]
    unwanted = re.compile(r"node_modules|/test|conftest|__pycache__|\.pyc$|/\.|package-lock|tsconfig")
    assert not [name for name in files if unwanted.search(name)]


def test_there_is_one_version(made: Distribution, wheel: Path):
    assert made.version == tacit.__version__
    assert wheel.name == f"tacit_privacy-{tacit.__version__}-py3-none-any.whl"
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [tacit.__version__]
    assert json.loads((CLIENT / "package.json").read_text(encoding="utf-8"))["version"] == tacit.__version__


def test_it_says_what_it_is(made: Distribution, files: list[str]):
    assert made.metadata["Name"] == "tacit-privacy"
    assert made.metadata["License-Expression"] == "Apache-2.0"
    assert f"tacit_privacy-{made.version}.dist-info/licenses/LICENSE" in files
    classifiers = made.metadata.get_all("Classifier") or []
    assert {"Typing :: Typed", "Topic :: Security", "Intended Audience :: Science/Research"} <= set(classifiers)
    assert [each for each in classifiers if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", each)]
    (command,) = made.entry_points
    assert (command.name, command.group) == ("tacit", "console_scripts")


# -- what each extra is enough for -----------------------------------------------------------------------------------


def test_an_environment_that_lacks_something_is_refused(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = environments.closure
    monkeypatch.setattr(environments, "closure", lambda wanted, extra: whole(wanted, extra) - {"numpy"})
    with pytest.raises(subprocess.CalledProcessError, match="pip"):
        Environment(tmp_path / "it", wheel, None, by_pip=True)


def test_without_an_extra_one_designs_audits_and_estimates(wheel: Path, tmp_path: Path):
    bare = Environment(tmp_path / "bare", wheel, None, by_pip=True)
    assert bare.needed == {"numpy", "scipy", "highspy", "threadpoolctl"}
    code = f"""{PLAN}
from tacit import Channel, Histogram, Plan, Tally, audit, design, estimate, verify
prior = Prior.of({{"a": 0.5, "b": 0.3, "c": 0.2}})
found = design(prior, Histogram(), 1)
assert verify(found).holds
assert audit(found.mechanism).lip.epsilon <= 1
assert audit(Channel.from_matrix(prior, [[0.5, 0.5]] * 3)).lip.epsilon == 0
plan.save("plan.json")
plan = Plan.load("plan.json")
print(estimate(plan, Tally.of(plan, [0, 1, 1])).n_reports)
"""
    assert bare.run("python", "-c", code, cwd=tmp_path) == "3\n"
    assert "pip install 'tacit-privacy[cli]'" in bare.run("tacit", "plan", cwd=tmp_path, code=1)


def test_the_extra_randomize_draws_reports(wheel: Path, tmp_path: Path):
    code = f"""{PLAN}
from tacit import Randomizer, Tally, estimate
reports = Randomizer(plan).randomize(["yes", "no"] * 50)
print(estimate(plan, Tally.of(plan, reports)).n_reports, Randomizer(plan).report(0, 1) in (0, 1))
"""
    assert Environment(tmp_path / "it", wheel, "randomize").run("python", "-c", code, cwd=tmp_path) == "100 True\n"


def test_the_extra_files_reads_and_writes_them(wheel: Path, tmp_path: Path):
    code = f"""{PLAN}
from tacit.files import perturb_file, tally_file
for name in ("reports.csv", "reports.parquet", "reports.jsonl", "reports.arrow"):
    perturb_file(plan, "answers.csv", name)
    print(tally_file(plan, name).n_reports)
"""
    write_answers(tmp_path)
    assert Environment(tmp_path / "it", wheel, "files").run("python", "-c", code, cwd=tmp_path) == "100\n" * 4


def test_the_extra_cli_leads_from_a_file_of_priors_to_an_estimate(wheel: Path, tmp_path: Path):
    command = Environment(tmp_path / "it", wheel, "cli", by_pip=True)
    write_answers(tmp_path)
    assert "estimate" in command.run("tacit", "--help", cwd=tmp_path)
    command.run("tacit", "plan", "priors.csv", "--task", "survey", "--value", "yes", "--epsilon", "1", cwd=tmp_path)
    # One process for all other commands: each of its own would import the same again.
    steps = [
        "perturb plan.json answers.csv -o reports.parquet",
        "tally plan.json reports.parquet",
        "estimate plan.json tally.json --html page.html --json",
    ]
    said = command.run("python", "-c", CALLS.format(calls=steps), cwd=tmp_path)
    assert json.loads(said[said.index("{") :])["n_reports"] == 100
    assert "<svg" in (tmp_path / "page.html").read_text(encoding="utf-8")
    # What other extras bring is named where it is missed.
    (tmp_path / "survey.xlsx").write_bytes(b"")
    missed = {
        "serve": "serve plan.json",
        "xlsx": "priors survey.xlsx --column x -o p.csv",
        "plot": "compare priors.csv --task survey --value yes --epsilon 1 --plot errors.svg",
        "analysis": "regress plan.json reports.parquet 1",
    }
    code = f"{CALLS.format(calls=list(missed.values()))}\nsys.exit(2)"
    told = command.run("python", "-c", code, cwd=tmp_path, code=2).splitlines()
    assert told[1::2] == ["2"] * len(missed)
    for extra, line in zip(missed, told[::2], strict=True):
        assert f"pip install 'tacit-privacy[{extra}]'" in line


def test_the_extra_analysis_fits_regressions(wheel: Path, tmp_path: Path):
    code = f"""{PLAN}
from tacit.files import perturb_table, regress_file
reports = perturb_table(plan, {{"value": ["yes", "no", "no"] * 120, "x": [1.0, 2.0, 3.0, 4.0] * 90}}, keep=["x"])
print([each.name for each in regress_file(plan, reports, "x", model="linear").fit.coefficients])
"""
    ran = Environment(tmp_path / "it", wheel, "analysis").run("python", "-c", code, cwd=tmp_path)
    assert ran == "['Intercept', 'x']\n"


def test_the_extra_plot_draws_comparisons(wheel: Path, tmp_path: Path):
    command = Environment(tmp_path / "it", wheel, "plot")
    (tmp_path / "priors.csv").write_text("value,probability\nyes,0.2\nno,0.8\n")
    words = ("--task", "survey", "--value", "yes", "--epsilon", "1", "--plot", "errors.svg")
    command.run("tacit", "compare", "priors.csv", *words, cwd=tmp_path)
    assert (tmp_path / "errors.svg").read_text().startswith("<?xml")


def test_the_extra_serve_runs_the_service(wheel: Path, tmp_path: Path):
    command = Environment(tmp_path / "it", wheel, "serve")
    make_plan(Prior.of({"yes": 0.2, "no": 0.8}), Survey("yes"), epsilon=1).save(tmp_path / "plan.json")
    with command.start("tacit", "serve", "plan.json", "--port", "0", "--json", cwd=tmp_path) as service:
        try:
            said = said_by(service)
            survey = said["surveys"][0]["survey"]
            for path, part in (("/healthz", "ok"), (f"/s/{survey}", "<html"), ("/client/plan.js", "class Plan")):
                with urllib.request.urlopen(said["url"] + path, timeout=20) as answer:
                    assert part in answer.read().decode()
            service.send_signal(signal.SIGINT)
            assert service.wait(20) == 0
        finally:
            service.kill()


def said_by(service: subprocess.Popen[str]) -> Any:
    """The JSON that the service prints when it takes connections."""
    said = ""
    for line in service.stdout or ():
        said += line
        if line == "}\n":
            break
    return json.loads(said)


def write_answers(folder: Path) -> None:
    """A prior and a hundred answers."""
    with open(folder / "priors.csv", "w", newline="") as file:
        csv.writer(file).writerows([("value", "probability"), ("yes", 0.2), ("no", 0.8)])
    with open(folder / "answers.csv", "w", newline="") as file:
        csv.writer(file).writerows([("value",), *[("yes",), ("no",)] * 50])
