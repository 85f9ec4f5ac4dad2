"""The optimal ε-LIP channel for a uniform prior: subset selection, cyclic and with one fractional member."""

from __future__ import annotations

from fractions import Fraction

from tacit.exact import Number, budget, exp_below
from tacit.mechanism import Channel, round_channel
from tacit.prior import Prior


def cyclic(prior: Prior, epsilon: Number) -> Channel:
    """The optimal histogram channel for a uniform prior on d values: report y is an arc of the domain from y on.

    Each report lifts k = ⌊d/(E+1)⌋ values to E, one to d − kE − (d−k−1)/E and the others to 1/E, and its d cyclic
    shifts are equally likely. A convex utility is maximal at such a vertex and by symmetry all shifts are as good,
    so the bound and the channel meet. Some of these matrices are singular (d = 8 as ε nears ln 3) and allow no
    prior-free estimate.

    >>> from tacit.mechanism.auditing import audit
    >>> prior = Prior.uniform(5)
    >>> cyclic(prior, 1).n_possible_reports, audit(cyclic(prior, 1)).lip.holds(Fraction(1))
    (5, True)
    """
    exact = budget(epsilon)
    inside = prior.on_support()
    if len(set(inside.weights)) > 1:
        raise ValueError("cyclic needs a uniform prior (zeros aside). Use the optimal design for this one.")
    lifts = cyclic_lifts(len(inside), exp_below(exact))
    rows = [[lifts[(x - y) % len(lifts)] for y in range(len(lifts))] for x in range(len(lifts))]
    return round_channel(prior, rows, exact)


def cyclic_lifts(d: int, bound: Fraction) -> list[Fraction]:
    """The lifts of one report: E … E, the fractional one, 1/E … 1/E, with E = bound.

    >>> sum(cyclic_lifts(5, Fraction(3)))
    Fraction(5, 1)
    """
    k = int(d / (bound + 1))
    return [bound] * k + [d - k * bound - (d - k - 1) / bound] + [1 / bound] * (d - k - 1)
