"""What every system in the comparison is asked for: reports, shares read from them, and the level it really reaches."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Shares:
    """What a system reads from reports: the share of each value among those who sent them.

    `unclipped` may be negative; `own` is what the system returns if that is something else, clipped and made to add up
    to one. `low` and `high` are its 95% intervals, one for each value, where it has any.
    """

    unclipped: Floats
    own: Floats | None = None
    low: Floats | None = None
    high: Floats | None = None

    @property
    def clipped(self) -> Floats:
        """Negative shares are zero and the rest adds up to one, as some systems insist; the same for everybody."""
        if self.own is not None:
            return self.own
        positive = np.clip(self.unclipped, 0, None)
        return positive / positive.sum() if positive.any() else positive


@dataclass(frozen=True)
class Exact:
    """An exact level: ln(ratio), and which promise it is about; beside it the LDP level, where that is another one."""

    ratio: Fraction
    ldp_ratio: Fraction | None = None

    @property
    def ldp(self) -> Fraction:
        return self.ratio if self.ldp_ratio is None else self.ldp_ratio


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One protocol of one system, for d values at one ε.

    perturb: from the positions of values to reports.
    estimate: from those reports to shares; what a server does, aggregation included.
    supports: for each report whether it speaks for a value, as the server counts it.
    exact: the level of the channel, where it can be enumerated.
    held: the values behind the reports, of a system that draws them itself.
    bytes_per_report: of a report that is packed, not of the object that the system makes of it.
    biased: whether a part of its error does not fall with the number of reports.
    in_full: whether it always runs on all people, as Tacit does.
    by_hand: whether the system has no estimator, so that the estimate is ours, from counts.
    secure: whether its random words come from a generator made for secrets.
    """

    system: str
    protocol: str
    epsilon: float
    secure: bool
    bytes_per_report: int
    perturb: Callable[[Integers], Any]
    estimate: Callable[[Any], Shares]
    supports: Callable[[Any, int], NDArray[np.bool_]] | None = None
    exact: Callable[[], Exact] | None = None
    held: Callable[[Any], Integers] | None = None
    notion: str = "LDP"
    by_hand: bool = False
    biased: bool = False
    in_full: bool = False
    note: str = ""

    @property
    def name(self) -> str:
        return f"{self.system}, {self.protocol}"


def bytes_for(n_reports: float) -> int:
    """Bytes that tell so many reports apart.

    >>> bytes_for(2), bytes_for(256), bytes_for(257)
    (1, 1, 2)
    """
    return max(1, math.ceil(math.log2(n_reports) / 8))


def k_ary_ratio(truthful: float, d: int) -> Fraction:
    """The likelihood ratio of k-ary response that tells the truth with this chance, and else any other value alike."""
    chance = Fraction(truthful)
    return chance / ((1 - chance) / (d - 1))


def pure_shares(supported: Any, n_reports: int, p: float, q: float) -> Floats:
    """(support/n − q)/(p − q), the unbiased estimate of a pure protocol (Wang et al. 2017)."""
    return (np.asarray(supported, dtype=np.float64) / n_reports - q) / (p - q)
