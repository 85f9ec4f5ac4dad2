"""The plan: the one contract between client, collector and analyst. JSON, exact integers, named by its content.

A plan says what is asked, of which groups, with which prior and budget, and which integers each device uses. Nothing
else is needed to randomize, to tally or to estimate. Reading a plan audits it again: one whose integers do not keep
the promise it states is refused. Every field is described in docs/plan.md and in plan.schema.json.

A plan asks `questions`; one question is the case of one. The private ones are reported in `blocks`. The device draws
one block at random, by public chances, and reports on that block only. Which block is drawn does not depend on the
answers. So a report about a block keeps, for every answer, every combination of answers and every set of combinations
of the whole record, the promise of the block: for an event A of the record,

    Pr(A | y) / Pr(A) = Σ_x Pr(x | A) Q(y|x) / λ(y)   is a mean of the lifts of the block's cells x,

and a mean lies between the smallest and the largest of them. Read alone, a block is a plan of one question: which of
the joint cells.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Literal, Self

from tacit.disk import kind_of_json, write_text
from tacit.exact import MAX_EPSILON, Number, budget, exact_ratio
from tacit.mechanism import Mechanism, mse, round_channel, unbiased_variance
from tacit.mechanism.repeated import Transition, check_transition
from tacit.mechanism.table import Channel
from tacit.plan._group import Certificate, Group, PlanError, smallest_level
from tacit.plan._names import block_name
from tacit.plan._question import BLOCK, CHANCES, Block, Question, Wording, check_routes
from tacit.plan._recoding import Recoding
from tacit.prior import Prior, Value, has_unseen
from tacit.task import Task, prior_variance

FORMAT = 1
#: The errors per respondent that a certificate states.
ErrorField = Literal["aimed", "aimed_for_participants", "ldp_aimed", "prior_variance"]
#: Every wording is hashed with all before it, so their number is bounded.
_MOST_EARLIER = 100
#: Derived fields of a group: they are verified against the contract, not part of it, so the hash leaves them out.
_DERIVED = ("certificate", "levels")
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
class Plan:
    """Questions, the blocks that the private ones are reported in, and the promise for the whole record.

    Reports are counted by `groups`: every group of every block. A survey that is repeated is a series of plans: `wave`
    counts them from 1, and `series` is the hash of the first. `earlier` are the earlier wordings in this wave, oldest
    first (`reworded`). `limit` is the largest LIP level that the reports of one person in the series may add up to:
    devices refuse to draw beyond it. `follows` says that the groups are people with the same earlier reports, and the
    priors what these leave to believe. With a `recoding` raw data are read as last year's were: it says how cells
    become answers and groups; the columns of its answers are named as questions. `notes` are those of the planner.

    A plan of one question also has a `task`, its `values`, and groups of its own (`of_groups`). Where answers may lie
    `between` the values, which then are numbers in ascending order, an answer is first rounded at random to one of its
    two neighbours (`Randomizer.rounded`), so that its expectation stays what it is: a question for a number needs no
    categories, and its sum is estimated as if the values were all there is.
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
    follows: Follows | None = None

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) for text in ("" if self.title is None else self.title, *self.notes)):
            raise PlanError("The title and the notes of a plan must be texts.")
        if has_unseen(self.title or ""):
            raise PlanError("The title of a plan must not hold control characters or marks of direction.")
        if len({question.name for question in self.questions}) < len(self.questions):
            raise PlanError("The questions of a plan must have different names.")
        placed = [question for block in self.blocks for question in block.questions]
        if sorted(each.name for each in placed) != sorted(each.name for each in self.private) or not self.private:
            raise PlanError("Every private question of a plan must be in one block, and in one only.")
        if any(question not in self.private for question in placed):
            raise PlanError("A block asks a question in another form than the plan.")
        if sum(block.chance for block in self.blocks) != CHANCES:
            raise PlanError(f"The chances of the blocks must add up to {CHANCES}.")
        promises = [[(g.name, g.epsilon, g.notion, g.ldp_cap) for g in block.groups] for block in self.blocks]
        if any(promise != promises[0] for promise in promises):
            raise PlanError("All blocks of a plan must have the same groups with the same promises.")
        check_routes(self.questions)
        self._check_series()
        if len(self.questions) > 1 and (self.stored or self.follows):
            raise PlanError("The same people are asked again, in two layers or by the belief rule, one question only.")
        if self.follows is not None and self.wave == 1:
            raise PlanError("A first wave follows no other.")
        if self.follows is not None and self.follows.transition and len(self.follows.transition) != len(self.values):
            raise PlanError(
                f"The transition matrix of a plan must have a row for each of its {len(self.values)} answers."
            )
        if self.recoding is not None:
            asked = {each.name: None if each.kind == "number" else each.answers for each in self.questions}
            self.recoding.check(asked, self.group_names)
        for wording in self.earlier:
            # Refuses words that no plan can have had.
            wording.put_into(self.questions)

    # -- plans of one question ----------------------------------------------------------------------------------------

    @classmethod
    def of_groups(
        cls,
        task: Task,
        groups: Sequence[Group],
        question: str | None = None,
        *,
        between: bool = False,
        recoding: Recoding | None = None,
        **series: Any,
    ) -> Self:
        """A plan of one question, in these words: a task and the groups it is asked of, all over the same values.

        The question is named as its column in files: "value", or the column of the `recoding`. `series` are other
        fields of the plan.
        """
        if recoding is not None and len(recoding.answers) != 1:
            raise PlanError("The recoding of a plan of one question must have one column of answers.")
        asked = Question(
            name="value" if recoding is None else recoding.answers[0].column,
            answers=groups[0].prior.values if groups else (),
            kind="number" if between else "one-of",
            task=None,
            text={} if question is None else {"": question},
        )
        return cls((asked,), (Block((asked,), task, tuple(groups)),), recoding=recoding, **series)

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
    ) -> Self:
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
        return cls.of_groups(asked, (group,), question)

    @classmethod
    def of_block(cls, block: Block) -> Self:
        """A block as a plan of one question: which of the joint cells."""
        name = "cell of " + ", ".join(question.name for question in block.questions)
        asked = Question(name=name, answers=block.values, task=None)
        return cls((asked,), (Block((asked,), block.task, block.groups),))

    def changed(self, task: Task | None = None, groups: Sequence[Group] | None = None, **fields: Any) -> Self:
        """The plan of one question with another task, other groups, or other `fields` of the plan."""
        block = self.single("Another task, or groups,").blocks[0]
        other = replace(block, task=task or block.task, groups=block.groups if groups is None else tuple(groups))
        return replace(self, blocks=(other,), **fields)

    def single(self, what: str) -> Self:
        """The plan itself, for `what` only a plan of one question can do; raises `PlanError` for another."""
        if len(self.questions) > 1:
            raise PlanError(f"{what} is for plans of one question, and this plan has several.")
        return self

    @property
    def _block(self) -> Block:
        return self.single("A task, and values,").blocks[0]

    @property
    def task(self) -> Task:
        """What is estimated."""
        return self._block.task

    @property
    def values(self) -> tuple[Value, ...]:
        """The domain: what a respondent can answer, or, `between`, the numbers that answers are rounded to."""
        return self._block.values

    @property
    def question(self) -> str | None:
        """The question in words, if there are any."""
        asked = self._block.questions[0]
        return asked.words if asked.text else None

    @property
    def between(self) -> bool:
        """Whether answers may lie between the values, and the task adds them up."""
        return self._block.is_own and self._block.questions[0].kind == "number"

    @property
    def row_values(self) -> list[Value | None]:
        """The label of each row of the estimate (`Task.row_values`)."""
        return self.task.row_values(self.values)

    def reading(self, task: Task, question: str | None = None) -> Self:
        """The same contract, its reports read for another task, or one question of a block. The hash stays: it is about
        what devices do. The weights of a weighted sum are left out where the other task has none.
        """
        groups = self.groups
        if self.takes_weights and not task.takes_weights:
            groups = tuple(replace(group, weight=Fraction(1), offset=Fraction(0)) for group in groups)
        words = question or self.question
        asked = replace(self.questions[0], kind="one-of", task=None, text={} if words is None else {"": words})
        other = replace(self, questions=(asked,), blocks=(Block((asked,), task, groups),), recoding=None, earlier=())
        object.__setattr__(other, "hash", self.hash)
        object.__setattr__(other, "hashes", self.hashes)
        return other

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

    # -- what is asked ------------------------------------------------------------------------------------------------

    @property
    def heading(self) -> str | None:
        """What the plan is about, in words: its title, or its only question."""
        return self.title if self.title is not None or len(self.questions) > 1 else self.question

    @property
    def private(self) -> tuple[Question, ...]:
        """The questions whose answers are randomized."""
        return tuple(question for question in self.questions if not question.public)

    @cached_property
    def public_questions(self) -> tuple[str, ...]:
        """The names of the questions whose answers travel as they are."""
        return tuple(question.name for question in self.questions if question.public)

    @property
    def public_notes(self) -> list[str]:
        """What the planner found out about readers who use public answers: for them the promise may be weaker."""
        about = tuple(f"{name} is public" for name in self.public_questions)
        return [note for note in self.notes if note.startswith(about)]

    @cached_property
    def public_cells(self) -> dict[tuple[str, ...], int]:
        """The combinations of answers to public questions, in order, numbered: the last one changes fastest. Without
        any there is one, of none.
        """
        answers = [map(str, question.answers) for question in self.questions if question.public]
        return {cell: place for place, cell in enumerate(product(*answers))}

    def question_of(self, name: str | None = None) -> Question:
        """The question of that name; without a name the only private one."""
        if name is None:
            if len(self.private) > 1:
                known = ", ".join(each.name for each in self.private)
                raise PlanError(
                    f"This plan has several questions: say which one, as in --question NAME. It has {known}."
                )
            return self.private[0]
        for question in self.questions:
            if question.name == name:
                return question
        raise PlanError(
            f"This plan has no question {name!r}. It has {', '.join(each.name for each in self.questions)}."
        )

    def block_of(self, *names: str) -> Block:
        """The block that all these questions are in."""
        for name in names:
            if self.question_of(name).public:
                raise PlanError(f"The question {name!r} is public: its answers are a column beside the reports.")
        for block in self.blocks:
            if set(names) <= {question.name for question in block.questions}:
                return block
        raise PlanError(
            f"No block holds {' and '.join(names)} together, so no report tells about both. Plan with "
            f"--cross {','.join(names)}."
        )

    def asking(self, name: str | None = None, *, first: bool = False) -> Self:
        """The plan of a question's block, read for that question (`Block.margin`); without a name for the only one."""
        question = self.question_of(name)
        block = self.block_of(question.name)
        if block.is_own and len(self.questions) == 1:
            return self
        return self.read_block(block, block.margin(question.name, first=first), question.words)

    def read_block(self, block: Block, task: Task, question: str | None = None) -> Self:
        """The plan of a block, read for another task."""
        return self.block_plans[self.blocks.index(block)].reading(task, question)

    # -- blocks and groups --------------------------------------------------------------------------------------------

    @cached_property
    def block_plans(self) -> tuple[Self, ...]:
        """Each block as a plan of one question; of a plan of one question the plan itself."""
        if len(self.questions) == 1:
            return (self,)
        return tuple(map(self.of_block, self.blocks))

    @property
    def block_column(self) -> str | None:
        """The column of reports that says which block each is about; None where there is one question only."""
        return BLOCK if len(self.questions) > 1 else None

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Every group of every block, of several questions under a name of its own (`block_name`)."""
        if self.block_column is None:
            return self.blocks[0].groups
        return tuple(
            replace(group, name=block_name(group.name, number))
            for number, block in enumerate(self.blocks, start=1)
            for group in block.groups
        )

    @cached_property
    def places(self) -> tuple[tuple[int, str | None], ...]:
        """For each of `groups` the place of its block, and its name there."""
        return tuple((place, group.name) for place, block in enumerate(self.blocks) for group in block.groups)

    @cached_property
    def group_names(self) -> list[str]:
        """The names of the groups; none where all respondents share one prior."""
        return [group.name for group in self.blocks[0].groups if group.name is not None]

    @cached_property
    def counted_as(self) -> dict[tuple[str | None, int | None], int]:
        """Where in `groups` a report is counted, by its group and its block, from 1; None where it needs no block."""
        return {
            (name, None if self.block_column is None else block + 1): k for k, (block, name) in enumerate(self.places)
        }

    def group(self, name: str | None) -> Group:
        """The group of that name."""
        for group in self.groups:
            if group.name == name:
                return group
        raise KeyError(f"This plan has no group {name!r}.")

    @property
    def takes_weights(self) -> bool:
        """Whether weights of any sign are part of what is asked (`Task.takes_weights`); else a weight says how many
        people a report stands for.
        """
        return any(block.task.takes_weights for block in self.blocks)

    @cached_property
    def stored(self) -> str | None:
        """How reports are stored in two layers, as a hash: plans of which it is the same share stored reports."""
        if any(group.layers is None for block in self.blocks for group in block.groups):
            return None
        told = [group.to_dict() for group in self.groups]
        return canonical_hash([[each["group"], each["prior"], each["layers"]["stored"]] for each in told])

    # -- waves and words ----------------------------------------------------------------------------------------------

    @property
    def first_wave(self) -> str:
        """The hash of the first plan of the series, which names it; of a first wave its own, in its first wording."""
        return self.hashes[0] if self.series is None else self.series

    def next(self, plans: Sequence[Plan], notes: Sequence[str] = ()) -> Self:
        """The plan of the next wave, in which the blocks have the groups of these plans; `notes` are about their
        priors. Notes about the priors of this wave are left out; what is public still is.
        """
        kept = tuple(dict.fromkeys([*self.public_notes, *notes]))
        blocks = tuple(
            replace(block, task=later.task, groups=later.groups)
            for block, later in zip(self.blocks, plans, strict=True)
        )
        return replace(self, blocks=blocks, wave=self.wave + 1, series=self.first_wave, earlier=(), notes=kept)

    def reworded(self, title: str | None = None, texts: Mapping[str, Mapping[str, str]] | None = None) -> Self:
        """The same plan in corrected words: another title, which is the question in a plan of one question without a
        title, and other texts of some questions, by name and language.

        It carries the earlier words, so its reports are pooled with the earlier ones (`hashes`), and a device that has
        answered does not draw again.

        >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram", question="Are you il?")
        >>> better = plan.reworded("Are you ill?")
        >>> better.earlier[0].texts, better.hashes == (plan.hash, better.hash)
        ({'value': {'': 'Are you il?'}}, True)
        """
        said = dict(texts or {})
        for name in said:
            self.question_of(name)
        if title is not None and self.title is None and len(self.questions) == 1:
            name = self.questions[0].name
            said[name] = {**said.get(name, {}), "": title}
            title = None
        asked = [replace(each, text={**each.text, **said.get(each.name, {})}) for each in self.questions]
        old, new = Wording.of(self.title, self.questions), Wording.of(self.title if title is None else title, asked)
        if new == old:
            raise PlanError("This is the wording that the plan has already.")
        known = {each.name: each for each in asked}
        blocks = (replace(each, questions=tuple(known[one.name] for one in each.questions)) for each in self.blocks)
        return replace(
            self, questions=tuple(asked), blocks=tuple(blocks), title=new.title, earlier=(*self.earlier, old)
        )

    @cached_property
    def hashes(self) -> tuple[str, ...]:
        """The hashes of this plan in all its wordings, oldest first, its own last; tallies of all of them are pooled.

        Each is computed again by putting the earlier words back. A plan that differs in anything else has another
        hash, so this proves that only words changed. The first one names the wave: it stays when words are corrected.
        """
        now = self._fields()
        before = [
            contract_hash(
                {name: part for name, part in now.items() if name != "earlier"}
                | {"title": words.title, "questions": [each.to_dict() for each in words.put_into(self.questions)]}
                | ({"earlier": now["earlier"][:place]} if place else {})
            )
            for place, words in enumerate(self.earlier)
        ]
        return (*before, self.hash)

    def _check_series(self) -> None:
        """Raise `PlanError` unless the wave counts from 1, every later wave names the first plan of its series, and the
        limit allows for one report.
        """
        wave, series, limit = self.wave, self.series, self.limit
        if len(self.earlier) > _MOST_EARLIER:
            raise PlanError(f"A plan has at most {_MOST_EARLIER} earlier wordings. Got {len(self.earlier)}.")
        if type(wave) is not int or not 1 <= wave < 2**31:
            raise PlanError(f"The wave of a plan must be a whole number, at least 1. Got {wave!r} instead.")
        if (series is None) != (wave == 1):
            raise PlanError("A plan names the first plan of its series from its second wave on, and only then.")
        if series is not None and (not isinstance(series, str) or not re.fullmatch("[0-9a-f]{64}", series)):
            raise PlanError("The series of a plan must be the hash of its first plan, 64 hexadecimal digits.")
        # Two layers count with the lifelong level from the first report on.
        least = max(group.epsilon if group.layers is None else group.layers.lifelong for group in self.groups)
        if limit is not None and not least <= limit <= MAX_EPSILON:
            raise PlanError(
                f"The limit of a plan must be from {float(least):g}, the level of its first report, to {MAX_EPSILON}. "
                f"Got {float(limit):g} instead."
            )

    # -- JSON ---------------------------------------------------------------------------------------------------------

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the contract in canonical JSON: it names the plan."""
        return contract_hash(self._fields())

    def __eq__(self, other: object) -> bool:
        """Whether both are the same contract, read for the same task. Certificates are derived: they do not count."""
        return isinstance(other, Plan) and self._read_for() == other._read_for()

    def __hash__(self) -> int:
        return int(self.hash[:15], 16)

    def _read_for(self) -> tuple[object, ...]:
        return self.hash, *(block.task for block in self.blocks)

    def _fields(self) -> dict[str, Any]:
        return {
            "tacit_plan": FORMAT,
            "title": self.title,
            **({} if self.series is None else {"wave": self.wave, "series": self.series}),
            **({} if self.limit is None else {"limit": str(self.limit)}),
            **({"earlier": [words.to_dict() for words in self.earlier]} if self.earlier else {}),
            **({} if self.recoding is None else {"recoding": self.recoding.to_dict()}),
            **({} if self.follows is None else {"follows": self.follows.to_dict()}),
            "questions": [question.to_dict() for question in self.questions],
            "blocks": [block.to_dict() for block in self.blocks],
            "notes": list(self.notes),
        }

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"hash": self.hash} | self._fields()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read, check the hash and audit the plan that the JSON object `data` holds.

        >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
        >>> Plan.from_dict(plan.to_dict()) == plan
        True
        """
        if data.get("tacit_plan") != FORMAT:
            kind = kind_of_json(data) if "tacit_plan" not in data else None
            if kind is not None:
                raise PlanError(f"This is {kind}. A plan is what `tacit plan` writes; commands take it first.")
            raise PlanError(f"Not a plan of format {FORMAT}. Got {data.get('tacit_plan')!r} instead.")
        with refusing():
            if contract_hash(data) != data["hash"]:
                raise PlanError("This plan was altered: its content does not match its hash.")
            questions = {each["name"]: Question.from_dict(each) for each in data["questions"]}
            plan = cls(
                tuple(questions.values()),
                tuple(Block.from_dict(block, questions) for block in data["blocks"]),
                data["title"],
                tuple(data["notes"]),
                wave=data.get("wave", 1),
                series=data.get("series"),
                earlier=tuple(map(Wording.from_dict, data.get("earlier", ()))),
                limit=exact_ratio(data["limit"]) if "limit" in data else None,
                recoding=Recoding.from_dict(data["recoding"]) if "recoding" in data else None,
                follows=Follows.from_dict(data["follows"]) if "follows" in data else None,
            )
            # What was read has the hash of the text, so the text has no other fields or forms.
            if plan.hash != data["hash"]:
                raise PlanError("The names of questions must be different, and everything as Tacit writes it.")
        return plan

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read and audit the plan file at `path`.

        Raises `PlanError` where the file is not a plan, was altered, or does not keep its promise.

        >>> Plan.load("nowhere.json")
        Traceback (most recent call last):
        FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.json'
        """
        return cls.from_dict(read_json(path))

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON, atomically."""
        write_text(path, json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n")


def contract_hash(data: Mapping[str, Any]) -> str:
    """SHA-256, in hexadecimal, over the contract in the JSON `data` of a plan: sorted keys, no spaces, UTF-8, without
    the hash and the derived fields of groups.

    The contract holds only strings, small integers, booleans, nulls, lists and objects, so every language writes the
    same canonical text.

    >>> from tacit import Plan
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> contract_hash(plan.to_dict()) == plan.hash
    True
    """
    contract = {key: part for key, part in data.items() if key != "hash"}
    contract["blocks"] = [
        {**block, "groups": [{key: part for key, part in group.items() if key not in _DERIVED} for group in groups]}
        for block in data["blocks"]
        for groups in (block["groups"],)
    ]
    return canonical_hash(contract)


def canonical_hash(content: Any) -> str:
    """SHA-256, in hexadecimal, of canonical JSON."""
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@contextmanager
def refusing() -> Iterator[None]:
    """What goes wrong while a plan's JSON is read becomes a `PlanError`."""
    try:
        yield
    except PlanError:
        raise
    except ValueError as error:
        raise PlanError(f"This plan is refused: {error}") from error
    except (KeyError, TypeError, AttributeError, IndexError, ArithmeticError) as error:
        raise malformed(error) from error


def malformed(error: Exception) -> PlanError:
    """What is wrong with a plan that cannot be read, by the `error` that Python raised, in words of plans.

    >>> print(malformed(KeyError("epsilon")))
    This plan is malformed: the field 'epsilon' is missing.
    """
    missing = isinstance(error, KeyError)
    what = f"the field {error} is missing" if missing else "a field holds what it cannot hold; see docs/plan.md"
    return PlanError(f"This plan is malformed: {what}.")


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
