"""The shuffled circle: every word through the sampler, exact levels by brute force, designs against LDP."""

import itertools
import json
import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tacit import Histogram, Prior, Survey
from tacit.designs.circles import best_share, design_shuffled_circle, unbiased_variance_bound
from tacit.exact import at_most_exp, exp_below
from tacit.mechanism.circle._rule import lay_out
from tacit.mechanism.kept import Counts
from tacit.mechanism.protocol import NotEstimableError
from tacit.mechanism.shuffled_circle.shuffled_circle import ShuffledCircle, keys_of
from tacit.randomize.randomness import SeededWords

from support.circles import all_words, brute_range, reports_of, stated
from support.priors import named_prior

SMALL = {
    "four values": ShuffledCircle(prior=Prior.of([3, 1, 2, 2]), arc=2, step=9, cell_bits=3, seed_bits=4, word_bits=7),
    "rounded": ShuffledCircle(prior=Prior.of([20, 1, 2, 30, 1]), arc=5, step=5, cell_bits=4, seed_bits=4, word_bits=7),
    "in pieces": ShuffledCircle(
        prior=Prior.of([29, 1, 1, 1, 1, 1, 1, 1, 1]), arc=8, step=3, cell_bits=5, seed_bits=2, word_bits=7
    ),
    "in pieces of odd lengths": ShuffledCircle(
        prior=Prior.of([22, 1, 7, 1]), arc=11, step=4, cell_bits=5, seed_bits=4, word_bits=8
    ),
    "a cell each": ShuffledCircle(
        prior=Prior.of([7, 1, 1, 1, 2]), arc=2, step=7, cell_bits=3, seed_bits=4, word_bits=7
    ),
    "no power of two": ShuffledCircle(prior=Prior.of([5, 6, 5]), arc=5, step=4, cell_bits=4, seed_bits=2, word_bits=7),
    "long arc": ShuffledCircle(prior=Prior.of([1, 6, 1]), arc=7, step=3, cell_bits=3, seed_bits=2, word_bits=6),
    "one value": ShuffledCircle(prior=Prior.of([4]), arc=1, step=5, cell_bits=2, seed_bits=4, word_bits=6),
    "one order": ShuffledCircle(prior=Prior.of([3, 2, 2, 1]), arc=3, step=9, cell_bits=3, seed_bits=0, word_bits=6),
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


class Whole(ShuffledCircle):
    """The named wrong way: heavy values in one piece, as long as they are."""

    @property
    def pieces(self) -> tuple[int, ...]:
        return (1,) * len(self.weights)


class Finest(ShuffledCircle):
    """Another wrong way: all values in so many pieces that every arc covers the same part of a heavy one."""

    @property
    def pieces(self) -> tuple[int, ...]:
        return tuple(-(-200 * n // self.circle) for n in self.cells)


def keeps(circle: ShuffledCircle, epsilon: Fraction, radius: Fraction) -> bool:
    """Whether the exact bounds stay within ε for the whole ball."""
    highest, lowest = circle.lift_range(radius)
    return at_most_exp(max(highest, 1 / lowest), epsilon)


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
    circle = wrong(prior=Prior.of([3, 1, 2, 2]), arc=2, step=9, cell_bits=3, seed_bits=2, word_bits=6)
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
    for kind, d, notion in (("zipf", 1, "lip"), ("zipf", 2, "lip"), ("dominated", 77, "lip"), ("zipf", 77, "ldp")):
        circle = design_shuffled_circle(named_prior(kind, d), 1, notion=notion)
        values = rng.integers(0, d, 500)
        words = rng.integers(0, 2**64 - 1, (500, 2), dtype=np.uint64, endpoint=True)
        words[:4] = list(itertools.product((0, 2**64 - 1), repeat=2))
        expected = [circle.draw(v, tuple(w)) for v, w in zip(values.tolist(), words.tolist(), strict=True)]
        assert circle.draw_many(values, words).tolist() == expected
        assert circle.can_send_many(np.array(expected)).all()


# -- the promise -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [Fraction(0), Fraction(1, 20), Fraction(1, 3), Fraction(1)])
@pytest.mark.parametrize("name", SMALL)
def test_the_range_of_lifts_holds_for_every_report_value_and_prior_of_the_ball(name: str, radius: Fraction) -> None:
    highest, lowest = SMALL[name].lift_range(radius)
    true_highest, true_lowest = brute_range(SMALL[name], radius)
    assert true_highest <= highest
    assert lowest <= true_lowest


def test_the_range_of_lifts_is_reached_and_without_the_cells_error_it_would_be_wrong() -> None:
    exact = ShuffledCircle(prior=Prior.of([4, 4, 4, 4]), arc=4, step=3, cell_bits=4, seed_bits=2, word_bits=16)
    assert exact.cell_error == 0
    for radius in (Fraction(0), Fraction(1, 10)):
        reached = zip(exact.lift_range(radius), brute_range(exact, radius), strict=True)
        assert all(abs(float(bound / true) - 1) < 1e-4 for bound, true in reached)
    rounded = ShuffledCircle(
        prior=Prior.of([20, 1, 2, 30, 1]), arc=6, step=2000, cell_bits=4, seed_bits=4, word_bits=16
    )
    naive = (1 + (1 - rounded.share) * rounded.amplitude, 1 - rounded.share * rounded.amplitude)
    true_highest, true_lowest = brute_range(rounded, Fraction(0))
    assert true_highest > naive[0] * (1 + Fraction(1, 100)) or true_lowest < naive[1] * (1 - Fraction(1, 100))


@pytest.mark.parametrize("name", SMALL)
def test_the_ldp_level_bounds_the_ratio_of_two_values(name: str) -> None:
    circle = SMALL[name]
    ratios = []
    for report in reports_of(circle):
        column = [circle.word_pairs(x, report) for x in range(len(circle.weights))]
        ratios.append(Fraction(max(column), min(column)))
    assert max(ratios) <= circle.odds
    if name in ("four values", "a cell each"):
        assert max(ratios) == circle.odds


def test_a_value_in_pieces_may_be_off_by_more_than_a_word_but_not_by_one_for_each_piece() -> None:
    circle = ShuffledCircle(
        prior=Prior.of([49, 1, 1, 1, 1, 1, 1, 1, 1, 7]), arc=20, step=1, cell_bits=6, seed_bits=8, word_bits=10
    )
    assert circle.pieces[0] == 3
    off = []
    for report in reports_of(circle):
        words = circle.word_pairs(0, report) - circle.base * circle.uniform_words
        off.append(abs(words - (1 << circle.choice_bits) * Fraction(int(circle.covered_cells(report)[0]), 49)))
    assert 1 < max(off) < 3


def test_designs_pass_the_exact_audit_and_one_step_more_does_not() -> None:
    rng = random.Random(4)
    for _ in range(40):
        weights = [rng.choice([1, 2, 5, 30, 1000]) for _ in range(rng.randint(1, 40))]
        prior = Prior(range(len(weights)), weights)
        epsilon, radius = Fraction(rng.randint(1, 60), 10), rng.choice([Fraction(0), Fraction(1, 50), Fraction(3, 10)])
        circle = design_shuffled_circle(prior, epsilon, radius)
        assert keeps(circle, epsilon, radius)
        assert not keeps(replace(circle, step=circle.step + 1), epsilon, radius)
        ldp = design_shuffled_circle(prior, epsilon, notion="ldp")
        assert ldp.keeps("ldp", epsilon)
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
    circle = ShuffledCircle(prior=Prior.of([1, 1, 1]), arc=1, step=1, cell_bits=3)
    assert (circle.cells, circle.cell_error) == ((3, 3, 2), Fraction(1, 12))
    equal = ShuffledCircle(prior=Prior.of([5, 1, 1, 1, 2]), arc=1, step=1, cell_bits=3)
    assert (equal.circle, equal.cells, equal.cell_error) == (5, (1, 1, 1, 1, 1), Fraction(3, 10))


@pytest.mark.parametrize("name", SMALL)
def test_pieces_are_nearly_equal_and_no_longer_than_the_arc(name: str) -> None:
    circle = SMALL[name]
    for value, size in enumerate(circle.cells):
        mine = circle.piece_cells[circle.owners == value]
        assert mine.sum() == size
        assert np.ptp(mine) <= 1
        assert mine.max() <= max(circle.arc, circle.circle / 2 / len(circle.cells) ** 0.5)
    assert len(circle.owners) < len(circle.cells) + 2 * len(circle.cells) ** 0.5 + 3
    for seed in range(1 << circle.seed_bits):
        starts = circle.starts(seed)
        taken = [cell for start, n in zip(starts, circle.piece_cells, strict=True) for cell in range(start, start + n)]
        assert sorted(taken) == list(range(circle.circle))
        values = range(len(circle.weights))
        assert starts.tolist() == [start for x in values for start, _, _ in circle.stretches(x, seed)]


def test_keys_are_a_permutation_that_no_progression_survives() -> None:
    """Values one after another: with the keys a·x + b, 0, 1, 2 would keep equal distances on every circle."""
    seeds = np.random.default_rng(2).integers(0, 1 << 24, 4000).tolist()
    keys = np.array([keys_of(seed, 64) for seed in seeds])
    assert all(len(set(row)) == 64 for row in keys[:50].tolist())
    around = (keys[:, 2].astype(np.int64) - 2 * keys[:, 1] + keys[:, 0]) % 2**32 / 2**32
    assert abs(np.exp(2j * np.pi * around).mean()) < 6 / np.sqrt(len(seeds))


# -- designs ---------------------------------------------------------------------------------------------------------


def noise(circle: ShuffledCircle, prior: Prior) -> float:
    """The total variance per respondent that is due to the mechanism, if the prior is true."""
    p = prior.probabilities
    return circle.unbiased_variance(Histogram()) - float(p @ (1 - p))


def subset_selection(d: int, epsilon: float) -> float:
    """The same of the best LDP channel for histograms (Ye and Barg), of the best subset size k."""
    e, k = np.exp(epsilon), np.arange(1, d)
    p = k * e / (k * e + d - k)
    q = p * (k - 1) / (d - 1) + (1 - p) * k / (d - 1)
    return float(((d * q * (1 - q) + (p - q) * (1 - p - q)) / (p - q) ** 2).min())


def topped(d: int, top: Fraction) -> Prior:
    """One value of mass `top` and the rest equal."""
    return Prior(range(d), [int(top * 1000 * (d - 1)), *[int((1 - top) * 1000)] * (d - 1)])


@pytest.mark.parametrize("d", [13, 50, 2000])
@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1), Fraction(4)])
def test_no_design_is_worse_than_ldp_however_heavy_a_value(d: int, epsilon: Fraction) -> None:
    ldp = subset_selection(d, float(epsilon))
    for top in (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10), Fraction(999, 1000)):
        prior = topped(d, top)
        one = noise(design_shuffled_circle(prior, epsilon), prior)
        assert one < 0.7 * ldp
        last = one
        for radius in (Fraction(1, 50), Fraction(1, 10), Fraction(3, 10), Fraction(1, 2)):
            wider = noise(design_shuffled_circle(prior, epsilon, radius), prior)
            assert last <= wider * (1 + 1e-9)
            assert wider <= ldp * (1 + 1e-9)
            last = wider
        assert noise(design_shuffled_circle(prior, epsilon, notion="ldp"), prior) == pytest.approx(ldp, rel=1e-9)


def test_a_heavy_value_in_one_piece_is_worse_than_ldp() -> None:
    for top in (Fraction(9, 10), Fraction(97, 100)):
        prior = topped(50, top)
        circle = design_shuffled_circle(prior, 1)
        whole = Whole(prior=circle.prior, arc=circle.arc, step=circle.step)
        assert noise(whole, prior) > 1.4 * subset_selection(50, 1) > 4 * noise(circle, prior)


def test_a_heavy_value_itself_is_no_worse_than_under_ldp() -> None:
    for epsilon, d, top in itertools.product((0.25, 1, 2, 4), (13, 500), (Fraction(1, 2), Fraction(99, 100))):
        prior = topped(d, top)
        circle = design_shuffled_circle(prior, epsilon)
        ldp = design_shuffled_circle(prior, epsilon, notion="ldp")
        sampled = prior.probabilities * (1 - prior.probabilities)
        assert ((circle.variances() - sampled) / (ldp.variances() - sampled)).max() < 1.01
        finest = Finest(prior=circle.prior, arc=circle.arc, step=circle.step)
        assert finest.variances()[0] > circle.variances()[0]


LIMIT = np.e / (np.e - 1) ** 2


@pytest.mark.parametrize("d", [50, 200, 1000, 5000])
def test_every_value_costs_a_quarter_of_ldp(d: int) -> None:
    lognormal = np.exp(np.random.default_rng(3).normal(size=d))
    for prior in (named_prior("zipf", d), Prior(range(d), [1 + int(10**6 * w) for w in lognormal])):
        circle = design_shuffled_circle(prior, 1)
        whole = np.array(circle.pieces) == 1
        assert circle.variances()[whole].max() <= 1.1 * LIMIT
        assert circle.variances().max() <= 2 * LIMIT
        total = circle.unbiased_variance(Histogram())
        assert unbiased_variance_bound(prior, 1) <= total <= 1.13 * unbiased_variance_bound(prior, 1)


# -- the contract ----------------------------------------------------------------------------------------------------


def test_values_outside_the_support_send_a_stand_ins_report() -> None:
    prior = Prior.of({"a": 3, "never": 0, "b": 1})
    circle = design_shuffled_circle(prior, 1)
    sampler = ShuffledCircle.sampler([circle])
    assert circle.can_send(sampler.one(0, 1, SeededWords(3)))
    reports = sampler.many(np.zeros(2000, np.int64), np.arange(2000) % 3, SeededWords(3))
    assert circle.can_send_many(reports).all()
    received = Counts.of(reports)
    unbiased = circle.read("unbiased", Histogram(), received)
    assert np.isnan(unbiased.estimate).tolist() == [False, True, False]
    assert circle.read("mmse", Histogram(), received).estimate[1] == 0
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
        circle.under(named_prior("zipf", 31))
    assert not circle.can_send(1 << 52)
    assert not circle.can_send(-1)


def test_what_it_does_not_serve_is_refused() -> None:
    prior = named_prior("zipf", 5)
    circle = design_shuffled_circle(prior, 1)
    received = Counts.of([5])
    with pytest.raises(NotEstimableError, match="histograms only"):
        circle.read("mmse", Survey(0), received)
    with pytest.raises(NotEstimableError, match="likelihood"):
        circle.read("mle", Histogram(), received)
    with pytest.raises(ValueError, match="positive"):
        design_shuffled_circle(prior, 0)
    one = design_shuffled_circle(Prior.of({"all": 1}), 1)
    assert one.read("unbiased", Histogram(), received).estimate == [1]
