from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import Plan, Prior, Survey, make_plan
from tacit.tally import Counts, Tally, merge_all

reports = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3), st.floats(-100, 100)), max_size=40)


def tally_of(rows) -> Tally:
    groups = {}
    for name in {name for name, _, _ in rows}:
        mine = [(report, weight) for group, report, weight in rows if group == name]
        groups[name] = Counts.of([report for report, _ in mine], [weight for _, weight in mine])
    return Tally("plan", groups)


@given(reports, st.randoms(), st.lists(st.integers(0, 40), max_size=3))
def test_any_split_and_order_merges_to_the_same_tally(rows, random, cuts):
    whole = tally_of(rows)
    shuffled = list(rows)
    random.shuffle(shuffled)
    edges = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    parts = [tally_of(shuffled[a:b]) for a, b in pairwise(edges)] or [tally_of([])]
    random.shuffle(parts)
    merged = merge_all(parts)
    assert merged.to_dict() == whole.to_dict()
    assert merged.n_reports == len(rows)


@given(reports)
def test_json_round_trip(rows):
    tally = tally_of(rows)
    assert Tally.from_dict(json.loads(json.dumps(tally.to_dict()))).to_dict() == tally.to_dict()


def test_weights_are_summed_exactly():
    counts = Counts.of([0, 0, 1], weights=[0.5, 0.25, 1000.0], offsets=[1.0, 2.0, -3.0])
    assert (counts.sums.astype(float) * 2**-20).tolist() == [[0.75, 1000.0], [0.3125, 1e6], [3.0, -3.0]]


def test_another_plans_tally_is_refused():
    with pytest.raises(ValueError, match="different plans"):
        Tally("one", {}).merge(Tally("two", {}))


def test_tallies_with_and_without_weights_do_not_mix():
    with pytest.raises(ValueError, match="with and without weights"):
        Counts.of([1]).merge(Counts.of([1], weights=[2.0]))


@pytest.mark.parametrize(
    "data",
    [
        {"reports": [1, 0], "counts": [1, 1]},
        {"reports": [0], "counts": [0]},
        {"reports": [0, 1], "counts": [1]},
        {"reports": [0], "counts": [-1]},
    ],
)
def test_impossible_counts_are_refused(data):
    with pytest.raises(ValueError, match="ascending reports"):
        Counts.from_dict(data)


def test_other_formats_and_nothing_are_refused():
    with pytest.raises(ValueError, match="format 1"):
        Tally.from_dict({"tacit_tally": 2})
    with pytest.raises(ValueError, match="no tally"):
        merge_all([])


@pytest.mark.parametrize("bad", [[np.nan], [1.0, 2.0], [2.0**21]])
def test_bad_weights_are_refused(bad):
    with pytest.raises(ValueError, match="weights must be one finite number"):
        Counts.of([0], weights=bad)


YES, OTHER = Prior.of({"yes": 0.3, "no": 0.7}), Prior.of({"yes": 0.1, "no": 0.9})
EVERYBODY = make_plan(YES, Survey("yes"), 1)
GROUPED = make_plan({"a": YES, "b": OTHER}, Survey("yes"), 1)


@pytest.mark.parametrize("kind", [list, np.array])
def test_arrays_of_reports_are_counted_and_strangers_refused(kind):
    found = Tally.of(EVERYBODY, kind([1, 0, 1, 2, -1]))
    assert found == Tally(EVERYBODY.hash, {None: Counts.of([0, 1, 1])}, refused=2)
    found = Tally.of(GROUPED, kind([1, 0, 1, 2, 0]), kind(["a", "b", "b", "b", "c"]))
    assert found == Tally(GROUPED.hash, {"a": Counts.of([1]), "b": Counts.of([0, 1])}, refused=2)
    assert Tally.of(EVERYBODY, kind([])).n_reports == 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-1, 2)), max_size=30))
def test_counting_all_at_once_equals_counting_one_by_one(rows):
    one_by_one = merge_all([Tally.of(GROUPED, [], []), *(Tally.of(GROUPED, [sent], [name]) for name, sent in rows)])
    at_once = Tally.of(GROUPED, [sent for _, sent in rows], [name for name, _ in rows])
    assert at_once.to_dict() == one_by_one.to_dict()
    assert at_once.n_reports + at_once.refused == len(rows)


@pytest.mark.parametrize(("plan", "groups"), [(EVERYBODY, ["a"]), (GROUPED, None), (GROUPED, ["a", "b"])])
def test_groups_are_given_where_the_plan_names_them(plan: Plan, groups):
    with pytest.raises(ValueError, match="group"):
        Tally.of(plan, [0], groups)
