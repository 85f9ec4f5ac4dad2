"""How far the truth can be from the frequencies of n records: rationals, rounded so that a bound stays a bound."""

from __future__ import annotations

import math
from fractions import Fraction

from tacit.exact import Number, log_enclosure, rational

#: Bounds are rounded outwards to this many significant digits: short enough for a contract that people read.
DIGITS = 3


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
