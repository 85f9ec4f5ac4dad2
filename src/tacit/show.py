"""What the command prints: plans, promises, channels and estimates in words and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tacit.audit import Belief, belief, percent
from tacit.channel import Channel
from tacit.estimate import Estimate
from tacit.plan import Group, Plan
from tacit.planning import GroupPrior, expected_rmse, ldp_comparison
from tacit.prior import Value

#: Longer tables are cut when printed for people; JSON and files hold everything.
MAX_ROWS = 20


def group_summary(group: Group) -> dict[str, Any]:
    """One group for JSON."""
    certificate = group.certificate
    mechanism = group.mechanism
    return {
        "group": group.name,
        "epsilon": float(group.epsilon),
        "outputs": mechanism.n_outputs if isinstance(mechanism, Channel) else None,
        "mse": None if certificate is None else certificate.error,
        "mse_lower_bound": None if certificate is None else certificate.error_bound,
        "prior_variance": None if certificate is None else certificate.prior_variance,
        "method": None if certificate is None else certificate.method,
        "levels": {name: None if math.isinf(level) else level for name, level in group.levels.items()},
    }


def plan_summary(plan: Plan, priors: Sequence[GroupPrior], respondents: int) -> dict[str, Any]:
    """What a plan costs, for JSON: per group, for all respondents, and with LDP instead."""
    groups = [group_summary(group) for group in plan.groups]
    shares = [each.share for each in priors]
    for facts, group, each in zip(groups, plan.groups, priors, strict=True):
        ldp = None if group.notion == "ldp" else ldp_comparison(each, plan.task, group.epsilon)
        facts["mse_ldp"] = None if ldp is None else ldp.certificate.error
    return {"groups": groups, "respondents": respondents, "expected_rmse": expected_rmse(plan, shares, respondents)}


def print_plan(console: Console, plan: Plan, summary: dict[str, Any], path: Path) -> None:
    """A plan for people: the promise in words, the cost, and what LDP would have cost."""
    table = Table("group", "ε", "reports", "error", "at best", "no data", "best LDP", "method")
    for column in table.columns[1:7]:
        column.justify = "right"
    for facts in summary["groups"][:MAX_ROWS]:
        table.add_row(
            "everybody" if facts["group"] is None else facts["group"],
            f"{facts['epsilon']:g}",
            "circle" if facts["outputs"] is None else str(facts["outputs"]),
            *(_error(facts[key]) for key in ("mse", "mse_lower_bound", "prior_variance", "mse_ldp")),
            facts["method"],
        )
    console.print(table)
    console.print(
        "Errors are root mean squared, per respondent; “at best” is proven for any channel with this promise."
    )
    console.print(
        f"With {summary['respondents']:,} respondents the estimated total is expected to be off by about "
        f"±{summary['expected_rmse']:.4g}."
    )
    console.print()
    print_promises(console, plan)
    console.print(f"\nWrote [bold]{path}[/bold], plan {plan.hash[:12]}.")


def print_promises(console: Console, plan: Plan) -> None:
    """The promise of each group, in words from the plan's own numbers."""
    for group in plan.groups[:MAX_ROWS]:
        name = "Everybody" if group.name is None else f"Group {group.name}"
        console.print(f"[bold]{name}[/bold]: {promise(group)}", soft_wrap=True)
    if len(plan.groups) > MAX_ROWS:
        console.print(f"… and {len(plan.groups) - MAX_ROWS} more groups.")


def promise(group: Group) -> str:
    """What a respondent of this group is promised."""
    odds = math.exp(group.levels["ldp"])
    against = f"against any other belief, odds change by at most a factor of {math.ceil(odds * 100) / 100:g}"
    return f"whatever you answer, {_belief(group)}; {against}."


def _belief(group: Group) -> str:
    rarest = min(group.prior.support, key=lambda x: group.prior.weights[x])
    value = group.prior.values[rarest]
    if isinstance(group.mechanism, Channel):
        return str(belief(group.mechanism, group.prior, value))
    highest, lowest = group.mechanism.levels()
    prior = group.prior.probability(value)
    return str(Belief(value, prior, max(Fraction(0), prior * lowest), min(Fraction(1), prior * highest)))


def print_audit(console: Console, plan: Plan) -> None:
    """Levels and promises of a plan that holds."""
    table = Table("group", "promised", "LIP", "up", "down", "LDP", "mutual information")
    for group in plan.groups[:MAX_ROWS]:
        levels = [_level(group.levels[name]) for name in ("lip", "lip_upper", "lip_lower", "ldp", "mip")]
        stated = f"{group.notion.upper()} {float(group.epsilon):g}"
        table.add_row("everybody" if group.name is None else group.name, stated, *levels)
    console.print(table)
    print_promises(console, plan)
    outside = [value for value, weight in zip(plan.values, plan.groups[0].prior.weights, strict=True) if not weight]
    if outside:
        console.print(f"Outside the guarantee (prior zero): {', '.join(map(str, outside[:8]))}.")
    console.print(
        f"\n[green]The plan holds.[/green] Decided in exact integers; levels are rounded up. Plan {plan.hash}."
    )


def channel_facts(group: Group) -> dict[str, Any]:
    """The exact integers of one group, for JSON."""
    if not isinstance(group.mechanism, Channel):
        return {"group": group.name, "mechanism": group.to_dict()["mechanism"]}
    return {
        "group": group.name,
        "values": list(group.prior.values),
        "prior": list(group.prior.weights),
        "weights": [[str(cell) for cell in row] for row in group.mechanism.weights],
        "denominator": str(group.mechanism.denominator),
        "labels": list(group.mechanism.labels),
    }


def print_channels(console: Console, groups: Sequence[dict[str, Any]]) -> None:
    """Channels as percentages; the exact integers are in the JSON."""
    for facts in groups[:MAX_ROWS]:
        console.print(f"[bold]{'everybody' if facts['group'] is None else facts['group']}[/bold]")
        if "weights" not in facts:
            console.print("an implicit mechanism on a circle; see --json")
            continue
        labels = facts["labels"][:MAX_ROWS]
        table = Table("answer", "prior", *(f"report {y} ({label})" for y, label in enumerate(labels)))
        total, denominator = sum(facts["prior"]), int(facts["denominator"])
        for value, weight, row in list(zip(facts["values"], facts["prior"], facts["weights"], strict=True))[:MAX_ROWS]:
            cells = [percent(Fraction(int(cell), denominator)) for cell in row[:MAX_ROWS]]
            table.add_row(str(value), percent(Fraction(weight, total)), *cells)
        console.print(table)
        console.print(f"over {denominator} = 2^{denominator.bit_length() - 1}; exact integers with --json")


def print_estimate(console: Console, plan: Plan, result: Estimate) -> None:
    """Estimates with intervals, the largest first where there are many, and the prior check in words."""
    table = Table("", "estimate", "± standard error", f"{result.level:.0%} interval")
    for column in table.columns[1:]:
        column.justify = "right"
    rows = result.rows
    if len(rows) > MAX_ROWS:
        rows = tuple(sorted(rows, key=lambda row: -row.estimate)[:MAX_ROWS])
    for row in rows:
        name = row_name(plan, row.value)
        table.add_row(name, f"{row.estimate:,.1f}", f"{row.standard_error:,.1f}", f"{row.low:,.1f} … {row.high:,.1f}")
    console.print(f"{result.n_reports:,} reports, estimator {result.estimator}")
    console.print(table)
    if len(result.rows) > MAX_ROWS:
        console.print(f"… the largest {MAX_ROWS} of {len(result.rows)}; all with --json.")
    if len(result.rows) == 1 and result.n_reports:
        mean = result.mean
        console.print(f"per respondent: {mean.estimate:.4g} ({mean.low:.4g} … {mean.high:.4g})")
    for sentence in prior_sentences(result):
        console.print(sentence, soft_wrap=True)
    console.print(f"One forged report can move an estimate by at most {result.influence:.3g}.")


def prior_sentences(result: Estimate) -> list[str]:
    """The prior check in words: each group that is contradicted, or one sentence if none is."""
    checks = result.prior_check
    alarms = [f"[yellow]{check}[/yellow]" for check in checks if check.contradicted]
    if alarms or len(checks) <= 1:
        return alarms or [str(check) for check in checks]
    least = min(check.p_value for check in checks)
    return [f"The reports of all {len(checks)} groups agree with their priors (smallest p = {least:.2g})."]


def row_name(plan: Plan, value: Value | None) -> str:
    """How a row is called: its value, the surveyed set, or the sum."""
    from tacit.task import Survey

    if value is not None:
        return str(value)
    return " or ".join(map(str, plan.task.wanted)) if isinstance(plan.task, Survey) else "total"


def _error(mean_square: float | None) -> str:
    return "–" if mean_square is None else f"{math.sqrt(mean_square):.4g}"


def _level(level: float) -> str:
    return "∞" if math.isinf(level) else f"{math.ceil(level * 10000) / 10000:.4f}"
