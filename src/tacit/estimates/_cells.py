"""Reports in cells, and totals and means over any part of the cells.

A cell holds the reports of people who share a group and everything else that is public about them. With t the
pseudo-value of a report, w its own weight and g the factor of its cell, the mean of a part D is m = Σ_D g w t / W with
W = Σ_D g w. A report changes it by u = 1_D (t − m)/W, so that

    for a large population  Var m ≈ n/(n−p) Σ (g w)² (u − xᵀB)²,      B the regression of u on the margins x,
    for the participants    Var m = Σ (g w)² Var(u | answer).

The first is the usual variance of survey sampling (Särndal, Swensson, Wretman, 1992, section 6; p margins; p = 1 and
x = 0 without margins) and includes the randomization; the second is the randomization alone. If the fraction f of a
population took part, the variance is (1 − f) times the first plus f times the second. The difference of two parts
changes by the difference of their u, so parts may overlap.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.estimates._rows import Scope
from tacit.exact import Floats
from tacit.mechanism import Kept, PlainEstimator, Reading
from tacit.plan import Group, Plan, margins
from tacit.prior import Value, numbers_if_all
from tacit.tally import Tally
from tacit.task import Task

#: A part with fewer reports than this is marked as small.
FEW = 30
#: A column with more categories is a number or an identifier.
_MOST_PARTS = 2000


@dataclass(frozen=True)
class Moments:
    """Sums over the reports of a cell: `mean` Σ w t / Σ w, `first` Σ w² (t − mean), `second` Σ w² (t − mean)², and
    `randomized` Σ w² Var(t | answer), the part of the randomization.

    Few reports that are equal show no spread: `allowance` is what one more report, with any value, adds to `second`.
    """

    mean: Floats
    first: Floats
    second: Floats
    randomized: Floats
    allowance: Floats


@dataclass(frozen=True)
class Cell:
    """Reports whose senders share a group and everything else that is public about them.

    `of_group` has the labels of the group, by the name of the margin; `columns` those of the reports' public columns.
    """

    plan: Plan
    group: Group
    kept: Kept
    of_group: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    _readings: dict[PlainEstimator, Reading] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """The cell's category of each margin."""
        return {**self.of_group, **self.columns}

    @property
    def n_reports(self) -> int:
        return self.kept.total

    @cached_property
    def weight(self) -> float:
        """Σ w; the number of reports where they have no weights."""
        return self.kept.weight_sums[0]

    @cached_property
    def squares(self) -> float:
        """Σ w²; the number of reports where they have no weights."""
        return self.kept.weight_squares

    @cached_property
    def prior_moments(self) -> tuple[Floats, Floats, Floats]:
        """Mean, variance and range under the prior of the part that one respondent adds to each row, a·g(x) + b."""
        (mean, variance, width), (a, b) = self._task_moments, self._scale
        return a * mean + b, a * a * variance, abs(a) * width

    @property
    def prior_total(self) -> Floats:
        """The total that the prior alone expects of these respondents, a·(Σ w · E g + Σ offsets) + b·n."""
        (weights, offsets), (a, b) = self.kept.weight_sums, self._scale
        return a * (weights * self._task_moments[0] + offsets) + b * self.n_reports

    @cached_property
    def _task_moments(self) -> tuple[Floats, Floats, Floats]:
        return self.plan.task.moments(self.group.prior)

    def read(self, estimator: PlainEstimator) -> Reading:
        """The total of the respondents, Σ a·w·g(x) + b, as the group's mechanism reads their reports."""
        if estimator not in self._readings:
            self._readings[estimator] = self._read(estimator)
        return self._readings[estimator]

    def _read(self, estimator: PlainEstimator) -> Reading:
        read = self.group.mechanism.read(estimator, read_task(self.plan), self.kept)
        if self.kept.has_weights:
            # A forged report has at most the largest weight that came.
            largest = self.kept.largest_weight
            read = replace(read, changed=largest * read.changed, added=largest * read.added)
        a, b = self._scale
        return replace(
            read, estimate=a * read.estimate + b * self.n_reports + a * self.kept.weight_sums[1],
            variance=a * a * read.variance, changed=abs(a) * read.changed, added=abs(a) * read.added + abs(b),
            by_answer=None if read.by_answer is None else (a * read.by_answer[0] + b, a * a * read.by_answer[1]),
        )  # fmt: skip

    def with_unbiased(self, reading: Reading) -> Cell:
        """The same cell, as if its reports were read like this."""
        cell = replace(self)
        cell._readings["unbiased"] = reading
        return cell

    @cached_property
    def moments(self) -> Moments:
        """The sums over pseudo-values t that means and their variances need."""
        group, kept, read = self.group, self.kept, self.read("unbiased")
        if not kept.is_counted:
            # There are no weights, and of counts the mean of t² is that of t, apart from the randomization.
            mean = read.estimate / max(kept.total, 1)
            inside = np.clip(mean, 0.0, 1.0)
            second = read.variance + kept.total * inside * (1 - inside)
            return Moments(mean, 0 * mean, second, read.variance, 0 * mean + read.changed**2)
        counts = kept.counted()
        weights, squares, largest = counts.weighted()
        a, b = self._scale
        t = a * group.mechanism.pseudo_values(read_task(self.plan), counts.reports) + b
        mean = weights @ t / (float(weights.sum()) or 1.0)
        away = t - mean
        step = self._step(read.changed / largest if largest else 0.0)
        more = float(squares.sum()) / max(kept.total, 1) * step**2
        return Moments(mean, squares @ away, squares @ away**2, np.maximum(read.variance, 0.0), 0 * mean + more)

    @cached_property
    def slopes(self) -> tuple[Floats, Floats]:
        """The growth of the variance of a count by one more person who holds the component, in place of one who does
        not: at least and at most.
        """
        read, ones = self.read("unbiased"), np.ones(len(self.plan.row_values))
        if read.by_answer is None:
            return read.slope * ones, read.slope * ones
        g, v = read.by_answer
        held, others = (np.where(mine, v, np.nan) for mine in (g > 0.5, g < 0.5))
        known = np.isfinite(held).any(axis=0) & np.isfinite(others).any(axis=0)
        least, most = np.zeros((2, len(ones)))
        least[known] = np.nanmin(held[:, known], axis=0) - np.nanmax(others[:, known], axis=0)
        most[known] = np.nanmax(held[:, known], axis=0) - np.nanmin(others[:, known], axis=0)
        return least, most

    @property
    def steps(self) -> Floats:
        """The largest change of each row by one report that is changed to another."""
        return self._step(self.read("unbiased").changed) * np.ones(len(self.plan.row_values))

    def _step(self, largest: float) -> float | Floats:
        """How far one report of weight 1 moves each row, at most: `largest`, the most of all rows, unless the rows of
        the task have different units.
        """
        if self.plan.task.per_value or len(self.plan.row_values) == 1:
            return largest
        n_reports = self.group.mechanism.n_possible_reports
        assert n_reports is not None, "tasks other than histograms are served by tables"
        return np.ptp(self.group.mechanism.pseudo_values(read_task(self.plan), np.arange(n_reports)), axis=0)

    @property
    def _scale(self) -> tuple[float, float]:
        """The group's a and b in a weighted sum; 1 and 0 for other tasks."""
        return float(self.group.weight), float(self.group.offset)


def read_task(plan: Plan) -> Task:
    """The task that a mechanism is asked for; the weights and offsets of a weighted sum are applied to its result."""
    return plan.task.as_rounded() if plan.between else plan.task


def cells_of(
    plan: Plan,
    tallies: Tally | Mapping[tuple[str, ...], Tally],
    by: Sequence[str] = (),
    *,
    group_column: str = "group",
    group_parts: Sequence[str] = (),
) -> list[Cell]:
    """The cells of one tally, or of one tally for each combination of categories of the public columns `by`.

    Of a plan of several questions every cell belongs to one block, and is read for the block's own task; `read_for`
    reads it for another.

    Args:
        plan: the plan of the tallies.
        tallies: one tally, or a mapping from categories, one for each column of `by`, to tallies.
        by: names of the public columns.
        group_column: the margin under which a cell is labelled with its group.
        group_parts: where groups are crossed, as in "north / old", the margins that their parts belong to.

    >>> from tacit import Prior, Survey, make_plan
    >>> plan = make_plan({"north / old": Prior.uniform(["yes", "no"])}, Survey("yes"), epsilon=1)
    >>> (cell,) = cells_of(plan, Tally.of(plan, [0, 1, 1], ["north / old"] * 3), group_parts=("region", "age"))
    >>> cell.n_reports, cell.labels
    (3, {'group': 'north / old', 'region': 'north', 'age': 'old'})
    """
    parts = margins(plan.block_plans[0], group_parts) if group_parts else {}
    several = {(): tallies} if isinstance(tallies, Tally) else tallies
    found = []
    for key, tally in several.items():
        tally.check(plan)
        columns = dict(zip(by, key, strict=True))
        for counted, (place, name) in zip(plan.groups, plan.places, strict=True):
            kept = tally.groups.get(counted.name)
            if kept is None or not kept.total:
                continue
            named = {} if name is None else {group_column: name, **parts.get(name, {})}
            block = plan.block_plans[place]
            found.append(Cell(block, block.group(name), kept, named, columns))
    return found


def read_for(cells: Sequence[Cell], plan: Plan) -> list[Cell]:
    """The `cells` with reports of this `plan`, read for its task; `Plan.reading` gives the same plan another task."""
    return [
        replace(cell, plan=plan, group=plan.group(cell.group.name)) for cell in cells if cell.plan.hash == plan.hash
    ]


def coarser(cells: Sequence[Cell], margins: Collection[str]) -> Sequence[Cell]:
    """The cells with all public columns left out but those in `margins`.

    Every cell adds the allowance for few reports to the variance, so a column without a part in the question would
    widen the intervals.
    """
    if all(set(cell.columns) <= set(margins) for cell in cells):
        return cells
    found: dict[tuple[str | None, tuple[str, ...]], Cell] = {}
    for cell in cells:
        columns = {name: label for name, label in cell.columns.items() if name in margins}
        key = cell.group.name, tuple(columns.values())
        kept = found[key].kept.merge(cell.kept) if key in found else cell.kept
        found[key] = replace(cell, kept=kept, columns=columns)
    return list(found.values())


@dataclass(frozen=True)
class Collected:
    """A plan's reports in cells, with a factor for each cell beside the reports' own weights; by default 1.

    `margins` has a column for each category of the population that the factors are fitted to, 1 where a cell is in it;
    None where they are fitted to nothing. `finite` says that the factors are those of a population of a known size.
    """

    plan: Plan
    cells: Sequence[Cell]
    factors: Floats = field(default_factory=lambda: np.zeros(0))
    margins: Floats | None = None
    finite: bool = False

    def __post_init__(self) -> None:
        if not len(self.factors):
            object.__setattr__(self, "factors", np.ones(len(self.cells)))

    @property
    def values(self) -> list[Value | None]:
        """The labels of the rows."""
        return self.plan.row_values

    @property
    def asks_for_weights(self) -> bool:
        """Whether the reports' weights are part of what is asked, so that they do not say whom reports stand for."""
        return self.plan.task.takes_weights and any(cell.kept.has_weights for cell in self.cells)

    def check_weights(self) -> None:
        """Raise `ValueError` unless the reports have positive design weights, or none."""
        if any(cell.n_reports and cell.weight <= 0 for cell in self.cells):
            raise ValueError("The weights of reports must be positive.")
        if self.asks_for_weights:
            raise ValueError(
                "The weights and offsets of a weighted sum are part of what is asked, so they cannot weigh reports as "
                "well. Leave them out here, or export pseudo-values."
            )

    @cached_property
    def weights(self) -> Floats:
        """g Σ w of every cell."""
        return self.factors * np.array([cell.weight for cell in self.cells])

    def _categories(self, margin: str) -> list[str]:
        """The categories of a margin among the reports: in the order of the plan's groups where each group is in one
        of them, else sorted, numbers by their size.
        """
        cells = [cell for cell in self.cells if cell.n_reports]
        if cells and margin not in cells[0].labels:
            known = ", ".join(f"'{name}'" for name in cells[0].labels) or "none"
            raise ValueError(f"The reports have no margin '{margin}'. Known are {known}.")
        if len(self.plan.groups) > 1:
            of_group: dict[str | None, dict[str, None]] = {group.name: {} for group in self.plan.groups}
            for cell in cells:
                of_group[cell.group.name][cell.labels[margin]] = None
            if all(len(found) <= 1 for found in of_group.values()):
                return list(dict.fromkeys(name for found in of_group.values() for name in found))
        names = sorted({cell.labels[margin] for cell in cells})
        sizes = dict(zip(names, numbers_if_all(names), strict=True))
        return sorted(names, key=lambda name: sizes[name])

    def part(self, name: str = "everybody") -> Part:
        """All cells."""
        if not any(cell.n_reports for cell in self.cells):
            raise ValueError(f"There are no reports of {name}.")
        return Part(self, name, np.ones(len(self.cells), dtype=bool))

    def parts(self, margin: str) -> list[Part]:
        """A part for each category of a margin."""
        names = self._categories(margin)
        if len(names) > _MOST_PARTS:
            raise ValueError(f"'{margin}' has {len(names):,} categories, too many to be looked at one by one.")
        of_groups = any(margin in cell.of_group for cell in self.cells)
        places = {name: place for place, name in enumerate(names)}
        mine = np.array([places[cell.labels[margin]] if cell.n_reports else -1 for cell in self.cells])
        return [Part(self, name, mine == place, of_groups) for name, place in places.items()]

    def variance(self, fraction: float, slope: Floats, shift: Floats, n_reports: int) -> Floats:
        """Var Σ g w (slope·t − shift) over all reports, `slope` per cell and `shift` per cell and component."""
        inside = _sum(slope**2, self.inside(fraction, n_reports))
        return inside if fraction == 1 else inside + (1 - fraction) * self.between(slope, shift, n_reports)

    def inside(self, fraction: float, n_reports: int, *, allowed: bool = True) -> Floats:
        """The variance of each cell's total by its own reports; `allowed` adds the allowances for few of them."""
        moments, times = [cell.moments for cell in self.cells], float(allowed)
        allowance = times * np.array([each.allowance for each in moments])
        variance: Floats = np.array([each.randomized for each in moments]) + allowance / 4
        if fraction != 1:
            spread = np.array([each.second for each in moments]) + allowance
            variance = fraction * variance + (1 - fraction) * self._corrected(n_reports) * spread
        return _times(self.factors**2, variance)

    def between(self, slope: Floats, shift: Floats, n_reports: int) -> Floats:
        """The rest of the variance for a large population: the cells differ, and who is in which is chance."""
        self.check_weights()
        moments = [cell.moments for cell in self.cells]
        mean, first = (np.array([getattr(each, name) for each in moments]) for name in ("mean", "first"))
        away = _times(slope, mean) - shift
        if self.margins is not None:
            away = away - self._explained(away)
        squares = np.array([cell.squares for cell in self.cells])[:, None]
        spread = _sum(self.factors**2, 2 * _times(slope, first) * away + squares * away**2)
        return self._corrected(n_reports) * spread

    def _corrected(self, n_reports: int) -> float:
        """n/(n−p)."""
        used = 1 if self.margins is None else int(np.linalg.matrix_rank(self.margins))
        return n_reports / max(n_reports - used, 1)

    def _explained(self, away: Floats) -> Floats:
        """The part of each cell's mean of u that its margins explain, with the reports' weights and factors.

        Raking factors are e^(xᵀλ), whose derivative is the factor itself: so the regression with the factors inside is
        the exact first order, also where some people answer more readily than others.
        """
        assert self.margins is not None
        root = np.sqrt(self.weights)[:, None]
        known = np.isfinite(away).all(axis=0)
        explained = np.full(away.shape, np.nan)
        solved = np.linalg.lstsq(root * self.margins, root * away[:, known], rcond=None)[0]
        explained[:, known] = self.margins @ solved
        return explained


@dataclass(frozen=True)
class Part:
    """Some of the collected cells: the total and the mean of the answers of their senders.

    `of_groups` says that it consists of whole groups, so that the priors describe it.
    """

    collected: Collected
    name: str
    chosen: NDArray[np.bool_]
    of_groups: bool = True

    @property
    def cells(self) -> list[Cell]:
        """The cells of this part."""
        return [cell for cell, mine in zip(self.collected.cells, self.chosen, strict=True) if mine]

    @cached_property
    def n_reports(self) -> int:
        return sum(cell.n_reports for cell in self.cells)

    @cached_property
    def size(self) -> float:
        """W: the number of people whom the reports stand for."""
        return float(self.collected.weights @ self.chosen)

    @cached_property
    def design_effect(self) -> float:
        """Kish's n Σ w²/(Σ w)²: the factor by which unequal weights alone raise the variance."""
        squares = float(self.collected.factors**2 * self.chosen @ [cell.squares for cell in self.collected.cells])
        return (
            1.0 if squares == self.size == self.n_reports or not self.size else self.n_reports * squares / self.size**2
        )

    @property
    def n_effective(self) -> float:
        """The number of reports of equal weight with the same precision."""
        return self.n_reports / self.design_effect

    @property
    def degrees(self) -> float:
        """Degrees of freedom of Student's t, by which few reports make wider intervals."""
        return max(self.n_effective - 1.0, 1.0)

    @property
    def few(self) -> bool:
        """Whether there are too few reports to trust an interval much."""
        return self.n_effective < FEW

    @cached_property
    def composition(self) -> Floats:
        """The share of W in each cell."""
        return self.collected.weights * self.chosen / self.size

    @cached_property
    def mean(self) -> Floats:
        """Shares of a survey or a histogram, the mean of a sum."""
        return _sum(self.composition, np.array([cell.moments.mean for cell in self.collected.cells]))

    @cached_property
    def prior_total(self) -> Floats:
        """The total that the priors alone expect of these people; NaN where a group has no prior."""
        total = np.zeros(len(self.collected.values))
        if any(group.without_prior for group in self.collected.plan.groups):
            return total * np.nan
        factors = self.collected.factors[self.chosen]
        return sum((f * cell.prior_total for f, cell in zip(factors, self.cells, strict=True)), total)

    @property
    def moves(self) -> tuple[Floats, Floats]:
        """u of a report of each cell, slope·t − shift: the change of the mean by the report."""
        slope = self.chosen / self.size
        return slope, np.outer(slope, self.mean)

    def fraction(self, scope: Scope) -> float:
        """The fraction f of the people in question who took part: 0 where the population is so large, or its size so
        little known, that it makes no difference.
        """
        if scope == "participants":
            return 1.0
        return min(1.0, self.n_reports / self.size) if self.collected.finite else 0.0

    def variance(self, scope: Scope) -> Floats:
        """The variance of the mean."""
        return self.collected.variance(self.fraction(scope), *self.moves, self.n_reports)

    @cached_property
    def half_step(self) -> Floats:
        """Half the largest change of each total by one report."""
        factors = self.collected.factors[self.chosen]
        return np.max([f * cell.steps for f, cell in zip(factors, self.cells, strict=True)], axis=0) / 2

    @property
    def plain(self) -> bool:
        """Whether every report stands for the same number of people."""
        factors = self.collected.factors[self.chosen]
        return bool((factors == factors[:1]).all()) and not any(cell.kept.has_weights for cell in self.cells)

    @property
    def possible(self) -> tuple[Floats, Floats]:
        """The smallest and the largest total of each row; infinite where they are unknown."""
        ones = np.ones(len(self.collected.values))
        if self.collected.plan.task.counts_people:
            return 0 * ones, self.size * ones
        cells = [cell for cell in self.cells if cell.n_reports]
        read = [cell.read("unbiased").by_answer for cell in cells]
        if self.collected.asks_for_weights or None in read:
            return -math.inf * ones, math.inf * ones
        weights = self.collected.weights[self.chosen & [cell.n_reports > 0 for cell in self.collected.cells]]
        ends = [(g.min(axis=0), g.max(axis=0)) for g, _ in filter(None, read)]
        least, most = (_sum(weights, np.array([each[k] for each in ends])) for k in (0, 1))
        return least, most

    @property
    def slopes(self) -> tuple[Floats, Floats]:
        """The growth of the variance of a count by one more of the people whom reports stand for, at least and at most.

        In a cell with factor g, the variance of Σ g w t grows by g·slope for each unit of it.
        """
        factors, cells = self.collected.factors[self.chosen], self.cells
        least, most = (np.array([each.slopes[k] for each in cells]) * factors[:, None] for k in (0, 1))
        return least.min(axis=0), most.max(axis=0)


def _times(weights: Floats, cells: Floats) -> Floats:
    """Each cell's numbers times its weight; a cell of weight 0 counts as 0, also where its numbers are NaN."""
    return np.where(weights[:, None] == 0, 0.0, weights[:, None] * cells)


def _sum(weights: Floats, cells: Floats) -> Floats:
    return _times(weights, cells).sum(axis=0)
