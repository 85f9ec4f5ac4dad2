from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import accumulate, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import chdtrc

from tacit import Channel, Histogram, Prior, Sum, Survey, WeightedSum, audit, mse, satisfies
from tacit.designs import optimal_binary, repaired_response
from tacit.estimates import check_prior
from tacit.exact import at_most_exp, exp_below
from tacit.files.columns import InputError
from tacit.mechanism.protocol import pearson
from tacit.personal.contract import (
    PersonalPlan,
    channels,
    largest_bound,
    perturb,
    prior_rows,
    reports_for,
    stated_between,
)
from tacit.personal.estimates import PersonalTally, check_priors, estimate
from tacit.personal.files import load_tally, quantise, save_tally
from tacit.plan import PlanError
from tacit.randomize.randomness import SeededWords

from support import places

GOLDEN = places.GOLDEN / "personal_plan.json"
BINARY = PersonalPlan.of(Survey("yes"), ["no", "yes"], 1, 1000)
NUMBERS = (1, 2, 4)
BUDGETS = ["0.05", "0.3", "1", "2.5", "5"]


def random_priors(d: int, total: int, size: int, seed: int = 3) -> np.ndarray:
    """Priors of all kinds: flat, peaked, with zeros, and the extremes 1/D and (D−1)/D."""
    rng = np.random.default_rng(seed)
    rows = [rng.multinomial(total, rng.dirichlet(np.full(d, alpha))) for alpha in rng.choice([0.1, 1, 10], size)]
    extreme = np.zeros((3, d), dtype=int)
    extreme[0, 0], extreme[1, :2], extreme[2, -2:] = total, (1, total - 1), (total - 1, 1)
    return np.concatenate([np.array(rows), extreme]).astype(np.int64)


# -- privacy and sampling, exactly -------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", BUDGETS)
@pytest.mark.parametrize(("d", "total", "bits"), [(2, 10_000, 32), (2, 1000, 16), (3, 1000, 32), (6, 360, 20)])
def test_every_rounded_channel_keeps_the_promise_exactly(d, total, bits, epsilon):
    plan = PersonalPlan.of(Histogram(), list(range(d)), epsilon, total, word_bits=bits)
    for row in random_priors(d, total, 40):
        channel = plan.channel(row)
        assert channel.denominator == 2**bits
        assert satisfies(channel, "lip", epsilon)
        assert not audit(channel).exposed


def test_rounding_down_instead_breaks_the_promise():
    """The named wrong rule: the common part rounded down or to the nearest integer."""
    kept = {"down": 0, "nearest": 0}
    rows = [row for row in random_priors(3, 1000, 60) if (row > 0).sum() > 1]
    plan = PersonalPlan.of(Histogram(), [0, 1, 2], 1, 1000, word_bits=16)
    a, b = plan.bound.as_integer_ratio()
    for row in rows:
        m = [max(b * int(n), b * 1000 - a * int(n)) if n else 0 for n in row]
        whole = (a - b) * 1000 + sum(m)
        for name, rounded in (("down", 0), ("nearest", whole // 2)):
            common = [(2**16 * part + rounded) // whole for part in m]
            truth = 2**16 - sum(common)
            cells = [[c + truth * (k == x) for k, c in enumerate(common)] for x in range(3)]
            prior = Prior(plan.values, row.tolist())
            kept[name] += satisfies(Channel.from_weights(prior, cells), "lip", Fraction(1))
    assert kept["down"] < len(rows) / 2
    assert kept["nearest"] < len(rows)


@pytest.mark.parametrize("epsilon", BUDGETS)
def test_arrays_hold_the_integers_of_the_plain_rule_and_lose_little_to_the_designs(epsilon):
    """The designs promise for the rounded prior alone; a finer resolution loses less."""
    most = {"0.05": 2e-5, "0.3": 1e-4, "1": 1e-3, "2.5": 1e-2, "5": 0.1}[epsilon]
    for d, designed in ((2, optimal_binary), (4, repaired_response)):
        plan = PersonalPlan.of(Histogram(), list(range(d)), epsilon, 50_000)
        rows = random_priors(d, 50_000, 20)
        common, truth = channels(plan, np.ascontiguousarray(rows.T))
        for i, row in enumerate(rows):
            possible = np.flatnonzero(row)
            expected = np.array(plan.rows(row))[possible]
            assert (expected == common[:, i] + truth[i] * np.eye(d, dtype=int)[possible]).all()
            prior = Prior(plan.values, row.tolist())
            best = mse(designed(prior, epsilon), Histogram())
            found = mse(plan.channel(row), Histogram())
            assert best * (1 - 2e-5) - 1e-9 <= found <= best * (1 + most) + 1e-9


def worst_lift(plan: PersonalPlan, units: list[int], stated: list[Fraction]) -> Fraction:
    """The largest factor by which a report changes a belief that was stated, from the definition; 0 is no belief."""
    rows, worst = plan.rows(units), Fraction(1)
    for y in range(len(stated)):
        chance = sum(p * row[y] for p, row in zip(stated, rows, strict=True))
        lifts = [Fraction(row[y]) / chance for p, row in zip(stated, rows, strict=True) if p and chance]
        worst = max([worst, *lifts, *(1 / lift for lift in lifts)])
    return worst


#: How much of a small probability is stated, and what else: alone, beside many as small, and beside larger ones.
STATED = [
    [1e-12, 1 - 1e-12],
    [1 - 1e-300, 1e-300],
    [0.10004999, 0.89995001],
    [1e-12, 0.4, 0.6 - 1e-12],
    [*[1e-9] * 40, 0.3, 0.7 - 40e-9],
    [*[0.0000999] * 30, 1 - 30 * 0.0000999],
    [0.0, 0.25, 0.75],
]


@pytest.mark.parametrize("epsilon", [*BUDGETS, "10"])
@pytest.mark.parametrize("stated", STATED, ids=range(len(STATED)))
def test_the_promise_is_for_the_prior_that_was_stated(epsilon, stated):
    """A stated 10⁻¹² is rounded to 1/10,000. A promise for the rounded prior would not be one for the stated."""
    plan = PersonalPlan.of(Histogram(), list(range(len(stated))), epsilon, 10_000)
    units = quantise(plan, [stated])[0].tolist()
    sure = [Fraction(p) / sum(map(Fraction, stated)) for p in stated]
    assert at_most_exp(worst_lift(plan, units, sure), Fraction(epsilon))
    assert at_most_exp(worst_lift(plan, units, [Fraction(n, 10_000) for n in units]), Fraction(epsilon))


def test_a_promise_for_the_rounded_prior_alone_is_broken_by_a_stated_one():
    """The named wrong rule, which was ours: e^19.2 instead of e^10."""
    prior = Prior([0, 1], [1, 9_999])
    rows = optimal_binary(prior, 10).weights.tolist()
    rare = Fraction(1, 10**12)
    chance = rare * rows[0][0] + (1 - rare) * rows[1][0]
    assert rows[0][0] / chance > exp_below(Fraction(19))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_stated_prior_lies_within_the_bounds_of_its_integers(data):
    resolution = data.draw(st.sampled_from([12, 100, 10_000]))
    logs = data.draw(st.lists(st.floats(-14, 0), min_size=2, max_size=12))
    sizes = [10.0**power for power in logs]
    stated = np.array([[size / sum(sizes) for size in sizes]])
    plan = PersonalPlan.of(Histogram(), list(range(len(sizes))), 1, resolution)
    low, high = (part[:, 0] for part in stated_between(quantise(plan, stated).T, resolution))
    exact = [Fraction(float(p)) for p in stated[0]]
    for p, least, most in zip(exact, low.tolist(), high.tolist(), strict=True):
        assert least <= resolution * p / sum(exact) <= most


@pytest.mark.parametrize(("d", "bits"), [(2, 10), (3, 12), (5, 13)])
def test_every_word_is_enumerated_and_counts_equal_the_weights(d, bits):
    plan = PersonalPlan.of(Histogram(), list(range(d)), 1, 60, word_bits=bits)
    every = np.arange(2**bits, dtype=np.uint32)
    for row in [*random_priors(d, 60, 6), np.eye(d, dtype=int)[1] * 60]:
        for x, weights in enumerate(plan.rows(row)):
            reports = reports_for(plan, np.tile(row, (len(every), 1)), np.full(len(every), x), every)
            assert np.bincount(reports, minlength=d).tolist() == weights


def test_an_impossible_answer_is_reported_from_the_marginal():
    """To within one word of 2^32; a wrong rule (as if they held the first value) is far from it."""
    plan = PersonalPlan.of(Histogram(), [0, 1, 2], 1, 1000)
    rows = plan.rows([300, 700, 0])
    marginal = [Fraction(300 * first + 700 * second, 1000) for first, second, _ in zip(*rows[:2], [0] * 3, strict=True)]
    assert all(abs(cell - exact) < 1 for cell, exact in zip(rows[2], marginal, strict=True))
    assert abs(rows[0][0] - marginal[0]) > 2**28
    assert audit(plan.channel([300, 700, 0])).outside == (2,)


def test_arrays_and_the_sampler_of_tables_agree_word_for_word():
    plan = PersonalPlan.of(Sum(), NUMBERS, 2, 1000)
    for row, x in product(random_priors(3, 1000, 30), range(3)):
        edges = list(accumulate(plan.rows(row)[x]))[:-1]
        near = [edge + shift for edge in edges for shift in (-1, 0, 1)]
        words = [word for word in (0, 2**32 - 1, *near) if 0 <= word < 2**32]
        sampler = Channel.sampler([plan.channel(row)])
        expected = [sampler.report_for(x, word) for word in words]
        many = np.tile(row, (len(words), 1)), np.full(len(words), x), np.array(words, dtype=np.uint32)
        assert reports_for(plan, *many).tolist() == expected


def test_words_come_from_the_source_and_are_fresh_by_default():
    rows = random_priors(3, 1000, 300)
    plan, answers = PersonalPlan.of(Sum(), NUMBERS, 2, 1000), np.arange(len(rows)) % 3
    drawn = SeededWords(5).draw(len(rows), 32)
    assert (perturb(plan, rows, answers, SeededWords(5)) == reports_for(plan, rows, answers, drawn)).all()
    assert (perturb(plan, rows, answers) != perturb(plan, rows, answers)).any()


# -- the contract ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "total"), [("0.05", 1000), ("1", 10_000), ("5", 1000), ("0.6931471805599453", 7)])
def test_the_bound_is_the_largest_fraction_that_fits(epsilon, total):
    exact = Fraction(epsilon)
    bound, below = largest_bound(exact, total), exp_below(exact)
    most = (2**31 - 1) // total // (int(below) + 1)
    assert at_most_exp(bound, exact)
    assert bound.denominator <= most
    # Its right neighbour a'/b' in the Farey sequence, with a'b − ab' = 1 and b' as large as fits, lies above.
    b = -pow(bound.numerator, -1, bound.denominator) % bound.denominator
    b += (most - b) // bound.denominator * bound.denominator
    right = Fraction(b * bound.numerator + 1, b * bound.denominator)
    assert right.denominator <= most
    assert right > below


def test_the_golden_plan_is_read_and_written_word_for_word():
    plan = PersonalPlan.load(GOLDEN)
    made = PersonalPlan.of(Survey(("c", "b")), ["a", "b", "c"], "0.7", 1000, question="Which of the three?")
    assert made == plan
    assert json.dumps(made.to_dict(), ensure_ascii=False, indent=1) + "\n" == GOLDEN.read_text(encoding="utf-8")
    data = json.loads(GOLDEN.read_text(encoding="utf-8"))
    for change in ({"epsilon": "0.71"}, {"resolution": 1001}, {"bound": "3"}, {"rule": "other"}, {"domain": None}):
        with pytest.raises(PlanError):
            PersonalPlan.from_dict(data | change)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 0}, "too small"),
        ({"epsilon": 30}, "too large"),
        ({"epsilon": 1, "resolution": 1}, "resolution"),
        ({"epsilon": 1, "word_bits": 33}, "word_bits"),
        ({"epsilon": "1e-9"}, "too small"),
    ],
)
def test_plans_out_of_range_are_refused(options, words):
    with pytest.raises(PlanError, match=words):
        PersonalPlan.of(Survey("yes"), ["no", "yes"], **options)


@pytest.mark.parametrize("priors", [[[500, 501]], [[-1, 1001]], [1001], [[1000]], [[0.5, 0.5]], [[2**62, 2**62]]])
def test_bad_priors_are_refused_by_row(priors):
    with pytest.raises((ValueError, TypeError), match=r"[Pp]rior"):
        prior_rows(BINARY, np.array(priors))


# -- tallies and estimates ---------------------------------------------------------------------------------------------


def test_tallies_of_any_split_and_order_are_the_same_and_survive_a_file(tmp_path):
    rng = np.random.default_rng(2)
    for plan in (BINARY, PersonalPlan.of(WeightedSum(), range(9), 1, 1000)):
        d = len(plan.values)
        rows = random_priors(d, 1000, 20)[rng.integers(0, 23, 500)]
        sent = rng.integers(-1, d + 1, 500)
        weights = rng.normal(size=500) if d == 9 else None
        parts = [
            PersonalTally.of(plan, rows[p], sent[p], None if weights is None else weights[p])
            for p in np.split(rng.permutation(500), [40, 41, 300])
        ]
        whole = PersonalTally.of(plan, rows, sent, weights)
        a, b, c, e = parts
        assert a.merge(b).merge(c).merge(e) == whole == e.merge(c.merge(b.merge(a)))
        assert whole.n_reports + whole.refused == 500
        assert whole.refused >= ((sent < 0) | (sent >= d)).sum()
        save_tally(whole, tmp_path / "tally.json")
        assert load_tally(plan, tmp_path / "tally.json") == whole
        with pytest.raises(InputError, match="not a tally of this plan"):
            load_tally(PersonalPlan.of(plan.task, plan.values, 2, 1000), tmp_path / "tally.json")


@pytest.mark.parametrize("task", [Survey(1), Sum(), Histogram()], ids=lambda task: type(task).__name__)
def test_the_estimates_are_right_by_enumeration(task):
    """All answers and reports of two people with different priors, one value impossible for the second."""
    plan = PersonalPlan.of(task, NUMBERS, 1, 20)
    people = np.array([[3, 5, 12], [6, 0, 14]])
    matrices = [plan.channel(row).matrix for row in people]
    components = plan.g.shape[1]
    moments = {name: np.zeros((3, components)) for name in ("mmse", "unbiased", "wrong")}
    tilted = people * [3, 1, 1] / (people * [3, 1, 1]).sum(axis=1, keepdims=True)
    for reports in product(range(3), repeat=2):
        if reports[1] == 1:
            continue
        tally = PersonalTally.of(plan, people, reports)
        results = {name: estimate(plan, tally, name, scope="participants") for name in ("mmse", "unbiased")}
        for answers in product(range(3), repeat=2):
            chance = math.prod(matrices[i][answers[i], reports[i]] for i in range(2))
            for name, truth in (("mmse", people / 20), ("unbiased", people / 20), ("wrong", tilted)):
                p = chance * math.prod(truth[i][answers[i]] for i in range(2))
                rows = results["unbiased" if name == "wrong" else name].rows
                error = np.array([row.estimate for row in rows]) - plan.g[list(answers)].sum(axis=0)
                moments[name] += p * np.array([error, error**2, [row.standard_error**2 for row in rows]])
    for name, (bias, square, claimed) in moments.items():
        assert np.abs(bias).max() < 1e-9, name
        # The unbiased variance is cut at zero for some of the reports.
        assert (claimed >= square - 1e-9).all()
        assert np.allclose(claimed, square, rtol=1e-9 if name == "mmse" else 0.25), name
    formula = [mse(plan.channel(row), task) for row in people]
    assert moments["mmse"][1].sum() == pytest.approx(sum(formula), abs=1e-12)


def test_weights_and_offsets_of_people_count():
    plan = PersonalPlan.of(WeightedSum(), NUMBERS, 1, 20)
    people, reports = np.array([[3, 5, 12], [3, 5, 12], [6, 0, 14]]), [0, 2, 2]
    alone = [estimate(plan, PersonalTally.of(plan, people[[i]], [reports[i]])).rows[0] for i in range(3)]
    weights, offsets = [2.0, -1.0, 0.5], [0.0, 3.0, 1.0]
    row = estimate(plan, PersonalTally.of(plan, people, reports, weights, offsets)).rows[0]
    parts = list(zip(weights, offsets, alone, strict=True))
    assert row.estimate == pytest.approx(sum(weight * one.estimate + offset for weight, offset, one in parts))
    assert row.standard_error**2 == pytest.approx(sum((weight * one.standard_error) ** 2 for weight, _, one in parts))


def test_few_people_stand_for_a_population_with_intervals_that_hold():
    """Exactly, by all reports of four people: 87.5% where nothing but their reports shows the spread of the answers."""
    plan, people = PersonalPlan.of(Sum(), [0, 10], 5, 100), np.array([[80, 20], [99, 1], [99, 1], [95, 5]])
    matrices = [plan.channel(row).matrix for row in people]
    held, narrow = 0.0, 0.0
    for reports in product(range(2), repeat=4):
        chance = math.prod(m[:, sent].sum() / m.sum() for m, sent in zip(matrices, reports, strict=True))
        (row,) = estimate(plan, PersonalTally.of(plan, people, reports)).rows
        held += chance * (row.low <= 20 <= row.high)
        narrow += chance * (abs(row.estimate - 20) <= 1.96 * row.standard_error)
    assert held > 0.95
    assert narrow < 0.9


def test_influence_is_what_one_report_moves_at_most():
    plan = PersonalPlan.of(Sum(), NUMBERS, 1, 20)
    people = np.array([[3, 5, 12], [6, 0, 14], [18, 1, 1]])
    for name in ("mmse", "unbiased"):
        moved = []
        for i, row in enumerate(people):
            honest = [0, 0, 0]
            totals = []
            for forged in np.flatnonzero(row):
                sent = [*honest[:i], forged, *honest[i + 1 :]]
                totals.append(estimate(plan, PersonalTally.of(plan, people, sent), name).rows[0].estimate)
            moved.append(max(totals) - min(totals))
        assert estimate(plan, PersonalTally.of(plan, people, [0, 0, 0]), name).influence == pytest.approx(max(moved))


# -- coverage ----------------------------------------------------------------------------------------------------------


def simulate(
    plan: PersonalPlan, priors: np.ndarray, truth: np.ndarray, each: int, rounds: int = 1000
) -> dict[str, Any]:
    """Coverage of the 95% intervals and how often the checks fire: ours, and Pearson's with the average λ."""
    rng, d = np.random.default_rng(7), len(plan.values)
    matrices = np.array([plan.channel(row).matrix for row in priors])
    average = np.einsum("ix,ixk->k", priors / plan.resolution, matrices) / len(priors)
    hits: dict[str, list[list[bool]]] = {"mmse": [], "unbiased": []}
    ours = averaged = alarms = 0
    for _ in range(rounds):
        held = rng.multinomial(each, truth)
        sent = rng.multinomial(held, matrices).sum(axis=1)
        reports = np.repeat(np.tile(np.arange(d), len(priors)), sent.ravel())
        tally, total = PersonalTally.of(plan, np.repeat(priors, each, axis=0), reports), held.sum(axis=0) @ plan.g
        for name, inside in hits.items():
            result = estimate(plan, tally, name, scope="participants")
            inside.append([row.low <= true <= row.high for row, true in zip(result.rows, total, strict=True)])
        check = result.prior_check[0]
        alarms += check.contradicted
        # The statistics themselves, at 1%.
        ours += chdtrc(check.degrees, check.statistic) < 0.01
        averaged += chdtrc(*reversed(pearson(sent.sum(axis=0).astype(float), average))) < 0.01
    covered = {name: np.mean(inside, axis=0) for name, inside in hits.items()}
    return covered | {"alarms": alarms / rounds, "ours": ours / rounds, "pearson": averaged / rounds}


SECOND = np.arange(20, 1000, 60)
CASES = {
    "binary": (BINARY, np.stack([1000 - SECOND, SECOND], axis=1)),
    "histogram": (PersonalPlan.of(Histogram(), NUMBERS, 2, 1000), random_priors(3, 1000, 15)),
}


@pytest.mark.parametrize("case", CASES)
def test_intervals_cover_95_per_cent_under_the_right_priors_and_the_check_is_calibrated(case):
    plan, priors = CASES[case]
    found = simulate(plan, priors, priors / plan.resolution, each=30)
    for name in ("mmse", "unbiased"):
        # Three standard errors.
        assert (found[name] >= 0.929).all()
        # Half a step is added to the intervals of counts that do not use the priors.
        assert (found[name] <= (0.971 if name == "mmse" else 0.985)).all()
    # At level 1%; Pearson's statistic is too small because people differ.
    assert 0.003 < found["ours"] < 0.02
    assert found["alarms"] < 0.01
    assert found["pearson"] < found["ours"]


def test_intervals_hold_for_few_people_and_a_large_budget():
    """ε = 4: by the standard error alone some 86% of the intervals held the truth."""
    plan, rng = PersonalPlan.of(Survey("yes"), ["no", "yes"], 4, 1000), np.random.default_rng(2)
    people = 30
    held, normal, inside = [], [], []
    for _ in range(400):
        priors = rng.integers(1, 200, people)
        rows = np.stack([1000 - priors, priors], axis=1)
        answers = rng.random(people) < priors / 1000
        chances = np.array([plan.channel(row).matrix[int(x), 1] for row, x in zip(rows, answers, strict=True)])
        reports = (rng.random(people) < chances).astype(int)
        (row,) = estimate(plan, PersonalTally.of(plan, rows, reports), scope="participants").rows
        held.append(row.low <= answers.sum() <= row.high)
        normal.append(abs(row.estimate - answers.sum()) <= 1.96 * row.standard_error)
        inside.append(0 <= row.low <= row.high <= people)
    assert np.mean(held) > 0.94
    assert np.mean(normal) < 0.92
    assert all(inside)


@pytest.mark.parametrize("case", CASES)
def test_unbiased_intervals_cover_95_per_cent_under_wrong_priors_and_the_check_fires(case):
    plan, priors = CASES[case]
    tilted = priors * np.linspace(3, 1, len(plan.values))
    found = simulate(plan, priors, tilted / tilted.sum(axis=1, keepdims=True), each=150, rounds=800)
    # Three standard errors.
    assert (found["unbiased"] >= 0.927).all()
    assert (found["unbiased"] <= 0.985).all()
    assert found["alarms"] > 0.99
    # The named wrong answer that the check is for.
    assert found["mmse"].min() < 0.5


def test_the_check_sees_priors_that_are_wrong_about_everybody_but_right_in_the_sum():
    priors = np.array([[900, 100], [100, 900]])
    found = simulate(BINARY, priors, np.full((2, 2), 0.5), each=1000, rounds=100)
    assert found["alarms"] > 0.99
    assert found["pearson"] < 0.05


def test_the_check_with_one_prior_for_all_is_pearsons():
    times = np.array([[300.0, 320.0, 380.0]])
    plan = PersonalPlan.of(Histogram(), NUMBERS, 1, 1000)
    row = np.array([[200, 300, 500]])
    ours = check_priors(plan, row, times)
    marginal = plan.channel(row[0]).marginal
    theirs = check_prior(None, *pearson(times[0], marginal), float(times[0].sum()))
    assert (ours.statistic, ours.degrees) == (pytest.approx(theirs.statistic), theirs.degrees)
