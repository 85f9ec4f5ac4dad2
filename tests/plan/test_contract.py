from __future__ import annotations

import copy
import json
from fractions import Fraction

import pytest

from tacit import Histogram, Prior, Sum, Survey, WeightedSum
from tacit.designs import optimal_binary, repaired_response
from tacit.literature import k_ary_response, theorem3
from tacit.plan.contract import Group, Plan, PlanError, contract_hash

PRIOR = Prior.of({"yes": 0.1, "no": 0.9})


def survey_plan() -> Plan:
    young, old = PRIOR, Prior.of({"yes": 0.3, "no": 0.7})
    return Plan(
        Survey("yes"),
        (
            Group("young", young, Fraction(1), optimal_binary(young, 1)),
            Group("old", old, Fraction(1, 2), optimal_binary(old, 0.5)),
        ),
        question="Do you have the disease?",
    )


@pytest.mark.parametrize("task", [Survey("yes"), Survey(("yes", "no")), Histogram()], ids=str)
def test_round_trip_keeps_everything(tmp_path, task):
    plan = Plan(task, survey_plan().groups, "Why?")
    path = tmp_path / "plan.json"
    plan.save(path)
    again = Plan.load(path)
    assert again.hash == plan.hash
    assert again.to_dict() == plan.to_dict()
    assert again.task == task
    assert (again.groups[1].mechanism.weights == plan.groups[1].mechanism.weights).all()


@pytest.mark.parametrize("task", [Sum(), WeightedSum()], ids=str)
def test_numbers_survive_as_numbers(tmp_path, task):
    prior = Prior.of({0: 1, 2.5: 2, 10: 1})
    plan = Plan(task, (Group(None, prior, Fraction(1), repaired_response(prior, 1), weight=Fraction(1, 3)),))
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert again.values == (0, 2.5, 10)
    assert again.groups[0].weight == Fraction(1, 3)


def test_the_hash_names_the_contract_and_not_what_is_derived():
    data = survey_plan().to_dict()
    assert contract_hash(data) == data["hash"]
    data["groups"][0]["levels"]["lip"] = 99
    assert contract_hash(data) == data["hash"]
    data["question"] = "Something else?"
    assert contract_hash(data) != data["hash"]


def forged(change) -> dict:
    """A plan whose content was changed and whose hash was made to fit again."""
    data = copy.deepcopy(survey_plan().to_dict())
    change(data)
    data["hash"] = contract_hash(data)
    return data


def test_an_altered_plan_is_refused():
    data = survey_plan().to_dict()
    data["groups"][0]["mechanism"]["rows"][0][0] = "1"
    with pytest.raises(PlanError, match="altered"):
        Plan.from_dict(data)


def lower_epsilon(data):
    data["groups"][0]["epsilon"] = "9/10"


def skew_prior(data):
    data["groups"][0]["prior"] = ["1", "999"]


def unknown_mechanism(data):
    data["groups"][0]["mechanism"]["kind"] = "magic"


def drop_mechanism(data):
    del data["groups"][0]["mechanism"]


def understate(data):
    data["groups"][0]["levels"]["ldp"] = 0.5


def same_names(data):
    data["groups"][1]["group"] = "young"


def wrong_denominator(data):
    data["groups"][0]["mechanism"]["denominator"] = "7"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lower_epsilon, r"promise is not kept: group 'young' states LIP ε = 0.9 but reaches 1; someone believed"),
        (skew_prior, "promise is not kept"),
        (unknown_mechanism, "Unknown mechanism 'magic'"),
        (drop_mechanism, "malformed: KeyError"),
        (understate, "understates the ldp level"),
        (same_names, "different names"),
        (wrong_denominator, "sum to its denominator"),
    ],
)
def test_a_plan_that_does_not_keep_its_promise_is_refused_whatever_its_hash(change, message):
    with pytest.raises(PlanError, match=message):
        Plan.from_dict(forged(change))


def in_group(**fields):
    return lambda data: data["groups"][0].update(fields)


@pytest.mark.parametrize(
    "change",
    [
        in_group(epsilon="1e999999999"),
        in_group(epsilon="1/0"),
        in_group(epsilon=1),
        in_group(weight="nan"),
        in_group(prior="19"),
        in_group(prior=["1_0", "9"]),
        in_group(prior=["9" * 5000, "1"]),
        in_group(group=7),
        in_group(notion="trust me"),
        in_group(levels=[]),
        in_group(levels={"lip": "low"}),
        in_group(mechanism={"kind": "core-tail", "core": [], "share": "1e9999999", "growth": "2", "states": []}),
        in_group(
            mechanism={"kind": "table", "denominator": "3", "labels": [0, 1], "rows": [["2", "1"], ["1", "2"]]},
            prior=["1", "1"],
        ),
        lambda data: data["task"].update(values=[-1]),
        lambda data: data["domain"].update(values=None),
        lambda data: data.update(groups=[]),
    ],
)
def test_a_malformed_plan_is_refused_at_once_and_always_in_the_same_way(change):
    with pytest.raises(PlanError):
        Plan.from_dict(forged(change))


def test_a_lone_surrogate_has_no_hash():
    with pytest.raises(PlanError):
        Plan.from_dict(survey_plan().to_dict() | {"question": "\ud800"})


def test_the_published_channel_cannot_become_a_plan():
    with pytest.raises(PlanError, match=r"reaches 1\.90048; someone believed to be 'yes' with 10%"):
        Plan(Survey("yes"), (Group(None, PRIOR, Fraction(1), theorem3(PRIOR, 1, force=True)),))


def test_an_ldp_plan_is_held_to_ldp():
    Plan(Survey("yes"), (Group(None, PRIOR, Fraction(1), k_ary_response(PRIOR, 1), "ldp"),))
    with pytest.raises(PlanError, match="states LDP"):
        Plan(Survey("yes"), (Group(None, PRIOR, Fraction(1), optimal_binary(PRIOR, 1), "ldp"),))


def test_what_is_not_a_plan_is_refused(tmp_path):
    path = tmp_path / "plan.json"
    for text, message in (("{", "not JSON"), ("[]", "not a plan"), ('{"tacit_plan": 2}', "format 1")):
        path.write_text(text)
        with pytest.raises(PlanError, match=message):
            Plan.load(path)


def test_saving_is_atomic(tmp_path, monkeypatch):
    path = tmp_path / "plan.json"
    survey_plan().save(path)
    before = path.read_text()
    monkeypatch.setattr(json, "dumps", lambda *args, **kwargs: "\ud800")
    with pytest.raises(UnicodeEncodeError):
        survey_plan().save(path)
    assert path.read_text() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.json"]
