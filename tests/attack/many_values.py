"""The mechanism `many-values` in a plane, written a second time from docs/plan.md: nothing of the package is used.

A group of a plan is taken as the JSON it is. Everything is integers, in the words of that page.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

#: Where a value lies: the start of a stretch, the first and the last of the value's cells on it, and all its cells.
Run = tuple[int, int, int, int]


class ManyValuesByTheBook:
    """The giants and the circle of a group; values are counted among those of positive prior."""

    def __init__(self, group: dict[str, Any]) -> None:
        stated = group["mechanism"]
        assert stated["kind"] == "many-values"
        assert stated["slots"]
        self.arc, self.step, self.bits = stated["arc"], stated["step"], stated["cell_bits"]
        self.seed_bits, self.light, self.slots = stated["seed_bits"], stated["light"], stated["slots"]
        prior = [int(weight) for weight in group["prior"]]
        self.support = [x for x, weight in enumerate(prior) if weight]
        self.weights = [prior[x] for x in self.support]
        d = len(self.weights)
        self.total = d if 2**self.bits < 2 * d else 2**self.bits
        self.cells = _cells(self.weights, self.total)
        heaviest = sorted(range(d), key=lambda x: (-self.cells[x], x))
        self.named, self.covered = sorted(heaviest[: stated["giants"]]), stated["covered"]
        self.others = [x for x in range(d) if x not in self.named]
        self.circle = sum(self.cells[x] for x in self.others)
        limit = max(self.arc, self.circle // (2 * (math.isqrt(len(self.others) - 1) + 1)))
        self.pieces = {x: -(-self.cells[x] // limit) for x in self.others}
        self.owners = [x for x in self.others for _ in range(self.pieces[x])]
        self.orders = (self.slots**2 - 1) // 2
        self.terms = [0, 1]
        while len(self.terms) < self.orders + len(self.owners):
            self.terms.append((stated["first"] * self.terms[-2] + stated["second"] * self.terms[-1]) % self.slots)
        self.word_bits = stated["word_bits"]
        self.choice_bits = self.word_bits - self.seed_bits // 2
        self.base = 2**self.choice_bits - self.arc * self.step
        self.rows, self.gammas = stated["rows"], 2 ** min(self.word_bits, 52)
        self.arcs = sum(row[1] for row in self.rows) if self.named else 1
        self.of_all = [row[0] for row in self.rows]
        self.of_others = self._shares([row[0] * row[1] for row in self.rows])
        cells = [{row[j]: row[j + 1] for j in range(2, len(row), 2)} for row in self.rows]
        self.of_giants = [
            self._shares([row[0] * of.get(i, 0) for row, of in zip(self.rows, cells, strict=True)])
            for i in range(len(self.named))
        ]

    def _shares(self, parts: list[int]) -> list[int]:
        """How many of all γ the parts get in proportion, those before each rounded up."""
        ends = [-(-sum(parts[:j]) * self.gammas // sum(parts)) for j in range(len(parts) + 1)] if parts else [0]
        return [ends[j + 1] - ends[j] for j in range(len(parts))]

    def is_light(self, x: int) -> bool:
        return bool(self.cells[x] < self.light)

    def runs(self, order: int) -> list[list[Run]]:
        """The stretches of every value under an order."""
        found: list[list[Run]] = [[] for _ in self.weights]
        at = 0
        for slot in range(self.slots):
            here = [j for j in range(len(self.owners)) if self.terms[order + j] == slot]
            line = [self.owners[j] for j in here if self.is_light(self.owners[j])]
            size = sum(self.cells[x] for x in line)
            for x in line:
                found[x] = [(at, 0, size, size)]
            at += size
            for j in here:
                x = self.owners[j]
                if not self.is_light(x):
                    i, n, k = j - self.owners.index(x), self.cells[x], self.pieces[x]
                    first, after = i * n // k, (i + 1) * n // k
                    found[x].append((at, first, after, n))
                    at += after - first
        assert at == self.circle
        return [sorted(each, key=lambda run: run[1]) for each in found]

    def report(self, x: int, words: tuple[int, ...]) -> int:
        """What two or three words make of a value."""
        half = self.seed_bits // 2
        (alpha, high), (beta, low) = (divmod(word, 2**half) for word in words[:2])
        order = (high * 2**half + low) * self.orders >> self.seed_bits
        ignored, row = alpha < self.base, 0
        if self.named:
            gamma = words[2] % self.gammas
            own = self.of_giants[self.named.index(x)] if x in self.named else self.of_others
            counts = self.of_all if ignored else own
            row = next(y for y in range(len(counts)) if gamma < sum(counts[: y + 1]))
        if row >= self.arcs:
            return self.arcs * self.orders * 2**self.bits + row - self.arcs
        before = (row * self.orders + order) * 2**self.bits
        if ignored or x in self.named:
            return before + (beta * self.circle >> self.choice_bits)
        runs = self.runs(order)[x]
        cell = beta * runs[0][3] >> self.choice_bits
        start, first = next((start, first) for start, first, after, _ in runs if first <= cell < after)
        return before + (start + cell - first - (alpha - self.base) // self.step) % self.circle

    def columns(self, order: int) -> Iterator[list[int]]:
        """For every row and position, how many words make each value send it once the order is drawn, up to factors
        that a report has for all values.
        """
        runs, words, every = self.runs(order), 2**self.choice_bits, range(len(self.weights))
        told = words - self.base
        for y in range(len(self.rows) if self.named else 1):
            of_all, of_others = (self.of_all[y], self.of_others[y]) if self.named else (1, 1)
            mine = {giant: self.of_giants[i][y] for i, giant in enumerate(self.named)}
            if y >= self.arcs:
                yield [self.base * of_all + told * mine.get(x, 0) for x in every]
                continue
            for position in range(self.circle):
                b = self._words(position, position + 1, self.circle)
                column = [self.base * b * of_all + told * b * mine.get(x, 0) for x in every]
                for x in self.others:
                    column[x] += self.step * self._covered(runs[x], position) * of_others
                yield column

    def _covered(self, runs: list[Run], position: int) -> int:
        """How many β lead to a cell on the arc."""
        found = 0
        for start, first, after, n in runs:
            for turn in (0, self.circle):
                low = max(start, position - turn) - start + first
                high = min(start + after - first, position + self.arc - turn) - start + first
                found += self._words(low, high, n) if low < high else 0
        return found

    def _words(self, low: int, high: int, n: int) -> int:
        """How many β have low ≤ ⌊β·n/2^W⌋ < high."""
        return -(-(high << self.choice_bits) // n) + ((-low << self.choice_bits) // n)


def _cells(weights: list[int], circle: int) -> list[int]:
    cells, total, room = [0] * len(weights), sum(weights), circle
    while small := [x for x, w in enumerate(weights) if not cells[x] and w * room < total]:
        for x in small:
            cells[x] = 1
        total, room = total - sum(weights[x] for x in small), room - len(small)
    rest = [x for x, n in enumerate(cells) if not n]
    for x in rest:
        cells[x] = weights[x] * room // total
    for x in sorted(rest, key=lambda x: (-(weights[x] * room % total), x))[: circle - sum(cells)]:
        cells[x] += 1
    return cells
