"""The mechanism `unary-encoding`: optimized unary encoding (OUE, Wang et al. 2017), for comparisons.

A report has a bit for each value: its sender's bit is fair, each other bit is set with probability q = chance/2^m, all
of them independent. Setting bit x divides the odds of x and any x' by (1−q)/q on one side and multiplies them by as
much on the other, so the LDP level is ln((1−q)/q).

What is sampled.  m + 1 words of d bits. All d comparisons of a binary fraction with q are made at once, from the last
of its m digits on: where the digit of q is 1 the bits so far are or-ed with a word, where it is 0 they are and-ed. The
last word holds the sender's bit.

A report of d bits fits a plan up to 52 values only. It has the variance 4e^ε/(e^ε−1)² for light values, which a block
design reaches in two numbers for any d; nothing is lost beyond 52 values but the name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Integers
from tacit.mechanism.pure_protocol import PureProtocol
from tacit.prior import Prior

#: Reports are integers below 2^53.
MOST_VALUES = 52
DIGITS = 32


@dataclass(frozen=True, kw_only=True)
class UnaryEncoding(PureProtocol):
    """Unary encoding of `size` values; `chance` = q·2^m, `digits` = m.

    >>> small = UnaryEncoding(prior=Prior.uniform(3), chance=1, digits=2)
    >>> str(small.odds), small.draw(0, (0b111, 0b110, 0b001))
    ('3', 7)
    """

    chance: int
    digits: int = DIGITS

    kind: ClassVar[str] = "unary-encoding"

    def __post_init__(self) -> None:
        if not 2 <= self.size <= MOST_VALUES:
            raise ValueError(f"Unary encoding has a bit for each of 2 to {MOST_VALUES} values. Got {self.size}.")
        if not 1 <= self.digits <= DIGITS or not 0 < 2 * self.chance < 1 << self.digits:
            raise ValueError(f"The 'chance' must be below a half, in 1 to {DIGITS} digits. Got {self.chance}.")

    @property
    def n_reports(self) -> int:
        """2^d."""
        return 1 << self.size

    @property
    def word_bits(self) -> int:
        """A bit for each value."""
        return self.size

    @property
    def words_per_report(self) -> int:
        """One for each digit, and one for the sender's own bit."""
        return self.digits + 1

    @property
    def cover_range(self) -> tuple[int, int]:
        """Any values, or none."""
        return 0, self.size

    @property
    def odds(self) -> Fraction:
        """(1−q)/q."""
        return Fraction((1 << self.digits) - self.chance, self.chance)

    @property
    def own(self) -> Fraction:
        """A fair bit."""
        return Fraction(1, 2)

    @property
    def other(self) -> Fraction:
        """q."""
        return Fraction(self.chance, 1 << self.digits)

    def draw(self, value: int, words: tuple[int, ...]) -> int:
        """The report of `value`: a pure function of the words."""
        bits = 0
        for digit, word in enumerate(words[:-1]):
            bits = word | bits if self.chance >> digit & 1 else word & bits
        mine = 1 << value
        return bits & ~mine | words[-1] & mine

    def draw_many(self, values: Integers, words: NDArray[np.uint64]) -> Integers:
        """`draw` for arrays, compiled."""
        from tacit.mechanism import pure_loops as loops

        reports = np.empty(len(values), dtype=np.int64)
        loops.unary_draw(values, words, np.uint64(self.chance), self.digits, reports)
        return reports

    def likelihood(self, value: int, report: int) -> Fraction:
        """Q(report|value), exactly."""
        others = (report & ~(1 << value)).bit_count()
        return self.other**others * (1 - self.other) ** (self.size - 1 - others) / 2

    def covers(self, reports: Integers, values: Integers | None = None) -> NDArray[np.bool_]:
        """Whether each bit is set."""
        asked = np.arange(self.size) if values is None else values
        covered: NDArray[np.bool_] = (reports[:, None] >> asked & 1).astype(bool)
        return covered

    def cover_counts(self, reports: Integers, times: Integers | None) -> Integers:
        """How often each bit is set."""
        from tacit.mechanism.pure_loops import unary_covers

        sums = np.zeros(self.size, dtype=np.int64)
        unary_covers(reports, np.ones(1, dtype=np.int64) if times is None else times, sums)
        return sums

    def to_dict(self) -> dict[str, Any]:
        """What a plan holds beside the prior."""
        return {"kind": self.kind, "chance": self.chance, "digits": self.digits}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], prior: Prior) -> Self:
        """Read what `to_dict` wrote."""
        for name in ("chance", "digits"):
            if type(data[name]) is not int or not 0 <= data[name] < 2**53:
                raise ValueError(f"The {name!r} of a unary encoding must be an integer from 0 to 2^53 - 1.")
        return cls(prior=prior, chance=data["chance"], digits=data["digits"])
