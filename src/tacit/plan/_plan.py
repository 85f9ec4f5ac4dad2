"""The plan: the one contract between client, collector and analyst. JSON, exact integers, named by its content.

A plan says what is asked, of which groups, with which prior and budget, and which integers each device uses. Nothing
else is needed to randomize, to tally or to estimate. Reading a plan audits it again: one whose integers do not keep
the promise it states is refused. Every field is described in docs/plan.md and in plan.schema.json.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from tacit.disk import kind_of_json
from tacit.exact import Integers, Number, budget, exact_ratio
from tacit.mechanism import Mechanism, mse, round_channel, unbiased_variance
from tacit.mechanism.repeated import Transition, check_transition
from tacit.mechanism.table import Channel
from tacit.plan._any_plan import (
    AnyPlan,
    Question,
    QuestionKind,
    canonical_hash,
    contract_hash,
    refusing,
    series_of,
    value_from_text,
)
from tacit.plan._group import Certificate, Group, PlanError, smallest_level
from tacit.plan._recoding import CROSSED
from tacit.prior import Prior, Value, has_unseen
from tacit.task import Matrix, Quantiles, Task, prior_variance

FORMAT = 1
#: The errors per respondent that a certificate states.
ErrorField = Literal["aimed", "aimed_for_participants", "ldp_aimed", "prior_variance"]
#: The chances of all blocks add up to this: a device draws one with a word of 16 bits.
CHANCES = 2**16
#: Files that are no plans.
_TABLES = (".csv", ".tsv", ".txt", ".parquet", ".xlsx", ".jsonl", ".arrow", ".feather")


@dataclass(frozen=True)
class Follows:
    """What a plan by the belief rule rests on: how answers change, and the plan of the wave before.

    where: `plans` are the hashes of the wave before, in all its wordings. `persistence` is the probability of keeping
    the answer from wave to wave, which is else drawn from the prior of the group; or `transition` has a row for each
    last answer, with the probability of each next one.
    """

    plans: tuple[str, ...]
    persistence: Fraction | None = None
    transition: Transition | None = None

    def __post_init__(self) -> None:
        if not self.plans or not all(re.fullmatch("[0-9a-f]{64}", each) for each in self.plans):
            raise PlanError("A plan that follows another names the plans before by their hashes.")
        if (self.persistence is None) == (self.transition is None):
            raise PlanError("A plan follows with a persistence or with a transition matrix, and not with both.")
        if self.persistence is not None and not 0 <= self.persistence <= 1:
            raise PlanError(f"A persistence must lie between 0 and 1. Got {float(self.persistence):g}.")
        if self.transition is not None:
            check_transition(self.transition, len(self.transition))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        if self.transition is None:
            return {"persistence": str(self.persistence), "plans": list(self.plans)}
        return {"transition": [[str(each) for each in row] for row in self.transition], "plans": list(self.plans)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Follows:
        """The inverse of `to_dict`."""
        return cls(
            plans=tuple(data["plans"]),
            persistence=exact_ratio(data["persistence"]) if "persistence" in data else None,
            transition=tuple(tuple(map(exact_ratio, row)) for row in data["transition"])
            if "transition" in data
            else None,
        )


@dataclass(frozen=True)
class Plan(AnyPlan):
    """A plan of one question: a task and the groups it is asked of, all over the same values.

    Where answers may lie `between` the values, which then are numbers in ascending order, an answer is first rounded at
    random to one of its two neighbours (`Randomizer.rounded`), so that its expectation stays what it is: a question for
    a number needs no categories, and its sum is estimated as if the values were all there is.

    `follows` says that the groups are people with the same earlier reports, and the priors what these leave to believe.
    """

    task: Task
    groups: tuple[Group, ...]
    question: str | None = None
    between: bool = False
    follows: Follows | None = None

    def __post_init__(self) -> None:
        self._check_series()
        if self.follows is not None and self.wave == 1:
            raise PlanError("A first wave follows no other.")
        if self.follows is not None and self.follows.transition and len(self.follows.transition) != len(self.values):
            raise PlanError(
                f"The transition matrix of a plan must have a row for each of its {len(self.values)} answers."
            )
        names = [group.name for group in self.groups]
        if not names or len(set(names)) < len(names) or (None in names and len(names) > 1):
            raise PlanError("A plan needs one unnamed group, or several groups with different names.")
        if any(group.prior.values != self.values for group in self.groups):
            raise PlanError("All groups of a plan must have the same values, in the same order.")
        if any(isinstance(name, str) and has_unseen(name) for name in (*names, *self.values)):
            raise PlanError("Names of values and groups must not hold control characters or marks of direction.")
        if self.between and not self._is_range():
            raise PlanError("Answers between the values need a sum over at least two numbers in ascending order.")
        if self.between and not all(all(group.prior.weights) for group in self.groups):
            raise PlanError("Answers between the values need a positive prior for each: all are rounded to them.")
        # Refuses a sum of names, or a survey of a value that is not there.
        object.__setattr__(self, "task", self._planned_task())
        if not self.task.takes_weights and any(group.weight != 1 or group.offset for group in self.groups):
            raise PlanError("Groups have a weight and an offset in a weighted sum only.")
        if len({group.layers is None for group in self.groups}) > 1:
            raise PlanError("Either all groups of a plan have two layers, or none.")
        if self.between and self.groups[0].layers is not None:
            raise PlanError("Two layers need answers that are values: rounding would store a report of each neighbour.")
        if self.recoding is not None:
            if len(self.recoding.answers) != 1:
                raise PlanError("The recoding of a plan of one question must have one column of answers.")
            column = self.recoding.answers[0].column
            self.recoding.check({column: None if self.between else self.values}, self.group_names)
        for group in self.groups:
            group.check()

    @classmethod
    def of(
        cls,
        channel: Any,
        prior: Prior | Mapping[Value, Number],
        task: Task | str,
        epsilon: Number | None = None,
        *,
        notion: Literal["lip", "ldp"] = "lip",
        question: str | None = None,
    ) -> Plan:
        """A plan of your own channel, with one unnamed group: audited, and ready to randomize, tally and estimate.

        The `channel` is a matrix Q(y|x) with a row for each value and a column for each report, or a `Mechanism`. A
        matrix is rounded so that it keeps `epsilon` for the `notion`, "lip" or "ldp"; a `PrivacyError` says that it
        does not, a `PlanError` that a mechanism does not. Without `epsilon` the plan promises the level that the
        channel really reaches, to four decimals. The certificate has no bound, because nothing was searched.

        >>> coin = [[0.75, 0.25], [0.25, 0.75]]
        >>> plan = Plan.of(coin, {"yes": 0.1, "no": 0.9}, "histogram")
        >>> float(plan.groups[0].epsilon), plan == Plan.from_dict(plan.to_dict())
        (1.0297, True)
        """
        believed, asked = Prior.of(prior), Task.of(task)
        mechanism: Mechanism
        if hasattr(channel, "keeps"):
            mechanism = channel.under(believed)
        else:
            mechanism = Channel.from_matrix(believed, channel)
            if epsilon is not None:
                mechanism = round_channel(believed, channel, epsilon, notion)
        reached = getattr(mechanism.audit(), notion)
        if epsilon is None and reached.ratio is None:
            raise PlanError(
                f"This channel has no finite {notion.upper()} level: the report {reached.report} excludes the value "
                f"{reached.value!r}. A plan would promise nothing."
            )
        level = smallest_level(mechanism, notion, reached.epsilon) if epsilon is None else budget(epsilon)
        certificate = Certificate(
            aim="unbiased",
            mse=mse(mechanism, asked),
            unbiased_variance=unbiased_variance(mechanism, asked),
            prior_variance=prior_variance(believed, asked),
            method="given",
        )
        group = Group(name=None, epsilon=level, mechanism=mechanism, notion=notion, certificate=certificate)
        return cls(asked, (group,), question)

    def _planned_task(self) -> Task:
        """The task as JSON can hold it, which must be the same for all groups."""
        first = self.task.as_planned(self.groups[0].prior)
        # Only a user's own task, which becomes a matrix, could use the probabilities.
        if first is not self.task and any(self.task.as_planned(group.prior) != first for group in self.groups[1:]):
            raise PlanError("The g of a task must depend on the values only, not on their probabilities.")
        return first

    def _is_range(self) -> bool:
        prior = self.groups[0].prior
        if not prior.is_numeric or len(prior) < 2 or math.isinf(float(prior.numbers[-1]) - float(prior.numbers[0])):
            return False
        return bool((prior.numbers[1:] > prior.numbers[:-1]).all()) and self.task.adds_numbers

    @property
    def values(self) -> tuple[Value, ...]:
        """The domain: what a respondent can answer, or, `between`, the numbers that answers are rounded to."""
        return self.groups[0].prior.values

    @property
    def title(self) -> str | None:
        """What the plan is about, in words: its question."""
        return self.question

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        """The one question, named as its column in files of answers."""
        column = "value" if self.recoding is None else self.recoding.answers[0].column
        kind: QuestionKind = "number" if self.between else "one-of"
        text = {} if self.question is None else {"": self.question}
        return (Question(name=column, answers=self.values, kind=kind, text=text),)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The one block."""
        return (Block(self.questions, CHANCES, self),)

    def next(self, plans: Sequence[Plan], notes: Sequence[str] = ()) -> Self:
        """The plan of the next wave, with the groups of the plan that is given. It holds no notes."""
        (later,) = plans
        return replace(self, groups=later.groups, wave=self.wave + 1, series=self.first_wave, earlier=())

    def single(self, what: str) -> Plan:
        return self

    @cached_property
    def row_values(self) -> list[Value | None]:
        """The label of each row of the estimate (`Task.row_values`)."""
        return self.task.row_values(self.values)

    def reading(self, task: Task, question: str | None = None) -> Plan:
        """The same contract, its reports read for another task, or one question of a block. The hash stays: it is about
        what devices do. The weights of a weighted sum are left out where the other task has none.
        """
        groups = self.groups
        if self.takes_weights and not task.takes_weights:
            groups = tuple(replace(group, weight=Fraction(1), offset=Fraction(0)) for group in groups)
        question = question or self.question
        other = replace(self, task=task, groups=groups, between=False, recoding=None, question=question)
        object.__setattr__(other, "hash", self.hash)
        object.__setattr__(other, "hashes", self.hashes)
        return other

    def reworded(self, title: str | None = None, texts: Mapping[str, Mapping[str, str]] | None = None) -> Plan:
        """The same plan with a corrected question. It carries the earlier wording, so its reports are pooled with the
        earlier ones (`hashes`), and a device that has answered does not draw again.

        >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram", question="Are you il?")
        >>> better = plan.reworded("Are you ill?")
        >>> better.earlier, better.hashes == (plan.hash, better.hash)
        (('Are you il?',), True)
        """
        if texts:
            raise PlanError("A plan of one question has no other words than its question.")
        if title == self.question:
            raise PlanError("This is the wording that the plan has already.")
        return replace(self, question=title, earlier=(*self.earlier, self.question))

    @property
    def takes_weights(self) -> bool:
        return self.task.takes_weights

    def group(self, name: str | None) -> Group:
        """The group of that name."""
        for group in self.groups:
            if group.name == name:
                return group
        raise KeyError(f"This plan has no group {name!r}.")

    def expected_rmse(self, shares: Sequence[Fraction], respondents: int, field: ErrorField = "aimed") -> float:
        """√ of the expected squared error of the estimated total over that many respondents, as the planner stated it.

        `shares` are the groups' parts of all respondents. The field "prior_variance" gives the error without any
        report: what guessing from the prior costs.
        """
        if respondents < 1:
            raise ValueError(f"There must be at least one respondent. Got {respondents}.")
        if field == "aimed_for_participants" and self.between:
            # What rounding adds is not known apart from the spread of the answers.
            field = "aimed"
        total = 0.0
        for group, share in zip(self.groups, shares, strict=True):
            if group.certificate is None:
                raise ValueError(f"Group {group.name!r} has no certificate, so nothing is known about its error.")
            total += float(share) * respondents * float(group.weight) ** 2 * float(getattr(group.certificate, field))
        return math.sqrt(total)

    @cached_property
    def hashes(self) -> tuple[str, ...]:
        """The hashes of this plan in all its wordings, oldest first, its own last; tallies of all of them are pooled.

        Each is computed again by putting the earlier words back. A plan that differs in anything else has another
        hash, so this proves that only words changed. The first one names the wave: it stays when words are corrected.
        """
        now = {name: field for name, field in self._fields().items() if name != "earlier"}
        before = [
            contract_hash(now | {"question": words} | ({"earlier": list(self.earlier[:place])} if place else {}))
            for place, words in enumerate(self.earlier)
        ]
        return (*before, self.hash)

    @cached_property
    def stored(self) -> str | None:
        told = [each.to_dict() for each in self.groups]
        if any("layers" not in each for each in told):
            return None
        parts = [[each["group"], each["prior"], each["layers"]["stored"]] for each in told]
        return canonical_hash(parts)

    def __eq__(self, other: object) -> bool:
        """Whether both are the same contract, read for the same task. Certificates are derived: they do not count."""
        return isinstance(other, Plan) and (self.hash, self.task) == (other.hash, other.task)

    def __hash__(self) -> int:
        return int(self.hash[:15], 16)

    def _fields(self) -> dict[str, Any]:
        numeric = self.groups[0].prior.is_numeric
        return {
            "tacit_plan": FORMAT,
            "question": self.question,
            "task": self.task.to_dict(self.groups[0].prior),
            "domain": {
                "numeric": numeric,
                "values": [str(value) for value in self.values],
                **({"between": True} if self.between else {}),
            },
            **self._series_fields(self.earlier),
            **({} if self.follows is None else {"follows": self.follows.to_dict()}),
            "groups": [group.to_dict() for group in self.groups],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """Read, check the hash and audit a plan."""
        if data.get("tacit_plan") != FORMAT:
            kind = kind_of_json(data) if "tacit_plan" not in data else None
            if kind is not None:
                raise PlanError(f"This is {kind}. A plan is what `tacit plan` writes; commands take it first.")
            raise PlanError(f"Not a plan of format {FORMAT}. Got {data.get('tacit_plan')!r} instead.")
        if "blocks" in data:
            raise PlanError("This is a plan of several questions: read it with tacit.plan.load_plan.")
        with refusing():
            if contract_hash(data) != data["hash"]:
                raise PlanError("This plan was altered: its content does not match its hash.")
            domain = data["domain"]
            values = [value_from_text(text) if domain["numeric"] else text for text in domain["values"]]
            groups = tuple(Group.from_dict(group, values) for group in data["groups"])
            between = domain.get("between", False)
            if not isinstance(between, bool):
                raise PlanError("The field 'between' of a domain must be true or false.")
            task = Task.from_dict(data["task"], values)
            follows = Follows.from_dict(data["follows"]) if "follows" in data else None
            plan = cls(task, groups, data.get("question"), between, follows, **series_of(data))
            for group, stored in zip(plan.groups, data["groups"], strict=True):
                group.check_derived(plan.task, stored.get("levels", {}))
            words = (plan.question, *plan.earlier)
            if not all(isinstance(each, str | None) for each in words) or plan.hash != data["hash"]:
                raise PlanError("The question must be a text or null, and everything else written as Tacit writes it.")
        return plan

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read and audit a plan file."""
        return cls.from_dict(read_json(path))


@dataclass(frozen=True)
class Block:
    """Questions that are reported on together: a plan over their joint cells, and the chance to be drawn, of 65536."""

    questions: tuple[Question, ...]
    chance: int
    plan: Plan

    def __post_init__(self) -> None:
        names = ", ".join(question.name for question in self.questions)
        if self.plan.values != joint_values(self.questions):
            raise PlanError(f"The values of the block of {names} must be the combinations of its answers, in order.")
        if type(self.chance) is not int or not 0 < self.chance <= CHANCES:
            raise PlanError(f"The chance of the block of {names} must be a whole number from 1 to {CHANCES}.")

    @property
    def _is_whole(self) -> bool:
        """Whether this is the block of a plan of one question."""
        return self.questions is self.plan.questions

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of answers of each question."""
        return tuple(len(question.answers) for question in self.questions)

    @property
    def share(self) -> float:
        """The probability that a device draws this block."""
        return self.chance / CHANCES

    def place(self, name: str) -> int:
        """The place of a question in the block."""
        return [question.name for question in self.questions].index(name)

    def cells(self, positions: Sequence[Integers]) -> Integers:
        """The joint cells of positions, an array for each question of the block."""
        found: Integers = np.ravel_multi_index([np.asarray(each, dtype=np.int64) for each in positions], self.sizes)
        return found

    def answers_of(self, *names: str) -> list[Integers]:
        """For each named question the position of its answer in every joint cell."""
        every = np.unravel_index(np.arange(math.prod(self.sizes)), self.sizes)
        return [every[self.place(name)].astype(np.int64) for name in names]

    def margin(self, name: str, *, first: bool = False) -> Plan:
        """The block's plan, read for one question: its shares, the count of the surveyed answer, or its sum. With
        `first` a question of two answers is read for the first one only. A plan of one question has a task of its own.
        """
        if self._is_whole:
            return self.plan
        question, (held,) = self.questions[self.place(name)], self.answers_of(name)
        if question.task == "quantiles":
            return self.cumulative(name)
        if question.task == "mean":
            numbers = np.array(question.answers, dtype=np.float64)[held][:, None]
            return self.plan.reading(Matrix(numbers.tolist()), question.words)
        shown = 1 if question.task == "survey" or (first and len(question.answers) == 2) else len(question.answers)
        indicators = (held[:, None] == np.arange(shown)).astype(int)
        return self.plan.reading(Matrix(indicators.tolist(), tuple(map(str, question.answers[:shown]))), question.words)

    def cumulative(self, name: str) -> Plan:
        """The block's plan, read for how many answers to a question are at most each number but the largest."""
        if self._is_whole:
            return self.plan.reading(Quantiles())
        question, (held,) = self.questions[self.place(name)], self.answers_of(name)
        answers = np.array(question.answers, dtype=np.float64)
        numbers = sorted(question.answers, key=float)[:-1]
        at_most = answers[held][:, None] <= np.array(numbers, dtype=np.float64)
        return self.plan.reading(Matrix(at_most.astype(int).tolist(), [f"at most {number}" for number in numbers]))

    def with_margin(self, name: str, answers: Prior) -> Prior:
        """A distribution over the joint cells in which one question has the distribution `answers`; all mass of an
        answer is in one cell. It is right for what concerns this question, and for nothing else.
        """
        if self._is_whole:
            return answers
        question, (held,) = self.questions[self.place(name)], self.answers_of(name)
        weights = dict(zip(answers.values, answers.weights, strict=True))
        if not set(weights) <= set(question.answers):
            raise PlanError(f"The numbers must be about answers to {name!r}, and no others.")
        first = {place: cell for cell, place in reversed(list(enumerate(held.tolist())))}
        mass = [0] * len(held)
        for place, answer in enumerate(question.answers):
            mass[first[place]] = weights.get(answer, 0)
        return Prior(self.plan.values, mass)

    def cross(self, first: str, second: str) -> Plan:
        """The block's plan, read for the cells of the table of two questions, the second one changing fastest."""
        one, two = self.answers_of(first, second)
        width = len(self.questions[self.place(second)].answers)
        wanted = len(self.questions[self.place(first)].answers) * width
        indicators = ((one * width + two)[:, None] == np.arange(wanted)).astype(int)
        names = joint_values((self.questions[self.place(first)], self.questions[self.place(second)]))
        return self.plan.reading(Matrix(indicators.tolist(), tuple(map(str, names))))


def joint_values(questions: Sequence[Question]) -> tuple[Value, ...]:
    """The names of the joint cells of some `questions`: the answers of one question as they are, else "yes / no".

    >>> joint_values([Question(name="a", answers=("x", "y")), Question(name="b", answers=(0, 1))])
    ('x / 0', 'x / 1', 'y / 0', 'y / 1')
    """
    if len(questions) == 1:
        return tuple(questions[0].answers)
    sizes = [len(question.answers) for question in questions]
    return tuple(
        CROSSED.join(str(question.answers[place]) for question, place in zip(questions, places, strict=True))
        for places in np.ndindex(*sizes)
    )


def read_json(path: str | Path) -> dict[str, Any]:
    """The JSON object in the plan file at `path`; a `PlanError` where there is none.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "plan.json")
    ...     _ = path.write_text('{"tacit_plan": 1}')
    ...     read_json(path)
    {'tacit_plan': 1}
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_no_json)
    except (PlanError, json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        if str(path).lower().endswith(_TABLES):
            said = "is a table. A plan is a file of JSON that `tacit plan` writes; commands take it first"
            raise PlanError(f"{path} {said}.") from error
        raise PlanError(f"{path} is not JSON: {error}.") from error
    if not isinstance(data, dict):
        raise PlanError(f"{path} is not a plan.")
    return data


def _no_json(constant: str) -> None:
    # NaN and Infinity: Python reads them, other languages do not.
    raise PlanError(f"{constant} is no number of JSON")
