"""What letting the data speak costs, beside its goals: unbiased histograms and means, reports and folds per second.

    python benchmarks/worth.py [--data DIR] [--rows N]

Variances are of estimates that do not use the prior, per respondent, at ε = 1; E/(E−1)² for every value of a large
histogram is what the theory promises, 4E/(E−1)² is LDP's. Speeds are ratios to a block design in the same run.
Writes out/bench/worth.csv. A goal that is missed is marked, and the command ends all the same.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.special import ndtri

from studies.figure import DataMissingError, Options
from studies.loaders import DEFAULT_DATA, find, load_clicks
from studies.worth import best_ldp_variance, linear_ldp_variance, subset_variance, sum_priors, zipf
from tacit import Histogram, Prior, Sum, design
from tacit.designs import Search
from tacit.mechanism import Mechanism
from tacit.plan import Group, Plan
from tacit.randomize import Randomizer

OUT = Path("out/bench")
EPSILON = 1
LIMIT = math.exp(EPSILON) / math.expm1(EPSILON) ** 2
#: At most so many times E/(E−1)² for each value; a mean at most this share of LDP's linear mechanism's variance; at
#: least this share of a block design's speed; the most seconds for a million reports over Kosarak's pages.
GOAL, KOSARAK_GOAL, SUM_GOAL, SPEED_GOAL, FOLD_GOAL = 1.1, 1.3, 0.6, 0.5, 120.0
SIZES = (50, 200, 1_000, 5_000)
FOLDED = 1_000_000


def lognormal(d: int, sigma: float) -> Prior:
    """exp(σz) at d evenly spread quantiles of the normal distribution, the heaviest value first."""
    quantiles = ndtri((d - np.arange(d) - 0.5) / d)
    return Prior(range(d), [round(weight * 10**9) for weight in np.exp(sigma * quantiles).tolist()])


def kosarak(data: Path | None) -> Prior:
    """The clicks on 41,270 pages."""
    clicks = load_clicks(find("kosarak", Options(data=data)))
    return Prior(clicks.pages.tolist(), clicks.counts.tolist())


def histograms(data: Path | None, notes: list[str]) -> Iterator[tuple[str, Prior, float]]:
    """Name, prior and goal of every histogram."""
    for d in SIZES:
        yield "Zipf", zipf(d), GOAL
        yield "lognormal, σ = 1", lognormal(d, 1.0), GOAL
        yield "lognormal, σ = 2", lognormal(d, 2.0), GOAL
    try:
        yield "Kosarak", kosarak(data), KOSARAK_GOAL
    except DataMissingError as missing:
        notes.append(f"Kosarak is left out: {missing}")


def histogram_table(data: Path | None, notes: list[str]) -> Table:
    """Variance per value over E/(E−1)²."""
    table = Table(
        "prior", "values", "heaviest", "variance", "relative", "proven", "LDP", "goal", "", "seconds",
        title=f"variance per value at ε = {EPSILON}, and relative to E/(E−1)² = {LIMIT:.3f}; LDP's the same way",
    )  # fmt: skip
    for name, prior, goal in histograms(data, notes):
        d = len(prior.support)
        start = perf_counter()
        found = design(prior, Histogram(), EPSILON).certificate
        seconds = perf_counter() - start
        each = found.unbiased_variance / d
        least = found.lower_bound / d
        ldp = subset_variance(prior, EPSILON) / d
        table.add_row(
            name, f"{d:,}", f"{prior.probabilities.max():.1%}", f"{each:.4f}", f"{each / LIMIT:.3f}",
            f"{least / LIMIT:.3f}", f"{ldp / LIMIT:.3f}", f"≤ {goal:g}", verdict(each / LIMIT <= goal),
            f"{seconds:.2f}",
        )  # fmt: skip
    return table


def sum_table() -> Table:
    """The variance of a mean over that of LDP's linear mechanism."""
    table = Table(
        "prior", "variance", "LDP, linear", "ratio", "over the best LDP known", "goal", "", "seconds",
        title=f"means of answers from 0 to 99 at ε = {EPSILON}",
    )  # fmt: skip
    for name, prior in sum_priors().items():
        start = perf_counter()
        variance = design(prior, Sum(), EPSILON).certificate.unbiased_variance
        seconds = perf_counter() - start
        linear = linear_ldp_variance(prior, EPSILON)
        table.add_row(
            name, f"{variance:,.0f}", f"{linear:,.0f}", f"{variance / linear:.3f}",
            f"{variance / best_ldp_variance(prior, Sum(), EPSILON):.3f}", f"≤ {SUM_GOAL:g}",
            verdict(variance / linear <= SUM_GOAL), f"{seconds:.2f}",
        )  # fmt: skip
    return table


def speed_table(rows: int, large: Prior) -> Table:
    """Reports drawn in a second, and seconds for a million reports that are folded."""
    table = Table("what", "values", "circle", "block design", "ratio", "goal", "", title="speed")
    rng = np.random.default_rng(0)
    for prior in (zipf(1_000), large):
        d = len(prior)
        values = rng.integers(0, d, rows)
        circle, core = (
            design(prior, Histogram(), EPSILON).mechanism,
            design(prior, Histogram(), EPSILON, search=Search(method="without-prior")).mechanism,
        )
        many = max(1_000, min(rows, 10**9 // d))
        speeds = drawn_per_second(prior, circle, values[:many]), drawn_per_second(prior, core, values)
        table.add_row(
            "reports drawn / s", f"{d:,}", *(f"{speed:,.0f}" for speed in speeds), f"{speeds[0] / speeds[1]:.3f}",
            f"≥ {SPEED_GOAL:g}", verdict(speeds[0] >= SPEED_GOAL * speeds[1]),
        )  # fmt: skip
        reports = Randomizer(plan_of(prior, circle)).reports(np.zeros(many, dtype=np.int64), values[:many])
        seconds = best_of(2, partial(circle.keep, np.asarray(reports, dtype=np.int64))) * FOLDED / many
        goal = [f"≤ {FOLD_GOAL:g} s", verdict(seconds <= FOLD_GOAL)] if prior is large else ["", ""]
        table.add_row("seconds to fold a million", f"{d:,}", f"{seconds:.1f} s", "", "", *goal)
    return table


def plan_of(prior: Prior, mechanism: Mechanism) -> Plan:
    """A plan of one group."""
    return Plan.of_groups(Histogram(), (Group(name=None, epsilon=Fraction(EPSILON), mechanism=mechanism),))


def drawn_per_second(prior: Prior, mechanism: Mechanism, values: np.ndarray) -> float:
    """How many reports a second the randomizer draws."""
    randomizer, everybody = Randomizer(plan_of(prior, mechanism)), np.zeros(len(values), dtype=np.int64)
    return len(values) / best_of(3, partial(randomizer.reports, everybody, values))


def best_of(repeats: int, action: Callable[[], object]) -> float:
    """The fastest of several runs, after one to warm up."""
    times = []
    for _ in range(repeats + 1):
        start = perf_counter()
        action()
        times.append(perf_counter() - start)
    return min(times[1:])


def verdict(met: bool) -> str:
    """Whether a goal is met."""
    return "met" if met else "missed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None, help=f"folder with the real data, by default {DEFAULT_DATA}")
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="answers drawn for the speed, fewer for many values"
    )
    options = parser.parse_args()
    console, notes = Console(highlight=False, width=120), list[str]()
    tables = [histogram_table(options.data, notes), sum_table()]
    try:
        large = kosarak(options.data)
    except DataMissingError:
        large = zipf(41_270)
        notes.append("Speeds for 41,270 values are under a Zipf prior.")
    tables.append(speed_table(options.rows, large))
    OUT.mkdir(parents=True, exist_ok=True)
    with open(OUT / "worth.csv", "w", newline="") as file:
        for table in tables:
            console.print(table)
            columns = [list(column.cells) for column in table.columns]
            csv.writer(file).writerows([[column.header for column in table.columns], *zip(*columns, strict=True)])
    missed = sum(cell == "missed" for table in tables for column in table.columns for cell in column.cells)
    console.print(" ".join([*notes, f"Goals missed: {missed}.", f"Wrote {OUT / 'worth.csv'}."]))


if __name__ == "__main__":
    main()
