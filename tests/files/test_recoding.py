"""Raw microdata in, reports out: the plan carries the recoding, and every engine reads it alike."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit import Plan, Sum, make_plan, priors_from
from tacit.designs import make_questionnaire, read_joint
from tacit.designs.prior_file import read_priors, recoding_in, recoding_lines
from tacit.disk import TextTable
from tacit.files import BadRowsError, InputError, add_perturb, perturb_file, perturb_table, tally_file
from tacit.files.columns import Recoder
from tacit.microdata import counts_from, joint_from
from tacit.plan import PlanError, RecodedColumn, Recoding

from support import places
from support.raw import EXPECTED, RAW, SEXES, raw_table, read_as, recoded_plan

GOLDEN = json.loads((places.GOLDEN / "client" / "recoding.json").read_text(encoding="utf-8"))


def test_cells_in_arrow_are_read_as_in_the_golden_file():
    for known in (each for each in GOLDEN if "cells" in each):
        recoding = Recoding.from_dict(known["recoding"])
        cells, names = zip(*known["cells"], strict=True)
        assert Recoder(recoding.answers[0], known["known"])(
            pa.chunked_array([cells[:9], cells[9:]])
        ).to_pylist() == list(names)


@pytest.mark.parametrize("extension", ["csv", "tsv", "parquet", "xlsx", "jsonl", "arrow"])
def test_raw_files_become_reports(tmp_path, extension):
    plan, source = recoded_plan(), tmp_path / f"raw.{extension}"
    table = raw_table()
    if extension == "parquet":
        pq.write_table(table.set_column(2, "age", pa.array([float(row[2]) for row in RAW])), source)
    elif extension == "xlsx":
        from openpyxl import Workbook

        book = Workbook()
        book.active.append(table.column_names)
        for row in table.to_pylist():
            book.active.append([*list(row.values())[:2], float(row["age"]), row["id"]])
        book.save(source)
    elif extension == "jsonl":
        source.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    elif extension == "arrow":
        with pa.ipc.new_file(source, table.schema) as sink:
            sink.write_table(table)
    else:
        with open(source, "w", newline="") as file:
            writer = csv.writer(file, delimiter="," if extension == "csv" else "\t")
            writer.writerows([table.column_names, *(row.values() for row in table.to_pylist())])
    done = perturb_file(plan, source, tmp_path / "reports.parquet")
    found = pq.read_table(tmp_path / "reports.parquet")
    assert found.column_names == ["group", "report"]
    assert read_as(plan, found["group"].to_pylist(), found["report"].to_pylist()) == EXPECTED
    assert done.skipped == {"no answer": 1, "no group": 2}
    assert tally_file(plan, tmp_path / "reports.parquet").n_reports == len(EXPECTED)


def test_duckdb_reads_raw_cells_and_leaves_out_what_the_plan_leaves_out():
    plan, connection = recoded_plan(), duckdb.connect()
    add_perturb(connection, plan)
    connection.register("raw", raw_table())
    rows = connection.sql("SELECT id, tacit_perturb(q7, sex, age) AS report FROM raw ORDER BY id").fetchall()
    told = [None if answer is None or group is None else answer for *_, answer, group in RAW]
    assert [None if report is None else str(plan.values[report]) for _, report in rows] == told
    as_numbers = "SELECT tacit_perturb(1.0::DOUBLE::VARCHAR, 2::VARCHAR, 17.5::VARCHAR)"
    assert connection.sql(as_numbers).fetchall() == [(plan.values.index("yes"),)]
    with pytest.raises(duckdb.Error, match="unknown value: 1"):
        connection.sql("SELECT tacit_perturb('3', '1', '17')").fetchall()


def test_unknown_cells_stop_the_run_and_are_not_told(tmp_path):
    plan, rows = recoded_plan(), raw_table().to_pydict()
    rows |= {"q7": ["1", "secret-answer", *rows["q7"][2:]], "age": ["-3", *rows["age"][1:]]}
    with pytest.raises(BadRowsError, match=r"unknown value: 1 \(row 2\); unknown group: 1 \(row 1\)") as told:
        perturb_file(plan, rows, tmp_path / "x.csv")
    assert "secret" not in str(told.value)
    assert not (tmp_path / "x.csv").exists()
    assert perturb_file(plan, rows, tmp_path / "x.csv", on_unknown="skip").reports == len(EXPECTED) - 2
    nothing = {"q7": ["88", "1"], "sex": ["1", ""], "age": ["3", "4"]}
    with pytest.raises(InputError, match="No row of the table has an answer and a group"):
        perturb_file(plan, nothing, tmp_path / "y.csv")


def test_groups_that_have_their_names_already_are_taken_from_a_column():
    plan = recoded_plan()
    made = perturb_table(plan, {"q7": ["1", "2"], "place": ["f / 0–17", "m / 0–17"]}, group_column="place")
    assert read_as(plan, made["place"].to_pylist(), made["report"].to_pylist()) == [
        ("f / 0–17", "yes"),
        ("m / 0–17", "no"),
    ]


# -- the prior file carries it ----------------------------------------------------------------------------------------

OPTIONS = {
    "map": {"1": "yes", "2": "no", "sex": SEXES},
    "bins": {"age": "0,18,65,inf"},
    "missing": {"q": ["9"], "age": ["999"]},
}


def microdata(n: int = 400) -> dict[str, list[str]]:
    rng = np.random.default_rng(1)
    ages = np.where(rng.random(n) < 0.05, 999, rng.integers(0, 99, n))
    return {
        "q": rng.choice(["1", "2", "9", ""], n, p=[0.3, 0.6, 0.05, 0.05]).tolist(),
        "sex": rng.choice(["1", "2"], n).tolist(),
        "age": [f"{age}.0" for age in ages],
    }


def test_priors_and_reports_read_the_same_people_alike(tmp_path):
    """What the priors counted in each group is what the recoding of the plan finds there."""
    data = microdata()
    table = priors_from(data, "q", group=["sex", "age"], least=0, **OPTIONS)
    table.save(tmp_path / "priors.csv")
    plan = make_plan(read_priors(tmp_path / "priors.csv"), "histogram", 1)
    assert plan.recoding == table.recoding == Plan.from_dict(plan.to_dict()).recoding
    reports = perturb_table(plan, data)
    assert len(reports) == table.n_counted
    counted = {name: round(sum(counts)) for name, counts in table.groups.items()}
    assert {name: reports["group"].to_pylist().count(name) for name in counted} == counted


def test_spreadsheets_and_people_may_change_the_file():
    text = priors_from(microdata(), "q", group=["sex", "age"], **OPTIONS).to_csv()
    told = read_priors(io.StringIO(text))[0].recoding
    split = csv.reader(io.StringIO(text))
    for separator in ",;":
        again = io.StringIO()
        # As a spreadsheet reads and writes it: every line has as many cells, and quotes are doubled.
        rows = [
            [*row, *[""] * (9 - len(row))] for row in (split if separator == "," else csv.reader(io.StringIO(text)))
        ]
        csv.writer(again, delimiter=separator).writerows(rows)
        saved = again.getvalue() if separator == "," else _as_semicolons(text)
        assert read_priors(io.StringIO(saved))[0].recoding == told
    for asked in ("How old are you?", {"en": "How old are you?", "de": "Wie alt sind Sie?"}):
        stated = replace(told, groups=(told.groups[0], replace(told.groups[1], text=asked)))
        assert (
            read_priors(io.StringIO(text.replace(recoding_lines(told), recoding_lines(stated))))[0].recoding == stated
        )
    with pytest.raises(PlanError, match="must hold texts"):
        replace(told.groups[1], text={"en": 7})
    assert (
        read_priors(io.StringIO("# a note\n" + text.partition("group,")[1] + text.partition("group,")[2]))[0].recoding
        is None
    )
    with pytest.raises(ValueError, match="unknown field 'colour'"):
        read_priors(io.StringIO(text.replace("# edges", "# colour = 1\n# edges")))
    recoding = Recoding((RecodedColumn(column='a "b" \\ c', map={"x, y": "Zürich; ‘z’"}, other="x"),), ())
    assert recoding_in(recoding_lines(recoding).splitlines(), "x") == recoding


def _as_semicolons(text: str) -> str:
    """As a spreadsheet with semicolons saves it: a comment is one cell."""
    made = io.StringIO()
    writer = csv.writer(made, delimiter=";")
    lines = text.splitlines()
    writer.writerows([[line, "", ""] for line in lines if line.startswith("#")])
    writer.writerows(csv.reader([line for line in lines if not line.startswith("#")]))
    return made.getvalue()


def test_several_questions_are_recoded_too(tmp_path):
    rng = np.random.default_rng(2)
    data = microdata() | {"bmi": [f"{x:.1f}" for x in rng.normal(27, 5, 400)]}
    table = joint_from(
        data, ["q", "bmi"], group="sex", map=OPTIONS["map"], bins={"bmi": "0,25,30,inf"}, missing={"q": ["9"]}
    )
    table.save(tmp_path / "joint.csv")
    plan = make_questionnaire(read_joint(tmp_path / "joint.csv"), 2).plan
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json").recoding == table.recoding
    done = perturb_file(plan, data, tmp_path / "reports.csv")
    assert done.reports == table.n_counted
    assert done.skipped == {"no answer": table.left_out["no answer"]}


def test_a_number_is_asked_for_itself_where_answers_lie_between():
    table = priors_from({"days": ["0", "3", "30", "77", "14", "2"]}, "days", missing=["77"], bins="0,5,30", means=True)
    plan = make_plan(table.priors(), Sum(), 1, between=(0, 30))
    assert plan.recoding.answers[0] == RecodedColumn(column="days", missing=("77",))
    assert len(perturb_table(plan, {"days": ["12.5", "77", "30"]})) == 2


# -- tables of counts -------------------------------------------------------------------------------------------------


def test_a_table_of_counts_as_offices_publish_it_is_a_prior(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes("âge;oui;tous\n18–24;1 234;20 000\n25–29;2\u00a0345;10000\n".encode("cp1252"))
    table = counts_from(path, "oui", "tous", values=["oui", "non"])
    assert table.groups == {"18–24": (1234, 18766), "25–29": (2345, 7655)}
    with pytest.raises(ValueError, match="tacit priors FILE --yes 'ill' --of 'all'"):
        read_priors(io.StringIO("age,ill,all\nold,3,10\nyoung,1,20\n"))
    for wrong, said in (
        ("age,yes,all\na,1,10\nb,2,10\nTotal,3,20\n", "sum of the other lines"),
        ("age,yes,all\na,11,10\n", "line 2: expected whole numbers"),
        ("age,yes,all\na,1,10\na,1,10\n", "line 3: every line"),
        ("age,yes,all\na,1\n", "line 2: expected 3 cells"),
        ("age,yes\na,1\n", "must have one column 'all'"),
    ):
        with pytest.raises(ValueError, match=said):
            counts_from(io.StringIO(wrong), "yes", "all")


def test_a_table_with_blanks_and_marks_is_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbf value ;count;;\r\n yes ;1,5;;\r\n;;;\r\nno;2;;\r\n")
    assert TextTable.read(path, ["value"]).rows == ((2, (" yes ", "1.5")), (4, ("no", "2")))


# -- mistakes of survey teams -----------------------------------------------------------------------------------------

PEOPLE = [(("1", "2")[k % 3 > 0], ("1", "2")[k % 2], str(16 + k % 70)) for k in range(120)]


def book(path, sheets):
    from openpyxl import Workbook

    made = Workbook()
    made.remove(made.active)
    for title, rows in sheets.items():
        sheet = made.create_sheet(title)
        for row in rows:
            sheet.append(row)
    made.save(path)


@pytest.mark.parametrize(
    ("encoding", "separator", "end", "cell"),
    [
        ("utf-8-sig", ",", "\r\n", "{}"),
        ("latin-1", ";", "\n", "{},5"),
        ("utf-16", "\t", "\r\n", "{}.0"),
        ("utf-8", "|", "\n", ' "{}"'),
        ("utf-8", ";", "\n", " {} "),
    ],
)
def test_files_as_programs_write_them_lead_to_reports(tmp_path, encoding, separator, end, cell):
    rows = [("q7 ", "sex", " age", "größe"), *((a, b, cell.format(c), "x") for a, b, c in PEOPLE)]
    path = tmp_path / "raw.txt"
    path.write_bytes(end.join(separator.join(row) for row in [*rows, ("",)]).replace(' "', '"').encode(encoding))
    done = perturb_file(recoded_plan(), path, tmp_path / "reports.csv")
    assert done.reports == len(PEOPLE)
    assert bool(done.notes) == (encoding == "latin-1")


def test_the_sheet_with_the_columns_is_found_and_reports_in_a_workbook_are_counted(tmp_path):
    rows = [("q7", "sex", "age"), *PEOPLE]
    book(tmp_path / "raw.xlsx", {"cover": [("Survey",)], "data": rows})
    assert perturb_file(recoded_plan(), tmp_path / "raw.xlsx", tmp_path / "reports.csv").reports == len(PEOPLE)
    with open(tmp_path / "reports.csv") as file:
        book(tmp_path / "reports.xlsx", {"reports": list(csv.reader(file))})
    assert tally_file(recoded_plan(), tmp_path / "reports.xlsx").n_reports == len(PEOPLE)


def test_wrong_files_are_named_for_what_they_are(tmp_path):
    plan = recoded_plan()
    plan.save(tmp_path / "plan.json")
    perturb_file(plan, raw_table(), tmp_path / "reports.csv")
    priors_from(microdata(), "q").save(tmp_path / "priors.csv")
    (tmp_path / "raw.sav").write_bytes(b"$FL2")
    for call, said in (
        (lambda: priors_from(tmp_path / "reports.csv", "report"), "holds randomized reports"),
        (lambda: priors_from(tmp_path / "plan.json", "x"), "plan.json is a plan"),
        (lambda: priors_from(tmp_path / "priors.csv", "value"), "begins with a comment, as prior files do"),
        (lambda: priors_from(tmp_path / "raw.sav", "value"), "a file of another program"),
        (lambda: read_priors(tmp_path / "plan.json"), "plan.json is a plan"),
        (lambda: Plan.load(tmp_path / "reports.csv"), "reports.csv is a table"),
        (lambda: tally_file(plan, tmp_path / "plan.json"), "plan.json is a plan"),
        (lambda: read_priors(io.StringIO("q,age\n1,30\n2,40\n")), "a row for each person, tacit priors FILE --column"),
    ):
        with pytest.raises(ValueError, match=said):
            call()
