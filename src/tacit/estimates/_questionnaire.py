"""Several questions: the estimate of each, and tables of two.

A block of questions is asked of a random part of the respondents, so its reports are a sample of all reports: shares
and means of the block estimate those of everybody, with the sampling error, and totals are scaled up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tacit.estimates._cells import Cell, cells_of, read_for
from tacit.estimates._estimate import estimate, estimators
from tacit.estimates._rows import Estimate, Estimator, Row, fieller, row_dict, student
from tacit.exact import Floats
from tacit.mechanism import NotEstimableError
from tacit.plan import Plan, Question
from tacit.tally import Tally


def estimate_questions(
    plan: Plan,
    reports: Tally | Sequence[Cell],
    *,
    questions: Sequence[str] | None = None,
    by: str | None = None,
    **options: Any,
) -> dict[str, Estimate]:
    """The estimate of every private question, or of the named `questions`, by name.

    Args:
        plan: the plan of the reports.
        reports: a tally, or reports in cells by public columns.
        questions: names of the questions to estimate.
        by: a margin whose categories are estimated as well, as in `estimate`.
        options: those of `estimate`. Intervals are about the population, since each block is asked of a part of the
            participants; with a single block they may be about the participants.

    Totals are those of all respondents: `n_reports` says how many reports the estimate rests on.
    """
    if len(plan.blocks) > 1 and options.get("scope") == "participants":
        raise ValueError(
            "Each block of questions is asked of some of the participants, by chance. Their reports estimate the "
            "others' answers as they estimate a population's: leave the scope out."
        )
    cells = cells_of(plan, reports) if isinstance(reports, Tally) else list(reports)
    found = {}
    for question in plan.private if questions is None else map(plan.question_of, questions):
        view = plan.asking(question.name)
        if cells and not read_for(cells, view):
            if questions is not None:
                raise ValueError(f"There are no reports on the block of the question {question.name!r} yet.")
            continue
        found[question.name] = _of_everybody(view, cells, by, options)
    return found


def _of_everybody(view: Plan, cells: Sequence[Cell], by: str | None, options: dict[str, Any]) -> Estimate:
    """The estimate of the block's respondents, with totals scaled to all respondents."""
    mine = read_for(cells, view)
    result = estimate(view, mine, by=by, **options)
    if options.get("population") or options.get("population_size"):
        return result
    whole = _scaled(result, sum(cell.weight for cell in cells))
    if by is None:
        return whole
    sizes: dict[str, float] = {}
    for cell in cells:
        sizes[cell.labels[by]] = sizes.get(cell.labels[by], 0.0) + cell.weight
    return replace(whole, parts={name: _scaled(part, sizes[name]) for name, part in result.parts.items()})


def _scaled(result: Estimate, size: float) -> Estimate:
    """The same shares and means, with totals for `size` people."""
    factor = size / result.total_weight if result.total_weight else 1.0
    columns = {name: each if name == "prior_share" else each * factor for name, each in result.columns.items()}

    def moves() -> tuple[float, float]:
        changed, added = result.moves()
        return factor * changed, factor * added

    return replace(result, total_weight=size, columns=columns, moves=moves)


# -- one of several, for services -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QuestionView:
    """One question of a plan, read on its own.

    Totals are those of the people whose reports are about the question: `n_reports` of them.
    """

    whole: Plan
    question: Question

    @cached_property
    def plan(self) -> Plan:
        """The plan of the question's block, read for the question."""
        return self.whole.asking(self.question.name)

    @cached_property
    def block(self) -> int:
        """The place of the question's block."""
        return [each.hash for each in self.whole.block_plans].index(self.plan.hash)

    @property
    def counts_people(self) -> bool:
        """Whether every row counts people."""
        return self.plan.task.counts_people and self.question.task != "mean"

    @cached_property
    def estimators(self) -> list[Estimator]:
        """The estimators that its reports allow, the preferred one first."""
        return estimators(self.plan)

    def tally(self, whole: Tally) -> Tally:
        """Those reports of a whole tally that are about this question, by group."""
        places = zip(self.whole.groups, self.whole.places, strict=True)
        mine = {
            name: whole.groups[group.name]
            for group, (block, name) in places
            if block == self.block and group.name in whole.groups
        }
        return Tally(self.plan.hash, mine, whole.refused)

    def estimate(self, whole: Tally, estimator: Estimator | None, level: float, **options: Any) -> Estimate | None:
        """The estimate from a whole tally, with the options of `estimate`; None while no report is about it."""
        mine = self.tally(whole)
        return estimate(self.plan, mine, estimator, level, **options) if mine.n_reports else None


def views_of(plan: Plan) -> tuple[QuestionView, ...]:
    """One view for each question of a `plan` whose answers are reported, in order.

    >>> from tacit import make_plan
    >>> len(views_of(make_plan({"yes": 0.2, "no": 0.8}, "histogram", epsilon=1)))
    1
    """
    return tuple(QuestionView(plan, question) for question in plan.private)


# -- two questions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Association:
    """How two answers are related: an odds ratio (two questions of two answers) or a correlation (two numbers).

    NaN where the reports do not tell.
    """

    kind: str
    estimate: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Crosstab:
    """The table of two questions: a row for each pair of answers, how they are related, a test of independence.

    `p_value` is that of the hypothesis that the two answers are independent; NaN where the reports cannot tell.
    """

    first: Question
    second: Question
    estimate: Estimate
    statistic: float
    degrees: int
    p_value: float
    association: Association | None

    @cached_property
    def rows(self) -> list[tuple[Any, Any, Row]]:
        """The answer to the first question, the answer to the second, and the estimate."""
        pairs = [(one, two) for one in self.first.answers for two in self.second.answers]
        return [(one, two, row) for (one, two), row in zip(pairs, self.estimate.rows, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """For JSON: a row has the answers by the names of the questions, then the numbers of any estimate."""
        told = None if self.association is None else vars(self.association)
        return {
            "n_reports": self.estimate.n_reports,
            "level": self.estimate.level,
            "rows": [{self.first.name: one, self.second.name: two} | self._numbers(row) for one, two, row in self.rows],
            "independence": {"statistic": self.statistic, "degrees": self.degrees, "p_value": self.p_value},
            "association": told,
        }

    def _numbers(self, row: Row) -> dict[str, Any]:
        numbers = row_dict(row, self.estimate.per_respondent(row))
        return {name: number for name, number in numbers.items() if name != "value"}


def crosstab(
    plan: Plan,
    reports: Tally | Sequence[Cell],
    first: str,
    second: str,
    *,
    level: float = 0.95,
    simultaneous: bool | None = None,
) -> Crosstab:
    """The table of two questions of one block, without bias for any prior about how they are related.

    The test of independence is the score test of all p_ab − p_a p_b = 0: chi-square, with the covariance that the
    reports have if the answers are independent and the margins as estimated. That of the reports themselves rejects far
    too often where answers are rare. It gives the intervals of the odds ratio and of the correlation, by Fieller's
    method; the lower end of an odds ratio is that of its logarithm by the delta method, if that is lower, and a
    correlation has all that Fisher's z allows, too.

    Args:
        plan: the plan.
        reports: a tally, or reports in cells.
        first: the name of a question, or of the rows.
        second: the name of another one, or of the columns.
        level: the level of the intervals.
        simultaneous: intervals that hold for all cells at once.

    Raises:
        NotEstimableError: the reports do not determine the table, which the plan did not name as wanted.
    """
    if first == second:
        raise ValueError("A table needs two different questions.")
    block = plan.block_of(first, second)
    view = plan.read_block(block, block.cross(first, second))
    cells = cells_of(plan, reports) if isinstance(reports, Tally) else list(reports)
    one, two = plan.question_of(first), plan.question_of(second)
    try:
        result = _of_everybody(
            view,
            cells,
            None,
            {"estimator": "unbiased", "level": level, "simultaneous": simultaneous},
        )
    except NotEstimableError as error:
        raise NotEstimableError(
            f"The reports do not determine the table of {first} and {second}: the plan was not made for it. A plan "
            f"with --cross {first},{second} is."
        ) from error
    share, covariance, n = moments(read_for(cells, view), view)
    shape = len(one.answers), len(two.answers)
    independent = _covariance_if_independent(read_for(cells, view), view, share.reshape(shape))
    independent = covariance if independent is None else independent
    statistic, degrees, p_value = _independence(share.reshape(shape), independent)
    return Crosstab(
        first=one, second=two, estimate=result, statistic=statistic, degrees=degrees, p_value=p_value,
        association=_association(one, two, share.reshape(shape), covariance, independent, level, n),
    )  # fmt: skip


def moments(cells: Sequence[Cell], plan: Plan) -> tuple[Floats, Floats, int]:
    """Shares (or means) of all rows of a `plan`, their covariance matrix, and the number of reports in the `cells`.

    >>> from tacit import Tally, make_plan
    >>> plan = make_plan({"yes": 0.2, "no": 0.8}, "histogram", epsilon=1)
    >>> mean, covariance, n = moments(cells_of(plan, Tally.of(plan, [0] * 300 + [1] * 700)), plan)
    >>> covariance.shape, n
    ((2, 2), 1000)
    """
    total, weight = np.zeros(len(plan.row_values)), 0.0
    parts = []
    for cell in cells:
        counts = cell.kept.counted()
        values = cell.group.mechanism.pseudo_values(plan.task, counts.reports)
        often, squares, _ = counts.weighted()
        parts.append((values, squares))
        total, weight = total + often @ values, weight + float(often.sum())
    mean = total / weight
    spread = sum((squares[:, None] * (values - mean)).T @ (values - mean) for values, squares in parts)
    n = sum(cell.n_reports for cell in cells)
    return mean, np.asarray(spread) / weight**2 * n / max(n - 1, 1), n


def _independence(share: Floats, covariance: Floats) -> tuple[float, int, float]:
    """The statistic, its degrees of freedom and the p-value.

    A product of two estimates is too large by their covariance, and its variance has a second order, as in
    `_odds_ratio`.
    """
    from scipy.special import chdtrc

    rows, columns = share.shape
    k = (rows - 1) * (columns - 1)
    by_row, by_column = (_possible(share.sum(axis=axis)) for axis in (1, 0))
    margins = [np.kron(np.eye(rows), np.ones(columns)), np.kron(np.ones(rows), np.eye(columns))]
    a, b, both = (one @ covariance @ two.T for one, two in ((margins[0],) * 2, (margins[1],) * 2, margins))
    gradient = np.eye(rows * columns) - np.kron(np.eye(rows), np.outer(by_column, np.ones(columns)))
    gradient -= np.kron(np.outer(by_row, np.ones(rows)), np.eye(columns))
    spread = gradient @ covariance @ gradient.T + np.kron(a, b)
    spread += np.einsum("ad,cb->abcd", both, both).reshape(spread.shape)
    away = (share - np.outer(share.sum(axis=1), share.sum(axis=0)) + both)[:-1, :-1].ravel()
    kept = np.arange(rows * columns).reshape(rows, columns)[:-1, :-1].ravel()
    values, directions = np.linalg.eigh(spread[np.ix_(kept, kept)])
    seen = values > 1e-9 * values.max(initial=0.0)
    if not seen.any():
        return math.nan, k, math.nan
    statistic, degrees = float(((directions.T @ away)[seen] ** 2 / values[seen]).sum()), int(seen.sum())
    return statistic, degrees, float(chdtrc(degrees, statistic))


def _possible(shares: Floats) -> Floats:
    """Estimated shares, moved into what is possible."""
    inside = np.maximum(shares, 0.0)
    return inside / inside.sum()


def _covariance_if_independent(cells: Sequence[Cell], view: Plan, estimated: Floats) -> Floats | None:
    """The covariance of the estimated shares of all rows if the answers are independent, with these margins; None where
    a mechanism has no table. Other questions of the block are taken to depend on the two as the prior says.
    """
    share = np.outer(*(_possible(estimated.sum(axis=axis)) for axis in (1, 0))).ravel()
    total, weight = np.zeros((len(share), len(share))), 0.0
    for cell in cells:
        table = cell.group.mechanism.table()
        if table is None:
            return None
        held, prior = view.task.g(cell.group.prior), np.asarray(cell.group.prior.probabilities)
        people = prior * (held @ (share / np.maximum(prior @ held, 1e-300)))
        chance = people / people.sum() @ (table.matrix / table.matrix.sum(axis=1, keepdims=True))
        values = cell.group.mechanism.pseudo_values(view.task, np.arange(len(chance)))
        values = values - chance @ values
        often, squares, _ = cell.kept.counted().weighted()
        total += float(squares.sum()) * (values * chance[:, None]).T @ values
        weight += float(often.sum())
    return total / weight**2


def _association(
    one: Question, two: Question, share: Floats, covariance: Floats, independent: Floats, level: float, n: int
) -> Association | None:
    """An odds ratio for a table of four cells, a correlation for numbers; None for other tables."""
    z = student(level, max(n - 1.0, 1.0))
    if share.shape == (2, 2):
        return Association("odds ratio", *_odds_ratio(share.ravel(), covariance, z))
    if any(isinstance(answer, str) for answer in (*one.answers, *two.answers)):
        return None
    x, y = (np.array(question.answers, dtype=np.float64) for question in (one, two))
    return Association("correlation", *_correlation(share, covariance, independent, x, y, z))


def _odds_ratio(p: Floats, covariance: Floats, z: float) -> tuple[float, float, float]:
    """The odds ratio A/B of the cells p, A = p₁p₄ and B = p₂p₃, and its interval by Fieller.

    A product of two estimates is too large by their covariance, which is subtracted. Its variance has a second
    order, which counts near 0: Var(p₂p₃) ≈ p₃²c₂₂ + 2p₂p₃c₂₃ + p₂²c₃₃ + c₂₂c₃₃ + c₂₃².
    """
    c = covariance
    a, b = p[0] * p[3] - c[0, 3], p[1] * p[2] - c[1, 2]
    slopes = np.array([[p[3], 0, 0, p[0]], [0, p[2], p[1], 0]])
    variances = slopes @ c @ slopes.T
    variances += [
        [c[0, 0] * c[3, 3] + c[0, 3] ** 2, c[0, 1] * c[3, 2] + c[0, 2] * c[3, 1]],
        [c[0, 1] * c[3, 2] + c[0, 2] * c[3, 1], c[1, 1] * c[2, 2] + c[1, 2] ** 2],
    ]
    low, high = fieller(a, b, (variances[0, 0], variances[1, 1], variances[0, 1]), z, 0.0, math.inf)
    if not (p > 0).all():
        return math.nan, low, high
    # The variance is that of the estimate; near 0 the logarithm judges the lower end by a larger one.
    sign = np.array([1.0, -1.0, -1.0, 1.0])
    value, reach = float(sign @ np.log(p)), z * math.sqrt(float(sign / p @ c @ (sign / p)))
    return math.exp(value), min(low, math.exp(max(value - reach, -700.0))), high


def _correlation(
    share: Floats, covariance: Floats, independent: Floats, x: Floats, y: Floats, z: float
) -> tuple[float, float, float]:
    """The correlation, as the ratio of the covariance to the root of both variances, and its interval by Fieller.

    Where answers are rare few reports show too small a variance: 0 belongs to the interval unless the covariance that
    `independent` answers have rejects it.
    """
    dx, dy = (x - share.sum(axis=1) @ x)[:, None], (y - share.sum(axis=0) @ y)[None, :]
    var_x, var_y, cov = (float((share * part).sum()) for part in (dx * dx, dy * dy, dx * dy))
    if not (var_x > 0 and var_y > 0):
        return math.nan, -1.0, 1.0
    scale = math.sqrt(var_x * var_y)
    slopes = np.array([(dx * dy).ravel(), (scale / 2 * (dx * dx / var_x + dy * dy / var_y)).ravel()])
    variances = slopes @ covariance @ slopes.T
    low, high = fieller(cov, scale, (variances[0, 0], variances[1, 1], variances[0, 1]), z, -1.0, 1.0)
    found = min(1.0, max(-1.0, cov / scale))
    if abs(found) < 1:
        # On Fisher's scale, where few reports are closer to normal.
        gradient = np.array([1.0, -found]) / scale / (1 - found**2)
        reach = z * math.sqrt(max(float(gradient @ variances @ gradient), 0.0))
        low, high = min(low, math.tanh(math.atanh(found) - reach)), max(high, math.tanh(math.atanh(found) + reach))
    if cov**2 <= z * z * float(slopes[0] @ independent @ slopes[0]):
        low, high = min(low, 0.0), max(high, 0.0)
    return found, low, high
