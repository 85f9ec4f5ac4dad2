"""The compiled loops of tables. Importing this module imports numba."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

_ZERO, _ONE = np.uint64(0), np.uint64(1)


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
