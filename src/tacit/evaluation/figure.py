"""What a figure is: points on named curves, published or corrected, each with the privacy level it really reaches."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Version = Literal["published", "corrected"]


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


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, or one of ours: its points, and a sentence on what changed.

    `panels` names the parts of the figure in order; every point belongs to one of them.
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


@dataclass(frozen=True)
class Options:
    """How to compute figures: how many Monte-Carlo runs, from which seed, with data from where, small for tests."""

    runs: int = 10_000
    seed: int = 0
    data: Path | None = None
    small: bool = False


class DataMissingError(FileNotFoundError):
    """A figure needs data that is not there; the message says which file and how to get it."""
