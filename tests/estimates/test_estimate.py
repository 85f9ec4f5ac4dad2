from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.special import chdtrc

from studies.baselines import k_ary_response
from tacit import Channel, Histogram, Prior, Sum, Survey, WeightedSum, make_plan
from tacit.designs import optimal_binary, repaired_response
from tacit.estimates import NotEstimableError, check_prior, estimate
from tacit.estimates._cells import Cell
from tacit.mechanism.protocol import pearson
from tacit.mechanism.table import _reading as table_reading
from tacit.mechanism.table._reading import maximum_likelihood
from tacit.plan import Group, Plan
from tacit.randomize import Randomizer, SeededWords
from tacit.show.sentences import forged, significant
from tacit.tally import Counts, Tally

PRIOR = Prior.of({1: 0.15, 2: 0.25, 4: 0.6})
TRUTH = np.array([0.25, 0.25, 0.5])
TASKS = [Survey(1), Sum(), WeightedSum(), Histogram()]
EPSILON = Fraction(1)
SHARES = (0.1, 0.2, 0.3, 0.4)
#: The likelihood is climbed for every round, which takes its time.
ROUNDS, LEAST = {"mle": 80, "unbiased": 160, "mmse": 160}, {"mle": 0.877, "unbiased": 0.898, "mmse": 0.898}


def plan_for(task, prior=PRIOR, mechanism=repaired_response, weights=(1, 3)) -> Plan:
    """Two groups with one prior; of a weighted sum they have different weights."""
    channel = mechanism(prior, EPSILON)
    scales = zip(weights, (2, 0), strict=True) if task.takes_weights else [(1, 0), (1, 0)]
    return Plan.of_groups(
        task,
        tuple(
            Group(
                name=name,
                epsilon=EPSILON,
                mechanism=channel,
                weight=Fraction(weight),
                offset=Fraction(offset),
            )
            for name, (weight, offset) in zip("ab", scales, strict=True)
        ),
    )


def simulate(plan: Plan, truth: np.ndarray, people: int, rng: np.random.Generator) -> tuple[Tally, np.ndarray]:
    """A round: who holds what, what they report, and the true total."""
    groups, total = {}, 0.0
    for group in plan.groups:
        held = rng.multinomial(people, truth)
        sent = sum(rng.multinomial(n, group.mechanism.matrix[x]) for x, n in enumerate(held))
        seen = np.flatnonzero(sent)
        groups[group.name] = Counts(seen.astype(np.int64), sent[seen])
        g = plan.task.g(group.prior)
        if isinstance(plan.task, WeightedSum):
            g = float(group.weight) * group.prior.numbers[:, None] + float(group.offset)
        total = total + held @ g
    return Tally(plan.hash, groups), np.asarray(total)


def coverage(plan: Plan, truth: np.ndarray, estimator: str, rounds: int = 400) -> tuple[float, float]:
    """The share of rounds and rows in which the 95% interval holds the true total, and in which the alarm fired."""
    rng = np.random.default_rng(6)
    hits, alarms = [], 0
    for _ in range(rounds):
        tally, total = simulate(plan, truth, 2000, rng)
        result = estimate(plan, tally, estimator, scope="participants")
        hits.append([row.low <= true <= row.high for row, true in zip(result.rows, total, strict=True)])
        alarms += any(check.contradicted for check in result.prior_check)
    return float(np.mean(np.array(hits), axis=0).min()), alarms / rounds


@pytest.fixture
def _nobody_forges(monkeypatch):
    """What a forged report does to the likelihood is climbed for a dozen times a round, and no interval looks at it."""
    monkeypatch.setattr(table_reading, "_likely_moves", lambda *about: (0.0, 0.0))


@pytest.mark.usefixtures("_nobody_forges")
@pytest.mark.parametrize("estimator", ["mmse", "unbiased", "mle"])
@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_intervals_cover_95_per_cent_under_the_right_prior(task, estimator):
    covered, alarms = coverage(plan_for(task), PRIOR.probabilities, estimator, ROUNDS[estimator])
    # Three standard errors, for the least of three rows.
    assert LEAST[estimator] <= covered <= 0.99
    assert alarms <= 0.02


@pytest.mark.usefixtures("_nobody_forges")
@pytest.mark.parametrize("estimator", ["unbiased", "mle"])
@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_prior_free_intervals_cover_95_per_cent_under_a_wrong_prior_and_the_alarm_fires(task, estimator):
    covered, alarms = coverage(plan_for(task), TRUTH, estimator, ROUNDS[estimator])
    # Three standard errors, for the least of three rows.
    assert LEAST[estimator] <= covered <= 0.99
    assert alarms > 0.99


def test_the_prior_based_interval_is_worthless_under_a_wrong_prior():
    """The named wrong answer that the alarm is for."""
    covered, _ = coverage(plan_for(Survey(1)), TRUTH, "mmse", rounds=50)
    assert covered < 0.01


@pytest.mark.parametrize("truth", [PRIOR.probabilities, TRUTH], ids=["right prior", "wrong prior"])
def test_unbiased_estimates_have_the_true_mean_and_variance_by_enumeration(truth):
    """All answers and reports of three people: E[estimate − total] = 0 and E[variance] = Var[estimate − total]."""
    channel = repaired_response(PRIOR, EPSILON)
    plan = Plan.of_groups(Histogram(), (Group(name=None, epsilon=EPSILON, mechanism=channel),))
    bias, square, claimed = np.zeros(3), np.zeros(3), np.zeros(3)
    for reports in product(range(3), repeat=3):
        result = estimate(plan, Tally(plan.hash, {None: Counts.of(reports)}), "unbiased", scope="participants")
        shown = np.array([row.estimate for row in result.rows])
        variance = np.array([row.standard_error**2 for row in result.rows])
        for answers in product(range(3), repeat=3):
            p = math.prod(truth[x] * channel.matrix[x, y] for x, y in zip(answers, reports, strict=True))
            error = shown - np.bincount(answers, minlength=3)
            bias += p * error
            square += p * error**2
            claimed += p * variance
    assert np.abs(bias).max() < 1e-9
    # The variance is an unbiased estimate too, except where it is cut at zero.
    assert np.allclose(claimed, square, rtol=0.02)


def test_mmse_mean_and_variance_by_enumeration():
    channel = repaired_response(PRIOR, EPSILON)
    plan = Plan.of_groups(Sum(), (Group(name=None, epsilon=EPSILON, mechanism=channel),))
    square, claimed = 0.0, 0.0
    for reports in product(range(3), repeat=3):
        result = estimate(plan, Tally(plan.hash, {None: Counts.of(reports)}), "mmse")
        for answers in product(range(3), repeat=3):
            pairs = list(zip(answers, reports, strict=True))
            p = math.prod(PRIOR.probabilities[x] * channel.matrix[x, y] for x, y in pairs)
            square += p * (result.rows[0].estimate - sum(PRIOR.numbers[list(answers)])) ** 2
            claimed += p * result.rows[0].standard_error ** 2
    assert claimed == pytest.approx(square, abs=1e-12)


def test_respondents_own_weights_and_offsets_enter_by_the_formula():
    plan = Plan.of_groups(
        WeightedSum(),
        (Group(name=None, epsilon=EPSILON, mechanism=repaired_response(PRIOR, EPSILON), weight=Fraction(2)),),
    )
    posterior = plan.groups[0].mechanism.posterior
    means = posterior @ PRIOR.numbers
    spread = posterior @ PRIOR.numbers**2 - means**2
    counts = Counts.of([0, 2, 2], weights=[1.0, 0.5, 4.0], offsets=[1.0, 0.0, 2.0])
    (row,) = estimate(plan, Tally(plan.hash, {None: counts}), "mmse").rows
    assert row.estimate == pytest.approx(2 * (means[0] + 4.5 * means[2]) + 2 * 3.0)
    assert row.standard_error**2 == pytest.approx(4 * (spread[0] + 16.25 * spread[2]))


def test_likelihood_never_falls_and_reaches_the_interior_solution():
    channel = repaired_response(PRIOR, EPSILON)
    counts = 1000 * TRUTH @ channel.matrix
    result = maximum_likelihood(channel, counts)
    assert np.allclose(result, TRUTH, atol=1e-4)
    at_prior = float(counts @ np.log(PRIOR.probabilities @ channel.matrix))
    assert counts @ np.log(result @ channel.matrix) > at_prior
    # The named wrong update: one matrix in both products, as if the channel were symmetric.
    wrong = PRIOR.probabilities
    for _ in range(500):
        wrong = wrong * (channel.matrix.T @ (counts / (wrong @ channel.matrix)))
        wrong /= wrong.sum()
    assert not np.allclose(wrong, TRUTH, atol=0.02)


def test_what_the_reports_do_not_determine_is_refused():
    prior = Prior.of({"a": 0.2, "b": 0.3, "c": 0.5})
    collapsed = optimal_binary(Prior.of({"a": 0.2, "other": 0.8}), 1)
    channel = Channel.from_weights(prior, collapsed.weights[[0, 1, 1]])
    tally = {None: Counts.of([0, 1, 1, 1, 0])}
    histogram = Plan.of_groups(Histogram(), (Group(name=None, epsilon=EPSILON, mechanism=channel),))
    survey = Plan.of_groups(Survey("a"), (Group(name=None, epsilon=EPSILON, mechanism=channel),))
    for estimator in ("unbiased", "mle"):
        with pytest.raises(NotEstimableError, match="plan again with the aim 'unbiased'"):
            estimate(histogram, Tally(histogram.hash, tally), estimator)
        # The same reports do determine the one value that was asked for.
        assert math.isfinite(estimate(survey, Tally(survey.hash, tally), estimator).rows[0].standard_error)


def test_projection_keeps_the_intervals_and_gives_possible_counts():
    plan = Plan.of_groups(
        Histogram(),
        (Group(name=None, epsilon=EPSILON, mechanism=k_ary_response(PRIOR, EPSILON), notion="ldp"),),
    )
    tally = Tally(plan.hash, {None: Counts.of([2] * 10)})
    plain, projected = (estimate(plan, tally, "unbiased", project=p) for p in (False, True))
    assert min(row.estimate for row in plain.rows) < 0
    assert min(row.estimate for row in projected.rows) == 0
    assert sum(row.estimate for row in projected.rows) == pytest.approx(10)
    assert [row.low for row in plain.rows] == [row.low for row in projected.rows]


def test_projection_is_the_nearest_point():
    rng = np.random.default_rng(1)
    for _ in range(50):
        x = rng.normal(size=4) * 5
        nearest = Histogram().possible(x, 3)
        assert nearest.sum() == pytest.approx(3.0)
        for _ in range(20):
            other = rng.dirichlet(np.ones(4)) * 3
            assert np.linalg.norm(x - nearest) <= np.linalg.norm(x - other) + 1e-12


def test_totals_of_surveys_are_kept_in_range_and_sums_are_left_alone():
    wild = np.array([-2.0])
    assert Survey(1).possible(wild, 5).tolist() == [0.0]
    assert Survey(1).possible(-4 * wild, 5).tolist() == [5.0]
    assert Sum().possible(wild, 5) is wild
    # A value that the unbiased estimator knows nothing of counts as nobody.
    assert Histogram().possible(np.array([np.nan, 3.0]), 5).tolist() == [1.0, 4.0]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_the_prior_expects_the_mean_total(task):
    """As the mean over everything that people of the prior can hold; a group's a and b apply to weights and offsets."""
    plan = plan_for(task, weights=(2, 3))
    offsets = [10.0 if task.takes_weights else 0.0, 0.0, 0.0, 0.0]
    people = [Counts.of([0, 1, 2, 2], [1.0, 1.0, 2.0, 2.0], offsets), Counts.of([1])]
    expected = 7 * PRIOR.probabilities @ task.g(PRIOR)
    if isinstance(task, WeightedSum):
        mean = PRIOR.probabilities @ PRIOR.numbers
        expected = [2 * (6 * mean + 10) + 2 * 4 + 3 * mean]
    found = sum(Cell(plan, group, kept).prior_total for group, kept in zip(plan.groups, people, strict=True))
    assert found == pytest.approx(np.asarray(expected))


@pytest.mark.parametrize("estimator", ["assisted", "unbiased", "mmse", "mle"])
def test_influence_bounds_what_one_forged_report_does(estimator):
    """By trying every report that can be changed to every other, or added, in both groups."""
    plan = plan_for(Sum(), Prior.of({100: 0.15, 103: 0.25, 110: 0.6}))
    base = {"a": [0, 1, 2, 2] * 5, "b": [1, 0, 2, 2] * 8}

    def total(reports: dict[str, list[int]]) -> float:
        tally = Tally(plan.hash, {name: Counts.of(sent) for name, sent in reports.items()})
        return estimate(plan, tally, estimator).rows[0].estimate

    result = estimate(plan, Tally(plan.hash, {name: Counts.of(sent) for name, sent in base.items()}), estimator)
    changed = [
        abs(total(base | {name: [new, *base[name][:at], *base[name][at + 1 :]]}) - total(base))
        for name in base for at in range(3) for new in range(3)
    ]  # fmt: skip
    added = [abs(total(base | {name: [new, *base[name]]}) - total(base)) for name in base for new in range(3)]
    slack = 1.3 if estimator in ("assisted", "mle") else 1 + 1e-9
    assert result.influence / slack < max(changed) <= result.influence * slack
    assert result.influence_added / slack < max(added) <= result.influence_added * slack
    # The named wrong answer: what a changed report does, for one that is added.
    assert max(added) > 3 * result.influence
    assert f"1% forged reports would move it by {significant(result.influence * 52 / 100)}." in forged(result)


def test_no_reports_no_crash():
    plan = plan_for(Histogram())
    for estimator in ("mmse", "unbiased", "mle"):
        result = estimate(plan, Tally(plan.hash, {}), estimator)
        assert [row.estimate for row in result.rows] == [0, 0, 0]
        assert result.prior_check == ()
    with pytest.raises(ValueError, match="at least one report"):
        _ = result.mean


def test_values_outside_the_support_are_not_estimated_by_the_prior_free_estimator():
    prior = Prior.of({1: 0.4, 2: 0.6, 9: 0})
    plan = Plan.of_groups(Histogram(), (Group(name=None, epsilon=EPSILON, mechanism=repaired_response(prior, 1)),))
    tally = Tally(plan.hash, {None: Counts.of([0, 1, 1])})
    assert estimate(plan, tally, "unbiased").to_dict()["estimates"][2]["estimate"] is None
    assert estimate(plan, tally, "mmse").rows[2].estimate == 0


def test_bad_requests_are_refused():
    plan = plan_for(Sum())
    tally = Tally(plan.hash, {})
    with pytest.raises(ValueError, match="'estimator' must be one of"):
        estimate(plan, tally, "guess")
    with pytest.raises(ValueError, match="'level' must lie"):
        estimate(plan, tally, level=95)
    with pytest.raises(ValueError, match="another plan"):
        estimate(plan, Tally("other", {}))


def test_the_check_pools_rare_reports_and_keeps_its_level():
    rng = np.random.default_rng(2)
    marginal = np.array([0.6, 0.39, 0.004, 0.003, 0.003])

    def fired(truth: np.ndarray, rounds: int) -> float:
        drawn = (rng.multinomial(400, truth) for _ in range(rounds))
        return float(np.mean([check_prior(None, *pearson(counts, marginal), 400).contradicted for counts in drawn]))

    assert fired(marginal, 2000) < 0.01
    assert fired(np.array([0.45, 0.54, 0.004, 0.003, 0.003]), 200) > 0.9


def test_the_check_may_be_looked_at_after_every_batch():
    """30 looks at reports of a right prior alarm at most as often as one; a plain chi-square alarms far more often."""
    rng = np.random.default_rng(3)
    marginal = np.array([0.3, 0.5, 0.2])
    rounds, alarms, plain = 500, 0, 0
    for _ in range(rounds):
        looks = np.cumsum(rng.multinomial(40, marginal, size=30), axis=0)
        statistics = [pearson(counts.astype(float), marginal) for counts in looks]
        alarms += any(
            check_prior(None, *each, n).contradicted for each, n in zip(statistics, looks.sum(axis=1), strict=True)
        )
        plain += any(chdtrc(*reversed(each)) < 0.01 for each in statistics)
    assert alarms / rounds < 0.015
    assert plain / rounds > 0.04


@pytest.mark.parametrize(("notion", "n"), [("lip", 2500), ("ldp", 5000)])
def test_a_change_of_one_value_among_many_is_heard(notion, n):
    """A tenth of the people go to one value of a hundred. Alone, the statistic of the heaviest values is deaf to it."""
    prior = Prior.of({f"v{x}": 1 / (x + 1) for x in range(100)})
    plan = make_plan(prior, Histogram(), epsilon=2, notion=notion)
    group, randomizer, rng = plan.groups[0], Randomizer(plan), np.random.default_rng(5)
    truth = 0.9 * prior.probabilities + 0.1 * np.eye(100)[50]

    def alarms(shares: np.ndarray, rounds: int) -> tuple[int, int]:
        heard = alone = 0
        for seed in range(rounds):
            reports = randomizer.reports(0, rng.choice(100, n, p=shares), SeededWords(seed))
            tally = Tally.of(plan, reports)
            heard += estimate(plan, tally).prior_check[0].contradicted
            statistic = group.mechanism.prior_statistic(tally.groups[None])
            alone += check_prior(None, *statistic, n).contradicted
        return heard, alone

    heard, alone = alarms(truth, 10)
    assert heard == 10
    assert alone <= 2
    # More than 2 of 15 at a level of 0.01 have a probability below 0.0005, and the level is not reached.
    assert alarms(prior.probabilities, 15)[0] <= 2


def test_too_few_reports_say_nothing_about_the_prior():
    assert "too few" in str(check_prior(None, 0.0, 0, 3))
    assert not check_prior(None, 0.0, 0, 3).contradicted


@pytest.mark.parametrize("shift", [0.0, 0.02])
def test_a_shift_that_all_groups_share_is_found_by_all_together(shift):
    """Two points in each of four groups: no single group shows it, all together do."""
    priors = {name: Prior.of({"yes": share, "no": 1 - share}) for name, share in zip("abcd", SHARES, strict=True)}
    plan = make_plan(priors, Survey("yes"), epsilon=1)
    rng, pooled, alone = np.random.default_rng(8), 0, 0
    for _ in range(200):
        counts = {}
        for group, share in zip(plan.groups, SHARES, strict=True):
            yes = rng.binomial(15_000, share + shift)
            sent = rng.multinomial(yes, group.mechanism.matrix[0]) + rng.multinomial(
                15_000 - yes, group.mechanism.matrix[1]
            )
            counts[group.name] = Counts(np.flatnonzero(sent), sent[sent > 0])
        checks = estimate(plan, Tally(plan.hash, counts), "unbiased").prior_check
        pooled += checks[0].pooled and checks[0].contradicted
        alone += all(check.contradicted for check in checks[1:])
    assert (pooled > 180) if shift else (pooled <= 4)
    assert alone < 20


@pytest.mark.parametrize(
    ("share", "epsilon", "people"), [(0.01, 5, 1000), (0.05, 3, 30), (0.3, 3, 100), (0.02, 1, 100)]
)
def test_intervals_hold_for_few_people_and_large_budgets(share, epsilon, people):
    """Reports are counted in steps; by the standard error alone the level is missed at the first of these."""
    plan = make_plan(Prior.of({"yes": share, "no": 1 - share}), Survey("yes"), epsilon=epsilon)
    rows = plan.groups[0].mechanism.matrix / plan.groups[0].mechanism.matrix.sum(axis=1, keepdims=True)
    rng, covered, uncorrected = np.random.default_rng(4), [], []
    for _ in range(400):
        yes = rng.binomial(people, share)
        sent = rng.multinomial(yes, rows[0]) + rng.multinomial(people - yes, rows[1])
        tally = Tally(plan.hash, {None: Counts(np.flatnonzero(sent), sent[sent > 0])})
        (row,) = estimate(plan, tally, scope="participants").rows
        covered.append(row.low <= yes <= row.high)
        uncorrected.append(abs(row.estimate - yes) <= 1.96 * row.standard_error)
    assert np.mean(covered) > 0.927
    assert epsilon < 5 or np.mean(uncorrected) < 0.92


@pytest.mark.parametrize("task", [Survey(1), Histogram(), Sum()], ids=lambda task: type(task).__name__)
def test_weights_that_go_with_the_answers_are_covered_by_the_default(task):
    """Weights of 1/N and more, larger for those who hold 1; shares are of the weights. mmse misses by far."""
    prior = Prior.of({1: 0.3, 2: 0.3, 4: 0.4})
    plan = make_plan({"a": prior, "b": prior}, task, epsilon=2)
    rng, people, g = np.random.default_rng(6), 1500, task.g(prior)
    covered: dict[str, list[bool]] = {"assisted": [], "mmse": []}
    for _ in range(150):
        counts, truth, total = {}, 0.0, 0.0
        for group in plan.groups:
            x = rng.choice(3, size=people, p=prior.probabilities)
            weights = rng.uniform(0.5, 1.5, people) * np.where(x == 0, 4, 1) / people
            rows = group.mechanism.matrix / group.mechanism.matrix.sum(axis=1, keepdims=True)
            reports = (rng.random(people)[:, None] > np.cumsum(rows[x], axis=1)).sum(axis=1)
            counts[group.name] = Counts.of(reports, weights)
            truth, total = truth + weights @ g[x], total + weights.sum()
        for name, found in covered.items():
            result = estimate(plan, Tally(plan.hash, counts), name)
            found.append(bool(result.rows[0].low <= truth[0] <= result.rows[0].high))
            assert result.total_weight == pytest.approx(total)
            assert result.per_respondent(result.rows[0]).estimate == pytest.approx(result.rows[0].estimate / total)
    assert result.weighted
    assert np.mean(covered["assisted"]) > 0.89
    assert np.mean(covered["mmse"]) < 0.3


def test_a_value_that_reports_do_not_tell_from_others_has_no_interval():
    prior = Prior.of({"a": 0.2, "b": 0.3, "c": 0.5})
    collapsed = optimal_binary(Prior.of({"a": 0.2, "other": 0.8}), 1)
    channel = Channel.from_weights(prior, collapsed.weights[[0, 1, 1]])
    plan = Plan.of_groups(Histogram(), (Group(name=None, epsilon=EPSILON, mechanism=channel),))
    result = estimate(plan, Tally(plan.hash, {None: Counts.of([0, 1, 1, 1, 0])}))
    assert result.estimator == "mmse"
    assert [math.isfinite(row.margin) for row in result.rows] == [True, False, False]
    written = result.to_dict()["estimates"]
    assert [row["low"] is None for row in written] == [False, True, True]
    assert all(row["estimate"] is not None for row in written)
