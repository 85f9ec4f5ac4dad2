"""Error against budget, with mechanisms of one's own beside ours."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from studies.baselines import k_ary_response
from tacit import Channel, GroupPrior, Histogram, Prior, audit, design, mse, round_channel
from tacit.designs import Search
from tacit.published import compare

GROUPS = [
    GroupPrior(name="a", prior=Prior.of({"x": 0.5, "y": 0.3, "z": 0.2}), share=Fraction(1, 4)),
    GroupPrior(name="b", prior=Prior.of({"x": 0.1, "y": 0.1, "z": 0.8}), share=Fraction(3, 4)),
]


def test_a_mechanism_of_ones_own_is_compared_at_every_budget():
    """Its error is the mean over groups by their shares, its level the worst group's."""

    def half_honest(prior: Prior, epsilon: Fraction) -> Channel:
        return Channel.from_matrix(prior, [[2 / 3, 1 / 6, 1 / 6], [1 / 6, 2 / 3, 1 / 6], [1 / 6, 1 / 6, 2 / 3]])

    rows = compare(GROUPS, Histogram(), [2, "0.5"], aim="mmse", own={"half": half_honest, "k-ary": k_ary_response})
    assert [row.epsilon for row in rows] == [0.5, 2]
    for row in rows:
        assert list(row.own) == ["half", "k-ary"]
        for name, build in (("half", half_honest), ("k-ary", k_ary_response)):
            made = [(build(group.prior, Fraction(row.epsilon)), group) for group in GROUPS]
            error, level = row.own[name]
            squares = sum(float(group.share) * mse(channel, Histogram()) for channel, group in made)
            assert error == pytest.approx(math.sqrt(squares), rel=1e-12)
            assert level == max(audit(channel).lip.epsilon for channel, group in made)
        # Nothing that keeps the promise is better than what is proved best.
        assert row.own["k-ary"][1] <= row.epsilon + 1e-9
        assert row.lip_bound <= row.own["k-ary"][0] + 1e-12
    # The named wrong one: it does not look at the budget, so it is better than best where it breaks it.
    assert rows[0].own["half"] == rows[1].own["half"]
    assert rows[0].own["half"][1] > 0.5
    assert rows[0].own["half"][0] < rows[0].lip_bound


def test_any_mechanism_can_be_compared_and_ours_is_ours():
    prior = [GroupPrior(name=None, prior=Prior(range(30), [30 - k for k in range(30)]))]
    ours = {
        "ours": lambda prior, epsilon: design(prior, Histogram(), epsilon, aim="mmse").mechanism,
        "many-values": lambda prior, epsilon: (
            design(prior, Histogram(), epsilon, aim="mmse", search=Search(method="many-values")).mechanism
        ),
    }
    (row,) = compare(prior, Histogram(), [1], aim="mmse", own=ours)
    assert row.own["ours"][0] == pytest.approx(row.lip, rel=1e-12)
    assert row.lip_bound <= row.own["many-values"][0] <= row.no_data
    assert row.own["many-values"][1] <= 1 + 1e-12
    assert row.to_dict()["own"] == dict(row.own)


def test_without_ones_own_nothing_changes():
    alone, beside = (compare(GROUPS[:1], Histogram(), [1], own=own)[0] for own in (None, {"k-ary": k_ary_response}))
    assert alone.own == {}
    assert {name: number for name, number in beside.to_dict().items() if name != "own"} == {
        name: number for name, number in alone.to_dict().items() if name != "own"
    }


def test_a_matrix_can_be_made_to_keep_its_promise_first():
    prior = GROUPS[0].prior
    matrix = k_ary_response(prior, 1).matrix
    (row,) = compare(GROUPS[:1], Histogram(), [1], own={"mine": lambda prior, e: round_channel(prior, matrix, e)})
    assert row.own["mine"][1] <= 1
