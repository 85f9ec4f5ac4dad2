"""Do the reports of a table contradict its prior? Chi-squares of what they say of all values, and of single ones.

With n_y of N reports y, lifts v_y and J = Σ λ_y v_y v_yᵀ, what they say of the values is s = Σ_y (n_y − Nλ_y) v_y.
"""

from __future__ import annotations

import numpy as np

from tacit.exact import Floats
from tacit.mechanism.information import Information
from tacit.mechanism.pearson import MIN_EXPECTED, pearson
from tacit.mechanism.protocol import ENOUGH_TO_SCORE

#: Among more values than this a change of a single one is lost in a chi-square of all.
_MANY = 16


def statistic_of_table(lifts: Floats, information: Information, marginal: Floats, counts: Floats) -> tuple[float, int]:
    """sᵀJ⁻¹s/N, a chi-square of one degree less than there are values; it hears every change of the prior.

    If the prior is true the covariance of s is N(J − 11ᵀ), and J⁻¹ inverts that where s lies, as JP = 1 and P·s = 0.

    Pearson's chi-square of the reports is the same where these are as many as the values. It serves where they are
    fewer, and where too few have come: a report weighs v_yᵀJ⁻¹v_y − 1, in Pearson's 1/λ_y − 1. Of more reports than
    values it has a degree for each, and most of what it adds up says nothing of any prior.

    >>> lifts, marginal = np.array([[1.5, 0.5], [0.5, 1.5], [1.0, 1.0]]), np.array([0.25, 0.25, 0.5])
    >>> found, degrees = statistic_of_table(lifts, Information.of(lifts, marginal), marginal, np.array([60.0, 40, 100]))
    >>> round(found, 9), degrees
    (4.0, 1)
    """
    n_reports = counts.sum()
    most = float(information.quadratic(lifts.T).max()) - 1
    if len(lifts) <= lifts.shape[1] or n_reports < MIN_EXPECTED * most:
        return pearson(counts, marginal)
    said = (counts - n_reports * marginal) @ lifts
    return float(information.quadratic(said[:, None])[0] / n_reports), len(information.values) - 1


def scores_of_table(lifts: Floats, marginal: Floats, counts: Floats) -> Floats:
    """s_x²/N(J_xx − 1) of every value, where there are many: of those whose lifts have varied enough."""
    if lifts.shape[1] <= _MANY:
        return np.zeros(0)
    n_reports = counts.sum()
    variance, reach = n_reports * (marginal @ (lifts - 1) ** 2), np.ptp(lifts, axis=0)
    scored = (variance > 0) & (variance >= ENOUGH_TO_SCORE * reach**2)
    said = (counts - n_reports * marginal) @ lifts
    scores: Floats = said[scored] ** 2 / variance[scored]
    return scores
