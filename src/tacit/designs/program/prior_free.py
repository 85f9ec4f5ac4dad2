"""The channel whose prior-free estimate varies least, and channels that allow one at all.

The estimate that is unbiased under every truth weighs report y by gᵀ J⁻¹ v_y, J = Σ_y λ_y v_y v_yᵀ. Its
variance per respondent, when the prior is true, is tr(gᵀ J⁻¹ g) - |E g|²:

    minimise  f(λ) = tr(M J⁻¹),  M = g gᵀ,   subject to   Σ_y λ_y v_y = 1,  λ ≥ 0

f is convex with slope -vᵀ B v at report v, B = J⁻¹ M J⁻¹, so for every feasible λ*

    f(λ*)  ≥  2 f(λ) - max over channels of Σ_y λ*_y v_yᵀ B v_y

and that maximum is a gain problem with F = J⁻¹ g, bounded by `bounds`. More generally, for every matrix C,

    f(λ*)  ≥  2 tr(Cᵀg) - Σ_y λ*_y |Cᵀv_y|²

which for g = diag(w) and C = diag(a) + P (wP - a)ᵀ leaves a separable gain problem, with a free to choose:

    variance  ≥  2 Σ_x a_x w_x (1 - P_x) - max over channels of Σ_x a_x² Var v(x)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from operator import itemgetter
from time import perf_counter

import numpy as np

from tacit.designs.program.bounds import TINY, cheap_variance_bound, gain_dual_bound
from tacit.designs.program.columns import arc_design, climb, packed_sets, starting_orders
from tacit.designs.program.gain import Gain, equal_rows
from tacit.designs.program.lifts import Array, LiftSet, all_vertices, best_lifts
from tacit.designs.program.master import polished
from tacit.designs.program.solver import LiftDesign, solve
from tacit.mechanism.information import Information

#: Proofs and designs are compared by what stands first in them.
first = itemgetter(0)
_POOL_LIMIT = 12
_NEWTON_LIMIT = 200
#: How often the variance reached is proved while a search goes on that lists no vertices.
_PROVED_EVERY = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class PriorFreeDesign:
    """A channel for prior-free estimates: no channel in the lift set has variance below `variance_bound`."""

    lifts: Array
    probabilities: Array
    variance: float
    variance_bound: float
    duals: Array
    iterations: int
    seconds: float
    method: str
    status: str
    notes: tuple[str, ...] = ()


def prior_free_variance(prior: Array, g: Array, lifts: Array, probabilities: Array) -> float:
    """tr(gᵀ J⁻¹ g) - |E g|², infinite if the channel determines g for no truth but the prior."""
    g = np.asarray(g, dtype=float).reshape(len(prior), -1)
    off = g - prior @ g
    information = Information.of(lifts, probabilities)
    return float(information.quadratic(off).sum()) if information.determines(off) else inf


def solve_prior_free(
    prior: Array,
    g: Array,
    lift_set: LiftSet,
    *,
    gap: float = 1e-3,
    time_limit: float = 30.0,
    progress: Callable[[float, float], None] | None = None,
) -> PriorFreeDesign:
    """The channel with the smallest prior-free variance for task `g` (d, m), by column generation.

    `progress` sees the variance reached and the bound. An interrupt from the keyboard returns the best so far.

    Up to 12 values every vertex is considered; beyond 200 only mixtures of arcs are (no weights are optimised).
    """
    started = perf_counter()
    prior = np.asarray(prior, dtype=float)
    g = np.asarray(g, dtype=float).reshape(len(prior), -1)
    if len(prior) == 1:
        one = np.ones(1)
        return PriorFreeDesign(
            lifts=np.ones((1, 1)),
            probabilities=one,
            variance=0.0,
            variance_bound=0.0,
            duals=np.zeros(1),
            iterations=0,
            seconds=0.0,
            method="constant",
            status="optimal",
        )
    if lift_set.trivial:
        raise ValueError(
            "A prior-free estimate needs reports that depend on the value. "
            "Got a lift set that allows v = 1 only; hint: epsilon must be positive."
        )
    rng = np.random.default_rng(0)
    lifts, weights = _start(prior, lift_set, rng)
    start, iterations, status, recentred = weights, 0, "arcs only", False
    seen, lasting = set[bytes](), set(keys(lifts))
    pool = all_vertices(prior, lift_set) if len(prior) <= _POOL_LIMIT else None
    best = (prior_free_variance(prior, g, lifts, weights), lifts, weights)
    bound, duals = _separable_bound(prior, g, lift_set, lifts, weights, time_limit / 6), np.zeros(len(prior))
    try:
        while len(prior) <= _NEWTON_LIMIT:
            iterations += 1
            weights, mu = _weights(lifts, weights, g, gap)
            best = min(best, _trimmed(prior, g, lifts, weights, gap), key=first)
            gain, shifted, prove = _certificate(prior, g, lift_set, lifts, weights, mu)
            found = _columns(prior, gain, lift_set, shifted, lifts, pool, rng)
            late = perf_counter() - started > time_limit * 2 / 3
            # Where vertices are not listed, a proof takes longer than a step.
            if pool is not None or late or not len(found) or iterations % _PROVED_EVERY == 0:
                bound, duals = max((bound, duals), (prove(), shifted), key=first)
            if progress is not None:
                progress(best[0], bound)
            if best[0] - bound > gap * best[0] and not (late or len(found)):
                # The weights are as good as they get but μ is not: the best μ for this F is a linear program.
                better = _searched(prior, g, lift_set, lifts, weights, time_limit / 6)
                bound, duals = max((bound, duals), better, key=first)
            if best[0] - bound <= gap * best[0] or late or (recentred and not len(found)):
                bound = max(bound, _separable_bound(prior, g, lift_set, *best[1:], time_limit / 6))
                status = "within gap" if best[0] - bound <= gap * best[0] else "time limit" if late else "stalled"
                break
            if not len(found):
                # Newton's method may rest at an edge where J is singular at the optimum: once more, from the middle.
                weights, recentred = weights / 2, True
                weights[: len(start)] += start / 2
                continue
            # The first columns span everything; without them J may become singular before the end. A column that was
            # dropped and comes back stays for good, so that no two sets of columns alternate.
            again = set(keys(found))
            lasting |= again & seen
            seen |= again
            keep = (weights > _trim(weights)) | [one in lasting for one in keys(lifts)]
            lifts = np.concatenate([lifts[keep], found])
            weights = np.concatenate([weights[keep], np.full(len(found), 1e-3 / len(found))])
    except KeyboardInterrupt:
        status = "interrupted"
    method = "arcs" if iterations == 0 else "all vertices" if pool is not None else "column generation"
    seconds = perf_counter() - started
    return PriorFreeDesign(
        lifts=best[1],
        probabilities=best[2],
        variance=best[0],
        variance_bound=max(bound, 0.0),
        duals=duals,
        iterations=iterations,
        seconds=seconds,
        method=method,
        status=status,
    )


def proven_variance(prior: Array, g: Array, lift_set: LiftSet, lifts: Array, weights: Array, duals: Array) -> float:
    """The variance that no channel in the lift set goes below, as proved by a channel and any `duals` (d,).

    For every matrix F, tr(gᵀ J⁻¹ g) ≥ 2 tr(Fᵀ g) - Σ_y λ_y |Fᵀ v_y|², and the sum is at most
    Σ μ + max_v (|Fᵀ v|² - μ · v). Two choices of F are tried: J⁻¹ g of the given channel, and, where g is
    diagonal, Fᵀ v = a (v - 1) with a = g (1 - P) / Var v. Values that g does not tell apart are taken together:
    averaging over them keeps every lift in the set.
    """
    prior, g, lifts, duals = _told_apart(prior, np.asarray(g, dtype=float).reshape(len(prior), -1), lifts, duals)
    cheap = cheap_variance_bound(prior, g, lift_set)
    if prior.min() < TINY:
        return cheap
    factor = _factor(g, lifts, weights)
    total = factor.sum(axis=0)
    left, scale, _ = np.linalg.svd(factor, full_matrices=False)
    most = gain_dual_bound(prior, Gain(left * scale), lift_set, duals) + float(total @ total)
    bound = float(2 * (factor * g).sum() - most - ((prior @ g) ** 2).sum())
    scales = spread_weights(prior, g, lifts, weights)
    if scales is not None:
        most = gain_dual_bound(prior, Gain(np.empty((len(prior), 0)), scales**2), lift_set, duals)
        bound = max(bound, float(2 * (scales * np.diag(g)) @ (1 - prior) - most))
    return max(bound, cheap)


def _factor(g: Array, lifts: Array, weights: Array) -> Array:
    """F = J⁻¹ g. Any F proves something, so a singular J may be inverted where it can be."""
    moment = (lifts * weights[:, None]).T @ lifts
    return np.asarray(np.linalg.pinv(moment, rcond=1e-10, hermitian=True) @ g)


def _told_apart(prior: Array, g: Array, lifts: Array, duals: Array) -> tuple[Array, Array, Array, Array]:
    """The same problem with the values of each different row of g as one."""
    group = equal_rows(g)
    if len(group) == group.max() + 1:
        return prior, g, lifts, duals
    member = (group[:, None] == np.arange(group.max() + 1)).astype(float)
    mass = prior @ member
    rows = np.zeros((member.shape[1], g.shape[1]))
    rows[group] = g
    return mass, rows, (lifts * prior) @ member / mass, duals @ member


def spread_weights(prior: Array, g: Array, lifts: Array, weights: Array) -> Array | None:
    """a = g (1 - P) / Var v for a diagonal task, None for others."""
    if g.shape[0] != g.shape[1] or np.count_nonzero(g - np.diag(np.diag(g))):
        return None
    return np.asarray(np.diag(g) * (1 - prior) / np.maximum(weights @ (lifts - 1) ** 2, 1e-9))


def proving_duals(
    prior: Array, g: Array, lift_set: LiftSet, lifts: Array, weights: Array, duals: Array, gap: float = 1e-3
) -> tuple[float, Array]:
    """The best proven variance for a finished channel, and the duals that prove it."""
    g = np.asarray(g, dtype=float).reshape(len(prior), -1)
    proofs = [(proven_variance(prior, g, lift_set, lifts, weights, duals), duals)]
    scales = spread_weights(prior, g, lifts, weights)
    if scales is not None and prior.min() >= TINY:
        other = solve(prior, np.diag(scales / prior), lift_set, gap=1e-4, time_limit=10.0).duals
        proofs.append((proven_variance(prior, g, lift_set, lifts, weights, other), other))
    reached = prior_free_variance(prior, g, lifts, weights)
    if prior.min() >= TINY and reached - max(proofs, key=first)[0] > gap * reached:
        # Duals of the search are for its own F; those for the finished channel's are a linear program.
        other = solve(prior, _factor(g, lifts, weights) / prior[:, None], lift_set, gap=1e-6, time_limit=5.0).duals
        proofs.append((proven_variance(prior, g, lift_set, lifts, weights, other), other))
    return max(proofs, key=first)


def _start(prior: Array, lift_set: LiftSet, rng: np.random.Generator) -> tuple[Array, Array]:
    """Arcs in several orders, mixed equally: feasible, every weight positive, and of full rank in practice."""
    histogram = Gain(np.empty((len(prior), 0)), prior**2)
    orders = starting_orders(prior, histogram, rng, 4 if len(prior) <= 60 else 2)
    designs = [arc_design(prior, lift_set, order) for order in orders]
    return np.concatenate([v for v, _ in designs]), np.concatenate([w for _, w in designs]) / len(designs)


def _trim(weights: Array) -> float:
    """Weights below this are the barrier's, not the design's."""
    return 1e-2 / len(weights)


def _trimmed(prior: Array, g: Array, lifts: Array, weights: Array, gap: float) -> tuple[float, Array, Array]:
    """The channel without the barrier's reports; where rare reports carry the design, with all but the rarest."""
    designs = []
    for share in (1.0, 1e-3, 1e-6):
        kept = polished(lifts, np.where(weights > share * _trim(weights), weights, 0.0))
        designs.append((prior_free_variance(prior, g, *kept), *kept))
    least = min(variance for variance, _, _ in designs)
    return next((design for design in designs if design[0] <= least + gap / 4 * abs(least)), designs[-1])


def _separable_bound(
    prior: Array, g: Array, lift_set: LiftSet, lifts: Array, weights: Array, time_limit: float
) -> float:
    """The bound for g = diag(w), with a = w (1 - P) / Var v taken from a design; no bound (0) for other tasks."""
    a = spread_weights(prior, g, lifts, weights)
    if a is None:
        return 0.0
    most = solve(prior, np.diag(a / prior), lift_set, gap=1e-4, time_limit=time_limit).gain_bound
    return float(2 * (a * np.diag(g)) @ (1 - prior) - most)


def _certificate(
    prior: Array, g: Array, lift_set: LiftSet, lifts: Array, weights: Array, mu: Array
) -> tuple[Gain, Array, Callable[[], float]]:
    """The gain |Fᵀ(v-1)|² with F = J⁻¹ g, duals that turn it into vᵀBv - μ·v, and what proves a variance by them."""
    factor = np.linalg.solve((lifts * weights[:, None]).T @ lifts, g)
    total = factor.sum(axis=0)
    constant = float(total @ total)
    duals = mu - 2 * factor @ total + constant * prior
    left, scale, _ = np.linalg.svd(factor, full_matrices=False)
    gain = Gain(left * scale)

    def prove() -> float:
        most = gain_dual_bound(prior, gain, lift_set, duals) + constant
        return float(2 * (factor * g).sum() - most - ((prior @ g) ** 2).sum())

    return gain, duals, prove


def _searched(
    prior: Array, g: Array, lift_set: LiftSet, lifts: Array, weights: Array, time_limit: float
) -> tuple[float, Array]:
    """The variance that F = J⁻¹ g proves with the best duals there are, and these."""
    factor = np.linalg.solve((lifts * weights[:, None]).T @ lifts, g)
    most = solve(prior, factor / prior[:, None], lift_set, gap=1e-6, time_limit=time_limit)
    constant = float((factor.sum(axis=0) ** 2).sum())
    return float(2 * (factor * g).sum() - most.gain_bound - constant - ((prior @ g) ** 2).sum()), most.duals


def keys(lifts: Array) -> list[bytes]:
    """What equal lifts have in common, rounding aside, for each row."""
    return [row.tobytes() for row in np.round(lifts, 10) + 0.0]


def _weights(lifts: Array, weights: Array, g: Array, gap: float) -> tuple[Array, Array]:
    """Newton's method for f(λ) - τ Σ log λ, Σ_y λ_y v_y = 1, as τ falls to a share of f.

    Returns λ and the multipliers μ of the constraint.
    """
    n_reports, n = lifts.shape
    tau, mu = inf, np.zeros(n)
    system = np.zeros((n_reports + n, n_reports + n))
    diagonal = system.reshape(-1)[:: n_reports + n + 1][:n_reports]
    for _ in range(80):
        scaled = lifts * weights[:, None]
        inverse = np.linalg.inv(scaled.T @ lifts)
        side = lifts @ inverse @ g
        value = float((g * (inverse @ g)).sum())
        tau = min(tau, 0.1 * value / n_reports)
        # Steps in units of λ keep the system well conditioned as weights vanish.
        system[:n_reports, :n_reports] = 2 * (scaled @ inverse @ scaled.T) * (side @ side.T)
        diagonal += tau
        system[:n_reports, n_reports:], system[n_reports:, :n_reports] = scaled, scaled.T
        right = np.concatenate([weights * (side**2).sum(axis=1) + tau, 1 - weights @ lifts])
        solution = np.linalg.solve(system, right)
        step, mu = solution[:n_reports], solution[n_reports:]
        shrink = float((-step).max())
        weights = weights * (1 + min(1.0, 0.95 / max(shrink, 1e-12)) * step)
        if shrink < 0.5:
            if n_reports * tau < 0.05 * gap * value:
                break
            tau *= 0.2
    return weights, mu


def _columns(
    prior: Array, gain: Gain, lift_set: LiftSet, duals: Array, lifts: Array, pool: Array | None,
    rng: np.random.Generator,
) -> Array:  # fmt: skip
    """Lifts whose vᵀBv - μ·v is positive, the largest first."""
    if pool is None:
        noise = best_lifts(prior, lift_set, rng.normal(size=(256, len(prior))) * prior)
        starts = [lifts, noise]
        if not lift_set.has_ratio:
            orders = np.argsort(rng.random((256, len(prior))), axis=1)
            starts.append(packed_sets(prior, gain, lift_set, orders, np.zeros(len(prior))))
        pool = climb(prior, gain, lift_set, duals, np.concatenate(starts), steps=8)
        pool = np.unique(np.round(pool, 12), axis=0)
    surplus = gain(pool) - pool @ duals
    level = float(np.abs(gain(lifts) - lifts @ duals).min())
    best = np.argsort(-surplus)[: len(prior)]
    return np.asarray(pool[best[surplus[best] > level + 1e-9 * abs(float(gain(lifts).max()))]])


def solve_invertible(
    prior: Array,
    g: Array,
    lift_set: LiftSet,
    *,
    inflation: float = 4.0,
    gap: float = 5e-3,
    time_limit: float = 30.0,
) -> LiftDesign:
    """The optimal channel for `g`, mixed with just enough of a prior-free one to be invertible.

    The share θ of the prior-free channel is the smallest for which the prior-free variance of the whole histogram
    is at most `inflation` times the least possible; the gain paid is θ times the difference in gain.
    """
    best = solve(prior, g, lift_set, gap=gap, time_limit=time_limit / 2)
    identity = np.eye(len(prior))
    # Only mixed in, so it need not be the best of its kind.
    free = solve_prior_free(prior, identity, lift_set, gap=1e-2, time_limit=min(4.0, time_limit / 2))
    limit = inflation * free.variance
    lifts = np.concatenate([best.lifts, free.lifts])

    def mixed(theta: float) -> Array:
        return np.concatenate([(1 - theta) * best.probabilities, theta * free.probabilities])

    low, high = 0.0, 1.0
    if prior_free_variance(prior, identity, best.lifts, best.probabilities) <= limit:
        return replace(best, notes=(*best.notes, "invertible as it is; no gain was paid"))
    while high - low > 1e-4:
        middle = (low + high) / 2
        fits = prior_free_variance(prior, identity, lifts, mixed(middle)) <= limit
        low, high = (low, middle) if fits else (middle, high)
    weights = mixed(high)
    value = float(weights @ Gain.of(prior, g)(lifts))
    note = f"{high:.4f} of a prior-free channel mixed in; gain paid {best.gain - value:.6g} of {best.gain:.6g}"
    return replace(
        best, lifts=lifts, probabilities=weights, gain=value, method=f"{best.method}, mixed", notes=(*best.notes, note),
        seconds=best.seconds + free.seconds,
    )  # fmt: skip
