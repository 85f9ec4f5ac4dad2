"""The histogram under a core-tail channel: error, posteriors and their sums, without a d × d table.

Symbols as in `core_tail_rule`: q_xj = counts/2^w is the probability of state j given a core value x (q_j for the tail),
λ_j = Σ_x P_x q_xj that of the state, β_j = base/2^w, L_j the arc length and M the cells.  The lift is

    core:  q_xj / λ_j          tail:  (q_j / λ_j) (β_j + (1 - β_j) (M / L_j) c),   c the arc's coverage.

Floating point.  Positions count as equally likely here; they are to within a relative M/2^w, plus E/M where segments
are rounded, so results are accurate to about 1e-12 for M up to 2^24 and 1e-8 at the largest circle, 2^32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.exact import Floats, Integers
from tacit.mechanism.core_tail_rule import POSITION_BITS, CoreTailRule


@dataclass(frozen=True)
class _Lifts:
    """The channel in floating point: P, lift of the core by state, and floor, slope (per cell) and L by state."""

    prior: Floats
    core: Floats
    probability: Floats
    floor: Floats
    slope: Floats
    arc: Floats


def _lifts(channel: CoreTailRule) -> _Lifts:
    size = 1 << channel.word_bits
    total = sum(channel.weights)
    prior = np.array([weight / total for weight in channel.weights])
    chosen = np.array([[count / size for count in row] for row in channel.counts])
    tail_mass = channel.tail_sums[-1] / total
    probability = prior[list(channel.core)] @ chosen[:-1] + tail_mass * chosen[-1]
    base = np.array([base / size for base in channel.base])
    arc = np.array([(size - base) / step for base, step in zip(channel.base, channel.step, strict=True)])
    step = np.array([step / size for step in channel.step])
    lift = chosen / probability
    return _Lifts(prior, lift[:-1], probability, lift[-1] * base, lift[-1] * step * channel.cells, arc)


def mean_square_coverage(length: Floats, arc: float, cells: int) -> Floats:
    """Return E[c²] of segments of `length` cells under an arc of `arc` cells placed uniformly on the circle.

    With n = `length`, L = `arc`, f its fractional part and M = `cells`, M n² E[c²] is the sum over pairs of
    cells of the number of arcs that cover both, R(k) = L - k for cells k ≥ 1 apart, R(0) = L - f + f²:

        n R(0) + 2 Σ_{k=1}^{min(n-1, L)} (n-k)(L-k) + 2 Σ_{k≥1} k (L-M+n-k)+       (the last: around the circle)

    which is n² L - n(n²-1)/3 - n f(1-f) when the segment fits inside and outside the arc.
    """
    whole = np.floor(arc)
    near = np.minimum(length - 1.0, whole)
    around = np.maximum(whole - cells + length, 0.0)
    pairs = near * length * arc - (length + arc) * near * (near + 1) / 2 + near * (near + 1) * (2 * near + 1) / 6
    wrapped = (arc - cells + length) * around * (around + 1) / 2 - around * (around + 1) * (2 * around + 1) / 6
    square: Floats = (length * (whole + (arc - whole) ** 2) + 2 * pairs + 2 * wrapped) / (cells * length * length)
    return square


def histogram_gains(channel: CoreTailRule) -> Floats:
    """Return P_x² E[(lift_x - 1)²] for every value x: what one report removes from the variance P_x (1 - P_x)."""
    lifts = _lifts(channel)
    gains = np.empty(len(lifts.prior))
    gains[list(channel.core)] = (lifts.core - 1.0) ** 2 @ lifts.probability
    length, which = np.unique(np.array(channel.lengths, np.float64), return_inverse=True)
    variance = np.zeros(len(length))
    for weight, floor, slope, arc in zip(lifts.probability, lifts.floor, lifts.slope, lifts.arc, strict=True):
        mean = arc / channel.cells
        square = mean_square_coverage(length, float(arc), channel.cells)
        variance += weight * ((floor + slope * mean - 1.0) ** 2 + slope**2 * (square - mean**2))
    gains[list(channel.tail)] = variance[which]
    result: Floats = lifts.prior**2 * gains
    return result


def histogram_gain(channel: CoreTailRule) -> float:
    """Return the squared error that one report removes from Σ_x P_x (1 - P_x)."""
    return float(histogram_gains(channel).sum())


def histogram_mse(channel: CoreTailRule) -> float:
    """Return the mean squared error per respondent, summed over the histogram: Σ P(1-P) - gain."""
    prior = _lifts(channel).prior
    return float(prior @ (1.0 - prior)) - histogram_gain(channel)


def posterior_sum(channel: CoreTailRule, reports: Integers, counts: Integers | Floats | None = None) -> Floats:
    """Return for every value x the sum over `reports` of Pr(x|report) = P_x lift, in O((n + d) log(n + d)).

    With `counts`, report i came counts[i] times.

    Summed over reports, the arcs make a step function on the circle; its running integral G is piecewise linear, and
    a tail value collects (G(end) - G(start)) / length of its segment.
    """
    lifts = _lifts(channel)
    state, position = reports >> POSITION_BITS, (reports & (1 << POSITION_BITS) - 1).astype(np.float64)
    often = np.ones(len(reports)) if counts is None else counts.astype(np.float64)
    times = np.bincount(state, weights=often, minlength=len(lifts.arc))
    lift = np.empty(len(lifts.prior))
    lift[list(channel.core)] = lifts.core @ times
    start = np.array(channel.boundaries[:-1], np.float64)
    length = np.array(channel.lengths, np.float64)
    ends = position + lifts.arc[state]
    slope = lifts.slope[state] * often
    around = ends > channel.cells
    knots = np.concatenate([position, ends, (position - channel.cells)[around], (ends - channel.cells)[around]])
    changes = np.concatenate([slope, -slope, slope[around], -slope[around]])
    covered = _integral(knots, changes, np.concatenate([start, start + length]))
    lift[list(channel.tail)] = lifts.floor @ times + (covered[len(start) :] - covered[: len(start)]) / length
    total: Floats = lifts.prior * lift
    return total


def posterior(channel: CoreTailRule, report: int) -> Floats:
    """Return Pr(x|report) for every value x."""
    return posterior_sum(channel, np.array([report], np.int64))


def _integral(knots: Floats, changes: Floats, points: Floats) -> Floats:
    """Return at `points` the sum over knots k of change_k * max(point - k, 0), for changes that add up to 0."""
    order = np.argsort(knots, kind="stable")
    knots, changes = knots[order], changes[order]
    slope = np.append(0.0, np.cumsum(changes))
    steps = np.append(0.0, np.cumsum(slope[1:-1] * np.diff(knots))) if len(knots) else np.zeros(1)
    at = np.searchsorted(knots, points, side="right")
    before = np.maximum(at - 1, 0)
    reached = points - knots[before] if len(knots) else points * 0.0
    return np.where(at > 0, steps[before] + slope[at] * reached, 0.0)
