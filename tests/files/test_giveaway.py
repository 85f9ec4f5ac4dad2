"""Kept columns that tell the answer are found, and others are not."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from tacit.files import giveaway
from tacit.files.giveaway import FEWEST, LOOKED_AT, _chance_of_labels, answers_given_away

N = 4000
RNG = np.random.default_rng(5)
HELD = RNG.integers(0, 4, N)
COLUMNS = {
    "region": RNG.integers(0, 20, N).astype(str),
    "person": np.arange(N),
    "household": np.arange(N) // 10,
    "ward": np.array(["a", "b", "c", "d"])[HELD],
    "sub-ward": HELD * 30 + RNG.integers(0, 30, N),
    "key": (key := RNG.integers(0, 4, N)),
    "sum": (HELD + key) % 4,
}


def told(keep: list[str], held: np.ndarray = HELD) -> tuple[tuple[str, ...], ...]:
    return answers_given_away(pa.table(COLUMNS), held, keep)


def test_a_column_of_which_each_label_has_one_answer_is_found():
    assert told(["region", "ward"]) == (("ward",),)
    assert told(["ward", "sub-ward"]) == (("ward",), ("sub-ward",))


@pytest.mark.parametrize("written", ["r{}", "{:x}", "person-{}-x", "{:08x}-ab", "{:05}"])
def test_identifiers_in_the_order_of_sorted_answers_are_found(written: str):
    """However their numbers are written: "r9" comes before "r10". Identifiers at random are the named harmless case."""
    ordered = np.argsort(HELD, kind="stable")
    names = np.empty(N, dtype=object)
    names[ordered] = [written.format(k) for k in range(N)]
    table = pa.table({"id": pa.array(names.tolist())})
    assert answers_given_away(table, HELD, ["id"]) == (("id",),)
    shuffled = pa.table({"id": pa.array(RNG.permutation(names).tolist())})
    assert answers_given_away(shuffled, HELD, ["id"]) == ()


def test_some_errors_do_not_hide_it_and_half_of_it_is_not_it():
    wrong = RNG.random(N)
    assert told(["ward"], np.where(wrong < 0.05, (HELD + 1) % 4, HELD)) == (("ward",),)
    assert told(["ward"], np.where(wrong < 0.5, (HELD + 1) % 4, HELD)) == ()


def test_columns_that_tell_it_only_together_are_found():
    assert told(["key"]) == told(["sum"]) == ()
    assert told(["key", "sum"]) == (("key", "sum"),)


def test_rare_answers_alone_are_no_giveaway():
    """Nearly every household of ten is pure where one person in a hundred holds it: that tells nobody who."""
    rare = (RNG.random(N) < 0.01).astype(int)
    assert told(["household", "region"], rare) == ()
    # The named wrong rule, "most labels have one answer", would cry wolf.
    assert np.mean([len(set(rare[COLUMNS["household"] == home])) == 1 for home in range(N // 10)]) > 0.8


@pytest.mark.parametrize("keep", [[], ["person"], ["region", "person"]])
def test_what_shows_nothing_is_not_named(keep: list[str]):
    assert told(keep) == ()


def test_one_answer_only_and_labels_that_are_rare_show_nothing():
    assert told(["ward"], np.zeros(N, dtype=int)) == ()
    rare = pa.table({"place": np.arange(N) // (FEWEST - 1)})
    assert answers_given_away(rare, np.arange(N) // (FEWEST - 1) % 2, ["place"]) == ()


FEW = np.array([1] * 5 + [0] * 45)


@pytest.mark.parametrize(
    "column", [FEW, np.where(FEW, "ill", "well"), np.where(FEW == 0, np.arange(50) // 8, 9), np.arange(50)]
)
def test_fifty_rows_are_enough(column: np.ndarray):
    """By label or by order; the same column in random order is harmless, and five rows show nothing."""
    assert answers_given_away(pa.table({"column": column}), FEW, ["column"]) == (("column",),)
    shuffled = np.random.default_rng(1).permutation(column)
    assert answers_given_away(pa.table({"column": shuffled}), FEW, ["column"]) == ()
    assert answers_given_away(pa.table({"column": column[2:8]}), FEW[2:8], ["column"]) == ()


def test_harmless_columns_of_few_rows_raise_no_alarm(monkeypatch: pytest.MonkeyPatch):
    """The named wrong rule, the limit of a tenth without the chance, calls one table in twenty a giveaway."""

    def alarms() -> int:
        found = 0
        for seed in range(100):
            chance = np.random.default_rng(seed)
            n = int(chance.integers(4, 20))
            table = {"sex": chance.integers(0, 2, n), "region": chance.integers(0, n // 2, n), "id": chance.random(n)}
            held = (chance.random(n) < 0.1).astype(int)
            found += answers_given_away(pa.table(table), held, ["sex", "region", "id"]) != ()
        return found

    assert alarms() == 0
    home = pa.table({"household": np.arange(60) // 3})
    assert answers_given_away(home, RNG.integers(0, 2, 20).repeat(3), ["household"]) == ()
    monkeypatch.setattr(giveaway, "_CHANCE", 1.0)
    assert alarms() > 5


@pytest.mark.parametrize("answers", [[0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 2, 2]])
def test_the_chance_of_labels_is_a_bound(answers: list[int]):
    """Over all orders of the answers; a hundredth of it is none."""
    labels, found = np.array([0, 0, 0, 1, 1, 2, 2]), []
    for order in set(itertools.permutations(answers)):
        right = sum(max(np.bincount(np.array(order)[labels == label])) for label in range(3))
        found.append(len(answers) - int(right))
    for wrong in range(4):
        exact = np.mean([each <= wrong for each in found])
        bound = _chance_of_labels(labels, np.array(answers), wrong)
        assert exact <= bound
        assert wrong > 0 or exact > bound / 100


def test_cells_may_be_missing_or_of_any_kind():
    cells = {
        "flag": pa.array([bool(x % 2) for x in HELD]),
        "coded": pa.array(COLUMNS["ward"]).dictionary_encode(),
        "holes": pa.array([None if x == 0 else int(x) for x in HELD]),
        "lists": pa.array([[int(x)] for x in HELD]),
        "nothing": pa.nulls(N),
    }
    assert answers_given_away(pa.table(cells), HELD, list(cells)) == (("coded",), ("holes",))


def test_so_many_rows_are_looked_at():
    held = np.arange(2 * LOOKED_AT) % 2
    early = np.arange(2 * LOOKED_AT) < LOOKED_AT
    first, later = np.where(early, held, 2), np.where(early, 2, held)
    assert answers_given_away(pa.table({"ward": later}), held, ["ward"]) == ()
    assert answers_given_away(pa.table({"ward": first}), held, ["ward"]) == (("ward",),)
