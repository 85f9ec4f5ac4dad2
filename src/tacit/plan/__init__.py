"""The plan: the one contract between client, collector and analyst."""

from tacit.plan.certificate import Aim, Certificate
from tacit.plan.contract import Group, Plan, PlanError

__all__ = ["Aim", "Certificate", "Group", "Plan", "PlanError"]
