"""The compiled loops of the plane circle: places known in advance, drawing, adding up coverage, and its covariance.

Importing this module imports numba, so it is imported where it is used. Symbols as in `_plane`. Orders of
one *slope*, o mod (p+1), have the same lines, each in another slot: with ω = u_{p+2}, u_{n+p+1} = ω u_n. So a line has
a number, its slot under the first order of the slope. After the lines, if there are any, the pieces of their own are
numbered.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from tacit.exact import Integers
from tacit.mechanism.many_values._kernels import part_of, units_of
from tacit.mechanism.sampling import in_threads, n_threads

#: What adding up a report costs, in steps of a loop, and how many are sorted by their orders at once: 8 MiB.
_STEPS, _SORTED_AT_ONCE = 16, 2**20
#: Batch size for look-ups.
_READ_AT_ONCE = 256


class Places(NamedTuple):
    """The circle under every order.

    `ranks`: the place along the circle of the line in each slot, then of the pieces of their own, as drawing asks for
    them; `edges`: where the stretch at each place begins, with M after the last; `numbers`: which it is; `guide`: the
    place at which each of 2^g equal parts of the circle begins.
    """

    ranks: Any
    edges: Any
    numbers: Any
    guide: Any


def places_of(terms: Integers, orders: int, slots: int, piece_cells: Integers, own: Integers, cell_bits: int) -> Places:
    """All places; `own` are the pieces on stretches of their own, the others, if there are others, lie on lines."""
    n_lines = slots if len(own) < len(piece_cells) else 0
    size = n_lines + len(own)
    ranks, numbers = np.empty((2, orders, size), np.uint16)
    edges = np.empty((orders, size + 1), np.uint32)
    guide_bits = min(size.bit_length(), cell_bits)
    guide = np.empty((orders, 1 << guide_bits), np.uint16)
    alone = np.zeros(len(piece_cells), np.bool_)
    alone[own] = True
    back = pow(int(terms[slots + 2]), -1, slots)

    def work(_: int, part: slice) -> None:
        _lay_out(terms, part.start, part.stop, slots, back, n_lines, piece_cells, alone, own, ranks, edges, numbers)
        _guide(edges[part], cell_bits - guide_bits, guide[part])

    in_threads(orders, work, len(piece_cells) + 2 * size)
    return Places(ranks, edges, numbers, guide)


@numba.njit(nogil=True, cache=True)
def _lay_out(
    terms: Any, first: int, last: int, slots: int, back: int, n_lines: int, cells: Any, alone: Any, own: Any,
    ranks: Any, edges: Any, numbers: Any,
) -> None:  # fmt: skip
    """`PlaneCircle.layout` for the orders `first` to `last`."""
    lines, after = np.empty(slots, np.int64), np.empty(slots + 1, np.int64)
    at = np.empty(n_lines + len(own), np.int64)  # The stretch at each place, lines by their slots.
    for o in range(first, last):
        lines[:] = 0
        after[:] = 0
        for j in range(len(cells)):
            slot = terms[o + j]
            if alone[j]:
                after[slot + 1] += 1
            else:
                lines[slot] += cells[j]
        for slot in range(slots):  # A line, then the pieces of its slot.
            after[slot + 1] += after[slot] + (1 if n_lines else 0)
        for slot in range(n_lines):
            at[after[slot]] = slot
            after[slot] += 1
        for k in range(len(own)):
            slot = terms[o + own[k]]
            at[after[slot]] = n_lines + k
            after[slot] += 1
        factor, place = 1, 0
        for _ in range(o // (slots + 1)):
            factor = factor * back % slots
        for rank in range(len(at)):
            stretch = at[rank]
            line = stretch < n_lines
            size = lines[stretch] if line else cells[own[stretch - n_lines]]
            ranks[o, stretch] = rank
            edges[o, rank], numbers[o, rank] = place, stretch * factor % slots if line else stretch
            place += size
        edges[o, len(at)] = place


@numba.njit(nogil=True, cache=True)
def draw(
    values: Any, words: Any, terms: Any, ranks: Any, edges: Any, of_values: Any, of_pieces: Any, base: Any, step: Any,
    circle: Any, cell_bits: int, seed_bits: int, choice_bits: int, reports: Any,
) -> None:  # fmt: skip
    """`Circle.draw` for arrays. Everything is computed, then chosen: no branch on an answer or a word.

    `of_values` has n, or 0 if it is light, k and the first piece of every value; `of_pieces` the offset and the number
    of every piece. Of some reports at a time all ranks, then all edges are read at once: they are far away, and one
    read waits for as long as many do.
    """
    half, low, one = np.uint64(seed_bits // 2), np.uint64((1 << (seed_bits // 2)) - 1), np.uint64(1)
    fine, below = np.uint64(choice_bits // 2), np.uint64((1 << (choice_bits // 2)) - 1)
    coarse = np.uint64(choice_bits - choice_bits // 2)
    orders, per_order = np.uint64(ranks.shape[0]), np.uint64(ranks.shape[1])
    rank_at, edge_at = ranks.reshape(-1), edges.reshape(-1)
    drawn, cells = np.empty(_READ_AT_ONCE, np.uint64), np.empty(_READ_AT_ONCE, np.uint64)
    where, starts = np.empty(_READ_AT_ONCE, np.uint64), np.empty(_READ_AT_ONCE, np.uint64)
    sizes = np.empty(_READ_AT_ONCE, np.uint64)
    alone = np.empty(_READ_AT_ONCE, np.bool_)
    for start in range(0, len(values), _READ_AT_ONCE):
        some = min(_READ_AT_ONCE, len(values) - start)
        for j in range(some):
            x, i = values[start + j], start + j
            size, count, first = of_values[x, 0], of_values[x, 1], of_values[x, 2]
            seed = ((words[i, 0] & low) << half) | (words[i, 1] & low)
            order = (seed * orders) >> np.uint64(seed_bits)
            cell = part_of(words[i, 1] >> half, size, fine, coarse, below)
            piece = first + ((cell + one) * count - one) // max(size, one)
            alone[j] = size > 0
            stretch = of_pieces[piece, 1] if alone[j] else np.uint64(terms[order + first])
            drawn[j], cells[j], where[j] = order, cell - of_pieces[piece, 0], order * per_order + stretch
        for j in range(some):
            where[j] = drawn[j] * (per_order + one) + np.uint64(rank_at[where[j]])
        for j in range(some):
            starts[j] = edge_at[where[j]]
            sizes[j] = np.uint64(edge_at[where[j] + one]) - starts[j]
        for j in range(some):
            i = start + j
            alpha, beta = words[i, 0] >> half, words[i, 1] >> half
            on_line = part_of(beta, sizes[j], fine, coarse, below)
            cell = cells[j] if alone[j] else on_line
            ignored = alpha < base
            back = (np.uint64(0) if ignored else alpha - base) // step
            place = starts[j] + cell + (circle - back)
            place = place - (circle if place >= circle else np.uint64(0))
            position = part_of(beta, circle, fine, coarse, below) if ignored else place
            reports[i] = np.int64((drawn[j] << np.uint64(cell_bits)) | position)


@numba.njit(nogil=True, cache=True)
def _guide(edges: Any, shift: int, guide: Any) -> None:
    """The place of the first cell of every part of 2^shift cells; of a part beyond the circle, the last place."""
    last = edges.shape[1] - 2
    for order in range(len(edges)):
        rank = 0
        for part in range(guide.shape[1]):
            while rank < last and edges[order, rank + 1] <= part << shift:
                rank += 1
            guide[order, part] = rank


@numba.njit(inline="always", cache=True)
def _rank_at(edges: Any, guide: Any, shift: int, cell: Any) -> Any:
    """The place along the circle of the stretch on which a cell lies: the last that begins at it or before.

    The first step beyond the guide is taken without a branch, which would be mispredicted; a second one is rare.
    """
    rank = np.int64(guide[cell >> shift])
    rank += np.int64(edges[rank + 1] <= cell)
    while edges[rank + 1] <= cell:
        rank += 1
    return rank


@numba.njit(nogil=True, cache=True)
def _by_order(reports: Any, weights: Any, orders: int, cell_bits: int) -> Any:
    """The positions sorted by their orders, with their weights; first where each order's begin, and all end."""
    begins = np.zeros(orders + 1, np.int64)
    for i in range(len(reports)):
        begins[(reports[i] >> cell_bits) + 1] += 1
    for order in range(orders):
        begins[order + 1] += begins[order]
    every, free = len(weights) == 1, begins.copy()
    positions, sorted_weights = np.empty(len(reports), np.uint32), np.empty(1 if every else len(reports), np.int64)
    last_cell = (1 << cell_bits) - 1
    sorted_weights[0] = weights[0]
    for i in range(len(reports)):
        order = reports[i] >> cell_bits
        positions[free[order]] = reports[i] & last_cell
        if not every:
            sorted_weights[free[order]] = weights[i]
        free[order] += 1
    return begins, positions, sorted_weights


@numba.njit(nogil=True, cache=True)
def _cover(
    positions: Any, weights: Any, edges: Any, numbers: Any, guide: Any, shift: int, units: Any, arc: int, circle: int,
    change: Any, covered: Any,
) -> None:  # fmt: skip
    """Add to `covered` what reports of one order cover of every stretch, in its `units`.

    With a the stretch in which an arc begins and b the one in which it ends, those between them are covered whole:
    `change` has where that begins and ends, along the circle; it is zero before and after.
    """
    every, size = len(weights) == 1, len(edges) - 1
    for i in range(len(positions)):
        weight, begin = weights[0 if every else i], np.int64(positions[i])
        end = begin + arc
        end -= circle if end >= circle else 0
        a, b = _rank_at(edges, guide, shift, begin), _rank_at(edges, guide, shift, end)
        from_a, from_b = np.int64(edges[a]), np.int64(edges[b])
        in_a, in_b = np.int64(edges[a + 1]) - from_a, np.int64(edges[b + 1]) - from_b
        mine, theirs = numbers[a], numbers[b]
        inside = a == b and begin < end
        if inside:
            covered[mine] += weight * units_of(arc, in_a, units[mine])
        elif a == b:  # It leaves out a part of one stretch only.
            covered[mine] += weight * units_of(in_a - (begin - end), in_a, units[mine])
        else:
            covered[mine] += weight * units_of(in_a - (begin - from_a), in_a, units[mine])
            covered[theirs] += weight * units_of(end - from_b, in_b, units[theirs])
        if not inside:
            change[a + 1] += weight
            change[b] -= weight
            change[0] += weight if b <= a else 0
    times = 0
    for rank in range(size):
        times += change[rank]
        covered[numbers[rank]] += times * units[numbers[rank]]
    change[:] = 0


@numba.njit(nogil=True, cache=True)
def _fold(
    reports: Any, weights: Any, edges: Any, numbers: Any, guide: Any, units: Any, arc: int, circle: int,
    cell_bits: int, covered: Any,
) -> None:  # fmt: skip
    """Add up what reports cover of every stretch, a row of `covered` for each slope."""
    begins, positions, weights = _by_order(reports, weights, len(edges), cell_bits)
    every, change, shift = len(weights) == 1, np.zeros(edges.shape[1], np.int64), _shift(guide, cell_bits)
    for order in range(len(edges)):
        first, last = begins[order], begins[order + 1]
        if first < last:
            _cover(
                positions[first:last], weights if every else weights[first:last], edges[order], numbers[order],
                guide[order], shift, units, arc, circle, change, covered[order % len(covered)],
            )  # fmt: skip


@numba.njit(inline="always", cache=True)
def _shift(guide: Any, cell_bits: int) -> Any:
    """How many bits of a cell are not read in the guide."""
    shift = cell_bits
    while guide.shape[1] << shift > 1 << cell_bits:
        shift -= 1
    return shift


def fold_reports(
    reports: Any, weights: Any, places: Places, slots: int, units: Any, arc: int, circle: int, cell_bits: int
) -> Any:
    """Σ weight·coverage of every stretch in its `units`, a row for each slope; without `weights` each counts once."""
    covered = np.zeros((n_threads(len(reports), _STEPS), slots + 1, len(units)), np.int64)

    def work(k: int, part: slice) -> None:
        for start in range(part.start, part.stop, _SORTED_AT_ONCE):
            few = slice(start, min(start + _SORTED_AT_ONCE, part.stop))
            times = np.ones(1, np.int64) if weights is None else weights[few]
            _fold(reports[few], times, *places[1:], units, arc, circle, cell_bits, covered[k])

    in_threads(len(reports), work, _STEPS)
    return covered.sum(axis=0)


@numba.njit(nogil=True, cache=True)
def _cover_each(
    reports: Any, edges: Any, numbers: Any, guide: Any, units: Any, arc: int, circle: int, cell_bits: int, covered: Any
) -> None:
    once, change, shift = np.ones(1, np.int64), np.zeros(edges.shape[1], np.int64), _shift(guide, cell_bits)
    positions = reports & ((1 << cell_bits) - 1)
    for i in range(len(reports)):
        order = reports[i] >> cell_bits
        _cover(
            positions[i : i + 1], once, edges[order], numbers[order], guide[order], shift, units, arc, circle, change,
            covered[i],
        )  # fmt: skip


def cover_reports(reports: Any, places: Places, units: Any, arc: int, circle: int, cell_bits: int) -> Any:
    """What each report covers of every stretch, in its `units`: a row for each report."""
    covered = np.zeros((len(reports), len(units)), np.int64)
    _cover_each(reports, *places[1:], units, arc, circle, cell_bits, covered)
    return covered


@numba.njit(inline="always", cache=True)
def _shared(ahead: Any, one: Any, other: Any) -> Any:
    """The mean of (ahead − Z)+, Z the sum of two independent centered uniform steps on `one` and `other` cells.

    With n₁ ≥ n₂ the two lengths and r = (n₁+n₂)/2 − |ahead| it is the positive part of `ahead` where r ≤ 0; that plus
    (r³ − r)/6n₁n₂ where r ≤ n₂; and ((n₁/2 + ahead)² + n₂²/12 − 1/3)/2n₁ beyond.
    """
    long, short = max(one, other), min(one, other)
    rest = (one + other) / 2 - abs(ahead)
    if rest <= 0:
        return max(ahead, 0.0)
    if rest <= short:
        return max(ahead, 0.0) + (rest * rest * rest - rest) / (6 * long * short)
    return ((long / 2 + ahead) ** 2 + short * short / 12 - 1 / 3) / (2 * long)


@numba.njit(nogil=True, cache=True)
def _cover_together(slope: int, edges: Any, numbers: Any, slots: int, arc: int, sums: Any) -> None:
    """Σ over the orders of a slope of the mean arcs that cover a cell of one stretch and of another.

    From every stretch onwards, added to its row: an arc covers two cells at distance Δ in its direction L − Δ times.
    """
    size = edges.shape[1] - 1
    lengths, which = np.empty(2 * size), np.empty(2 * size, np.int64)
    for order in range(slope, len(edges), slots + 1):
        there = 0  # Stretches of no cells are left out, and the others go round twice.
        for k in range(size):
            if edges[order, k + 1] > edges[order, k]:
                lengths[there], which[there] = edges[order, k + 1] - edges[order, k], numbers[order, k]
                there += 1
        for k in range(there):
            lengths[there + k], which[there + k] = lengths[k], which[k]
        for i in range(there):
            here, row, middle, k = lengths[i], sums[which[i]], arc - lengths[i] / 2, i + 1
            gap = 0.0  # The cells between the two.
            while k < i + there and gap + here + lengths[k] <= arc:  # All of both may be covered.
                row[which[k]] += middle - gap - lengths[k] / 2
                gap += lengths[k]
                k += 1
            while k < i + there and gap < arc:
                row[which[k]] += _shared(middle - gap - lengths[k] / 2, here, lengths[k])
                gap += lengths[k]
                k += 1


def cover_together(places: Places, slots: int, n_lines: int, arc: int) -> Any:
    """The mean number of arcs that cover a cell of one stretch and one of another, each uniform: by slope between lines
    and from lines to the pieces of their own; between these in all. Not of a stretch and itself.
    """
    orders, size = places.numbers.shape
    own, turns = size - n_lines, orders // (slots + 1)
    line_line, line_own = np.zeros((slots + 1, n_lines, n_lines)), np.zeros((slots + 1, n_lines, own))
    own_own = np.zeros((n_threads(slots + 1, orders * size), own, own))

    def work(thread: int, part: slice) -> None:
        for slope in range(part.start, part.stop):
            sums = np.zeros((size, size))
            _cover_together(slope, places.edges, places.numbers, slots, arc, sums)
            sums = (sums + sums.T) / turns
            line_line[slope], line_own[slope] = sums[:n_lines, :n_lines], sums[:n_lines, n_lines:]
            own_own[thread] += sums[n_lines:, n_lines:]

    in_threads(slots + 1, work, orders * size)
    return line_line, line_own, own_own.sum(axis=0) / (slots + 1)


@numba.njit(nogil=True, cache=True)
def _add_across(lines: Any, seen: Any, sums: Any) -> None:
    """The sum over slopes of what the line of every light value has."""
    for slope in range(len(lines)):
        for x in range(len(sums)):
            sums[x] += seen[slope, lines[slope, x]]


def sums_across(lines: Any, seen: Any) -> Any:
    """The sum over slopes of what the line of every light value has, on all cores.

    Every sum is one core's, so that it does not depend on how many there are.
    """
    sums = np.zeros(lines.shape[1], seen.dtype)
    in_threads(len(sums), lambda _, part: _add_across(lines[:, part], seen, sums[part]), len(lines))
    return sums


def between_light_values(line_line: Any, lines: Any) -> Any:
    """The mean over slopes of what the lines of two values have between them."""
    size = lines.shape[1]
    means = np.zeros((size, size))

    def work(_: int, part: slice) -> None:
        _write_out(line_line, lines, part.start, part.stop, means)

    in_threads(size, work, len(lines) * size)
    return means / len(lines)


@numba.njit(nogil=True, cache=True)
def _write_out(line_line: Any, lines: Any, first: int, last: int, sums: Any) -> None:
    """The sums over slopes, of the values `first` to `last`."""
    for x in range(first, last):
        for slope in range(len(lines)):
            of_line = line_line[slope, lines[slope, x]]
            for other in range(lines.shape[1]):
                sums[x, other] += of_line[lines[slope, other]]


@numba.njit(nogil=True, cache=True)
def line_sums(lines: Any, numbers: Any, size: int) -> Any:
    """The sum of `numbers`, a column for each right side, over every line: slopes × lines × right sides."""
    sums = np.zeros((len(lines), size, numbers.shape[1]))
    for slope in range(len(lines)):
        for x in range(len(numbers)):
            line = lines[slope, x]
            for each in range(numbers.shape[1]):
                sums[slope, line, each] += numbers[x, each]
    return sums


@numba.njit(nogil=True, cache=True)
def line_means(lines: Any, seen: Any) -> Any:
    """For every light value the mean over slopes of what its line has, a column for each right side."""
    means = np.zeros((lines.shape[1], seen.shape[2]))
    for slope in range(len(lines)):
        for x in range(len(means)):
            line = lines[slope, x]
            for each in range(seen.shape[2]):
                means[x, each] += seen[slope, line, each]
    return means / len(lines)
