"""Pearson's chi-square of report counts against what the prior expects."""

from __future__ import annotations

import numpy as np

from tacit.exact import Floats

#: Report classes with fewer expected reports are pooled, so that the chi-square approximation holds.
MIN_EXPECTED = 5.0


def pearson(counts: Floats, marginal: Floats) -> tuple[float, int]:
    """The statistic Σ (n_y − Nλ_y)²/Nλ_y and its degrees of freedom; 0 of these with too few reports to tell.

    >>> pearson(np.array([480.0, 520.0]), np.array([0.5, 0.5]))
    (1.6, 1)
    """
    expected = counts.sum() * marginal
    rare = expected < MIN_EXPECTED
    observed, wanted = counts[~rare], expected[~rare]
    if expected[rare].sum() >= MIN_EXPECTED:
        observed, wanted = np.append(observed, counts[rare].sum()), np.append(wanted, expected[rare].sum())
    elif len(wanted) and rare.any():
        # Too few for a class of their own: they join the last one.
        observed[-1] += counts[rare].sum()
        wanted[-1] += expected[rare].sum()
    if len(wanted) < 2:
        return 0.0, 0
    return float(((observed - wanted) ** 2 / wanted).sum()), len(wanted) - 1
