"""Uniformly random permutations, exact. Importing this module imports numba, so it is imported where it is used."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from tacit.mechanism.protocol import RandomWords

#: Words drawn at once. Each step takes one, or several where words are rejected.
_WORDS = 2**16


def permutation(count: int, words: RandomWords) -> NDArray[np.int32]:
    """A permutation of 0, …, count − 1, each with probability 1/count!, exactly: Fisher and Yates, from the last down.

    A number below m comes from a word u of 32 bits as ⌊u·m / 2³²⌋. The words with u·m mod 2³² < 2³² mod m are rejected,
    so that each number has equally many left (Lemire 2019).

    >>> from tacit.randomize import SeededWords
    >>> sorted(permutation(5, SeededWords(1)).tolist())
    [0, 1, 2, 3, 4]
    """
    order = np.arange(count, dtype=np.int32)
    left = count
    while left > 1:
        left = _swap(order, left, words.draw(min(left, _WORDS), 32).astype(np.uint64))
    return order


@numba.njit(cache=True, nogil=True)
def _swap(order: Any, left: Any, words: Any) -> Any:
    """Fix the places below `left` from the last down, as far as the words reach; how many are left."""
    for word in words:
        if left < 2:
            break
        size = np.uint64(left)
        product = word * size
        if (product & np.uint64(2**32 - 1)) < np.uint64(2**32) % size:
            continue
        chosen = np.int64(product >> np.uint64(32))
        left -= 1
        order[left], order[chosen] = order[chosen], order[left]
    return left
