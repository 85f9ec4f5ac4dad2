"""What a prior is worth: the figure's numbers, its yardsticks by other ways, and the table of the documentation."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from studies import reproduce, worth
from studies.baselines import subset_selection
from studies.figure import Figure, Options, Point
from tacit.mechanism import Channel, unbiased_variance
from tacit.prior import Prior
from tacit.task import Histogram, Sum

from support.places import GOLDEN, ROOT


@pytest.fixture(scope="module")
def figure() -> Figure:
    return reproduce.compute("worth", Options(small=True))


def curves(figure: Figure) -> dict[tuple[str, str], list[Point]]:
    found: dict[tuple[str, str], list[Point]] = {}
    for point in figure.points:
        found.setdefault((point.panel, point.curve), []).append(point)
    return found


@pytest.fixture(scope="module")
def golden() -> tuple[Point, ...]:
    return reproduce.from_csv((GOLDEN / "figures" / "worth.csv").read_text(encoding="utf-8"))


def place_of(point: Point) -> tuple[str, str, str, float]:
    return point.panel, point.curve, point.version, point.x


def test_every_point_is_the_golden_one(figure, golden):
    """Programs are solved to 1e-5 and rounded to integers; a knot more or less may move a mean by a little more.

    Of a mean and of many values, which take long, some points are computed.
    """
    known = {place_of(point): point.y for point in golden}
    computed = {place_of(point) for point in figure.points}
    assert computed <= set(known)
    left = {(panel, x) for panel, *_, x in set(known) - computed}
    assert left == {(panel, x) for panel in figure.panels for x in (0.03, 0.2, 0.3, 0.5)}
    for point in figure.points:
        near = 2e-3 if point.panel == worth.SUM_PANEL else 2e-4
        assert point.y == pytest.approx(known[place_of(point)], rel=near)
        assert point.panel in figure.panels


def test_a_wider_set_never_needs_fewer_respondents(figure):
    for points in curves(figure).values():
        assert all(after.y >= before.y * (1 - 2e-5) for before, after in pairwise(points))


def test_nobody_needs_more_than_ldp_but_by_the_scalar_bound(figure):
    for (_, curve), points in curves(figure).items():
        most = max(point.y for point in points)
        if curve.endswith("scalar bound"):
            assert most > 1.03 or points[-1].x < 0.5
        else:
            assert most <= 1 + 2e-5
    assert "Nowhere does it need more than LDP" in figure.remark


def test_the_set_never_loses_to_the_scalar_bound(figure):
    found = curves(figure)
    for epsilon in worth.BUDGETS:
        for d in worth.SCALAR_SIZES:
            ours = found[worth.panel_of(epsilon), worth.curve_of(d)]
            scalar = found[worth.panel_of(epsilon), worth.curve_of(d, scalar=True)]
            assert all(a.y <= b.y * (1 + 1e-4) for a, b in zip(ours, scalar, strict=True))


def test_with_an_exact_prior_many_values_need_a_quarter(figure):
    for epsilon in worth.BUDGETS:
        exact = curves(figure)[worth.panel_of(epsilon), worth.curve_of(1_000)][0]
        assert exact.x == 0
        assert 0.25 < exact.y < 0.27


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_subset_selection_has_the_variance_of_its_channel(epsilon):
    """Under a uniform prior the simple estimate is the best one; otherwise no better than it."""
    for prior, best in ((Prior.uniform(6), True), (worth.zipf(6), False)):
        by_size = [unbiased_variance(subset_selection(prior, epsilon, size=size), Histogram()) for size in range(1, 6)]
        known = worth.subset_variance(prior, epsilon)
        assert known == pytest.approx(min(by_size), rel=1e-6) if best else known >= min(by_size) * (1 - 1e-6)


@pytest.mark.parametrize("prior", [Prior.uniform(7), worth.zipf(7), Prior.of({-3: 1, 0: 0, 5: 3, 20: 1})])
def test_the_linear_mechanism_has_the_variance_of_its_channel(prior):
    """Two reports, enumerated; on the other hand a response on the nearest end would be biased."""
    epsilon = 1.0
    inside = prior.on_support()
    numbers, p = inside.numbers, inside.probabilities
    low, high = numbers.min(), numbers.max()
    up = (numbers - low) / (high - low)
    truthful = math.exp(epsilon) / (math.exp(epsilon) + 1)
    told = up * truthful + (1 - up) * (1 - truthful)
    c = (high - low) / 2 * (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    read = np.array([(low + high) / 2 + c, (low + high) / 2 - c])
    matrix = np.stack([told, 1 - told], axis=1)
    assert np.allclose(matrix @ read, numbers)
    assert matrix.max(axis=0) == pytest.approx(math.exp(epsilon) * matrix.min(axis=0))
    variance = p @ (matrix @ read**2) - (p @ numbers) ** 2
    assert worth.linear_ldp_variance(prior, epsilon) == pytest.approx(variance)
    rounded = Channel.from_weights(inside, [[round(q * 10**9), 10**9 - round(q * 10**9)] for q in told.tolist()])
    assert unbiased_variance(rounded, Sum()) == pytest.approx(variance, rel=1e-6)


def test_the_table_of_the_documentation_is_what_the_code_says(golden):
    text = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
    lines = worth.table(golden).splitlines()
    assert len(lines) == 2 + 3 * len(worth.SMALL_SIZES) + 3
    for line in lines:
        assert line in text


def test_the_reading_in_the_documentation_says_the_numbers_of_the_points(figure):
    text = " ".join((ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8").split())
    at = {(point.panel, point.curve, point.x): point.y for point in figure.points}
    tenth = {d: at[worth.panel_of(1.0), worth.curve_of(d), 0.1] for d in (5, 100, 1_000)}
    assert f"{tenth[5]:.2f} for five, {tenth[100]:.2f} for a hundred, {tenth[1_000]:.2f} for a thousand" in text
    exact = {d: at[worth.panel_of(1.0), worth.curve_of(d), 0.0] for d in (5, 1_000)}
    few, many = (100 * round(100 * exact[d]) for d in (5, 1_000))
    assert f"five answers need {few:,} and a thousand answers {many:,}" in text
    scalar = [at[worth.panel_of(epsilon), worth.curve_of(5, scalar=True), 0.5] for epsilon in (1.0, 2.0)]
    assert f"{scalar[0]:.2f} times LDP's respondents for five answers at ε = 1, {scalar[1]:.2f} times at ε = 2" in text


def test_the_table_leaves_out_what_was_not_computed():
    assert len(worth.table([]).splitlines()) == 2


def test_the_remark_says_the_numbers_of_the_points(figure):
    at = {(point.panel, point.curve, point.x): point.y for point in figure.points}
    exact, rough = (at[worth.panel_of(1.0), worth.curve_of(1_000), tau] for tau in (0.0, 0.1))
    assert f"{exact:.2f} for 1,000 values" in figure.remark
    assert f"and {rough:.2f}, and for the mean" in figure.remark
