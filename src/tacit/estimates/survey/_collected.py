"""Reports in cells, each with a factor that it counts for: means of any part of them, and how sure these are.

With t the pseudo-value of a report, w its own weight and g its cell's factor, the mean of a part D is
m = Σ_D g w t / W, W = Σ_D g w. It moves with a report as u = 1_D (t − m)/W does, so that

    for the population      Var m ≈ n/(n−p) Σ (g w)² (u − xᵀB)²,      B the regression of u on the margins x,
    for those who took part Var m = Σ (g w)² Var(u | answer),

the first as in survey sampling (Särndal, Swensson, Wretman, 1992, section 6; p margins, without any p = 1 and x = 0),
with all that randomizing adds inside it; the second is randomizing alone. The difference of two parts moves as the
difference of their u does: parts that overlap are no special case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.estimates._prior_check import PriorCheck
from tacit.estimates._rows import Estimate, Scope, reach, student
from tacit.estimates.survey._cells import Cell
from tacit.exact import Floats
from tacit.plan import Plan
from tacit.prior import Value, numbers_if_all

#: A part of fewer reports than this is said to be small.
FEW = 30
#: A column of more categories is a number or an identifier.
_MOST_PARTS = 2000


@dataclass(frozen=True)
class Collected:
    """A plan's reports in cells, and what a report of each cell counts for beside its own weight.

    `margins` has, for each cell, the categories that the factors make right: one column for each, 1 where the cell is
    in it. None where nothing was made right.
    """

    plan: Plan
    cells: Sequence[Cell]
    scope: Scope
    factors: Floats
    margins: Floats | None = None

    @classmethod
    def plain(cls, plan: Plan, cells: Sequence[Cell], scope: Scope = "population") -> Collected:
        """Every report counts for its own weight, or for one."""
        return cls(plan, cells, scope, np.ones(len(cells)))

    @property
    def values(self) -> list[Value | None]:
        """What the components of a mean are about."""
        return self.plan.row_values

    @property
    def n_reports(self) -> int:
        return sum(cell.n_reports for cell in self.cells)

    @property
    def weighted(self) -> bool:
        """Whether reports count differently."""
        sums = self._sums
        return self.margins is not None or not np.allclose(sums[0], [cell.n_reports for cell in self.cells], rtol=1e-12)

    @cached_property
    def _sums(self) -> Floats:
        """g Σ w and g² Σ w² for every cell."""
        weights, squares = (
            np.array([getattr(cell.moments, name) for cell in self.cells]) for name in ("weight", "squares")
        )
        if (weights <= 0).any():
            raise ValueError("The weights of reports must be positive.")
        return np.array([self.factors * weights, self.factors**2 * squares])

    def categories(self, margin: str) -> list[str]:
        """The categories of a margin among the reports: in the order of the plan's groups where each group is in one
        of them, else sorted; numbers by their size.
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

    def part(self, name: str = "everybody", where: Callable[[Mapping[str, str]], bool] | None = None) -> Part:
        """Those whose labels are as wanted; all without a wish."""
        chosen = np.array([where is None or where(cell.labels) for cell in self.cells], dtype=bool)
        if not chosen.any():
            raise ValueError(f"There are no reports of {name}.")
        return Part(self, name, chosen)

    def parts(self, margin: str) -> list[Part]:
        """A part for each category of a margin."""
        names = self.categories(margin)
        if len(names) > _MOST_PARTS:
            raise ValueError(f"'{margin}' has {len(names):,} categories, too many to be looked at one by one.")
        return [self.part(name, lambda labels, name=name: labels[margin] == name) for name in names]  # type: ignore[misc]

    def variance(self, slope: Floats, shift: Floats, n_reports: int) -> Floats:
        """Var Σ g w (slope·t − shift) over all reports, `slope` per cell and `shift` per cell and component."""
        moments = [cell.moments for cell in self.cells]
        if self.scope == "participants":
            return _sum(self.factors**2 * slope**2, np.array([each.randomized for each in moments]))
        mean, first, second = (np.array([getattr(m, name) for m in moments]) for name in ("mean", "first", "second"))
        away = _times(slope, mean) - shift
        used = 1
        if self.margins is not None:
            away = away - self._explained(away)
            used = int(np.linalg.matrix_rank(self.margins))
        squares = np.array([each.squares for each in moments])[:, None]
        spread = _times(slope**2, second) + 2 * _times(slope, first) * away + squares * away**2
        return _sum(self.factors**2, spread) * n_reports / max(n_reports - used, 1)

    def _explained(self, away: Floats) -> Floats:
        """The part of each cell's mean of u that its margins explain, reports counting for what they count.

        Factors of raking are e^(xᵀλ), whose derivative is themselves: so the regression with the factors inside is the
        exact first order, also where some answer more readily than others.
        """
        assert self.margins is not None
        root = np.sqrt(self._sums[0])[:, None]
        known = np.isfinite(away).all(axis=0)
        explained = np.full(away.shape, np.nan)
        solved = np.linalg.lstsq(root * self.margins, root * away[:, known], rcond=None)[0]
        explained[:, known] = self.margins @ solved
        return explained


@dataclass(frozen=True)
class Part:
    """Some of the collected reports, and the mean of what their senders answered."""

    collected: Collected
    name: str
    chosen: NDArray[np.bool_]

    @property
    def n_reports(self) -> int:
        return sum(cell.n_reports for cell, mine in zip(self.collected.cells, self.chosen, strict=True) if mine)

    @property
    def size(self) -> float:
        """W: how many people the reports stand for."""
        return float(self.collected._sums[0] @ self.chosen)

    @property
    def design_effect(self) -> float:
        """Kish's n Σ w²/(Σ w)²: by how much unequal weights alone raise the variance."""
        return self.n_reports * float(self.collected._sums[1] @ self.chosen) / self.size**2

    @property
    def n_effective(self) -> float:
        """How many reports of equal weight are worth as much."""
        return self.n_reports / self.design_effect

    @property
    def degrees(self) -> float:
        """Of Student's t, by which few reports make wider intervals."""
        return max(self.n_effective - 1.0, 1.0)

    @property
    def few(self) -> bool:
        """Whether there are too few reports to trust an interval much."""
        return self.n_effective < FEW

    @cached_property
    def composition(self) -> Floats:
        """What part of W each cell is."""
        shares: Floats = self.collected._sums[0] * self.chosen / self.size
        return shares

    @cached_property
    def mean(self) -> Floats:
        """Shares of a survey or a histogram, the mean of a sum."""
        return _sum(self.composition, np.array([cell.moments.mean for cell in self.collected.cells]))

    @cached_property
    def prior_mean(self) -> Floats:
        """What the priors alone expect of these people; NaN where a group has none."""
        if any(cell.group.without_prior for cell in self.collected.cells):
            return np.full(len(self.mean), np.nan)
        return _sum(self.composition, np.array([cell.prior_mean for cell in self.collected.cells]))

    @property
    def moves(self) -> tuple[Floats, Floats]:
        """u of a report of each cell, slope·t − shift: how the mean moves with it."""
        slope = self.chosen / self.size
        return slope, np.outer(slope, self.mean)

    @cached_property
    def variance(self) -> Floats:
        """Of the mean."""
        return self.collected.variance(*self.moves, self.n_reports)

    def estimate(
        self, level: float = 0.95, *, simultaneous: bool = False, prior_check: Sequence[PriorCheck] = ()
    ) -> Estimate:
        """As totals of the W people that the reports stand for, and per person."""
        values, size = self.collected.values, self.size
        wanted = 1 - (1 - level) / len(values) if simultaneous else level
        z, (least, most) = student(wanted, self.degrees), self._slopes
        low = self.mean - reach(self.variance, least, z, -1)
        high = self.mean + reach(self.variance, most, z, 1)
        means = {
            "estimate": self.mean, "standard_error": np.sqrt(self.variance), "low": low, "high": high,
            "prior": self.prior_mean,
        }  # fmt: skip
        return Estimate(
            n_reports=self.n_reports, total_weight=size, estimator="unbiased", level=level, values=values,
            columns={name: column * size for name, column in means.items()}, checks=lambda: tuple(prior_check),
            moves=self._influence, simultaneous=simultaneous, scope=self.collected.scope,
            design_effect=self.design_effect,
        )  # fmt: skip

    @property
    def _slopes(self) -> tuple[Floats, Floats]:
        """By how much the variance of a share grows with it, at least and at most; of the mean of a sum, not at all.

        Randomizing: in a cell with factor g, Σ w t grows by W for each unit of the share, and its variance by g·slope
        for each unit of itself. Sampling: θ(1−θ) over the effective number of reports.
        """
        cells = zip(self.collected.factors, self.collected.cells, self.chosen, strict=True)
        slopes = [float(factor) * cell.moments.slope / self.size for factor, cell, mine in cells if mine]
        sampled = np.zeros(len(self.mean))
        if self.collected.scope == "population" and self.collected.plan.task.counts_people:
            sampled = (1 - 2 * np.clip(self.mean, 0.0, 1.0)) / self.n_effective
        return min(slopes) + sampled, max(slopes) + sampled

    def _influence(self) -> tuple[float, float]:
        """How far one forged report moves a total: changed to another, or added."""
        factors, mine = self.collected.factors, np.flatnonzero(self.chosen).tolist()
        moments = [self.collected.cells[place].moments for place in mine]
        changed, added = ([getattr(each, name) for each in moments] for name in ("changed", "added"))
        return float(max(factors[mine] * changed)), float(max(factors[mine] * added))


def _times(weights: Floats, cells: Floats) -> Floats:
    """Each cell's numbers times its weight; a cell of no weight may know nothing, which does not matter."""
    weighted: Floats = np.where(weights[:, None] == 0, 0.0, weights[:, None] * cells)
    return weighted


def _sum(weights: Floats, cells: Floats) -> Floats:
    total: Floats = _times(weights, cells).sum(axis=0)
    return total
