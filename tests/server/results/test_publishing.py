"""Public results change by steps: whoever polls them learns tallies of many, and never one report."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tacit.estimates import QuestionView
from tacit.server.results.results import Results, central_epsilon, published
from tacit.server.storage.store import Store, Submission, survey_id

from support.service import Client, Days, grouped_plan, key, plain_plan, serving

NAME = survey_id(plain_plan())


def poll(client: Client, survey: str, admin: bool) -> dict[str, Any]:
    answer = client.get(f"{survey}/results", admin=admin, params={"estimator": "unbiased"})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def recovered(polls: list[dict[str, Any]]) -> list[int]:
    """The attack: a poll with one report more than the one before tells which it was, by how the estimates moved."""
    moves: dict[tuple[float, ...], int] = {}
    mechanism = plain_plan().groups[0].mechanism
    found = []
    for before, after in itertools.pairwise(polls):
        if after["n_reports"] - before["n_reports"] == 1:
            moved = [b["estimate"] - a["estimate"] for a, b in zip(before["rows"], after["rows"], strict=True)]
            found.append(moves.setdefault(tuple(np.round(moved, 6)), len(moves)))
    assert len(moves) <= (mechanism.n_possible_reports or 0)
    return found


def test_a_poller_recovers_reports_from_live_results_and_none_from_public_ones(client: Client):
    survey = client.open(plain_plan(), public_results=True)
    reports = np.random.default_rng(1).integers(0, 3, 45).tolist()
    polls: dict[bool, list[dict[str, Any]]] = {True: [poll(client, survey, True)], False: [poll(client, survey, False)]}
    for number, report in enumerate(reports):
        client.report(survey, number, report)
        for admin, seen in polls.items():
            seen.append(poll(client, survey, admin))
    first = {report: nth for nth, report in reversed(list(enumerate(reports)))}
    names = sorted(first, key=lambda report: first[report])
    assert recovered(polls[True]) == [names.index(report) for report in reports], "the attack works on live results"
    assert recovered(polls[False]) == []
    assert sorted({seen["n_reports"] for seen in polls[False]}) == [0, 20, 40]
    assert {seen["published_every"] for seen in polls[False]} == {20}
    assert polls[True][-1]["published_every"] is None
    assert [day["n_reports"] for day in polls[False][-1]["history"]] == [40]
    client.patch(survey, {"open": False}, admin=True)
    assert poll(client, survey, False)["n_reports"] == 40, "closing does not tell the last few"
    rows = client.get(f"{survey}/results.csv").text
    assert rows != client.get(f"{survey}/results.csv", admin=True).text


def test_a_small_group_is_not_told_by_a_large_one(client: Client):
    survey = client.open(grouped_plan(), public_results=True, publish_every=5)
    client.report(survey, 99, 1, "old")
    for number in range(12):
        client.report(survey, number, number % 2, "young")
        seen = {group["group"]: group["n_reports"] for group in poll(client, survey, False)["groups"]}
        assert seen == {"young": (number + 1) // 5 * 5, "old": 0}


def test_two_processes_and_the_next_day_publish_one_chain(where: str, days: Days):
    stores = [Store(where, days), Store(where, days)]
    stores[0].create(plain_plan(), public_results=True, publish_every=10)
    told = []
    with serving(stores[0]) as first, serving(stores[1]) as second:
        for number in range(34):
            client = (first, second)[number % 2]
            client.report(f"/api/surveys/{NAME}", number, 1)
            told += [poll(each, f"/api/surveys/{NAME}", False)["n_reports"] for each in (first, second)]
            if number == 14:
                days.next()
        assert sorted(set(told)) == [0, 10, 20, 30]
        history = poll(first, f"/api/surveys/{NAME}", False)["history"]
    assert [day["n_reports"] for day in history] == [10, 30]
    survey = stores[0].survey(NAME)
    assert survey is not None
    assert [tally.n_reports for _, tally in published(stores[1], survey, plain_plan())] == [10, 30]
    for store in stores:
        store.close()


def test_what_shuffling_promises():
    """Never more than the device's own ε, less with larger steps; the theorem's condition is checked."""
    assert central_epsilon(1.0, 20, 1e-6) == 1.0
    values = [central_epsilon(1.0, step, 1e-6) for step in (1_000, 10_000, 100_000)]
    assert values == sorted(values, reverse=True)
    assert values[2] == pytest.approx(0.0726, abs=1e-4)


def test_public_results_are_computed_once_for_each_publication(client: Client, monkeypatch: pytest.MonkeyPatch):
    """However many look, also with what they have already; the team's look is computed as it is now."""
    survey = client.open(plain_plan(), public_results=True, publish_every=20)
    for number in range(20):
        client.report(survey, number, number % 3)
    results, computed = client.app.state.collector._results, []
    facts = results.facts
    monkeypatch.setattr(results, "facts", lambda *words: computed.append(words) or facts(*words))
    first = client.get(f"{survey}/results")
    assert (first.json()["n_reports"], first.headers["cache-control"]) == (20, "no-cache")
    for number in range(20, 35):
        client.report(survey, number, 1)
        again = client.get(f"{survey}/results", headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    assert len(computed) == 1
    for number in range(35, 45):
        client.report(survey, number, 1)
    later = client.get(f"{survey}/results", headers={"If-None-Match": first.headers["etag"]})
    assert (later.status_code, later.json()["n_reports"], len(computed)) == (200, 45, 2)
    client.patch(survey, {"public_results": False}, admin=True)
    assert client.get(f"{survey}/results").status_code == 401


def test_public_results_take_bounded_work_and_memory(client: Client, days: Days, monkeypatch: pytest.MonkeyPatch):
    """Of a plan with many values, 61 days took an estimate each; and the answer to every query was kept."""
    monkeypatch.setattr("tacit.server.results.results._HISTORY_ROWS", 9 * len(plain_plan().values))
    monkeypatch.setattr("tacit.server.collector._PAGES_BYTES", 10_000)
    survey = client.open(plain_plan(), public_results=True, publish_every=20)
    name = survey.rpartition("/")[2]
    for day in range(61):
        client.store.count([Submission(name, key(100 * day + n), ((0, n % 3, 1),)) for n in range(20)])
        assert client.get(f"{survey}/results?limit=1").status_code == 200
        days.next()
    collector, estimated = client.app.state.collector, []
    estimate = QuestionView.estimate
    monkeypatch.setattr(QuestionView, "estimate", lambda *words: estimated.append(1) or estimate(*words))
    monkeypatch.setattr(collector, "_results", Results(client.store))
    told = client.get(f"{survey}/results?limit=2").json()
    assert (told["n_days"], told["n_reports"]) == (61, 61 * 20)
    assert 4 <= len(told["history"]) <= 10
    assert len(estimated) <= 10
    for limit in range(1, 40):
        client.get(f"{survey}/results?limit={limit}")
    assert sum(len(page.content) for _, _, page in collector._pages.values()) <= 10_000
