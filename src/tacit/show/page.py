"""An HTML page that shows an estimate: numbers, intervals, promises and the check of the prior, in one file.

The page loads nothing from anywhere, has no script, and reads well in light, in dark and on paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tacit.estimates import Estimate, PriorCheck
from tacit.plan import Plan
from tacit.plan.saving import write_text
from tacit.show.sentences import (
    alarm,
    counts_people,
    digits,
    estimate_cells,
    estimate_headers,
    forged,
    group_label,
    how_estimated,
    ldp_sentence,
    outside_values,
    prior_part,
    promise,
    promise_cells,
    row_name,
    too_few,
    weights_sentence,
    whom,
)
from tacit.tally import Tally
from tacit.task import Histogram

__all__ = ["page", "write_page"]

#: A chart of more rows than this shows the largest, and so does a table.
MAX_BARS, MAX_TABLE = 40, 200
#: What is to be known about rows that are shown for being the largest.
CHOSEN = "chosen for being large, so expect them to be overestimated"

_STYLE = """
:root { color-scheme: light dark; --text: #1f2328; --line: #d8dce1; --soft: #626a73; --good: #1b7f5c; --warn: #a63c28;
  --paper: #fff; --wash: #f5f7f6; --alarm: #fdf1ee; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e8ea; --line: #3b4147; --soft: #9aa3ac; --good: #4cbf94;
  --warn: #f08a73; --paper: #16191c; --wash: #1f2427; --alarm: #33201c; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 54rem; margin: 2.5rem auto 4rem; padding: 0 1.2rem;
  color: var(--text); background: var(--paper); }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2.4rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; } p { margin: .5rem 0; }
.soft { color: var(--soft); } .big { font-size: 2.6rem; font-weight: 650; color: var(--good); line-height: 1.1; }
.headline { background: var(--wash); border-radius: 10px; padding: 1.1rem 1.3rem; margin: 1.3rem 0; }
.warn { background: var(--alarm); border-left: 4px solid var(--warn); border-radius: 4px; padding: .6rem 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .94rem; }
th { font-weight: 600; color: var(--soft); } tr:last-child td { border-bottom: 0; }
th, td { padding: .34rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th.name, td.name { text-align: left; white-space: normal; overflow-wrap: break-word; min-width: 5rem; }
th:first-child, td:first-child { padding-left: 0; } th:last-child, td:last-child { padding-right: 0; }
figure { margin: 1.2rem 0; overflow-x: auto; } svg { display: block; width: 100%; min-width: 30rem; height: auto;
  font: 13px system-ui, sans-serif; }
svg text { fill: var(--text); } svg .tick { fill: var(--soft); font-size: 12px; } svg .grid { stroke: var(--line); }
svg .bar { stroke: var(--good); stroke-width: 5; stroke-linecap: round; opacity: .45; } svg .dot { fill: var(--good); }
svg .prior { stroke: var(--soft); stroke-width: 1.6; } code { font-size: .85em; overflow-wrap: anywhere; }
"""


def write_page(
    path: str | Path,
    plan: Plan,
    result: Estimate,
    parts: Mapping[str, Estimate] | None = None,
    by: str | None = None,
    tally: Tally | None = None,
) -> None:
    """Write the page, atomically. With the tally it also says what LDP would have needed."""
    write_text(path, page(plan, result, parts or {}, by, tally))


def page(
    plan: Plan, result: Estimate, parts: Mapping[str, Estimate], by: str | None = None, tally: Tally | None = None
) -> str:
    """The page as text."""
    title = plan.question or ("Estimated histogram" if isinstance(plan.task, Histogram) else "Estimated total")
    marks = [_Mark(row_name(plan, row.value), row.estimate, row.low, row.high, row.prior) for row in result.rows]
    sections = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">{result.n_reports:,} randomized reports · {_epsilons(plan)} · plan '
        f"<code>{plan.hash[:12]}</code></p>",
        *(
            f'<p class="warn">{escape(alarm(plan, result, check))}</p>'
            for check in result.prior_check
            if check.contradicted
        ),
        _headline(plan, result) if len(result.rows) == 1 else "",
        _figure(marks, from_zero=len(marks) > 1),
        _values(plan, result) if len(result.rows) > 1 else "",
        _method(plan, result, tally),
        _breakdown(plan, parts, by),
        _checks(result),
        _promises(plan),
        f'<p class="soft">{escape(forged(result))} Every promise was decided in exact integers when this plan was '
        "read.</p>",
    ]
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    return f"{head}{view}<style>{_STYLE}</style><body>{''.join(sections)}</body></html>\n"


# -- sections -------------------------------------------------------------------------------------------------------


def _headline(plan: Plan, result: Estimate) -> str:
    row = result.rows[0]
    estimate, interval, share, of_share = estimate_cells(plan, result, row)
    name = escape(row_name(plan, row.value))
    people = f"{result.total_weight:,.0f}" if result.weighted else f"{result.n_reports:,}"
    what = f"of {people} people hold “{name}”" if counts_people(plan) else "on average"
    level = f"{result.level * 100:g}% interval"
    return (
        f'<div class="headline"><div class="big">{share}</div><div>{what}, {level} {of_share}</div>'
        f'<div class="soft">in total {estimate}, {level} {interval}</div></div>'
    )


def _method(plan: Plan, result: Estimate, tally: Tally | None) -> str:
    """How the numbers came about, and what has to be known to read them."""
    counted = {} if tally is None else tally.groups
    per_group = [counted[group.name].total if group.name in counted else 0 for group in plan.groups]
    few = too_few(plan, result)
    said = [
        f"Estimator {how_estimated(result)}.",
        weights_sentence(result),
        "Too few reports to say anything: margins are as wide as what is possible." if few else prior_part(result),
        whom(result.scope, result.simultaneous),
        ldp_sentence(plan, per_group, result.estimator) if any(per_group) and not few else None,
    ]
    text = escape(" ".join(part for part in said if part))
    trusting = '<p class="warn">Estimates and intervals hold only if the prior is exactly right.</p>'
    return (trusting if result.estimator == "mmse" else "") + f'<p class="soft">{text}</p>'


def _epsilons(plan: Plan) -> str:
    """The budgets, as a reader meets them."""
    found = sorted({(group.notion.upper(), float(group.epsilon)) for group in plan.groups})
    return ", ".join(f"{notion} ε = {epsilon:g}" for notion, epsilon in found[:4]) + (", …" if len(found) > 4 else "")


def _values(plan: Plan, result: Estimate) -> str:
    rows = result.rows
    note = ""
    if len(rows) > MAX_TABLE:
        rows = tuple(sorted(rows, key=lambda row: -row.estimate)[:MAX_TABLE])
        note = f'<p class="soft">The largest {MAX_TABLE} of {len(result.rows):,}: {CHOSEN}.</p>'
    cells = [(row_name(plan, row.value), *estimate_cells(plan, result, row)) for row in rows]
    return _table(("answer", *estimate_headers(plan, result)), cells) + note


def _breakdown(plan: Plan, parts: Mapping[str, Estimate], by: str | None) -> str:
    if not parts:
        return ""
    title = f"<h2>By {escape(by or 'part')}</h2>"
    unit = "<p>Shares, in percent of each part.</p>" if counts_people(plan) else "<p>Means of each part.</p>"
    if isinstance(plan.task, Histogram):
        return title + "".join(
            f"<h3>{escape(name or '(empty)')} <span class='soft'>{part.n_reports:,} reports</span></h3>"
            f"{_values(plan, part)}"
            for name, part in parts.items()
        )
    cells = [
        (name or "(empty)", f"{part.n_reports:,}", *estimate_cells(plan, part, part.rows[0]))
        for name, part in parts.items()
    ]
    marks = [_share_mark(name or "(empty)", plan, part) for name, part in parts.items() if part.n_reports]
    headers = (by or "part", "reports", *estimate_headers(plan, next(iter(parts.values()))))
    return title + unit + _figure(marks, from_zero=True) + _table(headers, cells)


def _share_mark(name: str, plan: Plan, part: Estimate) -> _Mark:
    """Shares in percent or means, so that parts of different size can be compared."""
    row = part.per_respondent(part.rows[0]).divided(0.01 if counts_people(plan) else 1.0)
    return _Mark(name, row.estimate, row.low, row.high, row.prior)


def _checks(result: Estimate) -> str:
    if not result.prior_check:
        return ""
    wrong = sum(check.contradicted for check in result.prior_check)
    cells = [
        (
            "all together" if check.pooled else group_label(check.group),
            f"{check.statistic:.1f}",
            str(check.degrees),
            "> 0.5" if check.p_value > 0.5 else f"{check.p_value:.2g}",
            _verdict(check),
        )
        for check in result.prior_check[:MAX_TABLE]
    ]
    words = "The reports contradict the prior." if wrong else str(result.prior_check[0])
    headers = ("group", "chi-square", "degrees", "p, at any time", "verdict")
    return f"<h2>Does the prior hold?</h2><p>{escape(words)}</p>" + _table(headers, cells)


def _verdict(check: PriorCheck) -> str:
    if not check.degrees:
        return "too few reports"
    return "contradicted" if check.contradicted else "not contradicted"


def _promises(plan: Plan) -> str:
    groups = plan.groups
    outside = sorted({str(value) for group in groups for value in outside_values(group)})
    note = f"<p>Outside the guarantee, with prior zero: {escape(', '.join(outside[:20]))}.</p>" if outside else ""
    title = "<h2>What respondents were promised</h2>"
    if len(groups) == 1:
        sentence = promise(plan, groups[0])
        return f"{title}<p>{escape(sentence[0].upper() + sentence[1:])}</p>{note}"
    headers = ("group", "answer", "believed before", "at most", "at least", "odds, any belief")
    lead = "<p>A report changes the belief in somebody's answer at most so far:</p>"
    return title + lead + _table(headers, [promise_cells(plan, group) for group in groups[:MAX_TABLE]], left=2) + note


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    def line(tag: str, cells: Sequence[str]) -> str:
        named = [' class="name"' if place < left else "" for place in range(len(cells))]
        return "".join(f"<{tag}{name}>{escape(cell)}</{tag}>" for name, cell in zip(named, cells, strict=True))

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{line("th", headers)}</tr>{body}</table></div>'


# -- the chart ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Mark:
    """One row of the chart: an estimate with its interval, and what the prior alone says where that is known."""

    name: str
    estimate: float
    low: float
    high: float
    prior: float = math.nan


def _figure(marks: Sequence[_Mark], from_zero: bool) -> str:
    """Points with intervals and the prior's guesses, as inline SVG."""
    known = [mark for mark in marks if math.isfinite(mark.estimate)]
    cut = len(known) > MAX_BARS
    shown = sorted(known, key=lambda mark: -mark.estimate)[:MAX_BARS] if cut else known
    if not shown:
        return ""
    ends = [end for mark in shown for end in (mark.low, mark.high, mark.prior) if math.isfinite(end)]
    ticks = _ticks(min([*ends, 0.0] if from_zero else ends), max(ends))
    margin = 26 + min(230, 9 * max(len(_short(mark.name)) for mark in shown))
    width, top, step = 800, 34, 28
    scale = (width - margin - 30) / (ticks[-1] - ticks[0])

    def place(number: float) -> float:
        return round(margin + (number - ticks[0]) * scale, 1)

    bottom = top + step * len(shown)
    parts = [_legend(margin, any(math.isfinite(mark.prior) for mark in shown))]
    for tick in ticks:
        x = place(tick)
        parts.append(f'<line class="grid" x1="{x}" y1="{top}" x2="{x}" y2="{bottom}"/>')
        label = digits(tick, (ticks[1] - ticks[0]) * 10)
        parts.append(f'<text class="tick" x="{x}" y="{bottom + 17}" text-anchor="middle">{label}</text>')
    for row, mark in enumerate(shown):
        y = top + step * row + step // 2
        parts.append(f'<text x="{margin - 14}" y="{y + 4}" text-anchor="end">{escape(_short(mark.name))}</text>')
        parts.append(f'<line class="bar" x1="{place(mark.low)}" y1="{y}" x2="{place(mark.high)}" y2="{y}"/>')
        if math.isfinite(mark.prior):
            parts.append(_tick(place(mark.prior), y))
        parts.append(f'<circle class="dot" cx="{place(mark.estimate)}" cy="{y}" r="4.5"/>')
    chosen = f'<figcaption class="soft">The largest {MAX_BARS} of {len(known):,}: {CHOSEN}.</figcaption>'
    note = chosen if cut else ""
    return (
        f'<figure><svg viewBox="0 0 {width} {bottom + 26}" role="img" aria-label="estimates with intervals">'
        f"{''.join(parts)}</svg>{note}</figure>"
    )


def _legend(x: int, with_prior: bool) -> str:
    text = (
        f'<line class="bar" x1="{x}" y1="14" x2="{x + 26}" y2="14"/><circle class="dot" cx="{x + 13}" cy="14" r="4.5"/>'
    )
    text += f'<text class="tick" x="{x + 36}" y="18">estimate with interval</text>'
    if with_prior:
        text += f'{_tick(x + 200, 14)}<text class="tick" x="{x + 212}" y="18">the prior alone</text>'
    return text


def _tick(x: float, y: float) -> str:
    return f'<line class="prior" x1="{x}" y1="{y - 9}" x2="{x}" y2="{y + 9}"/>'


def _short(name: str) -> str:
    return name if len(name) <= 26 else name[:25] + "…"


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers, four to nine of them, the first at most `low` and the last at least `high`.

    >>> _ticks(0.0, 97.0)
    [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    """
    width = (high - low) or max(abs(high), 1.0)
    power = 10.0 ** math.floor(math.log10(width / 4))
    step = next(power * factor for factor in (1, 2, 5, 10) if width / (power * factor) <= 6)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(step * k, 12) for k in range(first, max(last, first + 1) + 1)]
