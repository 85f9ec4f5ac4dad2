"""Regression: slopes are covered, those of the reports themselves are not; statsmodels agrees where it can."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from tacit import Histogram, NotEstimableError, Prior, Sum, Survey, make_plan
from tacit.estimates import covariate_levels, pseudo_values, regress
from tacit.mechanism import audit

from support.answering import reports_of

PRIORS = {"a": Prior.of({"yes": 0.2, "no": 0.8}), "b": Prior.of({"yes": 0.35, "no": 0.65})}
PLAN = make_plan(PRIORS, Survey("yes"), epsilon=1)
BETA = np.array([-1.5, 0.8, 0.5])
COLUMNS = ("constant", "x", "b")


def people(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Groups and columns: a constant, a number, and being in group b."""
    groups = rng.integers(0, 2, n)
    return groups, np.column_stack([np.ones(n), rng.normal(size=n), groups])


def share(eta: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-eta))


def test_slopes_are_covered_and_those_of_the_reports_are_not():
    rng, rounds, held, naive = np.random.default_rng(1), 100, np.zeros(3), np.zeros(3)
    labels = [np.array([label == "yes" for label in group.mechanism.labels], float) for group in PLAN.groups]
    for _ in range(rounds):
        groups, z = people(1500, rng)
        answers = (rng.random(1500) > share(z @ BETA)).astype(int)
        reports = reports_of(PLAN, groups, answers, rng)
        taken = np.where(groups == 0, labels[0][reports], labels[1][reports])
        for outcome, found in ((pseudo_values(PLAN, reports, groups), held), (taken, naive)):
            fit = regress(outcome, z, COLUMNS, model="logistic")
            found += [each.low <= beta <= each.high for each, beta in zip(fit.coefficients, BETA, strict=True)]
    # At 95%, four standard errors of 100 rounds.
    assert (held > 0.86 * rounds).all(), held
    assert naive[1] < 0.1 * rounds


def test_errors_that_ignore_clusters_cover_too_rarely_and_clustered_ones_do_not():
    """Forty schools whose people share something, and a column that is the school's."""
    rng, rounds, held = np.random.default_rng(2), 150, np.zeros(2)
    plan = make_plan(Prior.of({"yes": 0.3, "no": 0.7}), Survey("yes"), epsilon=3)
    school = np.repeat(np.arange(40), 40)
    for _ in range(rounds):
        treated = np.arange(40) % 2
        p = np.clip(0.3 + 0.1 * treated + rng.normal(0, 0.1, 40), 0.02, 0.98)[school]
        z = np.column_stack([np.ones(1600), treated[school]])
        reports = reports_of(plan, np.zeros(1600, int), (rng.random(1600) > p).astype(int), rng)
        r = pseudo_values(plan, reports)
        for place, clusters in enumerate((school, None)):
            row = regress(r, z, ("constant", "treated"), model="linear", clusters=clusters).coefficients[1]
            held[place] += row.low <= 0.1 <= row.high
    assert held[0] > 0.88 * rounds
    assert held[1] < 0.85 * rounds


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(3)
    groups, z = people(800, rng)
    answers = (rng.random(800) > share(z @ BETA)).astype(int)
    r = pseudo_values(PLAN, reports_of(PLAN, groups, answers, rng), groups)[:, 0]
    return z, answers, r, rng.uniform(0.5, 3, 800), rng.integers(0, 30, 800)


@pytest.mark.parametrize("clustered", [False, True])
def test_a_linear_regression_is_that_of_statsmodels(fitted, clustered):
    import statsmodels.api as sm

    z, _, r, weights, schools = fitted
    clusters = schools if clustered else None
    ours = regress(r, z, COLUMNS, model="linear", weights=weights, clusters=clusters)
    kind = {"cov_type": "cluster", "cov_kwds": {"groups": schools}} if clustered else {"cov_type": "HC1"}
    # Of 30 clusters the jackknife and the sandwich differ by some percent.
    precise = {"rtol": 0.1, "atol": 1e-4} if clustered else {"rtol": 1e-9}
    theirs = sm.WLS(r, z, weights=weights).fit(**kind, use_t=True)
    np.testing.assert_allclose([row.estimate for row in ours.coefficients], theirs.params, rtol=1e-9)
    np.testing.assert_allclose(ours.covariance, theirs.cov_params(), **precise)
    if not clustered:
        np.testing.assert_allclose([(row.low, row.high) for row in ours.coefficients], theirs.conf_int(), rtol=1e-6)


def test_logistic_and_multinomial_are_those_of_statsmodels_where_answers_are_not_randomized(fitted):
    import statsmodels.api as sm

    z, answers, _, _, _ = fitted
    ours = regress(1.0 - answers, z, COLUMNS, model="logistic")
    theirs = sm.Logit(1 - answers, z).fit(disp=0, cov_type="HC0")
    np.testing.assert_allclose([row.estimate for row in ours.coefficients], theirs.params, rtol=1e-6)
    np.testing.assert_allclose(ours.covariance, theirs.cov_params() * 800 / 797, rtol=1e-6)
    three = (answers + (z[:, 1] > 0.3)).astype(int)
    mine = regress(np.eye(3)[three], z, COLUMNS, model="multinomial", values=["p", "q", "r"])
    other = sm.MNLogit(three, z).fit(disp=0)
    found = [row.estimate for row in mine.coefficients]
    np.testing.assert_allclose(found, other.params.T.ravel(), rtol=1e-5, atol=1e-7)
    assert (mine.reference, {row.value for row in mine.coefficients}) == ("p", {"q", "r"})


def test_multinomial_slopes_are_covered():
    prior = Prior.of({"car": 0.5, "bus": 0.3, "bike": 0.2})
    plan = make_plan(prior, Histogram(), epsilon=2)
    beta = np.array([[0.0, -0.4, -0.9], [0.0, 0.6, -0.5]])
    rng, rounds, held = np.random.default_rng(4), 120, np.zeros(4)
    for _ in range(rounds):
        z = np.column_stack([np.ones(2000), rng.normal(size=2000)])
        odds = np.exp(z @ beta)
        answers = (rng.random(2000)[:, None] > np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1)).sum(axis=1)
        r = pseudo_values(plan, reports_of(plan, np.zeros(2000, int), answers, rng))
        fit = regress(r, z, ("constant", "x"), model="multinomial", values=plan.values)
        held += [row.low <= true <= row.high for row, true in zip(fit.coefficients, beta[:, 1:].T.ravel(), strict=True)]
    assert (held > 0.86 * rounds).all(), held


def test_a_sum_has_a_linear_regression():
    plan = make_plan(Prior.uniform(11), Sum(), epsilon=1)
    rng = np.random.default_rng(5)
    x = rng.integers(0, 3, 6000)
    answers = rng.binomial(10, 0.2 + 0.2 * x)
    r = pseudo_values(plan, reports_of(plan, np.zeros(6000, int), answers, rng))
    slope = regress(r, np.column_stack([np.ones(6000), x]), ("constant", "x"), model="linear").coefficients[1]
    assert abs(slope.estimate - 2.0) < 4 * slope.standard_error
    assert slope.significant


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"design": [[1.0, 2.0]] * 50}, "cannot be separated"),
        ({"weights": [0.0] * 50}, "positive weights"),
        ({"model": "logistic", "values": ["a", "b"], "outcomes": np.zeros((50, 2))}, "about one share"),
        ({"clusters": ["one"] * 50}, "at least two clusters"),
        ({"level": 2}, "'level'"),
    ],
)
def test_what_cannot_be_fitted_is_refused(options, said):
    rng = np.random.default_rng(6)
    step = np.repeat([0.0, 1.0], 25)
    given = {"outcomes": rng.normal(0.5, 1, 50), "design": np.column_stack([np.ones(50), step]), "model": "linear"}
    given |= options
    with pytest.raises((ValueError, NotEstimableError), match=said):
        regress(names=("constant", "x"), **given)


def test_the_level_under_beliefs_that_columns_imply_is_exact_for_two_values():
    """The worst of two beliefs is audited under each of them, by code that knows nothing of boxes."""
    rng = np.random.default_rng(7)
    groups = np.zeros(4000, int)
    z = np.column_stack([np.ones(4000), rng.integers(0, 2, 4000)])
    answers = (rng.random(4000) > np.where(z[:, 1] > 0, 0.5, 0.05)).astype(int)
    plan = make_plan(Prior.of({"yes": 0.2, "no": 0.8}), Survey("yes"), epsilon=1)
    r = pseudo_values(plan, reports_of(plan, groups, answers, rng))
    fit = regress(r, z, ("constant", "x"), model="logistic", values=["yes"])
    (found,) = covariate_levels(plan, fit, groups)
    (group,) = plan.groups
    beliefs = [Prior.of({"yes": round(p, 6), "no": round(1 - p, 6)}) for p in np.unique(fit.fitted)]
    audited = [audit(group.mechanism.under(prior)).lip.epsilon for prior in beliefs]
    assert found.prior <= 1 < found.covariates <= found.any_belief
    assert found.covariates == pytest.approx(max(audited), abs=1e-4)
    assert found.any_belief == group.levels["ldp"]
    assert math.isfinite(found.any_belief)


# -- rare outcomes and few clusters -----------------------------------------------------------------------------------


def drawn(plan, share, columns, rng):
    """Pseudo-values of people who say yes with these shares."""
    mechanism = plan.groups[0].mechanism
    rows = mechanism.matrix / mechanism.matrix.sum(axis=1, keepdims=True)
    chance = np.where((rng.random(len(columns)) < share)[:, None], rows[0], rows[1])
    reports = (rng.random(len(columns))[:, None] > np.cumsum(chance, axis=1)).sum(axis=1)
    return mechanism.pseudo_values(plan.task, reports)


def test_rare_outcomes_have_coefficients_and_intervals_that_hold():
    """2% say yes, of 1,000: without a correction a quarter of the fits run to infinity."""
    plan = make_plan(Prior.of({"yes": 0.02, "no": 0.98}), Survey("yes"), epsilon=2)
    rng, truth, held, corrected = np.random.default_rng(6), np.log(0.02 / 0.98), [], 0
    for _ in range(25):
        z = np.column_stack([np.ones(1000), rng.integers(0, 2, 1000)])
        fit = regress(drawn(plan, 0.02, z, rng), z, ["constant", "x"], model="logistic")
        assert all(np.isfinite(each.estimate) for each in fit.coefficients)
        held.append([each.low <= true <= each.high for each, true in zip(fit.coefficients, (truth, 0.0), strict=True)])
        corrected += fit.corrected
    assert corrected > 3
    # Of 50 intervals, three standard errors.
    assert np.mean(held) > 0.855
    assert json.loads(json.dumps(fit.to_dict(), allow_nan=False))["coefficients"]


def test_few_clusters_have_the_intervals_of_the_jackknife_with_few_degrees():
    """Errors by brute force: the fits without one cluster each. Five unequal clusters have fewer than four degrees."""
    rng, clusters = np.random.default_rng(8), np.repeat(np.arange(6), 50)
    z = np.column_stack([np.ones(300), rng.normal(size=6)[clusters]])
    r = z @ [0.3, 0.1] + rng.normal(size=6)[clusters] / 3 + rng.normal(size=300)
    fit = regress(r, z, ["constant", "x"], model="linear", clusters=clusters)
    whole = np.linalg.lstsq(z, r, rcond=None)[0]
    away = [np.linalg.lstsq(z[clusters != g], r[clusters != g], rcond=None)[0] - whole for g in range(6)]
    assert np.allclose(fit.covariance, 5 / 6 * np.array(away).T @ np.array(away))
    held, usual = [], []
    for _ in range(300):
        label = np.repeat(np.arange(5), (10, 20, 30, 40, 100))
        z = np.column_stack([np.ones(200), (np.arange(5) % 2)[label]])
        r = rng.normal(size=5)[label] + rng.normal(size=200)
        fit = regress(r, z, ["constant", "x"], model="linear", clusters=label)
        held.append([row.low <= 0 <= row.high for row in fit.coefficients])
        # The jackknife's error with Student's t of G − 1 degrees.
        usual.append([abs(row.estimate) <= 2.776 * row.standard_error for row in fit.coefficients])
    assert np.mean(held, axis=0).min() > 0.93
    assert np.mean(usual, axis=0).min() < 0.9
