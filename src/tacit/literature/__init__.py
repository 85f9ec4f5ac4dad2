"""What only studies use: the published forms, the mechanisms of others, and the case of a trusted collector."""

from tacit.literature.baselines import k_ary_response, local_hashing, subset_selection, unary_encoding
from tacit.literature.centralized import Central, central, central_mse
from tacit.literature.published import theorem3

__all__ = [
    "Central",
    "central",
    "central_mse",
    "k_ary_response",
    "local_hashing",
    "subset_selection",
    "theorem3",
    "unary_encoding",
]
