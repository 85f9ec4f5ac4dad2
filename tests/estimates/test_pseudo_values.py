"""Pseudo-values: unbiased for every answer, adding up to the unbiased estimate, good for other software."""

from __future__ import annotations

import numpy as np
import pytest

from tacit import Histogram, Prior, Randomizer, Sum, Survey, Tally, WeightedSum, estimate, make_plan
from tacit.designs import Search
from tacit.designs.prior_file import GroupPrior
from tacit.estimates import NotEstimableError, pseudo_names, pseudo_values
from tacit.mechanism.kept import Counts
from tacit.randomize import SeededWords

from support.answering import reports_of, rows_of

PRIOR = Prior.of({1: 0.2, 2: 0.3, 5: 0.5})
TASKS = [Survey(2), Sum(), WeightedSum(), Histogram()]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_the_mean_of_a_pseudo_value_given_the_answer_is_the_answer(task):
    """By enumeration: Σ_y Q(y|x) r(y) = g(x), exactly but for floats."""
    priors = [
        GroupPrior(name="a", prior=PRIOR, weight=2, offset=1),
        GroupPrior(name="b", prior=Prior.of({1: 0.6, 2: 0.1, 5: 0.3})),
    ]
    plan = make_plan(priors, task, epsilon=1)
    for group, rows in zip(plan.groups, rows_of(plan), strict=True):
        reports = np.arange(group.mechanism.n_possible_reports)
        r = pseudo_values(plan, reports, [group.name] * len(reports))
        g = group.prior.numbers[:, None] * float(group.weight) + float(group.offset)
        np.testing.assert_allclose(rows @ r, g if isinstance(task, WeightedSum) else task.g(group.prior), atol=1e-9)


def test_pseudo_values_add_up_to_the_unbiased_estimate_of_a_circle():
    weights = 1 / np.arange(1, 61)
    prior = Prior.of({f"value {x}": float(p) for x, p in enumerate(weights / weights.sum())})
    plan = make_plan(prior, Histogram(), epsilon=1, search=Search(method="many-values"))
    mechanism = plan.groups[0].mechanism
    assert mechanism.kind == "many-values"
    answers = np.random.default_rng(1).choice(60, 3000, p=prior.probabilities)
    reports = Randomizer(plan).reports(np.zeros(3000, np.int32), answers.astype(np.int32), SeededWords(3))
    r = pseudo_values(plan, reports)
    read = mechanism.read("unbiased", plan.task, Counts.of(reports))
    np.testing.assert_allclose(r.sum(axis=0), read.estimate, atol=0.01)
    np.testing.assert_allclose(r.sum(axis=1), 1.0, atol=1e-6)
    # For each answer's holders the mean is near 1 for it and 0 for others; a value's own prior would not be.
    mine = r[answers == 0, 0]
    assert abs(mine.mean() - 1) < 5 * mine.std() / np.sqrt(len(mine))
    assert abs(mine.mean() - prior.probabilities[0]) > 5 * mine.std() / np.sqrt(len(mine))


@pytest.mark.parametrize(
    ("size", "method", "kind"),
    [
        (5, "auto", "table"),
        (60, "many-values", "many-values"),
        (40, "without-prior", "block-design"),
    ],
)
def test_those_of_some_values_are_those_of_all(size, method, kind):
    """In the order asked for; of a value outside the support there are none."""
    notion = "ldp" if kind == "block-design" else "lip"
    prior = Prior(range(size), [*range(size - 1, 0, -1), int(notion == "ldp")])
    plan = make_plan(prior, Histogram(), epsilon=1, notion=notion, search=Search(method=method))
    assert plan.groups[0].mechanism.kind == kind
    reports = Randomizer(plan).reports(0, np.arange(200) % size, SeededWords(3))
    some = pseudo_values(plan, reports, values=[size - 1, 0, 3])
    np.testing.assert_allclose(some, pseudo_values(plan, reports)[:, [size - 1, 0, 3]], atol=1e-9)
    assert np.isnan(some[:, 0]).all() == (notion == "lip")
    for values, told in (([99], "99 is none of them"), ([1, 1], "named twice"), ([], "or none is")):
        with pytest.raises(ValueError, match=f"must be some of the plan's {size} answers.*{told}"):
            pseudo_values(plan, reports, values=values)


def test_a_mechanism_with_bins_has_none_and_says_so():
    prior = Prior.of({f"value {x}": 1.0 / (x + 1) for x in range(600)})
    plan = make_plan(prior, Histogram(), epsilon=1, aim="mmse")
    assert plan.groups[0].mechanism.kind == "many-values"
    with pytest.raises(NotEstimableError, match="do not tell all values apart"):
        pseudo_values(plan, [0])


def test_a_value_outside_the_support_is_unknown():
    plan = make_plan(Prior.of({"a": 0.5, "b": 0.5, "c": 0}), Histogram(), epsilon=1)
    r = pseudo_values(plan, [0, 1])
    assert np.isnan(r[:, 2]).all()
    assert np.isfinite(r[:, :2]).all()


def test_names_are_short_and_differ():
    plan = make_plan(Prior.of({"Très bon / good": 1, "tr s bon good": 1, "x" * 60: 1}), Histogram(), epsilon=1)
    names = pseudo_names(plan)
    assert len(set(names)) == 3
    assert all(len(name) <= 32 and name.isascii() and name.replace("_", "").isalnum() for name in names)


def test_groups_have_to_be_known():
    plan = make_plan({"a": PRIOR, "b": PRIOR}, Survey(1), epsilon=1)
    with pytest.raises(ValueError, match="Groups must be given"):
        pseudo_values(plan, [0])
    with pytest.raises(ValueError, match="does not have"):
        pseudo_values(plan, [0], ["c"])
    with pytest.raises(ValueError, match="cannot have sent"):
        pseudo_values(plan, [99], ["a"])


def test_statsmodels_finds_the_same_mean_and_covers_the_truth():
    """OLS of the pseudo-values on a constant, with White's errors: the share and its error. What the reports' labels
    say, taken as answers, is found wrong by the same software.
    """
    import statsmodels.api as sm

    plan = make_plan(Prior.of({"yes": 0.2, "no": 0.8}), Survey("yes"), epsilon=1)
    rng, covered, naive = np.random.default_rng(5), 0, 0
    (channel,) = (group.mechanism for group in plan.groups)
    is_yes = np.array([label == "yes" for label in channel.labels], dtype=float)
    for _ in range(120):
        answers = (rng.random(1500) > 0.5).astype(int)
        reports = reports_of(plan, np.zeros(1500, int), answers, rng)
        ends = []
        for y in (pseudo_values(plan, reports)[:, 0], is_yes[reports]):
            fit = sm.OLS(y, np.ones(1500)).fit(cov_type="HC1")
            ends.append((fit.params[0], *fit.conf_int()[0]))
        covered += ends[0][1] <= 0.5 <= ends[0][2]
        naive += ends[1][1] <= 0.5 <= ends[1][2]
    (row,) = estimate(plan, Tally.of(plan, reports), "unbiased").rows
    assert ends[0][0] == pytest.approx(row.estimate / 1500)
    # Of 120 rounds at 95%, less than four standard errors below.
    assert covered > 104
    assert naive < 12
