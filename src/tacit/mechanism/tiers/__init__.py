"""The mechanism `tiers`: histograms of many values for a set of priors, where some reports leave out the heaviest ones.

A report belongs to a public tier, drawn without regard to the answer. Tier j is about the values of its tail, all but
the `starts[j]` heaviest ones: a rule of `many-values` for the prior of the tail, with an arc and no giants. A head of
the tier, a value that is left out, sends an arc that lies anywhere. Tier 0 leaves out none.

Why.  A prior that may be off by τ can take the mass τ from the values that a report covers, if they have no more, and
put it on others. With two levels that leaves the ratio E of LDP. Heads are a third level between: what is taken beyond
the covered mass comes from them, at level 1, so that a report about a light tail may have levels nearly as far apart as
for one prior. What heads lose in one tier they get in another; where values are many and most of them light, that is
little (`designs._tiers`).

The promise.  In the words of a position (`ManyValuesRule.report_weights`) a value of the tail sends a report for c +
e_x words, 0 ≤ e_x ≤ t, and a head for c + g, g ≤ t: those that ignored answers have beyond c. Let heads have the mass H
and the tail T = 1 − H, and let A be the integral of e over the tail, T·t·(part ± slack). A prior within τ of this one
moves the mass τ at most. The mean of e, Hg + A, therefore falls by no more than the mass τ where e is largest holds,

    min(A, τt) + g·min(max(τ − A/t, 0), H),

for a mass τ' of the tail holds at most min(A, τ't); and it rises by no more than τt less what the mass τ where e is
least holds: with Z = T − A/t

    g·min(max(τ − Z, 0), H) + t·max(τ − Z − H, 0),

for a mass τ' of the tail holds at least A − t(T − τ'). Both ends are monotone in A, so that the slack counts once. ∎

The estimate.  Let z be a row of pseudo-values of tier j and d = z − p, p = P for tier 0 and else what the tail's cells
have. Then E[d_x | y] is 1{x=y} − p_x for y in the tail and 0 for heads. With weights ω_j(x) that add up to 1 over the
tiers of x, in proportion to λ_j over the variance, raw_x = Σ_j 1{tier j} ω_j(x) d_x/λ_j has the mean

    E[raw_x | y] = 1{x=y} − b_x(y),    b_x(y) = Σ_j ω_j(x) p_x  over the tiers of both x and y.

b depends on y only by the last tier that y is in. The shares R of these groups are estimated so too, by K − 1
equations, and r_x = raw_x + b_x(0) + Σ_g (b_x(g) − b_x(0)) R_g is unbiased for every truth. The first term has nearly
all of the variance, for light values 1/Σ_j λ_j V_j with V_j the variance of the lifts of a tier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats, Integers
from tacit.mechanism.histogram_rule import HistogramRule, check_task
from tacit.mechanism.kept import COVERAGE_UNIT, Coverage, Kept
from tacit.mechanism.many_values import ManyValues
from tacit.mechanism.protocol import PlainEstimator, Reading
from tacit.prior import Prior
from tacit.task import Task

#: A report is below this: JSON and JavaScript hold integers below 2^53.
_MOST_REPORTS = 1 << 52
#: Up to this many tiers.
_MOST_TIERS = 8


@dataclass(frozen=True, kw_only=True)
class Tiers(HistogramRule):
    """Tiers with their rules; see the module's docstring.

    where: tier j is drawn with probability `chances[j]` of their sum, a power of two, leaves out the `starts[j]`
    heaviest values, and has the rule `parts[j]`, bound to the prior without them (`tail_of`).

    >>> prior = Prior.of([8, 3, 2, 2, 1])
    >>> rules = [dict(covered=4, arc=4, step=5), dict(covered=5, arc=5, step=4)]
    >>> parts = [ManyValues(prior=tail_of(prior, k), giants=0, cell_bits=4, seed_bits=2, word_bits=6, **rule)
    ...          for k, rule in enumerate(rules)]
    >>> made = Tiers(prior=prior, starts=(0, 1), chances=(1, 3), parts=tuple(parts))
    >>> made.draw(0, (63, 40, 63)), made.draw(1, (63, 40, 63)), made.draw(1, (63, 40, 0))
    (106, 101, 33)
    """

    kind: ClassVar[str] = "tiers"

    prior: Prior
    starts: tuple[int, ...]
    chances: tuple[int, ...]
    parts: tuple[ManyValues, ...]

    def __post_init__(self) -> None:
        size, total = len(self.prior.support), sum(self.chances)
        if not len(self.starts) == len(self.chances) == len(self.parts) <= _MOST_TIERS:
            raise ValueError(f"Tiers need a start, a chance and a rule each, and are at most {_MOST_TIERS}.")
        if self.starts[:1] != (0,) or list(self.starts) != sorted(set(self.starts)) or self.starts[-1] > size - 2:
            raise ValueError(f"The 'starts' must rise from 0 and leave at least two of {size} values.")
        if min(self.chances) < 1 or total & (total - 1) or total > 1 << self.word_bits:
            raise ValueError("The 'chances' must be positive and add up to a power of two that a word can reach.")
        for start, part in zip(self.starts, self.parts, strict=True):
            if part.prior.weights != tail_of(self.prior, start).weights:
                raise ValueError("The rule of a tier must be bound to the prior of its tail.")
            alike = (part.word_bits, part.seed_bits) == (self.word_bits, self.parts[0].seed_bits)
            if part.bins or (start and part.giants) or not alike:
                raise ValueError(
                    "Rules of tiers have no bins, equal 'word_bits' and 'seed_bits', giants in tier 0 only."
                )
        if self.edges[-1] > _MOST_REPORTS:
            raise ValueError("A report has more than 52 bits. Use fewer 'cell_bits'.")

    @property
    def is_quick(self) -> bool:
        """Whether its errors are found in milliseconds."""
        return all(part.is_quick for part in self.parts)

    def under(self, prior: Prior) -> Self:
        """The same mechanism for other names of the same values; raises `ValueError` for another prior."""
        if prior.on_support().weights != self.prior.on_support().weights:
            raise ValueError("This mechanism was made for another prior.")
        tails = [tail_of(prior, start) for start in self.starts]
        return replace(
            self, prior=prior, parts=tuple(part.under(tail) for part, tail in zip(self.parts, tails, strict=True))
        )

    def scaled(self, change: Callable[[int], int]) -> Self:
        """The same tiers, each with the step `change(step)`."""
        return replace(self, parts=tuple(part.scaled(change) for part in self.parts))

    # -- tiers ---------------------------------------------------------------------------------------------------

    @cached_property
    def places(self) -> list[Integers]:
        """For each tier where a value of the support stands among those of the tail; −1 for its heads."""
        found = []
        for part in self.parts:
            places = np.full(len(self.prior), -1, dtype=np.int64)
            places[list(part.prior.support)] = np.arange(len(part.prior.support))
            found.append(places[list(self.prior.support)])
        return found

    @cached_property
    def tails(self) -> list[Integers]:
        """The values of the tail of each tier, of those in the support."""
        return [np.flatnonzero(places >= 0) for places in self.places]

    @cached_property
    def edges(self) -> tuple[int, ...]:
        """The first report of each tier, and one more than the last of all."""
        return tuple(accumulate((part.end for part in self.parts), initial=0))

    @cached_property
    def _head_masses(self) -> list[Fraction]:
        """H of each tier."""
        return [1 - Fraction(sum(self.prior.weights[x] for x in part.prior.support), self.prior.total)
                for part in self.parts]  # fmt: skip

    # -- the promise ---------------------------------------------------------------------------------------------

    def lift_range(self, radius: Fraction = Fraction(0)) -> tuple[Fraction, Fraction]:
        """Exact bounds (highest, lowest) of the lifts under every prior within total variation `radius`."""
        ranges = [lift_range_of_tier(*each, radius) for each in zip(self.parts, self._head_masses, strict=True)]
        return max(high for high, _ in ranges), min(low for _, low in ranges)

    @cached_property
    def odds(self) -> Fraction:
        """A bound of the ratio of the likelihoods of two values."""
        return max(part.odds for part in self.parts)

    def likelihood(self, value: int, report: int) -> Fraction:
        """Q(report|value), exactly."""
        if not 0 <= report < self.edges[-1]:
            return Fraction(0)
        tier = self._tier_of(report)
        part, place, below = self.parts[tier], int(self.places[tier][value]), report - self.edges[tier]
        chance = Fraction(self.chances[tier], sum(self.chances))
        if place >= 0:
            return chance * part.likelihood(place, below)
        return chance * part.circle.likelihood_of_uniform(*divmod(below, 1 << part.cell_bits))

    # -- reports -------------------------------------------------------------------------------------------------

    @property
    def word_bits(self) -> int:
        """w, the bits of every word."""
        return self.parts[0].word_bits

    @property
    def choice_bits(self) -> int:
        """W, the bits of α, the first of the first word."""
        return self.parts[0].choice_bits

    @property
    def words_per_report(self) -> int:
        """Those of the rule that needs most, and the last, for the tier."""
        return max(part.words_per_report for part in self.parts) + 1

    @property
    def steps_per_report(self) -> int:
        """What drawing a report costs, in steps of a loop."""
        return max(part.steps_per_report for part in self.parts)

    @cached_property
    def _chance_edges(self) -> Integers:
        """The first of the leading bits of the last word that chooses each tier but the first."""
        return np.cumsum(self.chances)[:-1]

    @property
    def _chance_bits(self) -> int:
        return sum(self.chances).bit_length() - 1

    def _tier_of(self, report: int) -> int:
        return sum(report >= edge for edge in self.edges[1:-1])

    def draw(self, value: int, words: tuple[int, ...]) -> int:
        """The report of `value`: a pure function of its words, that for the tier last."""
        chosen = words[-1] >> self.word_bits - self._chance_bits
        tier = int(np.searchsorted(self._chance_edges, chosen, side="right"))
        part, place = self.parts[tier], int(self.places[tier][value])
        # With α = 0 an answer is ignored; what is left of the word is the seed.
        first = words[0] if place >= 0 else words[0] & (1 << part.seed_bits // 2) - 1
        return self.edges[tier] + part.draw(max(place, 0), (first, *words[1 : part.words_per_report]))

    def draw_many(self, values: Integers, words: NDArray[np.uint64]) -> Integers:
        """`draw` for arrays."""
        chosen = (words[:, -1] >> np.uint64(self.word_bits - self._chance_bits)).astype(np.int64)
        tiers, reports = np.searchsorted(self._chance_edges, chosen, side="right"), np.empty(len(values), np.int64)
        for tier, part in enumerate(self.parts):
            mine = np.flatnonzero(tiers == tier)
            places, own = self.places[tier][values[mine]], words[mine, : part.words_per_report]
            own[places < 0, 0] &= np.uint64((1 << part.seed_bits // 2) - 1)
            drawn = part.draw_many(np.maximum(places, 0), np.ascontiguousarray(own))
            reports[mine] = self.edges[tier] + drawn
        return reports

    def can_send_many(self, reports: Integers) -> NDArray[np.bool_]:
        """Whether there are such reports; every value can send all of them."""
        good = np.zeros(len(reports), dtype=np.bool_)
        for part, first, end in zip(self.parts, self.edges, self.edges[1:], strict=False):
            mine = (reports >= first) & (reports < end)
            good[mine] = part.can_send_many(reports[mine] - first)
        return good

    # -- what is kept --------------------------------------------------------------------------------------------

    @property
    def n_sums(self) -> int:
        """A sum for each value of each tail, and the number of reports of each tier."""
        return sum(len(tail) + 1 for tail in self.tails)

    def keep(self, reports: Integers, times: Integers | None = None) -> Coverage:
        """The sums of coverage of the reports, tier by tier, each followed by its number of reports."""
        return Coverage.of(self.fold(reports, times), reports, times)

    def fold(self, reports: Integers, times: Integers | None = None) -> Integers:
        """What `keep` keeps, in units of 2^-20."""
        reports, sums = np.ascontiguousarray(reports, dtype=np.int64), []
        for part, first, end in zip(self.parts, self.edges, self.edges[1:], strict=False):
            mine = (reports >= first) & (reports < end)
            often = None if times is None else times[mine]
            sums.append(part.fold(reports[mine] - first, often))
            count = mine.sum() if often is None else often.sum()
            sums.append(np.array([COVERAGE_UNIT * int(count)], dtype=np.int64))
        return np.concatenate(sums)

    def _split(self, kept: Kept) -> list[Coverage]:
        """What is kept of each tier."""
        sums, found, at = kept.folded(self.fold), [], 0
        if sums.coverage.shape != (self.n_sums,):
            raise ValueError("These sums of coverage cannot be of this mechanism's reports.")
        for tail in self.tails:
            end = at + len(tail)
            found.append(Coverage(sums.coverage[at:end], int(sums.coverage[end]) // COVERAGE_UNIT))
            at = end + 1
        if sum(each.total for each in found) != sums.total:
            raise ValueError("These sums of coverage cannot be of this mechanism's reports: they do not add up.")
        return found

    # -- what reports tell ---------------------------------------------------------------------------------------

    @cached_property
    def _shares(self) -> Floats:
        """λ, how often each tier is drawn."""
        return np.array(self.chances) / sum(self.chances)

    @cached_property
    def _p(self) -> Floats:
        """P on the support."""
        return self.prior.on_support().probabilities

    @cached_property
    def _centres(self) -> list[Floats]:
        """p of each tier."""
        return [self._p, *(part._shares for part in self.parts[1:])]

    @cached_property
    def _groups(self) -> Integers:
        """The last tier that each value is in."""
        return (np.array(self.places) >= 0).sum(axis=0, dtype=np.int64) - 1

    @cached_property
    def _seconds(self) -> list[Floats]:
        """E[d_x²] of each tier under the prior."""
        first, *others = self.parts
        return [first.variances(), *(part.information.inverse_diagonal() - part._shares**2 for part in others)]

    @cached_property
    def _weights(self) -> Floats:
        """ω_j(g), a row for each tier and a column for each group."""
        count = len(self.parts)
        found = np.zeros((count, count))
        for j, (tail, second) in enumerate(zip(self.tails, self._seconds, strict=True)):
            for g in range(j, count):
                found[j, g] = self._shares[j] / second[self._groups[tail] == g].mean()
        return found / found.sum(axis=0)

    @cached_property
    def _common(self) -> tuple[Floats, Floats, Floats]:
        """b_x(0), the matrix Δ of b_x(g) − b_x(0), g ≥ 1, and (I − sums of Δ over groups)⁻¹."""
        count, of_tiers = len(self.parts), np.zeros((len(self.parts), len(self._p)))
        for j, (tail, centre) in enumerate(zip(self.tails, self._centres, strict=True)):
            of_tiers[j, tail] = self._weights[j, self._groups[tail]] * centre
        sums = np.cumsum(of_tiers, axis=0)
        more = (sums[1:] - sums[0]).T
        inverse: Floats = np.linalg.inv(np.eye(count - 1) - self._by_group(more.T).T[1:]).astype(np.float64)
        return sums[0], more, inverse

    def _by_group(self, numbers: Floats) -> Floats:
        """Sums over the values of each group, along the last axis."""
        members = (self._groups[:, None] == np.arange(len(self.parts))).astype(np.float64)
        return numbers @ members

    def _combined(self, off: Iterable[Floats], weight: float) -> Floats:
        """r of a report, or their sum over reports, from d of each tier; arrays may have several rows."""
        raw: Floats = np.zeros(0)
        for j, (tail, each) in enumerate(zip(self.tails, off, strict=True)):
            if not j:
                raw = np.zeros(each.shape)
            raw[..., tail] += self._weights[j, self._groups[tail]] / self._shares[j] * each
        first, more, inverse = self._common
        wanted = self._by_group(raw) + self._by_group(first) * weight
        return raw + first * weight + wanted[..., 1:] @ inverse.T @ more.T

    @cached_property
    def _more_variance(self) -> Floats:
        """What the shares of groups add to the variance of r under the prior."""
        _, more, inverse = self._common
        slopes, added, count = more @ inverse, np.zeros(len(self._p)), len(self.parts)
        for j, (part, tail, weights) in enumerate(zip(self.parts, self.tails, self._weights, strict=True)):
            groups, shares = self._groups[tail], part._shares
            if len(tail) == 1:
                continue
            members = (groups == np.arange(1, count)[:, None]) * weights[1:, None]
            covariance = part.information.solve(members.astype(np.float64)) - np.outer(members @ shares, shares)
            among = covariance @ members.T
            own = (weights[groups][:, None] * covariance.T * slopes[tail]).sum(axis=1)
            added[tail] += 2 * own / self._shares[j]
            added += ((slopes @ among) * slopes).sum(axis=1) / self._shares[j]
        return added

    def variances(self) -> Floats:
        """The variance per respondent of the unbiased share of every value, if the prior is true."""
        found = self._more_variance.copy()
        for j, (tail, second) in enumerate(zip(self.tails, self._seconds, strict=True)):
            found[tail] += self._weights[j, self._groups[tail]] ** 2 / self._shares[j] * second
        return found

    def gains(self) -> Floats:
        """What a report removes from P_x(1 − P_x): Σ_j λ_j T_j² times what the rule of the tier does for its tail."""
        found = np.zeros(len(self._p))
        for share, part, tail, heads in zip(self._shares, self.parts, self.tails, self._head_masses, strict=True):
            found[tail] += share * float(1 - heads) ** 2 * part.gains()
        return found

    def read(self, estimator: PlainEstimator, task: Task, kept: Kept) -> Reading:
        """The histogram: of the best guesses after each report, or unbiased (see the module's docstring)."""
        check_task(task, estimator)
        split, inside = self._split(kept), list(self.prior.support)
        weight, p = float(sum(each.total for each in split)), self._p
        outside = 0.0 if estimator == "mmse" else np.nan
        estimate, spreads, growth = np.full(len(self.prior), outside), np.full(len(self.prior), outside), None
        if estimator == "mmse":
            found, moved = p * weight, 0.0
            for part, tail, heads, each in zip(self.parts, self.tails, self._head_masses, split, strict=True):
                mass, read = float(1 - heads), part.read("mmse", task, each)
                found[tail] += mass * read.estimate[list(part.prior.support)] - p[tail] * each.total
                moved = max(moved, mass * read.changed, mass * read.added)
            estimate[inside], spreads[inside] = found, weight * np.maximum(p * (1 - p) - self.gains(), 0.0)
            return Reading(estimate, spreads, 2 * moved, moved + float(p.max()), slope=np.zeros(len(self.prior)))
        off, spread, growth = [], self._more_variance.copy(), np.zeros(len(self.prior))
        mean, more = np.zeros(len(p)), np.zeros(len(p))
        for j, (part, tail, centre, each) in enumerate(zip(self.parts, self.tails, self._centres, split, strict=True)):
            sums = part.unbiased_sums(each.coverage, float(each.total))
            off.append(sums - centre * each.total)
            factor = self._weights[j, self._groups[tail]] / self._shares[j]
            if not each.total:
                spread[tail] += factor**2 * self._shares[j] * self._seconds[j]
                continue
            own, grows = part._spread_and_growth(each.coverage, sums, float(each.total))
            seen, share = sums / each.total, each.total / weight
            held = np.clip(seen, 0.0, 1.0)
            # `own` is given the answers; what is added is not, since the tier of an answer is random.
            spread[tail] += share * factor**2 * (np.maximum(own + held * (1 - held), 0.0) + (seen - centre) ** 2)
            mean[tail] += share * factor * (seen - centre)
            more[tail] += share * factor**2 * (grows + 1 - 2 * centre)
        found = self._combined(off, weight)
        held = np.clip(found / max(weight, 1.0), 0.0, 1.0)
        spread -= mean**2 + held * (1 - held)
        estimate[inside], spreads[inside] = found, weight * np.maximum(spread, 0.0)
        growth[inside] = more - 1 if weight else 0.0
        return Reading(estimate, spreads, *self._influence, slope=growth)

    @cached_property
    def _influence(self) -> tuple[float, float]:
        """How far one report changed to another, or added, can move a sum: at most what the most sensitive tier does,
        twice where one is changed to a report of another tier.
        """
        alone = [
            float((self._weights[j, self._groups[tail]] / self._shares[j]).max())
            * (part._influence[1] + float(centre.max()))
            for j, (part, tail, centre) in enumerate(zip(self.parts, self.tails, self._centres, strict=True))
        ]
        return 2 * max(alone), max(alone) + float(self._p.max())

    def pseudo_values(self, task: Task, reports: Integers, values: Sequence[int] | None = None) -> Floats:
        """r of each report."""
        check_task(task)
        reports, off = np.ascontiguousarray(reports, dtype=np.int64), []
        for part, tail, centre, first, end in zip(
            self.parts, self.tails, self._centres, self.edges, self.edges[1:], strict=False
        ):
            rows, mine = np.zeros((len(reports), len(tail))), (reports >= first) & (reports < end)
            rows[mine] = part.pseudo_values(task, reports[mine] - first)[:, list(part.prior.support)] - centre
            off.append(rows)
        found = np.full((len(reports), len(self.prior)), np.nan)
        found[:, list(self.prior.support)] = self._combined(off, 1.0)
        return found if values is None else found[:, list(values)]

    # -- the prior check -----------------------------------------------------------------------------------------

    def prior_statistic(self, kept: Kept) -> tuple[float, int]:
        """The sum of the tiers' statistics: their reports are independent."""
        found = [part.prior_statistic(each) for part, each in zip(self.parts, self._split(kept), strict=True)]
        return sum(statistic for statistic, _ in found), sum(freedom for _, freedom in found)

    def prior_scores(self, kept: Kept) -> Floats:
        """The squares of all tiers."""
        split = zip(self.parts, self._split(kept), strict=True)
        return np.concatenate([part.prior_scores(each) for part, each in split])

    # -- the contract --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """What a plan holds beside the prior: for each tier its start, its chance and its rule."""
        tiers = zip(self.starts, self.chances, self.parts, strict=True)
        return {
            "kind": self.kind,
            "tiers": [{"start": start, "chance": chance, "rule": part.to_dict()} for start, chance, part in tiers],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], prior: Prior) -> Self:
        """Read what `to_dict` wrote; raises `ValueError` for what no tiers can be."""
        for each in data["tiers"]:
            for name in ("start", "chance"):
                if type(each[name]) is not int or not 0 <= each[name] < 2**53:
                    raise ValueError(f"The {name!r} of a tier must be an integer from 0 to 2^53 - 1.")
            if each["rule"]["kind"] != ManyValues.kind or not each["start"] <= len(prior.support) - 2:
                raise ValueError("A tier must have a rule of many-values, and leave at least two values.")
        return cls(
            prior=prior,
            starts=tuple(each["start"] for each in data["tiers"]),
            chances=tuple(each["chance"] for each in data["tiers"]),
            parts=tuple(ManyValues.from_dict(each["rule"], tail_of(prior, each["start"])) for each in data["tiers"]),
        )


def tail_of(prior: Prior, start: int) -> Prior:
    """The prior without its `start` heaviest values, of equally heavy ones the first.

    >>> tail_of(Prior.of([5, 9, 5, 1]), 2).weights
    (0, 0, 5, 1)
    """
    falling = sorted(prior.support, key=lambda x: -prior.weights[x])
    heads = set(falling[:start])
    return Prior(prior.values, [0 if x in heads else weight for x, weight in enumerate(prior.weights)])


def lift_range_of_tier(part: ManyValues, heads: Fraction, radius: Fraction) -> tuple[Fraction, Fraction]:
    """Exact bounds (highest, lowest) of the lifts of a tier under every prior within `radius`, as proved above.

    where: `part` is the rule of its tail, `heads` = H.
    """
    if not heads:
        return part.lift_range(radius)
    highest, lowest, tail = Fraction(1), Fraction(1), 1 - heads
    for each in part.report_weights():
        most, ignored = each.on_arc, each.common // part.circle.base * (part.arc * part.step)
        least, largest = (tail * most * max(each.part + sign * each.slack, Fraction(0)) for sign in (-1, 1))
        reach = max(radius - least / most, Fraction(0))
        down = heads * ignored + least - min(least, radius * most) - ignored * min(reach, heads)
        over = radius - (tail - min(largest / most, tail))
        held = ignored * min(max(over, Fraction(0)), heads) + most * max(over - heads, Fraction(0))
        up = heads * ignored + largest + radius * most - held
        highest = max(highest, (each.common + most) / (each.common + max(down, Fraction(0))))
        lowest = min(lowest, each.common / (each.common + min(up, Fraction(most))))
    return highest, lowest
