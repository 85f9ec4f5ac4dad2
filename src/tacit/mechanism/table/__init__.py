"""The mechanism `table`: the matrix Q(y|x) written out in exact integers."""

from tacit.mechanism.table._channel import Channel, label_reports
from tacit.mechanism.table._reading import Information, mmse_weights, unbiased_weights

__all__ = ["Channel", "Information", "label_reports", "mmse_weights", "unbiased_weights"]
