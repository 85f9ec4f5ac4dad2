"""A plan's groups with what is kept of their reports: how they are read, moved towards the prior, and checked."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.estimates._assisted import Groups, expectation, pratt_interval, records_worth, shifted
from tacit.estimates._prior_check import ALARM_LEVEL, PriorCheck, check_prior, check_together
from tacit.estimates._rows import Estimator, prior_totals, reach, student
from tacit.exact import Floats
from tacit.mechanism import Covered, Kept, PlainEstimator, Reading, Received
from tacit.plan import Group, Plan
from tacit.tally import Counts, Coverage, GroupTally, Tally
from tacit.task import Task

#: An assisted estimate may be moved so far from the unbiased one, in squared standard errors, for each number that
#: shows how far priors are off; and so far in all.
_ROOM_FOR_EACH, _MOST_ROOM = 0.1, 1.44

#: What a forged report does to an assisted estimate is tried out on so many groups, if they have so few reports.
_TRIED, _MOST_KINDS = 8, 16

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Found:
    """Estimates with their intervals, before they become rows; `error` is the standard error."""

    estimate: Floats
    error: Floats
    low: Floats
    high: Floats
    prior_share: Floats
    records_worth: float | None = None

    @classmethod
    def plain(cls, total: Floats, variance: Floats, ends: tuple[Floats, Floats], level: float) -> Found:
        """A normal interval, with the variance at the estimate and that at each of its ends."""
        below, above = (student(level) * np.sqrt(end) for end in ends)
        return cls(total, np.sqrt(variance), total - below, total + above, np.zeros(len(total)))


@dataclass(frozen=True)
class GroupReports:
    """A plan's groups with what is kept of their reports; `target` marks those whose total is asked for."""

    plan: Plan
    groups: Sequence[tuple[Group, GroupTally]]
    target: NDArray[np.bool_]

    @classmethod
    def of(cls, plan: Plan, tally: Tally, group: str | Collection[str] | None = None) -> GroupReports:
        """All groups, or one or some that are asked for with the others beside them."""
        asked = {group} if isinstance(group, str) else group
        names = [each.name for each in plan.groups]
        if asked is not None and not (asked and set(asked) <= set(names)):
            raise ValueError(f"The plan has no group {next((name for name in asked if name not in names), None)!r}.")
        target = np.array([asked is None or name in asked for name in names])
        return cls(plan, [(each, tally.groups.get(each.name, Counts())) for each in plan.groups], target)

    @property
    def n_reports(self) -> int:
        return sum(counts.total for _, counts in _at(self.groups, self.target))

    @property
    def total_weight(self) -> float:
        return sum(counts.weight_sums[0] for _, counts in _at(self.groups, self.target))

    @property
    def design_effect(self) -> float:
        """Kish's n Σ w²/(Σ w)²: 1 where nobody has a weight."""
        mine = [counts for _, counts in _at(self.groups, self.target) if isinstance(counts, Counts)]
        if all(counts.sums is None for counts in mine):
            return 1.0
        squares = sum(float(counts.weighted()[1].sum()) for counts in mine)
        return self.n_reports * squares / self.total_weight**2 if self.total_weight else 1.0

    @property
    def present(self) -> NDArray[np.bool_]:
        """The groups that sent anything."""
        return np.array([counts.total > 0 for _, counts in self.groups])

    @property
    def can_assist(self) -> bool:
        """Whether anything says what the prior is worth: other groups, or a set of priors. Weights may go with the
        answers, and no prior knows of that.
        """
        if any(group.without_prior for group, _ in self.groups):
            return False
        if any(isinstance(counts, Counts) and counts.sums is not None for _, counts in self.groups):
            return False
        valued = any(group.prior_set is not None for group, _ in _at(self.groups, self.target))
        return bool((self.target & self.present).any() and (valued or self.present.sum() > 1))

    def read(self, estimator: PlainEstimator) -> list[Reading]:
        """Every group's reading; a weighted sum's a and b are the group's, times and plus those of the reports."""
        return [read_group(self.plan, group, counts, estimator) for group, counts in self.groups]

    def prior_totals(self) -> Floats:
        """What the priors alone expect."""
        return prior_totals(
            self.plan,
            [
                (float(counts.total), *counts.weight_sums) if asked else (0.0, 0.0, 0.0)
                for (_, counts), asked in zip(self.groups, self.target, strict=True)
            ],
        )

    def found(self, readings: Sequence[Reading], estimator: Estimator, level: float) -> Found:
        """The total asked for, with intervals of this level."""
        mine = _at(readings, self.target)
        total, variance = (np.sum([getattr(each, part) for each in mine], axis=0) for part in ("estimate", "variance"))
        people = self.plan.task.counts_people and self.n_reports > 0
        counted = people and estimator in ("assisted", "unbiased")
        # Counts of reports move in steps: half a step more keeps the level where they are few.
        step = max(each.changed for each in mine) / 2 if counted else 0.0
        ends = self._at_ends(mine, total, variance, step, level)
        found = Found.plain(total, variance, ends, level)
        if estimator == "assisted":
            found = self._assisted(readings, found, ends, level)
        elif estimator == "mmse":
            found = replace(found, prior_share=np.ones(len(total)))
        low, high = found.low, found.high
        if counted:
            low, high = low - step, high + step
            if self.total_weight == self.n_reports and self.design_effect == 1.0:
                low, high = np.floor(low), np.ceil(high)
        for each in mine:
            if each.told is not None:
                low, high = np.where(each.told, low, np.nan), np.where(each.told, high, np.nan)
        return replace(found, low=low, high=high)

    def _at_ends(
        self, mine: Sequence[Reading], total: Floats, variance: Floats, step: float, level: float
    ) -> tuple[Floats, Floats]:
        """The variance at the lower and at the upper end of the interval, which a step still goes beyond; of several
        groups the slope that makes it wider.
        """
        slopes = [each.slope for each in mine]
        if not any(slopes):
            return variance, variance
        counts = _at(self.groups, self.target)
        seen = sum(np.clip(each.estimate, 0.0, kept.total) for each, (_, kept) in zip(mine, counts, strict=True))
        z = student(level)
        low, high = (
            (reach(variance + slope * (total + side * step - seen), slope, z, side) / z) ** 2
            for side, slope in ((-1, min(slopes)), (1, max(slopes)))
        )
        return low, high

    def _assisted(self, readings: Sequence[Reading], found: Found, ends: tuple[Floats, Floats], level: float) -> Found:
        """Moved towards the prior as far as it is worth it. A row that no report speaks of stays as it is."""
        known = np.isfinite(found.estimate)
        groups, variance = self._excess(readings, known)
        target = self.target[self.present]
        expected, x = expectation(groups, target), groups.excess[target].sum(axis=0)
        moved, share = shifted(expected, x, variance, self._room(len(x)), groups.free)
        low, high = pratt_interval(expected, x, variance, level)
        if ends[0] is not ends[1]:
            at_ends = (pratt_interval(expected, x, np.maximum(end[known], 1e-12), level) for end in ends)
            low, high = next(at_ends)[0], next(at_ends)[1]
        prior = found.estimate[known] - x
        parts = prior + moved, prior + np.minimum(low, moved), prior + np.maximum(high, moved), share
        whole = np.array([found.estimate, found.low, found.high, found.prior_share])
        whole[:, known] = parts
        return Found(whole[0], found.error, whole[1], whole[2], whole[3], records_worth(expected))

    def _excess(self, readings: Sequence[Reading], known: NDArray[np.bool_]) -> tuple[Groups, Floats]:
        """What the groups that sent anything say beside their priors, and the variance of the total asked for."""
        present, columns = self.present, []
        for (group, counts), reading in zip(_at(self.groups, present), _at(readings, present), strict=True):
            mean, spread, reach = (part[known] for part in _prior_moments(self.plan, group))
            n = counts.total
            stated = 0.0 if group.prior_set is None else float(group.prior_set.radius) / 2 * reach
            offset = reading.estimate[known] - n * mean
            # A variance of nothing is one of too few reports.
            variance = np.maximum(reading.variance[known], 1e-9 * n * spread + 1e-12)
            columns.append((offset, variance, n * spread + (n * stated) ** 2, n * np.sqrt(spread)))
        excess, variance, sampled, scale = (np.array(column) for column in zip(*columns, strict=True))
        free = (known.sum() - 1) / known.sum() if self.plan.task.per_value else 1.0
        groups = Groups(excess, variance, sampled, scale, float(free))
        return groups, variance[self.target[present]].sum(axis=0)

    def _room(self, n_rows: int) -> float:
        """How far from the unbiased estimate an assisted one may be, in standard errors.

        Groups of unequal size show as much as fewer equal ones, (Σn)²/Σn² of them.
        """
        if any(group.prior_set is not None for group, _ in _at(self.groups, self.target)):
            return math.sqrt(_MOST_ROOM)
        sizes = np.array([float(counts.total) for _, counts in self.groups])
        others = sizes.sum() ** 2 / (sizes**2).sum() - 1
        return math.sqrt(min(_MOST_ROOM, _ROOM_FOR_EACH * others * max(n_rows - 1, 1)))

    def influence(self, readings: Sequence[Reading], estimator: Estimator) -> tuple[float, float]:
        """How far one forged report can move a row: one that is changed to another, and one more."""
        mine = _at(readings, self.target)
        if estimator != "assisted":
            return max(each.changed for each in mine), max(each.added for each in mine)
        # No two reports move a row alike: all that can be added are tried out, and a change is to take the one for the
        # other. Groups whose reports weigh most come first, then some from which none came.
        places = sorted(np.flatnonzero(self.target).tolist(), key=lambda place: -readings[place].changed)
        tried = [place for place in places if self.present[place]][:_TRIED]
        tried += [place for place in places if not self.present[place]][:1]
        start = self._assisted_total(readings)
        moves = [self._additions(readings, place) - start for place in tried]
        return (
            max(float(np.nanmax(np.ptp(each, axis=0))) for each in moves),
            max(float(np.nanmax(np.abs(each))) for each in moves),
        )

    def _additions(self, readings: Sequence[Reading], place: int) -> Floats:
        """The assisted total with one more report of a group, for each report there is, or for the widest there are."""
        group, counts = self.groups[place]
        kinds = group.mechanism.n_possible_reports
        if kinds is not None and kinds <= _MOST_KINDS and isinstance(counts, Counts):
            more = [counts.merge(Counts.of([report])) for report in range(kinds)]
            groups = [
                replace(self, groups=[*self.groups[:place], (group, each), *self.groups[place + 1 :]]) for each in more
            ]
            read = [read_group(self.plan, group, each, "unbiased") for each in more]
        else:
            groups, old = [self, self], readings[place]
            mean = _prior_moments(self.plan, group)[0]
            read = [replace(old, estimate=old.estimate + mean + step) for step in (-old.changed / 2, old.changed / 2)]
        totals = [
            each._assisted_total([*readings[:place], reading, *readings[place + 1 :]])
            for each, reading in zip(groups, read, strict=True)
        ]
        return np.array(totals)

    def _assisted_total(self, readings: Sequence[Reading]) -> Floats:
        """The assisted estimate alone."""
        total: Floats = np.sum([each.estimate for each in _at(readings, self.target)], axis=0)
        known = np.isfinite(total)
        groups, variance = self._excess(readings, known)
        target = self.target[self.present]
        x = groups.excess[target].sum(axis=0)
        total[known] += shifted(expectation(groups, target), x, variance, self._room(len(x)), groups.free)[0] - x
        return total

    def checks(self, readings: Sequence[Reading] | None) -> tuple[PriorCheck, ...]:
        """The prior check of each group asked for that has one, and of all of them together; unbiased readings help
        there.
        """
        asked = _at(self.groups, self.target)
        mine = [(group, counts) for group, counts in asked if counts.total and not group.without_prior]
        if not mine:
            return ()
        alone = [_check_of(group, counts) for group, counts in mine]
        if len(alone) == 1:
            return tuple(alone)
        # Many groups have many chances to look odd: each gets its share of the false alarms.
        alone = [replace(check, alarm_level=ALARM_LEVEL / 2 / len(alone)) for check in alone]
        return (check_together(alone, self.n_reports, self._scores(readings)), *alone)

    def _scores(self, readings: Sequence[Reading] | None) -> Floats:
        """The squared difference of each total from what the priors expect, over its variance if they are right."""
        if readings is None or not self.can_assist:
            return np.zeros(0)
        known = np.isfinite(np.sum([each.estimate for each in readings], axis=0))
        groups, variance = self._excess(readings, known)
        target = self.target[self.present]
        spread = variance + groups.sampled[target].sum(axis=0)
        scores: Floats = groups.excess[target].sum(axis=0) ** 2 / np.maximum(spread, 1e-300)
        return scores


def _check_of(group: Group, counts: GroupTally) -> PriorCheck:
    """The prior check of one group."""
    kept = kept_of(counts)
    statistic, scores = group.mechanism.prior_statistic(kept), group.mechanism.prior_scores(kept)
    return check_prior(group.name, *statistic, counts.total, scores)


def _at(items: Sequence[_Item], wanted: NDArray[np.bool_]) -> list[_Item]:
    return [item for item, want in zip(items, wanted, strict=True) if want]


def read_task(plan: Plan) -> Task:
    """What a mechanism is asked for: of a weighted sum the sum, to which weights and offsets come later."""
    return plan.task.as_rounded() if plan.between else plan.task


def read_group(plan: Plan, group: Group, counts: GroupTally, estimator: PlainEstimator) -> Reading:
    """What one group's reports say; a weighted sum's a and b are the group's, times and plus those of the reports."""
    read = group.mechanism.read(estimator, read_task(plan), kept_of(counts))
    if isinstance(counts, Counts) and counts.sums is not None:
        # A forged report weighs no more than the heaviest that came.
        heaviest = counts.weighted()[2]
        read = replace(read, changed=heaviest * read.changed, added=heaviest * read.added)
    a, b = float(group.weight), float(group.offset)
    offset = b * counts.total + a * counts.weight_sums[1]
    return replace(
        read, estimate=a * read.estimate + offset, variance=a * a * read.variance,
        changed=abs(a) * read.changed, added=abs(a) * read.added + abs(b),
    )  # fmt: skip


def _prior_moments(plan: Plan, group: Group) -> tuple[Floats, Floats, Floats]:
    """Mean, variance and range under the prior of what one respondent adds to each row."""
    a, b = float(group.weight), float(group.offset)
    mean, variance, reach = plan.task.moments(group.prior)
    return a * mean + b, a * a * variance, abs(a) * reach


def kept_of(counts: GroupTally) -> Kept:
    """A group's part of a tally, as a mechanism reads it."""
    if isinstance(counts, Coverage):
        return Covered(counts.coverage, counts.total)
    weights, squares, _ = counts.weighted()
    return Received(counts.reports, counts.counts.astype(np.float64), weights, squares)
