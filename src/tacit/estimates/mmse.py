"""The paper's estimator: the posterior mean of the total under the prior, and its posterior spread."""

from __future__ import annotations

import numpy as np

from tacit.mechanism.table import Channel
from tacit.prior import Floats, Prior


def mmse_weights(channel: Channel, prior: Prior, g: Floats) -> tuple[Floats, Floats]:
    """E[g|y] and Var(g|y) for every report y and component of g, as arrays of shape (outputs, components).

    The estimate of Σ g(X_i) is Σ_i E[g|y_i], and given the reports its error has variance Σ_i Var(g|y_i): exact under
    the prior, and as wrong as the prior otherwise.

    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> means, variances = mmse_weights(Channel.from_weights(prior, [[3, 1], [1, 3]]), prior, np.eye(2))
    >>> means.tolist(), variances.tolist()
    ([[0.75, 0.25], [0.25, 0.75]], [[0.1875, 0.1875], [0.1875, 0.1875]])
    """
    posterior = channel.posterior(prior)
    means = posterior @ g
    # Centred, so that a large offset does not cancel.
    centre = prior.probabilities @ g
    shifted = g - centre
    variances = np.maximum(posterior @ shifted**2 - (posterior @ shifted) ** 2, 0.0)
    return means, variances
