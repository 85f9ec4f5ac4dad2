"""Files on a Spark session: folders that Spark writes, files that it reads, and where a session comes from.

Folders are checked through the session itself, so this works behind Spark Connect as well. Cells mean the same as on
one machine. A master's URL is checked before anything waits for it.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack
from urllib.parse import unquote, urlsplit

from tacit.disk import separator_of
from tacit.files.answers import AnswerColumns, OnUnknown, check_on_unknown
from tacit.files.columns import STAMP, InputError, check_columns
from tacit.files.perturbing import PerturbSummary
from tacit.files.reading import DONE, STANDARD, UNDONE, Progress, format_of, still_written
from tacit.files.spark._engine import (
    NOT_UTF8,
    UNREADABLE,
    in_another_thread,
    perturb,
    plain_errors,
    sql_column,
    tally_by,
)
from tacit.files.tallies import ColumnNames, ReportColumns, sources_of_parts, whole_of, with_source
from tacit.plan import Plan
from tacit.tally import Tally


def check_begun(session: Any, path: str) -> None:
    """Raise where the folder is being written, or its writer was stopped."""
    if not _is_pattern(path) and _exists(session, f"{path.rstrip('/')}/{UNDONE}"):
        raise InputError(still_written(path))


def check_done(session: Any, path: str, frame: Any) -> None:
    """Raise where a folder of our reports is incomplete; warn where a folder of another program may be.

    A path with a pattern is a deliberate choice of files, and is used as it is.
    """
    if _is_pattern(path) or _exists(session, f"{path.rstrip('/')}/{DONE}"):
        return
    if is_one_file(path, frame.inputFiles()):
        return
    if STAMP in frame.columns:
        raise InputError(
            f"{path} has no file '{DONE}', so not all reports may be in it. Write it again, to a new folder; "
            f"or name its files, as in '{path.rstrip('/')}/*.parquet', to count those that are there."
        )
    print(f"note: {path} has no file '{DONE}': is it complete?", file=sys.stderr)


def _is_pattern(path: str) -> bool:
    return any(letter in path for letter in "*?[{")


def is_one_file(path: str, files: Iterable[str]) -> bool:
    """Whether the files that were found under a path are the path itself.

    >>> is_one_file("hdfs:///a b.csv", ["hdfs://name:8020/a%20b.csv"]), is_one_file("a", ["file:/a/part.csv"])
    (True, False)
    """
    asked = path.rstrip("/").rpartition("://")[2].removeprefix("file:").lstrip("./")
    return [unquote(file).endswith(f"/{asked}") for file in files] == [True]


def _exists(session: Any, path: str) -> bool:
    """Whether there is a file or a folder. Spark looks when it makes the frame, and reads nothing."""
    from pyspark.errors import AnalysisException

    try:
        return bool(session.read.format("binaryFile").load(path).columns)
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return False
        raise
    except Exception:  # A storage that has no such names, such as one below a file: nothing is known.
        return False


#: Where Spark puts rows with too few or too many cells. Not a name that a file would use.
_MALFORMED = "tacit: malformed"
_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
#: Of files, which a folder of Parquet files is not.
OTHER_SUFFIXES = frozenset([".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".arrow", ".feather", ".ipc"])


class SparkFiles:
    """`perturb_file`, `tally_file` and `tally_by` as in `tacit.files`, on a Spark session: for paths that Spark reads,
    and for its data frames.

    Spark shows its own progress; `progress` is taken so that engines can stand in for each other.
    """

    def __init__(self, session: Any) -> None:
        self._session = session

    def perturb_file(
        self,
        plan: Plan,
        source: Any,
        target: str | Path,
        *,
        column: str | None = None,
        group_column: str | None = None,
        keep: Sequence[str] = (),
        force: bool = False,
        on_unknown: OnUnknown = "stop",
        progress: Progress | None = None,
        source_format: str | None = None,
        target_format: str | None = None,
    ) -> PerturbSummary:
        """Write the reports, as Parquet, to a new folder `target`, which has a file `_SUCCESS` when it is complete.

        Rows come in random order. Columns in `keep` that give answers away stop the run before anything is written,
        unless `force`; to see it, Spark reads the answers once more, and the driver up to 1,000 rows of each task.

        >>> SparkFiles(session).perturb_file(plan, session.read.parquet("answers"), "reports")  # doctest: +SKIP
        """
        check_target(target, target_format)
        check_on_unknown(on_unknown)
        columns = AnswerColumns.of(plan, column, group_column, keep)
        with self._read(source, columns.read, source_format) as answers:
            return perturb(plan, answers, target, columns, force, on_unknown)

    def tally_file(
        self,
        plan: Plan,
        source: Any,
        *,
        progress: Progress | None = None,
        format: str | None = None,
        **columns: Unpack[ColumnNames],
    ) -> Tally:
        """Count the reports; of a data frame it is not known whether they were counted before."""
        named = ReportColumns.of(plan, (), **columns)
        with self._read(source, named.named, format) as reports:
            counted = whole_of(plan, tally_by(plan, reports, named))
            if not isinstance(source, str | Path) or Path(source).is_file():
                return with_source(counted, source)
            return replace(counted, sources=sources_of_parts(reports.inputFiles()))

    def tally_by(
        self,
        plan: Plan,
        source: Any,
        by: Sequence[str],
        *,
        progress: Progress | None = None,
        format: str | None = None,
        **columns: Unpack[ColumnNames],
    ) -> dict[tuple[str, ...], Tally]:
        """Count the reports for each combination of cells of the columns `by`."""
        named = ReportColumns.of(plan, by, **columns)
        with self._read(source, named.named, format) as reports:
            return tally_by(plan, reports, named)

    @contextmanager
    def _read(self, source: Any, columns: Mapping[str, str], format: str | None) -> Iterator[Any]:
        """A data frame of these columns. Cells in the names of folders (group=01) are texts: Spark would take them for
        numbers, and '01' and '1' for one. For the whole job: behind Spark Connect a frame is looked at again when it is
        used.
        """
        if not isinstance(source, str | Path):
            with plain_errors():
                check_columns(columns, source.columns, "The data frame")
            yield source
            return
        with plain_errors():
            before = self._session.conf.get(_INFERENCE)
            self._session.conf.set(_INFERENCE, "false")
        try:
            yield read(self._session, source, columns, format)
        finally:
            with suppress(Exception):
                self._session.conf.set(_INFERENCE, before)


def check_target(target: str | Path, format: str | None = None) -> None:
    """Raise unless it may be the name of a new folder of Parquet files."""
    suffix = Path(target).suffix.lower()
    if str(target) == STANDARD or format not in (None, "parquet"):
        raise InputError("Spark writes a new folder of Parquet files. Name it as the output.")
    if suffix in OTHER_SUFFIXES:
        raise InputError(f"Spark writes a new folder of Parquet files. Name it without '{suffix}'.")


def read(session: Any, path: str | Path, columns: Mapping[str, str] | Sequence[str], format: str | None = None) -> Any:
    """A data frame of these `columns` of a `path` that Spark reads, by a `session` of Spark. As on one machine, cells
    of CSV and JSON lines are texts; a row of CSV with too few or too many cells is a row of nulls here, as a broken
    line of JSON is. The `format` is "csv", "parquet" or "jsonl", by default what the extension says.

    >>> read(session, "answers.parquet", ["value", "group"])  # doctest: +SKIP
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


_KNOWN = re.compile(r"local(-cluster)?(\[[^\]]*\])?|yarn|(spark|sc|k8s)://.+")
#: Seconds to wait for a port, and for a first executor before a note is printed.
_ANSWER_SECONDS, _EXECUTOR_SECONDS = 5.0, 15.0
_CONNECT_PORT = 15002
#: How HTTP/2 begins, which is what Spark Connect speaks: both sides say their settings. To anything else PySpark would
#: try again for minutes.
_SETTINGS = 4
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0])
#: Where one of these is set, Spark Connect goes through it, and a port that does not answer us may answer it.
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")


@contextmanager
def connected(master: str | None) -> Iterator[SparkFiles]:
    """The engine on a session at the URL `master` (sc://… for Spark Connect, spark://HOST:PORT), or where Spark's own
    settings say; the session ends afterwards. One that is there already is used, and stays.

    >>> with connected("local") as engine:  # doctest: +SKIP
    ...     engine.tally_file(plan, "reports")
    """
    if master is not None:
        check_master(master)
    from pyspark.sql import SparkSession

    there = SparkSession.getActiveSession()
    if there is not None:
        yield SparkFiles(there)
        return
    with plain_errors(starting=True):
        session = _started(SparkSession.builder.appName("tacit"), master)
    watch = threading.Timer(_EXECUTOR_SECONDS, _tell_of_no_executor, [session])
    watch.daemon = True
    watch.start()
    try:
        with _quietly_interrupted():
            yield SparkFiles(session)
    finally:
        watch.cancel()
        in_another_thread(lambda: _stop(session))


@contextmanager
def _quietly_interrupted() -> Iterator[None]:
    """An interrupt is an exception, no more. PySpark's own handler asks Spark in the middle of another question, and
    Py4J logs the stack.
    """

    def is_ours(record: logging.LogRecord) -> bool:
        return "py4j" not in record.pathname

    logging.getLogger().addFilter(is_ours)
    in_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.default_int_handler) if in_main else None
    try:
        yield
    finally:
        logging.getLogger().removeFilter(is_ours)
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _stop(session: Any) -> None:
    with suppress(Exception):  # The first error is reported already, or is being raised.
        session.stop()


def _started(builder: Any, master: str | None) -> Any:
    if master is not None and master.startswith("sc://"):
        return builder.remote(master).getOrCreate()
    if master is not None:
        builder = builder.master(master)
    if (master or "").startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # What fails is said in a sentence; whole stacks are in the executors' logs.
    builder = builder.config("spark.log.level", "FATAL")
    return builder.config("spark.ui.showConsoleProgress", sys.stderr.isatty()).getOrCreate()


def check_master(master: str) -> None:
    """Raise where it is no URL of a master, or where nothing answers at its port."""
    if not _KNOWN.fullmatch(master):
        scheme = f"'{master.partition('://')[0]}://…'" if "://" in master else "another word"
        raise InputError(
            "The 'master' must be spark://HOST:PORT, sc://HOST:PORT, yarn, k8s://… or local[CORES]. "
            f"Got {scheme} instead."
        )
    places = places_of(master)
    named = " or ".join(f"{host}:{port}" for host, port in places)
    if places and not any(_answers(*place) for place in places):
        raise InputError(f"Nothing answers at {named}.")
    # Under TLS a probe without its keys learns nothing.
    in_the_clear = master.startswith("sc://") and not re.search(r"[;/](token|use_ssl)=", master)
    if in_the_clear and not all(_answers(*place, _HELLO, _SETTINGS) for place in places):
        raise InputError(f"What answers at {named} is not Spark Connect, whose port is mostly {_CONNECT_PORT}.")


def places_of(master: str) -> list[tuple[str, int]]:
    """The hosts and ports of a spark:// or sc:// URL that can be tried from here.

    >>> places_of("spark://one:7077,two:7078"), places_of("sc://gateway/;token=secret"), places_of("yarn")
    ([('one', 7077), ('two', 7078)], [('gateway', 15002)], [])
    """
    scheme, _, rest = master.partition("://")
    if scheme not in ("spark", "sc") or (scheme == "sc" and any(os.environ.get(each) for each in _PROXIES)):
        return []
    places = []
    for place in rest.split(",") if scheme == "spark" else [rest]:
        try:
            parts = urlsplit(f"//{place}")
            host, port = parts.hostname, parts.port or (_CONNECT_PORT if scheme == "sc" else None)
        except ValueError:
            host, port = None, None
        if host is None or port is None:
            raise InputError(f"The 'master' must be {scheme}://HOST:PORT. Got no host and port that can be read.")
        places.append((host, port))
    return places


def _answers(host: str, port: int, said: bytes = b"", heard: int | None = None) -> bool:
    """Whether a port answers; and, where something is said to it, with a frame of this type."""
    try:
        with socket.create_connection((host, port), _ANSWER_SECONDS) as connection:
            connection.sendall(said)
            frame = b""
            while heard is not None and len(frame) < 4:
                if not (more := connection.recv(9)):
                    return False
                frame += more
            return heard is None or frame[3] == heard
    except OSError:
        return False


def _tell_of_no_executor(session: Any) -> None:
    """Print a note if the cluster has given no executor yet. Behind Spark Connect this cannot be seen."""
    with suppress(Exception):
        context = session.sparkContext
        # The driver is one of them.
        if not context.master.startswith("local") and context._jsc.sc().getExecutorMemoryStatus().size() <= 1:
            told = f"The cluster has given no executor in {_EXECUTOR_SECONDS:.0f} seconds; still waiting."
            hint = "Has it workers, with the cores and the memory that executors ask for?"
            print(f"note: {told} {hint}", file=sys.stderr, flush=True)
