"""From a joint prior to a plan of several questions: which are reported on together, and how often.

**Blocks and chances.** The device draws block b with chance π_b and reports on it alone. With W_b the weighted variance
of the block (over its answers, importance as weights, per report) the error of all together is Σ_b W_b/π_b. It is least
for π_b ∝ √W_b, and then

    total = (Σ_b √W_b)²,

so the best partition has the least Σ_b √W_b: a sum over blocks. Blocks are merged, the best pair first, as long as this
falls. W is estimated by a quick search on the way; the blocks chosen get a proper design with a certificate each.

**Bound.** No channel for the whole record, in blocks or not, has a smaller total than

    (Σ_i √e_i)² / (e^ε + e^−ε − 2),   e_i the eigenvalues of the covariance C of the weighted columns g under P.

Proof. A report with lift v has z = E_P[g v] − E_P[g] = E_P[(g − E g)(v − 1)]. Let T = Σ_y λ_y z_y z_yᵀ. An unbiased
estimate r has Σ_y λ_y r_y v_y(x) = g(x) for every x, so Cov(r, z) = C, and by Cauchy and Schwarz its covariance is at
least C T⁻¹ C. And zᵀ C⁻¹ z is the squared length of the projection of v − 1 on the span of g − E g, at most
E_P (v − 1)² = E_P v² − 1 ≤ e^ε + e^−ε − 2 = c, because (v − e^−ε)(v − e^ε) ≤ 0 and E_P v = 1. So tr(C⁻¹ T) ≤ c.
With T = C^½ U C^½ the total is at least tr(C U⁻¹) under tr U ≤ c, whose least value is (tr C^½)²/c. ∎
Nor is it below the sum of what each question costs alone, at its best and asked of everybody. Both bounds hold for one
prior, and so for every set of priors that contains it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np

from tacit.designs._design import Search, one_thread
from tacit.designs._methods import Design, Promise, searchable
from tacit.designs._program.deadline import Deadline
from tacit.designs._program.lifts import LiftSet
from tacit.designs.guidance import other_beliefs
from tacit.designs.joint_priors import JointPrior
from tacit.designs.planning import Uncertainty, make_plan, uninterrupted_design
from tacit.exact import Floats, Number, budget, rational
from tacit.mechanism import Channel, unbiased_variance
from tacit.plan import CHANCES, Block, Group, Plan, Question, Recoding, check_routes
from tacit.prior import Prior
from tacit.task import Histogram, Matrix

#: Joint cells of a block, unless said otherwise: up to here a design is proved.
MOST_CELLS = 32
#: A block for a cross-table may have this many: the best channel found, without a close proof.
LARGEST_BLOCK = 128
#: Blocks are first composed up to this many cells. Shares of answers are rounded to these levels to find their costs.
_SMALL, _LEVELS = 16, (0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
#: One quick search takes no longer, and all of them together so long; nothing is merged for less than this share.
_QUICK_SECONDS, _MERGING_SECONDS, _LEAST_GAIN = 4.0, 20.0, 2e-3
#: The search for one block's design takes no longer, and ends when this gap is proved.
_BLOCK_SECONDS, _BLOCK_GAP = 90.0, 5e-3


@dataclass(frozen=True)
class QuestionCost:
    """What one question costs, per respondent and over all groups.

    `variances` are of each answer's share (or of the mean), block sampling included. `alone` is the sum for this
    question alone at the same ε, `split` for ε divided evenly among all questions, `ldp` for the best LDP channel of
    one question, asked at random.
    """

    name: str
    block: int
    variances: Mapping[str, float]
    alone: float
    split: float
    ldp: float

    @property
    def total(self) -> float:
        """The sum over answers."""
        return sum(self.variances.values())


@dataclass(frozen=True)
class PlannedQuestions:
    """A plan of several questions, what each costs, and how much better any other plan could be.

    `error` is the weighted total of all questions, `lower_bound` what no channel for the whole record goes below.
    """

    plan: Plan
    costs: tuple[QuestionCost, ...]
    error: float
    lower_bound: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON: every question with the variances of its answers, and every block with its levels."""
        questions = [
            {
                "name": cost.name,
                "block": cost.block,
                "answers": [
                    {"value": value, "unbiased_variance": variance} for value, variance in cost.variances.items()
                ],
                "unbiased_variance": cost.total,
                "respondents_relative_to": {
                    "one_question_alone": cost.total / cost.alone,
                    "epsilon_split_evenly": cost.total / cost.split,
                    "ldp_one_at_random": cost.total / cost.ldp,
                },
            }
            for cost in self.costs
        ]
        blocks = [
            {
                "questions": [question.name for question in block.questions],
                "chance": block.share,
                "cells": len(block.values),
                "lip": max(group.levels["lip"] for group in block.groups),
                "ldp": max(group.levels["ldp"] for group in block.groups),
                "gap": max(group.certificate.gap for group in block.groups if group.certificate is not None),
            }
            for block in self.plan.blocks
        ]
        return {
            "questions": questions,
            "blocks": blocks,
            "weighted_error": self.error,
            "lower_bound": self.lower_bound,
            "notes": list(self.plan.notes),
        }


def make_questionnaire(
    priors: JointPrior,
    epsilon: Number,
    *,
    questions: Sequence[Question] | None = None,
    importance: Mapping[str, Number] | None = None,
    crosses: Sequence[tuple[str, str]] = (),
    uncertainty: Uncertainty | None = None,
    most_cells: int = MOST_CELLS,
    title: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PlannedQuestions:
    """A plan with the best blocks, chances and mechanisms, what each question costs, and a bound on any plan's cost.

    `uncertainty` says how wrong the priors may be.

    Args:
        priors: what is known about the answers together.
        epsilon: the budget ε of every report, so of the whole record.
        questions: the questions with texts, tasks and what is public; else those of the priors. Answers may be in
            another order than in the priors, or more; numbers are rounded to the answers (`JointPrior.asking`).
        importance: weights of the questions' variances, 1 where there is none.
        crosses: pairs of questions that a table is wanted of: they share a block.
        most_cells: the most joint cells of a block that the planner composes.
        title: kept in the plan.
        progress: is called with steps done and steps in all.

    >>> from tacit.designs.joint_priors import JointGroup
    >>> questions = tuple(Question(name=name, answers=("yes", "no"), kind="yes-no") for name in "ab")
    >>> known = JointGroup(None, np.array([[0, 0], [1, 1]]), np.array([40.0, 60.0]), (np.array([40.0, 60.0]),) * 2, 100)
    >>> planned = make_questionnaire(JointPrior(questions, (known,)), epsilon=2)
    >>> [question.name for block in planned.plan.blocks for question in block.questions]
    ['a', 'b']
    """
    level = budget(epsilon)
    if level <= 0:
        raise ValueError("At ε = 0 reports say nothing. Any ε > 0 is feasible.")
    asked = _Asked.of(priors, questions, importance or {}, crosses, level)
    blocks = _partition(asked, most_cells, progress)
    plans: list[Plan] = []
    known: dict[Any, tuple[Group, ...]] = {}
    steps = len(asked.private) + len(blocks)
    for number, names in enumerate(blocks):
        if progress is not None:
            progress(len(asked.private) + number, steps)
        plans.append(_designed(asked, names, uncertainty, known))
    spreads = [math.sqrt(asked.weighted_variance(plan)) for plan in plans]
    chances = _chances(spreads)
    blocks_made = tuple(
        Block(tuple(asked.question(name) for name in names), plan.task, plan.groups, chance)
        for names, chance, plan in zip(blocks, chances, plans, strict=True)
    )
    notes = dict.fromkeys(note for names in blocks for each in asked.priors.block(names) for note in each.notes)
    notes |= dict.fromkeys(_public_notes(asked.questions, blocks_made, priors))
    recoding = _recoding(priors, asked.questions)
    made = Plan(asked.questions, blocks_made, title, tuple(notes), recoding=recoding)
    alone = _Alone(asked)
    costs = _costs(asked, made, alone)
    error = sum(spread**2 * CHANCES / chance for spread, chance in zip(spreads, chances, strict=True))
    if progress is not None:
        progress(steps, steps)
    bound = _lower_bound(asked, alone)
    if len(plans) == 1:  # The block is the whole record.
        bound = max(bound, asked.weighted_variance(plans[0], proved=True))
    return PlannedQuestions(made, costs, error, min(bound, error))


def _recoding(priors: JointPrior, questions: Sequence[Question]) -> Recoding | None:
    """How raw data become answers to these questions; numbers are asked for themselves, without bins."""
    if priors.recoding is None:
        return None
    kinds = {question.name: question.kind for question in questions}
    found = priors.recoding.without_bins([name for name, kind in kinds.items() if kind == "number"])
    answers = tuple(each for each in found.answers if each.column in kinds)
    return Recoding(answers, found.groups) if answers or found.groups else None


def _public_notes(questions: Sequence[Question], blocks: Sequence[Block], past: JointPrior) -> list[str]:
    """For each public question the level for a reader who uses its answer: it may tell about the private ones."""
    known = {question.name: question for question in past.questions}
    promised = max(group.levels["lip"] for block in blocks for group in block.groups)
    notes = []
    for question in questions:
        if not question.public:
            continue
        stated = known.get(question.name)
        if stated is None or any(group.independent for group in past.groups):
            notes.append(
                f"{question.name} is public, and the priors do not say how it is related to the private answers: for a "
                "reader who uses it the LDP level holds"
            )
            continue
        worst = 0.0
        for place in range(len(stated.answers)):
            given = past.given(question.name, place)
            if not given.groups:
                continue
            held = given.asking(questions)
            for block in blocks:
                beliefs = {
                    each.name: each.observed or each.prior for each in held.block([q.name for q in block.questions])
                }
                worst = max(worst, *(each.level for each in other_beliefs(Plan.of_block(block), beliefs)))
        if worst > promised * (1 + 1e-6):
            notes.append(
                f"{question.name} is public and tells about private answers: for a reader who uses it the level is up "
                f"to {math.ceil(worst * 1000) / 1000:g}. Make it the group instead, to keep the promise for that reader"
            )
    return notes


@dataclass(frozen=True)
class _Asked:
    """Everything that is asked for."""

    priors: JointPrior
    questions: tuple[Question, ...]
    importance: Mapping[str, Fraction]
    crosses: tuple[tuple[str, str], ...]
    epsilon: Fraction

    @classmethod
    def of(
        cls,
        priors: JointPrior,
        questions: Sequence[Question] | None,
        importance: Mapping[str, Number],
        crosses: Sequence[tuple[str, str]],
        epsilon: Fraction,
    ) -> _Asked:
        every = tuple(priors.questions if questions is None else questions)
        public = {question.name for question in every if question.public}
        private = [question.name for question in every if not question.public]
        if questions is not None:
            check_routes(questions)
            priors = priors.asking(questions)
            for question in every:
                if question.asked_if is not None and not question.public and question.asked_if[0] in public:
                    priors.check_counted(question)
        if not private:
            raise ValueError("There is no private question to plan for.")
        for name in [*importance, *(name for pair in crosses for name in pair)]:
            if name not in private:
                raise ValueError(f"{name!r} is not a private question of this plan. It has {', '.join(private)}.")
        weights = {name: rational(importance.get(name, 1), "importance") for name in private}
        if not all(0 < weight <= 10**6 for weight in weights.values()):
            raise ValueError("The importance of a question must be positive, up to a million.")
        if any(first == second for first, second in crosses):
            raise ValueError("A cross-table needs two different questions.")
        return cls(priors, every, weights, tuple(crosses), epsilon)

    @property
    def private(self) -> list[str]:
        return [question.name for question in self.questions if not question.public]

    def question(self, name: str) -> Question:
        return next(question for question in self.questions if question.name == name)

    def cells(self, names: Sequence[str]) -> int:
        return math.prod(len(self.question(name).answers) for name in names)

    def columns(self, name: str) -> tuple[list[str], Floats]:
        """What is estimated of one question: names, and a row for each answer."""
        question = self.question(name)
        if question.task == "mean":
            numbers = np.array(question.answers, dtype=np.float64)
            return [f"{name}: mean"], ((numbers - numbers.min()) / np.ptp(numbers))[:, None]
        if question.task == "quantiles":
            answers = np.array(question.answers, dtype=np.float64)
            edges = np.sort(answers)[:-1]
            return [f"{name}≤{edge:g}" for edge in edges], (answers[:, None] <= edges).astype(np.float64)
        shown = 1 if question.task == "survey" else len(question.answers)
        return [f"{name}={answer}" for answer in question.answers[:shown]], np.eye(len(question.answers))[:, :shown]

    def task(self, names: Sequence[str]) -> Matrix:
        """The columns of all questions of a block, and of its cross-tables, times the root of their importance."""
        sizes = [len(self.question(name).answers) for name in names]
        every = _every(sizes)
        titles: list[str] = []
        columns: list[Floats] = []
        for place, name in enumerate(names):
            labels, rows = self.columns(name)
            titles += labels
            columns.append(rows[every[place]] * _root(self.importance[name]))
        for first, second in self.crosses:
            if {first, second} <= set(names):
                a, b = names.index(first), names.index(second)
                cell = every[a] * sizes[b] + every[b]
                answers = [self.question(each).answers for each in (first, second)]
                titles += [f"{first}={x}, {second}={y}" for x in answers[0] for y in answers[1]]
                weight = _root(min(self.importance[first], self.importance[second]))
                columns.append((cell[:, None] == np.arange(sizes[a] * sizes[b])) * weight)
        return Matrix(np.concatenate(columns, axis=1).tolist(), titles)

    def weighted_variance(self, plan: Plan, *, proved: bool = False) -> float:
        """W of a block: over all groups as large as they are; or what is proved that none goes below."""
        found = 0.0
        for group, stated in zip(plan.groups, self.priors.groups, strict=True):
            assert group.certificate is not None
            field = "lower_bound" if proved else "unbiased_variance"
            found += float(stated.share) * float(getattr(group.certificate, field))
        return found


def _root(weight: Fraction) -> float:
    """√w to six digits: what is designed for, and stated in the plan."""
    return float(f"{math.sqrt(weight):.6g}")


def _chances(spreads: Sequence[float]) -> list[int]:
    """Whole numbers in proportion to √W that add up to 65536, none of them zero."""
    total = sum(spreads)
    exact = [max(spread / total * CHANCES, 1.0) for spread in spreads]
    chances = [int(each) for each in exact]
    order = sorted(range(len(exact)), key=lambda k: chances[k] - exact[k])
    missing = CHANCES - sum(chances)
    for step in range(abs(missing)):
        place = order[step % len(order)] if missing > 0 else int(np.argmax(chances))
        chances[place] += 1 if missing > 0 else -1
    return chances


# -- blocks ---------------------------------------------------------------------------------------------------------


def _partition(asked: _Asked, most_cells: int, progress: Callable[[int, int], None] | None) -> list[list[str]]:
    """Blocks with a small Σ √W, what cross-tables need together."""
    blocks = _crossed(asked)
    for names in blocks:
        if asked.cells(names) > (LARGEST_BLOCK if len(names) > 1 else 500):
            raise ValueError(
                f"The questions {', '.join(names)} would need {asked.cells(names):,} joint cells in one block; at most "
                f"{LARGEST_BLOCK} are planned. Merge answers, or leave a cross-table out."
            )
    quick = _Quick(asked)
    # First small blocks, whose costs are found quickly, then larger ones.
    for most in (min(_SMALL, most_cells), most_cells):
        blocks = _merged(asked, quick, blocks, most, progress)
    blocks = _moved(asked, quick, blocks, most_cells)
    return sorted(blocks, key=lambda names: asked.private.index(names[0]))


def _merged(
    asked: _Asked, quick: _Quick, blocks: list[list[str]], most: int, progress: Callable[[int, int], None] | None
) -> list[list[str]]:
    """Merge two blocks as long as Σ √W falls, those first that take the most from it."""
    while len(blocks) > 1:
        pairs = [
            (first, second)
            for first, second in combinations(blocks, 2)
            if asked.cells(first) * asked.cells(second) <= most and quick.affordable([*first, *second])
        ]
        gains = [quick.spread(one) + quick.spread(two) - quick.spread([*one, *two]) for one, two in pairs]
        total = sum(quick.spread(names) for names in blocks)
        if not gains or max(gains) <= _LEAST_GAIN * total:
            break
        best = pairs[int(np.argmax(gains))]
        blocks = [*(names for names in blocks if names not in best), _in_order(asked, [*best[0], *best[1]])]
        if progress is not None:
            progress(len(asked.private) - len(blocks), 2 * len(asked.private))
    return blocks


def _moved(asked: _Asked, quick: _Quick, blocks: list[list[str]], most: int) -> list[list[str]]:
    """Move single questions to other blocks, from the smallest blocks first, as long as Σ √W falls."""
    tied = {name for pair in asked.crosses for name in pair}
    while True:
        total = sum(quick.spread(names) for names in blocks)
        best: tuple[float, list[list[str]]] = (_LEAST_GAIN * total, [])
        for source in sorted(blocks, key=asked.cells):
            for name, target in product(source, blocks):
                larger, smaller = _in_order(asked, [*target, name]), [each for each in source if each != name]
                if target == source or name in tied or asked.cells(larger) > most or not quick.affordable(larger):
                    continue
                after = quick.spread(larger) + (quick.spread(smaller) if smaller else 0.0)
                gain = quick.spread(source) + quick.spread(target) - after
                if gain > best[0]:
                    others = [names for names in blocks if names not in (source, target)]
                    best = gain, [*others, larger, *([smaller] if smaller else [])]
            if best[1]:
                break
        found = best[1] or _dissolved(asked, quick, blocks, most)
        if not found:
            return blocks
        blocks = found


def _dissolved(asked: _Asked, quick: _Quick, blocks: list[list[str]], most: int) -> list[list[str]]:
    """A small block's questions put into the others, each where it adds least, if Σ √W falls by that; else none."""
    tied = {name for pair in asked.crosses for name in pair}
    total = sum(quick.spread(names) for names in blocks)
    for source in sorted(blocks, key=asked.cells):
        others = [names for names in blocks if names != source]
        for name in [] if tied & set(source) else source:
            larger = {k: _in_order(asked, [*names, name]) for k, names in enumerate(others)}
            fits = [k for k in larger if asked.cells(larger[k]) <= most and quick.affordable(larger[k])]
            if not fits:
                break
            added = {k: quick.spread(larger[k]) - quick.spread(others[k]) for k in fits}
            best = min(fits, key=lambda k: added[k])
            others[best] = larger[best]
        whole = {name for names in others for name in names} == set(asked.private)
        if whole and sum(quick.spread(names) for names in others) < (1 - _LEAST_GAIN) * total:
            return others
    return []


def _in_order(asked: _Asked, names: Sequence[str]) -> list[str]:
    return sorted(names, key=asked.private.index)


def _crossed(asked: _Asked) -> list[list[str]]:
    """Questions that cross-tables tie together, directly or not; every other one alone."""
    blocks = [[name] for name in asked.private]
    for first, second in asked.crosses:
        tied = [names for names in blocks if first in names or second in names]
        if len(tied) == 2:
            blocks = [names for names in blocks if names not in tied]
            blocks.append(_in_order(asked, tied[0] + tied[1]))
    return blocks


class _Quick:
    """√W of blocks, as quickly as choosing needs it: for all groups as one and as if answers were independent.

    Margins are rounded to a few levels, so that blocks that are alike share a search.
    """

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked
        self._lifts = LiftSet.lip(float(asked.epsilon))
        self._known: dict[Any, float] = {}
        self._deadline = Deadline.after(_MERGING_SECONDS)
        self._types = {name: self._type(name) for name in asked.private}

    def affordable(self, names: Sequence[str]) -> bool:
        """Whether the cost of this block is known, or there is time to find it."""
        return self._key(names) in self._known or not self._deadline.passed

    def spread(self, names: Sequence[str]) -> float:
        """√W by a quick search."""
        # The solver is loaded where it is needed, and only then.
        from tacit.designs._program.unbiased import solve_unbiased

        key = self._key(names)
        if key not in self._known:
            prior, g = np.ones(1), np.empty((1, 0))
            for shares, rows, _ in key[0]:
                prior = np.outer(prior, shares).ravel()
                g = np.hstack([np.repeat(g, len(shares), axis=0), np.tile(np.array(rows), (len(g), 1))])
            for first, second in key[1]:
                one, two = (np.array(key[0][place][1])[:, :] for place in (first, second))
                cells = _every([len(each[0]) for each in key[0]])
                table = one[cells[first]][:, :, None] * two[cells[second]][:, None, :]
                g = np.hstack([g, table.reshape(len(g), -1)])
            p, lifts = searchable(prior, self._lifts)
            with one_thread(), np.errstate(all="ignore"):
                late = self._deadline.part(1, most=_QUICK_SECONDS)
                found = solve_unbiased(p, g, lifts, gap=2e-2, time_limit=late, proves=False)
            self._known[key] = math.sqrt(found.value)
        return self._known[key]

    def _key(self, names: Sequence[str]) -> Any:
        ordered = sorted(names, key=lambda name: (self._types[name], name))
        pairs = tuple(
            (ordered.index(first), ordered.index(second))
            for first, second in self._asked.crosses
            if first in names and second in names
        )
        return tuple(self._types[name] for name in ordered), pairs

    def _type(self, name: str) -> Any:
        """Rounded shares of the answers, the largest first, and the rows that go with them."""
        shares = np.zeros(self._asked.cells([name]))
        for each in self._asked.priors.block([name]):
            shares += float(each.share) * each.prior.probabilities
        rounded = np.array([min(_LEVELS, key=lambda level: abs(math.log(share / level))) for share in shares])
        rounded = rounded / rounded.sum()
        rows = self._asked.columns(name)[1] * _root(self._asked.importance[name])
        order = sorted(range(len(shares)), key=lambda k: (-rounded[k], tuple(rows[k])))
        if self._asked.question(name).task == "shares":
            rows = rows[:, order]
        return tuple(rounded[order].tolist()), tuple(map(tuple, rows[order].tolist())), len(shares)


def _every(sizes: Sequence[int]) -> tuple[Any, ...]:
    """For each question the position of its answer in every joint cell."""
    return np.unravel_index(np.arange(math.prod(sizes)), sizes)


def _designed(
    asked: _Asked, names: Sequence[str], uncertainty: Uncertainty | None, known: dict[Any, tuple[Group, ...]]
) -> Plan:
    """A block's plan. Blocks whose priors and tasks are equal, in integers, share a search."""
    task = asked.task(names)
    groups = asked.priors.block(names)
    key = task.rows, tuple((each.name, each.prior.weights, each.records) for each in groups)
    if key in known:
        return Plan.of_groups(task, tuple(map(_renamed, known[key], [each.prior for each in groups])))
    search = Search(gap=_BLOCK_GAP, time_limit=_BLOCK_SECONDS)
    made = make_plan(groups, task, asked.epsilon, search=search, uncertainty=uncertainty)
    if uncertainty is None and all(group.mechanism.table() is not None for group in made.groups):
        known[key] = made.groups
    return made


def _renamed(group: Group, prior: Prior) -> Group:
    """The same mechanism for answers with other names."""
    table = group.mechanism.table()
    assert isinstance(table, Channel)
    return replace(group, mechanism=Channel.from_weights(prior, table.weights))


# -- what it costs --------------------------------------------------------------------------------------------------


def _costs(asked: _Asked, made: Plan, alone: _Alone) -> tuple[QuestionCost, ...]:
    shares = [float(group.share) for group in asked.priors.groups]
    count = len(asked.private)
    costs = []
    for number, block in enumerate(made.blocks, start=1):
        for question in block.questions:
            g = block.margin(question.name).g(Prior.uniform(block.values))
            labels = ["mean"] if question.task == "mean" else [str(answer) for answer in question.answers[: g.shape[1]]]
            variances = {
                label: sum(
                    share * unbiased_variance(group.mechanism, Matrix(g[:, [column]].tolist()))
                    for share, group in zip(shares, block.groups, strict=True)
                ) / block.share
                for column, label in enumerate(labels)
            }  # fmt: skip
            name, epsilon = question.name, asked.epsilon
            costs.append(
                QuestionCost(
                    name, number, variances,
                    alone.variance(name, Promise(epsilon)),
                    alone.variance(name, Promise(epsilon / count)),
                    count * alone.variance(name, Promise(epsilon, "ldp")),
                )
            )  # fmt: skip
    order = [question.name for question in made.private]
    return tuple(sorted(costs, key=lambda cost: order.index(cost.name)))


class _Alone:
    """The best channel of one question alone, for comparison; equal ones are searched once."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked
        self._known: dict[Any, Design] = {}

    def variance(self, name: str, promise: Promise, *, proved: bool = False) -> float:
        """The variance of all its answers' shares, or of its mean, over all groups; or what none goes below."""
        question = self._asked.question(name)
        found = 0.0
        for each in self._asked.priors.block([name]):
            task: Any = Histogram()
            if question.task == "mean":
                task = Matrix([[answer] for answer in question.answers])
            elif question.task == "survey":
                task = Matrix(np.eye(len(question.answers), 1).tolist())
            key = each.prior.weights, task, promise.epsilon, promise.notion
            if key not in self._known:
                self._known[key] = uninterrupted_design(
                    each.prior, task, promise, search=Search(time_limit=5.0, gap=1e-2)
                )
            stated = self._known[key].certificate
            found += float(each.share) * (stated.lower_bound if proved else stated.unbiased_variance)
        return found


def _lower_bound(asked: _Asked, alone: _Alone) -> float:
    """The weighted total that no channel for the whole record goes below; proofs are the module's."""
    promise = Promise(asked.epsilon)
    separately = sum(_in_task_units(asked, name) * alone.variance(name, promise, proved=True) for name in asked.private)
    columns = []
    for name in asked.private:
        rows = asked.columns(name)[1] * _root(asked.importance[name])
        columns += [(asked.priors.place(name), rows[:, k]) for k in range(rows.shape[1])]
    together = 0.0
    for group in asked.priors.groups:
        spread = np.linalg.eigvalsh(asked.priors.covariance(group, columns))
        most = math.exp(asked.epsilon) + math.exp(-asked.epsilon) - 2
        together += float(group.share) * float(np.sqrt(np.maximum(spread, 0.0)).sum()) ** 2 / most
    return max(separately, together * (1 - 1e-9))


def _in_task_units(asked: _Asked, name: str) -> float:
    """Importance, and for a mean the square of the unit that the block's task has."""
    question, weight = asked.question(name), _root(asked.importance[name]) ** 2
    if question.task != "mean":
        return weight
    numbers = [float(answer) for answer in question.answers]
    return weight / (max(numbers) - min(numbers)) ** 2
