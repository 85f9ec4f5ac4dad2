"""The one search for the best channel: column generation over a polytope of lifts, with a proof.

    aim "mmse"       maximise  Σ_y λ_y |Fᵀv_y|²,  F = diag(P)(g − E g)           the gain of the posterior mean
    aim "unbiased"   minimise  tr(gᵀ J⁻¹ g) − |E g|²,  J = Σ_y λ_y v_y v_yᵀ      the variance of the unbiased estimate

subject to Σ_y λ_y v_y = 1, λ ≥ 0, v_y in the polytope, with P the nominal prior. The estimate that is unbiased under
every truth weighs report y by gᵀ J⁻¹ v_y; its variance is convex in λ with slope −|Fᵀv|² at report v, F = J⁻¹g. So both
aims are settled by one inner problem, the largest |Fᵀv|² − μ·v: for every μ, every F and every channel,

    gain      ≤  Σ μ + max_v (|Fᵀv|² − μ·v)                          with the F of the aim "mmse"
    variance  ≥  2 tr(Fᵀg) − Σ μ − max_v (|Fᵀv|² − μ·v) − |E g|²     with any F; F = J⁻¹g is best at the optimum

A convex function is largest at a vertex. A `Polytope` is the oracle for this problem: `plain` has the lifts of one
prior under LIP or LDP, `sets` those of a set of priors. Weights of the columns found so far come from a linear program
for the gain, and from Newton's method for the variance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from typing import Literal, Protocol

import numpy as np

from tacit.designs._program.deadline import Deadline, TimeLimitError
from tacit.designs._program.lifts import Array
from tacit.designs._program.master import Master, SolverError, polished
from tacit.mechanism.table import Information

Aim = Literal["unbiased", "mmse"]
Progress = Callable[[float, float], None]

#: Newton's method solves systems of this many values at most.
NEWTON_LIMIT = 200
#: How often what is reached is proved where a proof takes longer than a step.
_PROVED_EVERY = 8
#: Without a proof the search ends when this many steps together gain less than the gap.
_PATIENCE = 3
#: This many columns for each value start a search of several numbers, and this many are added at a time.
_FIRST, _NEW = 8, 8
#: And this many for each value are kept from one step to the next.
_KEPT = 12
#: The share of what was before in the mean of F and μ, and at how many gaps from the end it is looked at.
_PULL, _LATE = 0.7, 8
#: Where Newton's method for the weights stops at the latest.
_NEWTON_STEPS = 80


class Polytope(Protocol):
    """A set of lift vectors, and the oracle for the largest |Fᵀv|² − μ·v over it."""

    @property
    def prior(self) -> Array:
        """P, the nominal prior."""
        ...

    @property
    def method(self) -> str:
        """How vertices are found."""
        ...

    @property
    def proves(self) -> bool:
        """Whether `prove` has a bound."""
        ...

    def start(self) -> tuple[Array, Array]:
        """Lifts and weights of a channel of full rank."""
        ...

    def limits(self) -> tuple[Array, Array]:
        """The least and the largest lift of each value."""
        ...

    def towards(self, slopes: Array) -> Array:
        """Lifts with a large slope·v for each row of `slopes`; none where all lifts are listed."""
        ...

    def price(self, factor: Array, duals: Array, level: float, lifts: Array, deadline: Deadline) -> tuple[Array, float]:
        """Lifts with |Fᵀv|² − μ·v above `level`, the largest first, and a bound of all lifts (inf if not known)."""
        ...

    def prove(self, factor: Array, duals: Array, deadline: Deadline) -> float:
        """An upper bound of |Fᵀv|² − μ·v over all lifts, inf where there is none."""
        ...

    def other_bound(self, g: Array, lifts: Array, weights: Array, deadline: Deadline) -> float:
        """A lower bound of the variance found in another way, 0 where there is none."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A channel as lifts and report probabilities, with the proof of how good it is.

    `value` is the variance of the unbiased estimate (aim "unbiased"), which no channel of the polytope brings below
    `bound`; or the gain of the posterior mean (aim "mmse"), which none brings above `bound`. Both are per respondent
    and under the nominal prior. `duals` (d,) prove a bound again, for |Fᵀ(v−1)|² − μ·v, with F = `factor` (d, m) where
    the aim is "unbiased". `status` is "optimal" (gap at rounding level), "within gap", "time limit", "stalled", "arcs
    only" or "interrupted".
    """

    lifts: Array
    probabilities: Array
    value: float
    bound: float
    aim: Aim
    duals: Array
    factor: Array | None = None
    iterations: int = 0
    seconds: float = 0.0
    method: str
    status: str
    notes: tuple[str, ...] = ()

    @classmethod
    def constant(cls, n: int, aim: Aim) -> Found:
        """The report that is always the same."""
        return cls(
            lifts=np.ones((1, n)), probabilities=np.ones(1), value=0.0, bound=0.0, aim=aim, duals=np.zeros(n),
            method="constant", status="optimal",
        )  # fmt: skip

    @property
    def gap(self) -> float:
        """Relative distance between value and bound."""
        return abs(self.value - self.bound) / max(self.value, self.bound) if self.value != self.bound else 0.0


def unbiased_variance_of(prior: Array, g: Array, lifts: Array, probabilities: Array) -> float:
    """tr(gᵀ J⁻¹ g) − |E g|², infinite if the channel determines g for no truth but the prior."""
    g = np.asarray(g, dtype=float).reshape(len(prior), -1)
    off = g - prior @ g
    information = Information.of(lifts, probabilities)
    return float(information.quadratic(off).sum()) if information.determines(off) else inf


def value_of(prior: Array, g: Array, aim: Aim, lifts: Array, probabilities: Array) -> float:
    """Gain or variance of a channel under the nominal prior."""
    if aim == "unbiased":
        return unbiased_variance_of(prior, g, lifts, probabilities)
    factor = prior[:, None] * (g - prior @ g)
    return float(probabilities @ ((lifts @ factor) ** 2).sum(axis=1))


@dataclass(slots=True, kw_only=True)
class Steps:
    """A search step by step: the best channel and bound so far. "Larger is better": variances have a minus."""

    gap: float
    deadline: Deadline
    progress: Progress | None = None
    aim: Aim = "mmse"
    method: str = ""
    best: float = -inf
    bound: float = inf
    lifts: Array = field(default_factory=lambda: np.empty((0, 0)))
    probabilities: Array = field(default_factory=lambda: np.empty(0))
    duals: Array = field(default_factory=lambda: np.empty(0))
    factor: Array | None = None
    iterations: int = 0
    started: float = field(default_factory=perf_counter)
    notes: list[str] = field(default_factory=list)

    def steps(self) -> str | None:
        """All steps, and what is to be said in the end if it is not the usual."""
        raise NotImplementedError

    def run(self) -> Found:
        """Search until the gap is reached, nothing improves, the deadline passes or a keyboard interrupt comes."""
        status = None
        try:
            status = self.steps()
        except KeyboardInterrupt:
            status = "interrupted"
        except TimeLimitError:
            status = None if self.close else "time limit"
        except SolverError as failure:
            self.notes.append(f"{failure}; kept the best design found before")
        self.finish()
        # Rounding may leave the bound a hair on the wrong side.
        bound = max(self.bound, self.best)
        return Found(
            lifts=self.lifts, probabilities=self.probabilities, value=self._sign * self.best,
            bound=max(self._sign * bound, 0.0), aim=self.aim, duals=self.duals, factor=self.factor,
            iterations=self.iterations, seconds=perf_counter() - self.started, method=self.method,
            status=status or self.status, notes=tuple(self.notes),
        )  # fmt: skip

    def finish(self) -> None:
        """What is left to do for the best channel."""

    @property
    def _sign(self) -> float:
        return 1.0 if self.aim == "mmse" else -1.0

    @property
    def close(self) -> bool:
        """Whether the gap is reached."""
        return self.bound - self.best <= self.gap * abs(self.best)

    @property
    def status(self) -> str:
        """How the search went."""
        if self.bound - self.best <= 1e-7 * abs(self.best):
            return "optimal"
        return "within gap" if self.close else "time limit" if self.deadline.passed else "stalled"

    def report(self) -> None:
        """Call back with the value reached and the bound."""
        if self.progress is not None:
            self.progress(self._sign * self.best, max(self._sign * self.bound, 0.0))


@dataclass(slots=True)
class Search(Steps):
    """The search over a polytope."""

    polytope: Polytope
    g: Array

    def steps(self) -> str | None:
        """From the start of the polytope to the best that its oracle leads to."""
        start = self.polytope.start()
        self.duals, self.method = np.zeros(len(self.g)), self.polytope.method
        self.offer(*start)
        if self.aim == "mmse":
            self._mmse()
        elif len(self.g) > NEWTON_LIMIT:
            self._tighten()
            return None if self.close else "arcs only"
        else:
            self._unbiased(*start)
        return None

    def offer(self, lifts: Array, weights: Array) -> None:
        """Keep a channel if it is the best so far, or as good with fewer reports; Σ λ v = 1 to machine precision."""
        lifts, weights = polished(lifts, weights)
        value = value_of(self.polytope.prior, self.g, self.aim, lifts, weights)
        value = value if self.aim == "mmse" else -value
        fewer = len(weights) < len(self.probabilities) and value > self.best - 1e-12 * abs(self.best)
        if value > self.best or fewer:
            self.best, self.lifts, self.probabilities = value, lifts, weights

    def proved(self, bound: float, duals: Array, factor: Array | None = None) -> None:
        """Keep a bound if it is the best so far, and what proves it."""
        if bound < self.bound:
            self.bound, self.duals, self.factor = bound, duals, factor

    # -- the gain -------------------------------------------------------------------------------------------------

    def _mmse(self) -> None:
        """The best channel for a gain, and its proof, are one linear program."""
        prior = self.polytope.prior
        factor = prior[:, None] * (self.g - prior @ self.g)
        for lifts, weights, duals, bound in self.largest(factor):
            self.iterations += 1
            self.offer(lifts, weights)
            self.proved(bound, duals)
            self.report()
            if self.close or self.deadline.passed:
                return

    def largest(self, factor: Array) -> Iterator[tuple[Array, Array, Array, float]]:
        """Better and better channels for Σ_y λ_y |Fᵀv_y|², with duals and a bound of all channels (inf if not known).

        The linear program over columns found so far, extended by the most improving ones.
        """
        new = np.concatenate([self.polytope.start()[0], self.lifts])
        low, high = self.polytope.limits()
        scale = float(((new @ factor) ** 2).sum(axis=1).max())
        if not scale:
            yield np.ones((1, len(factor))), np.ones(1), np.zeros(len(factor)), 0.0
            return
        master = Master(self.polytope.prior, low, high, scale)
        while master.add(new, ((new @ factor) ** 2).sum(axis=1)):
            weights, duals = master.solve(self.deadline)
            new, most = self.polytope.price(factor, duals, 1e-11 * scale, master.lifts, self.deadline)
            if most == inf and not len(new):
                most = self.polytope.prove(factor, duals, self.deadline)
            yield master.lifts, weights, duals, float(duals.sum()) + most

    # -- the variance ---------------------------------------------------------------------------------------------

    def _unbiased(self, lifts: Array, weights: Array) -> None:
        """Newton's method for the weights of columns found so far, extended by the most improving ones."""
        start, recentred = weights[: 4 * len(self.g)] / weights[: 4 * len(self.g)].sum(), False
        # Work for the last proof.
        late = self.deadline.part(2 / 3)
        centre, climbs = None, False
        # The first columns span everything; without them J may become singular before the end.
        lasting, seen, given = set(keys(lifts[: len(start)])), set[bytes](), len(lifts)
        reached_before = deque([-inf], _PATIENCE)
        lifts, weights = self._in_all_directions(lifts, weights)
        rough = roughest = max(0.1 if len(weights) > given else 0.0, self.gap)
        self._tighten()
        while True:
            weights, mu = newton_weights(lifts, weights, self.g, rough, self.deadline)
            self.iterations += 1
            self.offer(*_trimmed(self.polytope.prior, self.g, lifts, weights, self.gap)[1:])
            factor = np.asarray(np.linalg.solve((lifts * weights[:, None]).T @ lifts, self.g), dtype=np.float64)
            worth = ((lifts @ factor) ** 2).sum(axis=1) - lifts @ mu
            level = float(np.abs(worth).min()) + 1e-9 * abs(self.best)
            # F and μ jump about. What they prove is concave in them, so their mean proves more than most of them.
            centre = (factor, mu) if centre is None else _between(centre, (factor, mu))
            near = self.polytope.price(*centre, -inf, lifts, self.deadline)[0] if climbs else lifts
            new, most = self.polytope.price(factor, mu, level, lifts, self.deadline)
            new = new[: _NEW * lifts.shape[1]]
            # The lifts found say how much can be proved at best. Far from it, weights need not be exact.
            here, there = self._hoped(factor, mu, new), self._hoped(*centre, near) if climbs else inf
            ahead = min(here, there) / abs(self.best) + 1
            climbs = self.polytope.proves and most == inf and ahead < _LATE * self.gap
            fine, rough = rough == self.gap, float(np.clip(ahead / 4, self.gap, roughest))
            ending, at = late.passed or (fine and not len(new)), (factor, mu)
            if most == inf and (ending or (self.iterations % _PROVED_EVERY == 0 and ahead < 2 * self.gap)):
                at = centre if there < here else at
                most = self.polytope.prove(*at, self.deadline)
            self.proved(self._offset(*at) + most, at[1] - 2 * at[0] @ at[0].sum(axis=0), at[0])
            self.report()
            if self.close or late.passed:
                break
            if most < inf and not len(new):  # A proof may come across better lifts.
                new = self.polytope.price(factor, mu, level, lifts, self.deadline)[0][: _NEW * lifts.shape[1]]
            if not (len(new) or fine):
                rough = self.gap
                continue
            if not (len(new) or recentred):
                # Newton's method may rest at an edge where J is singular at the optimum: once more, from the middle.
                weights, recentred = weights / 2, True
                weights[: len(start)] += start / 2
                continue
            if not self.polytope.proves and self.best - reached_before[0] < self.gap * abs(self.best):
                break
            reached_before.append(self.best)
            if not len(new):
                self._best_duals(factor)
                break
            # A column that was dropped and comes back stays for good, so that no two sets of columns alternate.
            again = set(keys(new))
            lasting |= again & seen
            seen |= again
            few = np.sort(weights)[-min(len(weights), _KEPT * lifts.shape[1])]
            keep = (weights > max(_trim(weights), few)) | [one in lasting for one in keys(lifts)]
            lifts = np.concatenate([lifts[keep], new])
            weights = np.concatenate([weights[keep], np.full(len(new), 1e-3 / len(new))])
        self._tighten()

    def _in_all_directions(self, lifts: Array, weights: Array) -> tuple[Array, Array]:
        """Where g has several columns, and less than a histogram: lifts that raise what lies on one side.

        The best ones are often of this kind. Directions are drawn at random where the columns of g, under the prior,
        have the covariance 1.
        """
        prior = self.polytope.prior
        off = self.g - prior @ self.g
        spread, axes = np.linalg.eigh(off.T @ (prior[:, None] * off))
        kept = spread > 1e-12 * spread[-1]
        if not 2 <= kept.sum() < len(prior) - 1:
            return lifts, weights
        white = off @ (axes[:, kept] / np.sqrt(spread[kept]))
        directions = np.random.default_rng(1).normal(size=(_FIRST * len(prior), white.shape[1]))
        new = np.unique(np.round(self.polytope.towards((directions @ white.T) * prior), 12), axis=0)
        if not len(new):
            return lifts, weights
        return np.concatenate([lifts, new]), np.concatenate([weights / 2, np.full(len(new), 0.5 / len(new))])

    def _tighten(self) -> None:
        """A bound found in another way, from the best channel so far."""
        if not self.close:
            other = self.polytope.other_bound(self.g, self.lifts, self.probabilities, self.deadline.part(1 / 6))
            self.bound = min(self.bound, -other)

    def _offset(self, factor: Array, duals: Array) -> float:
        """What has to be added to the largest |Fᵀv|² − μ·v for a bound."""
        mean = float(((self.polytope.prior @ self.g) ** 2).sum())
        return mean - 2 * float((factor * self.g).sum()) + float(duals.sum())

    def _hoped(self, factor: Array, duals: Array, lifts: Array) -> float:
        """The bound if no lift were better than these."""
        worth = ((lifts @ factor) ** 2).sum(axis=1) - lifts @ duals
        return self._offset(factor, duals) + float(worth.max(initial=0.0))

    def _best_duals(self, factor: Array) -> None:
        """The weights are as good as they get but μ is not: the best μ for this F is a linear program."""
        if self.polytope.proves and not self.close:
            for _, _, duals, bound in self.largest(factor):
                bound += self._offset(factor, np.zeros(len(duals)))
                self.proved(bound, duals - 2 * factor @ factor.sum(axis=0), factor)
                if self.close or self.deadline.passed:
                    return


def _between(old: tuple[Array, Array], new: tuple[Array, Array]) -> tuple[Array, Array]:
    """A mean of F and μ, in which what is long past counts little."""
    return _PULL * old[0] + (1 - _PULL) * new[0], _PULL * old[1] + (1 - _PULL) * new[1]


def newton_weights(lifts: Array, weights: Array, g: Array, gap: float, deadline: Deadline) -> tuple[Array, Array]:
    """Newton's method for tr(gᵀ J⁻¹ g) − τ Σ log λ, Σ_y λ_y v_y = 1, as τ falls to a share of the first.

    Returns λ and the multipliers μ of the constraint.
    """
    from scipy.linalg import cho_factor, cho_solve  # slow to import, and needed here only

    n_reports, n = lifts.shape
    tau, mu = inf, np.zeros(n, dtype=np.float64)
    for _ in range(_NEWTON_STEPS):
        deadline.spend(n_reports**2 * (n_reports / 75 + n / 8 + 2))
        scaled = lifts * weights[:, None]
        inverse = np.linalg.inv(scaled.T @ lifts)
        side = lifts @ inverse @ g
        value = float((g * (inverse @ g)).sum())
        tau = min(tau, 0.1 * value / n_reports)
        # Steps in units of λ keep the system well conditioned as weights vanish.
        system = 2 * (scaled @ inverse @ scaled.T) * (side @ side.T)
        system.reshape(-1)[:: n_reports + 1] += tau
        right = np.column_stack([weights * (side**2).sum(axis=1) + tau, scaled])
        try:
            factored = cho_factor(system, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:  # τ is lost in the rounding of the system: these weights are as good as it gets.
            break
        solved = cho_solve(factored, right, check_finite=False)
        right = scaled.T @ solved[:, 0] - (1 - weights @ lifts)
        mu = np.asarray(np.linalg.solve(scaled.T @ solved[:, 1:], right), dtype=np.float64)
        step = solved[:, 0] - solved[:, 1:] @ mu
        shrink = float((-step).max())
        weights = weights * (1 + min(1.0, 0.95 / max(shrink, 1e-12)) * step)
        if shrink < 0.5:
            if n_reports * tau < 0.05 * gap * value:
                break
            tau *= 0.2
    return weights, mu


def _trim(weights: Array) -> float:
    """Weights below this are the barrier's, not the design's."""
    return 1e-2 / len(weights)


def _trimmed(prior: Array, g: Array, lifts: Array, weights: Array, gap: float) -> tuple[float, Array, Array]:
    """The channel without the barrier's reports; where rare reports carry the design, with all but the rarest."""
    designs = []
    for share in (1.0, 1e-3, 1e-6):
        kept = polished(lifts, np.where(weights > share * _trim(weights), weights, 0.0))
        designs.append((unbiased_variance_of(prior, g, *kept), *kept))
    least = min(variance for variance, _, _ in designs)
    return next((design for design in designs if design[0] <= least + gap / 4 * abs(least)), designs[-1])


def keys(lifts: Array) -> list[bytes]:
    """What equal lifts have in common, rounding aside, for each row."""
    return [row.tobytes() for row in np.round(lifts, 10) + 0.0]
