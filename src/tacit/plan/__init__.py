"""The plan: the one contract between client, collector and analyst."""

from tacit.plan._group import Aim, Certificate, Group, PlanError
from tacit.plan._names import (
    NEW,
    arm_name,
    arms_of,
    base_name,
    block_name,
    crossed_name,
    followed_name,
    margins,
)
from tacit.plan._plan import ErrorField, Follows, Plan, contract_hash, malformed, read_json
from tacit.plan._question import (
    BLOCK,
    CHANCES,
    NOT_ASKED,
    RESERVED,
    Block,
    Question,
    Wording,
    check_routes,
    joint_values,
    value_from_text,
)
from tacit.plan._recoding import CROSSED, RecodedColumn, Recoding, number_in

__all__ = [
    "BLOCK", "CHANCES", "CROSSED", "NEW", "NOT_ASKED", "RESERVED", "Aim", "Block", "Certificate", "ErrorField",
    "Follows", "Group", "Plan", "PlanError", "Question", "RecodedColumn", "Recoding", "Wording", "arm_name", "arms_of",
    "base_name", "block_name", "check_routes", "contract_hash", "crossed_name", "followed_name", "joint_values",
    "malformed", "margins", "number_in", "read_json", "value_from_text",
]  # fmt: skip
