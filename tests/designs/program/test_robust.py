"""Designs for sets of priors: against vertices and convex solves that share no code with them, and the exact audit."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from scipy.spatial import HalfspaceIntersection

from tacit.designs._program.bounds import cheap_variance_bound
from tacit.designs._program.lifts import LiftSet
from tacit.designs._program.robust_lifts import RobustLifts
from tacit.designs._program.sets import solve_robust, spread_bound_in
from tacit.designs._program.solver import solve
from tacit.designs._program.unbiased import solve_unbiased
from tacit.exact import BigIntegers
from tacit.mechanism.auditing import set_lift_levels
from tacit.mechanism.table._channel import to_words
from tacit.prior import Prior
from tacit.prior.sets import Ball, Box, Hull

#: General health in BRFSS 2020 (319,795 people), from poor to excellent.
HEALTH = Prior(range(5), [11289, 34677, 93129, 113858, 66842])
RADII = (0, "1/100", "3/100", "1/10", 1)


def facets(prior_set, epsilon):
    """Rows a with a·v ≤ 0 for every extreme member and every value, from the definition."""
    n, e = len(prior_set.prior), np.exp(epsilon)
    members = {prior_set.lowest(list(order))[1] for order in permutations(range(n))}
    members |= {prior_set.prior, *getattr(prior_set, "candidates", ())}
    shares = [member.probabilities for member in members]
    return np.concatenate([np.eye(n) - e * p for p in shares] + [p - e * np.eye(n) for p in shares])


def vertices_by_qhull(prior_set, epsilon):
    """Vertices of the polytope cut out by all facets, joggled so that qhull cannot fail; right to about 1e-8."""
    prior, rows = prior_set.prior.probabilities, facets(prior_set, epsilon)
    basis = np.linalg.svd(prior[None])[2][1:].T
    halfspaces = np.column_stack([rows @ basis, rows.sum(axis=1)])
    found = HalfspaceIntersection(halfspaces, np.zeros(len(prior) - 1), qhull_options="QJ").intersections
    return np.unique(np.round(1 + found @ basis.T, 6), axis=0)


def best_gain(prior, g, vertices):
    factor = prior[:, None] * (g - prior @ g)
    gains = ((vertices @ factor) ** 2).sum(axis=1)
    # Vertices are rounded, so the mean lift is asked to be one up to rounding.
    found = linprog(
        -gains, A_ub=np.vstack([vertices.T, -vertices.T]), b_ub=np.repeat([1 + 1e-6, -1 + 1e-6], len(prior))
    )
    assert found.status == 0
    return -found.fun


def least_variance(prior, g, vertices):
    """tr(g' J⁻¹ g) − |E g|² at its least, by a general-purpose solver."""

    def value(w):
        inverse = np.linalg.inv((vertices * w[:, None]).T @ vertices)
        side = vertices @ inverse @ g
        return np.trace(g.T @ inverse @ g), -(side**2).sum(axis=1)

    start = np.full(len(vertices), 1 / len(vertices))
    found = minimize(
        value, start, jac=True, method="SLSQP", bounds=[(1e-9, 1)] * len(vertices),
        constraints={"type": "eq", "fun": lambda w: w @ vertices - 1, "jac": lambda w: vertices.T},
        options={"maxiter": 500, "ftol": 1e-10},
    )  # fmt: skip
    assert found.success, found.message
    return found.fun - ((prior @ g) ** 2).sum()


def some_sets(n, seed):
    """One of each kind, with a radius above the rarest value's probability among them."""
    rng = np.random.default_rng(seed)
    prior = Prior(range(n), rng.integers(5, 40, n).tolist())
    shares = [prior.probability(x) for x in range(n)]
    rarest = min(shares)
    others = [[w + a for w, a in zip(prior.weights, row, strict=True)] for row in rng.integers(0, 9, (2, n)).tolist()]
    low = [share * (10 - cut) / 10 for share, cut in zip(shares, rng.integers(1, 5, n).tolist(), strict=True)]
    high = [min(share * (10 + add) / 10, 1) for share, add in zip(shares, rng.integers(1, 5, n).tolist(), strict=True)]
    return [
        Ball(prior, rarest / 3),
        Ball(prior, min(2 * rarest, Fraction(1, 2))),
        Box(prior, low, high),
        Hull(prior, [Prior(range(n), other) for other in others]),
    ]


def rounded(prior_set, design, bits=48):
    """Integer rows over 2^bits, after a little of the marginal is mixed in, as a plan would hold them."""
    prior = prior_set.prior
    matrix = design.lifts.T * design.probabilities
    mixed = (1 - 1e-9) * matrix + 1e-9 * design.probabilities
    rows = np.empty((len(prior), len(design.probabilities)), dtype=object)
    rows[:] = [int(p * 2**80) for p in design.probabilities]
    for x, row in zip(prior.support, mixed, strict=True):
        rows[x] = [int(cell * 2**80) for cell in row]
    words: BigIntegers = to_words(rows, bits)
    return words


def holds(prior_set, design, epsilon):
    upper, lower = set_lift_levels(rounded(prior_set, design), prior_set)
    return upper.holds(Fraction(epsilon)) and lower.holds(Fraction(epsilon))


# -- numbers that are known -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shares", "epsilon", "gains"),
    [
        ((0.41, 0.59), 1, (0.1933, 0.1904, 0.1848, 0.1670, 0.1007)),
        ((0.479, 0.32, 0.201), 2, (0.4693, 0.4653, 0.4574, 0.4314, 0.2834)),
        ((0.133, 0.29, 0.387, 0.189), 1, (0.2246, 0.2189, 0.2086, 0.1704, 0.0735)),
    ],
)
def test_gains_of_theory_9_1(shares, epsilon, gains):
    prior = Prior(range(len(shares)), shares)
    for radius, gain in zip(RADII, gains, strict=True):
        design = solve_robust(Ball(prior, radius), np.eye(len(shares)), float(epsilon), aim="mmse")
        assert design.value == pytest.approx(gain, abs=1.5e-4)
        assert design.status == "optimal"


def test_variances_of_theory_9_2():
    """Both counts of one yes/no answer; and of five answers, half of LDP's respondents with a prior off by a tenth."""
    for share, variances in ((0.3, (1.05, 1.07, 1.11, 1.32, 2.26)), (0.1, (1.49, 1.54, 1.65, 2.02, 2.02))):
        for radius, variance in zip(RADII, variances, strict=True):
            ball = Ball(Prior.of({"yes": share, "no": 1 - share}), radius)
            assert solve_robust(ball, np.eye(2), 1.0).value == pytest.approx(variance, abs=6e-3)
    found = [solve_robust(Ball(HEALTH, radius), np.eye(5), 1.0) for radius in RADII]
    assert max(design.gap for design in found) < 1e-5
    assert found[3].value < found[4].bound / 2


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_radius_zero_is_lip_and_radius_one_is_ldp(epsilon):
    prior = HEALTH.probabilities
    for radius, lift_set in ((0, LiftSet.lip(epsilon)), (1, LiftSet.ldp(epsilon))):
        gain = solve_robust(Ball(HEALTH, radius), np.eye(5), epsilon, aim="mmse").value
        assert gain == pytest.approx(solve(prior, np.eye(5), lift_set, gap=1e-6).value, rel=1e-6)
        variance = solve_robust(Ball(HEALTH, radius), np.eye(5), epsilon).value
        assert variance == pytest.approx(solve_unbiased(prior, np.eye(5), lift_set, gap=1e-4).value, rel=2e-4)


# -- the lifts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_vertices_have_the_support_function_of_the_polytope(n):
    """max slope·v over the listed vertices and over all facets by a linear program agree; so do list and polytope."""
    rng = np.random.default_rng(n)
    for prior_set in some_sets(n, seed=n):
        rows, polytope = facets(prior_set, 1.0), RobustLifts(prior_set, 1.0)
        vertices = polytope.vertices
        assert (vertices @ rows.T).max() < 1e-12
        assert np.abs(vertices @ polytope.prior - 1).max() < 1e-13
        two_levels_only = vertices[[len(np.unique(np.round(v, 9))) <= 2 for v in vertices]]
        missed = 0
        for slope in rng.normal(size=(12, n)):
            best = -linprog(-slope, A_ub=rows, b_ub=np.zeros(len(rows)), A_eq=polytope.prior[None], b_eq=[1]).fun
            assert (vertices @ slope).max() == pytest.approx(best, abs=1e-8)
            missed += (two_levels_only @ slope).max(initial=-9.0) < best - 1e-6
        # The named wrong answer: lifts of two levels, which are all that LDP needs, are not enough.
        assert missed


def test_every_ray_meets_the_boundary_where_the_gauge_says():
    rng = np.random.default_rng(0)
    for prior_set in some_sets(5, seed=9):
        polytope, rows = RobustLifts(prior_set, 0.7), facets(prior_set, 0.7)
        lifts = polytope.stretched(np.exp(rng.normal(size=(200, 5))))
        assert (lifts @ rows.T).max() < 1e-13
        assert ((1 + 1.001 * (lifts - 1)) @ rows.T).max(axis=1).min() > 0


# -- the designs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "task"), [(3, "histogram"), (3, "sum"), (4, "histogram"), (4, "sum"), (5, "histogram")])
def test_designs_equal_brute_force(n, task):
    g = np.eye(n) if task == "histogram" else np.arange(n, dtype=float)[:, None]
    for prior_set in some_sets(n, seed=20 + n):
        prior, vertices = prior_set.prior.probabilities, vertices_by_qhull(prior_set, 1.0)
        mmse = solve_robust(prior_set, g, 1.0, aim="mmse")
        assert mmse.value == pytest.approx(best_gain(prior, g, vertices), rel=1e-3)
        assert mmse.value <= mmse.bound <= mmse.value * (1 + 1e-9)
        free = solve_robust(prior_set, g, 1.0)
        assert free.value == pytest.approx(least_variance(prior, g, vertices), rel=1e-3)
        assert free.value * (1 - 1e-4) <= free.bound <= free.value
        # The named wrong answer, the design for the nominal prior alone, is better than what the set allows.
        wrong = solve(prior, g, LiftSet.lip(1.0), gap=1e-6).value
        assert wrong > mmse.bound * (1 + 1e-3)
        for design in (mmse, free):
            assert np.abs(design.probabilities @ design.lifts - 1).max() < 1e-12
            assert (design.lifts @ facets(prior_set, 1.0).T).max() < 1e-12


def test_rounded_designs_pass_the_exact_audit_and_the_nominal_one_does_not():
    for n in (2, 3, 5):
        for prior_set in some_sets(n, seed=n):
            for aim in ("mmse", "unbiased"):
                assert holds(prior_set, solve_robust(prior_set, np.eye(n), 1.0, aim=aim), 1)
                nominal = solve_robust(Ball(prior_set.prior, 0), np.eye(n), 1.0, aim=aim)
                assert holds(Ball(prior_set.prior, 0), nominal, 1)
                assert not holds(prior_set, nominal, 1)


def scalar_level(radius, epsilon):
    """The largest a with a − ln(1 − τ(e^a − e^−a)) ≤ ε: the level of a design for one prior that holds for the ball."""
    low, high = 0.0, epsilon
    for _ in range(60):
        a = (low + high) / 2
        inside = 1 - radius * (np.exp(a) - np.exp(-a))
        low, high = (a, high) if inside > 0 and a - np.log(inside) <= epsilon else (low, a)
    return low


def test_the_scalar_bound_loses_to_ldp_somewhere_and_the_set_never_does():
    lost = 0
    for share in (0.05, 0.2, 0.41, 0.5):
        prior = Prior.of({"yes": share, "no": 1 - share})
        for radius in (0.01, 0.1, 0.2, 0.3, 0.4):
            ldp = solve_robust(Ball(prior, 1), np.eye(2), 1.0, aim="mmse").value
            gain = solve_robust(Ball(prior, radius), np.eye(2), 1.0, aim="mmse").value
            scalar = solve_robust(Ball(prior, 0), np.eye(2), scalar_level(radius, 1.0), aim="mmse").value
            assert gain >= ldp * (1 - 1e-12)
            assert gain >= scalar * (1 - 1e-12)
            lost += scalar < ldp * 0.99
    assert lost >= 3


def test_hundreds_of_sets_lie_between_the_exact_prior_and_ldp():
    """Gains fall and variances rise with the radius, from those of the exact prior to those of LDP."""
    rng = np.random.default_rng(5)
    for n, count in ((2, 300), (3, 60), (4, 20)):
        for _ in range(count):
            prior = Prior(range(n), rng.integers(1, 40, n).tolist())
            radii = [0.0, *np.sort(np.round(rng.uniform(0.005, 0.5, 2 if n == 2 else 1), 3)).tolist(), 1.0]
            epsilon = float(rng.choice([0.3, 1.0, 2.0]))
            aim = "unbiased" if n == 2 and rng.random() < 0.5 else "mmse"
            values = [solve_robust(Ball(prior, radius), np.eye(n), epsilon, aim=aim).value for radius in radii]
            steps = np.diff(values) if aim == "mmse" else -np.diff(values)
            assert (steps <= 1e-9 * max(values)).all()


def test_a_box_inside_a_ball_allows_more():
    prior = Prior(range(4), [4, 3, 2, 1])
    box = Box(prior, ["37/100", "28/100", "19/100", "9/100"], ["43/100", "32/100", "21/100", "11/100"])
    ball = Ball(prior, box.radius)
    hull = Hull(prior, [box.lowest([4, 3, 2, 1])[1], box.lowest([1, 2, 3, 4])[1]])
    values = [solve_robust(one, np.eye(4), 1.0).value for one in (hull, box, ball)]
    assert values[0] < values[1] < values[2]


# -- values that the task cannot tell apart, and values that nobody holds ---------------------------------------------


def test_a_survey_is_a_pair_for_a_ball_and_loses_nothing():
    g = np.array([[1.0], [1], [0], [0], [0]])
    ball = Ball(HEALTH, "1/20")
    design = solve_robust(ball, g, 1.0)
    vertices = RobustLifts(ball, 1.0).vertices
    assert design.method == "closed form"
    assert design.value == pytest.approx(least_variance(HEALTH.probabilities, g, vertices), rel=1e-3)
    assert holds(ball, design, 1)


def test_values_are_not_merged_where_the_set_tells_them_apart():
    """Merging anyway, the named wrong way, misses a better channel."""
    prior = Prior(range(3), [1, 1, 2])
    box = Box(prior, ["1/4", "1/20", "3/10"], ["1/4", "9/20", "7/10"])
    g = np.array([[1.0], [1], [0]])
    design = solve_robust(box, g, 1.0, aim="mmse")
    assert design.method == "all vertices"
    assert holds(box, design, 1)
    low, high = box.extremes([1, 1, 0])
    wrong = solve_robust(Box(Prior(range(2), [1, 1]), [low, 1 - high], [high, 1 - low]), g[1:], 1.0, aim="mmse")
    assert design.value > wrong.value * (1 + 1e-3)


def test_values_that_nobody_holds_cost_nothing():
    wide, narrow = Prior(range(4), [5, 0, 3, 2]), Prior(range(3), [5, 3, 2])
    for aim in ("mmse", "unbiased"):
        design = solve_robust(Ball(wide, "1/20"), np.eye(3), 1.0, aim=aim)
        assert design.value == pytest.approx(solve_robust(Ball(narrow, "1/20"), np.eye(3), 1.0, aim=aim).value)
        assert design.lifts.shape[1] == 3
        assert holds(Ball(wide, "1/20"), design, 1)


# -- larger sets ------------------------------------------------------------------------------------------------------


def test_eight_values_are_proved_for_every_kind():
    for prior_set in some_sets(8, seed=1):
        design = solve_robust(prior_set, np.eye(8), 1.0)
        assert design.status in ("optimal", "within gap")
        assert design.method == "all vertices"
        assert holds(prior_set, design, 1)


def test_climbing_reaches_what_the_vertices_give_and_its_bound_holds(monkeypatch):
    hull = some_sets(7, seed=2)[-1]
    listed = {aim: solve_robust(hull, np.eye(7), 1.0, aim=aim) for aim in ("mmse", "unbiased")}
    total = solve_robust(hull, np.arange(7.0)[:, None], 1.0, aim="mmse")
    monkeypatch.setattr("tacit.designs._program.robust_lifts._QHULL_LIMIT", 0)
    for aim, best in listed.items():
        design = solve_robust(hull, np.eye(7), 1.0, aim=aim)
        assert design.method == "climbing"
        assert design.value == pytest.approx(best.value, rel=3e-3)
    climbed = solve_robust(hull, np.arange(7.0)[:, None], 1.0, aim="mmse")
    # A task with one column has a tight bound by chords.
    assert climbed.value == pytest.approx(total.value, rel=1e-3)
    assert climbed.bound == pytest.approx(total.value, rel=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: solve_robust(Ball(HEALTH, 0), np.eye(5), 1.0, aim="best"), "'aim' must be 'unbiased' or 'mmse'"),
        (lambda: solve_robust(Ball(HEALTH, 0), np.eye(5), 0.0), "depend on the value"),
        (lambda: solve_robust(Ball(HEALTH, 0), np.eye(5), np.inf), "'epsilon' must be finite"),
        (lambda: solve_robust(Ball(Prior.uniform(51), 0), np.eye(51), 1.0), "at most 50 values apart. Got 51"),
        (lambda: solve_robust(Ball(Prior.uniform(13), 0), np.eye(13), 1.0, aim="mmse"), "at most 12 values"),
        (
            lambda: solve_robust(Hull(Prior.uniform(13), [Prior.uniform(13)]), np.eye(13), 1.0),
            "at most 12 values apart. Got 13",
        ),
    ],
)
def test_errors_say_what_is_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_one_value_or_no_budget_leave_the_constant_report():
    for design in (
        solve_robust(Ball(Prior.of({"a": 1, "b": 0}), 0.5), np.eye(1), 1.0),
        solve_robust(Ball(HEALTH, 0.1), np.eye(5), 0.0, aim="mmse"),
    ):
        assert (design.lifts == 1).all()
        assert (design.value, design.bound) == (0, 0)


def test_progress_sees_value_and_bound_and_an_interrupt_keeps_the_best():
    seen = []
    solve_robust(Ball(HEALTH, 0.1), np.eye(5), 1.0, progress=lambda value, bound: seen.append((value, bound)))
    assert seen[-1][1] <= seen[-1][0] <= seen[0][0]

    def stop(value, bound):
        raise KeyboardInterrupt

    design = solve_robust(Ball(HEALTH, 0.1), np.eye(5), 1.0, progress=stop)
    assert design.status == "interrupted"
    assert holds(Ball(HEALTH, 0.1), design, 1)


def test_ranges_of_lifts_in_a_ball_bound_the_variance_of_a_table_more_closely_than_those_of_one_prior():
    """Never beyond the optimum, and nearer to it at nine cells."""
    prior, every = Prior(range(9), [9, 5, 7, 6, 11, 8, 7, 5, 10]), np.arange(9)
    g = np.column_stack([np.eye(9), np.eye(3)[every // 3], np.eye(3)[every % 3]])
    ball = Ball(prior, "3/100")
    best = solve_robust(ball, g, 1.0, aim="unbiased")
    assert best.gap < 1e-3
    bound = spread_bound_in(ball, g, 1.0)
    alone = cheap_variance_bound(prior.probabilities, g, LiftSet.lip(1.0))
    assert 1.05 * alone < bound <= best.value
    assert bound > 0.85 * best.value
