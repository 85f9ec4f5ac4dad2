"""What may be expected of a total before its own reports are looked at, and what the groups show of their priors.

A group's prior says a mean m_j; the truth may be off by δ_j, and nobody knows how much. With n_j people, V_j the spread
of one answer under the prior and a stated error e_j (0 where none is stated), the unbiased totals Y_j, less what the
priors expect, are taken to have the covariance

    Σ = diag(S_j + n_j V_j + n_j² e_j² + τ² u_j²) + c τ² u uᵀ,      u_j = n_j √V_j,

S_j their sampling variance given the people. A prior off by τ √V is worth 1/τ² records; c = 0 says that groups drift
each on its own, c = 1 that they also drift together. τ and c are not known: each pair of a grid is weighed by how well
it explains the reports.

For a total X = Σ_target Y_j the rest R = Y − s X, s_j = S_j/Σ_target S, is independent of X whatever the truth is,
because only the randomness of the reports is in both. So what R makes of the grid is a legitimate expectation of X, a
mixture of normals around 0: an interval made for it covers for every truth. Once X is looked at as well, the grid makes
an estimate. All answers of a histogram together show τ and c.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats

#: Priors worth from a million records down to three.
_DRIFTS = np.geomspace(1e-6, 0.3, 25)
#: Groups drift each on its own, or also together.
_TOGETHER = (0.0, 1.0)
#: This part of every expectation is spread over the whole grid, whatever the reports show: a prior that is badly wrong
#: for one answer alone costs little then.
_DOUBT = 0.2
#: So many numbers are worked on at a time.
_CHUNK = 2**20


@dataclass(frozen=True)
class Groups:
    """What the groups' reports say beside what their priors expect; arrays of shape (groups, components).

    `excess` is Y, `variance` S, `sampled` n V + n² e² and `scale` u. `free` is the part of the components that says
    something of its own: those of a histogram add up to the number of reports.
    """

    excess: Floats
    variance: Floats
    sampled: Floats
    scale: Floats
    free: float = 1.0


@dataclass(frozen=True)
class Expectation:
    """A mixture of normals around 0 for each component's X, with `variances` of shape (grid, components).

    `before` weighs the grid without any X, `after` with those of all components.
    """

    before: Floats
    after: Floats
    variances: Floats

    def given(self, x: Floats, free: float = 1.0) -> Floats:
        """Weights of shape (grid, components) once a component's own X is known, as well as the others'.

        What the others show is doubted, so that one answer that moved alone is not pulled back to where the others are.
        """
        own = -(x**2 / self.variances + np.log(self.variances)) / 2
        with np.errstate(divide="ignore"):
            others = _weights(np.log(self.after)[:, None] - free * own)
        weights = _doubted(others) * np.exp(own - own.max(axis=0))
        scaled: Floats = weights / weights.sum(axis=0)
        return scaled


def expectation(groups: Groups, target: NDArray[np.bool_]) -> Expectation:
    """What to expect of the total over the `target` groups."""
    size = max(1, _CHUNK // (len(_DRIFTS) * len(target)))
    chunks = [slice(start, start + size) for start in range(0, groups.excess.shape[1], size)]
    parts = [[_explained(groups, target, together, chunk) for chunk in chunks] for together in _TOGETHER]
    before, after = (groups.free * np.concatenate([sum(c[k] for c in row) for row in parts]) for k in (0, 1))
    variances = np.concatenate([np.concatenate([chunk[2] for chunk in row], axis=1) for row in parts])
    return Expectation(_doubted(_weights(before)), _weights(after), variances)


def _explained(
    groups: Groups, target: NDArray[np.bool_], together: float, chunk: slice
) -> tuple[Floats, Floats, Floats]:
    """For every τ² and some components: the log-likelihoods of R and of Y, summed up, and the variances of X."""
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
        found: Floats = (a * b / diagonal).sum(axis=1) - common * first * second
        return found

    volume = np.log(diagonal).sum(axis=1) + np.log1p(loading)
    precision = product(s, s)
    unexplained = product(rest, rest) - product(s, rest) ** 2 / precision
    shift = together * _DRIFTS[:, None] * scale[target].sum(axis=0) ** 2
    return (
        -(unexplained + volume + np.log(precision)).sum(axis=1) / 2,
        -(product(y, y) + volume).sum(axis=1) / 2,
        diagonal[:, target].sum(axis=1) + shift,
    )


def records_worth(expected: Expectation) -> float | None:
    """How many of the people who answer a group's prior is worth, as the reports show it: the median of 1/τ².

    None where they do not show it to within a factor of ten, up or down, for four fifths of the weight.
    """
    weights = expected.after.reshape(len(_TOGETHER), -1).sum(axis=0)
    low, middle, high = (_DRIFTS[int(np.searchsorted(np.cumsum(weights), share))] for share in (0.1, 0.5, 0.9))
    return float(1 / middle) if high < 100 * low else None


def _weights(logs: Floats) -> Floats:
    weights = np.exp(logs - logs.max(axis=0))
    scaled: Floats = weights / weights.sum(axis=0)
    return scaled


def _doubted(weights: Floats) -> Floats:
    doubted: Floats = (1 - _DOUBT) * weights + _DOUBT / len(weights)
    return doubted
