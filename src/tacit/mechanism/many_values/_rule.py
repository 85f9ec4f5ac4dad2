"""The rule of the mechanism `many-values`: the heavy values by name, the others by arcs of a circle. Integers only.

The cells.  The prior P on its d possible values is laid out in n_x ≥ 1 cells, M in all, so that P̃ = n/M differs from
P by a total variation δ (`cell_error`), a rational. The k heaviest values are *giants*; together they have N cells.
The other values lie on a circle of M' = M − N cells, in one of many public orders (`circle`).

The report.  It covers L cells in all (`covered`), of every value x a part c_x between 0 and 1, and Σ P̃_x c_x = m =
L/M. It names a giant g, or has an arc, or both. One with an arc covers `arc` = L' cells of the circle, from its
position on, and the part (L − L')/n_g of the giant; if that is nothing, it names none. One without covers the part
L/n_g of the giant and nothing else. So every giant has at least L cells. Reports that ignore the answer name giant g
with probability n_g/N and have an arc with probability a = L M'/(M L'), independently. Then every value is covered to
the part m in the mean:

    a giant:     n_g/N · (a(L − L') + (1−a)L)/n_g = (L − aL')/N = L(1 − M'/M)/N = m,
    another one: a L'/M' = m.

With L' = L a report either names a giant or has an arc, and giants are told from the rest as well as one value can be.
The less L' is, the better are the others told from each other: with n other values a report without an arc tells
nothing between them. `designs` looks for the best L'. At L' = L M'/M giants are not told from the rest at all.

For the aim `mmse` other heavy values are in bins, and only the light ones under an arc, in one order (`_binned`).

What is sampled.  A report is drawn with a probability proportional to 1 − mq + q·c_x. All randomness is a few words
uniform on {0, …, 2^w − 1}. The first are those of the circle (`_circle`, `_binned`): they give an order, and α and β of
W bits each; α < base = 2^W − L'·step ignores the answer. With giants there is one more, the last: its halves, of v =
⌊w/2⌋ bits, are γ and η. Cell ⌊γN/2^v⌋ of the giants names one of them, and there is an arc if η < A. An answer that is
not ignored changes this: a giant is named itself, and there is an arc if η < D; any other value has an arc, one that
covers a uniform cell of its own. Here

    A = ⌊2^v a⌋,   D = ⌊2^v M'(L − L')/(L'N)⌋,   q = L'·step·M/(2^W L),

because c_g without an arc is L/n_g and M/n_g = (1 − D/2^v)/((1−a)n_g/N), and alike with one. What rounding leaves of
this is in the audit (`lift_range`), which counts words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
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


class Weights(NamedTuple):
    """How many words, of all, make values send a report at one position.

    where: every value sends it for `common` of them, one on the circle for up to `on_arc` more, under P `on_arc`·`part`
    of them in the mean up to `on_arc`·`slack`. `held` has further values: how many more words, and their weight.
    """

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
    """Giants by name, the rest on a circle; see the module's docstring.

    where: `giants` = k, `covered` = L, `arc` = L', `cell_bits` = B with M = 2^B cells, or M = d if that is below 2d.
    `slots`, `first`, `second` and `light` are those of a plane circle, `bins` and `heavy` those of a binned one, which
    is read with the prior only; with `slots` = `bins` = 0 seeds shuffle the circle. `margin`/2^52 is μ of `_slack_of`.
    """

    prior: Prior = field(hash=False)
    giants: int
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
        if self.giants and not (self.arc <= self.covered <= min(self.cells[x] for x in self.named)):
            raise ValueError("The 'covered' cells must be at least the arc's, and at most those of any giant.")
        circle = self.circle  # Checks the arc, the step and all bits.
        if self.giants and not self.covered * circle.circle < self.total * self.arc:
            raise ValueError(f"The 'arc' is too short to tell giants from the others. Got {self.arc} instead.")
        if self.with_arc > 1 << REPORT_BITS:
            raise ValueError(f"A report has more than {REPORT_BITS} bits. Use fewer 'cell_bits'.")
        if self.giants and not 0 < self.arcs_for_all < 1 << self.name_bits:
            raise ValueError(f"Words of {self.word_bits} bits are too short for these giants.")

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
    def giant_cells(self) -> int:
        """N, the cells of all giants."""
        return sum(self.cells[x] for x in self.named)

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
    def with_arc(self) -> int:
        """Reports below this have an arc: (i·orders + order)·2^B + position, i the giant that is named or else 0. The
        next ones name giant 0, 1, … and have none.
        """
        return (self.giants if self.named_beside else 1) * self.circle.orders << self.cell_bits

    @property
    def named_beside(self) -> bool:
        """Whether reports with an arc name a giant too: whether they cover anything of it."""
        return self.arc < self.covered

    @property
    def name_bits(self) -> int:
        """v, the bits of γ and of η."""
        return self.word_bits // 2

    @cached_property
    def name_edges(self) -> tuple[int, ...]:
        """The first γ that names each giant, then 2^v."""
        sums = [0]
        for x in self.named:
            sums.append(sums[-1] + self.cells[x])
        return tuple(-(-(part << self.name_bits) // max(self.giant_cells, 1)) for part in sums)

    @cached_property
    def arcs_for_all(self) -> int:
        """A: this many η of 2^v give an arc if the answer is ignored."""
        return (self.covered * self.circle.circle << self.name_bits) // (self.total * self.arc)

    @cached_property
    def arcs_for_giants(self) -> int:
        """D: this many η of 2^v give an arc to a giant that is not ignored."""
        rest = self.circle.circle * (self.covered - self.arc)
        return (rest << self.name_bits) // (self.arc * max(self.giant_cells, 1))

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
        half, v = self.seed_bits // 2, self.name_bits
        gamma, eta = words[-1] >> v & (1 << v) - 1, words[-1] & (1 << v) - 1
        name = max(i for i, edge in enumerate(self.name_edges[:-1]) if edge <= gamma)
        ignored, arcs = words[0] >> half < circle.base, self.arcs_for_all
        if not ignored:
            name, arcs = (-place - 1, self.arcs_for_giants) if place < 0 else (name, 1 << v)
        if eta >= arcs:
            return self.with_arc + name
        name = name if self.named_beside else 0
        # The arc of a giant lies anywhere, as for an ignored answer.
        first = words[0] & (1 << half) - 1 if place < 0 else words[0]
        return (name * circle.orders << self.cell_bits) + circle.draw(max(place, 0), (first, *words[1:-1]))

    @cached_property
    def _places(self) -> Integers:
        """Where a value lies among those on the circle; −1−i for giant i."""
        places = np.empty(len(self.weights), dtype=np.int64)
        places[self.others] = np.arange(len(self.others))
        places[list(self.named)] = -1 - np.arange(self.giants)
        return places

    def likelihood(self, value: int, report: int) -> Fraction:
        """Q(report|value), exactly."""
        circle, place, one = self.circle, int(self._places[value]), 1 << self.name_bits
        if not self.giants:
            return circle.likelihood(place, report)
        arc = report < self.with_arc
        name, below = divmod(report, circle.orders << self.cell_bits) if arc else (report - self.with_arc, 0)
        if name >= self.giants:
            return Fraction(0)
        named = Fraction(self.name_edges[name + 1] - self.name_edges[name], one)
        if arc and not self.named_beside:
            named = Fraction(1)
        ignored = Fraction(circle.base, 1 << circle.choice_bits)
        arcs, own = Fraction(self.arcs_for_all, one), Fraction(self.arcs_for_giants, one)
        # The chances of the state if the answer is ignored, and if it is not.
        without = named * (arcs if arc else 1 - arcs)
        for_giant = (own if arc else 1 - own) if place == -1 - name else Fraction(0)
        if not arc:
            return ignored * without + (1 - ignored) * for_giant
        order, position = divmod(below, 1 << self.cell_bits)
        uniform = circle.likelihood_of_uniform(order, position)
        if place < 0:
            return uniform * (ignored * without + (1 - ignored) * for_giant)
        onto = circle.likelihood(place, report=below) - ignored * uniform
        return ignored * without * uniform + named * onto

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
        """The words for which values send a report: for every state and order that differ in them, and where positions
        have more words or less, for both.

        In units of words, with those of the circle (`Circle.report_weights`), γ_g words γ for the giant and V = 2^v:

            without an arc:  all  base·γ_g·(V − A),  the giant  L'·step·V·(V − D)  more;
            with an arc:     all  `common`·γ_g·A,  the giant  L'·step·`uniform`·V·D  more, others  γ_g·V  times what
                             they have on the circle.
        """
        one, alpha = 1 << self.name_bits, self.arc * self.step
        names = [(edge - before, self.weights[x]) for x, before, edge in
                 zip(self.named, self.name_edges, self.name_edges[1:], strict=False)]  # fmt: skip
        for words, weight in names:
            none = self.circle.base * words * (one - self.arcs_for_all)
            only = ((alpha * one * (one - self.arcs_for_giants), weight),)
            yield Weights(none, 0, Fraction(0), Fraction(0), only)
        beside = names if self.named_beside else [(one, 0)] if names else []
        for each in self.circle.report_weights():
            part, slack = each.arc / self.total, self._slack_of(each.arc) + each.rounding
            in_bin = () if each.bin is None else ((each.in_bin, self._bin_weights[each.bin]),)
            if not names:
                yield Weights(each.common, each.on_arc, part, slack, in_bin)
            for words, weight in beside:
                giant = (alpha * each.uniform * one * self.arcs_for_giants, weight)
                held = (giant, *((more * words * one, weight) for more, weight in in_bin))
                yield Weights(each.common * words * self.arcs_for_all, each.on_arc * words * one, part, slack, held)

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
