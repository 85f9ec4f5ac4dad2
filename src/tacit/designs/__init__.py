"""Choosing a mechanism: closed forms, linear programs, and the certificate of how good the choice is."""

from tacit.designs.adopted import adopt
from tacit.designs.binary import binary_mse, optimal_binary
from tacit.designs.choosing import design
from tacit.designs.cyclic import cyclic
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
from tacit.designs.methods import Design
from tacit.designs.planning import make_plan
from tacit.designs.prior_file import GroupPrior, read_beliefs, read_priors
from tacit.designs.repaired import repaired_response
from tacit.designs.rules import Rule, read_matrix
from tacit.designs.value_file import read_values
from tacit.designs.verification import Verification, verify, verify_plan
from tacit.designs.worth import Worth

__all__ = [
    "Choice",
    "Costs",
    "Design",
    "Detection",
    "GroupPrior",
    "OtherBelief",
    "Rule",
    "Verification",
    "Worth",
    "adopt",
    "binary_mse",
    "costs",
    "cyclic",
    "design",
    "guide",
    "make_plan",
    "optimal_binary",
    "other_beliefs",
    "read_beliefs",
    "read_matrix",
    "read_priors",
    "read_values",
    "repaired_response",
    "respondents_to_detect",
    "verify",
    "verify_plan",
]
