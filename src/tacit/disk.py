"""Text files on disk: is one there, what separates its cells; and writing so that readers never see half a file."""

from __future__ import annotations

import csv
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TextIO

#: Separators of CSV files; spreadsheets take semicolons where numbers have decimal commas.
SEPARATORS = ",;\t|"


def no_file(path: str | Path) -> str | None:
    """The sentence for an error where there is no file; None where there is one.

    >>> no_file("nowhere.csv"), no_file(".")
    ('There is no file nowhere.csv.', '. is not a file.')
    """
    if Path(path).is_file():
        return None
    return f"{path} is not a file." if Path(path).exists() else f"There is no file {path}."


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


def csv_records(file: TextIO, needed: Collection[str] = ()) -> csv.DictReader[str]:
    """The rows of an open CSV file by the names of their columns, for any usual separator.

    >>> from io import StringIO
    >>> list(csv_records(StringIO("value;count\\nyes;2\\n"), ["value"]))
    [{'value': 'yes', 'count': '2'}]
    """
    header = file.readline()
    return csv.DictReader(chain([header], file), delimiter=separator_of(header, needed))


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
