"""Reports of which nearly every one is different: kept as sums, whatever the format, the split or the engine."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from tacit import Histogram, Plan, Prior, Randomizer, Sum, Tally, estimate, make_plan
from tacit.files import (
    InputError,
    load_tally,
    perturb_file,
    perturb_table,
    read_tally,
    save_tally,
    tally_by,
    tally_file,
)
from tacit.randomize import SeededWords
from tacit.tally import Coverage, merge_all

PRIOR = Prior([f"page {k}" for k in range(60)], [10**6 // (k + 1) for k in range(60)])


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(PRIOR, Histogram(), 1)


@pytest.fixture(scope="module")
def grouped() -> Plan:
    return make_plan({"a": PRIOR, "b": PRIOR}, Histogram(), 1)


def answers(n: int = 3000) -> list[str]:
    rng = np.random.default_rng(3)
    return [PRIOR.values[k] for k in rng.choice(60, n, p=PRIOR.probabilities[::-1])]


@pytest.mark.parametrize("extension", ["csv", "parquet", "jsonl", "arrow"])
def test_every_format_leads_to_the_same_sums(plan, tmp_path, extension):
    table = pa.table({"value": answers()})
    perturb_file(plan, table, tmp_path / f"r.{extension}", words=SeededWords(1))
    tally = tally_file(plan, tmp_path / f"r.{extension}")
    expected = Tally.of(plan, perturb_table(plan, table, words=SeededWords(1))["report"].to_numpy())
    assert tally == expected
    assert isinstance(tally.groups[None], Coverage)
    # Sixty numbers, however many reports.
    assert len(json.dumps(tally.to_dict())) < 2000


def test_any_split_merges_to_the_same_and_files_keep_it(plan, tmp_path):
    reports = Randomizer(plan).randomize(answers())
    whole = Tally.of(plan, reports)
    parts = [Tally.of(plan, part) for part in np.array_split(reports[::-1], 7)]
    assert merge_all(parts) == whole
    for name in ("t.json", "t.parquet"):
        save_tally(whole, tmp_path / name)
        assert load_tally(tmp_path / name) == whole
        assert read_tally(plan, tmp_path / name).n_reports == 3000


def test_groups_and_breakdowns(grouped, tmp_path):
    rng = np.random.default_rng(4)
    names = rng.choice(["a", "b"], 3000)
    table = pa.table({"value": answers(), "group": names, "city": np.where(names == "a", "x", "y")})
    reports = perturb_table(grouped, table, keep=["city"])
    whole, parts = tally_file(grouped, reports), tally_by(grouped, reports, ["city"])
    assert merge_all(parts.values()) == whole
    assert parts[("x",)].groups.keys() == {"a"}
    save_tally(whole, tmp_path / "t.parquet")
    assert load_tally(tmp_path / "t.parquet") == whole


def test_the_estimate_does_not_depend_on_the_prior_and_mmse_does(plan):
    held = answers(20_000)
    truth = np.array([held.count(value) for value in PRIOR.values])
    tally = Tally.of(plan, Randomizer(plan).randomize(held))
    free, trusting = estimate(plan, tally), estimate(plan, tally, "mmse")
    assert free.estimator == "unbiased"
    off = np.array([(row.estimate - n) / row.standard_error for row, n in zip(free.rows, truth, strict=True)])
    assert np.abs(off).max() < 5
    wrong = np.array([(row.estimate - n) / row.standard_error for row, n in zip(trusting.rows, truth, strict=True)])
    assert np.abs(wrong).max() > 20
    assert free.prior_check[0].contradicted


def test_sums_that_no_reports_can_have_are_refused(plan, tmp_path):
    tally = Tally.of(plan, Randomizer(plan).randomize(answers()))
    full = 3000 * 2**20
    forged = ([0] * 59, [-1] * 60, [0] * 60, [full] * 60, [full] + [0] * 59)
    for change in ({"total": 10}, *({"coverage": coverage} for coverage in forged)):
        data = tally.to_dict()
        data["groups"][0] |= change
        (tmp_path / "t.json").write_text(json.dumps(data))
        with pytest.raises((InputError, ValueError), match=r"coverage|tally"):
            estimate(plan, load_tally(tmp_path / "t.json"))
    table = make_plan(Prior.of({"yes": 1, "no": 1}), Histogram(), 1)
    with pytest.raises(ValueError, match=r"another mechanism|cannot add up"):
        estimate(table, Tally(table.hash, {None: tally.groups[None]}))


def test_numbers_between_the_values_in_files(tmp_path):
    plan = make_plan(Prior.of({0: 2, 20: 3, 50: 1}), Sum(), 1, between=(0, 60))
    rows = ["value", "12.5", "0", "60", "33"]
    (tmp_path / "a.csv").write_text("\n".join(rows) + "\n")
    assert perturb_file(plan, tmp_path / "a.csv", tmp_path / "r.csv").reports == 4
    (tmp_path / "a.csv").write_text("\n".join([*rows, "61", "ten", ""]) + "\n")
    with pytest.raises(InputError, match=r"unknown value: 2 \(rows 5, 6\)") as refused:
        perturb_file(plan, tmp_path / "a.csv", tmp_path / "r.csv")
    assert "61" not in str(refused.value)
    assert perturb_table(plan, {"value": [1.5, 2.5, 59.9]}).num_rows == 3
