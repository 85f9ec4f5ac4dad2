"""Quantiles: the number that a share q of the people does not exceed, with an interval.

The quantile is the least t of the domain with F(t) ≥ q, where F(t) is the share of answers up to t. Its interval holds
every t that the intervals of F do not exclude: t is excluded if F(t) is surely below q (its upper end is), or if F is
surely at least q at the number before t (its lower end is). If t is the true quantile, each of the two happens with
probability α/2 at most, for any distribution: intervals of F for one t at a time are enough.

Two quantiles of different people are compared by the same test. z(t) says by how many standard errors F contradicts
that t is the quantile. A difference d is excluded if z₁(t + d)² + z₂(t)² exceeds the quantile of χ² with one degree of
freedom for every t (a profile test), so its interval holds as the usual intervals of differences do: for large samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from tacit.estimates._cells import Cell, cells_of, read_for
from tacit.estimates._estimate import estimate
from tacit.estimates._rows import MANY_ROWS, Compared, Estimate, check_level, student
from tacit.exact import Floats
from tacit.plan import Plan
from tacit.prior import Value
from tacit.tally import Tally
from tacit.task import Quantiles

#: Standard errors that exclude a number at every level.
_SURE = 1e6


@dataclass(frozen=True, kw_only=True)
class Quantile:
    """The number that a share `q` of the people does not exceed, of everybody (`part` None) or of one part."""

    q: float
    value: Value
    low: Value
    high: Value
    part: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def quantiles(
    plan: Plan,
    reports: Tally | Sequence[Cell],
    asked: Sequence[float] = (0.5,),
    *,
    question: str | None = None,
    level: float = 0.95,
    by: str | None = None,
    **options: Any,
) -> list[Quantile]:
    """Quantiles of a number, with intervals that hold for every distribution.

    Raises `NotEstimableError` where the reports of a plan do not determine the distribution, as those of a sum.

    Args:
        plan: a plan of the task quantiles, or of a histogram over numbers.
        reports: a tally, or reports in cells by public columns.
        asked: the shares q; 0.5 is the median.
        question: of a plan of several questions, the one that is asked about.
        level: of the intervals.
        by: a margin of whose categories quantiles are given as well.
        options: `scope` and `population` of `estimate`. The prior is not used.

    >>> from tacit import Prior, make_plan
    >>> plan = make_plan(Prior.uniform(5), Quantiles(), epsilon=3)
    >>> (median,) = quantiles(plan, Tally.of(plan, [0] * 500))
    >>> median.low <= median.value <= median.high
    True
    """
    ordered, parts = _distributions(plan, reports, asked, question, level, by, options)
    return [_quantile(part, ordered, q, name) for name, part in parts if part.n_reports for q in asked]


@dataclass(frozen=True, kw_only=True)
class QuantileDifference(Compared):
    """A quantile of one part less that of another, `first` less `second`, with its interval."""

    q: float
    part: str
    other: str
    first: Value
    second: Value
    difference: float
    low: float
    high: float


def quantile_differences(
    plan: Plan,
    now: Tally | Sequence[Cell],
    asked: Sequence[float] = (0.5,),
    *,
    by: str | None = None,
    before: Tally | Sequence[Cell] | None = None,
    before_plan: Plan | None = None,
    question: str | None = None,
    level: float = 0.95,
    names: tuple[str, str] = ("before", "now"),
    **options: Any,
) -> list[QuantileDifference]:
    """Differences of quantiles: of each category and all after it, or with `before` of everybody between two rounds.

    Args:
        plan: a plan of the task quantiles, or of a histogram over numbers.
        now: a tally, or reports in cells by public columns.
        asked: the shares q; 0.5 is the median.
        by: the margin whose categories are compared, if no earlier round is.
        before: an earlier round, of other people.
        before_plan: its plan, if another.
        question: of a plan of several questions, the one that is asked about.
        level: of the intervals. Of more than 20 rows they hold for all at once (Bonferroni).
        names: of the earlier round and of this one.
        options: `scope` and `population` of `estimate`. The prior is not used.

    >>> from tacit import Prior, make_plan
    >>> plan = make_plan({"old": Prior.uniform(3), "young": Prior.uniform(3)}, Quantiles(), epsilon=3)
    >>> tally = Tally.of(plan, [0] * 300 + [2] * 300, ["old"] * 300 + ["young"] * 300)
    >>> (row,) = quantile_differences(plan, tally, by="group")
    >>> (row.part, row.other, row.significant)
    ('old', 'young', True)
    """
    if (by is None) == (before is None):
        raise ValueError("Say what to compare quantiles of: 'by' a public column, or 'before' an earlier round.")
    numbers, parts = _distributions(plan, now, asked, question, level, by, options)
    found = [(name or names[1], part) for name, part in parts if part.n_reports and (name is not None or by is None)]
    if before is not None:
        earlier, past = _distributions(before_plan or plan, before, asked, question, level, None, options)
        if earlier != numbers:
            raise ValueError("Both rounds must have the same numbers as answers.")
        found.append((names[0], past[0][1]))
    pairs = [(*pair, q) for pair in combinations(found, 2) for q in asked]
    if not pairs:
        raise ValueError(f"There is one category of '{by}' only, so nothing to compare it with.")
    reach = student(1 - (1 - level) / (len(pairs) if len(pairs) > MANY_ROWS else 1))
    return [_compared(first, second, numbers, q, reach) for first, second, q in pairs]


def _compared(
    first: tuple[str, Estimate], second: tuple[str, Estimate], numbers: Sequence[Value], q: float, reach: float
) -> QuantileDifference:
    a, b = (_quantile(part, numbers, q, name) for name, part in (first, second))
    against = [_against(part, q) for _, part in (first, second)]
    together = np.add.outer(against[0] ** 2, against[1] ** 2)
    values = np.array([float(number) for number in numbers])
    kept = np.subtract.outer(values, values)[together <= reach**2]
    middle = float(a.value) - float(b.value)
    return QuantileDifference(
        q=q, part=first[0], other=second[0], first=a.value, second=b.value, difference=middle,
        low=float(min(kept.min(initial=middle), middle)), high=float(max(kept.max(initial=middle), middle)),
    )  # fmt: skip


def _against(found: Estimate, q: float) -> Floats:
    """By how many standard errors F contradicts that each number is the quantile; 0 where it does not."""
    n, unit = found.total_weight, student(found.level)
    share, low, high = (np.append(found.columns[name] / n, 1.0) for name in ("estimate", "low", "high"))
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.nan_to_num(np.maximum(q - share, 0.0) / ((high - share) / unit), posinf=_SURE)
        above = np.nan_to_num(np.maximum(share - q, 0.0) / ((share - low) / unit), posinf=_SURE)
    # A number is also excluded where F is at least q at the number before it.
    return np.asarray(np.maximum(below, np.append(0.0, above[:-1])), dtype=np.float64)


def _distributions(
    plan: Plan,
    reports: Tally | Sequence[Cell],
    asked: Sequence[float],
    question: str | None,
    level: float,
    by: str | None,
    options: dict[str, Any],
) -> tuple[list[Value], list[tuple[str | None, Estimate]]]:
    """The numbers in ascending order, and how many people are at most at each but the last: everybody's, the parts'."""
    check_level(level)
    if not asked or not all(0 < q < 1 for q in asked):
        raise ValueError("A quantile is asked for with a share between 0 and 1: 0.5 is the median.")
    asked_of = plan.question_of(question)
    block = plan.block_of(asked_of.name)
    view = plan.read_block(block, block.cumulative(asked_of.name))
    cells = cells_of(plan, reports) if isinstance(reports, Tally) else list(reports)
    found = estimate(view, read_for(cells, view), "unbiased", level, by=by, simultaneous=False, **options)
    return sorted(asked_of.answers, key=float), [(None, found), *found.parts.items()]


def _quantile(found: Estimate, numbers: Sequence[Value], q: float, part: str | None) -> Quantile:
    """The quantile of counts of at most each number but the last."""
    counts, ends = Quantiles().possible(found.columns["estimate"], found.total_weight), found.total_weight
    below = np.append(counts, ends) / ends >= q
    upper = np.append(found.columns["high"], ends) / ends >= q
    lower = np.append(-np.inf, found.columns["low"] / ends) < q
    return Quantile(
        q=q, value=numbers[int(np.argmax(below))], low=numbers[int(np.argmax(upper))],
        high=numbers[len(numbers) - 1 - int(np.argmax(lower[::-1]))], part=part,
    )  # fmt: skip
