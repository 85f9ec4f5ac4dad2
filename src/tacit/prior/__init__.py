"""Priors: what is known before the answers, as an exact distribution, and sets of priors around it."""

from tacit.disk import clean_name
from tacit.prior._distribution import Prior, Value, has_unseen, listed, near_names, nearest, numbers_if_all
from tacit.prior.sets import Ball, Box, Hull, PriorSet, from_records, read_set

__all__ = [
    "Ball", "Box", "Hull", "Prior", "PriorSet", "Value", "clean_name", "from_records", "has_unseen", "listed",
    "near_names", "nearest", "numbers_if_all", "read_set",
]  # fmt: skip
