"""Ten waves of a survey whose truth drifts, and jumps once: coverage, sets, the alarm, and the error beside LDP.

General health in five answers, as in BRFSS 2015, moves by about half a point in every wave and by some six points in
the sixth. Every wave asks other people. Wave 1 is planned from 1,000 records, each later wave by `tacit next` from the
reports of the wave before. All runs follow the same truth, so that the best channel for the true distribution of each
wave (the oracle) and the best LDP channel are designed once.

    python -m studies.waves 60

prints the table of docs/evaluation.md.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tacit.designs import Promise, Search, Uncertainty, design
from tacit.designs.next_wave import next_priors, planned
from tacit.designs.planning import make_plan
from tacit.designs.prior_file import GroupPrior
from tacit.estimates import trend
from tacit.exact import Floats
from tacit.mechanism import Channel, unbiased_variance
from tacit.plan import Plan
from tacit.prior import Prior, PriorSet
from tacit.tally import Counts, Tally
from tacit.task import Histogram

ANSWERS = ("excellent", "very good", "good", "fair", "poor")
FIRST = (0.171, 0.323, 0.314, 0.137, 0.055)
WAVES, JUMP, PEOPLE, RECORDS, EPSILON = 10, 6, 20_000, 1_000, 1


@dataclass
class Found:
    """What became of all runs, by wave; `changes` are those to each wave, and the last one is overall."""

    truths: Floats
    covered: Floats = field(default_factory=lambda: np.zeros(WAVES))
    changes: Floats = field(default_factory=lambda: np.zeros(WAVES))
    inside: Floats = field(default_factory=lambda: np.zeros(WAVES))
    alarms: Floats = field(default_factory=lambda: np.zeros(WAVES))
    radius: Floats = field(default_factory=lambda: np.zeros(WAVES))
    variance: Floats = field(default_factory=lambda: np.zeros(WAVES))
    squares: Floats = field(default_factory=lambda: np.zeros(WAVES))
    runs: int = 0


def truths(seed: int = 20) -> Floats:
    """The distribution of each wave: a random walk of about half a point, and one jump."""
    drawn = np.random.default_rng(seed)
    now, found = np.array(FIRST), []
    for wave in range(1, WAVES + 1):
        if wave > 1:
            now = drawn.dirichlet(now * 4000)
        if wave == JUMP:
            now = now + np.array([-0.06, 0.0, 0.02, 0.03, 0.01])
        found.append(now)
    return np.array(found)


def simulate(runs: int, people: int = PEOPLE, seed: int = 1, progress: Callable[[int], None] | None = None) -> Found:
    """All waves, so many times."""
    drawn, found = np.random.default_rng(seed), Found(truths())
    for run in range(runs):
        records = Prior(ANSWERS, drawn.multinomial(RECORDS, FIRST).tolist())
        group = GroupPrior(name=None, prior=records, records=RECORDS, observed=records)
        plan = make_plan([group], Histogram(), EPSILON, uncertainty=Uncertainty(), search=Search(gap=0.01))
        waves = []
        for wave, truth in enumerate(found.truths):
            tally = _reports(plan, truth, people, drawn)
            waves.append((plan, tally))
            plausible = plan.groups[0].prior_set
            assert plausible is not None
            found.inside[wave] += _holds(plausible, truth)
            found.radius[wave] += float(plausible.radius)
            found.variance[wave] += _variance(plan.groups[0].mechanism.under(_prior(truth)))
            known = next_priors(plan, tally)
            found.alarms[wave] += known.alarm
            if wave + 1 < WAVES:
                plan = planned(plan, [known])
        _count(found, waves, people)
        found.runs += 1
        if progress is not None:
            progress(run + 1)
    return found


def _reports(plan: Plan, truth: Floats, people: int, drawn: np.random.Generator) -> Tally:
    channel = plan.groups[0].mechanism.table()
    assert channel is not None
    chances = truth @ channel.matrix
    counts = drawn.multinomial(people, chances / chances.sum())
    return Tally(plan.hash, {None: Counts(np.flatnonzero(counts), counts[counts > 0])})


def _count(found: Found, waves: list[tuple[Plan, Tally]], people: int) -> None:
    result = trend(waves, simultaneous=False)
    size = len(ANSWERS)
    for wave, (each, truth) in enumerate(zip(result.estimates, found.truths, strict=True)):
        rows = [each.per_respondent(row) for row in each.rows]
        found.covered[wave] += np.mean([row.low <= p <= row.high for row, p in zip(rows, truth, strict=True)])
        found.squares[wave] += people * sum((row.estimate - p) ** 2 for row, p in zip(rows, truth, strict=True))
    ends = [(wave, wave - 1) for wave in range(1, WAVES)] + [(WAVES - 1, 0)]
    for place, (now, past) in enumerate(ends):
        steps = result.changes.rows[place * size : (place + 1) * size]
        moved = found.truths[now] - found.truths[past]
        kept = np.mean([row.low <= step <= row.high for row, step in zip(steps, moved, strict=True)])
        found.changes[now if place < WAVES - 1 else 0] += kept


def _holds(plausible: PriorSet, truth: Floats) -> bool:
    if plausible.kind == "ball":
        return float(np.abs(plausible.prior.probabilities - truth).sum()) / 2 <= float(plausible.radius) + 1e-9
    low, high = (np.array([float(end) for end in getattr(plausible, name)]) for name in ("low", "high"))
    return bool(((low <= truth + 1e-9) & (truth <= high + 1e-9)).all())


def _prior(truth: Floats) -> Prior:
    return Prior(ANSWERS, [round(p * 10**6) for p in truth])


def _variance(mechanism: object) -> float:
    assert isinstance(mechanism, Channel)
    return unbiased_variance(mechanism, Histogram())


def table(found: Found) -> str:
    """The table, in Markdown."""
    ldp = design(_prior(np.array(FIRST)), Histogram(), Promise(EPSILON, "ldp")).mechanism
    lines = [
        "| wave | truth in the set | radius of the set | alarm | coverage | change covered | error, oracle = 1 | LDP |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for wave, truth in enumerate(found.truths):
        oracle = design(_prior(truth), Histogram(), EPSILON).certificate.unbiased_variance
        against = unbiased_variance(ldp.under(_prior(truth)), Histogram())
        mine, runs = found.variance[wave] / found.runs, found.runs
        change = "" if not wave else f"{found.changes[wave] / runs:.1%}"
        lines.append(
            f"| {wave + 1} | {found.inside[wave] / runs:.0%} | {found.radius[wave] / runs:.3f} | "
            f"{found.alarms[wave] / runs:.0%} | {found.covered[wave] / runs:.1%} | {change} | "
            f"{math.sqrt(mine / oracle):.2f} | {math.sqrt(against / oracle):.2f} |"
        )
    lines.append(f"\nThe change overall was covered in {found.changes[0] / found.runs:.1%}; {found.runs} runs.")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(simulate(int(sys.argv[1]) if len(sys.argv) > 1 else 20)))
