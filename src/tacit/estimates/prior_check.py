"""The alarm: do the reports contradict the prior that the channel was designed for?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.exact import Floats

#: Report classes with fewer expected reports are pooled, so that the chi-square approximation holds.
MIN_EXPECTED = 5.0
#: How often a survey whose priors are all right is told that they are not; shared out over its groups.
ALARM_LEVEL = 0.01


@dataclass(frozen=True, kw_only=True)
class PriorCheck:
    """Pearson's chi-square of one group's report counts against N·λ. It costs no privacy: it reads reports only."""

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
        if not self.contradicted:
            return f"{name} agree with the prior (p = {self.p_value:.2g})."
        return (
            f"{name} contradict the prior (p = {self.p_value:.1g}): estimates that use it, and their intervals, can be "
            "far off. Prefer the estimator 'unbiased', where the plan allows it."
        )


def check_prior(group: str | None, counts: Floats, marginal: Floats) -> PriorCheck:
    """Compare report counts with their expectation under the prior, N·λ(y).

    >>> check_prior(None, np.array([480.0, 520.0]), np.array([0.5, 0.5])).contradicted
    False
    >>> check_prior(None, np.array([400.0, 600.0]), np.array([0.5, 0.5])).contradicted
    True
    """
    from scipy.special import chdtrc

    expected = counts.sum() * marginal
    rare = expected < MIN_EXPECTED
    observed, wanted = counts[~rare], expected[~rare]
    if expected[rare].sum() >= MIN_EXPECTED:
        observed, wanted = np.append(observed, counts[rare].sum()), np.append(wanted, expected[rare].sum())
    elif len(wanted) and rare.any():
        # Too few for a class of their own: they join the last one.
        observed[-1] += counts[rare].sum()
        wanted[-1] += expected[rare].sum()
    degrees = max(len(wanted) - 1, 0)
    if degrees == 0:
        return PriorCheck(group=group, statistic=0.0, degrees=0, p_value=1.0)
    statistic = float(((observed - wanted) ** 2 / wanted).sum())
    return PriorCheck(group=group, statistic=statistic, degrees=degrees, p_value=float(chdtrc(degrees, statistic)))
