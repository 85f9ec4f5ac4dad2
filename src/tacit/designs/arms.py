"""Two arms for each group, so that the reports show who did not follow the rule (`tacit.estimates.compliance`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tacit.designs.prior_file import GroupPrior
from tacit.exact import Number, budget
from tacit.plan import arm_name


def in_arms(groups: Sequence[GroupPrior], budgets: Sequence[Number]) -> list[GroupPrior]:
    """Every group once for each budget, with the same prior: chance decides who is asked with which.

    >>> from tacit import Prior
    >>> [(each.name, float(each.epsilon)) for each in in_arms([GroupPrior(name=None, prior=Prior.uniform(2))], [1, 2])]
    [('arm 1', 1.0), ('arm 2', 2.0)]
    """
    levels = [budget(each, "arms") for each in budgets]
    if len(levels) < 2 or len(set(levels)) < len(levels):
        raise ValueError("Arms need at least two different budgets, as in --arms 0.5,1.5.")
    if any(group.epsilon is not None for group in groups):
        raise ValueError("The groups state their own budgets. Drop the 'epsilon' column, or the arms.")
    return [
        replace(group, name=arm_name(group.name, number), epsilon=level, share=group.share / len(levels))
        for group in groups
        for number, level in enumerate(levels, start=1)
    ]
