"""Arms: groups that differ in nothing but their randomizer, because chance put people into them."""

from __future__ import annotations

from tacit.plan.contract import Group, Plan
from tacit.plan.crossing import CROSSED, crossed_name


def arm_name(group: str | None, number: int) -> str:
    """The name of an arm, counted from 1, of a group.

    >>> arm_name(None, 1), arm_name("north", 2)
    ('arm 1', 'north / arm 2')
    """
    arm = f"arm {number}"
    return arm if group is None else crossed_name([group, arm])


def arms_of(plan: Plan) -> dict[str | None, list[Group]]:
    """The arms of each group: those whose names are alike up to the last " / "; all groups if no name has one.

    Raises `ValueError` where a group has one arm only.
    """
    found: dict[str | None, list[Group]] = {}
    for group in plan.groups:
        found.setdefault((group.name or "").rpartition(CROSSED)[0] or None, []).append(group)
    for name, arms in found.items():
        if len(arms) < 2:
            whose = "This plan" if name is None else f"Group {name!r}"
            raise ValueError(
                f"{whose} has one arm only: whether people followed the rule shows where chance gave some of them "
                "another randomizer. Plan with --arms, or adopt a design of two groups."
            )
    return found
