"""Tiers: the audit against the definitions, wrong ways that it finds, and what reports tell."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tacit import Histogram, Prior
from tacit.designs import Promise, design
from tacit.designs._many_values import design_many_values, unbiased_variance_bound
from tacit.designs._tiers import design_tiers, tail_lift
from tacit.designs.without_prior import subset_selection
from tacit.exact import exp_below
from tacit.mechanism import PrivacyError, Tiers
from tacit.mechanism.many_values import ManyValues
from tacit.mechanism.tiers import lift_range_of_tier, tail_of
from tacit.prior import Ball

ZIPF = Prior(range(300), [10**9 // (x + 1) for x in range(300)])


def _levels(prior: Prior, columns: list[list[Fraction]], radius: Fraction) -> tuple[Fraction, Fraction]:
    """The highest and the lowest lift over all priors of the ball, by its own greedy rule."""
    highest, lowest = Fraction(0), Fraction(1)
    for column in columns:
        scale = np.lcm.reduce([each.denominator for each in column])
        least, most = Ball(prior, radius).extremes([int(each * int(scale)) for each in column])
        highest = max(highest, max(column) * int(scale) / least)
        lowest = min(lowest, min(column) * int(scale) / most)
    return highest, lowest


def _small(rng: np.random.Generator) -> ManyValues | None:
    """A rule for values of a tail, in a plane or shuffled; without margins some of its arcs hold too much."""
    weights = rng.choice([1, 1, 1, 2, 3, 5], int(rng.integers(3, 7))).tolist()
    plane = {"slots": 3, "first": 1, "second": 1, "light": int(rng.integers(0, 4))} if rng.integers(2) else {}
    arc, bits = int(rng.integers(1, 8)), {"cell_bits": 4, "seed_bits": 2, "word_bits": int(rng.integers(6, 9))}
    try:
        step = int(rng.integers(1, max(2, (1 << bits["word_bits"] - 1) // arc)))
        return ManyValues(prior=Prior.of(weights), giants=0, covered=arc, arc=arc, step=step, **bits, **plane)
    except ValueError:
        return None


def test_no_prior_of_a_ball_has_a_lift_beyond_the_audit() -> None:
    """All columns of small tiers, under the worst prior of the ball that there is."""
    rng, close, wrong, found = np.random.default_rng(0), 0, 0, 0
    while found < 60:
        part = _small(rng)
        if part is None:
            continue
        found += 1
        tail, heads = list(part.weights), rng.integers(1, 30, int(rng.integers(1, 3))).tolist()
        prior = Prior.of([*[each + max(tail) for each in heads], *tail])
        mass, radius = Fraction(sum(prior.weights[: len(heads)]), prior.total), Fraction(int(rng.integers(0, 70)), 100)
        made = Tiers(prior=prior, starts=(0, len(heads)), chances=(1, 1), parts=(
            ManyValues(prior=prior, giants=0, covered=part.arc, arc=part.arc, step=1,
                       cell_bits=4, seed_bits=2, word_bits=part.word_bits),
            replace(part, prior=tail_of(prior, len(heads))),
        ))  # fmt: skip
        reports = [report for report in range(made.edges[1], made.edges[2]) if made.can_send(report)]
        columns = [[made.likelihood(x, report) for x in range(len(prior))] for report in reports]
        highest, lowest = _levels(prior, columns, radius)
        stated = lift_range_of_tier(made.parts[1], mass, radius)
        assert stated[1] <= lowest
        assert highest <= stated[0]
        close += stated[0] < highest * Fraction(5, 4)
        # The named wrong answer: only covered mass moves, and none of the heads'.
        covered = min(radius, (1 - mass) * part.share)
        wrong += highest > lift_range_of_tier(made.parts[1], mass, covered)[0]
    assert close > 20, "the bound is not only valid"
    assert wrong > 5


def test_heads_are_what_makes_a_short_arc_possible() -> None:
    """The same rule without heads: in a ball an arc of less mass than the radius has two levels only, which is LDP."""
    made = design_tiers(ZIPF, 4, "0.1")
    ratio, radius = exp_below(Fraction(4)), Fraction(1, 10)
    assert made.within(ratio, radius)
    assert not made.within(ratio, Fraction(11, 100))
    assert not made.within(ratio * Fraction(999, 1000), radius)
    for part in made.parts[1:]:
        assert part.odds > Fraction(5, 4) * ratio
        assert part.lift_range(radius)[0] > Fraction(5, 4) * ratio
    # The named wrong answer: a tier that leaves out nothing of the mass that its rule was made for.
    with pytest.raises(ValueError, match="tail"):
        replace(made, starts=(0, *(start + 1 for start in made.starts[1:])))
    longer = replace(made.parts[1], step=made.parts[1].step * 101 // 100)
    assert not replace(made, parts=(made.parts[0], longer, *made.parts[2:])).within(ratio, radius)


def test_estimates_are_unbiased_far_from_the_prior_and_vary_as_stated() -> None:
    made, rng, people, rounds = design_tiers(ZIPF, 3, "0.1"), np.random.default_rng(3), 10_000, 40
    p, last = ZIPF.probabilities, np.zeros(300)
    last[-1] = 1.0
    for truth in (p, 0.5 * p + 0.5 * last, rng.permutation(p)):
        off, stated = np.zeros((rounds, 300)), np.zeros(300)
        for k in range(rounds):
            held = rng.choice(300, people, p=truth)
            words = rng.integers(0, 2**made.word_bits, (people, made.words_per_report), dtype=np.uint64)
            read = made.read("unbiased", Histogram(), made.keep(made.draw_many(held, words)))
            off[k], stated = read.estimate - np.bincount(held, minlength=300), stated + read.variance / rounds
        square = (off**2).mean(axis=0)
        assert square.sum() == pytest.approx(stated.sum(), rel=0.06)
        assert square[:5].sum() == pytest.approx(stated[:5].sum(), rel=0.35)
        z = off.mean(axis=0) / np.sqrt(stated / rounds)
        assert (z**2).mean() == pytest.approx(1, abs=0.35)
        assert np.abs(z).max() < 5
        if truth is p:
            own = people * (made.variances() - p * (1 - p))
            assert stated.sum() == pytest.approx(own.sum(), rel=0.02)
            # The named wrong answer: the variance of the first tier's rule alone.
            assert stated.sum() < 0.9 * people * (made.parts[0].variances() - p * (1 - p)).sum()


def test_reports_of_different_tiers_are_drawn_as_often_as_stated() -> None:
    made, rng = design_tiers(ZIPF, 4, "0.1"), np.random.default_rng(4)
    words = rng.integers(0, 2**made.word_bits, (200_000, made.words_per_report), dtype=np.uint64)
    reports = made.draw_many(rng.integers(0, 300, 200_000), words)
    assert [made.draw(x, tuple(map(int, row))) for x, row in zip((0, 150, 299), words, strict=False)] == made.draw_many(
        np.array([0, 150, 299]), words[:3]
    ).tolist()
    counts = np.histogram(reports, made.edges)[0]
    shares = np.array(made.chances) / sum(made.chances)
    assert ((counts - 2e5 * shares) ** 2 / (2e5 * shares)).sum() < 40  # Chi-square, α = 1e-8.
    assert ((counts - 2e5 * shares[::-1]) ** 2 / (2e5 * shares[::-1])).sum() > 1000


def test_a_prior_off_by_a_tenth_still_saves_two_fifths_of_ldp() -> None:
    """22,000 values of Zipf's law as in the published table, where `many-values` has LDP's variance."""
    epsilon = 5
    prior = Prior(range(22_000), [10**12 // (x + 1) for x in range(22_000)])
    found = design(prior, Histogram(), Promise(epsilon, prior_set=Ball(prior, "0.1")))
    ldp = subset_selection(prior, Fraction(epsilon)).unbiased_variance(Histogram())
    assert found.mechanism.kind == "tiers"
    assert found.certificate.unbiased_variance < 0.6 * ldp
    assert found.certificate.lower_bound < found.certificate.unbiased_variance
    rule = design_many_values(prior, epsilon, "0.1", cell_bits=24)
    assert rule.variances().sum() > 0.95 * ldp


def test_there_are_no_tiers_where_they_win_nothing() -> None:
    for prior, epsilon, radius in ((Prior.uniform(300), 3, "0.3"), (ZIPF, 1, "0.01"), (ZIPF, 2, 0)):
        with pytest.raises(PrivacyError, match="nothing"):
            design_tiers(prior, epsilon, radius)


def test_the_lift_of_a_tail_is_that_of_its_closed_form() -> None:
    """A light tail tells nearly as much as for one prior; one that is nearly all there is, as LDP."""
    e = np.exp(5)
    assert tail_lift(e, 0.1, 1e-6)[0] > 0.8 * (e - 1) ** 2 / e
    assert tail_lift(e, 0.1, 1 - 1e-9)[0] == pytest.approx((e - 1) ** 2 / (4 * e), rel=1e-3)
    found = [tail_lift(e, 0.1, tail)[0] for tail in np.linspace(0.01, 0.99, 50)]
    assert (np.diff(found) < 1e-9).all()
    assert unbiased_variance_bound(ZIPF, 5, Ball(ZIPF, "0.1")) > 0
