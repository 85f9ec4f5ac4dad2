"""Data collected elsewhere are read like our own: published numbers, and no number that a prior nobody stated made."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tacit import Histogram, NotEstimableError, Plan, Prior, Survey, Tally, estimate
from tacit.designs import Rule, adopt, rules
from tacit.estimates import cells_of, difference, estimators
from tacit.files import regress_file

YES_NO = ["yes", "no"]


def share_and_error(rule: Rule, first: int, people: int) -> tuple[float, float]:
    """The share of "yes" and its standard error, from how many people gave the first report."""
    plan = adopt(rule, Survey("yes"))
    row = (
        estimate(plan, Tally.of(plan, [0] * first + [1] * (people - first)), scope="participants")
        .rows[0]
        .divided(people)
    )
    return row.estimate, row.standard_error


#: What, how many of 710 students said yes, the share that says yes to the other question, and what was published.
STUDENTS = {
    "copied": (328, "1/12", 0.8406103, 0.001389716),
    "fought": (180, "1/10", 0.4070423, 0.001045196),
    "bullied": (280, "20/30", 0.1220657, 0.001337415),
    "bullying": (81, "1/10", 0.128169, 0.0005597858),
    "drug": (164, "10/30", 0.1286385, 0.000991658),
    "sex": (53, "1/12", 0.06596244, 0.000383954),
}


@pytest.mark.parametrize("what", STUDENTS)
def test_the_unrelated_question_of_the_students_of_granada(what: str):
    """M. Rueda, B. Cobo, A. Arcos, R package RRTCS, vignette "Randomized Response Techniques for Complex Surveys":
    HorvitzDataRealSurvey, a simple random sample of 710 of 10,777 students, a coin between the two questions; its
    "Estimation" and "Variance".

    Their variance is of sampling without replacement plus 1/N of what randomizing adds to one person's answer. The
    latter is the square of our standard error, which is about those who took part.
    """
    said, other, published, variance = STUDENTS[what]
    n, population = 710, 10777
    found, error = share_and_error(rules.unrelated_question(YES_NO, "1/2", other), said, n)
    assert found == pytest.approx(published, abs=5e-8)
    spread = 4 * said / n * (1 - said / n) * n / (n - 1)
    sampled = (1 - n / population) * spread / n + error**2 * n / population
    assert sampled == pytest.approx(variance, rel=1e-6)


@pytest.mark.parametrize(("same", "least", "most"), [(198, 0.215, 0.225), (230, 0.01, 0.02)])
def test_the_crosswise_model_of_plagiarism(same: int, least: float, most: float):
    """B. Jann, J. Jerke, I. Krumpal, Asking Sensitive Questions Using the Crosswise Model, Public Opinion Quarterly
    2012; the data are `Plagiarism` of the R package GLMMRR: 310 students, a birthday with p = 1/4. E. Coutts, B. Jann,
    I. Krumpal, A.-F. Näher, Plagiarism in Student Papers, Jahrbücher für Nationalökonomie und Statistik 2011, abstract:
    22 percent for a passage, 1 to 2 percent for a whole paper.
    """
    found, _ = share_and_error(rules.crosswise(YES_NO, "1/4"), same, 310)
    assert least <= found <= most


def test_the_crosswise_model_of_atsusaka_and_stevenson():
    """Y. Atsusaka, R. T. Stevenson, A Bias-Corrected Estimator for the Crosswise Model with Inattentive Respondents,
    Political Analysis 2023, R package cWise, README, `bc.est` on `cmdata` (2,000 rows, 1,427 "same", p = 0.15):
    naive estimate 0.1950, standard error 0.0144 for the population.
    """
    found, error = share_and_error(rules.crosswise(YES_NO, "0.15"), 1427, 2000)
    assert found == pytest.approx(0.1950, abs=5e-5)
    assert math.sqrt(error**2 + found * (1 - found) / 2000) == pytest.approx(0.0144, abs=5e-5)


def test_the_forced_response_of_nigeria():
    """G. Blair, K. Imai, Y.-Y. Zhou, Design and Analysis of the Randomized Response Technique, JASA 2015: `nigeria` of
    the R package rr, a die with p = 2/3 of the truth and 1/6 for either forced answer. 831 of 2,435 said yes; by their
    equation for forced response the share is (831/2435 − 1/6)/(2/3).
    """
    found, error = share_and_error(rules.forced_response(YES_NO, {"yes": "1/6", "no": "1/6"}), 831, 2435)
    said = 831 / 2435
    assert found == pytest.approx((said - 1 / 6) * 3 / 2, abs=1e-12)
    assert error**2 + found * (1 - found) / 2435 == pytest.approx(said * (1 - said) / 2435 * 9 / 4, rel=1e-9)


def test_without_priors_no_number_uses_one():
    two = {"x": rules.warner(YES_NO, 0.7), "y": rules.warner(YES_NO, 0.8)}
    reports, groups = [0] * 400 + [1] * 600 + [0] * 500 + [1] * 500, ["x"] * 1000 + ["y"] * 1000
    plan = adopt(two, Survey("yes"))
    found = estimate(plan, Tally.of(plan, reports, groups))
    assert found.estimator == "unbiased"
    assert found.prior_check == ()
    assert math.isnan(found.rows[0].prior)
    assert found.to_dict()["estimates"][0]["prior"] is None
    assert estimators(plan) == ["unbiased", "mle"]
    with pytest.raises(NotEstimableError, match="this plan has none"):
        estimate(plan, Tally.of(plan, reports, groups), "mmse")
    # The same with a prior that somebody stated: it is used, and checked.
    stated = adopt(two, Survey("yes"), Prior.of({"yes": 0.1, "no": 0.9}))
    leaning = estimate(stated, Tally.of(stated, reports, groups))
    assert leaning.estimator == "assisted"
    assert leaning.prior_check[0].contradicted
    assert leaning.rows[0].estimate != found.rows[0].estimate


def test_what_comes_after_collecting_works_without_a_prior():
    """Shares for a population, differences and regressions of 2,000 students, half of each region, 25% of whom hold it
    in the north and 5% in the south: what Warner's reports must say then.
    """
    plan = adopt(rules.warner(YES_NO, 0.75), Survey("yes"))
    yes = {"north": 375, "south": 275}
    reports = np.concatenate([np.repeat([0, 1], [yes[name], 1000 - yes[name]]) for name in yes])
    places = np.repeat(["north", "south"], 1000)
    tallies = {(name,): Tally.of(plan, reports[places == name]) for name in yes}
    cells = cells_of(plan, tallies, ["region"])
    whole = estimate(plan, cells, scope="population")
    assert whole.rows[0].estimate / 2000 == pytest.approx(0.15)
    assert math.isnan(whole.rows[0].prior)
    (row,) = difference(plan, cells, by="region").rows
    assert (row.difference, row.significant) == (pytest.approx(0.2), True)
    with pytest.raises(ValueError, match="no prior to compare with"):
        difference(plan, cells, against="prior")
    table = {"region": places.tolist(), "report": reports.tolist()}
    fitted = regress_file(plan, table, "C(region)")
    south_against_north = next(each for each in fitted.fit.coefficients if "south" in each.name)
    assert math.exp(south_against_north.estimate) == pytest.approx((0.05 / 0.95) / (0.25 / 0.75), rel=1e-6)
    assert fitted.levels[0].prior is None
    # Reports taken for answers, the wrong way, would say 0.63.
    assert (275 / 725) / (375 / 625) > 0.6


def test_a_design_that_excludes_an_answer_promises_nothing():
    """If only yes is forced, the report no excludes yes: neither LDP nor LIP has a level."""
    one_sided = rules.forced_response(YES_NO, {"yes": "1/2"})
    with pytest.raises(ValueError, match="'no' excludes the answer 'yes': this design has no finite LDP level"):
        adopt(one_sided, Survey("yes"))
    with pytest.raises(ValueError, match=r"'no' excludes the answer 'yes'.* a plan would promise nothing"):
        adopt(one_sided, Survey("yes"), Prior.of({"yes": 0.1, "no": 0.9}))


def test_a_design_that_excludes_an_impossible_answer_promises_lip():
    one_sided = rules.forced_response(["a", "b", "c"], {"a": "1/4", "b": "1/4"})
    with pytest.raises(ValueError, match="no finite LDP level"):
        adopt(one_sided, Histogram())
    prior = Prior.of({"a": 0.4, "b": 0.6, "c": 0})
    group = adopt(one_sided, Survey("a"), prior).groups[0]
    assert (group.notion, group.audit.ldp.ratio, group.audit.outside) == ("lip", None, ("c",))
    # From the definition: report a has the probabilities 3/4 and 1/4, report b the others.
    lifts = [p / (Fraction(2, 5) * a + Fraction(3, 5) * b) for a, b in ((3, 1), (1, 3)) for p in (a, b)]
    exact = max(*lifts, *(1 / lift for lift in lifts))
    assert group.audit.lip.ratio == exact
    assert group.epsilon == Fraction(math.ceil(math.log(exact) * 10**4), 10**4)


def test_groups_may_have_rules_and_priors_of_their_own():
    two = {"x": rules.warner(YES_NO, 0.75), "y": rules.warner(YES_NO, 0.625)}
    priors = {"x": Prior.of({"yes": 0.1, "no": 0.9}), "y": Prior.of({"yes": 0.3, "no": 0.7})}
    plan = adopt(two, Survey("yes"), priors)
    assert [(each.name, each.prior, each.audit.ldp.ratio) for each in plan.groups] == [
        ("x", priors["x"], 3), ("y", priors["y"], Fraction(5, 3)),
    ]  # fmt: skip
    shared = adopt(rules.warner(YES_NO, 0.75), Survey("yes"), priors)
    assert [(each.name, each.audit.ldp.ratio) for each in shared.groups] == [("x", 3), ("y", 3)]


def test_an_adopted_plan_is_a_plan(tmp_path):
    """It is read again, audited, and randomizes as it says; one that states a better level is refused."""
    plan = adopt(rules.kuk(YES_NO, [0.8, 0.2], 2), Histogram(), question="Do you?")
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert again.hash == plan.hash
    assert again.groups[0].without_prior
    np.testing.assert_allclose(again.groups[0].mechanism.matrix[0], [0.04, 0.32, 0.64])
    data = plan.to_dict()
    data["blocks"][0]["groups"][0]["epsilon"] = "1"
    with pytest.raises(ValueError, match="altered"):
        Plan.from_dict(data)
