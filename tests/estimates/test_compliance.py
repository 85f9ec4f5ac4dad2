"""Who did not follow the rule: a published number, intervals that cover, and what nothing can tell."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tacit import Channel, Histogram, NotEstimableError, Plan, Prior, Survey, Tally, estimate, make_plan
from tacit.designs import adopt, rules
from tacit.designs.planning import in_arms
from tacit.designs.prior_file import GroupPrior
from tacit.estimates import compliance
from tacit.estimates._compliance import GAP, ArmsModel, expected_errors, most_likely_mixture, pooled_compliance
from tacit.plan import Group
from tacit.tally import Counts

YES_NO = ["yes", "no"]
#: The 95% point of a chi-square of one degree.
ACCEPTED = 3.841459
HOLDS, GAMMA = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])


def two_arms(first: str = "1/4", second: str = "5/6") -> Plan:
    return adopt({"arm 1": rules.warner(YES_NO, first), "arm 2": rules.warner(YES_NO, second)}, Survey("yes"))


def chances(plan: Plan, shares: list[float], says: int = 1) -> list[np.ndarray]:
    """How often each report comes in each arm if the last share does not follow the rule but says `says`."""
    return [
        np.array(shares[:-1]) @ arm.mechanism.matrix + shares[-1] * np.eye(arm.mechanism.n_possible_reports)[says]
        for arm in plan.groups
    ]


def tally_of(plan: Plan, counts: list[np.ndarray]) -> Tally:
    return Tally(
        plan.hash,
        {
            arm.name: Counts.of(np.arange(len(came)), times=came.astype(np.int64))
            for arm, came in zip(plan.groups, counts, strict=True)
        },
    )


def test_the_stochastic_lie_detector_of_the_minarets():
    """D. W. Heck, M. Moshagen, RRreg, Journal of Statistical Software 85(2), 2018, page 11, data of Radukić and Musch:
    whoever is for a ban says yes, all others with 1 − p, p = 2/12 and 10/12. 373 of 564 and 398 of 692 said yes.
    Published: π = 0.870695 (standard error 0.041118), and t = 0.635806 (0.017344) of those for a ban say so.

    There only those for a ban do not follow, so π is the share if all who do not follow are for it. A report of “no”
    excludes “yes”, so no plan holds this design; the model is asked without one.
    """
    prior = Prior.uniform(YES_NO)
    arms = [
        Group(name=str(p), epsilon=Fraction(1), mechanism=Channel.from_weights(prior, [[12, 0], [12 - p, p]]))
        for p in (2, 10)
    ]
    model = ArmsModel.of(arms, [np.array([373.0, 191.0]), np.array([398.0, 294.0])], says=1)
    both = HOLDS + GAMMA
    most, followed, gone = model.span(both, 0.95), HOLDS @ model.best[0], GAMMA @ model.best[0]
    assert most.estimate == pytest.approx(0.870695, abs=1e-6)
    assert followed / most.estimate == pytest.approx(0.635806, abs=1e-6)
    # Theirs divide by n − 1.
    assert np.sqrt(both @ model.covariance(model.best[0]) @ both) == pytest.approx(0.041118, rel=2e-3)
    slope = np.array([gone, 0.0, -followed]) / most.estimate**2
    assert np.sqrt(slope @ model.covariance(model.best[0]) @ slope) == pytest.approx(0.017344, rel=2e-3)
    assert model.p_value(GAMMA) < 1e-50
    # Far from 0 and 1 the interval is nearly ± 1.96 standard errors.
    assert (most.low, most.high) == pytest.approx((0.8707 - 1.96 * 0.0411, 0.8707 + 1.96 * 0.0411), abs=3e-3)


@pytest.mark.parametrize(("shares", "rejected"), [([0.2, 0.65, 0.15], 1.0), ([0.2, 0.8, 0.0], 0.05)])
def test_intervals_cover_and_the_estimate_that_ignores_those_who_do_not_follow_does_not(shares, rejected):
    """150 surveys of 4,000: a coverage of 95% is below 83% with probability 1e-9. With 15% who say no whatever the rule
    says, the plain estimate misses the answers of those who follow nearly always; without any it covers.
    """
    rng, plan, rounds, people = np.random.default_rng(16), two_arms("2/3", "9/10"), 150, 4000
    holds, _, gone = shares
    covered, plainly, found = np.zeros(3), 0, 0
    for _ in range(rounds):
        counts = [rng.multinomial(people // 2, each).astype(float) for each in chances(plan, shares)]
        model = ArmsModel.of(plan.groups, counts, 1)
        alike = holds / (1 - gone)
        truths = (HOLDS, holds), (HOLDS + alike * GAMMA, alike), (GAMMA, gone)
        covered += [model.ratio(*truth) <= ACCEPTED for truth in truths]
        found += model.p_value(GAMMA) < 0.05
        plain = estimate(plan, tally_of(plan, counts), "unbiased").rows[0].divided(people)
        reach = 1.96 * np.sqrt(plain.standard_error**2 + holds * (1 - holds) / people)
        plainly += abs(plain.estimate - alike) <= reach
    assert (covered / rounds > 0.83).all()
    assert found / rounds == pytest.approx(rejected, abs=0.08)
    assert plainly / rounds < 0.2 if gone else plainly / rounds > 0.83


def test_the_ends_of_an_interval_are_where_the_test_begins_to_reject():
    plan = two_arms()
    counts = [np.array([300.0, 200.0]), np.array([130.0, 370.0])]
    model, (found,) = ArmsModel.of(plan.groups, counts, 1), compliance(plan, tally_of(plan, counts), says=1)
    for span, direction in ((found.not_following, GAMMA), (found.rows[0].least, HOLDS)):
        assert span.low < span.estimate < span.high
        for end in (span.low, span.high):
            if 0 < end < 1:
                assert model.ratio(direction, end) == pytest.approx(ACCEPTED, abs=1e-2)
            else:
                assert model.ratio(direction, end) <= ACCEPTED
    wider = compliance(plan, tally_of(plan, counts), says=1, level=0.99)[0].not_following
    assert wider.high > found.not_following.high


def test_answers_that_changed_since_the_prior_are_no_reason_to_reject():
    """The prior says 10%, half hold it: exactly as many reports as to be expected then. The prior check cries."""
    plan = make_plan(
        in_arms([GroupPrior(name=None, prior=Prior.of({"yes": 0.1, "no": 0.9}))], [1, 2]), Survey("yes"), None
    )
    counts = [np.round(10_000 * each) for each in chances(plan, [0.5, 0.5, 0.0])]
    tally = tally_of(plan, counts)
    assert estimate(plan, tally).prior_check[0].contradicted
    (found,) = compliance(plan, tally, says=0)
    assert found.p_value > 0.3
    assert found.not_following.low == 0
    # If half of those who hold it hide it, it is seen.
    hiding = tally_of(plan, [np.round(10_000 * each) for each in chances(plan, [0.25, 0.5, 0.25], says=0)])
    (found,) = compliance(plan, hiding, says=0)
    assert found.not_following.estimate == pytest.approx(0.25, abs=1e-3)
    assert found.p_value < 1e-9
    assert found.rows[0].most.estimate == pytest.approx(0.5, abs=2e-3)


def test_groups_have_arms_of_their_own_and_a_wrong_model_does_not_fit():
    priors = [GroupPrior(name=name, prior=Prior.of({"a": 5, "b": 3, "c": 2})) for name in ("north", "south")]
    plan = make_plan(in_arms(priors, [1, 2]), Histogram(), None)
    assert [group.name for group in plan.groups] == [
        "north / arm 1", "north / arm 2", "south / arm 1", "south / arm 2",
    ]  # fmt: skip
    says, strange = 0, 2
    north = [np.round(1e5 * each) for each in chances(plan, [0.4, 0.3, 0.2, 0.1], says)[:2]]
    south = [np.round(1e5 * each) for each in chances(plan, [0.4, 0.3, 0.2, 0.1], says)[2:]]
    south[1] = np.round(1e5 * chances(plan, [0.1, 0.1, 0.3, 0.5], strange)[3])
    found = compliance(plan, tally_of(plan, [*north, *south]), says=says)
    assert [each.group for each in found] == ["north", "south"]
    assert [row.value for row in found[0].rows] == ["a", "b", "c"]
    assert found[0].not_following.estimate == pytest.approx(0.1, abs=1e-3)
    assert found[0].fit > 0.9
    assert found[1].fit < 1e-9
    assert found[0].to_dict()["rows"][0]["least"]["estimate"] == pytest.approx(0.4, abs=1e-3)


def test_what_arms_cannot_tell_is_refused():
    """Who draws a report at random looks, under Warner's rule, like half a yes; equal arms tell nothing."""
    counts = [np.array([300.0, 200.0]), np.array([130.0, 370.0])]
    plan = two_arms()
    with pytest.raises(NotEstimableError, match="cannot tell who does not follow"):
        compliance(plan, tally_of(plan, counts))
    equal = two_arms("1/4", "1/4")
    with pytest.raises(NotEstimableError, match="cannot tell who does not follow"):
        compliance(equal, tally_of(equal, counts), says=1)
    with pytest.raises(ValueError, match="Report 2 does not exist"):
        compliance(plan, tally_of(plan, counts), says=2)
    with pytest.raises(ValueError, match="no reports of 'arm 2'"):
        compliance(plan, Tally.of(plan, [0, 1], ["arm 1"] * 2), says=1)
    alone = adopt(rules.warner(YES_NO, 0.75), Survey("yes"))
    with pytest.raises(ValueError, match="one arm only"):
        compliance(alone, Tally.of(alone, [0, 1]), says=1)
    with pytest.raises(ValueError, match="'level' must lie between"):
        compliance(plan, tally_of(plan, counts), says=1, level=95)


def test_the_expected_error_is_that_of_surveys_to_come():
    """For 4,000 people of whom 20% hold it, as the covariance of one such survey says it."""
    prior = Prior.of({"yes": 0.2, "no": 0.8})
    plan = make_plan(in_arms([GroupPrior(name=None, prior=prior)], [1, 2]), Survey("yes"), None)
    (error,) = expected_errors(plan, [Fraction(1, 2)] * 2, 4000).values()
    exactly = tally_of(plan, [np.round(2000 * each) for each in chances(plan, [0.2, 0.8, 0.0])])
    found = [compliance(plan, exactly, says)[0].covariance[-1, -1] ** 0.5 for says in (0, 1)]
    assert error == pytest.approx(max(found), rel=0.05)
    assert error > 1.2 * min(found)
    same = adopt({"a": rules.warner(YES_NO, 0.7), "b": rules.warner(YES_NO, 0.7)}, Survey("yes"))
    assert expected_errors(same, [Fraction(1, 2)] * 2, 4000) == {None: None}


def test_arms_need_different_budgets():
    group = GroupPrior(name=None, prior=Prior.uniform(2))
    for budgets in ([1], [1, 1]):
        with pytest.raises(ValueError, match="two different budgets"):
            in_arms([group], budgets)
    with pytest.raises(ValueError, match="state their own budgets"):
        in_arms([GroupPrior(name=None, prior=Prior.uniform(2), epsilon=Fraction(1))], [1, 2])


def test_the_most_likely_mixture_is_proven_to_be():
    """For a concave likelihood of N reports, no shares are better by more than N (max_z Σ_y n_y R_zy/(N λ_y) − 1)."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        size, reports = int(rng.integers(2, 8)), int(rng.integers(3, 12))
        rows = rng.dirichlet(np.full(reports, rng.choice([0.2, 1.0])), size)
        truth = rng.dirichlet(np.full(size, rng.choice([0.1, 1.0])))
        counts = rng.multinomial(int(10 ** rng.uniform(1, 6)), truth @ rows).astype(float)
        theta, height = most_likely_mixture(rows, counts)
        assert theta.sum() == pytest.approx(1)
        assert theta.min() >= 0
        came = counts > 0
        assert (rows[:, came] @ (counts[came] / (theta @ rows)[came])).max() - counts.sum() < 1e-3
        # What is fixed is kept, and the wrong answer "all equal" is worse.
        value = float(rng.uniform(0.1, 0.9))
        fixed, lower = most_likely_mixture(rows, counts, np.eye(size)[0], value)
        assert fixed[0] == pytest.approx(value, abs=1e-9)
        assert lower <= height + GAP
        assert float(counts[came] @ np.log((np.full(size, 1 / size) @ rows)[came])) <= height + GAP


def test_a_mixture_that_explains_nothing_is_told():
    rows = np.array([[1.0, 0.0], [0.5, 0.5]])
    assert most_likely_mixture(rows, np.array([5.0, 5.0]), np.array([0.0, 1.0]), 0.0)[1] == -np.inf
    assert most_likely_mixture(rows, np.array([5.0, 5.0]), np.array([0.0, 1.0]), 1.0)[0].tolist() == [0.0, 1.0]
    with pytest.raises(ValueError, match="No shares have the value 2"):
        most_likely_mixture(rows, np.array([5.0, 5.0]), np.array([0.0, 1.0]), 2.0)


def test_groups_are_pooled_by_estimates_that_may_lie_below_zero():
    """Two groups in which all follow, off by chance to either side: together nobody did not follow. The mean of their
    own shares, which end at zero, would say that some did.
    """
    names = [f"{group} / {arm}" for group in "ab" for arm in (1, 2)]
    designs = [rules.warner(YES_NO, truth) for truth in ("1/6", "5/6") * 2]
    plan = adopt(dict(zip(names, designs, strict=True)), Survey("yes"))
    # 30% hold it. Of 600 people so many are expected to say no; in group a 12 more do, in b 12 less.
    expected = [round(600 * (0.3 * (1 - truth) + 0.7 * truth)) for truth in (1 / 6, 5 / 6)]
    counts = [np.array([600 - no - off, no + off]) for off in (12, -12) for no in expected]
    found = compliance(plan, tally_of(plan, counts), says=1)
    together = pooled_compliance(found)
    assert found[0].unbounded == pytest.approx(-found[1].unbounded, abs=1e-6)
    assert np.mean([each.not_following.estimate for each in found]) > 0.01
    assert together.not_following.estimate < 1e-6
    assert together.n_reports == 2400
    assert together.p_value == pytest.approx(0.5, abs=1e-3)
    # With two values and two arms γ is a sum of the two shares of "no", λ₁ + λ₂ − 1, each from 600 people.
    variances = [no / 600 * (1 - no / 600) / 600 for no in (count[1] for count in counts)]
    reach = 1.959964 * np.sqrt(sum(variances)) / 2
    assert together.not_following.high == pytest.approx(reach, rel=0.02)
