"""The ledger: one draw for each person and wave, across runs, and what repeated answers add up to."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tacit import Plan, Prior, Survey, make_plan
from tacit.cli.everything import app
from tacit.designs import Search, following_plan, with_layers
from tacit.files import InputError, Ledger, perturb_file
from tacit.files.ledger import Occasion, added_up, hash_of
from tacit.mechanism.repeated import joint_level
from tacit.randomize import Randomizer


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(Prior.of({"yes": 0.3, "no": 0.7}), Survey("yes"), 1, question="Il?")


ANSWERS = {"id": [f"p{k}" for k in range(40)], "value": ["yes", "no"] * 20}


def test_a_second_draw_of_a_wave_is_refused_and_another_wave_adds_up(plan, tmp_path):
    ledger = tmp_path / "ledger.json"
    draw = {"person": "id", "ledger": ledger}
    perturb_file(plan, ANSWERS, tmp_path / "one.csv", **draw)
    # Under another name, in other words, and for some of the people only.
    some = {name: cells[:3] for name, cells in ANSWERS.items()}
    for again in (plan, plan.reworded("Ill?")):
        with pytest.raises(InputError, match="3 people have a report of wave 1"):
            perturb_file(again, some, tmp_path / "two.csv", **draw)
    assert not (tmp_path / "two.csv").exists()
    later = replace(plan, wave=2, series=plan.hash)
    perturb_file(later, some, tmp_path / "three.csv", **draw)
    sums = Ledger.open(ledger).sums()
    assert [(row["waves"], row["people"], row["lip"]) for row in sums] == [
        (1, 37, 1.0),
        (2, 3, pytest.approx(2.658735)),
    ]
    assert sums[1]["ldp"] == pytest.approx(2 * sums[0]["ldp"])


def test_a_limit_refuses_and_can_be_lowered_only(plan, tmp_path):
    path = tmp_path / "ledger.json"
    perturb_file(plan, ANSWERS, tmp_path / "one.csv", person="id", ledger=Ledger.open(path, "2.5"))
    later = replace(plan, wave=2, series=plan.hash)
    with pytest.raises(InputError, match=r"40 people would add up to more than the limit of 2\.5"):
        perturb_file(later, ANSWERS, tmp_path / "two.csv", person="id", ledger=path)
    with pytest.raises(InputError, match="cannot be raised"):
        Ledger.open(path, 3)
    assert Ledger.open(path, 2).limit == 2


def test_the_limit_of_a_plan_is_about_its_series(plan, tmp_path):
    ledger = Ledger.open(tmp_path / "ledger.json")
    ledger.add(replace(plan.reworded("Another?"), earlier=()), ["p1"])
    first = replace(plan, limit=Fraction(3))
    waves = [first, *(replace(first, wave=wave, series=first.hash) for wave in (2, 3))]
    for wave in waves[:2]:
        ledger.add(Plan.from_dict(wave.to_dict()), ["p1"])
    with pytest.raises(InputError, match="1 person would add up to more than the limit of 3 of the plan"):
        ledger.add(waves[2], ["p1"])
    ledger.add(waves[2], ["p2"])


def test_another_plan_that_says_it_is_the_same_wave_draws_no_second_report(plan, tmp_path):
    ledger = Ledger.open(tmp_path / "ledger.json")
    ledger.add(replace(plan, wave=2, series=plan.hash), ["p1"])
    with pytest.raises(InputError, match="1 person has a report of wave 2"):
        ledger.add(replace(plan.reworded("Again?"), wave=2, series=plan.hash, earlier=()), ["p1"])


def test_the_file_names_nobody_and_no_answers(plan, tmp_path):
    path = tmp_path / "ledger.json"
    perturb_file(plan, ANSWERS, tmp_path / "one.csv", person="id", ledger=path)
    text = path.read_text(encoding="utf-8")
    assert not any(f'"p{k}"' in text for k in range(40))
    assert "yes" not in text
    other = Ledger.open(tmp_path / "other.json")
    assert other.tag("p1") != Ledger.open(path).tag("p1")


def test_reports_that_cannot_be_written_leave_the_ledger_as_it_was(plan, tmp_path, monkeypatch):
    path = tmp_path / "ledger.json"
    perturb_file(plan, ANSWERS, tmp_path / "one.csv", person="id", ledger=path)
    before = path.read_text(encoding="utf-8")
    later = replace(plan, wave=2, series=plan.hash)
    real = Ledger.save

    def failing(self: Ledger) -> None:
        real(self)
        raise OSError("disk full")

    monkeypatch.setattr(Ledger, "save", failing)
    with pytest.raises(OSError, match="disk full"):
        perturb_file(later, ANSWERS, tmp_path / "two.csv", person="id", ledger=path)
    assert path.read_text(encoding="utf-8") == before
    assert not (tmp_path / "two.csv").exists()


def test_reports_that_left_on_standard_output_stay_noted(plan, tmp_path, monkeypatch):
    """A reader such as `head` ends early: some reports are out, so nobody of the file may draw again."""
    path = tmp_path / "ledger.json"
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=_Closing()))
    with pytest.raises(BrokenPipeError):
        perturb_file(plan, ANSWERS, "-", person="id", ledger=path)
    with pytest.raises(InputError, match="40 people have a report"):
        perturb_file(plan, ANSWERS, tmp_path / "again.csv", person="id", ledger=path)


class _Closing(io.BytesIO):
    def flush(self) -> None:
        raise BrokenPipeError


def test_a_failure_does_not_undo_what_another_run_noted(plan, tmp_path):
    path, later = tmp_path / "ledger.json", replace(plan, wave=2, series=plan.hash)
    failing = Ledger.open(path)
    failing.add(plan, ["a"])
    failing.save()
    perturb_file(later, {"id": ["b"], "value": ["no"]}, tmp_path / "other.csv", person="id", ledger=path)
    failing.undo()
    assert len(Ledger.open(path).persons) == 2


@pytest.mark.parametrize("spelled", [["12345678901.0"], [12345678901.0], [12345678901], ["\u200b12345678901 "]])
def test_a_number_written_in_another_way_is_the_same_person(plan, tmp_path, spelled):
    path = tmp_path / "ledger.json"
    perturb_file(plan, {"id": ["12345678901"], "value": ["no"]}, tmp_path / "one.csv", person="id", ledger=path)
    with pytest.raises(InputError, match="1 person has a report"):
        perturb_file(plan, {"id": spelled, "value": ["no"]}, tmp_path / "two.csv", person="id", ledger=path)


def test_a_ledger_that_changed_meanwhile_or_is_none_is_refused(plan, tmp_path):
    path = tmp_path / "ledger.json"
    first, second = Ledger.open(path), Ledger.open(path)
    perturb_file(plan, ANSWERS, tmp_path / "one.csv", person="id", ledger=first)
    with pytest.raises(InputError, match="meanwhile"):
        perturb_file(plan, ANSWERS, tmp_path / "two.csv", person="id", ledger=second)
    assert Ledger.open(path).sums()[0]["people"] == 40
    Path(tmp_path / "no.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="not a ledger"):
        Ledger.open(tmp_path / "no.json")
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(data | {"limit": "9"}), encoding="utf-8")
    with pytest.raises(InputError, match="was altered"):
        Ledger.open(path)
    data["persons"]["f" * 24] = [0, 0]
    path.write_text(json.dumps(data | {"hash": hash_of(data)}), encoding="utf-8")
    with pytest.raises(InputError, match="not a ledger"):
        Ledger.open(path)
    with pytest.raises(InputError, match="person"):
        perturb_file(plan, ANSWERS, tmp_path / "three.csv", ledger=path)


def test_levels_add_up_by_the_bound():
    def alone(lip: str, ldp: str | None) -> Occasion:
        return Occasion("a", "a", 1, None, Fraction(lip), None if ldp is None else Fraction(ldp))

    one, half = alone("1", None), alone("1/2", "1")
    assert added_up([one, half, half]) == (3, None)
    assert added_up([]) == (0, 0)
    # LDP was promised: levels add. Of a mixture the report with the largest reduction is counted once.
    assert added_up([alone("1", "1")] * 3) == (3, 3)
    assert added_up([alone("1", "3/2"), alone("1", "1"), alone("2", "9")]) == (Fraction("4.5"), Fraction("11.5"))


def test_no_joint_level_exceeds_what_the_ledger_says():
    """Two or three channels about one answer, of which some are LDP: the exact joint level against the sum."""
    prior = Prior.of({"yes": 0.2, "no": 0.8})
    lip, ldp = (make_plan(prior, Survey("yes"), 1, notion=notion) for notion in ("lip", "ldp"))
    for several in ([lip, lip], [ldp, ldp], [lip, ldp, ldp], [lip, lip, ldp]):
        occasions = [Occasion.of(plan) for plan in several]
        level, bound = (added_up(each)[0] for each in (occasions, [replace(each, columns=()) for each in occasions]))
        found = joint_level([plan.groups[0].mechanism for plan in several]).lip
        assert found.holds(level)
        assert level <= bound - Fraction(1, 10) * (several == [lip, lip])
        assert several != [ldp, ldp] or level == 2
        # The sum of the levels, which a reader may expect, is too little.
        assert several != [lip, lip] or not found.holds(Fraction(2))


def test_the_ledger_says_the_exact_joint_level_to_a_millionth():
    coin = make_plan(Prior.uniform(["yes", "no"]), Survey("yes"), 1)
    found = joint_level([coin.groups[0].mechanism] * 3).lip
    level, _ = added_up([Occasion.of(coin)] * 3)
    assert float(level) == pytest.approx(3.788, abs=1e-3)
    assert found.holds(level)
    assert not found.holds(level - Fraction(2, 10**6))


def test_reports_whose_sequences_are_many_are_added_to_the_others():
    prior = Prior.of({"yes": 0.2, "no": 0.8})
    waves = [replace(Occasion.of(make_plan(prior, Survey("yes"), 1 - Fraction(k, 50))), name=str(k)) for k in range(11)]
    assert all(each.columns for each in waves)
    ten, eleven = (added_up(waves[:count])[0] for count in (10, 11))
    # 2^9 sequences are looked at; the tenth and eleventh report cost min(2ε, δ).
    prices = [min(2 * each.lip, each.ldp) for each in waves]
    assert ten == added_up(waves[:9])[0] + prices[9]
    assert eleven == ten + prices[10]
    assert added_up([waves[0]] * 60)[0] < 60 * prices[0], "sequences of one channel are counted without their order"
    even = Prior.of({f"v{x}": 1 for x in range(40)})
    many = Occasion.of(make_plan(even, "histogram", 1, search=Search(method="without-prior")))
    assert not many.columns
    assert added_up([many, waves[0]]) == added_up([many, replace(waves[0], columns=())])


def test_only_waves_that_store_reports_alike_count_as_one():
    coin = make_plan(Prior.uniform(["yes", "no"]), Survey("yes"), "1/2")
    first, other = with_layers(coin, 1), with_layers(coin, "3/4")
    waves = [first, *(replace(each, wave=wave, series=first.hash) for wave, each in ((2, first), (3, other)))]
    told = [Occasion.of(each) for each in waves]
    assert added_up(told[:2])[0] == added_up(told[:1])[0] <= 1
    # Another stored report, from words of its own.
    assert added_up(told)[0] > Fraction(7, 4)
    stored = [Randomizer(each).stored([0] * 64, [0] * 64, list(map(str, range(64))), bytes(16)) for each in waves]
    assert (stored[0] == stored[1]).all()
    assert 10 < (stored[0] != stored[2]).sum() < 40


def test_a_wave_that_the_belief_rule_left_out_is_not_drawn_late(plan, tmp_path):
    ledger = Ledger.open(tmp_path / "ledger.json")
    ledger.add(following_plan(plan, "0.9"), ["p1"])
    with pytest.raises(InputError, match="1 person has a report of a later wave"):
        ledger.add(plan, ["p1"])
    ledger.add(plan, ["p2"])


def test_the_ledger_on_the_command_line(plan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan.save("plan.json")
    Path("answers.csv").write_text("id,value\n" + "".join(f"p{k},yes\n" for k in range(30)), encoding="utf-8")
    command = ["perturb", "plan.json", "answers.csv", "--person", "id", "--ledger", "who.json", "--limit", "3"]
    said = CliRunner().invoke(app, [*command, "-o", "one.csv"])
    assert said.exit_code == 0, said.output
    assert "30 people have answered 1 wave: LIP at most 1" in said.output
    again = CliRunner().invoke(app, [*command, "-o", "two.csv"])
    assert again.exit_code == 2
    assert not Path("two.csv").exists()
    told = CliRunner().invoke(app, [*command[:3], "--limit", "3", "-o", "three.csv"])
    assert told.exit_code == 2
    plan2 = replace(plan, wave=2, series=plan.hash)
    plan2.save("plan2.json")
    done = CliRunner().invoke(app, ["perturb", "plan2.json", *command[2:], "-o", "four.csv", "--json"])
    assert json.loads(done.stdout)["ledger"][0]["waves"] == 2
