from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from fractions import Fraction
from importlib.resources import files
from typing import get_args

import pytest

from studies.baselines import k_ary_response
from tacit import Channel, Histogram, Prior, Sum, Survey, WeightedSum, design, make_plan, mse
from tacit.designs import Search, optimal_binary, repaired_response
from tacit.designs._verification import verify_group
from tacit.designs.rules import theorem3
from tacit.mechanism import Notion
from tacit.plan import Group, Plan, PlanError, contract_hash

PRIOR = Prior.of({"yes": 0.1, "no": 0.9})


def survey_plan() -> Plan:
    young, old = PRIOR, Prior.of({"yes": 0.3, "no": 0.7})
    return Plan.of_groups(
        Survey("yes"),
        (
            Group(name="young", epsilon=Fraction(1), mechanism=optimal_binary(young, 1)),
            Group(name="old", epsilon=Fraction(1, 2), mechanism=optimal_binary(old, 0.5)),
        ),
        question="Do you have the disease?",
    )


@pytest.mark.parametrize("task", [Survey("yes"), Survey(("yes", "no")), Histogram()], ids=str)
def test_round_trip_keeps_everything(tmp_path, task):
    plan = Plan.of_groups(task, survey_plan().groups, "Why?")
    path = tmp_path / "plan.json"
    plan.save(path)
    again = Plan.load(path)
    assert again.hash == plan.hash
    assert again.to_dict() == plan.to_dict()
    assert again.task == task
    assert (again.groups[1].mechanism.weights == plan.groups[1].mechanism.weights).all()


@pytest.mark.parametrize("task", [Sum(), WeightedSum()], ids=str)
def test_numbers_survive_as_numbers(tmp_path, task):
    prior, weight = Prior.of({0: 1, 2.5: 2, 10: 1}), Fraction(1, 3 if task.takes_weights else 1)
    plan = Plan.of_groups(
        task,
        (
            Group(
                name=None,
                epsilon=Fraction(1),
                mechanism=repaired_response(prior, 1),
                weight=weight,
            ),
        ),
    )
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert again.values == (0, 2.5, 10)
    assert again.groups[0].weight == weight
    if not task.takes_weights:
        with pytest.raises(PlanError, match="weighted sum only"):
            Plan.of_groups(task, (replace(plan.groups[0], weight=Fraction(2)),))


@pytest.mark.parametrize("aim", ["mmse", "unbiased"])
def test_a_plan_is_read_from_what_it_writes_without_a_file(aim):
    """Its numbers are Python's: a float of numpy was refused."""
    plan = make_plan(Prior.of({"yes": 1, "no": 9}), Survey("yes"), 1, aim=aim)
    assert Plan.from_dict(plan.to_dict()).to_dict() == plan.to_dict()


def test_the_hash_names_the_contract_and_not_what_is_derived():
    data = survey_plan().to_dict()
    assert contract_hash(data) == data["hash"]
    data["blocks"][0]["groups"][0]["levels"]["lip"] = 99
    assert contract_hash(data) == data["hash"]
    data["questions"][0]["text"] = {"": "Something else?"}
    assert contract_hash(data) != data["hash"]


def forged(change) -> dict:
    """A plan whose content was changed and whose hash was made to fit again."""
    data = copy.deepcopy(survey_plan().to_dict())
    change(data)
    data["hash"] = contract_hash(data)
    return data


def test_an_altered_plan_is_refused():
    data = survey_plan().to_dict()
    data["blocks"][0]["groups"][0]["mechanism"]["rows"][0][0] = "1"
    with pytest.raises(PlanError, match="altered"):
        Plan.from_dict(data)


def lower_epsilon(data):
    data["blocks"][0]["groups"][0]["epsilon"] = "9/10"


def skew_prior(data):
    data["blocks"][0]["groups"][0]["prior"] = ["1", "999"]


def unknown_mechanism(data):
    data["blocks"][0]["groups"][0]["mechanism"]["kind"] = "magic"


def unknown_task(data):
    data["blocks"][0]["task"] = {"kind": "magic"}


def no_answers(data):
    data["questions"][0]["answers"] = None


def drop_mechanism(data):
    del data["blocks"][0]["groups"][0]["mechanism"]


def understate(data):
    data["blocks"][0]["groups"][0]["levels"]["ldp"] = 0.5


def same_names(data):
    data["blocks"][0]["groups"][1]["group"] = "young"


def wrong_denominator(data):
    data["blocks"][0]["groups"][0]["mechanism"]["denominator"] = "7"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lower_epsilon, r"promise is not kept: group 'young' states LIP ε = 0.9 but reaches 1; someone believed"),
        (skew_prior, "promise is not kept"),
        (unknown_mechanism, "Unknown mechanism 'magic'"),
        (drop_mechanism, "malformed: the field 'mechanism' is missing"),
        (unknown_task, "The 'kind' of a task must be one of survey, sum, .* Got 'magic'"),
        (no_answers, "malformed: a field holds what it cannot hold; see docs/plan.md"),
        (understate, "understates the ldp level"),
        (same_names, "different names"),
        (wrong_denominator, "sum to its denominator"),
    ],
)
def test_a_plan_that_does_not_keep_its_promise_is_refused_whatever_its_hash(change, message):
    with pytest.raises(PlanError, match=message):
        Plan.from_dict(forged(change))


def in_group(**fields):
    return lambda data: data["blocks"][0]["groups"][0].update(fields)


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
        in_group(mechanism={"kind": "many-values", "giants": 0, "bins": 10**400}),
        in_group(
            mechanism={"kind": "table", "denominator": "3", "labels": [0, 1], "rows": [["2", "1"], ["1", "2"]]},
            prior=["1", "1"],
        ),
        lambda data: data["blocks"][0]["task"].update(values=[-1]),
        lambda data: data["questions"][0].update(answers=[None]),
        lambda data: data["blocks"][0].update(groups=[]),
    ],
)
def test_a_malformed_plan_is_refused_at_once_and_always_in_the_same_way(change):
    with pytest.raises(PlanError):
        Plan.from_dict(forged(change))


def test_a_lone_surrogate_has_no_hash():
    with pytest.raises(PlanError):
        Plan.from_dict(survey_plan().to_dict() | {"title": "\ud800"})


def test_the_published_channel_cannot_become_a_plan():
    with pytest.raises(PlanError, match=r"reaches 1\.90048; someone believed to be 'yes' with 10%"):
        Plan.of_groups(
            Survey("yes"),
            (Group(name=None, epsilon=Fraction(1), mechanism=theorem3(PRIOR, 1, force=True)),),
        )


@pytest.mark.parametrize("notion", ["mip", "pml", "min_lift", "LIP", "", None])
def test_a_plan_promises_lip_or_ldp(notion):
    """The other notions bound an average or one side: this table sends nearly every answer as it is, within MIP 1."""
    prior = Prior.of({"yes": 1, "no": 1})
    truth = Channel.from_weights(prior, [[2**16 - 1, 1], [1, 2**16 - 1]])
    group = Group(name=None, epsilon=Fraction(1), mechanism=truth, notion=notion)
    assert truth.audit().mip < truth.audit().lip_upper.epsilon < 1
    with pytest.raises(PlanError, match="promises lip or ldp"):
        Plan.of_groups(Survey("yes"), (group,))
    good = Plan.of_groups(Survey("yes"), (replace(group, notion="lip", epsilon=Fraction(12)),)).to_dict()
    good["blocks"][0]["groups"][0] |= {"notion": notion, "epsilon": "1"}
    with pytest.raises(PlanError, match="promises lip or ldp"):
        Plan.from_dict(good | {"hash": contract_hash(good)})
    schema = json.loads((files("tacit.plan") / "plan.schema.json").read_text())
    assert schema["$defs"]["group"]["properties"]["notion"]["enum"] == list(get_args(Notion))


def test_an_ldp_plan_is_held_to_ldp():
    Plan.of_groups(
        Survey("yes"),
        (Group(name=None, epsilon=Fraction(1), mechanism=k_ary_response(PRIOR, 1), notion="ldp"),),
    )
    with pytest.raises(PlanError, match="states LDP"):
        Plan.of_groups(
            Survey("yes"),
            (Group(name=None, epsilon=Fraction(1), mechanism=optimal_binary(PRIOR, 1), notion="ldp"),),
        )


# What is derived --------------------------------------------------------------------------------------------

PEOPLE = Prior.of({"a": 0.5, "b": 0.3, "c": 0.2})
CERTIFIED = {
    "table": make_plan(PEOPLE, Histogram(), 1, aim="mmse"),
    "unbiased": make_plan(PEOPLE, Histogram(), 1, aim="unbiased"),
    "weighted": make_plan(Prior.of({0: 0.5, 4: 0.3, 9: 0.2}), WeightedSum(), 1, aim="mmse"),
    "bins": make_plan(PEOPLE, Histogram(), 1, aim="mmse", search=Search(method="many-values")),
    # Nothing is left to estimate but rounding errors.
    "exhausted": make_plan(PEOPLE, Histogram(), 60, aim="mmse"),
}


def certified(name: str, **fields) -> dict:
    data = json.loads(json.dumps(CERTIFIED[name].to_dict()))
    data["blocks"][0]["groups"][0]["certificate"].update(fields)
    return data


@pytest.mark.parametrize("name", CERTIFIED)
def test_a_certificate_survives_the_file(name):
    assert (
        Plan.from_dict(certified(name)).groups[0].certificate.to_dict()
        == certified(name)["blocks"][0]["groups"][0]["certificate"]
    )


@pytest.mark.parametrize("name", ["table", "unbiased", "weighted", "bins"])
@pytest.mark.parametrize("field", ["mse", "unbiased_variance", "prior_variance"])
def test_a_certificate_that_states_another_error_is_refused(name, field):
    with pytest.raises(PlanError, match=f"states {field} = 0.0123; its mechanism has"):
        Plan.from_dict(certified(name, **{field: 0.0123}))


@pytest.mark.parametrize("field", ["mse", "prior_variance", "unbiased_variance"])
@pytest.mark.parametrize("wrong", ["0.4", True, [], float("nan"), -1, 10**400])
def test_an_error_that_is_not_a_number_is_refused(field, wrong):
    with pytest.raises(PlanError):
        Plan.from_dict(certified("table", **{field: wrong}))


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "optimal"},
        {"gap": 0.0},
        {"method": 7},
        {"notes": "none"},
        {"notes": [1]},
        {"aim": "best"},
        {"duals": "012"},
        {"duals": [0.1, "x", 0.1]},
        {"duals": [0.1, float("nan"), 0.1]},
        {"duals": [0.1] * 99},
        {"lower_bound": "0.1"},
        {"lower_bound": -0.1},
        {"lower_bound": 0.9},
        {"lower_bound": None},
        {"ldp_aimed": "0.5"},
        {"ldp_aimed": float("inf")},
        {"unbiased_variance": None},
    ],
    ids=str,
)
def test_a_certificate_says_what_certificates_say(fields):
    with pytest.raises(PlanError):
        Plan.from_dict(certified("table", **fields))


@pytest.mark.parametrize("level", [float("nan"), "1", True, float("inf"), []])
def test_a_level_is_a_number_or_null(level):
    data = certified("table")
    data["blocks"][0]["groups"][0]["levels"]["ldp"] = level
    with pytest.raises(PlanError):
        Plan.from_dict(data)


def test_numbers_that_only_python_reads_are_no_json(tmp_path):
    path = tmp_path / "plan.json"
    for constant in ("NaN", "Infinity"):
        path.write_text(json.dumps(certified("table")).replace('"ldp_aimed": null', f'"ldp_aimed": {constant}'))
        with pytest.raises(PlanError, match="is not JSON"):
            Plan.load(path)


@pytest.mark.parametrize("duals", [[], [0.1], [0.1] * 4])
def test_duals_are_counted_before_they_are_believed(duals):
    plan = CERTIFIED["table"]
    group = replace(plan.groups[0], certificate=replace(plan.groups[0].certificate, duals=tuple(duals)))
    with pytest.raises(ValueError, match=r"needs (3|12) duals"):
        verify_group(group, plan.task)


def test_names_hold_nothing_that_nobody_sees():
    for values in (("yes\0", "no"), ("yes", "no\u202e"), ("yes", "\u2066no")):
        with pytest.raises(PlanError, match="control characters"):
            make_plan(Prior(values, [1, 9]), Survey(values[0]), 1)
    with pytest.raises(PlanError, match="control characters"):
        make_plan({"north\u200f": PRIOR}, Survey("yes"), 1)
    # A joiner is part of how some scripts and pictures are written.
    assert make_plan(Prior(["a\u200db", "no"], [1, 9]), Survey("no"), 1).values[0] == "a\u200db"


def test_a_variance_is_not_stated_where_the_reports_tell_none():
    """Two reports do not tell three values apart."""
    plan = make_plan(Prior.of({0: 0.5, 1: 0.3, 2: 0.2}), Survey(0), 1, aim="mmse")
    data = json.loads(json.dumps(plan.to_dict()))
    assert Plan.from_dict(data).groups[0].certificate.unbiased_variance > 0
    histogram = Plan.of_groups(Histogram(), plan.groups)
    stated = design(plan.groups[0].prior, Histogram(), 1, aim="mmse").certificate
    claims = replace(stated, mse=mse(plan.groups[0].mechanism, Histogram()))
    for variance, refused in ((math.inf, False), (2.5, True)):
        group = replace(histogram.groups[0], certificate=replace(claims, unbiased_variance=variance))
        data = json.loads(json.dumps(Plan.of_groups(Histogram(), (group,)).to_dict()))
        if refused:
            with pytest.raises(PlanError, match=r"states unbiased_variance = 2\.5"):
                Plan.from_dict(data)
        else:
            assert Plan.from_dict(data).groups[0].certificate.unbiased_variance == math.inf


def test_an_ldp_cap_is_part_of_the_promise():
    plan = make_plan(PEOPLE, Histogram(), 1, aim="mmse", ldp_cap="1.5")
    data = plan.to_dict()
    assert data["blocks"][0]["groups"][0]["ldp_cap"] == "3/2"
    assert Plan.from_dict(data).groups[0].ldp_cap == Fraction(3, 2)
    data["blocks"][0]["groups"][0]["ldp_cap"] = "7/5"
    with pytest.raises(PlanError, match="altered"):
        Plan.from_dict(data)
    with pytest.raises(PlanError, match=r"states LDP ε = 1.4 but reaches 1.5"):
        Plan.from_dict(data | {"hash": contract_hash(data)})


def test_an_ldp_cap_does_not_loosen_a_promise_of_ldp():
    data = make_plan(PEOPLE, Histogram(), 1, aim="mmse", notion="ldp").to_dict()
    data["blocks"][0]["groups"][0] |= {"epsilon": "1/2", "ldp_cap": "9"}
    with pytest.raises(PlanError, match=r"states LDP ε = 0.5 but reaches 1"):
        Plan.from_dict(data | {"hash": contract_hash(data)})


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
