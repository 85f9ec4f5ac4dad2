"""Monte Carlo that must agree with theory: errors of totals over many runs, drawn as counts and not person by person.

A simulated point carries the analytic root error and the standard error of the simulated one. Where the error is a sum
of independent terms the standard error is exact: with σ² = Σ σ_i² and κ = Σ κ_i (fourth cumulants), a squared error
has variance κ + 2σ⁴, so the root of its mean over R runs has standard error √((κ + 2σ⁴)/R) / (2σ).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from studies.figure import OPTIMAL, Options, Point, Version
from tacit.exact import Floats

Counts = NDArray[np.int64]
SIMULATED = ", simulated"
#: Runs that are simulated at once, to bound memory.
CHUNK = 500


def seeded(options: Options, *words: int) -> np.random.Generator:
    """A generator for one part of one figure: it depends on the seed and the part, not on the order of computation."""
    return np.random.default_rng([options.seed, *words])


@dataclass(frozen=True)
class Moments:
    """Variance and fourth cumulant of one person's error, or of a sum over people."""

    variance: float
    cumulant: float

    def standard_error(self, runs: int, n: int) -> float:
        """Of √(mean squared error / n) over `runs` runs."""
        if self.variance <= 0:
            return 0.0
        return math.sqrt((self.cumulant + 2 * self.variance**2) / runs) / (2 * math.sqrt(self.variance * n))


def simulated_point(
    name: str, version: Version, x: float, squares: Floats, n: int, moments: Moments, level: float, panel: str = ""
) -> Point:
    """The root mean of simulated squared errors of a total over n people, beside its analytic value."""
    return Point(
        panel, name + SIMULATED, version, x, math.sqrt(float(squares.mean()) / n), level,
        moments.standard_error(len(squares), n), math.sqrt(moments.variance / n),
    )  # fmt: skip


def cell_moments(probabilities: Floats, errors: Floats, counts: Floats | float = 1.0) -> Moments:
    """Over independent people: row i is a person (or `counts` equal ones), who errs by errors[i, c] in case c.

    Errors have mean zero, as those of conditional expectations do.
    """
    second = (probabilities * errors**2).sum(axis=-1)
    fourth = (probabilities * errors**4).sum(axis=-1)
    return Moments(float((counts * second).sum()), float((counts * (fourth - 3 * second**2)).sum()))


def sum_errors(
    probabilities: Sequence[Floats], errors: Sequence[Floats], runs: int, rng: np.random.Generator
) -> Floats:
    """The error of a sum in each run: person i is in case c with probabilities[i][c] and then errs by errors[i][c]."""
    total = np.zeros(runs)
    for chances, misses in zip(probabilities, errors, strict=True):
        cumulative = np.cumsum(chances)
        case = np.searchsorted(cumulative / cumulative[-1], rng.random(runs), side="right")
        total += misses[case]
    return total


def binary_errors(p: Floats, yes_if_no: Floats, yes_if_yes: Floats) -> tuple[Floats, Floats]:
    """The four cases (x, y) of a yes/no person: their probabilities and errors x − Pr(1|y), as (people, 4) arrays."""
    joint = np.stack([(1 - p) * (1 - yes_if_no), (1 - p) * yes_if_no, p * (1 - yes_if_yes), p * yes_if_yes], axis=-1)
    no, yes = joint[..., 0] + joint[..., 2], joint[..., 1] + joint[..., 3]
    with np.errstate(invalid="ignore", divide="ignore"):
        after_no = np.where(no > 0, joint[..., 2] / no, p)
        after_yes = np.where(yes > 0, joint[..., 3] / yes, p)
    return joint, np.stack([-after_no, -after_yes, 1 - after_no, 1 - after_yes], axis=-1)


def grouped_squares(
    ones: Counts, people: Floats, yes_if_no: Floats, yes_if_yes: Floats, errors: Floats, rng: np.random.Generator
) -> Floats:
    """Squared errors of the sum, for runs in which ones[r, g] of the people[g] in group g hold a one.

    The people of a group have one prior and one channel, so how many of its ones and of its zeros say yes are two
    binomials: exact in distribution, and 100 times fewer draws than people at N = 50,000.
    """
    squares = np.empty(len(ones))
    for start in range(0, len(ones), CHUNK):
        held = ones[start : start + CHUNK]
        free = people.astype(np.int64) - held
        true_yes = rng.binomial(held, yes_if_yes)
        false_yes = rng.binomial(free, yes_if_no)
        missed = (free - false_yes) @ errors[:, 0] + false_yes @ errors[:, 1]
        missed += (held - true_yes) @ errors[:, 2] + true_yes @ errors[:, 3]
        squares[start : start + CHUNK] = missed**2
    return squares


def histogram_point(channel: Floats, epsilon: float, options: Options, n: int = 500) -> Point:
    """The histogram of n people with a uniform prior through `channel`, simulated; the standard error is empirical.

    A run is one multinomial draw over the cells (value, report).
    """
    d = len(channel)
    runs = min(options.runs, 2_000)
    joint = channel / d
    share = joint.sum(axis=0)
    posterior = joint / share
    rng = seeded(options, 7, round(epsilon * 1000))
    squares = np.empty(runs)
    for start in range(0, runs, CHUNK):
        stop = min(runs, start + CHUNK)
        cells = rng.multinomial(n, joint.ravel() / joint.sum(), size=stop - start).reshape(-1, d, d)
        missed = cells.sum(axis=2) - cells.sum(axis=1) @ posterior.T
        squares[start:stop] = (missed**2).sum(axis=1)
    expected = 1.0 - float(share @ (posterior**2).sum(axis=0))
    root = math.sqrt(float(squares.mean()) / n)
    error = float(squares.std(ddof=1)) / math.sqrt(runs) / (2 * math.sqrt(float(squares.mean()) * n)) if root else 0.0
    return Point("", OPTIMAL + SIMULATED, "corrected", epsilon, root, epsilon, error, math.sqrt(max(0.0, expected)))
