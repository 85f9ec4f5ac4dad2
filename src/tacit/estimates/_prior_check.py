"""The prior check: do the reports contradict the priors that the mechanisms were designed for?

It is valid at any time: looking after every report raises no more false alarms. The p-value is 1/E, where E is the
likelihood of the reports if the prior is off by an unknown amount, relative to that if it is right. If the prior is
right, E has mean 1 at every time and ever exceeds 1/p with probability p at most (Ville). For a chi-square Q with k
degrees from N reports, and a prior that is off by δ² = τ² per report and degree,

    E = (1 + Nτ²)^(−k/2) · exp(Q/2 · Nτ²/(1 + Nτ²)),

averaged over some τ². The likelihood is the normal one, so N must be large enough for a chi-square. A chi-square over
many values hides a change of a single one: there half of the evidence is the mean over single values, each with a
chi-square of one degree. A mean of such E has mean 1 as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.exact import Floats

#: The probability of a false alarm in a survey whose priors are all right: half of it for all groups together, the
#: other half divided among the groups.
ALARM_LEVEL = 0.01
#: The grid of τ²: how far a prior may be off, in squared standard deviations of one report.
_OFF = np.array([1e-5, 1e-4, 1e-3, 1e-2, 1e-1])


@dataclass(frozen=True, kw_only=True)
class PriorCheck:
    """The distance of the reports from the prior. It costs no privacy, because it uses reports only.

    `group` is None where a plan has no groups, and for the check of all groups together (`pooled`). `degrees` is 0
    where there are too few reports.
    """

    group: str | None
    statistic: float
    degrees: int
    p_value: float
    alarm_level: float = ALARM_LEVEL
    pooled: bool = False

    @property
    def contradicted(self) -> bool:
        return self.p_value < self.alarm_level

    @property
    def whose(self) -> str:
        """The reports in question, in words."""
        if self.pooled:
            return "The reports of all groups together"
        return "The reports" if self.group is None else f"The reports of group {self.group!r}"

    def __str__(self) -> str:
        if not self.degrees:
            return f"{self.whose} are too few to tell whether the prior is right."
        verdict = "contradict the prior" if self.contradicted else "do not contradict the prior"
        p_value = "p > 0.5" if self.p_value > 0.5 else f"p = {self.p_value:.2g}"
        if not self.contradicted and self.p_value < 0.1:
            p_value += f", alarm below {self.alarm_level:.2g}"
        return f"{self.whose} {verdict} ({p_value})."


def check_prior(
    group: str | None, statistic: float, degrees: int, n_reports: float, scores: Floats | Sequence[float] = ()
) -> PriorCheck:
    """The check of one group.

    `statistic` is a chi-square of `degrees` from `n_reports` if the prior is true; `scores` are squared standardized
    scores of single values, where the mechanism has some.

    Args:
        group: the group that it is about; None for all groups together.
        statistic: a chi-square statistic.
        degrees: its degrees of freedom.
        n_reports: the number of reports.
        scores: further statistics of one degree each.

    Returns:
        Whether the reports contradict the prior, with a p-value that is valid at any time.

    >>> check_prior(None, 1.6, 1, 1000).contradicted, check_prior(None, 40.0, 1, 1000).contradicted
    (False, True)
    >>> check_prior(None, 16.0, 16, 1000, [1.0] * 999 + [50.0]).contradicted
    True
    """
    p_value = _p_value(_together(statistic, degrees, n_reports, scores)) if degrees else 1.0
    return PriorCheck(group=group, statistic=statistic, degrees=degrees, p_value=p_value)


def check_together(checks: Sequence[PriorCheck], n_reports: float, scores: Floats) -> PriorCheck:
    """The check of all groups at once.

    The sum of their statistics finds priors that are off each in its own way; the squared standardized `scores` of the
    totals find a shift that the groups share.
    """
    told = [check for check in checks if check.degrees]
    statistic, degrees = sum(check.statistic for check in told), sum(check.degrees for check in told)
    p_value = _p_value(_together(statistic, degrees, n_reports, scores)) if degrees else 1.0
    return PriorCheck(
        group=None, statistic=statistic, degrees=degrees, p_value=p_value, alarm_level=ALARM_LEVEL / 2, pooled=True
    )


def _together(statistic: float, degrees: int, n_reports: float, scores: Floats | Sequence[float]) -> float:
    """ln of the mean of E of a statistic and, where there are scores, the mean of theirs."""
    evidence = [_log_evidence(statistic, degrees, n_reports)]
    if len(scores):
        evidence.append(_log_evidence(np.asarray(scores, dtype=np.float64)[:, None], 1, n_reports))
    return _log_mean(evidence)


def _log_evidence(statistic: float | Floats, degrees: int, n_reports: float) -> float:
    """ln E; of a column of statistics, of the mean of their E."""
    off = n_reports * _OFF
    return _log_mean(-degrees / 2 * np.log1p(off) + statistic / 2 * off / (1 + off))


def _log_mean(logs: Floats | Sequence[float]) -> float:
    most = float(np.max(logs))
    return most + math.log(float(np.mean(np.exp(np.asarray(logs) - most))))


def _p_value(log_evidence: float) -> float:
    return math.exp(-max(0.0, log_evidence))
