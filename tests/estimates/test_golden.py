"""Estimates and differences of fixed plans and reports are the stored ones, to 1e-9.

The plans are tables of integers and the reports are counts, so that nothing depends on a design or on chance. To store
numbers anew after a change that is meant: `python tests/estimates/test_golden.py`.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit import Channel, Histogram, Plan, Prior, Sum, Survey, Tally, WeightedSum, difference, estimate, trend
from tacit.designs import adopt
from tacit.designs.rules import warner
from tacit.estimates import (
    Margin,
    cells_of,
    compliance,
    covariate_levels,
    crosstab,
    estimate_questions,
    pooled_compliance,
    pseudo_values,
    quantile_differences,
    quantiles,
    regress,
    regress_on_private,
)
from tacit.mechanism import BlockDesign
from tacit.plan import Block, Group, Question, joint_values
from tacit.tally import Counts

from support.questions import margins_task

STORED = Path(__file__).parents[1] / "golden" / "estimates.json"
NAMES = ("north / old", "north / young", "south / old", "south / young")
PARTS = ("region", "age")
TABLE = [[5, 2, 1], [2, 4, 2], [1, 3, 4]]
REGION = Margin(("region",), {("north",): 3000, ("south",): 1000})
AGE = Margin(("age",), {("old",): 1500, ("young",): 2500})


def plan_of(task: Any, names: tuple[str | None, ...] = (None,), **options: Any) -> Plan:
    """A different prior for each group, and one table for all."""
    priors = [Prior.of({1: 2 + k, 2: 3, 4: 5 - k}) for k in range(len(names))]
    channels = [Channel.from_weights(prior, TABLE) for prior in priors]
    groups = zip(names, channels, strict=True)
    return Plan.of_groups(task, tuple(Group(name=n, epsilon=Fraction(2), mechanism=c, **options) for n, c in groups))


def tally_of(plan: Plan, weights: bool = False, offsets: bool = False, times: int = 1) -> Tally:
    """Group k sends its reports in other proportions than group k + 1; the last group of four sends none."""
    groups = {}
    for k, group in enumerate(plan.groups[:3]):
        reports = [0] * (40 + 10 * k) * times + [1] * 50 + [2] * (60 - 15 * k)
        some = [1.0 + place % 3 for place in range(len(reports))] if weights or offsets else None
        groups[group.name] = Counts.of(reports, some, [0.5] * len(reports) if offsets else None)
    return Tally(plan.hash, groups)


SURVEY, SETS = plan_of(Survey(1), NAMES), plan_of(Survey((1, 2)))
HISTOGRAM, SUM = plan_of(Histogram(), NAMES), plan_of(Sum(), ("a", "b"))
SCALED = plan_of(WeightedSum(), ("a", "b"), weight=Fraction(2), offset=Fraction(3))


YES_NO = [Question(name=name, answers=("yes", "no"), kind="yes-no") for name in ("q1", "q2")]
NUMBERS = [Question(name=n, answers=a, kind="number", task="mean") for n, a in (("x", (0, 1, 2)), ("y", (1, 5)))]


def by_column(plan: Plan) -> Any:
    tallies = {("x",): tally_of(plan), ("y",): tally_of(plan, times=2)}
    return cells_of(plan, tallies, ("column",), group_parts=PARTS)


def cells(plan: Plan, **options: Any) -> Any:
    return cells_of(plan, tally_of(plan, **options), group_parts=PARTS)


def regression(model: str, rare: bool = False, **options: Any) -> Any:
    """Reports on a constant and a column; with `rare` the first value is hardly held where the column is largest."""
    reports, x = np.array(([0, 1, 2, 1, 0, 2, 1] * 20)[:130]), np.arange(130) % 4
    reports[(x == 3) & rare & (np.arange(130) % 5 < 1)] = 1
    plan = plan_of(Histogram() if model == "multinomial" else Survey(1))
    z = np.column_stack([np.ones(130), x == 3 if rare else x - 0.2 * (reports == 0)])
    r, values = pseudo_values(plan, reports), plan.row_values
    fit = regress(r, z, ["constant", "x"], model=model, values=values, **options)  # type: ignore[arg-type]
    levels = [vars(each) for each in covariate_levels(plan, fit, np.zeros(130, np.int64))]
    return fit.to_dict() | {"levels": levels}


def asked_together(*asked: Question) -> tuple[Plan, Tally]:
    """Two questions in one block, and some reports."""
    values = joint_values(asked)
    table = [[9 if x == y else 2 - (x + y) % 2 for y in range(len(values))] for x in range(len(values))]
    channel = Channel.from_weights(Prior(values, range(2, len(values) + 2)), [[*row, 30 - sum(row)] for row in table])
    group = Group(name=None, epsilon=Fraction(3), mechanism=channel)
    plan = Plan(asked, (Block(asked, margins_task(asked), (group,)),))
    reports = [y for y in range(len(table[0])) for _ in range(60 if y in (0, 3, 5) else 30)]
    return plan, Tally.of(plan, reports, [plan.groups[0].name] * len(reports))


def private_regression(model: Any) -> Any:
    """The answer to one question on the answer to another: joint pseudo-values of a table of both."""
    plan, _ = asked_together(*YES_NO)
    joint = pseudo_values(
        plan.read_block(plan.blocks[0], plan.blocks[0].cross("q1", "q2")), [0, 1, 2, 3, 3, 0, 1, 2, 4, 1] * 28
    )
    held, columns = joint[:, :2] + joint[:, 2:], np.array([[1.0, 0.0], [1.0, 1.0]])
    fit = regress_on_private(joint[:, :2], held, np.tile(columns, (280, 1, 1)), ["constant", "q2"], model=model)
    return fit.to_dict()


def crossed(*asked: Question) -> Any:
    plan, tally = asked_together(*asked)
    found = {name: each.to_dict() for name, each in estimate_questions(plan, tally).items()}
    return crosstab(plan, tally, *(each.name for each in asked)).to_dict() | found


def arms(says: int | None) -> Any:
    rules = {f"{name} / arm {k}": warner(["yes", "no"], p) for name in "ab" for k, p in ((1, "1/6"), (2, "5/6"))}
    plan = adopt(rules, Survey("yes"))
    counts = {group.name: [70 - 20 * k, 40 + 10 * k] for k, group in enumerate(plan.groups)}
    tally = Tally(plan.hash, {name: Counts.of([0] * yes + [1] * no) for name, (yes, no) in counts.items()})
    found = compliance(plan, tally, says)
    return {"groups": [each.to_dict() for each in found], "pooled": pooled_compliance(found).to_dict(), "level": 0.95}


def block_designs(estimator: Any) -> Any:
    """Sums of coverage of block designs."""
    design = {"circle": 7, "orders": 1, "field": 2, "recurrence": (1, 1, 0), "step": 2**30, "word_bits": 33}
    arc = {"circle": 7, "orders": 6, "step": 2**30, "word_bits": 34, "arc": 2}
    priors = [Prior.of(list(range(1, 8))), Prior.of(list(range(7, 0, -1)))]
    mechanisms = [BlockDesign(prior=priors[0], arc=4, **design), BlockDesign(prior=priors[1], **arc)]  # type: ignore[arg-type]
    groups = zip("ab", mechanisms, strict=True)
    plan = Plan.of_groups(
        Histogram(), tuple(Group(name=n, epsilon=Fraction(3), mechanism=m, notion="ldp") for n, m in groups)
    )
    kept = [each.keep(np.arange(500) * (k + 3) % each.n_reports) for k, each in enumerate(mechanisms)]
    return estimate(plan, Tally(plan.hash, dict(zip("ab", kept, strict=True))), estimator, by="group")


def medians() -> Any:
    tally = tally_of(HISTOGRAM)
    found = quantiles(HISTOGRAM, tally, (0.2, 0.5), by="group")
    apart = quantile_differences(HISTOGRAM, tally, (0.5, 0.7), by="group")
    return {"level": 0.95, "rows": [each.to_dict() for each in (*found, *apart)]}


CASES: dict[str, Any] = {
    "assisted by group": lambda: estimate(SURVEY, cells(SURVEY), by="group"),
    "assisted by region": lambda: estimate(HISTOGRAM, cells(HISTOGRAM), by="region", level=0.9, simultaneous=True),
    "one group of several": lambda: estimate(SUM, tally_of(SUM), group="b"),
    "unbiased by a column": lambda: estimate(HISTOGRAM, by_column(HISTOGRAM), by="column"),
    "mle": lambda: estimate(SETS, tally_of(SETS), "mle", project=True),
    "mmse": lambda: estimate(HISTOGRAM, tally_of(HISTOGRAM), "mmse"),
    "weighted sum": lambda: estimate(SCALED, tally_of(SCALED, offsets=True)),
    "weights": lambda: estimate(SURVEY, tally_of(SURVEY, weights=True)),
    "weights of participants": lambda: estimate(SURVEY, tally_of(SURVEY, weights=True), scope="participants"),
    "population": lambda: estimate(SUM, tally_of(SUM), scope="population", by="group"),
    "raked": lambda: estimate(SURVEY, cells(SURVEY, weights=True), population=[REGION, AGE], by="age"),
    "raked participants": lambda: estimate(HISTOGRAM, cells(HISTOGRAM), population=[REGION], scope="participants"),
    "pairs": lambda: difference(HISTOGRAM, cells(HISTOGRAM), by="group", against="pairs", scope="participants"),
    "rest": lambda: difference(SURVEY, cells(SURVEY), by="group", population=[REGION]),
    "prior": lambda: difference(SUM, tally_of(SUM), by="group", against="prior"),
    "rounds": lambda: difference(SURVEY, cells(SURVEY), before=cells(SURVEY, times=2), by="age", simultaneous=True),
    "linear regression": lambda: regression("linear", weights=np.arange(130) % 3 + 1.0),
    "logistic regression": lambda: regression("logistic"),
    "rare logistic regression": lambda: regression("logistic", rare=True),
    "logistic regression in clusters": lambda: regression("logistic", clusters=np.arange(130) % 9),
    "rare logistic regression in clusters": lambda: regression("logistic", rare=True, clusters=np.arange(130) // 20),
    "multinomial regression": lambda: regression("multinomial"),
    "multinomial regression in clusters": lambda: regression("multinomial", clusters=np.arange(130) % 9),
    "linear regression on a private answer": lambda: private_regression("linear"),
    "logistic regression on a private answer": lambda: private_regression("logistic"),
    "two questions": lambda: crossed(*YES_NO),
    "two numbers": lambda: crossed(*NUMBERS),
    "compliance": lambda: arms(1),
    "block designs": lambda: block_designs("unbiased"),
    "block designs with the prior": lambda: block_designs("mmse"),
    "quantiles": medians,
    "waves": lambda: trend([(SURVEY, cells(SURVEY, times=k)) for k in (1, 3, 2)]),
    "before": lambda: difference(SURVEY, cells(SURVEY), before_shares={None: (Prior.of({1: 2, 2: 3, 4: 5}), 100)}),
}  # fmt: skip


def plain(found: Any) -> Any:
    """For JSON; numbers that are none as texts."""
    if hasattr(found, "to_dict"):
        return plain(found.to_dict())
    if isinstance(found, dict):
        return {str(name): plain(each) for name, each in found.items()}
    if isinstance(found, list | tuple):
        return [plain(each) for each in found]
    return str(found) if isinstance(found, float) and not math.isfinite(found) else found


def close(found: Any, stored: Any) -> bool:
    if isinstance(stored, dict):
        return isinstance(found, dict) and set(found) == set(stored) and all(close(found[k], stored[k]) for k in stored)
    if isinstance(stored, list):
        return len(found) == len(stored) and all(map(close, found, stored))
    if isinstance(stored, float):
        return isinstance(found, float) and math.isclose(found, stored, rel_tol=1e-9, abs_tol=1e-9)
    return bool(found == stored)


@pytest.mark.parametrize("name", CASES)
def test_the_estimate_is_the_stored_one(name: str):
    stored = json.loads(STORED.read_text(encoding="utf-8"))[name]
    found = plain(CASES[name]())
    assert close(found, stored), f"{name} is not as stored in {STORED.name}"
    # Another level is another estimate: the comparison is able to fail.
    assert not close(found | {"level": found["level"] + 1e-6}, stored)


def test_every_stored_estimate_is_compared():
    assert set(json.loads(STORED.read_text(encoding="utf-8"))) == set(CASES)


if __name__ == "__main__":
    found = {name: plain(make()) for name, make in CASES.items()}
    STORED.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
