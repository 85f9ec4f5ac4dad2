"""What is asked of every file before it is read: is it there, and what separates its cells?"""

from __future__ import annotations

import csv
from collections.abc import Collection
from itertools import chain
from pathlib import Path
from typing import TextIO

#: What programs write between the cells of a CSV file; spreadsheets take semicolons where commas are in numbers.
SEPARATORS = ",;\t|"


def no_file(path: str | Path) -> str | None:
    """What to say where there is no file; None where there is one.

    >>> no_file("nowhere.csv"), no_file(".")
    ('There is no file nowhere.csv.', '. is not a file.')
    """
    if Path(path).is_file():
        return None
    return f"{path} is not a file." if Path(path).exists() else f"There is no file {path}."


def separator_of(header: str, needed: Collection[str] = ()) -> str:
    """What separates the cells of a CSV file with this first line: that by which it names all the columns that are
    needed, commas first; where none does, what it has most of.

    >>> separator_of("value;net, per month", ["value"]), separator_of("value,a;b;c", ["value"]), separator_of("a\\tb")
    (';', ',', '\\t')
    """
    for separator in SEPARATORS:
        if needed and set(needed) <= {name.strip() for name in names_in(header, separator)}:
            return separator
    return max(SEPARATORS, key=lambda separator: len(names_in(header, separator)))


def csv_records(file: TextIO, needed: Collection[str] = ()) -> csv.DictReader[str]:
    """The rows of an open CSV file by the names of their columns, whatever separates the cells.

    >>> from io import StringIO
    >>> list(csv_records(StringIO("value;count\\nyes;2\\n"), ["value"]))
    [{'value': 'yes', 'count': '2'}]
    """
    header = file.readline()
    return csv.DictReader(chain([header], file), delimiter=separator_of(header, needed))


def names_in(header: str, separator: str) -> list[str]:
    """The columns that a first line names."""
    return next(csv.reader([header], delimiter=separator), [])
