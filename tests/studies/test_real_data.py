"""Figures on real data: loaders on small files of the public formats, closed forms against exact channels, facts."""

from __future__ import annotations

import gzip
import hashlib
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from studies import drift, gowalla, groups, kosarak, loaders
from studies.baselines import k_ary_response, subset_selection, unary_encoding
from studies.figure import BAND, DataMissingError, Figure, Options
from tacit.designs import Promise, design, optimal_binary
from tacit.designs.rules import theorem3
from tacit.mechanism import Channel, audit, gain
from tacit.prior import Prior
from tacit.task import Histogram, Survey

from support.places import DATA, needs_data

SMALL = Options(runs=200, seed=1, small=True)
FIGURES: dict[str, Callable[[Options], Figure]] = {
    **{"9a": kosarak.figure_9a, "kosarak": kosarak.kosarak_histogram, "9b": gowalla.figure_9b},
    **{"zero-prior": gowalla.zero_prior, "brfss": groups.brfss, "adult": groups.adult, "drift": drift.drift},
}
#: Curves that keep the budget of the x-axis.
PROMISES = {
    *(kosarak.OPTIMAL, kosarak.HALF, kosarak.BEST_LDP, kosarak.K_ARY, kosarak.SUBSET, gowalla.FLOORED, gowalla.OWN),
    *(groups.GROUP_LIP, groups.GROUP_LDP, groups.COMMON_LDP, groups.ADULT_LIP, groups.ADULT_LDP, groups.ADULT_K_ARY),
}

CHECKINS = """\
7\t2010-10-19T23:55:27Z\t40.75\t-73.98\t22847
7\t2010-10-18T22:17:43Z\t40.70\t-74.01\t420315
7\t2010-10-18T22:17:43Z\t40.70\t-74.01\t420315
3\t2010-01-02T03:04:05Z\t40.60\t-73.90\t11
"""
ADULT = "39, State-gov, 1, {degree}, 13, Never-married, Sales, Own-child, White, Male, 2174, 0, {hours}, US, <=50K"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with small made-up files in the original public formats."""
    directory, rng = tmp_path_factory.mktemp("tiny"), np.random.default_rng(5)
    visits = np.repeat(np.arange(1, 31), rng.geometric(0.02, size=30) + 1)
    clicks = [" ".join(map(str, line)) for line in np.array_split(visits, 9)]
    # One page is popular in the paper's sense.
    clicks += ["99 " * 16_000]
    (directory / "kosarak.dat").write_text("\n".join(clicks) + "\n")
    rows = []
    for user in range(25):
        for _ in range(int(rng.integers(2, 12))):
            lat, lon = rng.normal(40.72, 0.008), rng.normal(-73.98, 0.008)
            rows.append(f"{user}\t2010-05-{rng.integers(1, 29):02d}T10:00:{rng.integers(60):02d}Z\t{lat}\t{lon}\t5")
        # The last check-in of the first user lies where nobody else ever was.
        lat, lon = (40.90, -74.20) if user == 0 else (40.72, -73.98)
        rows.append(f"{user}\t2010-06-01T10:00:00Z\t{lat}\t{lon}\t5")
        rows.append(f"{user}\t2009-06-01T10:00:00Z\t{rng.integers(3) * 20}\t{rng.integers(2) * 50}\t5")
    (directory / "loc-gowalla_totalCheckins.txt").write_text("\n".join(rows) + "\n")
    lines = ["HeartDisease,BMI,AgeCategory,Sex,GenHealth,Diabetic,Smoking"]
    for _ in range(600):
        age, sex = rng.choice(["18-24", "80 or older"]), rng.choice(["Male", "Female"])
        ill = "Yes" if rng.random() < (0.3 if age != "18-24" else 0.02) else "No"
        lines.append(f"{ill},20.5,{age},{sex},{rng.choice(groups.HEALTH)},{ill},{rng.choice(['Yes', 'No'])}")
    (directory / "heart_2020_cleaned.csv").write_text("\n".join(lines) + "\n")
    (directory / "brfss2015_diabetes_by_age.csv").write_text("age,yes,all\n18-24,3,200\n80 or older,50,200\n")
    people = [
        ADULT.format(degree=rng.choice(["HS-grad", "Masters", "9th"]), hours=rng.integers(1, 100)) for _ in range(400)
    ]
    (directory / "adult.data").write_text("\n".join(people) + "\n\n")
    return directory


def test_clicks_read_the_same_from_transactions_compressed_or_not_and_from_counts(tmp_path: Path) -> None:
    text = "1 2 3\n1\n4 5 2 1 \n"
    (tmp_path / "kosarak.dat").write_text(text)
    (tmp_path / "kosarak.dat.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "counts.csv").write_text("item_id,count\n1,3\n2,2\n3,1\n4,1\n5,1\n")
    for name in ("kosarak.dat", "kosarak.dat.gz", "counts.csv"):
        clicks = loaders.load_clicks(tmp_path / name)
        assert (clicks.pages.tolist(), clicks.counts.tolist()) == ([1, 2, 3, 4, 5], [3, 2, 1, 1, 1])
    (tmp_path / "kosarak.dat").write_text("1 2 x\n")
    with pytest.raises(ValueError, match="item ids between spaces"):
        loaders.load_clicks(tmp_path / "kosarak.dat")


def test_checkins_are_sorted_by_user_and_time_without_exact_repetitions(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    (tmp_path / "c.txt").write_text(CHECKINS)
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(CHECKINS.encode()))
    table = loaders._checkin_table(tmp_path / "c.txt")
    pq.write_table(table.rename_columns(["user", "time", "lat", "lon", "poi"]), tmp_path / "c.parquet")
    for name in ("c.txt", "c.txt.gz", "c.parquet"):
        found = loaders.load_checkins(tmp_path / name)
        assert (len(found), found.repeated) == (3, 1)
        assert (found.user.tolist(), found.place.tolist()) == ([3, 7, 7], [11, 420315, 22847])
        # 2010-10-19T23:55:27Z
        assert int(found.time[-1]) == 1_287_532_527


def test_adult_and_heart_read_the_same_from_text_and_parquet(tiny: Path, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    people = loaders.load_adult(tiny / "adult.data")
    table = pa.table({"hours_per_week": people.hours, "education": people.education.tolist()})
    pq.write_table(table, tmp_path / "adult.parquet")
    again = loaders.load_adult(tmp_path / "adult.parquet")
    assert (len(people.hours), again.hours.tolist()) == (400, people.hours.tolist())
    assert again.education.tolist() == people.education.tolist()
    (tmp_path / "adult.test").write_text("|1x3 Cross validator\n" + ADULT.format(degree="10th", hours=12) + ".\n")
    assert loaders.load_adult(tmp_path / "adult.test").hours.tolist() == [12]
    (tmp_path / "adult.data").write_text("1, 2\n")
    with pytest.raises(ValueError, match="15 fields"):
        loaders.load_adult(tmp_path / "adult.data")
    assert set(loaders.load_heart(tiny / "heart_2020_cleaned.csv").sex.tolist()) == {"Male", "Female"}


@pytest.mark.parametrize("name", list(loaders.SOURCES))
def test_missing_data_names_the_files_and_where_they_come_from(name: str, tmp_path: Path) -> None:
    files, source = loaders.SOURCES[name]
    with pytest.raises(DataMissingError) as raised:
        loaders.find(name, Options(data=tmp_path))
    assert all(part in str(raised.value) for part in (*files, source, str(tmp_path), "--data"))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, bytes]]:
    """A file served on loopback."""
    content = b"1 2 3\n" * 500_000
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "kosarak.dat").write_bytes(content)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "site")))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/kosarak.dat", content
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_download_is_kept_only_with_the_right_checksum(site: tuple[str, bytes], tmp_path: Path) -> None:
    url, content = site
    right = hashlib.sha256(content).hexdigest()
    target = tmp_path / "kept.dat"
    assert loaders.download(url, right.upper(), target).read_bytes() == content
    target.write_text("old")
    with pytest.raises(ValueError, match="the file is not kept"):
        loaders.download(url, hashlib.sha256(b"other").hexdigest(), target)
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.dat", "site"]
    for place, checksum, wrong in ((url, "", "64 hexadecimal digits"), ("file:///etc/hosts", right, "http")):
        with pytest.raises(ValueError, match=wrong):
            loaders.download(place, checksum, target)


PRIORS = (
    Prior.of({0: 50, 1: 30, 2: 15, 3: 5}),
    Prior.of({0: 1, 1: 1, 2: 1}),
    Prior.of({0: 80, 1: 15, 2: 3, 3: 1, 4: 1}),
)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_closed_forms_of_ldp_baselines_are_those_of_their_exact_channels(prior: Prior, epsilon: float) -> None:
    p, task = prior.probabilities, Histogram()
    k_ary, subset = k_ary_response(prior, epsilon), subset_selection(prior, epsilon)
    assert kosarak.k_ary_gain(p, epsilon) == pytest.approx(gain(k_ary, task), rel=1e-6)
    assert kosarak.k_ary_level(p, epsilon) == pytest.approx(audit(k_ary).lip.epsilon, abs=1e-6)
    assert groups.subset_level(p, epsilon) == pytest.approx(audit(subset).lip.epsilon, abs=1e-6)
    unary = audit(unary_encoding(prior, epsilon)).lip.epsilon
    assert kosarak.unary_levels(prior, [epsilon])[0] == pytest.approx(unary, abs=1e-4)
    # Cell by cell loses against the full posterior, and nothing under LDP gains more than the LIP optimum.
    assert kosarak.subset_gain(p, epsilon) <= gain(subset, task) + 1e-7
    best, level = kosarak.best_ldp(p, epsilon)
    assert max(kosarak.k_ary_gain(p, epsilon), kosarak.subset_gain(p, epsilon)) <= best + 1e-12
    assert best <= design(prior, task, epsilon).certificate.gain_bound + 1e-9
    assert level <= epsilon + 1e-9


def test_the_merged_ldp_channel_gains_on_all_values_what_it_claims() -> None:
    """Spelled out over all values, the channel for the heaviest and the rest as one has the gain that was claimed."""
    weights = [1000 - 17 * k for k in range(30)]
    prior = Prior(range(30), weights)
    merged = Prior(range(13), [*weights[:12], sum(weights[12:])])
    rest = prior.probabilities[12:]
    task = kosarak._HeavyAndRest(math.sqrt(float(rest @ rest)) / float(rest.sum()))
    found = design(merged, task, Promise(2.0, notion="ldp"))
    spelled = Channel.from_weights(prior, [found.channel.weights[min(x, 12)] for x in range(30)])
    assert gain(spelled, Histogram()) == pytest.approx(found.certificate.gain, rel=1e-9)
    assert found.certificate.gain <= kosarak.best_ldp(prior.probabilities, 2.0)[0] + 1e-9


def test_moments_of_the_error_match_enumeration() -> None:
    """Two groups, four people: every combination of reports, with its probability."""
    priors = [Prior.of({"a": 5, "b": 3, "c": 2}), Prior.of({"a": 1, "b": 1, "c": 8})]
    channels = [k_ary_response(prior, 1.5) for prior in priors]
    arm = drift.mmse_arm(channels, priors, Histogram())
    held = np.array([[1, 1, 0], [0, 0, 2]])
    people = [(group, x) for group in range(2) for x in range(3) for _ in range(held[group, x])]
    chance, squares = [], []
    for reports in product(range(3), repeat=len(people)):
        each = list(zip(people, reports, strict=True))
        chance.append(math.prod(channels[group].matrix[x, y] for (group, x), y in each))
        off = sum(arm.weights[group][y] - arm.g[x] for (group, x), y in each)
        squares.append(float(np.sum(off**2)))
    mean = float(np.dot(chance, squares))
    moments = drift.error_moments(arm, held)
    assert moments.square == pytest.approx(mean, rel=1e-12)
    assert moments.spread == pytest.approx(float(np.dot(chance, np.array(squares) ** 2)) - mean**2, rel=1e-10)


def test_a_simulation_agrees_with_its_exact_error_and_the_published_channel_is_told_apart() -> None:
    prior, held = Prior.of({"yes": 9, "no": 91}), np.array([[120, 880]])
    arm = drift.mmse_arm([optimal_binary(prior, 1.0)], [prior], Survey("yes"))
    found = drift.realised(arm, held, runs=2_000, seed=[3])
    assert abs(found.simulated - found.exact) <= BAND * found.standard_error
    wrong = drift.mmse_arm([theorem3(prior, 1.0, force=True)], [prior], Survey("yes"))
    broken = drift.realised(wrong, held, runs=2_000, seed=[3])
    assert abs(broken.simulated - found.exact) > BAND * found.standard_error


def test_a_mechanism_that_draws_nothing_is_not_called_simulated() -> None:
    prior = Prior.of({"yes": 1, "no": 9})
    arm = drift.mmse_arm([Channel.from_weights(prior, [[1], [1]])], [prior], Survey("yes"))
    point = drift.realised(arm, np.array([[5, 5]]), runs=50, seed=[1]).point("", "no data", "corrected", 1.0, 0.0)
    assert (point.standard_error, point.expected) == (None, None)
    assert point.y == pytest.approx(4 / math.sqrt(10))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_errors_over_splits_are_those_of_the_exact_channels(epsilon: float) -> None:
    priors = [Prior.of({"yes": 2, "no": 98}), Prior.of({"yes": 30, "no": 70})]
    held = np.array([[3, 50], [20, 40]])
    p = np.array([[0.02, 0.3]])
    for notion, wrong, make in (("lip", "ldp", optimal_binary), ("ldp", "lip", k_ary_response)):
        arm = drift.mmse_arm([make(prior, epsilon) for prior in priors], priors, Survey("yes"))
        exact = drift.error_moments(arm, held).square
        assert groups._binary_errors(p, held[None], epsilon, notion)[0] == pytest.approx(exact, rel=1e-5)
        assert groups._binary_errors(p, held[None], epsilon, wrong)[0] != pytest.approx(exact, rel=1e-3)


def test_the_published_channel_on_fixed_people_has_its_closed_form() -> None:
    prior, held = Prior.of({0: 5, 1: 3, 2: 2}), np.array([[4, 1, 7]])
    arm = drift.mmse_arm([theorem3(prior, 1.0, force=True)], [prior], Histogram())
    exact = drift.error_moments(arm, held).square / 12
    assert gowalla.published_realised(prior.probabilities, held[0].astype(float), 1.0) == pytest.approx(exact, rel=1e-9)


def test_the_error_under_a_wrong_prior_matches_simulation_and_not_the_promised_error() -> None:
    truth = drift.OLDEST
    way, g, n, runs = drift._ways()[0], np.eye(5), 400, 4_000
    error, bias = drift.drifted_error(way.channel, way.weights, g, truth, n)
    rng = np.random.default_rng(8)
    joint = truth.probabilities[:, None] * way.channel.matrix
    cells = rng.multinomial(n, (joint / joint.sum()).ravel(), size=runs).reshape(runs, *joint.shape)
    off = cells.sum(axis=1) @ way.weights - cells.sum(axis=2) @ g
    squares = (off**2).sum(axis=1) / n
    band = 5 * squares.std() / math.sqrt(runs)
    trusted, none = drift.drifted_error(way.channel, way.weights, g, drift.EVERYBODY, n)
    assert abs(squares.mean() - error) <= band < abs(squares.mean() - trusted)
    assert none == pytest.approx(0.0, abs=1e-12)
    assert 0 < bias < error


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_levels_under_a_wrong_prior_stay_within_all_bounds_but_not_within_the_promise(epsilon: float) -> None:
    rng = np.random.default_rng(4)
    channel = design(drift.EVERYBODY, Histogram(), epsilon).channel
    reached = []
    for _ in range(60):
        truth = Prior(drift.EVERYBODY.values, (rng.dirichlet(np.full(5, 3.0)) * 10**6).astype(int).tolist())
        level = audit(channel.under(truth)).lip.epsilon
        bounds = drift.level_bounds(epsilon, drift.EVERYBODY, truth)
        assert all(level <= bound + 1e-9 for _, bound in bounds)
        reached.append(level)
    assert max(reached) > epsilon


def test_a_robust_design_keeps_its_promise_within_the_radius_where_the_optimal_one_does_not() -> None:
    rng, g = np.random.default_rng(6), Histogram()
    a = math.floor(drift.robust_level(1.0, 0.1) * 10_000) / 10_000
    robust, optimal = design(drift.EVERYBODY, g, a).channel, design(drift.EVERYBODY, g, 1.0).channel
    broken = 0
    for _ in range(60):
        far = Prior(drift.EVERYBODY.values, (rng.dirichlet(np.ones(5)) * 10**6).astype(int).tolist())
        share = min(1.0, 0.0999 / drift.distance(drift.EVERYBODY, far))
        truth = drift.drifted(drift.EVERYBODY, far, Fraction(share))
        assert drift.distance(drift.EVERYBODY, truth) <= 0.1
        assert audit(robust.under(truth)).lip.epsilon <= 1.0
        broken += audit(optimal.under(truth)).lip.epsilon > 1.0
    assert broken > 30


def check(figure: Figure) -> None:
    """What every figure must keep."""
    assert {point.panel for point in figure.points} == set(figure.panels)
    assert all(math.isfinite(point.x) and math.isfinite(point.y) and point.y >= 0 for point in figure.points)
    assert not figure.disagreements
    for point in figure.points:
        name = point.curve.removesuffix(", realised").removesuffix(gowalla.ONCE)
        if name in PROMISES:
            assert point.level is not None
            assert point.level <= point.x / (2 if name == kosarak.HALF else 1) + 1e-9
    found = {(point.panel, point.curve, point.x): point.y for point in figure.points}
    assert len(found) == len(figure.points)
    # The optimum lies between the bound and the best LDP channel.
    for panel, name, x in found:
        if name == kosarak.BOUND:
            best = [found[panel, curve, x] for curve in (kosarak.OPTIMAL, kosarak.BEST_LDP, kosarak.NO_DATA)]
            assert [found[panel, name, x], *best] == sorted([found[panel, name, x], *best])


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_runs_on_small_files_of_the_public_formats(name: str, tiny: Path) -> None:
    options = replace(SMALL, data=tiny)
    figure = FIGURES[name](options)
    check(figure)
    assert any(point.version == "published" for point in figure.points)
    # Others simulate nothing, or as these do; and designs are the same again in `test_design`.
    if name in ("9a", "brfss"):
        assert FIGURES[name](options) == figure


def test_users_in_districts_of_prior_zero_are_counted_and_protected(tiny: Path) -> None:
    options = replace(SMALL, data=tiny)
    city = gowalla.Traces.of(loaders.load_checkins(loaders.find("gowalla", options)), gowalla.NEW_YORK)
    assert int(city.held[city.strangers].sum()) == 1
    small = gowalla._reduced(city)
    assert len(audit(theorem3(small, 1, force=True)).exposed) == 1
    assert audit(design(small, Histogram(), 1).channel).exposed == ()
    assert not set(city.strangers.tolist()) & set(city.prior.support)
    assert len(city.prior.floored(gowalla.FLOOR).support) == gowalla.SIDE**2


REAL = replace(SMALL, data=DATA)


@needs_data
def test_facts_of_the_data() -> None:
    clicks = loaders.load_clicks(DATA / "kosarak_item_counts.csv")
    assert (int(clicks.counts.sum()), len(clicks.counts)) == (8_019_015, 41_270)
    assert int((clicks.counts > kosarak.POPULAR).sum()) == 36
    city = loaders.load_checkins(DATA / "gowalla_nyc_checkins.parquet")
    assert (len(city) + city.repeated, city.repeated, len(np.unique(city.user))) == (138_957, 6, 7_115)
    traces = gowalla.Traces.of(city, gowalla.NEW_YORK)
    assert (len(traces.prior.support), int(traces.held[traces.strangers].sum())) == (784, 11)
    heart = loaders.load_heart(DATA / "brfss2020_heart.parquet")
    assert (int(heart.disease.sum()), len(heart.disease)) == (27_373, 319_795)
    for prior, chosen in ((drift.EVERYBODY, heart.age != ""), (drift.OLDEST, heart.age == "80 or older")):
        assert Prior(prior.values, map(Counter(heart.health[chosen].tolist()).get, prior.values)) == prior
    assert len(loaders.load_adult(DATA / "uci_adult.parquet").hours) == 48_842


@cache
def on_real_data(name: str) -> Figure:
    return FIGURES[name](REAL)


@needs_data
@pytest.mark.parametrize("name", ["9a", "brfss"])
def test_figures_run_on_the_real_data(name: str) -> None:
    check(on_real_data(name))


@needs_data
def test_for_rare_pages_lip_is_hardly_better_than_ldp_and_half_the_budget_is_worse() -> None:
    figure = on_real_data("9a")
    found = {(p.curve, p.x): p for p in figure.points if p.panel == kosarak.WITH}
    for epsilon in (1.0, 2.0, 4.0):
        lip, half, ldp = (found[name, epsilon].y for name in (kosarak.OPTIMAL, kosarak.HALF, kosarak.BEST_LDP))
        assert lip < ldp < half
        assert ldp / lip < 1.002
        published = next(p for p in figure.points if p.curve.startswith("published,") and p.x == epsilon)
        assert published.y < lip
        assert (published.level or 0) > 6.5


@needs_data
def test_priors_by_group_beat_one_common_prior_and_ldp_where_the_answer_is_rare() -> None:
    figure = on_real_data("brfss")
    at = {(p.panel, p.curve, p.x): p for p in figure.points}
    for panel in ("heart disease, expected", groups.OVER_SPLITS):
        lip, common, ldp = (at[panel, name, 1.0].y for name in (groups.GROUP_LIP, groups.COMMON_LIP, groups.GROUP_LDP))
        assert lip < ldp < common
        # At a large budget the common prior wins, by breaking its promise to those whose group makes them rare.
        late = at[panel, groups.COMMON_LIP, 3.0]
        assert late.y < at[panel, groups.GROUP_LIP, 3.0].y
        assert (late.level or 0) > 4.5
