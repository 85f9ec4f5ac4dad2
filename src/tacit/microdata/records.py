"""Opening microdata, by the reader of all commands, and counting equal rows; maps and bins as they are written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tacit.files.columns import STAMP, InputError, numbers_of, raw_texts, stamp_of
from tacit.files.reading import reading
from tacit.plan import number_in
from tacit.prior import clean_name

#: More different rows than this are no answers and groups.
MOST_ROWS = 1_000_000


@dataclass
class Cell:
    """Rows that are equal: their cells as they are written, None where nothing is; how many, and the sums of their
    weights and squared weights. `n_unweighted` of them have no weight.
    """

    texts: tuple[str | None, ...]
    n: int = 0
    n_unweighted: int = 0
    weight: float = 0.0
    squares: float = 0.0


def read_cells(
    data: Any, columns: Sequence[str], weight: str | None, sheet: str | None = None, separator: str | None = None
) -> tuple[list[Cell], tuple[str, ...]]:
    """The different rows of some columns, in the order in which they come first, with how often each comes; notes."""
    wanted = dict.fromkeys(columns, "group") | {columns[0]: "column"}
    wanted |= {weight: "weight"} if weight is not None else {}
    name = str(data) if isinstance(data, str | Path) else "The table"
    found: dict[tuple[str | None, ...], Cell] = {}
    keys = [f"k{place}" for place in range(len(columns))]
    with reading(data, wanted, optional=(STAMP,), sheet=sheet, separator=separator) as source:
        for table in source.tables():
            _refuse_reports(table, name)
            texts = [raw_texts(table[column], column) for column in columns]
            weights = np.ones(len(table)) if weight is None else numbers_of(table[weight], weight)
            good = np.isfinite(weights) & (weights >= 0)
            used = np.where(good, weights, 0.0)
            rows = pa.table(
                [*texts, pa.array(~good), pa.array(used), pa.array(used**2)], names=[*keys, "bad", "w", "s"]
            )
            sums = [([], "count_all"), ("bad", "sum"), ("w", "sum"), ("s", "sum")]
            counted = rows.group_by(keys, use_threads=False).aggregate(sums)
            for *key, n, bad, total, squares in zip(
                *(counted[name].to_pylist() for name in (*keys, "count_all", "bad_sum", "w_sum", "s_sum")), strict=True
            ):
                cell = found.setdefault(tuple(key), Cell(tuple(key)))
                cell.n, cell.n_unweighted = cell.n + n, cell.n_unweighted + bad
                cell.weight, cell.squares = cell.weight + total, cell.squares + squares
            if len(found) > MOST_ROWS:
                raise InputError(f"{name} has more than {MOST_ROWS:,} different rows of answers and groups.")
    if source.malformed:
        raise InputError(f"{name} has rows with more or fewer cells than its first line. Correct them.")
    return list(found.values()), source.notes


def _refuse_reports(table: pa.Table, name: str) -> None:
    """Raise if rows are randomized reports: counted as answers they would make a wrong prior."""
    cells = table[STAMP].drop_null() if STAMP in table.column_names else ()
    if stamp_of(table.schema) is not None or len(cells):
        raise InputError(
            f"{name} holds randomized reports, not answers, so their shares are no prior. For the next survey, "
            "`tacit next` makes a plan from reports; `tacit estimate` says what was found."
        )


@dataclass(frozen=True)
class Bins:
    """Edges of bins as they are written, and what the bins are called.

    >>> Bins((0, 18, 65, math.inf), whole=True).labels
    ('0–17', '18–64', '65 and more')
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
        infinite = {"inf": math.inf, "-inf": -math.inf}
        parts = [infinite.get(part.strip(), number_in(part.strip())) for part in text.split(",")]
        if None in parts:
            raise InputError(f"Bins are edges such as 0,18,30,65,inf, or a number of bins. Got '{text}'.")
        whole = all(float(number).is_integer() for number in numbers)
        edges = [float(part) for part in parts if part is not None]
        return cls(tuple(edges if len(edges) > 1 else _quantiles(numbers, edges[0])), whole)

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


def numbers_among(answers: Sequence[tuple[str, float]]) -> tuple[dict[float, float], int]:
    """The answers that are numbers, each with how often it comes, and how many rows are none."""
    numbers: dict[float, float] = {}
    others = 0.0
    for text, often in answers:
        number = number_in(text)
        if number is None:
            others += often
        else:
            numbers[number] = numbers.get(number, 0.0) + often
    return numbers, int(others)
