"""What the dashboard shows: estimates, their history by day, the prior check, and what LDP would have given.

Only days whose totals changed are read and estimated again, so a large tally costs nothing while nobody answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from tacit.estimates import Estimate, Estimator, estimate
from tacit.plan import Group, Plan
from tacit.plan.contract import task_to_dict
from tacit.server.store import Store, Survey
from tacit.show.sentences import alarm, counts_people, json_ready, ldp_people, prior_part, promise, row_name, selects
from tacit.tally import Tally

LEVEL = 0.95
Totals = Mapping[date, Mapping[int, int]]


@dataclass(frozen=True)
class _Day:
    """A day's end: the totals it was computed from, all reports so far, and what they say."""

    version: tuple[Any, ...]
    tally: Tally
    estimate: Estimate


class Results:
    """Estimates of all surveys, remembered by day."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tallies: dict[tuple[str, date], tuple[tuple[Any, ...], Tally]] = {}
        self._days: dict[tuple[str, Estimator, date], _Day] = {}

    def facts(self, survey: Survey, plan: Plan, estimator: Estimator, limit: int | None) -> dict[str, Any]:
        """Everything about a survey's results, for JSON. Raises `NotEstimableError` where the plan allows no such."""
        totals = self._store.totals(survey.id)
        days = self._estimates(survey.id, plan, estimator, totals)
        result = days[-1][1] if days else _estimate(plan, Tally(plan.hash, {}), estimator)
        per_group = [sum(day.get(k, 0) for day in totals.values()) for k in range(len(plan.groups))]
        people = ldp_people(plan, per_group, result.estimator)
        return {
            "survey": survey.id,
            "question": plan.question,
            "open": survey.is_open(self._store.today()),
            "opened": survey.opened,
            "task": task_to_dict(plan.task, plan.groups[0].prior)["kind"],
            "n_reports": result.n_reports,
            "refused": self._store.refused(survey.id),
            "estimator": result.estimator,
            "level": LEVEL,
            "counts_people": counts_people(plan),
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
            "ldp": None if people is None else {"people": people},
            "history": _history(plan, totals, days),
            "prior_part": prior_part(result),
            "influence": result.influence if math.isfinite(result.influence) else 0.0,
            "influence_added": result.influence_added if math.isfinite(result.influence_added) else 0.0,
        }

    def _estimates(self, name: str, plan: Plan, estimator: Estimator, totals: Totals) -> list[tuple[date, Estimate]]:
        """The estimate at the end of each day, from all reports until then."""
        found: list[tuple[date, Estimate]] = []
        version: tuple[Any, ...] = ()
        tally = Tally(plan.hash, {})
        for day, counts in totals.items():
            version = (*version, day, tuple(counts.items()))
            known = self._days.get((name, estimator, day))
            if known is None or known.version != version:
                tally = tally.merge(self._tally(name, plan, day, counts))
                known = _Day(version, tally, _estimate(plan, tally, estimator))
                self._days[name, estimator, day] = known
            tally = known.tally
            found.append((day, known.estimate))
        return found

    def _tally(self, name: str, plan: Plan, day: date, counts: Mapping[int, int]) -> Tally:
        version = tuple(counts.items())
        known = self._tallies.get((name, day))
        if known is None or known[0] != version:
            known = version, self._store.tally(name, plan, day, day)
            self._tallies[name, day] = known
        return known[1]


def _estimate(plan: Plan, tally: Tally, estimator: Estimator) -> Estimate:
    """As the command does it: intervals hold for all rows at once where only the largest are shown."""
    return estimate(plan, tally, estimator, LEVEL, simultaneous=selects(plan))


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


def _history(plan: Plan, totals: Totals, days: Sequence[tuple[date, Estimate]]) -> list[dict[str, Any]]:
    """Half the interval per respondent at the end of each day, beside that of LDP."""
    per_group, history = [0] * len(plan.groups), []
    for day, result in days:
        for k, n in totals[day].items():
            per_group[k] += n
        margins = np.array([row.margin for row in result.rows])
        reach = math.sqrt(float(np.nanmean(margins**2))) / result.n_reports if np.isfinite(margins).any() else 0.0
        people = ldp_people(plan, per_group, result.estimator)
        ldp_reach = None if people is None else math.sqrt(people) * reach
        history.append({"day": day, "n_reports": result.n_reports, "reach": reach, "ldp_reach": ldp_reach})
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
