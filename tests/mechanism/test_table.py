from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import Channel, Prior, PrivacyError, audit, round_channel, satisfies

from support.oracle import mean_absolute_error
from support.strategies import channels, priors

PRIOR = Prior.of({"yes": 0.1, "no": 0.9})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1, 1]], "each of the prior's 2 values"),
        ([[1, 1], [1]], "same length"),
        ([[1, 1], [1, 2]], r"Row 1 \('no'\) sums to 3, row 0 to 2"),
        ([[1, -1], [0, 0]], "Row 0, report 1 is -1"),
        ([[1, 1], [0.5, 1.5]], "must be integers. Row 1, report 0"),
        ([[0, 0], [0, 0]], "positive sum"),
        ([[], []], "non-empty row"),
    ],
)
def test_bad_channels_are_refused_naming_row_or_cell(rows, message):
    with pytest.raises(ValueError, match=message):
        Channel.from_weights(PRIOR, rows)


def test_a_channel_cannot_be_changed():
    channel = Channel.from_weights(PRIOR, [[3, 1], [1, 3]])
    with pytest.raises(ValueError, match="read-only"):
        channel.weights[0, 0] = 4
    with pytest.raises(ValueError, match="read-only"):
        channel.matrix[0, 0] = 1.0


def test_a_prior_of_other_values_is_refused():
    channel = Channel.from_weights(PRIOR, [[3, 1], [1, 3]])
    with pytest.raises(ValueError, match="channel's inputs"):
        channel.under(Prior.of({"no": 0.9, "yes": 0.1}))


@given(st.data())
def test_posteriors_are_bayes_rule(data):
    prior = data.draw(priors())
    channel = data.draw(channels(prior))
    for output, share in enumerate(channel.marginal_weights):
        if share:
            exact = channel.exact_posterior(output)
            assert sum(exact) == 1
            assert np.allclose(channel.posterior[output], [float(p) for p in exact], atol=1e-15)


@given(st.data())
def test_product_is_two_independent_releases(data):
    prior = data.draw(priors(max_size=3))
    first, second = data.draw(channels(prior, 3)), data.draw(channels(prior, 3))
    both = first.then(second)
    assert both.denominator == first.denominator * second.denominator
    expected = np.einsum("xy,xz->xyz", first.matrix, second.matrix).reshape(len(prior), -1)
    assert np.allclose(both.matrix, expected, atol=1e-15)


@given(st.data())
def test_post_processing_never_raises_a_level(data):
    prior = data.draw(priors())
    channel = data.draw(channels(prior, positive=True))
    rows = data.draw(
        st.lists(st.integers(0, 9), min_size=channel.n_possible_reports, max_size=channel.n_possible_reports)
    )
    after = Channel.from_weights(prior, channel.weights @ np.array([[row, 9 - row] for row in rows], dtype=object))
    before, behind = audit(channel), audit(after)
    for notion in ("lip_upper", "lip_lower", "ldp"):
        assert getattr(behind, notion).ratio <= getattr(before, notion).ratio
    assert behind.mip <= before.mip + 1e-12


def test_labels_are_medians_of_numbers_and_modes_of_names():
    rows = [[6, 3, 1], [2, 6, 2], [1, 3, 6]]
    assert Channel.from_weights(Prior.uniform([10, 20, 30]), rows).labels == (10, 20, 30)
    assert Channel.from_weights(Prior.of({"a": 8, "b": 1, "c": 1}), rows).labels == ("a", "a", "a")
    # The mode of report 0 is 10, but its median is 20: (4, 2, 3)/9.
    assert Channel.from_weights(Prior.uniform([10, 20, 30]), [[4, 5], [2, 7], [3, 6]]).labels[0] == 20


@given(st.data())
def test_labels_minimise_the_mean_absolute_error(data):
    prior = data.draw(priors(max_size=4))
    channel = data.draw(channels(prior, 3))
    best = mean_absolute_error(channel)
    for output in range(channel.n_possible_reports):
        for label in prior.values:
            labels = [*channel.labels[:output], label, *channel.labels[output + 1 :]]
            other = Channel.from_weights(prior, channel.weights, labels)
            assert best <= mean_absolute_error(other) + 1e-9


def test_lifts_of_reports_never_sent_are_one():
    prior = Prior.of({"a": 1, "b": 0})
    channel = Channel.from_weights(prior, [[1, 0], [0, 1]])
    assert channel.lifts[1].tolist() == [1.0, 1.0]
    assert channel.labels == ("a", "b")
    with pytest.raises(ValueError, match="never sent"):
        channel.exact_posterior(1)


def test_exact_posterior_of_the_readme_survey():
    channel = Channel.from_weights(PRIOR, [[3, 1], [1, 3]])
    assert channel.exact_posterior(0) == (Fraction(1, 4), Fraction(3, 4))


def test_a_matrix_of_floats_is_rounded_and_the_audit_says_what_it_reaches():
    """The optimum for 20% at ε = 1 touches its bound; where the rounded words end up, the audit says."""
    prior = Prior.of({"yes": 0.2, "no": 0.8})
    e = np.e
    matrix = np.array([[1 - 0.8 / e, 0.8 / e], [0.2 / e, 1 - 0.2 / e]])
    channel = Channel.from_matrix(prior, matrix)
    assert channel.denominator == 2**64
    assert np.abs(channel.matrix - matrix).max() < 1e-15
    lifts = matrix / (prior.probabilities @ matrix)
    found = audit(channel)
    assert float(found.lip_upper.ratio) == pytest.approx(lifts.max(), rel=1e-12)
    assert float(found.lip_lower.ratio) == pytest.approx(1 / lifts.min(), rel=1e-12)
    assert not satisfies(channel, "lip", 0.99)
    # Nothing is promised of it: what was designed for another prior is taken, and its level told.
    assert audit(Channel.from_matrix(prior, [[1.0, 0.0], [0.0, 1.0]])).lip.ratio is None
    with pytest.raises(PrivacyError, match="reaches inf"):
        round_channel(prior, [[1.0, 0.0], [0.0, 1.0]], 1)


def test_a_matrix_may_leave_out_values_outside_the_support():
    prior = Prior.of({"a": 1, "b": 1, "never": 0})
    channel = Channel.from_matrix(prior, np.array([[0.75, 0.25], [0.25, 0.75]]), bits=2)
    assert channel.weights.tolist() == [[3, 1], [1, 3], [2, 2]]
    assert channel.values == prior.values
