"""What every task has to do, from its JSON to the page. A new task is tested by being listed here.

The plan is over three values, so all is checked by enumeration: the answers of a few people, and all their reports.
"""

from __future__ import annotations

import csv
import io
import json
import random
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tacit import (
    Histogram,
    Matrix,
    Plan,
    Prior,
    Quantiles,
    Sum,
    Survey,
    Tally,
    Task,
    WeightedSum,
    make_plan,
    personal,
    prior_variance,
)
from tacit.designs import GroupPrior
from tacit.estimates import difference, estimate, estimators, pseudo_names, pseudo_values
from tacit.personal import PersonalPlan, PersonalTally
from tacit.show.page import page
from tacit.show.results import print_estimate
from tacit.show.sentences import row_name
from tacit.tally import Counts
from tacit.task import TASKS

from support.answering import rows_of, tally_of
from support.commanding import done

PRIOR = Prior.of({1: 0.2, 2: 0.3, 5: 0.5})
OTHER = Prior.of({1: 0.4, 2: 0.4, 5: 0.2})


class AtMost(Task):
    """How many people answer at most `most`: a task of one's own, of which plans know nothing."""

    def __init__(self, most: float) -> None:
        self.most = most

    def g(self, prior):
        return prior.numbers <= self.most


class Powers(Task):
    """Several totals of one's own, with names."""

    names = ("sum", "sum of squares", "more than four")

    def g(self, prior):
        return np.stack([prior.numbers, prior.numbers**2, prior.numbers > 4], axis=1)


LISTED: dict[str, Task] = {
    "survey": Survey(2),
    "survey of two values": Survey((1, 5)),
    "sum": Sum(),
    "weighted sum": WeightedSum(),
    "histogram": Histogram(),
    "matrix": Matrix([["1/3", -2], [0, 4], [0.1, 1e-9]], names=["first", "second"]),
    "matrix that counts": Matrix([[1, 0], [1, 1], [0, 1]]),
    "at most 2": AtMost(2),
    "powers": Powers(),
    "quantiles": Quantiles(),
}
every_task = pytest.mark.parametrize("name", LISTED)


@cache
def plan_of(name: str) -> Plan:
    """A plan of two groups with different priors; a and b are used where the task takes them."""
    groups = [
        GroupPrior(name="north", prior=PRIOR, weight=Fraction(2), offset=Fraction(1, 2)),
        GroupPrior(name="south", prior=OTHER, weight=Fraction(-1)),
    ]
    return make_plan(groups, LISTED[name], epsilon=2)


def asked(plan: Plan) -> list[np.ndarray]:
    """What one person of each group adds to each row: a·g + b."""
    return [float(group.weight) * plan.task.g(group.prior) + float(group.offset) for group in plan.groups]


def test_every_kind_of_task_is_listed():
    assert {task.kind for task in LISTED.values()} == set(TASKS)


@every_task
def test_json_is_exact_and_read_again_as_what_a_plan_holds(name):
    task = LISTED[name]
    written = json.loads(json.dumps(task.to_dict(PRIOR)))
    again = Task.from_dict(written, PRIOR.values)
    assert again == task.as_planned(PRIOR)
    assert hash(again) == hash(task.as_planned(PRIOR))
    assert again.to_dict(PRIOR) == written
    assert again.row_values(PRIOR.values) == task.row_values(PRIOR.values)
    assert (again.g(PRIOR) == task.g(PRIOR)).all()


@every_task
def test_properties_say_what_g_is(name):
    task = LISTED[name].as_planned(PRIOR)
    g, rows = task.g(PRIOR), task.row_values(PRIOR.values)
    assert g.shape == (len(PRIOR), len(rows))
    assert len(set(rows)) == len(rows)
    assert task.counts_people == bool(np.isin(g, (0, 1)).all())
    assert task.per_value == (len(rows) == 3 and bool((g == np.eye(3)).all()))
    assert not task.adds_numbers or (g == PRIOR.numbers[:, None]).all()
    assert not task.wanted or (g[:, 0] == [value in task.wanted for value in PRIOR.values]).all()


@every_task
def test_moments_are_those_of_enumeration(name):
    task = LISTED[name]
    exact = [[Fraction(number) for number in row] for row in task.g(PRIOR).tolist()]
    chances = [Fraction(weight, PRIOR.total) for weight in PRIOR.weights]
    means = [sum(p * row[k] for p, row in zip(chances, exact, strict=True)) for k in range(len(exact[0]))]
    variances = [
        sum(p * (row[k] - mean) ** 2 for p, row in zip(chances, exact, strict=True)) for k, mean in enumerate(means)
    ]
    mean, variance, reach = task.moments(PRIOR)
    assert mean == pytest.approx([float(each) for each in means], abs=1e-12)
    assert variance == pytest.approx([float(each) for each in variances], abs=1e-12)
    assert reach == pytest.approx([float(max(column) - min(column)) for column in zip(*exact, strict=True)])
    assert prior_variance(PRIOR, task) == pytest.approx(float(sum(variances)), abs=1e-12)
    widest = task.widest(PRIOR, 2)
    assert prior_variance(PRIOR, widest[0]) == pytest.approx(float(max(variances)), abs=1e-12)


@every_task
def test_values_in_another_order_have_the_same_g(name):
    task = LISTED[name].as_planned(PRIOR)
    turned = Prior.of({5: 0.5, 1: 0.2, 2: 0.3})
    assert task.g_over(turned, PRIOR.values) == pytest.approx(task.g(PRIOR)[[2, 0, 1]])
    assert task.asks_the_same(PRIOR.values, task, PRIOR.values)
    others = [each.as_planned(PRIOR) for other, each in LISTED.items() if other != name]
    same = [each for each in others if task.asks_the_same(PRIOR.values, each, PRIOR.values)]
    assert all(task.adds_numbers and each.adds_numbers for each in same)


@every_task
def test_totals_that_occur_are_possible_and_others_are_moved(name):
    task = LISTED[name].as_planned(PRIOR)
    for answers in product(range(3), repeat=3):
        total = task.g(PRIOR)[list(answers)].sum(axis=0)
        assert task.possible(total, 3) == pytest.approx(total)
    wild = np.array([-7.5, 40.0, 3.25])[: len(task.row_values(PRIOR.values))]
    moved = task.possible(wild, 3)
    assert task.possible(moved, 3) == pytest.approx(moved)
    assert not task.counts_people or ((moved >= 0) & (moved <= 3)).all()


@every_task
def test_a_plan_file_holds_it(name, tmp_path):
    plan = plan_of(name)
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert (again.hash, again.task, again.row_values) == (plan.hash, plan.task, plan.row_values)
    assert again.task == LISTED[name].as_planned(PRIOR)


@every_task
def test_pseudo_values_are_unbiased(name):
    """By enumeration, Σ_y Q(y|x) r(y) = a·g(x) + b for every answer x; the means E[g|y] of the prior are not."""
    plan = plan_of(name)
    for group, rows, g in zip(plan.groups, rows_of(plan), asked(plan), strict=True):
        reports = np.arange(rows.shape[1])
        r = pseudo_values(plan, reports, [group.name] * len(reports))
        assert rows @ r == pytest.approx(g, abs=1e-9 * np.ptp(g))
        assert rows @ group.mechanism.posterior @ g != pytest.approx(g, abs=1e-3 * np.ptp(g))
    assert len(set(pseudo_names(plan))) == len(plan.row_values)


@every_task
@pytest.mark.parametrize("estimator", ["unbiased", "mmse"])
def test_the_estimate_is_right_on_average(name, estimator):
    """Over all reports of two people: `unbiased` for any answers, `mmse` on average over the prior."""
    plan = plan_of(name)
    group, rows, g = plan.groups[0], rows_of(plan)[0], asked(plan)[0]
    found, wanted, estimated = {}, 0.0, 0.0
    for sent in product(range(rows.shape[1]), repeat=2):
        tally = Tally(plan.hash, {group.name: Counts.of(sent)})
        found[sent] = estimate(plan, tally, estimator, group=group.name)
    for answers in product(range(3), repeat=2):
        chance = {sent: rows[answers[0], sent[0]] * rows[answers[1], sent[1]] for sent in found}
        mean = sum(chance[sent] * found[sent].columns["estimate"] for sent in found)
        total, p = g[list(answers)].sum(axis=0), np.prod(PRIOR.probabilities[list(answers)])
        if estimator == "unbiased":
            assert mean == pytest.approx(total, abs=1e-9 * np.ptp(g))
        wanted, estimated = wanted + p * total, estimated + p * mean
    assert estimated == pytest.approx(wanted, abs=1e-9 * np.ptp(g))
    assert next(iter(found.values())).columns["prior"] == pytest.approx(wanted)


@every_task
def test_intervals_are_finite_and_possible(name):
    """For every estimator, and for participants and population."""
    plan, rng = plan_of(name), np.random.default_rng(4)
    tally = tally_of(plan, [[300, 400, 300], [200, 500, 300]], rng)
    results = [estimate(plan, tally, estimator) for estimator in estimators(plan)]
    assert {result.estimator for result in results} == {"assisted", "unbiased", "mmse", "mle"}
    results.append(estimate(plan, tally, scope="population"))
    for result in results:
        assert list(result.values) == plan.row_values
        low, middle, high = (result.columns[column] for column in ("low", "estimate", "high"))
        assert np.isfinite([low, middle, high]).all()
        assert ((low <= middle) & (middle <= high) & (low < high)).all()
        if plan.task.counts_people:
            assert ((low >= 0) & (high <= 2000)).all()


@every_task
def test_the_interval_holds_the_truth_of_both_groups(name):
    """At 1 − 10⁻⁹ on one fixed draw; the total of other answers lies outside."""
    plan, held = plan_of(name), np.array([[3000, 4000, 3000], [2000, 5000, 3000]])
    result = estimate(plan, tally_of(plan, held, np.random.default_rng(5)), "unbiased", 1 - 1e-9)
    truth = sum(people @ g for people, g in zip(held, asked(plan), strict=True))
    wrong = sum(people @ g for people, g in zip([[9000, 500, 500], [500, 500, 9000]], asked(plan), strict=True))
    assert ((result.columns["low"] <= truth) & (truth <= result.columns["high"])).all()
    assert ((wrong < result.columns["low"]) | (wrong > result.columns["high"])).any()


@every_task
def test_terminal_and_page_name_each_row(name):
    plan = plan_of(name)
    tally = tally_of(plan, [[300, 400, 300], [200, 500, 300]], np.random.default_rng(4))
    result = estimate(plan, tally, by="group")
    printed = io.StringIO()
    print_estimate(Console(file=printed, width=200), plan, result)
    compared = difference(plan, tally, by="group")
    assert [row.value for row in compared.rows] == plan.row_values
    shown = page(plan, result, comparison=compared)
    assert plan.task.title in shown
    for value in plan.row_values:
        assert row_name(plan, value) in printed.getvalue()
        assert row_name(plan, value) in shown


@every_task
def test_the_commands_take_it_the_whole_way(name, tmp_path, monkeypatch):
    """From the plan file alone: nothing of the script that made it is there any more."""
    monkeypatch.chdir(tmp_path)
    plan_of(name).save("plan.json")
    chance = random.Random(3)
    people = [
        f"{group},{chance.choice([1, 2, 5])},{chance.choice('ab')}" for group in ("north", "south") for _ in range(300)
    ]
    Path("answers.csv").write_text("\n".join(["group,value,arm", *people, ""]))
    done("audit", "plan.json")
    done("perturb", "plan.json", "answers.csv", "-o", "reports.csv", "--keep", "arm")
    done("tally", "plan.json", "reports.csv", "-o", "tally.json")
    names = [row_name(plan_of(name), value) for value in plan_of(name).row_values]
    for words in (["--for", "population"], ["--estimator", "mmse"], ["--by", "arm", "--html", "page.html"]):
        found = json.loads(done("estimate", "plan.json", "reports.csv", "--json", *words))
        assert len(found["estimates"]) == len(names)
    assert all(row in Path("page.html").read_text() for row in names)
    compared = json.loads(done("difference", "plan.json", "reports.csv", "--by", "arm", "--json"))
    assert len(compared["differences"]) == len(names)
    done("export", "plan.json", "reports.csv", "-o", "pseudo.csv")
    with Path("pseudo.csv").open() as file:
        assert set(pseudo_names(plan_of(name))) < set(next(csv.reader(file)))
    fitted = json.loads(done("regress", "plan.json", "reports.csv", "arm", "--json"))
    assert fitted["model"] == plan_of(name).task.model


@every_task
def test_people_with_priors_of_their_own_are_asked_for_it(name):
    """A personal plan, read again from its JSON: the estimate from one report is unbiased, by enumeration."""
    plan = PersonalPlan.of(LISTED[name], PRIOR.values, epsilon=1, resolution=1000)
    plan = PersonalPlan.from_dict(json.loads(json.dumps(plan.to_dict())))
    assert plan.task == LISTED[name].as_planned(PRIOR)
    own = np.array([[200, 300, 500]])
    found = [personal.estimate(plan, PersonalTally.of(plan, own, [report])) for report in range(3)]
    estimates = np.array([result.columns["estimate"] for result in found])
    assert plan.channel(own[0]).matrix @ estimates == pytest.approx(plan.task.g(PRIOR), abs=1e-9 * np.ptp(plan.g))
    assert list(found[0].values) == plan.task.row_values(plan.values)


@pytest.mark.parametrize("scope", ["participants", "population"])
def test_rows_in_other_units_do_not_touch_an_interval(scope):
    """Seconds beside a count once made the interval of the count as wide as that of the seconds."""
    seconds = Matrix([[1, 0], [0, 86_400], [0, 864_000]], names=["count", "seconds"])
    plan = make_plan(PRIOR, seconds, 2)
    alone = Plan.of_groups(Matrix([[1], [0], [0]], names=["count"]), plan.groups)
    (sent,) = tally_of(plan, [[300, 400, 300]], np.random.default_rng(4)).groups.values()
    both, one = (estimate(each, Tally(each.hash, {None: sent}), "unbiased", scope=scope) for each in (plan, alone))
    for end in ("low", "high"):
        # Counts are rounded outwards, and half a report is added.
        assert both.columns[end][0] == pytest.approx(one.columns[end][0], abs=4)
