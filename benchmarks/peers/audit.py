"""The level that a system really reaches: exact where its channel can be enumerated, else a lower bound by sampling.

For two values x and x′ and the event A = "the report speaks for x and not for x′", ε-LDP means Pr(A|x) ≤ e^ε Pr(A|x′).
With counts a of n and a′ of n′ reports, and Clopper–Pearson bounds at confidence 1 − α each,

    ln( lower(a, n) / upper(a′, n′) )

is below the true level with probability at least 1 − 2α. So a bound above the claim is a broken promise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from time import perf_counter

import numpy as np
from scipy.stats import beta

from peers.peer import Peer
from tacit.exact import at_most_exp, log_above

#: One bound in so many may be wrong. A whole run asks for fewer than a thousand.
ALPHA = 1e-6
#: What doubles cannot represent better.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Level:
    """An audited level: `value` is exact, rounded up, or a lower bound; `ldp` the LDP level where it is exact."""

    value: float
    exact: bool
    claim: float
    exceeds: bool
    ldp: float | None = None

    @property
    def over(self) -> bool:
        """Whether it exceeds the claim by more than the rounding of doubles."""
        return self.exceeds and self.value > self.claim + ROUNDING

    def __str__(self) -> str:
        mark = "" if self.exact else "≥ "
        said = f"{mark}{math.ceil(self.value * 1e4 - 1e-5) / 1e4:.4f}" if self.exact else f"{mark}{self.value:.3f}"
        return f"{said} OVER" if self.over else f"{said} +ulp" if self.exceeds else said


def lower(successes: int, trials: int, alpha: float = ALPHA) -> float:
    """Clopper and Pearson's lower bound of a probability.

    >>> lower(0, 10), round(lower(10, 10, 0.05), 4)
    (0.0, 0.7411)
    """
    return 0.0 if successes == 0 else float(beta.ppf(alpha, successes, trials - successes + 1))


def upper(successes: int, trials: int, alpha: float = ALPHA) -> float:
    """Clopper and Pearson's upper bound of a probability.

    >>> upper(10, 10), round(upper(0, 10, 0.05), 4)
    (1.0, 0.2589)
    """
    return 1.0 - lower(trials - successes, trials, alpha)


def level_bound(counts: tuple[int, int], trials: tuple[int, int], alpha: float = ALPHA) -> float:
    """A lower bound of the level from how often an event came under one value and under the other; at least 0.

    >>> round(level_bound((7311, 2689), (10_000, 10_000), 1e-6), 3)  # 1-LDP reaches 1.
    0.894
    """
    likely = lower(counts[0], trials[0], alpha)
    return max(0.0, math.log(likely / upper(counts[1], trials[1], alpha))) if likely > 0 else 0.0


def sampled_level(peer: Peer, d: int, seconds: float = 1.0, most: int = 200_000) -> float:
    """The bound for the first and the last value, in either direction, from what `seconds` of reports show."""
    if peer.supports is None:
        raise ValueError(f"{peer.name} does not say what its reports support.")
    first, last, n = 0, d - 1, 16
    counts = {first: np.zeros(2, dtype=np.int64), last: np.zeros(2, dtype=np.int64)}
    trials, start, batch = 0, perf_counter(), n
    while trials < most and (spent := perf_counter() - start) < seconds:
        batch = min(2 * batch if spent < seconds / 4 else batch, most - trials)
        for x, other in ((first, last), (last, first)):
            reports = peer.perturb(np.full(batch, x, dtype=np.int64))
            true, false = peer.supports(reports, x), peer.supports(reports, other)
            counts[x] += np.array([np.sum(true & ~false), np.sum(false & ~true)])
        trials += batch
    # counts[x][0]: for x and not for the other; counts[other][1]: the same event under the other value.
    return max(
        level_bound((int(counts[x][0]), int(counts[other][1])), (trials, trials))
        for x, other in ((first, last), (last, first))
    )


def audited(peer: Peer, d: int, seconds: float = 1.0) -> Level:
    """The exact level where there is one, else the sampled bound; the bound in any case if it contradicts."""
    claim = Fraction(str(peer.epsilon))
    bound = sampled_level(peer, d, seconds) if peer.supports is not None else 0.0
    if peer.exact is not None:
        exact = peer.exact()
        value = log_above(exact.ratio)
        if bound <= value:
            exceeds = not at_most_exp(exact.ratio, claim)
            return Level(value, True, peer.epsilon, exceeds, log_above(exact.ldp))
    elif peer.supports is None:
        raise ValueError(f"{peer.name} can neither be enumerated nor sampled.")
    return Level(bound, False, peer.epsilon, bound > peer.epsilon)
