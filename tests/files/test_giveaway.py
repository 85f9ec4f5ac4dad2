"""Kept columns that tell the answer are found, and others are not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tacit.files.giveaway import FEWEST, LOOKED_AT, answers_given_away

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


def test_one_answer_only_few_rows_and_labels_that_are_rare_show_nothing():
    assert told(["ward"], np.zeros(N, dtype=int)) == ()
    assert answers_given_away(pa.table(COLUMNS).slice(0, 900), HELD[:900], ["ward"]) == ()
    rare = pa.table({"place": np.arange(N) // (FEWEST - 1)})
    assert answers_given_away(rare, np.arange(N) // (FEWEST - 1) % 2, ["place"]) == ()


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
