"""`tacit personal …`: the four steps for individual priors, and their audit. Argument parsing and printing only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from tacit.cli.app import (
    Force,
    JsonFlag,
    KeepOrder,
    KeptColumns,
    OffsetColumn,
    Output,
    Overwrite,
    PlanFile,
    ReportColumn,
    ScopeOption,
    TaskOption,
    ValueOption,
    WeightColumn,
    check_target,
    does_not_hold,
    err,
    escape,
    keep_plan,
    keep_reports,
    keep_tally,
    option,
    out,
    print_json,
    progress_bar,
    registered,
    tell_perturbed,
    tell_refused,
    write_plan,
    write_tally,
)

app = typer.Typer(help="Individual priors: each record brings its own.", no_args_is_help=True)
registered.add_typer(app, name="personal")


@app.command("plan")
def plan_command(
    values: Annotated[list[str], typer.Argument(help="The possible answers, in order.")],
    task: TaskOption,
    epsilon: Annotated[str, option(help="Budget ε: a report changes any belief by at most e^ε.")],
    output: Output = "plan.json",
    value: ValueOption = None,
    resolution: Annotated[int, option(help="Priors are multiples of 1 over this.")] = 10_000,
    question: Annotated[str | None, option(help="The question, kept in the plan.")] = None,
    overwrite: Overwrite = False,
    as_json: JsonFlag = False,
) -> None:
    """Write the contract: no prior is in it."""
    from tacit.designs import GroupPrior
    from tacit.designs.planning import make_task
    from tacit.personal import PersonalPlan
    from tacit.prior import Prior, numbers_if_all

    domain = tuple(numbers_if_all(values))
    check_target(output)
    everybody = GroupPrior(name=None, prior=Prior.uniform(domain))
    wanted = make_task(task, value or [], [everybody])
    made = PersonalPlan.of(wanted, domain, epsilon, resolution, question=question)
    keep_plan(output, made.hash, overwrite)
    write_plan(made, output)
    console = err if output == "-" else out
    if as_json:
        print_json({"plan": made.hash, "file": output}, console)
    elif output != "-":
        console.print(f"wrote {escape(output)}")


@app.command("perturb")
def perturb_command(
    plan: PlanFile,
    answers: Annotated[str, typer.Argument(help="Answers and priors; - for standard input.")],
    output: Annotated[str, option("-o", "--output", help="Reports; - for standard output.")] = "-",
    column: Annotated[str, option(help="Column with the answers.")] = "value",
    prior_column: Annotated[str, option(help="Column, or start of the columns, with the priors.")] = "prior",
    keep: KeptColumns = None,
    keep_order: KeepOrder = False,
    force: Force = False,
    on_unknown: Annotated[Literal["stop", "skip"], option(help="What to do with bad rows.")] = "stop",
    overwrite: Overwrite = False,
    as_json: JsonFlag = False,
) -> None:
    """Randomize answers; the quantised prior travels with the report."""
    from tacit.personal import PersonalPlan
    from tacit.personal.files import perturb_file

    check_target(output, plan, answers)
    keep_reports(output, overwrite)
    with progress_bar("randomizing") as watch:
        options: dict[str, Any] = {"column": column, "prior_column": prior_column, "keep": tuple(keep or ())}
        options |= {"keep_order": keep_order, "force": force, "on_unknown": on_unknown}
        done = perturb_file(PersonalPlan.load(plan), answers, output, progress=watch, **options)
    tell_perturbed(done, output, keep_order, as_json)


@app.command("tally")
def tally_command(
    plan: PlanFile,
    reports: Annotated[list[str], typer.Argument(help="Files of reports with their priors, or tallies (.json).")],
    output: Output = "tally.json",
    report_column: ReportColumn = "report",
    prior_column: Annotated[str, option(help="Column, or start of the columns, with the priors.")] = "prior",
    weight_column: WeightColumn = None,
    offset_column: OffsetColumn = None,
    overwrite: Overwrite = False,
    as_json: JsonFlag = False,
) -> None:
    """Count reports per prior, and merge tallies. A tally that is there is replaced, nothing else."""
    from functools import reduce

    from tacit.personal import PersonalPlan
    from tacit.personal.estimates import PersonalTally
    from tacit.personal.files import load_tally, save_tally, tally_file

    loaded = PersonalPlan.load(plan)
    check_target(output, plan, *reports)
    keep_tally(output, overwrite)
    if len({Path(path).resolve() for path in reports}) < len(reports):
        raise ValueError("A file is named twice, and would count twice.")
    options: dict[str, Any] = {
        "report_column": report_column, "prior_column": prior_column, "weight_column": weight_column,
        "offset_column": offset_column,
    }  # fmt: skip
    parts = [
        load_tally(loaded, path) if path.endswith(".json") else tally_file(loaded, path, **options) for path in reports
    ]
    tally = reduce(PersonalTally.merge, parts)
    write_tally(tally, save_tally, output, "counted", as_json)


@app.command("estimate")
def estimate_command(
    plan: PlanFile,
    tally: Annotated[Path, typer.Argument(help="A tally, as `tacit personal tally` wrote it.")],
    estimator: Annotated[Literal["mmse", "unbiased"], option(help="mmse trusts the priors.")] = "unbiased",
    level: Annotated[float, option(help="Level of the intervals.")] = 0.95,
    scope: ScopeOption = None,
    project: Annotated[bool, option("--project", help="Move estimates to possible counts.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Estimate the total with intervals, and check the reports against the priors."""
    from tacit.personal import PersonalPlan
    from tacit.personal.estimates import estimate
    from tacit.personal.files import load_tally
    from tacit.plan import Plan
    from tacit.show.results import print_estimate

    loaded = PersonalPlan.load(plan)
    counted = load_tally(loaded, tally)
    result = estimate(loaded, counted, estimator, level, scope=scope, project=project)
    if as_json:
        print_json({"plan": loaded.hash} | result.to_dict() | {"refused": counted.refused})
        return
    # It reads the plan's question, task and values only.
    print_estimate(out, cast(Plan, loaded), result)
    tell_refused(counted.refused, " with their priors", weighted=counted.counts.sums is not None)


def audit_personal(data: dict[str, Any], as_json: bool) -> None:
    """`tacit audit` of a plan for individual priors: its bound, and the channel of every prior where these are few."""
    from tacit.personal.contract import PersonalPlan, check_every_prior

    try:
        plan = PersonalPlan.from_dict(data)
        checked = check_every_prior(plan)
    except ValueError as error:
        raise does_not_hold(error, as_json) from error
    if as_json:
        facts = {"epsilon": str(plan.epsilon), "bound": str(plan.bound), "priors_checked": checked}
        print_json({"holds": True, "plan": plan.hash} | facts)
        return
    if checked is None:
        found = "So it is for every prior: the rule proves it, and each prior is checked when it is used."
    else:
        found = f"The channels of all {checked:,} priors that a record can bring keep to it."
    out.print(
        f"A plan for individual priors, {plan.hash[:12]}. ε = {float(plan.epsilon):g}: a report changes any belief by "
        f"at most a factor {float(plan.bound):.4g}, up or down; it is at most e^ε, checked in exact integers. {found}",
        soft_wrap=True,
    )
