"""The same people in three waves: are intervals of waves and changes right, by fresh channels, belief rule, two layers?

2,000 people answer a yes/no question whose prior is 20%, or one of four answers; from wave to wave they keep the answer
with probability .9, or draw it from the prior. Every run draws other people. One wave has ε = .5; two layers have a
lifelong level of 1.5. Changes are those from wave to wave and overall, with and without the covariance of the waves.

    python -m studies.panels 400

prints the table of docs/evaluation.md. The belief rule is run once more with a stated persistence of .5, which is
wrong: the estimates do not rest on it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tacit.designs import following_plan, make_plan, next_plan, with_layers
from tacit.estimates import Linked, trend
from tacit.exact import Floats, Integers
from tacit.plan import Plan, followed_name
from tacit.prior import Prior
from tacit.randomize import Randomizer
from tacit.tally import Tally
from tacit.task import Histogram

PRIORS = {
    "yes/no, 20%": Prior.of({"yes": 0.2, "no": 0.8}),
    "four answers": Prior.of({"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1}),
}
WAVES, PEOPLE, PERSISTENCE, EPSILON, LIFELONG = 3, 2_000, "0.9", "0.5", "1.5"


@dataclass
class Found:
    """Over all runs, by answer: how often intervals hold, and how wide those of changes are."""

    waves: list[float] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)
    width: list[float] = field(default_factory=list)
    unlinked: list[float] = field(default_factory=list)
    width_unlinked: list[float] = field(default_factory=list)


def ways(prior: Prior) -> Iterator[tuple[str, list[Plan]]]:
    """The plans of all waves, by each way to ask again."""
    first = make_plan(prior, Histogram(), EPSILON)
    yield "fresh channels", [first] * WAVES
    for stated in (PERSISTENCE, "0.5"):
        plans = [first]
        while len(plans) < WAVES:
            plans.append(following_plan(plans[-1], stated))
        yield f"belief rule, persistence {stated}", plans
    plans = [with_layers(first, LIFELONG)]
    while len(plans) < WAVES:
        plans.append(next_plan(plans[-1]))
    yield "two layers", plans


def run(plans: list[Plan], prior: Prior, drawn: np.random.Generator, found: Found) -> None:
    """One panel, all waves."""
    size, chances = len(prior), prior.probabilities
    held: Integers = drawn.choice(size, PEOPLE, p=chances)
    names: list[str | None] = [plans[0].groups[0].name] * PEOPLE
    people, memory = [str(each) for each in range(PEOPLE)], drawn.bytes(32)
    waves, linked = [], []
    for number, plan in enumerate(plans):
        if number:
            stay = drawn.random(PEOPLE) < float(PERSISTENCE)
            held = np.where(stay, held, drawn.choice(size, PEOPLE, p=chances))
        places = {group.name: place for place, group in enumerate(plan.groups)}
        groups = np.array([places[name] for name in names])
        reports = Randomizer(plan).reports(
            groups, held, int(drawn.integers(2**62)), persons=people, memory=memory
        )  # fmt: skip
        named = None if plan.groups[0].name is None else [str(name) for name in names]
        waves.append((plan, Tally.of(plan, reports, named)))
        values = np.empty((PEOPLE, size))
        for place, group in enumerate(plan.groups):
            mine = groups == place
            values[mine] = group.mechanism.pseudo_values(plan.task, reports[mine])
        linked.append(Linked({person: row for row, person in enumerate(people)}, values))
        if plans[-1].follows is not None:
            names = [followed_name(name, int(report)) for name, report in zip(names, reports, strict=True)]
    _judge(found, waves, linked, chances)


def _judge(found: Found, waves: list[tuple[Plan, Tally]], linked: list[Linked], truth: Floats) -> None:
    called = [f"wave {number}" for number in range(len(waves))]
    for people in (linked, ()):
        made = trend(waves, names=called, linked=people, simultaneous=False)
        # The distribution does not change: the truth of every change is 0.
        held = [row.low <= 0 <= row.high for row in made.changes.rows]
        wide = [row.high - row.low for row in made.changes.rows]
        (found.changes if people else found.unlinked).append(float(np.mean(held)))
        (found.width if people else found.width_unlinked).append(float(np.mean(wide)))
    for each in made.estimates:
        shares = [(row.low / each.total_weight, row.high / each.total_weight) for row in each.rows]
        found.waves.append(float(np.mean([low <= p <= high for (low, high), p in zip(shares, truth, strict=True)])))


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    print("| answers | way | a wave holds | a change holds | width | as if independent | width |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name, prior in PRIORS.items():
        for way, plans in ways(prior):
            drawn, found = np.random.default_rng(7), Found()
            for _ in range(runs):
                run(plans, prior, drawn, found)
            numbers = [
                f"{100 * np.mean(found.waves):.1f}%",
                f"{100 * np.mean(found.changes):.1f}%",
                f"{100 * np.mean(found.width):.1f}",
                f"{100 * np.mean(found.unlinked):.1f}%",
                f"{100 * np.mean(found.width_unlinked):.1f}",
            ]
            print(f"| {name} | {way} | {' | '.join(numbers)} |", flush=True)


if __name__ == "__main__":
    main()
