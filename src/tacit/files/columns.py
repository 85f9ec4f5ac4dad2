"""The columns of a file: which ones are there, which plan its reports belong to, and what to say where one is missing.

Report files name their plan. Parquet and Arrow do in their metadata, under `tacit_plan`. CSV and JSON lines have no
place for it that every reader skips, so there each row has it, in the column `tacit_plan`: a p, so that
nobody takes it for a number, and the first eight digits of the plan's hash. It costs 12 bytes a row of CSV, and
survives sorting, filtering and joining files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from tacit.prior.names import clean_name, nearest

#: The name of a report file's plan in metadata, and of the column that has its first digits.
STAMP, _DIGITS = "tacit_plan", 8
_SHOWN, _FIRST_ROWS = 30, 200
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


def check_stamp(rows: pa.Table | pa.Schema, plan: str, name: str) -> None:
    """Raise if a schema, or a row, says that it is of another plan; without a word about it, reports are taken."""
    if isinstance(rows, pa.Schema):
        other = stamp_of(rows) not in (None, plan)
    else:
        chunks = rows[STAMP].chunks if STAMP in rows.column_names else ()
        found = [chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk.unique() for chunk in chunks]
        cells = {str(cell) for part in found for cell in part.to_pylist() if cell}
        strange = cells - {_short(plan)}
        # The last line of a CSV file ends with this cell.
        if strange and all(_short(plan).startswith(cell) for cell in strange):
            raise InputError(f"{name} is cut short: a row ends in the middle of its '{STAMP}'. Copy the file again.")
        other = bool(strange)
    if other:
        raise InputError(
            f"{name} has reports of another plan than {plan[:12]}…. Read them with the plan that made them."
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
    if any(not cell or cell.casefold() in NO_ANSWER or _is_number(cell) for cell in cells):
        return False
    again = any(cell in column for cell, column in zip(cells, columns, strict=True))
    return not again and any(len(column) > 1 and all(map(_is_number, column)) for column in columns)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
