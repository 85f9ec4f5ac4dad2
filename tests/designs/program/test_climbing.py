"""Tables of more values than vertices can be listed for: against listed vertices, proved optima and the exact audit."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tacit import Histogram, Prior, design, make_plan, verify
from tacit.designs import Promise, Search
from tacit.designs._program import sets
from tacit.designs._program.robust_lifts import RobustLifts
from tacit.designs._program.sets import NestedClimber, solve_robust
from tacit.prior import Ball, Box

from support.priors import named_prior

EIGHT = Prior(range(8), [31, 3, 1, 12, 7, 22, 5, 19])
RADII = (0, "1/20", "3/10")


def box(prior: Prior) -> Box:
    shares = [Fraction(weight, prior.total) for weight in prior.weights]
    return Box(prior, [share * Fraction(4, 5) for share in shares], [share * Fraction(13, 10) for share in shares])


@pytest.mark.parametrize("prior_set", [*(Ball(EIGHT, radius) for radius in RADII), box(EIGHT)], ids=str)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_best_lift_for_a_slope_is_a_vertex_and_none_is_better(prior_set, epsilon):
    """In any other order than that of slope over prior, say by the slopes, some are better."""
    polytope = RobustLifts(prior_set, epsilon)
    slopes = np.random.default_rng(1).normal(size=(300, 8))
    best, found = (slopes @ polytope.vertices.T).max(axis=1), polytope.best_nested(slopes)
    assert (slopes * found).sum(axis=1) == pytest.approx(best, abs=1e-9)
    assert polytope.gauge(found - 1).max() <= 1 + 1e-12
    # In the order of the slopes is in that of slopes·P over P.
    by_slopes = polytope.best_nested(slopes * polytope.prior)
    assert (best - (slopes * by_slopes).sum(axis=1)).max() > 0.05


@pytest.mark.parametrize("prior_set", [*(Ball(EIGHT, radius) for radius in RADII), box(EIGHT)], ids=str)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_climbing_comes_within_the_gap_of_the_proved_optimum(prior_set, epsilon, monkeypatch):
    optimum = solve_robust(prior_set, np.eye(8), epsilon)
    assert optimum.status in {"optimal", "within gap"}
    monkeypatch.setattr(sets, "MOST_VALUES", 7)
    climbed = solve_robust(prior_set, np.eye(8), epsilon, gap=1e-3)
    assert (climbed.method, climbed.bound) == ("climbing", 0.0)
    assert 1 - 1e-7 <= climbed.value / optimum.value <= 1.003
    monkeypatch.setattr(NestedClimber, "climb", lambda self, factor, duals, starts: starts)  # Nowhere.
    assert solve_robust(prior_set, np.eye(8), epsilon, gap=1e-3).value > 1.01 * optimum.value


@pytest.mark.parametrize(("radius", "gain"), [(0, 0.09), ("3/100", 0.09), ("1/10", 0.08)])
def test_tables_of_sixteen_values_beat_the_circles_and_keep_the_promise(radius, gain):
    prior = named_prior("zipf", 16)
    prior_set = Ball(prior, radius) if radius else None
    found = design(prior, Histogram(), Promise(1, prior_set=prior_set))
    circle = design(prior, Histogram(), Promise(1, prior_set=prior_set), search=Search(method="many-values"))
    assert (found.mechanism.kind, found.certificate.method) == ("table", "climbing")
    assert found.certificate.unbiased_variance < (1 - gain) * circle.certificate.unbiased_variance
    assert found.certificate.unbiased_variance > found.certificate.lower_bound > 0
    assert verify(found).holds
    if prior_set is not None:
        assert all(level.holds(Fraction(1)) for level in found.channel.set_levels(prior_set))
        # The promise for one prior does not hold for those around it.
        alone = design(prior, Histogram(), 1)
        assert not all(level.holds(Fraction(1)) for level in alone.channel.set_levels(prior_set))


def test_what_would_make_a_plan_long_or_take_long_is_left_to_circles():
    prior = named_prior("zipf", 20)
    kinds = [
        {group.mechanism.kind for group in make_plan(dict.fromkeys(map(str, range(n)), prior), Histogram(), 1).groups}
        for n in (2, 40)
    ]
    assert kinds == [{"table"}, {"many-values"}]
    assert design(named_prior("zipf", 51), Histogram(), 1).mechanism.kind == "many-values"


@pytest.mark.parametrize(("size", "epsilon", "method"), [(60, 5, "repaired response"), (60, 3, "many values")])
def test_at_a_large_epsilon_reports_may_nearly_name_the_answer(size, epsilon, method):
    """The repaired response is the best of them where most values may be named; LDP varies nearly twice as much."""
    prior = named_prior("zipf", size)
    found = design(prior, Histogram(), epsilon)
    assert found.certificate.method == method
    others = [
        design(prior, Histogram(), epsilon, search=Search(method=each)).certificate.unbiased_variance
        for each in ("many-values", "repaired", "without-prior")
    ]
    assert found.certificate.unbiased_variance == min(others)
    assert sorted(others)[2] > 1.5 * min(others)
