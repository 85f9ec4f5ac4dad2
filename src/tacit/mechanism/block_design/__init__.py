"""The mechanism `block-design`: local differential privacy for any number of values, without a prior."""

from tacit.mechanism.block_design._block_design import MOST_POINTS, BlockDesign

__all__ = ["MOST_POINTS", "BlockDesign"]
