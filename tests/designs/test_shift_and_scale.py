"""Values far from zero, or in other units, have the same design: only the answer is shifted and scaled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tacit import Matrix, Prior, Sum, design, verify
from tacit.designs import Promise, make_plan
from tacit.mechanism.table._reading import unbiased_weights
from tacit.prior import Ball

WEIGHTS = st.lists(st.integers(1, 50), min_size=2, max_size=20)
SHIFTS = st.sampled_from([-(10**9), -1940, 0, 200, 1940, 10**7, 10**8, 10**9])


def moved(weights: list[int], shift: int = 0, scale: int = 1) -> Prior:
    """Values 0, 1, 2, … with these weights, times `scale`, plus `shift`."""
    return Prior([shift + scale * k for k in range(len(weights))], weights)


@settings(max_examples=12, deadline=None)
@given(
    WEIGHTS,
    SHIFTS,
    st.sampled_from([1, 3, 7, 1000]),
    st.sampled_from(["0.5", 1, 3]),
    st.sampled_from(["mmse", "unbiased"]),
)
@example([1] * 66, 1940, 1, 1, "unbiased")
@example([1, 1, 1], 10**7, 1, 1, "unbiased")
@example([1, 1, 1], 10**8, 1, 1, "mmse")
def test_shift_and_scale_change_nothing_but_the_answer(weights, shift, scale, epsilon, aim):
    plain = design(moved(weights), Sum(), epsilon, aim=aim)
    far = design(moved(weights, shift, scale), Sum(), epsilon, aim=aim)
    assert (far.channel.weights == plain.channel.weights).all()
    for name in ("mse", "unbiased_variance", "prior_variance", "lower_bound"):
        expected = getattr(plain.certificate, name) * scale**2
        assert getattr(far.certificate, name) == pytest.approx(expected, rel=1e-6, abs=1e-9 * scale**2)
    assert verify(far).holds
    if aim == "unbiased":
        t, far_t = (unbiased_weights(each.channel, each.prior.numbers[:, None])[:, 0] for each in (plain, far))
        assert far_t - shift == pytest.approx(scale * t, rel=1e-6, abs=1e-6 * scale * np.abs(t).max())


@pytest.mark.parametrize("size", [6, 20])
def test_sets_of_priors_do_not_depend_on_the_offset(size):
    weights = [3 + k % 4 for k in range(size)]
    plain, far = moved(weights), moved(weights, 10**8)
    errors = [
        design(prior, Sum(), Promise(1, prior_set=Ball(prior, "0.02"))).certificate.unbiased_variance
        for prior in (plain, far)
    ]
    assert errors[1] == pytest.approx(errors[0], rel=1e-9)


def test_a_matrix_of_large_numbers_has_the_design_of_its_differences():
    prior = Prior.of({"a": 5, "b": 3, "c": 2})
    rows = np.array([[0.0, 1.0], [1.0, 3.0], [5.0, 2.0]])
    near, far = (design(prior, Matrix((rows + offset).tolist()), 1) for offset in (0, 10**8))
    assert far.certificate.unbiased_variance == pytest.approx(near.certificate.unbiased_variance, rel=1e-6)


def test_answers_between_two_years_are_planned_like_those_from_zero():
    years, ages = moved([1 + k % 5 for k in range(66)], 1940), moved([1 + k % 5 for k in range(66)])
    far = make_plan(years, Sum(), 1, between=(1940, 2006))
    near = make_plan(ages, Sum(), 1, between=(0, 66))
    assert [float(value) - 1940 for value in far.groups[0].prior.values] == pytest.approx(
        [float(value) for value in near.groups[0].prior.values], abs=1e-9
    )
    errors = [plan.groups[0].certificate.unbiased_variance for plan in (far, near)]
    assert errors[0] == pytest.approx(errors[1], rel=1e-6)
