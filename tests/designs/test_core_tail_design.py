"""Designs: exact audits, certificates, optimality of small programs, and the gap at large domains."""

import csv
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from tacit.designs import _core_cover as core_cover
from tacit.designs._core_cover import arc_columns, second_moment_bound, solve_core, systematic_columns
from tacit.designs._core_tail import design_core_tail, shrunk_growth
from tacit.designs._knapsack import Knapsack
from tacit.mechanism.core_tail._core_tail import CoreTail, posterior_sum
from tacit.prior import Prior

from support.places import DATA, needs_data

KOSARAK = DATA / "kosarak_item_counts.csv"
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)


def ratio_below(epsilon: float) -> Fraction:
    return Fraction(int(math.exp(epsilon) * 2**40) - 1, 2**40)


def integer_prior(name: str, size: int) -> list[int]:
    rank = np.arange(1, size + 1)
    if name == "kosarak":
        with KOSARAK.open() as file:
            return [int(row["count"]) for row in csv.DictReader(file)]
    if name == "uniform":
        return [1] * size
    shape = {
        "zipf": 1.0 / rank,
        "zipf 1.5": rank**-1.5,
        "zipf 2": 1.0 / rank**2,
        "dirichlet": np.random.default_rng(1).exponential(size=size),
        "dominant, flat tail": np.where(rank == 1, 9.0 * (size - 1), 1.0),
        "dominant, zipf tail": np.where(rank == 1, 9.0 * (1.0 / rank[1:]).sum(), 1.0 / rank),
    }[name]
    return [max(1, round(float(p) * 2**44)) for p in shape / shape.sum()]


LARGE = [pytest.param("kosarak", 41270, marks=needs_data)] + [
    (name, size)
    for size in (1000, 100_000)
    for name in (
        "zipf", "zipf 1.5", "zipf 2", "dirichlet", "uniform", "dominant, flat tail", "dominant, zipf tail",
    )
]  # fmt: skip


@pytest.mark.parametrize(("name", "size"), LARGE)
def test_gap_is_at_most_one_percent_at_every_epsilon(name: str, size: int) -> None:
    """Every second one where values are so many that each design takes long."""
    weights = integer_prior(name, size)
    for epsilon in EPSILONS[:: 1 if size == 1000 else 2]:
        ratio = ratio_below(epsilon)
        design = design_core_tail(Prior.of(weights), ratio)
        assert design.mechanism.within(ratio)
        assert not design.mechanism.within(1 + (ratio - 1) * Fraction(999, 1000))
        assert -1e-6 <= design.gap <= 0.01
        assert design.mechanism.prior == Prior.of(weights)


def test_a_channel_designed_for_more_is_refused() -> None:
    design = design_core_tail(Prior.of(integer_prior("zipf", 300)), ratio_below(1.0))
    channel = design.mechanism
    greedy = CoreTail(
        prior=Prior.of(channel.weights),
        core=channel.core,
        share=channel.share,
        growth=channel.growth * Fraction(1001, 1000),
        states=channel.states,
    )
    assert channel.within(design.ratio)
    assert not greedy.within(design.ratio)
    bare = shrunk_growth(design.ratio, 200)
    assert not CoreTail(
        prior=Prior.of(channel.weights), core=channel.core, share=channel.share, growth=bare, states=channel.states
    ).within(design.ratio)


def vertices(prior: np.ndarray, tail: float, share: float) -> np.ndarray:
    """Return every vertex of { 0 <= c <= 1, h-T <= p.c <= h }: 0/1 but for one value, at an end of the window."""
    found = []
    for split in range(len(prior)):
        for rest in itertools.product((0.0, 1.0), repeat=len(prior) - 1):
            vector = np.insert(np.array(rest), split, 0.0)
            mass = float(vector @ prior)
            for part in (0.0, 1.0, (share - mass) / prior[split], (share - tail - mass) / prior[split]):
                vector[split] = part
                inside = share - tail - 1e-12 <= float(vector @ prior) <= share + 1e-12
                if -1e-12 <= part <= 1 + 1e-12 and inside:
                    found.append(vector.copy())
    return np.unique(np.round(found, 13), axis=0)


def enumerated_optimum(prior: np.ndarray, tail: float, share: float) -> float:
    columns = vertices(prior, tail, share)
    equal = np.vstack([columns.T, np.ones(len(columns))])
    result = linprog(-(columns**2 @ prior**2), A_eq=equal, b_eq=np.append(np.full(len(prior), share), 1.0))
    assert result.status == 0
    return -float(result.fun)


@pytest.mark.parametrize("seed", range(40))
def test_core_program_equals_enumeration_of_all_vertices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 7))
    mass = rng.exponential(size=size + 1) ** rng.choice([1.0, 2.0, 3.0])
    prior, tail = mass[:-1] / mass.sum(), float(mass[-1] / mass.sum())
    share = 1 / (1 + math.exp(rng.choice(EPSILONS)))
    core = solve_core(prior, tail, share, tolerance=1e-9)
    best = enumerated_optimum(prior, tail, share)
    assert core.value == pytest.approx(best, rel=1e-6)
    assert core.upper_bound == pytest.approx(best, rel=1e-6)
    assert core.probability @ core.coverage == pytest.approx(np.full(size, share), abs=1e-8)


@pytest.mark.parametrize("seed", range(40))
def test_pricing_search_equals_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.ones(8) * rng.choice([0.3, 1.0, 5.0]))
    prior, tail = prior[:-1] + 1e-6, float(prior[-1]) + 1e-6
    share = 1 / (1 + math.exp(rng.choice(EPSILONS)))
    price = prior**2 * rng.normal(0.5, 1.0, size=7)
    knapsack = Knapsack(prior, price, tail, share)
    every = vertices(prior, tail, share)
    best = float((every**2 @ prior**2 - every @ price).max())
    bound, met = knapsack.search(100_000)
    assert bound == pytest.approx(best, abs=1e-12)
    assert float((met**2 @ prior**2 - met @ price).max()) == pytest.approx(best, abs=1e-12)
    low, high = np.zeros(7), np.minimum(1.0, share / prior)
    assert best - 1e-12 <= knapsack.search(20)[0]
    assert best - 1e-12 <= knapsack.chord_bound(low, high)


@pytest.mark.parametrize("seed", range(20))
def test_no_channel_on_a_small_domain_beats_the_bound(seed: int) -> None:
    """The bound holds for the full program: all d values in the core but one, whose own square is added."""
    rng = np.random.default_rng(seed)
    weights = [int(w) for w in rng.integers(1, 60, 6)]
    epsilon = float(rng.choice(EPSILONS))
    ratio = ratio_below(epsilon)
    prior, share = np.array(weights) / sum(weights), float(1 / (ratio + 1))
    columns = vertices(prior[:-1], float(prior[-1]), share)
    columns = np.column_stack([columns, (share - columns @ prior[:-1]) / prior[-1]])
    equal = np.vstack([columns.T, np.ones(len(columns))])
    result = linprog(-(columns**2 @ prior**2), A_eq=equal, b_eq=np.append(np.full(6, share), 1.0))
    best = float(ratio - 1 / ratio) ** 2 * (-result.fun - share**2 * float(prior @ prior))
    for max_core in (0, 2, 5):
        design = design_core_tail(Prior.of(weights), ratio, max_core=max_core)
        assert design.gain <= best * (1 + 1e-7)
        assert best <= design.gain_bound * (1 + 1e-7)
        assert len(design.mechanism.core) <= max_core


def test_arcs_start_the_program_feasibly_and_bounds_are_ordered() -> None:
    prior = np.array([0.3, 0.2, 0.1])
    columns = arc_columns(prior, 0.4, 0.25)
    mass = columns @ prior
    assert (mass <= 0.25 + 1e-12).all()
    assert (mass >= 0.25 - 0.4 - 1e-12).all()
    result = linprog(np.zeros(len(columns)), A_eq=np.vstack([columns.T, np.ones(len(columns))]), b_eq=[0.25] * 3 + [1])
    assert result.status == 0
    core = solve_core(prior, 0.4, 0.25)
    assert (
        core.value <= core.upper_bound * (1 + 1e-9) <= float(prior**2 @ second_moment_bound(prior, 0.25)) * (1 + 1e-8)
    )


def test_systematic_vectors_fit_the_window_and_cover_equally() -> None:
    prior = np.array([0.4] + [0.01] * 30)
    columns = systematic_columns(prior, 0.3, 0.2, orders=3)
    mass = columns @ prior
    assert len(columns)
    assert not columns[:, 0].any()
    assert set(np.unique(columns)) == {0.0, 1.0}
    assert (mass <= 0.2).all()
    assert (mass >= -0.1).all()
    assert abs(columns[:, 1:].mean(axis=1) - 0.2 / 0.6).max() <= 1 / 30


def test_an_unfinished_column_generation_is_still_feasible_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found case: columns added after the last solve must not be read as part of the solution."""
    prior = np.arange(60, 20, -1) / np.arange(60, 0, -1).sum()
    tail, share = 1.0 - float(prior.sum()), 1 / (1 + math.exp(3.0))
    finished = solve_core(prior, tail, share, tolerance=0.0)
    monkeypatch.setattr(core_cover, "MAX_ROUNDS", 1)
    monkeypatch.setattr(core_cover, "START_ORDERS", 0)
    stopped = solve_core(prior, tail, share, tolerance=0.0)
    assert stopped.value < finished.value <= stopped.upper_bound * (1 + 1e-12)
    assert stopped.probability @ stopped.coverage == pytest.approx(np.full(40, share), abs=1e-8)


@pytest.mark.parametrize("size", [2, 3, 7, 20, 1000])
def test_uniform_priors_are_optimal(size: int) -> None:
    for epsilon in EPSILONS:
        assert abs(design_core_tail(Prior.of([5] * size), ratio_below(epsilon)).gap) < 1e-6


def test_extreme_inputs_are_designed_and_audited() -> None:
    for weights in ([7], [1, 1 << 100], [1, 1, 1 << 70, 3 << 69], [1 << 40] * 3 + [1]):
        for epsilon in (0.001, 1.0, 10.0):
            design = design_core_tail(Prior.of(weights), ratio_below(epsilon))
            assert design.mechanism.within(design.ratio)
            assert design.gain <= design.gain_bound * 1.01 + 1e-12


@pytest.mark.parametrize(("weights", "ratio"), [([1, 2], 1), ([1, 2], 0)])
def test_impossible_requests_are_refused(weights: list[int], ratio: int) -> None:
    with pytest.raises(ValueError, match="ratio"):
        design_core_tail(Prior.of(weights), Fraction(ratio))


@needs_data
def test_posterior_sum_on_kosarak_finds_the_counts() -> None:
    """End to end at d = 41,270: mean posterior of reports drawn under the prior is the prior, as it must be."""
    weights = integer_prior("kosarak", 0)
    design = design_core_tail(Prior.of(weights), ratio_below(2.0))
    rng = np.random.default_rng(4)
    prior = np.array(weights) / sum(weights)
    values = rng.choice(len(prior), 200_000, p=prior)
    words = rng.integers(0, 2**64 - 1, (len(values), 3), dtype=np.uint64, endpoint=True)
    sums = posterior_sum(design.mechanism, design.mechanism.sample(values, words)) / len(values)
    assert sums.sum() == pytest.approx(1.0, abs=1e-9)
    # The heaviest value's posterior is in [P/E, PE]; six standard deviations of its mean.
    spread = 6 * prior.max() * math.exp(2.0) / math.sqrt(len(values))
    assert abs(sums - prior).max() < spread
    swapped = posterior_sum(design.mechanism, design.mechanism.sample(np.roll(values, 1) * 0, words)) / len(values)
    assert abs(swapped - prior).max() > spread
