"""The mechanism `shuffled-circle`: every report carries a seed that orders the values."""

from tacit.mechanism.shuffled_circle.shuffled_circle import ShuffledCircle, ShuffledCircleRule

__all__ = ["ShuffledCircle", "ShuffledCircleRule"]
