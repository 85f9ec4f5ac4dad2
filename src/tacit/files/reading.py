"""Files and tables as streams of record batches in bounded memory: CSV with any separator, Parquet, JSON lines, Arrow,
workbooks, standard input. Every command reads through here.

A CSV file is in UTF-8, in UTF-16 with its mark, or else read as Windows-1252, which is said. Where its cells are not
separated by commas, numbers may have decimal commas. It may be compressed (.gz, .zst).

Text formats carry text: every cell of a CSV or JSON-lines column is read as a string, so that a name such as "007"
stays what it is. Messages of the parsers may quote a respondent's row; they are replaced, never passed on.

One row stands on one line. The CSV format lets a quoted cell go on over several lines. In a file of answers that is
nearly always a stray quote, and the rows in it would be lost or, in a column that is kept, written out. So rows are
compared with lines, and cells that are read must not hold line breaks.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from tacit.disk import (
    DECIMAL_COMMA,
    WORKBOOKS,
    encoding_of,
    kind_of_json,
    names_in,
    no_file,
    separator_of,
    sheet_rows,
)
from tacit.files.columns import InputError, check_columns, check_stamp, is_header, is_text
from tacit.plan import Plan
from tacit.prior import clean_name

Format = Literal["csv", "parquet", "jsonl", "arrow"]

#: Called with the rows done so far and the rows there are, None where the format does not say.
Progress = Callable[[int, int | None], None]

#: The column of reports, and the path that means standard input or output.
REPORT, STANDARD = "report", "-"
#: The column that says which block of questions a report is about, from 1.
#: Rows per block, independent of the blocks of the file.
BATCH_ROWS = 2**19
_BLOCK_BYTES, _LARGEST_BATCH, _FIRST_ROWS = 2**22, 2**26, 200
_ARROW_FILE = b"ARROW1"
_NEW_LINE, _RETURN = b"\n\r"
#: What Spark puts beside the files of a job that is done, and of one that is not.
DONE, UNDONE = "_SUCCESS", "_temporary"
_COMPRESSED = (".gz", ".zst")
#: Of older spreadsheets and of statistics programs.
_OTHER_PROGRAMS = (".xls", ".ods", ".sav", ".zsav", ".dta", ".sas7bdat", ".rds", ".rdata", ".mdb")
_EXTENSIONS: Mapping[str, Format] = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".tab", ".dat"), "csv"),
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


@dataclass
class Source:
    """Rows on their way in.

    `total` is the number of rows where the format says it beforehand. `malformed` has the numbers of the CSV rows with
    too few or too many cells, as far as the file has been read; they are not in `batches`. `notes` say how it is read.
    """

    name: str
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    total: int | None = None
    notes: tuple[str, ...] = ()
    malformed: array[int] = field(default_factory=lambda: array("q"))

    def tables(self, rows: int | None = None) -> Iterator[pa.Table]:
        """The same rows in tables of one size, the last one excepted: results do not depend on the format."""
        waiting: list[pa.RecordBatch] = []
        rows, count = rows or BATCH_ROWS, 0
        for batch in self.batches:
            waiting.append(batch)
            count += batch.num_rows
            while count >= rows:
                table = pa.Table.from_batches(waiting)
                yield table.slice(0, rows)
                waiting, count = table.slice(rows).to_batches(), count - rows
        if count:
            yield pa.Table.from_batches(waiting)

    def reports(self, plans: Sequence[str]) -> Iterator[pa.Table]:
        """`tables` of reports; raises where they are of another plan than those with these hashes."""
        check_stamp(self.schema, plans, self.name)
        for table in self.tables():
            check_stamp(table, plans, self.name)
            yield table

    def row_number(self, nth: int) -> int:
        """The 1-based data row that the nth row of `tables` was in the file."""
        for malformed in self.malformed:
            if malformed > nth:
                break
            nth += 1
        return nth


def format_of(path: str | Path, asked: str | None = None) -> Format:
    """The format that was asked for, or else the one that the extension says; standard input and output are CSV.

    >>> format_of("answers.ndjson"), format_of("-"), format_of("answers.tsv"), format_of("answers.csv.gz")
    ('jsonl', 'csv', 'csv', 'csv')
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes] or [""]
    suffix = suffixes[-2] if len(suffixes) > 1 and suffixes[-1] in _COMPRESSED else suffixes[-1]
    known = asked or ("csv" if str(path) == STANDARD else _EXTENSIONS.get(suffix))
    if known not in get_args(Format):
        if asked is None and suffix == ".json" and (kind := kind_of_json(path)):
            raise InputError(f"{path} is {kind}. Expected a table, as csv, parquet, xlsx, jsonl or arrow.")
        got = f"'{asked}'" if asked else f"the extension '{Path(path).suffix}'"
        if suffix in _OTHER_PROGRAMS:
            raise InputError(f"{path} is a file of another program. Save it there as csv, or as xlsx.")
        raise InputError(f"The 'format' must be csv, parquet, jsonl or arrow. Got {got} instead; name the format.")
    if known == "parquet" and str(path) == STANDARD:
        raise InputError("Parquet cannot be streamed. Standard input and output take csv, jsonl or arrow.")
    return cast(Format, known)


# -- reading ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wanted:
    """The columns to read: those that must be there, each with the parameter that names it, and those that may; or with
    `all_columns` whichever there are, once each.
    """

    needed: Mapping[str, str]
    optional: tuple[str, ...] = ()
    all_columns: bool = False

    def found(self, got: Sequence[str], name: str, show: bool = True) -> list[str]:
        """Those of them that a file has, in order; raises where one that it needs is missing."""
        needed = {**dict.fromkeys(got, ""), **self.needed} if self.all_columns else self.needed
        check_columns(needed, got, name, show)
        return [*needed, *(column for column in self.optional if got.count(column) == 1)]


@contextmanager
def reading(
    source: Any,
    columns: Mapping[str, str] | Sequence[str],
    format: str | None = None,
    encoded: Sequence[str] = (),
    optional: Sequence[str] = (),
    sheet: str | None = None,
    separator: str | None = None,
    all_columns: bool = False,
) -> Iterator[Source]:
    """Open a path, "-" or a table as a `Source` of the given columns, and of the `optional` ones that it has, or with
    `all_columns` of all.

    Columns may come with the name of the parameter that chooses each, for messages. Those named in `encoded` may come
    dictionary-encoded, which is faster where the format stores them so. `sheet` is that of a workbook, the first
    without it; `separator` stands between the cells of a CSV file, where it is not found rightly.
    """
    workbook = isinstance(source, str | Path) and str(source).lower().endswith(WORKBOOKS) and format is None
    if sheet is not None and not workbook:
        raise InputError("A sheet is for xlsx files. Leave it out.")
    needed = columns if isinstance(columns, Mapping) else dict.fromkeys(columns, "")
    wanted = Wanted(needed, tuple(column for column in optional if column not in needed), all_columns)
    if not isinstance(source, str | Path):
        if format is not None:
            raise InputError("A 'format' is for files. Got a table; leave it out.")
        yield _table_source(source, wanted)
        return
    if Path(source).is_dir():
        yield _folder_source(source, wanted, format, encoded)
        return
    if workbook:
        check_file(source)
        yield _sheet_source(source, wanted, sheet)
        return
    kind, is_standard = format_of(source, format), str(source) == STANDARD
    if separator is not None and kind != "csv":
        raise InputError("A separator is for csv files. Leave it out.")
    name = "standard input" if is_standard else str(source)
    if not is_standard:
        check_file(source)
    with ExitStack() as stack:
        with no_raw_values(name, kind):
            opened = _file_source(str(source), name, wanted, kind, encoded, stack, separator)
        yield opened


def check_file(path: str | Path) -> None:
    """Raise unless it is a file."""
    if (said := no_file(path)) is not None:
        raise InputError(said)


def _file_source(
    path: str,
    name: str,
    columns: Wanted,
    kind: Format,
    encoded: Sequence[str],
    stack: ExitStack,
    separator: str | None,
) -> Source:
    if kind == "csv":
        file, notes = _text_file(path, name, stack)
        source = _csv_source(file, name, columns, separator)
        source.notes = notes
        return source
    if kind == "parquet":
        return _parquet_source(path, name, columns, encoded)
    if kind == "jsonl":
        return _jsonl_source("/dev/stdin" if path == STANDARD else path, name, columns, stack)
    file = sys.stdin.buffer if path == STANDARD else stack.enter_context(open(path, "rb"))  # noqa: SIM115 – it does
    return _arrow_source(file, path, name, columns, stack)


def _text_file(path: str, name: str, stack: ExitStack) -> tuple[BinaryIO, tuple[str, ...]]:
    """A CSV file as bytes in UTF-8, and a note where it is in another encoding."""
    if path == STANDARD:
        return sys.stdin.buffer, ()

    def opened() -> BinaryIO:
        if path.lower().endswith(_COMPRESSED):
            return stack.enter_context(io.BufferedReader(pa.input_stream(path, compression="detect")))
        return stack.enter_context(open(path, "rb"))

    encoding = encoding_of(opened())
    if encoding == "utf-8-sig":
        return opened(), ()
    notes = (f"{name} is not UTF-8 and is read as Latin-1 (Windows-1252)",) if encoding == "cp1252" else ()
    return stack.enter_context(
        io.BufferedReader(pa.TransformInputStream(pa.PythonFile(opened(), "r"), _in_utf8(encoding)))
    ), notes


def _in_utf8(encoding: str) -> Callable[[Any], bytes]:
    """From the blocks of a text in another encoding, the last one empty, to UTF-8."""
    # A few bytes are no letters of Windows-1252.
    decoder = codecs.getincrementaldecoder(encoding)("replace" if encoding == "cp1252" else "strict")

    def read(block: Any) -> bytes:
        try:
            return decoder.decode(bytes(block), final=not len(block)).encode()
        except UnicodeDecodeError:
            raise OSError from None

    return read


@contextmanager
def no_raw_values(name: str, kind: Format, errors: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Replace errors of the parser, which may quote the data, by one that does not."""
    try:
        yield
    except (pa.ArrowException, OSError, *errors):
        problem = f"{name} cannot be read as {kind}: it is damaged, cut short, not in UTF-8 or in another format."
        raise InputError(f"{problem} Check the file or name its format.") from None


def careful(
    batches: Iterable[pa.RecordBatch], name: str, kind: Format, *errors: type[Exception]
) -> Iterator[pa.RecordBatch]:
    """`no_raw_values` for all that the batches raise on the way."""
    with no_raw_values(name, kind, errors):
        yield from batches


def _csv_source(file: BinaryIO, name: str, wanted: Wanted, separator: str | None = None) -> Source:
    try:
        header = file.readline().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{name} cannot be read as csv: its first line is not UTF-8.") from None
    if not header:
        raise InputError(f"{name} is empty. Expected a first line that names the columns.")
    if header.startswith(("# ", '"# ')):
        raise InputError(
            f"{name} begins with a comment, as prior files do. Expected a first line that names the columns."
        )
    if "\r" in header.rstrip("\r\n"):
        raise InputError(f"{name} has lines that end with carriage returns alone. Write it with ordinary line ends.")
    separator = separator or separator_of(header, wanted.needed)
    names = [clean_name(each) for each in names_in(header, separator)]
    following = file.peek().decode("utf-8", errors="replace").splitlines()[:-1]  # type: ignore[attr-defined]
    columns = wanted.found(
        names, name, is_header(names, wanted.needed, list(csv.reader(following, delimiter=separator)))
    )
    # What is optional is the same in all rows.
    repeated = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([(column, repeated if column in wanted.optional else pa.string()) for column in columns])
    source = Source(name, schema, iter(()))

    def note(row: Any) -> str:
        source.malformed.append(row.number)
        return "skip"

    def batches() -> Iterator[pa.RecordBatch]:
        if not file.peek(1):  # type: ignore[attr-defined]
            return
        lines = CountedLines()
        # One thread: only then does Arrow know the numbers of malformed rows, and it is as fast.
        read = pa_csv.open_csv(
            pa.TransformInputStream(pa.PythonFile(file, "r"), lines),
            read_options=pa_csv.ReadOptions(column_names=names, use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=pa_csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=note),
            convert_options=pa_csv.ConvertOptions(column_types=schema, include_columns=columns),
        )
        rows = one_line_each(read, lines, source.malformed, name)
        yield from rows if separator == "," else map(_pointed, rows)

    source.batches = careful(batches(), name, "csv")
    return source


def _pointed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with decimal points in numbers that have decimal commas."""
    columns = [
        pc.replace_substring_regex(column, DECIMAL_COMMA, r"\1.\2")
        if pa.types.is_string(column.type) and pc.any(pc.match_substring(column, ",")).as_py()
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _sheet_source(path: str | Path, wanted: Wanted, sheet: str | None) -> Source:
    """A sheet of a workbook as texts; its first row with content names the columns."""
    try:
        title, rows = sheet_rows(path, sheet, wanted.needed)
        header, *cells = [["" if cell is None else cell for cell in row] for row in rows] or [[]]
    except ValueError as error:
        raise InputError(str(error)) from None
    names = [clean_name(name) for name in header]
    columns = wanted.found(names, f"{path}, sheet '{title}',", is_header(names, wanted.needed, cells[:_FIRST_ROWS]))
    places = [names.index(name) for name in columns]
    arrays = [pa.array([row[k] or None if k < len(row) else None for row in cells], pa.string()) for k in places]
    table = pa.table(arrays, names=columns)
    return Source(str(path), table.schema, iter(table.to_batches()), len(table))


def _parquet_source(path: str, name: str, wanted: Wanted, encoded: Sequence[str]) -> Source:
    # A buffer instead of whole column chunks: a file may be one row group.
    options = {"buffer_size": _BLOCK_BYTES, "pre_buffer": False}
    plain = pq.ParquetFile(path, **options)
    columns = wanted.found(plain.schema_arrow.names, name)
    total = plain.metadata.num_rows
    text = [column for column in encoded if is_text(plain.schema_arrow.field(column).type)]
    file = pq.ParquetFile(path, metadata=plain.metadata, read_dictionary=text, **options)
    schema = pa.schema([file.schema_arrow.field(column) for column in columns], file.schema_arrow.metadata)
    batches = (batch.select(columns) for batch in file.iter_batches(BATCH_ROWS, columns=columns))
    return Source(name, schema, careful(batches, name, "parquet"), total)


def _folder_source(folder: str | Path, wanted: Wanted, format: str | None, encoded: Sequence[str]) -> Source:
    """A folder that Spark wrote, file after file."""
    if format not in (None, "parquet"):
        raise InputError(f"{folder} is a folder. Those that Spark wrote are read as parquet, others not at all.")

    def opened(part: Path) -> Source:
        with no_raw_values(str(part), "parquet"):
            return _parquet_source(str(part), str(part), wanted, encoded)

    first, *others = parts_of(folder)
    source = opened(first)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from source.batches
        for part in others:
            following = opened(part)
            if following.schema != source.schema:
                raise InputError(f"{part} has columns of other types than {first.name} beside it.")
            yield from following.batches

    return Source(str(folder), source.schema, batches())


def _arrow_source(file: BinaryIO, path: str, name: str, wanted: Wanted, stack: ExitStack) -> Source:
    is_file = file.peek(8)[:6] == _ARROW_FILE  # type: ignore[attr-defined]
    if is_file and path != STANDARD:
        whole = pa.ipc.open_file(file)
        names = whole.schema.names
        columns = wanted.found(names, name)
        # Batches too large to hold are mapped, and the system takes back what has been read.
        is_coarse = os.path.getsize(path) > _LARGEST_BATCH * whole.num_record_batches
        bytes_in = stack.enter_context((pa.memory_map if is_coarse else pa.OSFile)(path))
        included = pa.ipc.IpcReadOptions(included_fields=[names.index(column) for column in columns])
        reader = pa.ipc.open_file(bytes_in, options=included)
        parts = (reader.get_batch(i) for i in range(reader.num_record_batches))
    else:
        if is_file:  # The file format is the stream format after eight more bytes.
            file.read(8)
        reader = stack.enter_context(pa.ipc.open_stream(file))
        columns = wanted.found(reader.schema.names, name)
        parts = iter(reader)
    schema = pa.schema([reader.schema.field(column) for column in columns], reader.schema.metadata)
    return Source(name, schema, careful((part.select(columns) for part in parts), name, "arrow"))


def _jsonl_source(path: str, name: str, wanted: Wanted, stack: ExitStack) -> Source:
    """DuckDB reads every JSON value as text, because types may differ between rows; a broken line is a row of nulls."""
    import duckdb

    columns = [*wanted.needed, *wanted.optional]
    if wanted.all_columns:
        with open(path, encoding="utf-8-sig") as file, no_raw_values(name, "jsonl", (ValueError,)):
            first = json.loads(file.readline() or "{}")
        columns = list(dict.fromkeys([*(first if isinstance(first, dict) else ()), *columns]))
    types = ", ".join(f"{quoted(column, single=True)}: 'VARCHAR'" for column in columns)
    options = "format = 'newline_delimited', records = true, ignore_errors = true, compression = 'none'"
    query = f"SELECT {', '.join(map(quoted, columns))} FROM read_json(?, columns = {{{types}}}, {options})"
    schema = pa.schema([(column, pa.string()) for column in columns])
    missing = set(wanted.needed)
    connection = stack.enter_context(duckdb.connect(config={"memory_limit": "256MB"}))

    def batches() -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in connection.sql(query, params=[literal_path(path)]).to_arrow_reader(BATCH_ROWS):
            rows += batch.num_rows
            missing.difference_update([c for c in missing if batch[c].null_count < batch.num_rows])
            yield batch.cast(schema)
        for column in missing if rows else ():
            told = f"No row of {name} has a '{column}'. Expected one JSON object with it on each line."
            parameter = wanted.needed[column]
            raise InputError(told + (f" To choose another, pass {parameter}='NAME'." if parameter else ""))

    return Source(name, schema, careful(batches(), name, "jsonl", duckdb.Error))


def _table_source(table: Any, wanted: Wanted) -> Source:
    """Anything that Arrow can take: tables, readers, data frames, a mapping of columns, or one column alone."""
    try:
        if isinstance(table, pa.Table | pa.RecordBatch):
            reader = (pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table).to_reader()
        elif isinstance(table, pa.RecordBatchReader):
            reader = table
        elif isinstance(table, Mapping):
            reader = pa.table(dict(table)).to_reader()
        else:
            reader = _foreign_reader(table, next(iter(wanted.needed)))
    except (pa.ArrowException, TypeError):
        got = type(table).__name__
        hint = "Got mixed types, or columns of different lengths" if isinstance(table, list | Mapping) else f"Got {got}"
        raise InputError(f"A table must be an Arrow table, a data frame, a mapping or an array. {hint}.") from None
    columns = wanted.found(reader.schema.names, "The table")
    total = len(table) if hasattr(table, "__len__") and not isinstance(table, Mapping) else None
    schema = pa.schema([reader.schema.field(column) for column in columns], reader.schema.metadata)
    batches = careful((batch.select(columns) for batch in reader), "The table", "arrow")
    return Source("the table", schema, batches, total)


def _foreign_reader(table: Any, column: str) -> pa.RecordBatchReader:
    if hasattr(table, "__arrow_c_stream__"):
        try:
            return pa.RecordBatchReader.from_stream(table)
        except (pa.ArrowException, TypeError):  # A series: a stream of one column.
            return pa.table({column: pa.chunked_array(table)}).to_reader()
    return pa.table({column: pa.array(table)}).to_reader()


def quoted(name: str, single: bool = False) -> str:
    """A name for SQL.

    >>> quoted('a "b"')
    '"a ""b""\"'
    """
    mark = "'" if single else '"'
    return mark + name.replace(mark, 2 * mark) + mark


def literal_path(path: str) -> str:
    """A path for DuckDB, which takes *, ? and [ for patterns.

    >>> literal_path("a[1].parquet")
    'a[[]1].parquet'
    """
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in path)


def group_column_of(plan: Plan, asked: str | None) -> str | None:
    """Where the groups are: the column 'group' unless another is named; nowhere if the plan names no groups."""
    if plan.group_names:
        return asked or "group"
    if asked is not None:
        raise InputError(f"This plan has no named groups. Got the group column '{asked}'; leave it out.")
    return None


# -- one row on one line ---------------------------------------------------------------------------------------------


class CountedLines:
    """Called with the blocks of a text, it returns them, and counts the `lines` with something on them that went by.

    >>> count = CountedLines()
    >>> [len(count(block)) for block in (b'a,"b"\\n', b'\\r\\nc,d')], count.lines
    ([6, 5], 2)
    """

    def __init__(self) -> None:
        self._end, self.lines, self.quotes = b"\n", 0, False

    def __call__(self, block: Any) -> bytes:
        data = bytes(block)
        self.quotes = self.quotes or b'"' in data
        # A line has something on it if it begins with neither of its ends.
        letters = np.frombuffer(self._end[-1:] + data, dtype=np.uint8)
        begins = (letters[:-1] == _NEW_LINE) & (letters[1:] != _NEW_LINE) & (letters[1:] != _RETURN)
        self.lines += int(np.count_nonzero(begins))
        self._end = data or self._end
        return data


def one_line_each(
    batches: Iterable[pa.RecordBatch], lines: CountedLines, malformed: Sized, name: str
) -> Iterator[pa.RecordBatch]:
    """The same batches; raises before one with a line break in a cell, and at the end if rows are fewer than lines."""
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        if lines.quotes and any(map(_breaks, batch.columns)):
            raise InputError(_said(name))
        yield batch
    if lines.quotes and rows + len(malformed) < lines.lines:
        raise InputError(_said(name))


def _breaks(column: pa.Array) -> bool:
    texts = column.dictionary if pa.types.is_dictionary(column.type) else column
    return bool(pc.any(pc.match_substring_regex(texts, "[\n\r]")).as_py())


def _said(name: str) -> str:
    return (
        f"{name} has a quoted cell that goes on over several lines, as a stray quote makes it, and rows would be lost "
        "in it. Close or remove the quote; take out line breaks, or give Parquet."
    )


# -- folders that Spark wrote ----------------------------------------------------------------------------------------


def parts_of(folder: str | Path) -> list[Path]:
    """The Parquet files of a complete folder, in the order of their names."""
    inside = sorted(Path(folder).iterdir())
    names = {path.name for path in inside}
    if UNDONE in names:
        raise InputError(still_written(folder))
    shown = [path for path in inside if not path.name.startswith((".", "_"))]
    if any(path.is_dir() for path in shown):
        raise InputError(f"{folder} has folders in it. Read it with --engine spark, or name files in them one by one.")
    parts = [path for path in shown if path.suffix == ".parquet"]
    if DONE not in names or not parts:
        raise InputError(
            f"{folder} is a folder, and not a complete one of Parquet files that Spark wrote, which has a file "
            f"'{DONE}'. Write it again, or name its files one by one."
        )
    return parts


def still_written(folder: str | Path) -> str:
    """The message for a folder that is being written, or whose writer was stopped."""
    return (
        f"{folder} has a folder '{UNDONE}': the run that writes it is not done, or was stopped. "
        "Write it again, to a new folder."
    )
