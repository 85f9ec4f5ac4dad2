from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.baselines import subset_selection
from tacit import (
    Histogram,
    Matrix,
    Prior,
    PrivacyError,
    Sum,
    Survey,
    audit,
    make_plan,
    mse,
    prior_variance,
    satisfies,
    unbiased_variance,
)
from tacit.designs import Promise, Search, _design, repaired_response, verify
from tacit.designs import design as design_for
from tacit.designs._program import solver
from tacit.estimates import NotEstimableError, estimate
from tacit.plan import Certificate, Group, Plan
from tacit.randomize import Randomizer
from tacit.randomize.randomness import SeededWords
from tacit.tally import Counts, Tally

from support.oracle import best_gain, best_lip_gain, ldp_vertices
from support.priors import KINDS, named_prior
from support.strategies import budgets, priors
from support.wishes import wished

EPSILONS = (0.25, 0.5, 1, 2, 4)
#: For the estimate that uses the prior, unless a test asks for the other aim.
design = partial(design_for, aim="mmse")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [3, 7])
def test_small_designs_equal_the_brute_force_vertex_program(kind, d):
    prior = named_prior(kind, d)
    for epsilon in EPSILONS:
        for task in (Histogram(), Sum()):
            found = design(prior, task, epsilon)
            best = best_lip_gain(prior.probabilities, task.g(prior), epsilon)
            certificate = found.certificate
            assert certificate.gain_bound == pytest.approx(best, abs=1e-9 * max(1, best))
            # The integers lose what rounding to words costs, and nothing else.
            assert best * (1 - 1e-4) - 1e-12 <= certificate.gain <= best * (1 + 1e-9)
            assert satisfies(found.channel, "lip", epsilon)
            assert verify(found).holds


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", [Histogram(), Sum()], ids=["histogram", "sum"])
def test_a_hundred_values_are_certified_to_half_a_per_cent(kind, task):
    prior = named_prior(kind, 100)
    for epsilon in (0.25, 1, 4):
        found = design(prior, task, epsilon)
        assert found.certificate.gap <= 0.005
        assert satisfies(found.channel, "lip", epsilon)
        assert verify(found).holds


def test_a_thousand_values_are_certified_to_one_per_cent_as_integers():
    prior = named_prior("zipf", 1000)
    table = design(prior, Histogram(), 1, search=Search(method="columns"))
    assert table.certificate.gap <= 0.01
    assert satisfies(table.channel, "lip", 1)
    for task in (Histogram(), Sum()):
        found = design(prior, task, 1)
        assert found.certificate.gap <= 0.01
        assert verify(found).holds


@pytest.mark.parametrize("d", [2, 5, 9, 16, 33])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_uniform_priors_are_exactly_optimal_and_the_bound_says_so(d, epsilon):
    found = design(Prior.uniform(d), Histogram(), epsilon)
    assert found.certificate.status == "optimal"
    assert found.certificate.gap < 2e-6
    assert verify(found).holds


@given(priors(max_size=6), budgets())
@settings(max_examples=40, deadline=None)
def test_any_prior_zeros_included_gives_an_audited_channel_with_a_valid_certificate(prior, epsilon):
    for task in (Histogram(), Sum(), Survey(0)):
        found = design(prior, task, epsilon)
        assert satisfies(found.channel, "lip", epsilon)
        assert audit(found.channel).exposed == ()
        assert found.certificate.mse == pytest.approx(mse(found.channel, task), abs=1e-12)
        assert found.certificate.lower_bound <= found.certificate.mse <= found.certificate.prior_variance + 1e-12
        assert verify(found).holds


def test_the_survey_of_a_set_is_a_yes_no_question():
    prior = named_prior("zipf", 8)
    found = design(prior, Survey({1, 3, 4}), 1)
    g = Survey({1, 3, 4}).g(prior)
    assert found.mechanism.n_possible_reports == 2
    assert found.certificate.gain == pytest.approx(best_lip_gain(prior.probabilities, g, 1), rel=1e-6)


def test_any_matrix_can_be_a_task():
    prior = named_prior("dirichlet", 6)
    task = Matrix(np.stack([prior.numbers, prior.numbers**2], axis=1))
    found = design(prior, task, 1)
    assert found.certificate.gain == pytest.approx(best_lip_gain(prior.probabilities, task.g(prior), 1), rel=1e-5)
    assert verify(found).holds
    with pytest.raises(ValueError, match="a row of finite numbers for each of the 6 values"):
        design(prior, Matrix([[1.0]]), 1)


def test_the_fair_ldp_baseline_is_the_best_ldp_channel():
    prior = named_prior("dirichlet", 7)
    for task in (Histogram(), Sum()):
        found = design(prior, task, Promise(1, notion="ldp"))
        best = best_gain(prior.probabilities, task.g(prior), ldp_vertices(prior.probabilities, math.e))
        assert found.certificate.gain == pytest.approx(best, rel=1e-6)
        assert satisfies(found.channel, "ldp", 1)
        assert found.certificate.gain < design(prior, task, 1).certificate.gain


def test_an_ldp_cap_is_kept_and_costs_something_between():
    prior = named_prior("zipf", 6)
    plain, capped, ldp = (
        design(prior, Histogram(), **wished(1, **wish)) for wish in ({}, {"ldp_cap": 1.4}, {"notion": "ldp"})
    )
    assert not satisfies(plain.channel, "ldp", 1.4)
    assert satisfies(capped.channel, "ldp", 1.4)
    assert satisfies(capped.channel, "lip", 1)
    assert ldp.certificate.gain < capped.certificate.gain < plain.certificate.gain
    assert verify(capped).holds


def test_the_prior_free_aim_beats_the_mmse_optimum_and_ldp_at_its_own_game():
    prior = Prior.uniform(7)
    free = design(prior, Histogram(), 1, aim="unbiased")
    ldp = unbiased_variance(subset_selection(prior, 1), Histogram())
    assert free.certificate.unbiased_variance == free.certificate.aimed == pytest.approx(5.1204, abs=0.01)
    assert ldp == pytest.approx(18.97, abs=0.01)
    assert free.certificate.gap < 0.01
    assert satisfies(free.channel, "lip", 1)
    assert verify(free).holds
    best = design(prior, Histogram(), 1)
    assert free.certificate.unbiased_variance < best.certificate.unbiased_variance
    assert free.certificate.mse > best.certificate.mse * (1 - 1e-8)
    for found in (free, best):
        assert found.certificate.unbiased_variance == unbiased_variance(found.channel, Histogram())
        assert found.certificate.mse == mse(found.channel, Histogram())


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"ldp_cap": 0.9}, r"Use notion='ldp', epsilon=0.9, or a cap between 1 and 2"),
        ({"notion": "ldp", "ldp_cap": 1.5}, "nothing to refine"),
        ({"notion": "dp"}, "'lip' or 'ldp'"),
        ({"method": "magic"}, "must be one of auto"),
        ({"aim": "mse"}, "'mmse' or 'unbiased'"),
    ],
)
def test_wishes_that_cannot_be_met_say_what_would_be_feasible(wish, message):
    with pytest.raises(ValueError, match=message):
        design(named_prior("zipf", 4), Histogram(), **wished(1, **wish))


def test_nothing_is_invertible_without_a_budget():
    with pytest.raises(ValueError, match="Any ε > 0 is feasible"):
        design(Prior.uniform(3), Histogram(), 0, aim="unbiased")


def test_a_failing_solver_falls_back_and_says_so(monkeypatch):
    def broken(*args, **kwargs):
        raise ArithmeticError("the solver broke")

    monkeypatch.setattr(solver, "solve", broken)
    prior = named_prior("dirichlet", 6)
    found = design(prior, Histogram(), 1)
    assert found.certificate.method == "repaired response"
    assert "the solver broke" in found.certificate.notes[0]
    assert satisfies(found.channel, "lip", 1)
    assert verify(found).holds


def test_no_unaudited_channel_leaves(monkeypatch):
    monkeypatch.setattr(
        _design, "_BUILDERS", {"columns": lambda request: (_ for _ in ()).throw(PrivacyError("not private"))}
    )
    with pytest.raises(PrivacyError, match="No method gave a channel"):
        design(named_prior("dirichlet", 6), Histogram(), 1, search=Search(method="columns"))


def test_a_builder_that_breaks_the_promise_is_not_believed(monkeypatch):
    """It returns a channel of level 5.4, whatever was asked for, with a certificate that does not say so."""
    prior = named_prior("dirichlet", 6)
    planted = design(prior, Histogram(), 5.4)
    level = audit(planted.mechanism).lip.epsilon
    assert level == pytest.approx(5.4, abs=1e-3)
    told = f"columns failed the audit: its channel reaches {level:.6g}."
    monkeypatch.setitem(_design._BUILDERS, "columns", lambda request: replace(planted, promise=request.promise))
    # Somebody else serves the request, and the certificate says why.
    found = design(prior, Histogram(), 0.1)
    assert satisfies(found.mechanism, "lip", 0.1)
    assert found.certificate.method == "repaired response"
    assert found.certificate.notes[0] == told
    assert verify(found).holds
    for wish in ({"ldp_cap": 0.15}, {"notion": "ldp"}):
        found = design(prior, Histogram(), **wished(0.1, **wish))
        assert found.promise.kept_by(found.mechanism)
        assert found.certificate.notes[0] == told
        assert found.certificate.unbiased_variance < math.inf
        assert verify(found).holds
    # Where there is nobody else, nothing leaves.
    with pytest.raises(PrivacyError, match=re.escape(told)):
        design(prior, Histogram(), 0.1, search=Search(method="columns"))


def test_an_interrupt_returns_the_best_so_far_with_a_valid_certificate():
    calls = []

    def impatient(gain, bound):
        calls.append((gain, bound))
        if len(calls) == 3:
            raise KeyboardInterrupt

    prior = named_prior("dirichlet", 120)
    found = design(prior, Sum(), 1, search=Search(gap=1e-9, progress=impatient))
    assert len(calls) == 3
    assert found.certificate.status == "interrupted"
    assert satisfies(found.channel, "lip", 1)
    assert verify(found).holds


def test_an_interrupted_prior_free_design_is_valid_too():
    calls = []

    def impatient(variance, bound):
        calls.append((variance, bound))
        if len(calls) == 2:
            raise KeyboardInterrupt

    prior = named_prior("dirichlet", 12)
    found = design(prior, Histogram(), 1, aim="unbiased", search=Search(method="columns", gap=1e-9, progress=impatient))
    assert len(calls) == 2
    assert found.certificate.status == "interrupted"
    assert satisfies(found.channel, "lip", 1)
    assert verify(found).holds


def test_a_certificate_that_claims_too_much_is_caught():
    found = design(named_prior("dirichlet", 6), Histogram(), 1)
    better = replace(found.certificate, lower_bound=found.certificate.lower_bound * 1.01)
    assert not verify(replace(found, certificate=better)).holds
    smaller = replace(found.certificate, mse=found.certificate.mse * 0.99)
    assert not verify(replace(found, certificate=smaller)).holds
    greedy = replace(found, mechanism=design(found.prior, Histogram(), 1.01).mechanism)
    assert not verify(greedy).promise_kept
    garbage = replace(found.certificate, duals=tuple(np.random.default_rng(0).normal(size=6)))
    assert verify(replace(found, certificate=garbage)).lower_bound <= found.certificate.lower_bound + 1e-9


def test_equal_priors_are_designed_once():
    people = {str(k): Prior.of({"yes": 1 + k % 30, "no": 70}) for k in range(300)}
    groups = make_plan(people, Survey("yes"), 1, aim="mmse").groups
    assert len({id(group.mechanism) for group in groups}) == 30
    assert groups[0].mechanism is groups[30].mechanism


@pytest.mark.parametrize("task", [Histogram(), Sum()], ids=["histogram", "sum"])
def test_the_same_question_has_the_same_answer(task):
    prior = named_prior("dirichlet", 60)
    first, second = (design(prior, task, 1) for _ in range(2))
    assert (first.channel.weights == second.channel.weights).all()
    assert first.certificate.to_dict() == second.certificate.to_dict()


@pytest.mark.parametrize("notion", ["lip", "ldp"])
def test_surveys_are_planned_as_the_yes_or_no_that_they_are(notion):
    """Found by an attack: seven values, of which one is asked for, at a large budget."""
    prior = Prior(range(7), [100_000, 50_000, 33_333, 25_000, 20_000, 16_666, 14_285])
    found = design(prior, Survey(2), Promise(4, notion=notion), aim="unbiased")
    assert found.channel.n_possible_reports == 2
    assert verify(found).holds
    two = design(Prior.of({"yes": 33_333, "no": 225_951}), Survey("yes"), Promise(4, notion=notion), aim="unbiased")
    assert found.certificate.unbiased_variance == pytest.approx(two.certificate.unbiased_variance, rel=1e-6)


@pytest.mark.parametrize("epsilon", [1, 8])
def test_the_prior_is_used_at_large_budgets_too_and_never_worse_than_ldp(epsilon):
    prior = Prior(range(30), [900] + [3] * 29)
    found = design(prior, Histogram(), epsilon, aim="unbiased", search=Search(method="many-values")).certificate
    ldp = design(prior, Histogram(), Promise(epsilon, notion="ldp"), aim="unbiased").certificate
    assert not found.notes
    assert found.unbiased_variance <= ldp.unbiased_variance * (1 + 1e-9)
    assert found.unbiased_variance <= 1.35 * found.lower_bound


def test_zero_budget_and_tiny_priors():
    silent = design(named_prior("zipf", 5), Histogram(), 0)
    assert silent.certificate.gain == pytest.approx(0, abs=1e-12)
    tiny = Prior.of({"a": "1e-12", "b": "0.4", "c": "0.599999999999"})
    found = design(tiny, Histogram(), 1)
    assert satisfies(found.channel, "lip", 1)
    assert found.certificate.gap < 1e-3


# Large domains ----------------------------------------------------------------------------------------------


def large_prior(d: int = 5000) -> Prior:
    return Prior(range(d), [0 if k == 7 else 10**9 // (k + 1) for k in range(d)])


@pytest.fixture(scope="module")
def large_plan() -> Plan:
    prior = large_prior()
    found = design(prior, Histogram(), 2)
    assert found.mechanism.kind == "many-values"
    return Plan.of_groups(
        Histogram(),
        (Group(name=None, epsilon=Fraction(2), mechanism=found.mechanism, certificate=found.certificate),),
    )


def test_large_histograms_get_bins_with_a_checked_certificate():
    prior = large_prior()
    for epsilon in (0.25, 1, 4):
        found = design(prior, Histogram(), epsilon)
        assert found.mechanism.n_possible_reports is None
        assert found.certificate.gap <= 0.01
        assert verify(found).holds
        claimed = replace(found.certificate, lower_bound=found.certificate.mse)
        if found.certificate.gap > 1e-5:
            assert not verify(replace(found, certificate=claimed)).holds
    with pytest.raises(TypeError, match="is a rule, not a table"):
        _ = found.channel


def test_large_plans_survive_the_file_and_stay_exact(large_plan, tmp_path):
    large_plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert again.hash == large_plan.hash
    assert again.groups[0].mechanism == large_plan.groups[0].mechanism
    assert again.groups[0].levels["lip"] <= 2


def test_large_estimates_find_a_drifted_histogram_and_the_alarm(large_plan):
    prior = large_plan.groups[0].prior
    rng = np.random.default_rng(1)
    people = 200_000
    for drift, contradicted in ((0.0, False), (0.5, True)):
        shares = (1 - drift) * prior.probabilities + drift * np.eye(len(prior))[3]
        values = rng.choice(len(prior), people, p=shares)
        reports = Randomizer(large_plan).reports(np.zeros(people, dtype=int), values, SeededWords(2))
        result = estimate(large_plan, Tally(large_plan.hash, {None: Counts.of(reports)}))
        assert result.prior_check[0].contradicted is contradicted
        if not drift:
            truth = np.bincount(values, minlength=len(prior))
            inside = [row.low <= true <= row.high for row, true in zip(result.rows[:200], truth, strict=False)]
            assert np.mean(inside) > 0.9
            errors = np.array([row.estimate for row in result.rows]) - truth
            # Close to the certified error, and far below what the prior alone would leave.
            assert (errors**2).sum() == pytest.approx(people * large_plan.groups[0].certificate.mse, rel=0.3)
    with pytest.raises(NotEstimableError, match="do not tell all values apart"):
        estimate(large_plan, Tally(large_plan.hash, {None: Counts.of(reports)}), "unbiased")


def test_the_holder_of_an_impossible_value_sends_what_anybody_would(large_plan):
    one = Randomizer(large_plan)
    many = one.reports(np.zeros(50_000, dtype=int), np.full(50_000, 7), SeededWords(3))
    result = estimate(large_plan, Tally(large_plan.hash, {None: Counts.of(many)}))
    assert not result.prior_check[0].contradicted
    assert result.rows[7].estimate == 0
    assert one.report(0, 7, SeededWords(4)) >= 0
    # The named wrong treatment: reporting as if they held a common value.
    wrong = one.reports(np.zeros(50_000, dtype=int), np.zeros(50_000, dtype=int), SeededWords(3))
    assert estimate(large_plan, Tally(large_plan.hash, {None: Counts.of(wrong)})).prior_check[0].contradicted


def test_large_domains_refuse_wishes_that_need_a_table():
    with pytest.raises(ValueError, match="Merge rare values"):
        design(large_prior(), Histogram(), Promise(1, ldp_cap=1.5))


def test_the_repaired_response_is_far_from_optimal_for_many_values():
    prior = named_prior("dirichlet", 8)
    ours = design(prior, Histogram(), 1).certificate
    repaired = prior_variance(prior, Histogram()) - mse(repaired_response(prior, 1), Histogram())
    assert repaired < 0.75 * ours.gain


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_certificates_survive_json(seed):
    rng = np.random.default_rng(seed)
    found = design(Prior(range(4), rng.integers(1, 99, 4).tolist()), Histogram(), 1).certificate
    again = Certificate.from_dict(json.loads(json.dumps(found.to_dict())))
    # How the search went is left out, so that the same design is the same text.
    assert again == replace(found, status="", iterations=0, seconds=0.0)


@pytest.mark.parametrize("aim", ["mmse", "unbiased"])
def test_a_table_of_very_many_values_is_refused_at_once(aim):
    prior = Prior(range(30_000), [10**7 // (k + 1) + 1 for k in range(30_000)])
    with pytest.raises(PrivacyError, match=r"a table is searched for|weights are optimised"):
        design(prior, Histogram(), 1, aim=aim, search=Search(method="columns"))


def test_a_search_ends_soon_after_its_deadline_with_a_valid_channel():
    """Of a sum over very many values the proof alone took minutes."""
    prior = Prior(range(4000), [10**7 // (k + 1) + 1 for k in range(4000)])
    found = design(prior, Sum(), Promise(1, "ldp"), search=Search(time_limit=0.0))
    assert found.promise.kept_by(found.mechanism)
    assert found.certificate.status in ("time limit", "stalled")


@pytest.mark.parametrize("aim", ["mmse", "unbiased"])
def test_a_histogram_that_is_too_large_is_refused_before_its_matrix_is_made(aim, monkeypatch):
    """The matrix g of 30,000 values takes 7 GB, and making it takes longer than any time limit."""
    monkeypatch.setattr(Histogram, "g", lambda *_: pytest.fail("g was made"))
    prior = Prior(range(30_000), [1 + k % 7 for k in range(30_000)])
    with pytest.raises(PrivacyError, match="up to 1,000 values"):
        design(prior, Histogram(), 1, aim=aim, search=Search(method="columns", time_limit=3))
