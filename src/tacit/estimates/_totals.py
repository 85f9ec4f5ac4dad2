"""Totals with intervals for any part of the reports: the step towards the prior, forged reports, the prior check.

The chosen cells of a `Part` are those whose total is asked for; the others show how far the priors can be trusted. The
fraction f of the people in question who took part decides whom an interval is about: f = 1 is for the participants
alone, f = 0 for a population so large that f does not matter.

**The ends of an interval for a sum** are each judged by a variance that a total there can have. A total θ = Σ g(x_i) of
n people restricts the variance V = Σ v(x_i) of its estimate, v(x) = Var(t | x): with l ≤ v ≤ u the convex and the
concave envelope of v over g,

    n l(θ/n) ≤ V ≤ n u(θ/n).

If everybody holds the smallest value, both sides are equal, so V is known. θ belongs to the interval of an estimate T
with the estimated variance S if

    |T − θ| ≤ z √V(θ) + h,     V(θ) = S, moved into these bounds,

where h is half the largest step of T by one report. Totals of several groups add up: the lower bounds are combined by
infimal convolution, the upper ones by supremal convolution. For the mean of a population of which the fraction f took
part the answers vary as well, and the upper bound is that of E[v + (1−f) g²] − (1−f) (E g)². Few reports of a skewed
population show too little of its spread where its mean is far from what they show, so S grows with that bound there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tacit.estimates._assisted import Expectation, Groups, expectation, pratt_interval, records_worth, shifted
from tacit.estimates._cells import Cell, Collected, Part, coarser
from tacit.estimates._rows import ALARM_LEVEL, Estimator, Found, PriorCheck, Scope, check_prior, check_together, student
from tacit.exact import Floats
from tacit.mechanism import Counts, PlainEstimator

#: Places at which an interval is searched, and halvings of the distance between two of them.
_PLACES, _HALVINGS = 1025, 40
#: Pieces of a curve that is no polyline.
_PIECES = 128
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
    if not part.of_groups or any(cell.group.without_prior or cell.kept.has_weights for cell in cells):
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
    collected, counted, bounds = part.collected, part.collected.plan.task.counts_people, _bounds(part, fraction)
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


def _bounds(part: Part, fraction: float) -> list[Bounds] | None:
    """For sums, bounds on the variance of every possible total, by component; None for counts and with weights."""
    cells = [cell for cell in part.cells if cell.n_reports]
    read = [cell.read("unbiased").by_answer for cell in cells]
    if part.collected.plan.task.counts_people or not (part.plain and cells) or None in read:
        return None
    each = part.size / part.n_reports
    people = [(cell.n_reports, each * g, each**2 * v) for cell, (g, v) in zip(cells, filter(None, read), strict=True)]
    return Bounds.of(people, sampled=1 - fraction)


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
    known, expected, x, moved, share = _moved(part, result.estimate, fraction)
    prior = result.estimate[known] - x
    at = middle[known] - prior
    variances = [np.maximum(end[known], 1e-12) for end in ends]
    low, high = pratt_interval(expected, at, variances[0], level)
    if not np.array_equal(variances[0], variances[1]):
        high = pratt_interval(expected, at, variances[1], level)[1]
    low, high = at - np.sqrt((at - low) ** 2 + apart[known]), at + np.sqrt((high - at) ** 2 + apart[known])
    whole = np.array([result.estimate, result.low, result.high, result.prior_share])
    whole[:, known] = prior + moved, prior + np.minimum(low, moved), prior + np.maximum(high, moved), share
    return Found(whole[0], result.error, whole[1], whole[2], whole[3], records_worth(expected))


def _moved(part: Part, total: Floats, fraction: float) -> tuple[NDArray[np.bool_], Expectation, Floats, Floats, Floats]:
    """Which rows are known, and of these the expectation, the total less that of the prior, the same moved towards the
    expectation, and the share of the prior in it.
    """
    known = np.isfinite(total)
    groups, target, variance = _excess(part, known, fraction)
    expected, x = expectation(groups, target), groups.excess[target].sum(axis=0)
    return known, expected, x, *shifted(expected, x, variance, _room(part, len(x)), groups.free)


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
        return [replace(cell, kept=cell.kept.merge(Counts.of([report]))) for report in range(kinds)]
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
    known, _, x, moved, _ = _moved(part, total, fraction)
    total[known] += moved - x
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
    return groups.excess[target].sum(axis=0) ** 2 / np.maximum(spread, 1e-300)


def _check_of(cell: Cell) -> PriorCheck:
    mechanism, kept = cell.group.mechanism, cell.kept
    return check_prior(cell.group.name, *mechanism.prior_statistic(kept), cell.n_reports, mechanism.prior_scores(kept))


# -- the ends of intervals --------------------------------------------------------------------------------------------


#: A number of people with the same mechanism, with the g and the variance of every answer that they may hold, arrays of
#: shape (answers, components).
People = tuple[float, Floats, Floats]


@dataclass(frozen=True)
class Bounds:
    """Least and largest variance of every possible total, as polylines."""

    least: tuple[Floats, Floats]
    most: tuple[Floats, Floats]
    sampled: bool = False

    @classmethod
    def of(cls, people: Sequence[People], *, sampled: float) -> list[Bounds]:
        """The bounds for these people, by component; with `sampled` = 1 − f those for the mean of a population, times
        the number of people.

        >>> yes_no = (10, np.array([[0.0], [1.0]]), np.array([[0.2], [0.3]]))
        >>> Bounds.of([yes_no], sampled=0.0)[0].least
        (array([ 0., 10.]), array([2., 3.]))
        """
        found = []
        for k in range(people[0][1].shape[1]):
            least = [(n, *_hull(g[:, k], v[:, k], 1)) for n, g, v in people]
            most = [(n, *_most_varied(g[:, k], v[:, k], sampled)) for n, g, v in people]
            found.append(cls(_together(least, 1), _together(most, -1), sampled > 0))
        return found

    def variance(self, total: Floats, estimated: float | Floats) -> Floats:
        """V(θ): the estimated variance, moved into the bounds at each total."""
        low, high = np.interp(total, *self.least), np.interp(total, *self.most)
        return np.clip(estimated, low, np.maximum(low, high))

    def at_ends(self, total: float, estimated: float, z: float, step: float) -> tuple[float, float]:
        """V at the lower and at the upper end of the interval."""
        first, last = (float(end) for end in self.least[0][[0, -1]])
        places = np.linspace(first, last, _PLACES)
        here = max(float(np.interp(total, *self.most)), 1e-300)

        def spread(at: Floats) -> Floats:
            more = np.maximum(np.interp(at, *self.most) / here, 1.0) if self.sampled else 1.0
            return self.variance(at, estimated * more)

        def excess(at: Floats) -> Floats:
            return np.abs(total - at) - z * np.sqrt(spread(at)) - step

        inside = np.flatnonzero(excess(places) <= 0)
        if not len(inside):
            nearest = float(self.variance(np.clip(total, first, last), estimated))
            return nearest, nearest
        ends = []
        for here_in, before in ((inside[0], inside[0] - 1), (inside[-1], inside[-1] + 1)):
            accepted = places[here_in]
            refused = places[before] if 0 <= before < _PLACES else accepted
            for _ in range(_HALVINGS):
                middle = (accepted + refused) / 2
                accepted, refused = (middle, refused) if excess(middle) <= 0 else (accepted, middle)
            ends.append(float(spread(accepted)))
        return ends[0], ends[1]


def variances_at_ends(
    bounds: Sequence[Bounds], totals: Floats, variances: Floats, z: float, steps: Floats
) -> tuple[Floats, Floats]:
    """V at the lower and at the upper end of the interval of each total."""
    ends = [
        each.at_ends(float(total), float(variance), z, float(step))
        for each, total, variance, step in zip(bounds, totals, variances, steps, strict=True)
    ]
    low, high = np.array(ends).T
    return low, high


def counts_at_ends(
    total: Floats,
    randomized: Floats,
    slopes: tuple[Floats, Floats],
    size: float,
    sampled: float,
    z: float,
    step: Floats,
) -> tuple[Floats, Floats]:
    """V at the lower and at the upper end of the interval of a count, as in Wilson's interval (1927).

    The estimate x of a count θ among W = `size` people has the variance

        V(θ) = R + s (θ − x) + c θ(W − θ),

    with R the part of the randomization. If few people hold a value, none may be seen: the variance at x is nearly 0
    then, but not the variance at the θ that would explain x. Both ends solve |x − θ| = z √V(θ) + h.

    Args:
        total: x, the estimates.
        randomized: R, by estimate.
        slopes: s for the lower and for the upper end.
        size: W, the number of people.
        sampled: c, 1/n for a sample of n people that stand for many, 0 for the participants alone.
        z: half the width of an interval in standard errors.
        step: h, half the largest step of an estimate by one report.

    Unary encoding at a large ε, where no report shows the value: with h = 0, 4 people may hold it.

    >>> none, slope = np.zeros(1), np.ones(1)
    >>> low, high = counts_at_ends(none, none, (slope, slope), 100.0, 0.0, 1.96, none)
    >>> round(1.96 * float(high[0]) ** 0.5, 2)
    3.84
    """
    found = []
    for side, slope in zip((-1, 1), slopes, strict=True):
        linear = slope + sampled * size
        at_zero = np.maximum(randomized - slope * total, 0.0)
        y, square = total + side * step, 1 + z * z * sampled
        middle = y + z * z * linear / 2
        root = np.sqrt(np.maximum(middle**2 - square * (y * y - z * z * at_zero), 0.0))
        end = (middle + side * root) / square
        found.append((np.maximum(side * (end - y), 0.0) / z) ** 2)
    return found[0], found[1]


def ends_within(
    total: Floats,
    variance: Floats,
    step: Floats,
    z: float,
    people: Sequence[People],
    *,
    sampled: float,
) -> tuple[Floats, Floats]:
    """The ends of the intervals of sums, each by its own variance.

    Args:
        total: the estimates, by component.
        variance: their variances.
        step: half the largest step of an estimate by one report.
        z: half the width of an interval in standard errors.
        people: numbers of people with the g and the variance of every answer that they may hold, arrays of shape
            (answers, components); without any the variance is the same at both ends.
        sampled: 1 where the answers are a sample of a population's, 0 for the participants alone.

    >>> low, high = ends_within(*np.array([[50.0], [25.0], [0.5]]), 2.0, [], sampled=1.0)
    >>> float(low[0]), float(high[0])
    (39.5, 60.5)
    """
    low = high = variance
    if people:
        low, high = variances_at_ends(Bounds.of(people, sampled=sampled), total, variance, z, step)
    return total - z * np.sqrt(low) - step, total + z * np.sqrt(high) + step


def _hull(x: Floats, y: Floats, side: int) -> tuple[Floats, Floats]:
    """The convex envelope (`side` 1) or the concave one (−1) of points, as a polyline."""
    kept: list[tuple[float, float]] = []
    for point in sorted(zip(x.tolist(), (side * y).tolist(), strict=True)):
        if kept and point[0] == kept[-1][0]:
            continue
        while len(kept) > 1 and _turn(kept[-2], kept[-1], point) <= 0:
            kept.pop()
        kept.append(point)
    line = np.array(kept)
    return line[:, 0], side * line[:, 1]


def _turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _most_varied(g: Floats, variance: Floats, sampled: float) -> tuple[Floats, Floats]:
    """The largest E[v + s g²] − s (E g)² for every mean of g; centred, so that large numbers do not cancel."""
    if not sampled:
        return _hull(g, variance, -1)
    centre = (g.min() + g.max()) / 2
    off = g - centre
    x, y = _hull(off, variance + sampled * off**2, -1)
    means = np.linspace(x[0], x[-1], _PIECES + 1) if len(x) > 1 else x
    return means + centre, np.interp(means, x, y) - sampled * means**2


def _together(lines: Sequence[tuple[float, Floats, Floats]], side: int) -> tuple[Floats, Floats]:
    """The infimal (`side` 1) or supremal (−1) convolution of convex or concave polylines, each of which is scaled by
    its number of people: pieces sorted by slope.
    """
    start = [sum(n * float(line[k][0]) for n, *line in lines) for k in (0, 1)]
    steps = np.concatenate([n * np.array([np.diff(x), np.diff(y)]) for n, x, y in lines], axis=1)
    order = np.argsort(side * steps[1] / np.maximum(steps[0], 1e-300), kind="stable")
    x, y = (np.concatenate([[first], first + np.cumsum(row[order])]) for first, row in zip(start, steps, strict=True))
    return x, y
