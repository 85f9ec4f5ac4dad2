"""Ten yes/no answers in one report, beside multi-freq-ldpy's SPL, SMP and RS+FD on the same people, in one run.

    PYTHONPATH=. .venv-peers/bin/python benchmarks/questions.py [--data DIR] [--people N] [--runs R]

The joint prior is counted from one half of BRFSS 2020; people are drawn from the other half. Errors are mean squared,
of the share of the second answer, over questions and runs, times the number of people. Clipped estimates are what the
other library gives. Writes out/bench/questions.csv. A goal that is missed is marked, and the command ends all the same.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from studies.loaders import DEFAULT_DATA
from tacit.designs import make_questionnaire, read_joint
from tacit.estimates import estimate_questions
from tacit.microdata import joint_from
from tacit.plan import Questionnaire, block_name
from tacit.randomize import RecordRandomizer, SeededWords
from tacit.tally import Tally

OUT = Path("out/bench")
QUESTIONS = (
    "HeartDisease", "Smoking", "AlcoholDrinking", "Stroke", "DiffWalking", "Sex", "PhysicalActivity", "Asthma",
    "KidneyDisease", "SkinCancer",
)  # fmt: skip
#: At most this share of the least error of the others.
GOAL = 0.4


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


def asked(plan: Questionnaire, records: Any, seed: int) -> Any:
    """Tacit's unbiased estimates of the shares."""
    answers = {name: [plan.question(name).answers[held] for held in records[:, k]] for k, name in enumerate(QUESTIONS)}
    blocks, reports = RecordRandomizer(plan).randomize(answers, words=SeededWords(seed))
    tally = Tally.of(plan, reports, [block_name(None, number + 1) for number in blocks.tolist()])
    found = estimate_questions(plan, tally, estimator="unbiased")
    return np.array([found[name].per_respondent(found[name].rows[1]).estimate for name in QUESTIONS])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    import pandas as pd

    frame = pd.read_parquet(options.data / "brfss2020_heart.parquet")[list(QUESTIONS)]
    with tempfile.TemporaryDirectory() as folder:
        joint_from(frame.iloc[::2], QUESTIONS).save(Path(folder) / "joint.csv")
        joint = read_joint(Path(folder) / "joint.csv", QUESTIONS)
    codes = [{str(answer): k for k, answer in enumerate(question.answers)} for question in joint.questions]
    others = np.column_stack([frame[name].iloc[1::2].map(code) for name, code in zip(QUESTIONS, codes, strict=True)])
    truth, rng = others.mean(axis=0), np.random.default_rng(1)
    rows = []
    for epsilon in (1.0, 2.0):
        planned = make_questionnaire(joint, epsilon)
        ways = {"Tacit": None, **peers(epsilon)}
        errors: dict[str, list[float]] = {name: [] for name in ways}
        for run in range(options.runs):
            people = others[rng.integers(len(others), size=options.people)]
            for name, way in ways.items():
                shares = asked(planned.plan, people, run) if way is None else way(people)
                errors[name].append(float(((shares - truth) ** 2).mean() * options.people))
        best = min(np.mean(each) for name, each in errors.items() if name != "Tacit")
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
