"""The table for people, and the plots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from peers import of_tacit
from peers.machine import Goal
from peers.measure import PEOPLE
from peers.results import Row, best_peer, by_cell

HEADS = (
    "system, protocol", "safe", "perturb/s", "aggregate +\nestimate/s", "bytes", "squared\nerror", "÷ best\npeer",
    "clipped", "covers", "audited ε", "LDP\nlevel", "÷ best LDP\nat that level",
)  # fmt: skip


def table(rows: Sequence[Row]) -> Table:
    """One table, a part for each cell."""
    shown = Table(
        *HEADS, title=f"errors of shares for N = {PEOPLE:,}; ~ scaled from fewer rows; () by hand", title_justify="left"
    )
    for column in shown.columns[1:]:
        column.justify = "right"
        column.no_wrap = True
    for cell, part in by_cell(rows).items():
        shown.add_section()
        shown.add_row(f"[bold]{cell}[/bold]")
        best = best_peer(part)
        for row in part:
            style = "green" if row.is_tacit else "red" if row.level is not None and row.level.over else ""
            shown.add_row(*cells_of(row, math.inf if best is None else best.error), style=style)
    return shown


def cells_of(row: Row, best: float) -> list[str]:
    """One row, in the order of HEADS; a dash where a system has nothing."""
    if row.measured is None:
        return [row.peer.name, f"[red]{row.failure}[/red]"]
    found, level = row.measured, row.level
    return [
        row.peer.name,
        "yes" if row.peer.secure else "no",
        rate(found.perturbed_per_second),
        f"({rate(found.estimated_per_second)})" if row.peer.by_hand else rate(found.estimated_per_second),
        f"{row.peer.bytes_per_report:,}",
        f"{'~' if found.scaled else ''}{found.squared_error:.2e}",
        f"{row.error / best:.2f}" if math.isfinite(best) else "–",
        "–" if found.clipped_error is None else f"{found.clipped_error:.2e}",
        "–" if found.coverage is None else f"{found.coverage:.1%}",
        "–" if level is None else f"{row.peer.notion} {level}",
        "–" if level is None or level.ldp is None else f"{level.ldp:.3f}",
        "–" if row.equal_error is None else f"{row.error / row.equal_error:.2f}",
    ]


def rate(per_second: float) -> str:
    """Two digits and a unit.

    >>> rate(123_456_789), rate(4_321), rate(196), rate(9.87)
    ('120 M', '4.3 k', '200', '9.9')
    """
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if per_second >= size:
            return f"{float(f'{per_second / size:.2g}'):g} {unit}"
    return f"{float(f'{per_second:.2g}'):g}"


def goal_table(goals: Sequence[Goal]) -> Table:
    """What was wanted beside what was measured."""
    shown = Table("what", "goal", "measured", "", title="goals", title_justify="left")
    for goal in goals:
        shown.add_row(
            goal.what,
            goal.wanted,
            goal.measured,
            "–" if goal.met is None else "met" if goal.met else "[red]missed[/red]",
        )
    return shown


def notes(rows: Sequence[Row]) -> list[str]:
    """What has to be said about a system, once."""
    said = dict.fromkeys(
        f"{row.peer.name}: {row.failure or row.peer.note}"
        for row in rows
        if (row.failure or row.peer.note) and not row.is_tacit
    )
    return list(said)


# -- plots -----------------------------------------------------------------------------------------------------------

COLOURS = {
    "Tacit": "#1b7f5c", "pure-ldp": "#c77c11", "multi-freq-ldpy": "#3b5b92", "OpenDP": "#b3412e",
    "diffprivlib": "#8a5a9e", "qif": "#777777",
}  # fmt: skip
#: Tacit's rows without a prior.
TACIT_LDP = "#7cc4a4"
MARKS = "osD^vPX*"
DASHES = {of_tacit.EXACT: "-", of_tacit.off_by(of_tacit.RADII[0]): "--", of_tacit.off_by(of_tacit.RADII[1]): "-."}


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Errors, speeds, and errors at equal LDP level, each as PNG and SVG."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    written = []
    for name, paint in (("error", _errors), ("speed", _speeds), ("equal-ldp-level", _equal)):
        figure = paint(pyplot, [row for row in rows if row.measured is not None])
        for ending in ("png", "svg"):
            path = folder / f"{name}.{ending}"
            figure.savefig(path, dpi=150, bbox_inches="tight")
            written.append(path)
        pyplot.close(figure)
    return written


def _grid(pyplot: Any, rows: Sequence[Row]) -> tuple[Any, dict[tuple[str, float], Any]]:
    """A panel for each truth and ε."""
    truths, budgets = (list(dict.fromkeys(getattr(row.cell, key) for row in rows)) for key in ("truth", "epsilon"))
    figure, axes = pyplot.subplots(
        len(truths), len(budgets), figsize=(1.5 + 3.6 * len(budgets), 3.1 * len(truths)), sharex=True, sharey=True,
        layout="constrained", squeeze=False,
    )  # fmt: skip
    panels = {(t, e): axes[i][j] for i, t in enumerate(truths) for j, e in enumerate(budgets)}
    for (truth, epsilon), panel in panels.items():
        panel.set_title(f"{truth}, ε = {epsilon:g}", fontsize=9)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set(xscale="log")
    for panel in axes[-1]:
        panel.set_xlabel("number of values")
    return figure, panels


def _line(panel: Any, rows: Sequence[Row], name: str, y: Any, **style: Any) -> None:
    points = sorted((row.cell.d, y(row)) for row in rows)
    if not points:
        return
    panel.plot(*zip(*points, strict=True), label=name, ms=3.5, lw=1.5, **style)


def _style(row: Row, protocols: Sequence[str]) -> dict[str, Any]:
    """A colour for each system, a mark for each of its protocols; what is not secure is dotted."""
    mark = MARKS[list(protocols).index(row.peer.protocol) % len(MARKS)]
    colour = TACIT_LDP if row.is_tacit and row.peer.notion == "LDP" else COLOURS[row.peer.system]
    return {"color": colour, "marker": mark, "ls": "-" if row.peer.secure else ":"}


def _by_name(rows: Sequence[Row]) -> dict[str, tuple[list[Row], dict[str, Any]]]:
    """Rows of each system and protocol, with their style."""
    named: dict[str, list[Row]] = {}
    for row in rows:
        named.setdefault(row.peer.name, []).append(row)
    protocols: dict[str, dict[str, None]] = {}
    for mine in named.values():
        protocols.setdefault(mine[0].peer.system, {})[mine[0].peer.protocol] = None
    return {name: (mine, _style(mine[0], list(protocols[mine[0].peer.system]))) for name, mine in named.items()}


def _errors(pyplot: Any, rows: Sequence[Row]) -> Any:
    figure, panels = _grid(pyplot, rows)
    for name, (mine, style) in _by_name(rows).items():
        for (truth, epsilon), panel in panels.items():
            here = [row for row in mine if (row.cell.truth, row.cell.epsilon) == (truth, epsilon)]
            _line(panel, here, name, lambda row: row.error * PEOPLE, **style)
            panel.set(yscale="log")
    _finish(figure, panels, "N × squared error of a share")
    return figure


def _speeds(pyplot: Any, rows: Sequence[Row]) -> Any:
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4.2), sharex=True, layout="constrained")
    budgets = sorted({row.cell.epsilon for row in rows})
    middle = budgets[len(budgets) // 2]
    for name, (mine, style) in _by_name(rows).items():
        here = [row for row in mine if (row.cell.truth, row.cell.epsilon) == (rows[0].cell.truth, middle)]
        _line(axes[0], here, name, lambda row: row.measured.perturbed_per_second, **style)
        own = [row for row in here if not row.peer.by_hand]
        _line(axes[1], own, name, lambda row: row.measured.estimated_per_second, **style)
    axes[0].set_title(f"reports made a second, ε = {middle:g}; solid: secure random words", fontsize=9)
    axes[1].set_title("reports aggregated and estimated a second", fontsize=9)
    for panel in axes:
        panel.set(xscale="log", yscale="log", xlabel="number of values")
        panel.spines[["top", "right"]].set_visible(False)
    _legend(figure, axes[0])
    return figure


def _equal(pyplot: Any, rows: Sequence[Row]) -> Any:
    lip = [row for row in rows if row.is_tacit and row.equal_error and row.best_ldp_error]
    figure, panels = _grid(pyplot, lip)
    for (truth, epsilon), panel in panels.items():
        panel.axhline(1, color="#777777", lw=1)
        for name, dash in DASHES.items():
            mine = [r for r in lip if r.peer.protocol == name and (r.cell.truth, r.cell.epsilon) == (truth, epsilon)]
            own = {"color": "#c77c11", "marker": "s", "ls": dash}
            _line(panel, mine, f"{name}: at equal LDP level", lambda r: r.error / r.equal_error, **own)
            same = {"color": COLOURS["Tacit"], "marker": "o", "ls": dash}
            _line(panel, mine, f"{name}: at equal ε", lambda r: r.error / r.best_ldp_error, **same)
    _finish(figure, panels, "error over the best LDP's")
    next(iter(panels.values())).set_ylim(bottom=0)
    return figure


def _finish(figure: Any, panels: dict[tuple[str, float], Any], label: str) -> None:
    first = next(iter(panels))[1]
    for (_, epsilon), panel in panels.items():
        if epsilon == first:
            panel.set_ylabel(label)
    _legend(figure, next(iter(panels.values())))


def _legend(figure: Any, panel: Any) -> None:
    handles, names = panel.get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, fontsize=8, loc="outside right upper")
