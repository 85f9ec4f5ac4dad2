"""Reports in cells, of senders who are publicly alike, and what the pseudo-values of each cell add up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tacit.estimates._participants import read_group, read_task
from tacit.estimates._rows import prior_totals
from tacit.exact import Floats
from tacit.plan import Group, Plan
from tacit.plan.crossing import margins
from tacit.tally import Counts, Coverage, GroupTally, Tally


@dataclass(frozen=True)
class Cell:
    """Reports whose senders share a group and what is public about them: `labels` by the name of the margin."""

    plan: Plan
    labels: Mapping[str, str]
    group: Group
    kept: GroupTally

    @property
    def n_reports(self) -> int:
        return self.kept.total

    @cached_property
    def prior_mean(self) -> Floats:
        """What the prior alone expects of one sender."""
        people = [(1.0, 1.0, 0.0) if group is self.group else (0.0, 0.0, 0.0) for group in self.plan.groups]
        return prior_totals(self.plan, people)

    @cached_property
    def moments(self) -> Moments:
        """What the pseudo-values t of the reports add up to, with the reports' own weights w."""
        plan, group, kept = self.plan, self.group, self.kept
        if plan.task.takes_weights and isinstance(kept, Counts) and kept.sums is not None:
            raise ValueError(
                "The weights and offsets of a weighted sum are part of what is asked, so they cannot weigh reports as "
                "well. Leave them out here, or export pseudo-values."
            )
        read = read_group(plan, group, kept, "unbiased")
        if isinstance(kept, Coverage):
            # Nobody has a weight; of counts t has the mean of its own square but for what randomizing adds.
            mean = read.estimate / max(kept.total, 1)
            inside = np.clip(mean, 0.0, 1.0)
            second = read.variance + kept.total * inside * (1 - inside) + read.changed**2
            return Moments(
                float(kept.total), float(kept.total), mean, 0 * mean, second, read.variance + (read.changed / 2) ** 2,
                read.changed, read.added, read.slope,
            )  # fmt: skip
        weights, squares, heaviest = kept.weighted()
        t = group.mechanism.pseudo_values(read_task(plan), kept.reports)
        t = float(group.weight) * t + float(group.offset)
        mean = weights @ t / (float(weights.sum()) or 1.0)
        away = t - mean
        # One more report, anywhere: few that are equal show no spread.
        step = read.changed / heaviest if heaviest else 0.0
        more = float(squares.sum()) / max(kept.total, 1) * step**2
        return Moments(
            float(weights.sum()), float(squares.sum()), mean, squares @ away, squares @ away**2 + more,
            np.maximum(read.variance, 0.0) + more / 4, read.changed, read.added,
        )  # fmt: skip


@dataclass(frozen=True)
class Moments:
    """Sums over the reports of a cell: `weight` Σ w, `squares` Σ w², `mean` Σ w t / Σ w, `first` Σ w² (t − mean),
    `second` Σ w² (t − mean)² and `randomized` Σ w² Var(t | answer), which is what randomizing alone adds.

    One report that is changed to another moves Σ w t by at most `changed`, one more by `added`. Each person who holds
    a component adds `slope` to its part of `randomized`.
    """

    weight: float
    squares: float
    mean: Floats
    first: Floats
    second: Floats
    randomized: Floats
    changed: float
    added: float
    slope: float = 0.0


def cells_of(
    plan: Plan,
    tallies: Tally | Mapping[tuple[str, ...], Tally],
    by: Sequence[str] = (),
    *,
    group_column: str = "group",
    group_parts: Sequence[str] = (),
) -> list[Cell]:
    """The cells of one tally, or of tallies by what stands in the public columns `by`.

    Cells are labelled by these columns, by their group under the name `group_column`, and, where groups are crossed, by
    the groups' parts under the names `group_parts`.
    """
    parts = margins(plan, group_parts) if group_parts else {}
    several = {(): tallies} if isinstance(tallies, Tally) else tallies
    found = []
    for key, tally in several.items():
        tally.check(plan)
        columns = dict(zip(by, key, strict=True))
        for group in plan.groups:
            kept = tally.groups.get(group.name)
            if kept is not None and kept.total:
                named = {} if group.name is None else {group_column: group.name, **parts.get(group.name, {})}
                found.append(Cell(plan, {**named, **columns}, group, kept))
    return found
