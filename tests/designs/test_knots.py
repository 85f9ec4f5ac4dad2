"""Sums by random rounding to knots: unbiased for every answer, close to the best, private also between the values."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Literal

import numpy as np
import pytest

from tacit import Matrix, NotEstimableError, Prior, Sum, Task, WeightedSum, audit, design, verify
from tacit.designs import Design, Promise
from tacit.designs.knots import rounded_to
from tacit.mechanism.table._reading import unbiased_weights
from tacit.prior import Ball

UNIFORM = Prior.uniform(100)
ZIPF = Prior(range(100), [Fraction(10**6, k + 1) for k in range(100)])
BELL = Prior(range(60), [round(10**6 * math.exp(-(((k - 30) / 12) ** 2) / 2)) for k in range(60)])


@cache
def designed(prior: Prior, epsilon: int, notion: Literal["lip", "ldp"] = "lip") -> Design:
    """The design of a sum, made once for the tests that look at it."""
    return design(prior, Sum(), Promise(epsilon, notion=notion))


def linear_ldp_variance(prior: Prior, epsilon: float) -> float:
    """Answers rounded at random to the two ends, and randomized response on those: the best linear LDP mechanism.

    Its estimate takes two values ±B around the middle, B = (width/2)(E+1)/(E−1), whatever the answer.
    """
    low, high = prior.numbers.min(), prior.numbers.max()
    e = math.exp(epsilon)
    return ((high - low) / 2 * (e + 1) / (e - 1)) ** 2 - (prior.probabilities @ prior.numbers - (low + high) / 2) ** 2


@pytest.mark.parametrize(
    ("prior", "epsilon", "known"),
    [(UNIFORM, 1, 3298), (UNIFORM, 2, 1187), (ZIPF, 1, 5999), (ZIPF, 2, 1242), (BELL, 1, 1172), (BELL, 2, 288)],
)
def test_the_variance_is_the_known_one_and_proved_to_be_near_the_best(prior, epsilon, known):
    found = designed(prior, epsilon)
    certificate = found.certificate
    assert certificate.unbiased_variance == pytest.approx(known, rel=2e-3)
    assert 0.8 * known < certificate.lower_bound < known
    assert verify(found).holds
    assert audit(found.channel).lip.holds(Fraction(epsilon))


@pytest.mark.parametrize("prior", [ZIPF, BELL], ids=["zipf", "bell"])
def test_a_sum_needs_at_most_six_tenths_of_the_respondents_of_linear_ldp(prior):
    assert designed(prior, 1).certificate.unbiased_variance <= 0.6 * linear_ldp_variance(prior, 1)
    # The named wrong answer: an LDP channel, however good.
    ends = designed(prior, 1, "ldp").certificate.unbiased_variance
    assert ends > 0.6 * linear_ldp_variance(prior, 1)


@pytest.mark.parametrize("task", [Sum(), WeightedSum()])
def test_the_weights_of_reports_are_unbiased_for_every_answer(task):
    found = design(BELL, task, 1)
    t = unbiased_weights(found.channel, BELL.numbers[:, None])[:, 0]
    assert found.channel.matrix @ t == pytest.approx(BELL.numbers, abs=1e-6)
    # Rounding to the nearer knot instead would not be.
    knots = rounded_to([Fraction(x) for x in range(60)], BELL, (Fraction(0), Fraction(30), Fraction(59)))
    nearest = np.array([0, 30, 59])[np.argmax(knots.weights, axis=1)]
    assert np.abs(nearest - BELL.numbers).max() > 10


def test_the_knots_induce_their_prior_exactly():
    knots = rounded_to(
        [Fraction(0), Fraction(1), Fraction(4)], Prior.of({0: 1, 1: 2, 4: 1}), [Fraction(0), Fraction(4)]
    )
    assert knots.prior.probability(4) == Fraction(3, 8)
    assert knots.weights.tolist() == [[1, 0], [0.75, 0.25], [0, 1]]
    with pytest.raises(ValueError, match="must hold all values"):
        rounded_to([Fraction(0), Fraction(5)], Prior.of({0: 1, 5: 1}), [Fraction(0), Fraction(4)])


def test_a_set_of_priors_costs_more_than_the_prior_and_less_than_ldp():
    near, far = (design(BELL, Sum(), Promise(1, prior_set=Ball(BELL, tau))) for tau in ("0.03", "0.1"))
    exact, near, far, ldp = (
        found.certificate.unbiased_variance for found in (designed(BELL, 1), near, far, designed(BELL, 1, "ldp"))
    )
    assert exact < near < far < ldp


def test_thousands_of_numbers_are_planned_with_few_reports():
    many = Prior(range(3000), [10**6 // (k + 1) + 1 for k in range(3000)])
    found = design(many, Sum(), 2)
    assert found.channel.n_possible_reports < 100
    assert verify(found).holds


class Squared(Task):
    """The sum of squares: a task of one's own with one number for each answer."""

    def g(self, prior):
        return prior.numbers[:, None] ** 2


def test_knots_serve_every_task_with_one_number_for_each_answer():
    """Column generation alone stops at the time limit with 26 times this variance."""
    prior = Prior.of({x: 1 + x % 7 for x in range(100)})
    found = design(prior, Squared(), 1)
    assert found.certificate.method.startswith("random rounding to")
    assert found.certificate.unbiased_variance < 1.15 * found.certificate.lower_bound
    t = unbiased_weights(found.channel, Squared().g(prior))
    assert found.channel.matrix @ t == pytest.approx(Squared().g(prior), abs=1e-6 * 99**2)
    # Knots of the answers themselves are unbiased for x, not for x².
    of_the_sum = design(prior, Sum(), 1).channel
    with pytest.raises(NotEstimableError):
        unbiased_weights(of_the_sum, Squared().g(prior))


def test_several_numbers_over_very_many_values_are_refused_with_advice():
    prior = Prior.uniform(501)
    two = Matrix([[x, x * x] for x in range(501)], names=["sum", "squares"])
    with pytest.raises(ValueError, match=r"Got 501\. Ask for each number in a plan of its own"):
        design(prior, two, 1)
