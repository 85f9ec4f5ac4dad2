"""Bounds hold for any duals, compared with the maximum over all vertices."""

import numpy as np
import pytest

from tacit.designs._program import bounds, branching
from tacit.designs._program.bounds import cheap_bound, cheap_variance_bound, dual_bound, per_value_bound
from tacit.designs._program.branching import branched
from tacit.designs._program.columns import climb
from tacit.designs._program.deadline import Deadline
from tacit.designs._program.gain import Gain
from tacit.designs._program.lifts import LiftSet, all_vertices, best_lifts, exchanged
from tacit.designs._program.unbiased import solve_unbiased

from support.oracle import best_gain, box_vertices, gain_of, ratio_vertices
from support.priors import named_shares

SETS = [LiftSet.lip(0.5), LiftSet.lip(2.0), LiftSet.ldp(1.0), LiftSet.lip(1.0, 1.4), LiftSet(0.0, 2.0)]


def vertices_of(prior, lift_set):
    if np.isfinite(lift_set.ratio):
        return ratio_vertices(prior, lift_set.lower, lift_set.upper, lift_set.ratio)
    return box_vertices(prior, lift_set.lower, lift_set.upper)


@pytest.mark.parametrize("lift_set", SETS)
def test_vertices_and_linear_optimum(lift_set):
    prior = named_shares("dirichlet", 4, seed=2)
    truth = vertices_of(prior, lift_set)
    slopes = np.random.default_rng(0).normal(size=(50, 4))
    best = (truth @ slopes.T).max(axis=0)
    assert np.allclose((all_vertices(prior, lift_set) @ slopes.T).max(axis=0), best, atol=1e-9)
    assert np.allclose((best_lifts(prior, lift_set, slopes) * slopes).sum(axis=1), best, atol=1e-9)


@pytest.mark.parametrize("small", [True, False], ids=["enumerated", "relaxed"])
@pytest.mark.parametrize("lift_set", SETS)
@pytest.mark.parametrize("columns", [0, 1, 2, 4])
def test_garbage_duals_give_valid_bounds(lift_set, columns, small, monkeypatch):
    if not small:
        monkeypatch.setattr(bounds, "ENUMERATION_LIMIT", 1)
    rng = np.random.default_rng(columns)
    for size in (0.0, 0.01, 1.0, 100.0):
        prior = rng.dirichlet(np.ones(4))
        g = rng.normal(size=(4, columns)) if columns else np.eye(4)
        duals = rng.normal(size=4) * size
        v = vertices_of(prior, lift_set)
        truth = duals.sum() + (gain_of(prior, g, v) - v @ duals).max()
        bound = dual_bound(prior, g, lift_set, duals)
        assert bound >= truth - 1e-9 * (1 + size)
        assert not small or bound <= truth + 1e-8 * (1 + size)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_large_bounds_are_valid_and_close(epsilon, monkeypatch):
    """At d = 9 the methods meant for large d must stay above the exact bound, and near it."""
    rng = np.random.default_rng(8)
    lift_set = LiftSet.lip(epsilon)
    for g in (np.eye(9), np.arange(9.0)[:, None], rng.normal(size=(9, 2))):
        prior = rng.dirichlet(np.ones(9))
        duals = rng.normal(size=9) * prior**2 * 0.1
        exact = dual_bound(prior, g, lift_set, duals)
        with monkeypatch.context() as patch:
            patch.setattr(bounds, "ENUMERATION_LIMIT", 1)
            large = dual_bound(prior, g, lift_set, duals)
        assert exact * (1 - 1e-12) <= large <= exact * 1.002


@pytest.mark.parametrize("rare", [False, True], ids=["dirichlet", "rare cells"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.5])
def test_branch_and_bound_is_the_maximum_over_all_vertices(epsilon, rare):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        n = 5 + seed
        prior = named_shares("dirichlet", n, seed=seed)
        if rare:
            prior = 0.98 * rng.dirichlet(np.full(n, 0.3)) + 0.02 / n
        factor, duals = rng.normal(size=(n, n - 2)), rng.normal(size=n)
        factor *= np.sqrt(prior)[:, None]
        lift_set = LiftSet.lip(epsilon)
        v = all_vertices(prior, lift_set)
        best = float(((((v - 1) @ factor) ** 2).sum(axis=1) - v @ duals).max())
        bound, leads = branched(prior, factor, duals, lift_set, Deadline())
        slack = 4.1e-3 * abs(best + duals.sum())
        assert best <= bound + 1e-9 <= best + slack + 2e-9
        assert len(leads) == 0
        # Without nodes that are left the first bound is returned, which holds and is not as sharp.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(branching, "_MOST_NODES", 0)
            first, leads = branched(prior, factor, duals, lift_set, Deadline())
        assert first >= bound - 1e-9
        if first > bound + slack:
            assert np.allclose(leads @ prior, 1)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_the_box_of_a_node_holds_its_vertices_and_is_smaller(epsilon):
    rng, lift_set, smaller = np.random.default_rng(3), LiftSet.lip(epsilon), 0
    for _ in range(6):
        prior = 0.9 * rng.dirichlet(np.full(9, 0.3)) + 0.1 / 9
        low, high = (end - 1 for end in lift_set.limits(prior))
        problem = branching._Problem(prior, np.eye(9), np.zeros(9), low, high, Deadline())
        u = all_vertices(prior, lift_set) - 1
        inside = (u > low + 1e-9) & (u < high - 1e-9)
        for between in (-1, 8):
            free = np.arange(4, 9)
            for ends in np.ndindex(2, 2, 2, 2):
                held = np.where(ends, high[:4], low[:4])
                here = (np.abs(u[:, :4] - held) < 1e-9).all(axis=1)
                if between >= 0:
                    here &= ~inside[:, np.arange(9) != between].any(axis=1)
                node = branching._Part(np.append(held, np.zeros(5))[None], np.array([np.inf]))
                box = problem.box(free, node, between)
                if len(node.bounds):
                    assert (u[here][:, free] >= box[0] - 1e-8).all()
                    assert (u[here][:, free] <= box[1] + 1e-8).all()
                    smaller += (box[1] - box[0] < (high - low)[free] - 1e-6).sum()
                else:
                    assert not here.any()
    assert smaller > 100


def test_no_edge_leads_higher_from_where_lifts_are_moved_to():
    rng = np.random.default_rng(4)
    prior, lift_set = named_shares("dirichlet", 10, seed=4), LiftSet.lip(1.5)
    factor, duals = rng.normal(size=(10, 8)) * np.sqrt(prior)[:, None], rng.normal(size=10) * 0.2
    low, high = lift_set.limits(prior)

    def worth(u):
        return ((u @ factor) ** 2).sum(axis=1) - u @ duals

    start = climb(prior, Gain(factor), lift_set, duals, best_lifts(prior, lift_set, rng.normal(size=(64, 10)))) - 1
    moved = exchanged(prior, (low - 1, high - 1), factor, duals, start)
    assert np.abs(moved @ prior).max() < 1e-12
    assert (moved >= low - 1).all()
    assert (moved <= high - 1).all()
    assert (worth(moved) >= worth(start) - 1e-12).all()
    # Where the tangent alone leads is often not the best of its edges.
    assert (worth(moved) > worth(start) + 1e-6).sum() > 8
    for i in range(10):
        for j in set(range(10)) - {i}:
            most = np.minimum(prior[i] * (high[i] - 1 - moved[:, i]), prior[j] * (moved[:, j] - low[j] + 1))
            step = np.zeros(moved.shape)
            step[:, i], step[:, j] = most / prior[i], -most / prior[j]
            assert (worth(moved + step) <= worth(moved) + 1e-9).all()


def test_a_spread_bound_holds_and_is_tight_for_a_table_of_two_questions():
    prior = named_shares("dirichlet", 6, seed=5)
    rows = [np.eye(2)[np.repeat([0, 1], 3)], np.eye(3)[np.tile([0, 1, 2], 2)], np.eye(6)]
    margins, table = np.hstack(rows[:2]), np.hstack(rows)
    for epsilon in (0.5, 1.0):
        low, high = LiftSet.lip(epsilon).limits(prior)
        for g, share in ((margins, 0.5), (table, 0.85)):
            best = solve_unbiased(prior, g, LiftSet.lip(epsilon)).value
            assert share * best <= cheap_variance_bound(prior, g, LiftSet.lip(epsilon)) <= best * (1 + 1e-9)
        # Lifts that are taken to vary less than they may would prove too much.
        assert bounds.spread_bound(prior, table, (high - 1) * (1 - low) / 1.5) > best


def test_cheap_bounds_hold_and_can_be_tight():
    lift_set = LiftSet.lip(1.0)
    prior = named_shares("zipf", 8)
    v = box_vertices(prior, lift_set.lower, lift_set.upper)
    assert per_value_bound(prior, lift_set) >= best_gain(prior, np.eye(8), v)
    g = np.arange(8.0)[:, None]
    assert cheap_bound(prior, Gain.of(prior, g), lift_set) >= best_gain(prior, g, v)
    pair = np.array([0.3, 0.7])
    v = box_vertices(pair, lift_set.lower, lift_set.upper)
    assert abs(per_value_bound(pair, lift_set) - best_gain(pair, np.eye(2), v)) < 1e-12
