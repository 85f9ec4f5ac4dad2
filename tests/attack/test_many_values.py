"""Plans with the mechanism `many-values` against docs/plan.md, read a second time by `attack.many_values`."""

from __future__ import annotations

import hashlib
import json
import math
import random
from fractions import Fraction
from typing import Any

import pytest

from attack.judge import at_most_exp
from attack.many_values import ManyValuesByTheBook
from tacit import Histogram, Plan, PlanError, Prior, Randomizer, make_plan
from tacit.designs import Search

NASTY = {
    "one value of 99.9%": [999 * 299] + [1] * 299,
    "all magnitudes and zeros": [0] + [10 ** (7 * x % 13) for x in range(60)] + [0],
    "half of them nearly impossible": [10**30] * 130 + [1] * 130,
    "nearly equal": [3] * 200 + [2] * 200,
    "two heavy ones": [10**5] * 2 + [1] * 11,
}
RULE = {
    "kind": "many-values", "giants": 0, "cell_bits": 4, "seed_bits": 4, "word_bits": 12, "slots": 5, "first": 3,
    "second": 1, "bins": 0, "heavy": 0, "margin": 0, "rows": [],
}  # fmt: skip


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


class Words:
    """Words from a list."""

    per_thread = False

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def integer(self, bits: int) -> int:
        return self.left.pop(0) % 2**bits


class OwnCells(ManyValuesByTheBook):
    """A wrong reading: whoever stands on a line draws among as many of its cells as they have themselves."""

    def runs(self, order: int) -> list[list[tuple[int, int, int, int]]]:
        found = super().runs(order)
        for x in filter(self.is_light, self.others):
            found[x] = [(found[x][0][0], 0, self.cells[x], self.cells[x])]
        return found


def written(weights: list[int], epsilon: str, radius: str | None = None, **rule: Any) -> dict[str, Any]:
    """A plan as somebody else may write it, with the levels left open."""
    group: dict[str, Any] = {
        "group": None, "epsilon": epsilon, "notion": "lip", "prior": [str(weight) for weight in weights],
        "weight": "1", "offset": "0", "mechanism": {**RULE, "covered": rule["arc"], **rule},
    }  # fmt: skip
    levels = dict.fromkeys(("lip", "lip_upper", "lip_lower", "ldp", "mip"), 99.0)
    if radius:
        group["prior_set"], levels["lip_set"] = {"kind": "ball", "radius": radius}, 99.0
    names = [f"v{x}" for x in range(len(weights))]
    plan: dict[str, Any] = {
        "tacit_plan": 1, "title": None, "notes": [],
        "questions": [{"name": "value", "kind": "one-of", "task": None, "numeric": False, "answers": names}],
        "blocks": [{"questions": ["value"], "chance": 2**16, "task": {"kind": "histogram"}, "groups": [group]}],
    }  # fmt: skip
    text = json.dumps(plan, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    plan["hash"] = hashlib.sha256(text.encode()).hexdigest()
    group.update(levels=levels, certificate=None)
    return plan


def reached(book: ManyValuesByTheBook, radius: Fraction) -> Fraction:
    """The largest factor by which any report moves any belief under any prior of the ball."""
    prior, worst = [Fraction(weight, sum(book.weights)) for weight in book.weights], Fraction(1)
    for order in range(book.orders):
        for column in book.columns(order):
            least, most = worst_means(prior, column, radius)
            worst = max(worst, max(column) / least, most / min(column))
    return worst


@pytest.mark.parametrize("name", NASTY)
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(3, 2)])
def test_reports_are_those_that_the_page_says(name: str, epsilon: Fraction) -> None:
    prior = Prior(range(len(NASTY[name])), NASTY[name])
    plan = make_plan(prior, Histogram(), epsilon=epsilon, search=Search(method="many-values"))
    book, wrong = (kind(plan.to_dict()["blocks"][0]["groups"][0]) for kind in (ManyValuesByTheBook, OwnCells))
    randomizer, rng, differs = Randomizer(plan), random.Random(1), 0
    # Where the prior has zeros, a word for a stand-in comes first; an answer of the support does not use it.
    unused = [rng.getrandbits(64)] if 0 in prior.weights else []
    for _ in range(60):
        x, half = rng.randrange(len(book.weights)), book.seed_bits // 2
        alpha = book.base + rng.choice([-1, 0, book.step - 1, book.step, rng.randrange(book.arc * book.step)])
        beta = rng.choice([0, 2**book.choice_bits - 1, rng.getrandbits(book.choice_bits)])
        words = alpha << half | rng.getrandbits(half), beta << half | rng.getrandbits(half), rng.getrandbits(64)
        assert randomizer.report(0, book.support[x], Words(*unused, *words)) == book.report(x, words)
        differs += wrong.report(x, words) != book.report(x, words)
    assert (differs > 0) == any(map(book.is_light, book.others))


@pytest.mark.parametrize("seed", range(12))
def test_no_plan_is_read_that_promises_less_than_it_reaches(seed: int) -> None:
    rng = random.Random(seed)
    weights = [1] + [rng.choice([1, 2, 3, 5, 10, 50]) for _ in range(rng.randint(1, 6))]
    arc, radius = rng.randint(1, 12), rng.choice([None, "1/100", "1/10"])
    rule = {"arc": arc, "step": 2**10 * 3 // 4 // arc, "light": rng.randint(0, arc)}
    rule["margin"] = rng.choice([0, 2**48, 2**51, 2**52, 2**53 - 1])  # Any of them has to be safe.
    book = ManyValuesByTheBook(written(weights, "50", radius, **rule)["blocks"][0]["groups"][0])
    level = reached(book, Fraction(radius or 0))
    below = Fraction(math.log(level)).limit_denominator(10**6) - Fraction(1, 10**5)
    assert not at_most_exp(level, below)
    assert Plan.from_dict(written(weights, "50", radius, **rule)).hash
    with pytest.raises(PlanError, match="promise"):
        Plan.from_dict(written(weights, str(below), radius, **rule))


#: Tables of 4,096 words for values of 6 and 5 of 16 cells: of each alone, and of both in part.
ALONE = [[1760, 1, 0, 3], [1440, 1, 1, 3], [480, 0, 0, 5], [416, 0, 1, 5]]
BOTH = [[1280, 1, 0, 3], [960, 1, 0, 2, 1, 1], [960, 1, 1, 3], [480, 0, 0, 4, 1, 1], [416, 0, 1, 5]]


@pytest.mark.parametrize("radius", [None, "1/100", "1/10"])
@pytest.mark.parametrize("rows", [ALONE, BOTH])
def test_tables_are_not_read_either_where_they_reach_more_than_promised(rows: list[Any], radius: str | None) -> None:
    weights, rule = (
        [6, 5, 2, 1, 1, 1],
        {"giants": 2, "covered": 5, "arc": 2, "step": 2**9 * 3 // 4, "light": 2, "rows": rows},
    )
    book = ManyValuesByTheBook(written(weights, "50", radius, **rule)["blocks"][0]["groups"][0])
    level = reached(book, Fraction(radius or 0))
    below = Fraction(math.log(level)).limit_denominator(10**6) - Fraction(1, 10**5)
    assert Plan.from_dict(written(weights, "50", radius, **rule)).hash
    with pytest.raises(PlanError, match="promise"):
        Plan.from_dict(written(weights, str(below), radius, **rule))


def test_lines_keep_the_promise_and_own_cells_would_break_it() -> None:
    weights, rule = [1] * 4, {"arc": 6, "step": 129, "light": 5, "slots": 3, "first": 1, "second": 1}
    epsilon = Fraction("1.412")
    plan = written(weights, str(epsilon), **rule)
    assert Plan.from_dict(plan).hash == plan["hash"]
    assert at_most_exp(reached(ManyValuesByTheBook(plan["blocks"][0]["groups"][0]), Fraction(0)), epsilon)
    assert not at_most_exp(reached(OwnCells(plan["blocks"][0]["groups"][0]), Fraction(0)), epsilon)
