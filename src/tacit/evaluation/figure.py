"""What a figure is: points on named curves, published or corrected, each with the privacy level it really reaches."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Version = Literal["published", "corrected"]

#: A simulated point must lie within this many of its own standard errors of the analytic value.
BAND = 4.0


@dataclass(frozen=True)
class Point:
    """One value of one curve. `level` is the LIP level that the mechanism really reaches, None where it has none.

    A simulated point has a standard error and the analytic value that it should agree with.
    """

    panel: str
    curve: str
    version: Version
    x: float
    y: float
    level: float | None = None
    standard_error: float | None = None
    expected: float | None = None

    @property
    def deviation(self) -> float | None:
        """|simulated − analytic| in standard errors; None for a point that is not simulated."""
        if self.standard_error is None or self.expected is None:
            return None
        # The last digits of the analytic value are rounding, also where the error is so rare that none was seen.
        distance = max(0.0, abs(self.y - self.expected) - 1e-12)
        return distance / self.standard_error if self.standard_error > 0 else (0.0 if distance == 0 else float("inf"))


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, or one of ours: its points, and a sentence on what changed.

    `panels` names the parts of the figure in order; every point belongs to one of them. `epsilon` is the promised
    budget where the x-axis is not it. `kind` "plane" is a map of channels (Figure 10), not error against something.
    `told_at` is the place of the x-axis that a short table tells, if the figure has one of its own.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    points: tuple[Point, ...]
    remark: str
    panels: tuple[str, ...] = ("",)
    log_y: bool = False
    notes: tuple[str, ...] = field(default=())
    epsilon: float | None = None
    kind: Literal["lines", "plane"] = "lines"
    told_at: float | None = None

    @property
    def simulated(self) -> tuple[Point, ...]:
        """The points that come from Monte Carlo."""
        return tuple(point for point in self.points if point.deviation is not None)

    @property
    def disagreements(self) -> tuple[Point, ...]:
        """Simulated points that contradict their analytic value."""
        return tuple(point for point in self.simulated if not (point.deviation or 0.0) <= BAND)


@dataclass(frozen=True)
class Options:
    """How to compute figures: how many Monte-Carlo runs, from which seed, with data from where, small for tests."""

    runs: int = 10_000
    seed: int = 0
    data: Path | None = None
    small: bool = False


class DataMissingError(FileNotFoundError):
    """A figure needs data that is not there; the message says which file and how to get it."""
