"""The brute-force oracle: independent answers for small cases, which share no code with the package.

Every vertex of a set of lift vectors is enumerated from the definition of the set, and one linear program over all of
them, by scipy, is the best that any channel can do.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
from scipy.optimize import linprog
from scipy.stats import binom


def box_vertices(prior: np.ndarray, lower: float, upper: float) -> np.ndarray:
    """All vertices of {lower ≤ v ≤ upper, Σ P v = 1}: all but one coordinate at a bound."""
    d = len(prior)
    found = []
    for free in range(d):
        others = [x for x in range(d) if x != free]
        patterns = np.array(list(product((lower, upper), repeat=d - 1)))
        v = np.empty((len(patterns), d))
        v[:, others] = patterns
        v[:, free] = (1.0 - patterns @ prior[others]) / prior[free]
        inside = (lower - 1e-12 <= v[:, free]) & (v[:, free] <= upper + 1e-12)
        found.append(np.clip(v[inside], lower, upper))
    return np.unique(np.round(np.concatenate(found), 14), axis=0)


def ldp_vertices(prior: np.ndarray, upper: float) -> np.ndarray:
    """Lift vectors proportional to the patterns {1, E}^d: the extreme rays of the ε-LDP cone."""
    patterns = np.array(list(product((1.0, upper), repeat=len(prior))))
    return patterns / (patterns @ prior)[:, None]


def ratio_vertices(prior: np.ndarray, lower: float, upper: float, ratio: float) -> np.ndarray:
    """Vertices of {lower ≤ v ≤ upper, v_i ≤ ratio v_j, Σ P v = 1}: d − 1 of the inequalities made equalities."""
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
    chosen = np.array(list(combinations(range(len(rows)), d - 1)))
    systems = np.concatenate([rows[chosen], np.broadcast_to(prior, (len(chosen), 1, d))], axis=1)
    targets = np.append(limits[chosen], np.ones((len(chosen), 1)), axis=1)
    regular = np.abs(np.linalg.det(systems)) >= 1e-12
    found = np.linalg.solve(systems[regular], targets[regular, :, None])[..., 0]
    return np.unique(np.round(found[(found @ rows.T <= limits + 1e-9).all(axis=1)], 12), axis=0)


def g_of(task: str, d: int) -> np.ndarray:
    """The matrix g of a task on 0, …, d − 1."""
    return {"histogram": np.eye(d), "sum": np.arange(d, dtype=float)[:, None]}[task]


def gain_of(prior: np.ndarray, g: np.ndarray, lifts: np.ndarray) -> np.ndarray:
    """|Σ_x P_x (g_x − ḡ) v(x)|² of every lift vector v."""
    centred = g - prior @ g
    return (((lifts * prior) @ centred) ** 2).sum(axis=1)


def best_gain(prior: np.ndarray, g: np.ndarray, vertices: np.ndarray) -> float:
    """max Σ λ_y gain(v_y) subject to Σ λ_y v_y = 1, λ ≥ 0."""
    return best_objective(prior, vertices, gain_of(prior, g, vertices))


def best_objective(prior: np.ndarray, vertices: np.ndarray, objective: np.ndarray) -> float:
    """max Σ λ_y objective_y subject to Σ λ_y v_y = 1, λ ≥ 0."""
    # HiGHS has absolute tolerances, so the objective is scaled to one.
    scale = max(float(np.abs(objective).max()), 1e-300)
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    result = linprog(-objective / scale, A_eq=vertices.T, b_eq=np.ones(len(prior)), method="highs", options=tight)
    assert result.status == 0, result.message
    return float(-result.fun) * scale


def best_lip_gain(prior: np.ndarray, g: np.ndarray, epsilon: float) -> float:
    """The best gain of any channel whose lifts lie in [e^−ε, e^ε]."""
    return best_gain(prior, g, box_vertices(prior, np.exp(-epsilon), np.exp(epsilon)))


def best_central_mse(n: int, p: float, epsilon: float) -> float:
    """CIP as an LP over reports, each a distribution of S on two outcomes whose mean lies in [L, U].

    For a fixed mean m of S given the report, the gain (m − Np)² does not depend on the rest, so reports with support
    on two outcomes and mean on a fine grid containing L, U and every integer are enough.
    """
    e = np.exp(epsilon)
    low, high = max(n * p / e, n - e * n * (1 - p)), min(e * n * p, n - n * (1 - p) / e)
    means = [low, high, *(m for m in range(n + 1) if low < m < high)]
    columns, gains = [], []
    for mean in means:
        for a in range(n + 1):
            for b in range(a, n + 1):
                if a <= mean <= b:
                    column = np.zeros(n + 1)
                    share = 1.0 if a == b else (b - mean) / (b - a)
                    column[a] += share
                    column[b] += 1 - share
                    columns.append(column)
                    gains.append((mean - n * p) ** 2)
    mass = binom.pmf(np.arange(n + 1), n, p)
    result = linprog(-np.array(gains), A_eq=np.array(columns).T, b_eq=mass, method="highs")
    assert result.status == 0, result.message
    return float(n * p * (1 - p) + result.fun)


def mean_absolute_error(channel) -> float:
    """E|X − label(Y)| of numbers, Pr(X ≠ label(Y)) of names."""
    prior, labels, total = channel.prior, channel.labels, 0.0
    for x, value in enumerate(prior.values):
        for y, label in enumerate(labels):
            distance = abs(float(value) - float(label)) if prior.is_numeric else float(value != label)
            total += prior.probabilities[x] * channel.matrix[x, y] * distance
    return float(total)
