from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import Prior

from support.strategies import priors


def test_floats_become_the_decimals_they_print_as():
    assert Prior.of({"yes": 0.1, "no": 0.9}).probability("yes") == Fraction(1, 10)


def test_extreme_probabilities_stay_exact():
    prior = Prior.of({"rare": 1e-12, "common": "0.999999999999"})
    assert prior.probability("rare") == Fraction(1, 10**12)
    assert prior.probabilities.sum() == 1.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8])
def test_an_array_of_weights_is_a_prior_on_its_positions(dtype):
    prior = Prior.of(np.array([4, 0, 1], dtype=dtype))
    assert (prior.values, prior.weights, prior.support) == ((0, 1, 2), (4, 0, 1), (0, 2))
    assert prior == Prior.of([4, 0, 1]) == Prior.of({0: 4, 1: 0, 2: 1})
    assert Prior.of(np.array([0.1, 0.9])).weights == (1, 9)
    for wrong in (np.zeros((2, 2)), np.array([0.5, np.nan]), np.array([])):
        with pytest.raises((ValueError, TypeError)):
            Prior.of(wrong)


@pytest.mark.parametrize(
    ("values", "weights", "message"),
    [
        ([], [], "at least one value"),
        (["a", "b"], [1], "2 values, 1 weights"),
        (["a", "b"], [1, -0.5], r"weights\[1\]' parameter must not be negative"),
        (["a", "b"], [1, math.nan], r"weights\[1\]' parameter must be a finite number"),
        (["a", "a"], [1, 2], "'a' more than once"),
        ([1, 1.0], [1, 2], "more than once"),
        (["a", "b"], [0, 0], "zeros only"),
        ([math.nan], [1], "must be finite"),
        (["a", 1], [1, 1], "all names or all numbers"),
        ([("a",)], [1], "string or a number"),
    ],
)
def test_bad_input_is_refused_with_a_reason(values, weights, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Prior(values, weights)


def test_an_unknown_value_is_not_echoed():
    with pytest.raises(KeyError) as error:
        Prior.of({"a": 1}).position("secret")
    assert "secret" not in str(error.value)


def test_numbers_know_magnitude_and_names_do_not():
    assert Prior.uniform([30, 10]).numbers.tolist() == [30.0, 10.0]
    with pytest.raises(TypeError, match="numeric"):
        _ = Prior.uniform(["a"]).numbers


@given(priors(), st.fractions(Fraction(1, 1000), 1))
def test_floored_prior_has_no_zeros_and_still_sums_to_one(prior, floor):
    floored = prior.floored(floor)
    assert len(floored.support) == len(prior)
    assert sum(floored.probability(value) for value in floored.values) == 1
    assert all(floored.probability(v) == (1 - floor) * prior.probability(v) + floor / len(prior) for v in prior.values)


@given(priors())
def test_weights_are_coprime_and_probabilities_exact(prior):
    assert math.gcd(*prior.weights) == 1
    assert sum(prior.probability(value) for value in prior.values) == 1
    assert prior.on_support().total == prior.total
