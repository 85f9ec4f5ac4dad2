"""Several questions: `tacit crosstab`, and `tacit estimate` for them. Argument parsing and printing only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import app as cli
from tacit.plan import AnyPlan, Question

if TYPE_CHECKING:
    from tacit.designs import JointPrior
    from tacit.estimates import Cell
    from tacit.tally import Tally

_Question = Annotated[str, typer.Argument(metavar="QUESTION", help="The name of a question of the plan.")]


def plan_questions(
    priors: Path,
    names: str,
    epsilon: str | None,
    asked: dict[str, list[str] | None],
    uncertainty: Any,
    title: str | None,
    limit: str | None,
    to: cli.Target,
) -> None:
    """Plan several questions, write the plan and print what each costs."""
    from dataclasses import replace

    from tacit.designs import make_questionnaire
    from tacit.show.questions import print_planned

    if epsilon is None:
        raise ValueError("Give --epsilon: the budget of one report, and so of the whole record.")
    joint, stated, stated_title = _stated(priors, names, asked)
    title = title or stated_title
    with cli.progress_bar("designing") as watch:
        planned = make_questionnaire(
            joint, epsilon, questions=stated, importance=_weights(asked["importance"] or []),
            crosses=[_pair(text) for text in asked["cross"] or []], uncertainty=uncertainty, title=title,
            progress=watch,
        )  # fmt: skip
    planned = replace(planned, plan=cli.with_limit(planned.plan, limit))
    summary = planned.to_dict()
    if to.put_plan(planned.plan, summary):
        print_planned(to.console, planned.plan, summary, to.output)


def _stated(
    priors: Path, names: str, asked: dict[str, list[str] | None]
) -> tuple[JointPrior, list[Question], str | None]:
    """The joint priors, and the questions as a question file, or names and options, state them."""
    from dataclasses import replace

    from tacit.designs import joint_columns, read_joint, read_questions, stated_questions

    impossible, means, public = (asked[name] or [] for name in ("impossible", "mean", "public"))
    if names.endswith(".toml"):
        if means or public:
            raise ValueError(f"{names} says which questions are numbers or public: leave --mean and --public out.")
        title, read = read_questions(names)
        there = joint_columns(priors)
        known = [each["name"] for each in read if not each.get("public") or each["name"] in there]
        joint = read_joint(priors, known, impossible=impossible)
        return joint, stated_questions(read, joint), title
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if len(set(wanted)) < len(wanted) or not wanted:
        raise ValueError("--questions names each question once, as in --questions a,b,c.")
    joint = read_joint(priors, wanted, impossible=impossible)
    for name in [*means, *public]:
        joint.place(name)
    stated: list[Question] = []
    for each in joint.questions:
        number: dict[str, Any] = {"kind": "number", "task": "mean"} if each.name in means else {}
        stated.append(replace(each, public=each.name in public, **number))
    return joint, stated, None


def _weights(texts: list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, weight = text.rpartition("=")
        if not equals:
            raise ValueError(f"The importance of a question is written as in diabetes=3. Got {text!r}.")
        if name.strip() in found:
            raise ValueError(f"The importance of {name.strip()!r} is given twice.")
        found[name.strip()] = weight.strip()
    return found


def _pair(text: str) -> tuple[str, str]:
    first, comma, second = (part.strip() for part in text.partition(","))
    if not comma or "," in second:
        raise ValueError(f"A table is of two questions, as in --cross a,b. Got {text!r}.")
    return first, second


def asked_questions(
    plan: AnyPlan,
    cells: list[Cell],
    whole: Tally,
    options: dict[str, Any],
    asked: list[float] | None,
    to: cli.Findings,
) -> None:
    """Estimate and print every question; `options` are those of `estimate_questions`, `asked` the quantiles."""
    from tacit.estimates import estimate_questions, quantiles
    from tacit.show.questions import print_questions, question_rows, write_questions
    from tacit.show.results import print_quantiles

    if not cells:
        refused = f" All {whole.refused:,} rows were refused." if whole.refused else ""
        raise ValueError(f"There are no reports to estimate from.{refused}")
    found = estimate_questions(plan, cells, **options)
    about = {name: each for name, each in options.items() if name in ("level", "by", "scope", "population")}
    medians = {
        question.name: quantiles(plan, cells, asked or [0.5], question=question.name, **about)
        for question in plan.private
        if question.task == "quantiles" and question.name in found
    }
    if asked and not medians:
        raise ValueError("No question of this plan is asked for its quantiles.")
    if to.html is not None:
        write_questions(to.html, plan, found, whole, to.brand)
    to.write(lambda: question_rows(found))
    if to.as_json:
        facts_of = {name: {k: v for k, v in one.to_dict().items() if k != "estimates"} for name, one in found.items()}
        more = {name: {"quantiles": [each.to_dict() for each in several]} for name, several in medians.items()}
        questions = [{"name": name} | each | more.get(name, {}) for name, each in facts_of.items()]
        facts = {"plan": plan.hash, "n_reports": whole.n_reports, "refused": whole.refused}
        cli.print_json(facts | {"questions": questions, "estimates": question_rows(found)})
        return
    print_questions(cli.out, plan, found)
    for name, several in medians.items():
        print_quantiles(cli.out, several, options.get("level", 0.95), name)
    cli.tell_refused(whole.refused, weighted=False)


def audit_questions(data: dict[str, Any], belief: Path | None, as_json: bool) -> None:
    """Verify every block of a plan of several questions, and say what that means for the whole record."""
    from tacit.designs import beliefs_about, other_beliefs, verify_plan
    from tacit.plan import read_plan
    from tacit.show import plans as shown
    from tacit.show.questions import print_record_promise
    from tacit.show.sentences import outside_values

    try:
        plan = read_plan(data)
        for checked in plan.block_plans:
            verify_plan(checked)
    except ValueError as error:
        raise cli.does_not_hold(error, as_json) from error
    others: list[list[dict[str, Any]]] = []
    for said, beliefs in ({} if belief is None else beliefs_about(belief, plan)).items():
        for number, (block, held) in enumerate(zip(plan.blocks, beliefs, strict=True)):
            others += [[]] * (number + 1 - len(others))
            mine = [each.to_dict() | ({"public": said} if said else {}) for each in other_beliefs(block.plan, held)]
            others[number] = [*others[number], *mine]
    if as_json:
        blocks = [
            {
                "questions": [question.name for question in block.questions],
                "chance": block.share,
                "lip": max(group.levels["lip"] for group in block.plan.groups),
                "ldp": max(group.levels["ldp"] for group in block.plan.groups),
                "groups": [shown.group_summary(g) | {"outside": outside_values(g)} for g in block.plan.groups],
            }
            for block in plan.blocks
        ]
        for summary, other in zip(blocks, others, strict=False):
            summary["belief"] = other
        cli.print_json({"holds": True, "plan": plan.hash, "blocks": blocks, "notes": list(plan.notes)})
        return
    print_record_promise(cli.out, plan)
    cli.tell_notes(plan.notes, cli.out)
    if others:
        cli.out.print("\nSomebody with the other beliefs, block by block:")
    for number, other in enumerate(others, start=1):
        for each in other:
            whose = "".join(f", {part}" for part in (each["group"], each.get("public")) if part is not None)
            how = "exactly" if each["exact"] else "at most"
            cli.out.print(f"  block {number}{cli.escape(whose)}: LIP level {how} {each['level']:.4f}.")
    cli.out.print(f"\n[green]The plan holds[/green], decided in exact integers. Plan {plan.hash}.")


@cli.command("crosstab", epilog="Example: tacit crosstab plan.json tally.json smokes asthma")
def crosstab_command(
    plan: cli.PlanFile,
    reports: cli.Reports,
    first: _Question,
    second: _Question,
    level: cli.LevelOption = 0.95,
    simultaneous: cli.SimultaneousOption = None,
    columns: cli.Columns = cli.COLUMNS,
    to: cli.Table = cli.TABLE,
) -> None:
    """Estimate the table of two questions, with intervals. Tests whether the answers are independent.

    Both questions must be in one block: plan with --cross first,second.
    """
    from tacit.estimates import crosstab
    from tacit.files import read_cells
    from tacit.plan import load_plan
    from tacit.show.questions import print_crosstab

    loaded = load_plan(plan)
    to.check(plan, reports)
    with cli.progress_bar("counting") as watch:
        whole, cells = read_cells(loaded, reports, progress=watch, **columns.given())
    if not cells:
        raise ValueError(f"There are no reports in {reports}.")
    found = crosstab(loaded, cells, first, second, level=level, simultaneous=simultaneous)
    to.write(lambda: found.to_dict()["rows"])
    if to.as_json:
        cli.print_json({"plan": loaded.hash} | found.to_dict() | {"refused": whole.refused})
        return
    print_crosstab(cli.out, found)
    cli.tell_refused(whole.refused, weighted=False)
