"""The rows of the comparison, what they say beside the goals, and how they are kept."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from peers import of_tacit
from peers.audit import Level
from peers.machine import Goal
from peers.measure import Measured
from peers.peer import Peer


class Cell(NamedTuple):
    """How many values, at which budget, with which truth."""

    d: int
    epsilon: float
    truth: str

    def __str__(self) -> str:
        return f"{self.d:,} values, ε = {self.epsilon:g}, {self.truth}"


@dataclass(frozen=True)
class Row:
    """One system in one cell. `best_ldp_error` is that of the best LDP mechanism known at ε, `equal_error` at the LDP
    level which this one reaches; `failure` says why there is nothing.
    """

    cell: Cell
    peer: Peer
    measured: Measured | None = None
    level: Level | None = None
    best_ldp_error: float | None = None
    equal_error: float | None = None
    failure: str = ""

    @property
    def is_tacit(self) -> bool:
        return self.peer.system == of_tacit.SYSTEM

    @property
    def error(self) -> float:
        return math.inf if self.measured is None else self.measured.squared_error


def by_cell(rows: Iterable[Row]) -> dict[Cell, list[Row]]:
    """Rows of each cell, in the order in which they came."""
    cells: dict[Cell, list[Row]] = {}
    for row in rows:
        cells.setdefault(row.cell, []).append(row)
    return cells


def best_peer(rows: Sequence[Row]) -> Row | None:
    """The peer of least error, unclipped, in one cell; None if no peer was measured there."""
    measured = (row for row in rows if not row.is_tacit and row.measured is not None)
    return min(measured, key=lambda row: row.error, default=None)


COLUMNS: dict[str, Callable[[Row], Any]] = {
    "values": lambda row: row.cell.d,
    "epsilon": lambda row: row.cell.epsilon,
    "truth": lambda row: row.cell.truth,
    "system": lambda row: row.peer.system,
    "protocol": lambda row: row.peer.protocol,
    "promise": lambda row: row.peer.notion,
    "secure": lambda row: row.peer.secure,
    "rows": lambda row: row.measured and row.measured.rows,
    "runs": lambda row: row.measured and row.measured.runs,
    "perturbed_rows": lambda row: row.measured and row.measured.perturbed_rows,
    "perturbed_per_second": lambda row: row.measured and row.measured.perturbed_per_second,
    "estimated_rows": lambda row: row.measured and row.measured.estimated_rows,
    "estimated_per_second": lambda row: row.measured and row.measured.estimated_per_second,
    "bytes_per_report": lambda row: row.peer.bytes_per_report,
    "mean_squared_error": lambda row: row.measured and row.measured.squared_error,
    "scaled": lambda row: row.measured and row.measured.scaled,
    "clipped_mean_squared_error": lambda row: row.measured and row.measured.clipped_error,
    "coverage": lambda row: row.measured and row.measured.coverage,
    "audited_level": lambda row: row.level and row.level.value,
    "audit_is_exact": lambda row: row.level and row.level.exact,
    "exceeds_claim": lambda row: row.level and row.level.over,
    "ldp_level": lambda row: row.level and row.level.ldp,
    "best_ldp_error": lambda row: row.best_ldp_error,
    "best_ldp_error_at_that_level": lambda row: row.equal_error,
    "note": lambda row: row.failure or row.peer.note,
}


def write_csv(rows: Iterable[Row], path: Path) -> None:
    """All that was measured."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows([["" if (cell := read(row)) is None else cell for read in COLUMNS.values()] for row in rows])


# -- goals -----------------------------------------------------------------------------------------------------------

FASTER, SMALLEST, LARGEST = 1_000, 0.25, 0.5
#: Counting k-ary response is fast, and useless for many values: speed is also compared with peers whose error is at
#: most so many times ours.
NEAR = 10.0


def goals(rows: Sequence[Row]) -> list[Goal]:
    """What the comparison is for. Each says in how many cells it is met, and where it is furthest from it."""
    cells = by_cell(rows)
    found = []
    for name in (of_tacit.EXACT, of_tacit.LDP_METHODS["auto"]):
        found += [
            _speed(cells, name, "perturb", True, FASTER, lambda m: m.perturbed_per_second),
            _speed(cells, name, "perturb, aggregate and estimate", True, FASTER, lambda m: m.per_second),
            _speed(cells, name, "perturb", False, 1, lambda m: m.perturbed_per_second),
            _speed(cells, name, "aggregate and estimate", False, 1, lambda m: m.estimated_per_second, by_hand=False),
            _speed(
                cells, name, "aggregate and estimate", False, 1, lambda m: m.estimated_per_second, by_hand=False,
                within=NEAR,
            ),
        ]  # fmt: skip
    with_prior = (of_tacit.EXACT, *map(of_tacit.off_by, of_tacit.RADII))
    found += [_error(cells, name) for name in with_prior]
    found += [_over_formula(rows, name, "ε", lambda row: row.best_ldp_error) for name in with_prior]
    found += [_over_formula(rows, name, "LDP level", lambda row: row.equal_error) for name in with_prior]
    ours = [row for row in rows if row.is_tacit and row.level is not None]
    broken = [row for row in ours if row.level is not None and row.level.exceeds]
    said = f"{len(broken)} of {len(ours)} rows of Tacit"
    found.append(Goal("no mechanism whose audit exceeds its claim, by however little", "0", said, not broken))
    return [goal for goal in found if goal is not None]


def _speed(
    cells: dict[Cell, list[Row]],
    name: str,
    step: str,
    secure: bool,
    times: float,
    rate: Callable[[Measured], float],
    by_hand: bool = True,
    within: float | None = None,
) -> Goal | None:
    """How many times as fast as the fastest peer that is (or is not) secure; with or without estimates by hand, and of
    all peers or those whose error is at most `within` times as large.
    """
    ratios: dict[str, float] = {}
    for cell, rows in cells.items():
        ours = next((row for row in rows if row.is_tacit and row.peer.protocol == name and row.measured), None)
        if ours is None:
            continue
        theirs = [
            row
            for row in rows
            if not row.is_tacit and row.measured and row.peer.secure == secure and (by_hand or not row.peer.by_hand)
            if within is None or row.error <= within * ours.error
        ]
        if theirs:
            fastest = max(theirs, key=lambda row: rate(row.measured))  # type: ignore[arg-type]
            ratios[f"{cell}, {fastest.peer.name}"] = rate(ours.measured) / rate(fastest.measured)  # type: ignore[arg-type]
    who = ("secure" if secure else "insecure") + ("" if within is None else f" (error at most {within:g} times ours)")
    return _worst(f"{name}: {step}, times every {who} peer", f"≥ {times:,}", ratios, lambda r: r >= times, min)


def _error(cells: dict[Cell, list[Row]], name: str) -> Goal | None:
    ratios = {}
    for cell, rows in cells.items():
        ours = next((row for row in rows if row.is_tacit and row.peer.protocol == name), None)
        best = best_peer(rows)
        if ours is not None and best is not None:
            ratios[f"{cell}, {best.peer.name}"] = ours.error / best.error
    wanted = f"≤ {LARGEST:g} (down to {SMALLEST:g})"
    return _worst(f"{name}: error over the best LDP peer's", wanted, ratios, lambda r: r <= LARGEST, max)


def _over_formula(rows: Sequence[Row], name: str, equal: str, reference: Callable[[Row], float | None]) -> Goal | None:
    """Over the best LDP known, by its formula. At equal LDP level no goal: it is for those who count that one only."""
    ratios = {
        str(row.cell): row.error / other
        for row in rows
        if row.is_tacit and row.peer.protocol == name and row.measured and (other := reference(row))
    }
    at_epsilon = equal == "ε"
    wanted, most = (f"≤ {LARGEST:g}", LARGEST) if at_epsilon else ("(≤ 1)", 1.0)
    found = _worst(f"{name}: error over the best LDP known, equal {equal}", wanted, ratios, lambda r: r <= most, max)
    return found if at_epsilon or found is None else replace(found, met=None)


def _worst(
    what: str, wanted: str, ratios: dict[str, float], met: Callable[[float], bool], worst: Callable[..., str]
) -> Goal | None:
    if not ratios:
        return None
    where, good = worst(ratios, key=ratios.__getitem__), sum(map(met, ratios.values()))
    middle = sorted(ratios.values())[len(ratios) // 2]
    said = f"{good} of {len(ratios)} cells; median {_short(middle)}, worst {_short(ratios[where])} ({where})"
    return Goal(what, wanted, said, good == len(ratios))


def _short(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.2f}"
