"""Names of groups that are crossed: regions with ages, a group with its arms drawn by chance, with a block, with the
reports that its people sent earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tacit.plan._group import Group
from tacit.plan._recoding import CROSSED

if TYPE_CHECKING:
    from tacit.plan._plan import Plan

#: The group of people without earlier reports, and the beginning of the names of others: "after 1 0".
NEW, AFTER = "new", "after "


def crossed_name(parts: Iterable[str]) -> str:
    """The name of the group in which `parts` of these names meet.

    >>> crossed_name(["north", "18-24"])
    'north / 18-24'
    """
    return CROSSED.join(parts)


def margins(plan: Plan, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """For each group of a `plan`, by name, its category in each of the margins that were crossed: their `names`, in
    order.

    Raises `ValueError` where a group has more or fewer parts than there are names.

    >>> from tacit import make_plan
    >>> prior = {"yes": 0.2, "no": 0.8}
    >>> plan = make_plan({"north / old": prior, "south / old": prior}, "histogram", epsilon=1)
    >>> margins(plan, ["region", "age"])["north / old"]
    {'region': 'north', 'age': 'old'}
    """
    found = {}
    for group in plan.groups:
        parts = (group.name or "").split(CROSSED)
        if group.name is None or len(parts) != len(names) or len(set(names)) < len(names):
            got = "no named groups" if group.name is None else f"the group {group.name!r}"
            raise ValueError(
                f"Crossed groups must have one part, between '{CROSSED}', for each of {', '.join(names)}. Got {got}."
            )
        found[group.name] = dict(zip(names, parts, strict=True))
    return found


def arm_name(group: str | None, number: int) -> str:
    """The name of an arm by its `number`, counted from 1, of a `group`, None if the plan has no named groups.

    Arms differ in their randomizer only.

    >>> arm_name(None, 1), arm_name("north", 2)
    ('arm 1', 'north / arm 2')
    """
    arm = f"arm {number}"
    return arm if group is None else crossed_name([group, arm])


def followed_name(group: str | None, report: int | None) -> str:
    """The group of the next wave for people of a `group`, by the belief rule: what they sent is part of its name.

    `report` is what they sent, None if they did not take part. Where groups have no names, people without any report
    are in the group "new".

    >>> followed_name(None, None), followed_name(None, 1), followed_name("after 1", None), followed_name("after 1 -", 0)
    ('new', 'after 1', 'after 1 -', 'after 1 - 0')
    >>> followed_name("north", 1), followed_name("north / after 1", 0)
    ('north / after 1', 'north / after 1 0')
    """
    head, _, last = (group or "").rpartition(CROSSED)
    if not last.startswith(AFTER):
        head, last = "" if group in (None, NEW) else str(group), ""
    if report is None and not last:
        return head or NEW
    sent = "-" if report is None else str(report)
    after = f"{last} {sent}" if last else AFTER + sent
    return crossed_name([head, after]) if head else after


def base_name(group: str | None) -> str | None:
    """The name in the first wave of a `group` of a wave by the belief rule; None where that has no named groups.

    >>> base_name("north / after 1 0"), base_name("after 1"), base_name("new"), base_name("north")
    ('north', None, None, 'north')
    """
    head, _, last = (group or "").rpartition(CROSSED)
    if last.startswith(AFTER):
        return head or None
    return None if group == NEW else group


def arms_of(plan: Plan) -> dict[str | None, list[Group]]:
    """The arms of each group of a `plan`, by the group's name: those whose names are alike up to the last " / "; all
    groups if no name has one.

    Raises `ValueError` where a group has one arm only.

    >>> from tacit import GroupPrior, Prior, Survey, make_plan
    >>> from tacit.designs.planning import in_arms
    >>> priors = in_arms([GroupPrior(name="old", prior=Prior.of({"yes": 0.2, "no": 0.8}))], [0.5, 1.5])
    >>> {name: len(arms) for name, arms in arms_of(make_plan(priors, Survey("yes"), None)).items()}
    {'old': 2}
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


def block_name(group: str | None, number: int) -> str:
    """The name of a block by its `number`, counted from 1, in a `group`, None if the plan has no named groups.

    Under it the reports of both together are counted.

    >>> block_name(None, 1), block_name("north", 2)
    ('block 1', 'north / block 2')
    """
    block = f"block {number}"
    return block if group is None else crossed_name([group, block])
