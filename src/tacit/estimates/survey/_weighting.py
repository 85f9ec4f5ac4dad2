"""From the participants to a population: weights that give known margins their known sizes.

One margin, or one that crosses several columns, is post-stratification; several are raked (Deming and Stephan, 1940):
the factors g of the cells start at 1 and are scaled to one margin after the other until all are right. The part of the
answers that the margins explain then no longer adds to the variance (`Collected.variance`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacit.estimates._cells import Cell, Collected, coarser
from tacit.exact import Floats
from tacit.plan import CROSSED, Plan
from tacit.tally import Counts

#: Raking ends when every category is right to this relative error, or fails after this number of rounds.
_PRECISE, _ROUNDS = 1e-10, 2000
#: Margins whose totals differ by more than this share are not about the same people.
_ROUNDED = 0.01
_SHOWN = 5


@dataclass(frozen=True)
class Margin:
    """How many people of the population are in each category of one public column, or of some columns crossed.

    >>> Margin(("region",), {("north",): 4e6, ("south",): 6e6}).total
    10000000.0
    """

    columns: tuple[str, ...]
    sizes: Mapping[tuple[str, ...], float]

    def __post_init__(self) -> None:
        if not self.sizes or not all(0 < size < float("inf") for size in self.sizes.values()):
            raise ValueError(f"The sizes of a population by {self.name} must be positive numbers.")

    @property
    def name(self) -> str:
        return CROSSED.join(self.columns)

    @property
    def total(self) -> float:
        return float(sum(self.sizes.values()))


def collected(
    plan: Plan, cells: Sequence[Cell], by: str | None, population: Sequence[Margin], size: float | None = None
) -> Collected:
    """The cells by the margins that play a part, weighted for the population where there is one.

    With the `size` of the population the weights sum to it. Groups without reports have an empty cell, unless the
    population says which categories there are.
    """
    names = {name for margin in population for name in margin.columns} | ({by} if by is not None else set())
    known = cells and names <= set(cells[0].labels)
    mine = coarser(cells, names) if known else cells
    if population:
        found = weighted(plan, mine, population)
    else:
        present = {cell.group.name for cell in mine}
        empty = [Cell(plan, group, Counts()) for group in plan.groups if group.name not in present]
        found = Collected(plan, [*mine, *empty])
    if size is None or not mine:
        return found
    n_reports = sum(cell.n_reports for cell in mine)
    if not n_reports <= size < float("inf"):
        raise ValueError(
            f"The size of the population must be at least the number of reports, {n_reports:,}. Got {size:,}."
        )
    return replace(found, factors=found.factors * (size / float(found.weights.sum())), finite=True)


def weighted(plan: Plan, cells: Sequence[Cell], population: Sequence[Margin]) -> Collected:
    """The cells with factors that give every margin of the population its size.

    Raises `ValueError` where margins and reports do not fit: a category that only one of them has, totals that differ,
    or margins that no factors make right.
    """
    if not cells:
        raise ValueError("There are no reports to weight.")
    total = population[0].total
    for margin in population:
        if abs(margin.total - total) > _ROUNDED * total:
            raise ValueError(
                f"The margins of a population must have one total. {population[0].name} has {total:,.6g}, "
                f"{margin.name} has {margin.total:,.6g}."
            )
    indicators = [_indicators(cells, margin) for margin in population]
    # Rounded totals are scaled to the first one's.
    sizes = [np.array(list(each.sizes.values())) * (total / each.total) for each in population]
    Collected(plan, cells).check_weights()
    factors = _raked(np.array([cell.weight for cell in cells]), indicators, sizes)
    return Collected(plan, cells, factors, np.hstack(indicators))


def _indicators(cells: Sequence[Cell], margin: Margin) -> Floats:
    """1 where a cell is in a category of the margin, shape (cells, categories)."""
    for name in margin.columns:
        if name not in cells[0].labels:
            known = ", ".join(f"'{label}'" for label in cells[0].labels) or "none"
            raise ValueError(f"The population is given by '{name}', which the reports do not have. They have {known}.")
    mine = [tuple(cell.labels[name] for name in margin.columns) for cell in cells]
    places = {category: place for place, category in enumerate(margin.sizes)}
    strangers = sorted({CROSSED.join(category) for category in mine if category not in places})
    if strangers:
        raise ValueError(
            f"The population by {margin.name} does not say how many people are in {_list(strangers)}, of which there "
            "are reports."
        )
    missing = [CROSSED.join(category) for category in places if category not in mine]
    if missing:
        raise ValueError(
            f"There are no reports of {_list(missing)}, so nothing stands for these people. Put such categories of "
            f"{margin.name} together with others, in the population and in the reports, or leave them out of both."
        )
    indicators = np.zeros((len(cells), len(places)))
    indicators[np.arange(len(cells)), [places[category] for category in mine]] = 1.0
    return indicators


def _raked(weights: Floats, indicators: Sequence[Floats], sizes: Sequence[Floats]) -> Floats:
    """Factors of the cells that give every category its size."""
    factors = np.ones(len(weights))
    for _ in range(_ROUNDS):
        for each, size in zip(indicators, sizes, strict=True):
            factors = factors * (each @ (size / ((factors * weights) @ each)))
        off = [
            np.abs((factors * weights) @ each / size - 1).max() for each, size in zip(indicators, sizes, strict=True)
        ]
        if max(off) < _PRECISE:
            return factors
    raise ValueError(
        "No weights make all margins of the population right: they contradict each other for the categories that sent "
        "reports. Put small categories together."
    )


def _list(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
