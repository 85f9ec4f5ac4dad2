"""From tallies to totals with intervals, and the check of the prior."""

from tacit.estimates.prior_check import PriorCheck
from tacit.estimates.rows import Estimate, Estimator, Row
from tacit.estimates.total import estimate, estimators
from tacit.mechanism import NotEstimableError

__all__ = ["Estimate", "Estimator", "NotEstimableError", "PriorCheck", "Row", "estimate", "estimators"]
