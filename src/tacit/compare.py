"""Error against budget: LIP, LDP, the published form with the level it really reaches, and no data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from tacit.audit import audit
from tacit.design import theorem3
from tacit.design.optimal import TABLE_LIMIT, design
from tacit.exact import Number, budget
from tacit.files import atomic
from tacit.planning import GroupPrior, ldp_comparison
from tacit.task import Task, mse

_GREEN, _BLUE, _RED = "#1b7f5c", "#3b5b92", "#b3412e"


@dataclass(frozen=True)
class Comparison:
    """Root mean squared errors per respondent at one budget, averaged over the groups by their shares."""

    epsilon: float
    no_data: float
    lip: float
    lip_bound: float
    ldp: float | None
    published: float | None
    published_level: float | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def compare(
    priors: Sequence[GroupPrior],
    task: Task,
    epsilons: Sequence[Number],
    progress: Callable[[int, int | None], None] | None = None,
) -> list[Comparison]:
    """One row for each budget."""
    rows = []
    for done, epsilon in enumerate(epsilons):
        rows.append(_compare(priors, task, budget(epsilon)))
        if progress is not None:
            progress(done + 1, len(epsilons))
    return rows


def _compare(priors: Sequence[GroupPrior], task: Task, epsilon: Any) -> Comparison:
    sums = dict.fromkeys(("no_data", "lip", "lip_bound", "ldp", "published"), 0.0)
    level = 0.0
    for each in priors:
        share = float(each.share)
        found = design(each.prior, task, epsilon).certificate
        ldp = ldp_comparison(each, task, epsilon)
        sums["no_data"] += share * found.prior_variance
        sums["lip"] += share * found.error
        sums["lip_bound"] += share * found.error_bound
        sums["ldp"] += math.nan if ldp is None else share * ldp.certificate.error
        if len(each.prior) <= TABLE_LIMIT:
            channel = theorem3(each.prior, epsilon, force=True)
            sums["published"] += share * mse(task, channel, each.prior)
            level = max(level, audit(channel, each.prior).lip.epsilon)
        else:
            sums["published"] = math.nan
    roots = {name: None if math.isnan(value) else math.sqrt(value) for name, value in sums.items()}
    known = roots["published"] is not None
    return Comparison(float(epsilon), **roots, published_level=level if known else None)  # type: ignore[arg-type]


def table(rows: Sequence[Comparison]) -> Table:
    """For people. The published form is marked with what it really reaches."""
    result = Table("ε", "no data", "best LDP", "LIP", "proven bound", "published (really reaches)")
    for column in result.columns:
        column.justify = "right"
    for row in rows:
        broken = row.published_level is not None and row.published_level > row.epsilon * (1 + 1e-9)
        published = "–" if row.published is None else f"{row.published:.4g} (ε = {row.published_level:.3g})"
        result.add_row(
            f"{row.epsilon:g}", f"{row.no_data:.4g}", "–" if row.ldp is None else f"{row.ldp:.4g}", f"{row.lip:.4g}",
            f"{row.lip_bound:.4g}", f"[red]{published}[/red]" if broken else published,
        )  # fmt: skip
    return result


def draw(rows: Sequence[Comparison], path: Path) -> None:
    """Draw the comparison as PNG or SVG, by the ending of `path`."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    epsilon = [row.epsilon for row in rows]
    axes.fill_between(epsilon, 0, [row.lip_bound for row in rows], color=_GREEN, alpha=0.12, lw=0)
    axes.plot(epsilon, [row.lip for row in rows], "o-", color=_GREEN, label="LIP (ours); no channel enters the shade")
    ldp = [(row.epsilon, row.ldp) for row in rows if row.ldp is not None]
    axes.plot(*np.array(ldp).reshape(-1, 2).T, "s-", color=_BLUE, label="best LDP, read with the prior")
    published = [(row.epsilon, row.published) for row in rows if row.published is not None]
    label = "published form, with the ε it really reaches"
    axes.plot(*np.array(published).reshape(-1, 2).T, "x:", color=_RED, label=label)
    for row in rows[:: max(1, len(rows) // 8)]:
        if row.published is not None and row.published_level is not None and row.published_level > row.epsilon:
            axes.annotate(
                f"{row.published_level:.1f}", (row.epsilon, row.published), xytext=(0, -13),
                textcoords="offset points", ha="center", fontsize=8, color=_RED,
            )  # fmt: skip
    axes.plot(epsilon, [row.no_data for row in rows], "--", color="#777", label="no data")
    axes.set(xlabel="ε", ylabel="root mean squared error per respondent", ylim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    with atomic(path) as draft:
        figure.savefig(draft, format=path.suffix.lstrip(".") or "png", dpi=160)
    pyplot.close(figure)
