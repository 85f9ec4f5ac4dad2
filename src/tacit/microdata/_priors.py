"""Priors with counts from microdata: the answers in each group, the number of records behind them, and notes.

The number of records says how reliable a prior is, so counts never exceed the number of people.
With weights w a group's people count as
(Σw)²/Σw² records (Kish's effective sample size), and the column `share` says how large the group is.

A group of few records borrows from what its columns predict. With counts n_gx of the answers x in group g, and m_g(x)
the shares that an additive model of all group columns gives (on the scale of log-odds), its shares are

    (n_gx + k · m_g(x)) / (n_g + k),

the mean of a Dirichlet distribution, where k, in records, is the one under which the counts of all groups are most
likely. The model does not depend on the order of the columns.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from tacit.designs.prior_file import GroupPrior, read_priors, recoding_lines, strength_of
from tacit.disk import TextTable, write_text
from tacit.exact import Floats
from tacit.files.columns import NO_ANSWER, InputError, check_columns
from tacit.microdata.records import Bins, Cell, numbers_among, read_cells
from tacit.plan import CROSSED, RecodedColumn, Recoding, number_in
from tacit.prior import numbers_if_all
from tacit.prior.names import clean_name, nearest

#: A group of fewer records borrows from others.
LEAST = 30
#: Counts are written in units of 1/10,000 of a record.
UNITS = 10_000
#: Rounds of fitting the additive model, and the change of shares that ends it.
_ROUNDS, _CLOSE = 50, 1e-4


@dataclass(frozen=True)
class PriorTable:
    """Priors as a prior file has them: how often each value comes in each group, and what was done to get there.

    `n_counted` of `n_rows` rows are in it, `left_out` says why the others are not. With weights, `shares` are the
    groups' parts of all people. `recoding` says how raw cells became these answers and groups; the file begins with it.
    """

    values: tuple[str, ...]
    groups: Mapping[str | None, tuple[float, ...]]
    shares: Mapping[str | None, float] | None
    n_rows: int
    n_counted: int
    left_out: Mapping[str, int]
    notes: tuple[str, ...]
    recoding: Recoding | None = None

    def to_csv(self) -> str:
        """The prior file."""
        text = io.StringIO()
        text.write("" if self.recoding is None else recoding_lines(self.recoding))
        writer = csv.writer(text, lineterminator="\n")
        named, weighted = None not in self.groups, self.shares is not None
        writer.writerow([*(["group"] if named else []), "value", "count", *(["share"] if weighted else [])])
        for name, counts in self.groups.items():
            share = [] if self.shares is None else [f"{self.shares[name]:.9f}"]
            for value, written in zip(self.values, _written(counts), strict=True):
                writer.writerow([*([name] if named else []), value, written, *share])
        return text.getvalue()

    def save(self, path: str | Path) -> None:
        """Write the prior file, atomically."""
        write_text(path, self.to_csv())

    def priors(self, **options: Any) -> list[GroupPrior]:
        """What `read_priors` reads from the file, for `make_plan`; it has the options."""
        return read_priors(io.StringIO(self.to_csv()), **options)


def priors_from(
    data: Any,
    column: str,
    *,
    group: str | Sequence[str] = (),
    weight: str | None = None,
    values: Sequence[str] | None = None,
    map: Mapping[str, Any] | None = None,
    bins: str | Mapping[str, str] | None = None,
    means: bool = False,
    missing: Collection[str] | Mapping[str, Collection[str]] = (),
    missing_as: str | None = None,
    leave_out: Collection[str] = (),
    rare: int = 0,
    least: int = LEAST,
    sheet: str | None = None,
    separator: str | None = None,
) -> PriorTable:
    """Count the answers in a column of microdata, group by group.

    Args:
        data: a file (CSV with any separator, Parquet, xlsx, JSON lines, Arrow), a data frame or an Arrow table.
        column: the column with the answers.
        group: columns with the groups; several make crossed groups, named `north / old`.
        weight: a column with survey weights; people then count as their effective number.
        values: the possible answers, in order, where others are mistakes; else those that are found, numbers by size,
            others in the order of the map and of the data.
        map: other names for answers, `{"Y": "yes"}`, or for groups, `{"sex": {"1": "female"}}`; bins have names, too.
        bins: edges such as `"0,18,65,inf"`, or a number of bins, for answers; `{"age": "18,65,inf"}` for any column.
        means: bins are named by the mean of their answers, for sums with `between`.
        missing: texts that mean that there is no answer, beside empty cells; `{"age": ["999"]}` for any column.
        missing_as: counts missing answers as an answer of this name; else their rows are left out.
        leave_out: answers that are not counted.
        rare: answers of fewer people are put together as `other`.
        least: groups of fewer records borrow from what their columns predict; they keep their own number of records.
        sheet: which sheet of a workbook; else the first.
        separator: between the cells of a CSV file; else it is found.

    Returns:
        The priors with their counts and the recoding, notes on what was left out or borrowed, and `save` for a prior
        file.

    >>> table = priors_from({"ill": ["Y", "N", "N", None]}, "ill", map={"Y": "yes", "N": "no"}, least=0)
    >>> table.values, table.groups, table.left_out
    (('yes', 'no'), {None: (1.0, 2.0)}, {'no answer': 1})
    """
    groups = (group,) if isinstance(group, str) else tuple(group)
    columns = _columns([column], groups, weight, map or {}, missing, missing_as, leave_out)
    edges = {column: bins} if isinstance(bins, str) else dict(bins or {})
    if means and column not in edges:
        raise InputError("Means are those of bins: give bins of the answers, too.")
    people = People.counted(data, columns, 1, weight, sheet, separator)
    people.put_all_in_bins(edges, means)
    names = [clean_name(each) for each in values or ()]
    people.merge_rare(rare, names)
    domain = people.domain(names)
    counts, shares = people.counts(domain, least)
    facts = people.n_rows, people.n_counted, dict(people.left_out), tuple(people.notes)
    table = PriorTable(domain, counts, shares, *facts, people.recoding)
    table.priors()
    return table


def counts_from(
    path: str | Path | TextIO,
    yes: str,
    of: str,
    *,
    group: str | Sequence[str] = (),
    values: Sequence[str] = ("yes", "no"),
) -> PriorTable:
    """Priors from a table of counts as offices publish it: a row for each group, how many said yes, and of how many.

    Args:
        path: the table, as CSV or xlsx.
        yes: the column with the number of people who gave the first answer.
        of: the column with the number of all people.
        group: the columns with the groups; else all others.
        values: the two answers.

    Returns:
        The priors with their counts.

    >>> counts_from(io.StringIO("age,yes,all\\nyoung,1,100\\nold,20,100\\n"), "yes", "all").groups
    {'young': (1.0, 99.0), 'old': (20.0, 80.0)}
    """
    table, name = TextTable.read(path, [yes, of]), path if isinstance(path, str | Path) else "The table"
    asked = [group] if isinstance(group, str) else list(group)
    if len(values) != 2 or yes == of:
        raise InputError("A table of counts has a column for one of two answers, and another for all people.")
    check_columns({yes: "yes", of: "of"} | dict.fromkeys(asked, "group"), table.columns, str(name))
    places = [table.columns.index(each) for each in asked or table.columns if each not in (yes, of)]
    found: dict[str | None, tuple[float, ...]] = {}
    for line, cells in table.rows:
        if len(cells) != len(table.columns):
            raise InputError(f"{name}, line {line}: expected {len(table.columns)} cells.")
        part, total = (_count(cells[table.columns.index(each)]) for each in (yes, of))
        names = [clean_name(cells[place]) for place in places]
        of_group = CROSSED.join(names) or None
        if part is None or total is None or not 0 <= part <= total or not total:
            raise InputError(
                f"{name}, line {line}: expected whole numbers with '{yes}' from 0 to '{of}'. Leave out lines of notes."
            )
        if not all(names) or of_group in found:
            raise InputError(f"{name}, line {line}: every line of a table of counts needs a group of its own.")
        found[of_group] = (float(part), float(total - part))
    if not found:
        raise InputError(f"{name} has no rows.")
    everybody = [sum(counts) for counts in zip(*found.values(), strict=True)]
    for of_group, counts in found.items() if len(found) > 2 else ():
        if all(2 * mine == together for mine, together in zip(counts, everybody, strict=True)):
            raise InputError(f"{name}: {of_group!r} is the sum of the other lines. Leave it out: it counts all twice.")
    n = round(sum(everybody))
    made = PriorTable(tuple(clean_name(each) for each in values), found, None, n, n, {}, ())
    made.priors()
    return made


def _count(cell: str) -> int | None:
    """A whole number, with or without separators of thousands; None where it is none.

    >>> _count("1 234"), _count("1,234"), _count("12.5"), _count("7.0")
    (1234, 1234, None, 7)
    """
    text = re.sub(r"(?<=[0-9])[\s,](?=[0-9]{3}(?![0-9]))", "", cell.strip())
    number = number_in(text)
    return int(number) if number is not None and number.is_integer() and number < 2**53 else None


@dataclass(frozen=True)
class JointTable:
    """Joint counts of the answers to several questions: a row for each combination that was seen, in each group.

    `recoding` says how raw cells became these answers and groups.
    """

    columns: tuple[str, ...]
    groups: Mapping[str | None, Mapping[tuple[str, ...], float]]
    n_rows: int
    n_counted: int
    left_out: Mapping[str, int]
    notes: tuple[str, ...]
    recoding: Recoding

    def to_csv(self) -> str:
        """The file of joint counts that `tacit plan --questions` reads."""
        text = io.StringIO()
        text.write(recoding_lines(self.recoding))
        writer = csv.writer(text, lineterminator="\n")
        named = None not in self.groups
        writer.writerow([*(["group"] if named else []), *self.columns, "count"])
        for name, counts in self.groups.items():
            for key, written in zip(counts, _written(list(counts.values())), strict=True):
                writer.writerow([*([name] if named else []), *key, written])
        return text.getvalue()

    def save(self, path: str | Path) -> None:
        """Write the file, atomically."""
        write_text(path, self.to_csv())


def joint_from(
    data: Any,
    columns: Sequence[str],
    *,
    group: str | Sequence[str] = (),
    weight: str | None = None,
    map: Mapping[str, Any] | None = None,
    bins: Mapping[str, str] | None = None,
    missing: Collection[str] | Mapping[str, Collection[str]] = (),
    missing_as: str | None = None,
    leave_out: Collection[str] = (),
    sheet: str | None = None,
    separator: str | None = None,
) -> JointTable:
    """Count the combinations of answers in several columns of microdata, group by group.

    A person who lacks one of the answers is left out.

    Args:
        data: a file or a table, as of `priors_from`.
        columns: the columns of answers, one for each question.
        group: the column of the groups, or several that are crossed.
        weight: the column of survey weights.
        map: new names of answers, of all columns or by column.
        bins: edges that turn numbers into classes, by column.
        missing: codes that mean no answer, of all columns of answers or by column.
        missing_as: the answer that missing ones become.
        leave_out: answers whose people are left out.
        sheet: of a spreadsheet.
        separator: of a CSV file, if another than it looks like.

    Returns:
        The counts of all combinations that were seen, with notes and `to_csv`.

    >>> joint_from({"a": ["Y", "N", "N", "Y"], "b": ["1", "2", "2", None]}, ["a", "b"]).groups
    {None: {('Y', '1'): 1.0, ('N', '2'): 2.0}}
    """
    groups = (group,) if isinstance(group, str) else tuple(group)
    if len(columns) < 2:
        raise InputError("Joint counts are of two columns of answers or more.")
    for name in columns:
        if name in ("group", "count", "probability"):
            raise InputError(f"A question cannot be called '{name}': the file of joint counts has such a column.")
    made = _columns(columns, groups, weight, map or {}, missing, missing_as, leave_out)
    people = People.counted(data, made, len(columns), weight, sheet, separator)
    people.put_all_in_bins(bins or {}, means=False)
    found: dict[str | None, dict[tuple[str, ...], Weights]] = {}
    for whole in people.in_order():
        of = CROSSED.join(whole[len(columns) :]) if groups else None
        found.setdefault(of, {})[whole[: len(columns)]] = people.kept[whole]
    counted: dict[str | None, dict[tuple[str, ...], float]] = {}
    for of, part in found.items():
        together = _together(part.values())
        counted[of] = {key: each.weight / together.weight * together.records for key, each in part.items()}
    facts = people.n_rows, people.n_counted, dict(people.left_out), tuple(people.notes)
    return JointTable(tuple(columns), counted, *facts, people.recoding)


def _written(counts: Sequence[float]) -> list[str]:
    """Counts as a file has them."""
    return [f"{count // UNITS}.{count % UNITS:04d}".rstrip("0").rstrip(".") for count in _in_units(counts)]


def _in_units(counts: Sequence[float]) -> list[int]:
    """Counts in units of 1/10000 record that sum to no more than the records (to all of them where these are whole);
    what is positive stays so.

    >>> _in_units([2 / 3, 1 / 3, 0])
    [6667, 3333, 0]
    """
    total, fine = math.floor(sum(counts) * UNITS + 1e-6), [count * UNITS for count in counts]
    floors = [max(math.floor(each + 1e-6), int(each > 0)) for each in fine]
    by_remainder = sorted(range(len(fine)), key=lambda place: floors[place] - fine[place])
    for place in by_remainder[: max(0, total - sum(floors))]:
        floors[place] += 1
    floors[max(range(len(fine)), key=fine.__getitem__)] -= max(0, sum(floors) - total)
    return floors


def _columns(
    answers: Sequence[str],
    groups: Sequence[str],
    weight: str | None,
    given: Mapping[str, Any],
    missing: Collection[str] | Mapping[str, Collection[str]],
    missing_as: str | None,
    leave_out: Collection[str],
) -> list[RecodedColumn]:
    """How each column is read, first those of answers; what names no column is for all answers."""
    every = [*answers, *groups]
    if len(set(every)) < len(every) or weight in every:
        raise InputError("The columns of answers, groups and weights must differ.")
    plain = {clean_name(old): clean_name(new) for old, new in given.items() if isinstance(new, str)}
    nested = {column: new for column, new in given.items() if not isinstance(new, str)}
    codes: Mapping[str, Collection[str]] = missing if isinstance(missing, Mapping) else dict.fromkeys(answers, missing)
    for what, named in (("map", nested), ("missing", codes)):
        _known(named, every, what)
    made = []
    for column in every:
        own = {clean_name(old): clean_name(new) for old, new in nested.get(column, {}).items()}
        each = RecodedColumn(
            column=column, map=(plain if column in answers else {}) | own,
            missing=tuple(dict.fromkeys(clean_name(code) for code in codes.get(column, ()))),
        )  # fmt: skip
        if column in answers:
            as_answer = None if missing_as is None else clean_name(missing_as)
            left = tuple(dict.fromkeys(clean_name(name) for name in leave_out))
            each = replace(each, missing_as=as_answer, leave_out=left)
        made.append(each)
    return made


def _known(named: Mapping[str, Any], columns: Sequence[str], what: str) -> None:
    other = next((name for name in named if name not in columns), None)
    if other is not None:
        hint = nearest(other, columns)
        raise InputError(f"The '{what}' is for '{other}', which is no column of answers or groups.{hint}")


#: A column with more different answers or groups is an identifier, a number or free text.
MOST_VALUES = 1000
#: Answers of fewer people are pointed out.
_FEW = 5
_SHOWN = 5


@dataclass
class Weights:
    """How many people, the sum of their weights and that of the squares."""

    n: int = 0
    weight: float = 0.0
    squares: float = 0.0

    def add(self, n: int, weight: float, squares: float) -> None:
        self.n, self.weight, self.squares = self.n + n, self.weight + weight, self.squares + squares

    @property
    def records(self) -> float:
        """Kish: (Σw)²/Σw²; without weights the people themselves."""
        return self.weight**2 / self.squares if self.squares else 0.0


@dataclass
class People:
    """Rows on their way: answers and groups with how many people they stand for, in the order of the data.

    The first `n_answers` of the `columns` hold answers.
    """

    cells: Sequence[Cell]
    columns: list[RecodedColumn]
    n_answers: int
    weighted: bool
    notes: list[str]
    kept: dict[tuple[str, ...], Weights] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)

    @classmethod
    def counted(
        cls,
        data: Any,
        columns: list[RecodedColumn],
        n_answers: int,
        weight: str | None,
        sheet: str | None,
        separator: str | None,
    ) -> People:
        """Read, and recode as far as no bins are needed."""
        cells, notes = read_cells(data, [each.column for each in columns], weight, sheet, separator)
        people = cls(cells, columns, n_answers, weight is not None, list(notes))
        people.recode()
        return people

    @property
    def n_rows(self) -> int:
        return sum(cell.n for cell in self.cells)

    @property
    def n_counted(self) -> int:
        return sum(each.n for each in self.kept.values())

    @property
    def recoding(self) -> Recoding:
        """What a plan needs to read raw data as these were."""
        return Recoding(tuple(self.columns[: self.n_answers]), tuple(self.columns[self.n_answers :]))

    def recode(self) -> None:
        """Cells to answers and names of groups; rows without them are left out, and said."""
        stated = [replace(column, leave_out=()) for column in self.columns]
        for cell in self.cells:
            key = [column.read(text) for column, text in zip(stated, cell.texts, strict=True)]
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
            for cell in self.cells
            if any(clean_name(text or "") in column.map for text, column in zip(cell.texts, answers, strict=False))
        )
        if renamed:
            self.notes.append(f"{renamed:,} rows are counted under another answer, as --map says")

    def _note_unseen(self, places: Sequence[int], where: str) -> None:
        """Codes of some columns that are in none of their cells: probably typing errors."""
        columns = [self.columns[place] for place in places]
        seen = {clean_name(cell.texts[place] or "") for cell in self.cells for place in places}
        seen |= {name for column in columns for name in column.map.values()}
        seen |= {text.rstrip("0").removesuffix(".") for text in seen if "." in text}
        for option in ("map", "missing", "leave_out"):
            named = dict.fromkeys(name for column in columns for name in getattr(column, option))
            unseen = [name for name in named if name not in seen]
            if unseen:
                self.notes.append(f"{_names(unseen)} of --{option.replace('_', '-')} is nowhere {where}")

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
                f"{_names(alone)} is an answer of fewer than {_FEW} people, and a plan is public; --rare puts such "
                "answers together"
            )
        suspects = sorted(answer for answer in often if answer.casefold() in NO_ANSWER)
        if suspects:
            self.notes.append(f"{_names(suspects)} counts as an answer; --missing says that it is none")

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

    def counts(
        self, domain: Sequence[str], least: int
    ) -> tuple[dict[str | None, tuple[float, ...]], dict[str | None, float] | None]:
        """Records by value for each group, and with weights the groups' shares."""
        piles: dict[tuple[str, ...], dict[str, Weights]] = {}
        for answer, *group in self.in_order():
            piles.setdefault(tuple(group), {})[answer] = self.kept[answer, *group]
        if len(piles) > MOST_VALUES:
            raise InputError(
                f"There are {len(piles):,} groups, more than {MOST_VALUES:,}. Use fewer columns, or --bins."
            )
        records = {key: _together(pile.values()) for key, pile in piles.items()}
        full = [key for key in piles if records[key].weight > 0]
        if not full:
            raise InputError("All weights are zero, so there is nothing to count.")
        if len(full) < len(piles):
            weightless = [CROSSED.join(key) for key in piles if key not in full]
            self.notes.append(f"{_names(weightless)} has no weight and is left out")
        table = np.array(
            [
                [piles[key][value].weight if value in piles[key] else 0.0 for value in domain]
                for key in full
            ]
        )  # fmt: skip
        table *= np.array([records[key].records / records[key].weight for key in full])[:, None]
        self._borrow(full, table, least)
        names = [CROSSED.join(key) or None for key in full]
        made = {name: tuple(row) for name, row in zip(names, table.tolist(), strict=True)}
        if not self.weighted:
            return made, None
        total = sum(records[key].weight for key in full)
        people = sum(records[key].n for key in full)
        self.notes.append(f"with their weights, {people:,} people count as {table.sum():,.0f} records (Kish)")
        return made, {name: records[key].weight / total for name, key in zip(names, full, strict=True)}

    def _borrow(self, full: Sequence[tuple[str, ...]], table: Floats, least: int) -> None:
        """Groups of few records, in place: drawn towards what the columns of groups predict."""
        sizes = table.sum(axis=1)
        small = np.flatnonzero(sizes < least).tolist()
        if not small or len(full) < 2:
            return
        expected = additive(table, full)
        k = strength_of(table, expected)
        for g in small:
            table[g] = sizes[g] * (table[g] + k * expected[g]) / (sizes[g] + k)
        few = "1 group has" if len(small) == 1 else f"{len(small)} groups have"
        columns = [column.column for column in self.columns[self.n_answers :]]
        source = "of everybody" if len(columns) == 1 else f"that {' and '.join(columns)} predict"
        self.notes.append(
            f"{few} fewer than {least} records: shares are drawn towards those {source}, by {k:,.3g} records, and "
            f"stand for as many records as before: {_names([CROSSED.join(full[g]) for g in small])}; see --least"
        )

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


def additive(table: Floats, groups: Sequence[tuple[str, ...]]) -> Floats:
    """The shares of answers in each group under an additive model of the columns of groups.

    The log-odds of an answer are those of all people plus one term for each column. A term is fitted to the counts of
    its categories, given the others, and drawn towards nothing by as many records as make these counts most likely: a
    column that does not predict adds nothing, and a category of few records little. With one column the model is the
    shares of all people.

    >>> counts = np.array([[900.0, 100.0], [800.0, 200.0], [600.0, 400.0], [3.0, 0.0]])
    >>> additive(counts, [("f", "young"), ("m", "young"), ("f", "old"), ("m", "old")])[3].round(2).tolist()
    [0.44, 0.56]
    """
    everybody, sizes = table.sum(axis=0) / table.sum(), table.sum(axis=1)
    if len(groups[0]) < 2:
        return np.tile(everybody, (len(groups), 1))
    places = [np.unique(names, return_inverse=True)[1] for names in zip(*groups, strict=True)]
    counted = [_summed(place, table) for place in places]
    terms = [np.ones_like(own) for own in counted]

    def shares(without: int | None = None) -> Floats:
        made = everybody * np.prod([terms[k][place] for k, place in enumerate(places) if k != without], axis=0)
        return np.asarray(made / made.sum(axis=1, keepdims=True))

    for _ in range(_ROUNDS):
        before = shares()
        for k, (place, own) in enumerate(zip(places, counted, strict=True)):
            expected = _summed(place, sizes[:, None] * shares(without=k))
            around = expected / expected.sum(axis=1, keepdims=True)
            extra = strength_of(own, around) * around
            terms[k] = np.divide(own + extra, expected + extra, out=np.ones_like(own), where=around > 0)
        if np.abs(shares() - before).max() < _CLOSE:
            break
    return shares()


def _summed(place: Any, rows: Floats) -> Floats:
    """Rows added up by their places."""
    found = np.zeros((int(place.max()) + 1, rows.shape[1]))
    np.add.at(found, place, rows)
    return found


def _together(parts: Collection[Weights]) -> Weights:
    total = Weights()
    for each in parts:
        total.add(each.n, each.weight, each.squares)
    return total


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in sorted(names)[:_SHOWN])
    return shown + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
