"""Exact numbers: rationals read as people write them, and e^ε and ln enclosed between rationals.

Every privacy decision in Tacit compares integers. The only transcendental number that enters is e^ε, and for a
rational ε ≠ 0 it is never rational (Lindemann), so comparing it with a ratio of integers always ends: enclose e^ε
more and more tightly until the ratio lies on one side.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from numbers import Rational

import numpy as np
from numpy.typing import NDArray

#: Arrays of floats, of 64-bit integers, and of integers of any size.
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
BigIntegers = NDArray[np.object_]

Number = int | float | str | Decimal | Fraction

#: An exponent of four digits and more asks for a number of any size.
_HUGE = re.compile(r"[eE][+-]?0*[1-9][0-9]{3,}")
#: Budgets above this are refused: e^100 ≈ 2.7e43 does not limit any realistic belief.
MAX_EPSILON = 100


def rational(number: Number, name: str = "number") -> Fraction:
    """The exact rational that a person means by `number`: a float is read as its shortest decimal, 0.1 as 1/10.

    >>> rational(0.1), rational("1/3"), rational(2)
    (Fraction(1, 10), Fraction(1, 3), Fraction(2, 1))
    """
    if isinstance(number, Fraction):
        return number
    if type(number) is int:
        return Fraction(number)
    if isinstance(number, bool):
        raise TypeError(f"The {name!r} parameter must be a number. Got {number!r} instead.")
    if isinstance(number, Rational):
        return Fraction(number.numerator, number.denominator)
    try:
        # float() also takes numpy's floats, whose repr is not a literal.
        text = number if isinstance(number, str | Decimal) else repr(float(number))
        if isinstance(text, str) and ("_" in text or _HUGE.search(text)):
            raise ValueError("not a number that people write")
        return Fraction(text)
    except (ValueError, TypeError, OverflowError, ZeroDivisionError) as error:
        raise ValueError(f"The {name!r} parameter must be a finite number. Got {number!r} instead.") from error


def budget(epsilon: Number, name: str = "epsilon") -> Fraction:
    """A privacy budget as an exact rational in [0, 100].

    >>> budget(0.5)
    Fraction(1, 2)
    """
    value = rational(epsilon, name)
    if not 0 <= value <= MAX_EPSILON:
        raise ValueError(f"The {name!r} parameter must lie between 0 and {MAX_EPSILON}. Got {epsilon} instead.")
    return value


def exp_enclosure(epsilon: Fraction, digits: int = 40) -> tuple[Fraction, Fraction]:
    """Rationals (low, high) with low ≤ e^ε ≤ high that agree to about `digits` significant digits.

    Relies on `Decimal.exp` being correctly rounded, which its specification promises.

    >>> low, high = exp_enclosure(Fraction(1), 10)
    >>> float(low) < math.e < float(high)
    True
    >>> exp_enclosure(Fraction(0))
    (Fraction(1, 1), Fraction(1, 1))
    """
    if epsilon == 0:
        return Fraction(1), Fraction(1)
    context = Context(prec=digits)
    below = _divide(epsilon, digits + 5, ROUND_FLOOR)
    above = _divide(epsilon, digits + 5, ROUND_CEILING)
    # Correct rounding errs by at most half a unit in the last place: step one unit outwards.
    low = context.next_minus(context.exp(below))
    high = context.next_plus(context.exp(above))
    return Fraction(low), Fraction(high)


def exp_below(epsilon: Fraction, digits: int = 40) -> Fraction:
    """A rational r ≤ e^ε: designing with r instead of e^ε errs towards more privacy.

    >>> 0 < math.e - float(exp_below(Fraction(1), 10)) < 1e-8
    True
    """
    return exp_enclosure(epsilon, digits)[0]


def at_most_exp(ratio: Fraction, epsilon: Fraction) -> bool:
    """Whether ratio ≤ e^ε, decided exactly.

    >>> at_most_exp(Fraction("2.718281828459045"), Fraction(1))
    True
    >>> at_most_exp(Fraction("2.718281828459046"), Fraction(1))
    False
    """
    if epsilon == 0:
        return ratio <= 1
    digits = 20
    while True:
        low, high = exp_enclosure(epsilon, digits)
        if ratio <= low:
            return True
        if ratio >= high:
            return False
        digits *= 2


def log_enclosure(ratio: Fraction, digits: int = 40) -> tuple[Fraction, Fraction]:
    """Rationals (low, high) with low ≤ ln(ratio) ≤ high, for a ratio above 0.

    >>> low, high = log_enclosure(Fraction(2), 20)
    >>> float(low) <= math.log(2) <= float(high)
    True
    """
    if ratio == 1:
        return Fraction(0), Fraction(0)
    context = Context(prec=digits)
    # Near 1 the logarithm is about ratio - 1, so the quotient needs as many digits more as ratio - 1 has zeros.
    # A bit is less than 0.302 digits; the digits themselves cannot be counted by text beyond 4,300.
    extra = digits + 6 + 302 * max(ratio.denominator, ratio.numerator).bit_length() // 1000
    below = _divide(ratio, extra, ROUND_FLOOR)
    above = _divide(ratio, extra, ROUND_CEILING)
    return Fraction(context.next_minus(context.ln(below))), Fraction(context.next_plus(context.ln(above)))


def log_above(ratio: Fraction) -> float:
    """The smallest convenient float that is not below ln(ratio): what a printed privacy level may claim.

    >>> log_above(Fraction(1)), log_above(Fraction(2)) >= math.log(2)
    (0.0, True)
    """
    return float_above(log_enclosure(ratio, 25)[1])


def float_above(number: Fraction) -> float:
    """A float that is not below `number`.

    >>> Fraction(float_above(Fraction(1, 3))) >= Fraction(1, 3)
    True
    """
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def exact_ratio(text: str) -> Fraction:
    """A rational as contracts write it, integer or integer/integer. An exponent would ask for a number of any size.

    >>> exact_ratio("-3/4")
    Fraction(-3, 4)
    """
    if not re.fullmatch(r"-?[0-9]{1,1000}(/0*[1-9][0-9]{0,999})?", text):
        raise ValueError("The rationals of a plan must be written as integer or integer/integer, in strings.")
    return Fraction(text)


def exact_integers(texts: Sequence[str]) -> list[int]:
    """Integers as contracts write them: digits in strings, and nothing else that Python would read.

    >>> exact_integers(["12", "-3"])
    [12, -3]
    """
    if not isinstance(texts, list) or not all(re.fullmatch(r"-?[0-9]{1,1000}", text) for text in texts):
        raise ValueError("The integers of a plan must be lists of strings of up to 1000 digits.")
    return [int(text) for text in texts]


def _divide(number: Fraction, digits: int, rounding: str) -> Decimal:
    context = Context(prec=digits, rounding=rounding)
    return context.divide(Decimal(number.numerator), Decimal(number.denominator))
