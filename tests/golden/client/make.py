"""Write the golden files on which Python and the browser client agree, word for word.

    .venv/bin/python tests/golden/client/make.py [NAME ...]

Run it only when the format changes on purpose, with the names of the files to write (plan_between, say) unless all are
meant: the tests read the files, and never write them. `rfc9474.json` is not made here; it holds the published test
vector of RFC 9474, appendix A.3.
"""

from __future__ import annotations

import copy
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tacit import (
    Channel,
    GroupPrior,
    Histogram,
    Matrix,
    Prior,
    Sum,
    Survey,
    audit,
    belief,
    design,
    make_plan,
    round_channel,
)
from tacit.designs import Promise, Search, optimal_binary
from tacit.designs._many_values import design_many_values, giants_alone
from tacit.designs._tiers import design_tiers
from tacit.designs.panels import following_plan, with_layers
from tacit.designs.without_prior import projective_response, subset_selection
from tacit.exact import at_most_exp, exp_enclosure
from tacit.files.ledger import Ledger, Occasion, added_up, hash_of
from tacit.mechanism import KINDS
from tacit.mechanism.auditing import Audit, percent
from tacit.mechanism.block_design import BlockDesign
from tacit.mechanism.many_values import ManyValues
from tacit.mechanism.tiers import Tiers, tail_of
from tacit.plan import (
    CHANCES,
    Block,
    Group,
    Plan,
    PlanError,
    Question,
    RecodedColumn,
    Recoding,
    base_name,
    contract_hash,
    followed_name,
    joint_values,
)
from tacit.prior import Ball, Box, Hull, PriorSet
from tacit.randomize import Randomizer, RecordRandomizer
from tacit.randomize.randomness import SeededWords
from tacit.show.sentences import outside_values, promise, set_sentence
from tacit.task import WeightedSum

HERE = Path(__file__).parent
MAX_BELIEFS = 20
BLOCK_DESIGNS = {"subset-selection": subset_selection, "projective": projective_response}


class Recorded:
    """Words from a list, or else from a seeded stream; remembers what was asked for."""

    per_thread = False

    def __init__(self, words: Sequence[int] = (), seed: int = 0) -> None:
        self._given, self._more, self.drawn = list(words), SeededWords(seed), []

    def integer(self, bits: int) -> int:
        word = self._given.pop(0) if self._given else self._more.integer(bits)
        self.drawn.append([bits, str(word)])
        return word

    def draw(self, count: int, bits: int) -> Any:
        return np.array([self.integer(bits) for _ in range(count)], dtype=np.uint64)


# -- plans ------------------------------------------------------------------------------------------------------------


def plans() -> Iterator[tuple[str, Callable[[], Plan]]]:
    """Plans of every kind, by name, each made when it is asked for."""
    yield "survey", _survey
    yield "histogram", _histogram
    yield "zeros", _zeros
    five = Prior.of({0: 4, 1: 3, 2.5: 2, 1e-7: 1, -10: 5})
    yield "ldp", lambda: make_plan(five, Sum(), "3/2", notion="ldp", aim="mmse")
    yield "words of 64 bits", lambda: _wide(48)
    yield "words of 96 bits", lambda: _wide(96)
    yield "mixed", _mixed
    yield "bins", _bins
    yield "large bins", _large_bins
    yield "many values", _many_values
    yield "large many values", _large_many_values
    yield "giants", _giants
    yield "tiers", _tiers
    yield "no prior", _no_prior
    yield "many values and no prior", _many_values_and_no_prior
    yield "sets", _sets
    yield "sets around rules", _sets_around_rules
    yield "capped", _capped
    yield "between", _between
    yield "weighted between", _weighted_between
    yield "matrix", _matrix
    yield "second wave", _second_wave
    yield "recoded", _recoded


def _histogram() -> Plan:
    """Names and a question that are hard to write."""
    names = [
        "a 'quoted' name",
        "both ' and \"",
        "naïve 😀",
        "line\u2029and paragraph",
        "back\\slash",
        "\u200b\u2028",
        "",
        "Ω",
        " x",
    ]
    prior = Prior.of(dict(zip(names, (5, 30, 12, 7, 2, 1, 20, 13, 10), strict=True)))
    question = 'Which of "these"\u2029 is yours? — 😀 \\ / é'
    note = 'A note\x00 about "it"\r\n\t\b\f\x1f \\ / é'
    return replace(make_plan(prior, Histogram(), 1, question=question), notes=(note,))


def _words() -> Prior:
    """Three hundred values, two of them impossible."""
    weights = {f"word {x}": 100_000 // (x + 3) for x in range(300)}
    return Prior.of(weights | {"word 7": 0, "word 299": 0})


def _bins() -> Plan:
    found = design(_words(), Histogram(), Fraction(4, 5), aim="mmse", search=Search(method="many-values"))
    group = Group(name=None, epsilon=Fraction(4, 5), mechanism=found.mechanism)
    return Plan.of_groups(Histogram(), (group,), "Which word?")


def _large_bins() -> Plan:
    """With giants."""
    prior = Prior.of({x: 10**9 // (x + 1) for x in range(3000)})
    found = design(prior, Histogram(), 3, aim="mmse", search=Search(method="many-values"))
    return Plan.of_groups(Histogram(), (Group(name=None, epsilon=Fraction(3), mechanism=found.mechanism),))


def _many_values() -> Plan:
    """Circles that seeds shuffle: for one prior, for a ball of them, and for all of them, that is LDP."""
    prior, near = _words(), Fraction(3, 100)
    groups = (
        _rule("one prior", prior, Fraction(4, 5), shuffled=True),
        _rule("a ball", prior, Fraction(1), Ball(prior, near), shuffled=True),
        Group(
            name="odds",
            epsilon=Fraction(2),
            mechanism=_shuffled(design_many_values(prior, 2, notion="ldp", seed_bits=32)),
            notion="ldp",
        ),
    )
    return Plan.of_groups(Histogram(), groups, "Which word?")


def _rule(
    name: str | None, prior: Prior, epsilon: Fraction, prior_set: PriorSet | None = None, shuffled: bool = False
) -> Group:
    bits = {"cell_bits": 24} if shuffled else {}
    found = design_many_values(prior, epsilon, 0 if prior_set is None else prior_set.radius, **bits)
    return Group(name=name, epsilon=epsilon, mechanism=_shuffled(found) if shuffled else found, prior_set=prior_set)


def _shuffled(found: ManyValues) -> ManyValues:
    """The same rule with a circle that seeds shuffle."""
    return replace(found, slots=0, first=0, second=0, light=0)


def _large_many_values() -> Plan:
    """Weights beyond 2^53, and values of less than a cell."""
    prior = Prior.of({x: 10**22 // (x + 1) ** 3 for x in range(3000)})
    return Plan.of_groups(Histogram(), (_rule(None, prior, Fraction(1), Ball(prior, Fraction(1, 50))),))


def _giants() -> Plan:
    """One giant and many values, most of them on lines; two giants and few values, each on its own; none."""
    heavy = Prior.of({x: 10**22 if x == 5 else 10**20 // (x + 1) for x in range(300)})
    few = Prior.of({x: 0 if x in (3, 299) else 9000 if x in (7, 8) else 1 + x % 5 for x in range(300)})
    flat = Prior.of({x: x + 1 for x in range(300)})
    groups = (
        _rule("lines", heavy, Fraction(1), Ball(heavy, Fraction(1, 50))),
        _rule("two", few, Fraction(2)),
        _rule("none", flat, Fraction(1)),
        _rule("most", few, Fraction(6)),
    )
    return Plan.of_groups(Histogram(), groups)


def _tiers() -> Plan:
    """Tiers around priors with an impossible value: with giants in tier 0, and with one cell for each value there."""
    heavy = Prior.of({x: 0 if x == 3 else 10**12 if x == 5 else 10**12 // (x + 1) for x in range(120)})
    sets = {"giants": (Fraction(3), Ball(heavy, Fraction(1, 20))), "alike": (Fraction(4), Ball(heavy, Fraction(1, 10)))}
    groups = [
        Group(name=name, epsilon=epsilon, mechanism=design_tiers(heavy, epsilon, near.radius), prior_set=near)
        for name, (epsilon, near) in sets.items()
    ]
    return Plan.of_groups(Histogram(), groups, "Which?")


def _no_prior() -> Plan:
    """Every mechanism that needs no prior: for equal priors, for one with a zero, and for all near that one."""
    values = [f"v{x}" for x in range(18)]
    alike, prior = Prior.uniform(values), Prior(values, [0 if x == 4 else x * x + 1 for x in range(18)])
    groups = [
        Group(name=name, epsilon=Fraction(1), mechanism=make(alike, Fraction(1)), notion="ldp")
        for name, make in BLOCK_DESIGNS.items()
    ]
    made, near = BLOCK_DESIGNS["projective"](prior, Fraction(3)), Ball(prior, Fraction(1, 5))
    groups += [
        Group(name="odds", epsilon=Fraction(3), mechanism=made, notion="ldp"),
        Group(name="set", epsilon=Fraction(3), mechanism=made, prior_set=near),
    ]
    return Plan.of_groups(Histogram(), tuple(groups), "Which?")


def _many_values_and_no_prior() -> Plan:
    """Reports beyond 2^32: few of the values that the circle has room for."""
    large = BLOCK_DESIGNS["subset-selection"](Prior.uniform(1_000_000), Fraction(1, 2))
    made = replace(large, prior=Prior.uniform(2000))
    return Plan.of_groups(Histogram(), (Group(name=None, epsilon=Fraction(1, 2), mechanism=made, notion="ldp"),))


def _small_sets() -> dict[str, PriorSet]:
    """A set of each kind around one prior over four possible values and an impossible one."""
    prior = Prior.of({"a": 5, "b": 3, "never": 0, "c": 1, "d": 1})
    others = [
        Prior.of({"a": 4, "b": 4, "never": 0, "c": 1, "d": 1}),
        Prior.of({"a": 11, "b": 5, "never": 0, "c": 3, "d": 2}),
    ]
    return {
        "ball": Ball(prior, "3/100"),
        "box": Box(prior, ["2/5", "1/4", "0", "1/20", "1/20"], ["3/5", "2/5", "0", "3/20", "3/20"]),
        "hull": Hull(prior, others),
        "everybody": Ball(prior, 1),
    }


def _sets() -> Plan:
    groups = []
    for name, prior_set in _small_sets().items():
        found = design(prior_set.prior, Histogram(), Promise(1, prior_set=prior_set))
        group = Group(
            name=name,
            epsilon=Fraction(1),
            mechanism=found.mechanism,
            prior_set=prior_set,
        )
        groups.append(group)
    return Plan.of_groups(Histogram(), tuple(groups), "Which?")


def _sets_around_rules() -> Plan:
    """Mechanisms that know only bounds of their lifts are private for a set by its radius."""
    prior = Prior.of({f"v{x}": 0 if x == 4 else x * x + 1 for x in range(18)})
    shares = [Fraction(weight, prior.total) for weight in prior.weights]
    box = Box(prior, [share * Fraction(9, 10) for share in shares], [share * Fraction(6, 5) for share in shares])
    hull = Hull(prior, [Prior(prior.values, [weight * (x % 3 + 3) for x, weight in enumerate(prior.weights)])])
    rule = design(prior, Histogram(), Fraction(4, 5), aim="mmse", search=Search(method="many-values")).mechanism
    groups = (
        _rule("box", prior, Fraction(1), box),
        _rule("hull", prior, Fraction(1), hull),
        Group(
            name="bins",
            epsilon=Fraction(1),
            mechanism=rule,
            prior_set=Ball(prior, Fraction(1, 25)),
        ),
    )
    return Plan.of_groups(Histogram(), groups)


def _capped() -> Plan:
    """An LDP level beside LIP, and beside LDP, where the smaller one counts."""
    prior = Prior.of({"yes": 0.1, "no": 0.9})
    both = make_plan({"both": prior}, Survey("yes"), 1, ldp_cap="5/4").groups[0]
    odds = make_plan({"odds": prior}, Survey("yes"), "1/2", notion="ldp").groups[0]
    return Plan.of_groups(Survey("yes"), (both, replace(odds, epsilon=Fraction(1), ldp_cap=Fraction(1, 2))))


def _between() -> Plan:
    """Any number from 0 to 100, for every prior of a ball."""
    prior = Prior.of({0: 12, 20: 30, 45: 40, 100: 18})
    near = Ball(prior, "1/50")
    found = design(prior, Sum(), Promise(1, prior_set=near))
    group = Group(name=None, epsilon=Fraction(1), mechanism=found.mechanism, prior_set=near)
    return Plan.of_groups(Sum(), (group,), "How many hours a week do you care for somebody?", between=True)


def _weighted_between() -> Plan:
    """Knots that floats do not hold exactly, some below zero."""
    values = (-2.5, -0.1, 0.3, 1e-7 + 1, 7)
    first, second = Prior(values, (1, 4, 4, 2, 1)), Prior(values, (3, 1, 5, 2, 2))
    groups = [
        GroupPrior(name="first", prior=first, weight=Fraction(2)),
        GroupPrior(name="second", prior=second, weight=Fraction(1, 3)),
    ]
    plan = make_plan(groups, WeightedSum(), 1)
    return Plan.of_groups(plan.task, plan.groups, "How much?", between=True)


def _matrix() -> Plan:
    """Two totals with names, of numbers that floats do not hold."""
    task = Matrix([["1/3", -2], [0, 40], [0.1, 1e-9]], names=["a “third”", "naïve 😀"])
    return make_plan(Prior.of({1: 2, 2: 3, 5: 5}), task, 1, question="How many?")


def _second_wave() -> Plan:
    """A later wave of a series, whose question was corrected twice; the first time there was none."""
    first = make_plan(Prior.of({"yes": 1, "no": 4}), Survey("yes"), 1)
    second = replace(first, wave=2, series=first.hash)
    return second.reworded("Are you il\u2029l?").reworded("Are you ill?")


def _survey() -> Plan:
    groups = [
        GroupPrior(name="18–29", prior=Prior.of({"yes": 0.1, "no": 0.9})),
        GroupPrior(name="30+", prior=Prior.of({"yes": 0.5, "no": 0.5}), epsilon=Fraction("0.3")),
        GroupPrior(name="'other'", prior=Prior.of({"yes": 1, "no": 99_999}), epsilon=Fraction(3)),
        GroupPrior(name="silent", prior=Prior.of({"yes": 1, "no": 3}), epsilon=Fraction(0)),
    ]
    return make_plan(groups, Survey("yes"), 1, question="Have you ever …?", aim="mmse")


def _zeros() -> Plan:
    """Values of prior zero: with a row of their own that says nothing, and exposed by reports of their own."""
    prior = Prior.of({"a": 3, "b": 0, "c": 5, "d": 0})
    quiet = make_plan({"quiet": prior}, Histogram(), 1).groups[0]
    small = Channel.from_weights(prior, [[5, 2, 1, 0, 0], [2, 2, 2, 2, 0], [3, 4, 1, 0, 0], [8, 0, 0, 0, 0]])
    return Plan.of_groups(Histogram(), (quiet, Group(name="exposed", epsilon=Fraction("0.7"), mechanism=small)), None)


def _wide(bits: int) -> Plan:
    """Tables over different denominators: all take the words of the longest."""
    prior, small = Prior.of({"yes": 1, "no": 9}), Channel.from_weights(Prior.of({"yes": 1, "no": 9}), [[5, 3], [3, 5]])
    lie = Fraction(3, 10)
    wide = round_channel(prior, [[1 - lie, lie], [lie, 1 - lie]], 1, bits=bits)
    groups = (
        Group(name="short", epsilon=Fraction(1), mechanism=optimal_binary(prior, 1)),
        Group(name="wide", epsilon=Fraction(1), mechanism=wide),
    )
    return Plan.of_groups(Survey("yes"), (*groups, Group(name="eighths", epsilon=Fraction(1), mechanism=small)))


def _mixed() -> Plan:
    """A table beside a rule with bins, which keeps LDP too."""
    prior = Prior.of({f"v{x}": 0 if x == 4 else x * x + 1 for x in range(14)})
    table = make_plan({"table": prior}, Histogram(), 1, aim="mmse").groups[0]
    circle = design(prior, Histogram(), 1, aim="mmse", search=Search(method="many-values")).mechanism
    groups = (
        table,
        Group(name="circle", epsilon=Fraction(1), mechanism=circle),
        Group(name="odds", epsilon=Fraction(2), mechanism=circle, notion="ldp"),
    )
    return Plan.of_groups(Histogram(), groups, "Which?")


# -- what is expected of them -----------------------------------------------------------------------------------------


def expected(plan: Plan) -> dict[str, Any]:
    """Everything that an implementation must say about a plan."""
    return {
        "promises": [[group.name, promise(plan, group.name)] for group in plan.groups],
        "beliefs": [[group.name, beliefs(group)] for group in plan.groups],
        "outside": [[group.name, [str(value) for value in outside_values(group)]] for group in plan.groups],
        "exposed": [[group.name, exposed(group)] for group in plan.groups],
        "chances": [part for group in plan.groups for part in chances(group)],
        "reports": [part for place in range(len(plan.groups)) for part in vectors(plan, place)],
        **({"sets": [[group.name, set_sentence(group)] for group in plan.groups]} if _has_sets(plan) else {}),
        **({"hashes": list(plan.hashes)} if plan.earlier else {}),
    }


def _has_sets(plan: Plan) -> bool:
    return any(group.prior_set is not None for group in plan.groups)


def beliefs(group: Group) -> list[list[str]]:
    """Value, believed before, at most and at least; of the least likely values where reports cannot be listed."""
    prior, mechanism = group.prior, group.mechanism
    told: Sequence[int] = prior.support
    if mechanism.n_possible_reports is None:
        told = sorted(prior.support, key=lambda x: prior.weights[x])[:MAX_BELIEFS]
    moved = [belief(mechanism, prior.values[x]) for x in told]
    return [[str(b.value), percent(b.prior), percent(b.high, "up"), percent(b.low, "down")] for b in moved]


def exposed(group: Group) -> list[str]:
    """Values whose holders send reports that nobody else can send."""
    return [str(value) for value in group.audit.exposed]


def chances(group: Group) -> list[list[Any]]:
    """Group, value, report, its meaning and Pr(report | value), for some cells of a table."""
    channel = group.mechanism
    if not isinstance(channel, Channel):
        return []
    cells = [(x, y) for x in range(len(channel.values)) for y in range(channel.n_possible_reports)][
        :: 1 + channel.weights.size // 20
    ]
    return [
        [
            group.name,
            str(channel.values[x]),
            y,
            str(channel.labels[y]),
            percent(Fraction(channel.weights[x, y], channel.denominator)),
        ]
        for x, y in cells
    ]


def vectors(plan: Plan, place: int) -> list[list[Any]]:
    """Group, value, words and report: at every edge of some rows, and at random."""
    if plan.between:
        return between_vectors(plan, place)
    group, randomizer, found = plan.groups[place], Randomizer(plan), []
    values = range(0, len(plan.values), 1 + len(plan.values) // 14)
    asked = [x for x in (4, 7, 299) if x < len(plan.values) and not group.prior.weights[x]] + list(values)
    for x in asked:
        for k, words in enumerate([*edge_words(group, x, plan), [], []]):
            source = Recorded(words, seed=1000 * x + k)
            report = randomizer.report(place, x, source)
            found.append([group.name, str(plan.values[x]), source.drawn, report])
    return found


def between_vectors(plan: Plan, place: int) -> list[list[Any]]:
    """The same for numbers at the knots, beside them and between them: the word that rounds them comes first."""
    group, randomizer, found = plan.groups[place], Randomizer(plan), []
    knots = group.prior.numbers.tolist()
    asked = [0.0, *knots, math.nextafter(knots[0], math.inf), math.nextafter(knots[-1], -math.inf)]
    asked += [a + (b - a) * part for a, b in pairwise(knots) for part in (0.001, 1 / 3, 0.5, 0.9)]
    for k, number in enumerate(asked):
        below = max(x for x in range(len(knots) - 1) if knots[x] <= number)
        part = (number - knots[below]) / (knots[below + 1] - knots[below])
        edge = math.floor(part * 2**53) << 11
        for word in sorted({0, 2**64 - 1, edge - 1, edge}):
            if 0 <= word < 2**64:
                source = Recorded([word], seed=k)
                (position,) = randomizer.rounded([number], source)
                found.append([group.name, repr(number), source.drawn, randomizer.report(place, position, source)])
    return found


def edge_words(group: Group, x: int, plan: Plan) -> list[list[int]]:
    """Words on both sides of some thresholds."""
    channel = group.mechanism
    if isinstance(channel, BlockDesign):
        base, last = channel.base, 2**64 - 1
        return [[base - 1, last], [base, 0], [base, last], [last, 0], [last, last], [0, last], [0, 0]]
    if isinstance(channel, ManyValues):
        if not group.prior.weights[x]:
            return [[0], [2**64 - 1]]
        base, last = channel.circle.base << channel.seed_bits // 2, (1 << channel.word_bits) - 1
        pairs = [[base - 1, last], [base, 0], [base, last], [last, 0], [last, last], [0, last]]
        if channel.bins:
            pairs = [[*pair, gamma, tau] for pair in pairs for gamma, tau in ((0, last), (last // 3, 0), (last, last))]
        ends = sorted(
            {*accumulate(channel.of_all), *(end for each in channel.of_giants for end in accumulate(each.values()))}
        )
        middle = ends[len(ends) // 2 :][:1]
        names = sorted({last, *(word for end in middle for word in (end - 1, end))})
        return [[*pair, word] for pair in pairs for word in names] if channel.giants else pairs
    if isinstance(channel, Tiers):
        last, found, below = (1 << channel.word_bits) - 1, [], 0
        for tier, chance in zip(channel.parts, channel.chances, strict=True):
            # The words that choose this tier; the first of all is for a stand-in.
            ends = [edge * (last + 1) // sum(channel.chances) for edge in (below, below + chance)]
            base, below = tier.circle.base << tier.seed_bits // 2, below + chance
            pairs = [[base - 1, last], [base, 0], [last, last], [0, last]]
            more = [[]] if channel.words_per_report == 3 else [[0], [last]]
            found += [[0, *pair, *name, word] for pair in pairs for name in more for word in (ends[0], ends[1] - 1)]
        return found
    tables = [each.mechanism for each in plan.groups if isinstance(each.mechanism, Channel)]
    bits = Channel.sampler(tables).word_bits
    edges = [edge * 2**bits // channel.denominator for edge in accumulate(channel.weights[x].tolist())]
    edges = edges[:: 1 + len(edges) // 3]
    return [[0], [2**bits - 1]] + [[word] for edge in edges for word in (edge - 1, edge) if 0 <= word < 2**bits]


# -- several questions ------------------------------------------------------------------------------------------------


def questionnaires() -> list[dict[str, Any]]:
    """Plans of several questions, what is said about them, and records with their words, blocks and reports."""
    return [{"plan": _slim(plan.to_dict()), **expected_of_record(plan)} for plan in (_clinic(), _one_block())]


def reworded_questionnaires() -> list[dict[str, Any]]:
    """A second wave whose title and texts were corrected twice, and the hashes of all its wordings."""
    first = _clinic()
    second = replace(first, wave=2, series=first.hash)
    newest = second.reworded("A larger clinic", {"daily": {"en": "How many a day?"}}).reworded(
        texts={"smokes": {"de": "Rauchen Sie 😀?"}}
    )
    return [{"plan": _slim(newest.to_dict()), "hashes": list(newest.hashes)}]


def _clinic() -> Plan:
    """Two groups, three blocks: a number, a choice of several, a question that not everybody is asked, a public one."""
    yes_no: dict[str, Any] = {"answers": ("yes", "no"), "kind": "yes-no"}
    region = Question(name="region", answers=("here", "elsewhere"), public=True)
    smokes = Question(name="smokes", **yes_no, task="survey", text={"en": "Do you smoke?", "de": "Rauchen Sie?"})
    daily = Question(
        name="daily",
        answers=("up to ten", "more", "not asked"),
        asked_if=("smokes", ("yes",)),
        labels={"de": ("bis zehn", "mehr", "nicht gefragt")},
    )
    hours = Question(name="hours", answers=(0, 2.5, 10), kind="number", task="mean")
    pain, cough = (Question(name=name, **yes_no, part_of="symptoms") for name in ("pain", "cough"))
    weights = {
        # Nobody who smokes was not asked, and nobody else was.
        ("smokes", "daily"): {"old": (3, 2, 0, 0, 0, 9), "young": (2, 1, 0, 0, 0, 4)},
        ("hours",): {"old": (5, 3, 1), "young": (1, 1, 1)},
        ("pain", "cough"): {"old": (4, 2, 1, 8), "young": (1, 2, 3, 9)},
    }
    questions = (region, smokes, daily, hours, pain, cough)
    named = {question.name: question for question in questions}
    chances = (30_000, 20_000, CHANCES - 50_000)
    blocks = [
        _block([named[name] for name in names], priors, chance)
        for (names, priors), chance in zip(weights.items(), chances, strict=True)
    ]
    return Plan(questions, tuple(blocks), "A clinic", ("made for the tests",))


def _one_block() -> Plan:
    """One group and one block, whose promise holds for a ball of priors."""
    questions = (Question(name="a", answers=("x", "y", "z")), Question(name="n", answers=(1, 2), kind="number"))
    prior = Prior(joint_values(questions), (5, 4, 3, 3, 2, 1))
    near = Ball(prior, "1/50")
    made = design(prior, _margins(questions), Promise(1, prior_set=near))
    group = Group(name=None, epsilon=Fraction(1), mechanism=made.mechanism, prior_set=near)
    plan = Plan.of_groups(_margins(questions), (group,))
    return Plan(questions, (Block(questions, plan.task, plan.groups),))


def _block(questions: Sequence[Question], priors: dict[str, Sequence[int]], chance: int) -> Block:
    values = joint_values(questions)
    plan = make_plan({name: Prior(values, weights) for name, weights in priors.items()}, _margins(questions), 1)
    return Block(tuple(questions), plan.task, plan.groups, chance)


def _margins(questions: Sequence[Question]) -> Matrix:
    """The indicators of every answer of every question over the joint cells."""
    held = np.array(list(np.ndindex(*(len(question.answers) for question in questions))))
    columns = [held[:, [k]] == np.arange(len(question.answers)) for k, question in enumerate(questions)]
    names = [f"{question.name}: {answer}" for question in questions for answer in question.answers]
    return Matrix(np.concatenate(columns, axis=1).astype(int).tolist(), names)


def expected_of_record(plan: Plan) -> dict[str, Any]:
    """Everything that an implementation must say about a plan of several questions."""
    groups = plan.group_names or [None]
    sets = [{each: None for b in plan.blocks if (each := set_sentence(b.groups[k]))} for k in range(len(groups))]
    return {
        "promises": [[group, promise(plan, group)] for group in groups],
        "sets": [[group, " ".join(said) or None] for group, said in zip(groups, sets, strict=True)],
        "beliefs": [[group, record_beliefs(plan, place)] for place, group in enumerate(groups)],
        "meanings": [part for place in range(len(groups)) for part in record_meanings(plan, place)],
        "records": record_vectors(plan),
    }


def _joint(block: Block, place: int) -> list[list[Fraction]]:
    """P(x) Q(y|x) of a block: a row for each cell."""
    group = block.groups[place]
    share = [Fraction(weight, group.prior.total) for weight in group.prior.weights]
    reports = range(group.mechanism.n_possible_reports)
    table = group.mechanism
    return [[p * Fraction(table.weights[x, y], table.denominator) for y in reports] for x, p in enumerate(share)]


def _of_answers(block: Block, place: int) -> Iterator[tuple[Question, int, Fraction, list[Fraction]]]:
    """For each answer of each question: its share, and what it is after each report."""
    joint = _joint(block, place)
    sent = [sum(column) for column in zip(*joint, strict=True)]
    for question in block.questions:
        (held,) = block.answers_of(question.name)
        for answer in range(len(question.answers)):
            cells = [joint[x] for x in np.flatnonzero(held == answer)]
            sums = [sum(column) for column in zip(*cells, strict=True)]
            yield question, answer, sum(sums), [part / all_ for part, all_ in zip(sums, sent, strict=True) if all_]


def record_beliefs(plan: Plan, place: int) -> list[list[str]]:
    """Question, answer, believed before, at most and at least, from the definition."""
    return [
        [
            question.name,
            str(question.answers[answer]),
            percent(prior),
            percent(max(after), "up"),
            percent(min(after), "down"),
        ]
        for block in plan.blocks
        for question, answer, prior, after in _of_answers(block, place)
        if prior
    ]


def record_meanings(plan: Plan, place: int) -> list[list[Any]]:
    """Group, block, the first report, and question, answer, belief before and after it."""
    group = (plan.group_names or [None])[place]
    return [
        [
            group,
            number,
            0,
            [
                [question.name, str(question.answers[answer]), percent(prior), percent(after[0])]
                for question, answer, prior, after in _of_answers(block, place)
            ],
        ]
        for number, block in enumerate(plan.blocks, start=1)
    ]


def record_vectors(plan: Plan) -> list[list[Any]]:
    """Group, answers by question, words, block and report: on both sides of the end of each block, and at random."""
    randomizer, rng, found = RecordRandomizer(plan), np.random.default_rng(29), []
    ends = np.cumsum([block.chance for block in plan.blocks]).tolist()
    for k, word in enumerate([0, CHANCES - 1, *(end - part for end in ends[:-1] for part in (0, 1)), *[None] * 30]):
        answers, held = _record(plan, rng)
        source = Recorded([] if word is None else [word], seed=k)
        group = k % max(1, len(plan.group_names))
        block, report = randomizer.report(group, held, source)
        name = plan.group_names[group] if plan.group_names else None
        found.append([name, answers, source.drawn, block + 1, report])
    return found


def _record(plan: Plan, rng: np.random.Generator) -> tuple[dict[str, str], list[float]]:
    """Answers at random, as texts, and as the randomizer takes them."""
    answers: dict[str, str] = {}
    held: list[float] = []
    for question in plan.private:
        if question.kind == "number":
            low, high = question.answers[0], question.answers[-1]
            number = low + (high - low) * int(rng.integers(0, 9)) / 8
            answers[question.name] = repr(number)
            held.append(number)
            continue
        condition = question.asked_if
        asked = condition is None or answers[condition[0]] in condition[1]
        choice = int(rng.integers(0, len(question.answers) - (condition is not None)))
        answer = str(question.answers[choice]) if asked else "not asked"
        answers[question.name] = answer
        held.append([str(each) for each in question.answers].index(answer))
    return answers, held


def refused_questionnaires() -> list[dict[str, Any]]:
    """The same plan changed in one place and hashed again, unless altered."""
    base = _slim(_clinic().to_dict())
    found = [
        {"why": "another hash", "plan": base | {"hash": "0" * 64}, "says": "altered"},
        {"why": "another title", "plan": base | {"title": "Another"}, "says": "altered"},
    ]
    for why, path, value, says in MALFORMED_QUESTIONNAIRES:
        changed = copy.deepcopy(base)
        part: Any = changed
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = value(part[path[-1]]) if callable(value) else value
        found.append({"why": why, "plan": _hashed(changed), "says": says})
    broken = copy.deepcopy(base)
    found.append({"why": "a promise broken by one cell of a block", "plan": _by_one(broken, 1), "says": "not kept"})
    smaller = copy.deepcopy(base)
    for group in smaller["blocks"][0]["groups"]:
        group["epsilon"] = "101/100"
    found.append({"why": "a block with another budget", "plan": _hashed(smaller), "says": "same promises"})
    return found


MALFORMED_QUESTIONNAIRES: list[tuple[str, tuple[Any, ...], Any, str]] = [
    ("chances that do not add up", ("blocks", 0, "chance"), 29_999, "add up"),
    ("a chance of nothing", ("blocks", 0, "chance"), 0, "chance"),
    ("a question that is in no block", ("questions",), lambda all_: [*all_, all_[1] | {"name": "more"}], "one block"),
    ("a question in two blocks", ("blocks", 1, "questions"), ["hours", "smokes"], "combinations"),
    ("a public question in a block", ("questions", 3, "public"), True, "one block"),
    ("an unknown question in a block", ("blocks", 1, "questions"), ["minutes"], "name of a question"),
    ("questions in another order", ("blocks", 2, "questions"), ["cough", "pain", "pain"], "combinations"),
    ("two questions of one name", ("questions", 0, "name"), "smokes", "different names"),
    ("one answer", ("questions", 0, "answers"), ["here"], "at least 2"),
    ("equal answers", ("questions", 0, "answers"), ["here", "here"], "different"),
    ("a yes/no question with three answers", ("questions", 4, "answers"), ["yes", "no", "other"], "two"),
    ("a number in descending order", ("questions", 3, "answers"), ["10", "2.5", "0"], "ascending"),
    ("the mean of names", ("questions", 1, "task"), "mean", "numbers"),
    ("an unknown kind", ("questions", 1, "kind"), "essay", "kind"),
    ("an unknown task", ("questions", 1, "task"), "median", "task"),
    ("a label too few", ("questions", 2, "labels"), {"de": ["bis zehn"]}, "label"),
    ("a condition that is later", ("questions", 2, "asked_if"), ["cough", ["yes"]], "earlier"),
    ("a condition without an answer for the others", ("questions", 4, "asked_if"), ["smokes", ["yes"]], "not asked"),
    ("a text with a mark of direction", ("questions", 1, "text"), {"en": "Do\u202eyou?"}, "direction"),
    ("no blocks", ("blocks",), [], "blocks"),
    ("a block of other questions", ("blocks", 2), lambda block: block | {"questions": ["hours"]}, "combinations"),
    ("two questions of a block of which one has no task", ("questions", 4, "task"), None, "estimated"),
    ("a question named as a column of reports", ("questions", 0, "name"), "block", "name"),
]


# -- plans to be refused ----------------------------------------------------------------------------------------------


def refused() -> list[dict[str, Any]]:
    """Plans that every implementation must refuse, each changed in one place; hashed again unless altered."""
    base = _slim(Plan.of_groups(Survey("yes"), (_binary(),), "Ever?").to_dict())
    odds = make_plan(Prior.of({"yes": 1, "no": 1}), Survey("yes"), 1, notion="ldp")
    bins = _slim(Plan.of_groups(Histogram(), (_mixed().groups[1],)).to_dict())
    more = bins["blocks"][0]["groups"][0]["mechanism"]["step"] * 1001 // 1000
    found = [
        {"why": "another hash", "plan": base | {"hash": "0" * 64}, "says": "altered"},
        {"why": "another question", "plan": base | {"title": "Never?"}, "says": "altered"},
        {"why": "a promise broken by one cell", "plan": _by_one(base), "says": "not kept"},
        {"why": "odds broken by one cell", "plan": _by_one(_slim(odds.to_dict())), "says": "not kept"},
        {"why": "bins with a larger step", "plan": _changed(bins, (*TABLE, "step"), more), "says": "not kept"},
    ]
    for why, path, value, says in MALFORMED:
        found.append({"why": why, "plan": _changed(base, path, value), "says": says})
    for why, path, value, says in MALFORMED_BINS:
        found.append({"why": why, "plan": _changed(bins, path, value), "says": says})
    return found + refused_circles_and_sets() + refused_without_prior()


def refused_without_prior() -> list[dict[str, Any]]:
    """The same for mechanisms that need no prior."""
    groups = {group.name: replace(group, name=None) for group in _no_prior().groups}
    block = _slim(Plan.of_groups(Histogram(), (groups["projective"],)).to_dict())
    found = [
        {"why": why, "plan": _changed(block, path, value), "says": says} for why, path, value, says in MALFORMED_BLOCKS
    ]
    more = str(int(block["blocks"][0]["groups"][0]["mechanism"]["step"]) + 1)
    found.append(
        {"why": "a step more for a difference", "plan": _changed(block, (*TABLE, "step"), more), "says": "not kept"}
    )
    return found


def refused_circles_and_sets() -> list[dict[str, Any]]:
    """The same for what came later: many values, sets of priors, caps, answers between the values."""
    found = []
    fine = _rule(None, Prior.of({"a": 50, "b": 3, "c": 1, "d": 2}), Fraction(1), shuffled=True)
    circle = _slim(Plan.of_groups(Histogram(), (fine,)).to_dict())
    for why, path, value, says in MALFORMED_CIRCLES:
        found.append({"why": why, "plan": _changed(circle, path, value), "says": says})
    step = circle["blocks"][0]["groups"][0]["mechanism"]["step"]
    long = circle["blocks"][0]["groups"][0]["mechanism"] | {"seed_bits": 30, "step": step // 16}
    found.append({"why": "a report too long", "plan": _changed(circle, TABLE, long), "says": "cell_bits"})
    plane = _refused_plane()
    known = plane["blocks"][0]["groups"][0]["mechanism"]
    for why, path, value, says in MALFORMED_PLANES:
        found.append({"why": why, "plan": _changed(plane, path, value), "says": says})
    for why, other, says in (
        ("a plane too small for the values", {"slots": 3, "first": 1}, "slots"),
        ("a seed that does not reach all orders", {"seed_bits": 4, "word_bits": 54}, "seed_bits"),
        ("a step too many in a plane", {"step": known["step"] + 1}, "not kept"),
    ):
        found.append({"why": why, "plan": _changed(plane, TABLE, known | other), "says": says})
    found.append({"why": "a step too many", "plan": _changed(circle, (*TABLE, "step"), step + 1), "says": "not kept"})
    sets = _small_sets()
    ball = _slim(Plan.of_groups(Histogram(), (_for_set(sets["ball"], sets["ball"]),)).to_dict())
    for why, path, value, says in MALFORMED_SETS:
        found.append({"why": why, "plan": _changed(ball, path, value), "says": says})
    for name, prior_set in sets.items():
        nominal = _for_set(prior_set, None).to_dict() | {"prior_set": prior_set.to_dict(), "certificate": None}
        plan = _changed(ball, GROUP, nominal)
        found.append({"why": f"designed for the nominal prior, not for the set: {name}", "plan": plan, "says": "a set"})
    near = _slim(Plan.of_groups(Histogram(), (_rule(None, sets["ball"].prior, Fraction(1), sets["ball"]),)).to_dict())
    wide = {"kind": "ball", "radius": "31/1000"}
    for why, plan in (("table", ball), ("circle", near)):
        changed = _changed(plan, (*GROUP, "prior_set"), wide)
        found.append({"why": f"a set wider than designed for: {why}", "plan": changed, "says": "a set"})
    capped = _slim(Plan.of_groups(Survey("yes"), (replace(_capped().groups[0], name=None),)).to_dict())
    for why, value, says in (("a smaller cap", "6/5", "LDP"), ("a cap that is none", None, "ldp_cap")):
        found.append({"why": why, "plan": _changed(capped, (*GROUP, "ldp_cap"), value), "says": says})
    between = _slim(_between().to_dict())
    for why, path, value, says in MALFORMED_RANGES:
        found.append({"why": why, "plan": _changed(between, path, value), "says": says})
    return found


def _refused_plane() -> dict[str, Any]:
    """Twenty values in a plane of 120 points, which is fine."""
    prior = Prior.of({f"v{x}": x + 1 for x in range(20)})
    found = design_many_values(prior, 1)
    circle = replace(found, slots=11, first=3, second=1, light=7)
    return _slim(Plan.of_groups(Histogram(), (Group(name=None, epsilon=Fraction(1), mechanism=circle),)).to_dict())


def _for_set(around: PriorSet, designed: PriorSet | None) -> Group:
    """A group around a prior, its table designed for a set, or for that prior alone."""
    found = design(around.prior, Histogram(), Promise(1, prior_set=designed))
    return Group(name=None, epsilon=Fraction(1), mechanism=found.mechanism, prior_set=designed)


def _binary() -> Group:
    prior = Prior.of({"yes": 0.1, "no": 0.9})
    return Group(name=None, epsilon=Fraction(1), mechanism=optimal_binary(prior, 1))


GROUP, ANSWERS, TASK = ("blocks", 0, "groups", 0), ("questions", 0, "answers"), ("blocks", 0, "task")
TABLE = (*GROUP, "mechanism")
#: One in ten believed to say yes become one in 37.
LOWERING = {"kind": "table", "denominator": "8", "labels": [1, 1], "rows": [["1", "7"], ["4", "4"]]}


def _two_columns(names: list[str], rows: list[list[str]]) -> dict[str, Any]:
    return {"kind": "matrix", "names": names, "rows": rows}


MALFORMED: list[tuple[str, tuple[Any, ...], Any, str]] = [
    *(
        (f"a rational written {text}", (*GROUP, "weight"), text, "rational")
        for text in ("01", "1/1", "-0", "0/3", "2/4")
    ),
    *((f"the notion {text!r}", (*GROUP, "notion"), text, "notion") for text in ("pml", "min_lift", "mip", "LIP")),
    *((f"a budget written {text}", (*GROUP, "epsilon"), text, "rational") for text in ("01", "1/1", "+1", "1.0", " 1")),
    ("weights with a common divisor", (*GROUP, "prior"), ["2", "18"], "divisor"),
    ("a value with a control character", ANSWERS, ["yes\0", "no"], "control characters"),
    ("a value with a mark of direction", ANSWERS, ["yes", "\u202eno"], "control characters"),
    ("a group with a mark of direction", (*GROUP, "group"), "\u2066a", "control characters"),
    ("another format", ("tacit_plan",), 2, "format"),
    ("no groups", ("blocks", 0, "groups"), [], "groups"),
    ("groups of another type", ("blocks", 0, "groups"), {"a": 1}, "groups"),
    ("a group that is no object", ("blocks", 0, "groups"), [7], "groups[0]"),
    ("a question that is null", ("questions", 0), None, "questions[0]"),
    ("no values", ANSWERS, [], "questions[0].answers"),
    ("equal values", ANSWERS, ["yes", "yes"], "different"),
    ("a value of another type", ANSWERS, ["yes", 1], "questions[0].answers[1]"),
    ("numeric values that are no numbers", ("questions", 0, "numeric"), True, "number"),
    ("an unknown task", (*TASK, "kind"), "guess", "task.kind"),
    ("a sum of names", TASK, {"kind": "sum"}, "numeric"),
    ("a survey of a value that is not there", (*TASK, "values"), [2], "task.values[0]"),
    ("a matrix without names", TASK, {"kind": "matrix", "rows": [["1"], ["0"]]}, "task.names"),
    ("a matrix with a blank name", TASK, {"kind": "matrix", "names": [" "], "rows": [["1"], ["0"]]}, "task.names"),
    ("a matrix with two equal names", TASK, _two_columns(["a", "a"], [["1", "0"], ["0", "1"]]), "task.names"),
    ("a matrix with too few rows", TASK, _two_columns(["a", "b"], [["1", "0"]]), "task.rows"),
    ("a matrix with a short row", TASK, _two_columns(["a", "b"], [["1", "0"], ["1"]]), "task.rows"),
    (
        "a matrix not in lowest terms",
        TASK,
        _two_columns(["a", "b"], [["1", "2/4"], ["0", "1"]]),
        "task.rows[0][1]",
    ),
    ("a matrix with values", (*TASK, "kind"), "matrix", "task"),
    ("a negative budget", (*GROUP, "epsilon"), "-1", "epsilon"),
    ("a budget beyond sense", (*GROUP, "epsilon"), "101", "epsilon"),
    ("a budget with an exponent", (*GROUP, "epsilon"), "1e3", "epsilon"),
    ("a budget divided by zero", (*GROUP, "epsilon"), "1/0", "epsilon"),
    ("a smaller budget", (*GROUP, "epsilon"), "99/100", "not kept"),
    ("a negative weight", (*GROUP, "prior", 0), "-1", "prior[0]"),
    ("a prior of zeros", (*GROUP, "prior"), ["0", "0"], "prior"),
    ("a prior too short", (*GROUP, "prior"), ["1"], "prior"),
    ("an unknown mechanism", (*TABLE, "kind"), "dice", "kind"),
    ("a belief lowered too far", (*GROUP, "mechanism"), LOWERING, "not kept"),
    ("no mechanism", (*GROUP, "mechanism"), None, "mechanism"),
    ("a negative cell", (*TABLE, "rows", 0), ["-1", str(2**32 + 1)], "rows[0][0]"),
    ("a row with another sum", (*TABLE, "rows", 0), ["1", "2"], "sum"),
    ("a row too short", (*TABLE, "rows", 0), [str(2**32)], "labels"),
    ("a row missing", (*TABLE, "rows"), [["1", "2"]], "row for each"),
    ("rows of text", (*TABLE, "rows"), ["12", "21"], "rows[0]"),
    ("another denominator", (*TABLE, "denominator"), str(2**31), "sum"),
    ("a label out of range", (*TABLE, "labels", 0), 2, "labels[0]"),
    ("a label missing", (*TABLE, "labels"), [0], "labels"),
]
MALFORMED_BINS: list[tuple[str, tuple[Any, ...], Any, str]] = [
    ("too many bins", (*TABLE, "bins"), 9, "bins"),
    ("a margin below 0", (*TABLE, "margin"), -1, "margin"),
    ("bins that are a text", (*TABLE, "bins"), "2", "bins"),
    ("all values in bins", (*TABLE, "heavy"), 13, "heavy"),
    ("more heavy values than there are", (*TABLE, "heavy"), 14, "heavy"),
    ("bins in a plane", (*TABLE, "slots"), 11, "slots"),
    ("bins that seeds shuffle", (*TABLE, "seed_bits"), 2, "step"),
    ("no bins for heavy values", (*TABLE, "bins"), 0, "heavy"),
    ("words too short for a bin", (*TABLE, "word_bits"), 2, "word_bits"),
]
MALFORMED_BLOCKS: list[tuple[str, tuple[Any, ...], Any, str]] = [
    ("a circle too small for the values", (*TABLE, "circle"), 17, "circle"),
    ("a circle of too many places", (*TABLE, "circle"), 2**52 + 1, "circle"),
    ("another number of points", (*TABLE, "circle"), 32, "circle"),
    ("orders of a difference set", (*TABLE, "orders"), 30, "orders"),
    ("no differences", (*TABLE, "arc"), 0, "arc"),
    ("differences too few for a hyperplane", (*TABLE, "arc"), 4, "arc"),
    ("a recurrence that is no geometry's", (*TABLE, "recurrence"), [0, 0, 0, 0, 0, 0], "arc"),
    ("a recurrence beyond its field", (*TABLE, "recurrence"), [1, 2, 0, 0, 0, 0], "recurrence"),
    ("an arc that is no design", (*TABLE, "field"), 0, "recurrence"),
    ("a field of no power of a prime", (*TABLE, "field"), 6, "field"),
    ("a recurrence too short for its field", (*TABLE, "field"), 8, "recurrence"),
    ("a step that is a number", (*TABLE, "step"), 5, "step"),
    ("no step for a difference", (*TABLE, "step"), "0", "step"),
    ("a step for a difference that leaves no base", (*TABLE, "step"), str(2**63), "step"),
    ("words too long for a block design", (*TABLE, "word_bits"), 65, "word_bits"),
    ("words too short for the reports", (*TABLE, "word_bits"), 4, "word_bits"),
    ("an unknown field of a block design", (*TABLE, "labels"), [], "labels"),
]
MALFORMED_CIRCLES: list[tuple[str, tuple[Any, ...], Any, str]] = [
    ("an arc of nothing", (*TABLE, "arc"), 0, "arc"),
    ("an arc around the circle", (*TABLE, "arc"), 2**24, "arc"),
    ("an arc that rows do not leave room for", (*TABLE, "arc"), 1, "rows"),
    ("no rows", (*TABLE, "rows"), [], "rows"),
    ("a row that is a text", (*TABLE, "rows", 0), "1", "rows"),
    ("a row without an arc or none", (*TABLE, "rows", 0), [1], "rows"),
    ("a row with half a pair", (*TABLE, "rows", 0), [1, 1, 0], "rows"),
    ("a row of no words", (*TABLE, "rows", 0, 0), 0, "rows"),
    ("a row of other words", (*TABLE, "rows", 0, 0), 1, "rows"),
    ("an arc that is neither there nor not", (*TABLE, "rows", 0, 1), 2, "rows"),
    ("a giant that is none", (*TABLE, "rows", 0, 2), 7, "rows"),
    ("more cells of a giant than others cover", (*TABLE, "rows", 0, 3), 2**24, "rows"),
    ("other covered cells than rows have", (*TABLE, "covered"), 2**24 - 1, "rows"),
    ("covered cells that are a text", (*TABLE, "covered"), "5", "covered"),
    ("too many giants", (*TABLE, "giants"), 3, "giants"),
    ("a smaller value as a giant", (*TABLE, "giants"), 2, "arc"),
    ("giants less than none", (*TABLE, "giants"), -1, "giants"),
    ("a plane's number without a plane", (*TABLE, "light"), 1, "light"),
    ("an arc that is a text", (*TABLE, "arc"), "5", "arc"),
    ("no step", (*TABLE, "step"), 0, "step"),
    ("a step that leaves no base", (*TABLE, "step"), 2**52, "step"),
    ("an odd seed", (*TABLE, "seed_bits"), 23, "seed_bits"),
    ("a seed too long", (*TABLE, "seed_bits"), 34, "seed_bits"),
    ("cells too many", (*TABLE, "cell_bits"), 31, "cell_bits"),
    ("cells too few for the values", (*TABLE, "cell_bits"), 1, "cell_bits"),
    ("words too short for the cells", (*TABLE, "word_bits"), 35, "word_bits"),
    ("words too long", (*TABLE, "word_bits"), 65, "word_bits"),
    ("an unknown field of a mechanism", (*TABLE, "pool"), 7, "pool"),
]
MALFORMED_PLANES: list[tuple[str, tuple[Any, ...], Any, str]] = [
    ("slots of no prime", (*TABLE, "slots"), 9, "slots"),
    ("slots too many", (*TABLE, "slots"), 257, "slots"),
    ("slots that are a text", (*TABLE, "slots"), "11", "slots"),
    ("a recurrence that returns too early", (*TABLE, "first"), 1, "first"),
    ("no recurrence", (*TABLE, "first"), 0, "first"),
    ("a coefficient beyond the slots", (*TABLE, "second"), 11, "second"),
    ("light values longer than the arc", (*TABLE, "light"), 2**28, "light"),
    ("an odd seed of a plane", (*TABLE, "seed_bits"), 23, "seed_bits"),
    ("an unknown field of a plane", (*TABLE, "turns"), 7, "turns"),
]
PRIOR_SET = (*GROUP, "prior_set")
MALFORMED_SETS: list[tuple[str, tuple[Any, ...], Any, str]] = [
    ("an unknown field of a group", (*GROUP, "lower_epsilon"), "1", "lower_epsilon"),
    ("an unknown field of a question", ("questions", 0, "unit"), "kg", "unit"),
    ("an unknown field of the task", (*TASK, "values"), [0], "task"),
    ("an unknown field of the plan", ("note",), "hello", "note"),
    ("a set that is null", PRIOR_SET, None, "prior_set"),
    ("a set of an unknown kind", (*PRIOR_SET, "kind"), "cube", "kind"),
    ("an unknown field of a set", (*PRIOR_SET, "centre"), "0", "centre"),
    ("a radius below zero", (*PRIOR_SET, "radius"), "-1/100", "radius"),
    ("a radius above one", (*PRIOR_SET, "radius"), "2", "radius"),
    ("a radius that is a float", (*PRIOR_SET, "radius"), "0.03", "radius"),
    ("a box too short", PRIOR_SET, {"kind": "box", "low": ["0"] * 4, "high": ["1"] * 4}, "low"),
    ("a box around another prior", PRIOR_SET, {"kind": "box", "low": ["1/5"] * 5, "high": ["1"] * 5}, "low"),
    ("a box of the impossible", PRIOR_SET, {"kind": "box", "low": ["0"] * 5, "high": ["1"] * 5}, "high[2]"),
    ("a candidate too short", PRIOR_SET, {"kind": "hull", "candidates": [["1", "1"]]}, "candidates[0]"),
    ("a candidate of zeros", PRIOR_SET, {"kind": "hull", "candidates": [["0"] * 5]}, "candidates[0]"),
    ("a candidate of the impossible", PRIOR_SET, {"kind": "hull", "candidates": [["1"] * 5]}, "candidates[0]"),
    ("a set beside a promise about odds", (*GROUP, "notion"), "ldp", "notion"),
]
MALFORMED_RANGES: list[tuple[str, tuple[Any, ...], Any, str]] = [
    *(
        (f"a number written {text}", ANSWERS, [text, "20", "45", "100"], "number")
        for text in ("00", "-0", "-0.0", "0.50", "1e0", "1e-5", "0.00001", "+1", ".5", "1_0")
    ),
    ("a number twice", ANSWERS, ["0", "20", "20.0", "100"], "different"),
    ("between descending values", ANSWERS, ["100", "45", "20", "0"], "ascending"),
    ("between values out of order", ANSWERS, ["0", "45", "20", "100"], "ascending"),
    ("between for a histogram", TASK, {"kind": "histogram"}, "sum"),
]


def _changed(plan: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(plan)
    part: Any = changed
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    return _hashed(changed)


def _hashed(plan: dict[str, Any]) -> dict[str, Any]:
    """The plan under the name of what it holds now; the format's own checks are what must refuse it."""
    try:
        return plan | {"hash": contract_hash(plan)}
    except (AttributeError, TypeError):
        return plan


def _by_one(plan: dict[str, Any], block: int = 0) -> dict[str, Any]:
    """One unit of one row moved to another report, so that e^ε is exceeded by a hair."""
    rows = plan["blocks"][block]["groups"][0]["mechanism"]["rows"]
    for units in (2**k for k in range(32)):
        for x, row in enumerate(rows):
            for source, target in ((0, 1), (1, 0)):
                moved = list(row)
                moved[source], moved[target] = str(int(row[source]) - units), str(int(row[target]) + units)
                changed = _changed(plan, ("blocks", block, "groups", 0, "mechanism", "rows", x), moved)
                try:
                    Plan.from_dict(changed)
                except PlanError as error:
                    if "not kept" in str(error):
                        return changed
    raise AssertionError("No cell broke the promise.")


# -- numbers, words and small mechanisms ------------------------------------------------------------------------------


def numbers() -> dict[str, Any]:
    """Decisions about e^ε at its best approximations, percentages, quotes and canonical JSON."""
    shares = [
        Fraction(n, d)
        for n, d in ((0, 1), (1, 1), (1, 2), (1, 7), (1, 1000), (999, 1000), (1, 8), (5, 1000), (49, 400), (247, 2000))
    ]
    shares += [Fraction(1, 10**k) for k in range(1, 9)] + [1 - Fraction(1, 3 * 10**k) for k in range(9)]
    shares += [Fraction(SeededWords(k).integer(40), 2 ** (40 + k % 17)) for k in range(60)]
    texts = [
        "",
        "a",
        "it's",
        '"',
        "'\"",
        "\\",
        "\n\r\t\0\x1f\x7f\x80\xa0\xad",
        "é😀\u200b\u2028\ufeff\U000e0001",
        "\u0378",
        " ",
    ]
    data = {"b": [1, -2, None, True], "a": {"\U00010000": 1, "\uffff": 2, "": {}}, "é\n\u2028\x7f": "\x01😀"}
    return {
        "at_most_exp": [[str(ratio), str(epsilon), at_most_exp(ratio, epsilon)] for ratio, epsilon in _near_exp()],
        "percent": [[str(share), percent(share), percent(share, "up"), percent(share, "down")] for share in shares],
        "quoted": [[text, repr(text)] for text in texts],
        "canonical": [data, json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))],
    }


def _near_exp() -> Iterator[tuple[Fraction, Fraction]]:
    """Best rational approximations of e^ε, from both sides, and ε near zero."""
    for epsilon in (Fraction(1), Fraction(1, 2), Fraction(3, 7), Fraction(100), Fraction(1, 10**9)):
        close = sum(exp_enclosure(epsilon, 150)) / 2
        for digits in (1, 2, 5, 10, 20, 40, 80):
            near = close.limit_denominator(10**digits)
            yield from ((near, epsilon), (near + Fraction(1, 10 ** (2 * digits)), epsilon))
    yield from ((Fraction(n), Fraction(0)) for n in (0, 1))
    yield Fraction(10**40 + 1, 10**40), Fraction(0)
    yield Fraction(10**40 + 1, 10**40), Fraction(1, 10**40)
    yield Fraction(10**40 + 1, 10**40), Fraction(1, 10**40 + 1)


def small_many_values() -> list[dict[str, Any]]:
    """Plans with words so short that all of them can be tried, and how many give each report.

    Values in one, two and four pieces, a cell for each value; in a plane on their own, on lines, and both; then
    giants, and a table.
    """
    plane: dict[str, Any] = {"slots": 3, "first": 1, "second": 1}
    giants: dict[str, Any] = {"giants": 2, "covered": 5, "arc": 4, "step": 2, "cell_bits": 4, "seed_bits": 2}
    rows = ((4, 1, 1, 2), (4, 1, 0, 1, 1, 1), (4, 1, 2, 2), (4, 0, 0, 2, 2, 2), (9, 0, 0, 4), (7, 0, 1, 4))
    rules = [
        _small([3, 1, 2, 2], arc=2, step=2, cell_bits=3, seed_bits=2, word_bits=6),
        _small([5, 1, 1], arc=5, step=1, cell_bits=3, seed_bits=4, word_bits=5),
        _small([1000, 1, 1, 1], arc=3, step=7, cell_bits=3, seed_bits=0, word_bits=6, margin=2**51),
        _small([13, 1, 1, 1], arc=3, step=5, cell_bits=4, seed_bits=2, word_bits=6),
        _small([5, 1, 1, 2, 1], arc=2, step=7, cell_bits=3, seed_bits=2, word_bits=6),
        _small([9, 1, 4, 2], arc=4, step=3, cell_bits=4, seed_bits=4, word_bits=7, **plane),
        _small([3, 1, 2, 2, 2, 2, 1], arc=4, step=3, cell_bits=4, seed_bits=4, word_bits=7, **plane, light=4),
        _small([7, 1, 2, 2, 2, 2], arc=5, step=3, cell_bits=4, seed_bits=4, word_bits=7, **plane, light=3),
        _small([6, 5, 2, 1, 1, 1], word_bits=5, **giants),
        _small([6, 5, 2, 1, 1, 1], word_bits=5, **giants, **plane, light=2),
        _small([8, 2, 2, 2, 1, 1], word_bits=5, **giants | {"giants": 1, "arc": 5}),
        _small([6, 5, 2, 1, 1, 1], word_bits=5, **giants | {"giants": 3, "covered": 4, "arc": 2, "rows": rows}),
        _small([6, 5, 2, 1, 1, 1], word_bits=4, arc=5, step=3, cell_bits=4, seed_bits=0, bins=2, heavy=3),
        _small([6, 5, 2, 1, 1, 1], word_bits=4, arc=8, step=1, cell_bits=4, seed_bits=0, bins=2, heavy=2),
        _small([4, 1, 1, 2], word_bits=3, giants=1, arc=2, step=3, cell_bits=3, seed_bits=0, bins=1, heavy=2),
    ]
    found = []
    for small in rules:
        plan = Plan.of_groups(Histogram(), (Group(name=None, epsilon=Fraction(20), mechanism=small),))
        all_words = 1 << small.words_per_report * small.word_bits
        counts = [
            [int(small.likelihood(x, report) * all_words) for report in range(small.end)]
            for x in range(len(small.weights))
        ]
        found.append({"plan": _slim(plan.to_dict()), "counts": counts})
    return found


def _small(weights: Sequence[int], **numbers: Any) -> ManyValues:
    return _about(Prior([f"v{x}" for x in range(len(weights))], weights), **numbers)


def small_tiers() -> list[dict[str, Any]]:
    """The same for tiers: two whose circles seeds shuffle, two of planes, one with a giant in tier 0."""
    short: dict[str, Any] = {"cell_bits": 4, "word_bits": 5, "seed_bits": 2}
    plane = short | {"slots": 3, "first": 1, "second": 1}
    giant = {"giants": 1, "covered": 3, "arc": 2, "step": 3}
    cases = [
        ([9, 1, 4, 2], (0, 1), (1, 3), [short | {"arc": 4, "step": 2}, short | {"arc": 3, "step": 3}]),
        ([5, 1, 1, 2, 1], (0, 2), (1, 1), [plane | {"arc": 4, "step": 2}, plane | {"arc": 3, "step": 4}]),
        ([5, 1, 1, 1], (0, 1), (1, 1), [plane | {"cell_bits": 3, "word_bits": 4} | rule
                                        for rule in (giant, {"arc": 3, "step": 2})]),
    ]  # fmt: skip
    found = []
    for weights, starts, chances, rules in cases:
        prior = Prior([f"v{x}" for x in range(len(weights))], weights)
        parts = [_about(tail_of(prior, start), **rule) for start, rule in zip(starts, rules, strict=True)]
        small = Tiers(prior=prior, starts=starts, chances=chances, parts=tuple(parts))
        plan = Plan.of_groups(Histogram(), (Group(name=None, epsilon=Fraction(20), mechanism=small),))
        all_words = 1 << small.words_per_report * small.word_bits
        counts = [
            [int(small.likelihood(x, report) * all_words) for report in range(small.edges[-1])]
            for x in range(len(weights))
        ]
        found.append({"plan": _slim(plan.to_dict()), "counts": counts})
    return found


def _about(prior: Prior, **numbers: Any) -> ManyValues:
    if "rows" in numbers:
        return ManyValues(prior=prior, **numbers)
    return giants_alone(prior=prior, **{"giants": 0, "covered": numbers["arc"]} | numbers)


def small_block_designs() -> list[dict[str, Any]]:
    """Plans with words so short that all pairs can be tried, and Pr(report|value)·2^2w: an arc in all orders, a plane
    and its complement, places of their own, a plane over four elements.
    """
    plane = {"circle": 7, "orders": 1, "field": 2, "recurrence": (1, 1, 0)}
    rules = [
        BlockDesign(prior=Prior.uniform(4), circle=5, orders=4, arc=2, step=7, word_bits=5),
        BlockDesign(prior=Prior.uniform(7), arc=3, step=6, word_bits=6, **plane),
        BlockDesign(prior=Prior.uniform(5), arc=4, step=6, word_bits=6, **plane),
        BlockDesign(prior=Prior.uniform(4), circle=4, orders=1, arc=1, step=9, word_bits=5),
        BlockDesign(
            prior=Prior.uniform(9),
            circle=21,
            orders=1,
            arc=5,
            step=7,
            field=4,
            recurrence=(1, 1, 0, 0, 0, 0),
            word_bits=6,
        ),
    ]
    found = []
    for small in rules:
        named = small.under(Prior.uniform([f"v{x}" for x in range(small.size)]))
        plan = Plan.of_groups(Histogram(), (Group(name=None, epsilon=Fraction(20), mechanism=named, notion="ldp"),))
        pairs = [
            [int(small.likelihood(x, report) * 4**small.word_bits) for report in range(small.n_reports)]
            for x in range(small.size)
        ]
        found.append({"plan": _slim(plan.to_dict()), "pairs": pairs})
    return found


def levels() -> dict[str, Any]:
    """The exact ratios of random small mechanisms of each kind; null if unbounded."""
    return {
        "table": [_table_levels(np.random.default_rng(seed)) for seed in range(40)],
        "many-values": [
            *(_rule_levels(np.random.default_rng(seed)) for seed in range(100)),
            *(_bin_levels(np.random.default_rng(seed)) for seed in range(60)),
        ],
        "block-design": [_block_levels(np.random.default_rng(seed)) for seed in range(60)],
        "tiers": [_tier_levels(np.random.default_rng(seed)) for seed in range(60)],
    }


def _block_levels(rng: np.random.Generator) -> dict[str, Any]:
    """A mechanism that needs no prior, at a random budget, under a random prior with zeros."""
    d, epsilon = int(rng.integers(2, 40)), Fraction(int(rng.integers(1, 40)), 10)
    prior = Prior(range(d), [*rng.choice([0, 1, 2, 7, 10**18], d - 1).tolist(), 3])
    found = BLOCK_DESIGNS[str(rng.choice(list(BLOCK_DESIGNS)))](prior, epsilon)
    return {
        "prior": [str(weight) for weight in prior.weights],
        "mechanism": found.to_dict(),
        **_ratios(found.audit()),
    }


def _tier_levels(rng: np.random.Generator) -> dict[str, Any]:
    """Two or three tiers of random rules, their circles shuffled or in a plane."""
    while True:
        d, cell_bits, half = int(rng.integers(4, 9)), int(rng.integers(4, 24)), int(rng.integers(3, 9))
        prior = Prior(range(d), [*rng.choice([0, 1, 2, 7, 10**18], d - 1).tolist(), 3])
        if len(prior.support) < 4:
            continue
        starts = (0, *sorted(rng.choice(range(1, len(prior.support) - 1), int(rng.integers(1, 3)), replace=False)))
        parts: list[ManyValues] = []
        for start in starts:
            arc = int(rng.integers(1, 1 << cell_bits))
            step = int(rng.integers(1, 1 + max(1, ((1 << cell_bits + 4) - 1) // arc)))
            plane = (
                {"slots": 11, "first": 3, "second": 1, "light": int(rng.integers(0, arc))} if rng.integers(2) else {}
            )
            bits = {"cell_bits": cell_bits, "seed_bits": 2 * half, "word_bits": cell_bits + 4 + half}
            try:
                parts.append(_about(tail_of(prior, int(start)), arc=arc, step=step, **bits, **plane))
            except ValueError:
                break
        if len(parts) < len(starts):
            continue
        chances = (1, 1) if len(parts) == 2 else (1, 2, 1)
        found = Tiers(prior=prior, starts=tuple(map(int, starts)), chances=chances, parts=tuple(parts))
        known = {"prior": [str(weight) for weight in prior.weights], "mechanism": found.to_dict()}
        return {**known, **_ratios(found.audit())}


def _rule_levels(rng: np.random.Generator) -> dict[str, Any]:
    """A random rule: without giants or with some, its circle shuffled or in one of two planes."""
    while True:
        d, cell_bits, half = int(rng.integers(1, 9)), int(rng.integers(4, 27)), int(rng.integers(0, 9))
        prior = Prior(range(d), [*rng.choice([0, 1, 2, 7, 10**18], d - 1).tolist(), 3])
        choice_bits = int(rng.integers(cell_bits, 53))
        arc = int(rng.integers(1, 1 << cell_bits))
        step = int(rng.integers(1, 1 + max(1, ((1 << choice_bits) - 1) // arc)))
        bits = {"cell_bits": cell_bits, "seed_bits": 2 * half, "word_bits": choice_bits + half}
        giants = int(rng.integers(0, max(1, len(prior.support) - 1))) if rng.integers(2) else 0
        covered = arc + (int(rng.integers(0, arc)) if giants else 0)
        slots, first, second = ((0, 0, 0), (11, 3, 1), (61, 7, 1))[int(rng.integers(3))]
        plane = {"slots": slots, "first": first, "second": second, "light": int(rng.integers(0, arc)) if slots else 0}
        try:
            found = giants_alone(prior=prior, giants=giants, covered=covered, arc=arc, step=step, **bits, **plane)
        except ValueError:
            continue
        known = {"prior": [str(weight) for weight in prior.weights], "mechanism": found.to_dict()}
        return {**known, **_ratios(found.audit())}


def set_levels() -> list[dict[str, Any]]:
    """Random sets of priors around mechanisms of each kind: the set's radius, and both sides of LIP at its worst."""
    found = []
    for seed in range(250):
        rng = np.random.default_rng(seed)
        kind = _tier_levels if seed >= 150 else (_table_levels, _bin_levels, _rule_levels)[seed % 3]
        known = kind(rng)
        prior = Prior(range(len(known["prior"])), [int(weight) for weight in known["prior"]])
        mechanism = mechanism_of(known, prior)
        prior_set = _random_set(prior, rng)
        sides = [None if side.ratio is None else str(side.ratio) for side in mechanism.set_levels(prior_set)]
        what = {key: known[key] for key in ("prior", "rows", "mechanism") if key in known}
        stated = {"prior_set": prior_set.to_dict(), "radius": str(prior_set.radius)}
        found.append(what | stated | {"upper": sides[0], "lower": sides[1]})
    return found


def mechanism_of(known: dict[str, Any], prior: Prior) -> Any:
    """The mechanism of a case in `levels` and `set_levels`."""
    if "rows" in known:
        return Channel.from_weights(prior, [[int(cell) for cell in row] for row in known["rows"]])
    return KINDS[known["mechanism"]["kind"]].from_dict(known["mechanism"], prior)


def _random_set(prior: Prior, rng: np.random.Generator) -> PriorSet:
    which, shares = rng.integers(3), [Fraction(weight, prior.total) for weight in prior.weights]
    if which == 0:
        return Ball(prior, Fraction(int(rng.integers(0, 60)), 100))
    if which == 1:
        low = [share * Fraction(int(rng.integers(0, 11)), 10) for share in shares]
        high = [share and share + (1 - share) * Fraction(int(rng.integers(0, 11)), 10) for share in shares]
        return Box(prior, low, high)
    weights = [[int(rng.integers(0, 9)) if weight else 0 for weight in prior.weights[:-1]] for _ in range(2)]
    return Hull(prior, [Prior(prior.values, [*some, 1]) for some in weights])


def _table_levels(rng: np.random.Generator) -> dict[str, Any]:
    d, outputs = rng.integers(2, 5, 2)
    prior = Prior(range(d), [*rng.choice([0, 1, 2, 7, 10**20], d - 1).tolist(), 3])
    rows = rng.multinomial(16, rng.dirichlet(np.full(outputs, 0.7)), d).tolist()
    found = audit(Channel.from_weights(prior, rows))
    cells = [[str(cell) for cell in row] for row in rows]
    return {"prior": [str(weight) for weight in prior.weights], "rows": cells, **_ratios(found)}


def _bin_levels(rng: np.random.Generator) -> dict[str, Any]:
    """A random rule with bins, without giants or with some."""
    while True:
        d, cell_bits = int(rng.integers(1, 9)), int(rng.integers(4, 27))
        prior = Prior(range(d), [*rng.choice([0, 1, 2, 7, 10**18], d - 1).tolist(), 3])
        arc, size = int(rng.integers(1, 1 << cell_bits)), len(prior.support)
        word_bits = int(rng.integers(cell_bits, 53))
        step = int(rng.integers(1, 1 + max(1, ((1 << word_bits) - 1) // arc)))
        giants, heavy = rng.integers(0, size, 2).tolist()
        bits = {"cell_bits": cell_bits, "seed_bits": 0, "word_bits": word_bits}
        try:
            names = {"giants": giants, "bins": int(rng.integers(1, 5)), "heavy": heavy}
            found = giants_alone(prior=prior, covered=arc, arc=arc, step=step, **bits, **names)
        except ValueError:
            continue
        known = {"prior": [str(weight) for weight in prior.weights], "mechanism": found.to_dict()}
        return {**known, **_ratios(found.audit())}


def _ratios(found: Audit) -> dict[str, str | None]:
    """What the browser computes of an audit."""
    ratios = {"lip_upper": found.lip_upper.ratio, "lip_lower": found.lip_lower.ratio, "ldp": found.ldp.ratio}
    return {name: None if ratio is None else str(ratio) for name, ratio in ratios.items()}


#: Cells as files have them: blanks of all kinds, codes as floats, numbers at edges and in many writings, no numbers.
CELLS = [
    None,
    *["", " ", "\u00a0", "Y", " Y ", "Y\u2003", "N", "y", "1", "1.0", "1.00", "01", "1.", "2", "2.0", "-1", "-1.0"],
    *["77", "77.0", "99", "999", "17", "17.9999999999999", "18", "18.0", " 18 ", "1.8e1", "1.8E+1", "+18", "64.99"],
    *["65", "65.0", "0", "-0", "-0.0", "0.0", "-0.0001", "120", "120.0", "120.0001", "1e999", "-1e999", "inf", "nan"],
    *["NaN", "Infinity", "0x12", "1_0", "1,5", "12 000", "１８", ".5", "5.", "e5", "18–64", "0–17", "refused"],
    *["don't know", "caf\u00e9", "cafe\u0301", "\x1c1\x1c", "\ufeff1", "other", "blue", "none", "north", "a / b"],
    *["__proto__", "constructor", "toString", "1" * 400],
]


def recoding() -> list[dict[str, Any]]:
    """Columns, and what Python makes of cells of all kinds; and groups of two columns."""
    infinity = math.inf
    columns = [
        RecodedColumn(column="plain"),
        RecodedColumn(column="codes", map={"1": "yes", "2": "no", "-1": "no"}, missing=("77", "99"), missing_as="none"),
        RecodedColumn(column="exact", map={"1.0": "one point", "1": "one"}, missing=("refused", "café")),
        RecodedColumn(column="left", map={"Y": "yes", "N": "no"}, leave_out=("refused", "don't know", "999")),
        RecodedColumn(column="age", missing=("999",), edges=(0, 18, 65, 120), labels=("0–17", "18–64", "65–120")),
        RecodedColumn(column="open", map={"none": "0"}, edges=(-infinity, 0, 18, infinity), labels=("a", "b", "c")),
        RecodedColumn(column="means", edges=(0, 0.5, 18, 65), labels=("0.2", "9", "40.5")),
        RecodedColumn(column="rare", map={"Y": "blue"}, other="other", missing=("99",), missing_as="other"),
    ]
    known, crossed = ["blue", "north", "other"], Recoding((), (columns[3], columns[4]))
    pairs = [[first, second] for first, second in zip(CELLS, reversed(CELLS), strict=True)]
    pairs += [[first, second] for first in ("Y", "refused", "") for second in ("17.5", "999", "x")]
    return [
        {
            "recoding": Recoding((each,), ()).to_dict(),
            "known": known,
            "cells": [[cell, each.read(cell, known)] for cell in CELLS],
        }
        for each in columns
    ] + [{"recoding": crossed.to_dict(), "groups": [[pair, crossed.group(pair)] for pair in pairs]}]


def _recoded() -> Plan:
    """Two crossed columns of groups, one in bins; answers with codes and a missing one."""
    prior = {"yes": 3, "no": 6, "no answer": 1}
    names = ["f / 0–17", "f / 18 and more", "m / 0–17", "m / 18 and more"]
    made = make_plan(dict.fromkeys(names, prior), "histogram", 1)
    answers = RecodedColumn(
        column="q7", map={"1": "yes", "2": "no"}, missing=("77", "99"), missing_as="no answer", leave_out=("88",)
    )
    age = RecodedColumn(
        column="age", text="How old are you?", edges=(0, 18, math.inf), labels=("0–17", "18 and more")
    )  # fmt: skip
    recoding = Recoding((answers,), (RecodedColumn(column="sex", map={"1": "f", "2": "m"}), age))
    return Plan.of_groups(made.task, made.groups, recoding=recoding)


MORE = [{"column": "b"}]
#: A recoding changed in one place.
MALFORMED_RECODINGS: list[tuple[str, tuple[Any, ...], Any]] = [
    ("a recoding of nothing", (), {"answers": [], "groups": []}),
    ("a recoding with another field", ("weights",), []),
    ("two columns of answers", ("answers",), lambda told: [*told, {"column": "q8"}]),
    ("a column twice", ("groups", 0, "column"), "age"),
    ("a column without a name", ("groups", 0, "column"), " "),
    ("a column with an unknown field", ("groups", 0, "bins"), ["1"]),
    ("an empty map", ("groups", 0, "map"), {}),
    ("a name with a blank behind it", ("answers", 0, "map", "1"), "yes "),
    ("a code with a blank behind it", ("answers", 0, "missing", 0), "77 "),
    ("a code twice", ("answers", 0, "missing"), ["77", "77"]),
    ("a name in another form of Unicode", ("answers", 0, "leave_out", 0), "cafe\u0301"),
    ("a name with a mark of direction", ("answers", 0, "leave_out", 0), "a\u202e"),
    ("edges in another order", ("groups", 1, "edges"), ["18", "0", "inf"]),
    ("edges as numbers of JSON", ("groups", 1, "edges"), [0, 18, 99]),
    ("an edge with a point too many", ("groups", 1, "edges", 0), "0.0"),
    ("an edge that is no number", ("groups", 1, "edges", 0), "none"),
    ("a label too few", ("groups", 1, "labels"), ["0–17"]),
    ("labels that no group has", ("groups", 1, "labels"), ["young", "old"]),
    ("a missing answer that the plan does not have", ("answers", 0, "missing_as"), "unknown"),
    ("other answers that the plan does not have", ("answers", 0, "other"), "more"),
    ("a missing answer of a group", ("groups", 0, "missing_as"), "f"),
    ("one column for groups that are crossed of two and in bins", ("groups",), lambda told: told[1:]),
    ("four columns for groups that are crossed of two", ("groups",), lambda told: [*told, {"column": "a"}, *MORE]),
]  # fmt: skip


def refused_recodings() -> list[dict[str, Any]]:
    """Plans whose recoding is changed in one place, hashed again."""
    base = _slim(_recoded().to_dict())
    found = []
    for why, path, value in MALFORMED_RECODINGS:
        changed = copy.deepcopy(base)
        part: Any = changed
        for key in ("recoding", *path)[:-1]:
            part = part[key]
        last = ("recoding", *path)[-1]
        part[last] = value(part[last]) if callable(value) else value
        found.append({"why": why, "plan": _hashed(changed), "says": ""})
    return found


def _slim(plan: dict[str, Any]) -> dict[str, Any]:
    """Without certificates, which are derived and long."""
    return plan | {
        "blocks": [
            block | {"groups": [group | {"certificate": None} for group in block["groups"]]} for block in plan["blocks"]
        ]
    }


def write(name: str, data: Any) -> None:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("],[", "],\n[").replace("},{", "},\n{")
    (HERE / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def plans_of_ledger() -> list[Plan]:
    """Two waves, an LDP plan, and a rule for many values with a long name."""
    first = replace(
        make_plan(Prior.of({"yes": 1, "no": 4}), Survey("yes"), 1, question="Are you il?"), limit=Fraction(3)
    )
    second = replace(first, wave=2, series=first.hash).reworded("Are you ill?")
    odds = make_plan(Prior.uniform(["a", "b", "c"]), Histogram(), "1/2", notion="ldp")
    by_rule = Search(method="many-values")
    names = Prior.of({f"v{x}": 40 - x for x in range(40)})
    wide = make_plan(names, Histogram(), 2, search=by_rule, question="Which, naïve 😀?" * 30)
    return [first, second, odds, wide]


def ledger(plans: Sequence[Plan] | None = None) -> dict[str, Any]:
    """The ledger of a browser that two people use, what it adds up to, and ledgers that every reader refuses.

    Another processor can round the numbers of a certificate otherwise, and then plans have other hashes: tests pass the
    plans of the golden file.
    """
    plans = plans_of_ledger() if plans is None else plans
    first, invitation = plans[0], "an invitation"
    kept = Ledger("ledger.json", bytes(range(16)), {}, {}, Fraction(17, 2))
    for plan, people in zip(plans, (["", invitation], [""], [""], [invitation]), strict=True):
        kept.add(plan, people)
    sums = [added_up([kept.occasions[name] for name in kept.persons[kept.tag("")][:count]]) for count in range(4)]
    report = {"group": None, "report": 0, "sent": ["/api/surveys/0"]}
    kept.reports = {
        tag: [{"key": f"{place:032x}"} | report for place, _ in enumerate(names)] for tag, names in kept.persons.items()
    }
    data = kept.to_dict()
    tag = kept.tag("")
    changes: list[tuple[str, tuple[Any, ...], Any]] = [
        ("another format", ("tacit_ledger",), 2),
        ("an unknown field", ("more",), 1),
        ("a key in capitals", ("key",), "A" * 32),
        ("a limit that is no rational", ("limit",), "8.5"),
        ("a negative limit", ("limit",), "-1"),
        ("a level in other than lowest terms", ("occasions", 0, "lip"), "2/2"),
        ("a negative level", ("occasions", 0, "ldp"), "-1"),
        ("a level that is a number", ("occasions", 0, "lip"), 1),
        ("no wave", ("occasions", 0, "wave"), 0),
        ("a wave that is a text", ("occasions", 0, "wave"), "1"),
        ("a series that is no hash", ("occasions", 1, "series"), "first"),
        ("an occasion twice", ("occasions", 1, "occasion"), first.hash),
        ("a place that is not there", ("persons", tag), [0, 1, 4]),
        ("a place below 0", ("persons", tag), [0, 1, -1]),
        ("a place twice", ("persons", tag), [0, 1, 1]),
        ("a report without a place", ("persons", tag), [0, 1]),
        ("a tag in other digits", ("persons", "X" * 24), [0]),
        ("no persons", ("persons",), []),
    ]
    refused = [{"why": "an altered limit", "ledger": data | {"limit": None}}, {"why": "no ledger", "ledger": []}]
    for why, (*way, last), value in changes:
        wrong = copy.deepcopy(data)
        place: Any = wrong
        for step in way:
            place = place[step]
        place[last] = value
        refused.append({"why": why, "ledger": wrong | {"hash": hash_of(wrong)}})
    wrong = copy.deepcopy(data)
    wrong["occasions"][0]["columns"][0][0][1] = "1/2"
    refused.append({"why": "a column that does not start at 1", "ledger": wrong | {"hash": hash_of(wrong)}})
    return {
        "plans": [_slim(plan.to_dict()) for plan in plans],
        "tags": {person: kept.tag(person) for person in ("", invitation)},
        "ledger": data,
        "sums": [[str(lip), str(ldp)] for lip, ldp in sums],
        "refused": refused,
    }


def panels() -> dict[str, Any]:
    """Panels: two layers with what is stored and sent, the belief rule wave by wave, and what reports add up to."""
    yes_no = make_plan(Prior.of({"yes": 1, "no": 4}), Survey("yes"), "1/2", question="Do you smoke?")
    named = make_plan(
        {"north": Prior.of({"a": 2, "b": 3, "c": 5}), "south": Prior.of({"a": 1, "b": 1, "c": 0})}, Histogram(), "1/2"
    )
    rule = Plan.of_groups(
        Histogram(), (replace(_rule(None, Prior.of({f"v{x}": 40 - x for x in range(40)}), 1), name=None),)
    )
    design = make_plan(Prior.uniform([f"v{x}" for x in range(40)]), Histogram(), 1, notion="ldp")
    stored = [with_layers(plan, level) for plan, level in ((yes_no, 1), (named, 2), (rule, 2), (design, 2))]
    again = replace(stored[0], wave=2, series=stored[0].hash).reworded("Do you smoke now?")
    stored.append(replace(again, earlier=()))
    stored.append(with_layers(Plan.of_groups(Histogram(), _tiers().groups[1:]), 6))
    second = following_plan(yes_no, "9/10")
    named_second = following_plan(named, transition=((Fraction(8, 10), Fraction(1, 10), Fraction(1, 10)),) * 3)
    waves = [[yes_no, second, following_plan(second, "9/10")], [named, named_second]]
    believed = Prior.of({"yes": 1, "no": 4})
    sets = make_plan([GroupPrior(name=None, prior=believed, prior_set=Ball(believed, "1/20"))], Survey("yes"), 1)
    fresh = [make_plan(Prior.of({"yes": k + 2, "no": 9}), Survey("yes"), Fraction(k + 5, 10)) for k in range(10)]
    series = [
        [yes_no] + [replace(yes_no, wave=wave, series=yes_no.hash) for wave in range(2, 9)],
        fresh, [fresh[0], sets, rule, named], waves[0], [stored[0], stored[4], fresh[0]],
    ]  # fmt: skip
    added = [[Occasion.of(plan) for plan in each] for each in series]
    wrong = [_slim(plan.to_dict()) for plan in (stored[0], stored[2], second, stored[5])]
    changes: list[tuple[str, int, tuple[Any, ...], Any]] = [
        ("a product of other layers", 0, (*GROUP, "layers", "resend"), 4000),
        ("a stored report beyond the lifelong level", 0, (*GROUP, "layers", "lifelong"), "3/4"),
        ("a lifelong level below that of a wave", 0, (*GROUP, "layers", "lifelong"), "1/4"),
        ("a rule that is not scaled", 1, (*GROUP, "layers", "resend"), 1),
        ("a tier that is not scaled", 3, (*GROUP, "layers", "stored", "tiers", 1, "rule", "step"), 4096),
        ("other tiers", 3, (*GROUP, "layers", "stored", "tiers", 1, "chance"), 64),
        ("a persistence above 1", 2, ("follows", "persistence"), "3/2"),
        ("no plan before", 2, ("follows", "plans"), []),
        ("a transition of another size", 2, ("follows",), {"plans": [yes_no.hash], "transition": [["1"]]}),
        ("both ways to change", 2, ("follows", "transition"), [["1", "0"], ["0", "1"]]),
    ]
    return {
        "layers": [layered(plan) for plan in stored],
        "belief": [[_slim(plan.to_dict()) for plan in each] for each in waves],
        "names": [
            [group, report, followed_name(group, report), base_name(group)]
            for group in (None, "new", "north", "after 1", "after 1 -", "north / after 0 2", "after / b", "a / after -")
            for report in (None, 0, 12)
        ],
        "added": [
            {
                "occasions": [each.to_dict() for each in told],
                "sums": [[str(level) for level in added_up(told[:count])] for count in range(len(told) + 1)],
            }
            for told in added
        ],
        "plans": [[_slim(plan.to_dict()) for plan in each] for each in series[1:]],
        "refused": [{"why": why, "plan": _changed(wrong[which], path, value)} for why, which, path, value in changes],
    }  # fmt: skip


def layered(plan: Plan) -> dict[str, Any]:
    """A plan in two layers: for people and answers the stored report, and words with what a wave sends."""
    randomizer, key, found = Randomizer(plan), bytes(range(16)), []
    ledger = Ledger("ledger.json", key, {}, {}, None)
    for place, group in enumerate(plan.groups):
        for x in range(min(len(plan.values), 6)):
            for person in ("", "é"):
                (stored,) = randomizer.stored([place], [x], [person], ledger.memory).tolist()
                words = Recorded(seed=100 * place + 10 * x)
                report = randomizer.report(place, x, words, person=person, memory=ledger.memory)
                found.append([group.name, str(plan.values[x]), person, stored, words.drawn, report])
    return {"plan": _slim(plan.to_dict()), "key": key.hex(), "reports": found}


def golden_plan(plan: Plan) -> dict[str, Any]:
    return {"plan": _slim(plan.to_dict()), **expected(plan)}


def files() -> dict[str, Callable[[], Any]]:
    """What each file holds, by its name."""
    made = {
        f"plan_{name.replace(' ', '_')}": lambda make=make: golden_plan(make())  # type: ignore[misc]
        for name, make in plans()
    }
    others = (
        refused,
        numbers,
        small_many_values,
        small_tiers,
        small_block_designs,
        levels,
        set_levels,
        recoding,
        refused_recodings,
        panels,
        questionnaires,
        reworded_questionnaires,
        refused_questionnaires,
        ledger,
    )
    return made | {make.__name__: make for make in others}


def main(names: Sequence[str]) -> None:
    known = files()
    for name in names or known:
        write(name, known[name]())


if __name__ == "__main__":
    main(sys.argv[1:])
