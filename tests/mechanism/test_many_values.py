"""The mechanism `many-values`: every word enumerated, the audit from the definitions, J and estimates without bias."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from scipy.stats import norm

from tacit.designs import design
from tacit.designs._many_values import (
    best_share,
    design_many_values,
    design_with_bins,
    gain_bound,
    giants_alone,
    rows_of_table,
    unbiased_variance_bound,
)
from tacit.designs._program.with_rest import best_table
from tacit.exact import exp_below
from tacit.mechanism import Coverage
from tacit.mechanism.kept import COVERAGE_UNIT
from tacit.mechanism.many_values import MARGIN_UNIT, ManyValues
from tacit.mechanism.many_values._circle import lay_out
from tacit.mechanism.many_values._shuffled import ShuffledCircle, circle_information, keys_of
from tacit.mechanism.singer import first_full_recurrence, terms_of
from tacit.prior import Prior
from tacit.task import Histogram

from support.priors import named_prior

PRIOR = Prior.of({"a": 6, "b": 5, "c": 2, "d": 1, "e": 1, "f": 1})
PLANE = {"slots": 3, "first": 1, "second": 1}


#: Of these values the cells are not what the prior has.
UNEVEN = Prior.of({"a": 31, "b": 23, "c": 9, "d": 5, "e": 2, "f": 1})


def small(prior: Prior = PRIOR, **numbers: int) -> ManyValues:
    rule = {"giants": 2, "covered": 5, "arc": 4, "step": 6, "cell_bits": 4, "seed_bits": 2, "word_bits": 6}
    return giants_alone(prior=prior, **{**rule, **numbers})


def table(rows: tuple[tuple[int, ...], ...], **numbers: int) -> ManyValues:
    """A rule with this table of the values of 6, 5 and 2 cells, and three of one cell on the circle."""
    rule = {"giants": 3, "covered": 4, "arc": 2, "step": 12, "cell_bits": 4, "seed_bits": 2, "word_bits": 6}
    return ManyValues(prior=PRIOR, rows=rows, **{**rule, **numbers})


#: Rows that cover two giants, one of them whole and one in part; 24, 20 and 8 words of 64 for 4 cells each in the mean.
ROWS = ((8, 1, 1, 2), (8, 1, 0, 1, 1, 1), (8, 1, 2, 2), (8, 0, 0, 2, 2, 2), (18, 0, 0, 4), (14, 0, 1, 4))


SMALL = {
    "shuffled": small(),
    "plane": small(**PLANE),
    "lines": small(**PLANE, light=2),
    "one giant": small(giants=1, arc=5, step=5),
    "names alone": small(giants=2, covered=4, arc=4, step=6),
    "no margin": small(UNEVEN, giants=1, arc=5, step=5),
    "margin": small(UNEVEN, giants=1, arc=5, step=5, margin=MARGIN_UNIT // 8),
    "wide margin": small(UNEVEN, giants=0, arc=5, step=5, margin=MARGIN_UNIT),
    "table": table(ROWS),
    "table in a plane": table(ROWS, **PLANE),
    "no giant": small(giants=0, arc=5, step=5),
    "bins": small(giants=0, covered=5, arc=5, step=3, bins=2, heavy=3, seed_bits=0, word_bits=4),
    "bins and a giant": small(giants=1, covered=4, arc=4, step=3, bins=2, heavy=2, seed_bits=0, word_bits=4),
    "bins for all reports": small(giants=0, covered=8, arc=8, step=1, bins=2, heavy=2, seed_bits=0, word_bits=4),
}


@pytest.fixture(params=SMALL)
def rule(request: pytest.FixtureRequest) -> ManyValues:
    return SMALL[request.param]


def all_words(rule: ManyValues) -> np.ndarray:
    size = 1 << rule.word_bits
    grids = np.meshgrid(*[np.arange(size, dtype=np.uint64)] * rule.words_per_report, indexing="ij")
    return np.stack([grid.ravel() for grid in grids], axis=1)


def all_reports(rule: ManyValues) -> np.ndarray:
    reports = np.arange(rule.end)
    return reports[rule.can_send_many(reports)]


def test_every_word_against_the_exact_channel(rule):
    words, reports = all_words(rule), all_reports(rule)
    for value in range(len(rule.weights)):
        drawn = rule.draw_many(np.full(len(words), value), words)
        seen = Counter(drawn.tolist())
        assert set(seen) <= set(reports.tolist())
        expected = {int(y): rule.likelihood(value, int(y)) for y in reports}
        assert sum(expected.values()) == 1
        assert {y: Fraction(n, len(words)) for y, n in seen.items()} == {y: q for y, q in expected.items() if q}
        for i in np.random.default_rng(value).integers(0, len(words), 300):
            assert rule.draw(value, tuple(int(word) for word in words[i])) == drawn[i]


def test_the_audit_bounds_every_lift_and_ratio_of_the_channel(rule):
    highest, lowest = rule.lift_range()
    p = [Fraction(w, sum(rule.weights)) for w in rule.weights]
    tightest = Fraction(0)
    for y in all_reports(rule).tolist():
        q = [rule.likelihood(value, y) for value in range(len(p))]
        mean = sum(a * b for a, b in zip(p, q, strict=True))
        assert lowest <= min(q) / mean
        assert max(q) / mean <= highest
        assert max(q) <= rule.odds * min(q)
        tightest = max(tightest, max(q) / mean)
    assert (
        rule.bins or rule.prior is UNEVEN or tightest > highest * Fraction(4, 5)
    )  # Few words or cells are not so tight.


@pytest.mark.parametrize("radius", [Fraction(1, 20), Fraction(1, 5)])
def test_the_audit_bounds_lifts_under_the_worst_priors_of_a_ball(rule, radius):
    highest, lowest = rule.lift_range(radius)
    p = [Fraction(w, sum(rule.weights)) for w in rule.weights]
    for y in all_reports(rule).tolist():
        q = [rule.likelihood(value, y) for value in range(len(p))]
        rising = sorted(range(len(p)), key=lambda x: q[x])
        for toward, order in ((rising[-1], rising), (rising[0], rising[::-1])):
            moved, left = p[:], radius
            for x in order:
                if x != toward:
                    take = min(left, moved[x])
                    moved[x] -= take
                    moved[toward] += take
                    left -= take
            mean = sum(a * b for a, b in zip(moved, q, strict=True))
            assert lowest <= min(q) / mean
            assert max(q) / mean <= highest


def uniform_reports(rule: ManyValues) -> tuple[np.ndarray, np.ndarray]:
    """All reports, and their chances under the mean of the channel over P̃."""
    reports = all_reports(rule)
    q = np.array([[float(rule.likelihood(x, int(y))) for y in reports] for x in range(len(rule.weights))])
    return reports, q


def test_coverage_has_the_same_mass_in_every_report(rule):
    covered = rule.coverage(all_reports(rule))
    assert covered @ rule.cell_array == pytest.approx(np.full(len(covered), rule.covered), abs=1e-4)
    assert covered.min() >= 0
    assert covered.max() <= 1


@pytest.fixture(scope="module")
def fine() -> dict[str, ManyValues]:
    """Rules whose words are long enough that rounding does not matter."""
    bits = {"cell_bits": 6, "seed_bits": 2, "word_bits": 48, "step": 1 << 42}
    prior = Prior.of({"a": 24, "b": 20, "c": 7, "d": 5, "e": 4, "f": 4})
    numbers = {
        "two": {"giants": 2, "covered": 18, "arc": 14},
        "all in names": {"giants": 2, "covered": 16, "arc": 16},
        "one": {"giants": 1, "covered": 18, "arc": 15},
        "none": {"giants": 0, "covered": 18, "arc": 18},
    }
    rules = {name: giants_alone(prior=prior, **bits, **PLANE, **each) for name, each in numbers.items()}
    cells = np.array(lay_out(prior.weights, 64))
    found = best_table(np.append(cells[:3], 13) / 64, 0.25, 1.0, 8 / 13, np.ones(4))[:2]
    rows = rows_of_table(*found, cells, 16, 8, 48)
    return {"table": ManyValues(prior=prior, **bits, **PLANE, giants=3, covered=16, arc=8, rows=rows), **rules}


def test_coverage_has_the_same_mean_for_every_value_unless_arcs_cover_giants_too(fine):
    rule = fine["all in names"]
    reports, q = uniform_reports(rule)
    chances, covered = rule.cell_array / rule.total @ q, rule.coverage(reports)
    assert chances @ covered == pytest.approx(float(rule.share), abs=1e-5)
    # A named wrong way: giants also lie on the circle. They are covered too often, and reports cover more than L cells.
    arcs = reports < rule.with_arc
    wrong = covered.copy()
    wrong[np.ix_(arcs, rule.named)] += rule.arc / rule.total
    assert (chances @ wrong)[list(rule.named)].min() > 1.3 * float(rule.share)
    assert (wrong @ rule.cell_array).max() > 1.2 * rule.covered


@pytest.mark.parametrize("name", ["table", "two", "all in names", "one", "none"])
def test_j_and_its_inverse_are_those_of_the_exact_channel(fine, name):
    rule = fine[name]
    reports, q = uniform_reports(rule)
    p = rule.cell_array / rule.total
    mean = p @ q
    lifts = q / mean
    j = (lifts * mean) @ lifts.T
    information, unit = rule.information, np.eye(len(p))
    assert information.multiply(unit) == pytest.approx(j, abs=1e-5)
    assert information.solve(unit) == pytest.approx(np.linalg.inv(j), rel=1e-4, abs=1e-4)
    assert information.inverse_diagonal() == pytest.approx(np.diag(np.linalg.inv(j)), rel=1e-4)
    assert rule.variances() == pytest.approx(np.diag(np.linalg.inv(j)) - p**2, rel=1e-4)
    covered = rule.coverage(reports)
    m = float(rule.share)
    assert rule._spread == pytest.approx(((covered - m) ** 2).T @ mean, abs=1e-5)
    assert rule._skew == pytest.approx(((covered - m) ** 3).T @ mean, abs=1e-3)  # Sampled, where it lies in pieces.
    # One named wrong answer: giants that are also covered by the arcs have another J.
    assert name == "none" or np.abs(fine["none"].information.multiply(unit) - j).max() > 1e-2


@pytest.mark.parametrize("name", ["table", "two", "all in names", "one", "none"])
def test_pseudo_values_are_unbiased_for_every_answer(fine, name):
    rule = fine[name]
    reports, q = uniform_reports(rule)
    rows = rule.pseudo_values(Histogram(), reports)
    assert q @ rows == pytest.approx(np.eye(len(rule.weights)), abs=1e-4)
    assert rule.pseudo_values(Histogram(), reports, [2, 0]) == pytest.approx(rows[:, [2, 0]])


@pytest.mark.parametrize("name", ["table", "two", "all in names", "one", "none"])
@pytest.mark.parametrize("truth", ["prior", "a rare value has half of everything"])
def test_variances_hold_for_every_truth(fine, name, truth):
    rule = fine[name]
    reports, q = uniform_reports(rule)
    theta = rule.cell_array / rule.total
    if truth != "prior":
        theta = theta / 2
        theta[-1] += 0.5
    rows = rule.pseudo_values(Histogram(), reports)
    exact = (theta @ q) @ rows**2 - theta
    n = 10**6
    folded = np.rint(n * COVERAGE_UNIT * ((theta @ q) @ rule.coverage(reports)) / rule.scales).astype(np.int64)
    reading = rule.read("unbiased", Histogram(), Coverage(folded, n))
    assert reading.estimate == pytest.approx(n * theta, rel=1e-3, abs=100)
    assert reading.variance == pytest.approx(n * exact, rel=1e-3 if truth == "prior" else 0.15)


def test_folding_any_split_adds_up_to_the_same(rule):
    reports = np.random.default_rng(0).choice(all_reports(rule), 500)
    whole = rule.fold(reports)
    parts = rule.keep(reports[:123]).merge(rule.keep(reports[123:])).folded(rule.fold)
    assert (parts.coverage == whole).all()
    exact = rule.coverage(reports).sum(axis=0) * COVERAGE_UNIT
    assert whole * rule.scales == pytest.approx(exact, abs=1 if rule.bins else 1e-3)
    different, often = np.unique(reports, return_counts=True)
    assert (rule.fold(different, often) == whole).all()


def test_folding_many_pieces_is_sorting_them_by_their_keys():
    """More pieces than a block, and more reports than are looked at together."""
    cells = lay_out([2**30 // x for x in range(1, 5001)], 1 << 20)
    circle = ShuffledCircle(cells=cells, arc=30_000, step=9, cell_bits=20, seed_bits=8, word_bits=56)
    rng, size = np.random.default_rng(4), circle.piece_cells
    reports = rng.integers(0, 256, 40) << 20 | rng.integers(0, 1 << 20, 40)
    expected = np.zeros(len(cells), dtype=np.int64)
    for order, begin in zip(reports >> 20, reports & (1 << 20) - 1, strict=True):
        along = np.argsort(keys_of(int(order), len(size)))
        starts = np.empty(len(size), dtype=np.int64)
        starts[along] = np.cumsum(size[along]) - size[along]
        covered = sum(
            np.clip(begin + turn + 30_000 - starts, 0, size) - np.clip(begin + turn - starts, 0, size)
            for turn in (0, -(1 << 20))
        )
        np.add.at(expected, circle.owners, (2 * covered * circle._units + size) // (2 * size))
    assert len(size) > 5000
    assert np.array_equal(circle.fold(reports), expected)
    # Sums, not the last report alone, and with how often each came.
    assert np.array_equal(circle.fold(np.repeat(reports, 2)), 2 * expected)
    assert np.array_equal(circle.fold(reports, np.full(40, 2)), 2 * expected)
    assert not np.array_equal(circle.fold(reports[:-1]), expected)


def test_only_what_is_drawn_can_be_sent(rule):
    sendable = set(all_reports(rule).tolist())
    size = rule.end
    assert not rule.can_send(-1)
    assert not rule.can_send(size)
    assert all(rule.can_send(y) == (y in sendable) for y in range(size))


def test_a_plan_holds_integers_only(rule):
    assert ManyValues.from_dict(rule.to_dict(), rule.prior) == rule
    for name, wrong in product(("giants", "covered", "arc"), (-1, 1.0, 60)):
        with pytest.raises(ValueError, match=r"."):
            ManyValues.from_dict({**rule.to_dict(), name: wrong}, rule.prior)


@pytest.mark.parametrize(
    ("rows", "numbers", "said"),
    [
        (((8, 1, 1, 4), *ROWS[1:]), {}, "must be the same of all rows"),  # A giant that arcs cover, too.
        (ROWS, {"arc": 1}, "must be the same of all rows"),
        (((8, 1, 2, 3), *ROWS[1:]), {}, "at most its cells"),
        ((*ROWS[:4], (30, 0, 0, 4), (2, 0, 1, 4)), {}, "same part in the mean"),
        ((*ROWS[:4], (18, 0, 0, 4), (13, 0, 1, 4)), {}, "add up to 2"),
        ((*ROWS[1:], ROWS[0]), {}, "must come first"),
        ((*ROWS[:3], (8, 0, 2, 2, 0, 2), *ROWS[4:]), {}, "giants in their order"),
        ((), {}, "With giants there are 'rows'"),
        (ROWS, {"giants": 0, "covered": 2}, "With giants there are 'rows'"),
    ],
)
def test_tables_that_do_not_cover_alike_are_refused(rows, numbers, said):
    with pytest.raises(ValueError, match=said):
        table(rows, **numbers)


def test_arcs_longer_than_their_share_are_refused(fine):
    with pytest.raises(ValueError, match="must be the same of all rows"):
        replace(fine["table"], arc=fine["table"].arc + 1)


# -- orders ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [3, 5, 11, 31])
def test_any_two_points_of_a_plane_stand_at_every_distance_equally_often(slots):
    terms, points = terms_of(slots, first_full_recurrence(slots), 2 * slots**2), slots**2 - 1
    for away in range(1, points):
        apart = Counter(((terms[away : away + points] - terms[:points]) % slots).tolist())
        assert apart[0] == slots - 1  # On one line for one direction and its multiples.
        assert {count for distance, count in apart.items() if distance} == {slots}


@pytest.mark.parametrize("name", ["shuffled", "plane", "lines"])
def test_stretches_fill_the_circle(name):
    circle = SMALL[name].circle
    for order in range(circle.orders):
        where = {stretch for value in range(len(circle.cells)) for stretch in circle.stretches(value, order)}
        taken = [cell for start, size, _ in where for cell in range(start, start + size)]
        assert sorted(taken) == list(range(circle.circle))


def test_keys_are_a_permutation_that_no_progression_survives():
    """Values one after another: with the keys a·x + b, 0, 1, 2 would keep equal distances on every circle."""
    seeds = np.random.default_rng(2).integers(0, 1 << 24, 4000).tolist()
    keys = np.array([keys_of(seed, 64) for seed in seeds])
    assert all(len(set(row)) == 64 for row in keys[:50].tolist())
    around = (keys[:, 2].astype(np.int64) - 2 * keys[:, 1] + keys[:, 0]) % 2**32 / 2**32
    assert abs(np.exp(2j * np.pi * around).mean()) < 6 / np.sqrt(len(seeds))


def test_the_layout_is_exact_and_leaves_no_value_out():
    rng = np.random.default_rng(9)
    for _ in range(200):
        weights = rng.choice([1, 3, 10, 10**6, 10**12], rng.integers(1, 30)).tolist()
        cells = lay_out(weights, 64)
        assert (sum(cells), min(cells) >= 1) == (64, True)
        assert all(a >= b for (a, u), (b, w) in product(zip(cells, weights, strict=True), repeat=2) if u > w)
    equal = ManyValues(prior=Prior.of([5, 1, 1, 1, 2]), giants=0, covered=1, arc=1, step=1, cell_bits=3)
    assert (equal.total, equal.cells, equal.cell_error) == (5, (1, 1, 1, 1, 1), Fraction(3, 10))


@pytest.mark.parametrize(
    ("weights", "pieces"), [((5, 4, 3, 2, 1), (1,) * 5), ((16, 1, 1, 1, 1), (1,) * 5), ((9, 5, 1), (3, 2, 1))]
)
def test_the_kernel_of_shuffled_circles_is_the_mean_over_all_orders(weights, pieces):
    """Coverage by brute force: every order of the pieces, every position of the arc."""
    room, arc = 480, 129
    cells, k = np.array(lay_out(weights, room)), np.array(pieces)
    owners = np.repeat(np.arange(len(cells)), k)
    sizes = np.concatenate(
        [np.diff(np.arange(n + 1) * c // n) for c, n in zip(cells.tolist(), k.tolist(), strict=True)]
    )
    total = np.zeros((len(cells), len(cells)))
    orders = [(0, *rest) for rest in permutations(range(1, len(owners)))]
    for order in orders:
        of_cells = np.repeat(owners[list(order)], sizes[list(order)])
        held = np.zeros((room, len(cells)))
        held[np.arange(room), of_cells] = 1
        sums = np.cumsum(np.vstack([np.zeros(len(cells)), held, held]), axis=0)
        covered = (sums[arc : arc + room] - sums[:room]) / cells
        total += covered.T @ covered / room
    truth = total / len(orders) - (arc / room) ** 2
    found = (circle_information(cells, k, arc, room, 2.35).multiply(np.eye(len(cells))) - 1) / 2.35**2
    assert np.abs(found - truth).max() < 1e-4
    assert np.abs(np.diag(np.diag(truth)) - truth).max() > 1e-2  # The named wrong answer: independent values.


# -- designs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["zipf", "dominated", "uniform"])
@pytest.mark.parametrize("radius", [Fraction(0), Fraction(1, 50), Fraction(1, 3)])
def test_designs_keep_their_promise_and_one_step_more_does_not(kind, radius):
    for epsilon in (Fraction(1, 4), Fraction(1), Fraction(4)):
        found, ratio = design_many_values(named_prior(kind, 60), epsilon, radius), exp_below(epsilon)
        assert found.within(ratio, radius)
        assert not replace(found, step=found.step + 1).within(ratio, radius)


def test_the_closed_form_of_the_share_is_the_best_of_a_search():
    grid = np.arange(1, 4000) / 4000
    for epsilon, off in product((0.2, 1.0, 3.0), (0.0, 0.003, 0.1, 0.4, 0.7, 1.0)):
        e = np.exp(epsilon)
        load = (e - 1) * grid + np.maximum(1 - e * np.maximum(grid - off, 0), np.minimum(grid + off, 1))
        m = float(best_share(exp_below(Fraction(epsilon)), Fraction(off)))
        mine = (e - 1) * m + max(1 - e * max(m - off, 0), min(m + off, 1))
        assert m * (1 - m) / mine**2 >= (grid * (1 - grid) / load**2).max() * (1 - 1e-9)


@pytest.mark.parametrize("d", [50, 1000])
def test_every_value_costs_a_quarter_of_ldp(d):
    prior, e = named_prior("zipf", d), np.e
    variances = design_many_values(prior, 1).variances()
    assert np.median(variances) < 0.29 * 4 * e / (e - 1) ** 2
    assert variances.sum() <= 1.13 * unbiased_variance_bound(prior, 1)


@pytest.mark.parametrize(("epsilon", "all_values", "heaviest"), [(2, 1.06, 1.2), (3, 1.06, 1.2), (5, 1.06, 1.01)])
def test_heavy_values_are_near_their_own_bounds(epsilon, all_values, heaviest):
    """On circles without giants the heaviest of 1,024 values had 8.4 and 8.8 times its bound at ε = 2 and 3."""
    prior = named_prior("zipf", 1024)
    p, e = prior.probabilities, np.exp(epsilon)
    high, low = np.minimum(e, (1 - (1 - p) / e) / p), np.maximum(1 / e, (1 - e * (1 - p)) / p)
    bounds = (1 - p) ** 2 / ((high - 1) * (1 - low))
    variances = design_many_values(prior, epsilon).variances()
    assert variances.sum() <= all_values * bounds.sum()
    assert variances[:10].sum() <= heaviest * bounds[:10].sum()


@pytest.mark.parametrize(("kind", "d", "epsilon"), [("dominated", 40, 1), ("zipf", 300, 3), ("zipf", 60, 5)])
def test_intervals_hold_for_the_prior_and_for_another_truth(kind, d, epsilon):
    """Errors in units of their stated deviations have variance 1, for every truth; those of LDP would not."""
    found = design_many_values(named_prior(kind, d), epsilon)
    rng, n = np.random.default_rng(5), 20_000
    half = found.prior.probabilities / 2
    half[-1] += 0.5
    for truth in (found.prior.probabilities, half, rng.permutation(found.prior.probabilities)):
        scores = []
        for _ in range(12):
            held = rng.choice(d, n, p=truth)
            words = rng.integers(0, 2**64, (n, found.words_per_report), dtype=np.uint64)
            reading = found.read("unbiased", Histogram(), found.keep(found.draw_many(held, words)))
            counts = np.bincount(held, minlength=d)
            seen = reading.variance > 5  # Beyond, deviations are too small to be normal.
            scores.append(((reading.estimate - counts)[seen] / np.sqrt(reading.variance[seen])) ** 2)
        squares = np.concatenate(scores)
        assert len(squares) > 60
        assert squares.mean() == pytest.approx(1, abs=0.1 + 6 * np.sqrt(2 / len(squares)))


def test_scalar_and_compiled_sampler_agree_at_full_length():
    rng = np.random.default_rng(1)
    for kind, d, epsilon in (("zipf", 700, 4), ("dominated", 77, 1), ("zipf", 20, 6)):
        found = design_many_values(named_prior(kind, d), epsilon)
        assert found.giants
        values = rng.integers(0, d, 200)
        words = rng.integers(0, 2**64, (200, 3), dtype=np.uint64)
        drawn = found.draw_many(values, words)
        assert drawn.tolist() == [found.draw(x, tuple(map(int, row))) for x, row in zip(values, words, strict=True)]
        assert found.can_send_many(drawn).all()


def test_influence_bounds_what_one_report_moves():
    found = design_many_values(named_prior("dominated", 30), 2)
    rng = np.random.default_rng(4)
    words = rng.integers(0, 2**64, (400, 3), dtype=np.uint64)
    rows = found.pseudo_values(Histogram(), found.draw_many(rng.integers(0, 30, 400), words))
    changed, added = found._influence
    assert np.abs(rows).max() <= added * (1 + 1e-6)
    assert np.ptp(rows, axis=0).max() <= changed * (1 + 1e-6)


@pytest.mark.parametrize("epsilon", [1, 3, 5, 8])
def test_giants_are_named_also_where_seeds_shuffle_the_circle(epsilon):
    """Beyond some 39,000 values no plane is small enough. Bits for the names of giants are taken from the seeds, so
    words are shorter too; cells are counted in the bits that the finished rule has.
    """
    prior = Prior(range(300), [10**9 // (k + 1) for k in range(300)])
    found = design_many_values(prior, epsilon, most_work=0)
    assert found.slots == 0
    assert found.giants == 0 if epsilon < 2 else found.giants > 0
    ratio = exp_below(Fraction(epsilon))
    assert found.within(ratio, Fraction(0))
    assert not found.within(exp_below(Fraction(epsilon) * Fraction(99, 100)), Fraction(0))
    words = np.random.default_rng(epsilon).integers(0, 1 << found.word_bits, (2000, found.words_per_report), np.uint64)
    held = np.random.default_rng(1).choice(300, 2000, p=prior.probabilities)
    drawn = found.draw_many(held, words)
    assert found.can_send_many(drawn).all()
    assert [found.draw(int(x), tuple(map(int, pair))) for x, pair in zip(held[:50], words[:50], strict=True)] == (
        drawn[:50].tolist()
    )


# -- bins ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(4)])
def test_bins_gain_nearly_the_bound_and_arcs_alone_do_not(epsilon):
    prior = named_prior("zipf", 600)
    found, bound = design_with_bins(prior, epsilon), gain_bound(prior, epsilon)
    assert found.within(exp_below(epsilon))
    assert 0.995 * bound < found.gain(Histogram()) <= bound
    assert np.isinf(found.unbiased_variance(Histogram()))
    # A named wrong way: the same reports with all values on the ring, where arcs cut the heavy ones.
    assert replace(found, heavy=0).gain(Histogram()) < 0.97 * bound


def test_a_bin_of_more_than_a_report_covers_breaks_the_promise():
    found = design_with_bins(named_prior("zipf", 60), 1)
    greedy = replace(found)
    circle = greedy.circle
    more = np.flatnonzero(circle.bin_of == 1)
    wrong = circle.bin_of.copy()
    wrong[more] = 0
    circle.__dict__.update(bin_of=wrong, arcs=(0, *circle.arcs[1:]))
    assert circle.cell_array[wrong == 0].sum() > found.covered
    assert found.within(exp_below(Fraction(1)))
    assert not greedy.within(exp_below(Fraction(1)))


@pytest.mark.parametrize(("size", "epsilon"), [(4000, 5), (1000, 8)])
def test_large_budgets_follow_the_prior_where_lines_of_a_plane_are_longer_than_arcs(size, epsilon):
    prior = named_prior("zipf", size)
    found, bound = design_many_values(prior, epsilon), unbiased_variance_bound(prior, epsilon)
    assert found.giants > 10
    assert found.variances().sum() < 1.12 * bound


def test_rare_values_of_less_than_a_cell_cost_little_at_a_large_budget():
    """If all deviations of cells from the prior counted for every arc, the sum would be twice its bound."""
    prior = Prior(range(5000), [int(2**40 * np.exp(2 * x)) for x in norm.ppf((np.arange(5000) + 0.5) / 5000)])
    found = design_many_values(prior, 8)
    assert found.variances().sum() < 1.06 * unbiased_variance_bound(prior, 8)
    wide = replace(found, margin=0)
    assert wide.slack > 5 * found.slack
    assert not wide.within(exp_below(Fraction(8)))


def test_a_value_just_below_the_share_is_a_giant():
    """299 equal values of a hair less than h: cut by arcs of the length of one they had 1.26 times their bound."""
    prior = Prior(range(300), [9 * 299, *[1] * 299])
    assert design_many_values(prior, 8).variances().sum() < 1.02 * unbiased_variance_bound(prior, 8)


def test_where_no_table_is_found_the_giant_is_alone():
    """Of 999 equal values nine would be in the table beside the giant, and no row of it covers one of them."""
    prior = Prior(range(1000), [9 * 999, *[1] * 999])
    found = design(prior, Histogram(), 8)
    assert found.mechanism.kind == "many-values"
    assert found.certificate.unbiased_variance < 1.12 * unbiased_variance_bound(prior, 8)


def test_the_variance_holds_where_nobody_holds_a_value_and_arcs_are_short():
    """At a large ε others cover a value rarely and in part, which the mean of its coverage alone does not show."""
    d, value = 300, 200
    prior = Prior(range(d), [720720 // (x + 1) for x in range(d)])
    made = design_many_values(prior, 7)
    words = np.random.default_rng(1).integers(0, 2**64, (8_000, made.words_per_report), dtype=np.uint64)
    reports = made.draw_many(np.full(len(words), d - 1), words)
    true = float(made.pseudo_values(Histogram(), reports, [value]).var())
    covered = made.coverage(reports).mean(axis=0)
    nobody = np.zeros(d)
    stated = float(made._variance_at(covered, nobody)[0][value])
    assert 0.9 < stated / true < 1.25
    # Wrong: were every cover a whole one, and were none of it by others.
    (slope, _), t = made._slope_and_rest, covered[value]
    assert slope[value] ** 2 * (t - t**2) > 1.25 * true
    assert made._variance_at(covered, np.where(nobody == 0, covered * slope, 0))[0][value] < 0.9 * true
