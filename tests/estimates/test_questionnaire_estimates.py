"""Estimates of several questions: unbiased by enumeration, and intervals, tables and tests that hold."""

import math

import numpy as np
import pytest

from tacit.estimates import crosstab, estimate_questions
from tacit.plan import CHANCES, Plan, PlanError, Question, block_name
from tacit.randomize import RecordRandomizer, SeededWords
from tacit.tally import Counts, Tally

from support.questions import block_of, margins_task, yes_no_questionnaire

DAYS = Question(name="days", answers=(0, 5, 30), kind="number", task="mean")


def sent(plan: Plan, answers: dict, seed: int) -> Tally:
    """The tally of simulated devices."""
    blocks, reports = RecordRandomizer(plan).randomize(answers, words=SeededWords(seed))
    return Tally.of(plan, reports, [block_name(None, number + 1) for number in blocks.tolist()])


def two_blocks() -> Plan:
    yes_no = [Question(name=name, answers=("yes", "no"), kind="yes-no") for name in ("a", "b", "c")]
    first = block_of(yes_no[:2], [1, 1, 1, 1], 1, CHANCES // 2)
    return Plan((*yes_no, DAYS), (first, block_of([yes_no[2], DAYS], [1, 1, 1, 2, 2, 2], 1, CHANCES // 2)))


def test_every_margin_and_cell_is_unbiased_for_every_truth():
    """For each record x, the expected estimate over the reports of x is x: whatever the prior, here a related one."""
    plan = yes_no_questionnaire(3, epsilon=1, weights=[30, 5, 7, 3, 6, 9, 4, 36])
    (block,) = plan.blocks
    mechanism = block.groups[0].mechanism
    q = np.array([[float(mechanism.likelihood(x, y)) for y in range(mechanism.n_possible_reports)] for x in range(8)])
    for task in (block.margin("q2"), block.cross("q1", "q3")):
        rows = mechanism.pseudo_values(task, np.arange(mechanism.n_possible_reports))
        np.testing.assert_allclose(q @ rows, task.g(block.groups[0].prior), atol=1e-9)
    wrong = mechanism.pseudo_values(block.margin("q1"), np.arange(mechanism.n_possible_reports))
    assert not np.allclose(q @ wrong, block.margin("q2").g(block.groups[0].prior), atol=1e-2)


def test_totals_are_those_of_all_respondents():
    plan = two_blocks()
    n = 4000
    answers = {"a": ["yes"] * n, "b": ["no"] * n, "c": ["yes"] * n, "days": [15.0] * n}
    tally = sent(plan, answers, 3)
    found = estimate_questions(plan, tally)
    assert found["a"].total_weight == tally.n_reports == n
    assert found["a"].n_reports + found["days"].n_reports == n
    for name, truth in (("a", n), ("days", 15.0 * n)):
        row = found[name].rows[0]
        assert abs(row.estimate - truth) < 4 * row.standard_error
        assert row.low <= truth <= row.high
    assert found["days"].mean.estimate == pytest.approx(15, abs=2)


def test_intervals_cover_the_population_though_the_prior_took_the_answers_for_independent():
    """Margins and a cell of related answers, 120 samples; intervals without the sampling error would not cover."""
    plan, rng, n = two_blocks(), np.random.default_rng(5), 1500
    inside, narrow = np.zeros(3), 0
    for seed in range(120):
        a = rng.random(n) < 0.3
        b = np.where(a, rng.random(n) < 0.8, rng.random(n) < 0.2)
        spelled = {name: np.where(each, "yes", "no") for name, each in (("a", a), ("b", b), ("c", a))}
        tally = sent(plan, {**spelled, "days": rng.choice([0.0, 10.0, 30.0], n)}, seed)
        found = estimate_questions(plan, tally, questions=["a", "days"])
        share, mean = (found[name].per_respondent(found[name].rows[0]) for name in ("a", "days"))
        cell = crosstab(plan, tally, "a", "b").estimate
        both = cell.per_respondent(cell.rows[0])
        inside += [share.low <= 0.3 <= share.high, mean.low <= 40 / 3 <= mean.high, both.low <= 0.24 <= both.high]
        narrow += abs(share.estimate - 0.3) < 0.5 * share.margin
    assert (inside / 120 > 0.885).all(), inside / 120
    assert narrow / 120 < 0.82, "an interval of half the width is rejected"


def test_the_test_of_independence_holds_and_finds_what_is_related():
    plan, rng, n = yes_no_questionnaire(2, epsilon=1), np.random.default_rng(7), 800
    rejected = {"independent": 0, "related": 0}
    odds = 0
    for seed in range(80):
        a = rng.random(n) < 0.4
        for name, b in (("independent", rng.random(n) < 0.3), ("related", np.where(a, True, rng.random(n) < 0.3))):
            spelled = {"q1": np.where(a, "yes", "no"), "q2": np.where(b, "yes", "no")}
            found = crosstab(plan, sent(plan, spelled, seed), "q1", "q2")
            rejected[name] += found.p_value < 0.05
            if name == "independent" and not math.isnan(found.association.estimate):
                odds += found.association.low <= 1 <= found.association.high
    assert rejected["independent"] <= 11  # 80 × .05, and 3.5 standard deviations
    assert rejected["related"] >= 76
    assert odds >= 69


def test_the_test_of_independence_holds_for_few_reports_of_rare_answers():
    """Found by an attack: with the covariance of the reports, more than a third of these tables were rejected."""
    four = tuple(Question(name=name, answers=("a", "b", "c", "d")) for name in ("x", "y"))
    plan, rng = Plan(four, (block_of(four, [1] * 16, 4),)), np.random.default_rng(3)
    (group,) = plan.blocks[0].groups
    margin = np.array([0.7, 0.18, 0.08, 0.04])
    chance = np.outer(margin, margin).ravel() @ group.mechanism.matrix / group.mechanism.matrix[0].sum()
    rejected = wrongly = 0
    for _ in range(60):
        counts = rng.multinomial(200, chance)
        kept = Counts(np.flatnonzero(counts), counts[counts > 0])
        rejected += crosstab(plan, Tally(plan.hash, {plan.groups[0].name: kept}), "x", "y").p_value < 0.05
        r = group.mechanism.pseudo_values(plan.blocks[0].cross("x", "y"), np.arange(len(counts)))
        share, by_report = counts @ r / 200, r - counts @ r / 200
        wrongly += wald(share.reshape(4, 4), (by_report * counts[:, None]).T @ by_report / 200**2) > 16.92
    assert rejected <= 9
    assert wrongly > 15


def wald(share, covariance):
    """The wrong statistic, of nine degrees: with the covariance of the reports."""
    a, b = share.sum(axis=1), share.sum(axis=0)
    gradient = np.eye(16) - np.kron(np.eye(4), np.outer(b, np.ones(4))) - np.kron(np.outer(a, np.ones(4)), np.eye(4))
    kept = np.arange(16).reshape(4, 4)[:3, :3].ravel()
    away = (share - np.outer(a, b)).ravel()[kept]
    return away @ np.linalg.solve((gradient @ covariance @ gradient.T)[np.ix_(kept, kept)], away)


def test_a_correlation_of_two_numbers():
    numbers = [Question(name=name, answers=(0, 1, 2), kind="number", task="mean") for name in ("x", "y")]
    plan = Plan(tuple(numbers), (block_of(numbers, [1] * 9, 3),))
    rng = np.random.default_rng(11)
    x = rng.choice([0.0, 1.0, 2.0], 6000)
    y = np.where(rng.random(6000) < 0.6, x, rng.choice([0.0, 1.0, 2.0], 6000))
    found = crosstab(plan, sent(plan, {"x": x, "y": y}, 1), "x", "y")
    assert found.association.kind == "correlation"
    assert found.association.low < 0.6 < found.association.high
    assert found.association.low > 0.3


def test_questions_of_different_blocks_have_no_table():
    plan = two_blocks()
    with pytest.raises(PlanError, match="--cross a,c"):
        crosstab(plan, Tally(plan.hash, {"block 1": Counts.of([0])}), "a", "c")
    with pytest.raises(PlanError, match="no question 'd'"):
        crosstab(plan, Tally(plan.hash, {"block 1": Counts.of([0])}), "a", "d")


def test_participants_are_refused_with_several_blocks():
    plan = two_blocks()
    with pytest.raises(ValueError, match="by chance"):
        estimate_questions(plan, Tally(plan.hash, {}), scope="participants")


def test_questions_without_reports_are_left_out_or_named():
    plan = two_blocks()
    tally = Tally(plan.hash, {"block 1": Counts.of([0, 1])})
    assert set(estimate_questions(plan, tally)) == {"a", "b"}
    with pytest.raises(ValueError, match="'c'"):
        estimate_questions(plan, tally, questions=["c"])


def test_odds_ratios_of_rare_cells_cover():
    """Found by an attack: 90% with the first order of the variance alone."""
    plan, rng, n = yes_no_questionnaire(2, epsilon=2, weights=[6, 24, 14, 56]), np.random.default_rng(9), 200
    truth, covered, related = np.array([0.3, 0.05, 0.05, 0.6]), 0, 0
    for seed in range(300):
        cell = rng.choice(4, n, p=truth)
        spelled = {"q1": np.where(cell < 2, "yes", "no"), "q2": np.where(cell % 2 == 0, "yes", "no")}
        found = crosstab(plan, sent(plan, spelled, seed), "q1", "q2").association
        covered += found.low <= 72 <= found.high
        related += found.low > 1
    assert covered >= 274  # 95% of 300, less three standard deviations.
    assert related > 285, "answers that are not related at all are ruled out"


def test_the_task_of_margins_names_its_questions():
    assert margins_task([DAYS]).names[0] == "days: 0"
