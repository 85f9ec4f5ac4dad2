"""The schema of the plan file: it takes every plan that Tacit writes, refuses what is not one, and is documented."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from fractions import Fraction

import jsonschema
import pytest

from tacit import GroupPrior, Histogram, Matrix, Prior, Sum, Survey, WeightedSum, make_plan

from support.places import ROOT
from support.wishes import in_search

SCHEMA = json.loads((ROOT / "src/tacit/plan/plan.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

NUMBERS = Prior.of({0: 0.5, 1: 0.3, 2: 0.15, 3: 0.05})
NAMES = Prior.of({"a": 0.5, "b": 0.3, "c": 0.2, "unseen": 0})
LARGE = Prior.of({k: 1 + 40000 // (k + 1) for k in range(1500)})
HALF = Fraction(1, 2)
PLANS = {
    "survey": (NAMES, Survey("b"), {}),
    "survey of a set": (NAMES, Survey(("a", "c")), {}),
    "sum": (NUMBERS, Sum(), {}),
    "histogram": (NAMES, Histogram(), {}),
    "unbiased": (NUMBERS, Histogram(), {"aim": "unbiased"}),
    "ldp": (NUMBERS, Histogram(), {"notion": "ldp"}),
    "capped": (NUMBERS, Sum(), {"ldp_cap": "1.5"}),
    "repaired": (NUMBERS, Histogram(), {"method": "repaired"}),
    "groups": (
        [
            GroupPrior(
                name="young",
                prior=NUMBERS,
                share=HALF,
                epsilon=Fraction(1, 3),
                weight=Fraction(-1, 2),
                offset=Fraction(7),
            ),
            GroupPrior(name="old", prior=NUMBERS, share=HALF, epsilon=Fraction(2)),
        ],
        WeightedSum(),
        {},
    ),
    "matrix": (NUMBERS, Matrix([[x, x**2, "1/3"] for x in NUMBERS.values], names=["x", "x²", "third"]), {}),
    "bins": (LARGE, Histogram(), {}),
    "block design": (LARGE, Histogram(), {"notion": "ldp", "method": "projective"}),
    "subsets": (LARGE, Histogram(), {"notion": "ldp", "method": "without-prior"}),
}


def written(name: str) -> dict:
    priors, task, options = PLANS[name]
    return json.loads(
        json.dumps(make_plan(priors, task, 1, question="Which?", **in_search({"aim": "mmse"} | options)).to_dict())
    )


#: Wordings, which a question need not have.
OPTIONAL = {"text"}


@pytest.fixture(scope="module")
def plan() -> dict:
    return written("survey")


def objects(node: object) -> Iterator[dict]:
    """All JSON objects of a plan, the plan first."""
    if isinstance(node, dict):
        yield node
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from objects(part)


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", PLANS)
def test_every_plan_that_is_written_fits(name):
    assert list(VALIDATOR.iter_errors(written(name))) == []


def test_both_kinds_of_mechanism_are_among_them():
    kinds = {
        group["mechanism"]["kind"] for name in ("survey", "bins") for group in written(name)["blocks"][0]["groups"]
    }
    assert kinds == {"table", "many-values"}


@pytest.mark.parametrize("name", ["survey", "bins", "groups"])
def test_an_unknown_field_is_refused_wherever_it_stands(name):
    data = written(name)
    for place in range(len(list(objects(data)))):
        altered = copy.deepcopy(data)
        list(objects(altered))[place]["surprise"] = 1
        assert not VALIDATOR.is_valid(altered), place


@pytest.mark.parametrize("name", ["survey", "bins"])
def test_a_missing_field_is_refused_wherever_it_stood(name):
    data = written(name)
    for place, part in enumerate(objects(data)):
        for field in part.keys() - OPTIONAL:
            altered = copy.deepcopy(data)
            del list(objects(altered))[place][field]
            assert not VALIDATOR.is_valid(altered), field


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("hash",), "abc"),
        (("tacit_plan",), 2),
        (("blocks", 0, "task", "kind"), "median"),
        (
            (
                "blocks",
                0,
                "groups",
            ),
            [],
        ),
        (("blocks", 0, "groups", 0, "epsilon"), "-1"),
        (("blocks", 0, "groups", 0, "epsilon"), 1),
        (("blocks", 0, "groups", 0, "notion"), "mip"),
        (("blocks", 0, "groups", 0, "prior", 0), 3),
        (("blocks", 0, "groups", 0, "mechanism", "rows", 0, 0), "-1"),
        (("blocks", 0, "groups", 0, "mechanism", "kind"), "magic"),
    ],
)
def test_wrong_values_are_refused(plan, path, wrong):
    altered = copy.deepcopy(plan)
    part = altered
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = wrong
    assert not VALIDATOR.is_valid(altered)


def test_only_surveys_list_values(plan):
    altered = copy.deepcopy(plan)
    altered["blocks"][0]["task"]["kind"] = "histogram"
    assert not VALIDATOR.is_valid(altered)


def fields(node: object) -> set[str]:
    """Every field name that the schema knows."""
    if isinstance(node, list):
        return set().union(*map(fields, node)) if node else set()
    if not isinstance(node, dict):
        return set()
    known = {name for name, part in node.get("properties", {}).items() if part is not False}
    return known.union(*(fields(part) for part in node.values())) if node else known


def undescribed(node: object, path: str = "") -> list[str]:
    found = []
    for name, part in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if name == "properties" and "if" not in path:
            for field, rule in part.items():
                described = rule is False or "description" in rule or "$ref" in rule or field == "certificate"
                if not described and "const" not in rule:
                    found.append(f"{path}/{field}")
        found += undescribed(part, f"{path}/{name}")
    return found


def test_every_field_is_described():
    assert undescribed(SCHEMA) == []


def test_the_documentation_names_every_field():
    text = (ROOT / "docs/plan.md").read_text(encoding="utf-8")
    assert [name for name in sorted(fields(SCHEMA)) if f"`{name}`" not in text] == []
