"""The optimum against brute force where that is possible, and its certificate where it is not."""

import numpy as np
import pytest

from tacit.designs._program.bounds import dual_bound
from tacit.designs._program.lifts import LiftSet
from tacit.designs._program.solver import solve

from support.oracle import best_gain, box_vertices, g_of, gain_of, ratio_vertices
from support.priors import KINDS, named_shares

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)


def check_design(design, prior, g, lift_set, tolerance=1e-12):
    """Feasible to rounding, and worth what it says."""
    assert (design.probabilities >= 0).all()
    assert np.abs(design.probabilities @ design.lifts - 1).max() < tolerance * 10
    assert np.abs(design.lifts @ prior - 1).max() < tolerance
    assert (design.lifts >= lift_set.lower * (1 - 1e-12) - 1e-15).all()
    assert (design.lifts <= lift_set.upper * (1 + 1e-12)).all()
    if np.isfinite(lift_set.ratio):
        assert (design.lifts.max(axis=1) <= lift_set.ratio * design.lifts.min(axis=1) * (1 + 1e-12)).all()
    value = design.probabilities @ gain_of(prior, g, design.lifts)
    assert abs(value - design.value) <= 1e-11 * max(design.value, 1e-300)
    assert design.value <= design.bound * (1 + 1e-12)


@pytest.mark.parametrize("task", ["histogram", "sum"])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("d", [2, 3, 7, 10])
def test_equals_brute_force(d, name, epsilon, task):
    prior, g, lift_set = named_shares(name, d), g_of(task, d), LiftSet.lip(epsilon)
    design = solve(prior, g, lift_set)
    check_design(design, prior, g, lift_set)
    truth = best_gain(prior, g, box_vertices(prior, lift_set.lower, lift_set.upper))
    assert abs(design.value - truth) <= 1e-9 * max(1.0, truth)
    assert 0 <= design.bound - truth + 1e-12 * truth <= 1e-9 * max(1.0, truth)
    assert len(design.probabilities) <= 2 * d


def test_clean_lifts_have_one_solved_coordinate():
    prior, lift_set = named_shares("dirichlet", 9), LiftSet.lip(1.0)
    lifts = solve(prior, np.eye(9), lift_set).lifts
    away = (np.abs(lifts - lift_set.lower) > 1e-13) & (np.abs(lifts - lift_set.upper) > 1e-13)
    assert (away.sum(axis=1) <= 1).all()


@pytest.mark.parametrize("task", ["histogram", "sum"])
@pytest.mark.parametrize(("name", "epsilon"), [("zipf", 1.0), ("dirichlet", 4.0)])
def test_a_thousand_values_are_certified_to_one_per_cent(name, epsilon, task):
    """A hundred are to half a per cent, down to the integers: `test_design`."""
    prior, g, lift_set = named_shares(name, 1000), g_of(task, 1000), LiftSet.lip(epsilon)
    design = solve(prior, g, lift_set, gap=0.01, time_limit=60.0)
    check_design(design, prior, g, lift_set)
    assert design.gap <= 0.01


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("d", [9, 16, 40, 100])
def test_uniform_histogram_is_exactly_optimal(d, epsilon):
    """theory.md section 3: k values at E, one in between, the rest at 1/E."""
    e = np.exp(epsilon)
    k = int(np.floor(d / (e + 1) + 1e-12))
    v = np.repeat([e, d - k * e - (d - k - 1) / e, 1 / e], [k, 1, d - k - 1])
    truth = ((v - 1) ** 2).sum() / d**2
    design = solve(np.full(d, 1 / d), np.eye(d), LiftSet.lip(epsilon), gap=1e-9)
    assert abs(design.value - truth) <= 1e-10 * truth
    assert abs(design.bound - truth) <= 1e-9 * truth


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("d", [3, 5, 8])
@pytest.mark.parametrize("task", ["histogram", "sum"])
def test_ldp_equals_patterns(d, epsilon, task):
    prior, g, lift_set = named_shares("dirichlet", d), g_of(task, d), LiftSet.ldp(epsilon)
    patterns = np.where(np.arange(2**d)[:, None] >> np.arange(d) & 1, np.exp(epsilon), 1.0)
    vertices = patterns / (patterns @ prior)[:, None]
    design = solve(prior, g, lift_set)
    check_design(design, prior, g, lift_set)
    truth = best_gain(prior, g, vertices)
    assert abs(design.value - truth) <= 1e-9 * max(1.0, truth)
    assert design.bound - truth <= 1e-9 * max(1.0, truth)
    assert design.value < solve(prior, g, LiftSet.lip(epsilon)).value


@pytest.mark.parametrize("cap", [1.1, 1.5, 2.5])
@pytest.mark.parametrize("d", [3, 4, 5])
@pytest.mark.parametrize("task", ["histogram", "sum"])
def test_capped_ratio_equals_brute_force(d, cap, task):
    prior, g, lift_set = named_shares("dirichlet", d, seed=4), g_of(task, d), LiftSet.lip(1.0, ldp_cap=cap)
    design = solve(prior, g, lift_set)
    check_design(design, prior, g, lift_set)
    truth = best_gain(prior, g, ratio_vertices(prior, lift_set.lower, lift_set.upper, lift_set.ratio))
    assert abs(design.value - truth) <= 1e-9 * max(1.0, truth)


def test_indicator_of_a_set_is_the_binary_problem():
    prior = named_shares("dirichlet", 1000)
    inside = np.arange(1000) < 77
    p, e = prior[inside].sum(), np.exp(1.0)
    high, low = min(e * p, 1 - (1 - p) / e), max(p / e, 1 - e * (1 - p))
    design = solve(prior, inside.astype(float), LiftSet.lip(1.0))
    assert abs(design.value - (high - p) * (p - low)) < 1e-12
    assert np.ptp(design.lifts[:, inside], axis=1).max() == 0


@pytest.mark.parametrize("m", [2, 3])
def test_several_columns(m):
    rng = np.random.default_rng(m)
    prior, g = named_shares("dirichlet", 30), rng.normal(size=(30, m))
    design = solve(prior, g, LiftSet.lip(1.0), gap=0.005)
    check_design(design, prior, g, LiftSet.lip(1.0))
    assert design.gap <= 0.005


def test_no_budget_means_a_constant_report():
    design = solve(named_shares("zipf", 4), np.eye(4), LiftSet.lip(0.0))
    assert design.value == design.bound == 0
    assert (design.lifts == 1).all()


def test_duals_reproduce_the_bound():
    prior, lift_set = named_shares("dirichlet", 9), LiftSet.lip(1.0)
    design = solve(prior, np.eye(9), lift_set)
    assert abs(dual_bound(prior, np.eye(9), lift_set, design.duals) - design.bound) < 1e-12
    assert dual_bound(prior, np.eye(9), lift_set, design.duals * 1.1) > design.bound + 1e-6


def test_interrupt_returns_the_best_so_far():
    def stop(gain, bound):
        raise KeyboardInterrupt

    prior, g, lift_set = named_shares("zipf", 40), g_of("sum", 40), LiftSet.lip(1.0)
    design = solve(prior, g, lift_set, progress=stop)
    check_design(design, prior, g, lift_set)
    assert design.status == "interrupted"
    assert design.value > 0
    assert design.bound >= solve(prior, g, lift_set).value


def test_a_failing_solver_leaves_arcs(monkeypatch):
    from tacit.designs._program import master

    def broken(self, seconds):
        raise master.SolverError("HiGHS broke")

    prior, g, lift_set = named_shares("dirichlet", 8), np.eye(8), LiftSet.lip(1.0)
    truth = solve(prior, g, lift_set).value
    monkeypatch.setattr(master.GrowingProgram, "solve", broken)
    arcs = solve(prior, g, lift_set)
    check_design(arcs, prior, g, lift_set)
    assert "HiGHS broke" in arcs.notes[0]
    assert 0 < arcs.value < truth <= arcs.bound
    assert gain_of(prior, g, arcs.lifts).min() >= 0
