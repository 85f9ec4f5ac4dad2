"""Numbers between the values: rounded to a neighbour so that the mean stays what it is."""

from __future__ import annotations

import numpy as np
import pytest

from tacit import Prior, Randomizer, Sum, Tally, estimate, make_plan
from tacit.randomize import SeededWords

PLAN = make_plan(Prior.of({0: 3, 10: 4, 25: 2, 40: 1}), Sum(), 1, between=(0, 40))
KNOTS = np.array(PLAN.values, dtype=float)


class Chosen:
    """Words that are known beforehand."""

    per_thread = False

    def __init__(self, *words: int) -> None:
        self._words = np.array(words, dtype=np.uint64)

    def draw(self, count: int, bits: int) -> np.ndarray:
        assert (count, bits) == (len(self._words), 64)
        return self._words


def test_the_chance_of_the_upper_neighbour_is_the_part_of_the_way():
    low, high = KNOTS[0], KNOTS[1]
    for part in (0.0, 0.25, 0.5, 1 - 2**-20):
        x = low + part * (high - low)
        edge = int(np.floor((x - low) / (high - low) * 2.0**53)) << 11
        words = [word for word in (0, edge - 1, edge, 2**64 - 1) if 0 <= word < 2**64]
        places = Randomizer(PLAN).rounded([x] * len(words), Chosen(*words))
        assert places.tolist() == [int(word < edge) for word in words]
    ends = Randomizer(PLAN).rounded([KNOTS[0], KNOTS[-1]], Chosen(0, 2**64 - 1))
    assert ends.tolist() == [0, len(KNOTS) - 1]


def test_numbers_outside_the_range_are_refused_and_not_named():
    for wrong in (-0.001, 40.001, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="from 0 to 40") as refused:
            Randomizer(PLAN).randomize([1.0, wrong])
        assert "40.001" not in str(refused.value)


def test_the_sum_of_numbers_is_estimated_within_its_interval_and_rounding_down_is_not():
    rng = np.random.default_rng(5)
    randomizer, words = Randomizer(PLAN), SeededWords(7)
    covered = covered_down = 0
    for _ in range(150):
        held = rng.gamma(2.0, 6.0, 1500).clip(0, 40)
        row = estimate(PLAN, Tally.of(PLAN, randomizer.randomize(held, words=words))).rows[0]
        covered += row.low <= held.sum() <= row.high
        down = KNOTS[np.searchsorted(KNOTS, held, side="right") - 1]
        row = estimate(PLAN, Tally.of(PLAN, randomizer.randomize(down, words=words))).rows[0]
        covered_down += row.low <= held.sum() <= row.high
    assert 0.88 * 150 < covered <= 150
    assert covered_down < 0.5 * 150


def test_what_rounding_adds_is_part_of_the_error_also_where_reports_say_nearly_everything():
    plan = make_plan(Prior.of({0: 3, 10: 4, 25: 2, 40: 1}), Sum(), 6, between=(0, 40))
    rng, randomizer, words = np.random.default_rng(6), Randomizer(plan), SeededWords(8)
    held = rng.gamma(2.0, 6.0, 1500).clip(0, 40)
    rows = [estimate(plan, Tally.of(plan, randomizer.randomize(held, words=words))).rows[0] for _ in range(60)]
    actual = np.std([row.estimate for row in rows])
    assert min(row.standard_error for row in rows) > actual
    # The named wrong answer: the spread of reports given the rounded values, as if those were the answers.
    group = plan.groups[0]
    per_person = group.certificate.unbiased_variance - group.certificate.prior_variance
    assert np.sqrt(1500 * per_person) < 0.7 * actual
