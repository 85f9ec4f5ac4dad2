"""The same people again on files: groups by earlier reports, stored reports from the ledger, changes by person."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tacit import Prior, Survey, Tally, make_plan
from tacit.cli.everything import app
from tacit.designs import following_plan, next_plan, with_layers
from tacit.estimates import trend
from tacit.files import InputError, Ledger, followed, linked, perturb_file, perturb_table
from tacit.files.ledger import Occasion, added_up, hash_of
from tacit.plan import Plan, PlanError, Question

from support.places import ROOT

PRIOR = Prior.of({"yes": 0.3, "no": 0.7})


def run(*words: str) -> str:
    """What a command says; it must succeed."""
    said = CliRunner().invoke(app, list(words))
    assert said.exit_code == 0, said.output
    return said.output


def refused(*words: str) -> str:
    said = CliRunner().invoke(app, list(words))
    assert said.exit_code == 2, said.output
    return " ".join(said.output.split())


def write_answers(name: str, people: dict[str, bool]) -> None:
    lines = [f"{person},{'yes' if yes else 'no'}\n" for person, yes in people.items()]
    Path(name).write_text("id,value\n" + "".join(lines), encoding="utf-8")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("priors.csv").write_text("value,probability\nyes,0.3\nno,0.7\n", encoding="utf-8")
    drawn = np.random.default_rng(1)
    people = {f"p{k}": bool(drawn.random() < 0.3) for k in range(400)}
    for wave in (1, 2, 3):
        # In the second wave the first forty are missing; from then on there are new people.
        mine = dict(list(people.items())[40 if wave == 2 else 0 :])
        new = {f"q{k}": k % 3 == 0 for k in range(20)} if wave > 1 else {}
        write_answers(f"a{wave}.csv", mine | new)
    return tmp_path


def test_three_waves_by_the_belief_rule(folder):
    keep = ["--person", "id", "--keep", "id", "--ledger", "who.json"]
    run("plan", "priors.csv", "--task", "survey", "--value", "yes", "--epsilon", "1", "-o", "1.json")
    run("perturb", "1.json", "a1.csv", "-o", "r1.csv", *keep)
    assert "3 groups" in run("next", "1.json", "--persistence", "0.9", "-o", "2.json")
    assert "needs --person and --history" in refused("perturb", "2.json", "a2.csv", "-o", "r2.csv", *keep)
    assert "needs --person and --history" in refused("perturb", "1.json", "a1.csv", "--history", "r1.csv", *keep)
    said = run("perturb", "2.json", "a2.csv", "-o", "r2.csv", *keep, "--history", "r1.csv")
    assert "360 people have answered 2 waves: LIP at most 2," in said
    run("next", "2.json", "--persistence", "0.9", "-o", "3.json")
    last = ["perturb", "3.json", "a3.csv", "-o", "r3.csv", *keep, "--history"]
    assert "40 people have answered an earlier wave" in refused(*last, "r2.csv")
    assert "must have one column 'group'" in refused(*last, "r1.csv")
    run("next", "1.json", "--persistence", "0.5", "-o", "2b.json")
    run("perturb", "2b.json", "a2.csv", "-o", "r2b.csv", "--person", "id", "--keep", "id", "--history", "r1.csv")
    assert "another plan" in refused(*last, "r1.csv", "--history", "r2b.csv")
    assert not Path("r3.csv").exists()
    run(*last, "r1.csv", "--history", "r2.csv")
    # By hand: what each person sent, in order, is the name of the group.
    sent: dict[str, list[str]] = {}
    for wave in (1, 2):
        here = {person: report for *_, person, report, _ in _joined(f"r{wave}.csv")}
        for person in {*sent, *here}:
            sent.setdefault(person, []).append(here.get(person, "-"))
    for group, person, *_ in _joined("r3.csv"):
        assert group == ("after " + " ".join(sent[person]) if person in sent else "new")
    run("tally", "3.json", "r3.csv", "-o", "t3.json")
    assert json.loads(run("estimate", "3.json", "t3.json", "--json"))["n_reports"] == 420
    before = ["--before", "r1.csv", "--before-plan", "1.json", "--person", "id"]
    assert "in both waves of a change: 400." in run("difference", "3.json", "r3.csv", *before)


def _joined(name: str) -> list[list[str]]:
    """The cells of a report file, without the heading; spaces are part of a group's name."""
    lines = Path(name).read_text(encoding="utf-8").splitlines()[1:]
    return [line.replace('"', "").split(",") for line in lines]


def test_two_layers_need_the_ledger_of_the_first_wave(folder):
    run(
        "plan",
        "priors.csv",
        "--task",
        "survey",
        "--value",
        "yes",
        "--epsilon",
        "0.5",
        "--lifelong",
        "1",
        "-o",
        "1.json",
    )
    assert "two layers" in refused("perturb", "1.json", "a1.csv", "-o", "r1.csv")
    keep = ["--person", "id", "--keep", "id", "--ledger"]
    assert "LIP at most 1," in run("perturb", "1.json", "a1.csv", "-o", "r1.csv", *keep, "who.json")
    assert "keep LIP ε = 1" in run("next", "1.json", "-o", "2.json")
    assert "stay as they are" in refused("next", "1.json", "--epsilon", "1", "-o", "3.json")
    assert "has no earlier wave" in refused("perturb", "2.json", "a2.csv", "-o", "r2.csv", *keep, "new.json")
    # One that is there, but is of another survey, has another secret.
    run("plan", "priors.csv", "--task", "histogram", "--epsilon", "1", "-o", "other.json")
    run("perturb", "other.json", "a1.csv", "-o", "o.csv", *keep, "other-who.json")
    assert "has no earlier wave" in refused("perturb", "2.json", "a2.csv", "-o", "r2.csv", *keep, "other-who.json")
    said = run("perturb", "2.json", "a2.csv", "-o", "r2.csv", *keep, "who.json")
    assert "360 people have answered 2 waves: LIP at most 1," in said
    audited = run("audit", "2.json")
    assert "keep LIP ε = 1" in audited
    # Both levels are found again: the promised one, and what the integers reach.
    stored = Plan.load("2.json").groups[0].layers.stored.audit().lip.epsilon
    assert ["LIP", "1", f"{math.ceil(stored * 10_000) / 10_000:.4f}"] == audited.partition("its stored report")[
        2
    ].split()[:3]


def test_the_same_answer_sends_what_is_stored_in_any_order_and_folder(tmp_path):
    """A plan that always sends the stored report shows it: equal in every wave, whatever the order and the files."""
    plan = with_layers(make_plan(PRIOR, Survey("yes"), 1), 1)
    assert plan.groups[0].layers.resend == 4096
    answers = {"id": [f"p{k}" for k in range(300)], "value": ["yes", "no", "no"] * 100}
    ledger = tmp_path / "who.json"

    def sent(each: Plan, table, name: str, ledger: Path) -> dict[str, int]:
        (tmp_path / name).mkdir()
        path = tmp_path / name / "reports.parquet"
        perturb_file(each, table, path, person="id", keep=["id"], ledger=ledger)
        found = pa.parquet.read_table(path)
        return dict(zip(found["id"].to_pylist(), found["report"].to_pylist(), strict=True))

    import pyarrow.parquet  # noqa: F401

    first = sent(plan, answers, "a", ledger)
    moved = tmp_path / "moved.json"
    ledger.rename(moved)
    backwards = {name: cells[::-1] for name, cells in answers.items()}
    assert sent(next_plan(plan), backwards, "b", moved) == first
    # Changed answers draw another stored report, and the earlier one comes back with the earlier answer.
    changed = answers | {"value": ["no" if value == "yes" else "yes" for value in answers["value"]]}
    third = next_plan(next_plan(plan))
    assert sent(third, changed, "c", moved) != first
    assert sent(next_plan(third), answers, "d", moved) == first
    with pytest.raises(InputError, match="300 people have a report of wave 4"):
        sent(next_plan(third), answers, "e", moved)
    with pytest.raises(ValueError, match="two layers"):
        perturb_table(plan, answers, person="id")


def test_another_group_has_another_stored_report_which_adds_up_and_is_limited(tmp_path):
    """As in a browser, whose ledger has the groups of its reports."""
    first = with_layers(make_plan({"north": PRIOR, "south": PRIOR}, Survey("yes"), "1/2"), 1)
    second, path = next_plan(first), tmp_path / "who.json"
    draw = {"person": "id", "keep": ["id"], "force": True}
    people = {"id": ["stays", "moves", "skipped"], "value": ["no", "no", None], "group": ["north"] * 3}
    perturb_file(first, people, tmp_path / "1.csv", ledger=path, on_unknown="skip", **draw)
    assert len(Ledger.open(path).persons) == 2, "who has no report may have one later"
    later = people | {"value": ["no", "no", "yes"], "group": ["north", "south", "north"]}
    limited = Ledger.open(path, "1.5")
    with pytest.raises(InputError, match=r"1 person would add up to more than the limit of 1\.5"):
        perturb_file(second, later, tmp_path / "2.csv", ledger=limited, **draw)
    perturb_file(second, later, tmp_path / "2.csv", ledger=path, **draw)
    found = Ledger.open(path)
    one, two = found.sums()
    assert (one["people"], two["people"]) == (1, 2)
    assert one["lip"] <= 1 < two["lip"]
    levels = {name: added_up([_of(found, tag, k) for k in range(2)])[0] for name, tag in
              (("stays", found.tag("stays")), ("moves", found.tag("moves")))}  # fmt: skip
    assert levels["stays"] <= 1
    assert float(levels["moves"]) == pytest.approx(two["lip"])
    # A ledger whose groups do not fit its people is refused.
    data = found.to_dict()
    data["groups"][found.tag("moves")] = ["north"]
    path.write_text(json.dumps(data | {"hash": hash_of(data)}), encoding="utf-8")
    with pytest.raises(InputError, match="not a ledger"):
        Ledger.open(path)


def _of(ledger: Ledger, tag: str, place: int) -> Occasion:
    """An occasion of a person, as a stored report of its group alone."""
    occasion = ledger.occasions[ledger.persons[tag][place]]
    return replace(occasion, stored=f"{occasion.stored} {ledger.groups[tag][place]}")


def test_a_history_with_two_reports_of_a_person_or_strange_ones_is_refused():
    plan = following_plan(make_plan({"north": PRIOR, "south": PRIOR}, Survey("yes"), 1), "0.9")
    answers = {"id": ["a"], "value": ["yes"], "group": ["north"]}

    def groups(*history) -> list[str]:
        with followed(plan, answers, history, ["id", "value"], person="id") as reader:
            return reader.read_all()["group"].to_pylist()

    assert groups({"id": ["a"], "group": ["south"], "report": [1]}) == ["south / after 1"]
    assert groups({"id": ["b"], "group": ["south"], "report": [1]}) == ["north"]
    with pytest.raises(InputError, match="two reports of one person"):
        groups({"id": ["a", "a"], "group": ["south"] * 2, "report": [1, 0]})
    with pytest.raises(InputError, match="1 sequences of reports that this plan has no group for"):
        groups({"id": ["a"], "group": ["south"], "report": [7]})
    with pytest.raises(InputError, match="group"):
        groups({"id": ["a"], "report": [1]})
    third, first = following_plan(plan, "0.9"), {"id": ["a", "b"], "group": ["south"] * 2, "report": [1, 0]}

    def later(group: str) -> list[str]:
        history = (first, {"id": ["a"], "group": [group], "report": [0]})
        with followed(third, answers | {"id": ["b"]}, history, ["id", "value"], person="id") as reader:
            return reader.read_all()["group"].to_pylist()

    assert later("south / after 1") == ["south / after 0 -"]
    for wrong in ("south / after 0", "south", "north / after 1"):
        with pytest.raises(InputError, match="1 person in another group than their reports"):
            later(wrong)


def test_changes_of_the_same_people_have_their_covariance():
    """From the definition: the variance of a difference of means over the same people is that of the differences."""
    plan = make_plan(PRIOR, Survey("yes"), 2)
    drawn = np.random.default_rng(2)
    reports = [drawn.integers(2, size=3000)]
    reports.append(np.where(drawn.random(3000) < 0.7, reports[0], drawn.integers(2, size=3000)))
    tables = [{"id": [str(k) for k in range(3000)], "report": each} for each in reports]
    order = drawn.permutation(3000)
    tables[1] = {"id": [str(k) for k in order], "report": reports[1][order]}
    waves = [(plan, Tally.of(plan, each)) for each in reports]
    found = trend(waves, linked=[linked(plan, table, "id") for table in tables]).changes.rows[0]
    apart = trend(waves).changes.rows[0]
    values = [plan.groups[0].mechanism.pseudo_values(plan.task, each)[:, 0] for each in reports]
    by_hand = np.var(values[1] - values[0], ddof=1) / 3000
    # Single means have an allowance for few reports, so that variances agree to a part of them.
    assert found.standard_error**2 == pytest.approx(by_hand, rel=0.02)
    assert apart.standard_error > 1.5 * found.standard_error
    with pytest.raises(InputError, match="one report for each person"):
        linked(plan, {"id": ["a", "a"], "report": [0, 1]}, "id")
    with pytest.raises(ValueError, match="in all waves or in none"):
        trend(waves, linked=[linked(plan, tables[0], "id")])


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_killed_around_the_ledger_leaves_nobody_with_a_report_outside_it(tmp_path, when):
    """kill -9 just before, or just after the ledger is saved. After it the reports are complete under a hidden name."""
    plan = make_plan(PRIOR, Survey("yes"), 1)
    plan.save(tmp_path / "plan.json")
    write_answers(str(tmp_path / "answers.csv"), {f"p{k}": k % 7 == 0 for k in range(50)})
    code = f"""
import os, signal
from tacit import Plan
from tacit.files import Ledger, perturb_file
save = Ledger.save
def killed(self):
    if {when == "after"}: save(self)
    os.kill(os.getpid(), signal.SIGKILL)
Ledger.save = killed
perturb_file(Plan.load("plan.json"), "answers.csv", "reports.csv", person="id", keep=["id"], ledger="who.json")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "reports.csv").exists()
    assert (tmp_path / "who.json").exists() == (when == "after")
    (draft,) = tmp_path.glob(".reports.csv.*")
    assert len(draft.read_text(encoding="utf-8").splitlines()) == 51
    again = {"person": "id", "ledger": tmp_path / "who.json"}
    if when == "after":
        with pytest.raises(InputError, match="50 people have a report"):
            perturb_file(plan, tmp_path / "answers.csv", tmp_path / "reports.csv", **again)
    else:
        perturb_file(plan, tmp_path / "answers.csv", tmp_path / "reports.csv", **again)


def test_blanks_and_accents_make_no_other_person(tmp_path):
    plan = make_plan(PRIOR, Survey("yes"), 1)
    draw = {"person": "id", "ledger": tmp_path / "who.json"}
    perturb_file(plan, {"id": ["p1", "Zo\u00eb", "3"], "value": ["yes"] * 3}, tmp_path / "1.csv", **draw)
    for person in (" p1 ", "Zoe\u0308", 3, 3.0):
        with pytest.raises(InputError, match="1 person has a report"):
            perturb_file(plan, {"id": [person], "value": ["no"]}, tmp_path / "2.csv", **draw)
    with pytest.raises(InputError, match="does not say whose"):
        perturb_file(plan, {"id": ["  "], "value": ["no"]}, tmp_path / "2.csv", **draw)


def test_a_questionnaire_has_no_memory_for_two_layers():
    region = Question(name="region", answers=("north", "south"), public=True)
    plan = with_layers(make_plan(Prior.of({"yes": 1, "no": 4}), "histogram", 1), 2)
    with pytest.raises(PlanError, match="one question only"):
        Plan((region, *plan.questions), plan.blocks)


def test_the_commands_of_the_how_to(folder):
    """A survey team's way, word for word."""
    text = (ROOT / "docs" / "how-to.md").read_text(encoding="utf-8")
    section = text.partition("## A panel: the same people again")[2].partition("\n## ")[0]
    for month, wave in (("january", 1), ("february", 3)):
        Path(f"{month}.csv").write_text(Path(f"a{wave}.csv").read_text(encoding="utf-8"), encoding="utf-8")
    commands = [line.split()[1:] for line in section.splitlines() if line.startswith("    tacit ")]
    assert len(commands) == 12
    said = [run(*words) for words in commands]
    assert "Plan with --epsilon" in said[0]
    assert "in both waves of a change: 400." in said[-1]
