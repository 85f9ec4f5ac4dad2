"""Drawing a figure: published on the left, corrected on the right, one row for each panel.

A figure that has nothing published shows its panels side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studies.figure import (
    BEST_LDP,
    BOUND,
    CENTRAL,
    FREE,
    HALF,
    K_ARY,
    NO_DATA,
    OPTIMAL,
    PUBLISHED_LDP,
    UNARY,
    Figure,
    Point,
    Version,
    reached,
)
from studies.paper import CONTOUR
from studies.simulate import SIMULATED
from studies.worth import LDP, SCALAR_SIZES, SIZES, curve_of
from tacit.disk import atomic

#: Colours that stay apart for colour-blind readers (Okabe and Ito), with a marker of their own for print.
_GREEN, _LIGHT, _BLUE, _SKY, _ORANGE, _PURPLE, _GREY, _RED = (
    "#1b7f5c", "#63b598", "#0b5394", "#56a3d9", "#d98c00", "#a05195", "#777777", "#c0391b",
)  # fmt: skip
_STYLES: dict[str, tuple[str, str, str]] = {
    OPTIMAL: (_GREEN, "o", "-"),
    HALF: (_LIGHT, "v", "-"),
    BEST_LDP: (_BLUE, "s", "-"),
    K_ARY: (_SKY, "D", "--"),
    PUBLISHED_LDP: (_SKY, "D", "-"),
    "Opt-LDP with MMSE": (_BLUE, "s", "-"),
    FREE: (_ORANGE, "^", "-"),
    UNARY: (_PURPLE, "P", "-"),
    CENTRAL: ("#333333", "d", "-"),
    NO_DATA: (_GREY, "", "--"),
    LDP: (_GREY, "", "--"),
    curve_of(SCALAR_SIZES[0], scalar=True): (_RED, "x", ":"),
    curve_of(SCALAR_SIZES[1], scalar=True): ("#e58a6f", "+", ":"),
}
_BY_SIZE = (
    ("#333333", "d", "-"), (_ORANGE, "^", "-"), (_PURPLE, "P", "-"), (_SKY, "D", "-"), (_BLUE, "s", "-"),
    (_GREEN, "o", "-"),
)  # fmt: skip
_STYLES |= dict(zip(map(curve_of, SIZES), _BY_SIZE, strict=True))
_REST = (
    (_PURPLE, "P", "-"), (_ORANGE, "^", "--"), (_SKY, "D", "-"), ("#333333", "d", "--"), (_BLUE, "h", "--"),
    (_PURPLE, "<", ":"), (_ORANGE, ">", ":"), (_SKY, "*", ":"), ("#8c564b", "p", "-"), (_LIGHT, "8", ":"),
)  # fmt: skip
_VERSIONS: tuple[Version, Version] = ("published", "corrected")


def draw(figure: Figure, paths: Sequence[Path]) -> None:
    """Draw the figure into each path, in the format of its ending."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    versions = [version for version in _VERSIONS if any(point.version == version for point in figure.points)]
    height = 5.4 if figure.kind == "plane" else 4.4
    parts = [(panel, version) for panel in figure.panels for version in versions]
    columns = min(2, len(parts))
    rows = -(-len(parts) // columns)
    # A fixed salt and no date: the same figure is the same file.
    with matplotlib.rc_context({"svg.hashsalt": "tacit", "font.size": 9.5, "svg.fonttype": "path"}):
        canvas, grid = pyplot.subplots(
            rows, columns, squeeze=False, layout="constrained", sharey="row" if len(versions) > 1 else False,
            figsize=(5.7 * columns, height * rows + 0.5),
        )  # fmt: skip
        try:
            _fill(canvas, list(grid.flat), figure, parts)
            for path in paths:
                kind = path.suffix.lstrip(".")
                metadata = {"Date": None} if kind == "svg" else {"Software": None}
                with atomic(path) as draft:
                    canvas.savefig(draft, format=kind, dpi=130, metadata=metadata)
        finally:
            pyplot.close(canvas)


def _fill(canvas: Any, places: Sequence[Any], figure: Figure, parts: Sequence[tuple[str, Version]]) -> None:
    canvas.suptitle(figure.title, fontsize=12, fontweight="bold")
    both = len({version for _, version in parts}) > 1
    for place, axes in enumerate(places):
        panel, version = parts[place] if place < len(parts) else ("", None)
        points = [point for point in figure.points if point.panel == panel and point.version == version]
        if not points:
            axes.set_visible(False)
            continue
        (_plane if figure.kind == "plane" else _lines)(axes, figure, points)
        # Where nothing is published, nothing needs to be called corrected.
        axes.set_title(", ".join(filter(None, [version if both or not panel else "", panel])), loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelleft=True)
        axes.set_xlabel(figure.x_label)
        axes.set_ylabel(figure.y_label if place % 2 == 0 else "")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def _lines(axes: Any, figure: Figure, points: list[Point]) -> None:
    curves: dict[str, list[Point]] = {}
    for point in points:
        curves.setdefault(point.curve, []).append(point)
    styles: dict[str, tuple[str, str, str]] = {}
    shown = [name for name in curves if not name.endswith(SIMULATED)]
    for name in shown:
        xs, ys = [point.x for point in curves[name]], [point.y for point in curves[name]]
        if "bound" in name and name.startswith(BOUND.split(" of")[0]):
            axes.fill_between(xs, 0, ys, color=_GREEN, alpha=0.12, lw=0, label="out of reach of ε-LIP (proven)")
            continue
        colour, marker, line = styles[name] = _style(
            name, [styles[other] for other in styles], [_STYLES[other] for other in curves if other in _STYLES]
        )
        dots = not any(other == name + SIMULATED for other in curves)
        label = _label(figure, name, curves[name])
        axes.plot(xs, ys, line, color=colour, marker=marker if dots else "", ms=4, lw=1.4, label=label)
    for name, simulated in curves.items():
        if name.endswith(SIMULATED):
            colour, marker, _ = styles.get(name.removesuffix(SIMULATED), (_GREEN, "o", "-"))
            error = [4 * (point.standard_error or 0.0) for point in simulated]
            axes.errorbar(
                [point.x for point in simulated], [point.y for point in simulated], yerr=error, fmt=marker or "o", ms=4,
                color=colour, mfc="white", lw=0.8, ls="none",
            )  # fmt: skip
    if any(name.endswith(SIMULATED) for name in curves):
        axes.plot([], [], "o", mfc="white", color=_GREY, ms=4, label="marks: simulated, ± 4 standard errors")
    _levels(axes, figure, curves)
    _limits(axes, figure, points[0].panel)


def _limits(axes: Any, figure: Figure, panel: str) -> None:
    """Zero at the bottom, and no curve without a prior squeezing the others."""
    points = [point for point in figure.points if point.panel == panel]
    ys = sorted(point.y for point in points if point.y > 0) or [1.0]
    plain = [point.y for point in points if point.curve == NO_DATA]
    if all(point.x == round(point.x) for point in points):
        axes.xaxis.get_major_locator().set_params(integer=True)
    if figure.log_y:
        axes.set_yscale("log")
        axes.set_ylim(max(ys[0] * 0.8, 1e-3), None)
    else:
        top = 1.35 * max(plain) if plain else 1.05 * ys[-1]
        if figure.epsilon is not None or not plain or ys[-1] < top:
            top = 1.05 * ys[-1]
        axes.set_ylim(0, top)


def _levels(axes: Any, figure: Figure, curves: dict[str, list[Point]]) -> None:
    """Write the level really reached beside points that break their promise: of the published form, or of any other."""
    published = [name for name in curves if name.startswith("published") and not name.endswith(SIMULATED)]
    others = [name for name in curves if not name.startswith("published") and not name.endswith(SIMULATED)]
    for name in [*published[:1], *others]:
        # A panel that draws the level itself needs no second telling.
        points = [point for point in curves[name] if "level" not in point.panel]
        for point in points[:: max(1, len(points) // 5)]:
            promised = point.x if figure.epsilon is None else figure.epsilon
            if point.level is not None and point.level > promised + 1e-9:
                level = "∞" if math.isinf(point.level) else f"{point.level:.1f}"
                axes.annotate(
                    level, (point.x, point.y), xytext=(0, -13), textcoords="offset points", ha="center",
                    fontsize=7.5, color=_RED,
                )  # fmt: skip


def _label(figure: Figure, name: str, points: Sequence[Point]) -> str:
    """A curve's name; a published one that does not say which level it reaches is made to."""
    told = [(figure.epsilon or point.x, point.level) for point in points if point.level is not None]
    if not name.startswith("published") or "reaches" in name or "keeps" in name or not told:
        return name
    promised, levels = zip(*told, strict=True)
    return reached(name, promised, levels).replace("inf", "∞")


def _style(name: str, *taken: Sequence[tuple[str, str, str]]) -> tuple[str, str, str]:
    """The look of a curve; one without a look of its own gets one that is still free."""
    if name in _STYLES:
        return _STYLES[name]
    if name.startswith("published"):
        return (_RED, "x", "-") if "/2" not in name else ("#e58a6f", "+", "-")
    if name.startswith("CIP, certified"):
        return ("#333333", "", ":")
    used = {style for styles in taken for style in styles}
    # A variant of a known curve looks like it, unless both are there.
    kin = next((style for known, style in _STYLES.items() if name.startswith(known)), None)
    if kin is not None and kin not in used:
        return kin
    return next((style for style in _REST if style not in used), _REST[-1])


def _plane(axes: Any, figure: Figure, points: list[Point]) -> None:
    curves: dict[str, list[Point]] = {}
    for point in points:
        curves.setdefault(point.curve, []).append(point)
    for name, members in curves.items():
        xs, ys = [point.x for point in members], [point.y for point in members]
        if name.startswith(CONTOUR):
            axes.plot(xs, ys, color="#b5b5b5", lw=0.9, zorder=1)
            at = min(range(len(xs)), key=lambda k: abs(xs[k] - ys[k]))
            axes.annotate(name.removeprefix(CONTOUR + " "), (xs[at], ys[at]), fontsize=7.5, color=_GREY, ha="center",
                          va="center", bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6})  # fmt: skip
        elif name.startswith("region"):
            axes.fill(xs, ys, color=_GREEN if "LIP" in name else _RED, alpha=0.18, lw=0, label=name)
        else:
            good = not name.startswith("published")
            axes.plot(xs, ys, "o" if good else "X", color=_GREEN if good else _RED, ms=8, label=name, zorder=3)
    axes.plot([0, 1], [1, 0], ":", color=_GREY, lw=0.9)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
