"""The compiled loops of shuffled circles, and of what `many-values` does beside its circle.

A report of a shuffled circle is drawn and added up in O(d). Importing this module imports numba, so it is imported
where it is used. Symbols as in `_shuffled` and `_rule`.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from tacit.mechanism.sampling import in_threads, n_threads

#: Pieces are looked through in runs of this many for those near an end of the arc.
_RUN = 64
#: Many pieces are looked at in blocks of this many, for this many reports.
_BLOCK, _TOGETHER = 2**12, 16

_U32 = np.uint32


@numba.njit(inline="always", cache=True)
def part_of(word: Any, size: Any, fine: Any, coarse: Any, below: Any) -> Any:
    """⌊word·size/2^W⌋ in two halves of the word, so that no product leaves 64 bits."""
    return ((word >> fine) * size + (((word & below) * size) >> fine)) >> coarse


@numba.njit(inline="always", cache=True)
def units_of(covered: Any, size: Any, units: Any) -> Any:
    """covered/size of the units of a piece or a line, rounded to the nearest."""
    return (2 * np.int64(covered) * units + np.int64(size)) // (2 * np.int64(size))


@numba.njit(inline="always", cache=True)
def _mix(number: Any) -> Any:
    h = _U32(number)
    h = _U32(_U32(h ^ (h >> _U32(16))) * _U32(0x7FEB352D))
    h = _U32(_U32(h ^ (h >> _U32(15))) * _U32(0x846CA68B))
    return _U32(h ^ (h >> _U32(16)))


@numba.njit(inline="always", cache=True)
def _key(value: Any, multiplier: Any, offset: Any) -> Any:
    h = _U32(_U32(multiplier * _U32(value)) + offset)
    return _U32(_U32(h ^ (h >> _U32(15))) * _U32(0x846CA68B))


@numba.njit(inline="always", cache=True)
def _seed_numbers(seed: Any) -> Any:
    return _U32(_mix(_U32(seed) ^ _U32(0x9E3779B9)) | _U32(1)), _mix(_U32(_U32(seed) + _U32(0x51ED270B)))


@numba.njit(nogil=True, cache=True)
def draw(
    values: Any, words: Any, sizes: Any, counts: Any, first_pieces: Any, offsets: Any, cells: Any, base: Any, step: Any,
    circle: Any, cell_bits: int, seed_bits: int, choice_bits: int, reports: Any,
) -> None:  # fmt: skip
    """`Circle.draw` for arrays. Everything is computed, then chosen: no branch on an answer or a word.

    Of every value: `sizes` = n, `counts` = k, `first_pieces`; of every piece: `offsets`, `cells`.
    """
    half, low = np.uint64(seed_bits // 2), np.uint64((1 << (seed_bits // 2)) - 1)
    fine = np.uint64(choice_bits // 2)
    coarse, below = np.uint64(choice_bits - choice_bits // 2), np.uint64((1 << (choice_bits // 2)) - 1)
    for i in range(len(values)):
        x = values[i]
        alpha, beta = words[i, 0] >> half, words[i, 1] >> half
        seed = ((words[i, 0] & low) << half) | (words[i, 1] & low)
        multiplier, offset = _seed_numbers(seed)
        cell = part_of(beta, sizes[x], fine, coarse, below)
        piece = first_pieces[x] + np.int64(((cell + np.uint64(1)) * counts[x] - np.uint64(1)) // sizes[x])
        mine = _key(piece, multiplier, offset)
        start = _U32(0)
        for y in range(len(cells)):
            start = _U32(start + (cells[y] if _key(y, multiplier, offset) < mine else _U32(0)))
        ignored = alpha < base
        back = (np.uint64(0) if ignored else alpha - base) // step
        place = np.uint64(start) + cell - offsets[piece] + (circle - back)
        place = place - (circle if place >= circle else np.uint64(0))
        position = part_of(beta, circle, fine, coarse, below) if ignored else place
        reports[i] = np.int64((seed << np.uint64(cell_bits)) | position)


@numba.njit(nogil=True, cache=True)
def _keys(first: int, multiplier: Any, offset: Any, keys: Any) -> None:
    """The keys of some pieces from the `first` on."""
    offset = _U32(offset + multiplier * _U32(first))
    for y in range(len(keys)):
        keys[y] = _key(y, multiplier, offset)


@numba.njit(nogil=True, cache=True)
def fold(
    reports: Any, weights: Any, first: int, last: int, cells: Any, units: Any, arc: int, circle: int, cell_bits: int,
    whole: Any, parts: Any,
) -> None:  # fmt: skip
    """Add up what reports `first` to `last` cover of every piece: `whole` counts the times, `parts` the cut ones.

    `parts` are in `units`; `weights` has one entry for each report, or one for all.

    With a the piece in which the arc begins and b the one in which it ends, exactly the pieces between their keys are
    covered whole, going around: those with key − key_a − 1 < key_b − key_a − 1 (mod 2^32). Of many pieces a block is
    looked through for some reports at a time, so that it stays in the cache; keys are computed again for each look.
    """
    size, last_cell, some = len(cells), (1 << cell_bits) - 1, max(1, min(_TOGETHER, last - first))
    bits = 3  # About 8√size slots: as long to walk along them as to sort the pieces of two.
    while bits < 13 and size >> (2 * bits - 6):
        bits += 1
    numbers, bounds = np.empty((2, some, 2), np.uint32)
    masses, keys = np.empty((some, 1 << bits), np.uint32), np.empty(_BLOCK, np.uint32)
    near = np.empty(size + 1, np.int64)
    every, nothing = len(weights) == 1, weights[0] * 0
    for start in range(first, last, some):
        some = min(some, last - start)
        for k in range(some):
            numbers[k, 0], numbers[k, 1] = _seed_numbers(reports[start + k] >> cell_bits)
        masses[:] = 0
        for block in range(0, size, _BLOCK):
            few = cells[block : block + _BLOCK]
            for k in range(some):
                _add_masses(few, block, numbers[k, 0], numbers[k, 1], bits, keys[: len(few)], masses[k])
        for k in range(some):
            weight, multiplier, offset = weights[0 if every else start + k], numbers[k, 0], numbers[k, 1]
            begin = reports[start + k] & last_cell
            end = begin + arc
            end -= circle if end >= circle else 0
            slot_a, before_a = _slot(begin, masses[k])
            slot_b, before_b = _slot(end, masses[k])
            found = _gather(size, multiplier, offset, slot_a, slot_b, bits, keys, near)
            a, before_a = _walk(begin, before_a, slot_a, multiplier, offset, cells, bits, near[:found])
            b, before_b = _walk(end, before_b, slot_b, multiplier, offset, cells, bits, near[:found])
            key_a, key_b = _key(a, multiplier, offset), _key(b, multiplier, offset)
            bounds[k, 0], bounds[k, 1] = key_a + _U32(1), key_b - key_a - _U32(1)
            if a != b:
                parts[a] += weight * units_of(before_a + cells[a] - begin, cells[a], units[a])
                parts[b] += weight * units_of(end - before_b, cells[b], units[b])
            elif begin < end:  # The arc lies inside one piece.
                parts[a] += weight * units_of(arc, cells[a], units[a])
                bounds[k, 1] = 0
            else:  # It leaves out a part of one piece only.
                parts[a] += weight * units_of(cells[a] - (begin - end), cells[a], units[a])
        for block in range(0, size, _BLOCK):
            few = whole[block : block + _BLOCK]
            for k in range(some):
                weight, low, width = weights[0 if every else start + k], bounds[k, 0], bounds[k, 1]
                multiplier, offset = numbers[k, 0], _U32(numbers[k, 1] + numbers[k, 0] * _U32(block))
                for y in range(len(few)):
                    few[y] += weight if _U32(_key(y, multiplier, offset) - low) < width else nothing


@numba.njit(nogil=True, cache=True)
def _add_masses(cells: Any, first: int, multiplier: Any, offset: Any, bits: int, keys: Any, masses: Any) -> None:
    """Add the cells of some pieces from the `first` on to the slots of their leading key bits."""
    _keys(first, multiplier, offset, keys)
    for y in range(len(cells)):
        masses[keys[y] >> _U32(32 - bits)] += cells[y]


@numba.njit(nogil=True, cache=True)
def _slot(cell: Any, masses: Any) -> Any:
    """The slot of leading key bits in which a cell lies, and the cells before that slot."""
    slot, before = 0, 0
    while before + masses[slot] <= cell:
        before += masses[slot]
        slot += 1
    return slot, before


@numba.njit(nogil=True, cache=True)
def _gather(size: int, multiplier: Any, offset: Any, slot_a: int, slot_b: int, bits: int, keys: Any, near: Any) -> Any:
    """Put the pieces of two slots into `near`, in the order of their keys, and return how many they are.

    Of many pieces most runs have none, and finding that out is a loop without branches; `near` has room for one more.
    """
    found: Any = 0
    low_a, low_b, width = _U32(slot_a << (32 - bits)), _U32(slot_b << (32 - bits)), _U32(1 << (32 - bits))
    run = np.uint64(_RUN)
    for block in range(0, size, _BLOCK):
        some = np.uint64(min(_BLOCK, size - block))
        _keys(block, multiplier, offset, keys[:some])
        for start in range(np.uint64(0), some, run):
            least = _U32(0xFFFFFFFF)
            for j in range(run):  # Beyond the last piece are keys of others, which do no harm.
                least = min(least, min(_U32(keys[start + j] - low_a), _U32(keys[start + j] - low_b)))
            if least < width:
                for y in range(start, min(start + run, some)):
                    near[found] = block + np.int64(y)
                    found += np.int64(min(_U32(keys[y] - low_a), _U32(keys[y] - low_b)) < width)
    for last in range(1, found):
        y, place = near[last], last
        key = _key(y, multiplier, offset)
        while place and _key(near[place - 1], multiplier, offset) > key:
            near[place] = near[place - 1]
            place -= 1
        near[place] = y
    return found


@numba.njit(nogil=True, cache=True)
def _walk(cell: Any, before: Any, slot: int, multiplier: Any, offset: Any, cells: Any, bits: int, near: Any) -> Any:
    """The piece on which a cell lies, of those in `slot`, and the cells before that piece."""
    at = -1
    for place in range(len(near)):
        y = near[place]
        if _key(y, multiplier, offset) >> _U32(32 - bits) == slot:
            at = y
            if before + cells[y] > cell:
                break
            before += cells[y]
    return at, before


def fold_reports(reports: Any, weights: Any, cells: Any, units: Any, arc: int, circle: int, cell_bits: int) -> Any:
    """Σ weight·coverage for every piece, in its `units`; without `weights` each report counts once."""
    threads = n_threads(len(reports), len(cells))
    if weights is None:
        weights, whole = np.ones(1, np.uint32), np.zeros((threads, len(cells)), np.uint32)
        parts = np.zeros(whole.shape, np.int64)
    else:
        whole, parts = np.zeros((2, threads, len(cells)), weights.dtype)

    def work(k: int, part: slice) -> None:
        fold(reports, weights, part.start, part.stop, cells, units, arc, circle, cell_bits, whole[k], parts[k])

    in_threads(len(reports), work, len(cells))
    return whole.sum(axis=0).astype(parts.dtype) * units + parts.sum(axis=0)


@numba.njit(nogil=True, cache=True)
def draw_rows(
    values: Any, words: Any, places: Any, starts: Any, rows: Any, ends: Any, base: Any, seed_half: int, row_bits: int,
    of_rows: Any, on_circle: Any, for_circle: Any,
) -> None:  # fmt: skip
    """`ManyValuesRule.draw` up to the circle: the row of each report, and what the circle is asked to draw."""
    half, low = np.uint64(seed_half), (np.uint64(1) << np.uint64(row_bits)) - np.uint64(1)
    low_half, last = (np.uint64(1) << half) - np.uint64(1), words.shape[1] - 1
    for i in range(len(values)):
        place = places[values[i]]
        gamma, giant = words[i, last] & low, place < 0
        column = 0 if (words[i, 0] >> half) < base else 1 - place if giant else 1
        least, most = starts[column], starts[column + 1] - 1
        while least < most:  # The first row that ends beyond γ.
            middle = (least + most) // 2
            least, most = (least, middle) if gamma < ends[middle] else (middle + 1, most)
        of_rows[i] = rows[least]
        on_circle[i] = 0 if giant else place
        for_circle[i, 0] = words[i, 0] & low_half if giant else words[i, 0]
        for_circle[i, 1:] = words[i, 1:last]
