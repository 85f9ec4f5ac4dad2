"""From a file of priors to a plan: design every group, and find the budget that a target error needs."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from tacit.designs import Design, design
from tacit.exact import Number, budget, rational
from tacit.mechanism.auditing import Notion
from tacit.plan.contract import Group, Plan
from tacit.prior import Prior, Value, numbers_if_all
from tacit.task import Histogram, Sum, Survey, Task, WeightedSum

#: The planner finds the smallest budget to this many decimals.
BUDGET_STEP = Fraction(1, 1000)
#: Budgets above this leave nothing to protect; a target that needs more is out of reach.
LARGEST_BUDGET = Fraction(10)
#: The best LDP channel is searched for comparison up to this many values, of a histogram and of any other task.
HISTOGRAM_LIMIT, COMPARISON_LIMIT = 60, 1200
#: One such search takes no longer, and only this many different groups are compared.
COMPARISON_SECONDS, COMPARED_GROUPS = 3.0, 50


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
    rows, column = _rows(path)
    texts = list(dict.fromkeys(row["value"] for row in rows))
    named = dict(zip(texts, numbers_if_all(texts), strict=True))
    by_group: dict[str | None, list[dict[str, Any]]] = {}
    for row in rows:
        by_group.setdefault(row.get("group"), []).append(row)
    groups = [_group(path, name, part, named, column) for name, part in by_group.items()]
    total = sum((weight for _, weight in groups), Fraction(0))
    return [
        GroupPrior(**facts, share=weight / total if column == "count" else Fraction(1, len(groups)))
        for facts, weight in groups
    ]


def make_task(name: str, values: Sequence[str], priors: Sequence[GroupPrior]) -> Task:
    """The task of that name; a survey counts the `values`, written as in the prior file."""
    if name != "survey":
        if values:
            raise ValueError(f"A value goes with the task survey, not with {name}. Leave it out.")
        kinds: dict[str, Task] = {"histogram": Histogram(), "sum": Sum(), "weighted-sum": WeightedSum()}
        return kinds[name]
    if not values:
        raise ValueError("A survey needs a value: which answer is counted? Give it with --value.")
    known = {str(value): value for value in priors[0].prior.values}
    unknown = [value for value in values if value not in known]
    if unknown:
        raise ValueError(f"The value {unknown[0]!r} is not in the prior file. It has: {', '.join(list(known)[:8])}.")
    wanted = tuple(dict.fromkeys(known[value] for value in values))
    return Survey(wanted[0]) if len(wanted) == 1 else Survey(wanted)


def make_plan(
    priors: Sequence[GroupPrior],
    task: Task,
    epsilon: Number | None,
    *,
    question: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Plan:
    """Design a mechanism for each group and put them into a plan. A group's own budget comes before `epsilon`.

    `options` are those of `design`; groups with the same prior and budget share one design.
    """
    known: dict[tuple[Prior, Fraction], Design] = {}
    groups = []
    for done, each in enumerate(priors):
        level = each.epsilon if each.epsilon is not None else None if epsilon is None else budget(epsilon)
        if level is None:
            raise ValueError(f"Group {each.name!r} needs a budget: give 'epsilon', or a column of that name.")
        if (each.prior, level) not in known:
            known[each.prior, level] = searched(each.prior, task, level, **options)
        found = known[each.prior, level]
        notion: Notion = "ldp" if options.get("notion") == "ldp" else "lip"
        groups.append(
            Group(each.name, each.prior, level, found.mechanism, notion, each.weight, each.offset, found.certificate)
        )
        if progress is not None:
            progress(done + 1, len(priors))
    return Plan(task, tuple(groups), question)


def expected_rmse(
    plan: Plan, shares: Sequence[Fraction], respondents: int, field: Literal["error", "prior_variance"] = "error"
) -> float:
    """√ of the expected squared error of the estimated total, over that many respondents.

    The field "prior_variance" gives the error without any report: what guessing from the prior costs.
    """
    if respondents < 1:
        raise ValueError(f"There must be at least one respondent. Got {respondents}.")
    weighted = isinstance(plan.task, WeightedSum)
    total = 0.0
    for group, share in zip(plan.groups, shares, strict=True):
        assert group.certificate is not None
        scale = float(group.weight) ** 2 if weighted else 1.0
        total += float(share) * respondents * scale * float(getattr(group.certificate, field))
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

    The error is that of the estimated total, so it grows with the number of respondents. Raises if even the largest
    budget misses the target.
    """
    if not target_rmse > 0:
        raise ValueError(f"The target error must be positive. Got {target_rmse:g}.")
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


def with_ldp_errors(plan: Plan) -> Plan:
    """The same plan with what the same budget buys under LDP in its certificates: the best LDP channel found.

    Left None for large domains, where the search would take longer than the design it is compared with, for groups that
    promise LDP themselves, and beyond the first so many different groups.
    """
    known: dict[tuple[Prior, Fraction], float | None] = {}
    groups = []
    for group in plan.groups:
        key = group.prior, group.epsilon
        if key not in known and group.notion != "ldp" and len(known) < COMPARED_GROUPS:
            found = ldp_comparison(group.prior, plan.task, group.epsilon)
            known[key] = None if found is None else found.certificate.error
        assert group.certificate is not None
        groups.append(replace(group, certificate=replace(group.certificate, ldp_error=known.get(key))))
    return replace(plan, groups=tuple(groups))


def ldp_comparison(prior: Prior, task: Task, epsilon: Fraction) -> Design | None:
    """The best LDP channel found under the same prior, None for large domains."""
    if len(prior) > (HISTOGRAM_LIMIT if isinstance(task, Histogram) else COMPARISON_LIMIT):
        return None
    return searched(prior, task, epsilon, notion="ldp", time_limit=COMPARISON_SECONDS)


def searched(prior: Prior, task: Task, epsilon: Number, **options: Any) -> Design:
    """`design`, which at a keyboard interrupt returns what it has: here that stops everything."""
    found = design(prior, task, epsilon, **options)
    if found.certificate.status == "interrupted":
        raise KeyboardInterrupt
    return found


def _rows(path: str | Path) -> tuple[list[dict[str, Any]], str]:
    """The rows of a prior file, each with its line number, and the name of the column with the weights."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            columns = reader.fieldnames or []
            column = next((name for name in ("probability", "count") if name in columns), None)
            if "value" not in columns or column is None:
                got = ", ".join(columns) or "an empty file"
                raise ValueError(f"{path}: the header must name 'value' and 'probability' or 'count'. Got {got}.")
            rows = [row | {"line": reader.line_num} for row in reader]
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a CSV file in UTF-8: {error}.") from error
    if not rows:
        raise ValueError(f"{path} has no rows.")
    needed = ("value", column, *(name for name in ("group", "epsilon") if name in columns))
    for row in rows:
        if None in row.values() or None in row:
            raise ValueError(f"{path}, line {row['line']}: expected {len(columns)} cells, one for each column.")
        empty = next((name for name in needed if not row[name]), None)
        if empty is not None:
            raise ValueError(f"{path}, line {row['line']}: '{empty}' must not be empty.")
    return rows, column


def _group(
    path: str | Path, name: str | None, rows: Sequence[dict[str, Any]], named: dict[str, Value], column: str
) -> tuple[dict[str, Any], Fraction]:
    """One group's facts, and its total weight."""
    weights = dict.fromkeys(named.values(), Fraction(0))
    seen: set[Value] = set()
    for row in rows:
        value = named[row["value"]]
        if value in seen:
            raise ValueError(f"{path}, line {row['line']}: this value stands twice in its group.")
        seen.add(value)
        weights[value] = _number(path, row, column)
    if not any(weights.values()):
        raise ValueError(f"{path}, line {rows[0]['line']}: a group needs at least one positive {column}.")
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
    if number < 0 and column not in ("weight", "offset"):
        raise ValueError(f"{path}, line {row['line']}: '{column}' must not be negative. Got {row[column]!r}.")
    return number
