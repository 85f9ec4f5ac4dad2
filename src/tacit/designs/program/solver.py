"""The optimal channel for a known prior, by column generation with a proven bound.

    maximise  Σ_y λ_y gain(v_y)   subject to   Σ_y λ_y v_y = 1,  λ ≥ 0,  v_y feasible lifts

A convex gain is best at vertices of the lift set. Up to 14 distinct values all vertices are candidates and the
result is exact. Beyond that a linear program over arcs and packed sets is extended by improving columns until the
bound of `bounds` is close enough; with many values, light ones first share lifts in bundles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from time import perf_counter

import numpy as np

from tacit.designs.program.bounds import ENUMERATION_LIMIT, cheap_bound, gain_dual_bound
from tacit.designs.program.columns import Order, arc_design, improving, packed_sets, starting_orders
from tacit.designs.program.fewer_reports import few_reports, merge_reports
from tacit.designs.program.gain import Gain, Merged, bundles, equal_rows
from tacit.designs.program.lifts import Array, LiftSet, all_vertices
from tacit.designs.program.master import Master, SolverError, TimeLimitError, polished

_DIRECT_LIMIT = 160
_FIRST_BUNDLES = 14
_ARC_LIMIT = 1200
_PROOF_EVERY = 3
_PULL = 0.8


@dataclass(frozen=True, kw_only=True, slots=True)
class LiftDesign:
    """A channel as lifts and report probabilities, with the proof of how good it is.

    `gain` is what `lifts` (reports, d) with `probabilities` remove from the prior variance; no channel in the lift set
    removes more than `gain_bound`. `duals` (d,) reproduce a bound through `bounds.dual_bound`.
    `status` is "optimal" (gap at rounding level), "within gap", "time limit", "stalled" or "interrupted".
    """

    lifts: Array
    probabilities: Array
    gain: float
    gain_bound: float
    duals: Array
    iterations: int
    seconds: float
    method: str
    status: str
    notes: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """Relative distance between gain and bound."""
        return (self.gain_bound - self.gain) / self.gain_bound if self.gain_bound > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """What a progress callback sees after each iteration."""

    iteration: int
    seconds: float
    gain: float
    gain_bound: float


@dataclass(slots=True)
class _Search:
    """Best design and bound so far, for one problem of distinct values."""

    prior: Array
    gain: Gain
    lift_set: LiftSet
    target_gap: float
    deadline: float
    progress: Callable[[Progress], None] | None
    started: float = field(default_factory=perf_counter)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    lifts: Array = field(default_factory=lambda: np.empty((0, 0)))
    probabilities: Array = field(default_factory=lambda: np.empty(0))
    best: float = -inf
    bound: float = inf
    proved: float = inf
    duals: Array = field(default_factory=lambda: np.empty(0))
    iterations: int = 0
    method: str = "arcs"
    notes: list[str] = field(default_factory=list)

    def offer(self, lifts: Array, probabilities: Array, method: str) -> None:
        """Keep a feasible design if it is the best so far."""
        value = float(probabilities @ self.gain(lifts))
        # Among designs of equal value the later one comes from a linear program and has fewer reports.
        if value > self.best * (1 - 1e-12):
            self.lifts, self.probabilities, self.best, self.method = lifts, probabilities, value, method

    def polish(self) -> None:
        """Bring Σ_y λ_y v_y = 1 to machine precision."""
        self.lifts, self.probabilities = polished(self.lifts, self.probabilities)
        self.best = float(self.probabilities @ self.gain(self.lifts))

    def prove(self, duals: Array) -> None:
        """Tighten the bound with these duals."""
        bound = gain_dual_bound(self.prior, self.gain, self.lift_set, duals)
        if bound < self.proved:
            self.proved, self.duals = bound, duals
        self.bound = min(self.bound, bound)

    def report(self) -> None:
        if self.progress is not None:
            self.progress(Progress(self.iterations, self.elapsed, self.best, self.bound))

    @property
    def elapsed(self) -> float:
        return perf_counter() - self.started

    @property
    def close(self) -> bool:
        return self.bound - self.best <= self.target_gap * self.bound

    @property
    def late(self) -> bool:
        return self.elapsed > self.deadline

    @property
    def status(self) -> str:
        if self.bound - self.best <= 1e-8 * self.bound:
            return "optimal"
        return "within gap" if self.close else "time limit" if self.late else "stalled"


def solve(
    prior: Array,
    g: Array,
    lift_set: LiftSet,
    *,
    gap: float = 5e-3,
    time_limit: float = 30.0,
    progress: Callable[[Progress], None] | None = None,
    max_reports: int | None = None,
) -> LiftDesign:
    """The channel with the largest gain for task `g` (d, m) among all whose lifts lie in `lift_set`.

    Stops once (gain_bound - gain) ≤ gap * gain_bound. An interrupt from the keyboard returns the best so far.
    `max_reports` asks for few reports: the best found then, while `gain_bound` still speaks of all channels.
    """
    if max_reports is not None and max_reports < 2:
        raise ValueError(
            f"The 'max_reports' parameter must be at least 2: a single report tells nothing. Got {max_reports} instead."
        )
    prior = np.asarray(prior, dtype=float)
    g = np.asarray(g, dtype=float).reshape(len(prior), -1)
    merged = Merged.by(group := equal_rows(g), prior, Gain.of(prior, g))
    search = _Search(merged.prior, merged.gain, lift_set, gap, time_limit, progress)
    status = None
    try:
        _run(search)
    except KeyboardInterrupt:
        status = "interrupted"
    except TimeLimitError:
        status = "time limit"
    except SolverError as failure:
        search.notes.append(f"{failure}; kept the best design found before")
    if max_reports is not None and len(search.probabilities) > max_reports:
        _limit(search, max_reports)
    search.polish()
    return LiftDesign(
        lifts=search.lifts[:, group],
        probabilities=search.probabilities,
        gain=search.best,
        gain_bound=max(search.bound, search.best),
        duals=search.duals[group] * prior / merged.prior[group],
        iterations=search.iterations,
        seconds=search.elapsed,
        method=search.method,
        status=status or search.status,
        notes=tuple(search.notes),
    )


def _run(search: _Search) -> None:
    n = len(search.prior)
    search.duals = np.zeros(n)
    search.offer(np.ones((1, n)), np.ones(1), "constant")
    if n == 1 or search.lift_set.trivial:
        search.bound = search.best = 0.0
        return
    search.bound = cheap_bound(search.prior, search.gain, search.lift_set)
    # Arcs over all of very many values would be a table of their square; bundles of values serve as a start.
    start = Merged.by(bundles(search.prior, search.gain, _ARC_LIMIT), search.prior, search.gain)
    for order in starting_orders(start.prior, start.gain, search.rng, 4):
        lifts, probabilities = arc_design(start.prior, search.lift_set, order)
        search.offer(lifts[:, start.group], probabilities, "arcs")
    if np.ptp(search.prior) < 1e-15:
        # By symmetry equal duals are best when the gain is symmetric too, and they cost nothing to try.
        search.prove(np.zeros(n))
    search.report()
    if n <= ENUMERATION_LIMIT:
        _enumerate(search)
    else:
        _refine(search)


def _limit(search: _Search, count: int) -> None:
    """At most `count` reports: the better of merging reports and of giving values one of `count` lifts."""
    lifts, weights = few_reports(search.prior, search.lift_set, search.gain, search.lifts, search.probabilities)
    if len(lifts) > count:
        problem = Merged.by(bundles(search.prior, search.gain, count), search.prior, search.gain)
        small = _Search(problem.prior, problem.gain, search.lift_set, search.target_gap, search.deadline, None)
        _run(small)
        grouped = few_reports(small.prior, small.lift_set, small.gain, small.lifts, small.probabilities)
        lifts, weights = merge_reports(lifts, weights, search.gain, count)
        if small.best > weights @ search.gain(lifts) and len(grouped[1]) <= count:
            lifts, weights = grouped[0][:, problem.group], grouped[1]
        search.notes.append(f"limited to {count} reports; without the limit the gain is {search.best:.6g}")
    search.lifts, search.probabilities = lifts, weights


def _refine(search: _Search) -> None:
    """Column generation on finer and finer bundles, each level starting from the columns and duals of the last."""
    n = len(search.prior)
    packs = search.gain.weights is not None and not search.lift_set.has_ratio
    count = _DIRECT_LIMIT if packs else _FIRST_BUNDLES
    while not (search.close or search.late):
        problem = Merged.by(bundles(search.prior, search.gain, count), search.prior, search.gain)
        _generate(search, problem)
        if len(problem.prior) == n:
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
        orders: Order = np.array([search.rng.permutation(n) for _ in range(2 * n)], dtype=np.intp)
        packed = packed_sets(problem.prior, problem.gain, search.lift_set, orders, np.zeros(n))
        lifts = np.concatenate([lifts, packed])
    master.add(lifts, problem.gain(lifts))
    return master


def _enumerate(search: _Search) -> None:
    """All vertices are candidates: the linear program is complete, the bound exact."""
    vertices = all_vertices(search.prior, search.lift_set)
    gains = search.gain(vertices)
    master = _master(search, Merged(np.arange(len(search.prior)), search.prior, search.gain))
    while True:
        weights, duals = master.solve(search.deadline - search.elapsed)
        search.iterations += 1
        surplus = gains - vertices @ duals
        new = np.argsort(-surplus)[:64]
        new = new[surplus[new] > 1e-11 * master.scale]
        if not master.add(vertices[new], gains[new]) or search.late:
            break
    search.notes += master.notes
    search.offer(master.lifts, weights, "all vertices")
    search.prove(duals)
    search.report()


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
    while not (search.close or search.late):
        weights, duals = master.solve(search.deadline - search.elapsed)
        search.iterations += 1
        used, reached = weights > 1e-10, float(weights @ master.gains)
        search.offer(master.lifts[used][:, problem.group], weights[used], method)
        point = pull * centre + (1 - pull) * duals
        lifts = improving(prior, gain, lift_set, point, master.lifts[used], search.rng)
        value = float(point.sum() + (gain(lifts) - lifts @ point).max())
        if value < worth:
            centre, worth = point, value
        surplus = gain(lifts) - lifts @ duals
        good = np.argsort(-surplus)[: max(64, len(prior))]
        good = good[surplus[good] > 1e-9 * master.scale]
        added = master.add(lifts[good], gain(lifts[good]))
        # A level that is left for a finer one need not be solved to the end.
        done = (not added and pull == 0) or (not last and worth - reached < 0.2 * search.target_gap * worth)
        pull = _PULL if added else max(0.0, pull - 0.3)
        # By count and not by the clock, so that the same problem has the same answer.
        if not search.close and (done or search.iterations % _PROOF_EVERY == 0):
            for full in problem.expand_duals(search.prior, search.gain, centre):
                search.prove(full)
        search.report()
        if done:
            break
    search.notes += master.notes
