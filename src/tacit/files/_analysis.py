"""Reports one by one: pseudo-values for other software, and regressions of the answer on public columns.

A report becomes a row of numbers. Rows keep their order and stream in bounded memory; reports that the plan cannot have
sent are left out and counted. A regression reads its formula with formulaic.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.estimates import (
    CovariateLevels,
    Linked,
    Model,
    Regression,
    covariate_levels,
    positions_of,
    pseudo_names,
    pseudo_values,
    regress,
    regress_on_private,
)
from tacit.exact import Floats
from tacit.files.answers import kept_fields
from tacit.files.columns import STAMP, InputError, decoded, is_text, number_of, numbers_of, people_of, texts_of
from tacit.files.reading import REPORT, Progress, Source, reading
from tacit.files.tallies import ReportColumns, ReportRows
from tacit.files.writing import writing
from tacit.plan import Plan
from tacit.prior import Value
from tacit.task import Matrix

#: Numbers per batch.
_AT_ONCE = 2**22


@dataclass(frozen=True)
class ExportSummary:
    """What a run did: rows written, rows refused, and which value each column of pseudo-values is about."""

    rows: int
    refused: int
    columns: dict[str, Any]


def export_file(
    plan: Plan,
    source: Any,
    target: str | Path,
    *,
    keep: Sequence[str] = (),
    values: Sequence[Value] | None = None,
    pairs: Sequence[Sequence[str]] = (),
    report_column: str = REPORT,
    group_column: str | None = None,
    progress: Progress | None = None,
    source_format: str | None = None,
    target_format: str | None = None,
) -> ExportSummary:
    """Write to the file `target` the columns group (where the `plan` names groups), `keep`, and pseudo-values: one row
    for each report of the `source`, a file, a data frame, an Arrow table or a mapping of columns.

    Of a histogram for all answers, or for some `values`, which takes far less time where there are thousands. Of a plan
    of several questions for every answer of every question, and for the joint answers of `pairs` of questions; cells of
    questions that are not in the block of a report are empty. `report_column`, `group_column` and `progress` are as of
    `tally_file`, `source_format` and `target_format` as of `perturb_file`.

    >>> import tempfile
    >>> from tacit import Plan, Survey
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, Survey("yes"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_file(plan, {"report": [0, 1]}, Path(folder, "pseudo.csv")).rows
    2
    """
    rows, done, refused = _Rows(plan, _views(plan, None, pairs, values), report_column, group_column, keep), 0, 0
    with (
        reading(source, rows.read, source_format, optional=(STAMP,)) as opened,
        writing(target, schema := rows.schema(opened), target_format) as write,
    ):
        for kept, numbers, _, bad in rows.of_tables(opened):
            write(rows.result(schema, kept, numbers))
            done, refused = done + len(numbers), refused + bad
            if progress is not None:
                progress(done + refused, opened.total)
        refused += len(opened.malformed)
    return ExportSummary(done, refused, dict(zip(rows.names, rows.about, strict=True)))


def pseudo_table(
    plan: Plan,
    table: Any,
    *,
    keep: Sequence[str] = (),
    question: str | None = None,
    report_column: str = REPORT,
    group_column: str | None = None,
    format: str | None = None,
) -> tuple[pa.Table, Floats, NDArray[np.int32], int]:
    """In memory: the columns to `keep`, the pseudo-values, each row's group as a position in the `plan`, and how many
    reports of the `table` (or of a file) were refused. Of a plan of several questions, the reports on the block of one
    `question`. `report_column`, `group_column` and `format` are as of `tally_file`.

    >>> from tacit import Plan, Survey
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, Survey("yes"))
    >>> pseudo_table(plan, {"report": [0, 1]})[1].ravel().round(9).tolist()
    [1.5, -0.5]
    """
    rows = _Rows(plan, _views(plan, question, (), None), report_column, group_column, keep)
    return _in_memory(rows, table, format)


def linked(
    plan: Plan,
    reports: Any,
    person: str,
    *,
    report_column: str = REPORT,
    group_column: str | None = None,
    format: str | None = None,
) -> Linked:
    """The `reports` of a wave with this `plan` by the column `person`, for `tacit.estimates.trend`: for each person the
    pseudo-values of the report. `report_column`, `group_column` and `format` are as of `tally_file`.

    Raises `InputError` where a person has two reports, or the plan is of a weighted sum.

    >>> from tacit import Plan, Survey
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, Survey("yes"))
    >>> linked(plan, {"report": [0, 1], "id": ["a", "b"]}, "id").people
    {'a': 0, 'b': 1}
    """
    if plan.takes_weights:
        raise InputError("Persons are not followed in weighted sums: their reports have weights of their own.")
    kept, numbers, _, _ = pseudo_table(
        plan, reports, keep=[person], report_column=report_column, group_column=group_column, format=format
    )
    people = {each: row for row, each in enumerate(people_of(kept[person], person))}
    if len(people) < len(numbers) or "" in people:
        raise InputError(f"The column '{person}' must say whose report it is, with one report for each person.")
    return Linked(people, numbers)


def _in_memory(rows: _Rows, table: Any, format: str | None) -> tuple[pa.Table, Floats, NDArray[np.int32], int]:
    """What `pseudo_table` returns: of several questions, the rows on the block of the first view."""
    with reading(table, rows.read, format, optional=(STAMP,)) as opened:
        schema = pa.schema([opened.schema.field(name) for name in rows.keep])
        parts = list(rows.of_tables(opened))
        refused = sum(part[3] for part in parts) + len(opened.malformed)
    if not parts:
        return schema.empty_table(), np.zeros((0, len(rows.about))), np.zeros(0, np.int32), refused
    kept = pa.concat_tables([part[0].select(rows.keep) for part in parts])
    numbers, places = np.concatenate([part[1] for part in parts]), np.concatenate([part[2] for part in parts])
    n_groups = max(1, len(rows.plan.group_names))
    mine = places // n_groups == rows.views[0].block
    kept = kept.filter(pa.array(mine)) if rows.keep else kept  # Arrow takes a table without columns to be empty.
    return kept, numbers[mine], (places[mine] % n_groups).astype(np.int32), refused


@dataclass(frozen=True)
class _View:
    """What is read of the reports on one block: a plan with its task, and the names of the columns."""

    plan: Plan
    names: Sequence[str]
    about: Sequence[Any]
    values: Sequence[Value] | None = None
    block: int = 0


class _Rows:
    """The columns of an export run, and what is read of the reports."""

    def __init__(self, plan: Plan, views: Sequence[_View], report: str, group: str | None, keep: Sequence[str]) -> None:
        self.plan, self.views, self.keep = plan, views, list(dict.fromkeys(keep))
        self._columns = ReportColumns.of(plan, (), report, group)
        #: The columns of pseudo-values, and what they are about.
        self.names = [name for view in views for name in view.names]
        self.about = [each for view in views for each in view.about]
        #: What is read, each with the parameter that chooses it.
        self.read = dict.fromkeys(self.keep, "") | self._columns.named
        written = [*self.keep, *self.names]
        if len(set(written)) < len(written):
            raise InputError(f"A kept column must not be called as the pseudo-values are: {written[-1]}.")

    def schema(self, source: Source) -> pa.Schema:
        group = [] if self._columns.group is None else [self._columns.group]
        before = kept_fields(source.schema, list(dict.fromkeys([*group, *self.keep])))
        return pa.schema([*before, *((name, pa.float64()) for name in self.names)])

    def of_tables(self, source: Source) -> Iterator[tuple[pa.Table, Floats, NDArray[np.int32], int]]:
        """For each table its good rows, their pseudo-values, the places of their groups, and how many are refused."""
        rows_of = ReportRows(self.plan, self._columns)
        # For any question, the coverage of all values is computed.
        size = max(1, _AT_ONCE // max(len(view.plan.row_values) for view in self.views))
        for whole in source.reports(self.plan.hashes):
            for start in range(0, len(whole), size):
                table = whole.slice(start, size)
                reports, places, good = rows_of(table)
                numbers = self._numbers(reports[good], places[good])
                yield table.filter(pa.array(good)), numbers, places[good], len(table) - len(numbers)

    def _numbers(self, reports: NDArray[np.int64], places: NDArray[np.int32]) -> Floats:
        """The pseudo-values of all views; NaN where a report is on another block."""
        found = []
        for view in self.views:
            n_groups = len(view.plan.groups)
            mine = np.flatnonzero(places // n_groups == view.block)
            numbers = np.full((len(reports), len(view.names)), np.nan)
            numbers[mine] = pseudo_values(view.plan, reports[mine], places[mine] % n_groups, view.values)
            found.append(numbers)
        return np.concatenate(found, axis=1)

    def result(self, schema: pa.Schema, kept: pa.Table, values: Floats) -> pa.Table:
        before = [kept[field.name].cast(field.type) for field in list(schema)[: -len(self.names)]]
        # NaN says that a value is outside the support, or a question in another block: an empty cell.
        return pa.table([*before, *(pa.array(column, from_pandas=True) for column in values.T)], schema=schema)


def _views(
    plan: Plan, question: str | None, pairs: Sequence[Sequence[str]], values: Sequence[Value] | None
) -> list[_View]:
    """Of every question, or of one, of two answers the first, and of pairs; columns name the questions of several."""
    if any(len(names) != 2 for names in pairs):
        raise InputError("A pair is two names of questions, as in --pair smokes,asthma.")
    asked = [(each.name,) for each in plan.private] if question is None else [(question,)]
    if values is not None and len(asked) > 1:
        raise InputError("Some values are chosen of one question. Of several questions all are written.")
    views = []
    for names in (*asked, *pairs):
        block = plan.block_of(*names)
        if len(names) == 2:
            view = plan.read_block(block, block.cross(*names))
        else:
            view = plan.asking(names[0], first=question is not None)
        columns, about = pseudo_names(view), list(view.row_values)
        if values is not None:  # Some values are called as beside all others.
            columns, about = [columns[place] for place in positions_of(view, values)], list(values)
        if plan.block_column is not None:
            labels = [name.removeprefix("pseudo").strip("_") for name in columns]
            columns = ["_".join(part for part in ("pseudo", *names, label) if part) for label in labels]
            about = [f"{' × '.join(names)}: {value}" for value in about]
        views.append(_View(view, columns, about, values, block=plan.blocks.index(block)))
    return views


@dataclass(frozen=True)
class RegressionSummary:
    """The fit, what it says about privacy, and the rows that were left out: refused reports, and missing cells."""

    fit: Regression
    levels: list[CovariateLevels]
    refused: int
    incomplete: int


def regress_file(
    plan: Plan,
    source: Any,
    formula: str,
    *,
    question: str | None = None,
    model: Model | None = None,
    reference: Value | None = None,
    level: float = 0.95,
    weight_column: str | None = None,
    cluster_column: str | None = None,
    report_column: str = REPORT,
    group_column: str | None = None,
    format: str | None = None,
) -> RegressionSummary:
    """Regress the randomized answer of a `plan` on public columns of its reports, in a file or a table `source`, by a
    `formula` such as "age + C(region)", as formulaic reads it. Returns the fit, what it says about privacy, and how
    many rows were left out.

    Of a plan of several questions the answer is that to one `question`, from the reports on its block; names of other
    questions of the block may stand in the formula like columns (`regress_on_private`). Without a `model` it is
    logistic for a survey, multinomial for a histogram (compared with the value `reference`), linear for a sum. Rows
    with a missing cell are left out and counted. Intervals have the `level`; `weight_column` has a weight for each
    respondent, and rows with the same cell in `cluster_column` may depend on each other. `report_column`,
    `group_column` and `format` are as of `tally_file`.

    >>> from tacit import Plan, Survey
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, Survey("yes"))
    >>> rows = {"report": [0, 1, 1, 0, 1, 1, 0, 1], "hours": [1, 2, 3, 4, 5, 6, 7, 8]}
    >>> [each.name for each in regress_file(plan, rows, "hours", model="linear").fit.coefficients]
    ['Intercept', 'hours']
    """
    chosen: Model = model or plan.asking(question, first=True).task.model
    parsed = _parsed(formula)
    columns = sorted(_variables(parsed))
    private = [] if plan.block_column is None else [each.name for each in plan.private if each.name in columns]
    if private and (cluster_column is not None or reference is not None):
        raise InputError("With private predictors there are no clusters and no reference. Leave them out.")
    read, views, combinations = _asked(plan, question, private, chosen)
    others = [name for name in (weight_column, cluster_column) if name is not None]
    public = [name for name in columns if name not in private]
    rows = _Rows(plan, views, report_column, group_column, [*public, *others])
    table, r, places, refused = _in_memory(rows, source, format)
    if not len(r):
        raise InputError("There are no reports to fit.")
    names, z, whole = _designed(parsed, table.select(public), columns, private, combinations, len(r))
    weights = clusters = None
    if weight_column is not None:
        weights = numbers_of(table[weight_column], weight_column)
        whole &= np.isfinite(weights) & ((weights > 0) | (not private))
    if cluster_column is not None:
        clusters = np.array(texts_of(table[cluster_column], cluster_column).to_pylist())
        whole &= clusters != ""
    weights = None if weights is None else weights[whole]
    if private:
        asked, size = plan.question_of(question), len(combinations)
        fit = regress_on_private(
            r[whole, :size], r[whole, size:], z[whole], names, model="logistic" if chosen == "logistic" else "linear",
            value=None if asked.task == "mean" else asked.answers[0], weights=weights, level=level,
        )  # fmt: skip
    else:
        # Values outside the support have no pseudo-values.
        told = np.flatnonzero(np.isfinite(r).any(axis=0)).tolist()
        fit = regress(
            r[whole][:, told], z[whole][:, 0], names, model=chosen, values=[read.row_values[place] for place in told],
            reference=reference, weights=weights, clusters=None if clusters is None else clusters[whole], level=level,
        )  # fmt: skip
    levels = covariate_levels(read, fit, places[whole].astype(np.int64))
    return RegressionSummary(fit, levels, refused, len(r) - int(whole.sum()))


def _designed(
    parsed: Any,
    table: pa.Table,
    columns: Sequence[str],
    private: Sequence[str],
    combinations: Sequence[Sequence[Value]],
    n: int,
) -> tuple[list[str], Floats, NDArray[np.bool_]]:
    """The names of the columns z of a formula, z for each row of the table and each combination of private answers, and
    which rows have no empty cell.
    """
    size = len(combinations)
    # One copy of the rows for each combination.
    expanded = pa.concat_tables([table] * size) if table.num_columns else pa.table({"": pa.nulls(n * size)})
    for place, name in enumerate(private):
        cells = [combination[place] for combination in combinations for _ in range(n)]
        expanded = expanded.append_column(name, pa.array(cells))
    design = _model_matrix(parsed, expanded, columns, n * size)
    complete, z = np.zeros(size * n, dtype=bool), np.zeros((size * n, design.shape[1]))
    at = np.asarray(design.index, dtype=np.int64)
    complete[at], z[at] = True, design.to_numpy(dtype=np.float64)
    shaped = z.reshape(size, n, -1).transpose(1, 0, 2)
    return list(map(str, design.columns)), shaped, np.asarray(complete.reshape(size, n).all(axis=0))


def _asked(
    plan: Plan, question: str | None, private: Sequence[str], model: Model
) -> tuple[Plan, list[_View], list[tuple[Value, ...]]]:
    """A plan that reads the outcome, what is read of reports, and the combinations of private answers.

    Without any these are pseudo-values, else the outcome in each combination, then each combination.
    """
    if not private:
        return plan.asking(question, first=True), _views(plan, question, (), None), [()]
    if model == "multinomial":
        raise InputError("With private predictors the outcome is a yes/no question, a surveyed answer or a number.")
    question = plan.question_of(question).name
    if question in private:
        raise InputError(f"The question '{question}' cannot explain itself. Leave it out of the formula.")
    block = plan.block_of(question, *private)
    asked, (held, *others) = plan.question_of(question), block.answers_of(question, *private)
    predictors = [plan.question_of(name) for name in private]
    sizes = [len(each.answers) for each in predictors]
    code = np.ravel_multi_index(others, sizes)
    indicators = (code[:, None] == np.arange(math.prod(sizes))).astype(np.float64)
    outcome = np.array(asked.answers, dtype=np.float64)[held] if asked.task == "mean" else (held == 0).astype(float)
    rows = np.concatenate([outcome[:, None] * indicators, indicators], axis=1)
    combinations = [
        tuple(each.answers[place] for each, place in zip(predictors, places, strict=True))
        for places in np.ndindex(*sizes)
    ]
    names = [f"column {place}" for place in range(rows.shape[1])]
    view = plan.read_block(block, Matrix(rows.tolist(), names))
    return view, [_View(view, names, names, block=plan.blocks.index(block))], combinations


def _parsed(formula: str) -> Any:
    """The right side, whose left side may only be the answer."""
    from formulaic import Formula
    from formulaic.errors import FormulaicError

    left, tilde, right = formula.rpartition("~")
    if tilde and left.strip() not in ("", "answer"):
        raise InputError(f"The left side of a formula is always the answer. Write '{right.strip()}' alone.")
    if not right.strip():
        raise InputError("The formula is empty. Name public columns, such as 'age + C(region)', or 1 for none.")
    try:
        return Formula(right.strip())
    except (FormulaicError, SyntaxError) as error:
        raise InputError(f"The formula '{right.strip()}' cannot be read: {str(error).splitlines()[0]}") from error


def _variables(parsed: Any) -> set[str]:
    """The columns that a formula names, also inside of functions, whose names formulaic does not always tell."""
    names = set(map(str, parsed.required_variables))
    for term in parsed:
        for factor in term.factors:
            try:
                names |= _free_names(ast.parse(str(factor.expr), mode="eval").body)
            except SyntaxError:
                continue
    return names


def _free_names(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Name):
        return {node.id}
    parts: Sequence[ast.AST]
    if isinstance(node, ast.Call):
        parts = [*node.args, *(word.value for word in node.keywords)]
    else:
        parts = list(ast.iter_child_nodes(node))
    return set().union(*(_free_names(part) for part in parts)) if parts else set()


def _model_matrix(parsed: Any, table: pa.Table, columns: Sequence[str], size: int) -> Any:
    """The columns z as a data frame whose index says which rows of the table are complete."""
    import pandas as pd
    from formulaic.errors import FormulaicError

    frame = pd.DataFrame({name: _column(table[name]) for name in columns}, index=np.arange(size))
    try:
        return parsed.get_model_matrix(frame, na_action="drop")
    except (FormulaicError, ValueError, TypeError, NameError, SyntaxError, AttributeError) as error:
        raise InputError(f"The formula cannot be worked out on these columns: {type(error).__name__}.") from error


def _column(cells: pa.ChunkedArray) -> Any:
    """Numbers where all cells that are there are numbers, else names; nothing where a cell is empty."""
    plain = decoded(cells)
    if not is_text(plain.type):
        return plain.to_pandas()
    texts = [None if text is None or not text.strip() else text for text in plain.to_pylist()]
    different = {text for text in texts if text is not None}
    numbers = {text: number_of(text) for text in different}
    if different and all(number is not None for number in numbers.values()):
        return np.array([np.nan if text is None else float(numbers[text] or 0) for text in texts])
    return np.array(texts, dtype=object)
