"""The rule of the mechanism `many-values`: a table of heavy values, and arcs of a circle. Integers only.

The cells.  The prior P on its d possible values is laid out in n_x ≥ 1 cells, M in all, so that P̃ = n/M differs from
P by a total variation δ (`cell_error`), a rational. The k heaviest values are *giants*. The other values
lie on a circle of M' cells, in one of many public orders (`circle`).

The report.  It covers L cells in all (`covered`), of every value x a part c_x between 0 and 1, and Σ P̃_x c_x = m =
L/M. It has a public *row* y of a table and, if the row says so, an arc. An arc covers `arc` = L' cells of the circle,
from its position on; a row covers k_yg cells of giant g, most often none or all, so that Σ_g k_yg is L, or L − L' with
an arc. Reports that ignore the answer have row y with probability λ_y, and every value is covered to the part m in the
mean: Σ_y λ_y k_yg = m n_g, and arcs have the probability a = L M'/(M L'). So the table has a column for each giant and
one for all others together, whose part in a row is the arc or nothing. Within an arc the others are told apart; the
less a varies from row to row, the better (`designs` looks for the best table).

For the aim `mmse` other heavy values are in bins, and only the light ones under an arc, in one order (`_binned`).

What is sampled.  A report is drawn with a probability proportional to 1 − mq + q·c_x. All randomness is a few words
uniform on {0, …, 2^w − 1}. The first are those of the circle (`_circle`, `_binned`): they give an order, and α and β of
W bits each; α < base = 2^W − L'·step ignores the answer. With giants there is one more, the last: its last v =
min(w, 52) bits are γ, which gives the row: row y has `words` R_y of the 2^v. An answer that is not ignored changes
this: that of giant g has row y in proportion to R_y k_yg, and lies under no arc; that of any other value has a row with
an arc in proportion to R_y, and the arc covers a uniform cell of its own. So q = L'·step·M/(2^W L). A share of a γ in
proportion to numbers r_y is {⌈2^v r_1/r⌉, …}, up to sums (`shares`). What rounding leaves of all this is in the audit
(`lift_range`), which counts words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from tacit.exact import Integers
from tacit.mechanism.many_values._binned import BinnedCircle
from tacit.mechanism.many_values._circle import REPORT_BITS, Circle, lay_out
from tacit.mechanism.many_values._plane import PlaneCircle
from tacit.mechanism.many_values._shuffled import ShuffledCircle
from tacit.prior import Prior

#: `margin` counts in parts of this.
MARGIN_UNIT = 1 << 52
#: The words of rows add up to at most 2 to this power.
ROW_BITS = 52

#: A row of the table: its words, 1 if it has an arc, else 0, and then giants and the cells that it covers of them.
Row = tuple[int, ...]


def shares(parts: Sequence[int], whole: int) -> list[int]:
    """`whole` in proportion to `parts`, in integers: sums are rounded up.

    >>> shares([1, 1, 1], 64)
    [22, 21, 21]
    """
    ends = [-(-part * whole // max(sum(parts), 1)) for part in accumulate(parts, initial=0)]
    return [end - before for before, end in pairwise(ends)]


class Weights(NamedTuple):
    """How many words, of all, make values send a report at one position.

    where: every value sends it for `common` of them, one on the circle for up to `on_arc` more, under P `on_arc`·`part`
    of them in the mean up to `on_arc`·`slack`. `held` has further values: how many more words, and their weight.
    `uniform` is that of `CircleWeights`.
    """

    uniform: int
    common: int
    on_arc: int
    part: Fraction
    slack: Fraction
    held: tuple[tuple[int, int], ...]

    @property
    def most(self) -> int:
        """The most words that a value has beyond `common`."""
        return max(self.on_arc, *(more for more, _ in self.held), 0)


@dataclass(frozen=True, kw_only=True)
class ManyValuesRule:
    """Giants in a table, the rest on a circle; see the module's docstring.

    where: `giants` = k, `rows` the table, those with an arc first, `covered` = L, `arc` = L', `cell_bits` = B with M =
    2^B cells, or M = d if that is below 2d. `slots`, `first`, `second` and `light` are those of a plane circle, `bins`
    and `heavy` those of a binned one, which is read with the prior only; with `slots` = `bins` = 0 seeds shuffle the
    circle. `margin`/2^52 is μ of `_slack_of`.
    """

    prior: Prior = field(hash=False)
    giants: int
    rows: tuple[Row, ...] = field(default=(), hash=False)
    covered: int
    arc: int
    step: int
    cell_bits: int = 28
    seed_bits: int = 24
    word_bits: int = 64
    slots: int = 0
    first: int = 0
    second: int = 0
    light: int = 0
    bins: int = 0
    heavy: int = 0
    margin: int = 0

    def __post_init__(self) -> None:
        size = len(self.weights)
        if not 1 <= self.cell_bits <= 30 or size > 1 << self.cell_bits:
            raise ValueError(f"The 'cell_bits' must be in 1..30 and give every value a cell. Got {self.cell_bits}.")
        if not 0 <= self.giants < size - (size > 1 and not self.bins):
            raise ValueError(f"The 'giants' must leave at least two of {size} values. Got {self.giants} instead.")
        if not self.slots and (self.first or self.second or self.light):
            raise ValueError("Without 'slots' there is no plane: 'first', 'second' and 'light' must be 0.")
        if (self.bins and (self.slots or self.covered != self.arc)) or (self.heavy and not self.bins):
            raise ValueError("With 'bins' there is no plane and 'arc' is 'covered'; without them 'heavy' must be 0.")
        if not self.giants and self.covered != self.arc:
            raise ValueError("Without giants a report covers its arc. 'covered' and 'arc' differ.")
        _ = self.circle  # Checks the arc, the step and all bits.
        self._check_rows()
        if self.with_arc > 1 << REPORT_BITS:
            raise ValueError(f"A report has more than {REPORT_BITS} bits. Use fewer 'cell_bits'.")

    def _check_rows(self) -> None:
        """Every row covers L cells, every giant is covered by some, and some have an arc, those first."""
        if not (self.giants and self.rows):
            if self.rows or self.giants:
                raise ValueError("With giants there are 'rows', without them none.")
            return
        for row in self.rows:
            words, arc, parts = row[0], row[1], list(zip(row[2::2], row[3::2], strict=True))
            if words < 1 or arc not in (0, 1) or [i for i, _ in parts] != sorted({i for i, _ in parts}):
                raise ValueError("A row must have words, 0 or 1 for its arc, and giants in their order.")
            if not all(0 <= i < self.giants and 0 < k <= self.cells[self.named[i]] for i, k in parts):
                raise ValueError("A row must cover giants, and of each at most its cells.")
            if sum(k for _, k in parts) + arc * self.arc != self.covered:
                raise ValueError("The 'covered' cells must be the same of all rows.")
        cells = [0] * self.giants
        for row in self.rows:
            for i, k in zip(row[2::2], row[3::2], strict=True):
                cells[i] += row[0] * k
        # Words are rounded to one each.
        away = [
            sum_ * self.total - (self.covered * self.cells[x] << self.row_bits)
            for sum_, x in zip(cells, self.named, strict=True)
        ]
        if max(map(abs, away)) > len(self.rows) * self.covered * self.total:
            raise ValueError("Rows must cover every giant to the same part in the mean.")
        arcs = [row[1] for row in self.rows]
        if arcs != sorted(arcs, reverse=True) or not any(arcs) or not all(cells):
            raise ValueError("Rows with an arc must come first, and rows must cover every giant.")
        if sum(row[0] for row in self.rows) != 1 << self.row_bits:
            raise ValueError(f"The words of rows must add up to 2^{self.row_bits}.")

    # -- the cells -----------------------------------------------------------------------------------------------

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """The prior's integers on its support, whose values the rule numbers."""
        return self.prior.on_support().weights

    @property
    def total(self) -> int:
        """M, the cells of all values: one for each, or else at least twice as many."""
        return len(self.weights) if 1 << self.cell_bits < 2 * len(self.weights) else 1 << self.cell_bits

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """n_x, the cells of every value."""
        return lay_out(self.weights, self.total)

    @cached_property
    def cell_array(self) -> Integers:
        """`cells` as an array."""
        return np.array(self.cells, dtype=np.int64)

    @cached_property
    def cell_error(self) -> Fraction:
        """δ = ½ Σ |n_x/M − P_x|, exactly."""
        mass, total = sum(self.weights), self.total
        more = sum(max(0, n * mass - w * total) for n, w in zip(self.cells, self.weights, strict=True))
        return Fraction(more, total * mass)

    @cached_property
    def named(self) -> tuple[int, ...]:
        """The giants, in the order of the values: those of the most cells, of equal ones the first."""
        falling = sorted(range(len(self.cells)), key=lambda x: -self.cells[x])
        return tuple(sorted(falling[: self.giants]))

    @cached_property
    def others(self) -> Integers:
        """The values on the circle."""
        return np.setdiff1d(np.arange(len(self.weights)), np.array(self.named, dtype=np.int64), assume_unique=True)

    @cached_property
    def circle(self) -> Circle:
        """The circle of the other values: it has their cells, and an arc of `arc`."""
        numbers: dict[str, Any] = {
            name: getattr(self, name) for name in ("arc", "step", "cell_bits", "seed_bits", "word_bits")
        }
        numbers["cells"] = tuple(self.cell_array[self.others].tolist())
        if self.bins:
            return BinnedCircle(**numbers, bins=self.bins, heavy=self.heavy)
        if not self.slots:
            return ShuffledCircle(**numbers)
        return PlaneCircle(**numbers, slots=self.slots, first=self.first, second=self.second, light=self.light)

    # -- the words -----------------------------------------------------------------------------------------------

    @cached_property
    def arc_rows(self) -> int:
        """How many rows have an arc; 1 without giants."""
        return sum(row[1] for row in self.rows) if self.giants else 1

    @property
    def with_arc(self) -> int:
        """Reports below this have an arc: (row·orders + order)·2^B + position. The next ones are the other rows."""
        return self.arc_rows * self.circle.orders << self.cell_bits

    @property
    def end(self) -> int:
        """Reports are below this."""
        return self.with_arc + (len(self.rows) - self.arc_rows if self.giants else 0)

    @property
    def row_bits(self) -> int:
        """v, the bits of γ."""
        return min(self.word_bits, ROW_BITS)

    @cached_property
    def of_all(self) -> list[int]:
        """R: how many γ, of 2^v, give each row if the answer is ignored."""
        return [row[0] for row in self.rows]

    @cached_property
    def of_others(self) -> list[int]:
        """How many give it to a value on the circle whose answer is not ignored."""
        return shares([row[0] * row[1] for row in self.rows], 1 << self.row_bits)

    @cached_property
    def of_giants(self) -> list[dict[int, int]]:
        """How many give it to each giant, for the rows that cover it."""
        covering: list[dict[int, int]] = [{} for _ in self.named]
        for y, row in enumerate(self.rows):
            for i, k in zip(row[2::2], row[3::2], strict=True):
                covering[i][y] = row[0] * k
        whole = 1 << self.row_bits
        return [dict(zip(parts, shares(list(parts.values()), whole), strict=True)) for parts in covering]

    @property
    def share(self) -> Fraction:
        """m = L/M, the covered part of the prior."""
        return Fraction(self.covered, self.total)

    @property
    def amplitude(self) -> Fraction:
        """q = L'·step·M/(2^W L): lifts under P̃ are 1 + q(c_x − m)."""
        return Fraction(self.arc * self.step * self.total, self.covered << self.choice_bits)

    @property
    def choice_bits(self) -> int:
        """W, the bits of α, the first of the first word."""
        return self.circle.choice_bits

    @property
    def words_per_report(self) -> int:
        """Those of the circle, and one for names."""
        return self.circle.words + (1 if self.giants else 0)

    def draw(self, value: int, words: tuple[int, ...]) -> int:
        """The report of `value` (`with_arc`): a pure function of its words, names last."""
        circle, place = self.circle, int(self._places[value])
        if not self.giants:
            return circle.draw(place, words)
        half, gamma = self.seed_bits // 2, words[-1] & (1 << self.row_bits) - 1
        if words[0] >> half < circle.base:
            column = dict(enumerate(self.of_all))
        else:
            column = self.of_giants[-1 - place] if place < 0 else dict(enumerate(self.of_others))
        row = next(row for row, end in zip(column, accumulate(column.values()), strict=True) if gamma < end)
        if row >= self.arc_rows:
            return self.with_arc + row - self.arc_rows
        # The arc of a giant lies anywhere, as for an ignored answer.
        first = words[0] & (1 << half) - 1 if place < 0 else words[0]
        return (row * circle.orders << self.cell_bits) + circle.draw(max(place, 0), (first, *words[1:-1]))

    @cached_property
    def _places(self) -> Integers:
        """Where a value lies among those on the circle; −1−i for giant i."""
        places = np.empty(len(self.weights), dtype=np.int64)
        places[self.others] = np.arange(len(self.others))
        places[list(self.named)] = -1 - np.arange(self.giants)
        return places

    def likelihood(self, value: int, report: int) -> Fraction:
        """Q(report|value), exactly."""
        circle, place, one = self.circle, int(self._places[value]), 1 << self.row_bits
        if not self.giants:
            return circle.likelihood(place, report)
        arc = report < self.with_arc
        size = circle.orders << self.cell_bits
        row, below = divmod(report, size) if arc else (report - self.with_arc + self.arc_rows, 0)
        if row >= len(self.rows):
            return Fraction(0)
        ignored = Fraction(circle.base, 1 << circle.choice_bits)
        chance = ignored * Fraction(self.of_all[row], one)
        if place < 0:
            chance += (1 - ignored) * Fraction(self.of_giants[-1 - place].get(row, 0), one)
        if not arc:
            return chance
        uniform = circle.likelihood_of_uniform(*divmod(below, 1 << self.cell_bits))
        if place < 0:
            return uniform * chance
        onto = circle.likelihood(place, below) - ignored * uniform
        return uniform * chance + Fraction(self.of_others[row], one) * onto

    # -- the promise ---------------------------------------------------------------------------------------------

    @property
    def slack(self) -> Fraction:
        """How far the prior mass under the arc can be from L'/M."""
        return self._slack_of(Fraction(self.arc)) + self.circle.rounding

    def _slack_of(self, arc: Fraction) -> Fraction:
        """How far the prior mass under an arc can be from what it covers of P̃: min(δ', μ·arc/M + S).

        where: S = Σ max(0, ±(P_x − P̃_x) − μP̃_x) over the circle, for the sign of the larger one. For any μ ≥ 0 and any
        arc Σ (P_x − P̃_x)c_x = μ·arc/M + Σ (P_x − P̃_x − μP̃_x)c_x, since Σ P̃_x c_x = arc/M, and 0 ≤ c_x ≤ 1; the same for
        the other sign. δ' is what P_x − P̃_x add up to for any arc (`Circle.most_off`). The best μ is what the value
        deviates by, relative to P̃, that an arc over the farthest values ends in: any other is as true, but wider.
        """
        together, rest = self._deviations
        return min(together, Fraction(self.margin, MARGIN_UNIT) * arc / self.total + rest)

    @cached_property
    def _deviations(self) -> tuple[Fraction, Fraction]:
        """δ' and S."""
        mass, total = sum(self.weights), self.total
        laid = [self.cells[x] * mass for x in self.others.tolist()]
        off = [self.weights[x] * total - n for x, n in zip(self.others.tolist(), laid, strict=True)]
        rest = max(
            sum(max(0, sign * more * MARGIN_UNIT - self.margin * n) for more, n in zip(off, laid, strict=True))
            for sign in (1, -1)
        )
        whole = total * mass
        return Fraction(self.circle.most_off(off), whole), Fraction(rest, whole * MARGIN_UNIT)

    def report_weights(self) -> Iterator[Weights]:
        """The words for which values send a report: for every row, and where positions have more words or less.

        In units of words, with those of the circle (`Circle.report_weights`), R words γ of all for the row, H of the
        others and G of giant g:

            without an arc:  all  base·R,  giant g  L'·step·G  more;
            with an arc:     all  `common`·R,  giant g  L'·step·`uniform`·G  more, others  H  times what they have on
                             the circle.
        """
        alpha, arcs = self.arc * self.step, list(self._arc_weights())
        if not self.giants:
            yield from arcs
            return
        weights = [self.weights[x] for x in self.named]
        for y, (row, words, others) in enumerate(zip(self.rows, self.of_all, self.of_others, strict=True)):
            giants = [(alpha * self.of_giants[i][y], weights[i]) for i in row[2::2]]
            if not row[1]:
                yield Weights(0, self.circle.base * words, 0, Fraction(0), Fraction(0), tuple(giants))
            for each in arcs if row[1] else ():
                held = ((more * each.uniform, weight) for more, weight in giants)
                in_bin = ((more * others, weight) for more, weight in each.held)
                yield each._replace(common=each.common * words, on_arc=each.on_arc * others, held=(*held, *in_bin))

    def _arc_weights(self) -> Iterator[Weights]:
        """Those of the circle alone."""
        for each in self.circle.report_weights():
            part, slack = each.arc / self.total, self._slack_of(each.arc) + each.rounding
            held = () if each.bin is None else ((each.in_bin, self._bin_weights[each.bin]),)
            yield Weights(each.uniform, each.common, each.on_arc, part, slack, held)

    @cached_property
    def _bin_weights(self) -> list[int]:
        """The prior's weight of every bin."""
        found = [0] * self.bins
        if isinstance(self.circle, BinnedCircle):
            for x, j in zip(self.others.tolist(), self.circle.bin_of.tolist(), strict=True):
                found[j] += self.weights[x] if j >= 0 else 0
        return found

    @cached_property
    def odds(self) -> Fraction:
        """A bound of the ratio of the likelihoods of two values: its logarithm is the LDP level, for any prior."""
        return max(1 + Fraction(each.most, each.common) for each in self.report_weights())

    def lift_range(self, radius: Fraction = Fraction(0)) -> tuple[Fraction, Fraction]:
        """Exact bounds (highest, lowest) of the lifts under every prior within total variation `radius` of P.

        Proof.  A value sends a report for c + e_x words, c the same for all (`report_weights`), 0 ≤ e_x ≤ t. Under P
        the mean of e is Σ P_h·e_h over those that it holds, and `on_arc`·(`part` ± `slack`) for those under its arc. A
        prior within the radius moves the mean of e, which varies by at most t, by at most radius·t. A lift is c + e_x
        divided by c + the mean. Public orders cancel: they have the same distribution for every value. All is linear in
        the words b of a position, so that both ends are the worst cases. ∎
        """
        highest, lowest = Fraction(1), Fraction(1)
        mass = sum(self.weights)
        for each in self.report_weights():
            mean = Fraction(sum(more * weight for more, weight in each.held), mass) + each.on_arc * each.part
            off = each.on_arc * each.slack + each.most * radius
            least, largest = max(Fraction(0), mean - off), min(Fraction(each.most), mean + off)
            highest = max(highest, (each.common + each.most) / (each.common + least))
            lowest = min(lowest, each.common / (each.common + largest))
        return highest, lowest
