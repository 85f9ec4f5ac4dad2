"""How often 95% intervals hold: the least over the cells of a study, exact where enumeration is possible.

    python benchmarks/intervals.py [--quick]

A row of the table is a part of the study: its number of cells (plans, numbers of people and truths), the least coverage
and the cell where it is. Exact coverage adds up the probabilities of all reports whose interval has the truth in it;
the rest is simulated, in 1,000 rounds (one standard error is .7 points). No interval may lie outside what is possible.
For estimates that use the prior the table also has their error relative to that of the unbiased estimate.
`--quick` takes a part of the cells and rounds: the tests run it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.stats import binom

from tacit import Histogram, Prior, Sum, Survey, estimate, make_plan
from tacit.estimates import Scope
from tacit.personal import PersonalPlan
from tacit.personal.estimates import PersonalTally
from tacit.personal.estimates import estimate as estimate_personal
from tacit.plan import Plan
from tacit.tally import Counts, Tally

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


def simulated(plan: Plan, people: Sequence[Any], scope: Scope, rounds: int, rng: Any) -> Cell:
    """The plan's rows for these people in each group: fixed numbers for participants, their shares for a population."""
    matrices = matrices_of(plan)
    g = [plan.task.g(group.prior) for group in plan.groups]
    if scope == "population":
        drawn = [
            rng.multinomial(sum(p), np.asarray(p) / sum(p) @ m, size=rounds)
            for p, m in zip(people, matrices, strict=True)
        ]
    else:
        drawn = [
            sum(rng.multinomial(n, m[x], size=rounds) for x, n in enumerate(p))
            for p, m in zip(people, matrices, strict=True)
        ]
    total = sum(np.asarray(p) @ each for p, each in zip(people, g, strict=True))
    n, most = int(np.sum(people)), np.max([each.max(axis=0) for each in g], axis=0)
    different, often = np.unique(np.hstack(drawn), axis=0, return_counts=True)
    ends, held, inside = np.cumsum([each.shape[1] for each in drawn])[:-1], [], True
    for counts in different:
        result = estimate(plan, counted(plan, np.split(counts, ends)), scope=scope, simultaneous=False)
        low, high = (np.array([getattr(row, end) for row in result.rows]) for end in ("low", "high"))
        held.append((low - 1e-9 <= total) & (total <= high + 1e-9))
        inside &= bool((low >= -1e-9).all() and (high <= n * most + 1e-9).all())
    return Cell("", n, float((often @ np.array(held)).min() / rounds), inside)


def named(cell: Cell, name: str) -> Cell:
    return Cell(name, cell.people, cell.coverage, cell.possible, cell.error)


def sums(quick: bool) -> Iterator[Cell]:
    """Days of bad health: everybody the same, two camps, and as the prior expects."""
    rng, rounds = np.random.default_rng(1), 100 if quick else 1000
    for epsilon in (2,) if quick else (1, 2, 5):
        plan = make_plan(DAYS, Sum(), epsilon=epsilon)
        for n, scope in product((20, 50) if quick else (5, 20, 50, 300), SCOPES):
            held = {f"all {value}": np.eye(31, dtype=int)[value] * n for value in (0, 1, 15, 30)}
            held["half 0, half 30"] = (np.eye(31, dtype=int)[0] + np.eye(31, dtype=int)[30]) * (n // 2)
            few = max(1, n // 10)
            held["nine tenths 0, the rest 30"] = np.eye(31, dtype=int)[0] * (n - few) + np.eye(31, dtype=int)[30] * few
            held["as expected"] = rng.multinomial(n, DAYS.probabilities)
            for name, people in held.items():
                cell = simulated(plan, [people], scope, rounds, rng)
                yield named(cell, f"ε = {epsilon}, n = {n}, {name}, {scope}")


def histograms(quick: bool) -> Iterator[Cell]:
    """Five answers, the worst of them."""
    rng, rounds = np.random.default_rng(2), 100 if quick else 1000
    for epsilon in (2,) if quick else (1, 2, 4):
        plan = make_plan(FIVE, Histogram(), epsilon=epsilon)
        for n, scope in product((30,) if quick else (10, 30, 300), SCOPES):
            for name, shares in {
                "as expected": FIVE.probabilities,
                "all e": np.eye(5)[4],
                "even": np.full(5, 0.2),
            }.items():
                cell = simulated(plan, [rng.multinomial(n, shares)], scope, rounds, rng)
                yield named(cell, f"ε = {epsilon}, n = {n}, {name}, {scope}")


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
    """A prior for each person, uniform on 0 to 20%."""
    rng, rounds = np.random.default_rng(6), 100 if quick else 1000
    for epsilon, n in product((4,) if quick else (1, 2, 4), (30,) if quick else (10, 30, 50, 300)):
        plan, held, inside = PersonalPlan.of(Survey("yes"), ["no", "yes"], epsilon, 1000), [], True
        chance = {p: rows_of(plan.channel([1000 - p, p]).matrix)[:, 1] for p in range(1, 200)}
        for _ in range(rounds):
            priors = rng.integers(1, 200, n)
            answers = rng.random(n) < priors / 1000
            sent = rng.random(n) < [chance[p][int(x)] for p, x in zip(priors.tolist(), answers, strict=True)]
            tally = PersonalTally.of(plan, np.stack([1000 - priors, priors], axis=1), sent.astype(int))
            (row,) = estimate_personal(plan, tally, scope="participants").rows
            held.append(row.low <= answers.sum() <= row.high)
            inside &= 0 <= row.low <= row.high <= n
        yield Cell(f"ε = {epsilon}, n = {n}", n, float(np.mean(held)), bool(inside))


PARTS = {
    "yes/no, one group (exact)": yes_no, "sums": sums, "histogram of five": histograms,
    "five groups with priors": assisted, "rare answers that became common": rare, "40 small areas": areas,
    "a prior for each person": personal,
}  # fmt: skip


def study(quick: bool = False) -> dict[str, list[Cell]]:
    """All cells, by part."""
    return {name: list(part(quick)) for name, part in PARTS.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a part of the cells, in seconds")
    print("| part | cells | least coverage | where | largest error, of the unbiased one's |\n|---|---|---|---|---|")
    for name, part in PARTS.items():
        cells = list(part(parser.parse_args().quick))
        worst = min(cells, key=lambda cell: cell.coverage)
        errors = [cell.error for cell in cells if cell.error is not None]
        told = f"{max(errors):.2f}" if errors else "–"
        print(f"| {name} | {len(cells):,} | {worst.coverage:.1%} | {worst.name} | {told} |", flush=True)
        outside = [cell.name for cell in cells if not cell.possible]
        if outside:
            print(f"\nOutside what is possible: {'; '.join(outside[:5])}\n")


if __name__ == "__main__":
    main()
