"""Tables as CSV for spreadsheets: one header line, plain numbers, one row for each finding."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tacit.disk import write_text
from tacit.estimates import Estimate
from tacit.plan import Plan
from tacit.show.sentences import row_name


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
    """Write them atomically; empty cells where a number is not known."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(cell) for name, cell in row.items()})
    write_text(path, text.getvalue())


def _cell(cell: Any) -> Any:
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return ""
    # A spreadsheet takes what begins so for a formula.
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@")) else cell
