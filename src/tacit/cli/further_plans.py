"""`tacit adopt`, `edit` and `next`: plans made from the designs of others, or from plans in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from tacit.cli import app as cli

if TYPE_CHECKING:
    from tacit.designs import Rule
    from tacit.prior import Value

DesignKind = Literal[
    "warner", "forced-response", "unrelated-question", "crosswise", "kuk", "k-ary", "symmetric-unary",
    "optimised-unary", "matrix",
]  # fmt: skip
_KIND = f"How answers were randomized: {', '.join(get_args(DesignKind))}."
_TRUTH = "warner, k-ary: probability that the true answer is given."
_FORCED = "forced-response: VALUE=P, instructed to say that value with probability P; repeatable."
_ASKED = "unrelated-question: probability that the sensitive question is asked."
_PREVALENCE = "unrelated-question, crosswise: share that says yes to the other question."
_RED = "kuk: VALUE=P, the share of red cards of who holds that value; once for each."
_FLIP = "symmetric-unary: RAPPOR's f; a bit is kept with probability 1 - f/2."
_MATRIX = "matrix: CSV with value, a column of probabilities for each report, maybe group."
_LABELS = "How the data write the reports, separated by commas, in their order."
_PRIORS = "Prior file, if something is known; without, no estimate uses a prior."

Texts = list[str] | None


@cli.command(
    "adopt",
    epilog="Example: tacit adopt warner --truth 0.75 --values yes,no --data survey.csv --column answer "
    "--reports reports.csv",
)
def adopt_command(
    kind: Annotated[DesignKind, typer.Argument(metavar="DESIGN", help=_KIND)],
    to: cli.Target = cli.TO_PLAN,
    values: Annotated[str | None, cli.option(metavar="V,V", help="The values people can hold; yes first.")] = None,
    truth: Annotated[Texts, cli.option(metavar="P", help=_TRUTH)] = None,
    forced: Annotated[Texts, cli.option(metavar="VALUE=P", help=_FORCED)] = None,
    asked: Annotated[Texts, cli.option(metavar="P", help=_ASKED)] = None,
    prevalence: Annotated[Texts, cli.option(metavar="P", help=_PREVALENCE)] = None,
    red: Annotated[Texts, cli.option(metavar="VALUE=P", help=_RED)] = None,
    cards: Annotated[Texts, cli.option(metavar="K", help="kuk: how many cards are drawn; else 1.")] = None,
    flip: Annotated[Texts, cli.option(metavar="F", help=_FLIP)] = None,
    epsilon: Annotated[Texts, cli.option(metavar="ε", help="k-ary, unary: the level they were made for.")] = None,
    matrix: Annotated[Path | None, cli.option(metavar="FILE", help=_MATRIX)] = None,
    labels: Annotated[str | None, cli.option(metavar="L,L", help=_LABELS)] = None,
    task: Annotated[
        cli.TaskName, cli.option(metavar="TASK", help="histogram, sum, survey or weighted-sum.")
    ] = "histogram",
    value: cli.ValueOption = None,
    priors: Annotated[Path | None, cli.option(metavar="FILE", help=_PRIORS)] = None,
    question: Annotated[str | None, cli.option(metavar="TEXT", help="The question, kept in the plan.")] = None,
    data: Annotated[
        str | None, cli.option(metavar="FILE", help="What was collected; its labels become reports.")
    ] = None,
    column: Annotated[str | None, cli.option(metavar="NAME", help="Column of the data with what people said.")] = None,
    group_column: cli.GroupColumn = None,
    reports: Annotated[str | None, cli.option(metavar="FILE", help="Reports to write, with all other columns.")] = None,
    on_unknown: Annotated[
        Literal["stop", "skip"], cli.option(metavar="ACTION", help="Rows with another label: stop or skip.")
    ] = "stop",
    input_format: cli.FileFormat = None,
    output_format: cli.FileFormat = None,
) -> None:
    """Make a plan from the design of others, to read their data. It is audited exactly; their data become its reports.

    Give an option as NAME:P, once for each group, where groups were asked in different ways.
    """
    from tacit.designs import adopt, planning, read_priors
    from tacit.files import label_file
    from tacit.show.plans import adopted_summary, print_adopted

    to.check(*(each for each in (matrix, priors, data) if each is not None))
    if len({data is None, column is None, reports is None}) > 1:
        raise ValueError("Data become reports with --data, --column and --reports together.")
    given = {
        "truth": truth, "forced": forced, "asked": asked, "prevalence": prevalence, "red": red, "cards": cards,
        "flip": flip, "epsilon": epsilon,
    }  # fmt: skip
    rules = _rules(kind, values, {name: texts for name, texts in given.items() if texts}, matrix)
    if labels is not None:
        rules = {name: rule.written(labels.split(",")) for name, rule in rules.items()}
    spelled = {rule.reports for rule in rules.values()}
    if len(spelled) > 1:
        raise ValueError("All groups must have the same reports.")
    known = planning.group_priors(_alike(rules) if priors is None else read_priors(priors))
    wanted = planning.make_task(task, value or [], known)
    made = adopt(rules, wanted, None if priors is None else known, question)
    to.keep_plan(made.hash)
    names = next(iter(spelled))
    done = None
    if data is not None and column is not None and reports is not None:
        cli.check_target(reports, data, to.output)
        cli.keep_reports(reports, to.overwrite)
        with cli.progress_bar("reading labels") as watch:
            done = label_file(
                made, names, data, reports, column=column, group_column=group_column, on_unknown=on_unknown,
                progress=watch, source_format=input_format, target_format=output_format,
            )  # fmt: skip
    facts = adopted_summary(made, names)
    if done is not None:
        facts |= {"rows": done.rows, "reports": done.reports, "skipped": dict(done.skipped)}
    if not to.put_plan(made, facts):
        return
    print_adopted(to.console, made, names, to.output)
    if done is not None:
        skipped = sum(done.skipped.values())
        to.console.print(f"{done.reports:,} reports of {done.rows:,} rows, {skipped:,} skipped.")


def _alike(rules: Mapping[str | None, Rule]) -> Any:
    from tacit.prior import Prior

    return Prior.uniform(next(iter(rules.values())).values)


def _rules(
    kind: str, values: str | None, given: Mapping[str, Sequence[str]], matrix: Path | None
) -> dict[str | None, Rule]:
    """A rule for all people, or for each group that an option names."""
    from tacit.designs import read_matrix, rules
    from tacit.prior import numbers_if_all

    make = getattr(rules, kind.replace("-", "_"), None)
    # The parameters of the rule's function are the options.
    takes = {} if make is None else dict(signature(make).parameters)
    known = ["values" if make else "matrix", *list(takes)[1:]]
    stray = [name for name in [*given, *(["matrix"] if matrix else []), *(["values"] if values else [])]
             if name not in known]  # fmt: skip
    if stray:
        raise ValueError(f"The design {kind} takes {', '.join(f'--{name}' for name in known)}. Got --{stray[0]}.")
    if make is None:
        if matrix is None:
            raise ValueError("The design matrix needs --matrix FILE.")
        return read_matrix(matrix)
    if values is None:
        raise ValueError("Say what people can hold, as in --values yes,no.")
    domain = numbers_if_all(cli.names_of(values))
    missing = [name for name in known[1:] if name not in given and takes[name].default is Parameter.empty]
    if missing:
        raise ValueError(f"The design {kind} needs {' and '.join(f'--{name}' for name in missing)}.")
    named = {name: [_named(text) for text in texts] for name, texts in given.items()}
    found = dict.fromkeys(group for texts in named.values() for group, _ in texts if group is not None)
    groups: list[str | None] = [*found] or [None]
    return {
        group: make(
            domain, **{name: _read(name, _of_group(texts, group, name), domain) for name, texts in named.items()}
        )
        for group in groups
    }


def _named(text: str) -> tuple[str | None, str]:
    group, _, rest = text.rpartition(":")
    return group.strip() or None, rest.strip()


def _of_group(texts: Sequence[tuple[str | None, str]], group: str | None, name: str) -> list[str]:
    mine = [text for whose, text in texts if whose == group] or [text for whose, text in texts if whose is None]
    if not mine:
        raise ValueError(f"--{name} is given for some groups only. Group {group!r} needs it too.")
    return mine


def _read(name: str, texts: Sequence[str], domain: Sequence[Value]) -> Any:
    """What an option says: a number, or one for each value, as in yes=1/6."""
    from tacit.prior import Prior

    if name not in ("forced", "red"):
        if len(texts) != 1:
            raise ValueError(f"--{name} is given more than once. Got {', '.join(texts)}.")
        if name == "cards" and not texts[0].isdecimal():
            raise ValueError(f"--cards must be a whole number. Got {texts[0]!r}.")
        return int(texts[0]) if name == "cards" else texts[0]
    found: dict[Value, str] = {}
    for text in texts:
        value, share = cli.sides(text, "=", f"--{name} must be a value and its share, as in --{name} yes=1/6.")
        found[Prior.uniform(domain).value_of(value)] = share
    if name == "forced":
        return found
    if set(found) != set(domain):
        raise ValueError("kuk needs --red VALUE=P for each value.")
    return [found[value] for value in domain]


# -- plans in use -----------------------------------------------------------------------------------------------------

_REPORTS = "Reports of the plan, or its tally."
_DRIFT = "How far an answer that half of the people hold may move, such as 0.02; else the drift seen."
_LEAST = "The drift that is allowed for where less was seen."
_CONFIDENCE = "Certainty of the intervals of this wave's estimate."
_FLOOR = "The least probability of a possible answer."
_BUDGET = "Another budget than this wave's."
_NOTION = "Another promise than this wave's: lip or ldp."
_PERSISTENCE = (
    "For the same people again: the probability of keeping the answer, which is else drawn anew. Needs no REPORTS."
)
_TRANSITION = "Instead of --persistence: CSV with the columns from, to and probability, how answers change."
_WORDS = "The corrected question; of a plan of several questions its title."
_TEXT = "Of a plan of several questions: the new text of one, as NAME=TEXT; repeatable."
_LANGUAGE = "The language of --text, such as en."


@cli.command("edit", epilog="Example: tacit edit plan.json --question 'Do you smoke?' -o plan2.json")
def edit_command(
    plan: cli.PlanFile,
    to: cli.Target,
    title: Annotated[str | None, cli.option("--question", "--title", metavar="TEXT", help=_WORDS)] = None,
    text: Annotated[list[str] | None, cli.option(metavar="NAME=TEXT", help=_TEXT)] = None,
    language: Annotated[str, cli.option(metavar="CODE", help=_LANGUAGE)] = "en",
) -> None:
    """Correct the words of a plan that is in use. Reports of both are pooled; devices that answered do not draw again.

    The new plan carries the earlier words, so that every reader can compute the earlier hash again: only words changed.
    """
    from tacit.plan import Plan

    to.check(plan)
    loaded = Plan.load(plan)
    made = loaded.reworded(title, _texts(text or (), language))
    if not to.put_plan(made, {"earlier": list(made.hashes[:-1])}):
        return
    to.console.print(
        f"Plan {made.hash[:12]} differs from {loaded.hash[:12]} in words only. Reports and tallies of both are read "
        "with it and pooled, and a browser that has answered keeps its report. Whether the new words still ask the "
        "same question is for you to judge: if they do not, make a new plan."
    )


def _texts(given: Any, language: str) -> dict[str, dict[str, str]]:
    found = dict[str, dict[str, str]]()
    for each in given:
        name, equals, words = each.partition("=")
        if not equals or not words.strip():
            raise ValueError("A text must be given as NAME=TEXT, with the name of a question.")
        found[name.strip()] = {language: words.strip()}
    return found


@cli.command("next", epilog="Example: tacit next plan.json tally.json -o plan2.json")
def next_command(
    plan: cli.PlanFile,
    to: cli.Target,
    reports: Annotated[str | None, typer.Argument(metavar="REPORTS", help=_REPORTS)] = None,
    persistence: Annotated[str | None, cli.option(metavar="P", help=_PERSISTENCE)] = None,
    transition: Annotated[Path | None, cli.option(metavar="FILE", help=_TRANSITION)] = None,
    drift: Annotated[str | None, cli.option(metavar="D", help=_DRIFT)] = None,
    least_drift: Annotated[str, cli.option(metavar="D", help=_LEAST)] = "0.01",
    confidence: Annotated[str, cli.option(metavar="C", help=_CONFIDENCE)] = "0.99",
    floor: Annotated[str, cli.option(metavar="P", help=_FLOOR)] = "0.001",
    epsilon: Annotated[str | None, cli.option(metavar="ε", help=_BUDGET)] = None,
    notion: Annotated[Literal["lip", "ldp"] | None, cli.option(metavar="NOTION", help=_NOTION)] = None,
    columns: cli.Columns = cli.COLUMNS,
) -> None:
    """Plan the next wave from this wave's reports. Its prior is the estimate, its promise for a set of priors.

    The set has all priors within the estimate's intervals and the drift until the next wave. For the same people again
    the prior stays: a plan in two layers is used again, and --persistence or --transition makes one by the belief rule.
    """
    from tacit.designs import guidance, next_wave, read_transition
    from tacit.files import read_tally
    from tacit.plan import Plan
    from tacit.show import plans as shown

    to.check(plan, *([] if reports is None else [reports]))
    loaded = Plan.load(plan)
    with cli.progress_bar("designing"):
        changes = None
        if transition is not None:
            changes = read_transition(transition, loaded.single("Following people").values)
        again = next_wave.same_people(loaded, persistence, epsilon, changes)
    if again is not None:
        _tell_again(again, to)
        return
    if reports is None:
        raise ValueError("The next wave is planned from the reports of this one: give its tally or its reports.")
    tally = read_tally(loaded, reports, **columns.given())
    options: dict[str, Any] = {"drift": drift, "least_drift": least_drift, "confidence": confidence, "floor": floor}
    with cli.progress_bar("designing"):
        found = next_wave.next_blocks(loaded, tally, **options)
        made = next_wave.planned(loaded, found, epsilon=epsilon, notion=notion)
    worst = max(found, key=lambda each: each.drift)
    facts: dict[str, Any] = {"wave": made.wave, "series": made.series, "drift_seen": worst.seen, "drift": worst.drift}
    facts |= {"alarm": any(each.alarm for each in found)}
    facts |= {"groups": [shown.group_summary(group) for group in made.groups]}
    if not to.put_plan(made, facts):
        return
    if made.block_column is None:
        shares, alone = [each.share for each in found[0].priors], made.asking()
        costs = guidance.costs(alone, shares, tally.n_reports).to_dict()
        shown.print_plan(to.console, alone, facts | costs, to.output)
    else:
        to.console.print(f"Wrote {cli.escape(to.output)}, plan {made.hash[:12]}; tacit audit explains it.")
    to.console.print(_next_sentence(loaded.wave, facts))
    cli.tell_notes((note for each in found for note in each.notes), cli.err)


def _tell_again(plan: Any, to: cli.Target) -> None:
    """The next wave for the same people: written, and told."""
    from tacit.show import plans as shown
    from tacit.show.sentences import again_sentence

    groups = [shown.group_summary(group) for group in plan.groups]
    if not to.put_plan(plan, {"wave": plan.wave, "series": plan.series, "groups": groups}):
        return
    wrote = f"Wrote {cli.escape(to.output)}, plan {plan.hash[:12]}, wave {plan.wave} for the same people."
    to.console.print(f"{wrote}\n{again_sentence(plan)}")
    if plan.follows is not None:
        followed = "Randomize with --person and --history, the reports of the wave before."
        to.console.print(f"{len(groups):,} groups. {followed}")


def _next_sentence(wave: int, facts: dict[str, Any]) -> str:
    alarm = (
        f"[bold red]The reports of wave {wave} contradict its prior[/bold red]: answers changed, or it was wrong. "
        if facts["alarm"]
        else ""
    )
    return (
        f"Wave {facts['wave']}. {alarm}Drift seen: {facts['drift_seen']:.3f}; allowed for: {facts['drift']:.3f} (the "
        "change of an answer that half of the people hold; of more than 12 answers or combinations, a total variation "
        "distance)."
    )
