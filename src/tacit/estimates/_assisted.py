"""Assisted estimates: they use the prior as far as the reports of all groups agree with it.

**What to expect of a total.** A group's prior states a mean m_j; the true mean differs by an unknown δ_j. With n_j
people, V_j the variance of one answer under the prior and e_j a stated error of the prior (0 where none is stated), the
unbiased totals Y_j, less the totals that the priors expect, have the covariance

    Σ = diag(S_j + n_j V_j + n_j² e_j² + τ² u_j²) + c τ² u uᵀ,      u_j = n_j √V_j,

where S_j is their variance given the people. With c = 0 every group drifts on its own, with c > 0 they also drift
together, and a prior has the value of 1/((1 + c) τ²) records. τ and c are unknown: each pair of a grid is weighted by
its likelihood. All values of a histogram together show τ and c.

For a total X = Σ_target Y_j the rest R = Y − s X, s_j = S_j/Σ_target S, is independent of X for every truth, because
only the randomness of the reports is in both. So everything that R says is a legitimate expectation of X: for each pair
of the grid a normal,

    X | R ~ N(−sᵀΣ⁻¹R/sᵀΣ⁻¹s, 1/sᵀΣ⁻¹s),

and an interval made for the mixture of them covers for every truth. Its means move a group towards the drift that the
other groups show, as small-area estimates do. For the estimate X itself is used as well.

**The estimate** is the posterior mean under that expectation, at most D standard errors from the unbiased estimate. A
shift of a normal estimate by at most D·σ that does not shrink again keeps its mean squared error below (1 + D²) σ²
(Efron and Morris, 1971). This shift shrinks where the prior is clearly wrong: a wrong prior costs more than that bound
at three to four standard errors, and nothing far beyond (docs/theory.md).

**The interval** is Pratt's (1961), also called frequentist assisted by Bayes (Yu and Hoff, 2018): of all intervals that
cover θ with probability 1 − α for every θ, the shortest on average under the expectation m. θ is in the interval of x
if x is in A(θ) = {x: φ((x−θ)/σ) ≥ k m(x)}, so the upper end u solves

    ln φ((x−u)/σ) − ln m(x) = ln φ((b−u)/σ) − ln m(b),     Φ((b−u)/σ) = 1 − α + Φ((x−u)/σ).

It always contains x ± z_{1−α} σ, with the one-sided z.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats

#: The grid of τ²: from priors with the value of a million records to rare answers that became common, a hundred times
#: the variance that the prior expects.
_DRIFTS = np.geomspace(1e-6, 100.0, 25)
#: The grid of c: groups drift each on its own, also together, or nearly all of the drift is common.
_TOGETHER = (0.0, 1.0, 30.0)
#: This part of every expectation is spread evenly over the grid, so that a prior that is badly wrong for a single
#: answer costs little.
_DOUBT = 0.2
#: Numbers in memory at a time.
_CHUNK = 2**20
#: Search for the upper end: places between the one-sided z and z plus the furthest distance, in standard errors; then
#: this many halvings.
_PLACES, _FURTHEST, _HALVINGS = 24, 12.0, 20
#: Batch sizes of that search: components, and places of all components. With few components a call costs more than the
#: numbers in it, so several halvings are made at once.
_COMPONENTS, _AT_A_TIME, _FEW, _AT_ONCE = 256, 256, 16, 4


@dataclass(frozen=True)
class Groups:
    """The groups' totals less the totals that their priors expect; arrays of shape (groups, components).

    `excess` is Y, `variance` S, `sampled` n V + n² e² and `scale` u. `free` is the share of independent components:
    those of a histogram add up to the number of reports.
    """

    excess: Floats
    variance: Floats
    sampled: Floats
    scale: Floats
    free: float = 1.0


@dataclass(frozen=True)
class Expectation:
    """A mixture of normals for each component's X, with `means` and `variances` of shape (grid, components).

    `before` weighs the grid without any X, `after` with those of all components.
    """

    before: Floats
    after: Floats
    means: Floats
    variances: Floats

    def given(self, x: Floats, free: float = 1.0) -> Floats:
        """Weights of shape (grid, components) given the X of every component.

        A part of the weight stays spread evenly, so that the others do not pull back a component that moved alone.
        """
        own = -((x - self.means) ** 2 / self.variances + np.log(self.variances)) / 2
        with np.errstate(divide="ignore"):
            others = _weights(np.log(self.after)[:, None] - free * own)
        weights = _doubted(others) * np.exp(own - own.max(axis=0))
        return weights / weights.sum(axis=0)


def expectation(groups: Groups, target: NDArray[np.bool_]) -> Expectation:
    """The expectation of the total over the `target` groups."""
    size = max(1, _CHUNK // (len(_DRIFTS) * len(target)))
    chunks = [slice(start, start + size) for start in range(0, groups.excess.shape[1], size)]
    parts = [[_explained(groups, target, together, chunk) for chunk in chunks] for together in _TOGETHER]
    before, after = (groups.free * np.concatenate([sum(c[k] for c in row) for row in parts]) for k in (0, 1))
    means, variances = (np.concatenate([np.concatenate([c[k] for c in row], axis=1) for row in parts]) for k in (2, 3))
    return Expectation(_doubted(_weights(before)), _weights(after), means, variances)


def _explained(
    groups: Groups, target: NDArray[np.bool_], together: float, chunk: slice
) -> tuple[Floats, Floats, Floats, Floats]:
    """For every τ² and some components: the summed log-likelihoods of R and of Y, mean and variance of X given R."""
    y, variance, sampled, scale = (
        part[:, chunk] for part in (groups.excess, groups.variance, groups.sampled, groups.scale)
    )
    noise = np.where(target[:, None], variance, 0.0)
    s = noise / np.maximum(noise.sum(axis=0), 1e-300)
    rest = y - s * y[target].sum(axis=0)
    drifts = _DRIFTS[:, None, None]
    diagonal = variance + sampled + drifts * scale**2
    loading = together * _DRIFTS[:, None] * (scale**2 / diagonal).sum(axis=1)
    common = together * _DRIFTS[:, None] / (1 + loading)

    def product(a: Floats, b: Floats) -> Floats:
        """aᵀΣ⁻¹b by Sherman and Morrison: the diagonal's inverse, less what is common."""
        first, second = ((scale * part / diagonal).sum(axis=1) for part in (a, b))
        return (a * b / diagonal).sum(axis=1) - common * first * second

    volume = np.log(diagonal).sum(axis=1) + np.log1p(loading)
    precision, mean = product(s, s), -product(s, rest)
    unexplained = product(rest, rest) - mean**2 / precision
    return (
        -(unexplained + volume + np.log(precision)).sum(axis=1) / 2,
        -(product(y, y) + volume).sum(axis=1) / 2,
        mean / precision,
        1 / precision,
    )


def records_worth(expected: Expectation) -> float | None:
    """The number of records that a group's prior replaces, as the reports show it: the median of 1/((1 + c) τ²).

    None where four fifths of the weight do not lie within a factor of ten, up or down.
    """
    drifts = np.outer(1 + np.array(_TOGETHER), _DRIFTS).ravel()
    order = np.argsort(drifts)
    reached = np.cumsum(expected.after[order])
    low, middle, high = (drifts[order[int(np.searchsorted(reached, share))]] for share in (0.1, 0.5, 0.9))
    return float(1 / middle) if high < 100 * low else None


def _weights(logs: Floats) -> Floats:
    weights = np.exp(logs - logs.max(axis=0))
    return weights / weights.sum(axis=0)


def _doubted(weights: Floats) -> Floats:
    return (1 - _DOUBT) * weights + _DOUBT / len(weights)


def shifted(
    expected: Expectation, x: Floats, variance: Floats, limit: float, free: float = 1.0
) -> tuple[Floats, Floats]:
    """The posterior mean of each component given x and its `variance`, at most `limit` standard errors from x, and the
    share of the expectation in it, from 0 to 1.
    """
    weights = expected.given(x, free) * np.minimum(variance / expected.variances, 1.0)
    wanted = (weights * (x - expected.means)).sum(axis=0)
    room = limit * np.sqrt(variance)
    moved = np.clip(wanted, -room, room)
    share = weights.sum(axis=0)
    return x - moved, share * np.divide(moved, wanted, out=np.ones(len(x)), where=wanted != 0)


def pratt_interval(expected: Expectation, x: Floats, variance: Floats, level: float) -> tuple[Floats, Floats]:
    """The ends of the interval for each component."""
    error = np.sqrt(np.maximum(variance, 1e-300))
    ends = np.empty((2, len(x)))
    for start in range(0, len(x), _COMPONENTS):
        part = slice(start, start + _COMPONENTS)
        away = (expected.means[:, part] - x[part]) / error[part]
        variances = expected.variances[:, part] / error[part] ** 2
        # By symmetry the lower end is an upper end for −x.
        sides, twice = np.concatenate([away, -away], axis=1), np.concatenate([variances, variances], axis=1)
        up, down = _upper_end(expected.before, sides, twice, 1 - level).reshape(2, -1)
        ends[:, part] = x[part] - down * error[part], x[part] + up * error[part]
    return ends[0], ends[1]


def _upper_end(weights: Floats, means: Floats, variances: Floats, alpha: float) -> Floats:
    """u for x = 0 and σ = 1, where m has these means and variances: the last place where both sides are equal."""
    from scipy.special import ndtr, ndtri

    heights, twice = (np.log(weights)[:, None] - np.log(variances) / 2)[:, None], 2 * variances[:, None]
    centres, size = means[:, None], means.shape[1]

    def log_m(at: Floats) -> Floats:
        # Sums over two axes are faster than over three.
        logs = (heights - (at - centres) ** 2 / twice).reshape(len(weights), -1)
        most = logs.max(axis=0)
        logs -= most
        return (most + np.log(np.exp(logs, out=logs).sum(axis=0))).reshape(at.shape)

    at_x = log_m(np.zeros((1, size)))

    def excess(u: Floats) -> Floats:
        """Left side less right side: positive as long as u is too low."""
        # ndtri(1 − α + Φ(−u)) without the loss of digits near 1.
        reach = -ndtri(np.maximum(alpha - ndtr(-u), 1e-300))
        return (reach**2 - u**2) / 2 - at_x + log_m(u + reach)

    def between(ends: Floats) -> tuple[Floats, Floats]:
        """Of several places for each component, the last that is too low, or else the first, and the one after it."""
        inner, rows = ends[1:-1], max(1, _AT_A_TIME // size)
        below = np.concatenate([excess(inner[k : k + rows]) > 0 for k in range(0, len(inner), rows)])
        last = np.where(below.any(axis=0), len(below) - np.argmax(below[::-1], axis=0), 0)
        each = np.arange(size)
        return ends[last, each], ends[last + 1, each]

    first = float(-ndtri(alpha))
    places = first + _FURTHEST * (np.arange(_PLACES + 1) / _PLACES) ** 2
    low, high = between(np.repeat(places[:, None], size, axis=1))
    halvings = _AT_ONCE if size <= _FEW else 1
    parts = np.linspace(0.0, 1.0, 2**halvings + 1)[:, None]
    for _ in range(_HALVINGS // halvings):
        low, high = between((1 - parts) * low + parts * high)
    # A secant over 2⁻²⁰ of the first distance is right to a millionth of a standard error, and most to 10⁻¹².
    left, right = excess(np.array([low, high]))
    share = np.divide(left, left - right, out=np.ones(size), where=(left > 0) & (right < 0))
    return low + share * (high - low)
