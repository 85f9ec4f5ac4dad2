"""A small mechanism with a ring: its reports are read with the prior, and have an order and a position."""

from __future__ import annotations

from fractions import Fraction

from tacit.designs._many_values import _largest_step
from tacit.exact import exp_below
from tacit.mechanism import ManyValues
from tacit.prior import Prior


def ring(prior: Prior, cell_bits: int, arc: int, epsilon: Fraction) -> ManyValues:
    """Arcs of a ring in one order: reports are 0 or 2^`cell_bits`, plus a position."""
    bits = {"cell_bits": cell_bits, "seed_bits": 0, "word_bits": 52}
    made = ManyValues(prior=prior, giants=0, covered=arc, arc=arc, step=1, bins=1, **bits)
    return _largest_step(made, exp_below(epsilon), Fraction(0))
