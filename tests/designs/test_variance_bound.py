"""No channel varies less than `unbiased_variance_bound`: circles reach it, and smaller sets of priors claim less."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from tacit import Histogram, Prior, design, verify
from tacit.designs import Promise, Search
from tacit.designs._many_values import best_share, design_many_values, most_lift_variance, unbiased_variance_bound
from tacit.prior import Ball, Box, Hull

from support.priors import named_prior
from support.wishes import wished

BUDGETS, RADII = (0.1, 0.5, 1.0, 2.0, 4.0), (0.0, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)


def lift_variance(levels: np.ndarray, masses: np.ndarray, e: float, tau: float) -> float:
    """The largest variance of lifts 1 + q(c − m) that keep the promise in a ball, c having these levels from 0 to 1.

    The worst priors of the ball take the mass τ from the top (mean T) to c = 0, and from the bottom (mean B) to c = 1.
    """

    def moved_from_last(levels: np.ndarray, masses: np.ndarray) -> float:
        taken = np.minimum(np.cumsum(masses[::-1]), tau)
        return float(np.diff(taken, prepend=0.0) @ levels[::-1])

    m = float(masses @ levels)
    up = tau - moved_from_last(levels[::-1], masses[::-1])
    q = (e - 1) / max(1 - m + e * moved_from_last(levels, masses), e * m + up)
    return q**2 * float(masses @ (levels - m) ** 2)


@pytest.mark.parametrize(("epsilon", "tau"), [*itertools.product(BUDGETS, RADII)])
def test_the_two_levels_of_a_circle_vary_as_much_as_any_lift_may(epsilon: float, tau: float) -> None:
    e = float(np.exp(epsilon))
    m = float(best_share(Fraction(e), Fraction(str(tau))))
    two_levels = lift_variance(np.array([0.0, 1.0]), np.array([1 - m, m]), e, tau)
    assert two_levels == pytest.approx(most_lift_variance(e, tau), rel=1e-9)


@pytest.mark.parametrize(("epsilon", "tau"), [(0.5, 0.2), (1.0, 0.1), (2.0, 0.03), (2.0, 0.1), (2.0, 0.6)])
def test_no_profile_of_lifts_varies_more(epsilon: float, tau: float) -> None:
    e, rng, found = float(np.exp(epsilon)), np.random.default_rng(0), 0.0
    for _ in range(4_000):
        between = rng.random(rng.integers(0, 5)) ** rng.choice([0.1, 1.0, 10.0])
        levels = np.sort(np.concatenate([[0.0, 1.0], between]))
        masses = rng.dirichlet(np.full(len(levels), rng.choice([0.2, 1.0])))
        found = max(found, lift_variance(levels, masses, e, tau))
    assert 0.97 * most_lift_variance(e, tau) < found <= most_lift_variance(e, tau) * (1 + 1e-9)


def test_a_prior_off_by_a_tenth_cannot_halve_the_variance_of_many_values_at_two() -> None:
    """What V says of many equally likely values: nothing below these shares of the best LDP channel's variance."""
    shares = {
        (epsilon, tau): most_lift_variance(np.exp(epsilon), 1) / most_lift_variance(np.exp(epsilon), tau)
        for epsilon, tau in itertools.product((0.5, 1, 2), (0, 0.03, 0.1))
    }
    assert [round(share, 2) for share in shares.values()] == [0.25, 0.28, 0.37, 0.25, 0.29, 0.39, 0.25, 0.32, 0.51]


@pytest.mark.parametrize(("epsilon", "tau"), [*itertools.product((1, 2), ("0.03", "0.1", "0.4"))])
def test_circles_of_many_equally_likely_values_reach_the_bound(epsilon: int, tau: str) -> None:
    prior = Prior.uniform(1000)
    bound = unbiased_variance_bound(prior, epsilon, Ball(prior, tau))
    reached = design_many_values(prior, epsilon, tau).unbiased_variance(Histogram())
    assert bound <= reached <= 1.01 * bound


def test_no_variance_falls_below_its_bound() -> None:
    for kind, d in itertools.product(("zipf", "dirichlet", "uniform", "dominated"), (2, 3, 8, 60)):
        for radius in (0, Fraction(1, 50), Fraction(1, 4)):
            prior = named_prior(kind, d)
            bound = unbiased_variance_bound(prior, 1, Ball(prior, radius))
            assert 0 < bound <= design_many_values(prior, 1, radius).unbiased_variance(Histogram())
    # Two values, where the bound is the best binary channel: 30% at ε = 1 varies by 1.05 each.
    assert unbiased_variance_bound(Prior.of({"yes": 3, "no": 7}), 1) / 2 == pytest.approx(0.5256, abs=1e-3)


@pytest.mark.parametrize(("kind", "d", "radius"), [*itertools.product(("zipf", "uniform"), (3, 7), ("0.05", "0.2"))])
def test_no_optimum_of_the_program_falls_below_it(kind: str, d: int, radius: str) -> None:
    prior = named_prior(kind, d)
    for promise in ({"prior_set": Ball(prior, radius)}, {"notion": "ldp"}):
        found = design(prior, Histogram(), **wished(2, **promise)).certificate
        bound = unbiased_variance_bound(prior, 2, promise.get("prior_set"), promise.get("notion", "lip"))
        assert found.unbiased_variance >= bound * (1 - 1e-9)


def test_a_box_is_not_taken_for_the_ball_around_it() -> None:
    """The wrong answer: the bound of the ball that contains the box, which is beaten by what holds in the box alone."""
    prior = Prior.uniform(20)
    box = Box(prior, [Fraction(4, 100)] * 20, [Fraction(6, 100)] * 20)
    found = design(prior, Histogram(), Promise(2, prior_set=box))
    stated = found.certificate
    assert stated.lower_bound < stated.unbiased_variance < 4.6
    assert unbiased_variance_bound(prior, 2, Ball(prior, box.radius)) > stated.unbiased_variance
    assert stated.status == "feasible"
    assert verify(found).holds


def test_a_hull_proves_what_its_prior_proves() -> None:
    prior = Prior.uniform(20)
    hull = Hull(prior, [Prior(prior.values, [120, *[100] * 18, 80])])
    alone = unbiased_variance_bound(prior, 2)
    assert (
        unbiased_variance_bound(prior, 2, hull) == alone < unbiased_variance_bound(prior, 2, Ball(prior, hull.radius))
    )


def test_a_hull_is_served_by_the_box_around_it_where_the_ball_is_wide() -> None:
    """Two answers of twenty may trade mass: a ball of that radius lets all of them."""
    prior = named_prior("zipf", 20)
    first, second, *rest = prior.weights
    hull = Hull(prior, [Prior(prior.values, [first - second // 2, second + second // 2, *rest])])
    found = design(prior, Histogram(), Promise(2, prior_set=hull))
    ball = design(prior, Histogram(), Promise(2, prior_set=Ball(prior, hull.radius)))
    assert found.certificate.unbiased_variance < 0.7 * ball.certificate.unbiased_variance
    assert hull.box.low[2:] == hull.box.high[2:]
    assert verify(found).holds


def test_a_capped_histogram_is_never_worse_than_ldp_and_claims_what_its_own_promise_proves() -> None:
    """LDP at ε keeps every promise at ε and more: a search for columns that ends early may lose to it."""
    prior = Prior(range(26), [max(1, int(10**12 * 0.5**x)) for x in range(26)])
    found = design(prior, Histogram(), Promise(8, ldp_cap="10.4"), search=Search(time_limit=0.1))
    ldp = design(prior, Histogram(), Promise(8, notion="ldp"))
    assert found.certificate.unbiased_variance <= ldp.certificate.unbiased_variance * (1 + 1e-9)
    assert verify(found).holds
