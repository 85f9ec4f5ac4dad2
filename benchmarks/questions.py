"""Ten yes/no answers in one report, beside multi-freq-ldpy's SPL, SMP and RS+FD on the same people, in one run.

    PYTHONPATH=. .venv-peers/bin/python benchmarks/questions.py [--data DIR] [--people N] [--runs R] [--coverage R]
    PYTHONPATH=. .venv/bin/python benchmarks/questions.py --proved [SIZES …]

The joint prior is counted from one half of BRFSS 2020; people are drawn from the other half. Errors are mean squared,
of the share of the second answer, over questions and runs, times the number of people. Clipped estimates are what the
other library gives. `--coverage R` counts instead how often 95% intervals of shares and of cells of two questions
contain the truth, in R surveys, with the joint prior and with margins taken as independent; it needs no other library.
`--proved` prints instead how far the best channel for questions of up to 32 joint cells could be from the one found, at
four ε, for joint counts at random, with and without a table of the first two questions, of these SIZES (5x6, or all);
nor does it need another library.
Writes out/bench/questions.csv. A goal that is missed is marked, and the command ends all the same.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from studies.loaders import DEFAULT_DATA
from tacit.designs import Promise, Search, design, make_questionnaire, read_joint
from tacit.designs.joint_priors import JointPrior
from tacit.estimates import Estimator, crosstab, estimate_questions
from tacit.microdata import joint_from
from tacit.plan import Plan, block_name
from tacit.prior import Prior
from tacit.randomize import RecordRandomizer, SeededWords
from tacit.tally import Tally
from tacit.task import Matrix

OUT = Path("out/bench")
QUESTIONS = (
    "HeartDisease", "Smoking", "AlcoholDrinking", "Stroke", "DiffWalking", "Sex", "PhysicalActivity", "Asthma",
    "KidneyDisease", "SkinCancer",
)  # fmt: skip
#: Tables that are wanted where coverage is counted.
CROSSES = (
    ("HeartDisease", "Stroke"), ("Smoking", "AlcoholDrinking"), ("DiffWalking", "PhysicalActivity"), ("Sex", "Asthma"),
    ("KidneyDisease", "SkinCancer"),
)  # fmt: skip
#: At most this share of the least error of the others.
GOAL = 0.4
#: A design of up to 32 joint cells is to be proved this closely.
PROVED = 0.01


#: Questions by their numbers of answers, levels, and priors whose designs are proved: joint counts drawn at random,
#: from a gamma distribution or from one with many rare cells, of which each has at least a share of a thirtieth of 2%.
SHAPES = ("2x2x2x2x2", "4x8", "3x10", "2x16", "5x3x2", "5x6", "6x5", "4x4x2")
LEVELS, PRIORS = (0.5, 1.0, 2.0, 3.0), ("gamma", "rare cells")


def proved(shapes: list[str]) -> None:
    """Print the proved gap of designs for several questions, and the seconds of a core that each took."""
    for shape, epsilon, kind, table in product(shapes or SHAPES, LEVELS, PRIORS, (False, True)):
        sizes, rng = [int(size) for size in shape.split("x")], np.random.default_rng(1)
        cells = np.array(list(np.ndindex(*sizes))).T
        shares = rng.gamma(2.0, size=len(cells[0])) if kind == "gamma" else rng.dirichlet(np.full(len(cells[0]), 0.3))
        shares = shares / shares.sum() if kind == "gamma" else 0.98 * shares + 0.02 / len(shares)
        columns = [np.eye(size)[of] for size, of in zip(sizes, cells, strict=True)]
        columns += [np.eye(sizes[0] * sizes[1])[cells[0] * sizes[1] + cells[1]]] if table else []
        prior, task = Prior.of(dict(enumerate(shares.tolist()))), Matrix(np.hstack(columns).tolist())
        started = process_time()
        found = design(prior, task, Promise(epsilon), search=Search(gap=5e-3, time_limit=90.0)).certificate
        said = f"{shape:10} {'table' if table else 'margins':8} ε = {epsilon:<4g} {kind:10}"
        goal = "" if found.gap <= PROVED else "  MISSED"
        print(f"{said} gap {found.gap:6.2%}  {process_time() - started:5.1f} s{goal}", flush=True)


def peers(epsilon: float) -> dict[str, Callable[[Any], Any]]:
    """The other library's ways: from records of 0 and 1 to the shares of each answer."""
    from multi_freq_ldpy.mdim_freq_est import RSpFD_solution, SMP_solution, SPL_solution

    sizes, d = [2] * len(QUESTIONS), len(QUESTIONS)
    ways = {
        "SPL[GRR]": (SPL_solution.SPL_GRR_Client, SPL_solution.SPL_GRR_Aggregator_MI),
        "SMP[GRR]": (SMP_solution.SMP_GRR_Client, SMP_solution.SMP_GRR_Aggregator_MI),
        "RS+FD[GRR]": (RSpFD_solution.RSpFD_GRR_Client, RSpFD_solution.RSpFD_GRR_Aggregator_MI),
        "RS+FD[ADP]": (RSpFD_solution.RSpFD_ADP_Client, RSpFD_solution.RSpFD_ADP_Aggregator_MI),
    }

    def way(client: Any, aggregator: Any) -> Callable[[Any], Any]:
        def run(records: Any) -> Any:
            reports = [client(record, sizes, d, epsilon) for record in records]
            return np.array([each[1] for each in aggregator(reports, sizes, d, epsilon)], dtype=float)

        return run

    return {name: way(*each) for name, each in ways.items()}


def tallied(plan: Plan, records: Any, seed: int) -> Tally:
    """The reports of people whose answers are positions."""
    blocks, reports = RecordRandomizer(plan).reports(np.zeros(len(records), dtype=np.int64), records, SeededWords(seed))
    return Tally.of(plan, reports, [block_name(None, number + 1) for number in blocks.tolist()])


def asked(plan: Plan, records: Any, seed: int, estimator: Estimator | None) -> Any:
    """Tacit's estimates of the shares; None is the default, which uses the prior as far as the reports agree."""
    found = estimate_questions(plan, tallied(plan, records, seed), estimator=estimator)
    return np.array([found[name].per_respondent(found[name].rows[1]).estimate for name in QUESTIONS])


def covered(plan: Plan, others: Any, people: int, runs: int) -> tuple[Any, Any]:
    """For each survey the share of 95% intervals that contain the truth: of shares, and of the cells of the tables."""
    truth, rng = others.mean(axis=0), np.random.default_rng(7)
    every = []
    for run in range(runs):
        shares, cells = [], []
        tally = tallied(plan, others[rng.integers(len(others), size=people)], 7000 + run)
        for k, (name, found) in enumerate(estimate_questions(plan, tally).items()):
            row = found.per_respondent(found.rows[1])
            assert name == QUESTIONS[k]
            shares.append(row.low <= truth[k] <= row.high)
        for first, second in CROSSES:
            one, two = others[:, QUESTIONS.index(first)], others[:, QUESTIONS.index(second)]
            table = crosstab(plan, tally, first, second)
            for place, (_, _, cell) in enumerate(table.rows):
                row, (a, b) = table.estimate.per_respondent(cell), divmod(place, 2)
                cells.append(row.low <= ((one == a) & (two == b)).mean() <= row.high)
        every.append((np.mean(shares), np.mean(cells)))
    return tuple(np.transpose(every))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--coverage", type=int, default=0)
    parser.add_argument("--proved", nargs="*", metavar="SIZES")
    options = parser.parse_args()
    if options.proved is not None:
        proved(options.proved)
        return
    import pandas as pd

    frame = pd.read_parquet(options.data / "brfss2020_heart.parquet")[list(QUESTIONS)]
    with tempfile.TemporaryDirectory() as folder:
        joint_from(frame.iloc[::2], QUESTIONS).save(Path(folder) / "joint.csv")
        joint = read_joint(Path(folder) / "joint.csv", QUESTIONS)
    codes = [{str(answer): k for k, answer in enumerate(question.answers)} for question in joint.questions]
    others = np.column_stack([frame[name].iloc[1::2].map(code) for name, code in zip(QUESTIONS, codes, strict=True)])
    truth, rng = others.mean(axis=0), np.random.default_rng(1)
    if options.coverage:
        # Without counts of combinations only margins are known. Nothing found for the joint prior is kept.
        groups = tuple(replace(each, positions=each.positions[:0], counts=each.counts[:0]) for each in joint.groups)
        alone = JointPrior(joint.questions, groups)
        for epsilon, (name, prior) in product((1.0, 2.0), {"joint prior": joint, "independent": alone}.items()):
            plan = make_questionnaire(prior, epsilon, crosses=CROSSES).plan
            shares_and_cells = covered(plan, others, options.people, options.coverage)
            said = [f"{each.mean():.1%} ± {each.std() / np.sqrt(len(each)):.1%}" for each in shares_and_cells]
            print(f"ε = {epsilon:g}  {name:12} shares {said[0]}, cells {said[1]} (± one standard error)")
        return
    rows = []
    for epsilon in (1.0, 2.0):
        planned = make_questionnaire(joint, epsilon)
        own: dict[str, Estimator | None] = {"Tacit": None, "unbiased": "unbiased"}
        ways = peers(epsilon)
        errors: dict[str, list[float]] = {name: [] for name in (*own, *ways)}
        for run in range(options.runs):
            people = others[rng.integers(len(others), size=options.people)]
            found = {name: asked(planned.plan, people, run, estimator) for name, estimator in own.items()}
            for name, shares in {**found, **{name: way(people) for name, way in ways.items()}}.items():
                errors[name].append(float(((shares - truth) ** 2).mean() * options.people))
        best = min(np.mean(errors[name]) for name in ways)
        expected = sum(cost.total for cost in planned.costs) / 2 / len(QUESTIONS)
        for name, each in errors.items():
            rows.append({"epsilon": epsilon, "way": name, "mse": np.mean(each), "share_of_best": np.mean(each) / best})
            print(f"ε = {epsilon:g}  {name:11} {np.mean(each):8.2f}  × {np.mean(each) / best:.2f} of the best other")
        reached = np.mean(errors["Tacit"]) / best
        print(f"ε = {epsilon:g}  expected {expected:.2f}; goal {GOAL}: {'reached' if reached <= GOAL else 'MISSED'}")
    OUT.mkdir(parents=True, exist_ok=True)
    with open(OUT / "questions.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["epsilon", "way", "mse", "share_of_best"])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
