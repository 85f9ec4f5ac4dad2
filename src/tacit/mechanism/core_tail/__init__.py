"""The mechanism `core-tail`: histograms of any number of values, read with the prior."""

from tacit.mechanism.core_tail._core_tail import CoreTail, histogram_gain
from tacit.mechanism.core_tail._rule import CORE_UNIT, CoreState

__all__ = ["CORE_UNIT", "CoreState", "CoreTail", "histogram_gain"]
