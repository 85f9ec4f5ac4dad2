"""From a prior file to a plan: reading, designing once per prior, and finding the smallest budget."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from tacit import GroupPrior, Histogram, Plan, PlanError, Prior, Sum, Survey, WeightedSum, make_plan, read_priors
from tacit.designs import planning as module
from tacit.designs._design import FEW_VALUES, TABLE_LIMIT
from tacit.designs._methods import MOST_FOR_ALL_GROUPS
from tacit.designs._program.sets import MOST_CLIMBED
from tacit.designs._verification import verify_group
from tacit.designs.planning import (
    BUDGET_STEP,
    COMPARISON_LIMIT,
    HISTOGRAM_LIMIT,
    Uncertainty,
    ldp_comparison,
    make_task,
    smallest_budget,
)
from tacit.designs.rules import PUBLISHED_LIMIT
from tacit.prior import Ball

from support.places import ROOT

ONE = [GroupPrior(name=None, prior=Prior.of({"yes": 0.2, "no": 0.8}), share=Fraction(1))]


def read(tmp_path: Path, text: str) -> list[GroupPrior]:
    path = tmp_path / "priors.csv"
    path.write_text(text, encoding="utf-8")
    return read_priors(path)


def test_probabilities_without_groups(tmp_path):
    (group,) = read(tmp_path, "value,probability\nyes,0.1\nno,0.9\n")
    assert (group.name, group.share, group.epsilon) == (None, 1, None)
    assert group.prior == Prior.of({"yes": 1, "no": 9})


@pytest.mark.parametrize(
    ("text", "values", "weights"),
    [
        ("value,probability\nyes,0.1\nno,0.9\n", ("yes", "no"), (1, 9)),
        ("count,value\n3,10\n1,20\n", (10, 20), (3, 1)),
        ("\ufeffvalue,count\n1.5,1\n2,3\n", (1.5, 2.0), (1, 3)),
    ],
)
def test_values_are_numbers_where_all_are(tmp_path, text, values, weights):
    (group,) = read(tmp_path, text)
    assert (group.prior.values, group.prior.weights) == (values, weights)


def test_groups_share_a_domain_and_weigh_by_their_counts(tmp_path):
    text = "\ufeffgroup,value,count,epsilon,weight,offset\na,1,3,0.5,2,-1\na,2,1,0.5,2,-1\nb,3,4,1/3,,\n"
    first, second = read(tmp_path, text)
    assert first.prior.values == second.prior.values == (1, 2, 3)
    # Never seen is not impossible: half a record.
    assert first.prior.weights == (6, 2, 1)
    assert (first.share, second.share) == (Fraction(1, 2), Fraction(1, 2))
    assert (first.epsilon, first.weight, first.offset) == (Fraction(1, 2), 2, -1)
    assert (second.epsilon, second.weight, second.offset) == (Fraction(1, 3), 1, 0)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "an empty file"),
        ("value\nyes\n", "'probability' or 'count'"),
        ("name,count\na,1\n", "header must name 'value'"),
        ("value,count\n", "no rows"),
        ("value,count\nyes,1\nno\n", "line 3: expected 2 cells"),
        ("value,count\nyes,1,7\n", "line 2: expected 2 cells"),
        ("value,count\n,1\n", "line 2: 'value' must not be empty"),
        ("value,count\nyes,many\n", "line 2: 'count' must be a number"),
        ("value,count\nyes,-1\nno,2\n", "must not be negative"),
        ("value,count\nyes,0\nno,0\n", "at least one positive count"),
        ("value,count\n1,2\n1.0,3\n", "line 3: this value stands twice"),
        ("group,value,count,epsilon\na,1,1,1\na,2,1,2\n", "more than one epsilon"),
    ],
)
def test_malformed_files_are_refused_with_the_line(tmp_path, text, hint):
    with pytest.raises(ValueError, match=re.escape(hint)):
        read(tmp_path, text)


def test_a_file_that_is_not_text_is_refused(tmp_path):
    path = tmp_path / "priors.csv"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    with pytest.raises(ValueError, match=r"priors\.csv"):
        read_priors(path)


def test_tasks_by_name():
    numbers = [GroupPrior(name=None, prior=Prior.uniform(3), share=Fraction(1))]
    assert make_task("sum", [], numbers) == Sum()
    assert make_task("weighted-sum", [], numbers) == WeightedSum()
    assert make_task("histogram", [], numbers) == Histogram()
    assert make_task("survey", ["2"], numbers) == Survey(2)
    assert make_task("survey", ["2", "0", "2"], numbers) == Survey((2, 0))


def test_equal_groups_are_designed_once(monkeypatch):
    calls = []
    monkeypatch.setattr(module, "design", lambda *args, **kw: calls.append(args) or original(*args, **kw))
    priors = [GroupPrior(name=str(k), prior=ONE[0].prior, share=Fraction(1, 30)) for k in range(30)]
    plan = make_plan(priors, Survey("yes"), 1)
    assert len(plan.groups) == 30
    assert len(calls) == 1


original = module.design


@pytest.mark.parametrize(
    ("priors", "task", "target"),
    [
        (ONE, Survey("yes"), 10.0),
        ([GroupPrior(name=None, prior=Prior.of({0: 0.6, 1: 0.3, 5: 0.1}), share=Fraction(1))], Sum(), 30.0),
        (
            [
                GroupPrior(name="a", prior=Prior.of({"yes": 0.5, "no": 0.5}), share=Fraction(1, 4)),
                GroupPrior(name="b", prior=Prior.of({"yes": 0.1, "no": 0.9}), share=Fraction(3, 4)),
            ],
            Survey("yes"),
            8.0,
        ),
    ],
)
def test_the_planner_finds_the_smallest_budget(priors, task, target):
    shares = [each.share for each in priors]
    found = smallest_budget(priors, task, target, 1000, aim="mmse")
    epsilon = found.groups[0].epsilon
    assert found.expected_rmse(shares, 1000) <= target
    one_less = make_plan(priors, task, epsilon - BUDGET_STEP, aim="mmse")
    assert one_less.expected_rmse(shares, 1000) > target


def test_the_planner_says_what_is_out_of_reach():
    with pytest.raises(ValueError, match="out of reach"):
        smallest_budget(ONE, Survey("yes"), 1e-6, 1000)
    with pytest.raises(ValueError, match="must be positive"):
        smallest_budget(ONE, Survey("yes"), 0, 1000)
    stated = [GroupPrior(name=None, prior=ONE[0].prior, share=Fraction(1), epsilon=Fraction(1))]
    with pytest.raises(ValueError, match="their own budgets"):
        smallest_budget(stated, Survey("yes"), 5, 1000)


def test_the_expected_error_adds_over_groups_and_scales_with_weights():
    prior = Prior.of({0: 0.5, 1: 0.5})
    pair = [
        GroupPrior(name="a", prior=prior, share=Fraction(1, 2), weight=Fraction(3)),
        GroupPrior(name="b", prior=prior, share=Fraction(1, 2)),
    ]
    plan = make_plan(pair, WeightedSum(), 1, aim="mmse")
    error = plan.groups[0].certificate.mse
    assert plan.expected_rmse([Fraction(1, 2)] * 2, 100) == pytest.approx((50 * 9 * error + 50 * error) ** 0.5)
    without = plan.expected_rmse([Fraction(1, 2)] * 2, 100, "prior_variance")
    assert without == pytest.approx((50 * 9 * 0.25 + 50 * 0.25) ** 0.5)


def test_large_domains_are_not_compared_with_ldp():
    large = GroupPrior(name=None, prior=Prior.uniform(HISTOGRAM_LIMIT + 1), share=Fraction(1))
    assert ldp_comparison(large.prior, Histogram(), Fraction(1), "mmse") is None
    assert ldp_comparison(ONE[0].prior, Histogram(), Fraction(1), "mmse").certificate.mse > 0


def test_an_interrupted_design_interrupts_the_plan(monkeypatch):
    from dataclasses import replace

    def interrupted(*args, **options):
        found = original(*args, **options)
        return replace(found, certificate=replace(found.certificate, status="interrupted"))

    monkeypatch.setattr(module, "design", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_plan(ONE, Survey("yes"), 1)


def test_plans_of_many_large_groups_take_planes_that_are_read_in_seconds():
    """Each of twelve planes takes a part of a second to read; the same prior in all groups is one circle."""
    priors = {f"g{k}": Prior(range(300), [10**6 // (x + 1) + k for x in range(300)]) for k in range(12)}
    few = dict(list(priors.items())[:2])
    slots = []
    for asked in (priors, few, dict.fromkeys(priors, priors["g0"])):
        circles = [group.mechanism.circle for group in make_plan(asked, Histogram(), 1).groups]
        assert sum({circle.cells: circle.work for circle in circles}.values()) <= MOST_FOR_ALL_GROUPS
        slots.append(circles[0].slots)
    assert slots[0] < slots[1] == slots[2]


def test_errors_that_take_long_are_checked_by_audits_only():
    plan = make_plan(Prior(range(300), [10**6 // (x + 1) for x in range(300)]), Histogram(), 1)
    (group,) = plan.groups
    assert verify_group(group, plan.task).holds
    assert group.certificate is not None
    for name in ("unbiased_variance", "mse"):
        wrong = replace(group.certificate, **{name: getattr(group.certificate, name) * 1.01})
        read = Plan.from_dict(plan.changed(groups=(replace(group, certificate=wrong),)).to_dict())
        assert not verify_group(read.groups[0], plan.task).error_as_stated
    lying = replace(group.certificate, prior_variance=0.5)
    with pytest.raises(PlanError, match="prior_variance"):
        Plan.from_dict(plan.changed(groups=(replace(group, certificate=lying),)).to_dict())


def test_the_documentation_states_the_limits():
    reference = " ".join((ROOT / "docs/reference.md").read_text(encoding="utf-8").split())
    assert f"up to {HISTOGRAM_LIMIT} values of a histogram and {COMPARISON_LIMIT:,} of any other task" in reference
    assert f"computed up to {PUBLISHED_LIMIT}" in reference
    how_to = (ROOT / "docs/how-to.md").read_text(encoding="utf-8")
    assert (
        f"more than {MOST_CLIMBED} values ({FEW_VALUES + 1}, in a plan of many groups) gets the mechanism many"
        in how_to
    )
    assert f"With `--aim mmse` more than {TABLE_LIMIT:,} values get" in how_to


def test_each_group_has_a_set_of_priors_of_its_own():
    prior = Prior.of({"yes": 0.1, "no": 0.9})
    assert make_plan(prior, Survey("yes"), 1, uncertainty=Uncertainty(error="0.1")).groups[0].prior_set == Ball(
        prior, "0.1"
    )
