"""Groups whose reports are kept as sums: each counted once, by day, in any database, and never a report itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from tacit import Histogram, Plan, Prior, Randomizer, Tally, make_plan
from tacit.designs import Search
from tacit.randomize import SeededWords
from tacit.server.collector import ReadySurvey
from tacit.server.storage.store import Store, Submission, survey_id

from support.batches import ARROW, NDJSON, as_arrow, as_lines, send_batch
from support.service import FIRST_DAY, Client, Days, key, serving

PRIOR = Prior([f"street {k}" for k in range(60)], [10**6 // (k + 1) for k in range(60)])


@cache
def many_answers() -> Plan:
    return make_plan({"east": PRIOR, "west": PRIOR}, Histogram(), 1, question="Where do you live?")


NAME = survey_id(many_answers())


def drawn(n: int, seed: int = 1) -> list[int]:
    answers = np.random.default_rng(seed).choice(40, n)
    return Randomizer(many_answers()).reports(np.zeros(n, np.int64), answers, SeededWords(seed)).tolist()


def expected(reports: list[int], group: str = "east") -> dict:
    return Tally.of(many_answers(), reports, [group] * len(reports)).to_dict()["groups"]


@pytest.fixture
def folds(store: Store) -> dict:
    assert store.create(many_answers())
    return ReadySurvey(store.survey(NAME)).folds


def test_every_key_adds_its_coverage_once(store: Store, folds: dict):
    reports = drawn(30)
    sent = [Submission(NAME, key(n), ((0, report, 1),), folds=folds) for n, report in enumerate(reports)]
    assert store.count([*sent, *sent[:5]]).count("counted") == 30
    assert store.count(sent[10:20]) == ["already counted"] * 10
    assert store.tally(NAME, many_answers()).to_dict()["groups"] == expected(reports)
    assert store.totals(NAME) == {FIRST_DAY: {0: 30}}


def test_days_add_up_and_can_be_told_apart(store: Store, folds: dict, days: Days):
    first, second = drawn(8, 1), drawn(9, 2)
    for start, reports in ((0, first), (100, second)):
        store.count([Submission(NAME, key(start + n), ((0, r, 1),), folds=folds) for n, r in enumerate(reports)])
        days.next()
    plan = many_answers()
    assert store.tally(NAME, plan).to_dict()["groups"] == expected(first + second)
    assert store.tally(NAME, plan, FIRST_DAY, FIRST_DAY).to_dict()["groups"] == expected(first)


def test_two_stores_that_write_at_once_lose_nothing(store: Store, where: str, days: Days, folds: dict):
    other, reports = Store(where, days), drawn(200)

    def work(mine: Store, part: list[tuple[int, int]]) -> None:
        for n, report in part:
            mine.count([Submission(NAME, key(n), ((0, report, 1),), folds=folds)])

    numbered = list(enumerate(reports))
    threads = [
        threading.Thread(target=work, args=(mine, part))
        for mine, part in ((store, numbered[::2]), (other, numbered[1::2]))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert store.tally(NAME, many_answers()).to_dict()["groups"] == expected(reports)


@pytest.fixture
def client(store: Store) -> Iterator[Client]:
    with serving(store) as found:
        yield found


def test_reports_and_batches_over_http_lead_to_the_same_sums_and_no_report_is_stored(client: Client, store: Store):
    survey, reports = client.open(many_answers()), drawn(60)
    for n, report in enumerate(reports[:20]):
        assert client.report(survey, n, report, "east") == "counted"
    assert client.report(survey, 3, reports[3], "east") == "already counted"
    lines, stream = [("east", report) for report in reports[20:40]], [("east", report) for report in reports[40:]]
    assert send_batch(client, survey, as_lines(lines), NDJSON, 100).json()["counted"] == 20
    assert send_batch(client, survey, as_arrow(stream), ARROW, 101).json()["counted"] == 20
    assert send_batch(client, survey, as_arrow(stream), ARROW, 101).json()["counted"] == 0
    assert client.tally(survey)["groups"] == expected(reports)
    with store._reading.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM counts").scalar() == 0
    facts = client.get(f"{survey}/results", admin=True).json()
    assert (facts["estimator"], facts["n_reports"], facts["n_rows"]) == ("unbiased", 60, 60)
    assert facts["estimators"] == ["assisted", "unbiased", "mmse"]
    refused = client.post(f"{survey}/reports", {"key": key(500), "group": "east", "report": 2**52})
    assert refused.status_code == 422


def test_a_plan_without_a_prior_is_collected_as_any_other(client: Client):
    plan = make_plan(Prior.uniform(PRIOR.values), Histogram(), 1, notion="ldp", search=Search(method="without-prior"))
    survey = client.open(plan)
    reports = Randomizer(plan).reports(0, np.arange(30), SeededWords(1)).tolist()
    assert [client.report(survey, n, report) for n, report in enumerate(reports)] == ["counted"] * 30
    assert client.tally(survey)["groups"] == Tally.of(plan, reports).to_dict()["groups"]
    facts = client.get(f"{survey}/results", admin=True).json()
    assert (facts["estimator"], facts["estimators"], facts["prior_check"]) == ("unbiased", ["unbiased"], [])
