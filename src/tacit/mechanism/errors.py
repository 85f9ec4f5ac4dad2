"""How far an estimate is off, per respondent: what one report removes, what is left, and that without a prior."""

from __future__ import annotations

from collections.abc import Iterable

from tacit.mechanism.protocol import Mechanism
from tacit.prior import Prior
from tacit.task import Matrix, Task, WeightedSum, prior_variance

#: Steps of a loop that take some milliseconds.
_QUICK_WORK = 2**20


def gain(mechanism: Mechanism, prior: Prior, task: Task, respondent: int = 0) -> float:
    """Σ_y λ_y |E[g|y] − E g|²: the part of the prior variance that one report removes."""
    return mechanism.gain(prior, _of_respondent(prior, task, respondent))


def mse(mechanism: Mechanism, prior: Prior, task: Task, respondent: int = 0) -> float:
    """The mean squared error that one respondent contributes to the MMSE estimate.

    >>> from tacit import Channel, Survey
    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> mse(Channel.from_weights(prior, [[3, 1], [1, 3]]), prior, Survey("yes"))
    0.1875
    """
    return max(0.0, prior_variance(prior, task, respondent) - gain(mechanism, prior, task, respondent))


def unbiased_variance(mechanism: Mechanism, prior: Prior, task: Task, respondent: int = 0) -> float:
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
    return max(0.0, mechanism.unbiased_variance(prior, _of_respondent(prior, task, respondent)))


def total_mse(respondents: Iterable[tuple[Mechanism, Prior]], task: Task) -> float:
    """The MSE of the MMSE estimate of the total over independent respondents, each with a mechanism and a prior.

    Respondents may differ in prior and in budget; equal pairs are computed once for each weight.

    >>> from tacit import Channel, Survey
    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> total_mse([(Channel.from_weights(prior, [[3, 1], [1, 3]]), prior)] * 4, Survey("yes"))
    0.75
    """
    seen: dict[tuple[int, int, float], float] = {}
    total = 0.0
    # A list, so that the identities used as keys stay alive.
    for position, (mechanism, prior) in enumerate(list(respondents)):
        weight = task.weight(position) if isinstance(task, WeightedSum) else 1.0
        key = (id(mechanism), id(prior), weight)
        if key not in seen:
            seen[key] = mse(mechanism, prior, task, position)
        total += seen[key]
    return total


def _of_respondent(prior: Prior, task: Task, respondent: int) -> Task:
    """The task as one respondent has it, where respondents differ."""
    return Matrix(task.g(prior, respondent).tolist()) if isinstance(task, WeightedSum) else task


def takes_long(mechanism: Mechanism) -> bool:
    """Whether these errors are not found at once: then plans are read as they are stated, and audits look again."""
    return getattr(mechanism, "work", 0) > _QUICK_WORK
