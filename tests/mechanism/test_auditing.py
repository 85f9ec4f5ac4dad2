from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import Channel, Prior, audit, satisfies
from tacit.exact import exp_enclosure, log_enclosure
from tacit.mechanism.auditing import percent

from support.strategies import channels, priors

PRIOR = Prior.of({"yes": 0.1, "no": 0.9})


@given(st.data())
def test_levels_equal_a_plain_recomputation(data):
    prior = data.draw(priors())
    channel = data.draw(channels(prior))
    levels = audit(channel)
    lifts = [
        Fraction(int(channel.weights[x, y]) * prior.total, int(marginal))
        for y, marginal in enumerate(channel.marginal_weights)
        if marginal
        for x in prior.support
    ]
    assert levels.lip_upper.ratio == max(lifts)
    assert levels.lip_lower.ratio == (1 / min(lifts) if min(lifts) else None)
    columns = [channel.weights[:, y] for y in range(channel.n_possible_reports)]
    ratios = [Fraction(max(c), min(c)) if min(c) else None for c in columns if max(c)]
    assert levels.ldp.ratio == (None if None in ratios else max(ratios))


@given(st.data())
def test_a_level_holds_at_itself_rounded_up_and_not_below(data):
    prior = data.draw(priors(min_size=2, zeros=False))
    channel = data.draw(channels(prior, positive=True))
    for notion in ("lip", "ldp"):
        level = getattr(audit(channel), notion)
        if level.ratio > 1:
            # repr is the shortest decimal; give it room upwards and downwards.
            assert satisfies(channel, notion, Fraction(level.epsilon) + Fraction(1, 10**15))
            assert not satisfies(channel, notion, Fraction(level.epsilon) - Fraction(1, 10**12))


def test_no_tolerance_a_single_unit_decides():
    low, high = exp_enclosure(Fraction(1), 30)
    kept = Fraction(low).limit_denominator(10**12)
    while kept > low:
        kept -= Fraction(1, 10**13)
    for ratio, expected in ((kept, True), (high + Fraction(1, 10**25), False)):
        a, b = ratio.numerator, ratio.denominator
        channel = Channel.from_weights(PRIOR, [[a, b], [b, a]])
        assert satisfies(channel, "ldp", 1) is expected


def test_zero_budget_means_no_information():
    same = Channel.from_weights(PRIOR, [[1, 2], [1, 2]])
    nearly = Channel.from_weights(PRIOR, [[10**20, 10**20], [10**20 + 1, 10**20 - 1]])
    for notion in ("lip", "ldp"):
        assert satisfies(same, notion, 0)
        assert not satisfies(nearly, notion, 0)
    assert audit(same).mip == 0.0 < audit(nearly).mip


def test_a_cell_of_zero_has_no_finite_level():
    levels = audit(Channel.from_weights(PRIOR, [[4, 0], [1, 3]]))
    assert math.isinf(levels.lip.epsilon)
    assert math.isinf(levels.ldp.epsilon)
    assert math.isfinite(levels.lip_upper.epsilon)
    assert "∞" in str(levels)


@given(st.data())
def test_mutual_information_matches_its_definition(data):
    prior = data.draw(priors())
    channel = data.draw(channels(prior))
    joint = prior.probabilities[:, None] * channel.matrix
    independent = prior.probabilities[:, None] * channel.marginal
    positive = joint > 0
    expected = float((joint[positive] * np.log(joint[positive] / independent[positive])).sum())
    levels = audit(channel)
    assert levels.mip == pytest.approx(expected, abs=1e-12)
    exact = sum(
        (
            Fraction(prior.weights[x] * int(cell), prior.total * channel.denominator)
            * log_enclosure(Fraction(int(cell) * prior.total, int(channel.marginal_weights[y])), 30)[0]
            for (x, y), cell in np.ndenumerate(channel.weights)
            if cell and prior.weights[x]
        ),
        Fraction(0),
    )
    assert exact <= Fraction(levels.mip) + Fraction(1, 10**25)


def test_the_witness_is_told_in_words():
    a, b = exp_enclosure(Fraction(1), 20)[0].as_integer_ratio()
    # The optimal channel at ε = 1 for a 10% prior, in exact rationals.
    lie = 10 * b - a
    channel = Channel.from_weights(PRIOR, [[9 * a, 9 * b], [lie, 9 * (a + b) - lie]])
    assert str(audit(channel).witness) == (
        "someone believed to be 'yes' with 10% is believed with at most 27.2% and at least 3.67%"
    )


def test_values_outside_the_support_are_named_and_exposure_is_shouted():
    prior = Prior.of({"a": 1, "b": 1, "never": 0})
    hidden = audit(Channel.from_weights(prior, [[3, 1], [1, 3], [2, 2]]))
    assert (hidden.outside, hidden.exposed) == (("never",), ())
    exposed = audit(Channel.from_weights(prior, [[3, 1, 0], [1, 3, 0], [1, 1, 2]]))
    assert exposed.exposed == ("never",)
    assert "outside the guarantee (prior zero): 'never'" in str(exposed)
    assert "EXPOSED" in str(exposed)
    assert "EXPOSED" not in str(hidden)


def test_unknown_notions_are_refused():
    with pytest.raises(ValueError, match="must be one of lip, ldp"):
        satisfies(Channel.from_weights(PRIOR, [[1], [1]]), "dp", 1)


@pytest.mark.parametrize(
    ("share", "direction", "text"),
    [
        (Fraction(1, 2), "near", "50%"),
        (Fraction(1, 10**12), "near", "0.0000000001%"),
        (1 - Fraction(1, 10**6), "down", "99.9999%"),
        (Fraction(2, 3), "up", "66.7%"),
        (Fraction(2, 3), "down", "66.6%"),
        (Fraction(0), "down", "0%"),
        (Fraction(1), "up", "100%"),
    ],
)
def test_percentages_round_as_bounds(share, direction, text):
    assert percent(share, direction) == text


@pytest.mark.parametrize(
    ("share", "direction", "text"),
    [
        (1 - Fraction(1, 10**30), "down", "99." + "9" * 28 + "%"),
        (Fraction(1, 10**400), "up", "0." + "0" * 397 + "1%"),
        (Fraction(10**22 - 1, 10**23), "down", "9.99%"),
        (Fraction(0), "up", "0%"),
        (Fraction(1), "down", "100%"),
    ],
)
def test_a_percentage_stays_a_bound_where_floats_end(share, direction, text):
    assert percent(share, direction) == text
