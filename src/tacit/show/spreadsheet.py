"""Tables as CSV for spreadsheets: one header line, plain numbers, one row for each finding."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tacit.disk import write_text
from tacit.estimates import Estimate
from tacit.plan import Plan
from tacit.show.sentences import row_name

#: What makes a spreadsheet take a cell for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def estimate_rows(
    plan: Plan, result: Estimate, parts: Mapping[str, Estimate] | None = None, by: str | None = None
) -> list[dict[str, Any]]:
    """Totals and shares or means with their intervals, of all and of each part."""
    rows = []
    for part, each in ((None, result), *(parts or {}).items()):
        for row in each.rows:
            share = each.per_respondent(row)
            rows.append(
                {
                    **({by: "all" if part is None else part} if by else {}),
                    "answer": row_name(plan, row.value),
                    "reports": each.n_reports,
                    "estimate": row.estimate,
                    "low": row.low,
                    "high": row.high,
                    "share": share.estimate,
                    "share_low": share.low,
                    "share_high": share.high,
                    "level": each.level,
                    "about": each.scope,
                    "design_effect": each.design_effect,
                }
            )
    return rows


def write_csv(path: str | Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write them atomically."""
    write_text(path, csv_text(list(rows[0]), rows))


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """These columns of the rows as CSV; empty cells where a number is not known."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: harmless(cell) for name, cell in row.items()} for row in rows)
    return text.getvalue()


def harmless(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: a text that would be one gets an apostrophe in front.

    >>> harmless("=1+1"), harmless("-3.5"), harmless(-3.5), harmless("north - south"), harmless(math.inf)
    ("'=1+1", '-3.5', -3.5, 'north - south', '')
    """
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return ""
    if not isinstance(cell, str) or not cell.lstrip(" ").startswith(_FORMULA):
        return cell
    with suppress(ValueError):
        float(cell)
        return cell
    return f"'{cell}"
