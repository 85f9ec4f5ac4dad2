"""The mechanisms that need no prior, side by side: audited level, variance beside the proven bound, speed and size.

    python benchmarks/ldp.py [--rows N] [--sizes 16,100,1000,10000] [--epsilons 0.5,1,2]

Variances are per value and respondent, all values equally frequent, and exact; no LDP channel goes below the bound.
`error` is the mean squared error of the run's own estimates over what they state, 1 if all is right. Speeds are medians
of five runs over all cores, reports from answers and an estimate from reports; baselines in the same run are k-ary
response by vectorised numpy with its insecure generator, and OpenDP's, one value at a time (where opendp is installed).
`auto` is what `design` takes by itself. Writes out/bench/ldp.csv.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from perturb import numpy_response, opendp_seconds
from rich.console import Console
from rich.table import Table

from tacit import Histogram, Plan, Prior, Randomizer, Tally, estimate, make_plan
from tacit.designs import Search
from tacit.designs.without_prior import MECHANISMS, ldp_variance_bound

OUT = Path("out/bench")
RUNS = 5
#: So many times a value may be looked at in one run of counting.
MOST_LOOKS = 2 * 10**9
HEADER = (
    "values",
    "epsilon",
    "mechanism",
    "level",
    "variance",
    "over bound",
    "error",
    "perturb/s",
    "estimate/s",
    "bytes",
)


def median_seconds(action: Callable[[], object]) -> float:
    """The median of several runs, after one to warm up."""
    action()
    times = []
    for _ in range(RUNS):
        start = perf_counter()
        action()
        times.append(perf_counter() - start)
    return median(times)


def answers(d: int, rows: int) -> np.ndarray:
    """Zipf's: the k-th value is held by a share proportional to 1/k."""
    shares = 1 / np.arange(1, d + 1)
    return np.random.default_rng(0).choice(d, rows, p=shares / shares.sum())


def measured(d: int, epsilon: Fraction, name: str, rows: int) -> tuple[Any, ...]:
    """One row of the table."""
    prior, held = Prior.uniform(d), answers(d, rows)
    plan = make_plan(prior, Histogram(), epsilon, notion="ldp", search=Search(method=name))  # type: ignore[arg-type]
    mechanism, randomizer = plan.groups[0].mechanism, Randomizer(plan)
    certificate = plan.groups[0].certificate
    label = f"auto: {certificate.method}" if name == "auto" and certificate is not None else name
    everybody = np.zeros(rows, dtype=np.int64)
    perturbing = median_seconds(lambda: randomizer.reports(everybody, held))
    counted = min(rows, MOST_LOOKS // d)
    reports = randomizer.reports(everybody[:counted], held[:counted])
    reading = median_seconds(lambda: estimate(plan, Tally.of(plan, reports)))
    variance = mechanism.unbiased_variance(Histogram()) / d
    return (
        d, float(epsilon), label, mechanism.audit().ldp.epsilon, variance,
        variance * d / ldp_variance_bound(d, epsilon), squared_error(plan, reports, held[:counted]),
        rows / perturbing, counted / reading, report_bytes(reports),
    )  # fmt: skip


def squared_error(plan: Plan, reports: np.ndarray, held: np.ndarray) -> float:
    """The mean over the values of (estimate − truth)² over the stated variance."""
    truth, rows = (
        np.bincount(held, minlength=len(plan.values)),
        estimate(plan, Tally.of(plan, reports), simultaneous=False).rows,
    )
    return float(np.mean([((row.estimate - n) / row.standard_error) ** 2 for row, n in zip(rows, truth, strict=True)]))


def report_bytes(reports: np.ndarray) -> int:
    """Whole bytes that hold every report."""
    return -(-int(reports.max()).bit_length() // 8)


def baselines(d: int, epsilon: Fraction, rows: int) -> Iterator[tuple[Any, ...]]:
    """k-ary randomized response by others, at ε = 1: what is said of their speed."""
    held = answers(d, rows)
    yield (
        d,
        1.0,
        "numpy k-ary (insecure)",
        *[None] * 4,
        rows / median_seconds(lambda: numpy_response(held, d)),
        None,
        None,
    )
    seconds = opendp_seconds(d, rows)
    if seconds is not None:
        yield d, 1.0, "OpenDP k-ary", *[None] * 4, rows / seconds, None, None


def measurements(sizes: list[int], epsilons: list[Fraction], rows: int) -> Iterator[tuple[Any, ...]]:
    for d in sizes:
        for epsilon in epsilons:
            for name in ("auto", *MECHANISMS, "many-values"):
                yield measured(d, epsilon, name, rows)
            if epsilon == 1:
                yield from baselines(d, epsilon, rows)


def cell(number: object) -> str:
    if number is None:
        return ""
    if isinstance(number, float) and math.isfinite(number):
        return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"
    return str(number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sizes", default="16,100,1000,10000")
    parser.add_argument("--epsilons", default="0.5,1,2")
    options = parser.parse_args()
    table = Table(*HEADER, title="LDP without a prior")
    found = []
    sizes, epsilons = map(int, options.sizes.split(",")), map(Fraction, options.epsilons.split(","))
    for row in measurements(list(sizes), list(epsilons), options.rows):
        assert row[3] is None or row[3] <= row[1] + 1e-12, f"{row[2]} exceeds its claim."
        found.append(row)
        table.add_row(*map(cell, row))
    OUT.mkdir(parents=True, exist_ok=True)
    with open(OUT / "ldp.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([HEADER, *found])
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
