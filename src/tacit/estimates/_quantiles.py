"""Quantiles: the number that a share q of the people does not exceed, with an interval.

The quantile is the least t of the domain with F(t) ≥ q, where F(t) is the share of answers up to t. Its interval holds
every t that the intervals of F do not exclude: t is excluded if F(t) is surely below q (its upper end is), or if F is
surely at least q at the number before t (its lower end is). If t is the true quantile, each of the two happens with
probability α/2 at most, for any distribution: intervals of F for one t at a time are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tacit.estimates._cells import Cell, cells_of, read_for
from tacit.estimates._estimate import estimate
from tacit.estimates._rows import Estimate, check_level
from tacit.plan import AnyPlan, Questionnaire
from tacit.prior import Value
from tacit.tally import Tally
from tacit.task import Quantiles


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
    plan: AnyPlan,
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

    Returns:
        The quantiles, with intervals.

    >>> from tacit import Prior, make_plan
    >>> plan = make_plan(Prior.uniform(5), Quantiles(), epsilon=3)
    >>> (median,) = quantiles(plan, Tally.of(plan, [0] * 500))
    >>> median.low <= median.value <= median.high
    True
    """
    check_level(level)
    if not asked or not all(0 < q < 1 for q in asked):
        raise ValueError("A quantile is asked for with a share between 0 and 1: 0.5 is the median.")
    if isinstance(plan, Questionnaire):
        if question is None:
            raise ValueError("This plan has several questions: say which one the quantiles are of.")
        numbers, view = plan.question(question).answers, plan.block_of(question).cumulative(question)
    else:
        numbers, view = plan.values, plan.reading(Quantiles())
    cells = cells_of(plan, reports) if isinstance(reports, Tally) else list(reports)
    found = estimate(view, read_for(cells, view), "unbiased", level, by=by, simultaneous=False, **options)
    ordered = sorted(numbers, key=float)
    parts: list[tuple[str | None, Estimate]] = [(None, found), *found.parts.items()]
    return [_quantile(part, ordered, q, name) for name, part in parts if part.n_reports for q in asked]


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
