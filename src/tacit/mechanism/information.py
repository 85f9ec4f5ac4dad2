"""What reports determine without a prior: the information matrix J = Σ_y λ_y v_y v_yᵀ, and one decision about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats

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
        """Whether the reports determine g (values, components), whatever the truth: no part of it is unseen."""
        return bool(self.determined(g).all())

    def determined(self, g: Floats) -> NDArray[np.bool_]:
        """The same for each component."""
        missed = np.abs(g - self.vectors @ (self.vectors.T @ g)).max(axis=0, initial=0.0)
        told: NDArray[np.bool_] = missed <= _LARGEST_UNSEEN * float(np.abs(g).max(initial=0.0))
        return told

    def solve(self, g: Floats) -> Floats:
        """J⁻¹g on the seen directions."""
        solved: Floats = self.vectors @ ((self.vectors.T @ g) / self.values[:, None])
        return solved

    def quadratic(self, g: Floats) -> Floats:
        """gᵀJ⁻¹g for each component of g, on the seen directions."""
        loadings = self.vectors.T @ g
        squares: Floats = (loadings**2 / self.values[:, None]).sum(axis=0)
        return squares
