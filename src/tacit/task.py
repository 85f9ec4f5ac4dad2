"""What the collector wants to know: a function g of one answer, summed over all respondents.

For the MMSE estimator E[g|Y] the error of one respondent is

    MSE = E|g(X) − E g|² − Σ_y λ_y |E[g|y] − E g|²  =  prior variance − gain,

and errors of independent respondents add (the paper's Proposition 2).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tacit.exact import Floats
from tacit.prior import Prior, Value


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

    `rounded` says that answers were rounded at random to the values: what rounding adds is then part of every error.

    >>> Sum().g(Prior.uniform(3)).ravel()
    array([0., 1., 2.])
    """

    rounded: bool = False

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

    def weight(self, respondent: int = 0) -> float:
        """a of one respondent."""
        return _of(self.weights, respondent)

    def g(self, prior: Prior, respondent: int = 0) -> Floats:
        g: Floats = self.weight(respondent) * prior.numbers[:, None] + _of(self.offsets, respondent)
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


def prior_variance(prior: Prior, task: Task, respondent: int = 0) -> float:
    """E|g(X) − E g|²: the error of guessing from the prior alone, with no data.

    >>> round(prior_variance(Prior.of({"yes": 0.1, "no": 0.9}), Survey("yes")), 12)
    0.09
    """
    if isinstance(task, Histogram):
        return float(prior.probabilities @ (1.0 - prior.probabilities))
    return float(prior.probabilities @ (centred(prior, task, respondent) ** 2).sum(axis=1))


def centred(prior: Prior, task: Task, respondent: int = 0) -> Floats:
    """g(x) − E g. The middle of the range is subtracted first: E g of large numbers close together is not exact."""
    g = task.g(prior, respondent)
    g = g - (g.min(axis=0) / 2 + g.max(axis=0) / 2)
    difference: Floats = g - prior.probabilities @ g
    return difference


def _of(number: float | Sequence[float], respondent: int) -> float:
    return float(number) if np.isscalar(number) else float(number[respondent])  # type: ignore[index, arg-type]
