"""Peers with k-ary response only: OpenDP, diffprivlib and qif. None estimates, so shares are debiased by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from peers.peer import Exact, Integers, Peer, Shares, bytes_for, k_ary_ratio, pure_shares

#: diffprivlib wants the distance of every pair of categories.
MOST_CATEGORIES = 100
#: qif keeps the channel as a matrix of doubles: 800 MB for 10,000 values.
MOST_ROWS = 1_000
BY_HAND = "has no estimator"


def peers(d: int, epsilon: float) -> list[Peer]:
    """Theirs for d values."""
    made = [_opendp(d, epsilon)]
    if d == 2:
        made.append(_diffprivlib_binary(epsilon))
    if 2 < d <= MOST_CATEGORIES:
        made.append(_diffprivlib_categories(d, epsilon))
    if d <= MOST_ROWS:
        made.append(_qif(d, epsilon))
    return made


def _debiased(d: int, truthful: float) -> Callable[[Any], Shares]:
    def estimate(reports: Any) -> Shares:
        counts = np.bincount(np.asarray(reports, dtype=np.int64), minlength=d)
        return Shares(pure_shares(counts, len(reports), truthful, (1 - truthful) / (d - 1)))

    return estimate


def _opendp(d: int, epsilon: float) -> Peer:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    truthful = math.exp(epsilon) / (math.exp(epsilon) + d - 1)
    randomize = dp.m.make_randomized_response(categories=list(range(d)), prob=truthful)
    while randomize.map(1) > epsilon:
        # It says itself what a probability costs, rounded up; so it is asked for one that costs no more than ε.
        truthful *= 1 - 2**-52
        randomize = dp.m.make_randomized_response(categories=list(range(d)), prob=truthful)
    return Peer(
        system="OpenDP", protocol="k-RR", epsilon=epsilon, secure=True, bytes_per_report=bytes_for(d),
        perturb=lambda values: [randomize(value) for value in values.tolist()],
        estimate=_debiased(d, truthful),
        supports=lambda reports, x: np.asarray(reports) == x,
        exact=lambda: Exact(k_ary_ratio(truthful, d)),
        by_hand=True, note=BY_HAND,
    )  # fmt: skip


def _diffprivlib_binary(epsilon: float) -> Peer:
    from diffprivlib.mechanisms import Binary

    randomize = Binary(epsilon=epsilon, value0="0", value1="1").randomise
    truthful = math.exp(epsilon) / (math.exp(epsilon) + 1)
    return Peer(
        system="diffprivlib", protocol="Binary", epsilon=epsilon, secure=True, bytes_per_report=1,
        perturb=lambda values: [int(randomize(text)) for text in map(str, values.tolist())],
        estimate=_debiased(2, truthful),
        supports=lambda reports, x: np.asarray(reports) == x,
        exact=lambda: Exact(k_ary_ratio(truthful, 2)),
        by_hand=True, note=f"{BY_HAND}; the system's generator, thresholds in floats",
    )  # fmt: skip


def _diffprivlib_categories(d: int, epsilon: float) -> Peer:
    from diffprivlib.mechanisms import ExponentialCategorical

    pairs = [[str(a), str(b), 1.0] for a in range(d) for b in range(a + 1, d)]
    mechanism = ExponentialCategorical(epsilon=epsilon, utility_list=pairs)
    randomize = mechanism.randomise
    # Weights 1 for the truth and exp(−ε) for all others, divided by a constant of its own.
    truthful = 1 / float(mechanism._normalising_constant["0"])
    return Peer(
        system="diffprivlib", protocol="categorical", epsilon=epsilon, secure=True, bytes_per_report=bytes_for(d),
        perturb=lambda values: [int(randomize(text)) for text in map(str, values.tolist())],
        estimate=_debiased(d, truthful),
        supports=lambda reports, x: np.asarray(reports) == x,
        exact=lambda: Exact(k_ary_ratio(truthful, d)),
        by_hand=True, note=f"{BY_HAND}; the system's generator, thresholds in floats",
    )  # fmt: skip


def _qif(d: int, epsilon: float) -> Peer:
    import qif

    channel = qif.mechanism.d_privacy.randomized_response(d, epsilon)

    def draw(values: Integers) -> Any:
        """As many values, drawn anew from how often each one is there, with their reports.

        About one pair in five million has a number far outside the channel, such as 268435455 for 16 values: left out.
        """
        pairs = qif.channel.sample(channel, np.bincount(values, minlength=d) / len(values), len(values))
        return pairs[(pairs < d).all(axis=1)]

    def level() -> Exact:
        columns = zip(channel.min(axis=0).tolist(), channel.max(axis=0).tolist(), strict=True)
        return Exact(max(Fraction(most) / Fraction(least) for least, most in columns))

    read = _debiased(d, float(channel[0, 0]))
    return Peer(
        system="qif", protocol="k-RR channel", epsilon=epsilon, secure=False, bytes_per_report=bytes_for(d),
        perturb=draw,
        estimate=lambda pairs: read(pairs[:, 1]),
        supports=lambda pairs, x: pairs[:, 1] == x,
        exact=level,
        held=lambda pairs: pairs[:, 0].astype(np.int64),
        by_hand=True, note=f"draws its own values; one in five million is outside the channel and left out; {BY_HAND}",
    )  # fmt: skip
