"""The best channel whose promise holds for every prior of a set.

The problem is that of `solver` and `prior_free`, over the lifts V(U) of `robust_lifts` instead of those of one prior:

    aim "mmse"       maximise  Σ_y λ_y |F'v_y|²,  F = diag(P)(g − E g)    the gain of the posterior mean
    aim "unbiased"   minimise  tr(g' J⁻¹ g) − |E g|²,  J = Σ_y λ_y v_y v_y'    the variance of the unbiased estimate

subject to Σ_y λ_y v_y = 1, λ ≥ 0, v_y ∈ V(U), with P the nominal prior. Both are settled by one inner problem, the
largest |F'v|² − μ·v over V(U), a convex function and so largest at a vertex: for every μ, every F and every channel,

    gain      ≤  Σ μ + max_v (|F'v|² − μ·v)                          with the F above
    variance  ≥  2 tr(F'g) − Σ μ − max_v (|F'v|² − μ·v) − |E g|²     with any F; F = J⁻¹g is best at the optimum

For a ball, a box and a hull of few candidates all vertices are listed, so the optimum is found and proved. For a larger
hull columns are found by climbing, and the bound is proved over a larger set of lifts (see `robust_climb`). For a ball
or a box of more than twelve values columns are found by climbing as well, and no bound is proved: the search ends
when it gains next to nothing.

LDP's columns are in V(U) whatever U is, and so no design is worse than the best LDP one; a smaller U has more lifts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf
from time import perf_counter
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.designs.program.gain import equal_rows
from tacit.designs.program.lifts import Array
from tacit.designs.program.master import Master, polished
from tacit.designs.program.prior_free import _trim, _trimmed, _weights, keys, prior_free_variance
from tacit.designs.program.robust_climb import HullClimber, NestedClimber
from tacit.designs.program.robust_lifts import RobustLifts
from tacit.prior.sets import Hull, PriorSet

Aim = Literal["unbiased", "mmse"]
Progress = Callable[[float, float], None]

#: Vertices are listed for up to this many values that the task tells apart; their number grows as 3^d.
MOST_VALUES = 12
#: And climbed to, without a proof, of so many: it takes some seconds, and time grows as d³.
MOST_CLIMBED = 32
#: How many columns to look at again before all are, how many to climb from, and how many to add at a time.
_SHORT, _CLIMBS, _COLUMNS = 2048, 48, 64
#: Without a bound the search ends when so many steps together gain less than the gap.
_PATIENCE = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class RobustDesign:
    """A channel as lifts and report probabilities, with the proof of how good it is.

    `value` is the variance of the unbiased estimate (aim "unbiased"), which no channel that keeps the promise for the
    set brings below `bound`; or the gain of the posterior mean (aim "mmse"), which none brings above `bound`. Both are
    per respondent and under the nominal prior. `lifts` has a column for each value of the prior's support.
    `status` is "optimal", "within gap", "stalled", "time limit" or "interrupted".
    """

    lifts: Array
    probabilities: Array
    value: float
    bound: float
    aim: Aim
    iterations: int
    seconds: float
    method: str
    status: str
    notes: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """Relative distance between value and bound."""
        return abs(self.value - self.bound) / max(self.value, self.bound) if self.value != self.bound else 0.0


def solve_robust(
    prior_set: PriorSet,
    g: Array,
    epsilon: float,
    *,
    aim: Aim = "unbiased",
    gap: float = 1e-4,
    time_limit: float = 30.0,
    progress: Progress | None = None,
) -> RobustDesign:
    """The best channel for task `g` (d, m), a row for each value of the support, ε-LIP for every prior of the set.

    `progress` sees the value reached and the bound. An interrupt from the keyboard returns the best so far. Values with
    equal rows of g get one lift where the set allows that without loss.

    >>> from tacit.prior import Prior
    >>> from tacit.prior.sets import Ball
    >>> design = solve_robust(Ball(Prior.of({"yes": 0.41, "no": 0.59}), 0.03), np.eye(2), 1.0, aim="mmse")
    >>> round(design.value, 4), design.method, design.status
    (0.1848, 'closed form', 'optimal')
    """
    started = perf_counter()
    support = prior_set.prior.support
    g = np.asarray(g, dtype=float).reshape(len(support), -1)
    if aim not in get_args(Aim):
        raise ValueError(f"The 'aim' must be 'unbiased' or 'mmse'. Got {aim!r} instead.")
    if not 0 <= epsilon < inf:
        raise ValueError(f"The 'epsilon' must be finite and not negative. Got {epsilon} instead.")
    merged, group = _merged(prior_set, g)
    n = len(merged.prior)
    rows = np.zeros((n, g.shape[1]))
    rows[group] = g
    if n > (most := _most_values(merged, aim)):
        raise ValueError(f"A design for a set of priors needs a task that tells at most {most} values apart. Got {n}.")
    if n == 1 or epsilon == 0:
        if n > 1 and aim == "unbiased":
            raise ValueError("An unbiased estimate needs reports that depend on the value. Got epsilon = 0.")
        found = RobustDesign(
            lifts=np.ones((1, n)),
            probabilities=np.ones(1),
            value=0.0,
            bound=0.0,
            aim=aim,
            iterations=0,
            seconds=0.0,
            method="constant",
            status="optimal",
        )
    elif n == 2:
        found = _pair(merged, rows, epsilon, aim)
    else:
        found = _Search(RobustLifts(merged, epsilon), rows, aim, gap, started + time_limit, progress).run()
    return replace(found, lifts=found.lifts[:, group], seconds=perf_counter() - started)


def values_searched(prior_set: PriorSet, g: Array, aim: Aim) -> int | None:
    """How many values a search tells apart: those of the task, where the set allows that without loss, or else all that
    are possible; None if they are too many.
    """
    merged, _ = _merged(prior_set, g)
    return len(merged.prior) if len(merged.prior) <= _most_values(merged, aim) else None


def _most_values(merged: PriorSet, aim: Aim) -> int:
    return MOST_VALUES if aim == "mmse" or isinstance(merged, Hull) else MOST_CLIMBED


def _merged(prior_set: PriorSet, g: Array) -> tuple[PriorSet, NDArray[np.intp]]:
    """The set over values that the task tells apart, or else over the support; and the group of each value there."""
    support = prior_set.prior.support
    for group in (equal_rows(g), np.arange(len(support), dtype=np.intp)):
        # Impossible values may join any group: they carry no mass.
        groups = [int(group[0])] * len(prior_set.prior)
        for x, label in zip(support, group, strict=True):
            groups[x] = int(label)
        merged = prior_set.merged(groups)
        if merged is not None:
            return merged, group
    raise AssertionError("Leaving out impossible values changes no set.")


def value_of(prior: Array, g: Array, aim: Aim, lifts: Array, probabilities: Array) -> float:
    """Gain or variance of a channel under the nominal prior."""
    if aim == "unbiased":
        return prior_free_variance(prior, g, lifts, probabilities)
    factor = prior[:, None] * (g - prior @ g)
    return float(probabilities @ ((lifts @ factor) ** 2).sum(axis=1))


def _pair(prior_set: PriorSet, g: Array, epsilon: float, aim: Aim) -> RobustDesign:
    """Two values: any set is an interval [a, b] of P'_1, V(U) is a segment, and its two ends are the best reports.

    With t = v_1/v_0 the ends are t⁺ = min(E(1−a)/(1−Ea) if Ea < 1, (E−1+b)/b) and
    t⁻ = max((1−E(1−b))/(Eb), (1−a)/(E−a)).
    """
    e, prior = float(np.exp(epsilon)), prior_set.prior.probabilities
    a, b = (float(end) for end in prior_set.extremes([0, 1]))
    above = min(e * (1 - a) / (1 - e * a) if e * a < 1 else inf, (e - 1 + b) / b)
    below = max((1 - e * (1 - b)) / (e * b), (1 - a) / (e - a))
    lifts = np.array([[1.0, above], [1.0, below]])
    lifts /= (lifts @ prior)[:, None]
    rise, fall = lifts[0, 1] - 1, 1 - lifts[1, 1]
    probabilities = np.array([fall, rise]) / (rise + fall)
    value = value_of(prior, g, aim, lifts, probabilities)
    return RobustDesign(
        lifts=lifts,
        probabilities=probabilities,
        value=value,
        bound=value,
        aim=aim,
        iterations=0,
        seconds=0.0,
        method="closed form",
        status="optimal",
    )


@dataclass(slots=True)
class _Search:
    """Best design and bound so far; everything is written for "larger is better", variances with a minus."""

    polytope: RobustLifts
    g: Array
    aim: Aim
    gap: float
    deadline: float
    progress: Progress | None
    best: float = -inf
    bound: float = inf
    lifts: Array = field(default_factory=lambda: np.empty((0, 0)))
    probabilities: Array = field(default_factory=lambda: np.empty(0))
    iterations: int = 0
    pool: Array = field(default_factory=lambda: np.empty((0, 0)))
    short: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    climber: HullClimber | NestedClimber | None = None

    def run(self) -> RobustDesign:
        if not isinstance(self.polytope.prior_set, Hull) and len(self.g) > MOST_VALUES:
            self.climber = NestedClimber(self.polytope)
        elif (vertices := self.polytope.vertices) is None:
            self.pool, self.climber = self.polytope.candidates(), HullClimber(self.polytope)
        else:
            self.pool = vertices
        self.offer(*self.polytope.pairs)
        status = None
        try:
            (self._unbiased if self.aim == "unbiased" else self._mmse)()
        except KeyboardInterrupt:
            status = "interrupted"
        sign = 1.0 if self.aim == "mmse" else -1.0
        method = "all vertices" if self.climber is None else "climbing"
        # Rounding may leave the bound a hair on the wrong side.
        bound = max(self.bound, self.best)
        return RobustDesign(
            lifts=self.lifts,
            probabilities=self.probabilities,
            value=sign * self.best,
            bound=max(sign * bound, 0.0),
            aim=self.aim,
            iterations=self.iterations,
            seconds=0.0,
            method=method,
            status=status or self.status,
        )

    @property
    def close(self) -> bool:
        return self.bound - self.best <= self.gap * abs(self.best)

    @property
    def late(self) -> bool:
        return perf_counter() > self.deadline

    @property
    def status(self) -> str:
        if self.bound - self.best <= 1e-7 * abs(self.best):
            return "optimal"
        return "within gap" if self.close else "time limit" if self.late else "stalled"

    def offer(self, lifts: Array, weights: Array) -> None:
        """Keep a channel if it is the best so far, with Σ λ v = 1 to machine precision."""
        lifts, weights = polished(lifts, weights)
        value = value_of(self.polytope.prior, self.g, self.aim, lifts, weights)
        value = value if self.aim == "mmse" else -value
        if value > self.best:
            self.best, self.lifts, self.probabilities = value, lifts, weights

    def price(self, factor: Array, duals: Array, level: float, lifts: Array) -> tuple[Array, float]:
        """Lifts beside those in use with |F'v|² − μ·v above `level`, the largest first, and a bound of them all (inf
        if not sought).

        Looked for where they are cheap first: among those that were good a moment ago, among all that are listed, and
        by climbing. Where nothing is listed, by climbing from those in use.
        """
        known = set(keys(lifts))
        if isinstance(self.climber, NestedClimber):
            return self._above(self.climber.climb(factor, duals, lifts), factor, duals, level, known)[0], inf
        new, _ = self._above(self.pool[self.short], factor, duals, level, known)
        if len(new):
            return new, inf
        new, worth = self._above(self.pool, factor, duals, level, known)
        self.short = largest(worth, _SHORT)
        if self.climber is None:
            most = float(worth.max())
            return new, most + 1e-13 * (float(np.abs(duals).sum()) + abs(most))
        if len(new):
            return new, inf
        climbed = self.climber.climb(factor, duals, self.pool[self.short[:_CLIMBS]])
        self.pool = np.concatenate([self.pool, climbed])
        return self._above(climbed, factor, duals, level, known)[0], self.climber.bound(factor, duals)

    @staticmethod
    def _above(lifts: Array, factor: Array, duals: Array, level: float, known: set[bytes]) -> tuple[Array, Array]:
        worth = ((lifts @ factor) ** 2).sum(axis=1) - lifts @ duals
        found = largest(worth, _COLUMNS)
        best = lifts[found[worth[found] > level]]
        return best[[one not in known for one in keys(best)]], worth

    def report(self) -> None:
        if self.progress is not None:
            sign = 1.0 if self.aim == "mmse" else -1.0
            self.progress(sign * self.best, max(sign * self.bound, 0.0))

    def _mmse(self) -> None:
        """The best channel for a gain, and its proof, are one linear program."""
        prior = self.polytope.prior
        factor = prior[:, None] * (self.g - prior @ self.g)
        for lifts, weights, most in self._largest(factor):
            self.iterations += 1
            self.offer(lifts, weights)
            self.bound = min(self.bound, most)
            self.report()
            if self.close or self.late:
                break

    def _largest(self, factor: Array) -> Iterator[tuple[Array, Array, float]]:
        """Better and better channels for Σ_y λ_y |F'v_y|², each with a bound of all channels (inf if not sought).

        The linear program over columns found so far, extended by the most improving ones.
        """
        scale = float(((self.pool @ factor) ** 2).sum(axis=1).max())
        if not scale:
            yield np.ones((1, len(factor))), np.ones(1), 0.0
            return
        master = Master(self.polytope.prior, self.pool.min(axis=0), self.pool.max(axis=0), scale)
        new = np.concatenate([self.polytope.pairs[0], self.lifts])
        while master.add(new, ((new @ factor) ** 2).sum(axis=1)):
            weights, duals = master.solve(max(self.deadline - perf_counter(), 0.1))
            new, most = self.price(factor, duals, 1e-11 * scale, master.lifts)
            yield master.lifts, weights, float(duals.sum()) + most

    def _unbiased(self) -> None:
        """Newton's method for the weights of columns found so far, extended by the most improving ones."""
        lifts, weights = self.polytope.pairs
        start, recentred = weights, False
        mean = float(((self.polytope.prior @ self.g) ** 2).sum())
        # The first columns span everything; without them J may become singular before the end.
        lasting = set(keys(lifts))
        seen: set[bytes] = set()
        reached_before = deque([-inf], _PATIENCE)
        while True:
            weights, mu = _weights(lifts, weights, self.g, self.gap)
            self.iterations += 1
            used = weights > _trim(weights)
            self.offer(*_trimmed(self.polytope.prior, self.g, lifts, weights, self.gap)[1:])
            factor = np.asarray(np.linalg.solve((lifts * weights[:, None]).T @ lifts, self.g), dtype=np.float64)
            level = float(np.abs(((lifts @ factor) ** 2).sum(axis=1) - lifts @ mu).min()) + 1e-9 * abs(self.best)
            known = keys(lifts)
            new, most = self.price(factor, mu, level, lifts)
            new = new[: 2 * lifts.shape[1]]
            reached = mean - 2 * float((factor * self.g).sum())
            self.bound = min(self.bound, reached + most + float(mu.sum()))
            self.report()
            if not (len(new) or self.close or self.late or recentred):
                # Newton's method may rest at an edge where J is singular at the optimum: once more, from the middle.
                weights, recentred = weights / 2, True
                weights[: len(start)] += start / 2
                continue
            if isinstance(self.climber, NestedClimber):
                if self.best - reached_before[0] < self.gap * abs(self.best) or self.late or not len(new):
                    return
                reached_before.append(self.best)
            elif not (len(new) or self.close):
                # The weights are as good as they get but μ is not: the best μ for this F is a linear program.
                self.bound = min(self.bound, *(reached + bound for _, _, bound in self._largest(factor)))
            if self.close or self.late or not len(new):
                return
            # A column that was dropped and comes back stays for good, so that no two sets of columns alternate.
            again = set(keys(new))
            lasting |= again & seen
            seen |= again
            keep = used | [one in lasting for one in known]
            lifts = np.concatenate([lifts[keep], new])
            weights = np.concatenate([weights[keep], np.full(len(new), 1e-3 / len(new))])


def largest(worth: Array, count: int) -> NDArray[np.intp]:
    """The places of the `count` largest entries, the largest first.

    >>> largest(np.array([3.0, 9.0, 5.0]), 2).tolist()
    [1, 2]
    """
    found = np.argpartition(-worth, count)[:count] if count < len(worth) else np.arange(len(worth))
    return np.asarray(found[np.argsort(-worth[found])])
