"""Which privacy a channel really gives, decided on integers.

With A the channel's integer weights over the denominator D, w the prior's integers over W, and
Λ_y = Σ_x w_x A_xy, the lift is the rational v_y(x) = A_xy·W / Λ_y. The levels are

    LIP upper   ln max v     over values x with w_x > 0 and reports y with Λ_y > 0  (also called PML)
    LIP lower   −ln min v    over the same                                          (also called min-lift)
    LDP         ln max A_xy / A_x'y   over all inputs, whatever the prior
    MIP         Σ P(x) Q(y|x) ln v_y(x)

A value with zero prior is outside what LIP, PML and MIP can promise; the audit names such values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

import numpy as np

from tacit.exact import Number, at_most_exp, budget, float_above, log_above, log_enclosure
from tacit.mechanism.table import Channel
from tacit.prior import Prior, Value

Notion = Literal["lip", "ldp", "pml", "min_lift", "mip"]


@dataclass(frozen=True)
class Level:
    """The level ln(ratio) of one notion, with the value and the report that reach it.

    `ratio` is exact, None if no finite level holds; `epsilon` is ln(ratio) rounded up.
    """

    ratio: Fraction | None
    value: Value
    output: int

    @property
    def epsilon(self) -> float:
        return math.inf if self.ratio is None else log_above(self.ratio)

    def holds(self, epsilon: Fraction) -> bool:
        """Whether ln(ratio) ≤ ε, exactly."""
        return self.ratio is not None and at_most_exp(self.ratio, epsilon)


@dataclass(frozen=True)
class Belief:
    """How far one report can move the belief that someone holds `value`: from `prior` to between `low` and `high`."""

    value: Value
    prior: Fraction
    low: Fraction
    high: Fraction

    def __str__(self) -> str:
        return (
            f"someone believed to be {self.value!r} with {percent(self.prior)} is believed with "
            f"at most {percent(self.high, 'up')} and at least {percent(self.low, 'down')}"
        )


@dataclass(frozen=True)
class Audit:
    """The exact levels of one channel under one prior. Printing it explains them in words."""

    lip_upper: Level
    lip_lower: Level
    ldp: Level
    mip: float
    witness: Belief
    outside: tuple[Value, ...]
    exposed: tuple[Value, ...]

    @property
    def lip(self) -> Level:
        """The LIP level: the worse of the two sides."""
        return _worse(self.lip_upper, self.lip_lower)

    @property
    def pml(self) -> Level:
        """Pointwise maximal leakage: the upper side of LIP."""
        return self.lip_upper

    @property
    def min_lift(self) -> Level:
        """The lower side of LIP."""
        return self.lip_lower

    @property
    def mip_bits(self) -> float:
        """Mutual information in bits, rounded up like `mip`, which is in nats."""
        return math.nextafter(self.mip / math.log(2), math.inf) if self.mip else 0.0

    def __str__(self) -> str:
        lines = [
            f"LIP {_up(self.lip.epsilon)} (belief up by {_up(self.lip_upper.epsilon)}, "
            f"down by {_up(self.lip_lower.epsilon)}), LDP {_up(self.ldp.epsilon)}, "
            f"mutual information {_up(self.mip)} nats",
            f"worst case, report {self.lip.output}: {self.witness}",
        ]
        if self.outside:
            lines.append(f"outside the guarantee (prior zero): {', '.join(map(repr, self.outside))}")
        if self.exposed:
            lines.append(f"EXPOSED (they send reports that nobody else can send): {', '.join(map(repr, self.exposed))}")
        return "\n".join(lines)


def audit(channel: Channel, prior: Prior) -> Audit:
    """Every privacy level of `channel` under `prior`, exactly, with the witnesses that reach them.

    >>> prior = Prior.of({"yes": 0.1, "no": 0.9})
    >>> print(audit(Channel.from_weights(prior, [[3, 1], [1, 3]]), prior))
    LIP 1.030 (belief up by 0.917, down by 1.030), LDP 1.099, mutual information 0.049 nats
    worst case, report 1: someone believed to be 'yes' with 10% is believed with at most 25% and at least 3.57%
    """
    above, below = _lift_levels(channel, prior)
    sent = channel.marginal_weights(prior).astype(bool)
    outside = [x for x, weight in enumerate(prior.weights) if not weight]
    # No information at all is exactly zero; floats would say a little more.
    silent = above.ratio == below.ratio == 1
    return Audit(
        lip_upper=above,
        lip_lower=below,
        ldp=_ldp(channel),
        mip=0.0 if silent else float_above(_mutual_information(channel, prior)[1]),
        witness=belief(channel, prior, _worse(above, below).value),
        outside=tuple(prior.values[x] for x in outside),
        exposed=tuple(prior.values[x] for x in outside if channel.weights[x, ~sent].any()),
    )


def satisfies(channel: Channel, prior: Prior, notion: Notion, epsilon: Number) -> bool:
    """Whether the channel keeps `notion` at level ε under `prior`: an exact comparison, no tolerance.

    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> channel = Channel.from_weights(prior, [[3, 1], [1, 3]])
    >>> satisfies(channel, prior, "lip", 0.7), satisfies(channel, prior, "ldp", 0.7)
    (True, False)
    """
    if notion not in get_args(Notion):
        raise ValueError(
            f"The 'notion' parameter must be one of {', '.join(get_args(Notion))}. Got {notion!r} instead."
        )
    exact = budget(epsilon)
    if notion == "mip":
        return _mip_holds(channel, prior, exact)
    if notion == "ldp":
        channel.check_prior(prior)
        return _ldp(channel).holds(exact)
    upper, lower = _lift_levels(channel, prior)
    return (notion == "min_lift" or upper.holds(exact)) and (notion == "pml" or lower.holds(exact))


def belief(channel: Channel, prior: Prior, value: Value) -> Belief:
    """The exact range in which a report can put the belief that someone holds `value`.

    >>> prior = Prior.of({"yes": 0.1, "no": 0.9})
    >>> print(belief(Channel.from_weights(prior, [[3, 1], [1, 3]]), prior, "yes"))
    someone believed to be 'yes' with 10% is believed with at most 25% and at least 3.57%
    """
    x = prior.position(value)
    marginal = channel.marginal_weights(prior)
    posteriors = [
        Fraction(prior.weights[x] * channel.weights[x, y], marginal[y]) for y in range(channel.n_outputs) if marginal[y]
    ]
    return Belief(prior.values[x], Fraction(prior.weights[x], prior.total), min(posteriors), max(posteriors))


def percent(share: Fraction, direction: Literal["near", "up", "down"] = "near") -> str:
    """A share as a percentage with three significant digits, rounded so that a bound stays a bound.

    >>> percent(Fraction(1, 10)), percent(Fraction(1, 7), "up"), percent(Fraction(1, 7), "down")
    ('10%', '14.3%', '14.2%')
    """
    hundred = share * 100
    # A probability near one is read by its distance from it, so that is what gets the digits.
    small = min(hundred, 100 - hundred) if 0 < hundred < 100 else Fraction(1)
    places = max(1, 2 - _magnitude(small))
    scaled = hundred * 10**places
    integer = {"near": round(scaled), "up": math.ceil(scaled), "down": math.floor(scaled)}[direction]
    whole, part = divmod(integer, 10**places)
    return f"{whole}.{part:0{places}d}".rstrip("0").rstrip(".") + "%"


def _magnitude(number: Fraction) -> int:
    """⌊log₁₀⌋ of a positive number, exactly: floats would slip near powers of ten and below their range."""
    guess = len(str(number.numerator)) - len(str(number.denominator))
    return guess if number >= Fraction(10) ** guess else guess - 1


def _lift_levels(channel: Channel, prior: Prior) -> tuple[Level, Level]:
    """The upper and the lower side of LIP."""
    marginal = channel.marginal_weights(prior)
    support = list(prior.support)
    inside = channel.weights[support]
    most, least = inside.argmax(axis=0), inside.argmin(axis=0)
    sent = [y for y in range(channel.n_outputs) if marginal[y]]
    highest = max(sent, key=lambda y: Fraction(int(inside[most[y], y]), int(marginal[y])))
    lowest = min(sent, key=lambda y: Fraction(int(inside[least[y], y]), int(marginal[y])))
    upper = Fraction(inside[most[highest], highest] * prior.total, marginal[highest])
    lower = Fraction(inside[least[lowest], lowest] * prior.total, marginal[lowest])
    return (
        Level(upper, prior.values[support[most[highest]]], highest),
        Level(1 / lower if lower else None, prior.values[support[least[lowest]]], lowest),
    )


def _worse(upper: Level, lower: Level) -> Level:
    if lower.ratio is None or (upper.ratio is not None and lower.ratio > upper.ratio):
        return lower
    return upper


def _ldp(channel: Channel) -> Level:
    weights = channel.weights
    most, least = weights.argmax(axis=0), weights.argmin(axis=0)
    used = [y for y in range(channel.n_outputs) if weights[most[y], y]]
    for y in used:
        if not weights[least[y], y]:
            return Level(None, channel.values[least[y]], y)
    worst = max(used, key=lambda y: Fraction(weights[most[y], y], weights[least[y], y]))
    ratio = Fraction(weights[most[worst], worst], weights[least[worst], worst])
    return Level(ratio, channel.values[most[worst]], worst)


def _mip_holds(channel: Channel, prior: Prior, epsilon: Fraction) -> bool:
    low, high = _mutual_information(channel, prior)
    if not low <= epsilon <= high:
        return high < epsilon
    # (1/n)·ln(rational) meets a rational ε only where both are zero, so more digits decide everything else.
    marginal = channel.marginal_weights(prior)
    if all((channel.weights[x] * prior.total == marginal).all() for x in prior.support):
        return True
    digits = 20
    while True:
        low, high = _mutual_information_enclosure(channel, prior, digits)
        if not low <= epsilon <= high:
            return high < epsilon
        digits *= 2


def _mutual_information(channel: Channel, prior: Prior) -> tuple[Fraction, Fraction]:
    """Σ P Q ln v between two rationals, from floats.

    Each probability and lift is a correctly rounded quotient of integers and the sum is exact (`fsum`), so the
    error is at most Σ P Q (|ln v| + 1) · 2⁻⁵⁰, allowing the logarithm four units in its last place.
    """
    joint = np.array(prior.weights, dtype=object)[:, None] * channel.weights
    marginal = joint.sum(axis=0)
    positive = joint.astype(bool)
    lifts = ((channel.weights * prior.total)[positive] / (np.ones_like(joint) * marginal)[positive]).astype(float)
    shares = (joint[positive] / (prior.total * channel.denominator)).astype(float)
    logs = np.log(lifts)
    total = Fraction(math.fsum(shares * logs))
    error = Fraction(math.fsum(shares * (np.abs(logs) + 1))) / 2**50
    return max(Fraction(0), total - error), total + error


def _mutual_information_enclosure(channel: Channel, prior: Prior, digits: int) -> tuple[Fraction, Fraction]:
    marginal = channel.marginal_weights(prior)
    low = high = Fraction(0)
    for x in prior.support:
        for y in channel.weights[x].nonzero()[0]:
            weight = prior.weights[x] * channel.weights[x, y]
            below, above = log_enclosure(Fraction(channel.weights[x, y] * prior.total, marginal[y]), digits)
            low, high = low + weight * below, high + weight * above
    scale = prior.total * channel.denominator
    return low / scale, high / scale


def _up(level: float) -> str:
    """Three decimals, rounded up."""
    return "∞" if math.isinf(level) else f"{math.ceil(level * 1000) / 1000:.3f}"
