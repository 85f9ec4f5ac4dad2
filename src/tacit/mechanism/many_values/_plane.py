"""The orders of a plane: values are points of a finite plane, and an order is a direction in it.

A report is drawn in constant time and counted by its lines: about √d of them, for tens of thousands of values.

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
order are known in advance (`_plane_kernels`). All else, and the proof of privacy: `_circle`.

What the reports of a plane circle determine: J = E[v vᵀ] = 11ᵀ + q²A and its inverse, without a d × d table.

v = 1 + q(c − m) are the lifts, A is the covariance of the coverage c over orders and positions. The orders are few
enough to go through all of them, so A is exact but for the rounding of floats. (Orders are drawn equally often up to
p²/2^(S+1), below 1/1000, which moves no estimate by more than some millionths.) An arc covers a cell of one stretch and
one of another with a probability that depends on their distance only, and its mean over both has a closed form
(`_plane_kernels`). Orders of one slope, o mod (p+1), have the same lines, in other places. So A is kept as the
covariance between lines, for each slope; between lines and pieces of their own; and between these.

Solving.  Up to `_WRITTEN_OUT` values J is written out and inverted. Of more, J is nearly Ĵ, in which all light values
are alike: Ĵ has J's diagonal, J's block of the other values, and elsewhere its mean over the light values. Ĵ is solved
in O(d); conjugate gradients with it as preconditioner solve J in about ten steps of O(p(d + p²)). The diagonal of J⁻¹
is then Ĵ's, which is up to a few hundredths too small because a real order is not all orders at once, times what it
lacks at `_PROBES` values, for which it is solved; in between by interpolation along the shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats, Integers
from tacit.mechanism.kept import COVERAGE_UNIT
from tacit.mechanism.many_values._circle import Circle, Stretch, mean_square_coverage, third_central_moment, unit_rows
from tacit.mechanism.singer import is_prime, meets_all_states, terms_of

if TYPE_CHECKING:
    from tacit.mechanism.many_values._plane_kernels import Places


#: Pairs of stretches that take some milliseconds.
_QUICK_WORK = 2**20
#: The most slots of a plane, the most places of stretches that are computed in advance (100 MiB), and the most steps to
#: find what reports determine: a second or two.
MOST_SLOTS, MOST_PLACES, MOST_WORK = 251, 1 << 23, 1 << 28


@dataclass(frozen=True, kw_only=True)
class PlaneCircle(Circle):
    """A plane circle; see `_circle` and the module's docstring.

    where: `slots` = p, (`first`, `second`) = (c_0, c_1).

    >>> rule = PlaneCircle(
    ...     cells=(9, 1, 4, 2), arc=4, step=9, cell_bits=4, seed_bits=4, word_bits=8,
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
    steps_per_report: ClassVar[int] = 8

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

    # -- reports -------------------------------------------------------------------------------------------------

    @property
    def is_quick(self) -> bool:
        """Whether few enough pairs of stretches are near each other."""
        return self.work <= _QUICK_WORK

    def draw_many(self, values: Integers, words: NDArray[np.uint64]) -> Integers:
        """`draw` for arrays, in constant time for each."""
        from tacit.mechanism.many_values import _plane_kernels as loops

        reports, places = np.empty(len(values), dtype=np.int64), _places(self)
        rule = (
            self.terms.astype(np.uint16), places.ranks, places.edges, *self._drawn, np.uint64(self.base),
            np.uint64(self.step), np.uint64(self.circle), self.cell_bits, self.seed_bits, self.choice_bits,
        )  # fmt: skip
        loops.draw(values, words, *rule, reports)
        return reports

    @cached_property
    def _drawn(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """What drawing asks of values and of pieces: see `_plane_kernels.draw`."""
        numbers = np.zeros(len(self.owners), dtype=np.int64)
        numbers[self.own] = self.n_lines + np.arange(len(self.own))
        of_values = np.column_stack([np.where(self.is_light, 0, self.cell_array), self.pieces, self.first_pieces])
        return of_values.astype(np.uint64), np.column_stack([self.offsets, numbers]).astype(np.uint64)

    # -- what reports tell ---------------------------------------------------------------------------------------

    def fold(self, reports: Integers, times: Integers | None = None) -> Integers:
        """T_x, by the stretches that each report covers."""
        from tacit.mechanism.many_values._plane_kernels import fold_reports, sums_across

        reports = np.ascontiguousarray(reports, dtype=np.int64)
        of_stretches = fold_reports(reports, times, _places(self), self.slots, *self._arcs)
        sums = self._of_own(of_stretches.sum(axis=0))
        if self.n_lines and len(reports):
            sums[self._light] = sums_across(self.lines, of_stretches)
        return sums

    def coverage(self, reports: Integers) -> Floats:
        """c_x, a row for each report."""
        from tacit.mechanism.many_values._plane_kernels import cover_reports

        reports = np.ascontiguousarray(reports, dtype=np.int64)
        of_stretches = cover_reports(reports, _places(self), *self._arcs)
        rows = np.array([self._of_own(row) for row in of_stretches]).reshape(len(reports), len(self.cells))
        if self.n_lines:
            slopes = (reports >> self.cell_bits) % (self.slots + 1)
            rows[:, self._light] = np.take_along_axis(of_stretches, self.lines[slopes].astype(np.int64), axis=1)
        covered: Floats = rows / COVERAGE_UNIT
        return covered

    def _of_own(self, of_stretches: Integers) -> Integers:
        """What all values have, of stretches of their own."""
        sums = np.zeros(len(self.cells), dtype=np.int64)
        np.add.at(sums, self.owners[self.own], of_stretches[self.n_lines :])
        return sums

    @cached_property
    def _arcs(self) -> tuple[Any, ...]:
        """What the compiled loops ask of a circle."""
        units = np.concatenate([np.full(self.n_lines, COVERAGE_UNIT), self._units[self.own]])
        return units, self.arc, self.circle, self.cell_bits

    @cached_property
    def _light(self) -> Integers:
        """The light values."""
        return np.flatnonzero(self.is_light)

    @cached_property
    def lines(self) -> NDArray[np.uint16]:
        """The line of every light value, a row for each slope: its slot under the first order of that slope."""
        points = self.first_pieces[self._light]
        lines: NDArray[np.uint16] = self.terms[np.arange(self.slots + 1)[:, None] + points].astype(np.uint16)
        return lines

    @cached_property
    def _line_cells(self) -> Integers:
        """The cells of every line, a row for each slope."""
        cells = self.cell_array[self._light].astype(np.float64)
        rows = [np.bincount(row, weights=cells, minlength=self.slots) for row in self.lines]
        return np.rint(rows).astype(np.int64)

    def information_at(self, amplitude: float) -> PlaneInformation:
        """J over all orders, of another amplitude than the circle's own."""
        from tacit.mechanism.many_values._plane_kernels import cover_together

        share, light = float(self.share), self._light
        line_line, line_own, own_own = cover_together(_places(self), self.slots, self.n_lines, self.arc)
        own_cells = self.piece_cells[self.own]
        together = own_own / self.circle - share**2
        np.fill_diagonal(together, self._square(own_cells) - share**2)
        owners, parts = self.owners[self.own], own_cells / self.cell_array[self.owners[self.own]]
        spreads = np.zeros(len(self.cells))
        np.add.at(spreads, owners, self._own_spread(owners, parts, together))
        lines = line_line / self.circle - share**2
        if len(light):
            alone = self._square(np.maximum(self._line_cells, 1)) - share**2
            lines[:, np.arange(self.slots), np.arange(self.slots)] = alone
            empty = self._line_cells == 0
            lines[empty], lines.transpose(0, 2, 1)[empty] = 0.0, 0.0
            line_own = np.where(empty[:, :, None], 0.0, line_own / self.circle - share**2)
            spreads[light] = np.take_along_axis(alone, self.lines.astype(np.int64), axis=1).mean(axis=0)
        return PlaneInformation(
            shares=self.cell_array / self.circle, amplitude=amplitude, light=light, lines=self.lines, owners=owners,
            parts=parts, line_line=lines, line_own=line_own, own_own=together, spreads=spreads,
        )  # fmt: skip

    def _square(self, cells: Integers) -> Floats:
        """E[c²] of stretches of this many cells."""
        return mean_square_coverage(cells.astype(np.float64), float(self.arc), self.circle)

    @staticmethod
    def _own_spread(owners: Integers, parts: Floats, together: Floats) -> Floats:
        """What every piece adds to A_xx of its value."""
        same = owners[:, None] == owners[None, :]
        spread: Floats = parts * ((together * same) @ parts)
        return spread

    def _skew_in_one_piece(self) -> Floats:
        skew = super()._skew_in_one_piece()
        if self.n_lines:
            of_lines = third_central_moment(np.maximum(self._line_cells, 1), self.arc, self.circle)
            skew[self._light] = np.take_along_axis(of_lines, self.lines.astype(np.int64), axis=1).mean(axis=0)
        return skew


@lru_cache(maxsize=64)
def _places(circle: PlaneCircle) -> Places:
    """Where everything lies under every order: some MiB, kept for the circles that were asked for last."""
    from tacit.mechanism.many_values._plane_kernels import places_of

    return places_of(circle.terms, circle.orders, circle.slots, circle.piece_cells, circle.own, circle.cell_bits)


#: The residual of a solution relative to its right side, and after how many steps at most.
_RESIDUAL, _MOST_STEPS = 1e-8, 200
#: At this many values the diagonal of the inverse is solved for, by this many steps: the same on every machine.
_PROBES, _PROBE_STEPS = 12, 7
#: This many rows are solved for at once.
_BLOCK = 32
#: Of at most this many values J is written out: 8 MiB.
_WRITTEN_OUT = 1024


@dataclass(frozen=True, kw_only=True)
class PlaneInformation:
    """A of a plane circle, taken apart; made by `PlaneCircle.information_at`.

    where: `shares` is P̃ and `amplitude` q. `light` are the values on lines, and `lines` their lines, a row for each
    slope; `owners` are the values of the pieces of their own, and `parts` the share of its value that each has.
    `line_line`, `line_own` and `own_own` are A between them, the first two for each slope. `spreads` is A's diagonal.
    """

    shares: Floats
    amplitude: float
    light: Integers
    lines: NDArray[Any]
    owners: Integers
    parts: Floats
    line_line: Floats
    line_own: Floats
    own_own: Floats
    spreads: Floats

    # -- A and J -------------------------------------------------------------------------------------------------

    def _covariance(self, rows: Floats) -> Floats:
        """A·row for each row, all of them at once."""
        result, of_own = np.zeros(rows.shape), rows[:, self.owners] * self.parts
        product = of_own @ self.own_own
        if len(self.light):
            from tacit.mechanism.many_values._plane_kernels import line_means, line_sums

            slopes, size, _ = self.line_line.shape
            line_own = self.line_own.reshape(slopes * size, -1)
            of_lines = line_sums(self.lines, np.ascontiguousarray(rows[:, self.light].T), size)
            product = product + of_lines.reshape(slopes * size, -1).T @ line_own / slopes
            seen = np.matmul(self.line_line, of_lines) + (line_own @ of_own.T).reshape(of_lines.shape)
            result[:, self.light] = line_means(self.lines, seen).T
        np.add.at(result.T, self.owners, (product * self.parts).T)
        return result

    def multiply(self, right: Floats) -> Floats:
        """J·right; for each row of a matrix."""
        seen = self._covariance(np.atleast_2d(right)).reshape(right.shape)
        product: Floats = right.sum(axis=-1, keepdims=True) + self.amplitude**2 * seen
        return product

    # -- the inverse ---------------------------------------------------------------------------------------------

    @cached_property
    def _others(self) -> Integers:
        """The values that are not light."""
        return np.setdiff1d(np.arange(len(self.shares)), self.light, assume_unique=True)

    @cached_property
    def _near(self) -> tuple[Floats, Floats, Floats]:
        """Ĵ: δ of its light values, (κ, k), and the inverse of the system for their sum s and the other values f.

        With κ the mean of J between light values and k_o that between them and the value o, a light value solves
        δ_x f_x + κs + k·f = r_x, so that (1 + Sκ)s + S k·f = Σ r_x/δ_x, S = Σ 1/δ_x, and k s + G f = r for the others.
        """
        light, others, square = self.light, self._others, self.amplitude**2
        place = np.searchsorted(others, self.owners)
        among = np.zeros((len(others), len(others)))
        np.add.at(among, (place[:, None], place[None, :]), self.parts[:, None] * self.own_own * self.parts)
        ones = np.zeros(len(self.shares))
        ones[light] = 1.0
        (seen,), n = self._covariance(ones[None]), len(light)
        kappa = 1 + square * (float(seen[light].sum()) - float(self.spreads[light].sum())) / max(n * (n - 1), 1)
        delta = 1 + square * self.spreads[light] - kappa
        coupled: Floats = np.concatenate([[kappa], 1 + square * seen[others] / max(n, 1)])
        matrix = np.empty((1 + len(others),) * 2)
        matrix[0], matrix[1:, 0], matrix[1:, 1:] = float((1 / delta).sum()) * coupled, coupled[1:], 1 + square * among
        matrix[0, 0] += 1
        inverse: Floats = np.linalg.inv(matrix).astype(np.float64)
        return delta, coupled, inverse

    def nearly_solve(self, rows: Floats) -> Floats:
        """Ĵ⁻¹·right for each row."""
        delta, coupled, inverse = self._near
        inside = rows[..., self.light] / delta
        solved = np.concatenate([inside.sum(axis=-1)[..., None], rows[..., self._others]], axis=-1) @ inverse.T
        result = np.empty(rows.shape)
        result[..., self.light] = inside - (solved @ coupled)[..., None] / delta
        result[..., self._others] = solved[..., 1:]
        return result

    def solve(self, right: Floats) -> Floats:
        """J⁻¹·right; for each row of a matrix."""
        if len(self.shares) <= _WRITTEN_OUT:
            product: Floats = right @ self._inverse
            return product
        return self._in_threads(np.atleast_2d(right)).reshape(right.shape)

    def _in_threads(self, rows: Floats, residual: float = _RESIDUAL, steps: int = _MOST_STEPS) -> Floats:
        """`_by_gradients` for some rows at a time."""
        from tacit.mechanism.sampling import in_threads

        solved = np.empty(rows.shape)
        _ = self._near  # Made once, before the threads that share it.

        def work(_: int, part: slice) -> None:
            for start in range(part.start, part.stop, _BLOCK):
                some = slice(start, min(start + _BLOCK, part.stop))
                solved[some] = self._by_gradients(rows[some], residual, steps)

        in_threads(len(rows), work, self.lines.size)
        return solved

    def _by_gradients(self, right: Floats, residual: float, steps: int) -> Floats:
        """Conjugate gradients, until the residual is small, or for a number of steps; for each row of a matrix."""
        found, rest, goal = np.zeros(right.shape), right, residual**2 * _dot(right, right)
        near = self.nearly_solve(rest)
        along, worth = near, _dot(rest, near)
        for _ in range(steps):
            # A row that is done stays as it is.
            going = _dot(rest, rest) > goal
            if not going.any():
                break
            image = self.multiply(along)
            length = np.where(going, worth, 0.0) / np.where(going, _dot(along, image), 1.0)
            found, rest = found + length * along, rest - length * image
            near = self.nearly_solve(rest)
            before, worth = worth, _dot(rest, near)
            along = near + np.where(going, worth, 0.0) / np.where(going, before, 1.0) * along
        return found

    @cached_property
    def _inverse(self) -> Floats:
        """J⁻¹ written out."""
        covariance, of_pieces = np.zeros((len(self.shares),) * 2), np.zeros((len(self.owners), len(self.shares)))
        np.add.at(of_pieces.T, self.owners, self.parts[:, None] * self.own_own)
        if len(self.light):
            slopes = np.arange(len(self.lines))[:, None]
            of_pieces[:, self.light] = self.line_own[slopes, self.lines].mean(axis=0).T
        np.add.at(covariance, self.owners, self.parts[:, None] * of_pieces)
        if len(self.light):
            from tacit.mechanism.many_values._plane_kernels import between_light_values

            covariance[np.ix_(self.light, self._others)] = covariance[np.ix_(self._others, self.light)].T
            covariance[np.ix_(self.light, self.light)] = between_light_values(self.line_line, self.lines)
        inverse: Floats = np.linalg.inv(1 + self.amplitude**2 * covariance).astype(np.float64)
        return inverse

    @cached_property
    def _diagonal(self) -> Floats:
        if len(self.shares) <= _WRITTEN_OUT:
            return np.diag(self._inverse).copy()
        delta, coupled, inverse = self._near
        diagonal = np.empty(len(self.shares))
        diagonal[self.light] = (1 - float(coupled @ inverse[:, 0]) / delta) / delta
        diagonal[self._others] = np.diag(inverse)[1:]
        falling = np.argsort(-self.shares, kind="stable")
        probed = np.unique(np.geomspace(1, len(falling), _PROBES).astype(np.int64)) - 1
        values = falling[probed]
        exact = self._in_threads(unit_rows(values, len(falling)), 0.0, _PROBE_STEPS)[np.arange(len(values)), values]
        lacks = exact / diagonal[values]
        diagonal[falling] *= np.interp(np.log1p(np.arange(len(falling))), np.log1p(probed), lacks)
        return diagonal

    def inverse_diagonal(self) -> Floats:
        """(J⁻¹)_xx for every value."""
        return self._diagonal


def _dot(left: Floats, right: Floats) -> Floats:
    """The inner product, of rows in pairs."""
    products: Floats = (left * right).sum(axis=-1, keepdims=True)
    return products
