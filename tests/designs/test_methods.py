from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.baselines import (
    binary_mse,
    cyclic,
    cyclic_lifts,
    hash_range,
    k_ary_response,
    k_ary_support,
    local_hashing,
    optimized_hashing,
    optimized_unary,
    subset_selection,
    subset_size,
    subset_support,
    unary_encoding,
)
from tacit import (
    Histogram,
    Prior,
    PrivacyError,
    Sum,
    Survey,
    audit,
    mse,
    prior_variance,
    satisfies,
    unbiased_variance,
)
from tacit.designs import optimal_binary, repaired_response
from tacit.designs.rules import theorem3
from tacit.exact import exp_below

from support.oracle import best_gain, best_lip_gain, ldp_vertices
from support.strategies import budgets, priors

LDP = [k_ary_response, subset_selection, unary_encoding]
EXTREME_BUDGETS = [0, 1e-6, 0.01, 50]


@given(priors(), budgets())
@settings(deadline=None)
def test_every_mechanism_passes_its_audit_for_every_prior(prior, epsilon):
    assert satisfies(repaired_response(prior, epsilon), "lip", epsilon)
    for mechanism in LDP:
        channel = mechanism(prior, epsilon)
        assert satisfies(channel, "ldp", epsilon)
        assert satisfies(channel, "lip", epsilon)


@given(priors(max_size=2), budgets())
def test_binary_optimum_equals_its_closed_form_and_the_vertex_lp(prior, epsilon):
    channel = optimal_binary(prior, epsilon)
    assert satisfies(channel, "lip", epsilon)
    achieved = mse(channel, Survey(0))
    p = float(prior.probability(0))
    closed = float(binary_mse(p, float(epsilon)))
    # What rounding to words costs is bounded relative to the gain.
    assert closed - 1e-12 <= achieved <= closed + 1e-4 * (p * (1 - p) - closed) + 1e-12
    if len(prior.support) == 2:
        best = best_lip_gain(prior.probabilities, np.array([[1.0], [0.0]]), float(epsilon))
        assert p * (1 - p) - best == pytest.approx(closed, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.25, 0.5, 1, 2, 4])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6])
def test_cyclic_is_the_optimum_of_the_vertex_lp_for_uniform_priors(d, epsilon):
    prior = Prior.uniform(d)
    channel = cyclic(prior, epsilon)
    assert satisfies(channel, "lip", epsilon)
    gained = prior_variance(prior, Histogram()) - mse(channel, Histogram())
    best = best_lip_gain(prior.probabilities, np.eye(d), epsilon) if d > 1 else 0.0
    assert best * (1 - 1e-6) - 1e-12 <= gained <= best + 1e-9
    lifts = cyclic_lifts(d, exp_below(Fraction(epsilon)))
    assert float(sum(v * v for v in lifts) / d - 1) / d == pytest.approx(best, abs=1e-9)


def test_cyclic_can_be_singular_and_says_so_by_an_infinite_variance():
    """d = 8 at ε = ln 3: d·h = 2 exactly, and the alternating vector is in the kernel."""
    prior = Prior.uniform(8)
    assert math.isinf(unbiased_variance(cyclic(prior, 1.098612), Histogram()))
    assert math.isfinite(unbiased_variance(cyclic(prior, 1.2), Histogram()))


@given(priors(min_size=2, max_size=5, zeros=False), budgets())
@settings(max_examples=60, deadline=None)
def test_no_mechanism_beats_the_vertex_lp(prior, epsilon):
    p = prior.probabilities
    for task in (Histogram(), Sum()):
        best = best_lip_gain(p, task.g(prior), float(epsilon))
        variance = prior_variance(prior, task)
        for mechanism in (repaired_response, k_ary_response, subset_selection):
            assert variance - mse(mechanism(prior, epsilon), task) <= best + 1e-9 * max(1.0, variance)


@given(priors(min_size=2, max_size=2, zeros=False), budgets())
@settings(max_examples=50)
def test_repaired_response_is_optimal_for_two_values(prior, epsilon):
    ours, best = repaired_response(prior, epsilon), optimal_binary(prior, epsilon)
    assert mse(ours, Survey(0)) == pytest.approx(mse(best, Survey(0)), abs=1e-6)


def test_k_ary_response_is_not_the_ldp_optimum_subset_selection_beats_it():
    """The paper's "Opt-mimo-LDP = k-ary randomized response" fails at small ε."""
    prior = Prior.uniform(6)
    k_ary = mse(k_ary_response(prior, 0.5), Histogram())
    subset = mse(subset_selection(prior, 0.5), Histogram())
    best = prior_variance(prior, Histogram()) - best_gain(
        prior.probabilities, np.eye(6), ldp_vertices(prior.probabilities, math.exp(0.5))
    )
    assert subset < k_ary - 1e-3
    assert subset == pytest.approx(best, abs=1e-7)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("weights", [[1, 1, 1, 1], [7, 2, 1, 1]])
def test_support_probabilities_and_variances_match_the_enumerated_channels(weights, epsilon):
    prior = Prior.of(dict(enumerate(weights)))
    d = len(prior)
    cases = [
        (k_ary_response(prior, epsilon), k_ary_support(d, epsilon)),
        (subset_selection(prior, epsilon, 2), subset_support(d, epsilon, 2)),
    ]
    for channel, pure in cases:
        # Symmetric mechanisms under a uniform prior: the pure estimator is the best unbiased one.
        flat = Prior.uniform(d)
        assert unbiased_variance(channel.under(flat), Histogram()) == pytest.approx(pure.variance(flat), rel=1e-6)
        # Elsewhere weighting by the marginal can only help.
        assert unbiased_variance(channel, Histogram()) <= pure.variance(prior) * (1 + 1e-6)
    assert unbiased_variance(unary_encoding(prior, epsilon), Histogram()) <= optimized_unary(epsilon).variance(prior)
    hashing = local_hashing(prior, epsilon, buckets=2)
    assert unbiased_variance(hashing, Histogram()) <= optimized_hashing(epsilon, 2).variance(prior)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_unary_and_hashing_support_probabilities_by_enumeration(epsilon):
    prior = Prior.uniform(3)
    unary = unary_encoding(prior, epsilon).matrix
    bits = np.array([[(y >> (2 - x)) & 1 for y in range(8)] for x in range(3)])
    pure = optimized_unary(epsilon)
    assert unary[0] @ bits[0] == pytest.approx(pure.p, abs=1e-6)
    assert unary[0] @ bits[1] == pytest.approx(pure.q, abs=1e-6)
    buckets = hash_range(epsilon) if epsilon < 3 else 4
    hashing = local_hashing(prior, epsilon, buckets).matrix
    functions = [(a, b, c) for a in range(buckets) for b in range(buckets) for c in range(buckets)]
    supports = np.array([[f[x] == y for f in functions for y in range(buckets)] for x in range(3)])
    pure = optimized_hashing(epsilon, buckets)
    assert hashing[0] @ supports[0] == pytest.approx(pure.p, abs=1e-6)
    assert hashing[0] @ supports[1] == pytest.approx(pure.q, abs=1e-6)


def test_subset_selection_has_the_known_variance_for_seven_values():
    assert subset_size(7, 1.0) == 2
    assert subset_support(7, 1.0).variance(Prior.uniform(7)) == pytest.approx(18.97, abs=0.01)


@pytest.mark.parametrize("mechanism", [unary_encoding, local_hashing, lambda p, e: subset_selection(p, e, 20)])
def test_channels_too_large_to_enumerate_are_refused_clearly(mechanism):
    with pytest.raises(ValueError, match="too many reports to enumerate"):
        mechanism(Prior.uniform(40), 1)


@pytest.mark.parametrize("epsilon", EXTREME_BUDGETS)
@pytest.mark.parametrize("tiny", ["1e-12", "0.999999999999", "0.5"])
def test_extreme_budgets_and_priors_give_right_answers(epsilon, tiny):
    prior = Prior.of({0: Fraction(tiny), 1: 1 - Fraction(tiny)})
    p = float(tiny)
    for mechanism in (optimal_binary, repaired_response):
        channel = mechanism(prior, epsilon)
        assert satisfies(channel, "lip", epsilon)
        achieved, best = mse(channel, Survey(0)), float(binary_mse(p, epsilon))
        assert achieved == pytest.approx(best, abs=1e-4 * (p * (1 - p) - best) + 1e-15)
    for mechanism in (k_ary_response, subset_selection, unary_encoding):
        channel = mechanism(prior, epsilon)
        assert satisfies(channel, "ldp", epsilon)
        assert 0 <= mse(channel, Histogram()) <= 2 * p * (1 - p) + 1e-15
    levels = audit(optimal_binary(prior, epsilon))
    assert levels.lip.epsilon <= epsilon + 1e-12
    assert not math.isnan(levels.mip)


@pytest.mark.parametrize("epsilon", EXTREME_BUDGETS)
def test_cyclic_at_extreme_budgets(epsilon):
    prior = Prior.uniform(9)
    channel = cyclic(prior, epsilon)
    assert satisfies(channel, "lip", epsilon)
    assert 0 <= mse(channel, Histogram()) <= prior_variance(prior, Histogram())


def test_a_domain_of_one_value_has_nothing_to_hide():
    prior = Prior.of({"only": 1})
    for mechanism in (theorem3, repaired_response, optimal_binary, cyclic, k_ary_response):
        channel = mechanism(prior, 1)
        assert audit(channel).lip.epsilon == 0.0
        assert mse(channel, Histogram()) == 0.0


def test_theorem3_with_an_impossible_value_hides_it_unless_forced():
    prior = Prior.of({"a": 1, "b": 1, "never": 0})
    assert audit(theorem3(prior, 1)).exposed == ()
    assert audit(theorem3(prior, 1, force=True)).exposed == ("never",)


def test_mechanisms_refuse_priors_that_are_not_theirs():
    with pytest.raises(ValueError, match="at most two"):
        optimal_binary(Prior.uniform(3), 1)
    with pytest.raises(ValueError, match="uniform"):
        cyclic(Prior.of({"a": 1, "b": 2}), 1)
    with pytest.raises(ValueError, match="between 1 and 3"):
        subset_selection(Prior.uniform(3), 1, size=4)
    with pytest.raises(ValueError, match="at least 2"):
        local_hashing(Prior.uniform(3), 1, buckets=1)


@given(priors(min_size=2), st.sampled_from([0.1, 0.5, 1, 2, 3]))
def test_theorem3_is_returned_exactly_when_it_is_private(prior, epsilon):
    rarest = min(prior.probabilities[list(prior.support)])
    if rarest >= 1 / (math.exp(epsilon) + 1) or len(prior.support) == 1:
        assert satisfies(theorem3(prior, epsilon), "lip", epsilon)
    else:
        with pytest.raises(PrivacyError, match="its level is"):
            theorem3(prior, epsilon)
        assert not satisfies(theorem3(prior, epsilon, force=True), "lip", epsilon)
