"""Regression of a randomized answer on public columns, by its pseudo-values r, with errors that assume no model.

    linear                       Σ w z (r − zβ) = 0
    logistic and multinomial     Σ w z (r_k − p_k) = 0,    p = softmax(zβ), the last of the values being β = 0

Both are linear in r, so that r may stand for the answer: E[r | answer] is the answer's indicator or number. With A =
the derivative and u = w z (r − p) the part of one report, Var β ≈ A⁻¹ (Σ u uᵀ) A⁻¹ (Huber, White; times n/(n−k)). With
G clusters it is the jackknife, which holds for few of them where the usual sandwich is far too small (MacKinnon,
Nielsen and Webb, 2022): (G−1)/G Σ d dᵀ, d = (A − A_g)⁻¹ u_g, where u_g and A_g are the cluster's. Each coefficient has
its own degrees of freedom (Satterthwaite), since few or unequal clusters may decide it. So 5 clusters are enough.

**Rare outcomes.** Where few people say yes the estimated share may be zero or below, and β runs to infinity. Then the
score has the bias correction of Firth (1993) for outcomes with the dispersion φ = Σ w² (r − p)²/Σ w p(1 − p): the term
φ h (1/2 − p) is added to w (r − p), h the leverage. Where the interval of a coefficient is wide, it has all values b
that the generalized score test (Boos, 1992) does not reject: with c from the regression of the column on the others, S
= Σ w (r − p)(z_j − cᵀz) at the fit for β_j = b is compared with its standard error. It may have no end.

**Private predictors.** A private answer may be fitted to private answers of the same block, too. Neither the outcome Y
nor the predictor X is known of anybody. But X has finitely many values x, so the sum of a score over a person's
possible values, each with its indicator, is the score; and the pseudo-values of the joint cells are unbiased for the
indicators. With s_x for 1{X = x}, t_x for Y·1{X = x} and z_x the row of columns if X were x,

    Σ_i w Σ_x z_x (t_x − s_x μ(z_x β)) = 0,      μ the identity (linear) or 1/(1 + e^−η) (logistic),

has the expectation of the usual score for every truth: the noise of the randomizer does not attenuate β, as it would if
reports were taken for answers. All intervals are those of the score test: few people who hold x show too small an
error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tacit.estimates._rows import Compared, Library, as_frame, chance_of, check_level, in_columns, student
from tacit.exact import Floats, Integers
from tacit.mechanism import NotEstimableError
from tacit.prior import Value
from tacit.task import Model

_STEPS, _HALVINGS, _PRECISE = 100, 40, 1e-9
#: Half an interval of log-odds that is wider than this is found by the score test, as far as this many first steps from
#: the estimate.
_WIDE, _FURTHEST = 0.4, 75.0
#: Precision of a fit with the correction, and of a score at the ends that it leads to.
_NEAR, _SAME = 1e-7, 1e-5
#: Where the likelihood is flatter than this, a coefficient is on its way to infinity.
_FLATTEST = 1e12


@dataclass(frozen=True, kw_only=True)
class Coefficient(Compared):
    """One β: by how much the mean, or the logarithm of the odds of `value`, moves with a column."""

    name: str
    value: Value | None
    estimate: float
    standard_error: float
    low: float
    high: float
    p_value: float

    @property
    def odds_ratio(self) -> tuple[float, float, float]:
        """e^β with its interval."""
        return math.exp(self.estimate), math.exp(self.low), math.exp(self.high)


@dataclass(frozen=True, kw_only=True)
class Regression:
    """The fit. `fitted` has the mean, or the probability of each value but the reference, for every report. `corrected`
    says that the estimate has Firth's correction, because without it a coefficient is infinite.
    """

    model: Model
    coefficients: tuple[Coefficient, ...]
    covariance: Floats
    fitted: Floats
    n_reports: int
    n_clusters: int | None
    level: float
    reference: Value | None = None
    corrected: bool = False

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        rows: list[dict[str, Any]] = []
        for each in self.coefficients:
            rows.append(each.to_dict())
            if self.model != "linear":
                rows[-1] |= dict(zip(("odds_ratio", "odds_ratio_low", "odds_ratio_high"), each.odds_ratio, strict=True))
            rows[-1] = {name: None if number in (math.inf, -math.inf) else number for name, number in rows[-1].items()}
        about = {"model": self.model, "n_reports": self.n_reports, "n_clusters": self.n_clusters, "level": self.level}
        return about | {"reference": self.reference, "corrected": self.corrected, "coefficients": rows}

    def to_frame(self, library: Library = "pandas") -> Any:
        """The coefficients as a table, as of `Estimate.to_frame`."""
        return as_frame(self.to_dict()["coefficients"], library)

    def __str__(self) -> str:
        cells: list[tuple[str, ...]] = [("", "estimate", "std. error", "low", "high", "p-value")]
        for each in self.coefficients:
            name = each.name if each.value is None else f"{each.value}: {each.name}"
            numbers = (each.estimate, each.standard_error, each.low, each.high, each.p_value)
            cells.append((name, *(f"{number:.4g}" for number in numbers)))
        return "\n".join([f"{self.model} regression, {self.n_reports:,} reports", *in_columns(cells)])


def regress(
    outcomes: Any,
    design: Any,
    names: Sequence[str],
    *,
    model: Model,
    values: Sequence[Value | None] = (None,),
    reference: Value | None = None,
    weights: Any = None,
    clusters: Any = None,
    level: float = 0.95,
) -> Regression:
    """Fit pseudo-values to public columns.

    Args:
        outcomes: pseudo-values, a column for each of `values`.
        design: the columns z, a row for each report; a constant has to be one of them.
        names: what the columns are called.
        model: linear for one or more means, logistic for one share, multinomial for the shares of all values.
        values: what the outcomes are about.
        reference: the value that a multinomial model compares with; the first if none is named.
        weights: what each report counts for.
        clusters: reports with the same label may depend on each other.
        level: of the intervals.

    >>> import numpy as np
    >>> outcomes = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> fit = regress(outcomes, np.column_stack([np.ones(4), [0, 1, 2, 3]]), ["constant", "slope"], model="linear")
    >>> [abs(round(each.estimate, 6)) for each in fit.coefficients]
    [0.0, 1.0]
    """
    r, z = np.atleast_2d(np.asarray(outcomes, np.float64).T).T, np.asarray(design, np.float64)
    w = np.ones(len(r)) if weights is None else np.asarray(weights, np.float64)
    _check(r, z, w, names, level)
    kept = list(range(len(values)))
    if model == "multinomial":
        reference = values[0] if reference is None else reference
        if reference not in values:
            raise ValueError(f"The reference must be one of the values. Got {reference!r} instead.")
        kept.remove(list(values).index(reference))
    elif model == "logistic" and len(values) != 1:
        raise ValueError("A logistic regression is about one share. Use a multinomial one for several values.")
    r = r[:, kept]
    which = None if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1]
    alike, corrected = _Alike.of(r[:, 0], z, w, which) if model == "logistic" else None, False
    try:
        beta, fitted, bread = _linear(r, z, w) if model == "linear" else _softmax(r, z, w, names)
    except NotEstimableError:
        if alike is None:
            raise
        beta = _corrected(alike, alike.z)[0][:, None]
        fitted, corrected = np.clip(_shares(z @ beta), 1e-12, 1 - 1e-12), True
        bread = np.linalg.pinv(_curvature(fitted, z, w)).astype(np.float64)
    curvature = np.full_like(fitted, np.nan) if model == "linear" else fitted
    covariance, degrees = _covariance(r - fitted, bread, curvature, z, w, which)
    coefficients = coefficients_of(beta, covariance, names, [values[k] for k in kept], level, degrees)
    if alike is not None:
        steps = (_WIDE / np.abs(z).max(axis=0)).tolist()
        coefficients = tuple(
            _judged(each, _score_test(alike, place, len(r), beta[:, 0]), steps[place], level, degrees[place])
            if corrected or (which is None and each.high - each.low > 2 * _WIDE)
            else each
            for place, each in enumerate(coefficients)
        )
    return Regression(
        model=model, coefficients=coefficients, covariance=covariance, fitted=fitted, n_reports=len(r),
        n_clusters=None if which is None else int(which.max()) + 1, level=level, reference=reference,
        corrected=corrected,
    )  # fmt: skip


def _check(r: Floats, z: Floats, w: Floats, names: Sequence[str], level: float) -> None:
    if z.ndim != 2 or z.shape != (len(r), len(names)) or w.shape != (len(r),):
        raise ValueError("A regression needs a row of columns and a weight for each report, a name for each column.")
    if not np.isfinite(r).all() or not np.isfinite(z).all() or not (np.isfinite(w) & (w > 0)).all():
        raise ValueError("A regression needs finite numbers, and positive weights.")
    check_level(level)
    if len(r) <= z.shape[1]:
        raise NotEstimableError(f"{len(r)} reports are too few for {z.shape[1]} coefficients.")
    if np.linalg.matrix_rank(z) < z.shape[1]:
        raise NotEstimableError("Some columns are sums of others, so their coefficients cannot be separated.")


def _linear(r: Floats, z: Floats, w: Floats) -> tuple[Floats, Floats, Floats]:
    """β of shape (columns, outcomes), the fit, and A⁻¹ for all coefficients, those of one outcome together."""
    inverse = np.linalg.inv(z.T @ (w[:, None] * z))
    beta = inverse @ (z.T @ (w[:, None] * r))
    return beta, z @ beta, np.kron(np.eye(r.shape[1]), inverse)


def _softmax(r: Floats, z: Floats, w: Floats, names: Sequence[str]) -> tuple[Floats, Floats, Floats]:
    """The same by Newton's steps on Σ w (Σ_k r_k η_k − ln(1 + Σ e^η)), which is concave for any r."""
    outcomes, columns = r.shape[1], z.shape[1]
    scale = np.maximum(np.abs(z).max(axis=0), 1e-300)
    beta = np.zeros((columns, outcomes))
    total = _likelihood(r, z, w, beta)
    for _ in range(_STEPS):
        p = _shares(z @ beta)
        gradient = (z.T @ (w[:, None] * (r - p))).T.ravel()
        curvature = _curvature(p, z, w)
        sizes = np.sqrt(np.diag(curvature))
        if not (sizes > 0).all() or not np.linalg.cond(curvature / np.outer(sizes, sizes)) < _FLATTEST:
            break
        step = np.linalg.solve(curvature, gradient).reshape(outcomes, columns).T
        for _ in range(_HALVINGS):
            after = _likelihood(r, z, w, beta + step)
            if after >= total - 1e-12 * abs(total):
                break
            step = step / 2
        beta, total = beta + step, after
        if (np.abs(step) * scale[:, None]).max() < _PRECISE:
            p = _shares(z @ beta)
            inverse: Floats = np.linalg.inv(_curvature(p, z, w)).astype(np.float64)
            return beta, p, inverse
    worst = int(np.argmax((np.abs(beta) * scale[:, None]).max(axis=1)))
    raise NotEstimableError(
        f"The coefficient of '{names[worst]}' runs to infinity: among such people the estimated share is zero or "
        "below, or one or above. Put categories together, leave the column out, or use the model 'linear'."
    )


def _shares(eta: Floats) -> Floats:
    """p_k = e^η_k/(1 + Σ e^η)."""
    most = np.maximum(eta.max(axis=1, keepdims=True), 0.0)
    powers = np.exp(eta - most)
    return powers / (np.exp(-most) + powers.sum(axis=1, keepdims=True))


def _likelihood(r: Floats, z: Floats, w: Floats, beta: Floats) -> float:
    eta = z @ beta
    most = np.maximum(eta.max(axis=1), 0.0)
    norm = most + np.log(np.exp(-most) + np.exp(eta - most[:, None]).sum(axis=1))
    return float(w @ ((r * eta).sum(axis=1) - norm))


def _curvature(p: Floats, z: Floats, w: Floats) -> Floats:
    """A: a block zᵀ diag(w p_k (1{k=l} − p_l)) z for each pair of outcomes."""
    outcomes = p.shape[1]
    blocks = [
        [z.T @ ((w * p[:, k] * ((k == other) - p[:, other]))[:, None] * z) for other in range(outcomes)]
        for k in range(outcomes)
    ]
    return np.block(blocks)


def _put_together(w: Floats, *parts: Floats) -> tuple[Floats, Floats, list[Floats]]:
    """Reports that are alike in all parts, once: Σ w, Σ w², and the parts."""
    n = len(w)
    distinct, place = np.unique(np.column_stack([part.reshape(n, -1) for part in parts]), axis=0, return_inverse=True)
    sums, squares = (np.bincount(place.ravel(), each).astype(np.float64) for each in (w, w**2))
    columns = np.cumsum([part.size // n for part in parts])[:-1]
    found = np.split(distinct.astype(np.float64), columns, axis=1)
    return sums, squares, [each.reshape(-1, *part.shape[1:]) for each, part in zip(found, parts, strict=True)]


@dataclass(frozen=True)
class _Alike:
    """Reports with the same columns and outcome, of the same cluster, put together: Σ w and Σ w²."""

    w: Floats
    squares: Floats
    r: Floats
    z: Floats
    which: Integers | None

    @classmethod
    def of(cls, r: Floats, z: Floats, w: Floats, which: Integers | None) -> _Alike:
        labels = np.zeros(len(r)) if which is None else which.astype(np.float64)
        sums, squares, (clusters, outcomes, columns) = _put_together(w, labels, r, z)
        return cls(sums, squares, outcomes, columns, None if which is None else clusters.astype(np.int64))


def _corrected(
    rows: _Alike, z: Floats, fixed: Floats | float = 0.0, start: Floats | None = None
) -> tuple[Floats, Floats]:
    """β of a logistic regression with Firth's correction, finite for every r, and p; `fixed` is added to zβ."""
    scale = np.maximum(np.abs(z).max(axis=0), 1e-300)
    columns, beta = z / scale, np.zeros(z.shape[1]) if start is None else start * scale

    def parts(beta: Floats) -> tuple[Floats, Floats, Floats]:
        p = np.clip(_expit(columns @ beta + fixed), 1e-12, 1 - 1e-12)
        spread, away = rows.w * p * (1 - p), rows.r - p
        inverse = _solved(columns.T @ (spread[:, None] * columns), np.eye(len(beta)))
        leverage = spread * ((columns @ inverse) * columns).sum(axis=1)
        more = float(rows.squares @ away**2 / spread.sum()) * leverage
        # How the correction falls with the share is part of the slope: else steps go twice as far as they should.
        slope = columns.T @ ((spread + more / 2)[:, None] * columns)
        return p, columns.T @ (rows.w * away + more * (0.5 - p)), slope

    now = parts(beta)
    for _ in range(_STEPS):
        step = _solved(now[2], now[1])
        step = step / max(1.0, float(np.abs(columns @ step).max()) / 2)
        for _ in range(_HALVINGS):
            after = parts(beta + step)
            if np.linalg.norm(after[1]) <= np.linalg.norm(now[1]):
                break
            step = step / 2
        beta, now = beta + step, after
        if np.abs(step).max(initial=0.0) < _NEAR:
            break
    return beta / scale, now[0]


def _solved(matrix: Floats, right: Floats) -> Floats:
    """matrix⁻¹ right; by least squares where that does not exist."""
    try:
        return np.asarray(np.linalg.solve(matrix, right), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0], dtype=np.float64)


def _score_test(rows: _Alike, place: int, n_reports: int, beta: Floats) -> Callable[[float], float]:
    """The generalized score test of one coefficient of a logistic regression: S over its standard error."""
    mine, others, start = rows.z[:, place], np.delete(rows.z, place, axis=1), np.delete(beta, place)

    def statistic(value: float) -> float:
        fixed = value * mine
        p = _corrected(rows, others, fixed, start)[1] if others.shape[1] else _expit(fixed)
        spread = rows.w * p * (1 - p)
        alone = mine - others @ _solved(others.T @ (spread[:, None] * others), others.T @ (spread * mine))
        scores = rows.w * (rows.r - p) * alone
        if rows.which is None:
            n, used, squares = n_reports, rows.z.shape[1], float(rows.squares @ ((rows.r - p) * alone) ** 2)
        else:
            # Around their mean: else few clusters never reject.
            parts = np.bincount(rows.which, scores)
            n, used, squares = len(parts), 1, float(((parts - parts.mean()) ** 2).sum())
        return float(scores.sum()) / max(math.sqrt(squares * n / (n - used)), 1e-300)

    return statistic


def _judged(
    found: Coefficient, statistic: Callable[[float], float], step: float, level: float, degrees: float
) -> Coefficient:
    """The coefficient with all values that a score test does not reject, and its p-value.

    `statistic` is that of the hypothesis that the coefficient has a value. The ends are searched in growing steps, as
    far as `_FURTHEST` of the first.
    """
    reach = student(level, degrees)

    def end(step: float) -> float:
        """The last value on one side of the estimate that is not rejected; infinite where none is rejected."""
        inside, below, furthest = found.estimate, -reach, _FURTHEST * abs(step)
        while (above := abs(statistic(inside + step)) - reach) <= 0:
            inside, below, step = inside + step, above, 1.5 * step
            if abs(inside - found.estimate) > furthest:
                return math.copysign(math.inf, step)
        outside, last = inside + step, 0
        for _ in range(_HALVINGS):
            # The secant, with half the value of an end that stays ("Illinois").
            middle = inside + (outside - inside) * below / (below - above)
            value = abs(statistic(middle)) - reach
            if abs(value) < _SAME:
                return middle
            if value <= 0:
                inside, below, above, last = middle, value, above / (1 + (last < 0)), -1
            else:
                outside, above, below, last = middle, value, below / (1 + (last > 0)), 1
        return inside

    # First, since each fit starts where the last one ended.
    chance = chance_of(statistic(0.0), degrees)
    return replace(found, low=end(-step), high=end(step), p_value=chance)


def _covariance(
    residuals: Floats, bread: Floats, fitted: Floats, z: Floats, w: Floats, which: Integers | None
) -> tuple[Floats, Floats]:
    """Var β and the degrees of freedom of each coefficient; `fitted` is NaN for a linear model."""
    n, columns, outcomes = len(z), z.shape[1], residuals.shape[1]
    if which is None:
        scores = (w[:, None, None] * residuals[:, :, None] * z[:, None, :]).reshape(n, -1)
        return n / (n - columns) * bread @ (scores.T @ scores) @ bread, np.full(len(bread), float(n - columns))
    groups = int(which.max()) + 1
    if groups < 2:
        raise ValueError("Clustered errors need at least two clusters.")
    whole, away = np.linalg.pinv(bread), []
    parts: list[tuple[Any, ...]] = []
    inside, between = _variance_parts(residuals, which)
    order = np.argsort(which, kind="stable")
    for rows in np.split(order, np.cumsum(np.bincount(which))[:-1]):
        mine, weighted = z[rows], w[rows, None] * z[rows]
        if np.isnan(fitted).any():
            curvature = np.kron(np.eye(outcomes), mine.T @ weighted)
        else:
            curvature = _curvature(fitted[rows], mine, w[rows])
        rest = whole - curvature
        sizes = np.sqrt(np.abs(np.diag(rest)))
        if not (sizes > 0).all() or not np.linalg.cond(rest / np.outer(sizes, sizes)) < _FLATTEST:
            raise NotEstimableError(
                "Without one of the clusters a coefficient has no estimate, so the clusters do not show its error. Put "
                "categories together, or leave the column out."
            )
        away.append(np.linalg.solve(rest, (weighted.T @ residuals[rows]).T.ravel()))
        total = weighted.sum(axis=0)
        expected = np.kron(np.eye(outcomes), inside * weighted.T @ weighted + between * np.outer(total, total))
        parts.append((np.linalg.inv(rest), curvature @ bread, expected))
    left_out = np.array(away)
    return (groups - 1) / groups * left_out.T @ left_out, _satterthwaite(parts)


def _variance_parts(residuals: Floats, which: Integers) -> tuple[float, float]:
    """The variance of a residual within clusters and of the part that is common to a cluster, from products of pairs.

    The fit takes one degree of freedom from the clusters, which is given back.
    """
    sizes = np.bincount(which)
    sums = np.array([np.bincount(which, each) for each in residuals.T])
    squares = float((residuals**2).sum()) / residuals.shape[1]
    pairs = max(float((sizes**2 - sizes).sum()), 1.0)
    common = (float((sums**2).sum()) / residuals.shape[1] - squares) / pairs * len(sizes) / (len(sizes) - 1)
    between = min(max(common, 0.0), squares / len(which))
    return squares / len(which) - between, between


def _satterthwaite(parts: Sequence[tuple[Any, ...]]) -> Floats:
    """Degrees of freedom of each coefficient (Bell and McCaffrey, 2002; Imbens and Kolesár, 2016).

    With d_g = L_g (S_g − H_g S), S_g the score of a cluster and S = Σ S_g, the estimated variance is Σ d_g²; for normal
    scores of the covariances B_g it is like (ΣP_gg)²/ΣP_gh² times a chi-square over its degrees, P = Cov(d).
    """
    left, hat, expected = (np.array(each, dtype=np.float64) for each in zip(*parts, strict=True))
    whole, degrees = expected.sum(axis=0), []
    for row in range(left.shape[1]):
        first = left[:, row, :]
        seen = np.einsum("gi,gij->gj", first, hat)
        one = np.einsum("gi,gij->gj", first, expected)
        covariance = -one @ seen.T
        covariance = covariance + covariance.T + seen @ whole @ seen.T
        covariance[np.diag_indices(len(first))] += (one * first).sum(axis=1)
        degrees.append(max(1.0, float(np.trace(covariance)) ** 2 / float((covariance**2).sum())))
    return np.array(degrees)


def coefficients_of(
    beta: Floats,
    covariance: Floats,
    names: Sequence[str],
    values: Sequence[Value | None],
    level: float,
    degrees: Floats,
) -> tuple[Coefficient, ...]:
    """Each β with its standard error, interval and p-value, by Student's t with its degrees of freedom."""
    found, about = [], [(value, name) for value in values for name in names]
    for (value, name), b, square, t in zip(about, beta.T.ravel(), np.diag(covariance), degrees, strict=True):
        estimate, error, reach = float(b), math.sqrt(square), student(level, t)
        found.append(
            Coefficient(
                name=name, value=value, estimate=estimate, standard_error=error, low=estimate - reach * error,
                high=estimate + reach * error, p_value=chance_of(estimate / error, t) if error else math.nan,
            )
        )  # fmt: skip
    return tuple(found)


# -- private predictors ------------------------------------------------------------------------------------------------


def regress_on_private(
    outcome: Floats,
    held: Floats,
    design: Floats,
    names: Sequence[str],
    *,
    model: Literal["linear", "logistic"],
    value: Value | None = None,
    weights: Any = None,
    level: float = 0.95,
) -> Regression:
    """Fit a private outcome to columns of which some are private.

    Args:
        outcome: t, pseudo-values of Y·1{X = x}: a row for each report, a column for each x.
        held: s, pseudo-values of 1{X = x}, of the same shape.
        design: the columns z_x, of the shape (reports, values x, columns); a constant has to be one of them.
        names: what the columns are called.
        model: linear for a mean or a share, logistic for a share.
        value: what the outcome is about.
        weights: what each report counts for.
        level: of the intervals.
    """
    check_level(level)
    n, _, k = design.shape
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if n <= k:
        raise NotEstimableError(f"{n} reports are too few for {k} coefficients.")
    rows = _Possible(outcome, held, design, w, w**2)
    sums, squares, (t, s, z) = _put_together(w, outcome, held, design)
    alike = _Possible(t, s, z, sums, squares)
    if model == "linear":
        beta = _separated(rows.slope(held), rows.score(outcome))
        mean, mass = design @ beta, held
    else:
        beta = rows.logistic()
        mean = _expit(design @ beta)
        mass = held * mean * (1 - mean)
    bread = _separated(rows.slope(mass), np.eye(k))
    scores = np.einsum("i,ix,ixk->ik", w, outcome - held * mean, design)
    covariance = bread @ (scores.T @ scores) @ bread.T * n / (n - k)
    coefficients = coefficients_of(beta[:, None], covariance, names, [value], level, np.full(k, float(n - k)))
    coefficients = tuple(
        _judged(each, alike.statistic(place, n, beta, model), each.standard_error, level, float(n - k))
        for place, each in enumerate(coefficients)
    )
    return Regression(
        model=model, coefficients=coefficients, covariance=covariance,
        fitted=np.sum(held * mean, axis=1)[:, None], n_reports=n, n_clusters=None, level=level,
    )  # fmt: skip


@dataclass(frozen=True)
class _Possible:
    """Reports with the columns that their senders may have: t, s, z_x, and Σ w and Σ w² of reports that are alike."""

    t: Floats
    s: Floats
    z: Floats
    w: Floats
    squares: Floats

    def score(self, residuals: Floats) -> Floats:
        return np.asarray(np.einsum("i,ix,ixk->k", self.w, residuals, self.z), dtype=np.float64)

    def slope(self, mass: Floats) -> Floats:
        found = np.einsum("i,ix,ixk,ixl->kl", self.w, mass, self.z, self.z, optimize=True)
        return np.asarray(found, dtype=np.float64)

    def logistic(self, fixed: Floats | float = 0.0, start: Floats | None = None) -> Floats:
        """β of the logistic score, by Newton's steps that are halved until the score becomes smaller; `fixed` is added
        to zβ.
        """
        beta = np.zeros(self.z.shape[2]) if start is None else start
        scale = np.maximum(np.abs(self.z).max(axis=(0, 1)), 1e-300)
        now = self.score(self.t - self.s * _expit(self.z @ beta + fixed))
        for _ in range(_STEPS):
            mean = _expit(self.z @ beta + fixed)
            step = _separated(self.slope(self.s * mean * (1 - mean)), now)
            for _ in range(_HALVINGS):
                after = self.score(self.t - self.s * _expit(self.z @ (beta + step) + fixed))
                if np.abs(after / scale).max() <= np.abs(now / scale).max() or np.abs(step * scale).max() < _PRECISE:
                    break
                step = step / 2
            beta, now = beta + step, after
            if np.abs(step * scale).max() < _PRECISE:
                return beta
        raise NotEstimableError(
            "The coefficients run to infinity: for some values of the predictors the estimated share is zero or below, "
            "or one or above. Put answers together, or use the model 'linear'."
        )

    def statistic(self, place: int, n: int, beta: Floats, model: str) -> Callable[[float], float]:
        """The generalized score test of one coefficient: 0 where the other ones run to infinity, so rejects nothing."""
        mine, others, start = self.z[:, :, place], replace(self, z=np.delete(self.z, place, axis=2)), beta[:0]

        def found(value: float) -> float:
            nonlocal start
            fixed = value * mine
            try:
                if model == "linear":
                    start = _separated(others.slope(self.s), others.score(self.t - self.s * fixed))
                    mean, mass = others.z @ start + fixed, self.s
                else:
                    start = others.logistic(fixed, start if len(start) else np.delete(beta, place))
                    mean = _expit(others.z @ start + fixed)
                    mass = self.s * mean * (1 - mean)
                alone = mine - others.z @ _separated(others.slope(mass), others.score(mass * mine))
            except NotEstimableError:
                return 0.0
            parts = ((self.t - self.s * mean) * alone).sum(axis=1)
            return float(self.w @ parts) / max(math.sqrt(self.squares @ parts**2 * n / (n - len(beta))), 1e-300)

        return found


def _separated(slope: Floats, right: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(slope, right), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise NotEstimableError("Some columns are sums of others, so their coefficients cannot be separated.") from None


def _expit(eta: Floats) -> Floats:
    from scipy.special import expit

    return np.asarray(expit(eta), dtype=np.float64)
