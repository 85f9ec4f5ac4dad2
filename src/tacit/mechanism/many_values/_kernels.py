"""The compiled loops of `many-values` beside those of its circle. Importing this module imports numba."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


@numba.njit(nogil=True, cache=True)
def name_giants(
    values: Any, words: Any, places: Any, edges: Any, guide: Any, base: Any, seed_half: int, name_bits: int,
    arcs_for_all: Any, arcs_for_giants: Any, states: Any, on_circle: Any, for_circle: Any,
) -> None:  # fmt: skip
    """`ManyValuesRule.draw` up to the circle: the state of each report, and what the circle is asked to draw.

    `states` gets the giant that is named, less the number of giants before it where there is no arc: −1−name.
    """
    half, v = np.uint64(seed_half), np.uint64(name_bits)
    low, low_half = (np.uint64(1) << v) - np.uint64(1), (np.uint64(1) << half) - np.uint64(1)
    shift, last = np.uint64(max(name_bits - 8, 0)), words.shape[1] - 1
    for i in range(len(values)):
        place = places[values[i]]
        gamma, eta = (words[i, last] >> v) & low, words[i, last] & low
        name = np.int64(guide[gamma >> shift])
        while edges[name + 1] <= gamma:
            name += 1
        ignored = (words[i, 0] >> half) < base
        giant = place < 0
        mine = giant and not ignored
        name = -place - 1 if mine else name
        arcs = arcs_for_giants if mine else arcs_for_all
        arc = eta < arcs or (not giant and not ignored)
        states[i] = name if arc else -1 - name
        on_circle[i] = 0 if giant else place
        for_circle[i, 0] = words[i, 0] & low_half if giant else words[i, 0]
        for_circle[i, 1:] = words[i, 1:last]


@numba.njit(nogil=True, cache=True)
def put_together(states: Any, drawn: Any, with_arc: int, size: int) -> Any:
    """The reports: without an arc nothing is left of the circle."""
    reports = np.empty(len(states), np.int64)
    for i in range(len(states)):
        reports[i] = states[i] * size + drawn[i] if states[i] >= 0 else with_arc - 1 - states[i]
    return reports
