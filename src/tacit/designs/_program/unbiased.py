"""Channels of least unbiased variance under LIP or LDP for one prior, and what a finished one proves.

For g = diag(w) there is a bound beside that of `search`, often a better one: for every matrix C,
tr(gᵀJ⁻¹g) ≥ 2 tr(Cᵀg) − Σ_y λ_y |Cᵀv_y|², which with C = diag(a) + P (wP − a)ᵀ leaves a separable gain problem, a being
free to choose:

    variance  ≥  2 Σ_x a_x w_x (1 − P_x) − max over channels of Σ_x a_x² Var v(x)
"""

from __future__ import annotations

from operator import itemgetter

import numpy as np

from tacit.designs._program.bounds import TINY, WIDE_LIMIT, cheap_variance_bound, gain_dual_bound, is_wide
from tacit.designs._program.columns import PlainLifts
from tacit.designs._program.deadline import Deadline
from tacit.designs._program.gain import Gain, equal_rows
from tacit.designs._program.lifts import Array, LiftSet
from tacit.designs._program.search import Found, Progress, Search, unbiased_variance_of
from tacit.designs._program.solver import solve

#: All vertices are listed up to this many values.
_LISTED = 12
#: Where vertices are listed, steps are so quick that the search goes on to this gap.
_LISTED_GAP = 2e-6
#: Time limit for the proof of a finished channel, and by the search's own F, which may have to branch.
_PROOF_SECONDS, _BRANCHED_SECONDS = 10.0, 60.0
_first = itemgetter(0)


class _WithSeparableBound(PlainLifts):
    """The lifts of one prior, with the bound for g = diag(w)."""

    def other_bound(self, g: Array, lifts: Array, weights: Array, deadline: Deadline) -> float:
        """The module's bound for g = diag(w), with a = w (1 − P) / Var v taken from a channel; else the cheap one."""
        if not self.proves:
            return 0.0
        a = spread_weights(self.prior, g, lifts, weights)
        if a is None:
            return cheap_variance_bound(self.prior, g, self.lift_set)
        most = solve(self.prior, np.diag(a / self.prior), self.lift_set, gap=1e-4, time_limit=deadline).bound
        return float(2 * (a * np.diag(g)) @ (1 - self.prior) - most)


def solve_unbiased(
    prior: Array,
    g: Array,
    lift_set: LiftSet,
    *,
    gap: float = 1e-3,
    time_limit: float | Deadline = 30.0,
    progress: Progress | None = None,
    proves: bool = True,
) -> Found:
    """The channel with the least unbiased variance for task `g` (d, m).

    Without `proves` the search of many values ends once a few steps together gain less than the gap.
    `progress` sees the variance reached and the bound. An interrupt from the keyboard returns the best so far. Up to 12
    values (16, for many columns) every vertex is considered; beyond 200 only mixtures of arcs are (no weights are
    optimised).
    """
    prior = np.asarray(prior, dtype=float)
    g = np.asarray(g, dtype=float).reshape(len(prior), -1)
    if len(prior) == 1:
        return Found.constant(1, "unbiased")
    if lift_set.trivial:
        raise ValueError(
            "An unbiased estimate needs reports that depend on the value. "
            "Got a lift set that allows v = 1 only; hint: epsilon must be positive."
        )
    if len(prior) <= _LISTED:
        gap = min(gap, _LISTED_GAP)
    diagonal = g.shape[0] == g.shape[1] and not np.count_nonzero(g - np.diag(np.diag(g)))
    listed = WIDE_LIMIT if not diagonal and is_wide(g - prior @ g) else _LISTED
    return Search(
        _WithSeparableBound(prior, lift_set, listed, proves=proves),
        g,
        aim="unbiased",
        gap=gap,
        deadline=Deadline.after(time_limit),
        progress=progress,
    ).run()


def proven_variance(
    prior: Array,
    g: Array,
    lift_set: LiftSet,
    lifts: Array,
    weights: Array,
    duals: Array,
    deadline: Deadline | None = None,
) -> float:
    """The variance that no channel in the lift set goes below, as proved by a channel and any `duals`.

    Two choices of F are tried: J⁻¹g of the given channel, and, where g is diagonal, Fᵀv = a (v − 1) with
    a = g (1 − P) / Var v. Where the duals are μ (d,) and then F (d, m), that F is taken: with a singular J the given
    channel does not determine the best one. Values that g does not tell apart are taken together: averaging over them
    keeps every lift in the set.
    """
    n, g = len(prior), np.asarray(g, dtype=float).reshape(len(prior), -1)
    duals, stored = duals[:n], duals[n:].reshape(-1, g.shape[1])
    prior, g, lifts, duals, stored = _distinct(prior, g, lifts, duals, stored)
    cheap = cheap_variance_bound(prior, g, lift_set)
    if prior.min() < TINY:
        return cheap
    deadline = Deadline() if deadline is None else deadline
    factor = stored if len(stored) else _factor(g, lifts, weights)
    total = factor.sum(axis=0)
    left, scale, _ = np.linalg.svd(factor, full_matrices=False)
    most = gain_dual_bound(prior, Gain(left * scale), lift_set, duals, deadline) + float(total @ total)
    bound = float(2 * (factor * g).sum() - most - ((prior @ g) ** 2).sum())
    scales = spread_weights(prior, g, lifts, weights)
    if scales is not None:
        most = gain_dual_bound(prior, Gain(np.empty((len(prior), 0)), scales**2), lift_set, duals, deadline)
        bound = max(bound, float(2 * (scales * np.diag(g)) @ (1 - prior) - most))
    return max(bound, cheap)


def _factor(g: Array, lifts: Array, weights: Array) -> Array:
    """F = J⁻¹ g. Any F proves something, so a singular J may be inverted where it can be."""
    moment = (lifts * weights[:, None]).T @ lifts
    return np.asarray(np.linalg.pinv(moment, rcond=1e-10, hermitian=True) @ g)


def _distinct(
    prior: Array, g: Array, lifts: Array, duals: Array, factor: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """The same problem with the values of each different row of g as one."""
    group = equal_rows(g)
    if len(group) == group.max() + 1:
        return prior, g, lifts, duals, factor
    member = (group[:, None] == np.arange(group.max() + 1)).astype(float)
    mass = prior @ member
    rows = np.zeros((member.shape[1], g.shape[1]))
    rows[group] = g
    # F'v of lifts that are equal within groups.
    together = member.T @ factor if len(factor) else factor
    return mass, rows, (lifts * prior) @ member / mass, duals @ member, together


def spread_weights(prior: Array, g: Array, lifts: Array, weights: Array) -> Array | None:
    """a = g (1 − P) / Var v for a diagonal task, None for others."""
    if g.shape[0] != g.shape[1] or np.count_nonzero(g - np.diag(np.diag(g))):
        return None
    return np.asarray(np.diag(g) * (1 - prior) / np.maximum(weights @ (lifts - 1) ** 2, 1e-9))


def proving_duals(
    prior: Array,
    g: Array,
    lift_set: LiftSet,
    lifts: Array,
    weights: Array,
    duals: Array,
    gap: float = 1e-3,
    deadline: Deadline | None = None,
    factor: Array | None = None,
) -> tuple[float, Array]:
    """The best proven variance for a finished channel, and the duals that prove it.

    `factor` is the F of a search, to go with `duals`: where it proves more than the finished channel's it is a part of
    the duals that are returned. Up to 12 values the finished channel usually proves enough. If its J is nearly
    singular, `factor` is needed there, too.
    """
    g = np.asarray(g, dtype=float).reshape(len(prior), -1)
    until = (Deadline() if deadline is None else deadline).part(1, most=_PROOF_SECONDS)
    reached = unbiased_variance_of(prior, g, lifts, weights)
    proofs = []

    def searched() -> None:
        if factor is not None:
            both = np.concatenate([duals, factor.ravel()])
            late = (Deadline() if deadline is None else deadline).part(1, most=_BRANCHED_SECONDS)
            proofs.append((proven_variance(prior, g, lift_set, lifts, weights, both, late), both))

    if len(prior) > _LISTED:
        searched()
        if proofs and reached - proofs[0][0] <= gap * reached:
            return proofs[0]
    proofs.append((proven_variance(prior, g, lift_set, lifts, weights, duals, until), duals))
    scales = spread_weights(prior, g, lifts, weights)
    if scales is not None and prior.min() >= TINY:
        other = solve(prior, np.diag(scales / prior), lift_set, gap=1e-4, time_limit=until).duals
        proofs.append((proven_variance(prior, g, lift_set, lifts, weights, other, until), other))
    if prior.min() >= TINY and reached - max(proofs, key=_first)[0] > gap * reached:
        # Duals of the search are for its own F; those for the finished channel's are a linear program.
        own = _factor(g, lifts, weights) / prior[:, None]
        other = solve(prior, own, lift_set, gap=1e-6, time_limit=until.part(1 / 2)).duals
        proofs.append((proven_variance(prior, g, lift_set, lifts, weights, other, until), other))
    if len(prior) <= _LISTED and reached - max(proofs, key=_first)[0] > gap * reached:
        searched()
    return max(proofs, key=_first)
