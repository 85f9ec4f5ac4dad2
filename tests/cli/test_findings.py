"""`tacit difference`, `export`, `regress`, and breakdowns, weights and populations in `tacit estimate`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit.cli.everything import app

NAMES = [f"{region} / {age}" for region in ("north", "south") for age in ("old", "young")]
SHARES = (0.3, 0.05, 0.2, 0.05)
PARTS = ("--group-parts", "region,age")


def run(*words: object):
    ran = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert ran.exception is None or isinstance(ran.exception, SystemExit), repr(ran.exception)
    return ran


def tacit(*words: object) -> str:
    ran = run(*words)
    assert ran.exit_code == 0, f"{words}: {ran.stdout} {ran.stderr}"
    return ran.stdout


def read(*words: object):
    return json.loads(tacit(*words, "--json"))


def refused(*words: object) -> str:
    ran = run(*words)
    assert (ran.exit_code, ran.stdout) == (2, ""), f"{words}: {ran.stdout} {ran.stderr}"
    (line,) = ran.stderr.splitlines()
    return line


def rows_of(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text().splitlines()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two rounds of crossed groups, with a number, a school and a weight for everybody; the second has more yes."""
    folder = tmp_path_factory.mktemp("findings")
    rng = np.random.default_rng(1)
    with open(folder / "priors.csv", "w") as file:
        file.write("group,value,count\n")
        for name, share in zip(NAMES, SHARES, strict=True):
            file.write(f"{name},yes,{round(1000 * share)}\n{name},no,{round(1000 * (1 - share))}\n")
    for round_, more in (("before", 0.0), ("now", 0.25)):
        with open(folder / f"{round_}-answers.csv", "w") as file:
            file.write("group,region,age,x,school,weight,value\n")
            for name, share in zip(NAMES, SHARES, strict=True):
                region, age = name.split(" / ")
                for _ in range(600):
                    x = rng.integers(0, 3)
                    value = "yes" if rng.random() < share + more * x / 2 else "no"
                    file.write(f"{name},{region},{age},{x},s{rng.integers(20)},{rng.integers(1, 4)},{value}\n")
    plan = folder / "plan.json"
    tacit("plan", folder / "priors.csv", "--task", "survey", "--value", "yes", "--epsilon", 2, "-o", plan)
    keep = [word for name in ("region", "age", "x", "school", "weight") for word in ("--keep", name)]
    for name in ("before", "now"):
        tacit("perturb", plan, folder / f"{name}-answers.csv", "-o", folder / f"{name}.csv", *keep)
        tacit("tally", plan, folder / f"{name}.csv", "-o", folder / f"{name}.json")
    (folder / "region.csv").write_text("region,size\nnorth,3000\nsouth,1000\n")
    (folder / "age.csv").write_text("age,size\nold,1000\nyoung,3000\n")
    (folder / "joint.csv").write_text(
        "region,age,size\nnorth,old,500\nnorth,young,2500\nsouth,old,500\nsouth,young,500\n"
    )
    return folder


@pytest.fixture(autouse=True)
def _here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_crossed_groups_of_a_tally_fall_into_margins():
    found = read("estimate", "plan.json", "now.json", "--by", "region", *PARTS)
    assert list(found["by"]) == ["north", "south"]
    assert [part["n_reports"] for part in found["by"].values()] == [1200, 1200]
    assert found["by"]["north"]["estimator"] == "assisted"
    by_column = read("estimate", "plan.json", "now.csv", "--by", "region")
    assert by_column["by"]["north"]["estimator"] == "unbiased"
    assert "--group-parts region,other" in refused("difference", "plan.json", "now.json", "--by", "region")
    assert "one part" in refused("estimate", "plan.json", "now.json", "--by", "region", "--group-parts", "region")


def test_a_population_weighs_and_says_so():
    plain = read("estimate", "plan.json", "now.csv")
    assert (plain["scope"], plain["design_effect"]) == ("population", 1.0)
    raked = read("estimate", "plan.json", "now.csv", "--population", "region.csv", "--population", "age.csv")
    joint = read("estimate", "plan.json", "now.json", "--population", "joint.csv", *PARTS)
    assert raked["scope"] == joint["scope"] == "population"
    assert raked["total_weight"] == pytest.approx(4000)
    assert joint["design_effect"] > 1.5
    # Most of the population is young, and the young rarely say yes.
    assert raked["estimates"][0]["share"] < plain["estimates"][0]["share"]
    said = tacit("estimate", "plan.json", "now.csv", "--population", "joint.csv", "--by", "region")
    assert said.count("the population that the reports stand for, sampling included") == 2
    assert "Design effect" in said
    assert "the people who took part" in tacit(
        "estimate", "plan.json", "now.csv", "--population", "joint.csv", "--for", "participants"
    )


def test_design_weights_are_for_the_population_and_never_ignored():
    weighted = read("estimate", "plan.json", "now.csv", "--weight-column", "weight")
    assert weighted["scope"] == "population"
    assert weighted["design_effect"] > 1.1
    participants = read("estimate", "plan.json", "now.csv", "--weight-column", "weight", "--for", "participants")
    first, second = (each["estimates"][0] for each in (weighted, participants))
    assert first["estimate"] == pytest.approx(second["estimate"])
    assert first["standard_error"] > second["standard_error"]
    tacit("tally", "plan.json", "now.csv", "--weight-column", "weight", "-o", "weighted.json")
    assert read("estimate", "plan.json", "weighted.json")["estimates"] == weighted["estimates"]
    assert "is a tally" in refused("estimate", "plan.json", "now.json", "--weight-column", "weight")
    assert "unbiased" in refused("estimate", "plan.json", "now.csv", "--population", "age.csv", "--estimator", "mmse")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("region,people\nnorth,1\n", "one column 'size'"),
        ("region,size\nnorth,1\nnorth,2\nsouth,1\n", "Line 3"),
        ("region,size\nnorth,many\n", "Line 2"),
        ("region,size\n", "has no rows"),
        ("region,size\nnorth,1\n", "'south', of which there are reports"),
    ],
)
def test_a_wrong_population_is_bad_input(text, said, tmp_path):
    (tmp_path / "sizes.csv").write_text(text)
    assert said in refused("estimate", "plan.json", "now.csv", "--population", tmp_path / "sizes.csv")


def test_differences_between_groups_rounds_last_year_and_the_prior():
    groups = read("difference", "plan.json", "now.csv", "--by", "age")
    assert [(row["part"], row["other"], row["significant"]) for row in groups["differences"]] == [
        ("old", "young", True)
    ]
    rounds = read("difference", "plan.json", "now.json", "--before", "before.json", "--by", "region", *PARTS)
    assert [row["part"] for row in rounds["differences"]] == ["everybody", "north", "south"]
    assert all(row["significant"] and 0.05 < row["difference"] < 0.22 for row in rounds["differences"])
    shares = read("difference", "plan.json", "now.json", "--before-shares", "priors.csv", "--by", "age", *PARTS)
    prior = read("difference", "plan.json", "now.json", "--against", "prior", "--by", "age", *PARTS)
    for one, other in zip(shares["differences"], prior["differences"], strict=True):
        # The counts are the prior's own; they vary, and the prior is taken as exact.
        assert one["difference"] == pytest.approx(other["difference"], abs=1e-9)
        assert one["standard_error"] > other["standard_error"]
    unknown = tacit("difference", "plan.json", "now.csv", "--before-shares", "priors.csv", "--by", "age")
    assert "The earlier numbers say nothing of these, so they are not compared: 'old', 'young'." in unknown
    pairs = read("difference", "plan.json", "now.csv", "--by", "group", "--against", "pairs", "--simultaneous")
    assert len(pairs["differences"]) == 6
    one = read("difference", "plan.json", "now.csv", "--by", "group", "--against", "north / old")
    assert {row["other"] for row in one["differences"]} == {"north / old"}


def test_a_difference_in_words():
    said = tacit("difference", "plan.json", "now.csv", "--by", "age", "--ratio", "--csv", "out.csv")
    assert "It is higher: chance alone would rarely make such a difference (p < 0.0001)." in said
    assert "points, 95%" in said
    assert "the population that the reports stand for, sampling included" in said
    (row,) = rows_of("out.csv")
    assert (row["part"], row["other"], row["about"]) == ("old", "young", "population")
    rounds = tacit("difference", "plan.json", "now.csv", "--before", "before.csv")
    assert "(everybody, now) against" in rounds
    named = ("--before-shares", "priors.csv", "--names", "2015,2020")
    assert "(2015)" in tacit("difference", "plan.json", "now.csv", *named)
    assert "must name each" in refused("difference", "plan.json", "now.csv", *named[:2], "--names", "2015")
    assert "Rounds are taken as independent" in rounds
    nothing = tacit("difference", "plan.json", "before.csv", "--against", "prior")
    assert "Chance alone could make such a difference" in nothing or "It is" in nothing


def test_nothing_that_is_read_is_written_over():
    for words in (
        ["estimate", "plan.json", "now.json", "--html", "plan.json"],
        ["estimate", "plan.json", "now.json", "--csv", "now.json"],
        ["difference", "plan.json", "now.csv", "--by", "age", "--html", "plan.json"],
        ["difference", "plan.json", "now.csv", "--before", "before.csv", "--csv", "before.csv"],
        ["regress", "plan.json", "now.csv", "x", "--csv", "plan.json"],
        ["export", "plan.json", "now.csv", "-o", "now.csv"],
    ):
        assert "is read by this command" in refused(*words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Say what to compare"),
        (["--by", "age", "--against", "middle"], "no reports of 'middle'"),
        (["--before", "before.csv", "--against", "prior"], "one thing at a time"),
        (["--by", "nothing"], "column 'nothing'"),
        (["--by", "age", "--level", "2"], "'level'"),
        (["--by", "age", "--csv", "no/where.csv"], "no folder"),
    ],
)
def test_wrong_comparisons_are_bad_input(words, said):
    assert said in refused("difference", "plan.json", "now.csv", *words)


def test_pseudo_values_are_exported_row_by_row():
    told = read("export", "plan.json", "now.csv", "-o", "pseudo.csv", "--keep", "region", "--keep", "weight")
    assert (told["rows"], told["refused"], told["columns"]) == (2400, 0, {"pseudo": "yes"})
    rows = rows_of("pseudo.csv")
    assert list(rows[0]) == ["group", "region", "weight", "pseudo"]
    estimated = read("estimate", "plan.json", "now.csv", "--estimator", "unbiased")["estimates"][0]["estimate"]
    assert sum(float(row["pseudo"]) for row in rows) == pytest.approx(estimated)
    tacit("export", "plan.json", "now.csv", "-o", "pseudo.parquet")
    Path("wrong.csv").write_text("group,report\nnorth / old,0\nnorth / old,99\nnowhere,0\n,0\n")
    told = read("export", "plan.json", "wrong.csv", "-o", "wrong-pseudo.csv")
    assert (told["rows"], told["refused"]) == (1, 3)
    assert "of a histogram only" in refused("export", "plan.json", "now.csv", "-o", "yes.csv", "--value", "yes")
    tacit("plan", "priors.csv", "--task", "histogram", "--epsilon", 2, "-o", "histogram.json")
    tacit("perturb", "histogram.json", "now-answers.csv", "-o", "histogram.csv")
    words = ("export", "histogram.json", "histogram.csv", "-o", "no.csv", "--value")
    assert read(*words, "no")["columns"] == {"pseudo_no": "no"}
    assert list(rows_of("no.csv")[0]) == ["group", "pseudo_no"]
    assert "'maybe' is none of them" in refused(*words, "maybe", "--overwrite")


def test_a_regression_with_clusters_weights_and_what_it_means_for_the_promise():
    fit = read("regress", "plan.json", "now.csv", "C(age) + x", "--cluster-column", "school")
    names = [row["name"] for row in fit["coefficients"]]
    assert (fit["model"], fit["n_clusters"]) == ("logistic", 20)
    assert names == ["Intercept", "C(age)[T.young]", "x"]
    young, slope = fit["coefficients"][1:]
    assert young["high"] < 0 < slope["low"]
    assert slope["odds_ratio"] > 1
    assert all(level["prior"] <= 2 for level in fit["levels"])
    assert all(level["prior"] <= level["covariates"] <= level["any_belief"] for level in fit["levels"])
    linear = read("regress", "plan.json", "now.csv", "answer ~ x", "--model", "linear", "--weight-column", "weight")
    assert abs(linear["coefficients"][1]["estimate"] - 0.125) < 5 * linear["coefficients"][1]["standard_error"]
    said = tacit("regress", "plan.json", "now.csv", "poly(x, 2)", "--csv", "slopes.csv")
    assert "For any belief, odds move by at most e^" in said
    assert len(rows_of("slopes.csv")) == 3


def test_values_outside_the_support_are_left_out_of_tables_and_models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("priors.csv").write_text("value,probability\nx,0.5\ny,0.3\nw,0.2\nz,0\n")
    tacit("plan", "priors.csv", "--task", "histogram", "--epsilon", 3, "--impossible", "z", "-o", "plan.json")
    rows = [f"{'fm'[k % 2]},{'xyw'[k % 3]}" for k in range(900)]
    Path("answers.csv").write_text("sex,value\n" + "\n".join(rows) + "\n")
    tacit("perturb", "plan.json", "answers.csv", "-o", "reports.csv", "--keep", "sex")
    said = tacit("difference", "plan.json", "reports.csv", "--by", "sex")
    assert "of 3 differences" in said
    found = read("difference", "plan.json", "reports.csv", "--by", "sex")["differences"]
    assert [row["difference"] is None for row in found] == [False, False, False, True]
    fit = read("regress", "plan.json", "reports.csv", "sex", "--reference", "y")
    assert (fit["reference"], [row["value"] for row in fit["coefficients"]]) == ("y", ["x", "x", "w", "w"])
    assert fit["levels"][0]["covariates"] is None


def test_means_are_compared_with_numbers_of_any_kind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("past.csv").write_text("value,count\n0,40\n10,120\n25,90\n60,30\n")
    tacit("plan", "past.csv", "--task", "sum", "--epsilon", 3, "--between", "0,90", "-o", "plan.json")
    Path("answers.csv").write_text("value\n" + "50.5\n" * 500)
    tacit("perturb", "plan.json", "answers.csv", "-o", "reports.csv")
    (row,) = read("difference", "plan.json", "reports.csv", "--before-shares", "past.csv")["differences"]
    assert row["second"] == pytest.approx((120 * 10 + 90 * 25 + 30 * 60) / 280)
    assert row["significant"]


def test_rows_without_a_cell_are_left_out_and_counted():
    lines = Path("now.csv").read_text().splitlines()
    at = lines[0].split(",").index("x")
    rows = [line.split(",") for line in lines]
    rows[1][at] = rows[2][at] = ""
    Path("holes.csv").write_text("\n".join(",".join(row) for row in rows) + "\n")
    fit = read("regress", "plan.json", "holes.csv", "x", "--model", "linear")
    assert (fit["n_reports"], fit["incomplete"]) == (2398, 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["now.csv", "x +* y"], "cannot be read"),
        (["now.csv", "nothing"], "column 'nothing'"),
        (["now.csv", "value ~ x"], "always the answer"),
        (["now.csv", "C(x).foo()"], "cannot be"),
        (["now.csv", ""], "is empty"),
        (["now.json", "x"], "is a tally"),
        (["now.csv", "x", "--model", "multinomial", "--reference", "maybe"], "reference"),
    ],
)
def test_wrong_regressions_are_bad_input(words, said):
    assert said in refused("regress", "plan.json", *words)
