"""The compiled loops of block designs. Symbols as in `block_design`.

Importing this module imports numba, so it is imported where it is used.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from tacit.exact import Integers
from tacit.mechanism.sampling import in_threads, n_threads

#: Neighbouring values are looked at together, this many at a time, in one register.
_LANES = 32
_LOW, _HALF = np.uint64(2**32 - 1), np.uint64(32)


@numba.njit(inline="always", cache=True)
def divided(number: Any, step: Any) -> Any:
    """⌊number / step⌋, at most 2^32: a float guess, off by at most one, made exact; integers divide slowly."""
    quotient = np.uint64(np.float64(number) / np.float64(step))
    quotient -= np.uint64(quotient * step > number)
    return quotient + np.uint64(number - quotient * step >= step)


@numba.njit(inline="always", cache=True)
def _high(word: Any, size: Any) -> Any:
    """⌊word·size/2^64⌋."""
    w1, w0, s1, s0 = word >> _HALF, word & _LOW, size >> _HALF, size & _LOW
    middle = w1 * s0 + ((w0 * s0) >> _HALF)
    return w1 * s1 + (middle >> _HALF) + ((w0 * s1 + (middle & _LOW)) >> _HALF)


@numba.njit(nogil=True, cache=True)
def block_draw(
    values: Any, words: Any, differences: Any, base: Any, step: Any, circle: Any, n_reports: Any, reports: Any
) -> None:
    """`BlockDesign.draw` for words of 64 bits. All is computed, then chosen: no branch on an answer or a word.

    `differences` is D, or empty where D is an arc.
    """
    arc = len(differences) == 0
    for i in range(len(values)):
        uniform = _high(words[i, 1], n_reports)
        order = uniform // circle
        ignored = words[i, 0] < base
        nth = divided(np.uint64(0) if ignored else words[i, 0] - base, step)
        back = nth if arc else np.uint64(differences[nth])
        place = ((order + np.uint64(1)) * np.uint64(values[i])) % circle + circle - back
        place -= circle if place >= circle else np.uint64(0)
        reports[i] = np.int64(uniform if ignored else order * circle + place)


@numba.njit(nogil=True, cache=True)
def arc_covers(reports: Any, times: Any, circle: Any, arc: Any, sums: Any) -> None:
    """Add to `sums` how often each value is covered: a·x − y mod M < s. `times` has an entry for each, or one."""
    lanes, nothing = np.empty(_LANES, np.uint32), sums[0] * 0
    size, end = np.uint32(circle), np.uint32(arc)
    for i in range(len(reports)):
        weight = times[i if len(times) > 1 else 0]
        order, position = reports[i] // circle + 1, reports[i] % circle
        for j in range(_LANES):
            lanes[j] = (j * order + circle - position) % circle
        step = np.uint32((_LANES * order) % circle)
        for first in range(0, len(sums), _LANES):
            some = sums[first : first + _LANES]
            for j in range(_LANES):
                some[j] += weight if lanes[j] < end else nothing
                after = np.uint32(lanes[j] + step)
                lanes[j] = min(after, np.uint32(after - size))


def count_arcs(reports: Integers, times: Integers | None, size: int, circle: int, arc: int) -> Integers:
    """How many reports cover each of `size` values."""
    threads, padded = n_threads(len(reports), size), -(-size // _LANES) * _LANES
    each = np.ones(1, np.uint32) if times is None else np.ascontiguousarray(times, dtype=np.int64)
    sums = np.zeros((threads, padded), each.dtype)

    def work(k: int, part: slice) -> None:
        arc_covers(reports[part], each if times is None else each[part], circle, arc, sums[k])

    in_threads(len(reports), work, size)
    return sums.astype(np.int64).sum(axis=0)[:size]
