"""Estimators: one per file, put together in `total`."""

from tacit.estimates.prior_check import PriorCheck
from tacit.estimates.total import Estimate, Estimator, Row, estimate
from tacit.estimates.unbiased import NotEstimableError

__all__ = ["Estimate", "Estimator", "NotEstimableError", "PriorCheck", "Row", "estimate"]
