"""The compiled loops of the mechanisms. Importing this module imports numba, so it is imported where it is used.

Compiled code is cached beside this file, so only the first call after an installation waits for the compiler. A loop
runs on one core and lets go of the interpreter; `in_threads` puts several to work.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import numba
import numpy as np

from tacit.mechanism.protocol import RandomWords

_ZERO, _ONE, _LOW, _HALF = np.uint64(0), np.uint64(1), np.uint64(2**32 - 1), np.uint64(32)
#: Fewer steps of a loop than this are not worth another thread.
_STEPS_PER_THREAD = 2**16
#: Reports drawn per call of a loop: few enough that their words stay in the cache of the core that made them.
_CHUNK = 2**16


def in_threads(rows: int, work: Callable[[int, slice], None], steps: int = 1) -> None:
    """Call work(k, rows of part k) for parts of `rows` rows that take `steps` each, at most one part for each core.

    This thread takes the first part. The others end with the call, unlike those of OpenMP and of pools: a process that
    forks afterwards, as multiprocessing, Dask and gunicorn do, has none that its child would wait for in vain.

    >>> done = np.zeros(200_000, dtype=bool)
    >>> in_threads(len(done), lambda k, part: done.__setitem__(part, True))
    >>> bool(done.all())
    True
    """
    count = n_threads(rows, steps)
    failures: list[BaseException] = []

    def attempt(k: int) -> None:
        try:
            work(k, slice(k * rows // count, (k + 1) * rows // count))
        except BaseException as failure:
            failures.append(failure)

    others = [Thread(target=attempt, args=(k,)) for k in range(1, count)]
    for thread in others:
        thread.start()
    attempt(0)
    for thread in others:
        thread.join()
    if failures:
        raise failures[0]


def in_chunks(rows: int, words: RandomWords, draw: Callable[[slice], None], steps: int = 1) -> None:
    """Call draw(chunk) for chunks of `rows` rows that take `steps` each: in threads where each has a stream of its own;
    one stream's words are taken in the order of the rows, whatever the number of cores.
    """

    def work(_: int, part: slice) -> None:
        for start in range(part.start, part.stop, _CHUNK):
            draw(slice(start, min(start + _CHUNK, part.stop)))

    if getattr(words, "per_thread", False):
        in_threads(rows, work, steps)
    else:
        work(0, slice(0, rows))


def n_threads(rows: int, steps: int = 1) -> int:
    """How many parts `in_threads` makes."""
    cores: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    return max(1, min(cores, rows, rows * steps // _STEPS_PER_THREAD))


@numba.njit(inline="always", cache=True)
def _report(x: Any, word: Any, last: Any, guide: Any, shift: Any) -> Any:
    """The table's rule. Which memory is read depends on the answer; branches barely do.

    The first step is taken without a branch: words are random, so it would be mispredicted. A second one is rare.
    """
    y = np.uint64(guide[x, np.uint64(word >> shift)])
    y += np.uint64(word > last[x, y])
    while word > last[x, y]:
        y += _ONE
    return y


@numba.njit(nogil=True, cache=True)
def table(rows: Any, words: Any, last: Any, guide: Any, shift: Any, reports: Any) -> None:
    """The table's rule for arrays of whole words."""
    for i in range(len(rows)):
        reports[i] = _report(np.uint64(rows[i]), words[i], last, guide, shift)


@numba.njit(nogil=True, cache=True)
def table_beginnings(rows: Any, begun: Any, unread: Any, decided: Any, nothing: Any, reports: Any) -> Any:
    """The reports that beginnings of words decide, and where they decide `nothing`. Without branches."""
    left_open, n = np.empty(len(rows) + 1, np.uint32), _ZERO
    for i in range(len(rows)):
        y = decided[np.uint64(rows[i]), np.uint64(begun[i] >> unread)]
        reports[i] = y
        left_open[n] = i
        n += np.uint64(y == nothing)
    return left_open[:n]


@numba.njit(nogil=True, cache=True)
def table_rest(
    left_open: Any, rows: Any, begun: Any, rest: Any, bits: int, last: Any, guide: Any, shift: Any, reports: Any
) -> Any:
    """The table's rule where it was left open: a word is the `bits` bits that have begun, then the first of `rest`.

    Returns which of these words are the last of their reports.
    """
    kind, at_end, n = rest.dtype.type, np.empty(len(left_open) + 1, np.uint32), _ZERO
    for j in range(len(left_open)):
        i = left_open[j]
        x = np.uint64(rows[i])
        word = kind(kind(begun[i]) << kind(8 * rest.itemsize - bits)) | kind(rest[j] >> kind(bits))
        y = _report(x, word, last, guide, shift)
        reports[i] = y
        at_end[n] = j
        n += np.uint64(word == last[x, y])
    return at_end[:n]


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


@numba.njit(inline="always", cache=True)
def part_of(word: Any, size: Any, fine: Any, coarse: Any, below: Any) -> Any:
    """⌊word·size/2^W⌋ in two halves of the word, so that no product leaves 64 bits."""
    return ((word >> fine) * size + (((word & below) * size) >> fine)) >> coarse


@numba.njit(inline="always", cache=True)
def units_of(covered: Any, size: Any, units: Any) -> Any:
    """covered/size of the units of a piece or a line, rounded to the nearest."""
    return (2 * np.int64(covered) * units + np.int64(size)) // (2 * np.int64(size))
