from __future__ import annotations

import copy
import json
from fractions import Fraction
from itertools import pairwise

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import Histogram, Plan, Prior, Survey, make_plan
from tacit.designs import Search
from tacit.files import load_tally, read_tally, save_tally
from tacit.files.columns import InputError
from tacit.tally import Counts, Coverage, Tally, merge_all

from support.places import ROOT

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


@given(st.lists(st.integers(0, 4)) | st.lists(st.integers(-3, 70) | st.integers(-(2**63), 2**63 - 1)))
def test_small_reports_are_counted_as_all_others_are(reports):
    unique, counts = np.unique(np.array(reports, dtype=np.int64), return_counts=True)
    found = Counts.of(reports)
    assert found.to_dict() == {"reports": unique.tolist(), "counts": counts.tolist()}
    assert found.reports.dtype == found.counts.dtype == np.int64


def test_weights_are_summed_exactly():
    counts = Counts.of([0, 0, 1], weights=[0.5, 0.25, 1000.0], offsets=[1.0, 2.0, -3.0])
    assert (counts.sums.astype(float) * 2.0**-160).tolist() == [
        [0.75, 1000.0],
        [0.3125, 1e6],
        [3.0, -3.0],
        [0.5, 1000.0],
    ]


def test_weights_of_any_size_keep_all_their_digits():
    """Weights of 1/N were zero in units of 2^-20, and so was every standard error."""
    rng = np.random.default_rng(1)
    weights = np.concatenate([rng.uniform(0, 1e-9, 500), rng.uniform(0, 1e6, 500), -rng.uniform(0, 1, 500)])
    reports = rng.integers(0, 3, len(weights))
    counts = Counts.of(reports, weights)
    for report in range(3):
        exact = sum(map(Fraction, weights[reports == report].tolist()))
        assert Fraction(counts.sums[0][report], 2**160) == exact
    assert counts.weighted()[2] == np.abs(weights).max()
    halves = Counts.of(reports[:700], weights[:700]).merge(Counts.of(reports[700:], weights[700:]))
    assert halves == counts
    assert not np.rint(np.full(10, 4e-7) ** 2 / 2.0**-20).any()  # the named wrong answer


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


@pytest.mark.parametrize("bad", [[np.nan], [1.0, 2.0], [2.0**54]])
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


# What a file may say ----------------------------------------------------------------------------------------

SCHEMA = json.loads((ROOT / "src/tacit/files/tally.schema.json").read_text(encoding="utf-8"))
FITS = jsonschema.Draft202012Validator(SCHEMA).is_valid
CIRCLE = make_plan(Prior.uniform(14), Histogram(), 1, search=Search(method="many-values"))
WRITTEN = {
    "groups": Tally.of(GROUPED, [1, 0, 1], ["a", "b", "b"]),
    "everybody": Tally.of(EVERYBODY, [0, 1, 7]),
    "weights": Tally(EVERYBODY.hash, {None: Counts.of([0, 1, 1], [1.0, 2.5, -1.0], [0.0, 1.0, 2.0])}),
    "coverage": Tally.of(CIRCLE, [1, 2, 3]),
    "nothing": Tally.of(EVERYBODY, []),
}
KNOWN = Tally.of(EVERYBODY, [0, 1]).to_dict() | {"sources": {"ids": ["0" * 32, "1" * 32], "complete": True}}


@pytest.mark.parametrize("name", WRITTEN)
def test_every_tally_that_is_written_fits_the_schema_and_is_read(name):
    data = json.loads(json.dumps(WRITTEN[name].to_dict()))
    assert FITS(data)
    assert Tally.from_dict(data) == WRITTEN[name]


def test_what_was_counted_fits_the_schema_and_is_read():
    assert FITS(KNOWN)
    assert Tally.from_dict(KNOWN).to_dict() == KNOWN
    for wrong in ({"ids": ["0"], "complete": True}, {"ids": []}, {"ids": ["0" * 32], "complete": 1}, []):
        assert not FITS(KNOWN | {"sources": wrong})
        with pytest.raises(ValueError, match="sources of a tally"):
            Tally.from_dict(KNOWN | {"sources": wrong})


def altered(name: str, path: tuple, wrong: object) -> dict:
    data = json.loads(json.dumps(WRITTEN[name].to_dict()))
    part = data
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = wrong
    return data


WRONG = [
    *(("everybody", ("groups", 0, "counts", 0), wrong) for wrong in (-1, 0, 1.5, "1", True, None, 2**63, 10**400, [1])),
    *(("everybody", ("groups", 0, "reports", 0), wrong) for wrong in (-1, 0.5, "0", False, 2**63)),
    *(("everybody", ("groups", 0, "group"), wrong) for wrong in (7, ["a"], True)),
    *(("everybody", ("refused",), wrong) for wrong in (-1, "2", 1.5, None, True, 2**63)),
    *(("everybody", ("plan",), wrong) for wrong in (7, None)),
    *(("everybody", ("groups",), wrong) for wrong in ({}, "all", None, [7])),
    *(("everybody", ("tacit_tally",), wrong) for wrong in (2, "1", True)),
    ("everybody", ("surprise",), 1),
    ("everybody", ("groups", 0, "surprise"), 1),
    ("everybody", ("groups", 0, "counts"), "12"),
    ("everybody", ("groups", 0, "weights"), ["1", "1"]),
    *(("weights", ("groups", 0, "weight_sums", 0), wrong) for wrong in (1, "1.5", "1_0", "nan", "9" * 101)),
    *(("coverage", ("groups", 0, "coverage", 0), wrong) for wrong in (-1, 0.5, "1", True, 2**63)),
    *(("coverage", ("groups", 0, "total"), wrong) for wrong in (-1, "3", None, 2**63)),
]


@pytest.mark.parametrize(("name", "path", "wrong"), WRONG, ids=str)
def test_what_is_no_tally_is_refused_by_schema_and_reader(tmp_path, name, path, wrong):
    data = altered(name, path, wrong)
    # JSON schema takes 1.0 and true for 1 where Python does; the reader does not.
    assert not FITS(data) or wrong is True
    with pytest.raises(ValueError, match=r"tally|coverage"):
        Tally.from_dict(data)
    (tmp_path / "tally.json").write_text(json.dumps(data))
    with pytest.raises(InputError, match="is not a tally"):
        load_tally(tmp_path / "tally.json")


@pytest.mark.parametrize("name", WRITTEN)
def test_a_missing_field_is_refused_wherever_it_stood(name):
    data = json.loads(json.dumps(WRITTEN[name].to_dict()))
    for place in ([], *(["groups", k] for k in range(len(data["groups"])))):
        fields = data if not place else data["groups"][place[1]]
        for field in fields:
            without = copy.deepcopy(data)
            del (without if not place else without["groups"][place[1]])[field]
            assert not FITS(without)
            with pytest.raises(ValueError, match=r"must have the fields|Not a tally|with a name"):
                Tally.from_dict(without)


@pytest.mark.parametrize("text", ["", "[]", "7", "{", "[" * 100_000, '{"tacit_tally": NaN}'])
def test_what_is_not_even_json_is_no_tally(tmp_path, text):
    (tmp_path / "tally.json").write_text(text)
    with pytest.raises(InputError, match="is not a tally"):
        load_tally(tmp_path / "tally.json")


SUMS_OF_ONE = {"square_sums": ["1"], "offset_sums": ["0"], "largest_weights": ["1"]}


def test_what_a_schema_cannot_say_is_refused_too(tmp_path):
    """Ascending reports, sums below 2^63, groups that differ, lists of one length."""
    half, groups = 2**62, json.loads(json.dumps(WRITTEN["groups"].to_dict()))
    for wrong, said in (
        ({"reports": [0, 1], "counts": [half, half]}, "2\\^63"),
        ({"reports": [1, 0], "counts": [1, 1]}, "ascending"),
        ({"reports": [0], "counts": [1], "weight_sums": [], **SUMS_OF_ONE}, "a weight"),
        ({"reports": [0], "counts": [1], "weight_sums": ["1"], **SUMS_OF_ONE, "square_sums": ["-1"]}, "from 0"),
    ):
        data = WRITTEN["everybody"].to_dict() | {"groups": [{"group": None} | wrong]}
        assert FITS(data)
        with pytest.raises(ValueError, match=said):
            Tally.from_dict(data)
    with pytest.raises(ValueError, match="'a' stands twice"):
        Tally.from_dict(groups | {"groups": [groups["groups"][0]] * 2})


def test_merging_never_wraps():
    large = Counts(np.array([0]), np.array([5 * 10**18]))
    assert large.merge(Counts.of([0])).total == 5 * 10**18 + 1
    for one in (large, Coverage(np.array([5 * 10**18]), 1), Coverage(np.array([1]), 5 * 10**18)):
        with pytest.raises(ValueError, match=r"cannot count 2\^63"):
            one.merge(one)
    assert Counts(np.arange(4), np.full(4, 2**61)).total == 2**63


@pytest.mark.parametrize(
    ("plan", "groups", "said"),
    [
        (EVERYBODY, {None: Counts.of([7])}, "a report that the plan cannot have sent"),
        (EVERYBODY, {"a": Counts.of([0])}, "a group 'a'"),
        (GROUPED, {None: Counts.of([0])}, "a group None"),
        (GROUPED, {"b": Counts.of([0, 2])}, "a report that group 'b' cannot have sent"),
        (EVERYBODY, {None: Coverage(np.array([1]), 1)}, "sums of coverage"),
        (CIRCLE, {None: Counts.of([0])}, "cannot have sent"),
        (CIRCLE, {None: Coverage(np.zeros(13, dtype=np.int64), 1)}, "sums of coverage"),
        (CIRCLE, {None: Coverage(np.full(14, 3 * 2**20 + 1), 3)}, "sums of coverage"),
    ],
)
def test_a_tally_is_held_against_its_plan(tmp_path, plan, groups, said):
    tally = Tally(plan.hash, groups)
    with pytest.raises(ValueError, match=said):
        tally.check(plan)
    for name in ("tally.json", "tally.parquet"):
        save_tally(tally, tmp_path / name)
        with pytest.raises(InputError, match=said):
            read_tally(plan, tmp_path / name)
    Tally.of(CIRCLE, [1, 2, 3]).check(CIRCLE)


@pytest.mark.parametrize("reports", [5, [[0, 1], [1, 0]], [0.5], [True]])
def test_what_is_no_row_of_integers_is_refused(reports):
    """Of a table one row was counted as if there were no other."""
    plan = make_plan(Prior.of({"yes": 0.3, "no": 0.7}), Survey("yes"), epsilon=1)
    with pytest.raises(ValueError, match="Reports must be"):
        Tally.of(plan, np.array(reports))
