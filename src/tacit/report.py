"""An HTML page that shows an estimate: numbers, intervals, promises and the check of the prior, in one file."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from tacit.estimate import Estimate
from tacit.files import write_text
from tacit.plan import Plan
from tacit.show import promise, row_name

#: A chart of more values than this shows the largest.
MAX_BARS = 40

_GREEN, _GREY, _RED = "#1b7f5c", "#8a8f98", "#b3412e"
_STYLE = """
:root { color-scheme: light dark; --line: #d8dbe0; --soft: #6b7280; --warn: #b3412e; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 52rem; margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.soft { color: var(--soft); } .warn { border-left: 4px solid var(--warn); padding: .4rem .9rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; } figure { margin: 1.2rem 0; background: #fff; border-radius: 6px; }
svg { max-width: 100%; height: auto; } code { font-size: .85em; overflow-wrap: anywhere; }
"""


def write_report(path: str | Path, plan: Plan, result: Estimate, parts: Mapping[str, Estimate] | None = None) -> None:
    """Write the page, atomically. It loads nothing from anywhere."""
    write_text(path, page(plan, result, parts or {}))


def page(plan: Plan, result: Estimate, parts: Mapping[str, Estimate]) -> str:
    """The page as text."""
    title = plan.question or {1: "Estimated total"}.get(len(result.rows), "Estimated histogram")
    alarms = [check for check in result.prior_check if check.contradicted]
    warnings = "".join(f'<p class="warn">{escape(str(check))}</p>' for check in alarms)
    agreed = "" if alarms or not result.prior_check else "<p>The reports agree with the prior of every group.</p>"
    promises = "".join(
        f"<li><b>{escape(group.name or 'Everybody')}</b>: {escape(promise(group))}</li>" for group in plan.groups
    )
    sections = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">{result.n_reports:,} reports · estimator {result.estimator} · '
        f"{result.level:.0%} intervals · plan <code>{plan.hash[:16]}</code></p>",
        warnings,
        f"<figure>{_chart(plan, result)}</figure>",
        _table(plan, result),
        *(_breakdown(plan, parts) if parts else ()),
        f"<h2>Does the prior hold?</h2>{warnings or agreed}",
        "<h2>What respondents were promised</h2>",
        f"<ul>{promises}</ul>",
        f'<p class="soft">One forged report can move an estimate by at most {result.influence:.3g}.</p>',
    ]
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    return f"{head}{view}<style>{_STYLE}</style><body>{''.join(sections)}</body></html>\n"


def _table(plan: Plan, result: Estimate) -> str:
    rows = "".join(
        f"<tr><td>{escape(row_name(plan, row.value))}</td><td>{row.estimate:,.1f}</td>"
        f"<td>{row.standard_error:,.1f}</td><td>{row.low:,.1f} … {row.high:,.1f}</td></tr>"
        for row in result.rows
    )
    header = f"<th></th><th>estimate</th><th>standard error</th><th>{result.level:.0%} interval</th>"
    return f"<table><tr>{header}</tr>{rows}</table>"


def _breakdown(plan: Plan, parts: Mapping[str, Estimate]) -> list[str]:
    pieces = ["<h2>Breakdown</h2>"]
    for name, part in parts.items():
        pieces.append(f"<h3>{escape(str(name))} <span class='soft'>({part.n_reports:,} reports)</span></h3>")
        pieces.append(_table(plan, part))
    return pieces


def _chart(plan: Plan, result: Estimate) -> str:
    """Points with intervals, and what the prior alone would have said, as inline SVG."""
    rows = sorted(result.rows, key=lambda row: -row.estimate)[:MAX_BARS] if len(result.rows) > MAX_BARS else result.rows
    positions = np.arange(len(rows))[::-1]
    figure, axes = _axes(len(rows))
    expected = _prior_guess(plan, result)
    guesses = [expected.get(row.value) for row in rows]
    known = [(guess, y) for guess, y in zip(guesses, positions, strict=True) if guess is not None]
    if known:
        axes.plot(*zip(*known, strict=True), "D", ms=5, mfc="none", mec=_GREY, label="the prior alone")
    for row, y in zip(rows, positions, strict=True):
        axes.plot([row.low, row.high], [y, y], color=_GREEN, lw=2.5, solid_capstyle="round", alpha=0.55)
    label = f"estimate, {result.level:.0%} interval"
    axes.plot([row.estimate for row in rows], positions, "o", color=_GREEN, ms=6, label=label)
    axes.set_yticks(positions, [row_name(plan, row.value) for row in rows])
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.xaxis.set_major_formatter(lambda number, _: f"{number:,.0f}")
    axes.legend(frameon=False, fontsize=9, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return _svg(figure)


def _prior_guess(plan: Plan, result: Estimate) -> dict[Any, float]:
    """N·E[g] for plans of one group: where the estimate would lie without any report."""
    if len(plan.groups) > 1 or not result.n_reports:
        return {}
    group = plan.groups[0]
    mean = group.prior.probabilities @ plan.task.g(group.prior)
    return {row.value: float(guess) * result.n_reports for row, guess in zip(result.rows, mean, strict=True)}


def _axes(rows: int) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.5, 1.3 + 0.34 * rows), layout="constrained")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#e5e7eb", lw=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def _svg(figure: Any) -> str:
    from matplotlib import pyplot

    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


__all__: Sequence[str] = ["page", "write_report"]
