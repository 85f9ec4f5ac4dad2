"""Results of several questions: on the terminal, as rows for files, and as a page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from html import escape as html
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from tacit.disk import write_text
from tacit.estimates import Association, Crosstab, Estimate, Row
from tacit.estimates import row_dict as numbers_of
from tacit.plan import Plan, Question
from tacit.show.page import Brand, Mark, document, figure, footer, html_table
from tacit.show.plans import table
from tacit.show.sentences import digits, how_estimated, record_sentence, short_promise, whom
from tacit.tally import Tally


def print_record_promise(console: Console, plan: Plan) -> None:
    """What a person is promised about all answers together, and the levels that each block reaches."""
    shown = table("block", "questions", "chance", "LIP", "LDP", left=2)
    for number, block in enumerate(plan.blocks, start=1):
        names = ", ".join(question.name for question in block.questions)
        levels = [max(group.levels[name] for group in block.groups) for name in ("lip", "ldp")]
        shown.add_row(str(number), escape(names), f"{block.share:.1%}", *map(_rounded_up, levels))
    console.print(shown)
    for sentence in record_promise(plan):
        console.print(escape(sentence))


def print_planned(console: Console, plan: Plan, summary: Mapping[str, Any], path: str) -> None:
    """A new plan for people: what each question costs, beside other ways to ask, and the promise."""
    shown = table("question", "block", "error", "alone", "ε split", "LDP", left=1)
    for facts in summary["questions"]:
        compared = facts["respondents_relative_to"]
        mean = math.sqrt(facts["unbiased_variance"] / len(facts["answers"]))
        shown.add_row(
            escape(facts["name"]),
            str(facts["block"]),
            f"{mean:.3g}",
            *(f"× {compared[way]:.2f}" for way in ("one_question_alone", "epsilon_split_evenly", "ldp_one_at_random")),
        )
    console.print(shown)
    console.print(
        "[dim]error: standard error of a share (of the mean) from one respondent, who reports on one block; divide by "
        "the root of the number of respondents.\nRespondents needed for the same precision, relative to  alone: this "
        "question alone with all of ε;  ε split: every question by itself with an even part of ε;  LDP: one question "
        "at random, by the best LDP channel.[/dim]"
    )
    # Rounded up: nothing less is proved.
    gaps = [math.ceil(1000 * block["gap"]) / 1000 for block in summary["blocks"]]
    whole = f"needs less than {summary['lower_bound'] / summary['weighted_error']:.0%} of the respondents"
    said = (
        f"No channel for a block can do better by more than {max(gaps):.1%}; no channel for the whole record {whole}."
    )
    if len(gaps) == 1:
        said = f"No channel for these questions can do better by more than {gaps[0]:.1%}."
    console.print(f"[dim]{said}[/dim]\n")
    print_record_promise(console, plan)
    for note in summary["notes"]:
        console.print(f"[yellow]note:[/yellow] {escape(note.removesuffix('.'))}.")
    console.print(f"\nWrote [bold]{escape(path)}[/bold], plan {plan.hash[:12]}.")


def record_promise(plan: Plan) -> list[str]:
    """The promise in words: one for the whole record, and what it becomes for a reader with other beliefs."""
    groups = plan.blocks[0].groups
    budgets = sorted({(group.notion.upper(), float(group.epsilon)) for group in groups})
    promised = ", ".join(f"{notion} ε = {epsilon:g}" for notion, epsilon in budgets)
    worst = max(group.levels["ldp"] for group in plan.groups)
    around = " and every prior of the set around it" if any(group.prior_set is not None for group in groups) else ""
    promises = [f"The promise ({promised}): {record_sentence(plan.groups)}"]
    if all(notion == "LDP" for notion, _ in budgets):
        return promises
    several = len(plan.blocks) > 1
    alone = "Each person reports on one block only. " if several else ""
    between = "; nothing is assumed about how blocks are related" if several else ""
    return [
        *promises,
        f"{alone}The belief is the stated prior{around}, which says how the answers to the "
        f"questions of a block are related{between}. The LDP level is {_rounded_up(worst)}.",
    ]


def _rounded_up(level: float) -> str:
    """A level with four decimals: what is promised is at most this."""
    return f"{math.ceil(level * 1e4) / 1e4:g}"


def question_rows(found: Mapping[str, Estimate]) -> list[dict[str, Any]]:
    """A row for each answer of each question, and for each part where there are parts; for JSON and CSV."""
    rows = []
    for name, result in found.items():
        for part, each in ((None, result), *result.parts.items()):
            by = {} if result.by is None else {result.by: "all" if part is None else part}
            rows += [{"question": name, **by} | numbers_of(row, each.per_respondent(row)) for row in each.rows]
    return rows


def _shown(question: Question, row: Row) -> tuple[str, str]:
    """A share in percent, or a mean, and its interval, with as many digits as the interval supports."""
    scale, unit = (1.0, "") if question.task == "mean" else (100.0, "%")
    error, low, high = scale * row.standard_error, scale * row.low, scale * row.high
    if unit:
        low, high = max(low, 0.0), min(high, 100.0)
    shown, *ends = (digits(number, error) for number in (scale * row.estimate, low, high))
    return f"{shown}{unit}", f"{' … '.join(ends)}{unit}"


def _label(question: Question, row: Row) -> str:
    return "mean" if question.task == "mean" else str(row.value)


def print_questions(console: Console, plan: Plan, found: Mapping[str, Estimate]) -> None:
    """A table of all questions: shares or means with intervals, and how many reports each rests on."""
    if plan.heading:
        console.print(f"[bold]{escape(plan.heading)}[/bold]")
    first = next(iter(found.values()))
    console.print(f"estimator {how_estimated(first)}")
    ends = f"{first.level * 100:g}% interval"
    for part in (None, *first.parts):
        shown = table("question", "answer", "estimate", ends, "reports", left=2)
        for name, whole in found.items():
            question, result = plan.question_of(name), whole if part is None else whole.parts[part]
            for place, row in enumerate(result.rows):
                cells = _shown(question, result.per_respondent(row))
                reports = "" if place else f"{result.n_reports:,}"
                shown.add_row("" if place else escape(question.words), escape(_label(question, row)), *cells, reports)
        if part is not None:
            console.print(f"\n[bold]{escape(str(first.by))} = {escape(part or '(empty)')}[/bold]")
        console.print(shown)
    console.print(f"[dim]{whom(first.scope, first.simultaneous)}{_blocks(plan)}[/dim]")
    for sentence in _alarms(plan, found):
        console.print(f"[yellow]{escape(sentence)}[/yellow]")


def _blocks(plan: Plan) -> str:
    """Which reports a question rests on, after a space; empty where it is all of them."""
    if len(plan.blocks) == 1:
        return ""
    return (
        " Each person reports on one block of questions, drawn at random, so a question rests on some of the reports."
    )


def block_alarm(names: Iterable[str]) -> str:
    """What it means that the reports on these questions contradict their joint prior."""
    return (
        f"The reports on {', '.join(names)} contradict the prior: answers, or how they are related, have "
        "changed. Unbiased estimates hold all the same; the promise held for the stated prior."
    )


def _alarms(plan: Plan, found: Mapping[str, Estimate]) -> list[str]:
    """A sentence for each block whose reports contradict its joint prior: one question of it has the check of all."""
    said = []
    for block in plan.blocks:
        asked = [question.name for question in block.questions if question.name in found]
        if asked and any(check.contradicted for check in found[asked[0]].prior_check):
            said.append(block_alarm(asked))
    return said


def print_crosstab(console: Console, found: Crosstab) -> None:
    """The table of two questions, the test of independence, and how the answers are related."""
    first, second = found.first.words, found.second.words
    console.print(
        f"[bold]{escape(first)}[/bold] (rows) by [bold]{escape(second)}[/bold] (columns), "
        f"{found.estimate.n_reports:,} reports"
    )
    shown = table(first, *map(str, found.second.answers))
    shares = Question(name="share", answers=found.first.answers)
    width = len(found.second.answers)
    for place, answer in enumerate(found.first.answers):
        rows = found.rows[place * width : (place + 1) * width]
        cells = [_shown(shares, found.estimate.per_respondent(row)) for _, _, row in rows]
        shown.add_row(escape(str(answer)), *(f"{share}\n[dim]{ends}[/dim]" for share, ends in cells))
    console.print(shown)
    for sentence in crosstab_sentences(found):
        console.print(escape(sentence))
    console.print(f"[dim]Shares of all people. {whom('population', found.estimate.simultaneous)}[/dim]")


def crosstab_sentences(found: Crosstab) -> list[str]:
    """Whether the answers are related, and how much."""
    said = []
    if found.p_value == found.p_value:
        shown = f"p = {found.p_value:.2g}" if found.p_value > 1e-16 else "p < 1e-16"
        decided = "are related" if found.p_value < 0.05 else "may be independent: the reports do not show otherwise"
        degrees = "1 degree" if found.degrees == 1 else f"{found.degrees} degrees"
        said.append(f"The answers {decided} ({shown}, score test with {degrees} of freedom).")
    if found.association is not None:
        said.append(_association(found, found.association))
    return said


def _association(found: Crosstab, how: Association) -> str:
    if how.estimate != how.estimate:
        return f"There are too few reports for the {how.kind}."
    level = found.estimate.level
    said = f"The {how.kind} is {how.estimate:.3g}, {level * 100:g}% interval {how.low:.3g} … {how.high:.3g}"
    if how.kind != "odds ratio":
        return f"{said}."
    (one, other), (answer, _) = found.first.answers, found.second.answers
    return (
        f"{said}: the odds of “{answer}” ({found.second.name}) where {found.first.name} is “{one}”, "
        f"over those where it is “{other}”."
    )


def write_questions(
    path: str | Path, plan: Plan, found: Mapping[str, Estimate], tally: Tally, brand: Brand | None = None
) -> None:
    """Write a page with a chart and a table for each question, atomically."""
    title = plan.heading or "Estimates"
    first = next(iter(found.values()))
    sections = [
        f"<h1>{html(title)}</h1>",
        f'<p class="soft">{tally.n_reports:,} randomized reports. {html(short_promise(plan))} This holds for every '
        "answer and for every combination of answers.</p>",
        *(f'<p class="warn">{html(sentence)}</p>' for sentence in _alarms(plan, found)),
    ]
    for name, result in found.items():
        question = plan.question_of(name)
        scale = 1.0 if question.task == "mean" else 0.01
        rows = [(row, result.per_respondent(row)) for row in result.rows]
        scaled = [(_label(question, row), share.divided(scale)) for row, share in rows]
        marks = [Mark(label, each.estimate, each.low, each.high, each.prior) for label, each in scaled]
        unit = "mean" if question.task == "mean" else "share"
        cells = [(_label(question, row), *_shown(question, share)) for row, share in rows]
        sections.append(f"<h2>{html(question.words)}</h2>")
        sections.append(
            figure(marks, True, unit="" if question.task == "mean" else "%")
            + html_table(("answer", unit, f"{result.level * 100:g}% interval"), cells)
        )
        sections.append(f'<p class="soft">{result.n_reports:,} reports.</p>')
    said = (
        f"Every answer was randomized before it left its device.{_blocks(plan)} {whom(first.scope, first.simultaneous)}"
    )
    sections.append(f"<h2>How this was found</h2><p>{html(said)}</p>")
    sections.append(f'<p class="soft">Estimator {html(how_estimated(first))}.</p>')
    write_text(path, document(title, [*sections, footer(plan, None)], brand))
