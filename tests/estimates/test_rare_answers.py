"""Answers that hardly anybody gives, in reports with little noise: coverage is computed, not simulated.

Of N reports C cover a value that h people hold, C = Bin(h, p) + Bin(N − h, q), and the interval is a function of C.
For a population of which h/N hold it, C = Bin(N, π), π = q + (p − q) h/N.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

from tacit import Histogram, Prior
from tacit.designs.without_prior import subset_selection
from tacit.estimates import Row, Scope, cells_of, estimate
from tacit.estimates._cells import Collected
from tacit.estimates._totals import found as found_total
from tacit.mechanism import BlockDesign
from tacit.mechanism.kept import COVERAGE_UNIT
from tacit.plan import Group, Plan
from tacit.tally import Coverage, Tally

PEOPLE, SIZE, HOLDERS = 300, 200, range(11)


def plan_of(epsilon: int) -> Plan:
    mechanism = subset_selection(Prior.uniform(SIZE), Fraction(epsilon))
    group = Group(name=None, epsilon=Fraction(epsilon), mechanism=mechanism, notion="ldp")
    return Plan.of_groups(Histogram(), (group,))


def chances(plan: Plan) -> tuple[BlockDesign, float, float]:
    mechanism = plan.groups[0].mechanism
    assert isinstance(mechanism, BlockDesign)
    return mechanism, float(mechanism.own), float(mechanism.other)


def seen_by_participants(plan: Plan, holders: int) -> np.ndarray:
    _, p, q = chances(plan)
    others = PEOPLE - holders
    return np.convolve(binom.pmf(range(others + 1), others, q), binom.pmf(range(holders + 1), holders, p))


def seen_by_population(plan: Plan, holders: int) -> np.ndarray:
    _, p, q = chances(plan)
    return binom.pmf(range(PEOPLE + 1), PEOPLE, q + (p - q) * holders / PEOPLE)


def tally_with(plan: Plan, seen: int) -> Tally:
    """So many reports cover the first value, the others are covered as often as may be."""
    mechanism, _, q = chances(plan)
    fewest, most = mechanism.cover_range
    rest = int(np.clip(round(PEOPLE * q * (SIZE - 1)), fewest * PEOPLE - seen, most * PEOPLE - seen))
    counts = [seen, *(rest // (SIZE - 1) + (k < rest % (SIZE - 1)) for k in range(SIZE - 1))]
    return Tally(plan.hash, {None: Coverage(np.array(counts, dtype=np.int64) * COVERAGE_UNIT, PEOPLE)})


def least_coverage(
    plan: Plan, seen_by: Callable[[Plan, int], np.ndarray], interval: Callable[[Plan, Tally], Row]
) -> float:
    """The least, over 0 to 10 holders, of the probability that the 95% interval has them in it."""
    chance = np.array([seen_by(plan, holders) for holders in HOLDERS])
    likely = np.flatnonzero(chance.max(axis=0) > 1e-6)
    rows = [interval(plan, tally_with(plan, int(seen))) for seen in likely]
    hit = np.array([[row.low <= holders <= row.high for row in rows] for holders in HOLDERS])
    return float((chance[:, likely] * hit).sum(axis=1).min())


def estimated(plan: Plan, tally: Tally) -> Row:
    return estimate(plan, tally, "unbiased", scope="participants", simultaneous=False).rows[0]


def collected(scope: Scope, plan: Plan, tally: Tally) -> Row:
    found = found_total(Collected(plan, cells_of(plan, tally)).part(), "unbiased", scope, 0.95)
    return Row(value=0, estimate=found.estimate[0], standard_error=found.error[0], low=found.low[0], high=found.high[0])


@pytest.mark.parametrize("epsilon", [4, 5])
def test_intervals_cover_rare_answers(epsilon: int):
    plan = plan_of(epsilon)
    assert least_coverage(plan, seen_by_participants, estimated) > 0.95
    assert least_coverage(plan, seen_by_participants, partial(collected, "participants")) > 0.925
    assert least_coverage(plan, seen_by_population, partial(collected, "population")) > 0.95


def test_the_variance_at_the_estimate_alone_does_not(monkeypatch: pytest.MonkeyPatch):
    """The named wrong answer: holders go unseen in half of the cases, and the variance at zero forgets them."""
    read = BlockDesign.read
    monkeypatch.setattr(BlockDesign, "read", lambda *given: replace(read(*given), slope=0.0))
    assert least_coverage(plan_of(5), seen_by_participants, estimated) < 0.94


def test_frequent_answers_keep_their_intervals():
    """A quarter of the people: an interval of its own variance is as wide as ever, to a hundredth."""
    plan = plan_of(1)
    _, p, q = chances(plan)
    row = estimated(plan, tally_with(plan, round(PEOPLE * (q + (p - q) / 4))))
    variance = PEOPLE * (p * (1 - p) / 4 + q * (1 - q) * 3 / 4) / (p - q) ** 2
    assert row.high - row.low == pytest.approx(2 * (1.96 * variance**0.5 + 0.5 / (p - q)), rel=0.015)
