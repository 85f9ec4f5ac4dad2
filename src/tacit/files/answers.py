"""The file engine: answers in, reports out, in bounded memory. Its other half is `tacit.files.counting`.

Answers come as CSV, Parquet, JSON lines, Arrow files and streams, standard input or tables in memory. Rows are worked
on in blocks of the same size for any format, so the same answers and the same random words give the same reports
in every format. Reports are held until all answers are read and nothing speaks against writing them, then written in
random order. For a plan with arms, chance decides with which randomizer each person is asked (`arms_drawn`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tacit.files.columns import (
    MISSING,
    STAMP,
    UNKNOWN,
    InputError,
    Matcher,
    Range,
    Recoder,
    check_stamp,
    people_of,
    plain_type,
    stamp_of,
    stamped,
    texts_of,
)
from tacit.files.giveaway import GivesAway, GivesAwayError, Watch
from tacit.files.ledger import Ledger
from tacit.files.reading import (
    REPORT,
    STANDARD,
    Progress,
    Source,
    format_of,
    group_column_of,
    reading,
)
from tacit.files.writing import HeldRows, holding
from tacit.mechanism.protocol import RandomWords
from tacit.plan import CROSSED, NEW, AnyPlan, Plan, RecodedColumn, arms_of, followed_name
from tacit.prior import Value
from tacit.randomize import RecordRandomizer, words_of

OnUnknown = Literal["stop", "skip"]
_SHOWN_ROWS, _SHOWN_NAMES = 5, 12
CANNOT_RANDOMIZE = "that the plan cannot randomize"
#: Why a row cannot be randomized.
REASONS = ("missing value", "unknown value", "missing group", "unknown group", "impossible combination")
#: Why rows of raw data are left out without stopping a run: the plan's recoding says so, as it did for the priors.
LEFT_OUT = ("no answer", "no group")


class BadRowsError(InputError):
    """Rows that hold no answer to the plan's question: how many, why, and where the first ones are."""


@dataclass(frozen=True)
class PerturbSummary:
    """What a run did: rows read, reports written, rows skipped by reason, what gives answers away by force, and how the
    file was read.
    """

    rows: int
    reports: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    gives_away: GivesAway = ()
    notes: tuple[str, ...] = ()


# -- perturb ------------------------------------------------------------------------------------------------------


def perturb_file(
    plan: AnyPlan,
    source: Any,
    target: str | Path,
    *,
    column: str | None = None,
    group_column: str | None = None,
    keep: Sequence[str] = (),
    keep_order: bool = False,
    person: str | None = None,
    ledger: Ledger | str | Path | None = None,
    force: bool = False,
    on_unknown: OnUnknown = "stop",
    words: RandomWords | int | None = None,
    progress: Progress | None = None,
    source_format: str | None = None,
    target_format: str | None = None,
) -> PerturbSummary:
    """Write one report for each row: the columns group (where the plan names groups), public answers, `keep`, block,
    report.

    A plan with a recoding takes raw data: cells become answers and groups as those of the priors did. Rows without an
    answer or a group are then left out and counted, as the priors left them out.

    A plan of several questions takes a column for each private question, by its name, and writes which block of
    questions a report is about; a plan of one question takes the `column` and has no blocks. Answers to questions that
    the plan calls public are written as they are, private answers never.

    Rows come in random order, each order with the same chance, unless `keep_order`. Nothing is written before all
    answers are read. Rows without an answer or a group of the plan stop the run, or are skipped and counted. Kept
    columns, or a kept order, that give answers away stop the run, unless `force`. With a column `person` two rows of
    one person stop the run: two reports of an answer tell more than one. With a `ledger` that is so across runs.

    Args:
        plan: the plan.
        source: a file, a data frame, an Arrow table or a mapping of columns.
        target: the file to write.
        column: the column with the answers; by default that of the plan's recoding, or `value`.
        group_column: a column with names of groups; by default those of the plan's recoding, or `group`.
        keep: public columns to keep beside the report.
        keep_order: write the rows in the order of the answers instead of a random one.
        person: a column that tells persons apart; two rows of one person stop the run.
        ledger: a ledger or its file (`tacit.files.Ledger`): a second draw of a wave stops the run, also in another run.
            Its secret is the memory of the devices for plans with two layers.
        force: go on where a kept column, or the kept order, gives the answers away.
        on_unknown: "stop" or "skip" at rows whose answer or group is not in the plan.
        words: a source of random words, or a seed for simulations; secure words without it.
        progress: is called with the number of rows done.
        source_format: "csv", "parquet", "jsonl" or "arrow"; by default what the extension says.
        target_format: "csv", "parquet", "jsonl" or "arrow"; by default what the extension says.

    Returns:
        How many rows were read, written and skipped.

    Raises:
        InputError: the file cannot be read, or a kept column gives the answers away.
        BadRowsError: rows have an answer or a group that is not in the plan.

    >>> import tempfile
    >>> from tacit import Plan
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     perturb_file(plan, {"value": ["yes", "no", "no"]}, Path(folder, "reports.csv")).reports
    3
    """
    columns, drawn = AnswerColumns.of(plan, column, group_column, keep, person), words_of(words)
    format_of(target, target_format)
    if ledger is not None and person is None:
        raise InputError("A ledger notes who has answered: say which column tells whose row it is, pass person='NAME'.")
    noted = Ledger.open(ledger) if isinstance(ledger, str | Path) else ledger
    memory = _memory(plan, noted)
    # Reports on standard output have left already when a reader of it ends early: the ledger keeps who they are of.
    undoable = None if str(target) == STANDARD else noted
    with _undone_on_failure(undoable), reading(source, columns.read, source_format, columns.matched) as opened:
        schema = columns.schema(opened.schema, plan)
        # Before the reports are there, so that everyone with a report is in the ledger.
        last = None if noted is None else noted.save
        with holding(target, schema, target_format, None if keep_order else drawn, last) as held:
            watch, persons = Watch(columns.sent, keep_order), Persons(columns.person)
            done = perturb_rows(
                Perturber(plan, columns, memory), opened, held, watch, force, on_unknown, drawn, progress, persons
            )
            if noted is not None:
                noted.add(plan, persons.seen)
            return done


def _memory(plan: AnyPlan, ledger: Ledger | None) -> bytes | None:
    """The secret that stored reports follow from, where the plan has two layers."""
    if all(group.layers is None for group in plan.groups):
        return None
    if ledger is None:
        raise InputError(
            "This plan has two layers: the stored report of a person must be the same in every wave. Say which column "
            "tells whose row it is and where the ledger is, whose secret it follows from: --person and --ledger."
        )
    if plan.wave > 1 and not ledger.knows(plan.series or ""):
        raise InputError(
            f"{ledger.path} has no earlier wave of this survey, and wave {plan.wave} of two layers needs the ledger of "
            "the waves before: stored reports follow from its secret. With another people would draw anew, which tells "
            "more. Nothing was written."
        )
    return ledger.memory


@contextmanager
def _undone_on_failure(ledger: Ledger | None) -> Iterator[None]:
    """Put the ledger back as it was where the reports could not be written."""
    try:
        yield
    except BaseException:
        if ledger is not None:
            ledger.undo()
        raise


def perturb_table(
    plan: AnyPlan,
    table: Any,
    *,
    column: str | None = None,
    group_column: str | None = None,
    keep: Sequence[str] = (),
    keep_order: bool = False,
    person: str | None = None,
    force: bool = False,
    on_unknown: OnUnknown = "stop",
    words: RandomWords | int | None = None,
    progress: Progress | None = None,
) -> pa.Table:
    """`perturb_file` in memory: a data frame, an Arrow table, a mapping of columns or one array in, an Arrow table out.

    Rows come in random order too: what belongs to a report is in `keep`, not in the same row of the answers.

    Args:
        plan: the plan.
        table: a data frame, an Arrow table, a mapping of columns or one array.
        column: the column with the answers; by default that of the plan's recoding, or `value`.
        group_column: a column with names of groups; by default those of the plan's recoding, or `group`.
        keep: public columns to keep beside the report.
        keep_order: write the rows in the order of the answers instead of a random one.
        person: a column that tells persons apart; two rows of one person stop the run.
        force: go on where a kept column, or the kept order, gives the answers away.
        on_unknown: "stop" or "skip" at rows whose answer or group is not in the plan.
        words: a source of random words, or a seed for simulations; secure words without it.
        progress: is called with the number of rows done.

    Returns:
        The reports, with public answers and the kept columns.

    Raises:
        InputError: the table cannot be read, or a kept column gives the answers away.
        BadRowsError: rows have an answer or a group that is not in the plan.

    >>> from tacit import Prior, Survey, make_plan
    >>> plan = make_plan(Prior.of({"yes": 0.1, "no": 0.9}), Survey("yes"), epsilon=1)
    >>> perturb_table(plan, ["yes", "no", "no"]).column_names
    ['report']
    """
    columns, drawn = AnswerColumns.of(plan, column, group_column, keep, person), words_of(words)
    with reading(table, columns.read) as opened:
        schema = columns.schema(opened.schema, plan)
        with HeldRows(schema, None if keep_order else drawn) as held:
            watch, persons = Watch(columns.sent, keep_order), Persons(columns.person)
            perturb_rows(Perturber(plan, columns), opened, held, watch, force, on_unknown, drawn, progress, persons)
            return pa.concat_tables([schema.empty_table(), *held.tables()])


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
        cls, plan: AnyPlan, value: str | None, group: str | None, keep: Sequence[str], person: str | None = None
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

    def schema(self, answers: pa.Schema, plan: AnyPlan) -> pa.Schema:
        """Of the result. Kept columns lose dictionaries: they may change on the way, which some formats cannot hold."""
        group = [] if self.group is None else [(self.group, pa.dictionary(pa.int32(), pa.string()))]
        block = [] if self.block is None else [(self.block, pa.int32())]
        public = [(name, public_answers(plan, name).type) for name in self.public]
        plain = [(name, plain_type(answers.field(name).type)) for name in self.keep]
        return stamped(pa.schema([*group, *public, *plain, *block, (REPORT, pa.int64())]), plan.hash)


def public_answers(plan: AnyPlan, name: str) -> pa.Array:
    """The answers to a public question, as they are written."""
    return pa.array(plan.question_of(name).answers)


class BadRows:
    """Bad rows by reason: how many, and where the first ones are; never what is in them.

    `hints` say what else there is to say about a reason, from the plan's side; `problem` is what is wrong with all.
    """

    def __init__(self, source: Source, problem: str = CANNOT_RANDOMIZE) -> None:
        self._source, self._problem = source, problem
        self.hints: dict[str, str] = {}
        self.counts: dict[str, int] = defaultdict(int)
        self._first: dict[str, list[int]] = defaultdict(list)

    @property
    def stop(self) -> bool:
        """Whether there are rows that stop a run."""
        return bool(stopping(self.counts))

    def note(self, start: int, reasons: Mapping[str, NDArray[np.bool_]]) -> None:
        """Count each row once, by the first of its reasons; `start` rows came before these."""
        earlier: Any = False
        for reason, rows in reasons.items():
            found = np.flatnonzero(rows & ~np.asarray(earlier))
            earlier = earlier | rows
            if len(found):
                self.counts[reason] += len(found)
                nth = found[: _SHOWN_ROWS - len(self._first[reason])]
                self._first[reason] += [self._source.row_number(start + int(row) + 1) for row in nth]

    def finish(self, on_unknown: OnUnknown) -> dict[str, int]:
        """All that were bad, by reason; raises where bad rows stop the run."""
        if self._source.malformed:
            self.counts["wrong number of cells"] = len(self._source.malformed)
            self._first["wrong number of cells"] = self._source.malformed[:_SHOWN_ROWS].tolist()
        if on_unknown == "stop" and self.stop:
            raise bad_rows(self._source.name, self.counts, self.hints, self._first, self._problem)
        return dict(self.counts)


def stopping(counts: Mapping[str, int]) -> dict[str, int]:
    """The rows that stop a run: all that the plan's recoding does not leave out."""
    return {reason: count for reason, count in counts.items() if reason not in LEFT_OUT}


def bad_rows(
    name: str,
    counts: Mapping[str, int],
    hints: Mapping[str, str],
    first: Mapping[str, Sequence[int]] | None = None,
    problem: str = CANNOT_RANDOMIZE,
) -> BadRowsError:
    """The error that says how many bad rows there are, why, and where the `first` are if rows have numbers."""
    counts, parts = stopping(counts), []
    for reason, count in counts.items():
        shown = ", ".join(map(str, first[reason])) + (", …" if count > _SHOWN_ROWS else "") if first else ""
        parts.append(f"{reason}: {count}" + (f" ({'row' if count == 1 else 'rows'} {shown})" if shown else ""))
    total = sum(counts.values())
    more = "".join(f" {hint}" for reason, hint in hints.items() if reason in counts)
    return BadRowsError(
        f"{name} has {total} {'row' if total == 1 else 'rows'} {problem}. "
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
    of the table are `good`, and why the others are not.
    """

    rows: pa.Table
    groups: NDArray[Any]
    held: NDArray[Any]
    good: NDArray[np.bool_]
    reasons: Mapping[str, NDArray[np.bool_]]

    def bad_counts(self) -> dict[str, int]:
        """How many rows cannot be randomized, each counted once, by the first of its reasons."""
        counts, earlier = {}, np.zeros(len(self.good), dtype=bool)
        for reason, rows in self.reasons.items():
            if count := int((rows & ~earlier).sum()):
                counts[reason] = count
            earlier |= rows
        return counts


class _GroupColumns:
    """Rows of a table to the positions of their groups: by a column with their names, or by `raw` columns whose recoded
    names are joined.
    """

    def __init__(self, names: Sequence[str], column: str, raw: Sequence[RecodedColumn]) -> None:
        self.read, self._recode = [each.column for each in raw] or [column], [Recoder(each) for each in raw]
        self._match, self._raw = Matcher(names, column, suggest=True), raw

    @property
    def recoded(self) -> bool:
        return bool(self._recode)

    @property
    def near(self) -> set[str]:
        """The names that unknown cells nearly are."""
        return self._match.near

    @property
    def how(self) -> str:
        """Where recoded groups are read, for a message."""
        ends = [f", a number from {raw.edges[0]:g} to {raw.edges[-1]:g}" if raw.edges else "" for raw in self._raw]
        told = " and ".join(f"'{raw.column}'{end}" for raw, end in zip(self._raw, ends, strict=True))
        return f" They are recoded from {told}." if told else ""

    def __call__(self, table: pa.Table) -> Any:
        return self._match(self.names(table))

    def names(self, table: pa.Table) -> pa.ChunkedArray:
        """The name of each row's group, null where there is none."""
        if not self._recode:
            return table[self.read[0]]
        names = [recode(table[column]).combine_chunks() for recode, column in zip(self._recode, self.read, strict=True)]
        return pa.chunked_array([pc.binary_join_element_wise(*names, CROSSED)])


class Perturber:
    """A plan, ready for tables of answers: every engine goes through here."""

    def __init__(self, plan: AnyPlan, columns: AnswerColumns, memory: bytes | None = None) -> None:
        self._plan, self._columns, self._memory = plan, columns, memory
        self._draw = RecordRandomizer(plan)
        self._asked = [(question.answers, question.kind == "number") for question in plan.private]
        self._matchers: list[Range | Matcher] = [
            Range(values, column) if number else Matcher(values, column)
            for (values, number), column in zip(self._asked, columns.values, strict=True)
        ]
        self._public = {name: Matcher(public_answers(plan, name).to_pylist(), name) for name in columns.public}
        told, groups = ((), ()) if plan.recoding is None else (plan.recoding.answers, plan.recoding.groups)
        by_name = {each.column if columns.block else columns.values[0]: each for each in told}
        self._recode = [
            Recoder(by_name[column], values) if column in by_name else None
            for column, values in zip(columns.values, self.answers, strict=True)
        ]
        self._recode_public = {
            name: Recoder(by_name[name], public_answers(plan, name).to_pylist())
            for name in columns.public
            if name in by_name
        }
        raw = groups if columns.raw_groups else ()
        self._groups = None if columns.group is None else _GroupColumns(plan.group_names, columns.group, raw)
        self._names = pa.array(plan.group_names, pa.string())

    @property
    def answers(self) -> list[Sequence[Value]]:
        """What can be answered to each question."""
        return [values for values, _ in self._asked]

    @property
    def texts(self) -> list[bool]:
        """For each question whether its answers are read as texts, instead of numbers."""
        return [
            recode is not None or isinstance(values[0], str)
            for recode, (values, _) in zip(self._recode, self._asked, strict=True)
        ]

    @property
    def hints(self) -> dict[str, str]:
        """What there is to say about bad rows, from the plan's side."""
        several = len(self._asked) + len(self._public) > 1
        known = [
            (f"'{column}': " if several else "") + known_values(values, number)
            for column, (values, number) in zip(self._columns.values, self._asked, strict=True)
        ]
        known += [f"'{name}': " + known_values(public_answers(self._plan, name).to_pylist()) for name in self._public]
        hints = {"unknown value": " ".join(known)}
        if self._groups is not None:
            hints["unknown group"] = known_groups(self._plan.group_names, self._groups.near) + self._groups.how
        return hints

    def match(self, table: pa.Table) -> Matched:
        """Find the answers' places in the plan."""
        found = [
            match(table[column] if recode is None else recode(table[column]))
            for match, recode, column in zip(self._matchers, self._recode, self._columns.values, strict=True)
        ]
        each = [
            match.numbers if isinstance(match, Range) else values
            for match, values in zip(self._matchers, found, strict=True)
        ]
        held = each[0] if self._columns.block is None else np.array(each, dtype=np.float64).T
        groups = np.zeros_like(found[0]) if self._groups is None else self._groups(table)
        open_ = {
            name: match(self._recode_public[name](table[name]) if name in self._recode_public else table[name])
            for name, match in self._public.items()
        }
        for name, places in open_.items():
            answers = public_answers(self._plan, name)
            written = answers.take(pa.array(places, mask=places < 0))
            table = table.set_column(table.column_names.index(name), name, written)
        good = np.logical_and.reduce([values >= 0 for values in (*found, *open_.values(), groups)])
        possible = self._possible(groups, held, good)
        if (good & possible).all():
            return Matched(table, groups, held, good, {})
        reasons = self._reasons(found, list(open_.values()), groups) | {REASONS[-1]: ~possible}
        good &= possible
        return Matched(table.filter(pa.array(good)), groups[good], held[good], good, reasons)

    def _reasons(self, found: Sequence[Any], public: Sequence[Any], groups: Any) -> dict[str, NDArray[np.bool_]]:
        """Why rows cannot be randomized; `found` has the positions of the answers to each private question, `public` of
        those to each public one. Where the plan's recoding says what is no answer, such rows are left out.
        """
        by_recoding = self._groups is not None and self._groups.recoded
        declared = [each for each, recode in zip(found, self._recode, strict=True) if recode is not None]
        others = [each for each, recode in zip(found, self._recode, strict=True) if recode is None] + list(public)
        parts = [
            (LEFT_OUT[0], declared, MISSING), (LEFT_OUT[1], [groups] if by_recoding else [], MISSING),
            (REASONS[0], others, MISSING), (REASONS[1], [*found, *public], UNKNOWN),
            (REASONS[2], [] if by_recoding else [groups], MISSING), (REASONS[3], [groups], UNKNOWN),
        ]  # fmt: skip
        return {
            reason: np.logical_or.reduce([each == marker for each in positions])
            for reason, positions, marker in parts
            if positions
        }

    def _possible(self, groups: Any, held: NDArray[Any], good: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether no combination of answers is one that the plan declares impossible, by a prior of 0 in a block."""
        possible = np.ones(len(good), dtype=bool)
        place = {question.name: number for number, question in enumerate(self._plan.private)}
        rows = np.flatnonzero(good)
        for block in self._plan.blocks:
            allowed = np.array([[weight > 0 for weight in group.prior.weights] for group in block.plan.groups])
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

    def draw(self, matched: Matched, words: RandomWords | None = None) -> pa.Table:
        """A report for each row that can be randomized; with its group and what is kept, never with its answer."""
        schema = self._columns.schema(matched.rows.schema, self._plan)
        arrays: list[Any] = [matched.rows[name].cast(schema.field(name).type) for name in self._columns.sent]
        if self._columns.group is not None:
            arrays.insert(0, pa.DictionaryArray.from_arrays(pa.array(matched.groups), self._names))
        persons = None
        if self._memory is not None and self._columns.person is not None:
            persons = people_of(matched.rows[self._columns.person], self._columns.person)
        blocks, reports = self._draw.reports(matched.groups, matched.held, words, persons=persons, memory=self._memory)
        if self._columns.block is not None:
            arrays.append(pa.array((blocks + 1).astype(np.int32)))
        return pa.table([*arrays, pa.array(reports)], schema=schema)


class Persons:
    """Who was seen so far, by a public column; nothing is remembered where there is no column."""

    def __init__(self, column: str | None) -> None:
        self._column = column
        self._seen: set[str] = set()

    @property
    def seen(self) -> list[str]:
        """Everybody, in a fixed order."""
        return sorted(self._seen)

    def check(self, table: pa.Table) -> None:
        """Raise where a person has a second row, or a row does not say whose it is."""
        if self._column is None:
            return
        names = people_of(table[self._column], self._column)
        before = len(self._seen)
        self._seen.update(names)
        if "" in self._seen:
            raise InputError(
                f"The column '{self._column}' does not say whose row it is in every row. Nothing was written."
            )
        if twice := before + len(names) - len(self._seen):
            raise InputError(
                f"The column '{self._column}' has {twice:,} {'row' if twice == 1 else 'rows'} of persons who have one "
                "already. Two reports of a person tell more than one. Keep one row of each. Nothing was written."
            )


class MakesReports(Protocol):
    """What makes reports of tables of rows: of answers, of answers with a prior each, of words that stand for reports.

    `hints` say what there is to say about bad rows, when all are read.
    """

    @property
    def hints(self) -> dict[str, str]: ...

    def match(self, table: pa.Table) -> Matched: ...

    def draw(self, matched: Matched, words: RandomWords | None = None) -> pa.Table: ...


def perturb_rows(
    perturber: MakesReports,
    source: Source,
    out: HeldRows,
    watch: Watch,
    force: bool,
    on_unknown: OnUnknown,
    words: RandomWords | None,
    progress: Progress | None,
    persons: Persons | None = None,
    problem: str = CANNOT_RANDOMIZE,
) -> PerturbSummary:
    """Make the reports of all rows and hold them. Bad rows, and what gives answers away, stop the run unless they may
    be skipped, or `force`.
    """
    check_on_unknown(on_unknown)
    bad = BadRows(source, problem)
    rows = reports = 0
    gives_away: GivesAway = ()
    for table in source.tables():
        if persons is not None:
            persons.check(table)
        matched = perturber.match(table)
        gives_away += watch.pass_by(matched.rows, matched.groups, matched.held)
        refuse_giveaway(gives_away, force)
        bad.note(rows, matched.reasons)
        rows += len(matched.good)
        # After a bad row there will be no result: the rest is read only to say how many there are.
        if len(matched.rows) and (on_unknown == "skip" or not bad.stop):
            drawn = perturber.draw(matched, words)
            out.add(drawn)
            reports += len(drawn)
        if progress is not None:
            progress(rows, source.total)
    bad.hints |= perturber.hints
    skipped = bad.finish(on_unknown)
    gives_away = tuple(dict.fromkeys((*gives_away, *watch.found())))
    refuse_giveaway(gives_away, force)
    if rows and not reports and set(skipped) & set(LEFT_OUT):
        raise InputError(f"No row of {source.name} has an answer and a group, as the plan's recoding reads them.")
    return PerturbSummary(rows + len(source.malformed), reports, skipped, gives_away, source.notes)


def reports_beside(plans: Sequence[str], target: str | Path, reports: int) -> list[str]:
    """The names of other files in the target's folder that have exactly as many reports of the plan with these hashes.

    They may be an earlier draw for the same answers. Nothing in a report file says whose answers it is of: a hash of
    the answers would let its reader try them out.
    """
    found = []
    for path in sorted(Path(target).resolve().parent.iterdir()) if reports else ():
        if path == Path(target).resolve() or not path.is_file() or path.name.startswith("."):
            continue
        with suppress(InputError), reading(path, [REPORT], optional=(STAMP,)) as opened:
            check_stamp(opened.schema, plans, path.name)
            if stamp_of(opened.schema) is None and STAMP not in opened.schema.names:
                continue
            rows = opened.total
            if rows is None:
                rows = 0
                for table in opened.tables():
                    check_stamp(table, plans, path.name)
                    rows += len(table)
                    if rows > reports:
                        break
            if rows == reports:
                found.append(path.name)
    return found


def refuse_giveaway(gives_away: GivesAway, force: bool) -> None:
    """Raise if something gives answers away, unless `force` is set."""
    if gives_away and not force:
        raise GivesAwayError(gives_away)


def known_values(values: Sequence[Value], between: bool = False) -> str:
    """What a plan takes for an answer. An answer that is nearly a value is not told: it would say who holds it."""
    if between:
        return f"The plan takes numbers from {values[0]} to {values[-1]}."
    return f"The plan's values are {listed(values)}, as they are written here."


def known_groups(names: Sequence[str], near: Collection[str]) -> str:
    meant = f"Did you mean {listed(sorted(near))}? " if near else ""
    return f"{meant}The plan's groups are {listed(names)}."


def listed(names: Sequence[Value]) -> str:
    """Names for a sentence, not too many of them."""
    shown = ", ".join(f"'{name}'" if isinstance(name, str) else str(name) for name in names[:_SHOWN_NAMES])
    return shown + (f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else "")


@contextmanager
def arms_drawn(
    plan: Plan,
    source: Any,
    columns: Sequence[str],
    *,
    group_column: str | None = None,
    format: str | None = None,
    words: RandomWords | int | None = None,
) -> Iterator[pa.RecordBatchReader]:
    """The `columns` of a file or table with an arm for each row in the group column, drawn with secure random bits.

    Where the plan's arms are of groups, the group column says which; else it need not be there. Rows without a group of
    the plan have no arm; `perturb_file` then refuses or skips them.

    Args:
        plan: a plan with arms.
        source: a file, a data frame, an Arrow table or a mapping of columns.
        columns: the columns that are read.
        group_column: the column with the group names, `group` by default.
        format: "csv", "parquet", "jsonl" or "arrow"; by default what the extension says.
        words: a source of random words, or a seed for simulations; secure words without it.

    Returns:
        A reader of the answers, with an arm for each.
    """
    arms, drawn = arms_of(plan), words_of(words)
    column = group_column_of(plan, group_column)
    assert column is not None
    raw = plan.recoding.groups if plan.recoding is not None and group_column is None else ()
    if column in columns:
        raise InputError(f"The column '{column}' is made of the arms that are drawn, so it cannot be kept.")
    groups = [name for name in arms if name is not None]
    match = _GroupColumns(groups, column, raw) if groups else None
    names = np.array([[arm.name for arm in each] for each in _even(list(arms.values()))], dtype=object)
    read = [] if match is None else match.read
    with reading(source, list(dict.fromkeys([*columns, *read])), format) as opened:
        types = [opened.schema.field(name).type for name in columns]
        schema = pa.schema([*zip(columns, types, strict=True), (column, pa.string())])

        def batches() -> Iterator[pa.RecordBatch]:
            for table in opened.tables():
                places = np.zeros(len(table), dtype=np.int64) if match is None else match(table)
                arm = drawn.draw(len(table), 64) % names.shape[1]
                chosen = np.where(places >= 0, names[places, arm.astype(np.int64)], None)
                parts = [table[name] for name in columns]
                yield from pa.table([*parts, pa.array(chosen, pa.string())], schema=schema).to_batches()

        yield pa.RecordBatchReader.from_batches(schema, batches())


@contextmanager
def followed(
    plan: Plan,
    source: Any,
    history: Sequence[Any],
    columns: Sequence[str],
    *,
    person: str,
    group_column: str | None = None,
    ledger: Ledger | None = None,
    format: str | None = None,
) -> Iterator[pa.RecordBatchReader]:
    """The `columns` of a file or table with the group of each row by the belief rule, from the person's reports so far.

    Args:
        plan: a plan that follows people (`tacit.designs.following_plan`).
        source: a file, a data frame, an Arrow table or a mapping of columns; where the first wave has named groups,
            with a group for each row.
        history: the report files of earlier waves with the column `person`, the last wave at the end. Earlier ones are
            needed where people left the last wave out.
        columns: the columns that are read.
        person: the column that tells whose row it is, in all files.
        group_column: the column with the group names, `group` by default.
        ledger: refuses people who, by the ledger, have answered an earlier wave and are not in the history.
        format: "csv", "parquet", "jsonl" or "arrow"; by default what the extension says.

    Returns:
        A reader of the answers, with the group of each.

    >>> from tacit import Survey, make_plan
    >>> from tacit.designs import following_plan
    >>> plan = following_plan(make_plan({"yes": 0.2, "no": 0.8}, Survey("yes"), epsilon=1), "0.9")
    >>> answers, sent = {"id": ["a", "b"], "value": ["yes", "no"]}, {"id": ["b"], "report": [1]}
    >>> with followed(plan, answers, [sent], ["id", "value"], person="id") as reader:
    ...     reader.read_all()["group"].to_pylist()
    ['new', 'after 1']
    """
    if plan.follows is None or not history:
        raise InputError(
            "A history is for a plan by the belief rule, and such a plan needs the reports of earlier waves."
        )
    column = group_column_of(plan, group_column)
    assert column is not None
    named, sent = NEW not in plan.group_names, _histories(plan, history, person, column)
    raw = plan.recoding.groups if plan.recoding is not None and group_column is None else ()
    stated, lost = _GroupColumns(plan.group_names, column, raw), 0
    with reading(source, list(dict.fromkeys([*columns, *(stated.read if named else [])])), format) as opened:
        fields = [(name, opened.schema.field(name).type) for name in columns]
        schema = pa.schema([*fields, (column, pa.string())])

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal lost
            for table in opened.tables():
                people = people_of(table[person], person)
                groups = texts_of(stated.names(table), column).to_pylist() if named else [NEW] * len(people)
                if ledger is not None:
                    lost += sum(each not in sent and ledger.knows(plan.series or "", each) for each in people)
                if lost:
                    raise InputError(
                        f"{lost:,} {'person has' if lost == 1 else 'people have'} answered an earlier wave, by "
                        f"{ledger and ledger.path}, and have no report in the history. Give the reports of all earlier "
                        "waves, the last at the end. Nothing was written."
                    )
                found = [sent.get(each, group) for each, group in zip(people, groups, strict=True)]
                parts = [table[name] for name in columns]
                yield from pa.table([*parts, pa.array(found, pa.string())], schema=schema).to_batches()

        yield pa.RecordBatchReader.from_batches(schema, batches())


def _histories(plan: Plan, history: Sequence[Any], person: str, column: str) -> dict[str, str]:
    """For each person with a report in a file of the history the group of the plan."""
    assert plan.follows is not None
    found: dict[str, str] = {}
    for place, source in enumerate(history):
        last, seen = place == len(history) - 1, dict[str, str]()
        first = plan.wave - len(history) + place == 1 and NEW in plan.group_names
        with reading(source, [person, REPORT, *([] if first else [column])], optional=(STAMP,)) as opened:
            if last:
                check_stamp(opened.schema, plan.follows.plans, opened.name)
            for table in opened.tables():
                if last:
                    check_stamp(table, plan.follows.plans, opened.name)
                people = people_of(table[person], person)
                groups = [None] * len(people) if first else texts_of(table[column], column).to_pylist()
                if len(set(people)) < len(people) or not seen.keys().isdisjoint(people):
                    raise InputError(f"{opened.name} has two reports of one person. Nothing was written.")
                other = sum(found.get(each, group) != group for each, group in zip(people, groups, strict=True))
                if other:
                    raise InputError(
                        f"{opened.name} has {other:,} {'person' if other == 1 else 'people'} in another group than "
                        "their reports of the waves before lead to. Give the files as perturb wrote them, the first "
                        "wave first and each wave once. Nothing was written."
                    )
                for each, group, report in zip(people, groups, table[REPORT].to_pylist(), strict=True):
                    seen[each] = followed_name(group, int(report))
        found = {each: followed_name(group, None) for each, group in found.items()} | seen
    if unknown := sum(name not in set(plan.group_names) for name in set(found.values())):
        raise InputError(
            f"The history has {unknown:,} sequences of reports that this plan has no group for. Give the reports of "
            f"the waves before wave {plan.wave}, the last at the end, all of them where people left waves out."
        )
    return found


def _even(arms: list[Any]) -> list[Any]:
    if len({len(each) for each in arms}) > 1:
        raise InputError("All groups of the plan must have the same number of arms for them to be drawn.")
    return arms
