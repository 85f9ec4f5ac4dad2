"""The story that `make demo` tells: a survey on a rare disease, for groups that differ in what is known of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from tacit.audit import Audit, audit
from tacit.design import k_ary_response, optimal_binary, theorem3
from tacit.prior import Prior
from tacit.rounding import PrivacyError
from tacit.task import Survey, mse, prior_variance

EPSILON = 1
TASK = Survey("yes")
#: What is believed about each group before the survey: prevalence in per cent, and how many people are asked.
GROUPS = {"18–39": ("1", 4000), "40–64": ("10", 3000), "65 and over": ("30", 2000), "hospital ward": ("60", 1000)}


@dataclass(frozen=True)
class GroupStory:
    """What one group's survey costs, as mean squared error of its estimated count, and what its channels promise."""

    name: str
    prior: Prior
    people: int
    no_data: float
    ldp: float
    lip: float
    ours: Audit
    published: Audit
    published_keeps: bool


def tell(name: str, per_cent: str, people: int) -> GroupStory:
    """Design and audit the three channels of one group."""
    yes = int(per_cent)
    prior = Prior.of({"yes": yes, "no": 100 - yes})
    ours, ldp = optimal_binary(prior, EPSILON), k_ary_response(prior, EPSILON)
    try:
        theorem3(prior, EPSILON)
        keeps = True
    except PrivacyError:
        keeps = False
    return GroupStory(
        name,
        prior,
        people,
        no_data=people * prior_variance(TASK, prior),
        ldp=people * mse(TASK, ldp, prior),
        lip=people * mse(TASK, ours, prior),
        ours=audit(ours, prior),
        published=audit(theorem3(prior, EPSILON, force=True), prior),
        published_keeps=keeps,
    )


def run() -> None:
    """Print the demo."""
    console = Console(highlight=False)
    stories = [tell(name, *facts) for name, facts in GROUPS.items()]
    lip, ldp, nothing = (
        math.sqrt(sum(getattr(story, name) for story in stories)) for name in ("lip", "ldp", "no_data")
    )
    rarest = stories[0]
    paragraphs = [
        "[bold]Tacit: ask a crowd, learn the total, never the person[/bold]",
        f"{sum(s.people for s in stories):,} people are asked whether they have a disease. Each device randomizes the "
        "answer before it is sent, so that no report moves anybody's belief by more than a factor "
        f"e^{EPSILON} = {math.exp(EPSILON):.2f}, up or down.",
        "[bold]1. How many have it? Error of the estimated count[/bold] (root mean squared, in people)",
        _errors(stories),
        f"All groups together: ±{lip:.0f} people with LIP, ±{ldp:.0f} with LDP at the same ε, ±{nothing:.0f} from the "
        "priors alone. LDP guards against every prior there could be; LIP against the one that is known, and saves "
        "the difference.",
        "[bold]2. The published formula breaks its promise for rare values; ours keeps it[/bold]",
        _promises(stories),
        f"In the group {rarest.name}, through the published channel, {rarest.published.witness}. "
        f"Through ours, {rarest.ours.witness}.",
        "Every level above is decided on the channel's integers, not on floats or samples: see docs/theory.md.",
    ]
    for paragraph in paragraphs:
        console.print(paragraph, end="\n\n")


def _errors(stories: list[GroupStory]) -> Table:
    table = Table("group", "believed", "people", "no data", "LDP", "LIP", "LIP learns")
    for column in table.columns[1:]:
        column.justify = "right"
    for s in stories:
        more = (s.no_data - s.lip) / (s.no_data - s.ldp)
        errors = [f"±{math.sqrt(error):.2f}" for error in (s.no_data, s.ldp, s.lip)]
        believed = f"{s.prior.probability('yes') * 100}%"
        table.add_row(s.name, believed, f"{s.people:,}", *errors, f"{more:.1f} × LDP")
    return table


def _promises(stories: list[GroupStory]) -> Table:
    table = Table("group", "promised", "published reaches", "ours reaches", "promise kept?")
    for column in table.columns[1:4]:
        column.justify = "right"
    for s in stories:
        kept = "by both" if s.published_keeps else "[red]by ours only[/red]"
        table.add_row(s.name, f"ε = {EPSILON}", f"{s.published.lip.epsilon:.3f}", f"{s.ours.lip.epsilon:.3f}", kept)
    return table
