"""Arms drawn for answers in a file: chance decides with which randomizer each person is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from tacit.files.columns import InputError, Matcher
from tacit.files.reading import group_column_of, reading
from tacit.mechanism.protocol import RandomWords
from tacit.plan import Plan, arms_of
from tacit.randomize import SecureWords


@contextmanager
def arms_drawn(
    plan: Plan,
    source: Any,
    columns: Sequence[str],
    *,
    group_column: str | None = None,
    format: str | None = None,
    words: RandomWords | None = None,
) -> Iterator[pa.RecordBatchReader]:
    """The `columns` of a file or table with an arm for each row in the group column, drawn with secure random bits.

    Where the plan's arms are of groups, the group column says which; else it need not be there. Rows without a group of
    the plan have no arm, and whoever randomizes them says so.
    """
    arms, drawn = arms_of(plan), words or SecureWords()
    column = group_column_of(plan, group_column)
    assert column is not None
    if column in columns:
        raise InputError(f"The column '{column}' is made of the arms that are drawn, so it cannot be kept.")
    groups = [name for name in arms if name is not None]
    match = Matcher(groups, column) if groups else None
    names = np.array([[arm.name for arm in each] for each in _even(list(arms.values()))], dtype=object)
    with reading(source, [*columns, column] if groups else columns, format) as opened:
        types = [opened.schema.field(name).type for name in columns]
        schema = pa.schema([*zip(columns, types, strict=True), (column, pa.string())])

        def batches() -> Iterator[pa.RecordBatch]:
            for table in opened.tables():
                places = np.zeros(len(table), dtype=np.int64) if match is None else match(table[column])
                arm = drawn.draw(len(table), 64) % names.shape[1]
                chosen = np.where(places >= 0, names[places, arm.astype(np.int64)], None)
                parts = [table[name] for name in columns]
                yield from pa.table([*parts, pa.array(chosen, pa.string())], schema=schema).to_batches()

        yield pa.RecordBatchReader.from_batches(schema, batches())


def _even(arms: list[Any]) -> list[Any]:
    if len({len(each) for each in arms}) > 1:
        raise InputError("All groups of the plan must have the same number of arms for them to be drawn.")
    return arms
