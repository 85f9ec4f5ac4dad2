"""DuckDB: answers become reports inside a query, and what a query returns becomes a tally."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from inspect import Parameter, Signature
from typing import Any, Unpack

import duckdb
import numpy as np
import pyarrow as pa
from duckdb.sqltypes import BIGINT, DOUBLE, INTEGER, VARCHAR

from tacit.files.answers import AnswerColumns, BadRows, OnUnknown, Perturber, check_on_unknown
from tacit.files.columns import STAMP, InputError, check_columns
from tacit.files.counting import ColumnNames, Piles, ReportColumns, distinct_rows, whole_of
from tacit.files.reading import BATCH_ROWS, REPORT, Source, careful, quoted
from tacit.plan import AnyPlan
from tacit.tally import Tally


def add_perturb(connection: Any, plan: AnyPlan, name: str = "tacit_perturb", on_unknown: OnUnknown = "stop") -> None:
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
    `tally` refuses another.

    >>> from tacit import Prior, Survey, make_plan
    >>> connection = duckdb.connect()
    >>> plan = make_plan(Prior.of({"yes": 0.1, "no": 0.9}), Survey("yes"), epsilon=1)
    >>> add_perturb(connection, plan)
    >>> columns = f"tacit_perturb('no') AS report, 'p{plan.hash[:8]}' AS tacit_plan"
    >>> made = connection.execute(f"CREATE TABLE reports AS SELECT {columns} FROM range(1000) ORDER BY random()")
    >>> len(connection.sql("SELECT DISTINCT report FROM reports").fetchall())
    2
    """
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


def tally(plan: AnyPlan, relation: Any, **columns: Unpack[ColumnNames]) -> Tally:
    """`tacit.files.tally_file` for a `relation`, such as `connection.table("reports")`: DuckDB counts where it can.

    `plan` and `columns` are as there. A column `tacit_plan`
    (p and the first eight digits of the plan's hash) must name this plan; without one, a warning says that it cannot be
    checked.

    >>> import duckdb
    >>> from tacit import Plan
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> tally(plan, duckdb.sql(f"SELECT unnest([0, 1, 1]) AS report, 'p{plan.hash[:8]}' AS tacit_plan")).n_reports
    3
    """
    return whole_of(plan, tally_by(plan, relation, (), **columns))


def tally_by(
    plan: AnyPlan, relation: Any, by: Sequence[str], **columns: Unpack[ColumnNames]
) -> dict[tuple[str, ...], Tally]:
    """`tacit.files.tally_by` for a `relation`; `plan`, `by` and `columns` are as there.

    >>> import duckdb
    >>> from tacit import Plan
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> columns = f"unnest([0, 1, 1]) AS report, 'north' AS region, 'p{plan.hash[:8]}' AS tacit_plan"
    >>> found = tally_by(plan, duckdb.sql(f"SELECT {columns}"), ["region"])
    >>> {cell: tally.n_reports for cell, tally in found.items()}
    {('north',): 3}
    """
    if not isinstance(relation, duckdb.DuckDBPyRelation):
        got = type(relation).__name__
        raise InputError(f"A relation of DuckDB is needed, such as connection.table('reports'). Got a {got} instead.")
    named = ReportColumns.of(plan, by, **columns)
    piles = Piles(plan, named)
    check_columns(named.named, relation.columns, "The relation")
    if STAMP not in relation.columns:
        told = f"The relation has no column '{STAMP}': it cannot be checked whether its reports are of this plan."
        warnings.warn(f"{told} Add it where they are drawn: 'p{plan.hash[:8]}' AS {STAMP}.", stacklevel=2)
    read = [*named.named, *({STAMP} & set(relation.columns))]
    if piles.countable:
        rows = distinct_rows(relation, read)
    else:
        rows = relation.project(", ".join(map(quoted, read))).to_arrow_reader(BATCH_ROWS)
    return piles.counted(Source("The relation", rows.schema, careful(rows, "The relation", "arrow", duckdb.Error)))
