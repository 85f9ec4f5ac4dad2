"""Design of a core-tail channel for the histogram: near-optimal at any number of values, with its certificate.

    maximise  Σ_x P_x² E[c_x²]   over random coverage vectors c with Σ_x P_x c_x = h and E[c_x] = h

The core is solved as a small linear program (`core_cover`) and the tail is covered by an arc.  The arc loses only on
the values its two ends cut, P_x² (P_x/T)/3 on average, so the core has to hold only the values heavy enough to
notice.  The bound is the core's dual bound plus, for every tail value, the chord of c² over its own range of
coverage: both relax the program above, so no ε-LIP channel gains more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd

import numpy as np
import numpy.typing as npt

from tacit.designs._core_cover import CoreCover, price_bound, second_moment_bound, solve_core
from tacit.exact import Floats
from tacit.mechanism import CoreTail
from tacit.mechanism.core_tail import CORE_UNIT, CoreState, histogram_gain
from tacit.prior import Prior

SLACK_BITS = (36, 33, 30, 27, 24, 20, 16, 12)
WEIGHT_UNIT = 1 << 52
GROWTH_UNIT = 1 << 52


@dataclass(frozen=True, kw_only=True)
class CoreTailDesign:
    """A mechanism audited at `ratio`, the `gain` of its realised integers, and a bound on any channel's gain.

    `duals` are the core's prices: `gain_bound_of` recomputes the bound from them.
    """

    mechanism: CoreTail
    ratio: Fraction
    gain: float
    gain_bound: float
    duals: tuple[float, ...]

    @property
    def gap(self) -> float:
        """The share of the largest conceivable gain that the channel may miss; 0 where nothing can be gained."""
        return 1.0 - self.gain / self.gain_bound if self.gain_bound > 1e-15 else 0.0


def design_core_tail(prior: Prior, ratio: Fraction, max_core: int = 256, tail_loss: float = 1e-3) -> CoreTailDesign:
    """Return a channel with every lift in [1/ratio, ratio], proved in integers, and its certificate.

    where: `ratio` is a rational at most e^ε, `max_core`
    limits the core (0: plain arcs), and `tail_loss` is the share of the gain that the tail may lose if a larger
    core can help it.
    """
    if ratio <= 1:
        raise ValueError(f"The 'ratio' must exceed 1. Got {float(ratio)} instead.")
    weights = prior.on_support().weights
    p = prior.on_support().probabilities
    share = float(1 / (ratio + 1))
    core = choose_core(weights, p, share, max_core, tail_loss)
    tail = np.setdiff1d(np.arange(len(p)), core)
    cover = solve_core(p[core], float(p[tail].sum()), share)
    bound = _gain_bound(p, tail, ratio, cover.upper_bound)
    states = integer_states(cover)
    for bits in SLACK_BITS:
        channel = CoreTail(
            prior=prior,
            core=tuple(core.tolist()),
            share=1 / (ratio + 1),
            growth=shrunk_growth(ratio, bits),
            states=states,
        )
        if channel.within(ratio):
            return CoreTailDesign(
                mechanism=channel,
                ratio=ratio,
                gain=histogram_gain(channel),
                gain_bound=bound,
                duals=tuple(cover.price.tolist()),
            )
    if len(core):
        # A tail too light for the resolution of the core's coverage (2^-48): the plain arc does not need any.
        return design_core_tail(prior, ratio, max_core=0)
    raise ValueError(f"No slack was enough to realise the lifts exactly. Got ratio {float(ratio)}; is it close to 1?")


def gain_bound_of(weights: Sequence[int], core: Sequence[int], ratio: Fraction, duals: Sequence[float]) -> float:
    """Return a bound on the gain of any channel with lifts in [1/ratio, ratio], proved by prices of the core's values.

    It is valid for every core and all prices, good or bad.
    """
    prior = np.array(weights, dtype=np.float64) / float(sum(weights))
    tail = np.setdiff1d(np.arange(len(prior)), core)
    heavy, price = prior[list(core)], np.array(duals, dtype=np.float64)
    covered = price_bound(heavy, float(prior[tail].sum()), float(1 / (ratio + 1)), price)
    return _gain_bound(prior, tail, ratio, covered)


def _gain_bound(prior: Floats, tail: npt.NDArray[np.intp], ratio: Fraction, core_moments: float) -> float:
    """Return the gain that belongs to Σ P² E[c²] ≤ core + tail, each tail value at its own best."""
    share = float(1 / (ratio + 1))
    moments = core_moments + float(prior[tail] ** 2 @ second_moment_bound(prior[tail], share))
    if np.ptp(prior) == 0:
        moments = min(moments, uniform_moment(len(prior), share))
    return float(ratio - 1 / ratio) ** 2 * (moments - share**2 * float(prior @ prior))


def shrunk_growth(ratio: Fraction, bits: int) -> Fraction:
    """Return g such that the lifts (1 + g c)/(1 + g h), h = 1/(r+1), move towards 1 by the share n = 2^-`bits`.

    The extremes become lo = 1 - (1-n)(1-1/r) and hi = 1 + (1-n)(r-1), with lo + (hi-lo) h = 1 still; g = hi/lo - 1,
    here rounded down.  The coverages, hence the core, need no change.
    """
    kept = 1 - Fraction(1, 1 << bits)
    growth = kept * (ratio - 1 / ratio) / (1 - kept * (1 - 1 / ratio))
    return Fraction(int(growth * GROWTH_UNIT), GROWTH_UNIT)


def uniform_moment(size: int, share: float) -> float:
    """Return the largest Σ P² c² of a report when all `size` priors are equal: (k + f²)/size².

    k and f are the whole and the fractional part of size * h, the sum of c: given it, ones and one part are extreme.
    """
    whole, part = divmod(size * share, 1.0)
    return (whole + part * part) / size**2


def choose_core(
    weights: Sequence[int], prior: Floats, share: float, max_core: int, tail_loss: float
) -> npt.NDArray[np.intp]:
    """Return the fewest heaviest values (increasing) whose absence keeps the tail's loss within `tail_loss`.

    A tail of mass T loses Σ P (P² - u²)/(3T), u the mass of one cell of the circle: see `mean_square_coverage`.
    If `max_core` values are too few, the number that loses least.
    """
    order = np.argsort(-prior, kind="stable")
    sorted_prior = prior[order]
    unit = gcd(*weights) / sum(weights)
    losses = np.cumsum((sorted_prior * (sorted_prior**2 - unit**2))[::-1])[::-1]
    loss = (losses / (3 * np.cumsum(sorted_prior[::-1])[::-1]))[: max_core + 1]
    bound = float(prior**2 @ (second_moment_bound(prior, share) - share**2))
    enough = np.flatnonzero(loss <= tail_loss * bound)
    size = int(enough[0]) if len(enough) else int(np.argmin(loss))
    return np.sort(order[:size])


def integer_states(cover: CoreCover) -> tuple[CoreState, ...]:
    """Round a core's distribution to integers; what rounding changes is seen by the audit and by the gain."""
    states = []
    for probability, row in zip(cover.probability, np.rint(cover.coverage * CORE_UNIT), strict=True):
        units = [int(n) for n in row]
        covered = sum(1 << place for place, n in enumerate(units) if n == CORE_UNIT)
        parts = tuple((place, n) for place, n in enumerate(units) if 0 < n < CORE_UNIT)
        states.append(CoreState(max(1, round(float(probability) * WEIGHT_UNIT)), covered, parts))
    return tuple(states)
