"""How little a trusted server of many people with different priors could err: a certified bound.

For any numbers w(s), a report π with variance V(π) = min_t Σ_s π(s)(s−t)² has V(π) ≥ w·π + F with

    F = min_t F(t),   F(t) = min_π Σ_s π(s) [(s−t)² − w(s)]   over all π that keep the bounds,

so no mechanism has an error below Σ_s Pr(S=s) w(s) + F. Leaving out bounds only lowers F, so only those of a few people
are used: the two with the most extreme priors and those that stop the pools. F(t) − t² is concave in t: between two
values of t it is above its chord, and each end is bounded by the multipliers of a small linear program, whatever their
quality.

The w that fits two pools: in the low pool, with mean m, last outcome k and person i whose lower bound stops it,
w(s) = (s−m)² − θ(a_i(s) − l_i) with w(k) = 0; the same in the high pool; 0 between them. Then Σ Pr(S=s) w(s) is the
error of the two pools, so they are within −F of the best.

A second bound serves where the pools meet: E[S|Y] lies between the least and the largest mean L, U that the bounds
allow, so its variance is at most (U − E S)(E S − L).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from tacit.evaluation.central import Mechanism, bounds
from tacit.exact import Floats

#: An error below this share of the variance of S needs no better bound than zero.
NEGLIGIBLE = 1e-6


def lower_bound(mechanism: Mechanism, epsilon: float) -> float:
    """No mechanism that sees S and keeps everybody's bounds has an MSE below this."""
    people = mechanism.people
    if mechanism.moments.variance < NEGLIGIBLE * people.variance:
        return 0.0
    # The mechanism was built with a margin; what it is compared with was not.
    pricing = _Pricing.of(mechanism, epsilon + 2e-9)
    mean = people.mean - pricing.centre
    spread = people.variance - (pricing.grid[-1] - mean) * (mean - pricing.grid[0])
    if not (mechanism.alone > 0).any():
        return float(max(0.0, spread))
    w = pricing.pool_weights(mechanism)
    pooled = mechanism.reports.sum(axis=0) > 0
    short = pricing.floor(w)
    # Any w serves: taking what is missing from the pooled outcomes alone costs less than from all.
    lowered = [w + share * short * pooled for share in (0.5, 1.0, 1.5)]
    return float(max(0.0, spread, people.mass @ w + short, *(people.mass @ v + pricing.floor(v) for v in lowered)))


@dataclass(frozen=True)
class _Pricing:
    """Bounds B π ≥ b of a few people, outcomes around a centre, and the values of t to look at."""

    centre: int
    outcomes: Floats
    rows: Floats
    least: Floats
    grid: Floats

    @classmethod
    def of(cls, mechanism: Mechanism, epsilon: float) -> _Pricing:
        people = mechanism.people
        low, high = bounds(people.p, epsilon)
        posteriors = mechanism.reports / mechanism.reports.sum(axis=1)[:, None]
        beliefs = people.beliefs @ posteriors.T
        stop = int(np.argmin(beliefs[:, 0] / low)), int(np.argmin((1 - beliefs[:, -1]) / (1 - high)))
        tight = int(np.argmin((1 - low) / (1 - beliefs[:, 0]))), int(np.argmin(high / beliefs[:, -1]))
        chosen = sorted({0, len(people.p) - 1, *stop, *tight})
        rows = np.concatenate([people.beliefs[chosen], -people.beliefs[chosen]])
        least = np.concatenate([low[chosen], -high[chosen]])
        centre = round(people.mean)
        bare = cls(centre, people.outcomes - centre, rows, least, np.zeros(0))
        first, last = (sign * bare.solve(sign * bare.outcomes) for sign in (1.0, -1.0))
        grid = np.unique(np.concatenate([[first, last], np.arange(np.ceil(first), last)]))
        return cls(centre, bare.outcomes, rows, least, grid)

    def solve(self, cost: Floats) -> float:
        """The cost of the cheapest report, from below: it holds for any multipliers θ ≥ 0."""
        ones = np.ones((1, len(cost)))
        solved = linprog(
            cost,
            A_ub=-self.rows,
            b_ub=-self.least,
            A_eq=ones,
            b_eq=[1.0],
            method="highs",
            options={"time_limit": 120.0},
        )
        if solved.status != 0:
            raise ArithmeticError(f"pricing a report of the trusted server failed: {solved.message}")
        theta = np.maximum(0.0, -solved.ineqlin.marginals)
        return float((cost - theta @ self.rows).min() + theta @ self.least)

    def pool_weights(self, mechanism: Mechanism) -> Floats:
        """w for the two pools."""
        w = np.zeros(len(self.outcomes))
        for report, last in ((mechanism.reports[0], -1), (mechanism.reports[-1], 0)):
            pooled = np.flatnonzero(report)
            mean = float(report @ self.outcomes / report.sum())
            slack = self.rows @ (report / report.sum()) - self.least
            # The bound that stops the pool: no room left, and more of it at the pool's last outcome.
            at_end = self.rows[:, pooled[last]] - self.least
            stops = int(np.argmin(np.where(at_end > 0, slack / at_end, np.inf)))
            theta = (self.outcomes[pooled[last]] - mean) ** 2 / at_end[stops]
            w[pooled] = ((self.outcomes - mean) ** 2 - theta * (self.rows[stops] - self.least[stops]))[pooled]
        return w

    def floor(self, w: Floats) -> float:
        """F from below."""
        known: dict[float, float] = {}

        def concave(t: float) -> float:
            if t not in known:
                known[t] = self.solve(self.outcomes**2 - 2 * t * self.outcomes - w)
            return known[t]

        lowest, waiting = 0.0, list(zip(self.grid[:-1].tolist(), self.grid[1:].tolist(), strict=True))
        while waiting:
            left, right = waiting.pop()
            slope = (concave(right) - concave(left)) / (right - left)
            at = min(max(-slope / 2, left), right)
            chord = at**2 + concave(left) + slope * (at - left)
            ends = min(left**2 + concave(left), right**2 + concave(right))
            # Where the chord, and not a report, is what makes it low, look closer.
            if chord < min(ends, lowest) - 1e-5 and right - left > 1e-3:
                waiting += [(left, (left + right) / 2), ((left + right) / 2, right)]
            else:
                lowest = min(lowest, chord)
        return lowest
