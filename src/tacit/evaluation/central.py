"""Centralized information privacy (CIP) for people with different priors: what a trusted server could reach.

Person i holds a one with probability p_i. A trusted server knows S = Σ X_i, which is Poisson-binomial, and publishes a
report Y of S such that no belief about one person moves by more than e^ε:

    l_i ≤ Pr(X_i = 1 | Y) = E[a_i(S) | Y] ≤ u_i,   a_i(s) = Pr(X_i = 1 | S = s),
    l_i = max(p_i/E, 1 − E(1−p_i)),   u_i = min(E·p_i, 1 − (1−p_i)/E),   E = e^ε.

The error is E Var(S | Y). A report is a distribution π of S inside these bounds, and the reports mix to the
distribution of S, so the best mechanism is a linear program over the vertices of the bounds: solved exactly for few
people (`best_vertices`). For many, the lowest outcomes are pooled until everybody's bounds hold, and the highest, and
all others are published as they are (`two_pools`): a valid mechanism, and `central_bound.py` says how far from the
best it can be. Bounds are drawn in by MARGIN before anything is built, far more than the rounding of the floats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tacit.evaluation.simulate import Moments
from tacit.exact import Floats

#: Budgets are reduced by this before a mechanism is built, so that rounding cannot break the promise.
MARGIN = 1e-9
#: Outcomes of S less likely than this are not told apart.
TINY = 1e-200


@dataclass(frozen=True)
class People:
    """Groups of people with equal priors: probabilities, head counts, the law of S, and a_g(s) for each group.

    Outcomes less likely than TINY are left out: whatever is published for them has no weight in the error, and they
    join the pool at their end.
    """

    p: Floats
    heads: Floats
    outcomes: Floats
    mass: Floats
    beliefs: Floats

    @property
    def n(self) -> int:
        return int(self.heads.sum())

    @property
    def mean(self) -> float:
        return float(self.p @ self.heads)

    @property
    def variance(self) -> float:
        return float((self.p * (1 - self.p)) @ self.heads)


@dataclass(frozen=True)
class Mechanism:
    """Pr(Y = y, S = s): reports[y, s] for those that pool outcomes, alone[s] for outcomes published as they are."""

    people: People
    reports: Floats
    alone: Floats

    @property
    def estimates(self) -> Floats:
        """E[S | Y] for the pooling reports."""
        weights = self.reports.sum(axis=1)
        means: Floats = self.reports @ self.people.outcomes / weights
        return means

    @property
    def moments(self) -> Moments:
        """MSE, and the fourth cumulant of the error."""
        errors = self.people.outcomes - self.estimates[:, None]
        second = float((self.reports * errors**2).sum())
        return Moments(second, float((self.reports * errors**4).sum()) - 3 * second**2)

    @property
    def level(self) -> float:
        """The largest |ln| lift of anybody's one or zero, over all reports."""
        posteriors = self.reports / self.reports.sum(axis=1)[:, None]
        published = self.people.beliefs[:, self.alone > 0]
        after = np.concatenate([self.people.beliefs @ posteriors.T, published], axis=1)
        p = self.people.p[:, None]
        with np.errstate(divide="ignore"):
            return float(max(np.abs(np.log(after / p)).max(), np.abs(np.log((1 - after) / (1 - p))).max()))

    def squares(self, sums: Floats, rng: np.random.Generator) -> Floats:
        """Squared errors for simulated sums."""
        known, counts = np.unique(sums.astype(np.int64), return_counts=True)
        squares = []
        for s, count in zip(known.tolist(), counts.tolist(), strict=True):
            at = s - int(self.people.outcomes[0])
            chances = np.append(self.reports[:, at], self.alone[at])
            errors = np.append(s - self.estimates, 0.0)
            squares.append(np.repeat(errors**2, rng.multinomial(count, chances / chances.sum())))
        return np.concatenate(squares)


def gather(p: Floats, heads: Floats) -> People:
    """The law of S by convolving the groups' binomials, and everybody's belief at each outcome.

    All terms are positive, so every probability has full relative accuracy (down to underflow).

    >>> gather(np.array([0.5, 0.25]), np.array([1, 1])).mass
    array([0.375, 0.5  , 0.125])
    """
    from scipy.stats import binom  # slow to import

    mass = np.ones(1)
    for chance, count in zip(p.tolist(), heads.tolist(), strict=True):
        mass = np.convolve(mass, binom.pmf(np.arange(int(count) + 1), int(count), chance))
    outcomes = np.flatnonzero(mass > TINY)
    outcomes = np.arange(outcomes[0], outcomes[-1] + 1)
    mass = mass[outcomes]
    beliefs = _beliefs(p, mass, first=outcomes[0] == 0, last=outcomes[-1] == heads.sum())
    return People(
        p,
        heads.astype(np.float64),
        outcomes.astype(np.float64),
        mass,
        beliefs,
    )


def _beliefs(p: Floats, mass: Floats, first: bool, last: bool) -> Floats:
    """a_g(s) by leaving one person out of S.

    With r = p/(1−p), a(s+1) = c·(1 − a(s)) where c = r·Pr(S=s)/Pr(S=s+1) grows with s. Errors shrink by c going up
    while c < 1 and by 1/c going down while c > 1, so each outcome is reached from the end from which they do. The ends
    are a(0) = 0 and a(N) = 1 if the first and the last outcome are there; otherwise the fixed point c/(1+c).
    """
    width, odds = len(mass), p / (1 - p)
    c = odds[:, None] * (mass[:-1] / mass[1:])
    up, down = np.zeros((len(p), width)), np.ones((len(p), width))
    if not first:
        up[:, 0] = c[:, 0] / (1 + c[:, 0])
    if not last:
        down[:, -1] = c[:, -1] / (1 + c[:, -1])
    for s in range(width - 1):
        up[:, s + 1] = np.minimum(c[:, s], 1.0) * (1 - up[:, s])
    for s in range(width - 2, -1, -1):
        down[:, s] = 1 - down[:, s + 1] / np.maximum(c[:, s], 1.0)
    # Outcome s is reached from below by the step before it.
    from_below = np.concatenate([c[:, :1] <= 1, c <= 1], axis=1)
    chosen: Floats = np.clip(np.where(from_below, up, down), 0.0, 1.0)
    return chosen


def bounds(p: Floats, epsilon: float, published: bool = False) -> tuple[Floats, Floats]:
    """l and u for each group; `published` leaves out the two bounds that the paper's Proposition 5 leaves out."""
    e = math.exp(max(0.0, epsilon - MARGIN))
    low, high = p / e, 1 - (1 - p) / e
    if not published:
        low, high = np.maximum(low, 1 - e * (1 - p)), np.minimum(high, e * p)
    return low, high


def two_pools(people: People, epsilon: float, published: bool = False) -> Mechanism:
    """Pool the lowest outcomes until everybody's beliefs are at least l, the highest until they are at most u.

    a_i(s) grows with s, so a low pool needs only the lower bounds, and every outcome above a pool that holds them holds
    them as well. If the pools meet, two reports take all outcomes (`_two_reports`).
    """
    low, high = bounds(people.p, epsilon, published)
    bottom = _pool(people.mass, people.beliefs - low[:, None])
    top = _pool(people.mass[::-1], (high[:, None] - people.beliefs)[:, ::-1])[::-1]
    if (bottom + top > 1).any():
        return _two_reports(people, low, high)
    reports = np.array([bottom * people.mass, top * people.mass])
    kept = reports.sum(axis=1) > 0
    return Mechanism(people, reports[kept], (1 - bottom - top) * people.mass)


def _pool(mass: Floats, slack: Floats) -> Floats:
    """Shares of the outcomes in the smallest pool, first ones first, where nobody's mean slack is negative."""
    cumulative = np.cumsum(mass * slack, axis=1)
    wanting = np.flatnonzero((cumulative < 0).any(axis=0) | (slack < 0).any(axis=0))
    shares = np.zeros(len(mass))
    if len(wanting) == 0:
        return shares
    # Underflowed outcomes weigh nothing; the pool ends at the outcome after the last wanting one, taken in part.
    last = min(int(wanting[-1]) + 1, len(mass) - 1)
    shares[:last] = 1.0
    before = cumulative[:, last - 1]
    gained = mass[last] * slack[:, last]
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.where(before < 0, -before / gained, 0.0)
    shares[last] = min(1.0, float(np.nanmax(needed)))
    return shares


def _two_reports(people: People, low: Floats, high: Floats) -> Mechanism:
    """Cut the outcomes in two and mix with a coin that ignores S until everybody's bounds hold; the best cut wins."""
    outcomes = people.outcomes
    best, found = -1.0, None
    for cut in range(len(outcomes) - 1):
        share = float(people.mass[: cut + 1].sum())
        if not 0 < share < 1:
            continue
        part = np.where(np.arange(len(outcomes)) <= cut, people.mass, 0.0)
        keep = min(_kept(people, part / share, low, high), _kept(people, (people.mass - part) / (1 - share), low, high))
        lower = people.mean + keep * float(outcomes @ part / share - people.mean)
        gain = share / (1 - share) * (lower - people.mean) ** 2
        if gain > best:
            mixed = keep * part + (1 - keep) * share * people.mass
            best, found = gain, Mechanism(people, np.array([mixed, people.mass - mixed]), np.zeros(len(people.mass)))
    if found is None:
        return Mechanism(people, people.mass[None, :], np.zeros(len(people.mass)))
    return found


def _kept(people: People, report: Floats, low: Floats, high: Floats) -> float:
    """The largest share of `report`, the rest being the law of S, that keeps everybody's bounds."""
    shift = people.beliefs @ report - people.p
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(shift > 0, (high - people.p) / shift, np.where(shift < 0, (low - people.p) / shift, np.inf))
    return float(min(1.0, room.min()))


def best_vertices(people: People, epsilon: float, published: bool = False) -> Mechanism:
    """The best mechanism for few people: a linear program over all vertices of the bounds.

    A vertex fixes n of the inequalities l ≤ aπ ≤ u, π ≥ 0 beside Σπ = 1; all choices are tried.
    """
    from scipy.optimize import linprog

    low, high = bounds(people.p, epsilon, published)
    rows = np.concatenate([np.eye(people.n + 1), people.beliefs, -people.beliefs])
    least = np.concatenate([np.zeros(people.n + 1), low, -high])
    active = np.array(list(combinations(range(len(rows)), people.n)))
    systems = np.concatenate([rows[active], np.ones((len(active), 1, people.n + 1))], axis=1)
    values = np.concatenate([least[active], np.ones((len(active), 1))], axis=1)
    regular = np.abs(np.linalg.det(systems)) > 1e-13
    corners = np.linalg.solve(systems[regular], values[regular][..., None])[..., 0]
    inside = (corners @ rows.T >= least - MARGIN / 100).all(axis=1)
    # Rounding merges equal vertices; a constant report always is one way to mix to the law of S.
    reports = np.clip(np.unique(np.round(corners[inside], 13), axis=0), 0.0, None)
    reports = np.concatenate([reports / reports.sum(axis=1)[:, None], people.mass[None, :]])
    gains = (reports @ people.outcomes - people.mean) ** 2
    solved = linprog(
        -gains, A_eq=reports.T, b_eq=people.mass, method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10, "time_limit": 120.0},
    )  # fmt: skip
    if solved.status != 0:
        raise ArithmeticError(f"the linear program of the trusted server failed: {solved.message}")
    chances = np.asarray(solved.x, dtype=np.float64)
    used = chances > 1e-12
    return Mechanism(people, reports[used] * chances[used, None], np.zeros(len(people.mass)))
