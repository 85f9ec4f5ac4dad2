"""Waves and corrected words: what is pooled, what is not, and that anybody can compute it again."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from tacit import Histogram, Plan, PlanError, Prior, Survey, Tally, estimate, make_plan
from tacit.cli.everything import app
from tacit.plan import Wording, contract_hash

from support.questions import yes_no_questionnaire

PRIOR = Prior.of({"yes": 0.2, "no": 0.8})


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(PRIOR, Survey("yes"), 1, question="Are you il?")


def test_a_first_wave_says_nothing_of_its_series(plan):
    assert {"wave", "series", "earlier"}.isdisjoint(plan.to_dict())
    assert (plan.wave, plan.series, plan.earlier, plan.hashes) == (1, None, (), (plan.hash,))


def test_a_wave_is_another_contract(plan):
    second = replace(plan, wave=2, series=plan.hash)
    assert second.hash != plan.hash
    assert Plan.from_dict(second.to_dict()) == second
    with pytest.raises(ValueError, match="another plan"):
        Tally.of(plan, [0, 1]).check(second)


@pytest.mark.parametrize(
    "series", [(0, None), (2, None), (1, "0" * 64), (2, "0" * 63), (True, None), (2**31, "0" * 64)]
)
def test_impossible_series_are_refused(plan, series):
    with pytest.raises(PlanError):
        replace(plan, wave=series[0], series=series[1])


def test_wordings_are_bounded(plan):
    words = Wording(None, {"value": {"": "x"}}, {})
    assert len(replace(plan, earlier=(words,) * 100).hashes) == 101
    with pytest.raises(PlanError, match="at most 100"):
        replace(plan, earlier=(words,) * 101)


def test_earlier_hashes_are_computed_from_the_file_alone(plan):
    newest = replace(plan, wave=2, series=plan.hash).reworded("Are you ill?").reworded("Were you ill?")
    data = json.loads(json.dumps(newest.to_dict()))
    for place, words in enumerate(data["earlier"]):
        (question,) = data["questions"]
        then = {name: part for name, part in data.items() if name != "earlier"}
        then |= {"questions": [question | {"text": words["texts"]["value"]}]}
        then |= {"earlier": data["earlier"][:place]} if place else {}
        assert contract_hash(then) == newest.hashes[place]
    assert newest.hashes[0] == replace(plan, wave=2, series=plan.hash).hash


def test_tallies_of_all_wordings_are_pooled_and_no_others(plan):
    better = plan.reworded("Are you ill?")
    old, new = Tally.of(plan, [0, 1, 1]), Tally.of(better, [1])
    with pytest.raises(ValueError, match="--plan"):
        old.merge(new)
    both = old.under(better).merge(new)
    assert both.plan == better.hash
    assert both.n_reports == estimate(better, both).n_reports == 4
    assert estimate(better, old).rows == estimate(plan, old).rows
    # A plan that differs in one integer, or in its answers, is no other wording; nor does an older plan know a newer.
    for other in (
        make_plan(PRIOR, Survey("yes"), "1.001", question="Are you il?"),
        make_plan(PRIOR, Histogram(), 1, question="Are you il?"),
    ):
        with pytest.raises(ValueError, match="another plan"):
            Tally.of(other, [0, 1]).check(better)
    with pytest.raises(ValueError, match="another plan"):
        new.check(plan)


def test_forged_earlier_words_pool_nothing_of_another_plan(plan):
    other = make_plan(PRIOR, Survey("yes"), 2, question="Are you il?")
    forged = other.reworded("Are you ill?")
    assert plan.hash not in forged.hashes
    data = forged.to_dict()
    data["earlier"] = [{"title": None, "texts": {"value": {"": "Something else?"}}, "labels": {}}]
    with pytest.raises(PlanError, match="altered"):
        Plan.from_dict(data)


def test_questionnaires_are_reworded_alike():
    first = yes_no_questionnaire(2, 1.0)
    name = first.questions[0].name
    better = first.reworded("A better title", {name: {"en": "In better words?"}})
    assert better.hashes == (first.hash, better.hash)
    again = Plan.from_dict(json.loads(json.dumps(better.to_dict())))
    assert (again.hash, again.hashes) == (better.hash, better.hashes)
    assert again.question_of(name).text["en"] == "In better words?"
    assert again.block_plans == first.block_plans
    second = replace(first, wave=2, series=first.hash)
    assert Plan.from_dict(second.to_dict()).hash == second.hash != first.hash
    with pytest.raises(PlanError, match="already"):
        first.reworded()
    with pytest.raises(PlanError, match="no question"):
        first.reworded(texts={"nonsense": {"en": "x"}})


def test_edit_and_merge_on_the_command_line(plan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan.save("plan.json")
    run = CliRunner().invoke
    made = run(app, ["edit", "plan.json", "--question", "Are you ill?", "-o", "plan2.json", "--json"])
    assert made.exit_code == 0, made.output
    better = Plan.load("plan2.json")
    assert json.loads(made.stdout)["earlier"] == [plan.hash]
    for name, contract, reports in (("a", plan, "0\n1\n1\n"), ("b", better, "1\n0\n0\n1\n")):
        path = tmp_path / f"{name}.csv"
        path.write_text("report\n" + reports, encoding="utf-8")
        contract_file = "plan.json" if contract is plan else "plan2.json"
        assert run(app, ["tally", contract_file, f"{name}.csv", "-o", f"{name}.json"]).exit_code == 0
    assert run(app, ["merge", "a.json", "b.json", "-o", "both.json"]).exit_code == 2
    assert run(app, ["merge", "a.json", "b.json", "--plan", "plan2.json", "-o", "both.json"]).exit_code == 0
    assert json.loads((tmp_path / "both.json").read_text())["plan"] == better.hash
    assert run(app, ["edit", "plan.json", "--question", "Are you il?", "-o", "plan3.json"]).exit_code == 2
    audited = run(app, ["audit", "plan2.json"]).output
    assert plan.hash in audited.replace("\n", "")
    assert "Are you il?" in audited
    assert run(app, ["edit", "plan.json", "--text", "nonsense=x", "-o", "plan3.json"]).exit_code == 2


def test_stamped_reports_of_all_wordings_are_counted(plan, tmp_path):
    from tacit.files import perturb_file, tally_file

    better = plan.reworded("Are you ill?")
    (tmp_path / "answers.csv").write_text("answer\n" + "yes\nno\n" * 20, encoding="utf-8")
    for kind in ("csv", "parquet"):
        perturb_file(plan, tmp_path / "answers.csv", tmp_path / f"reports.{kind}", column="answer")
        assert tally_file(better, tmp_path / f"reports.{kind}").n_reports == 40
        with pytest.raises(ValueError, match="another plan"):
            tally_file(replace(plan, wave=2, series=plan.hash), tmp_path / f"reports.{kind}")
