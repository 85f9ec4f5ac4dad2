"""The plan: the one contract between client, collector and analyst."""

from tacit.plan.certificate import Certificate
from tacit.plan.contract import Group, Plan, PlanError

__all__ = ["Certificate", "Group", "Plan", "PlanError"]
