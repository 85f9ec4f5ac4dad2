"""What a device does to an answer: the matrix Q(y|x) in exact integers over one denominator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.prior import Floats, Prior, Value

Integers = NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class Channel:
    """An immutable randomizer: an input x is reported as output y with probability weights[x, y] / denominator.

    The inputs are the prior's values, zero-prior ones included. An output is an index; its label is the value that
    is closest to the truth on average (see `label_outputs`), so that a single report still reads as an answer.

    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> channel = Channel.from_weights(prior, [[3, 1], [1, 3]])
    >>> channel.matrix
    array([[0.75, 0.25],
           [0.25, 0.75]])
    >>> channel.labels
    ('yes', 'no')
    """

    values: tuple[Value, ...]
    weights: Integers
    denominator: int
    labels: tuple[Value, ...]

    @classmethod
    def from_weights(cls, prior: Prior, rows: Any, labels: Sequence[Value] | None = None) -> Channel:
        """From rows of non-negative integers, one row for each value of the prior, all with the same sum."""
        weights = _checked(prior, rows)
        weights.flags.writeable = False
        chosen = label_outputs(prior, weights) if labels is None else tuple(labels)
        if len(chosen) != weights.shape[1]:
            raise ValueError(f"A channel needs one label for each output. Got {len(chosen)} for {weights.shape[1]}.")
        return cls(prior.values, weights, int(weights[0].sum()), chosen)

    @property
    def n_outputs(self) -> int:
        """How many different reports there are."""
        return int(self.weights.shape[1])

    @cached_property
    def matrix(self) -> Floats:
        """Q(y|x) as floats, each correctly rounded."""
        array: Floats = (self.weights / self.denominator).astype(np.float64)
        array.flags.writeable = False
        return array

    def marginal_weights(self, prior: Prior) -> Integers:
        """λ(y) · denominator · prior.total, as exact integers."""
        self.check_prior(prior)
        marginal: Integers = np.array(prior.weights, dtype=object) @ self.weights
        return marginal

    def marginal(self, prior: Prior) -> Floats:
        """λ(y) = Σ P(x) Q(y|x): how often each report is sent."""
        array: Floats = (self.marginal_weights(prior) / (self.denominator * prior.total)).astype(np.float64)
        return array

    def lifts(self, prior: Prior) -> Floats:
        """v_y(x) = Q(y|x)/λ(y) as a float array of shape (outputs, values); 1 where the report is never sent."""
        marginal = self.marginal_weights(prior)
        sent = marginal > 0
        safe = np.where(sent, marginal, 1)
        lifts: Floats = (self.weights * prior.total / safe).astype(np.float64)
        lifts[:, ~sent.astype(bool)] = 1.0
        return lifts.T

    def posterior(self, prior: Prior) -> Floats:
        """Pr(x|y) = P(x) v_y(x), as a float array of shape (outputs, values)."""
        posterior: Floats = self.lifts(prior) * prior.probabilities
        return posterior

    def exact_posterior(self, prior: Prior, output: int) -> tuple[Fraction, ...]:
        """Pr(x | Y = output) for every x, as exact rationals.

        >>> prior = Prior.of({"yes": 0.1, "no": 0.9})
        >>> Channel.from_weights(prior, [[3, 1], [1, 3]]).exact_posterior(prior, 0)
        (Fraction(1, 4), Fraction(3, 4))
        """
        joint = np.array(prior.weights, dtype=object) * self.weights[:, output]
        total = joint.sum()
        if total == 0:
            raise ValueError(f"Output {output} is never sent under this prior, so it has no posterior.")
        return tuple(Fraction(weight, total) for weight in joint)

    def then(self, other: Channel) -> Channel:
        """The product: release through `self`, then release the same value again through `other`.

        Its outputs are pairs (y, y') in row-major order. Use it to audit repeated releases, whose LIP levels do
        not simply add.
        """
        if other.values != self.values:
            raise ValueError("Both channels must have the same inputs.")
        d, first, second = len(self.values), self.n_outputs, other.n_outputs
        joint = (self.weights[:, :, None] * other.weights[:, None, :]).reshape(d, first * second)
        return Channel.from_weights(Prior.uniform(self.values), joint)

    def cascade(self, rows: Any) -> Channel:
        """Post-processing: output y becomes z with probability proportional to the integers rows[y][z].

        It can only lower every privacy level (data processing).
        """
        after = np.array(rows, dtype=object)
        if after.ndim != 2 or after.shape[0] != self.n_outputs:
            raise ValueError(f"Post-processing needs one row for each of the {self.n_outputs} outputs.")
        return Channel.from_weights(Prior.uniform(self.values), self.weights @ after)

    def check_prior(self, prior: Prior) -> None:
        """Raise unless `prior` has this channel's inputs."""
        if prior.values != self.values:
            raise ValueError("The prior must have the channel's inputs, in the same order.")

    def __repr__(self) -> str:
        return f"Channel({len(self.values)} values → {self.n_outputs} reports, denominator {self.denominator})"


def label_outputs(prior: Prior, weights: Integers) -> tuple[Value, ...]:
    """The value that each report should be read as: the paper's MAE criterion (its Eq. 13), decided exactly.

    For numeric values the posterior median, which minimises E|X − label|; for names the most likely value, which
    minimises Pr(X ≠ label). Ties go to the first value. A report that only impossible values send is labelled as
    if the prior were uniform.

    >>> label_outputs(Prior.of({0: 0.9, 1: 0.1}), np.array([[3, 1], [1, 3]], dtype=object))
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


def mean_absolute_error(channel: Channel, prior: Prior) -> float:
    """E|X − label(Y)| for numeric values, Pr(X ≠ label(Y)) for names.

    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> mean_absolute_error(Channel.from_weights(prior, [[3, 1], [1, 3]]), prior)
    0.25
    """
    channel.check_prior(prior)
    joint = prior.probabilities[:, None] * channel.matrix
    if prior.is_numeric:
        labels = np.array(channel.labels, dtype=np.float64)
        distance = np.abs(prior.numbers[:, None] - labels[None, :])
    else:
        positions = np.array([prior.position(label) for label in channel.labels])
        distance = (np.arange(len(prior))[:, None] != positions[None, :]).astype(np.float64)
    return float((joint * distance).sum())


def _checked(prior: Prior, rows: Any) -> Integers:
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
        raise ValueError(f"The weights of a channel must be integers. Row {x}, output {y} is {cell!r}.")
    if integer < 0:
        raise ValueError(f"The weights of a channel must not be negative. Row {x}, output {y} is {cell!r}.")
    return integer
