"""What reports tell somebody who also knows public columns: the promise under the beliefs that these imply.

A plan promises LIP for the belief that its prior states. Who knows somebody's age and region believes something else
before the report comes, so another level holds. Whatever is believed, it is at most the channel's LDP level; between
the least and the greatest belief that a regression finds, it is the level for the worst prior of that box. Both are
decided on the plan's integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tacit.estimates.regression import Regression
from tacit.exact import Floats, Integers
from tacit.plan import Group, Plan
from tacit.prior import Box
from tacit.task import Histogram, Survey

#: Fitted beliefs are rounded outwards to a multiple of this.
_GRAIN = 10**6


@dataclass(frozen=True, kw_only=True)
class CovariateLevels:
    """LIP levels of one group: `prior` under its own prior (None where it has none), `covariates` under every belief
    between the least and the greatest that the public columns imply (None where the fit says too little of it),
    `any_belief` under any at all, which is the LDP level.
    """

    group: str | None
    prior: float | None
    covariates: float | None
    any_belief: float


def covariate_levels(plan: Plan, fit: Regression, places: Integers) -> list[CovariateLevels]:
    """The levels for each group that sent reports; `places` says which group each report of the fit is of."""
    shares = _distributions(plan, fit)
    found = []
    for place, group in enumerate(plan.groups):
        mine = np.flatnonzero(places == place)
        if not len(mine):
            continue
        implied = None if shares is None else _implied_level(group, shares[mine])
        found.append(
            CovariateLevels(
                group=group.name,
                prior=None if group.without_prior else group.levels["lip"],
                covariates=implied,
                any_belief=group.levels["ldp"],
            )
        )
    return found


def _distributions(plan: Plan, fit: Regression) -> Floats | None:
    """The fitted probability of each value of the domain; None where the model does not say."""
    if fit.model == "multinomial" and isinstance(plan.task, Histogram) and fit.fitted.shape[1] == len(plan.values) - 1:
        assert fit.reference is not None
        return np.insert(fit.fitted, plan.values.index(fit.reference), 1 - fit.fitted.sum(axis=1), axis=1)
    if fit.model == "logistic" and isinstance(plan.task, Survey) and len(plan.values) == 2:
        wanted = plan.values.index(plan.task.wanted[0])
        shares = np.empty((len(fit.fitted), 2))
        shares[:, wanted], shares[:, 1 - wanted] = fit.fitted[:, 0], 1 - fit.fitted[:, 0]
        return shares
    return None


def _implied_level(group: Group, shares: Floats) -> float | None:
    """The level for the worst belief between the fitted ones; the prior is let into the box, which needs it."""
    if not all(group.prior.weights):
        return None
    own = [Fraction(weight, group.prior.total) for weight in group.prior.weights]
    least, most = (getattr(shares, end)(axis=0).tolist() for end in ("min", "max"))
    down = [Fraction(max(0, math.floor(share * _GRAIN)), _GRAIN) for share in least]
    up = [Fraction(min(_GRAIN, math.ceil(share * _GRAIN)), _GRAIN) for share in most]
    low, high = (list(map(end, own, ends)) for end, ends in ((min, down), (max, up)))
    return max(side.epsilon for side in group.mechanism.set_levels(Box(group.prior, low, high)))
