from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.baselines import binary_mse
from studies.central import central, central_mse, central_satisfies
from tacit import Channel

from support.oracle import best_central_mse


@pytest.mark.parametrize(
    ("n", "p", "epsilon", "expected"), [(5, 0.5, 0.5, 0.350893), (20, 0.3, 0.3, 1.276722), (20, 0.1, 0.5, 0.778992)]
)
def test_known_values(n, p, epsilon, expected):
    assert central_mse(n, p, epsilon) == pytest.approx(expected, abs=1e-6)
    assert central(n, p, epsilon).mse == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("n", [1, 2, 5, 20])
@pytest.mark.parametrize("p", [0.02, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 3.0])
def test_closed_form_equals_the_linear_program(n, p, epsilon):
    assert central_mse(n, p, epsilon) == pytest.approx(best_central_mse(n, p, epsilon), abs=1e-7)


@given(st.integers(1, 30), st.integers(0, 100), st.integers(0, 500))
@settings(deadline=None, max_examples=60)
def test_mechanism_is_private_and_reaches_the_closed_form(n, per_cent, hundredths):
    p, epsilon = Fraction(per_cent, 100), Fraction(hundredths, 100)
    mechanism = central(n, p, epsilon)
    assert central_satisfies(mechanism.channel, epsilon)
    assert mechanism.mse == pytest.approx(central_mse(n, float(p), float(epsilon)), abs=1e-9)


def test_publishing_the_sum_itself_is_refused():
    mechanism = central(5, 0.5, 0.5)
    truth = Channel.from_weights(mechanism.channel.prior, [[int(x == y) for y in range(6)] for x in range(6)])
    assert not central_satisfies(truth, 0.5)
    assert not central_satisfies(mechanism.channel, 0.49)


def test_one_person_in_the_centre_is_one_person_alone():
    for p in (0.02, 0.4):
        assert central_mse(1, p, 1.0) == pytest.approx(float(binary_mse(p, 1.0)))


def test_a_trusted_server_of_fifty_thousand_errs_far_less_than_local_reports():
    assert central_mse(50_000, 0.3, 0.1) < 1e-3 * 50_000 * float(binary_mse(0.3, 0.1))


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="n ≥ 1"):
        central(0, 0.5, 1)
    with pytest.raises(ValueError, match="probability"):
        central(5, 1.5, 1)
