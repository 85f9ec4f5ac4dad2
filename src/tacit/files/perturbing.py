"""The file engine: answers in, reports out, in bounded memory. Its other half is `tacit.files.tallies`.

Answers come as CSV, Parquet, JSON lines, Arrow files and streams, standard input or tables in memory. Rows are worked
on in blocks of the same size for any format, so the same answers and the same random words give the same reports
in every format. Reports are held until all answers are read and nothing speaks against writing them, then written in
random order.

Groups that no file has are found here, too: by chance for a plan with arms (`arms_drawn`), by a person's earlier
reports for a plan by the belief rule (`followed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import pyarrow as pa

from tacit.files.answers import (
    LEFT_OUT,
    AnswerColumns,
    BadRows,
    Labels,
    Matched,
    OnUnknown,
    Perturber,
    ReportMaker,
    check_on_unknown,
)
from tacit.files.columns import STAMP, GroupColumns, InputError, check_stamp, people_of, stamp_of, texts_of
from tacit.files.giveaway import GivesAway, refuse_giveaway
from tacit.files.ledger import Ledger
from tacit.files.reading import REPORT, STANDARD, Progress, group_column_of, reading
from tacit.files.writing import Write, holding
from tacit.mechanism.protocol import RandomWords
from tacit.plan import NEW, Plan, arms_of, followed_name
from tacit.randomize import words_of


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


class Handling(TypedDict, total=False):
    """How rows are handled, see `perturb_file`."""

    keep_order: bool
    force: bool
    on_unknown: OnUnknown
    words: RandomWords | int | None
    progress: Progress | None


def perturb_file(
    plan: Plan,
    source: Any,
    target: str | Path,
    *,
    column: str | None = None,
    group_column: str | None = None,
    keep: Sequence[str] = (),
    person: str | None = None,
    ledger: Ledger | str | Path | None = None,
    source_format: str | None = None,
    target_format: str | None = None,
    **options: Unpack[Handling],
) -> PerturbSummary:
    """Write one report for each row of `source` (a file, "-", a data frame, an Arrow table or a mapping of columns) to
    the file `target`: the columns group (where the plan names groups), public answers, `keep`, block, report.

    A `plan` with a recoding takes raw data: cells become answers and groups as those of the priors did. Rows without an
    answer or a group are then left out and counted, as the priors left them out. Answers are in the `column` that is
    named, of the recoding, or `value`; groups in the `group_column`, those of the recoding, or `group`. A plan of
    several questions takes a column for each private question, by its name, and writes which block of questions a
    report is about. Answers to questions that the plan calls public are written as they are, private answers never.

    The `options` are `keep_order`, `force`, `on_unknown`, `words` and `progress`.

    Rows come in random order, each order with the same chance, unless `keep_order`. Nothing is written before all
    answers are read. Rows without an answer or a group of the plan stop the run (`BadRowsError`), or are skipped and
    counted where `on_unknown` is "skip". Kept columns, or a kept order, that give answers away stop it (`InputError`),
    unless `force`. With a column `person` two rows of one person stop the run: two reports of an answer tell more than
    one. With a `ledger` that is so across runs; its secret is the memory of the devices for plans with two layers.

    `words` are a source of random words, or a seed for simulations; secure words without it. `progress` is called with
    the number of rows done. `source_format` and `target_format` are "csv", "parquet", "jsonl" or "arrow", by default
    what the extension says.

    >>> import tempfile
    >>> from tacit import Plan
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     perturb_file(plan, {"value": ["yes", "no", "no"]}, Path(folder, "reports.csv")).reports
    3
    """
    columns = AnswerColumns.of(plan, column, group_column, keep, person)
    if ledger is not None and person is None:
        raise InputError("A ledger notes who has answered: say which column tells whose row it is, pass person='NAME'.")
    noted = Ledger.open(ledger) if isinstance(ledger, str | Path) else ledger
    maker = Perturber(plan, columns, _memory(plan, noted))
    note, last = (None, None) if noted is None else (partial(noted.add, plan), noted.save)
    try:
        return write_reports(
            maker, source, target, source_format=source_format, target_format=target_format, note=note, last=last,
            **options,
        )  # fmt: skip
    except BaseException:
        # Reports on standard output have left already when a reader of it ends early: the ledger keeps who they are of.
        if noted is not None and str(target) != STANDARD:
            noted.undo()
        raise


def _memory(plan: Plan, ledger: Ledger | None) -> bytes | None:
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


def perturb_table(
    plan: Plan,
    table: Any,
    *,
    column: str | None = None,
    group_column: str | None = None,
    keep: Sequence[str] = (),
    person: str | None = None,
    **options: Unpack[Handling],
) -> pa.Table:
    """`perturb_file` in memory: a data frame, an Arrow table, a mapping of columns or one array in, an Arrow table out.

    Rows come in random order too: what belongs to a report is in `keep`, not in the same row of the answers. The
    parameters `plan`, `table`, `column`, `group_column` and `person` mean what they mean there, and the `options` are
    `keep_order`, `force`, `on_unknown`, `words` and `progress`.

    >>> from tacit import Prior, Survey, make_plan
    >>> plan = make_plan(Prior.of({"yes": 0.1, "no": 0.9}), Survey("yes"), epsilon=1)
    >>> perturb_table(plan, ["yes", "no", "no"]).column_names
    ['report']
    """
    tables: list[pa.Table] = []
    columns = AnswerColumns.of(plan, column, group_column, keep, person)
    write_reports(Perturber(plan, columns), table, tables.append, **options)
    return pa.concat_tables(tables)


def label_file(
    plan: Plan,
    labels: Sequence[str],
    source: str | Path,
    target: str | Path,
    *,
    column: str,
    group_column: str | None = None,
    on_unknown: OnUnknown = "stop",
    progress: Progress | None = None,
    source_format: str | None = None,
    target_format: str | None = None,
) -> PerturbSummary:
    """Write the report of a `plan` that each row of a file `source` stands for, and all other columns, to the file
    `target`: labels[y], in `column`, is report y.

    The `labels` match as answers do: names without blanks around them, numbers by their value. Rows with another
    word, or without a group of the plan in the `group_column`, stop the run, or are skipped and counted (`on_unknown`).
    `progress`, `source_format` and `target_format` are as of `perturb_file`.

    >>> import tempfile
    >>> from tacit import Plan
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     said = Path(folder, "said.csv")
    ...     _ = said.write_text("card\\nred\\nblack\\n")
    ...     label_file(plan, ["red", "black"], said, Path(folder, "reports.csv"), column="card").reports
    2
    """
    if str(source) == STANDARD:
        raise InputError("The data must be a file: its columns are looked at before its rows.")
    return write_reports(
        Labels(plan, labels, column, group_column), source, target, keep_order=True, on_unknown=on_unknown,
        progress=progress, source_format=source_format, target_format=target_format,
    )  # fmt: skip


def write_reports(
    maker: ReportMaker,
    source: Any,
    target: str | Path | Write,
    *,
    keep_order: bool = False,
    force: bool = False,
    on_unknown: OnUnknown = "stop",
    words: RandomWords | int | None = None,
    progress: Progress | None = None,
    source_format: str | None = None,
    target_format: str | None = None,
    note: Callable[[Mapping[str, str | None]], None] | None = None,
    last: Callable[[], None] | None = None,
) -> PerturbSummary:
    """What `perturb_file` does, for any maker of reports and also for a `target` that takes tables. When all are made,
    `note` is called with the people that they are of and their groups; `last` when the reports are on the disk under
    another name.
    """
    check_on_unknown(on_unknown)
    drawn, rows, reports = words_of(words), 0, 0
    watch, persons = maker.watch(keep_order), _Persons(maker)
    gives_away: GivesAway = ()
    with (
        reading(source, maker.read, source_format, maker.encoded, all_columns=maker.all_columns) as opened,
        holding(target, maker.schema(opened.schema), target_format, None if keep_order else drawn, last) as held,
    ):
        bad = BadRows(opened.row_number)
        for table in opened.tables():
            matched = maker.match(table)
            persons.check(table, matched)
            gives_away += watch.pass_by(matched.rows, matched.groups, matched.held)
            refuse_giveaway(gives_away, force)
            bad.note(matched, rows)
            rows += len(matched.good)
            # After a bad row there will be no result: the rest is read only to say how many there are.
            if len(matched.rows) and (on_unknown == "skip" or not bad.stop):
                made = maker.reports(matched, drawn)
                held.add(made)
                reports += len(made)
            if progress is not None:
                progress(rows, opened.total)
        bad.note_malformed(opened.malformed)
        if on_unknown == "stop" and bad.stop:
            raise bad.error(opened.name, maker)
        gives_away = tuple(dict.fromkeys((*gives_away, *watch.found())))
        refuse_giveaway(gives_away, force)
        if rows and not reports and set(bad.counts) & set(LEFT_OUT):
            raise InputError(f"No row of {opened.name} has an answer and a group, as the plan's recoding reads them.")
        if note is not None:
            note(persons.groups)
        return PerturbSummary(rows + len(opened.malformed), reports, dict(bad.counts), gives_away, opened.notes)


class _Persons:
    """People by a public column, those who have a report with the names of their `groups`; nothing is remembered where
    there is no column.
    """

    def __init__(self, maker: ReportMaker) -> None:
        self._column = maker.person
        self._names: Sequence[str | None] = maker.group_names or [None]
        self._seen: set[str] = set()
        self.groups: dict[str, str | None] = {}

    def check(self, table: pa.Table, matched: Matched) -> None:
        """Raise where a person has a second row, or a row does not say whose it is."""
        if self._column is None:
            return
        people, before = people_of(table[self._column], self._column), len(self._seen)
        self._seen.update(people)
        if "" in self._seen:
            raise InputError(
                f"The column '{self._column}' does not say whose row it is in every row. Nothing was written."
            )
        if twice := before + len(people) - len(self._seen):
            raise InputError(
                f"The column '{self._column}' has {twice:,} {'row' if twice == 1 else 'rows'} of persons who have one "
                "already. Two reports of a person tell more than one. Keep one row of each. Nothing was written."
            )
        with_report = compress(people, matched.good.tolist())
        places = matched.groups.tolist()
        self.groups |= {person: self._names[place] for person, place in zip(with_report, places, strict=True)}


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
            rows = opened.total or 0
            for table in () if opened.total is not None else opened.reports(plans):
                rows += len(table)
                if rows > reports:
                    break
            if rows == reports:
                found.append(path.name)
    return found


# -- groups that no file has --------------------------------------------------------------------------------------


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
    """The `columns` of a file or table `source` with an arm of the `plan` for each row in the `group_column`, drawn
    with secure random bits, or with those of `words` (a seed for simulations). `format` is as of `perturb_file`.

    Where the plan's arms are of groups, the group column says which; else it need not be there. Rows without a group of
    the plan have no arm; `perturb_file` then refuses or skips them.
    """
    arms, drawn = arms_of(plan), words_of(words)
    if group_column_of(plan, group_column) in columns:
        raise InputError(f"The column '{group_column}' is made of the arms that are drawn, so it cannot be kept.")
    if len({len(each) for each in arms.values()}) > 1:
        raise InputError("All groups of the plan must have the same number of arms for them to be drawn.")
    names = np.array([[arm.name for arm in each] for each in arms.values()], dtype=object)
    places = None if None in arms else _group_columns(plan, [str(name) for name in arms], group_column)

    def named(table: pa.Table) -> Any:
        groups = np.zeros(len(table), dtype=np.int64) if places is None else places(table)
        arm = drawn.draw(len(table), 64) % names.shape[1]
        return np.where(groups >= 0, names[groups, arm.astype(np.int64)], None)

    with _in_groups(plan, source, columns, group_column, format, places, named) as reader:
        yield reader


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
    """The `columns` of a file or table `source` with the group of each row by the belief rule, from the person's
    reports so far. `plan` is one that follows people (`tacit.designs.following_plan`), `format` as of `perturb_file`.

    Args:
        history: the report files of earlier waves with the column `person`, the last wave at the end. Earlier ones are
            needed where people left the last wave out.
        person: the column that tells whose row it is, in all files.
        group_column: the column of the result, `group` by default. Where the first wave has named groups, the answers
            have them there.
        ledger: refuses people who, by the ledger, have answered an earlier wave and are not in the history.

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
    column = group_column_of(plan, group_column) or ""
    sent, lost = _histories(plan, history, person, column), 0
    stated = None if NEW in plan.group_names else _group_columns(plan, plan.group_names, group_column)

    def named(table: pa.Table) -> Any:
        nonlocal lost
        people = people_of(table[person], person)
        groups = [NEW] * len(people) if stated is None else texts_of(stated.names(table), column).to_pylist()
        if ledger is not None:
            lost += sum(each not in sent and ledger.knows(plan.series or "", each) for each in people)
        if lost:
            raise InputError(
                f"{lost:,} {'person has' if lost == 1 else 'people have'} answered an earlier wave, by "
                f"{ledger and ledger.path}, and have no report in the history. Give the reports of all earlier "
                "waves, the last at the end. Nothing was written."
            )
        return [sent.get(each, group) for each, group in zip(people, groups, strict=True)]

    with _in_groups(plan, source, columns, group_column, format, stated, named) as reader:
        yield reader


def _group_columns(plan: Plan, names: Sequence[str], asked: str | None) -> GroupColumns:
    """Where groups of these names are read: in the column that is asked for, or as the plan's recoding says."""
    raw = plan.recoding.groups if plan.recoding is not None and asked is None else ()
    return GroupColumns(names, asked or "group", raw)


@contextmanager
def _in_groups(
    plan: Plan,
    source: Any,
    columns: Sequence[str],
    group_column: str | None,
    format: str | None,
    groups: GroupColumns | None,
    named: Callable[[pa.Table], Any],
) -> Iterator[pa.RecordBatchReader]:
    """The `columns` of a source, and beside them a column with what `named` makes of each table, which is read with the
    columns of `groups`.
    """
    read = dict.fromkeys([*columns, *([] if groups is None else groups.read)], "")
    with reading(source, read, format) as opened:
        fields = [(name, opened.schema.field(name).type) for name in columns]
        schema = pa.schema([*fields, (group_column_of(plan, group_column), pa.string())])

        def batches() -> Iterator[pa.RecordBatch]:
            for table in opened.tables():
                cells = [*(table[name] for name in columns), pa.array(named(table), pa.string())]
                yield from pa.table(cells, schema=schema).to_batches()

        yield pa.RecordBatchReader.from_batches(schema, batches())


def _histories(plan: Plan, history: Sequence[Any], person: str, column: str) -> dict[str, str]:
    """For each person with a report in a file of the history the group of the plan."""
    assert plan.follows is not None
    found: dict[str, str] = {}
    for place, source in enumerate(history):
        seen = dict[str, str]()
        first = plan.wave - len(history) + place == 1 and NEW in plan.group_names
        with reading(source, [person, REPORT, *([] if first else [column])], optional=(STAMP,)) as opened:
            # It is known of which plans the reports of the last wave are.
            is_last = place == len(history) - 1
            for table in opened.reports(plan.follows.plans) if is_last else opened.tables():
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
