"""Do kept columns, or the order of the rows, give answers away? Then a report beside them protects nothing.

A column can tell the answer by its labels (a ward where all have the same illness), or by its order: numbers that
were given out when the answers were sorted. The order of the rows themselves is such a column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tacit.files.columns import InputError, decoded
from tacit.randomize import secure_words

#: Rows per check. Labels count that stand in a hundredth of the rows, or in `FEWEST`; in two at least.
LOOKED_AT, FEWEST = 100_000, 10
#: Labels of fewer rows in the mean are households or the like: that members answer alike gives no answer away.
_FEWEST_IN_MEAN = 5
#: What a column without any relation to the answers shows with at most this chance counts as shown.
_CHANCE = 1e-4
#: A column gives answers away if it leaves at most this share of the wrong guesses that are made without it; the order
#: of the rows if it leaves at most this share of the changes between neighbours.
_LEFT, _LEFT_BY_ROWS = 0.1, 0.5
#: A smaller number of changes than by chance counts from this many standard deviations on.
_DEVIATIONS = 5
#: More different answers than this are put into this many classes of equal size, in their order.
_CLASSES = 64
#: The name of the rows' own order among columns that give answers away.
ROW_ORDER = "the order of the rows"

#: Digits of hexadecimal numbers, with or without dashes; words, each with the number after it.
_HEXADECIMAL, _WORDS_AND_NUMBERS = re.compile(r"[0-9a-fA-F][0-9a-fA-F-]*"), re.compile(r"(\D*)(\d*)")

GivesAway = tuple[tuple[str, ...], ...]


class GivesAwayError(InputError):
    """Kept columns, or the order of the rows, that give answers away. Nothing was written."""

    def __init__(self, gives_away: GivesAway) -> None:
        self.gives_away = gives_away
        more = " To write the reports all the same, pass force=True."
        super().__init__(" ".join(giveaway_sentence(columns) for columns in gives_away) + more)


def refuse_giveaway(gives_away: GivesAway, force: bool) -> None:
    """Raise if something gives answers away, unless `force` is set."""
    if gives_away and not force:
        raise GivesAwayError(gives_away)


def giveaway_sentence(columns: Sequence[str]) -> str:
    """What is wrong with keeping these, and what to do.

    >>> giveaway_sentence(["ward"]).partition(":")[0]
    "'ward' beside the reports gives answers away"
    """
    if list(columns) == [ROW_ORDER]:
        return (
            "The order of the rows gives answers away: neighbours have the same answer at least twice as often as by "
            "chance, so that reports in this order show where the answers change. Do not keep the order."
        )
    named, them = " and ".join(f"'{name}'" for name in columns), "it" if len(columns) == 1 else "them together"
    return (
        f"{named} beside the reports gives answers away: with {them}, by labels or by order, nearly every answer is "
        "guessed right, so that randomizing protects hardly any. Leave it out of the kept columns, or of the plan's "
        "public questions."
    )


class Watch:
    """Looks at rows as they pass, and says what gives answers away: by the first 100,000 rows, and by up to 100,000
    rows at equal distances from all. The file may be of any size; sorted answers begin with rows that are all alike.
    """

    def __init__(self, keep: Sequence[str], ordered: bool = False) -> None:
        self._keep, self._ordered = tuple(keep), ordered
        self._stride, self._passed, self._spread = 1, 0, 0
        self._parts: list[tuple[pa.Table, NDArray[Any], NDArray[Any]]] = []

    def pass_by(self, rows: pa.Table, groups: NDArray[Any], held: NDArray[Any]) -> GivesAway:
        """Remember some of these rows; what gives answers away by the first ones, when they are the first."""
        if not self._keep and not self._ordered:
            return ()
        first = not self._passed
        picked = np.arange(-self._passed % self._stride, len(held), self._stride)
        self._passed += len(held)
        self._parts.append((rows.select(self._keep).take(pa.array(picked)), groups[picked], held[picked]))
        self._spread += len(picked)
        while self._spread > LOOKED_AT:
            table, groups_of, held_of = self._together()
            self._stride *= 2
            thin = np.arange(0, len(held_of), 2)
            self._parts, self._spread = [(table.take(pa.array(thin)), groups_of[thin], held_of[thin])], len(thin)
        if not first:
            return ()
        few = slice(0, LOOKED_AT)
        return answers_given_away(rows.slice(0, LOOKED_AT), held[few], self._keep, groups[few], self._ordered)

    def found(self) -> GivesAway:
        """What gives answers away by rows from the whole file."""
        if not self._parts:
            return ()
        table, groups, held = self._together()
        return answers_given_away(table, held, self._keep, groups, self._ordered)

    def _together(self) -> tuple[pa.Table, NDArray[Any], NDArray[Any]]:
        tables, groups, held = zip(*self._parts, strict=True)
        return pa.concat_tables(tables), np.concatenate(groups), np.concatenate(held)


def answers_given_away(
    rows: pa.Table,
    held: NDArray[Any],
    keep: Sequence[str],
    groups: NDArray[Any] | None = None,
    ordered: bool = False,
) -> GivesAway:
    """The kept columns, each alone or else all together, that tell at least nine tenths of what there is to tell; and
    `ROW_ORDER` where the rows are `ordered` and their order tells at least half.

    By labels: of the first 100,000 rows, those count whose label stands in at least a hundredth of the rows, but two at
    least and ten at most; in the mean the labels must have five. Without labels the best guess is the most frequent
    answer, with labels the most frequent answer of each. The column is named if the second guess is wrong at most a
    tenth as often as the first, and chance alone is so right at most once in 10,000 times, see `_chance_of_labels`.

    By order: the other rows, sorted by the column, ties at random. The column is named if the answer changes from one
    row of a group to the next at most a tenth as often as in random order, see `fewer_changes`.

    >>> kept = pa.table({"ward": ["heart", "lung"] * 600, "sex": ["f", "m", "m", "f"] * 300, "id": range(1200)})
    >>> answers_given_away(kept, np.array([0, 1] * 600), ["ward", "sex", "id"])
    (('ward',),)
    >>> answers_given_away(kept, np.array([0] * 600 + [1] * 600), ["ward", "sex", "id"])
    (('id',),)
    """
    if held.ndim > 1:
        each = [answers_given_away(rows, answers, keep, groups, ordered) for answers in held.T]
        return tuple(dict.fromkeys(found for several in each for found in several))
    few = slice(0, LOOKED_AT)
    answers = _classes(held[few])
    owners = np.zeros(len(answers), dtype=np.int64) if groups is None else np.asarray(groups[few])
    codes = {name: _codes(rows[name].slice(0, LOOKED_AT)) for name in keep}
    alone = tuple(
        (name,) for name, code in codes.items() if _tells(code, answers) or _tells_by_order(code, answers, owners)
    )
    if ordered and fewer_changes(owners, answers, _LEFT_BY_ROWS):
        return (*alone, (ROW_ORDER,))
    if alone or len(keep) < 2:
        return alone
    return (tuple(keep),) if _tells(reduce(_crossed, codes.values()), answers) else ()


def fewer_changes(groups: NDArray[Any], answers: NDArray[np.int64], left: float) -> bool:
    """Whether answers change from one row of a group to the next at most `left` times as often as in random order, and
    by five standard deviations less often. Of few rows: whether the changes beyond the least number, which any order
    has, are so rare, and fewer by chance at most once in 10,000 times.

    With n rows of a group, n_k of them with answer k, a random order has n − Σ n_k²/n changes in the mean, with the
    variance (S₂(S₂ + n(n+1)) − 2n·S₃ − n³) / (n²(n − 1)), S_j = Σ n_k^j (Mood 1940). Groups add up. The least number
    is Σ (K − 1), with K different answers in a group.

    >>> together, answers = np.zeros(100, dtype=int), np.arange(100) // 50
    >>> fewer_changes(together, answers, 0.1), fewer_changes(together, np.arange(100) % 2, 0.1)
    (True, False)
    """
    order = np.argsort(groups, kind="stable")
    owners, sorted_answers = groups[order], answers[order]
    same = owners[1:] == owners[:-1]
    changes = int(np.count_nonzero(same & (sorted_answers[1:] != sorted_answers[:-1])))
    mean, variance = chance_changes(groups, answers)
    if mean > 0 and changes <= left * mean and changes <= mean - _DEVIATIONS * variance**0.5:
        return True
    pairs, counts = np.unique(np.stack([owners, sorted_answers]), axis=1, return_counts=True)
    sizes, several = (np.unique(each, return_counts=True)[1] for each in (owners, pairs[0]))
    beyond, free = changes - int((several - 1).sum()), int((sizes - several).sum())
    if mean == 0 or beyond > left * (mean - (changes - beyond)):
        return False
    # At most this many orders: the answers of the stretches, times how long each is (Vandermonde).
    orders = float(np.log(several).sum()) + changes * math.log(max(several.max() - 1, 1))
    orders += _log_sum(_log_choose(free, more) for more in range(beyond + 1))
    return orders - _log_arrangements(sizes, counts) <= math.log(_CHANCE)


def chance_changes(groups: NDArray[Any], answers: NDArray[np.int64]) -> tuple[float, float]:
    """Mean and variance of the number of changes within groups, over all orders of the rows."""
    if not len(answers):
        return 0.0, 0.0
    owners, place = np.unique(groups, return_inverse=True)
    several = int(answers.max()) + 1
    pairs, counts = np.unique(place.astype(np.int64) * several + answers, return_counts=True)
    n, squares, cubes = (
        np.bincount(pairs // several, weights=counts.astype(np.float64) ** power, minlength=len(owners))
        for power in (1, 2, 3)
    )
    many = n > 1
    n, squares, cubes = n[many], squares[many], cubes[many]
    variance = (squares * (squares + n * (n + 1)) - 2 * n * cubes - n**3) / (n**2 * (n - 1))
    return float((n - squares / n).sum()), float(np.maximum(variance, 0).sum())


def _classes(held: NDArray[Any]) -> NDArray[np.int64]:
    """A number for each answer; classes of neighbouring answers where there are many different ones."""
    _, answers, counts = np.unique(held, return_inverse=True, return_counts=True)
    if len(counts) <= _CLASSES:
        return answers.astype(np.int64)
    before = np.cumsum(counts) - counts
    return (before * _CLASSES // len(held))[answers]


def _codes(cells: pa.ChunkedArray) -> NDArray[np.int64]:
    """A number for each different cell, in their order: numbers within texts are compared as numbers, "r9" < "r10"."""
    plain = decoded(cells).combine_chunks()
    if pa.types.is_nested(plain.type) or pa.types.is_null(plain.type):
        return np.arange(len(plain)) if pa.types.is_nested(plain.type) else np.zeros(len(plain), dtype=np.int64)
    codes = plain.dictionary_encode(null_encoding="encode")
    labels = codes.dictionary
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        labels = pc.cast(labels, pa.float64())
    places = np.empty(len(labels), dtype=np.int64)
    if pa.types.is_string(labels.type) or pa.types.is_large_string(labels.type):
        texts = [text or "" for text in labels.to_pylist()]
        places[sorted(range(len(texts)), key=lambda place: _natural(texts[place]))] = np.arange(len(texts))
        labels = pa.array(places)
    try:
        places[pc.sort_indices(labels).to_numpy()] = np.arange(len(labels))
    except pa.ArrowNotImplementedError:  # A kind of cell without an order.
        places = np.arange(len(labels))
    return places[codes.indices.to_numpy(zero_copy_only=False)]


def _natural(text: str) -> tuple[int, int, list[tuple[str, int]]]:
    """A key that sorts texts of hexadecimal digits by their number, others by text and by the numbers within."""
    if _HEXADECIMAL.fullmatch(text):
        return 0, int(text.replace("-", ""), 16), []
    return 1, 0, [(word, int(number or -1)) for word, number in _WORDS_AND_NUMBERS.findall(text)]


def _crossed(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for each different pair."""
    return np.unique(one * (other.max(initial=0) + 1) + other, return_inverse=True)[1]


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) if 0 <= k <= n else -math.inf


def _log_sum(logs: Iterable[float]) -> float:
    """The logarithm of a sum of terms that are given as logarithms."""
    return float(np.logaddexp.reduce([-math.inf, *logs]))


def _log_arrangements(sizes: NDArray[np.int64], counts: NDArray[np.int64]) -> float:
    """The logarithm of the number of orders of answers within groups of these sizes: Π n! / Π n_k!."""
    return sum(math.lgamma(n + 1) for n in sizes.tolist()) - sum(math.lgamma(n + 1) for n in counts.tolist())


def _often(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The rows whose label counts as one."""
    if not len(labels):
        return np.zeros(0, dtype=bool)
    rows = np.bincount(labels)
    large = rows >= min(max(2, math.ceil(len(labels) / 100)), FEWEST)
    counted: NDArray[np.bool_] = large & (rows[large].sum() >= _FEWEST_IN_MEAN * large.sum())
    return counted[labels]


def _tells(labels: NDArray[np.int64], answers: NDArray[np.int64]) -> bool:
    often = _often(labels)
    labels, answers = labels[often], answers[often]
    if not len(labels):
        return False
    several = int(answers.max()) + 1
    pairs, counts = np.unique(labels * several + answers, return_counts=True)
    right = np.zeros(int(labels.max()) + 1, dtype=np.int64)
    np.maximum.at(right, pairs // several, counts)
    without, with_it = len(labels) - int(np.bincount(answers).max()), len(labels) - int(right.sum())
    return without > 0 and with_it <= _LEFT * without and _chance_of_labels(labels, answers, with_it) <= _CHANCE


def _chance_of_labels(labels: NDArray[np.int64], answers: NDArray[np.int64], wrong: int) -> float:
    """At most this chance leaves so few wrong guesses where answers stand beside labels in random order.

    A union bound over the guesses by label, and over the rows where these are `wrong` at most. With n rows, m of which
    have another answer than the most frequent one, labels that are guessed to be of another answer have at most m + w
    rows together: at most s of the L labels, the smallest ones. Of n!/Π n_k! orders of K answers at most
    Σ_{j≤s} C(L, j)(K − 1)^j · Σ_{i≤w} C(n, i)(K − 1)^i have so few.

    >>> labels = np.arange(50) % 2
    >>> _chance_of_labels(labels, labels, 0) < 1e-9, _chance_of_labels(labels[:8], labels[:8], 0) < 1e-4
    (True, False)
    """
    sizes, counts = (np.unique(each, return_counts=True)[1] for each in (labels, answers))
    n, others = len(answers), math.log(max(len(counts) - 1, 1))
    most = int((np.cumsum(np.sort(sizes)) <= n - int(counts.max()) + wrong).sum())
    guesses = _log_sum(_log_choose(len(sizes), j) + j * others for j in range(most + 1))
    deviating = _log_sum(_log_choose(n, i) + i * others for i in range(wrong + 1))
    return math.exp(min(0.0, guesses + deviating - _log_arrangements(np.array([n]), counts)))


def _tells_by_order(labels: NDArray[np.int64], answers: NDArray[np.int64], groups: NDArray[Any]) -> bool:
    rare = np.flatnonzero(~_often(labels))
    # Ties at random, not as they stand: the order of the rows is another matter.
    order = rare[np.lexsort((secure_words().draw(len(rare), 64), labels[rare]))]
    return fewer_changes(groups[order], answers[order], _LEFT)
