"""Totals with intervals for any part of the reports: the step towards the prior, forged reports, the prior check.

The chosen cells of a `Part` are those whose total is asked for; the others show how far the priors can be trusted. The
fraction f of the people in question who took part decides whom an interval is about: f = 1 is for the participants
alone, f = 0 for a population so large that f does not matter.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tacit.estimates._assisted import Groups, expectation, pratt_interval, records_worth, shifted
from tacit.estimates._cells import Cell, Collected, Part, coarser
from tacit.estimates._ends import counts_at_ends, variances_at_ends
from tacit.estimates._prior_check import ALARM_LEVEL, PriorCheck, check_prior, check_together
from tacit.estimates._rows import Estimator, Found, Scope, student
from tacit.exact import Floats
from tacit.mechanism import PlainEstimator

#: The largest distance of an assisted estimate from the unbiased one, in squared standard errors: for each number that
#: shows how far the priors are off, and in all.
_ROOM_FOR_EACH, _MOST_ROOM = 0.1, 0.2
#: The effect of a forged report on an assisted estimate is tried out: on this many groups, and report by report where
#: there are at most this many different ones.
_TRIED, _MOST_KINDS = 8, 16


def can_assist(part: Part) -> bool:
    """Whether anything shows how far the prior can be trusted: other groups, or a stated set of priors.

    Not where reports have weights, which may depend on the answers in a way that no prior describes, and not for parts
    by a public column, of which the prior says nothing.
    """
    cells = part.collected.cells
    if not part.of_groups or any(cell.group.without_prior or cell.has_weights for cell in cells):
        return False
    stated = any(cell.group.prior_set is not None for cell in part.cells)
    return part.n_reports > 0 and (stated or len({cell.group.name for cell in cells if cell.n_reports}) > 1)


def found(part: Part, estimator: Estimator, scope: Scope, level: float) -> Found:
    """The total of the people whom the chosen cells stand for, with intervals of this level.

    With `unbiased` the interval is total ± z·√V, each end with its own V: for counts by `counts_at_ends`, for sums by
    `Bounds`. Totals move in steps: half a step is added on both sides. With `assisted` it is Pratt's interval. Both
    stay within the possible totals; for counts of participants the ends are whole numbers.
    """
    mine = [cell.read(_plain(estimator)) for cell in part.cells]
    factors = part.collected.factors[part.chosen]
    total, variance = (
        np.sum([factor**power * getattr(each, name) for factor, each in zip(factors, mine, strict=True)], axis=0)
        for name, power in (("estimate", 1), ("variance", 2))
    )
    if estimator in ("assisted", "unbiased") and part.n_reports:
        result = _with_ends(part, total, estimator == "assisted", part.fraction(scope), level)
    else:
        result = Found.normal(total, variance, level)
        if estimator == "mmse":
            result = replace(result, prior_share=np.ones(len(total)))
    low, high = result.low, result.high
    if part.collected.plan.task.counts_people:
        low, high = np.clip(low, 0.0, part.size), np.clip(high, 0.0, part.size)
    for each in mine:
        if each.determined is not None:
            low, high = np.where(each.determined, low, np.nan), np.where(each.determined, high, np.nan)
    return replace(result, low=low, high=high)


def _plain(estimator: Estimator) -> PlainEstimator:
    """The estimator by which the reports of one group are read."""
    return "unbiased" if estimator == "assisted" else estimator


def _with_ends(part: Part, total: Floats, assisted: bool, fraction: float, level: float) -> Found:
    collected, counted, bounds = part.collected, part.collected.plan.task.counts_people, part.bounds(fraction)
    # V(θ) is known well enough for the normal distribution where counts or answers bound it.
    bounded = part.plain and (counted or bounds is not None)
    degrees = math.inf if fraction == 1 or (counted and part.plain) else part.degrees
    z = student(level, degrees)
    # The spread of few answers may not show in as few reports.
    allowed = not bounded or (fraction != 1 and not counted)
    within = collected.inside(fraction, part.n_reports, allowed=allowed)[part.chosen].sum(axis=0)
    between = np.zeros(len(total))
    if fraction != 1:
        between = (1 - fraction) * part.size**2 * collected.between(*part.moves, part.n_reports)
    step = part.half_step if bounded else between * 0
    least, most = part.possible
    # An estimate outside what is possible has the interval of the nearest possible one, which holds as often or more.
    middle = np.clip(total, least, most)
    if bounds is not None:
        ends = tuple(end + between for end in variances_at_ends(bounds, middle, within, z, step))
        within = np.array([float(each.variance(x, s)) for each, x, s in zip(bounds, middle, within, strict=True)])
    elif counted:
        sampled = (1 - fraction) / part.n_effective
        spread = sampled * middle * (part.size - middle)
        if part.plain:
            within = collected.inside(1.0, part.n_reports, allowed=False)[part.chosen].sum(axis=0) + spread - between
        ends = counts_at_ends(middle, within + between - spread, part.slopes, part.size, sampled, z, step)
    else:
        ends = (within + between,) * 2
    below, above = (z * np.sqrt(end) for end in ends)
    error = np.sqrt(np.maximum(within + between, 0.0))
    result = Found(total, error, middle - below, middle + above, np.zeros(len(total)))
    if assisted:
        result = _assisted(
            part, result, middle, (ends[0] - between, ends[1] - between), z * z * between, fraction, level
        )
    low, high = np.clip(result.low - step, least, most), np.clip(result.high + step, least, most)
    if counted and fraction == 1 and part.plain and part.size == part.n_reports:
        low, high = np.floor(low), np.ceil(high)
    return replace(result, low=low, high=high)


# -- assisted ---------------------------------------------------------------------------------------------------------


def _assisted(
    part: Part,
    result: Found,
    middle: Floats,
    ends: tuple[Floats, Floats],
    apart: Floats,
    fraction: float,
    level: float,
) -> Found:
    """The unbiased result, moved towards the prior. Rows that the reports do not determine stay as they are.

    Priors say nothing about the number of people in each group of a population. The square `apart` of the error from
    there is added to the square of each side of the interval (Zou and Donner, 2008).
    """
    known = np.isfinite(result.estimate)
    groups, target, variance = _excess(part, known, fraction)
    expected, x = expectation(groups, target), groups.excess[target].sum(axis=0)
    moved, share = shifted(expected, x, variance, _room(part, len(x)), groups.free)
    prior = result.estimate[known] - x
    at = middle[known] - prior
    variances = [np.maximum(end[known], 1e-12) for end in ends]
    low, high = pratt_interval(expected, at, variances[0], level)
    if not np.array_equal(variances[0], variances[1]):
        high = pratt_interval(expected, at, variances[1], level)[1]
    low, high = at - np.sqrt((at - low) ** 2 + apart[known]), at + np.sqrt((high - at) ** 2 + apart[known])
    parts = prior + moved, prior + np.minimum(low, moved), prior + np.maximum(high, moved), share
    whole = np.array([result.estimate, result.low, result.high, result.prior_share])
    whole[:, known] = parts
    return Found(whole[0], result.error, whole[1], whole[2], whole[3], records_worth(expected))


def _excess(part: Part, known: NDArray[np.bool_], fraction: float) -> tuple[Groups, NDArray[np.bool_], Floats]:
    """The totals of the groups that sent reports less those that their priors expect, which of them are chosen, and the
    variance of the total over these.
    """
    collected = part.collected
    inside, columns, target = collected.inside(fraction, sum(cell.n_reports for cell in collected.cells)), [], []
    for group in collected.plan.groups:
        places = [k for k, cell in enumerate(collected.cells) if cell.group.name == group.name and cell.n_reports]
        if not places:
            continue
        cells, factors = [collected.cells[k] for k in places], collected.factors[places]
        mean, spread, width = (column[known] for column in cells[0].prior_moments)
        n = np.array([cell.n_reports for cell in cells])
        people, squares = float(factors @ n), float(factors**2 @ n)
        stated = 0.0 if group.prior_set is None else float(group.prior_set.radius) / 2 * width
        readings = np.array([cell.read("unbiased").estimate[known] for cell in cells])
        # A variance of 0 comes from too few reports.
        variance = np.maximum(inside[places].sum(axis=0)[known], 1e-9 * squares * spread + 1e-12)
        columns.append((
            factors @ readings - people * mean, variance, fraction * squares * spread + (people * stated) ** 2,
            people * np.sqrt(spread),
        ))  # fmt: skip
        target.append(bool(part.chosen[places[0]]))
    excess, variance, sampled, scale = (np.array(column) for column in zip(*columns, strict=True))
    free = (known.sum() - 1) / known.sum() if collected.plan.task.per_value else 1.0
    return Groups(excess, variance, sampled, scale, float(free)), np.array(target), variance[target].sum(axis=0)


def _room(part: Part, n_rows: int) -> float:
    """The largest distance of an assisted estimate from the unbiased one, in standard errors.

    Groups of unequal size show as much as fewer equal ones, (Σn)²/Σn² of them.
    """
    if any(cell.group.prior_set is not None for cell in part.cells):
        return math.sqrt(_MOST_ROOM)
    counted: dict[str | None, float] = {}
    for cell in part.collected.cells:
        counted[cell.group.name] = counted.get(cell.group.name, 0.0) + cell.n_reports
    sizes = np.array([*counted.values()])
    others = sizes.sum() ** 2 / (sizes**2).sum() - 1
    return math.sqrt(min(_MOST_ROOM, _ROOM_FOR_EACH * others * max(n_rows - 1, 1)))


# -- forged reports ---------------------------------------------------------------------------------------------------


def influence(part: Part, estimator: Estimator, scope: Scope) -> tuple[float, float]:
    """The largest change of a row by one forged report: one that is changed to another, and one that is added.

    No two reports move an assisted row alike, so additions are tried out, and a change is the difference of two: in the
    groups whose reports move most, and in one that sent none.
    """
    factors, cells = part.collected.factors, part.collected.cells
    if estimator != "assisted":
        mine = [cell.read(_plain(estimator)) for cell in part.cells]
        changed, added = (max(factors[part.chosen] * [getattr(m, n) for m in mine]) for n in ("changed", "added"))
        return float(changed), float(added)
    places = sorted(np.flatnonzero(part.chosen).tolist(), key=lambda place: -cells[place].read("unbiased").changed)
    tried = [place for place in places if cells[place].n_reports][:_TRIED]
    tried += [place for place in places if not cells[place].n_reports][:1]
    fraction = part.fraction(scope)
    start = _assisted_total(part, fraction)
    moves = [
        np.array([_assisted_total(_replaced(part, place, cell), fraction) for cell in _additions(cells[place])]) - start
        for place in tried
    ]
    return (
        max(float(np.nanmax(np.ptp(each, axis=0))) for each in moves),
        max(float(np.nanmax(np.abs(each))) for each in moves),
    )


def _additions(cell: Cell) -> list[Cell]:
    """The cell with one more report: for each possible report, or, where they are many, for the two extremes."""
    kinds = cell.group.mechanism.n_possible_reports
    if kinds is not None and kinds <= _MOST_KINDS and cell.kept.is_counted:
        return [cell.with_one_more(report) for report in range(kinds)]
    old, mean = cell.read("unbiased"), cell.prior_moments[0]
    steps = (-old.changed / 2, old.changed / 2)
    return [cell.with_unbiased(replace(old, estimate=old.estimate + mean + step)) for step in steps]


def _replaced(part: Part, place: int, cell: Cell) -> Part:
    cells = [*part.collected.cells]
    cells[place] = cell
    return replace(part, collected=replace(part.collected, cells=cells))


def _assisted_total(part: Part, fraction: float) -> Floats:
    """The assisted estimate alone."""
    factors = part.collected.factors[part.chosen]
    total: Floats = np.sum(
        [f * cell.read("unbiased").estimate for f, cell in zip(factors, part.cells, strict=True)], axis=0
    )
    known = np.isfinite(total)
    groups, target, variance = _excess(part, known, fraction)
    x = groups.excess[target].sum(axis=0)
    total[known] += shifted(expectation(groups, target), x, variance, _room(part, len(x)), groups.free)[0] - x
    return total


# -- the prior check --------------------------------------------------------------------------------------------------


def prior_checks(part: Part, scored: bool) -> tuple[PriorCheck, ...]:
    """The prior check of all chosen groups together, and of each that sent reports and has a prior.

    `scored` adds scores of the totals, for which the unbiased estimate must exist.
    """
    mine = [cell for cell in coarser(part.cells, ()) if cell.n_reports and not cell.group.without_prior]
    if not mine:
        return ()
    part = Collected(part.collected.plan, mine).part()
    alone = [_check_of(cell) for cell in mine]
    if len(alone) == 1:
        return tuple(alone)
    # Each of many groups gets its share of the false alarms.
    alone = [replace(check, alarm_level=ALARM_LEVEL / 2 / len(alone)) for check in alone]
    scores = _scores(part) if scored and can_assist(part) else np.zeros(0)
    return (check_together(alone, part.n_reports, scores), *alone)


def _scores(part: Part) -> Floats:
    """The squared difference of each total from the prior's expectation, over its variance if the priors are right."""
    known = np.isfinite(np.sum([cell.read("unbiased").estimate for cell in part.collected.cells], axis=0))
    groups, target, variance = _excess(part, known, 1.0)
    spread = variance + groups.sampled[target].sum(axis=0)
    scores: Floats = groups.excess[target].sum(axis=0) ** 2 / np.maximum(spread, 1e-300)
    return scores


def _check_of(cell: Cell) -> PriorCheck:
    mechanism, kept = cell.group.mechanism, cell.kept
    return check_prior(cell.group.name, *mechanism.prior_statistic(kept), cell.n_reports, mechanism.prior_scores(kept))
