"""How good and how fast designs are: gain achieved over the proven bound, beside the repaired response and best LDP.

    python benchmarks/design.py [--quick] [--data DIR]

Writes out/bench/design.csv and a plot of the utility-privacy tradeoff, out/bench/tradeoff.png.
"""

from __future__ import annotations

import argparse
import csv
import math
import resource
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Table

from tacit import GroupPrior, Histogram, Prior, Sum, design
from tacit.cli.priors import draw
from tacit.designs import Promise, Search
from tacit.designs.rules import compare
from tacit.task import Task

OUT = Path("out/bench")
EPSILONS = (0.25, 0.5, 1, 2, 4)
KINDS = ("zipf", "dirichlet", "uniform", "dominated")
#: Beyond this many values k-ary randomized response stands for the best LDP channel, marked with a star.
BASELINE_LIMIT = 200


def prior_of(kind: str, d: int) -> Prior:
    """Zipf, one draw of Dirichlet(1), uniform, or one value of 90% and a long tail."""
    if kind == "zipf":
        weights = [Fraction(10**9 // (k + 1)) for k in range(d)]
    elif kind == "dirichlet":
        weights = [Fraction(int(w)) for w in np.random.default_rng(d).exponential(size=d) * 10**6 + 1]
    elif kind == "uniform":
        weights = [Fraction(1)] * d
    else:
        tail = [Fraction(1, k + 1) for k in range(d - 1)]
        weights = [9 * sum(tail, Fraction()), *tail]
    return Prior(range(d), weights)


def cases(quick: bool, data: Path) -> Iterator[tuple[str, Prior, Task]]:
    """Name, prior and task of every case."""
    for d in (10, 100) if quick else (10, 100, 1000):
        for kind in KINDS:
            prior = prior_of(kind, d)
            for task in (Histogram(), Sum()):
                yield f"{kind} {d}", prior, task
    kosarak = data / "kosarak_item_counts.csv"
    if kosarak.exists():
        with open(kosarak, newline="") as file:
            counts = {row["item_id"]: int(row["count"]) for row in csv.DictReader(file)}
        yield f"Kosarak {len(counts)}", Prior.of(counts), Histogram()
    yield "zipf 100000", prior_of("zipf", 100_000), Histogram()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="up to 100 values, and the large histograms")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    options = parser.parse_args()
    console = Console(highlight=False, width=120)
    table = Table("case", "task", "ε", "gain / bound", "seconds", "reports", "repaired", "best LDP", "method")
    rows = []
    for name, prior, task in cases(options.quick, options.data):
        for epsilon in EPSILONS:
            row = measure(name, prior, task, epsilon)
            rows.append(row)
            table.add_row(*map(str, row))
            console.print(f"[dim]{' '.join(map(str, row))}[/dim]")
    console.print(table)
    console.print("Gains are over the proven bound of any LIP channel at this ε; * is k-ary response, not the best LDP")
    console.print(unbiased_table())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    console.print(f"Peak memory of the whole run: {peak:.2f} GiB.")
    OUT.mkdir(parents=True, exist_ok=True)
    with open(OUT / "design.csv", "w", newline="") as file:
        csv.writer(file).writerows([[column.header for column in table.columns], *rows])
    zipf = GroupPrior(name=None, prior=prior_of("zipf", 20))
    compared = compare([zipf], Histogram(), [k / 4 for k in range(1, 17)], aim="unbiased")
    draw(compared, OUT / "tradeoff.png", "unbiased")
    console.print(f"Wrote {OUT / 'design.csv'} and {OUT / 'tradeoff.png'}.")


def unbiased_table() -> Table:
    """The other aim: variance per respondent of the histogram that does not use the prior, LIP against LDP."""
    table = Table("unbiased variance", "ε", "LIP", "proven bound", "best LDP", "MMSE optimum", title="aim unbiased")
    for kind in KINDS:
        prior = prior_of(kind, 7)
        for epsilon in EPSILONS:
            lip, ldp = (design(prior, Histogram(), Promise(epsilon, notion=n), aim="unbiased") for n in ("lip", "ldp"))
            mmse = design(prior, Histogram(), epsilon, aim="mmse").certificate.unbiased_variance
            numbers = (lip.certificate.aimed, lip.certificate.lower_bound, ldp.certificate.aimed, mmse)
            table.add_row(f"{kind} 7", str(epsilon), *(f"{number:.4g}" for number in numbers))
    return table


def measure(name: str, prior: Prior, task: Task, epsilon: float) -> list[object]:
    """One row of the table."""
    start = perf_counter()
    found = design(prior, task, epsilon, aim="mmse")
    seconds = perf_counter() - start
    best = found.certificate
    p, e = prior.probabilities, math.exp(epsilon)
    repaired = _ratio(response_gain(prior, task, np.maximum(p, 1 - e * p), e), best.gain_bound)
    if len(prior) <= BASELINE_LIMIT:
        ldp = _ratio(
            design(
                prior, task, Promise(epsilon, notion="ldp"), aim="mmse", search=Search(time_limit=10)
            ).certificate.gain,
            best.gain_bound,
        )
    else:
        ldp = _ratio(response_gain(prior, task, np.ones(len(p)), e), best.gain_bound) + "*"
    ratio = _ratio(best.gain, best.gain_bound)
    possible = found.mechanism.n_possible_reports
    reports = "circle" if possible is None else possible
    return [name, type(task).__name__, epsilon, ratio, f"{seconds:.2f}", reports, repaired, ldp, best.method]


def response_gain(prior: Prior, task: Task, fallback: np.ndarray, e: float) -> float:
    """The gain of the response that tells the truth with weight E − 1 and otherwise k with weight fallback_k, in O(d).

    fallback max(P, 1 − E·P) is the repaired response, fallback 1 is k-ary randomized response.
    """
    p = prior.probabilities
    truth, lie = e - 1, fallback
    share = truth * p + lie
    total = truth + lie.sum()
    if isinstance(task, Histogram):
        # Report k moves value k by truth·(1−P_k) and every other value x by −truth·P_k, both over its own share.
        others = (p**2).sum() - p**2
        return float(((truth * p * (1 - p)) ** 2 / share + (truth * p) ** 2 / share * others).sum() / total)
    a = prior.numbers - p @ prior.numbers
    return float(((truth * p * a) ** 2 / share).sum() / total)


def _ratio(gain: float, bound: float) -> str:
    return f"{gain / bound:.5f}" if bound > 0 else "1.00000"


if __name__ == "__main__":
    main()
