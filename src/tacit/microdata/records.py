"""Records of people, read by the reader of all commands, recoded and counted; maps and bins as they are written."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa

from tacit.files.columns import NO_ANSWER, STAMP, InputError, numbers_of, raw_texts, stamp_of
from tacit.files.reading import reading
from tacit.plan import CROSSED, RecodedColumn, Recoding, number_in
from tacit.prior import clean_name, listed, nearest, numbers_if_all

#: More different rows than this are no answers and groups.
MOST_ROWS = 1_000_000


@dataclass
class Weights:
    """How many people, `n_unweighted` of whom have no weight, the sum of their weights and that of the squares."""

    n: int = 0
    weight: float = 0.0
    squares: float = 0.0
    n_unweighted: int = 0

    def add(self, n: int, weight: float, squares: float, n_unweighted: int = 0) -> None:
        self.n, self.weight, self.squares = self.n + n, self.weight + weight, self.squares + squares
        self.n_unweighted += n_unweighted

    @property
    def records(self) -> float:
        """Kish: (Σw)²/Σw²; without weights the people themselves."""
        return self.weight**2 / self.squares if self.squares else 0.0


#: The cells of a row as they are written, None where nothing is.
Texts = tuple[str | None, ...]


def read_cells(
    data: Any, columns: Sequence[str], weight: str | None, sheet: str | None, separator: str | None
) -> tuple[dict[Texts, Weights], tuple[str, ...]]:
    """The different rows of some columns, in the order in which they come first, with the people in them; notes."""
    wanted = dict.fromkeys(columns, "group") | {columns[0]: "column"}
    wanted |= {weight: "weight"} if weight is not None else {}
    name = str(data) if isinstance(data, str | Path) else "The table"
    found: dict[Texts, Weights] = {}
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
                found.setdefault(tuple(key), Weights()).add(n, total, squares, bad)
            if len(found) > MOST_ROWS:
                raise InputError(f"{name} has more than {MOST_ROWS:,} different rows of answers and groups.")
    if source.malformed:
        raise InputError(f"{name} has rows with more or fewer cells than its first line. Correct them.")
    return found, source.notes


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


class Raw(TypedDict, total=False):
    """How raw data are read, see `priors_from`."""

    group: str | Sequence[str]
    weight: str | None
    map: Mapping[str, Any]
    missing: Collection[str] | Mapping[str, Collection[str]]
    missing_as: str | None
    leave_out: Collection[str]
    sheet: str | None
    separator: str | None


def _columns_of(answers: Sequence[str], groups: Sequence[str], raw: Raw) -> list[RecodedColumn]:
    """How each column is read, first those of answers; what names no column is for all answers."""
    every = [*answers, *groups]
    given, missing, missing_as = raw.get("map") or {}, raw.get("missing", ()), raw.get("missing_as")
    if len(set(every)) < len(every) or raw.get("weight") in every:
        raise InputError("The columns of answers, groups and weights must differ.")
    plain = {old: new for old, new in given.items() if isinstance(new, str)}
    nested = {column: own for column, own in given.items() if not isinstance(own, str)}
    codes: Mapping[str, Collection[str]] = missing if isinstance(missing, Mapping) else dict.fromkeys(answers, missing)
    for what, named in (("map", nested), ("missing", codes)):
        _known(named, every, what)

    def read(column: str) -> RecodedColumn:
        is_answer = column in answers
        renamed = (plain if is_answer else {}) | dict(nested.get(column, {}))
        return RecodedColumn(
            column=column, map={clean_name(old): clean_name(new) for old, new in renamed.items()},
            missing=_clean(codes.get(column, ())), leave_out=_clean(raw.get("leave_out", ()) if is_answer else ()),
            missing_as=clean_name(missing_as) if is_answer and missing_as is not None else None,
        )  # fmt: skip

    return list(map(read, every))


def _clean(names: Collection[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(clean_name, names)))


def _known(named: Mapping[str, Any], columns: Sequence[str], what: str) -> None:
    other = next((name for name in named if name not in columns), None)
    if other is not None:
        hint = nearest(other, columns)
        raise InputError(f"The '{what}' is for '{other}', which is no column of answers or groups.{hint}")


#: A column with more different answers or groups is an identifier, a number or free text.
MOST_VALUES = 1000
#: Answers of fewer people are pointed out.
_FEW = 5


@dataclass
class People:
    """Rows on their way: answers and groups with how many people they stand for, in the order of the data.

    The first `n_answers` of the `columns` hold answers.
    """

    cells: Mapping[Texts, Weights]
    columns: list[RecodedColumn]
    n_answers: int
    weighted: bool
    notes: list[str]
    kept: dict[tuple[str, ...], Weights] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)

    @classmethod
    def counted(cls, data: Any, answers: Sequence[str], raw: Raw) -> People:
        """Read, and recode as far as no bins are needed."""
        group, weight = raw.get("group", ()), raw.get("weight")
        columns = _columns_of(answers, (group,) if isinstance(group, str) else tuple(group), raw)
        names = [each.column for each in columns]
        cells, notes = read_cells(data, names, weight, raw.get("sheet"), raw.get("separator"))
        people = cls(cells, columns, len(answers), weight is not None, list(notes))
        people.recode()
        return people

    @property
    def n_rows(self) -> int:
        return sum(cell.n for cell in self.cells.values())

    @property
    def n_counted(self) -> int:
        return sum(each.n for each in self.kept.values())

    @property
    def facts(self) -> tuple[int, int, dict[str, int], tuple[str, ...], Recoding]:
        """How many rows there are and how many are counted, why others are not, notes, and what a plan needs to read
        raw data as these were.
        """
        recoding = Recoding(tuple(self.columns[: self.n_answers]), tuple(self.columns[self.n_answers :]))
        return self.n_rows, self.n_counted, dict(self.left_out), tuple(self.notes), recoding

    def recode(self) -> None:
        """Cells to answers and names of groups; rows without them are left out, and said."""
        stated = [replace(column, leave_out=()) for column in self.columns]
        for texts, cell in self.cells.items():
            key = [column.read(text) for column, text in zip(stated, texts, strict=True)]
            if None in key[: self.n_answers]:
                self._leave_out("no answer", cell.n)
            elif any(name in column.leave_out for name, column in zip(key, self.columns, strict=True)):
                self._leave_out("left out as asked", cell.n)
            elif None in key:
                self._leave_out("no group", cell.n)
            else:
                if cell.n_unweighted:
                    self._leave_out("no weight", cell.n_unweighted)
                self._add(tuple(name or "" for name in key), cell.n - cell.n_unweighted, cell.weight, cell.squares)
        if not self.kept:
            raise InputError("No row has an answer, a group and a weight, so there is nothing to count.")

    def _note_recoded(self) -> None:
        """What was left out and renamed, and codes that are nowhere."""
        answers = self.columns[: self.n_answers]
        where = "in the column" if len(answers) == 1 else "in the columns"
        self._note_unseen(range(self.n_answers), where)
        for place, column in enumerate(self.columns[self.n_answers :], self.n_answers):
            self._note_unseen([place], f"in '{column.column}'")
        if answers[0].missing_as is None and self.left_out.get("no answer"):
            self.notes.append(
                f"{self.left_out['no answer']:,} of {self.n_rows:,} rows have no answer and are left out; "
                "--missing-as counts them as an answer of their own"
            )
        for reason in ("no group", "no weight", "left out as asked"):
            if reason in self.left_out:
                n = self.left_out[reason]
                self.notes.append(f"{n:,} {'row is' if n == 1 else 'rows are'} not counted: {reason}")
        renamed = sum(
            cell.n
            for texts, cell in self.cells.items()
            if any(clean_name(text or "") in column.map for text, column in zip(texts, answers, strict=False))
        )
        if renamed:
            self.notes.append(f"{renamed:,} rows are counted under another answer, as --map says")

    def _note_unseen(self, places: Sequence[int], where: str) -> None:
        """Codes of some columns that are in none of their cells: probably typing errors."""
        columns = [self.columns[place] for place in places]
        seen = {clean_name(texts[place] or "") for texts in self.cells for place in places}
        seen |= {name for column in columns for name in column.map.values()}
        seen |= {text.rstrip("0").removesuffix(".") for text in seen if "." in text}
        for option in ("map", "missing", "leave_out"):
            named = dict.fromkeys(name for column in columns for name in getattr(column, option))
            unseen = [name for name in named if name not in seen]
            if unseen:
                self.notes.append(f"{listed(sorted(unseen))} of --{option.replace('_', '-')} is nowhere {where}")

    def put_all_in_bins(self, edges: Mapping[str, str], means: bool) -> None:
        """Numbers of some columns to bins; `means` names those of answers by their means."""
        names = [column.column for column in self.columns]
        _known(edges, names, "bins")
        for place, name in enumerate(names):
            if name in edges:
                self._put_in_bins(place, str(edges[name]), means and place == 0)
        if len(names) > self.n_answers + 1 and any(
            CROSSED in part for key in self.kept for part in key[self.n_answers :]
        ):
            raise InputError(f"A name of groups that are crossed must not hold '{CROSSED}'. --map gives it another.")
        self._note_recoded()

    def _put_in_bins(self, place: int, edges: str, means: bool) -> None:
        """Numbers of one column to bins; what is no number, or in no bin, is an error."""
        column = self.columns[place]
        often: dict[str, float] = {}
        for key, each in self.kept.items():
            if key[place] != column.missing_as:
                often[key[place]] = often.get(key[place], 0.0) + each.n
        numbers, others = numbers_among(list(often.items()))
        if others:
            raise InputError(
                f"{others:,} rows have no number in '{column.column}', which is to be put in bins. --missing and --map "
                "say what they mean; decimals are written with a point."
            )
        found = Bins.read(edges, numbers)
        column = replace(column, edges=found.edges, labels=found.labels)
        outside = sum(n for number, n in numbers.items() if column.place(number) is None)
        if outside:
            raise InputError(
                f"{outside:,.0f} rows of '{column.column}' lie in no bin. -inf and inf are edges, too; --missing "
                f"{column.column}:CODE says that a code is no answer."
            )
        if means:
            column = replace(column, labels=self._means(column, place))
        # A map renames bins, too: "65 and more" is English.
        labels = tuple(column.map.get(label, label) for label in column.labels)
        rest = {old: new for old, new in column.map.items() if old not in column.labels}
        column = replace(column, labels=labels, map=rest)
        self.columns[place] = column
        self._rename(place, {text: column.labels[column.place(number_in(text)) or 0] for text in often})
        if "," not in edges:
            self.notes.append(
                f"'{column.column}' is put in bins at {', '.join(f'{edge:.12g}' for edge in found.edges)}"
            )

    def _means(self, column: RecodedColumn, place: int) -> tuple[str, ...]:
        """The mean of the answers in each bin; where there are none, its middle."""
        if column.missing_as is not None:
            raise InputError("A missing answer has no number, so it cannot be an answer where bins have means.")
        sums: dict[int, list[float]] = {k: [0.0, 0.0] for k in range(len(column.labels))}
        for key, each in self.kept.items():
            number = number_in(key[place]) or 0.0
            here = sums[column.place(number) or 0]
            here[0], here[1] = here[0] + each.weight * number, here[1] + each.weight
        low, high = column.edges[0], column.edges[-1]
        self.notes.append(f"bins are named by their means; plan the sum with --between {low:.12g},{high:.12g}")
        middles = [(a + b) / 2 for a, b in zip(column.edges, column.edges[1:], strict=False)]
        means = [
            total / weight if weight else middle for (total, weight), middle in zip(sums.values(), middles, strict=True)
        ]
        return tuple(f"{mean:.6g}" for mean in means)

    def merge_rare(self, rare: int, names: Sequence[str]) -> None:
        """Answers of few people become `other`, which is said; where they are kept, that is said too."""
        often: dict[str, int] = {}
        for (answer, *_), each in self.kept.items():
            often[answer] = often.get(answer, 0) + each.n
        few = [answer for answer, n in often.items() if n < rare and answer not in names]
        if few:
            self._rename(0, dict.fromkeys(few, "other"))
            mine = self.columns[0]
            # The plan is public: rare answers are not listed in it.
            as_answer = "other" if mine.missing_as in few else mine.missing_as
            labels = tuple("other" if label in few else label for label in mine.labels)
            self.columns[0] = replace(mine, other="other", labels=labels, missing_as=as_answer)
            n = sum(often[answer] for answer in few)
            self.notes.append(
                f"{len(few)} answers of fewer than {rare} people, {n} in all, are put together as 'other'"
            )
        alone = [answer for answer, n in often.items() if n < _FEW and answer not in few]
        if alone:
            self.notes.append(
                f"{listed(sorted(alone))} is an answer of fewer than {_FEW} people, and a plan is public; --rare puts "
                "such answers together"
            )
        suspects = sorted(answer for answer in often if answer.casefold() in NO_ANSWER)
        if suspects:
            self.notes.append(f"{listed(suspects)} counts as an answer; --missing says that it is none")

    def domain(self, names: Sequence[str]) -> tuple[str, ...]:
        """The values in order: as stated, or as in the data; a missing answer comes last."""
        found, missing_as = dict.fromkeys(key[0] for key in self.kept), self.columns[0].missing_as
        if names:
            known = [*names, *([missing_as] if missing_as and missing_as not in names else [])]
            others = set(found) - set(known)
            if others:
                n = sum(each.n for key, each in self.kept.items() if key[0] in others)
                raise InputError(
                    f"{n:,} rows have {len(others)} answers that are not among the values. Without --values all are "
                    "listed; --map gives them other names, --leave-out leaves them out."
                )
            return tuple(known)
        if len(found) > MOST_VALUES:
            raise InputError(
                f"'{self.columns[0].column}' has {len(found):,} different answers. Numbers need --bins, and names "
                "--values, --map or --rare; an identifier is no answer."
            )
        last = [name for name in dict.fromkeys(("other", missing_as)) if name in found]
        # An empty bin is an answer too.
        listed = [name for name in (*found, *self.columns[0].labels) if name not in last]
        return (*self._ordered(0, listed), *(name or "" for name in last))

    def _ordered(self, place: int, names: Collection[str]) -> list[str]:
        """Names of one column in order: bins as they follow each other, numbers by size, others as the map lists them;
        then answers as they come in the data, and groups by letter.
        """
        column, given = self.columns[place], list(dict.fromkeys(names))
        stated = [name for name in dict.fromkeys((*column.labels, *column.map.values())) if name in given]
        rest = [name for name in given if name not in stated]
        if not stated and any(not isinstance(number, str) for number in numbers_if_all(sorted(rest))):
            return [text for _, text in sorted(zip(numbers_if_all(rest), rest, strict=True))]
        return [*stated, *(rest if place < self.n_answers else sorted(rest))]

    def in_order(self) -> list[tuple[str, ...]]:
        """What was counted, by group and then by the answers, each in its order."""
        orders = [
            {name: k for k, name in enumerate(self._ordered(place, [key[place] for key in self.kept]))}
            for place in range(len(self.columns))
        ]
        turned = [*range(self.n_answers, len(self.columns)), *range(self.n_answers)]
        return sorted(self.kept, key=lambda key: [orders[place][key[place]] for place in turned])

    def _leave_out(self, reason: str, n: int) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + n

    def _add(self, key: tuple[str, ...], n: int, weight: float, squares: float) -> None:
        if n:
            self.kept.setdefault(key, Weights()).add(n, weight, squares)

    def _rename(self, place: int, renamed: Mapping[str, str]) -> None:
        before, self.kept = self.kept, {}
        for key, each in before.items():
            new = renamed.get(key[place], key[place])
            self._add((*key[:place], new, *key[place + 1 :]), each.n, each.weight, each.squares)


def together(parts: Iterable[Weights]) -> Weights:
    total = Weights()
    for each in parts:
        total.add(each.n, each.weight, each.squares)
    return total
