"""The alarm: do the reports contradict the priors that the channels were designed for?

It can be looked at after every report without crying wolf more often: the p-value is 1/E, where E, the likelihood of
the reports if the prior is off by an unknown amount relative to that if it is right, has mean 1 at every time if the
prior is right and exceeds 1/p ever with probability p at most (Ville). For a chi-square Q of k degrees from N reports,
and a prior that is off by δ² = τ² per report and degree,

    E = (1 + Nτ²)^(−k/2) · exp(Q/2 · Nτ²/(1 + Nτ²)),

averaged over a few τ². The likelihood is the normal one, so all is said for numbers of reports that a chi-square needs.
Where a chi-square puts many values together, a change of a single one is lost in it: then half of the evidence is the
mean of that of single values, each with a chi-square of one degree. A mean of such E has mean 1 as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.exact import Floats

#: How often a survey whose priors are all right is told that they are not: half of it by what its groups show
#: together, the other half shared out over them.
ALARM_LEVEL = 0.01
#: How far a prior may be off, in squared standard deviations of one report.
_OFF = np.array([1e-5, 1e-4, 1e-3, 1e-2, 1e-1])


@dataclass(frozen=True, kw_only=True)
class PriorCheck:
    """How far reports are from what the prior expects. It costs no privacy: it reads reports only.

    `group` is None where a plan has no groups, and for the check of all groups together (`pooled`). With `degrees` of 0
    there are too few reports to tell.
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
    """From a mechanism's statistic of so many reports, a chi-square of so many degrees if the prior is true, and from
    the squared standardized `scores` of single values, where it has some.

    >>> check_prior(None, 1.6, 1, 1000).contradicted, check_prior(None, 40.0, 1, 1000).contradicted
    (False, True)
    >>> check_prior(None, 16.0, 16, 1000, [1.0] * 999 + [50.0]).contradicted
    True
    """
    p_value = _p_value(_together(statistic, degrees, n_reports, scores)) if degrees else 1.0
    return PriorCheck(group=group, statistic=statistic, degrees=degrees, p_value=p_value)


def check_together(checks: Sequence[PriorCheck], n_reports: float, scores: Floats) -> PriorCheck:
    """All groups at once: by the sum of their statistics, which finds priors that are off each in its own way, and by
    the squared standardized `scores` of the totals, which find a shift that they share.
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
