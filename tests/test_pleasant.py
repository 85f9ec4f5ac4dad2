"""What people type first: short forms, tables on the terminal and as frames, equality by content, errors that help."""

from __future__ import annotations

import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from tacit import (
    Channel,
    Histogram,
    Plan,
    Prior,
    PrivacyError,
    Randomizer,
    Sum,
    Survey,
    Tally,
    audit,
    belief,
    design,
    difference,
    estimate,
    make_plan,
    mse,
    satisfies,
    unbiased_variance,
    verify,
)  # fmt: skip
from tacit.estimates import regress
from tacit.files import perturb_table
from tacit.plan import PlanError

YES = {"yes": 0.1, "no": 0.9}
COIN = [[0.75, 0.25], [0.25, 0.75]]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan({"young": {"yes": 0.03, "no": 0.97}, "old": {"yes": 0.2, "no": 0.8}}, Survey("yes"), epsilon=1)


@pytest.fixture(scope="module")
def tally(plan: Plan) -> Tally:
    groups = ["young", "old"] * 2000
    return Tally.of(plan, Randomizer(plan).randomize(["yes", "no", "no", "no"] * 1000, groups, words=1), groups)


# -- short forms ----------------------------------------------------------------------------------------------------


def test_a_design_takes_a_mapping_and_the_name_of_a_task():
    found = design(YES, "histogram", 1)
    assert (found.prior, found.task) == (Prior.of(YES), Histogram())
    assert found.mechanism == design(Prior.of(YES), Histogram(), 1).mechanism
    assert design({0: 0.5, 1: 0.5}, "sum", 1).task == Sum()


@pytest.mark.parametrize(
    ("name", "said"), [("survey", r'give Survey\("yes"\)'), ("median", "histogram, quantiles, sum")]
)
def test_an_unknown_name_of_a_task_is_an_error_with_a_hint(name: str, said: str):
    with pytest.raises(ValueError, match=said):
        design(YES, name, 1)


def test_a_plan_takes_mappings_for_everybody_and_for_groups(plan: Plan):
    assert [group.name for group in plan.groups] == ["young", "old"]
    assert plan == make_plan({group.name: group.prior for group in plan.groups}, Survey("yes"), epsilon=1)
    assert make_plan(YES, "histogram", 1) == make_plan(Prior.of(YES), Histogram(), 1)


def test_what_takes_a_mechanism_takes_a_design():
    found = design(YES, Survey("yes"), 1)
    assert audit(found) == audit(found.mechanism)
    assert unbiased_variance(found, found.task) == found.certificate.unbiased_variance
    assert mse(found, found.task) == found.certificate.mse
    assert satisfies(found, "lip", 1)
    assert not satisfies(found, "lip", 0.9)
    assert belief(found, "yes") == belief(found.mechanism, "yes")


def test_words_take_a_seed(plan: Plan):
    randomizer = Randomizer(plan)
    drawn = [randomizer.reports(0, np.zeros(200, dtype=int), words=seed) for seed in (0, 0, 1)]
    assert (drawn[0] == drawn[1]).all()
    # A named wrong answer: the seed 0 is a seed, not "no words".
    assert (drawn[0] != drawn[2]).any()
    assert randomizer.report(0, 1, words=5) == randomizer.report(0, 1, words=5)
    one = make_plan(YES, "histogram", 1)
    first, again = (perturb_table(one, ["yes", "no"] * 100, words=0)["report"] for _ in range(2))
    assert first.equals(again)


def test_a_channel_of_ones_own_becomes_a_plan():
    plan = Plan.of(COIN, YES, Survey("yes"))
    (group,) = plan.groups
    # ln(14/5) = 1.02961…, rounded up.
    assert group.epsilon == Fraction("1.0297")
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    assert plan.expected_rmse([1], 100) > 0
    assert Plan.of(COIN, YES, "histogram", 1.5, notion="ldp").groups[0].promised == {"ldp": 1.5}
    assert Plan.of(design(YES, "histogram", 1).mechanism, YES, "histogram", 1).groups[0].epsilon == 1
    with pytest.raises(PrivacyError, match=r"reaches 1\.02"):
        Plan.of(COIN, YES, "histogram", 1)
    with pytest.raises(PlanError, match="no finite LIP level"):
        Plan.of([[1, 0], [0, 1]], YES, "histogram")
    result = estimate(plan, Tally.of(plan, Randomizer(plan).randomize(["yes"] * 4000, words=3)))
    assert 3500 < result.rows[0].estimate < 4500


# -- results --------------------------------------------------------------------------------------------------------


def test_an_estimate_prints_its_numbers(plan: Plan, tally: Tally):
    result = estimate(plan, tally, "unbiased")
    head, titles, row = str(result).splitlines()
    assert head.startswith("4,000 reports, estimator unbiased, 95% intervals about")
    assert titles.split() == ["estimate", "low", "high", "share", "low", "high"]
    name, number, low, high, *_ = row.split()
    assert name == "yes"
    assert float(low.replace(",", "")) < float(number.replace(",", "")) < float(high.replace(",", ""))
    assert math.isclose(float(number.replace(",", "")), result.rows[0].estimate, abs_tol=0.5)


def test_many_rows_are_cut_and_said_to_be():
    plan = make_plan(Prior.uniform(30), "histogram", 1)
    text = str(estimate(plan, Tally.of(plan, Randomizer(plan).reports(0, np.arange(30), words=1))))
    assert text.endswith("the largest 20 of 30 rows; all: to_frame()")
    assert len(text.splitlines()) == 23


def test_no_reports_print_as_such(plan: Plan):
    assert str(estimate(plan, Tally.of(plan, [], []))) == "no reports yet"


def test_frames_have_the_numbers_of_the_rows(plan: Plan, tally: Tally):
    result = estimate(plan, tally, by="group")
    frame = result.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame["group"].tolist() == [None, "young", "old"]
    assert frame["estimate"][0] == result.rows[0].estimate
    assert frame["estimate"][2] == result.parts["old"].rows[0].estimate
    assert result.to_frame("dict")["share"] == frame["share"].tolist()
    with pytest.raises(ValueError, match="pandas, polars or dict"):
        result.to_frame("arrow")


def test_a_missing_library_is_named(plan: Plan, tally: Tally, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(ImportError, match=r'install it, or take to_frame\("dict"\)'):
        estimate(plan, tally).to_frame("polars")


def test_differences_and_regressions_print_and_become_frames(plan: Plan, tally: Tally):
    found = difference(plan, tally, by="group")
    assert "old" in str(found)
    assert found.to_frame()["difference"][0] == found.rows[0].difference
    outcome = np.array([[0.0], [1.0], [1.0], [0.0]] * 10)
    fit = regress(outcome, np.ones((40, 1)), ["constant"], model="linear")
    assert fit.to_frame("dict")["name"] == ["constant"]
    assert str(fit).splitlines()[0] == "linear regression, 40 reports"


def test_what_has_results_has_a_dict_for_json(plan: Plan, tally: Tally):
    found = design(YES, "histogram", 1)
    for each in (audit(found), belief(found, "yes"), verify(found), found.certificate, estimate(plan, tally).rows[0]):
        assert json.loads(json.dumps(each.to_dict(), allow_nan=False))
    assert verify(found).to_dict()["holds"] is True
    assert audit(found).to_dict()["witness"]["high"] <= 0.1 * math.e + 1e-9


# -- equality -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [3, 600])
def test_a_plan_equals_itself_after_json_and_pickle(values: int):
    plan = make_plan(Prior(range(values), range(1, values + 1)), "histogram", 1)
    for same in (Plan.from_dict(json.loads(json.dumps(plan.to_dict()))), pickle.loads(pickle.dumps(plan))):
        assert same == plan
        assert same.groups == plan.groups
        assert hash(same) == hash(plan)
    other = make_plan(Prior(range(values), range(1, values + 1)), "histogram", 2)
    assert other != plan
    assert other.groups != plan.groups
    assert plan.reading(Survey(1)) != plan


def test_channels_are_equal_by_content():
    prior = Prior.of(YES)
    assert Channel.from_matrix(prior, COIN) == Channel.from_matrix(prior, COIN)
    assert Channel.from_matrix(prior, COIN) != Channel.from_matrix(prior, COIN[::-1])
    assert Channel.from_matrix(prior, COIN) != Channel.from_matrix(Prior.of({"yes": 0.5, "no": 0.5}), COIN)


def test_an_estimate_survives_pickle(plan: Plan, tally: Tally):
    result = estimate(plan, tally)
    assert pickle.loads(pickle.dumps(result)).to_dict() == result.to_dict()


# -- errors instead of silence --------------------------------------------------------------------------------------


def test_a_matrix_whose_rows_do_not_sum_to_one_is_refused():
    prior = Prior.of(YES)
    with pytest.raises(ValueError, match=r"Row 0 sums to 1.1. The columns do: the matrix seems transposed"):
        Channel.from_matrix(prior, np.array([[0.9, 0.2], [0.1, 0.8]]))
    with pytest.raises(ValueError, match=r"Row 1 sums to 0.4. Divide the rows by their sums"):
        Channel.from_matrix(prior, [[0.75, 0.25], [0.1, 0.3]])
    thirds = [[0.333333, 0.333333, 0.333334]] * 2
    assert Channel.from_matrix(prior, thirds).n_possible_reports == 3


def test_counts_of_a_series_keep_their_labels():
    counts = pd.Series(["no", "yes", "no", "no"]).value_counts()
    assert Prior.of(counts) == Prior.of({"no": 3, "yes": 1})
    assert Prior.of(Prior.of(YES)) == Prior.of(YES)
    assert Prior.of(np.array([1, 3])).values == (0, 1)
    with pytest.raises(ValueError, match="number"):
        Prior.of(pd.DataFrame({"yes": [1, 2], "no": [3, 4]}))
