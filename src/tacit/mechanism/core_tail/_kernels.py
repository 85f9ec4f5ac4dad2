"""The compiled loop of core-tail mechanisms. Importing this module imports numba."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from tacit.mechanism._kernels import divided

_ZERO, _ONE, _LOW, _HALF = np.uint64(0), np.uint64(1), np.uint64(2**32 - 1), np.uint64(32)


@numba.njit(nogil=True, cache=True)
def core_tail(
    values: Any, words: Any, edges: Any, last_base: Any, step: Any, segments: Any, row_of: Any, cells: Any,
    tail_row: Any, reports: Any,
) -> None:  # fmt: skip
    """`CoreTailRule.sample_one` for arrays, without branches on the value or on its words.

    Everything is computed and then chosen: words are random, so branches on them would be mispredicted.
    """
    for i in range(len(values)):
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
        around = cell + cells - divided(reach, step[state])
        around -= cells if around >= cells else _ZERO
        position = around if on_value else _scaled(words[i, 2], cells)
        reports[i] = (state << 32) | np.int64(position)


@numba.njit(inline="always", cache=True)
def _scaled(word: Any, length: Any) -> Any:
    """⌊word · length / 2^64⌋ for a length of at most 2^32."""
    return ((word >> _HALF) * length + (((word & _LOW) * length) >> _HALF)) >> _HALF
