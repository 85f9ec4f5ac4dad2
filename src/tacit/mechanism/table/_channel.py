"""The mechanism `table`: the matrix Q(y|x) in exact integers over one denominator, written out.

The rule is the same in every implementation of Tacit, in every language: with A the integer row of the answer x,
over 2^w, and u a uniform integer below 2^w,

    report = the number of reports y with A_x0 + … + A_xy ≤ u.

So report y is sent for exactly A_xy of the 2^w words: the realised probability is the stated one, with no float, no
rejection and no rounding on the way.

The audit is decided on these integers. With w the prior's integers over W and Λ_y = Σ_x w_x A_xy, the lift is the
rational v_y(x) = A_xy·W / Λ_y. The levels are

    LIP upper   ln max v     over values x with w_x > 0 and reports y with Λ_y > 0  (also called PML)
    LIP lower   −ln min v    over the same                                          (also called min-lift)
    LDP         ln max A_xy / A_x'y   over all inputs, for any prior
    MIP         Σ P(x) Q(y|x) ln v_y(x)

A value with zero prior is outside what LIP, PML and MIP can promise; the audit names such values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.exact import BigIntegers, Floats, Integers, exact_integers, float_above
from tacit.mechanism.auditing import Audit, Belief, Level, Notion, SetLevel, set_lift_levels, worse
from tacit.mechanism.kept import Counts, Kept
from tacit.mechanism.protocol import PlainEstimator, Reading, are_below
from tacit.mechanism.table._reading import Information, read_table, scores_of_table, statistic_of_table, told_weights
from tacit.mechanism.table._sampler import TableSampler
from tacit.prior import Prior, PriorSet, Value
from tacit.task import Task, centred


@dataclass(frozen=True, eq=False)
class Channel:
    """An immutable randomizer: an input x is reported as y with probability weights[x, y] / denominator.

    The inputs are the prior's values, zero-prior ones included. A report is an index; its label is the value that
    is closest to the truth on average (see `label_reports`), so that a single report still reads as an answer.

    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> channel = Channel.from_weights(prior, [[3, 1], [1, 3]])
    >>> channel.matrix
    array([[0.75, 0.25],
           [0.25, 0.75]])
    >>> channel.labels
    ('yes', 'no')
    """

    kind: ClassVar[str] = "table"

    prior: Prior
    weights: BigIntegers
    denominator: int
    labels: tuple[Value, ...]

    @classmethod
    def from_weights(cls, prior: Prior, rows: Any, labels: Sequence[Value] | None = None) -> Channel:
        """From rows of non-negative integers, one row for each value of the prior, all with the same sum."""
        weights = _checked(prior, rows)
        weights.flags.writeable = False
        chosen = label_reports(prior, weights) if labels is None else tuple(labels)
        if len(chosen) != weights.shape[1]:
            raise ValueError(f"A channel needs one label for each report. Got {len(chosen)} for {weights.shape[1]}.")
        return cls(prior, weights, int(weights[0].sum()), chosen)

    @classmethod
    def from_matrix(cls, prior: Prior, matrix: Any, *, bits: int = 64) -> Channel:
        """From a matrix of probabilities Q(y|x), rounded to integers over 2^b.

        Nothing is promised about it: `audit` says which levels it really reaches. To make a matrix keep a promise in
        spite of rounding, see `round_channel`.

        Args:
            prior: the values and their probabilities.
            matrix: a row for each value x of the prior, a column for each report y; each row sums to 1.
            bits: b, the length of the words.

        Returns:
            The channel whose rows are the nearest integers over 2^b.

        Raises:
            ValueError: a row does not sum to 1, up to 0.000001, or the matrix has another shape.

        >>> from tacit import audit
        >>> prior = Prior.of({"yes": 0.1, "no": 0.9})
        >>> audit(Channel.from_matrix(prior, np.array([[0.75, 0.25], [0.25, 0.75]]))).ldp.ratio
        Fraction(3, 1)
        """
        rows = [list(row) for row in matrix]
        check_sums(rows)
        return cls.from_weights(prior, to_words(common_rows(prior, rows), bits))

    def under(self, prior: Prior) -> Channel:
        """The same integers and labels bound to another prior of the same values.

        >>> fair, rare = Prior.of({"yes": 0.5, "no": 0.5}), Prior.of({"yes": 0.1, "no": 0.9})
        >>> channel = Channel.from_weights(fair, [[3, 1], [1, 3]])
        >>> str(channel.audit().lip_upper.ratio), str(channel.under(rare).audit().lip_upper.ratio)
        ('3/2', '5/2')
        """
        if prior.values != self.values:
            raise ValueError("The prior must have the channel's inputs, in the same order.")
        return replace(self, prior=prior)

    @property
    def values(self) -> tuple[Value, ...]:
        """The inputs: the prior's values."""
        return self.prior.values

    def table(self) -> Channel:
        return self

    @property
    def is_quick(self) -> bool:
        return True

    @property
    def n_possible_reports(self) -> int:
        return int(self.weights.shape[1])

    @cached_property
    def matrix(self) -> Floats:
        """Q(y|x) as floats, each correctly rounded."""
        array: Floats = (self.weights / self.denominator).astype(np.float64)
        array.flags.writeable = False
        return array

    # -- the promise ---------------------------------------------------------------------------------------------

    def audit(self) -> Audit:
        """Every level under the prior, with witnesses; computed once."""
        return self._audit

    @cached_property
    def _audit(self) -> Audit:
        prior, (above, below) = self.prior, self._lift_levels()
        sent = self.marginal_weights.astype(bool)
        outside = [x for x, weight in enumerate(prior.weights) if not weight]
        # No information at all is exactly zero; floats would say a little more.
        silent = above.ratio == below.ratio == 1
        worst = worse(above, below).value
        assert worst is not None
        return Audit(
            lip_upper=above,
            lip_lower=below,
            ldp=self._ldp_level(),
            mip=0.0 if silent else float_above(self._mutual_information()),
            witness=self.belief(worst),
            outside=tuple(prior.values[x] for x in outside),
            exposed=tuple(prior.values[x] for x in outside if self.weights[x, ~sent].any()),
        )

    def _lift_levels(self) -> tuple[Level, Level]:
        """The upper and the lower side of LIP."""
        prior, marginal = self.prior, self.marginal_weights
        support = list(prior.support)
        inside = self.weights[support]
        most, least = inside.argmax(axis=0), inside.argmin(axis=0)
        sent = [y for y in range(self.n_possible_reports) if marginal[y]]
        highest = max(sent, key=lambda y: Fraction(int(inside[most[y], y]), int(marginal[y])))
        lowest = min(sent, key=lambda y: Fraction(int(inside[least[y], y]), int(marginal[y])))
        upper = Fraction(inside[most[highest], highest] * prior.total, marginal[highest])
        lower = Fraction(inside[least[lowest], lowest] * prior.total, marginal[lowest])
        return (
            Level(upper, prior.values[support[most[highest]]], highest),
            Level(1 / lower if lower else None, prior.values[support[least[lowest]]], lowest),
        )

    def _ldp_level(self) -> Level:
        """The largest ratio of two answers' chances of one report, for any prior."""
        weights = self.weights
        most, least = weights.argmax(axis=0), weights.argmin(axis=0)
        used = [y for y in range(self.n_possible_reports) if weights[most[y], y]]
        for y in used:
            if not weights[least[y], y]:
                return Level(None, self.values[least[y]], y)
        worst = max(used, key=lambda y: Fraction(weights[most[y], y], weights[least[y], y]))
        ratio = Fraction(weights[most[worst], worst], weights[least[worst], worst])
        return Level(ratio, self.values[most[worst]], worst)

    def _mutual_information(self) -> Fraction:
        """An upper bound of Σ P Q ln v, from floats.

        Each probability and lift is a correctly rounded quotient of integers and the sum is exact (`fsum`), so the
        error is at most Σ P Q (|ln v| + 1) · 2⁻⁵⁰, allowing the logarithm four units in its last place.
        """
        prior = self.prior
        joint = np.array(prior.weights, dtype=object)[:, None] * self.weights
        marginal = joint.sum(axis=0)
        positive = joint.astype(bool)
        lifts = ((self.weights * prior.total)[positive] / (np.ones_like(joint) * marginal)[positive]).astype(float)
        shares = (joint[positive] / (prior.total * self.denominator)).astype(float)
        logs = np.log(lifts)
        return Fraction(math.fsum(shares * logs)) + Fraction(math.fsum(shares * (np.abs(logs) + 1))) / 2**50

    def keeps(self, notion: Notion, epsilon: Fraction) -> bool:
        levels = [self._ldp_level()] if notion == "ldp" else self._lift_levels()
        return all(level.holds(epsilon) for level in levels)

    def belief(self, value: Value) -> Belief:
        """The exact range in which a report can put the belief that someone holds `value`."""
        prior, marginal = self.prior, self.marginal_weights
        x = prior.position(value)
        joint = prior.weights[x] * self.weights[x]
        posteriors = [Fraction(mine, sent) for mine, sent in zip(joint, marginal, strict=True) if sent]
        return Belief(prior.values[x], Fraction(prior.weights[x], prior.total), min(posteriors), max(posteriors))

    def set_levels(self, prior_set: PriorSet) -> tuple[SetLevel, SetLevel]:
        """The exact levels for the worst prior of the set, which they name."""
        if prior_set.prior.values != self.values:
            raise ValueError("The set of priors must have the channel's inputs, in the same order.")
        return set_lift_levels(self.weights, prior_set)

    def likelihood(self, value: int, report: int) -> Fraction:
        return Fraction(self.weights[self.prior.support[value], report], self.denominator)

    # -- reports -------------------------------------------------------------------------------------------------

    @classmethod
    def sampler(cls, mechanisms: Sequence[Channel]) -> TableSampler:
        return TableSampler([(channel.weights, channel.denominator) for channel in mechanisms])

    def can_send(self, report: int) -> bool:
        return 0 <= report < self.n_possible_reports

    def can_send_many(self, reports: Integers) -> NDArray[np.bool_]:
        return are_below(reports, self.n_possible_reports)

    @property
    def n_sums(self) -> None:
        return None

    def keep(self, reports: Integers, times: Integers | None = None) -> Counts:
        return Counts.of(reports, times=times)

    # -- what reports tell ---------------------------------------------------------------------------------------

    def gain(self, task: Task) -> float:
        means = (self.lifts - 1.0) * self.prior.probabilities @ centred(self.prior, task)
        return float(self.marginal @ (means**2).sum(axis=1))

    def unbiased_variance(self, task: Task) -> float:
        """tr(gᵀ J⁻¹ g) − |E g|² on the support; ∞ where the reports do not determine g.

        Computed as tr(hᵀ J⁻¹ h) with h = g − E g, which is the same because J⁻¹1 = P, and does not cancel.
        """
        g, information = centred(self.prior, task)[list(self.prior.support)], self.information
        return float(information.quadratic(g).sum()) if information.determines(g) else float("inf")

    @cached_property
    def solved(self) -> dict[tuple[bytes, bool], Floats]:
        """Weights that were solved for once, see `variance_weights`."""
        return {}

    def read(self, estimator: PlainEstimator, task: Task, kept: Kept) -> Reading:
        return read_table(self, estimator, task, *self._sums(kept))

    def _sums(self, kept: Kept) -> Floats:
        """Σ weight, Σ weight² and how often, for every report."""
        dense, counts = np.zeros((3, self.n_possible_reports)), kept.counted()
        dense[:, counts.reports] = *counts.weighted()[:2], counts.counts
        return dense

    def pseudo_values(self, task: Task, reports: Integers, values: Sequence[int] | None = None) -> Floats:
        """t(y) = gᵀJ⁻¹v_y for each report y."""
        return told_weights(self, task)[:, slice(None) if values is None else list(values)][reports]

    def prior_statistic(self, kept: Kept) -> tuple[float, int]:
        return statistic_of_table(self.inside_lifts, self.information, self.marginal, self._sums(kept)[2])

    def prior_scores(self, kept: Kept) -> Floats:
        return scores_of_table(self.inside_lifts, self.marginal, self._sums(kept)[2])

    # -- the contract --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Integers as strings, and labels as positions in the domain."""
        position = {value: x for x, value in enumerate(self.values)}
        return {
            "kind": self.kind,
            "denominator": str(self.denominator),
            "labels": [position[label] for label in self.labels],
            "rows": [[str(cell) for cell in row] for row in self.weights],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], prior: Prior) -> Channel:
        rows = [exact_integers(row) for row in data["rows"]]
        channel = cls.from_weights(prior, rows, [prior.values[x] for x in data["labels"]])
        if str(channel.denominator) != data["denominator"]:
            raise ValueError("The rows of a mechanism must sum to its denominator.")
        if channel.denominator & (channel.denominator - 1):
            raise ValueError("The denominator of a mechanism must be a power of two, so that devices can draw from it.")
        return channel

    # -- the matrix ----------------------------------------------------------------------------------------------

    @cached_property
    def marginal_weights(self) -> BigIntegers:
        """λ(y) · denominator · prior.total, as exact integers."""
        return np.array(self.prior.weights, dtype=object) @ self.weights

    @cached_property
    def marginal(self) -> Floats:
        """λ(y) = Σ P(x) Q(y|x): how often each report is sent; read-only."""
        array: Floats = (self.marginal_weights / (self.denominator * self.prior.total)).astype(np.float64)
        array.setflags(write=False)
        return array

    @cached_property
    def lifts(self) -> Floats:
        """v_y(x) = Q(y|x)/λ(y) as a read-only float array of shape (reports, values); 1 for a report never sent."""
        marginal = self.marginal_weights
        sent = marginal > 0
        safe = np.where(sent, marginal, 1)
        lifts: Floats = (self.weights * self.prior.total / safe).astype(np.float64)
        lifts[:, ~sent.astype(bool)] = 1.0
        lifts.setflags(write=False)
        return lifts.T

    @cached_property
    def inside_lifts(self) -> Floats:
        """The lifts of the values of the support."""
        return self.lifts[:, list(self.prior.support)]

    @cached_property
    def information(self) -> Information:
        """What the reports determine of the values of the support."""
        return Information.of(self.inside_lifts, self.marginal)

    @property
    def posterior(self) -> Floats:
        """Pr(x|y) = P(x) v_y(x), as a float array of shape (reports, values)."""
        return self.lifts * self.prior.probabilities

    def exact_posterior(self, report: int) -> tuple[Fraction, ...]:
        """Pr(x | report) for every x, as exact rationals.

        >>> prior = Prior.of({"yes": 0.1, "no": 0.9})
        >>> Channel.from_weights(prior, [[3, 1], [1, 3]]).exact_posterior(0)
        (Fraction(1, 4), Fraction(3, 4))
        """
        joint = np.array(self.prior.weights, dtype=object) * self.weights[:, report]
        total = joint.sum()
        if total == 0:
            raise ValueError(f"Report {report} is never sent under this prior, so it has no posterior.")
        return tuple(Fraction(weight, total) for weight in joint)

    def then(self, other: Channel) -> Channel:
        """The product: release through `self`, then release the same value again through `other`.

        Its reports are pairs (y, y') in row-major order. Use it to audit repeated releases, whose LIP levels do
        not simply add.
        """
        if other.values != self.values:
            raise ValueError("Both channels must have the same inputs.")
        joint = self.weights[:, :, None] * other.weights[:, None, :]
        return Channel.from_weights(self.prior, joint.reshape(len(self.values), -1))

    def __eq__(self, other: object) -> bool:
        """Whether both have the same prior, integers and labels."""
        if not isinstance(other, Channel) or (self.prior, self.labels) != (other.prior, other.labels):
            return False
        return self.denominator == other.denominator and np.array_equal(self.weights, other.weights)

    def __hash__(self) -> int:
        return hash((self.prior, self.denominator, self.labels))

    def __repr__(self) -> str:
        return f"Channel({len(self.values)} values → {self.n_possible_reports} reports, denominator {self.denominator})"


def label_reports(prior: Prior, weights: BigIntegers) -> tuple[Value, ...]:
    """The value that each report should be read as: the paper's MAE criterion (its Eq. 13), decided exactly.

    For numeric values the posterior median, which minimises E|X − label|; for names the most likely value, which
    minimises Pr(X ≠ label). Ties go to the first value. A report that only impossible values send is labelled as
    if the prior were uniform.

    >>> label_reports(Prior.of({0: 0.9, 1: 0.1}), np.array([[3, 1], [1, 3]], dtype=object))
    (0, 0)
    """
    joint = np.array(prior.weights, dtype=object)[:, None] * weights
    unsent = (joint.sum(axis=0) == 0).astype(bool)
    joint[:, unsent] = weights[:, unsent]
    if not prior.is_numeric:
        return tuple(prior.values[x] for x in np.argmax(joint, axis=0))
    order = np.argsort(prior.numbers, kind="stable")
    half_reached = 2 * np.cumsum(joint[order], axis=0) >= joint.sum(axis=0)
    return tuple(prior.values[order[k]] for k in np.argmax(half_reached.astype(bool), axis=0))


def _checked(prior: Prior, rows: Any) -> BigIntegers:
    """A fresh object array of Python ints; errors name the row or the cell."""
    cells = [[_integer(cell, x, y) for y, cell in enumerate(row)] for x, row in enumerate(rows)]
    if len(cells) != len(prior) or not cells[0]:
        raise ValueError(
            f"A channel needs one non-empty row for each of the prior's {len(prior)} values. Got {len(cells)} rows."
        )
    if len({len(row) for row in cells}) > 1:
        raise ValueError("The rows of a channel must have the same length.")
    weights = np.array(cells, dtype=object)
    sums = weights.sum(axis=1)
    for x, total in enumerate(sums):
        if total <= 0 or total != sums[0]:
            raise ValueError(
                f"The rows of a channel must have one positive sum. Row {x} ({prior.values[x]!r}) sums to {total}, "
                f"row 0 to {sums[0]}."
            )
    return weights


def _integer(cell: Any, x: int, y: int) -> int:
    integer = cell if type(cell) is int else int(cell)
    if integer != cell:
        raise ValueError(f"The weights of a channel must be integers. Row {x}, report {y} is {cell!r}.")
    if integer < 0:
        raise ValueError(f"The weights of a channel must not be negative. Row {x}, report {y} is {cell!r}.")
    return integer


#: Rows are held as integers with this sum before they are rounded to words.
SCALE_BITS = 320
SCALE = 2**SCALE_BITS
#: Rows of probabilities may miss a sum of 1 by this much, as printed ones do.
SUM_TOLERANCE = 1e-6


def check_sums(rows: Sequence[Sequence[Any]]) -> None:
    """Raise unless every row of probabilities sums to 1, up to what floats and printed digits lose.

    >>> check_sums([[0.9, 0.2], [0.1, 0.8]])
    Traceback (most recent call last):
    ValueError: Each row of the matrix must sum to 1. Row 0 sums to 1.1. The columns do: the matrix seems transposed...
    """
    off = next((x for x, row in enumerate(rows) if not abs(sum(row) - 1) <= SUM_TOLERANCE), None)
    if off is None:
        return
    columns = list(zip(*rows, strict=False))
    transposed = bool(columns) and all(abs(sum(column) - 1) <= SUM_TOLERANCE for column in columns)
    hint = (
        "The columns do: the matrix seems transposed, and needs a row for each value."
        if transposed
        else "Divide the rows by their sums, or give integer weights to Channel.from_weights."
    )
    raise ValueError(f"Each row of the matrix must sum to 1. Row {off} sums to {float(sum(rows[off])):g}. {hint}")


def common_rows(prior: Prior, matrix: Any) -> BigIntegers:
    """Rows as integers that sum to about 2^320, the marginal for values outside the support that have no row."""
    rows = list(matrix)
    if len(rows) not in (len(prior), len(prior.support)):
        raise ValueError(f"The matrix needs one row for each of the prior's {len(prior)} values. Got {len(rows)}.")
    if len({len(row) for row in rows}) != 1:
        raise ValueError("The rows of the matrix must have the same length.")
    scaled: BigIntegers = np.array([_integers(row, x) for x, row in enumerate(rows)], dtype=object)
    scaled = scaled * SCALE // scaled.sum(axis=1)[:, None]
    scaled = scaled[:, scaled.sum(axis=0) > 0]
    if len(rows) == len(prior):
        return scaled
    support = list(prior.support)
    filled = np.empty((len(prior), scaled.shape[1]), dtype=object)
    filled[:] = np.array([prior.weights[x] for x in support], dtype=object) @ scaled // prior.total
    filled[support] = scaled
    return filled


def _integers(row: Any, x: int) -> list[int]:
    """One row's cells, exactly, over some denominator of their own."""
    try:
        ratios = [(cell if isinstance(cell, Fraction | int) else float(cell)).as_integer_ratio() for cell in row]
    except (ValueError, OverflowError, TypeError) as error:
        raise ValueError(f"The matrix must hold finite numbers. Row {x} does not ({error}).") from None
    for y, (numerator, denominator) in enumerate(ratios):
        if numerator < 0:
            raise ValueError(f"The matrix must not be negative. Row {x}, output {y} is {numerator / denominator:g}.")
    if not any(numerator for numerator, _ in ratios):
        raise ValueError(f"Each row of the matrix needs a positive sum. Row {x} is zero.")
    scale = math.lcm(*{denominator for _, denominator in ratios})
    return [numerator * (scale // denominator) for numerator, denominator in ratios]


def to_words(rows: BigIntegers, bits: int) -> BigIntegers:
    """Each row rounded to integers that sum to 2^bits, by largest remainder, ties to the first output.

    >>> to_words(np.array([[1, 1, 1]], dtype=object), 4).tolist()
    [[6, 5, 5]]
    """
    sums = rows.sum(axis=1)
    scaled = rows << bits
    words: BigIntegers = scaled // sums[:, None]
    remainders = scaled - words * sums[:, None]
    for x, missing in enumerate(2**bits - words.sum(axis=1)):
        if missing:
            largest = np.argsort(-remainders[x], kind="stable")[:missing]
            words[x, largest] += 1
    return words
