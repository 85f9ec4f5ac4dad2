"""The parts of an estimate, and the rules and intervals that all estimators share.

**The prior check**: do the reports contradict the priors that the mechanisms were designed for? It is valid at any
time: looking after every report raises no more false alarms. The p-value is 1/E, where E is the likelihood of the
reports if the prior is off by an unknown amount, relative to that if it is right. If the prior is right, E has mean 1
at every time and ever exceeds 1/p with probability p at most (Ville). For a chi-square Q with k degrees from N reports,
and a prior that is off by δ² = τ² per report and degree,

    E = (1 + Nτ²)^(−k/2) · exp(Q/2 · Nτ²/(1 + Nτ²)),

averaged over some τ². The likelihood is the normal one, so N must be large enough for a chi-square. A chi-square over
many values hides a change of a single one: there half of the evidence is the mean over single values, each with a
chi-square of one degree. A mean of such E has mean 1 as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from typing import Any, Literal

import numpy as np

from tacit.exact import Floats
from tacit.prior import Value

#: `assisted` uses the prior as far as the reports agree with it, `unbiased` and `mle` do not use it, `mmse` trusts it.
Estimator = Literal["assisted", "unbiased", "mmse", "mle"]
#: The people whom an interval is about: those who took part, or a population, with the sampling error.
Scope = Literal["participants", "population"]
#: With more rows than this only the largest are shown, so intervals hold for all rows at once unless asked otherwise.
MANY_ROWS = 20
#: What a table can be made as: a data frame of that library, or a dict with a list for each column.
Library = Literal["pandas", "polars", "dict"]
#: The probability of a false alarm in a survey whose priors are all right: half of it for all groups together, the
#: other half divided among the groups.
ALARM_LEVEL = 0.01
#: The grid of τ²: how far a prior may be off, in squared standard deviations of one report.
_OFF = np.array([1e-5, 1e-4, 1e-3, 1e-2, 1e-1])


@dataclass(frozen=True, kw_only=True)
class Row:
    """One estimated number: a value's count, or a sum (value None).

    `standard_error` is that of the unbiased estimate where the estimator is `assisted`. `low` and `high` are NaN where
    the reports do not determine the row. `prior` is the number that the prior alone expects, and `prior_share` the
    share of the prior in the estimate, from 0 to 1.
    """

    value: Value | None
    estimate: float
    standard_error: float
    low: float
    high: float
    prior: float = math.nan
    prior_share: float = 0.0

    @property
    def margin(self) -> float:
        """Half the interval."""
        return (self.high - self.low) / 2

    def to_dict(self) -> dict[str, Any]:
        """For JSON: all numbers and the margin, None where there is none."""
        numbers = {name: getattr(self, name) for name in Row.__dataclass_fields__} | {"margin": self.margin}
        return {name: _known(number) for name, number in numbers.items()}

    def divided(self, by: float) -> Row:
        """The row divided by a number: per respondent it is a share of a count, or the mean of a sum."""
        numbers = {name: getattr(self, name) / by for name in ("estimate", "standard_error", "low", "high", "prior")}
        return Row(value=self.value, **numbers, prior_share=self.prior_share)


@dataclass(frozen=True)
class Found:
    """Totals with their intervals, before they become rows; `error` is the standard error."""

    estimate: Floats
    error: Floats
    low: Floats
    high: Floats
    prior_share: Floats
    records_worth: float | None = None

    @classmethod
    def normal(cls, total: Floats, variance: Floats, level: float) -> Found:
        """The normal interval, total ± z·√V."""
        error = np.sqrt(np.maximum(variance, 0.0))
        width = student(level) * error
        return cls(total, error, total - width, total + width, np.zeros(len(total)))

    def columns(self, shown: Floats, prior: Floats) -> dict[str, Floats]:
        """An array for each number of a `Row`: estimates as `shown`, and the totals that the `prior` expects."""
        return {
            "estimate": shown, "standard_error": self.error, "low": self.low, "high": self.high, "prior": prior,
            "prior_share": self.prior_share,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """The result: rows, the check of the prior, and the influence of one forged report.

    `values` are the labels of the rows and `columns` their numbers, an array for each name of a `Row`. `checks` and
    `moves` compute `prior_check` and `influence` on demand, because each takes as long as the rows. `records_worth` is
    the number of records that a group's prior replaces, as the reports show it; None where they do not. `scope` says
    whom the intervals are about, and `design_effect` by which factor unequal weights raise the variance (Kish).
    `parts` has the estimate of each category of the margin `by`.
    """

    n_reports: int
    total_weight: float
    estimator: Estimator
    level: float
    values: Sequence[Value | None]
    columns: Mapping[str, Floats] = field(repr=False)
    checks: Callable[[], tuple[PriorCheck, ...]] = field(repr=False, compare=False)
    moves: Callable[[], tuple[float, float]] = field(repr=False, compare=False)
    projected: bool = False
    simultaneous: bool = False
    records_worth: float | None = None
    scope: Scope = "participants"
    design_effect: float = 1.0
    by: str | None = None
    parts: Mapping[str, Estimate] = field(default_factory=dict, repr=False)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The columns, row by row: made on demand, because thousands take longer than all of an estimate."""
        # One by one, numbers of numpy would take longer still.
        numbers = np.column_stack([*self.columns.values()]).tolist()
        return tuple(
            Row(value=value, **dict(zip(self.columns, each, strict=True)))
            for value, each in zip(self.values, numbers, strict=True)
        )

    @cached_property
    def prior_check(self) -> tuple[PriorCheck, ...]:
        """Do the reports contradict the prior, all together and group by group?"""
        return self.checks()

    @cached_property
    def _moved(self) -> tuple[float, float]:
        return self.moves()

    @property
    def influence(self) -> float:
        """The largest change of a row by one report that is changed to another."""
        return self._moved[0]

    @property
    def influence_added(self) -> float:
        """The largest change of a row by one more report."""
        return self._moved[1]

    @property
    def mean(self) -> Row:
        """The total divided by the weights of the respondents, 1 each where they have none."""
        if len(self.values) != 1 or not self.n_reports:
            raise ValueError("A mean needs a single total and at least one report.")
        return self.per_respondent(self.rows[0])

    @property
    def weighted(self) -> bool:
        """Whether respondents have weights other than 1; those that sum to the number of reports are weights, too."""
        return self.total_weight != self.n_reports or self.design_effect > 1 + 1e-9

    def per_respondent(self, row: Row) -> Row:
        """A share of a count, the mean of a sum: divided by the respondents' weights, 1 each where they have none."""
        return row.divided(self.total_weight or 1.0)

    def to_dict(self) -> dict[str, Any]:
        """For JSON. Shares are of the reports; of a sum they are the mean. With `by` also the parts."""
        head = ("n_reports", "total_weight", "estimator", "level", "scope", "design_effect", "simultaneous")
        tail = ("records_worth", "influence", "influence_added", "projected")
        about_check = ("group", "pooled", "statistic", "degrees", "p_value", "contradicted")
        return {
            **{name: getattr(self, name) for name in head},
            "estimates": self._row_dicts(),
            "prior_check": [{name: getattr(check, name) for name in about_check} for check in self.prior_check],
            **{name: getattr(self, name) for name in tail},
            **({} if self.by is None else {"by": {name: part.to_dict() for name, part in self.parts.items()}}),
        }

    def _row_dicts(self) -> list[dict[str, Any]]:
        return [row_dict(row, self.per_respondent(row)) for row in self.rows]

    def to_frame(self, library: Library = "pandas") -> Any:
        """All rows as a table: the columns of `to_dict()["estimates"]`, and with `by` the parts below each other.

        Args:
            library: "pandas" or "polars" for a data frame of that library, which must be installed; "dict" for a dict
                with a list for each column.

        Raises:
            ImportError: the library is not installed.

        >>> from tacit import Prior, Tally, make_plan
        >>> plan = make_plan(Prior.of({"yes": 0.5, "no": 0.5}), "histogram", epsilon=1)
        >>> from tacit import estimate
        >>> table = estimate(plan, Tally.of(plan, [0, 0, 1])).to_frame("dict")
        >>> table["value"], len(table["estimate"])
        (['yes', 'no'], 2)
        """
        if self.by is None:
            return as_frame(self._row_dicts(), library)
        parts: list[tuple[str | None, Estimate]] = [(None, self), *self.parts.items()]
        rows = [{self.by: name} | row for name, part in parts for row in part._row_dicts()]
        return as_frame(rows, library)

    def __str__(self) -> str:
        if not self.n_reports:
            return "no reports yet"
        shown = list(self.rows)
        if len(shown) > MANY_ROWS:
            shown.sort(key=lambda row: math.inf if math.isnan(row.estimate) else -row.estimate)
        cells: list[Sequence[str]] = [("", "estimate", "low", "high", "share", "low", "high")]
        for row in shown[:MANY_ROWS]:
            each = self.per_respondent(row)
            numbers = (row.estimate, row.low, row.high, each.estimate, each.low, each.high)
            cells.append(("total" if row.value is None else str(row.value), *map(_short, numbers)))
        head = (
            f"{self.n_reports:,} reports, estimator {self.estimator}, {100 * self.level:.4g}% intervals "
            f"about {'the population' if self.scope == 'population' else 'the participants'}"
            f"{', for all rows at once' if self.simultaneous else ''}"
        )
        more = len(self.rows) - MANY_ROWS
        notes = [f"the largest {MANY_ROWS} of {len(self.rows):,} rows; all: to_frame()"] if more > 0 else []
        if self.parts:
            notes.append(f"by {self.by}: {', '.join(self.parts)}; each is in parts")
        return "\n".join([head, *in_columns(cells), *notes])

    def __getstate__(self) -> dict[str, Any]:
        """For pickle, which cannot hold what is computed on demand: it is computed now."""
        return self.__dict__ | {"checks": partial(tuple, self.prior_check), "moves": partial(tuple, self._moved)}


def as_frame(rows: Sequence[Mapping[str, Any]], library: Library = "pandas") -> Any:
    """Rows with the same keys as a table of a library.

    >>> as_frame([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], "dict")
    {'a': [1, 2], 'b': ['x', 'y']}
    """
    columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
    if library == "dict":
        return columns
    if library not in ("pandas", "polars"):
        raise ValueError(f"The 'library' must be pandas, polars or dict. Got {library!r} instead.")
    try:
        return import_module(library).DataFrame(columns)
    except ModuleNotFoundError as error:
        raise ImportError(f'to_frame needs {library}: install it, or take to_frame("dict").') from error


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Cells below each other, the first column to the left, all others to the right.

    >>> in_columns([("", "low"), ("yes", "1.5")])
    ['      low', 'yes   1.5']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    first, *others = widths
    return [
        "  ".join([row[0].ljust(first), *(cell.rjust(width) for cell, width in zip(row[1:], others, strict=True))])
        for row in rows
    ]


def _short(number: float) -> str:
    """Four digits, and all of a large number before the point."""
    if not math.isfinite(number):
        return "–"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def row_dict(row: Row, each: Row) -> dict[str, Any]:
    """The numbers of a `row` for JSON, and the same for `each` respondent; None where there is none.

    >>> row = Row(value="yes", estimate=30.0, standard_error=5.0, low=20.0, high=40.0)
    >>> row_dict(row, row.divided(100))["share"]
    0.3
    """
    shares = {"share": each.estimate, "share_low": each.low, "share_high": each.high, "share_margin": each.margin}
    return row.to_dict() | {name: _known(number) for name, number in shares.items()}


class Compared:
    """What has an interval, of which one asks whether it leaves out zero."""

    low: float
    high: float

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return vars(self) | {"significant": self.significant}


def _known(number: Any) -> Any:
    return None if isinstance(number, float) and math.isnan(number) else number


def check_level(level: float) -> None:
    """Raise `ValueError` unless it is the level of an interval."""
    if not 0 < level < 1:
        raise ValueError(f"The 'level' must lie between 0 and 1. Got {level} instead.")


def chance_of(statistic: float, degrees: float) -> float:
    """The probability that Student's t with these degrees of freedom is at least as far from 0."""
    from scipy.special import stdtr

    return 2 * float(stdtr(degrees, -abs(statistic)))


def student(level: float, degrees: float = math.inf) -> float:
    """Half the width of an interval of this `level` in standard errors, by Student's t; for infinitely many `degrees`
    the normal's.

    >>> round(student(0.95), 2), round(student(0.95, 10), 2)
    (1.96, 2.23)
    """
    from scipy.special import ndtri, stdtrit

    tail = 0.5 + level / 2
    return float(ndtri(tail) if math.isinf(degrees) else stdtrit(degrees, tail))


def fieller(
    a: float,
    b: float,
    variances: tuple[float, float, float],
    z: float,
    least: float = -math.inf,
    most: float = math.inf,
) -> tuple[float, float]:
    """The ratios ψ from `least` to `most` with (a − ψb)² ≤ z² Var(a − ψb), as one interval.

    `variances` are Var a, Var b and Cov(a, b). Where b may be 0, the ψ that are not rejected lie outside of two roots,
    or are all.

    >>> low, high = fieller(2.0, 1.0, (0.01, 0.01, 0.0), 1.96)
    >>> round(low, 2), round(high, 2)
    (1.63, 2.53)
    """
    var_a, var_b, both = variances
    square, middle, rest = b * b - z * z * var_b, a * b - z * z * both, a * a - z * z * var_a
    if square <= 0 and (square == 0 or rest <= 0):
        return least, most
    root = math.sqrt(max(middle * middle - square * rest, 0.0))
    first, second = sorted(((middle - root) / square, (middle + root) / square))
    if square > 0:
        return min(max(first, least), most), min(max(second, least), most)
    low = least if first >= least else min(second, most)
    high = most if second <= most else max(first, least)
    return (low, high) if low <= high else (least, most)


# -- the prior check --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PriorCheck:
    """The distance of the reports from the prior. It costs no privacy, because it uses reports only.

    `group` is None where a plan has no groups, and for the check of all groups together (`pooled`). `degrees` is 0
    where there are too few reports.
    """

    group: str | None
    statistic: float
    degrees: int
    p_value: float
    alarm_level: float = ALARM_LEVEL
    pooled: bool = False

    @property
    def contradicted(self) -> bool:
        return self.p_value < self.alarm_level

    @property
    def whose(self) -> str:
        """The reports in question, in words."""
        if self.pooled:
            return "The reports of all groups together"
        return "The reports" if self.group is None else f"The reports of group {self.group!r}"

    def __str__(self) -> str:
        if not self.degrees:
            return f"{self.whose} are too few to tell whether the prior is right."
        verdict = "contradict the prior" if self.contradicted else "do not contradict the prior"
        p_value = "p > 0.5" if self.p_value > 0.5 else f"p = {self.p_value:.2g}"
        if not self.contradicted and self.p_value < 0.1:
            p_value += f", alarm below {self.alarm_level:.2g}"
        return f"{self.whose} {verdict} ({p_value})."


def check_prior(
    group: str | None, statistic: float, degrees: int, n_reports: float, scores: Floats | Sequence[float] = ()
) -> PriorCheck:
    """The check of one `group` (None for all together): do the reports contradict the prior, with a p-value valid at
    any time?

    `statistic` is a chi-square of `degrees` from `n_reports` if the prior is true; `scores` are squared standardized
    scores of single values, where the mechanism has some.

    >>> check_prior(None, 1.6, 1, 1000).contradicted, check_prior(None, 40.0, 1, 1000).contradicted
    (False, True)
    >>> check_prior(None, 16.0, 16, 1000, [1.0] * 999 + [50.0]).contradicted
    True
    """
    if not degrees:
        return PriorCheck(group=group, statistic=statistic, degrees=0, p_value=1.0)
    evidence = [_log_evidence(statistic, degrees, n_reports)]
    if len(scores):
        evidence.append(_log_evidence(np.asarray(scores, dtype=np.float64)[:, None], 1, n_reports))
    p_value = math.exp(-max(0.0, _log_mean(evidence)))
    return PriorCheck(group=group, statistic=statistic, degrees=degrees, p_value=p_value)


def check_together(checks: Sequence[PriorCheck], n_reports: float, scores: Floats) -> PriorCheck:
    """The check of all groups at once.

    The sum of their statistics finds priors that are off each in its own way; the squared standardized `scores` of the
    totals find a shift that the groups share.
    """
    told = [check for check in checks if check.degrees]
    statistic, degrees = sum(check.statistic for check in told), sum(check.degrees for check in told)
    return replace(check_prior(None, statistic, degrees, n_reports, scores), alarm_level=ALARM_LEVEL / 2, pooled=True)


def _log_evidence(statistic: float | Floats, degrees: int, n_reports: float) -> float:
    """ln E; of a column of statistics, of the mean of their E."""
    off = n_reports * _OFF
    return _log_mean(-degrees / 2 * np.log1p(off) + statistic / 2 * off / (1 + off))


def _log_mean(logs: Floats | Sequence[float]) -> float:
    most = float(np.max(logs))
    return most + math.log(float(np.mean(np.exp(np.asarray(logs) - most))))
