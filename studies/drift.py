"""The price of a wrong prior: error and real privacy level as the truth drifts away from what a channel was made for.

A channel made at level a for the prior P̂ reaches, if the truth is P at total variation distance τ, at most

    2a,     a + max|ln(P/P̂)|,     a − ln(1 − τ(e^a − e^−a))  where that is defined.

The drift of the figure is a real one: general health of all respondents of BRFSS 2020 is the prior, and the truth
moves on the line to that of respondents of 80 years and older, and as far again beyond it.

A prior that is a little off also costs where people are fixed and only the randomization is repeated. The error of an
estimate Σ_i t(Y_i) of Σ_i g(x_i) is then

    MSE = |Σ_x n_x b_x|² + Σ_x n_x Var(t(Y)|x),     b_x = E[t(Y)|x] − g(x),

where n_x people hold x: `error_moments`, which the figures of groups and pages use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from studies.figure import Figure, Options, Point, Version
from tacit.designs import Promise, design
from tacit.designs.rules import theorem3
from tacit.exact import Floats, Integers
from tacit.mechanism import Channel
from tacit.mechanism.auditing import audit
from tacit.mechanism.table import mmse_weights, unbiased_weights
from tacit.prior import Prior
from tacit.task import Histogram, Task

#: General health in BRFSS 2020 (319,795 people): everybody, and those of 80 years and older.
EVERYBODY = Prior.of({"Poor": 11_289, "Fair": 34_677, "Good": 93_129, "Very good": 113_858, "Excellent": 66_842})
OLDEST = Prior.of({"Poor": 1_434, "Fair": 3_934, "Good": 8_497, "Very good": 7_500, "Excellent": 2_788})
EPSILON, PEOPLE, RADIUS = 1.0, 10_000, 0.1
#: More rounds than this add nothing that can be seen: the standard error is then below 2% of the error.
MOST_ROUNDS = 2_000

ERROR, LEVEL = f"error of the estimate from {PEOPLE:,} people", "LIP level really reached"
OPTIMAL_MMSE = "optimal ε-LIP, posterior mean"
ROBUST_MMSE = f"robust ε-LIP for τ ≤ {RADIUS:g}, posterior mean"
LDP_MMSE = "best ε-LDP, posterior mean"
OPTIMAL_FREE, LDP_FREE = "ε-LIP made for it, unbiased", "ε-LDP made for it, unbiased"
PUBLISHED = "published, posterior mean"
NO_DATA = "no data, the prior alone"
DOUBLE, RATIO, DISTANCE = "bound 2ε", "bound ε + max|ln(P/P̂)|", "bound ε − ln(1 − τ(e^ε − e^−ε))"


@dataclass(frozen=True)
class Way:
    """A channel and the weight t(y) with which each of its reports is read."""

    name: str
    version: Version
    channel: Channel
    weights: Floats


def drift(options: Options) -> Figure:
    """Errors and levels at ε = 1 as the truth leaves the prior, for designs that trust the prior more or less."""
    steps = 3 if options.small else 21
    shares = [Fraction(2 * k, steps - 1) for k in range(steps)]
    ways, points = _ways(), []
    for share in shares:
        truth = drifted(EVERYBODY, OLDEST, share)
        tau = distance(EVERYBODY, truth)
        for way in ways:
            error, _ = drifted_error(way.channel, way.weights, np.eye(len(truth)), truth, PEOPLE)
            level = audit(way.channel.under(truth)).lip.epsilon
            points.append(Point(ERROR, way.name, way.version, tau, math.sqrt(error), level))
            points.append(Point(LEVEL, way.name, way.version, tau, level, level))
        points += [Point(LEVEL, name, "corrected", tau, y) for name, y in level_bounds(EPSILON, EVERYBODY, truth)]
    return Figure(
        "drift",
        f"A wrong prior at ε = {EPSILON:g}: general health, from everybody towards those of 80 and older",
        "total variation distance τ between the truth and the prior",
        "√(MSE/N), and the LIP level",
        tuple(points),
        _remark(points),
        panels=(ERROR, LEVEL),
        notes=(
            f"Those of 80 and older are at τ = {distance(EVERYBODY, OLDEST):.3f}. The robust design is made at a = "
            f"{robust_level(EPSILON, RADIUS):.4f}, the largest a with a − ln(1 − τ(e^a − e^−a)) ≤ {EPSILON:g} at τ = "
            f"{RADIUS:g}.",
            f"The error counts {PEOPLE:,} people drawn from the truth; its bias grows with their number, the rest does "
            "not.",
        ),
        epsilon=EPSILON,
    )


def drifted(prior: Prior, target: Prior, share: Fraction) -> Prior:
    """P̂ + share·(target − P̂), exactly; a share above 1 goes beyond the target.

    >>> drifted(Prior.of({"a": 1, "b": 1}), Prior.of({"a": 1, "b": 3}), Fraction(2)).probabilities
    array([0., 1.])
    """
    exact = [
        Fraction(p, prior.total) * (1 - share) + Fraction(q, target.total) * share
        for p, q in zip(prior.weights, target.weights, strict=True)
    ]
    return Prior(prior.values, exact)


def distance(prior: Prior, truth: Prior) -> float:
    """The total variation distance, half the sum of absolute differences."""
    return float(np.abs(prior.probabilities - truth.probabilities).sum()) / 2


def drifted_error(channel: Channel, t: Floats, g: Floats, truth: Prior, people: int) -> tuple[float, float]:
    """The mean squared error of Σ t(Y_i) for Σ g(X_i) divided by N, and the part of it that is bias; X_i from `truth`.

    With e = t(Y) − g(X) it is Var(e) + N·|E e|²: exact.
    """
    p, q = truth.probabilities, channel.matrix
    mean = q @ t - g
    second = q @ t**2 - 2 * g * (q @ t) + g**2
    bias = p @ mean
    systematic = people * float(bias @ bias)
    return float((p @ second).sum() - bias @ bias) + systematic, systematic


def level_bounds(epsilon: float, prior: Prior, truth: Prior) -> list[tuple[str, float]]:
    """What any channel made at ε for `prior` can reach at most under `truth`: the bounds that are defined."""
    inside = [x for x in truth.support if prior.weights[x]]
    tau = distance(prior, truth)
    bounds = [(DOUBLE, 2 * epsilon)]
    if len(inside) == len(truth.support) == len(prior.support):
        ratios = np.log(truth.probabilities[inside] / prior.probabilities[inside])
        bounds.append((RATIO, epsilon + float(np.abs(ratios).max())))
    left = 1 - tau * 2 * math.sinh(epsilon)
    if left > 0:
        bounds.append((DISTANCE, epsilon - math.log(left)))
    return bounds


def robust_level(epsilon: float, tau: float) -> float:
    """The largest a with a − ln(1 − τ(e^a − e^−a)) ≤ ε, or ε/2 if that is more: then every prior within τ keeps ε.

    Found by bisection and rounded down.

    >>> round(robust_level(1.0, 0.1), 4), robust_level(1.0, 0.0), robust_level(1.0, 0.9)
    (0.8034, 1.0, 0.5)
    """
    low, high = epsilon / 2, epsilon
    if tau == 0:
        return epsilon
    if not _holds(low, tau, epsilon):
        return low
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _holds(middle, tau, epsilon) else (low, middle)
    return low


def _holds(a: float, tau: float, epsilon: float) -> bool:
    left = 1 - tau * 2 * math.sinh(a)
    return left > 0 and a - math.log(left) <= epsilon


def _ways() -> list[Way]:
    prior, task = EVERYBODY, Histogram()
    g = np.eye(len(prior))
    # Four decimals, rounded down, keep the design a short exact number.
    a = math.floor(robust_level(EPSILON, RADIUS) * 10_000) / 10_000
    trusting: list[tuple[str, Version, Channel]] = [
        (OPTIMAL_MMSE, "corrected", design(prior, task, EPSILON, aim="mmse").channel),
        (ROBUST_MMSE, "corrected", design(prior, task, a, aim="mmse").channel),
        (LDP_MMSE, "corrected", design(prior, task, Promise(EPSILON, notion="ldp"), aim="mmse").channel),
        (PUBLISHED, "published", theorem3(prior, EPSILON, force=True)),
        (NO_DATA, "corrected", Channel.from_weights(prior, [[1]] * len(prior))),
    ]
    free = [
        (OPTIMAL_FREE, design(prior, task, EPSILON, aim="unbiased").channel),
        (LDP_FREE, design(prior, task, Promise(EPSILON, notion="ldp"), aim="unbiased").channel),
    ]
    return [
        *(Way(name, version, channel, mmse_weights(channel.under(prior), g)[0]) for name, version, channel in trusting),
        *(Way(name, "corrected", channel, unbiased_weights(channel.under(prior), g)) for name, channel in free),
    ]


def _remark(points: Sequence[Point]) -> str:
    """What happens at the start and at the end, and where the unbiased estimate takes over."""
    errors = {
        name: [p for p in points if p.panel == ERROR and p.curve == name] for name in (OPTIMAL_MMSE, OPTIMAL_FREE)
    }
    robust = [p for p in points if p.panel == LEVEL and p.curve == ROBUST_MMSE]
    mmse, free = errors[OPTIMAL_MMSE], errors[OPTIMAL_FREE]
    over = next((f"τ = {a.x:.3f}" for a, b in zip(mmse, free, strict=True) if a.y > b.y), "no τ of this figure")
    kept = max(p.y for p in robust if p.x <= RADIUS + 1e-12)
    return (
        f"The optimal channel promises {EPSILON:g} and reaches {mmse[0].level:.3f} at τ = 0 and {mmse[-1].level:.3f} "
        f"at τ = {mmse[-1].x:.3f}; the robust one stays at {kept:.3f} or below as far as it promises. The error of the "
        f"posterior mean grows from {mmse[0].y:.3f} to {mmse[-1].y:.2f}, that of the unbiased estimate from "
        f"{free[0].y:.2f} to {free[-1].y:.2f}: the unbiased one is better from {over} on."
    )


# -- the same people, the randomization repeated --


@dataclass(frozen=True, eq=False)
class Arm:
    """One way to collect and read: per group a channel and a weight t(y) per report; `g` is what is estimated."""

    channels: Sequence[Channel]
    weights: Sequence[Floats]
    g: Floats


@dataclass(frozen=True)
class Realised:
    """√(MSE/N) over repeated randomization of the same people: simulated with its standard error, and exact."""

    simulated: float
    standard_error: float
    exact: float

    def point(self, panel: str, name: str, version: Version, epsilon: float, level: float | None) -> Point:
        """As a point of a figure; a mechanism that draws nothing is not a simulation."""
        if not self.standard_error:
            return Point(panel, name, version, epsilon, self.exact, level)
        return Point(panel, name, version, epsilon, self.simulated, level, self.standard_error, self.exact)


@dataclass(frozen=True, eq=False)
class Moments:
    """Of the error of a total, a vector b + Z with E Z = 0 that adds over independent people.

    b is `bias`, `covariance` is C = Cov(Z), `third` = Σ E[|z|² z] and `fourth` = Σ E|z|⁴ − (tr C_z)² − 2 tr C_z² over
    the people's parts z of Z. Exact, so a standard error needs no simulation.
    """

    bias: Floats
    covariance: Floats
    third: Floats
    fourth: float

    @property
    def square(self) -> float:
        """E|b + Z|²: the mean squared error."""
        return float(self.bias @ self.bias + np.trace(self.covariance))

    @property
    def spread(self) -> float:
        """Var|b + Z|² = 2 tr C² + fourth + 4 b·C b + 4 b·third."""
        gauss = 2 * np.sum(self.covariance**2) + 4 * self.bias @ self.covariance @ self.bias
        return max(0.0, float(gauss + self.fourth + 4 * self.bias @ self.third))


def mmse_arm(channels: Sequence[Channel], priors: Sequence[Prior], task: Task) -> Arm:
    """Read every report as the posterior mean under its group's prior."""
    g = task.g(priors[0])
    return Arm(channels, [mmse_weights(q.under(prior), g)[0] for q, prior in zip(channels, priors, strict=True)], g)


def unbiased_arm(channels: Sequence[Channel], priors: Sequence[Prior], task: Task) -> Arm:
    """Read every report without the prior."""
    g = task.g(priors[0])
    return Arm(channels, [unbiased_weights(q.under(prior), g) for q, prior in zip(channels, priors, strict=True)], g)


def error_moments(arm: Arm, held: Integers) -> Moments:
    """The exact moments of the error over the randomization, for held[group, value] people.

    >>> from tacit.task import Survey
    >>> prior = Prior.of({"yes": 1, "no": 1})
    >>> arm = mmse_arm([Channel.from_weights(prior, [[3, 1], [1, 3]])], [prior], Survey("yes"))
    >>> error_moments(arm, np.array([[4, 4]])).square
    0.375
    """
    size = arm.g.shape[1]
    bias, covariance, third, fourth = np.zeros(size), np.zeros((size, size)), np.zeros(size), 0.0
    for channel, t, people in zip(arm.channels, arm.weights, held, strict=True):
        for q, g, count in zip(channel.matrix, arm.g, people, strict=True):
            mean = q @ t
            z = t - mean
            own = (z * q[:, None]).T @ z
            length = (z**2).sum(axis=1)
            bias += count * (mean - g)
            covariance += count * own
            third += count * (q * length) @ z
            fourth += float(count * (q @ length**2 - np.trace(own) ** 2 - 2 * np.sum(own**2)))
    return Moments(bias, covariance, third, fourth)


def realised(arm: Arm, held: Integers, runs: int, seed: Sequence[int]) -> Realised:
    """Repeat the randomization of the same people `runs` times and compare with the exact error."""
    rounds = max(2, min(runs, MOST_ROUNDS))
    people, rng = int(held.sum()), np.random.default_rng(list(seed))
    off = np.tile(-held.sum(axis=0) @ arm.g, (rounds, 1))
    for channel, t, holders in zip(arm.channels, arm.weights, held, strict=True):
        matrix = channel.matrix / channel.matrix.sum(axis=1, keepdims=True)
        for row, count in zip(matrix, holders, strict=True):
            if count:
                off += rng.multinomial(int(count), row, size=rounds) @ t
    moments = error_moments(arm, held)
    simulated, exact = math.sqrt(float((off**2).sum(axis=1).mean()) / people), math.sqrt(moments.square / people)
    error = math.sqrt(moments.spread / rounds) / (2 * exact * people) if moments.spread else 0.0
    return Realised(simulated, error, exact)
