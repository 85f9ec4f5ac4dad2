"""Who did not follow the rule, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from tacit.estimates import Compliance, PooledCompliance, Span
from tacit.plan import Plan
from tacit.show.sentences import row_name
from tacit.show.terminal import table

#: Tests speak below this.
_LEVEL = 0.05
_POOLED = (
    "Groups count as many people as they have reports. It is not the mean of the shares below: these cannot lie below "
    "0, so they are too large on average."
)


def print_compliance(
    console: Console, plan: Plan, found: Sequence[Compliance], pooled: PooledCompliance | None, says: int | None
) -> None:
    """The share that did not follow, the test of it, and what that means for each answer."""
    if pooled is not None:
        console.print("[bold]All groups together[/bold]")
        console.print(_verdict(pooled), soft_wrap=True)
        console.print(f"[dim]{_POOLED}[/dim]\n", soft_wrap=True)
    for each in found:
        if each.group is not None:
            console.print(f"[bold]{escape(each.group)}[/bold]")
        console.print(_verdict(each), soft_wrap=True)
        shown = table("answer", "none of them", "like the others", "all of them")
        for row in each.rows:
            name = escape(row_name(plan, row.value))
            shown.add_row(name, *(_told(span) for span in (row.least, row.alike, row.most)))
        console.print(shown)
        if each.fit is not None and each.fit < _LEVEL:
            console.print(
                f"[yellow]The model does not fit (p = {each.fit:.2g}): people who did not follow did something else, "
                "or the arms are not alike.[/yellow]",
                soft_wrap=True,
            )
    console.print(f"[dim]{_assumptions(found[0], says)}[/dim]", soft_wrap=True)


def expected_sentence(errors: Sequence[Mapping[str, Any]], respondents: int) -> str:
    """How well a plan's arms will show who does not follow, for the group that they show it worst."""
    if any(each["error"] is None for each in errors):
        return "These arms cannot show who does not follow the rule: take budgets that are further apart."
    worst = max(errors, key=lambda each: float(each["error"]))
    where = "" if len(errors) == 1 else f" of group {worst['group']!r}, where it shows least,"
    return (
        f"With {respondents:,} respondents the share{where} that does not follow the rule shows to "
        f"±{worst['error'] * 100:.1f} percentage points (one standard error), if they always send the same report."
    )


def _verdict(each: Compliance | PooledCompliance) -> str:
    gone = each.not_following
    share = f"[bold]{_percent(gone.estimate)}[/bold] ({each.level * 100:g}% interval {_interval(gone)})"
    if each.p_value < _LEVEL:
        test = f"That all of them followed is rejected (p = {each.p_value:.2g})."
    else:
        shown = "p > 0.5" if each.p_value > 0.5 else f"p = {each.p_value:.2g}"
        test = f"The reports do not show that anybody did not follow ({shown}); the interval says how many may be."
    return f"Of {each.n_reports:,} people, did not follow the rule: {share}. {test}"


def _assumptions(each: Compliance, says: int | None) -> str:
    sent = "any report at random" if says is None else f"report {says}"
    checked = "" if each.fit is not None else " The arms give as many numbers as there are unknowns: no check of that."
    return (
        "Share of the people who hold each answer, if none, as many or all of those who did not follow hold it. It is "
        "taken that arms were assigned at random, that as many do not follow in each, and that these send "
        f"{sent}.{checked} Who follows the rule but with another answer than their own looks like somebody who holds "
        "it: nothing shows that. A change of the answers themselves since the prior is no reason to reject: it is in "
        "all arms."
    )


def _told(span: Span) -> str:
    return f"{_percent(span.estimate)} ({_interval(span)})"


def _interval(span: Span) -> str:
    return f"{span.low * 100:.1f} … {_percent(span.high)}"


def _percent(share: float) -> str:
    return f"{share * 100:.1f}%"
