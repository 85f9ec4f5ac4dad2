"""The shuffled circle: every word through the sampler, exact levels by brute force, the kernel against all orders."""

import itertools
import json
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from tacit import Histogram, Prior, Survey
from tacit.designs.shuffled_circle import best_share, design_shuffled_circle, unbiased_variance_bound
from tacit.exact import at_most_exp, exp_below
from tacit.mechanism.protocol import Covered, Estimator, NotEstimableError, Reading, Received
from tacit.mechanism.shuffled_circle import COVERAGE_UNIT, ShuffledCircle
from tacit.mechanism.shuffled_circle_information import circle_information
from tacit.mechanism.shuffled_circle_rule import keys_of, lay_out
from tacit.randomize.randomness import SeededWords

from support.priors import named_prior

SMALL = {
    "four values": ShuffledCircle((3, 1, 2, 2), arc=2, step=9, cell_bits=3, seed_bits=4, word_bits=7),
    "rounded": ShuffledCircle((20, 1, 2, 30, 1), arc=3, step=7, cell_bits=3, seed_bits=4, word_bits=7),
    "no power of two": ShuffledCircle((5, 6, 5), arc=5, step=4, cell_bits=4, seed_bits=2, word_bits=7),
    "long arc": ShuffledCircle((1, 6, 1), arc=7, step=3, cell_bits=3, seed_bits=2, word_bits=6),
    "one value": ShuffledCircle((4,), arc=1, step=5, cell_bits=2, seed_bits=4, word_bits=6),
    "one order": ShuffledCircle((3, 2, 2, 1), arc=3, step=9, cell_bits=3, seed_bits=0, word_bits=6),
}


class IgnoresTheCell(ShuffledCircle):
    """A wrong sampler: the arc always covers the first cell of the value, so values are not cut evenly."""

    def draw(self, value: int, words: tuple[int, int]) -> int:
        half = self.seed_bits // 2
        if words[0] >> half < self.base:
            return super().draw(value, words)
        return super().draw(value, (words[0], words[1] & (1 << half) - 1))


class OneWordLess(ShuffledCircle):
    """A wrong sampler: an off-by-one in the comparison of word 1 with `base`."""

    def draw(self, value: int, words: tuple[int, int]) -> int:
        half = self.seed_bits // 2
        return super().draw(value, (max(words[0] - (1 << half), words[0] & (1 << half) - 1), words[1]))


def reports_of(circle: ShuffledCircle) -> range:
    return range(1 << circle.seed_bits + circle.cell_bits)


def all_words(circle: ShuffledCircle) -> itertools.product:
    return itertools.product(range(1 << circle.word_bits), repeat=2)


def stated(circle: ShuffledCircle, value: int) -> Counter[int]:
    return Counter({report: circle.word_pairs(value, report) for report in reports_of(circle)})


def keeps(circle: ShuffledCircle, epsilon: Fraction, radius: Fraction) -> bool:
    """Whether the exact bounds stay within ε for the whole ball."""
    highest, lowest = circle.lift_range(radius)
    return at_most_exp(max(highest, 1 / lowest), epsilon)


def read(circle: ShuffledCircle, estimator: Estimator, prior: Prior, folded: np.ndarray, n: int) -> Reading:
    return circle.read(estimator, prior, Histogram(), Covered(folded, n))


# -- exact sampling --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_every_word_gives_the_stated_counts(name: str) -> None:
    circle = SMALL[name]
    words = np.array(list(all_words(circle)), np.uint64)
    for value in range(len(circle.weights)):
        drawn = circle.draw_many(np.full(len(words), value), words)
        assert Counter(drawn.tolist()) == stated(circle, value)
        some = slice(0, None, 61)
        assert drawn[some].tolist() == [circle.draw(value, tuple(pair)) for pair in words[some].tolist()]


@pytest.mark.parametrize("wrong", [IgnoresTheCell, OneWordLess])
def test_the_enumeration_rejects_a_wrong_sampler(wrong: type[ShuffledCircle]) -> None:
    circle = wrong((3, 1, 2, 2), arc=2, step=9, cell_bits=3, seed_bits=2, word_bits=6)
    assert Counter(circle.draw(0, words) for words in all_words(circle)) != stated(circle, 0)


@pytest.mark.parametrize("name", SMALL)
def test_the_seed_is_uniform_whatever_the_answer(name: str) -> None:
    circle = SMALL[name]
    for value in range(len(circle.weights)):
        by_seed = Counter()
        for report, count in stated(circle, value).items():
            by_seed[report >> circle.cell_bits] += count
        assert set(by_seed.values()) == {1 << 2 * circle.choice_bits}


def test_scalar_and_compiled_sampler_agree_at_full_length() -> None:
    rng = np.random.default_rng(5)
    for d in (1, 2, 77):
        circle = design_shuffled_circle(named_prior("zipf", d), 1)
        values = rng.integers(0, d, 500)
        words = rng.integers(0, 2**64 - 1, (500, 2), dtype=np.uint64, endpoint=True)
        words[:4] = list(itertools.product((0, 2**64 - 1), repeat=2))
        expected = [circle.draw(v, tuple(w)) for v, w in zip(values.tolist(), words.tolist(), strict=True)]
        assert circle.draw_many(values, words).tolist() == expected
        assert circle.can_send_many(np.array(expected)).all()


# -- the promise -----------------------------------------------------------------------------------------------------


def worst_means(prior: list[Fraction], column: list[int], radius: Fraction) -> tuple[Fraction, Fraction]:
    """The least and the largest mean of a column over the ball: mass moves from one end of the order to the other."""
    means = []
    for sign in (1, -1):
        order = sorted(range(len(column)), key=lambda x: sign * column[x])
        moved, left = list(prior), radius
        for x in reversed(order):
            taken = min(left, moved[x])
            moved[x] -= taken
            moved[order[0]] += taken
            left -= taken
        means.append(sum(p * n for p, n in zip(moved, column, strict=True)))
    return means[0], means[1]


def brute_range(circle: ShuffledCircle, radius: Fraction) -> tuple[Fraction, Fraction]:
    prior = [Fraction(w, sum(circle.weights)) for w in circle.weights]
    highest, lowest = Fraction(0), Fraction(1)
    for report in reports_of(circle):
        column = [circle.word_pairs(x, report) for x in range(len(prior))]
        least, most = worst_means(prior, column, radius)
        highest, lowest = max(highest, max(column) / least), min(lowest, min(column) / most)
    return highest, lowest


@pytest.mark.parametrize("radius", [Fraction(0), Fraction(1, 20), Fraction(1, 3), Fraction(1)])
@pytest.mark.parametrize("name", SMALL)
def test_the_range_of_lifts_holds_for_every_report_value_and_prior_of_the_ball(name: str, radius: Fraction) -> None:
    highest, lowest = SMALL[name].lift_range(radius)
    true_highest, true_lowest = brute_range(SMALL[name], radius)
    assert true_highest <= highest
    assert lowest <= true_lowest


def test_the_range_of_lifts_is_reached_and_without_the_cells_error_it_would_be_wrong() -> None:
    exact = ShuffledCircle((4, 4, 4, 4), arc=4, step=3, cell_bits=4, seed_bits=2, word_bits=16)
    assert exact.cell_error == 0
    for radius in (Fraction(0), Fraction(1, 10)):
        reached = zip(exact.lift_range(radius), brute_range(exact, radius), strict=True)
        assert all(abs(float(bound / true) - 1) < 1e-4 for bound, true in reached)
    rounded = ShuffledCircle((20, 1, 2, 30, 1), arc=3, step=4000, cell_bits=3, seed_bits=4, word_bits=16)
    naive = (1 + (1 - rounded.share) * rounded.amplitude, 1 - rounded.share * rounded.amplitude)
    true_highest, true_lowest = brute_range(rounded, Fraction(0))
    assert true_highest > naive[0] * (1 + Fraction(1, 100)) or true_lowest < naive[1] * (1 - Fraction(1, 100))


def test_the_ldp_level_is_the_largest_ratio_of_two_values() -> None:
    circle = SMALL["four values"]
    ratios = []
    for report in reports_of(circle):
        column = [circle.word_pairs(x, report) for x in range(4)]
        ratios.append(Fraction(max(column), min(column)))
    assert max(ratios) == circle.odds


def test_designs_pass_the_exact_audit_and_one_step_more_does_not() -> None:
    rng = random.Random(4)
    for _ in range(60):
        weights = [rng.choice([1, 2, 5, 30, 1000]) for _ in range(rng.randint(1, 40))]
        prior = Prior(range(len(weights)), weights)
        epsilon, radius = Fraction(rng.randint(1, 60), 10), rng.choice([Fraction(0), Fraction(1, 50), Fraction(3, 10)])
        circle = design_shuffled_circle(prior, epsilon, radius)
        assert keeps(circle, epsilon, radius)
        more = ShuffledCircle(circle.weights, circle.arc, circle.step + 1)
        assert not keeps(more, epsilon, radius)
        ldp = design_shuffled_circle(prior, epsilon, notion="ldp")
        assert ldp.keeps(prior, "ldp", epsilon)
        assert keeps(ldp, epsilon, Fraction(1))


def test_the_closed_form_of_the_share_is_the_best_of_a_search() -> None:
    grid = np.arange(1, 4000) / 4000
    for epsilon in (0.2, 1.0, 3.0):
        e = np.exp(epsilon)
        for off in (0.0, 0.003, 0.1, 0.4, 0.7, 1.0):
            load = (e - 1) * grid + np.maximum(1 - e * np.maximum(grid - off, 0), np.minimum(grid + off, 1))
            m = float(best_share(exp_below(Fraction(epsilon)), Fraction(off)))
            mine = (e - 1) * m + max(1 - e * max(m - off, 0), min(m + off, 1))
            assert m * (1 - m) / mine**2 >= (grid * (1 - grid) / load**2).max() * (1 - 1e-9)
    assert float(best_share(exp_below(Fraction(1)), Fraction(1, 100))) == pytest.approx(
        (1 + (np.e - 1) / 100) / (np.e + 1)
    )


def test_the_layout_is_exact_and_leaves_nobody_out() -> None:
    rng = random.Random(9)
    for _ in range(200):
        weights = [rng.choice([1, 3, 10, 10**6, 10**12]) for _ in range(rng.randint(1, 30))]
        cells = lay_out(weights, 64)
        assert sum(cells) == 64
        assert min(cells) >= 1
        assert all(
            a >= b for a, b in itertools.product(cells, cells) if weights[cells.index(a)] > weights[cells.index(b)]
        )
    assert lay_out([1, 1, 2], 8) == (2, 2, 4)
    circle = ShuffledCircle((1, 1, 1), arc=1, step=1, cell_bits=3)
    assert (circle.cells, circle.cell_error) == ((3, 3, 2), Fraction(1, 12))


# -- sums of coverage ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["zipf", "uniform", "dominated"])
@pytest.mark.parametrize("d", [2, 3, 40, 700])
def test_folding_adds_up_coverage_and_any_split_merges(kind: str, d: int) -> None:
    circle = design_shuffled_circle(named_prior(kind, d), 1)
    rng = np.random.default_rng(d)
    reports = rng.integers(0, 1 << 52, 300)
    weights = rng.integers(1, 50, 300)
    units = [
        [round(Fraction(int(c) * COVERAGE_UNIT, n)) for c, n in zip(covered, circle.cells, strict=True)]
        for covered in map(circle.covered_cells, reports.tolist())
    ]
    folded = circle.fold(reports)
    assert np.abs(folded - np.array(units).sum(axis=0)).max() <= 300  # Halves may be rounded either way.
    assert np.abs(circle.fold(reports, weights) - weights @ np.array(units)).max() <= weights.sum()
    assert folded.dtype == np.int64
    cut = [0, 1, 17, 17, 250, 300]
    assert (sum(circle.fold(reports[a:b]) for a, b in itertools.pairwise(cut)) == folded).all()
    assert (circle.fold(reports, np.ones(300, np.int64)) == folded).all()


def test_an_arc_covers_the_same_mass_whatever_the_order() -> None:
    circle = design_shuffled_circle(named_prior("dirichlet", 30), 1)
    rng = np.random.default_rng(0)
    assert {int(circle.covered_cells(y).sum()) for y in rng.integers(0, 1 << 52, 200).tolist()} == {circle.arc}


def test_keys_are_a_permutation_that_no_progression_survives() -> None:
    """Values one after another: with the keys a·x + b, 0, 1, 2 would keep equal distances on every circle."""
    seeds = np.random.default_rng(2).integers(0, 1 << 24, 4000).tolist()
    keys = np.array([keys_of(seed, 64) for seed in seeds])
    assert all(len(set(row)) == 64 for row in keys[:50].tolist())
    around = (keys[:, 2].astype(np.int64) - 2 * keys[:, 1] + keys[:, 0]) % 2**32 / 2**32
    assert abs(np.exp(2j * np.pi * around).mean()) < 6 / np.sqrt(len(seeds))


# -- what reports tell -----------------------------------------------------------------------------------------------


def coverage_moments(cells: np.ndarray, arc: int, orders: list[tuple[int, ...]]) -> np.ndarray:
    """The covariance of coverage over all positions and the given orders, by enumeration."""
    circle, d = int(cells.sum()), len(cells)
    total = np.zeros((d, d))
    for order in orders:
        owner = np.repeat(np.array(order), cells[list(order)])
        covered = np.empty((d, circle))
        for x in range(d):
            running = np.concatenate([[0], np.cumsum(np.tile(owner == x, 2))])
            covered[x] = (running[arc : arc + circle] - running[:circle]) / cells[x]
        covered -= arc / circle
        total += covered @ covered.T / circle
    return total / len(orders)


@pytest.mark.parametrize("weights", [(5, 4, 3, 2, 1), (16, 1, 1, 1, 1), (1, 1, 1, 1), (3, 7), (9, 9, 2, 2, 2, 1)])
def test_the_kernel_equals_the_average_over_all_orders(weights: tuple[int, ...]) -> None:
    cells = np.array(lay_out(weights, 1 << 11))
    orders = [(0, *rest) for rest in itertools.permutations(range(1, len(cells)))]
    found = circle_information(cells, 551, 1 << 11, 2.35)
    mine = found.coverage_covariance(np.arange(len(cells)))
    truth = coverage_moments(cells, 551, orders)
    assert np.abs(mine - truth).max() < 5e-6
    assert found.residual < 5e-6
    independent = np.diag(np.diag(truth))
    assert np.abs(independent - truth).max() > 1e-2


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
    one_order = 1 + float(circle.amplitude) ** 2 * coverage_moments(cells, arc, [tuple(range(16))])
    fixed = np.trace(np.linalg.pinv(one_order, hermitian=True)) - 1 / 16
    shuffled = circle.unbiased_variance(prior, Histogram())
    assert fixed > 5 * shuffled


LIMIT = np.e / (np.e - 1) ** 2


@pytest.mark.parametrize("d", [50, 200, 1000, 5000])
def test_every_value_costs_a_quarter_of_ldp(d: int) -> None:
    lognormal = np.exp(np.random.default_rng(3).normal(size=d))
    for prior in (named_prior("zipf", d), Prior(range(d), [1 + int(10**6 * w) for w in lognormal])):
        circle = design_shuffled_circle(prior, 1)
        assert circle.variances().max() <= 1.1 * LIMIT
        total = circle.unbiased_variance(prior, Histogram())
        assert unbiased_variance_bound(prior, 1) <= total <= 1.13 * unbiased_variance_bound(prior, 1)


def test_no_variance_falls_below_its_bound() -> None:
    for kind, d in itertools.product(("zipf", "dirichlet", "uniform", "dominated"), (2, 3, 8, 60)):
        for radius in (0, Fraction(1, 50), Fraction(1, 4)):
            prior = named_prior(kind, d)
            bound = unbiased_variance_bound(prior, 1, radius)
            assert 0 < bound <= design_shuffled_circle(prior, 1, radius).unbiased_variance(prior, Histogram())
    # Two values, where the bound is the best binary channel: 30% at ε = 1 varies by 1.05 each.
    assert unbiased_variance_bound(Prior.of({"yes": 3, "no": 7}), 1) / 2 == pytest.approx(0.5256, abs=1e-3)


def simulated(circle: ShuffledCircle, truth: np.ndarray, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums of coverage of `n` respondents who hold each value as often as `truth` says, and how often that is."""
    counts = np.floor(truth * n).astype(np.int64)
    counts[0] += n - counts.sum()
    words = np.random.default_rng(seed).integers(0, 2**64 - 1, (n, 2), dtype=np.uint64, endpoint=True)
    return circle.fold(circle.draw_many(np.repeat(np.arange(len(truth)), counts), words)), counts


def test_the_variance_is_the_stated_one_and_not_ldps() -> None:
    prior = named_prior("zipf", 40)
    circle = design_shuffled_circle(prior, 1)
    n, rounds = 20_000, 60
    squares = np.zeros(40)
    for seed in range(rounds):
        folded, counts = simulated(circle, prior.probabilities, n, seed)
        squares += (circle.unbiased_sums(folded, n) - counts) ** 2 / n / rounds
    answers_kept = circle.variances() - prior.probabilities * (1 - prior.probabilities)
    # 60 rounds of 40 nearly independent values: the mean of 2,400 squares is known to 3%.
    assert (squares / answers_kept).mean() == pytest.approx(1, abs=0.12)
    assert squares.sum() < 0.5 * 4 * LIMIT * 40
    reading = read(circle, "unbiased", prior, folded, n)
    assert (reading.variance / n / answers_kept) == pytest.approx(np.ones(40), abs=0.05)


@pytest.mark.parametrize("kind", ["zipf", "dominated"])
def test_the_variance_is_right_for_a_truth_far_from_the_prior(kind: str) -> None:
    prior = named_prior(kind, 10)
    circle = design_shuffled_circle(prior, 1)
    truth, n, rounds = prior.probabilities[::-1], 4000, 300
    squares = np.zeros(10)
    for seed in range(rounds):
        folded, counts = simulated(circle, truth, n, seed)
        squares += (circle.unbiased_sums(folded, n) - counts) ** 2 / rounds
    claimed = read(circle, "unbiased", prior, folded, n).variance
    assert squares / claimed == pytest.approx(np.ones(10), abs=0.5)
    # The mean over ten values and 300 rounds is known to 0.035.
    assert (squares / claimed).mean() == pytest.approx(1, abs=0.15)
    if kind == "dominated":
        # The named wrong way, the variance at the prior less the answers' own, is a half too small here; for Zipf's
        # prior it is an eighth too small, which this many rounds do not tell apart.
        at_prior = n * (circle.variances() - prior.probabilities * (1 - prior.probabilities))
        assert (squares / at_prior).mean() > 1.3


def test_the_unbiased_estimate_holds_under_another_truth_and_mmse_does_not() -> None:
    prior = named_prior("zipf", 12)
    circle = design_shuffled_circle(prior, 1)
    truth = 0.45 * prior.probabilities + 0.55 * prior.probabilities[::-1]
    assert np.abs(truth - prior.probabilities).sum() / 2 > 0.25
    n = 3_000_000
    folded, counts = simulated(circle, truth, n, 7)
    reading = read(circle, "unbiased", prior, folded, n)
    off = (reading.estimate - counts) / np.sqrt(reading.variance)
    assert np.abs(off).max() < 6
    assert 0.2 < (off**2).mean() < 3
    posterior = read(circle, "mmse", prior, folded, n)
    assert np.abs((posterior.estimate - counts) / np.sqrt(posterior.variance)).max() > 100
    # The named wrong way: coverage as if values were covered independently.
    q, m = float(circle.amplitude), float(circle.share)
    spread = circle.information.spread[circle.information.which]
    naive = n * prior.probabilities + (folded / COVERAGE_UNIT - m * n) / (q * spread)
    assert np.abs((naive - counts) / np.sqrt(reading.variance)).max() > 20
    statistic, freedom = circle.prior_statistic(prior, Covered(folded, n))
    assert freedom == 11
    assert statistic > 1000


def test_the_prior_check_keeps_its_level_if_the_prior_is_right() -> None:
    prior = named_prior("zipf", 40)
    circle = design_shuffled_circle(prior, 1)
    rng = np.random.default_rng(1)
    found = []
    for seed in range(40):
        answers = rng.choice(40, 5000, p=prior.probabilities)
        words = np.random.default_rng(seed).integers(0, 2**64 - 1, (5000, 2), dtype=np.uint64, endpoint=True)
        folded = circle.fold(circle.draw_many(answers, words))
        found.append(circle.prior_statistic(prior, Covered(folded, 5000)))
    assert {freedom for _, freedom in found} == {16}
    assert np.mean([statistic for statistic, _ in found]) == pytest.approx(16, abs=5)


def test_mmse_is_the_posterior_mean() -> None:
    prior = Prior(range(4), [8, 4, 2, 2])
    circle = design_shuffled_circle(prior, 1, cell_bits=4, seed_bits=4, word_bits=20)
    assert circle.cell_error == 0
    reports = np.arange(1 << 8)
    likelihood = np.array([[float(circle.likelihood(x, y)) for y in reports.tolist()] for x in range(4)])
    posterior = likelihood * prior.probabilities[:, None] / (prior.probabilities @ likelihood)
    times = np.arange(256.0) % 5
    received = Received(reports, times, times, times)
    reading = circle.read("mmse", prior, Histogram(), received)
    assert reading.estimate == pytest.approx(posterior @ times, rel=1e-3)
    marginal = prior.probabilities @ likelihood
    gain = ((posterior - prior.probabilities[:, None]) ** 2 @ marginal).sum()
    # Sixteen orders of 2^4 seeds are all that this small circle has, and D does not depend on the order.
    assert circle.gain(prior, Histogram()) == pytest.approx(gain, rel=1e-2)


def test_influence_bounds_what_one_report_moves() -> None:
    prior = named_prior("zipf", 10)
    circle = design_shuffled_circle(prior, 1)
    reports = np.random.default_rng(0).integers(0, 1 << 52, 150).tolist()
    moved = np.ptp([circle.unbiased_sums(circle.fold(np.array([report])), 1) for report in reports], axis=0).max()
    influence = read(circle, "unbiased", prior, circle.fold(np.array(reports)), 150).influence
    assert 0.5 * influence < moved <= influence


# -- the contract ----------------------------------------------------------------------------------------------------


def test_values_outside_the_support_send_a_stand_ins_report() -> None:
    prior = Prior.of({"a": 3, "never": 0, "b": 1})
    circle = design_shuffled_circle(prior, 1)
    sampler = ShuffledCircle.sampler([circle], [prior])
    assert circle.can_send(sampler.one(0, 1, SeededWords(3)))
    reports = sampler.many(np.zeros(2000, np.int64), np.arange(2000) % 3, SeededWords(3))
    assert circle.can_send_many(reports).all()
    received = Received(reports, *np.ones((3, 2000)))
    unbiased = circle.read("unbiased", prior, Histogram(), received)
    assert np.isnan(unbiased.estimate).tolist() == [False, True, False]
    assert circle.read("mmse", prior, Histogram(), received).estimate[1] == 0
    # Two thirds of the respondents hold "a" and "b" in equal parts, one third a stand-in for them.
    assert unbiased.estimate[0] == pytest.approx(2000 * (1 / 3 + 1 / 4), abs=6 * np.sqrt(unbiased.variance[0]))


def test_a_plan_holds_five_integers_and_no_other() -> None:
    prior = named_prior("zipf", 30)
    circle = design_shuffled_circle(prior, 1, Fraction(1, 100))
    data = json.loads(json.dumps(circle.to_dict()))
    assert data.pop("kind") == "shuffled-circle"
    assert all(type(number) is int and 0 <= number < 2**53 for number in data.values())
    assert ShuffledCircle.from_dict(data, prior) == circle
    for name, wrong in (
        ("arc", 0),
        ("arc", 2**28),
        ("step", "7"),
        ("step", 2**52),
        ("seed_bits", 23),
        ("word_bits", 65),
    ):
        with pytest.raises(ValueError, match="must"):
            ShuffledCircle.from_dict({**data, name: wrong}, prior)
    with pytest.raises(ValueError, match="another prior"):
        circle.audit(named_prior("zipf", 31))
    assert not circle.can_send(1 << 52)
    assert not circle.can_send(-1)


def test_what_it_does_not_serve_is_refused() -> None:
    prior = named_prior("zipf", 5)
    circle = design_shuffled_circle(prior, 1)
    received = Received(np.array([5]), *np.ones((3, 1)))
    with pytest.raises(NotEstimableError, match="histograms only"):
        circle.read("mmse", prior, Survey(0), received)
    with pytest.raises(NotEstimableError, match="likelihood"):
        circle.read("mle", prior, Histogram(), received)
    with pytest.raises(ValueError, match="positive"):
        design_shuffled_circle(prior, 0)
    one = design_shuffled_circle(Prior.of({"all": 1}), 1)
    assert one.read("unbiased", Prior.of({"all": 1}), Histogram(), received).estimate == [1]
