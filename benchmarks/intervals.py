"""How often 95% intervals hold: the least over the cells of a study, exact where enumeration is possible.

    python benchmarks/intervals.py [--quick] [PART …]

A row of the table is a part of the study: its number of cells (plans, numbers of people and truths), the least coverage
and the cell where it is. Exact coverage adds up the probabilities of all reports whose interval has the truth in it;
the rest is simulated: 200 rounds, and 1,000 where less than 96.5% of them hold (one standard error is .7 points). No
interval may lie outside what is possible.
For estimates that use the prior the table also has their error relative to that of the unbiased estimate.
`--quick` takes a part of the cells and rounds: the tests run it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import comb
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import binom, multinomial

from tacit import Histogram, Prior, Randomizer, Sum, Survey, difference, estimate, make_plan
from tacit.estimates import Scope, crosstab, regress
from tacit.personal import PersonalPlan
from tacit.personal.estimates import PersonalTally
from tacit.personal.estimates import estimate as estimate_personal
from tacit.plan import Block, Plan, Question, joint_values
from tacit.randomize import SeededWords
from tacit.tally import Counts, Tally
from tacit.task import Matrix

#: First and all rounds of a simulation; a larger share of the first that holds is enough; count vectors to enumerate.
FIRST, ROUNDS, SURELY, ENUMERATED = 200, 1000, 0.965, 2000
SCOPES: tuple[Scope, ...] = ("population", "participants")
#: Days of bad mental health, 0 to 30, much like BRFSS: most people have none, some have all.
DAYS = Prior.of({day: 60 if day == 0 else 6 if day == 30 else 4 if day % 5 == 0 else 2 for day in range(31)})
FIVE = Prior.of(dict(zip("abcde", (40, 25, 20, 10, 5), strict=True)))


@dataclass(frozen=True)
class Cell:
    """One plan, number of people and truth: the coverage of its worst row, whether every interval is possible, and the
    error relative to the unbiased estimate's where the prior is used.
    """

    name: str
    people: int
    coverage: float
    possible: bool
    error: float | None = None


def matrices_of(plan: Plan) -> list[Any]:
    """Q(y|x) of each group."""
    tables = [group.mechanism.table() for group in plan.groups]
    return [rows_of(table.matrix) for table in tables if table is not None]


def rows_of(matrix: Any) -> Any:
    return matrix / matrix.sum(axis=1, keepdims=True)


def counted(plan: Plan, counts: Iterable[Any]) -> Tally:
    """A tally of how often each report came in each group."""
    kept = {
        g.name: Counts(np.flatnonzero(c), c[c > 0]) for g, c in zip(plan.groups, map(np.asarray, counts), strict=True)
    }
    return Tally(plan.hash, kept)


def yes_no(quick: bool) -> Iterator[Cell]:
    """One group, two answers: all numbers of reports, so exact."""
    people = (1, 2, 5, 20, 100) if quick else (1, 2, 5, 10, 20, 50, 100, 300)
    for epsilon, prior in product(
        (2, 5) if quick else (0.5, 1, 2, 3, 5), (0.01, 0.3) if quick else (0.01, 0.1, 0.3, 0.5)
    ):
        plan = make_plan(Prior.of({"yes": prior, "no": 1 - prior}), Survey("yes"), epsilon=epsilon)
        (matrix,) = matrices_of(plan)
        for n, scope in product(people, SCOPES):
            ks = np.arange(n + 1)
            found = [estimate(plan, counted(plan, [[k, n - k]]), scope=scope).rows[0] for k in ks]
            low, high = np.array([(row.low, row.high) for row in found]).T
            for share in (0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99, 1):
                if scope == "population":
                    truth, chance = share * n, binom.pmf(ks, n, share * matrix[0, 0] + (1 - share) * matrix[1, 0])
                else:
                    truth = round(share * n)
                    yes, no = (
                        binom.pmf(range(m + 1), m, row[0]) for m, row in ((truth, matrix[0]), (n - truth, matrix[1]))
                    )
                    chance = np.convolve(np.asarray(yes), np.asarray(no))
                held = float(chance @ ((low - 1e-9 <= truth) & (truth <= high + 1e-9)))
                inside = bool((low >= 0).all() and (high <= n).all() and (low <= high).all())
                yield Cell(f"ε = {epsilon}, prior {prior:g}, n = {n}, share {share:g}, {scope}", n, held, inside)


class Cases:
    """The intervals of a plan for vectors of report counts, each computed once."""

    def __init__(self, plan: Plan, scope: Scope) -> None:
        self.plan, self.scope, self.matrices = plan, scope, matrices_of(plan)
        self.g = [plan.task.g(group.prior) for group in plan.groups]
        self.known: dict[bytes, Any] = {}

    def ends(self, counts: Any) -> Any:
        """Lower and upper ends, for the counts of all groups in a row."""
        key = counts.tobytes()
        if key not in self.known:
            parts = np.split(counts, np.cumsum([m.shape[1] for m in self.matrices])[:-1])
            result = estimate(self.plan, counted(self.plan, parts), scope=self.scope, simultaneous=False)
            self.known[key] = np.array([(row.low, row.high) for row in result.rows]).T
        return self.known[key]

    def cell(self, name: str, people: Sequence[Any], quick: bool, rng: Any) -> Cell:
        """The plan's rows for these people in each group: fixed numbers for participants, their shares for a
        population. Exact where one group of a population has few count vectors.
        """
        total = sum(np.asarray(p) @ each for p, each in zip(people, self.g, strict=True))
        n, most = int(np.sum(people)), np.max([each.max(axis=0) for each in self.g], axis=0)
        held, weight, inside = np.zeros(len(most)), 0.0, True
        for drawn, often in self._drawn(people, quick, rng):
            for counts, chance in zip(drawn, often, strict=True):
                low, high = self.ends(counts)
                held += chance * ((low - 1e-9 <= total) & (total <= high + 1e-9))
                inside &= bool((low >= -1e-9).all() and (high <= n * most + 1e-9).all())
            weight += float(often.sum())
            if held.min() / weight >= SURELY:
                break
        return Cell(f"{name}, {self.scope}", n, float(held.min() / weight), inside)

    def _drawn(self, people: Sequence[Any], quick: bool, rng: Any) -> Iterator[tuple[Any, Any]]:
        """Count vectors and how often each comes: all with their probabilities, or some rounds and then the others."""
        n, kinds = int(np.sum(people[0])), self.matrices[0].shape[1]
        if self.scope == "population" and len(people) == 1 and comb(n + kinds - 1, kinds - 1) <= ENUMERATED:
            every = np.array(list(_vectors(n, kinds)))
            yield every, multinomial.pmf(every, n, np.asarray(people[0]) / n @ self.matrices[0])
            return
        for rounds in (FIRST // 4,) if quick else (FIRST, ROUNDS - FIRST):
            drawn = []
            for p, m in zip(people, self.matrices, strict=True):
                if self.scope == "population":
                    drawn.append(rng.multinomial(sum(p), np.asarray(p) / sum(p) @ m, size=rounds))
                else:
                    drawn.append(sum(rng.multinomial(k, m[x], size=rounds) for x, k in enumerate(p)))
            yield np.unique(np.hstack(drawn), axis=0, return_counts=True)


def _vectors(n: int, kinds: int) -> Iterator[tuple[int, ...]]:
    """All counts of n reports of this many kinds."""
    if kinds == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in _vectors(n - first, kinds - 1):
            yield first, *rest


def repeated(name: str, people: int, draw: Callable[[], Any], quick: bool) -> Cell:
    """The least coverage of the intervals of which `draw` says whether they hold, in some rounds and then the rest."""
    held: list[Any] = []
    for rounds in (FIRST // 4,) if quick else (FIRST, ROUNDS - FIRST):
        held += [draw() for _ in range(rounds)]
        if np.mean(held, axis=0).min() >= SURELY:
            break
    return Cell(name, people, float(np.mean(held, axis=0).min()), True)


def named(cell: Cell, name: str) -> Cell:
    return Cell(name, cell.people, cell.coverage, cell.possible, cell.error)


def sums(quick: bool) -> Iterator[Cell]:
    """Days of bad health: everybody the same, two camps, and as the prior expects."""
    rng, one = np.random.default_rng(1), np.eye(31, dtype=int)
    for epsilon in (0.5, 2) if quick else (0.5, 1, 2, 3, 5):
        plan = make_plan(DAYS, Sum(), epsilon=epsilon)
        for scope in SCOPES:
            cases = Cases(plan, scope)
            for n in (20,) if quick else (1, 5, 20, 50, 300):
                few = max(1, n // 10)
                held = {f"all {value}": one[value] * n for value in ((0, 30) if quick else (0, 1, 15, 30))}
                held["as expected"] = rng.multinomial(n, DAYS.probabilities)
                if n > 1:
                    held["half 0, half 30"] = one[0] * (n - n // 2) + one[30] * (n // 2)
                    held["nine tenths 0, the rest 30"] = one[0] * (n - few) + one[30] * few
                for name, people in held.items():
                    yield cases.cell(f"ε = {epsilon}, n = {n}, {name}", [people], quick, rng)


def histograms(quick: bool) -> Iterator[Cell]:
    """Five answers, the worst of them."""
    rng = np.random.default_rng(2)
    for epsilon in (2,) if quick else (1, 2, 4):
        plan = make_plan(FIVE, Histogram(), epsilon=epsilon)
        for scope in SCOPES:
            cases = Cases(plan, scope)
            for n in (30,) if quick else (10, 30, 300):
                truths = {"as expected": FIVE.probabilities, "all e": np.eye(5)[4], "even": np.full(5, 0.2)}
                for name, shares in truths.items():
                    people = rng.multinomial(n, shares)
                    yield cases.cell(f"ε = {epsilon}, n = {n}, {name}", [people], quick, rng)


def assisted(quick: bool) -> Iterator[Cell]:
    """Five groups that use their priors, right and wrong: the total, with its error beside that of the unbiased one."""
    rng, rounds, n = np.random.default_rng(3), 100 if quick else 1000, 400
    right = np.array([0.05, 0.1, 0.15, 0.2, 0.3])
    cases = {
        "right": right, "all 3 points up": right + 0.03, "one 15 points up": right + 0.15 * np.eye(5)[2],
        "each on its own": right * [1.5, 0.8, 1.3, 0.8, 1.2], "all even": np.full(5, 0.5),
    }  # fmt: skip
    for epsilon, (name, truth), scope in product((2,) if quick else (1, 2, 4), cases.items(), SCOPES):
        if quick and name not in ("right", "all 3 points up"):
            continue
        priors = {f"g{k}": Prior.of({"yes": p, "no": 1 - p}) for k, p in enumerate(right.tolist())}
        plan = make_plan(priors, Survey("yes"), epsilon=epsilon)
        yield named(_compared(plan, truth, n, scope, rounds, rng), f"ε = {epsilon}, prior {name}, {scope}")


def rare(quick: bool) -> Iterator[Cell]:
    """A prior of 1% in five groups, of which 1 to 50% are true now."""
    rng, rounds = np.random.default_rng(4), 100 if quick else 1000
    plan = make_plan({f"g{k}": Prior.of({"yes": 0.01, "no": 0.99}) for k in range(5)}, Survey("yes"), epsilon=1)
    for share in (0.01, 0.3) if quick else (0.01, 0.03, 0.1, 0.3, 0.5):
        yield named(_compared(plan, np.full(5, share), 3000, "population", rounds, rng), f"prior 1%, now {share:.0%}")


def areas(quick: bool) -> Iterator[Cell]:
    """40 areas of 100 people, prior 20%, areas around 30%: every area by itself; the error is that of a share."""
    rng, rounds = np.random.default_rng(5), 3 if quick else 50
    truth = rng.normal(0.3, 0.03, 40)
    plan = make_plan({f"area {k}": Prior.of({"yes": 0.2, "no": 0.8}) for k in range(40)}, Survey("yes"), epsilon=1)
    matrices = matrices_of(plan)
    held, ours, theirs, inside = [], [], [], True
    for _ in range(rounds):
        counts = [rng.multinomial(100, p * m[0] + (1 - p) * m[1]) for p, m in zip(truth, matrices, strict=True)]
        parts = [
            estimate(plan, counted(plan, counts), name, by="group", simultaneous=False).parts
            for name in ("assisted", "unbiased")
        ]
        rows, free = ([part.rows[0] for part in each.values()] for each in parts)
        held += [row.low <= 100 * p <= row.high for row, p in zip(rows, truth, strict=True)]
        ours += [row.estimate / 100 - p for row, p in zip(rows, truth, strict=True)]
        theirs += [row.estimate / 100 - p for row, p in zip(free, truth, strict=True)]
        inside &= all(0 <= row.low <= row.high <= 100 for row in rows)
    errors = [float(np.sqrt(np.mean(np.square(each)))) for each in (ours, theirs)]
    name = f"error of a share {errors[0]:.3f}, unbiased {errors[1]:.3f}"
    yield Cell(name, 100, float(np.mean(held)), inside, errors[0] / errors[1])


def _compared(plan: Plan, truth: Any, n: int, scope: Scope, rounds: int, rng: Any) -> Cell:
    matrices = matrices_of(plan)
    held, errors, inside = [], [], True
    for _ in range(rounds):
        # Who is in which group is chance as well.
        sizes = rng.multinomial(n * len(truth), np.full(len(truth), 1 / len(truth)))
        yes = rng.binomial(sizes, truth)
        pairs = zip(yes, sizes - yes, matrices, strict=True)
        counts = [rng.multinomial(a, m[0]) + rng.multinomial(b, m[1]) for a, b, m in pairs]
        total = float(yes.sum() if scope == "participants" else n * len(truth) * np.mean(truth))
        row, free = (
            estimate(plan, counted(plan, counts), name, scope=scope).rows[0] for name in ("assisted", "unbiased")
        )
        held.append(row.low <= total <= row.high)
        errors.append((row.estimate - total, free.estimate - total))
        inside &= 0 <= row.low <= row.high <= n * len(truth)
    ours, theirs = np.sqrt(np.mean(np.square(errors), axis=0))
    return Cell("", n, float(np.mean(held)), bool(inside), float(ours / theirs))


def personal(quick: bool) -> Iterator[Cell]:
    """A prior for each person, uniform on 0 to 20%: counts and sums, of the participants and of a population."""
    rng = np.random.default_rng(6)
    for epsilon, n, numbers, scope in product(
        (4,) if quick else (1, 2, 4), (30,) if quick else (3, 10, 30, 300), (False, True), SCOPES
    ):
        task, values = (Sum(), [0, 10]) if numbers else (Survey("yes"), ["no", "yes"])
        plan = PersonalPlan.of(task, values, epsilon, 1000)
        chance = np.array([rows_of(plan.channel([1000 - p, p]).matrix)[:, 1] for p in range(1, 200)])

        def draw(
            plan: Any = plan, chance: Any = chance, n: int = n, size: int = 10 if numbers else 1, scope: Scope = scope
        ) -> list[bool]:
            priors = rng.integers(1, 200, n)
            answers = (rng.random(n) < (0.1 if scope == "population" else priors / 1000)).astype(int)
            sent = rng.random(n) < chance[priors - 1, answers]
            tally = PersonalTally.of(plan, np.stack([1000 - priors, priors], axis=1), sent.astype(int))
            (row,) = estimate_personal(plan, tally, scope=scope).rows
            truth = size * (0.1 * n if scope == "population" else answers.sum())
            return [0 <= row.low <= truth + 1e-9 and truth - 1e-9 <= row.high <= size * n]

        yield repeated(f"ε = {epsilon}, n = {n}, {'a sum' if numbers else 'yes/no'}, {scope}", n, draw, quick)


def changes(quick: bool) -> Iterator[Cell]:
    """The difference of two rounds of yes/no answers: all pairs of numbers of reports, so exact."""
    for epsilon, prior in product((2,) if quick else (1, 2, 4), (0.3,) if quick else (0.05, 0.3)):
        plan = make_plan(Prior.of({"yes": prior, "no": 1 - prior}), Survey("yes"), epsilon=epsilon)
        (matrix,) = matrices_of(plan)
        for n in (5,) if quick else (5, 10, 20):
            rows = [
                difference(plan, counted(plan, [[a, n - a]]), before=counted(plan, [[b, n - b]])).rows[0]
                for a, b in product(range(n + 1), repeat=2)
            ]
            low, high = np.array([(row.low, row.high) for row in rows]).T
            for now, before in product((0, 0.05, 0.3, 0.5, 1), repeat=2):
                first, second = (
                    binom.pmf(range(n + 1), n, p * matrix[0, 0] + (1 - p) * matrix[1, 0]) for p in (now, before)
                )
                inside = (low - 1e-9 <= now - before) & (now - before <= high + 1e-9)
                name = f"ε = {epsilon}, prior {prior:g}, twice n = {n}, {before:g} and then {now:g}"
                yield Cell(
                    name,
                    n,
                    float(np.outer(first, second).ravel() @ inside),
                    bool((low >= -1).all() and (high <= 1).all()),
                )


def rarest(quick: bool) -> Iterator[Cell]:
    """Everybody holds the rarest of 500 values: every row, and all of them at once."""
    prior = Prior.of({f"value {k}": 1_000_000 // k for k in range(1, 501)})
    for epsilon in (4,) if quick else (2, 4):
        plan, n = make_plan(prior, Histogram(), epsilon=epsilon), 2000 if quick else 20_000
        truth, randomizer = np.eye(500)[499] * n, Randomizer(plan)
        held, rounds = np.zeros((2, 500)), 20 if quick else 400
        for seed in range(rounds):
            tally = Tally.of(plan, randomizer.randomize(["value 500"] * n, words=SeededWords(seed)))
            for place, at_once in enumerate((False, True)):
                ends = estimate(plan, tally, simultaneous=at_once).columns
                inside = (ends["low"] - 1e-9 <= truth) & (truth <= ends["high"] + 1e-9)
                held[place] += inside.all() if at_once else inside
        # The least of 500 rows, each in some hundred rounds, lies below all of them: the rows' mean is shown.
        yield Cell(f"ε = {epsilon}, n = {n}, a row", n, float(held[0].mean() / rounds), True)
        yield Cell(f"ε = {epsilon}, n = {n}, all rows at once", n, float(held[1].min() / rounds), True)


def regressions(quick: bool) -> Iterator[Cell]:
    """The worst coefficient of regressions: few clusters, of equal and of unequal size, and rare outcomes."""
    rng = np.random.default_rng(8)
    plan = make_plan(Prior.of({"yes": 0.3, "no": 0.7}), Survey("yes"), epsilon=3)
    cases = product(
        (5,) if quick else (5, 8, 15), ("linear", "logistic"), ("person", "cluster"), ((60,), (20, 60, 200))
    )
    for groups, model, column, sizes in cases:
        labels = np.repeat(np.arange(groups), np.resize(sizes, groups))

        def draw(labels: Any = labels, groups: int = groups, model: Any = model, column: str = column) -> list[bool]:
            x = rng.normal(size=groups)[labels] if column == "cluster" else rng.normal(size=len(labels))
            truth = (0.35, 0.04) if model == "linear" else (-0.8, 0.3)
            line = truth[0] + truth[1] * x
            share = np.clip((line if model == "linear" else expit(line)) + rng.normal(0, 0.08, groups)[labels], 0, 1)
            return _fitted(plan, share, x, model, truth, labels, rng)

        name = f"{model}, {groups} clusters of {' or '.join(map(str, sizes))}, a column of the {column}"
        yield repeated(name, len(labels), draw, quick)
    rare = make_plan(Prior.of({"yes": 0.02, "no": 0.98}), Survey("yes"), epsilon=2)
    n = 1000 if quick else 3000

    def draw_rare() -> list[bool]:
        return _fitted(rare, np.full(n, 0.02), rng.integers(0, 2, n), "logistic", (np.log(0.02 / 0.98), 0.0), None, rng)

    yield repeated(f"2% say yes, n = {n}", n, draw_rare, quick)


def _fitted(plan: Plan, share: Any, x: Any, model: Any, truth: Any, clusters: Any, rng: Any) -> list[bool]:
    (matrix,), mechanism = matrices_of(plan), plan.groups[0].mechanism
    sent = (rng.random(len(x)) >= np.where(rng.random(len(x)) < share, matrix[0, 0], matrix[1, 0])).astype(int)
    design = np.column_stack([np.ones(len(x)), x])
    fit = regress(mechanism.pseudo_values(plan.task, sent), design, ["constant", "x"], model=model, clusters=clusters)
    return [each.low <= true <= each.high for each, true in zip(fit.coefficients, truth, strict=True)]


def tables(quick: bool) -> Iterator[Cell]:
    """Two related or unrelated numbers of four answers: not rejecting independence, and the correlation."""
    rng, rare = np.random.default_rng(9), np.array([0.7, 0.18, 0.08, 0.04])
    pair = tuple(Question(name=name, answers=(0, 1, 2, 3), kind="number", task="mean") for name in ("x", "y"))
    both = Matrix(np.eye(16, dtype=int).tolist(), tuple(map(str, joint_values(pair))))
    for epsilon, n, margin in product(
        (4,) if quick else (1, 2, 4), (50,) if quick else (50, 200), (np.full(4, 0.25), rare)
    ):
        planned = make_plan(Prior.uniform(list(joint_values(pair))), both, epsilon)
        block = Block(pair, planned.task, planned.groups)
        plan = Plan(pair, (block,))
        (matrix,) = matrices_of(planned)
        for related in (0.0, 0.5):
            truth = (1 - related) * np.outer(margin, margin) + related * np.diag(margin)
            chance = truth.ravel() @ matrix

            def draw(plan: Any = plan, chance: Any = chance, n: int = n, related: float = related) -> list[bool]:
                counts = rng.multinomial(n, chance)
                kept = {plan.groups[0].name: Counts(np.flatnonzero(counts), counts[counts > 0])}
                found = crosstab(plan, Tally(plan.hash, kept), "x", "y")
                assert found.association is not None
                held = found.association.low <= related <= found.association.high
                return [held] if related else [held, found.p_value > 0.05]

            name = f"ε = {epsilon}, n = {n}, {'rare answers' if margin is rare else 'even'}, correlation {related:g}"
            yield repeated(name, n, draw, quick)


PARTS = {
    "yes/no, one group (exact)": yes_no, "sums": sums, "histogram of five": histograms,
    "five groups with priors": assisted, "rare answers that became common": rare, "40 small areas": areas,
    "a prior for each person": personal, "changes between two rounds (exact)": changes,
    "everybody holds the rarest of 500": rarest, "regressions": regressions, "tables of two questions": tables,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a part of the cells, in seconds")
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"some of {', '.join(f.__name__ for f in PARTS.values())}"
    )
    given = parser.parse_args()
    print("| part | cells | least coverage | where | largest error, of the unbiased one's |\n|---|---|---|---|---|")
    for name, part in PARTS.items():
        if given.parts and part.__name__ not in given.parts:
            continue
        cells = list(part(given.quick))
        worst = min(cells, key=lambda cell: cell.coverage)
        errors = [cell.error for cell in cells if cell.error is not None]
        largest = f"{max(errors):.2f}" if errors else "–"
        print(f"| {name} | {len(cells):,} | {worst.coverage:.1%} | {worst.name} | {largest} |", flush=True)
        outside = [cell.name for cell in cells if not cell.possible]
        if outside:
            print(f"\nOutside what is possible: {'; '.join(outside[:5])}\n")


if __name__ == "__main__":
    main()
