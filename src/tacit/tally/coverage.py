"""One group's reports where nearly every one is different: the mechanism folds them into an integer for each value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.exact import Integers
from tacit.mechanism.protocol import COVERAGE_UNIT
from tacit.tally.counts import Counts, check_size, whole


@dataclass(frozen=True, eq=False)
class Coverage:
    """One group's reports as sums that can be added: `coverage` has an integer for each possible value."""

    coverage: Integers
    total: int

    @property
    def collision_bits(self) -> float:
        """The same, from below: two reports that are equal agree in whether they cover a value, of which a share π of
        reports does, and that has the probability π² + (1 − π)².
        """
        covered = self.coverage / (max(1, self.total) * COVERAGE_UNIT)
        return -self.total * math.log2(float((covered**2 + (1 - covered) ** 2).min(initial=1.0)))

    @property
    def weight_sums(self) -> tuple[float, float]:
        """Σ weight and Σ offset: nobody has another than 1 and 0."""
        return float(self.total), 0.0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Coverage) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def merge(self, other: Counts | Coverage) -> Coverage:
        """The sums of both together."""
        if not isinstance(other, Coverage) or len(other.coverage) != len(self.coverage):
            raise ValueError("Sums of coverage merge with others of the same mechanism only.")
        most = int(self.coverage.max(initial=0)) + int(other.coverage.max(initial=0))
        check_size(max(most, self.total + other.total))
        return Coverage(self.coverage + other.coverage, self.total + other.total)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"total": self.total, "coverage": self.coverage.tolist()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Coverage:
        """The inverse of `to_dict`; refuses what no sums can be."""
        coverage, (total,) = whole(data["coverage"], "coverage"), whole([data["total"]], "total")
        return cls(np.array(coverage, dtype=np.int64), total)
