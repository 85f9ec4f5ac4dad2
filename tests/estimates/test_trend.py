"""Trends over several waves: the estimates of each, changes with intervals that hold, and the page."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit import Histogram, Plan, Prior, Sum, Survey, Tally, difference, estimate, make_plan, trend
from tacit.cli.everything import app
from tacit.exact import Floats
from tacit.tally import Counts

PRIOR = Prior.of({"yes": 0.3, "no": 0.7})


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    """Three waves of one series, with different priors and budgets."""
    first = make_plan(PRIOR, Survey("yes"), 2)
    second = replace(make_plan(Prior.of({"yes": 0.4, "no": 0.6}), Survey("yes"), 1), wave=2, series=first.hash)
    third = replace(make_plan(Prior.of({"yes": 0.5, "no": 0.5}), Survey("yes"), 2), wave=3, series=first.hash)
    return [first, second, third]


def counted(plan: Plan, truth: Floats, n: int, drawn: np.random.Generator) -> Tally:
    chances = np.asarray(truth) @ plan.groups[0].mechanism.table().matrix
    counts = drawn.multinomial(n, chances / chances.sum())
    return Tally(plan.hash, {None: Counts(np.flatnonzero(counts), counts[counts > 0])})


def rounds(plans: list[Plan], shares: list[float], n: int, drawn: np.random.Generator) -> list[tuple[Plan, Tally]]:
    return [(plan, counted(plan, [share, 1 - share], n, drawn)) for plan, share in zip(plans, shares, strict=True)]


def test_waves_are_in_the_order_of_their_series_and_changes_are_differences(plans):
    made = rounds(plans, [0.3, 0.32, 0.5], 20_000, np.random.default_rng(5))
    found = trend([made[2], made[0], made[1]])
    assert found.names == ("wave 1", "wave 2", "wave 3")
    rows = found.changes.rows
    assert [(row.part, row.other) for row in rows] == [
        ("wave 2", "wave 1"), ("wave 3", "wave 2"), ("wave 3", "wave 1"),
    ]  # fmt: skip
    (alone,) = difference(made[2][0], made[2][1], before=made[0][1], before_plan=made[0][0]).rows
    assert (rows[2].difference, rows[2].low, rows[2].high) == (alone.difference, alone.low, alone.high)
    for (plan, tally), each in zip(made, found.estimates, strict=True):
        assert each.rows == estimate(plan, tally).rows
    assert rows[1].significant
    assert rows[2].significant


def test_plans_of_no_series_keep_the_order_given(plans):
    other = make_plan(PRIOR, Survey("yes"), "1.5")
    made = rounds([other, plans[0]], [0.3, 0.3], 1000, np.random.default_rng(1))
    assert trend(made).names == ("round 1", "round 2")
    assert trend(made, names=["2024", "2025"]).names == ("2024", "2025")


def test_changes_are_covered_as_often_as_stated_and_estimates_are(plans):
    drawn, shares = np.random.default_rng(11), [0.3, 0.35, 0.42]
    kept, narrow, n = np.zeros(6), 0, 200
    for _ in range(n):
        found = trend(rounds(plans, shares, 3000, drawn))
        for k, (a, b) in enumerate(((1, 0), (2, 1), (2, 0))):
            row = found.changes.rows[k]
            kept[k] += row.low <= shares[a] - shares[b] <= row.high
            # The named wrong answer: the error of the later wave alone.
            error = found.estimates[a].per_respondent(found.estimates[a].rows[0]).standard_error
            narrow += k == 1 and abs(row.difference - (shares[a] - shares[b])) <= 1.96 * error
        for k, share in enumerate(shares):
            row = found.estimates[k].per_respondent(found.estimates[k].rows[0])
            kept[3 + k] += row.low <= share <= row.high
    assert (kept >= 0.92 * n).all()
    assert (kept <= 0.98 * n).all()
    assert narrow < 0.9 * n


def test_what_cannot_be_a_trend_is_refused(plans):
    made = rounds(plans, [0.3, 0.3, 0.3], 100, np.random.default_rng(1))
    with pytest.raises(ValueError, match="at least two"):
        trend(made[:1])
    with pytest.raises(ValueError, match="name for each"):
        trend(made, names=["a"])
    numbers = make_plan(Prior.of({0: 1, 1: 1}), Sum(), 1)
    with pytest.raises(ValueError, match="different things"):
        trend([made[0], (numbers, Tally.of(numbers, [0, 1]))])
    with pytest.raises(ValueError, match="no reports"):
        trend([made[0], (plans[1], Tally(plans[1].hash, {}))])


def test_the_trend_on_the_command_line_and_its_page(plans, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for k, (plan, tally) in enumerate(rounds(plans, [0.3, 0.35, 0.45], 9000, np.random.default_rng(3)), start=1):
        plan.save(f"plan{k}.json")
        (tmp_path / f"tally{k}.json").write_text(json.dumps(tally.to_dict()), encoding="utf-8")
    before = [word for k in (1, 2) for word in ("--before", f"tally{k}.json", "--before-plan", f"plan{k}.json")]
    command = ["difference", "plan3.json", "tally3.json", *before]
    said = CliRunner().invoke(app, [*command, "--html", "page.html", "--csv", "changes.csv"])
    assert said.exit_code == 0, said.output
    assert "wave 3" in said.output
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Over time" in page
    assert page.count('class="over"') == 2
    assert (tmp_path / "changes.csv").read_text(encoding="utf-8").count("\n") == 4
    told = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert [wave["wave"] for wave in told["waves"]] == ["wave 1", "wave 2", "wave 3"]
    assert len(told["differences"]) == 3
    assert CliRunner().invoke(app, [*command, "--by", "group"]).exit_code == 2
    assert CliRunner().invoke(app, [*command, "--before", "tally1.json"]).exit_code == 2


def test_histograms_have_a_chart_for_each_answer():
    plan = make_plan(Prior.of({"a": 5, "b": 3, "c": 2}), Histogram(), 1)
    drawn = np.random.default_rng(4)
    from tacit.show.page import page

    found = trend([(plan, counted(plan, [0.5, 0.3, 0.2], 4000, drawn)) for _ in range(2)])
    text = page(plan, found.estimates[-1], trend=found)
    assert text.count('class="over"') == 3
    assert len(found.changes.rows) == 3
