"""Files on a Spark session: reading what Spark reads so that cells mean what they mean on one machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tacit.files.answers import OnUnknown, PerturbSummary
from tacit.files.columns import STAMP, check_columns
from tacit.files.piles import ReportColumns
from tacit.files.reading import REPORT, STANDARD, InputError, Progress, format_of, group_column_of
from tacit.files.spark import NOT_UTF8, UNREADABLE, perturb, plain_errors, sql_column, tally
from tacit.files.spark_folders import check_begun, check_done, sources_of_parts
from tacit.files.tallies import columns_of, with_source
from tacit.opening import separator_of
from tacit.plan import Plan

#: Where Spark puts rows with too few or too many cells. Not a name that a file would use.
_MALFORMED = "tacit: malformed"
_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
#: Of files, which a folder of Parquet files is not.
OTHER_SUFFIXES = frozenset([".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".arrow", ".feather", ".ipc"])


class SparkFiles:
    """`perturb_file` and `tally_file` as in `tacit.files`, on a Spark session, for paths that Spark reads and writes.

    Spark shows its own progress; `progress` is taken so that engines can stand in for each other.
    """

    def __init__(self, session: Any) -> None:
        self._session = session

    def perturb_file(
        self,
        plan: Plan,
        source: str | Path,
        target: str | Path,
        *,
        column: str = "value",
        group_column: str | None = None,
        keep: Sequence[str] = (),
        on_unknown: OnUnknown = "stop",
        progress: Progress | None = None,
        source_format: str | None = None,
        target_format: str | None = None,
    ) -> PerturbSummary:
        """Write the reports, as Parquet, to a folder that must not exist yet."""
        check_target(target, target_format)
        groups = [name for name in [group_column_of(plan, group_column)] if name is not None]
        with _cells_as_named(self._session):
            answers = read(self._session, source, [column, *groups, *keep], source_format)
            return perturb(
                plan, answers, target, column=column, group_column=group_column, keep=keep, on_unknown=on_unknown
            )

    def tally_file(
        self,
        plan: Plan,
        source: str | Path,
        *,
        report_column: str = REPORT,
        group_column: str | None = None,
        weight_column: str | None = None,
        offset_column: str | None = None,
        by: str | tuple[str, ...] | None = None,
        progress: Progress | None = None,
        format: str | None = None,
    ) -> Any:
        """Count the reports; with `by`, one tally for each cell of that column."""
        groups = group_column_of(plan, group_column)
        named = ReportColumns(report_column, groups, columns_of(by), weight_column, offset_column).named
        with _cells_as_named(self._session):
            reports = read(self._session, source, named, format)
            counted = tally(
                plan, reports, report_column=report_column, group_column=group_column,
                weight_column=weight_column, offset_column=offset_column, by=by,
            )  # fmt: skip
            if by is not None:
                return counted
            if Path(source).is_file():
                return with_source(counted, source)
            return replace(counted, sources=sources_of_parts(reports.inputFiles()))


def check_target(target: str | Path, format: str | None = None) -> None:
    """Raise unless it may be the name of a new folder of Parquet files."""
    suffix = Path(target).suffix.lower()
    if str(target) == STANDARD or format not in (None, "parquet"):
        raise InputError("Spark writes a new folder of Parquet files. Name it as the output.")
    if suffix in OTHER_SUFFIXES:
        raise InputError(f"Spark writes a new folder of Parquet files. Name it without '{suffix}'.")


@contextmanager
def _cells_as_named(session: Any) -> Iterator[None]:
    """Cells in the names of folders (group=01) as texts. Spark would take them for numbers, and '01' and '1' for one.

    For the whole job: behind Spark Connect a frame is looked at again when it is used.
    """
    with plain_errors():
        before = session.conf.get(_INFERENCE)
        session.conf.set(_INFERENCE, "false")
    try:
        yield
    finally:
        with suppress(Exception):
            session.conf.set(_INFERENCE, before)


def read(session: Any, path: str | Path, columns: Mapping[str, str] | Sequence[str], format: str | None = None) -> Any:
    """A DataFrame of these columns. As on one machine, cells of CSV and JSON lines are texts; a row of CSV with too few
    or too many cells is a row of nulls here, as a broken line of JSON is.
    """
    if str(path) == STANDARD:
        raise InputError("Spark reads files that its executors can reach. Standard input is none.")
    # What Spark writes itself is a folder, often without an extension.
    kind = format_of(path, format or (None if Path(path).suffix else "parquet"))
    wanted = dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns, "")
    if kind == "arrow":
        raise InputError("Spark reads parquet, csv and jsonl. Got arrow.")
    with plain_errors():
        check_begun(session, str(path))
        if kind == "parquet":
            frame = session.read.parquet(str(path))
        elif kind == "csv":
            frame = _read_csv(session, str(path), wanted)
        else:
            rows = session.read.schema(_texts([*wanted, STAMP])).json(str(path))
            frame = rows.select(*(_readable(sql_column(name)).alias(name) for name in rows.columns))
        check_done(session, str(path), frame)
        check_columns(wanted, frame.columns, str(path), show=kind != "csv")
    return frame


def _read_csv(session: Any, path: str, wanted: Mapping[str, str]) -> Any:
    from pyspark.sql import functions as sql

    # Quotes are doubled, as everywhere but in Spark; files whose columns have another order are refused.
    # All columns are parsed, or a row with too many cells would pass.
    options = {"header": "true", "escape": '"', "enforceSchema": "false", "columnPruning": "false"}
    names = session.read.options(**options).csv(path).columns
    if not set(wanted) <= set(names):
        first = session.read.text(path).first()
        options["sep"] = separator_of("" if first is None else first[0].removeprefix("\ufeff"), wanted)
        names = session.read.options(**options).csv(path).columns
    reader = session.read.options(**options, columnNameOfCorruptRecord=_MALFORMED)
    read = reader.schema(_texts([*names, _MALFORMED])).csv(path)
    # Columns that are names of folders come last now. Names may repeat, so places stand for them.
    places = {place: name for place, name in enumerate(read.columns) if name != _MALFORMED}
    rows = read.toDF(*map(str, range(len(read.columns))))
    whole = sql.col(str(read.columns.index(_MALFORMED))).isNull()
    return rows.select(*(sql.when(whole, _readable(sql.col(str(place)))).alias(name) for place, name in places.items()))


def _readable(cell: Any) -> Any:
    """The cell; where it has the character that Spark puts in place of bytes that are not UTF-8, the job fails."""
    from pyspark.sql import functions as sql

    return sql.when(cell.contains(UNREADABLE), sql.raise_error(NOT_UTF8).cast("string")).otherwise(cell)


def _texts(names: Sequence[str]) -> Any:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(name, StringType()) for name in names])
