"""The mechanism `shuffled-circle`: histograms of any size, private for a prior or a ball of priors, read without one.

`shuffled_circle_rule` has its integers and the proof of its privacy, `shuffled_circle_reading` what its reports tell. A
report is seed · 2^B + position: nobody outside these rooms takes it apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Integers
from tacit.mechanism.levels import Audit, Belief, Level, Notion, bounded_audit, bounded_belief
from tacit.mechanism.set_levels import SetLevel
from tacit.mechanism.shuffled_circle_reading import ShuffledCircleReading
from tacit.mechanism.shuffled_circle_rule import WORDS_PER_SAMPLE
from tacit.mechanism.stand_in import RuleSampler
from tacit.prior import Prior, PriorSet, Value


@dataclass(frozen=True, kw_only=True)
class ShuffledCircle(ShuffledCircleReading):
    """A shuffled circle as a mechanism: it serves histograms, with or without the prior."""

    kind: ClassVar[str] = "shuffled-circle"
    words_per_report: ClassVar[int] = WORDS_PER_SAMPLE

    @property
    def n_possible_reports(self) -> None:
        """Seeds and positions are too many to be listed."""
        return None

    # -- the promise ---------------------------------------------------------------------------------------------

    def audit(self, prior: Prior) -> Audit:
        """Bounds of the levels; the LDP level is reached if an arc can cover one value whole and nothing of another."""
        self._check_prior(prior)
        return replace(bounded_audit(prior, *self.lift_range()), ldp=Level(self.odds))

    def set_levels(self, prior_set: PriorSet) -> tuple[SetLevel, SetLevel]:
        """Bounds of the levels under every prior as far from the nominal one as the set reaches."""
        self._check_prior(prior_set.prior)
        highest, lowest = self.lift_range(prior_set.radius)
        return SetLevel(highest), SetLevel(1 / lowest if lowest else None)

    def keeps(self, prior: Prior, notion: Notion, epsilon: Fraction) -> bool:
        """Whether the bounds keep a promise, decided exactly; MIP by the upper level, a bound of it."""
        return self.audit(prior).bounds(notion, epsilon)

    def belief(self, prior: Prior, value: Value) -> Belief:
        """A range in which a report can put the belief that someone holds `value`."""
        self._check_prior(prior)
        return bounded_belief(prior, value, *self.lift_range())

    # -- reports -------------------------------------------------------------------------------------------------

    @classmethod
    def sampler(cls, mechanisms: Sequence[ShuffledCircle], priors: Sequence[Prior]) -> RuleSampler:
        """The randomizer of several shuffled circles."""
        return RuleSampler(mechanisms, priors)

    def can_send(self, report: int) -> bool:
        """Whether there are such a seed and such a position; everybody can send all of them."""
        return 0 <= report < 1 << self.seed_bits + self.cell_bits and report % (1 << self.cell_bits) < self.circle

    def can_send_many(self, reports: Integers) -> NDArray[np.bool_]:
        """The same for an array."""
        seeds, positions = reports >> self.cell_bits, reports & (1 << self.cell_bits) - 1
        good: NDArray[np.bool_] = (seeds >= 0) & (seeds < 1 << self.seed_bits) & (positions < self.circle)
        return good

    def draw_many(self, values: Integers, words: NDArray[np.uint64]) -> Integers:
        """`draw` for arrays: a pure function of two words of `word_bits` bits for each value, shape (n, 2)."""
        from tacit.mechanism import shuffled_circle_loops as loops
        from tacit.mechanism.kernels import in_threads

        reports = np.empty(len(values), dtype=np.int64)
        rule = (
            self.cell_array.astype(np.uint64), np.array(self.pieces, dtype=np.uint64), self.first_pieces,
            self.offsets.astype(np.uint64), self.piece_cells.astype(np.uint32), np.uint64(self.base),
            np.uint64(self.step), np.uint64(self.circle), self.cell_bits, self.seed_bits, self.choice_bits,
        )  # fmt: skip

        def work(_: int, part: slice) -> None:
            loops.draw(values[part], words[part], *rule, reports[part])

        in_threads(len(values), work, len(self.piece_cells))
        return reports

    # -- the contract --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """What a plan holds beside the prior: five integers below 2^53."""
        return {
            "kind": self.kind,
            "arc": self.arc,
            "step": self.step,
            "cell_bits": self.cell_bits,
            "seed_bits": self.seed_bits,
            "word_bits": self.word_bits,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], prior: Prior) -> ShuffledCircle:
        """Read what `to_dict` wrote; the cells are laid out again, by integers only."""
        numbers = {name: data[name] for name in ("arc", "step", "cell_bits", "seed_bits", "word_bits")}
        for name, number in numbers.items():
            if type(number) is not int or not 0 <= number < 2**53:
                raise ValueError(f"The {name!r} of a shuffled circle must be an integer from 0 to 2^53 - 1.")
        return cls(weights=prior.on_support().weights, **numbers)
