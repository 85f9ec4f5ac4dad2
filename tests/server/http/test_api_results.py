"""Results over HTTP: exactly what `tacit estimate` says of the exported tally, to those who may see it."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from studies.baselines import k_ary_response
from tacit import (
    Histogram,
    Matrix,
    Prior,
    Sum,
    Survey,
    Task,
    WeightedSum,
    make_plan,
    mse,
    prior_variance,
    unbiased_variance,
)
from tacit.designs import adopt, repaired_response, rules
from tacit.estimates import Estimate, estimate
from tacit.files.tallies import load_tally
from tacit.plan import Certificate, Group, Plan
from tacit.server.storage.store import Submission, survey_id
from tacit.show.sentences import promise, row_name
from tacit.tally import Tally

from support.service import FIRST_DAY, PLANS, Client, Days, arc_plan, grouped_plan, key, plain_plan

ESTIMATORS = ["assisted", "unbiased", "mmse", "mle"]
Number = float | None


def collect(client: Client, plan: Plan, n: int = 400, seed: int = 1, name: str = "") -> None:
    """Count reports of every group, in any proportion."""
    chance = np.random.default_rng(seed)
    reports = []
    for k, group in enumerate(plan.groups):
        possible = np.flatnonzero(group.mechanism.can_send_many(np.arange(64)))
        drawn = chance.choice(possible, size=n)
        unique, times = np.unique(drawn, return_counts=True)
        reports += [(k, int(report), int(count)) for report, count in zip(unique, times, strict=True)]
    assert client.store.count([Submission(survey_id(plan), key(seed) + name, reports)]) == ["counted"]


def plain(number: float) -> Number:
    return number if math.isfinite(number) else None


def rows_of(plan: Plan, result: Estimate) -> list[dict[str, Any]]:
    """An estimate as the service should tell it."""
    return [
        {
            "name": row_name(plan, row.value),
            "estimate": plain(row.estimate),
            "standard_error": plain(row.standard_error),
            "margin": plain(row.margin),
            "low": plain(row.low),
            "high": plain(row.high),
            "prior": row.prior,
            "prior_share": row.prior_share,
        }
        for row in result.rows
    ]


def sum_plan(weighted: bool = False) -> Plan:
    prior = Prior(range(4), [4, 3, 2, 1])
    group = Group(name=None, epsilon=Fraction(1), mechanism=k_ary_response(prior, 1), notion="ldp")
    if weighted:
        return Plan.of_groups(WeightedSum(), (replace(group, weight=Fraction(5, 2), offset=Fraction(-1)),))
    return Plan.of_groups(Sum(), (group,))


class AtMost(Task):
    """A task of one's own, of which the service has no code."""

    def __init__(self, most: float) -> None:
        self.most = most

    def g(self, prior: Prior) -> Any:
        return prior.numbers <= self.most


def own_plan(task: Task) -> Plan:
    return make_plan(Prior(range(4), [4, 3, 2, 1]), task, 1, question="How many?")


def zero_plan() -> Plan:
    """A histogram with a value that nobody is believed to have: the unbiased estimator knows nothing of it."""
    prior = Prior.of({"a": 3, "b": 2, "none": 0})
    return Plan.of_groups(Histogram(), (Group(name=None, epsilon=Fraction(1), mechanism=repaired_response(prior, 1)),))


ALL = {name: make() for name, make in PLANS.items()} | {
    "sum": sum_plan(),
    "weighted sum": sum_plan(weighted=True),
    "zero": zero_plan(),
    "own task": own_plan(AtMost(1)),
    "matrix": own_plan(Matrix([["1/2", -1], [0, 3], [2, 0], [7, 7]], names=["first", "<second>"])),
}


@pytest.mark.parametrize("n", [0, 1, 400])
@pytest.mark.parametrize("plan", ALL.values(), ids=ALL)
def test_results_are_those_of_the_exported_tally(client: Client, plan: Plan, n: int):
    survey = client.open(plan)
    if n:
        collect(client, plan, n)
    for estimator in ESTIMATORS:
        check_results(client, survey, plan, estimator, n)


def check_results(client: Client, survey: str, plan: Plan, estimator: str, n: int) -> None:
    """Assert that an estimator's results are those of the exported tally, or that it is said not to work."""
    answer = client.get(f"{survey}/results", params={"estimator": estimator}, admin=True)
    offered = client.get(f"{survey}/results", admin=True).json()["estimators"]
    if offered == ["mmse"] != [estimator]:
        assert answer.status_code == 409
        said = answer.json()["detail"]
        assert "do not tell all values apart" in said or "no likelihood" in said
        return
    found = answer.json()
    # Where nothing says what the prior is worth it is not used.
    assert found["estimator"] == (estimator if estimator in offered and (n or estimator != "assisted") else "unbiased")
    expected = estimate(plan, Tally.from_dict(client.tally(survey)), estimator)  # type: ignore[arg-type]
    assert found["rows"] == rows_of(plan, expected)
    assert found["n_reports"] == expected.n_reports == n * len(plan.groups)
    assert found["influence"] == expected.influence
    assert found["counts_people"] == plan.task.counts_people
    assert [(check["group"], check["p_value"], check["contradicted"]) for check in found["prior_check"]] == [
        (check.group, check.p_value, check.contradicted) for check in expected.prior_check
    ]
    assert [(group["group"], group["promise"]) for group in found["groups"]] == [
        (group.name, promise(plan, group.name)) for group in plan.groups
    ]


def test_a_plan_without_a_prior_has_results_without_one(client: Client):
    plan = adopt(rules.warner(["yes", "no"], 0.75), Survey("yes"))
    survey = client.open(plan)
    collect(client, plan, 400)
    found = client.get(f"{survey}/results", admin=True).json()
    assert (found["estimators"], found["prior_check"], found["rows"][0]["prior"]) == (["unbiased", "mle"], [], None)
    refused = client.get(f"{survey}/results", params={"estimator": "mmse"}, admin=True)
    assert (refused.status_code, "this plan has none" in refused.json()["detail"]) == (409, True)


def test_each_plan_offers_the_estimators_that_work_for_it(client: Client):
    offered = {
        name: client.get(f"{client.open(plan)}/results", admin=True).json()["estimators"] for name, plan in ALL.items()
    }
    for name, plan in ALL.items():
        several = len(plan.groups) > 1
        assert offered[name] == (["mmse"] if name == "arc" else ESTIMATORS if several else ESTIMATORS[1:])


def test_all_the_facts_of_a_result(client: Client):
    survey = client.open(plain_plan())
    collect(client, plain_plan(), 100)
    found = client.get(f"{survey}/results", admin=True).json()
    assert {
        name: found[name] for name in ("survey", "question", "open", "opened", "task", "estimator", "level", "about")
    } == {
        "survey": plain_plan().hash[:16],
        "question": "How often?",
        "open": True,
        "opened": "2026-11-15",
        "task": "histogram",
        "estimator": "unbiased",
        "level": 0.95,
        "about": "Intervals are about the population that the reports stand for, sampling included.",
    }
    assert [row["prior"] for row in found["rows"]] == pytest.approx([60, 30, 10])
    levels = plain_plan().groups[0].levels
    assert found["groups"][0]["levels"] == {name: plain(level) for name, level in levels.items()}
    assert found["groups"][0]["epsilon"] == 1.0


def test_levels_without_a_bound_are_null(client: Client):
    survey = client.open(zero_plan())
    levels = client.get(f"{survey}/results", admin=True).json()["groups"][0]["levels"]
    assert levels == {name: plain(level) for name, level in zero_plan().groups[0].levels.items()}


def test_results_are_private_until_they_are_made_public(client: Client):
    survey = client.open(plain_plan())
    for path in (f"{survey}/results", f"{survey}/results.csv"):
        assert client.get(path).status_code == 401
        assert client.get(path, admin=True).status_code == 200
    client.patch(survey, {"public_results": True}, admin=True)
    for path in (f"{survey}/results", f"{survey}/results.csv"):
        assert client.get(path).status_code == 200
        assert client.get(path, headers={"Authorization": "Bearer wrong"}).status_code == 200
    assert client.get(f"{survey}/tally").status_code == 401, "the tally stays private"
    client.patch(survey, {"public_results": False}, admin=True)
    assert client.get(f"{survey}/results").status_code == 401


def test_few_rows_are_the_largest(client: Client):
    survey = client.open(arc_plan())
    collect(client, arc_plan())
    whole = client.get(f"{survey}/results", admin=True).json()
    cut = client.get(f"{survey}/results", params={"limit": 3}, admin=True).json()
    assert (len(whole["rows"]), whole["n_rows"], len(cut["rows"]), cut["n_rows"]) == (8, 8, 3, 8)
    assert cut["rows"] == sorted(whole["rows"], key=lambda row: -row["estimate"])[:3]
    for limit in (0, -1, 100_001, "many"):
        assert client.get(f"{survey}/results", params={"limit": limit}, admin=True).status_code == 422


def test_rows_without_an_estimate_come_last(client: Client):
    survey = client.open(zero_plan())
    collect(client, zero_plan(), 50)
    params = {"estimator": "unbiased", "limit": 2}
    cut = client.get(f"{survey}/results", params=params, admin=True).json()
    assert {row["name"] for row in cut["rows"]} == {"a", "b"}


def test_the_csv_has_all_rows(client: Client):
    survey = client.open(arc_plan())
    collect(client, arc_plan())
    answer = client.get(f"{survey}/results.csv", admin=True)
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == f'attachment; filename="{survey_id(arc_plan())}.csv"'
    rows = client.get(f"{survey}/results", admin=True).json()["rows"]
    read = list(csv.DictReader(io.StringIO(answer.text)))
    assert [{name: cell if name == "name" else float(cell) for name, cell in row.items()} for row in read] == rows


def test_the_csv_quotes_names(client: Client):
    prior = Prior.of({'a,"b"': 1, " c ": 1, "d;e": 2})
    plan = Plan.of_groups(Histogram(), (Group(name=None, epsilon=Fraction(1), mechanism=repaired_response(prior, 1)),))
    survey = client.open(plan)
    read = list(csv.DictReader(io.StringIO(client.get(f"{survey}/results.csv", admin=True).text, newline="")))
    assert [row["name"] for row in read] == list(prior.values)


def test_unknown_estimators_are_refused(client: Client):
    survey = client.open(plain_plan())
    assert client.get(f"{survey}/results", params={"estimator": "best"}, admin=True).status_code == 422


# -- days -----------------------------------------------------------------------------------------------------------


def test_the_history_has_a_day_for_each_day_with_reports(client: Client, days: Days):
    survey = client.open(plain_plan())
    for day, n in enumerate((100, 0, 50)):
        if n:
            collect(client, plain_plan(), n, seed=day)
        client.get(f"{survey}/results", admin=True)
        days.next()
    history = client.get(f"{survey}/results", admin=True).json()["history"]
    assert [(day["day"], day["n_reports"]) for day in history] == [
        (str(FIRST_DAY), 100),
        (str(FIRST_DAY + timedelta(days=2)), 150),
    ]
    whole = estimate(plain_plan(), Tally.from_dict(client.tally(survey)))
    reach = math.sqrt(np.mean([row.margin**2 for row in whole.rows])) / 150
    assert history[-1]["reach"] == pytest.approx(reach, rel=1e-12)
    assert history[0]["reach"] > history[1]["reach"]


def test_results_follow_every_new_report(client: Client, days: Days):
    """What was remembered of a day is used again only while nothing came."""
    survey = client.open(plain_plan())
    for number in range(4):
        client.report(survey, number, number % 3)
        if number == 1:
            days.next()
        found = client.get(f"{survey}/results", admin=True).json()
        expected = estimate(plain_plan(), Tally.from_dict(client.tally(survey)))
        assert found["n_reports"] == number + 1
        assert [row["estimate"] for row in found["rows"]] == [row.estimate for row in expected.rows]


def test_exported_days_are_tallies_that_the_command_reads(client: Client, days: Days, tmp_path: Path):
    survey = client.open(grouped_plan())
    parts = []
    for day in range(3):
        collect(client, grouped_plan(), 20 + day, seed=day)
        exported = client.tally(survey, since=str(days.day), until=str(days.day))
        (tmp_path / f"{day}.json").write_text(json.dumps(exported))
        parts.append(load_tally(tmp_path / f"{day}.json"))
        days.next()
    merged = parts[0].merge(parts[1]).merge(parts[2])
    assert merged.to_dict() == client.tally(survey)
    assert client.tally(survey, since="2027-01-01")["groups"] == []
    for day in ("yesterday", "0", "20261115", "2026-11-31", "2026-11-15T10:00:00", "2026-W46-7"):
        assert client.get(f"{survey}/tally", params={"since": day}, admin=True).status_code == 422, day


# -- certificates -----------------------------------------------------------------------------------------------


def certified() -> Plan:
    group = plain_plan().groups[0]
    error, variance = (measure(group.mechanism, Histogram()) for measure in (mse, unbiased_variance))
    certificate = Certificate(
        aim="mmse",
        mse=error,
        unbiased_variance=variance,
        prior_variance=prior_variance(group.prior, Histogram()),
        method="test",
    )
    return Plan.of_groups(Histogram(), (replace(group, certificate=certificate),), "certified")


def post(client: Client, plan: Plan, **fields: object) -> int:
    """Open a survey whose certificate says something else; the status of the answer."""
    data = plan.to_dict()
    data["blocks"][0]["groups"][0]["certificate"] |= fields
    headers = {"Content-Type": "application/json"}
    text = json.dumps({"plan": data})
    return client.request("POST", "/api/surveys", content=text, headers=headers, admin=True).status_code


@pytest.mark.parametrize("field", ["mse", "unbiased_variance", "prior_variance"])
@pytest.mark.parametrize("wrong", ["small", 0.0, -1.0, math.nan, 5e-324, 0.0123, 10**400])
def test_a_certificate_that_states_another_error_opens_no_survey(refusing: Client, field: str, wrong: object):
    assert post(refusing, certified(), **{field: wrong}) == 422
