"""Nothing known beforehand: the file of values, the choice, its certificate, and the way to an estimate."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from tacit import Histogram, Plan, Prior, PrivacyError, Randomizer, Survey, Tally, design, estimate, make_plan, verify
from tacit.designs import read_values
from tacit.designs.choosing import Method
from tacit.designs.without_prior import MECHANISMS, ldp_variance_bound
from tacit.estimates import estimators
from tacit.mechanism import BlockDesign
from tacit.randomize import SeededWords
from tacit.show.sentences import promise


def without(size: int, epsilon: object = 1, **options: object) -> Plan:
    return make_plan(
        Prior.uniform([f"v{x}" for x in range(size)]), Histogram(), epsilon,
        **{"notion": "ldp", "method": "without-prior"} | options,
    )  # fmt: skip


# -- the file --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("bus\ntram\nbike\n", ("bus", "tram", "bike")),
        ("value\nbus\ntram\n", ("bus", "tram")),
        ("\ufeffvalue,note\n bus ,a\ntram,b\n", ("bus", "tram")),
        ("note,value\na,bus\n\nb,tram\n", ("bus", "tram")),
        ("Paris, France\nLima, Peru\n\n", ("Paris, France", "Lima, Peru")),
        ("1\n2\n3.5\n", (1, 2, 3.5)),
        ("007\n1\n", ("007", "1")),
    ],
)
def test_values_are_read_as_people_write_them(tmp_path: Path, text: str, values: tuple[object, ...]):
    (tmp_path / "values").write_text(text, encoding="utf-8")
    (only,) = read_values(tmp_path / "values")
    assert only.prior.values == values
    assert only.prior.is_uniform
    assert only.name is None


@pytest.mark.parametrize("text", ["", "bus\n", "bus\nbus\n", "value\n", "note,value\na\n", "a\nb\u202e\n"])
def test_a_file_that_lists_no_values_is_refused(tmp_path: Path, text: str):
    (tmp_path / "values").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="values"):
        read_values(tmp_path / "values")


# -- the choice ------------------------------------------------------------------------------------------------------


def test_every_name_is_known_and_audited():
    assert set(MECHANISMS) < set(get_args(Method))
    for name in MECHANISMS:
        found = design(Prior.uniform(30), Histogram(), 1, notion="ldp", method=name)
        assert found.certificate.method == name.replace("-", " ")
        assert found.mechanism.audit(found.prior).ldp.holds(Fraction(1))
        assert verify(found).holds


def test_the_best_is_proven_to_be_near_the_best_there_is():
    found = design(Prior.uniform(3000), Histogram(), 1, notion="ldp", method="without-prior")
    assert isinstance(found.mechanism, BlockDesign)
    assert found.certificate.status == "within gap"
    assert found.certificate.gap < 1e-4
    assert found.certificate.unbiased_variance_lower_bound == pytest.approx(ldp_variance_bound(3000, Fraction(1)))
    assert verify(found).holds


@pytest.mark.parametrize(("size", "epsilon", "kind"), [(24, 2, "shuffled-circle"), (23, 1, "block-design")])
def test_certificates_of_the_best_are_borne_out(size: int, epsilon: int, kind: str):
    found = design(Prior.uniform(size), Histogram(), epsilon, notion="ldp", method="without-prior")
    assert found.mechanism.kind == kind
    assert found.certificate.gap < 1e-3
    assert verify(found).holds


def test_without_prior_does_not_look_at_a_prior():
    found = design(Prior(range(24), range(24)), Histogram(), 2, notion="ldp", method="without-prior")
    assert found.mechanism.kind == "block-design"
    assert verify(found).promise_kept


def test_a_certificate_that_claims_a_better_bound_is_found_out():
    from dataclasses import replace

    found = design(Prior.uniform(100), Histogram(), 1, notion="ldp", method="hadamard")
    more = replace(found.certificate, unbiased_variance_lower_bound=found.certificate.unbiased_variance)
    assert verify(found).holds
    assert not verify(replace(found, certificate=more)).bound_as_stated


def test_few_values_and_other_tasks_get_the_best_table():
    assert without(5).groups[0].mechanism.kind == "table"
    survey = make_plan(Prior.uniform(40), Survey(3), 1, notion="ldp", method="without-prior")
    assert survey.groups[0].mechanism.kind == "table"


def test_what_a_name_cannot_do_is_said():
    with pytest.raises(ValueError, match="52 values"):
        design(Prior.uniform(53), Histogram(), 1, notion="ldp", method="oue")
    with pytest.raises(PrivacyError, match="histograms"):
        design(Prior.uniform(20), Survey(3), 1, notion="ldp", method="projective")


def test_ldp_mechanisms_keep_other_promises_as_well():
    prior = Prior(range(20), [0, 50, *range(1, 19)])
    found = design(prior, Histogram(), 1, method="subset-selection")
    assert found.mechanism.audit(prior).ldp.holds(Fraction(1))
    assert verify(found).promise_kept


def test_with_a_prior_nothing_changes():
    """By default LDP under a prior is what it was."""
    assert design(Prior.uniform(40), Histogram(), 1, notion="ldp").mechanism.kind == "shuffled-circle"
    assert design(Prior.uniform(40), Histogram(), 1).mechanism.kind == "shuffled-circle"


# -- the way to an estimate ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*MECHANISMS, "without-prior"])
def test_from_answers_to_estimates(name: str, tmp_path: Path):
    without(30, 2, method=name).save(tmp_path / "plan.json")
    plan = Plan.load(tmp_path / "plan.json")
    truth = np.minimum(np.random.default_rng(0).geometric(0.4, 40_000) - 1, 29)
    reports = Randomizer(plan).reports(None, truth, SeededWords(1))
    tally = Tally.of(plan, reports)
    halves = Tally.of(plan, reports[:11]).merge(Tally.of(plan, reports[11:]))
    assert halves.to_dict() == Tally.from_dict(tally.to_dict()).to_dict() == tally.to_dict()
    result, counts = estimate(plan, tally, simultaneous=True), np.bincount(truth, minlength=30)
    assert result.estimator == "unbiased"
    assert result.prior_check == ()
    scores = [(row.estimate - n) / row.standard_error for row, n in zip(result.rows, counts, strict=True)]
    assert max(map(abs, scores)) < 6.5  # Below 1e-8 for thirty rows.
    assert all(row.low <= n <= row.high for row, n in zip(result.rows, counts, strict=True))
    assert estimators(plan) == ["unbiased"]


def test_a_prior_that_somebody_has_is_still_checked():
    prior = Prior([f"v{x}" for x in range(20)], [100, *[1] * 19])
    plan = make_plan(prior, Histogram(), 2, notion="ldp", method="subset-selection")
    reports = Randomizer(plan).reports(None, np.arange(20_000) % 20, SeededWords(1))
    (check,) = estimate(plan, Tally.of(plan, reports)).prior_check
    assert check.contradicted
    assert not plan.groups[0].without_prior


def test_the_promise_speaks_of_odds():
    plan = without(20)
    assert promise(plan, plan.groups[0]) == (
        "whatever is reported, and whatever is believed, odds change by at most a factor of 2.72."
    )
