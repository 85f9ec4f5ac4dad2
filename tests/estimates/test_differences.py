"""Differences: covered between groups, rounds and earlier numbers, with overlap; and wrong ways that are not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit import Histogram, Prior, Sum, Survey, make_plan
from tacit.estimates import cells_of, estimate
from tacit.estimates._cells import Collected
from tacit.estimates._differences import differences, known_before, the_prior, the_rest
from tacit.estimates._rows import fieller
from tacit.tally import Tally

from support.answering import tally_of

SHARES = (0.06, 0.12, 0.2)
PRIORS = {name: Prior.of({"yes": p, "no": 1 - p}) for name, p in zip("abc", SHARES, strict=True)}
PLAN = make_plan(PRIORS, Survey("yes"), epsilon=1)
NEXT = make_plan({name: Prior.of({"no": 0.9, "yes": 0.1}) for name in "abc"}, Survey("yes"), epsilon=2)


def collected(truth, people, rng, plan=PLAN) -> Collected:
    yes = rng.binomial(people, truth)
    held = np.stack([yes, np.array(people) - yes], axis=1)
    if plan.values[0] != "yes":
        held = held[:, ::-1]
    return Collected(plan, cells_of(plan, tally_of(plan, held, rng)))


def test_differences_between_groups_are_covered_overlap_included():
    """North against everybody, north included, taken for independent would cover too often; against the others and
    pair by pair it is right as well.
    """
    truth, people = np.array([0.1, 0.15, 0.25]), np.array([300, 500, 400])
    rng, rounds, held, wide = np.random.default_rng(1), 80, np.zeros(3), 0
    everybody = float(truth @ people / people.sum())
    rest = float(truth[1:] @ people[1:] / people[1:].sum())
    for _ in range(rounds):
        reports = collected(truth, people, rng)
        first, second, _ = reports.parts("group")
        pairs = [(first, second), (first, the_rest(first)), (first, reports.part())]
        found = differences(pairs).rows
        for place, (row, true) in enumerate(
            zip(found, (truth[0] - truth[1], truth[0] - rest, truth[0] - everybody), strict=True)
        ):
            held[place] += row.low <= true <= row.high
        alone = 1.96 * math.sqrt(first.variance("population")[0] + reports.part().variance("population")[0])
        wide += alone > 1.2 * (found[2].high - found[2].low) / 2
    assert (held > 0.87 * rounds).all(), held
    assert wide == rounds


def test_changes_between_rounds_with_two_plans_are_covered_and_two_rounds_as_one_are_not():
    """Who merges both rounds and subtracts last year's share finds half of the change."""
    before, now = np.array([0.06, 0.12, 0.2]), np.array([0.12, 0.2, 0.3])
    people = np.array([800, 800, 800])
    rng, rounds, held, merged = np.random.default_rng(2), 80, 0, 0
    change = float((now - before).mean())
    for _ in range(rounds):
        first, second = collected(before, people, rng), collected(now, people, rng, NEXT)
        (row,) = differences([(second.part(), first.part("before"))]).rows
        held += row.low <= change <= row.high
        as_one = (first.part().mean[0] + second.part().mean[0]) / 2 - first.part().mean[0]
        spread = sum(each.part().variance("population")[0] for each in (first, second))
        merged += abs(as_one - change) <= 1.96 * math.sqrt(spread) / 2
    assert held > 0.87 * rounds
    assert merged < 0.6 * rounds
    assert row.other == "before"


def test_assisted_sides_would_hide_a_change_that_unbiased_sides_show():
    """Both groups are alike by their priors; one has moved. Sides that lean on the prior lose a part of the change."""
    rng = np.random.default_rng(3)
    plan = make_plan(
        {"a": Prior.of({"yes": 0.1, "no": 0.9}), "b": Prior.of({"yes": 0.1, "no": 0.9})}, Survey("yes"), epsilon=1
    )
    gaps = np.zeros((40, 2))
    for gap in gaps:
        yes = rng.binomial(400, [0.1, 0.16])
        tally = tally_of(plan, np.stack([yes, 400 - yes], axis=1), rng)
        parts = Collected(plan, cells_of(plan, tally)).parts("group")
        gap[0] = parts[1].mean[0] - parts[0].mean[0]
        gap[1] = np.diff([estimate(plan, tally, "assisted", group=name).rows[0].estimate / 400 for name in "ab"])[0]
    unbiased, assisted = gaps.mean(axis=0)
    assert abs(unbiased - 0.06) < 4 * gaps[:, 0].std() / math.sqrt(40)
    # The same reports, so that the loss is seen pair by pair.
    lost = gaps[:, 0] - gaps[:, 1]
    assert unbiased - assisted == pytest.approx(lost.mean())
    assert lost.mean() > 4 * lost.std() / math.sqrt(40)


def test_few_reports_are_covered_and_said():
    truth, people = np.array([0.2, 0.4, 0.3]), np.array([15, 20, 400])
    rng, held = np.random.default_rng(4), 0
    for _ in range(100):
        first, second, _ = collected(truth, people, rng).parts("group")
        (row,) = differences([(first, second)]).rows
        held += row.low <= -0.2 <= row.high
        assert row.few
    assert held > 0.88 * 100


def test_simultaneous_intervals_hold_for_all_at_once():
    truth, people = np.array([0.1, 0.1, 0.1]), np.array([500, 500, 500])
    rng, alone, together = np.random.default_rng(5), 0, 0
    for _ in range(80):
        parts = collected(truth, people, rng).parts("group")
        pairs = [(parts[0], parts[1]), (parts[0], parts[2]), (parts[1], parts[2])]
        alone += any(row.significant for row in differences(pairs).rows)
        together += any(row.significant for row in differences(pairs, simultaneous=True).rows)
    assert together < 0.13 * 80
    assert alone > 1.4 * together


def test_earlier_numbers_bring_their_sampling_error():
    """Last year's 500 records vary as well; taken as exact, intervals cover too rarely."""
    truth, people, records = np.array([0.1, 0.15, 0.2]), np.array([4000, 4000, 4000]), 400
    rng, held, exact = np.random.default_rng(6), 0, 0
    plan = make_plan(PRIORS, Survey("yes"), epsilon=3)
    for _ in range(80):
        part = collected(truth, people, rng, plan).part()
        seen = rng.binomial(records, truth) / records
        distributions = {name: Prior.of({"yes": p, "no": 1 - p}) for name, p in zip("abc", seen, strict=True)}
        for sampled in (True, False):
            known = {name: (prior, records if sampled else None) for name, prior in distributions.items()}
            (row,) = differences([(part, known_before(part, known, "2025"))]).rows
            if sampled:
                held += row.low <= 0 <= row.high
            else:
                exact += row.low <= 0 <= row.high
    assert held > 0.87 * 80
    assert exact < 0.8 * 80


def test_the_prior_is_compared_in_the_mix_of_those_who_answered():
    reports = collected(np.array(SHARES), np.array([100, 200, 700]), np.random.default_rng(7))
    (row,) = differences([(reports.part(), the_prior(reports.part()))]).rows
    assert row.second == pytest.approx(np.array(SHARES) @ [0.1, 0.2, 0.7])
    assert row.other == "the prior"


def test_means_of_sums_and_rows_of_histograms_are_compared():
    rng = np.random.default_rng(8)
    for task in (Sum(), Histogram()):
        plan = make_plan({name: Prior.of({0: 0.5, 1: 0.3, 3: 0.2}) for name in "ab"}, task, epsilon=1)
        tally = tally_of(plan, [[900, 50, 50], [100, 200, 700]], rng)
        rows = differences([tuple(Collected(plan, cells_of(plan, tally)).parts("group"))]).rows
        expected = [0.2 - 2.3] if task == Sum() else [0.8, -0.15, -0.65]
        assert [row.value for row in rows] == ([None] if task == Sum() else [0, 1, 3])
        for row, true in zip(rows, expected, strict=True):
            assert abs(row.difference - true) < 5 * row.standard_error


def test_different_questions_are_not_compared():
    rng = np.random.default_rng(9)
    other = make_plan(PRIORS, Survey("no"), epsilon=1)
    first, second = (collected(SHARES, [50, 50, 50], rng, plan).part() for plan in (PLAN, other))
    with pytest.raises(ValueError, match="different things"):
        differences([(first, second)])


def test_a_ratio_without_ends_is_not_told():
    low, high = fieller(2.0, 1.0, (0.01, 0.01, 0.0), 1.96)
    # Every ratio inside is one that the test does not reject, and none outside.
    for ratio, inside in ((low + 1e-9, True), (high - 1e-9, True), (low - 1e-6, False), (high + 1e-6, False)):
        assert (abs(2.0 - ratio) <= 1.96 * math.sqrt(0.01 + ratio**2 * 0.01)) == inside
    assert fieller(0.1, 0.1, (0.01, 0.01, 0.0), 1.96) == (-math.inf, math.inf)
    yes = Tally.of(PLAN, [0, 1, 1, 0, 1, 1], ["a", "a", "a", "b", "b", "b"])
    (row,) = differences([tuple(Collected(PLAN, cells_of(PLAN, yes)).parts("group"))]).rows
    assert math.isnan(row.ratio_low)
    assert math.isnan(row.ratio_high)


def test_one_tally_that_is_another_plans_is_refused():
    with pytest.raises(ValueError, match="another plan"):
        cells_of(PLAN, Tally("0" * 64, {}))
