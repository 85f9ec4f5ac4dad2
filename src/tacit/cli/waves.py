"""`tacit edit` and `next`: corrected words, and the next wave. Argument parsing and printing only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tacit.cli import app as cli

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
    from tacit.plan import load_plan

    to.check(plan)
    loaded = load_plan(plan)
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
    from tacit.plan import load_plan
    from tacit.show import plans as shown

    to.check(plan, *([] if reports is None else [reports]))
    loaded = load_plan(plan)
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
