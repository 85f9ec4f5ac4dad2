"""Mechanisms: one family per file. Each returns a channel that has passed the exact audit, or raises."""

from tacit.design.baselines import k_ary_response, local_hashing, subset_selection, unary_encoding
from tacit.design.binary import binary_mse, optimal_binary
from tacit.design.central import Central, central, central_mse
from tacit.design.cyclic import cyclic
from tacit.design.methods import Design
from tacit.design.optimal import design, design_many
from tacit.design.published import theorem3
from tacit.design.repaired import repaired_response
from tacit.design.verify import Verification, verify

__all__ = [
    "Central",
    "Design",
    "Verification",
    "binary_mse",
    "central",
    "central_mse",
    "cyclic",
    "design",
    "design_many",
    "k_ary_response",
    "local_hashing",
    "optimal_binary",
    "repaired_response",
    "subset_selection",
    "theorem3",
    "unary_encoding",
    "verify",
]
