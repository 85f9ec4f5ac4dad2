"""An HTML page about an estimate, to be forwarded: the finding, the promise, breakdowns, a comparison and the method.

The page loads nothing from anywhere, has no script, and reads well in light, in dark and on paper. Charts are inline
SVG: points with intervals, in colours of the page's style.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import TypedDict, Unpack

import tacit
from tacit.disk import write_text
from tacit.estimates import Differences, Estimate, PriorCheck, Quantile, QuantileDifference, Row, Trend
from tacit.plan import Plan
from tacit.show import sentences as say

__all__ = ["Brand", "page", "write_page"]

#: A table of more rows than this shows the largest.
MAX_TABLE = 200
Cell = str | tuple[str, ...]
#: A table about groups with more rows than this is folded.
MAX_OPEN = 12
#: Parts of a histogram stand side by side if there are so few, else one below the other.
MAX_COLUMNS = 6

_STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")


class Parts(TypedDict, total=False):
    """What a page shows beside the estimate, and who publishes it. With the command it also says how it was made."""

    comparison: Differences | None
    trend: Trend | None
    command: str | None
    quantiles: Sequence[Quantile]
    quantile_changes: Sequence[QuantileDifference]
    brand: Brand | None


def write_page(path: str | Path, plan: Plan, result: Estimate, **parts: Unpack[Parts]) -> None:
    """Write the page, atomically."""
    write_text(path, page(plan, result, **parts))


def page(plan: Plan, result: Estimate, **parts: Unpack[Parts]) -> str:
    """The page as text, with the parts of the estimate where it has some."""
    title = plan.question or plan.task.title
    marks = [_share_mark(say.row_name(plan, row.value), plan, result, row) for row in result.rows]
    unit = "%" if plan.task.counts_people else ""
    sections = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">{result.n_reports:,} randomized reports. {escape(say.short_promise(plan))}</p>',
        _alarm(plan, result),
        _headline(plan, result),
        "" if len(marks) == 1 and say.too_few(plan, result) else figure(marks, len(marks) > 1, unit=unit),
        _values(plan, result) if len(result.rows) > 1 else "",
        _quantiles(parts.get("quantiles", ()), parts.get("quantile_changes", ()), result.level),
        _breakdown(plan, result.parts, result.by),
        _trend(plan, parts.get("trend")),
        _comparison(plan, parts.get("comparison")),
        _method(plan, result),
        _promises(plan),
        _specialists(plan, result),
        footer(plan, parts.get("command")),
    ]
    return document(title, sections, parts.get("brand"))


@dataclass(frozen=True)
class Brand:
    """Who publishes a page: a name, a logo, or both. The logo is in the page itself."""

    organisation: str | None = None
    logo: Path | None = None

    def heading(self) -> str:
        """The line above the title."""
        image = ""
        if self.logo is not None:
            kind = _LOGOS.get(self.logo.suffix.lower())
            content = self.logo.read_bytes()
            if kind is None or len(content) > _LOGO_BYTES:
                raise ValueError(
                    f"The logo must be a PNG, JPEG, WebP or SVG file of at most {_LOGO_BYTES:,} bytes. "
                    f"Got {self.logo.name} with {len(content):,}."
                )
            said = "" if self.organisation else "logo"
            image = f'<img alt="{said}" src="data:{kind};base64,{base64.b64encode(content).decode()}">'
        return f'<header class="brand">{image}{escape(self.organisation or "")}</header>'


_LOGOS = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp", ".svg": "image/svg+xml"
}  # fmt: skip
_LOGO_BYTES = 500_000


def document(title: str, sections: Iterable[str], brand: Brand | None = None) -> str:
    """A page of these sections, with everything that it needs inside."""
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    whose = "" if brand is None else brand.heading()
    return f"{head}{view}<style>{_STYLE}</style><body>{whose}{''.join(sections)}</body></html>\n"


# -- sections -------------------------------------------------------------------------------------------------------


def _alarm(plan: Plan, result: Estimate) -> str:
    """What the first contradiction means, and which groups contradict the prior too."""
    wrong = [check for check in result.prior_check if check.contradicted]
    if not wrong:
        return ""
    groups = [say.group_label(check.group) for check in wrong[1:] if not check.pooled]
    more = f" Also by themselves: {', '.join(groups[:8])}{', …' if len(groups) > 8 else ''}." if groups else ""
    return f'<p class="warn">{_CHANGED} {escape(say.alarm(plan, result, wrong[0]) + more)}</p>'


_CHANGED = "The reports differ from what was known before the survey (the prior)."


def _headline(plan: Plan, result: Estimate) -> str:
    """The main finding: the total, or the most frequent answer if the reports tell which it is."""
    rows = sorted((row for row in result.rows if math.isfinite(row.margin)), key=lambda row: -row.estimate)
    if not rows or (len(result.rows) > 1 and (not plan.task.per_value or say.too_few(plan, result) or len(rows) < 2)):
        return ""
    if say.too_few(plan, result):
        why = "The interval is nearly as wide as what is possible, so no number is shown."
        return f'<div class="headline"><div class="big">Too few reports yet</div><div>{why}</div></div>'
    row, level = rows[0], f"{result.level * 100:g}% interval"
    total, interval, share, of_share = say.estimate_cells(plan, result, row)
    name = escape(say.row_name(plan, row.value))
    people = f"{result.total_weight:,.0f}" if result.weighted else f"{result.n_reports:,}"
    what = f"of {people} people have the answer “{name}”" if plan.task.counts_people else "on average"
    if len(result.rows) > 1:
        rivals = [say.row_name(plan, other.value) for other in rows[1:] if other.high > row.low]
        if len(rivals) > 2:
            return ""
        what = f"“{name}” is the most frequent answer" if not rivals else f"“{name}” leads"
        what += f", too close to call with {escape(' and '.join(f'“{rival}”' for rival in rivals))}" if rivals else ""
        what += f" among {people} people"
    return (
        f'<div class="headline"><div class="big">{share}</div><div>{what}, {level} {of_share}</div>'
        f'<div class="soft">in total {total}, {level} {interval}</div></div>'
    )


def _method(plan: Plan, result: Estimate) -> str:
    """How the numbers came about, and what has to be known to read them, in one paragraph."""
    uses = "" if all(group.without_prior for group in plan.groups) else f"{_USES[result.estimator]} "
    said = [
        "Every answer was randomized on the respondent's device; only randomized reports were collected. The estimate "
        f"takes the randomizing out of the totals, and the interval includes what it adds. {uses}",
        "There are too few reports: intervals are as wide as what is possible." if say.too_few(plan, result) else None,
        say.weights_sentence(result),
        say.whom(result.scope, result.simultaneous),
        f"An interval of {result.level * 100:g}% contains the true number in {result.level * 100:g} of 100 surveys.",
    ]
    text = escape(" ".join(part.strip() for part in said if part))
    trusting = '<p class="warn">Estimates and intervals hold only if the prior is exactly right.</p>'
    return (trusting if result.estimator == "mmse" else "") + f"<h2>How this was found</h2><p>{text}</p>"


#: What an estimate does with the prior, in words without names of methods.
_USES = {
    "assisted": "It uses what was known before the survey (the prior) only as far as the reports agree with it.",
    "unbiased": "It does not use what was known before the survey (the prior).",
    "mle": "It does not use what was known before the survey (the prior).",
    "mmse": "It relies on what was known before the survey (the prior).",
}


def _specialists(plan: Plan, result: Estimate) -> str:
    """Names of methods, levels, and the test of the prior; folded."""
    said = [
        f"Promise: {_epsilons(plan)}.",
        f"Estimator {say.how_estimated(result)}.",
        None if say.too_few(plan, result) else say.prior_part(result),
        say.forged(result),
    ]
    text = escape(" ".join(part for part in said if part))
    return f"<details><summary>Details for specialists</summary><p>{text}</p>{_checks(result)}</details>"


def footer(plan: Plan, command: str | None) -> str:
    """What it takes to find the same numbers again, folded."""
    how = "" if command is None else f", by <code>{escape(command)}</code>"
    return (
        '<footer class="soft"><details><summary>How to reproduce this page</summary>'
        f"<p>From plan <code>{plan.hash}</code> with tacit {tacit.__version__}{how}. "
        "Every promise was decided in exact integers when this plan was read.</p></details></footer>"
    )


def _epsilons(plan: Plan) -> str:
    """The budgets, as a reader meets them."""
    found = sorted({(group.notion.upper(), float(group.epsilon)) for group in plan.groups})
    return ", ".join(f"{notion} ε = {epsilon:g}" for notion, epsilon in found[:4]) + (", …" if len(found) > 4 else "")


def _values(plan: Plan, result: Estimate) -> str:
    rows = result.rows
    note = ""
    if len(rows) > MAX_TABLE:
        rows = tuple(sorted(rows, key=lambda row: -row.estimate)[:MAX_TABLE])
        note = _largest(len(result.rows))
    cells = [(say.row_name(plan, row.value), *say.estimate_cells(plan, result, row)) for row in rows]
    return html_table(("answer", *say.estimate_headers(plan, result)), cells) + note


def _quantiles(found: Sequence[Quantile], changes: Sequence[QuantileDifference], level: float) -> str:
    """The numbers that a share of the people does not exceed, and how they differ."""
    if not found:
        return ""
    shown = "<h2>Quantiles</h2>" + html_table(("", *say.quantile_headers(level)), say.quantile_cells(found), left=2)
    if not changes:
        return shown
    cells = say.quantile_difference_cells(changes[:MAX_TABLE])
    return f"{shown}<h3>Compared</h3>{html_table(say.quantile_difference_headers(level), cells, left=2)}"


def _largest(of: int) -> str:
    return f'<p class="soft">The largest {MAX_TABLE} of {of:,}: {CHOSEN}.</p>'


def _breakdown(plan: Plan, parts: Mapping[str, Estimate], by: str | None) -> str:
    if not parts:
        return ""
    title = f"<h2>By {escape(by or 'part')}</h2>"
    first = next(iter(parts.values()))
    title += '<p class="soft">Parts are estimated on their own and need not add up. '
    title += f"{escape(say.few_parts(parts) or '')}</p>"
    if len(plan.row_values) > 1:
        return title + (_side_by_side if len(parts) <= MAX_COLUMNS else _one_by_one)(plan, parts)
    marks = [_share_mark(name or "(empty)", plan, part, part.rows[0]) for name, part in parts.items() if part.n_reports]
    shown = html_table(say.part_headers(plan, first, by or "part"), say.part_cells(plan, parts))
    return title + figure(marks, True, unit="%" if plan.task.counts_people else "") + shown


def _side_by_side(plan: Plan, parts: Mapping[str, Estimate], of: str = "part") -> str:
    """A column of shares with intervals for each part."""
    everything = list(zip(*(part.rows for part in parts.values()), strict=True))
    chosen = sorted(everything, key=lambda rows: -sum(row.estimate for row in rows))[:MAX_TABLE]
    shown = everything if len(everything) <= MAX_TABLE else chosen
    lines: list[Sequence[Cell]] = [
        (
            say.row_name(plan, rows[0].value),
            *(say.estimate_cells(plan, part, row)[2:] for part, row in zip(parts.values(), rows, strict=True)),
        )
        for rows in shown
    ]
    headers: list[Cell] = [
        "answer",
        *((name or "(empty)", f"{part.n_reports:,} reports") for name, part in parts.items()),
    ]
    note = "" if shown is everything else _largest(len(everything))
    what = "Shares" if plan.task.counts_people else "Means"
    return f"<p>{what} of each {of}, with intervals.</p>" + html_table(headers, lines) + note


def _one_by_one(plan: Plan, parts: Mapping[str, Estimate]) -> str:
    return "".join(
        f"<h3>{escape(name or '(empty)')} <span class='soft'>{part.n_reports:,} reports</span></h3>"
        f"{_values(plan, part)}"
        for name, part in parts.items()
    )


def _comparison(plan: Plan, found: Differences | None) -> str:
    """Differences as a chart and a table, with what they mean."""
    if found is None:
        return ""
    rows = say.surest(found, MAX_TABLE)
    scale = 100.0 if plan.task.counts_people else 1.0
    marks = [
        Mark(say.compared_name(plan, found, row), scale * row.difference, scale * row.low, scale * row.high)
        for row in rows
        if math.isfinite(row.difference)
    ]
    unit = "points" if plan.task.counts_people else "difference"
    first, second = say.compared_sides(plan, found)
    headers = ("", first, second, unit, say.interval_header(found.level), "")
    cells = [(say.compared_name(plan, found, row), *say.difference_cells(plan, row), say.verdict(row)) for row in rows]
    lead = [say.difference_sentence(plan, found, found.rows[0])] if len(found.rows) == 1 else []
    left_out = [f"Shown are the surest {len(rows)} of {len(found.rows):,}."] if len(rows) < len(found.rows) else []
    said = escape(" ".join([*lead, *left_out, *say.difference_notes(plan, found)]))
    title = f"Compared with {second}" if found.now is not None else "Compared"
    chart = figure(marks, True, "difference")
    return f"<h2>{escape(title)}</h2>{chart}{html_table(headers, cells)}<p>{said}</p>"


def _trend(plan: Plan, found: Trend | None) -> str:
    """A chart of each answer over the waves, the most frequent answers first, and a table of all."""
    if found is None:
        return ""
    scale = 100.0 if plan.task.counts_people else 1.0
    lines: dict[str, list[Mark]] = {}
    for name, result in zip(found.names, found.estimates, strict=True):
        for row in result.rows:
            each = result.per_respondent(row).divided(1 / scale)
            marks = lines.setdefault(say.row_name(plan, row.value), [])
            marks.append(Mark(name, each.estimate, each.low, each.high))
    chosen = sorted(lines, key=lambda name: -lines[name][-1].estimate)[:MAX_COLUMNS]
    charts = "".join(
        (f"<h3>{escape(name)}</h3>" if len(lines) > 1 else "") + _over_time(lines[name]) for name in chosen
    )
    unit = " (percent)" if plan.task.counts_people else ""
    more = f"<p class='soft'>The largest {len(chosen)} of {len(lines)} answers.</p>" if len(chosen) < len(lines) else ""
    waves = dict(zip(found.names, found.estimates, strict=True))
    return f"<h2>Over time{unit}</h2>{charts}{more}{_side_by_side(plan, waves, 'wave')}"


def _over_time(marks: Sequence[Mark]) -> str:
    """Points with intervals, joined by lines, as inline SVG; the waves from left to right."""
    known = [(place, mark) for place, mark in enumerate(marks) if math.isfinite(mark.estimate)]
    if not known:
        return ""
    ends = [end for _, mark in known for end in (mark.low, mark.estimate, mark.high) if math.isfinite(end)]
    ticks, height = ticks_between(min(ends), max(ends)), 240

    def across(place: int) -> str:
        return f"{100 * (place + 0.5) / len(marks):.2f}%"

    def up(number: float) -> float:
        return round(10 + height - (number - ticks[0]) / (ticks[-1] - ticks[0]) * height, 1)

    parts = []
    for tick in ticks:
        parts.append(f'<line class="grid" x1="0" y1="{up(tick)}" x2="100%" y2="{up(tick)}"/>')
        parts.append(f'<text x="-8" y="{up(tick) + 4}" text-anchor="end">{_tick_label(tick, ticks)}</text>')
    for (first, before), (second, after) in pairwise(known):
        y1, y2 = up(before.estimate), up(after.estimate)
        parts.append(f'<line class="over" x1="{across(first)}" y1="{y1}" x2="{across(second)}" y2="{y2}"/>')
    # Names of many waves would overlap.
    every = -(-len(marks) // 10)
    for place, mark in known:
        x = across(place)
        if math.isfinite(mark.low) and math.isfinite(mark.high):
            parts.append(f'<line class="bar" x1="{x}" y1="{up(mark.low)}" x2="{x}" y2="{up(mark.high)}"/>')
        parts.append(f'<circle class="dot" cx="{x}" cy="{up(mark.estimate)}" r="4.5"/>')
        if not place % every:
            name = escape(mark.name if len(mark.name) <= 12 else mark.name[:11] + "…")
            hidden = _minor(place // every, range(-(-len(marks) // every)))
            parts.append(f'<text{hidden} x="{x}" y="{height + 32}" text-anchor="middle">{name}</text>')
    return (
        f'<figure class="over-time"><svg height="{height + 42}" role="img" aria-label="estimates over time, with '
        f'intervals">{"".join(parts)}</svg></figure>'
    )


def _share_mark(name: str, plan: Plan, part: Estimate, row: Row) -> Mark:
    """Shares in percent or means, so that parts of different size can be compared."""
    mine = say.within_possible(plan, part, row)
    row = part.per_respondent(mine).divided(0.01 if plan.task.counts_people else 1.0)
    return Mark(name, row.estimate, row.low, row.high, row.prior)


def _checks(result: Estimate) -> str:
    if not result.prior_check:
        return ""
    wrong = sum(check.contradicted for check in result.prior_check)
    cells = [
        (
            "all together" if check.pooled else say.group_label(check.group),
            f"{check.statistic:.1f}",
            str(check.degrees),
            "> 0.5" if check.p_value > 0.5 else f"{check.p_value:.2g}",
            _verdict(check),
        )
        for check in result.prior_check[:MAX_TABLE]
    ]
    words = "The reports contradict the prior." if wrong else str(result.prior_check[0])
    headers = ("group", "chi-square", "degrees", "p, at any time", "verdict")
    return f"<h3>Does the prior hold?</h3><p>{escape(words)}</p>" + html_table(headers, cells)


def _verdict(check: PriorCheck) -> str:
    if not check.degrees:
        return "too few reports"
    return "contradicted" if check.contradicted else "not contradicted"


def _promises(plan: Plan) -> str:
    groups = plan.groups
    outside = sorted({str(value) for group in groups for value in say.outside_values(group)})
    note = f"<p>Outside the guarantee, with prior zero: {escape(', '.join(outside[:20]))}.</p>" if outside else ""
    title = "<h2>What respondents were promised</h2>"
    if len(groups) == 1:
        sentence = say.promise(plan, groups[0].name)
        return f"{title}<p>{escape(sentence[0].upper() + sentence[1:])}</p>{note}"
    headers = ("group", "answer", "believed before", "at most", "at least", "odds, any belief")
    lead = f"<p>How far a report can move the belief in {say.promised_answer(plan)}:</p>"
    cells = [say.promise_cells(plan, group) for group in groups[:MAX_TABLE]]
    return title + lead + _folded(html_table(headers, cells, left=2), len(cells)) + note


def _folded(table: str, rows: int) -> str:
    """A long table about groups opens when it is asked for."""
    return f"<details><summary>{rows} rows</summary>{table}</details>" if rows > MAX_OPEN else table


def html_table(headers: Sequence[Cell], rows: Iterable[Sequence[Cell]], left: int = 1) -> str:
    # On a phone rows become blocks, whose cells are labelled; the roles tell readers of the screen that it is a table.
    names = [header if isinstance(header, str) else header[0] for header in headers]

    def line(tag: str, cells: Sequence[Cell]) -> str:
        named = ['class="name" ' if place < left else "" for place in range(len(cells))]
        roles = ['role="columnheader"'] * len(cells)
        if tag == "td":
            roles = [f'role="cell" data-label="{escape(name)}"' if name else 'role="cell"' for name in names]
            roles[0] = 'role="rowheader"'
        parts = zip(named, roles, cells, strict=True)
        return "".join(f"<{tag} {name}{role}>{_cell(cell)}</{tag}>" for name, role, cell in parts)

    body = "".join(f'<tr role="row">{line("td", row)}</tr>' for row in rows)
    head = f'<thead><tr role="row">{line("th", headers)}</tr></thead>'
    return f'<div class="scroll" tabindex="0"><table role="table">{head}<tbody>{body}</tbody></table></div>'


def _cell(cell: Cell) -> str:
    """A text, or one with a smaller one below it."""
    if isinstance(cell, str):
        return escape(cell)
    text, below = cell
    return f"{escape(text)}<small>{escape(below)}</small>"


#: A chart of more rows than this shows the largest.
MAX_BARS = 40
#: What is to be known about rows that are shown for being the largest.
CHOSEN = "chosen for being large, so expect them to be overestimated"


@dataclass(frozen=True)
class Mark:
    """One row of the chart: an estimate with its interval, and what the prior alone says where that is known."""

    name: str
    estimate: float
    low: float
    high: float
    prior: float = math.nan


def figure(marks: Sequence[Mark], from_zero: bool, what: str = "estimate", unit: str = "") -> str:
    """Points with intervals and the prior's guesses. Places are in percent of the width, so that any screen fits."""
    known = [mark for mark in marks if math.isfinite(mark.estimate)]
    cut = len(known) > MAX_BARS
    shown = sorted(known, key=lambda mark: -mark.estimate)[:MAX_BARS] if cut else known
    if not shown:
        return ""
    ends = [end for mark in shown for end in (mark.low, mark.estimate, mark.high, mark.prior) if math.isfinite(end)]
    ticks = ticks_between(min([*ends, 0.0] if from_zero else ends), max(ends))

    def place(number: float) -> str:
        return f"{100 * (number - ticks[0]) / (ticks[-1] - ticks[0]):.2f}%"

    grid = "".join(
        f'<line class="{"zero" if tick == 0 and ticks[0] < 0 else "grid"}" x1="{place(tick)}" y1="0" '
        f'x2="{place(tick)}" y2="28"/>'
        for tick in ticks
    )
    rows = []
    for mark in shown:
        parts = [grid]
        if math.isfinite(mark.low) and math.isfinite(mark.high):
            parts.append(f'<line class="bar" x1="{place(mark.low)}" y1="14" x2="{place(mark.high)}" y2="14"/>')
        if math.isfinite(mark.prior):
            parts.append(_tick(place(mark.prior)))
        parts.append(f'<circle class="dot" cx="{place(mark.estimate)}" cy="14" r="4.5"/>')
        rows.append(f'<span>{escape(mark.name)}</span><svg height="28" aria-hidden="true">{"".join(parts)}</svg>')
    labels = "".join(
        f'<text{_minor(k, ticks)} x="{place(tick)}" y="14" text-anchor="middle">{_tick_label(tick, ticks, unit)}</text>'
        for k, tick in enumerate(ticks)
    )
    note = f'<figcaption class="soft">The largest {MAX_BARS} of {len(known):,}: {CHOSEN}.</figcaption>' if cut else ""
    legend = _legend(what, any(math.isfinite(mark.prior) for mark in shown))
    return (
        f'<figure><div class="chart" role="img" aria-label="{what}s with intervals">{legend}{"".join(rows)}'
        f'<svg class="axis" height="20" aria-hidden="true">{labels}</svg></div>{note}</figure>'
    )


def _legend(what: str, with_prior: bool) -> str:
    text = '<line class="bar" x1="0" y1="14" x2="26" y2="14"/><circle class="dot" cx="13" cy="14" r="4.5"/>'
    text += f'<text x="36" y="18">{what}, interval</text>'
    if with_prior:
        text += f'{_tick("158")}<text x="168" y="18">known before</text>'
    return f'<svg class="legend" height="30" aria-hidden="true">{text}</svg>'


def _tick(x: str) -> str:
    return f'<line class="prior" x1="{x}" y1="5" x2="{x}" y2="23"/>'


def _tick_label(tick: float, ticks: Sequence[float], unit: str = "") -> str:
    return say.digits(tick, (ticks[1] - ticks[0]) * 10) + unit


def _minor(place: int, ticks: Sequence[object]) -> str:
    """Every other label of many is left out on a phone."""
    return ' class="minor"' if len(ticks) > 5 and place % 2 else ""


def ticks_between(low: float, high: float) -> list[float]:
    """Round numbers, four to nine of them, the first at most `low` and the last at least `high`.

    >>> ticks_between(0.0, 97.0)
    [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    """
    width = (high - low) or max(abs(high), 1.0)
    power = 10.0 ** math.floor(math.log10(width / 4))
    step = next(power * factor for factor in (1, 2, 5, 10) if width / (power * factor) <= 6)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(step * k, 12) for k in range(first, max(last, first + 1) + 1)]
