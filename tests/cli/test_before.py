"""Before collecting: priors from a spreadsheet, help with ε, and files that are not replaced by accident."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit.cli.everything import FILES, app, command_of

PRIOR = "value,probability\nyes,0.2\nno,0.8\n"
PLAN = ("plan", "priors.csv", "--task", "survey", "--value", "yes")
SECRET = "a-very-private-answer"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("priors.csv").write_text(PRIOR)


def run(*words: object):
    ran = CliRunner().invoke(app, [str(word) for word in words])
    assert ran.exception is None or isinstance(ran.exception, SystemExit), repr(ran.exception)
    return ran


def tacit(*words: object) -> str:
    ran = run(*words)
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout


def refused(*words: object) -> str:
    ran = run(*words)
    assert (ran.exit_code, ran.stdout) == (2, "")
    return ran.stderr


# -- priors -------------------------------------------------------------------------------------------------------


@pytest.fixture
def spreadsheet() -> str:
    lines = ["sex;smokes;age", *["f;Y;20"] * 20, *["f;N;40"] * 80, *["m;Y;70"] * 30, *["m;N;30"] * 70, "m;;50"]
    Path("survey.csv").write_text("\n".join(lines) + "\n")
    return "survey.csv"


def test_a_spreadsheet_leads_to_a_plan(spreadsheet):
    words = ["--group", "sex", "--map", "Y=yes", "--map", "N=no", "--map", "sex:f=female", "--map", "sex:m=male"]
    told = tacit("priors", spreadsheet, "--column", "smokes", *words, "-o", "p.csv")
    assert "200 of 201 rows are counted." in told
    assert "note: 1 of 201 rows have no answer and are left out" in told
    expected = Path("p.csv").read_text()
    assert expected.endswith("group,value,count\nfemale,yes,20\nfemale,no,80\nmale,yes,30\nmale,no,70\n")
    assert '# map = {"f" = "female", "m" = "male"}' in expected
    tacit("plan", "p.csv", "--task", "survey", "--value", "yes", "--epsilon", 1)
    assert tacit("priors", spreadsheet, "--column", "smokes", *words, "-o", "-") == expected


def test_priors_json(spreadsheet):
    words = ["--group", "age", "--bins", "age=0,50,100", "--missing-as", "none", "--leave-out", "Y", "--least", 0]
    data = json.loads(tacit("priors", spreadsheet, "--column", "smokes", *words, "-o", "p.csv", "--json"))
    assert data["rows"] == 201
    assert data["counted"] == 151
    assert data["left_out"] == {"left out as asked": 50}
    assert data["values"] == ["N", "none"]
    assert [(each["group"], each["records"]) for each in data["groups"]] == [("0–49", 150), ("50–100", 1)]
    assert data["file"] == "p.csv"


def test_priors_say_what_to_change(spreadsheet):
    words = ["--column", "smoke", "-o", "p.csv"]
    line = refused("priors", spreadsheet, *words)
    assert "Got sex, smokes, age. Did you mean 'smokes'? To choose another, give --column NAME." in line
    assert "exists" in refused("priors", spreadsheet, "--column", "smokes")
    assert Path("priors.csv").read_text() == PRIOR
    tacit("priors", spreadsheet, "--column", "smokes", "--overwrite")
    assert "is read by this command" in refused("priors", spreadsheet, "--column", "smokes", "-o", spreadsheet)
    assert "FROM=TO" in refused("priors", spreadsheet, "--column", "smokes", "--map", "Y", "-o", "p.csv")
    assert "Got 'year'" in refused("priors", spreadsheet, "--column", "smokes", "--bins", "year=1,2", "-o", "p.csv")
    assert not Path("p.csv").exists()


# -- help with ε --------------------------------------------------------------------------------------------------


def test_a_guide_shows_what_beliefs_become_and_writes_nothing():
    told = tacit(*PLAN, "--guide", "--respondents", 10_000, "--detect", "2pp")
    assert "≤ 2.72%" in told
    assert "Nothing was written" in told
    assert not Path("plan.json").exists()
    # e^0.6 = 1.8221: what is "at most" is rounded up.
    assert "× 1.83" in tacit(*PLAN, "--guide", "--epsilon", "0.6")
    data = json.loads(tacit(*PLAN, "--guide", "--epsilon", "0.5, 3", "--json"))
    assert [row["epsilon"] for row in data["guide"]] == [0.5, 3]
    assert [row["reaches_90"] for row in data["guide"]] == [False, True]
    assert data["plan"] is None
    assert "--guide helps" in refused(*PLAN)
    assert "not both" in refused(*PLAN, "--guide", "--target-rmse", 5, "--respondents", 100)


def test_a_target_that_needs_much_is_warned_about():
    words = ["--respondents", 1000, "--target-rmse", 14]
    assert "warning: ε = " in tacit(*PLAN, *words)
    assert "protects little: somebody who is believed to be 'yes' with 20%" in tacit(*PLAN, *words)
    modest = tacit(*PLAN, "--epsilon", 1, "-o", "modest.json")
    assert "warning" not in modest


def test_power_is_told():
    told = tacit(*PLAN, "--epsilon", 1, "--detect", "2pp", "--power", 0.9)
    assert "A difference of 2 percentage points is seen with a power of 90%" in told
    found = json.loads(tacit(*PLAN, "--epsilon", 1, "--detect", "2pp", "--json"))["detect"]
    assert found["per_wave"] == 23_125
    assert found["alpha"] == 0.05
    assert "--detect" in refused(*PLAN, "--epsilon", 1, "--power", 0.9)
    assert "2pp" in refused(*PLAN, "--epsilon", 1, "--detect", "2")


# -- files are safe -----------------------------------------------------------------------------------------------


@pytest.fixture
def reports() -> Path:
    tacit(*PLAN, "--epsilon", 1)
    Path("answers.csv").write_text("value\n" + "yes\n" * 100 + "no\n" * 100)
    tacit("perturb", "plan.json", "answers.csv", "-o", "reports.csv")
    return Path("reports.csv")


def test_another_plan_is_not_replaced_by_accident():
    tacit(*PLAN, "--epsilon", 1)
    first = Path("plan.json").read_text()
    tacit(*PLAN, "--epsilon", 1)
    assert "holds another plan" in refused(*PLAN, "--epsilon", 2)
    assert json.loads(Path("plan.json").read_text())["hash"] == json.loads(first)["hash"]
    tacit(*PLAN, "--epsilon", 2, "--overwrite")
    assert Path("plan.json").read_text() != first
    assert "is read by this command" in refused(*PLAN, "--epsilon", 2, "-o", "priors.csv", "--overwrite")
    Path("notes.txt").write_text("important")
    assert "is not a plan" in refused(*PLAN, "--epsilon", 2, "-o", "notes.txt")
    assert Path("notes.txt").read_text() == "important"


def test_reports_are_not_drawn_again_by_accident(reports):
    before = reports.read_bytes()
    assert "--overwrite" in refused("perturb", "plan.json", "answers.csv", "-o", reports)
    assert reports.read_bytes() == before
    tacit("perturb", "plan.json", "answers.csv", "-o", reports, "--overwrite")
    assert reports.read_bytes() != before
    assert "is read by" in refused("perturb", "plan.json", "answers.csv", "-o", "answers.csv", "--overwrite")


def test_reports_of_another_plan_are_refused(reports):
    tacit(*PLAN, "--epsilon", 2, "-o", "other.json")
    for command in (("tally", "other.json", reports, "-o", "t.json"), ("estimate", "other.json", reports)):
        assert "another plan" in refused(*command)


def test_a_tally_is_merged_once(reports):
    tacit("tally", "plan.json", reports, "-o", "monday.json")
    tacit("tally", "plan.json", reports, "-o", "again.json")
    Path("copy.json").write_bytes(Path("monday.json").read_bytes())
    tacit("perturb", "plan.json", "answers.csv", "-o", "tuesday.csv")
    tacit("tally", "plan.json", "tuesday.csv", "-o", "tuesday.json")
    assert "named twice" in refused("merge", "monday.json", "./monday.json", "-o", "week.json")
    for twice in ("again.json", "copy.json"):
        assert "counted the same reports" in refused("merge", "monday.json", "tuesday.json", twice, "-o", "week.json")
    assert not Path("week.json").exists()
    ran = run("merge", "monday.json", "tuesday.json", "-o", "week.json", "--json")
    assert json.loads(ran.stdout)["sources_complete"] is True
    assert "note" not in ran.stderr
    earlier = json.loads(Path("monday.json").read_text())
    del earlier["sources"]
    Path("earlier.json").write_text(json.dumps(earlier))
    assert "may not be noticed" in run("merge", "earlier.json", "tuesday.json", "-o", "week.json").stderr


# -- messages -----------------------------------------------------------------------------------------------------


def test_messages_speak_of_options_and_of_the_plan(reports):
    Path("typo.csv").write_text(f"value\nyes\n{SECRET}\n")
    line = refused("perturb", "plan.json", "typo.csv", "-o", "r.csv")
    assert "give --on-unknown skip to leave them out" in line
    assert "The plan's values are 'yes', 'no'" in line
    assert SECRET not in line
    assert "give --report-column NAME" in refused("tally", "plan.json", "answers.csv", "-o", "t.json")
    assert "Did you mean 'yes'?" in refused(*PLAN[:-1], "yess", "--epsilon", 1, "-o", "x.json")


def every_command():
    for name in FILES:
        yield (name,)
        yield from ((name, below) for below in getattr(command_of(name), "commands", ()))


@pytest.mark.parametrize("words", [(), *every_command()], ids=" ".join)
def test_every_command_takes_h(words):
    assert "Usage" in tacit(*words, "-h")
