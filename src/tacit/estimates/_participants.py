"""Totals of the participants, group by group: intervals, the step towards the prior, forged reports, the prior check.

Every function takes a `Part` with one cell for each group of the plan (`Collected.by_group`): its chosen cells are the
groups whose total is asked for, the others show how far the priors can be trusted. Intervals cover the total of the
people who took part, not that of a population.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tacit.estimates._assisted import Groups, expectation, pratt_interval, records_worth, shifted
from tacit.estimates._cells import Cell, Part
from tacit.estimates._ends import possible, variances_at_ends
from tacit.estimates._prior_check import ALARM_LEVEL, PriorCheck, check_prior, check_together
from tacit.estimates._rows import Estimator, Found, reach, student
from tacit.exact import Floats
from tacit.mechanism import PlainEstimator, Reading

#: The largest distance of an assisted estimate from the unbiased one, in squared standard errors: for each number that
#: shows how far the priors are off, and in all.
_ROOM_FOR_EACH, _MOST_ROOM = 0.1, 0.25
#: The effect of a forged report on an assisted estimate is tried out: on this many groups, and report by report where
#: there are at most this many different ones.
_TRIED, _MOST_KINDS = 8, 16


def can_assist(part: Part) -> bool:
    """Whether anything shows how far the prior can be trusted: other groups, or a stated set of priors.

    Not where reports have weights, which may depend on the answers in a way that no prior describes.
    """
    cells = part.collected.cells
    if any(cell.group.without_prior or cell.has_weights for cell in cells):
        return False
    stated = any(cell.group.prior_set is not None for cell in part.cells)
    return part.n_reports > 0 and (stated or sum(cell.n_reports > 0 for cell in cells) > 1)


def found(part: Part, estimator: Estimator, level: float) -> Found:
    """The total of the chosen groups with intervals of this level.

    With `unbiased` the interval is total ± z·√V, each end with its own V: for counts by `reach`, for sums by `Bounds`.
    Totals move in steps: half a step is added on both sides. Counts without weights have whole numbers as ends, sums
    stay within the possible totals. With `assisted` it is Pratt's interval.
    """
    mine = [cell.read(_plain(estimator)) for cell in part.cells]
    total, variance = (np.sum([getattr(each, name) for each in mine], axis=0) for name in ("estimate", "variance"))
    unbiased = part.n_reports > 0 and estimator in ("assisted", "unbiased")
    bounds = part.bounds("participants") if unbiased else None
    counted = unbiased and part.collected.plan.task.counts_people
    step = part.half_step if counted or bounds is not None else np.zeros(len(total))
    if bounds is None:
        ends = _variance_at_ends(part, mine, total, variance, step, level)
    else:
        variance = np.array([float(each.variance(x, s)) for each, x, s in zip(bounds, total, variance, strict=True)])
        ends = variances_at_ends(bounds, total, variance, student(level), step)
    below, above = (student(level) * np.sqrt(end) for end in ends)
    result = Found(total, np.sqrt(variance), total - below, total + above, np.zeros(len(total)))
    if estimator == "assisted":
        result = _assisted(part, result, ends, level)
    elif estimator == "mmse":
        result = replace(result, prior_share=np.ones(len(total)))
    low, high = result.low - step, result.high + step
    if bounds is not None:
        low, high = possible(bounds, low), possible(bounds, high)
    if counted and part.size == part.n_reports and part.design_effect == 1.0:
        low, high = np.floor(low), np.ceil(high)
    for each in mine:
        if each.told is not None:
            low, high = np.where(each.told, low, np.nan), np.where(each.told, high, np.nan)
    return replace(result, low=low, high=high)


def _plain(estimator: Estimator) -> PlainEstimator:
    """The estimator by which the reports of one group are read."""
    return "unbiased" if estimator == "assisted" else estimator


def _variance_at_ends(
    part: Part, mine: Sequence[Reading], total: Floats, variance: Floats, step: Floats, level: float
) -> tuple[Floats, Floats]:
    """The variance at the lower and at the upper end of the interval, a step beyond it; of the groups' slopes the one
    that makes it wider.
    """
    slopes = [each.slope for each in mine]
    if not any(slopes):
        return variance, variance
    seen = sum(np.clip(each.estimate, 0.0, cell.n_reports) for each, cell in zip(mine, part.cells, strict=True))
    z = student(level)
    low, high = (
        (reach(variance + slope * (total + side * step - seen), slope, z, side) / z) ** 2
        for side, slope in ((-1, min(slopes)), (1, max(slopes)))
    )
    return low, high


# -- assisted ---------------------------------------------------------------------------------------------------------


def _assisted(part: Part, result: Found, ends: tuple[Floats, Floats], level: float) -> Found:
    """The unbiased result, moved towards the prior. Rows that the reports do not determine stay as they are."""
    known = np.isfinite(result.estimate)
    groups, target, variance = _excess(part, known)
    expected, x = expectation(groups, target), groups.excess[target].sum(axis=0)
    moved, share = shifted(expected, x, variance, _room(part, len(x)), groups.free)
    low, high = pratt_interval(expected, x, variance, level)
    if ends[0] is not ends[1]:
        at_ends = (pratt_interval(expected, x, np.maximum(end[known], 1e-12), level) for end in ends)
        low, high = next(at_ends)[0], next(at_ends)[1]
    prior = result.estimate[known] - x
    parts = prior + moved, prior + np.minimum(low, moved), prior + np.maximum(high, moved), share
    whole = np.array([result.estimate, result.low, result.high, result.prior_share])
    whole[:, known] = parts
    return Found(whole[0], result.error, whole[1], whole[2], whole[3], records_worth(expected))


def _excess(part: Part, known: NDArray[np.bool_]) -> tuple[Groups, NDArray[np.bool_], Floats]:
    """The totals of the groups that sent reports less those that their priors expect, which of them are chosen, and the
    variance of the total over these.
    """
    columns, target = [], []
    for cell, mine in zip(part.collected.cells, part.chosen, strict=True):
        if not cell.n_reports:
            continue
        reading, n = cell.read("unbiased"), cell.n_reports
        mean, spread, width = (column[known] for column in cell.prior_moments)
        prior_set = cell.group.prior_set
        stated = 0.0 if prior_set is None else float(prior_set.radius) / 2 * width
        offset = reading.estimate[known] - n * mean
        # A variance of 0 comes from too few reports.
        variance = np.maximum(reading.variance[known], 1e-9 * n * spread + 1e-12)
        columns.append((offset, variance, n * spread + (n * stated) ** 2, n * np.sqrt(spread)))
        target.append(bool(mine))
    excess, variance, sampled, scale = (np.array(column) for column in zip(*columns, strict=True))
    free = (known.sum() - 1) / known.sum() if part.collected.plan.task.per_value else 1.0
    return Groups(excess, variance, sampled, scale, float(free)), np.array(target), variance[target].sum(axis=0)


def _room(part: Part, n_rows: int) -> float:
    """The largest distance of an assisted estimate from the unbiased one, in standard errors.

    Groups of unequal size show as much as fewer equal ones, (Σn)²/Σn² of them.
    """
    if any(cell.group.prior_set is not None for cell in part.cells):
        return math.sqrt(_MOST_ROOM)
    sizes = np.array([float(cell.n_reports) for cell in part.collected.cells])
    others = sizes.sum() ** 2 / (sizes**2).sum() - 1
    return math.sqrt(min(_MOST_ROOM, _ROOM_FOR_EACH * others * max(n_rows - 1, 1)))


# -- forged reports ---------------------------------------------------------------------------------------------------


def influence(part: Part, estimator: Estimator) -> tuple[float, float]:
    """The largest change of a row by one forged report: one that is changed to another, and one that is added.

    No two reports move an assisted row alike, so additions are tried out, and a change is the difference of two: in the
    groups whose reports move most, and in one that sent none.
    """
    if estimator != "assisted":
        mine = [cell.read(_plain(estimator)) for cell in part.cells]
        return max(each.changed for each in mine), max(each.added for each in mine)
    cells = part.collected.cells
    places = sorted(np.flatnonzero(part.chosen).tolist(), key=lambda place: -cells[place].read("unbiased").changed)
    tried = [place for place in places if cells[place].n_reports][:_TRIED]
    tried += [place for place in places if not cells[place].n_reports][:1]
    start = _assisted_total(part)
    moves = [np.array([_assisted_total(_replaced(part, place, cell)) for cell in _additions(cells[place])]) - start
             for place in tried]  # fmt: skip
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


def _assisted_total(part: Part) -> Floats:
    """The assisted estimate alone."""
    total: Floats = np.sum([cell.read("unbiased").estimate for cell in part.cells], axis=0)
    known = np.isfinite(total)
    groups, target, variance = _excess(part, known)
    x = groups.excess[target].sum(axis=0)
    total[known] += shifted(expectation(groups, target), x, variance, _room(part, len(x)), groups.free)[0] - x
    return total


# -- the prior check --------------------------------------------------------------------------------------------------


def prior_checks(part: Part, scored: bool) -> tuple[PriorCheck, ...]:
    """The prior check of all chosen groups together, and of each that sent reports and has a prior.

    `scored` adds scores of the totals, for which the unbiased estimate must exist.
    """
    mine = [cell for cell in part.cells if cell.n_reports and not cell.group.without_prior]
    if not mine:
        return ()
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
    groups, target, variance = _excess(part, known)
    spread = variance + groups.sampled[target].sum(axis=0)
    scores: Floats = groups.excess[target].sum(axis=0) ** 2 / np.maximum(spread, 1e-300)
    return scores


def _check_of(cell: Cell) -> PriorCheck:
    mechanism, kept = cell.group.mechanism, cell.kept
    return check_prior(cell.group.name, *mechanism.prior_statistic(kept), cell.n_reports, mechanism.prior_scores(kept))
