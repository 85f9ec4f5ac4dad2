"""What newcomers stumbled over: each message says what, where, and what to do; no file is lost; no answer is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.commanding import done, refused, run

SECRET = "secret-thing"


@pytest.fixture(autouse=True)
def _planned(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("priors.csv").write_text("value,count\nyes,20\nno,80\n")
    Path("values.txt").write_text("yes\nno\n")
    done("plan", "priors.csv", "--task", "survey", "--value", "yes", "--epsilon", 1, "-o", "plan.json")


# -- plans without a prior ------------------------------------------------------------------------------------------


def test_a_plan_without_a_prior_speaks_of_none():
    asked = ("--task", "survey", "--value", "yes", "--epsilon", 1)
    text = done("plan", "values.txt", "--no-prior", *asked, "-o", "n.json")
    assert "error proven best " in text
    assert "best LDP" not in text
    assert "also if the prior is wrong" not in text
    assert "where all answers are equally frequent. proven best: no LDP channel can do better." in text
    known = done("plan", "priors.csv", *asked, "-o", "plan.json")
    assert "error proven best LDP" in known
    assert "also if the prior is wrong. proven best: no channel can do better. LDP: the best LDP" in known


# -- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "plan nowhere --task sum --epsilon 1",
        "plan priors.csv --task histogram --epsilon 1 --candidates nowhere",
        "audit nowhere",
        "channel nowhere",
        "perturb nowhere priors.csv",
        "perturb plan.json nowhere --input-format csv",
        "tally plan.json nowhere --input-format csv",
        "estimate plan.json nowhere --input-format csv",
        "estimate plan.json priors.csv --population nowhere",
        "difference plan.json nowhere --by x --input-format csv",
        "compare nowhere --task histogram",
        "adopt matrix --matrix nowhere",
        "personal perturb nowhere priors.csv",
        "serve nowhere",
    ],
)
def test_a_missing_file_is_missing_in_the_same_words(words: str):
    assert refused(*words.split()) == "There is no file nowhere."


def test_a_folder_is_not_a_file():
    assert refused("plan", ".", "--task", "sum", "--epsilon", 1) == ". is not a file."


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_cells_may_be_separated_as_spreadsheets_do(separator: str):
    def write(name: str, *lines: str) -> None:
        Path(name).write_text("".join(line.replace(",", separator) + "\n" for line in lines))

    write("semi.csv", "group,value,count", "a,yes,20", "a,no,80", "b,yes,30", "b,no,70")
    done("plan", "semi.csv", "--task", "survey", "--value", "yes", "--epsilon", 1, "-o", "semi.json")
    write("answers.csv", "region,group,value", *["north,a,yes", "south,b,no", "north,b,no", "south,a,yes"] * 25)
    done("perturb", "semi.json", "answers.csv", "-o", "reports.csv", "--keep", "region")
    write("separated.csv", *Path("reports.csv").read_text().splitlines())
    write("sizes.csv", "region,size", "north,100", "south,300")
    commas = done("estimate", "semi.json", "reports.csv", "--by", "region", "--json")
    assert json.loads(commas)["n_reports"] == 100
    assert done("estimate", "semi.json", "separated.csv", "--by", "region", "--json") == commas
    done("estimate", "semi.json", "separated.csv", "--population", "sizes.csv")
    write("values.csv", "note,value", "x,yes", "y,no")
    done("plan", "values.csv", "--no-prior", "--task", "survey", "--value", "yes", "--epsilon", 1, "-o", "v.json")
    write("matrix.csv", "value,yes,no", "yes,0.75,0.25", "no,0.25,0.75")
    write("data.csv", "said,region", "yes,north", "no,south")
    words = ("--data", "data.csv", "--column", "said", "--reports", "said.csv")
    done("adopt", "matrix", "--matrix", "matrix.csv", *words, "-o", "m.json")
    plan = json.loads(Path("m.json").read_text())["hash"][:8]
    assert Path("said.csv").read_text().splitlines()[1:] == [f'"north",0,"p{plan}"', f'"south",1,"p{plan}"']


def test_decimal_commas_are_read_where_they_do_not_separate():
    Path("comma.csv").write_text("value;probability\nyes;0,2\nno;0,8\n")
    done("plan", "comma.csv", "--task", "histogram", "--epsilon", 1, "-o", "comma.json")
    Path("quoted.csv").write_text('value,probability\nyes,"0,2"\nno,"0,8"\n')
    assert "Write a decimal point" in refused("plan", "quoted.csv", "--task", "histogram", "--epsilon", 1)


def test_labels_that_a_design_does_not_have_are_answered_with_those_it_has():
    Path("data.csv").write_text(f"answer\nYes\nno\n{SECRET}\n")
    words = ("adopt", "warner", "--truth", "0.75", "--values", "yes,no", "--data", "data.csv", "--column", "answer")
    said = refused(*words, "--reports", "r.csv", "-o", "adopted.json")
    assert "2 rows that are no report of the plan. unknown label: 2 (rows 1, 3)" in said
    assert "The labels are 'yes', 'no', as they are written here; only 'no' came" in said
    assert "give --labels NAMES" in said
    assert "randomize" not in said
    assert SECRET not in said
    assert "Yes" not in said
    assert not Path("adopted.json").exists()


def test_merging_replaces_no_other_tally():
    for name, reports in (("monday", "0\n1\n"), ("tuesday", "1\n1\n1\n")):
        Path(f"{name}.csv").write_text(f"report\n{reports}")
        done("tally", "plan.json", f"{name}.csv", "-o", f"{name}.json")
    done("merge", "monday.json", "tuesday.json", "-o", "week.json")
    before = Path("week.json").read_bytes()
    done("merge", "tuesday.json", "monday.json", "-o", "week.json")
    assert "holds another tally, of 5 reports" in refused("merge", "monday.json", "-o", "week.json")
    assert "exists and is not a tally" in refused("merge", "monday.json", "-o", "plan.json")
    assert "is read by this command" in refused("merge", "monday.json", "-o", "monday.json", "--overwrite")
    assert json.loads(Path("week.json").read_bytes())["groups"] == json.loads(before)["groups"]
    done("merge", "monday.json", "-o", "week.json", "--overwrite")
    assert json.loads(Path("week.json").read_text())["groups"][0]["counts"] == [1, 1]


def test_a_tally_replaces_a_tally_and_nothing_else():
    Path("r.csv").write_text("report\n0\n1\n")
    done("tally", "plan.json", "r.csv", "-o", "t.json")
    done("tally", "plan.json", "r.csv", "-o", "t.json")
    done("tally", "plan.json", "r.csv", "-o", "t.parquet")
    done("tally", "plan.json", "r.csv", "-o", "t.parquet")
    Path("empty.json").touch()
    done("tally", "plan.json", "r.csv", "-o", "empty.json")
    Path("other.json").write_text(Path("plan.json").read_text())
    done("perturb", "plan.json", "--column", "value", "priors.csv", "-o", "r.parquet")
    Path("rows.json").write_text('{"report": 0}\n{"report": 1}\n')
    for name in ("other.json", "r.parquet", "rows.json"):
        before = Path(name).read_bytes()
        # Refused before anything is read: there is no such file of reports.
        assert "exists and is not a tally" in refused("tally", "plan.json", "nowhere.csv", "-o", name)
        assert Path(name).read_bytes() == before
    done("tally", "plan.json", "r.csv", "-o", "other.json", "--overwrite")
    assert json.loads(Path("other.json").read_text())["tacit_tally"] == 1


def test_a_tally_is_named_as_one_before_anything_is_counted():
    for words in (("tally", "plan.json", "nowhere.csv"), ("merge", "nowhere.json")):
        assert "A tally is a .json or a .parquet file. Got 'x.csv'." in refused(*words, "-o", "x.csv")


def test_a_column_of_weights_that_are_none_is_named():
    Path("a.csv").write_text("sex,value\n" + "m,yes\nf,no\nm,no\nf,yes\n" * 25)
    done("perturb", "plan.json", "a.csv", "-o", "r.csv", "--keep", "sex")
    said = refused("estimate", "plan.json", "r.csv", "--weight-column", "sex")
    assert "no reports in r.csv. All 100 rows were refused" in said
    assert "a weight is missing or no number" in said


def test_no_command_replaces_a_file_unasked():
    """One rule for pages, tables, pictures and pseudo-values, as for priors and reports."""
    Path("a.csv").write_text("region,value\n" + "north,yes\nsouth,no\nnorth,no\nsouth,yes\n" * 25)
    done("perturb", "plan.json", "a.csv", "-o", "r.csv", "--keep", "region")
    for words in (
        "export plan.json r.csv -o", "estimate plan.json r.csv --html", "estimate plan.json r.csv --csv",
        "difference plan.json r.csv --by region --html", "difference plan.json r.csv --by region --csv",
        "regress plan.json r.csv C(region) --model linear --csv", "priors a.csv --column value -o",
        "compare priors.csv --task histogram --epsilon 1 --plot",
    ):  # fmt: skip
        target = Path("kept.png" if "--plot" in words else "kept.csv")
        target.write_text("somebody's work")
        assert "exists. Name another file, or give --overwrite" in refused(*words.split(), target), words
        assert target.read_text() == "somebody's work"
        done(*words.split(), target, "--overwrite")
        assert target.read_bytes() != b"somebody's work"
    assert "is read by this command" in refused(
        "compare", "priors.csv", "--task", "histogram", "--plot", "priors.csv", "--overwrite"
    )


def test_many_differences_hold_at_once_unless_asked_otherwise():
    """Of forty differences that are none, two look like some: the headline must not say that they are."""
    Path("many.csv").write_text("value,count\n" + "".join(f"v{x},{60 - x}\n" for x in range(60)))
    Path("a.csv").write_text("region,value\n" + "".join(f"{'ns'[x % 2]},v{x % 37}\n" for x in range(3000)))
    done("plan", "many.csv", "--task", "histogram", "--epsilon", 1, "-o", "many.json")
    done("perturb", "many.json", "a.csv", "-o", "r.csv", "--keep", "region")
    words = ("difference", "many.json", "r.csv", "--by", "region")
    assert json.loads(done(*words, "--json"))["simultaneous"]
    assert "hold for all rows at once" in done(*words)
    alone = json.loads(done(*words, "--one-by-one", "--json"))
    assert not alone["simultaneous"]
    said = done(*words, "--one-by-one", "--level", 0.5)
    assert "of 60 intervals leave out zero. About one of 2 does by chance alone" in said
    assert "more than chance" not in said
    done("plan", "priors.csv", "--task", "histogram", "--epsilon", 1, "-o", "few.json")
    Path("b.csv").write_text("region,value\n" + "n,yes\ns,no\nn,no\ns,yes\n" * 25)
    done("perturb", "few.json", "b.csv", "-o", "few.csv", "--keep", "region")
    assert not json.loads(done("difference", "few.json", "few.csv", "--by", "region", "--json"))["simultaneous"]


def test_negative_design_weights_are_refused_also_in_a_tally():
    Path("r.csv").write_text("report,w\n" + "0,1\n1,1\n" * 200 + "0,-1\n" * 100)
    assert "must be 0 or more" in refused("estimate", "plan.json", "r.csv", "--weight-column", "w")
    Path("r.csv").write_text("report,w\n0,1\n1,1\n")
    done("tally", "plan.json", "r.csv", "--weight-column", "w", "-o", "t.json")
    data = json.loads(Path("t.json").read_text())
    data["groups"][0]["weight_sums"][0] = "-" + data["groups"][0]["weight_sums"][0]
    Path("t.json").write_text(json.dumps(data))
    assert "design weights below 0" in refused("estimate", "plan.json", "t.json")


# -- what is printed ------------------------------------------------------------------------------------------------


def test_numbers_below_zero_have_a_minus_sign_for_people_and_a_hyphen_for_machines():
    Path("r.csv").write_text("report\n" + "0\n" * 500)
    assert "−" not in done("estimate", "plan.json", "r.csv"), "a share below zero is shown as zero"
    text = done("difference", "plan.json", "r.csv", "--against", "prior", "--csv", "e.csv")
    assert "−" in text
    assert not any(word.startswith("-") for word in text.split())
    data = done("estimate", "plan.json", "r.csv", "--estimator", "unbiased", "--json")
    assert json.loads(data)["estimates"][0]["estimate"] < 0
    assert "−" not in data + Path("e.csv").read_text(encoding="utf-8")


def test_pairs_come_in_the_order_of_the_plan_and_others_by_name():
    groups = ["young", "middle", "old"]
    Path("g.csv").write_text("group,value,count\n" + "".join(f"{name},yes,20\n{name},no,80\n" for name in groups))
    done("plan", "g.csv", "--task", "survey", "--value", "yes", "--epsilon", 1, "-o", "g.json")
    Path("r.csv").write_text("group,region,report\n" + "old,w,0\nmiddle,n,1\nyoung,w,0\nyoung,n,1\nold,n,1\n" * 20)

    def compared(*words: str) -> list[tuple[str, str]]:
        rows = json.loads(done("difference", "g.json", "r.csv", "--against", "pairs", "--json", *words))["differences"]
        return [(row["part"], row["other"]) for row in rows]

    assert compared("--by", "group") == [("young", "middle"), ("young", "old"), ("middle", "old")]
    assert compared("--by", "region") == [("n", "w")]


def test_compliance_of_several_groups_says_the_share_of_all():
    words = [f"--truth={group} / {arm}:{truth}" for group in "ab" for arm, truth in ((1, "1/6"), (2, "5/6"))]
    done("adopt", "warner", "--values", "yes,no", *words, "--task", "survey", "--value", "yes", "-o", "arms.json")
    said = {"a / 1": 400, "a / 2": 650, "b / 1": 350, "b / 2": 750}
    rows = [f"{name},{int(k < no)}\n" for name, no in said.items() for k in range(1000)]
    Path("arms.csv").write_text("group,report\n" + "".join(rows))
    data = json.loads(done("compliance", "arms.json", "arms.csv", "--says", 1, "--json"))
    # Of a 5% did not follow, of b 10%: the shares that say no are over 1 by that much.
    assert [round(each["not_following"]["estimate"], 3) for each in data["groups"]] == [0.05, 0.1]
    assert data["pooled"]["not_following"]["estimate"] == pytest.approx(0.075, abs=1e-4)
    assert data["pooled"]["n_reports"] == 4000
    text = done("compliance", "arms.json", "arms.csv", "--says", 1)
    assert text.startswith("All groups together Of 4,000 people, did not follow the rule: 7.5%")


def test_a_kept_column_that_tells_the_answer_is_refused_without_force_and_no_answer_told():
    Path("a.csv").write_text("value,ward,sex\n" + "yes,x1,f\nno,x2,m\nno,x2,f\nyes,x1,m\n" * 300)
    words = ("perturb", "plan.json", "a.csv", "--overwrite", "--keep", "sex")
    assert run(*words, "-o", "r.csv")[2] == ""
    before = Path("r.csv").read_bytes()
    code, out, err = run(*words, "--keep", "ward", "-o", "r.csv", "--json")
    assert (code, out, Path("r.csv").read_bytes()) == (2, "", before)
    assert err.startswith("error: 'ward' beside the reports gives answers away")
    assert "give --force" in err
    assert run(*words, "--keep", "ward", "-o", "-")[:2] == (2, "")
    code, out, err = run(*words, "--keep", "ward", "--force", "-o", "r.csv", "--json")
    assert (code, json.loads(out)["gives_away"]) == (0, [["ward"]])
    assert err.startswith("warning: 'ward' beside the reports gives answers away")
    assert not {"x1", "x2", "yes", "no"} & set(err.replace(",", " ").split())
    # Nothing but JSON beside reports on standard output.
    assert json.loads(run(*words, "--keep", "ward", "--force", "-o", "-", "--json")[2])["gives_away"] == [["ward"]]


def test_a_second_draw_of_the_same_answers_is_not_advised_and_is_noticed():
    Path("a.csv").write_text("value\n" + "yes\nno\n" * 500)
    Path("b.csv").write_text("value\n" + "yes\nno\n" * 501)
    assert run("perturb", "plan.json", "a.csv", "-o", "one.csv")[::2] == (0, "")
    code, _, err = run("perturb", "plan.json", "a.csv", "-o", "one.csv")
    assert (code, "under this name or another, makes a second report of every answer" in err) == (2, True)
    assert "Name another file, or" not in err
    code, _, err = run("perturb", "plan.json", "a.csv", "-o", "two.csv")
    assert (code, err.startswith("warning: one.csv beside it has as many reports of this plan.")) == (0, True)
    assert "odds by up to a factor" in err
    # Other people, and the same file drawn again over itself, are no second draw.
    assert run("perturb", "plan.json", "b.csv", "-o", "more.parquet")[2] == ""
    Path("two.csv").unlink()
    assert run("perturb", "plan.json", "a.csv", "-o", "one.csv", "--overwrite")[2] == ""
    done("perturb", "plan.json", "a.csv", "-o", "two.parquet")
    for name in ("one.csv", "two.parquet", "more.parquet"):
        done("tally", "plan.json", name, "-o", f"{name}.json")
    assert (
        "one.csv.json and two.parquet.json have the same number" in run("merge", "one.csv.json", "two.parquet.json")[2]
    )
    assert "same number" not in run("merge", "one.csv.json", "more.parquet.json", "--overwrite")[2]


def test_an_order_is_kept_on_demand_and_what_it_means_is_said():
    Path("a.csv").write_text("value,sex\n" + "yes,f\nno,m\nno,f\nyes,m\n" * 300)
    words = ("perturb", "plan.json", "a.csv", "--overwrite", "--keep", "sex", "-o", "r.csv")
    sexes = [f'"{line.split(",")[1]}"' for line in Path("a.csv").read_text().splitlines()[1:]]
    code, _, err = run(*words, "--keep-order")
    assert (code, err.startswith("note: reports are in the order of the answers.")) == (0, True)
    assert [line.split(",")[0] for line in Path("r.csv").read_text().splitlines()[1:]] == sexes
    assert run(*words)[::2] == (0, "")
    assert [line.split(",")[0] for line in Path("r.csv").read_text().splitlines()[1:]] != sexes
    Path("a.csv").write_text("value,sex\n" + "yes,f\n" * 500 + "no,m\n" * 500)
    code, _, err = run("perturb", "plan.json", "a.csv", "--keep-order", "-o", "new.csv")
    assert (code, err.startswith("error: The order of the rows gives answers away")) == (2, True)
    assert not Path("new.csv").exists()


def test_the_alarm_says_that_it_is_blunt():
    assert "tacit difference --against prior" in done("estimate", "--help").replace("│", "")
