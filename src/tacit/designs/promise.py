"""What a channel must keep, and the set of lift vectors that this leaves to choose from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from tacit.designs.program.lifts import LiftSet
from tacit.exact import Number, budget
from tacit.mechanism import Mechanism, Notion, satisfies
from tacit.prior import PriorSet


@dataclass(frozen=True)
class Promise:
    """Levels per notion, exact; and the same as bounds on lifts, in floats, for the search.

    With a `prior_set` LIP is promised for every prior of it.
    """

    levels: Mapping[Notion, Fraction]
    lifts: LiftSet
    prior_set: PriorSet | None = None

    @property
    def main(self) -> tuple[Notion, Fraction]:
        """The first notion and its level."""
        return next(iter(self.levels.items()))

    @property
    def others(self) -> dict[Notion, Fraction]:
        """Everything else that is promised."""
        return dict(list(self.levels.items())[1:])

    def kept_by(self, mechanism: Mechanism) -> bool:
        """Whether the mechanism keeps all of it, decided exactly."""
        kept = all(satisfies(mechanism, notion, level) for notion, level in self.levels.items())
        if self.prior_set is None or not kept:
            return kept
        return all(side.holds(self.levels["lip"]) for side in mechanism.set_levels(self.prior_set))

    @property
    def radius(self) -> Fraction:
        """How far the set reaches from the prior; 0 without one."""
        return Fraction(0) if self.prior_set is None else self.prior_set.radius

    @property
    def is_lip_or_ldp(self) -> bool:
        """Whether it is one of these, for a prior or a set, and nothing else."""
        return list(self.levels) in (["lip"], ["ldp"])

    @property
    def is_plain_lip(self) -> bool:
        """Whether it is LIP for one prior with one budget for both sides and nothing else."""
        return list(self.levels) == ["lip"] and self.prior_set is None


def make_promise(
    epsilon: Number,
    notion: Literal["lip", "ldp"] = "lip",
    lower_epsilon: Number | None = None,
    ldp_cap: Number | None = None,
    prior_set: PriorSet | None = None,
) -> Promise:
    """The promise that these parameters of `design` ask for; refuses combinations that cannot help.

    >>> dict(make_promise(1, lower_epsilon=0.5, ldp_cap=1.25).levels)
    {'pml': Fraction(1, 1), 'min_lift': Fraction(1, 2), 'ldp': Fraction(5, 4)}
    """
    level = budget(epsilon)
    e = math.exp(level)
    if prior_set is not None and prior_set.radius == 0:  # The prior alone.
        prior_set = None
    if prior_set is not None:
        if notion != "lip" or lower_epsilon is not None or ldp_cap is not None:
            raise ValueError("A 'prior_set' refines plain LIP: drop 'lower_epsilon' and 'ldp_cap', or the set.")
        return Promise({"lip": level}, LiftSet(1 / e, e), prior_set)
    if notion == "ldp":
        if lower_epsilon is not None or ldp_cap is not None:
            raise ValueError("'lower_epsilon' and 'ldp_cap' refine LIP; with notion='ldp' there is nothing to refine.")
        return Promise({"ldp": level}, LiftSet(1 / e, e, e))
    if notion != "lip":
        raise ValueError(f"The 'notion' must be 'lip' or 'ldp'. Got {notion!r} instead.")
    levels, lower = _sides(level, lower_epsilon)
    if ldp_cap is None:
        return Promise(levels, LiftSet(lower, e))
    cap = budget(ldp_cap, "ldp_cap")
    if cap <= level and lower_epsilon is None:
        raise ValueError(
            f"'ldp_cap' = {float(cap):g} is not above 'epsilon' = {float(level):g}: LDP at the cap already implies the "
            f"LIP budget. Use notion='ldp', epsilon={float(cap):g}, or a cap between {float(level):g} and "
            f"{2 * float(level):g}."
        )
    return Promise(levels | {"ldp": cap}, LiftSet(lower, e, math.exp(cap)))


def _sides(level: Fraction, lower_epsilon: Number | None) -> tuple[dict[Notion, Fraction], float]:
    """The notions for raising and lowering beliefs, and the smallest lift."""
    if lower_epsilon is None:
        return {"lip": level}, math.exp(-level)
    if isinstance(lower_epsilon, float) and math.isinf(lower_epsilon):
        return {"pml": level}, 0.0
    lower = budget(lower_epsilon, "lower_epsilon")
    return {"pml": level, "min_lift": lower}, math.exp(-lower)
