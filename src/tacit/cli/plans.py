"""`tacit plan`, `audit` and `channel`: making a plan and looking at it. Argument parsing and printing only."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape

from tacit.cli.app import (
    DesignName,
    JsonFlag,
    Output,
    PlanFile,
    PriorFile,
    TaskOption,
    ValueOption,
    app,
    check_target,
    err,
    message_of,
    option,
    out,
    print_json,
    progress_bar,
)

_DESIGNS = "auto, closed-form, columns, core-tail, coreless or repaired."
_AIMS = "Least error of estimates that use the prior (mmse) or do not (unbiased)."
_TARGET = "Instead of --epsilon: find the smallest ε with at most this error of the total."


@app.command("plan", epilog="Example: tacit plan priors.csv --task survey --value yes --epsilon 1 -o plan.json")
def plan_command(
    priors: PriorFile,
    task: TaskOption,
    output: Output = "plan.json",
    epsilon: Annotated[str | None, option(metavar="ε", help="A report changes any belief by at most e^ε.")] = None,
    value: ValueOption = None,
    notion: Annotated[Literal["lip", "ldp"], option(metavar="NOTION", help="The promise: lip or ldp.")] = "lip",
    method: Annotated[DesignName, option("--design", metavar="NAME", help=_DESIGNS)] = "auto",
    aim: Annotated[Literal["mmse", "unbiased"], option(metavar="AIM", help=_AIMS)] = "mmse",
    invertible: Annotated[bool, option("--invertible", help="Allow unbiased estimates as well.")] = False,
    ldp_cap: Annotated[str | None, option(metavar="ε", help="Also keep this LDP level.")] = None,
    max_reports: Annotated[int | None, option(metavar="N", help="At most this many reports.")] = None,
    target_rmse: Annotated[float | None, option(metavar="R", help=_TARGET)] = None,
    respondents: Annotated[int | None, option(metavar="N", help="How many will answer; else 1000.")] = None,
    question: Annotated[str | None, option(metavar="TEXT", help="The question, kept in the plan.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Design a mechanism for each group, check its promise exactly, and write the plan."""
    from tacit.designs import planning, read_priors
    from tacit.show import terminal

    check_target(output)
    groups = read_priors(priors)
    _check_budget(epsilon, target_rmse, respondents, all(each.epsilon is not None for each in groups))
    wanted, people = planning.make_task(task, value or [], groups), 1000 if respondents is None else respondents
    options: dict[str, Any] = {"notion": notion, "method": method.replace("closed-form", "closed form"), "aim": aim}
    options |= {"invertible": invertible, "ldp_cap": ldp_cap, "max_reports": max_reports, "question": question}
    with progress_bar("designing") as watch:
        if target_rmse is not None:
            made = planning.smallest_budget(groups, wanted, target_rmse, people, watch, **options)
        else:
            made = planning.make_plan(groups, wanted, epsilon, progress=watch, **options)
        made = planning.with_ldp(made)
        summary = terminal.plan_summary(made, [each.share for each in groups], people)
    if output == "-":
        print_json(made.to_dict())
    else:
        made.save(output)
    told = err if output == "-" else out
    if as_json:
        print_json({"plan": made.hash, "file": output, **summary}, told)
    else:
        terminal.print_plan(told, made, summary, output)


def _check_budget(epsilon: str | None, target_rmse: float | None, respondents: int | None, stated: bool) -> None:
    if epsilon is not None and target_rmse is not None:
        raise ValueError("Give --epsilon or --target-rmse, not both.")
    if target_rmse is not None and respondents is None:
        raise ValueError("--target-rmse is the error of the total, so it needs --respondents.")
    if epsilon is None and target_rmse is None and not stated:
        raise ValueError("Give --epsilon, or --target-rmse with --respondents, or a column 'epsilon'.")


@app.command("audit", epilog="Example: tacit audit plan.json")
def audit_command(plan: PlanFile, as_json: JsonFlag = False) -> None:
    """Verify a plan again, in exact integers, and explain what it promises. Exit code 1 if it does not hold."""
    from tacit.plan.contract import Plan
    from tacit.show import sentences, terminal

    try:
        data = json.loads(plan.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{plan} is not JSON: {error}.") from error
    if not isinstance(data, dict) or "tacit_plan" not in data:
        raise ValueError(f"{plan} is not a plan: it has no field 'tacit_plan'.")
    try:
        loaded = Plan.from_dict(data)
        with progress_bar("verifying certificates") as watch:
            _check_certificates(loaded, watch)
    except ValueError as error:
        if as_json:
            print_json({"holds": False, "reason": str(error)})
        err.print(f"[red]refused:[/red] {escape(message_of(error))}", soft_wrap=True)
        raise typer.Exit(1) from error
    if as_json:
        groups = [
            terminal.group_summary(group) | {"outside": sentences.outside_values(group)} for group in loaded.groups
        ]
        print_json({"holds": True, "plan": loaded.hash, "groups": groups})
    else:
        terminal.print_audit(out, loaded)


def _check_certificates(plan: Any, watch: Callable[[int, int], None]) -> None:
    """Raise if a certificate claims a bound that its duals do not prove, or of LDP worse than what LDP can do."""
    from tacit.designs.planning import ldp_comparison
    from tacit.designs.verification import verify_group
    from tacit.plan import PlanError

    verified: set[tuple[Any, ...]] = set()
    for done, group in enumerate(plan.groups):
        watch(done, len(plan.groups))
        key = group.prior, group.epsilon, group.certificate
        found = None if key in verified else verify_group(group, plan.task)
        verified.add(key)
        if found is None:
            continue
        if not found.bound_as_stated:
            raise PlanError(
                f"The certificate of group {group.name!r} states that no channel is better than "
                f"{group.certificate.aimed_lower_bound:.6g}; its duals prove only {found.lower_bound:.6g}."
            )
        stated = group.certificate.ldp_aimed
        again = None if stated is None else ldp_comparison(group.prior, plan.task, group.epsilon, group.certificate.aim)
        if stated is not None and (again is None or stated > again.certificate.aimed * 1.02):
            best = "nothing that can be checked" if again is None else f"{again.certificate.aimed:.6g}"
            raise PlanError(f"The certificate of group {group.name!r} states {stated:.6g} for LDP; it reaches {best}.")


@app.command("channel", epilog="Example: tacit channel plan.json --json")
def channel_command(plan: PlanFile, as_json: JsonFlag = False) -> None:
    """Print the numbers that devices use: Pr(report | answer), as exact integers with --json."""
    from tacit.plan.contract import Plan
    from tacit.show import terminal

    loaded = Plan.load(plan)
    groups = [terminal.channel_facts(group) for group in loaded.groups]
    if as_json:
        print_json({"plan": loaded.hash, "groups": groups})
    else:
        terminal.print_channels(out, groups)
