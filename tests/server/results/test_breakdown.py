"""Results by group and over time: what the library estimates from the same tally, for the team alone."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction
from typing import Any

import pytest

from tacit import Histogram, Prior
from tacit.designs import repaired_response
from tacit.estimates import estimate, trend
from tacit.plan import Group, Plan
from tacit.server.results.breakdown import spans
from tacit.server.storage.store import Submission, survey_id
from tacit.show.spreadsheet import harmless
from tacit.tally import Tally

from support.service import FIRST_DAY, Client, Days, arc_plan, grouped_plan, key, plain_plan

PATHS = ("results/groups", "results/groups.csv", "results/trend", "results/trend.csv")


def count(client: Client, plan: Plan, *reports: tuple[int, int, int]) -> None:
    """Count (group, report, times) on the day that the calendar shows."""
    number = sum(sum(day.values()) for day in client.store.totals(survey_id(plan)).values())
    assert client.store.count([Submission(survey_id(plan), key(number), reports)]) == ["counted"]


def ask(client: Client, survey: str, what: str, **query: Any) -> Any:
    answer = client.get(f"{survey}/results/{what}", params=query, admin=True)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_groups_are_estimated_as_the_library_does(client: Client):
    plan = grouped_plan()
    survey = client.open(plan)
    count(client, plan, (0, 0, 300), (0, 1, 200), (1, 0, 100), (1, 1, 400))
    tally = Tally.from_dict(client.tally(survey))
    for estimator in ("assisted", "unbiased", "mle", "mmse"):
        found = ask(client, survey, "groups", estimator=estimator)
        assert (found["name"], found["names"], found["level"]) == ("yes", ["yes"], 0.95)
        assert [part["group"] for part in found["parts"]] == ["young", "old"]
        for part in found["parts"]:
            wanted = estimate(plan, tally, estimator, group=part["group"])
            (row,) = wanted.rows
            assert part["n_reports"] == wanted.n_reports == 500
            assert (part["estimate"], part["low"], part["high"]) == (row.estimate, row.low, row.high)


def test_waves_of_a_series_have_changes_and_other_surveys_no_part_in_them(client: Client):
    first = plain_plan()
    later = replace(first, wave=2, series=first.hash)
    plans = [first, later, replace(later, wave=3), replace(first.reworded("Something else?"), earlier=())]
    surveys = [client.open(plan) for plan in plans]
    corrected = first.reworded("What?")
    client.open(corrected)
    for plan, often in zip([*plans, corrected], (300, 500, 900, 100, 200), strict=True):
        count(client, plan, (0, 0, 400), (0, 1, 300), (0, 2, often))
    found = ask(client, surveys[1], "waves", value="often")
    assert [(part["wave"], part["n_reports"]) for part in found["parts"]] == [(1, 1900), (2, 1200), (3, 1600)]
    together = (
        Tally.from_dict(client.tally(surveys[0]))
        .under(corrected)
        .merge(Tally.of(corrected, [0] * 400 + [1] * 300 + [2] * 200))
    )
    wanted = trend(
        [
            (corrected, together),
            *(
                (plan, Tally.from_dict(client.tally(survey)))
                for plan, survey in zip(plans[1:3], surveys[1:3], strict=True)
            ),
        ]
    )
    expected = [row for row in wanted.changes.rows if row.value == "often"]
    assert [(row["since"], row["wave"]) for row in found["changes"]] == [(1, 2), (2, 3), (1, 3)]
    assert [(row["change"], row["low"], row["high"]) for row in found["changes"]] == [
        (row.difference, row.low, row.high) for row in expected
    ]
    # Another plan that says it is wave 2, with more wordings, takes no one's place.
    client.open(replace(later.reworded("A lie?"), earlier=()).reworded("Another lie?"))
    assert ask(client, surveys[1], "waves", value="often") == found
    alone = ask(client, surveys[3], "waves")
    assert ([part["wave"] for part in alone["parts"]], alone["changes"]) == ([1], [])
    assert client.get(f"{surveys[0]}/results/waves").status_code == 401


def test_a_group_without_reports_is_left_out_and_one_group_can_be_looked_at(client: Client):
    plan = arc_plan()
    survey = client.open(plan)
    count(client, plan, (1, 3, 90), (1, 2, 10))
    assert [part["group"] for part in ask(client, survey, "groups")["parts"]] == ["table"]
    looked = ask(client, survey, "group", name="table", limit=3)
    assert (looked["n_reports"], looked["n_rows"], len(looked["rows"])) == (100, 8, 3)
    assert ask(client, survey, "group", name="arc")["n_reports"] == 0
    assert client.get(f"{survey}/results/group?name=nobody", admin=True).status_code == 422


def test_the_asked_answer_is_compared_else_the_most_frequent(client: Client):
    plan = plain_plan()
    survey = client.open(plan)
    count(client, plan, (0, 0, 10), (0, 1, 20), (0, 2, 500))
    assert ask(client, survey, "groups")["name"] == "often"
    assert ask(client, survey, "groups", value="never")["name"] == "never"
    assert client.get(f"{survey}/results/groups?value=always", admin=True).status_code == 422


def test_the_trend_takes_each_time_from_its_own_reports(client: Client, days: Days):
    plan = plain_plan()
    survey = client.open(plan)
    by_day = [(10, 20, 70), (30, 30, 40), (80, 10, 10)]
    for often in by_day:
        count(client, plan, *((0, report, n) for report, n in enumerate(often)))
        days.next(4)
    starts = [FIRST_DAY + timedelta(4 * k) for k in range(3)]
    found = ask(client, survey, "trend", value="never", estimator="unbiased")
    assert [(part["since"], part["until"]) for part in found["parts"]] == [(str(day), str(day)) for day in starts]
    for part, day in zip(found["parts"], starts, strict=True):
        tally = Tally.from_dict(client.tally(survey, since=str(day), until=str(day)))
        (row,) = [row for row in estimate(plan, tally, "unbiased").rows if row.value == "never"]
        assert (part["n_reports"], part["estimate"], part["low"]) == (100, row.estimate, row.low)
    waves = ask(client, survey, "trend", wave=str(starts[1]))["parts"]
    assert [(part["since"], part["n_reports"]) for part in waves] == [(str(starts[0]), 100), (str(starts[1]), 200)]
    month = ask(client, survey, "trend", by="month")["parts"]
    assert [(part["since"], part["until"], part["n_reports"]) for part in month] == [("2026-11-01", "2026-11-30", 300)]


def test_stretches_of_time_hold_every_day_once():
    every = [date(2026, 1, 1) + timedelta(n) for n in range(0, 400, 3)]
    for step in ("day", "week", "month"):
        found = spans(every, step)
        assert [sum(since <= day <= until for since, until in found) for day in every] == [1] * len(every)
    assert spans([], "day") == spans([], "day", [date(2026, 1, 1)]) == []


def test_no_part_is_public_even_where_the_results_are(client: Client):
    survey = client.open(grouped_plan(), public_results=True)
    assert client.get(f"{survey}/results").status_code == 200
    for path in (*PATHS, "results/group?name=young"):
        assert client.get(f"{survey}/{path}").status_code == 401
        assert client.get(f"{survey}/{path}", admin=True).status_code == 200


def test_files_hold_every_group_and_no_formula(client: Client, days: Days):
    prior = Prior.of({"=cmd|' /C calc'!A0": 1, "-3.5": 1, "@SUM(1)": 2, "plain": 3})
    group = Group(name="+1", epsilon=Fraction(1), mechanism=repaired_response(prior, 1))
    other = Group(name="b", epsilon=Fraction(1), mechanism=repaired_response(prior, 1))
    plan = Plan.of_groups(Histogram(), (group, other), "Is it a formula?")
    survey = client.open(plan)
    count(client, plan, (0, 0, 40), (1, 1, 40))
    files = {}
    for path in ("results.csv", "results/groups.csv", "results/trend.csv"):
        answer = client.get(f"{survey}/{path}", admin=True)
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        assert "attachment" in answer.headers["content-disposition"]
        files[path] = list(csv.DictReader(io.StringIO(answer.text)))
    names = ["'=cmd|' /C calc'!A0", "-3.5", "'@SUM(1)", "plain"]
    assert [row["name"] for row in files["results.csv"]] == names
    assert [(row["group"], row["name"]) for row in files["results/groups.csv"]] == [
        (group, name) for group in ("+1", "b") for name in names
    ]
    assert [row["since"] for row in files["results/trend.csv"]] == [str(FIRST_DAY)] * 4
    one = client.get(f"{survey}/results/groups.csv?group=b", admin=True).text
    assert len(one.splitlines()) == 1 + 4


@pytest.mark.parametrize("text", ["=1", "+a", "-b", "@c", "\tx", "\rx", " =1", "-inf(", "+1e"])
def test_what_a_spreadsheet_would_run_is_made_harmless(text: str):
    assert harmless(text) == f"'{text}"


def test_too_much_at_once_is_refused_and_the_tally_named(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tacit.server.results.breakdown._MOST", 2)
    survey = client.open(plain_plan())
    count(client, plain_plan(), (0, 0, 40))
    for path in PATHS:
        answer = client.get(f"{survey}/{path}", admin=True)
        assert (answer.status_code, "take the tally" in answer.text) == (409, True)
