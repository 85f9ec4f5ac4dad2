"""`tacit edit`: corrected words. Argument parsing and printing only."""

from __future__ import annotations

from typing import Annotated, Any

from tacit.cli.app import (
    JsonFlag,
    Output,
    Overwrite,
    PlanFile,
    check_target,
    command,
    err,
    keep_plan,
    option,
    out,
    print_json,
    write_plan,
)

_TEXT = "Of a plan of several questions: the new text of one, as NAME=TEXT; repeatable."
_LANGUAGE = "The language of --text, such as en."


@command("edit", epilog="Example: tacit edit plan.json --question 'Do you smoke?' -o plan2.json")
def edit_command(
    plan: PlanFile,
    output: Output,
    question: Annotated[str | None, option(metavar="TEXT", help="The corrected question.")] = None,
    title: Annotated[str | None, option(metavar="TEXT", help="Of a plan of several questions: its title.")] = None,
    text: Annotated[list[str] | None, option(metavar="NAME=TEXT", help=_TEXT)] = None,
    language: Annotated[str, option(metavar="CODE", help=_LANGUAGE)] = "en",
    overwrite: Overwrite = False,
    as_json: JsonFlag = False,
) -> None:
    """Correct the words of a plan that is in use. Reports of both are pooled; devices that answered do not draw again.

    The new plan carries the earlier words, so that every reader can compute the earlier hash again: only words changed.
    """
    from tacit.plan import AnyPlan, Plan, load_plan

    check_target(output, plan)
    loaded = load_plan(plan)
    made: AnyPlan
    if isinstance(loaded, Plan):
        if question is None or title is not None or text:
            raise ValueError("Give the corrected question of this plan with --question.")
        made = loaded.reworded(question)
    else:
        if question is not None:
            raise ValueError("This plan has several questions: correct one with --text NAME=TEXT, or the --title.")
        made = loaded.reworded(title, _texts(text or (), language))
    keep_plan(output, made.hash, overwrite)
    write_plan(made, output)
    told = err if output == "-" else out
    if as_json:
        print_json({"plan": made.hash, "file": output, "earlier": list(made.hashes[:-1])}, told)
        return
    told.print(
        f"Plan {made.hash[:12]} differs from {loaded.hash[:12]} in words only. Reports and tallies of both are read "
        "with it and pooled, and a browser that has answered keeps its report. Whether the new words still ask the "
        "same question is for you to judge: if they do not, make a new plan.",
        soft_wrap=True,
    )


def _texts(given: Any, language: str) -> dict[str, dict[str, str]]:
    found = dict[str, dict[str, str]]()
    for each in given:
        name, equals, words = each.partition("=")
        if not equals or not words.strip():
            raise ValueError("A text must be given as NAME=TEXT, with the name of a question.")
        found[name.strip()] = {language: words.strip()}
    return found
