"""The Spark engine: answers, reports and tallies on a cluster, in Arrow batches, by the code that works on one machine.

Spark does a task again where its machine is lost, and two *different* reports of one answer would say more than one.
So the words of a block of rows are derived from a key of the run, from the block's place and from all that it holds
(`DerivedWords`): a task that is done again on the same rows draws the same reports. And reports are written once, to a
new folder in which Spark's commit protocol shows one attempt of each task; there is no lazy frame of reports, which
every use of it would draw again. docs/threat-model.md says against whom this helps.

Rows are written in random order: each gets a key of 64 bits from the same words, Spark puts it where the key says, and
sorts by keys. So the folder does not show how the answers were sorted.

A tally holds counts only, and nothing but partial tallies leaves the executors.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tacit.files.answers import (
    LEFT_OUT,
    REASONS,
    AnswerColumns,
    BadRows,
    BadRowsError,
    OnUnknown,
    Perturber,
)
from tacit.files.columns import STAMP, InputError, check_stamp, plain_type, with_stamp_column
from tacit.files.giveaway import LOOKED_AT, answers_given_away, refuse_giveaway
from tacit.files.perturbing import PerturbSummary
from tacit.files.reading import REPORT, Source
from tacit.files.tallies import ROW_COUNT, Piles, ReportColumns
from tacit.plan import Plan
from tacit.randomize.randomness import DerivedWords, secret_bytes
from tacit.tally import Tally

#: Rows that share a derived key. Few enough for one thread: a task has one core.
BLOCK_ROWS = 2**15
#: Columns on the way, by names that no file would use.
_REASON, _ROWS, _KEY = "tacit: reason", "tacit: rows", "tacit: key"
_PART, _TALLY = "part", "tally"
#: Tasks that merge the partial tallies of all others, so that the driver need not.
_MERGERS = 32
#: Rows of a task that the driver sees to judge kept columns.
_SHOWN = 1_000

#: Seconds that an interrupted job may take to clear up.
_CLEARING_SECONDS = 5.0
#: Said where text was read that is not in UTF-8: Spark puts this character in place of what it cannot read.
NOT_UTF8, UNREADABLE = "A cell of the file is not in UTF-8, or has the character U+FFFD.", "\ufffd"

Batches = Iterator[pa.RecordBatch]


# -- perturb ------------------------------------------------------------------------------------------------------


def perturb(
    plan: Plan, answers: Any, target: str | Path, columns: AnswerColumns, force: bool, on_unknown: OnUnknown
) -> PerturbSummary:
    """Write the reports of a data frame of `answers`; see `SparkFiles.perturb_file`."""
    with plain_errors():
        read = answers.select(*map(sql_column, dict.fromkeys(columns.read)))
        if columns.sent and not force:
            _check_kept(plan, columns, read)
        task = _Perturb(plan, columns, on_unknown, secret_bytes(32))
        return _write_once(read.mapInArrow(task, _report_schema(plan, columns, read)), target)


def _check_kept(plan: Plan, columns: AnswerColumns, read: Any) -> None:
    """Raise if kept columns give answers away, by rows at equal distances from every task."""
    matched = Perturber(plan, columns).match(read.mapInArrow(_thinned, read.schema).toArrow())
    step = 1 + len(matched.held) // LOOKED_AT
    rows = matched.rows.take(pa.array(np.arange(0, len(matched.held), step)))
    refuse_giveaway(answers_given_away(rows, matched.held[::step], columns.sent, matched.groups[::step]), False)


def _thinned(batches: Batches) -> Batches:
    """Up to `_SHOWN` rows of a task, at equal distances."""
    stride, passed, kept = 1, 0, pa.table({})
    for batch in batches:
        picked = pa.array(np.arange(-passed % stride, batch.num_rows, stride))
        passed += batch.num_rows
        taken = pa.Table.from_batches([batch]).take(picked)
        kept = pa.concat_tables([kept, taken]) if kept.num_columns else taken
        while len(kept) > _SHOWN:
            stride, kept = 2 * stride, kept.take(pa.array(np.arange(0, len(kept), 2)))
    yield from kept.to_batches()


@dataclass(frozen=True)
class _Perturb:
    """What a task does: answers in, reports out, and at the end how many rows were bad, by reason."""

    plan: Plan
    columns: AnswerColumns
    on_unknown: OnUnknown
    #: Travels with the task as its code does; it is never shown.
    key: bytes = field(repr=False)

    def __call__(self, batches: Batches) -> Batches:
        perturber, bad = _perturber(self.plan, self.columns), BadRows()
        schema = pa.schema([])
        for block, table in enumerate(_blocks(batches)):
            schema = _plain(perturber.schema(table.schema))
            matched = perturber.match(table)
            bad.note(matched)
            if len(matched.rows) and (self.on_unknown == "skip" or not bad.stop):
                words = self._words(block, table)
                drawn = perturber.reports(matched, words)
                drawn = with_stamp_column(drawn, drawn.schema).cast(schema)
                keys = words.draw(len(drawn), 64).view(np.int64)
                yield from _beside(drawn, [None] * len(drawn), [None] * len(drawn), keys).to_batches()
        if self.on_unknown == "stop" and bad.stop:
            raise bad.error("A part of the answers", perturber)
        nothing = pa.table([pa.nulls(len(bad.counts), kind) for kind in schema.types], schema=schema)
        yield from _beside(nothing, [*bad.counts], [*bad.counts.values()], [None] * len(bad.counts)).to_batches()

    def _words(self, block: int, table: pa.Table) -> DerivedWords:
        """Derived from the place of these rows, and from all of them."""
        from pyspark import TaskContext

        task = TaskContext.get()
        place = f"{self.plan.hash} {0 if task is None else task.partitionId()} {block}"
        return DerivedWords(self.key, place.encode(), _bytes_of(table))


def _bytes_of(table: pa.Table) -> Any:
    """All rows as bytes, which do not depend on the batches they came in."""
    half = len(table) // 2
    # Joining two parts copies these rows and no bytes around them.
    copied = pa.concat_tables([table.slice(0, half), table.slice(half)]).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.remove_metadata()) as stream:
        stream.write_table(copied.replace_schema_metadata())
    return sink.getvalue()


#: What this process made: Spark's Python processes do one task after another of the same plan.
_made: dict[tuple[str, AnswerColumns], Perturber] = {}


def _perturber(plan: Plan, columns: AnswerColumns) -> Perturber:
    asked = plan.hash, columns
    if asked not in _made:
        _made.clear()
        _made[asked] = Perturber(plan, columns)
    return _made[asked]


def _plain(schema: pa.Schema) -> pa.Schema:
    """As Spark takes it: without dictionaries, and with the plan in a column instead of metadata, which it drops."""
    return pa.schema([*zip(schema.names, map(plain_type, schema.types), strict=True), (STAMP, pa.string())])


def _beside(reports: pa.Table, reasons: list[Any], rows: list[Any], keys: Any) -> pa.Table:
    """Reports, or none, with the two columns that say how many rows were bad, and the keys that say where rows go."""
    beside = {
        _REASON: pa.array(reasons, pa.string()),
        _ROWS: pa.array(rows, pa.int64()),
        _KEY: pa.array(keys, pa.int64()),
    }
    for name, cells in beside.items():
        reports = reports.append_column(name, cells)
    return reports


def _write_once(drawn: Any, target: str | Path) -> PerturbSummary:
    """Write the reports in one job, which counts them on the way."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sql

    seen, reason, key = Observation("tacit"), sql.col(f"`{_REASON}`"), sql.col(f"`{_KEY}`")
    counts = [sql.sum(sql.when(reason == each, sql.col(f"`{_ROWS}`"))).alias(each) for each in (*REASONS, *LEFT_OUT)]
    reports = (
        drawn.repartition(key)
        .sortWithinPartitions(key)
        .observe(seen, sql.count(sql_column(REPORT)).alias(REPORT), *counts)
    )
    writer = reports.where(reason.isNull()).drop(_REASON, _ROWS, _KEY).write.mode("error")
    # Version 2 would show the files of a task before the others are done; the mark says that all are.
    writer = writer.option("mapreduce.fileoutputcommitter.algorithm.version", "1")
    writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "true")
    with nothing_left(drawn.sparkSession, str(target)):
        writer.parquet(str(target))
    skipped = {each: int(seen.get[each]) for each in (*REASONS, *LEFT_OUT) if seen.get[each]}
    n_reports = int(seen.get[REPORT])
    return PerturbSummary(n_reports + sum(skipped.values()), n_reports, skipped)


@contextmanager
def nothing_left(session: Any, target: str) -> Iterator[None]:
    """Remove the empty folder that a job leaves when it fails or is interrupted; never one that was there before.

    Behind Spark Connect only where this machine has the folder, too.
    """
    folder = _Folder(session, target)
    was_there = folder.exists()
    try:
        yield
    except Exception:
        if not was_there:
            folder.remove_empty()
        raise
    except BaseException:  # Interrupted: the job, which has not heard of it yet, makes the folder or clears it.
        in_another_thread(lambda: _clear_up(session, None if was_there else folder))
        raise


def _clear_up(session: Any, folder: _Folder | None) -> None:
    """Cancel the jobs of the session, as PySpark does, and remove the folder when it is empty."""
    with suppress(Exception):
        if getattr(session, "_jsparkSession", None) is not None:
            session.sparkContext.cancelAllJobs()
        else:
            session.interruptAll()
    deadline = time.monotonic() + _CLEARING_SECONDS
    while folder is not None and not folder.remove_empty() and time.monotonic() < deadline:
        time.sleep(0.2)


def in_another_thread(work: Callable[[], None]) -> None:
    """Run it in another thread, and wait. After an interrupt this thread's connection has an unread answer."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(3 * _CLEARING_SECONDS)


class _Folder:
    """A folder through Hadoop, or behind Spark Connect on this machine."""

    def __init__(self, session: Any, path: str) -> None:
        self._hadoop: Any = None
        self._path: Any = Path(path.removeprefix("file://"))
        if getattr(session, "_jsparkSession", None) is not None:
            self._path = session._jvm.org.apache.hadoop.fs.Path(path)
            with suppress(Exception):
                self._hadoop = self._path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())

    def exists(self) -> bool:
        try:
            return bool(self._path.exists() if self._hadoop is None else self._hadoop.exists(self._path))
        except Exception:
            return True

    def remove_empty(self) -> bool:
        """Whether it was there, was empty, and is gone."""
        if not self.exists():
            return False
        try:
            if self._hadoop is not None:
                return bool(self._hadoop.delete(self._path, False))
            self._path.rmdir()
        except Exception:
            return False
        return True


def _report_schema(plan: Plan, columns: AnswerColumns, answers: Any) -> Any:
    """Of what a task returns, in Spark's words."""
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    reports = _plain(Perturber(plan, columns).schema(to_arrow_schema(answers.schema)))
    counts = [(_REASON, pa.string()), (_ROWS, pa.int64()), (_KEY, pa.int64())]
    return from_arrow_schema(pa.schema([*reports, *(pa.field(*each) for each in counts)]))


# -- tally --------------------------------------------------------------------------------------------------------


def tally_by(plan: Plan, reports: Any, named: ReportColumns) -> dict[tuple[str, ...], Tally]:
    """A tally of a data frame of `reports` for each combination of cells of the public columns. Where reports repeat,
    Spark counts the different ones before Python sees any.
    """
    from pyspark.sql import functions as sql

    with plain_errors():
        names = [sql_column(name) for name in [*named.named, *({STAMP} & set(reports.columns))]]
        rows, count, schema = reports.select(*names), _Count(plan, named), f"{_PART} string, {_TALLY} string"
        if Piles(plan, named).countable:
            partial = rows.groupBy(*names).agg(sql.count(sql.lit(1)).alias(ROW_COUNT)).mapInArrow(count, schema)
        else:
            merger = sql.spark_partition_id() % _MERGERS
            partial = rows.mapInArrow(count, schema).repartition(merger).mapInArrow(_merge, schema)
        merged = _merged((row[_PART], row[_TALLY]) for row in partial.collect())
    return dict(sorted(merged.items()))


@dataclass(frozen=True)
class _Count:
    """What a task does: reports in, a tally for each cell of the `by` column out."""

    plan: Plan
    columns: ReportColumns

    def __call__(self, batches: Batches) -> Batches:
        piles = Piles(self.plan, self.columns)
        for table in _blocks(batches):
            check_stamp(table, self.plan.hashes, "The data frame")
            piles.add(table)
        yield from _as_rows(piles.tallies())


def _merge(batches: Batches) -> Batches:
    """Tallies in, one for each cell of the `by` column out."""
    rows = (row for batch in batches for row in batch.to_pylist())
    yield from _as_rows(_merged((row[_PART], row[_TALLY]) for row in rows))


def _merged(rows: Iterable[tuple[str, str]]) -> dict[tuple[str, ...], Tally]:
    parts: dict[tuple[str, ...], Tally] = {}
    for cells, text in rows:
        part, tally = tuple(json.loads(cells)), Tally.from_dict(json.loads(text))
        parts[part] = parts[part].merge(tally) if part in parts else tally
    return parts


def _as_rows(tallies: dict[tuple[str, ...], Tally]) -> Batches:
    cells = pa.array([json.dumps(part) for part in tallies], pa.string())
    texts = pa.array([json.dumps(tally.to_dict()) for tally in tallies.values()], pa.string())
    yield pa.RecordBatch.from_arrays([cells, texts], names=[_PART, _TALLY])


# -- what both share ----------------------------------------------------------------------------------------------


def _blocks(batches: Batches) -> Iterator[pa.Table]:
    """The rows of a task in tables of one size, however Spark cuts them."""
    return Source("the data frame", pa.schema([]), batches).tables(BLOCK_ROWS)


def sql_column(name: str) -> Any:
    from pyspark.sql import functions as sql

    return sql.col("`" + name.replace("`", "``") + "`")


@contextmanager
def plain_errors(starting: bool = False) -> Iterator[None]:
    """Spark's errors as ours: in a sentence where it is known to hold none of the data, else without details."""
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException, PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        if starting and "JAVA_GATEWAY_EXITED" not in str(error):
            raise InputError("Spark did not start. Look at the master's URL and at the logs there.") from None
        raise _plain_error(str(error), isinstance(error, AnalysisException)) from None


def _plain_error(text: str, before_reading: bool) -> InputError:
    if said := re.findall(r"^tacit\.[\w.]+\.(\w+): (.*)$", text, re.MULTILINE):
        name, sentence = said[-1]
        return (BadRowsError if name == BadRowsError.__name__ else InputError)(sentence)
    if missing := re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", text):
        hint = "Install tacit-privacy[spark] there, and name that Python in PYSPARK_PYTHON."
        return InputError(f"The executors' Python has no '{missing[1]}'. {hint}")
    if "JAVA_GATEWAY_EXITED" in text:
        return InputError("Spark did not start. It needs Java 17 or newer; what it said itself is above.")
    if there := re.search(r"\[PATH_ALREADY_EXISTS\] Path (.*?) already exists", text):
        return InputError(f"{there[1]} is there already. Name a new folder.")
    if NOT_UTF8 in text:
        return InputError(NOT_UTF8)
    if before_reading:
        return InputError(f"Spark refuses: {re.sub(' SQLSTATE: .*', '', text.splitlines()[0])}")
    kind = re.match(r"\[([A-Z_.]+)\]", text)
    told = f" ({kind[1]})" if kind else ""
    return InputError(f"A job of Spark failed{told}. Its logs, which may quote the data, say why.")
