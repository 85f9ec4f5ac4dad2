"""Estimates that use the prior as far as it is worth it: they cover whatever happened, and lose little."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from tacit import Histogram, Prior, Randomizer, Sum, Survey, WeightedSum, make_plan
from tacit.designs.planning import Uncertainty
from tacit.estimates import estimate, estimators
from tacit.estimates._assisted import Expectation, Groups, expectation, pratt_interval, shifted
from tacit.randomize import SeededWords
from tacit.tally import Counts, Tally

SHARES = np.array([0.03, 0.06, 0.1, 0.14, 0.18, 0.22, 0.26, 0.3])
PEOPLE, ROUNDS = 3000, 250


def plan_of(shares=SHARES, epsilon=1, **options):
    priors = {f"group {k}": Prior.of({"yes": share, "no": 1 - share}) for k, share in enumerate(shares)}
    return make_plan(priors, Survey("yes"), epsilon=epsilon, **options)


def rounds_of(plan, truth, people=PEOPLE, rounds=ROUNDS, seed=4, group=None):
    """Errors, whether the interval holds, and its width, for assisted, unbiased and mmse: arrays (rounds, 3).

    What assisted is compared with, by a wide margin, is estimated in every third round only, and NaN in the others.
    """
    rng = np.random.default_rng(seed)
    found = np.full((rounds, 3, 3), np.nan)
    for number, each in enumerate(found):
        counts, held = {}, {}
        for part, share in zip(plan.groups, truth, strict=True):
            yes = rng.binomial(people, share)
            rows = part.mechanism.matrix / part.mechanism.matrix.sum(axis=1, keepdims=True)
            sent = rng.multinomial(yes, rows[0]) + rng.multinomial(people - yes, rows[1])
            counts[part.name], held[part.name] = Counts(np.flatnonzero(sent), sent[sent > 0]), yes
        total = sum(held.values()) if group is None else held[group]
        for place, name in enumerate(("assisted", "unbiased", "mmse")[: 1 if number % 3 else 3]):
            (row,) = estimate(plan, Tally(plan.hash, counts), name, group=group, scope="participants").rows
            each[place] = row.estimate - total, row.low <= total <= row.high, row.high - row.low
    return found[:, :, 0], found[:, :, 1], found[:, :, 2]


def rmse_of(errors):
    """Of each estimator, over the rounds of all three."""
    compared = errors[np.isfinite(errors).all(axis=1)]
    return np.sqrt((compared**2).mean(axis=0))


DRIFTS = {
    "no drift": SHARES,
    "all together": SHARES + 0.02,
    "one group off": SHARES + np.array([0, 0, 0, 0.15, 0, 0, 0, 0]),
    "everything off": 0.5 - SHARES,
    "a pilot of 150": np.random.default_rng(1).binomial(150, SHARES) / 150,
}


@pytest.mark.parametrize("name", DRIFTS)
def test_assisted_intervals_cover_whatever_happened_and_mmse_do_not(name):
    """For a prior from a small pilot the truth is the other way round: the pilot is the prior."""
    plan, truth = plan_of(), DRIFTS[name]
    if name == "a pilot of 150":
        plan, truth = plan_of(np.clip(DRIFTS[name], 0.005, 1)), SHARES
    errors, covered, _ = rounds_of(plan, truth)
    # Of 250 rounds, three standard errors.
    assert covered[:, 0].mean() > 0.908
    if name != "no drift":
        assert np.nanmean(covered[:, 2]) < 0.9
    rmse = rmse_of(errors)
    assert rmse[0] < 1.25 * rmse[1]
    if name == "no drift":
        assert rmse[0] < 0.75 * rmse[1]


def test_one_group_is_helped_by_what_the_others_show():
    plan = plan_of()
    errors, covered, widths = rounds_of(plan, SHARES, rounds=75, group="group 3")
    assert covered[:, 0].mean() > 0.874
    assisted, unbiased, _ = rmse_of(errors)
    assert assisted < 0.75 * unbiased
    assert widths[:, 0].mean() < 0.95 * np.nanmean(widths[:, 1])


def group_by_group(plan, truth, people, rounds, seed=5):
    """Errors of assisted and unbiased estimates of every group, and whether the assisted interval holds."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(rounds):
        counts, held = {}, {}
        for part, share in zip(plan.groups, truth, strict=True):
            yes = rng.binomial(people, share)
            sent = rng.multinomial(yes, part.mechanism.matrix[0]) + rng.multinomial(
                people - yes, part.mechanism.matrix[1]
            )
            counts[part.name], held[part.name] = Counts(np.flatnonzero(sent), sent[sent > 0]), yes
        tally = Tally(plan.hash, counts)
        for name in plan.groups[:: max(1, len(truth) // 8)]:
            assisted, unbiased = (
                estimate(plan, tally, each, group=name.name, scope="participants").rows[0]
                for each in ("assisted", "unbiased")
            )
            true = held[name.name]
            found.append((assisted.estimate - true, unbiased.estimate - true, assisted.low <= true <= assisted.high))
    return np.array(found).T


def test_small_areas_move_towards_the_drift_that_all_of_them_show():
    """40 areas of 100 people, a prior of 20%, areas around 30%."""
    truth = np.random.default_rng(2).normal(0.3, 0.03, 40)
    plan = plan_of(np.full(40, 0.2))
    assisted, unbiased, covered = group_by_group(plan, truth, 100, 25)
    error, error_unbiased = np.sqrt(np.mean(assisted**2)), np.sqrt(np.mean(unbiased**2))
    assert error < 0.8 * error_unbiased
    assert covered.mean() > 0.92
    # The named wrong answer: to move towards the prior alone, by half.
    prior = 100 * (0.2 - truth[::5])
    towards_prior = unbiased / 2 + np.tile(prior, 25) / 2
    assert np.sqrt(np.mean(towards_prior**2)) > error_unbiased


@pytest.mark.parametrize("share", [0.03, 0.1, 0.3, 0.5])
def test_a_rare_answer_that_became_common_costs_little(share):
    """The prior is 1%. A grid of drifts that ends at 5.5 points makes errors 1.5 times as large, and intervals too."""
    plan = plan_of(np.full(5, 0.01))
    errors, covered, widths = rounds_of(plan, np.full(5, share), rounds=75)
    assisted, unbiased, _ = rmse_of(errors)
    assert assisted < 1.15 * unbiased
    assert covered[:, 0].mean() > 0.874
    assert widths[:, 0].mean() < 1.2 * np.nanmean(widths[:, 1])


def test_a_prior_of_which_nothing_is_known_is_not_used():
    plan = make_plan(Prior.of({"yes": 0.1, "no": 0.9}), Survey("yes"), epsilon=1)
    tally = Tally(plan.hash, {None: Counts(np.arange(2), np.array([900, 100]))})
    default = estimate(plan, tally)
    assert default.estimator == "unbiased"
    assert default.rows == estimate(plan, tally, "unbiased").rows
    assert default.rows[0].prior_share == 0
    assert estimators(plan)[0] == "unbiased"
    assert estimators(plan_of())[0] == "assisted"


def test_a_stated_error_is_worth_something_in_one_group():
    prior = Prior.of({"yes": 0.1, "no": 0.9})
    plan = make_plan(prior, Survey("yes"), epsilon=1, uncertainty=Uncertainty(error="0.02"))
    errors, covered, _ = rounds_of(plan, [0.1], people=2000, rounds=75)
    assert covered[:, 0].mean() > 0.874
    assisted, unbiased, _ = rmse_of(errors)
    assert assisted < 0.75 * unbiased
    # Stated wrongly: it costs, but never more than the room that it gets.
    errors, covered, _ = rounds_of(plan, [0.2], people=2000, rounds=75)
    assert covered[:, 0].mean() > 0.874
    assisted, unbiased, _ = rmse_of(errors)
    assert assisted < 1.25 * unbiased


def test_weights_may_go_with_the_answers_so_they_get_the_unbiased_estimate():
    prior = Prior.of({0: 0.5, 1: 0.5})
    plan = make_plan({"a": prior, "b": prior}, WeightedSum(), epsilon=1)
    counts = {name: Counts.of([0, 1, 1, 0], weights=[1.0, 2.0, 1.0, 0.5]) for name in "ab"}
    assert estimate(plan, Tally(plan.hash, counts)).estimator == "unbiased"


def test_simultaneous_intervals_are_wider_and_hold_for_all_rows():
    prior = Prior.of(dict(zip("abcde", (30, 25, 20, 15, 10), strict=True)))
    plan = make_plan({"one": prior, "two": prior}, Histogram(), epsilon=1)
    rng, single, all_at_once = np.random.default_rng(3), [], []
    for _ in range(80):
        held = {name: rng.multinomial(2000, prior.probabilities) for name in ("one", "two")}
        counts = {}
        for part in plan.groups:
            rows = part.mechanism.matrix / part.mechanism.matrix.sum(axis=1, keepdims=True)
            sent = sum(rng.multinomial(n, row) for n, row in zip(held[part.name], rows, strict=True))
            counts[part.name] = Counts(np.flatnonzero(sent), sent[sent > 0])
        truth = held["one"] + held["two"]
        for found, together in ((single, False), (all_at_once, True)):
            result = estimate(plan, Tally(plan.hash, counts), simultaneous=together, scope="participants")
            found.append(all(row.low <= true <= row.high for row, true in zip(result.rows, truth, strict=True)))
    assert np.mean(all_at_once) > 0.9 > np.mean(single)


@pytest.mark.parametrize("scale", [0.05, 1.0, 4.0])
def test_for_one_normal_the_interval_is_the_published_one(scale):
    """Widths relative to ±1.96σ from theory.md, section 9.3, and coverage at every distance from the prior."""
    expected = {0.05: (0.85, 1.43), 1.0: (0.85, 1.24), 4.0: (0.88, 1.06)}[scale]
    rng = np.random.default_rng(0)
    for truth, relative in zip((0.0, 4.0), expected, strict=True):
        x = truth + rng.normal(size=4000)
        mixture = Expectation(np.ones(1), np.ones(1), np.zeros((1, 4000)), np.full((1, 4000), 1 + scale))
        low, high = pratt_interval(mixture, x, np.ones(4000), 0.95)
        assert np.mean((low <= truth) & (truth <= high)) == pytest.approx(0.95, abs=0.012)
        assert (high - low).mean() / 3.92 == pytest.approx(relative, abs=0.015)
        # The named wrong answer: the Bayesian interval, which covers on average over the prior only.
        weight = scale / (1 + scale)
        inside = np.abs(weight * x - truth) <= norm.ppf(0.975) * np.sqrt(weight)
        assert truth == 0 or scale == 4.0 or inside.mean() < 0.9


def test_the_estimate_is_never_further_from_the_unbiased_one_than_its_room():
    groups = Groups(np.array([[50.0], [40.0]]), np.full((2, 1), 100.0), np.full((2, 1), 1.0), np.full((2, 1), 10.0))
    expected = expectation(groups, np.array([True, True]))
    x, variance = np.array([90.0]), np.array([200.0])
    moved, share = shifted(expected, x, variance, 0.3)
    assert 0 < x[0] - moved[0] <= 0.3 * np.sqrt(200) + 1e-9
    assert share[0] == pytest.approx((x[0] - moved[0]) / x[0])


def test_what_the_rest_expects_does_not_depend_on_the_total_itself():
    """A move of all reports that leaves the rest as it is leaves the expectation as it is, and so the coverage."""
    rng = np.random.default_rng(5)
    variance, excess = rng.uniform(50, 150, (6, 1)), rng.normal(0, 10, (6, 1))
    groups = [
        Groups(excess + step * variance / variance.sum(), variance, np.ones((6, 1)), np.full((6, 1), 20.0))
        for step in (0.0, 500.0)
    ]
    first, second = (expectation(each, np.full(6, True)) for each in groups)
    assert np.allclose(first.before, second.before)
    assert not np.allclose(first.after, second.after)


# -- what an adversary found -----------------------------------------------------------------------------------------


def test_one_answer_that_moved_among_many_is_not_wiped_out():
    """100 answers in four groups, one of them taken up by a twelfth of all: no row may stay at its prior."""
    weights = {f"v{k}": 1 + 100_000 // (k + 1) for k in range(100)}
    prior = Prior.of(weights)
    plan = make_plan(dict.fromkeys("abcd", prior), Histogram(), epsilon=1)
    rng = np.random.default_rng(0)
    answers = np.concatenate([[90] * 150 + rng.choice(100, 1850, p=prior.probabilities).tolist() for _ in range(4)])
    groups = np.repeat(np.arange(4), 2000)
    reports = Randomizer(plan).reports(groups, answers, SeededWords(5))
    tally = Tally.of(plan, reports, np.array(list("abcd"))[groups])
    moved, free = (estimate(plan, tally, name).rows[90] for name in ("assisted", "unbiased"))
    assert free.estimate - moved.estimate <= 1.2 * free.standard_error + 1e-9
    assert moved.low <= (answers == 90).sum() <= moved.high
    assert moved.prior < 40


def test_few_equal_numbers_do_not_make_an_interval_of_nothing():
    prior = Prior.of({0: 40, 10: 120, 25: 90, 60: 30})
    plan = make_plan(prior, Sum(), epsilon=4, between=(0, 90))
    rng, covered = np.random.default_rng(2), []
    rows = plan.groups[0].mechanism.matrix / plan.groups[0].mechanism.matrix.sum(axis=1, keepdims=True)
    for people in (11, 40, 100):
        for _ in range(100):
            sent = rng.multinomial(people, rows[-1])
            tally = Tally(plan.hash, {None: Counts(np.flatnonzero(sent), sent[sent > 0])})
            (row,) = estimate(plan, tally).rows
            covered.append(row.low <= 90 * people <= row.high)
            assert row.high > row.low
    assert np.mean(covered) > 0.93


@pytest.mark.filterwarnings("error")
def test_groups_without_any_spread_are_estimated_without_a_warning():
    prior = Prior.of({10: 4, 60: 4, 150: 2})
    plan = make_plan({"a": prior, "b": prior}, Sum(), epsilon=2, between=(0, 200))
    (row,) = estimate(plan, Tally(plan.hash, {"a": Counts.of([2] * 2), "b": Counts.of([1] * 9)})).rows
    assert np.isfinite([row.estimate, row.low, row.high]).all()


@pytest.mark.parametrize("counts", [{"a": [1880, 1120]}, {"a": [1906, 1094], "c": [220, 80]}], ids=["one", "two"])
def test_a_report_from_a_group_of_which_nothing_was_known_moves_as_little_as_any(counts):
    """With as many kinds of room as groups, the first report of an empty one let estimates jump by 25."""
    plan = plan_of([0.3, 0.01, 0.8])
    named = {f"group {'abc'.index(k)}": Counts(np.arange(2), np.array(n)) for k, n in counts.items()}
    before = estimate(plan, Tally(plan.hash, named))
    moved = []
    for group in ("group 0", "group 1", "group 2"):
        for report in range(2):
            more = named | {group: named.get(group, Counts()).merge(Counts.of([report]))}
            moved.append(abs(estimate(plan, Tally(plan.hash, more)).rows[0].estimate - before.rows[0].estimate))
    assert max(moved) <= 1.1 * before.influence_added
