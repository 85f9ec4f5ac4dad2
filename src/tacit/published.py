"""The paper's published form, and the error of LIP, LDP and that form by budget.

`theorem3` is the channel of Theorems 2, 3 and 5, kept for study: it breaks its own definition for rare values.
`compare` sets its error, and the level that it really reaches, beside the best LIP and LDP channels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from tacit.designs import GroupPrior
from tacit.designs.planning import ldp_comparison, uninterrupted_design
from tacit.exact import Number, budget, exp_below
from tacit.mechanism import Channel, Mechanism, PrivacyError, audit, mse, round_channel, unbiased_variance
from tacit.plan import Aim
from tacit.prior import Prior
from tacit.task import Task

#: The published channel is a table of d × d integers, computed for comparison up to this many values.
PUBLISHED_LIMIT = 300

__all__ = ["Comparison", "compare", "theorem3"]


def theorem3(prior: Prior, epsilon: Number, *, force: bool = False) -> Channel:
    """The published randomized response q_mm = 1 − (1−P_m)/E, q_mk = P_k/E, with P the `prior`, E = e^ε, ε = `epsilon`.

    It tells the truth with probability 1 − 1/E and otherwise draws from the prior. Its upper lift
    1/E + (1−1/E)/P_m exceeds E whenever P_m < 1/(E+1), so it is ε-LIP, and then optimal, only if
    min P ≥ 1/(E+1). Elsewhere this raises `PrivacyError` with the level it really reaches, or, with `force`,
    returns the channel for study. Forced, zero-prior values keep the published rows, which expose their holders.

    >>> theorem3(Prior.of({"yes": 0.1, "no": 0.9}), epsilon=1)
    Traceback (most recent call last):
    tacit.mechanism.rounding.PrivacyError: Theorem 3 is not 1-LIP here: its level is 1.9005, because the prior ...
    """
    exact = budget(epsilon)
    bound = exp_below(exact)
    reached = Channel.from_weights(prior, _rows(prior, bound))
    if force:
        return reached
    rarest = min(prior.support, key=lambda x: prior.weights[x])
    if Fraction(prior.weights[rarest], prior.total) * (bound + 1) < 1:
        level = audit(reached).lip.epsilon
        raise PrivacyError(
            f"Theorem 3 is not {float(exact):g}-LIP here: its level is {level:.5g}, because the prior of "
            f"{prior.values[rarest]!r} is below 1/(e^ε+1) = {float(1 / (bound + 1)):.4g}. "
            "Use the optimal design instead, or force=True to study it."
        )
    return round_channel(prior, _rows(prior.on_support(), bound), exact)


def _rows(prior: Prior, bound: Fraction) -> list[list[int]]:
    """q over the denominator total·numerator(E)."""
    a, b = bound.numerator, bound.denominator
    rows = [[weight * b for weight in prior.weights] for _ in prior.values]
    for x in range(len(prior)):
        rows[x][x] += prior.total * (a - b)
    return rows


Measure = Callable[[Mechanism, Task], float]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Errors per respondent at one budget, over the groups by their shares; None where skipped, ∞ where there is none.

    They are standard errors of estimates that do not use the prior (aim "unbiased"), or root mean squared errors of
    those that do, if it is right (aim "mmse"). `no_data` is the spread of the answers under the prior.
    """

    epsilon: float
    no_data: float
    lip: float
    lip_bound: float
    ldp: float | None
    published: float | None
    published_level: float | None

    @property
    def published_breaks(self) -> bool:
        """Whether the published channel reaches more than ε."""
        return self.published_level is not None and self.published_level > self.epsilon * (1 + 1e-9)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def compare(
    priors: Sequence[GroupPrior],
    task: Task,
    epsilons: Sequence[Number],
    progress: Callable[[int, int | None], None] | None = None,
    *,
    aim: Aim = "unbiased",
) -> list[Comparison]:
    """One row for each budget of `epsilons`, ascending, for the groups in `priors`; `task` and `aim` as of `design`.

    `progress` is called with budgets done and budgets in all.

    >>> from tacit import Survey
    >>> groups = [GroupPrior(name=None, prior=Prior.of({"yes": 0.1, "no": 0.9}))]
    >>> [row] = compare(groups, Survey("yes"), [1])
    >>> row.lip < row.ldp, row.published_breaks
    (True, True)
    """
    budgets = sorted({budget(epsilon) for epsilon in epsilons})
    if not budgets:
        raise ValueError("A comparison needs at least one budget. Got none.")
    rows = []
    for epsilon in budgets:
        rows.append(_compare(priors, task, epsilon, aim))
        if progress is not None:
            progress(len(rows), len(budgets))
    return rows


def _compare(priors: Sequence[GroupPrior], task: Task, epsilon: Fraction, aim: Aim) -> Comparison:
    measure: Measure = mse if aim == "mmse" else unbiased_variance
    sums = dict.fromkeys(("no_data", "lip", "lip_bound", "ldp", "published"), 0.0)
    level = 0.0
    for each in priors:
        share = float(each.share)
        found = uninterrupted_design(each.prior, task, epsilon, aim=aim).certificate
        ldp = ldp_comparison(each.prior, task, epsilon, aim)
        sums["no_data"] += share * found.prior_variance
        sums["lip"] += share * found.aimed
        sums["lip_bound"] += share * found.lower_bound
        sums["ldp"] += math.nan if ldp is None else share * ldp.certificate.aimed
        if len(each.prior) <= PUBLISHED_LIMIT:
            channel = theorem3(each.prior, epsilon, force=True)
            sums["published"] += share * measure(channel, task)
            level = max(level, audit(channel).lip.epsilon)
        else:
            sums["published"] = math.nan
    roots = {name: None if math.isnan(value) else math.sqrt(value) for name, value in sums.items()}
    known = roots["published"] is not None
    return Comparison(
        epsilon=float(epsilon),
        no_data=math.sqrt(sums["no_data"]),
        lip=math.sqrt(sums["lip"]),
        lip_bound=math.sqrt(sums["lip_bound"]),
        ldp=roots["ldp"],
        published=roots["published"],
        published_level=level if known else None,
    )
