"""What a channel must keep, and the set of lift vectors that this leaves to choose from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from tacit.designs._program.lifts import LiftSet
from tacit.exact import Number, budget
from tacit.mechanism import Mechanism, Notion, satisfies
from tacit.prior import PriorSet


@dataclass(frozen=True)
class Promise:
    """LIP or LDP at level ε, and what is promised beside it.

    Args:
        epsilon: the budget ε, read exactly.
        notion: "lip", or "ldp" for the best LDP channel under the same prior, the fair baseline.
        ldp_cap: an LDP level that is kept as well.
        prior_set: LIP is kept for every prior of this set around the stated one, which may be wrong.

    Combinations that cannot help are refused.

    >>> Promise(1, ldp_cap=1.25).levels
    {'lip': Fraction(1, 1), 'ldp': Fraction(5, 4)}
    """

    epsilon: Fraction
    notion: Literal["lip", "ldp"]
    ldp_cap: Fraction | None
    prior_set: PriorSet | None

    def __init__(
        self,
        epsilon: Number,
        notion: Literal["lip", "ldp"] = "lip",
        ldp_cap: Number | None = None,
        prior_set: PriorSet | None = None,
    ) -> None:
        if notion not in ("lip", "ldp"):
            raise ValueError(f"The 'notion' must be 'lip' or 'ldp'. Got {notion!r} instead.")
        if prior_set is not None and (notion != "lip" or ldp_cap is not None):
            raise ValueError("A 'prior_set' refines plain LIP: drop 'ldp_cap', or the set.")
        if notion == "ldp" and ldp_cap is not None:
            raise ValueError("An 'ldp_cap' refines LIP; with notion='ldp' there is nothing to refine.")
        level, cap = budget(epsilon), None if ldp_cap is None else budget(ldp_cap, "ldp_cap")
        if cap is not None and cap <= level:
            raise ValueError(
                f"'ldp_cap' = {float(cap):g} is not above 'epsilon' = {float(level):g}: LDP at the cap already implies "
                f"the LIP budget. Use notion='ldp', epsilon={float(cap):g}, or a cap between {float(level):g} and "
                f"{2 * float(level):g}."
            )
        alone = prior_set is not None and prior_set.radius == 0
        for name, value in (
            ("epsilon", level), ("notion", notion), ("ldp_cap", cap), ("prior_set", None if alone else prior_set),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, promise: Promise | Number) -> Promise:
        """A promise as it is, or plain LIP at ε."""
        return promise if isinstance(promise, Promise) else cls(promise)

    @cached_property
    def levels(self) -> dict[Notion, Fraction]:
        """A level for each notion, exact."""
        if self.notion == "ldp":
            return {"ldp": self.epsilon}
        return {"lip": self.epsilon} if self.ldp_cap is None else {"lip": self.epsilon, "ldp": self.ldp_cap}

    @cached_property
    def lifts(self) -> LiftSet:
        """The same as bounds on lifts, in floats, for the search."""
        e = math.exp(self.epsilon)
        if self.notion == "ldp":
            return LiftSet(1 / e, e, e)
        return LiftSet(math.exp(-self.epsilon), e, math.inf if self.ldp_cap is None else math.exp(self.ldp_cap))

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
