"""The page of all figures: one file that loads nothing, published beside corrected, with what changed."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path

from studies.figure import BAND, Figure, Options, Point
from studies.reproduce import Outcome, Reproduction
from studies.simulate import SIMULATED
from tacit.disk import write_text

_STYLE = """
:root { color-scheme: light dark; --text: #1f2328; --line: #d8dce1; --soft: #626a73; --good: #1b7f5c; --warn: #a63c28;
  --paper: #fff; --wash: #f5f7f6; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e8ea; --line: #3b4147; --soft: #9aa3ac; --good: #4cbf94;
  --warn: #f08a73; --paper: #16191c; --wash: #1f2427; } }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 68rem; margin: 2.5rem auto 4rem; padding: 0 1.2rem;
  color: var(--text); background: var(--paper); }
h1 { font-size: 1.7rem; line-height: 1.25; } h2 { font-size: 1.2rem; margin: 3rem 0 .6rem; }
.soft { color: var(--soft); font-size: .93rem; } .good { color: var(--good); } .warn { color: var(--warn); }
.remark { background: var(--wash); border-left: 4px solid var(--good); border-radius: 4px; padding: .6rem 1rem; }
img { width: 100%; height: auto; background: #fff; border-radius: 6px; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); text-align: right; }
th { color: var(--soft); font-weight: 600; } th.name, td.name { text-align: left; } a { color: inherit; }
"""


def write_page(path: Path, result: Reproduction, options: Options) -> None:
    """Write the page, atomically."""
    write_text(path, page(path.parent, result, options))


def page(folder: Path, result: Reproduction, options: Options) -> str:
    """The page as text; pictures are taken from `folder`."""
    drawn = [outcome for outcome in result.outcomes if outcome.figure]
    links = " · ".join(f'<a href="#{escape(each.name)}">{escape(each.name)}</a>' for each in drawn)
    computed = sum(outcome.computed for outcome in result.outcomes)
    sections = [
        "<h1>The paper’s evaluation, published and corrected</h1>",
        f'<p class="soft">{len(drawn)} figures, {computed} of them computed now, in {result.seconds:.0f} s; '
        f"{options.runs:,} Monte-Carlo runs, seed {options.seed}.</p>",
        "<p>Left: the paper’s closed forms, named by the privacy level that they really reach (red numbers beside the "
        "curve where it is more than promised). Right: what is true. Errors are √(MSE/N).</p>",
        _verdict(drawn),
        f"<p>Figures: {links}</p>",
        *(_section(folder, outcome) for outcome in result.outcomes),
    ]
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Published and corrected</title>'
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    return f"{head}{view}<style>{_STYLE}</style><body>{''.join(sections)}</body></html>\n"


def agreement(figure: Figure) -> str:
    """Whether Monte Carlo and theory agree, in a sentence; empty where nothing is simulated."""
    points = figure.simulated
    if not points:
        return ""
    worst = max(point.deviation or 0.0 for point in points)
    if figure.disagreements:
        return (
            f"Monte Carlo contradicts theory at {len(figure.disagreements)} of {len(points)} points: the farthest lies "
            f"{worst:.1f} standard errors away."
        )
    return (
        f"Monte Carlo agrees with theory: all {len(points)} simulated points lie within {BAND:g} standard errors of "
        f"the analytic value (the farthest: {worst:.1f})."
    )


def _verdict(drawn: list[Outcome]) -> str:
    wrong = [outcome.name for outcome in drawn if outcome.figure and outcome.figure.disagreements]
    total = sum(len(outcome.figure.simulated) for outcome in drawn if outcome.figure)
    if wrong:
        return f'<p class="warn">Monte Carlo contradicts theory in {escape(", ".join(wrong))}.</p>'
    return f'<p class="good">Monte Carlo agrees with theory at all {total:,} simulated points.</p>' if total else ""


def _section(folder: Path, outcome: Outcome) -> str:
    if outcome.figure is None:
        return f'<h2>{escape(outcome.name)}</h2><p class="warn">Left out: {escape(outcome.missing or "no data")}</p>'
    figure = outcome.figure
    picture = base64.b64encode((folder / f"{outcome.name}.svg").read_bytes()).decode("ascii")
    took = f"computed in {outcome.seconds:.1f} s" if outcome.computed else "kept from an earlier run"
    said = agreement(figure)
    kind = "warn" if figure.disagreements else "good"
    return (
        f'<h2 id="{escape(outcome.name)}">{escape(figure.title)}</h2>'
        f'<p class="remark">{escape(figure.remark)}</p>'
        f'<img alt="{escape(figure.title)}: published and corrected" src="data:image/svg+xml;base64,{picture}">'
        + (f'<p class="{kind}">{escape(said)}</p>' if said else "")
        + _table(figure)
        + "".join(f'<p class="soft">{escape(note)}</p>' for note in figure.notes)
        + f'<p class="soft">{len(figure.points):,} points in {escape(outcome.name)}.csv, {took}.</p>'
    )


def _table(figure: Figure) -> str:
    """The curves at one place of the x-axis: the figure's own, the budget nearest to 1, or the end of another axis."""
    if figure.kind == "plane":
        return ""
    points = [point for point in figure.points if not point.curve.endswith(SIMULATED)]
    wanted = 1.0 if figure.told_at is None else figure.told_at
    at = (
        max(p.x for p in points)
        if figure.epsilon is not None
        else min((p.x for p in points), key=lambda x: abs(x - wanted))
    )
    rows = [_row(point) for point in points if point.x == at]
    measured = "error" if figure.told_at is None else escape(figure.y_label)
    header = (
        f'<tr><th class="name">curve</th><th class="name">version</th><th>{measured}</th><th>ε really reached</th></tr>'
    )
    return (
        f'<p class="soft">At {escape(figure.x_label)} = {at:g}:</p><div class="scroll"><table>{header}{"".join(rows)}'
        "</table></div>"
    )


def _row(point: Point) -> str:
    level = "–" if point.level is None else f"{point.level:.3f}"
    name = f"{point.panel}: {point.curve}" if point.panel else point.curve
    return (
        f'<tr><td class="name">{escape(name)}</td><td class="name">{point.version}</td><td>{point.y:.4g}</td>'
        f"<td>{level}</td></tr>"
    )
