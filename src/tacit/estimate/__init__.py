"""Estimators: one per file, put together in `total`."""

from tacit.estimate.prior_check import PriorCheck
from tacit.estimate.total import Estimate, Estimator, Row, estimate
from tacit.estimate.unbiased import NotEstimableError

__all__ = ["Estimate", "Estimator", "NotEstimableError", "PriorCheck", "Row", "estimate"]
