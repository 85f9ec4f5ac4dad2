"""Write the golden files on which Python and the browser client agree, word for word.

    .venv/bin/python tests/golden/client/make.py

Run it only when the format changes on purpose: the tests read the files, and never write them. `rfc9474.json` is not
made here; it holds the published test vector of RFC 9474, appendix A.3.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from tacit import Channel, GroupPrior, Histogram, Prior, Sum, Survey, audit, belief, design, make_plan, round_channel
from tacit.designs import optimal_binary
from tacit.exact import at_most_exp, exp_enclosure
from tacit.mechanism.core_tail import CoreTail
from tacit.mechanism.core_tail_rule import CoreState
from tacit.mechanism.levels import Audit, percent
from tacit.plan.contract import Group, Plan, PlanError, contract_hash
from tacit.randomize import Randomizer
from tacit.randomize.randomness import SeededWords
from tacit.show.sentences import outside_values, promise

HERE = Path(__file__).parent
MAX_BELIEFS = 20


class Recorded:
    """Words from a list, or else from a seeded stream; remembers what was asked for."""

    def __init__(self, words: Sequence[int] = (), seed: int = 0) -> None:
        self._given, self._more, self.drawn = list(words), SeededWords(seed), []

    def integer(self, bits: int) -> int:
        word = self._given.pop(0) if self._given else self._more.integer(bits)
        self.drawn.append([bits, str(word)])
        return word


# -- plans ------------------------------------------------------------------------------------------------------------


def plans() -> Iterator[tuple[str, Plan]]:
    """Plans of every kind, by name."""
    yield "survey", _survey()
    names = [
        "a 'quoted' name",
        "both ' and \"",
        "naïve 😀",
        "tab\tand\nline",
        "back\\slash",
        "\x7f\u200b\u2028",
        "",
        "Ω",
        " x",
    ]
    prior = Prior.of(dict(zip(names, (5, 30, 12, 7, 2, 1, 20, 13, 10), strict=True)))
    question = 'Which of "these"\u2029 is\x00 yours?\r\n\t\b\f\x1f — 😀 \\ / é'
    yield (
        "histogram",
        make_plan(prior, Histogram(), 1, question=question),
    )
    yield "zeros", _zeros()
    prior = Prior.of({0: 4, 1: 3, 2.5: 2, 1e-7: 1, -10: 5})
    yield "ldp", make_plan(prior, Sum(), "3/2", notion="ldp")
    yield "words of 64 bits", _wide(48)
    yield "words of 96 bits", _wide(96)
    yield "mixed", _mixed()
    weights = {f"word {x}": 100_000 // (x + 3) for x in range(300)}
    weights |= {"word 7": 0, "word 299": 0}
    prior = Prior.of(weights)
    found = design(prior, Histogram(), Fraction(4, 5), method="core-tail")
    yield (
        "core tail",
        Plan(
            Histogram(),
            (Group(name=None, prior=prior, epsilon=Fraction(4, 5), mechanism=found.mechanism),),
            "Which word?",
        ),
    )
    prior = Prior.of({x: 10**9 // (x + 1) for x in range(3000)})
    found = design(prior, Histogram(), 1, method="core-tail")
    yield (
        "large core tail",
        Plan(Histogram(), (Group(name=None, prior=prior, epsilon=Fraction(1), mechanism=found.mechanism),)),
    )


def _survey() -> Plan:
    groups = [
        GroupPrior(name="18–29", prior=Prior.of({"yes": 0.1, "no": 0.9})),
        GroupPrior(name="30+", prior=Prior.of({"yes": 0.5, "no": 0.5}), epsilon=Fraction("0.3")),
        GroupPrior(name="'other'", prior=Prior.of({"yes": 1, "no": 99_999}), epsilon=Fraction(3)),
        GroupPrior(name="silent", prior=Prior.of({"yes": 1, "no": 3}), epsilon=Fraction(0)),
    ]
    return make_plan(groups, Survey("yes"), 1, question="Have you ever …?")


def _zeros() -> Plan:
    """Values of prior zero: with a row of their own that says nothing, and exposed by reports of their own."""
    prior = Prior.of({"a": 3, "b": 0, "c": 5, "d": 0})
    quiet = make_plan({"quiet": prior}, Histogram(), 1).groups[0]
    small = Channel.from_weights(prior, [[5, 2, 1, 0, 0], [2, 2, 2, 2, 0], [3, 4, 1, 0, 0], [8, 0, 0, 0, 0]])
    return Plan(
        Histogram(), (quiet, Group(name="exposed", prior=prior, epsilon=Fraction("0.7"), mechanism=small)), None
    )


def _wide(bits: int) -> Plan:
    """Tables over different denominators: all take the words of the longest."""
    prior, small = Prior.of({"yes": 1, "no": 9}), Channel.from_weights(Prior.of({"yes": 1, "no": 9}), [[5, 3], [3, 5]])
    lie = Fraction(3, 10)
    wide = round_channel(prior, [[1 - lie, lie], [lie, 1 - lie]], 1, bits=bits)
    groups = (
        Group(name="short", prior=prior, epsilon=Fraction(1), mechanism=optimal_binary(prior, 1)),
        Group(name="wide", prior=prior, epsilon=Fraction(1), mechanism=wide),
    )
    return Plan(Survey("yes"), (*groups, Group(name="eighths", prior=prior, epsilon=Fraction(1), mechanism=small)))


def _mixed() -> Plan:
    """A table beside core-tail mechanisms, of which one keeps LDP."""
    prior = Prior.of({f"v{x}": 0 if x == 4 else x * x + 1 for x in range(14)})
    table = make_plan({"table": prior}, Histogram(), 1).groups[0]
    circle = design(prior, Histogram(), 1, method="core-tail").mechanism
    groups = (
        table,
        Group(name="circle", prior=prior, epsilon=Fraction(1), mechanism=circle),
        Group(name="odds", prior=prior, epsilon=Fraction(2), mechanism=circle, notion="ldp"),
    )
    return Plan(Histogram(), groups, "Which?")


# -- what is expected of them -----------------------------------------------------------------------------------------


def expected(plan: Plan) -> dict[str, Any]:
    """Everything that an implementation must say about a plan."""
    return {
        "promises": [[group.name, promise(group)] for group in plan.groups],
        "beliefs": [[group.name, beliefs(group)] for group in plan.groups],
        "outside": [[group.name, [str(value) for value in outside_values(group)]] for group in plan.groups],
        "exposed": [[group.name, exposed(group)] for group in plan.groups],
        "chances": [part for group in plan.groups for part in chances(group)],
        "reports": [part for place in range(len(plan.groups)) for part in vectors(plan, place)],
    }


def beliefs(group: Group) -> list[list[str]]:
    """Value, believed before, at most and at least; of the least likely values where reports cannot be listed."""
    prior, mechanism = group.prior, group.mechanism
    told: Sequence[int] = prior.support
    if mechanism.n_possible_reports is None:
        told = sorted(prior.support, key=lambda x: prior.weights[x])[:MAX_BELIEFS]
    moved = [belief(mechanism, prior, prior.values[x]) for x in told]
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
    group, randomizer, found = plan.groups[place], Randomizer(plan), []
    values = range(0, len(plan.values), 1 + len(plan.values) // 14)
    asked = [x for x in (4, 7, 299) if x < len(plan.values) and not group.prior.weights[x]] + list(values)
    for x in asked:
        for k, words in enumerate([*edge_words(group, x, plan), [], []]):
            source = Recorded(words, seed=1000 * x + k)
            report = randomizer.report(place, x, source)
            found.append([group.name, str(plan.values[x]), source.drawn, report])
    return found


def edge_words(group: Group, x: int, plan: Plan) -> list[list[int]]:
    """Words on both sides of some thresholds."""
    channel = group.mechanism
    if isinstance(channel, CoreTail):
        if not group.prior.weights[x]:
            return [[0], [2**64 - 1]]
        inside = group.prior.support.index(x)
        row = channel.counts[channel.core.index(inside) if inside in channel.core else -1]
        edge, state = row[0], min(1, len(row) - 1)
        last = 2**64 - 1
        return [
            [edge - 1],
            [edge % 2**64, channel.base[state]],
            [last, last, 0],
            [0, channel.base[0] - 1, last],
            [0, last, last],
        ]
    tables = [each.mechanism for each in plan.groups if isinstance(each.mechanism, Channel)]
    bits = Channel.sampler(tables, [each.prior for each in plan.groups]).word_bits
    edges = [edge * 2**bits // channel.denominator for edge in accumulate(channel.weights[x].tolist())]
    edges = edges[:: 1 + len(edges) // 3]
    return [[0], [2**bits - 1]] + [[word] for edge in edges for word in (edge - 1, edge) if 0 <= word < 2**bits]


# -- plans to be refused ----------------------------------------------------------------------------------------------


def refused() -> list[dict[str, Any]]:
    """Plans that every implementation must refuse, each changed in one place; hashed again unless altered."""
    base = _slim(Plan(Survey("yes"), (_binary(),), "Ever?").to_dict())
    odds = make_plan(Prior.of({"yes": 1, "no": 1}), Survey("yes"), 1, notion="ldp")
    core_tail = _slim(Plan(Histogram(), (_mixed().groups[1],)).to_dict())
    found = [
        {"why": "another hash", "plan": base | {"hash": "0" * 64}, "says": "altered"},
        {"why": "another question", "plan": base | {"question": "Never?"}, "says": "altered"},
        {"why": "a promise broken by one cell", "plan": _by_one(base), "says": "not kept"},
        {"why": "odds broken by one cell", "plan": _by_one(_slim(odds.to_dict())), "says": "not kept"},
        {"why": "a core-tail promise broken by a hair", "plan": _grown(core_tail), "says": "not kept"},
    ]
    for why, path, value, says in MALFORMED:
        found.append({"why": why, "plan": _changed(base, path, value), "says": says})
    for why, path, value, says in MALFORMED_CORE_TAILS:
        found.append({"why": why, "plan": _changed(core_tail, path, value), "says": says})
    return found


def _binary() -> Group:
    prior = Prior.of({"yes": 0.1, "no": 0.9})
    return Group(name=None, prior=prior, epsilon=Fraction(1), mechanism=optimal_binary(prior, 1))


GROUP, TABLE = ("groups", 0), ("groups", 0, "mechanism")
#: One in ten believed to say yes become one in 37.
LOWERING = {"kind": "table", "denominator": "8", "labels": [1, 1], "rows": [["1", "7"], ["4", "4"]]}
MALFORMED: list[tuple[str, tuple[Any, ...], Any, str]] = [
    ("another format", ("tacit_plan",), 2, "format"),
    ("no groups", ("groups",), [], "groups"),
    ("groups of another type", ("groups",), {"a": 1}, "groups"),
    ("a group that is no object", ("groups",), [7], "groups[0]"),
    ("a domain that is null", ("domain",), None, "domain"),
    ("no values", ("domain", "values"), [], "domain.values"),
    ("equal values", ("domain", "values"), ["yes", "yes"], "different"),
    ("a value of another type", ("domain", "values"), ["yes", 1], "domain.values[1]"),
    ("numeric values that are no numbers", ("domain", "numeric"), True, "number"),
    ("an unknown task", ("task", "kind"), "guess", "task.kind"),
    ("a sum of names", ("task",), {"kind": "sum"}, "numeric"),
    ("a survey of a value that is not there", ("task", "values"), [2], "task.values[0]"),
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
CORE_TAIL = ("groups", 0, "mechanism")
MALFORMED_CORE_TAILS: list[tuple[str, tuple[Any, ...], Any, str]] = [
    ("a core out of order", (*CORE_TAIL, "core"), [12, 3], "core"),
    ("a core out of range", (*CORE_TAIL, "core"), [13], "core"),
    ("a core that is everything", (*CORE_TAIL, "core"), list(range(13)), "core"),
    ("a share above one", (*CORE_TAIL, "share"), "3/2", "share"),
    ("no growth", (*CORE_TAIL, "growth"), "0", "growth"),
    ("no states", (*CORE_TAIL, "states"), [], "states"),
    ("a state without weight", (*CORE_TAIL, "states", 0, 0), 0, "states[0][0]"),
    ("a state that covers what is not there", (*CORE_TAIL, "states", 0, 1), "ffffffff", "states[0][1]"),
    ("a part of what is not there", (*CORE_TAIL, "states", 0, 2), [[99, 1]], "states[0][2][0][0]"),
    ("a part above one", (*CORE_TAIL, "states", 0, 2), [[0, 2**48 + 1]], "states[0][2][0][1]"),
    ("words too long", (*CORE_TAIL, "word_bits"), 65, "word_bits"),
    ("words too short to keep the promise", (*CORE_TAIL, "word_bits"), 2, "not kept"),
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


def _by_one(plan: dict[str, Any]) -> dict[str, Any]:
    """One unit of one row moved to another report, so that e^ε is exceeded by a hair."""
    rows = plan["groups"][0]["mechanism"]["rows"]
    for units in (2**k for k in range(32)):
        for x, row in enumerate(rows):
            for source, target in ((0, 1), (1, 0)):
                moved = list(row)
                moved[source], moved[target] = str(int(row[source]) - units), str(int(row[target]) + units)
                changed = _changed(plan, ("groups", 0, "mechanism", "rows", x), moved)
                try:
                    Plan.from_dict(changed)
                except PlanError as error:
                    if "not kept" in str(error):
                        return changed
    raise AssertionError("No cell broke the promise.")


def _grown(plan: dict[str, Any]) -> dict[str, Any]:
    """The core-tail mechanism with the growth of e^2ε − 1, rounded up: it leaves no room for the rounding of words."""
    above = exp_enclosure(Fraction(2), 18)[1] - 1
    return _changed(plan, (*CORE_TAIL, "growth"), str(above))


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


def small_core_tails() -> list[dict[str, Any]]:
    """Plans with words so short that all triples can be tried, and how many triples give each report."""
    third, half = Fraction(1, 3), 2**47
    mechanisms = [
        CoreTail((3, 1, 2, 2), (), third, Fraction(3), (CoreState(1, 0),), word_bits=5),
        CoreTail((7, 3, 2, 2, 1), (0,), third, Fraction(3), (CoreState(3, 0), CoreState(1, 1)), word_bits=5),
        CoreTail(
            (3, 2, 9, 1), (0, 2), third, Fraction(3), (CoreState(2, 1), CoreState(1, 2, ((1, half),))), word_bits=5
        ),
        CoreTail((20, 1, 2, 30, 1, 1, 6), (0,), third, Fraction(3), (CoreState(1, 0), CoreState(1, 1)), word_bits=5),
    ]
    found = []
    for small in mechanisms:
        prior = Prior([f"v{x}" for x in range(len(small.weights))], small.weights)
        plan = Plan(Histogram(), (Group(name=None, prior=prior, epsilon=Fraction(20), mechanism=small),))
        cells = [state << 32 | cell for state in range(len(small.states)) for cell in range(small.cells)]
        found.append({"plan": _slim(plan.to_dict()), "reports": cells, "triples": small.to_rows()})
    return found


def levels() -> dict[str, Any]:
    """The exact ratios of random small mechanisms of each kind; null if unbounded."""
    return {
        "table": [_table_levels(np.random.default_rng(seed)) for seed in range(40)],
        "core-tail": [_core_tail_levels(np.random.default_rng(seed)) for seed in range(60)],
    }


def _table_levels(rng: np.random.Generator) -> dict[str, Any]:
    d, outputs = rng.integers(2, 5, 2)
    prior = Prior(range(d), [*rng.choice([0, 1, 2, 7, 10**20], d - 1).tolist(), 3])
    rows = rng.multinomial(16, rng.dirichlet(np.full(outputs, 0.7)), d).tolist()
    found = audit(Channel.from_weights(prior, rows), prior)
    cells = [[str(cell) for cell in row] for row in rows]
    return {"prior": [str(weight) for weight in prior.weights], "rows": cells, **_ratios(found)}


def _core_tail_levels(rng: np.random.Generator) -> dict[str, Any]:
    d = int(rng.integers(1, 9))
    weights = rng.integers(1, rng.choice([2, 9, 100, 10**6]), d).tolist()
    core = tuple(sorted(rng.choice(d, rng.integers(0, d), replace=False).tolist()))
    states = []
    for _ in range(rng.integers(1, 4)):
        parts = tuple((i, int(rng.integers(0, 2**48))) for i in range(len(core)) if rng.random() < 0.3)
        states.append(CoreState(int(rng.integers(1, 9)), int(rng.integers(0, 2 ** len(core))), parts))
    share, growth = Fraction(int(rng.integers(1, 9)), 9), Fraction(int(rng.integers(1, 50)), 7)
    drawn = CoreTail(tuple(weights), core, share, growth, tuple(states), int(rng.choice([2, 5, 8, 13, 32, 64])))
    divisor = math.gcd(*weights)  # Plans hold priors in lowest terms, which may scale the bound of words too short.
    scaled = replace(drawn, weights=tuple(weight // divisor for weight in weights))
    found = scaled.audit(Prior(range(d), scaled.weights))
    return {"prior": [str(weight) for weight in scaled.weights], "mechanism": scaled.to_dict(), **_ratios(found)}


def _ratios(found: Audit) -> dict[str, str | None]:
    """What the browser computes of an audit."""
    ratios = {"lip_upper": found.lip_upper.ratio, "lip_lower": found.lip_lower.ratio, "ldp": found.ldp.ratio}
    return {name: None if ratio is None else str(ratio) for name, ratio in ratios.items()}


def _slim(plan: dict[str, Any]) -> dict[str, Any]:
    """Without certificates, which are derived and long."""
    return plan | {"groups": [group | {"certificate": None} for group in plan["groups"]]}


def write(name: str, data: Any) -> None:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("],[", "],\n[").replace("},{", "},\n{")
    (HERE / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def main() -> None:
    for name, plan in plans():
        write(f"plan_{name.replace(' ', '_')}", {"plan": _slim(plan.to_dict()), **expected(plan)})
    write("refused", refused())
    write("numbers", numbers())
    write("small_core_tails", small_core_tails())
    write("levels", levels())


if __name__ == "__main__":
    main()
