"""Reports in, a tally out, for every engine: counted by group and by cells of public columns; tallies in files; and how
many people a population has in each cell.

A report that the plan cannot have sent is refused: it is counted and never named. Parquet is grouped by DuckDB, so that
a tally costs what the query costs; everything else streams through Arrow in bounded memory.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict, Unpack
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tacit.disk import WORKBOOKS, TextTable, atomic, kind_of_json, write_text
from tacit.estimates import Cell, Margin, cells_of
from tacit.files.columns import STAMP, InputError, Matcher, as_numpy, number_of, numbers_of, reports_of, texts_of
from tacit.files.reading import (
    BATCH_ROWS,
    REPORT,
    STANDARD,
    Progress,
    Source,
    Wanted,
    careful,
    check_file,
    format_of,
    group_column_of,
    literal_path,
    no_raw_values,
    parts_of,
    quoted,
    reading,
)
from tacit.plan import CROSSED, Plan
from tacit.tally import LARGEST_WEIGHT, SUMS, Counts, Kept, Sources, Tally, merge_all

#: The column that says how many rows a row stands for. Not a name that a file would use.
ROW_COUNT = "tacit: number of rows"


class ColumnNames(TypedDict, total=False):
    """What the columns of reports are called: `report` and `group` by default. A weight for each respondent, and for
    weighted sums an offset, are in columns only where these are named.
    """

    report_column: str
    group_column: str | None
    weight_column: str | None
    offset_column: str | None


@dataclass(frozen=True)
class ReportColumns:
    """The columns of a tally run, None where there is none."""

    report: str
    group: str | None
    by: tuple[str, ...]
    weight: str | None
    offset: str | None
    block: str | None = None

    @classmethod
    def of(
        cls,
        plan: Plan,
        by: Sequence[str],
        report_column: str = REPORT,
        group_column: str | None = None,
        weight_column: str | None = None,
        offset_column: str | None = None,
    ) -> ReportColumns:
        """The columns as a caller names them, checked against the plan."""
        if isinstance(by, str):
            raise InputError(f"The 'by' parameter must be a list of columns. Got the string '{by}' instead.")
        group = group_column_of(plan, group_column)
        return cls(report_column, group, tuple(by), weight_column, offset_column, plan.block_column)

    @property
    def weighted(self) -> bool:
        return self.weight is not None or self.offset is not None

    @property
    def named(self) -> dict[str, str]:
        """Each with the parameter that chooses it."""
        chosen = [(self.report, "report_column"), (self.group, "group_column"), *((name, "by") for name in self.by)]
        chosen += [(self.weight, "weight_column"), (self.offset, "offset_column"), (self.block, "")]
        named: dict[str, str] = {}
        for name, parameter in chosen:
            if name is not None:
                named.setdefault(name, parameter)
        return named


class ReportRows:
    """Rows of tables of reports: each one's report, the place in `plan.groups` of the group (and of the block) that it
    names, below 0 where the plan has none, and whether that group's mechanism can send the report.
    """

    def __init__(self, plan: Plan, columns: ReportColumns) -> None:
        self._columns, self._mechanisms = columns, [group.mechanism for group in plan.groups]
        self._group = None if columns.group is None else Matcher(plan.group_names, columns.group)
        blocks = range(1, len(plan.block_plans) + 1)
        self._block = None if columns.block is None else Matcher(blocks, columns.block)
        self._n_groups = max(1, len(plan.group_names))
        sizes = [mechanism.n_possible_reports for mechanism in self._mechanisms]
        #: How many reports each group has; None where some group's cannot be listed.
        self._sizes = None if None in sizes else np.array(sizes, dtype=np.int64)

    def __call__(self, table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]]:
        reports = reports_of(table[self._columns.report], self._columns.report)
        places = np.zeros(len(table), np.int32) if self._group is None else self._group(table[self._columns.group])
        if self._block is not None:
            blocks = self._block(table[self._columns.block])
            # `plan.groups` has all groups of the first block, then those of the second.
            known = (places >= 0) & (blocks >= 0)
            places = np.where(known, blocks * self._n_groups + places, -1).astype(np.int32)
        return reports, places, self._can_send(places, reports)

    def _can_send(self, places: NDArray[np.int32], reports: NDArray[np.int64]) -> NDArray[np.bool_]:
        if len(self._mechanisms) == 1:
            return (places == 0) & self._mechanisms[0].can_send_many(reports)
        if self._sizes is not None:
            return (places >= 0) & (reports >= 0) & (reports < self._sizes[places])
        good = np.zeros(len(reports), dtype=bool)
        for k, mechanism in enumerate(self._mechanisms):
            mine = np.flatnonzero(places == k)
            good[mine] = mechanism.can_send_many(reports[mine])
        return good


class Piles:
    """Counts on their way to tallies: for each cell of the `by` columns and each group, counts of growing size.

    Counts that follow on each other are only put side by side, others are merged with those of similar size: many
    reports, all different, cost one pass where they come in order and a logarithmic number of merges where not.
    """

    def __init__(self, plan: Plan, columns: ReportColumns) -> None:
        self._plan, self._columns, self._rows = plan, columns, ReportRows(plan, columns)
        self._piles: dict[tuple[tuple[str, ...], int], list[Any]] = defaultdict(list)
        self.refused: dict[tuple[str, ...], int] = defaultdict(int)

    @property
    def countable(self) -> bool:
        """Whether rows repeat, so that counting different ones saves work."""
        return not self._columns.weighted and all(group.mechanism.n_sums is None for group in self._plan.groups)

    def counted(self, source: Source, progress: Progress | None = None) -> dict[tuple[str, ...], Tally]:
        """The tallies of all rows of a source."""
        done = 0
        for table in source.reports(self._plan.hashes):
            done += self.add(table)
            if progress is not None:
                progress(done, source.total)
        if source.malformed:
            self.refused[("",) * len(self._columns.by)] += len(source.malformed)
        return self.tallies()

    def add(self, table: pa.Table) -> int:
        """Count a table; how many rows it stands for."""
        reports, groups, good = self._rows(table)
        times = as_numpy(table[ROW_COUNT]) if ROW_COUNT in table.column_names else None
        public = (self._columns.weight, self._columns.offset)
        extra = [None if name is None else numbers_of(table[name], name) for name in public]
        self._check_design(extra[0])
        names, keys = self._keys(table, len(reports))
        for numbers in extra:
            if numbers is not None:
                good &= np.abs(numbers) <= LARGEST_WEIGHT  # False for NaN.
        for key, count in enumerate(np.bincount(keys[~good], None if times is None else times[~good])):
            if count:
                self.refused[names[key]] += int(count)
        cells = np.where(good, keys.astype(np.int64) * len(self._plan.groups) + groups, -1)
        for cell, rows in _classes(cells):
            if cell >= 0:
                key, group = divmod(cell, len(self._plan.groups))
                parts = [None if column is None else column[rows] for column in (times, *extra)]
                self._pile(names[key], group, self._kept(group, reports[rows], *parts))
        return len(reports) if times is None else int(times.sum())

    def tallies(self) -> dict[tuple[str, ...], Tally]:
        """A tally for each combination of cells of the `by` columns, sorted."""
        counts: dict[tuple[str, ...], dict[str | None, Kept]] = {key: {} for key in sorted(self.refused)}
        for (key, group), pile in sorted(self._piles.items()):
            counts.setdefault(key, {})[self._plan.groups[group].name] = _joined(pile)
        hash_ = self._plan.hash
        return {key: Tally(hash_, counts[key], self.refused.get(key, 0)) for key in sorted(counts)}

    def _kept(self, group: int, reports: NDArray[np.int64], times: Any, weights: Any, offsets: Any) -> Kept:
        mechanism = self._plan.groups[group].mechanism
        if weights is None and offsets is None:
            return mechanism.keep(reports, times)
        if mechanism.n_sums is not None:
            raise InputError(
                "Weights need counts of single reports, and this plan's many values are kept as sums. Export "
                "pseudo-values instead (`tacit export`), which take any weights."
            )
        if offsets is not None and not self._plan.takes_weights:
            raise InputError("Offsets are for a weighted sum, and this plan asks for something else.")
        return Counts.of(reports, weights, offsets)

    def _pile(self, key: tuple[str, ...], group: int, kept: Kept) -> None:
        pile = self._piles[key, group]
        if not kept.is_counted:
            pile[:] = [pile[0].merge(kept) if pile else kept]
            return
        counts = kept.counted()
        while pile and not _follows(pile[-1], counts) and len(pile[-1].reports) <= 2 * len(counts.reports):
            counts = Counts.merge(pile.pop(), counts)
        pile.append(counts)

    def _check_design(self, weights: NDArray[np.float64] | None) -> None:
        """The a of a·x + b is any number; a design weight is the number of people whom a respondent represents."""
        if weights is not None and not self._plan.takes_weights and (weights < 0).any():
            raise InputError(
                f"Design weights say how many people a report stands for, so they must be 0 or more. The column "
                f"'{self._columns.weight}' has {int((weights < 0).sum()):,} below 0 among {len(weights):,} rows. "
                "Weights of any sign are for a plan of the task weighted-sum."
            )

    def _keys(self, table: pa.Table, size: int) -> tuple[list[tuple[str, ...]], NDArray[np.int64]]:
        """The combinations of cells of the `by` columns, each once, and which of them each row has."""
        names: list[tuple[str, ...]] = [()]
        keys = np.zeros(size, np.int64)
        for column in self._columns.by:
            cells = texts_of(table[column], column).combine_chunks().dictionary_encode()
            texts = cells.dictionary.to_pylist()
            if names == [()]:
                names, keys = [(text,) for text in texts], as_numpy(cells.indices).astype(np.int64)
                continue
            seen, keys = np.unique(keys * len(texts) + as_numpy(cells.indices), return_inverse=True)
            names = [(*names[key // len(texts)], texts[key % len(texts)]) for key in seen.tolist()]
        return names, keys


def _classes(cells: NDArray[np.int64]) -> Iterator[tuple[int, Any]]:
    """Each different cell with the rows that hold it."""
    if len(cells) and (cells == cells[0]).all():
        yield int(cells[0]), slice(None)
        return
    # Numpy sorts 16 bits in linear time.
    order = np.argsort(cells.astype(np.int16) if cells.max(initial=0) < 2**15 else cells, kind="stable")
    starts = np.flatnonzero(np.diff(cells[order], prepend=cells[order][:1] - 1))
    for rows in np.split(order, starts[1:]):
        if len(rows):
            yield int(cells[rows[0]]), rows


def _follows(first: Counts, second: Counts) -> bool:
    """Whether all reports of the second are greater than those of the first, so that nothing has to be merged."""
    return first.sums is None and second.sums is None and bool(first.reports[-1] < second.reports[0])


def _joined(pile: list[Any]) -> Kept:
    if len(pile) > 1 and all(_follows(*pair) for pair in pairwise(pile)):
        return Counts(*(np.concatenate([getattr(part, name) for part in pile]) for name in ("reports", "counts")))
    return reduce(Counts.merge, reversed(pile))


#: The names that Spark gives to files: a number, and a random number of the job that wrote them.
_PART_NAME = re.compile(r"part-\d+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b.*")
#: Files with equal content count as one if the chance of equal reports is below 2^-64.
_SAME_BITS = 64


def tally_file(
    plan: Plan,
    source: Any,
    *,
    progress: Progress | None = None,
    format: str | None = None,
    **columns: Unpack[ColumnNames],
) -> Tally:
    """Count the reports of a file, of "-", of a table in memory (a data frame, a mapping of columns, an array), or of a
    relation of DuckDB, such as `connection.table("reports")`, which counts where it can.

    Refused are reports out of the mechanism's range, reports of groups that the `plan` does not have, and, where the
    columns are named, reports without a weight or an offset of at most 2^53. A `source` of another plan raises
    `InputError`; a relation that has no column `tacit_plan` (p and the first eight digits of the plan's hash) is taken
    with a warning. `columns` are called `report_column`, `group_column` (`group` by default), `weight_column` (a weight
    for each respondent) and `offset_column` (an offset, for weighted sums). `progress` is called with the number of
    rows done; `format` is "csv", "parquet", "jsonl" or "arrow", by default what the extension says.

    >>> from tacit import Prior, Survey, make_plan
    >>> plan = make_plan(Prior.of({"yes": 0.1, "no": 0.9}), Survey("yes"), epsilon=1)
    >>> tally_file(plan, {"report": [0, 1, 1, 7]}).n_reports
    3
    """
    return with_source(whole_of(plan, tally_by(plan, source, (), progress=progress, format=format, **columns)), source)


def tally_by(
    plan: Plan,
    source: Any,
    by: Sequence[str],
    *,
    progress: Progress | None = None,
    format: str | None = None,
    **columns: Unpack[ColumnNames],
) -> dict[tuple[str, ...], Tally]:
    """A tally for each combination of cells of the public columns `by`, in order; a cell that is null is "".

    `plan`, `source`, `progress`, `format` and `columns` are as of `tally_file`.

    >>> from tacit import Prior, Survey, make_plan
    >>> plan = make_plan(Prior.of({"yes": 0.1, "no": 0.9}), Survey("yes"), epsilon=1)
    >>> reports = {"report": [0, 1, 1], "region": ["north", "north", "south"]}
    >>> {cells: tally.n_reports for cells, tally in tally_by(plan, reports, ["region"]).items()}
    {('north',): 2, ('south',): 1}
    """
    named = ReportColumns.of(plan, by, **columns)
    piles, duckdb = Piles(plan, named), sys.modules.get("duckdb")
    if duckdb is not None and isinstance(source, duckdb.DuckDBPyRelation):
        return piles.counted(_relation_source(source, plan, named, piles.countable), progress)
    with reading(source, named.named, format, optional=(STAMP,)) as rows:
        if not piles.countable or not _duckdb_reads(source, format):
            return piles.counted(rows, progress)
        with _grouped(str(source), rows.schema.names) as batches:
            return piles.counted(replace(rows, batches=batches), progress)


def whole_of(plan: Plan, parts: Mapping[tuple[str, ...], Tally]) -> Tally:
    """All parts together."""
    return merge_all([Tally(plan.hash, {}), *parts.values()])


def sources_of(source: Any, collision_bits: float) -> Sources:
    """What was counted: a file by its content, unless it is so small that another may be equal by chance."""
    if not isinstance(source, str | Path):
        return Sources()
    if Path(source).is_dir():
        return sources_of_parts(map(str, parts_of(source)))
    if str(source) == STANDARD or collision_bits < _SAME_BITS or not Path(source).is_file():
        return Sources.drawn()
    return Sources.of_file(source)


def with_source(tally: Tally, source: Any) -> Tally:
    """The tally, with what it counted."""
    return replace(tally, sources=sources_of(source, tally.collision_bits))


def sources_of_parts(files: Iterable[str]) -> Sources:
    """Names of what was counted, so that the same files are not counted twice: Spark's names differ from job to job.

    A copy under another name, or the same file on one machine, which goes by its content, is not recognised.
    """
    names = [_part_name(unquote(file)) for file in files]
    if not names or not all(_PART_NAME.fullmatch(name.rpartition("/")[2]) for name in names):
        return Sources.drawn()
    return Sources.of_names(names)


def _part_name(path: str) -> str:
    """The file's name, with the folders above it that have the cells of a partition.

    >>> _part_name("hdfs://name/reports/region=x/part-0.parquet")
    'region=x/part-0.parquet'
    """
    *folders, name = path.split("/")
    cells: list[str] = []
    while folders and "=" in folders[-1]:
        cells.insert(0, folders.pop())
    return "/".join([*cells, name])


def _duckdb_reads(source: Any, format: str | None) -> bool:
    """Whether it is a Parquet file, DuckDB is there, and names differ in more than case, which DuckDB cannot tell."""
    if not isinstance(source, str | Path) or Path(source).is_dir() or importlib.util.find_spec("duckdb") is None:
        return False
    if str(source).lower().endswith(WORKBOOKS) or format_of(source, format) != "parquet":
        return False
    names = pq.read_schema(source).names
    return len({name.lower() for name in names}) == len(names)


@contextmanager
def _grouped(path: str, names: list[str]) -> Iterator[Iterator[pa.RecordBatch]]:
    import duckdb

    with ExitStack() as stack:
        # Where groups outgrow the memory, DuckDB continues in this folder.
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tacit-"))
        settings: dict[str, Any] = {"memory_limit": "512MB", "temp_directory": folder}
        connection = stack.enter_context(duckdb.connect(config=settings))
        with no_raw_values(path, "parquet", (duckdb.Error,)):
            reader = _distinct_rows(connection.read_parquet(literal_path(path), hive_partitioning=False), names)
        yield careful(reader, path, "parquet", duckdb.Error)


def _relation_source(relation: Any, plan: Plan, named: ReportColumns, countable: bool) -> Source:
    """The rows of a relation of DuckDB, counted there where that saves work; warns where they name no plan."""
    import duckdb

    name = "The relation"
    read = Wanted(named.named, (STAMP,)).found(relation.columns, name)
    if STAMP not in read:
        told = f"The relation has no column '{STAMP}': it cannot be checked whether its reports are of this plan."
        warnings.warn(f"{told} Add it where they are drawn: 'p{plan.hash[:8]}' AS {STAMP}.", stacklevel=3)
    if countable:
        rows = _distinct_rows(relation, read)
    else:
        rows = relation.project(", ".join(map(quoted, read))).to_arrow_reader(BATCH_ROWS)
    return Source(name, rows.schema, careful(rows, name, "arrow", duckdb.Error))


def _distinct_rows(relation: Any, names: Sequence[str]) -> pa.RecordBatchReader:
    """The different rows of a relation of DuckDB and how often each comes, in the order of the reports, which stand
    first (see `Piles`).
    """
    keys = ", ".join(map(quoted, names))
    counted = relation.aggregate(f"{keys}, count(*) AS {quoted(ROW_COUNT)}", keys)
    return counted.order(quoted(names[0])).to_arrow_reader(BATCH_ROWS)


# -- tallies in files --------------------------------------------------------------------------------------------------


def read_tally(plan: Plan, source: Any, **options: Any) -> Tally:
    """A saved tally of the `plan`, or the count of reports in a file or a table `source`; `options` are those of
    `tally_file`.

    >>> from tacit import Plan
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> read_tally(plan, {"report": [0, 1, 1]}).n_reports
    3
    """
    return checked_tally(plan, source, **options) if is_tally(source) else tally_file(plan, source, **options)


def is_tally(source: Any) -> bool:
    """Whether it is the path of a saved tally."""
    if not isinstance(source, str | Path):
        return False
    path = Path(source)
    if path.suffix.lower() != ".parquet" or not path.is_file():
        return path.suffix.lower() == ".json"
    with no_raw_values(str(path), "parquet"):
        return b"tacit_tally" in (pq.read_schema(path).metadata or {})


def checked_tally(plan: Plan, path: str | Path, **options: Any) -> Tally:
    """A saved tally of the plan; weights are in it or nowhere."""
    tally = load_tally(path)
    try:
        tally.check(plan)
    except ValueError as error:
        raise InputError(
            f"{path} does not belong to the plan. {error} Name its plan; of an earlier round, with --before-plan."
        ) from error
    for option in ("weight_column", "offset_column"):
        if options.get(option) is not None:
            raise InputError(
                f"{path} is a tally, which has no column '{options[option]}'. Weights and offsets have to be there "
                "when reports are counted."
            )
    return tally


def save_tally(tally: Tally, path: str | Path) -> None:
    """Write a `tally` to a `path` as JSON or, by the extension .parquet, as a table of group, report, count;
    atomically.

    >>> import tempfile
    >>> from tacit import Plan
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_tally(Tally.of(plan, [0, 1, 1]), Path(folder, "tally.json"))
    """
    if tally_format(path) == ".json":
        write_text(path, json.dumps(tally.to_dict(), ensure_ascii=False) + "\n")
        return
    with atomic(path) as draft:
        pq.write_table(_to_table(tally), draft)


def load_tally(path: str | Path) -> Tally:
    """Read from a `path` what `save_tally` wrote; raises `InputError` for what no tally can hold.

    >>> import tempfile
    >>> from tacit import Plan
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_tally(Tally.of(plan, [0, 1, 1]), Path(folder, "tally.json"))
    ...     load_tally(Path(folder, "tally.json")).n_reports
    3
    """
    kind = tally_format(path)
    check_file(path)
    try:
        if kind == ".json":
            if (what := kind_of_json(path)) not in (None, "a tally"):
                raise ValueError(f"It is {what}.")
            return Tally.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        return Tally.from_dict(_from_table(pq.read_table(path)))
    except (pa.ArrowException, OSError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        why = error if type(error) is ValueError else "It is damaged or another file."
        raise InputError(f"{path} is not a tally of groups. {why}") from error


def tally_format(path: str | Path) -> str:
    """The extension of a tally's file; raises where it is no tally's."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".json", ".parquet"):
        raise InputError(f"A tally is a .json or a .parquet file. Got '{Path(path).name}'.")
    return suffix


def _to_table(tally: Tally) -> pa.Table:
    """One row for each report with its count; of sums of coverage, one for each value with its sum."""
    groups = tally.to_dict()["groups"]
    weighted = any(SUMS[0] in group for group in groups)
    totals = {str(k): group["total"] for k, group in enumerate(groups) if "coverage" in group}
    reports = [group.get("reports", range(len(group.get("coverage", ())))) for group in groups]
    counts = [group.get("counts", group.get("coverage")) for group in groups]
    names = [group["group"] for group in groups]
    columns: dict[str, Any] = {
        "group": pa.array([name for name, mine in zip(names, reports, strict=True) for _ in mine], pa.string()),
        "report": pa.array([report for mine in reports for report in mine], pa.int64()),
        "count": pa.array([count for mine in counts for count in mine], pa.int64()),
    }
    for name in SUMS if weighted else ():
        columns[name] = pa.array([cell for group in groups for cell in group[name]], pa.string())
    about = {"tacit_tally": "1", "plan": tally.plan, "refused": str(tally.refused), "coverage": json.dumps(totals)}
    about |= {"sources": json.dumps(tally.sources.to_dict())} if tally.sources.ids else {}
    return pa.table(columns, metadata=about)


def _from_table(table: pa.Table) -> Mapping[str, Any]:
    """The dictionary that `Tally.from_dict` reads."""
    about = {key.decode(): text.decode() for key, text in (table.schema.metadata or {}).items()}
    known = {"report": "reports", "count": "counts"} | {name: name for name in SUMS}
    columns = {column: name for column, name in known.items() if column in table.column_names}
    totals = json.loads(about.get("coverage", "{}"))
    groups: list[dict[str, Any]] = []
    for k, group in enumerate(table["group"].unique().to_pylist()):
        mine = table.filter(pc.is_null(table["group"]) if group is None else pc.equal(table["group"], group))
        if str(k) in totals:
            groups.append({"group": group, "total": totals[str(k)], "coverage": mine["count"].to_pylist()})
        else:
            groups.append({"group": group} | {name: mine[column].to_pylist() for column, name in columns.items()})
    return {
        "tacit_tally": int(about["tacit_tally"]),
        "plan": about["plan"],
        "refused": int(about["refused"]),
        **({"sources": json.loads(about["sources"])} if "sources" in about else {}),
        "groups": groups,
    }


#: The column of a population file that has the numbers; the others name the categories.
SIZE = "size"


def read_cells(
    plan: Plan,
    source: Any,
    margins: Sequence[str] = (),
    *,
    group_column: str | None = None,
    group_parts: Sequence[str] = (),
    count: Callable[..., dict[tuple[str, ...], Tally]] = tally_by,
    **options: Any,
) -> tuple[Tally, list[Cell]]:
    """All reports of a `plan` counted, and in cells that tell the categories of every margin apart.

    The `source` is a tally, which has no columns but groups, or reports in a file or a table. One of the `margins` is
    the `group_column`, one of the names `group_parts` of what was crossed to make the groups (in their order), or any
    other public column of the reports. `options` are those of `tally_by`; `count` is another engine's function of that
    kind.

    >>> from tacit import Plan
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> tally, cells = read_cells(plan, {"report": [0, 1, 1], "sex": ["f", "m", "f"]}, ["sex"])
    >>> tally.n_reports, len(cells)
    (3, 2)
    """
    named = group_column or "group"
    group_parts = group_parts or _recoded_parts(plan, named)
    of_groups = {named, *group_parts} if plan.group_names else set()
    columns = tuple(dict.fromkeys(name for name in margins if name not in of_groups))
    if is_tally(source):
        if columns:
            raise InputError(_no_column(plan, source, columns[0]))
        whole = checked_tally(plan, source, **options)
        return whole, cells_of(plan, whole, group_column=named, group_parts=group_parts)
    tallies = count(plan, source, columns, group_column=group_column, **options)
    return whole_of(plan, tallies), cells_of(plan, tallies, columns, group_column=named, group_parts=group_parts)


def _recoded_parts(plan: Plan, named: str) -> tuple[str, ...]:
    """The columns that the groups of a plan are recoded from, where each part of a group's name is of one of them."""
    parts = () if plan.recoding is None else tuple(each.column for each in plan.recoding.groups)
    apart = all(len(name.split(CROSSED)) == len(parts) for name in plan.group_names)
    return parts if apart and named not in parts else ()


def _no_column(plan: Plan, source: Any, column: str) -> str:
    said = f"{source} is a tally, which has no column '{column}'. "
    if column in plan.public_questions:
        return said + "Public answers are counted from the reports: use them instead."
    if any(CROSSED in name for name in plan.group_names):
        return said + f"Its groups are crossed: say what their parts are, as in --group-parts {column},other."
    return said + "Use the reports instead."


def read_population(path: str | Path) -> Margin:
    """From a CSV file at `path` with a column `size` and one or more columns of the reports: how many people are in
    each category.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "regions.csv")
    ...     _ = path.write_text("region,size\\nnorth,100\\nsouth,300\\n")
    ...     read_population(path).total
    400.0
    """
    check_file(path)
    try:
        rows = TextTable.read(path, [SIZE]).by_column(path)
    except ValueError as error:
        raise InputError(str(error)) from None
    columns = tuple(name for name in rows[0] if name != SIZE)
    if SIZE not in rows[0] or not columns:
        raise InputError(f"{path} must have one column '{SIZE}' and at least one other. Got {', '.join(rows[0])}.")
    sizes: dict[tuple[str, ...], float] = {}
    for row in rows:
        category, size = tuple(row[name] for name in columns), number_of(row[SIZE])
        if size is None or not 0 < size < float("inf") or category in sizes:
            raise InputError(
                f"Line {row.line} of {path} must have a category that stands nowhere else, and a positive size."
            )
        sizes[category] = float(size)
    return Margin(columns, sizes)
