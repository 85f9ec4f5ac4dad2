"""Individual priors at the collector: counts per prior and report, and the total with its interval.

Reports are kept with their priors. The channel of a prior has Q(k|x) = c_k + s·1{x = k} (`tacit.personal`), so both
estimators have a closed form for each prior, with p the prior, λ_k = s·p_k + c_k and ḡ = Σ p_x g(x):

    mmse       t(k) = E[g|k] = ρ_k g(k) + (1 − ρ_k) ḡ  where ρ_k = s·p_k/λ_k,
               Var(g|k) = ρ_k (1 − ρ_k) (g(k) − ḡ)² + (1 − ρ_k) Σ p_x (g(x) − ḡ)²
    unbiased   t(k) = (g(k) − Σ_j c_j g(j)) / s, for which E[t(Y) | X = x] = g(x), however good the prior is.

An unbiased estimate takes a prior of zero as a fact: a person never counts for a value that is impossible for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.estimates import (
    Estimate,
    Found,
    PriorCheck,
    Scope,
    check_prior,
    counts_at_ends,
    ends_within,
    student,
)
from tacit.exact import Floats, Integers
from tacit.mechanism.protocol import MIN_EXPECTED
from tacit.personal.contract import PersonalPlan, as_rows, channels, prior_rows, valid_rows
from tacit.tally import Counts, Sources

#: Weights t(k) worked on at a time: priors × reports × components.
_CHUNK = 2**20
#: The variance of a sum is bounded by answers for up to this many different priors.
_MOST_PRIORS = 1000
#: Directions in which the report counts hardly vary (in units of their correlations) are left out of the prior check.
_SMALLEST_SPREAD = 1e-3


@dataclass(frozen=True, eq=False)
class PersonalTally:
    """The different priors that came, in ascending order, and how often each came with each report.

    `counts` holds the code index·d + report, with the sums of public weights where there are any (`tacit.tally`), so
    tallies of any split of the reports merge to the same. `refused` counts what the plan cannot have sent, `sources`
    say what was counted.
    """

    plan: str
    priors: Integers
    counts: Counts
    refused: int = 0
    sources: Sources = field(default=Sources())

    @classmethod
    def of(
        cls, plan: PersonalPlan, priors: Any, reports: Any, weights: Any = None, offsets: Any = None
    ) -> PersonalTally:
        """Count reports that came with these priors (and with public weights and offsets, for a weighted sum).

        >>> from tacit import Survey
        >>> plan = PersonalPlan.of(Survey("yes"), ["no", "yes"], 1, 1000)
        >>> PersonalTally.of(plan, [100, 250, 100], [1, 0, 1]).to_dict()["priors"]
        [[750, 250], [900, 100]]
        """
        rows, sent, d = as_rows(plan, priors), np.asarray(reports), len(plan.values)
        if sent.size and sent.dtype.kind not in "iu":
            raise ValueError(f"Reports must be integers. Got {sent.dtype} instead.")
        for name, column in (("report", sent), ("weight", weights), ("offset", offsets)):
            if column is not None and np.shape(column) != (len(rows),):
                raise ValueError(f"There must be one {name} for each prior. Got {np.size(column)} for {len(rows)}.")
        sent = sent.astype(np.int64)
        good = valid_rows(plan, rows) & (sent >= 0) & (sent < d)
        good &= rows[np.arange(len(rows)), np.where(good, sent, 0)] > 0
        distinct, inverse = _distinct(rows[good], plan.resolution)
        public = (None if column is None else np.asarray(column)[good] for column in (weights, offsets))
        return cls(plan.hash, distinct, Counts.of(inverse * d + sent[good], *public), int((~good).sum()))

    @property
    def n_reports(self) -> int:
        return self.counts.total

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PersonalTally):
            return False
        return replace(self, sources=Sources()).to_dict() == replace(other, sources=Sources()).to_dict()

    __hash__ = None  # type: ignore[assignment]

    def merge(self, other: PersonalTally) -> PersonalTally:
        """Both together. Refuses the tally of another plan, and one that has counted the same."""
        if self.plan != other.plan:
            raise ValueError(f"These tallies belong to different plans: {self.plan[:12]}… and {other.plan[:12]}….")
        sources = self.sources.merge(other.sources)
        d = self.priors.shape[1]
        both = np.concatenate([self.priors, other.priors])
        distinct, inverse = _distinct(both, int(both[:1].sum()))
        codes = inverse * d
        mine, theirs = codes[: len(self.priors)], codes[len(self.priors) :]
        first = replace(self.counts, reports=mine[self.counts.reports // d] + self.counts.reports % d)
        second = replace(other.counts, reports=theirs[other.counts.reports // d] + other.counts.reports % d)
        return PersonalTally(self.plan, distinct, first.merge(second), self.refused + other.refused, sources)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        about: dict[str, Any] = {"tacit_personal_tally": 1, "plan": self.plan, "refused": self.refused}
        about |= {"sources": self.sources.to_dict()} if self.sources.ids else {}
        return about | {"priors": self.priors.tolist()} | self.counts.to_dict()

    @classmethod
    def from_dict(cls, plan: PersonalPlan, data: Mapping[str, Any]) -> PersonalTally:
        """The inverse of `to_dict`; refuses what no tally of the plan can hold."""
        if data.get("tacit_personal_tally") != 1:
            other = " It is one for groups: leave the word `personal` out." if "tacit_tally" in data else ""
            raise ValueError(f"Not a personal tally of format 1.{other}")
        if data["plan"] != plan.hash:
            raise ValueError(f"It is of another plan: {str(data['plan'])[:12]}…, not {plan.hash[:12]}….")
        d, counts = len(plan.values), Counts.from_dict(data)
        priors = prior_rows(plan, np.array(data["priors"], dtype=np.int64).reshape(-1, d))
        distinct, inverse = _distinct(priors, plan.resolution)
        index, sent = np.divmod(counts.reports, d)
        if len(distinct) < len(priors) or (np.diff(inverse) < 0).any() or set(index) != set(range(len(priors))):
            raise ValueError("A personal tally needs ascending priors, each with at least one report.")
        if (priors[index, sent] == 0).any():
            raise ValueError("A personal tally cannot hold a report of a value that is impossible for its prior.")
        if type(data["refused"]) is not int or data["refused"] < 0:
            raise ValueError("The field 'refused' of a tally must be an integer from 0.")
        return cls(plan.hash, priors, counts, data["refused"], Sources.from_dict(data.get("sources")))


def estimate(
    plan: PersonalPlan,
    tally: PersonalTally,
    estimator: Literal["mmse", "unbiased"] = "unbiased",
    level: float = 0.95,
    *,
    scope: Scope | None = None,
    project: bool = False,
) -> Estimate:
    """The total over the people of a `tally` of a `plan`, as `tacit.estimates.estimate` gives it for groups.

    `influence` is the most that one forged report can move a row while its prior is the one the collector holds.

    The `estimator` is "unbiased", or "mmse", which uses each prior; intervals have the `level`. The `scope` is
    `population` or `participants`, as for groups; `mmse` and weighted sums are about the participants. With `project`
    estimates are moved to possible counts.
    """
    if estimator not in ("mmse", "unbiased"):
        raise ValueError(f"The 'estimator' of a personal plan must be mmse or unbiased. Got {estimator!r} instead.")
    if not 0 < level < 1:
        raise ValueError(f"The 'level' must lie between 0 and 1. Got {level} instead.")
    if tally.plan != plan.hash:
        raise ValueError(f"This tally belongs to another plan: {tally.plan[:12]}…, not {plan.hash[:12]}….")
    alone = estimator == "mmse" or (plan.task.takes_weights and tally.counts.sums is not None)
    if alone and scope == "population":
        raise ValueError("The estimator 'mmse', and sums with weights, are about the people who took part.")
    scope = scope or ("participants" if alone else "population")
    sums = _sums(plan, tally, estimator)
    found = Found.normal(sums.total, sums.variance, level)
    if estimator == "unbiased" and tally.n_reports:
        found = _with_ends(plan, sums, tally.n_reports, 0.0 if alone or scope == "participants" else 1.0, level)
    shown = plan.task.possible(sums.total, tally.n_reports) if project else sums.total
    return Estimate(
        n_reports=tally.n_reports, total_weight=sums.size, estimator=estimator, level=level,
        values=plan.task.row_values(plan.values), columns=found.columns(shown, np.full(len(shown), np.nan)),
        checks=lambda: (check_priors(plan, tally.priors, sums.times),) if tally.n_reports else (),
        moves=lambda: (float(sums.changed.max()), float(sums.added)), projected=project, scope=scope,
    )  # fmt: skip


@dataclass
class _Sums:
    """Sums over all reports, by component of g: of t and t² with the public weights, of the variance by randomization
    and by answer, and of the least and the largest g that the people may hold.

    `slopes` are the least and the largest growth of the variance by one more person who holds a component; `changed` is
    the largest change of a component by one report, and `added` of any by one more.
    """

    times: Floats
    size: float
    total: Floats
    variance: Floats
    squares: Floats
    least: Floats
    most: Floats
    changed: Floats
    slopes: tuple[Floats, Floats]
    people: list[tuple[float, Floats, Floats]]
    added: float = 0.0


def _sums(plan: PersonalPlan, tally: PersonalTally, estimator: str) -> _Sums:
    times, first, second, offset = _dense(plan, tally)
    zeros = np.zeros(plan.g.shape[1])
    sums = _Sums(
        times, float(first.sum()), zeros + offset, 0 * zeros, 0 * zeros, zeros + offset, zeros + offset, 0 * zeros,
        (np.inf + zeros, zeros - np.inf), [],
    )  # fmt: skip
    for part in _parts(plan, len(tally.priors)):
        t, spread, by_answer = _weights(plan, tally.priors[part], estimator)
        sums.total = sums.total + np.einsum("ik,ikc->c", first[part], t)
        sums.variance = sums.variance + np.einsum("ik,ikc->c", second[part], spread)
        sums.squares = sums.squares + np.einsum("ik,ikc->c", second[part], t**2)
        possible = (tally.priors[part] > 0)[:, :, None]
        reach = t.max(axis=1, where=possible, initial=-np.inf) - t.min(axis=1, where=possible, initial=np.inf)
        sums.changed = np.maximum(sums.changed, reach.max(axis=0, initial=0.0))
        sums.added = max(sums.added, float(np.abs(t).max(where=possible, initial=0.0)))
        if estimator == "unbiased":
            _bound(plan, sums, possible, first[part].sum(axis=1), by_answer)
    return sums


def _bound(plan: PersonalPlan, sums: _Sums, possible: NDArray[np.bool_], weights: Floats, by_answer: Floats) -> None:
    """Add what the people of some priors can hold, and how the variance depends on it."""
    g = np.broadcast_to(plan.g, by_answer.shape)
    sums.least = sums.least + weights @ g.min(axis=1, where=possible, initial=np.inf)
    sums.most = sums.most + weights @ g.max(axis=1, where=possible, initial=-np.inf)
    if not plan.task.counts_people:
        if len(sums.people) + len(weights) <= _MOST_PRIORS:
            sums.people += list(zip(weights.tolist(), g, by_answer, strict=True))
        return
    ends = [
        getattr(by_answer, name)(axis=1, where=possible & (plan.g == held), initial=initial)
        for name, initial in (("min", np.inf), ("max", -np.inf))
        for held in (1.0, 0.0)
    ]
    least, most = ends[0] - ends[3], ends[2] - ends[1]
    known = np.isfinite(least) & np.isfinite(most)
    low, high = sums.slopes
    sums.slopes = (
        np.minimum(low, least.min(axis=0, where=known, initial=np.inf)),
        np.maximum(high, most.max(axis=0, where=known, initial=-np.inf)),
    )


def _with_ends(plan: PersonalPlan, sums: _Sums, n: int, sampled: float, level: float) -> Found:
    """Intervals as for groups: each end by its own variance, half a step, within what is possible."""
    z, step, middle = student(level), sums.changed / 2, np.clip(sums.total, sums.least, sums.most)
    if plan.task.counts_people:
        spread = sampled * middle * (sums.size - middle) / n
        low, high = (np.where(np.isfinite(each), each, 0.0) for each in sums.slopes)
        ends = counts_at_ends(middle, sums.variance, (low, high), sums.size, sampled / n, z, step)
        low, high = middle - z * np.sqrt(ends[0]) - step, middle + z * np.sqrt(ends[1]) + step
    else:
        larger = n / max(n - 1, 1)
        seen = np.maximum(sums.squares - sums.total**2 / n, 0.0) * larger
        spread = sampled * np.maximum(seen - sums.variance, 0.0)
        # The spread of few answers may not show in as few reports.
        allowed = sampled * sums.changed**2 * larger
        all_known = sum(each[0] for each in sums.people) == n
        z = student(level, max(n - 1.0, 1.0)) if sampled else z
        people = sums.people if all_known else ()
        low, high = ends_within(middle, sums.variance + spread + allowed, step, z, people, sampled=sampled)
    error = np.sqrt(np.maximum(sums.variance, 0.0) + spread)
    low, high = np.clip(low, sums.least, sums.most), np.clip(high, sums.least, sums.most)
    return Found(sums.total, error, low, high, np.zeros(len(middle)))


def check_priors(plan: PersonalPlan, priors: Integers, times: Floats) -> PriorCheck:
    """Do the reports contradict the priors? `times` counts, for each prior, how often each report came.

    Under the priors, with N_i people of prior i, the vector U = (Σ_i (n_ik − N_i λ_ik))_k has mean zero and covariance
    Σ_i N_i (diag λ_i − λ_i λ_iᵀ), which is less than Pearson's denominators say as soon as people differ. So the
    statistic is UᵀCov⁺U, a chi-square with as many degrees as the covariance has directions. One more component,
    Σ_ik (n_ik − N_i λ_ik) p_ik, asks whether people report what their own prior expects as often as it should: priors
    too confident can be right in the sum over people and still be wrong about each person.
    """
    chance, people = _chances(plan, priors)[2], times.sum(axis=1)
    belief = priors / plan.resolution
    excess = times - people[:, None] * chance
    centred = belief - (chance * belief).sum(axis=1, keepdims=True)
    score = np.append(excess.sum(axis=0), (excess * belief).sum())
    expected = people @ chance
    covariance = np.zeros((len(score), len(score)))
    covariance[:-1, :-1] = np.diag(expected) - (people[:, None] * chance).T @ chance
    covariance[-1, :-1] = covariance[:-1, -1] = people @ (chance * centred)
    covariance[-1, -1] = people @ (chance * centred**2).sum(axis=1)
    # Rare reports have no normal distribution of their own: they count with the rest.
    often = np.append(np.minimum(expected, expected.sum() - expected) >= MIN_EXPECTED, people.sum() >= 2 * MIN_EXPECTED)
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    kept = np.flatnonzero(often & (scale > 1e-9 * np.sqrt(people.sum())))
    if not len(kept):
        return PriorCheck(group=None, statistic=0.0, degrees=0, p_value=1.0)
    correlations = covariance[np.ix_(kept, kept)] / np.outer(scale[kept], scale[kept])
    spread, directions = np.linalg.eigh(correlations)
    seen = spread > _SMALLEST_SPREAD
    parts = directions.T[seen] @ (score[kept] / scale[kept])
    statistic, degrees = float((parts**2 / spread[seen]).sum()), int(seen.sum())
    return check_prior(None, statistic, degrees, float(people.sum()))


def _weights(plan: PersonalPlan, priors: Integers, estimator: str) -> tuple[Floats, Floats, Floats]:
    """t(k), the variance it stands for, and for `unbiased` Var(t | X = k), per prior, report and component of g."""
    # Differences from the middle of g, so that a large offset does not cancel.
    middle = plan.g.mean(axis=0)
    g = plan.g - middle
    common, truth, chance = _chances(plan, priors)
    if estimator == "mmse":
        belief = priors / plan.resolution
        honest = (truth * belief / np.where(chance > 0, chance, 1.0))[:, :, None]
        mean = (belief @ g)[:, None]
        varies = (belief @ g**2)[:, None] - mean**2
        shift = honest * (g - mean)
        stands = shift * (1 - honest) * (g - mean) + (1 - honest) * varies
        return middle + mean + shift, stands, stands
    solved = (g - (common @ g)[:, None]) / truth[:, :, None]
    spread = (common[:, None] @ solved**2) + truth[:, :, None] * solved**2 - g**2
    return middle + solved, (spread - common[:, None] @ spread) / truth[:, :, None], spread


def _chances(plan: PersonalPlan, priors: Integers) -> tuple[Floats, Floats, Floats]:
    """c and λ of shape (priors, reports), s of shape (priors, 1)."""
    common, truth = (part / 2.0**plan.word_bits for part in channels(plan, np.ascontiguousarray(priors.T)))
    return common.T, truth[:, None], truth[:, None] * priors / plan.resolution + common.T


def _dense(plan: PersonalPlan, tally: PersonalTally) -> tuple[Floats, Floats, Floats, float]:
    """Counts, Σ a and Σ a² per prior and report, and Σ b."""
    counts, shape = tally.counts, tally.priors.shape
    columns = np.zeros((3, tally.priors.size))
    columns[:, counts.reports] = counts.counts
    offset = 0.0
    if counts.sums is not None and plan.task.takes_weights:
        columns[1:, counts.reports] = counts.weighted()[:2]
        offset = counts.weight_sums[1]
    times, first, second = columns.reshape(3, *shape)
    return times, first, second, offset


def _parts(plan: PersonalPlan, size: int) -> Iterator[slice]:
    step = max(1, _CHUNK // plan.g.size)
    return (slice(start, start + step) for start in range(0, size, step))


def _distinct(rows: Integers, total: int) -> tuple[Integers, Integers]:
    """The different rows in lexicographic order, and which of them each row is."""
    bits, d = total.bit_length(), rows.shape[1]
    if bits * (d - 1) > 62:
        distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
        return distinct, inverse.reshape(-1).astype(np.int64)
    # The last number follows from the others, which fit one word.
    keys = np.zeros(len(rows), dtype=np.int64)
    for units in rows.T[:-1]:
        keys = (keys << bits) | units
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return rows[first], inverse.astype(np.int64)
