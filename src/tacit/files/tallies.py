"""Tallies in files; reports and tallies in cells by public columns; how many people a population has in each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tacit.disk import TextTable, atomic, kind_of_json, write_text
from tacit.estimates import Cell, Margin, cells_of
from tacit.files.columns import InputError, number_of
from tacit.files.counting import tally_by, tally_file, whole_of
from tacit.files.reading import check_file, no_raw_values
from tacit.plan import CROSSED, Plan
from tacit.tally import SUMS, Tally


def read_tally(plan: Plan, source: Any, **options: Any) -> Tally:
    """A saved tally of the `plan`, or the count of reports in a file or a table `source`; `options` are those of
    `tally_file`.

    >>> from tacit import Plan
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> read_tally(plan, {"report": [0, 1, 1]}).n_reports
    3
    """
    return checked_tally(plan, source, **options) if is_tally(source) else tally_file(plan, source, **options)


def is_tally(source: Any) -> bool:
    """Whether it is the path of a saved tally."""
    if not isinstance(source, str | Path):
        return False
    path = Path(source)
    if path.suffix.lower() != ".parquet" or not path.is_file():
        return path.suffix.lower() == ".json"
    with no_raw_values(str(path), "parquet"):
        return b"tacit_tally" in (pq.read_schema(path).metadata or {})


def checked_tally(plan: Plan, path: str | Path, **options: Any) -> Tally:
    """A saved tally of the plan; weights are in it or nowhere."""
    tally = load_tally(path)
    try:
        tally.check(plan)
    except ValueError as error:
        raise InputError(
            f"{path} does not belong to the plan. {error} Name its plan; of an earlier round, with --before-plan."
        ) from error
    for option in ("weight_column", "offset_column"):
        if options.get(option) is not None:
            raise InputError(
                f"{path} is a tally, which has no column '{options[option]}'. Weights and offsets have to be there "
                "when reports are counted."
            )
    return tally


def save_tally(tally: Tally, path: str | Path) -> None:
    """Write a `tally` to a `path` as JSON or, by the extension .parquet, as a table of group, report, count;
    atomically.

    >>> import tempfile
    >>> from tacit import Plan
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_tally(Tally.of(plan, [0, 1, 1]), Path(folder, "tally.json"))
    """
    if tally_format(path) == ".json":
        write_text(path, json.dumps(tally.to_dict(), ensure_ascii=False) + "\n")
        return
    with atomic(path) as draft:
        pq.write_table(_to_table(tally), draft)


def load_tally(path: str | Path) -> Tally:
    """Read from a `path` what `save_tally` wrote; raises `InputError` for what no tally can hold.

    >>> import tempfile
    >>> from tacit import Plan
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_tally(Tally.of(plan, [0, 1, 1]), Path(folder, "tally.json"))
    ...     load_tally(Path(folder, "tally.json")).n_reports
    3
    """
    kind = tally_format(path)
    check_file(path)
    try:
        if kind == ".json":
            if (what := kind_of_json(path)) not in (None, "a tally"):
                raise ValueError(f"It is {what}.")
            return Tally.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        return Tally.from_dict(_from_table(pq.read_table(path)))
    except (pa.ArrowException, OSError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        why = error if type(error) is ValueError else "It is damaged or another file."
        raise InputError(f"{path} is not a tally of groups. {why}") from error


def tally_format(path: str | Path) -> str:
    """The extension of a tally's file; raises where it is no tally's."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".json", ".parquet"):
        raise InputError(f"A tally is a .json or a .parquet file. Got '{Path(path).name}'.")
    return suffix


def _to_table(tally: Tally) -> pa.Table:
    """One row for each report with its count; of sums of coverage, one for each value with its sum."""
    groups = tally.to_dict()["groups"]
    weighted = any(SUMS[0] in group for group in groups)
    totals = {str(k): group["total"] for k, group in enumerate(groups) if "coverage" in group}
    reports = [group.get("reports", range(len(group.get("coverage", ())))) for group in groups]
    counts = [group.get("counts", group.get("coverage")) for group in groups]
    names = [group["group"] for group in groups]
    columns: dict[str, Any] = {
        "group": pa.array([name for name, mine in zip(names, reports, strict=True) for _ in mine], pa.string()),
        "report": pa.array([report for mine in reports for report in mine], pa.int64()),
        "count": pa.array([count for mine in counts for count in mine], pa.int64()),
    }
    for name in SUMS if weighted else ():
        columns[name] = pa.array([cell for group in groups for cell in group[name]], pa.string())
    about = {"tacit_tally": "1", "plan": tally.plan, "refused": str(tally.refused), "coverage": json.dumps(totals)}
    about |= {"sources": json.dumps(tally.sources.to_dict())} if tally.sources.ids else {}
    return pa.table(columns, metadata=about)


def _from_table(table: pa.Table) -> Mapping[str, Any]:
    """The dictionary that `Tally.from_dict` reads."""
    about = {key.decode(): text.decode() for key, text in (table.schema.metadata or {}).items()}
    known = {"report": "reports", "count": "counts"} | {name: name for name in SUMS}
    columns = {column: name for column, name in known.items() if column in table.column_names}
    totals = json.loads(about.get("coverage", "{}"))
    groups: list[dict[str, Any]] = []
    for k, group in enumerate(table["group"].unique().to_pylist()):
        mine = table.filter(pc.is_null(table["group"]) if group is None else pc.equal(table["group"], group))
        if str(k) in totals:
            groups.append({"group": group, "total": totals[str(k)], "coverage": mine["count"].to_pylist()})
        else:
            groups.append({"group": group} | {name: mine[column].to_pylist() for column, name in columns.items()})
    return {
        "tacit_tally": int(about["tacit_tally"]),
        "plan": about["plan"],
        "refused": int(about["refused"]),
        **({"sources": json.loads(about["sources"])} if "sources" in about else {}),
        "groups": groups,
    }


#: The column of a population file that has the numbers; the others name the categories.
SIZE = "size"


def read_cells(
    plan: Plan,
    source: Any,
    margins: Sequence[str] = (),
    *,
    group_column: str | None = None,
    group_parts: Sequence[str] = (),
    count: Callable[..., dict[tuple[str, ...], Tally]] = tally_by,
    **options: Any,
) -> tuple[Tally, list[Cell]]:
    """All reports of a `plan` counted, and in cells that tell the categories of every margin apart.

    The `source` is a tally, which has no columns but groups, or reports in a file or a table. One of the `margins` is
    the `group_column`, one of the names `group_parts` of what was crossed to make the groups (in their order), or any
    other public column of the reports. `options` are those of `tally_by`; `count` is another engine's function of that
    kind.

    >>> from tacit import Plan
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> tally, cells = read_cells(plan, {"report": [0, 1, 1], "sex": ["f", "m", "f"]}, ["sex"])
    >>> tally.n_reports, len(cells)
    (3, 2)
    """
    named = group_column or "group"
    group_parts = group_parts or _recoded_parts(plan, named)
    of_groups = {named, *group_parts} if plan.group_names else set()
    columns = tuple(dict.fromkeys(name for name in margins if name not in of_groups))
    if is_tally(source):
        if columns:
            raise InputError(_no_column(plan, source, columns[0]))
        whole = checked_tally(plan, source, **options)
        return whole, cells_of(plan, whole, group_column=named, group_parts=group_parts)
    tallies = count(plan, source, columns, group_column=group_column, **options)
    return whole_of(plan, tallies), cells_of(plan, tallies, columns, group_column=named, group_parts=group_parts)


def _recoded_parts(plan: Plan, named: str) -> tuple[str, ...]:
    """The columns that the groups of a plan are recoded from, where each part of a group's name is of one of them."""
    parts = () if plan.recoding is None else tuple(each.column for each in plan.recoding.groups)
    apart = all(len(name.split(CROSSED)) == len(parts) for name in plan.group_names)
    return parts if apart and named not in parts else ()


def _no_column(plan: Plan, source: Any, column: str) -> str:
    said = f"{source} is a tally, which has no column '{column}'. "
    if column in plan.public_questions:
        return said + "Public answers are counted from the reports: use them instead."
    if any(CROSSED in name for name in plan.group_names):
        return said + f"Its groups are crossed: say what their parts are, as in --group-parts {column},other."
    return said + "Use the reports instead."


def read_population(path: str | Path) -> Margin:
    """From a CSV file at `path` with a column `size` and one or more columns of the reports: how many people are in
    each category.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "regions.csv")
    ...     _ = path.write_text("region,size\\nnorth,100\\nsouth,300\\n")
    ...     read_population(path).total
    400.0
    """
    check_file(path)
    try:
        rows = TextTable.read(path, [SIZE]).by_column(path)
    except ValueError as error:
        raise InputError(str(error)) from None
    columns = tuple(name for name in rows[0] if name != SIZE)
    if SIZE not in rows[0] or not columns:
        raise InputError(f"{path} must have one column '{SIZE}' and at least one other. Got {', '.join(rows[0])}.")
    sizes: dict[tuple[str, ...], float] = {}
    for row in rows:
        category, size = tuple(row[name] for name in columns), number_of(row[SIZE])
        if size is None or not 0 < size < float("inf") or category in sizes:
            raise InputError(
                f"Line {row.line} of {path} must have a category that stands nowhere else, and a positive size."
            )
        sizes[category] = float(size)
    return Margin(columns, sizes)
