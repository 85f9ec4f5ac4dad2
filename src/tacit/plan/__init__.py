"""The plan: the one contract between client, collector and analyst."""

from tacit.plan._certificate import Aim, Certificate
from tacit.plan._crossed import CROSSED, arm_name, arms_of, crossed_name, margins
from tacit.plan._group import Group, PlanError
from tacit.plan._plan import Plan, contract_hash, malformed, read_json, value_from_text

__all__ = [
    "CROSSED",
    "Aim",
    "Certificate",
    "Group",
    "Plan",
    "PlanError",
    "arm_name",
    "arms_of",
    "contract_hash",
    "crossed_name",
    "malformed",
    "margins",
    "read_json",
    "value_from_text",
]
