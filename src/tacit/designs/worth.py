"""What a prior is worth: the set of priors that stays plausible around the one that is stated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from tacit.designs.prior_file import GroupPrior
from tacit.exact import Number, rational
from tacit.prior import Ball, Box, Hull, Prior, PriorSet, from_records

CONFIDENCE = "0.99"


@dataclass(frozen=True, kw_only=True)
class Worth:
    """How wrong the priors of a plan may be; one of these, for all groups.

    `error` is a total variation distance; `records` the number of past records a prior rests on, None to take it from
    the counts of each group; with `candidates` every group's candidates and their mixtures are plausible.

    >>> from tacit import Prior
    >>> Worth(error="0.03").around(GroupPrior(name=None, prior=Prior.of({"yes": 0.1, "no": 0.9}))).to_dict()
    {'kind': 'ball', 'radius': '3/100'}
    """

    error: Number | None = None
    records: int | None = None
    confidence: Number = CONFIDENCE
    candidates: bool = False

    def around(self, each: GroupPrior, between: bool = False) -> PriorSet:
        """The set around one group's prior; `between` says that its values are knots that answers are rounded to."""
        if self.error is not None:
            return Ball(each.prior, self.error)
        if self.candidates:
            if not each.candidates:
                raise ValueError(f"There are no candidates for group {each.name!r}.")
            return Hull(each.prior, each.candidates)
        records = self.records if self.records is not None else each.records
        if records is None or records < 1:
            raise ValueError(
                f"It is not known how many records the prior of group {each.name!r} rests on: give counts, or "
                "--prior-records."
            )
        if between:
            return _knots_box(each.prior, each.observed or each.prior, records, self.confidence)
        return from_records(each.prior, records, self.confidence, each.observed)


def _knots_box(prior: Prior, observed: Prior, records: int, confidence: Number) -> Box:
    """Ranges of the knots' probabilities that n past answers leave plausible.

    By Dvoretzky, Kiefer, Wolfowitz and Massart the distribution function of the answers is within
    D = √(ln(2/(1 − confidence))/2n) of the empirical one, everywhere at once. The weight of a knot rises from 0 to 1
    and falls again as an answer moves over it (at the ends it does only one of the two), so its mean is off by at most
    2D (or D). D is rounded up.
    """
    risk = 1 - rational(confidence, "confidence")
    if not 0 < risk < 1:
        raise ValueError(f"The 'confidence' must lie between 0 and 1. Got {confidence} instead.")
    off = rational(math.ceil(math.sqrt(math.log(2 / risk) / (2 * records)) * 1e6)) / 10**6
    low, high = [], []
    for place, (weight, seen) in enumerate(zip(prior.weights, observed.weights, strict=True)):
        share, found = Fraction(weight, prior.total), Fraction(seen, observed.total)
        far = off if place in (0, len(prior) - 1) else 2 * off
        low.append(max(Fraction(0), min(share, found - far)))
        high.append(min(Fraction(1), max(share, found + far)))
    return Box(prior, low, high)
