"""The prior-free estimator: solve Qᵀp = report frequencies, with the weights that are best at the prior."""

from __future__ import annotations

import numpy as np

from tacit.mechanism.table import Channel
from tacit.prior import Floats, Prior


class NotEstimableError(ValueError):
    """The reports do not determine what is asked, whatever their number."""


def unbiased_weights(channel: Channel, prior: Prior, g: Floats) -> Floats:
    """t(y) = gᵀJ⁻¹v_y with J = Σ λ_y v_y v_yᵀ: the unbiased estimate of g(X) from one report y, per component of g.

    E[t(Y) | X = x] = g(x) for every value x of the support, whatever the true distribution; the choice of J makes the
    variance least at the prior. Raises `NotEstimableError` if no weights do that (J singular in the direction of g).

    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> unbiased_weights(Channel.from_weights(prior, [[3, 1], [1, 3]]), prior, np.eye(2)).round(12).tolist()
    [[1.5, -0.5], [-0.5, 1.5]]
    """
    t = _weights(channel, prior, g)
    if t is None:
        raise NotEstimableError(
            "The prior-free estimate does not exist for this plan: its reports do not tell the values apart. "
            "Use the estimator 'mmse', or plan again with 'invertible'."
        )
    return t


def unbiased_variance_weights(channel: Channel, prior: Prior, t: Floats) -> Floats:
    """s(y) with E[s(Y) | X = x] = Var(t(Y) | X = x): summed over reports, the variance of the estimate, prior-free too.

    Where the reports cannot tell it, the largest conditional variance stands for all.
    """
    q = channel.matrix
    spread: Floats = q @ t**2 - (q @ t) ** 2
    inside = spread[list(prior.support)]
    s = _weights(channel, prior, spread)
    return np.broadcast_to(inside.max(axis=0), t.shape) if s is None else s


def _weights(channel: Channel, prior: Prior, g: Floats) -> Floats | None:
    inside = list(prior.support)
    lifts = channel.lifts(prior)[:, inside]
    information = lifts.T @ (channel.marginal(prior)[:, None] * lifts)
    t: Floats = lifts @ np.linalg.pinv(information, rcond=1e-10, hermitian=True) @ g[inside]
    missed = np.abs(channel.matrix[inside] @ t - g[inside]).max()
    return t if missed <= 1e-6 * max(1.0, float(np.abs(g[inside]).max())) else None
