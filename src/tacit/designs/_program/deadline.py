"""One deadline for everything that a design does: every loop that may run long asks it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from time import perf_counter


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time, by the clock of `perf_counter`.

    >>> Deadline.after(0).passed, Deadline.after(60).passed
    (True, False)
    """

    at: float = inf

    @classmethod
    def after(cls, seconds: float | Deadline) -> Deadline:
        """In this many seconds; a deadline is returned as it is."""
        return seconds if isinstance(seconds, Deadline) else cls(perf_counter() + seconds)

    @property
    def left(self) -> float:
        """Seconds until it has passed, at least 0."""
        return max(0.0, self.at - perf_counter())

    @property
    def passed(self) -> bool:
        """Whether it has passed."""
        return perf_counter() >= self.at

    def part(self, share: float, most: float = inf) -> Deadline:
        """The point after this share of the time that is left, or `most` seconds if that is earlier."""
        return Deadline.after(min(share * self.left, most))


class TimeLimitError(ArithmeticError):
    """The time limit ended a step that has no result before it is done."""

    def __str__(self) -> str:
        return "the time limit ended the search before it had a channel"
