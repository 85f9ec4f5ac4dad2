"""`tacit personal …`: the four steps for individual priors, and their audit. Argument parsing and printing only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from tacit.cli import app as cli

app = cli.Commands(help="Individual priors: each record brings its own.", no_args_is_help=True)
cli.registered.add_typer(app, name="personal")


@app.command("plan")
def plan_command(
    values: Annotated[list[str], typer.Argument(help="The possible answers, in order.")],
    task: cli.TaskOption,
    epsilon: Annotated[str, cli.option(help="Budget ε: a report changes any belief by at most e^ε.")],
    to: cli.Target = cli.TO_PLAN,
    value: cli.ValueOption = None,
    resolution: Annotated[int, cli.option(help="Priors are multiples of 1 over this.")] = 10_000,
    question: Annotated[str | None, cli.option(help="The question, kept in the plan.")] = None,
) -> None:
    """Write the contract: no prior is in it."""
    from tacit.designs import GroupPrior
    from tacit.designs.planning import make_task
    from tacit.personal import PersonalPlan
    from tacit.prior import Prior, numbers_if_all

    domain = tuple(numbers_if_all(values))
    to.check()
    everybody = GroupPrior(name=None, prior=Prior.uniform(domain))
    wanted = make_task(task, value or [], [everybody])
    made = PersonalPlan.of(wanted, domain, epsilon, resolution, question=question)
    if to.put_plan(made) and to.output != "-":
        cli.out.print(f"wrote {cli.escape(to.output)}")


@app.command("perturb")
def perturb_command(
    plan: cli.PlanFile,
    answers: Annotated[str, typer.Argument(help="Answers and priors; - for standard input.")],
    to: cli.Target = cli.TO_OUTPUT,
    column: Annotated[str, cli.option(help="Column with the answers.")] = "value",
    prior_column: Annotated[str, cli.option(help="Column, or start of the columns, with the priors.")] = "prior",
    keep: cli.KeptColumns = None,
    keep_order: cli.KeepOrder = False,
    force: cli.Force = False,
    on_unknown: Annotated[Literal["stop", "skip"], cli.option(help="What to do with bad rows.")] = "stop",
) -> None:
    """Randomize answers; the quantised prior travels with the report."""
    from tacit.personal import PersonalPlan
    from tacit.personal.files import perturb_file

    to.check(plan, answers)
    cli.keep_reports(to.output, to.overwrite)
    with cli.progress_bar("randomizing") as watch:
        options: dict[str, Any] = {"column": column, "prior_column": prior_column, "keep": tuple(keep or ())}
        options |= {"keep_order": keep_order, "force": force, "on_unknown": on_unknown}
        done = perturb_file(PersonalPlan.load(plan), answers, to.output, progress=watch, **options)
    cli.tell_perturbed(done, to, keep_order)


@app.command("tally")
def tally_command(
    plan: cli.PlanFile,
    reports: Annotated[list[str], typer.Argument(help="Files of reports with their priors, or tallies (.json).")],
    to: cli.Target = cli.TO_TALLY,
    report_column: cli.ReportColumn = "report",
    prior_column: Annotated[str, cli.option(help="Column, or start of the columns, with the priors.")] = "prior",
    weight_column: cli.WeightColumn = None,
    offset_column: cli.OffsetColumn = None,
) -> None:
    """Count reports per prior, and merge tallies. A tally that is there is replaced, nothing else."""
    from functools import reduce

    from tacit.personal import PersonalPlan
    from tacit.personal.estimates import PersonalTally
    from tacit.personal.files import load_tally, save_tally, tally_file

    loaded = PersonalPlan.load(plan)
    to.check(plan, *reports)
    to.keep_tally()
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
    to.put_tally(tally, save_tally, "counted")


@app.command("estimate")
def estimate_command(
    plan: cli.PlanFile,
    tally: Annotated[Path, typer.Argument(help="A tally, as `tacit personal tally` wrote it.")],
    estimator: Annotated[Literal["mmse", "unbiased"], cli.option(help="mmse trusts the priors.")] = "unbiased",
    level: cli.LevelOption = 0.95,
    scope: cli.ScopeOption = None,
    project: Annotated[bool, cli.option("--project", help="Move estimates to possible counts.")] = False,
    as_json: cli.JsonFlag = False,
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
        cli.print_json({"plan": loaded.hash} | result.to_dict() | {"refused": counted.refused})
        return
    # It reads the plan's question, task and values only.
    print_estimate(cli.out, cast(Plan, loaded), result)
    cli.tell_refused(counted.refused, " with their priors", weighted=counted.counts.sums is not None)


def audit_personal(data: dict[str, Any], as_json: bool) -> None:
    """`tacit audit` of a plan for individual priors: its bound, and the channel of every prior where these are few."""
    from tacit.personal.contract import PersonalPlan, check_every_prior

    try:
        plan = PersonalPlan.from_dict(data)
        checked = check_every_prior(plan)
    except ValueError as error:
        raise cli.does_not_hold(error, as_json) from error
    if as_json:
        facts = {"epsilon": str(plan.epsilon), "bound": str(plan.bound), "priors_checked": checked}
        cli.print_json({"holds": True, "plan": plan.hash} | facts)
        return
    if checked is None:
        found = "So it is for every prior: the rule proves it, and each prior is checked when it is used."
    else:
        found = f"The channels of all {checked:,} priors that a record can bring keep to it."
    cli.out.print(
        f"A plan for individual priors, {plan.hash[:12]}. ε = {float(plan.epsilon):g}: a report changes any belief by "
        f"at most a factor {float(plan.bound):.4g}, up or down; it is at most e^ε, checked in exact integers. {found}"
    )
