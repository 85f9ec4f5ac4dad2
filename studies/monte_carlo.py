"""Figure 8: sums of yes/no answers of 5, 500 and 50,000 people with priors of their own, simulated.

Priors are uniform on [0, 1], rounded to the middle of one of 500 cells, so people of one cell are simulated together by
two binomial draws. Each budget and mechanism reads the same simulated answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from studies.baselines import binary_mse, opt_ldp_binary_mse, published_binary_mse
from studies.central import Mechanism, People, best_vertices, gather, lower_bound, two_pools
from studies.figure import (
    BEST_LDP,
    BOUND,
    CENTRAL,
    EPSILON,
    FREE,
    HALF,
    NO_DATA,
    OPTIMAL,
    ROOT,
    Figure,
    Options,
    Point,
    Version,
    curve,
    k_ary_level,
    published_level,
    reached,
)
from studies.simulate import binary_errors, cell_moments, grouped_squares, seeded, simulated_point
from tacit.exact import Floats

CELLS = 500
#: Up to this many people the trusted server's best mechanism is found exactly.
EXACT = 6
BUDGETS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)
CENTRAL_BOUND = "CIP, certified bound"


@dataclass(frozen=True)
class Pair:
    """A yes/no channel for each group: Pr(yes | 0), Pr(yes | 1), and the level that the worst-off person gets."""

    yes_if_no: Floats
    yes_if_yes: Floats
    level: float


def optimal_pair(p: Floats, epsilon: float) -> Pair:
    """The optimal ε-LIP channel of each group: beliefs l and u after no and yes, reported so that they average to p."""
    rise = np.minimum(p * math.expm1(epsilon), -(1 - p) * math.expm1(-epsilon))
    fall = np.minimum(-p * math.expm1(-epsilon), (1 - p) * math.expm1(epsilon))
    yes = fall / (rise + fall)
    after = p + rise
    level = max(np.log(after / p).max(), -np.log((p - fall) / p).min())
    other = max(np.log((1 - p + fall) / (1 - p)).max(), -np.log((1 - after) / (1 - p)).min())
    return Pair(yes * (1 - after) / (1 - p), yes * after / p, float(max(level, other)))


def published_pair(p: Floats, epsilon: float) -> Pair:
    """Theorem 2: the truth with probability 1 − 1/E, else a draw from the prior."""
    lie = math.exp(-epsilon)
    level = max(published_level(p, epsilon), published_level(1 - p, epsilon))
    return Pair(p * lie, 1 - (1 - p) * lie, level)


def response_pair(p: Floats, epsilon: float) -> Pair:
    """Randomized response, the best ε-LDP channel for two values under any prior."""
    truth = 1 / (1 + math.exp(-epsilon))
    return Pair(np.full(len(p), 1 - truth), np.full(len(p), truth), k_ary_level(np.concatenate([p, 1 - p]), epsilon))


def draw_people(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Priors of n people, grouped: the priors that occur and how many people have each."""
    cells, heads = np.unique(rng.integers(0, CELLS, n), return_counts=True)
    return (cells + 0.5) / CELLS, heads.astype(np.float64)


def figure_8(options: Options) -> Figure:
    """LIP, LDP and a trusted server for people with different priors."""
    sizes = (5, 100) if options.small else (5, 500, 50_000)
    budgets = (0.25, 1.0, 3.0) if options.small else BUDGETS
    points: list[Point] = []
    notes = [
        f"Priors are drawn uniformly from [0, 1] and rounded to the middle of one of {CELLS} cells.",
        "Lines are analytic, marks are simulated. A trusted server that sees only the sum: the best mechanism for N = "
        "5; for more, a valid one that pools the lowest and the highest sums, with a certified bound on the best.",
    ]
    panels = []
    for n in sizes:
        part = _Part(n, options)
        panels.append(part.panel)
        points += part.points(budgets)
        notes.append(part.note())
    figure = Figure(
        "8", "Figure 8: yes/no answers of people with priors of their own", EPSILON, ROOT, tuple(points), "",
        tuple(panels), notes=tuple(notes),
    )  # fmt: skip
    return Figure(**{**figure.__dict__, "remark": _remark(figure, sizes, options.runs)})


class _Part:
    """One panel: n people, their simulated answers, and every mechanism on them."""

    def __init__(self, n: int, options: Options) -> None:
        self.n, self.options = n, options
        self.panel = f"N = {n:,}"
        self.p, self.heads = draw_people(n, seeded(options, 8, n))
        self.people: People = gather(self.p, self.heads)
        rng = seeded(options, 80, n)
        self.ones = rng.binomial(self.heads.astype(np.int64), self.p, size=(options.runs, len(self.p)))
        self.sums = self.ones.sum(axis=1).astype(np.float64)

    def points(self, budgets: Sequence[float]) -> list[Point]:
        half = [epsilon / 2 for epsilon in budgets]
        return [
            *self._local("published", budgets, budgets, "published"),
            *self._local("published at ε/2", budgets, half, "published"),
            *self._local("Opt-LDP with MMSE", budgets, budgets, "published"),
            *self._local(OPTIMAL, budgets, budgets, "corrected"),
            *self._local(HALF, budgets, half, "corrected"),
            *self._local(BEST_LDP, budgets, budgets, "corrected"),
            *self._fixed(budgets),
            *self._central(budgets, "published"),
            *self._central(budgets, "corrected"),
        ]

    def note(self) -> str:
        return f"{self.panel}: priors from {self.p.min():.3f} to {self.p.max():.3f}, {len(self.p)} different ones."

    def _local(self, name: str, xs: Sequence[float], promised: Sequence[float], version: Version) -> list[Point]:
        pair_of = published_pair if name.startswith("published") else response_pair if "LDP" in name else optimal_pair
        mse_of = {published_pair: published_binary_mse, response_pair: opt_ldp_binary_mse, optimal_pair: binary_mse}
        pairs = [pair_of(self.p, epsilon) for epsilon in promised]
        if pair_of is published_pair:
            name = reached(name, promised, [pair.level for pair in pairs])
        errors = [float(mse_of[pair_of](self.p, epsilon) @ self.heads) / self.n for epsilon in promised]
        points = curve(name, version, xs, errors, [pair.level for pair in pairs], self.panel)
        for x, epsilon, pair in zip(xs, promised, pairs, strict=True):
            # Keyed by mechanism and budget, so that ε/2 at 2 is the same simulation as ε at 1.
            rng = seeded(self.options, 81, self.n, list(mse_of).index(pair_of), round(epsilon * 1000))
            points.append(simulate(self, name, version, x, pair, rng))
        return points

    def _fixed(self, budgets: Sequence[float]) -> list[Point]:
        variance = self.people.variance / self.n
        best = [float(binary_mse(self.p, epsilon) @ self.heads) / self.n for epsilon in budgets]
        free = [math.exp(-epsilon) / math.expm1(-epsilon) ** 2 for epsilon in budgets]
        levels = [response_pair(self.p, epsilon).level for epsilon in budgets]
        return [
            *curve(FREE, "corrected", budgets, free, levels, self.panel),
            *curve(NO_DATA, "corrected", budgets, [variance] * len(budgets), 0.0, self.panel),
            *curve(BOUND, "corrected", budgets, best, None, self.panel),
        ]

    def _central(self, budgets: Sequence[float], version: Version) -> list[Point]:
        made = [trusted_server(self.people, epsilon, version == "published") for epsilon in budgets]
        levels = [each.level for each in made]
        name = CENTRAL if version == "corrected" else reached("CIP with two of four bounds", budgets, levels)
        errors = [each.moments.variance / self.n for each in made]
        points = curve(name, version, budgets, errors, levels, self.panel)
        for epsilon, each in zip(budgets, made, strict=True):
            rng = seeded(self.options, 82, self.n, version == "published", round(epsilon * 1000))
            squares = each.squares(self.sums, rng)
            points.append(
                simulated_point(name, version, epsilon, squares, self.n, each.moments, each.level, self.panel)
            )
        if version == "corrected":
            least = [
                error * self.n if self.n <= EXACT else lower_bound(each, epsilon)
                for epsilon, each, error in zip(budgets, made, errors, strict=True)
            ]
            points += curve(CENTRAL_BOUND, version, budgets, [each / self.n for each in least], None, self.panel)
        return points


def simulate(part: _Part, name: str, version: Version, x: float, pair: Pair, rng: np.random.Generator) -> Point:
    """The sum through one channel per group, in every run, beside its analytic error."""
    joint, errors = binary_errors(part.p, pair.yes_if_no, pair.yes_if_yes)
    moments = cell_moments(joint, errors, part.heads)
    squares = grouped_squares(part.ones, part.heads, pair.yes_if_no, pair.yes_if_yes, errors, rng)
    return simulated_point(name, version, x, squares, part.n, moments, pair.level, part.panel)


def trusted_server(people: People, epsilon: float, published: bool = False) -> Mechanism:
    """The best mechanism for few people, two pools for many."""
    return (best_vertices if people.n <= EXACT else two_pools)(people, epsilon, published)


def _remark(figure: Figure, sizes: Sequence[int], runs: int) -> str:
    last = f"N = {sizes[-1]:,}"
    at = {
        (point.curve, point.version): point.y for point in figure.points if point.panel == last and point.x == 1.0
    }  # fmt: skip
    name, level = next(
        (point.curve, point.level or 0.0) for point in figure.points
        if point.panel == last and point.x == 1.0 and point.curve.startswith("published, ")
    )  # fmt: skip
    worst = max(point.deviation or 0.0 for point in figure.simulated)
    missed = len(figure.disagreements)
    server = f"{at[CENTRAL, 'corrected']:.4f}" if at[CENTRAL, "corrected"] > 5e-5 else "less than 0.0001"
    verdict = "all of them" if not missed else f"all but {missed}"
    told: tuple[tuple[str, Version, str], ...] = (
        (OPTIMAL, "corrected", "for LIP"),
        (name, "published", "as published"),
        (BEST_LDP, "corrected", "for LDP"),
        (NO_DATA, "corrected", "without data"),
    )
    errors = ", ".join(f"{at[curve, version]:.3f} {said}" for curve, version, said in told)
    return (
        f"For {sizes[-1]:,} people the published form reaches ε = {level:.2f} for somebody where 1 is promised. "
        f"Corrected, at ε = 1 the root errors are {errors}, and {server} for a trusted server: the gap to the centre "
        "is not small, and it grows with N. ε/2-LIP never beats the best ε-LDP, because it implies it. "
        f"Of {len(figure.simulated)} simulated points ({runs:,} runs each) {verdict} lie within 4 standard errors of "
        f"the analytic value (the farthest: {worst:.1f})."
    )
