"""One system at one size, one ε and one truth: speed, error and coverage, over several runs on the same people."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from peers.peer import Floats, Integers, Peer, Shares

#: Errors are told for so many people.
PEOPLE = 100_000
#: Speeds are of so many where a system is fast enough for that: with fewer, what a call costs whatever its rows counts.
MANY = 1_000_000
#: At least so many runs, and for few values enough squares for their mean to be within about 7%.
RUNS, SQUARES, QUICK_SQUARES = 5, 400, 60
#: The first rows of the calibration, and the fewest that an error is scaled from.
FEW, FEWEST = 16, 10
#: Seconds after which nothing is tried twice.
LONG = 0.1


@dataclass(frozen=True)
class Speed:
    """In how many seconds so many rows are done."""

    rows: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.rows / self.seconds

    def leaves_time_for_many(self, half: float, seconds: float) -> bool:
        """Whether all people could be done, and RUNS runs of MANY fit into the time, by what the second half of the
        rows costs: the first `half` took so long.

        >>> Speed(PEOPLE, 0.01).leaves_time_for_many(0.005, 1), Speed(PEOPLE, 0.03).leaves_time_for_many(0.015, 1)
        (True, False)
        >>> Speed(PEOPLE, 0.1).leaves_time_for_many(0.096, 1)
        True
        """
        more = max(self.seconds - half, 0.0) * 2 * (MANY - PEOPLE) / PEOPLE
        return self.rows == PEOPLE and RUNS * (self.seconds + more) <= seconds


@dataclass(frozen=True)
class Measured:
    """Speeds are medians of all runs, on `perturbed_rows` and `estimated_rows`. Errors are means over values and runs,
    about the people who took part, and told for `PEOPLE` people; with fewer `rows`, as many as there was time for, they
    are scaled by rows/PEOPLE.
    """

    rows: int
    runs: int
    perturbed_per_second: float
    estimated_per_second: float
    squared_error: float
    clipped_error: float | None
    coverage: float | None
    perturbed_rows: int = PEOPLE
    estimated_rows: int = PEOPLE

    @property
    def scaled(self) -> bool:
        return self.rows < PEOPLE

    @property
    def per_second(self) -> float:
        """Reports made, counted and read."""
        return 1 / (1 / self.perturbed_per_second + 1 / self.estimated_per_second)


def runs_for(d: int, quick: bool) -> int:
    """More runs where there are few values, since every value of a run is one square.

    >>> runs_for(2, False), runs_for(16, False), runs_for(1000, False)
    (400, 27, 5)
    """
    return max(RUNS, math.ceil((QUICK_SQUARES if quick else SQUARES) / (d - 1)))


def measure(peer: Peer, d: int, draw: Callable[[int, int], Integers], wanted: int, seconds: float) -> Measured:
    """Run it on draw(n, run), at least RUNS times, then until `wanted` runs or the time are over.

    To have as many squares as were wanted, the reports of a run are also read in parts, each about its own people: an
    unbiased error falls as 1/n, so it is scaled from those.
    """
    rows = _rows(peer, draw, seconds / RUNS)
    parts = 1 if peer.biased else max(1, min(math.ceil(wanted / RUNS), rows // FEWEST))
    made, read, squares = list[float](), list[float](), list[float]()
    clipped, covered = list[float](), list[float | None]()
    started = perf_counter()
    while len(made) < RUNS or (len(made) < wanted and perf_counter() - started < seconds):
        values = draw(rows, len(made))
        start = perf_counter()
        reports = peer.perturb(values)
        between = perf_counter()
        shares = peer.estimate(reports)
        made.append(between - start)
        read.append(perf_counter() - between)
        held = peer.held(reports) if peer.held else values
        truth = np.bincount(held, minlength=d) / len(held)
        clipped.append(float(np.mean((shares.clipped - truth) ** 2)))
        covered.append(_covered(shares, truth))
        if parts == 1:
            squares.append(float(np.mean((shares.unclipped - truth) ** 2)) * rows / PEOPLE)
        else:
            squares += _squares(peer, reports, held, d, parts)
    found = [share for share in covered if share is not None]
    making, reading = _speeds(peer, draw, Speed(rows, median(made)), Speed(rows, median(read)), seconds)
    return Measured(
        rows=rows, runs=len(made), perturbed_per_second=making.per_second, estimated_per_second=reading.per_second,
        perturbed_rows=making.rows, estimated_rows=reading.rows,
        squared_error=float(np.mean(squares)),
        # What is clipped is biased, and a bias does not scale.
        clipped_error=float(np.mean(clipped)) if rows == PEOPLE else None,
        coverage=float(np.mean(found)) if found else None,
    )  # fmt: skip


def _speeds(
    peer: Peer, draw: Callable[[int, int], Integers], made: Speed, read: Speed, seconds: float
) -> tuple[Speed, Speed]:
    """Of making reports and of reading them, each on MANY rows where RUNS runs of that fit into the time."""
    half = draw(PEOPLE // 2, 0)
    if made.rows < PEOPLE or not made.leaves_time_for_many(_median_seconds(lambda: peer.perturb(half)), seconds):
        return made, read
    values, half = draw(MANY, 0), peer.perturb(half)
    reports = peer.perturb(values)
    made = Speed(MANY, _median_seconds(lambda: peer.perturb(values)))
    if read.leaves_time_for_many(_median_seconds(lambda: peer.estimate(half)), seconds):
        read = Speed(MANY, _median_seconds(lambda: peer.estimate(reports)))
    return made, read


def _median_seconds(action: Callable[[], object]) -> float:
    """Of RUNS runs."""
    times = []
    for _ in range(RUNS):
        start = perf_counter()
        action()
        times.append(perf_counter() - start)
    return median(times)


def _squares(peer: Peer, reports: Any, held: Integers, d: int, parts: int) -> list[float]:
    """Mean squared errors of the parts, as they would be of PEOPLE people."""
    found = []
    for k in range(parts):
        part = slice(k * len(held) // parts, (k + 1) * len(held) // parts)
        n = part.stop - part.start
        missed = peer.estimate(reports[part]).unclipped - np.bincount(held[part], minlength=d) / n
        found.append(float(np.mean(missed**2)) * n / PEOPLE)
    return found


def _rows(peer: Peer, draw: Callable[[int, int], Integers], seconds: float) -> int:
    """As many rows as fit into the time, at most PEOPLE: by what more rows cost, beside what any number does.

    The first call compiles.
    """
    peer.estimate(peer.perturb(draw(FEW, 0)))
    if peer.in_full:
        return PEOPLE
    rows, spent = FEW, _seconds(peer, draw(FEW, 0))
    while True:
        more = min(PEOPLE, 8 * rows)
        longer = _seconds(peer, draw(more, 0))
        each = max(longer - spent, longer * 1e-3) / (more - rows)
        if more == PEOPLE or 8 * more * each > seconds:
            break
        rows, spent = more, longer
    fit = int(min(PEOPLE, max(FEW, seconds / each)))
    # What nearly fits is run in full: then nothing has to be scaled.
    return PEOPLE if 3 * fit > PEOPLE else fit


def _seconds(peer: Peer, values: Integers) -> float:
    """The better of two tries, as others may be at work on this machine; of one, if it took long."""
    times: list[float] = []
    while len(times) < 2 and sum(times) < LONG:
        start = perf_counter()
        peer.estimate(peer.perturb(values))
        times.append(perf_counter() - start)
    return min(times)


def _covered(shares: Shares, truth: Floats) -> float | None:
    if shares.low is None or shares.high is None:
        return None
    return float(np.mean((shares.low <= truth) & (truth <= shares.high)))
