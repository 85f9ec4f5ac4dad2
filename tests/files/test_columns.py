"""Files that say what they are: which plan reports belong to, which columns there are, and which one was meant."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit import Prior, Survey
from tacit.designs import optimal_binary
from tacit.files import (
    BadRowsError,
    InputError,
    export_file,
    perturb_file,
    perturb_table,
    read_tally,
    tally_file,
)
from tacit.files.columns import STAMP, is_header
from tacit.plan import Group, Plan

FORMATS = ["csv", "jsonl", "parquet", "arrow"]
SECRET = "a-very-private-answer"


def plan_of(yes: int, names: tuple[str | None, ...] = (None,)) -> Plan:
    prior = Prior.of({"yes": yes, "no": 100 - yes})
    groups = [Group(name=name, epsilon=Fraction(1), mechanism=optimal_binary(prior, 1)) for name in names]
    return Plan.of_groups(Survey("yes"), tuple(groups))


OURS, OTHER = plan_of(10), plan_of(20)
GROUPED = plan_of(10, ("young", "old"))


# -- which plan reports belong to ---------------------------------------------------------------------------------


@pytest.mark.parametrize("extension", FORMATS)
def test_reports_of_another_plan_are_refused(tmp_path, extension):
    target = tmp_path / f"reports.{extension}"
    perturb_file(OURS, ["yes", "no"] * 50, target)
    assert tally_file(OURS, target).n_reports == 100
    with pytest.raises(InputError, match="another plan"):
        tally_file(OTHER, target)
    with pytest.raises(InputError, match="another plan"):
        read_tally(OTHER, target)
    with pytest.raises(InputError, match="another plan"):
        export_file(OTHER, target, tmp_path / "values.csv")
    assert export_file(OURS, target, tmp_path / "values.csv").rows == 100


def test_metadata_name_the_plan_in_full_and_columns_a_part_of_it(tmp_path):
    perturb_file(OURS, ["yes", "no"], tmp_path / "reports.parquet")
    assert pq.read_schema(tmp_path / "reports.parquet").metadata[STAMP.encode()] == OURS.hash.encode()
    perturb_file(OURS, ["yes", "no"], tmp_path / "reports.csv")
    with open(tmp_path / "reports.csv", newline="") as file:
        assert {row[STAMP] for row in csv.DictReader(file)} == {"p" + OURS.hash[:8]}
    perturb_file(OURS, ["yes", "no"], tmp_path / "reports.jsonl")
    assert json.loads((tmp_path / "reports.jsonl").read_text().splitlines()[1])[STAMP] == "p" + OURS.hash[:8]


def test_one_row_of_another_plan_is_enough_to_refuse_a_file(tmp_path):
    for plan, name in ((OURS, "ours.csv"), (OTHER, "other.csv")):
        perturb_file(plan, ["yes"] * 3, tmp_path / name)
    ours, other = ((tmp_path / name).read_text().splitlines() for name in ("ours.csv", "other.csv"))
    (tmp_path / "both.csv").write_text("\n".join([*ours, other[1]]) + "\n")
    with pytest.raises(InputError, match="another plan"):
        tally_file(OURS, tmp_path / "both.csv")


@pytest.mark.parametrize("extension", FORMATS)
def test_reports_that_name_no_plan_are_counted(tmp_path, extension):
    """Other programs' files, and those of earlier versions."""
    table, target = pa.table({"report": [0, 1, 1]}), tmp_path / f"reports.{extension}"
    if extension == "parquet":
        pq.write_table(table, target)
    elif extension == "arrow":
        with pa.ipc.new_file(target, table.schema) as sink:
            sink.write_table(table)
    elif extension == "jsonl":
        target.write_text('{"report": 0}\n{"report": 1}\n{"report": 1}\n')
    else:
        target.write_text(f"report,{STAMP}\n0,\n1,\n1,\n")
    assert tally_file(OURS, target).n_reports == 3


def test_a_parquet_file_that_was_a_csv_file_is_still_told(tmp_path):
    table = pa.table({"report": [0, 1], STAMP: ["p" + OTHER.hash[:8]] * 2})
    pq.write_table(table, tmp_path / "reports.parquet")
    with pytest.raises(InputError, match="another plan"):
        tally_file(OURS, tmp_path / "reports.parquet")
    assert tally_file(OTHER, tmp_path / "reports.parquet").n_reports == 2


def test_tables_in_memory_name_their_plan_too():
    reports = perturb_table(OURS, ["yes", "no"])
    assert tally_file(OURS, reports).n_reports == 2
    with pytest.raises(InputError, match="another plan"):
        tally_file(OTHER, reports)


def test_a_column_of_that_name_cannot_be_kept(tmp_path):
    with pytest.raises(InputError, match="says which plan"):
        perturb_file(OURS, {"value": ["yes"], STAMP: ["x"]}, tmp_path / "reports.parquet", keep=[STAMP])


# -- columns ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extension", ["csv", "parquet"])
def test_a_missing_column_is_told_with_those_there_are_and_how_to_choose(tmp_path, extension):
    source = tmp_path / f"answers.{extension}"
    if extension == "csv":
        source.write_text("age,Answer\n" + "".join(f"{age},yes\n" for age in range(20, 40)))
    else:
        pq.write_table(pa.table({"age": [20, 30], "Answer": ["yes", "no"]}), source)
    with pytest.raises(InputError) as told:
        perturb_file(OURS, source, tmp_path / "reports.csv", column="answer")
    assert "one column 'answer'. Got age, Answer. Did you mean 'Answer'?" in str(told.value)
    assert "pass column='NAME'" in str(told.value)
    with pytest.raises(InputError, match=r"Got age, Answer\. To choose another, pass column='NAME'"):
        perturb_file(OURS, source, tmp_path / "reports.csv")


@pytest.mark.parametrize(
    "lines",
    [
        [SECRET],
        [SECRET, "yes", "no", "no"],
        [f"{SECRET},north", "yes,north", "no,south"],
        [f"{SECRET},7", "yes,8", "no,9"],
        [f"{SECRET},N/A", "yes,8", "no,9"],
        [f"yes,{SECRET}", "no,1", "yes,2"],
        [f";{SECRET}", "1;2", "3;4"],
    ],
)
def test_a_first_line_that_may_be_a_respondents_is_never_shown(tmp_path, lines):
    (tmp_path / "answers.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError) as told:
        perturb_file(OURS, tmp_path / "answers.csv", tmp_path / "reports.csv")
    assert SECRET not in str(told.value)
    assert "the first line must name the columns" in str(told.value)


def test_a_header_is_known_by_its_names_or_by_the_numbers_below():
    assert is_header(["Value", "x"], ["value"], [])
    assert is_header(["age", "ill"], ["value"], [["20", "yes"], ["21", "no"]])
    assert not is_header(["age", "ill"], ["value"], [["old", "yes"], ["young", "no"]])
    assert not is_header(["age", "yes"], ["value"], [["20", "yes"], ["21", "no"]])
    assert not is_header(["20", "ill"], ["value"], [["20", "yes"], ["21", "no"]])


# -- answers and groups that the plan does not know ----------------------------------------------------------------


def test_an_unknown_group_is_told_with_the_one_that_was_meant(tmp_path):
    columns = {"value": ["yes", "no", "no"], "group": ["Young", "yuong", "middle"]}
    with pytest.raises(BadRowsError) as told:
        perturb_file(GROUPED, columns, tmp_path / "reports.csv")
    assert "unknown group: 3 (rows 1, 2, 3). Did you mean 'young'? The plan's groups are 'young', 'old'." in str(
        told.value
    )
    assert "yuong" not in str(told.value)
    assert "pass on_unknown='skip'" in str(told.value)


def test_an_unknown_answer_is_counted_and_never_told_not_even_what_it_nearly_is(tmp_path):
    """That row 1 is nearly 'yes' would say what respondent 1 holds."""
    with pytest.raises(BadRowsError) as told:
        perturb_file(OURS, ["yess", "no", SECRET], tmp_path / "reports.csv")
    assert "unknown value: 2 (rows 1, 3). The plan's values are 'yes', 'no'" in str(told.value)
    assert "Did you mean" not in str(told.value)
    assert SECRET not in str(told.value)
    assert not Path(tmp_path / "reports.csv").exists()
