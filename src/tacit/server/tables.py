"""Tables as CSV, harmless in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from starlette.responses import Response

#: What makes a spreadsheet take a cell for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_response(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], file: str) -> Response:
    """Rows as a file to download."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, extrasaction="ignore")
    writer.writeheader()
    writer.writerows({name: harmless(value) for name, value in row.items()} for row in rows)
    headers = {"Content-Disposition": f'attachment; filename="{file}"'}
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


def harmless(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: a text that would be one gets an apostrophe in front.

    >>> harmless("=1+1"), harmless("-3.5"), harmless(-3.5), harmless("north - south")
    ("'=1+1", '-3.5', -3.5, 'north - south')
    """
    if not isinstance(cell, str) or not cell.lstrip(" ").startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
