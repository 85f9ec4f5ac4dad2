"""Adding a mechanism touches its folder, a line in `KINDS`, a builder, and the browser's folder: nothing else.

A toy (`support/toy.py`, `kary_rule.js`) is planted with exactly these, and goes the whole way: design, plan file,
randomizer, files, estimates, service, browser; through Spark in `files/test_spark.py`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit import Histogram, Plan, Randomizer, Tally, estimate
from tacit.estimates import pseudo_values
from tacit.files import perturb_file, tally_file
from tacit.plan import PlanError
from tacit.randomize import SeededWords
from tacit.server.storage.store import Store

from support import service
from support.places import CLIENT, node
from support.toy import KaryRule, planted

HELD = np.repeat(np.arange(4), [3600, 2400, 1600, 400])


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Plan:
    return planted(monkeypatch)


def test_a_plan_file_holds_it_and_is_audited(plan: Plan, tmp_path: Path) -> None:
    assert plan.groups[0].mechanism.kind == "kary-rule"
    plan.save(tmp_path / "plan.json")
    read = Plan.load(tmp_path / "plan.json")
    assert (read.hash, read.groups[0].mechanism) == (plan.hash, plan.groups[0].mechanism)
    assert 0.99 < read.groups[0].levels["ldp"] <= 1
    group = plan.groups[0]
    more = replace(group.mechanism, truth=int(group.mechanism.truth * 1.01))  # type: ignore[attr-defined]
    with pytest.raises(PlanError, match="not kept"):
        Plan.of_groups(Histogram(), (replace(group, mechanism=more, certificate=None),))


def test_files_are_perturbed_tallied_and_estimated(plan: Plan, tmp_path: Path) -> None:
    answers, reports = tmp_path / "answers.csv", tmp_path / "reports.csv"
    answers.write_text("value\n" + "".join(f"{plan.values[x]}\n" for x in HELD))
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


def test_the_service_opens_a_survey_counts_and_tells_results(plan: Plan, tmp_path: Path) -> None:
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


def test_a_browser_draws_the_same_reports_from_the_same_words(plan: Plan, tmp_path: Path) -> None:
    """A folder and a line in the browser's `KINDS`, in a copy of it; run by Node against Python, word for word."""
    copy = tmp_path / "browser"
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
          const value = plan.questions[0].answers[k % 4];
          return plan.randomize(null, { value }, { integer: () => left.shift() }).report;
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
