"""From tallies to totals, shares, differences and regressions with intervals, and the check of the prior."""

from tacit.estimates._cells import FEW, Cell, cells_of, read_for
from tacit.estimates._compliance import (
    Compliance,
    ComplianceRow,
    PooledCompliance,
    Span,
    compliance,
    expected_errors,
    pooled_compliance,
)
from tacit.estimates._differences import Difference, Differences, Linked, Trend, difference, trend
from tacit.estimates._estimate import Margin, estimate, estimators
from tacit.estimates._pseudo_values import CovariateLevels, covariate_levels, positions_of, pseudo_names, pseudo_values
from tacit.estimates._quantiles import Quantile, QuantileDifference, quantile_differences, quantiles
from tacit.estimates._questionnaire import (
    Association,
    Crosstab,
    QuestionView,
    crosstab,
    estimate_questions,
    moments,
    views_of,
)
from tacit.estimates._regression import Coefficient, Regression, regress, regress_on_private
from tacit.estimates._rows import (
    MANY_ROWS,
    Estimate,
    Estimator,
    Found,
    PriorCheck,
    Row,
    Scope,
    check_prior,
    row_dict,
    student,
)
from tacit.estimates._totals import counts_at_ends, ends_within
from tacit.mechanism import NotEstimableError
from tacit.task import Model

__all__ = [
    "FEW", "MANY_ROWS", "Association", "Cell", "Coefficient", "Compliance", "ComplianceRow", "CovariateLevels",
    "Crosstab", "Difference", "Differences", "Estimate", "Estimator", "Found", "Linked", "Margin", "Model",
    "NotEstimableError", "PooledCompliance", "PriorCheck", "Quantile", "QuantileDifference", "QuestionView",
    "Regression", "Row", "Scope", "Span", "Trend", "cells_of", "check_prior", "compliance", "counts_at_ends",
    "covariate_levels", "crosstab", "difference", "ends_within", "estimate", "estimate_questions", "estimators",
    "expected_errors", "moments", "pooled_compliance", "positions_of", "pseudo_names", "pseudo_values",
    "quantile_differences", "quantiles", "read_for", "regress", "regress_on_private", "row_dict", "student", "trend",
    "views_of",
]  # fmt: skip
