"""Plans whose promise holds for a set of priors: read strictly, audited for the worst prior, named in the hash."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from tacit import Channel, Group, Histogram, Plan, PlanError, Prior, Sum, Survey, design, make_plan
from tacit.designs import Promise, Uncertainty
from tacit.prior import Ball, Box, Hull

PRIOR = Prior.of({"a": 0.5, "b": 0.3, "c": 0.15, "d": 0.05})
OTHER = Prior.of({"a": 0.4, "b": 0.35, "c": 0.15, "d": 0.1})
SETS = {
    "ball": Ball(PRIOR, "0.03"),
    "box": Box(PRIOR, ["0.45", "0.25", "0.1", "0.03"], ["0.55", "0.35", "0.2", "0.08"]),
    "hull": Hull(PRIOR, [OTHER]),
}
TASKS = {"histogram": Histogram(), "survey": Survey("d")}


def group_for(prior_set, task, **changes) -> Group:
    found = design(PRIOR, task, Promise(1, prior_set=prior_set))
    facts = {"name": None, "epsilon": Fraction(1), "mechanism": found.mechanism, "prior_set": prior_set}
    return Group(**facts | changes)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
@pytest.mark.parametrize("prior_set", SETS.values(), ids=SETS)
def test_a_plan_for_a_set_is_written_and_read_and_reaches_its_budget_and_no_more(prior_set, task):
    plan = Plan.of_groups(task, (group_for(prior_set, task),))
    again = Plan.from_dict(plan.to_dict())
    assert again.hash == plan.hash
    assert again.groups[0].prior_set == prior_set
    level = again.groups[0].levels["lip_set"]
    assert 0.98 < level <= 1
    assert again.groups[0].levels["lip"] <= level


@pytest.mark.parametrize("prior_set", SETS.values(), ids=SETS)
def test_a_design_for_the_prior_alone_is_refused_for_the_set_and_the_worst_prior_named(prior_set):
    tempting = design(PRIOR, Histogram(), 1).mechanism
    with pytest.raises(PlanError, match=r"reaches 1\.\d+, under the prior Prior\("):
        Plan.of_groups(Histogram(), (group_for(prior_set, Histogram(), mechanism=tempting),))


def test_the_set_is_part_of_the_hash():
    wide = Plan.of_groups(Histogram(), (group_for(SETS["ball"], Histogram()),))
    narrow = wide.changed(groups=(replace(wide.groups[0], prior_set=Ball(PRIOR, "0.02")),))
    assert wide.hash != narrow.hash
    altered = wide.to_dict()
    altered["blocks"][0]["groups"][0]["prior_set"] = {"kind": "ball", "radius": "1/10"}
    with pytest.raises(PlanError, match="altered"):
        Plan.from_dict(altered)


def test_a_set_around_another_prior_or_beside_ldp_is_refused():
    with pytest.raises(PlanError, match="around the prior"):
        Plan.of_groups(Histogram(), (replace(group_for(SETS["ball"], Histogram()), prior_set=Ball(OTHER, "0.001")),))
    with pytest.raises(PlanError, match="refines LIP"):
        Plan.of_groups(Histogram(), (group_for(SETS["ball"], Histogram(), notion="ldp", epsilon=Fraction(9)),))


def test_a_large_domain_keeps_its_promise_for_a_ball():
    many = Prior(range(300), [10**6 // (k + 1) for k in range(300)])
    plan = make_plan(many, Histogram(), 1, uncertainty=Uncertainty(error="0.1"))
    (group,) = plan.groups
    assert group.mechanism.kind == "many-values"
    assert group.levels["lip"] < 0.9 < group.levels["lip_set"] <= 1
    assert Plan.from_dict(plan.to_dict()).hash == plan.hash
    nominal = design(many, Histogram(), 1).mechanism
    with pytest.raises(PlanError, match="for a set of priors"):
        Plan.of_groups(Histogram(), (replace(group, mechanism=nominal),))


def test_an_ldp_cap_is_part_of_the_contract_and_kept():
    plan = make_plan(PRIOR, Histogram(), 1, ldp_cap="1.5")
    assert plan.groups[0].levels["ldp"] <= 1.5
    assert Plan.from_dict(plan.to_dict()).groups[0].ldp_cap == Fraction(3, 2)
    free = design(PRIOR, Histogram(), 1).mechanism
    with pytest.raises(PlanError, match=r"LDP ε = 1\.5 but reaches"):
        Plan.of_groups(Histogram(), (replace(plan.groups[0], mechanism=free),))


def test_without_a_set_the_plan_says_what_a_wrong_prior_costs():
    group = make_plan(PRIOR, Histogram(), 1).groups[0]
    exact, near, far = (group.levels_within(off) for off in ("0", "0.03", "0.1"))
    assert group.levels["lip"] == pytest.approx(exact, abs=1e-12)
    assert exact < near < far < group.levels["ldp"] <= 2
    assert group.levels_within("0.95") == pytest.approx(group.levels["ldp"], abs=1e-9)


@pytest.mark.parametrize(
    "uncertainty", [Uncertainty(error="0.05"), Uncertainty(records=2000), Uncertainty(records=2000, confidence="0.9")]
)
def test_numbers_between_have_sets_too(uncertainty):
    past = Prior(range(0, 101, 5), [30 - abs(k - 8) for k in range(21)])
    plan = make_plan(past, Sum(), 1, between=(0, 100), uncertainty=uncertainty)
    assert plan.between
    assert plan.groups[0].levels["lip_set"] <= 1
    assert Plan.from_dict(plan.to_dict()).between


def test_between_needs_an_ascending_range_and_a_sum():
    plan = make_plan(Prior.of({0: 1, 50: 2, 100: 1}), Sum(), 1, between=(0, 100))
    with pytest.raises(PlanError, match="ascending"):
        plan.changed(task=Histogram())
    wide = Prior.of({-1e308: 1, 1.3e308: 1})
    group = Group(name=None, epsilon=Fraction(1), mechanism=design(wide, Survey(-1e308), 1).mechanism)
    with pytest.raises(PlanError, match="ascending"):
        Plan.of_groups(Sum(), (group,), between=True)
    certain = Prior.of({0: 1, 50: 0, 100: 1})
    exposed = Channel.from_weights(certain, [[4, 0], [0, 4], [4, 0]])
    with pytest.raises(PlanError, match="positive prior"):
        Plan.of_groups(Sum(), (Group(name=None, epsilon=Fraction(1), mechanism=exposed),), between=True)
    with pytest.raises(ValueError, match="must be a sum"):
        make_plan(Prior.of({0: 1, 1: 1}), Histogram(), 1, between=(0, 1))
    with pytest.raises(ValueError, match="must hold all values"):
        make_plan(Prior.of({0: 1, 5: 1}), Sum(), 1, between=(0, 1))
