"""Choosing ε and how many to ask, for people: tables and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from rich.console import Console
from rich.markup import escape

from tacit.mechanism import Belief
from tacit.mechanism.levels import percent
from tacit.plan import Plan
from tacit.show.sentences import factor, group_label, significant
from tacit.show.terminal import table


def warning(plan: Plan, name: str | None, moved: Belief) -> str:
    """What it means that a belief nearly becomes certain."""
    whose = "" if name is None else f" of group {group_label(name)!r}"
    epsilon = max(float(group.epsilon) for group in plan.groups)
    return (
        f"ε = {epsilon:g} protects little: somebody{whose} who is believed to be {moved.value!r} with "
        f"{percent(moved.prior)} may be believed with {percent(moved.high, 'up')} after one report. Ask more people, "
        "or accept a larger error."
    )


def detection(found: Mapping[str, Any], counts_people: bool) -> str:
    """How many respondents show a difference, as a sentence."""
    size = f"{found['difference'] * 100:g} percentage points" if counts_people else f"{found['difference']:g}"
    told = (
        f"A difference of {size} is seen with a power of {found['power']:.0%} (two-sided, 5%) from "
        f"{found['per_wave']:,} respondents in each of two waves of different people"
    )
    if found["groups"] is not None:
        first, second = found["groups"]
        told += f", and from {found['per_group']:,} in each of two groups ({first} and {second} need most)"
    return told + "."


def print_advice(
    console: Console, plan: Plan, summary: Mapping[str, Any], sure: tuple[str | None, Belief] | None
) -> None:
    """Beside a plan: who shows a difference, and what is no secret any more."""
    if summary["detect"] is not None:
        console.print(escape(detection(summary["detect"], plan.task.counts_people)), soft_wrap=True)
    if sure is not None:
        console.print(f"[yellow]warning:[/yellow] {escape(warning(plan, *sure))}", soft_wrap=True)


def print_guide(console: Console, task: Any, rows: Sequence[Mapping[str, Any]], respondents: int) -> None:
    """A table of budgets: what beliefs become, beside the precision."""
    people = task.counts_people
    detected = rows[0]["detect"]
    heads = [f"{float(p):.0%} →" for p in rows[0]["beliefs"]]
    extra = (["in points"] if people else []) + (["to see it"] if detected else [])
    shown = table("ε", "factor", *heads, "error", *extra)
    for row in rows:
        points = [f"±{row['expected_rmse'] / respondents * 100:.2g}"] if people else []
        shown.add_row(
            f"{row['epsilon']:g}" + (" [yellow]![/yellow]" if row["reaches_90"] else ""),
            f"× {factor(Fraction(row['factor']))}",
            *(f"≤ {percent(Fraction(high), 'up')}" for high in row["beliefs"].values()),
            f"±{significant(row['expected_rmse'])}",
            *points,
            *([f"{row['detect']['per_wave']:,}"] if detected else []),
        )
    console.print(shown)
    told = (
        "factor: how far a report changes any belief, at most, up or down.  1% →: what a belief of 1% can become.\n"
        f"error: one standard error of the {task.total_name}, with {respondents:,} respondents."
    )
    if detected:
        told += "  to see it: respondents in each of two waves that show the difference."
    console.print(f"[dim]{told}[/dim]", soft_wrap=True)
    if any(row["reaches_90"] for row in rows):
        console.print("[yellow]![/yellow]: a belief that the priors state, of 50% or less, can reach 90%.")
    console.print("Nothing was written: choose ε, and plan with --epsilon.")
