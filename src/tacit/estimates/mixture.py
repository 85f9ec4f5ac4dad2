"""The most likely shares of a mixture whose parts are known, also where something about the shares is fixed.

    maximise  Σ_y n_y ln (θR)_y      over  θ ≥ 0, Σθ = 1, and d·θ = v where that is asked for.

The likelihood is concave. An interior-point method with exact Newton steps finds its maximum to within `GAP` nats: for
a barrier weight μ the log-likelihood is below it by at most μ times the number of shares.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Floats

#: The log-likelihood that is found is below the largest by at most so many nats.
GAP = 1e-6
_FIRST_WEIGHT, _SHRINK, _MOST_STEPS = 0.01, 0.01, 60


def most_likely_mixture(
    rows: Floats, counts: Floats, direction: Floats | None = None, value: float = 0.0
) -> tuple[Floats, float]:
    """θ and its log-likelihood; −∞ where no θ with direction·θ = value explains the counts.

    >>> theta, _ = most_likely_mixture(np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([400.0, 600.0]))
    >>> theta.round(5).tolist()
    [0.3, 0.7]
    """
    kept, fixed = _room(len(rows), direction, value)
    theta, seen = np.zeros(len(rows)), counts > 0
    inside, shares = rows[kept][:, seen], counts[seen] / counts.sum()
    if not (inside.max(axis=0) > 0).all():
        return theta, -math.inf
    matrix = np.ones((1, len(inside))) if fixed is None else np.array([np.ones(len(inside)), fixed[kept]])
    found = _centre(len(inside), None if fixed is None else fixed[kept], value)
    last, weight = GAP / (counts.sum() * len(inside)), _FIRST_WEIGHT
    while len(inside) > len(matrix):
        found = _climb(inside, shares, matrix, found, weight)
        if weight <= last:
            break
        weight = max(weight * _SHRINK, last)
    theta[kept] = found / found.sum()
    return theta, float(counts[seen] @ np.log(theta[kept] @ inside))


def _room(size: int, direction: Floats | None, value: float) -> tuple[NDArray[np.bool_], Floats | None]:
    """Which shares may be positive, and what else is fixed: at an end of what is possible, others are zero."""
    kept = np.ones(size, dtype=np.bool_)
    if direction is None:
        return kept, None
    for end in (direction.min(), direction.max()):
        if value == end:
            return direction == end, None
    if not direction.min() < value < direction.max():
        raise ValueError(
            f"No shares have the value {value:g}: it must lie in {direction.min():g} … {direction.max():g}."
        )
    return kept, direction


def _centre(size: int, direction: Floats | None, value: float) -> Floats:
    """Shares that are all positive and keep what is fixed."""
    centre = np.full(size, 1 / size)
    if direction is None:
        return centre
    here = float(direction @ centre)
    beyond = direction > value if here < value else direction < value
    there = float(direction[beyond].mean())
    step = 0.0 if here == value else (value - here) / (there - here)
    moved: Floats = (1 - step) * centre + step * beyond / beyond.sum()
    return moved


def _climb(rows: Floats, shares: Floats, matrix: Floats, start: Floats, weight: float) -> Floats:
    """The maximum of shares·ln(θR) + weight·Σ ln θ where matrix·θ stays what it is, by Newton steps."""
    theta, size = start, len(start)
    system = np.zeros((size + len(matrix), size + len(matrix)))
    system[:size, size:], system[size:, :size] = matrix.T, matrix
    target = np.zeros(len(system))

    def height(at: Floats) -> float:
        return float(shares @ np.log(at @ rows) + weight * np.log(at).sum())

    for _ in range(_MOST_STEPS):
        scaled = rows / (theta @ rows)
        gradient = scaled @ shares + weight / theta
        # In units of θ the barrier is as steep in all directions.
        curved = (scaled * shares) @ scaled.T * np.outer(theta, theta)
        curved[np.diag_indices(size)] += weight
        system[:size, :size] = curved
        system[size:, :size] = matrix * theta
        system[:size, size:] = system[size:, :size].T
        target[:size] = gradient * theta
        step = np.linalg.solve(system, target)[:size]
        gain = float(step @ target[:size])
        if gain < 1e-7 * weight:
            break
        length = min(1.0, 0.99 / max(1e-300, float(-step.min())))
        before = height(theta)
        while height(theta * (1 + length * step)) < before + 1e-4 * length * gain and length > 1e-12:
            length /= 2
        theta = theta * (1 + length * step)
    return theta
