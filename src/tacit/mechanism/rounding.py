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

from tacit.exact import BigIntegers, Number, budget
from tacit.mechanism.auditing import Notion, audit, satisfies
from tacit.mechanism.table._channel import SCALE, SCALE_BITS, Channel, common_rows, to_words
from tacit.prior import Prior, PriorSet

#: Word lengths tried in turn. The first suits nearly every design; the others serve tiny budgets and priors.
WORD_BITS = (32, 48, 64, 96, 128, 192, 256)
#: Mixing stronger than this would cost visible utility: longer words are taken instead.
STRONGEST_MIX = Fraction(1, 2**18)


class PrivacyError(ValueError):
    """A channel does not keep the promise that was asked of it."""


def round_channel(
    prior: Prior,
    matrix: Any,
    epsilon: Number,
    notion: Notion = "lip",
    *,
    also: Mapping[Notion, Number] | None = None,
    prior_set: PriorSet | None = None,
    bits: int = WORD_BITS[0],
) -> Channel:
    """The channel in integers over 2^w, w ≥ `bits`, that is close to `matrix` and keeps `notion` at `epsilon` exactly.

    `also` holds further promises to keep, such as {"ldp": 1.5}; with a `prior_set`, LIP is kept for all of it.

    `matrix` holds floats, fractions or integers, one row for each value of the `prior`; rows are normalised. It may
    also have rows for the prior's support only: the report of a respondent who holds another value is then drawn from
    the marginal and says nothing about them. Raises `PrivacyError` if the matrix itself is not private, naming the
    level it reaches.

    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> lie = 0.5 / math.e
    >>> channel = round_channel(prior, [[1 - lie, lie], [lie, 1 - lie]], epsilon=1)
    >>> channel.denominator == 2**32, satisfies(channel, "lip", 1)
    (True, True)
    """
    promises = {notion: budget(epsilon)} | {name: budget(level) for name, level in (also or {}).items()}
    rows = common_rows(prior, matrix)
    marginal = _marginal(prior, rows)
    for word in [bits, *(longer for longer in WORD_BITS if longer > bits)]:
        for mix in _mixes(word, marginal, min(promises.values())):
            channel = Channel.from_weights(prior, to_words(_mixed(rows, marginal, mix), word))
            if all(satisfies(channel, name, level) for name, level in promises.items()) and (
                prior_set is None or all(side.holds(budget(epsilon)) for side in channel.set_levels(prior_set))
            ):
                return channel
    unrounded = Channel.from_weights(prior, to_words(rows, WORD_BITS[-1]))
    broken = next((name for name, level in promises.items() if not satisfies(unrounded, name, level)), notion)
    if prior_set is not None and satisfies(unrounded, broken, promises[broken]):
        level = max(side.epsilon for side in unrounded.set_levels(prior_set))
        raise PrivacyError(
            f"This matrix is not LIP at ε = {float(promises[broken]):g} for the set: it reaches {level}."
        )
    reached = getattr(audit(unrounded), broken)
    level = reached if isinstance(reached, float) else reached.epsilon
    raise PrivacyError(
        f"This matrix is not {broken.upper()} at ε = {float(promises[broken]):g}: it reaches {level:.6g}. "
        "Design it for this budget, or ask for a larger one."
    )


def _mixes(word: int, marginal: BigIntegers, epsilon: Fraction) -> Iterator[Fraction]:
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
    mix = Fraction(SCALE, min(marginal)) / 2**word / max(room, Fraction(1, 2**200))
    while mix <= STRONGEST_MIX:
        yield mix
        mix *= 16


def _marginal(prior: Prior, rows: BigIntegers) -> BigIntegers:
    marginal: BigIntegers = np.array(prior.weights, dtype=object) @ rows // prior.total
    return np.maximum(marginal, 1)


def _mixed(rows: BigIntegers, marginal: BigIntegers, mix: Fraction) -> BigIntegers:
    if not mix:
        return rows
    share = int(mix * SCALE)
    return (rows * (SCALE - share) + marginal * share) >> SCALE_BITS
