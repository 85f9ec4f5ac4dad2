"""Results on the terminal: estimates and breakdowns, differences and regressions, and who did not follow the rule."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from tacit.estimates import (
    Compliance,
    CovariateLevels,
    Differences,
    Estimate,
    PooledCompliance,
    Quantile,
    QuantileDifference,
    Regression,
    Row,
    Span,
    Trend,
)
from tacit.plan import Plan
from tacit.show import sentences as say
from tacit.show.plans import table

#: More groups than this that contradict the prior are named in one sentence.
MAX_ALARMS = 4


def print_estimate(console: Console, plan: Plan, result: Estimate) -> None:
    """Estimates with intervals, the largest first where there are many, and the prior check in words."""
    _title(console, plan)
    if not result.n_reports:
        console.print("There are no reports yet.")
        return
    reports = "1 report" if result.n_reports == 1 else f"{result.n_reports:,} reports"
    console.print(f"{reports}, estimator {say.how_estimated(result)}")
    rows = result.rows
    if len(rows) > say.MAX_ROWS:
        rows = tuple(sorted(rows, key=lambda row: -_sortable(row.estimate))[: say.MAX_ROWS])
    headers = ("answer" if plan.task.counts_people else "", *say.estimate_headers(plan, result))
    print_table(
        console, headers, ((say.row_name(plan, row.value), *say.estimate_cells(plan, result, row)) for row in rows)
    )
    for note in _estimate_notes(plan, result, rows):
        console.print(note)
    for sentence in prior_sentences(plan, result):
        console.print(sentence)
    console.print(f"[dim]{say.forged(result)}[/dim]")


def _estimate_notes(plan: Plan, result: Estimate, rows: Sequence[Row]) -> list[str]:
    """What has to be known to read the table."""
    notes = []
    if len(result.rows) > say.MAX_ROWS:
        notes.append(
            f"… the largest {say.MAX_ROWS} of {len(result.rows):,}: chosen for being large, so expect them to be "
            f"overestimated{' although their intervals hold' if result.simultaneous else ''}. All with --json."
        )
    few = say.too_few(plan, result)
    if few:
        notes.append("[yellow]Too few reports to say anything: margins are as wide as what is possible.[/yellow]")
    if any(math.isnan(row.low) and math.isfinite(row.estimate) for row in rows):
        notes.append(
            "[yellow]not determined: reports cannot separate this answer from others; it is the prior's.[/yellow]"
        )
    notes.append(f"[dim]{say.whom(result.scope, result.simultaneous)}[/dim]")
    if result.estimator == "mmse":
        notes.append("[yellow]Estimates and intervals hold only if the prior is exactly right.[/yellow]")
    if few:
        return notes
    return [*notes, *(said for said in (say.weights_sentence(result), say.prior_part(result)) if said)]


def _title(console: Console, plan: Plan) -> None:
    if plan.question:
        console.print(f"[bold]{escape(plan.question)}[/bold]")


def _dim(console: Console, notes: Iterable[str]) -> None:
    for note in notes:
        console.print(f"[dim]{escape(note)}[/dim]")


def print_table(console: Console, headers: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> None:
    """Rows of texts, of which the columns after the first `left` hold numbers."""
    shown = table(*headers, left=left)
    for row in rows:
        shown.add_row(*map(escape, row))
    console.print(shown)


def print_quantiles(console: Console, found: Sequence[Quantile], level: float, of: str = "") -> None:
    """Quantiles with their intervals, of all people and of each part."""
    if found:
        print_table(console, (of, *say.quantile_headers(level)), say.quantile_cells(found), left=2)


def print_quantile_differences(console: Console, found: Sequence[QuantileDifference], level: float) -> None:
    """Differences of quantiles with their intervals."""
    if found:
        cells = say.quantile_difference_cells(found)[: say.MAX_ROWS]
        print_table(console, say.quantile_difference_headers(level), cells, left=2)
        console.print("[dim]The parts are different people; the prior is not used.[/dim]")


def print_breakdown(console: Console, plan: Plan, column: str, parts: Mapping[str, Estimate]) -> None:
    """The parts of an estimate: one table for single totals, one after the other for histograms."""
    console.print(f"\n[bold]by {escape(column)}[/bold]")
    if len(plan.row_values) > 1:
        for name, part in parts.items():
            console.print(f"\n[bold]{escape(column)} = {escape(name or '(empty)')}[/bold]")
            print_estimate(console, plan, part)
        return
    if not parts:
        console.print(table(column))
        return
    first = next(iter(parts.values()))
    print_table(console, say.part_headers(plan, first, column), say.part_cells(plan, parts))
    said = f"{say.how_estimated(first)}. Parts are estimated on their own and need not add up. {say.whom(first.scope)}"
    few = say.few_parts(parts)
    console.print(f"[dim]{escape(said)}{'' if few is None else ' ' + escape(few)}[/dim]")
    for name, part in parts.items():
        for check in part.prior_check:
            if check.contradicted:
                said = escape(f"{column} = {name}: {say.alarm(plan, part, check)}")
                console.print(f"[yellow]{said}[/yellow]")


def prior_sentences(plan: Plan, result: Estimate) -> list[str]:
    """The prior check in words, as markup: what is contradicted, or one sentence if nothing is."""
    checks = result.prior_check
    alarms = [f"[yellow]{escape(say.alarm(plan, result, check))}[/yellow]" for check in checks if check.contradicted]
    if len(alarms) > MAX_ALARMS:
        wrong = [say.group_label(check.group) for check in checks if check.contradicted and not check.pooled]
        names = escape(", ".join(wrong[: say.MAX_ROWS])) + (", …" if len(wrong) > say.MAX_ROWS else "")
        return [alarms[0], f"[yellow]{len(wrong)} of {len(checks) - 1} groups contradict it: {names}.[/yellow]"]
    return alarms or [escape(str(check)) for check in checks[:1]]


def _sortable(number: float) -> float:
    return number if math.isfinite(number) else -math.inf


def print_differences(
    console: Console, plan: Plan, found: Differences, *, title: str, ratio: bool = False, notes: Sequence[str] = ()
) -> None:
    """A table and what it means; a sentence for a single difference."""
    _title(console, plan)
    ends, rows = say.interval_header(found.level), say.surest(found, 3 * say.MAX_ROWS)
    headers = [title, *say.compared_sides(plan, found), "points" if plan.task.counts_people else "difference", ends]
    cells = (
        (
            say.compared_name(plan, found, row), *say.difference_cells(plan, row),
            *(say.ratio_cells(row) if ratio else ()), say.verdict(row),
        )
        for row in rows
    )  # fmt: skip
    print_table(console, [*headers, *(["ratio", ends] if ratio else []), ""], cells)
    if len(found.rows) > len(rows):
        console.print(f"… the surest {len(rows)} of {len(found.rows):,}; all with --json or --csv.")
    if len(found.rows) == 1:
        console.print(escape(say.difference_sentence(plan, found, found.rows[0])))
    hint = [] if found.simultaneous or len(found.rows) == 1 else ["--simultaneous: intervals for all rows at once."]
    _dim(console, (*say.difference_notes(plan, found), *hint, *notes))


def print_trend(console: Console, plan: Plan, found: Trend, *, ratio: bool = False, notes: Sequence[str] = ()) -> None:
    """Each wave's shares or means, then the changes."""
    several = len(plan.row_values) > 1
    what = "share" if plan.task.counts_people else "mean"
    headers = ["", *(["answer"] if several else []), "reports", what, say.interval_header(found.changes.level)]
    cells = (
        (
            name, *([say.row_name(plan, row.value)] if several else []), f"{result.n_reports:,}",
            *say.estimate_cells(plan, result, row)[2:],
        )
        for name, result in zip(found.names, found.estimates, strict=True)
        for row in result.rows[: say.MAX_ROWS]
    )  # fmt: skip
    print_table(console, headers, cells, left=2 if several else 1)
    print_differences(
        console, plan, found.changes, title="change", ratio=ratio, notes=[*found.changes.notes, *notes]
    )  # fmt: skip


def print_regression(
    console: Console, plan: Plan, fit: Regression, levels: Sequence[CovariateLevels], notes: Sequence[str] = ()
) -> None:
    """Coefficients, what they are about, and what the columns mean for the promise."""
    _title(console, plan)
    clusters = "" if fit.n_clusters is None else f" in {fit.n_clusters:,} clusters"
    console.print(f"{fit.n_reports:,} reports{clusters}, {fit.model} regression of {escape(_outcome(plan, fit))}")
    ends = say.interval_header(fit.level)
    odds = [] if fit.model == "linear" else ["odds ×", ends]
    several = len({row.value for row in fit.coefficients}) > 1
    cells = (
        (*([str(row.value)] if several else []), row.name, *say.coefficient_cells(fit, row)) for row in fit.coefficients
    )
    headers = (*(["answer"] if several else []), "column", "coefficient", ends, *odds, "p")
    print_table(console, headers, cells, left=2 if several else 1)
    errors = "errors within clusters may depend on each other" if fit.n_clusters else "errors may be of any size"
    about = "Intervals are about the population that the reports stand for, sampling and randomizing included"
    _dim(console, (f"{about}; {errors}.", *say.regression_notes(fit), *notes, *say.covariate_notes(levels)))


def _outcome(plan: Plan, fit: Regression) -> str:
    if fit.model == "multinomial":
        return f"each answer's odds against “{fit.reference}”"
    if not plan.task.counts_people:
        return "the mean"
    if len(plan.row_values) > 1:
        return "the shares"
    return (
        f"{'the share' if fit.model == 'linear' else 'the odds'} of “{say.row_name(plan, fit.coefficients[0].value)}”"
    )


#: Level of significance of the tests.
_LEVEL = 0.05
_POOLED = (
    "Groups count as many people as they have reports. It is not the mean of the shares below: these cannot lie below "
    "0, so they are too large on average."
)


def print_compliance(
    console: Console, plan: Plan, found: Sequence[Compliance], pooled: PooledCompliance | None, says: int | None
) -> None:
    """The share that did not follow, the test of it, and what that means for each answer."""
    if pooled is not None:
        console.print("[bold]All groups together[/bold]")
        console.print(_verdict(pooled))
        console.print(f"[dim]{_POOLED}[/dim]\n")
    for each in found:
        if each.group is not None:
            console.print(f"[bold]{escape(each.group)}[/bold]")
        console.print(_verdict(each))
        cells = (
            (say.row_name(plan, row.value), *(_told(span) for span in (row.least, row.alike, row.most)))
            for row in each.rows
        )
        print_table(console, ("answer", "none of them", "like the others", "all of them"), cells)
        if each.fit is not None and each.fit < _LEVEL:
            console.print(
                f"[yellow]The model does not fit (p = {each.fit:.2g}): people who did not follow did something else, "
                "or the arms are not alike.[/yellow]"
            )
    console.print(f"[dim]{_assumptions(found[0], says)}[/dim]")


def expected_sentence(errors: Sequence[Mapping[str, Any]], respondents: int) -> str:
    """How well a plan's arms will show who does not follow, for the group that they show it worst."""
    if any(each["error"] is None for each in errors):
        return "These arms cannot show who does not follow the rule: take budgets that are further apart."
    worst = max(errors, key=lambda each: float(each["error"]))
    where = "" if len(errors) == 1 else f" of group {worst['group']!r}, where it shows least,"
    return (
        f"With {respondents:,} respondents the share{where} that does not follow the rule shows to "
        f"±{worst['error'] * 100:.1f} percentage points (one standard error), if they always send the same report."
    )


def _verdict(each: Compliance | PooledCompliance) -> str:
    gone = each.not_following
    share = f"[bold]{_percent(gone.estimate)}[/bold] ({each.level * 100:g}% interval {_interval(gone)})"
    if each.p_value < _LEVEL:
        test = f"That all of them followed is rejected (p = {each.p_value:.2g})."
    else:
        shown = "p > 0.5" if each.p_value > 0.5 else f"p = {each.p_value:.2g}"
        test = f"The reports do not show that people did not follow ({shown}); the interval says how many may be."
    return f"Of {each.n_reports:,} people, did not follow the rule: {share}. {test}"


def _assumptions(each: Compliance, says: int | None) -> str:
    sent = "any report at random" if says is None else f"report {says}"
    checked = "" if each.fit is not None else " The arms give as many numbers as there are unknowns: no check of that."
    return (
        "Share of the people who hold each answer, if none, as many or all of those who did not follow hold it. It is "
        "taken that arms were assigned at random, that as many do not follow in each, and that these send "
        f"{sent}.{checked} Who follows the rule but with another answer than their own looks like somebody who holds "
        "it: nothing shows that. A change of the answers themselves since the prior is no reason to reject: it is in "
        "all arms."
    )


def _told(span: Span) -> str:
    return f"{_percent(span.estimate)} ({_interval(span)})"


def _interval(span: Span) -> str:
    return f"{span.low * 100:.1f} … {_percent(span.high)}"


def _percent(share: float) -> str:
    return f"{share * 100:.1f}%"
