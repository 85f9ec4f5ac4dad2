"""Randomized response designs of the literature, and plans for data that were collected with them.

Every function states a design as its paper does and gives a `Rule`: with which probability each answer leads to each
report, in exact fractions. `adopt` makes an audited plan of it, so that such data are read like our own.

Plans hold integers over a power of two. A probability such as 2/3 is rounded to a multiple of 2^-64, or finer where a
report is rare; all levels are those of the rounded channel, and differ from the rule's in the tenth digit at most.

`theorem3` is the channel that the paper on LIP published, for study: it breaks its own definition for rare values.
`compare` sets its error, and the level that it really reaches, beside the best LIP and LDP channels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

from tacit.designs.planning import Priors, group_priors, ldp_comparison, uninterrupted_design
from tacit.designs.prior_file import GroupPrior, rows_by
from tacit.disk import TextTable
from tacit.exact import Number, budget, exp_below, rational
from tacit.mechanism import (
    Audit,
    Channel,
    Mechanism,
    Notion,
    PrivacyError,
    audit,
    mse,
    round_channel,
    unbiased_variance,
)
from tacit.plan import Aim, Group, Plan
from tacit.plan._group import smallest_level
from tacit.prior import Prior, Value, clean_name, numbers_if_all
from tacit.task import Task

#: e^ε is taken to this many digits, from below: what rounding to a plan's integers adds keeps the level at ε then.
_DIGITS = 10
#: A table of reports that are written out has at most this many.
MOST_REPORTS = 1024
#: Probabilities that were printed with few digits may miss a sum of 1 by this much.
_PRINTED = Fraction(1, 1000)


@dataclass(frozen=True)
class Rule:
    """What respondents were told to do: a person who holds `values[x]` says `reports[y]` with probability `rows[x][y]`.

    `reports` are written as the data write them.
    """

    values: tuple[Value, ...]
    reports: tuple[str, ...]
    rows: tuple[tuple[Fraction, ...], ...]

    def __post_init__(self) -> None:
        if len(self.values) < 2 or len(set(self.values)) < len(self.values):
            raise ValueError("A design needs at least two different values that people can hold.")
        if len(set(self.reports)) < len(self.reports) or not all(self.reports):
            raise ValueError("The reports of a design need names that differ from each other.")
        if any(len(row) != len(self.reports) or len(self.rows) != len(self.values) for row in self.rows):
            raise ValueError("A design needs a row for each value and a probability for each report in it.")
        for value, row in zip(self.values, self.rows, strict=True):
            if any(cell < 0 for cell in row) or sum(row) != 1:
                raise ValueError(f"Probabilities must not be negative and sum to 1. Those of {value!r} do not.")
        for y, name in enumerate(self.reports):
            if not any(row[y] for row in self.rows):
                raise ValueError(f"Nobody ever says {name!r}: leave that report out.")

    def written(self, reports: Sequence[str]) -> Rule:
        """The same rule, with other names for its reports, in their order.

        >>> crosswise(["yes", "no"], 0.25).written(["A", "B"]).reports
        ('A', 'B')
        """
        if len(reports) != len(self.reports):
            raise ValueError(
                f"This design has {len(self.reports)} reports ({', '.join(self.reports[:8])}). "
                f"Got {len(reports)} names for them."
            )
        return replace(self, reports=tuple(map(clean_name, reports)))


def warner(values: Sequence[Value], truth: Number) -> Rule:
    """Warner (1965): with probability `truth` the question is asked as it is, else its opposite; the first of the
    `values` is "yes".

    >>> warner(["yes", "no"], 0.75).rows[0]
    (Fraction(3, 4), Fraction(1, 4))
    """
    _two(values, "Warner's design")
    p = _probability(truth, "truth")
    return _rule(values, values, [[p, 1 - p], [1 - p, p]])


def forced_response(values: Sequence[Value], forced: Mapping[Value, Number]) -> Rule:
    """Boruch (1971): some are told which of the `values` to say, value x with probability `forced`[x], all others tell
    the truth.

    >>> forced_response(["yes", "no"], {"yes": "1/6", "no": "1/6"}).rows[0]
    (Fraction(5, 6), Fraction(1, 6))
    """
    unknown = [value for value in forced if value not in values]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is forced but is not one of the values.")
    parts = [_probability(forced.get(value, 0), "forced") for value in values]
    truth = 1 - sum(parts)
    if not truth > 0:
        raise ValueError(f"Forced responses must leave room for the truth. They sum to {float(1 - truth):g}.")
    rows = [[part + truth * (x == y) for y, part in enumerate(parts)] for x in range(len(values))]
    return _rule(values, values, rows)


def unrelated_question(values: Sequence[Value], asked: Number, prevalence: Number) -> Rule:
    """Horvitz, Greenberg and others (1967, 1969): with probability `asked` the sensitive question, else another one, to
    which a known share, the `prevalence`, says the first of the two `values`.

    >>> unrelated_question(["yes", "no"], "1/2", "1/12").rows[1]
    (Fraction(1, 24), Fraction(23, 24))
    """
    _two(values, "The unrelated question")
    p, q = _probability(asked, "asked"), _probability(prevalence, "prevalence")
    return forced_response(values, {values[0]: (1 - p) * q, values[1]: (1 - p) * (1 - q)})


def crosswise(values: Sequence[Value], prevalence: Number) -> Rule:
    """Yu, Tian and Tang (2008): people say whether their answers to the sensitive question and to another one, to which
    a known share, the `prevalence`, says yes, are the same or different. The first of the `values` is "yes".

    >>> crosswise(["yes", "no"], 0.25).reports
    ('same', 'different')
    """
    _two(values, "The crosswise design")
    q = _probability(prevalence, "prevalence")
    return _rule(values, ["same", "different"], [[q, 1 - q], [1 - q, q]])


def kuk(values: Sequence[Value], red: Sequence[Number], cards: int = 1) -> Rule:
    """Kuk (1990): people draw `cards` with replacement from the pack that belongs to their value among the `values`, of
    which the share `red`[x] is red, and say how many were red; of one card, its colour.

    >>> kuk(["yes", "no"], [0.8, 0.2], cards=2).rows[0]
    (Fraction(1, 25), Fraction(8, 25), Fraction(16, 25))
    """
    if len(red) != len(values):
        raise ValueError(f"Each of the {len(values)} values needs its share of red cards. Got {len(red)}.")
    if not 1 <= cards < MOST_REPORTS:
        raise ValueError(f"The number of cards must lie between 1 and {MOST_REPORTS - 1}. Got {cards}.")
    shares = [_probability(share, "red") for share in red]
    if cards == 1:
        return _rule(values, ["red", "black"], [[p, 1 - p] for p in shares])
    rows = [[math.comb(cards, k) * p**k * (1 - p) ** (cards - k) for k in range(cards + 1)] for p in shares]
    return _rule(values, range(cards + 1), rows)


def k_ary(values: Sequence[Value], truth: Number | None = None, epsilon: Number | None = None) -> Rule:
    """k-ary randomized response: the truth with probability `truth`, or e^ε/(e^ε+d−1) for ε = `epsilon`, else any other
    of the d `values`.

    >>> k_ary(["a", "b", "c"], truth=0.5).rows[0]
    (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4))
    """
    d = len(values)
    if (truth is None) == (epsilon is None):
        raise ValueError("k-ary response needs the probability of the truth or ε, one of them.")
    if epsilon is not None:
        odds = exp_below(budget(epsilon), _DIGITS)
        p = odds / (odds + d - 1)
    else:
        p = _probability(truth or 0, "truth")
    rows = [[p if x == y else (1 - p) / (d - 1) for y in range(d)] for x in range(d)]
    return _rule(values, values, rows)


def unary(values: Sequence[Value], own: Number, other: Number) -> Rule:
    """A bit for each of the `values`, randomized independently: set with `own` for the held value, with `other` for
    others.

    There is a report for each pattern of bits, written in the order of the values, 010 for the second of three.

    >>> unary(["a", "b"], own=0.75, other=0.25).reports
    ('00', '01', '10', '11')
    """
    d = len(values)
    if 2**d > MOST_REPORTS:
        raise ValueError(
            f"Unary encoding of {d} values has 2^{d} reports; a table holds {MOST_REPORTS}, those of 10 values. "
            "Adopt the question in parts, such as one value against all others."
        )
    p, q = _probability(own, "own"), _probability(other, "other")
    vectors = list(product((0, 1), repeat=d))

    def chance(x: int, bits: tuple[int, ...]) -> Fraction:
        sets = [p if position == x else q for position in range(d)]
        return math.prod((each if bit else 1 - each for each, bit in zip(sets, bits, strict=True)), start=Fraction(1))

    names = ["".join(map(str, bits)) for bits in vectors]
    return _rule(values, names, [[chance(x, bits) for bits in vectors] for x in range(d)])


def symmetric_unary(values: Sequence[Value], flip: Number | None = None, epsilon: Number | None = None) -> Rule:
    """RAPPOR's permanent step (Erlingsson and others, 2014): the bit of each of the `values` is kept with probability 1
    − f/2, f being `flip`; with ε = `epsilon` instead of f, kept with probability e^(ε/2)/(e^(ε/2)+1).

    >>> symmetric_unary(["a", "b"], flip=0.5).rows[0]
    (Fraction(3, 16), Fraction(1, 16), Fraction(9, 16), Fraction(3, 16))
    """
    if (flip is None) == (epsilon is None):
        raise ValueError("Symmetric unary encoding needs RAPPOR's f or ε, one of them.")
    if epsilon is not None:
        odds = exp_below(budget(epsilon) / 2, _DIGITS)
        kept = odds / (odds + 1)
    else:
        kept = 1 - _probability(flip or 0, "flip") / 2
    return unary(values, kept, 1 - kept)


def optimised_unary(values: Sequence[Value], epsilon: Number) -> Rule:
    """Optimised unary encoding (Wang and others, 2017): the bit of the held one of the `values` is fair, others are set
    with 1/(e^ε+1), ε = `epsilon`.

    >>> float(optimised_unary(["a", "b"], 1).rows[0][1]).__round__(4)
    0.1345
    """
    return unary(values, Fraction(1, 2), 1 / (exp_below(budget(epsilon), _DIGITS) + 1))


def read_matrix(path: str | Path) -> dict[str | None, Rule]:
    """Any design from a CSV at `path`: a column `value`, one column for each report, and optionally `group`, a rule for
    each (else by the key None).

    Probabilities may be decimals or fractions. Rows that were printed with few digits are made to sum to 1.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "coin.csv")
    ...     _ = path.write_text("value,heads,tails\\nyes,0.75,0.25\\nno,0.25,0.75\\n")
    ...     read_matrix(path)[None].reports
    ('heads', 'tails')
    """
    table = TextTable.read(path, ["value"])
    if not table.rows or "value" not in table.columns:
        raise ValueError(f"{path} needs a column 'value', a column for each report and a row for each value.")
    rows, reports = table.by_column(path), [name for name in table.columns if name not in ("value", "group")]
    if len(reports) < 2:
        raise ValueError(f"{path} needs at least two reports, and a cell for each in every row.")
    rules: dict[str | None, Rule] = {}
    for group, mine in rows_by(rows).items():
        values = numbers_if_all([row["value"] for row in mine])
        rules[group] = _rule(values, reports, [_summing(row, reports, path) for row in mine])
    if len({rule.values for rule in rules.values()}) > 1:
        raise ValueError(f"{path}: all groups need the same values, in the same order.")
    return rules


def _summing(row: Mapping[str, str], reports: Sequence[str], path: str | Path) -> list[Fraction]:
    cells = [_probability(row[name], name) for name in reports]
    total = sum(cells, Fraction(0))
    if abs(total - 1) > _PRINTED:
        raise ValueError(f"{path}: the probabilities of {row['value']!r} must sum to 1. Got {float(total):g}.")
    return [cell / total for cell in cells]


def _rule(values: Sequence[Value], reports: Sequence[Value] | range, rows: Sequence[Sequence[Fraction]]) -> Rule:
    return Rule(tuple(values), tuple(map(str, reports)), tuple(tuple(row) for row in rows))


def _two(values: Sequence[Value], what: str) -> None:
    if len(values) != 2:
        raise ValueError(f"{what} has two values, such as yes and no. Got {len(values)}.")


def _probability(number: Number, name: str) -> Fraction:
    share = rational(number, name)
    if not 0 <= share <= 1:
        raise ValueError(f"The {name!r} parameter must lie between 0 and 1. Got {number} instead.")
    return share


#: Word lengths to choose from, and how many digits (in bits) the rarest report keeps.
_WORD_BITS, _KEPT_BITS = (64, 96, 128, 192, 256), 40


def adopt(
    rules: Rule | Mapping[str, Rule] | Mapping[str | None, Rule],
    task: Task,
    priors: Priors | None = None,
    question: str | None = None,
) -> Plan:
    """The plan of data that were collected by these `rules`: one for all people, or one for each group by name. The
    `task` says what is estimated, the `question` is kept in the plan.

    Without `priors` nothing is taken to be known: the promise is LDP, at the level that the rule really has, and no
    estimate uses a prior. With priors it is LDP all the same, and the estimators that use a prior are there too. A rule
    under which some report excludes some value has no LDP level. It can be adopted with priors that give such values
    the probability zero, and the promise is LIP. Other priors are refused: a report would take a belief to zero. So are
    rules whose reports do not tell the values apart.

    >>> from tacit import Survey
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
    return Plan.of_groups(task, groups, question)


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
    epsilon = smallest_level(channel, notion, level)
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
    enough = next((bits for bits in _WORD_BITS if rarest * 2 ** (bits - _KEPT_BITS) >= 1), None)
    if enough is None:
        raise ValueError(f"A report has the probability {float(rarest):.1g}, too small for the integers of a plan.")
    return enough


# -- the published form ------------------------------------------------------------------------------------------------

#: The published channel is a table of d × d integers, computed for comparison up to this many values.
PUBLISHED_LIMIT = 300


def theorem3(prior: Prior, epsilon: Number, *, force: bool = False) -> Channel:
    """The published randomized response q_mm = 1 − (1−P_m)/E, q_mk = P_k/E, with P the `prior`, E = e^ε, ε = `epsilon`.

    It tells the truth with probability 1 − 1/E and otherwise draws from the prior. Its upper lift
    1/E + (1−1/E)/P_m exceeds E whenever P_m < 1/(E+1), so it is ε-LIP, and then optimal, only if
    min P ≥ 1/(E+1). Elsewhere this raises `PrivacyError` with the level it really reaches, or, with `force`,
    returns the channel for study. Forced, zero-prior values keep the published rows, which expose their holders.

    >>> theorem3(Prior.of({"yes": 0.1, "no": 0.9}), epsilon=1)
    Traceback (most recent call last):
    tacit.mechanism.rounding.PrivacyError: Theorem 3 is not 1-LIP here: its level is 1.9005, because the prior ...
    """
    exact = budget(epsilon)
    bound = exp_below(exact)
    reached = Channel.from_weights(prior, _rows(prior, bound))
    if force:
        return reached
    rarest = min(prior.support, key=lambda x: prior.weights[x])
    if Fraction(prior.weights[rarest], prior.total) * (bound + 1) < 1:
        level = audit(reached).lip.epsilon
        raise PrivacyError(
            f"Theorem 3 is not {float(exact):g}-LIP here: its level is {level:.5g}, because the prior of "
            f"{prior.values[rarest]!r} is below 1/(e^ε+1) = {float(1 / (bound + 1)):.4g}. "
            "Use the optimal design instead, or force=True to study it."
        )
    return round_channel(prior, _rows(prior.on_support(), bound), exact)


def _rows(prior: Prior, bound: Fraction) -> list[list[int]]:
    """q over the denominator total·numerator(E)."""
    a, b = bound.numerator, bound.denominator
    rows = [[weight * b for weight in prior.weights] for _ in prior.values]
    for x in range(len(prior)):
        rows[x][x] += prior.total * (a - b)
    return rows


Measure = Callable[[Mechanism, Task], float]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Errors per respondent at one budget, over the groups by their shares; None where skipped, ∞ where there is none.

    They are standard errors of estimates that do not use the prior (aim "unbiased"), or root mean squared errors of
    those that do, if it is right (aim "mmse"). `no_data` is the spread of the answers under the prior.
    """

    epsilon: float
    no_data: float
    lip: float
    lip_bound: float
    ldp: float | None
    published: float | None
    published_level: float | None

    @property
    def published_breaks(self) -> bool:
        """Whether the published channel reaches more than ε."""
        return self.published_level is not None and self.published_level > self.epsilon * (1 + 1e-9)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def compare(
    priors: Sequence[GroupPrior],
    task: Task,
    epsilons: Sequence[Number],
    progress: Callable[[int, int | None], None] | None = None,
    *,
    aim: Aim = "unbiased",
) -> list[Comparison]:
    """One row for each budget of `epsilons`, ascending, for the groups in `priors`; `task` and `aim` as of `design`.

    `progress` is called with budgets done and budgets in all.

    >>> from tacit import Survey
    >>> groups = [GroupPrior(name=None, prior=Prior.of({"yes": 0.1, "no": 0.9}))]
    >>> [row] = compare(groups, Survey("yes"), [1])
    >>> row.lip < row.ldp, row.published_breaks
    (True, True)
    """
    budgets = sorted({budget(epsilon) for epsilon in epsilons})
    if not budgets:
        raise ValueError("A comparison needs at least one budget. Got none.")
    rows = []
    for epsilon in budgets:
        rows.append(_compare(priors, task, epsilon, aim))
        if progress is not None:
            progress(len(rows), len(budgets))
    return rows


def _compare(priors: Sequence[GroupPrior], task: Task, epsilon: Fraction, aim: Aim) -> Comparison:
    measure: Measure = mse if aim == "mmse" else unbiased_variance
    sums = dict.fromkeys(("no_data", "lip", "lip_bound", "ldp", "published"), 0.0)
    level = 0.0
    for each in priors:
        share = float(each.share)
        found = uninterrupted_design(each.prior, task, epsilon, aim=aim).certificate
        ldp = ldp_comparison(each.prior, task, epsilon, aim)
        sums["no_data"] += share * found.prior_variance
        sums["lip"] += share * found.aimed
        sums["lip_bound"] += share * found.lower_bound
        sums["ldp"] += math.nan if ldp is None else share * ldp.certificate.aimed
        if len(each.prior) <= PUBLISHED_LIMIT:
            channel = theorem3(each.prior, epsilon, force=True)
            sums["published"] += share * measure(channel, task)
            level = max(level, audit(channel).lip.epsilon)
        else:
            sums["published"] = math.nan
    roots = {name: None if math.isnan(value) else math.sqrt(value) for name, value in sums.items()}
    known = roots["published"] is not None
    return Comparison(
        epsilon=float(epsilon),
        no_data=math.sqrt(sums["no_data"]),
        lip=math.sqrt(sums["lip"]),
        lip_bound=math.sqrt(sums["lip_bound"]),
        ldp=roots["ldp"],
        published=roots["published"],
        published_level=level if known else None,
    )
