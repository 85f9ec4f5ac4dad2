"""The mechanism `block-design`: local differential privacy at the least variance, for any number of values, no prior.

The circle.  It has M places. A report is an order a, one of A, and a position y: report = (a − 1)·M + y. Under the
order a the value x stands at place a·x mod M, and the report covers x if that place is a position's difference away:

    y covers x   iff   (a·x − y) mod M ∈ D,     D a set of s differences.

So every value is covered by s of the M positions of each order, and its sets of reports are a block design: any two
values share equally many reports, s(s−1)/(M(M−1)) of all, if

- *an arc in all orders*: M is a prime, A = M − 1 and D = {0, …, s−1}. The pairs (a·x − y, a·x' − y) are all pairs of
  different places, each once. With s about M/(e^ε+1) it is subset selection (Ye and Barg 2018; Wang et al. 2016), in a
  report of two numbers instead of a subset. With s about M/g it is local hashing (OLH, Wang et al. 2017) with the
  pairwise independent hashes ⌊(a·x + b mod M)/s⌋ onto g buckets: a hash and a bucket say no more than where it begins.
- *a difference set*: A = 1 and D is Singer's (`singer`), M = (q^t−1)/(q−1). It is projective geometry response (Feldman
  et al. 2022), and with q = 2 and the complement of D Hadamard response (Acharya et al. 2019), without the one report
  of it that everybody sends equally often.
- *the value itself*: D = {0} and A = 1: k-ary randomized response.

What is sampled.  Two words α, β uniform on {0, …, 2^w − 1}; base = 2^w − s·step:

    α < base:  the report is ⌊β·A·M/2^w⌋;
    else:      its order is that report's, and its position a·x − D_j mod M, j = (α − base) // step, exactly uniform.

There is no rejection and no floating point. Of the 2^2w pairs (α, β) value x sends the report (a, y) for

    base·b_{a,y} + step·c_a·1{y covers x},     b ≥ ⌊2^w/AM⌋,   c_a ≤ ⌈2^w/A⌉,

b and c being how many β give a report or an order, the same for every value. So the odds between two values are at
most r = 1 + step·⌈2^w/A⌉/(base·⌊2^w/AM⌋), whatever D is: privacy does not rest on the design, only the estimate does.
Where reports are few, these numbers are written out (`pairs`) and reports are drawn from them as from any table, over
2^2w: the same probabilities from a word of 2w bits that is read lazily (`table_sampler`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.exact import BigIntegers, Integers, exact_integers
from tacit.mechanism.protocol import RandomWords
from tacit.mechanism.pure_protocol import PureProtocol
from tacit.mechanism.singer import difference_set, is_prime, meets_all_points, n_points, prime_power
from tacit.mechanism.stand_in import RuleSampler, StandIn
from tacit.mechanism.table_sampler import TableSampler, beginning
from tacit.prior import Prior

#: Reports stay below 2^52, which JSON and JavaScript hold, and a difference set is written out on every device.
MOST_REPORTS, MOST_POINTS = 1 << 52, 1 << 20
#: Counts of reports are transformed so many bits at a time, which floats do exactly.
_EXACT_BITS = 20


@dataclass(frozen=True, kw_only=True)
class BlockDesign(PureProtocol):
    """A block design for the values of `prior`; see the module's docstring.

    where: `circle` = M, `orders` = A, `arc` = s, `step` and `word_bits` = w as there. `field` = q and `recurrence` are
    those of the difference set (`singer`); 0 and () where D is the arc {0, …, s−1}.

    >>> fano = BlockDesign(
    ...     prior=Prior.uniform(7), circle=7, orders=1, arc=3, step=6, field=2, recurrence=(1, 1, 0), word_bits=6
    ... )
    >>> fano.differences.tolist(), str(fano.odds), fano.draw(4, (63, 0))
    ([0, 1, 3], '133/69', 1)
    """

    circle: int
    orders: int
    arc: int
    step: int
    field: int = 0
    recurrence: tuple[int, ...] = ()
    word_bits: int = 64

    kind: ClassVar[str] = "block-design"
    words_per_report: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if not 2 <= self.size <= self.circle:
            raise ValueError(f"A circle of {self.circle} places does not hold {self.size} values, or they are too few.")
        if not (1 <= self.arc < self.circle and self.orders >= 1 and self.n_reports <= MOST_REPORTS):
            raise ValueError(f"The 'arc' must be from 1 to {self.circle - 1}, and reports below 2^52. Got {self.arc}.")
        if self.field or self.recurrence:
            self._check_field()
        elif not (self.arc == self.orders == 1 and self.circle == self.size) and not (
            self.orders == self.circle - 1 and is_prime(self.circle)
        ):
            raise ValueError(
                "An arc is a block design in all orders of a prime circle, or of one place for each value."
            )
        if not 1 <= self.word_bits <= 64 or self.n_reports > 1 << self.word_bits:
            raise ValueError(f"The 'word_bits' must be at most 64 and reach all reports. Got {self.word_bits}.")
        if self.step < 1 or self.base < 1:
            raise ValueError(f"The 'step' must be positive and leave a base. Got {self.step} instead.")

    def _check_field(self) -> None:
        """Raise unless field, recurrence and arc are those of a difference set."""
        q, field = self.field, prime_power(self.field) if self.field < 1 << 13 else None
        prime, power = field or (0, 1)
        t, rest = divmod(len(self.recurrence), power)
        if field is None or rest or not 3 <= t <= 26 or not all(0 <= c < prime for c in self.recurrence):
            raise ValueError(
                "A difference set needs a 'field' of p^k elements, p a prime, and at least 3k numbers below p as its "
                "'recurrence'."
            )
        hyperplane = n_points(q, t - 1)
        if self.orders != 1 or self.circle != n_points(q, t) or self.circle > MOST_POINTS:
            raise ValueError(f"The points of this geometry are {n_points(q, t)}. Got {self.circle} places instead.")
        if self.arc not in (hyperplane, self.circle - hyperplane) or not meets_all_points(prime, self.recurrence):
            raise ValueError("The 'arc' must be a hyperplane or its complement, and the 'recurrence' meet all points.")

    # -- the design ----------------------------------------------------------------------------------------------

    @property
    def n_reports(self) -> int:
        """A·M."""
        return self.orders * self.circle

    @cached_property
    def differences(self) -> Integers:
        """D in ascending order."""
        if not self.field:
            return np.arange(self.arc)
        found = difference_set(self.field, self.recurrence)
        return found if len(found) == self.arc else np.setdiff1d(np.arange(self.circle), found, assume_unique=True)

    @property
    def cover_range(self) -> tuple[int, int]:
        """A report covers s of the M places, of which values hold all but M − d."""
        return max(0, self.arc - (self.circle - self.size)), min(self.arc, self.size)

    @property
    def counts_at_once(self) -> bool:
        """In one order all reports are counted by one convolution."""
        return self.orders == 1

    # -- the promise ---------------------------------------------------------------------------------------------

    @property
    def base(self) -> int:
        """How many α of 2^w ignore the value."""
        return (1 << self.word_bits) - self.arc * self.step

    @property
    def odds(self) -> Fraction:
        """r of the module's docstring."""
        words = 1 << self.word_bits
        return 1 + Fraction(self.step * -(-words // self.orders), self.base * (words // self.n_reports))

    @property
    def truthful(self) -> Fraction:
        """γ = s·step/2^w, how often the value is not ignored."""
        return Fraction(self.arc * self.step, 1 << self.word_bits)

    @property
    def own(self) -> Fraction:
        """p = γ + (1−γ)s/M.

        Where A·M is no power of two, reports that ignore the value are uniform up to A·M/2^w in all: below 1e-9 for a
        hundred thousand values, and nothing to do with privacy.
        """
        return self.truthful + (1 - self.truthful) * Fraction(self.arc, self.circle)

    @property
    def other(self) -> Fraction:
        """q = γ(s−1)/(M−1) + (1−γ)s/M: whoever is covered has s − 1 of the M − 1 others beside them."""
        beside, share = Fraction(self.arc - 1, self.circle - 1), Fraction(self.arc, self.circle)
        return self.truthful * beside + (1 - self.truthful) * share

    # -- reports -------------------------------------------------------------------------------------------------

    @classmethod
    def sampler(cls, mechanisms: Sequence[Self]) -> RuleSampler:
        """The randomizer of several: by the rule, or for arrays from tables where reports are few."""
        n_rows, n_reports = sum(each.size for each in mechanisms), max(each.n_reports for each in mechanisms)
        if beginning(n_rows, n_reports) is None:
            return super().sampler(mechanisms)
        return FewReports(mechanisms)

    @cached_property
    def pairs(self) -> BigIntegers:
        """For how many of the 2^2w pairs of words each value sends each report: base·b + step·c·1{y covers x}."""
        below = [_words_below(report, self) for report in range(self.n_reports + 1)]
        words = np.array(below[1:], dtype=object) - np.array(below[:-1], dtype=object)
        in_order = words.reshape(self.orders, self.circle).sum(axis=1).repeat(self.circle)
        covered = self.covers(np.arange(self.n_reports)).T
        found: BigIntegers = self.base * words + self.step * in_order * covered.astype(object)
        return found

    def draw(self, value: int, words: tuple[int, ...]) -> int:
        """The report of `value`: a pure function of two words."""
        uniform = words[1] * self.n_reports >> self.word_bits
        if words[0] < self.base:
            return uniform
        order = uniform // self.circle
        nth = (words[0] - self.base) // self.step
        back = int(self.differences[nth]) if self.field else nth
        return order * self.circle + ((order + 1) * value - back) % self.circle

    def draw_many(self, values: Integers, words: NDArray[np.uint64]) -> Integers:
        """`draw` for arrays, compiled where words have 64 bits."""
        if self.word_bits != 64:
            return np.array([self.draw(x, pair) for x, pair in zip(values.tolist(), words.tolist(), strict=True)])
        from tacit.mechanism import pure_loops as loops

        reports = np.empty(len(values), dtype=np.int64)
        differences = self.differences if self.field else np.zeros(0, dtype=np.int64)
        base, step, circle, n_reports = map(np.uint64, (self.base, self.step, self.circle, self.n_reports))
        loops.block_draw(values, words, differences, base, step, circle, n_reports, reports)
        return reports

    def likelihood(self, value: int, report: int) -> Fraction:
        """Q(report|value), exactly: words counted, not probabilities multiplied."""
        order, position = divmod(report, self.circle)
        words = _words_below(report + 1, self) - _words_below(report, self)
        in_order = _words_below((order + 1) * self.circle, self) - _words_below(order * self.circle, self)
        covered = ((order + 1) * value - position) % self.circle in self._differences
        pairs = self.base * words + (self.step * in_order if covered else 0)
        return Fraction(pairs, 1 << 2 * self.word_bits)

    @cached_property
    def _differences(self) -> frozenset[int]:
        return frozenset(self.differences.tolist())

    def covers(self, reports: Integers, values: Integers | None = None) -> NDArray[np.bool_]:
        """Whether (a·x − y) mod M ∈ D, for each report and value."""
        orders, positions = np.divmod(reports, self.circle)
        asked = np.arange(self.size) if values is None else values
        away = (np.outer(orders + 1, asked) - positions[:, None]) % self.circle
        covered: NDArray[np.bool_] = np.isin(away, self.differences) if self.field else away < self.arc
        return covered

    def cover_counts(self, reports: Integers, times: Integers | None) -> Integers:
        """C_x: O(d) for each different report in all orders, and a convolution for all together in one order."""
        if self.orders == 1:
            return self._convolved(_sums(reports, times, self.circle))[: self.size]
        from tacit.mechanism.pure_loops import count_arcs

        if self.n_reports < len(reports):
            counts = _sums(reports, times, self.n_reports)
            reports = np.flatnonzero(counts)
            times = counts[reports]
        return count_arcs(reports, times, self.size, self.circle, self.arc)

    def _convolved(self, counts: Integers) -> Integers:
        """Σ_{δ∈D} counts[x − δ] for every place x, exactly: floats carry a few bits of the counts at a time."""
        if self.arc == 1 and not self.field:
            return counts
        total = np.zeros(self.circle, dtype=np.int64)
        for shift in range(0, int(counts.max(initial=0)).bit_length(), _EXACT_BITS):
            some = counts >> shift & (1 << _EXACT_BITS) - 1
            found = np.fft.irfft(np.fft.rfft(some) * self._transform, self.circle)
            total += np.rint(found).astype(np.int64) << shift
        return total

    @cached_property
    def _transform(self) -> NDArray[np.complex128]:
        indicator = np.zeros(self.circle)
        indicator[self.differences] = 1.0
        return np.fft.rfft(indicator)

    # -- the contract --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """What a plan holds beside the prior: integers below 2^53, and one that may be larger as a string."""
        return {
            "kind": self.kind,
            "circle": self.circle,
            "orders": self.orders,
            "arc": self.arc,
            "field": self.field,
            "recurrence": list(self.recurrence),
            "step": str(self.step),
            "word_bits": self.word_bits,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], prior: Prior) -> Self:
        """Read what `to_dict` wrote; the design is checked again."""
        numbers = {name: data[name] for name in ("circle", "orders", "arc", "field", "word_bits")}
        if not isinstance(data["recurrence"], list):
            raise ValueError("The 'recurrence' of a block design must be a list.")
        for number in (*numbers.values(), *data["recurrence"]):
            if type(number) is not int or not 0 <= number < 2**53:
                raise ValueError("The numbers of a block design must be integers from 0 to 2^53 - 1.")
        (step,) = exact_integers([data["step"]])
        return cls(prior=prior, step=step, recurrence=tuple(data["recurrence"]), **numbers)


class FewReports(RuleSampler):
    """Block designs of few reports: one respondent's by the rule, as in a browser, those of many from tables, if there
    are more respondents than entries to be written out.
    """

    def __init__(self, designs: Sequence[BlockDesign]) -> None:
        super().__init__([(each, StandIn(Prior.uniform(each.size))) for each in designs])
        self._designs = designs

    def many(self, members: Integers, positions: Integers, words: RandomWords) -> Integers:
        """A report for each respondent."""
        entries = sum(design.size * design.n_reports for design in self._designs)
        if len(positions) > entries:
            return self.tables.many(members, positions, words)
        return super().many(members, positions, words)

    @cached_property
    def tables(self) -> TableSampler:
        """Of all pairs of words, by design."""
        return TableSampler([(design.pairs, 1 << 2 * design.word_bits) for design in self._designs])


def _words_below(report: int, design: BlockDesign) -> int:
    """How many β have ⌊β·A·M/2^w⌋ < report."""
    return -(-(report << design.word_bits) // design.n_reports)


def _sums(reports: Integers, times: Integers | None, size: int) -> Integers:
    """How often each report came in all."""
    if times is None:
        return np.bincount(reports, minlength=size)
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, reports, times)
    return sums
