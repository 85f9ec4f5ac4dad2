from __future__ import annotations

import csv
import io
import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import Prior, Sum, Survey, WeightedSum, make_plan
from tacit.designs import optimal_binary, repaired_response
from tacit.files import (
    BadRowsError,
    InputError,
    load_tally,
    perturb_file,
    perturb_table,
    read_cells,
    read_tally,
    reading,
    save_tally,
    tallies,
    tally_by,
    tally_file,
)
from tacit.files.columns import Matcher
from tacit.plan import Group, Plan
from tacit.randomize import Randomizer
from tacit.randomize.randomness import SeededWords
from tacit.tally import Counts, Tally, merge_all

from support.rings import ring

EXTENSIONS = ["csv", "parquet", "jsonl", "ndjson", "arrow", "feather", "ipc"]
SECRET = "a-very-private-answer"


def grouped_plan() -> Plan:
    young, old = Prior.of({"yes": 1, "no": 9}), Prior.of({"yes": 3, "no": 7})
    groups = (
        Group(name="young", epsilon=Fraction(1), mechanism=optimal_binary(young, 1)),
        Group(name="old", epsilon=Fraction(1, 2), mechanism=optimal_binary(old, 0.5)),
    )
    return Plan.of_groups(Survey("yes"), groups)


def plain_plan(prior: Prior, task=None) -> Plan:
    return Plan.of_groups(
        task or Survey(prior.values[0]),
        (Group(name=None, epsilon=Fraction(1), mechanism=repaired_response(prior, 1)),),
    )


def mixed_plan() -> Plan:
    """A group with a ring, whose words per report are several, beside a table."""
    prior = Prior(range(8), [1] * 7 + [0])
    arc = ring(prior, 3, 2, Fraction(3, 2))
    table = repaired_response(prior, 1)
    return Plan.of_groups(
        Sum(),
        (
            Group(name="arc", epsilon=Fraction(3, 2), mechanism=arc),
            Group(name="table", epsilon=Fraction(1), mechanism=table),
        ),
    )


def answers(plan: Plan, rows: int, seed: int = 0) -> dict[str, list]:
    random = np.random.default_rng(seed)
    names = [group.name for group in plan.groups]
    return {
        "name": [SECRET] * rows,
        "value": [plan.values[x] for x in random.integers(len(plan.values), size=rows)],
        "group": [names[k] for k in random.integers(len(names), size=rows)],
        "region": [f'region {x}, "{"é" * x}"' for x in random.integers(3, size=rows)],
    }


def write(path: Path, columns: dict[str, list]) -> Path:
    """Write a file with readers and writers other than the engine's where there are any."""
    table, kind = pa.table(columns), path.suffix[1:]
    rows = table.to_pylist()
    if kind == "csv":
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(columns))
            writer.writeheader()
            writer.writerows(rows)
    elif kind in ("jsonl", "ndjson"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif kind == "parquet":
        pq.write_table(table, path, row_group_size=37)
    elif kind == "feather":
        feather.write_feather(table, path, chunksize=41)
    else:
        with (pa.ipc.new_stream if kind == "ipc" else pa.ipc.new_file)(path, table.schema) as sink:
            sink.write_table(table, max_chunksize=53)
    return path


def read(path: Path) -> dict[str, list]:
    kind = path.suffix[1:]
    if kind == "csv":
        rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
        return {name: [row[name] for row in rows] for name in rows[0]}
    if kind in ("jsonl", "ndjson"):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return {name: [row[name] for row in rows] for name in rows[0]}
    table = pq.read_table(path) if kind == "parquet" else pa.ipc.open_file(path).read_all()
    return table.to_pydict()


def expected_reports(plan: Plan, columns: dict[str, list], seed: int = 5, block: int = 10**9) -> list[int]:
    names = [group.name for group in plan.groups]
    groups = np.array([names.index(name) for name in columns["group"]])
    positions = np.array([plan.values.index(value) for value in columns["value"]])
    words, randomizer = SeededWords(seed), Randomizer(plan)
    parts = [slice(start, start + block) for start in range(0, len(groups), block)]
    return [y for part in parts for y in randomizer.reports(groups[part], positions[part], words).tolist()]


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(reading, "BATCH_ROWS", 64)


# -- perturb ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("plan", [grouped_plan(), mixed_plan()], ids=["names", "numbers and a ring"])
@pytest.mark.parametrize("extension", EXTENSIONS)
def test_every_format_gives_the_same_reports_for_the_same_words(tmp_path, extension, plan):
    columns = answers(plan, 300)
    source, target = write(tmp_path / f"answers.{extension}", columns), tmp_path / f"reports.{extension}"
    seen: list[tuple[int, int | None]] = []
    summary = perturb_file(
        plan, source, target, keep=["region"], keep_order=True, words=SeededWords(5),
        progress=lambda *at: seen.append(at),
    )  # fmt: skip
    assert (summary.rows, summary.reports, summary.skipped) == (300, 300, {})
    assert [done for done, _ in seen] == [64, 128, 192, 256, 300]
    assert {total for _, total in seen} == ({300} if extension == "parquet" else {None})
    result = read(target)
    stamp = ["tacit_plan"] if extension in ("csv", "jsonl", "ndjson") else []
    assert list(result) == ["group", "region", "report", *stamp]
    assert result["group"] == columns["group"]
    assert result["region"] == columns["region"]
    assert [int(report) for report in result["report"]] == expected_reports(plan, columns, block=64)
    assert SECRET.encode() not in target.read_bytes()
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_an_input_with_a_header_only_gives_an_empty_output(tmp_path):
    for extension in ("csv", "parquet", "arrow"):
        source, target = tmp_path / f"none.{extension}", tmp_path / f"reports.{extension}"
        write(source, {"value": pa.array([], pa.string()), "group": pa.array([], pa.string())})
        assert perturb_file(grouped_plan(), source, target).rows == 0
        tally = tally_file(grouped_plan(), target)
        assert (tally.n_reports, tally.refused) == (0, 0)
    assert (tmp_path / "reports.csv").read_text() == "group,report,tacit_plan\n"
    (tmp_path / "none.jsonl").write_text("")
    assert perturb_file(grouped_plan(), tmp_path / "none.jsonl", tmp_path / "reports.jsonl").reports == 0


BAD = {
    "value": ["yes", SECRET, "no", None, "yes", "yes", SECRET],
    "group": ["old", "old", "young", "old", SECRET, None, "old"],
}
REASONS = {"unknown value": 2, "missing value": 1, "unknown group": 1, "missing group": 1}


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("extension", EXTENSIONS)
def test_bad_rows_stop_with_row_numbers_and_no_raw_value_and_leave_no_file(tmp_path, extension):
    columns = {name: ["yes" if name == "value" else "old"] * 100 + cells for name, cells in BAD.items()}
    source = write(tmp_path / f"answers.{extension}", columns)
    with pytest.raises(BadRowsError, match="has 5 rows that the plan cannot") as caught:
        perturb_file(grouped_plan(), source, tmp_path / "reports.csv")
    message = str(caught.value)
    assert "unknown value: 2 (rows 102, 107)" in message
    assert "missing value: 1 (row 104)" in message
    assert "unknown group: 1 (row 105)" in message
    assert "missing group: 1 (row 106)" in message
    assert SECRET not in message
    assert [entry.name for entry in tmp_path.iterdir()] == [source.name]


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_bad_rows_can_be_skipped_and_are_counted(tmp_path, extension):
    source = write(tmp_path / f"answers.{extension}", BAD | {"region": list("abcdefg")})
    target = tmp_path / f"reports.{extension}"
    summary = perturb_file(grouped_plan(), source, target, on_unknown="skip", keep=["region"], keep_order=True)
    assert (summary.rows, summary.reports, summary.skipped) == (7, 2, REASONS)
    assert read(target)["group"] == ["old", "young"]
    assert read(target)["region"] == ["a", "c"]


@pytest.mark.usefixtures("small_blocks")
def test_nobody_is_randomized_after_a_bad_row_has_stopped_the_run():
    begun: list[int] = []

    class Watched(SeededWords):
        per_thread = False

        def draw(self, count, bits):
            begun.extend([count] if bits == 8 else [])
            return super().draw(count, bits)

    cells = ["yes"] * 100 + ["maybe"] + ["yes"] * 100
    with pytest.raises(BadRowsError, match=r"1 row that the plan cannot randomize.*\(row 101\)"):
        perturb_table(grouped_plan(), {"value": cells, "group": ["old"] * 201}, words=Watched(1))
    assert begun == [64]


def test_only_the_first_bad_rows_are_listed():
    with pytest.raises(BadRowsError, match=r"unknown value: 9 \(rows 1, 2, 3, 4, 5, …\)"):
        perturb_table(plain_plan(Prior.of({"a": 1, "b": 1})), ["c"] * 9)


def test_csv_rows_with_the_wrong_number_of_cells_keep_their_numbers(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text(f"value,group\nyes,old\nyes\nno,young\n{SECRET},old,7\n{SECRET},old\nyes,old\n")
    with pytest.raises(BadRowsError) as caught:
        perturb_file(grouped_plan(), path, tmp_path / "reports.csv")
    assert "unknown value: 1 (row 5)" in str(caught.value)
    assert "wrong number of cells: 2 (rows 2, 4)" in str(caught.value)
    assert SECRET not in str(caught.value)
    summary = perturb_file(grouped_plan(), path, tmp_path / "reports.csv", on_unknown="skip")
    assert (summary.rows, summary.reports) == (6, 3)
    assert summary.skipped == {"unknown value": 1, "wrong number of cells": 2}


def test_json_lines_may_hold_broken_lines_and_mixed_types(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text(
        '{"value": 1}\n{"value": 2.50}\nbroken\n{"value": "1.0"}\n{"value": {"x": 1}}\n[]\n{"value": true}\n'
    )
    plan = plain_plan(Prior.of({1: 1, 2.5: 1}))
    summary = perturb_file(plan, path, tmp_path / "reports.csv", on_unknown="skip")
    assert (summary.rows, summary.skipped) == (7, {"missing value": 2, "unknown value": 2})


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("extension", EXTENSIONS)
def test_an_interrupted_run_keeps_the_old_file(tmp_path, extension):
    source = write(tmp_path / f"answers.{extension}", answers(grouped_plan(), 300))
    target = tmp_path / f"reports.{extension}"
    target.write_text("old")

    def interrupt(done, total):
        if done > 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perturb_file(grouped_plan(), source, target, progress=interrupt)
    assert target.read_text() == "old"
    assert {entry.name for entry in tmp_path.iterdir()} == {source.name, target.name}


@pytest.mark.parametrize("kept", [["value"], ["report"], ["group"], ["region", "region"], "region"])
def test_the_answer_column_and_repeated_columns_cannot_be_kept(kept):
    with pytest.raises(InputError):
        perturb_table(grouped_plan(), answers(grouped_plan(), 3), keep=kept)


def test_kept_columns_keep_their_types(tmp_path):
    columns = {
        "value": ["yes", "no"],
        "group": ["old", "old"],
        "number": [1, None],
        "real": [0.5, math.nan],
        "flag": [True, False],
        "text": pa.array(["x", "y"]).dictionary_encode(),
        "day": pa.array([0, 1], pa.date32()),
    }
    keep = list(columns)[2:]
    result = perturb_table(grouped_plan(), columns, keep=keep)
    assert result.schema.field("number").type == pa.int64()
    assert result.schema.field("text").type == pa.string()
    perturb_file(grouped_plan(), columns, tmp_path / "reports.jsonl", keep=keep, keep_order=True)
    rows = [json.loads(line) for line in (tmp_path / "reports.jsonl").read_text().splitlines()]
    assert [[row[name] for name in keep] for row in rows] == [
        [1, 0.5, True, "x", "1970-01-01"],
        [None, None, False, "y", "1970-01-02"],
    ]
    for name in ("csv", "jsonl"):
        with pytest.raises(InputError, match="lists or structs"):
            perturb_file(grouped_plan(), columns | {"list": [[1], [2]]}, tmp_path / f"x.{name}", keep=["list"])


# -- matching -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_names_that_look_like_numbers_stay_names(tmp_path, extension):
    plan = plain_plan(Prior.of({"7": 1, "007": 1, "1": 1}))
    source = write(tmp_path / f"answers.{extension}", {"value": ["007", "7", "1", "1.0", "07"]})
    summary = perturb_file(plan, source, tmp_path / "reports.csv", on_unknown="skip")
    assert (summary.reports, summary.skipped) == (3, {"unknown value": 2})
    assert Matcher(plan.values)(pa.chunked_array([["7", "007", "1", "01"]])).tolist() == [0, 1, 2, -1]
    assert Matcher(plan.values)(pa.chunked_array([pa.array([7, 1, 8])])).tolist() == [0, 2, -1]


DOMAIN = (0, 2.5, -3, 2**60 + 1)


@pytest.mark.parametrize(
    ("cells", "positions"),
    [
        (pa.array([2.5, -0.0, -3.0, 2.0**60, math.nan, None]), [1, 0, 2, -1, -1, -2]),
        (pa.array([0, -3, 2**60 + 1, 2**60, None]), [0, 2, 3, -1, -2]),
        (pa.array([2.5, 0.1], pa.float32()), [1, -1]),
        (pa.array([0, 2**60 + 1, 2**64 - 3], pa.uint64()), [0, 3, -1]),
        (pa.array([0, -3, 7], pa.int8()), [0, 2, -1]),
        (pa.array([False, True]), [0, -1]),
        (pa.array([None, None]), [-2, -2]),
        (pa.array(["2.50", "-3", "25e-1", str(2**60 + 1), "-3.0"]), [1, 2, 1, 3, 2]),
        (pa.array(["0x0", "2_5", "nan", "", " "]), [-1, -1, -1, -2, -2]),
        (pa.array(["2.5", None, "x", "0"]).dictionary_encode(), [1, -2, -1, 0]),
        (pa.array([2.5, 0.0]).dictionary_encode(), [1, 0]),
    ],
    ids=lambda cells: str(getattr(cells, "type", "")),
)  # fmt: skip
def test_numbers_match_by_what_they_are_worth(cells, positions):
    assert Matcher(DOMAIN)(pa.chunked_array([cells])).tolist() == positions


def test_floats_of_32_bits_match_the_nearest_value_unless_two_are_the_same():
    assert Matcher([0.1, 0.2])(pa.chunked_array([pa.array([0.2, 0.1], pa.float32())])).tolist() == [1, 0]
    with pytest.raises(InputError, match="too coarse"):
        Matcher([0.1, 0.1 + 1e-12])(pa.chunked_array([pa.array([0.1], pa.float32())]))


@given(st.lists(st.one_of(st.integers(-5, 5), st.floats(-5, 5).map(lambda x: round(x, 1))), max_size=20))
@settings(max_examples=50, deadline=None)
def test_text_and_floats_match_as_python_compares(numbers):
    domain = (0, 1, -2, 2.5, -0.5)
    positions = [domain.index(number) if number in domain else -1 for number in numbers]
    for cells in (pa.array([float(number) for number in numbers]), pa.array([repr(n) for n in numbers], pa.string())):
        assert Matcher(domain)(pa.chunked_array([cells])).tolist() == positions


@pytest.mark.parametrize(
    ("values", "cells"), [(["a", "b"], [0.5]), ([1, 2], pa.array([0], pa.date32())), (["a", "b"], [[1]])]
)
def test_a_column_of_the_wrong_type_is_refused(values, cells):
    with pytest.raises(InputError, match="The column 'value' must hold"):
        perturb_table(plain_plan(Prior.uniform(values)), {"value": cells})


# -- tables in memory ---------------------------------------------------------------------------------------------


class Frame:
    """Any data frame: all it offers is Arrow's stream interface."""

    def __init__(self, data: pa.Table | pa.ChunkedArray) -> None:
        self._data = data

    def __arrow_c_stream__(self, requested_schema=None):
        return self._data.__arrow_c_stream__(requested_schema)


def test_tables_in_memory_give_the_same_reports():
    plan = grouped_plan()
    columns = answers(plan, 50)
    table = pa.table(columns)
    expected = expected_reports(plan, columns)
    for source in (table, table.to_reader(), columns, Frame(table), table.combine_chunks().to_batches()[0]):
        result = perturb_table(plan, source, words=SeededWords(5), keep_order=True)
        assert result["report"].to_pylist() == expected
        assert result.column_names == ["group", "report"]
    assert tally_file(plan, Frame(result)) == tally_file(plan, result)


def test_one_column_alone_is_enough_without_groups():
    plan = plain_plan(Prior.of({"a": 1, "b": 2}))
    cells = ["a", "b", "b", "a"]
    expected = expected_reports(plan, {"value": cells, "group": [None] * 4})
    for column in (
        cells,
        np.array(cells),
        np.array(cells, dtype=object),
        pa.array(cells),
        Frame(pa.chunked_array([cells])),
    ):
        assert perturb_table(plan, column, words=SeededWords(5), keep_order=True)["report"].to_pylist() == expected
    assert tally_file(plan, np.array(expected)).groups[None] == Counts.of(expected)


@pytest.mark.parametrize("table", [3, [1, SECRET], {"value": [1, 2], "group": [1]}, object()])
def test_what_is_no_table_is_refused_without_its_content(table):
    with pytest.raises(InputError, match="A table must be") as caught:
        perturb_table(grouped_plan(), table)
    assert SECRET not in str(caught.value)


# -- files that cannot be used ------------------------------------------------------------------------------------


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_missing_columns_are_named(tmp_path, extension):
    source = write(tmp_path / f"answers.{extension}", {"answer": [SECRET], "group": ["old"]})
    with pytest.raises(InputError, match="'value'") as caught:
        perturb_file(grouped_plan(), source, tmp_path / "reports.csv")
    assert SECRET not in str(caught.value)
    with pytest.raises(InputError, match="'report'"):
        tally_file(grouped_plan(), source)
    assert not (tmp_path / "reports.csv").exists()


def test_a_csv_file_without_a_header_does_not_have_its_first_row_quoted(tmp_path):
    (tmp_path / "answers.csv").write_text(f"{SECRET},old\nyes,old\n")
    with pytest.raises(InputError, match=r"one column 'value'\. Got 2 others; the first line must name") as caught:
        perturb_file(grouped_plan(), tmp_path / "answers.csv", tmp_path / "reports.csv")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("extension", ["csv", "parquet", "arrow"])
def test_empty_and_missing_files_are_refused(tmp_path, extension):
    path = tmp_path / f"answers.{extension}"
    with pytest.raises(InputError, match="There is no file"):
        perturb_file(grouped_plan(), path, tmp_path / "reports.csv")
    path.write_bytes(b"")
    with pytest.raises(InputError, match=r"is empty|cannot be read"):
        perturb_file(grouped_plan(), path, tmp_path / "reports.csv")


@pytest.mark.parametrize("extension", ["parquet", "arrow", "ipc", "feather"])
def test_damaged_files_are_refused_without_their_content(tmp_path, extension):
    source = write(tmp_path / f"answers.{extension}", answers(grouped_plan(), 300))
    source.write_bytes(source.read_bytes()[:-200])
    with pytest.raises(InputError, match="cannot be read as"):
        perturb_file(grouped_plan(), source, tmp_path / "reports.csv")
    source.write_text(f"value,group\n{SECRET},old\n" * 9)
    with pytest.raises(InputError, match="another format") as caught:
        perturb_file(grouped_plan(), source, tmp_path / "reports.csv")
    assert SECRET not in str(caught.value)
    assert perturb_file(grouped_plan(), source, tmp_path / "x.csv", source_format="csv", on_unknown="skip").rows == 17


def test_text_that_is_not_utf8_is_refused_without_its_content(tmp_path):
    (tmp_path / "answers.csv").write_bytes(b"\xff\xfe" + f"value,group\n{SECRET},old\n".encode("utf-16-le") + b"\0")
    with pytest.raises(InputError, match="cannot be read as csv") as caught:
        perturb_file(grouped_plan(), tmp_path / "answers.csv", tmp_path / "reports.csv")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "reports.xlsx"}, r"Got the extension '\.xlsx'"),
        ({"target_format": "excel"}, "Got 'excel'"),
        ({"target": "-", "target_format": "parquet"}, "cannot be streamed"),
        ({"target": "nowhere/reports.csv"}, "no folder"),
        ({"on_unknown": "ignore"}, "'stop' or 'skip'"),
        ({"group_column": "value"}, "must differ"),
        ({"source_format": "csv"}, "for files"),
    ],
)
def test_wrong_options_are_refused(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        perturb_file(grouped_plan(), answers(grouped_plan(), 3), **{"target": "reports.csv", **options})
    assert list(tmp_path.iterdir()) == []


def test_a_group_column_needs_a_plan_with_groups():
    with pytest.raises(InputError, match="no named groups"):
        perturb_table(plain_plan(Prior.uniform(2)), {"value": [0], "g": ["x"]}, group_column="g")


# -- tally --------------------------------------------------------------------------------------------------------


def by_hand(plan: Plan, columns: dict[str, list]) -> Tally:
    names = dict.fromkeys(columns["group"])
    parts = {name: [y for y, g in zip(columns["report"], columns["group"], strict=True) if g == name] for name in names}
    return Tally(plan.hash, {name: Counts.of(reports) for name, reports in parts.items()})


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("plan", [grouped_plan(), mixed_plan()], ids=["table", "ring"])
@pytest.mark.parametrize("extension", EXTENSIONS)
def test_a_tally_counts_the_reports(tmp_path, extension, plan):
    columns = answers(plan, 300)
    target = tmp_path / f"reports[1].{extension}"
    perturb_file(plan, columns, target, words=SeededWords(5), keep=["region"])
    columns["report"] = expected_reports(plan, columns, block=64)
    seen: list[int] = []
    tally = tally_file(plan, target, progress=lambda done, total: seen.append(done))
    assert tally == by_hand(plan, columns)
    assert (seen[-1], tally.refused) == (300, 0)
    parts = {cell: part for (cell,), part in tally_by(plan, target, ["region"]).items()}
    assert sorted(parts) == sorted(set(columns["region"]))
    assert merge_all(parts.values()) == tally
    one = columns["region"][0]
    rows = [i for i, region in enumerate(columns["region"]) if region == one]
    mine = {name: [columns[name][i] for i in rows] for name in ("report", "group")}
    assert parts[one] == by_hand(plan, mine)


def test_parquet_without_duckdb_gives_the_same_tally(tmp_path, monkeypatch):
    path = tmp_path / "reports.parquet"
    perturb_file(mixed_plan(), answers(mixed_plan(), 300), path)
    with_duckdb = tally_file(mixed_plan(), path)
    monkeypatch.setattr(tallies.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert tally_file(mixed_plan(), path) == with_duckdb


def test_columns_that_differ_in_case_only_are_told_apart(tmp_path):
    path = tmp_path / "reports.parquet"
    pq.write_table(pa.table({"Report": [0, 0], "report": [1, 1]}), path)
    plan = plain_plan(Prior.uniform(2))
    assert tally_file(plan, path).groups[None] == Counts.of([1, 1])
    assert tally_file(plan, path, report_column="Report").groups[None] == Counts.of([0, 0])


REFUSED = [
    ("old", "2"),  # one more than there are
    ("old", "-1"),
    ("old", "99999999999999999999"),
    ("old", "1.5"),
    ("old", ""),
    ("old", SECRET),
    (SECRET, "1"),
    ("", "1"),
]


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_reports_the_plan_does_not_know_are_refused_and_counted(tmp_path, extension):
    good = [("old", "0"), ("old", "1"), ("young", "1"), ("old", "1")]
    rows = REFUSED[:3] + good + REFUSED[3:]
    columns = {"group": [row[0] for row in rows], "report": [row[1] for row in rows]}
    source = write(tmp_path / f"reports.{extension}", columns | {"half": ["a", "b"] * 6})
    tally = tally_file(grouped_plan(), source)
    assert tally.refused == len(REFUSED)
    assert tally.to_dict()["groups"] == [
        {"group": "old", "reports": [0, 1], "counts": [1, 2]},
        {"group": "young", "reports": [1], "counts": [1]},
    ]
    assert SECRET not in json.dumps(tally.to_dict())
    parts = tally_by(grouped_plan(), source, ["half"])
    assert {name: part.refused for (name,), part in parts.items()} == {"a": 4, "b": 4}


@pytest.mark.parametrize(
    ("cells", "kept", "refused"),
    [
        (pa.array([0, 1, 2, -1, None]), 2, 3),
        (pa.array([0, 1, 2**64 - 1, None], pa.uint64()), 2, 2),
        (pa.array([0.0, 1.0, 0.5, math.nan, math.inf, None]), 2, 4),
        (pa.array([None, None]), 0, 2),
        (pa.array([1, 5, None]).dictionary_encode(), 1, 2),
    ],
    ids=lambda cells: str(getattr(cells, "type", "")),
)
def test_reports_of_any_numeric_type_are_read(tmp_path, cells, kept, refused):
    plan = plain_plan(Prior.uniform(2))
    pq.write_table(pa.table({"report": cells}), tmp_path / "reports.parquet")
    for source in (cells, tmp_path / "reports.parquet"):
        tally = tally_file(plan, source)
        assert (tally.n_reports, tally.refused) == (kept, refused)
    with pytest.raises(InputError, match="must hold integers"):
        tally_file(plan, {"report": [True]})


def test_reports_beyond_the_ring_or_the_orders_are_refused():
    plan = mixed_plan()
    reports = [0, 6, 7, 1 << 32, -1]
    tally = tally_file(plan, {"group": ["arc"] * 5, "report": reports})
    assert tally.groups["arc"] == Counts.of([0, 6])
    assert tally.refused == 3


def test_folder_names_are_not_read_as_columns(tmp_path):
    path = tmp_path / "report=0" / "reports.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"report": [1, 1]}), path)
    assert tally_file(plain_plan(Prior.uniform(2)), path).groups[None] == Counts.of([1, 1])


@pytest.mark.parametrize("extension", ["parquet", "jsonl"])
def test_a_path_is_not_a_pattern(tmp_path, extension):
    for name, reports in (("reports[1]", [1, 1]), ("reports1", [0])):
        write(tmp_path / f"{name}.{extension}", {"report": reports})
    path = tmp_path / f"reports[1].{extension}"
    assert tally_file(plain_plan(Prior.uniform(2)), path).groups[None] == Counts.of([1, 1])


def test_malformed_csv_rows_are_refused(tmp_path):
    (tmp_path / "reports.csv").write_text("group,report\nold,1\nold\nold,0,0\n")
    tally = tally_file(grouped_plan(), tmp_path / "reports.csv")
    assert (tally.n_reports, tally.refused) == (1, 2)
    parts = tally_by(grouped_plan(), tmp_path / "reports.csv", ["group"])
    assert {name: (part.n_reports, part.refused) for (name,), part in parts.items()} == {"": (0, 2), "old": (1, 0)}


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_weights_and_offsets_are_summed_and_bad_ones_refused(tmp_path, extension):
    reports, weights, offsets = [0, 1, 1, 0], [0.5, 2.25, -1.0, 3.0], [0.0, 1.0, 2.5, -4.0]
    columns = {
        "group": ["old"] * 6,
        "report": [*reports, 1, 1],
        "a": [*weights, None, 2.0**54],
        "b": [*offsets, 0.0, 0.0],
    }
    source = write(tmp_path / f"reports.{extension}", columns)
    plan = make_plan({"young": Prior.uniform(2), "old": Prior.uniform(2)}, WeightedSum(), 1)
    tally = tally_file(plan, source, weight_column="a", offset_column="b")
    assert tally.groups["old"] == Counts.of(reports, weights, offsets)
    assert tally.refused == 2
    assert tally_file(plan, source, offset_column="b").groups["old"].sums[0].tolist() == [2 * 2**160, 4 * 2**160]
    # A survey has design weights, but nothing that offsets could be added to.
    with pytest.raises(InputError, match=r"must be 0 or more\. The column 'a' has 1 below 0"):
        tally_file(grouped_plan(), source, weight_column="a")
    positive = write(tmp_path / f"design.{extension}", columns | {"a": [0.5, 2.25, 0.0, 3.0, None, 2.0**54]})
    counted = tally_file(grouped_plan(), positive, weight_column="a").groups["old"]
    assert counted == Counts.of(reports, [0.5, 2.25, 0.0, 3.0])
    with pytest.raises(InputError, match="Offsets are for a weighted sum"):
        tally_file(grouped_plan(), source, offset_column="b")


def test_a_report_that_is_text_among_weights_is_refused_without_an_error():
    columns = {"report": ["0", "1"], "a": ["1.5", SECRET]}
    tally = tally_file(plain_plan(Prior.uniform(2)), columns, weight_column="a")
    assert (tally.groups[None], tally.refused) == (Counts.of([0], [1.5]), 1)


@given(st.lists(st.integers(-1, 3), max_size=60), st.integers(1, 7))
@settings(max_examples=30, deadline=None)
def test_any_split_of_the_reports_gives_the_same_tally(reports, size):
    plan = plain_plan(Prior.uniform(3))
    parts = [tally_file(plan, pa.array(reports[i : i + size], pa.int64())) for i in range(0, len(reports), size)]
    whole = tally_file(plan, pa.array(reports, pa.int64()))
    assert whole == merge_all([Tally(plan.hash, {}), *parts])
    assert whole.refused == sum(not 0 <= y < plan.groups[0].mechanism.n_possible_reports for y in reports)


# -- tallies in files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extension", ["json", "parquet"])
@pytest.mark.parametrize(
    "tally",
    [
        Tally("ab" * 32, {"old": Counts.of([0, 2, 2]), "é": Counts.of([5 << 32])}, refused=3),
        Tally("ab" * 32, {None: Counts.of([1, 1, 0], [1e6, 1e6, 0.5], [0, 0, -1])}),
        Tally("ab" * 32, {}, refused=1),
    ],
    ids=["groups", "weights", "empty"],
)
def test_tallies_are_saved_and_loaded(tmp_path, extension, tally):
    path = tmp_path / f"tally.{extension}"
    save_tally(tally, path)
    assert load_tally(path) == tally


def test_what_is_not_a_tally_is_refused(tmp_path):
    for name, text in (("a.json", "{"), ("b.json", "[]"), ("c.json", '{"tacit_tally": 1}'), ("d.parquet", "x")):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match="is not a tally"):
            load_tally(tmp_path / name)
    pq.write_table(pa.table({"group": ["a"], "report": [1], "count": [-1]}), tmp_path / "e.parquet")
    with pytest.raises(InputError, match="is not a tally"):
        load_tally(tmp_path / "e.parquet")
    with pytest.raises(InputError, match="There is no file"):
        load_tally(tmp_path / "none.json")
    with pytest.raises(InputError, match=r"\.json or a \.parquet"):
        save_tally(Tally("x", {}), tmp_path / "tally.csv")


@pytest.mark.parametrize("extension", ["json", "parquet"])
def test_reports_and_saved_tallies_are_read_alike(tmp_path, extension):
    plan, saved = grouped_plan(), tmp_path / f"tally.{extension}"
    perturb_file(plan, answers(plan, 100), tmp_path / "reports.parquet", keep=["region"])
    whole = read_tally(plan, tmp_path / "reports.parquet")
    assert merge_all(tally_by(plan, tmp_path / "reports.parquet", ["region"]).values()).groups == whole.groups
    save_tally(whole, saved)
    assert read_tally(plan, saved) == whole
    with pytest.raises(InputError, match="no column 'region'"):
        read_cells(plan, saved, ["region"])
    with pytest.raises(InputError, match="another plan"):
        read_tally(plain_plan(Prior.uniform(2)), saved)


def test_columns_to_count_by_are_a_list():
    with pytest.raises(InputError, match="must be a list of columns"):
        tally_by(grouped_plan(), {"group": ["old"], "report": [0]}, "group")


# -- standard input and output, imports ---------------------------------------------------------------------------

PIPE = """
import sys
from tacit.files import perturb_file
from tacit.plan import Plan
from tacit.randomize.randomness import SeededWords
plan, source, target = sys.argv[1:]
options = {"words": SeededWords(5), "source_format": source, "target_format": target}
perturb_file(Plan.load(plan), "-", "-", keep_order=True, **options)
"""


def run(code: str, *arguments: str, given: bytes = b"", python: str | Path = sys.executable):
    return subprocess.run([python, "-c", code, *arguments], input=given, capture_output=True, check=False)


@pytest.mark.parametrize(("given_format", "wanted_format"), [("csv", "jsonl"), ("jsonl", "arrow"), ("arrow", "csv")])
def test_standard_input_and_output(tmp_path, tacit_on_path, given_format, wanted_format):
    # A budget so small that words exceed 64 bits: nothing to compile in the child.
    prior = Prior.of({"yes": 1, "no": 9})
    epsilon = Fraction(1, 10**15)
    plan = Plan.of_groups(Survey("yes"), (Group(name=None, epsilon=epsilon, mechanism=optimal_binary(prior, epsilon)),))
    plan.save(tmp_path / "plan.json")
    columns = answers(plan, 200)
    source = write(tmp_path / f"answers.{given_format}", columns)
    words = (PIPE, str(tmp_path / "plan.json"), given_format, wanted_format)
    done = run(*words, given=source.read_bytes(), python=tacit_on_path / "python")
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    if wanted_format == "arrow":
        reports = pa.ipc.open_stream(done.stdout).read_all()["report"].to_pylist()
    else:
        (tmp_path / f"out.{wanted_format}").write_bytes(done.stdout)
        reports = [int(report) for report in read(tmp_path / f"out.{wanted_format}")["report"]]
    assert reports == expected_reports(plan, columns)


def test_nothing_is_imported_before_it_is_needed():
    heavy = "[name for name in ('pyarrow', 'duckdb', 'pandas', 'polars') if name in sys.modules]"
    code = f"import sys, tacit; print({heavy}); import tacit.files.answers; print({heavy})"
    assert run(code).stdout.decode().split() == ["[]", "['pyarrow']"]


# Names are names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "cells", "places"),
    [
        (["01234", "1234"], ["01234", "1234", "001234", "1234.0"], [0, 1, -1, -1]),
        (["01234", "x"], ["1234", "1_234"], [-1, -1]),
        ([1234, 5], ["1_234", "1234", "1234.0"], [-1, 0, 0]),
        (["café", "no"], ["cafe\u0301", " café ", "CAFÉ", "  "], [0, 0, -1, -2]),
        (["cafe\u0301", "no"], ["café"], [0]),
        ([" a", "a"], [" a", "a", "a "], [0, 1, 1]),
        ([1, 2], [" 2 ", " ", ""], [1, -2, -2]),
    ],
)
def test_cells_match_names_as_they_are_written_but_for_blanks_and_forms_of_letters(values, cells, places):
    assert Matcher(values)(pa.chunked_array([cells])).tolist() == places


@pytest.mark.parametrize("words", [("true", "false"), ("True", "False"), ("FALSE", "TRUE")])
def test_booleans_match_the_words_of_a_csv(words):
    found = Matcher(words)(pa.chunked_array([[True, False, None]])).tolist()
    assert [words[x].lower() for x in found[:2]] == ["true", "false"]
    assert found[2] == -2
    assert Matcher([0, 1])(pa.chunked_array([[True, False]])).tolist() == [1, 0]
