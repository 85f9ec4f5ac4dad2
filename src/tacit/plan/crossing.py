"""Groups that are crossed, such as regions with ages: how they are named, and how they fall into margins again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tacit.plan.contract import Plan

#: Stands between the parts of a crossed group's name: "north / 18-24".
CROSSED = " / "


def crossed_name(parts: Iterable[str]) -> str:
    """The name of the group in which these parts meet.

    >>> crossed_name(["north", "18-24"])
    'north / 18-24'
    """
    return CROSSED.join(parts)


def margins(plan: Plan, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """For each group what its parts are, by the `names` of the margins that were crossed, in their order.

    Raises `ValueError` where a group has more or fewer parts than there are names.
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
