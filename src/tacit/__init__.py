"""Tacit: ask a crowd, learn the total, never the person.

The names below are what most people need; each is loaded from its room when it is first asked for, so that a device
that randomizes or a service that collects loads nothing of the design.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.designs import (
        Design,
        GroupPrior,
        Promise,
        Search,
        Verification,
        design,
        make_plan,
        next_plan,
        read_priors,
        verify,
    )
    from tacit.estimates import Differences, Estimate, NotEstimableError, Trend, difference, estimate, trend
    from tacit.mechanism import (
        Audit,
        Belief,
        Channel,
        Mechanism,
        PrivacyError,
        audit,
        belief,
        mse,
        round_channel,
        satisfies,
        unbiased_variance,
    )
    from tacit.microdata import PriorTable, priors_from
    from tacit.plan import Group, Plan, PlanError
    from tacit.prior import Prior
    from tacit.randomize import Randomizer
    from tacit.tally import Tally
    from tacit.task import Histogram, Matrix, Quantiles, Sum, Survey, Task, WeightedSum, prior_variance

__version__ = "0.1.0"

__all__ = [
    "Audit", "Belief", "Channel", "Design", "Differences", "Estimate", "Group", "GroupPrior", "Histogram", "Matrix",
    "Mechanism", "NotEstimableError", "Plan", "PlanError", "Prior", "PriorTable", "PrivacyError", "Promise",
    "Quantiles", "Randomizer", "Search", "Sum", "Survey", "Tally", "Task", "Trend", "Verification", "WeightedSum",
    "audit", "belief", "design", "difference", "estimate", "make_plan", "mse", "next_plan", "prior_variance",
    "priors_from", "read_priors", "round_channel", "satisfies", "trend", "unbiased_variance", "verify",
]  # fmt: skip

#: Which room each name lives in.
_HOME = {
    name: room
    for room, names in {
        "designs": "Design GroupPrior Promise Search Verification design make_plan next_plan read_priors verify",
        "estimates": "Differences Estimate NotEstimableError Trend difference estimate trend",
        "mechanism": "Audit Belief Channel Mechanism PrivacyError audit belief mse round_channel "
        "satisfies unbiased_variance",
        "microdata": "PriorTable priors_from",
        "plan": "Group Plan PlanError",
        "prior": "Prior",
        "randomize": "Randomizer",
        "tally": "Tally",
        "task": "Histogram Matrix Quantiles Sum Survey Task WeightedSum prior_variance",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    found = getattr(import_module(f"tacit.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
