"""Reports about one person whose answers may depend on each other in any way: the level against linear programs."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from tacit import Channel, Prior
from tacit.designs import optimal_binary
from tacit.mechanism import joint_level
from tacit.mechanism.repeated import Layers, columns_of, largest_ratio
from tacit.prior import Ball


def extreme(heights: list[list[float]], priors: list[Prior], sign: int) -> float:
    """The least (sign 1) or largest (−1) mean of a product over all joint distributions with these marginals."""
    cells = list(product(*(range(len(prior)) for prior in priors)))
    cost = [sign * math.prod(row[x] for row, x in zip(heights, cell, strict=True)) for cell in cells]
    shares = [(t, x, share) for t, prior in enumerate(priors) for x, share in enumerate(prior.probabilities)]
    rows = [[float(cell[t] == x) for cell in cells] for t, x, _ in shares]
    found = linprog(cost, A_eq=rows, b_eq=[share for *_, share in shares])
    assert found.status == 0
    return float(sign * found.fun)


def by_programs(channels: list[Channel]) -> tuple[float, float]:
    """How far reports raise and lower beliefs at most, over all dependences, by a linear program for each sequence."""
    raised = lowered = 0.0
    for reports in product(*(range(channel.n_possible_reports) for channel in channels)):
        sent = zip(channels, reports, strict=True)
        columns = [(channel.matrix[:, y] / channel.matrix[:, y].max()).tolist() for channel, y in sent]
        priors = [channel.prior for channel in channels]
        raised = max(raised, math.prod(map(max, columns)) / extreme(columns, priors, 1))
        lowered = max(lowered, extreme(columns, priors, -1) / math.prod(map(min, columns)))
    return raised, lowered


@pytest.mark.parametrize("seed", range(6))
def test_no_dependence_reaches_more_and_lowered_beliefs_are_exact(seed):
    rng = np.random.default_rng(seed)
    channels = []
    for _ in range(2 + seed % 2):
        size = int(rng.integers(2, 4))
        rows = [[int(a), int(b), 32 - int(a) - int(b)] for a, b in rng.integers(1, 15, (size, 2))]
        channels.append(Channel.from_weights(Prior(range(size), rng.integers(1, 20, size).tolist()), rows))
    found = float(largest_ratio([columns_of(channel) for channel in channels]))
    raised, lowered = by_programs(channels)
    assert found >= max(raised, lowered) * (1 - 1e-9)
    assert found <= max(raised * 1.3, lowered) * (1 + 1e-9)


def test_rare_answers_are_exact_and_the_same_answer_need_not_be_the_worst():
    once = optimal_binary(Prior.of({"yes": 0.1, "no": 0.9}), 1)
    found = float(largest_ratio([columns_of(once)] * 4))
    assert found == pytest.approx(max(by_programs([once] * 4)))
    assert found > 1.01 * math.exp(joint_level([once] * 4).lip.epsilon)
    coin = optimal_binary(Prior.uniform(2), 1)
    assert largest_ratio([columns_of(coin)] * 3) == joint_level([coin] * 3).lip.ratio


def test_under_a_set_of_priors_the_worst_of_them_counts():
    prior = Prior.of({"yes": 0.2, "no": 0.8})
    once = optimal_binary(prior, 1)
    found = largest_ratio([columns_of(once, Ball(prior, "0.05"))] * 2)
    worst = max(
        largest_ratio([columns_of(once.under(Prior.of({"yes": a, "no": 1 - a}))),
                       columns_of(once.under(Prior.of({"yes": b, "no": 1 - b})))])
        for a in map(Fraction, ("0.15", "0.2", "0.25")) for b in map(Fraction, ("0.15", "0.2", "0.25"))
    )  # fmt: skip
    assert found == worst > largest_ratio([columns_of(once)] * 2)


class Words:
    """Words from a list."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def integer(self, bits: int) -> int:
        return self.left.pop(0)


def test_a_stored_report_is_sent_in_exactly_so_many_of_4096_waves():
    stored = Channel.from_weights(Prior.uniform(["yes", "no"]), [[3, 1], [1, 3]])
    layers = Layers(Fraction(2), stored, 1000, (1, 3))
    sent = [layers.send_one(0, Words(word << 4 | 15, 3 << 30)) for word in range(4096)]
    assert sent == [0] * 1000 + [1] * 3096
    # A word of 32 bits for the other report, of which one in four is the first.
    assert [layers.send_one(1, Words(65535, word)) for word in (0, (1 << 30) - 1, 1 << 30)] == [0, 0, 1]
