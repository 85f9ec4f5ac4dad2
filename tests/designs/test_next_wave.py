"""The next wave: what its prior and its set are, that the truth is in the set, and what a jump does."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit import (
    Histogram,
    NotEstimableError,
    Plan,
    Prior,
    Randomizer,
    Sum,
    Survey,
    Tally,
    WeightedSum,
    estimate,
    make_plan,
    next_plan,
)
from tacit.cli.everything import app
from tacit.designs import GroupPrior, next_priors
from tacit.designs.next_wave import _Limits, _projected, _raked_priors
from tacit.estimates import cells_of
from tacit.exact import Floats
from tacit.mechanism import Channel
from tacit.plan import Block, Question
from tacit.tally import Counts
from tacit.task import Matrix

from support.questions import yes_no_questionnaire

THREE = Prior.of({"a": 0.5, "b": 0.3, "c": 0.2})


def counted(plan: Plan, truths: dict[str | None, Floats], n: int, people: np.random.Generator) -> Tally:
    """Reports of n people for each group, drawn from the exact distribution of the reports."""
    groups = {}
    for group in plan.groups:
        table = group.mechanism.table()
        rows = np.array(table.weights, dtype=object) / table.denominator
        chances = np.asarray(truths[group.name]) @ rows.astype(float)
        counts = people.multinomial(n, chances / chances.sum())
        groups[group.name] = Counts(np.flatnonzero(counts), counts[counts > 0])
    return Tally(plan.hash, groups)


def holds(found: GroupPrior, truth: Floats) -> bool:
    box = found.prior_set
    return all(low <= Fraction(float(p)) <= high for low, p, high in zip(box.low, truth, box.high, strict=True))


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(THREE, Histogram(), 1, question="Which?")


def test_the_prior_is_the_estimate_and_the_plan_is_one_wave_later(plan):
    tally = counted(plan, {None: np.array([0.4, 0.35, 0.25])}, 50_000, np.random.default_rng(1))
    later = next_plan(plan, tally)
    rows = estimate(plan, tally, "unbiased").rows
    shares = [row.estimate / 50_000 for row in rows]
    assert later.groups[0].prior.probabilities == pytest.approx(shares, abs=1e-5)
    assert (later.wave, later.series, later.question, later.task) == (2, plan.hash, "Which?", plan.task)
    assert Plan.from_dict(later.to_dict()) == later
    # The series keeps the hash of its first plan, in its first words.
    third = next_plan(later.reworded("Which one?"), counted(later, {None: np.array([0.4, 0.35, 0.25])}, 900, people()))
    assert (third.wave, third.series, third.earlier, third.question) == (3, plan.hash, (), "Which one?")


def people() -> np.random.Generator:
    return np.random.default_rng(7)


def test_sets_hold_the_truth_of_the_next_wave_and_narrower_ones_do_not(plan):
    """Truths drift by about 0.01 between waves; boxes of the drift alone, or of the intervals alone, are left."""
    drawn, kept = np.random.default_rng(3), {"both": 0, "drift alone": 0}
    waves = 60
    for _ in range(waves):
        truth = drawn.dirichlet(THREE.probabilities * 2000)
        tally = counted(plan, {None: truth}, 4000, drawn)
        later = drawn.dirichlet(truth * 2000)
        (found,) = next_priors(plan, tally).priors
        kept["both"] += holds(found, later)
        room = [0.02 * np.sqrt(p * (1 - p)) for p in found.prior.probabilities]
        kept["drift alone"] += bool((np.abs(later - found.prior.probabilities) <= room).all())
    assert kept["both"] >= 58
    assert kept["drift alone"] < 40


def test_after_a_jump_the_alarm_sounds_and_the_set_widens(plan):
    calm = next_priors(plan, counted(plan, {None: THREE.probabilities}, 20_000, people()))
    jump = next_priors(plan, counted(plan, {None: np.array([0.4, 0.3, 0.3])}, 20_000, people()))
    assert (calm.alarm, jump.alarm) == (False, True)
    assert calm.drift < 0.025
    assert jump.seen > 0.1
    assert jump.priors[0].prior_set.radius > 3 * calm.priors[0].prior_set.radius
    stated = next_priors(plan, counted(plan, {None: np.array([0.4, 0.3, 0.3])}, 20_000, people()), drift="0.01")
    assert stated.drift == pytest.approx(0.01)
    assert stated.priors[0].prior_set.radius < jump.priors[0].prior_set.radius / 3


def test_the_promise_is_kept_for_the_whole_set_and_costs_less_than_ldp(plan):
    later = next_plan(plan, counted(plan, {None: THREE.probabilities}, 20_000, people()))
    (group,) = later.groups
    assert max(side.epsilon for side in group.set_levels) <= 1 + 1e-9
    assert group.audit.ldp.epsilon > 1.2
    assert group.certificate.unbiased_variance < group.certificate.ldp_aimed


def test_a_survey_among_many_answers_keeps_proportions_and_its_channel_does_not_tell_them_apart():
    plan = make_plan(THREE, Survey("a"), 1)
    (found,) = next_priors(plan, counted(plan, {None: np.array([0.4, 0.5, 0.1])}, 30_000, people())).priors
    assert found.prior.probability("b") / found.prior.probability("c") == Fraction(3, 2)
    later = next_plan(plan, counted(plan, {None: np.array([0.4, 0.5, 0.1])}, 30_000, people()))
    rows = [tuple(row) for row in later.groups[0].mechanism.table().weights]
    assert rows[1] == rows[2] != rows[0]


def test_sums_of_numbers_between_groups_and_weights():
    prior = Prior.of({0: 5, 5: 3, 10: 2})
    first = make_plan([GroupPrior(name="x", prior=prior, weight=Fraction(2)), GroupPrior(name="y", prior=prior)],
                      WeightedSum(), 1)  # fmt: skip
    truths = {"x": np.array([0.4, 0.4, 0.2]), "y": np.array([0.6, 0.2, 0.2])}
    later = next_plan(first, counted(first, truths, 40_000, people()))
    assert [group.weight for group in later.groups] == [2, 1]
    for group in later.groups:
        assert group.prior.probabilities == pytest.approx(truths[group.name], abs=0.04)
    numbers = make_plan(Prior.of({x: 1 + x % 7 for x in range(60)}), Sum(), 1, between=(0, 60))
    even = np.full(len(numbers.values), 1 / len(numbers.values))
    made = next_plan(numbers, counted(numbers, {None: even}, 40_000, people()))
    assert made.between
    assert made.values == numbers.values


def test_many_answers_get_a_ball_and_keep_the_prior_where_it_is_better():
    prior = Prior.of({x: 1000 // (x + 1) for x in range(60)})
    plan = make_plan(prior, Histogram(), 2)
    held = people().choice(60, size=40_000, p=prior.probabilities)
    tally = Tally.of(plan, Randomizer(plan).randomize(held, words=5))
    (found,) = next_priors(plan, tally).priors
    assert found.prior_set.kind == "ball"
    assert float(found.prior_set.radius) < 0.25
    distance = np.abs(found.prior.probabilities - prior.probabilities).sum() / 2
    assert distance < float(found.prior_set.radius)
    moved = prior.probabilities[::-1]
    held = people().choice(60, size=40_000, p=moved)
    found = next_priors(plan, Tally.of(plan, Randomizer(plan).randomize(held, words=5)))
    assert found.alarm
    assert found.seen > 0.3


def test_groups_without_reports_keep_their_prior_and_zeros_stay_zero():
    zeros = Prior.of({"a": 3, "b": 2, "never": 0})
    plan = make_plan({"x": zeros, "y": zeros}, Histogram(), 1)
    tally = counted(plan, {"x": [0.7, 0.3, 0.0], "y": [0.7, 0.3, 0.0]}, 5000, people())
    found = next_priors(plan, Tally(plan.hash, {"x": tally.groups["x"]}))
    assert found.priors[1].prior == zeros
    assert found.priors[0].prior.weights[2] == 0
    assert any("y" in note for note in found.notes)


def test_ldp_without_a_prior_stays_as_it_is_unless_lip_is_asked_for():
    plan = make_plan(Prior.uniform(["a", "b", "c"]), Histogram(), 1, notion="ldp")
    tally = counted(plan, {None: [0.6, 0.3, 0.1]}, 20_000, people())
    later = next_plan(plan, tally)
    assert later.groups == plan.groups
    assert later.wave == 2
    lip = next_plan(plan, tally, notion="lip")
    assert lip.groups[0].prior_set is not None
    assert lip.groups[0].certificate.unbiased_variance < plan.groups[0].certificate.unbiased_variance / 1.5


def test_what_cannot_be_planned_is_refused(plan):
    with pytest.raises(ValueError, match="no reports"):
        next_plan(plan, Tally(plan.hash, {}))
    with pytest.raises(ValueError, match="confidence"):
        next_plan(plan, Tally.of(plan, [0]), confidence=1)
    capped = make_plan(THREE, Histogram(), 1, ldp_cap="1.5")
    with pytest.raises(ValueError, match="cap"):
        next_plan(capped, Tally.of(capped, [0, 1, 2]))
    many = make_plan(Prior.uniform(40), Sum(), 1)
    with pytest.raises(NotEstimableError, match="--between"):
        next_plan(many, Tally.of(many, [0, 1]))


def test_projection_is_the_nearest_distribution():
    shares = _projected(np.array([0.9, 0.3, -0.2]), np.array([True, True, True]), 0.01)
    assert shares == pytest.approx([0.795, 0.195, 0.01])
    assert _projected(np.array([0.5, 0.5]), np.array([True, False]), 0.001) == pytest.approx([1, 0])


def test_several_questions_are_planned_block_by_block(tmp_path, monkeypatch):
    first = yes_no_questionnaire(2, 1.0, [3, 2, 1, 4])
    truth = np.array([0.25, 0.25, 0.1, 0.4])
    kept = counted(first.block_plans[0], {None: truth}, 30_000, people()).groups[None]
    tally = Tally(first.hash, {"block 1": kept})
    second = next_plan(first, tally)
    assert (second.wave, second.series, second.questions) == (2, first.hash, first.questions)
    (group,) = second.blocks[0].groups
    assert group.prior.probabilities == pytest.approx(truth, abs=0.03)
    assert group.prior_set.kind == "box"
    with pytest.raises(ValueError, match="block 1"):
        next_plan(first, Tally(first.hash, {}))
    monkeypatch.chdir(tmp_path)
    first.save("plan.json")
    (tmp_path / "tally.json").write_text(json.dumps(tally.to_dict()), encoding="utf-8")
    said = CliRunner().invoke(app, ["next", "plan.json", "tally.json", "-o", "plan2.json"])
    assert said.exit_code == 0, said.output
    assert Plan.load("plan2.json").hash == second.hash


def test_what_reports_do_not_determine_stays_as_the_prior_has_it(tmp_path, monkeypatch):
    """Two reports tell a mean and not how often each number is given: the prior is raked to the mean."""
    hours = Question(name="hours", answers=(0, 4, 16), kind="number", task="mean")
    prior = Prior(hours.answers, [5, 3, 2])
    made = make_plan(prior, Matrix([[0], [1 / 4], [1]], ["mean"]), 1)
    channel = Channel.from_weights(prior, [[672, 352], [592, 432], [352, 672]])
    plan = made.changed(groups=(replace(made.groups[0], mechanism=channel, certificate=None),))
    first = Plan((hours,), (Block((hours,), plan.task, plan.groups),))
    truth = np.array([0.4, 0.3, 0.3])
    tally = Tally(first.hash, counted(plan, {None: truth}, 40_000, people()).groups)
    with pytest.raises(NotEstimableError):
        next_priors(plan, Tally(plan.hash, tally.groups))
    second = next_plan(first, tally)
    (group,) = second.blocks[0].groups
    shares = group.prior.probabilities
    assert shares @ [0, 4, 16] == pytest.approx(truth @ [0, 4, 16], abs=0.15)  # 4.4 before
    # Tilted by the number: so log q/p is linear in it.
    ratio = np.log(shares / [0.5, 0.3, 0.2])
    assert (ratio[1] - ratio[0]) * 4 == pytest.approx(ratio[2] - ratio[0], abs=1e-3)
    assert group.prior_set.kind == "ball"
    assert np.abs(shares - truth).sum() / 2 < group.prior_set.radius
    assert "do not determine" in second.notes[0]
    monkeypatch.chdir(tmp_path)
    first.save("plan.json")
    (tmp_path / "tally.json").write_text(json.dumps(tally.to_dict()), encoding="utf-8")
    said = CliRunner().invoke(app, ["next", "plan.json", "tally.json", "-o", "plan2.json"])
    assert said.exit_code == 0, said.output
    assert "how answers are related" in " ".join(said.output.split())
    assert Plan.load("plan2.json").hash == second.hash


def test_raking_keeps_relations_and_reaches_the_margins():
    first = yes_no_questionnaire(3, 2.0, [9, 2, 3, 4, 2, 5, 1, 8])
    (block,) = first.blocks
    prior = block.groups[0].prior.probabilities.reshape(2, 2, 2)
    truth = prior * np.array([1.6, 1])[:, None, None] * np.array([1, 1.3])[None, :, None]
    truth /= truth.sum()
    kept = counted(first.block_plans[0], {None: truth.ravel()}, 10**6, people()).groups[None]
    cells = cells_of(first, Tally(first.hash, {"block 1": kept}))
    made = _raked_priors(first.block_plans[0], cells, "q1, q2, q3", _Limits.of(drift=0, least_drift=0)).priors[0]
    q = made.prior.probabilities.reshape(2, 2, 2)
    assert q == pytest.approx(truth, abs=0.01)
    assert np.abs(prior - truth).sum() / 2 > 0.08  # The old prior is far off.
    odds = [each[0, 0] * each[1, 1] / each[0, 1] / each[1, 0] for each in (prior[:, :, 0], q[:, :, 0])]
    assert odds[0] == pytest.approx(odds[1], rel=1e-3)
    # Without drift the ball holds what noise leaves open, and not the old prior.
    assert np.abs(q - truth).sum() / 2 < made.prior_set.radius < np.abs(prior - truth).sum() / 2


def test_next_on_the_command_line(plan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan.save("plan.json")
    tally = counted(plan, {None: THREE.probabilities}, 9000, people())
    (tmp_path / "tally.json").write_text(json.dumps(tally.to_dict()), encoding="utf-8")
    run = CliRunner().invoke
    made = run(app, ["next", "plan.json", "tally.json", "-o", "plan2.json", "--json"])
    assert made.exit_code == 0, made.output
    facts = json.loads(made.stdout)
    assert (facts["wave"], facts["series"], facts["alarm"]) == (2, plan.hash, False)
    assert Plan.load("plan2.json").hash == facts["plan"]
    said = run(app, ["next", "plan.json", "tally.json", "-o", "plan3.json", "--drift", "0.05"])
    assert "Wave 2." in said.output
    assert "allowed for: 0.050" in said.output
