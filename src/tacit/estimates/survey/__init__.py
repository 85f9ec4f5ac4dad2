"""Reports as a survey: weighted for a population, and compared."""

from tacit.estimates.survey._differences import (
    Difference,
    Differences,
    Known,
    difference,
    differences,
    known_before,
    the_prior,
    the_rest,
)
from tacit.estimates.survey._weighting import Margin, weighted

__all__ = [
    "Difference",
    "Differences",
    "Known",
    "Margin",
    "difference",
    "differences",
    "known_before",
    "the_prior",
    "the_rest",
    "weighted",
]
