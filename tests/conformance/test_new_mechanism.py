"""Adding a mechanism touches its folder, a line in `KINDS`, a builder, and the browser's folder: nothing else.

A toy (`support/toy.py`, `kary_rule.js`) is planted with exactly these, and goes the whole way: design, plan file,
randomizer, files, Spark, estimates, service, browser.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit import Histogram, Plan, Prior, Randomizer, Tally, estimate, make_plan
from tacit.designs import _design
from tacit.designs._methods import Design, Request, designed
from tacit.estimates import pseudo_values
from tacit.exact import exp_below
from tacit.files import perturb_file, tally_file
from tacit.mechanism import KINDS
from tacit.plan import PlanError
from tacit.randomize import SeededWords
from tacit.server.storage.store import Store

from support import service, spark_cluster, toy
from support.places import CLIENT, ROOT, node
from support.toy import KaryRule

PRIOR = Prior.of({"a": 5, "b": 2, "c": 2, "d": 1})
HELD = np.repeat(np.arange(4), [3600, 2400, 1600, 400])


def kary(request: Request) -> Design:
    """The builder: the largest share of truth with 1 + d·truth/(2^w − truth) ≤ e^ε."""
    ratio, d = exp_below(min(request.promise.levels.values())), len(request.prior)
    truth = int((ratio - 1) * (1 << 32) / (d + ratio - 1))
    mechanism = KaryRule(prior=request.prior, truth=truth)
    return designed(request, mechanism, request.cheap_bound, duals=None, method="k-ary rule", status="feasible")


@pytest.fixture(autouse=True)
def _planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, KaryRule.kind, KaryRule)
    monkeypatch.setitem(_design._BUILDERS, "kary", kary)
    row = ("four values", lambda request: len(request.prior) == 4, ("kary",))
    monkeypatch.setattr(_design, "TABLE", (row, *_design.TABLE))


def planned() -> Plan:
    return make_plan(PRIOR, Histogram(), 1, notion="ldp")


def test_a_plan_file_holds_it_and_is_audited(tmp_path: Path) -> None:
    plan = planned()
    assert plan.groups[0].mechanism.kind == "kary-rule"
    plan.save(tmp_path / "plan.json")
    read = Plan.load(tmp_path / "plan.json")
    assert (read.hash, read.groups[0].mechanism) == (plan.hash, plan.groups[0].mechanism)
    assert 0.99 < read.groups[0].levels["ldp"] <= 1
    group = plan.groups[0]
    more = replace(group.mechanism, truth=int(group.mechanism.truth * 1.01))  # type: ignore[attr-defined]
    with pytest.raises(PlanError, match="not kept"):
        Plan(Histogram(), (replace(group, mechanism=more, certificate=None),))


def test_files_are_perturbed_tallied_and_estimated(tmp_path: Path) -> None:
    plan = planned()
    answers, reports = tmp_path / "answers.csv", tmp_path / "reports.csv"
    answers.write_text("value\n" + "".join(f"{PRIOR.values[x]}\n" for x in HELD))
    perturb_file(plan, answers, reports, words=SeededWords(3))
    tally = tally_file(plan, reports)
    assert tally.n_reports == len(HELD)
    tally.check(plan)
    assert Tally.from_dict(json.loads(json.dumps(tally.to_dict()))) == tally
    for estimator in ("assisted", "unbiased", "mmse", "mle"):
        found = estimate(plan, tally, estimator)
        assert sum(row.estimate for row in found.rows) == pytest.approx(len(HELD), rel=1e-6)
        for row, held in zip(found.rows, np.bincount(HELD), strict=True):
            # With the prior alone ("mmse") an interval is as wrong as the prior.
            assert estimator == "mmse" or abs(row.estimate - held) < 6 * row.standard_error + 1
    # The named wrong answer: counts of reports that are not corrected.
    assert abs(tally.groups[None].counted().counts[0] - 3600) > 6 * estimate(plan, tally).rows[0].standard_error
    rows = pseudo_values(plan, Randomizer(plan).reports(np.zeros(len(HELD), np.int64), HELD, SeededWords(4)))
    assert rows.sum(axis=1) == pytest.approx(np.ones(len(HELD)))


def test_spark_draws_and_counts_it(tmp_path: Path) -> None:
    """Workers import the package anew, so they get a copy of it with the mechanism's folder and its line in `KINDS`."""
    if missing := spark_cluster.missing():
        told = f"{missing} is missing, so a planted mechanism is UNTESTED on Spark: see tools/system-packages.sh java."
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    copy = tmp_path / "source" / "tacit"
    shutil.copytree(ROOT / "src" / "tacit", copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "mechanism" / "kary_rule").mkdir()
    shutil.copy(Path(toy.__file__), copy / "mechanism" / "kary_rule" / "__init__.py")
    kinds = copy / "mechanism" / "__init__.py"
    text, line = kinds.read_text(encoding="utf-8"), "    BlockDesign.kind: BlockDesign,\n"
    assert line in text
    planted = "from tacit.mechanism.kary_rule import KaryRule  # noqa: E402\n\n#: Every mechanism"
    kinds.write_text(
        text.replace("#: Every mechanism", planted, 1).replace(line, f"{line}    KaryRule.kind: KaryRule,\n")
    )
    plan = planned()
    plan.save(tmp_path / "plan.json")
    (tmp_path / "answers.csv").write_text("value\n" + "".join(f"{PRIOR.values[x]}\n" for x in HELD))
    environment = os.environ | {"PYTHONPATH": str(copy.parent), "PYSPARK_PYTHON": sys.executable}
    spark = ["--engine", "spark", "--master", "local[1]"]
    for words in (
        ["perturb", "plan.json", "answers.csv", "-o", "reports"],
        ["tally", "plan.json", "reports", "-o", "t.json"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "tacit", *words, *spark],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    tally = Tally.from_dict(json.loads((tmp_path / "t.json").read_text(encoding="utf-8")))
    found = estimate(plan, tally)
    assert tally.n_reports == len(HELD)
    for row, held in zip(found.rows, np.bincount(HELD), strict=True):
        assert abs(row.estimate - held) < 6 * row.standard_error + 1


def test_the_service_opens_a_survey_counts_and_tells_results(tmp_path: Path) -> None:
    plan = planned()
    reports = Randomizer(plan).reports(np.zeros(60, np.int64), HELD[::133][:60], SeededWords(5))
    store = Store(tmp_path / "data", service.Days())
    try:
        with service.serving(store) as client:
            survey = client.open(plan)
            for number, report in enumerate(reports.tolist()):
                assert client.report(survey, number, report) == "counted"
            bad = client.post(f"{survey}/reports", {"key": service.key(99), "group": None, "report": 4})
            assert bad.status_code == 422
            assert Tally.from_dict(client.tally(survey)) == Tally.of(plan, reports)
            results = client.get(f"{survey}/results", admin=True)
            assert results.status_code == 200, results.text
            found = results.json()
            assert found["n_reports"] == 60
            expected = estimate(plan, Tally.of(plan, reports), scope=found.get("scope", "participants"))
            assert [row["estimate"] for row in found["rows"]] == pytest.approx([row.estimate for row in expected.rows])
    finally:
        store.close()


def test_a_browser_draws_the_same_reports_from_the_same_words(tmp_path: Path) -> None:
    """A folder and a line in the browser's `KINDS`, in a copy of it; run by Node against Python, word for word."""
    plan, copy = planned(), tmp_path / "browser"
    shutil.copytree(CLIENT, copy, ignore=shutil.ignore_patterns("node_modules", "test"))
    (copy / "mechanism" / "kary_rule").mkdir()
    shutil.copy(Path(__file__).with_name("kary_rule.js"), copy / "mechanism" / "kary_rule" / "kary_rule.js")
    kinds = copy / "mechanism" / "kinds.js"
    text = kinds.read_text(encoding="utf-8")
    line = "  [BlockDesign.kind]: BlockDesign,\n"
    assert line in text
    imported = 'import { KaryRule } from "./kary_rule/kary_rule.js";\n'
    kinds.write_text(
        text.replace("import ", imported + "import ", 1).replace(line, line + "  [KaryRule.kind]: KaryRule,\n")
    )
    words = np.random.default_rng(6).integers(0, 2**32, (40, 2)).tolist()
    drawn = KaryRule.sampler([plan.groups[0].mechanism])  # type: ignore[list-item]
    expected = [drawn.one(0, k % 4, _Given(pair)) for k, pair in enumerate(words)]
    (tmp_path / "case.json").write_text(json.dumps({"plan": plan.to_dict(), "words": words}))
    (tmp_path / "run.mjs").write_text(
        """
        import { readFileSync } from "node:fs";
        import { openPlan } from "./browser/index.js";
        const { plan: data, words } = JSON.parse(readFileSync("case.json", "utf8"));
        const plan = await openPlan(data);
        const reports = words.map((pair, k) => {
          const left = pair.map(BigInt);
          return plan.randomize(null, plan.values[k % 4], { integer: () => left.shift() });
        });
        console.log(JSON.stringify({ hash: plan.hash, promise: plan.promise(null), reports }));
        """
    )
    (tmp_path / "package.json").write_text('{"type": "module"}')
    run = subprocess.run([node(), "run.mjs"], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    said = json.loads(run.stdout)
    assert said["hash"] == plan.hash
    assert said["reports"] == expected
    assert len(set(expected)) == 4


class _Given:
    """Two words that are given."""

    per_thread = False

    def __init__(self, words: list[int]) -> None:
        self.left = list(words)

    def integer(self, bits: int) -> int:
        assert bits == 32
        return self.left.pop(0)

    def draw(self, count: int, bits: int) -> np.ndarray:
        raise NotImplementedError
