"""Sets of priors: greedy extremes against linear programs, levels against every vertex, and what records are worth."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import binom

from tacit.exact import log_above
from tacit.mechanism import Channel, audit
from tacit.mechanism.auditing import set_lift_levels
from tacit.prior import Prior
from tacit.prior.sets import Ball, Box, Hull, clopper_pearson, from_records, read_set, weissman_radius

HEALTH = Prior(range(5), [45299, 89084, 75646, 31570, 12081])


@st.composite
def prior_sets(draw, min_size=1, max_size=6):
    """Balls, boxes and hulls around priors with zeros."""
    weights = draw(st.lists(st.integers(0, 50), min_size=min_size, max_size=max_size).filter(any))
    prior = Prior(range(len(weights)), weights)
    kind = draw(st.sampled_from(["ball", "box", "hull"]))
    if kind == "ball":
        return Ball(prior, Fraction(draw(st.integers(0, 100)), 100))
    shares = [Fraction(weight, prior.total) for weight in prior.weights]
    if kind == "box":
        down = draw(st.lists(st.integers(0, 4), min_size=len(weights), max_size=len(weights)))
        up = draw(st.lists(st.integers(0, 4), min_size=len(weights), max_size=len(weights)))
        low = [share * (4 - cut) / 4 for share, cut in zip(shares, down, strict=True)]
        high = [share and share + (1 - share) * add / 8 for share, add in zip(shares, up, strict=True)]
        return Box(prior, low, high)
    count = draw(st.integers(0, 3))
    rows = [[draw(st.integers(1, 9)) if weight else 0 for weight in weights] for _ in range(count)]
    return Hull(prior, [Prior(prior.values, row) for row in rows])


def contains(prior_set, member):
    """Membership from the definition, exactly."""
    shares = [Fraction(weight, member.total) for weight in member.weights]
    nominal = [Fraction(weight, prior_set.prior.total) for weight in prior_set.prior.weights]
    if any(share and not centre for share, centre in zip(shares, nominal, strict=True)):
        return False
    if prior_set.kind == "ball":
        return sum(abs(a - b) for a, b in zip(shares, nominal, strict=True)) / 2 <= prior_set.radius
    if prior_set.kind == "box":
        return all(a <= b <= c for a, b, c in zip(prior_set.low, shares, prior_set.high, strict=True))
    return member in (prior_set.prior, *prior_set.candidates)


def lowest_by_program(prior_set, column):
    """min P·w as a linear program in floats, from the definition of the set."""
    p, n = prior_set.prior.probabilities, len(prior_set.prior)
    if prior_set.kind == "hull":
        return min(float(one.probabilities @ column) for one in (prior_set.prior, *prior_set.candidates))
    inside = [(0, 1 if x in prior_set.prior.support else 0) for x in range(n)]
    if prior_set.kind == "box":
        inside = [(float(a), float(b)) for a, b in zip(prior_set.low, prior_set.high, strict=True)]
        found = linprog(column, A_eq=np.ones((1, n)), b_eq=[1], bounds=inside)
    else:
        # P and d with |P − P̂| ≤ d and Σ d ≤ 2τ.
        eye = np.eye(n)
        rows = np.block([[eye, -eye], [-eye, -eye], [np.zeros((1, n)), np.ones((1, n))]])
        limits = np.concatenate([p, -p, [2 * float(prior_set.radius)]])
        equal = np.concatenate([np.ones(n), np.zeros(n)])[None]
        costs = np.concatenate([column, np.zeros(n)])
        found = linprog(costs, A_ub=rows, b_ub=limits, A_eq=equal, b_eq=[1], bounds=inside + [(0, 2)] * n)
    assert found.status == 0
    return found.fun


def vertices_of(prior_set):
    """Every extreme member, exactly: that of each order of the values."""
    support = prior_set.prior.support
    found = set()
    for order in permutations(support):
        column = [0] * len(prior_set.prior)
        for rank, x in enumerate(order):
            column[x] = rank + 1
        found.add(prior_set.lowest(column)[1])
    return found | {prior_set.prior} | set(getattr(prior_set, "candidates", ()))


def test_greedy_extremes_equal_linear_programs():
    rng = np.random.default_rng(1)

    @settings(max_examples=120, deadline=None, derandomize=True, database=None)
    @given(prior_sets())
    def check(prior_set):
        column = rng.integers(0, 20, len(prior_set.prior)).tolist()
        low, least = prior_set.lowest(column)
        high, most = prior_set.highest(column)
        assert prior_set.extremes(column) == (low, high)
        for value, member in ((low, least), (high, most)):
            assert contains(prior_set, member)
            shares = [Fraction(weight, member.total) for weight in member.weights]
            assert value == sum(share * weight for share, weight in zip(shares, column, strict=True))
        assert float(low) == pytest.approx(lowest_by_program(prior_set, np.array(column, float)), abs=1e-7)
        negative = lowest_by_program(prior_set, -np.array(column, float))
        assert float(high) == pytest.approx(-negative, abs=1e-7)

    check()


def test_taking_mass_from_the_largest_value_only_is_not_enough():
    """The tempting wrong greedy rule: values lighter than the radius run out, and the rest comes from the next."""
    ball, column = Ball(Prior(range(3), [1, 4, 5]), Fraction(3, 10)), [9, 5, 1]
    wrong = Fraction(1 * 9 + 4 * 5 + 5 * 1, 10) - Fraction(1, 10) * (9 - 1)
    assert ball.lowest(column) == (Fraction(18, 10), Prior(range(3), [0, 2, 8]))
    assert lowest_by_program(ball, np.array(column, float)) == pytest.approx(1.8)
    assert wrong == Fraction(26, 10)


@settings(max_examples=150, deadline=None)
@given(prior_sets(min_size=2, max_size=4), st.data())
def test_levels_equal_brute_force_over_members(prior_set, data):
    n = len(prior_set.prior)
    rows = [data.draw(st.lists(st.integers(0, 9), min_size=3, max_size=3)) for _ in range(n)]
    rows[prior_set.prior.support[0]][0] += 1
    upper, lower = set_lift_levels(rows, prior_set)
    ups, downs = [], []
    for y in range(3):
        column = [row[y] for row in rows]
        inside = [column[x] for x in prior_set.prior.support]
        if not any(inside):
            continue
        for member in vertices_of(prior_set):
            mean = sum(Fraction(w * c, member.total) for w, c in zip(member.weights, column, strict=True))
            ups.append(max(inside) / mean if mean else None)
            downs.append(mean / min(inside) if min(inside) else None)
    assert upper.ratio == (None if None in ups else max(ups))
    assert lower.ratio == (None if None in downs else max(downs))
    for level, top in ((upper, True), (lower, False)):
        column = [row[level.report] for row in rows]
        mean = sum(Fraction(w * c, level.worst.total) for w, c in zip(level.worst.weights, column, strict=True))
        cell = column[level.worst.position(level.value)]
        assert level.ratio in (None, cell / mean if top and mean else None, mean / cell if cell else None)


def random_table(rng, n_values, n_reports):
    """Rows of positive integers with one sum."""
    rows = rng.integers(1, 60, (n_values, n_reports))
    rows[:, -1] += rows.sum(axis=1).max() - rows.sum(axis=1)
    return rows.tolist()


def test_radius_zero_is_lip_and_radius_one_is_ldp():
    rng = np.random.default_rng(2)
    for _ in range(100):
        prior = Prior(range(4), rng.integers(1, 30, 4).tolist())
        rows = random_table(rng, 4, 3)
        told = audit(Channel.from_weights(prior, rows))
        for point in (Ball(prior, 0), Hull(prior, []), Box(prior, *[[prior.probability(x) for x in range(4)]] * 2)):
            upper, lower = set_lift_levels(rows, point)
            assert (upper.ratio, lower.ratio) == (told.lip_upper.ratio, told.lip_lower.ratio)
        corners = [Prior(range(4), [int(x == z) for z in range(4)]) for x in range(4)]
        for everything in (Ball(prior, 1), Box(prior, [0] * 4, [1] * 4), Hull(prior, corners)):
            upper, lower = set_lift_levels(rows, everything)
            assert upper.ratio == lower.ratio == told.ldp.ratio


def test_a_channel_for_the_nominal_prior_alone_breaks_the_promise_of_the_ball():
    prior = Prior.of({"yes": 0.5, "no": 0.5})
    rows = [[3, 1], [1, 3]]
    ratio = audit(Channel.from_weights(prior, rows)).lip.ratio
    upper, lower = set_lift_levels(rows, Ball(prior, 0.01))
    assert ratio == 2
    assert max(upper.ratio, lower.ratio) == Fraction(202, 100)
    assert not lower.holds(Fraction(log_above(ratio)))


def test_zero_weights_leave_no_finite_level():
    ball = Ball(Prior(range(3), [1, 1, 0]), Fraction(1, 4))
    upper, lower = set_lift_levels([[1, 1], [2, 0], [0, 2]], ball)
    assert (lower.ratio, lower.value, lower.report) == (None, lower.worst.values[1], 1)
    assert upper.ratio == 4
    assert not lower.holds(Fraction(100))
    # With the whole simplex even the upper side has none: under (0, 1, 0) report 1 is never sent.
    assert set_lift_levels([[1, 1], [2, 0], [0, 2]], Ball(ball.prior, 1))[0].ratio is None


def test_levels_do_not_overflow_with_numpy_integers():
    prior = Prior(range(2), [1, 2**40])
    rows = np.array([[2**60, 2**61], [2**61, 2**60]])
    assert set_lift_levels(rows, Ball(prior, "1/3")) == set_lift_levels(rows.astype(object), Ball(prior, "1/3"))


@settings(max_examples=100, deadline=None)
@given(prior_sets(min_size=2, max_size=5))
def test_radius_is_the_distance_of_the_furthest_member(prior_set):
    nominal = prior_set.prior
    shares = [Fraction(weight, nominal.total) for weight in nominal.weights]
    furthest = Fraction(0)
    for raised in range(2 ** len(nominal)):
        inside = [raised >> x & 1 for x in range(len(nominal))]
        gained = prior_set.highest(inside)[0] - sum(share for share, bit in zip(shares, inside, strict=True) if bit)
        furthest = max(furthest, gained)
    assert prior_set.radius == furthest


@settings(max_examples=100, deadline=None)
@given(prior_sets(min_size=2, max_size=5))
def test_ranges_are_how_far_a_value_moves_while_others_keep_their_proportions(prior_set):
    nominal = prior_set.prior
    least, most = prior_set.ranges
    for place, x in enumerate(nominal.support if len(nominal.support) > 1 else ()):

        def moved(share, x=x):
            others = nominal.total - nominal.weights[x]
            weights = [(1 - share) * Fraction(weight, others) for weight in nominal.weights]
            return Prior(nominal.values, [*weights[:x], share, *weights[x + 1 :]])

        for end, outwards in ((least[place], -1), (most[place], 1)):
            inside = Fraction(end) - outwards * Fraction(1, 10**9)
            if abs(Fraction(end) - Fraction(nominal.weights[x], nominal.total)) > Fraction(2, 10**9):
                assert contains(prior_set, moved(inside))
            beyond = Fraction(end) + outwards * Fraction(1, 10**9)
            if prior_set.kind != "hull" and 0 < beyond < 1:
                assert not contains(prior_set, moved(beyond))


def test_radius_of_a_large_box_is_bounded_from_above():
    rng = np.random.default_rng(3)
    prior = Prior(range(14), rng.integers(5, 50, 14).tolist())
    box = Box.from_counts(prior, [Fraction(2000 * weight, prior.total) for weight in prior.weights])
    shares = [Fraction(weight, prior.total) for weight in prior.weights]
    for _ in range(200):
        inside = rng.integers(0, 2, 14).tolist()
        gained = box.highest(inside)[0] - sum(share for share, bit in zip(shares, inside, strict=True) if bit)
        assert gained <= box.radius


@settings(max_examples=100, deadline=None)
@given(prior_sets(max_size=5))
def test_contract_round_trip(prior_set):
    data = prior_set.to_dict()
    assert read_set(data, prior_set.prior) == prior_set
    assert data["kind"] == prior_set.kind


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"kind": "circle", "radius": "1/2"}, "'kind' of a set of priors must be one of ball, box, hull"),
        ({"kind": "ball", "radius": "0.5"}, "integer or integer/integer"),
        ({"kind": "ball", "radius": 0.5}, "lists of strings"),
        ({"kind": "ball", "radius": "3/2"}, "'radius' must lie between 0 and 1"),
        ({"kind": "ball", "radius": "1/2", "centre": "1"}, "written with kind='ball' and radius only"),
        ({"kind": "box", "low": ["0"], "high": ["1", "1"]}, "'low' of a box must have one number for each of 2"),
        ({"kind": "box", "low": ["1/2", "0"], "high": ["1", "1"]}, "contain its nominal prior.* at position 0"),
        ({"kind": "hull", "candidates": [["1", "2", "3"]]}, "2 values, 3 weights"),
        ({"kind": "hull", "candidates": "12"}, "list of lists"),
    ],
)
def test_contracts_are_strict(data, message):
    with pytest.raises(ValueError, match=message):
        read_set(data, Prior.of({"yes": 0.1, "no": 0.9}))


def test_values_with_prior_zero_stay_outside():
    prior = Prior(range(3), [1, 1, 0])
    assert Ball(prior, 1).highest([0, 0, 1])[0] == 0
    with pytest.raises(ValueError, match="prior zero must be 0"):
        Box(prior, [0, 0, 0], [1, 1, 1])
    with pytest.raises(ValueError, match="Candidate 0 has a value with nominal prior zero"):
        Hull(prior, [Prior.uniform(3)])
    with pytest.raises(ValueError, match="values in its order"):
        Hull(prior, [Prior.uniform("abc")])


@settings(max_examples=150, deadline=None)
@given(prior_sets(min_size=2, max_size=6), st.data())
def test_merging_is_without_loss_where_it_is_offered(prior_set, data):
    n = len(prior_set.prior)
    groups = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    groups = [sorted(set(groups)).index(group) for group in groups]
    mass = [sum(w for w, z in zip(prior_set.prior.weights, groups, strict=True) if z == group) for group in groups]
    if not all(mass):
        return
    merged = prior_set.merged(groups)
    assert merged is not None or prior_set.kind != "ball"
    if merged is None:
        return
    # A column averaged over groups with the nominal shares is at least as private, and the small set sees the same.
    column = data.draw(st.lists(st.integers(0, 20), min_size=n, max_size=n))
    scale = int(np.prod([int(weight) for weight in set(mass)]))
    weights = prior_set.prior.weights
    means = [
        sum(w * c for w, c, z in zip(weights, column, groups, strict=True) if z == group) * (scale // total)
        for group, total in zip(groups, mass, strict=True)
    ]
    low, high = prior_set.extremes([cell * scale for cell in column])
    mean_low, mean_high = prior_set.extremes(means)
    assert low <= mean_low
    assert mean_high <= high
    small = [means[groups.index(group)] for group in range(max(groups) + 1)]
    assert merged.extremes(small) == (mean_low, mean_high)


def test_merging_is_refused_where_it_would_lose():
    prior = Prior(range(3), [1, 1, 2])
    assert Hull(prior, [Prior(range(3), [1, 2, 3])]).merged([0, 0, 1]) is None
    assert Hull(prior, [Prior(range(3), [1, 1, 3])]).merged([0, 0, 1]) is not None
    # Value 0 is known exactly and value 1 is not: a heavier group has another mix than the nominal one.
    assert Box(prior, ["1/4", "1/8", "3/8"], ["1/4", "3/8", "5/8"]).merged([0, 0, 1]) is None


def test_weissman_radius_is_rounded_up_and_not_more():
    for n_values, n_records, confidence in [(2, 10, 0.9), (5, 1000, 0.95), (400, 10**7, "0.99")]:
        radius = weissman_radius(n_values, n_records, confidence)
        risk = float((2.0**n_values - 2) * np.exp(-2 * n_records * float(radius) ** 2))
        assert risk <= 1 - float(confidence)
        assert (float(radius) * 0.99) ** 2 * 2 * n_records < np.log(2.0**n_values - 2) - np.log(1 - float(confidence))
    assert weissman_radius(1, 10, 0.95) == 0
    assert weissman_radius(50, 1, 0.95) == 1


def test_records_leave_the_truth_plausible_as_often_as_stated():
    """Exact coverage by enumeration at n = 40, two values; normal intervals, the tempting wrong ones, miss it."""
    n, shares = 40, np.linspace(0.02, 0.98, 25)
    boxes = [Box.from_counts(Prior(range(2), [k, n - k]), [k, n - k], 0.9) for k in range(1, n)]
    balls = [Ball.from_records(Prior(range(2), [k, n - k]), n, 0.9) for k in range(1, n)]
    normal = [1.645 * np.sqrt(k * (n - k) / n**3) for k in range(1, n)]
    coverage = {"box": [], "ball": [], "normal": []}
    for p in shares:
        chances = binom.pmf(np.arange(n + 1), n, p)
        # A value without a record would be outside the support: those two outcomes are left out.
        chances = chances[1:-1] / chances[1:-1].sum()
        hits = {
            "box": [float(box.low[0]) <= p <= float(box.high[0]) for box in boxes],
            "ball": [abs(k / n - p) <= float(ball.radius) for k, ball in enumerate(balls, 1)],
            "normal": [abs(k / n - p) <= width for k, width in enumerate(normal, 1)],
        }
        for kind, covered in hits.items():
            coverage[kind].append(float(chances @ np.array(covered)))
    assert min(coverage["box"]) >= 0.9
    assert min(coverage["ball"]) >= 0.9
    assert min(coverage["normal"]) < 0.85


def test_clopper_pearson_is_the_inversion_of_exact_tests():
    low, high = clopper_pearson(Fraction(7), 50, 0.95, 2)
    side = 0.05 / 4
    assert binom.sf(6, 50, float(low)) <= side
    assert binom.cdf(7, 50, float(high)) <= side
    assert binom.sf(6, 50, float(low) * 1.01) > side
    assert binom.cdf(7, 50, float(high) * 0.99) > side
    assert clopper_pearson(Fraction(0), 50, 0.95, 1)[0] == 0
    assert clopper_pearson(Fraction(50), 50, 0.95, 1)[1] == 1
    # Counts that a rounded prior leaves in between are read to the worse side.
    assert clopper_pearson(Fraction(15, 2), 50, 0.95, 2)[0] == low
    assert clopper_pearson(Fraction(15, 2), 50, 0.95, 2)[1] > high


def test_counts_of_a_floored_prior_keep_the_nominal_one_inside():
    prior = Prior.of({"a": 0, "b": 1000}).floored("1/50")
    box = Box.from_counts(prior, [0, 1000])
    assert box.low[0] == 0
    assert box.high[0] == prior.probability("a")


def test_from_records_takes_the_smaller_set():
    for prior, n in [(HEALTH, 1000), (Prior.of({"yes": 0.02, "no": 0.98}), 500), (Prior.uniform(9), 300)]:
        chosen = from_records(prior, n, 0.95)
        counts = [Fraction(n * weight, prior.total) for weight in prior.weights]
        boxed, balled = Box.from_counts(prior, counts, "0.975"), Ball.from_records(prior, n, "0.975")
        assert chosen.radius == min(boxed.radius, balled.radius)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Ball(HEALTH, -0.1), r"'radius' must lie between 0 and 1. Got -0.1 instead"),
        (lambda: Ball.from_records(HEALTH, 0), "'n_records' must be at least 1. Got 0"),
        (lambda: Ball.from_records(HEALTH, 10, 1), "'confidence' must lie between 0 and 1"),
        (lambda: Box.from_counts(HEALTH, [1, 2]), "one count for each of 5 values. Got 2"),
        (lambda: Ball(HEALTH, 0).lowest([1]), "one integer for each of 5 values. Got 1"),
        (lambda: set_lift_levels([[1]], Ball(HEALTH, 0)), "one non-empty row for each of the prior's 5 values"),
        (lambda: set_lift_levels([[1], [-1]], Ball(Prior.uniform(2), 0)), "must not be negative. Got one in report 0"),
        (lambda: set_lift_levels([[0], [0]], Ball(Prior.uniform(2), 0)), "sends some report"),
    ],
)
def test_errors_say_what_is_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_weissman_radius_serves_tens_of_thousands_of_values():
    """2^d has more digits than Python turns into text."""
    expected = math.sqrt(20_000 * math.log(2) / (2 * 10**6))
    assert expected <= float(weissman_radius(20_000, 10**6, 0.95)) <= expected * 1.01
