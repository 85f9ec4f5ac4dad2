"""Attack the planner: nasty priors at random, every plan judged by code that shares nothing with it.

    python tests/attack/run.py --minutes 10        or:  make attack MINUTES=10

The seed is printed first; --seed repeats a run.
"""

from __future__ import annotations

import argparse
import json
import random
import secrets
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from attack.judge import complaints
from tacit import Histogram, Plan, Prior, Sum, Survey, make_plan
from tacit.designs import Uncertainty
from tacit.designs.prior_file import GroupPrior

from support.wishes import in_search

#: No plan over a few values takes longer.
SECONDS = 40.0


def weights(rng: random.Random, d: int) -> list[Any]:
    """Weights of d values, some of them nasty: dominated, with zeros, of all magnitudes, nearly impossible."""
    kinds = [
        lambda: [rng.randint(1, 10) for _ in range(d)],
        lambda: [rng.randint(1, 10_000) for _ in range(d)],
        lambda: [1] * d,
        lambda: [10**6] + [1] * (d - 1),
        lambda: [10 ** rng.randint(0, 8) for _ in range(d)],
        lambda: [rng.randint(0, 3) for _ in range(d - 1)] + [1],
        lambda: [10 ** rng.randint(0, 40) for _ in range(d)],
        lambda: [0.5, f"1e-{rng.choice([12, 17, 300, 900])}", *(0.5 for _ in range(d - 2))],
    ]
    return rng.choice(kinds)()


def case(rng: random.Random) -> dict[str, Any]:
    """A question to the planner, as plain data, so that it can be printed and asked again."""
    d = rng.randint(2, 5)
    asked: dict[str, Any] = {
        "weights": weights(rng, d),
        "task": rng.choice(["survey", "survey of two", "sum", "histogram"]),
        "epsilon": rng.choice(["0.01", "0.1", "1/3", "0.5", "1", "1.5", "2", "3", "4", "5", "8"]),
        "aim": rng.choice(["unbiased", "mmse"]),
    }
    wish = rng.choice(["", "", "ldp", "cap", "ball", "hull"])
    if wish == "hull":
        return asked | {"candidates": [weights(rng, d) for _ in range(rng.randint(1, 2))]}
    more = {"ldp": {"notion": "ldp"}, "cap": {"ldp_cap": str(Fraction(asked["epsilon"]) * 3 / 2)}}
    return asked | more.get(wish, {"error": rng.choice(["0.01", "0.1", "0.5"])} if wish == "ball" else {})


def plan_for(asked: dict[str, Any]) -> dict[str, Any]:
    """The plan, as the JSON that is written and read again."""
    options = dict(asked)
    held = options.pop("weights")
    prior = Prior(range(len(held)), held)
    tasks = {"survey": Survey(0), "survey of two": Survey((0, 1)), "sum": Sum(), "histogram": Histogram()}
    others, error = options.pop("candidates", None), options.pop("error", None)
    uncertainty = Uncertainty(error=error) if error else Uncertainty(candidates=True) if others else None
    # A candidate may believe in what the prior leaves possible only.
    shared = [[w if p else 0 for w, p in zip(each, prior.weights, strict=True)] for each in others or ()]
    candidates = tuple(Prior(range(len(held)), each) for each in shared if any(map(float, each)))
    group = GroupPrior(name=None, prior=prior, candidates=candidates or (prior,))
    plan = make_plan(
        [group], tasks[options.pop("task")], options.pop("epsilon"), uncertainty=uncertainty, **in_search(options)
    )
    written = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    Plan.from_dict(written)
    return written


def attack(seed: int, cases: int | None = None, minutes: float | None = None) -> Iterator[tuple[dict[str, Any], str]]:
    """Everything that is wrong, each with the case that shows it; after so many cases, or minutes."""
    rng, started, done = random.Random(seed), perf_counter(), 0
    while (cases is None or done < cases) and (minutes is None or perf_counter() - started < 60 * minutes):
        asked, done = case(rng), done + 1
        began = perf_counter()
        try:
            plan = plan_for(asked)
        except Exception as error:
            yield asked, f"refused: {type(error).__name__} {error}"
            continue
        if perf_counter() - began > SECONDS:
            yield asked, f"took {perf_counter() - began:.0f} s"
        for complaint in complaints(plan, np.random.default_rng(done)):
            yield asked, complaint


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.minutes:g} minutes", flush=True)
    found = 0
    for asked, complaint in attack(options.seed, minutes=options.minutes):
        found += 1
        print(f"{complaint}\n    {asked}", flush=True)
    print(f"{found} complaints")
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
