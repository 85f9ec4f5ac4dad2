"""Regression of a randomized answer on public columns, by its pseudo-values r, with errors that assume no model.

    linear                       Σ w z (r − zβ) = 0
    logistic and multinomial     Σ w z (r_k − p_k) = 0,    p = softmax(zβ), the last of the values being β = 0

Both are linear in r, so that r may stand for the answer: E[r | answer] is the answer's indicator or number. With
A = the derivative and u = w z (r − p) the part of one report, Var β ≈ A⁻¹ (Σ u uᵀ) A⁻¹ (Huber, White; times n/(n−k)),
or with u summed up over clusters (times G/(G−1)·(n−1)/(n−k), as Stata and statsmodels do).

A fit changes beliefs. A plan promises LIP for the belief that its prior states; an attacker who knows a person's age
and region has another belief before the report comes, so another level holds (`covariate_levels`). It is at most the
channel's LDP level; between the least and the greatest belief of a fit, it is the level for the worst prior of that
box. Both are decided on the plan's integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tacit.estimates._rows import Library, as_frame, check_level, in_columns, student
from tacit.exact import Floats, Integers
from tacit.mechanism import NotEstimableError
from tacit.plan import Group, Plan
from tacit.prior import Box, Value
from tacit.task import Model

_STEPS, _HALVINGS, _PRECISE = 100, 40, 1e-9
#: Where the likelihood is flatter than this, a coefficient is on its way to infinity.
_FLATTEST = 1e12
#: Fitted beliefs are rounded outwards to a multiple of 1 over this.
_GRAIN = 10**6


@dataclass(frozen=True, kw_only=True)
class Coefficient:
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

    @property
    def told(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, kw_only=True)
class Regression:
    """The fit. `fitted` has the mean, or the probability of each value but the reference, for every report."""

    model: Model
    coefficients: tuple[Coefficient, ...]
    covariance: Floats
    fitted: Floats
    n_reports: int
    n_clusters: int | None
    level: float
    reference: Value | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        rows: list[dict[str, Any]] = []
        for each in self.coefficients:
            rows.append(asdict(each) | {"told": each.told})
            if self.model != "linear":
                rows[-1] |= dict(zip(("odds_ratio", "odds_ratio_low", "odds_ratio_high"), each.odds_ratio, strict=True))
        about = {"model": self.model, "n_reports": self.n_reports, "n_clusters": self.n_clusters, "level": self.level}
        return about | {"reference": self.reference, "coefficients": rows}

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

    Returns:
        The fit, with robust standard errors.

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
    beta, fitted, bread = _linear(r, z, w) if model == "linear" else _softmax(r, z, w, names)
    scores = (w[:, None, None] * (r - fitted)[:, :, None] * z[:, None, :]).reshape(len(r), -1)
    meat, factor, degrees = _meat(scores, z.shape[1], clusters)
    covariance = factor * bread @ meat @ bread
    n_clusters = None if clusters is None else int(degrees + 1)
    coefficients = coefficients_of(beta, covariance, names, [values[k] for k in kept], level, degrees)
    return Regression(
        model=model, coefficients=coefficients, covariance=covariance, fitted=fitted, n_reports=len(r),
        n_clusters=n_clusters, level=level, reference=reference,
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
        raise NotEstimableError("Some columns are sums of others, so their coefficients cannot be told apart.")


def _linear(r: Floats, z: Floats, w: Floats) -> tuple[Floats, Floats, Floats]:
    """β of shape (columns, outcomes), the fit, and A⁻¹ for all coefficients, those of one outcome together."""
    inverse = np.linalg.inv(z.T @ (w[:, None] * z))
    beta = inverse @ (z.T @ (w[:, None] * r))
    return beta, z @ beta, np.kron(np.eye(r.shape[1]), inverse)


def _softmax(r: Floats, z: Floats, w: Floats, names: Sequence[str]) -> tuple[Floats, Floats, Floats]:
    """The same by Newton's steps on Σ w (Σ_k r_k η_k − ln(1 + Σ e^η)), which is concave whatever r is."""
    outcomes, columns = r.shape[1], z.shape[1]
    scale = np.maximum(np.abs(z).max(axis=0), 1e-300)
    beta = np.zeros((columns, outcomes))
    total = _likelihood(r, z, w, beta)
    for _ in range(_STEPS):
        p = _shares(z @ beta)
        gradient = (z.T @ (w[:, None] * (r - p))).T.ravel()
        curvature = _curvature(p, z, w)
        sizes = np.sqrt(np.diag(curvature))
        if not np.linalg.cond(curvature / np.outer(sizes, sizes)) < _FLATTEST:
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
    shares: Floats = powers / (np.exp(-most) + powers.sum(axis=1, keepdims=True))
    return shares


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


def _meat(scores: Floats, columns: int, clusters: Any) -> tuple[Floats, float, float]:
    """Σ u uᵀ, the factor for few reports, and the degrees of freedom."""
    n = len(scores)
    if clusters is None:
        return scores.T @ scores, n / (n - columns), float(n - columns)
    labels, which = np.unique(np.asarray(clusters), return_inverse=True)
    if len(labels) < 2:
        raise ValueError("Clustered errors need at least two clusters.")
    summed = np.zeros((len(labels), scores.shape[1]))
    np.add.at(summed, which, scores)
    groups = len(labels)
    return summed.T @ summed, groups / (groups - 1) * (n - 1) / (n - columns), float(groups - 1)


def coefficients_of(
    beta: Floats,
    covariance: Floats,
    names: Sequence[str],
    values: Sequence[Value | None],
    level: float,
    degrees: float,
) -> tuple[Coefficient, ...]:
    """Each β with its standard error, interval and p-value, by Student's t with these degrees of freedom."""
    from scipy.special import stdtr

    errors, reach, found = np.sqrt(np.diag(covariance)), student(level, degrees), []
    for k, value in enumerate(values):
        for j, name in enumerate(names):
            estimate, error = float(beta[j, k]), float(errors[k * len(names) + j])
            ends = {"low": estimate - reach * error, "high": estimate + reach * error}
            chance = 2 * float(stdtr(degrees, -abs(estimate) / error)) if error else math.nan
            found.append(
                Coefficient(name=name, value=value, estimate=estimate, standard_error=error, p_value=chance, **ends)
            )
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class CovariateLevels:
    """LIP levels of one group: `prior` under its own prior (None where it has none), `covariates` under every belief
    between the least and the greatest that the public columns imply (None where the fit says too little of it),
    `any_belief` under any at all, which is the LDP level.
    """

    group: str | None
    prior: float | None
    covariates: float | None
    any_belief: float


def covariate_levels(plan: Plan, fit: Regression, places: Integers) -> list[CovariateLevels]:
    """The levels for each group that sent reports; `places` says which group each report of the fit is of.

    Args:
        plan: the plan.
        fit: the regression.
        places: the group of each report, as a position.

    Returns:
        For each group the LIP level under its prior, under the beliefs that the covariates imply, and under any belief.
    """
    shares = _distributions(plan, fit)
    found = []
    for place, group in enumerate(plan.groups):
        mine = np.flatnonzero(places == place)
        if not len(mine):
            continue
        implied = None if shares is None else _implied_level(group, shares[mine])
        found.append(
            CovariateLevels(
                group=group.name,
                prior=None if group.without_prior else group.levels["lip"],
                covariates=implied,
                any_belief=group.levels["ldp"],
            )
        )
    return found


def _distributions(plan: Plan, fit: Regression) -> Floats | None:
    """The fitted probability of each value of the domain; None where the model does not say."""
    if fit.model == "multinomial" and plan.task.per_value and fit.fitted.shape[1] == len(plan.values) - 1:
        assert fit.reference is not None
        return np.insert(fit.fitted, plan.values.index(fit.reference), 1 - fit.fitted.sum(axis=1), axis=1)
    if fit.model == "logistic" and plan.task.wanted and len(plan.values) == 2:
        wanted = plan.values.index(plan.task.wanted[0])
        shares = np.empty((len(fit.fitted), 2))
        shares[:, wanted], shares[:, 1 - wanted] = fit.fitted[:, 0], 1 - fit.fitted[:, 0]
        return shares
    return None


def _implied_level(group: Group, shares: Floats) -> float | None:
    """The level for the worst belief between the fitted ones; the prior is let into the box, which needs it."""
    if not all(group.prior.weights):
        return None
    own = [Fraction(weight, group.prior.total) for weight in group.prior.weights]
    least, most = (getattr(shares, end)(axis=0).tolist() for end in ("min", "max"))
    down = [Fraction(max(0, math.floor(share * _GRAIN)), _GRAIN) for share in least]
    up = [Fraction(min(_GRAIN, math.ceil(share * _GRAIN)), _GRAIN) for share in most]
    low, high = (list(map(end, own, ends)) for end, ends in ((min, down), (max, up)))
    return max(side.epsilon for side in group.mechanism.set_levels(Box(group.prior, low, high)))
