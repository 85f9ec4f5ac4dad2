"""Columns of files: which ones are there, which plan reports belong to, and cells as positions, numbers or texts.

Report files name their plan. Parquet and Arrow do in their metadata, under `tacit_plan`. CSV and JSON lines have no
metadata that every reader skips, so there each row has it, in the column `tacit_plan`: a p, so that no program takes it
for a number, and the first eight digits of the plan's hash. It costs 12 bytes a row of CSV, and survives sorting,
filtering and joining files.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tacit.plan import CROSSED, RecodedColumn
from tacit.prior import Value, clean_name, near_names, nearest

#: The name of a report file's plan in metadata, and of the column that has its first digits.
STAMP, _DIGITS = "tacit_plan", 8
_SHOWN, _FIRST_ROWS = 30, 200
#: A whole number with zeros behind a point, as programs write numbers of a column with empty cells.
_WHOLE = re.compile(r"(-?[0-9]+)\.0+", re.ASCII)
#: Texts that mean "no answer" in many files, not to be taken for names of columns or for answers unnoticed.
NO_ANSWER = frozenset(
    ["na", "n/a", "nan", "null", "none", "nil", ".", "-", "?", "#n/a", "missing", "-1", "-9", "-99", "999"]
)


class InputError(ValueError):
    """A file, a table or an option that cannot be used. The message never holds a cell of the data."""


def stamped(schema: pa.Schema, plan: str) -> pa.Schema:
    """The schema of reports of the plan with this hash."""
    if STAMP in schema.names:
        raise InputError(f"The column '{STAMP}' of a report file says which plan it belongs to. Rename yours.")
    return schema.with_metadata({STAMP: plan})


def with_stamp_column(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with their plan in a column, for formats without metadata."""
    plan = stamp_of(schema)
    if plan is None:
        return table
    cells = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int8()), len(table)), [_short(plan)])
    return table.append_column(STAMP, cells)


def _short(plan: str) -> str:
    return f"p{plan[:_DIGITS]}"


def stamp_of(schema: pa.Schema) -> str | None:
    """The hash in the metadata, None where there is none."""
    found = (schema.metadata or {}).get(STAMP.encode())
    return None if found is None else str(found.decode(errors="replace"))


def check_stamp(rows: pa.Table | pa.Schema, plans: Sequence[str], name: str) -> None:
    """Raise if a schema, or a row, says that it is of another plan than these, which differ in words only
    (`Plan.hashes`). Reports that do not name their plan are accepted.
    """
    if isinstance(rows, pa.Schema):
        other = stamp_of(rows) not in (None, *plans)
    else:
        chunks = rows[STAMP].chunks if STAMP in rows.column_names else ()
        found = [chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk.unique() for chunk in chunks]
        cells = {str(cell) for part in found for cell in part.to_pylist() if cell}
        known = {_short(plan) for plan in plans}
        strange = cells - known
        # The last line of a CSV file ends with this cell.
        if strange and all(any(plan.startswith(cell) for plan in known) for cell in strange):
            raise InputError(f"{name} is cut short: a row ends in the middle of its '{STAMP}'. Copy the file again.")
        other = bool(strange)
    if other:
        raise InputError(
            f"{name} has reports of another plan than {plans[-1][:12]}…. Read them with the plan that made them."
        )


def check_columns(wanted: Mapping[str, str], got: Sequence[str], name: str, show: bool = True) -> None:
    """Every wanted column must be there once; each comes with the parameter that names it.

    Names are shown only where they cannot be a row of data.
    """
    for column, parameter in wanted.items():
        if got.count(column) == 1:
            continue
        if column in got:
            raise InputError(f"{name} must have one column '{column}'. Got it more than once.")
        choose = f" To choose another, pass {parameter}='NAME'." if parameter else ""
        if not show:
            hint = f"{len(got)} others; the first line must name the columns"
            raise InputError(f"{name} must have one column '{column}'. Got {hint}.{choose}")
        names = ", ".join(got[:_SHOWN]) + (f" and {len(got) - _SHOWN} more" if len(got) > _SHOWN else "")
        raise InputError(
            f"{name} must have one column '{column}'. Got {names or 'no column'}.{nearest(column, got)}{choose}"
        )


def is_header(names: Sequence[str], wanted: Iterable[str], following: Sequence[Sequence[str]]) -> bool:
    """Whether the first line of a CSV file cannot be a row of data like the `following`, so that it may be shown.

    It has a name that was asked for; or it has no number and no cell that comes again in its column, while below it
    some column has nothing but numbers.
    """
    cells = [clean_name(name) for name in names]
    if {cell.casefold() for cell in cells} & {column.casefold() for column in wanted}:
        return True
    columns = list(zip(*(row for row in following[:_FIRST_ROWS] if len(row) == len(names)), strict=True))
    if len(cells) < 2 or not columns:
        return False
    if any(not cell or cell.casefold() in NO_ANSWER or number_of(cell) is not None for cell in cells):
        return False
    again = any(cell in column for cell, column in zip(cells, columns, strict=True))
    return not again and any(len(column) > 1 and None not in map(number_of, column) for column in columns)


Positions = NDArray[np.int32]

#: Markers beside positions: a cell that is none of the values, and one that is null or empty.
UNKNOWN, MISSING = -1, -2
_MOST_SUGGESTED = 3


class Matcher:
    """Cells to positions in a list of names, which match as strings, or of numbers, which match by their value.

    >>> Matcher([0, 2.5, 10])(pa.chunked_array([["2.50", "10", "1e1", "ten", None]])).tolist()
    [1, 2, 2, -1, -2]
    >>> Matcher(["7", "007"])(pa.chunked_array([["007", "7", "07", ""]])).tolist()
    [1, 0, -1, -2]
    """

    def __init__(self, values: Sequence[Value], column: str = "value", suggest: bool = False) -> None:
        self._values, self._column, self._suggest = values, column, suggest
        #: For public columns only: the names that unknown cells nearly are.
        self.near: set[str] = set()
        self._numeric = not isinstance(values[0], str)
        self._positions = {value: x for x, value in enumerate(values)}
        if not self._numeric:
            cleaned = [clean_name(str(value)) for value in values]
            unique = {name for name, times in Counter(cleaned).items() if times == 1}
            self._positions |= {name: x for x, name in enumerate(cleaned) if name in unique}
        #: Cells of each type that stand for a value. What stands for none is forgotten: it may be in every row.
        self._found: dict[pa.DataType, dict[Any, int]] = {}

    def __call__(self, cells: pa.ChunkedArray) -> Positions:
        """The position of each cell, or UNKNOWN or MISSING."""
        parts = [self._match(chunk) for chunk in cells.chunks]
        return np.concatenate(parts) if parts else np.zeros(0, np.int32)

    def _match(self, cells: pa.Array) -> Positions:
        """Each different cell is looked up once."""
        kind = plain_type(cells.type)
        if kind not in self._found:
            self._found[kind] = self._of_type(kind)
        if not pa.types.is_dictionary(cells.type):
            cells = (cells.cast(pa.string()) if is_text(kind) else cells).dictionary_encode()
        found, different = self._found[kind], cells.dictionary.to_pylist()
        entries = list(map(found.get, different))
        for place in [place for place, position in enumerate(entries) if position is None]:
            entries[place] = position = self._position(different[place])
            if position >= 0:
                found[different[place]] = position
        # One more entry, for nulls.
        places: Positions = np.array([*entries, MISSING], np.int32)
        return places[as_numpy(cells.indices.cast(pa.int64()), len(entries))]

    def _of_type(self, kind: pa.DataType) -> dict[Any, int]:
        """The cells of a type that are known before any is read; raises where a type cannot hold the values."""
        is_number = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        plain = is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)
        if not (plain or (is_number and self._numeric)):
            expected = "numbers" if self._numeric else "strings or integers"
            raise InputError(f"The column '{self._column}' must hold {expected}. Got {kind} instead.")
        if not pa.types.is_float32(kind):
            return {}
        written = {float(np.float32(value)): x for x, value in enumerate(self._values) if abs(float(value)) < 2**127}
        if len(written) < len({value for value in self._values if abs(float(value)) < 2**127}):
            hint = "Use 64-bit floats."
            raise InputError(f"The column '{self._column}' is {kind}, too coarse to tell the values apart. {hint}")
        return written

    def _position(self, cell: Any) -> int:
        """The position of a value that may be written in another way than in the plan: numbers such as 2.50, 1e3 or
        007; names with blanks around them, or with letters in another form of Unicode.
        """
        if cell is None or (isinstance(cell, str) and not cell.strip()):
            return MISSING
        if self._numeric:
            meant: Any = (
                number_of(cell) if isinstance(cell, str) else float(cell) if isinstance(cell, Decimal) else cell
            )
        elif isinstance(cell, bool):
            meant = self._spelled(str(cell).lower())
        else:
            meant = str(cell) if str(cell) in self._positions else clean_name(str(cell))
        found = UNKNOWN if meant is None else self._positions.get(meant, UNKNOWN)
        if found == UNKNOWN and self._suggest and isinstance(cell, str) and len(self.near) < _MOST_SUGGESTED:
            self.near.update(near_names(cell, map(str, self._values)))
        return found

    def _spelled(self, word: str) -> str:
        """True or false as the plan spells them: true, True or TRUE."""
        alike = [str(value) for value in self._values if str(value).lower() == word]
        return alike[0] if len(alike) == 1 else word


def as_numpy(cells: pa.Array, null: int | None = None) -> Any:
    """As numpy, with nulls replaced."""
    return (cells if null is None or not cells.null_count else pc.fill_null(cells, null)).to_numpy(zero_copy_only=False)


class Recoder:
    """Cells of a raw column to the names that a plan's recoding makes of them, null where there is no answer.

    >>> Recoder(RecodedColumn(column="x", map={"1": "yes"}))(pa.chunked_array([[1.0, 2.5, None]])).to_pylist()
    ['yes', '2.5', None]
    """

    def __init__(self, column: RecodedColumn, known: Sequence[Value] = ()) -> None:
        self._column, self._known = column, frozenset(map(str, known))

    def __call__(self, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        chunks = []
        for chunk in raw_texts(cells, self._column.column).chunks:
            different = chunk.dictionary_encode()
            names = [self._column.read(text, self._known) for text in [*different.dictionary.to_pylist(), None]]
            places = as_numpy(different.indices.cast(pa.int64()), len(names) - 1)
            chunks.append(pa.array(names, pa.string()).take(pa.array(places)))
        return pa.chunked_array(chunks, pa.string())


def raw_texts(cells: pa.ChunkedArray, column: str) -> pa.ChunkedArray:
    """Cells as people write them: 3 and not 3.0, nothing for NaN."""
    cells = decoded(cells)
    kind = cells.type
    if pa.types.is_nested(kind):
        raise InputError(f"The column '{column}' must hold texts or numbers. Got lists or structs.")
    if pa.types.is_floating(kind):
        cells = pc.if_else(pc.is_nan(cells), None, cells)
    try:
        return cells.cast(pa.string())
    except pa.ArrowException:
        raise InputError(f"The column '{column}' must hold texts or numbers. Got {kind} instead.") from None


class GroupColumns:
    """Rows of a table to the positions of their groups: by a column with their names, or by `raw` columns whose recoded
    names are joined.

    >>> groups = GroupColumns(["old", "young"], "group")
    >>> groups(pa.table({"group": ["young", "yung", None]})).tolist(), groups.near
    ([1, -1, -2], {'young'})
    """

    def __init__(self, names: Sequence[str], column: str, raw: Sequence[RecodedColumn] = ()) -> None:
        self.known, self.read = names, [each.column for each in raw] or [column]
        self._raw, self._recode = raw, [Recoder(each) for each in raw]
        self._match, self._names = Matcher(names, column, suggest=True), pa.array(names, pa.string())

    @property
    def recoded(self) -> bool:
        return bool(self._recode)

    @property
    def near(self) -> set[str]:
        """The names that unknown cells nearly are."""
        return self._match.near

    @property
    def how(self) -> str:
        """Where recoded groups are read, for a message."""
        ends = [f", a number from {raw.edges[0]:g} to {raw.edges[-1]:g}" if raw.edges else "" for raw in self._raw]
        told = " and ".join(f"'{raw.column}'{end}" for raw, end in zip(self._raw, ends, strict=True))
        return f" They are recoded from {told}." if told else ""

    def __call__(self, table: pa.Table) -> Positions:
        return self._match(self.names(table))

    def names(self, table: pa.Table) -> pa.ChunkedArray:
        """The name of each row's group, null where there is none."""
        if not self._recode:
            return table[self.read[0]]
        names = [recode(table[column]).combine_chunks() for recode, column in zip(self._recode, self.read, strict=True)]
        return pa.chunked_array([pc.binary_join_element_wise(*names, CROSSED)])

    def named(self, positions: Positions) -> pa.Array:
        """The names of groups at these positions."""
        return pa.DictionaryArray.from_arrays(pa.array(positions, pa.int32()), self._names)


class Range:
    """Cells to numbers between the first and the last value: 0 where a cell is one, else a marker; `numbers` has them.

    >>> inside = Range([0, 10])
    >>> inside(pa.chunked_array([["2.5", "11", "ten", None]])).tolist(), inside.numbers[0].item()
    ([0, -1, -1, -2], 2.5)
    """

    def __init__(self, values: Sequence[Value], column: str = "value") -> None:
        self._column, self._low, self._high = column, float(values[0]), float(values[-1])
        self.numbers: NDArray[np.float64] = np.zeros(0)

    def __call__(self, cells: pa.ChunkedArray) -> Positions:
        self.numbers = numbers_of(cells, self._column)
        inside = (self.numbers >= self._low) & (self.numbers <= self._high)
        missing = as_numpy(pc.is_null(cells))
        return np.where(inside, 0, np.where(missing, MISSING, UNKNOWN)).astype(np.int32)


def number_of(text: str | None) -> int | float | None:
    """The number that a text is, None if it is none."""
    if text is None or "_" in text:
        return None
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return None


def reports_of(cells: pa.ChunkedArray, column: str) -> NDArray[np.int64]:
    """Each cell as a report; −1 where it is not a whole number from 0, in text one of up to 18 digits.

    >>> reports_of(pa.chunked_array([["3", "x", None, "4.5", "-1"]]), "report").tolist()
    [3, -1, -1, -1, -1]
    """
    cells = decoded(cells)
    kind = cells.type
    if pa.types.is_null(kind):
        return np.full(len(cells), -1)
    if is_text(kind):
        whole = pc.fill_null(pc.match_substring_regex(cells, "^[0-9]{1,18}$"), False)
        cells = pc.if_else(whole, cells, "-1").cast(pa.int64())
    elif pa.types.is_floating(kind):
        floats = pc.fill_null(cells.cast(pa.float64()), -1.0).to_numpy()
        fits = (floats >= 0) & (floats < 2.0**63) & (np.floor(floats) == floats)
        return np.where(fits, floats, -1.0).astype(np.int64)
    elif not pa.types.is_integer(kind):
        raise InputError(f"The column '{column}' must hold integers. Got {kind} instead.")
    # Unsigned reports of 2^63 and more wrap to negative ones, which no plan knows.
    reports: NDArray[np.int64] = as_numpy(cells, 0).astype(np.int64)
    if cells.null_count:
        reports[as_numpy(pc.is_null(cells))] = -1
    return reports


def numbers_of(cells: pa.ChunkedArray, column: str) -> NDArray[np.float64]:
    """Each cell as a float; NaN where it is none."""
    cells = decoded(cells)
    if is_text(cells.type):
        try:
            cells = cells.cast(pa.float64())
        except pa.ArrowInvalid:
            read = [number_of(text) for text in cells.to_pylist()]
            usable = [np.nan if number is None or abs(number) > 2**64 else number for number in read]
            return np.array(usable, np.float64)
    try:
        return np.asarray(pc.fill_null(cells.cast(pa.float64(), safe=False), np.nan).to_numpy(), dtype=np.float64)
    except pa.ArrowException:
        raise InputError(f"The column '{column}' must hold numbers. Got {cells.type} instead.") from None


def people_of(cells: pa.ChunkedArray, column: str) -> list[str]:
    """Whose rows these are: texts without blanks and invisible marks, accents and whole numbers in one form.

    >>> people_of(pa.chunked_array([[" p1", "p1", "Zoe\u0308", "7.0"]]), "id")
    ['p1', 'p1', 'Zoë', '7']
    >>> people_of(pa.chunked_array([[12345678901.0]]), "id")
    ['12345678901']
    """
    if pa.types.is_floating(plain_type(cells.type)):
        numbers = decoded(cells).to_pylist()
        return ["" if x is None or x != x else str(int(x)) if x == x // 1 else str(x) for x in numbers]
    return [_person(name) for name in texts_of(cells, column).to_pylist()]


def _person(name: str) -> str:
    if not name.isascii():
        name = unicodedata.normalize("NFC", name)
        name = "".join(letter for letter in name if unicodedata.category(letter) != "Cf")
    name = name.strip()
    whole = _WHOLE.fullmatch(name)
    return whole[1] if whole else name


def texts_of(cells: pa.ChunkedArray, column: str) -> pa.ChunkedArray:
    """Each cell as a string, the empty one where it is null."""
    try:
        return pc.fill_null(decoded(cells).cast(pa.string()), "")
    except pa.ArrowException:
        raise InputError(f"The column '{column}' cannot be written as text. It is {cells.type}.") from None


def decoded(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    return cells.cast(plain_type(cells.type))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type without a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text(type: pa.DataType) -> bool:
    """Whether cells of this type are strings."""
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type))
