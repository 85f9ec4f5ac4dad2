"""The orders of the mechanism `plane-circle`: values are points of a finite plane, and an order is a direction in it.

A recurrence u_{n+2} = c_0 u_n + c_1 u_{n+1} over the integers mod a prime p that meets all p² − 1 states but 0
(`singer`) numbers the points of the affine plane of p² points, its origin left out: u_{o+j} is the value at point j of
a linear function, and o runs through all such functions. Under the order o piece j stands in the slot

    u_{o+j},    o = 0, …, (p² − 1)/2 − 1.

(The other half of the functions are the negatives of these: the same orders, read backwards.) Of two points some
functions tell nothing, those for which they are on one line; the others put them at every distance equally often.
So the orders are few and yet balanced: if all stood alone in their slots, any two values would be covered together
equally often, as in all orders there are.

In the circle the slots follow each other, 0, …, p−1. In a slot lie first all *light* pieces that stand there, as one
stretch which they share, a *line*; then the others, in the order of their numbers, each on its own cells. Light are
the values of fewer than `light` cells, none if that is 0. Sharing costs about (length of a line)/3 of a variance
m(1−m), and makes a report as cheap as its lines are few: p of them stand for p² values, and their places under every
order are known in advance (`plane_circle_loops`). All else, and the proof of privacy: `circle_rule`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Integers
from tacit.mechanism.circle_rule import CircleRule, Stretch
from tacit.mechanism.singer import is_prime, meets_all_states, terms_of

#: So many slots a plane has at most, so many places of stretches are known in advance (64 MiB), and so many steps are
#: taken to find what reports determine: a second or two.
MOST_SLOTS, MOST_PLACES, MOST_WORK = 199, 1 << 22, 1 << 28


@dataclass(frozen=True, kw_only=True)
class PlaneCircleRule(CircleRule):
    """A plane circle; see `circle_rule` and the module's docstring.

    where: `slots` = p, (`first`, `second`) = (c_0, c_1).

    >>> from tacit.prior import Prior
    >>> rule = PlaneCircleRule(
    ...     prior=Prior.of([9, 1, 4, 2]), arc=4, step=9, cell_bits=4, seed_bits=4, word_bits=8,
    ...     slots=5, first=3, second=1, light=3,
    ... )
    >>> rule.pieces, rule.own.tolist(), [rule.slots_of(order).tolist() for order in (0, 1)]
    ((3, 1, 1, 1), [0, 1, 2, 4], [[0, 1, 1, 4, 2, 4], [1, 1, 4, 2, 4, 0]])
    >>> [rule.stretches(x, 0) for x in range(4)]
    [[(0, 3, 0), (3, 3, 3), (6, 3, 6)], [(13, 3, 0)], [(9, 4, 0)], [(13, 3, 0)]]
    """

    slots: int
    first: int
    second: int
    light: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        recurrence = (self.first, self.second)
        if not (2 < self.slots <= MOST_SLOTS and is_prime(self.slots)):
            raise ValueError(f"The 'slots' must be an odd prime of at most {MOST_SLOTS}. Got {self.slots} instead.")
        if max(recurrence) >= self.slots or not meets_all_states(self.slots, recurrence):
            raise ValueError("'first' and 'second' must be below 'slots', and their recurrence meet all states.")
        if not 0 <= self.light <= self.arc:
            raise ValueError(f"The cells of a 'light' value must be at most those of the arc. Got {self.light}.")
        if self.orders > 1 << self.seed_bits:
            raise ValueError(f"The 'seed_bits' must reach all {self.orders} orders. Got {self.seed_bits} instead.")
        places = self.orders * self.n_stretches
        if len(self.owners) >= self.slots**2 or places > MOST_PLACES or self.work > MOST_WORK:
            raise ValueError(f"A plane of {self.slots} slots does not hold {len(self.owners)} pieces.")

    # -- the plane -----------------------------------------------------------------------------------------------

    @property
    def orders(self) -> int:
        """A = (p² − 1)/2."""
        return (self.slots**2 - 1) // 2

    @cached_property
    def terms(self) -> Integers:
        """u_0, u_1, …, as many as orders and pieces ask for."""
        return terms_of(self.slots, (self.first, self.second), self.orders + len(self.owners))

    def slots_of(self, order: int) -> Integers:
        """The slot of every piece."""
        return self.terms[order : order + len(self.owners)]

    @cached_property
    def is_light(self) -> NDArray[np.bool_]:
        """Whether a value shares its stretch; then it is in one piece, as it is shorter than the arc."""
        light: NDArray[np.bool_] = self.cell_array < self.light
        return light

    @cached_property
    def own(self) -> Integers:
        """The pieces on stretches of their own."""
        return np.flatnonzero(~self.is_light[self.owners])

    @property
    def n_lines(self) -> int:
        """One for each slot, some of which may be empty; none if no value is light."""
        return self.slots if self.is_light.any() else 0

    @property
    def n_stretches(self) -> int:
        """The lines and the pieces of their own."""
        return self.n_lines + len(self.own)

    @property
    def work(self) -> int:
        """How many pairs of stretches, over all orders, are so near that an arc covers something of both."""
        return self.orders * self.n_stretches**2 * self.arc // self.circle

    def layout(self, order: int) -> tuple[Integers, Integers]:
        """Start and size of every stretch: of the lines by their slots, then of the pieces in `own`."""
        slots, light = self.slots_of(order), self.is_light[self.owners]
        lines = np.zeros(self.n_lines, dtype=np.int64)
        np.add.at(lines, slots[light], self.piece_cells[light])
        sizes = np.concatenate([lines, self.piece_cells[self.own]])
        along = np.argsort(np.concatenate([np.arange(self.n_lines), slots[self.own]]), kind="stable")
        starts = np.empty(len(sizes), dtype=np.int64)
        starts[along] = np.cumsum(sizes[along]) - sizes[along]
        return starts, sizes

    def stretches(self, value: int, order: int) -> list[Stretch]:
        """The line of a light value, or the value's own pieces."""
        starts, sizes = self.layout(order)
        pieces = range(first := int(self.first_pieces[value]), first + self.pieces[value])
        if self.is_light[value]:
            slot = int(self.slots_of(order)[first])
            return [(int(starts[slot]), int(sizes[slot]), 0)]
        places = self.n_lines + np.searchsorted(self.own, np.array(pieces))
        return [
            (int(starts[place]), int(sizes[place]), int(self.offsets[piece]))
            for place, piece in zip(places, pieces, strict=True)
        ]
