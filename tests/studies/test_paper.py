"""The paper, statement by statement: "Context-aware Data Aggregation with Localized Information Privacy".

One test for each definition, proposition, theorem, lemma, example and displayed closed form, named after it and in
its order. What is false is named `erratum` and asserts the counter-example.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from studies.baselines import (
    binary_mse,
    context_free_estimate,
    context_free_mse,
    cyclic,
    k_ary_response,
    opt_ldp_binary_mse,
    optimized_unary,
    published_binary_mse,
    subset_selection,
)
from studies.central import central, central_satisfies
from tacit import (
    Channel,
    Histogram,
    Prior,
    PrivacyError,
    Sum,
    Survey,
    audit,
    mse,
    prior_variance,
    satisfies,
)
from tacit.designs import optimal_binary
from tacit.designs.rules import theorem3

from support.oracle import best_gain, best_lip_gain, best_objective, box_vertices, ldp_vertices, mean_absolute_error
from support.strategies import budgets, channels, priors

TENTH = Prior.of({0: 0.9, 1: 0.1})
YES = Survey(1)


def binary_channel(prior: Prior, q0: float, q1: float) -> Channel:
    """Pr(Y=1|X=0) = q0, Pr(Y=0|X=1) = q1, in millionths."""
    a, b = round(q0 * 10**6), round(q1 * 10**6)
    return Channel.from_weights(prior, [[10**6 - a, a], [b, 10**6 - b]], labels=prior.values)


# Definitions ------------------------------------------------------------------------------------------------


@given(st.data())
def test_definition_1_ldp(data):
    prior = data.draw(priors())
    channel = data.draw(channels(prior, positive=True))
    worst = max((channel.matrix[:, None, :] / channel.matrix[None, :, :]).max(), 1.0)
    assert audit(channel).ldp.epsilon == pytest.approx(math.log(worst), abs=1e-12)


@given(st.data())
def test_definition_2_mip(data):
    prior = data.draw(priors(zeros=False))
    channel = data.draw(channels(prior, positive=True))
    joint = prior.probabilities[:, None] * channel.matrix
    expected = (joint * np.log(joint / (prior.probabilities[:, None] * joint.sum(axis=0)))).sum()
    assert audit(channel).mip == pytest.approx(float(expected), abs=1e-12)


@given(st.data())
def test_definition_3_lip(data):
    prior = data.draw(priors(zeros=False))
    channel = data.draw(channels(prior, positive=True))
    ratio = prior.probabilities / channel.posterior
    assert audit(channel).lip.epsilon == pytest.approx(float(np.abs(np.log(ratio)).max()), abs=1e-12)


# Section II -------------------------------------------------------------------------------------------------


@given(st.data())
def test_proposition_1_lip_implies_mip(data):
    prior = data.draw(priors())
    channel = data.draw(channels(prior, positive=True))
    levels = audit(channel)
    assert levels.mip <= levels.lip.epsilon + 1e-12


@given(st.data())
def test_theorem_1_ldp_implies_lip_implies_twice_ldp(data):
    prior = data.draw(priors(zeros=False))
    channel = data.draw(channels(prior, positive=True))
    levels = audit(channel)
    assert levels.lip.ratio <= levels.ldp.ratio
    assert levels.ldp.ratio <= levels.lip_upper.ratio * levels.lip_lower.ratio <= levels.lip.ratio**2


def test_theorem_1_is_tight_lip_under_every_prior_is_ldp():
    """Put nearly all mass on the less likely sender: the LIP level climbs to the LDP level."""
    rows = [[3, 1], [1, 3]]
    skewed = Prior.of({0: "0.000001", 1: "0.999999"})
    levels = audit(Channel.from_weights(skewed, rows))
    assert levels.ldp.epsilon - levels.lip.epsilon < 1e-5


# Example 1 and Section IV.A ---------------------------------------------------------------------------------


def test_erratum_example_1_reaches_log_lift_1_9_at_epsilon_1():
    levels = audit(theorem3(TENTH, 1, force=True))
    assert levels.lip_upper.epsilon == pytest.approx(1.9005, abs=1e-4)
    assert levels.ldp.epsilon == pytest.approx(2.9005, abs=1e-4)
    with pytest.raises(PrivacyError, match=r"level is 1\.9005"):
        theorem3(TENTH, 1)


def test_example_1_corrected_optimum():
    best = 0.09 - 0.01 * (math.e + 1 / math.e - 2)
    assert float(binary_mse(0.1, 1)) == pytest.approx(best, abs=1e-15)
    assert 0.09 - best_lip_gain(TENTH.probabilities, np.array([[0.0], [1.0]]), 1) == pytest.approx(best, abs=1e-12)
    assert mse(optimal_binary(TENTH, 1), YES) == pytest.approx(0.0791384, abs=1e-7)
    # The published error is better than any private mechanism can be.
    assert float(published_binary_mse(0.1, 1)) < best - 0.02


def test_erratum_example_1_error_of_ldp():
    """Printed 100·e^ε/(e^ε+1)²; p = q makes the printed (p−q)² zero. The estimator's variance is 100·e^ε/(e^ε−1)²."""
    epsilon, n = 1.0, 100
    flip = 1 / (math.e + 1)
    unbiased = n * flip * (1 - flip) / (1 - 2 * flip) ** 2
    assert n * context_free_mse(epsilon) == pytest.approx(unbiased)
    printed = n * math.e / (math.e + 1) ** 2
    assert printed < unbiased / 4


def test_erratum_example_1_error_of_optimized_ldp():
    """Printed q* = 1 − e^ε/2 and 25/(0.5 − e^ε/2)²; with e^−ε in both, the pair is ε-LDP and the formula is its
    variance for respondents who hold 1."""
    epsilon, n = 1.0, 100
    assert 1 - math.exp(epsilon) / 2 < 0, "the printed q* is not even a probability"
    yes_if_one, yes_if_zero = 0.5, math.exp(-epsilon) / 2
    ratios = (yes_if_one / yes_if_zero, (1 - yes_if_zero) / (1 - yes_if_one))
    assert max(ratios) <= math.exp(epsilon) + 1e-12
    corrected = 25 / (0.5 - math.exp(-epsilon) / 2) ** 2
    assert n * yes_if_one * (1 - yes_if_one) / (yes_if_one - yes_if_zero) ** 2 == pytest.approx(corrected)
    printed = 25 / (0.5 - math.exp(epsilon) / 2) ** 2
    assert printed != pytest.approx(corrected, rel=0.1)


def test_erratum_example_1_error_of_lip():
    """Printed (10·e^ε − 1)/0.64: it grows with ε and exceeds the error without any data."""
    printed = [(10 * math.exp(epsilon) - 1) / 0.64 for epsilon in (1, 2)]
    assert printed[1] > printed[0] > 100 * prior_variance(TENTH, YES)
    assert 100 * float(published_binary_mse(0.1, 1)) < 100 * prior_variance(TENTH, YES)


@given(st.data())
@settings(max_examples=30)
def test_proposition_2_decomposition(data):
    """Errors add over independent respondents (enumerated in test_task), so each may optimise alone."""
    cases = [(data.draw(priors(min_size=2, max_size=2, zeros=False)), data.draw(budgets())) for _ in range(3)]
    respondents = [optimal_binary(prior, epsilon) for prior, epsilon in cases]
    alone = [float(binary_mse(float(prior.probability(1)), float(epsilon))) for prior, epsilon in cases]
    assert sum(mse(channel, YES) for channel in respondents) == pytest.approx(sum(alone), abs=1e-5)


@given(st.data())
def test_law_of_total_variance_equation_9(data):
    prior = data.draw(priors())
    channel = data.draw(channels(prior))
    estimates = channel.posterior @ prior.numbers
    share = channel.marginal
    spread = share @ estimates**2 - (share @ estimates) ** 2
    assert mse(channel, Sum()) == pytest.approx(prior_variance(prior, Sum()) - spread, abs=1e-10)


def test_erratum_equation_11_variance_of_the_binary_estimator():
    """Printed P₁(λ₀−q₁)²/(λ₀λ₁); the factor is P₁², as the next equation has it."""
    q0, q1, p1 = 0.2, 0.3, 0.1
    zero = 0.9 * (1 - q0) + p1 * q1
    fraction = (zero - q1) ** 2 / (zero * (1 - zero))
    channel = binary_channel(TENTH, q0, q1)
    spread = prior_variance(TENTH, YES) - mse(channel, YES)
    assert spread == pytest.approx(p1**2 * fraction)
    assert spread != pytest.approx(p1 * fraction, rel=0.5)


@given(st.integers(1, 99), st.integers(0, 100), st.integers(0, 100))
def test_equation_12_binary_mse(p, q0, q1):
    p1, q0, q1 = p / 100, q0 / 100, q1 / 100
    prior = Prior.of({0: 100 - p, 1: p})
    zero = (1 - p1) * (1 - q0) + p1 * q1
    if 0 < zero < 1:
        expected = p1 * (1 - p1) - (p1 * (zero - q1)) ** 2 / (zero * (1 - zero))
        assert mse(binary_channel(prior, q0, q1), YES) == pytest.approx(expected, abs=1e-9)


@given(st.integers(1, 99), st.integers(1, 100), st.integers(1, 100))
def test_equation_13_the_four_constraints(p, q0, q1):
    """F₁ … F₄ are the four ratios of Definition 3; in particular F₁ and F₄ bound the lower lifts."""
    prior = Prior.of({0: 100 - p, 1: p})
    channel = binary_channel(prior, q0 / 101, q1 / 101)
    (a, b), (c, d) = channel.matrix
    zero, one = channel.marginal
    four = np.log([zero / c, one / d, zero / a, one / b])
    assert audit(channel).lip.epsilon == pytest.approx(float(np.abs(four).max()), abs=1e-9)


@given(st.integers(1, 99), budgets())
def test_theorem_2_holds_if_and_only_if_the_rarer_value_has_prior_at_least_h(p, epsilon):
    prior = Prior.of({0: 100 - p, 1: p})
    p1, h = p / 100, 1 / (math.exp(epsilon) + 1)
    published, best = (float(f(p1, float(epsilon))) for f in (published_binary_mse, binary_mse))
    if min(p1, 1 - p1) >= h:
        assert published == pytest.approx(best, abs=1e-12)
        assert mse(theorem3(prior, epsilon), YES) == pytest.approx(published, abs=1e-5)
    else:
        assert published < best
        assert not satisfies(theorem3(prior, epsilon, force=True), "lip", epsilon)


def test_erratum_theorem_2_for_rare_values():
    prior = Prior.of({0: 0.01, 1: 0.99})
    levels = audit(theorem3(prior, 1, force=True))
    assert levels.lip.epsilon == pytest.approx(4.152, abs=1e-3)
    assert levels.ldp.epsilon == pytest.approx(5.152, abs=1e-3)
    assert levels.witness.high > Fraction(63, 100)


def test_marginal_of_the_published_channel_is_the_prior():
    """The displayed λ₀ = 1−P₁ and λ_k = P_k."""
    for prior in (TENTH, Prior.of({1: 0.1, 2: 0.2, 3: 0.7})):
        assert np.allclose(theorem3(prior, 1, force=True).marginal, prior.probabilities, atol=1e-12)


def test_proposition_3_mae_where_theorem_2_holds():
    prior = Prior.of({0: 0.6, 1: 0.4})
    channel = theorem3(prior, 1)
    assert channel.labels == prior.values
    expected = 2 * 0.4 * 0.6 / math.e
    assert mean_absolute_error(channel) == pytest.approx(expected, abs=1e-6)
    vertices = box_vertices(prior.probabilities, 1 / math.e, math.e)
    # Pr(X ≠ label) with the best label for each report, over all ε-LIP channels.
    correct = best_objective(prior.probabilities, vertices, (vertices * prior.probabilities).max(axis=1))
    assert 1 - correct == pytest.approx(expected, abs=1e-9)


def test_erratum_proposition_3_for_rare_values_the_best_label_is_constant():
    """Under any 1-LIP channel a 10% value stays below 27.2%: reading every report as "no" has the least MAE."""
    channel = optimal_binary(TENTH, 1)
    assert channel.labels == (0, 0)
    assert mean_absolute_error(channel) == pytest.approx(0.1)
    as_sent = Channel.from_weights(TENTH, channel.weights, labels=TENTH.values)
    assert mean_absolute_error(as_sent) > 0.2


@given(st.integers(1, 99), budgets())
@settings(max_examples=50)
def test_proposition_4_optimal_binary_ldp(p, epsilon):
    prior, e = Prior.of({0: 100 - p, 1: p}), float(epsilon)
    closed = float(opt_ldp_binary_mse(p / 100, e))
    g = np.array([[0.0], [1.0]])
    best = best_gain(prior.probabilities, g, ldp_vertices(prior.probabilities, math.exp(e)))
    assert prior_variance(prior, YES) - best == pytest.approx(closed, abs=1e-9)
    assert mse(k_ary_response(prior, epsilon), YES) == pytest.approx(closed, abs=1e-5)
    assert closed >= float(binary_mse(p / 100, e)) - 1e-15


def test_erratum_proposition_4_the_advantage_does_not_grow_with_skew():
    """ "As |P₁ − 0.5| grows, ΔE also increases": it vanishes at the ends, even with the published error."""
    for lip_mse in (binary_mse, published_binary_mse):
        gap = [float(opt_ldp_binary_mse(p, 1.0) - lip_mse(p, 1.0)) for p in (0.5, 0.9, 0.999)]
        assert gap[2] < gap[1]
        assert gap[2] < gap[0]


# Section IV.B: many values ----------------------------------------------------------------------------------


@given(priors(min_size=2, max_size=5, zeros=False), budgets())
@settings(max_examples=60, deadline=None)
def test_theorem_3_is_optimal_where_it_is_private(prior, epsilon):
    if min(prior.probabilities) < 1 / (math.exp(epsilon) + 1):
        return
    channel = theorem3(prior, epsilon)
    assert satisfies(channel, "lip", epsilon)
    for task in (Sum(), Histogram()):
        best = best_lip_gain(prior.probabilities, task.g(prior), float(epsilon))
        gained = prior_variance(prior, task) - mse(channel, task)
        assert gained == pytest.approx(best, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize(
    ("weights", "epsilon", "lip", "ldp"),
    [
        ([1] * 20, 1, 2.5657, 3.5657),
        ([36, 41270 - 36], 1, 6.5872, 7.5872),
    ],
    ids=["uniform on 20 values, Figure 7", "Kosarak, 36 of 41,270 pages popular, Figure 9a"],
)
def test_erratum_theorem_3_level_really_reached(weights, epsilon, lip, ldp):
    prior = Prior.of(dict(enumerate(weights)))
    levels = audit(theorem3(prior, epsilon, force=True))
    assert levels.lip.epsilon == pytest.approx(lip, abs=1e-3)
    assert levels.ldp.epsilon == pytest.approx(ldp, abs=1e-3)


def test_erratum_theorem_3_reports_an_error_that_no_private_channel_can_reach():
    prior = Prior.of({0: 0.05, 1: 0.15, 2: 0.2, 3: 0.6})
    best = best_lip_gain(prior.probabilities, np.eye(4), 1)
    published = prior_variance(prior, Histogram()) - mse(theorem3(prior, 1, force=True), Histogram())
    assert published > 1.5 * best


def test_example_of_section_4b_three_values():
    """D = {1,2,3}, P = (.1,.2,.7); the paper prints /ε where /e^ε is meant."""
    prior = Prior.of({1: 0.1, 2: 0.2, 3: 0.7})
    q = theorem3(prior, 1, force=True).matrix
    expected = [[1 - 0.9 / math.e, 0.2 / math.e, 0.7 / math.e]]
    expected += [[0.1 / math.e, 1 - 0.8 / math.e, 0.7 / math.e], [0.1 / math.e, 0.2 / math.e, 1 - 0.3 / math.e]]
    assert np.allclose(q, expected, atol=1e-12)


def test_mimo_variance_closed_form():
    """The displayed Var[X̂] = ΣΣΣ a_m a_n P_m P_n q_mk (q_nk/λ_k − 1)."""
    prior = Prior.of({0: 1, 2: 3, 5: 6})
    channel = Channel.from_weights(prior, [[5, 3, 2], [1, 7, 2], [2, 2, 6]])
    a, p, q = prior.numbers, prior.probabilities, channel.matrix
    share = channel.marginal
    displayed = np.einsum("m,n,mk,nk->", a * p, a * p, q, q / share - 1)
    assert prior_variance(prior, Sum()) - mse(channel, Sum()) == pytest.approx(displayed)


def test_erratum_opt_mimo_ldp_is_not_k_ary_response():
    prior = Prior.uniform(6)
    best = best_gain(prior.probabilities, np.eye(6), ldp_vertices(prior.probabilities, math.exp(0.5)))
    variance = prior_variance(prior, Histogram())
    assert variance - mse(k_ary_response(prior, 0.5), Histogram()) < 0.9 * best
    assert variance - mse(subset_selection(prior, 0.5), Histogram()) == pytest.approx(best, rel=1e-6)


def test_lemma_1_no_information_and_full_information_are_the_extremes():
    prior = Prior.of({0: 1, 1: 2, 2: 3})
    assert mse(Channel.from_weights(prior, [[1, 2]] * 3), Sum()) == prior_variance(prior, Sum())
    assert mse(Channel.from_weights(prior, np.eye(3, dtype=int)), Sum()) == pytest.approx(0, abs=1e-15)


def test_erratum_lemma_2_the_extremes_are_not_unique():
    """Where a task does not tell two values apart, merging them loses nothing: the maximum has other forms."""
    prior = Prior.of({0: 1, 1: 1, 3: 1})
    merged = Channel.from_weights(prior, [[1, 0], [0, 1], [0, 1]])
    assert mse(merged, Survey(0)) == pytest.approx(0, abs=1e-15)


@given(priors(min_size=2, zeros=False), budgets())
def test_erratum_lemma_3_sign_of_the_numerator(prior, epsilon):
    """λ/q_mm − 1/E has numerator P(E−1/E) − (1−1/E), not the printed sum: negative exactly if P < 1/(E+1)."""
    e = math.exp(epsilon)
    for p in prior.probabilities:
        slack = e * p / (e + p - 1) - 1 / e
        assert slack * (e + p - 1) == pytest.approx(p * (e - 1 / e) - (1 - 1 / e), abs=1e-9 * e)
        if abs(p - 1 / (e + 1)) > 1e-9:
            assert (slack < 0) == (p < 1 / (e + 1))
        assert 1 - 1 / e + p * (e - 1 / e) > 0, "the printed numerator never shows the violation"


@given(priors(min_size=2, max_size=4, zeros=False), budgets())
@settings(max_examples=40, deadline=None)
def test_theorem_4_as_many_reports_as_values_suffice(prior, epsilon):
    p = prior.probabilities
    vertices = box_vertices(p, math.exp(-epsilon), math.exp(epsilon))
    gains = ((vertices * p) ** 2).sum(axis=1)
    # The simplex method returns a basic solution: at most d positive λ at the optimum.
    result = linprog(-gains, A_eq=vertices.T, b_eq=np.ones(len(p)), method="highs-ds")
    assert (result.x > 1e-9).sum() <= len(p)


def test_erratum_theorem_4_some_optima_use_fewer_reports():
    prior = Prior.of({"a": 0.2, "b": 0.3, "c": 0.5})
    lifts = box_vertices(prior.probabilities, math.exp(-1), math.e)
    best = best_gain(prior.probabilities, Survey("a").g(prior), lifts)
    collapsed = optimal_binary(Prior.of({"a": 0.2, "other": 0.8}), 1)
    two = Channel.from_weights(prior, collapsed.weights[[0, 1, 1]])
    assert satisfies(two, "lip", 1)
    assert prior_variance(prior, Survey("a")) - mse(two, Survey("a")) == pytest.approx(best, abs=1e-8)


def test_erratum_theorem_5_sum_and_histogram_have_different_optima():
    """Uniform on 0…4 at ε = 1: the histogram's optimum is clearly not optimal for the sum."""
    prior = Prior.uniform(5)
    p = prior.probabilities
    channel = cyclic(prior, 1)
    gained = {task: prior_variance(prior, task) - mse(channel, task) for task in (Histogram(), Sum())}
    assert gained[Histogram()] == pytest.approx(best_lip_gain(p, np.eye(5), 1), rel=1e-6)
    assert gained[Sum()] < 0.95 * best_lip_gain(p, Sum().g(prior), 1)


def test_equation_histogram_error_closed_form():
    """Appendix D: Σ_k P_k² Σ_j q_kj (q_kj/λ_j − 1) is the variance that the report removes."""
    prior = Prior.of({0: 1, 1: 2, 2: 3})
    channel = Channel.from_weights(prior, [[5, 3, 2], [1, 7, 2], [2, 2, 6]])
    q, p = channel.matrix, prior.probabilities
    displayed = (p**2 * (q * (q / channel.marginal - 1)).sum(axis=1)).sum()
    assert prior_variance(prior, Histogram()) - mse(channel, Histogram()) == pytest.approx(displayed)


# Section IV.D: centralized ----------------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=50)
def test_theorem_6_lip_on_the_sum_implies_cip(data):
    n, p = data.draw(st.integers(1, 5)), Fraction(data.draw(st.integers(1, 9)), 10)
    sums = Prior(range(n + 1), [math.comb(n, s) * p**s * (1 - p) ** (n - s) for s in range(n + 1)])
    channel = data.draw(channels(sums, positive=True))
    level = Fraction(audit(channel.under(sums)).lip.epsilon) + Fraction(1, 10**12)
    assert central_satisfies(channel.under(sums), level)


def test_theorem_6_the_converse_fails():
    mechanism = central(20, 0.3, 0.3)
    assert central_satisfies(mechanism.channel, 0.3)
    assert not satisfies(mechanism.channel, "lip", 0.3)


def test_erratum_proposition_5_omits_two_bounds():
    """At p = 0.1 a report may not raise the belief in "yes" beyond E·p, which the printed bounds allow."""
    n, p, epsilon = 20, 0.1, 0.5
    printed_high = n - math.exp(-epsilon) * (n - n * p)
    assert printed_high / (n * p) > math.exp(epsilon)


# Section V --------------------------------------------------------------------------------------------------


def test_section_5_context_free_estimator_is_unbiased_and_has_its_variance():
    """By enumeration of one respondent: E[Ĉ] = x and Var[Ĉ] = f(1−f)/(1−2f)² for both answers x."""
    f = 1 / (math.e + 1)
    for x in (0, 1):
        says_one = 1 - f if x else f
        outcomes = {y: (y - f) / (1 - 2 * f) for y in (0, 1)}
        mean = says_one * outcomes[1] + (1 - says_one) * outcomes[0]
        variance = says_one * outcomes[1] ** 2 + (1 - says_one) * outcomes[0] ** 2 - mean**2
        assert mean == pytest.approx(x)
        assert variance == pytest.approx(context_free_mse(1.0))
        assert outcomes == pytest.approx({y: context_free_estimate(y, 1, 1.0) for y in (0, 1)})


def test_erratum_section_5_the_printed_flip_probability_negates_the_estimate():
    f, x = math.e / (math.e + 1), 1  # printed p_i; the channel tells the truth with this probability
    says_one = f if x else 1 - f
    mean = (says_one - f) / (1 - 2 * f)
    assert mean == pytest.approx(1 - x)


def test_section_5_oue_variance():
    assert optimized_unary(1.0).cell_variance(0.0) == pytest.approx(4 * math.e / (math.e - 1) ** 2)
