"""Estimates that use the prior as far as it is worth it, with intervals that hold whatever the truth is.

The estimate is the posterior mean under an `Expectation`, but never further than D standard errors from the unbiased
one. A shift of a normal estimate by at most D·σ that does not shrink again leaves its mean squared error below
(1 + D²) σ² (Efron and Morris, 1971). This one shrinks where the prior is plainly wrong: a wrong prior costs more than
that at three to four standard errors, and nothing far beyond (docs/theory.md).

The interval is Pratt's (1961), known as frequentist assisted by Bayes (Yu and Hoff, 2018): of all intervals that cover
θ with probability 1 − α for every θ, the one that is shortest on average under the expectation m. θ is in the interval
of x if x is in A(θ) = {x: φ((x−θ)/σ) ≥ k m(x)}, so the upper end u solves

    ln φ((x−u)/σ) − ln m(x) = ln φ((b−u)/σ) − ln m(b),     Φ((b−u)/σ) = 1 − α + Φ((x−u)/σ).

It always holds x ± z_{1−α} σ, one-sided z.
"""

from __future__ import annotations

import numpy as np

from tacit.estimates.drift import Expectation
from tacit.exact import Floats

#: The upper end is looked for on this many places between one-sided z and so many standard errors further, then halved
#: so often.
_PLACES, _FURTHEST, _HALVINGS = 24, 12.0, 40
#: So many components are worked on at a time, and so many places of them all. Of so few components, calls take longer
#: than numbers: four halvings are made in one.
_CHUNK, _AT_A_TIME, _FEW, _AT_ONCE = 256, 256, 16, 4


def shifted(
    expected: Expectation, x: Floats, variance: Floats, limit: float, free: float = 1.0
) -> tuple[Floats, Floats]:
    """The posterior mean of each component given x and its `variance`, no further than `limit` standard errors from x;
    and how much of it is the prior: 0 if nothing, 1 if all.
    """
    weight = np.clip((expected.given(x, free) * variance / expected.variances).sum(axis=0), 0.0, 1.0)
    room = limit * np.sqrt(variance)
    moved = np.clip(weight * x, -room, room)
    return x - moved, np.divide(moved, x, out=weight, where=x != 0)


def pratt_interval(expected: Expectation, x: Floats, variance: Floats, level: float) -> tuple[Floats, Floats]:
    """The ends of the interval for each component."""
    error = np.sqrt(np.maximum(variance, 1e-300))
    ends = np.empty((2, len(x)))
    for start in range(0, len(x), _CHUNK):
        part = slice(start, start + _CHUNK)
        scaled, variances = x[part] / error[part], expected.variances[:, part] / error[part] ** 2
        # The lower end is the upper one in the mirror.
        away, twice = np.concatenate([-scaled, scaled]), np.concatenate([variances, variances], axis=1)
        up, down = _upper_end(expected.before, away, twice, 1 - level).reshape(2, -1)
        ends[:, part] = x[part] - down * error[part], x[part] + up * error[part]
    return ends[0], ends[1]


def _upper_end(weights: Floats, mean: Floats, variances: Floats, alpha: float) -> Floats:
    """u for x = 0 and σ = 1, where m has this mean and these variances: the last place where both sides are equal."""
    from scipy.special import ndtr, ndtri

    heights, twice = (np.log(weights)[:, None] - np.log(variances) / 2)[:, None], 2 * variances[:, None]

    def log_m(at: Floats) -> Floats:
        # Two axes are added up faster than three.
        logs = (heights - (at - mean) ** 2 / twice).reshape(len(weights), -1)
        most = logs.max(axis=0)
        logs -= most
        found: Floats = (most + np.log(np.exp(logs, out=logs).sum(axis=0))).reshape(at.shape)
        return found

    at_x = log_m(np.zeros((1, len(mean))))

    def excess(u: Floats) -> Floats:
        """Left side less right side: positive as long as u is too low."""
        # ndtri(1 − α + Φ(−u)) without the loss of digits near 1.
        reach = -ndtri(np.maximum(alpha - ndtr(-u), 1e-300))
        difference: Floats = (reach**2 - u**2) / 2 - at_x + log_m(u + reach)
        return difference

    def between(ends: Floats) -> tuple[Floats, Floats]:
        """Of several places for each component, the last that is too low, or else the first, and the one after it."""
        inner, rows = ends[1:-1], max(1, _AT_A_TIME // len(mean))
        below = np.concatenate([excess(inner[k : k + rows]) > 0 for k in range(0, len(inner), rows)])
        last = np.where(below.any(axis=0), len(below) - np.argmax(below[::-1], axis=0), 0)
        each = np.arange(len(mean))
        return ends[last, each], ends[last + 1, each]

    first = float(-ndtri(alpha))
    places = first + _FURTHEST * (np.arange(_PLACES + 1) / _PLACES) ** 2
    low, high = between(np.repeat(places[:, None], len(mean), axis=1))
    halvings = _AT_ONCE if len(mean) <= _FEW else 1
    parts = np.linspace(0.0, 1.0, 2**halvings + 1)[:, None]
    for _ in range(_HALVINGS // halvings):
        low, high = between((1 - parts) * low + parts * high)
    return high
