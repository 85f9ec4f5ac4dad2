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
  of it that all people send equally often.
- *the value itself*: D = {0} and A = 1: k-ary randomized response.

What is sampled.  Two words α, β uniform on {0, …, 2^w − 1}; base = 2^w − s·step:

    α < base:  the report is ⌊β·A·M/2^w⌋;
    else:      its order is that report's, and its position a·x − D_j mod M, j = (α − base) // step, exactly uniform.

There is no rejection and no floating point. Of the 2^2w pairs (α, β) value x sends the report (a, y) for

    base·b_{a,y} + step·c_a·1{y covers x},     b ≥ ⌊2^w/AM⌋,   c_a ≤ ⌈2^w/A⌉,

b and c being how many β give a report or an order, the same for every value. So the odds between two values are at
most r = 1 + step·⌈2^w/A⌉/(base·⌊2^w/AM⌋), for any D: privacy does not rest on the design, only the estimate does.
Where reports are few, these numbers are written out (`pairs`) and reports are drawn from them as from any table, over
2^2w: the same probabilities from a word of 2w bits that is read lazily (`table._sampler`).

What reports tell.  It is a pure protocol (Wang et al. 2017): every report covers some of the values, and its likelihood
under x depends on nothing but whether it covers x,

    Q(y|x) = A_y + B_y·1{y covers x},     (A_y + B_y)/A_y ≤ r   (`odds`),

so ln r is its LDP level. A report covers the value of its sender with probability p (`own`),
and each other value with one and the same probability q (`other`), so that among N reports the C_x that cover x give

    n̂_x = (C_x − Nq)/(p − q),     Var n̂_x = (n_x p(1−p) + (N − n_x) q(1−q))/(p − q)²,

unbiased for every truth, with a variance that is exact and contains no prior. Reports are kept as the sums C.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.exact import BigIntegers, Floats, Integers, exact_integers
from tacit.mechanism.histogram_rule import HistogramRule, check_task, scores_of_coverage
from tacit.mechanism.kept import COVERAGE_UNIT, Coverage, Kept
from tacit.mechanism.protocol import PlainEstimator, RandomWords, Reading, are_below
from tacit.mechanism.sampling import RuleSampler, StandIn
from tacit.mechanism.singer import difference_set, is_prime, meets_all_points, n_points, prime_power
from tacit.mechanism.table._sampler import TableSampler, beginning
from tacit.prior import Prior
from tacit.task import Task

#: The prior check looks at the coverage of this many values, the heaviest ones, with correlations of this many reports.
_CHECKED, _SAMPLED = 16, 1 << 16
#: Reports stay below 2^52, which JSON and JavaScript hold, and a difference set is written out on every device.
MOST_REPORTS, MOST_POINTS = 1 << 52, 1 << 20
#: Counts of reports are transformed this many bits at a time, which floats do exactly.
_EXACT_BITS = 20


@dataclass(frozen=True, kw_only=True)
class BlockDesign(HistogramRule):
    """A block design for the values of `prior`; see the module's docstring.

    where: `circle` = M, `orders` = A, `arc` = s, `step` and `word_bits` = w as there. `field` = q and `recurrence` are
    those of the difference set (`singer`); 0 and () where D is the arc {0, …, s−1}.

    >>> fano = BlockDesign(
    ...     prior=Prior.uniform(7), circle=7, orders=1, arc=3, step=6, field=2, recurrence=(1, 1, 0), word_bits=6
    ... )
    >>> fano.differences.tolist(), str(fano.odds), fano.draw(4, (63, 0))
    ([0, 1, 3], '133/69', 1)
    """

    prior: Prior = dataclass_field(hash=False)
    circle: int
    orders: int
    arc: int
    step: int
    field: int = 0
    recurrence: tuple[int, ...] = ()
    word_bits: int = 64

    kind: ClassVar[str] = "block-design"
    words_per_report: ClassVar[int] = 2
    steps_per_report: ClassVar[int] = 2

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

    def under(self, prior: Prior) -> Self:
        """The same mechanism for other beliefs about as many values: no prior enters its rule."""
        if len(prior) != self.size:
            raise ValueError(f"This mechanism was made for {self.size} values. Got a prior of {len(prior)}.")
        return replace(self, prior=prior)

    def scaled(self, change: Callable[[int], int]) -> Self:
        """The same design with the step `change(step)`."""
        return replace(self, step=change(self.step))

    # -- the design ----------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """d, the number of values."""
        return len(self.prior)

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
    def choice_bits(self) -> int:
        """α is the whole first word."""
        return self.word_bits

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
        """q = γ(s−1)/(M−1) + (1−γ)s/M: a covered value has s − 1 of the M − 1 others beside it."""
        beside, share = Fraction(self.arc - 1, self.circle - 1), Fraction(self.arc, self.circle)
        return self.truthful * beside + (1 - self.truthful) * share

    @property
    def is_quick(self) -> bool:
        return True

    def lift_range(self, radius: Fraction = Fraction(0)) -> tuple[Fraction, Fraction]:
        """Exact bounds (highest, lowest) of the lifts of the values with positive prior; r and 1/r, which hold under
        every prior there is, for a `radius`.

        With m the prior mass of the values that a report covers, a covered value has the lift r'/(1 + (r'−1)m) and
        another one 1/(1 + (r'−1)m), for some r' ≤ r. Both are widest at r. A covered x has m ≥ P_x, and m is at least
        the mass of the fewest lightest values that a report can cover; the same from above for one that is not.
        """
        if radius:
            return self.odds, 1 / self.odds
        prior = self.prior
        weights, (fewest, most) = sorted(prior.weights), self.cover_range
        rarest = min(weight for weight in weights if weight)
        light = max(rarest, sum(weights[:fewest]))
        heavy = min(prior.total - rarest, sum(weights[len(weights) - most :]))
        more = self.odds - 1
        return self.odds / (1 + more * light / prior.total), 1 / (1 + more * heavy / prior.total)

    # -- reports -------------------------------------------------------------------------------------------------

    @classmethod
    def sampler(cls, mechanisms: Sequence[Self]) -> RuleSampler:
        """The randomizer of several: by the rule, or for arrays from tables where reports are few."""
        n_rows, n_reports = sum(each.size for each in mechanisms), max(each.n_reports for each in mechanisms)
        if beginning(n_rows, n_reports) is None:
            return _ByRule(mechanisms)
        return FewReports(mechanisms)

    @cached_property
    def pairs(self) -> BigIntegers:
        """For how many of the 2^2w pairs of words each value sends each report: base·b + step·c·1{y covers x}."""
        words = np.diff(np.array([self._words_below(report) for report in range(self.n_reports + 1)], dtype=object))
        in_order = words.reshape(self.orders, self.circle).sum(axis=1).repeat(self.circle)
        covered = self.covers(np.arange(self.n_reports)).T
        return self.base * words + self.step * in_order * covered.astype(object)

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
        from tacit.mechanism.block_design import _kernels as loops

        reports = np.empty(len(values), dtype=np.int64)
        differences = self.differences if self.field else np.zeros(0, dtype=np.int64)
        base, step, circle, n_reports = map(np.uint64, (self.base, self.step, self.circle, self.n_reports))
        loops.block_draw(values, words, differences, base, step, circle, n_reports, reports)
        return reports

    def likelihood(self, value: int, report: int) -> Fraction:
        """Q(report|value), exactly: words counted, not probabilities multiplied."""
        first = report - report % self.circle
        words = self._words_below(report + 1) - self._words_below(report)
        in_order = self._words_below(first + self.circle) - self._words_below(first)
        covered = bool(self.covers(np.array([report]), np.array([value]))[0, 0])
        return Fraction(self.base * words + self.step * in_order * covered, 1 << 2 * self.word_bits)

    def _words_below(self, report: int) -> int:
        """How many β have ⌊β·A·M/2^w⌋ < report."""
        return -(-(report << self.word_bits) // self.n_reports)

    def covers(self, reports: Integers, values: Integers | None = None) -> NDArray[np.bool_]:
        """Whether (a·x − y) mod M ∈ D, for each report and value."""
        orders, positions = np.divmod(reports, self.circle)
        asked = np.arange(self.size) if values is None else values
        away = (np.outer(orders + 1, asked) - positions[:, None]) % self.circle
        return np.isin(away, self.differences) if self.field else away < self.arc

    def cover_counts(self, reports: Integers, times: Integers | None) -> Integers:
        """C_x: O(d) for each different report in all orders, and a convolution for all together in one order."""
        if self.orders == 1:
            return self._convolved(_sums(reports, times, self.circle))[: self.size]
        from tacit.mechanism.block_design._kernels import count_arcs

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

    def can_send_many(self, reports: Integers) -> NDArray[np.bool_]:
        return are_below(reports, self.n_reports)

    @property
    def n_sums(self) -> int:
        return self.size

    def keep(self, reports: Integers, times: Integers | None = None) -> Coverage:
        return Coverage.of(self.fold(reports, times), reports, times)

    def fold(self, reports: Integers, times: Integers | None = None) -> Integers:
        """C_x for every value, in the units of coverage: a value that is covered is covered whole."""
        return self.cover_counts(np.ascontiguousarray(reports, dtype=np.int64), times) * COVERAGE_UNIT

    # -- what reports tell ---------------------------------------------------------------------------------------

    @cached_property
    def _chances(self) -> tuple[float, float, Floats]:
        """p, q and how often each value is covered if the prior is true, π = share·p + (1 − share)·q."""
        p, q, share = float(self.own), float(self.other), self.prior.probabilities
        return p, q, share * p + (1 - share) * q

    def gains(self) -> Floats:
        """What a report removes from P_x(1 − P_x) by covering x or not: Cov²/Var = (P_x(1−P_x)(p−q))²/π_x(1−π_x)."""
        (p, q, covered), share = self._chances, self.prior.probabilities
        return (share * (1 - share) * (p - q)) ** 2 / (covered * (1 - covered))

    def variance_at(self, share: Any) -> Any:
        """π(1−π)/(p−q)², the variance per respondent of the estimated share of a value, π = share·p + (1−share)·q."""
        p, q, _ = self._chances
        covered = share * p + (1 - share) * q
        return covered * (1 - covered) / (p - q) ** 2

    def variances(self) -> Floats:
        """`variance_at` the prior's shares."""
        return np.asarray(self.variance_at(self.prior.probabilities))

    def read(self, estimator: PlainEstimator, task: Task, kept: Kept) -> Reading:
        """The histogram from the sums C of N reports.

        unbiased:  (C_x − Nq)/(p − q), with its exact variance at the estimated counts. It grows with n_x by
                   (p(1−p) − q(1−q))/(p−q)² = (1−p−q)/(p−q), the slope.
        mmse:      Σ Pr(x | whether the report covers x), the mean under the prior given that alone.
        """
        check_task(task, estimator)
        counts, n = self._counted(kept)
        p, q, covered = self._chances
        if estimator == "unbiased":
            estimate = (counts - n * q) / (p - q)
            share = np.clip(estimate / n, 0.0, 1.0) if n else np.zeros(self.size)
            spread = (share * p * (1 - p) + (1 - share) * q * (1 - q)) / (p - q) ** 2
            changed, added = 1 / (p - q), max(1 - q, q) / (p - q)
            return Reading(estimate, n * spread, changed, added, slope=(1 - p - q) / (p - q))
        share = self.prior.probabilities
        slope = share * (1 - share) * (p - q) / (covered * (1 - covered))
        estimate, spread, changed, added = self.best_guess(share, counts - n * covered, n, covered, slope)
        return Reading(estimate, n * spread, changed, added)

    def pseudo_values(self, task: Task, reports: Integers, values: Sequence[int] | None = None) -> Floats:
        """(1 − q)/(p − q) for the values that a report covers, −q/(p − q) for the others."""
        check_task(task)
        p, q, _ = self._chances
        covered = self.covers(reports, None if values is None else np.asarray(values, dtype=np.int64))
        return (covered.astype(np.float64) - q) / (p - q)

    def _counted(self, kept: Kept) -> tuple[Floats, float]:
        """C and N; reports that were kept one by one are folded."""
        sums = kept.folded(self.fold)
        counts, rest = np.divmod(sums.coverage, COVERAGE_UNIT)
        fewest, most = self.cover_range
        fits = counts.shape == (self.size,) and not rest.any() and bool(((counts >= 0) & (counts <= sums.total)).all())
        if not fits or not fewest * sums.total <= int(counts.sum()) <= most * sums.total:
            raise ValueError("These sums of coverage cannot be of this mechanism's reports.")
        return counts.astype(np.float64), float(sums.total)

    def prior_statistic(self, kept: Kept) -> tuple[float, int]:
        """How often the heaviest values are covered against what the prior expects.

        Means and variances if the prior is true are exact, correlations those of a fixed sample of reports, which for
        16 values are right to a hundredth or two in every direction.
        """
        (counts, n), expected = self._counted(kept), self._chances[2]
        if not n:
            return 0.0, 0
        heaviest = np.argsort(-self.prior.probabilities, kind="stable")[: min(_CHECKED, self.size - 1)]
        off = ((counts - n * expected) / np.sqrt(n * expected * (1 - expected)))[heaviest]
        return float(off @ np.linalg.solve(self._correlations(heaviest), off)), len(heaviest)

    def prior_scores(self, kept: Kept) -> Floats:
        """The same of every value, where the heaviest are not all that there are."""
        (counts, n), expected = self._counted(kept), self._chances[2]
        if self.size - 1 <= _CHECKED:
            return np.zeros(0)
        return scores_of_coverage(counts - n * expected, n * expected * (1 - expected))

    def _correlations(self, values: Integers) -> Floats:
        """Of being covered, between some values, if the prior is true: those of a sample that is always the same."""
        rng = np.random.default_rng(0)
        words = rng.integers(0, 1 << 64, (_SAMPLED, self.words_per_report), dtype=np.uint64)
        answers = rng.choice(self.size, _SAMPLED, p=self.prior.probabilities)
        reports = self.draw_many(answers, words >> np.uint64(64 - self.word_bits))
        covered = self.covers(reports, values).astype(np.float64)
        spread = covered.std(axis=0)
        # A value that the sample never covers has no known correlation.
        off = (covered - covered.mean(axis=0)) / np.where(spread, spread, 1.0)
        found: Floats = off.T @ off / _SAMPLED
        np.fill_diagonal(found, 1.0)
        return found

    # -- the contract --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """What a plan holds beside the prior: integers below 2^53, and one that may be larger as a string."""
        numbers = {name: getattr(self, name) for name in ("kind", "circle", "orders", "arc", "field")}
        return numbers | {"recurrence": list(self.recurrence), "step": str(self.step), "word_bits": self.word_bits}

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


class _ByRule(RuleSampler):
    """Block designs: a value with prior zero is randomized like any other, and needs no stand-in."""

    def __init__(self, designs: Sequence[BlockDesign]) -> None:
        super().__init__([(each, StandIn(Prior.uniform(each.size))) for each in designs])
        self._designs = designs


class FewReports(_ByRule):
    """Block designs of few reports: one respondent's by the rule, as in a browser, those of many from tables, if there
    are more respondents than entries to be written out.
    """

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


def _sums(reports: Integers, times: Integers | None, size: int) -> Integers:
    """How often each report came in all."""
    if times is None:
        return np.bincount(reports, minlength=size)
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, reports, times)
    return sums
