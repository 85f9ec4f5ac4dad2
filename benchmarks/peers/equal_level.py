"""The best LDP mechanism known, at any level: LIP rows are compared with it at ε, and at the LDP level they reach."""

from __future__ import annotations

from functools import cache

from peers.measure import PEOPLE
from studies.worth import best_ldp_variance, subset_variance
from tacit import Histogram, Prior
from tacit.designs._design import FEW_VALUES


@cache
def best_ldp_error(truth: Prior, epsilon: float) -> float:
    """The mean squared error of a share, about those who take part, of the best ε-LDP mechanism known: the optimum for
    up to 12 values, else subset selection.

    Both formulas are about a population from which people are drawn, which adds 1 − Σ P² in total; that is left out.
    """
    few = len(truth) <= FEW_VALUES
    total = best_ldp_variance(truth, Histogram(), epsilon) if few else subset_variance(truth, epsilon)
    drawn = 1 - float((truth.probabilities**2).sum())
    return (total - drawn) / len(truth) / PEOPLE
