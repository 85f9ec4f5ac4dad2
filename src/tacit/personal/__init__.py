"""Individual priors: one prior per respondent, travelling with the record, without a plan entry per person."""

from tacit.personal.contract import PersonalPlan, perturb
from tacit.personal.estimates import PersonalTally, estimate

__all__ = ["PersonalPlan", "PersonalTally", "estimate", "perturb"]
