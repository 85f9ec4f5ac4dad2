"""What an attack on the mechanism `many-values` found, and what was mended."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np

from browser.test_client import CLIENT, node
from tacit import Histogram, Plan, PlanError, Prior, Randomizer, Tally, estimate, make_plan
from tacit.designs import Search
from tacit.mechanism import ManyValues
from tacit.randomize import SeededWords

OPEN = """
import { readFileSync } from "node:fs";
const { openPlan } = await import(process.argv[1]);
await openPlan(readFileSync(0, "utf8"));
"""


def zipf(d: int) -> Prior:
    return Prior(range(d), [10**6 // (x + 1) for x in range(d)])


def test_the_default_plan_of_many_groups_is_opened_in_a_browser() -> None:
    """600 groups of 20 values."""
    for method in ("many-values", "auto"):
        plan = make_plan({f"g{k}": zipf(20) for k in range(600)}, Histogram(), epsilon=1, search=Search(method=method))
        command = [node(), "--input-type=module", "--eval", OPEN, (Path(CLIENT) / "index.js").as_uri()]
        done = subprocess.run(command, input=json.dumps(plan.to_dict()), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (method, done.stderr[-300:])


def test_seeds_reach_all_orders_or_the_circle_is_refused_or_reads_only_those_drawn() -> None:
    """With no seed there is one order; J as the mean over all of them gives estimates that are off by up to 0.6."""
    try:
        circle = ManyValues(
            prior=Prior.of([9, 1, 4, 2]), giants=0, covered=5, arc=5, step=2**28 // 12, cell_bits=5, seed_bits=0,
            word_bits=28, slots=5, first=3, second=1, light=3,
        )  # fmt: skip
    except ValueError:
        return
    reports = np.arange(circle.circle.orders << circle.cell_bits)
    likelihoods = np.array([[float(circle.likelihood(x, int(report))) for report in reports] for x in range(4)])
    means = likelihoods @ circle.pseudo_values(Histogram(), reports)
    assert np.abs(means - np.eye(4)).max() < 1e-5


def test_the_alarm_hears_a_crowd_on_a_light_value() -> None:
    """Half of 50,000 people hold a value that the prior gives a few; its estimate says so, the alarm does not."""
    plan, truth = make_plan(zipf(300), Histogram(), epsilon=1), zipf(300).probabilities.copy()
    truth[16:], truth[250] = 0.0, truth[16:].sum()
    held = np.random.default_rng(1).choice(300, 50_000, p=truth)
    tally = Tally.of(plan, Randomizer(plan).reports(np.zeros(len(held), np.int64), held, SeededWords(2)))
    found = estimate(plan, tally, "unbiased")
    assert found.rows[250].low > 50 * found.rows[250].prior
    assert any(check.contradicted for check in found.prior_check)


def test_a_ball_as_wide_as_it_gets_has_one_verdict() -> None:
    from attack.test_many_values import written

    plan = written([1, 1, 2], "50", "1", arc=4, step=100, light=0)
    command = [node(), "--input-type=module", "--eval", OPEN, (Path(CLIENT) / "index.js").as_uri()]
    done = subprocess.run(command, input=json.dumps(plan), capture_output=True, text=True, timeout=60, check=False)
    try:
        Plan.from_dict(plan)
    except PlanError:
        assert "PlanError" in done.stderr
    else:
        assert done.returncode == 0
