"""The words that people said become reports: in every format, with all other columns, and nothing else passes."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit import Histogram, Prior, Survey, Tally, make_plan
from tacit.designs import adopt, rules
from tacit.designs.planning import in_arms
from tacit.designs.prior_file import GroupPrior
from tacit.files import BadRowsError, InputError, arms_drawn, label_file, perturb_file, tally_file
from tacit.randomize import SeededWords

YES_NO = ["yes", "no"]
PLAN = adopt(rules.crosswise(YES_NO, 0.25), Survey("yes"))
LABELS = ("same", "different")
ROWS = [("1", "same", "n"), ("2", " different ", "s"), ("3", "same", "n")]


def write(path, rows=ROWS, names=("id", "said", "region")):
    table = pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)})
    if path.suffix == ".csv":
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows([names, *rows])
    elif path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
            out.write_table(table)
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "arrow"])
def test_labels_become_reports_and_other_columns_stay(tmp_path, ending: str):
    source, target = write(tmp_path / f"data.{ending}"), tmp_path / "reports.parquet"
    done = label_file(PLAN, LABELS, source, target, column="said")
    assert (done.rows, done.reports, done.skipped) == (3, 3, {})
    assert pq.read_table(target).to_pydict() == {"id": ["1", "2", "3"], "region": ["n", "s", "n"], "report": [0, 1, 0]}
    assert tally_file(PLAN, target) == Tally.of(PLAN, [0, 1, 0])


def test_numbers_match_by_what_they_are_worth(tmp_path):
    plan = adopt(rules.kuk(YES_NO, [0.8, 0.2], 2), Histogram())
    source = write(tmp_path / "data.csv", [("1", "2.0", "n"), ("2", "0", "s")])
    label_file(plan, ("0", "1", "2"), source, tmp_path / "reports.csv", column="said")
    assert tally_file(plan, tmp_path / "reports.csv") == Tally.of(plan, [2, 0])


def test_other_words_stop_the_run_or_are_counted_and_never_shown(tmp_path):
    source = write(tmp_path / "data.csv", [*ROWS, ("4", "secret", "n"), ("5", "", "s")])
    target = tmp_path / "reports.csv"
    with pytest.raises(BadRowsError, match=r"missing label: 1 \(row 5\); unknown label: 1 \(row 4\)") as raised:
        label_file(PLAN, LABELS, source, target, column="said")
    assert "secret" not in str(raised.value)
    assert not target.exists()
    done = label_file(PLAN, LABELS, source, target, column="said", on_unknown="skip")
    assert (done.rows, done.reports, done.skipped) == (5, 3, {"unknown label": 1, "missing label": 1})


def test_groups_are_those_of_the_plan(tmp_path):
    plan = adopt({"n": rules.crosswise(YES_NO, 0.25), "s": rules.crosswise(YES_NO, 0.15)}, Survey("yes"))
    source, target = write(tmp_path / "data.csv"), tmp_path / "reports.csv"
    label_file(plan, LABELS, source, target, column="said", group_column="region")
    assert tally_file(plan, target, group_column="region") == Tally.of(plan, [0, 1, 0], ["n", "s", "n"])
    write(source, [*ROWS, ("4", "same", "west")])
    with pytest.raises(BadRowsError, match="unknown group: 1"):
        label_file(plan, LABELS, source, target, column="said", group_column="region")


def test_what_cannot_be_read_is_said(tmp_path):
    source = write(tmp_path / "data.csv", names=("id", "said", "report"))
    with pytest.raises(InputError, match="has a column 'report' already"):
        label_file(PLAN, LABELS, source, tmp_path / "reports.csv", column="said")
    with pytest.raises(InputError, match="one column 'answer'"):
        label_file(PLAN, LABELS, write(source), tmp_path / "reports.csv", column="answer")
    with pytest.raises(InputError, match="There is no file"):
        label_file(PLAN, LABELS, tmp_path / "none.csv", tmp_path / "reports.csv", column="said")
    with pytest.raises(InputError, match="must be a file"):
        label_file(PLAN, LABELS, "-", tmp_path / "reports.csv", column="said")


@pytest.mark.parametrize("crossed", [False, True])
def test_chance_decides_the_arm(tmp_path, crossed: bool):
    """10,000 people: the first arm has 5,000 ± 6.2 standard deviations; an arm for all is the wrong answer."""
    prior = Prior.of({"yes": 0.1, "no": 0.9})
    names = ["n", "s"] if crossed else [None]
    plan = make_plan(in_arms([GroupPrior(name=name, prior=prior) for name in names], [1, 2]), Survey("yes"), None)
    source = write(tmp_path / "answers.csv", [("1", "yes", "n"), ("2", "no", "s")] * 5000)
    target = tmp_path / "reports.parquet"
    column = "region" if crossed else "arm"
    with arms_drawn(plan, source, ["said", "id"], group_column=column, words=SeededWords(4)) as drawn:
        done = perturb_file(plan, drawn, target, column="said", group_column=column, keep=["id"], force=True)
    assert done.reports == 10_000
    counts = dict(zip(*np.unique(pq.read_table(target)[column].to_pylist(), return_counts=True), strict=True))
    assert set(counts) == {group.name for group in plan.groups}
    first = sum(count for name, count in counts.items() if name.endswith("arm 1"))
    assert abs(first - 5000) < 6.2 * 50
    if crossed:
        assert counts["n / arm 1"] + counts["n / arm 2"] == 5000


def test_arms_of_a_column_that_is_kept_are_refused(tmp_path):
    plan = make_plan(in_arms([GroupPrior(name=None, prior=Prior.uniform(YES_NO))], [1, 2]), Survey("yes"), None)
    with pytest.raises(InputError, match="cannot be kept"), arms_drawn(plan, write(tmp_path / "a.csv"), ["group"]):
        pass
