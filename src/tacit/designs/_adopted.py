"""From a rule that others used to a plan: audited, so that what was collected elsewhere is read like our own.

Plans hold integers over a power of two. A probability such as 2/3 is rounded to a multiple of 2^-64, or finer where a
report is rare; all levels are those of the rounded channel, and differ from the rule's in the tenth digit at most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from tacit.designs.planning import Priors, group_priors
from tacit.designs.prior_file import GroupPrior
from tacit.designs.rules import Rule
from tacit.mechanism import Audit, Channel, Notion
from tacit.plan import Group, Plan
from tacit.prior import Prior
from tacit.task import Task

#: Word lengths to choose from, and how many digits (in bits) the rarest report keeps.
_WORD_BITS, _DIGITS = (64, 96, 128, 192, 256), 40
#: A stated level has so many decimals.
_DECIMALS = 10**4


def adopt(
    rules: Rule | Mapping[str, Rule] | Mapping[str | None, Rule],
    task: Task,
    priors: Priors | None = None,
    question: str | None = None,
) -> Plan:
    """The plan of data that were collected by these rules: one for everybody, or one for each group by name.

    Without priors nothing is taken to be known: the promise is LDP, at the level that the rule really has, and no
    estimate uses a prior. With priors it is LDP all the same, and the estimators that use a prior are there too. A rule
    under which some report excludes some value has no LDP level. It can be adopted with priors that give such values
    the probability zero, and the promise is LIP. Other priors are refused: a report would take a belief to zero.

    >>> from tacit import Survey
    >>> from tacit.designs.rules import warner
    >>> plan = adopt(warner(["yes", "no"], 0.75), Survey("yes"))
    >>> plan.groups[0].notion, float(plan.groups[0].epsilon), str(plan.groups[0].audit.ldp.ratio)
    ('ldp', 1.0987, '3')
    """
    stated: dict[str | None, Rule] = {None: rules} if not isinstance(rules, Mapping) else dict(rules.items())
    values = next(iter(stated.values())).values
    known = None if priors is None else group_priors(priors)
    groups = []
    for each in _matched(stated, [GroupPrior(name=None, prior=Prior.uniform(values))] if known is None else known):
        rule = stated[each.name] if each.name in stated else stated[None]
        if each.prior.values != rule.values:
            raise ValueError("The priors must have the values of the design, in the same order.")
        groups.append(_group(each, rule, task, believed=known is not None))
    return Plan(task, tuple(groups), question)


def _matched(rules: Mapping[str | None, Rule], priors: Sequence[GroupPrior]) -> list[GroupPrior]:
    """A prior for each group: groups are those of the rules, of the priors, or of both if they agree."""
    of_rules = [name for name in rules if name is not None]
    of_priors = [each.name for each in priors if each.name is not None]
    if not of_rules or set(of_rules) == set(of_priors):
        return list(priors)
    if of_priors:
        raise ValueError(f"The design has the groups {', '.join(of_rules)}, the priors {', '.join(of_priors)}.")
    alike = priors[0]
    return [
        GroupPrior(name=name, prior=alike.prior, share=Fraction(1, len(of_rules)), weight=alike.weight)
        for name in rules
    ]


def _group(each: GroupPrior, rule: Rule, task: Task, believed: bool) -> Group:
    channel = Channel.from_matrix(each.prior, rule.rows, bits=_bits(rule))
    if math.isinf(channel.under(Prior.uniform(rule.values)).unbiased_variance(task)):
        raise ValueError(
            "The reports of this design do not tell the values apart, however many there are: no estimate without a "
            "prior exists. Check the probabilities; at 1/2 a coin decides alone."
        )
    notion, level = _promised(channel.audit(), rule, believed)
    epsilon = _stated(channel, notion, level)
    return Group(
        name=each.name, epsilon=epsilon, mechanism=channel, notion=notion, weight=each.weight,
        offset=each.offset,
    )  # fmt: skip


def _promised(found: Audit, rule: Rule, believed: bool) -> tuple[Notion, float]:
    """LDP where it has a finite level; else LIP, for a prior under which that has one."""
    if found.ldp.ratio is not None:
        return "ldp", found.ldp.epsilon
    if believed and found.lip.ratio is not None:
        return "lip", found.lip.epsilon
    excluding = found.lip if believed else found.ldp
    assert excluding.report is not None
    raise ValueError(
        f"The report {rule.reports[excluding.report]!r} excludes the answer {excluding.value!r}: this design has no "
        "finite LDP level, and a plan would promise nothing."
    )


def _bits(rule: Rule) -> int:
    """Words so long that the rarest report keeps its digits."""
    rarest = min(cell for row in rule.rows for cell in row if cell)
    enough = next((bits for bits in _WORD_BITS if rarest * 2 ** (bits - _DIGITS) >= 1), None)
    if enough is None:
        raise ValueError(f"A report has the probability {float(rarest):.1g}, too small for the integers of a plan.")
    return enough


def _stated(channel: Channel, notion: Notion, level: float) -> Fraction:
    """The smallest level of four decimals that is kept, decided exactly."""
    steps = math.floor(level * _DECIMALS)
    return next(
        epsilon
        for epsilon in (Fraction(step, _DECIMALS) for step in range(max(0, steps - 1), steps + 3))
        if channel.keeps(notion, epsilon)
    )
