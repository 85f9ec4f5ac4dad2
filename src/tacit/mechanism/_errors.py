"""How far an estimate is off, per respondent: what one report removes, what is left, and that without a prior."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tacit.mechanism.protocol import Mechanism
from tacit.task import Task, prior_variance


def gain(mechanism: Mechanism, task: Task) -> float:
    """Σ_y λ_y |E[g|y] − E g|²: the part of the prior variance that one report removes."""
    return mechanism.gain(task)


def mse(mechanism: Mechanism, task: Task) -> float:
    """The mean squared error that one respondent contributes to the MMSE estimate.

    >>> from tacit import Channel, Prior, Survey
    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> mse(Channel.from_weights(prior, [[3, 1], [1, 3]]), Survey("yes"))
    0.1875
    """
    return max(0.0, prior_variance(mechanism.prior, task) - gain(mechanism, task))


def unbiased_variance(mechanism: Mechanism, task: Task) -> float:
    """The variance per respondent, at the prior, of the best estimate that does not use the prior.

    Solving Qᵀp = report frequencies with weights 1/λ gives the covariance J⁻¹ − ppᵀ per respondent, where
    J = Σ_y λ_y v_y v_yᵀ, so for g the variance is tr(gᵀ J⁻¹ g) − |E g|². It is infinite if g is not determined by
    the reports (J singular in its direction). Values outside the support have no part in it.

    >>> from tacit import Channel, Prior, Survey
    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> round(unbiased_variance(Channel.from_weights(prior, [[3, 1], [1, 3]]), Survey("yes")), 9)
    1.0
    """
    # Where nothing varies, the difference of two floats may fall a hair below zero.
    return max(0.0, mechanism.unbiased_variance(task))


def total_mse(respondents: Iterable[Mechanism], task: Task, weights: Sequence[float] | None = None) -> float:
    """The MSE of the MMSE estimate of the total over independent respondents, each with a mechanism.

    Respondents may differ in prior and in budget; equal ones are computed once. With `weights` a it is the error of
    Σ_i a_i g(X_i), which is Σ_i a_i² times the error of each.

    >>> from tacit import Channel, Prior, Survey
    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> total_mse([Channel.from_weights(prior, [[3, 1], [1, 3]])] * 4, Survey("yes"))
    0.75
    """
    seen: dict[int, float] = {}
    total = 0.0
    # A list, so that the identities used as keys stay alive.
    everybody = list(respondents)
    for mechanism, weight in zip(everybody, weights or [1.0] * len(everybody), strict=True):
        if id(mechanism) not in seen:
            seen[id(mechanism)] = mse(mechanism, task)
        total += weight**2 * seen[id(mechanism)]
    return total
