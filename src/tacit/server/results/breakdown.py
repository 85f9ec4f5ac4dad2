"""Results by group and over time: shares or means with intervals that may be compared; needs a token.

A group or a day may be a single person, so none of this is ever public.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Annotated, Any, Literal

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel, Field

from tacit.estimates import (
    MANY_ROWS,
    Differences,
    Estimate,
    Estimator,
    NotEstimableError,
    QuestionView,
    cells_of,
    estimate,
    trend,
    views_of,
)
from tacit.plan import Plan
from tacit.server.http import messages as m
from tacit.server.http.routes import CSV, Service, csv_response, guarded, reading_live, reads_live
from tacit.server.problems import Refusal
from tacit.server.results.results import LEVEL, NUMBERS, name_of, numbers, rows
from tacit.server.storage.store import Store
from tacit.show import sentences as say
from tacit.tally import Tally, merge_all

#: The most estimates for one request; for more there is the tally.
_MOST = 1_000_000
#: The most answers that are offered to choose from.
_MOST_VALUES = 1_000
Step = Literal["day", "week", "month"]


class Part(m.Row):
    """One group, or one stretch of time: its reports, and one estimated number."""

    group: str | None = None
    wave: int | None = Field(None, description="Of a survey that is repeated.")
    since: date | None = Field(None, description="First day of a stretch of time.")
    until: date | None = Field(None, description="Its last day.")
    n_reports: int


class GroupResults(BaseModel):
    """All numbers of one group, as the results give them for all."""

    group: str
    n_reports: int
    rows: list[m.Row]
    n_rows: int


class Breakdown(BaseModel):
    """The same number for several parts of the reports."""

    name: str = Field(description="The answer that is compared, or what is counted.")
    names: list[str] = Field(description="The answers that can be asked for with `value`, the first thousand.")
    level: float
    scope: str | None = Field(description="Whom the intervals are about: participants or population.")
    simultaneous: bool = Field(description="Whether all intervals hold at once.")
    about: str = Field(description="Whom the intervals are about, and whether all hold at once, in words.")
    estimator: str
    counts_people: bool
    parts: list[Part]


class Change(BaseModel):
    """From one wave to a later one: the change of a share or mean, with its interval."""

    wave: int
    since: int = Field(description="The wave that it is compared with.")
    change: float | None
    low: float | None
    high: float | None
    significant: bool = Field(description="Whether the interval leaves out zero.")


class Waves(Breakdown):
    """The same number in all waves of a series, and its changes from wave to wave and overall."""

    changes: list[Change]


class PairRow(BaseModel):
    """One pair of answers."""

    first: str
    second: str
    estimate: float | None = Field(description="The share of all people, not randomized.")
    low: float | None
    high: float | None


class Independence(BaseModel):
    """The test of the hypothesis that two answers are independent."""

    statistic: float | None
    degrees: int
    p_value: float | None


class Related(BaseModel):
    """How two answers are related; null where the reports do not tell, or there is no end."""

    kind: Literal["odds ratio", "correlation"]
    estimate: float | None
    low: float | None
    high: float | None


class TwoQuestions(BaseModel):
    """The table of two questions."""

    first: str
    second: str
    n_reports: int
    level: float
    rows: list[PairRow]
    independence: Independence
    association: Related | None
    sentences: list[str]


Parts = list[tuple[dict[str, Any], Estimate]]


def by_group(view: QuestionView, tally: Tally, estimator: Estimator) -> Parts:
    """An estimate for each group that sent something, as `tacit estimate --by group` gives it."""
    mine = view.tally(tally)
    _limit(view, sum(_size(mine, group.name) > 0 for group in view.plan.groups), "groups")
    if view.plan.groups[0].name is None:
        return _known([({"group": None}, view.estimate(tally, estimator, LEVEL))] if mine.n_reports else [])
    found = view.estimate(tally, estimator, LEVEL, by="group")
    return [] if found is None else [({"group": name}, part) for name, part in found.parts.items()]


def by_public(plan: Plan, view: QuestionView, tallies: Mapping[int, Tally], by: str, estimator: Estimator) -> Parts:
    """An estimate for each answer to a public question."""
    if by not in plan.public_questions:
        raise Refusal(422, "The plan does not have this public question.")
    place, cells = plan.public_questions.index(by), list(plan.public_cells)
    mine: dict[tuple[str, ...], Tally] = {}
    for cell, tally in tallies.items():
        answer, part = (cells[cell][place],), view.tally(tally)
        if part.n_reports:
            mine[answer] = mine[answer].merge(part) if answer in mine else part
    if not mine:
        return []
    found = estimate(view.plan, cells_of(view.plan, mine, [by]), estimator, LEVEL, by=by)
    return [({"group": name}, part) for name, part in found.parts.items()]


def by_time(
    plan: Plan,
    view: QuestionView,
    store: Store,
    survey: str,
    estimator: Estimator,
    spans: Sequence[tuple[date, date]],
) -> Parts:
    """An estimate from the reports of each stretch of time alone. More than 20 intervals hold all at once."""
    _limit(view, len(spans), "stretches of time")
    together = len(spans) * len(view.plan.row_values) > MANY_ROWS
    level = 1 - (1 - LEVEL) / len(spans) if together else LEVEL
    return _known(
        (
            {"since": since, "until": until},
            view.estimate(store.tally(survey, plan, since, until), estimator, level, simultaneous=together),
        )
        for since, until in spans
    )


def _known(parts: Iterable[tuple[dict[str, Any], Estimate | None]]) -> Parts:
    """Without the parts that have no report on the question."""
    return [(part, found) for part, found in parts if found is not None]


def by_wave(
    store: Store, waves: Mapping[int, Sequence[tuple[str, Plan]]], survey: str, question: str | None
) -> tuple[QuestionView, Parts, Differences | None]:
    """The waves of a series that have reports, and the changes between them; surveys of one wave are pooled.

    Of plans that say they are the same wave and differ in more than words, the survey's own counts, else the oldest.
    """
    views, found = list[QuestionView](), list[tuple[int, Plan, Tally]]()
    for wave, surveys in sorted(waves.items()):
        asked = next((plan for name, plan in surveys if name == survey), surveys[-1][1]).hashes[0]
        # The newest wording knows the earlier ones.
        plan = max((plan for _, plan in surveys if plan.hashes[0] == asked), key=lambda each: len(each.hashes))
        alike = [store.tally(name, told).under(plan) for name, told in surveys if told.hash in plan.hashes]
        view = next((each for each in views_of(plan) if question in (None, each.question.name)), None)
        mine = None if view is None else view.tally(merge_all(alike))
        if view is not None and mine is not None and mine.n_reports:
            views.append(view)
            found.append((wave, view.plan, mine))
    if not found:
        raise Refusal(409, "No wave of this series has reports on the question.")
    if len(found) == 1:
        ((wave, plan, tally),) = found
        return views[0], [({"wave": wave}, estimate(plan, tally, None, LEVEL))], None
    trended = trend([(plan, tally) for _, plan, tally in found], names=[str(wave) for wave, *_ in found], level=LEVEL)
    parts = [({"wave": int(name)}, each) for name, each in zip(trended.names, trended.estimates, strict=True)]
    return views[-1], parts, trended.changes


def spans(days: Iterable[date], step: Step, waves: Sequence[date] = ()) -> list[tuple[date, date]]:
    """The stretches of time that hold these days: days, weeks from Monday, months, or waves that begin on given days.

    >>> spans([date(2026, 3, 1), date(2026, 3, 2), date(2026, 3, 9)], "week")  # doctest: +NORMALIZE_WHITESPACE
    [(datetime.date(2026, 2, 23), datetime.date(2026, 3, 1)), (datetime.date(2026, 3, 2), datetime.date(2026, 3, 8)),
     (datetime.date(2026, 3, 9), datetime.date(2026, 3, 15))]
    """
    found = sorted(set(days))
    if waves and found:
        starts = sorted({min(found[0], *waves), *waves})
        ends = [start - timedelta(1) for start in starts[1:]] + [max(found[-1], starts[-1])]
        ranges = list(zip(starts, ends, strict=True))
        return [each for each in ranges if any(each[0] <= day <= each[1] for day in found)]
    return sorted({_span(day, step) for day in found})


def _span(day: date, step: Step) -> tuple[date, date]:
    if step == "day":
        return day, day
    if step == "week":
        monday = day - timedelta(day.weekday())
        return monday, monday + timedelta(6)
    first = day.replace(day=1)
    return first, (first + timedelta(31)).replace(day=1) - timedelta(1)


def part_rows(view: QuestionView, parts: Parts, value: str | None = None) -> list[dict[str, Any]]:
    """Every number of every part, or only those of one answer."""
    made = [
        part | {"n_reports": result.n_reports} | numbers(view, row)
        for part, result in parts
        for row in result.rows
        if value in (None, name_of(view, row))
    ]
    return say.json_ready(made)


def _compared(view: QuestionView, parts: Parts, estimator: str, value: str | None) -> Breakdown:
    """The parts side by side for one answer: the asked one, else the most frequent."""
    names = [name_of(view, row) for row in parts[0][1].rows] if parts else []
    if value is not None and value not in names and parts:
        raise Refusal(422, "The plan does not have this answer.")
    chosen = value if value in names else _largest(parts, names)
    return Breakdown(
        name=chosen,
        names=names[:_MOST_VALUES],
        level=LEVEL,
        scope=parts[0][1].scope if parts else None,
        simultaneous=parts[0][1].simultaneous if parts else False,
        about=say.whom(parts[0][1].scope, parts[0][1].simultaneous) if parts else "",
        estimator=parts[0][1].estimator if parts else estimator,
        counts_people=view.counts_people,
        parts=[Part(**row) for row in part_rows(view, parts, chosen)],
    )


def _largest(parts: Parts, names: list[str]) -> str:
    """The most frequent answer; of two the first, which a survey asks about."""
    if len(names) == 2:
        return names[0]
    sums = [
        math.fsum(each for _, result in parts if math.isfinite(each := result.rows[k].estimate))
        for k in range(len(names))
    ]
    return names[sums.index(max(sums))] if names else ""


def _size(tally: Tally, group: str | None) -> int:
    counted = tally.groups.get(group)
    return 0 if counted is None else counted.total


def _limit(view: QuestionView, parts: int, what: str) -> None:
    values = len(view.plan.values)
    if parts * values > _MOST:
        raise Refusal(409, f"{parts:,} {what} of {values:,} answers are too many at once: take the tally.")


# -- routes ---------------------------------------------------------------------------------------------------------


Estimated = Annotated[Estimator | None, Query(description="As for the results.")]
Value = Annotated[str | None, Query(max_length=1000, description="The answer to compare; else the most frequent.")]
OneGroup = Annotated[str | None, Query(max_length=1000, description="Only this group's.")]
Stepped = Annotated[Step, Query(alias="by", description="How long a stretch is; weeks begin on Mondays.")]
Asked = Annotated[
    str | None, Query(max_length=1000, description="Which question, by its name; only where a plan asks several.")
]
By = Annotated[str | None, Query(max_length=1000, description="A public question, instead of the groups.")]
FirstDays = Annotated[list[m.Day] | None, Query(alias="wave", description="First days of waves, instead of `by`.")]
#: A question, its parts, and the estimator that was asked for.
Found = tuple[QuestionView, Parts, str]
router = guarded("results", reading_live, closed=True)


async def _groups(
    survey: m.SurveyId, service: Service, estimator: Estimated = None, question: Asked = None, by: By = None
) -> Found:
    def make(plan: Plan, view: QuestionView, chosen: Estimator) -> Parts:
        if by is not None:
            return by_public(plan, view, service.store.tallies_by_cell(survey, plan), by, chosen)
        return by_group(view, service.store.tally(survey, plan), chosen)

    return (*await service.estimated(survey, question, estimator, make), estimator or "")


async def _stretches(
    survey: m.SurveyId,
    service: Service,
    estimator: Estimated = None,
    step: Stepped = "day",
    waves: FirstDays = None,
    question: Asked = None,
) -> Found:
    def make(plan: Plan, view: QuestionView, chosen: Estimator) -> Parts:
        asked = spans(service.store.totals(survey), step, waves or ())
        return by_time(plan, view, service.store, survey, chosen, asked)

    return (*await service.estimated(survey, question, estimator, make), estimator or "")


@router.get("/{survey}/results/groups")
async def compare_groups(found: Annotated[Found, Depends(_groups)], value: Value = None) -> Breakdown:
    """One number for every group that sent something."""
    return _compared(*found, value)


@router.get("/{survey}/results/groups.csv", responses=CSV, response_class=Response)
async def download_groups(
    survey: m.SurveyId, found: Annotated[Found, Depends(_groups)], group: OneGroup = None
) -> Response:
    """All numbers of all groups, or of one, as CSV."""
    view, parts, _ = found
    wanted = [part for part in parts if group in (None, part[0]["group"])]
    return csv_response(("group", "name", "n_reports", *NUMBERS), part_rows(view, wanted), f"{survey}-groups.csv")


@router.get("/{survey}/results/group")
async def show_group(
    survey: m.SurveyId,
    service: Service,
    name: Annotated[str, Query(max_length=1000, description="The group.")],
    estimator: Estimated = None,
    question: Asked = None,
    limit: Annotated[int, Query(ge=1, le=100_000, description="The number of rows, the largest first.")] = 50,
) -> GroupResults:
    """One group's estimates; what the other groups show about the prior still counts where it is leant on."""

    def make(plan: Plan, view: QuestionView, chosen: Estimator) -> Estimate | None:
        if name not in {group.name for group in view.plan.groups}:
            raise Refusal(422, "The plan does not have this group.")
        tally = service.store.tally(survey, plan)
        if not _size(view.tally(tally), name):
            return None
        return view.estimate(tally, chosen, LEVEL, group=name)

    view, found = await service.estimated(survey, question, estimator, make)
    if found is None:
        return GroupResults(group=name, n_reports=0, rows=[], n_rows=0)
    shown = [m.Row(**row) for row in rows(view, found, limit)]
    return GroupResults(group=name, n_reports=found.n_reports, rows=shown, n_rows=len(found.rows))


@router.get("/{survey}/results/crosstab")
async def show_crosstab(
    survey: m.SurveyId,
    service: Service,
    first: Annotated[str, Query(max_length=1000, description="A question, by its name.")],
    second: Annotated[str, Query(max_length=1000, description="Another question of the same block.")],
) -> TwoQuestions:
    """The table of two questions that are reported on together, and whether their answers are related."""
    return TwoQuestions(**await service.crosstab(survey, first, second))


@router.get("/{survey}/results/trend")
async def show_trend(found: Annotated[Found, Depends(_stretches)], value: Value = None) -> Breakdown:
    """One number for every day, week, month or wave, each from its own reports alone."""
    return _compared(*found, value)


@router.get("/{survey}/results/trend.csv", responses=CSV, response_class=Response)
async def download_trend(survey: m.SurveyId, found: Annotated[Found, Depends(_stretches)]) -> Response:
    """All numbers of every stretch of time as CSV."""
    view, parts, _ = found
    columns = ("since", "until", "name", "n_reports", *NUMBERS)
    return csv_response(columns, part_rows(view, parts), f"{survey}-trend.csv")


@router.get("/{survey}/results/waves")
async def show_waves(
    survey: m.SurveyId, service: Service, request: Request, value: Value = None, question: Asked = None
) -> Waves:
    """One number in every wave of the series that the token opens, and its changes with intervals.

    Surveys of one wave, its corrected wordings and its copies, are pooled. Waves are taken as independent.
    """
    waves = await service.waves(survey, lambda name: reads_live(name, request))
    try:
        view, parts, changes = await service.alone(lambda: by_wave(service.store, waves, survey, question))
    except (NotEstimableError, ValueError) as error:
        raise Refusal(409, str(error)) from error
    told = _compared(view, parts, "", value)
    asked = {row.value for _, each in parts for row in each.rows if name_of(view, row) == told.name}
    rows = [] if changes is None else [row for row in changes.rows if row.value in asked]
    numbers = [
        {"wave": row.part, "since": row.other, "change": row.difference, "low": row.low, "high": row.high}
        | {"significant": row.significant}
        for row in rows
    ]
    return Waves(**told.model_dump(), changes=[Change(**each) for each in say.json_ready(numbers)])
