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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, Unpack

import numpy as np

from tacit.designs.prior_file import GroupPrior, read_priors, recoding_lines, strength_of
from tacit.disk import TextTable, write_text
from tacit.exact import Floats
from tacit.files.columns import InputError, check_columns
from tacit.microdata.records import MOST_VALUES, People, Raw, Weights, together
from tacit.plan import CROSSED, Recoding, number_in
from tacit.prior import clean_name, listed

#: A group of fewer records borrows from others.
LEAST = 30
#: Counts are written in units of 1/10,000 of a record.
UNITS = 10_000
#: Rounds of fitting the additive model, and the change of shares that ends it.
_ROUNDS, _CLOSE = 50, 1e-4


@dataclass(frozen=True)
class _Table:
    """What was counted: `n_counted` of `n_rows` rows, `left_out` says why the others are not. `recoding` says how raw
    cells became answers and groups; the file begins with it.
    """

    n_rows: int
    n_counted: int
    left_out: Mapping[str, int]
    notes: tuple[str, ...]
    recoding: Recoding | None

    def _rows(self) -> Iterator[tuple[str | None, list[str]]]:
        """The file's rows, each with its group; first the names of its columns, for any group."""
        raise NotImplementedError

    def to_csv(self) -> str:
        """The file that `tacit plan` reads, with a column `group` where groups have names."""
        text = io.StringIO()
        text.write("" if self.recoding is None else recoding_lines(self.recoding))
        (_, header), *rows = self._rows()
        grouped = rows[0][0] is not None
        named = [("group", header), *rows] if grouped else [(None, header), *rows]
        csv.writer(text, lineterminator="\n").writerows([group, *row] if grouped else row for group, row in named)
        return text.getvalue()

    def save(self, path: str | Path) -> None:
        """Write the file, atomically."""
        write_text(path, self.to_csv())


@dataclass(frozen=True)
class PriorTable(_Table):
    """Priors as a prior file has them: how often each value comes in each group, and what was done to get there.

    With weights, `shares` are the groups' parts of all people.
    """

    values: tuple[str, ...]
    groups: Mapping[str | None, tuple[float, ...]]
    shares: Mapping[str | None, float] | None

    def _rows(self) -> Iterator[tuple[str | None, list[str]]]:
        yield None, ["value", "count", *([] if self.shares is None else ["share"])]
        for name, counts in self.groups.items():
            share = [] if self.shares is None else [f"{self.shares[name]:.9f}"]
            for value, count in zip(self.values, _written(counts), strict=True):
                yield name, [value, count, *share]

    def priors(self, **options: Any) -> list[GroupPrior]:
        """What `read_priors` reads from the file, for `make_plan`; it has the options."""
        return read_priors(io.StringIO(self.to_csv()), **options)


def priors_from(
    data: Any,
    column: str,
    *,
    values: Sequence[str] | None = None,
    bins: str | Mapping[str, str] | None = None,
    means: bool = False,
    rare: int = 0,
    least: int = LEAST,
    **raw: Unpack[Raw],
) -> PriorTable:
    """Count the answers in a column of microdata, group by group.

    Args:
        data: a file (CSV with any separator, Parquet, xlsx, JSON lines, Arrow), a data frame or an Arrow table.
        column: the column with the answers.
        values: the possible answers, in order, where others are mistakes; else those that are found, numbers by size,
            others in the order of the map and of the data.
        bins: edges such as `"0,18,65,inf"`, or a number of bins, for answers; `{"age": "18,65,inf"}` for any column.
        means: bins are named by the mean of their answers, for sums with `between`.
        rare: answers of fewer people are put together as `other`.
        least: groups of fewer records borrow from what their columns predict; they keep their own number of records.
        raw: how the data are read.
            `group`: columns with the groups; several make crossed groups, named `north / old`.
            `weight`: a column with survey weights; people then count as their effective number.
            `map`: other names for answers, `{"Y": "yes"}`, or for groups, `{"sex": {"1": "female"}}`; bins have names,
            too.
            `missing`: texts that mean that there is no answer, beside empty cells; `{"age": ["999"]}` for any column.
            `missing_as`: counts missing answers as an answer of this name; else their rows are left out.
            `leave_out`: answers that are not counted.
            `sheet`: which sheet of a workbook; else the first.
            `separator`: between the cells of a CSV file; else it is found.

    Returns:
        The priors with their counts and the recoding, notes on what was left out or borrowed, and `save` for a prior
        file.

    >>> table = priors_from({"ill": ["Y", "N", "N", None]}, "ill", map={"Y": "yes", "N": "no"}, least=0)
    >>> table.values, table.groups, table.left_out
    (('yes', 'no'), {None: (1.0, 2.0)}, {'no answer': 1})
    """
    edges = {column: bins} if isinstance(bins, str) else dict(bins or {})
    if means and column not in edges:
        raise InputError("Means are those of bins: give bins of the answers, too.")
    people = People.counted(data, [column], raw)
    people.put_all_in_bins(edges, means)
    names = [clean_name(each) for each in values or ()]
    people.merge_rare(rare, names)
    domain = people.domain(names)
    counts, shares = _counts(people, domain, least)
    table = PriorTable(*people.facts, domain, counts, shares)
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
    """Priors from a table of counts as offices publish it, as CSV or xlsx at a `path`: a row for each `group` (one
    column or several; else all others), in the column `yes` the number of people who gave the first of two answers
    (`values`), and in `of` that of all people.

    >>> counts_from(io.StringIO("age,yes,all\\nyoung,1,100\\nold,20,100\\n"), "yes", "all").groups
    {'young': (1.0, 99.0), 'old': (20.0, 80.0)}
    """
    table, name = TextTable.read(path, [yes, of]), path if isinstance(path, str | Path) else "The table"
    asked = [group] if isinstance(group, str) else list(group)
    if len(values) != 2 or yes == of:
        raise InputError("A table of counts has a column for one of two answers, and another for all people.")
    check_columns({yes: "yes", of: "of"} | dict.fromkeys(asked, "group"), table.columns, str(name))
    parts = asked or [each for each in table.columns if each not in (yes, of)]
    found: dict[str | None, tuple[float, ...]] = {}
    for row in table.by_column(name):
        part, total, names = _count(row[yes]), _count(row[of]), [row[each] for each in parts]
        of_group = CROSSED.join(names) or None
        if part is None or total is None or not 0 <= part <= total or not total:
            raise InputError(
                f"{name}, line {row.line}: expected whole numbers with '{yes}' from 0 to '{of}'. Leave out notes."
            )
        if not all(names) or of_group in found:
            raise InputError(f"{name}, line {row.line}: every line of a table of counts needs a group of its own.")
        found[of_group] = (float(part), float(total - part))
    everybody = [sum(counts) for counts in zip(*found.values(), strict=True)]
    for of_group, counts in found.items() if len(found) > 2 else ():
        if all(2 * mine == together for mine, together in zip(counts, everybody, strict=True)):
            raise InputError(f"{name}: {of_group!r} is the sum of the other lines. Leave it out: it counts all twice.")
    n = round(sum(everybody))
    made = PriorTable(n, n, {}, (), None, tuple(clean_name(each) for each in values), found, None)
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
class JointTable(_Table):
    """Joint counts of the answers to several questions: a row for each combination that was seen, in each group."""

    columns: tuple[str, ...]
    groups: Mapping[str | None, Mapping[tuple[str, ...], float]]

    def _rows(self) -> Iterator[tuple[str | None, list[str]]]:
        yield None, [*self.columns, "count"]
        for name, counts in self.groups.items():
            for key, count in zip(counts, _written(list(counts.values())), strict=True):
                yield name, [*key, count]


def joint_from(
    data: Any,
    columns: Sequence[str],
    *,
    bins: Mapping[str, str] | None = None,
    **raw: Unpack[Raw],
) -> JointTable:
    """Count the combinations of answers in several columns of microdata, group by group.

    A person who lacks one of the answers is left out.

    The parameters `data`, `bins` and `raw` are as of `priors_from`; those about answers are for all `columns` of
    answers, or by column.

    >>> joint_from({"a": ["Y", "N", "N", "Y"], "b": ["1", "2", "2", None]}, ["a", "b"]).groups
    {None: {('Y', '1'): 1.0, ('N', '2'): 2.0}}
    """
    if len(columns) < 2:
        raise InputError("Joint counts are of two columns of answers or more.")
    for name in columns:
        if name in ("group", "count", "probability"):
            raise InputError(f"A question cannot be called '{name}': the file of joint counts has such a column.")
    people = People.counted(data, columns, raw)
    people.put_all_in_bins(bins or {}, means=False)
    found: dict[str | None, dict[tuple[str, ...], Weights]] = {}
    for whole in people.in_order():
        of = CROSSED.join(whole[len(columns) :]) or None
        found.setdefault(of, {})[whole[: len(columns)]] = people.kept[whole]
    counted: dict[str | None, dict[tuple[str, ...], float]] = {}
    for of, part in found.items():
        everybody = together(part.values())
        counted[of] = {key: each.weight / everybody.weight * everybody.records for key, each in part.items()}
    return JointTable(*people.facts, tuple(columns), counted)


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


def _counts(
    people: People, domain: Sequence[str], least: int
) -> tuple[dict[str | None, tuple[float, ...]], dict[str | None, float] | None]:
    """Records by value for each group, and with weights the groups' shares."""
    piles: dict[tuple[str, ...], dict[str, Weights]] = {}
    for answer, *group in people.in_order():
        piles.setdefault(tuple(group), {})[answer] = people.kept[answer, *group]
    if len(piles) > MOST_VALUES:
        raise InputError(f"There are {len(piles):,} groups, more than {MOST_VALUES:,}. Use fewer columns, or --bins.")
    records = {key: together(pile.values()) for key, pile in piles.items()}
    full = [key for key in piles if records[key].weight > 0]
    if not full:
        raise InputError("All weights are zero, so there is nothing to count.")
    if len(full) < len(piles):
        weightless = [CROSSED.join(key) for key in piles if key not in full]
        people.notes.append(f"{listed(sorted(weightless))} has no weight and is left out")
    table = np.array([[piles[key].get(value, Weights()).weight for value in domain] for key in full])
    table *= np.array([records[key].records / records[key].weight for key in full])[:, None]
    _borrow(people, full, table, least)
    names = [CROSSED.join(key) or None for key in full]
    made = {name: tuple(row) for name, row in zip(names, table.tolist(), strict=True)}
    if not people.weighted:
        return made, None
    whole = together(records[key] for key in full)
    people.notes.append(f"with their weights, {whole.n:,} people count as {table.sum():,.0f} records (Kish)")
    return made, {name: records[key].weight / whole.weight for name, key in zip(names, full, strict=True)}


def _borrow(people: People, full: Sequence[tuple[str, ...]], table: Floats, least: int) -> None:
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
    columns = [column.column for column in people.columns[people.n_answers :]]
    source = "of everybody" if len(columns) == 1 else f"that {' and '.join(columns)} predict"
    people.notes.append(
        f"{few} fewer than {least} records: shares are drawn towards those {source}, by {k:,.3g} records, and "
        f"stand for as many records as before: {listed(sorted(CROSSED.join(full[g]) for g in small))}; see --least"
    )


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
