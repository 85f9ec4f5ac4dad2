"""Which privacy a mechanism gives, decided on integers: levels and beliefs, for one prior or for a set of priors."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from typing import TYPE_CHECKING, Any, Literal, get_args

from tacit.exact import Number, at_most_exp, budget, log_above
from tacit.prior import Prior, PriorSet, Value

if TYPE_CHECKING:
    from tacit.mechanism.protocol import HasMechanism, Mechanism

#: What a plan can promise. An audit also states each side of LIP (PML and min-lift) and mutual information: a mechanism
#: that reports answers nearly as they are can keep each of these three.
Notion = Literal["lip", "ldp"]


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

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the beliefs as floats."""
        return {"value": self.value, "prior": float(self.prior), "low": float(self.low), "high": float(self.high)}

    def __str__(self) -> str:
        return (
            f"someone believed to be {self.value!r} with {percent(self.prior)} is believed with "
            f"at most {percent(self.high, 'up')} and at least {percent(self.low, 'down')}"
        )


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The exact levels of one mechanism under one prior. Printing it explains them in words.

    `lip_upper` is also called pointwise maximal leakage (PML), `lip_lower` min-lift; `mip` is the mutual information in
    nats, rounded up.
    """

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

    def bounds(self, notion: Notion, epsilon: Fraction) -> bool:
        """Whether a notion is at most ε by these levels, exactly."""
        return (self.ldp if notion == "ldp" else self.lip).holds(epsilon)

    def to_dict(self) -> dict[str, Any]:
        """For JSON: levels as floats, rounded up, None where there is no finite one; the worst case; exposed values."""
        levels = {name: getattr(self, name).epsilon for name in ("lip", "lip_upper", "lip_lower", "ldp")} | {
            "mip": self.mip
        }
        return {
            **{name: None if math.isinf(level) else level for name, level in levels.items()},
            "witness": self.witness.to_dict(),
            "outside": list(self.outside),
            "exposed": list(self.exposed),
        }

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

    Mutual information is an average of log-lifts, and log-lifts are at most the upper level. A person who holds a value
    with prior zero sends the report of a value drawn from the prior, so no one is exposed.
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


@dataclass(frozen=True)
class SetLevel(Level):
    """One side of the LIP level for a set of priors; `worst` is the member of the set under which value and report
    reach it.
    """

    worst: Prior | None = None


def set_lift_levels(rows: Iterable[Iterable[int]], prior_set: PriorSet) -> tuple[SetLevel, SetLevel]:
    """The exact audit for a set U: the upper and the lower level of a channel, each at its worst over U.

        upper = max over y of  max_x w_x / min_U P·w,      lower = max over y of  max_U P·w / min_x w_x

    `rows` are the channel's integers, a row for each value of the domain and a column w for each report y. x runs over
    the support and y over the reports that are sent there. The channel is ε-LIP for every P of U exactly if both
    hold at ε. (Where P_x = 0 for some P of U, or P·w = 0, mixtures of P and the nominal prior come as close as one
    likes, so nothing is asked here that some member does not ask.)

    >>> from tacit.prior import Ball
    >>> ball = Ball(Prior.of({"yes": 0.5, "no": 0.5}), 0.1)
    >>> upper, lower = set_lift_levels([[3, 1], [1, 3]], ball)
    >>> upper.ratio, lower.ratio, upper.worst
    (Fraction(5, 3), Fraction(11, 5), Prior({'yes': 0.4, 'no': 0.6}))
    """
    prior = prior_set.prior
    columns = [list(column) for column in zip(*([index(cell) for cell in row] for row in rows), strict=True)]
    if not columns or len(columns[0]) != len(prior):
        raise ValueError(f"A channel needs one non-empty row for each of the prior's {len(prior)} values.")
    above: list[tuple[int, Fraction | None]] = []
    below: list[tuple[int, Fraction | None]] = []
    for report, column in enumerate(columns):
        inside = [column[x] for x in prior.support]
        if min(inside) < 0:
            raise ValueError(f"The weights of a channel must not be negative. Got one in report {report}.")
        if max(inside):
            low, high = prior_set.extremes(column)
            above.append((report, max(inside) / low if low else None))
            below.append((report, high / min(inside) if min(inside) else None))
    if not above:
        raise ValueError("A channel needs a value of the support that sends some report. Got zeros only.")
    upper, lower = max(above, key=_size), max(below, key=_size)
    most, least = columns[upper[0]], columns[lower[0]]
    return (
        SetLevel(upper[1], prior.values[max(prior.support, key=most.__getitem__)], upper[0], prior_set.lowest(most)[1]),
        SetLevel(
            lower[1], prior.values[min(prior.support, key=least.__getitem__)], lower[0], prior_set.highest(least)[1]
        ),
    )


def _size(level: tuple[int, Fraction | None]) -> tuple[bool, Fraction]:
    """Orders levels, an unbounded one above all."""
    return level[1] is None, level[1] or Fraction(0)


def mechanism_of(found: Mechanism | HasMechanism) -> Mechanism:
    """The mechanism of a design or a group; a mechanism is its own."""
    return getattr(found, "mechanism", found)  # type: ignore[arg-type]


def audit(mechanism: Mechanism | HasMechanism) -> Audit:
    """Every privacy level of `mechanism` (a mechanism, a `Design` or a group of a plan) under its prior, exactly, with
    the witnesses that reach them.

    Print them to see the worst case in words. Under another prior: `audit(mechanism.under(prior))`.

    >>> from tacit import Channel, Prior
    >>> prior = Prior.of({"yes": 0.1, "no": 0.9})
    >>> print(audit(Channel.from_weights(prior, [[3, 1], [1, 3]])))
    LIP 1.030 (belief up by 0.917, down by 1.030), LDP 1.099, mutual information 0.049 nats
    worst case, report 1: someone believed to be 'yes' with 10% is believed with at most 25% and at least 3.57%
    """
    return mechanism_of(mechanism).audit()


def satisfies(mechanism: Mechanism | HasMechanism, notion: Notion, epsilon: Number) -> bool:
    """Whether the mechanism keeps `notion` at level ε under its prior: an exact comparison, no tolerance.

    Args:
        mechanism: a mechanism, a `Design` or a group of a plan.
        notion: "lip", "ldp", "pml", "min_lift" or "mip".
        epsilon: the level ε; a float is read as the decimal that it prints as.

    >>> from tacit import Channel, Prior
    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> channel = Channel.from_weights(prior, [[3, 1], [1, 3]])
    >>> satisfies(channel, "lip", 0.7), satisfies(channel, "ldp", 0.7)
    (True, False)
    """
    known_notion(notion)
    return mechanism_of(mechanism).keeps(notion, budget(epsilon))


def belief(mechanism: Mechanism | HasMechanism, value: Value) -> Belief:
    """The range in which a report can put the belief that someone holds `value`: before, and at least and most after.

    `mechanism` is a mechanism, a `Design` or a group of a plan.

    >>> from tacit import Channel, Prior
    >>> prior = Prior.of({"yes": 0.1, "no": 0.9})
    >>> print(belief(Channel.from_weights(prior, [[3, 1], [1, 3]]), "yes"))
    someone believed to be 'yes' with 10% is believed with at most 25% and at least 3.57%
    """
    return mechanism_of(mechanism).belief(value)
