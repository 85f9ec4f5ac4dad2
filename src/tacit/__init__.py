"""Tacit: ask a crowd, learn the total, never the person."""

from tacit.mechanism.auditing import Audit, Belief, audit, belief, satisfies
from tacit.mechanism.rounding import PrivacyError, round_channel
from tacit.mechanism.table import Channel, mean_absolute_error
from tacit.prior import Prior
from tacit.task import (
    Histogram,
    Matrix,
    Sum,
    Survey,
    Task,
    WeightedSum,
    mse,
    prior_variance,
    total_mse,
    unbiased_variance,
)

__version__ = "0.1.0"

__all__ = [
    "Audit",
    "Belief",
    "Channel",
    "Histogram",
    "Matrix",
    "Prior",
    "PrivacyError",
    "Sum",
    "Survey",
    "Task",
    "WeightedSum",
    "audit",
    "belief",
    "mean_absolute_error",
    "mse",
    "prior_variance",
    "round_channel",
    "satisfies",
    "total_mse",
    "unbiased_variance",
]
