"""Designs with fewer reports: merging reports, and basic solutions."""

from __future__ import annotations

import numpy as np

from tacit.designs.program.gain import Gain
from tacit.designs.program.lifts import Array, LiftSet
from tacit.designs.program.master import Master


def few_reports(prior: Array, lift_set: LiftSet, gain: Gain, lifts: Array, probabilities: Array) -> tuple[Array, Array]:
    """At least as good a design on a subset of the reports, at most one report per value.

    A vertex of {λ ≥ 0 : Σ_y λ_y v_y = 1} has no more positive weights than equations.
    """
    if len(lifts) <= len(prior):
        return lifts, probabilities
    gains = gain(lifts)
    master = Master(prior, *lift_set.limits(prior), max(float(gains.max()), 1e-300))
    master.add(lifts, gains)
    weights, _ = master.solve(60.0)
    return master.lifts[weights > 1e-10], weights[weights > 1e-10]


def merge_reports(lifts: Array, probabilities: Array, gain: Gain, count: int) -> tuple[Array, Array]:
    """Merge reports two at a time, the cheapest pair first, until `count` are left.

    Two reports told as one have the mean lift, feasible because lift sets are convex; the gain lost is
    λ_y λ_z / (λ_y + λ_z) * |Fᵀ(v_y - v_z)|².
    """
    lifts, weights = lifts.copy(), probabilities.copy()
    scale = gain.factor if gain.weights is None else np.diag(np.sqrt(gain.weights))
    place = lifts @ scale
    square = (place**2).sum(axis=1)
    cost = square[:, None] + square - 2 * place @ place.T
    cost *= weights[:, None] * weights / (weights[:, None] + weights)
    np.fill_diagonal(cost, np.inf)
    for _ in range(len(lifts) - count):
        y, z = np.unravel_index(np.argmin(cost), cost.shape)
        total = weights[y] + weights[z]
        lifts[y] = (weights[y] * lifts[y] + weights[z] * lifts[z]) / total
        place[y] = (weights[y] * place[y] + weights[z] * place[z]) / total
        weights[y], weights[z] = total, 0.0
        row = ((place - place[y]) ** 2).sum(axis=1) * weights * total / (weights + total)
        row[(weights == 0) | (np.arange(len(weights)) == y)] = np.inf
        cost[y], cost[:, y] = row, row
        cost[z], cost[:, z] = np.inf, np.inf
    return lifts[weights > 0], weights[weights > 0]
