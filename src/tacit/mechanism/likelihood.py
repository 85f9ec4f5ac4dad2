"""Maximum likelihood: the distribution of answers that makes the reports most likely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.exact import Floats

if TYPE_CHECKING:
    from tacit.mechanism.table import Channel

#: EM stops when a step raises the log-likelihood by less than this, in nats over all reports.
LIKELIHOOD_TOLERANCE = 1e-8
MAX_STEPS = 20_000


@dataclass(frozen=True)
class Likelihood:
    """The maximum: the distribution, its log-likelihood, and how many EM steps it took."""

    distribution: Floats
    log_likelihood: float
    steps: int


def maximum_likelihood(channel: Channel, counts: Floats) -> Likelihood:
    """EM (the iterative Bayesian update) with SQUAREM acceleration, on the support of the prior.

        p_x ← p_x Σ_y f_y Q(y|x) / (pQ)_y,   f_y the report frequencies.

    Each accelerated step is kept only if it does not lower the likelihood, so the likelihood rises to its maximum.

    >>> from tacit import Channel, Prior
    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> channel = Channel.from_weights(prior, [[3, 1], [1, 3]])
    >>> maximum_likelihood(channel, np.array([400.0, 600.0])).distribution.round(6).tolist()
    [0.3, 0.7]
    """
    prior = channel.prior
    inside = list(prior.support)
    seen = counts > 0
    q = channel.matrix[inside][:, seen]
    seen_counts = counts[seen]
    total = seen_counts.sum()
    result = np.zeros(len(prior))
    current = prior.probabilities[inside]
    if total == 0:
        result[inside] = current
        return Likelihood(result, 0.0, 0)

    def climb(p: Floats) -> Floats:
        new: Floats = p * (q @ (seen_counts / (p @ q))) / total
        return new

    def height(p: Floats) -> float:
        return float(seen_counts @ np.log(p @ q))

    best, steps = height(current), 0
    while steps < MAX_STEPS:
        first = climb(current)
        second = climb(first)
        leap = _squarem(current, first, second)
        after = climb(leap) if leap is not None else second
        reached = height(after)
        if not reached >= best:
            after, reached = second, height(second)
        steps += 3
        risen, current, best = reached - best, after, max(best, reached)
        if risen < LIKELIHOOD_TOLERANCE:
            break
    result[inside] = current / current.sum()
    return Likelihood(result, best, steps)


def information_at(channel: Channel, distribution: Floats) -> Floats:
    """J_p = Σ_y Q(y|·) Q(y|·)ᵀ / (pQ)_y: observed information per respondent, evaluated at the distribution p."""
    q = channel.matrix
    share = distribution @ q
    sent = share > 0
    scaled = q[:, sent] / np.sqrt(share[sent])
    matrix: Floats = scaled @ scaled.T
    return matrix


def _squarem(start: Floats, first: Floats, second: Floats) -> Floats | None:
    """The squared extrapolation of Varadhan and Roland (2008), or None where it leaves the simplex."""
    step, bend = first - start, second - 2 * first + start
    norm = float(np.linalg.norm(bend))
    if norm == 0:
        return None
    length = -float(np.linalg.norm(step)) / norm
    if length > -1:
        return None
    leap: Floats = start - 2 * length * step + length**2 * bend
    return leap / leap.sum() if (leap > 0).all() else None
