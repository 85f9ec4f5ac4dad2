"""Sets of priors: how wrong a prior may be before a promise about belief no longer holds.

A promise for a single prior P̂ is only as good as P̂. A promise for a convex set U of priors around it holds for every
belief in U. A column w = Q(y|·) of a channel keeps ε-LIP under every P of U exactly if, for every x of the support,

    w_x ≤ e^ε · min_{P ∈ U} P·w      and      max_{P ∈ U} P·w ≤ e^ε · w_x.

U = {P̂} is LIP, U = all priors is LDP. Both sides are linear programs over U: for a ball and a box a sort and a greedy
shift of mass solves them, for a hull a look at each candidate, and all of it is done here on integers.

Every member of U is supported where the nominal prior P̂ is: a value with prior zero stays outside the guarantee.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from operator import mul
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tacit.exact import Floats, Number, exact_integers, exact_ratio, log_enclosure, rational
from tacit.prior._distribution import Prior

#: Up to this many values the radius of a box is searched over all subsets; beyond, it is bounded from above.
_SUBSETS_LIMIT = 12
#: Bounds are rounded outwards to this many significant digits: short enough for a contract that people read.
DIGITS = 3
#: Common denominators of more bits are refused.
_LARGEST_SCALE = 4096


@dataclass(frozen=True)
class PriorSet(ABC):
    """A convex set of priors that contains a nominal one, with exact extremes of every linear function on it."""

    kind: ClassVar[str]
    prior: Prior

    if TYPE_CHECKING:

        @property
        def radius(self) -> Fraction:
            """The largest total variation distance of a member from the nominal prior; rounded up if at all."""

    @property
    @abstractmethod
    def ranges(self) -> tuple[Floats, Floats]:
        """From where to where the probability of each value of the support can move within the set, while the others
        keep their proportions; in floats.
        """

    @abstractmethod
    def merged(self, groups: Sequence[int]) -> PriorSet | None:
        """The set of a question that cannot tell values of one group apart; None if that would lose something."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The set as a contract writes it, the nominal prior left out: rationals and integers in strings."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: Mapping[str, Any], prior: Prior) -> PriorSet:
        """The inverse of `to_dict`."""

    @abstractmethod
    def _scale(self) -> int:
        """The denominator of the masses of `_least`."""

    @abstractmethod
    def _least(self, column: Sequence[int], order: Sequence[int]) -> list[int]:
        """Masses of a member with the least P·w; `order` lists the support from the least w to the largest."""

    def lowest(self, column: Sequence[int]) -> tuple[Fraction, Prior]:
        """min P·w over the set for integers w, one for each value, and a member that attains it."""
        masses = self._least(column, _ascending(column, self.prior))
        return Fraction(_dot(masses, column), self._scale()), Prior(self.prior.values, masses)

    def highest(self, column: Sequence[int]) -> tuple[Fraction, Prior]:
        """max P·w over the set, and a member that attains it."""
        value, member = self.lowest([-weight for weight in column])
        return -value, member

    def extremes(self, column: Sequence[int]) -> tuple[Fraction, Fraction]:
        """min and max of P·w over the set; the column is sorted once."""
        order = _ascending(column, self.prior)
        low = _dot(self._least(column, order), column)
        high = _dot(self._least([-weight for weight in column], order[::-1]), column)
        return Fraction(low, self._scale()), Fraction(high, self._scale())


@dataclass(frozen=True)
class Ball(PriorSet):
    """Every prior within total variation `radius` of the nominal one: ½ Σ|P − P̂| ≤ τ, on the support of P̂.

    P·w is least when τ of the mass moves from where w is largest to where it is least. A radius beyond 1 − min P̂
    reaches no further prior and is kept as that; such a ball is the whole simplex and its promise is LDP.

    >>> ball = Ball(Prior.of({"yes": 0.1, "no": 0.9}), 0.03)
    >>> ball.extremes([1, 0])
    (Fraction(7, 100), Fraction(13, 100))
    >>> ball.to_dict()
    {'kind': 'ball', 'radius': '3/100'}
    """

    kind: ClassVar[str] = "ball"

    radius: Fraction

    def __init__(self, prior: Prior, radius: Number) -> None:
        exact = rational(radius, "radius")
        if not 0 <= exact <= 1:
            raise ValueError(f"The 'radius' must lie between 0 and 1. Got {radius} instead.")
        rarest = Fraction(min(prior.weights[x] for x in prior.support), prior.total)
        object.__setattr__(self, "prior", prior)
        object.__setattr__(self, "radius", min(exact, 1 - rarest))

    @classmethod
    def from_records(cls, prior: Prior, n_records: int, confidence: Number = 0.95) -> Ball:
        """The ball that holds the truth with this confidence if the prior is the frequencies of n past records.

        Weissman's inequality: a distribution on d values is further than τ from the frequencies with probability at
        most (2^d − 2)·exp(−2nτ²). τ is rounded up to three digits.

        >>> Ball.from_records(Prior.of({"yes": 300, "no": 700}), 1000).radius
        Fraction(43, 1000)
        """
        return cls(prior, weissman_radius(len(prior.support), n_records, confidence))

    @property
    def ranges(self) -> tuple[Floats, Floats]:
        """P̂ ± τ: that is how far it moves."""
        shares, radius = self.prior.on_support().probabilities, float(self.radius)
        return np.maximum(shares - radius, 0.0), np.minimum(shares + radius, 1.0)

    def _scale(self) -> int:
        return self.prior.total * self.radius.denominator

    def _least(self, column: Sequence[int], order: Sequence[int]) -> list[int]:
        masses = [weight * self.radius.denominator for weight in self.prior.weights]
        moving = left = self.radius.numerator * self.prior.total
        for x in reversed(order):
            if not left:
                break
            taken = min(masses[x], left)
            masses[x] -= taken
            left -= taken
        masses[order[0]] += moving
        return masses

    def merged(self, groups: Sequence[int]) -> Ball:
        """The ball of the same radius over groups: telling values apart no longer brings no two priors further apart.

        Nothing is lost by giving a group one probability of each report. Let T replace a prior's shares within
        groups by those of P̂. T is a Markov map that leaves P̂ where it is, so T maps the ball into itself; and a
        column averaged over groups with the shares of P̂, w' = Tᵀw, has P·w' = (TP)·w for every P.
        """
        return Ball(_merged_prior(self.prior, groups), self.radius)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "radius": str(self.radius)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], prior: Prior) -> Ball:
        _check_fields(data, cls.kind, "radius")
        radius = _ratios([data["radius"]])[0]
        ball = cls(prior, radius)
        if ball.radius < radius:
            raise ValueError(f"The 'radius' must be at most {ball.radius}: no prior is further away. Got {radius}.")
        return ball


@dataclass(frozen=True)
class Box(PriorSet):
    """Every prior with low ≤ P ≤ high, value by value; the nominal prior is one of them.

    P·w is least when every value has its low mass and the rest fills values up to their high mass, those with the
    least w first.

    >>> box = Box(Prior.of({"a": 0.5, "b": 0.3, "c": 0.2}), [0.4, 0.2, 0.1], [0.6, 0.4, 0.3])
    >>> box.lowest([3, 2, 1])
    (Fraction(21, 10), Prior({'a': 0.4, 'b': 0.3, 'c': 0.3}))
    """

    kind: ClassVar[str] = "box"

    low: tuple[Fraction, ...]
    high: tuple[Fraction, ...]

    def __init__(self, prior: Prior, low: Iterable[Number], high: Iterable[Number]) -> None:
        ends = [
            tuple(rational(end, f"{name}[{x}]") for x, end in enumerate(given))
            for name, given in (("low", low), ("high", high))
        ]
        for name, end in zip(("low", "high"), ends, strict=True):
            if len(end) != len(prior):
                raise ValueError(
                    f"The {name!r} of a box must have one number for each of {len(prior)} values. Got {len(end)}."
                )
        for x, (least, weight, most) in enumerate(zip(ends[0], prior.weights, ends[1], strict=True)):
            if not 0 <= least <= Fraction(weight, prior.total) <= most <= 1:
                raise ValueError(
                    f"A box must contain its nominal prior, 0 ≤ low ≤ P ≤ high ≤ 1. Got low = {least}, "
                    f"P = {Fraction(weight, prior.total)}, high = {most} at position {x} instead."
                )
            if not weight and most:
                raise ValueError(
                    f"The 'high' of a value with prior zero must be 0: it is outside the guarantee. Got {most} at "
                    f"position {x} instead; hint: floor the prior first."
                )
        object.__setattr__(self, "prior", prior)
        object.__setattr__(self, "low", ends[0])
        object.__setattr__(self, "high", ends[1])

    @classmethod
    def from_counts(cls, prior: Prior, records: Sequence[int | Fraction], confidence: Number = 0.95) -> Box:
        """Clopper–Pearson intervals of all values at once: each leaves (1 − confidence)/d, by Bonferroni.

        `records` are the counts of the values. Interval ends are rounded outwards to three digits and moved to include
        the nominal prior, should that be another than the frequencies (a floored one, say). Values with prior zero stay
        at zero.

        >>> box = Box.from_counts(Prior.of({"yes": 300, "no": 700}), [300, 700])
        >>> [str(end) for end in box.low], [str(end) for end in box.high]
        (['267/1000', '333/500'], ['167/500', '733/1000'])
        """
        shares = [Fraction(weight, prior.total) for weight in prior.weights]
        counts = [Fraction(count) for count in records]
        n_records = round(sum(counts))
        if len(counts) != len(prior):
            raise ValueError(f"The 'records' must be one count for each of {len(prior)} values. Got {len(counts)}.")
        low, high = [Fraction(0)] * len(prior), [Fraction(0)] * len(prior)
        for x in prior.support:
            least, most = clopper_pearson(counts[x], n_records, confidence, len(prior.support))
            low[x], high[x] = min(least, shares[x]), max(most, shares[x])
        return cls(prior, low, high)

    @cached_property
    def radius(self) -> Fraction:
        """max over sets A of values of min(Σ_A (high − P̂), Σ_{not A} (P̂ − low)): what A can gain and the rest lose.

        Exact for up to 12 values. Beyond, A may contain fractions of values, which bounds it from above.
        """
        shares = [Fraction(weight, self.prior.total) for weight in self.prior.weights]
        room = [(self.high[x] - shares[x], shares[x] - self.low[x]) for x in self.prior.support]
        if len(room) <= _SUBSETS_LIMIT:
            pairs = [(Fraction(0), Fraction(0))]
            for up, down in room:
                pairs = [(a + up, b) for a, b in pairs] + [(a, b + down) for a, b in pairs]
            return max(min(pair) for pair in pairs)
        gained, lost = Fraction(0), sum((down for _, down in room), Fraction(0))
        # The fractional optimum takes values in the order of what A gains by them against what the rest loses.
        for up, down in sorted((pair for pair in room if sum(pair)), key=lambda pair: -pair[0] / sum(pair)):
            if gained + up >= lost - down:
                return gained + up * (lost - gained) / (up + down)
            gained, lost = gained + up, lost - down
        return gained

    @property
    def ranges(self) -> tuple[Floats, Floats]:
        """Between low and high, and so that what the others are multiplied by, (1 − P)/(1 − P̂), leaves none its own."""
        support = list(self.prior.support)
        shares = self.prior.on_support().probabilities
        if len(support) == 1:
            # A single value has probability 1.
            return np.ones(1), np.ones(1)
        low, high = (np.array(ends, dtype=np.float64)[support] for ends in (self.low, self.high))
        least, most = -_least_others(-low / shares), _least_others(high / shares)
        return np.maximum(low, 1 - most * (1 - shares)), np.minimum(high, 1 - least * (1 - shares))

    def _scale(self) -> int:
        return self._integers[0]

    @cached_property
    def _integers(self) -> tuple[int, list[int], list[int]]:
        """A common denominator, and low and high over it."""
        scale = _common(end.denominator for end in (*self.low, *self.high))
        return scale, [int(end * scale) for end in self.low], [int(end * scale) for end in self.high]

    def _least(self, column: Sequence[int], order: Sequence[int]) -> list[int]:
        scale, low, high = self._integers
        masses = list(low)
        left = scale - sum(low)
        for x in order:
            if not left:
                break
            filled = min(high[x] - low[x], left)
            masses[x] += filled
            left -= filled
        return masses

    def merged(self, groups: Sequence[int]) -> Box | None:
        """The box over groups, if every mass a group can have, shared as under P̂, leaves the box nowhere.

        That is what makes the map T of `Ball.merged` lead into the set; the box over groups is then its image.
        """
        prior = _merged_prior(self.prior, groups)
        low, high = _sums(self.low, groups), _sums(self.high, groups)
        for x, group in enumerate(groups):
            share = Fraction(self.prior.weights[x] * prior.total, self.prior.total * prior.weights[group])
            least = max(low[group], 1 - sum(high) + high[group]) * share
            most = min(high[group], 1 - sum(low) + low[group]) * share
            if least < self.low[x] or most > self.high[x]:
                return None
        return Box(prior, low, [min(end, Fraction(1)) for end in high])

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "low": [str(end) for end in self.low], "high": [str(end) for end in self.high]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], prior: Prior) -> Box:
        _check_fields(data, cls.kind, "low", "high")
        return cls(prior, _ratios(data["low"]), _ratios(data["high"]))


@dataclass(frozen=True)
class Hull(PriorSet):
    """Every mixture of the nominal prior and some candidates, such as last year's shares and another country's.

    P·w is least at one of them.

    >>> hull = Hull(Prior.of({"yes": 0.1, "no": 0.9}), [Prior.of({"yes": 0.2, "no": 0.8})])
    >>> hull.extremes([1, 0]), hull.radius
    ((Fraction(1, 10), Fraction(1, 5)), Fraction(1, 10))
    """

    kind: ClassVar[str] = "hull"

    candidates: tuple[Prior, ...]

    def __init__(self, prior: Prior, candidates: Iterable[Prior]) -> None:
        others = tuple(candidates)
        for position, candidate in enumerate(others):
            if candidate.values != prior.values:
                raise ValueError(
                    "The candidates of a hull must have the nominal prior's values in its order. "
                    f"Candidate {position} does not."
                )
            if any(weight and not prior.weights[x] for x, weight in enumerate(candidate.weights)):
                raise ValueError(
                    "The candidates of a hull must be possible where the nominal prior is and nowhere else. "
                    f"Candidate {position} has a value with nominal prior zero; hint: floor the nominal prior."
                )
        object.__setattr__(self, "prior", prior)
        object.__setattr__(self, "candidates", others)

    @cached_property
    def _members(self) -> tuple[int, list[list[int]]]:
        """A common total, and the nominal prior and the candidates with that total."""
        members = (self.prior, *self.candidates)
        scale = _common(member.total for member in members)
        return scale, [[weight * (scale // member.total) for weight in member.weights] for member in members]

    @cached_property
    def radius(self) -> Fraction:
        """The distance of the furthest candidate: a convex function is largest at an end."""
        scale, (nominal, *others) = self._members
        distances = (sum(abs(a - b) for a, b in zip(nominal, other, strict=True)) for other in others)
        return Fraction(max(distances, default=0), 2 * scale)

    @property
    def box(self) -> Box:
        """The smallest box that contains it."""
        scale, members = self._members
        ends = [[Fraction(end(column), scale) for column in zip(*members, strict=True)] for end in (min, max)]
        return Box(self.prior, *ends)

    @property
    def ranges(self) -> tuple[Floats, Floats]:
        """Nowhere, as mixtures of few candidates rarely keep proportions."""
        shares = self.prior.on_support().probabilities
        return shares, shares

    def _scale(self) -> int:
        return self._members[0]

    def _least(self, column: Sequence[int], order: Sequence[int]) -> list[int]:
        return min(self._members[1], key=lambda member: _dot(member, column))

    def merged(self, groups: Sequence[int]) -> Hull | None:
        """The hull over groups, if every candidate shares the mass of each group as the nominal prior does."""
        prior = _merged_prior(self.prior, groups)
        candidates = [_merged_prior(candidate, groups) for candidate in self.candidates]
        for before, after in zip(self.candidates, candidates, strict=True):
            for x, group in enumerate(groups):
                mine = Fraction(before.weights[x] * after.total, before.total) * prior.weights[group]
                if mine != Fraction(self.prior.weights[x] * prior.total, self.prior.total) * after.weights[group]:
                    return None
        return Hull(prior, candidates)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "candidates": [[str(w) for w in one.weights] for one in self.candidates]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], prior: Prior) -> Hull:
        _check_fields(data, cls.kind, "candidates")
        if not isinstance(data["candidates"], list):
            raise ValueError("The 'candidates' of a hull must be a list of lists of integers in strings.")
        return cls(prior, [Prior(prior.values, exact_integers(_texts(one))) for one in data["candidates"]])


KINDS: dict[str, type[PriorSet]] = {kind.kind: kind for kind in (Ball, Box, Hull)}


def read_set(data: Mapping[str, Any], prior: Prior) -> PriorSet:
    """The set around `prior` that the JSON in `data` describes; strict, so that what is promised is what was read.

    >>> read_set({"kind": "ball", "radius": "3/100"}, Prior.uniform(2)).radius
    Fraction(3, 100)
    """
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"The 'kind' of a set of priors must be one of {', '.join(KINDS)}. Got {kind!r} instead.")
    return KINDS[kind].from_dict(data, prior)


def from_records(prior: Prior, n_records: int, confidence: Number = 0.95, observed: Prior | None = None) -> Ball | Box:
    """The smaller of the two sets that n = `n_records` past records leave plausible, by radius: a ball or a box that
    holds the truth with the `confidence`.

    `observed` are the frequencies of the records where the `prior` is another, floored or smoothed: the set is then
    about them, and made to reach the prior.

    The radius is what the reports of a good design meet: each raises a set of values, and the promise is stretched by
    the mass that such a set can gain or lose. For two values, or where all but a few are rare, intervals per value are
    tighter; with more values their errors add up and the ball is. Looking at the records to choose must not cost
    confidence, so each set is made at half the risk.

    >>> from_records(Prior.of({"yes": 300, "no": 700}), 1000).kind, from_records(Prior.uniform(8), 1000).kind
    ('box', 'ball')
    """
    halved = (1 + _confidence(confidence)) / 2
    seen = prior if observed is None else observed
    counts = [Fraction(weight * n_records, seen.total) for weight in seen.weights]
    box, ball = Box.from_counts(prior, counts, halved), Ball.from_records(prior, n_records, halved)
    pairs = zip(prior.weights, seen.weights, strict=True)
    away = sum((abs(Fraction(a, prior.total) - Fraction(b, seen.total)) for a, b in pairs), Fraction(0))
    ball = Ball(prior, min(ball.radius + away / 2, Fraction(1)))
    return box if box.radius < ball.radius else ball


def _common(denominators: Iterable[int]) -> int:
    """A common denominator, if it is not so large that the set could not be worked with."""
    scale = 1
    for denominator in denominators:
        scale = math.lcm(scale, denominator)
        if scale.bit_length() > _LARGEST_SCALE:
            raise ValueError(f"The numbers of a set of priors need a common denominator below 2^{_LARGEST_SCALE}.")
    return scale


def _ascending(column: Sequence[int], prior: Prior) -> list[int]:
    """The support in the order of the column."""
    if len(column) != len(prior):
        raise ValueError(f"A column must have one integer for each of {len(prior)} values. Got {len(column)}.")
    return sorted(prior.support, key=column.__getitem__)


def _dot(masses: Sequence[int], column: Sequence[int]) -> int:
    return sum(map(mul, masses, column))


def _least_others(numbers: Floats) -> Floats:
    """For each number the least of the others."""
    first, second = np.sort(np.append(numbers, np.inf))[:2]
    least = np.full(len(numbers), first)
    least[np.argmin(numbers)] = second
    return least


def _sums(numbers: Iterable[Fraction], groups: Sequence[int]) -> list[Fraction]:
    sums = [Fraction(0)] * (max(groups) + 1)
    for number, group in zip(numbers, groups, strict=True):
        sums[group] += number
    return sums


def _merged_prior(prior: Prior, groups: Sequence[int]) -> Prior:
    weights = _sums((Fraction(weight) for weight in prior.weights), groups)
    return Prior(range(len(weights)), weights)


def _check_fields(data: Mapping[str, Any], kind: str, *fields: str) -> None:
    if set(data) != {"kind", *fields} or data["kind"] != kind:
        raise ValueError(f"A {kind} of priors is written with kind={kind!r} and {' and '.join(fields)} only.")


def _texts(data: Any) -> list[str]:
    if not isinstance(data, list) or not all(isinstance(text, str) for text in data):
        raise ValueError("The numbers of a set of priors must be lists of strings.")
    return data


def _ratios(data: Any) -> list[Fraction]:
    return [exact_ratio(text) for text in _texts(data)]


# -- how far the truth can be from the frequencies of n records: bounds that rounding keeps ----------------------------


def weissman_radius(n_values: int, n_records: int, confidence: Number) -> Fraction:
    """τ with Pr(total variation between truth and frequencies > τ) ≤ 1 − confidence, exactly, rounded up.

    The distance exceeds τ only if one of the 2^d − 2 proper sets of values is τ more frequent than it should be, and
    by Hoeffding's inequality each is with probability at most exp(−2nτ²): τ² = ln((2^d − 2)/(1 − confidence)) / 2n.

    >>> weissman_radius(2, 1000, 0.95)
    Fraction(43, 1000)
    """
    risk = 1 - _confidence(confidence)
    _check_records(n_records)
    if n_values < 2:
        return Fraction(0)
    square = log_enclosure(Fraction(2**n_values - 2) / risk, 20)[1] / (2 * n_records)
    places = DIGITS - 1 - math.floor(math.log10(square) / 2)
    root = math.isqrt(math.ceil(square * 10 ** (2 * places)))
    if Fraction(root, 10**places) ** 2 < square:
        root += 1
    return min(Fraction(root, 10**places), Fraction(1))


def clopper_pearson(
    count: Fraction, n_records: int, confidence: Number, n_statements: int
) -> tuple[Fraction, Fraction]:
    """An interval for a share of which `count` of n records were seen, one of `n_statements` that hold together.

    Each statement leaves (1 − confidence)/n_statements, half on each side (Bonferroni). A count that is no integer, as
    a rounded prior gives, is rounded to the worse side.

    >>> low, high = clopper_pearson(Fraction(300), 1000, 0.95, 1)
    >>> float(low), float(high)
    (0.271, 0.33)
    """
    from scipy.special import betaincinv

    _check_records(n_records)
    if not 0 <= count <= n_records:
        raise ValueError(f"A count must lie between 0 and the {n_records} records. Got {count} instead.")
    side = float((1 - _confidence(confidence)) / (2 * n_statements))
    below, above = math.floor(count), math.ceil(count)
    low = float(betaincinv(below, n_records - below + 1, side)) if below else 0.0
    high = float(betaincinv(above + 1, n_records - above, 1 - side)) if above < n_records else 1.0
    # The inverse errs by less than a billionth of itself: step that far outwards before rounding.
    return _shortened(low * (1 - 1e-9), up=False), min(_shortened(high * (1 + 1e-9), up=True), Fraction(1))


def _shortened(number: float, up: bool) -> Fraction:
    """Rounded to a few significant digits, in the stated direction."""
    if number <= 0:
        return Fraction(0)
    places = DIGITS - 1 - math.floor(math.log10(number))
    scaled = Fraction(number) * 10**places
    return Fraction(math.ceil(scaled) if up else math.floor(scaled), 10**places)


def _confidence(confidence: Number) -> Fraction:
    exact = rational(confidence, "confidence")
    if not 0 < exact < 1:
        raise ValueError(f"The 'confidence' must lie between 0 and 1, both excluded. Got {confidence} instead.")
    return exact


def _check_records(n_records: int) -> None:
    if n_records < 1:
        raise ValueError(f"The 'n_records' must be at least 1. Got {n_records} instead.")
