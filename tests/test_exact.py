from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.exact import at_most_exp, budget, exp_enclosure, float_above, log_above, log_enclosure, rational


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0.1, Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        (Decimal("1e-12"), Fraction(1, 10**12)),
        (np.float64(0.3), Fraction(3, 10)),
        (np.int64(7), Fraction(7)),
        (1e-12, Fraction(1, 10**12)),
    ],
)
def test_rational_reads_numbers_as_written(written, meant):
    assert rational(written) == meant


@pytest.mark.parametrize("bad", [math.nan, math.inf, "ten", None, True])
def test_rational_refuses_what_is_not_a_finite_number(bad):
    with pytest.raises((ValueError, TypeError), match="must be a"):
        rational(bad)


@pytest.mark.parametrize("bad", [-0.1, 101, math.nan])
def test_budget_refuses_negative_huge_and_nan(bad):
    with pytest.raises(ValueError, match="epsilon"):
        budget(bad)


@given(st.fractions(0, 100), st.integers(5, 60))
def test_exp_enclosure_is_ordered_and_tight(epsilon, digits):
    low, high = exp_enclosure(epsilon, digits)
    finer_low, finer_high = exp_enclosure(epsilon, digits + 20)
    assert low <= finer_low <= finer_high <= high
    assert high - low <= high * Fraction(4, 10 ** (digits - 1))


@given(st.fractions(Fraction(1, 10**6), 10**6))
def test_log_enclosure_inverts_exp(ratio):
    low, high = log_enclosure(ratio)
    assert low <= high
    if low > 0:
        assert at_most_exp(ratio, high)
        assert not at_most_exp(ratio, low) or low == high


def test_at_most_exp_decides_ratios_that_floats_cannot_tell_apart():
    low, high = exp_enclosure(Fraction(1), 60)
    assert float(low) == float(high)
    assert at_most_exp(low, Fraction(1))
    assert not at_most_exp(high, Fraction(1))


@given(st.fractions())
def test_floats_round_outwards(number):
    assert number <= Fraction(float_above(number))


def test_log_above_is_never_optimistic():
    assert log_above(Fraction(3)) >= math.log(3) - 1e-16
    assert log_above(1 + Fraction(1, 10**30)) > 0
