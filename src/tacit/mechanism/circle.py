"""What the circles have in common as mechanisms: histograms of any size, private for a prior or a ball of priors.

`circle_rule` has their integers and the proof of their privacy, `circle_reading` what their reports tell. A report is
order · 2^B + position: nobody outside these rooms takes it apart.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Integers
from tacit.mechanism.circle_reading import CircleReading
from tacit.mechanism.circle_rule import WORDS_PER_SAMPLE
from tacit.mechanism.levels import Audit, Belief, Level, Notion, bounded_audit, bounded_belief
from tacit.mechanism.set_levels import SetLevel
from tacit.mechanism.stand_in import RuleSampler, StandIn
from tacit.prior import Prior, PriorSet, Value


@dataclass(frozen=True, kw_only=True)
class Circle(CircleReading):
    """A circle as a mechanism: it serves histograms, with or without the prior."""

    kind: ClassVar[str]
    words_per_report: ClassVar[int] = WORDS_PER_SAMPLE
    #: The integers that a plan holds, each below 2^53.
    _integers: ClassVar[tuple[str, ...]] = ("arc", "step", "cell_bits", "seed_bits", "word_bits")

    @property
    def n_possible_reports(self) -> None:
        """Orders and positions are too many to be listed."""
        return None

    # -- the promise ---------------------------------------------------------------------------------------------

    def audit(self) -> Audit:
        """Bounds of the levels; the LDP level is reached if an arc can cover one value whole and nothing of another."""
        return replace(bounded_audit(self.prior, *self.lift_range()), ldp=Level(self.odds))

    def set_levels(self, prior_set: PriorSet) -> tuple[SetLevel, SetLevel]:
        """Bounds of the levels under every prior as far from the nominal one as the set reaches."""
        self.under(prior_set.prior)
        highest, lowest = self.lift_range(prior_set.radius)
        return SetLevel(highest), SetLevel(1 / lowest if lowest else None)

    def keeps(self, notion: Notion, epsilon: Fraction) -> bool:
        """Whether the bounds keep a promise, decided exactly; MIP by the upper level, a bound of it."""
        return self.audit().bounds(notion, epsilon)

    def belief(self, value: Value) -> Belief:
        """A range in which a report can put the belief that someone holds `value`."""
        return bounded_belief(self.prior, value, *self.lift_range())

    # -- reports -------------------------------------------------------------------------------------------------

    @classmethod
    def sampler(cls, mechanisms: Sequence[Self]) -> RuleSampler:
        """The randomizer of several circles of a kind."""
        return RuleSampler([(each, StandIn(each.prior)) for each in mechanisms])

    def can_send(self, report: int) -> bool:
        """Whether there are such an order and such a position; everybody can send all of them."""
        order, position = divmod(report, 1 << self.cell_bits)
        return 0 <= order < self.orders and position < self.circle

    def can_send_many(self, reports: Integers) -> NDArray[np.bool_]:
        """The same for an array."""
        orders, positions = reports >> self.cell_bits, reports & (1 << self.cell_bits) - 1
        good: NDArray[np.bool_] = (orders >= 0) & (orders < self.orders) & (positions < self.circle)
        return good

    @property
    @abstractmethod
    def steps_per_report(self) -> int:
        """What drawing a report costs, in steps of a loop."""

    @abstractmethod
    def draw_many(self, values: Integers, words: NDArray[np.uint64]) -> Integers:
        """`draw` for arrays: a pure function of two words of `word_bits` bits for each value, shape (n, 2)."""

    # -- the contract --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """What a plan holds beside the prior: some integers below 2^53."""
        return {"kind": self.kind, **{name: getattr(self, name) for name in self._integers}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], prior: Prior) -> Self:
        """Read what `to_dict` wrote; the cells are laid out again, by integers only."""
        numbers = {name: data[name] for name in cls._integers}
        for name, number in numbers.items():
            if type(number) is not int or not 0 <= number < 2**53:
                raise ValueError(
                    f"The {name!r} of a {cls.kind.replace('-', ' ')} must be an integer from 0 to 2^53 - 1."
                )
        return cls(prior=prior, **numbers)
