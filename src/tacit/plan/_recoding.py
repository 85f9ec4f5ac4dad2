"""The recoding of a plan: how cells of raw data become its answers and groups.

It is public and part of the contract, so files, Spark, DuckDB and the browser read raw data alike
(`browser/recoding.js` is the same in JavaScript; a golden file compares the two). A cell becomes a name in this order:

1. blanks around it are cut off, and its letters are put into Unicode normal form C;
2. `map` replaces it; a whole number may be written with zeros behind a point, as in 1.0;
3. an empty cell and the codes of `missing` are no answer, or the answer `missing_as`; nor are those of `leave_out` one;
4. a number is put into the bin between two `edges`; the lower one belongs to the bin, and to the last bin both do;
5. `other` takes the place of a name that the plan does not have.

Crossed groups are read from several columns; their names are joined by " / ".
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tacit.plan._group import PlanError
from tacit.prior import Value, clean_name, has_unseen

#: Stands between the parts of a crossed group's name: "north / 18-24".
CROSSED = " / "
#: A number as every language reads it alike.
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", re.ASCII)
_WHOLE = re.compile(r"(-?[0-9]+)\.0+", re.ASCII)
_FIELDS = ("column", "text", "map", "missing", "missing_as", "leave_out", "edges", "labels", "other")


@dataclass(frozen=True, kw_only=True)
class RecodedColumn:
    """How the cells of one column are read.

    Args:
        column: its name in files.
        text: the question about it, for a page, or what it is in each language; the name of the column where there is
            none.
        map: other names for cells.
        missing: codes that mean that there is no answer, beside empty cells.
        missing_as: the answer that such cells count as; else their rows are left out.
        leave_out: answers whose rows are left out.
        edges: of bins, in ascending order; the first and the last may be infinite.
        labels: what the bins are called, one fewer than edges.
        other: the name for answers that the plan does not list.

    >>> age = RecodedColumn(column="age", missing=("99",), edges=(0, 18, 65), labels=("young", "old"))
    >>> age.read(" 17 "), age.read("18.0"), age.read("65"), age.read("99"), age.read("66")
    ('young', 'old', 'old', None, '66')
    """

    column: str
    text: str | Mapping[str, str] | None = None
    map: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    missing_as: str | None = None
    leave_out: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
    other: str | None = None

    def __post_init__(self) -> None:
        whose = f"The recoding of the column {self.column!r}"
        named = [name for name in (self.missing_as, self.other) if name is not None]
        names = [*self.map, *self.map.values(), *self.missing, *self.leave_out, *self.labels, *named]
        by_language = self.text if isinstance(self.text, Mapping) else {"": self.text or ""}
        words = [self.column, *by_language, *by_language.values()]
        if not all(isinstance(word, str) for word in (*names, *words)) or any(map(has_unseen, (*names, *words))):
            raise PlanError(f"{whose} must hold texts without control characters or marks of direction.")
        if not self.column.strip() or not all(name and name == clean_name(name) for name in names):
            raise PlanError(f"{whose} must hold names without blanks around them, in Unicode normal form C.")
        for codes in (self.missing, self.leave_out):
            if len(set(codes)) < len(codes):
                raise PlanError(f"{whose} has a code twice.")
        ascending = all(low < high for low, high in zip(self.edges, self.edges[1:], strict=False))
        if not ascending or len(self.edges) != len(self.labels) + bool(self.edges) or len(self.edges) == 1:
            raise PlanError(f"{whose} needs ascending edges of bins, and a label for each bin between them.")

    def read(self, cell: str | None, known: Collection[str] = ()) -> str | None:
        """The name that a cell stands for, None where there is none; what fits nothing stays as it is.

        `known` are the names of the plan, for `other`.
        """
        text = "" if cell is None else clean_name(cell)
        text = self.map.get(self._code(text, self.map), text)
        if not text or self._code(text, self.missing) in self.missing:
            return self.missing_as
        if self._code(text, self.leave_out) in self.leave_out:
            return None
        if self.edges and text not in self.labels:
            place = self.place(number_in(text))
            return text if place is None else self.labels[place]
        return text if self.other is None or text in known else self.other

    @staticmethod
    def _code(text: str, codes: Collection[str]) -> str:
        """The code that a text is; 1.0 is the code 1 where there is none written 1.0."""
        whole = _WHOLE.fullmatch(text)
        return whole[1] if whole and text not in codes else text

    def place(self, number: float | None) -> int | None:
        """Which bin a number is in."""
        if number is None or not self.edges[0] <= number <= self.edges[-1]:
            return None
        return min(bisect_right(self.edges, number), len(self.edges) - 1) - 1

    def to_dict(self) -> dict[str, Any]:
        """For JSON; what has its default is left out."""
        fields = {name: getattr(self, name) for name in _FIELDS} | {"edges": [_edge(edge) for edge in self.edges]}
        return {name: _plain(part) for name, part in fields.items() if part}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RecodedColumn:
        """The inverse of `to_dict`; edges may be numbers."""
        if unknown := set(data) - set(_FIELDS):
            raise PlanError(f"A recoding has the unknown field {min(unknown)!r}. Its fields are {', '.join(_FIELDS)}.")
        if not isinstance(data.get("column"), str):
            raise PlanError("A recoding must name its column.")
        lists = {name: data[name] for name in ("missing", "leave_out", "edges", "labels") if name in data}
        if not all(isinstance(part, list) for part in lists.values()) or not isinstance(data.get("map", {}), dict):
            raise PlanError(f"The recoding of the column {data['column']!r} has a field of another kind than expected.")
        made = {**data, **{name: tuple(part) for name, part in lists.items()}}
        return cls(**made | ({"edges": tuple(map(_number_of, data["edges"]))} if "edges" in data else {}))


@dataclass(frozen=True)
class Recoding:
    """How raw data are read: a column for each answer that is recoded, and the columns whose names make up a group.

    >>> sex, age = RecodedColumn(column="sex", map={"1": "f"}), RecodedColumn(column="age")
    >>> Recoding((), (sex, age)).group(["1", "old"])
    'f / old'
    """

    answers: tuple[RecodedColumn, ...] = ()
    groups: tuple[RecodedColumn, ...] = ()

    def __post_init__(self) -> None:
        names = [each.column for each in (*self.answers, *self.groups)]
        if not names or len(set(names)) < len(names):
            raise PlanError("A recoding is of one column or more, each of them once.")
        if any(each.missing_as is not None or each.other is not None for each in self.groups):
            raise PlanError("A group has no missing answer or other answers: name such groups by a map.")

    def group(self, cells: Sequence[str | None]) -> str | None:
        """The name of the group that a person with these cells is in; None where a part is missing."""
        parts = [each.read(cell) for each, cell in zip(self.groups, cells, strict=True)]
        return None if None in parts else CROSSED.join(part or "" for part in parts)

    def without_bins(self, columns: Collection[str]) -> Recoding:
        """The same where the answers of some columns are any numbers."""
        bare = (replace(each, edges=(), labels=()) if each.column in columns else each for each in self.answers)
        return replace(self, answers=tuple(bare))

    def check(self, answers: Mapping[str, Sequence[Value] | None], names: Sequence[str]) -> None:
        """Raise `PlanError` unless bins and missing answers are among these answers, by column, and all groups of these
        names can result. None stands for any number.
        """
        for each in self.answers:
            known = answers.get(each.column, ()) or ()
            made = [*each.labels, *(name for name in (each.missing_as, each.other) if name is not None)]
            texts = {str(value) for value in known}
            if each.column not in answers or not all(name in texts or number_in(name) in known for name in made):
                raise PlanError(f"The recoding of {each.column!r} must lead to answers of the plan.")
        if self.groups and not (names and all(self._results(name.split(CROSSED)) for name in names)):
            raise PlanError("The names of a plan's groups must be what their recoded columns result in.")

    def _results(self, parts: list[str]) -> bool:
        """Whether a group of these parts can result, or one whose last part is its arm."""
        if len(self.groups) == 1:
            column = self.groups[0]
            return not column.labels or bool({CROSSED.join(parts), CROSSED.join(parts[:-1])} & set(column.labels))
        fits = [not each.labels or part in each.labels for each, part in zip(self.groups, parts, strict=False)]
        return all(fits) and len(parts) in (len(self.groups), len(self.groups) + 1)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "answers": [each.to_dict() for each in self.answers],
            "groups": [each.to_dict() for each in self.groups],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Recoding:
        """The inverse of `to_dict`."""
        if not set(data) <= {"answers", "groups"}:
            raise PlanError("A recoding has the fields 'answers' and 'groups'.")
        return cls(
            tuple(RecodedColumn.from_dict(each) for each in data.get("answers", ())),
            tuple(RecodedColumn.from_dict(each) for each in data.get("groups", ())),
        )


def number_in(text: str) -> float | None:
    """The number that the `text` of a cell is, with a decimal point; None where it is none.

    >>> number_in("55.0"), number_in("1e3"), number_in("1_000"), number_in("inf")
    (55.0, 1000.0, None, None)
    """
    return float(text) if _NUMBER.fullmatch(text) else None


def _edge(edge: float) -> str:
    """An edge as text: whole numbers without a point."""
    return str(int(edge)) if float(edge).is_integer() and abs(edge) < 2**53 else repr(float(edge))


def _number_of(edge: Any) -> float:
    if isinstance(edge, bool) or not isinstance(edge, int | float | str):
        raise PlanError("Edges of bins are numbers, inf or -inf.")
    if isinstance(edge, str) and edge not in ("inf", "-inf") and number_in(edge) is None:
        raise PlanError(f"Edges of bins are numbers, inf or -inf. Got {edge!r}.")
    return float(edge)


def _plain(part: Any) -> Any:
    return dict(part) if isinstance(part, Mapping) else list(part) if isinstance(part, tuple) else part
