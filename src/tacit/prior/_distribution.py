"""The prior: what is known before the answers, as named values with exact rational probabilities; and names: when two
are the same, and which one was meant.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from tacit.disk import clean_name
from tacit.exact import Floats, Number, rational

#: What an answer can be. Numbers stay numbers, so that sums can use them.
Value = str | int | float


@dataclass(frozen=True)
class Prior:
    """A distribution P(x) = weights[x] / total over d named values, in exact integers.

    Build it from a mapping (`Prior.of`, of a column's `Counter` too), or from values and weights; `read_priors` reads
    them from a file. Weights need not sum to one; floats are read as the decimals they print as. Values are all names
    or all numbers. A value may have weight zero: it belongs to the domain, but no promise about beliefs covers
    it, see `support`.

    >>> prior = Prior.of({"yes": 0.1, "no": 0.9})
    >>> prior.weights, prior.total, prior.probability("yes")
    ((1, 9), 10, Fraction(1, 10))
    """

    values: tuple[Value, ...]
    weights: tuple[int, ...]

    def __init__(self, values: Iterable[Value], weights: Iterable[Number]) -> None:
        names = tuple(_plain(value) for value in values)
        exact = [_weight(weight, position) for position, weight in enumerate(weights)]
        if not names:
            raise ValueError("A prior needs at least one value. Got an empty domain.")
        if len(names) != len(exact):
            raise ValueError(f"A prior needs one weight for each value. Got {len(names)} values, {len(exact)} weights.")
        _check_names(names)
        if not any(exact):
            raise ValueError("A prior needs at least one positive weight. Got zeros only.")
        scale = math.lcm(*(weight.denominator for weight in exact))
        integers = [weight.numerator * (scale // weight.denominator) for weight in exact]
        divisor = math.gcd(*integers)
        object.__setattr__(self, "values", names)
        object.__setattr__(self, "weights", tuple(integer // divisor for integer in integers))

    @classmethod
    def of(cls, weights: Mapping[Value, Number] | Sequence[Number] | Floats | Prior) -> Prior:
        """From a mapping of values to probabilities, counts or any other weights, or an array of them for 0 … d−1.

        Args:
            weights: a mapping, or anything with `items()`, such as `series.value_counts()` of pandas; an array or list
                of weights for the values 0, 1, …; or a prior, which is returned.

        Raises:
            ValueError: no weight is positive, one is negative, or names repeat.
            TypeError: a value is neither text nor a number.

        >>> Prior.of({"a": 3, "b": 1}).probabilities
        array([0.75, 0.25])
        >>> Prior.of(np.array([0.75, 0.25])).values
        (0, 1)
        """
        if isinstance(weights, Prior):
            return weights
        # A pandas series is no Mapping, and iterating over it would lose its labels.
        if callable(items := getattr(weights, "items", None)):
            pairs = list(items())
            return cls([value for value, _ in pairs], [weight for _, weight in pairs])
        return cls(range(len(weights)), list(weights))

    @classmethod
    def uniform(cls, values: Iterable[Value] | int) -> Prior:
        """Equal weights on the given values, or on 0 … d−1.

        >>> Prior.uniform(3).values
        (0, 1, 2)
        """
        names = tuple(range(values)) if isinstance(values, int) else tuple(values)
        return cls(names, [1] * len(names))

    @cached_property
    def total(self) -> int:
        """The sum of the integer weights."""
        return sum(self.weights)

    @cached_property
    def probabilities(self) -> Floats:
        """P(x) as floats, each correctly rounded."""
        array = np.array([weight / self.total for weight in self.weights])
        array.flags.writeable = False
        return array

    @cached_property
    def support(self) -> tuple[int, ...]:
        """Positions of the values with positive probability: the promise holds for these."""
        return tuple(position for position, weight in enumerate(self.weights) if weight)

    @cached_property
    def is_uniform(self) -> bool:
        """Whether all values are believed equally likely."""
        return len(set(self.weights)) == 1

    @cached_property
    def is_numeric(self) -> bool:
        """Whether the values are numbers, with an order and a magnitude."""
        return not isinstance(self.values[0], str)

    @cached_property
    def numbers(self) -> Floats:
        """The values as floats, for tasks that add them up."""
        if not self.is_numeric:
            raise TypeError("This task needs numeric values. Got names; use Survey or Histogram instead.")
        return np.array(self.values, dtype=np.float64)

    @cached_property
    def _positions(self) -> dict[Value, int]:
        return {value: position for position, value in enumerate(self.values)}

    def __len__(self) -> int:
        return len(self.values)

    def position(self, value: Value) -> int:
        """Where `value` stands in the domain."""
        try:
            return self._positions[value]
        except (KeyError, TypeError):
            raise KeyError(f"Not a value of this prior's {len(self)}-value domain.") from None

    def value_of(self, text: str) -> Value:
        """The value that a text stands for: a name as it is written, a number in whichever way it is written.

        >>> Prior.of({1: 1, 2.5: 1}).value_of("2.50"), Prior.of({"01": 1, "1": 1}).value_of("01")
        (2.5, '01')
        """
        meant: list[Value] = [text, clean_name(text)]
        if self.is_numeric:
            try:
                exact = rational(meant.pop())
                meant = [float(exact), *([int(exact)] if exact.denominator == 1 else [])]
            except (ValueError, OverflowError):
                meant = []
        for value in meant:
            if value in self._positions:
                return self.values[self._positions[value]]
        known = ", ".join(map(str, self.values[:8]))[:200] + (", …" if len(self) > 8 else "")
        meant_by = nearest(text, map(str, self.values))
        raise ValueError(f"The value {text!r} is not one of the prior's. It has: {known}.{meant_by}")

    def probability(self, value: Value) -> Fraction:
        """P(value), exactly."""
        return Fraction(self.weights[self.position(value)], self.total)

    def on_support(self) -> Prior:
        """The same prior without its impossible values."""
        if len(self.support) == len(self):
            return self
        return Prior([self.values[x] for x in self.support], [self.weights[x] for x in self.support])

    def floored(self, floor: Number) -> Prior:
        """(1−floor)·P + floor/d: mixed with the uniform distribution, so that no value is impossible.

        The remedy for values that were never seen but might be held: afterwards they are inside the guarantee.

        >>> Prior.of({"a": 1, "b": 0}).floored(0.01).probability("b")
        Fraction(1, 200)
        """
        share = rational(floor, "floor")
        if not 0 <= share <= 1:
            raise ValueError(f"The 'floor' parameter must lie between 0 and 1. Got {floor} instead.")
        mixed = [(1 - share) * Fraction(weight, self.total) + share / len(self) for weight in self.weights]
        return Prior(self.values, mixed)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{value!r}: {probability:.6g}"
            for value, probability in zip(self.values[:6], self.probabilities[:6], strict=True)
        )
        return f"Prior({{{shown}{', …' if len(self) > 6 else ''}}})"


def _plain(value: Any) -> Value:
    """A str, int or float; numpy scalars become Python's."""
    if type(value) is str or type(value) is int:
        return value
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bool):
        plain = int(plain)
    if not isinstance(plain, str | int | float):
        raise TypeError(f"A value must be a string or a number. Got {type(value).__name__} instead.")
    if isinstance(plain, float):
        if not math.isfinite(plain):
            raise ValueError(f"A value must be finite. Got {plain} instead.")
        return plain + 0.0  # −0 is 0.
    return plain


def _check_names(names: Sequence[Value]) -> None:
    if len({isinstance(name, str) for name in names}) > 1:
        raise TypeError("The values of a prior must be all names or all numbers. Got both.")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"The values of a prior must differ. Got {repeated[0]!r} more than once.")


def _weight(weight: Number, position: int) -> Fraction | int:
    # Most priors are counts, which are exact as they are.
    exact = weight if type(weight) is int else rational(weight, f"weights[{position}]")
    if exact.numerator < 0:
        raise ValueError(f"The 'weights[{position}]' parameter must not be negative. Got {weight} instead.")
    return exact


#: How a number is written if it is one: no leading zeros, no underscores, so that ZIP codes stay names.
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def numbers_if_all(texts: Sequence[str]) -> list[Value]:
    """Integers if all `texts` are written as such, else floats if all are numbers, else the texts.

    >>> numbers_if_all(["1", "20"]), numbers_if_all(["1", "2.50"]), numbers_if_all(["01234", "1"])
    ([1, 20], [1.0, 2.5], ['01234', '1'])
    """
    written = [_NUMBER.fullmatch(text) for text in texts]
    if not all(written):
        return list(texts)
    if all(match is not None and not match[2] and not match[3] for match in written):
        return [int(text) for text in texts]
    numbers = [float(text) for text in texts]
    return list(numbers) if all(map(math.isfinite, numbers)) else list(texts)


#: What cannot be seen in a name but changes it: control characters, and marks that turn the direction of reading.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def has_unseen(name: str) -> bool:
    """Whether a `name` holds invisible characters: control characters, or marks that change the direction of text.

    >>> has_unseen("no"), has_unseen("no\u202e")
    (False, True)
    """
    return _UNSEEN.search(name) is not None


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """The name in `known`, if any, that differs from this `name` in case, blanks or a typing error.

    >>> near_names("regoin", ["age", "Region"])
    ['Region']
    """
    folded = {clean_name(each).casefold(): each for each in known}
    return [folded[each] for each in get_close_matches(clean_name(name).casefold(), folded, 1, 0.75)]


def nearest(name: str, known: Iterable[str]) -> str:
    """A question after the name in `known` that is nearly this `name`; nothing where none is.

    >>> nearest("regoin", ["age", "Region"]), nearest("value", ["age"])
    (" Did you mean 'Region'?", '')
    """
    found = near_names(name, known)
    return f" Did you mean '{found[0]}'?" if found else ""


def listed(names: Iterable[Value], most: int = 8) -> str:
    """Some `names` for a sentence, texts in quotation marks, and how many there are beyond `most`.

    >>> listed(["a", 2, "b"]), listed(["a", 2, "b"], 2)
    ("'a', 2, 'b'", "'a', 2 and 1 more")
    """
    shown = [f"'{name}'" if isinstance(name, str) else str(name) for name in names]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most:,} more" if len(shown) > most else "")
