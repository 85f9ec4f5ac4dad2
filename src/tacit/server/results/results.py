"""What the dashboard shows: estimates, their history by day, and the prior check.

With a token one sees the results as they are, without one what was published (`publishing.py`). Only days whose
totals changed are read and estimated again, so a large tally costs nothing while no report comes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

import numpy as np

from tacit.estimates import Estimate, Estimator, PriorCheck, QuestionView, Row, crosstab, estimate
from tacit.plan import AnyPlan, Group, Plan, Questionnaire
from tacit.server.results.publishing import published
from tacit.server.storage.store import Store, Survey
from tacit.show.questions import block_alarm, crosstab_sentences, title_of
from tacit.show.sentences import alarm, json_ready, prior_part, promise, record_promise, row_name, whom
from tacit.tally import Tally

LEVEL = 0.95


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
        self._tallies: dict[tuple[str, date], tuple[tuple[Any, ...], Tally]] = {}
        self._sums: dict[tuple[str, date], tuple[tuple[Any, ...], Tally]] = {}
        self._days: dict[tuple[str, bool, str | None, Estimator, date], tuple[tuple[Any, ...], Estimate | None]] = {}

    def facts(
        self,
        survey: Survey,
        plan: AnyPlan,
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
        if isinstance(plan, Questionnaire):
            found = [(view, find(view, stands[-1]) if stands else None) for view in views]
            told = _several(plan, found, per_group, estimator, limit)
        else:
            days = [each for stand in stands if (each := find(views[0], stand)) is not None]
            told = _single(plan, stands, days, per_group, estimator, limit)
        return {
            "survey": survey.id,
            "question": plan.title,
            "open": survey.is_open(self._store.today()),
            "opened": survey.opened,
            "n_reports": sum(per_group),
            "refused": self._store.refused(survey.id) if everything else 0,
            "published_every": None if everything else survey.publish_every,
            "level": LEVEL,
            **told,
        }

    def _estimate(
        self, life: str, everything: bool, estimator: Estimator, view: QuestionView, stand: Stand
    ) -> Estimate | None:
        """What the reports until the end of a day say about a question; computed once for each stand."""
        place = life, everything, view.name, estimator, stand.day
        known = self._days.get(place)
        if known is None or known[0] != stand.version:
            known = self._days[place] = stand.version, view.estimate(stand.tally(), estimator, LEVEL)
        return known[1]

    def _published(self, survey: Survey, plan: AnyPlan) -> list[Stand]:
        stands = []
        for day, tally in published(self._store, survey, plan):
            per_group = [tally.groups[g.name].total if g.name in tally.groups else 0 for g in plan.groups]
            stands.append(Stand(day, tuple(per_group), per_group, partial(_given, tally)))
        return stands

    def _live(self, survey: Survey, plan: AnyPlan) -> list[Stand]:
        """The tallies that are read are those of days whose totals changed, and only if an estimate needs them."""
        stands: list[Stand] = []
        for day, counts in self._store.totals(survey.id).items():
            before = stands[-1] if stands else None
            version = (*(before.version if before else ()), day, tuple(counts.items()))
            sums = before.per_group if before else [0] * len(plan.groups)
            per_group = [n + counts.get(k, 0) for k, n in enumerate(sums)]
            load = partial(self._until, survey, plan, version, before, counts)
            stands.append(Stand(day, version, per_group, load))
        return stands

    def _until(
        self, survey: Survey, plan: AnyPlan, version: tuple[Any, ...], before: Stand | None, counts: Mapping[int, int]
    ) -> Tally:
        """All reports until the end of a day: those until the day before, and that day's."""
        day = version[-2]
        known = self._sums.get((survey.life, day))
        if known is None or known[0] != version:
            mine = self._tally(survey, plan, day, counts)
            known = self._sums[survey.life, day] = version, mine if before is None else before.tally().merge(mine)
        return known[1]

    def _tally(self, survey: Survey, plan: AnyPlan, day: date, counts: Mapping[int, int]) -> Tally:
        version = tuple(counts.items())
        known = self._tallies.get((survey.life, day))
        if known is None or known[0] != version:
            known = version, self._store.tally(survey.id, plan, day, day)
            self._tallies[survey.life, day] = known
        return known[1]


def _given(tally: Tally) -> Tally:
    return tally


# -- one question -----------------------------------------------------------------------------------------------------


def _single(
    plan: Plan,
    stands: Sequence[Stand],
    days: Sequence[Estimate],
    per_group: Sequence[int],
    estimator: Estimator,
    limit: int | None,
) -> dict[str, Any]:
    result = days[-1] if days else estimate(plan, Tally(plan.hash, {}), estimator, LEVEL)
    return {
        "task": plan.task.kind,
        "estimator": result.estimator,
        "counts_people": plan.task.counts_people,
        "rows": rows(QuestionView(plan), result, limit),
        "n_rows": len(result.rows),
        "questions": [],
        "groups": [_group_facts(plan, group, n) for group, n in zip(plan.groups, per_group, strict=True)],
        "prior_check": [
            _check_facts(check, alarm(plan, result, check) if check.contradicted else str(check))
            for check in result.prior_check
        ],
        "history": _history(stands, days),
        "about": whom(result.scope, result.simultaneous),
        "prior_part": prior_part(result),
        "influence": result.influence if math.isfinite(result.influence) else 0.0,
        "influence_added": result.influence_added if math.isfinite(result.influence_added) else 0.0,
    }


def name_of(view: QuestionView, row: Row) -> str:
    """How a row is called."""
    return view.row_name(row) or row_name(view.plan, row.value)


def rows(view: QuestionView, result: Estimate, limit: int | None = None) -> list[dict[str, Any]]:
    """The estimates with what the prior alone expects; the largest if there are more than `limit`."""
    names = ("estimate", "standard_error", "margin", "low", "high", "prior", "prior_share")
    made: list[dict[str, Any]] = [
        {"name": name_of(view, row)} | {name: getattr(row, name) for name in names} for row in result.rows
    ]
    if limit is not None and len(made) > limit:
        made = sorted(made, key=lambda row: -row["estimate"] if math.isfinite(row["estimate"]) else math.inf)[:limit]
    cleaned: list[dict[str, Any]] = json_ready(made)
    return cleaned


def _history(stands: Sequence[Stand], days: Sequence[Estimate]) -> list[dict[str, Any]]:
    """Half the interval per respondent at the end of each day."""
    history = []
    for stand, result in zip(stands, days, strict=True):
        margins = np.array([row.margin for row in result.rows])
        reach = math.sqrt(float(np.nanmean(margins**2))) / result.n_reports if np.isfinite(margins).any() else 0.0
        history.append({"day": stand.day, "n_reports": result.n_reports, "reach": reach})
    return history


def _group_facts(plan: Plan, group: Group, n_reports: int) -> dict[str, Any]:
    return {
        "group": group.name,
        "n_reports": n_reports,
        "epsilon": float(group.epsilon),
        "notion": group.notion,
        "levels": json_ready(dict(group.levels)),
        "promise": promise(plan, group),
    }


def _check_facts(check: PriorCheck, sentence: str) -> dict[str, Any]:
    names = ("group", "pooled", "p_value", "contradicted")
    return {name: getattr(check, name) for name in names} | {"sentence": sentence}


# -- several questions ------------------------------------------------------------------------------------------------


def _several(
    plan: Questionnaire,
    found: Sequence[tuple[QuestionView, Estimate | None]],
    per_group: Sequence[int],
    estimator: Estimator,
    limit: int | None,
) -> dict[str, Any]:
    """Every question on its own; what concerns a prior is said once for each block."""
    n_groups = len(per_group) // len(plan.blocks)
    checks = []
    for place, block in enumerate(plan.blocks):
        results = [result for view, result in found if view.block == place and result is not None]
        for check in results[0].prior_check if results else ():
            said = block_alarm(question.name for question in block.questions) if check.contradicted else str(check)
            checks.append(_check_facts(check, said))
    reach = [(result.influence, result.influence_added) for _, result in found if result is not None]
    changed, added = (max((each[k] for each in reach if math.isfinite(each[k])), default=0.0) for k in (0, 1))
    return {
        "task": "questionnaire",
        "estimator": estimator,
        "counts_people": True,
        "rows": [],
        "n_rows": 0,
        "questions": [
            _question_facts(view, result, sum(per_group[view.block * n_groups :][:n_groups]), limit)
            for view, result in found
        ],
        "groups": [
            _record_facts(plan, group, k, sum(per_group[k::n_groups]))
            for k, group in enumerate(plan.blocks[0].plan.groups)
        ],
        "prior_check": checks,
        "history": [],
        "about": next((whom(result.scope, result.simultaneous) for _, result in found if result is not None), ""),
        "prior_part": None,
        "influence": changed,
        "influence_added": added,
    }


def _question_facts(view: QuestionView, result: Estimate | None, n_reports: int, limit: int | None) -> dict[str, Any]:
    question = view.question
    assert question is not None
    labels = question.labels.get("en") or next(iter(question.labels.values()), ())
    return {
        "name": question.name,
        "text": title_of(question),
        "labels": dict(zip(map(str, question.answers), labels, strict=False)),
        "part_of": question.part_of,
        "task": question.task,
        "block": view.block + 1,
        "n_reports": n_reports,
        "counts_people": view.counts_people,
        "rows": [] if result is None else rows(view, result, limit),
        "n_rows": 0 if result is None else len(result.rows),
    }


def _record_facts(plan: Questionnaire, group: Group, place: int, n_reports: int) -> dict[str, Any]:
    """A group's promise about the whole record: the worst of the blocks."""
    levels = [block.plan.groups[place].levels for block in plan.blocks]
    return {
        "group": group.name,
        "n_reports": n_reports,
        "epsilon": float(group.epsilon),
        "notion": group.notion,
        "levels": json_ready({name: max(each[name] for each in levels) for name in levels[0]}),
        "promise": record_promise(plan, group.name),
    }


def crosstab_facts(plan: Questionnaire, tally: Tally, first: str, second: str) -> dict[str, Any]:
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
    cleaned: dict[str, Any] = json_ready(facts | {"sentences": crosstab_sentences(found)})
    return cleaned
