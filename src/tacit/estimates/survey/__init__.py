"""Reports as a survey: in cells by what is public, weighted for a population, and compared."""

from tacit.estimates.survey._cells import Cell, cells_of
from tacit.estimates.survey._collected import FEW, Collected, Part
from tacit.estimates.survey._differences import (
    Difference,
    Differences,
    Known,
    Side,
    differences,
    known_before,
    the_prior,
    the_rest,
)
from tacit.estimates.survey._weighting import Margin, weighted

__all__ = [
    "FEW",
    "Cell",
    "Collected",
    "Difference",
    "Differences",
    "Known",
    "Margin",
    "Part",
    "Side",
    "cells_of",
    "differences",
    "known_before",
    "the_prior",
    "the_rest",
    "weighted",
]
