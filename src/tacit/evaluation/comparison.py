"""Error against budget: LIP, LDP, the published form with the level it really reaches, and no data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.console import Console

from tacit.designs.planning import GroupPrior, ldp_comparison, searched
from tacit.exact import Number, budget
from tacit.literature import theorem3
from tacit.mechanism.auditing import audit
from tacit.plan.saving import atomic
from tacit.show.terminal import table
from tacit.task import Task, mse

#: The published channel is a table of d × d integers, computed for comparison up to this many values.
PUBLISHED_LIMIT = 300
_GREEN, _BLUE, _RED, _GREY = "#1b7f5c", "#3b5b92", "#b3412e", "#777777"


@dataclass(frozen=True)
class Comparison:
    """Root mean squared errors per respondent at one budget, over the groups by their shares; None where skipped."""

    epsilon: float
    no_data: float
    lip: float
    lip_bound: float
    ldp: float | None
    published: float | None
    published_level: float | None

    @property
    def published_breaks(self) -> bool:
        """Whether the published channel reaches more than ε."""
        return self.published_level is not None and self.published_level > self.epsilon * (1 + 1e-9)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def compare(
    priors: Sequence[GroupPrior],
    task: Task,
    epsilons: Sequence[Number],
    progress: Callable[[int, int | None], None] | None = None,
) -> list[Comparison]:
    """One row for each budget, ascending."""
    budgets = sorted({budget(epsilon) for epsilon in epsilons})
    if not budgets:
        raise ValueError("A comparison needs at least one budget. Got none.")
    rows = []
    for epsilon in budgets:
        rows.append(_compare(priors, task, epsilon))
        if progress is not None:
            progress(len(rows), len(budgets))
    return rows


def _compare(priors: Sequence[GroupPrior], task: Task, epsilon: Fraction) -> Comparison:
    sums = dict.fromkeys(("no_data", "lip", "lip_bound", "ldp", "published"), 0.0)
    level = 0.0
    for each in priors:
        share = float(each.share)
        found = searched(each.prior, task, epsilon).certificate
        ldp = ldp_comparison(each.prior, task, epsilon)
        sums["no_data"] += share * found.prior_variance
        sums["lip"] += share * found.error
        sums["lip_bound"] += share * found.error_bound
        sums["ldp"] += math.nan if ldp is None else share * ldp.certificate.error
        if len(each.prior) <= PUBLISHED_LIMIT:
            channel = theorem3(each.prior, epsilon, force=True)
            sums["published"] += share * mse(task, channel, each.prior)
            level = max(level, audit(channel, each.prior).lip.epsilon)
        else:
            sums["published"] = math.nan
    roots = {name: None if math.isnan(value) else math.sqrt(value) for name, value in sums.items()}
    known = roots["published"] is not None
    return Comparison(float(epsilon), **roots, published_level=level if known else None)  # type: ignore[arg-type]


def show_rows(console: Console, rows: Sequence[Comparison]) -> None:
    """For people. The published form is marked with what it really reaches."""
    shown = table("ε", "LIP", "proven best", "LDP", "no data", "published", "but reaches ε", left=0)
    for row in rows:
        style = "red" if row.published_breaks else ""
        published = (
            _cell(row.published),
            "–" if row.published_level is None else f"{math.ceil(row.published_level * 1000 - 1e-6) / 1000:.3f}",
        )
        shown.add_row(
            f"{row.epsilon:g}", *(_cell(error) for error in (row.lip, row.lip_bound, row.ldp, row.no_data)),
            *(f"[{style}]{cell}[/{style}]" if style else cell for cell in published),
        )  # fmt: skip
    console.print(shown)
    console.print(
        "[dim]Root mean squared errors per respondent.  proven best: no LIP channel can do better.\n"
        "LDP: the best LDP channel found.[/dim]",
        soft_wrap=True,
    )
    if any(row.published_breaks for row in rows):
        console.print("[dim]The published form breaks its promise where the last column exceeds the first.[/dim]")
    if any(row.ldp is None or row.published is None for row in rows):
        console.print("[dim]–: not computed for so many values.[/dim]")


def draw(rows: Sequence[Comparison], path: Path) -> None:
    """Draw the comparison, in the format that the ending of `path` names (PNG if none)."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    kind = path.suffix.lstrip(".").lower() or "png"
    figure, axes = pyplot.subplots(figsize=(7.5, 4.4), layout="constrained")
    try:
        _plot(axes, rows)
        with atomic(path) as draft:
            figure.savefig(draft, format=kind, dpi=160)
    finally:
        pyplot.close(figure)


def _plot(axes: Any, rows: Sequence[Comparison]) -> None:
    epsilon = [row.epsilon for row in rows]
    axes.plot(epsilon, [row.no_data for row in rows], "--", color=_GREY, lw=1.2, label="no data, the prior alone")
    for name, mark, colour, label in (
        ("ldp", "s-", _BLUE, "LDP, the best found"),
        ("lip", "o-", _GREEN, "LIP, Tacit"),
        ("published", "x:", _RED, "published form, with the ε it really reaches"),
    ):
        points = [(row.epsilon, getattr(row, name)) for row in rows if getattr(row, name) is not None]
        if points:
            axes.plot(*zip(*points, strict=True), mark, color=colour, ms=5, label=label)
    axes.fill_between(
        epsilon,
        0,
        [row.lip_bound for row in rows],
        color=_GREEN,
        alpha=0.1,
        lw=0,
        label="out of reach of any LIP channel",
    )
    for row in rows[:: max(1, len(rows) // 8)]:
        if row.published_breaks and row.published is not None:
            axes.annotate(
                f"ε = {row.published_level:.1f}", (row.epsilon, row.published), xytext=(0, -14),
                textcoords="offset points", ha="center", fontsize=8, color=_RED,
            )  # fmt: skip
    axes.set(xlabel="promised ε", ylabel="root mean squared error per respondent", ylim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8.5, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def _cell(error: float | None) -> str:
    return "–" if error is None else f"{error:.4g}"
