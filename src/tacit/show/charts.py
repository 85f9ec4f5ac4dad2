"""Points with intervals as inline SVG: no script, colours from the page's style, fit for print."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tacit.show.sentences import digits

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


def figure(marks: Sequence[Mark], from_zero: bool, what: str = "estimate") -> str:
    """Points with intervals and the prior's guesses, as inline SVG."""
    known = [mark for mark in marks if math.isfinite(mark.estimate)]
    cut = len(known) > MAX_BARS
    shown = sorted(known, key=lambda mark: -mark.estimate)[:MAX_BARS] if cut else known
    if not shown:
        return ""
    ends = [end for mark in shown for end in (mark.low, mark.estimate, mark.high, mark.prior) if math.isfinite(end)]
    ticks = ticks_between(min([*ends, 0.0] if from_zero else ends), max(ends))
    margin = 26 + min(230, 9 * max(len(_short(mark.name)) for mark in shown))
    width, top, step = 800, 34, 28
    scale = (width - margin - 48) / (ticks[-1] - ticks[0])

    def place(number: float) -> float:
        return round(margin + (number - ticks[0]) * scale, 1)

    bottom = top + step * len(shown)
    parts = [_legend(margin, what, any(math.isfinite(mark.prior) for mark in shown))]
    for tick in ticks:
        x = place(tick)
        kind = "zero" if tick == 0 and ticks[0] < 0 else "grid"
        parts.append(f'<line class="{kind}" x1="{x}" y1="{top}" x2="{x}" y2="{bottom}"/>')
        label = digits(tick, (ticks[1] - ticks[0]) * 10)
        parts.append(f'<text class="tick" x="{x}" y="{bottom + 17}" text-anchor="middle">{label}</text>')
    for row, mark in enumerate(shown):
        y = top + step * row + step // 2
        parts.append(f'<text x="{margin - 14}" y="{y + 4}" text-anchor="end">{escape(_short(mark.name))}</text>')
        if math.isfinite(mark.low) and math.isfinite(mark.high):
            parts.append(f'<line class="bar" x1="{place(mark.low)}" y1="{y}" x2="{place(mark.high)}" y2="{y}"/>')
        if math.isfinite(mark.prior):
            parts.append(_tick(place(mark.prior), y))
        parts.append(f'<circle class="dot" cx="{place(mark.estimate)}" cy="{y}" r="4.5"/>')
    chosen = f'<figcaption class="soft">The largest {MAX_BARS} of {len(known):,}: {CHOSEN}.</figcaption>'
    note = chosen if cut else ""
    return (
        f'<figure><svg viewBox="0 0 {width} {bottom + 26}" role="img" aria-label="{what}s with intervals">'
        f"{''.join(parts)}</svg>{note}</figure>"
    )


def _legend(x: int, what: str, with_prior: bool) -> str:
    text = (
        f'<line class="bar" x1="{x}" y1="14" x2="{x + 26}" y2="14"/><circle class="dot" cx="{x + 13}" cy="14" r="4.5"/>'
    )
    text += f'<text class="tick" x="{x + 36}" y="18">{what} with interval</text>'
    if with_prior:
        text += f'{_tick(x + 200, 14)}<text class="tick" x="{x + 212}" y="18">the prior alone</text>'
    return text


def _tick(x: float, y: float) -> str:
    return f'<line class="prior" x1="{x}" y1="{y - 9}" x2="{x}" y2="{y + 9}"/>'


def _short(name: str) -> str:
    return name if len(name) <= 26 else name[:25] + "…"


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
