"""Error against budget: ours, LDP's and the published form's."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from tacit import GroupPrior, Histogram, Prior, audit, design, mse
from tacit.designs.rules import compare, theorem3

GROUPS = [
    GroupPrior(name="a", prior=Prior.of({"x": 0.5, "y": 0.3, "z": 0.2}), share=Fraction(1, 4)),
    GroupPrior(name="b", prior=Prior.of({"x": 0.1, "y": 0.1, "z": 0.8}), share=Fraction(3, 4)),
]


def test_errors_are_means_over_groups_by_their_shares_and_levels_of_the_worst_group():
    rows = compare(GROUPS, Histogram(), [2, "0.5"], aim="mmse")
    assert [row.epsilon for row in rows] == [0.5, 2]
    for row in rows:
        ours = [mse(design(group.prior, Histogram(), row.epsilon, aim="mmse"), Histogram()) for group in GROUPS]
        assert row.lip == pytest.approx(math.sqrt((ours[0] + 3 * ours[1]) / 4), rel=1e-9)
        # The named wrong mean: groups counted alike.
        assert row.lip != pytest.approx(math.sqrt(sum(ours) / 2), rel=1e-2)
        assert row.lip_bound <= row.lip <= row.ldp <= row.no_data
        printed = [theorem3(group.prior, Fraction(row.epsilon), force=True) for group in GROUPS]
        assert row.published_level == max(audit(channel).lip.epsilon for channel in printed)
        assert row.published_breaks == (row.published_level > row.epsilon + 1e-6)
