"""Plans on the terminal: promises, costs and channels; a guide to ε; plans made from the designs of others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tacit.mechanism import Belief
from tacit.mechanism.auditing import percent
from tacit.mechanism.repeated import RESEND_BITS
from tacit.plan import Group, Plan
from tacit.show.sentences import (
    MAX_ROWS,
    again_sentence,
    factor,
    group_label,
    outside_values,
    promise,
    promise_cells,
    promised_answer,
    set_cell,
    set_sentence,
    significant,
)

#: A printed channel shows this many reports.
MAX_REPORTS = 6
#: What a certificate says of a group in JSON.
_STATED = (
    "aim", "mse", "unbiased_variance", "prior_variance", "lower_bound", "ldp_aimed", "method",
)  # fmt: skip


def table(*headers: str, left: int = 1) -> Table:
    """An airy table whose columns after the first `left` hold numbers."""
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for place, header in enumerate(headers):
        result.add_column(escape(header), justify="left" if place < left else "right", overflow="fold")
    return result


# -- plans ----------------------------------------------------------------------------------------------------------


def group_summary(group: Group) -> dict[str, Any]:
    """One group for JSON."""
    certificate = group.certificate
    stated = dict.fromkeys(_STATED) if certificate is None else certificate.to_dict()
    return {
        "group": group.name,
        "epsilon": float(group.epsilon),
        "notion": group.notion,
        "mechanism": group.mechanism.kind,
        "n_possible_reports": group.mechanism.n_possible_reports,
        "prior_set": None if group.prior_set is None else group.prior_set.to_dict(),
        **{name: stated[name] for name in _STATED},
        "layers": None if group.layers is None else _layers_facts(group),
        "levels": {name: None if math.isinf(level) else level for name, level in group.levels.items()},
    }


def _layers_facts(group: Group) -> dict[str, Any]:
    """Two layers for JSON: the level promised for a lifetime, how often the stored report is sent, its levels."""
    assert group.layers is not None
    found = group.layers.stored.audit()
    levels = {"lip": found.lip.epsilon, "ldp": found.ldp.epsilon}
    share = group.layers.resend / (1 << RESEND_BITS)
    stored = {name: None if math.isinf(level) else level for name, level in levels.items()}
    return {"lifelong": float(group.layers.lifelong), "resend": share, "levels": stored}


def print_plan(console: Console, plan: Plan, summary: dict[str, Any], path: str) -> None:
    """A plan for people: the cost, what LDP and no reports would have cost, and the promise in words."""
    trusting = any(facts["aim"] == "mmse" for facts in summary["groups"])
    # A plan that promises LDP has nothing to be compared with LDP for.
    compared = any(group.notion != "ldp" for group in plan.groups)
    places = [0, 1, *([2] if compared else []), *([3] if trusting else [])]
    titles = ("error", "proven best", "LDP", "no data")
    shown = table("group", "ε", "reports", *(titles[place] for place in places))
    for facts in summary["groups"][:MAX_ROWS]:
        shown.add_row(
            escape(group_label(facts["group"])),
            f"{facts['epsilon']:g}",
            "too many to list" if facts["n_possible_reports"] is None else str(facts["n_possible_reports"]),
            *(_error(facts[_errors_of(facts["aim"])[place]]) for place in places),
        )
    console.print(shown)
    more(console, len(plan.groups), "groups")
    console.print(f"[dim]{_what_errors_are(plan, trusting)}[/dim]")
    methods = sorted({facts["method"] for facts in summary["groups"] if facts["method"]})
    console.print(f"[dim]method: {escape('; '.join(methods[:4]))}[/dim]\n")
    what = f"{plan.task.total_name} {'is' if len(plan.row_values) == 1 else 'are'}"
    told = f"[bold]±{significant(summary['expected_rmse'])}[/bold] "
    if trusting:
        alone = significant(summary["rmse_without_reports"])
        told += f"if the prior is exactly right; guessing from it alone, by ±{alone}.\n"
    else:
        alone = significant(summary["expected_rmse_participants"])
        told += f"(one standard error) for the population they stand for, by ±{alone} for themselves.\n"
    people = f"With {summary['respondents']:,} respondents{_drawn(summary)} the estimated {what} expected to be off by "
    console.print(people + told)
    print_promises(console, plan)
    if sentence := again_sentence(plan):
        console.print(sentence)
    _print_price(console, summary)
    console.print(f"\nWrote [bold]{escape(path)}[/bold], plan {plan.hash[:12]}.")


def print_panel(
    console: Console, panel: dict[str, Any], persistence: str, transition: str | Path | None = None
) -> None:
    """Ways to ask the same people again, at the same level for the person."""
    shown = table("way to ask again", "ε of a wave", "level for the person", "error of a wave")
    for row in panel["ways"]:
        level = "–" if row["level"] is None else f"{'' if row['exact'] else '≤ '}{_level(row['level'])}"
        best = "[bold]{}[/bold]" if row["way"] == panel["recommended"] else "{}"
        shown.add_row(best.format(row["way"]), f"{row['epsilon']:.3f}", level, f"{row['error']:.4g}")
    whose = "" if panel["group"] is None else f" in {escape(group_label(panel['group']))}"
    kept = f"who keep their answer with probability {persistence} or draw it anew:"
    change = f"--persistence {persistence}"
    if transition is not None:
        kept = f"whose answers change by {escape(str(transition))}:"
        change = f"--transition {escape(str(transition))}"
    console.print(f"\nThe same people{whose} in {panel['waves']} waves, {kept}")
    console.print(shown)
    stated = panel["fresh_at_epsilon"]
    reached = "more than can be computed" if stated["level"] is None else f"{stated['level']:.3f}"
    console.print(
        f"[dim]error: standard error of one wave from one respondent. Fresh channels at ε = {stated['epsilon']:g} in "
        f"every wave would reach {'' if stated['exact'] else 'up to '}{reached} for the person, not "
        f"{panel['level']:g}.[/dim]\nRecommended: [bold]{panel['recommended']}[/bold]. {_WAYS[panel['recommended']]}"
    )
    best = next(row for row in panel["ways"] if row["way"] == panel["recommended"])
    budget, lifelong = f"--epsilon {math.floor(best['epsilon'] * 1e4) / 1e4:g}", f"--lifelong {panel['level']:g}"
    how = {
        "fresh channels": f"Plan with {budget}, and each later wave with tacit next and the reports.",
        "belief rule": f"Plan with {budget}, and each later wave with tacit next {change}.",
        "two layers": f"Plan with {budget} {lifelong}, and each later wave with tacit next.",
    }
    console.print(how[panel["recommended"]])


#: What each way to ask again means.
_WAYS = {
    "fresh channels": "Every wave draws through the same channel again, with less than its part of the level.",
    "belief rule": "Every wave's channel fits the belief that the earlier reports leave; levels then add.",
    "two layers": "The device stores one report of each answer, and sends that or one that ignores the answer in every "
    "wave. The errors of the waves are then not independent.",
}


def _what_errors_are(plan: Plan, trusting: bool) -> str:
    """What the columns of a plan's table are."""
    if all(group.without_prior for group in plan.groups):
        said = "error: standard error from one respondent, where all answers are equally frequent."
    elif trusting:
        said = "error: root mean square from one respondent, if the prior is exactly right.  no data: the prior alone."
    else:
        said = "error: standard error from one respondent, also if the prior is wrong."
    if all(group.notion == "ldp" for group in plan.groups):
        return said + "\nproven best: no LDP channel can do better."
    return said + "\nproven best: no channel can do better.  LDP: the best LDP channel found for this ε."


def _print_price(console: Console, summary: dict[str, Any]) -> None:
    """What the promise costs in respondents, beside the exact prior's and LDP; and the level without a set."""
    price = summary["price"]
    if len(price) > 1:
        shown = table("promise", "expected error", "respondents needed")
        for row in price:
            needed = "–" if row["respondents_needed"] is None else f"× {row['respondents_needed']:.2f}"
            name = {
                "ldp": "LDP, at the same ε", "exact prior": "for the exact prior only",
                "ldp at equal level": "LDP, at this plan's LDP level",
            }  # fmt: skip
            shown.add_row(name.get(row["promise"], row["promise"]), f"±{significant(row['expected_rmse'])}", needed)
        console.print(shown)
        console.print(
            "[dim]respondents needed for the precision of this plan.  LDP holds for any belief, so at the same ε it "
            f"promises more: this plan's own LDP level is {_level(summary['ldp_level'])}. At that level LDP promises "
            "less about the stated prior.[/dim]"
        )
    off = summary["level_if_prior_off"]
    if off:
        promised = min(facts["epsilon"] for facts in summary["groups"])
        weaker = "; ".join(f"by {share}, {_level(level)}" for share, level in off.items() if level > promised)
        told = f"the promise is weaker: LIP {weaker} (total variation). --prior-error plans for it."
        kept = f"by {max(off)} (total variation), the promise is kept all the same."
        console.print(f"If the prior is off{f', {told}' if weaker else f' {kept}'}")


def print_other_beliefs(console: Console, others: Sequence[Mapping[str, Any]]) -> None:
    """What an observer with other beliefs can learn."""
    console.print("\nSomebody with the other beliefs:")
    for each in others[:MAX_ROWS]:
        how = "exactly" if each["exact"] else "at most"
        detail = f"; {each['sentence']}" if each["sentence"] else ""
        name = group_label(each["group"])
        console.print(escape(f"  {name}: LIP level {how} {_level(each['level'])}{detail}."))


def _errors_of(aim: str | None) -> tuple[str, ...]:
    """The numbers that a plan is shown with, by what it aims at."""
    if aim == "unbiased":
        return "unbiased_variance", "lower_bound", "ldp_aimed", "prior_variance"
    return "mse", "lower_bound", "ldp_aimed", "prior_variance"


def print_promises(console: Console, plan: Plan) -> None:
    """The promise of each group from the plan's own numbers: a sentence for one, a table for several."""
    if len(plan.groups) == 1:
        console.print(f"The promise: {escape(promise(plan, plan.groups[0].name))}")
        told = set_sentence(plan.groups[0])
        if told is not None:
            console.print(told)
        return
    console.print(f"The promise: how far a report can move the belief in {promised_answer(plan)}.")
    sets = any(group.prior_set is not None for group in plan.groups)
    extra = ["and for beliefs"] if sets else []
    shown = table("group", "answer", "before", "at most", "at least", "odds, any belief", *extra, left=2)
    for group in plan.groups[:MAX_ROWS]:
        shown.add_row(*map(escape, promise_cells(plan, group)), *([escape(set_cell(plan, group))] if sets else []))
    console.print(shown)
    more(console, len(plan.groups), "groups")
    if sets:
        console.print(
            "[dim]and for beliefs: for everybody who believes in such a share of the answer, or is off by so much in "
            "all, beliefs move by a factor of e^ε at most.[/dim]"
        )


def print_audit(console: Console, plan: Plan) -> None:
    """Levels and promises of a plan that holds."""
    shown = table("group", "promised", "LIP", "up", "down", "LDP", "MIP")
    for group in plan.groups[:MAX_ROWS]:
        levels = [_level(group.levels[name]) for name in ("lip", "lip_upper", "lip_lower", "ldp", "mip")]
        if group.without_prior:  # The other levels need a stated prior.
            levels = ["–", "–", "–", levels[3], "–"]
        promised = f"{group.notion.upper()} {float(group.epsilon):g}"
        promised += "" if group.ldp_cap is None else f", LDP {float(group.ldp_cap):g}"
        shown.add_row(escape(group_label(group.name)), promised, *levels)
        if group.layers is not None:
            found = group.layers.stored.audit()
            reached = found.lip.epsilon, found.lip_upper.epsilon, found.lip_lower.epsilon, found.ldp.epsilon, found.mip
            lasting = [_level(level) for level in reached]
            if group.without_prior:
                lasting = ["–", "–", "–", lasting[3], "–"]
            promised = f"{group.notion.upper()} {float(group.layers.lifelong):g}"
            shown.add_row("  its stored report", promised, *lasting)
    console.print(shown)
    more(console, len(plan.groups), "groups")
    console.print(
        "[dim]LIP: how far a report raises (up) or lowers (down) a belief, as a logarithm.\n"
        "LDP: the same for odds, under any belief.  MIP: mutual information.  Rounded up.[/dim]\n"
    )
    print_promises(console, plan)
    if sentence := again_sentence(plan):
        console.print(sentence)
    for group in plan.groups[:MAX_ROWS]:
        outside = outside_values(group)
        if outside:
            names = ", ".join(map(str, outside[:8])) + (", …" if len(outside) > 8 else "")
            console.print(f"Outside the guarantee of {escape(group_label(group.name))} (prior zero): {escape(names)}.")
    print_holds(console, plan)


def print_holds(console: Console, plan: Plan) -> None:
    """That the plan holds, what it limits, and which other reports count with it."""
    console.print(f"\n[green]The plan holds[/green], decided in exact integers. Plan {plan.hash}.")
    if plan.limit is not None:
        limit = float(plan.limit)
        console.print(f"The reports of one person in all waves may add up to LIP {limit:g}; devices refuse more.")
    if plan.series is not None:
        console.print(f"Wave {plan.wave} of the series of plan {plan.series}.")
    for words, old in zip(plan.earlier, plan.hashes, strict=False):
        texts = [text for each in words.texts.values() for text in each.values()]
        said = texts[:1] if words.title is None else [words.title]
        asked = f"the question “{said[0]}”" if said else "no question"
        console.print(f"Reports of plan {old} count as well: it differs in words only, {escape(asked)}.")


# -- channels -------------------------------------------------------------------------------------------------------


def channel_facts(group: Group) -> dict[str, Any]:
    """The exact integers of one group, for JSON: the rows of a table, or the description of a rule."""
    facts = {"group": group.name, "values": list(group.prior.values), "prior": list(group.prior.weights)}
    table = group.mechanism.table()
    if table is None:
        return facts | {"weights": None, "denominator": None, "mechanism": group.mechanism.to_dict()}
    weights = [[str(cell) for cell in row] for row in table.weights]
    return facts | {"weights": weights, "denominator": str(table.denominator), "labels": list(table.labels)}


def print_channels(console: Console, groups: Sequence[dict[str, Any]]) -> None:
    """Channels as percentages; the exact integers are in the JSON."""
    for facts in groups[:MAX_ROWS]:
        console.print(f"[bold]{escape(group_label(facts['group']))}[/bold]: Pr(report | answer)")
        if facts["weights"] is None:
            console.print(
                f"{len(facts['values']):,} answers: the mechanism is a rule, not a table; see --json and docs/plan.md."
            )
            continue
        _print_channel(console, facts)
    more(console, len(groups), "groups")


def _print_channel(console: Console, facts: dict[str, Any]) -> None:
    labels = facts["labels"][:MAX_REPORTS]
    shown = table("answer", "prior", *(f"{y}: {str(label)[:9]}" for y, label in enumerate(labels)))
    total, denominator = sum(facts["prior"]), int(facts["denominator"])
    for value, weight, row in list(zip(facts["values"], facts["prior"], facts["weights"], strict=True))[:MAX_ROWS]:
        cells = [percent(Fraction(int(cell), denominator)) for cell in row[:MAX_REPORTS]]
        shown.add_row(escape(str(value)), percent(Fraction(weight, total)), *cells)
    console.print(shown)
    more(console, len(facts["values"]), "answers")
    more(console, len(facts["labels"]), "reports", MAX_REPORTS)
    bits = denominator.bit_length() - 1
    size = f"2^{bits}" if denominator == 2**bits else str(denominator)
    console.print(f"[dim]Each report has its best guess beside it. Exact integers over {size}: --json.[/dim]\n")


def more(console: Console, count: int, what: str, shown: int = MAX_ROWS) -> None:
    if count > shown:
        console.print(f"… and {count - shown:,} more {what}; all with --json.")


def _error(mean_square: float | None) -> str:
    return "–" if mean_square is None else f"{math.sqrt(mean_square):.4g}"


def _level(level: float) -> str:
    return "∞" if math.isinf(level) else f"{math.ceil(level * 10000) / 10000:.4f}"


def warning(plan: Plan, name: str | None, moved: Belief) -> str:
    """What it means that a belief nearly becomes certain."""
    whose = "" if name is None else f" of group {group_label(name)!r}"
    epsilon = max(float(group.epsilon) for group in plan.groups)
    return (
        f"ε = {epsilon:g} protects little: somebody{whose} who is believed to be {moved.value!r} with "
        f"{percent(moved.prior)} may be believed with {percent(moved.high, 'up')} after one report. Ask more people, "
        "or accept a larger error."
    )


def _drawn(summary: Mapping[str, Any]) -> str:
    """How respondents are drawn, where it was stated."""
    size, effect = summary.get("population_size"), summary.get("design_effect", 1)
    told = "" if size is None else f" of {size:,.10g} people"
    return told if effect == 1 else f"{told} and a design effect of {effect:g}"


def detection(found: Mapping[str, Any], counts_people: bool) -> str:
    """How many respondents show a difference, as a sentence."""
    size = f"{found['difference'] * 100:g} percentage points" if counts_people else f"{found['difference']:g}"
    told = (
        f"A difference of {size} is seen with a power of {found['power']:.0%} (two-sided, 5%) from "
        f"{found['per_wave']:,} respondents in each of two waves of different people"
    )
    if found["groups"] is not None:
        first, second = found["groups"]
        told += f", and from {found['per_group']:,} in each of two groups ({first} and {second} need most)"
    return told + "."


def print_advice(
    console: Console, plan: Plan, summary: Mapping[str, Any], sure: tuple[str | None, Belief] | None
) -> None:
    """Beside a plan: who shows a difference, and what is no secret any more."""
    if summary["detect"] is not None:
        console.print(escape(detection(summary["detect"], plan.task.counts_people)))
        needed = [number for name in ("per_wave", "per_group") if (number := summary["detect"][name]) is not None]
        if summary["population_size"] is not None and max(needed) > summary["population_size"]:
            console.print("The population has fewer people: choose a larger ε or difference.")
    if sure is not None:
        console.print(f"[yellow]warning:[/yellow] {escape(warning(plan, *sure))}")


def print_guide(console: Console, task: Any, rows: Sequence[Mapping[str, Any]], respondents: int) -> None:
    """A table of budgets: what beliefs become, beside the precision."""
    people = task.counts_people
    detected = rows[0]["detect"]
    heads = [f"{float(p):.0%} →" for p in rows[0]["beliefs"]]
    extra = (["in points"] if people else []) + (["to see it"] if detected else [])
    shown = table("ε", "factor", *heads, "error", *extra)
    for row in rows:
        points = [f"±{row['expected_rmse'] / respondents * 100:.2g}"] if people else []
        shown.add_row(
            f"{row['epsilon']:g}" + (" [yellow]![/yellow]" if row["reaches_90"] else ""),
            f"× {factor(Fraction(row['factor']))}",
            *(f"≤ {percent(Fraction(high), 'up')}" for high in row["beliefs"].values()),
            f"±{significant(row['expected_rmse'])}",
            *points,
            *([f"{row['detect']['per_wave']:,}"] if detected else []),
        )
    console.print(shown)
    told = (
        "factor: how far a report changes any belief, at most, up or down.  1% →: what a belief of 1% can become.\n"
        f"error: one standard error of the {task.total_name}, with {respondents:,} respondents."
    )
    if detected:
        told += "  to see it: respondents in each of two waves that show the difference."
    console.print(f"[dim]{told}[/dim]")
    if any(row["reaches_90"] for row in rows):
        console.print("[yellow]![/yellow]: a belief that the priors state, of 50% or less, can reach 90%.")
    console.print("Nothing was written: choose ε, and plan with --epsilon.")


#: Beliefs that people can picture: what becomes of them.
_BELIEFS = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2))
#: Longer lists of reports are cut.
_SHOWN = 16


def adopted_summary(plan: Plan, labels: Sequence[str]) -> dict[str, Any]:
    """For JSON: levels and beliefs of each group, and what each report was called."""
    return {
        "labels": list(labels),
        "groups": [group_summary(each) | {"beliefs": _beliefs(each)} for each in plan.groups],
    }


def _beliefs(group: Group) -> list[dict[str, str]] | None:
    """The possible change of a belief in any value, for any other beliefs: odds times or over the LDP ratio."""
    ratio = group.audit.ldp.ratio
    if ratio is None:
        return None
    ends = [(before, before * ratio / (1 - before + before * ratio)) for before in _BELIEFS]
    least = [before / (before + (1 - before) * ratio) for before in _BELIEFS]
    return [
        {"before": percent(before), "at_most": percent(most, "up"), "at_least": percent(low, "down")}
        for (before, most), low in zip(ends, least, strict=True)
    ]


def print_adopted(console: Console, plan: Plan, labels: Sequence[str], path: str) -> None:
    """What the design promised, and which report is which."""
    if len(plan.groups) == 1 or not all(group.without_prior for group in plan.groups):
        print_promises(console, plan)
    shown = table("group", "level", "believed before", "at most", "at least", left=2)
    for group in plan.groups:
        name, level = group_label(group.name), f"{group.notion.upper()} {float(group.epsilon):g}"
        for place, belief in enumerate(_beliefs(group) or ()):
            first = (name, level) if place == 0 else ("", "")
            shown.add_row(*map(escape, first), *belief.values())
    if shown.row_count:
        console.print(shown)
        console.print("[dim]for every belief; the level is that of the rounded channel, rounded up.[/dim]")
    if all(group.without_prior for group in plan.groups):
        console.print("Nothing is taken to be known: estimates do not use a prior, and none is checked.")
    called = ", ".join(f"{y}: {label}" for y, label in enumerate(labels[:_SHOWN]))
    console.print(f"Reports are {escape(called)}{', …' if len(labels) > _SHOWN else ''}.")
    console.print(f"\nWrote [bold]{escape(path)}[/bold], plan {plan.hash[:12]}.")
