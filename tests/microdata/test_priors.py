"""From last year's records to priors: the same from every format, worth what its people are, and said in words."""

from __future__ import annotations

import csv
import io
import json
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tacit import Sum, Survey, make_plan, priors_from, read_priors
from tacit.cli.everything import app
from tacit.designs import Uncertainty, read_joint
from tacit.files import InputError
from tacit.microdata import joint_from
from tacit.microdata._priors import _in_units
from tacit.microdata.records import Bins, read_map
from tacit.plan import RecodedColumn

from support.places import DATA, needs_data

SECRET = "a-very-private-answer"
COLUMNS = {
    "smokes": ["Y", "N", "N", "", "Y", "N", "prefer not to say", "N"],
    "region": ["north", "north", "south", "south", "south", "north", "north", "south"],
    "age": [17, 18, 40, 64, 65, 90, 30, 33],
    "w": [1.0, 2.0, 1.0, 1.0, 3.0, 1.0, 1.0, 0.5],
}
YES_NO = {"Y": "yes", "N": "no"}


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def counts_of(table) -> dict[str | None, dict[str, float]]:
    return {name: dict(zip(table.values, counts, strict=True)) for name, counts in table.groups.items()}


def write(path, columns=COLUMNS, separator=","):
    rows = list(zip(*columns.values(), strict=True))
    kind = path.suffix
    if kind == ".parquet":
        pq.write_table(pa.table(columns), path)
    elif kind == ".xlsx":
        from openpyxl import Workbook

        book = Workbook()
        book.active.append(list(columns))
        for row in rows:
            book.active.append(list(row))
        book.create_sheet("empty")
        book.save(path)
    elif kind == ".jsonl":
        lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]
        path.write_text("\n".join(lines) + "\n")
    elif kind == ".arrow":
        table = pa.table(columns)
        with pa.ipc.new_file(path, table.schema) as sink:
            sink.write_table(table)
    else:
        with open(path, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=separator).writerows([list(columns), *rows])
    return path


# -- reading ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "separator"),
    [
        ("a.csv", ","), ("b.csv", ";"), ("c.tsv", "\t"), ("d.txt", "|"),
        ("e.parquet", ""), ("f.xlsx", ""), ("g.jsonl", ""), ("h.arrow", ""),
    ],
)  # fmt: skip
def test_every_format_and_separator_gives_the_same_priors(tmp_path, name, separator):
    table = priors_from(
        write(tmp_path / name, separator=separator), "smokes", group=["region", "age"], weight="w", map=YES_NO,
        bins={"age": "0,18,65,inf"}, least=0,
    )  # fmt: skip
    assert (
        table.to_csv()
        == priors_from(
            COLUMNS, "smokes", group=["region", "age"], weight="w", map=YES_NO, bins={"age": "0,18,65,inf"}, least=0
        ).to_csv()
    )
    assert list(table.groups) == [
        "north / 0–17", "north / 18–64", "north / 65 and more", "south / 18–64", "south / 65 and more"
    ]  # fmt: skip


class Frame:
    """A data frame of any kind, as they all show themselves to others."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_data_frames_are_read_and_whole_floats_are_what_they_look_like():
    frame = Frame(pa.table({"x": [1.0, 2.0, float("nan"), 2.0, None], "y": pa.array(["a"] * 5).dictionary_encode()}))
    table = priors_from(frame, "x", group="y", least=0)
    assert counts_of(table) == {"a": {"1": 1, "2": 2}}
    assert table.left_out == {"no answer": 2}


def test_what_older_programs_write_is_read_and_said(tmp_path):
    (tmp_path / "old.csv").write_bytes("name;ort\nja;Köln\nnein;Köln\n".encode("latin-1"))
    table = priors_from(tmp_path / "old.csv", "name", group="ort", least=0)
    assert list(table.groups) == ["Köln"]
    assert any("Latin-1" in note for note in table.notes)


@pytest.mark.parametrize("name", ["a.csv", "b.xlsx"])
def test_columns_are_named_unless_they_may_be_a_row(tmp_path, name):
    with pytest.raises(InputError, match=r"Got smokes, region, age, w\. Did you mean 'smokes'\?.*column='NAME'"):
        priors_from(write(tmp_path / name), "Smoke")
    headless = write(tmp_path / f"x{name}", {SECRET: ["yes", "no"], "4": [2, 3]})
    with pytest.raises(InputError) as told:
        priors_from(headless, "value")
    assert SECRET not in str(told.value)


def test_rows_of_other_lengths_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text(f"a,b\nx,2\n{SECRET},2,3\nx,2\n")
    with pytest.raises(InputError, match="more or fewer cells") as told:
        priors_from(tmp_path / "a.csv", "a")
    assert SECRET not in str(told.value)


@pytest.mark.parametrize("damaged", ["x.parquet", "x.xlsx", "x.jsonl", "x.arrow", "x.csv"])
def test_damaged_files_are_refused_without_quoting_them(tmp_path, damaged):
    (tmp_path / damaged).write_bytes(f'"{SECRET}\x00'.encode() * 3)
    with pytest.raises(InputError) as told:
        priors_from(tmp_path / damaged, "value")
    assert SECRET not in str(told.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sheet": "x"}, "for xlsx"),
        ({"group": "smokes"}, "must differ"),
        ({"bins": {"year": "1,2"}}, "no column of answers"),
        ({"bins": "0,1"}, "have no number"),
        ({"group": "age", "bins": {"age": "0,18"}}, "lie in no bin"),
        ({"group": "age", "bins": {"age": "3,2"}}, "ascending"),
        ({"group": "age", "bins": {"age": "x"}}, "Got 'x'"),
        ({"means": True}, "give bins"),
        ({"values": ["Y", "N"]}, "1 rows have 1 answers"),
        ({"missing": ["Y", "N", "prefer not to say"]}, "nothing to count"),
    ],
    ids=str,
)
def test_what_cannot_be_counted_is_refused(tmp_path, options, said):
    with pytest.raises(InputError, match=said):
        priors_from(write(tmp_path / "a.csv"), "smokes", **options)


def test_names_of_crossed_groups_can_be_taken_apart_again():
    data = {"x": ["yes", "no"], "a": ["n / m", "s"], "b": ["old", "young"]}
    assert "n / m" in priors_from(data, "x", group="a", least=0).groups
    with pytest.raises(InputError, match="must not hold ' / '"):
        priors_from(data, "x", group=["a", "b"])


def test_identifiers_are_no_answers():
    with pytest.raises(InputError, match=r"1,001 different answers.*--bins"):
        priors_from({"id": [str(k) for k in range(1001)]}, "id")


# -- answers ------------------------------------------------------------------------------------------------------


def test_missing_answers_are_left_out_and_said_or_answers_of_their_own():
    left_out = priors_from(COLUMNS, "smokes", map=YES_NO, leave_out=["prefer not to say"])
    assert counts_of(left_out) == {None: {"no": 4, "yes": 2}}
    assert left_out.left_out == {"no answer": 1, "left out as asked": 1}
    assert any("1 of 8 rows have no answer and are left out" in note for note in left_out.notes)
    kept = priors_from(COLUMNS, "smokes", map=YES_NO, missing=["prefer not to say"], missing_as="no answer")
    assert kept.values == ("yes", "no", "no answer")
    assert counts_of(kept) == {None: {"no": 4, "yes": 2, "no answer": 2}}
    assert kept.left_out == {}
    own = priors_from(COLUMNS, "smokes", map=YES_NO)
    assert own.values == ("yes", "no", "prefer not to say")
    assert priors_from({"x": ["so-so", "good", "bad", "good"]}, "x").values == ("so-so", "good", "bad")


def test_values_may_be_stated_and_unseen_ones_stay():
    table = priors_from(COLUMNS, "smokes", values=["yes", "no", "sometimes"], map={**YES_NO, "prefer not to say": "no"})
    assert counts_of(table) == {None: {"yes": 2, "no": 5, "sometimes": 0}}
    (prior,) = table.priors()
    assert prior.prior.probability("sometimes") > 0
    assert any("7 rows are counted under another answer" in note for note in table.notes)


def test_rare_answers_are_put_together_or_pointed_out():
    data = {"x": ["a"] * 20 + ["b"] * 20 + ["c", "d"]}
    assert any("'c', 'd'" in note and "--rare" in note for note in priors_from(data, "x").notes)
    table = priors_from(data, "x", rare=5)
    assert counts_of(table) == {None: {"a": 20, "b": 20, "other": 2}}
    assert any("2 answers of fewer than 5 people, 2 in all" in note for note in table.notes)


def test_names_that_mean_nothing_are_suspected():
    assert any("'NA' counts as an answer" in note for note in priors_from({"x": ["NA", "yes", "no"]}, "x").notes)


def test_bins_have_names_and_means():
    ages = {"age": COLUMNS["age"]}
    table = priors_from(ages, "age", bins="0,18,65,100")
    assert counts_of(table) == {None: {"0–17": 1, "18–64": 5, "65–100": 2}}
    means = priors_from(ages, "age", bins="0,18,65,100", means=True)
    assert means.values == ("17", "37", "77.5")
    total = sum(float(value) * count for value, count in zip(means.values, means.groups[None], strict=True))
    assert total == pytest.approx(sum(COLUMNS["age"]))
    plan = make_plan(means.priors(), Sum(), 1, between=(0, 100))
    assert plan.between


def test_a_map_renames_bins_and_one_that_names_nothing_is_pointed_out():
    people = {"ill": ["y", "n", "n"], "age": [12, 40, 70]}
    named = {"age": {"40 and more": "40 und älter", "50 and more": "50 und älter"}}
    made = priors_from(people, "ill", group="age", bins={"age": "0,40,inf"}, map=named, least=0)
    assert list(made.groups) == ["0–39", "40 und älter"]
    assert made.recoding is not None
    assert made.recoding.group(["99"]) == "40 und älter"
    assert any("'50 and more' of --map is nowhere in 'age'" in note for note in made.notes)


def test_so_many_bins_hold_about_as_many_people_each():
    numbers = {float(x): 1.0 for x in range(100)}
    assert Bins.read("4", numbers).edges == (0, 25, 50, 75, 99)
    # Half of all hold one number: the others still get bins.
    assert Bins.read("3", numbers | {10.0: 100.0}).edges == (0, 11, 56, 99)
    assert Bins((-math.inf, 0, 0.5, 1)).labels == ("under 0", "0 to under 0.5", "0.5 to 1")


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.integers(-50, 50), min_size=2, max_size=60).filter(lambda some: len(set(some)) > 1), st.integers(2, 9)
)
def test_every_number_is_in_one_bin(numbers, count):
    often = {float(number): float(numbers.count(number)) for number in numbers}
    bins = Bins.read(str(count), often)
    assert len(bins.labels) <= count
    column = RecodedColumn(column="x", edges=bins.edges, labels=bins.labels)
    assert all(column.read(str(number)) in bins.labels for number in often)
    assert len(set(bins.labels)) == len(bins.labels)


def test_maps_are_pairs():
    assert read_map(["a=b", "a = b"]) == {"a": "b"}
    for wrong in (["a"], ["=b"], ["a="], ["a=b", "a=c"]):
        with pytest.raises(InputError):
            read_map(wrong)


# -- what it is worth ---------------------------------------------------------------------------------------------


def test_weighted_people_count_as_their_effective_number():
    """Named wrong answers: the people themselves, and the sum of their weights."""
    rng = np.random.default_rng(3)
    data = {"x": rng.choice(["yes", "no"], 500).tolist(), "g": ["a", "b"] * 250, "w": rng.lognormal(0, 1, 500).tolist()}
    table = priors_from(data, "x", group="g", weight="w")
    for name, place in (("a", 0), ("b", 1)):
        w = np.array(data["w"][place::2])
        effective = w.sum() ** 2 / (w**2).sum()
        assert sum(table.groups[name]) == pytest.approx(effective)
        assert sum(table.groups[name]) < 0.7 * 250 < w.sum()
        yes = w[np.array(data["x"][place::2]) == "yes"].sum() / w.sum()
        assert counts_of(table)[name]["yes"] / effective == pytest.approx(yes)
        (prior,) = [each for each in table.priors() if each.name == name]
        assert prior.records == math.floor(effective)
        assert float(prior.share) == pytest.approx(w.sum() / sum(data["w"]), abs=1e-8)


def test_equal_weights_change_nothing_and_bad_ones_are_left_out():
    data = {"x": ["yes", "no", "no", "yes", "no"], "w": ["2", "2", "2", "-1", "x"]}
    table = priors_from(data, "x", weight="w")
    assert counts_of(table) == {None: {"no": 2, "yes": 1}}
    assert table.left_out == {"no weight": 2}


@settings(deadline=None, max_examples=100)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=8).filter(any))
def test_written_counts_are_never_worth_more_than_the_records(counts):
    units = _in_units(counts)
    positive = sum(count > 0 for count in counts)
    if sum(counts) * 10_000 >= positive:
        assert sum(units) <= sum(counts) * 10_000 * (1 + 1e-12) + 1e-5
    assert all((unit > 0) == (count > 0) for unit, count in zip(units, counts, strict=True) if count == 0 or count > 1)


def test_small_groups_borrow_what_their_columns_predict_in_any_order_of_the_columns():
    """Age decides, region hardly does. The named wrong answer gives the young of the north the shares of the north."""
    rng = np.random.default_rng(5)
    sizes = {("north", "old"): 400, ("north", "young"): 6, ("south", "old"): 400, ("south", "young"): 400}
    rates = {"old": 0.8, "young": 0.1}
    rows = [
        ("yes" if rng.random() < rates[age] else "no", region, age)
        for (region, age), n in sizes.items()
        for _ in range(n)
    ]
    data = dict(zip(("x", "region", "age"), map(list, zip(*rows, strict=True)), strict=True))
    table = priors_from(data, "x", group=["region", "age"])
    small = counts_of(table)["north / young"]
    assert sum(small.values()) == pytest.approx(6)
    assert small["yes"] / 6 < 0.3
    turned = counts_of(priors_from(data, "x", group=["age", "region"]))["young / north"]
    assert turned == pytest.approx(small)
    assert counts_of(table)["north / old"]["yes"] == sum(x == "yes" and r == "north" and a == "old" for x, r, a in rows)
    (note,) = [note for note in table.notes if "fewer than 30" in note]
    assert "that region and age predict" in note
    alone = counts_of(priors_from(data, "x", group=["region", "age"], least=0))["north / young"]
    assert alone["yes"] == int(alone["yes"]) != small["yes"]


def test_a_prior_with_counts_leads_to_a_plan_for_what_its_records_leave_plausible():
    table = priors_from({"x": ["yes"] * 30 + ["no"] * 70, "g": ["a"] * 100}, "x", group="g")
    plan = make_plan(table.priors(), Survey("yes"), 1, uncertainty=Uncertainty())
    low, high = plan.groups[0].prior_set.extremes([1, 0] if plan.values[0] == "yes" else [0, 1])
    assert low < Fraction(3, 10) < high


def test_shares_of_a_prior_file_must_be_complete_and_sum_to_one(tmp_path):
    header = "group,value,count,share\n"
    (tmp_path / "p.csv").write_text(header + "a,x,1,0.9\na,y,1,0.9\nb,x,5,0.1\nb,y,5,0.1\n")
    assert [each.share for each in read_priors(tmp_path / "p.csv")] == [Fraction(9, 10), Fraction(1, 10)]
    for wrong, said in (
        ("a,x,1,0.9\na,y,1,0.9\nb,x,5,\nb,y,5,\n", "is missing"),
        ("a,x,1,0.9\na,y,1,0.9\n", "sum to 1"),
    ):
        (tmp_path / "p.csv").write_text(header + wrong)
        with pytest.raises(ValueError, match=said):
            read_priors(tmp_path / "p.csv")


@needs_data
def test_the_health_survey_of_2020_becomes_priors_by_age():
    table = priors_from(DATA / "brfss2020_heart.parquet", "HeartDisease", group=["Sex", "AgeCategory"])
    assert sum(sum(counts) for counts in table.groups.values()) == table.n_rows == 319_795
    assert sum(counts_of(table)[name]["Yes"] for name in table.groups) == 27_373
    assert len(table.groups) == 26


def test_several_columns_are_counted_together_and_planned_from(tmp_path):
    data, counts = tmp_path / "data.csv", tmp_path / "joint.csv"
    rows = ["Y,1,20"] * 30 + ["N,1,50"] * 50 + ["N,2,70"] * 19 + [",2,30"]
    data.write_text("smokes,kind,age\n" + "\n".join(rows) + "\n")
    command = ["priors", str(data), "--column", "smokes", "--column", "kind", "--map", "Y=yes", "--map", "N=no"]
    command += ["--map", "kind:1=a", "--map", "kind:2=b", "--group", "age", "--bins", "age=0,40,inf", "-o", str(counts)]
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["left_out"] == {"no answer": 1}
    joint = read_joint(counts)
    assert [question.answers for question in joint.questions] == [("yes", "no"), ("a", "b")]
    assert sorted(group.records for group in joint.groups) == [30, 69]
    assert CliRunner().invoke(app, [*command, "--rare", "3", "--overwrite"]).exit_code != 0
    with pytest.raises(InputError, match="must differ"):
        joint_from(data, ["smokes", "smokes"])
