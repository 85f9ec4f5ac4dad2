"""The next wave of a survey: its prior is this wave's estimate, and its promise holds for all plausible priors.

**The prior.** For each group the unbiased estimate θ̂ of the shares, projected onto distributions that give every
possible answer at least a floor. Values that the task does not tell apart keep their proportions.

**The set.** The truth of this wave is in the simultaneous intervals [l, h] of the estimate with the stated confidence;
until the next wave it drifts. With m the plan's prior, s² the variance of θ̂, sampling included, and sums over groups
and answers, the drift seen is found by the method of moments,

    τ² = max(0, Σ (θ̂ − m)² − s²) / Σ m(1 − m),

because the prior of a later wave is the estimate of the wave before. Few answers get a box

    l − 2A·√(p(1−p)) ≤ P ≤ h + 2A·√(p(1−p)),      A = max(least drift, z·τ/2),

so A is how far the share of an answer that half of the people hold may move. Many answers get a ball, because
intervals that hold for all of them at once leave nothing excluded. Its radius is A plus a bound on the distance between
the truth and the new prior: with s² the variances and z the normal quantile of the confidence, approximately

    Σ(θ − θ̂)² ≤ Σs² + z·√(2Σs⁴)     and     Σ(θ − m)² ≤ Σ(θ̂ − m)² − Σs² + z·√(2Σs⁴ + 4Σs²(θ̂ − m)²),

and a total variation distance is at most ½√d times the root. The new prior is θ̂ or m, whichever has the smaller bound.

**Reports on several questions** may determine shares of answers, and tables that were asked for, but not how often each
combination is given. Then the new prior q is the old one, p, raked: with g what the reports determine, θ̂ its estimate
and Σ the covariance of θ̂,

    q ∝ p·exp(λ·g)   minimises   KL(q ‖ p) + ½ (E_q g − θ̂)ᵀ Σ⁻¹ (E_q g − θ̂),

so E_q g = θ̂ but for noise, the old prior counting as one record, and how answers are related otherwise stays as it was.
To first order a change δ of E_q g moves q by a total variation distance of at most ½√(δᵀ C⁻¹ δ), C the covariance of g
under q. So noise moves q by at most ½√(tr A + z√(2 tr A²)), A = C⁻¹Σ, and the set is a ball of this radius plus the
drift; or as wide as the set of this wave, if that is wider, because nothing new is known about the relations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from tacit.designs._methods import FEW_VALUES
from tacit.designs.panels import following_plan
from tacit.designs.planning import CONFIDENCE, make_plan, with_ldp
from tacit.designs.prior_file import UNSEEN_SHARE, GroupPrior
from tacit.estimates import Cell, NotEstimableError, cells_of, estimate, moments, read_for, student
from tacit.exact import Floats, Integers, Number, rational
from tacit.mechanism.repeated import Transition
from tacit.plan import Group, Plan
from tacit.prior import Ball, Box, Prior, PriorSet, listed
from tacit.tally import Tally
from tacit.task import Histogram, Matrix, Task

#: A plan in, one of its kind out.
#: The least expected drift, regardless of the data: an answer that half of the people hold may move by one point.
LEAST_DRIFT = "0.01"
_FIRST_WAVE = "In a first wave the drift seen is the error of the prior. State the drift if you know it better."
#: Shares and ends of ranges are rounded to this many parts, the ends outwards.
_PARTS = 10**5


@dataclass(frozen=True, kw_only=True)
class NextWave:
    """What the next wave's plan rests on: each group's prior and set, the drift, and whether the alarm sounded.

    `seen` is the drift that the reports show, `drift` the one that the sets allow for. Both are the change of an answer
    that half of the people hold; of many answers, a total variation distance.
    """

    priors: tuple[GroupPrior, ...]
    seen: float
    drift: float
    alarm: bool
    notes: tuple[str, ...] = ()


def next_plan(plan: Plan, reports: Tally | Sequence[Cell] | None = None, **options: Any) -> Plan:
    """The plan of the next wave: its prior is this wave's estimate, and its promise holds for every plausible prior.

    For the same people again: a plan in two layers stays as it is, and `persistence` or a `transition` matrix
    makes one by the belief rule (`following_plan`). Both leave the prior as it is, and need no reports.

    Args:
        plan: the plan of this wave. Of several questions every block is planned from its own reports.
        reports: its tally, or its reports in cells.
        options: `epsilon` and `notion` where they change, else as in the plan; `persistence` or `transition`; and
            those of `next_priors`.

    Raises:
        NotEstimableError: the reports do not determine the distribution of the answers.
        ValueError: there are no reports, or the plan promises an LDP cap, which cannot hold beside a set of priors.

    >>> from tacit import Survey
    >>> plan = make_plan(Prior.of({"yes": 0.2, "no": 0.8}), Survey("yes"), epsilon=1)
    >>> later = next_plan(plan, Tally.of(plan, [0] * 3000 + [1] * 7000))
    >>> later.wave, later.series == plan.hash, later.groups[0].prior_set.kind
    (2, True, 'box')
    """
    epsilon, notion = options.pop("epsilon", None), options.pop("notion", None)
    again = same_people(plan, options.pop("persistence", None), epsilon, options.pop("transition", None))
    if again is not None:
        return again
    if reports is None:
        raise ValueError("The next wave is planned from the reports of this one: give its tally or its reports.")
    return planned(plan, next_blocks(plan, reports, **options), epsilon=epsilon, notion=notion)


def same_people(
    plan: Plan, persistence: Number | None, epsilon: Number | None, transition: Transition | None = None
) -> Plan | None:
    """The next wave of a plan in two layers, or by the belief rule; None where people are taken as different ones."""
    layers = any(group.layers is not None for group in plan.groups)
    changing = persistence is not None or transition is not None
    if not (changing or layers):
        if plan.follows is not None:
            raise ValueError(
                "This plan follows people by the belief rule: state the persistence, or a transition matrix, for its "
                "next wave."
            )
        return None
    alone = plan.single("Following people")
    if not layers:
        return following_plan(alone, persistence, epsilon, transition=transition)
    if changing or epsilon is not None:
        raise ValueError("Two layers stay as they are in every wave: the stored reports are of this prior and this ε.")
    return alone.next([alone])


def next_blocks(plan: Plan, reports: Tally | Sequence[Cell], **options: Any) -> list[NextWave]:
    """For each block of a plan what `next_priors` finds, over its joint cells."""
    cells = cells_of(plan, reports) if isinstance(reports, Tally) else reports
    found = []
    for number, (block, alone) in enumerate(zip(plan.blocks, plan.block_plans, strict=True), start=1):
        mine = [cell for cell in cells if cell.plan.hash == alone.hash]
        if plan.block_column is not None and not any(cell.n_reports for cell in mine):
            raise ValueError(f"There are no reports of block {number} to plan its next wave from.")
        try:
            each = next_priors(alone, mine, **options)
        except NotEstimableError:
            if block.is_own:
                raise
            named = ", ".join(question.name for question in block.questions)
            each = _raked_priors(alone, mine, named, _Limits.of(**options))
        found.append(replace(each, notes=tuple(note for note in each.notes if plan.wave == 1 or note != _FIRST_WAVE)))
    return found


def planned(
    plan: Plan, found: Sequence[NextWave], *, epsilon: Number | None = None, notion: Literal["lip", "ldp"] | None = None
) -> Plan:
    """The plan of the next wave, for the priors of each block."""
    blocks = zip(plan.block_plans, found, strict=True)
    plans = [_planned(block, each, epsilon=epsilon, notion=notion) for block, each in blocks]
    return plan.next(plans, [note for each in found for note in each.notes if note != _FIRST_WAVE])


def next_priors(
    plan: Plan,
    reports: Tally | Sequence[Cell],
    *,
    drift: Number | None = None,
    least_drift: Number = LEAST_DRIFT,
    confidence: Number = CONFIDENCE,
    floor: Number = UNSEEN_SHARE,
) -> NextWave:
    """Each group's next prior and the set of priors that its reports and the drift leave plausible.

    Args:
        plan: the plan of this wave.
        reports: its tally, or its reports in cells.
        drift: how far an answer that half of the people hold may move until the next wave; of more than 12 answers, the
            total variation distance. By default the drift that the reports show.
        least_drift: the drift allowed for where less was seen.
        confidence: of the estimate's intervals, which hold for all answers of a group at once.
        floor: the least probability of a possible answer.

    >>> from tacit import Survey
    >>> plan = make_plan(Prior.of({"yes": 0.2, "no": 0.8}), Survey("yes"), epsilon=1)
    >>> found = next_priors(plan, Tally.of(plan, [0] * 3000 + [1] * 7000), drift="0.02")
    >>> found.drift, found.priors[0].prior_set.kind
    (0.02, 'box')
    """
    limits = _Limits.of(drift, least_drift, confidence, floor)
    cells = cells_of(plan, reports) if isinstance(reports, Tally) else reports
    if plan.takes_weights and any(cell.kept.has_weights for cell in cells):
        raise ValueError("Reports with weights of their own make no prior for the next wave. Tally them without.")
    if not any(cell.n_reports for cell in cells):
        raise ValueError("There are no reports to plan the next wave from.")
    classes = _classes(plan.task, plan.groups[0].prior)
    found = _estimates(plan, cells, classes, limits.sure)
    many = int(classes.max()) + 1 > FEW_VALUES
    believed = [found[group.name] for group in plan.groups if not group.without_prior]
    seen = _drift_seen(believed, many, limits.sure)
    priors = [_next(group, found[group.name], classes, limits.drift(seen), limits, many) for group in plan.groups]
    return _wave(plan, cells, priors, seen, limits)


@dataclass(frozen=True)
class _Limits:
    """The options of `next_priors`, checked: the confidence, the least drift, the stated drift and the floor."""

    sure: float
    least: float
    stated: float | None
    floor: Fraction

    @classmethod
    def of(
        cls,
        drift: Number | None = None,
        least_drift: Number = LEAST_DRIFT,
        confidence: Number = CONFIDENCE,
        floor: Number = UNSEEN_SHARE,
    ) -> _Limits:
        given = {"confidence": confidence, "least_drift": least_drift, "drift": 0 if drift is None else drift}
        exact = {name: rational(number, name) for name, number in given.items()}
        for name, number in exact.items():
            if not 0 <= number <= 1 or (name == "confidence" and number in (0, 1)):
                raise ValueError(f"The {name!r} must lie between 0 and 1. Got {float(number):g} instead.")
        sure, least, stated = map(float, exact.values())
        return cls(sure, least, None if drift is None else stated, rational(floor, "floor"))

    def drift(self, seen: float) -> float:
        """The drift that the sets allow for."""
        return max(self.least, seen) if self.stated is None else self.stated


def _wave(
    plan: Plan,
    cells: Sequence[Cell],
    found: Sequence[tuple[Prior, PriorSet]],
    seen: float,
    limits: _Limits,
    notes: Sequence[str] = (),
) -> NextWave:
    """The groups of the next wave, each as large as its part of the reports, with their priors and sets."""
    counts = _counts(plan, cells)
    priors = tuple(
        GroupPrior(
            name=group.name, prior=prior, share=Fraction(counts[group.name], sum(counts.values())),
            epsilon=group.epsilon, weight=group.weight, offset=group.offset, prior_set=plausible,
        )
        for group, (prior, plausible) in zip(plan.groups, found, strict=True)
    )  # fmt: skip
    checks = () if any(group.without_prior for group in plan.groups) else estimate(plan, cells).prior_check
    told = [_FIRST_WAVE] if plan.wave == 1 else []
    if silent := [str(name) for name, count in counts.items() if not count]:
        told.append(f"Groups without reports keep their prior: {listed(silent)}.")
    alarm = any(check.contradicted for check in checks)
    return NextWave(priors=priors, seen=seen, drift=limits.drift(seen), alarm=alarm, notes=(*told, *notes))


def _counts(plan: Plan, cells: Sequence[Cell]) -> dict[str | None, int]:
    """How many reports there are of each group."""
    return {group.name: sum(cell.n_reports for cell in cells if cell.group.name == group.name) for group in plan.groups}


# -- what reports do not determine ------------------------------------------------------------------------------------


def _raked_priors(plan: Plan, cells: Sequence[Cell], named: str, limits: _Limits) -> NextWave:
    """As `next_priors`, for a block whose reports determine the columns of its task, and not how often each
    combination is given. Drifts are total variation distances.
    """
    mine = {name: [cell for cell in cells if cell.group.name == name] for name, n in _counts(plan, cells).items() if n}
    moved = {group.name: _raked(group, mine[group.name], plan, limits.sure) for group in plan.groups
             if group.name in mine}  # fmt: skip
    seen = min(1.0, math.sqrt(max(0.0, sum(each.excess for each in moved.values())) / len(moved)) / 2)
    found = []
    for group in plan.groups:
        shares = group.prior.probabilities
        known = moved.get(group.name, _Raked(shares, 0.0, 0.0))
        open_cells = shares > 0
        share = min(float(limits.floor), 1 / (100 * int(open_cells.sum())))
        kept = _projected(known.prior, open_cells, share)
        prior = Prior(group.prior.values, [max(1, round(each * _PARTS * 10)) if mine else 0 for each, mine in
                                           zip(kept, open_cells, strict=True)])  # fmt: skip
        radius = known.noise + share * int(open_cells.sum()) + limits.drift(seen)
        before = Fraction(0) if group.prior_set is None else group.prior_set.radius
        wide = max(before, Fraction(math.ceil(radius * 1000), 1000))
        found.append((prior, Ball(prior, min(wide, Fraction(1)))))
    note = (
        f"The reports on {named} do not determine how often each combination of answers is given. The new prior has "
        "the shares and tables that they determine; how answers are related otherwise is as in the prior of this "
        "wave. The promise holds for priors within a total variation distance of "
        f"{max(float(ball.radius) for _, ball in found):g}."
    )
    return _wave(plan, cells, found, seen, limits, [note])


@dataclass(frozen=True)
class _Raked:
    """A raked prior, how far noise may have moved it, and the excess of its squared distance over noise."""

    prior: Floats
    noise: float
    excess: float


def _raked(group: Group, cells: Sequence[Cell], plan: Plan, sure: float) -> _Raked:
    """The module's q, by Newton's method for λ: min log E_p e^(λ·z) − λ·m + ½ λᵀΣλ.

    z are the columns of the task, less their means, as uncorrelated columns with the variance 1 under p.
    """
    prior = group.prior.probabilities
    off = plan.task.g(group.prior) - prior @ plan.task.g(group.prior)
    spread, axes = np.linalg.eigh(off.T @ (prior[:, None] * off))
    kept = spread > 1e-9 * spread[-1]
    white = axes[:, kept] / np.sqrt(spread[kept])
    z = off @ white
    mean, covariance, _ = moments(cells, plan)
    target, noise = (mean - prior @ plan.task.g(group.prior)) @ white, white.T @ covariance @ white

    def tilted(slope: Floats) -> tuple[float, Floats]:
        powers = z @ slope
        weights = prior * np.exp(powers - powers.max())
        value = math.log(float(weights.sum())) + float(powers.max() - slope @ target + slope @ noise @ slope / 2)
        return value, np.asarray(weights / weights.sum())

    slope = np.zeros(z.shape[1])
    value, shares = tilted(slope)
    for _ in range(100):
        rise = shares @ z - target + noise @ slope
        centred = z - shares @ z
        step = np.linalg.solve(centred.T @ (shares[:, None] * centred) + noise + 1e-12 * np.eye(len(slope)), rise)
        size = 1.0
        while size > 1e-9 and tilted(slope - size * step)[0] > value - size * float(rise @ step) / 4:
            size /= 2
        if float(rise @ step) < 1e-16 or size <= 1e-9:
            break
        slope = slope - size * step
        value, shares = tilted(slope)
    centred = z - shares @ z
    inner = np.linalg.pinv(centred.T @ (shares[:, None] * centred)) @ noise
    mostly = float(np.trace(inner)) + max(0.0, student(2 * sure - 1)) * math.sqrt(2 * float(np.trace(inner @ inner)))
    return _Raked(shares, math.sqrt(mostly) / 2, float(target @ target - np.trace(noise)))


def _planned(
    plan: Plan, found: NextWave, *, epsilon: Number | None = None, notion: Literal["lip", "ldp"] | None = None
) -> Plan:
    """The plan for these priors, outside of any series."""
    old = {group.notion for group in plan.groups}
    if len(old) > 1:
        raise ValueError("The groups of this plan promise different notions. Plan the next wave with `tacit plan`.")
    kept = notion or old.pop()
    if kept == "ldp" and all(group.without_prior for group in plan.groups) and epsilon is None:
        # LDP without a prior: the estimate changes nothing.
        return plan
    if any(group.ldp_cap is not None for group in plan.groups):
        raise ValueError(
            "This plan promises an LDP cap, and a set of priors cannot be promised beside it. Plan the next wave with "
            "`tacit plan`, from the shares that `tacit estimate` gives."
        )
    groups = [
        replace(
            each, epsilon=each.epsilon if epsilon is None else None,
            prior_set=each.prior_set if kept == "lip" else None,
        )
        for each in found.priors
    ]  # fmt: skip
    aims = {group.certificate.aim for group in plan.groups if group.certificate is not None}
    made = make_plan(
        groups,
        plan.task,
        epsilon,
        notion=kept,
        aim=aims.pop() if len(aims) == 1 else "unbiased",
        question=plan.question,
    )
    return with_ldp(made)


# -- estimates of a wave ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Found:
    """The estimated shares of a group's classes, their variances and intervals, and the prior's shares."""

    n_reports: int
    mean: Floats
    variance: Floats
    low: Floats
    high: Floats
    prior: Floats


def _classes(task: Task, prior: Prior) -> Integers:
    """For each value the class of values that the task does not tell apart."""
    if task.per_value:
        return np.arange(len(prior), dtype=np.int64)
    _, places = np.unique(task.g(prior), axis=0, return_inverse=True)
    # In the order of the values.
    order = {place: k for k, place in enumerate(dict.fromkeys(places.tolist()))}
    return np.array([order[place] for place in places.tolist()], dtype=np.int64)


def _estimates(plan: Plan, cells: Sequence[Cell], classes: Integers, sure: float) -> dict[str | None, _Found]:
    n_classes = int(classes.max()) + 1
    task: Task = Histogram()
    if n_classes < len(plan.values):
        indicators = (classes[:, None] == np.arange(n_classes)).astype(int).tolist()
        task = Matrix(indicators, tuple(f"class {k + 1}" for k in range(n_classes)))
    reading = plan.reading(task)
    mine = read_for(cells, reading)
    found = {}
    for group in plan.groups:
        prior = np.array([group.prior.probabilities[classes == k].sum() for k in range(n_classes)])
        sent = [cell for cell in mine if cell.group.name == group.name and cell.n_reports]
        if not sent:
            found[group.name] = _unseen(group, classes, prior)
            continue
        try:
            result = estimate(reading, sent, "unbiased", sure, scope="population", simultaneous=True)
        except NotEstimableError as error:
            raise NotEstimableError(
                "The reports of this plan do not determine how often each answer is given, so they make no prior for "
                "the next wave. Plan with the aim 'unbiased'; a sum over many numbers with --between."
            ) from error
        mean, deviation, low, high = (
            result.columns[name] / result.total_weight for name in ("estimate", "standard_error", "low", "high")
        )
        unknown = ~np.isfinite(deviation)
        found[group.name] = _Found(
            result.n_reports, np.where(unknown, prior, mean), np.where(unknown, 0.0, deviation) ** 2,
            np.clip(np.nan_to_num(low, nan=0.0), 0.0, 1.0), np.clip(np.nan_to_num(high, nan=1.0), 0.0, 1.0), prior,
        )  # fmt: skip
    return found


def _unseen(group: Group, classes: Integers, prior: Floats) -> _Found:
    """A group without reports: what its plan took for plausible."""
    low, high = prior.copy(), prior.copy()
    if group.prior_set is not None:
        for k in range(len(prior)):
            ends = group.prior_set.extremes([int(each == k) for each in classes])
            low[k], high[k] = float(ends[0]), float(ends[1])
    return _Found(0, prior, np.zeros(len(prior)), low, high, prior)


def _drift_seen(found: Sequence[_Found], many: bool, sure: float) -> float:
    """The excess of (θ̂ − m)² over the variance of θ̂, by the method of moments, as the change of an answer of 50%, at
    the stated confidence; of many answers as the total variation distance of one group.
    """
    seen = [each for each in found if each.n_reports]
    if not seen:
        return 0.0
    excess = sum(float(((each.mean - each.prior) ** 2 - each.variance).sum()) for each in seen)
    if many:
        return min(1.0, math.sqrt(max(0.0, excess) / len(seen) * len(seen[0].mean)) / 2)
    spread = sum(float((each.prior * (1 - each.prior)).sum()) for each in seen)
    return min(1.0, student(sure) * math.sqrt(max(0.0, excess) / spread) / 2) if spread > 0 else 0.0


def _next(
    group: Group, found: _Found, classes: Integers, drift: float, limits: _Limits, many: bool
) -> tuple[Prior, PriorSet]:
    """A group's prior and its set."""
    possible = np.array(group.prior.weights) > 0
    center, distance = _center(found, limits.sure) if many else (found.mean, 0.0)
    open_classes = np.bincount(classes, weights=possible, minlength=len(center)) > 0
    least = min(float(limits.floor), 1 / ((100 if many else 2) * int(open_classes.sum())))
    shares = _projected(center, open_classes, least)
    # Values of one class keep their proportions.
    inside = [Fraction(weight, group.prior.total) for weight in group.prior.weights]
    sums = [sum((part for part, mine in zip(inside, classes, strict=True) if mine == k), Fraction(0)) for k in
            range(len(center))]  # fmt: skip
    whole = [Fraction(max(1, round(share * _PARTS * 10))) if mine else Fraction(0) for share, mine in
             zip(shares, open_classes, strict=True)]  # fmt: skip
    parts = [part / sums[k] if sums[k] else Fraction(0) for part, k in zip(inside, classes, strict=True)]
    prior = Prior(group.prior.values, [whole[k] * part for k, part in zip(classes, parts, strict=True)])
    exact = [each / sum(whole) for each in whole]
    if many:
        # Projection brings an estimate no further from a distribution that gives every answer its floor.
        floors = least * int(open_classes.sum())
        radius = Fraction(math.ceil(min(1.0, distance + floors + drift) * 1000), 1000)
        return prior, Ball(prior, min(radius, Fraction(1)))
    low, high = [], []
    for share, least_share, most_share in zip(exact, found.low, found.high, strict=True):
        room = 2 * drift * math.sqrt(float(share * (1 - share)))
        low.append(min(share, max(Fraction(0), Fraction(math.floor((least_share - room) * _PARTS), _PARTS))))
        high.append(max(share, min(Fraction(1), Fraction(math.ceil((most_share + room) * _PARTS), _PARTS))))
    ends = [[end[k] * part for k, part in zip(classes, parts, strict=True)] for end in (low, high)]
    return prior, Box(prior, *ends)


def _center(found: _Found, sure: float) -> tuple[Floats, float]:
    """The estimate or the prior, whichever is surely nearer to the truth, and a bound on its distance."""
    size, z = len(found.mean), max(0.0, student(2 * sure - 1))
    if not found.n_reports:
        return found.prior, float(np.maximum(found.high - found.prior, found.prior - found.low).sum()) / 2
    noise, fourth = float(found.variance.sum()), float((found.variance**2).sum())
    off = (found.mean - found.prior) ** 2
    own = noise + z * math.sqrt(2 * fourth)
    kept = float(off.sum()) - noise + z * math.sqrt(2 * fourth + 4 * float((found.variance * off).sum()))
    bounds = [math.sqrt(max(0.0, square) * size) / 2 for square in (own, kept)]
    return (found.mean, bounds[0]) if bounds[0] <= bounds[1] else (found.prior, bounds[1])


def _projected(shares: Floats, possible: np.ndarray[Any, np.dtype[np.bool_]], least: float) -> Floats:
    """The nearest distribution that gives every possible class at least `least`, and the others nothing."""
    nearest = np.zeros(len(shares))
    nearest[possible] = least + Histogram().possible(shares[possible] - least, 1 - least * int(possible.sum()))
    return nearest
