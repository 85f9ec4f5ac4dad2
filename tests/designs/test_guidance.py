"""Choosing ε and how many to ask: beliefs stay within what is said, and a difference is seen as often as promised."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import Histogram, Prior, Sum, Survey, WeightedSum, make_plan, unbiased_variance
from tacit.designs import GroupPrior, Uncertainty
from tacit.designs.guidance import (
    BELIEFS,
    costs,
    guide,
    highest_belief,
    nearly_sure,
    other_beliefs,
    read_difference,
    respondents_to_detect,
)
from tacit.designs.planning import Sampling, group_priors, with_ldp

RARE = Prior.of({"yes": 0.1, "no": 0.9})


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 99), st.sampled_from(["1/4", "1", "5/2"]))
def test_no_report_of_a_plan_raises_a_belief_further_than_said(percent, epsilon):
    prior = Prior.of({"yes": percent, "no": 100 - percent})
    (group,) = make_plan(prior, Survey("yes"), epsilon).groups
    assert group.mechanism.belief("yes").high <= highest_belief(Fraction(percent, 100), epsilon)


def test_beliefs_in_words():
    assert float(highest_belief(0.01, 1)) == pytest.approx(0.01 * math.e)
    assert float(highest_belief(0.5, 2)) == pytest.approx(1 - 0.5 * math.exp(-2))
    odds = 0.5 * math.e
    assert float(highest_belief(0.5, 1, "ldp")) == pytest.approx(odds / (0.5 + odds))
    with pytest.raises(ValueError, match="between 0 and 1"):
        highest_belief(1.5, 1)


def test_a_belief_that_nearly_becomes_certain_is_found():
    assert nearly_sure(make_plan(RARE, Survey("yes"), 1)) is None
    name, moved = nearly_sure(make_plan({"a": RARE, "b": Prior.of({"yes": 0.4, "no": 0.6})}, Survey("yes"), 2))
    assert (name, moved.value) == ("b", "yes")
    assert moved.high >= Fraction(9, 10)
    # That most people hold it is no secret that a report gave away.
    assert nearly_sure(make_plan(Prior.of({"yes": 0.95, "no": 0.05}), Survey("yes"), 1)) is None


def test_a_guide_has_a_row_for_each_budget():
    rows = guide(group_priors(RARE), Survey("yes"), 10_000, ["0.5", "2"], detect=0.02)
    assert [float(row.epsilon) for row in rows] == [0.5, 2]
    assert rows[0].expected_rmse > rows[1].expected_rmse
    assert rows[0].detection.per_wave > rows[1].detection.per_wave
    assert all(a < b for a, b in zip(rows[0].beliefs, rows[1].beliefs, strict=True))
    assert rows[0].to_dict()["beliefs"].keys() == {str(float(p)) for p in BELIEFS}


@pytest.mark.parametrize(
    ("text", "task", "difference"),
    [("2pp", Survey("yes"), 0.02), ("2 %", Histogram(), 0.02), ("0.02", Survey("yes"), 0.02), ("1/2", Sum(), 0.5)],
)
def test_differences_as_people_write_them(text, task, difference):
    assert read_difference(text, task) == pytest.approx(difference)


@pytest.mark.parametrize(("text", "task"), [("2", Survey("yes")), ("-1pp", Survey("yes")), ("much", Sum())])
def test_what_is_no_difference(text, task):
    with pytest.raises(ValueError, match=r"pp|number"):
        read_difference(text, task)


def test_a_difference_is_seen_as_often_as_promised():
    """Two waves of the stated size, many times; half as many people, the named wrong answer, see it far less often."""
    before, after, runs = 0.165, 0.195, 20_000
    plan = make_plan(Prior.of({"yes": 0.18, "no": 0.82}), Survey("yes"), 2)
    needed = respondents_to_detect(plan, [Fraction(1)], after - before).per_wave
    yes, no = plan.groups[0].mechanism.matrix[:, 0]
    rng = np.random.default_rng(11)

    def seen(n: int) -> float:
        """How often the difference of two unbiased estimates exceeds 1.96 of its standard error."""
        sent = [rng.binomial(n, share * yes + (1 - share) * no, runs) / n for share in (before, after)]
        first, second = ((part - no) / (yes - no) for part in sent)
        variance = sum(part * (1 - part) / n / (yes - no) ** 2 for part in sent)
        return float(np.mean(np.abs(second - first) > 1.959964 * np.sqrt(variance)))

    # Six standard errors of the runs, and half a point for normal approximations.
    assert plan.groups[0].mechanism.matrix.shape == (2, 2)
    assert abs(seen(needed) - 0.8) < 6 * math.sqrt(0.16 / runs) + 0.005
    assert seen(needed // 2) < 0.6


def test_a_finite_population_and_a_design_effect_are_part_of_the_errors():
    """By enumeration: samples of 6 from 10 people, 4 of whom say yes, each randomized."""
    plan = make_plan(Prior.of({"yes": 0.4, "no": 0.6}), Survey("yes"), 2)
    yes, no = (float(p) for p in plan.groups[0].mechanism.matrix[:, 0] / plan.groups[0].mechanism.matrix[0].sum())
    error = 0.0
    for held in range(5):
        chance = math.comb(4, held) * math.comb(6, 6 - held) / math.comb(10, 6)
        spread = (held * yes * (1 - yes) + (6 - held) * no * (1 - no)) / (yes - no) ** 2
        error += chance * (spread + (held - 2.4) ** 2)
    shares = [Fraction(1)]
    # The expected variance is that of 10 draws from the prior: those of exactly 4 in 10 vary by 10/9 more.
    known = costs(plan, shares, 6, sampling=Sampling(10)).expected_rmse ** 2
    assert error - known == pytest.approx(6 * 0.24 * 0.4 / 9, rel=1e-6)
    assert costs(plan, shares, 6).expected_rmse ** 2 > 1.2 * error, "the wrong answer: without the population"
    twice = costs(plan, shares, 6, sampling=Sampling(10, 2.0))
    assert twice.expected_rmse**2 == pytest.approx(2 * known)
    assert twice.respondents_needed["this plan"] == 1
    all_of_them = costs(plan, shares, 10, sampling=Sampling(10))
    assert all_of_them.expected_rmse == pytest.approx(all_of_them.for_participants)
    with pytest.raises(ValueError, match="more than the population"):
        costs(plan, shares, 11, sampling=Sampling(10))


def test_fewer_respondents_of_a_small_population_show_a_difference():
    """The stated number, put into the variance of a difference: exactly the one that the power needs."""
    plan = make_plan(Prior.of({"yes": 0.2, "no": 0.8}), Survey("yes"), 2)
    whole = unbiased_variance(plan.groups[0].mechanism, plan.task)
    found = respondents_to_detect(plan, [Fraction(1)], 0.05, sampling=Sampling(3000, 1.5)).per_wave
    allowed = (0.05 / (1.959964 + 0.841621)) ** 2
    for n, enough in ((found, True), (found - 1, False)):
        assert (2 * 1.5 * (whole / n - 0.16 / 3000) <= allowed) is enough
    assert found < respondents_to_detect(plan, [Fraction(1)], 0.05, sampling=Sampling(None, 1.5)).per_wave


def test_two_groups_need_what_the_two_with_the_largest_variance_do():
    flat = Prior.of({"yes": 0.5, "no": 0.5})
    plan = make_plan({"a": RARE, "b": flat, "c": Prior.of({"yes": 0.2, "no": 0.8})}, Survey("yes"), 1)
    found = respondents_to_detect(plan, [Fraction(1, 3)] * 3, 0.05)
    variances = {group.name: unbiased_variance(group.mechanism, plan.task) for group in plan.groups}
    *_, second, first = sorted(variances, key=variances.__getitem__)
    assert found.groups == (first, second)
    scale = (1.959964 + 0.841621) ** 2 / 0.05**2
    assert found.per_group == pytest.approx(scale * (variances[first] + variances[second]), abs=2)
    assert found.per_wave == pytest.approx(scale * 2 * sum(variances.values()) / 3, abs=2)


def test_sums_and_histograms():
    histogram = make_plan(Prior.of({"a": 5, "b": 3, "c": 2}), Histogram(), 1)
    (group,) = histogram.groups
    worst = max(unbiased_variance(group.mechanism, Survey(value)) for value in "abc")
    found = respondents_to_detect(histogram, [Fraction(1)], 0.05)
    assert found.groups is None
    assert found.per_wave == pytest.approx((1.959964 + 0.841621) ** 2 / 0.05**2 * 2 * worst, abs=2)
    numbers = make_plan(Prior.of({0: 1, 10: 1}), Sum(), 1)
    whole, half = (respondents_to_detect(numbers, [Fraction(1)], size).per_wave for size in (1.0, 0.5))
    assert half == pytest.approx(4 * whole, rel=0.01)


def test_what_cannot_be_detected():
    plan = make_plan(RARE, Survey("yes"), 1)
    weighted = make_plan(Prior.of({0: 1, 10: 1}), WeightedSum(), 1)
    trusting = make_plan(Prior.uniform(8), Histogram(), math.log(3), aim="mmse")  # Arcs of two values.
    for case, difference, power, said in (
        (plan, 0.0, 0.8, "must be positive"),
        (plan, 0.1, 1.0, "between 0 and 1"),
        (weighted, 1.0, 0.8, "weighted sum"),
        (trusting, 0.1, 0.8, "read with the prior only"),
    ):
        with pytest.raises(ValueError, match=said):
            respondents_to_detect(case, [Fraction(1)], difference, power)


def test_a_guide_takes_budgets_below_the_cap():
    group = [GroupPrior(name=None, prior=RARE)]
    assert [float(each.epsilon) for each in guide(group, Survey("yes"), 100)] == [0.5, 1, 1.5, 2, 3]
    assert [float(each.epsilon) for each in guide(group, Survey("yes"), 100, ldp_cap="1.5")] == [0.5, 1]
    assert [float(each.epsilon) for each in guide(group, Survey("yes"), 100, ldp_cap="0.5")] == [0.25]


def test_costs_are_the_expected_errors_and_what_other_promises_need():
    group, shares = [GroupPrior(name=None, prior=RARE)], [Fraction(1)]
    exact = with_ldp(make_plan(group, Survey("yes"), 1))
    wide = with_ldp(make_plan(group, Survey("yes"), 1, uncertainty=Uncertainty(error="0.05")))
    found = costs(wide, shares, 500, exact)
    assert list(found.price) == ["exact prior", "this plan", "ldp", "ldp at equal level"]
    assert found.expected_rmse == pytest.approx(wide.expected_rmse(shares, 500), rel=1e-12)
    assert found.respondents_needed["this plan"] == 1
    ldp = found.respondents_needed["ldp"]
    assert found.respondents_needed["exact prior"] < 1 < ldp
    # The named wrong answer is the ratio of errors, not of variances.
    assert ldp == pytest.approx((found.price["ldp"] / found.expected_rmse) ** 2, rel=1e-12)
    assert ldp != pytest.approx(found.price["ldp"] / found.expected_rmse, rel=1e-3)
    assert found.level_if_prior_off is None
    off = costs(exact, shares, 500).level_if_prior_off
    assert 1 < off["0.03"] < off["0.1"]
    assert off["0.1"] == exact.groups[0].levels_within("0.1")


def test_other_beliefs_are_audited_exactly():
    plan = make_plan(RARE, Survey("yes"), 1)
    (own,) = other_beliefs(plan, {None: RARE})
    rarer = Prior.of({"yes": 0.01, "no": 0.99})
    (other,) = other_beliefs(plan, {None: rarer})
    assert own.exact
    assert own.level == plan.groups[0].audit.lip.epsilon
    assert other.level == plan.groups[0].mechanism.under(rarer).audit().lip.epsilon > own.level
    assert other_beliefs(plan, {"elsewhere": RARE}) == []
