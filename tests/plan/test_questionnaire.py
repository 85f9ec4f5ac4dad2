"""The contract of several questions: what it holds, what it refuses, and that it is the same after JSON."""

import copy
import json
import re
from dataclasses import replace
from fractions import Fraction
from itertools import chain, combinations
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import tacit
from tacit import Plan, Prior, make_plan
from tacit.exact import exp_enclosure
from tacit.plan import CHANCES, Block, PlanError, Question, joint_values
from tacit.task import Histogram, Survey

from support.places import ROOT
from support.questions import block_of, yes_no_questionnaire


def test_is_the_same_after_json(tmp_path):
    plan = yes_no_questionnaire(3, epsilon=1)
    plan.save(tmp_path / "plan.json")
    read = Plan.load(tmp_path / "plan.json")
    assert read.to_dict() == plan.to_dict()
    assert read.hash == plan.hash
    assert read.block_of("q1", "q3").cells([[1], [0], [1]]).tolist() == [5]


@pytest.mark.parametrize(
    "alter",
    [
        lambda data: data["blocks"][0].update(chance=1),
        lambda data: data["questions"][0].update(answers=["no", "yes"]),
        lambda data: data["questions"].append(data["questions"][0] | {"name": "q4"}),
        lambda data: data["questions"].pop(),
        lambda data: data["questions"][0].update(text={"en": "Another wording?"}),
        lambda data: data["blocks"].clear(),
        lambda data: data.pop("title"),
        lambda data: data["blocks"][0]["groups"][0].update(epsilon="1/2"),
        lambda data: data.update(tacit_plan=2),
        lambda data: data.update(surprise=1),
        lambda data: data["questions"][0].update(surprise=1),
        lambda data: data["questions"][0].update(numeric=None),
    ],
)
def test_refuses_what_was_altered(alter):
    data = copy.deepcopy(yes_no_questionnaire(3, epsilon=1).to_dict())
    alter(data)
    with pytest.raises(PlanError):
        Plan.from_dict(data)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"answers": ("yes",)}, "two different"),
        ({"answers": ("yes", "no", "maybe"), "kind": "yes-no"}, "instead of two"),
        ({"answers": ("b", "a"), "kind": "number"}, "ascending"),
        ({"answers": (2, 1), "kind": "number"}, "ascending"),
        ({"answers": ("a", "b"), "task": "mean"}, "no mean"),
        ({"answers": ("a", "b"), "asked_if": ("q0", ("yes",))}, "not asked"),
        ({"answers": ("a", "b"), "labels": {"de": ("nur eins",)}}, "label"),
        ({"answers": ("a", "b"), "public": 1}, "public or not"),
        ({"answers": ("a", "b"), "part_of": 5}, "by its name"),
    ],
)
def test_refuses_questions_that_cannot_be_asked(options, words):
    with pytest.raises(PlanError, match=words):
        Question(name="q", **options)


def test_blocks_hold_every_private_question_once():
    plan = yes_no_questionnaire(2, epsilon=1)
    (block,) = plan.blocks
    with pytest.raises(PlanError, match="one block"):
        Plan(plan.questions[:1], plan.blocks)
    with pytest.raises(PlanError, match="add up"):
        Plan(plan.questions, (replace(block, chance=1),))
    other = make_plan(Prior.uniform(["no", "yes"]), Histogram(), 1)
    with pytest.raises(PlanError, match="limit of a plan must be from 1, the level of its first report"):
        replace(plan, limit=Fraction(1, 2))
    with pytest.raises(PlanError, match="combinations"):
        Block(block.questions[:1], other.task, other.groups)


def test_the_schema_takes_what_is_written():
    schema = json.loads((ROOT / "src/tacit/plan/plan.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    questions = (
        Question(name="ill", answers=("yes", "no"), kind="yes-no", text={"en": "Ill?"}, labels={"en": ("Yes", "No")}),
        Question(name="days", answers=(0, 30), kind="number", task="mean", part_of="more"),
        Question(name="where", answers=("home", "not asked"), public=True, asked_if=("ill", ("yes",))),
    )
    first = Plan(questions, (block_of(questions[:2], [1, 2, 3, 4], 1),), "Health", ("a note",))
    later = replace(first, wave=2, series=first.hash, limit=Fraction(3)).reworded("Your health")
    assert list(validator.iter_errors(json.loads(json.dumps(later.to_dict())))) == []
    assert Plan.from_dict(later.to_dict()).limit == 3
    data = json.loads(json.dumps(first.to_dict()))
    assert list(validator.iter_errors(data)) == []
    for altered in (data | {"surprise": 1}, {k: v for k, v in data.items() if k != "notes"}, data | {"blocks": []}):
        assert not validator.is_valid(altered)


def events(size):
    """Every set of cells that is not empty."""
    return chain.from_iterable(combinations(range(size), k) for k in range(1, size + 1))


def test_the_promise_holds_for_every_set_of_combinations_of_the_record():
    """By enumeration from the definition, on integers; three separate reports at the same ε break it."""
    plan = yes_no_questionnaire(3, epsilon=1, weights=[30, 5, 7, 3, 6, 9, 4, 36])
    (block,) = plan.blocks
    channel, prior = block.groups[0].mechanism, block.groups[0].prior
    most = exp_enclosure(Fraction(1))[0]
    q = [[channel.likelihood(x, y) for y in range(channel.n_possible_reports)] for x in range(len(prior))]
    p = [Fraction(weight, prior.total) for weight in prior.weights]
    for y in range(channel.n_possible_reports):
        total = sum(p[x] * q[x][y] for x in range(8))
        for event in events(8):
            mass = sum(p[x] for x in event)
            lift = sum(p[x] * q[x][y] for x in event) / mass / total
            assert 1 / most <= lift <= most
    alone = make_plan(Prior.of({"yes": 0.5, "no": 0.5}), Histogram(), 1).groups[0].mechanism
    each = np.array([[float(alone.likelihood(x, y)) for y in range(alone.n_possible_reports)] for x in range(2)])
    three = np.array([each[a][:, None, None] * each[b][:, None] * each[c] for a, b, c in np.ndindex(2, 2, 2)])
    lifts = three / np.tensordot(np.array(p, dtype=float), three, 1)
    assert np.log(lifts.max()) > 1.3, "related answers: three reports at ε = 1 tell more than e"


def test_values_of_a_block_name_the_answers():
    questions = (Question(name="a", answers=("x", "y")), Question(name="n", answers=(0, 5, 10), kind="number"))
    assert joint_values(questions)[:4] == ("x / 0", "x / 5", "x / 10", "y / 0")


def test_no_other_room_asks_whether_a_plan_has_one_question_or_several():
    """A rule of the house: both have one surface, `Plan`."""
    asks = re.compile(r"isinstance\([^)]*\b(Plan|Plan)\b|type\([\w.]*plan\)")
    assert asks.search("if isinstance(plan, Plan):")
    assert asks.search("isinstance(ready.plan, Plan)")
    files = [path for path in Path(tacit.__file__).parent.rglob("*.py") if path.parent.name != "plan"]
    assert len(files) > 50
    assert not [path for path in files if asks.search(path.read_text())]


def test_a_plan_of_one_question_is_one_block_of_one_question():
    alone = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, Survey("yes"), question="Ill?")
    (question,), (block,) = alone.private, alone.blocks
    assert (question.name, question.words, question.answers) == ("value", "Ill?", ("yes", "no"))
    assert (block.chance, alone.block_plans, alone.block_column) == (CHANCES, (alone,), None)
    assert alone.asking() is alone.asking("value") is alone
    assert block.margin("value") == alone.task
    several = yes_no_questionnaire(2, epsilon=1)
    assert several.block_column == "block"
    with pytest.raises(PlanError, match="several questions"):
        several.asking()
    with pytest.raises(PlanError, match="for plans of one question"):
        several.single("Drawing arms")
