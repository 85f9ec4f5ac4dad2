"""Files on a Spark session: reading what Spark reads so that cells mean what they mean on one machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tacit.files.answers import OnUnknown, PerturbSummary
from tacit.files.columns import STAMP, check_columns
from tacit.files.piles import ReportColumns
from tacit.files.reading import REPORT, STANDARD, InputError, Progress, format_of, group_column_of
from tacit.files.spark import perturb, plain_errors, tally
from tacit.files.tallies import columns_of, with_source
from tacit.plan import Plan

#: Where Spark puts rows with too few or too many cells. Not a name that a file would use.
_MALFORMED = "tacit: malformed"


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
        if str(target) == STANDARD or target_format not in (None, "parquet"):
            raise InputError("Spark writes a new folder of Parquet files. Name it as the output.")
        groups = [name for name in [group_column_of(plan, group_column)] if name is not None]
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
        counted = tally(
            plan, read(self._session, source, named, format), report_column=report_column, group_column=group_column,
            weight_column=weight_column, offset_column=offset_column, by=by,
        )  # fmt: skip
        return with_source(counted, source) if by is None else counted


@contextmanager
def connected(master: str | None) -> Iterator[SparkFiles]:
    """A session at a master's URL (sc://… for Spark Connect), or where Spark's own settings say; ended afterwards.

    A session that is there already is used, and stays.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("tacit")
    with plain_errors():
        there = SparkSession.getActiveSession()
        if there is None and master is not None and master.startswith("sc://"):
            builder = builder.remote(master)
        elif there is None:
            if master is not None:
                builder = builder.master(master)
            if (master or "").startswith("local"):
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            # What fails is said in a sentence; whole stacks are in the executors' logs.
            builder = builder.config("spark.log.level", "FATAL")
            builder = builder.config("spark.ui.showConsoleProgress", sys.stderr.isatty())
        session = there or builder.getOrCreate()
    try:
        yield SparkFiles(session)
    finally:
        if there is None:
            session.stop()


def read(session: Any, path: str | Path, columns: Mapping[str, str] | Sequence[str], format: str | None = None) -> Any:
    """A DataFrame of these columns. As on one machine, cells of CSV and JSON lines are texts; a row of CSV with too few
    or too many cells is a row of nulls here, as a broken line of JSON is.
    """
    if str(path) == STANDARD:
        raise InputError("Spark reads files that its executors can reach. Standard input is none.")
    # What Spark writes itself is a folder, often without an extension.
    kind = format_of(path, format or (None if Path(path).suffix else "parquet"))
    wanted = dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns, "")
    with plain_errors():
        if kind == "parquet":
            frame = session.read.parquet(str(path))
        elif kind == "csv":
            frame = _read_csv(session, str(path))
        elif kind == "jsonl":
            frame = session.read.schema(_texts([*wanted, STAMP])).json(str(path))
        else:
            raise InputError("Spark reads parquet, csv and jsonl. Got arrow.")
        check_columns(wanted, frame.columns, str(path), show=kind != "csv")
    return frame


def _read_csv(session: Any, path: str) -> Any:
    from pyspark.sql import functions as sql

    # Quotes are doubled, as everywhere but in Spark; files whose columns have another order are refused.
    # All columns are parsed, or a row with too many cells would pass.
    options = {"header": "true", "escape": '"', "enforceSchema": "false", "columnPruning": "false"}
    names = session.read.options(**options).csv(path).columns
    reader = session.read.options(**options, columnNameOfCorruptRecord=_MALFORMED)
    rows = reader.schema(_texts([*names, _MALFORMED])).csv(path).toDF(*map(str, range(len(names) + 1)))
    whole = sql.col(str(len(names))).isNull()
    return rows.select(*(sql.when(whole, sql.col(str(k))).alias(name) for k, name in enumerate(names)))


def _texts(names: Sequence[str]) -> Any:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(name, StringType()) for name in names])
