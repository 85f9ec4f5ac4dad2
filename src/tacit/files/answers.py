"""Answers in tables, matched with a plan and randomized: files, DuckDB and Spark all go through here.

A `ReportMaker` makes reports of tables of rows. `Perturber` is that of plans; `tacit.personal.files` has the one for
priors that come with the records. Words that people said elsewhere, which are the reports, are read in the same way.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.files.columns import (
    MISSING,
    UNKNOWN,
    GroupColumns,
    InputError,
    Matcher,
    Range,
    Recoder,
    people_of,
    plain_type,
    stamped,
)
from tacit.files.giveaway import Watch
from tacit.files.reading import REPORT, group_column_of
from tacit.mechanism.protocol import RandomWords
from tacit.plan import Plan, RecodedColumn
from tacit.prior import Value, listed, numbers_if_all
from tacit.randomize import RecordRandomizer

OnUnknown = Literal["stop", "skip"]
_SHOWN_ROWS = 5
#: Why a row cannot be randomized.
REASONS = ("missing value", "unknown value", "missing group", "unknown group", "impossible combination")
#: Why rows of raw data are left out without stopping a run: the plan's recoding says so, as it did for the priors.
LEFT_OUT = ("no answer", "no group")


class BadRowsError(InputError):
    """Rows that hold no answer to the plan's question: how many, why, and where the first ones are."""


class BadRows:
    """Bad rows by reason: how many and, where `row_number` says which row of a file the nth one is, the first ones;
    never what is in them.
    """

    def __init__(self, row_number: Callable[[int], int] | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self._first: dict[str, list[int]] = defaultdict(list)
        self._row_number = row_number

    @property
    def stop(self) -> bool:
        """Whether there are rows that stop a run: all that the plan's recoding does not leave out."""
        return any(reason not in LEFT_OUT for reason in self.counts)

    def note(self, matched: Matched, start: int = 0) -> None:
        """Count the bad rows of a table that `start` rows came before."""
        for reason, bad in matched.reasons.items():
            rows = np.flatnonzero(bad)
            if self._row_number is not None:
                few = rows[: _SHOWN_ROWS - len(self._first[reason])].tolist()
                self._first[reason] += [self._row_number(start + row + 1) for row in few]
            if len(rows):
                self.counts[reason] += len(rows)

    def note_malformed(self, rows: Sequence[int]) -> None:
        """Count the rows of a file with too few or too many cells."""
        if rows:
            self.counts["wrong number of cells"] = len(rows)
            self._first["wrong number of cells"] = list(rows[:_SHOWN_ROWS])

    def error(self, name: str, maker: ReportMaker) -> BadRowsError:
        """How many bad rows there are, why, where the first are, and what the plan has to say about it."""
        counts, parts = {reason: n for reason, n in self.counts.items() if reason not in LEFT_OUT}, []
        for reason, count in counts.items():
            shown = ", ".join(map(str, self._first[reason])) + (", …" if count > _SHOWN_ROWS else "")
            where = f" ({'row' if count == 1 else 'rows'} {shown})" if self._first[reason] else ""
            parts.append(f"{reason}: {count}{where}")
        total = sum(counts.values())
        more = "".join(f" {hint}" for reason, hint in maker.hints.items() if reason in counts)
        return BadRowsError(
            f"{name} has {total} {'row' if total == 1 else 'rows'} {maker.problem}. "
            f"{'; '.join(parts)}.{more} Correct them, or pass on_unknown='skip' to leave them out."
        )


def check_on_unknown(on_unknown: str) -> None:
    """Raise unless it is one of the two things that can be done about bad rows."""
    if on_unknown not in ("stop", "skip"):
        raise InputError(f"The 'on_unknown' parameter must be 'stop' or 'skip'. Got '{on_unknown}' instead.")


@dataclass(frozen=True)
class Matched:
    """What a plan makes of a table: the `rows` that it can randomize with the positions of their groups and what they
    hold (positions of values, or numbers between them; a column for each question where there are several), which rows
    of the table are `good`, and why the others are not, each by its first reason.
    """

    rows: pa.Table
    groups: NDArray[Any]
    held: NDArray[Any]
    good: NDArray[np.bool_]
    reasons: Mapping[str, NDArray[np.bool_]]

    @classmethod
    def of(cls, table: pa.Table, groups: Any, held: Any, reasons: Mapping[str, NDArray[np.bool_]]) -> Matched:
        """The rows of a table for which none of the reasons holds."""
        good, first = np.ones(len(table), dtype=bool), {}
        for reason, bad in reasons.items():
            first[reason] = bad & good
            good &= ~bad
        if good.all():
            return cls(table, groups, held, good, {})
        return cls(table.filter(pa.array(good)), groups[good], held[good], good, first)


class ReportMaker(ABC):
    """Makes reports of tables of rows, whose columns `read` names, each with the parameter that chooses it.

    With `all_columns` others are read, too. Columns in `encoded` may come dictionary-encoded; `sent` are written as
    they are, and are watched, so that they give no answer away. `person` is the column that tells persons apart.
    `problem` is what is wrong with all bad rows.
    """

    read: Mapping[str, str]
    all_columns = False
    encoded: Sequence[str] = ()
    sent: Sequence[str] = ()
    person: str | None = None
    group_names: Sequence[str] = ()
    problem = "that the plan cannot randomize"

    @property
    @abstractmethod
    def hints(self) -> Mapping[str, str]:
        """What there is to say about bad rows, by reason, when all are read."""

    @abstractmethod
    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Of the result. Kept columns lose dictionaries: they may change on the way, which some formats cannot hold."""

    @abstractmethod
    def match(self, table: pa.Table) -> Matched:
        """Find the places of rows in the plan."""

    @abstractmethod
    def draw(self, matched: Matched, words: RandomWords | None = None) -> Mapping[str, pa.Array]:
        """The columns of the result that are made: the report and what belongs to it."""

    def watch(self, keep_order: bool) -> Watch:
        """What looks at rows that pass."""
        return Watch(self.sent, keep_order)

    def reports(self, matched: Matched, words: RandomWords | None = None) -> pa.Table:
        """A report for each row that can be randomized; with its group and what is kept, never with its answer."""
        schema, made = self.schema(matched.rows.schema), self.draw(matched, words)
        cells = [made[each.name] if each.name in made else matched.rows[each.name].cast(each.type) for each in schema]
        return pa.table(cells, schema=schema)


def kept_fields(rows: pa.Schema, keep: Sequence[str]) -> list[tuple[str, pa.DataType]]:
    """Kept columns with their types, without dictionaries."""
    return [(name, plain_type(rows.field(name).type)) for name in keep]


# -- answers to a plan --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AnswerColumns:
    """The columns of a perturb run: answers, the groups where the plan names any, what is kept; and, where the plan has
    several questions, public answers and the block that is written. `raw_groups` are the columns that the groups are
    recoded from.
    """

    values: tuple[str, ...]
    group: str | None
    keep: tuple[str, ...]
    block: str | None = None
    person: str | None = None
    raw_groups: tuple[str, ...] = ()
    public: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, plan: Plan, value: str | None, group: str | None, keep: Sequence[str], person: str | None = None
    ) -> AnswerColumns:
        if isinstance(keep, str):
            raise InputError(f"The 'keep' parameter must be a list of columns. Got the string '{keep}' instead.")
        groups = () if plan.recoding is None else plan.recoding.groups
        values, block, public = tuple(each.name for each in plan.private), plan.block_column, plan.public_questions
        if value is not None and block is None:
            values = (value,)
        raw = tuple(each.column for each in groups) if group is None else ()
        more = tuple(name for name in keep if name not in public)
        columns = cls(values, group_column_of(plan, group), more, block, person, raw, public)
        for name in values:
            if name in keep:
                raise InputError(f"The answer column '{name}' cannot be kept: reports would protect nothing.")
        written = [*columns.sent, REPORT, *([columns.group] if columns.group else []), *([block] if block else [])]
        if len(set(written)) < len(written) or not set(columns.read_groups).isdisjoint(values):
            raise InputError(f"The columns of the result must differ from each other. Got {', '.join(written)}.")
        return columns

    @property
    def read_groups(self) -> tuple[str, ...]:
        """Where groups are read: in columns that are recoded, in one with their names, or nowhere."""
        return self.raw_groups or (() if self.group is None else (self.group,))

    @property
    def sent(self) -> tuple[str, ...]:
        """What is written beside group and report as it is: public answers, and what is kept."""
        return (*self.public, *self.keep)

    @property
    def matched(self) -> tuple[str, ...]:
        return (*self.values, *self.public, *self.read_groups)

    @property
    def read(self) -> dict[str, str]:
        """What is read, each with the parameter that chooses it."""
        chosen = dict.fromkeys(self.values, "" if self.block else "column")
        chosen |= dict.fromkeys(self.read_groups, "group_column")
        chosen |= dict.fromkeys(self.sent, "")
        return chosen if self.person is None else chosen | {self.person: "person"}


class _Asked:
    """A question with its column, whose cells become positions of answers, or of a `number` any between them."""

    def __init__(self, answers: Sequence[Value], column: str, recoded: RecodedColumn | None, number: bool) -> None:
        self.answers, self.column, self.number = answers, column, number
        self.match = Range(answers, column) if number else Matcher(answers, column)
        self.recode = None if recoded is None else Recoder(recoded, answers)

    def __call__(self, table: pa.Table) -> NDArray[np.int32]:
        cells = table[self.column]
        return self.match(cells if self.recode is None else self.recode(cells))


class Perturber(ReportMaker):
    """A plan, ready for tables of answers. `memory` is the secret that stored reports of two layers follow from."""

    def __init__(self, plan: Plan, columns: AnswerColumns, memory: bytes | None = None) -> None:
        self._plan, self._columns, self._memory, self._draw = plan, columns, memory, RecordRandomizer(plan)
        self.read, self.encoded, self.sent, self.person = columns.read, columns.matched, columns.sent, columns.person
        self.group_names = plan.group_names
        told, raw = ((), ()) if plan.recoding is None else (plan.recoding.answers, plan.recoding.groups)
        by_name = {each.column if columns.block else columns.values[0]: each for each in told}
        self._private = [
            _Asked(question.answers, column, by_name.get(column), question.kind == "number")
            for question, column in zip(plan.private, columns.values, strict=True)
        ]
        self._public = [
            _Asked(plan.question_of(name).answers, name, by_name.get(name), False) for name in columns.public
        ]
        #: Answers to public questions, as they are written.
        self.public_answers = {each.column: pa.array(each.answers) for each in self._public}
        raw = raw if columns.raw_groups else ()
        self._groups = None if columns.group is None else GroupColumns(plan.group_names, columns.group, raw)

    @property
    def texts(self) -> list[bool]:
        """For each question whether its answers are read as texts, instead of numbers."""
        return [each.recode is not None or isinstance(each.answers[0], str) for each in self._private]

    @property
    def hints(self) -> Mapping[str, str]:
        asked = [*self._private, *self._public]
        known = [
            (f"'{each.column}': " if len(asked) > 1 else "") + known_values(each.answers, each.number) for each in asked
        ]
        return {"unknown value": " ".join(known)} | ({} if self._groups is None else known_groups(self._groups))

    def schema(self, rows: pa.Schema) -> pa.Schema:
        columns = self._columns
        group = [] if columns.group is None else [(columns.group, pa.dictionary(pa.int32(), pa.string()))]
        public = [(name, answers.type) for name, answers in self.public_answers.items()]
        block = [] if columns.block is None else [(columns.block, pa.int32())]
        kept = kept_fields(rows, columns.keep)
        return stamped(pa.schema([*group, *public, *kept, *block, (REPORT, pa.int64())]), self._plan.hash)

    def match(self, table: pa.Table) -> Matched:
        found = [each(table) for each in self._private]
        each_held = [
            each.match.numbers if isinstance(each.match, Range) else places
            for each, places in zip(self._private, found, strict=True)
        ]
        held = each_held[0] if self._columns.block is None else np.array(each_held, dtype=np.float64).T
        groups = np.zeros_like(found[0]) if self._groups is None else self._groups(table)
        public = [each(table) for each in self._public]
        for (name, answers), places in zip(self.public_answers.items(), public, strict=True):
            written = answers.take(pa.array(places, mask=places < 0))
            table = table.set_column(table.column_names.index(name), name, written)
        good = np.logical_and.reduce([places >= 0 for places in (*found, *public, groups)])
        possible = self._possible(groups, held, good)
        bad = {} if (good & possible).all() else self._reasons(found, public, groups) | {REASONS[-1]: ~possible}
        return Matched.of(table, groups, held, bad)

    def _reasons(self, found: Sequence[Any], public: Sequence[Any], groups: Any) -> dict[str, NDArray[np.bool_]]:
        """Why rows cannot be randomized; `found` has the positions of the answers to each private question, `public` of
        those to each public one. Where the plan's recoding says what is no answer, such rows are left out.
        """
        by_recoding = self._groups is not None and self._groups.recoded
        declared = [places for places, each in zip(found, self._private, strict=True) if each.recode is not None]
        others = [places for places, each in zip(found, self._private, strict=True) if each.recode is None]
        parts = [
            (LEFT_OUT[0], declared, MISSING), (LEFT_OUT[1], [groups] if by_recoding else [], MISSING),
            (REASONS[0], [*others, *public], MISSING), (REASONS[1], [*found, *public], UNKNOWN),
            (REASONS[2], [] if by_recoding else [groups], MISSING), (REASONS[3], [groups], UNKNOWN),
        ]  # fmt: skip
        return {
            reason: np.logical_or.reduce([places == marker for places in positions])
            for reason, positions, marker in parts
            if positions
        }

    def _possible(self, groups: Any, held: NDArray[Any], good: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether no combination of answers is one that the plan declares impossible, by a prior of 0 in a block."""
        possible = np.ones(len(good), dtype=bool)
        place = {question.name: number for number, question in enumerate(self._plan.private)}
        rows = np.flatnonzero(good)
        for block in self._plan.blocks:
            allowed = np.array([[weight > 0 for weight in group.prior.weights] for group in block.groups])
            if len(block.questions) > 1 and not allowed.all():
                positions = [
                    np.minimum(np.searchsorted(question.answers, answers, "right") - 1, len(question.answers) - 2)
                    if question.kind == "number"
                    else answers.astype(np.int64)
                    for question in block.questions
                    for answers in [held[rows, place[question.name]]]
                ]
                possible[rows] &= allowed[groups[rows], block.cells(positions)]
        return possible

    def draw(self, matched: Matched, words: RandomWords | None = None) -> Mapping[str, pa.Array]:
        columns, persons = self._columns, None
        if self._memory is not None and self.person is not None:
            persons = people_of(matched.rows[self.person], self.person)
        blocks, reports = self._draw.reports(matched.groups, matched.held, words, persons=persons, memory=self._memory)
        made: dict[str, pa.Array] = {REPORT: pa.array(reports)}
        if self._groups is not None:
            made[str(columns.group)] = self._groups.named(matched.groups)
        if columns.block is not None:
            made[columns.block] = pa.array((blocks + 1).astype(np.int32))
        return made


class Labels(ReportMaker):
    """How data that were collected elsewhere write the reports of a plan, ready for tables of such data."""

    problem, all_columns = "that are no report of the plan", True

    def __init__(self, plan: Plan, labels: Sequence[str], column: str, group_column: str | None) -> None:
        self._plan, self._labels, self._column = plan, labels, column
        self._match, self._seen = Matcher(numbers_if_all(list(labels)), column), np.zeros(len(labels), dtype=bool)
        self._group = group_column_of(plan, group_column)
        self._groups = None if self._group is None else GroupColumns(plan.group_names, self._group)
        self.read = {column: "column"} | ({} if self._group is None else {self._group: "group_column"})

    @property
    def hints(self) -> Mapping[str, str]:
        # Labels that are none of these are not shown: they may be answers.
        came = [label for label, seen in zip(self._labels, self._seen, strict=True) if seen]
        found = "all came" if self._seen.all() else f"only {listed(came)} came" if came else "none of them came"
        known = f"The labels are {listed(self._labels)}, as they are written here; {found}."
        known += " To read others, pass labels='NAMES'."
        return {"unknown label": known} | ({} if self._groups is None else known_groups(self._groups))

    def schema(self, rows: pa.Schema) -> pa.Schema:
        kept = [name for name in rows.names if name not in self.read]
        if REPORT in kept:
            raise InputError(f"The file has a column '{REPORT}' already, which is not '{self._column}'. Rename it.")
        group = [] if self._group is None else [(self._group, pa.dictionary(pa.int32(), pa.string()))]
        return stamped(pa.schema([*group, *kept_fields(rows, kept), (REPORT, pa.int64())]), self._plan.hash)

    def watch(self, keep_order: bool) -> Watch:
        """These rows are as they were collected: nothing is drawn that they could give away."""
        return Watch(())

    def match(self, table: pa.Table) -> Matched:
        reports = self._match(table[self._column]).astype(np.int64)
        groups = np.zeros_like(reports) if self._groups is None else self._groups(table)
        self._seen[reports[reports >= 0]] = True
        reasons = {
            f"{how} {what}": places == marker
            for what, places in (("label", reports), ("group", groups))
            for how, marker in (("missing", MISSING), ("unknown", UNKNOWN))
        }
        return Matched.of(table, groups, reports, reasons)

    def draw(self, matched: Matched, words: RandomWords | None = None) -> Mapping[str, pa.Array]:
        named = {} if self._groups is None else {str(self._group): self._groups.named(matched.groups)}
        return named | {REPORT: pa.array(matched.held)}


# -- sentences about what a plan knows ----------------------------------------------------------------------------


def known_values(values: Sequence[Value], between: bool = False) -> str:
    """What a plan takes for an answer. An answer that is nearly a value is not told: it would say who holds it."""
    if between:
        return f"The plan takes numbers from {values[0]} to {values[-1]}."
    return f"The plan's values are {listed(values)}, as they are written here."


def known_groups(groups: GroupColumns) -> dict[str, str]:
    """A hint about unknown groups, which are public."""
    meant = f"Did you mean {listed(sorted(groups.near))}? " if groups.near else ""
    return {"unknown group": f"{meant}The plan's groups are {listed(groups.known)}.{groups.how}"}


# -- inside queries of DuckDB ------------------------------------------------------------------------------------------


def add_perturb(connection: Any, plan: Plan, name: str = "tacit_perturb", on_unknown: OnUnknown = "stop") -> None:
    """Add a function called `name` to a `connection`: tacit_perturb(answer), or tacit_perturb(answer, group) where the
    `plan` has groups.

    A plan of several questions takes an answer to each private question, in the order of the plan, then to each public
    one, then the group, and returns a struct of public answers, `block` and `report`: SELECT unnest(tacit_perturb(a, b,
    c)). Answers are texts or, where the plan's values are numbers, numbers; public ones are texts. A plan with a
    recoding takes raw cells as texts (age::VARCHAR), then those of each column of its groups; the report of a row
    without an answer or a group is NULL. A row that the plan cannot randomize stops the query, or, with `on_unknown`
    "skip", its report is NULL. The function is volatile: DuckDB draws for each row, and again wherever the query
    mentions it again. Write its reports to a table, once, and go on from there. Rows stay in the order of the query: if
    answers may be sorted, end it with ORDER BY random().

    A report is a number, which does not say whose plan it is of. Name the plan in a column `tacit_plan` beside it, and
    `tally_file` refuses another.

    >>> from tacit import Prior, Survey, make_plan
    >>> import duckdb
    >>> connection = duckdb.connect()
    >>> plan = make_plan(Prior.of({"yes": 0.1, "no": 0.9}), Survey("yes"), epsilon=1)
    >>> add_perturb(connection, plan)
    >>> columns = f"tacit_perturb('no') AS report, 'p{plan.hash[:8]}' AS tacit_plan"
    >>> made = connection.execute(f"CREATE TABLE reports AS SELECT {columns} FROM range(1000) ORDER BY random()")
    >>> len(connection.sql("SELECT DISTINCT report FROM reports").fetchall())
    2
    """
    import duckdb
    from duckdb.sqltypes import BIGINT, DOUBLE, INTEGER, VARCHAR

    check_on_unknown(on_unknown)
    columns = AnswerColumns.of(plan, None, None, ())
    perturber, lock = Perturber(plan, columns), threading.Lock()

    def reports(*cells: Any) -> pa.Array:
        bad = BadRows()
        with lock:
            matched = perturber.match(pa.table(dict(zip(columns.matched, cells, strict=True))))
            drawn = perturber.reports(matched)
        bad.note(matched)
        if on_unknown == "stop" and bad.stop:
            raise bad.error("A part of the query", perturber)
        places = np.full(len(matched.good), -1)
        places[matched.good] = np.arange(len(drawn))
        filled = drawn.take(pa.array(places, mask=places < 0))
        found = [filled[column].combine_chunks() for column in written]
        return found[0] if columns.block is None else pa.StructArray.from_arrays(found, written)

    named = {pa.string(): VARCHAR, pa.int64(): BIGINT, pa.float64(): DOUBLE}
    public = {name: named[answers.type] for name, answers in perturber.public_answers.items()}
    written = [REPORT] if columns.block is None else [*public, columns.block, REPORT]
    kinds = [VARCHAR if raw else DOUBLE for raw in perturber.texts]
    kinds += [VARCHAR] * (len(public) + len(columns.read_groups))
    result = BIGINT if columns.block is None else duckdb.struct_type({**public, columns.block: INTEGER, REPORT: BIGINT})
    # DuckDB counts the parameters.
    parameters = [Parameter(f"cell_{place}", Parameter.POSITIONAL_ONLY) for place in range(len(kinds))]
    reports.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    connection.create_function(name, reports, kinds, result, type="arrow", null_handling="special", side_effects=True)
