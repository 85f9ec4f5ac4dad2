"""Quantiles: the design for them, intervals that cover, and which plans tell them."""

import numpy as np
import pytest

from tacit import Histogram, Prior, Quantiles, Randomizer, Sum, Survey, Tally, make_plan
from tacit.designs import design
from tacit.estimates import NotEstimableError, quantile_differences, quantiles
from tacit.plan import Plan, PlanError, Question, block_name
from tacit.randomize import RecordRandomizer, SeededWords

from support.questions import block_of

TWELVE = Prior.uniform(12)


def test_the_design_for_quantiles_beats_the_histograms_and_ldps():
    """Theory 12: uniform on 12 bins at ε = 1: 1.19 on average over the edges, from the histogram 1.98."""
    asked = design(TWELVE, Quantiles(), 1).certificate
    assert asked.unbiased_variance / 11 == pytest.approx(1.19, abs=0.01)
    assert asked.gap < 0.01
    histogram = design(TWELVE, Histogram(), 1).mechanism.unbiased_variance(Quantiles()) / 11
    assert 1.6 * asked.unbiased_variance / 11 < histogram < 2.0


@pytest.mark.parametrize("task", [Quantiles(), Histogram()])
def test_intervals_cover_the_quantile_of_the_population(task):
    """120 samples of 400 from a skewed distribution; an interval of the estimate alone would not cover."""
    plan, rng = make_plan(Prior.uniform(9), task, 2), np.random.default_rng(2)
    truth = np.array([0.3, 0.25, 0.15, 0.1, 0.08, 0.05, 0.04, 0.02, 0.01])
    right = {q: int(np.argmax(np.cumsum(truth) >= q)) for q in (0.5, 0.9)}
    covered, hit = dict.fromkeys(right, 0), 0
    for seed in range(120):
        answers = rng.choice(9, 400, p=truth)
        tally = Tally.of(plan, Randomizer(plan).reports(0, answers, SeededWords(seed)))
        for found in quantiles(plan, tally, list(right)):
            covered[found.q] += found.low <= right[found.q] <= found.high
            assert found.low <= found.value <= found.high
            hit += found.q == 0.9 and found.value == right[0.9]
    assert min(covered.values()) >= 107
    assert hit < 107


def test_medians_of_parts_and_of_a_question():
    few = Question(name="visits", answers=(0, 1, 2, 5, 10), task="quantiles")
    other = Question(name="ill", answers=("yes", "no"), kind="yes-no")
    plan = Plan((few, other), (block_of([few, other], [1] * 10, 5),))
    n = 3000
    blocks, reports = RecordRandomizer(plan).randomize(
        {"visits": ([0] * 2 + [2] * 5 + [10] * 3) * (n // 10), "ill": ["no"] * n}, words=SeededWords(5)
    )
    tally = Tally.of(plan, reports, [block_name(None, 1)] * len(blocks))
    median, ninety = quantiles(plan, tally, [0.5, 0.9], question="visits")
    assert (median.value, median.low, median.high) == (2, 2, 2)
    assert ninety.value == 10
    with pytest.raises(ValueError, match="which one"):
        quantiles(plan, tally)


def test_differences_of_medians_cover_and_tell_parts_apart():
    """60 pairs of samples: medians 3 and 5 of nine numbers; the difference of a wrong sign is never inside."""
    plan, rng = make_plan({"a": Prior.uniform(9), "b": Prior.uniform(9)}, Quantiles(), 2), np.random.default_rng(2)
    shapes = [np.exp(-0.5 * ((np.arange(9) - middle) / 2) ** 2) for middle in (3, 5)]
    covered = wrong = 0
    for seed in range(60):
        parts = [
            Randomizer(plan).reports(k, rng.choice(9, 600, p=shape / shape.sum()), SeededWords(2 * seed + k))
            for k, shape in enumerate(shapes)
        ]
        tally = Tally.of(plan, np.concatenate(parts).tolist(), ["a"] * 600 + ["b"] * 600)
        (row,) = quantile_differences(plan, tally, by="group")
        covered += row.low <= -2 <= row.high
        wrong += row.high >= 2
        assert row.low <= row.difference <= row.high
    assert covered >= 54
    assert wrong == 0
    (same,) = quantile_differences(plan, tally, before=tally, names=("2015", "now"))
    assert (same.part, same.other, same.difference, same.significant) == ("now", "2015", 0, False)
    with pytest.raises(ValueError, match="Say what to compare"):
        quantile_differences(plan, tally)


def test_plans_that_do_not_tell_the_distribution_are_refused():
    plan = make_plan(Prior.uniform(30), Sum(), 1)
    with pytest.raises(NotEstimableError):
        quantiles(plan, Tally.of(plan, [0, 1]))
    names = make_plan(Prior.of({"yes": 0.5, "no": 0.5}), Survey("yes"), 1)
    with pytest.raises(TypeError, match="numeric"):
        quantiles(names, Tally.of(names, [0, 1]))
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantiles(plan, Tally.of(plan, [0, 1]), [1.5])
    with pytest.raises(PlanError, match="means only"):
        Question(name="x", answers=(0, 10), kind="number", task="quantiles")


def test_possible_counts_do_not_fall():
    assert Quantiles().possible(np.array([5.0, 3.0, 12.0]), 10).tolist() == [4.0, 4.0, 10.0]
