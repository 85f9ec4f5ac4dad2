"""`tacit audit` finds every number of a certificate again, or refuses it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from tacit import Histogram, Plan, Prior, Sum, Survey, make_plan
from tacit.designs import Uncertainty, verify_plan
from tacit.designs.planning import with_ldp
from tacit.plan import PlanError, contract_hash

PEOPLE = Prior.of({0: 0.5, 1: 0.3, 2: 0.15, 3: 0.05})
YEARS = Prior(range(1940, 1952), [1 + k % 3 for k in range(12)])
PLANS: dict[str, Any] = {
    "mmse": lambda: make_plan(PEOPLE, Histogram(), 2, aim="mmse"),
    "unbiased": lambda: make_plan(PEOPLE, Histogram(), 1),
    "survey": lambda: make_plan(PEOPLE, Survey(1), 2),
    "survey, mmse": lambda: make_plan(PEOPLE, Survey(1), 2, aim="mmse"),
    "knots": lambda: make_plan(YEARS, Sum(), 1),
    "ball": lambda: make_plan(PEOPLE, Histogram(), 1, uncertainty=Uncertainty(error="0.02")),
    "large values": lambda: make_plan(Prior([10**8, 10**8 + 1, 10**8 + 2], [1, 1, 2]), Sum(), 1),
}


@cache
def planned(name: str) -> str:
    return json.dumps(with_ldp(PLANS[name]()).to_dict())


def altered(name: str, **fields: Any) -> None:
    """Audit the plan with other fields in its certificate."""
    data = json.loads(planned(name))
    stated = data["blocks"][0]["groups"][0]["certificate"]
    stated |= {field: change(stated) for field, change in fields.items()}
    verify_plan(Plan.from_dict(data))


OTHER = {"mmse": "unbiased", "unbiased": "mmse"}
ALTERED: dict[str, dict[str, Any]] = {
    "optimal": {"status": lambda _: "optimal"},
    "no gap": {"gap": lambda _: 0.0},
    "bound of the other aim": {"mse_lower_bound": lambda stated: stated["mse"] * 2},
    "a higher bound": {"lower_bound": lambda stated: stated["lower_bound"] * 1.001},
    "no bound": {"lower_bound": lambda _: 0.0},
    "no variance": {"unbiased_variance": lambda _: None},
    "a lower variance": {"unbiased_variance": lambda stated: stated["unbiased_variance"] * 0.999},
    "a lower mse": {"mse": lambda stated: stated["mse"] * 0.999},
    "the other aim": {"aim": lambda stated: OTHER[stated["aim"]]},
    "a worse LDP": {"ldp_aimed": lambda stated: stated["ldp_aimed"] * 1.1},
    "a better LDP": {"ldp_aimed": lambda stated: stated["ldp_aimed"] * 0.9},
}


def rehashed(data: dict[str, Any]) -> Plan:
    """A plan whose contract was altered, by somebody who knows how to make it consistent."""
    return Plan.from_dict(data | {"hash": contract_hash(data)})


def test_groups_that_differ_in_their_promise_are_verified_each():
    """The named wrong way: groups of the same prior, budget and certificate are verified once."""
    groups = {"one": PEOPLE, "two": PEOPLE}
    ldp = json.loads(json.dumps(make_plan(groups, Histogram(), 1, notion="ldp").to_dict()))
    ldp["blocks"][0]["groups"][1]["notion"] = "lip"
    ball = json.loads(json.dumps(make_plan(groups, Histogram(), 1, uncertainty=Uncertainty(error="0.1")).to_dict()))
    del ball["blocks"][0]["groups"][1]["prior_set"], ball["blocks"][0]["groups"][1]["levels"]["lip_set"]
    for data in (ldp, ball):
        with pytest.raises(PlanError, match="no channel is better"):
            verify_plan(rehashed(data))


def test_a_plan_that_promises_ldp_is_not_compared_with_it():
    data = json.loads(json.dumps(make_plan(PEOPLE, Histogram(), 1, notion="ldp").to_dict()))
    verify_plan(Plan.from_dict(data))
    stated = data["blocks"][0]["groups"][0]["certificate"]
    stated["ldp_aimed"] = stated["unbiased_variance"] * 1.04
    with pytest.raises(PlanError, match="compares with LDP"):
        verify_plan(Plan.from_dict(data))


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_as_it_was_written_passes(name: str) -> None:
    altered(name)


#: Of plans whose bound is searched for again, which takes long, those that depend on it.
CASES = [
    (name, change)
    for name in PLANS
    for change in ALTERED
    if name in ("mmse", "unbiased", "survey, mmse") or change in ("a higher bound", "the other aim", "a better LDP")
]


@pytest.mark.parametrize(("name", "change"), CASES)
def test_an_altered_certificate_is_refused(name: str, change: str) -> None:
    with pytest.raises(PlanError):
        altered(name, **ALTERED[change])
