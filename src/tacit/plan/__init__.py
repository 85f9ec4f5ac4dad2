"""The plan: the one contract between client, collector and analyst."""

from tacit.plan._any_plan import (
    NEW,
    NOT_ASKED,
    AnyPlan,
    Question,
    arm_name,
    arms_of,
    base_name,
    contract_hash,
    crossed_name,
    followed_name,
    malformed,
    margins,
    value_from_text,
)
from tacit.plan._group import Aim, Certificate, Group, PlanError
from tacit.plan._plan import CHANCES, Block, ErrorField, Follows, Plan, joint_values, read_json
from tacit.plan._questionnaire import BLOCK, RESERVED, Questionnaire, Wording, block_name, load_plan, read_plan
from tacit.plan._recoding import CROSSED, RecodedColumn, Recoding, number_in

__all__ = [
    "BLOCK", "CHANCES", "CROSSED", "NEW", "NOT_ASKED", "RESERVED", "Aim", "AnyPlan", "Block", "Certificate",
    "ErrorField", "Follows", "Group", "Plan", "PlanError", "Question", "Questionnaire", "RecodedColumn", "Recoding",
    "Wording", "arm_name", "arms_of", "base_name", "block_name", "contract_hash", "crossed_name", "followed_name",
    "joint_values", "load_plan", "malformed", "margins", "number_in", "read_json", "read_plan", "value_from_text",
]  # fmt: skip
