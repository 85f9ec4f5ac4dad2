"""What the collector wants to know: a function g of one answer, summed over all respondents.

For the MMSE estimator E[g|Y] the error of one respondent is

    MSE = E|g(X) − E g|² − Σ_y λ_y |E[g|y] − E g|²  =  prior variance − gain,

and errors of independent respondents add (the paper's Proposition 2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tacit.mechanism.table import Channel
from tacit.prior import Floats, Prior, Value


class Task(Protocol):
    """A total to estimate. Everything a designer or an estimator needs of it is g."""

    def g(self, prior: Prior, respondent: int = 0) -> Floats:
        """g(x) for every value x, as an array of shape (values, components)."""
        ...


@dataclass(frozen=True)
class Survey:
    """How many respondents hold `value`, or any value of a set: g(x) = 1{x = value} or 1{x ∈ set}.

    >>> Survey("yes").g(Prior.of({"yes": 1, "no": 9})).ravel()
    array([1., 0.])
    """

    value: Value | Collection[Value]

    @property
    def wanted(self) -> tuple[Value, ...]:
        """The values that count."""
        return (self.value,) if isinstance(self.value, str | int | float) else tuple(self.value)

    def g(self, prior: Prior, respondent: int = 0) -> Floats:
        indicator = np.zeros((len(prior), 1))
        for value in self.wanted:
            indicator[prior.position(value)] = 1.0
        return indicator


@dataclass(frozen=True)
class Sum:
    """The sum of all answers: g(x) = x.

    >>> Sum().g(Prior.uniform(3)).ravel()
    array([0., 1., 2.])
    """

    def g(self, prior: Prior, respondent: int = 0) -> Floats:
        return prior.numbers[:, None]


@dataclass(frozen=True)
class WeightedSum:
    """Σ_i a_i X_i + b_i with a weight and an offset per respondent (or one for all): g_i(x) = a_i·x + b_i.

    >>> WeightedSum([2, 5], [1, 0]).g(Prior.uniform(3), respondent=1).ravel()
    array([ 0.,  5., 10.])
    """

    weights: float | Sequence[float] = 1.0
    offsets: float | Sequence[float] = 0.0

    def g(self, prior: Prior, respondent: int = 0) -> Floats:
        weight, offset = (_of(sequence, respondent) for sequence in (self.weights, self.offsets))
        g: Floats = weight * prior.numbers[:, None] + offset
        return g


@dataclass(frozen=True)
class Histogram:
    """How many respondents hold each value: g(x) is the unit vector of x.

    >>> Histogram().g(Prior.uniform(2))
    array([[1., 0.],
           [0., 1.]])
    """

    def g(self, prior: Prior, respondent: int = 0) -> Floats:
        return np.eye(len(prior))


@dataclass(frozen=True, eq=False)
class Matrix:
    """Any g, as a matrix with a row for each value and a column for each component.

    >>> Matrix([[1, 0], [0, 2]]).g(Prior.uniform(2))
    array([[1., 0.],
           [0., 2.]])
    """

    rows: Sequence[Sequence[float]]

    def g(self, prior: Prior, respondent: int = 0) -> Floats:
        g = np.array(self.rows, dtype=np.float64)
        if g.ndim != 2 or len(g) != len(prior) or not np.isfinite(g).all():
            raise ValueError(f"The matrix needs a row of finite numbers for each of the {len(prior)} values.")
        return g


def prior_variance(task: Task, prior: Prior, respondent: int = 0) -> float:
    """E|g(X) − E g|²: the error of guessing from the prior alone, with no data.

    >>> round(prior_variance(Survey("yes"), Prior.of({"yes": 0.1, "no": 0.9})), 12)
    0.09
    """
    return float(prior.probabilities @ (_centred(task, prior, respondent) ** 2).sum(axis=1))


def gain(task: Task, channel: Channel, prior: Prior, respondent: int = 0) -> float:
    """Σ_y λ_y |E[g|y] − E g|²: the part of the prior variance that one report removes."""
    shift = (channel.lifts(prior) - 1.0) * prior.probabilities
    means = shift @ _centred(task, prior, respondent)
    return float(channel.marginal(prior) @ (means**2).sum(axis=1))


def mse(task: Task, channel: Channel, prior: Prior, respondent: int = 0) -> float:
    """The mean squared error that one respondent contributes to the MMSE estimate.

    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> mse(Survey("yes"), Channel.from_weights(prior, [[3, 1], [1, 3]]), prior)
    0.1875
    """
    return max(0.0, prior_variance(task, prior, respondent) - gain(task, channel, prior, respondent))


def unbiased_variance(task: Task, channel: Channel, prior: Prior, respondent: int = 0) -> float:
    """The variance per respondent, at the prior, of the best estimate that does not use the prior.

    Solving Qᵀp = report frequencies with weights 1/λ gives the covariance J⁻¹ − ppᵀ per respondent, where
    J = Σ_y λ_y v_y v_yᵀ, so for g the variance is tr(gᵀ J⁻¹ g) − |E g|². It is infinite if g is not determined by
    the reports (J singular in its direction). Values outside the support have no part in it.

    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> round(unbiased_variance(Survey("yes"), Channel.from_weights(prior, [[3, 1], [1, 3]]), prior), 9)
    1.0
    """
    inside = list(prior.support)
    lifts, share = channel.lifts(prior)[:, inside], channel.marginal(prior)
    g = task.g(prior, respondent)[inside]
    information = lifts.T @ (share[:, None] * lifts)
    eigenvalues, vectors = np.linalg.eigh(information)
    seen = eigenvalues > 1e-10 * eigenvalues[-1]
    loadings = vectors.T @ g
    if (np.abs(loadings[~seen]) > 1e-7 * np.abs(g).max()).any():
        return float("inf")
    mean = prior.probabilities[inside] @ g
    return float((loadings[seen] ** 2 / eigenvalues[seen, None]).sum() - mean @ mean)


def total_mse(task: Task, respondents: Iterable[tuple[Channel, Prior]]) -> float:
    """The MSE of the MMSE estimate of the total over independent respondents, each with a channel and a prior.

    Respondents may differ in prior and in budget; equal pairs are computed once for each weight.

    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> total_mse(Survey("yes"), [(Channel.from_weights(prior, [[3, 1], [1, 3]]), prior)] * 4)
    0.75
    """
    seen: dict[tuple[int, int, float], float] = {}
    total = 0.0
    # A list, so that the identities used as keys stay alive.
    for position, (channel, prior) in enumerate(list(respondents)):
        weight = _of(task.weights, position) if isinstance(task, WeightedSum) else 1.0
        key = (id(channel), id(prior), weight)
        if key not in seen:
            seen[key] = mse(task, channel, prior, position)
        total += seen[key]
    return total


def _centred(task: Task, prior: Prior, respondent: int) -> Floats:
    g = task.g(prior, respondent)
    centred: Floats = g - prior.probabilities @ g
    return centred


def _of(number: float | Sequence[float], respondent: int) -> float:
    return float(number) if np.isscalar(number) else float(number[respondent])  # type: ignore[index, arg-type]
