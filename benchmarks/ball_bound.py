"""What an unbiased histogram of many values varies at least, where the promise holds for a ball of priors.

    python benchmarks/ball_bound.py [VALUES ...]

For Zipf's law it prints, relative to the best LDP channel, what is proved here, the relaxed program that the proof
starts from, and the design that the package makes.

The bound.  A report of lifts v tells a value x from the rest as far as s_x = E(v_x − 1)² goes: its estimate varies by
at least (1 − P_x)²/s_x (`unbiased_variance_bound`). For any weights w ≥ 0 and prices μ, as E v = 1,

    Σ w_x s_x ≤ B = max over allowed v of Σ_x φ_x(v_x),   φ_x(v) = w_x(v−1)² − μ_x(v−1),

hence Σ (1−P_x)²/s_x ≥ (Σ (1−P_x)√w_x)²/B, by Cauchy–Schwarz. The convex sum is largest at a vertex of the allowed v.
These have two or three levels a ≤ b ≤ c on nested sets S ⊂ T (`robust_lifts`), which follow from the masses s = P(S)
and t = P(T) alone: with l and u the least and the largest mass under the ball, α = 1 − E l(s) − u(s) and β = E l(t) +
u(t) − 1,

    a = Q/Z,  b = (Q + (E−1)α)/Z,  c = (Q + (E−1)(α+β))/Z,   Q = α u(t) + β u(s),  Z = Q + (E−1)(αt + βs).

Given the levels, who is in S and T matters by two masses only, so with any two prices θ per mass

    Σ φ_x(v_x) ≤ Σ_x max(φ_x(a), φ_x(b) − θ₁P_x, φ_x(c) − θ₂P_x) + θ₁(t − s) + θ₂s.

On a cell of masses in which l and u are linear, all is a polynomial in s and t after multiplication by Z³: it is at
most B if its Bernstein coefficients are. Cells are halved until that holds. For s ≥ τ and t ≤ 1 − τ the outer levels a
and c do not change, and b can be split into them: two levels are no worse there. Values are put into groups, in which w
and μ are linear in P_x; what is largest over levels is convex in P_x then, and lies under the chord between the ends.
All is computed in floats.

The weights and prices come from the same program with levels on a grid, to which those that violate it most are added.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import pairwise
from math import comb
from typing import Any

import numpy as np
import scipy.sparse as sparse
from scipy.optimize import linprog

#: Values are grouped by probability, these many heaviest alone, then this many groups for each factor e of their rank.
_ALONE, _GROUPS = 8, 8
#: The program is solved this often, with levels added in between that exceed it by this much.
_ROUNDS, _EXCEEDS = 5, 1.003
#: Cells are halved until they prove the bound to this share, or are too many.
_SHARE, _MOST_CELLS = 0.01, 60_000


@dataclass(frozen=True)
class Ball:
    """Groups of values under a prior, in the order of their probabilities, and a ball of priors around it.

    where: `e` = E, `off` = τ < 0.4; a group has `count` values of probabilities from `low` to `high`, `mass` together.
    """

    e: float
    off: float
    count: Any
    mass: Any
    low: Any
    high: Any

    @classmethod
    def around(cls, p: Any, epsilon: float, off: float) -> Ball:
        """The ball of radius `off` around probabilities."""
        p = -np.sort(-np.asarray(p, dtype=float))
        size, alone = len(p), min(_ALONE, len(p))
        many = np.geomspace(alone, size, 2 + int(_GROUPS * np.log(size / alone))).astype(int)
        ends = np.unique(np.concatenate([np.arange(alone + 1), many]))
        mass = np.diff(np.concatenate([[0.0], np.cumsum(p)])[ends])
        return cls(float(np.exp(epsilon)), off, np.diff(ends).astype(float), mass, p[ends[1:] - 1], p[ends[:-1]])

    @property
    def even(self) -> float:
        """m*, the mass at which both sides of the promise bind for two levels."""
        return (1 + (self.e - 1) * self.off) / (self.e + 1)

    def three(self, s: Any, t: Any) -> tuple[Any, Any]:
        """Z·(a, b, c) and Z of three levels, bilinear in s and t where l and u are linear."""
        e, off = self.e, self.off
        most, all_ = s + off, np.minimum(t + off, 1)
        alpha, beta = 1 - e * np.maximum(s - off, 0) - most, e * (t - off) + all_ - 1
        q = alpha * all_ + beta * most
        return np.stack([q, q + (e - 1) * alpha, q + (e - 1) * (alpha + beta)]), q + (e - 1) * (alpha * t + beta * s)

    def two(self, m: Any) -> tuple[Any, Any]:
        """The same of two levels, linear in their mass m; the middle one is the lower."""
        e, off = self.e, self.off
        z = (e - 1) * m + np.maximum(1 - e * np.maximum(m - off, 0), np.minimum(m + off, 1))
        low = z - (e - 1) * m
        return np.stack([low, low, z + (e - 1) * (1 - m)]), z


@dataclass(frozen=True)
class Weights:
    """w and μ at both ends of every group, between which they are linear in P, with how many values each end stands
    for; Σ (1−P)√w, from below; and the value of the program that they come from.
    """

    ends: list[tuple[Any, Any, Any, Any]]
    root: float
    variance: float

    @classmethod
    def between(cls, ball: Ball, w: Any, mu: Any, variance: float) -> Weights:
        """From w and μ at the mean of every group."""
        wide, mean, ends = ball.high > ball.low, ball.mass / ball.count, []
        part = np.where(wide, (ball.high - mean) / np.where(wide, ball.high - ball.low, 1), 1.0)
        for p, count in ((ball.low, ball.count * part), (ball.high, ball.count * (1 - part))):
            at = np.log(p[::-1]), np.log(mean[::-1])
            ends.append((p, count, np.interp(*at, w[::-1])[::-1], np.interp(*at, mu[::-1])[::-1]))
        return cls(ends, float(sum((count * (1 - p)) @ np.sqrt(w) for p, count, w, _ in ends)), variance)

    @property
    def goal(self) -> float:
        """The B with which they would prove the value of the program."""
        return self.root**2 / self.variance


def variance_bound(p: Any, epsilon: float, off: float) -> tuple[float, float]:
    """The unbiased variance per respondent, summed over values of probabilities `p`, that no channel goes below that is
    ε-LIP for every prior within `off` of p; and the value of the program without the proof, which is no bound.

    >>> p = np.full(400, 1 / 400)
    >>> proved, relaxed = variance_bound(p, 1, 0.1)
    >>> 0.98 < proved / relaxed <= 1
    True
    """
    ball = Ball.around(p, epsilon, off)
    if not 0 < off < 0.4 or ball.even + off >= 1:
        raise ValueError(f"The radius must be between 0 and 0.4, and the budget not tiny. Got {off} and {epsilon}.")
    even, grid = ball.even, np.linspace(0.02, 0.97, 9)
    pairs = [(s, t) for s in off * np.geomspace(0.004, 1, 9) for t in even + (1 - even) * grid]
    masses = np.array([*pairs, *((m, np.nan) for m in [*np.geomspace(1e-4, even, 30), *(even + (1 - even) * grid)])])
    fine = np.linspace(0.001, 0.999, 19)
    tried = [(s, t) for s in off * np.geomspace(0.001, 1, 40) for t in even + (1 - even) * fine]
    candidates = np.array(
        [*tried, *((m, np.nan) for m in [*np.geomspace(1e-5, even, 200), *(even + (1 - even) * fine)])]
    )
    before = np.inf
    for _ in range(_ROUNDS):
        found = _program(ball, masses)
        values = _values(ball, found, candidates)[1]
        worst = np.argsort(-values)[:60]
        worst = worst[values[worst] > _EXCEEDS * found.goal]
        if not len(worst) or found.variance > before * (1 - 1e-3):
            break
        masses, before = np.concatenate([masses, candidates[worst]]), found.variance
    return found.root**2 / _largest(ball, found, max(found.goal, float(values.max()))), found.variance


def _levels(ball: Ball, masses: Any) -> Any:
    """Levels for rows (s, t), or (m, nan) for two of them."""
    s, t = masses.T
    pairs = np.isnan(t)
    above, z = ball.three(s, np.where(pairs, 0.5, t))
    of_two, z_of_two = ball.two(s)
    return np.where(pairs, of_two / z_of_two, above / z).T


def _shared(masses: Any) -> Any:
    """The mass of the middle and of the upper level."""
    s, t = masses.T
    return np.stack([np.where(np.isnan(t), 0.0, t - s), s], axis=1)


def _program(ball: Ball, masses: Any) -> Weights:
    """The least Σ (1−P)²/s over mixtures of the levels on a grid of masses, groups being divisible: a linear program
    with tangents of 1/s; its prices are those of E v = 1.
    """
    levels, shared, groups, cells = _levels(ball, masses), _shared(masses), len(ball.count), len(masses)
    parts = np.arange(cells * groups * 3).reshape(cells, groups, 3)
    mixed = parts.size + np.arange(cells)
    seen = parts.size + cells + np.arange(groups)
    cost, size = seen + groups, parts.size + cells + 2 * groups
    each, group = np.arange(cells), np.arange(groups)
    rows: list[Any] = []
    columns: list[Any] = []
    numbers: list[Any] = []

    def add(row: Any, column: Any, number: Any) -> None:
        for kept, one in zip((rows, columns, numbers), np.broadcast_arrays(row, column, number), strict=True):
            kept.append(one.ravel())

    add((each[:, None] * groups + group)[:, :, None], parts, 1.0)
    add(each[:, None] * groups + group, mixed[:, None], -1.0)
    at = cells * groups
    for level in (1, 2):
        add((at + each)[:, None], parts[:, :, level], ball.mass)
        add(at + each, mixed, -shared[:, level - 1])
        at += cells
    means = at + group
    add(means[None, :, None], parts, levels[:, None, :])
    add((at + groups + group)[None, :, None], parts, (levels[:, None, :] - 1) ** 2)
    add(at + groups + group, seen, -1.0)
    equal = np.zeros(at + 2 * groups)
    equal[means] = 1.0
    matrix = sparse.csr_matrix(
        (np.concatenate(numbers), (np.concatenate(rows), np.concatenate(columns))), (len(equal), size)
    )
    lost = (ball.count - ball.mass) ** 2 / ball.count
    scale = 4 * ball.e / (ball.e - 1) ** 2 * lost.sum()
    points = np.geomspace((ball.e - 1) ** 2 / (200 * ball.e), 1.1 * ball.e, 160)
    which, point = np.repeat(group, len(points)), np.tile(points, groups)
    tangents = np.arange(len(which))
    below = sparse.csr_matrix(
        (
            np.concatenate([-lost[which] / scale / point**2, -np.ones(len(which))]),
            (np.tile(tangents, 2), np.concatenate([seen[which], cost[which]])),
        ),
        (len(which), size),
    )
    aim = np.zeros(size)
    aim[cost] = 1.0
    made: Any = linprog(  # type: ignore[call-overload]
        aim, A_ub=below, b_ub=-2 * lost[which] / scale / point, A_eq=matrix, b_eq=equal, method="highs-ipm"
    )
    if made.x is None:
        raise ArithmeticError(f"HiGHS found no optimum: {made.message}")
    w = lost / scale / made.x[seen] ** 2 / ball.count
    return Weights.between(ball, w, -made.eqlin.marginals[means] / ball.count, float(made.fun) * scale)


def _values(ball: Ball, found: Weights, masses: Any, theta: Any = None) -> tuple[Any, Any]:
    """Prices θ that are nearly best for levels of these masses, and the bound of Σ φ with them: bisection of one price
    after the other, since the bound is convex.
    """
    levels, shared = _levels(ball, masses), _shared(masses)
    two = np.isnan(masses[:, 1])
    off, worth = levels[:, None] - 1, []
    for _, _, w, mu in found.ends:
        worth.append(w[:, None] * off**2 - mu[:, None] * off)
        worth[-1][two, :, 1] = -np.inf

    def priced(prices: Any) -> tuple[Any, Any]:
        value, left = (prices * shared).sum(axis=1), shared.copy()
        for (p, count, _, _), own in zip(found.ends, worth, strict=True):
            each = own - np.concatenate([np.zeros((len(prices), 1)), prices], axis=1)[:, None] * p[None, :, None]
            taken = each.argmax(axis=2)
            value += each.max(axis=2) @ count
            left -= np.stack([(taken == level) @ (count * p) for level in (1, 2)], axis=1)
        return value, left

    first = theta is None
    prices = np.zeros((len(masses), 2)) if first else theta.copy()
    reach = 4 * np.abs(np.nan_to_num(worth[0], neginf=0.0)).max(axis=(1, 2)) / ball.low.min()
    width = np.stack([reach, reach], axis=1) if first else np.abs(prices) * 0.3 + 1e-9
    for sweep in range(4 if first else 2):
        for q in (1, 0):
            low, high = prices[:, q] - width[:, q], prices[:, q] + width[:, q]
            for _ in range(44 if first and not sweep else 16):
                prices[:, q] = (low + high) / 2
                more = priced(prices)[1][:, q] < 0
                low, high = np.where(more, prices[:, q], low), np.where(more, high, prices[:, q])
        width = np.abs(prices) * 0.5 ** (sweep + 1) + 1e-12
    prices[two, 0] = 0.0
    return prices, priced(prices)[0]


def _largest(ball: Ball, found: Weights, goal: float) -> float:
    """A proved B, at most `_SHARE` above the goal if cells are halved often enough."""
    even, off = ball.even, ball.off
    s = np.unique([0.0, *(off * np.geomspace(0.003, 1, 9)), even])
    t = np.unique([even, 1 - off, *(even + (1 - even) * np.linspace(0, 1, 8))])
    three = [(a, b, c, d) for a, b in pairwise(s) for c, d in pairwise(t)
             if a < off or d > 1 - off]  # fmt: skip
    m = np.unique([0.0, off, even, 1 - off, 1.0, *np.geomspace(1e-5, even, 80), *np.linspace(even, 1, 40)])
    two = [(a, b, np.nan, np.nan) for a, b in pairwise(m)]
    cells, proved, prices = np.array([*three, *two]), 0.0, None
    while len(cells):
        middle = np.stack([cells[:, :2].mean(axis=1), cells[:, 2:].mean(axis=1)], axis=1)
        prices = _values(ball, found, middle, prices)[0]
        bounds = _bernstein(ball, found, cells, prices)
        left = bounds > goal * (1 + _SHARE)
        proved = max(proved, float(bounds[~left].max(initial=0.0)))
        if 2 * left.sum() > _MOST_CELLS or (cells[left, 1] - cells[left, 0]).min(initial=1) < 1e-9:
            return max(proved, float(bounds.max()))
        cells, prices = cells[left], prices[left]
        wide = np.nan_to_num((cells[:, 3] - cells[:, 2]) / cells[:, 3])
        across = (cells[:, 1] - cells[:, 0]) / (cells[:, 1] + 0.02 * off) < wide
        lower, upper, rows = cells.copy(), cells.copy(), np.arange(len(cells))
        first = np.where(across, 2, 0)
        half = (cells[rows, first] + cells[rows, first + 1]) / 2
        lower[rows, first + 1], upper[rows, first] = half, half
        cells, prices = np.concatenate([lower, upper]), np.concatenate([prices, prices])
    return proved


def _bernstein(ball: Ball, found: Weights, cells: Any, prices: Any) -> Any:
    """The bound of Σ φ over every cell (s, s', t, t'), or (m, m', nan, nan) for two levels."""
    bounds, two = np.empty(len(cells)), np.isnan(cells[:, 2])
    for mine in (two, ~two):
        if mine.any():
            some, of_two = cells[mine], bool(np.isnan(cells[mine][0, 2]))
            corners = np.array([[some[:, i], some[:, 2 + j]] for i in (0, 1) for j in (0, 1)])
            s, t = (corners[:, k].T.reshape(-1, 2, 2) for k in (0, 1))
            above, z = ball.two(s) if of_two else ball.three(s, t)
            shared = np.stack([np.zeros_like(s) if of_two else t - s, s])
            bounds[mine] = _on_cells(found, above, z, shared, prices[mine])
    return bounds


def _on_cells(found: Weights, above: Any, z: Any, shared: Any, prices: Any) -> Any:
    """The largest ratio of Bernstein coefficients of Z³Σφ and of Z³, from values at the corners of cells."""
    one = np.ones(z.shape[1:])
    square = _times(z, z)
    cube = _times(square, one)
    total = _times((shared * prices.T[:, :, None, None]).sum(axis=0), square)
    squares = [_times(_times(each - z, each - z), one) for each in above]
    lines = [_times(_times(each - z, z), one) for each in above]
    for p, count, w, mu in found.ends:
        best: Any = -np.inf
        for level in range(3):
            each = w[:, None, None] * squares[level][:, None] - mu[:, None, None] * lines[level][:, None]
            if level:
                each = each - (prices[:, None, level - 1] * p)[:, :, None, None] * cube[:, None]
            best = np.maximum(best, each)
        total = total + np.einsum("g,ngij->nij", count, best)
    return (total / cube).max(axis=(1, 2))


def _times(f: Any, g: Any) -> Any:
    """The Bernstein coefficients of a product, in two variables."""
    (p, q), (r, s) = (tuple(n - 1 for n in each.shape[-2:]) for each in (f, g))
    product = np.zeros((*np.broadcast_shapes(f.shape[:-2], g.shape[:-2]), p + r + 1, q + s + 1))
    for i, j in np.ndindex(p + 1, q + 1):
        for k, m in np.ndindex(r + 1, s + 1):
            share = comb(p, i) * comb(r, k) / comb(p + r, i + k) * comb(q, j) * comb(s, m) / comb(q + s, j + m)
            product[..., i + k, j + m] += share * f[..., i, j] * g[..., k, m]
    return product


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("values", nargs="*", type=int, default=[22_000], metavar="VALUES", help="default: 22000")
    parser.add_argument("--epsilon", nargs="*", type=float, default=[1, 2, 3, 4, 5])
    parser.add_argument("--radius", nargs="*", type=float, default=[0.01, 0.05, 0.1])
    options = parser.parse_args()
    from many_values import best_ldp, prior_of

    from tacit import Histogram, design
    from tacit.designs import Promise
    from tacit.prior import Ball as Priors

    print("values radius  ε  proved program design, over LDP")
    for size in options.values:
        prior = prior_of("Zipf 1", size)
        for radius in options.radius:
            for epsilon in options.epsilon:
                ldp = best_ldp(size, epsilon, prior.probabilities)
                proved, relaxed = variance_bound(prior.probabilities, epsilon, radius)
                promise = Promise(str(epsilon), prior_set=Priors(prior, str(radius)))
                own = design(prior, Histogram(), promise).certificate.unbiased_variance
                print(
                    f"{size:6,} {radius:6} {epsilon:2g}  {proved / ldp:.3f}  {relaxed / ldp:.3f}   {own / ldp:.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
