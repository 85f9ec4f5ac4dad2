"""Prior-free designs against a direct convex solve."""

import numpy as np
import pytest
from scipy.optimize import minimize

from tacit.designs._program.lifts import LiftSet
from tacit.designs._program.unbiased import solve_unbiased

from support.oracle import box_vertices, g_of


def direct_variance(prior, g, vertices):
    """Minimise tr(g' J^-1 g) over weights of all vertices by a general-purpose solver."""

    def value(w):
        inverse = np.linalg.inv((vertices * w[:, None]).T @ vertices)
        side = vertices @ inverse @ g
        return np.trace(g.T @ inverse @ g), -(side**2).sum(axis=1)

    start = np.linalg.lstsq(vertices.T, np.ones(len(prior)), rcond=None)[0]
    if (start <= 0).any():
        start = np.full(len(vertices), 1 / len(vertices))
    found = minimize(
        value, start, jac=True, method="SLSQP", bounds=[(1e-9, 1)] * len(vertices),
        constraints={"type": "eq", "fun": lambda w: w @ vertices - 1, "jac": lambda w: vertices.T},
        options={"maxiter": 1000, "ftol": 1e-12},
    )  # fmt: skip
    assert found.success, found.message
    return found.fun - ((prior @ g) ** 2).sum()


@pytest.mark.parametrize("task", ["histogram", "sum"])
@pytest.mark.parametrize(("d", "seed"), [(2, 0), (3, 1), (4, 2), (5, 3)])
def test_equals_direct_convex_solve(d, seed, task):
    prior = np.random.default_rng(seed).dirichlet(np.full(d, 3.0))
    g, lift_set = g_of(task, d), LiftSet.lip(1.0)
    design = solve_unbiased(prior, g, lift_set, gap=1e-4)
    truth = direct_variance(prior, g, box_vertices(prior, lift_set.lower, lift_set.upper))
    assert design.value == pytest.approx(truth, rel=3e-4)
    assert design.bound <= truth * (1 + 1e-9)
    assert np.abs(design.probabilities @ design.lifts - 1).max() < 1e-11


def test_known_values():
    """theory.md section 4: binary 1.25 and 2.34 for LDP; uniform on 7 values, LDP subset selection 19.0."""
    pair = np.full(2, 0.5)
    assert solve_unbiased(pair, np.eye(2), LiftSet.lip(1.0)).value == pytest.approx(1.2513, abs=1e-3)
    assert solve_unbiased(pair, np.eye(2), LiftSet.ldp(1.0)).value == pytest.approx(2.3413, abs=1e-3)
    seven = np.full(7, 1 / 7)
    ldp = solve_unbiased(seven, np.eye(7), LiftSet.ldp(1.0))
    lip = solve_unbiased(seven, np.eye(7), LiftSet.lip(1.0))
    assert ldp.value == pytest.approx(19.0, abs=0.05)
    assert lip.value < ldp.bound
