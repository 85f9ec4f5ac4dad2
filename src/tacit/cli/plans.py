"""`tacit plan`, `audit` and `channel`: making a plan and looking at it. Argument parsing and printing only."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tacit.cli import app as cli

if TYPE_CHECKING:
    from tacit.designs import JointPrior
    from tacit.plan import Plan, Question

_DESIGNS = "auto, or how to search: see the reference."
_AIMS = "Best for estimates that do not trust the prior (unbiased) or do (mmse)."
_BETWEEN = "Answers are any numbers from LOW to HIGH; the file has past answers."
_ERROR = "The prior may be off by this total variation distance, such as 0.03."
_RECORDS = "Number of past records behind the prior; else the sum of the file's counts."
_CONFIDENCE = "Certainty of the priors that records leave plausible; else 0.99."
_CANDIDATES = "CSV like PRIORS with a column candidate: priors that might hold as well."
_FLOOR = "Probability of an answer never seen; else half a record, or 0.001."
_IMPOSSIBLE = "An impossible answer; repeatable."
_BELIEF = "CSV like the priors: what an observer with these beliefs can learn."
_NO_PRIOR = "Nothing is known beforehand: PRIORS lists the values, the promise is LDP."
_SMOOTH = "Draw small groups towards all groups together, as far as they are alike."
_GUIDE = "Instead of a plan: what several ε promise and cost; --epsilon may name them, as in 0.5,1,2."
_DETECT = "Say how many respondents show this difference, such as 2pp, between two waves or groups."
_POWER = "The probability of seeing it; else 0.8."
_POPULATION = "How many people the population has: errors are smaller the larger the part that answers."
_EFFECT = "The factor by which weights or clusters raise the variance; else 1."
_ARMS = "Instead of --epsilon: two budgets, each for a random half; see tacit compliance."
_QUESTIONS = "Instead of --task: several questions, reported on together; PRIORS has a column for each and count."
_IMPORTANCE = "How much the error of a question matters, as in diabetes=3; else 1; repeatable."
_CROSS = "Two questions, as in a,b, that a table is wanted of; repeatable."
_MEAN = "A question with numbers of which the mean is wanted; repeatable."
_RANGE = "The range must be two numbers, as in --between 0,100."
_PAIR = "A table is of two questions, as in --cross a,b."
_PUBLIC = "A question whose answers are not private; repeatable."
_WAVES = "How often the same people will be asked: compares ways to do it."
_PERSISTENCE = "With --waves: the probability of keeping the answer, which is else drawn anew; 1 without it."
_TRANSITION = "Instead of --persistence: CSV with the columns from, to and probability, how answers change."
_LIMIT = "The largest LIP level that the reports of one person in all waves may add up to; devices refuse more."
_LIFELONG = "For a panel in two layers: the level of all reports of an answer that stays, in any number of waves."
_TARGET = "Instead of --epsilon: find the smallest ε with at most this error of the total."


@cli.command("plan", epilog="Example: tacit plan priors.csv --task survey --value yes --epsilon 1 -o plan.json")
def plan_command(
    priors: cli.PriorFile,
    task: cli.MaybeTask = None,
    to: cli.Target = cli.TO_PLAN,
    epsilon: Annotated[str | None, cli.option(metavar="ε", help="A report changes any belief by at most e^ε.")] = None,
    value: cli.ValueOption = None,
    notion: Annotated[Literal["lip", "ldp"], cli.option(metavar="NOTION", help="The promise: lip or ldp.")] = "lip",
    method: Annotated[cli.DesignName, cli.option("--design", metavar="NAME", help=_DESIGNS)] = "auto",
    aim: Annotated[Literal["mmse", "unbiased"], cli.option(metavar="AIM", help=_AIMS)] = "unbiased",
    ldp_cap: Annotated[str | None, cli.option(metavar="ε", help="Also keep this LDP level.")] = None,
    target_rmse: Annotated[float | None, cli.option(metavar="R", help=_TARGET)] = None,
    respondents: Annotated[int | None, cli.option(metavar="N", help="How many will answer; else 1000.")] = None,
    population_size: Annotated[float | None, cli.option(metavar="N", help=_POPULATION)] = None,
    design_effect: Annotated[float | None, cli.option(metavar="D", help=_EFFECT)] = None,
    question: Annotated[str | None, cli.option(metavar="TEXT", help="The question, kept in the plan.")] = None,
    between: Annotated[str | None, cli.option(metavar="LOW,HIGH", help=_BETWEEN)] = None,
    prior_error: Annotated[str | None, cli.option(metavar="TAU", help=_ERROR)] = None,
    prior_records: Annotated[int | None, cli.option(metavar="N", help=_RECORDS)] = None,
    confidence: Annotated[str | None, cli.option(metavar="C", help=_CONFIDENCE)] = None,
    candidates: Annotated[Path | None, cli.option(metavar="FILE", help=_CANDIDATES)] = None,
    floor: Annotated[str | None, cli.option(metavar="P", help=_FLOOR)] = None,
    impossible: Annotated[list[str] | None, cli.option(metavar="VALUE", help=_IMPOSSIBLE)] = None,
    smooth: Annotated[bool, cli.option("--smooth", help=_SMOOTH)] = False,
    no_prior: Annotated[bool, cli.option("--no-prior", help=_NO_PRIOR)] = False,
    guide: Annotated[bool, cli.option("--guide", help=_GUIDE)] = False,
    detect: Annotated[str | None, cli.option(metavar="D", help=_DETECT)] = None,
    power: Annotated[float | None, cli.option(metavar="P", help=_POWER)] = None,
    arms: Annotated[str | None, cli.option(metavar="ε,ε", help=_ARMS)] = None,
    waves: Annotated[int | None, cli.option(metavar="N", help=_WAVES)] = None,
    persistence: Annotated[str | None, cli.option(metavar="P", help=_PERSISTENCE)] = None,
    transition: Annotated[Path | None, cli.option(metavar="FILE", help=_TRANSITION)] = None,
    limit: Annotated[str | None, cli.option(metavar="ε", help=_LIMIT)] = None,
    lifelong: Annotated[str | None, cli.option(metavar="ε", help=_LIFELONG)] = None,
    questions: Annotated[str | None, cli.option(metavar="A,B,…", help=_QUESTIONS)] = None,
    importance: Annotated[list[str] | None, cli.option(metavar="NAME=W", help=_IMPORTANCE)] = None,
    cross: Annotated[list[str] | None, cli.option(metavar="A,B", help=_CROSS)] = None,
    mean: Annotated[list[str] | None, cli.option(metavar="NAME", help=_MEAN)] = None,
    public: Annotated[list[str] | None, cli.option(metavar="NAME", help=_PUBLIC)] = None,
) -> None:
    """Design the randomizer, prove its promise, write the plan. Each group of people gets its own mechanism.

    What is promised is checked in exact integers before anything is written.
    """
    given = dict(locals())
    from tacit.designs import Search, guidance, planning, with_layers
    from tacit.estimates import expected_errors
    from tacit.show import plans as shown
    from tacit.show.results import expected_sentence

    to.check(priors)
    if questions is not None:
        _plan_questions(given)
        return
    _check_options(given)
    if no_prior:
        notion, method = "ldp", "without-prior" if method == "auto" else method
    groups = _groups(given)
    _check_budget(epsilon, target_rmse, respondents, guide or all(each.epsilon is not None for each in groups))
    wanted, people = planning.make_task(str(task), value or [], groups), 1000 if respondents is None else respondents
    difference = None if detect is None else guidance.read_difference(detect, wanted)
    shares, chance = [each.share for each in groups], 0.8 if power is None else power
    sampling = planning.Sampling(population_size, 1.0 if design_effect is None else design_effect)
    uncertainty = _uncertainty(prior_error, prior_records, confidence, candidates)
    options: dict[str, Any] = {"notion": notion, "ldp_cap": ldp_cap, "aim": aim, "question": question}
    options |= {"search": Search(method=method)}
    options |= {"uncertainty": uncertainty, "between": None if between is None else cli.sides(between, ",", _RANGE)}
    if guide:
        asked = {"detect": difference, "power": chance, "sampling": sampling, **options}
        _show_guide(groups, wanted, people, epsilon, to.as_json, asked)
        return
    with cli.progress_bar("designing") as watch:
        if target_rmse is not None:
            made = planning.smallest_budget(groups, wanted, target_rmse, people, watch, sampling=sampling, **options)
        else:
            made = planning.make_plan(groups, wanted, epsilon, progress=watch, **options)
        if lifelong is not None:
            made = with_layers(made, lifelong)
        made = planning.with_ldp(made)
        exact = None
        if uncertainty is not None:
            exact = planning.make_plan(groups, wanted, made.groups[0].epsilon, **options | {"uncertainty": None})
        summary: dict[str, Any] = {"groups": [shown.group_summary(group) for group in made.groups]}
        summary |= guidance.costs(made, shares, people, exact, sampling).to_dict()
        summary |= asdict(sampling)
        sure = guidance.nearly_sure(made)
        summary |= {"detect": None, "reaches_90": sure is not None}
        if difference is not None:
            shown_by = guidance.respondents_to_detect(made, shares, difference, chance, sampling)
            summary["detect"] = shown_by.to_dict()
        if arms is not None:
            found = expected_errors(made, shares, people)
            summary["compliance_errors"] = [{"group": name, "error": error} for name, error in found.items()]
        if waves is not None:
            summary |= {"panel": _panel(made, shares, waves, persistence, transition)}
    made = cli.with_limit(made, limit)
    if to.put_plan(made, summary):
        shown.print_plan(to.console, made, summary, to.output)
        shown.print_advice(to.console, made, summary, sure)
        if arms is not None:
            to.console.print(expected_sentence(summary["compliance_errors"], people))
        if waves is not None:
            shown.print_panel(to.console, summary["panel"], persistence or "1", transition)


def _stated(given: dict[str, Any]) -> set[str]:
    """The options that were given, as far as their defaults are nothing, False or none."""
    return {name for name, each in given.items() if each is not None and each is not False and each != []}


def _plan_questions(given: dict[str, Any]) -> None:
    """Plan several questions, which takes some of the options, write the plan and print what each costs."""
    from tacit.designs import make_questionnaire
    from tacit.show.questions import print_planned

    others = {"task", "value", "ldp_cap", "target_rmse", "between", "candidates", "floor", "detect", "arms"}
    others |= {"respondents", "population_size", "design_effect", "smooth", "no_prior", "guide", "lifelong", "waves"}
    others |= {"persistence", "transition", "power"}
    flags = (given["notion"] == "ldp", given["aim"] == "mmse", given["method"] != "auto")
    if _stated(given) & others or any(flags):
        raise ValueError(
            "A plan of several questions takes --epsilon, --importance, --cross, --mean, --public, --impossible, "
            "--limit, --prior-error and --prior-records. Leave the other options out."
        )
    if given["epsilon"] is None:
        raise ValueError("Give --epsilon: the budget of one report, and so of the whole record.")
    uncertainty = _uncertainty(given["prior_error"], given["prior_records"], given["confidence"], None)
    joint, questions, title = _questions_of(given)
    with cli.progress_bar("designing") as watch:
        planned = make_questionnaire(
            joint, given["epsilon"], questions=questions, importance=_weights(given["importance"] or []),
            crosses=[cli.sides(text, ",", _PAIR) for text in given["cross"] or []], uncertainty=uncertainty,
            title=given["question"] or title, progress=watch,
        )  # fmt: skip
    planned, to = replace(planned, plan=cli.with_limit(planned.plan, given["limit"])), given["to"]
    summary = planned.to_dict()
    if to.put_plan(planned.plan, summary):
        print_planned(to.console, planned.plan, summary, to.output)


def _questions_of(given: dict[str, Any]) -> tuple[JointPrior, list[Question], str | None]:
    """The joint priors, and the questions as a question file, or names and options, state them."""
    from tacit.designs import joint_columns, read_joint, read_questions, stated_questions

    priors, names = given["priors"], given["questions"]
    impossible, means, public = (given[name] or [] for name in ("impossible", "mean", "public"))
    if names.endswith(".toml"):
        if means or public:
            raise ValueError(f"{names} says which questions are numbers or public: leave --mean and --public out.")
        title, read = read_questions(names)
        there = joint_columns(priors)
        known = [each["name"] for each in read if not each.get("public") or each["name"] in there]
        joint = read_joint(priors, known, impossible=impossible)
        return joint, stated_questions(read, joint), title
    wanted = [name for name in cli.names_of(names) if name]
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
    pairs = [cli.sides(text, "=", "The importance of a question is written as in diabetes=3.") for text in texts]
    for name, times in Counter(name for name, _ in pairs).items():
        if times > 1:
            raise ValueError(f"The importance of {name!r} is given twice.")
    return dict(pairs)


def _check_options(given: dict[str, Any]) -> None:
    """Refuse options that need another one, or do not go together."""
    stated = _stated(given)
    if stated & {"importance", "cross", "mean", "public"}:
        raise ValueError("--importance, --cross, --mean and --public are about several questions: give --questions.")
    if "task" not in stated:
        raise ValueError("Say what is asked: --task histogram, sum, survey or weighted-sum; or --questions a,b,c.")
    if {"guide", "target_rmse"} <= stated:
        raise ValueError("Give --guide or --target-rmse, not both.")
    if stated & {"persistence", "transition"} and "waves" not in stated:
        raise ValueError("--persistence and --transition are about the same people in several waves: give --waves.")
    if "lifelong" in stated and stated & {"guide", "arms", "ldp_cap", "between"}:
        raise ValueError("--lifelong is of one budget and of answers that are values: leave --guide, --arms, --ldp-cap "
                         "and --between out.")  # fmt: skip
    if given["aim"] == "mmse" and stated & {"population_size", "design_effect"}:
        raise ValueError(
            "--population-size and --design-effect are about the sampling error, which the aim mmse leaves out."
        )
    if "power" in stated and "detect" not in stated:
        raise ValueError("--power is that of seeing a difference: give --detect, too.")
    if "arms" in stated and stated & {"epsilon", "target_rmse", "guide"}:
        raise ValueError("Arms have budgets of their own: leave --epsilon, --target-rmse and --guide out.")
    about_priors = {"prior_error", "prior_records", "confidence", "candidates", "floor", "impossible", "smooth"}
    if "no_prior" in stated and (given["aim"] == "mmse" or stated & (about_priors | {"between", "ldp_cap"})):
        raise ValueError(
            "--no-prior says that nothing is known beforehand: drop --aim mmse, --between, --ldp-cap and the options "
            "about how wrong the prior may be and about values never seen."
        )


def _groups(given: dict[str, Any]) -> Any:
    """The groups of the prior file, with arms where they are asked for; what was done to its numbers is said."""
    from tacit.designs import planning, read_priors, read_values

    if given["no_prior"]:
        groups = read_values(given["priors"])
    else:
        how = {name: given[name] for name in ("floor", "smooth", "candidates")}
        groups = read_priors(given["priors"], impossible=given["impossible"] or (), **how)
    if given["arms"] is not None:
        groups = planning.in_arms(groups, cli.names_of(given["arms"]))
    cli.tell_notes((note for each in groups for note in each.notes), cli.err)
    return groups


def _panel(plan: Any, shares: Any, waves: int, persistence: str | None, transition: Path | None) -> dict[str, Any]:
    """Ways to ask the same people again, for the largest group."""
    from tacit.designs import compare_panel, read_transition

    group = plan.groups[max(range(len(shares)), key=lambda place: shares[place])]
    aim = group.certificate.aim
    change: dict[str, Any] = {"persistence": persistence}
    change |= {"transition": None if transition is None else read_transition(transition, plan.values)}
    found = compare_panel(group.prior, plan.task, group.epsilon, waves, **change, aim=aim)
    return {"group": group.name, **found.to_dict()}


def _show_guide(
    groups: Any, task: Any, respondents: int, epsilon: str | None, as_json: bool, options: dict[str, Any]
) -> None:
    """Print what several budgets promise and cost."""
    from tacit.designs.guidance import guide
    from tacit.show.plans import print_guide

    budgets = None if epsilon is None else cli.names_of(epsilon)
    with cli.progress_bar("designing") as watch:
        choices = guide(groups, task, respondents, budgets, progress=watch, **options)
    rows = [choice.to_dict() for choice in choices]
    if as_json:
        cli.print_json({"plan": None, "respondents": respondents, "guide": rows})
    else:
        print_guide(cli.out, task, rows, respondents)


def _uncertainty(error: str | None, records: int | None, confidence: str | None, candidates: Path | None) -> Any:
    """How wrong the priors may be; None if that is not stated."""
    from tacit.designs import Uncertainty

    by_records = records is not None or confidence is not None
    if (error is not None) + by_records + (candidates is not None) > 1:
        raise ValueError("Give one of --prior-error, --prior-records (or --confidence) and --candidates, not several.")
    if by_records:
        return Uncertainty(records=records, confidence="0.99" if confidence is None else confidence)
    if error is not None:
        return Uncertainty(error=error)
    return None if candidates is None else Uncertainty(candidates=True)


def _check_budget(epsilon: str | None, target_rmse: float | None, respondents: int | None, stated: bool) -> None:
    if epsilon is not None and target_rmse is not None:
        raise ValueError("Give --epsilon or --target-rmse, not both.")
    if target_rmse is not None and respondents is None:
        raise ValueError("--target-rmse is the error of the total, so it needs --respondents.")
    if epsilon is None and target_rmse is None and not stated:
        raise ValueError(
            "Give --epsilon, or --target-rmse with --respondents, or a column 'epsilon'; --guide helps to choose."
        )


@cli.command("audit", epilog="Example: tacit audit plan.json")
def audit_command(
    plan: cli.PlanFile,
    belief: Annotated[Path | None, cli.option(metavar="FILE", help=_BELIEF)] = None,
    as_json: cli.JsonFlag = False,
) -> None:
    """Verify a plan again, in exact integers, and explain it. Exit code 1 if it does not hold."""
    from tacit.designs import other_beliefs, read_beliefs, verify_plan
    from tacit.plan import Plan, read_json
    from tacit.show import plans as shown
    from tacit.show import sentences

    data = read_json(plan)
    if "tacit_personal_plan" in data:
        from tacit.cli.personal import audit_personal

        if belief is not None:
            raise ValueError("In a plan for individual priors each record brings its own prior: leave --belief out.")
        audit_personal(data, as_json)
        return
    if "tacit_plan" not in data:
        from tacit.disk import kind_of_json

        raise ValueError(f"{plan} is {kind_of_json(data) or 'JSON'}, not a plan: it has no field 'tacit_plan'.")
    try:
        loaded = Plan.from_dict(data)
        with cli.progress_bar("verifying certificates") as watch:
            for each in loaded.block_plans:
                verify_plan(each, watch)
        several = loaded.block_column is not None
        found = [] if belief is None or several else other_beliefs(loaded, read_beliefs(belief, loaded))
        others = None if belief is None else [each.to_dict() for each in found]
    except ValueError as error:
        raise cli.does_not_hold(error, as_json) from error
    if several:
        _tell_questions(loaded, belief, as_json)
        return
    if as_json:
        groups = [shown.group_summary(group) | {"outside": sentences.outside_values(group)} for group in loaded.groups]
        facts = {"holds": True, "plan": loaded.hash, "groups": groups}
        cli.print_json(facts | ({} if others is None else {"belief": others}))
    else:
        shown.print_audit(cli.out, loaded)
        if others is not None:
            shown.print_other_beliefs(cli.out, others)


def _tell_questions(plan: Plan, belief: Path | None, as_json: bool) -> None:
    """What an audit of a plan of several questions means for the whole record."""
    from tacit.designs import beliefs_about, other_beliefs
    from tacit.show import plans as shown
    from tacit.show.questions import print_record_promise
    from tacit.show.sentences import outside_values

    others: list[list[dict[str, Any]]] = [] if belief is None else [[] for _ in plan.block_plans]
    for said, beliefs in ({} if belief is None else beliefs_about(belief, plan)).items():
        for mine, block, held in zip(others, plan.block_plans, beliefs, strict=True):
            mine += [each.to_dict() | ({"public": said} if said else {}) for each in other_beliefs(block, held)]
    if as_json:
        blocks = [
            {
                "questions": [question.name for question in block.questions],
                "chance": block.share,
                "lip": max(group.levels["lip"] for group in block.groups),
                "ldp": max(group.levels["ldp"] for group in block.groups),
                "groups": [shown.group_summary(g) | {"outside": outside_values(g)} for g in block.groups],
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
    shown.print_holds(cli.out, plan)


@cli.command("channel", epilog="Example: tacit channel plan.json --json")
def channel_command(plan: cli.PlanFile, as_json: cli.JsonFlag = False) -> None:
    """Print the numbers that devices use: Pr(report | answer). With --json they are exact integers."""
    from tacit.plan import Plan
    from tacit.show import plans as shown

    loaded = Plan.load(plan)
    groups = [shown.channel_facts(group) for group in loaded.groups]
    if as_json:
        cli.print_json({"plan": loaded.hash, "groups": groups})
    else:
        shown.print_channels(cli.out, groups)


_CONTACT = "Whom to ask, for the last line of the sheet."


@cli.command("sheet", epilog="Example: tacit sheet plan.json -o sheet.html --contact 'survey@example.org'")
def sheet_command(
    plan: cli.PlanFile,
    output: Annotated[Path, cli.option("-o", "--output", metavar="FILE", help="The HTML file to write.")] = Path(
        "sheet.html"
    ),
    contact: Annotated[str | None, cli.option(metavar="TEXT", help=_CONTACT)] = None,
    waves: Annotated[int, cli.option(metavar="N", help="How often the same people will be asked.")] = 1,
    publisher: cli.Publisher = cli.PUBLISHER,
    overwrite: cli.Overwrite = False,
    as_json: cli.JsonFlag = False,
) -> None:
    """Write a page for the ethics board and the privacy officer. What is collected, promised, and not promised."""
    from tacit.plan import Plan
    from tacit.show.sheet import paragraph, write_sheet

    if waves < 1:
        raise ValueError(f"People are asked at least once. Got --waves {waves}.")
    cli.new_file(output, overwrite, plan)
    loaded = Plan.load(plan)
    write_sheet(output, loaded, contact=contact, waves=waves, brand=publisher.brand)
    if as_json:
        cli.print_json({"plan": loaded.hash, "file": str(output), "paragraph": paragraph(loaded)})
        return
    cli.out.print(cli.escape(paragraph(loaded)))
    cli.out.print(f"\nWrote {cli.escape(str(output))}.")
