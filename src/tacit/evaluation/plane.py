"""Figure 10: all yes/no channels as points (q₀, q₁), the budget as a region, the error as contours."""

from __future__ import annotations

import math

import numpy as np

from tacit.evaluation.curves import published_level
from tacit.evaluation.figure import Figure, Options, Point, Version
from tacit.evaluation.monte_carlo import optimal_pair, published_pair
from tacit.exact import Floats

REGION, BEST, CONTOUR = "region of ε-LIP", "optimum", "removes"
LOWER_ONLY = "region of the two lower bounds"
SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7)


def figure_10(options: Options) -> Figure:
    """q₀ = Pr(1 | 0) and q₁ = Pr(0 | 1), the two ways to lie, at ε = 1, for a common and a rare one."""
    points: list[Point] = []
    panels = []
    for p in (0.4, 0.1):
        panel = f"P₁ = {p:g}"
        panels.append(panel)
        points += _panel(p, 1.0, panel, 5 if options.small else 60)
    level = published_level(np.array([0.9, 0.1]), 1.0)
    remark = (
        "The published optimum is the corner of the two lower bounds. That is the corner of the whole region only "
        "where both values have a prior of at least 1/(e^ε+1), 0.27 here. At P₁ = 0.1 the upper bound for the rare "
        f"value cuts the corner off: the published point lies outside the region, at ε = {level:.2f}, and the optimum "
        "is where the upper bound meets the lower one."
    )
    title = "Figure 10: the best yes/no channel, as a corner of the region that ε = 1 allows"
    notes = ("Contours: the share of the prior variance that a report removes. The other half of the plane is the same "
             "with reports renamed.",)  # fmt: skip
    return Figure(
        "10", title, "q₀ = Pr(report 1 | value 0)", "q₁ = Pr(report 0 | value 1)", tuple(points), remark, tuple(panels),
        notes=notes, epsilon=1.0, kind="plane",
    )  # fmt: skip


def _panel(p: float, epsilon: float, panel: str, steps: int) -> list[Point]:
    points: list[Point] = []
    for version in ("published", "corrected"):
        for share in SHARES:
            points += _contour(p, share, panel, version, steps)
    for version, name, corners in (
        ("published", LOWER_ONLY, region(p, epsilon, upper=False)),
        ("corrected", REGION, region(p, epsilon)),
    ):
        points += [Point(panel, name, version, *corner) for corner in corners.tolist()]  # type: ignore[arg-type]
    one = np.array([p])
    claimed, best = published_pair(one, epsilon), optimal_pair(one, epsilon)
    broken = claimed.level > epsilon + 1e-9
    name = f"published optimum, {'reaches' if broken else 'keeps'} ε = {claimed.level:.2f}"
    points.append(_mark(panel, name, "published", claimed.yes_if_no, claimed.yes_if_yes, claimed.level))
    points.append(_mark(panel, BEST, "corrected", best.yes_if_no, best.yes_if_yes, best.level))
    return points


def _mark(panel: str, name: str, version: Version, q0: Floats, stay: Floats, level: float) -> Point:
    return Point(panel, name, version, float(q0[0]), float(1 - stay[0]), level)


def _contour(p: float, share: float, panel: str, version: Version, steps: int) -> list[Point]:
    """Where the correlation² P₀P₁u²/(λ₀λ₁) of value and report is `share`, with u = 1 − q₀ − q₁ ≥ 0.

    λ₁ = q₀ + P₁u, so u solves (P₀P₁ + share·P₁²)u² − share·P₁(1−2q₀)u − share·q₀(1−q₀) = 0.
    """
    q0 = np.linspace(0.0, 1.0, steps, endpoint=False)
    a = (1 - p) * p + share * p * p
    b = -share * p * (1 - 2 * q0)
    u = (-b + np.sqrt(b * b + 4 * a * share * q0 * (1 - q0))) / (2 * a)
    q1 = 1 - q0 - u
    return [
        Point(panel, f"{CONTOUR} {share:.0%}", version, float(x), float(y))
        for x, y in zip(q0, q1, strict=True)
        if y >= 0
    ]


def region(p: float, epsilon: float, upper: bool = True) -> Floats:
    """The corners of the channels with q₀ + q₁ ≤ 1 that keep the bounds: a polygon, cut out of a triangle.

    Each bound is linear: c₀ + c·q ≥ 0 with λ₀ = P₀(1−q₀) + P₁q₁ and λ₁ = 1 − λ₀.

    >>> region(0.1, 1.0).round(3)[0]
    array([0.218, 0.269])
    """
    e = math.exp(epsilon)
    zero = np.array([1 - p, -(1 - p), p])
    one = np.array([1.0, 0, 0]) - zero
    q0, q1 = np.array([0.0, 1, 0]), np.array([0.0, 0, 1])
    whole = np.array([1.0, 0, 0])
    bounds = [e * q1 - zero, e * q0 - one]
    if upper:
        bounds += [e * one - (whole - q1), e * zero - (whole - q0)]
    polygon = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    for bound in bounds:
        polygon = _cut(polygon, bound)
    start = int(np.argmin(polygon.sum(axis=1)))
    rolled: Floats = np.roll(polygon, -start, axis=0)
    return rolled


def _cut(polygon: Floats, bound: Floats) -> Floats:
    """The part of a convex polygon with bound[0] + bound[1:]·q ≥ 0."""
    value = bound[0] + polygon @ bound[1:]
    kept: list[Floats] = []
    for k in range(len(polygon)):
        after = (k + 1) % len(polygon)
        if value[k] >= -1e-15:
            kept.append(polygon[k])
        if (value[k] > 1e-15 and value[after] < -1e-15) or (value[k] < -1e-15 and value[after] > 1e-15):
            share = value[k] / (value[k] - value[after])
            kept.append(polygon[k] + share * (polygon[after] - polygon[k]))
    return np.array(kept)
