"""The channel of largest gain for one prior, of any number of values.

    maximise  Σ_y λ_y gain(v_y)   subject to   Σ_y λ_y v_y = 1,  λ ≥ 0,  v_y feasible lifts

Up to 14 distinct values `search` looks at all vertices, and the result is exact. Beyond that a linear program over arcs
and packed sets is extended by improving columns until the bound of `bounds` is close enough; with many values, light
ones first share lifts in bundles.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from tacit.designs._program.bounds import ENUMERATION_LIMIT, cheap_bound, gain_dual_bound
from tacit.designs._program.columns import Order, PlainLifts, arc_design, improving, packed_sets, starting_orders
from tacit.designs._program.deadline import Deadline
from tacit.designs._program.gain import Gain, Merged, bundles, equal_rows
from tacit.designs._program.lifts import Array, LiftSet
from tacit.designs._program.master import Master, polished
from tacit.designs._program.search import Found, Progress, Search, Steps

_DIRECT_LIMIT = 160
_FIRST_BUNDLES = 14
_ARC_LIMIT = 1200
#: A linear program over more values than this takes longer than it gains.
_MOST_BUNDLES = 1500
#: Half of the cells of the table that a search starts with.
_MOST_IN_ARCS = 2**17
#: Tables that a linear program starts from have at most this many cells.
_MOST_CELLS = 2**23
_PROOF_EVERY = 3
_PULL = 0.8
#: Operations for each cell of the lifts that improve a design.
_PER_CELL = 200


@dataclass(slots=True, kw_only=True)
class _Search(Steps):
    """The search for one problem of distinct values, over finer and finer bundles of them."""

    prior: Array
    gain: Gain
    lift_set: LiftSet
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    proved: float = inf

    def steps(self) -> None:
        """Arcs, and then column generation."""
        _run(self)

    def offer(self, lifts: Array, probabilities: Array, method: str) -> None:
        """Keep a feasible design if it is the best so far."""
        value = float(probabilities @ self.gain(lifts))
        # Among designs of equal value the later one comes from a linear program and has fewer reports.
        if value > self.best * (1 - 1e-12):
            self.lifts, self.probabilities, self.best, self.method = lifts, probabilities, value, method

    def finish(self) -> None:
        """Bring Σ_y λ_y v_y = 1 to machine precision."""
        self.lifts, self.probabilities = polished(self.lifts, self.probabilities)
        self.best = float(self.probabilities @ self.gain(self.lifts))

    def prove(self, duals: Array) -> None:
        """Tighten the bound with these duals."""
        bound = gain_dual_bound(self.prior, self.gain, self.lift_set, duals, self.deadline)
        if bound < self.proved:
            self.proved, self.duals = bound, duals
        self.bound = min(self.bound, bound)


def solve(
    prior: Array,
    g: Array,
    lift_set: LiftSet,
    *,
    gap: float = 5e-3,
    time_limit: float | Deadline = 30.0,
    progress: Progress | None = None,
) -> Found:
    """The channel with the largest gain for task `g` (d, m) among all whose lifts lie in `lift_set`.

    Stops once (bound − gain) ≤ gap · bound. An interrupt from the keyboard returns the best so far. `duals` reproduce a
    bound through `bounds.dual_bound`.
    """
    deadline = Deadline.after(time_limit)
    prior = np.asarray(prior, dtype=float)
    g = np.asarray(g, dtype=float).reshape(len(prior), -1)
    merged = Merged.by(group := equal_rows(g), prior, Gain.of(prior, g))
    n = len(merged.prior)
    if n == 1 or lift_set.trivial:
        found = Found.constant(n, "mmse")
    elif n <= ENUMERATION_LIMIT:
        rows = np.zeros((n, g.shape[1]))
        rows[group] = g
        found = _listed(merged.prior, rows, lift_set, gap, deadline, progress)
    else:
        found = _Search(
            prior=merged.prior, gain=merged.gain, lift_set=lift_set, gap=gap, deadline=deadline, progress=progress
        ).run()
    shared = found.duals[group] * prior / merged.prior[group]
    return replace(found, lifts=found.lifts[:, group], duals=shared)


def _listed(
    prior: Array, g: Array, lift_set: LiftSet, gap: float, deadline: Deadline, progress: Progress | None
) -> Found:
    """All vertices are candidates: the linear program is complete, the bound exact."""
    found = Search(
        PlainLifts(prior, lift_set, ENUMERATION_LIMIT), g, gap=1e-9, deadline=deadline, progress=progress
    ).run()
    cheap = cheap_bound(prior, Gain.of(prior, g), lift_set)
    close = found.bound - found.value <= gap * found.bound
    status = "within gap" if close and found.status in ("stalled", "time limit") else found.status
    return replace(found, bound=max(found.value, min(found.bound, cheap)), status=status)


def _run(search: _Search) -> None:
    n = len(search.prior)
    search.duals = np.zeros(n)
    search.offer(np.ones((1, n)), np.ones(1), "constant")
    search.bound = cheap_bound(search.prior, search.gain, search.lift_set)
    # Arcs over all of very many values would be a table of their square, which takes minutes to round to integers if
    # the time limit ends the search here; bundles of values serve as a start.
    count = min(_ARC_LIMIT, max(8, _MOST_IN_ARCS // n))
    start = Merged.by(bundles(search.prior, search.gain, count), search.prior, search.gain)
    for order in starting_orders(start.prior, start.gain, search.rng, 4):
        lifts, probabilities = arc_design(start.prior, search.lift_set, order)
        search.offer(lifts[:, start.group], probabilities, "arcs")
    if np.ptp(search.prior) < 1e-15:
        # By symmetry equal duals are best when the gain is symmetric too, and they cost nothing to try.
        search.prove(np.zeros(n))
    search.report()
    _refine(search)


def _refine(search: _Search) -> None:
    """Column generation on finer and finer bundles, each level starting from the columns and duals of the last."""
    n = len(search.prior)
    packs = search.gain.weights is not None and not search.lift_set.has_ratio
    count = _DIRECT_LIMIT if packs else _FIRST_BUNDLES
    while not (search.close or search.deadline.passed):
        problem = Merged.by(bundles(search.prior, search.gain, count), search.prior, search.gain)
        _generate(search, problem)
        if len(problem.prior) == n or 3 * count > _MOST_BUNDLES:
            return
        count *= 3


def _master(search: _Search, problem: Merged) -> Master:
    low, high = search.lift_set.limits(problem.prior)
    master = Master(problem.prior, low, high, max(search.bound, 1e-300))
    for order in starting_orders(problem.prior, problem.gain, search.rng, 4):
        lifts, _ = arc_design(problem.prior, search.lift_set, order)
        master.add(lifts, problem.gain(lifts))
    lifts = problem.merge_lifts(search.prior, search.lifts)
    if problem.gain.weights is not None and not search.lift_set.has_ratio:
        n = len(problem.prior)
        rows = min(2 * n, max(64, _MOST_CELLS // n))
        orders: Order = np.array([search.rng.permutation(n) for _ in range(rows)], dtype=np.intp)
        packed = packed_sets(problem.prior, problem.gain, search.lift_set, orders, np.zeros(n))
        lifts = np.concatenate([lifts, packed])
    master.add(lifts, problem.gain(lifts))
    return master


def _generate(search: _Search, problem: Merged) -> None:
    """Column generation on `problem`, whose groups share lifts; bounds are for the ungrouped one.

    Linear-program duals jump about; columns are sought at a point pulled towards the best duals so far (`centre`).
    """
    prior, gain, lift_set = problem.prior, problem.gain, search.lift_set
    last = len(prior) == len(search.prior)
    method = "column generation" + ("" if last else f", {len(prior)} bundles")
    master = _master(search, problem)
    centre, worth = problem.merge_duals(search.duals), inf
    pull = 1.0 if search.proved < inf else 0.0
    while not (search.close or search.deadline.passed):
        weights, duals = master.solve(search.deadline)
        search.iterations += 1
        used, reached = weights > 1e-10, float(weights @ master.gains)
        search.offer(master.lifts[used][:, problem.group], weights[used], method)
        point = pull * centre + (1 - pull) * duals
        lifts = improving(prior, gain, lift_set, point, master.lifts[used], search.rng)
        search.deadline.spend(lifts.size * _PER_CELL)
        value = float(point.sum() + (gain(lifts) - lifts @ point).max())
        if value < worth:
            centre, worth = point, value
        surplus = gain(lifts) - lifts @ duals
        good = np.argsort(-surplus)[: max(64, len(prior))]
        good = good[surplus[good] > 1e-9 * master.scale]
        added = master.add(lifts[good], gain(lifts[good]))
        # A level that is left for a finer one need not be solved to the end.
        done = (not added and pull == 0) or (not last and worth - reached < 0.2 * search.gap * worth)
        pull = _PULL if added else max(0.0, pull - 0.3)
        # By count and not by the clock, so that the same problem has the same answer.
        if not search.close and (done or search.iterations % _PROOF_EVERY == 0):
            for full in problem.expand_duals(search.prior, search.gain, centre):
                search.prove(full)
        search.report()
        if done:
            break
