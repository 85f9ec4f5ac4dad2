"""What a shuffled circle's reports tell: sums that merge, the kernel against all orders, variances by simulation."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from tacit import Histogram, Prior
from tacit.designs.circles import design_shuffled_circle
from tacit.mechanism import ShuffledCircle
from tacit.mechanism.circle._rule import lay_out
from tacit.mechanism.kept import COVERAGE_UNIT, Counts, Coverage
from tacit.mechanism.protocol import PlainEstimator, Reading
from tacit.mechanism.shuffled_circle._information import circle_information

from support.circles import random_reports, simulated
from support.priors import named_prior


def read(circle: ShuffledCircle, estimator: PlainEstimator, prior: Prior, folded: np.ndarray, n: int) -> Reading:
    return circle.read(estimator, Histogram(), Coverage(folded, n))


# -- sums of coverage ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["zipf", "uniform", "dominated", "a cell each"])
@pytest.mark.parametrize("d", [2, 3, 40, 700])
def test_folding_adds_up_coverage_and_any_split_merges(kind: str, d: int) -> None:
    equal = kind == "a cell each"
    circle = design_shuffled_circle(named_prior("zipf" if equal else kind, d), 1, notion="ldp" if equal else "lip")
    rng = np.random.default_rng(d)
    reports = random_reports(circle, 300, rng)
    weights = rng.integers(1, 50, 300)
    units = [
        [round(Fraction(int(c) * COVERAGE_UNIT, n)) for c, n in zip(covered, circle.cells, strict=True)]
        for covered in map(circle.covered_cells, reports.tolist())
    ]
    folded = circle.fold(reports)
    # Halves may be rounded either way, and every piece of a value adds a unit's fraction.
    pieces = np.array(circle.pieces)
    assert (np.abs(folded - np.array(units).sum(axis=0)) <= 300 * pieces).all()
    assert (np.abs(circle.fold(reports, weights) - weights @ np.array(units)) <= weights.sum() * pieces).all()
    assert folded.dtype == np.int64
    assert (np.rint(circle.coverage(reports) * COVERAGE_UNIT).sum(axis=0) == folded).all()
    cut = [0, 1, 17, 17, 250, 300]
    assert (sum(circle.fold(reports[a:b]) for a, b in itertools.pairwise(cut)) == folded).all()
    assert (circle.fold(reports, np.ones(300, np.int64)) == folded).all()


def test_an_arc_covers_the_same_mass_whatever_the_order() -> None:
    for kind in ("dirichlet", "dominated"):
        circle = design_shuffled_circle(named_prior(kind, 30), 1)
        reports = random_reports(circle, 200, np.random.default_rng(0)).tolist()
        assert {int(circle.covered_cells(report).sum()) for report in reports} == {circle.arc}


# -- what reports tell -----------------------------------------------------------------------------------------------


def coverage_moments(cells: np.ndarray, pieces: np.ndarray, arc: int, orders: list[tuple[int, ...]]) -> np.ndarray:
    """The covariance of coverage over all positions and the given orders of the pieces, by enumeration."""
    circle, d = int(cells.sum()), len(cells)
    owners = np.repeat(np.arange(d), pieces)
    within = np.concatenate([np.arange(k) for k in pieces])
    sizes = (within + 1) * cells[owners] // pieces[owners] - within * cells[owners] // pieces[owners]
    total = np.zeros((d, d))
    for order in orders:
        owner = np.repeat(owners[list(order)], sizes[list(order)])
        covered = np.empty((d, circle))
        for x in range(d):
            running = np.concatenate([[0], np.cumsum(np.tile(owner == x, 2))])
            covered[x] = (running[arc : arc + circle] - running[:circle]) / cells[x]
        covered -= arc / circle
        total += covered @ covered.T / circle
    return total / len(orders)


@pytest.mark.parametrize(
    ("weights", "pieces"),
    [
        ((5, 4, 3, 2, 1), (1, 1, 1, 1, 1)),
        ((16, 1, 1, 1, 1), (1, 1, 1, 1, 1)),
        ((1, 1, 1, 1), (1, 1, 1, 1)),
        ((3, 7), (1, 1)),
        ((9, 9, 2, 2, 2, 1), (1, 1, 1, 1, 1, 1)),
        ((16, 2, 1, 1), (4, 1, 1, 1)),
        ((9, 5, 1), (3, 2, 1)),
    ],
)
def test_the_kernel_equals_the_average_over_all_orders(weights: tuple[int, ...], pieces: tuple[int, ...]) -> None:
    cells, k = np.array(lay_out(weights, 1 << 11)), np.array(pieces)
    orders = [(0, *rest) for rest in itertools.permutations(range(1, int(k.sum())))]
    found = circle_information(cells, k, 551, 1 << 11, 2.35)
    mine = found.coverage_covariance(np.arange(len(cells)))
    truth = coverage_moments(cells, k, 551, orders)
    assert np.abs(mine - truth).max() < 5e-6
    assert found.residual < 5e-6
    independent = np.diag(np.diag(truth))
    assert np.abs(independent - truth).max() > 1e-2
    if k.max() > 1:  # The named wrong way: as if values were whole.
        whole = circle_information(cells, np.ones_like(k), 551, 1 << 11, 2.35)
        assert np.abs(whole.coverage_covariance(np.arange(len(cells))) - truth).max() > 1e-2


def test_light_values_between_heavy_pieces_share_their_gap() -> None:
    """A value of 99.9% in four pieces: two others are covered together if they share a gap, with probability 2/5."""
    prior = Prior(range(20), [999 * 19, *[1] * 19])
    circle = design_shuffled_circle(prior, 1)
    m, p = float(circle.share), 1e-3 / 19
    assert circle.pieces[0] == 4
    # Distances are multiples j of the pieces' length s: j pieces lie between with probability 1/5 for j = 0, …, 4.
    s = (1 - 19 * p) / 4
    expected = sum(max(m - min(j * s, 1 - j * s), 0) for j in range(5)) / 5 - m**2
    found = circle.information.coverage_covariance(np.array([5, 6]))[0, 1]
    assert found == pytest.approx(expected, abs=4e-4)


def test_the_inverse_is_the_inverse() -> None:
    for prior in (named_prior("zipf", 300), named_prior("dominated", 12), named_prior("uniform", 20)):
        information = design_shuffled_circle(prior, 1).information
        everything = np.arange(len(prior))
        j = 1 + information.amplitude**2 * information.coverage_covariance(everything)
        assert j @ information.shares[information.which] == pytest.approx(np.ones(len(prior)), abs=1e-9)
        inverse = np.linalg.inv(j)
        assert information.inverse_diagonal() == pytest.approx(np.diag(inverse), rel=1e-7)
        assert information.inverse_row(1) == pytest.approx(inverse[1], rel=1e-6, abs=1e-8)


def test_one_fixed_order_tells_too_little() -> None:
    """The named wrong way: without seeds, arcs in one order leave a nearly singular J; shuffled ones do not."""
    prior = named_prior("uniform", 16)
    circle = design_shuffled_circle(prior, 1)
    cells = np.array(lay_out(prior.weights, 1 << 10))
    arc = round(circle.share * (1 << 10))
    one_order = 1 + float(circle.amplitude) ** 2 * coverage_moments(cells, np.ones(16, int), arc, [tuple(range(16))])
    fixed = np.trace(np.linalg.pinv(one_order, hermitian=True)) - 1 / 16
    shuffled = circle.unbiased_variance(Histogram())
    assert fixed > 4 * shuffled


@pytest.mark.parametrize("kind", ["zipf", "dominated"])
def test_the_variance_is_the_stated_one_and_not_ldps(kind: str) -> None:
    prior = named_prior(kind, 40)
    circle = design_shuffled_circle(prior, 1)
    assert circle.pieces[0] == {"zipf": 1, "dominated": 4}[kind]
    n, rounds = 2_000, 60
    squares = np.zeros(40)
    for seed in range(rounds):
        folded, counts = simulated(circle, prior.probabilities, n, seed)
        squares += (circle.unbiased_sums(folded, n) - counts) ** 2 / n / rounds
    answers_kept = circle.variances() - prior.probabilities * (1 - prior.probabilities)
    # 60 rounds of 40 nearly independent values: the mean of 2,400 squares is known to 3%.
    assert (squares / answers_kept).mean() == pytest.approx(1, abs=0.12)
    assert squares.sum() < 0.5 * 4 * np.e / (np.e - 1) ** 2 * 40
    many = 20_000
    reading = read(circle, "unbiased", prior, simulated(circle, prior.probabilities, many, 0)[0], many)
    assert (reading.variance / many / answers_kept) == pytest.approx(np.ones(40), abs=0.05)


@pytest.mark.parametrize("kind", ["zipf", "dominated"])
def test_the_variance_is_right_for_a_truth_far_from_the_prior(kind: str) -> None:
    prior = named_prior(kind, 10)
    circle = design_shuffled_circle(prior, 1)
    truth, n, rounds = prior.probabilities[::-1], 1500, 300
    squares = np.zeros(10)
    for seed in range(rounds):
        folded, counts = simulated(circle, truth, n, seed)
        squares += (circle.unbiased_sums(folded, n) - counts) ** 2 / rounds
    claimed = read(circle, "unbiased", prior, folded, n).variance
    assert squares / claimed == pytest.approx(np.ones(10), abs=0.5)
    # The mean over ten values and 300 rounds is known to 0.035.
    assert (squares / claimed).mean() == pytest.approx(1, abs=0.15)
    # The named wrong way, the variance at the prior less the answers' own, is too small.
    at_prior = n * (circle.variances() - prior.probabilities * (1 - prior.probabilities))
    assert (squares / at_prior).mean() > (squares / claimed).mean() + 0.05


@pytest.mark.parametrize(("kind", "notion"), [("zipf", "lip"), ("dominated", "lip"), ("dominated", "ldp")])
def test_the_unbiased_estimate_holds_under_another_truth_and_mmse_does_not(kind: str, notion: str) -> None:
    prior = named_prior(kind, 12)
    circle = design_shuffled_circle(prior, 1, notion=notion)
    truth = 0.45 * prior.probabilities + 0.55 * prior.probabilities[::-1]
    assert np.abs(truth - prior.probabilities).sum() / 2 > 0.25
    n = 1_000_000
    folded, counts = simulated(circle, truth, n, 7)
    reading = read(circle, "unbiased", prior, folded, n)
    off = (reading.estimate - counts) / np.sqrt(reading.variance)
    assert np.abs(off).max() < 6
    assert 0.2 < (off**2).mean() < 3
    posterior = read(circle, "mmse", prior, folded, n)
    assert np.abs((posterior.estimate - counts) / np.sqrt(posterior.variance)).max() > 100
    # The named wrong way: coverage as if values were covered independently.
    q, m = float(circle.amplitude), float(circle.share)
    spread = circle.information.spreads
    naive = n * circle.cell_array / circle.circle + (folded / COVERAGE_UNIT - m * n) / (q * spread)
    assert np.abs((naive - counts) / np.sqrt(reading.variance)).max() > 15
    statistic, freedom = circle.prior_statistic(Coverage(folded, n))
    assert freedom == 11
    assert statistic > 1000


@pytest.mark.parametrize(("kind", "notion"), [("zipf", "lip"), ("dominated", "lip"), ("dominated", "ldp")])
def test_the_prior_check_keeps_its_level_if_the_prior_is_right(kind: str, notion: str) -> None:
    prior = named_prior(kind, 40)
    circle = design_shuffled_circle(prior, 1, notion=notion)
    rng = np.random.default_rng(1)
    found = []
    for seed in range(40):
        answers = rng.choice(40, 5000, p=prior.probabilities)
        words = np.random.default_rng(seed).integers(0, 2**64 - 1, (5000, 2), dtype=np.uint64, endpoint=True)
        folded = circle.fold(circle.draw_many(answers, words))
        found.append(circle.prior_statistic(Coverage(folded, 5000)))
    # Equal cells add up to the same whatever is covered.
    expected = 15 if notion == "ldp" else 16
    assert {freedom for _, freedom in found} == {expected}
    assert np.mean([statistic for statistic, _ in found]) == pytest.approx(expected, abs=5)


def test_mmse_is_the_posterior_mean() -> None:
    prior = Prior(range(4), [4, 4, 5, 3])
    circle = design_shuffled_circle(prior, 1, cell_bits=4, seed_bits=4, word_bits=20)
    assert circle.cell_error == 0
    reports = np.arange(1 << 8)
    likelihood = np.array([[float(circle.likelihood(x, y)) for y in reports.tolist()] for x in range(4)])
    posterior = likelihood * prior.probabilities[:, None] / (prior.probabilities @ likelihood)
    times = np.arange(256.0) % 5
    received = Counts.of(reports, times=times.astype(np.int64))
    reading = circle.read("mmse", Histogram(), received)
    assert reading.estimate == pytest.approx(posterior @ times, rel=1e-3)
    marginal = prior.probabilities @ likelihood
    gain = ((posterior - prior.probabilities[:, None]) ** 2 @ marginal).sum()
    # Sixteen orders of 2^4 seeds are all that this small circle has, and D does not depend on the order.
    assert circle.gain(Histogram()) == pytest.approx(gain, rel=1e-2)


def test_with_a_cell_each_the_moments_under_the_prior_are_those_over_all_subsets() -> None:
    prior = named_prior("dominated", 9)
    circle = design_shuffled_circle(prior, 1, notion="ldp")
    p, q, m, folds = prior.probabilities, float(circle.amplitude), float(circle.share), np.zeros((84, 9), np.int64)
    subsets = list(itertools.combinations(range(9), circle.arc))
    folds = np.zeros((len(subsets), 9), np.int64)
    for row, subset in zip(folds, subsets, strict=True):
        row[list(subset)] = COVERAGE_UNIT
    covered = folds / COVERAGE_UNIT
    weight = (1 + q * (covered @ p - m)) / len(subsets)
    z = np.array([circle.unbiased_sums(row, 1) for row in folds])
    assert weight @ z == pytest.approx(p, abs=1e-9)
    assert circle.variances() == pytest.approx(weight @ z**2 - p**2, rel=1e-9)
    best = np.array([read(circle, "mmse", prior, row, 1).estimate for row in folds])
    held = p * (1 + q * (covered - m)) / len(subsets)  # Pr(x and this subset).
    error = p - 2 * (held * best).sum(axis=0) + weight @ best**2
    assert p * (1 - p) - circle.gains() == pytest.approx(error, rel=1e-9)
    # No line in the coverage of a value does better: the error is least at the stated one.
    other = p + 1.1 * (best - p)
    assert (p - 2 * (held * other).sum(axis=0) + weight @ other**2 > error).all()


def test_influence_bounds_what_one_report_moves() -> None:
    prior = named_prior("zipf", 10)
    circle = design_shuffled_circle(prior, 1)
    reports = random_reports(circle, 150, np.random.default_rng(0)).tolist()
    each = np.array([circle.unbiased_sums(circle.fold(np.array([report])), 1) for report in reports])
    found = read(circle, "unbiased", prior, circle.fold(np.array(reports)), 150)
    assert 0.5 * found.changed < np.ptp(each, axis=0).max() <= found.changed
    # Coverage is counted in units of 2^-20.
    assert 0.5 * found.added < np.abs(each).max() <= found.added * (1 + 1e-5)
    trusting = read(circle, "mmse", prior, circle.fold(np.array(reports)), 150)
    means = [read(circle, "mmse", prior, circle.fold(np.array([report])), 1).estimate for report in reports]
    assert np.ptp(means, axis=0).max() <= trusting.changed
    assert np.abs(means).max() <= trusting.added * (1 + 1e-5)
