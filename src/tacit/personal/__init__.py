"""Individual priors: one prior per respondent, travelling with the record, without a plan entry per person."""

from tacit.personal.estimate import PersonalTally, estimate, expected_mse
from tacit.personal.plan import PersonalPlan, perturb, report

__all__ = ["PersonalPlan", "PersonalTally", "estimate", "expected_mse", "perturb", "report"]
