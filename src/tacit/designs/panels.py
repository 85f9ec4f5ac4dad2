"""The same people in several waves: three ways to ask again, at the same level for the person.

*Fresh channels*: every wave draws through the same channel again. LIP levels do not add, so each wave gets less than
its part (`tacit.mechanism.repeated`).

*The belief rule*: wave t is designed for the belief after the person's earlier reports, b_t = Pr(x_t | y_1…y_{t−1}).
Then λ(y) = Π λ_t(y_t), the lift of a path is the product of the waves' lifts, and levels add up exactly. Device and
collector compute b_t and the channel alike, from the reports that both know, in rationals and by closed forms.

*Two layers*: a report of each answer is drawn once and stored; every wave sends a fresh, noisier report of it. Answers
that stay cost the level of the stored report, however many waves there are.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from tacit.designs._design import one_thread
from tacit.designs._methods import optimal_binary
from tacit.designs.planning import make_plan, uninterrupted_design
from tacit.designs.prior_file import GroupPrior
from tacit.disk import TextTable
from tacit.exact import Number, budget, rational
from tacit.mechanism import Channel, Layers, Mechanism, PrivacyError, mse, round_channel, unbiased_variance
from tacit.mechanism.repeated import (
    RESEND_BITS,
    Repeated,
    Transition,
    after,
    check_transition,
    joint_level,
    layered_level,
    persistent,
)
from tacit.mechanism.table._channel import to_words
from tacit.plan import NEW, Aim, Follows, Group, Plan, base_name, followed_name
from tacit.prior import Prior, Value
from tacit.task import Task, prior_variance

#: Histories of reports that the error of the belief rule is averaged over, at most.
_MOST_HISTORIES = 100
#: Groups of a wave by the belief rule, at most: each has a channel in the plan.
MOST_GROUPS = 400
#: Budgets are found to this part of themselves.
_STEPS = 10
#: Parts of the lifts' distance from 1 that rounding may cost a wave, tried in turn; and the bits of `Layers.noise`.
_LOSSES, _NOISE_BITS = (Fraction(0), Fraction(1, 10**7), Fraction(1, 10**6)), 32


def following_plan(
    plan: Plan,
    persistence: Number | None = None,
    epsilon: Number | None = None,
    *,
    transition: Transition | None = None,
) -> Plan:
    """The next wave for the same people, by the belief rule: a group for each history of reports, with its own belief.

    A person keeps the answer with the probability `persistence`, else one is drawn from the prior of the group; or the
    next answer follows from the last one by a `transition` matrix (`read_transition`). The level of the next wave is
    `epsilon`, by default that of this one. The prior of a group is then what its people's earlier
    reports leave to believe about their present answer, exactly, and its channel is designed for that: levels of all
    waves add up. The device and the collector find a person's group from the person's earlier reports
    (`tacit.plan.followed_name`). People who left a wave out have groups of their own; people without any report are in
    the groups of the first wave. The same arguments give the same hash, so any reader can check it.

    Refused are a `plan` with too many histories, or too many reports to be listed (two layers serve then,
    `with_layers`), and one that promises LDP, whose levels add without this, or something for a set of priors.

    >>> from tacit import Survey, make_plan
    >>> first = make_plan(Prior.of({"yes": 0.2, "no": 0.8}), Survey("yes"), epsilon=1)
    >>> second = following_plan(first, "0.9")
    >>> {group.name: round(float(group.prior.probabilities[0]), 3) for group in second.groups}
    {'new': 0.2, 'after 0': 0.086, 'after 1': 0.509}
    """
    stay = None if persistence is None else rational(persistence, "persistence")
    if transition is not None:
        transition = check_transition(transition, len(plan.values))
    follows = Follows(plan.hashes, stay, transition)
    _check_followed(plan)
    found: list[GroupPrior] = []
    for group in plan.groups:
        base, table = plan.group(_base_of(plan, group.name)), group.mechanism.table()
        assert table is not None
        moves = transition or persistent(base.prior, stay or 0)
        beliefs = {None: group.prior} | {
            report: Prior(plan.values, table.exact_posterior(report))
            for report, weight in enumerate(table.marginal_weights)
            if weight
        }
        found += [
            GroupPrior(name=followed_name(group.name, report), prior=after(belief, moves), weight=group.weight,
                       offset=group.offset, epsilon=group.epsilon if epsilon is None else budget(epsilon))
            for report, belief in beliefs.items()
        ]  # fmt: skip
        if not set(group.prior.support) <= set(found[-1].prior.support):
            raise ValueError(
                "By this transition matrix an answer that can be given now cannot be given in the next wave, so it "
                "would be outside the promise. Give the change to every answer a small probability."
            )
    if len(found) > MOST_GROUPS:
        raise ValueError(
            f"Wave {plan.wave + 1} has {len(found):,} histories of reports, each with a channel of its own; there can "
            f"be {MOST_GROUPS}. Two layers serve any number of waves: tacit plan … --lifelong L."
        )
    aims = {group.certificate.aim for group in plan.groups if group.certificate is not None}
    made = make_plan(found, plan.task, None, aim=aims.pop() if len(aims) == 1 else "unbiased", question=plan.question)
    series = plan.first_wave
    return plan.changed(groups=made.groups, wave=plan.wave + 1, series=series, earlier=(), follows=follows)


def read_transition(path: str | Path | TextIO, values: Sequence[Value]) -> Transition:
    """How answers change from wave to wave, from the CSV at `path` with the columns `from`, `to` and `probability`.

    Answers are those of `values`, in the order of the plan. Changes that the file does not name have the probability 0;
    those from an answer must sum to 1 exactly.

    >>> from io import StringIO
    >>> changes = StringIO("from,to,probability\\nyes,yes,0.9\\nyes,no,0.1\\nno,no,1\\n")
    >>> [[str(chance) for chance in row] for row in read_transition(changes, ["yes", "no"])]
    [['9/10', '1/10'], ['0', '1']]
    """
    needed, known = ("from", "to", "probability"), Prior.uniform(values)
    table, name = TextTable.read(path, needed), path if isinstance(path, str | Path) else "The transition matrix"
    if sorted(table.columns) != sorted(needed):
        raise ValueError(
            f"{name}: the header must name 'from', 'to' and 'probability'. Got {', '.join(table.columns)}."
        )
    chances: dict[tuple[int, int], Fraction] = {}
    for row in table.by_column(name):
        try:
            change = known.position(known.value_of(row["from"])), known.position(known.value_of(row["to"]))
            chance = rational(row["probability"], "probability")
        except ValueError as error:
            raise ValueError(f"{name}, line {row.line}: {error}") from None
        if change in chances or chance < 0:
            wrong = "this change stands twice" if change in chances else "a probability must not be negative"
            raise ValueError(f"{name}, line {row.line}: {wrong}.")
        chances[change] = chance
    size = len(known)
    moves = tuple(tuple(chances.get((x, y), Fraction(0)) for y in range(size)) for x in range(size))
    for value, shares in zip(known.values, moves, strict=True):
        if sum(shares) != 1:
            raise ValueError(
                f"{name}: the probabilities of the changes from {value!r} must sum to 1 exactly. They sum to "
                f"{float(sum(shares)):.6g}. Fractions such as 1/3 are read, too."
            )
    return moves


def _base_of(plan: Plan, name: str | None) -> str | None:
    """The name in the plan of a group without what its people sent."""
    base = base_name(name)
    return NEW if base is None and None not in {group.name for group in plan.groups} else base


def _check_followed(plan: Plan) -> None:
    """Raise where the belief rule does not serve."""
    if plan.wave > 1 and plan.follows is None:
        raise ValueError(
            f"The belief rule begins in the first wave. This plan is wave {plan.wave}, of people who may have answered "
            "before: what they sent then is in no prior. Plan a new series, or use tacit next without it."
        )
    if any(group.notion == "ldp" or group.ldp_cap is not None for group in plan.groups):
        raise ValueError("This plan promises an LDP level, and LDP levels add up by themselves: use fresh channels.")
    if any(group.prior_set is not None for group in plan.groups):
        raise ValueError(
            "This plan promises for a set of priors, and the belief rule needs one: what a report leaves to believe "
            "depends on it. Plan the first wave without a set, or in two layers: tacit plan … --lifelong L."
        )
    if plan.between or any(group.layers is not None for group in plan.groups):
        raise ValueError("Two layers, and answers between the values, have no belief rule: use tacit next without it.")
    if any(group.mechanism.table() is None for group in plan.groups):
        raise ValueError(
            f"Reports about {len(plan.values):,} values are too many to follow one by one. Two layers serve any number "
            "of values: tacit plan … --lifelong L."
        )
    if plan.follows is None and any(base_name(group.name) != group.name for group in plan.groups):
        raise ValueError("A group of this plan is named like one by the belief rule ('new', 'after …'). Rename it.")


def with_layers(plan: Plan, lifelong: Number) -> Plan:
    """The same plan in two layers: a wave sends what it would send, and an answer that stays keeps the lifelong level.

    The chance of sending the stored report again is the least for which the stored report keeps the lifelong level
    (`tacit.mechanism.repeated`), so that the errors of different waves depend on each other as little as possible. The
    channel of a wave loses a few millionths of its precision to rounding.

    The ε of the groups of the `plan` is the level of a wave; `lifelong`, at least ε, that of all reports of an answer
    that stays, for any number of waves. A plan with layers or an LDP cap is refused.

    >>> from tacit import Survey, make_plan
    >>> plan = with_layers(make_plan(Prior.of({"yes": 0.2, "no": 0.8}), Survey("yes"), epsilon="0.4"), 1)
    >>> (group,) = plan.groups
    >>> group.layers.resend, round(group.layers.stored.audit().lip.epsilon, 3), round(group.audit.lip.epsilon, 3)
    (2137, 0.999, 0.4)
    """
    level = budget(lifelong, "lifelong")
    for group in plan.groups:
        if level < group.epsilon or group.ldp_cap is not None or group.layers is not None:
            raise ValueError(
                f"The lifelong level must be at least the ε = {float(group.epsilon):g} of a wave, of a plan without an "
                f"LDP cap and without layers. Got {float(level):g}."
            )
    return plan.changed(groups=[_in_layers(group, plan.task, level) for group in plan.groups])


def _in_layers(group: Group, task: Task, lifelong: Fraction) -> Group:
    """The group in two layers, with the least chance of sending the stored report for which its level holds."""
    table, one = group.mechanism.table(), 1 << RESEND_BITS
    if table is None:
        # The greater the chance, the nearer is the stored report to the one of a wave; at 1 they are the same.
        place = bisect_left(range(1, one), True, key=lambda resend: _of_rule(group, lifelong, resend) is not None)
        found = _of_rule(group, lifelong, 1 + place)
    else:
        first = min(one, math.ceil(_least_chance(group, table, lifelong) * one))
        tried = (_of_table(group, table, lifelong, resend) for resend in range(max(first, 1), one + 1))
        found = next((layers for layers in tried if layers is not None), None)
    if found is None:
        raise PrivacyError("No two layers keep this lifelong level.")
    stated = group.certificate
    if stated is not None:
        error, variance = mse(found.product, task), unbiased_variance(found.product, task)
        stated = replace(stated, mse=error, unbiased_variance=variance)
    return replace(group, mechanism=found.product, layers=found, certificate=stated)


def _least_chance(group: Group, table: Channel, lifelong: Fraction) -> float:
    """The least s for which λ + (Q − λ)/s keeps the level L, up to rounding.

    A column v of lifts with means between m and M under all priors in question needs s(e^L − 1) to be at least
    v_x − 1 + e^L(1 − m) and M − 1 + e^L(1 − v_x) for every x.
    """
    lifts, most = table.inside_lifts, math.exp(lifelong)
    low, high = np.ones((2, len(lifts)))
    if group.notion == "ldp":
        low, high = table.lifts.min(axis=1), table.lifts.max(axis=1)
    elif group.prior_set is not None:
        ends = [group.prior_set.extremes(column) for column in table.weights.T.tolist()]
        low, high = np.array(ends, dtype=float).T / (table.marginal * table.denominator)
    raised, lowered = lifts.max(axis=1) - 1 + most * (1 - low), high - 1 + most * (1 - lifts.min(axis=1))
    return float(max(raised.max(), lowered.max())) / (most - 1)


def _of_rule(group: Group, lifelong: Fraction, resend: int) -> Layers | None:
    """A rule with another step: the product has the step of the wave, rounded down to a multiple of `resend`."""
    rule: Any = group.mechanism
    with suppress(ValueError):  # A step that leaves no base.
        layers = Layers(lifelong, rule.scaled(lambda step: step // resend << RESEND_BITS), resend)
        return layers if layers.keeps(group.notion, group.prior_set) else None
    return None


def _of_table(group: Group, table: Channel, lifelong: Fraction, resend: int) -> Layers | None:
    """λ + (1 − δ)(Q − λ)/s in integers, with the least δ for which the product keeps ε; None where nothing does."""
    prior, share = group.prior, Fraction(resend, 1 << RESEND_BITS)
    marginal = [Fraction(int(weight), table.denominator * prior.total) for weight in table.marginal_weights]
    (noise,) = to_words(table.marginal_weights[None, :], _NOISE_BITS).tolist()
    for loss in _LOSSES:
        rows = [
            [mean + (1 - loss) / share * (Fraction(int(cell), table.denominator) - mean)
             for cell, mean in zip(row, marginal, strict=True)]
            for row in table.weights
        ]  # fmt: skip
        if min(map(min, rows)) < 0:
            continue
        with suppress(PrivacyError):
            stored = round_channel(prior, rows, lifelong, group.notion, prior_set=group.prior_set)
            layers = Layers(lifelong, stored, resend, tuple(noise))
            sides = () if group.prior_set is None else layers.product.set_levels(group.prior_set)
            if layers.product.keeps(group.notion, group.epsilon) and all(side.holds(group.epsilon) for side in sides):
                return layers
    return None


@dataclass(frozen=True, kw_only=True)
class PanelRow:
    """One way to ask the same people again: the ε of a wave, the level for the person over all, and the error.

    `error` is the standard error of one wave's estimate from one respondent, of the mean variance of all waves; of a
    histogram, of all counts together. `exact` says that the level is exact, not a bound.
    """

    way: str
    epsilon: float
    level: float
    exact: bool
    error: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"level": None if math.isinf(self.level) else self.level}


@dataclass(frozen=True, kw_only=True)
class Panel:
    """The ways compared, at the same level for the person; `fresh_at_epsilon` is what the stated ε would reach."""

    rows: tuple[PanelRow, ...]
    waves: int
    level: float
    fresh_at_epsilon: PanelRow
    recommended: str

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        rows = [row.to_dict() for row in self.rows]
        return {
            "waves": self.waves, "level": self.level, "ways": rows,
            "fresh_at_epsilon": self.fresh_at_epsilon.to_dict(), "recommended": self.recommended,
        }  # fmt: skip


def compare_panel(
    prior: Prior,
    task: Task | str,
    epsilon: Number,
    waves: int,
    *,
    persistence: Number | None = None,
    transition: Transition | None = None,
    aim: Aim = "unbiased",
) -> Panel:
    """Compare fresh channels, the belief rule and two layers for a panel, all at the level `waves`·ε for the person.

    ε = `epsilon` is the level of a wave, `prior` that of the answers; `task` and `aim` are those of `design`.
    `persistence` is the probability of keeping the answer from wave to wave, else one is drawn from the prior; 1
    without it. A `transition` matrix has a row for each answer with the probabilities of the next one instead.

    >>> found = compare_panel(Prior.uniform(["yes", "no"]), "histogram", "0.5", 6, persistence="0.9")
    >>> round(found.fresh_at_epsilon.level, 2), found.level, found.recommended
    (4.13, 3.0, 'two layers')
    """
    asked, level = Task.of(task), budget(epsilon)
    if not 2 <= waves <= 1000:
        raise ValueError(f"The 'waves' must be at least 2. Got {waves}.")
    moves = _moves(prior, persistence, transition)
    total = waves * level

    def made(budget_of_one: Fraction, belief: Prior = prior) -> Channel:
        table = uninterrupted_design(belief, asked, budget_of_one, aim=aim).mechanism.table()
        if table is None:
            raise ValueError(
                f"Ways to ask a panel are compared for few values. For {len(prior):,} use two layers, which serve any "
                "number: leave --waves out and state the level of all waves with --lifelong."
            )
        return table

    with one_thread():
        fresh, stated = _fresh(made, level, waves, moves, total, asked)
        others = _belief(made, prior, level, waves, moves, asked), _two_layers(made, total, waves, moves, asked)
    rows = [fresh, *(row for row in others if row is not None)]
    best = min(rows, key=lambda row: row.error)
    return Panel(rows=tuple(rows), waves=waves, level=float(total), fresh_at_epsilon=stated, recommended=best.way)


def _moves(prior: Prior, persistence: Number | None, transition: Transition | None) -> Transition | None:
    if persistence is not None and transition is not None:
        raise ValueError("Give the persistence or a transition matrix, not both.")
    if transition is not None:
        return check_transition(transition, len(prior))
    return None if persistence is None or rational(persistence) == 1 else persistent(prior, persistence)


Maker = Callable[..., Channel]


def _fresh(
    made: Maker, level: Fraction, waves: int, moves: Transition | None, total: Fraction, task: Task
) -> tuple[PanelRow, PanelRow]:
    """The same channel in every wave: with the largest ε whose joint level is `total`, and with ε = total/waves."""

    def tried(epsilon: Fraction) -> tuple[Channel, Repeated]:
        channel = made(epsilon)
        return channel, joint_level([channel] * waves, moves)

    def row(epsilon: Fraction, found: tuple[Channel, Repeated]) -> PanelRow:
        channel, joint = found
        return PanelRow(
            way="fresh channels", epsilon=float(epsilon), level=joint.lip.epsilon, exact=joint.exact,
            error=_error(channel, task),
        )  # fmt: skip

    stated = level, tried(level)
    low, high = total / (2 * waves - 1), level
    best = low, tried(low)
    if stated[1][1].lip.holds(total):
        best, low = stated, high
    for _ in range(_STEPS if best[1][1].exact and low < high else 0):
        middle = ((low + high) / 2).limit_denominator(10_000)
        found = tried(middle)
        if found[1].lip.holds(total):
            best, low = (middle, found), middle
        else:
            high = middle
    return row(*best), row(*stated)


def _belief(
    made: Maker, prior: Prior, level: Fraction, waves: int, moves: Transition | None, task: Task
) -> PanelRow | None:
    """What randomization adds to the variance of a wave's unbiased mean is the mean over histories, under the belief
    that each leaves. None where a plan cannot hold all histories (`following_plan`).
    """
    if (made(level).n_possible_reports + 1) ** (waves - 1) > MOST_GROUPS:
        return None
    spread, seen, now = 0.0, 0, prior
    # Histories with their probabilities, wave by wave; equal beliefs are looked at once.
    beliefs: dict[Prior, float] = {prior: 1.0}
    for wave in range(1, waves + 1):
        later: dict[Prior, float] = {}
        spread += prior_variance(now, task)
        now = after(now, moves)
        for belief, chance in beliefs.items():
            # For two answers the closed form is what the design finds.
            channel = optimal_binary(belief, level) if len(belief.support) <= 2 else made(level, belief)
            seen += 1
            spread += chance * (unbiased_variance(channel, task) - prior_variance(belief, task))
            for report, share in enumerate(channel.marginal):
                if share > 0:
                    posterior = after(Prior(belief.values, channel.exact_posterior(report)), moves)
                    later[posterior] = later.get(posterior, 0.0) + chance * float(share)
        beliefs = later
        if seen + len(beliefs) > _MOST_HISTORIES:
            # Far into the series beliefs have settled: the waves so far stand for the rest.
            spread *= waves / wave
            break
    error = math.sqrt(spread / waves)
    return PanelRow(way="belief rule", epsilon=float(level), level=float(waves * level), exact=True, error=error)


def _two_layers(made: Maker, total: Fraction, waves: int, moves: Transition | None, task: Task) -> PanelRow | None:
    """The most precise wave whose two layers, with a stored report at the level of all waves, keep that level."""
    if moves is None:
        # Nothing has to be hidden by fresh noise: the stored report itself is sent again.
        first = made(total)
        level = first.audit().lip.epsilon
        return PanelRow(way="two layers", epsilon=level, level=level, exact=True, error=_error(first, task))
    low, high = Fraction(0), total
    best: tuple[Fraction, Repeated, Mechanism] | None = None
    for _ in range(_STEPS):
        middle = ((low + high) / 2).limit_denominator(10_000)
        group = _in_layers(Group(name=None, epsilon=middle, mechanism=made(middle)), task, total)
        assert group.layers is not None
        stored = group.layers.stored.table()
        assert stored is not None
        joint = layered_level(stored, group.layers.second(), waves, moves)
        if joint.lip.holds(total):
            best, low = (middle, joint, group.mechanism), middle
        else:
            high = middle
    if best is None:
        return None
    epsilon, joint, one = best
    return PanelRow(
        way="two layers", epsilon=float(epsilon), level=joint.lip.epsilon, exact=joint.exact, error=_error(one, task)
    )


def _error(channel: Mechanism, task: Task) -> float:
    return math.sqrt(max(0.0, unbiased_variance(channel, task)))
