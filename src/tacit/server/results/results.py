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

from tacit.estimates import Estimate, Estimator, estimate
from tacit.plan import Group, Plan
from tacit.server.results.publishing import published
from tacit.server.storage.store import Store, Survey
from tacit.show.sentences import alarm, json_ready, prior_part, promise, row_name, whom
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
        self._days: dict[tuple[str, bool, Estimator, date], tuple[tuple[Any, ...], Estimate]] = {}

    def facts(
        self, survey: Survey, plan: Plan, estimator: Estimator, limit: int | None, everything: bool
    ) -> dict[str, Any]:
        """All about a survey's results, for JSON: as they are now if `everything` may be seen, else as published.

        Raises `NotEstimableError` where the plan allows no such.
        """
        stands = self._live(survey, plan) if everything else self._published(survey, plan)
        days = [self._estimate(survey.life, everything, plan, estimator, stand) for stand in stands]
        result = days[-1] if days else _estimate(plan, Tally(plan.hash, {}), estimator)
        per_group = stands[-1].per_group if stands else [0] * len(plan.groups)
        return {
            "survey": survey.id,
            "question": plan.question,
            "open": survey.is_open(self._store.today()),
            "opened": survey.opened,
            "task": plan.task.kind,
            "n_reports": result.n_reports,
            "refused": self._store.refused(survey.id) if everything else 0,
            "published_every": None if everything else survey.publish_every,
            "estimator": result.estimator,
            "level": LEVEL,
            "counts_people": plan.task.counts_people,
            "rows": rows(plan, result, limit),
            "n_rows": len(result.rows),
            "groups": [_group_facts(plan, group, n) for group, n in zip(plan.groups, per_group, strict=True)],
            "prior_check": [
                {
                    "group": check.group,
                    "pooled": check.pooled,
                    "p_value": check.p_value,
                    "contradicted": check.contradicted,
                    "sentence": alarm(plan, result, check) if check.contradicted else str(check),
                }
                for check in result.prior_check
            ],
            "history": _history(stands, days),
            "about": whom(result.scope, result.simultaneous),
            "prior_part": prior_part(result),
            "influence": result.influence if math.isfinite(result.influence) else 0.0,
            "influence_added": result.influence_added if math.isfinite(result.influence_added) else 0.0,
        }

    def _estimate(self, life: str, everything: bool, plan: Plan, estimator: Estimator, stand: Stand) -> Estimate:
        """What the reports until the end of a day say; computed once for each stand."""
        place = life, everything, estimator, stand.day
        known = self._days.get(place)
        if known is None or known[0] != stand.version:
            known = self._days[place] = stand.version, _estimate(plan, stand.tally(), estimator)
        return known[1]

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
            per_group = [n + counts.get(k, 0) for k, n in enumerate(sums)]
            load = partial(self._until, survey, plan, version, before, counts)
            stands.append(Stand(day, version, per_group, load))
        return stands

    def _until(
        self, survey: Survey, plan: Plan, version: tuple[Any, ...], before: Stand | None, counts: Mapping[int, int]
    ) -> Tally:
        """All reports until the end of a day: those until the day before, and that day's."""
        day = version[-2]
        known = self._sums.get((survey.life, day))
        if known is None or known[0] != version:
            mine = self._tally(survey, plan, day, counts)
            known = self._sums[survey.life, day] = version, mine if before is None else before.tally().merge(mine)
        return known[1]

    def _tally(self, survey: Survey, plan: Plan, day: date, counts: Mapping[int, int]) -> Tally:
        version = tuple(counts.items())
        known = self._tallies.get((survey.life, day))
        if known is None or known[0] != version:
            known = version, self._store.tally(survey.id, plan, day, day)
            self._tallies[survey.life, day] = known
        return known[1]


def _given(tally: Tally) -> Tally:
    return tally


def _estimate(plan: Plan, tally: Tally, estimator: Estimator) -> Estimate:
    """As the command does it: intervals hold for all rows at once where only the largest are shown."""
    return estimate(plan, tally, estimator, LEVEL)


def rows(plan: Plan, result: Estimate, limit: int | None = None) -> list[dict[str, Any]]:
    """The estimates with what the prior alone expects; the largest if there are more than `limit`."""
    names = ("estimate", "standard_error", "margin", "low", "high", "prior", "prior_share")
    made: list[dict[str, Any]] = [
        {"name": row_name(plan, row.value)} | {name: getattr(row, name) for name in names} for row in result.rows
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
