"""One door for each verb: the defaults of Python are those of the command, and one rule decides each of them."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from tacit import Histogram, NotEstimableError, Prior, Survey, Tally, difference, estimate, make_plan
from tacit.estimates import MANY_ROWS, Margin, cells_of
from tacit.files import read_cells, read_population
from tacit.tally import Counts

from support.answering import tally_of
from support.commanding import done

SHARES = {"north / old": 0.3, "north / young": 0.1, "south / old": 0.2, "south / young": 0.05}
PLAN = make_plan({name: Prior.of({"yes": p, "no": 1 - p}) for name, p in SHARES.items()}, Survey("yes"), epsilon=1)
TALLY = tally_of(PLAN, [[60, 140], [30, 170], [50, 150], [20, 180]], np.random.default_rng(1))
PARTS = ("region", "age")
SIZES = Margin(("region",), {("north",): 3000.0, ("south",): 1000.0})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Reports with a public column and a weight, an earlier round, and a population."""
    folder, rng = tmp_path_factory.mktemp("door"), np.random.default_rng(2)
    PLAN.save(folder / "plan.json")
    for name in ("now", "before"):
        lines = [
            f"{group},{rng.integers(2)},x{rng.integers(3)},{rng.integers(1, 4)}" for group in SHARES for _ in range(90)
        ]
        (folder / f"{name}.csv").write_text("\n".join(["group,report,column,weight", *lines]) + "\n")
    (folder / "region.csv").write_text("region,size\nnorth,3000\nsouth,1000\n")
    return folder


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([], {}),
        (["--estimator", "mle", "--project", "--level", "0.9"], {"estimator": "mle", "project": True, "level": 0.9}),
        (["--by", "column"], {"by": "column"}),
        (["--by", "region"], {"by": "region"}),
        (["--by", "age", "--for", "population"], {"by": "age", "scope": "population"}),
        (["--population", "region.csv"], {"population": [SIZES]}),
        (["--population", "region.csv", "--for", "participants"], {"population": [SIZES], "scope": "participants"}),
        (["--weight-column", "weight"], {}),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)  # fmt: skip
def test_the_command_prints_the_estimate_of_the_function(folder, monkeypatch, words, options):
    monkeypatch.chdir(folder)
    crossed = ["--group-parts", "region,age"]
    printed = json.loads(done("estimate", "plan.json", "now.csv", *crossed, *words, "--json"))
    weight = "weight" if "weight" in words else None
    _, cells = read_cells(PLAN, "now.csv", ["column"], group_parts=PARTS, weight_column=weight)
    assert _same(printed, estimate(PLAN, cells, **options).to_dict())


def _same(printed, found) -> bool:
    """Equal but for the last digits, which depend on the cells that the reports were counted in."""
    if isinstance(found, dict):
        return all(_same(printed[name], each) for name, each in found.items())
    if isinstance(found, list | tuple):
        return len(printed) == len(found) and all(map(_same, printed, found))
    return printed == (pytest.approx(found, rel=1e-9) if isinstance(found, float) else found)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--by", "column"], {"by": "column"}),
        (["--by", "region"], {"by": "region"}),
        (["--by", "group", "--against", "north / old"], {"by": "group", "against": "north / old"}),
        (["--against", "prior", "--for", "participants"], {"against": "prior", "scope": "participants"}),
        (
            ["--before", "before.csv", "--by", "age", "--population", "region.csv"],
            {"by": "age", "before": "before.csv"},
        ),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_the_command_prints_the_difference_of_the_function(folder, monkeypatch, words, options):
    monkeypatch.chdir(folder)
    crossed = ["--group-parts", "region,age"]
    printed = json.loads(done("difference", "plan.json", "now.csv", *crossed, *words, "--json"))
    _, cells = read_cells(PLAN, "now.csv", ["column"], group_parts=PARTS)
    if "before" in options:
        _, before = read_cells(PLAN, options["before"], ["column"], group_parts=PARTS)
        options = options | {"before": before, "population": [read_population("region.csv")]}
    assert _same(printed, difference(PLAN, cells, **options).to_dict())


def test_intervals_hold_for_all_rows_at_once_above_twenty_rows():
    for size in (MANY_ROWS, MANY_ROWS + 1):
        plan = make_plan(Prior.uniform(size), Histogram(), epsilon=2, notion="ldp")
        tally = Tally.of(plan, np.zeros(0, dtype=np.int64))
        assert estimate(plan, tally).simultaneous == (size > MANY_ROWS)
        assert not estimate(plan, tally, simultaneous=False).simultaneous
    many = {f"g{k}": Prior.of({"yes": 0.2, "no": 0.8}) for k in range(MANY_ROWS + 1)}
    plan = make_plan(many, Survey("yes"), epsilon=1)
    tally = tally_of(plan, [[20, 80]] * len(many), np.random.default_rng(3))
    assert difference(plan, tally, by="group").simultaneous
    assert not difference(plan, tally, against="prior").simultaneous


def test_intervals_are_about_the_population_unless_asked_otherwise():
    weighted = Tally(PLAN.hash, {name: Counts.of([0, 1] * 50, [1.0, 3.0] * 50) for name in SHARES})
    assert estimate(PLAN, TALLY).scope == "population"
    assert estimate(PLAN, TALLY, scope="participants").scope == "participants"
    assert estimate(PLAN, weighted).scope == "population"
    assert estimate(PLAN, weighted, "mle").scope == "participants"
    assert estimate(PLAN, cells_of(PLAN, TALLY, group_parts=PARTS), population=[SIZES]).scope == "population"
    with pytest.raises(ValueError, match="'mmse' is about the people who took part"):
        estimate(PLAN, weighted, "mmse", scope="population")


def test_parts_by_groups_use_the_prior_and_parts_by_a_column_do_not():
    whole = {("x",): TALLY, ("y",): tally_of(PLAN, [[40, 60]] * 4, np.random.default_rng(4))}
    cells = cells_of(PLAN, whole, ("column",), group_parts=PARTS)
    by_region, by_column = (estimate(PLAN, cells, by=margin) for margin in ("region", "column"))
    assert [part.estimator for part in by_region.parts.values()] == ["assisted", "assisted"]
    assert [part.estimator for part in by_column.parts.values()] == ["unbiased", "unbiased"]
    assert by_column.parts["x"].rows == estimate(PLAN, TALLY, "unbiased").rows
    assert by_column.rows == by_region.rows
    # A column that is constant in every group is still a column: the prior was not made for it.
    constant = cells_of(PLAN, {("z",): TALLY}, ("column",))
    assert estimate(PLAN, constant, by="column").parts["z"].estimator == "unbiased"


def test_one_group_of_a_population_is_its_part():
    cells = cells_of(PLAN, TALLY, group_parts=PARTS)
    alone = estimate(PLAN, cells, group="south / old", population=[SIZES])
    assert alone.rows == estimate(PLAN, cells, by="group", population=[SIZES]).parts["south / old"].rows


def test_a_breakdown_by_a_column_needs_reports_that_are_read_without_the_prior():
    shares = 1 / np.arange(1, 602) ** 1.5
    prior = Prior.of({f"v{k}": share for k, share in enumerate((shares / shares.sum()).tolist())})
    plan = make_plan(prior, Histogram(), epsilon=1, aim="mmse")
    cells = cells_of(plan, {("x",): Tally.of(plan, [0, 1, 2])}, ("column",))
    assert estimate(plan, cells).estimator == "mmse"
    with pytest.raises(NotEstimableError, match="breakdown by 'column' must not use the prior"):
        estimate(plan, cells, by="column")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "Say what to compare"),
        ({"against": "prior", "before": TALLY}, "one thing at a time"),
        ({"by": "sex"}, "no margin 'sex'. Known are 'group', 'region', 'age'"),
        ({"by": "group", "against": "west"}, "no reports of 'west'"),
        ({"by": "group", "level": 1.0}, "between 0 and 1"),
    ],
)
def test_what_cannot_be_compared_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        difference(PLAN, cells_of(PLAN, TALLY, group_parts=PARTS), **options)


def test_nothing_is_compared_without_reports():
    with pytest.raises(ValueError, match="no reports"):
        difference(PLAN, Tally(PLAN.hash, {}), against="prior")


def test_rounds_say_which_categories_stand_alone():
    fewer = Tally(PLAN.hash, {name: kept for name, kept in TALLY.groups.items() if name != "south / old"})
    found = difference(PLAN, TALLY, before=fewer, by="group")
    assert [(row.part, row.other) for row in found.rows[:2]] == [("everybody", "before"), ("north / old", "before")]
    assert "not compared: 'south / old'" in found.notes[1]


def test_columns_that_nobody_asks_for_change_nothing():
    """Cells that are split finer than needed have the same intervals: taken one by one they would be wider."""
    counts = {name: Counts.of([0] * 30 + [1] * 70) for name in SHARES}
    split = {(f"x{k}",): Tally(PLAN.hash, counts) for k in range(20)}
    together = Tally(PLAN.hash, {name: Counts.of([0] * 600 + [1] * 1400) for name in SHARES})
    fine, whole = (cells_of(PLAN, each, by, group_parts=PARTS) for each, by in ((split, ("x",)), (together, ())))
    for options in ({"scope": "population"}, {"population": [SIZES], "by": "age"}, {"by": "region"}):
        assert _same(estimate(PLAN, fine, **options).to_dict(), estimate(PLAN, whole, **options).to_dict())
    compared = [difference(PLAN, cells, by="region", population=[SIZES]).to_dict() for cells in (fine, whole)]
    assert _same(*compared)
    by_x = difference(PLAN, cells_of(PLAN, split, ("x",)), by="x", against="prior", simultaneous=False).rows[0]
    assert _same(asdict(by_x), asdict(difference(PLAN, together, against="prior").rows[0]))
