"""The sheet for an ethics board and a privacy officer: what a plan collects, promises and does not promise.

All numbers are read from the plan's integers. Risks are stated as odds and in examples ("of 100 people …"), which
readers understand best (Nanayakkara and others, arXiv 2303.00738).
"""

from __future__ import annotations

from fractions import Fraction
from html import escape
from pathlib import Path

from tacit.disk import write_text
from tacit.exact import exp_enclosure
from tacit.mechanism.auditing import percent
from tacit.plan import Group, Plan
from tacit.show import sentences as say
from tacit.show.page import Brand, document, footer, html_table

#: Beliefs of a reader who knows something else, as examples.
_BELIEFS = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2))
_MOST_GROUPS = 30


def write_sheet(
    path: str | Path, plan: Plan, *, contact: str | None = None, waves: int = 1, brand: Brand | None = None
) -> None:
    """Write the sheet as a page of its own, atomically."""
    write_text(path, sheet(plan, contact=contact, waves=waves, brand=brand))


def sheet(plan: Plan, *, contact: str | None = None, waves: int = 1, brand: Brand | None = None) -> str:
    """The sheet as HTML: collected, promised, not promised, asked again, stored, and a paragraph for a protocol."""
    title = plan.heading or "A survey with randomized answers"
    sections = [
        f"<h1>{escape(title)}</h1>",
        '<p class="soft">For the ethics board and the privacy officer. Every number follows from the integers in the '
        "plan; <code>tacit audit</code> computes them again.</p>",
        "<h2>What is collected</h2>" + _collected(plan),
        "<h2>What is promised</h2>" + _promised(plan),
        "<h2>For whom it does not hold</h2>" + _limits(plan),
        "<h2>Asked again</h2>" + _again(plan, waves),
        "<h2>What is stored</h2>" + _stored(),
        "<h2>To paste into a protocol</h2>" + f"<blockquote><p>{escape(paragraph(plan))}</p></blockquote>",
        f"<h2>Contact</h2><p>{escape(contact)}</p>" if contact else "",
        footer(plan, None),
    ]
    return document(title, sections, brand)


def paragraph(plan: Plan) -> str:
    """One paragraph for an application to a board, a DPIA or a consent form."""
    notion = plan.groups[0].notion.upper()
    budgets = sorted({float(group.epsilon) for group in plan.groups})
    stated = " to ".join(f"{each:g}" for each in dict.fromkeys([budgets[0], budgets[-1]]))
    public = _public_words(plan) if notion == "LIP" else []
    name = "localized information privacy" if notion == "LIP" else "local differential privacy"
    return (
        "Each respondent's device randomizes the private answers before anything is sent; no private answer reaches "
        f"the collector.{_sent_plainly(plan)} "
        f"The randomization satisfies {name} with ε = {stated}: {_sentence(plan)} "
        f"{''.join(f'{said} ' for said in public)}Results are totals with confidence "
        "intervals that include the randomization. The randomizer is published as a plan with the hash "
        f"{plan.hash[:16]}…, and its promise is verified in exact arithmetic by every device before it answers."
    )


def _sentence(plan: Plan) -> str:
    """The promise of the group that it protects least."""
    levels = [group.levels["ldp"] for group in plan.groups]
    return say.promise(plan, plan.places[levels.index(max(levels))][1])


def _collected(plan: Plan) -> str:
    if len(plan.questions) > 1:
        asked = "".join(
            f"<li>{escape(question.words)}{' <b>(public: sent as it is)</b>' if question.public else ''}</li>"
            for question in plan.questions
        )
        if len(plan.blocks) == 1:
            return (
                "<p>One report for each person, an integer about all answers together, but for those that are public:"
                f"</p><ul>{asked}</ul>"
            )
        return (
            f"<p>One report for each person, about one of {len(plan.blocks)} blocks of these questions, which the "
            f"device draws at random:</p><ul>{asked}</ul><p>A report is the number of a block and an integer. The "
            "block does not depend on the answers.</p>"
        )
    answers = plan.questions[0].answers
    values = ", ".join(map(str, answers[:12])) + (", …" if len(answers) > 12 else "")
    named = "" if not plan.group_names else f" The group ({escape(', '.join(plan.group_names))}) is sent as it is."
    return f"<p>One report for each person: an integer. Possible answers: {escape(values)}.{named}</p>"


def _promised(plan: Plan) -> str:
    rows = []
    for group in plan.groups[:_MOST_GROUPS]:
        ratio = group.audit.ldp.ratio
        examples = [f"{percent(_after(belief, ratio, 1), 'up')}" for belief in _BELIEFS]
        rows.append((say.group_label(group.name), f"{group.notion.upper()} {float(group.epsilon):g}", *examples))
    headers = ("who", "promised ε", *(f"believed {percent(belief)} before" for belief in _BELIEFS))
    said = _sentence(plan)
    more = "" if len(plan.groups) <= _MOST_GROUPS else f"<p>The first {_MOST_GROUPS} of {len(plan.groups)}.</p>"
    return (
        f"<p>{escape(said[0].upper() + said[1:])}</p><p>{escape(_example(plan))}</p><p>For a reader with any other "
        f"belief, this is the largest belief after a report.</p>{html_table(headers, rows)}{more}"
    )


def _example(plan: Plan) -> str:
    """Of two answers, how many of 100 people send a report that suggests the first: those who hold it, and others."""
    if len(plan.private) > 1 or len(plan.block_plans[0].values) != 2:
        return ""
    (alone,) = plan.block_plans
    group = max(alone.groups, key=lambda each: each.levels["ldp"])
    asked = alone.values.index(alone.task.wanted[0]) if alone.task.wanted else 0
    held, other = Fraction(0), Fraction(0)
    for report in range(group.mechanism.n_possible_reports or 0):
        mine, theirs = (group.mechanism.likelihood(value, report) for value in (asked, 1 - asked))
        if mine > theirs:
            held, other = held + mine, other + theirs
    first, second = alone.values[asked], alone.values[1 - asked]
    who = "" if group.name is None else f" ({group.name}, where reports reveal most)"
    return (
        f"An example{who}: of 100 people who answer “{first}”, about {round(100 * held)} send a report that suggests "
        f"“{first}”; of 100 people who answer “{second}”, about {round(100 * other)} do so too."
    )


def _after(belief: Fraction, ratio: Fraction | None, side: int) -> Fraction:
    """The belief after odds changed by the ratio."""
    if ratio is None:
        return Fraction(1)
    odds = belief / (1 - belief) * ratio**side
    return odds / (1 + odds)


def _limits(plan: Plan) -> str:
    outside = [(group, say.outside_values(group)) for group in plan.groups]
    named = [
        f"{say.group_label(group.name)}: {', '.join(map(str, values[:8]))}{', …' if len(values) > 8 else ''}"
        for group, values in outside
        if values
    ]
    lip = any(group.notion == "lip" for group in plan.groups)
    said = [
        "The first sentence above holds for readers who believe what the plan states as prior. A reader who knows more "
        "about a person has another belief; for them the table above holds."
        if lip
        else "The promise holds for every belief.",
        *(_public_words(plan) if lip else []),
        _set_words(plan.groups[0]) if lip else "",
        f"Answers that the plan declares impossible are outside of the promise: {'; '.join(named)}." if named else "",
        "Nothing is promised about what a total tells about a person who belongs to a group of one, or about what a "
        "person tells others. A device that is not honest can send any report: one forged report moves a total by a "
        "bounded amount, which every estimate states.",
    ]
    return "".join(f"<p>{escape(each)}</p>" for each in said if each)


def _public_words(plan: Plan) -> list[str]:
    """Public answers travel beside the report, so every reader of a report has them."""
    return [f"Every reader of a report sees the public answers beside it. {note}." for note in plan.public_notes]


def _set_words(group: Group) -> str:
    if group.prior_set is None:
        return "The prior is taken to be exact. If it is off, the promise is weaker: --prior-error plans for it."
    return (
        "The promise holds for every prior of the stated set, so for a prior that is off by as much as the set allows."
    )


def _again(plan: Plan, waves: int) -> str:
    if again := say.again_sentence(plan):
        return f"<p>{escape(again)}</p>"
    said = (
        "A device keeps its report and sends the same one again if the connection fails: this tells nothing more. A "
        "second, fresh report of the same answer tells more. One report changes a belief by at most a factor of "
        f"{_together(plan, 1)}, two together by at most {_together(plan, 2)}."
    )
    if waves > 2:
        said += f" {waves} waves with the same people: by at most {_together(plan, waves)}."
    if plan.limit is not None:
        limit = say.factor(exp_enclosure(plan.limit)[1])
        said += f" A device draws no report with which those of one person could exceed a factor of {limit}."
    return f"<p>{escape(said)}</p>"


def _together(plan: Plan, reports: int) -> str:
    """The factor by which that many fresh reports of one answer can change a belief, rounded up: at most
    e^((2r − 1)ε) under LIP and e^(rε) under LDP, and never more than that of the odds.
    """
    found = []
    for group in plan.groups:
        times = 2 * reports - 1 if group.notion == "lip" else reports
        bound = exp_enclosure(times * group.epsilon)[1]
        found.append(bound if group.audit.ldp.ratio is None else min(bound, group.audit.ldp.ratio**reports))
    return say.factor(max(found))


def _sent_plainly(plan: Plan) -> str:
    """What is not randomized, as a sentence; empty where everything is."""
    public = ", ".join(plan.public_questions)
    parts = [*(["the group"] if plan.group_names else []), *([f"the answers to {public}"] if public else [])]
    return f" Sent as they are: {' and '.join(parts)}." if parts else ""


def _stored() -> str:
    rows = (
        ("counts of reports by group, public answers and day", "database", "until the survey is deleted"),
        ("hashes of random keys, against counting twice", "database", "until the survey is closed"),
        ("the newest reports and key hashes, fewer than 20 of each group", "database, encrypted", "until there are 20"),
        ("private answers, addresses, names, cookies, times of day", "nowhere", "–"),
    )
    return html_table(("what", "where", "how long"), rows, left=3) + (
        '<p class="soft">For the collection service of Tacit. “What the service keeps” in its documentation says '
        "what remains in logs.</p>"
    )
