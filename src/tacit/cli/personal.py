"""`tacit personal …`: the four steps for individual priors. Argument parsing and printing only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from tacit.cli.app import (
    JsonFlag,
    KeptColumns,
    OffsetColumn,
    Output,
    Overwrite,
    PlanFile,
    TaskOption,
    ValueOption,
    WeightColumn,
    check_target,
    err,
    keep_plan,
    keep_reports,
    option,
    out,
    print_json,
    progress_bar,
    registered,
    warn_of_kept,
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
    made.save(output)
    if as_json:
        print_json({"plan": made.hash, "file": str(output)})
    else:
        out.print(f"wrote {output}")


@app.command("perturb")
def perturb_command(
    plan: PlanFile,
    answers: Annotated[str, typer.Argument(help="Answers and priors; - for standard input.")],
    output: Annotated[str, option("-o", "--output", help="Reports; - for standard output.")] = "-",
    column: Annotated[str, option(help="Column with the answers.")] = "value",
    prior_column: Annotated[str, option(help="Column, or start of the columns, with the priors.")] = "prior",
    keep: KeptColumns = None,
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
        done = perturb_file(PersonalPlan.load(plan), answers, output, on_unknown=on_unknown, progress=watch, **options)
    if as_json:
        # Standard output may hold the reports.
        facts = {"rows": done.rows, "reports": done.reports, "skipped": dict(done.skipped)}
        print_json(facts | {"gives_away": done.gives_away}, err if output == "-" else out)
    else:
        err.print(f"{done.reports:,} reports of {done.rows:,} rows, {sum(done.skipped.values()):,} skipped.")
    warn_of_kept(done.gives_away, on_err=as_json and output == "-")


@app.command("tally")
def tally_command(
    plan: PlanFile,
    reports: Annotated[list[str], typer.Argument(help="Files of reports with their priors, or tallies (.json).")],
    output: Output = "tally.json",
    prior_column: Annotated[str, option(help="Column, or start of the columns, with the priors.")] = "prior",
    weight_column: WeightColumn = None,
    offset_column: OffsetColumn = None,
    as_json: JsonFlag = False,
) -> None:
    """Count reports per prior, and merge tallies."""
    from functools import reduce

    from tacit.personal import PersonalPlan
    from tacit.personal.estimates import PersonalTally
    from tacit.personal.files import load_tally, save_tally, tally_file

    loaded = PersonalPlan.load(plan)
    check_target(output, plan)
    if len({Path(path).resolve() for path in reports}) < len(reports):
        raise ValueError("A file is named twice, and would count twice.")
    options: dict[str, Any] = {
        "prior_column": prior_column,
        "weight_column": weight_column,
        "offset_column": offset_column,
    }
    parts = [
        load_tally(loaded, path) if path.endswith(".json") else tally_file(loaded, path, **options) for path in reports
    ]
    tally = reduce(PersonalTally.merge, parts)
    save_tally(tally, output)
    if as_json:
        print_json({"file": str(output), "n_reports": tally.n_reports, "refused": tally.refused})
    else:
        out.print(f"{tally.n_reports:,} reports counted, {tally.refused:,} refused; wrote {output}.")


@app.command("estimate")
def estimate_command(
    plan: PlanFile,
    tally: Annotated[Path, typer.Argument(help="A tally, as `tacit personal tally` wrote it.")],
    estimator: Annotated[Literal["mmse", "unbiased"], option(help="mmse trusts the priors.")] = "unbiased",
    level: Annotated[float, option(help="Level of the intervals.")] = 0.95,
    project: Annotated[bool, option("--project", help="Move estimates to possible counts.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Estimate the total with intervals, and check the reports against the priors."""
    from tacit.personal import PersonalPlan
    from tacit.personal.estimates import estimate
    from tacit.personal.files import load_tally
    from tacit.plan.contract import Plan
    from tacit.show import terminal

    loaded = PersonalPlan.load(plan)
    result = estimate(loaded, load_tally(loaded, tally), estimator, level, project=project)
    if as_json:
        print_json(result.to_dict())
    else:
        # It reads the plan's question, task and values only.
        terminal.print_estimate(out, cast(Plan, loaded), result)
