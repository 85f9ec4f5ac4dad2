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
from tacit.estimates.rows import prior_totals
from tacit.plan import Certificate, Group, Plan
from tacit.plan.contract import task_to_dict
from tacit.server.store import Store, Survey
from tacit.show.sentences import alarm, counts_people, json_ready, promise, row_name
from tacit.tally import Tally
from tacit.task import WeightedSum

LEVEL = 0.95
#: An error that is none; its inverse is beyond every error.
_NOTHING = 1e-100
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
        result = days[-1][1] if days else estimate(plan, Tally(plan.hash, {}), estimator, LEVEL)
        per_group = [sum(day.get(k, 0) for day in totals.values()) for k in range(len(plan.groups))]
        ratio = _ldp_ratio(plan, per_group, estimator)
        return {
            "survey": survey.id,
            "question": plan.question,
            "open": survey.is_open,
            "opened": survey.opened,
            "task": task_to_dict(plan.task, plan.groups[0].prior)["kind"],
            "n_reports": result.n_reports,
            "refused": self._store.refused(survey.id),
            "estimator": estimator,
            "level": LEVEL,
            "counts_people": counts_people(plan),
            "rows": rows(plan, result, per_group, limit),
            "n_rows": len(result.rows),
            "groups": [_group_facts(group, n, plan.between) for group, n in zip(plan.groups, per_group, strict=True)],
            "prior_check": [
                {
                    "group": check.group,
                    "p_value": check.p_value,
                    "contradicted": check.contradicted,
                    "sentence": alarm(result, check) if check.contradicted else str(check),
                }
                for check in result.prior_check
            ],
            "ldp": None if ratio is None else {"ratio": ratio},
            "history": _history(plan, estimator, totals, days),
            "influence": result.influence if math.isfinite(result.influence) else 0.0,
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
                known = _Day(version, tally, estimate(plan, tally, estimator, LEVEL))
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


def rows(plan: Plan, result: Estimate, per_group: Sequence[int], limit: int | None = None) -> list[dict[str, Any]]:
    """The estimates with what the prior alone expects; the largest if there are more than `limit`."""
    expected = prior_totals(plan, [(n, n, 0) for n in per_group])
    made: list[dict[str, Any]] = [
        {
            "name": row_name(plan, row.value),
            "estimate": row.estimate,
            "standard_error": row.standard_error,
            "low": row.low,
            "high": row.high,
            "prior": float(prior),
        }
        for row, prior in zip(result.rows, expected, strict=True)
    ]
    if limit is not None and len(made) > limit:
        made = sorted(made, key=lambda row: -row["estimate"] if math.isfinite(row["estimate"]) else math.inf)[:limit]
    cleaned: list[dict[str, Any]] = json_ready(made)
    return cleaned


def _history(
    plan: Plan, estimator: Estimator, totals: Totals, days: Sequence[tuple[date, Estimate]]
) -> list[dict[str, Any]]:
    """Half the interval per respondent at the end of each day, beside that of LDP."""
    from scipy.special import ndtri

    per_group, history = [0] * len(plan.groups), []
    for day, result in days:
        for k, n in totals[day].items():
            per_group[k] += n
        errors = np.array([row.standard_error for row in result.rows])
        reach = float(ndtri(0.5 + LEVEL / 2)) * math.sqrt(float(np.nanmean(errors**2))) / result.n_reports
        ratio = _ldp_ratio(plan, per_group, estimator)
        ldp_reach = None if ratio is None else ratio * reach
        history.append({"day": day, "n_reports": result.n_reports, "reach": reach, "ldp_reach": ldp_reach})
    return history


def _ldp_ratio(plan: Plan, per_group: Sequence[int], estimator: Estimator) -> float | None:
    """√(Σ n·LDP / Σ n·ours): how much wider the best LDP channel found would have been, expected against expected.

    Told for the estimator that the plan aims at: the yardstick was searched for that one.
    """
    ours = ldp = 0.0
    for group, n in zip(plan.groups, per_group, strict=True):
        if n:
            errors = _errors(group.certificate, estimator)
            if errors is None:
                return None
            scale = n * (float(group.weight) ** 2 if isinstance(plan.task, WeightedSum) else 1.0)
            ours, ldp = ours + scale * errors[0], ldp + scale * errors[1]
    return math.sqrt(ldp / ours) if ours > _NOTHING else None


def _errors(certificate: Certificate | None, estimator: Estimator) -> tuple[float, float] | None:
    """The error of a design and that of LDP. No contract covers a certificate, so it may say anything at all."""
    if certificate is None or certificate.aim != estimator:
        return None
    error, ldp = certificate.aimed, certificate.ldp_aimed
    fit = all(isinstance(each, int | float) and 0 <= each < 1 / _NOTHING for each in (error, ldp))
    return (error, ldp) if fit and ldp is not None else None


def _group_facts(group: Group, n_reports: int, between: bool) -> dict[str, Any]:
    return {
        "group": group.name,
        "n_reports": n_reports,
        "epsilon": float(group.epsilon),
        "notion": group.notion,
        "levels": json_ready(dict(group.levels)),
        "promise": promise(group, between),
    }
