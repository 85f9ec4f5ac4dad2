"""From a matrix of floats, fractions or integers to rows of integers with one sum."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from tacit.exact import BigIntegers
from tacit.prior import Prior

#: Rows are held as integers with this sum before they are rounded to words.
SCALE_BITS = 320
SCALE = 2**SCALE_BITS


def common_rows(prior: Prior, matrix: Any) -> BigIntegers:
    """Rows as integers that sum to about 2^320, the marginal for values outside the support that have no row."""
    rows = list(matrix)
    if len(rows) not in (len(prior), len(prior.support)):
        raise ValueError(f"The matrix needs one row for each of the prior's {len(prior)} values. Got {len(rows)}.")
    if len({len(row) for row in rows}) != 1:
        raise ValueError("The rows of the matrix must have the same length.")
    scaled: BigIntegers = np.array([_integers(row, x) for x, row in enumerate(rows)], dtype=object)
    scaled = scaled * SCALE // scaled.sum(axis=1)[:, None]
    scaled = scaled[:, scaled.sum(axis=0) > 0]
    if len(rows) == len(prior):
        return scaled
    support = list(prior.support)
    filled = np.empty((len(prior), scaled.shape[1]), dtype=object)
    filled[:] = np.array([prior.weights[x] for x in support], dtype=object) @ scaled // prior.total
    filled[support] = scaled
    return filled


def _integers(row: Any, x: int) -> list[int]:
    """One row's cells, exactly, over some denominator of their own."""
    try:
        ratios = [(cell if isinstance(cell, Fraction | int) else float(cell)).as_integer_ratio() for cell in row]
    except (ValueError, OverflowError, TypeError) as error:
        raise ValueError(f"The matrix must hold finite numbers. Row {x} does not ({error}).") from None
    for y, (numerator, denominator) in enumerate(ratios):
        if numerator < 0:
            raise ValueError(f"The matrix must not be negative. Row {x}, output {y} is {numerator / denominator:g}.")
    if not any(numerator for numerator, _ in ratios):
        raise ValueError(f"Each row of the matrix needs a positive sum. Row {x} is zero.")
    scale = math.lcm(*{denominator for _, denominator in ratios})
    return [numerator * (scale // denominator) for numerator, denominator in ratios]


def to_words(rows: BigIntegers, bits: int) -> BigIntegers:
    """Each row rounded to integers that sum to 2^bits, by largest remainder, ties to the first output.

    >>> to_words(np.array([[1, 1, 1]], dtype=object), 4).tolist()
    [[6, 5, 5]]
    """
    sums = rows.sum(axis=1)
    scaled = rows << bits
    words: BigIntegers = scaled // sums[:, None]
    remainders = scaled - words * sums[:, None]
    for x, missing in enumerate(2**bits - words.sum(axis=1)):
        if missing:
            largest = np.argsort(-remainders[x], kind="stable")[:missing]
            words[x, largest] += 1
    return words
