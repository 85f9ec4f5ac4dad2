"""A panel of 260 collections: Tacit's two layers beside the longitudinal protocols of multi-freq-ldpy, in one run.

The experiment of LOLOHA (Arcolezi, Pinzón, Palamidessi and Gambs, EDBT 2023; its notebook on Adult at 5%): 2,261 people
hold one of 96 values of hours-per-week and answer 260 times; before each collection the values of all people in Adult
are dealt out anew. The stored report has the level ε∞ and one collection .4·ε∞.

    PYTHONPATH=.:benchmarks .venv-peers/bin/python -m peers.panel ADULT.parquet

prints the table of docs/peers.md. Errors are mean squared errors of a share, over the 96 values and all collections,
about the people who took part: of the unbiased estimate; of the same cut off at 0 and divided by its sum, as LOLOHA has
it; and of the nearest distribution. All protocols are read alike. The client of multi-freq-ldpy draws the stored report
anew in every call, which leaves the error of a collection as it is.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import numpy as np
from multi_freq_ldpy.long_freq_est.L_GRR import L_GRR_Client
from multi_freq_ldpy.long_freq_est.L_OSUE import L_OSUE_Client
from multi_freq_ldpy.long_freq_est.L_SUE import L_SUE_Client
from numpy.typing import NDArray

from tacit import Histogram, Prior, Randomizer, Tally, estimate, make_plan
from tacit.designs import Uncertainty, with_layers
from tacit.plan import Plan

PEOPLE, COLLECTIONS, FIRST, BUDGETS = 2261, 260, 0.4, (1.0, 5.0)
Floats = NDArray[np.float64]


class Protocol(NamedTuple):
    """What a collection makes of the positions of everybody's values: unbiased shares. Levels: (LIP, LDP)."""

    name: str
    collect: Callable[[NDArray[np.int64]], Floats]
    stored: tuple[float, float]
    one: tuple[float, float]


def unary(name: str, client: Callable[..., Floats], prior: Floats, most: float, p1: float, q1: float) -> Protocol:
    """Unary encoding twice; p2 and q2 are found from the level of one report, as the package does."""
    first = FIRST * most
    p2 = _second_of_unary(p1, q1, first)
    p, q = p1 * p2 + (1 - p1) * (1 - p2), q1 * p2 + (1 - q1) * (1 - p2)

    def collect(values: NDArray[np.int64]) -> Floats:
        counts: Floats = np.sum([client(int(x), len(prior), most, first) for x in values], axis=0)
        shares: Floats = (counts / len(values) - q) / (p - q)
        return shares

    return Protocol(name, collect, _unary_levels(prior, p1, q1), _unary_levels(prior, p, q))


def _second_of_unary(p1: float, q1: float, first: float) -> float:
    """p2 with q2 = 1 − p2 for which the product has the level of one report, by bisection."""
    low, high = 0.5, 1.0
    for _ in range(200):
        p2 = (low + high) / 2
        p, q = p1 * p2 + (1 - p1) * (1 - p2), q1 * p2 + (1 - q1) * (1 - p2)
        low, high = (p2, high) if p * (1 - q) / ((1 - p) * q) < math.exp(first) else (low, p2)
    return low


def _unary_levels(prior: Floats, p: float, q: float) -> tuple[float, float]:
    """The exact LIP and LDP levels: of the value x the lift is r^b_x / Σ P r^b, extreme where all other bits differ."""
    r, least = p * (1 - q) / ((1 - p) * q), float(prior.min())
    return max(math.log(r / (least * r + 1 - least)), math.log(least + (1 - least) * r)), math.log(r)


def kary(prior: Floats, most: float) -> Protocol:
    """k-ary randomized response twice."""
    first, k = FIRST * most, len(prior)
    p1 = math.exp(most) / (math.exp(most) + k - 1)
    q1 = (1 - p1) / (k - 1)
    p2 = (q1 - math.exp(first) * p1) / (
        -p1 * math.exp(first) + k * q1 * math.exp(first) - q1 * math.exp(first) - p1 * (k - 1) + q1
    )
    q2 = (1 - p2) / (k - 1)
    p, q = p1 * p2 + (k - 1) * q1 * q2, p1 * q2 + q1 * p2 + (k - 2) * q1 * q2

    def collect(values: NDArray[np.int64]) -> Floats:
        reports = [L_GRR_Client(int(x), k, most, first) for x in values]
        shares: Floats = (np.bincount(reports, minlength=k) / len(values) - q) / (p - q)
        return shares

    def levels(p: float, q: float) -> tuple[float, float]:
        sent = prior * p + (1 - prior) * q
        return max(math.log((p / sent).max()), math.log((sent / q).max())), math.log(p / q)

    return Protocol("multi-freq-ldpy, L-GRR", collect, levels(p1, q1), levels(p, q))


def two_layers(
    name: str, prior: Prior, most: float, notion: Literal["lip", "ldp"], off: Uncertainty | None
) -> Protocol:
    """Tacit: the best channel for one collection, in two layers."""
    first = round(FIRST * most, 6)
    planned = Prior.uniform(prior.values) if notion == "ldp" else prior
    plan = with_layers(make_plan(planned, Histogram(), first, notion=notion, uncertainty=off), most)
    (group,) = plan.groups
    assert group.layers is not None
    stored, reached = group.layers.stored.under(prior).audit(), group.mechanism.under(prior).audit()
    drawing, memory = Randomizer(plan), bytes(range(32))
    people = [str(person) for person in range(PEOPLE)]

    def collect(values: NDArray[np.int64]) -> Floats:
        reports = drawing.reports(0, values, persons=people, memory=memory)
        return _shares(plan, reports)

    return Protocol(name, collect, (stored.lip.epsilon, stored.ldp.epsilon), (reached.lip.epsilon, reached.ldp.epsilon))


def _shares(plan: Plan, reports: NDArray[np.int64]) -> Floats:
    found = estimate(plan, Tally.of(plan, reports), "unbiased", scope="participants")
    return np.array([row.estimate for row in found.rows]) / len(reports)


def protocols(prior: Prior, most: float) -> Iterator[Protocol]:
    """All that are compared at one lifelong level."""
    p = prior.probabilities
    yield two_layers("Tacit, LIP", prior, most, "lip", None)
    yield two_layers("Tacit, LIP, prior off by 0.03", prior, most, "lip", Uncertainty(error="0.03"))
    yield two_layers("Tacit, LDP, no prior", prior, most, "ldp", None)
    yield unary("multi-freq-ldpy, L-OSUE", L_OSUE_Client, p, most, 0.5, 1 / (math.exp(most) + 1))
    even = math.exp(most / 2) / (math.exp(most / 2) + 1)
    yield unary("multi-freq-ldpy, L-SUE (RAPPOR)", L_SUE_Client, p, most, even, 1 - even)
    yield kary(p, most)


def measure(protocol: Protocol, dealt: NDArray[np.int64], size: int) -> Floats:
    """Mean squared errors: unbiased; cut off at 0 and divided by the sum; of the nearest distribution."""
    errors = []
    for values in dealt:
        truth = np.bincount(values, minlength=size) / len(values)
        found = protocol.collect(values)
        inside = found.clip(0)
        read = found, inside / (inside.sum() or 1), nearest(found)
        errors.append([float(((each - truth) ** 2).mean()) for each in read])
    return np.array(errors).mean(axis=0)


def nearest(shares: Floats) -> Floats:
    """The distribution at the least Euclidean distance."""
    falling = np.sort(shares)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(shares) + 1)
    return np.maximum(shares - excess[np.flatnonzero(falling > excess)[-1]], 0)


def main() -> None:
    import pyarrow.parquet as parquet

    parser = argparse.ArgumentParser(prog="peers.panel", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("adult", help="UCI Adult as Parquet, with the column hours_per_week")
    parser.add_argument("--collections", type=int, default=COLLECTIONS)
    options = parser.parse_args()
    hours = np.array(parquet.read_table(options.adult, columns=["hours_per_week"])["hours_per_week"])
    values, everybody = np.unique(hours, return_inverse=True)
    drawn = np.random.default_rng(0)
    panel = drawn.permutation(len(everybody))[:PEOPLE]
    dealt = np.array([drawn.permutation(everybody)[panel] for _ in range(options.collections)])
    prior = Prior([int(value) for value in values], np.bincount(everybody).tolist())
    told = "unbiased | cut off | nearest distribution"
    print(f"| ε∞ | protocol | stored: LIP, LDP | one collection: LIP, LDP | {told} |")
    print("|---:|---|---:|---:|---:|---:|---:|")
    for most in BUDGETS:
        for each in protocols(prior, most):
            errors = " | ".join(f"{error:.2e}" for error in measure(each, dealt, len(values)))
            levels = " | ".join(", ".join(f"{level:.3f}" for level in pair) for pair in (each.stored, each.one))
            print(f"| {most:g} | {each.name} | {levels} | {errors} |", flush=True)


if __name__ == "__main__":
    main()
