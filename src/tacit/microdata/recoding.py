"""From what a cell of microdata says to an answer: other names, bins of numbers, what is no answer."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tacit.files.columns import InputError, number_of
from tacit.prior import clean_name


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
    """Edges that leave about as many people in each of so many bins, as far as equal numbers allow."""
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
