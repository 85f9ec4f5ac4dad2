"""How far an estimate is off, per respondent: what one report removes, what is left, and that without a prior."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tacit.mechanism.protocol import Mechanism
from tacit.prior import Prior
from tacit.task import Task, prior_variance

#: Steps of a loop that take some milliseconds.
_QUICK_WORK = 2**20


def gain(mechanism: Mechanism, prior: Prior, task: Task) -> float:
    """Σ_y λ_y |E[g|y] − E g|²: the part of the prior variance that one report removes."""
    return mechanism.gain(prior, task)


def mse(mechanism: Mechanism, prior: Prior, task: Task) -> float:
    """The mean squared error that one respondent contributes to the MMSE estimate.

    >>> from tacit import Channel, Survey
    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> mse(Channel.from_weights(prior, [[3, 1], [1, 3]]), prior, Survey("yes"))
    0.1875
    """
    return max(0.0, prior_variance(prior, task) - gain(mechanism, prior, task))


def unbiased_variance(mechanism: Mechanism, prior: Prior, task: Task) -> float:
    """The variance per respondent, at the prior, of the best estimate that does not use the prior.

    Solving Qᵀp = report frequencies with weights 1/λ gives the covariance J⁻¹ − ppᵀ per respondent, where
    J = Σ_y λ_y v_y v_yᵀ, so for g the variance is tr(gᵀ J⁻¹ g) − |E g|². It is infinite if g is not determined by
    the reports (J singular in its direction). Values outside the support have no part in it.

    >>> from tacit import Channel, Survey
    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> round(unbiased_variance(Channel.from_weights(prior, [[3, 1], [1, 3]]), prior, Survey("yes")), 9)
    1.0
    """
    # Where nothing varies, the difference of two floats may fall a hair below zero.
    return max(0.0, mechanism.unbiased_variance(prior, task))


def total_mse(
    respondents: Iterable[tuple[Mechanism, Prior]], task: Task, weights: Sequence[float] | None = None
) -> float:
    """The MSE of the MMSE estimate of the total over independent respondents, each with a mechanism and a prior.

    Respondents may differ in prior and in budget; equal pairs are computed once. With `weights` a it is the error of
    Σ_i a_i g(X_i), which is Σ_i a_i² times the error of each.

    >>> from tacit import Channel, Survey
    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> total_mse([(Channel.from_weights(prior, [[3, 1], [1, 3]]), prior)] * 4, Survey("yes"))
    0.75
    """
    seen: dict[tuple[int, int], float] = {}
    total = 0.0
    # A list, so that the identities used as keys stay alive.
    everybody = list(respondents)
    for (mechanism, prior), weight in zip(everybody, weights or [1.0] * len(everybody), strict=True):
        key = (id(mechanism), id(prior))
        if key not in seen:
            seen[key] = mse(mechanism, prior, task)
        total += weight**2 * seen[key]
    return total


def takes_long(mechanism: Mechanism) -> bool:
    """Whether these errors are not found at once: then plans are read as they are stated, and audits look again."""
    return getattr(mechanism, "work", 0) > _QUICK_WORK
