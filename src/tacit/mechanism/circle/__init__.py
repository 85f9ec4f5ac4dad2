"""What the two circles share: the rule with its proof, moments, and the reading."""

from tacit.mechanism.circle.circle import Circle

__all__ = ["Circle"]
