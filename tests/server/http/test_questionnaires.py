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
from tacit.plan import Question, Questionnaire, block_name
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


def test_a_plan_with_public_questions_is_refused_in_one_sentence(client: Client, store: Store):
    smokes = clinic().questions[0]
    region = Question(name="region", answers=("north", "south"), public=True)
    plan = Questionnaire((region, smokes), (block_of([smokes], [3, 7], 1),))
    answer = client.post("/api/surveys", {"plan": plan.to_dict()}, admin=True)
    assert answer.status_code == 422
    assert "region would travel as it is" in answer.json()["detail"]
    with pytest.raises(ValueError, match="plan with groups"):
        store.create(plan)
    altered = clinic().to_dict() | {"title": "Another"}
    assert "altered" in client.post("/api/surveys", {"plan": altered}, admin=True).json()["detail"]
    renamed = replace(clinic(), title="Another")
    assert client.open(renamed) != client.open(clinic())
