"""Several questions through files: answers in, one block and one report a person, tallies that merge, estimates."""

from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from tacit import Prior
from tacit.estimates import estimate_questions
from tacit.files import (
    BadRowsError,
    add_perturb,
    export_file,
    perturb_file,
    perturb_table,
    regress_file,
    tally_by,
    tally_file,
)
from tacit.files.columns import InputError
from tacit.files.giveaway import GivesAwayError
from tacit.plan import CHANCES, Plan, PlanError, Question
from tacit.randomize import RecordRandomizer, SeededWords
from tacit.tally import Tally

from support.questions import block_of, yes_no_questionnaire

SMOKES = Question(name="smokes", answers=("yes", "no"), kind="yes-no")
ASTHMA = Question(name="asthma", answers=("yes", "no"), kind="yes-no")
DAYS = Question(name="days", answers=(0, 5, 30), kind="number", task="mean")


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Two blocks of different chance, in two groups; no prior of a young smoker with asthma."""
    first = block_of([SMOKES, ASTHMA], {"young": [0, 2, 1, 7], "old": [2, 1, 1, 6]}, 1, CHANCES // 4)
    second = block_of([DAYS], {"young": [6, 3, 1], "old": [3, 3, 3]}, 1, 3 * CHANCES // 4)
    return Plan((SMOKES, ASTHMA, DAYS), (first, second))


def people(n: int) -> dict[str, list]:
    return {
        "group": (["young", "old"] * n)[:n],
        "smokes": (["no", "yes"] * n)[:n],
        "asthma": (["no", "no", "yes"] * n)[:n],
        "days": (np.arange(n) % 31).tolist(),
    }


def test_reports_are_a_block_and_an_integer(plan):
    reports = perturb_table(plan, people(2000), words=SeededWords(1))
    assert reports.column_names == ["group", "block", "report"]
    tally = tally_file(plan, reports)
    assert tally.n_reports == 2000
    assert tally.refused == 0
    second = np.mean(reports["block"].to_numpy() == 2)
    assert abs(second - 0.75) < 0.06
    assert abs(second - 0.25) > 0.06, "the chances of the blocks are not exchanged"


def test_any_split_merges_to_the_same_tally(plan, tmp_path):
    perturb_file(plan, pa.table(people(500)), tmp_path / "reports.csv", words=SeededWords(2))
    whole = tally_file(plan, tmp_path / "reports.csv")
    lines = (tmp_path / "reports.csv").read_text().splitlines()
    parts = []
    for name, chosen in (("a", lines[1:100]), ("b", lines[100:])):
        (tmp_path / name).write_text("\n".join([lines[0], *chosen]) + "\n")
        parts.append(tally_file(plan, tmp_path / name, format="csv"))
    assert parts[1].merge(parts[0]).to_dict()["groups"] == whole.to_dict()["groups"]


def test_what_no_device_can_have_sent_is_refused(plan):
    rows = {"group": ["young", "old", "alien", "old"], "block": [1, 3, 1, 2], "report": [0, 0, 0, 999]}
    tally = tally_file(plan, rows)
    assert (tally.n_reports, tally.refused) == (1, 3)


def test_tallies_of_other_plans_are_refused(plan):
    other = yes_no_questionnaire(2, epsilon=1)
    with pytest.raises(ValueError, match="another plan"):
        Tally.of(other, [0], ["block 1"]).check(plan)
    with pytest.raises(InputError, match="another plan"):
        tally_file(yes_no_questionnaire(3, epsilon=1), perturb_table(other, {"q1": ["yes"], "q2": ["no"]}))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"asthma": [None, "no"]}, "missing value"),
        ({"days": ["31", "3"]}, "unknown value"),
        ({"smokes": ["maybe", "no"]}, "unknown value"),
        ({"group": ["young", "middle"]}, "unknown group"),
        ({"smokes": ["yes", "no"], "asthma": ["yes", "no"]}, "impossible combination"),
    ],
)
def test_bad_rows_are_named_and_nothing_is_written(plan, tmp_path, change, reason):
    good = {"group": ["young", "old"], "smokes": ["no", "no"], "asthma": ["no", "no"], "days": ["1", "2"]}
    with pytest.raises(BadRowsError, match=reason):
        perturb_file(plan, pa.table(good | change), tmp_path / "reports.csv")
    assert not (tmp_path / "reports.csv").exists()
    table = perturb_table(plan, good | change, on_unknown="skip")
    assert len(table) == 1


def test_a_question_without_a_column_is_an_error(plan):
    rows = people(3)
    del rows["asthma"]
    with pytest.raises(InputError, match="'asthma'"):
        perturb_table(plan, rows)


def test_answers_cannot_be_kept(plan):
    with pytest.raises(InputError, match="'asthma' cannot be kept"):
        perturb_table(plan, people(3), keep=["asthma"])


def test_a_kept_column_that_gives_one_of_the_answers_away_is_refused(plan):
    rows = people(3000) | {"ward": ["lungs" if each == "yes" else "other" for each in people(3000)["asthma"]]}
    rows["smokes"] = ["no"] * 3000
    with pytest.raises(InputError, match="ward"):
        perturb_table(plan, rows, keep=["ward"])


def test_two_rows_of_one_person_are_refused(plan, tmp_path):
    rows = people(4) | {"id": ["1", "2", "1", "3"]}
    with pytest.raises(InputError, match="1 row of persons"):
        perturb_file(plan, pa.table(rows), tmp_path / "reports.csv", person="id")
    assert not (tmp_path / "reports.csv").exists()
    assert "id" not in perturb_table(plan, people(4) | {"id": [1, 2, 3, 4]}, person="id").column_names


def test_one_record_draws_the_block_then_rounds_then_reports(plan):
    """The order of the words of one record is part of the contract with the browser."""

    class Listed:
        per_thread = False

        def __init__(self) -> None:
            self.asked: list[int] = []

        def draw(self, count, bits):
            self.asked += [bits] * count
            return np.full(count, CHANCES - 1 if bits == 16 else 0, dtype=f"u{bits // 8}")

        def integer(self, bits):
            self.asked.append(bits)
            return 0

    words = Listed()
    blocks, _ = RecordRandomizer(plan).randomize({"smokes": ["no"], "asthma": ["no"], "days": [2.5]}, ["old"], words)
    assert blocks.tolist() == [1]
    assert words.asked[:2] == [16, 64]


def test_cells_by_a_public_column(plan):
    rows = people(400) | {"region": (["north", "south", "south"] * 400)[:400]}
    reports = perturb_table(plan, rows, keep=["region"], force=True)
    found = tally_by(plan, reports, ["region"])
    assert sum(tally.n_reports for tally in found.values()) == 400
    assert set(found) == {("north",), ("south",)}


def test_pseudo_values_of_every_question_and_of_a_pair(plan, tmp_path):
    reports = perturb_table(plan, people(300), words=SeededWords(4))
    done = export_file(plan, reports, tmp_path / "pseudo.csv", pairs=[("smokes", "asthma")])
    table = csv.read_csv(tmp_path / "pseudo.csv")
    assert done.rows == 300
    first = reports["block"].to_numpy() == 1
    for name in ("pseudo_smokes_yes", "pseudo_smokes_asthma_yes_no"):
        assert table[name].is_valid().to_numpy().tolist() == first.tolist()
    assert table["pseudo_days"].is_valid().to_numpy().tolist() == (~first).tolist()
    found = estimate_questions(plan, tally_file(plan, reports), estimator="unbiased")["smokes"]
    mean = np.nanmean(table["pseudo_smokes_yes"].to_numpy(zero_copy_only=False))
    assert found.per_respondent(found.rows[0]).estimate == pytest.approx(mean)
    with pytest.raises(InputError, match="two names"):
        export_file(plan, reports, tmp_path / "other.csv", pairs=[("smokes",)])


def test_a_question_is_regressed_on_public_columns_from_the_reports_on_its_block(plan):
    rows = people(4000) | {"region": (["north", "south"] * 4000)[:4000]}
    rows["smokes"] = ["yes" if k % 8 == 1 else "no" for k in range(4000)]  # A quarter of the old, all in the south.
    reports = perturb_table(plan, rows, keep=["region"], force=True, words=SeededWords(6))
    done = regress_file(plan, reports, "C(region)", question="smokes", model="linear")
    assert done.fit.n_reports == int((reports["block"].to_numpy() == 1).sum())
    slope = done.fit.coefficients[1]
    assert slope.low < 0.25 < slope.high
    assert slope.low > -0.1
    with pytest.raises(PlanError, match="--question"):
        regress_file(plan, reports, "C(region)")


def test_a_private_predictor_is_not_attenuated_by_the_noise():
    """P(q2 = yes) is .8 for q1 = yes and .3 for q1 = no: log odds 2.234. Reports taken for answers give less."""
    plan, n, rng = yes_no_questionnaire(2, epsilon=2), 20_000, np.random.default_rng(3)
    a = rng.random(n) < 0.4
    b = rng.random(n) < np.where(a, 0.8, 0.3)
    region = np.where(rng.random(n) < 0.5, "north", "south")
    rows = {"q1": np.where(a, "yes", "no"), "q2": np.where(b, "yes", "no"), "region": region}
    reports = perturb_table(
        plan, {name: each.tolist() for name, each in rows.items()}, keep=["region"], words=SeededWords(1)
    )
    for model, truth, wrong in (("logistic", 2.234, 1.2), ("linear", 0.5, 0.25)):
        done = regress_file(plan, reports, "C(q1) + C(region)", question="q2", model=model)
        found = {row.name: row for row in done.fit.coefficients}
        slope = -found["C(q1)[T.yes]"].estimate if "C(q1)[T.no]" in found else found["C(q1)[T.yes]"].estimate
        error = found["C(q1)[T.yes]"].standard_error
        assert abs(slope - truth) < 4 * error
        assert abs(slope - wrong) > 4 * error
        assert abs(found["C(region)[T.south]"].estimate) < 4 * found["C(region)[T.south]"].standard_error
    with pytest.raises(InputError, match="explain itself"):
        regress_file(plan, reports, "q2", question="q2")


def test_last_years_shares_of_one_question(plan):
    block = plan.block_of("asthma")
    spread = block.with_margin("asthma", Prior.of({"yes": 1, "no": 3}))
    view = plan.asking("asthma")
    assert (spread.probabilities @ view.task.g(spread)).tolist() == [0.25, 0.75]


REGION = Question(name="region", answers=("north", "south"), public=True)


def test_public_answers_travel_with_the_reports(plan, tmp_path):
    """Without `keep`, as the plan spells them; a cell that is no public answer of the plan is a bad row."""
    asked = replace(plan, questions=(REGION, *plan.questions))
    answers = {**people(400), "region": ["north ", *["south"] * 4] * 80, "town": [*"ABCDE"] * 80}
    reports = perturb_table(asked, answers, keep=["region", "town"])
    assert reports.column_names == ["group", "region", "town", "block", "report"]
    assert tally_by(asked, reports, ["region"])["north",].n_reports == 80
    assert set(zip(reports["region"].to_pylist(), reports["town"].to_pylist(), strict=True)) == {
        ("north", "A"), *(("south", town) for town in "BCDE")
    }  # fmt: skip
    with pytest.raises(InputError, match="one column 'region'"):
        perturb_table(asked, people(10))
    answers["region"][3:5] = ["east", None]
    with pytest.raises(BadRowsError, match=r"missing value: 1 .* unknown value: 1 .*'region': The plan's values are"):
        perturb_table(asked, answers)
    # A public answer that is the private one: the plan, not `keep`, is to be changed.
    same = {**people(100), "smokes": ["no", "yes"] * 50, "region": ["north", "south"] * 50}
    with pytest.raises(GivesAwayError, match=r"'region' beside the reports .* public questions"):
        perturb_table(asked, same)
    connection = duckdb.connect()
    add_perturb(connection, asked)
    drawn = connection.sql("SELECT unnest(tacit_perturb('yes', 'no', 3, 'south', 'old'))").to_arrow_table()
    assert drawn.column_names == ["region", "block", "report"]
    assert drawn["region"].to_pylist() == ["south"]


def test_duckdb_draws_a_block_and_a_report():
    plan = yes_no_questionnaire(2, epsilon=1)
    connection = duckdb.connect()
    add_perturb(connection, plan)
    connection.execute(
        f"CREATE TABLE reports AS SELECT unnest(tacit_perturb('yes', 'no')), 'p{plan.hash[:8]}' AS tacit_plan "
        "FROM range(300)"
    )
    tally = tally_file(plan, connection.table("reports"))
    assert (tally.n_reports, tally.refused) == (300, 0)
    assert set(estimate_questions(plan, tally)) == {"q1", "q2"}
