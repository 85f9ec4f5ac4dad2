"""The mechanism `plane-circle`: the circle in the orders of a finite plane."""

from tacit.mechanism.plane_circle.plane_circle import PlaneCircle

__all__ = ["PlaneCircle"]
