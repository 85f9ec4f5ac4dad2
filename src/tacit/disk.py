"""Files on disk: is one there, in which letters it is written, what separates its cells; small tables, as text or as a
sheet of a workbook; and writing so that readers never see half a file.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import re
import shutil
import tempfile
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO

#: Separators of CSV files; spreadsheets take semicolons where numbers have decimal commas.
SEPARATORS = ",;\t|"
WORKBOOKS = (".xlsx", ".xlsm")
#: A number with a decimal comma, in a file whose cells are not separated by commas.
DECIMAL_COMMA = r"^\s*([+-]?[0-9]+),([0-9]+)\s*$"
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_BLOCK = 2**22


def clean_name(text: str) -> str:
    """The name in `text` without surrounding blanks, in Unicode normal form C, so that equal names are equal texts.

    >>> clean_name(" cafe\u0301 ") == "café"
    True
    """
    return unicodedata.normalize("NFC", text.strip())


def no_file(path: str | Path) -> str | None:
    """The sentence for an error where there is no file; None where there is one.

    >>> no_file("nowhere.csv"), no_file(".")
    ('There is no file nowhere.csv.', '. is not a file.')
    """
    if Path(path).is_file():
        return None
    return f"{path} is not a file." if Path(path).exists() else f"There is no file {path}."


#: What files of JSON are, by a field that only they have.
_KINDS = {
    "tacit_tally": "a tally",
    "tacit_personal_tally": "a tally for individual priors",
    "tacit_personal_plan": "a plan for individual priors: use `tacit personal perturb`, `tally`, `estimate`",
    "tacit_ledger": "a ledger of who has answered",
    "tacit_plan": "a plan",
    "estimates": "a printed result",
}


def kind_of_json(data: Any) -> str | None:
    """What a file of JSON, given by its path or content, is; None where Tacit does not write such files.

    >>> kind_of_json({"tacit_tally": 1}), kind_of_json([]), kind_of_json("nowhere.json")
    ('a tally', None, None)
    """
    if isinstance(data, str | Path):
        try:
            data = json.loads(Path(data).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
    return next((_KINDS[name] for name in _KINDS if name in data), None) if isinstance(data, dict) else None


def separator_of(header: str, needed: Collection[str] = ()) -> str:
    """The separator of a CSV file with this first line: the one that finds all needed columns, commas first.

    Where none finds them, the one with the most names.

    >>> separator_of("value;net, per month", ["value"]), separator_of("value,a;b;c", ["value"]), separator_of("a\\tb")
    (';', ',', '\\t')
    """
    for separator in SEPARATORS:
        if needed and set(needed) <= {name.strip() for name in names_in(header, separator)}:
            return separator
    return max(SEPARATORS, key=lambda separator: len(names_in(header, separator)))


def encoding_of(file: BinaryIO) -> str:
    """How the text in a file is encoded, which is read to its end: UTF-8, UTF-16 with its mark, or else Windows-1252,
    which is Latin-1 with more letters.

    >>> from io import BytesIO
    >>> [encoding_of(BytesIO("Köln".encode(name))) for name in ("utf-8", "utf-16", "latin-1")]
    ['utf-8-sig', 'utf-16', 'cp1252']
    """
    decoder, block = codecs.getincrementaldecoder("utf-8")(), file.read(_BLOCK)
    if block[:2] in _MARKS:
        return _MARKS[block[:2]]
    try:
        while block:
            decoder.decode(block)
            block = file.read(_BLOCK)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"


def text_of(path: str | Path) -> str:
    """The text in a file, in whichever encoding."""
    with open(path, "rb") as file:
        encoding = encoding_of(file)
        file.seek(0)
        # Five bytes are no letter of Windows-1252.
        return file.read().decode(encoding, errors="replace" if encoding == "cp1252" else "strict")


def pointed(cell: str, separator: str) -> str:
    """The cell, with a decimal point where it is a number with a decimal comma.

    >>> pointed("2,5", ";"), pointed("2,500", ","), pointed("a,b", ";")
    ('2.5', '2,500', 'a,b')
    """
    return cell if separator == "," or "," not in cell else re.sub(DECIMAL_COMMA, r"\1.\2", cell)


class Row(dict[str, str]):
    """The cells of a row by column, and its line in the file."""

    def __init__(self, line: int, cells: Iterable[tuple[str, str]]) -> None:
        super().__init__(cells)
        self.line = line


@dataclass(frozen=True)
class TextTable:
    """A small table: lines before it that begin with `#`, the names of its columns, and its rows with their lines."""

    comments: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]

    @classmethod
    def read(cls, source: str | Path | TextIO, needed: Collection[str] = ()) -> TextTable:
        """A CSV file with any separator and encoding, a workbook (its first sheet), or an open text.

        Rows and last columns without content are left out, as spreadsheets leave some behind.

        Raises:
            ValueError: the file cannot be read.

        >>> from io import StringIO
        >>> TextTable.read(StringIO("# of 2025\\nvalue;count;\\nyes;2,5;\\n;;\\n"), ["value"])
        TextTable(comments=('# of 2025',), columns=('value', 'count'), rows=((3, ('yes', '2.5')),))
        """
        if isinstance(source, str | Path) and str(source).lower().endswith(WORKBOOKS):
            found = [["" if cell is None else cell for cell in row] for row in sheet_rows(source, None, needed)[1]]
            return cls._of([], [(line, row) for line, row in enumerate(found, start=1)])
        text = text_of(source) if isinstance(source, str | Path) else source.read()
        if isinstance(source, str | Path) and text.lstrip().startswith(("{", "[")):
            kind = kind_of_json(source) or "a file of JSON"
            raise ValueError(f"{source} is {kind}. Expected a table, as CSV or xlsx.")
        # Other separators of lines than these may stand in a cell.
        lines = io.StringIO(text.removeprefix("\ufeff"), newline="").readlines()
        if lines and "\0" in lines[0]:
            raise ValueError(f"{source} is not a CSV file: its first line holds bytes that no text has.")
        comments = []
        while lines and lines[0].startswith(("#", '"#')):
            comments.append(lines.pop(0).rstrip("\r\n"))
        separator = separator_of(lines[0] if lines else "", needed)
        try:
            reader = csv.reader(lines, delimiter=separator, strict=True)
            rows = [
                (len(comments) + reader.line_num, [pointed(cell, separator) for cell in row]) for row in reader if row
            ]
        except csv.Error as error:
            raise ValueError(f"{source} is not a CSV file: {error}.") from error
        return cls._of([_commented(line, separator) for line in comments], rows)

    @classmethod
    def _of(cls, comments: list[str], rows: Sequence[tuple[int, Sequence[str]]]) -> TextTable:
        filled = [(line, row) for line, row in rows if any(cell.strip() for cell in row)]
        header = [clean_name(cell) for cell in filled[0][1]] if filled else []
        width = len(header)
        while width and not header[width - 1] and not any("".join(row[width - 1 :]).strip() for _, row in filled[1:]):
            width -= 1
        cut = [(line, tuple(row[:width]) if len(row) <= len(header) else tuple(row)) for line, row in filled[1:]]
        return cls(tuple(comments), tuple(header[:width]), tuple(cut))

    def by_column(self, name: object) -> list[Row]:
        """The rows with their cells as names, by column; a `ValueError` with the file's name where a row has more or
        fewer cells than there are columns, where two columns have one name, and where there is no row.
        """
        twice = next((column for column in self.columns if column and self.columns.count(column) > 1), None)
        if twice is not None:
            raise ValueError(f"{name}: the header names the column '{twice}' twice.")
        for line, cells in self.rows:
            if len(cells) != len(self.columns):
                raise ValueError(f"{name}, line {line}: expected {len(self.columns)} cells, one for each column.")
        if not self.rows:
            raise ValueError(f"{name} has no rows.")
        return [Row(line, zip(self.columns, map(clean_name, cells), strict=True)) for line, cells in self.rows]


def _commented(line: str, separator: str) -> str:
    """A line of comment as it was written, before a spreadsheet split it at its commas and doubled its quotes."""
    if line.startswith('"#'):
        line = separator.join(next(csv.reader([line], delimiter=separator), []))
    return line.rstrip(separator + " ")


def sheet_rows(
    path: str | Path, sheet: str | None = None, needed: Collection[str] = ()
) -> tuple[str, Iterator[list[str | None]]]:
    """The title of a sheet and its rows with content, as texts that people see; by default the only sheet whose first
    row names all that is `needed`, or else the first.
    """
    from zipfile import BadZipFile

    try:
        import openpyxl
    except ModuleNotFoundError:
        raise ValueError(f"{path} is a workbook: pip install 'tacit-privacy[xlsx]', or save it as CSV.") from None

    def filled(one: Any) -> Iterator[list[str | None]]:
        return (
            [_written(cell) for cell in row]
            for row in one.iter_rows(values_only=True)
            if any(cell is not None for cell in row)
        )

    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (BadZipFile, OSError, KeyError, ValueError):
        raise ValueError(f"{path} cannot be read as xlsx: it is damaged or in another format.") from None
    if sheet is not None and sheet not in book.sheetnames:
        names = ", ".join(book.sheetnames)
        book.close()
        raise ValueError(f"{path} has no sheet '{sheet}'. It has: {names}.")
    page = book[book.sheetnames[0] if sheet is None else sheet]
    if sheet is None and needed:
        found = [each for each in book.worksheets if set(needed) <= set(next(filled(each), ()))]
        page = found[0] if len(found) == 1 else page

    def rows() -> Iterator[list[str | None]]:
        try:
            yield from filled(page)
        finally:
            book.close()

    return page.title, rows()


def _written(cell: Any) -> str | None:
    """A cell of a sheet as people see it."""
    if cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


def names_in(header: str, separator: str) -> list[str]:
    """The columns that a first line names."""
    return next(csv.reader([header], delimiter=separator), [])


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path` to write to; it takes the place of `path` only if the block succeeds.

    An interrupt or an error removes the temporary file and leaves what was there before. A symbolic link stays, and the
    file that it names is replaced. A device or a pipe, such as /dev/null, is never replaced: the text is written to it.
    """
    target = Path(path)
    if target.is_symlink():
        target = target.resolve()
    special = target.exists() and not target.is_file() and not target.is_dir()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=None if special else target.parent)
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        if special:
            with draft.open("rb") as source, target.open("wb") as device:
                shutil.copyfileobj(source, device)
            return
        # mkstemp makes private files; give the result the permissions of an ordinary new one.
        mask = os.umask(0)
        os.umask(mask)
        draft.chmod(0o666 & ~mask)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic(path) as draft:
        draft.write_text(text, encoding="utf-8")
