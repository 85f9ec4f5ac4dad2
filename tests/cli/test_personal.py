"""The corners of `tacit personal …`: no file is lost, and each message says what is true and what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.commanding import done, refused, run


@pytest.fixture(autouse=True)
def _planned(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = ("--task", "survey", "--value", "yes", "--epsilon", 1)
    done("personal", "plan", "no", "yes", *asked, "-o", "pp.json")
    Path("answers.csv").write_text("value,prior\n" + "yes,0.2\nno,0.6\n" * 40)
    done("personal", "perturb", "pp.json", "answers.csv", "-o", "r.csv")
    Path("priors.csv").write_text("value,count\nyes,20\nno,80\n")
    done("plan", "priors.csv", *asked, "-o", "plan.json")


def test_nothing_is_written_over_what_is_read():
    before = Path("r.csv").read_bytes()
    Path("link.csv").symlink_to("r.csv")
    for target in ("r.csv", "link.csv", "pp.json"):
        words = ("personal", "tally", "pp.json", "r.csv", "-o", target, "--overwrite")
        assert "is read by this command" in refused(*words)
    words = ("personal", "perturb", "pp.json", "answers.csv", "-o", "answers.csv", "--overwrite")
    assert "is read by this command" in refused(*words)
    assert Path("r.csv").read_bytes() == before


def test_a_tally_replaces_a_tally_and_nothing_else():
    for _ in range(2):
        done("personal", "tally", "pp.json", "r.csv", "-o", "t.json")
    for name in ("plan.json", "answers.csv"):
        before = Path(name).read_bytes()
        assert "exists and is not a tally" in refused("personal", "tally", "pp.json", "nowhere.csv", "-o", name)
        assert Path(name).read_bytes() == before
    done("personal", "tally", "pp.json", "r.csv", "-o", "plan.json", "--overwrite")
    assert json.loads(Path("plan.json").read_text())["tacit_personal_tally"] == 1


def test_a_hyphen_is_standard_output():
    asked = ("--task", "survey", "--value", "yes", "--epsilon", 1)
    assert json.loads(done("personal", "plan", "no", "yes", *asked, "-o", "-")) == json.loads(
        Path("pp.json").read_text()
    )
    assert json.loads(done("personal", "tally", "pp.json", "r.csv", "-o", "-"))["tacit_personal_tally"] == 1
    assert not Path("-").exists()
    assert done("personal", "perturb", "pp.json", "answers.csv", "-o", "s.csv").startswith("80 reports of 80 rows")


def test_an_estimate_says_what_was_refused():
    Path("bad.csv").write_text("prior,report\n2000,1\n" + "2000,7\n" * 12)
    done("personal", "tally", "pp.json", "bad.csv", "-o", "t.json")
    assert "12 rows were refused: the plan cannot have sent such reports" in done(
        "personal", "estimate", "pp.json", "t.json"
    )
    data = json.loads(done("personal", "estimate", "pp.json", "t.json", "--json"))
    assert (data["n_reports"], data["refused"]) == (1, 12)
    assert data["plan"] == json.loads(Path("pp.json").read_text())["hash"]


def test_the_column_that_the_hint_names_can_be_chosen():
    Path("named.csv").write_text("prior,said\n2000,1\n2000,0\n")
    assert "give --report-column NAME" in refused("personal", "tally", "pp.json", "named.csv", "-o", "t.json")
    assert "2 reports counted, 0 refused" in done(
        "personal", "tally", "pp.json", "named.csv", "--report-column", "said", "-o", "t.json"
    )


def test_plans_and_tallies_of_the_other_kind_say_where_they_belong():
    done("personal", "tally", "pp.json", "r.csv", "-o", "pt.json")
    Path("g.csv").write_text("report\n0\n1\n")
    done("tally", "plan.json", "g.csv", "-o", "t.json")
    for words in ("tally pp.json g.csv", "estimate pp.json g.csv", "perturb pp.json answers.csv", "channel pp.json"):
        assert "This is a plan for individual priors: use `tacit personal" in refused(*words.split())
    for words in ("tally plan.json r.csv", "estimate plan.json pt.json", "perturb plan.json answers.csv"):
        assert "This is a plan for groups that share a prior" in refused("personal", *words.split())
    assert "is not a tally of groups. It is a tally for individual priors" in refused(
        "merge", "pt.json", "-o", "m.json"
    )
    assert "It is one for groups" in refused("personal", "estimate", "pp.json", "t.json")
    assert "This is a tally for individual priors. A plan is" in refused("personal", "estimate", "pt.json", "pp.json")


def test_an_audit_checks_the_channel_of_every_prior_of_two_values():
    assert "all 10,001 priors" in done("audit", "pp.json")
    data = json.loads(done("audit", "pp.json", "--json"))
    assert (data["holds"], data["priors_checked"], data["bound"]) == (True, 10_001, "173459/63812")
    done("personal", "plan", "a", "b", "c", "--task", "histogram", "--epsilon", 1, "-o", "three.json")
    assert "each prior is checked when it is used" in done("audit", "three.json")
    plan = json.loads(Path("pp.json").read_text())
    Path("pp.json").write_text(json.dumps(plan | {"bound": "3"}))
    code, out, err = run("audit", "pp.json", "--json")
    assert (code, json.loads(out)["holds"]) == (1, False)
    assert err.startswith("refused: The 'bound' must be at most e^ε")


def test_what_is_damaged_is_called_so_in_words():
    whole = Path("r.csv").read_text()
    Path("cut.csv").write_text(whole[:-6])
    assert "cut.csv is cut short" in refused("personal", "tally", "pp.json", "cut.csv", "-o", "t.json")
    done("personal", "plan", "no", "yes", "--task", "survey", "--value", "yes", "--epsilon", 2, "-o", "other.json")
    assert "reports of another plan" in refused("personal", "tally", "other.json", "r.csv", "-o", "t.json")
    done("personal", "tally", "pp.json", "r.csv", "-o", "t.json")
    text = Path("t.json").read_text()
    assert "It is of another plan" in refused("personal", "estimate", "other.json", "t.json")
    data = json.loads(text)
    for damaged in (text[:50], "[]", json.dumps({**data, "priors": 3}), json.dumps({**data, "priors": [[2**70, 1]]})):
        Path("t.json").write_text(damaged)
        said = refused("personal", "estimate", "pp.json", "t.json")
        assert said.startswith("t.json is not a tally of this plan. ")
        assert "Error" not in said


def test_weights_that_would_not_count_are_refused():
    Path("w.csv").write_text("prior,report,w\n2000,1,3\n")
    words = ("personal", "tally", "pp.json", "w.csv", "--weight-column", "w", "-o", "t.json")
    assert "Weights and offsets are for a weighted sum" in refused(*words)
