"""How the reports of a table are read: with the prior (mmse), without it (unbiased), or by likelihood (mle).

Every estimator is a weight t(y) per report and component of g; the estimate of Σ_i a_i g(X_i) is Σ_i a_i t(Y_i). What
reports determine without a prior is in the information matrix J = Σ_y λ_y v_y v_yᵀ.

**The prior check**: do the reports contradict the prior? With n_y of N reports y, what they say of the values is
s = Σ_y (n_y − Nλ_y) v_y. Chi-squares of it for all values, and for single ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats
from tacit.mechanism.protocol import (
    ENOUGH_TO_SCORE,
    MIN_EXPECTED,
    NotEstimableError,
    PlainEstimator,
    Reading,
    pearson,
)
from tacit.task import Task

if TYPE_CHECKING:
    from tacit.mechanism.table._channel import Channel

#: Directions whose information is below this share of the largest count as not seen at all.
_SMALLEST_SEEN = 1e-10
#: g may lie in unseen directions by this share of its largest entry: rounding, nothing else.
_LARGEST_UNSEEN = 1e-7
#: Among more values than this a change of a single one is lost in a chi-square of all.
_MANY = 16
#: Up to this many reports every change is tried out to find its effect on the most likely total.
_MOST_KINDS = 12
#: Places between two values at which the variance of a rounded answer is bounded.
_BETWEEN = 8


@dataclass(frozen=True)
class Information:
    """J in the eigenvectors that reports see: J ≈ Σ_k values_k · vectors_k vectors_kᵀ."""

    values: Floats
    vectors: Floats

    @classmethod
    def of(cls, lifts: Floats, marginal: Floats) -> Information:
        """From lifts v_y(x) of shape (reports, values) and the marginal λ(y).

        >>> Information.of(np.array([[1.5, 0.5], [0.5, 1.5]]), np.array([0.5, 0.5])).values.round(9).tolist()
        [0.5, 2.0]
        """
        scaled = lifts * np.sqrt(marginal)[:, None]
        if len(scaled) >= scaled.shape[1]:
            return cls.of_matrix(scaled.T @ scaled)
        # Few reports see few directions: J has the eigenvectors of its smaller side.
        _, roots, vectors = np.linalg.svd(scaled, full_matrices=False)
        return cls._seen(roots**2, vectors.T)

    @classmethod
    def of_matrix(cls, matrix: Floats) -> Information:
        """From J itself."""
        return cls._seen(*np.linalg.eigh(matrix))

    @classmethod
    def _seen(cls, values: Floats, vectors: Floats) -> Information:
        seen = values > _SMALLEST_SEEN * values.max()
        return cls(values[seen], vectors[:, seen])

    def determines(self, g: Floats) -> bool:
        """Whether the reports determine g (values, components), for any truth: no part of it is unseen."""
        return bool(self.determined(g).all())

    def determined(self, g: Floats) -> NDArray[np.bool_]:
        """The same for each component."""
        missed = np.abs(g - self.vectors @ (self.vectors.T @ g)).max(axis=0, initial=0.0)
        return missed <= _LARGEST_UNSEEN * float(np.abs(g).max(initial=0.0))

    def solve(self, g: Floats) -> Floats:
        """J⁻¹g on the seen directions."""
        return self.vectors @ ((self.vectors.T @ g) / self.values[:, None])

    def quadratic(self, g: Floats) -> Floats:
        """gᵀJ⁻¹g for each component of g, on the seen directions."""
        loadings = self.vectors.T @ g
        return (loadings**2 / self.values[:, None]).sum(axis=0)


def read_table(
    channel: Channel,
    estimator: PlainEstimator,
    task: Task,
    weights: Floats,
    squares: Floats,
    counts: Floats,
) -> Reading:
    """The reading of a table: `weights`, `squares` and `counts` are Σ a, Σ a² and how often, for every report."""
    prior = channel.prior
    g, by_answer = task.g(prior), None
    if estimator == "mmse":
        t, spread = mmse_weights(channel, g)
        variance: Floats = squares @ spread
    elif estimator == "unbiased":
        t = unbiased_weights(channel, g)
        variance = np.maximum(squares @ variance_weights(channel, task, t), 0.0)
        by_answer = variance_by_answer(channel, task, t)[1:]
        t = _told(channel, task, t)
    else:
        t, per_person = _mle_weights(channel, g, counts)
        variance = per_person * float(squares.sum())
    if task.rounded and estimator != "unbiased":
        # Rounding adds at most the spread of the values that answers are rounded to.
        variance = variance + float(squares.sum()) * (prior.probabilities @ (g - prior.probabilities @ g) ** 2)
    if estimator == "mle":
        return Reading(weights @ t, variance, *_likely_moves(channel, g, counts, weights))
    changed, added = float(np.nanmax(t.max(axis=0) - t.min(axis=0))), float(np.nanmax(np.abs(t)))
    determined = channel.information.determined(g[list(prior.support)]) if estimator == "mmse" else None
    return Reading(weights @ t, variance, changed, added, determined, by_answer=by_answer)


def mmse_weights(channel: Channel, g: Floats) -> tuple[Floats, Floats]:
    """E[g|y] and Var(g|y) for every report y and component of g, as arrays of shape (reports, components).

    The paper's estimator: the estimate of Σ g(X_i) is Σ_i E[g|y_i], and given the reports its error has variance
    Σ_i Var(g|y_i): exact under the prior, and as wrong as the prior otherwise.

    >>> from tacit import Channel, Prior
    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> means, variances = mmse_weights(Channel.from_weights(prior, [[3, 1], [1, 3]]), np.eye(2))
    >>> means.tolist(), variances.tolist()
    ([[0.75, 0.25], [0.25, 0.75]], [[0.1875, 0.1875], [0.1875, 0.1875]])
    """
    posterior = channel.posterior
    means = posterior @ g
    # Centred, so that a large offset does not cancel.
    centre = channel.prior.probabilities @ g
    shifted = g - centre
    variances = np.maximum(posterior @ shifted**2 - (posterior @ shifted) ** 2, 0.0)
    return means, variances


def unbiased_weights(channel: Channel, g: Floats) -> Floats:
    """t(y) = gᵀJ⁻¹v_y with J = Σ λ_y v_y v_yᵀ: the unbiased estimate of g(X) from one report y, per component of g.

    E[t(Y) | X = x] = g(x) for every value x of the support, for any true distribution; the choice of J makes the
    variance least at the prior. Raises `NotEstimableError` if no weights do that (J singular in the direction of g).

    >>> from tacit import Channel, Prior
    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> unbiased_weights(Channel.from_weights(prior, [[3, 1], [1, 3]]), np.eye(2)).round(12).tolist()
    [[1.5, -0.5], [-0.5, 1.5]]
    """
    t = _solved_weights(channel, g)
    if t is None:
        raise NotEstimableError(
            "The unbiased estimate does not exist for this plan: its reports do not tell the values apart. "
            "Use the estimator 'mmse', or plan again with the aim 'unbiased'."
        )
    return t


def told_weights(channel: Channel, task: Task) -> Floats:
    """`unbiased_weights` of a task, NaN for the values of a histogram outside the support."""
    return _told(channel, task, unbiased_weights(channel, task.g(channel.prior)))


def _told(channel: Channel, task: Task, t: Floats) -> Floats:
    if task.per_value:
        t[:, [x for x, weight in enumerate(channel.prior.weights) if not weight]] = np.nan
    return t


def variance_by_answer(channel: Channel, task: Task, t: Floats) -> tuple[Floats, Floats, Floats]:
    """Q(y|x), g(x) and Var(t(Y) | X = x) for every possible answer x; t has an unbiased weight for each report.

    Where answers were rounded, also for answers between the values, on a grid. Between two places of the grid with
    distance Δ the variance lies at most Δ²/4 above its chord, which is added.
    """
    inside = list(channel.prior.support)
    q, off = channel.matrix[inside], t - channel.marginal @ t
    g = task.g(channel.prior)[inside]
    above = np.zeros_like(g)
    if task.rounded:
        above = np.concatenate([np.repeat(np.diff(g, axis=0) / _BETWEEN, _BETWEEN, axis=0), 0 * g[:1]]) ** 2 / 4
        above[1:] = np.maximum(above[1:], above[:-1])
        q, g = _between(q), _between(g)
    variance: Floats = q @ off**2 - (q @ off) ** 2 + above
    return q, g, variance


def _between(rows: Floats) -> Floats:
    """Rows for places between each row and the next one, and the last row."""
    shares = (np.arange(_BETWEEN) / _BETWEEN)[:, None]
    return np.concatenate([(1 - shares) * first + shares * last for first, last in pairwise(rows)] + [rows[-1:]])


def variance_weights(channel: Channel, task: Task, t: Floats) -> Floats:
    """s(y) whose sum over the reports estimates the variance of Σ t(y) and never has a smaller expectation.

    E[s(Y) | X = x] = Var(t(Y) | X = x) where such weights exist; else those of the linear program

        minimise λ·s   subject to   Σ_y Q(y|x) s(y) ≥ Var(t | x) for every answer x,   s ≥ 0.
    """
    key = t.tobytes(), task.rounded
    if key in channel.solved:
        return channel.solved[key]
    (q, _, variance), found = variance_by_answer(channel, task, t), None
    if not task.rounded:
        whole = np.zeros((len(channel.prior), t.shape[1]))
        whole[list(channel.prior.support)] = variance
        found = _solved_weights(channel, whole)
    if found is None:
        found = np.column_stack([_least_weights(q, channel.marginal, column) for column in variance.T])
    channel.solved[key] = found
    return found


def _least_weights(q: Floats, marginal: Floats, variance: Floats) -> Floats:
    from scipy.optimize import linprog

    scale = float(variance.max(initial=0.0))
    if scale <= 0:
        return np.zeros(q.shape[1])
    solved = linprog(marginal, A_ub=-q, b_ub=-variance / scale, bounds=(0, None), method="highs")
    # The same variance for every report is always enough.
    weights: Floats = scale * (np.ones(q.shape[1]) if solved.x is None else solved.x)
    # Floats may leave a constraint a hair below its bound.
    missing = float(np.max(variance - q @ weights, initial=0.0))
    return weights + max(0.0, missing)


def _solved_weights(channel: Channel, g: Floats) -> Floats | None:
    """E g + (g − E g)ᵀJ⁻¹v_y, which is gᵀJ⁻¹v_y because J⁻¹1 = P and P·v_y = 1, and exact for large g."""
    prior, information = channel.prior, channel.information
    inside = list(prior.support)
    mean = prior.probabilities @ g
    off = g[inside] - mean
    return mean + channel.inside_lifts @ information.solve(off) if information.determines(off) else None


def _mle_weights(channel: Channel, g: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """E[g|y] under the most likely distribution p, and the variance of one person's part of the estimate."""
    inside = list(channel.prior.support)
    p, q = maximum_likelihood(channel, counts), channel.matrix[inside]
    share = p[inside] @ q
    # J_p = Σ_y Q(y|·) Q(y|·)ᵀ / (pQ)_y, what a respondent's report says at the distribution p.
    scaled = q[:, share > 0] / np.sqrt(share[share > 0])
    information = Information.of_matrix(scaled @ scaled.T)
    off = g[inside] - p[inside] @ g[inside]
    if not information.determines(off):
        raise NotEstimableError(
            "The maximum of the likelihood is not unique for this plan: its reports do not tell all values apart. "
            "Use the estimator 'mmse', or plan again with the aim 'unbiased'."
        )
    sampled = information.quadratic(off) - p[inside] @ off**2
    return _means_under(channel, p, g), np.maximum(sampled, 0.0)


def _means_under(channel: Channel, p: Floats, g: Floats) -> Floats:
    """E[g|y] if answers have the distribution p."""
    q = channel.matrix
    return (q * p[:, None] / np.maximum(p @ q, 1e-300)).T @ g


def _likely_moves(channel: Channel, g: Floats, counts: Floats, weights: Floats) -> tuple[float, float]:
    """How far one report changed, or added, moves the most likely total: by estimating again, with every report there
    is in the place of every other that came. Where these are many, the two that move it most stand for all.
    """

    def total(step: Floats) -> Floats:
        p = maximum_likelihood(channel, counts + step)
        return (weights + step) @ _means_under(channel, p, g)

    start, steps = total(np.zeros(len(counts))), np.eye(len(counts))
    more = np.array([total(step) - start for step in steps])
    kinds = (
        np.unique([more.argmin(axis=0), more.argmax(axis=0)]) if len(counts) > _MOST_KINDS else np.arange(len(counts))
    )
    came = [kind for kind in range(len(counts)) if counts[kind] >= 1]
    pairs = [(old, new) for old in came[:_MOST_KINDS] for new in kinds if old != new]
    changes = [np.abs(total(steps[new] - steps[old]) - start).max() for old, new in pairs]
    return float(max(changes, default=np.ptp(more, axis=0).max())), float(np.abs(more).max())


#: EM stops when a step raises the log-likelihood by less than this, in nats over all reports.
LIKELIHOOD_TOLERANCE = 1e-8
MAX_STEPS = 20_000


def maximum_likelihood(channel: Channel, counts: Floats) -> Floats:
    """EM (the iterative Bayesian update) with SQUAREM acceleration, on the support of the prior.

        p_x ← p_x Σ_y f_y Q(y|x) / (pQ)_y,   f_y the report frequencies.

    Each accelerated step is kept only if it does not lower the likelihood, so the likelihood rises to its maximum.

    >>> from tacit import Channel, Prior
    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> channel = Channel.from_weights(prior, [[3, 1], [1, 3]])
    >>> maximum_likelihood(channel, np.array([400.0, 600.0])).round(6).tolist()
    [0.3, 0.7]
    """
    prior = channel.prior
    inside = list(prior.support)
    seen = counts > 0
    q = channel.matrix[inside][:, seen]
    seen_counts = counts[seen]
    total = seen_counts.sum()
    result = np.zeros(len(prior))
    current = prior.probabilities[inside]
    if total == 0:
        result[inside] = current
        return result

    def climb(p: Floats) -> Floats:
        return p * (q @ (seen_counts / (p @ q))) / total

    def height(p: Floats) -> float:
        return float(seen_counts @ np.log(p @ q))

    best, steps = height(current), 0
    while steps < MAX_STEPS:
        first = climb(current)
        second = climb(first)
        leap = _squarem(current, first, second)
        after = climb(leap) if leap is not None else second
        reached = height(after)
        if not reached >= best:
            after, reached = second, height(second)
        steps += 3
        risen, current, best = reached - best, after, max(best, reached)
        if risen < LIKELIHOOD_TOLERANCE:
            break
    result[inside] = current / current.sum()
    return result


def _squarem(start: Floats, first: Floats, second: Floats) -> Floats | None:
    """The squared extrapolation of Varadhan and Roland (2008), or None where it leaves the simplex."""
    step, bend = first - start, second - 2 * first + start
    norm = float(np.linalg.norm(bend))
    if norm == 0:
        return None
    length = -float(np.linalg.norm(step)) / norm
    if length > -1:
        return None
    leap: Floats = start - 2 * length * step + length**2 * bend
    return leap / leap.sum() if (leap > 0).all() else None


# -- the prior check --------------------------------------------------------------------------------------------------


def statistic_of_table(lifts: Floats, information: Information, marginal: Floats, counts: Floats) -> tuple[float, int]:
    """sᵀJ⁻¹s/N, a chi-square with d − 1 degrees of freedom, sensitive to every deviation from the prior.

    If the prior is true the covariance of s is N(J − 11ᵀ), and J⁻¹ inverts that where s lies, as JP = 1 and P·s = 0.

    Pearson's chi-square of the reports is the same where these are as many as the values. It serves where they are
    fewer, and where too few have come: a report weighs v_yᵀJ⁻¹v_y − 1, in Pearson's 1/λ_y − 1. Of more reports than
    values it has a degree for each, and most of what it adds up says nothing of any prior.

    >>> lifts, marginal = np.array([[1.5, 0.5], [0.5, 1.5], [1.0, 1.0]]), np.array([0.25, 0.25, 0.5])
    >>> found, degrees = statistic_of_table(lifts, Information.of(lifts, marginal), marginal, np.array([60.0, 40, 100]))
    >>> round(found, 9), degrees
    (4.0, 1)
    """
    n_reports = counts.sum()
    most = float(information.quadratic(lifts.T).max()) - 1
    if len(lifts) <= lifts.shape[1] or n_reports < MIN_EXPECTED * most:
        return pearson(counts, marginal)
    said = (counts - n_reports * marginal) @ lifts
    return float(information.quadratic(said[:, None])[0] / n_reports), len(information.values) - 1


def scores_of_table(lifts: Floats, marginal: Floats, counts: Floats) -> Floats:
    """s_x²/N(J_xx − 1) of every value, where there are many: of those whose lifts have varied enough."""
    if lifts.shape[1] <= _MANY:
        return np.zeros(0)
    n_reports = counts.sum()
    variance, reach = n_reports * (marginal @ (lifts - 1) ** 2), np.ptp(lifts, axis=0)
    scored = (variance > 0) & (variance >= ENOUGH_TO_SCORE * reach**2)
    said = (counts - n_reports * marginal) @ lifts
    return said[scored] ** 2 / variance[scored]
