"""What reports determine without a prior: the information matrix J = Σ_y λ_y v_y v_yᵀ, and one decision about it.

Do the reports of a table contradict its prior? Chi-squares of what they say of all values, and of single ones.

With n_y of N reports y, lifts v_y and J = Σ λ_y v_y v_yᵀ, what they say of the values is s = Σ_y (n_y − Nλ_y) v_y.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats
from tacit.mechanism.pearson import MIN_EXPECTED, pearson
from tacit.mechanism.protocol import ENOUGH_TO_SCORE

#: Directions whose information is below this share of the largest count as not seen at all.
_SMALLEST_SEEN = 1e-10
#: g may lie in unseen directions by this share of its largest entry: rounding, nothing else.
_LARGEST_UNSEEN = 1e-7


@dataclass(frozen=True)
class Information:
    """J in the eigenvectors that reports see: J ≈ Σ_k values_k · vectors_k vectors_kᵀ."""

    values: Floats
    vectors: Floats

    @classmethod
    def of(cls, lifts: Floats, marginal: Floats) -> Information:
        """From lifts v_y(x) of shape (reports, values) and the marginal λ(y).

        >>> Information.of(np.array([[1.5, 0.5], [0.5, 1.5]]), np.array([0.5, 0.5])).values.round(9).tolist()
        [0.5, 2.0]
        """
        scaled = lifts * np.sqrt(marginal)[:, None]
        if len(scaled) >= scaled.shape[1]:
            return cls.of_matrix(scaled.T @ scaled)
        # Few reports see few directions: J has the eigenvectors of its smaller side.
        _, roots, vectors = np.linalg.svd(scaled, full_matrices=False)
        return cls._seen(roots**2, vectors.T)

    @classmethod
    def of_matrix(cls, matrix: Floats) -> Information:
        """From J itself."""
        return cls._seen(*np.linalg.eigh(matrix))

    @classmethod
    def _seen(cls, values: Floats, vectors: Floats) -> Information:
        seen = values > _SMALLEST_SEEN * values.max()
        return cls(values[seen], vectors[:, seen])

    def determines(self, g: Floats) -> bool:
        """Whether the reports determine g (values, components), for any truth: no part of it is unseen."""
        return bool(self.determined(g).all())

    def determined(self, g: Floats) -> NDArray[np.bool_]:
        """The same for each component."""
        missed = np.abs(g - self.vectors @ (self.vectors.T @ g)).max(axis=0, initial=0.0)
        determined: NDArray[np.bool_] = missed <= _LARGEST_UNSEEN * float(np.abs(g).max(initial=0.0))
        return determined

    def solve(self, g: Floats) -> Floats:
        """J⁻¹g on the seen directions."""
        solved: Floats = self.vectors @ ((self.vectors.T @ g) / self.values[:, None])
        return solved

    def quadratic(self, g: Floats) -> Floats:
        """gᵀJ⁻¹g for each component of g, on the seen directions."""
        loadings = self.vectors.T @ g
        squares: Floats = (loadings**2 / self.values[:, None]).sum(axis=0)
        return squares


#: Among more values than this a change of a single one is lost in a chi-square of all.
_MANY = 16


def statistic_of_table(lifts: Floats, information: Information, marginal: Floats, counts: Floats) -> tuple[float, int]:
    """sᵀJ⁻¹s/N, a chi-square with d − 1 degrees of freedom, sensitive to every deviation from the prior.

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
