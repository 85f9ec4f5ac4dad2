"""The compiled loops of the mechanisms. Importing this module imports numba, so it is imported where it is used.

Compiled code is cached beside this file, so only the first call after an installation waits for the compiler. A loop
runs on one core and lets go of the interpreter; `in_threads` puts several to work.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np

_ZERO, _ONE, _LOW, _HALF = np.uint64(0), np.uint64(1), np.uint64(2**32 - 1), np.uint64(32)
#: Fewer steps of a loop than this are not worth another thread.
_STEPS_PER_THREAD = 2**15


def in_threads(rows: int, work: Callable[[int, slice], None], steps: int = 1) -> None:
    """Call work(k, rows of part k) for parts of `rows` rows that take `steps` each, at most one part for each core.

    The threads end with the call, unlike those of OpenMP and of pools: a process that forks afterwards, as
    multiprocessing, Dask and gunicorn do, has none that its child would wait for in vain.

    >>> done = np.zeros(100_000, dtype=bool)
    >>> in_threads(len(done), lambda k, part: done.__setitem__(part, True))
    >>> bool(done.all())
    True
    """
    count = n_threads(rows, steps)
    parts = [slice(k * rows // count, (k + 1) * rows // count) for k in range(count)]
    if count == 1:
        work(0, parts[0])
        return
    with ThreadPoolExecutor(count) as threads:
        list(threads.map(work, range(count), parts))


def n_threads(rows: int, steps: int = 1) -> int:
    """How many parts `in_threads` makes."""
    cores: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    return max(1, min(cores, rows, rows * steps // _STEPS_PER_THREAD))


@numba.njit(nogil=True, cache=True)
def table(rows: Any, words: Any, last: Any, guide: Any, shift: Any, reports: Any) -> None:
    """The table's rule for arrays. Which memory is read depends on the answer; its branches barely do.

    The first step is taken without a branch: words are random, so it would be mispredicted. A second one is rare.
    """
    for i in range(len(rows)):
        x, word = np.uint64(rows[i]), words[i]
        y = np.uint64(guide[x, np.uint64(word >> shift)])
        y += np.uint64(word > last[x, y])
        while word > last[x, y]:
            y += _ONE
        reports[i] = y


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


@numba.njit(inline="always", cache=True)
def divided(number: Any, step: Any) -> Any:
    """⌊number / step⌋, at most 2^32: a float guess, off by at most one, made exact; integers divide slowly."""
    quotient = np.uint64(np.float64(number) / np.float64(step))
    quotient -= np.uint64(quotient * step > number)
    return quotient + np.uint64(number - quotient * step >= step)
