"""Priors with counts from microdata: the answers in each group, the number of records behind them, and notes.

The number of records says how reliable a prior is, so counts never exceed the number of people.
With weights w a group's people count as
(Σw)²/Σw² records (Kish's effective sample size), and the column `share` says how large the group is.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.designs.prior_file import GroupPrior, read_priors
from tacit.disk import write_text
from tacit.files.columns import NO_ANSWER, InputError
from tacit.microdata.records import Bins, Cell, Recoding, numbers_of, read_cells
from tacit.plan import CROSSED
from tacit.prior import numbers_if_all
from tacit.prior.names import clean_name, nearest

#: A group of fewer records takes the shares of a larger one.
LEAST = 30
#: Counts are written in units of 1/10,000 of a record.
UNITS = 10_000


@dataclass(frozen=True)
class PriorTable:
    """Priors as a prior file has them: how often each value comes in each group, and what was done to get there.

    `n_counted` of `n_rows` rows are in it, `left_out` says why the others are not. With weights, `shares` are the
    groups' parts of all people.
    """

    values: tuple[str, ...]
    groups: Mapping[str | None, tuple[float, ...]]
    shares: Mapping[str | None, float] | None
    n_rows: int
    n_counted: int
    left_out: Mapping[str, int]
    notes: tuple[str, ...]

    def to_csv(self) -> str:
        """The prior file."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        named, weighted = None not in self.groups, self.shares is not None
        writer.writerow([*(["group"] if named else []), "value", "count", *(["share"] if weighted else [])])
        for name, counts in self.groups.items():
            share = [] if self.shares is None else [f"{self.shares[name]:.9f}"]
            for value, count in zip(self.values, _in_units(counts), strict=True):
                written = f"{count // UNITS}.{count % UNITS:04d}".rstrip("0").rstrip(".")
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
    missing: Collection[str] = (),
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
        values: the possible answers, in order, where others are mistakes; else those that are found.
        map: other names for answers, `{"Y": "yes"}`, or for groups, `{"sex": {"1": "female"}}`.
        bins: edges such as `"0,18,65,inf"`, or a number of bins, for answers; `{"age": "18,65,inf"}` for any column.
        means: bins are named by the mean of their answers, for sums with `between`.
        missing: texts that mean that there is no answer, beside empty cells.
        missing_as: counts missing answers as an answer of this name; else their rows are left out.
        leave_out: answers that are not counted.
        rare: answers of fewer people are put together as `other`.
        least: groups of fewer records take the shares of all that are alike in the first group columns, or of
            all people; they keep their own number of records.
        sheet: which sheet of a workbook; else the first.
        separator: between the cells of a CSV file; else it is found.

    Returns:
        The priors with their counts, notes on what was left out or borrowed, and `save` for a prior file.

    >>> table = priors_from({"ill": ["Y", "N", "N", None]}, "ill", map={"Y": "yes", "N": "no"}, least=0)
    >>> print(table.to_csv())
    value,count
    no,2
    yes,1
    >>> table.left_out
    {'no answer': 1}
    """
    columns = (column, *([group] if isinstance(group, str) else group))
    if len(set(columns)) < len(columns) or weight in columns:
        raise InputError("The columns of answers, groups and weights must differ.")
    cells, notes = read_cells(data, columns, weight, sheet, separator)
    maps, edges = _by_column(map or {}, columns, "map"), _by_column(bins or {}, columns, "bins")
    names = [clean_name(each) for each in values or ()]
    as_answer = None if missing_as is None else clean_name(missing_as)
    recoding = Recoding(maps.get(column, {}), _cleaned(missing), _cleaned(leave_out), as_answer)
    people = People(cells, columns, weighted=weight is not None, notes=list(notes))
    people.recode(recoding, maps)
    for place, each in enumerate(columns):
        if each in edges:
            people.put_in_bins(place, str(edges[each]), means and place == 0, keep=recoding.missing_as)
    if means and column not in edges:
        raise InputError("Means are those of bins: give bins of the answers, too.")
    people.merge_rare(rare, names)
    domain = people.domain(names, recoding.missing_as)
    counts, shares = people.counts(domain, least)
    table = PriorTable(
        domain, counts, shares, people.n_rows, people.n_counted, dict(people.left_out), tuple(people.notes)
    )
    table.priors()
    return table


@dataclass(frozen=True)
class JointTable:
    """Joint counts of the answers to several questions: a row for each combination that was seen, in each group."""

    columns: tuple[str, ...]
    groups: Mapping[str | None, Mapping[tuple[str, ...], float]]
    n_rows: int
    n_counted: int
    left_out: Mapping[str, int]
    notes: tuple[str, ...]

    def to_csv(self) -> str:
        """The file of joint counts that `tacit plan --questions` reads."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        named = None not in self.groups
        writer.writerow([*(["group"] if named else []), *self.columns, "count"])
        for name, counts in self.groups.items():
            for key, count in zip(counts, _in_units(list(counts.values())), strict=True):
                written = f"{count // UNITS}.{count % UNITS:04d}".rstrip("0").rstrip(".")
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
    missing: Collection[str] = (),
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
        missing: codes that mean no answer.
        missing_as: the answer that missing ones become.
        leave_out: answers whose people are left out.
        sheet: of a spreadsheet.
        separator: of a CSV file, if another than it looks like.

    Returns:
        The counts of all combinations that were seen.

    Args:
        data: a file or a data frame with one row per person.
        columns: the columns with the answers, two or more.
        group: a column with groups, or several that are crossed.
        weight: a column with survey weights.
        map: other names for answers and groups.
        bins: edges of bins for columns of numbers.
        missing: texts that mean no answer.
        missing_as: count missing answers as an answer of this name.
        leave_out: answers that are not counted.
        sheet: of a workbook.
        separator: between the cells of a CSV file.

    Returns:
        The counts of the combinations, with notes and `to_csv`.

    >>> table = joint_from({"a": ["Y", "N", "N", "Y"], "b": ["1", "2", "2", None]}, ["a", "b"])
    >>> print(table.to_csv())
    a,b,count
    N,2,2
    Y,1,1
    """
    groups = (group,) if isinstance(group, str) else tuple(group)
    every = (*columns, *groups)
    if len(set(every)) < len(every) or weight in every or len(columns) < 2:
        raise InputError("The columns of answers, groups and weights must differ, with two columns of answers or more.")
    for name in columns:
        if name in ("group", "count", "probability"):
            raise InputError(f"A question cannot be called '{name}': the file of joint counts has such a column.")
    cells, notes = read_cells(data, every, weight, sheet, separator)
    plain = {clean_name(old): clean_name(new) for old, new in (map or {}).items() if isinstance(new, str)}
    maps = _by_column({old: new for old, new in (map or {}).items() if not isinstance(new, str)}, every, "map")
    as_answer = None if missing_as is None else clean_name(missing_as)
    people = People(cells, every, weighted=weight is not None, notes=list(notes))
    read = [
        Recoding(plain | maps.get(column, {}), _cleaned(missing), _cleaned(leave_out), as_answer) for column in columns
    ] + [Recoding(maps.get(column, {})) for column in groups]
    for cell in cells:
        key = [each.answer(text) for each, text in zip(read, (cell.answer, *cell.groups), strict=True)]
        answers, names = key[: len(columns)], key[len(columns) :]
        if None in answers:
            people._leave_out("no answer", cell.n)
        elif None in names:
            people._leave_out("no group", cell.n)
        elif any(answer in read[0].leave_out for answer in answers):
            people._leave_out("left out as asked", cell.n)
        else:
            if cell.n_unweighted:
                people._leave_out("no weight", cell.n_unweighted)
            people._add(tuple(text or "" for text in key), cell.n - cell.n_unweighted, cell.weight, cell.squares)
    for place, column in enumerate(every):
        if column in (bins or {}):
            people.put_in_bins(place, str((bins or {})[column]), False, keep=as_answer)
    if not people.kept:
        raise InputError("No row has an answer to every question, a group and a weight, so there is nothing to count.")
    for reason, n in people.left_out.items():
        people.notes.append(f"{n:,} {'row is' if n == 1 else 'rows are'} not counted: {reason}")
    found: dict[str | None, dict[tuple[str, ...], Weights]] = {}
    for whole, each in people.kept.items():
        of = CROSSED.join(whole[len(columns) :]) if groups else None
        found.setdefault(of, {})[whole[: len(columns)]] = each
    counted: dict[str | None, dict[tuple[str, ...], float]] = {}
    for of, part in found.items():
        together = Weights()
        for each in part.values():
            together.add(each.n, each.weight, each.squares)
        counted[of] = {key: each.weight / together.weight * together.records for key, each in part.items()}
    return JointTable(
        tuple(columns), counted, people.n_rows, people.n_counted, dict(people.left_out), tuple(people.notes)
    )


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


def _cleaned(texts: Collection[str]) -> frozenset[str]:
    return frozenset(clean_name(text) for text in texts)


def _by_column(given: Any, columns: Sequence[str], what: str) -> dict[str, Any]:
    """What is given for each column; without a column it is for the answers."""
    if isinstance(given, str):
        return {columns[0]: given}
    if what == "map":
        plain = {clean_name(key): clean_name(new) for key, new in given.items() if isinstance(new, str)}
        nested = {
            key: {clean_name(old): clean_name(to) for old, to in new.items()}
            for key, new in given.items()
            if not isinstance(new, str)
        }
        given = ({columns[0]: plain} if plain else {}) | nested
    other = next((key for key in given if key not in columns), None)
    if other is not None:
        hint = nearest(other, columns)
        raise InputError(f"The '{what}' is for '{other}', which is no column of answers or groups.{hint}")
    return dict(given)


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
    """Rows on their way: (answer, groups) with how many people they stand for."""

    cells: Sequence[Cell]
    columns: Sequence[str]
    weighted: bool
    kept: dict[tuple[str, ...], Weights] = field(default_factory=dict)
    #: The bins of columns, by place, in order.
    bins: dict[int, tuple[str, ...]] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        return sum(cell.n for cell in self.cells)

    @property
    def n_counted(self) -> int:
        return sum(each.n for each in self.kept.values())

    def recode(self, recoding: Recoding, maps: Mapping[str, Mapping[str, str]]) -> None:
        """Cells to answers and names of groups; rows without them are left out, and said."""
        seen: set[str] = set()
        for cell in self.cells:
            answer = recoding.answer(cell.answer)
            groups = [
                maps.get(column, {}).get(clean_name(text or ""), clean_name(text or ""))
                for column, text in zip(self.columns[1:], cell.groups, strict=True)
            ]
            seen.add(clean_name(cell.answer or ""))
            if answer is None:
                self._leave_out("no answer", cell.n)
            elif answer in recoding.leave_out:
                self._leave_out("left out as asked", cell.n)
            elif not all(groups):
                self._leave_out("no group", cell.n)
            else:
                if cell.n_unweighted:
                    self._leave_out("no weight", cell.n_unweighted)
                self._add((answer, *groups), cell.n - cell.n_unweighted, cell.weight, cell.squares)
        for option, named in (("map", recoding.map), ("missing", recoding.missing), ("leave_out", recoding.leave_out)):
            unseen = [name for name in named if name not in seen and name not in recoding.map.values()]
            if unseen:
                self.notes.append(f"{_names(unseen)} of --{option.replace('_', '-')} is nowhere in the column")
        if len(self.columns) > 2 and any(CROSSED in part for key in self.kept for part in key[1:]):
            raise InputError(f"A name of groups that are crossed must not hold '{CROSSED}'. --map gives it another.")
        if not self.kept:
            raise InputError("No row has an answer, a group and a weight, so there is nothing to count.")
        if recoding.missing_as is None and self.left_out.get("no answer"):
            self.notes.append(
                f"{self.left_out['no answer']:,} of {self.n_rows:,} rows have no answer and are left out; "
                "--missing-as counts them as an answer of their own"
            )
        for reason in ("no group", "no weight", "left out as asked"):
            if reason in self.left_out:
                n = self.left_out[reason]
                self.notes.append(f"{n:,} {'row is' if n == 1 else 'rows are'} not counted: {reason}")
        renamed = sum(cell.n for cell in self.cells if clean_name(cell.answer or "") in recoding.map)
        if renamed:
            self.notes.append(f"{renamed:,} rows are counted under another answer, as --map says")

    def put_in_bins(self, place: int, edges: str, means: bool, keep: str | None) -> None:
        """Numbers of one column to bins; what is no number, or in no bin, is an error."""
        column = self.columns[place]
        texts = {key[place] for key in self.kept} - ({keep} if place == 0 else set())
        often = [(text, sum(each.n for key, each in self.kept.items() if key[place] == text)) for text in texts]
        numbers, others = numbers_of([(text, float(n)) for text, n in often])
        if others:
            raise InputError(
                f"{others:,} rows have no number in '{column}', which is to be put in bins. --missing and --map say "
                "what they mean; decimals are written with a point."
            )
        found = Bins.read(edges, numbers)
        outside = sum(n for number, n in numbers.items() if found.place(number) is None)
        if outside:
            raise InputError(f"{outside:,.0f} rows of '{column}' lie in no bin; -inf and inf are edges, too.")
        labels = self._means(found, place, keep) if means else found.labels
        self.bins[place] = labels
        renamed = {text: labels[found.place(float(text)) or 0] for text in texts}
        self._rename(place, renamed)
        if "," not in edges:
            self.notes.append(f"'{column}' is put in bins at {', '.join(f'{edge:.12g}' for edge in found.edges)}")

    def _means(self, bins: Bins, place: int, keep: str | None) -> tuple[str, ...]:
        """The mean of the answers in each bin; where there are none, its middle."""
        sums: dict[int, list[float]] = {k: [0.0, 0.0] for k in range(len(bins.labels))}
        for key, each in self.kept.items():
            if key[place] != keep:
                here = sums[bins.place(float(key[place])) or 0]
                here[0], here[1] = here[0] + each.weight * float(key[place]), here[1] + each.weight
        if keep is not None:
            raise InputError("A missing answer has no number, so it cannot be an answer where bins have means.")
        low, high = bins.edges[0], bins.edges[-1]
        self.notes.append(f"bins are named by their means; plan the sum with --between {low:.12g},{high:.12g}")
        middles = [(a + b) / 2 for a, b in zip(bins.edges, bins.edges[1:], strict=False)]
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

    def domain(self, names: Sequence[str], missing_as: str | None) -> tuple[str, ...]:
        """The values in order: as stated, or sorted; a missing answer comes last."""
        found = {key[0] for key in self.kept}
        if names:
            known = [*names, *([missing_as] if missing_as and missing_as not in names else [])]
            others = found - set(known)
            if others:
                n = sum(each.n for key, each in self.kept.items() if key[0] in others)
                raise InputError(
                    f"{n:,} rows have {len(others)} answers that are not among the values. Without --values all are "
                    "listed; --map gives them other names, --leave-out leaves them out."
                )
            return tuple(known)
        if len(found) > MOST_VALUES:
            raise InputError(
                f"'{self.columns[0]}' has {len(found):,} different answers. Numbers need --bins, and names --values, "
                "--map or --rare; an identifier is no answer."
            )
        last = [missing_as] if missing_as is not None and missing_as in found else []
        # An empty bin is an answer too.
        return (*self._ordered(0, {*found, *self.bins.get(0, ())} - set(last)), *last)

    def _ordered(self, place: int, names: Collection[str]) -> list[str]:
        """Names of one column in order: bins as they follow each other, numbers by size, others by letter."""
        if place in self.bins:
            known = self.bins[place]
            return [*(name for name in known if name in names), *sorted(set(names) - set(known))]
        texts = sorted(names)
        return [text for _, text in sorted(zip(numbers_if_all(texts), texts, strict=True))]

    def counts(
        self, domain: Sequence[str], least: int
    ) -> tuple[dict[str | None, tuple[float, ...]], dict[str | None, float] | None]:
        """Records by value for each group, and with weights the groups' shares."""
        piles, full = self._piles()
        records = {key: _together(pile) for key, pile in piles.items()}
        weightless = [CROSSED.join(key) for key in full if not records[key].weight > 0]
        if weightless and len(weightless) < len(full):
            self.notes.append(f"{_names(weightless)} has no weight and is left out")
        full = [key for key in full if records[key].weight > 0]
        if not full:
            raise InputError("All weights are zero, so there is nothing to count.")
        made: dict[str | None, tuple[float, ...]] = {}
        taken: dict[tuple[str, ...], list[str]] = {}
        for key in full:
            source = _source(key, records, least)
            shares = _shares(piles[source], domain)
            if source != key:
                # One record of all people, so that no answer observed elsewhere gets probability zero here.
                n, everybody = records[source].records, _shares(piles[()], domain)
                shares = [(n * mine + all_) / (n + 1) for mine, all_ in zip(shares, everybody, strict=True)]
                taken.setdefault(source, []).append(CROSSED.join(key))
            made[CROSSED.join(key) or None] = tuple(records[key].records * share for share in shares)
        self._note_borrowed(taken, records, least)
        if not self.weighted:
            return made, None
        all_people = records[()]
        self.notes.append(
            f"with their weights, {all_people.n:,} people count as {sum(map(sum, made.values())):,.0f} records (Kish)"
        )
        return made, {CROSSED.join(key) or None: records[key].weight / all_people.weight for key in full}

    def _piles(self) -> tuple[dict[tuple[str, ...], dict[str, Weights]], list[tuple[str, ...]]]:
        """Who gave each answer in each group, and in all groups that begin alike, under the beginning; the groups."""
        piles: dict[tuple[str, ...], dict[str, Weights]] = {}
        for (answer, *groups), each in self.kept.items():
            for depth in range(len(groups) + 1):
                pile = piles.setdefault(tuple(groups[:depth]), {})
                pile.setdefault(answer, Weights()).add(each.n, each.weight, each.squares)
        places = range(len(self.columns) - 1)
        orders = [self._ordered(place + 1, {key[place] for key in piles if len(key) > place}) for place in places]
        full = [key for key in piles if len(key) == len(orders)]
        full.sort(key=lambda key: [order.index(name) for order, name in zip(orders, key, strict=True)])
        if len(full) > MOST_VALUES:
            raise InputError(
                f"There are {len(full):,} groups, more than {MOST_VALUES:,}. Use fewer columns, or --bins."
            )
        return piles, full

    def _note_borrowed(
        self, taken: Mapping[tuple[str, ...], Sequence[str]], records: Mapping[tuple[str, ...], Weights], least: int
    ) -> None:
        """Which groups took whose shares, and why."""
        for source, names in taken.items():
            whose = f"all of {CROSSED.join(source)!r}" if source else "everybody"
            few = "1 group has" if len(names) == 1 else f"{len(names)} groups have"
            take = "takes" if len(names) == 1 else "take"
            self.notes.append(
                f"{few} fewer than {least} records and {take} the shares of {whose} ({records[source].records:,.0f} "
                f"records), staying worth as many as before: {_names(names)}; see --least"
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


def _source(key: tuple[str, ...], records: Mapping[tuple[str, ...], Weights], least: int) -> tuple[str, ...]:
    """Whose shares a group takes: its own, or, of few records, those of the smallest group around it with enough."""
    depths = range(len(key), 0, -1)
    return next((key[:depth] for depth in depths if records[key[:depth]].records >= least), ())


def _shares(pile: Mapping[str, Weights], domain: Sequence[str]) -> list[float]:
    total = _together(pile).weight
    return [pile[value].weight / total if value in pile else 0.0 for value in domain]


def _together(pile: Mapping[str, Weights]) -> Weights:
    total = Weights()
    for each in pile.values():
        total.add(each.n, each.weight, each.squares)
    return total


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in sorted(names)[:_SHOWN])
    return shown + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
