"""`tacit adopt` and `tacit compliance`: from a survey's file to estimates, and what is refused."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tacit.cli.everything import app


def tacit(*words: object, code: int = 0) -> str:
    ran = CliRunner().invoke(app, [str(word) for word in words])
    assert ran.exit_code == code, ran.output
    return " ".join((ran.stdout if code == 0 else ran.stderr).split())


@pytest.fixture
def survey(tmp_path):
    rows = [
        f"{person},{'Yes' if person % 10 < 4 else 'No'},{'north' if person % 2 else 'south'}" for person in range(600)
    ]
    (tmp_path / "survey.csv").write_text("\n".join(["person,answer,region", *rows]) + "\n")
    return tmp_path


def test_from_a_survey_to_its_estimate(survey):
    made = [
        "adopt",
        "warner",
        "--truth",
        "0.75",
        "--values",
        "yes,no",
        "--labels",
        "Yes,No",
        "-o",
        survey / "plan.json",
    ]
    data = ["--data", survey / "survey.csv", "--column", "answer", "--reports", survey / "reports.csv"]
    said = tacit(*made, *data)
    assert "any belief, odds change by at most a factor of 3.00" in said
    assert "10% 25% 3.57%" in said
    assert "Reports are 0: Yes, 1: No." in said
    assert "600 reports of 600 rows, 0 skipped." in said
    found = json.loads(tacit("estimate", survey / "plan.json", survey / "reports.csv", "--by", "region", "--json"))
    assert found["estimates"][0]["share"] == pytest.approx(0.3)
    assert found["prior_check"] == []
    assert set(found["by"]) == {"north", "south"}
    assert "The plan holds" in tacit("audit", survey / "plan.json")
    assert "reports.csv exists" in tacit(*made, *data, code=2)
    facts = json.loads(tacit(*made, *data, "--overwrite", "--json"))
    assert facts["groups"][0]["beliefs"][0] == {"before": "1%", "at_most": "2.95%", "at_least": "0.335%"}
    assert (facts["labels"], facts["rows"]) == (["Yes", "No"], 600)


def test_every_design_has_its_options(tmp_path):
    (tmp_path / "matrix.csv").write_text("value,hot,cold\nyes,0.7,0.3\nno,1/3,2/3\n")
    for words in (
        "forced-response --values yes,no --forced yes=1/6 --forced no=1/6",
        "unrelated-question --values yes,no --asked 2/3 --prevalence 1/2",
        "crosswise --values yes,no --prevalence 0.25",
        "kuk --values yes,no --red yes=0.8 --red no=0.2 --cards 3",
        "k-ary --values 1,2,3 --epsilon 1 --task sum",
        "symmetric-unary --values a,b,c --flip 0.5",
        "optimised-unary --values a,b,c --epsilon 1",
        f"matrix --matrix {tmp_path / 'matrix.csv'} --task survey --value yes",
    ):
        facts = json.loads(tacit("adopt", *words.split(), "--json", "--overwrite", "-o", tmp_path / "plan.json"))
        assert facts["groups"][0]["notion"] == "ldp", words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("warner --values yes,no", "needs --truth"),
        ("warner --values yes,no --truth 0.7 --flip 0.5", "takes --values, --truth. Got --flip"),
        ("warner --values yes,no --truth 0.7 --truth 0.8", "more than once"),
        ("warner --truth 0.7", "--values yes,no"),
        ("forced-response --values yes,no --forced 1/6", "--forced yes=1/6"),
        ("forced-response --values yes,no --forced yes=1/2", "no finite LDP level"),
        ("unrelated-question --values yes,no --asked a:1/2 --asked b:2/3 --prevalence a:1/2", "'b' needs it too"),
        ("kuk --values yes,no --red yes=0.8", "--red VALUE=P for each value"),
        ("matrix --values yes,no", "takes --matrix. Got --values"),
        ("matrix", "needs --matrix FILE"),
        ("k-ary --values a,b,c", "needs the probability of the truth or ε"),
        ("crosswise --values yes,no --prevalence 0.25 --data survey.csv", "--data, --column and --reports together"),
    ],
)
def test_what_is_missing_or_too_much_is_said(tmp_path, words: str, said: str):
    assert said in tacit("adopt", *words.split(), "-o", tmp_path / "plan.json", code=2)
    assert not (tmp_path / "plan.json").exists()


def test_bad_rows_leave_nothing_behind(survey):
    words = ["adopt", "crosswise", "--values", "yes,no", "--prevalence", "0.25", "-o", survey / "plan.json"]
    data = ["--data", survey / "survey.csv", "--column", "answer", "--reports", survey / "reports.csv"]
    assert "give --on-unknown skip" in tacit(*words, *data, code=2)
    assert not (survey / "plan.json").exists()
    assert not (survey / "reports.csv").exists()


def test_a_prior_file_makes_groups(survey):
    (survey / "priors.csv").write_text("group,value,count\nnorth,yes,100\nnorth,no,900\nsouth,yes,300\nsouth,no,700\n")
    said = tacit(
        "adopt", "forced-response", "--values", "yes,no", "--forced", "yes=1/2", "--forced", "no=1/4",
        "--priors", survey / "priors.csv", "-o", survey / "plan.json",
    )  # fmt: skip
    assert "north yes 10%" in said


def test_a_one_sided_design_is_refused_with_priors_too(survey):
    (survey / "priors.csv").write_text("value,probability\nyes,0.1\nno,0.9\n")
    one_sided = ["adopt", "forced-response", "--values", "yes,no", "--forced", "yes=1/2"]
    said = tacit(*one_sided, "--priors", survey / "priors.csv", "-o", survey / "plan.json", code=2)
    assert "a plan would promise nothing" in said
    assert not (survey / "plan.json").exists()


def test_two_groups_of_a_survey_show_who_did_not_follow(survey):
    """Of 1,000 a tenth say no whatever the rule says, 15% hold it: 650 and 250 of 1,000 say yes."""
    rows = ["first,yes"] * 650 + ["first,no"] * 350 + ["second,yes"] * 250 + ["second,no"] * 750
    (survey / "two.csv").write_text("\n".join(["half,answer", *rows]) + "\n")
    tacit(
        "adopt", "warner", "--values", "yes,no", "--truth", "first:1/6", "--truth", "second:5/6", "--task", "survey",
        "--value", "yes", "--data", survey / "two.csv", "--column", "answer", "--group-column", "half",
        "--reports", survey / "reports.csv", "-o", survey / "plan.json",
    )  # fmt: skip
    words = ["compliance", survey / "plan.json", survey / "reports.csv", "--says", "1", "--group-column", "half"]
    said = tacit(*words)
    assert "did not follow the rule: 10.0%" in said
    assert "is rejected" in said
    assert "with another answer than their own" in said
    found = json.loads(tacit(*words, "--json"))
    assert found["groups"][0]["rows"][0]["most"]["estimate"] == pytest.approx(0.25, abs=1e-3)
    assert "cannot tell who does not follow" in tacit(*words[:3], "--group-column", "half", code=2)


def test_a_plan_with_arms_from_end_to_end(survey):
    (survey / "priors.csv").write_text("value,count\nyes,400\nno,600\n")
    plan = ["plan", survey / "priors.csv", "--task", "survey", "--value", "yes", "-o", survey / "plan.json"]
    assert "does not follow the rule shows to ±" in tacit(*plan, "--arms", "1,2")
    (survey / "answers.csv").write_text((survey / "survey.csv").read_text().replace("Yes", "yes").replace("No", "no"))
    done = tacit(
        "perturb", survey / "plan.json", survey / "answers.csv", "--column", "answer", "--draw-arms", "--keep",
        "region", "-o", survey / "reports.csv",
    )  # fmt: skip
    assert "600 reports" in done
    assert "did not follow the rule" in tacit("compliance", survey / "plan.json", survey / "reports.csv", "--says", "0")
    assert "leave --epsilon" in tacit(*plan, "--arms", "1,2", "--epsilon", "1", code=2)
