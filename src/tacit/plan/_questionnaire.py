"""A plan for several questions: one report about the whole record of a person's answers.

The questions are put into blocks. Each block is a `Plan` over the joint cells of its questions. The device draws one
block at random, by public chances, and reports on that block only. Which block is drawn does not depend on the answers.
So a report about a block keeps, for every answer, every combination of answers and every set of combinations of the
whole record, the promise of the block: for an event A of the record,

    Pr(A | y) / Pr(A) = Σ_x Pr(x | A) Q(y|x) / λ(y)   is a mean of the lifts of the block's cells x,

and a mean lies between the smallest and the largest of them.

The cells of a block are in the order of its questions: the answer to the last question changes fastest.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from tacit.disk import write_text
from tacit.exact import Integers
from tacit.plan._crossed import crossed_name
from tacit.plan._group import Group, PlanError
from tacit.plan._plan import (
    FORMAT,
    Plan,
    check_series,
    malformed,
    read_json,
    read_limit,
    read_recoding,
    recoding_field,
    series_fields,
    value_from_text,
)
from tacit.plan._recoding import CROSSED, Recoding
from tacit.prior import Prior, Value, has_unseen
from tacit.task import Matrix

#: The chances of all blocks add up to this: a device draws one with a word of 16 bits.
CHANCES = 2**16
#: The answer of a person who was not asked, because an earlier answer made the question pointless.
NOT_ASKED = "not asked"

#: Columns of report files, so no names of questions.
RESERVED = frozenset(["group", "block", "report", "tacit_plan"])

QuestionKind = Literal["one-of", "yes-no", "number"]
#: What is estimated: the share of every answer, of the surveyed answer, the mean of a number, or its distribution.
QuestionTask = Literal["shares", "survey", "mean", "quantiles"]


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question of a questionnaire.

    Args:
        name: the name of its column in files.
        answers: in their order. For a number the values that answers are rounded to, in ascending order.
        kind: `yes-no` has two answers; a `number` lies between the first and the last of its `answers`.
        task: what is estimated; a `survey` counts the first answer.
        text: the wording in each language, by its code ("en"); empty where only the name is shown.
        labels: for each language the wording of the answers, in their order; an answer itself where there is none.
        part_of: the name of the question "select all that apply" that this yes/no question is one choice of.
        public: the answer is not private: it travels as it is, beside the report.
        asked_if: the name of an earlier question and the answers to it with which this one is asked. Everybody else
            has the answer "not asked", so that a report does not tell who was asked.
    """

    name: str
    answers: tuple[Value, ...]
    kind: QuestionKind = "one-of"
    task: QuestionTask = "shares"
    text: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    part_of: str | None = None
    public: bool = False
    asked_if: tuple[str, tuple[str, ...]] | None = None

    def __post_init__(self) -> None:
        whose = f"The question {self.name!r}"
        texts = [self.name, *self.text.values(), *(label for each in self.labels.values() for label in each)]
        if not self.name.strip() or any(has_unseen(text) for text in texts):
            raise PlanError(f"{whose} must have a name, and no control characters in its texts.")
        if self.kind not in get_args(QuestionKind) or self.task not in get_args(QuestionTask):
            raise PlanError(f"{whose} has an unknown kind or task: {self.kind!r}, {self.task!r}.")
        if len(set(self.answers)) < max(len(self.answers), 2):
            raise PlanError(f"{whose} needs at least two different answers.")
        if self.kind == "yes-no" and len(self.answers) != 2:
            raise PlanError(f"{whose} is a yes/no question with {len(self.answers)} answers instead of two.")
        if any(len(each) != len(self.answers) for each in self.labels.values()):
            raise PlanError(f"{whose} needs a label for each of its {len(self.answers)} answers in every language.")
        numeric = all(isinstance(answer, int | float) and math.isfinite(answer) for answer in self.answers)
        ascending = numeric and all(a < b for a, b in zip(self.answers, self.answers[1:], strict=False))  # type: ignore[operator]
        if any(len(set(each)) < len(each) for each in self.labels.values()):
            raise PlanError(f"{whose} has two answers with the same label, which nobody could tell apart.")
        if self.kind == "number" and not ascending:
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


def check_routes(questions: Sequence[Question]) -> None:
    """Raise `PlanError` unless every question that is not asked of everybody depends on an earlier one."""
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
        `first` a question of two answers is read for the first one only.
        """
        question, (held,) = self.questions[self.place(name)], self.answers_of(name)
        if question.task == "quantiles":
            return self.cumulative(name)
        if question.task == "mean":
            return self.plan.reading(Matrix(np.array(question.answers, dtype=np.float64)[held][:, None].tolist()))
        shown = 1 if question.task == "survey" or (first and len(question.answers) == 2) else len(question.answers)
        indicators = (held[:, None] == np.arange(shown)).astype(int)
        return self.plan.reading(Matrix(indicators.tolist(), tuple(map(str, question.answers[:shown]))))

    def cumulative(self, name: str) -> Plan:
        """The block's plan, read for how many answers to a question are at most each number but the largest."""
        question, (held,) = self.questions[self.place(name)], self.answers_of(name)
        answers = np.array(question.answers, dtype=np.float64)
        numbers = sorted(question.answers, key=float)[:-1]
        at_most = answers[held][:, None] <= np.array(numbers, dtype=np.float64)
        return self.plan.reading(Matrix(at_most.astype(int).tolist(), [f"at most {number}" for number in numbers]))

    def with_margin(self, name: str, answers: Prior) -> Prior:
        """A distribution over the joint cells in which one question has the distribution `answers`; all mass of an
        answer is in one cell. It is right for what concerns this question, and for nothing else.
        """
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
    """The names of the joint cells: the answers of one question as they are, else "yes / no".

    Args:
        questions: the questions of a block.

    Returns:
        A value for each combination of answers.

    >>> joint_values([Question(name="a", answers=("x", "y")), Question(name="b", answers=(0, 1))])
    ('x / 0', 'x / 1', 'y / 0', 'y / 1')
    """
    if len(questions) == 1:
        return tuple(questions[0].answers)
    sizes = [len(question.answers) for question in questions]
    return tuple(
        crossed_name(str(question.answers[place]) for question, place in zip(questions, places, strict=True))
        for places in np.ndindex(*sizes)
    )


def block_name(group: str | None, number: int) -> str:
    """The name of a block, counted from 1, in a group: under it the reports of both together are counted.

    Args:
        group: the name of the group; None if the plan has no named groups.
        number: of the block, from 1.

    Returns:
        The name of the block.

    >>> block_name(None, 1), block_name("north", 2)
    ('block 1', 'north / block 2')
    """
    block = f"block {number}"
    return block if group is None else crossed_name([group, block])


@dataclass(frozen=True)
class Wording:
    """The words of a plan: its title, and for each question its text and the labels of its answers by language."""

    title: str | None
    texts: Mapping[str, Mapping[str, str]]
    labels: Mapping[str, Mapping[str, tuple[str, ...]]]

    def to_dict(self) -> dict[str, Any]:
        """For JSON; questions without words are left out."""
        return {
            "title": self.title,
            "texts": {name: dict(text) for name, text in self.texts.items() if text},
            "labels": {
                name: {code: list(each) for code, each in labels.items()}
                for name, labels in self.labels.items()
                if labels
            },
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Wording:
        """The inverse of `to_dict`."""
        labels = {name: {code: tuple(each) for code, each in words.items()} for name, words in data["labels"].items()}
        return cls(data["title"], {name: dict(text) for name, text in data["texts"].items()}, labels)


@dataclass(frozen=True)
class Questionnaire:
    """Questions, the blocks that the private ones are reported in, and the promise for the whole record.

    `wave`, `series`, `earlier`, `limit` and `recoding` are as of `Plan`; the plans of the blocks have none of them. The
    columns of the recoding's answers are named as questions.
    """

    questions: tuple[Question, ...]
    blocks: tuple[Block, ...]
    title: str | None = None
    notes: tuple[str, ...] = ()
    wave: int = 1
    series: str | None = None
    earlier: tuple[Wording, ...] = ()
    limit: Fraction | None = None
    recoding: Recoding | None = None

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) for text in ("" if self.title is None else self.title, *self.notes)):
            raise PlanError("The title and the notes of a plan must be texts.")
        if has_unseen(self.title or ""):
            raise PlanError("The title of a plan must not hold control characters or marks of direction.")
        names = [question.name for question in self.questions]
        if reserved := RESERVED & set(names):
            raise PlanError(f"A question cannot be called {min(reserved)!r}: report files have such a column.")
        private = [question for question in self.questions if not question.public]
        if len(set(names)) < len(names):
            raise PlanError("The questions of a plan must have different names.")
        placed = [question for block in self.blocks for question in block.questions]
        if sorted(each.name for each in placed) != sorted(each.name for each in private) or not private:
            raise PlanError("Every private question of a plan must be in one block, and in one only.")
        if any(question not in private for question in placed):
            raise PlanError("A block asks a question in another form than the plan.")
        if sum(block.chance for block in self.blocks) != CHANCES:
            raise PlanError(f"The chances of the blocks must add up to {CHANCES}.")
        if len({block.plan.hash for block in self.blocks}) < len(self.blocks):
            raise PlanError("The plans of two blocks are the same: their tasks must name their questions.")
        promises = [[(g.name, g.epsilon, g.notion, g.ldp_cap) for g in block.plan.groups] for block in self.blocks]
        if any(promise != promises[0] for promise in promises):
            raise PlanError("All blocks of a plan must have the same groups with the same promises.")
        check_routes(self.questions)
        check_series(self)
        if any(b.plan.stored for b in self.blocks):
            raise PlanError("The plan of a block must not be in two layers: they are for plans of one question.")
        if any(b.plan.wave > 1 or b.plan.earlier or b.plan.limit or b.plan.recoding for b in self.blocks):
            raise PlanError(
                "The plan of a block must not have a wave, earlier words, a limit or a recoding: the whole plan has."
            )
        if self.recoding is not None:
            asked = {each.name: None if each.kind == "number" else each.answers for each in self.questions}
            self.recoding.check(asked, self.group_names)
        for wording in self.earlier:
            # Refuses words that no plan can have had.
            self._worded(wording)

    @property
    def private(self) -> tuple[Question, ...]:
        """The questions whose answers are randomized."""
        return tuple(question for question in self.questions if not question.public)

    @property
    def public_questions(self) -> tuple[str, ...]:
        """The names of the questions whose answers travel as they are."""
        return tuple(question.name for question in self.questions if question.public)

    @property
    def public_notes(self) -> list[str]:
        """What the planner found out about readers who use public answers: for them the promise may be weaker."""
        return [
            note for note in self.notes if note.startswith(tuple(f"{name} is public" for name in self.public_questions))
        ]

    @property
    def group_names(self) -> list[str]:
        """The names of the groups; none where all respondents share one prior."""
        return [group.name for group in self.blocks[0].plan.groups if group.name is not None]

    @property
    def takes_weights(self) -> bool:
        """Weights say how many people a report stands for; they are not part of what is asked."""
        return False

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Every group of every block under a name of its own (`block_name`): what reports are counted by."""
        return tuple(
            replace(group, name=block_name(group.name, number))
            for number, block in enumerate(self.blocks, start=1)
            for group in block.plan.groups
        )

    @cached_property
    def public_cells(self) -> dict[tuple[str, ...], int]:
        """The combinations of answers to public questions, in order, numbered: the last one changes fastest."""
        answers = [map(str, question.answers) for question in self.questions if question.public]
        return {cell: place for place, cell in enumerate(product(*answers))}

    @cached_property
    def counted_as(self) -> dict[tuple[str | None, int | None], int]:
        """Where in `groups` a report is counted, by its group and its block, from 1."""
        places = (split_name(group.name) for group in self.groups)
        return {(group, block + 1): place for place, (group, block) in enumerate(places)}

    def question(self, name: str) -> Question:
        """The question of that name."""
        for question in self.questions:
            if question.name == name:
                return question
        raise PlanError(
            f"This plan has no question {name!r}. It has {', '.join(each.name for each in self.questions)}."
        )

    def block_of(self, *names: str) -> Block:
        """The block that all these questions are in."""
        for name in names:
            if self.question(name).public:
                raise PlanError(f"The question {name!r} is public: its answers are a column beside the reports.")
        for block in self.blocks:
            if set(names) <= {question.name for question in block.questions}:
                return block
        raise PlanError(
            f"No block holds {' and '.join(names)} together, so no report tells about both. Plan with "
            f"--cross {','.join(names)}."
        )

    @cached_property
    def chance_ends(self) -> Integers:
        """Where the chance of each block ends: a word of 16 bits draws the first block whose end is above it."""
        return np.cumsum([block.chance for block in self.blocks])

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the contract in canonical JSON, in which each block's plan stands as its own hash."""
        return _hash_of(self._fields)

    @property
    def wording(self) -> Wording:
        """The words that respondents read."""
        return Wording(
            self.title,
            {question.name: question.text for question in self.questions if question.text},
            {question.name: question.labels for question in self.questions if question.labels},
        )

    def reworded(self, title: str | None = None, texts: Mapping[str, Mapping[str, str]] | None = None) -> Questionnaire:
        """The same plan with corrected words: the title, and the texts of some questions by name and language.

        It carries the earlier words, so its reports are pooled with the earlier ones (`hashes`).
        """
        for name in texts or ():
            self.question(name)
        new = Wording(
            self.title if title is None else title,
            {each.name: {**each.text, **(texts or {}).get(each.name, {})} for each in self.questions},
            self.wording.labels,
        )
        if new.to_dict() == self.wording.to_dict():
            raise PlanError("This is the wording that the plan has already.")
        return replace(self._worded(new), earlier=(*self.earlier, self.wording))

    def _worded(self, words: Wording) -> Questionnaire:
        """The same plan in these words, and no earlier ones."""
        if not {*words.texts, *words.labels} <= {question.name for question in self.questions}:
            raise PlanError("An earlier wording is about a question that the plan does not have.")
        new = {
            question.name: replace(
                question, text=words.texts.get(question.name, {}), labels=words.labels.get(question.name, {})
            )
            for question in self.questions
        }
        blocks = tuple(
            replace(block, questions=tuple(new[each.name] for each in block.questions)) for block in self.blocks
        )
        return replace(self, questions=tuple(new.values()), blocks=blocks, title=words.title, earlier=())

    @cached_property
    def hashes(self) -> tuple[str, ...]:
        """The hashes of this plan in all its wordings, as of `Plan.hashes`."""
        before = [
            replace(self._worded(words), earlier=self.earlier[:place]).hash for place, words in enumerate(self.earlier)
        ]
        return (*before, self.hash)

    @property
    def first_wave(self) -> str:
        """The hash of the first plan of the series, which names it; of a first wave its own, in its first wording."""
        return self.hashes[0] if self.series is None else self.series

    @cached_property
    def _fields(self) -> dict[str, Any]:
        return {
            "tacit_plan": FORMAT,
            "title": self.title,
            **series_fields(self.wave, self.series, self.limit),
            **({"earlier": [words.to_dict() for words in self.earlier]} if self.earlier else {}),
            **recoding_field(self.recoding),
            "questions": [question.to_dict() for question in self.questions],
            "blocks": [
                {
                    "questions": [question.name for question in block.questions],
                    "chance": block.chance,
                    "plan": block.plan.to_dict(),
                }
                for block in self.blocks
            ],
            "notes": list(self.notes),
        }

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"hash": self.hash} | self._fields

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Questionnaire:
        """Read, check the hash and audit every block."""
        try:
            questions = {each["name"]: Question.from_dict(each) for each in data["questions"]}
            blocks = tuple(
                Block(
                    tuple(questions[name] for name in block["questions"]),
                    block["chance"],
                    Plan.from_dict(block["plan"]),
                )
                for block in data["blocks"]
            )
            earlier = tuple(Wording.from_dict(words) for words in data.get("earlier", ()))
            series = data.get("wave", 1), data.get("series"), earlier, read_limit(data), read_recoding(data)
            plan = cls(tuple(questions.values()), blocks, data["title"], tuple(data["notes"]), *series)
            # Both the text and what was read from it have this hash, so the text has no other fields or forms.
            if not plan.hash == data["hash"] == _hash_of(data) or len(questions) < len(data["questions"]):
                raise PlanError("This plan was altered: its content does not match its hash.")
        except PlanError:
            raise
        except ValueError as error:
            raise PlanError(f"This plan is refused: {error}") from error
        except (KeyError, TypeError, AttributeError, IndexError, ArithmeticError) as error:
            raise malformed(error) from error
        return plan

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON, atomically."""
        write_text(path, json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n")


def _hash_of(data: Mapping[str, Any]) -> str:
    """The hash of a plan's JSON as it stands."""
    blocks = [{**block, "plan": block["plan"]["hash"]} for block in data["blocks"]]
    contract = {key: part for key, part in data.items() if key != "hash"} | {"blocks": blocks}
    text = json.dumps(contract, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


#: A plan for one question, or for several.
AnyPlan = Plan | Questionnaire


def load_plan(path: str | Path) -> AnyPlan:
    """Read and audit a plan file, of one question or of several.

    Args:
        path: the file.

    Returns:
        The plan, audited.

    Raises:
        PlanError: the file is not a plan, was altered, or does not keep its promise.

    >>> load_plan("nowhere.json")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.json'
    """
    return read_plan(read_json(path))


def read_plan(data: Mapping[str, Any]) -> AnyPlan:
    """The audited plan of one question or of several that this JSON holds.

    Args:
        data: the JSON object of a plan.

    Returns:
        The plan, audited.

    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> read_plan(plan.to_dict()) == plan
    True
    """
    return Questionnaire.from_dict(data) if "questions" in data else Plan.from_dict(data)


def split_name(name: str | None) -> tuple[str | None, int]:
    """The inverse of `block_name`: the group, and the place of the block counted from 0.

    Args:
        name: of a crossed group.

    Returns:
        The names of its parts.

    >>> split_name("north / block 2")
    ('north', 1)
    """
    group, _, block = (name or "").rpartition(CROSSED)
    return group or None, int(block.removeprefix("block ")) - 1
