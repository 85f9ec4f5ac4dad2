"""From records of people, as last year's spreadsheet has them, to priors with counts."""

from tacit.microdata._priors import JointTable, PriorTable, counts_from, joint_from, priors_from

__all__ = ["JointTable", "PriorTable", "counts_from", "joint_from", "priors_from"]
