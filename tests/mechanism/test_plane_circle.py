"""The plane circle: every word through the sampler, levels by brute force, J over all orders, any truth estimated."""

import itertools
import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tacit import Histogram, Prior, design
from tacit.designs.circles import design_shuffled_circle, in_plane
from tacit.designs.large_histogram import IN_PLANE
from tacit.designs.methods import SURE_IN_PLANE
from tacit.mechanism import PlaneCircle
from tacit.mechanism.kept import COVERAGE_UNIT, Coverage
from tacit.mechanism.plane_circle import _information as plane_circle_information
from tacit.mechanism.singer import first_full_recurrence, meets_all_states, terms_of

from support.circles import all_words, brute_range, random_reports, reports_of, simulated, stated
from support.priors import named_prior

THREE = {"slots": 3, "first": 1, "second": 1, "seed_bits": 4}
FIVE = {"slots": 5, "first": 3, "second": 1, "seed_bits": 4}
SMALL = {
    "on their own, one in pieces": PlaneCircle(
        prior=Prior.of([9, 1, 4, 2]), arc=4, step=3, cell_bits=4, word_bits=7, **THREE
    ),
    "all on lines": PlaneCircle(
        prior=Prior.of([3, 1, 2, 2, 2, 2, 1]), arc=4, step=3, cell_bits=4, word_bits=7, light=4, **THREE
    ),
    "some on lines": PlaneCircle(
        prior=Prior.of([7, 1, 2, 2, 2, 2]), arc=5, step=3, cell_bits=4, word_bits=7, light=3, **THREE
    ),
    "rounded": PlaneCircle(prior=Prior.of([20, 1, 2, 30, 1]), arc=5, step=5, cell_bits=4, word_bits=7, light=2, **FIVE),
    "a cell each": PlaneCircle(prior=Prior.of([7, 1, 1, 1, 2]), arc=2, step=7, cell_bits=3, word_bits=7, **FIVE),
    "long arc": PlaneCircle(prior=Prior.of([1, 6, 1]), arc=7, step=2, cell_bits=3, word_bits=7, light=2, **FIVE),
    "one value": PlaneCircle(prior=Prior.of([4]), arc=1, step=5, cell_bits=2, word_bits=6, **THREE),
}


def plane(kind: str, d: int, epsilon: float = 1, radius: Fraction = Fraction(0)) -> PlaneCircle:
    return in_plane(design_shuffled_circle(named_prior(kind, d), epsilon, radius))


class OwnCellsOnly(PlaneCircle):
    """A wrong sampler: whoever shares a line draws among as many cells as they have themselves."""

    def stretches(self, value: int, order: int) -> list[tuple[int, int, int]]:
        return [(start, min(size, self.cells[value]), first) for start, size, first in super().stretches(value, order)]


# -- exact sampling --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_every_word_gives_the_stated_counts(name: str) -> None:
    circle = SMALL[name]
    words = np.array(list(all_words(circle)), np.uint64)
    for value in range(len(circle.weights)):
        drawn = circle.draw_many(np.full(len(words), value), words)
        assert Counter(drawn.tolist()) == +stated(circle, value)
        some = slice(0, None, 61)
        assert drawn[some].tolist() == [circle.draw(value, tuple(pair)) for pair in words[some].tolist()]


def test_the_enumeration_rejects_a_wrong_sampler() -> None:
    right = SMALL["all on lines"]
    wrong = OwnCellsOnly(**{name: getattr(right, name) for name in ("prior", *right._integers)})
    drawn = Counter(wrong.draw(1, words) for words in all_words(wrong))
    assert drawn != +stated(right, 1)
    # It would also break the promise: the covered mass is not the same for every report.
    assert brute_range(wrong, Fraction(0))[0] > right.lift_range()[0]


@pytest.mark.parametrize("name", SMALL)
def test_the_order_says_nothing_about_the_answer(name: str) -> None:
    circle = SMALL[name]
    by_order = []
    for value in range(len(circle.weights)):
        counts = Counter()
        for report, count in stated(circle, value).items():
            counts[report >> circle.cell_bits] += count
        by_order.append(counts)
    assert all(counts == by_order[0] for counts in by_order)
    assert sum(by_order[0].values()) == 4**circle.word_bits


@pytest.mark.parametrize(("kind", "d"), [("zipf", 2), ("dominated", 77), ("zipf", 700), ("dominated", 300)])
def test_scalar_and_compiled_sampler_agree_at_full_length(kind: str, d: int) -> None:
    circle, rng = plane(kind, d), np.random.default_rng(5)
    values = rng.integers(0, d, 60)
    words = rng.integers(0, 2**64 - 1, (60, 2), dtype=np.uint64, endpoint=True)
    words[:4] = list(itertools.product((0, 2**64 - 1), repeat=2))
    expected = [circle.draw(v, tuple(w)) for v, w in zip(values.tolist(), words.tolist(), strict=True)]
    assert circle.draw_many(values, words).tolist() == expected
    assert circle.can_send_many(np.array(expected)).all()


# -- the plane -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [3, 5, 11, 31])
def test_any_two_points_stand_at_every_distance_equally_often(slots: int) -> None:
    terms = terms_of(slots, first_full_recurrence(slots), 2 * slots**2)
    points = slots**2 - 1
    states = {(a, b) for a, b in itertools.pairwise(terms[: points + 1].tolist())}
    assert len(states) == points
    for away in range(1, points):
        apart = Counter(((terms[away : away + points] - terms[:points]) % slots).tolist())
        # On one line for one direction and its multiples.
        assert apart[0] == slots - 1
        assert {count for distance, count in apart.items() if distance} == {slots}
    assert not meets_all_states(slots, (1, 0))


def test_half_of_the_orders_are_the_other_half_backwards() -> None:
    terms = terms_of(11, first_full_recurrence(11), 240)
    assert ((terms[:120] + terms[60:180]) % 11 == 0).all()


@pytest.mark.parametrize("name", SMALL)
def test_stretches_fill_the_circle(name: str) -> None:
    circle = SMALL[name]
    for order in range(circle.orders):
        starts, sizes = circle.layout(order)
        taken = [cell for start, n in zip(starts, sizes, strict=True) for cell in range(start, start + n)]
        assert sorted(taken) == list(range(circle.circle))
        where = {stretch for value in range(len(circle.weights)) for stretch in circle.stretches(value, order)}
        assert sum(size for _, size, _ in where) == circle.circle


# -- the promise -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [Fraction(0), Fraction(1, 20), Fraction(1, 3), Fraction(1)])
@pytest.mark.parametrize("name", SMALL)
def test_the_range_of_lifts_holds_for_every_report_value_and_prior_of_the_ball(name: str, radius: Fraction) -> None:
    highest, lowest = SMALL[name].lift_range(radius)
    true_highest, true_lowest = brute_range(SMALL[name], radius)
    assert true_highest <= highest
    assert lowest <= true_lowest


@pytest.mark.parametrize("name", SMALL)
def test_the_ldp_level_bounds_the_ratio_of_two_values(name: str) -> None:
    circle = SMALL[name]
    for report in reports_of(circle):
        column = [circle.word_pairs(x, report) for x in range(len(circle.weights))]
        assert Fraction(max(column), min(column)) <= circle.odds


def test_designs_keep_their_promise_and_one_step_more_does_not() -> None:
    for kind, d, radius in (("zipf", 40, "0"), ("dominated", 300, "0.03"), ("dirichlet", 600, "0.1")):
        prior = named_prior(kind, d)
        circle = plane(kind, d, radius=Fraction(radius))
        ratio = design_shuffled_circle(prior, 1, radius).lift_range(Fraction(radius))[0]
        assert circle.lift_range(Fraction(radius))[0] == ratio
        assert circle.keeps("lip", Fraction(1))
        more = replace(circle, step=circle.step + 1)
        assert not more.within(max(ratio, 1 / circle.lift_range(Fraction(radius))[1]), Fraction(radius))


# -- what reports tell -----------------------------------------------------------------------------------------------


def coverage_of(circle: PlaneCircle, report: int) -> list[Fraction]:
    """What the arc of a report covers of every value, by the stretches of the rule."""
    order, position = divmod(report, 1 << circle.cell_bits)
    arc = {(position + t) % circle.circle for t in range(circle.arc)}
    found = []
    for value in range(len(circle.weights)):
        cells = [cell for start, size, _ in circle.stretches(value, order) for cell in range(start, start + size)]
        found.append(Fraction(len(arc.intersection(cells)), len(cells)))
    return found


@pytest.mark.parametrize("name", [name for name in SMALL if name != "one value"])
def test_j_is_the_mean_over_all_orders_and_positions(name: str) -> None:
    circle = SMALL[name]
    covered = np.array([[float(c) for c in coverage_of(circle, report)] for report in reports_of(circle)])
    truth = covered.T @ covered / len(covered) - float(circle.share) ** 2
    everything = np.arange(len(circle.weights))
    assert circle.information.coverage_covariance(everything) == pytest.approx(truth, abs=1e-12)
    assert circle.information.spreads == pytest.approx(np.diag(truth), abs=1e-12)
    mine = circle.coverage(np.array(reports_of(circle)))
    assert mine == pytest.approx(covered, abs=4 / COVERAGE_UNIT)
    # The named wrong way: cells as if they were a continuum, in which a value of one cell is covered in part.
    if name == "a cell each":
        assert np.diag(truth) == pytest.approx(float(circle.share * (1 - circle.share)))


@pytest.mark.parametrize(("kind", "d"), [("zipf", 3), ("dominated", 40), ("zipf", 700), ("uniform", 300)])
def test_folding_adds_up_coverage_and_any_split_merges(kind: str, d: int) -> None:
    circle, rng = plane(kind, d), np.random.default_rng(d)
    reports, weights = random_reports(circle, 200, rng), rng.integers(1, 50, 200)
    rows = np.rint(circle.coverage(reports) * COVERAGE_UNIT)
    folded = circle.fold(reports)
    assert (rows.sum(axis=0) == folded).all()
    assert (circle.fold(reports, weights) == weights @ rows).all()
    cut = [0, 1, 17, 17, 150, 200]
    assert (sum(circle.fold(reports[a:b]) for a, b in itertools.pairwise(cut)) == folded).all()
    mass = rows @ circle.cell_array / circle.circle / COVERAGE_UNIT
    assert mass == pytest.approx(np.full(200, float(circle.share)), abs=4e-6)


@pytest.mark.parametrize(("d", "written_out"), [(60, True), (280, True), (280, False)])
def test_the_inverse_is_the_inverse(d: int, written_out: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written out, and by gradients as for many values; without lines and with them."""
    if not written_out:
        monkeypatch.setattr(plane_circle_information, "_WRITTEN_OUT", 0)
    circle = plane("zipf", d)
    assert circle.n_lines == (0 if d == 60 else circle.slots)
    information = circle.information
    j = np.array([information.multiply(unit) for unit in np.eye(d)])
    assert j @ (circle.cell_array / circle.circle) == pytest.approx(np.ones(d), abs=1e-9)
    inverse = np.linalg.inv(j)
    # More than are solved for at once; of rows that are done at once nothing is divided by.
    rights = np.random.default_rng(0).normal(size=(70, d)) * np.resize([1, 1e-9, 0], 70)[:, None]
    assert information.multiply(rights) == pytest.approx(rights @ j, rel=1e-9, abs=1e-9)
    assert information.solve(rights[:0]).shape == (0, d)
    assert information.solve(rights) == pytest.approx(rights @ inverse, rel=1e-7, abs=1e-7)
    assert information.solve(rights[0]) == pytest.approx(inverse @ rights[0], rel=1e-7, abs=1e-7)
    assert information.inverse_row(1) == pytest.approx(inverse[1], rel=1e-6, abs=1e-8)
    off = information.inverse_diagonal() / np.diag(inverse)
    assert off.mean() == pytest.approx(1, abs=1e-9 if written_out else 0.01)
    assert off == pytest.approx(np.ones(d), abs=1e-9 if written_out else 0.05)
    if circle.n_lines:
        # The named wrong way: to take all light values as alike. Estimates would be off by that much.
        near = information.nearly_solve(rights[0])
        assert np.abs(near - inverse @ rights[0]).max() > 1e-3


def test_the_variance_is_the_stated_one() -> None:
    """For lines and heavy values together; the named wrong answer is LDP's, 4E/(E−1)² for every value."""
    prior = named_prior("zipf", 300)
    circle = in_plane(design_shuffled_circle(prior, 1))
    n, rounds = 3_000, 40
    squares = np.zeros(300)
    for seed in range(rounds):
        folded, counts = simulated(circle, prior.probabilities, n, seed)
        squares += (circle.unbiased_sums(folded, n) - counts) ** 2 / n / rounds
    answers_kept = circle.variances() - prior.probabilities * (1 - prior.probabilities)
    # 40 rounds of 300 nearly independent values: the mean of 12,000 squares is known to 1.3%.
    assert (squares / answers_kept).mean() == pytest.approx(1, abs=0.06)
    assert squares.sum() < 0.5 * 4 * np.e / (np.e - 1) ** 2 * 300
    reading = circle.read("unbiased", Histogram(), Coverage(folded, n))
    assert (reading.variance / n / answers_kept).mean() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(("kind", "d"), [("dominated", 40), ("zipf", 300)])
def test_the_unbiased_estimate_holds_under_another_truth(kind: str, d: int) -> None:
    prior = named_prior(kind, d)
    circle = in_plane(design_shuffled_circle(prior, 1))
    truth = 0.45 * prior.probabilities + 0.55 * prior.probabilities[::-1]
    n = 1_000_000
    folded, counts = simulated(circle, truth, n, 7)
    reading = circle.read("unbiased", Histogram(), Coverage(folded, n))
    off = (reading.estimate - counts) / np.sqrt(reading.variance)
    assert np.abs(off).max() < 6
    assert 0.6 < (off**2).mean() < 1.5
    # The named wrong way: coverage as if values were covered independently.
    q, m = float(circle.amplitude), float(circle.share)
    shares = circle.cell_array / circle.circle
    naive = n * shares + (folded / COVERAGE_UNIT - m * n) / (q * circle.information.spreads)
    assert np.abs((naive - counts) / np.sqrt(reading.variance)).max() > 15
    assert circle.prior_statistic(Coverage(folded, n))[0] > 1000


@pytest.mark.parametrize("d", [20, 100])
def test_intervals_hold_for_two_values_that_hold_everybody_at_the_largest_sure_budget(d: int) -> None:
    """Arcs are short at ε = 3; a sample as small as the shuffled circle's would miss who is covered with whom."""
    prior, rounds, n = named_prior("zipf", d), 60, 10_000
    circle = in_plane(design_shuffled_circle(prior, SURE_IN_PLANE))
    truth = np.eye(d)[[5, d - 2]].mean(axis=0)
    off = []
    for seed in range(rounds):
        folded, counts = simulated(circle, truth, n, seed)
        reading = circle.read("unbiased", Histogram(), Coverage(folded, n))
        off.append((reading.estimate - counts) / np.sqrt(reading.variance))
    # The mean of 60·d squares of nearly independent values, each with a variance known to about a tenth.
    assert np.mean(np.square(off)) == pytest.approx(1, abs=0.15)
    assert np.mean(np.abs(off) > 1.96) < 0.075
    # The named wrong way: the variance at the prior.
    at_prior = circle.variances() - prior.probabilities * (1 - prior.probabilities)
    squares = np.square(off) * reading.variance / (n * at_prior)
    assert squares.mean(axis=0).max() > 2


def test_influence_bounds_what_one_report_moves() -> None:
    circle, rng = plane("zipf", 300), np.random.default_rng(0)
    reports = random_reports(circle, 150, rng)
    each = circle.pseudo_values(Histogram(), reports)
    found = circle.read("unbiased", Histogram(), Coverage(circle.fold(reports), 150))
    assert 0.3 * found.changed < np.ptp(each, axis=0).max() <= found.changed
    assert np.abs(each).max() <= found.added * (1 + 1e-5)


# -- designs and the contract ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "d"), [("zipf", 40), ("dominated", 50), ("dirichlet", 200), ("zipf", 3000)])
def test_a_plane_costs_a_few_hundredths_of_the_variance(kind: str, d: int) -> None:
    prior = named_prior(kind, d)
    shuffled = design_shuffled_circle(prior, 1)
    ratio = in_plane(shuffled).variances().sum() / shuffled.variances().sum()
    assert 0.99 < ratio < 1 + IN_PLANE
    found = design(prior, Histogram(), 1)
    assert found.mechanism.kind == "plane-circle"
    # The named wrong way: a plane with too few orders.
    if d == 200:
        few = replace(in_plane(shuffled), slots=17, first=first_full_recurrence(17)[0], second=1)
        assert few.variances().sum() > 1.01 * ratio * shuffled.variances().sum()


def test_more_values_than_a_plane_holds_are_left_to_the_shuffled_circle() -> None:
    prior = Prior.uniform(30_000)
    with pytest.raises(ArithmeticError, match="no plane of up to 167 slots holds 30000 values"):
        in_plane(design_shuffled_circle(prior, 1))
    assert design(prior, Histogram(), 1).mechanism.kind == "shuffled-circle"


def test_a_plan_holds_nine_integers_and_no_other() -> None:
    prior = named_prior("zipf", 300)
    circle = in_plane(design_shuffled_circle(prior, 1, Fraction(1, 100)))
    data = json.loads(json.dumps(circle.to_dict()))
    assert data.pop("kind") == "plane-circle"
    assert all(type(number) is int and 0 <= number < 2**53 for number in data.values())
    assert PlaneCircle.from_dict(data, prior) == circle
    for name, wrong in (
        ("slots", 4), ("slots", 2), ("slots", 211), ("slots", "61"), ("first", 0), ("first", data["slots"]),
        ("second", 10**6), ("light", circle.arc + 1), ("arc", 0), ("seed_bits", 23), ("seed_bits", 10),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="must"):
            PlaneCircle.from_dict({**data, name: wrong}, prior)
    # Too small; with too many places to be known in advance; with too many pairs of stretches to be looked at.
    wide, arc = {"slots": 199, "first": first_full_recurrence(199)[0]}, circle.circle - circle.circle // 50
    for other in (
        {"slots": 17, "first": 7},
        {**wide, "light": 0},
        {**wide, "arc": arc, "step": 1, "light": circle.arc},
    ):
        with pytest.raises(ValueError, match="does not hold"):
            PlaneCircle.from_dict({**data, **other}, prior)
    with pytest.raises(ValueError, match="another prior"):
        circle.under(named_prior("zipf", 31))
    assert not circle.can_send(circle.orders << circle.cell_bits)
    assert not circle.can_send(-1)
