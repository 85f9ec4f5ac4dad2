"""The door: from a tally or cells to totals with intervals, under a chosen estimator, for a chosen scope.

Every group's mechanism reads its own reports (`Mechanism.read`); `_totals.py` puts the groups together.

**From the participants to a population**: weights give known margins their known sizes. One margin, or one that crosses
several columns, is post-stratification; several are raked (Deming and Stephan, 1940): the factors g of the cells start
at 1 and are scaled to one margin after the other until all are right. The part of the answers that the margins explain
then no longer adds to the variance (`Collected.variance`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import get_args

import numpy as np

from tacit.estimates import _totals as totals
from tacit.estimates._cells import Cell, Collected, Part, cells_of, coarser
from tacit.estimates._rows import MANY_ROWS, Estimate, Estimator, Scope, check_level
from tacit.exact import Floats
from tacit.mechanism import NotEstimableError
from tacit.plan import CROSSED, Plan
from tacit.prior import listed
from tacit.tally import Counts, Kept, Tally

#: One group, several, or all.
_Names = str | Collection[str] | None
#: Raking ends when every category is right to this relative error, or fails after this number of rounds.
_PRECISE, _ROUNDS = 1e-10, 2000
#: Margins whose totals differ by more than this share are not about the same people.
_ROUNDED = 0.01


def estimate(
    plan: Plan,
    reports: Tally | Sequence[Cell],
    estimator: Estimator | None = None,
    level: float = 0.95,
    *,
    scope: Scope | None = None,
    by: str | None = None,
    group: _Names = None,
    population: Sequence[Margin] = (),
    population_size: float | None = None,
    simultaneous: bool | None = None,
    project: bool = False,
) -> Estimate:
    """Estimate the plan's total, with intervals, and check the prior. `tacit estimate` calls this function.

    Args:
        plan: the plan of the reports.
        reports: a tally, or reports in cells by public columns (`cells_of`, `tacit.files.read_cells`).
        estimator: `assisted` is the unbiased estimate, moved towards the prior as far as the groups' reports or a
            stated set of priors support it; its intervals hold for every truth. `unbiased` does not use the prior.
            `mle` finds the distribution that explains the reports best. `mmse` (the paper's) has the least error if
            the prior is exactly right, and intervals that hold only then. By default `assisted`; `unbiased` where
            nothing shows how far the prior can be trusted (one group and no set of priors, or reports with weights);
            `mmse` where the reports allow nothing else.
        level: of the intervals, between 0 and 1.
        scope: `population` for intervals about the people whom the participants stand for, with the sampling error,
            `participants` for those who took part alone. By default `population`. `mmse` and `mle`, and sums whose
            weights are part of what is asked, are about the participants.
        by: a margin whose categories are estimated as well (`Estimate.parts`): the groups ("group"), a part of crossed
            groups, or a public column of the cells. Parts by another column than the groups do not use the prior.
        group: the name of a group, or several names, whose total is asked for instead of that of all.
        population: how many people there are in the categories of public margins; the reports are weighted to these
            numbers (one margin post-stratifies, several are raked).
        population_size: how many people there are in all; totals are theirs, and intervals are shorter the larger the
            part of them that took part. Without it the population is taken to be large.
        simultaneous: whether the intervals of all rows, and of all parts, hold at once (Bonferroni); by default where
            there are more than 20 of them.
        project: move the estimates, not the intervals, to possible counts: at least 0 and, for a histogram, with the
            number of reports as their sum.

    Returns:
        The result. Print it, or take `rows`, `parts`, `to_frame()` or `to_dict()`.

    Raises:
        NotEstimableError: the reports do not determine what is asked.
        ValueError: the options do not fit each other or the plan.

    >>> from tacit import Prior, Survey, make_plan
    >>> priors = {"north": Prior.of({"yes": 0.2, "no": 0.8}), "south": Prior.of({"yes": 0.4, "no": 0.6})}
    >>> plan = make_plan(priors, Survey("yes"), epsilon=2)
    >>> tally = Tally.of(plan, [0] * 300 + [1] * 700, ["north", "south"] * 500)
    >>> result = estimate(plan, tally, "unbiased", by="group")
    >>> result.n_reports, result.scope, list(result.parts)
    (1000, 'population', ['north', 'south'])
    >>> sizes = Margin(("group",), {("north",): 2e6, ("south",): 1e6})
    >>> result = estimate(plan, tally, population=[sizes])
    >>> round(result.total_weight), result.estimator
    (3000000, 'assisted')
    """
    if estimator is not None and estimator not in get_args(Estimator):
        raise ValueError(f"The 'estimator' must be one of {', '.join(get_args(Estimator))}. Got {estimator!r} instead.")
    check_level(level)
    cells = cells_of(plan, reports) if isinstance(reports, Tally) else reports
    make = partial(collected, plan, cells, population=population, size=population_size)
    whole = make(by=None)
    names = _named(plan, group)
    chosen = np.array([names is None or cell.group.name in names for cell in whole.cells], dtype=bool)
    if not chosen.any() and cells:
        raise ValueError(f"There are no reports of {', '.join(sorted(names or ()))}.")
    asked = _Asked(estimator, scope, level, by, project, simultaneous)
    result = _total(Part(whole, "everybody", chosen), asked, len(plan.row_values))
    if by is None or not cells:
        return replace(result, by=by)
    parts = (whole if by in cells[0].of_group else make(by=by)).parts(by)
    rows = len(parts) * len(plan.row_values)
    return replace(result, by=by, parts={part.name: _total(part, asked, rows) for part in parts})


@dataclass(frozen=True)
class _Asked:
    """The options of an estimate that its parts share."""

    estimator: Estimator | None
    scope: Scope | None
    level: float
    by: str | None
    project: bool
    simultaneous: bool | None


def _total(part: Part, asked: _Asked, rows: int) -> Estimate:
    """One of several totals, whose table has this many rows."""
    estimator = _estimator(part, asked)
    scope = _scope(part.collected, estimator, asked.scope)
    simultaneous = rows > MANY_ROWS if asked.simultaneous is None else asked.simultaneous
    found = totals.found(part, estimator, scope, 1 - (1 - asked.level) / rows if simultaneous else asked.level)
    shown = part.collected.plan.task.possible(found.estimate, part.size) if asked.project else found.estimate
    return Estimate(
        n_reports=part.n_reports, total_weight=part.size, estimator=estimator, level=asked.level,
        values=part.collected.values, columns=found.columns(shown, part.prior_total),
        checks=partial(totals.prior_checks, part, estimator in ("assisted", "unbiased")),
        moves=partial(totals.influence, part, estimator, scope), projected=asked.project, simultaneous=simultaneous,
        records_worth=found.records_worth, scope=scope, design_effect=part.design_effect,
    )  # fmt: skip


def _estimator(part: Part, asked: _Asked) -> Estimator:
    """The estimator that is asked for, or else the best that the reports allow."""
    if asked.estimator == "mmse" and any(group.without_prior for group in part.collected.plan.groups):
        raise NotEstimableError(
            "The estimator 'mmse' trusts the prior, and this plan has none. Use 'unbiased' or 'mle'."
        )
    if asked.estimator == "mle" or (asked.estimator == "mmse" and part.of_groups):
        return asked.estimator
    try:
        for cell in part.cells:
            cell.read("unbiased")
    except NotEstimableError as error:
        if not part.of_groups:
            raise NotEstimableError(
                f"A breakdown by '{asked.by}' must not use the prior, which knows nothing of it, and this plan's "
                "reports are read with the prior only. Plan with the aim 'unbiased', or with groups by that column."
            ) from error
        if asked.estimator is not None:
            raise
        return "mmse"
    return "assisted" if asked.estimator != "unbiased" and totals.can_assist(part) else "unbiased"


def _scope(reports: Collected, estimator: Estimator, asked: Scope | None) -> Scope:
    """The scope that is asked for, or else the population where an interval can be about it."""
    alone = estimator in ("mmse", "mle")
    if asked == "population" or reports.margins is not None or reports.finite:
        reports.check_weights()
        if alone:
            raise ValueError(
                f"The estimator '{estimator}' is about the people who took part. For a population use 'assisted' or "
                "'unbiased', or leave the estimator out."
            )
    return asked or ("participants" if alone or reports.asks_for_weights else "population")


def _named(plan: Plan, group: _Names) -> set[str] | None:
    """The names of the groups that are asked for; None for all."""
    if group is None:
        return None
    asked = {group} if isinstance(group, str) else set(group)
    unknown = asked - {each.name for each in plan.groups}
    if unknown or not asked:
        raise ValueError(f"The plan has no group {min(unknown, default=None)!r}.")
    return asked


def estimators(plan: Plan) -> list[Estimator]:
    """The estimators that the reports of a `plan` allow, the preferred one first; tried on every report of a table
    once.

    >>> from tacit import make_plan
    >>> estimators(make_plan({"yes": 0.2, "no": 0.8}, "histogram", epsilon=1))
    ['unbiased', 'mmse', 'mle']
    """
    counts: dict[str | None, Kept] = {
        group.name: Counts.of(range(group.mechanism.n_possible_reports))
        for group in plan.groups
        if group.mechanism.n_possible_reports is not None
    }
    found: list[Estimator] = []
    for name in ("unbiased", "mmse", "mle"):
        try:
            estimate(plan, Tally(plan.hash, counts), name)
        except NotEstimableError:
            continue
        found.append(name)
    several = len(plan.groups) > 1 or plan.groups[0].prior_set is not None
    believed = not any(group.without_prior for group in plan.groups)
    return ["assisted", *found] if several and believed and "unbiased" in found else found


# -- a population ------------------------------------------------------------------------------------------------------


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
            f"The population by {margin.name} does not say how many people are in {listed(strangers)}, of which there "
            "are reports."
        )
    missing = [CROSSED.join(category) for category in places if category not in mine]
    if missing:
        raise ValueError(
            f"There are no reports of {listed(missing)}, so nothing stands for these people. Put such categories of "
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
