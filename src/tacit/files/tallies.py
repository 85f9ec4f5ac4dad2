"""Reports in, a tally out; tallies to and from files.

A report that the plan cannot have sent is refused: it is counted and never named. Parquet is grouped by DuckDB, so that
a tally costs what the query costs; everything else streams through Arrow in bounded memory.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tacit.files.columns import STAMP, check_stamp
from tacit.files.folders import parts_of
from tacit.files.piles import ROW_COUNT, Piles, ReportColumns
from tacit.files.reading import (
    BATCH_ROWS,
    REPORT,
    STANDARD,
    InputError,
    Progress,
    Source,
    careful,
    check_file,
    format_of,
    group_column_of,
    literal_path,
    no_raw_values,
    quoted,
    reading,
)
from tacit.files.spark_folders import sources_of_parts
from tacit.plan import Plan
from tacit.plan.saving import atomic, write_text
from tacit.tally import SUMS, Sources, Tally, merge_all

#: Where chance would need so many bits to send the same reports again, two equal files are one.
_SAME_BITS = 64

#: One tally, one for each cell of a column, or one for each combination of cells of some.
Tallies = Tally | dict[str, Tally] | dict[tuple[str, ...], Tally]


@overload
def tally_file(
    plan: Plan,
    source: Any,
    *,
    report_column: str = ...,
    group_column: str | None = ...,
    weight_column: str | None = ...,
    offset_column: str | None = ...,
    by: None = ...,
    progress: Progress | None = ...,
    format: str | None = ...,
) -> Tally: ...


@overload
def tally_file(
    plan: Plan,
    source: Any,
    *,
    report_column: str = ...,
    group_column: str | None = ...,
    weight_column: str | None = ...,
    offset_column: str | None = ...,
    by: str,
    progress: Progress | None = ...,
    format: str | None = ...,
) -> dict[str, Tally]: ...


@overload
def tally_file(
    plan: Plan,
    source: Any,
    *,
    report_column: str = ...,
    group_column: str | None = ...,
    weight_column: str | None = ...,
    offset_column: str | None = ...,
    by: tuple[str, ...],
    progress: Progress | None = ...,
    format: str | None = ...,
) -> dict[tuple[str, ...], Tally]: ...


def tally_file(
    plan: Plan,
    source: Any,
    *,
    report_column: str = REPORT,
    group_column: str | None = None,
    weight_column: str | None = None,
    offset_column: str | None = None,
    by: str | tuple[str, ...] | None = None,
    progress: Progress | None = None,
    format: str | None = None,
) -> Tallies:
    """Count the reports of a file or a table; with `by`, one tally for each cell of that column, "" for null, or for
    each combination of cells of some columns.

    Refused are reports out of the mechanism's range, reports of groups that the plan does not have, and, where the
    columns are named, reports without a weight or an offset of at most 2^53.
    """
    columns = ReportColumns(
        report_column, group_column_of(plan, group_column), columns_of(by), weight_column, offset_column
    )
    piles, done = Piles(plan, columns), 0
    with _opened(source, columns, format, piles.countable) as rows:
        check_stamp(rows.schema, plan.hash, rows.name)
        for table in rows.tables():
            check_stamp(table, plan.hash, rows.name)
            done += piles.add(table)
            if progress is not None:
                progress(done, rows.total)
        if rows.malformed:
            piles.refused[("",) * len(columns.by)] += len(rows.malformed)
    counted = in_cells(by, piles.tallies(), plan)
    return with_source(counted, source) if isinstance(counted, Tally) else counted


def sources_of(source: Any, collision_bits: float) -> Sources:
    """What was counted: a file by its content, unless it is so small that another may be equal by chance."""
    if not isinstance(source, str | Path):
        return Sources()
    if Path(source).is_dir():
        return sources_of_parts(map(str, parts_of(source)))
    if str(source) == STANDARD or collision_bits < _SAME_BITS or not Path(source).is_file():
        return Sources.drawn()
    return Sources.of_file(source)


def with_source(tally: Tally, source: Any) -> Tally:
    """The tally, with what it counted."""
    return replace(tally, sources=sources_of(source, tally.collision_bits))


def columns_of(by: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """The columns that `by` names."""
    return (by,) if isinstance(by, str) else by or ()


def in_cells(by: str | tuple[str, ...] | None, parts: Mapping[tuple[str, ...], Tally], plan: Plan) -> Tallies:
    """What `tally_file` returns for its `by`: one tally, one for each cell, or one for each combination of cells."""
    if by is None:
        return parts.get((), Tally(plan.hash, {}))
    return {key[0]: parts[key] for key in sorted(parts)} if isinstance(by, str) else dict(sorted(parts.items()))


#: The same for tables in memory: data frames, Arrow tables and readers, mappings of columns, arrays of reports.
tally_table = tally_file


def read_tallies(
    plan: Plan, source: Any, *, by: str | None = None, count: Callable[..., Any] = tally_file, **options: Any
) -> tuple[Tally, dict[str, Tally]]:
    """The tally of a file of reports, or a saved tally of the plan, and its parts by the `by` column.

    `options` are those of `tally_file`; `count` is another engine's function of that kind.
    """
    if is_tally(source):
        tally = checked_tally(plan, source, **options)
        if by is not None:
            raise InputError(
                f"{source} is a tally, which has no column '{by}'. Break the reports down instead, or, "
                "where it is a part of crossed groups, say what their parts are, as in --group-parts region,age."
            )
        return tally, {}
    if by is None:
        return count(plan, source, **options), {}
    parts = count(plan, source, by=by, **options)
    whole = merge_all([Tally(plan.hash, {}), *parts.values()])
    return with_source(whole, source), parts


def is_tally(source: Any) -> bool:
    """Whether it is the path of a saved tally."""
    return isinstance(source, str | Path) and _holds_tally(Path(source))


def checked_tally(plan: Plan, path: str | Path, **options: Any) -> Tally:
    """A saved tally of the plan; weights are in it or nowhere."""
    tally = load_tally(path)
    try:
        tally.check(plan)
    except ValueError as error:
        raise InputError(f"{path} does not belong to the plan. {error}") from error
    for option in ("weight_column", "offset_column"):
        if options.get(option) is not None:
            raise InputError(
                f"{path} is a tally, which has no column '{options[option]}'. Weights and offsets have to be there "
                "when reports are counted."
            )
    return tally


@contextmanager
def _opened(source: Any, columns: ReportColumns, format: str | None, countable: bool) -> Iterator[Source]:
    """The rows, or, from DuckDB, the different rows with a column that counts them."""
    with reading(source, columns.named, format, optional=(STAMP,)) as opened:
        if columns.weighted or not countable or not isinstance(source, str | Path) or not _duckdb_reads(source, format):
            yield opened
            return
        with _distinct_rows(str(source), opened.schema.names) as batches:
            yield replace(opened, batches=batches)


def _duckdb_reads(path: str | Path, format: str | None) -> bool:
    """Whether it is a Parquet file, DuckDB is there, and names differ in more than case, which DuckDB cannot tell."""
    if Path(path).is_dir() or format_of(path, format) != "parquet" or importlib.util.find_spec("duckdb") is None:
        return False
    names = pq.read_schema(path).names
    return len({name.lower() for name in names}) == len(names)


@contextmanager
def _distinct_rows(path: str, names: list[str]) -> Iterator[Iterator[pa.RecordBatch]]:
    import duckdb

    keys = ", ".join(quoted(name) for name in names)
    # In the order of the reports, see `Piles`.
    query = f"""SELECT {keys}, count(*) AS {quoted(ROW_COUNT)}
        FROM read_parquet(?, hive_partitioning = false) GROUP BY {keys} ORDER BY {quoted(names[0])}"""
    with ExitStack() as stack:
        # Where groups outgrow the memory, DuckDB continues in this folder.
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tacit-"))
        settings: dict[str, Any] = {"memory_limit": "512MB", "temp_directory": folder}
        connection = stack.enter_context(duckdb.connect(config=settings))
        with no_raw_values(path, "parquet", (duckdb.Error,)):
            reader = connection.sql(query, params=[literal_path(path)]).to_arrow_reader(BATCH_ROWS)
        yield careful(reader, path, "parquet", duckdb.Error)


# -- tallies in files ---------------------------------------------------------------------------------------------


def save_tally(tally: Tally, path: str | Path) -> None:
    """Write a tally as JSON or, by the extension .parquet, as a table of group, report, count; atomically."""
    if tally_format(path) == ".json":
        write_text(path, json.dumps(tally.to_dict(), ensure_ascii=False) + "\n")
        return
    with atomic(path) as draft:
        pq.write_table(_to_table(tally), draft)


def load_tally(path: str | Path) -> Tally:
    """Read what `save_tally` wrote, and refuse what no tally can hold."""
    kind = tally_format(path)
    check_file(path)
    try:
        if kind == ".json":
            return Tally.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        return Tally.from_dict(_from_table(pq.read_table(path)))
    except (pa.ArrowException, OSError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        known = type(error) is ValueError
        raise InputError(f"{path} is not a tally. {error if known else 'It is damaged or another file.'}") from error


def _holds_tally(path: Path) -> bool:
    if path.suffix.lower() != ".parquet" or not path.is_file():
        return path.suffix.lower() == ".json"
    with no_raw_values(str(path), "parquet"):
        return b"tacit_tally" in (pq.read_schema(path).metadata or {})


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
