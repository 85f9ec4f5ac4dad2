"""Reports and tallies in cells by public columns, and files that say how many people a population has in each."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tacit.estimates import Cell, Margin, cells_of
from tacit.files.reading import InputError, check_file, group_names
from tacit.files.tallies import checked_tally, is_tally, tally_file
from tacit.opening import csv_records
from tacit.plan import Plan
from tacit.plan.crossing import CROSSED
from tacit.prior import clean_name
from tacit.tally import Tally, merge_all

#: The column of a population file that has the numbers; the others name the categories.
SIZE = "size"


def read_cells(
    plan: Plan,
    source: Any,
    margins: Sequence[str] = (),
    *,
    group_column: str | None = None,
    group_parts: Sequence[str] = (),
    count: Callable[..., Any] = tally_file,
    **options: Any,
) -> tuple[Tally, list[Cell]]:
    """All reports counted, and in cells that tell the categories of every margin apart.

    A margin is the groups' column, one of the names `group_parts` of what was crossed to make the groups, or any other
    public column of the reports. A saved tally has no other columns. `options` are those of `tally_file`;
    `count` is another engine's function of that kind.
    """
    named = group_column or "group"
    of_groups = {named, *group_parts} if group_names(plan) else set()
    columns = tuple(dict.fromkeys(name for name in margins if name not in of_groups))
    if is_tally(source):
        if columns:
            raise InputError(_no_column(plan, source, columns[0]))
        whole = checked_tally(plan, source, **options)
        return whole, cells_of(plan, whole, group_column=named, group_parts=group_parts)
    tallies = count(plan, source, by=columns, group_column=group_column, **options)
    whole = merge_all([Tally(plan.hash, {}), *tallies.values()])
    return whole, cells_of(plan, tallies, columns, group_column=named, group_parts=group_parts)


def _no_column(plan: Plan, source: Any, column: str) -> str:
    said = f"{source} is a tally, which has no column '{column}'. "
    if any(CROSSED in name for name in group_names(plan)):
        return said + f"Its groups are crossed: say what their parts are, as in --group-parts {column},other."
    return said + "Use the reports instead."


def read_population(path: str | Path) -> Margin:
    """A CSV with a column `size` and one or more columns of the reports: how many people are in each category."""
    check_file(path)
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            header, *rows = [row for row in csv_records(file, [SIZE]).reader if row] or [[]]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as CSV in UTF-8.") from error
    names = [name.strip() for name in header]
    if names.count(SIZE) != 1 or len(names) < 2 or len(set(names)) < len(names):
        raise InputError(
            f"{path} must have one column '{SIZE}' and at least one other, each once. Got {', '.join(names) or 'none'}."
        )
    at = names.index(SIZE)
    columns = tuple(name for name in names if name != SIZE)
    sizes: dict[tuple[str, ...], float] = {}
    for line, row in enumerate(rows, start=2):
        category = tuple(clean_name(cell) for place, cell in enumerate(row) if place != at)
        try:
            size = float(row[at].replace("_", "x"))
        except (ValueError, IndexError):
            size = -1.0
        if len(row) != len(names) or not 0 < size < float("inf") or category in sizes:
            raise InputError(
                f"Line {line} of {path} must have a category that stands nowhere else, and a positive size."
            )
        sizes[category] = size
    if not sizes:
        raise InputError(f"{path} has no line with a size.")
    return Margin(columns, sizes)
