"""Reports in cells, and totals and means over any part of the cells.

A cell holds the reports of people who share a group and everything else that is public about them. With t the
pseudo-value of a report, w its own weight and g the factor of its cell, the mean of a part D is m = Σ_D g w t / W with
W = Σ_D g w. A report changes it by u = 1_D (t − m)/W, so that

    for the population      Var m ≈ n/(n−p) Σ (g w)² (u − xᵀB)²,      B the regression of u on the margins x,
    for the participants    Var m = Σ (g w)² Var(u | answer).

The first is the usual variance of survey sampling (Särndal, Swensson, Wretman, 1992, section 6; p margins; p = 1 and
x = 0 without margins) and includes the randomization; the second is the randomization alone. The difference of two
parts changes by the difference of their u, so parts may overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.estimates._ends import Bounds, People, interval_of_sums
from tacit.estimates._rows import Found, Scope, reach, student
from tacit.exact import Floats
from tacit.mechanism import Kept, PlainEstimator, Reading
from tacit.plan import AnyPlan, Group, Plan, Questionnaire, margins, split_name
from tacit.prior import Value, numbers_if_all
from tacit.tally import Counts, Tally
from tacit.task import Task

#: A part with fewer reports than this is marked as small.
FEW = 30
#: A column with more categories is a number or an identifier.
_MOST_PARTS = 2000


@dataclass(frozen=True)
class Moments:
    """Sums over the reports of a cell: `mean` Σ w t / Σ w, `first` Σ w² (t − mean), `second` Σ w² (t − mean)², and
    `randomized` Σ w² Var(t | answer), the part of the randomization.

    One report that is changed to another moves Σ w t by at most `changed`, one more report by `added`. Each person who
    holds a component adds `slope` to its part of `randomized`.
    """

    mean: Floats
    first: Floats
    second: Floats
    randomized: Floats
    changed: float
    added: float
    slope: float = 0.0


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

    @property
    def has_weights(self) -> bool:
        """Whether the reports have weights of their own."""
        return self.kept.has_weights

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

    def with_one_more(self, report: int) -> Cell:
        """The same cell with one more report; of cells whose reports are counted one by one."""
        return replace(self, kept=self.kept.merge(Counts.of([report])))

    def check_weights(self) -> None:
        """Raise `ValueError` unless the reports have positive design weights, or none."""
        if self.plan.task.takes_weights and self.has_weights:
            raise ValueError(
                "The weights and offsets of a weighted sum are part of what is asked, so they cannot weigh reports as "
                "well. Leave them out here, or export pseudo-values."
            )
        if self.weight <= 0:
            raise ValueError("The weights of reports must be positive.")

    @cached_property
    def moments(self) -> Moments:
        """The sums over pseudo-values t that means and their variances need."""
        self.check_weights()
        group, kept, read = self.group, self.kept, self.read("unbiased")
        if not kept.is_counted:
            # There are no weights, and of counts the mean of t² is that of t, apart from the randomization.
            mean = read.estimate / max(kept.total, 1)
            inside = np.clip(mean, 0.0, 1.0)
            second = read.variance + kept.total * inside * (1 - inside) + read.changed**2
            randomized = read.variance + (read.changed / 2) ** 2
            return Moments(mean, 0 * mean, second, randomized, read.changed, read.added, read.slope)
        counts = kept.counted()
        weights, squares, largest = counts.weighted()
        a, b = self._scale
        t = a * group.mechanism.pseudo_values(read_task(self.plan), counts.reports) + b
        mean = weights @ t / (float(weights.sum()) or 1.0)
        away = t - mean
        # Few reports that are equal show no spread: count one more report, with any value.
        step = self._step(read.changed / largest if largest else 0.0)
        more = float(squares.sum()) / max(kept.total, 1) * step**2
        return Moments(
            mean, squares @ away, squares @ away**2 + more, np.maximum(read.variance, 0.0) + more / 4,
            read.changed, read.added,
        )  # fmt: skip

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
        moved: Floats = np.ptp(self.group.mechanism.pseudo_values(read_task(self.plan), np.arange(n_reports)), axis=0)
        return moved

    @property
    def _scale(self) -> tuple[float, float]:
        """The group's a and b in a weighted sum; 1 and 0 for other tasks."""
        return float(self.group.weight), float(self.group.offset)


def read_task(plan: Plan) -> Task:
    """The task that a mechanism is asked for; the weights and offsets of a weighted sum are applied to its result."""
    return plan.task.as_rounded() if plan.between else plan.task


def cells_of(
    plan: AnyPlan,
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
    blocks = [block.plan for block in plan.blocks] if isinstance(plan, Questionnaire) else [plan]
    parts = margins(blocks[0], group_parts) if group_parts else {}
    several = {(): tallies} if isinstance(tallies, Tally) else tallies
    found = []
    for key, tally in several.items():
        tally.check(plan)
        columns = dict(zip(by, key, strict=True))
        for counted in plan.groups:
            kept = tally.groups.get(counted.name)
            if kept is None or not kept.total:
                continue
            name, place = split_name(counted.name) if isinstance(plan, Questionnaire) else (counted.name, 0)
            named = {} if name is None else {group_column: name, **parts.get(name, {})}
            found.append(Cell(blocks[place], blocks[place].group(name), kept, named, columns))
    return found


def read_for(cells: Sequence[Cell], plan: Plan) -> list[Cell]:
    """The cells with reports of this plan, read for its task; `Plan.reading` gives the same plan another task."""
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
    None where they are fitted to nothing.
    """

    plan: Plan
    cells: Sequence[Cell]
    factors: Floats = field(default_factory=lambda: np.zeros(0))
    margins: Floats | None = None

    def __post_init__(self) -> None:
        if not len(self.factors):
            object.__setattr__(self, "factors", np.ones(len(self.cells)))

    @property
    def values(self) -> list[Value | None]:
        """The labels of the rows."""
        return self.plan.row_values

    @cached_property
    def weights(self) -> Floats:
        """g Σ w of every cell."""
        weights: Floats = self.factors * np.array([cell.weight for cell in self.cells])
        return weights

    def by_group(self, chosen: NDArray[np.bool_] | None = None) -> Collected:
        """All cells, or those `chosen`, merged to one for each group of the plan, groups without reports included."""
        mine = self.cells if chosen is None else [cell for cell, asked in zip(self.cells, chosen, strict=True) if asked]
        found = {cell.group.name: cell for cell in coarser(mine, ())}
        groups = self.plan.groups
        return Collected(self.plan, [found.get(each.name) or Cell(self.plan, each, Counts()) for each in groups])

    def categories(self, margin: str) -> list[str]:
        """The categories of a margin among the reports: in the order of the plan's groups where each group is in one
        of them, else sorted, numbers by their size.
        """
        if self.cells and margin not in self.cells[0].labels:
            known = ", ".join(f"'{name}'" for name in self.cells[0].labels) or "none"
            raise ValueError(f"The reports have no margin '{margin}'. Known are {known}.")
        if len(self.plan.groups) > 1:
            of_group: dict[str | None, dict[str, None]] = {group.name: {} for group in self.plan.groups}
            for cell in self.cells:
                of_group[cell.group.name][cell.labels[margin]] = None
            if all(len(found) <= 1 for found in of_group.values()):
                return list(dict.fromkeys(name for found in of_group.values() for name in found))
        names = sorted({cell.labels[margin] for cell in self.cells})
        sizes = dict(zip(names, numbers_if_all(names), strict=True))
        return sorted(names, key=lambda name: sizes[name])

    def part(self, name: str = "everybody", where: Callable[[Cell], bool] | None = None) -> Part:
        """The cells for which `where` holds; all cells without it."""
        chosen = np.array([where is None or where(cell) for cell in self.cells], dtype=bool)
        if not chosen.any():
            raise ValueError(f"There are no reports of {name}.")
        return Part(self, name, chosen)

    def parts(self, margin: str) -> list[Part]:
        """A part for each category of a margin."""
        names = self.categories(margin)
        if len(names) > _MOST_PARTS:
            raise ValueError(f"'{margin}' has {len(names):,} categories, too many to be looked at one by one.")
        places: dict[str, list[int]] = {name: [] for name in names}
        for place, cell in enumerate(self.cells):
            places[cell.labels[margin]].append(place)
        found = []
        for name in names:
            chosen = np.zeros(len(self.cells), dtype=bool)
            chosen[places[name]] = True
            found.append(Part(self, name, chosen))
        return found

    def variance(self, scope: Scope, slope: Floats, shift: Floats, n_reports: int) -> Floats:
        """Var Σ g w (slope·t − shift) over all reports, `slope` per cell and `shift` per cell and component."""
        moments = [cell.moments for cell in self.cells]
        if scope == "participants":
            return _sum(self.factors**2 * slope**2, np.array([each.randomized for each in moments]))
        mean, first, second = (np.array([getattr(m, name) for m in moments]) for name in ("mean", "first", "second"))
        away = _times(slope, mean) - shift
        used = 1
        if self.margins is not None:
            away = away - self._explained(away)
            used = int(np.linalg.matrix_rank(self.margins))
        squares = np.array([cell.squares for cell in self.cells])[:, None]
        spread = _times(slope**2, second) + 2 * _times(slope, first) * away + squares * away**2
        return _sum(self.factors**2, spread) * n_reports / max(n_reports - used, 1)

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
    """Some of the collected cells: the total and the mean of the answers of their senders."""

    collected: Collected
    name: str
    chosen: NDArray[np.bool_]

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
        shares: Floats = self.collected.weights * self.chosen / self.size
        return shares

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
        for factor, cell, mine in zip(self.collected.factors, self.collected.cells, self.chosen, strict=True):
            if mine:
                total += factor * cell.prior_total
        return total

    @property
    def moves(self) -> tuple[Floats, Floats]:
        """u of a report of each cell, slope·t − shift: the change of the mean by the report."""
        slope = self.chosen / self.size
        return slope, np.outer(slope, self.mean)

    def variance(self, scope: Scope) -> Floats:
        """The variance of the mean."""
        return self.collected.variance(scope, *self.moves, self.n_reports)

    @cached_property
    def half_step(self) -> Floats:
        """Half the largest change of each total by one report."""
        steps: Floats = np.max([cell.steps for cell in self.cells], axis=0) / 2
        return steps

    def bounds(self, scope: Scope) -> list[Bounds] | None:
        """For sums, bounds on the variance of every possible total, by component; None for counts and with weights."""
        cells = [cell for cell in self.cells if cell.n_reports]
        read = [cell.read("unbiased").by_answer for cell in cells]
        plain = self.size == self.n_reports and self.design_effect == 1.0 and self.collected.margins is None
        if not (plain and cells and all(each is not None for each in read)):
            return None
        if any(cell.kept.weight_sums[1] for cell in cells):
            return None
        points = [(cell.n_reports, *each) for cell, each in zip(cells, read, strict=True) if each is not None]
        return [
            Bounds.of([People(n, g[:, k], v[:, k]) for n, g, v in points], sampled=scope == "population")
            for k in range(points[0][1].shape[1])
        ]

    def found(self, scope: Scope, level: float) -> Found:
        """The total of the W people whom the reports stand for, with Student's intervals of this level."""
        size, variance, bounds = self.size, self.variance(scope), self.bounds(scope)
        z, (least, most) = student(level, self.degrees), self._slopes(scope)
        total, error = self.mean * size, np.sqrt(variance) * size
        low, high = total - size * reach(variance, least, z, -1), total + size * reach(variance, most, z, 1)
        if bounds is not None:
            low, high = interval_of_sums(bounds, total, error**2, z, self.half_step)
        return Found(total, error, low, high, np.zeros(len(low)))

    def _slopes(self, scope: Scope) -> tuple[Floats, Floats]:
        """The growth of the variance of a share with the share, at least and at most; 0 for the mean of a sum.

        Randomization: in a cell with factor g, Σ w t grows by W for each unit of the share, and its variance by g·slope
        for each unit of itself. Sampling: θ(1−θ) over the effective number of reports.
        """
        cells = zip(self.collected.factors, self.collected.cells, self.chosen, strict=True)
        slopes = [float(factor) * cell.moments.slope / self.size for factor, cell, mine in cells if mine]
        sampled = np.zeros(len(self.mean))
        if scope == "population" and self.collected.plan.task.counts_people:
            sampled = (1 - 2 * np.clip(self.mean, 0.0, 1.0)) / self.n_effective
        return min(slopes) + sampled, max(slopes) + sampled

    def influence(self) -> tuple[float, float]:
        """The largest change of a total by one forged report: one that is changed to another, and one that is added."""
        factors, moments = self.collected.factors[self.chosen], [cell.moments for cell in self.cells]
        changed, added = ([getattr(each, name) for each in moments] for name in ("changed", "added"))
        return float(max(factors * changed)), float(max(factors * added))


def _times(weights: Floats, cells: Floats) -> Floats:
    """Each cell's numbers times its weight; a cell of weight 0 counts as 0, also where its numbers are NaN."""
    weighted: Floats = np.where(weights[:, None] == 0, 0.0, weights[:, None] * cells)
    return weighted


def _sum(weights: Floats, cells: Floats) -> Floats:
    total: Floats = _times(weights, cells).sum(axis=0)
    return total
