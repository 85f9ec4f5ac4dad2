"""Weights: shares of a population are covered where those of the respondents are not, and R's `survey` agrees."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tacit import Channel, Histogram, Prior, Survey, WeightedSum, make_plan
from tacit.designs import Search
from tacit.estimates import Margin, cells_of, estimate
from tacit.estimates._cells import Collected
from tacit.estimates._estimate import weighted
from tacit.estimates._totals import found as found_total
from tacit.plan import Group, Plan
from tacit.randomize import Randomizer, SeededWords
from tacit.tally import Counts, Tally

from support.answering import reports_of, tally_of

NAMES = [f"{region} / {age}" for region in ("north", "south") for age in ("young", "old")]
PARTS = ("region", "age")
TRUTH = np.array([0.08, 0.25, 0.1, 0.35])
#: How the population is made up, and how those are who answer.
POPULATION, ANSWERED = np.array([0.2, 0.3, 0.1, 0.4]), np.array([0.4, 0.2, 0.3, 0.1])
JOINT = Margin(PARTS, {tuple(name.split(" / ")): 1e6 * share for name, share in zip(NAMES, POPULATION, strict=True)})
PLAN = make_plan(
    {name: Prior.of({"yes": p, "no": 1 - p}) for name, p in zip(NAMES, (0.05, 0.2, 0.1, 0.3), strict=True)},
    Survey("yes"),
    epsilon=1,
)


def answered(n: int, rng: np.random.Generator, selected=ANSWERED) -> tuple[Tally, np.ndarray, np.ndarray]:
    """A round: the tally, how many answered in each group, and how many of them hold yes."""
    people = np.maximum(rng.multinomial(n, selected), 2)
    yes = rng.binomial(people, TRUTH)
    return tally_of(PLAN, np.stack([yes, people - yes], axis=1), rng), people, yes


def covers(part, truth: float, scope="population") -> bool:
    found = found_total(part, "unbiased", scope, 0.95)
    return found.low[0] <= truth * part.size <= found.high[0]


def test_post_stratified_shares_cover_the_population_and_unweighted_ones_do_not():
    rng, rounds, held = np.random.default_rng(1), 300, np.zeros(4)
    truth = float(TRUTH @ POPULATION)
    for _ in range(rounds):
        tally, people, yes = answered(900, rng)
        cells = cells_of(PLAN, tally, group_parts=PARTS)
        weighed = weighted(PLAN, cells, [JOINT])
        held[0] += covers(weighed.part(), truth)
        held[1] += covers(weighed.part(), float(yes / people @ POPULATION), "participants")
        held[2] += covers(weighed.parts("region")[0], float(TRUTH[:2] @ [0.4, 0.6]))
        held[3] += covers(Collected(PLAN, cells).part(), truth)
    # At 95%, four standard errors of 300 rounds.
    assert (held[:3] > 0.90 * rounds).all(), held
    # The unweighted share is of those who answered, who are younger.
    assert held[3] < 0.2 * rounds


def test_intervals_for_participants_do_not_cover_the_population():
    """With ε of 5 nearly all uncertainty is sampling, which only the scope `population` includes."""
    plan = make_plan(Prior.of({"yes": 0.3, "no": 0.7}), Survey("yes"), epsilon=5)
    rng, held = np.random.default_rng(2), np.zeros(2)
    for _ in range(200):
        yes = rng.binomial(500, 0.3)
        cells = cells_of(plan, tally_of(plan, [[yes, 500 - yes]], rng))
        held += [covers(Collected(plan, cells).part(), 0.3, scope) for scope in ("population", "participants")]
    assert held[0] > 178
    assert held[1] < 120


@pytest.mark.parametrize(("n", "share"), [(12, 0.05), (30, 0.1)])
@pytest.mark.parametrize("method", ["auto", "subset-selection"])
def test_few_people_and_a_weak_randomizer_are_covered_too(method, n, share):
    """Nobody among twelve holds it, most of the time, and equal reports show no spread."""
    ldp = {"notion": "ldp", "search": Search(method=method)} if method != "auto" else {}
    plan = make_plan(Prior.uniform(5), Histogram(), epsilon=5, **ldp)
    rng, randomizer = np.random.default_rng(3), Randomizer(plan)
    held = wald = 0
    for _ in range(150):
        answers = rng.choice(5, n, p=[share, *[(1 - share) / 4] * 4])
        reports = randomizer.reports(np.zeros(n, dtype=np.int64), answers, SeededWords(int(rng.integers(2**62))))
        part = Collected(plan, cells_of(plan, Tally.of(plan, reports))).part()
        held += covers(part, share)
        seen = min(max(part.mean[0], 0.0), 1.0)
        wald += abs(seen - share) <= 1.96 * np.sqrt(seen * (1 - seen) / n)
    assert held >= 135
    assert wald < 135


def test_design_weights_cover_where_people_are_not_equally_likely_to_be_asked():
    """Those who hold yes are three times as likely to be in one stratum, which was asked three times as often."""
    plan = make_plan(Prior.of({"yes": 0.3, "no": 0.7}), Survey("yes"), epsilon=2)
    shares, asked, held = np.array([0.45, 0.15]), np.array([0.75, 0.25]), np.zeros(2)
    truth, rng = float(shares @ [0.5, 0.5]), np.random.default_rng(4)
    for _ in range(200):
        stratum = (rng.random(800) > asked[0]).astype(int)
        reports = reports_of(plan, np.zeros(800, int), (rng.random(800) > shares[stratum]).astype(int), rng)
        for place, weights in enumerate((0.5 / asked[stratum], None)):
            tally = Tally(plan.hash, {None: Counts.of(reports, weights=weights)})
            held[place] += covers(Collected(plan, cells_of(plan, tally)).part(), truth)
    assert held[0] > 0.89 * 200
    assert held[1] < 0.5 * 200


def test_raking_covers_where_one_margin_is_not_enough():
    """Whether people answer depends on region and on age, each in its own way: raking over both makes up for it."""
    selected = np.outer([0.7, 0.3], [0.6, 0.4]).ravel() * (POPULATION / POPULATION.sum())
    selected /= selected.sum()
    region = Margin(("region",), {("north",): 0.5, ("south",): 0.5})
    age = Margin(("age",), {("young",): 0.3, ("old",): 0.7})
    rng, held = np.random.default_rng(3), np.zeros(2)
    for _ in range(250):
        tally, _, _ = answered(4000, rng, selected)
        cells = cells_of(PLAN, tally, group_parts=PARTS)
        for place, margins in enumerate(([region, age], [region])):
            held[place] += covers(weighted(PLAN, cells, margins).part(), float(TRUTH @ POPULATION))
    assert held[0] > 0.90 * 250
    assert held[1] < 0.85 * 250


# -- R ----------------------------------------------------------------------------------------------------------------

#: sex, age, weight and report of 30 people; a report 0 has the pseudo-value 1.5, a report 1 has −0.5.
REPORTS = [int(bit) for bit in "000110100111111100001101111001"]
SEX, AGE = ["fm"[k % 2] for k in range(30)], ["young" if k // 2 % 3 == 0 else "old" for k in range(30)]
WEIGHTS = [1.0, 2.0, 3.0] * 10


def table_plan(task=None) -> Plan:
    prior = Prior.of({"yes": 0.5, "no": 0.5})
    channel = Channel.from_weights(prior, [[3, 1], [1, 3]])
    return Plan.of_groups(task or Survey("yes"), (Group(name=None, epsilon=Fraction(2), mechanism=channel),))


def cells_of_r(times: int):
    plan = table_plan()
    tallies = {}
    for key in sorted(set(zip(SEX, AGE, strict=True))):
        mine = [k for k in range(30) if (SEX[k], AGE[k]) == key]
        counts = Counts.of([REPORTS[k] for k in mine] * times, weights=[WEIGHTS[k] for k in mine] * times)
        tallies[key] = Tally(plan.hash, {None: counts})
    return plan, cells_of(plan, tallies, ("sex", "age"))


def test_means_contrasts_and_raked_means_are_those_of_the_survey_package_of_r():
    """R 4.2.2, survey 4.1: svymean, svyby, svycontrast, rake and postStratify of these people.

    R's variances have the factor 30/29. Here everybody answers 2,000 times, so that what is added for few reports does
    not matter, and what R says has to be divided accordingly.
    """
    times = 2000
    scale = np.sqrt(29 / 30 / times)
    plan, cells = cells_of_r(times)
    plain = Collected(plan, cells)
    both = plain.parts("sex")
    raked = weighted(
        plan, cells, [Margin(("sex",), {("f",): 520, ("m",): 480}), Margin(("age",), {("old",): 550, ("young",): 450})]
    )
    joint = {("f", "old"): 300, ("m", "old"): 250, ("f", "young"): 220, ("m", "young"): 230}
    stratified = weighted(plan, cells, [Margin(("sex", "age"), joint)])
    # After raking R takes residuals without weights, which is the same for many people only.
    for part, mean, error, precise in (
        (plain.part(), 0.4, 0.199568500037, 1e-3),
        (both[0], 0.433333333333, 0.282662040011, 1e-3),
        (both[1], 0.366666666667, 0.281847580703, 1e-3),
        (raked.part(), 0.442526108575, 0.200658709233, 0.02),
        (raked.parts("sex")[0], 0.405140376958, 0.264579102318, 0.02),
        (raked.parts("sex")[1], 0.483027317827, 0.300994461313, 0.02),
        (stratified.part(), 0.415, 0.193402209986, 1e-3),
    ):
        assert part.mean[0] == pytest.approx(mean, abs=1e-9)
        assert np.sqrt(part.variance("population")[0]) == pytest.approx(scale * error, rel=precise)
    (slope, shift), (other, shifted) = both[0].moves, both[1].moves
    variance = plain.variance(0.0, slope - other, shift - shifted, plain.part().n_reports)
    assert np.sqrt(variance[0]) == pytest.approx(scale * 0.3991689963058, rel=1e-3)


def test_the_design_effect_is_kishs():
    _, cells = cells_of_r(1)
    part = Collected(table_plan(), cells).part()
    weights = np.array(WEIGHTS)
    assert part.design_effect == pytest.approx(30 * (weights**2).sum() / weights.sum() ** 2)
    assert part.n_effective == pytest.approx(30 / part.design_effect)


def test_weights_that_sum_to_the_number_of_reports_are_weights():
    plan = table_plan()
    counts = Counts.of([0, 1, 1, 0], weights=[0.5, 1.5, 1.5, 0.5])
    result = estimate(plan, Tally(plan.hash, {None: counts}))
    assert result.total_weight == 4
    assert result.weighted
    assert result.design_effect == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("margins", "said"),
    [
        ([Margin(("region",), {("north",): 1})], "'south', of which there are reports"),
        ([Margin(("region",), {("north",): 1, ("south",): 1, ("west",): 1})], "no reports of 'west'"),
        ([Margin(("sex",), {("f",): 1})], "'sex', which the reports do not have. They have 'group', 'region', 'age'"),
        ([JOINT, Margin(("region",), {("north",): 1, ("south",): 1})], "one total"),
    ],
)
def test_a_population_that_does_not_fit_is_refused(margins, said):
    tally, _, _ = answered(400, np.random.default_rng(1))
    with pytest.raises(ValueError, match=said):
        weighted(PLAN, cells_of(PLAN, tally, group_parts=PARTS), margins)


def test_margins_that_contradict_each_other_are_refused():
    """Nobody young in the south answered, so that no weights make both margins right."""
    tally = tally_of(PLAN, [[10, 90], [30, 70], [0, 0], [30, 70]], np.random.default_rng(1))
    cells = cells_of(PLAN, tally, group_parts=PARTS)
    region = Margin(("region",), {("north",): 0.1, ("south",): 0.9})
    age = Margin(("age",), {("young",): 0.5, ("old",): 0.5})
    with pytest.raises(ValueError, match="contradict each other"):
        weighted(PLAN, cells, [region, age])


def test_weights_of_a_weighted_sum_are_not_taken_for_design_weights():
    prior = Prior.of({0: 0.5, 1: 0.5})
    plan = make_plan(prior, WeightedSum(), epsilon=1)
    tally = Tally(plan.hash, {None: Counts.of([0, 1], weights=[1.0, 2.0])})
    with pytest.raises(ValueError, match="part of what is asked"):
        estimate(plan, tally, scope="population")


def test_many_values_kept_as_sums_are_weighted_by_cells():
    from tacit import Randomizer

    values = [f"value {x}" for x in range(30)]
    plan = make_plan({"a": Prior.uniform(values), "b": Prior.uniform(values)}, Histogram(), epsilon=1)
    answers = np.repeat([0, 1], 4000).astype(np.int32)
    groups = answers.copy()
    reports = Randomizer(plan).reports(groups, answers)
    tally = Tally.of(plan, reports, np.array(["a", "b"])[groups])
    collected = weighted(plan, cells_of(plan, tally), [Margin(("group",), {("a",): 300, ("b",): 100})])
    part = collected.part()
    # Everybody in a holds the first value, everybody in b the second.
    for place, share in ((0, 0.75), (1, 0.25), (2, 0.0)):
        assert abs(part.mean[place] - share) < 5 * np.sqrt(part.variance("population")[place])
    assert part.size == pytest.approx(400)
