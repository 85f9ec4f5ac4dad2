from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

from studies import central, draw, monte_carlo, paper, reproduce, simulate
from studies import figure as curves
from studies.__main__ import main as command
from studies.baselines import k_ary_response, published_binary_mse, subset_selection, unary_encoding
from studies.central import central_mse
from studies.figure import BAND, DataMissingError, Figure, Options, Point
from studies.page import agreement
from studies.paper import _unary_level
from tacit import Prior, audit
from tacit.designs import Promise, design, optimal_binary
from tacit.designs.rules import theorem3
from tacit.task import Histogram

from support.places import GOLDEN

SMALL = Options(runs=1500, seed=0, small=True)
#: Closed forms to the last digits; designs are rounded to integers, which leaves a little freedom.
ANALYTIC = {"2": 1e-9, "5": 1e-9, "6a": 1e-6, "6b": 1e-6, "7": 1e-9, "10": 1e-9}
OURS = [*ANALYTIC, "8"]


@pytest.fixture(scope="module")
def figures() -> dict[str, Figure]:
    return {name: reproduce.compute(name, SMALL) for name in OURS}


@pytest.mark.parametrize("name", ANALYTIC)
def test_every_analytic_point_is_the_golden_one(figures, name):
    golden = reproduce.from_csv((GOLDEN / "figures" / f"{name}.csv").read_text(encoding="utf-8"))
    computed = [point for point in figures[name].points if point.deviation is None]
    assert len(computed) == len(golden)
    for point, known in zip(computed, golden, strict=True):
        assert (point.panel, point.curve, point.version, point.x) == (known.panel, known.curve, known.version, known.x)
        assert point.y == pytest.approx(known.y, rel=ANALYTIC[name], abs=1e-15)
        assert (point.level is None) == (known.level is None)
        assert point.level is None or point.level == pytest.approx(known.level, rel=ANALYTIC[name], abs=1e-9)


@pytest.mark.parametrize("name", OURS)
def test_every_curve_called_lip_keeps_its_level(figures, name):
    figure = figures[name]
    called = [point for point in figure.points if "LIP" in point.curve and point.level is not None]
    assert called or name == "10"
    for point in called:
        assert point.version == "corrected"
        promised = point.x if figure.epsilon is None else figure.epsilon
        assert point.level <= (promised / 2 if "ε/2" in point.curve else promised) + 1e-9


@pytest.mark.parametrize("name", OURS)
def test_nothing_beats_the_proven_bound_at_its_level_and_every_point_has_a_panel(figures, name):
    figure = figures[name]
    least = {(point.panel, point.x): point.y for point in figure.points if point.curve == curves.BOUND}
    for point in figure.points:
        assert point.panel in figure.panels
        if point.curve in (curves.OPTIMAL, curves.HALF, curves.BEST_LDP, curves.K_ARY):
            assert point.y >= least[point.panel, point.x] - 1e-6


def test_half_the_budget_never_beats_ldp_because_it_is_ldp(figures):
    """ε/2-LIP implies ε-LDP (Theorem 1), so the paper's crossing curves cannot be."""
    for figure in figures.values():
        ldp = {(point.panel, point.x): point.y for point in figure.points if point.curve == curves.BEST_LDP}
        half = [point for point in figure.points if point.curve == curves.HALF]
        assert all(point.y >= ldp[point.panel, point.x] - 1e-6 for point in half)


@pytest.mark.parametrize("p", [0.01, 0.1, 0.26, 0.27, 0.3, 0.5])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_the_published_level_exceeds_its_promise_exactly_where_a_value_is_rare(p, epsilon):
    prior = Prior.of({0: 1 - p, 1: p})
    level = curves.published_level(prior.probabilities, epsilon)
    assert (level > epsilon + 1e-9) == (p < 1 / (math.exp(epsilon) + 1))
    assert level == pytest.approx(audit(theorem3(prior, epsilon, force=True)).lip.epsilon, abs=1e-9)
    name = curves.reached("published", [epsilon], [level])
    assert ("reaches" in name) == (p < 1 / (math.exp(epsilon) + 1))


def test_levels_in_closed_form_equal_the_exact_audit():
    skewed, even = Prior.of({0: 7, 1: 2, 2: 1}), Prior.uniform(5)
    assert curves.k_ary_level(skewed.probabilities, 1) == pytest.approx(
        audit(k_ary_response(skewed, 1)).lip.epsilon, abs=1e-6
    )
    for size in (1, 2, 4):
        exact = audit(subset_selection(even, 1, size=size)).lip.epsilon
        assert curves.subset_level(5, size, 1.0) == pytest.approx(exact, abs=1e-6)
    assert _unary_level(5, 1.0) == pytest.approx(audit(unary_encoding(even, 1)).lip.epsilon, abs=1e-6)


def test_subset_selection_is_the_best_ldp_histogram_for_a_uniform_prior():
    for d, epsilon in ((4, 0.5), (6, 1.0), (6, 3.0)):
        found = design(Prior.uniform(d), Histogram(), Promise(epsilon, notion="ldp"))
        assert curves.subset_error(d, epsilon)[0] == pytest.approx(found.certificate.mse, rel=1e-6)


# Monte Carlo --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["6a", "7", "8"])
def test_monte_carlo_agrees_with_theory(figures, name):
    figure = figures[name]
    assert figure.simulated
    assert not figure.disagreements
    assert "agrees" in agreement(figure)


def test_the_optimal_channel_simulated_against_the_published_error_is_found_out(figures):
    """A wrong mechanism: what is simulated is not what the formula is about."""
    part = monte_carlo._Part(100, replace(SMALL, runs=20_000))
    pair = monte_carlo.optimal_pair(part.p, 1.0)
    right = monte_carlo.simulate(part, curves.OPTIMAL, "corrected", 1.0, pair, np.random.default_rng(2))
    error = float(published_binary_mse(part.p, 1.0) @ part.heads) / part.n
    wrong = replace(right, expected=math.sqrt(error))
    assert not replace(figures["8"], points=(right,)).disagreements
    assert replace(figures["8"], points=(wrong,)).disagreements == (wrong,)
    assert "contradicts" in agreement(replace(figures["8"], points=(wrong,)))


def test_a_channel_with_swapped_rows_is_found_out():
    part = monte_carlo._Part(100, SMALL)
    pair = monte_carlo.optimal_pair(part.p, 1.0)
    swapped = monte_carlo.Pair(pair.yes_if_yes, pair.yes_if_no, pair.level)
    _, errors = simulate.binary_errors(part.p, pair.yes_if_no, pair.yes_if_yes)
    right, wrong = (
        simulate.grouped_squares(part.ones, part.heads, sent.yes_if_no, sent.yes_if_yes, errors, rng)
        for sent, rng in ((pair, np.random.default_rng(1)), (swapped, np.random.default_rng(2)))
    )  # fmt: skip
    joint, _ = simulate.binary_errors(part.p, pair.yes_if_no, pair.yes_if_yes)
    moments = simulate.cell_moments(joint, errors, part.heads)
    for squares, agrees in ((right, True), (wrong, False)):
        point = simulate.simulated_point("x", "corrected", 1.0, squares, part.n, moments, 1.0)
        assert (point.deviation <= BAND) == agrees


def test_the_pairs_of_figure_8_are_the_channels_of_the_library():
    p = np.array([0.05, 0.4, 0.93])
    pair = monte_carlo.optimal_pair(p, 1.0)
    for k, share in enumerate(p.tolist()):
        prior = Prior.of({0: 1 - share, 1: share})
        matrix = optimal_binary(prior, 1).matrix
        # Which report is called yes is a matter of name.
        told = sorted([(1 - pair.yes_if_no[k], 1 - pair.yes_if_yes[k]), (pair.yes_if_no[k], pair.yes_if_yes[k])])
        assert np.allclose(sorted(map(tuple, matrix.T)), told, atol=1e-6)


# The trusted server -------------------------------------------------------------------------------------------------

FIVE = np.array([0.05, 0.2, 0.45, 0.7, 0.91])


def exact_level(mechanism: central.Mechanism) -> float:
    """The level by enumerating all answers of everybody, in fractions (one person for each prior)."""
    p = [Fraction(share) for share in mechanism.people.p.tolist()]
    n = len(p)
    law, held = [Fraction(0)] * (n + 1), [[Fraction(0)] * (n + 1) for _ in p]
    for answers in product((0, 1), repeat=n):
        chance = math.prod((share if x else 1 - share) for share, x in zip(p, answers, strict=True))
        law[sum(answers)] += chance
        for i, x in enumerate(answers):
            held[i][sum(answers)] += x * chance
    worst = Fraction(1)
    for report in mechanism.reports.tolist():
        sent = [
            Fraction(cell) / Fraction(total) for cell, total in zip(report, mechanism.people.mass.tolist(), strict=True)
        ]
        weight = sum(s * m for s, m in zip(sent, law, strict=True))
        for i, share in enumerate(p):
            after = sum(s * m for s, m in zip(sent, held[i], strict=True)) / weight
            lifts = after / share, (1 - after) / (1 - share)
            worst = max(worst, *lifts, *(1 / lift for lift in lifts))
    return math.log(worst)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_the_server_of_five_people_keeps_everybodys_bounds_exactly(epsilon):
    people = central.gather(FIVE, np.ones(5))
    best, pools = central.best_vertices(people, epsilon), central.two_pools(people, epsilon)
    for mechanism in (best, pools):
        covered = mechanism.reports.sum(axis=0) + mechanism.alone
        assert np.allclose(covered, people.mass, atol=1e-9)
        assert mechanism.level <= epsilon
    assert exact_level(best) <= epsilon
    assert exact_level(best) == pytest.approx(best.level, abs=1e-7)
    assert best.moments.variance <= pools.moments.variance + 1e-9
    assert central.lower_bound(pools, epsilon) <= best.moments.variance + 1e-7
    assert central.best_vertices(people, epsilon, published=True).moments.variance <= best.moments.variance + 1e-9


@pytest.mark.parametrize(("p", "epsilon"), [(0.5, 0.5), (0.1, 1.0), (0.3, 0.1)])
def test_with_a_common_prior_the_server_is_the_closed_form(p, epsilon):
    people = central.gather(np.array([p]), np.array([5]))
    known = central_mse(5, p, epsilon)
    assert central.best_vertices(people, epsilon).moments.variance == pytest.approx(known, abs=1e-6)
    many = central.gather(np.array([p]), np.array([300]))
    if epsilon < 1:
        pools = central.two_pools(many, epsilon)
        assert pools.moments.variance == pytest.approx(central_mse(300, p, epsilon), rel=1e-5)
        assert pools.moments.variance >= central.lower_bound(pools, epsilon) - 1e-9


def test_beliefs_equal_those_by_leaving_one_person_out():
    rng = np.random.default_rng(3)
    p, heads = monte_carlo.draw_people(80, rng)
    people = central.gather(p, heads)
    likely = people.mass > 1e-15
    for left_out in (0, len(p) // 2, len(p) - 1):
        rest = np.ones(1)
        for group, (share, count) in enumerate(zip(p, heads, strict=True)):
            for _ in range(int(count) - (group == left_out)):
                rest = np.convolve(rest, [1 - share, share])
        known = p[left_out] * np.concatenate([[0.0], rest]) / people.mass
        assert np.allclose(people.beliefs[left_out][likely], known[likely], rtol=1e-9)
        assert (np.diff(people.beliefs[left_out][likely]) > 0).all()


def test_the_server_of_many_people_keeps_its_promise_and_its_bound():
    p, heads = monte_carlo.draw_people(300, np.random.default_rng(5))
    people = central.gather(p, heads)
    for epsilon in (0.05, 0.2, 0.4):
        mechanism = central.two_pools(people, epsilon)
        assert mechanism.level <= epsilon
        assert 0 <= central.lower_bound(mechanism, epsilon) <= mechanism.moments.variance
    assert central.two_pools(people, 0.2).moments.variance < 0.2 * people.variance


# Figure 10 ----------------------------------------------------------------------------------------------------------


def test_the_optimum_of_figure_10_is_a_corner_of_its_region_and_the_published_point_is_not(figures):
    for p, inside in ((0.4, True), (0.1, False)):
        corners = paper.region(p, 1.0)
        points = {point.curve: point for point in figures["10"].points if point.panel == f"P₁ = {p:g}"}
        best = points[paper.BEST]
        published = next(point for name, point in points.items() if name.startswith("published optimum"))
        assert np.abs(corners - [best.x, best.y]).sum(axis=1).min() < 1e-9
        assert (np.abs(corners - [published.x, published.y]).sum(axis=1).min() < 1e-9) == inside
        assert (published.level > 1 + 1e-9) == (not inside)


# The whole ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def plain_pictures(monkeypatch):
    """Pictures of nothing: drawing takes longer than all else, and others look at what is drawn."""
    monkeypatch.setattr(draw, "draw", lambda figure, paths: [path.write_bytes(b"<svg/>") for path in paths])


@pytest.mark.usefixtures("plain_pictures")
def test_a_second_run_reads_what_the_first_one_computed(tmp_path):
    first = reproduce.reproduce(["5", "10"], tmp_path, SMALL, workers=1)
    assert all(outcome.computed for outcome in first.outcomes)
    steps: list[tuple[int, int | None]] = []
    second = reproduce.reproduce(
        ["10", "5"], tmp_path, SMALL, lambda done, total: steps.append((done, total)), workers=1
    )
    assert not any(outcome.computed for outcome in second.outcomes)
    assert steps == [(1, 2), (2, 2)]
    assert second.outcomes[1].figure == first.outcomes[0].figure
    assert not any(name.startswith(".") for name in map(str, (path.name for path in tmp_path.iterdir())))
    (tmp_path / "5.csv").unlink()
    third = reproduce.reproduce(["5", "10"], tmp_path, SMALL, workers=1)
    assert [outcome.computed for outcome in third.outcomes] == [True, False]
    assert reproduce.reproduce(["10"], tmp_path, SMALL, workers=1, force=True).outcomes[0].computed


def test_the_same_seed_gives_the_same_files_in_parallel(tmp_path):
    tiny = Options(runs=50, seed=3, small=True)
    texts = []
    for folder, workers in (("a", 1), ("b", 2)):
        reproduce.reproduce(["6a", "7"], tmp_path / folder, tiny, workers=workers)
        texts.append([(tmp_path / folder / name).read_bytes() for name in ("6a.csv", "7.csv", "7.svg")])
    assert texts[0] == texts[1]
    assert reproduce.to_csv(reproduce.compute("7", replace(tiny, seed=4))) != texts[0][1].decode()


@pytest.mark.usefixtures("plain_pictures")
def test_the_page_loads_nothing_and_says_what_was_left_out(tmp_path, monkeypatch, figures):
    def computed(name: str, options: Options) -> Figure:
        if name == "9a":
            raise DataMissingError("clicks.csv is not there; pass --data")
        return figures[name]

    monkeypatch.setattr(reproduce, "compute", computed)
    result = reproduce.reproduce(["2", "8", "9a"], tmp_path, SMALL, workers=1)
    text = result.page.read_text(encoding="utf-8")
    for reference in ("http", "<script", "<link", "@import", "url("):
        assert reference not in text
    assert text.count("src=") == text.count('src="data:image/svg+xml;base64,')
    assert "Left out: clicks.csv is not there" in text
    assert "Monte Carlo agrees with theory" in text
    assert "reaches ε = 1.90 for 1" in text
    assert result.agrees
    assert [outcome.missing for outcome in result.outcomes] == [None, None, "clicks.csv is not there; pass --data"]


@pytest.mark.usefixtures("plain_pictures")
def test_the_command_prints_remarks_and_fails_if_monte_carlo_disagrees(tmp_path, monkeypatch, figures, capsys):
    monkeypatch.setattr(reproduce, "compute", lambda name, _: figures[name])
    words = ["5", "--out", str(tmp_path / "figures"), "--force"]
    assert command(words) == 0
    said = capsys.readouterr().out
    assert figures["5"].title in said
    assert str(tmp_path / "figures" / "index.html") in said
    far = Point("", "optimal", "corrected", 1.0, 2.0, standard_error=0.1, expected=1.0)
    monkeypatch.setattr(reproduce, "compute", lambda name, _: replace(figures[name], points=(far,), panels=("",)))
    assert command(words) == 1
    assert command(["4"]) == 2
    assert "no figure '4'" in capsys.readouterr().err


def test_bad_requests_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no figure '4'"):
        reproduce.reproduce(["4"], tmp_path, SMALL)
    with pytest.raises(ValueError, match="at least 2 runs"):
        reproduce.reproduce(["5"], tmp_path, Options(runs=1))


def test_csv_keeps_every_digit(figures):
    for figure in figures.values():
        assert reproduce.from_csv(reproduce.to_csv(figure)) == figure.points


def test_more_budget_never_hurts(figures):
    for name in ("2", "5", "6a", "7", "8"):
        for panel in figures[name].panels:
            for curve in (curves.OPTIMAL, curves.BEST_LDP):
                ys = [point.y for point in figures[name].points if (point.panel, point.curve) == (panel, curve)]
                assert all(after <= before + 1e-9 for before, after in pairwise(ys))


def test_no_published_curve_is_drawn_without_the_level_it_reaches():
    points = [Point("", "published", "published", x, 1.0, level) for x, level in ((1.0, 4.2), (2.0, math.inf))]
    figure = Figure("f", "t", "x", "y", tuple(points), "r")
    assert draw._label(figure, "published", points) == "published, reaches ε = 4.20 for 1"
    assert draw._label(figure, "published", points[1:]) == "published, reaches ε = ∞ for 2"
    assert draw._label(figure, "optimal ε-LIP", points) == "optimal ε-LIP"


@pytest.mark.usefixtures("plain_pictures")
def test_the_page_keeps_figures_of_earlier_calls(tmp_path):
    reproduce.reproduce(["10"], tmp_path, SMALL, workers=1)
    again = reproduce.reproduce(["5"], tmp_path, replace(SMALL, seed=7), workers=1)
    assert [outcome.name for outcome in again.outcomes] == ["5"]
    page = again.page.read_text(encoding="utf-8")
    assert page.index('id="5"') < page.index('id="10"')
    assert "kept from an earlier run" in page


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("9a", "kosarak.dat", "1 2 3\n"),
        ("9b", "loc-gowalla_totalCheckins.txt", "0\t2010-10-19T23:55:27Z\t40.7\t-74.0\t22847\n"),
    ],
)
def test_data_that_are_too_few_are_said_to_be(tmp_path, name, file, text):
    """One line of somebody's own file gave ZeroDivisionError."""
    (tmp_path / file).write_text(text)
    (outcome,) = reproduce.reproduce([name], tmp_path / "out", replace(SMALL, data=tmp_path), workers=1).outcomes
    assert f"The data of figure {name} are too few" in outcome.missing
