"""Priors of the test grid, and brute force that shares no code with the package."""

from itertools import product

import numpy as np
from scipy.optimize import linprog

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
PRIORS = ("zipf", "dirichlet", "uniform", "dominated")


def make_prior(name, d, seed=1):
    if name == "zipf":
        weights = 1 / np.arange(1, d + 1)
    elif name == "dirichlet":
        weights = np.random.default_rng(seed).dirichlet(np.ones(d))
    elif name == "uniform":
        weights = np.ones(d)
    else:
        tail = 1 / np.arange(1, d)
        weights = np.concatenate([[0.9], 0.1 * tail / tail.sum()])
    return weights / weights.sum()


def make_task(name, d):
    return np.eye(d) if name == "histogram" else np.arange(d, dtype=float)[:, None]


def box_vertices(prior, lower, upper):
    """Try every coordinate as the free one and every pattern of bounds on the others."""
    d = len(prior)
    found = []
    for free in range(d):
        for pattern in product((lower, upper), repeat=d - 1):
            v = np.insert(np.array(pattern), free, 0.0)
            v[free] = (1 - prior @ v) / prior[free]
            if lower - 1e-12 <= v[free] <= upper + 1e-12:
                found.append(v)
    return np.array(found)


def ratio_vertices(prior, lower, upper, ratio):
    """Vertices of {lower <= v <= upper, v_i <= ratio v_j, P.v = 1} by solving every square system of tight rows.

    Written from the definition: choose d - 1 inequalities, make them equalities.
    """
    from itertools import combinations

    d = len(prior)
    rows, limits = [], []
    for i in range(d):
        rows += [np.eye(d)[i], -np.eye(d)[i]]
        limits += [upper, -lower]
        for j in range(d):
            if i != j:
                rows.append(np.eye(d)[i] - ratio * np.eye(d)[j])
                limits.append(0.0)
    rows, limits = np.array(rows), np.array(limits)
    found = []
    for chosen in combinations(range(len(rows)), d - 1):
        system = np.vstack([rows[list(chosen)], prior])
        if abs(np.linalg.det(system)) < 1e-12:
            continue
        v = np.linalg.solve(system, np.append(limits[list(chosen)], 1.0))
        if (rows @ v <= limits + 1e-9).all():
            found.append(v)
    return np.unique(np.round(found, 12), axis=0)


def gain_of(prior, g, lifts):
    centred = g - prior @ g
    return (((lifts * prior) @ centred) ** 2).sum(axis=1)


def best_gain(prior, g, vertices):
    """The linear program over all vertices, by scipy."""
    found = linprog(
        -gain_of(prior, g, vertices), A_eq=vertices.T, b_eq=np.ones(len(prior)), bounds=(0, None), method="highs"
    )
    assert found.status == 0, found.message
    return -found.fun


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
    assert abs(value - design.gain) <= 1e-11 * max(design.gain, 1e-300)
    assert design.gain <= design.gain_bound * (1 + 1e-12)
