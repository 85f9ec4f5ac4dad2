"""The sums and means over lines of `plane_circle_loops` for many right sides at once, which stand beside each other.

What is read of a line's number, one look-up, then serves them all: some times as fast as one by one.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


@numba.njit(nogil=True, cache=True)
def line_sums_of_each(lines: Any, numbers: Any, size: int) -> Any:
    """The sum of `numbers`, a column for each right side, over every line: slopes × lines × right sides."""
    sums = np.zeros((len(lines), size, numbers.shape[1]))
    for slope in range(len(lines)):
        for x in range(len(numbers)):
            line = lines[slope, x]
            for each in range(numbers.shape[1]):
                sums[slope, line, each] += numbers[x, each]
    return sums


@numba.njit(nogil=True, cache=True)
def line_means_of_each(lines: Any, seen: Any) -> Any:
    """For every light value the mean over slopes of what its line has, a column for each right side."""
    means = np.zeros((lines.shape[1], seen.shape[2]))
    for slope in range(len(lines)):
        for x in range(len(means)):
            line = lines[slope, x]
            for each in range(seen.shape[2]):
                means[x, each] += seen[slope, line, each]
    return means / len(lines)
