"""Differences and regressions printed as tables, with the words of `tacit.show.findings`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from tacit.estimates import CovariateLevels, Differences, Regression
from tacit.plan import Plan
from tacit.show.findings import (
    coefficient_cells,
    covariate_notes,
    difference_cells,
    difference_notes,
    difference_sentence,
    ratio_cells,
    surest,
    verdict,
)
from tacit.show.sentences import MAX_ROWS, row_name
from tacit.show.terminal import table


def print_differences(
    console: Console, plan: Plan, found: Differences, *, title: str, ratio: bool = False, notes: Sequence[str] = ()
) -> None:
    """A table and what it means; a sentence for a single difference."""
    if plan.question:
        console.print(f"[bold]{escape(plan.question)}[/bold]", soft_wrap=True)
    several = len(plan.row_values) > 1
    ends = f"{found.level * 100:g}% interval"
    headers = [title, "compared with", *(["answer"] if several else []), "here", "there"]
    headers += ["points" if plan.task.counts_people else "difference", ends, *(["ratio", ends] if ratio else []), ""]
    shown = table(*headers, left=3 if several else 2)
    rows = surest(found, 3 * MAX_ROWS)
    for row in rows:
        first, second, difference, reach = difference_cells(plan, row)
        shown.add_row(
            escape(row.part), escape(row.other), *([escape(str(row.value))] if several else []), first, second,
            difference, reach, *(ratio_cells(row) if ratio else ()), verdict(row),
        )  # fmt: skip
    console.print(shown)
    if len(found.rows) > len(rows):
        console.print(f"… the surest {len(rows)} of {len(found.rows):,}; all with --json or --csv.")
    if len(found.rows) == 1:
        console.print(escape(difference_sentence(plan, found.rows[0], found.level)), soft_wrap=True)
    for note in (*difference_notes(plan, found), *notes):
        console.print(f"[dim]{escape(note)}[/dim]", soft_wrap=True)


def print_regression(
    console: Console, plan: Plan, fit: Regression, levels: Sequence[CovariateLevels], notes: Sequence[str] = ()
) -> None:
    """Coefficients, what they are about, and what the columns mean for the promise."""
    if plan.question:
        console.print(f"[bold]{escape(plan.question)}[/bold]", soft_wrap=True)
    clusters = "" if fit.n_clusters is None else f" in {fit.n_clusters:,} clusters"
    console.print(f"{fit.n_reports:,} reports{clusters}, {fit.model} regression of {escape(_outcome(plan, fit))}")
    ends = f"{fit.level * 100:g}% interval"
    odds = [] if fit.model == "linear" else ["odds ×", ends]
    several = len({row.value for row in fit.coefficients}) > 1
    shown = table(*(["answer"] if several else []), "column", "coefficient", ends, *odds, "p", left=2 if several else 1)
    for row in fit.coefficients:
        shown.add_row(*([escape(str(row.value))] if several else []), escape(row.name), *coefficient_cells(fit, row))
    console.print(shown)
    errors = "errors within clusters may depend on each other" if fit.n_clusters else "errors may be of any size"
    about = "Intervals are about the population that the reports stand for, sampling and randomizing included"
    for note in (f"{about}; {errors}.", *notes, *covariate_notes(levels)):
        console.print(f"[dim]{escape(note)}[/dim]", soft_wrap=True)


def _outcome(plan: Plan, fit: Regression) -> str:
    if fit.model == "multinomial":
        return f"each answer's odds against “{fit.reference}”"
    if not plan.task.counts_people:
        return "the mean"
    return f"{'the share' if fit.model == 'linear' else 'the odds'} of “{row_name(plan, fit.coefficients[0].value)}”"
