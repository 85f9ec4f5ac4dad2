"""A regression from a file of reports: a formula over its public columns, by formulaic, and the fit."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tacit.estimates import CovariateLevels, Model, Regression, covariate_levels, regress
from tacit.files.cells import decoded, number_of, numbers_of, texts_of
from tacit.files.pseudo_values import pseudo_table
from tacit.files.reading import REPORT, InputError, is_text
from tacit.plan import Plan
from tacit.prior import Value


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
    model: Model | None = None,
    reference: Value | None = None,
    level: float = 0.95,
    weight_column: str | None = None,
    cluster_column: str | None = None,
    report_column: str = REPORT,
    group_column: str | None = None,
    format: str | None = None,
) -> RegressionSummary:
    """Regress the randomized answer on public columns: "age + C(region)", as formulaic reads it.

    Without a `model` it is logistic for a survey, multinomial for a histogram, linear for a sum. Rows with a missing
    cell are left out and counted.
    """
    chosen: Model = model or plan.task.model
    parsed = _parsed(formula)
    columns = sorted(_variables(parsed))
    others = [name for name in (weight_column, cluster_column) if name is not None]
    table, r, places, refused = pseudo_table(
        plan, source, keep=[*columns, *others], report_column=report_column, group_column=group_column, format=format
    )
    if not len(r):
        raise InputError("There are no reports to fit.")
    design = _model_matrix(parsed, table, columns, len(r))
    rows = np.asarray(design.index, dtype=np.int64)
    weights, whole = None, np.ones(len(rows), dtype=bool)
    if weight_column is not None:
        weights = numbers_of(table[weight_column], weight_column)[rows]
        whole &= np.isfinite(weights)
    clusters = None
    if cluster_column is not None:
        clusters = np.array(texts_of(table[cluster_column], cluster_column).to_pylist())[rows]
        whole &= clusters != ""
    # No report speaks of a value outside the support.
    told = np.flatnonzero(np.isfinite(r).any(axis=0)).tolist()
    values = [plan.row_values[place] for place in told]
    fit = regress(
        r[rows][whole][:, told], design.to_numpy(dtype=np.float64)[whole], list(map(str, design.columns)), model=chosen,
        values=values, reference=reference,
        weights=None if weights is None else weights[whole],
        clusters=None if clusters is None else clusters[whole],
        level=level,
    )  # fmt: skip
    levels = covariate_levels(plan, fit, places[rows][whole].astype(np.int64))
    return RegressionSummary(fit, levels, refused, len(r) - int(whole.sum()))


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
