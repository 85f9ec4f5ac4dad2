"""The compiled loops of the mechanisms. Importing this module imports numba, so it is imported where it is used.

Compiled code is cached beside this file, so only the first call after an installation waits for the compiler.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

_ZERO, _ONE, _LOW, _HALF = np.uint64(0), np.uint64(1), np.uint64(2**32 - 1), np.uint64(32)


@numba.njit(parallel=True, nogil=True, cache=True)
def table(rows: Any, words: Any, last: Any, guide: Any, shift: Any, reports: Any) -> None:
    """The table's rule for arrays. Which memory is read depends on the answer; its branches barely do."""
    for i in numba.prange(len(rows)):
        x, word = rows[i], words[i]
        y = guide[x, word >> shift]
        while word > last[x, y]:
            y += 1
        reports[i] = y


@numba.njit(parallel=True, nogil=True, cache=True)
def core_tail(
    values: Any, words: Any, edges: Any, last_base: Any, step: Any, segments: Any, row_of: Any, cells: Any,
    tail_row: Any, reports: Any,
) -> None:  # fmt: skip
    """`CoreTailRule.sample_one` for arrays, without branches on the value or on its words.

    Everything is computed and then chosen: words are random, so branches on them would be mispredicted.
    """
    for i in numba.prange(len(values)):
        x = values[i]
        row = row_of[x]
        state, left = 0, edges.shape[1]
        while left > 1:
            half = left // 2
            state += half * (edges[row, state + half - 1] <= words[i, 0])
            left -= half
        if left:
            state += edges[row, state] <= words[i, 0]
        on_value = (row == tail_row) & (words[i, 1] > last_base[state])
        reach = words[i, 1] - last_base[state] - _ONE if on_value else _ZERO
        cell = np.uint64(segments[x, 0]) + _scaled(words[i, 2], np.uint64(segments[x, 1]) + _ONE)
        around = cell + cells - _divided(reach, step[state])
        around -= cells if around >= cells else _ZERO
        position = around if on_value else _scaled(words[i, 2], cells)
        reports[i] = (state << 32) | np.int64(position)


@numba.njit(inline="always", cache=True)
def _scaled(word: Any, length: Any) -> Any:
    """⌊word · length / 2^64⌋ for a length of at most 2^32."""
    return ((word >> _HALF) * length + (((word & _LOW) * length) >> _HALF)) >> _HALF


@numba.njit(inline="always", cache=True)
def _divided(number: Any, step: Any) -> Any:
    """⌊number / step⌋, at most 2^32: a float guess, off by at most one, made exact; integers divide slowly."""
    quotient = np.uint64(np.float64(number) / np.float64(step))
    quotient -= np.uint64(quotient * step > number)
    return quotient + np.uint64(number - quotient * step >= step)
