"""From a file of priors to a plan: design every group, and find the budget that a target error needs."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from tacit.design import Design, design
from tacit.exact import Number, budget, rational
from tacit.plan import Group, Plan
from tacit.prior import Prior, numbers_if_all
from tacit.task import Histogram, Task, WeightedSum

#: The planner finds the smallest budget to this many decimals.
BUDGET_STEP = Fraction(1, 1000)
#: Budgets above this leave nothing to protect; a target that needs more is out of reach.
LARGEST_BUDGET = Fraction(10)
#: The best LDP channel is designed for comparison up to this many values.
COMPARISON_LIMIT = 200


@dataclass(frozen=True)
class GroupPrior:
    """What a prior file says about one group. `share` is the group's part of all respondents."""

    name: str | None
    prior: Prior
    share: Fraction
    epsilon: Fraction | None = None
    weight: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)


def read_priors(path: str | Path) -> list[GroupPrior]:
    """Read a CSV with the columns `value` and `probability` or `count`, and optionally `group`, `epsilon`, `weight`
    and `offset` (the last three one number per group).

    With counts, a group's share of the respondents is its share of the counts; with probabilities all are equal.
    """
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        columns = reader.fieldnames or []
        column = next((name for name in ("probability", "count") if name in columns), None)
        if "value" not in columns or column is None:
            raise ValueError(f"{path}: the header must name 'value' and 'probability' or 'count'. Got {columns}.")
        rows = [row | {"line": reader.line_num} for row in reader]
    if not rows:
        raise ValueError(f"{path} has no rows.")
    for row in rows:
        for name in ("value", column, *(name for name in ("group", "epsilon") if name in columns)):
            if not row[name]:
                raise ValueError(f"{path}, line {row['line']}: '{name}' must not be empty.")
    texts = list(dict.fromkeys(row["value"] for row in rows))
    named = dict(zip(texts, numbers_if_all(texts), strict=True))
    names = list(dict.fromkeys(row.get("group") for row in rows))
    groups = [_group(path, name, [row for row in rows if row.get("group") == name], named, column) for name in names]
    total = sum((weight for _, weight in groups), Fraction(0))
    return [
        GroupPrior(**facts, share=weight / total if column == "count" else Fraction(1, len(groups)))
        for facts, weight in groups
    ]


def make_plan(
    priors: Sequence[GroupPrior],
    task: Task,
    epsilon: Number | None,
    *,
    question: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Plan:
    """Design a mechanism for each group and put them into a plan. A group's own budget comes before `epsilon`."""
    groups = []
    for done, each in enumerate(priors):
        level = each.epsilon if each.epsilon is not None else None if epsilon is None else budget(epsilon)
        if level is None:
            raise ValueError(f"Group {each.name!r} needs a budget: give 'epsilon', or a column of that name.")
        found = design(each.prior, task, level, **options)
        notion = "ldp" if options.get("notion") == "ldp" else "lip"
        weight, offset = each.weight, each.offset
        certificate = found.certificate
        groups.append(Group(each.name, each.prior, level, found.mechanism, notion, weight, offset, certificate))  # type: ignore[arg-type]
        if progress is not None:
            progress(done + 1, len(priors))
    return Plan(task, tuple(groups), question)


def expected_rmse(plan: Plan, shares: Sequence[Fraction], respondents: int) -> float:
    """√ of the expected squared error of the estimated total, over that many respondents."""
    weighted = isinstance(plan.task, WeightedSum)
    total = 0.0
    for group, share in zip(plan.groups, shares, strict=True):
        assert group.certificate is not None
        scale = float(group.weight) ** 2 if weighted else 1.0
        total += float(share) * respondents * scale * group.certificate.error
    return math.sqrt(total)


def smallest_budget(
    priors: Sequence[GroupPrior],
    task: Task,
    target_rmse: float,
    respondents: int,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Plan:
    """The plan with the smallest ε, to three decimals, whose expected error is at most the target.

    Raises if even the largest budget misses the target, naming the number of respondents that would not.
    """
    if not target_rmse > 0 or respondents < 1:
        raise ValueError("The target error must be positive, and there must be at least one respondent.")
    if any(each.epsilon is not None for each in priors):
        raise ValueError("The groups state their own budgets, so there is none to find. Drop the 'epsilon' column.")
    shares = [each.share for each in priors]

    def attempt(steps: int) -> tuple[Plan, float]:
        plan = make_plan(priors, task, steps * BUDGET_STEP, **options)
        return plan, expected_rmse(plan, shares, respondents)

    most = int(LARGEST_BUDGET / BUDGET_STEP)
    best, error = attempt(most)
    if error > target_rmse:
        raise ValueError(
            f"A root mean squared error of {target_rmse:g} is out of reach: ε = {float(LARGEST_BUDGET):g} still leaves "
            f"{error:.4g} with {respondents:,} respondents. Accept a larger error."
        )
    low, high = 0, most
    rounds = most.bit_length()
    for step in range(rounds):
        if high - low <= 1:
            break
        middle = (low + high) // 2
        plan, error = attempt(middle)
        low, high, best = (low, middle, plan) if error <= target_rmse else (middle, high, best)
        if progress is not None:
            progress(step + 1, rounds)
    return best


def ldp_comparison(each: GroupPrior, task: Task, epsilon: Fraction) -> Design | None:
    """The best LDP channel under the same prior: what the same budget buys without LIP. None for large domains."""
    if len(each.prior) > COMPARISON_LIMIT and isinstance(task, Histogram):
        return None
    return design(each.prior, task, epsilon, notion="ldp", time_limit=10.0)


def _group(
    path: str | Path, name: str | None, rows: Sequence[dict[str, Any]], named: dict[str, Any], column: str
) -> tuple[dict[str, Any], Fraction]:
    """One group's facts, and its total weight."""
    weights = dict.fromkeys(named.values(), Fraction(0))
    seen: set[str] = set()
    for row in rows:
        if row["value"] in seen:
            raise ValueError(f"{path}, line {row['line']}: this value stands twice in its group.")
        seen.add(row["value"])
        weights[named[row["value"]]] = _number(path, row, column)
    facts: dict[str, Any] = {"name": name, "prior": Prior.of(weights)}
    for key in ("epsilon", "weight", "offset"):
        if key in rows[0]:
            stated = {_number(path, row, key) for row in rows if row[key]}
            if len(stated) > 1:
                raise ValueError(f"{path}: group {name!r} states more than one {key}.")
            if stated:
                facts[key] = stated.pop()
    return facts, sum(weights.values(), Fraction(0))


def _number(path: str | Path, row: dict[str, Any], column: str) -> Fraction:
    try:
        number = rational(row[column], column)
    except ValueError:
        raise ValueError(f"{path}, line {row['line']}: '{column}' must be a number. Got {row[column]!r}.") from None
    if number < 0 and column != "offset" and column != "weight":
        raise ValueError(f"{path}, line {row['line']}: '{column}' must not be negative. Got {row[column]!r}.")
    return number
