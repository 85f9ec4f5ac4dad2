"""What an audit says: levels with their witnesses, beliefs, and percentages that stay bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from tacit.exact import at_most_exp, log_above
from tacit.prior import Prior, Value

#: What a level can bound. An audit states all of them.
Notion = Literal["lip", "ldp", "pml", "min_lift", "mip"]
#: The notions that a plan may promise. PML and min-lift bound one side of a belief only, and MIP bounds an average: a
#: mechanism that reports answers nearly as they are can keep each of these three.
PROMISED: tuple[Notion, ...] = ("lip", "ldp")


@dataclass(frozen=True)
class Level:
    """The level ln(ratio) of one notion, with the value and the report that reach it.

    `ratio` is exact, None if no finite level holds; `epsilon` is ln(ratio) rounded up. A mechanism too large to be
    searched has a proven bound for its ratio and names no witness.
    """

    ratio: Fraction | None
    value: Value | None = None
    report: int | None = None

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


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The exact levels of one mechanism under one prior. Printing it explains them in words."""

    lip_upper: Level
    lip_lower: Level
    ldp: Level
    mip: float
    witness: Belief
    outside: tuple[Value, ...] = ()
    exposed: tuple[Value, ...] = ()

    @property
    def lip(self) -> Level:
        """The LIP level: the worse of the two sides."""
        return worse(self.lip_upper, self.lip_lower)

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

    def bounds(self, notion: Notion, epsilon: Fraction) -> bool:
        """Whether a notion is at most ε by these levels, exactly; MIP by the upper side, an upper bound of it."""
        level = {"lip": self.lip, "ldp": self.ldp, "min_lift": self.lip_lower}.get(notion, self.lip_upper)
        return level.holds(epsilon)

    def __str__(self) -> str:
        where = "" if self.lip.report is None else f", report {self.lip.report}"
        lines = [
            f"LIP {_up(self.lip.epsilon)} (belief up by {_up(self.lip_upper.epsilon)}, "
            f"down by {_up(self.lip_lower.epsilon)}), LDP {_up(self.ldp.epsilon)}, "
            f"mutual information {_up(self.mip)} nats",
            f"worst case{where}: {self.witness}",
        ]
        if self.outside:
            lines.append(f"outside the guarantee (prior zero): {', '.join(map(repr, self.outside))}")
        if self.exposed:
            lines.append(f"EXPOSED (they send reports that nobody else can send): {', '.join(map(repr, self.exposed))}")
        return "\n".join(lines)


def bounded_audit(prior: Prior, highest: Fraction, lowest: Fraction) -> Audit:
    """The audit of a mechanism of which only bounds of the lifts are known: lowest ≤ v_y(x) ≤ highest.

    Mutual information is an average of log-lifts, and log-lifts are at most the upper level. Whoever holds a value with
    prior zero sends the report of a stand-in drawn from the prior, so nobody is exposed.
    """
    rarest = prior.values[min(prior.support, key=lambda x: prior.weights[x])]
    return Audit(
        lip_upper=Level(highest),
        lip_lower=Level(1 / lowest if lowest else None),
        ldp=Level(highest / lowest if lowest else None),
        mip=log_above(highest),
        witness=bounded_belief(prior, rarest, highest, lowest),
        outside=tuple(value for value, weight in zip(prior.values, prior.weights, strict=True) if not weight),
    )


def bounded_belief(prior: Prior, value: Value, highest: Fraction, lowest: Fraction) -> Belief:
    """A range in which a report can put the belief in `value`, from bounds of the lifts."""
    before = prior.probability(value)
    return Belief(value, before, max(Fraction(0), before * lowest), min(Fraction(1), before * highest))


def worse(upper: Level, lower: Level) -> Level:
    """The larger of two levels; the first if they are equal."""
    if lower.ratio is None or (upper.ratio is not None and lower.ratio > upper.ratio):
        return lower
    return upper


def known_notion(notion: str) -> None:
    """Raise unless `notion` is one of those that can be audited."""
    if notion not in get_args(Notion):
        raise ValueError(
            f"The 'notion' parameter must be one of {', '.join(get_args(Notion))}. Got {notion!r} instead."
        )


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


def _up(level: float) -> str:
    """Three decimals, rounded up."""
    return "∞" if math.isinf(level) else f"{math.ceil(level * 1000) / 1000:.3f}"
