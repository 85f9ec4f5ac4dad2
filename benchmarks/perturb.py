"""How fast reports are drawn, as ratios to named baselines in the same run.

    python benchmarks/perturb.py [--rows N]

Baselines: drawing ChaCha20 bytes on one core, four for each report (a whole word of most tables) and as many as the
reports really took, since tables read words lazily; k-ary randomized response with vectorised numpy and its insecure
default generator; OpenDP's randomized response, one value at a time (where opendp is installed).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Table

from tacit import Histogram, Prior
from tacit.designs import design
from tacit.mechanism.protocol import WordBits
from tacit.plan import Group, Plan
from tacit.randomize import Randomizer, SecureWords
from tacit.randomize.randomness import Words

EPSILON = 1


def plan_for(d: int) -> Plan:
    prior = Prior(range(d), [Fraction(10**9 // (k + 1)) for k in range(d)])
    found = design(prior, Histogram(), EPSILON, aim="mmse")
    return Plan.of_groups(Histogram(), (Group(name=None, epsilon=Fraction(EPSILON), mechanism=found.mechanism),))


def best_of(repeats: int, action: Callable[[], object]) -> float:
    """The fastest of several runs, after one to warm up."""
    action()
    times = []
    for _ in range(repeats):
        start = perf_counter()
        action()
        times.append(perf_counter() - start)
    return min(times)


class CountedWords(SecureWords):
    """Secure words that note in `drawn` how many bytes were drawn, in every thread."""

    per_thread = False

    def __init__(self, drawn: list[int]) -> None:
        super().__init__()
        self._drawn = drawn

    def draw(self, count: int, bits: WordBits) -> Words:
        self._drawn.append(count * bits // 8)
        return super().draw(count, bits)


def bytes_per_report(randomizer: Randomizer, values: np.ndarray) -> float:
    """The random bytes that reports of these values really take."""
    drawn: list[int] = []
    randomizer.reports(0, values, CountedWords(drawn))
    return sum(drawn) / len(values)


def numpy_response(values: np.ndarray, d: int) -> np.ndarray:
    """Plain vectorised k-ary randomized response."""
    rng = np.random.default_rng()
    truth = rng.random(len(values)) < math.exp(EPSILON) / (math.exp(EPSILON) + d - 1)
    other = rng.integers(0, d - 1, len(values))
    other += other >= values
    return np.where(truth, values, other)


def opendp_seconds(d: int, rows: int) -> float | None:
    """Seconds per `rows` values of OpenDP's randomized response."""
    try:
        import opendp.prelude as dp
    except ModuleNotFoundError:
        return None
    dp.enable_features("contrib")
    measurement = dp.m.make_randomized_response(categories=list(range(d)), prob=math.e / (math.e + d - 1))
    start = perf_counter()
    for value in range(2000):
        measurement(value % d)
    return (perf_counter() - start) / 2000 * rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    rng = np.random.default_rng(0)
    table = Table("what", "values / s", "bytes drawn", "time / 4 ChaCha20 bytes", "time / the bytes drawn")
    bytes_time = best_of(5, lambda: SecureWords().draw(rows, 32))

    def show(name: str, seconds: float, used: float | None = None) -> None:
        own = ("", "") if used is None else (f"{used:.2f}", f"{4 * seconds / bytes_time / used:.2f}")
        table.add_row(name, f"{rows / seconds:,.0f}", own[0], f"{seconds / bytes_time:.2f}", own[1])

    show("ChaCha20, 4 bytes a value", bytes_time, 4)
    for d in (2, 100, 100_000):
        plan, values = plan_for(d), rng.integers(0, d, rows)
        randomizer = Randomizer(plan)
        name = f"tacit, {plan.groups[0].mechanism.kind}, {d:,} values"
        seconds = best_of(5, partial(randomizer.reports, 0, values))
        show(name, seconds, bytes_per_report(randomizer, values[:1_000_000]))
    one = Randomizer(plan_for(100))
    show(
        "tacit, one respondent at a time", best_of(3, lambda: [one.report(0, 7) for _ in range(20_000)]) / 20_000 * rows
    )
    values = rng.integers(0, 100, rows)
    show("numpy k-ary response, insecure, 100 values", best_of(3, lambda: numpy_response(values, 100)))
    opendp = opendp_seconds(100, rows)
    if opendp is not None:
        show("OpenDP randomized response, one at a time, 100 values", opendp)
    Console(highlight=False).print(table)


if __name__ == "__main__":
    main()
