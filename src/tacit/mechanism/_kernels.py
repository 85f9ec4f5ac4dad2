"""Arithmetic that compiled loops share. Importing this module imports numba, so it is imported where it is used.

Compiled code is cached beside its file, so only the first call after an installation waits for the compiler. A loop
runs on one core and lets go of the interpreter; `sampling.in_threads` puts several to work.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


@numba.njit(inline="always", cache=True)
def divided(number: Any, step: Any) -> Any:
    """⌊number / step⌋, at most 2^32: a float guess, off by at most one, made exact; integers divide slowly."""
    quotient = np.uint64(np.float64(number) / np.float64(step))
    quotient -= np.uint64(quotient * step > number)
    return quotient + np.uint64(number - quotient * step >= step)


@numba.njit(inline="always", cache=True)
def part_of(word: Any, size: Any, fine: Any, coarse: Any, below: Any) -> Any:
    """⌊word·size/2^W⌋ in two halves of the word, so that no product leaves 64 bits."""
    return ((word >> fine) * size + (((word & below) * size) >> fine)) >> coarse


@numba.njit(inline="always", cache=True)
def units_of(covered: Any, size: Any, units: Any) -> Any:
    """covered/size of the units of a piece or a line, rounded to the nearest."""
    return (2 * np.int64(covered) * units + np.int64(size)) // (2 * np.int64(size))
