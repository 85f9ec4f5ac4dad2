"""The order of reports says nothing about the order of the answers, unless it is kept, and then it is checked."""

from __future__ import annotations

import itertools
from collections import Counter
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import chi2

from tacit import Histogram, Prior, Sum, Survey, make_plan
from tacit.files import giveaway, perturb_file, perturb_table, reading, writing
from tacit.files.giveaway import ROW_ORDER, GivesAwayError, answers_given_away, chance_changes
from tacit.files.writing import HeldRows, permutation, swaps
from tacit.randomize import SecureWords, SeededWords

PLAN = make_plan(Prior.of({"yes": 0.3, "no": 0.7}), Survey("yes"), epsilon=1)
SORTED = ["no"] * 7000 + ["yes"] * 3000


def rows_of(table: pa.Table) -> Counter:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def gap(reports: np.ndarray) -> float:
    """How far the reports of the first 7,000 rows differ from the others, in standard errors: the attack."""
    first, last = reports[:7000], reports[7000:]
    return abs(first.mean() - last.mean()) / (reports.std() * np.sqrt(1 / 7000 + 1 / 3000))


# -- what is written ------------------------------------------------------------------------------------------------


def test_sorted_answers_do_not_show_in_the_order_of_the_reports(tmp_path):
    """In their order the reports of those who hold it and of those who do not differ by dozens of standard errors."""
    target = tmp_path / "reports.parquet"
    perturb_file(PLAN, {"value": SORTED}, target)
    assert gap(pq.read_table(target)["report"].to_numpy()) < 6
    assert gap(perturb_table(PLAN, SORTED)["report"].to_numpy()) < 6
    # The named wrong answer, which is what was written before.
    assert gap(perturb_table(PLAN, SORTED, keep_order=True, force=True)["report"].to_numpy()) > 20


@pytest.mark.parametrize("extension", ["csv", "parquet", "jsonl", "arrow"])
def test_groups_and_kept_columns_travel_with_their_reports(tmp_path, extension):
    plan = make_plan({"a": Prior.of({"x": 1, "y": 2}), "b": Prior.of({"x": 3, "y": 1})}, Histogram(), epsilon=1)
    random = np.random.default_rng(3)
    answers = {
        "value": random.choice(["x", "y"], 900).tolist(),
        "group": random.choice(["a", "b"], 900).tolist(),
        "id": random.permutation(900).tolist(),
    }
    as_they_stood = perturb_table(plan, answers, keep=["id"], keep_order=True, words=SeededWords(7))
    target = tmp_path / f"reports.{extension}"
    perturb_file(plan, answers, target, keep=["id"], words=SeededWords(7))
    with reading.reading(target, ["group", "id", "report"]) as opened:
        shuffled = pa.concat_tables(opened.tables())
    cells = [[str(cell) for cell in column.to_pylist()] for column in shuffled.columns]
    expected = [[str(cell) for cell in column.to_pylist()] for column in as_they_stood.columns]
    assert Counter(zip(*cells, strict=True)) == Counter(zip(*expected, strict=True))
    assert cells != expected


@pytest.mark.parametrize(("most", "files"), [(2**21, 0), (1000, 1), (10, 65)])
def test_files_larger_than_memory_are_shuffled_as_a_whole(monkeypatch, tmp_path, most, files):
    """In memory, through 64 files, and through files that are dealt again; no file has a name."""
    opened: list[object] = []
    temporary = writing.tempfile.TemporaryFile

    def counted(**options):
        opened.append(options)
        assert list(tmp_path.iterdir()) == []
        return temporary(**options)

    monkeypatch.setattr(writing, "MOST_HELD", most)
    monkeypatch.setattr(writing.tempfile, "TemporaryFile", counted)
    numbers, table = np.arange(2500), pa.table({"x": np.arange(2500), "name": [f"n{x}" for x in range(2500)]})
    with HeldRows(table.schema, SecureWords(), tmp_path) as held:
        for start in range(0, 2500, 25):
            held.add(table.slice(start, 25))
        got = pa.concat_tables(held.tables())
    assert len(opened) == 64 * files
    assert rows_of(got) == rows_of(table)
    order = got["x"].to_numpy()
    # Neighbours ascend in half of all pairs, and places are not correlated: 6 standard deviations.
    assert abs(np.mean(order[1:] > order[:-1]) - 0.5) < 6 / np.sqrt(12 * 2500)
    assert abs(np.corrcoef(order, numbers)[0, 1]) < 6 / np.sqrt(2500)
    # The named wrong answer: files that are not permuted themselves ascend.
    bucket = np.random.default_rng(1).integers(64, size=2500)
    dealt = np.argsort(bucket, kind="stable")
    assert np.mean(dealt[1:] > dealt[:-1]) > 0.9


def test_rows_in_their_order_stay_so_through_a_file(monkeypatch):
    monkeypatch.setattr(writing, "MOST_HELD", 100)
    table = pa.table({"x": np.arange(1000)})
    with HeldRows(table.schema, None) as held:
        for start in range(0, 1000, 30):
            held.add(table.slice(start, 30))
        assert pa.concat_tables(held.tables())["x"].to_pylist() == list(range(1000))


def test_every_permutation_is_equally_likely():
    """All 24 of four rows, 2,000 each expected; the shuffle that swaps with any row is the named wrong answer."""
    words, random = SeededWords(3), np.random.default_rng(3)

    def statistic(draw) -> float:
        counts = Counter(tuple(draw()) for _ in range(48_000))
        assert len(counts) == 24
        return sum((count - 2000) ** 2 / 2000 for count in counts.values())

    def wrong() -> list[int]:
        order = [0, 1, 2, 3]
        for place in range(4):
            other = int(random.integers(4))
            order[place], order[other] = order[other], order[place]
        return order

    assert chi2.sf(statistic(lambda: permutation(4, words).tolist()), 23) > 1e-9
    assert chi2.sf(statistic(wrong), 23) < 1e-9


def test_words_are_rejected_so_that_every_place_has_equally_many():
    """2³² = 3·1431655765 + 1: one word of all is rejected for three places, and the others are cut into equal parts."""
    part = 2**32 // 3
    for word, place in ((0, None), (1, 0), (part, 0), (part + 1, 1), (2 * part, 1), (2 * part + 1, 2), (2**32 - 1, 2)):
        order = np.arange(3, dtype=np.int32)
        left = swaps()(order, 3, np.array([word], dtype=np.uint64))
        assert (left, order[2]) == ((3, 2) if place is None else (2, place)), word


# -- what is refused ------------------------------------------------------------------------------------------------


def test_an_order_that_shows_the_answers_is_kept_only_by_force(tmp_path):
    target = tmp_path / "reports.csv"
    with pytest.raises(GivesAwayError, match="order of the rows gives answers away"):
        perturb_file(PLAN, {"value": SORTED}, target, keep_order=True)
    assert list(tmp_path.iterdir()) == []
    done = perturb_file(PLAN, {"value": SORTED}, target, keep_order=True, force=True)
    assert done.gives_away == ((ROW_ORDER,),)
    mixed = np.random.default_rng(2).permutation(SORTED).tolist()
    assert perturb_file(PLAN, {"value": mixed}, target, keep_order=True).gives_away == ()


def test_nothing_goes_to_standard_output_before_the_check(capfdbinary, monkeypatch):
    monkeypatch.setattr(reading, "BATCH_ROWS", 64)
    with pytest.raises(GivesAwayError):
        perturb_file(PLAN, {"value": SORTED[:64] + SORTED}, "-", keep_order=True)
    written = capfdbinary.readouterr().out
    assert written == b""


@pytest.mark.parametrize("kind", ["number", "text of a number", "text", "date"])
def test_numbers_given_out_in_the_order_of_the_answers_are_a_giveaway(kind, tmp_path):
    """The rows are in random order; sorted by this column the answers are too."""
    random = np.random.default_rng(4)
    order = random.permutation(10_000)
    label = {
        "number": lambda x: int(x) * 7,
        "text of a number": lambda x: str(x),
        "text": lambda x: f"person {x:05}",
        "date": lambda x: date(2020, 1, 1) + timedelta(int(x)),
    }[kind]
    answers = {"value": [SORTED[x] for x in order], "id": [label(x) for x in order]}
    with pytest.raises(GivesAwayError, match="'id' beside the reports gives answers away"):
        perturb_file(PLAN, answers, tmp_path / "reports.csv", keep=["id"])
    assert list(tmp_path.iterdir()) == []
    harmless = answers | {"id": [label(x) for x in random.permutation(10_000)]}
    assert perturb_file(PLAN, harmless, tmp_path / "reports.csv", keep=["id"]).gives_away == ()


@pytest.mark.parametrize("ordered", [True, False])
def test_the_whole_file_is_looked_at(monkeypatch, ordered):
    """Sorted answers begin with rows that are all alike, which show nothing."""
    monkeypatch.setattr(giveaway, "LOOKED_AT", 1000)
    monkeypatch.setattr(reading, "BATCH_ROWS", 700)
    answers = {"value": SORTED, "id": np.arange(10_000)}
    with pytest.raises(GivesAwayError):
        perturb_table(PLAN, answers, keep=() if ordered else ("id",), keep_order=ordered)


def test_groups_that_answer_differently_are_no_giveaway_and_sorted_answers_in_groups_are():
    plan = make_plan({"a": Prior.of({"yes": 1, "no": 9}), "b": Prior.of({"yes": 9, "no": 1})}, Survey("yes"), epsilon=1)
    random = np.random.default_rng(6)
    groups = ["a"] * 3000 + ["b"] * 3000
    chances = np.where(np.array(groups) == "a", 0.1, 0.9)
    drawn = np.where(random.random(6000) < chances, "yes", "no")
    assert perturb_table(plan, {"value": drawn, "group": groups}, keep_order=True).num_rows == 6000
    # Rows of two groups in turn: each group's answers are sorted.
    in_turn = {"value": np.repeat(["yes", "no"], [1200, 4800]), "group": ["a", "b"] * 3000}
    with pytest.raises(GivesAwayError):
        perturb_table(plan, in_turn, keep_order=True)


def test_sorted_numbers_between_the_values_are_found():
    plan = make_plan(Prior.uniform([0, 100]), Sum(), epsilon=1, between=(0, 100))
    numbers = np.random.default_rng(8).random(5000) * 100
    assert perturb_table(plan, {"value": numbers}, keep_order=True).num_rows == 5000
    with pytest.raises(GivesAwayError):
        perturb_table(plan, {"value": np.sort(numbers)}, keep_order=True)


def test_changes_by_chance_against_all_orders():
    groups, answers = np.array([0, 0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 2, 1, 1, 0])
    found = [
        sum(a != b for a, b in itertools.pairwise(first)) + sum(a != b for a, b in itertools.pairwise(second))
        for first in itertools.permutations(answers[:4])
        for second in itertools.permutations(answers[4:])
    ]
    assert chance_changes(groups, answers) == pytest.approx((np.mean(found), np.var(found)), rel=1e-12)


def test_a_column_that_is_only_related_to_the_answers_may_be_kept():
    random = np.random.default_rng(9)
    income = random.lognormal(10, 1, 20_000)
    held = (random.random(20_000) < 1 / (1 + (income / 20_000) ** 2)).astype(int)
    assert answers_given_away(pa.table({"income": income}), held, ["income"]) == ()
    poor = (income < 15_000).astype(int)
    assert answers_given_away(pa.table({"income": income}), poor, ["income"]) == (("income",),)
