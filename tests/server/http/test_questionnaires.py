"""Surveys of several questions: reports on blocks are taken, counted, estimated for each question, and published."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tacit.estimates import crosstab, estimate_questions
from tacit.plan import Plan, Question, block_name
from tacit.randomize import RecordRandomizer, SeededWords
from tacit.server.http.batches import ARROW, NDJSON
from tacit.server.storage.store import Store
from tacit.tally import Tally

from support.questions import block_of, clinic, clinic_records
from support.service import Client, key, plain_plan

N = 600


@pytest.fixture
def where(tmp_path: Path) -> str:
    """SQLite only: blocks are counted as groups are, which the other tests do on both databases."""
    return str(tmp_path / "data")


def drawn(n: int = N, seed: int = 1):
    """Groups, blocks from 1 and reports of people who answered at random."""
    answers, groups = clinic_records(n, seed)
    blocks, reports = RecordRandomizer(clinic()).randomize(answers, groups, SeededWords(seed))
    return groups, (blocks + 1).tolist(), reports.tolist()


def tally_of(groups, blocks, reports) -> Tally:
    names = [block_name(group, block) for group, block in zip(groups, blocks, strict=True)]
    return Tally.of(clinic(), np.array(reports), names)


def send_lines(client: Client, survey: str, groups, blocks, reports, number: int = 9):
    rows = zip(groups, blocks, reports, strict=True)
    lines = "".join(json.dumps({"group": g, "block": b, "report": r}) + "\n" for g, b, r in rows)
    headers = {"Idempotency-Key": key(number), "Content-Type": NDJSON}
    answer = client.request("POST", f"{survey}/batches", admin=True, content=lines.encode(), headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_report_is_counted_in_its_block_and_group(client: Client):
    survey = client.open(clinic())
    groups, blocks, reports = drawn(30)
    for number, (group, block, report) in enumerate(zip(groups, blocks, reports, strict=True)):
        assert client.report(survey, number, report, group, block=block) == "counted"
    assert client.report(survey, 0, reports[0], groups[0], block=blocks[0]) == "already counted"
    assert Tally.from_dict(client.tally(survey)).groups == tally_of(groups, blocks, reports).groups
    facts = client.get(survey).json()
    assert (facts["question"], facts["plan"]) == ("Health at the clinic", clinic().hash)
    assert client.get(f"{survey}/plan").json() == clinic().to_dict()


REFUSED = [
    ({"block": 4}, "3 blocks"),
    ({"block": None}, "3 blocks"),
    ({"group": None}, "group"),
    ({"group": "old / block 1"}, "group"),
    ({"report": 10_000}, "cannot have sent"),
    ({"block": 0}, "greater"),
    ({"block": "1"}, "integer"),
    ({"block": 1.0}, "integer"),
    ({"block": True}, "integer"),
    ({"answers": {"smokes": "yes"}}, "permitted"),
]


def test_a_report_that_the_plan_cannot_have_sent_is_refused(client: Client):
    survey = client.open(clinic())
    for change, says in REFUSED:
        answer = client.post(f"{survey}/reports", {"key": key(1), "group": "old", "block": 1, "report": 0} | change)
        assert answer.status_code == 422
        assert says in answer.text
    assert client.tally(survey)["groups"] == []


def test_a_survey_of_one_question_has_no_blocks(client: Client):
    survey = client.open(plain_plan())
    answer = client.post(f"{survey}/reports", {"key": key(1), "group": None, "block": 1, "report": 0})
    assert answer.status_code == 422
    assert "no block" in answer.json()["detail"]
    for path in ("groups?question=smokes", "crosstab?first=a&second=b"):
        assert client.get(f"{survey}/results/{path}", admin=True).status_code == 422


def test_batches_name_the_block_of_each_report(client: Client):
    survey = client.open(clinic())
    groups, blocks, reports = drawn()
    assert send_lines(client, survey, groups, blocks, reports)["counted"] == N
    table = pa.table({"group": groups, "block": pa.array(blocks, pa.int32()), "report": reports})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    headers = {"Idempotency-Key": key(10), "Content-Type": ARROW}
    answer = client.request("POST", f"{survey}/batches", admin=True, content=sink.getvalue(), headers=headers)
    assert answer.json() == {"status": "counted", "counted": N, "refused": 0}
    once = tally_of(groups, blocks, reports)
    assert Tally.from_dict(client.tally(survey)).groups == once.merge(once).groups
    wrong = send_lines(client, survey, ["old", "old", "old"], [4, None, "1"], [0, 0, 0], 11)
    assert (wrong["counted"], wrong["refused"]) == (0, 3)


def test_results_are_those_of_the_command_for_every_question(client: Client):
    survey = client.open(clinic())
    assert all(each["rows"] == [] for each in client.get(f"{survey}/results", admin=True).json()["questions"])
    groups, blocks, reports = drawn()
    send_lines(client, survey, groups, blocks, reports)
    results = client.get(f"{survey}/results", admin=True).json()
    expected = estimate_questions(clinic(), tally_of(groups, blocks, reports))
    assert [each["name"] for each in results["questions"]] == list(expected)
    for each in results["questions"]:
        wanted = [expected[each["name"]].per_respondent(row) for row in expected[each["name"]].rows]
        for field in ("estimate", "low", "high"):
            shares = [row[field] / each["n_reports"] for row in each["rows"]]
            assert shares == pytest.approx([getattr(row, field) for row in wanted])
    assert results["n_reports"] == N
    hours, pain = results["questions"][2], results["questions"][4]
    assert [row["name"] for row in hours["rows"]] == ["mean"]
    assert (pain["labels"], pain["part_of"]) == ({"yes": "Yes", "no": "No"}, "Which of these did you have last week?")
    (old, young) = results["groups"]
    assert old["n_reports"] == groups.count("old")
    assert "any combination of answers" in young["promise"]
    lines = list(csv.DictReader(io.StringIO(client.get(f"{survey}/results.csv", admin=True).text)))
    assert {line["question"] for line in lines} == set(expected)


def test_groups_time_and_tables_of_two_questions(client: Client):
    survey = client.open(clinic())
    groups, blocks, reports = drawn()
    send_lines(client, survey, groups, blocks, reports)
    for part in ("groups", "trend"):
        assert client.get(f"{survey}/results/{part}", admin=True).status_code == 422, "which question?"
        found = client.get(f"{survey}/results/{part}", admin=True, params={"question": "smokes"}).json()
        assert found["name"] == "yes"
    found = client.get(f"{survey}/results/groups", admin=True, params={"question": "hours"}).json()
    assert [part["group"] for part in found["parts"]] == ["old", "young"]
    one = client.get(f"{survey}/results/group", admin=True, params={"question": "mood", "name": "old"}).json()
    assert [row["name"] for row in one["rows"]] == ["good", "fair", "bad"]
    table = client.get(f"{survey}/results/crosstab", admin=True, params={"first": "pain", "second": "cough"}).json()
    expected = crosstab(clinic(), tally_of(groups, blocks, reports), "pain", "cough")
    assert table["independence"]["p_value"] == pytest.approx(expected.p_value)
    shares = [expected.estimate.per_respondent(row).estimate for _, _, row in expected.rows]
    assert [row["estimate"] for row in table["rows"]] == pytest.approx(shares)
    apart = client.get(f"{survey}/results/crosstab", admin=True, params={"first": "pain", "second": "mood"})
    assert apart.status_code == 422
    assert "--cross pain,mood" in apart.json()["detail"]
    assert client.get(f"{survey}/results/crosstab", params={"first": "pain", "second": "cough"}).status_code == 401


def test_public_results_change_by_steps_of_each_block(client: Client):
    survey = client.open(clinic(), public_results=True, publish_every=50)
    groups, blocks, reports = drawn()
    send_lines(client, survey, groups[:60], blocks[:60], reports[:60])
    few = client.get(f"{survey}/results").json()
    assert few["n_reports"] == 0, "no block of a group has fifty reports"
    send_lines(client, survey, groups[60:], blocks[60:], reports[60:], 10)
    public = client.get(f"{survey}/results").json()
    counts = {each["name"]: each["n_reports"] for each in public["questions"]}
    assert counts["smokes"] == sum(block == 1 for block in blocks)
    assert public["published_every"] == 50


def with_region(**options) -> Plan:
    """`clinic` with a public question in front."""
    region = Question(
        name="region", answers=("north", "south"), public=True, text={"en": "Where do you live?"}, **options
    )
    return Plan((region, *clinic().questions), clinic().blocks, "Health in two regions")


def test_public_answers_part_the_counts_and_the_results(client: Client):
    plan = with_region()
    survey = client.open(plan)
    groups, blocks, reports = drawn()
    regions = ["north" if k % 3 else "south" for k in range(N)]
    rows = list(zip(groups, blocks, reports, regions, strict=True))
    for number, (group, block, report, region) in enumerate(rows[:5]):
        assert client.report(survey, number, report, group, block=block, public={"region": region}) == "counted"
    lines = "".join(json.dumps({"group": g, "block": b, "report": r, "region": p}) + "\n" for g, b, r, p in rows[5:300])
    headers = {"Idempotency-Key": key(9), "Content-Type": NDJSON}
    answer = client.request("POST", f"{survey}/batches", admin=True, content=lines.encode(), headers=headers)
    assert answer.json() == {"status": "counted", "counted": 295, "refused": 0}
    columns = list(zip(*rows[300:], strict=True))
    table = pa.table(
        {name: list(each) for name, each in zip(("group", "block", "report", "region"), columns, strict=True)}
    )
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    headers = {"Idempotency-Key": key(10), "Content-Type": ARROW}
    answer = client.request("POST", f"{survey}/batches", admin=True, content=sink.getvalue(), headers=headers)
    assert answer.json() == {"status": "counted", "counted": 300, "refused": 0}
    whole = tally_of(groups, blocks, reports)
    assert Tally.from_dict(client.tally(survey)).groups == whole.groups, "the tally is that of all regions"
    results = client.get(f"{survey}/results", admin=True).json()
    assert results["public"][0]["rows"] == [{"name": "north", "count": 400}, {"name": "south", "count": 200}]
    assert sum(group["n_reports"] for group in results["groups"]) == N
    by_region = {"question": "smokes", "by": "region", "estimator": "unbiased"}
    found = client.get(f"{survey}/results/groups", admin=True, params=by_region).json()
    for part in found["parts"]:
        mine = [k for k in range(N) if regions[k] == part["group"]]
        expected = estimate_questions(
            clinic(), tally_of(*([each[k] for k in mine] for each in (groups, blocks, reports))),
            questions=["smokes"], estimator="unbiased",
        )["smokes"]  # fmt: skip
        share = expected.per_respondent(expected.rows[0]).estimate
        assert part["estimate"] / part["n_reports"] == pytest.approx(share)
    for public in (None, {}, {"region": "west"}, {"region": "north", "more": "x"}, {"mood": "good"}):
        body = {"key": key(99), "group": "old", "block": 1, "report": 0, "public": public}
        refused = client.post(f"{survey}/reports", body)
        assert refused.status_code == 422
        assert "region" in refused.json()["detail"]
        assert "west" not in refused.text
    unknown = client.get(f"{survey}/results/groups", admin=True, params={"question": "smokes", "by": "mood"})
    assert unknown.status_code == 422


def test_public_questions_that_would_tell_too_much_are_refused(client: Client, store: Store):
    smokes, daily = clinic().questions[:2]
    after = Question(name="brand", answers=("a", "not asked"), public=True, asked_if=("smokes", ("yes",)))
    many = Question(name="place", answers=tuple(f"p{k}" for k in range(201)), public=True)
    age = Question(name="age", answers=(0, 100), kind="number", public=True)
    for more, says in ((after, "it would tell"), (many, "201 combinations"), (age, "list its answers")):
        plan = Plan((smokes, daily, more), (block_of([smokes, daily], [3] * 8, 1),))
        answer = client.post("/api/surveys", {"plan": plan.to_dict()}, admin=True)
        assert answer.status_code == 422
        assert says in answer.json()["detail"]
        with pytest.raises(ValueError, match=says):
            store.create(plan)


def test_a_plan_that_was_altered_is_refused(client: Client):
    altered = clinic().to_dict() | {"title": "Another"}
    assert "altered" in client.post("/api/surveys", {"plan": altered}, admin=True).json()["detail"]
    renamed = replace(clinic(), title="Another")
    assert client.open(renamed) != client.open(clinic())
