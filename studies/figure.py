"""What a figure is: points on named curves, published or corrected, each with the privacy level it really reaches.

Below: the names of the curves, and the errors and levels that have closed forms. Everywhere E = e^ε, P is the prior,
and an error is the mean squared error per respondent; figures show its square root.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from studies.baselines import Pure
from tacit.exact import Floats

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


#: The axes of most figures.
EPSILON, ROOT = "promised ε", "√(MSE / N)"
OPTIMAL = "optimal ε-LIP"
HALF = "optimal ε/2-LIP"
BEST_LDP = "best ε-LDP under the prior"
K_ARY = "k-ary response with MMSE"
FREE = "context-free LDP"
UNARY = "OUE, all cells"
CENTRAL = "CIP, a trusted server"
NO_DATA = "no data, the prior alone"
BOUND = "proven bound of ε-LIP"
PUBLISHED_LDP = "k-ary response as Opt-LDP"


def curve(
    name: str,
    version: Version,
    xs: Iterable[float],
    errors: Iterable[float],
    levels: Iterable[float | None] | float | None = None,
    panel: str = "",
) -> list[Point]:
    """The points of a curve: the root of each error; infinite ones are left out."""
    xs = list(xs)
    each = [levels] * len(xs) if levels is None or isinstance(levels, float | int) else list(levels)
    return [
        Point(
            panel, name, version, float(x), math.sqrt(max(0.0, float(error))), None if level is None else float(level)
        )
        for x, error, level in zip(xs, errors, each, strict=True)
        if math.isfinite(error)
    ]


def reached(name: str, promised: Sequence[float], levels: Sequence[float]) -> str:
    """A published curve's name with the level that it really reaches, at the promise nearest to 1 that it breaks.

    >>> reached("published", [1.0, 2.0], [4.152, 5.0])
    'published, reaches ε = 4.15 for 1'
    >>> reached("published", [1.0], [1.0])
    'published, keeps its ε'
    """
    broken = [(abs(math.log(p)), p, level) for p, level in zip(promised, levels, strict=True) if level > p + 1e-9]
    if not broken:
        return f"{name}, keeps its ε"
    _, promise, level = min(broken)
    return f"{name}, reaches ε = {level:.2f} for {promise:g}"


def published_level(prior: Floats, epsilon: float) -> float:
    """max(ε, ln(1/E + (1−1/E)/P)) over the values: what Theorem 3's channel really reaches.

    It exceeds ε exactly where some P < 1/(E+1).

    >>> round(published_level(np.array([0.9, 0.1]), 1.0), 4)
    1.9005
    """
    lie = math.exp(-epsilon)
    return max(epsilon, math.log(lie + (1 - lie) / float(np.min(prior))))


def published_error(variance: float, epsilon: float) -> float:
    """V·(2/E − 1/E²) for a sum or histogram of prior variance V: the truth with probability 1 − 1/E, else the prior."""
    lie = math.exp(-epsilon)
    return variance * lie * (2 - lie)


def k_ary_level(prior: Floats, epsilon: float) -> float:
    """The LIP level of k-ary randomized response: report k has lifts E/m and 1/m with m = P_k·E + 1 − P_k.

    >>> round(k_ary_level(np.array([0.5, 0.5]), 1.0), 4)
    0.6201
    """
    mass = 1 + prior * math.expm1(epsilon)
    return float(max(epsilon - np.log(mass).min(), np.log(mass).max()))


def channel_error(prior: Floats, channel: Floats, g: Floats) -> float:
    """The error of the MMSE estimate of g (values × components) for a channel given as a matrix of floats.

    >>> round(channel_error(np.array([0.5, 0.5]), np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([[0.0], [1.0]])), 4)
    0.1875
    """
    centred = g - prior @ g
    share = prior @ channel
    means = ((prior[:, None] * channel) / share).T @ centred
    return float(prior @ (centred**2).sum(axis=1) - share @ (means**2).sum(axis=1))


def k_ary_error(prior: Floats, epsilon: float, g: Floats) -> float:
    """The same for k-ary randomized response."""
    d = len(prior)
    channel = (np.ones((d, d)) + math.expm1(epsilon) * np.eye(d)) / (math.exp(epsilon) + d - 1)
    return channel_error(prior, channel, g)


def subset_error(d: int, epsilon: float) -> tuple[float, int]:
    """The least error of any ε-LDP histogram channel under a uniform prior on d values, and its subset size.

    By symmetry some orbit of {1, E} patterns is optimal: subset selection with k values at E. Its lifts are E/m and 1/m
    with m = (kE + d − k)/d, and it gains Σ (v−1)²/d².

    >>> subset_error(6, 0.5)[1]
    2
    """
    e = math.exp(epsilon)
    mass = [(k * e + d - k) / d for k in range(1, d)]
    gains = [(k * (e / m - 1) ** 2 + (d - k) * (1 / m - 1) ** 2) / d**2 for k, m in enumerate(mass, start=1)]
    best = int(np.argmax(gains))
    return 1 - 1 / d - gains[best], best + 1


def subset_level(d: int, size: int, epsilon: float) -> float:
    """The LIP level of subset selection under a uniform prior."""
    mass = math.log1p(size * math.expm1(epsilon) / d)
    return max(epsilon - mass, mass)


def noise(pure: Pure, share: float) -> float:
    """The variance that one respondent adds to an unbiased count of people *who took part* and hold a value.

    (share·p(1−p) + (1−share)·q(1−q)) / (p−q)²: unlike `Pure.cell_variance` it leaves out who happened to take part.
    """
    if pure.p == pure.q:
        return math.inf
    spread = share * pure.p * (1 - pure.p) + (1 - share) * pure.q * (1 - pure.q)
    return spread / (pure.p - pure.q) ** 2


def grid(small: bool, few: Sequence[float], start: float, stop: float, step: float) -> list[float]:
    """Budgets: a few for tests, otherwise an even grid."""
    return list(few) if small else [round(start + k * step, 10) for k in range(round((stop - start) / step) + 1)]
