"""The command: the path from a CSV to an estimate, JSON keys, exit codes, pipes, and documentation that is complete."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit.cli.everything import FILES, app, command_of

from support.places import ROOT

ALL = {name: command_of(name) for name in FILES}
COMMANDS = {name: command for name, command in ALL.items() if not hasattr(command, "commands")}
# What `tacit serve` does without another word; its other commands are told of there.
SERVE = ALL["serve"].commands
COMMANDS["serve"] = SERVE["run"]

PRIOR = "value,probability\nyes,0.2\nno,0.8\n"
GROUPS = "group,value,count\nyoung,0,30\nyoung,1,70\nold,0,400\nold,1,100\n"


@dataclass(frozen=True)
class Ran:
    exit_code: int
    stdout: str
    stderr: str


def run(words: Iterable[object], stdin: str | None = None) -> Ran:
    """Run the command in this process; where it reads standard input, the one on the path, in a process of its own."""
    texts = [str(word) for word in words]
    if stdin is None:
        ran = CliRunner().invoke(app, texts)
        assert ran.exception is None or isinstance(ran.exception, SystemExit), repr(ran.exception)
        return Ran(ran.exit_code, ran.stdout, ran.stderr)
    done = subprocess.run(["tacit", *texts], input=stdin, capture_output=True, text=True, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


def tacit(*words: object, code: int = 0, stdin: str | None = None) -> str:
    """Run the command, and return what it printed."""
    ran = run(words, stdin)
    assert ran.exit_code == code, f"{words}: {ran.stdout} {ran.stderr}"
    return ran.stdout


def refused(*words: object, stdin: str | None = None) -> str:
    """Run a command that must fail as bad input: exit code 2, nothing printed, one line on standard error."""
    ran = run(words, stdin)
    assert (ran.exit_code, ran.stdout) == (2, ""), f"{words}: {ran.stdout} {ran.stderr}"
    (line,) = ran.stderr.splitlines()
    assert line.startswith("error: ")
    return line


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch, tacit_on_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tacit_on_path}:{os.environ['PATH']}")


@pytest.fixture(scope="module")
def planned(tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("planned")
    (folder / "priors.csv").write_text(PRIOR)
    words = ["--task", "survey", "--value", "yes", "--epsilon", 1, "-o", folder / "plan.json"]
    tacit("plan", folder / "priors.csv", *words)
    return (folder / "plan.json").read_bytes()


@pytest.fixture
def plan(planned) -> Path:
    Path("priors.csv").write_text(PRIOR)
    Path("plan.json").write_bytes(planned)
    return Path("plan.json")


@pytest.fixture
def reports(plan) -> Path:
    Path("answers.csv").write_text("value,region\n" + "yes,north\n" * 200 + "no,south\n" * 800)
    tacit("perturb", plan, "answers.csv", "-o", "reports.csv", "--keep", "region", "--force")
    return Path("reports.csv")


# -- the path from a prior to an estimate ---------------------------------------------------------------------------


def test_four_commands_lead_from_two_csv_files_to_an_estimate_with_an_interval():
    Path("priors.csv").write_text(PRIOR)
    Path("answers.csv").write_text("value\n" + "yes\n" * 200 + "no\n" * 800)
    tacit("plan", "priors.csv", "--task", "survey", "--value", "yes", "--epsilon", "1", "-o", "plan.json")
    tacit("perturb", "plan.json", "answers.csv", "-o", "reports.parquet")
    tacit("tally", "plan.json", "reports.parquet", "-o", "tally.json")
    text = tacit("estimate", "plan.json", "tally.json")
    assert re.search(r"yes +[\d,]+ +[\d,]+ … [\d,]+ +[\d.]+% +[\d.]+ … [\d.]+%", text)
    assert "95% interval" in text


def test_the_plan_in_words_states_cost_and_promise(plan):
    text = tacit("plan", "priors.csv", "--task", "survey", "--value", "yes", "--epsilon", 1)
    assert "0.7676" in text
    assert "× 1.83" in text
    assert "by 0.03, 1.0667; by 0.1, 1.2418" in text
    assert "someone believed to be 'yes' with 20% is believed with at most 54.4% and at least 7.35%" in text


def test_plan_json():
    Path("groups.csv").write_text(GROUPS)
    data = json.loads(tacit("plan", "groups.csv", "--task", "sum", "--epsilon", "1/2", "-o", "p.json", "--json"))
    assert [group["group"] for group in data["groups"]] == ["young", "old"]
    for group in data["groups"]:
        keys = {"group", "epsilon", "n_possible_reports", "mse", "lower_bound", "prior_variance", "levels"}
        assert keys <= group.keys()
        assert group["levels"].keys() == {"lip", "lip_upper", "lip_lower", "ldp", "mip"}
        assert group["epsilon"] == 0.5
        assert group["levels"]["lip"] <= 0.5 + 1e-12
        assert group["mse"] <= group["prior_variance"]
        assert group["aim"] == "unbiased"
        assert group["prior_set"] is None
        assert group["lower_bound"] <= group["unbiased_variance"] < group["ldp_aimed"]
    assert data["level_if_prior_off"]["0.03"] < data["level_if_prior_off"]["0.1"] < 1
    assert data["plan"] == json.loads(Path("p.json").read_text())["hash"]


def test_audit_and_channel_json(plan):
    audited = json.loads(tacit("audit", plan, "--json"))
    assert audited["holds"]
    assert audited["groups"][0]["levels"]["lip"] <= 1
    (channel,) = json.loads(tacit("channel", plan, "--json"))["groups"]
    assert channel["group"] is None
    assert channel["values"] == ["yes", "no"]
    assert channel["prior"] == [1, 4]
    assert {sum(map(int, row)) for row in channel["weights"]} == {int(channel["denominator"])}
    assert all(isinstance(cell, str) for row in channel["weights"] for cell in row)


def test_perturb_tally_and_merge_json(reports):
    done = json.loads(tacit("perturb", "plan.json", "answers.csv", "-o", "more.jsonl", "--json"))
    assert (done["rows"], done["reports"], done["skipped"]) == (1000, 1000, {})
    one = json.loads(tacit("tally", "plan.json", reports, "-o", "one.json", "--json"))
    two = json.loads(tacit("tally", "plan.json", "more.jsonl", "-o", "two.parquet", "--json"))
    both = json.loads(tacit("merge", "one.json", "two.parquet", "-o", "both.json", "--json"))
    assert (one["n_reports"], two["n_reports"], both["n_reports"], both["refused"]) == (1000, 1000, 2000, 0)


def test_estimate_json(reports):
    data = json.loads(tacit("estimate", "plan.json", reports, "--level", 0.9, "--by", "region", "--json"))
    assert (data["n_reports"], data["estimator"], data["level"]) == (1000, "unbiased", 0.9)
    (row,) = data["estimates"]
    counts = {"value", "estimate", "standard_error", "margin", "low", "high", "prior", "prior_share"}
    assert row.keys() == counts | {"share", "share_low", "share_high", "share_margin"}
    assert row["share"] == row["estimate"] / 1000
    assert row["margin"] == pytest.approx((row["high"] - row["low"]) / 2)
    assert row["value"] == "yes"
    assert row["low"] < row["estimate"] < row["high"]
    (check,) = data["prior_check"]
    assert check.keys() == {"group", "pooled", "statistic", "degrees", "p_value", "contradicted"}
    assert data["by"].keys() == {"north", "south"}
    assert sum(part["n_reports"] for part in data["by"].values()) == 1000
    for estimator in ("mmse", "mle"):
        assert json.loads(tacit("estimate", "plan.json", reports, "--estimator", estimator, "--json"))["estimates"]


def test_a_sum_is_one_estimate_without_a_value():
    Path("groups.csv").write_text(GROUPS)
    tacit("plan", "groups.csv", "--task", "weighted-sum", "--epsilon", 2, "-o", "p.json")
    answers = "band,x,a,b\n" + "young,1,2,1\nold,0,3,0\nyoung,0,2,1\nold,1,3,0\n" * 25
    Path("answers.csv").write_text(answers)
    words = ["--column", "x", "--group-column", "band", "--keep", "a", "--keep", "b"]
    tacit("perturb", "p.json", "answers.csv", "-o", "r.csv", *words)
    weighted = ["--group-column", "band", "--weight-column", "a", "--offset-column", "b"]
    direct = json.loads(tacit("estimate", "p.json", "r.csv", *weighted, "--json"))
    tacit("tally", "p.json", "r.csv", *weighted, "-o", "t.json")
    assert direct == json.loads(tacit("estimate", "p.json", "t.json", "--json"))
    assert [row["value"] for row in direct["estimates"]] == [None]
    assert {check["group"] for check in direct["prior_check"] if not check["pooled"]} == {"young", "old"}


def test_compare_json_and_plot():
    Path("priors.csv").write_text(PRIOR)
    words = ["priors.csv", "--task", "survey", "--value", "yes", "--epsilon", "1,0.5"]
    rows = json.loads(tacit("compare", *words, "--json", "--plot", "c.png"))["rows"]
    assert [row["epsilon"] for row in rows] == [0.5, 1.0]
    assert 1.2 * rows[1]["lip"] < rows[1]["ldp"]
    trusting = json.loads(tacit("compare", *words, "--aim", "mmse", "--json"))["rows"]
    assert trusting[1]["lip"] < trusting[1]["ldp"] < trusting[1]["no_data"]
    assert rows[1]["published_level"] > 1.26
    assert Path("c.png").read_bytes().startswith(b"\x89PNG")


def test_a_histogram_of_many_values_is_planned_and_printed_short():
    rows = "".join(f"{k},{1 + 10**6 // (k + 1)}\n" for k in range(600))
    Path("pages.csv").write_text("value,count\n" + rows)
    text = tacit("plan", "pages.csv", "--task", "histogram", "--epsilon", 1, "-o", "p.json")
    assert len(text.splitlines()) < 30
    assert len(tacit("audit", "p.json").splitlines()) < 30
    assert len(tacit("channel", "p.json").splitlines()) < 30
    (row,) = json.loads(tacit("compare", "pages.csv", "--task", "histogram", "--epsilon", 1, "--json"))["rows"]
    assert row["lip"] < 0.55 * row["ldp"]
    assert row["published"] is None
    Path("answers.csv").write_text("value\n" + "0\n7\n" * 50)
    tacit("perturb", "p.json", "answers.csv", "-o", "r.csv")
    assert "All with --json" in tacit("estimate", "p.json", "r.csv", "--html", "r.html")
    assert len(json.loads(tacit("estimate", "p.json", "r.csv", "--json"))["estimates"]) == 600
    tacit("plan", "pages.csv", "--task", "histogram", "--epsilon", 1, "--aim", "mmse", "-o", "trusting.json")
    tacit("perturb", "trusting.json", "answers.csv", "-o", "trusting.csv")
    assert "do not tell all values apart" in refused(
        "estimate", "trusting.json", "trusting.csv", "--estimator", "unbiased"
    )
    assert json.loads(tacit("estimate", "trusting.json", "trusting.csv", "--json"))["estimator"] == "mmse"


def test_a_cap_is_planned_guided_and_shown():
    Path("p.csv").write_text("value,probability\nyes,0.1\nno,0.9\n")
    words = ["plan", "p.csv", "--task", "survey", "--value", "yes", "--ldp-cap", "1.1"]
    tacit(*words, "--epsilon", 1, "-o", "capped.json")
    assert "LIP 1, LDP 1.1" in tacit("audit", "capped.json")
    rows = json.loads(tacit(*words, "--guide", "--json"))["guide"]
    assert {row["epsilon"] for row in rows} == {0.5, 1.0}
    found = json.loads(tacit(*words, "--target-rmse", 60, "--respondents", 1000, "-o", "found.json", "--json"))
    assert found["groups"][0]["epsilon"] < 1.1
    # A report that promises LDP, or nearly so, promises it whatever the prior is worth.
    assert "the promise is weaker: LIP by 0.03" in tacit(
        "plan", "p.csv", *words[2:6], "--epsilon", 1, "-o", "plain.json"
    )
    Path("h.csv").write_text("value,count\n" + "".join(f"{k},1\n" for k in range(20)))
    words = ["plan", "h.csv", "--task", "sum", "--epsilon", 3]
    assert "the promise is weaker: LIP by 0.1, 3.0" in tacit(*words, "--ldp-cap", "3.01", "-o", "sum.json")
    kept = tacit(*words, "--ldp-cap", "3.01", "--design", "repaired", "-o", "response.json")
    assert "If the prior is off by 0.1 (total variation), the promise is kept all the same." in kept


def test_an_alarm_about_a_set_of_priors_says_what_was_tested():
    Path("p.csv").write_text("value,probability\nyes,0.1\nno,0.9\n")
    tacit("plan", "p.csv", "--task", "survey", "--value", "yes", "--epsilon", 1, "--prior-error", 0.1, "-o", "p.json")
    Path("answers.csv").write_text("value\n" + "yes\n" * 9_000 + "no\n" * 51_000)
    tacit("perturb", "p.json", "answers.csv", "-o", "r.csv")
    told = tacit("estimate", "p.json", "r.csv")
    assert "contradict the prior" in told
    assert "The other priors that the promise is for are not tested." in told


def test_what_a_prior_is_worth_is_planned_priced_and_audited(tmp_path):
    Path("groups.csv").write_text(GROUPS)
    words = ["plan", "groups.csv", "--task", "survey", "--value", 1, "--epsilon", 1, "--json"]
    exact = json.loads(tacit(*words, "-o", "exact.json"))
    for option, kind in (("--prior-error", "ball"), ("--prior-records", "box"), ("--confidence", "box")):
        value = {"--prior-error": "0.05", "--prior-records": 500, "--confidence": "0.95"}[option]
        made = json.loads(tacit(*words, option, value, "-o", "set.json", "--overwrite"))
        assert {group["prior_set"]["kind"] for group in made["groups"]} == {kind}
        assert [row["promise"] for row in made["price"]][:3] == ["exact prior", "this plan", "ldp"]
        assert [row["respondents_needed"] for row in made["price"][:3]] == sorted(
            row["respondents_needed"] for row in made["price"][:3]
        )
        assert made["price"][0]["expected_rmse"] == pytest.approx(exact["expected_rmse"])
        assert made["level_if_prior_off"] is None
        audited = json.loads(tacit("audit", "set.json", "--json"))
        assert all(0.9 < group["levels"]["lip_set"] <= 1 for group in audited["groups"])
    assert "not several" in refused(*words, "--prior-error", 0.1, "--prior-records", 10, "-o", "set.json")
    Path("belief.csv").write_text("group,value,probability\nyoung,0,.5\nyoung,1,.5\n")
    (other,) = json.loads(tacit("audit", "exact.json", "--belief", "belief.csv", "--json"))["belief"]
    assert other["group"] == "young"
    assert other["exact"]
    assert other["level"] > 1
    assert "Somebody with the other beliefs" in tacit("audit", "exact.json", "--belief", "belief.csv")
    Path("belief.csv").write_text("group,value,probability\nyoung,7,1\n")
    assert "not one of the prior's" in run(["audit", "exact.json", "--belief", "belief.csv"]).stderr


def test_unseen_values_are_said_and_answers_may_be_numbers():
    Path("p.csv").write_text("value,count\n0,5\n10,3\n30,0\n")
    ran = run(["plan", "p.csv", "--task", "sum", "--epsilon", 1, "-o", "p.json"])
    assert "30 was never seen" in ran.stderr
    tacit("plan", "p.csv", "--task", "sum", "--epsilon", 1, "--between", "0,50", "-o", "p.json", "--overwrite")
    assert json.loads(Path("p.json").read_text())["questions"][0]["kind"] == "number"
    Path("a.csv").write_text("value\n12.5\n50\n")
    tacit("perturb", "p.json", "a.csv", "-o", "r.csv")
    Path("p.csv").write_text("value,count\n0,5\n10,3\n")
    assert "two numbers" in refused("plan", "p.csv", "--task", "sum", "--epsilon", 1, "--between", "7", "-o", "p.json")


# -- pipes ----------------------------------------------------------------------------------------------------------


def test_answers_and_reports_can_be_piped(plan):
    piped = tacit("perturb", plan, "-", stdin="value\nyes\nno\nno\n")
    assert re.fullmatch(r'report,tacit_plan\n([01],"p[0-9a-f]{8}"\n){3}', piped)
    lines = '{"value": "yes"}\n{"value": "no"}\n'
    formats = ["--input-format", "jsonl", "--output-format", "jsonl"]
    piped = tacit("perturb", plan, "-", *formats, stdin=lines)
    assert [json.loads(line).keys() for line in piped.splitlines()] == [{"report", "tacit_plan"}] * 2
    tally = json.loads(tacit("tally", plan, "-", "--input-format", "jsonl", "-o", "-", stdin=piped))
    assert sum(tally["groups"][0]["counts"]) == 2
    renamed = "r\n0\n1\n1\n"
    data = json.loads(tacit("estimate", plan, "-", "--report-column", "r", "--json", stdin=renamed))
    assert data["n_reports"] == 3


def test_a_plan_can_be_written_to_standard_output():
    Path("priors.csv").write_text(PRIOR)
    text = tacit("plan", "priors.csv", "--task", "histogram", "--epsilon", 1, "-o", "-")
    Path("plan.json").write_text(text)
    assert json.loads(tacit("audit", "plan.json", "--json"))["holds"] is True


# -- what goes wrong ------------------------------------------------------------------------------------------------


def test_a_plan_that_does_not_hold_fails_the_audit_with_code_1(plan):
    from tacit.plan import contract_hash

    data = json.loads(plan.read_text())
    data["blocks"][0]["groups"][0]["epsilon"] = "1/2"
    Path("altered.json").write_text(json.dumps(data))
    assert "altered" in json.loads(tacit("audit", "altered.json", "--json", code=1))["reason"]
    data["hash"] = contract_hash(data)
    Path("broken.json").write_text(json.dumps(data))
    broken = json.loads(tacit("audit", "broken.json", "--json", code=1))
    assert not broken["holds"]
    assert "promise is not kept" in broken["reason"]
    assert tacit("audit", "broken.json", code=1) == ""
    # Every other command refuses it as bad input.
    assert "promise is not kept" in refused("channel", "broken.json")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["plan", "nowhere.csv", "--task", "sum", "--epsilon", "1"], "no file"),
        (["plan", ".", "--task", "sum", "--epsilon", "1"], "not a file"),
        (["plan", "priors.csv", "--task", "histogram"], "--epsilon"),
        (["plan", "priors.csv", "--task", "histogram", "--epsilon", "1", "--target-rmse", "3"], "not both"),
        (["plan", "priors.csv", "--task", "histogram", "--target-rmse", "3"], "--respondents"),
        (["plan", "priors.csv", "--task", "histogram", "--epsilon", "1", "--respondents", "0"], "at least one"),
        (["plan", "priors.csv", "--task", "histogram", "--epsilon", "much"], "epsilon"),
        (["plan", "priors.csv", "--task", "histogram", "--epsilon", "-1"], "between 0 and 100"),
        (["plan", "priors.csv", "--task", "survey", "--epsilon", "1"], "--value"),
        (["plan", "priors.csv", "--task", "survey", "--value", "maybe", "--epsilon", "1"], "yes, no"),
        (["plan", "priors.csv", "--task", "histogram", "--value", "yes", "--epsilon", "1"], "survey"),
        (["plan", "priors.csv", "--task", "sum", "--epsilon", "1"], "numeric"),
        (["plan", "priors.csv", "--task", "histogram", "--epsilon", "1", "-o", "no/such/plan.json"], "no folder"),
        (["plan", "priors.csv", "--task", "histogram", "--epsilon", "1", "-o", "."], "is a folder"),
        (["plan", "priors.csv", "--task", "survey", "--value", "yes", "--target-rmse", "1e-9", "--respondents", "9"],
         "out of reach"),
        (["audit", "priors.csv"], "priors.csv is a table. A plan is a file of JSON"),
        (["audit", "empty.json"], "not a plan"),
        (["audit", "nowhere.json"], "no file"),
        (["channel", "empty.json"], "Not a plan"),
        (["perturb", "plan.json", "nowhere.csv", "-o", "r.csv"], "no file"),
        (["perturb", "plan.json", "priors.csv", "--column", "other", "-o", "r.csv"], "other"),
        (["perturb", "plan.json", "priors.csv", "-o", "r.unknown"], "format"),
        (["perturb", "plan.json", "wrong.csv", "-o", "r.csv"], "row 2"),
        (["perturb", "plan.json", "wrong.csv", "--group-column", "value", "-o", "r.csv"], "no named groups"),
        (["tally", "plan.json", "nowhere.csv"], "no file"),
        (["tally", "plan.json", "reports.csv", "-o", "t.txt"], ".json or a .parquet"),
        (["merge", "plan.json"], "not a tally"),
        (["estimate", "plan.json", "plan.json"], "not a tally"),
        (["estimate", "plan.json", "reports.csv", "--level", "2"], "between 0 and 1"),
        (["estimate", "plan.json", "reports.csv", "--html", "no/such/r.html"], "no folder"),
        (["compare", "priors.csv", "--task", "histogram", "--epsilon", ","], "at least one budget"),
        (["compare", "priors.csv", "--task", "histogram", "--epsilon", "1", "--plot", "c.xyz"], "xyz"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_one_line_and_leaves_nothing_behind(plan, words, hint):
    Path("empty.json").write_text("{}")
    Path("wrong.csv").write_text("value\nyes\nperhaps\n")
    Path("reports.csv").write_text("report\n0\n1\n")
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert hint in refused(*words)
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_the_answer_is_never_in_an_error_message(plan):
    Path("wrong.csv").write_text("value\nyes\nsecret-thing\n")
    assert "secret-thing" not in refused("perturb", plan, "wrong.csv", "-o", "r.csv")


def test_what_cannot_be_estimated_is_refused_with_a_hint():
    # Arcs of two of eight values do not tell all of them apart.
    Path("p.csv").write_text("value,count\n" + "".join(f"{name},1\n" for name in "abcdefgh"))
    tacit("plan", "p.csv", "--task", "histogram", "--epsilon", math.log(3), "--aim", "mmse", "-o", "p.json")
    assert "the aim 'unbiased'" in refused("estimate", "p.json", "-", "--estimator", "unbiased", stdin="report\n0\n1\n")


def test_markup_in_names_is_printed_as_it_is(plan):
    Path("p.csv").write_text("group,value,count\n[red]a[/red],1,1\n[red]a[/red],2,2\n")
    assert "[red]a[/red]" in tacit("plan", "p.csv", "--task", "sum", "--epsilon", 1, "-o", "p.json")
    assert "[bold]" in refused("plan", "[bold].csv", "--task", "sum", "--epsilon", 1)


def test_refused_reports_are_mentioned(plan):
    assert "1 row was refused" in tacit("estimate", plan, "-", stdin="report\n0\n1\n9\n")


_STILL_READING = """
import atexit, sys, threading
import pyarrow
from tacit.__main__ import run
atexit.register(lambda: print("cleared up"))
threading.Thread(target=threading.Event().wait).start()
sys.argv = ["tacit", "tally", "none.json", "none.csv"]
print("begun")
run()
"""


def test_a_thread_that_still_reads_does_not_meet_the_end_of_the_interpreter():
    """Arrow reads ahead in a thread. Here one never ends: a process that waits for it would not return."""
    done = subprocess.run([sys.executable, "-c", _STILL_READING], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.split("\n")) == (2, ["begun", "cleared up", ""])
    assert done.stderr.startswith("error: ")
    assert "Fatal" not in done.stderr


def test_an_interrupt_exits_with_130_without_a_traceback(plan, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("tacit.designs.planning.design", interrupted)
    before = plan.read_bytes()
    ran = run(["plan", "priors.csv", "--task", "histogram", "--epsilon", 1, "-o", plan])
    assert (ran.exit_code, ran.stdout) == (130, "")
    assert ran.stderr == "interrupted; nothing was written\n"
    assert plan.read_bytes() == before


# -- help and documentation -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_and_says_what_every_option_does(name):
    """The site takes its tables from this help (tools/site.py)."""
    assert f"Example: tacit {name}" in " ".join(tacit(name, "--help").split())
    assert [param.name for param in COMMANDS[name].params if not getattr(param, "help", "")] == []
    assert any("--json" in param.opts for param in COMMANDS[name].params)
    text = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
    assert re.search(rf"^### `tacit {name}[^`]*`\n\n<!-- command: {name}( run)? -->$", text, re.MULTILINE), name


def test_the_reference_invents_no_command_and_no_option():
    text = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^### `tacit ([\w-]+)", text, re.MULTILINE)) == set(ALL)
    known = {
        option
        for command in (*COMMANDS.values(), *SERVE.values())
        for param in command.params
        for option in (*param.opts, *param.secondary_opts)
    }
    assert set(re.findall(r"`(--[\w-]+)`", text)) <= known | {"--version"}


@pytest.mark.parametrize("name", ["tutorial.md", "how-to.md", "questionnaires.md"])
def test_the_commands_of_the_documentation_work_in_order(name):
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    env = os.environ | {"COLUMNS": "80"}
    printed = ""
    for kind, block in re.findall(r"^```(sh|text)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if kind == "sh":
            ran = subprocess.run(["bash", "-e", "-c", block], capture_output=True, text=True, env=env, check=False)
            assert ran.returncode == 0, f"{block}\n{ran.stderr}"
            printed = ran.stdout
        else:
            assert [line.rstrip() for line in printed.strip("\n").splitlines()] != []
            assert [line.strip() for line in printed.splitlines() if line.strip()] == [
                line.strip() for line in block.splitlines() if line.strip()
            ]


# What comes in wrong ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def histogram_plan(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "priors.csv").write_text("value,probability\na,.5\nb,.3\nc,.2\n")
    tacit("plan", folder / "priors.csv", "--task", "histogram", "--epsilon", 1, "-o", folder / "plan.json")
    return folder / "plan.json"


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ([{"group": None, "reports": [0], "counts": [2**63]}], "from 0 to 2"),
        ([{"group": None, "reports": [0], "counts": [-1]}], "from 0 to 2"),
        ([{"group": None, "reports": [0], "counts": [1.5]}], "from 0 to 2"),
        ([{"group": None, "reports": [70], "counts": [1]}], "cannot have sent"),
        ([{"group": "x", "reports": [0], "counts": [1]}], "a group 'x'"),
        ([{"group": None, "reports": [0], "counts": [1]}] * 2, "stands twice"),
        ({}, "a list of groups"),
    ],
    ids=str,
)
def test_a_wrong_tally_is_bad_input(tmp_path, histogram_plan, groups, said):
    tally = {"tacit_tally": 1, "plan": json.loads(histogram_plan.read_text())["hash"], "refused": 0, "groups": groups}
    (tmp_path / "tally.json").write_text(json.dumps(tally))
    assert said in refused("estimate", histogram_plan, tmp_path / "tally.json")


def test_tallies_too_large_to_add_up_are_bad_input(tmp_path, histogram_plan):
    part = {"group": None, "reports": [0], "counts": [5 * 10**18]}
    tally = {"tacit_tally": 1, "plan": json.loads(histogram_plan.read_text())["hash"], "refused": 0, "groups": [part]}
    both = [tmp_path / "one.json", tmp_path / "two.json"]
    for path in both:
        path.write_text(json.dumps(tally))
    assert "cannot count 2^63" in refused("merge", *both, "-o", tmp_path / "all.json")
    assert not (tmp_path / "all.json").exists()


@pytest.mark.parametrize("options", [(), ("--project",), ("--estimator", "mmse"), ("--estimator", "mle", "--project")])
def test_no_report_at_all_is_no_traceback(tmp_path, histogram_plan, options):
    (tmp_path / "reports.csv").write_text("report\n")
    assert run(("estimate", histogram_plan, tmp_path / "reports.csv", *options)).exit_code in (0, 2)


def test_a_breakdown_by_what_the_prior_does_not_know_does_not_use_it():
    """Cells of truly 5% and 15% under a right prior of 10%: mmse read 9.4 and 10.6 for them."""
    Path("priors.csv").write_text("value,probability\nyes,0.1\nno,0.9\n")
    tacit("plan", "priors.csv", "--task", "survey", "--value", "yes", "--epsilon", 2, "-o", "plan.json")
    rows = [
        f"{'yes' if k % 20 < share else 'no'},{cell}" for cell, share in (("few", 1), ("many", 3)) for k in range(8000)
    ]
    Path("answers.csv").write_text("value,cell\n" + "\n".join(rows) + "\n")
    tacit("perturb", "plan.json", "answers.csv", "-o", "reports.csv", "--keep", "cell")
    words = ["estimate", "plan.json", "reports.csv", "--by", "cell", "--estimator", "mmse", "--json"]
    said = json.loads(tacit(*words))
    assert said["estimator"] == "mmse"
    assert {part["estimator"] for part in said["by"].values()} == {"unbiased"}
    few, many = (said["by"][name]["estimates"][0] for name in ("few", "many"))
    # Six standard errors.
    assert abs(few["share"] - 0.05) < 6 * few["share_margin"] / 1.96
    assert abs(many["share"] - 0.15) < 6 * many["share_margin"] / 1.96
    assert many["share"] - few["share"] > 0.06


def test_groups_are_broken_down_from_a_tally_too():
    Path("groups.csv").write_text(GROUPS)
    tacit("plan", "groups.csv", "--task", "sum", "--epsilon", 1, "-o", "p.json")
    Path("answers.csv").write_text("band,x\n" + "young,1\nold,0\n" * 300)
    tacit("perturb", "p.json", "answers.csv", "-o", "r.csv", "--column", "x", "--group-column", "band")
    tacit("tally", "p.json", "r.csv", "--group-column", "band", "-o", "t.json")
    direct = json.loads(tacit("estimate", "p.json", "r.csv", "--group-column", "band", "--by", "band", "--json"))
    kept = json.loads(tacit("estimate", "p.json", "t.json", "--by", "group", "--json"))
    assert direct == kept
    assert {name: part["n_reports"] for name, part in kept["by"].items()} == {"young": 300, "old": 300}


def test_without_any_prior(tmp_path):
    (tmp_path / "values.txt").write_text("".join(f"word {x}\n" for x in range(30)), encoding="utf-8")
    plan, reports = tmp_path / "plan.json", tmp_path / "reports.csv"
    made = json.loads(
        tacit(
            "plan", tmp_path / "values.txt", "--no-prior", "--task", "histogram", "--epsilon", 1, "-o", plan, "--json"
        )
    )
    (group,) = made["groups"]
    assert (group["notion"], group["mechanism"]) == ("ldp", "block-design")
    assert group["unbiased_variance"] < 1.01 * group["lower_bound"]
    assert "odds change by at most a factor of 2.72" in tacit("audit", plan)
    (tmp_path / "answers.csv").write_text("value\n" + "word 3\n" * 500 + "word 7\n" * 100, encoding="utf-8")
    tacit("perturb", plan, tmp_path / "answers.csv", "-o", reports)
    told = json.loads(tacit("estimate", plan, reports, "--json"))
    assert (told["estimator"], told["n_reports"], told["prior_check"]) == ("unbiased", 600, [])


def test_no_prior_and_what_a_prior_is_worth_are_a_contradiction(tmp_path):
    (tmp_path / "values.txt").write_text("a\nb\nc\n", encoding="utf-8")
    base = ("plan", tmp_path / "values.txt", "--no-prior", "--task", "histogram", "--epsilon", 1)
    for more in (("--prior-error", "0.1"), ("--smooth",), ("--aim", "mmse"), ("--impossible", "a"), ("--floor", "0")):
        assert "nothing is known beforehand" in refused(*base, *more, "-o", tmp_path / "plan.json")
    assert not (tmp_path / "plan.json").exists()
