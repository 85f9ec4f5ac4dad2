"""Sums: intervals hold where all people hold one value, and errors are those of the reports."""

from __future__ import annotations

import numpy as np
import pytest

from tacit import Prior, Sum, estimate, make_plan
from tacit.estimates._totals import Bounds
from tacit.tally import Counts, Tally

#: Days of bad mental health, 0 to 30, much like BRFSS: most people have none, some have all.
DAYS = Prior.of({day: 60 if day == 0 else 6 if day == 30 else 4 if day % 5 == 0 else 2 for day in range(31)})
SCOPES = ("participants", "population")


@pytest.fixture(scope="module")
def plans():
    return {epsilon: make_plan(DAYS, Sum(), epsilon=epsilon) for epsilon in (1, 2, 3, 5)}


def drawn(plan, people, rounds, seed=1):
    """How often each report came, in each round; `people` is the number of people with each value."""
    rng, matrix = np.random.default_rng(seed), plan.groups[0].mechanism.matrix
    return sum(rng.multinomial(n, matrix[x], size=rounds) for x, n in enumerate(people) if n)


def ends_of(plan, counts, scope):
    tally = Tally(plan.hash, {None: Counts(np.flatnonzero(counts), counts[counts > 0])})
    (row,) = estimate(plan, tally, scope=scope).rows
    return row


def coverage(plan, people, scope, rounds=400):
    different, often = np.unique(drawn(plan, people, rounds), axis=0, return_counts=True)
    total = float(people @ DAYS.numbers)
    rows = [ends_of(plan, counts, scope) for counts in different]
    held = np.array([row.low - 1e-9 <= total <= row.high + 1e-9 for row in rows])
    inside = all(0 <= row.low <= row.high <= 30 * people.sum() for row in rows)
    normal = [abs(row.estimate - total) <= 1.96 * row.standard_error for row in rows]
    return held @ often / rounds, np.array(normal) @ often / rounds, inside


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(("epsilon", "n", "value"), [(2, 50, 0), (5, 300, 30), (1, 20, 0), (3, 20, 30), (5, 50, 1)])
def test_all_people_hold_one_value(plans, epsilon, n, value, scope):
    people = np.zeros(31, dtype=int)
    people[value] = n
    held, _, inside = coverage(plans[epsilon], people, scope)
    # 94%, less three standard errors of 400 rounds.
    assert held > 0.905
    assert inside


def test_the_normal_interval_is_the_named_wrong_answer(plans):
    """Half of 50 people hold 0 and half 30, at ε = 5: ± 1.96 standard errors of few rare reports cover too little."""
    people = np.zeros(31, dtype=int)
    people[0] = people[30] = 25
    held, normal, _ = coverage(plans[5], people, "participants")
    assert held > 0.93 > normal


@pytest.mark.parametrize("epsilon", [3, 5])
def test_the_standard_error_about_participants_is_that_of_the_reports(plans, epsilon):
    """The spread of the reports holds the spread of the answers as well: at ε = 5 it is several times too large."""
    people, plan = np.random.default_rng(0).multinomial(3000, DAYS.probabilities), plans[epsilon]
    errors, counts = [], drawn(plan, people, 200)
    rows = [ends_of(plan, each, "participants") for each in counts]
    errors = np.std([row.estimate for row in rows])
    stated = np.mean([row.standard_error for row in rows])
    assert 0.9 * errors < stated < 1.25 * errors
    sampled = np.mean([ends_of(plan, each, "population").standard_error for each in counts[:20]])
    assert sampled > 1.8 * stated


def test_bounds_of_two_groups_are_those_of_all_splits():
    """By brute force: the least and the largest variance over all ways to reach a total."""
    one = (3, np.array([[0.0], [1.0], [3.0]]), np.array([[1.0], [4.0], [2.0]]))
    two = (2, np.array([[0.0], [2.0]]), np.array([[5.0], [0.5]]))
    (bounds,) = Bounds.of([one, two], sampled=0.0)
    shares = np.linspace(0, 1, 41)
    found = {}
    for a in shares:
        for b in shares[shares <= 1 - a + 1e-12]:
            for c in shares:
                total = 3 * (b + 3 * (1 - a - b)) + 2 * 2 * c
                variance = 3 * (a + 4 * b + 2 * (1 - a - b)) + 2 * (5 * (1 - c) + 0.5 * c)
                least, most = found.get(round(total, 6), (np.inf, -np.inf))
                found[round(total, 6)] = min(least, variance), max(most, variance)
    totals = np.array(sorted(found))
    least, most = np.array([found[total] for total in totals]).T
    assert (np.interp(totals, *bounds.least) <= least + 1e-9).all()
    assert (np.interp(totals, *bounds.most) >= most - 1e-9).all()
    assert np.min(least - np.interp(totals, *bounds.least)) < 1e-9
    assert np.min(np.interp(totals, *bounds.most) - most) < 1e-9
