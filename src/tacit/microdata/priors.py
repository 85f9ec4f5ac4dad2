"""Priors with counts from microdata: who answered what in each group, what that is worth, and what was done, in words.

A prior is worth its records, so counts are never more than people. With weights w a group's people count as
(Σw)²/Σw² records (Kish's effective sample size), and the column `share` says how large the group is.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.designs.prior_file import GroupPrior, read_priors
from tacit.files.columns import InputError
from tacit.microdata.people import People
from tacit.microdata.recoding import Recoding
from tacit.microdata.records import read_cells
from tacit.plan.saving import write_text
from tacit.prior.names import clean_name, nearest

#: A group of fewer records takes the shares of a larger one.
LEAST = 30
#: Counts are written to one part of so many of a record.
UNITS = 10_000


@dataclass(frozen=True)
class PriorTable:
    """Priors as a prior file has them: how often each value comes in each group, and what was done to get there.

    `n_counted` of `n_rows` rows are in it, `left_out` says why the others are not. With weights, `shares` are the
    groups' parts of everybody.
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
            everybody; they stay worth their own records.
        sheet: which sheet of a workbook; else the first.
        separator: between the cells of a CSV file; else it is found.

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
