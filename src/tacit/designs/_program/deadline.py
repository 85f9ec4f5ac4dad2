"""One deadline for everything that a design does: every loop that may run long counts its work and asks it.

Work is counted and not timed, so that a busy or a slow machine finds the same design as an idle one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from time import perf_counter

#: Operations that one ordinary core does in a second: additions of vectors, a few for a number that is sorted.
_PER_SECOND = 1e9
#: The clock stops a search only when it has taken this many times as long as its counted work should take.
_PATIENCE = 20.0


@dataclass(slots=True)
class _Meter:
    """Work done, in seconds of an ordinary core, and when the clock stops it at the latest."""

    done: float = 0.0
    stop: float = inf


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in the work of one design.

    >>> deadline = Deadline.after(2)
    >>> deadline.spend(1.5e9)
    >>> deadline.passed, deadline.left, deadline.part(1 / 2).left
    (False, 0.5, 0.25)
    """

    at: float = inf
    meter: _Meter = field(default_factory=_Meter)

    @classmethod
    def after(cls, seconds: float | Deadline) -> Deadline:
        """A limit on the work that an ordinary core does in that many seconds; a deadline is returned as it is."""
        if isinstance(seconds, Deadline):
            return seconds
        return cls(seconds, _Meter(stop=perf_counter() + _PATIENCE * seconds))

    def spend(self, operations: float) -> None:
        """Count work that is done."""
        self.meter.done += operations / _PER_SECOND

    @property
    def left(self) -> float:
        """The work until it has passed, in seconds, at least 0."""
        return max(0.0, self.at - self.meter.done)

    @property
    def operations(self) -> float:
        """The same in operations."""
        return self.left * _PER_SECOND

    @property
    def clock(self) -> float:
        """Seconds until the clock stops it."""
        return max(0.0, self.meter.stop - perf_counter())

    @property
    def passed(self) -> bool:
        """Whether it has passed."""
        return self.meter.done >= self.at or not self.clock

    def part(self, share: float, most: float = inf) -> Deadline:
        """The point after this share of the work that is left, or after `most` seconds of it if that is earlier."""
        return Deadline(self.meter.done + min(share * self.left, most), self.meter)


class TimeLimitError(ArithmeticError):
    """The time limit ended a step that has no result before it is done."""

    def __str__(self) -> str:
        return "the time limit ended the search before it had a channel"
