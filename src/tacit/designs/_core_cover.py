"""Covering the heaviest values: a small linear program solved by column generation.

A report covers value x to the degree c_x in [0, 1] and its covered prior mass is h = 1/(E+1).  The K heaviest
values (the core, priors p) get their own random coverage vector c; the rest of the domain (the tail, mass T) is one
divisible value that takes what is missing, h - p.c.  The best core is

    maximise   Σ_j λ_j Σ_x p_x² c_jx²
    subject to Σ_j λ_j c_jx = h  for every x,   Σ_j λ_j = 1,   λ ≥ 0,
               c_j in the polytope  { 0 ≤ c ≤ 1,  h - T ≤ p.c ≤ h }.

Its dual bounds every channel on the whole domain: restrict any channel's coverage vectors to the core and they are
feasible here, because the tail's coverage is in [0, T].  Merging the tail only relaxes, hence only raises the bound.
Everything in this file is floating point; privacy never depends on it, because the realised integers are audited.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.designs._knapsack import Knapsack
from tacit.designs._program.deadline import TimeLimitError
from tacit.designs._program.master import GrowingProgram, SolverError
from tacit.exact import Floats

START_ORDERS = 8
COLUMNS_PER_ROUND = 20
MAX_ROUNDS = 200
SEARCH_NODES = 2000
REDUCED_COST_TOLERANCE = 1e-10
SECONDS_PER_SOLVE = 60.0


@dataclass(frozen=True, kw_only=True)
class CoreCover:
    """A distribution over core coverage vectors, with its certificate.

    where: `probability[j]` is λ_j, `coverage[j, x]` is c_jx, `value` is the objective reached and
    `upper_bound` a number that no feasible distribution exceeds (weak duality): `price_bound` of `price`.
    """

    probability: Floats
    coverage: Floats
    value: float
    upper_bound: float
    price: Floats


def coverage_range(prior: Floats, share: float) -> tuple[Floats, Floats]:
    """Return the smallest and largest coverage of each value: max(0, (h-(1-P))/P) and min(1, h/P), h = `share`.

    The upper end is all of h spent on x; the lower end is what is left when everything else is covered.
    """
    return np.maximum(0.0, (share - (1.0 - prior)) / prior), np.minimum(1.0, share / prior)


def second_moment_bound(prior: Floats, share: float) -> Floats:
    """Return h(lo+hi) - lo*hi, the largest E[c²] of each value given E[c] = h: the chord of c² over [lo, hi]."""
    low, high = coverage_range(prior, share)
    bound: Floats = share * (low + high) - low * high
    return bound


def arc_columns(prior: Floats, tail: float, share: float) -> Floats:
    """Return a feasible start: arcs of length h on the circle core + tail that start or end on a segment boundary.

    Between two such arcs every coverage is linear in the arc's position, so giving each arc half of its two
    neighbouring gaps keeps the mean coverage of the uniformly placed arc, which is h.
    """
    lengths = np.append(prior, tail) / (prior.sum() + tail)
    right = np.cumsum(lengths)
    left = right - lengths
    starts = np.sort(np.concatenate([left, (left - share) % 1.0]))
    begin, end = starts[:, None], starts[:, None] + share
    covered = np.zeros((len(starts), len(lengths)))
    for turn in (0.0, 1.0):
        covered += np.clip(np.minimum(end, right + turn) - np.maximum(begin, left + turn), 0.0, None)
    columns: Floats = np.clip(covered / lengths, 0.0, 1.0)[:, :-1]
    return columns


def systematic_columns(prior: Floats, tail: float, share: float, orders: int) -> Floats:
    """Return 0/1 vectors that cover every light value equally often, by systematic sampling in random orders.

    Lay n light values (p ≤ h) in some order, value i on [i a, (i+1) a), a = h/(1 - mass of the heavy values), and
    cover those that hold u, u+1, u+2, ...: a uniform u covers each with probability a, which is what is left to it
    when a heavy value is covered alone with probability p.  Of the at most n different vectors those that fit the
    window are kept.  They make the linear program easy; a value that is only ever covered whole attains its bound.
    """
    light = np.flatnonzero(prior <= share)
    inclusion = share / max(share, 1.0 - float(prior[prior > share].sum()))
    edges = np.arange(len(light) + 1) * inclusion
    steps = np.unique(edges % 1.0)
    points = (steps + np.append(steps[1:], 1.0)) / 2.0
    hits = np.diff(np.ceil(edges - points[:, None]), axis=1)
    random = np.random.default_rng(0)
    by_order = np.zeros((orders, len(points), len(prior)))
    for chosen in by_order:
        chosen[:, random.permutation(light)] = hits
    columns = by_order.reshape(-1, len(prior))
    mass = columns @ prior
    fitting: Floats = columns[(mass <= share) & (mass >= share - tail)]
    return fitting


def lone_columns(prior: Floats, share: float) -> Floats:
    """Return, for every value heavier than h, the vector that covers it alone, and the one that covers it least.

    Both are the ends of the value's coverage range; a value that only visits them attains its own bound.
    """
    low, high = coverage_range(prior, share)
    heavy = np.flatnonzero(high < 1.0)
    alone = np.zeros((len(heavy), len(prior)))
    alone[np.arange(len(heavy)), heavy] = high[heavy]
    dominant = np.flatnonzero(low > 0.0)
    rest = np.ones((len(dominant), len(prior)))
    rest[np.arange(len(dominant)), dominant] = low[dominant]
    return np.concatenate([alone, rest])


class _Master:
    """The restricted linear program over coverage vectors; its last row says that Σ λ = 1."""

    def __init__(self, prior: Floats, share: float) -> None:
        self._square, self._scale = prior * prior, float(prior @ prior)
        self._program = GrowingProgram(np.append(np.full(len(prior), share), 1.0), primal=True)
        self.coverage = np.empty((0, len(prior)))

    def add(self, coverage: Floats) -> None:
        # The objective is scaled to order one, or the solver's absolute tolerances would hide whole values.
        gains = (coverage * coverage) @ self._square / self._scale
        self._program.add(np.column_stack([coverage, np.ones(len(coverage))]), gains)
        self.coverage = np.concatenate([self.coverage, coverage])

    def solve(self) -> tuple[Floats, Floats, float]:
        """λ, the prices μ of the covered values and the price of Σ λ = 1."""
        try:
            probability, prices = self._program.solve(SECONDS_PER_SOLVE)
        except (SolverError, TimeLimitError) as failure:
            raise ArithmeticError(f"The core's linear program was not solved: {failure}.") from failure
        duals = prices * self._scale
        return probability, duals[:-1], float(duals[-1])


def solve_core(prior: Floats, tail: float, share: float, tolerance: float = 5e-4) -> CoreCover:
    """Return a near-optimal core, by column generation.

    where: `prior` = p, `tail` = T, `share` = h.  Stops when value and bound agree to `tolerance` of the gain
    Σ p² (E[c²] - h²), or when no better vector is found; `upper_bound` is valid in either case.
    """
    if len(prior) == 0:
        return CoreCover(
            probability=np.ones(1), coverage=np.empty((1, 0)), value=0.0, upper_bound=0.0, price=np.empty(0)
        )
    square = prior * prior
    low, high = coverage_range(prior, share)
    best_bound, best_price = float(square @ second_moment_bound(prior, share)), np.zeros(len(prior))
    slack = tolerance * (best_bound - share * share * float(square.sum()))
    master = _Master(prior, share)
    master.add(lone_columns(prior, share))
    master.add(arc_columns(prior, tail, share))
    master.add(systematic_columns(prior, tail, share, START_ORDERS))
    for _ in range(MAX_ROUNDS):
        probability, price, level = master.solve()
        value = float(probability @ (master.coverage**2 @ square))
        knapsack = Knapsack(prior, price, tail, share)
        bound = share * float(price.sum()) + knapsack.chord_bound(low, high)
        if bound < best_bound:
            best_bound, best_price = bound, price
        if best_bound - value <= slack:
            break
        columns = _improving(knapsack, knapsack.greedy(), level)
        if len(columns) == 0:
            worth, vertices = knapsack.search(SEARCH_NODES)
            if share * float(price.sum()) + worth < best_bound:
                best_bound, best_price = share * float(price.sum()) + worth, price
            columns = _improving(knapsack, vertices, level)
        if len(columns) == 0 or best_bound - value <= slack:
            break
        master.add(columns)
    used = np.flatnonzero(probability > 1e-9)
    chosen = probability[used] / probability[used].sum()
    return CoreCover(
        probability=chosen, coverage=master.coverage[used], value=value, upper_bound=best_bound, price=best_price
    )


def price_bound(prior: Floats, tail: float, share: float, price: Floats) -> float:
    """Return the bound on the core's objective that any prices prove: weak duality.

    h sum(price) plus the largest Σ p² c² - price c of a single report, bounded by the chord and by the search;
    never more than every value at its own best.
    """
    if len(prior) == 0:
        return 0.0
    alone = float(prior**2 @ second_moment_bound(prior, share))
    knapsack = Knapsack(prior, price, tail, share)
    single = min(knapsack.chord_bound(*coverage_range(prior, share)), knapsack.search(SEARCH_NODES)[0])
    return min(alone, share * float(price.sum()) + single)


def _improving(knapsack: Knapsack, columns: Floats, level: float) -> Floats:
    """Return the feasible columns whose reduced cost is positive beyond the solver's tolerance, best first."""
    square = knapsack.prior * knapsack.prior
    mass = columns @ knapsack.prior
    reduced = columns**2 @ square - columns @ knapsack.price - level
    reduced[(mass > knapsack.share + 1e-12) | (mass < knapsack.share - knapsack.tail - 1e-12)] = -np.inf
    best = np.argsort(-reduced, kind="stable")[:COLUMNS_PER_ROUND]
    best = best[reduced[best] > REDUCED_COST_TOLERANCE * float(square.sum())]
    return np.unique(columns[best], axis=0)
