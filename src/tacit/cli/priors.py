"""`tacit priors` and `compare`: from microdata to a file of priors, and their worth; parsing, printing and drawing."""

from __future__ import annotations

import csv
import math
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from tacit.cli import app as cli

if TYPE_CHECKING:
    from tacit.designs.rules import Comparison
    from tacit.plan import Aim

_DATA = "Microdata: csv with any separator, parquet, xlsx, jsonl or arrow."
_COLUMN = "Column with the answers; several are counted together, for tacit plan --questions."
_GROUP = "Column with groups; several are crossed."
_WEIGHT = "Column with survey weights: people then count as their effective number."
_VALUES = "The possible answers in order, separated by commas; else all that are found."
_MAP = "Another name for an answer or a bin, as in Y=yes, or for a group, as in sex:1=female; repeatable."
_BINS = "Bins of numbers: edges, as in 0,18,65,inf, or how many; COLUMN=EDGES for a group; repeatable."
_MEANS = "Name bins of answers by their means, for a sum."
_MISSING = "A text that means no answer, beside empty cells, as in 77, or age:999 for another column; repeatable."
_MISSING_AS = "Count missing answers as an answer of this name; else they are left out."
_LEAVE_OUT = "An answer that is not counted; repeatable."
_RARE = "Put answers of fewer people together as 'other'."
_LEAST = "Groups of fewer records borrow from what their columns predict."
_YES = "Instead of --column: DATA is a table of counts, and this column has how many said yes."
_OF = "With --yes: the column with how many there are in all."
_SHOWN_VALUES, _SHOWN_GROUPS = 4, 20
_TO_PRIORS = cli.Target("priors.csv")


@cli.command(
    "priors",
    epilog="Example: tacit priors survey2025.xlsx --column smokes --group region --map Y=yes --map N=no -o priors.csv",
)
def priors_command(
    data: Annotated[Path, typer.Argument(metavar="DATA", help=_DATA)],
    column: Annotated[list[str] | None, cli.option(metavar="NAME", help=_COLUMN)] = None,
    to: cli.Target = _TO_PRIORS,
    yes: Annotated[str | None, cli.option(metavar="NAME", help=_YES)] = None,
    of: Annotated[str | None, cli.option(metavar="NAME", help=_OF)] = None,
    group: Annotated[list[str] | None, cli.option(metavar="NAME", help=_GROUP)] = None,
    weight: Annotated[str | None, cli.option(metavar="NAME", help=_WEIGHT)] = None,
    values: Annotated[str | None, cli.option(metavar="A,B,…", help=_VALUES)] = None,
    rename: Annotated[list[str] | None, cli.option("--map", metavar="FROM=TO", help=_MAP)] = None,
    bins: Annotated[list[str] | None, cli.option(metavar="EDGES", help=_BINS)] = None,
    means: Annotated[bool, cli.option("--means", help=_MEANS)] = False,
    missing: Annotated[list[str] | None, cli.option(metavar="TEXT", help=_MISSING)] = None,
    missing_as: Annotated[str | None, cli.option(metavar="NAME", help=_MISSING_AS)] = None,
    leave_out: Annotated[list[str] | None, cli.option(metavar="VALUE", help=_LEAVE_OUT)] = None,
    rare: Annotated[int, cli.option(metavar="N", help=_RARE)] = 0,
    least: Annotated[int, cli.option(metavar="N", help=_LEAST)] = 30,
    sheet: Annotated[str | None, cli.option(metavar="NAME", help="Sheet of a workbook; else the first.")] = None,
    separator: Annotated[
        str | None, cli.option(metavar="C", help="Between cells of a csv file; else it is found.")
    ] = None,
) -> None:
    """Count answers of the past, group by group, into a prior file. It is what `tacit plan` reads."""
    from tacit.microdata import counts_from, priors_from

    cli.new_file(to.output, to.overwrite, data)
    groups, answers = group or [], column or []
    if (yes is None) != (of is None) or (yes is None) == (not answers):
        raise ValueError(
            "Say where the answers are: --column NAME; or, in a table of counts, --yes NAME and --of NAME."
        )
    recoded: dict[str, Any] = {
        "group": groups, "weight": weight, "map": _maps(rename or (), [*answers, *groups] if answers[1:] else groups),
        "bins": _bins(bins or (), answers[0] if len(answers) == 1 else "", [*answers, *groups]),
        "missing": _codes(missing or (), answers, groups), "missing_as": missing_as, "leave_out": leave_out or (),
        "sheet": sheet, "separator": {"\\t": "\t", "tab": "\t"}.get(separator or "", separator),
    }  # fmt: skip
    if len(answers) > 1:
        if values is not None or means or rare or least != 30:
            raise ValueError("--values, --means, --rare and --least are for one column of answers. Leave them out.")
        _joint(to, data, answers, **recoded)
        return
    stated = None if values is None else _listed(values)
    if yes is not None and of is not None:
        if any(part for name, part in recoded.items() if name != "group") or means or rare or least != 30:
            raise ValueError("A table of counts takes --group and --values. Leave the other options out.")
        table = counts_from(data, yes, of, group=groups, values=stated or ("yes", "no"))
    else:
        table = priors_from(data, answers[0], values=stated, means=means, rare=rare, least=least, **recoded)
    facts: dict[str, Any] = {"values": table.values, "groups": _records(table, sum)}
    facts |= {} if table.shares is None else {"shares": table.shares}
    if not _write(table, to, facts):
        return
    _print_groups(to.console, table)
    _tell(table, to, f"{table.n_counted:,} of {table.n_rows:,} rows are counted.", "--task … --guide")


def _joint(to: cli.Target, data: Path, columns: list[str], **options: Any) -> None:
    """Joint counts of several questions."""
    from tacit.microdata import joint_from

    table = joint_from(data, columns, **options)
    groups = _records(table, lambda counts: sum(counts.values()))
    if _write(table, to, {"questions": columns, "groups": groups}):
        seen = max(len(counts) for counts in table.groups.values())
        said = f"{table.n_counted:,} of {table.n_rows:,} rows are counted, in {seen:,} combinations of answers."
        _tell(table, to, said, f"--questions {','.join(columns)} …")


def _records(table: Any, count: Callable[[Any], float]) -> list[dict[str, Any]]:
    return [{"group": name, "records": count(counts)} for name, counts in table.groups.items()]


def _write(table: Any, to: cli.Target, facts: dict[str, Any]) -> bool:
    """Write counts, and say so as JSON if that is asked for; whether people still have to be told."""
    if to.output == "-":
        typer.echo(table.to_csv(), nl=False)
    else:
        table.save(to.output)
    if to.as_json:
        counted = {"rows": table.n_rows, "counted": table.n_counted, "left_out": dict(table.left_out)}
        cli.print_json({"file": to.output} | counted | facts | {"notes": table.notes}, to.console)
    return not to.as_json


def _tell(table: Any, to: cli.Target, said: str, next_step: str) -> None:
    to.console.print(said)
    cli.tell_notes(table.notes, to.console)
    if to.output != "-":
        file = cli.escape(to.output)
        to.console.print(f"\nWrote [bold]{file}[/bold]. Next: tacit plan {file} {cli.escape(next_step)}")


def _print_groups(console: Any, table: Any) -> None:
    """The groups with their shares."""
    from tacit.show.plans import table as airy
    from tacit.show.sentences import group_label

    few = len(table.values) <= _SHOWN_VALUES
    shown = airy("group", "records", *(table.values if few else ["the most frequent answer", "share"]))
    for name, counts in list(table.groups.items())[:_SHOWN_GROUPS]:
        total, most = sum(counts), max(range(len(counts)), key=counts.__getitem__)
        shares = [f"{count / total:.1%}" for count in counts]
        cells = shares if few else [cli.escape(table.values[most]), shares[most]]
        shown.add_row(cli.escape(group_label(name)), f"{total:,.0f}", *cells)
    console.print(shown)
    if len(table.groups) > _SHOWN_GROUPS:
        console.print(f"… and {len(table.groups) - _SHOWN_GROUPS:,} more groups.")


def _listed(text: str) -> list[str]:
    """Names separated by commas; quotes keep a comma in a name."""
    return next(csv.reader([text], skipinitialspace=True), [])


def _maps(texts: Any, groups: list[str]) -> dict[str, Any]:
    """Names for answers, and by column for groups."""
    from tacit.microdata.records import read_map

    found: dict[str, Any] = {}
    answers = [text for text in texts if text.partition(":")[0] not in groups]
    for name in groups:
        mine = [text.partition(":")[2] for text in texts if text.partition(":")[0] == name]
        found |= {name: read_map(mine)} if mine else {}
    return read_map(answers) | found


def _codes(texts: Any, answers: list[str], groups: list[str]) -> dict[str, list[str]]:
    """Codes for missing answers by column; those that name no column are for all answers."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, colon, code = text.partition(":")
        named = bool(colon) and name in (*answers, *groups)
        for each in [name] if named else answers:
            found.setdefault(each, []).append(code if named else text)
    return found


def _bins(texts: Any, column: str, groups: list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, _, edges = text.rpartition("=")
        if name not in ("", column, *groups):
            raise ValueError(f"Bins are for a column of answers or groups. Got '{name}'.")
        found[name or column] = edges
    return found


# -- what a prior is worth --------------------------------------------------------------------------------------------

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
    from tacit.designs.rules import compare

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
