"""A plan made of somebody else's design, in words."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from rich.console import Console
from rich.markup import escape

from tacit.mechanism.levels import percent
from tacit.plan import Group, Plan
from tacit.show.sentences import group_label
from tacit.show.terminal import group_summary, print_promises, table

#: Beliefs that people can picture: what becomes of them.
_BELIEFS = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2))
#: Longer lists of reports are cut.
_SHOWN = 16


def adopted_summary(plan: Plan, labels: Sequence[str]) -> dict[str, Any]:
    """For JSON: levels and beliefs of each group, and what each report was called."""
    return {
        "labels": list(labels),
        "groups": [group_summary(each) | {"beliefs": _beliefs(each)} for each in plan.groups],
    }


def _beliefs(group: Group) -> list[dict[str, str]] | None:
    """What a report can make of a belief in any value, whatever else is believed: odds times or over the LDP ratio."""
    ratio = group.audit.ldp.ratio
    if ratio is None:
        return None
    ends = [(before, before * ratio / (1 - before + before * ratio)) for before in _BELIEFS]
    least = [before / (before + (1 - before) * ratio) for before in _BELIEFS]
    return [
        {"before": percent(before), "at_most": percent(most, "up"), "at_least": percent(low, "down")}
        for (before, most), low in zip(ends, least, strict=True)
    ]


def print_adopted(console: Console, plan: Plan, labels: Sequence[str], path: str) -> None:
    """What the design promised, and which report is which."""
    if len(plan.groups) == 1 or not all(group.without_prior for group in plan.groups):
        print_promises(console, plan)
    shown = table("group", "level", "believed before", "at most", "at least", left=2)
    for group in plan.groups:
        name, level = group_label(group.name), f"{group.notion.upper()} {float(group.epsilon):g}"
        for place, belief in enumerate(_beliefs(group) or ()):
            first = (name, level) if place == 0 else ("", "")
            shown.add_row(*map(escape, first), *belief.values())
    if shown.row_count:
        console.print(shown)
        console.print("[dim]whatever else is believed; the level is that of the rounded channel, rounded up.[/dim]")
    if all(group.without_prior for group in plan.groups):
        console.print("Nothing is taken to be known: estimates do not use a prior, and none is checked.")
    called = ", ".join(f"{y}: {label}" for y, label in enumerate(labels[:_SHOWN]))
    console.print(f"Reports are {escape(called)}{', …' if len(labels) > _SHOWN else ''}.", soft_wrap=True)
    console.print(f"\nWrote [bold]{escape(path)}[/bold], plan {plan.hash[:12]}.", soft_wrap=True)
