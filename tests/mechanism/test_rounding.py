from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from studies.baselines import cyclic
from tacit import Channel, Histogram, Prior, PrivacyError, mse, prior_variance, round_channel, satisfies
from tacit.designs import repaired_response

from support.strategies import budgets, priors


def repaired_floats(p: np.ndarray, epsilon: float) -> np.ndarray:
    """The repaired randomized response in floats: it touches its bound in every report."""
    e = math.exp(epsilon)
    m = np.maximum(p, 1 - e * p)
    s = (e - 1) / (e - 1 + m.sum())
    return s * np.eye(len(p)) + s * m / (e - 1)


def test_five_hundred_rounded_channels_keep_the_bound_and_their_utility():
    rng = np.random.default_rng(7)
    naive_failures = 0
    for case in range(500):
        d = int(rng.integers(2, 9))
        epsilon = float(np.round(rng.uniform(0.05, 6), 3))
        prior = Prior.of(dict(enumerate(rng.integers(1, 10**6, d).tolist())))
        matrix = repaired_floats(prior.probabilities, epsilon)
        channel = round_channel(prior, matrix, epsilon)
        assert channel.denominator == 2**32, case
        assert satisfies(channel, "lip", epsilon), case
        exact = Channel.from_matrix(prior, matrix, bits=128)
        variance = prior_variance(prior, Histogram())
        lost = mse(channel, Histogram()) - mse(exact, Histogram())
        assert lost <= 1e-4 * (variance - mse(exact, Histogram())), case
        naive_failures += not satisfies(Channel.from_matrix(prior, matrix, bits=32), "lip", epsilon)
    # The named wrong answer: rounding to nearest and hoping.
    assert naive_failures > 250


@given(priors(), budgets())
def test_rows_of_the_support_are_enough_and_strangers_say_nothing(prior, epsilon):
    channel = repaired_response(prior, epsilon)
    assert satisfies(channel, "lip", epsilon)
    for x, weight in enumerate(prior.weights):
        if not weight:
            assert np.allclose(channel.matrix[x], channel.marginal, atol=1e-8)


def test_a_matrix_that_is_not_private_is_refused_with_its_level():
    prior = Prior.of({"yes": 0.5, "no": 0.5})
    with pytest.raises(PrivacyError, match=r"not LIP at ε = 0.1: it reaches 1\.609"):
        round_channel(prior, [[0.9, 0.1], [0.1, 0.9]], 0.1)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0]], "one row for each"),
        ([[1.0, 0.0], [1.0]], "same length"),
        ([[1.0, math.nan], [1.0, 0.0]], "Row 0"),
        ([[1.0, 0.0], [1.2, -0.2]], "Row 1, output 1 is -0.2"),
        ([[1.0, 0.0], [0.0, 0.0]], "Row 1 is zero"),
    ],
)
def test_bad_matrices_are_refused_naming_the_row(matrix, message):
    with pytest.raises(ValueError, match=message):
        round_channel(Prior.uniform(2), matrix, 1)


def test_tiny_budgets_take_longer_words():
    prior = Prior.uniform(5)
    channel = cyclic(prior, 1e-6)
    assert channel.denominator > 2**32
    assert satisfies(channel, "lip", 1e-6)
    gained = prior_variance(prior, Histogram()) - mse(channel, Histogram())
    assert gained > 0


def test_rounding_is_exact_largest_remainder():
    channel = Channel.from_matrix(Prior.uniform(1), [[Fraction(1, 3), Fraction(1, 3), Fraction(1, 3)]], bits=4)
    assert channel.weights.tolist() == [[6, 5, 5]]


def test_columns_that_nobody_uses_are_dropped():
    channel = round_channel(Prior.uniform(2), [[0.5, 0.0, 0.5], [0.5, 0.0, 0.5]], 1)
    assert isinstance(channel, Channel)
    assert channel.n_possible_reports == 2
