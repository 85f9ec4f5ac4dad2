"""Histograms of many values: the heavy ones by name, the others by arcs of a circle in public orders."""

from tacit.mechanism.many_values._binned import MOST_LOOKS
from tacit.mechanism.many_values._many_values import ManyValues
from tacit.mechanism.many_values._plane import MOST_PLACES, MOST_SLOTS, MOST_WORK
from tacit.mechanism.many_values._rule import MARGIN_UNIT

__all__ = ["MARGIN_UNIT", "MOST_LOOKS", "MOST_PLACES", "MOST_SLOTS", "MOST_WORK", "ManyValues"]
