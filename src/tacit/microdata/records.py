"""Opening microdata: CSV with any separator, Parquet, xlsx, JSON lines, Arrow, data frames; counts of equal rows.

DuckDB reads and counts. Its messages may quote the data; they are replaced, never passed on. Cells are recoded by maps,
bins and names for missing answers.
"""

from __future__ import annotations

import csv
import math
import tempfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from tacit.disk import separator_of
from tacit.files.columns import InputError, check_columns, is_header, number_of
from tacit.files.reading import check_file, literal_path, no_raw_values, quoted, reading
from tacit.prior import clean_name

#: What is taken for text with separators; the last of several extensions that is not a compression.
_TEXT = (".csv", ".tsv", ".txt", ".tab", ".dat")
_WORKBOOKS = (".xlsx", ".xlsm")
_OTHERS = (".parquet", ".jsonl", ".ndjson", ".arrow", ".feather", ".ipc")
_COMPRESSED = (".gz", ".zst")
_FIRST_BYTES, _FIRST_ROWS = 2**16, 200
#: More different rows than this are no answers and groups.
MOST_ROWS = 2_000_000


@dataclass(frozen=True)
class Cell:
    """Rows that are equal: the answer and the groups as they are written, None where nothing is; how many, and the
    sums of their weights and squared weights. `n_unweighted` of them have no weight.
    """

    answer: str | None
    groups: tuple[str | None, ...]
    n: int
    n_unweighted: int
    weight: float
    squares: float


@dataclass(frozen=True)
class _Table:
    """What DuckDB reads: a table in SQL with its parameters, and the columns in it that hold floats."""

    sql: str
    parameters: tuple[Any, ...] = ()
    floats: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def read_cells(
    data: Any, columns: Sequence[str], weight: str | None, sheet: str | None = None, separator: str | None = None
) -> tuple[list[Cell], tuple[str, ...]]:
    """The different rows of an answer column (the first) and of group columns, with how often each comes; notes."""
    import duckdb

    wanted = dict.fromkeys(columns, "group") | {columns[0]: "column"}
    wanted |= {weight: "weight"} if weight is not None else {}
    name = str(data) if isinstance(data, str | Path) else "The table"
    with ExitStack() as stack:
        # Where rows outgrow the memory, DuckDB continues in this folder.
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tacit-"))
        settings: dict[str, Any] = {"memory_limit": "1GB", "temp_directory": folder}
        connection = stack.enter_context(duckdb.connect(config=settings))
        table = stack.enter_context(_opened(connection, data, wanted, sheet, separator))
        keys = [f"{_text(column, column in table.floats)} AS k{k}" for k, column in enumerate(columns)]
        number = "1.0" if weight is None else f"TRY_CAST({quoted(weight)} AS DOUBLE)"
        query = f"""WITH rows AS (SELECT {", ".join(keys)}, {number} AS w FROM {table.sql}),
            usable AS (SELECT *, isfinite(w) AND w >= 0 AS good FROM rows)
            SELECT {", ".join(f"k{k}" for k in range(len(columns)))}, count(*), count(*) FILTER (good IS NOT TRUE),
            coalesce(fsum(w) FILTER (good), 0), coalesce(fsum(w * w) FILTER (good), 0)
            FROM usable GROUP BY ALL ORDER BY ALL LIMIT {MOST_ROWS + 1}"""
        with no_raw_values(name, "csv" if table.parameters else "arrow", (duckdb.Error,)):
            rows = connection.execute(query, list(table.parameters)).fetchall()
    if len(rows) > MOST_ROWS:
        raise InputError(f"{name} has more than {MOST_ROWS:,} different rows of answers and groups.")
    return [Cell(row[0], tuple(row[1 : len(columns)]), *row[len(columns) :]) for row in rows], table.notes


def _text(column: str, is_float: bool) -> str:
    """SQL for a cell as people write it: 3 and not 3.0, and nothing for NaN."""
    name = quoted(column)
    if not is_float:
        return f"CAST({name} AS VARCHAR)"
    whole = f"{name} = trunc({name}) AND abs({name}) < 9e15"
    return (
        f"CASE WHEN isnan({name}) THEN NULL WHEN {whole} THEN CAST(CAST({name} AS BIGINT) AS VARCHAR) "
        f"ELSE CAST({name} AS VARCHAR) END"
    )


@contextmanager
def _opened(
    connection: Any, data: Any, wanted: dict[str, str], sheet: str | None, separator: str | None
) -> Iterator[_Table]:
    """The data as a table with the wanted columns in it."""
    is_path = isinstance(data, str | Path)
    suffixes = [each.lower() for each in Path(data).suffixes] if is_path else []
    kind = next((each for each in reversed(suffixes) if each not in _COMPRESSED), "")
    if is_path:
        check_file(data)
    if sheet is not None and kind not in _WORKBOOKS:
        raise InputError("A sheet is for xlsx files. Leave it out.")
    if separator is not None and kind not in _TEXT:
        raise InputError("A separator is for csv files. Leave it out.")
    if kind in _TEXT:
        yield _text_file(connection, str(data), wanted, separator)
    elif kind in _WORKBOOKS:
        connection.register("records", _sheet(data, sheet, wanted))
        yield _Table("records")
    else:
        if is_path and kind not in _OTHERS:
            raise InputError(f"{data} is no microdata: expected csv, tsv, txt, parquet, xlsx, jsonl or arrow.")
        with reading(data, wanted) as source:
            nested = next((each.name for each in source.schema if pa.types.is_nested(each.type)), None)
            if nested is not None:
                raise InputError(f"The column '{nested}' must hold texts or numbers. Got lists or structs.")
            connection.register("records", pa.RecordBatchReader.from_batches(source.schema, source.batches))
            floats = frozenset(each.name for each in source.schema if pa.types.is_floating(each.type))
            yield _Table("records", floats=floats)


def _text_file(connection: Any, path: str, wanted: dict[str, str], separator: str | None) -> _Table:
    """A CSV file in UTF-8, or, as older programs write it, Latin-1; DuckDB finds the separator."""
    import duckdb

    chosen = "" if separator is None else f", delim = {quoted(separator, single=True)}"
    place = (literal_path(path),)
    for encoding in ("utf-8", "latin-1"):
        table = f"read_csv(?, header = true, all_varchar = true, encoding = '{encoding}'{chosen})"
        try:
            names = [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {table}", list(place)).fetchall()]
            connection.execute(f"SELECT count(*) FROM {table}", list(place))
        except duckdb.Error:
            continue
        if any(names.count(column) != 1 for column in wanted):
            _explain(path, names, wanted)
        notes = () if encoding == "utf-8" else (f"{path} is not UTF-8 and is read as Latin-1",)
        return _Table(table, place, notes=notes)
    with no_raw_values(path, "csv"):
        raise OSError


def _explain(path: str, names: list[str], wanted: dict[str, str]) -> None:
    """Say why a file has not the wanted columns; its first line is quoted only if it is no row of data."""
    with open(path, "rb") as file:
        first, *lines = file.read(_FIRST_BYTES).decode("utf-8-sig", errors="replace").splitlines() or [""]
    separator = separator_of(first)
    if set(wanted) <= set(next(csv.reader([first], delimiter=separator), ())):
        raise InputError(f"{path} has rows with more or fewer cells than its first line. Correct them.")
    rows = [row for row in csv.reader(lines[:-1], delimiter=separator) if len(row) == len(names)]
    is_plain = not path.lower().endswith(_COMPRESSED)
    check_columns(wanted, names, path, is_plain and is_header(names, wanted, rows))


def _sheet(path: Any, sheet: str | None, wanted: dict[str, str]) -> pa.Table:
    """A sheet of a workbook as texts; its first row with content names the columns."""
    from zipfile import BadZipFile

    import openpyxl

    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (BadZipFile, OSError, KeyError, ValueError):
        raise InputError(f"{path} cannot be read as xlsx: it is damaged or in another format.") from None
    try:
        if sheet is not None and sheet not in book.sheetnames:
            raise InputError(f"{path} has no sheet '{sheet}'. It has: {', '.join(book.sheetnames)}.")
        page = book[book.sheetnames[0]] if sheet is None else book[sheet]
        rows = (row for row in page.iter_rows(values_only=True) if any(cell is not None for cell in row))
        header = ["" if cell is None else str(cell).strip() for cell in next(rows, ())]
        first = [[_written(cell) for cell in row] for row in islice(rows, _FIRST_ROWS)]
        is_named = is_header(header, wanted, [[cell or "" for cell in row] for row in first])
        check_columns(wanted, header, f"{path}, sheet '{page.title}',", is_named)
        places = {name: header.index(name) for name in wanted}
        later: Iterator[list[str | None]] = ([_written(cell) for cell in row] for row in rows)
        texts = chain[list[str | None]](first, later)
        kept = [[row[place] if place < len(row) else None for place in places.values()] for row in texts]
    finally:
        book.close()
    columns = zip(*kept, strict=True) if kept else ([] for _ in places)
    return pa.table({name: pa.array(cells, pa.string()) for name, cells in zip(places, columns, strict=True)})


def _written(cell: Any) -> str | None:
    """A cell of a sheet as people see it."""
    if cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


@dataclass(frozen=True)
class Bins:
    """Numbers to bins from each edge up to the next, which belongs to the next bin; the last bin has its end too.

    >>> bins = Bins((0, 18, 65, math.inf), whole=True)
    >>> bins.labels, bins.place(17), bins.place(18), bins.place(-1)
    (('0–17', '18–64', '65 and more'), 0, 1, None)
    """

    edges: tuple[float, ...]
    whole: bool = False

    def __post_init__(self) -> None:
        if len(self.edges) < 2 or any(not a < b for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise InputError("Bins need at least two edges, ascending, such as 0,18,30,65,inf.")

    @classmethod
    def read(cls, text: str, numbers: Mapping[float, float]) -> Bins:
        """Edges as they are written, or how many bins of about equally many people; `numbers` are answers with how
        often each comes.
        """
        parts = [number_of(part.strip()) for part in text.split(",")]
        if any(part is None or math.isnan(part) for part in parts):
            raise InputError(f"Bins are edges such as 0,18,30,65,inf, or a number of bins. Got '{text}'.")
        whole = all(float(number).is_integer() for number in numbers)
        edges = [float(part) for part in parts if part is not None]
        return cls(tuple(edges if len(edges) > 1 else _quantiles(numbers, edges[0])), whole)

    def place(self, number: float) -> int | None:
        """Which bin a number is in."""
        if not self.edges[0] <= number <= self.edges[-1]:
            return None
        return min(bisect_right(self.edges, number), len(self.edges) - 1) - 1

    @property
    def labels(self) -> tuple[str, ...]:
        """What the bins are called; whole numbers as people write them."""
        last = len(self.edges) - 2
        pairs = enumerate(zip(self.edges, self.edges[1:], strict=False))
        return tuple(self._label(low, high, place == last) for place, (low, high) in pairs)

    def _label(self, low: float, high: float, is_last: bool) -> str:
        if math.isinf(low):
            return f"under {high:.12g}"
        if math.isinf(high):
            return f"{low:.12g} and more"
        if self.whole and float(low).is_integer() and float(high).is_integer():
            upper = high if is_last else high - 1
            return f"{low:.12g}" if upper <= low else f"{low:.12g}–{upper:.12g}"
        return f"{low:.12g} to {'' if is_last else 'under '}{high:.12g}"


def _quantiles(numbers: Mapping[float, float], count: float) -> list[float]:
    """Edges of `count` bins with about equally many people in each, as far as equal numbers allow."""
    if not count.is_integer() or not 2 <= count <= 100:
        raise InputError(f"The number of bins must be from 2 to 100. Got {count:g}.")
    ordered, total = sorted(numbers), sum(numbers.values())
    if len(ordered) < 2 or not total > 0:
        raise InputError("Bins need at least two different numbers in the column.")
    edges, here, left = [ordered[0]], 0.0, total
    for number in ordered:
        if len(edges) < count and here >= left / (count - len(edges) + 1):
            edges.append(number)
            here, left = 0.0, left - here
        here += numbers[number]
    return [*edges, *([ordered[-1]] if ordered[-1] > edges[-1] else [math.nextafter(edges[-1], math.inf)])]


@dataclass(frozen=True)
class Recoding:
    """How the cells of the answer column are read."""

    map: Mapping[str, str] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    leave_out: frozenset[str] = frozenset()
    missing_as: str | None = None

    def answer(self, cell: str | None) -> str | None:
        """The answer, None where there is none."""
        text = "" if cell is None else clean_name(cell)
        text = self.map.get(text, text)
        return self.missing_as if not text or text in self.missing else text


def read_map(texts: Iterable[str]) -> dict[str, str]:
    """Pairs written FROM=TO; the last = parts them.

    >>> read_map(["Y=yes", "x=1=one"])
    {'Y': 'yes', 'x=1': 'one'}
    """
    found: dict[str, str] = {}
    for text in texts:
        old, equals, new = text.rpartition("=")
        if not equals or not old.strip() or not new.strip():
            raise InputError(f"A map is written FROM=TO, as in 'Y=yes'. Got '{text}'.")
        if found.setdefault(clean_name(old), clean_name(new)) != clean_name(new):
            raise InputError(f"'{clean_name(old)}' is mapped twice, to different answers.")
    return found


def numbers_of(answers: Sequence[tuple[str, float]]) -> tuple[dict[float, float], int]:
    """The answers that are numbers, each with how often it comes, and how many rows are none."""
    numbers: dict[float, float] = {}
    others = 0.0
    for text, often in answers:
        number = number_of(text)
        if number is None or not math.isfinite(number):
            others += often
        else:
            numbers[float(number)] = numbers.get(float(number), 0.0) + often
    return numbers, int(others)
