"""What a plan asks: questions, their wording, and blocks of questions that are reported on together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np

from tacit.exact import Integers
from tacit.plan._group import Group, PlanError
from tacit.plan._recoding import CROSSED
from tacit.prior import Prior, Value, has_unseen
from tacit.task import Matrix, Quantiles, Task

#: The answer of a person who was not asked, because an earlier answer made the question pointless.
NOT_ASKED = "not asked"
#: The column of report files that says which block a report is about.
BLOCK = "block"
#: Columns of report files, so no names of questions.
RESERVED = frozenset(["group", BLOCK, "report", "tacit_plan"])
#: The chances of all blocks add up to this: a device draws one with a word of 16 bits.
CHANCES = 2**16

QuestionKind = Literal["one-of", "yes-no", "number"]
#: What is estimated: the share of every answer, of the surveyed answer, the mean of a number, or its distribution.
QuestionTask = Literal["shares", "survey", "mean", "quantiles"]


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question of a plan.

    Args:
        name: the name of its column in files.
        answers: in their order. For a number the values that answers are rounded to, in ascending order.
        kind: `yes-no` has two answers; a `number` lies between the first and the last of its `answers`.
        task: what is estimated; a `survey` counts the first answer. None where the question is alone in its block:
            the task of the block says it.
        text: the wording in each language, by its code ("en"), or "" for that of the answers; empty where only the
            name is shown.
        labels: for each language the wording of the answers, in their order; an answer itself where there is none.
        part_of: the name of the question "select all that apply" that this yes/no question is one choice of.
        public: the answer is not private: it travels as it is, beside the report.
        asked_if: the name of an earlier question and the answers to it with which this one is asked. Everybody else
            has the answer "not asked", so that a report does not tell who was asked.
    """

    name: str
    answers: tuple[Value, ...]
    kind: QuestionKind = "one-of"
    task: QuestionTask | None = "shares"
    text: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    part_of: str | None = None
    public: bool = False
    asked_if: tuple[str, tuple[str, ...]] | None = None

    def __post_init__(self) -> None:
        whose = f"The question {self.name!r}"
        if not self.name.strip():
            raise PlanError(f"{whose} must have a name.")
        if self.name in RESERVED:
            raise PlanError(f"A question cannot be called {self.name!r}: report files have such a column.")
        labels = (label for several in self.labels.values() for label in several)
        if any(map(has_unseen, (self.name, *self.text.values(), *labels))):
            raise PlanError(f"{whose} must have no control characters in its name and texts.")
        if self.kind not in get_args(QuestionKind) or self.task not in (None, *get_args(QuestionTask)):
            raise PlanError(f"{whose} has an unknown kind or task: {self.kind!r}, {self.task!r}.")
        if type(self.public) is not bool or not isinstance(self.part_of, str | None):
            raise PlanError(f"{whose} is public or not, and part of another question by its name.")
        if len(set(self.answers)) < max(len(self.answers), 2):
            raise PlanError(f"{whose} needs at least two different answers.")
        if self.kind == "yes-no" and len(self.answers) != 2:
            raise PlanError(f"{whose} is a yes/no question with {len(self.answers)} answers instead of two.")
        if any(len(each) != len(self.answers) for each in self.labels.values()):
            raise PlanError(f"{whose} needs a label for each of its {len(self.answers)} answers in every language.")
        numeric = all(isinstance(answer, int | float) and math.isfinite(answer) for answer in self.answers)
        if any(len(set(each)) < len(each) for each in self.labels.values()):
            raise PlanError(f"{whose} has two answers with the same label, which nobody could tell apart.")
        if self.kind == "number" and not (numeric and all(a < b for a, b in pairwise(self.answers))):  # type: ignore[operator]
            raise PlanError(f"{whose} asks for a number: its values must be finite numbers in ascending order.")
        if self.task in ("mean", "quantiles") and not numeric:
            raise PlanError(f"{whose} has answers that are not numbers, so it has no {self.task}.")
        if self.task == "quantiles" and self.kind == "number":
            raise PlanError(f"{whose} rounds numbers at random, which keeps means only: list the numbers instead.")
        if self.asked_if is not None and NOT_ASKED not in self.answers:
            raise PlanError(
                f"{whose} is not asked of everybody, so {NOT_ASKED!r} must be one of its answers: else the report "
                "would tell who was asked."
            )

    @property
    def words(self) -> str:
        """The wording in the language of the answers, which have no labels there; else in English or the first
        language; the name where there is none.
        """
        codes = sorted(self.text, key=lambda code: (code in self.labels, code != "en"))
        return self.text[codes[0]] if codes else self.name

    def to_dict(self) -> dict[str, Any]:
        """For JSON; what has its default is left out."""
        optional: dict[str, Any] = {
            "text": dict(self.text), "labels": {code: list(each) for code, each in self.labels.items()},
            "part_of": self.part_of, "public": self.public,
            "asked_if": None if self.asked_if is None else [self.asked_if[0], list(self.asked_if[1])],
        }  # fmt: skip
        return {
            "name": self.name,
            "kind": self.kind,
            "task": self.task,
            "numeric": not isinstance(self.answers[0], str),
            "answers": [str(answer) for answer in self.answers],
            **{name: part for name, part in optional.items() if part},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Question:
        """The inverse of `to_dict`."""
        condition = data.get("asked_if")
        return cls(
            name=data["name"],
            answers=tuple(value_from_text(text) if data["numeric"] else text for text in data["answers"]),
            kind=data["kind"],
            task=data["task"],
            text=dict(data.get("text", {})),
            labels={code: tuple(each) for code, each in data.get("labels", {}).items()},
            part_of=data.get("part_of"),
            public=data.get("public", False),
            asked_if=None if condition is None else (condition[0], tuple(condition[1])),
        )


def value_from_text(text: str) -> Value:
    """The number that a plan writes as this `text`.

    >>> value_from_text("3"), value_from_text("0.5")
    (3, 0.5)
    """
    if len(text) > 1000:
        raise PlanError("A number of a plan has at most 1000 digits.")
    try:
        return int(text)
    except ValueError:
        return float(text) + 0.0  # Zero has one sign.


def check_routes(questions: Sequence[Question]) -> None:
    """Raise `PlanError` unless those of the `questions` that are not asked of everybody depend on an earlier one.

    >>> check_routes([Question(name="daily", answers=("few", "not asked"), asked_if=("smokes", ("yes",)))])
    Traceback (most recent call last):
    tacit.plan._group.PlanError: Whether 'daily' is asked must depend on an earlier question. Got 'smokes'.
    """
    known: dict[str, set[str]] = {}
    for question in questions:
        if question.asked_if is not None:
            earlier, answers = question.asked_if
            if earlier not in known:
                raise PlanError(
                    f"Whether {question.name!r} is asked must depend on an earlier question. Got {earlier!r}."
                )
            if not answers or not set(answers) <= known[earlier]:
                raise PlanError(f"{question.name!r} is asked after answers to {earlier!r} that nobody can give.")
        known[question.name] = set(map(str, question.answers))


@dataclass(frozen=True)
class Wording:
    """The words of a plan: its title, and for each question its text and the labels of its answers by language."""

    title: str | None
    texts: Mapping[str, Mapping[str, str]]
    labels: Mapping[str, Mapping[str, tuple[str, ...]]]

    @classmethod
    def of(cls, title: str | None, questions: Iterable[Question]) -> Wording:
        """The words of these questions; those without any are left out."""
        asked = list(questions)
        return cls(
            title, {each.name: each.text for each in asked if each.text},
            {each.name: each.labels for each in asked if each.labels},
        )  # fmt: skip

    def put_into(self, questions: Sequence[Question]) -> tuple[Question, ...]:
        """The questions in these words."""
        if not {*self.texts, *self.labels} <= {question.name for question in questions}:
            raise PlanError("An earlier wording is about a question that the plan does not have.")
        return tuple(
            replace(each, text=self.texts.get(each.name, {}), labels=self.labels.get(each.name, {}))
            for each in questions
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "title": self.title,
            "texts": {name: dict(text) for name, text in self.texts.items()},
            "labels": {
                name: {code: list(each) for code, each in labels.items()} for name, labels in self.labels.items()
            },
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Wording:
        """The inverse of `to_dict`."""
        labels = {name: {code: tuple(each) for code, each in words.items()} for name, words in data["labels"].items()}
        return cls(data["title"], {name: dict(text) for name, text in data["texts"].items()}, labels)


@dataclass(frozen=True)
class Block:
    """Questions that are reported on together: what the mechanisms are designed for, the groups over the joint cells of
    the answers, and the chance to be drawn, of 65536.

    The cells are in the order of the questions: the answer to the last question changes fastest.
    """

    questions: tuple[Question, ...]
    task: Task
    groups: tuple[Group, ...]
    chance: int = CHANCES

    def __post_init__(self) -> None:
        names = ", ".join(question.name for question in self.questions)
        called = [group.name for group in self.groups]
        if not called or len(set(called)) < len(called) or (None in called and len(called) > 1):
            raise PlanError("A plan needs one unnamed group, or several groups with different names.")
        if any(group.prior.values != self.values for group in self.groups):
            raise PlanError("All groups of a plan must have the same values, in the same order.")
        if any(isinstance(name, str) and has_unseen(name) for name in (*called, *self.values)):
            raise PlanError("Names of values and groups must not hold control characters or marks of direction.")
        if self.values != joint_values(self.questions):
            raise PlanError(f"The values of the block of {names} must be the combinations of its answers, in order.")
        if type(self.chance) is not int or not 0 < self.chance <= CHANCES:
            raise PlanError(f"The chance of the block of {names} must be a whole number from 1 to {CHANCES}.")
        if self.is_own and len(self.questions) > 1:
            raise PlanError(f"The questions {names} are in one block, so each must say what is estimated of it.")
        if self.is_own and self.questions[0].kind == "number":
            self._check_between()
        # Refuses a sum of names, or a survey of a value that is not there.
        object.__setattr__(self, "task", self._planned_task())
        if not self.task.takes_weights and any(group.weight != 1 or group.offset for group in self.groups):
            raise PlanError("Groups have a weight and an offset in a weighted sum only.")
        if len({group.layers is None for group in self.groups}) > 1:
            raise PlanError("Either all groups of a plan have two layers, or none.")
        if self.groups[0].layers is not None and any(question.kind == "number" for question in self.questions):
            raise PlanError("Two layers need answers that are values: rounding would store a report of each neighbour.")
        for group in self.groups:
            group.check()

    def _check_between(self) -> None:
        low, high = (float(self.groups[0].prior.numbers[end]) for end in (0, -1))
        if math.isinf(high - low) or not self.task.adds_numbers:
            raise PlanError("Answers between the values need a sum over at least two numbers in ascending order.")
        if not all(all(group.prior.weights) for group in self.groups):
            raise PlanError("Answers between the values need a positive prior for each: all are rounded to them.")

    def _planned_task(self) -> Task:
        """The task as JSON can hold it, which must be the same for all groups."""
        first = self.task.as_planned(self.groups[0].prior)
        # Only a user's own task, which becomes a matrix, could use the probabilities.
        if first is not self.task and any(self.task.as_planned(group.prior) != first for group in self.groups[1:]):
            raise PlanError("The g of a task must depend on the values only, not on their probabilities.")
        return first

    @property
    def is_own(self) -> bool:
        """Whether the block's task is what is estimated, not only what the mechanisms are best for."""
        return any(question.task is None for question in self.questions)

    @property
    def values(self) -> tuple[Value, ...]:
        """The joint cells (`joint_values`)."""
        return self.groups[0].prior.values

    @property
    def share(self) -> float:
        """The probability that a device draws this block."""
        return self.chance / CHANCES

    def place(self, name: str) -> int:
        """The place of a question in the block."""
        return [question.name for question in self.questions].index(name)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of answers of each question."""
        return tuple(len(question.answers) for question in self.questions)

    def cells(self, positions: Sequence[Integers]) -> Integers:
        """The joint cells of positions, an array for each question of the block."""
        return np.ravel_multi_index([np.asarray(each, dtype=np.int64) for each in positions], self.sizes)

    def answers_of(self, *names: str) -> list[Integers]:
        """For each named question the position of its answer in every joint cell."""
        every = np.unravel_index(np.arange(math.prod(self.sizes)), self.sizes)
        return [every[self.place(name)].astype(np.int64) for name in names]

    def margin(self, name: str, *, first: bool = False) -> Task:
        """What is estimated of one question: its shares, the count of the surveyed answer, or its sum. With `first` a
        question of two answers is read for the first one only.
        """
        if self.is_own:
            return self.task
        question, (held,) = self.questions[self.place(name)], self.answers_of(name)
        if question.task == "quantiles":
            return self.cumulative(name)
        if question.task == "mean":
            numbers = np.array(question.answers, dtype=np.float64)[held][:, None]
            return Matrix(numbers.tolist())
        shown = 1 if question.task == "survey" or (first and len(question.answers) == 2) else len(question.answers)
        indicators = (held[:, None] == np.arange(shown)).astype(int)
        return Matrix(indicators.tolist(), tuple(map(str, question.answers[:shown])))

    def cumulative(self, name: str) -> Task:
        """How many answers to a question are at most each number but the largest."""
        if self.is_own:
            return Quantiles()
        question, (held,) = self.questions[self.place(name)], self.answers_of(name)
        answers = np.array(question.answers, dtype=np.float64)
        numbers = sorted(question.answers, key=float)[:-1]
        at_most = answers[held][:, None] <= np.array(numbers, dtype=np.float64)
        return Matrix(at_most.astype(int).tolist(), [f"at most {number}" for number in numbers])

    def cross(self, first: str, second: str) -> Task:
        """The cells of the table of two questions, the second one changing fastest."""
        one, two = self.answers_of(first, second)
        asked = self.questions[self.place(first)], self.questions[self.place(second)]
        width = len(asked[1].answers)
        indicators = ((one * width + two)[:, None] == np.arange(len(asked[0].answers) * width)).astype(int)
        return Matrix(indicators.tolist(), tuple(map(str, joint_values(asked))))

    def with_margin(self, name: str, answers: Prior) -> Prior:
        """A distribution over the joint cells in which one question has the distribution `answers`; all mass of an
        answer is in one cell. It is right for what concerns this question, and for nothing else.
        """
        if self.is_own:
            return answers
        question, (held,) = self.questions[self.place(name)], self.answers_of(name)
        weights = dict(zip(answers.values, answers.weights, strict=True))
        if not set(weights) <= set(question.answers):
            raise PlanError(f"The numbers must be about answers to {name!r}, and no others.")
        first = {place: cell for cell, place in reversed(list(enumerate(held.tolist())))}
        mass = [0] * len(held)
        for place, answer in enumerate(question.answers):
            mass[first[place]] = weights.get(answer, 0)
        return Prior(self.values, mass)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "questions": [question.name for question in self.questions],
            "chance": self.chance,
            "task": self.task.to_dict(self.groups[0].prior),
            "groups": [group.to_dict() for group in self.groups],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], known: Mapping[str, Question]) -> Block:
        """The inverse of `to_dict`, of `known` questions by name; what is derived is checked."""
        questions = tuple(known[name] for name in data["questions"])
        if math.prod(len(question.answers) for question in questions) > len(data["groups"][0]["prior"]):
            raise PlanError("A prior of a block must have a weight for each combination of its answers.")
        values = joint_values(questions)
        groups = tuple(Group.from_dict(group, values) for group in data["groups"])
        block = cls(questions, Task.from_dict(data["task"], values), groups, data["chance"])
        for group, stored in zip(block.groups, data["groups"], strict=True):
            group.check_derived(block.task, stored.get("levels", {}))
        return block


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
