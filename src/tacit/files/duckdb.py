"""DuckDB: answers become reports inside a query. What a query returns becomes a tally by `tacit.files.tally_file`."""

from __future__ import annotations

import threading
from inspect import Parameter, Signature
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from duckdb.sqltypes import BIGINT, DOUBLE, INTEGER, VARCHAR

from tacit.files.answers import AnswerColumns, BadRows, OnUnknown, Perturber, check_on_unknown
from tacit.files.reading import REPORT
from tacit.plan import AnyPlan


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
    `tally_file` refuses another.

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
