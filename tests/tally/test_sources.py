"""What a tally counted: files are known by their content, and nothing is counted twice unnoticed."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import Prior, Survey, Tally, make_plan
from tacit.files import load_tally, save_tally, tally_file
from tacit.mechanism.kept import COVERAGE_UNIT
from tacit.tally import MOST, Counts, Coverage, Sources, merge_all

PLAN = make_plan(Prior.of({"yes": 0.3, "no": 0.7}), Survey("yes"), epsilon=1)


def identity(number: int) -> str:
    return f"{number:032x}"


def write_reports(path, rows: int, seed: int = 0):
    reports = np.random.default_rng(seed).integers(0, 2, rows)
    path.write_text("report\n" + "".join(f"{report}\n" for report in reports))
    return path


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 200), st.booleans()), min_size=3, max_size=3))
def test_merging_is_associative_and_commutative_and_stays_small(parts):
    numbers = itertools.count()
    made = []
    for size, complete in parts:
        # In any order: the smallest are kept, not the first.
        ids = sorted(identity(next(numbers) * 7919 % 10_007) for _ in range(size))
        made.append(Sources(tuple(ids), complete))
    a, b, c = made
    whole = a.merge(b).merge(c)
    assert a.merge(b.merge(c)) == whole == c.merge(a).merge(b)
    assert len(whole.ids) <= MOST
    assert whole.complete == (all(complete for _, complete in parts) and sum(size for size, _ in parts) <= MOST)


def test_the_same_file_counted_twice_is_refused(tmp_path):
    path = write_reports(tmp_path / "monday.csv", 200)
    (tmp_path / "copy.csv").write_bytes(path.read_bytes())
    first, again, copy = (tally_file(PLAN, tmp_path / name) for name in ("monday.csv", "monday.csv", "copy.csv"))
    other = tally_file(PLAN, write_reports(tmp_path / "tuesday.csv", 200, seed=1))
    assert first.merge(other).sources.complete
    for twice in (again, copy):
        with pytest.raises(ValueError, match="counted the same reports"):
            first.merge(other).merge(twice)


def test_small_files_may_be_equal_by_chance_so_only_their_tallies_are_told_apart(tmp_path):
    """Named wrong answer: refusing two people's files that happen to hold the same report."""
    path = write_reports(tmp_path / "one.csv", 20)
    first, second = tally_file(PLAN, path), tally_file(PLAN, path)
    merged = first.merge(second)
    assert merged.n_reports == 40
    assert not merged.sources.complete
    with pytest.raises(ValueError, match="counted the same reports"):
        merged.merge(first)


def test_how_likely_chance_repeats_reports():
    even, one_sided = Tally("plan", {None: Counts.of([0, 1] * 32)}), Tally("plan", {None: Counts.of([0] * 64)})
    assert even.collision_bits == pytest.approx(64)
    assert one_sided.collision_bits == 0
    half = Coverage(np.array([0, 2 * COVERAGE_UNIT]), 4)
    assert Tally("plan", {"a": half, "b": Counts.of([0, 1])}).collision_bits == pytest.approx(6)


@pytest.mark.parametrize("name", ["tally.json", "tally.parquet"])
def test_sources_are_saved_and_read(tmp_path, name):
    tally = tally_file(PLAN, write_reports(tmp_path / "reports.csv", 200))
    save_tally(tally, tmp_path / name)
    assert load_tally(tmp_path / name).sources == tally.sources
    with pytest.raises(ValueError, match="counted the same reports"):
        load_tally(tmp_path / name).merge(load_tally(tmp_path / name))


def test_earlier_tallies_are_read_and_do_not_know(tmp_path):
    data = Tally.of(PLAN, [0, 1, 1]).to_dict()
    assert "sources" not in data
    earlier = Tally.from_dict(json.loads(json.dumps(data)))
    assert earlier.sources == Sources()
    assert earlier.merge(earlier).n_reports == 6


def test_more_files_than_a_tally_names_are_still_told_from_itself():
    tallies = [Tally("plan", {}, sources=Sources((identity(k),), True)) for k in range(MOST + 10)]
    merged = merge_all(tallies)
    assert len(merged.sources.ids) == MOST
    assert not merged.sources.complete
    with pytest.raises(ValueError, match="counted the same reports"):
        merged.merge(tallies[0])


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {"ids": []},
        {"ids": [identity(1)], "complete": 1},
        {"ids": ["x"], "complete": True},
        {"ids": [identity(2), identity(1)], "complete": True},
        {"ids": [identity(1)] * 2, "complete": True},
        {"ids": [identity(k) for k in range(MOST + 1)], "complete": True},
    ],
    ids=lambda wrong: str(wrong)[:40],
)
def test_what_no_tally_says_of_its_sources_is_refused(wrong):
    with pytest.raises(ValueError, match="sources of a tally"):
        Tally.from_dict(Tally.of(PLAN, [0]).to_dict() | {"sources": wrong})
