"""What adversaries found of sets of priors and caps: no worse than LDP, served where possible, audited as stated."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tacit import Histogram, Prior, Sum, Survey, design, verify
from tacit.designs import Promise, planning
from tacit.designs._many_values import unbiased_variance_bound
from tacit.designs.prior_file import GroupPrior
from tacit.prior import Ball, Box, Hull, PriorSet, from_records


@pytest.mark.parametrize(
    ("d", "epsilon", "radius"),
    [(4, "0.5", "0.1"), (5, "1", "0.1"), (6, "0.5", "0.3"), (7, "0.5", "0.1"), (7, "1", "0.3"), (7, "2", "0.1")],
)
def test_a_bound_that_was_searched_for_is_found_again(d: int, epsilon: str, radius: str) -> None:
    """Two searches end at different bounds, both true. A bound that is higher by a thousandth is refused."""
    prior = Prior.uniform(d)
    found = design(prior, Histogram(), Promise(epsilon, prior_set=Ball(prior, radius)))
    assert verify(found).holds
    stated = found.certificate
    higher = stated.lower_bound * 1.001
    assert not verify(replace(found, certificate=replace(stated, lower_bound=higher))).holds


def steep(d: int) -> Prior:
    return Prior(range(d), [max(1, round(20_000 / (k + 1) ** 3)) for k in range(d)])


def some_sets(prior: Prior) -> list[PriorSet]:
    """Two that keep values apart which a survey of several does not."""
    box = from_records(prior, sum(prior.weights), "0.99")
    assert isinstance(box, Box)
    other = Prior(prior.values, list(reversed(prior.weights)))
    near = Prior(prior.values, [20 * a + b for a, b in zip(prior.weights, other.weights, strict=True)])
    return [box, Hull(prior, [near])]


@pytest.mark.parametrize("d", [13, 20, 36])
def test_a_survey_of_several_values_is_served_for_every_set_and_never_worse_than_for_the_ball(d: int) -> None:
    prior, task = steep(d), Survey((7, 11))
    for prior_set in some_sets(prior):
        found = design(prior, task, Promise(1, prior_set=prior_set))
        ball = design(prior, task, Promise(1, prior_set=Ball(prior, prior_set.radius)))
        reached = found.certificate.unbiased_variance
        assert reached <= ball.certificate.unbiased_variance * (1 + 1e-6)
        assert reached <= design(prior, task, Promise(1, notion="ldp")).certificate.unbiased_variance * (1 + 1e-6)
        assert 0 < found.certificate.lower_bound <= reached
        assert verify(found).holds
        trusting = design(prior, task, Promise(1, prior_set=prior_set), aim="mmse")
        assert verify(trusting).holds


@pytest.mark.parametrize(("d", "epsilon", "cap"), [(60, 2, "2.05")])
def test_a_capped_sum_is_never_worse_than_ldp(d: int, epsilon: int, cap: str) -> None:
    """Column generation over all values, the named wrong way, ended at up to four times LDP's variance."""
    prior = Prior.uniform(d)
    found = design(prior, Sum(), Promise(epsilon, ldp_cap=cap))
    ldp = design(prior, Sum(), Promise(epsilon, notion="ldp"))
    assert found.certificate.unbiased_variance <= ldp.certificate.unbiased_variance * (1 + 1e-4)
    assert found.channel.audit().ldp.holds(Fraction(cap))
    assert verify(found).holds


def test_the_bound_holds_where_one_value_is_all_but_certain() -> None:
    """1 − P is then lost to rounding: the bound was no number at 10¹⁸, and too high by a ten-thousandth at 10¹⁵."""
    found = [
        unbiased_variance_bound(Prior(range(15), [10**digits, *([1] * 14)]), 1, within)
        for digits in (9, 12, 15, 18)
        for within in (None, Ball(Prior(range(15), [10**digits, *([1] * 14)]), Fraction(1, 10**12)))
    ]
    assert np.isfinite(found).all()
    assert found[::2] == pytest.approx([found[0]] * 4, rel=1e-8)


def test_a_target_is_looked_for_below_the_cap() -> None:
    priors = [GroupPrior(name=None, prior=Prior.of({"yes": 0.1, "no": 0.9}))]
    plan = planning.smallest_budget(priors, Survey("yes"), 40.0, 1000, ldp_cap="1.9")
    assert plan.groups[0].epsilon < Fraction("1.9")
    assert plan.groups[0].audit.ldp.holds(Fraction("1.9"))
    with pytest.raises(ValueError, match=r"out of reach: ε = 0.199 still"):
        planning.smallest_budget(priors, Survey("yes"), 10.0, 1000, ldp_cap="0.2")


@pytest.mark.parametrize("epsilon", [1, 4])
@pytest.mark.parametrize("d", [8, 100])
def test_a_small_ball_of_priors_is_near_the_prior_alone(d: int, epsilon: int) -> None:
    """Radius 0 is plain LIP, and the variance is continuous there; LDP's, twice as large, is not near it."""
    prior = Prior(range(d), [Fraction(10**6, k + 1) for k in range(d)])
    plain, zero, tiny, small = (
        design(prior, Histogram(), Promise(epsilon, prior_set=each)).certificate.unbiased_variance
        for each in (None, *(Ball(prior, radius) for radius in (0, "0.000001", "0.001")))
    )
    assert zero == plain
    assert tiny == pytest.approx(plain, rel=2e-3)
    assert small < plain * 1.15


@pytest.mark.parametrize("wanted", [(0, 1), (0, 1, 2, 3)])
def test_surveys_of_several_or_all_values_with_candidates_are_served(wanted: tuple[int, ...]) -> None:
    """Of all values the variance is 0, or a rounding error below it, from which a search has to choose."""
    prior = Prior([0, 1, 2, 3], [3, 5, 5, 13])
    found = design(prior, Survey(wanted), Promise("1.5", prior_set=Hull(prior, [Prior([0, 1, 2, 3], [2, 5, 5, 1])])))
    assert verify(found).holds


def test_the_best_ldp_channel_of_some_twenty_values_is_searched_for() -> None:
    """Adult education at ε = 2: circles reach 10.06, subset selection 10.25, and a table that is searched for 9.1."""
    counts = [10501, 7291, 5355, 1723, 1382, 1175, 1067, 933, 646, 576, 514, 433, 413, 333, 168, 51]
    found = planning.ldp_comparison(Prior(range(16), counts), Histogram(), Fraction(2), "unbiased")
    assert found is not None
    assert found.certificate.unbiased_variance < 9.4
    assert found.mechanism.keeps("ldp", Fraction(2))
    assert verify(found).holds
