from __future__ import annotations

import json
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import Histogram, Survey, WeightedSum
from tacit.files.columns import InputError
from tacit.personal.contract import PersonalPlan, perturb, prior_rows
from tacit.personal.estimates import PersonalTally
from tacit.personal.files import load_tally, perturb_file, quantise, save_tally, tally_file
from tacit.randomize.randomness import SeededWords

BINARY = PersonalPlan.of(Survey("yes"), ["no", "yes"], 1, 1000)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_quantising_keeps_the_sum_the_zeros_and_the_distance(data):
    d = data.draw(st.integers(2, 6))
    plan = PersonalPlan.of(Histogram(), list(range(d)), 1, data.draw(st.integers(d, 2000)))
    weights = data.draw(st.lists(st.integers(0, 10**6), min_size=d, max_size=d).filter(any))
    probabilities = np.array(weights) / sum(weights)
    (units,) = quantise(plan, probabilities[None])
    prior_rows(plan, units[None])
    assert ((units > 0) == (probabilities > 0)).all()
    assert (np.abs(units - plan.resolution * probabilities) < d).all()
    (again,) = quantise(plan, units[None] / plan.resolution)
    assert (again == units).all()


def test_two_values_are_rounded_half_up_and_stay_possible():
    assert quantise(BINARY, [0.3005, 0.3004, 0.0001, 0.99999, 0, 1, 1e-300])[:, 1].tolist() == [
        *(301, 300, 1, 999, 0, 1000, 1)
    ]
    with pytest.raises(ValueError, match="rows 2, 3"):
        quantise(BINARY, [0.5, 1.1, np.nan])


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl", "arrow"])
def test_priors_travel_from_the_answers_to_the_estimate(tmp_path, suffix):
    plan = PersonalPlan.of(Histogram(), ["a", "b", "c"], 1, 1000)
    rng = np.random.default_rng(6)
    beliefs = rng.dirichlet(np.ones(3), size=400)
    answers = np.array(plan.values)[rng.integers(0, 3, 400)]
    columns = {f"prior_{value}": beliefs[:, k] for k, value in enumerate(plan.values)}
    pa_csv.write_csv(pa.table({"value": answers, "region": ["north"] * 400, **columns}), tmp_path / "answers.csv")
    target = tmp_path / f"reports.{suffix}"
    done = perturb_file(plan, tmp_path / "answers.csv", target, keep=["region"], words=SeededWords(1))
    assert (done.rows, done.reports) == (400, 400)
    units = quantise(plan, beliefs)
    held = np.searchsorted(plan.values, answers)
    expected = PersonalTally.of(plan, units, perturb(plan, units, held, SeededWords(1)))
    assert tally_file(plan, target) == expected
    if suffix == "csv":
        assert target.read_text().splitlines()[0] == "region,prior_a,prior_b,prior_c,report,tacit_plan"


def test_bad_rows_stop_the_run_with_row_numbers_and_without_what_they_hold(tmp_path):
    table = {
        "value": ["no", "secret", None, "yes", "yes", "no"],
        "prior": [0.1, 0.2, 0.3, 1.5, None, 0.987654],
    }
    with pytest.raises(InputError) as stopped:
        perturb_file(BINARY, table, tmp_path / "reports.csv")
    text = str(stopped.value)
    for part in ("missing value: 1 (row 3)", "unknown value: 1 (row 2)", "2 (rows 4, 5)"):
        assert part in text
    assert "secret" not in text
    assert not (tmp_path / "reports.csv").exists()
    done = perturb_file(BINARY, table, tmp_path / "reports.csv", on_unknown="skip", keep_order=True)
    assert (done.rows, done.reports, sum(done.skipped.values())) == (6, 2, 4)
    lines = (tmp_path / "reports.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["prior", "100", "988"]
    with pytest.raises(InputError, match="answer cannot be kept"):
        perturb_file(BINARY, table, tmp_path / "other.csv", keep=["value"])


def test_reports_that_cannot_have_been_sent_are_refused():
    table = {"prior": [100, 100, 1001, -5, 0, 1000, 300], "report": [0, 2, 0, 1, 1, 1, None], "weight": [1.0] * 7}
    tally = tally_file(BINARY, table)
    assert (tally.n_reports, tally.refused) == (2, 5)
    heavy = table | {"weight": [1.0, 1, 1, 1, 1, 2.0**54, 1]}
    weighted = tally_file(PersonalPlan.of(WeightedSum(), [0, 1], 1, 1000), heavy, weight_column="weight")
    assert (weighted.n_reports, weighted.refused) == (1, 6)


def test_the_four_commands_lead_to_an_estimate(tmp_path, tacit_on_path):
    rng = np.random.default_rng(3)
    priors = rng.uniform(0.05, 0.6, 3000)
    answers = np.where(rng.random(3000) < priors, "yes", "no")
    lines = [f"{answer},{prior:.4f}" for answer, prior in zip(answers, priors, strict=True)]
    (tmp_path / "answers.csv").write_text("\n".join(["value,prior", *lines]) + "\n")

    def tacit(*words: str) -> str:
        command = [tacit_on_path / "tacit", "personal", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout

    tacit("plan", "no", "yes", "--task", "survey", "--value", "yes", "--epsilon", "1", "-o", "plan.json")
    done = json.loads(tacit("perturb", "plan.json", "answers.csv", "-o", "reports.csv", "--json"))
    assert (done["rows"], done["reports"]) == (3000, 3000)
    assert "yes" not in (tmp_path / "reports.csv").read_text()
    counted = json.loads(tacit("tally", "plan.json", "reports.csv", "-o", "tally.json", "--json"))
    assert (counted["file"], counted["n_reports"], counted["refused"]) == ("tally.json", 3000, 0)
    (row,) = json.loads(tacit("estimate", "plan.json", "tally.json", "--json"))["estimates"]
    # Five standard errors; guessing from nothing (half of all) is far outside.
    assert abs(row["estimate"] - (answers == "yes").sum()) < 5 * row["standard_error"]
    assert abs(1500 - (answers == "yes").sum()) > 5 * row["standard_error"]


def test_reports_are_counted_once_and_for_their_own_plan(tmp_path):
    plan, other = (PersonalPlan.of(Survey("yes"), ["no", "yes"], epsilon, 1000) for epsilon in (1, 2))
    answers = {"value": ["yes", "no"] * 60, "prior": [0.2, 0.5, 0.7] * 40}
    for extension in ("csv", "parquet"):
        perturb_file(plan, answers, tmp_path / f"reports.{extension}")
        with pytest.raises(InputError, match="another plan"):
            tally_file(other, tmp_path / f"reports.{extension}")
    first, second = (tally_file(plan, tmp_path / f"reports.{extension}") for extension in ("csv", "parquet"))
    assert first.merge(second).n_reports == 240
    save_tally(first, tmp_path / "tally.json")
    with pytest.raises(ValueError, match="counted the same reports"):
        first.merge(second).merge(load_tally(plan, tmp_path / "tally.json"))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (([100, 200], [1]), "one report for each prior. Got 1 for 2"),
        (([100, 200], [1, 0], [1.0]), "one weight for each prior. Got 1 for 2"),
        (([100, 200], [1, 0], [1.0, 1.0], 3.0), "one offset for each prior. Got 1 for 2"),
        (([100, 200], [0.7, 1.0]), "Reports must be integers"),
    ],
)
def test_columns_of_unequal_length_are_named(columns, said):
    with pytest.raises(ValueError, match=said):
        PersonalTally.of(BINARY, *columns)
