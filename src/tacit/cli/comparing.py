"""`tacit compare`: parsing, printing and drawing; `tacit.published.compare` computes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.console import Console

from tacit.cli import app as cli

if TYPE_CHECKING:
    from tacit.plan import Aim
    from tacit.published import Comparison

_AIM = "Of estimates that do not use the prior (unbiased), or do, if it is right (mmse)."
#: What the numbers are, by aim.
_WHAT = {
    "unbiased": "Standard error of estimates that do not use the prior",
    "mmse": "Root mean squared error of estimates that use the prior, if it is right",
}
_GREEN, _BLUE, _RED, _GREY = "#1b7f5c", "#3b5b92", "#b3412e", "#777777"


@cli.command("compare", epilog="Example: tacit compare priors.csv --task survey --value yes --plot errors.png")
def compare_command(
    priors: cli.PriorFile,
    task: cli.TaskOption,
    value: cli.ValueOption = None,
    epsilons: Annotated[str, cli.option("--epsilon", metavar="LIST", help="Budgets: 0.5,1,2")] = "0.25,0.5,1,2,4",
    aim: Annotated[Literal["mmse", "unbiased"], cli.option(metavar="AIM", help=_AIM)] = "unbiased",
    plot: Annotated[Path | None, cli.option(metavar="FILE", help="Also draw it, as PNG, SVG or PDF.")] = None,
    overwrite: cli.Overwrite = False,
    as_json: cli.JsonFlag = False,
) -> None:
    """Compare the error of LIP, LDP and the published form, by ε. Also the level that the latter really reaches."""
    from tacit.designs import read_priors
    from tacit.designs.planning import make_task
    from tacit.published import compare

    budgets = [part.strip() for part in epsilons.split(",") if part.strip()]
    cli.new_file(plot, overwrite, priors)
    with cli.progress_bar("designing") as watch:
        groups = read_priors(priors)
        rows = compare(groups, make_task(task, value or [], groups), budgets, watch, aim=aim)
    if plot is not None:
        draw(rows, plot, aim)
    if as_json:
        cli.print_json({"rows": [row.to_dict() for row in rows]})
    else:
        show_rows(cli.out, rows, aim)


def show_rows(console: Console, rows: Sequence[Comparison], aim: Aim) -> None:
    """For people. The published form is marked with what it really reaches."""
    from tacit.show.plans import table

    trusting = aim == "mmse"
    alone = ["no data"] if trusting else []
    shown = table("ε", "LIP", "proven best", "LDP", *alone, "published", "but reaches ε", left=0)
    for row in rows:
        style = "red" if row.published_breaks else ""
        published = (
            _cell(row.published),
            "–" if row.published_level is None else f"{math.ceil(row.published_level * 1000 - 1e-6) / 1000:.3f}",
        )
        shown.add_row(
            f"{row.epsilon:g}", *(_cell(error) for error in (row.lip, row.lip_bound, row.ldp)),
            *([_cell(row.no_data)] if trusting else []),
            *(f"[{style}]{cell}[/{style}]" if style else cell for cell in published),
        )  # fmt: skip
    console.print(shown)
    console.print(
        f"[dim]{_WHAT[aim]}, per respondent.  proven best: no LIP channel can do better.\n"
        "LDP: the best LDP channel found.[/dim]"
    )
    if any(row.published_breaks for row in rows):
        console.print("[dim]The published form breaks its promise where the last column exceeds the first.[/dim]")
    if any(row.ldp is None or row.published is None for row in rows):
        console.print("[dim]–: not computed for this number of values.[/dim]")


def draw(rows: Sequence[Comparison], path: Path, aim: Aim) -> None:
    """Draw the comparison, in the format that the ending of `path` names (PNG if none)."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    from tacit.disk import atomic

    kind = path.suffix.lstrip(".").lower() or "png"
    figure, axes = pyplot.subplots(figsize=(7.5, 4.4), layout="constrained")
    try:
        _plot(axes, rows, aim)
        with atomic(path) as draft:
            figure.savefig(draft, format=kind, dpi=160)
    finally:
        pyplot.close(figure)


def _plot(axes: Any, rows: Sequence[Comparison], aim: Aim) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    epsilon = [row.epsilon for row in rows]
    errors = [error for row in rows for error in (row.lip, row.lip_bound, row.published) if error]
    # Errors are compared by their ratios. The bottom leaves room for words below the lowest.
    bottom = min(errors, default=1.0) / 1.6
    if aim == "mmse":
        axes.plot(epsilon, [row.no_data for row in rows], "--", color=_GREY, lw=1.2, label="no data, the prior alone")
    for name, mark, colour, label in (
        ("ldp", "s-", _BLUE, "LDP, the best found"),
        ("lip", "o-", _GREEN, "LIP, Tacit"),
        ("published", "x:", _RED, "published form, with the ε it really reaches"),
    ):
        found = [(row.epsilon, getattr(row, name)) for row in rows]
        points = [(x, error) for x, error in found if error is not None and math.isfinite(error)]
        if points:
            axes.plot(*zip(*points, strict=True), mark, color=colour, ms=5, label=label)
    axes.fill_between(
        epsilon,
        bottom,
        [max(row.lip_bound, bottom) for row in rows],
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
    words = textwrap.fill(f"{_WHAT[aim]}, per respondent", 45)
    axes.set(xlabel="promised ε", ylabel=words, yscale="log", ylim=(bottom, None))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8.5, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def _cell(error: float | None) -> str:
    return "–" if error is None else "∞" if math.isinf(error) else f"{error:.4g}"
