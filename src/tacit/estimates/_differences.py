"""Differences and ratios of two means: between groups, between rounds or waves, or against earlier numbers.

Each side is the number that `estimate` gives for the same people. The interval and the p-value are those of the
unbiased difference, so that no prior pulls the two sides together. Two parts of the same reports may overlap
(`Collected.variance`); different rounds are treated as independent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from tacit.estimates._cells import Cell, Part, cells_of
from tacit.estimates._estimate import Margin, collected, estimate
from tacit.estimates._rows import (
    MANY_ROWS,
    Compared,
    Estimate,
    Library,
    Scope,
    as_frame,
    chance_of,
    check_level,
    fieller,
    in_columns,
    student,
)
from tacit.estimates._totals import can_assist
from tacit.estimates._totals import found as found_total
from tacit.exact import Floats
from tacit.plan import Plan
from tacit.prior import Prior, Value, listed
from tacit.tally import Tally


@dataclass(frozen=True)
class Known:
    """Numbers to compare a part with that come from no report: a prior, or last year's counts.

    `variance` is that of the mean, and `n_records` the number of records behind it; None for exact numbers.
    """

    name: str
    mean: Floats
    variance: Floats
    n_records: int | None = None


Side = Part | Known


@dataclass(frozen=True, kw_only=True)
class Difference(Compared):
    """One mean less another, with its interval and the probability `p_value` of a difference as large by chance alone.

    `first` and `second` are shares or means. The ratio has Fieller's interval, NaN where it has no ends: the second is
    not surely different from 0. `few` says that a side has too few reports to trust the interval much.
    """

    part: str
    other: str
    value: Value | None
    first: float
    second: float
    difference: float
    standard_error: float
    low: float
    high: float
    p_value: float
    ratio: float
    ratio_low: float
    ratio_high: float
    few: bool = False


@dataclass(frozen=True, kw_only=True)
class Differences:
    """Some differences that are read together.

    With `simultaneous` their intervals hold, and p-values are corrected, for all at once (Bonferroni). `notes` are
    sentences that a reader of the rows needs. `now` is the name of the later round where rounds are compared.
    """

    rows: tuple[Difference, ...]
    level: float
    scope: Scope
    simultaneous: bool
    design_effect: float = 1.0
    notes: tuple[str, ...] = ()
    now: str | None = None

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        about = {name: getattr(self, name) for name in ("level", "scope", "simultaneous", "design_effect")}
        return about | {"differences": [row.to_dict() for row in self.rows]}

    def to_frame(self, library: Library = "pandas") -> Any:
        """The rows as a table, as of `Estimate.to_frame`."""
        return as_frame([row.to_dict() for row in self.rows], library)

    def __str__(self) -> str:
        cells: list[tuple[str, ...]] = [("", "difference", "low", "high", "p-value")]
        for row in self.rows:
            about = "" if row.value is None else f" ({row.value})"
            numbers = (f"{number:.4g}" for number in (row.difference, row.low, row.high, row.p_value))
            cells.append((f"{row.part} − {row.other}{about}", *numbers))
        return "\n".join([*in_columns(cells), *self.notes])


def difference(
    plan: Plan,
    now: Tally | Sequence[Cell],
    *,
    by: str | None = None,
    against: str | None = None,
    before: Tally | Sequence[Cell] | None = None,
    before_plan: Plan | None = None,
    before_shares: Mapping[str | None, tuple[Prior, int | None]] | None = None,
    population: Sequence[Margin] = (),
    before_population: Sequence[Margin] = (),
    population_size: float | None = None,
    scope: Scope = "population",
    level: float = 0.95,
    simultaneous: bool | None = None,
    names: tuple[str, str] = ("before", "now"),
) -> Differences:
    """Compare shares or means: parts, rounds, or with the prior. `tacit difference` calls this function.

    Args:
        plan: the plan of the reports.
        now: a tally, or reports in cells by public columns (`cells_of`, `tacit.files.read_cells`).
        by: the margin whose categories are compared, as for `estimate`.
        against: `rest` compares each category with all others together, `pairs` each with all after it, a category's
            name all others with that one, `prior` everybody and each category with the plan's priors. By default
            `pairs` for two categories, else `rest`.
        before: an earlier round, of which everybody and each category are compared with now.
        before_plan: the plan of that round, if another.
        before_shares: earlier numbers to compare with: for each group a distribution and the number of records behind
            it, None for exact numbers. The key None is for groups that are not in it.
        population: how many people there are in the categories of public margins, as for `estimate`.
        before_population: the same for `before`, if another.
        population_size: how many people there are in all, as for `estimate`.
        scope: `population` for intervals with the sampling error, `participants` without it.
        level: of the intervals, between 0 and 1.
        simultaneous: whether intervals hold for all rows at once (Bonferroni); by default with more than 20 rows.
        names: of the earlier round and of this one.

    Raises:
        NotEstimableError: the reports do not determine what is asked.
        ValueError: the options do not fit each other or the plan.

    >>> from tacit import Prior, Survey, make_plan
    >>> prior = Prior.of({"yes": 0.3, "no": 0.7})
    >>> plan = make_plan({"north": prior, "south": prior}, Survey("yes"), epsilon=2)
    >>> tally = Tally.of(plan, [0] * 300 + [1] * 700, ["north"] * 500 + ["south"] * 500)
    >>> (row,) = difference(plan, tally, by="group").rows
    >>> row.part, row.other, row.significant
    ('north', 'south', True)
    """
    if sum(each is not None for each in (against, before, before_shares)) > 1:
        raise ValueError("Compare with one thing at a time: 'against', 'before' or 'before_shares'.")
    everybody, *parts = _parts(plan, now, by, population, population_size)
    pairs: Sequence[tuple[Part, Side]]
    notes: list[str] = []
    if before is not None:
        past = _parts(before_plan or plan, before, by, before_population or population, population_size)
        pairs, notes = _rounds([everybody, *parts], past, names[0])
    elif before_shares is not None:
        pairs, notes = _with_known(everybody, parts, before_shares, scope, names[0])
    elif against == "prior":
        pairs = [(part, the_prior(part)) for part in (everybody, *parts)]
    else:
        pairs = _categories(parts, by, against)
    later = names[1] if before is not None or before_shares is not None else None
    return replace(differences(pairs, level, scope=scope, simultaneous=simultaneous, notes=notes), now=later)


def _parts(
    plan: Plan, reports: Tally | Sequence[Cell], by: str | None, population: Sequence[Margin], size: float | None
) -> list[Part]:
    """The parts of a round: everybody, and each category of the margin `by`, which needs finer cells."""
    cells = cells_of(plan, reports) if isinstance(reports, Tally) else reports
    if not cells:
        raise ValueError("There are no reports to compare.")
    everybody = collected(plan, cells, None, population, size).part()
    everybody.collected.check_weights()
    return [everybody, *([] if by is None else collected(plan, cells, by, population, size).parts(by))]


def _categories(parts: Sequence[Part], by: str | None, against: str | None) -> list[tuple[Part, Side]]:
    """Pairs of categories."""
    if by is None:
        raise ValueError(
            "Say what to compare: 'by' a public column, 'before' an earlier round, or 'against' the prior."
        )
    if len(parts) < 2:
        raise ValueError(f"There is one category of '{by}' only, so nothing to compare it with.")
    if against == "pairs" or (against is None and len(parts) == 2):
        return list(combinations(parts, 2))
    if against in (None, "rest"):
        return [(part, the_rest(part)) for part in parts]
    other = next((part for part in parts if part.name == against), None)
    if other is None:
        known = ", ".join(part.name for part in parts[:8])
        raise ValueError(f"There are no reports of '{against}' by '{by}'. There are rest, pairs, prior, {known}.")
    return [(part, other) for part in parts if part is not other]


def _rounds(now: Sequence[Part], past: Sequence[Part], name: str) -> tuple[list[tuple[Part, Side]], list[str]]:
    """Everybody, and each category, now and before."""
    notes = ["Rounds are taken as independent. Where the same people answered both, changes are surer than said here."]
    earlier = {part.name: part for part in past[1:]}
    alone = sorted({part.name for part in now[1:]} ^ set(earlier))
    if alone:
        notes.append(f"In one round only, so not compared: {listed(alone)}.")
    both = [(now[0], past[0]), *((part, earlier[part.name]) for part in now[1:] if part.name in earlier)]
    return [(part, replace(before, name=name)) for part, before in both], notes


def _with_known(
    everybody: Part,
    parts: Sequence[Part],
    shares: Mapping[str | None, tuple[Prior, int | None]],
    scope: Scope,
    name: str,
) -> tuple[list[tuple[Part, Side]], list[str]]:
    """Everybody, and each category that the earlier numbers know: numbers by group say nothing about a column, and
    those for everybody say nothing about a group.
    """
    known = [part for part in parts if part.of_groups and all(cell.group.name in shares for cell in part.cells)]
    pairs = [(part, known_before(part, shares, name, scope)) for part in (everybody, *known)]
    notes = []
    if any(side.n_records is None for _, side in pairs):
        notes.append("Last year's numbers come without counts: they are taken as exact.")
    if len(known) < len(parts):
        unknown = listed([part.name for part in parts if all(part is not each for each in known)])
        notes.append(f"The earlier numbers say nothing of these, so they are not compared: {unknown}.")
    return list(pairs), notes


def the_rest(part: Part) -> Part:
    """Everybody who is not in a part."""
    rest = Part(part.collected, "the others", ~part.chosen, part.of_groups)
    if not rest.n_reports:
        raise ValueError(f"There is nobody beside {part.name} to compare with.")
    return rest


def the_prior(part: Part) -> Known:
    """The mean that the plan's priors expect of the same people, taken as exact."""
    if any(group.without_prior for group in part.collected.plan.groups):
        raise ValueError("This plan has no prior to compare with. Compare with other parts, rounds or numbers.")
    return Known("the prior", part.prior_total / part.size, np.zeros(len(part.prior_total)))


def known_before(
    part: Part, known: Mapping[str | None, tuple[Prior, int | None]], name: str, scope: Scope = "population"
) -> Known:
    """The mean by earlier numbers of people as in this part: by group where they are, in the mix of this part.

    `known` has for each group a distribution and the number of records behind it, whose sampling error is part of the
    variance for the scope `population`; without records it is taken as exact. The key None is for all other groups.
    """
    plan, asked = part.collected.plan, dict[str | None, Floats]()
    for cell, share in zip(part.collected.cells, part.composition, strict=True):
        if share:
            key = cell.group.name if cell.group.name in known else None
            if key not in known:
                raise ValueError(f"The earlier numbers say nothing of group {cell.group.name!r}.")
            # Groups that share earlier numbers share their error.
            # The distribution may have another order, or for a sum other values, than the plan.
            g = plan.task.g_over(known[key][0], plan.values)
            asked[key] = asked.get(key, 0.0) + share * (float(cell.group.weight) * g + float(cell.group.offset))
    mean, variance = np.zeros((2, len(part.mean)))
    for key, g in asked.items():
        distribution, n = known[key]
        expected = distribution.probabilities @ g
        mean = mean + expected
        if n and scope == "population":
            variance = variance + distribution.probabilities @ (g - expected) ** 2 / n
    behind = [known[key][1] for key in asked]
    return Known(name, mean, variance, None if None in behind else sum(filter(None, behind)))


def differences(
    pairs: Sequence[tuple[Part, Side]],
    level: float = 0.95,
    *,
    scope: Scope = "population",
    simultaneous: bool | None = None,
    covariances: Sequence[Floats] = (),
    notes: Sequence[str] = (),
) -> Differences:
    """Each pair's first mean less its second, row by row. `covariances` are those of the two means of each pair, where
    the same people are in both; without them different reports are taken as independent.
    """
    check_level(level)
    if not pairs:
        raise ValueError("There is nothing to compare.")
    n_rows = sum(len(first.collected.values) for first, _ in pairs)
    together = n_rows > MANY_ROWS if simultaneous is None else simultaneous
    shared = covariances or [np.zeros(len(first.collected.values)) for first, _ in pairs]
    rows = [
        row
        for (first, second), each in zip(pairs, shared, strict=True)
        for row in _compared(first, second, scope, level, n_rows if together else 1, each)
    ]
    return Differences(
        rows=tuple(rows), level=level, scope=scope, simultaneous=together, notes=tuple(notes),
        design_effect=max(first.design_effect for first, _ in pairs),
    )  # fmt: skip


def _compared(first: Part, second: Side, scope: Scope, level: float, tests: int, shared: Floats) -> list[Difference]:
    places = same_rows(first, second)
    mine = first.variance(scope)
    other = (second.variance(scope) if isinstance(second, Part) else second.variance)[places]
    if isinstance(second, Part) and second.collected is first.collected:
        # Parts of the same reports.
        (slope, shift), (slope_2, shift_2) = first.moves, second.moves
        either = Part(first.collected, "", first.chosen | second.chosen)
        fraction = either.fraction(scope)
        variance = first.collected.variance(fraction, slope - slope_2, shift - shift_2, either.n_reports)
    else:
        variance = mine + other - 2 * shared
    degrees, covariance = _degrees(first, second, mine, other), (mine + other - variance) / 2
    few = first.few or (isinstance(second, Part) and second.few)
    sides = [_shown(first, scope), first.mean, _shown(second, scope)[places], second.mean[places]]
    found = []
    for k, value in enumerate(first.collected.values):
        a, x, b, y = (float(side[k]) for side in sides)
        error, t = math.sqrt(max(float(variance[k]), 0.0)), float(degrees[k])
        reach = student(1 - (1 - level) / tests, t)
        low, high = x - y - reach * error, x - y + reach * error
        if first.collected.plan.task.counts_people:
            low, high = min(max(low, -1.0), 1.0), min(max(high, -1.0), 1.0)
        ends = (math.nan, math.nan)
        if y * y > reach * reach * other[k]:
            ends = fieller(x, y, (mine[k], other[k], covariance[k]), reach)
        chance = min(1.0, tests * chance_of((x - y) / error, t)) if error else (math.nan if x - y else 1.0)
        found.append(
            Difference(
                part=first.name, other=second.name, value=value, first=a, second=b, difference=a - b,
                standard_error=error, low=low, high=high, p_value=chance, ratio=a / b if b else math.nan,
                ratio_low=ends[0], ratio_high=ends[1], few=few,
            )
        )  # fmt: skip
    return found


def _shown(side: Side, scope: Scope) -> Floats:
    """The mean as `estimate` gives it."""
    if isinstance(side, Known) or not can_assist(side):
        return side.mean
    return found_total(side, "assisted", scope, 0.95).estimate / side.size


def _degrees(first: Part, second: Side, mine: Floats, other: Floats) -> Floats:
    """Of the difference, by Welch and Satterthwaite."""
    if isinstance(second, Part):
        with np.errstate(divide="ignore", invalid="ignore"):
            degrees = (mine + other) ** 2 / (mine**2 / first.degrees + other**2 / second.degrees)
    else:
        degrees = np.full(len(mine), first.degrees)
    return np.nan_to_num(degrees, nan=first.degrees, posinf=1e9)


def same_rows(first: Part, second: Side) -> list[int]:
    """The place of each row of the first among those of the second."""
    values = first.collected.values
    if isinstance(second, Known) or second.collected.plan is first.collected.plan:
        return list(range(len(values)))
    theirs = second.collected.values
    mine, others = first.collected.plan, second.collected.plan
    if not mine.task.asks_the_same(mine.values, others.task, others.values):
        raise ValueError("The two plans ask for different things, so their reports cannot be compared.")
    return [theirs.index(value) for value in values]


# -- waves ------------------------------------------------------------------------------------------------------------


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
    plans, order = [plan for plan, _ in waves], list(range(len(waves)))
    in_series = len({plan.first_wave for plan in plans}) == 1 and len({plan.wave for plan in plans}) == len(plans)
    if in_series:
        order.sort(key=lambda place: plans[place].wave)
    called = names or [f"wave {plan.wave}" if in_series else f"round {k}" for k, plan in enumerate(plans, 1)]
    parts, estimates = [], []
    for place in order:
        plan, reports = waves[place]
        cells = cells_of(plan, reports) if isinstance(reports, Tally) else reports
        if not cells:
            raise ValueError(f"There are no reports of {called[place]}.")
        population = populations[place] if populations else ()
        estimates.append(estimate(plan, cells, level=level, scope=scope, population=population))
        parts.append(replace(_parts(plan, cells, None, population, None)[0], name=called[place]))
    of = [(now, past) for past, now in pairwise(range(len(parts)))]
    if len(parts) > 2:
        of.append((len(parts) - 1, 0))
    pairs = [(parts[now], parts[past]) for now, past in of]
    note = "Waves are taken as independent. Where the same people answered several, changes are surer than said here."
    shared: list[Floats] = []
    if linked:
        placed = [linked[place] for place in order]
        shared = [placed[now].covariance(placed[past], same_rows(parts[now], parts[past])) for now, past in of]
        both = ", ".join(f"{len(placed[now].people.keys() & placed[past].people.keys()):,}" for now, past in of)
        note = f"People who are in both waves of a change: {both}. How their reports go together is estimated."
    found = differences(pairs, level, scope=scope, simultaneous=simultaneous, covariances=shared, notes=[note])
    return Trend(names=tuple(part.name for part in parts), estimates=tuple(estimates), changes=found)
