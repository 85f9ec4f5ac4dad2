"""The alarm: do the reports contradict the prior that the channel was designed for?"""

from __future__ import annotations

from dataclasses import dataclass

#: How often a survey whose priors are all right is told that they are not; shared out over its groups.
ALARM_LEVEL = 0.01


@dataclass(frozen=True, kw_only=True)
class PriorCheck:
    """How far one group's reports are from what the prior expects. It costs no privacy: it reads reports only."""

    group: str | None
    statistic: float
    degrees: int
    p_value: float
    alarm_level: float = ALARM_LEVEL

    @property
    def contradicted(self) -> bool:
        return self.p_value < self.alarm_level

    def __str__(self) -> str:
        name = "The reports" if self.group is None else f"The reports of group {self.group!r}"
        if not self.degrees:
            return f"{name} are too few to tell whether the prior is right."
        if not self.contradicted:
            return f"{name} do not contradict the prior (p = {self.p_value:.2g})."
        return (
            f"{name} contradict the prior (p = {self.p_value:.1g}): estimates that use it, and their intervals, can be "
            "far off. Prefer the estimator 'unbiased', where the plan allows it."
        )


def check_prior(group: str | None, statistic: float, degrees: int) -> PriorCheck:
    """From a mechanism's statistic, a chi-square of so many degrees if the prior is true.

    >>> check_prior(None, 1.6, 1).contradicted, check_prior(None, 40.0, 1).contradicted
    (False, True)
    """
    from scipy.special import chdtrc

    p_value = float(chdtrc(degrees, statistic)) if degrees else 1.0
    return PriorCheck(group=group, statistic=statistic, degrees=degrees, p_value=p_value)
