"""From tallies to totals, shares, differences and regressions with intervals, and the check of the prior."""

from tacit.estimates.cells import Cell, cells_of
from tacit.estimates.collected import Collected, Part
from tacit.estimates.compliance import Compliance, ComplianceRow, compliance
from tacit.estimates.covariates import CovariateLevels, covariate_levels
from tacit.estimates.differences import (
    Difference,
    Differences,
    Known,
    differences,
    known_before,
    the_prior,
    the_rest,
)
from tacit.estimates.prior_check import PriorCheck
from tacit.estimates.pseudo_values import pseudo_names, pseudo_values
from tacit.estimates.regression import Coefficient, Regression, regress
from tacit.estimates.rows import Estimate, Estimator, Row, Scope
from tacit.estimates.total import estimate, estimators
from tacit.estimates.weighting import Margin, weighted
from tacit.mechanism import NotEstimableError

__all__ = [
    "Cell",
    "Coefficient",
    "Collected",
    "Compliance",
    "ComplianceRow",
    "CovariateLevels",
    "Difference",
    "Differences",
    "Estimate",
    "Estimator",
    "Known",
    "Margin",
    "NotEstimableError",
    "Part",
    "PriorCheck",
    "Regression",
    "Row",
    "Scope",
    "cells_of",
    "compliance",
    "covariate_levels",
    "differences",
    "estimate",
    "estimators",
    "known_before",
    "pseudo_names",
    "pseudo_values",
    "regress",
    "the_prior",
    "the_rest",
    "weighted",
]
