"""Centralized information privacy (CIP): the error that a trusted server could reach, for comparison.

**A common prior.** N people hold independent yes/no values with a common prior p. A trusted server knows
S ~ Binomial(N, p) and publishes Y such that no belief about one person moves by more than e^ε. Since
Pr(X_i = 1 | Y) = E[S|Y]/N, that is

    L ≤ E[S|Y] ≤ U,   L = max(Np/E, N − E·N(1−p)),   U = min(E·Np, N − N(1−p)/E),   E = e^ε

(the paper's Proposition 5 omits two of the four bounds). Var E[S|Y] is largest if S is published as it is, except
that the lowest outcomes are pooled until their mean is L and the highest until it is U, splitting one outcome at
random where needed. If the pools would overlap, E[S|Y] takes only the values L and U.

**Different priors.** Person i holds a one with probability p_i. A trusted server knows S = Σ X_i, which is
Poisson-binomial, and publishes a report Y of S such that no belief about one person moves by more than e^ε:

    l_i ≤ Pr(X_i = 1 | Y) = E[a_i(S) | Y] ≤ u_i,   a_i(s) = Pr(X_i = 1 | S = s),
    l_i = max(p_i/E, 1 − E(1−p_i)),   u_i = min(E·p_i, 1 − (1−p_i)/E),   E = e^ε.

The error is E Var(S | Y). A report is a distribution π of S inside these bounds, and the reports mix to the
distribution of S, so the best mechanism is a linear program over the vertices of the bounds: solved exactly for few
people (`best_vertices`). For many, the lowest outcomes are pooled until everybody's bounds hold, and the highest, and
all others are published as they are (`two_pools`): a valid mechanism, and `lower_bound` says how far from the
best it can be. Bounds are drawn in by MARGIN before anything is built, far more than the rounding of the floats.

**A certified bound for many people.** For any numbers w(s), a report π with variance V(π) = min_t Σ_s π(s)(s−t)² has
V(π) ≥ w·π + F with

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

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TypeVar

import numpy as np
from scipy.optimize import linprog

from studies.simulate import Moments
from tacit.exact import Floats, Number, at_most_exp, budget, exp_below, rational
from tacit.mechanism import Channel, PrivacyError
from tacit.prior import Prior

T = TypeVar("T", Fraction, float)


@dataclass(frozen=True)
class Central:
    """A CIP mechanism: a channel on the sum S, under the prior of S."""

    channel: Channel
    mse: float


def central_mse(n: int, probability: float, epsilon: float) -> float:
    """The least MSE of any CIP mechanism for a common prior, in O(N).

    >>> round(central_mse(5, 0.5, 0.5), 6), round(central_mse(20, 0.1, 0.5), 6)
    (0.350893, 0.778992)
    """
    from scipy.stats import binom  # slow to import, and needed here only

    mean, variance = n * probability, n * probability * (1 - probability)
    if variance == 0:
        return 0.0
    if epsilon == 0:
        return variance
    low = max(mean * math.exp(-epsilon), n - math.exp(epsilon) * (n - mean))
    high = min(math.exp(epsilon) * mean, n - (n - mean) * math.exp(-epsilon))
    sums = np.arange(n + 1)
    mass = binom.pmf(sums, n, probability)
    bottom = np.array(_pool(mass.tolist(), low))
    top = np.array(_pool(mass[::-1].tolist(), n - high))[::-1]
    if (bottom + top > 1).any():
        return variance - (high - mean) * (mean - low)
    # Within a pool the error is the spread around its mean; single outcomes have none.
    spread = bottom * (sums - low) ** 2 + top * (sums - high) ** 2
    return float(mass @ spread)


def central(n: int, probability: Number, epsilon: Number) -> Central:
    """The optimal CIP mechanism for a common prior, as an exact channel from S to reports.

    >>> mechanism = central(5, 0.5, 0.5)
    >>> round(mechanism.mse, 6), mechanism.channel.n_possible_reports
    (0.350893, 4)
    """
    p, exact = rational(probability, "probability"), budget(epsilon)
    if n < 1 or not 0 <= p <= 1:
        raise ValueError(f"CIP needs n ≥ 1 and a probability in [0, 1]. Got n = {n}, probability = {probability}.")
    prior = Prior(range(n + 1), [math.comb(n, s) * p**s * (1 - p) ** (n - s) for s in range(n + 1)])
    mean, bound = n * p, exp_below(exact)
    low = max(mean / bound, n - bound * (n - mean))
    high = min(bound * mean, n - (n - mean) / bound)
    if len(prior.support) == 1 or bound == 1:
        rows = [[Fraction(1)] for _ in prior.values]
    else:
        rows = _two_pools(prior, low, high) or _two_reports(prior, mean, low, high)
    channel = Channel.from_weights(prior, _integers(rows))
    _check(channel, exact)
    estimates = [_estimate(channel, y) for y in range(channel.n_possible_reports)]
    marginal = channel.marginal_weights
    spread = sum(int(weight) * (estimate - mean) ** 2 for weight, estimate in zip(marginal, estimates, strict=True))
    return Central(channel, float(mean * (1 - p) - spread / (channel.denominator * prior.total)))


def central_satisfies(channel: Channel, epsilon: Number) -> bool:
    """Definition 4 (CIP) for a channel on sums with a binomial prior: an exact comparison, no tolerance."""
    prior = channel.prior
    n, exact = len(prior) - 1, budget(epsilon)
    mean = Fraction(sum(s * weight for s, weight in enumerate(prior.weights)), prior.total)
    for y, weight in enumerate(channel.marginal_weights):
        if weight:
            estimate = _estimate(channel, y)
            for believed, before in ((estimate, mean), (n - estimate, n - mean)):
                if before and not (
                    believed and at_most_exp(believed / before, exact) and at_most_exp(before / believed, exact)
                ):
                    return False
    return True


def _pool(mass: list[T], target: T) -> list[T]:
    """Shares of the outcomes 0, 1, 2 …, lowest first, that pool to a mean of `target`."""
    nothing = target * 0
    shares = [nothing] * len(mass)
    deficit = nothing
    for value, weight in enumerate(mass):
        surplus = weight * (value - target)
        if surplus >= deficit:
            shares[value] = deficit / surplus if surplus else nothing
            break
        shares[value] = nothing + 1
        deficit -= surplus
    return shares


def _two_pools(prior: Prior, low: Fraction, high: Fraction) -> list[list[Fraction]] | None:
    """Rows onto (low pool, each sum, high pool), or None if the pools overlap."""
    n = len(prior) - 1
    mass = [Fraction(weight) for weight in prior.weights]
    bottom = _pool(mass, low)
    top = _pool(mass[::-1], n - high)[::-1]
    alone = [1 - below - above for below, above in zip(bottom, top, strict=True)]
    if min(alone) < 0:
        return None
    kept = [s for s in range(n + 1) if alone[s]]
    return [[bottom[s], *(alone[s] if s == k else Fraction(0) for k in kept), top[s]] for s in range(n + 1)]


def _two_reports(prior: Prior, mean: Fraction, low: Fraction, high: Fraction) -> list[list[Fraction]]:
    """Rows onto two reports whose means are exactly `low` and `high`.

    Cut the outcomes at the probability that the means require; the two halves lie further apart than needed, so mix
    with a coin that ignores S until the means fit.
    """
    share = (high - mean) / (high - low)
    cut: list[Fraction] = []
    left, lower_sum = share, Fraction(0)
    for s, weight in enumerate(prior.weights):
        taken = min(left, Fraction(weight, prior.total))
        cut.append(taken * prior.total / weight if weight else Fraction(0))
        left -= taken
        lower_sum += s * taken
    mix = (low - lower_sum / share) / (mean - lower_sum / share)
    return [[(1 - mix) * part + mix * share, (1 - mix) * (1 - part) + mix * (1 - share)] for part in cut]


def _integers(rows: list[list[Fraction]]) -> list[list[int]]:
    scale = math.lcm(*(cell.denominator for row in rows for cell in row))
    kept = [y for y in range(len(rows[0])) if any(row[y] for row in rows)]
    return [[int(row[y] * scale) for y in kept] for row in rows]


def _estimate(channel: Channel, output: int) -> Fraction:
    posterior = channel.exact_posterior(output)
    return sum((s * share for s, share in enumerate(posterior)), Fraction(0))


def _check(channel: Channel, epsilon: Fraction) -> None:
    if not central_satisfies(channel, epsilon):
        raise PrivacyError(f"The constructed mechanism is not CIP at ε = {float(epsilon):g}.")


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
    them as well. If the pools meet, two reports take all outcomes (`_two_reports_of_people`).
    """
    low, high = bounds(people.p, epsilon, published)
    bottom = _pool_people(people.mass, people.beliefs - low[:, None])
    top = _pool_people(people.mass[::-1], (high[:, None] - people.beliefs)[:, ::-1])[::-1]
    if (bottom + top > 1).any():
        return _two_reports_of_people(people, low, high)
    reports = np.array([bottom * people.mass, top * people.mass])
    kept = reports.sum(axis=1) > 0
    return Mechanism(people, reports[kept], (1 - bottom - top) * people.mass)


def _pool_people(mass: Floats, slack: Floats) -> Floats:
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


def _two_reports_of_people(people: People, low: Floats, high: Floats) -> Mechanism:
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
