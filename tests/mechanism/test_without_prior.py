"""Mechanisms that need no prior: every word through the sampler, exact levels by brute force, designs, estimates."""

import itertools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from tacit import Histogram, NotEstimableError, Prior, Survey, audit, satisfies
from tacit.designs import Promise
from tacit.designs.without_prior import MECHANISMS, TOLERANCE, best_without_prior, ldp_variance_bound
from tacit.exact import at_most_exp
from tacit.mechanism import BlockDesign, Counts, Coverage
from tacit.mechanism.block_design import FewReports
from tacit.mechanism.kept import COVERAGE_UNIT
from tacit.mechanism.sampling import RuleSampler
from tacit.mechanism.singer import difference_set, first_recurrence, meets_all_points, n_points, next_prime
from tacit.randomize.randomness import SecureWords, SeededWords

PLANE = {"circle": 7, "orders": 1, "field": 2, "recurrence": (1, 1, 0)}
SMALL = {
    "subsets": BlockDesign(prior=Prior.uniform(5), circle=5, orders=4, arc=2, step=7, word_bits=6),
    "fewer values than places": BlockDesign(prior=Prior.uniform(4), circle=7, orders=6, arc=3, step=5, word_bits=6),
    "plane": BlockDesign(prior=Prior.uniform(7), arc=3, step=6, word_bits=6, **PLANE),
    "complement": BlockDesign(prior=Prior.uniform(6), arc=4, step=6, word_bits=5, **PLANE),
    "k-ary": BlockDesign(prior=Prior.uniform(4), circle=4, orders=1, arc=1, step=9, word_bits=5),
    "four elements": BlockDesign(
        prior=Prior.uniform(8), circle=21, orders=1, arc=5, step=6, field=4, recurrence=(1, 1, 0, 0, 0, 0), word_bits=6
    ),
}
EPSILONS = [Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4)]


@lru_cache
def differences_of(mechanism: BlockDesign) -> set[int]:
    """D, from the definition: the recurrence one term after the other."""
    if not mechanism.field:
        return set(range(mechanism.arc))
    prime, power = next((p, k) for p in (2, 3, 5, 7, 11, 13, 19, 53) for k in range(1, 9) if p**k == mechanism.field)
    t, terms = len(mechanism.recurrence), [0] * (len(mechanism.recurrence) - 1) + [1]
    while len(terms) < power * mechanism.circle:
        terms.append(sum(c * u for c, u in zip(mechanism.recurrence, terms[-t:], strict=True)) % prime)
    zeros = {n for n in range(mechanism.circle) if not any(terms[n :: mechanism.circle])}
    return zeros if len(zeros) == mechanism.arc else set(range(mechanism.circle)) - zeros


def covered_by(mechanism: BlockDesign, report: int) -> set[int]:
    """The values that a report covers, from the definition."""
    order, position = divmod(report, mechanism.circle)
    differences = differences_of(mechanism)
    places = {x: ((order + 1) * x - position) % mechanism.circle for x in range(mechanism.size)}
    return {x for x, place in places.items() if place in differences}


def channel(mechanism: BlockDesign) -> list[list[Fraction]]:
    """Q(report|value) by counting words: bisection finds where each report's words begin."""
    words, n = 2**mechanism.word_bits, mechanism.circle * mechanism.orders
    edges = [next_word(report, n, words) for report in range(n + 1)]
    rows = [[Fraction(0)] * n for _ in range(mechanism.size)]
    base = words - mechanism.arc * mechanism.step
    for report in range(n):
        order = report // mechanism.circle
        in_order = edges[(order + 1) * mechanism.circle] - edges[order * mechanism.circle]
        covered = covered_by(mechanism, report)
        for x in range(mechanism.size):
            pairs = base * (edges[report + 1] - edges[report]) + mechanism.step * in_order * (x in covered)
            rows[x][report] = Fraction(pairs, words**2)
    return rows


def next_word(report: int, n: int, words: int) -> int:
    """The first word that gives this report or a later one."""
    low, high = 0, words
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if middle * n // words < report else (low, middle)
    return low


def drawn(mechanism: BlockDesign, truth: np.ndarray, seed: int) -> np.ndarray:
    words = SeededWords(seed).draw(len(truth) * mechanism.words_per_report, 64).reshape(len(truth), -1)
    return mechanism.draw_many(truth, words >> np.uint64(64 - mechanism.word_bits))


# -- exact sampling --------------------------------------------------------------------------------------------------


def sampler_of(*mechanisms: BlockDesign) -> RuleSampler:
    """Values with prior zero are randomized like any other."""
    return BlockDesign.sampler(
        [each.under(Prior(range(each.size), [1] + [0] * (each.size - 1))) for each in mechanisms]
    )


@pytest.mark.parametrize("name", SMALL)
def test_few_reports_are_drawn_from_the_table_of_the_same_probabilities(name: str) -> None:
    small = SMALL[name]
    table, bits = sampler_of(small).tables, 2 * small.word_bits
    for x, row in enumerate(channel(small)):
        counts = Counter(table.report_for(x, word << table.word_bits - bits) for word in range(1 << bits))
        assert [Fraction(counts[report], 1 << bits) for report in range(small.n_reports)] == row


def test_designs_that_are_used_are_tables_while_they_are_small() -> None:
    few, many = (MECHANISMS["subset-selection"](Prior.uniform(size), Fraction(1)) for size in (16, 100))
    assert [[Fraction(pairs, 2**128) for pairs in row] for row in few.pairs.tolist()] == channel(few)
    assert isinstance(sampler_of(few, few), FewReports)
    for others in ((many,), (few, many), (few,) * 20):
        assert not isinstance(sampler_of(*others), FewReports)
    pair = tuple(SeededWords(1).draw(2, 64).tolist())
    sampler, somebody, everybody = sampler_of(few), np.full(1, 3), np.full(2**17, 3)
    assert sampler.one(0, 3, SeededWords(1)) == sampler.many(somebody, somebody, SeededWords(1))[0] == few.draw(3, pair)
    reports = sampler.many(everybody, everybody, SecureWords())
    assert "tables" in vars(sampler)
    share = few.covers(reports, np.array([3])).mean()
    deviation = math.sqrt(few.own * (1 - few.own) / 2**17)
    # Six standard deviations: one in 5e8. Named wrong: whoever ignores the value.
    assert abs(share - few.own) < 6 * deviation < abs(few.arc / few.circle - few.own)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_many_reports_are_drawn_as_one(name: str, epsilon: Fraction) -> None:
    made = MECHANISMS[name](Prior.uniform(40), epsilon)
    values, rng = np.arange(40).repeat(3), np.random.default_rng(1)
    words = rng.integers(0, 2**64, (120, made.words_per_report), dtype=np.uint64) >> np.uint64(64 - made.word_bits)
    if isinstance(made, BlockDesign):
        edges = [0, made.base - 1, made.base, made.base + made.step - 1, 2**64 - 1]
        words[: len(edges), 0] = np.array(edges, dtype=np.uint64)
        words[:3, 1] = np.array([0, 2**64 - 1, 1], dtype=np.uint64)
    one_by_one = [made.draw(x, tuple(each)) for x, each in zip(values.tolist(), words.tolist(), strict=True)]
    assert made.draw_many(values, words).tolist() == one_by_one
    assert made.can_send_many(np.array(one_by_one)).all()
    assert all(map(made.can_send, one_by_one))


def test_reports_beyond_32_bits_are_drawn_and_counted_as_one() -> None:
    circle = next_prime(60_000_000)
    made = BlockDesign(prior=Prior.uniform(70), circle=circle, orders=circle - 1, arc=circle // 4, step=2**63 // circle)
    values, rng = np.arange(70), np.random.default_rng(1)
    words = rng.integers(0, 2**64, (70, 2), dtype=np.uint64)
    reports = made.draw_many(values, words)
    assert reports.tolist() == [made.draw(x, tuple(pair)) for x, pair in enumerate(words.tolist())]
    assert 2**51 < reports.max() < made.n_reports < 2**52
    direct = [
        sum(((report // made.circle + 1) * x - report % made.circle) % made.circle < made.arc for report in
            reports.tolist())
        for x in range(70)
    ]  # fmt: skip
    assert made.cover_counts(reports, None).tolist() == direct


# -- the promise -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_the_odds_are_those_of_the_written_channel(name: str) -> None:
    rows = channel(SMALL[name])
    assert max(max(column) / min(column) for column in zip(*rows, strict=True)) == SMALL[name].odds


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("size", [2, 5, 6, 9])
def test_designs_keep_ldp_over_all_reports_and_no_step_more_does(name: str, size: int) -> None:
    for epsilon in EPSILONS[:4]:
        made = MECHANISMS[name](Prior.uniform(size), epsilon)
        worst = max(max(column) / min(column) for column in zip(*channel(made), strict=True))
        assert worst <= made.odds
        assert at_most_exp(made.odds, epsilon)
        more = replace(made, step=made.step + 1)
        assert not satisfies(more, "ldp", epsilon)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("size", [13, 100, 3000])
def test_designs_of_any_size_keep_ldp(name: str, size: int) -> None:
    for epsilon in EPSILONS:
        made = MECHANISMS[name](Prior.uniform(size), epsilon)
        found = audit(made)
        assert found.ldp.holds(epsilon)
        assert not found.ldp.holds(epsilon * Fraction(999, 1000))
        assert made.n_reports < 2**53


# -- the designs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(2)])
def test_any_two_values_share_equally_many_reports(name: str, epsilon: Fraction) -> None:
    made = MECHANISMS[name](Prior.uniform(11), epsilon)
    of_value = [{report for report in range(made.n_reports) if x in covered_by(made, report)} for x in range(made.size)]
    assert {len(each) for each in of_value} == {made.orders * made.arc}
    shared = {len(a & b) for a, b in itertools.combinations(of_value, 2)}
    assert shared == {made.orders * made.arc * (made.arc - 1) // (made.circle - 1)}


@pytest.mark.parametrize(
    ("field", "dimension"), [(2, 3), (2, 5), (3, 3), (3, 4), (5, 3), (7, 3), (4, 3), (4, 4), (8, 3), (9, 3), (16, 3)]
)
def test_difference_sets_are_hyperplanes(field: int, dimension: int) -> None:
    prime, power = {4: (2, 2), 8: (2, 3), 9: (3, 2), 16: (2, 4)}.get(field, (field, 1))
    found, points = difference_set(field, first_recurrence(prime, power * dimension)), n_points(field, dimension)
    assert len(found) == n_points(field, dimension - 1)
    apart = Counter((a - b) % points for a in found.tolist() for b in found.tolist() if a != b)
    assert apart == dict.fromkeys(range(1, points), n_points(field, dimension - 2))


def test_a_recurrence_that_returns_early_is_refused() -> None:
    assert not meets_all_points(2, (1, 1, 1, 1))  # It returns after 5 of 15 points.
    with pytest.raises(ValueError, match="meet all points"):
        BlockDesign(prior=Prior.uniform(9), circle=15, orders=1, arc=7, step=1, field=2, recurrence=(1, 1, 1, 1))


@pytest.mark.parametrize("field", [1, 6, 12, 8, 8192])
def test_a_field_that_the_recurrence_is_not_of_is_refused(field: int) -> None:
    with pytest.raises(ValueError, match="difference set"):
        BlockDesign(
            prior=Prior.uniform(9), circle=21, orders=1, arc=5, step=1, field=field, recurrence=(1, 1, 0, 0, 0, 0)
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"circle": 9, "orders": 8}, "prime"),
        ({"orders": 1}, "prime"),
        ({"arc": 7}, "arc"),
        ({"prior": Prior.uniform(8)}, "hold"),
        ({"prior": Prior.uniform(1)}, "hold"),
        ({"step": 0}, "step"),
        ({"step": 2**63}, "step"),
        ({"word_bits": 65}, "word_bits"),
        ({"word_bits": 5}, "word_bits"),
    ],
)
def test_what_is_no_block_design_is_refused(change: dict[str, int], message: str) -> None:
    fine = {"prior": Prior.uniform(6), "circle": 7, "orders": 6, "arc": 3, "step": 9}
    assert BlockDesign(**fine).n_reports == 42
    with pytest.raises(ValueError, match=message):
        BlockDesign(**fine | change)


# -- what reports tell -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("epsilon", EPSILONS[:4])
def test_estimates_are_unbiased_for_every_answer_and_have_the_stated_variance(name: str, epsilon: Fraction) -> None:
    made = MECHANISMS[name](Prior.uniform(6), epsilon)
    rows = channel(made)
    readings = [made.read("unbiased", Histogram(), Counts.of([report])) for report in range(made.n_reports)]
    estimates = np.array([reading.estimate for reading in readings])
    p, q = float(made.own), float(made.other)
    for x in range(6):
        chances = np.array([float(chance) for chance in rows[x]])
        assert np.allclose(chances @ estimates, np.eye(6)[x], atol=1e-9)
        variance = chances @ estimates**2 - (chances @ estimates) ** 2
        stated = np.where(np.arange(6) == x, p * (1 - p), q * (1 - q)) / (p - q) ** 2
        assert np.allclose(variance, stated, rtol=1e-9)
    moved = np.ptp(estimates, axis=0).max()
    assert moved == pytest.approx(readings[0].changed)
    assert np.abs(estimates).max() == pytest.approx(readings[0].added)


def test_the_well_known_off_by_one_of_subset_selection_is_biased() -> None:
    """With k/d for (k−1)/(d−1), as if the others were drawn apart from the answer, all counts come out wrong."""
    made = MECHANISMS["subset-selection"](Prior.uniform(13), Fraction(1))
    share = Fraction(made.arc, made.circle)
    wrong = made.truthful * share + (1 - made.truthful) * share
    exact = sum(chance for report, chance in enumerate(channel(made)[0]) if 1 in covered_by(made, report))
    assert abs(exact - made.other) < Fraction(1, 2**50)
    assert abs(exact - wrong) > Fraction(1, 100)


@pytest.mark.parametrize("name", SMALL)
def test_the_mean_under_the_prior_uses_what_is_covered(name: str) -> None:
    small = SMALL[name]
    prior = Prior(range(small.size), [5, 1, 2, *[1] * (small.size - 3)])
    exact = replace(small, prior=prior, word_bits=64, step=small.step << 64 - small.word_bits)
    rows, p = np.array([[float(each) for each in row] for row in channel(exact)]), prior.probabilities
    for report in (0, small.n_reports - 1):
        kept = Counts.of([report])
        told = exact.read("mmse", Histogram(), kept).estimate
        for x in range(small.size):
            covered = [x in covered_by(small, each) for each in range(small.n_reports)]
            alike = [each for each in range(small.n_reports) if covered[each] == covered[report]]
            posterior = (p[x] * rows[x][alike].sum()) / (p @ rows[:, alike].sum(axis=1))
            assert told[x] == pytest.approx(posterior, rel=1e-9)
    assert 0 < exact.gain(Histogram()) < (p * (1 - p)).sum()


@pytest.mark.parametrize("name", MECHANISMS)
def test_intervals_cover_and_a_wrong_chance_is_found(name: str) -> None:
    """Squared errors over stated variances, of 40 rounds: a chi-square of 40 degrees for each value."""
    made, rounds, n = MECHANISMS[name](Prior.uniform(20), Fraction(1)), 40, 4000
    truth = np.minimum(np.random.default_rng(2).geometric(0.3, n) - 1, 19)
    counts = np.bincount(truth, minlength=20)
    # The named wrong answer: others are covered as often as if the report ignored the answer.
    ignored = made.arc / made.circle
    scores, wrong = np.zeros(20), np.zeros(20)
    for seed in range(rounds):
        folded = made.fold(drawn(made, truth, seed))
        reading = made.read("unbiased", Histogram(), Coverage(folded, n))
        scores += (reading.estimate - counts) ** 2 / reading.variance
        wrong_estimate = (folded / COVERAGE_UNIT - n * ignored) / (float(made.own) - ignored)
        wrong += (wrong_estimate - counts) ** 2 / reading.variance
    total = scores.sum()
    # 800 degrees: six standard deviations, a chance below 1e-8 even if values were independent.
    assert abs(total - 20 * rounds) < 6 * math.sqrt(2 * 20 * rounds * 2)
    assert wrong.sum() > 20 * rounds + 8 * math.sqrt(2 * 20 * rounds * 2)


@pytest.mark.parametrize("name", MECHANISMS)
def test_sums_of_any_split_add_up_and_are_those_of_the_definition(name: str) -> None:
    made = MECHANISMS[name](Prior.uniform(40), Fraction(1))
    reports = drawn(made, np.arange(400) % 40, 3)
    direct = np.zeros(40, dtype=np.int64)
    for report in reports.tolist():
        direct[list(covered_by(made, report))] += 1
    whole = made.fold(reports)
    assert (made.covers(reports).sum(axis=0) == direct).all()
    kept = Coverage(whole, 400)
    rows = made.pseudo_values(Histogram(), reports)
    assert np.allclose(rows.sum(axis=0), made.read("unbiased", Histogram(), kept).estimate)
    assert (whole == direct * COVERAGE_UNIT).all()
    assert (made.fold(reports[:7]) + made.fold(reports[7:]) == whole).all()
    different, times = np.unique(reports, return_counts=True)
    assert (made.fold(different, times) == whole).all()
    many = made.cover_counts(different, times << 40)
    assert (many == direct << 40).all()


@pytest.mark.parametrize("name", ["subset-selection", "projective"])
def test_more_reports_than_there_are_give_the_same_sums(name: str) -> None:
    made = MECHANISMS[name](Prior.uniform(7), Fraction(1))
    reports = drawn(made, np.arange(2000) % 7, 4)
    assert made.n_reports < len(reports)
    parts = [made.cover_counts(part, None) for part in np.array_split(reports, 200)]
    assert (made.cover_counts(reports, None) == np.sum(parts, axis=0)).all()


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_reports_add_nothing_but_ready_the_loop_that_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service folds none before it opens, so that nobody waits for a compiler within a transaction."""
    from tacit.mechanism.block_design import _kernels

    called, none, kept = [], np.zeros(0, dtype=np.int64), _kernels.arc_covers
    monkeypatch.setattr(_kernels, "arc_covers", lambda *args: called.append(kept(*args)))
    made = MECHANISMS[name](Prior.uniform(40), Fraction(1))
    assert not made.fold(none, none).any()
    assert len(called) == (made.counts_at_once is False)


def test_sums_of_something_else_are_refused() -> None:
    made = MECHANISMS["subset-selection"](Prior.uniform(13), Fraction(1))
    right = made.fold(drawn(made, np.arange(50) % 13, 1))
    assert made.read("unbiased", Histogram(), Coverage(right, 50)).estimate.sum() == pytest.approx(50)
    for wrong, total in ((right[1:], 50), (right + 1, 50), (right, 49), (right * 0, 50), (-right, 50)):
        with pytest.raises(ValueError, match="cannot be"):
            made.read("unbiased", Histogram(), Coverage(wrong, total))


def test_what_cannot_be_told_is_said() -> None:
    made = MECHANISMS["projective"](Prior.uniform(13), Fraction(1))
    nothing = Coverage(np.zeros(13, dtype=np.int64), 0)
    with pytest.raises(NotEstimableError, match="likelihood"):
        made.read("mle", Histogram(), nothing)
    with pytest.raises(NotEstimableError, match="histograms only"):
        made.read("unbiased", Survey(3), nothing)
    with pytest.raises(ValueError, match="made for 13 values"):
        made.under(Prior.uniform(14))
    assert not made.read("unbiased", Histogram(), nothing).variance.any()


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_true_prior_passes_its_check_and_a_wrong_one_does_not(name: str) -> None:
    prior = Prior(range(13), [20, 9, *[1] * 11])
    made = MECHANISMS[name](prior, Fraction(2))
    truth = np.random.default_rng(0).choice(13, 20_000, p=prior.probabilities)
    kept = Coverage(made.fold(drawn(made, truth, 0)), len(truth))
    statistic, degrees = made.prior_statistic(kept)
    assert degrees == 12
    assert statistic < 69.5  # 4e-10 of a chi-square of twelve degrees.
    assert made.under(Prior(range(13), [2, 9, *[1] * 11])).prior_statistic(kept)[0] > 69.5
    # The heaviest value has its share, but others have not.
    assert made.under(Prior(range(13), [20, 1, 9, *[1] * 10])).prior_statistic(kept)[0] > 69.5


@pytest.mark.parametrize(("name", "size"), [("subset-selection", 23), ("projective", 20)])
def test_correlations_of_the_check_are_those_of_the_written_channel(name: str, size: int) -> None:
    """In every direction to a few hundredths; without correlations a chi-square would be far off in some."""
    prior, values = Prior(range(size), [100 // (x + 1) + 1 for x in range(size)]), np.arange(16)
    made = MECHANISMS[name](prior, Fraction(1))
    every = np.arange(made.n_reports)
    likelihoods = np.array([[float(made.likelihood(x, y)) for y in every.tolist()] for x in range(size)])
    covered = made.covers(every, values).astype(float)
    off = covered - (marginal := prior.probabilities @ likelihoods) @ covered
    exact = off.T * marginal @ off
    exact /= np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    # Reports are drawn uniformly up to A·M/2^64.
    spread = np.linalg.eigvals(np.linalg.solve(exact, made._correlations(values))).real
    assert np.abs(spread - 1).max() < 0.06  # About 2√(16/2^16) = 0.031 is expected at most.
    assert np.abs(np.linalg.eigvals(np.linalg.solve(exact, np.eye(16))).real - 1).max() > 0.2


# -- how good they are -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3, 4, 7, 20, 101, 1000, 5000])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(2)])
def test_no_variance_is_below_the_bound_and_the_best_is_near_it(size: int, epsilon: Fraction) -> None:
    prior, bound = Prior.uniform(size), ldp_variance_bound(size, epsilon)
    for make in MECHANISMS.values():
        assert make(prior, epsilon).unbiased_variance(Histogram()) >= bound * (1 - 1e-9)
    _, best = best_without_prior(prior, epsilon)
    assert best.unbiased_variance(Histogram()) <= (1 + TOLERANCE) * bound


@pytest.mark.parametrize("size", [3, 5])
def test_the_bound_is_what_the_linear_program_finds(size: int) -> None:
    from tacit import design

    found = design(Prior.uniform(size), Histogram(), Promise(1, notion="ldp")).certificate.unbiased_variance
    assert found == pytest.approx(ldp_variance_bound(size, Fraction(1)), rel=2e-3)
