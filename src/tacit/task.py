"""What the collector wants to know: a function g of one answer, summed over all respondents.

A task has a matrix g with a row for each value of the domain and a column for each component; the estimate has one row
for each component. A task of your own is a subclass of `Task` that defines `g` and nothing else: a plan stores it as
the `Matrix` that it is. Everything that other modules need to know about a task is a method or a property here, so no
other file checks the class of a task.

For the MMSE estimator E[g|Y] the error of one respondent is

    MSE = E|g(X) − E g|² − Σ_y λ_y |E[g|y] − E g|²  =  prior variance − gain,

and errors of independent respondents add (the paper's Proposition 2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Any, ClassVar, Literal

import numpy as np

from tacit.exact import Floats, Number, exact_ratio, rational
from tacit.prior import Prior, Value, has_unseen

#: Models of a regression on the answer.
Model = Literal["linear", "logistic", "multinomial"]


def _in_shape(g: Callable[[Any, Prior], Any]) -> Callable[[Any, Prior], Floats]:
    @wraps(g)
    def checked(self: Any, prior: Prior) -> Floats:
        found = np.asarray(g(self, prior), dtype=np.float64)
        found = found[:, None] if found.ndim == 1 else found
        if found.ndim != 2 or len(found) != len(prior) or not found.shape[1] or not np.isfinite(found).all():
            raise ValueError(
                f"The task {type(self).__name__} needs a row of finite numbers for each of the {len(prior)} values. "
                f"Got the shape {found.shape}."
            )
        return found

    return checked


class Task(ABC):
    """A total to estimate. Override `g`, and `names` where the components should have names.

    >>> class AtMost(Task):
    ...     def __init__(self, most):
    ...         self.most = most
    ...     def g(self, prior):
    ...         return prior.numbers <= self.most
    >>> AtMost(1).as_planned(Prior.uniform(3))
    Matrix(rows=((Fraction(1, 1),), (Fraction(1, 1),), (Fraction(0, 1),)), names=('total',))
    """

    #: The name of the task in JSON.
    kind: ClassVar[str] = "matrix"
    #: Names of the components, one for each column of g; empty for "total", or for "component 1" and so on.
    names: Sequence[str] = ()
    #: A histogram: there is one row for each value of the domain, and the rows add up to the number of respondents.
    per_value: ClassVar[bool] = False
    #: The answer itself is added up, so values must be numbers, and answers may lie between them.
    adds_numbers: ClassVar[bool] = False
    #: A weight a and an offset b, of a group and of a respondent, are part of what is asked: Σ a·x + b.
    takes_weights: ClassVar[bool] = False
    #: Answers were rounded at random to the values, which adds to every error (`Plan.between`).
    rounded: bool = False
    #: Every row counts people: whole numbers from 0 to the number of respondents.
    counts_people: bool = False
    #: The usual regression model for this answer.
    model: Model = "linear"
    #: The heading of a result where the plan has no question, and the name of all rows together.
    title: str = "Estimated total"
    total_name: str = "total"

    @property
    def wanted(self) -> tuple[Value, ...]:
        """The values that a survey counts; empty for every other task."""
        return ()

    def __init_subclass__(cls) -> None:
        """A `g` may return anything that numpy reads as numbers; callers get floats of shape (values, components)."""
        super().__init_subclass__()
        base = cls.__mro__[1]
        if base is not Task and base.__module__ == __name__ and cls.__module__ != __name__:
            raise TypeError(
                f"A task of your own must be a subclass of Task. A plan would store {cls.__name__} as {base.__name__}."
            )
        if "g" in cls.__dict__:
            cls.g = _in_shape(cls.g)  # type: ignore[assignment, method-assign]

    @abstractmethod
    def g(self, prior: Prior) -> Floats:
        """g(x) for every value x: an array of shape (values, components), or one number for each value.

        It may depend on the values only, not on their probabilities.
        """

    def row_values(self, values: Sequence[Value]) -> list[Value | None]:
        """The label of each row: a value of the domain, the name of a component, or None for a plain total."""
        return list(self.as_planned(Prior.uniform(values)).names)

    def moments(self, prior: Prior) -> tuple[Floats, Floats, Floats]:
        """E g, Var g and max g − min g for each component, if answers have the distribution `prior`.

        The range is over all values of the domain, possible or not.
        """
        g = self.g(prior)
        p = prior.probabilities
        return p @ g, p @ centred(prior, self) ** 2, np.ptp(g, axis=0)

    def widest(self, prior: Prior, most: int) -> list[Task]:
        """Up to `most` rows with the largest variance under `prior`, each as a task of its own."""
        variances = self.moments(prior)[1]
        order = np.argsort(-variances, kind="stable")[:most].tolist()
        return [self] if len(variances) == 1 else [Matrix(self.g(prior)[:, [row]].tolist()) for row in order]

    def g_over(self, distribution: Prior, values: Sequence[Value]) -> Floats:
        """g for each value of a distribution that may list the `values` of a plan in another order."""
        if set(distribution.values) != set(values):
            raise ValueError("The earlier numbers must be about the plan's values, and no others.")
        g = self.g(Prior.uniform(values))
        places = {value: place for place, value in enumerate(values)}
        return g[[places[value] for value in distribution.values]]

    def asks_the_same(self, values: Sequence[Value], other: Task, others: Sequence[Value]) -> bool:
        """Whether the rows of another task, over its values `others`, can be compared with the rows of this one."""
        return self.kind == other.kind and set(self.row_values(values)) == set(other.row_values(others))

    def possible(self, totals: Floats, n_respondents: float) -> Floats:
        """The totals nearest to these that can occur: between 0 and `n_respondents` where rows count people."""
        return np.clip(totals, 0.0, n_respondents) if self.counts_people else totals

    def as_planned(self, prior: Prior) -> Task:
        """The task as a plan holds it: itself if it has JSON of its own, else the `Matrix` of its g."""
        return Matrix(self.g(prior).tolist(), self.names)

    def as_rounded(self) -> Task:
        """The same task where answers were rounded at random to the values."""
        raise ValueError("Only sums take answers between the values.")

    def to_dict(self, prior: Prior) -> dict[str, Any]:
        """For JSON: `kind` and exact numbers. Positions refer to the values of `prior`."""
        planned = self.as_planned(prior)
        return {"kind": self.kind} if planned is self else planned.to_dict(prior)

    @staticmethod
    def of(task: Task | str) -> Task:
        """A `task` by its name: "histogram", "quantiles", "sum" or "weighted-sum"; a task itself is returned.

        A survey has no name of its own: it needs the value that is counted.

        >>> Task.of("histogram"), Task.of(Survey("yes"))
        (Histogram(), Survey(value='yes'))
        """
        if isinstance(task, Task):
            return task
        named = {kind.kind: kind for kind in (Histogram, Quantiles, Sum, WeightedSum)}
        if task == Survey.kind:
            raise ValueError('A survey needs the value that is counted: give Survey("yes") instead of "survey".')
        if task not in named:
            raise ValueError(f"The 'task' must be a Task or one of {', '.join(named)}. Got {task!r} instead.")
        return named[task]()

    @staticmethod
    def from_dict(data: Mapping[str, Any], values: Sequence[Value]) -> Task:
        """The inverse of `to_dict`. A user's own task comes back as a `Matrix`.

        >>> Task.from_dict({"kind": "survey", "values": [1]}, ["no", "yes"])
        Survey(value='yes')
        """
        if data["kind"] not in TASKS:
            raise ValueError(f"The 'kind' of a task must be one of {', '.join(TASKS)}. Got {data['kind']!r} instead.")
        return TASKS[data["kind"]]._read(data, values)

    @classmethod
    def _read(cls, data: Mapping[str, Any], values: Sequence[Value]) -> Task:
        return cls()


@dataclass(frozen=True)
class Survey(Task):
    """How many respondents hold `value`, or any value of a set: g(x) = 1{x = value} or 1{x ∈ set}.

    >>> Survey("yes").g(Prior.of({"yes": 1, "no": 9})).ravel()
    array([1., 0.])
    """

    value: Value | Collection[Value]
    kind: ClassVar[str] = "survey"
    counts_people = True
    model = "logistic"

    @property
    def wanted(self) -> tuple[Value, ...]:
        return (self.value,) if isinstance(self.value, str | int | float) else tuple(dict.fromkeys(self.value))

    def g(self, prior: Prior) -> Floats:
        indicator = np.zeros((len(prior), 1))
        for value in self.wanted:
            indicator[prior.position(value)] = 1.0
        return indicator

    def row_values(self, values: Sequence[Value]) -> list[Value | None]:
        return [self.wanted[0] if len(self.wanted) == 1 else None]

    def g_over(self, distribution: Prior, values: Sequence[Value]) -> Floats:
        return self.g(distribution)

    def asks_the_same(self, values: Sequence[Value], other: Task, others: Sequence[Value]) -> bool:
        return self.kind == other.kind and set(self.wanted) == set(other.wanted)

    def as_planned(self, prior: Prior) -> Task:
        for value in self.wanted:
            prior.position(value)
        return self

    def to_dict(self, prior: Prior) -> dict[str, Any]:
        positions = [prior.position(value) for value in self.wanted]
        # A set has no order of its own.
        return {"kind": self.kind, "values": sorted(positions) if isinstance(self.value, Set) else positions}

    @classmethod
    def _read(cls, data: Mapping[str, Any], values: Sequence[Value]) -> Task:
        positions = data["values"]
        known = all(type(x) is int and 0 <= x < len(values) for x in positions)
        if not known or not positions or len(set(positions)) < len(positions):
            raise ValueError("A survey's values are different positions in the domain, from 0.")
        wanted = tuple(values[x] for x in positions)
        return cls(wanted[0] if len(wanted) == 1 else wanted)


@dataclass(frozen=True)
class Sum(Task):
    """The sum of all answers: g(x) = x.

    >>> Sum().g(Prior.uniform(3)).ravel()
    array([0., 1., 2.])
    """

    rounded: bool = False
    kind: ClassVar[str] = "sum"
    adds_numbers: ClassVar[bool] = True

    def g(self, prior: Prior) -> Floats:
        return prior.numbers[:, None]

    def row_values(self, values: Sequence[Value]) -> list[Value | None]:
        return [None]

    def g_over(self, distribution: Prior, values: Sequence[Value]) -> Floats:
        return self.g(distribution)

    def asks_the_same(self, values: Sequence[Value], other: Task, others: Sequence[Value]) -> bool:
        return other.adds_numbers

    def as_planned(self, prior: Prior) -> Task:
        _ = prior.numbers  # Raises for names.
        return self

    def as_rounded(self) -> Task:
        return replace(self, rounded=True)


@dataclass(frozen=True)
class WeightedSum(Sum):
    """Σ_i a_i X_i + b_i: a and b stand in the plan, for each group, and beside the reports, for each respondent.

    For a mechanism the task is the sum, g(x) = x; a and b are applied to the result.
    """

    kind: ClassVar[str] = "weighted-sum"
    takes_weights: ClassVar[bool] = True


@dataclass(frozen=True)
class Histogram(Task):
    """How many respondents hold each value: g(x) is the unit vector of x.

    >>> Histogram().g(Prior.uniform(2))
    array([[1., 0.],
           [0., 1.]])
    """

    kind: ClassVar[str] = "histogram"
    per_value: ClassVar[bool] = True
    counts_people = True
    model = "multinomial"
    title = "Estimated histogram"
    total_name = "counts together"

    def g(self, prior: Prior) -> Floats:
        return np.eye(len(prior))

    def row_values(self, values: Sequence[Value]) -> list[Value | None]:
        return list(values)

    def moments(self, prior: Prior) -> tuple[Floats, Floats, Floats]:
        p = prior.probabilities
        return p, p * (1.0 - p), np.ones(len(p))

    def widest(self, prior: Prior, most: int) -> list[Task]:
        order = np.argsort(-self.moments(prior)[1], kind="stable")[:most].tolist()
        return [Survey(prior.values[row]) for row in order]

    def possible(self, totals: Floats, n_respondents: float) -> Floats:
        """The nearest counts (Euclidean) that are not negative and add up to the number of respondents.

        >>> Histogram().possible(np.array([5.0, -1.0, 2.0]), 6).tolist()
        [4.5, 0.0, 1.5]
        """
        counts = np.nan_to_num(totals)
        ordered = np.sort(counts)[::-1]
        excess = (np.cumsum(ordered) - n_respondents) / np.arange(1, len(ordered) + 1)
        shift = excess[np.flatnonzero(ordered > excess)[-1]] if len(ordered) else 0.0
        return np.maximum(counts - shift, 0.0)

    def as_planned(self, prior: Prior) -> Task:
        return self


@dataclass(frozen=True)
class Quantiles(Task):
    """How many respondents answer at most t, for every number t of the domain but the largest: g(x)_t = 1{x ≤ t}.

    From these counts every quantile follows (`tacit.estimates.quantiles`). A design for them needs fewer respondents
    than one for the histogram.

    >>> Quantiles().g(Prior.uniform(3))
    array([[1., 1.],
           [0., 1.],
           [0., 0.]])
    """

    kind: ClassVar[str] = "quantiles"
    counts_people = True
    title = "Estimated distribution"
    total_name = "counts together"

    def g(self, prior: Prior) -> Floats:
        numbers = prior.numbers
        return (numbers[:, None] <= np.sort(numbers)[:-1]).astype(np.float64)

    def row_values(self, values: Sequence[Value]) -> list[Value | None]:
        return [f"at most {number}" for number in sorted(values, key=float)[:-1]]

    def possible(self, totals: Floats, n_respondents: float) -> Floats:
        """Counts from 0 to `n_respondents` that do not fall: the nearest (Euclidean)."""
        from scipy.optimize import isotonic_regression

        rising = isotonic_regression(np.nan_to_num(totals)).x
        return np.asarray(np.clip(rising, 0.0, n_respondents), dtype=np.float64)

    def as_planned(self, prior: Prior) -> Task:
        if len(prior.numbers) < 2:  # Raises for names.
            raise ValueError("Quantiles need at least two numbers in the domain.")
        return self


@dataclass(frozen=True)
class Matrix(Task):
    """Any g, as a matrix with a row for each value and a column for each component, which may have names.

    Numbers are kept exactly; a float is read as its shortest decimal.

    >>> Matrix([[1, 0.5], [0, 2]], names=["first", "second"]).g(Prior.uniform(2))
    array([[1. , 0.5],
           [0. , 2. ]])
    >>> Matrix([[1], [0]]) == Matrix(np.array([[1.0], [0.0]]))
    True
    """

    rows: Sequence[Sequence[Number]]
    names: Sequence[str] = ()
    kind: ClassVar[str] = "matrix"

    def __post_init__(self) -> None:
        rows = tuple(tuple(rational(number, "rows") for number in row) for row in self.rows)
        width = len(rows[0]) if rows else 0
        if not width or any(len(row) != width for row in rows):
            raise ValueError("A matrix needs at least one column, and the same number of columns in every row.")
        names = tuple(self.names) or _names(width)
        if len(names) != width or len(set(names)) < width:
            raise ValueError(f"The 'names' must be {width} different names, one for each column. Got {len(names)}.")
        if not all(isinstance(name, str) and name.strip() and not has_unseen(name) for name in names):
            raise ValueError("The 'names' must be texts without control characters or marks of direction.")
        people = all(number in (0, 1) for row in rows for number in row)
        model = "logistic" if width == 1 else "multinomial" if all(sum(row) == 1 for row in rows) else "linear"
        for field, part in (
            ("rows", rows), ("names", names), ("counts_people", people), ("model", model if people else "linear"),
            ("title", "Estimated total" if width == 1 else "Estimated totals"),
            ("total_name", "total" if width == 1 else "totals together"),
        ):  # fmt: skip
            object.__setattr__(self, field, part)

    @cached_property
    def _numbers(self) -> Floats:
        return np.array([[float(number) for number in row] for row in self.rows])

    def g(self, prior: Prior) -> Floats:
        return self._numbers.copy()

    def as_planned(self, prior: Prior) -> Task:
        self.g(prior)
        return self

    def asks_the_same(self, values: Sequence[Value], other: Task, others: Sequence[Value]) -> bool:
        if not isinstance(other, Matrix) or self.names != other.names:
            return False
        return dict(zip(values, self.rows, strict=True)) == dict(zip(others, other.rows, strict=True))

    def row_values(self, values: Sequence[Value]) -> list[Value | None]:
        return list(self.names)

    def to_dict(self, prior: Prior) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "names": list(self.names),
            "rows": [[str(number) for number in row] for row in self.rows],
        }

    @classmethod
    def _read(cls, data: Mapping[str, Any], values: Sequence[Value]) -> Task:
        if len(data["rows"]) != len(values):
            raise ValueError(f"The matrix needs a row for each of the {len(values)} values. Got {len(data['rows'])}.")
        rows = [[exact_ratio(text) for text in row] for row in data["rows"]]
        return cls(rows, data["names"])


#: Every task that a plan can hold, by its name in JSON.
TASKS: dict[str, type[Task]] = {task.kind: task for task in (Survey, Sum, WeightedSum, Histogram, Quantiles, Matrix)}


def prior_variance(prior: Prior, task: Task) -> float:
    """E|g(X) − E g|², g of the `task`: the error per respondent of guessing from the `prior` alone, with no data.

    >>> round(prior_variance(Prior.of({"yes": 0.1, "no": 0.9}), Survey("yes")), 12)
    0.09
    """
    return float(task.moments(prior)[1].sum())


def centred(prior: Prior, task: Task) -> Floats:
    """g(x) − E g under the `prior`, g of the `task`: a row for each value and a column for each component.

    The middle of the range is subtracted first: E g of large numbers close together is not exact.

    >>> centred(Prior.of({"yes": 1, "no": 3}), Survey("yes")).ravel().tolist()
    [0.75, -0.25]
    """
    g = task.g(prior)
    g = g - (g.min(axis=0) / 2 + g.max(axis=0) / 2)
    return g - prior.probabilities @ g


def _names(components: int) -> tuple[str, ...]:
    return ("total",) if components == 1 else tuple(f"component {number + 1}" for number in range(components))
