"""From a designed matrix to integers over 2^w that still keep the promise.

An optimal channel touches its bound, so rounding it naively breaks the bound about half of the time. The recipe:
mix every row with a little of the marginal, Q ← (1−δ)Q + δλ, which draws every lift towards 1 by the factor 1−δ;
round each row to integers that sum to 2^w (largest remainder); check the integers exactly; and if the check fails,
raise δ, then w. The utility lost is about 2δ of the gain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tacit.exact import Number, budget
from tacit.mechanism.auditing import Notion, audit, satisfies
from tacit.mechanism.table import Channel, Integers
from tacit.prior import Prior

#: Word lengths tried in turn. The first suits nearly every design; the others serve tiny budgets and priors.
WORD_BITS = (32, 48, 64, 96, 128, 192, 256)
#: Mixing stronger than this would cost visible utility: longer words are taken instead.
STRONGEST_MIX = Fraction(1, 2**18)
#: Rows are held as integers with this sum before they are rounded to words.
_SCALE_BITS = 320
_SCALE = 2**_SCALE_BITS


class PrivacyError(ValueError):
    """A channel does not keep the promise that was asked of it."""


def round_channel(
    prior: Prior,
    matrix: Any,
    epsilon: Number,
    notion: Notion = "lip",
    *,
    also: Mapping[Notion, Number] | None = None,
    bits: int = WORD_BITS[0],
) -> Channel:
    """The channel in integers over 2^w, w ≥ bits, that is close to `matrix` and keeps `notion` at ε exactly.

    `also` holds further promises to keep, such as {"ldp": 1.5}.

    `matrix` holds floats, fractions or integers, one row for each value of the prior; rows are normalised. It may
    also have rows for the prior's support only: the report of a respondent who holds another value is then drawn
    from the marginal and says nothing about them. Raises `PrivacyError` if the matrix itself is not private, naming
    the level it reaches.

    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> lie = 0.5 / math.e
    >>> channel = round_channel(prior, [[1 - lie, lie], [lie, 1 - lie]], epsilon=1)
    >>> channel.denominator == 2**32, satisfies(channel, prior, "lip", 1)
    (True, True)
    """
    promises = {notion: budget(epsilon)} | {name: budget(level) for name, level in (also or {}).items()}
    rows = _common_rows(prior, matrix)
    marginal = _marginal(prior, rows)
    for word in [bits, *(longer for longer in WORD_BITS if longer > bits)]:
        for mix in _mixes(word, marginal, min(promises.values())):
            channel = Channel.from_weights(prior, _to_words(_mixed(rows, marginal, mix), word))
            if all(satisfies(channel, prior, name, level) for name, level in promises.items()):
                return channel
    unrounded = Channel.from_weights(prior, _to_words(rows, WORD_BITS[-1]))
    broken = next((name for name, level in promises.items() if not satisfies(unrounded, prior, name, level)), notion)
    reached = getattr(audit(unrounded, prior), broken)
    level = reached if isinstance(reached, float) else reached.epsilon
    raise PrivacyError(
        f"This matrix is not {broken.upper()} at ε = {float(promises[broken]):g}: it reaches {level:.6g}. "
        "Design it for this budget, or ask for a larger one."
    )


def round_unchecked(prior: Prior, matrix: Any, bits: int = 64) -> Channel:
    """`matrix` in integers over 2^bits, whatever privacy it gives: for the study of mechanisms, never for people."""
    return Channel.from_weights(prior, _to_words(_common_rows(prior, matrix), bits))


def _mixes(word: int, marginal: Integers, epsilon: Fraction) -> Iterator[Fraction]:
    """The values of δ to try at this word length, weakest first.

    Rounding moves a cell by at most 2^-w, so a lift by at most the factor 1 ± η with η ≈ 2^-w (E+1)/λ, and mixing
    by δ makes room for η = δ (E−1) below and δ (E−1)/E above: δ = 2^-w (E+1) / ((E−1) λ_min) suffices for a matrix
    that keeps its bound; a solver's matrix keeps it only nearly and needs more.
    """
    if epsilon == 0:
        # Nothing to make room for: equal rows round to equal words.
        yield Fraction(0)
        return
    room = Fraction(-math.expm1(-float(epsilon))) / 2
    mix = Fraction(_SCALE, min(marginal)) / 2**word / max(room, Fraction(1, 2**200))
    while mix <= STRONGEST_MIX:
        yield mix
        mix *= 16


def _common_rows(prior: Prior, matrix: Any) -> Integers:
    """Rows as integers that sum to about 2^320, the marginal for values outside the support that have no row."""
    rows = list(matrix)
    if len(rows) not in (len(prior), len(prior.support)):
        raise ValueError(f"The matrix needs one row for each of the prior's {len(prior)} values. Got {len(rows)}.")
    if len({len(row) for row in rows}) != 1:
        raise ValueError("The rows of the matrix must have the same length.")
    scaled: Integers = np.array([_integers(row, x) for x, row in enumerate(rows)], dtype=object)
    scaled = scaled * _SCALE // scaled.sum(axis=1)[:, None]
    scaled = scaled[:, scaled.sum(axis=0) > 0]
    if len(rows) == len(prior):
        return scaled
    support = list(prior.support)
    filled = np.empty((len(prior), scaled.shape[1]), dtype=object)
    filled[:] = np.array([prior.weights[x] for x in support], dtype=object) @ scaled // prior.total
    filled[support] = scaled
    return filled


def _integers(row: Any, x: int) -> list[int]:
    """One row's cells, exactly, over some denominator of their own."""
    try:
        ratios = [(cell if isinstance(cell, Fraction | int) else float(cell)).as_integer_ratio() for cell in row]
    except (ValueError, OverflowError, TypeError) as error:
        raise ValueError(f"The matrix must hold finite numbers. Row {x} does not ({error}).") from None
    for y, (numerator, denominator) in enumerate(ratios):
        if numerator < 0:
            raise ValueError(f"The matrix must not be negative. Row {x}, output {y} is {numerator / denominator:g}.")
    if not any(numerator for numerator, _ in ratios):
        raise ValueError(f"Each row of the matrix needs a positive sum. Row {x} is zero.")
    scale = math.lcm(*{denominator for _, denominator in ratios})
    return [numerator * (scale // denominator) for numerator, denominator in ratios]


def _marginal(prior: Prior, rows: Integers) -> Integers:
    marginal: Integers = np.array(prior.weights, dtype=object) @ rows // prior.total
    return np.maximum(marginal, 1)


def _mixed(rows: Integers, marginal: Integers, mix: Fraction) -> Integers:
    if not mix:
        return rows
    share = int(mix * _SCALE)
    mixed: Integers = (rows * (_SCALE - share) + marginal * share) >> _SCALE_BITS
    return mixed


def _to_words(rows: Integers, bits: int) -> Integers:
    """Each row rounded to integers that sum to 2^bits, by largest remainder, ties to the first output.

    >>> _to_words(np.array([[1, 1, 1]], dtype=object), 4).tolist()
    [[6, 5, 5]]
    """
    sums = rows.sum(axis=1)
    scaled = rows << bits
    words: Integers = scaled // sums[:, None]
    remainders = scaled - words * sums[:, None]
    for x, missing in enumerate(2**bits - words.sum(axis=1)):
        if missing:
            largest = np.argsort(-remainders[x], kind="stable")[:missing]
            words[x, largest] += 1
    return words
