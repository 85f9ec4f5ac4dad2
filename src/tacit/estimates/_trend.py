"""A number over several waves: each wave's estimate, the change from wave to wave, and the change overall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from tacit.estimates._cells import Cell, cells_of
from tacit.estimates._estimate import estimate
from tacit.estimates._rows import MANY_ROWS, Estimate, Scope, in_columns
from tacit.estimates.survey._differences import Differences, differences, same_rows
from tacit.estimates.survey._weighting import Margin, collected
from tacit.exact import Floats
from tacit.plan import Plan
from tacit.tally import Tally


@dataclass(frozen=True, kw_only=True)
class Trend:
    """Waves in the order of time: their names and estimates, and the changes between them.

    `changes` has the rows of each wave less the one before it and, of more than two waves, of the last less the first.
    """

    names: tuple[str, ...]
    estimates: tuple[Estimate, ...]
    changes: Differences

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        waves = [{"wave": name} | each.to_dict() for name, each in zip(self.names, self.estimates, strict=True)]
        return {"waves": waves, **self.changes.to_dict()}

    def __str__(self) -> str:
        cells: list[tuple[str, ...]] = [("", "estimate", "low", "high")]
        for name, found in zip(self.names, self.estimates, strict=True):
            for row in found.rows:
                about = "" if row.value is None else f" ({row.value})"
                each = found.per_respondent(row)
                cells.append((f"{name}{about}", *(f"{number:.4g}" for number in (each.estimate, each.low, each.high))))
        return "\n".join([*in_columns(cells), "", str(self.changes)])


@dataclass(frozen=True)
class Linked:
    """The reports of a wave by person: the row of `values`, the pseudo-values of the plan's rows, of each person."""

    people: Mapping[str, int]
    values: Floats

    def covariance(self, other: Linked, places: Sequence[int]) -> Floats:
        """Of the mean of each row with that of the row at its place in the other wave, from the people in both.

        With n and n' reports, of which m are of people in both, it is m/(n n') times the covariance of these people's
        pseudo-values, which includes what randomization has in common.
        """
        both = [(row, other.people[person]) for person, row in self.people.items() if person in other.people]
        if len(both) < 2:
            return np.zeros(self.values.shape[1])
        mine, theirs = np.array(both, dtype=np.int64).T
        a, b = self.values[mine], other.values[theirs][:, list(places)]
        found: Floats = ((a - a.mean(axis=0)) * (b - b.mean(axis=0))).sum(axis=0)
        return found / (len(both) - 1) * len(both) / (len(self.people) * len(other.people))


def trend(
    waves: Sequence[tuple[Plan, Tally | Sequence[Cell]]],
    *,
    names: Sequence[str] | None = None,
    populations: Sequence[Sequence[Margin]] = (),
    scope: Scope = "population",
    level: float = 0.95,
    simultaneous: bool | None = None,
    linked: Sequence[Linked] = (),
) -> Trend:
    """Each wave's estimate, and the changes from wave to wave and overall. `tacit difference` calls this function.

    Args:
        waves: a plan and its reports for each wave, in the order of time; those of one series are put into it. Plans
            may differ, if they ask for the same.
        names: of the waves; by default their numbers in the series, or their places.
        populations: the public margins that each wave is weighted to, as for `estimate`; one for each wave, or none.
        scope: `population` for intervals with the sampling error, `participants` without it.
        level: of the intervals, between 0 and 1.
        simultaneous: whether the intervals of all changes hold at once (Bonferroni); by default with more than 20 rows.
        linked: where people answer several waves, the reports of each wave by person (`tacit.files.linked`); changes
            are then as sure as these people make them. For the scope `population`, without `populations`.

    Returns:
        The trend. Without `linked`, waves are taken as independent: different people, or few of the same.

    Raises:
        NotEstimableError: the reports do not determine what is asked.
        ValueError: there are fewer than two waves, or the plans ask for different things.

    >>> from tacit import Prior, Survey, make_plan
    >>> plan = make_plan(Prior.of({"yes": 0.3, "no": 0.7}), Survey("yes"), epsilon=2)
    >>> rounds = [(plan, Tally.of(plan, [0] * yes + [1] * (4000 - yes))) for yes in (1200, 1230, 1600)]
    >>> found = trend(rounds, names=["2024", "2025", "2026"])
    >>> [(row.part, row.other, row.significant) for row in found.changes.rows]
    [('2025', '2024', False), ('2026', '2025', True), ('2026', '2024', True)]
    """
    if len(waves) < 2:
        raise ValueError("A trend needs at least two waves.")
    if names is not None and len(names) != len(waves):
        raise ValueError(f"There must be a name for each of the {len(waves)} waves. Got {len(names)}.")
    if populations and len(populations) != len(waves):
        raise ValueError(f"There must be a population for each of the {len(waves)} waves, or none.")
    if linked and (len(linked) != len(waves) or populations or scope != "population"):
        raise ValueError(
            "Persons are followed in all waves or in none, for the scope 'population', without sizes of a population."
        )
    order = _order([plan for plan, _ in waves])
    called = list(names) if names is not None else _names([plan for plan, _ in waves])
    parts, estimates = [], []
    for place in order:
        plan, reports = waves[place]
        cells = cells_of(plan, reports) if isinstance(reports, Tally) else reports
        if not cells:
            raise ValueError(f"There are no reports of {called[place]}.")
        population = populations[place] if populations else ()
        estimates.append(estimate(plan, cells, level=level, scope=scope, population=population))
        part = collected(plan, cells, None, population).part()
        part.collected.check_weights()
        parts.append(replace(part, name=called[place]))
    of = [(now, past) for past, now in pairwise(range(len(parts)))]
    if len(parts) > 2:
        of.append((len(parts) - 1, 0))
    pairs = [(parts[now], parts[past]) for now, past in of]
    together = len(pairs) * len(parts[0].collected.values) > MANY_ROWS if simultaneous is None else simultaneous
    note = "Waves are taken as independent. Where the same people answered several, changes are surer than said here."
    shared: list[Floats] = []
    if linked:
        placed = [linked[place] for place in order]
        shared = [placed[now].covariance(placed[past], same_rows(parts[now], parts[past])) for now, past in of]
        both = ", ".join(f"{len(placed[now].people.keys() & placed[past].people.keys()):,}" for now, past in of)
        note = f"People who are in both waves of a change: {both}. How their reports go together is estimated."
    found = differences(pairs, level, scope=scope, simultaneous=together, covariances=shared)
    return Trend(
        names=tuple(part.name for part in parts), estimates=tuple(estimates), changes=replace(found, notes=(note,))
    )


def _one_series(plans: Sequence[Plan]) -> bool:
    """Whether these are different waves of one series."""
    return len({plan.first_wave for plan in plans}) == 1 and len({plan.wave for plan in plans}) == len(plans)


def _order(plans: Sequence[Plan]) -> list[int]:
    places = list(range(len(plans)))
    return sorted(places, key=lambda place: plans[place].wave) if _one_series(plans) else places


def _names(plans: Sequence[Plan]) -> list[str]:
    if _one_series(plans):
        return [f"wave {plan.wave}" for plan in plans]
    return [f"round {place}" for place in range(1, len(plans) + 1)]
