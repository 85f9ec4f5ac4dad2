"""Submissions over HTTP: one report at a time or many, each counted once, and only what the plan can have sent."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from tacit.plan import Plan
from tacit.server.storage.store import survey_id
from tacit.tally import Tally

from support.batches import ARROW, NDJSON, Row, as_arrow, as_lines, as_stream, send_batch
from support.service import Client, arc_plan, assert_nothing_bad_stored, can_send, grouped_plan, key, plain_plan, stored


def test_a_report_is_counted_once(client: Client):
    survey = client.open(plain_plan())
    assert [client.report(survey, n, 2) for n in (1, 2, 1)] == ["counted", "counted", "already counted"]
    assert client.tally(survey) == {
        "tacit_tally": 1,
        "plan": plain_plan().hash,
        "refused": 0,
        "groups": [{"group": None, "reports": [2], "counts": [2]}],
    }


def test_the_same_key_with_another_report_changes_nothing(client: Client):
    survey = client.open(plain_plan())
    client.report(survey, 1, 2)
    assert client.report(survey, 1, 0) == "already counted"
    assert client.tally(survey)["groups"] == [{"group": None, "reports": [2], "counts": [1]}]


def test_many_at_the_same_time_are_all_counted(client: Client):
    """They share commits; each still gets its own answer."""
    import asyncio

    survey = client.open(plain_plan())

    async def send() -> list[str]:
        bodies = [{"key": key(n % 150), "report": n % 3} for n in range(300)]
        answers = await asyncio.gather(*(client.http.post(f"{survey}/reports", json=body) for body in bodies))
        return [answer.json()["status"] for answer in answers]

    outcomes = client.portal.call(send)
    assert outcomes.count("counted") == 150
    assert outcomes.count("already counted") == 150
    assert client.tally(survey)["groups"] == [{"group": None, "reports": [0, 1, 2], "counts": [50, 50, 50]}]


GOOD_REPORTS = [
    (grouped_plan(), "young", 0),
    (grouped_plan(), "old", 1),
    (arc_plan(), "arc", 6),
    (arc_plan(), "table", 6),
]
BAD_REPORTS = [
    (plain_plan(), None, 3),
    (plain_plan(), None, 2**32),
    (plain_plan(), None, 2**53 - 1),
    (grouped_plan(), "young", 2),
    (grouped_plan(), "Young", 0),
    (grouped_plan(), None, 0),
    (arc_plan(), "arc", 7),
    (arc_plan(), "arc", 2**32),
    (arc_plan(), "table", 7),
    (arc_plan(), "table", 2**32 + 1),
]


@pytest.mark.parametrize(("plan", "group", "report"), GOOD_REPORTS)
def test_reports_that_the_plan_can_have_sent_are_counted(client: Client, plan: Plan, group: str | None, report: int):
    assert can_send(plan, group, report)
    survey = client.open(plan)
    assert client.report(survey, 1, report, group) == "counted"
    assert client.tally(survey)["groups"] == [{"group": group, "reports": [report], "counts": [1]}]


@pytest.mark.parametrize(("plan", "group", "report"), BAD_REPORTS)
def test_reports_that_the_plan_cannot_have_sent_are_refused(client: Client, plan: Plan, group: str | None, report: int):
    assert not can_send(plan, group, report)
    survey = client.open(plan)
    refused = client.post(f"{survey}/reports", {"key": key(1), "group": group, "report": report})
    assert refused.status_code == 422
    assert refused.json()["detail"] in ("The plan cannot have sent this report.", "The plan does not have this group.")
    counted = send_batch(client, survey, as_lines([(group, report)]))
    assert counted.json() == {"status": "counted", "counted": 0, "refused": 1}
    assert stored(client.store) == {}
    # A refused report does not use up its key.
    assert client.report(survey, 2, 0, plan.groups[0].name) == "counted"


@pytest.mark.parametrize(
    "body",
    [
        {"report": 0},
        {"key": key(1)},
        {"key": key(1)[:-1], "report": 0},
        {"key": key(1) + "0", "report": 0},
        {"key": key(10).upper(), "report": 0},
        {"key": "g" * 32, "report": 0},
        {"key": key(1) + "\n", "report": 0},
        {"key": key(1), "report": -1},
        {"key": key(1), "report": 0.0},
        {"key": key(1), "report": "0"},
        {"key": key(1), "report": True},
        {"key": key(1), "report": None},
        {"key": key(1), "report": 2**53},
        {"key": key(1), "report": [0]},
        {"key": key(1), "report": 0, "group": 1},
        {"key": key(1), "report": 0, "answer": "often"},
        {"key": key(1), "report": 0, "credential": "!"},
        [key(1), 0],
        None,
    ],
)
def test_other_bodies_are_refused_and_never_repeated(refusing: Client, body: Any):
    path = f"/api/surveys/{survey_id(plain_plan())}/reports"
    refused = refusing.request("POST", path, content=json.dumps(body))
    assert refused.status_code == 422
    assert refused.json()["title"] == "Unprocessable Content"
    assert refused.json()["errors"]
    assert "often" not in refused.text
    assert key(1) not in refused.text
    assert stored(refusing.store) == {}


def test_a_plan_without_groups_takes_no_group(client: Client):
    survey = client.open(plain_plan())
    refused = client.post(f"{survey}/reports", {"key": key(1), "group": "somebody", "report": 0})
    assert (refused.status_code, refused.json()["detail"]) == (422, "The plan does not have this group.")


# -- batches --------------------------------------------------------------------------------------------------------

ROWS: list[Row] = [("young", 0), ("young", 1), ("young", 1), ("old", 0), ("old", 1), ("old", 1), ("old", 1)]


def test_batches_and_single_reports_make_the_same_tally(client: Client):
    survey = client.open(grouped_plan())
    for number, (group, report) in enumerate(ROWS):
        client.report(survey, number, report, group)
    one_by_one = client.tally(survey)
    for number, (kind, body) in enumerate([(NDJSON, as_lines(ROWS)), (ARROW, as_arrow(ROWS))], 100):
        before = Tally.from_dict(client.tally(survey))
        assert send_batch(client, survey, body, kind, number).json() == {
            "status": "counted",
            "counted": len(ROWS),
            "refused": 0,
        }
        assert client.tally(survey) == before.merge(Tally.from_dict(one_by_one)).to_dict()
    assert_nothing_bad_stored(client.store, grouped_plan())


@pytest.mark.parametrize("kind", [NDJSON, ARROW])
def test_a_batch_counts_once(client: Client, kind: str):
    survey = client.open(grouped_plan())
    body = (as_lines if kind == NDJSON else as_arrow)([*ROWS, ("young", 9)])
    first, again = (send_batch(client, survey, body, kind).json() for _ in range(2))
    assert first == {"status": "counted", "counted": len(ROWS), "refused": 1}
    assert again == {"status": "already counted", "counted": 0, "refused": 1}
    tally = client.tally(survey)
    assert (Tally.from_dict(tally).n_reports, tally["refused"]) == (len(ROWS), 1)
    assert send_batch(client, survey, body, kind, 2).json()["status"] == "counted", "another key, another batch"


def test_a_key_is_used_up_by_a_report_and_by_a_batch_alike(client: Client):
    survey = client.open(plain_plan())
    assert client.report(survey, 1, 0) == "counted"
    assert send_batch(client, survey, as_lines([(None, 1)]), number=1).json()["status"] == "already counted"
    assert client.tally(survey)["groups"] == [{"group": None, "reports": [0], "counts": [1]}]


def test_refused_reports_are_counted_by_day_and_never_named(client: Client):
    survey = client.open(grouped_plan())
    rows: list[Row] = [("young", 0), ("young", 2), ("nobody", 0), (None, 0)]
    answer = send_batch(client, survey, as_lines(rows))
    assert answer.json() == {"status": "counted", "counted": 1, "refused": 3}
    assert client.tally(survey)["refused"] == 3
    assert client.get(f"{survey}/results", admin=True).json()["refused"] == 3


@pytest.mark.parametrize(
    ("lines", "counted", "refused"),
    [
        (b"", 0, 0),
        (b"\n\n", 0, 0),
        (b'{"report": 1}', 1, 0),
        (b'{"report": 1}\r\n{"report": 2}\r\n', 2, 0),
        (b'\n{"report": 1}\n\n\n{"report": 2}\n', 2, 0),
        (b'{"report": 1, "group": null, "more": [1, 2]}\n', 1, 0),
        (b'{"report": 1}\n{"other": 1}\n{"report": null}\n', 1, 2),
        (b'{"report": 1}\n{"report": 1.0}\n{"report": true}\n{"report": "1"}\n{"report": -1}\n', 1, 4),
    ],
)
def test_lines_as_gateways_write_them(client: Client, lines: bytes, counted: int, refused: int):
    survey = client.open(plain_plan())
    answer = send_batch(client, survey, lines)
    assert answer.json() == {"status": "counted", "counted": counted, "refused": refused}
    assert_nothing_bad_stored(client.store, plain_plan())


def test_a_group_may_look_like_a_day_or_a_number(client: Client):
    """Names are names, whatever a reader of JSON would make of them."""
    from dataclasses import replace

    names = ("2026-11-15", "2026-11-15 10:00:00")
    groups = [replace(group, name=name) for name, group in zip(names, grouped_plan().groups, strict=True)]
    plan = Plan.of_groups(grouped_plan().task, tuple(groups))
    survey = client.open(plan)
    rows: list[Row] = [(names[0], 0), (names[1], 1), (names[0], 1)]
    for number, (kind, body) in enumerate([(NDJSON, as_lines(rows)), (ARROW, as_arrow(rows))]):
        answer = send_batch(client, survey, body, kind, number)
        assert answer.json() == {"status": "counted", "counted": 3, "refused": 0}


@pytest.mark.parametrize("kind", ["application/json", "text/csv", "", "application/x-ndjson-ish"])
def test_other_media_types_are_refused(client: Client, kind: str):
    survey = client.open(plain_plan())
    refused = send_batch(client, survey, as_lines([(None, 1)]), kind)
    assert refused.status_code == 415
    assert refused.json()["detail"] == f"A batch is {NDJSON} or {ARROW}."


def test_parameters_of_the_media_type_do_not_matter(client: Client):
    survey = client.open(plain_plan())
    answer = send_batch(client, survey, as_lines([(None, 1)]), "Application/X-NDJSON; charset=utf-8")
    assert answer.json()["counted"] == 1


def test_a_batch_needs_a_key(client: Client):
    survey = client.open(plain_plan())
    for headers in ({}, {"Idempotency-Key": "again"}, {"Idempotency-Key": key(10).upper()}):
        refused = client.request(
            "POST", f"{survey}/batches", content=b"", headers=headers | {"Content-Type": NDJSON}, admin=True
        )
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["where"] == "header.idempotency-key"


def test_a_closed_survey_takes_no_batch(client: Client):
    survey = client.open(plain_plan())
    client.patch(survey, {"open": False}, admin=True)
    assert send_batch(client, survey, as_lines([(None, 1)])).status_code == 409


def test_a_million_reports_in_a_batch(client: Client):
    survey = client.open(plain_plan())
    table = pa.table({"report": pa.array([0, 1, 2, 1] * 250_000, pa.uint8())})
    assert send_batch(client, survey, as_stream(table), ARROW).json()["counted"] == 1_000_000
    assert client.tally(survey)["groups"] == [
        {"group": None, "reports": [0, 1, 2], "counts": [250_000, 500_000, 250_000]}
    ]
