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

import pytest

from tacit import Channel, Histogram, Plan, Prior, Sum, Survey, Tally, WeightedSum, difference, estimate
from tacit.estimates import Margin, cells_of
from tacit.plan import Group
from tacit.tally import Counts

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
    return Plan(task, tuple(Group(name=n, epsilon=Fraction(2), mechanism=c, **options) for n, c in groups))


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


def by_column(plan: Plan) -> Any:
    tallies = {("x",): tally_of(plan), ("y",): tally_of(plan, times=2)}
    return cells_of(plan, tallies, ("column",), group_parts=PARTS)


def cells(plan: Plan, **options: Any) -> Any:
    return cells_of(plan, tally_of(plan, **options), group_parts=PARTS)


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
    "before": lambda: difference(SURVEY, cells(SURVEY), before_shares={None: (Prior.of({1: 2, 2: 3, 4: 5}), 100)}),
}  # fmt: skip


def plain(found: Any) -> Any:
    """For JSON; numbers that are none as texts."""
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
    found = plain(CASES[name]().to_dict())
    assert close(found, stored), f"{name} is not as stored in {STORED.name}"
    # Another level is another estimate: the comparison is able to fail.
    assert not close(found | {"level": found["level"] + 1e-6}, stored)


def test_every_stored_estimate_is_compared():
    assert set(json.loads(STORED.read_text(encoding="utf-8"))) == set(CASES)


if __name__ == "__main__":
    found = {name: plain(make().to_dict()) for name, make in CASES.items()}
    STORED.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
