"""Does a kept column tell the answer? A report protects nobody whose answer stands beside it under another name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

#: What is looked at: so many rows from the beginning, and labels that stand in so many of them.
LOOKED_AT, FEWEST = 100_000, 10
#: Fewer rows with such labels show nothing.
_FEWEST_ROWS = 1_000
#: A column gives answers away if it leaves at most this part of the wrong guesses of who does not know it.
_LEFT = 0.1


def answers_given_away(rows: pa.Table, held: NDArray[np.generic], keep: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The kept columns, each alone or else all together, that tell at least nine tenths of what there is to tell.

    Of the first 100,000 rows, those count whose label stands in at least ten, if they are 1,000 or more. Somebody who
    knows no label guesses everybody's answer to be the most frequent one; who knows labels, the most frequent of each.
    The column is named if the second guess is wrong at most a tenth as often as the first. Chance hardly makes a label
    of ten rows and more so pure; of what a column with a label for each person tells, this shows nothing.

    >>> kept = pa.table({"ward": ["heart", "lung"] * 600, "sex": ["f", "m", "m", "f"] * 300})
    >>> answers_given_away(kept, np.array([0, 1] * 600), ["ward", "sex"])
    (('ward',),)
    """
    if not keep:
        return ()
    answers = np.unique(held[:LOOKED_AT], return_inverse=True)[1]
    codes = {name: _codes(rows[name].slice(0, LOOKED_AT)) for name in keep}
    alone = tuple((name,) for name, code in codes.items() if _tells(code, answers))
    if alone or len(keep) < 2:
        return alone
    return (tuple(keep),) if _tells(reduce(_crossed, codes.values()), answers) else ()


def _codes(cells: pa.ChunkedArray) -> NDArray[np.int64]:
    """A number for each different cell."""
    plain = cells.cast(cells.type.value_type) if pa.types.is_dictionary(cells.type) else cells
    if pa.types.is_nested(plain.type):
        return np.arange(len(plain))
    indices = plain.combine_chunks().dictionary_encode(null_encoding="encode").indices
    found: NDArray[np.int64] = pc.cast(indices, pa.int64()).to_numpy(zero_copy_only=False)
    return found


def _crossed(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for each different pair."""
    return np.unique(one * (other.max(initial=0) + 1) + other, return_inverse=True)[1]


def _tells(labels: NDArray[np.int64], answers: NDArray[np.int64]) -> bool:
    often = np.bincount(labels)[labels] >= FEWEST if len(labels) else np.zeros(0, dtype=bool)
    labels, answers = labels[often], answers[often]
    if len(labels) < _FEWEST_ROWS:
        return False
    several = int(answers.max()) + 1
    pairs, counts = np.unique(labels * several + answers, return_counts=True)
    right = np.zeros(int(labels.max()) + 1, dtype=np.int64)
    np.maximum.at(right, pairs // several, counts)
    without, with_it = len(labels) - int(np.bincount(answers).max()), len(labels) - int(right.sum())
    return without > 0 and with_it <= _LEFT * without
