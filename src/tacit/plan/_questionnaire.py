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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from tacit.plan._any_plan import AnyPlan, Question, contract_hash, crossed_name, refusing, series_of
from tacit.plan._group import Group, PlanError
from tacit.plan._plan import CHANCES, FORMAT, Block, Plan, read_json
from tacit.prior import has_unseen

#: The column of report files that says which block a report is about.
BLOCK = "block"
#: Columns of report files, so no names of questions.
RESERVED = frozenset(["group", BLOCK, "report", "tacit_plan"])


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


def block_name(group: str | None, number: int) -> str:
    """The name of a block by its `number`, counted from 1, in a `group`, None if the plan has no named groups.

    Under it the reports of both together are counted.

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
class Questionnaire(AnyPlan):
    """Questions, the blocks that the private ones are reported in, and the promise for the whole record.

    The plans of the blocks have no wave, series, earlier words, limit and recoding: this one has. The columns of the
    recoding's answers are named as questions.
    """

    questions: tuple[Question, ...]
    blocks: tuple[Block, ...]
    title: str | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) for text in ("" if self.title is None else self.title, *self.notes)):
            raise PlanError("The title and the notes of a plan must be texts.")
        if has_unseen(self.title or ""):
            raise PlanError("The title of a plan must not hold control characters or marks of direction.")
        names = [question.name for question in self.questions]
        if reserved := RESERVED & set(names):
            raise PlanError(f"A question cannot be called {min(reserved)!r}: report files have such a column.")
        for each in self.questions:
            labels = (label for several in each.labels.values() for label in several)
            if any(map(has_unseen, (each.name, *each.text.values(), *labels))):
                raise PlanError(f"The question {each.name!r} must have no control characters in its name and texts.")
        if len(set(names)) < len(names):
            raise PlanError("The questions of a plan must have different names.")
        placed = [question for block in self.blocks for question in block.questions]
        if sorted(each.name for each in placed) != sorted(each.name for each in self.private) or not self.private:
            raise PlanError("Every private question of a plan must be in one block, and in one only.")
        if any(question not in self.private for question in placed):
            raise PlanError("A block asks a question in another form than the plan.")
        if sum(block.chance for block in self.blocks) != CHANCES:
            raise PlanError(f"The chances of the blocks must add up to {CHANCES}.")
        if len({block.plan.hash for block in self.blocks}) < len(self.blocks):
            raise PlanError("The plans of two blocks are the same: their tasks must name their questions.")
        promises = [[(g.name, g.epsilon, g.notion, g.ldp_cap) for g in block.plan.groups] for block in self.blocks]
        if any(promise != promises[0] for promise in promises):
            raise PlanError("All blocks of a plan must have the same groups with the same promises.")
        check_routes(self.questions)
        self._check_series()
        if any(each.stored for each in self.block_plans):
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
    def block_column(self) -> str | None:
        return BLOCK

    def next(self, plans: Sequence[Plan], notes: Sequence[str] = ()) -> Self:
        """The plan of the next wave, in which the blocks have these plans. Notes about the priors of this wave are left
        out; what is public still is.
        """
        notes = tuple(dict.fromkeys([*self.public_notes, *notes]))
        blocks = tuple(replace(block, plan=plan) for block, plan in zip(self.blocks, plans, strict=True))
        return replace(self, blocks=blocks, wave=self.wave + 1, series=self.first_wave, earlier=(), notes=notes)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Every group of every block under a name of its own (`block_name`): what reports are counted by."""
        return tuple(
            replace(group, name=block_name(group.name, number))
            for number, block in enumerate(self.blocks, start=1)
            for group in block.plan.groups
        )

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
            self.question_of(name)
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

    def _fields(self) -> dict[str, Any]:
        return {
            "tacit_plan": FORMAT,
            "title": self.title,
            **self._series_fields([words.to_dict() for words in self.earlier]),
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

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Questionnaire:
        """Read, check the hash and audit every block."""
        with refusing():
            questions = {each["name"]: Question.from_dict(each) for each in data["questions"]}
            blocks = tuple(
                Block(
                    tuple(questions[name] for name in block["questions"]),
                    block["chance"],
                    Plan.from_dict(block["plan"]),
                )
                for block in data["blocks"]
            )
            series = series_of(data)
            series["earlier"] = tuple(map(Wording.from_dict, series["earlier"]))
            plan = cls(tuple(questions.values()), blocks, data["title"], tuple(data["notes"]), **series)
            # Both the text and what was read from it have this hash, so the text has no other fields or forms.
            if not plan.hash == data["hash"] == contract_hash(data) or len(questions) < len(data["questions"]):
                raise PlanError("This plan was altered: its content does not match its hash.")
        return plan


def load_plan(path: str | Path) -> AnyPlan:
    """The audited plan, of one question or of several, in the file at `path`.

    Raises `PlanError` where the file is not a plan, was altered, or does not keep its promise.

    >>> load_plan("nowhere.json")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.json'
    """
    return read_plan(read_json(path))


def read_plan(data: Mapping[str, Any]) -> AnyPlan:
    """The audited plan, of one question or of several, that the JSON object `data` holds.

    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> read_plan(plan.to_dict()) == plan
    True
    """
    return Questionnaire.from_dict(data) if "questions" in data else Plan.from_dict(data)
