"""What the dashboard shows: estimates, their history by day, and the prior check.

With a token one sees the results as they are, without one what was published (`published`). Only days whose
totals changed are read and estimated again, so a large tally costs nothing while no report comes.

Public results change in steps, so that single reports cannot be watched as they come in.

Each group's part of the tally is published when it has `publish_every` reports more than when it was last published,
first at as many. Someone who looks all the time sees differences of that many reports of one group or more, and never a
smaller one, also not across processes: what was published is in the database, and all of it is one chain.
"""

from __future__ import annotations

import json
import math
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import sqlalchemy as sa

from tacit.estimates import Estimate, Estimator, PriorCheck, QuestionView, Row, crosstab, estimate, quantiles
from tacit.plan import Plan
from tacit.server.storage import schema
from tacit.server.storage.store import Store, Survey
from tacit.show import sentences as say
from tacit.show.questions import block_alarm, crosstab_sentences
from tacit.tally import Tally

LEVEL = 0.95
#: What is told of each estimated number.
NUMBERS = ("estimate", "standard_error", "margin", "low", "high", "prior", "prior_share")
#: How many tallies of a day, estimates of a question, and days of histories are remembered.
_TALLIES, _ESTIMATES, _DAYS = 256, 64, 100_000
#: The most rows that are estimated for a history, and the fewest days that it has all the same.
_HISTORY_ROWS, _FEWEST_DAYS = 50_000, 4


@dataclass(frozen=True)
class Stand:
    """Where a survey stood at the end of a day: how many reports of each group, and the tally of all until then."""

    day: date
    version: tuple[Any, ...]
    per_group: list[int]
    tally: Callable[[], Tally]


class Results:
    """Estimates of all surveys, remembered by day."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tallies = _Recent[tuple[str, date], Tally](_TALLIES)
        self._sums = _Recent[tuple[str, date], Tally](_TALLIES)
        self._medians = _Recent[tuple[str, bool], dict[str, str]](_ESTIMATES)
        self._newest = _Recent[tuple[str, bool, str | None, Estimator], Estimate | None](_ESTIMATES)
        self._history = _Recent[tuple[str, bool, Estimator, date], dict[str, Any] | None](_DAYS)

    def public_version(self, survey: Survey, plan: Plan) -> tuple[Any, ...]:
        """What public results depend on: they are the same as long as this is. Publishes what is due."""
        shown = publication(self._store, survey, plan)
        return survey.life, survey.is_open(self._store.today()), survey.publish_every, shown

    def facts(
        self,
        survey: Survey,
        plan: Plan,
        views: Sequence[QuestionView],
        estimator: Estimator,
        limit: int | None,
        everything: bool,
    ) -> dict[str, Any]:
        """All about a survey's results, for JSON: as they are now if `everything` may be seen, else as published.

        Raises `NotEstimableError` where the plan allows no such.
        """
        stands = self._live(survey, plan) if everything else self._published(survey, plan)
        per_group = stands[-1].per_group if stands else [0] * len(plan.groups)
        find = partial(self._estimate, survey.life, everything, estimator)
        found = [(view, find(view, stands[-1]) if stands else None) for view in views]
        told = _facts(plan, found, per_group, estimator, limit)
        if plan.block_column is None:
            ((view, result),) = found
            told["history"] = self._days(survey.life, everything, estimator, stands, view, result)
            if view.plan.task.kind == "quantiles" and sum(per_group) >= say.LEAST_REPORTS:
                told["median"] = self._median(survey.life, everything, view.plan, stands[-1])
        elif everything:
            told["public"] = _public_facts(plan, self._store.totals(survey.id).values())
        return {
            "survey": survey.id,
            "question": plan.heading,
            "open": survey.is_open(self._store.today()),
            "opened": survey.opened,
            "n_reports": sum(per_group),
            "refused": self._store.refused(survey.id) if everything else 0,
            "published_every": None if everything else survey.publish_every,
            "level": LEVEL,
            "n_days": len(stands),
            **told,
        }

    def _estimate(
        self, life: str, everything: bool, estimator: Estimator, view: QuestionView, stand: Stand
    ) -> Estimate | None:
        """What all reports say about a question; computed once for each stand."""
        place = life, everything, view.question.name, estimator
        return self._newest.get(place, stand.version, lambda: view.estimate(stand.tally(), estimator, LEVEL))

    def _median(self, life: str, everything: bool, plan: Plan, stand: Stand) -> dict[str, str]:
        """The median of all reports with its interval; computed once for each stand."""

        def find() -> dict[str, str]:
            (found,) = quantiles(plan, stand.tally(), level=LEVEL)
            return {"value": str(found.value), "low": str(found.low), "high": str(found.high)}

        return self._medians.get((life, everything), stand.version, find)

    def _days(
        self,
        life: str,
        everything: bool,
        estimator: Estimator,
        stands: Sequence[Stand],
        view: QuestionView,
        result: Estimate | None,
    ) -> list[dict[str, Any]]:
        """Half the interval per respondent at the end of each day, each computed once and only these numbers kept;
        where there are many values, at the end of some days.
        """
        most = max(_FEWEST_DAYS, _HISTORY_ROWS // len(view.plan.values))
        shown = [*stands[:-1][:: max(1, -(-len(stands) // most))], *stands[-1:]]

        def day_of(stand: Stand) -> dict[str, Any] | None:
            found = result if stand is stands[-1] else view.estimate(stand.tally(), estimator, LEVEL)
            return None if found is None else _history_day(stand, found)

        days = [
            self._history.get((life, everything, estimator, stand.day), stand.version, partial(day_of, stand))
            for stand in shown
        ]
        return [each for each in days if each is not None]

    def _published(self, survey: Survey, plan: Plan) -> list[Stand]:
        stands = []
        for day, tally in published(self._store, survey, plan):
            per_group = [tally.groups[g.name].total if g.name in tally.groups else 0 for g in plan.groups]
            stands.append(Stand(day, tuple(per_group), per_group, partial(_given, tally)))
        return stands

    def _live(self, survey: Survey, plan: Plan) -> list[Stand]:
        """The tallies that are read are those of days whose totals changed, and only if an estimate needs them."""
        stands: list[Stand] = []
        for day, counts in self._store.totals(survey.id).items():
            before = stands[-1] if stands else None
            version = (*(before.version if before else ()), day, tuple(counts.items()))
            sums = before.per_group if before else [0] * len(plan.groups)
            per_group = list(sums)
            for k, n in counts.items():
                # Public answers part the counts of each group.
                per_group[k % len(per_group)] += n
            load = partial(self._until, survey, plan, version, before, counts)
            stands.append(Stand(day, version, per_group, load))
        return stands

    def _until(
        self, survey: Survey, plan: Plan, version: tuple[Any, ...], before: Stand | None, counts: Mapping[int, int]
    ) -> Tally:
        """All reports until the end of a day: those until the day before, and that day's."""
        day = version[-2]

        def add_up() -> Tally:
            mine = self._tally(survey, plan, day, counts)
            return mine if before is None else before.tally().merge(mine)

        return self._sums.get((survey.life, day), version, add_up)

    def _tally(self, survey: Survey, plan: Plan, day: date, counts: Mapping[int, int]) -> Tally:
        read = partial(self._store.tally, survey.id, plan, day, day)
        return self._tallies.get((survey.life, day), tuple(counts.items()), read)


K = TypeVar("K")
V = TypeVar("V")


class _Recent(Generic[K, V]):
    """What was computed of something in its newest version, as many as there is room for."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[K, tuple[tuple[Any, ...], V]] = OrderedDict()

    def get(self, key: K, version: tuple[Any, ...], make: Callable[[], V]) -> V:
        known = self._kept.get(key)
        if known is None or known[0] != version:
            known = self._kept[key] = version, make()
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return known[1]


def _given(tally: Tally) -> Tally:
    return tally


# -- facts ------------------------------------------------------------------------------------------------------------


def _facts(
    plan: Plan,
    found: Sequence[tuple[QuestionView, Estimate | None]],
    per_group: Sequence[int],
    estimator: Estimator,
    limit: int | None,
) -> dict[str, Any]:
    """Every question on its own, and what concerns all; a plan of one question has its rows at the top instead."""
    view, first = next(((view, result) for view, result in found if result is not None), (found[0][0], None))
    result = estimate(view.plan, Tally(view.plan.hash, {}), estimator, LEVEL) if first is None else first
    alone = plan.block_column is None
    there = [each for _, each in found if each is not None] or [result]
    reach = [(each.influence, each.influence_added) for each in there]
    changed, added = (max((each[k] for each in reach if math.isfinite(each[k])), default=0.0) for k in (0, 1))
    n_groups = len(per_group) // len(plan.block_plans)
    return {
        "task": view.plan.task.kind if alone else "questionnaire",
        "estimator": result.estimator,
        "counts_people": view.counts_people if alone else True,
        "rows": rows(view, result, limit) if alone else [],
        "n_rows": len(result.rows) if alone else 0,
        "questions": []
        if alone
        else [
            _question_facts(each, part, sum(per_group[each.block * n_groups :][:n_groups]), limit)
            for each, part in found
        ],
        "public": [],
        "groups": [_group_facts(plan, k, sum(per_group[k::n_groups])) for k in range(n_groups)],
        "prior_check": _checks(plan, found),
        "history": [],
        "scope": result.scope,
        "simultaneous": result.simultaneous,
        "about": say.whom(result.scope, result.simultaneous),
        "prior_shares": say.prior_shares(result) if alone else None,
        "influence": changed,
        "influence_added": added,
    }


def _checks(plan: Plan, found: Sequence[tuple[QuestionView, Estimate | None]]) -> list[dict[str, Any]]:
    """What the reports say about the prior: of every group, or of several questions once for each block."""
    made: list[dict[str, Any]] = []
    for place in range(len(plan.block_plans)):
        mine = [(view, result) for view, result in found if view.block == place and result is not None]
        view, result = mine[0] if mine else (None, None)
        checks = [] if result is None else list(result.prior_check)
        if view is not None and result is not None and plan.block_column is None:
            said = [say.alarm(view.plan, result, each) if each.contradicted else str(each) for each in checks]
            made += map(_check_facts, checks, said)
        elif checks:
            # All of its questions have the same checks; the one that contradicts most is told.
            check = min(checks, key=lambda each: (not each.contradicted, each.p_value))
            names = [each.name for each in plan.blocks[place].questions]
            made.append(_check_facts(check, block_alarm(names) if check.contradicted else str(check), names))
    return made


def name_of(view: QuestionView, row: Row) -> str:
    """How a row is called."""
    return "mean" if view.question.task == "mean" else say.row_name(view.plan, row.value)


def numbers(view: QuestionView, row: Row) -> dict[str, Any]:
    """A row's name and numbers."""
    return {"name": name_of(view, row)} | {name: getattr(row, name) for name in NUMBERS}


def rows(view: QuestionView, result: Estimate, limit: int | None = None) -> list[dict[str, Any]]:
    """The estimates with what the prior alone expects; the largest if there are more than `limit`."""
    made = [numbers(view, row) for row in result.rows]
    if limit is not None and len(made) > limit:
        made = sorted(made, key=lambda row: -row["estimate"] if math.isfinite(row["estimate"]) else math.inf)[:limit]
    return say.json_ready(made)


def _history_day(stand: Stand, result: Estimate) -> dict[str, Any]:
    margins = np.array([row.margin for row in result.rows])
    reach = math.sqrt(float(np.nanmean(margins**2))) / result.n_reports if np.isfinite(margins).any() else 0.0
    return {"day": stand.day, "n_reports": result.n_reports, "reach": reach}


def _group_facts(plan: Plan, place: int, n_reports: int) -> dict[str, Any]:
    """A group's promise: of several blocks that of the worst."""
    groups = [block.groups[place] for block in plan.block_plans]
    first, asked, several = groups[0], plan.block_plans[0], len(plan.private) > 1
    levels = {name: max(each.levels[name] for each in groups) for name in first.levels}
    bound, odds = say.record_factors(groups)
    return {
        "group": first.name,
        "n_reports": n_reports,
        "epsilon": float(first.epsilon),
        "notion": first.notion,
        "levels": say.json_ready(levels),
        "promise": say.promise(plan, first.name),
        "belief": None if several or first.without_prior else list(say.promise_cells(asked, first)[1:5]),
        "near": asked.between and not several,
        "bound": bound if several else None,
        "odds": odds,
        "prior_set": first.prior_set is not None,
    }


def _check_facts(check: PriorCheck, sentence: str, questions: Sequence[str] = ()) -> dict[str, Any]:
    names = ("group", "pooled", "degrees", "p_value", "contradicted")
    return {name: getattr(check, name) for name in names} | {"questions": list(questions), "sentence": sentence}


def _public_facts(plan: Plan, days: Iterable[Mapping[int, int]]) -> list[dict[str, Any]]:
    """How many people gave each public answer: exact, and for the team only."""
    cells, counts = list(plan.public_cells), Counter[int]()
    for day in days:
        for place, n in day.items():
            counts[place // len(plan.groups)] += n
    return [
        {
            "name": question.name,
            "text": question.text.get("en", question.words),
            "rows": [
                {"name": str(label), "count": sum(n for cell, n in counts.items() if cells[cell][k] == str(answer))}
                for answer, label in zip(question.answers, question.labels.get("en", question.answers), strict=True)
            ],
        }
        for k, question in enumerate(each for each in plan.questions if each.public)
    ]


def _question_facts(view: QuestionView, result: Estimate | None, n_reports: int, limit: int | None) -> dict[str, Any]:
    question = view.question
    labels = question.labels.get("en", ())
    return {
        "name": question.name,
        "text": question.text.get("en", question.words),
        "labels": dict(zip(map(str, question.answers), labels, strict=False)),
        "part_of": question.part_of,
        "task": question.task,
        "block": view.block + 1,
        "n_reports": n_reports,
        "counts_people": view.counts_people,
        "rows": [] if result is None else rows(view, result, limit),
        "n_rows": 0 if result is None else len(result.rows),
    }


def crosstab_facts(plan: Plan, tally: Tally, first: str, second: str) -> dict[str, Any]:
    """The table of two questions, for JSON. Raises `ValueError` where no report tells about both."""
    found = crosstab(plan, tally, first, second, level=LEVEL)
    told = found.to_dict()
    shares = [found.estimate.per_respondent(row) for _, _, row in found.rows]
    rows = [
        {"first": str(one), "second": str(two)} | {name: getattr(share, name) for name in ("estimate", "low", "high")}
        for (one, two, _), share in zip(found.rows, shares, strict=True)
    ]
    names = ("n_reports", "level", "independence", "association")
    facts = {"first": first, "second": second, "rows": rows} | {name: told[name] for name in names}
    return say.json_ready(facts | {"sentences": crosstab_sentences(found)})


def published(store: Store, survey: Survey, plan: Plan) -> list[tuple[date, Tally]]:
    """What was last published on each day; publishes now what is due."""
    publication(store, survey, plan)
    table = schema.published
    query = sa.select(table.c.day, table.c.tally).where(table.c.survey == survey.id).order_by(table.c.day)
    with store.database.reading.connect() as connection:
        return [(row.day, _unpacked(bytes(row.tally))) for row in connection.execute(query)]


def publication(store: Store, survey: Survey, plan: Plan) -> tuple[tuple[date, int], ...]:
    """On which days how many reports were published; publishes now what is due. Reads one tally at most."""
    table = schema.published
    mine = sa.select(table.c.day, table.c.n_reports).where(table.c.survey == survey.id).order_by(table.c.day)
    newest = sa.select(table.c.tally).where(table.c.survey == survey.id).order_by(table.c.day.desc()).limit(1)
    with store.database.reading.connect() as connection:
        packed = connection.scalar(newest)
    last = Tally(plan.hash, {}) if packed is None else _unpacked(bytes(packed))
    if _due(survey, plan, _n_reports(store, survey.id, plan), last):
        _publish(store, survey, plan)
    with store.database.reading.connect() as connection:
        return tuple((row.day, row.n_reports) for row in connection.execute(mine))


def _publish(store: Store, survey: Survey, plan: Plan) -> None:
    live, table = store.tally(survey.id, plan), schema.published
    with store.database.writing.begin() as connection:
        # One after the other, so that each step starts at the one before.
        connection.execute(sa.select(schema.surveys.c.id).where(schema.surveys.c.id == survey.id).with_for_update())
        mine = sa.select(table.c.day, table.c.tally).where(table.c.survey == survey.id)
        rows = connection.execute(mine.order_by(table.c.day.desc()).limit(1)).all()
        last = _unpacked(bytes(rows[0].tally)) if rows else Tally(plan.hash, {})
        counts = {name: tally.total for name, tally in live.groups.items()}
        due = _due(survey, plan, counts, last)
        if not due:
            return
        groups = dict(last.groups) | {name: live.groups[name] for name in due}
        tally = Tally(plan.hash, groups, live.refused)
        # Never on a day before the last: after a clock was set back, that day would stay the last, and old.
        day = max([store.today(), *(row.day for row in rows[-1:])])
        here = (table.c.survey == survey.id) & (table.c.day == day)
        connection.execute(sa.delete(table).where(here))
        row = {"survey": survey.id, "day": day, "n_reports": tally.n_reports, "tally": _packed(tally)}
        connection.execute(sa.insert(table), row)


def _due(survey: Survey, plan: Plan, counts: dict[str | None, int], last: Tally) -> list[str | None]:
    """The groups with enough new reports."""
    before = {name: tally.total for name, tally in last.groups.items()}
    names = [group.name for group in plan.groups]
    return [name for name in names if counts.get(name, 0) - before.get(name, 0) >= survey.publish_every]


def _n_reports(store: Store, name: str, plan: Plan) -> dict[str | None, int]:
    sums = Counter[str | None]()
    for day in store.totals(name).values():
        for k, n in day.items():
            sums[plan.groups[k % len(plan.groups)].name] += n
    return sums


def _packed(tally: Tally) -> bytes:
    return zlib.compress(json.dumps(tally.to_dict()).encode())


def _unpacked(data: bytes) -> Tally:
    return Tally.from_dict(json.loads(zlib.decompress(data)))


def central_epsilon(epsilon: float, step: int, delta: float) -> float:
    """The ε of differential privacy, with δ, that steps of `step` reports give each of them in a group whose mechanism
    is ε-LDP: amplification by shuffling (Feldman, McMillan and Talwar, FOCS 2021, Theorem 3.1),

        ln(1 + (e^ε − 1)/(e^ε + 1) · (8 √(e^ε ln(4/δ)) / √n + 8 e^ε / n)),   for ε ≤ ln(n / (16 ln(2/δ))),

    with n = `step`, for somebody who sees published results and no single report. Below that n it claims nothing more
    than the ε of the device.

    >>> round(central_epsilon(1.0, 20, 1e-6), 2), round(central_epsilon(1.0, 10_000, 1e-6), 2)
    (1.0, 0.21)
    """
    if step < 16 * math.log(2 / delta) * math.exp(epsilon):
        return epsilon
    growth = math.exp(epsilon)
    spread = 8 * math.sqrt(growth * math.log(4 / delta) / step) + 8 * growth / step
    return min(epsilon, math.log1p((growth - 1) / (growth + 1) * spread))
