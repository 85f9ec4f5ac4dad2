"""The judgement of `make bench-peers`, on planted systems of which some break their promise. No peer is needed."""

from __future__ import annotations

import doctest
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from peers import audit, measure, peer, show, truth
from peers.equal_level import best_ldp_error
from peers.of_tacit import EXACT, off_by
from peers.of_tacit import peers as tacit_rows
from peers.peer import Exact, Peer, Shares, k_ary_ratio, pure_shares
from peers.results import Cell, Row, goals
from scipy.stats import binomtest, chi2

from tacit import Prior

D = 4


def k_ary(truthful: float, claim: float = 1.0, seed: int = 0) -> Peer:
    """k-ary response that tells the truth with this probability."""
    rng, other = np.random.default_rng(seed), (1 - truthful) / (D - 1)

    def perturb(values):
        elsewhere = rng.integers(0, D - 1, len(values))
        return np.where(rng.random(len(values)) < truthful, values, elsewhere + (elsewhere >= values))

    def estimate(reports):
        return Shares(pure_shares(np.bincount(reports, minlength=D), len(reports), truthful, other))

    return Peer(
        system="planted", protocol="k-RR", epsilon=claim, secure=False, bytes_per_report=1, perturb=perturb,
        estimate=estimate, supports=lambda reports, x: reports == x,
    )  # fmt: skip


def unary(last_bit_is_sent_as_it_is: bool) -> Peer:
    """OUE at ε = 1, or a slip that really shipped: the last bit is not randomized."""
    rng, q = np.random.default_rng(0), 1 / (math.e + 1)

    def perturb(values):
        own = np.arange(D) == values[:, None]
        bits = np.where(own, rng.random(own.shape) < 0.5, rng.random(own.shape) < q)
        if last_bit_is_sent_as_it_is:
            bits[:, -1] = own[:, -1]
        return bits

    return replace(k_ary(0.5), protocol="OUE", perturb=perturb, supports=lambda reports, x: reports[:, x])


HONEST = math.e / (math.e + D - 1)


@pytest.mark.parametrize("successes", [0, 1, 37, 99, 100])
def test_bounds_are_clopper_and_pearsons(successes):
    interval = binomtest(successes, 100).proportion_ci(0.9, method="exact")
    assert audit.lower(successes, 100, 0.05) == pytest.approx(interval.low, abs=1e-12)
    assert audit.upper(successes, 100, 0.05) == pytest.approx(interval.high, abs=1e-12)


def test_a_peer_over_its_budget_is_flagged_and_an_honest_one_is_not():
    """One honest peer in 500,000 would be flagged. A level of 1.55, which a resampling slip once had, shows."""
    honest, slipped = k_ary(HONEST), k_ary(math.exp(1.55) / (math.exp(1.55) + D - 1))
    levels = [audit.audited(each, D, seconds=60) for each in (honest, slipped)]
    assert not levels[0].exact
    assert not levels[0].over
    assert 0.9 < levels[0].value <= 1
    assert levels[1].over
    assert 1.4 < levels[1].value <= 1.55
    assert "OVER" in str(levels[1])


def test_a_bit_that_is_not_randomized_is_found():
    assert not audit.audited(unary(False), D, seconds=60).over
    assert audit.audited(unary(True), D, seconds=60).over


def test_a_matrix_decides_exactly_unless_its_code_does_otherwise():
    matrix = Exact(k_ary_ratio(HONEST, D))
    level = audit.audited(replace(k_ary(HONEST), exact=lambda: matrix), D, seconds=60)
    assert level.exact
    assert level.value == pytest.approx(1, abs=1e-12)
    assert not level.over
    more = Exact(k_ary_ratio(np.nextafter(HONEST, 1), D))
    by_rounding = audit.audited(replace(k_ary(HONEST), exact=lambda: more), D, seconds=60)
    assert by_rounding.exceeds
    assert not by_rounding.over
    lying = audit.audited(replace(k_ary(0.9), exact=lambda: matrix), D, seconds=60)
    assert not lying.exact
    assert lying.over


def test_errors_of_fewer_rows_are_scaled_to_all_people(monkeypatch):
    """The mean of 3 · 200 squares, within 1 − 1e-9 of its law; the error of the rows themselves is 50 times that."""
    monkeypatch.setattr(measure, "_rows", lambda *_: 2_000)
    shares = np.full(D, 1 / D)
    prior = Prior.uniform(D)
    found = measure.measure(k_ary(HONEST), D, lambda n, run: truth.people(prior, n, run, 0), 200, 0.0)
    p, q = HONEST, (1 - HONEST) / (D - 1)
    each = (q * (1 - q) + shares[0] * (p - q) * (1 - p - q)) / (p - q) ** 2 / measure.PEOPLE
    freedom = 200 * (D - 1)
    low, high = chi2.ppf([5e-10, 1 - 5e-10], freedom) / freedom
    assert low < found.squared_error / each < high
    assert not low < found.squared_error * measure.PEOPLE / 2_000 / each < high
    assert found.scaled
    assert found.clipped_error is None
    assert found.coverage is None


def test_speeds_are_of_many_rows_where_there_is_time_and_errors_never(monkeypatch):
    monkeypatch.setattr(measure, "MANY", 300_000)
    monkeypatch.setattr(measure, "_rows", lambda *_: measure.PEOPLE)
    prior = Prior.uniform(D)
    hurried, patient = (
        measure.measure(k_ary(HONEST), D, lambda n, run: truth.people(prior, n, run, 0), measure.RUNS, seconds)
        for seconds in (0.0, 3600.0)
    )
    assert (hurried.rows, hurried.perturbed_rows, hurried.estimated_rows) == (100_000, 100_000, 100_000)
    assert (patient.rows, patient.perturbed_rows, patient.estimated_rows) == (100_000, 300_000, 300_000)
    assert hurried.squared_error == patient.squared_error
    for part in (Fraction(1, 2), 1):
        assert not measure.Speed(int(measure.PEOPLE * part), 1.0).leaves_time_for_many(0.5, 1.0)


def test_the_stated_prior_is_as_far_off_as_it_says():
    for make in truth.TRUTHS.values():
        for d in (2, 16):
            stated = truth.shifted(make(d), Fraction(1, 10))
            distance = np.abs(stated.probabilities - make(d).probabilities).sum() / 2
            assert distance == pytest.approx(0.1)


def test_rows_of_tacit_are_audited_and_read():
    prior = Prior.uniform(2)
    rows = {row.protocol: row for row in tacit_rows(prior, 1.0)}
    assert {EXACT, off_by(Fraction(3, 100)), "LDP"} <= set(rows)
    values = truth.people(prior, 5_000, 0, 0)
    for row in rows.values():
        level = audit.audited(row, 2)
        assert level.exact
        assert not level.exceeds
        shares = row.estimate(row.perturb(values))
        assert len(shares.unclipped) == 2
        assert (shares.low < shares.unclipped).all()
        assert (shares.unclipped < shares.high).all()


def test_the_best_ldp_error_is_that_of_randomized_response_for_two_values():
    expected = math.e / (math.e - 1) ** 2 / measure.PEOPLE
    assert best_ldp_error(Prior.uniform(2), 1.0) == pytest.approx(expected, rel=1e-3)


def test_goals_tell_what_is_missed():
    cell = Cell(2, 1.0, "uniform")
    fast = measure.Measured(100_000, 5, 1e8, 1e8, 2e-6, None, None)
    slow = measure.Measured(100_000, 5, 1e4, 1e4, 5e-6, None, None)
    level = audit.Level(1.0, True, 1.0, False, 1.0)
    ours = Row(cell, next(tacit_rows(Prior.uniform(2), 1.0)), fast, level, 5e-6, 1e-6)
    theirs = Row(cell, replace(k_ary(HONEST), secure=True), slow, level)
    said = {goal.what: goal for goal in goals([ours, theirs])}
    assert said[f"{EXACT}: perturb, times every secure peer"].met
    assert said[f"{EXACT}: error over the best LDP peer's"].met
    assert said[f"{EXACT}: error over the best LDP known, equal LDP level"].met is None
    broken = replace(ours, level=replace(level, exceeds=True))
    assert not {goal.what: goal for goal in goals([broken, theirs])}[goals([broken, theirs])[-1].what].met


def test_examples_in_the_benchmark():
    assert [doctest.testmod(module).failed for module in (audit, measure, peer, show, truth)] == [0] * 5
