"""Regression of a private answer on private answers of the same block, beside public columns.

Neither the outcome Y nor the predictor X is known of anybody. But X has finitely many values x, so the sum of a score
over a person's possible values, each with its indicator, is the score; and the pseudo-values of the joint cells are
unbiased for the indicators. With s_x for 1{X = x}, t_x for Y·1{X = x} and z_x the row of columns if X were x,

    Σ_i w Σ_x z_x (t_x − s_x μ(z_x β)) = 0,      μ the identity (linear) or 1/(1 + e^−η) (logistic),

has the expectation of the usual score for every truth: the noise of the randomizer does not attenuate β, as it would if
reports were taken for answers. With u_i a report's part and A the derivative, Var β ≈ A⁻¹ (Σ u uᵀ) A⁻¹ n/(n−k).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from tacit.estimates._rows import check_level
from tacit.estimates.analysis._regression import Regression, coefficients_of
from tacit.exact import Floats
from tacit.mechanism import NotEstimableError
from tacit.prior import Value

_STEPS, _HALVINGS, _PRECISE = 60, 30, 1e-9


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

    Returns:
        The fit, with robust standard errors.
    """
    check_level(level)
    n, _, k = design.shape
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if n <= k:
        raise NotEstimableError(f"{n} reports are too few for {k} coefficients.")
    beta = np.zeros(k)
    if model == "linear":
        slope = _slope(design, w, held)
        beta = _solved(slope, np.einsum("i,ix,ixk->k", w, outcome, design))
    else:
        beta = _newton(outcome, held, design, w)
    mean = design @ beta if model == "linear" else _expit(design @ beta)
    slope = _slope(design, w, held if model == "linear" else held * mean * (1 - mean))
    parts = np.einsum("i,ix,ixk->ik", w, outcome - held * mean, design)
    bread = _solved(slope, np.eye(k))
    covariance = bread @ (parts.T @ parts) @ bread.T * n / (n - k)
    coefficients = coefficients_of(beta[:, None], covariance, names, [value], level, np.full(k, float(n - k)))
    return Regression(
        model=model, coefficients=coefficients, covariance=covariance,
        fitted=np.sum(held * mean, axis=1)[:, None], n_reports=n, n_clusters=None, level=level,
    )  # fmt: skip


def _newton(outcome: Floats, held: Floats, design: Floats, w: Floats) -> Floats:
    """β of the logistic score, by Newton's steps that are halved until the score becomes smaller."""

    def score(beta: Floats) -> Floats:
        found: Floats = np.einsum("i,ix,ixk->k", w, outcome - held * _expit(design @ beta), design)
        return found

    beta = np.zeros(design.shape[2])
    scale = np.maximum(np.abs(design).max(axis=(0, 1)), 1e-300)
    now = score(beta)
    for _ in range(_STEPS):
        mean = _expit(design @ beta)
        step = _solved(_slope(design, w, held * mean * (1 - mean)), now)
        for _ in range(_HALVINGS):
            after = score(beta + step)
            if np.abs(after / scale).max() <= np.abs(now / scale).max() or np.abs(step * scale).max() < _PRECISE:
                break
            step = step / 2
        beta, now = beta + step, after
        if np.abs(step * scale).max() < _PRECISE:
            return beta
    raise NotEstimableError(
        "The coefficients run to infinity: for some values of the predictors the estimated share is zero or below, or "
        "one or above. Put answers together, or use the model 'linear'."
    )


def _slope(design: Floats, w: Floats, mass: Floats) -> Floats:
    return np.asarray(np.einsum("i,ix,ixk,ixl->kl", w, mass, design, design, optimize=True), dtype=np.float64)


def _solved(slope: Floats, right: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(slope, right), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise NotEstimableError("Some columns are sums of others, so their coefficients cannot be separated.") from None


def _expit(eta: Floats) -> Floats:
    from scipy.special import expit

    return np.asarray(expit(eta), dtype=np.float64)
