"""Pseudo-values: one row of numbers for each report, whose mean given the answer is the answer's own g.

r = gᵀJ⁻¹v_y has E[r | X = x] = g(x): 1 or 0 for “is it yes”, the number for a sum. Any software may average, weight,
cross-tabulate and regress such rows; their spread includes the randomization. A single one tells no more than its
report and may lie far below 0 or above 1.

**A fit changes beliefs.** A plan promises LIP for the belief that its prior states; an attacker who knows a person's
age and region has another belief before the report comes, so another level holds (`covariate_levels`). It is at most
the channel's LDP level; between the least and the greatest belief of a fit, it is the level for the worst prior of that
box. Both are decided on the plan's integers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tacit.estimates._cells import read_task
from tacit.estimates._regression import Regression
from tacit.exact import Floats, Integers
from tacit.plan import Group, Plan
from tacit.prior import Box, Value

#: Longer names are cut: Stata takes 32 letters.
_LONGEST = 24
#: Fitted beliefs are rounded outwards to a multiple of 1 over this.
_GRAIN = 10**6


def pseudo_values(plan: Plan, reports: Any, groups: Any = None, values: Sequence[Value] | None = None) -> Floats:
    """The pseudo-values: a row for each of the `reports`, a column for each row of the estimate of the `plan`.

    `groups` are the names of the reports' groups, or their positions in the plan; needed where the plan names groups.
    `values` chooses some columns of a histogram, which is much faster where it has thousands. Every report must be one
    that its group can send. NaN where a value is outside the support of a group.

    >>> from tacit import Prior, Survey, make_plan
    >>> plan = make_plan(Prior.of({"yes": 0.5, "no": 0.5}), Survey("yes"), epsilon=1)
    >>> pseudo_values(plan, [0, 1]).round(2).ravel().tolist()
    [-0.29, 1.29]
    """
    sent = np.asarray(reports, dtype=np.int64)
    places = _places(plan, groups, len(sent))
    columns = None if values is None else positions_of(plan, values)
    rows = np.full((len(sent), len(plan.row_values if columns is None else columns)), np.nan)
    task = read_task(plan)
    for place, group in enumerate(plan.groups):
        mine = np.flatnonzero(places == place)
        if not len(mine):
            continue
        if not group.mechanism.can_send_many(sent[mine]).all():
            raise ValueError("There is a report that its group cannot have sent.")
        found = group.mechanism.pseudo_values(task, sent[mine], columns)
        rows[mine] = float(group.weight) * found + float(group.offset)
    return rows


def positions_of(plan: Plan, values: Sequence[Value]) -> list[int]:
    """The positions, from 0, of some `values` of a histogram in its `plan`.

    >>> from tacit import make_plan
    >>> positions_of(make_plan({"yes": 0.2, "no": 0.8}, "histogram", epsilon=1), ["no"])
    [1]
    """
    if not plan.task.per_value:
        raise ValueError("Values are chosen of a histogram only: this plan asks for something else.")
    known = {value: place for place, value in enumerate(plan.values)}
    unknown = [value for value in values if value not in known]
    if unknown or len(set(values)) < len(values) or not values:
        named = f"{unknown[0]!r} is none of them" if unknown else "one is named twice, or none is"
        raise ValueError(f"The 'values' must be some of the plan's {len(known):,} answers, each once: {named}.")
    return [known[value] for value in values]


def pseudo_names(plan: Plan) -> list[str]:
    """Names of a `plan`'s columns of pseudo-values that R, Stata and formulas take: `pseudo`, or `pseudo_yes` and so on
    for a histogram.

    >>> from tacit import Histogram, Prior, make_plan
    >>> pseudo_names(make_plan(Prior.of({"a b": 0.3, "a-b": 0.7}), Histogram(), epsilon=1))
    ['pseudo_a_b', 'pseudo_a_b_2']
    """
    values = plan.row_values
    if len(values) == 1:
        return ["pseudo"]
    names: list[str] = []
    taken: set[str] = set()
    for value in values:
        stem = name = "pseudo_" + re.sub(r"[^0-9A-Za-z]+", "_", str(value))[:_LONGEST].strip("_").lower()
        number = 1
        while name in taken:
            number += 1
            name = f"{stem}_{number}"
        taken.add(name)
        names.append(name)
    return names


def _places(plan: Plan, groups: Any, size: int) -> Any:
    """Each report's group, as a position."""
    if groups is None:
        if plan.groups[0].name is not None:
            raise ValueError("Groups must be given where the plan names groups.")
        return np.zeros(size, dtype=np.int64)
    array = np.asarray(groups)
    if array.shape != (size,):
        raise ValueError(f"There must be one group for each report. Got {array.size} for {size}.")
    if np.issubdtype(array.dtype, np.integer):
        return array
    known = {group.name: place for place, group in enumerate(plan.groups)}
    if not set(array.tolist()) <= set(known):
        raise ValueError("There is a group that the plan does not have.")
    return np.array([known[name] for name in array.tolist()], dtype=np.int64)


# -- what a fit does to the promise -----------------------------------------------------------------------------------


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
    """For each group of a `plan` that sent reports the LIP level under its prior, under the beliefs that the covariates
    of a `fit` imply, and under any; `places` says which group each report of the fit is of.
    """
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
    if fit.model == "multinomial" and plan.task.per_value and fit.fitted.shape[1] == len(plan.values) - 1:
        assert fit.reference is not None
        return np.insert(fit.fitted, plan.values.index(fit.reference), 1 - fit.fitted.sum(axis=1), axis=1)
    if fit.model == "logistic" and plan.task.wanted and len(plan.values) == 2:
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
