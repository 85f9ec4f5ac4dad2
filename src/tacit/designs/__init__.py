"""Choosing a mechanism: closed forms, linear programs, and the certificate of how good the choice is."""

from tacit.designs._design import Search, design
from tacit.designs._methods import Design, Promise, optimal_binary, repaired_response
from tacit.designs._verification import Verification, verify, verify_plan
from tacit.designs.guidance import (
    Choice,
    Costs,
    Detection,
    OtherBelief,
    costs,
    guide,
    other_beliefs,
    respondents_to_detect,
)
from tacit.designs.joint_priors import (
    JointPrior,
    beliefs_about,
    joint_columns,
    read_joint,
    read_questions,
    stated_questions,
)
from tacit.designs.next_wave import NextWave, next_plan, next_priors
from tacit.designs.panels import Panel, PanelRow, compare_panel, following_plan, read_transition, with_layers
from tacit.designs.planning import Sampling, Uncertainty, make_plan
from tacit.designs.prior_file import GroupPrior, read_beliefs, read_priors, read_values
from tacit.designs.questionnaires import PlannedQuestions, QuestionCost, make_questionnaire
from tacit.designs.rules import Rule, adopt, read_matrix

__all__ = [
    "Choice", "Costs", "Design", "Detection", "GroupPrior", "JointPrior", "NextWave", "OtherBelief",
    "Panel", "PanelRow", "PlannedQuestions", "Promise", "QuestionCost", "Rule", "Sampling", "Search", "Uncertainty",
    "Verification", "adopt", "beliefs_about", "compare_panel", "costs", "design",
    "following_plan", "guide", "joint_columns", "make_plan", "make_questionnaire", "next_plan", "next_priors",
    "optimal_binary", "other_beliefs", "read_beliefs", "read_joint", "read_matrix", "read_priors", "read_questions",
    "read_transition", "read_values", "repaired_response", "respondents_to_detect", "stated_questions", "verify",
    "verify_plan", "with_layers",
]  # fmt: skip
