"""People who answer through a plan of tables, drawn fast and from a seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.plan import Plan
from tacit.tally import Counts, Tally


def rows_of(plan: Plan) -> list[np.ndarray]:
    """Pr(report | answer) of each group, rows that sum to one."""
    return [group.mechanism.matrix / group.mechanism.matrix.sum(axis=1, keepdims=True) for group in plan.groups]


def counts_of(rows: np.ndarray, held: Sequence[int], rng: np.random.Generator) -> Counts:
    """What people who hold each value so often report."""
    sent = sum(rng.multinomial(n, row) for n, row in zip(held, rows, strict=True))
    return Counts(np.flatnonzero(sent), sent[sent > 0])


def tally_of(plan: Plan, held: Sequence[Sequence[int]], rng: np.random.Generator) -> Tally:
    """The same for all groups; those whom nobody is in are left out."""
    parts = zip(plan.groups, rows_of(plan), held, strict=True)
    return Tally(plan.hash, {group.name: counts_of(rows, each, rng) for group, rows, each in parts if sum(each)})


def reports_of(plan: Plan, groups: np.ndarray, positions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A report for each person, who is in a group and holds a value, both as positions."""
    reports = np.zeros(len(groups), dtype=np.int64)
    for place, rows in enumerate(rows_of(plan)):
        mine = np.flatnonzero(groups == place)
        reports[mine] = (rng.random(len(mine))[:, None] > np.cumsum(rows, axis=1)[positions[mine]]).sum(axis=1)
    return reports
