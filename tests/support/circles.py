"""Circles by brute force: all their reports and words, and the lifts under every prior of a ball."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np

from tacit.mechanism.circle.circle import Circle


def reports_of(circle: Circle) -> list[int]:
    return [report for report in range(circle.orders << circle.cell_bits) if circle.can_send(report)]


def all_words(circle: Circle) -> itertools.product:
    return itertools.product(range(1 << circle.word_bits), repeat=2)


def stated(circle: Circle, value: int) -> Counter[int]:
    """How many pairs of words give each report, as the likelihood says."""
    every = 4**circle.word_bits
    return Counter({report: int(circle.likelihood(value, report) * every) for report in reports_of(circle)})


def random_reports(circle: Circle, n: int, rng: np.random.Generator) -> np.ndarray:
    orders = rng.integers(0, circle.orders, n)
    return orders << circle.cell_bits | rng.integers(0, circle.circle, n)


def simulated(circle: Circle, truth: np.ndarray, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums of coverage of `n` respondents who hold each value as often as `truth` says, and how often that is."""
    counts = np.floor(truth * n).astype(np.int64)
    counts[0] += n - counts.sum()
    words = np.random.default_rng(seed).integers(0, 2**64 - 1, (n, 2), dtype=np.uint64, endpoint=True)
    return circle.fold(circle.draw_many(np.repeat(np.arange(len(truth)), counts), words)), counts


def worst_means(prior: list[Fraction], column: list[int], radius: Fraction) -> tuple[Fraction, Fraction]:
    """The least and the largest mean of a column over the ball: mass moves from one end of the order to the other."""
    means = []
    for sign in (1, -1):
        order = sorted(range(len(column)), key=lambda x: sign * column[x])
        moved, left = list(prior), radius
        for x in reversed(order):
            taken = min(left, moved[x])
            moved[x] -= taken
            moved[order[0]] += taken
            left -= taken
        means.append(sum(p * n for p, n in zip(moved, column, strict=True)))
    return means[0], means[1]


def brute_range(circle: Circle, radius: Fraction) -> tuple[Fraction, Fraction]:
    """The highest and the lowest lift of any report under any prior of the ball."""
    prior = [Fraction(w, sum(circle.weights)) for w in circle.weights]
    highest, lowest = Fraction(0), Fraction(1)
    for report in reports_of(circle):
        column = [circle.word_pairs(x, report) for x in range(len(prior))]
        least, most = worst_means(prior, column, radius)
        highest, lowest = max(highest, max(column) / least), min(lowest, min(column) / most)
    return highest, lowest
