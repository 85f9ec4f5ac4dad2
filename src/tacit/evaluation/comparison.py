"""Error against budget: LIP, LDP, and the published form with the level it really reaches."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.console import Console

from tacit.designs import GroupPrior
from tacit.designs.planning import ldp_comparison, uninterrupted_design
from tacit.exact import Number, budget
from tacit.literature import theorem3
from tacit.mechanism import Mechanism, audit, mse, unbiased_variance
from tacit.plan import Aim
from tacit.plan.saving import atomic
from tacit.prior import Prior
from tacit.show.terminal import table
from tacit.task import Task

#: The published channel is a table of d × d integers, computed for comparison up to this many values.
PUBLISHED_LIMIT = 300
#: What the numbers are, by what they aim at.
_WHAT = {
    "unbiased": "Standard error of estimates that do not use the prior",
    "mmse": "Root mean squared error of estimates that use the prior, if it is right",
}
_GREEN, _BLUE, _RED, _GREY = "#1b7f5c", "#3b5b92", "#b3412e", "#777777"


#: A mechanism of one's own: from a prior and a budget to a channel or any other `Mechanism`.
Builder = Callable[[Prior, Fraction], Mechanism]
Measure = Callable[[Mechanism, Prior, Task], float]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Errors per respondent at one budget, over the groups by their shares; None where skipped, ∞ where there is none.

    They are standard errors of estimates that do not use the prior (aim "unbiased"), or root mean squared errors of
    those that do, if it is right (aim "mmse"). `no_data` is the spread of the answers under the prior.

    `own` has, for each mechanism that was brought along, its error and the LIP level that it really reaches.
    """

    epsilon: float
    no_data: float
    lip: float
    lip_bound: float
    ldp: float | None
    published: float | None
    published_level: float | None
    own: Mapping[str, tuple[float, float]] = field(default_factory=dict)

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
    *,
    aim: Aim = "unbiased",
    own: Mapping[str, Builder] | None = None,
) -> list[Comparison]:
    """One row for each budget, ascending; with mechanisms of one's `own`, by name.

    >>> from tacit import Channel, Survey
    >>> coin = lambda prior, epsilon: Channel.from_matrix(prior, [[0.75, 0.25], [0.25, 0.75]])
    >>> groups = [GroupPrior(name=None, prior=Prior.of({"yes": 0.1, "no": 0.9}))]
    >>> [row] = compare(groups, Survey("yes"), [1], own={"coin": coin})
    >>> error, level = row.own["coin"]
    >>> round(error, 3), round(level, 3), row.lip < error
    (0.917, 1.03, True)
    """
    budgets = sorted({budget(epsilon) for epsilon in epsilons})
    if not budgets:
        raise ValueError("A comparison needs at least one budget. Got none.")
    rows = []
    for epsilon in budgets:
        rows.append(_compare(priors, task, epsilon, aim, own or {}))
        if progress is not None:
            progress(len(rows), len(budgets))
    return rows


def _own(
    priors: Sequence[GroupPrior], task: Task, epsilon: Fraction, measure: Measure, build: Builder
) -> tuple[float, float]:
    """The error of somebody's own mechanism and the level that it reaches in the worst group."""
    made = [(each, build(each.prior, epsilon)) for each in priors]
    error = math.fsum(float(each.share) * measure(mechanism, each.prior, task) for each, mechanism in made)
    return math.sqrt(error), max(audit(mechanism, each.prior).lip.epsilon for each, mechanism in made)


def _compare(
    priors: Sequence[GroupPrior], task: Task, epsilon: Fraction, aim: Aim, own: Mapping[str, Builder]
) -> Comparison:
    measure: Measure = mse if aim == "mmse" else unbiased_variance
    sums = dict.fromkeys(("no_data", "lip", "lip_bound", "ldp", "published"), 0.0)
    level = 0.0
    for each in priors:
        share = float(each.share)
        found = uninterrupted_design(each.prior, task, epsilon, aim=aim).certificate
        ldp = ldp_comparison(each.prior, task, epsilon, aim)
        sums["no_data"] += share * found.prior_variance
        sums["lip"] += share * found.aimed
        sums["lip_bound"] += share * found.aimed_lower_bound
        sums["ldp"] += math.nan if ldp is None else share * ldp.certificate.aimed
        if len(each.prior) <= PUBLISHED_LIMIT:
            channel = theorem3(each.prior, epsilon, force=True)
            sums["published"] += share * measure(channel, each.prior, task)
            level = max(level, audit(channel, each.prior).lip.epsilon)
        else:
            sums["published"] = math.nan
    roots = {name: None if math.isnan(value) else math.sqrt(value) for name, value in sums.items()}
    known = roots["published"] is not None
    return Comparison(
        epsilon=float(epsilon),
        no_data=math.sqrt(sums["no_data"]),
        lip=math.sqrt(sums["lip"]),
        lip_bound=math.sqrt(sums["lip_bound"]),
        ldp=roots["ldp"],
        published=roots["published"],
        published_level=level if known else None,
        own={name: _own(priors, task, epsilon, measure, build) for name, build in own.items()},
    )


def show_rows(console: Console, rows: Sequence[Comparison], aim: Aim) -> None:
    """For people. The published form is marked with what it really reaches."""
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
        "LDP: the best LDP channel found.[/dim]",
        soft_wrap=True,
    )
    if any(row.published_breaks for row in rows):
        console.print("[dim]The published form breaks its promise where the last column exceeds the first.[/dim]")
    if any(row.ldp is None or row.published is None for row in rows):
        console.print("[dim]–: not computed for so many values.[/dim]")


def draw(rows: Sequence[Comparison], path: Path, aim: Aim) -> None:
    """Draw the comparison, in the format that the ending of `path` names (PNG if none)."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

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
