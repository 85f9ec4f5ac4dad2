"""What every plan has, whether it asks one question or several: one surface for all who read plans.

A plan asks `questions`. The private ones are reported in `blocks`, each a `Plan` over the joint answers of its
questions; a plan of one question is one block of one question. Reports are counted by `groups`: every group of every
block.

At the end: names of groups that are crossed, such as regions with ages, or a group with its arms drawn by chance.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from tacit.disk import write_text
from tacit.exact import MAX_EPSILON, exact_ratio
from tacit.plan._group import Group, PlanError
from tacit.plan._recoding import CROSSED, Recoding
from tacit.prior import Value

if TYPE_CHECKING:
    from tacit.plan._plan import Block, Follows, Plan


#: The answer of a person who was not asked, because an earlier answer made the question pointless.
NOT_ASKED = "not asked"
#: Every wording is hashed with all before it, so their number is bounded.
_MOST_EARLIER = 100
#: Derived fields: they are verified against the contract, not part of it, so the hash leaves them out.
_DERIVED = ("certificate", "levels")

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
        if not self.name.strip():
            raise PlanError(f"{whose} must have a name.")
        if self.kind not in get_args(QuestionKind) or self.task not in get_args(QuestionTask):
            raise PlanError(f"{whose} has an unknown kind or task: {self.kind!r}, {self.task!r}.")
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


@dataclass(frozen=True, kw_only=True)
class AnyPlan:
    """A plan of one question (`Plan`) or of several (`Questionnaire`).

    A survey that is repeated is a series of plans: `wave` counts them from 1, and `series` is the hash of the first.
    `earlier` are the earlier wordings in this wave, oldest first (`reworded`). `limit` is the largest LIP level that
    the reports of one person in the series may add up to: devices refuse to draw beyond it. With a `recoding` raw data
    are read as last year's were: it says how cells become answers and groups.
    """

    wave: int = 1
    series: str | None = None
    earlier: tuple[Any, ...] = ()
    limit: Fraction | None = None
    recoding: Recoding | None = None

    if TYPE_CHECKING:  # What the two kinds have each in its own way; a field has no default where a property stands.

        @property
        def questions(self) -> tuple[Question, ...]:
            """What is asked, in order."""

        @property
        def blocks(self) -> tuple[Block, ...]:
            """The private questions, as they are reported together."""

        @property
        def groups(self) -> tuple[Group, ...]:
            """Every group of every block: what reports are counted by."""

        @property
        def hashes(self) -> tuple[str, ...]:
            """The hashes of this plan in all its wordings, oldest first, its own last."""

        def _fields(self) -> dict[str, Any]:
            """For JSON, without the hash."""

        def reworded(self, title: str | None = None, texts: Mapping[str, Mapping[str, str]] | None = None) -> AnyPlan:
            """The same plan in other words."""

        def next(self, plans: Sequence[Plan], notes: Sequence[str] = ()) -> Self:
            """The plan of the next wave, in which the blocks have these plans; `notes` are about their priors."""

    @property
    def title(self) -> str | None:
        """What the plan is about, in words."""
        return None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the planner noted; a plan of one question holds none."""
        return ()

    @property
    def follows(self) -> Follows | None:
        """What a plan by the belief rule rests on."""
        return None

    @property
    def stored(self) -> str | None:
        """How reports are stored in two layers, as a hash: plans of which it is the same share stored reports."""
        return None

    @property
    def takes_weights(self) -> bool:
        """Whether weights of any sign are part of what is asked (`Task.takes_weights`); else a weight says how many
        people a report stands for.
        """
        return False

    @property
    def block_column(self) -> str | None:
        """The column of reports that says which block each is about; None where a report needs none."""
        return None

    def single(self, what: str) -> Plan:
        """The plan itself, for `what` only a plan of one question can do; raises `PlanError` for another."""
        raise PlanError(f"{what} is for plans of one question, and this plan has several.")

    @cached_property
    def block_plans(self) -> tuple[Plan, ...]:
        """The plan of each block."""
        return tuple(block.plan for block in self.blocks)

    @cached_property
    def places(self) -> tuple[tuple[int, str | None], ...]:
        """For each of `groups` the place of its block, and its name there."""
        return tuple((place, group.name) for place, plan in enumerate(self.block_plans) for group in plan.groups)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the contract in canonical JSON: it names the plan."""
        return contract_hash(self._fields())

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"hash": self.hash} | self._fields()

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

    @cached_property
    def group_names(self) -> list[str]:
        """The names of the groups; none where all respondents share one prior."""
        return [name for block, name in self.places if not block and name is not None]

    @cached_property
    def counted_as(self) -> dict[tuple[str | None, int | None], int]:
        """Where in `groups` a report is counted, by its group and its block, from 1; None where it needs no block."""
        return {
            (name, None if self.block_column is None else block + 1): k for k, (block, name) in enumerate(self.places)
        }

    @property
    def first_wave(self) -> str:
        """The hash of the first plan of the series, which names it; of a first wave its own, in its first wording."""
        return self.hashes[0] if self.series is None else self.series

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

    def asking(self, name: str | None = None, *, first: bool = False) -> Plan:
        """The plan of a question's block, read for that question (`Block.margin`); without a name for the only one."""
        name = self.question_of(name).name
        return self.block_of(name).margin(name, first=first)

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON, atomically."""
        write_text(path, json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n")

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

    def _series_fields(self, earlier: Sequence[Any]) -> dict[str, Any]:
        """For JSON, with the `earlier` wordings; what has its default is left out."""
        return {
            **({} if self.series is None else {"wave": self.wave, "series": self.series}),
            **({} if self.limit is None else {"limit": str(self.limit)}),
            **({"earlier": list(earlier)} if earlier else {}),
            **({} if self.recoding is None else {"recoding": self.recoding.to_dict()}),
        }


def series_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `AnyPlan._series_fields`: the keyword arguments of `AnyPlan`, wordings as they are in the JSON."""
    return {
        "wave": data.get("wave", 1),
        "series": data.get("series"),
        "earlier": tuple(data.get("earlier", ())),
        "limit": exact_ratio(data["limit"]) if "limit" in data else None,
        "recoding": Recoding.from_dict(data["recoding"]) if "recoding" in data else None,
    }


def contract_hash(data: Mapping[str, Any]) -> str:
    """SHA-256, in hexadecimal, over the contract in the JSON `data` of a plan: sorted keys, no spaces, UTF-8, without
    the hash and the derived fields. A block's plan stands as its own hash.

    The contract holds only strings, small integers, booleans, nulls, lists and objects, so every language writes the
    same canonical text.

    >>> from tacit import Plan
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> contract_hash(plan.to_dict()) == plan.hash
    True
    """
    contract = {key: part for key, part in data.items() if key != "hash"}
    if "blocks" in data:
        contract["blocks"] = [{**block, "plan": block["plan"]["hash"]} for block in data["blocks"]]
    else:
        groups = data["groups"]
        contract["groups"] = [{key: part for key, part in each.items() if key not in _DERIVED} for each in groups]
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
        return float(text)


#: The group of people without earlier reports, and the beginning of the names of others: "after 1 0".
NEW, AFTER = "new", "after "


def crossed_name(parts: Iterable[str]) -> str:
    """The name of the group in which `parts` of these names meet.

    >>> crossed_name(["north", "18-24"])
    'north / 18-24'
    """
    return CROSSED.join(parts)


def margins(plan: Plan, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """For each group of a `plan`, by name, its category in each of the margins that were crossed: their `names`, in
    order.

    Raises `ValueError` where a group has more or fewer parts than there are names.

    >>> from tacit import make_plan
    >>> prior = {"yes": 0.2, "no": 0.8}
    >>> plan = make_plan({"north / old": prior, "south / old": prior}, "histogram", epsilon=1)
    >>> margins(plan, ["region", "age"])["north / old"]
    {'region': 'north', 'age': 'old'}
    """
    found = {}
    for group in plan.groups:
        parts = (group.name or "").split(CROSSED)
        if group.name is None or len(parts) != len(names) or len(set(names)) < len(names):
            got = "no named groups" if group.name is None else f"the group {group.name!r}"
            raise ValueError(
                f"Crossed groups must have one part, between '{CROSSED}', for each of {', '.join(names)}. Got {got}."
            )
        found[group.name] = dict(zip(names, parts, strict=True))
    return found


def arm_name(group: str | None, number: int) -> str:
    """The name of an arm by its `number`, counted from 1, of a `group`, None if the plan has no named groups.

    Arms differ in their randomizer only.

    >>> arm_name(None, 1), arm_name("north", 2)
    ('arm 1', 'north / arm 2')
    """
    arm = f"arm {number}"
    return arm if group is None else crossed_name([group, arm])


def followed_name(group: str | None, report: int | None) -> str:
    """The group of the next wave for people of a `group`, by the belief rule: what they sent is part of its name.

    `report` is what they sent, None if they did not take part. Where groups have no names, people without any report
    are in the group "new".

    >>> followed_name(None, None), followed_name(None, 1), followed_name("after 1", None), followed_name("after 1 -", 0)
    ('new', 'after 1', 'after 1 -', 'after 1 - 0')
    >>> followed_name("north", 1), followed_name("north / after 1", 0)
    ('north / after 1', 'north / after 1 0')
    """
    head, _, last = (group or "").rpartition(CROSSED)
    if not last.startswith(AFTER):
        head, last = "" if group in (None, NEW) else str(group), ""
    if report is None and not last:
        return head or NEW
    sent = "-" if report is None else str(report)
    after = f"{last} {sent}" if last else AFTER + sent
    return crossed_name([head, after]) if head else after


def base_name(group: str | None) -> str | None:
    """The name in the first wave of a `group` of a wave by the belief rule; None where that has no named groups.

    >>> base_name("north / after 1 0"), base_name("after 1"), base_name("new"), base_name("north")
    ('north', None, None, 'north')
    """
    head, _, last = (group or "").rpartition(CROSSED)
    if last.startswith(AFTER):
        return head or None
    return None if group == NEW else group


def arms_of(plan: Plan) -> dict[str | None, list[Group]]:
    """The arms of each group of a `plan`, by the group's name: those whose names are alike up to the last " / "; all
    groups if no name has one.

    Raises `ValueError` where a group has one arm only.

    >>> from tacit import GroupPrior, Prior, Survey, make_plan
    >>> from tacit.designs.planning import in_arms
    >>> priors = in_arms([GroupPrior(name="old", prior=Prior.of({"yes": 0.2, "no": 0.8}))], [0.5, 1.5])
    >>> {name: len(arms) for name, arms in arms_of(make_plan(priors, Survey("yes"), None)).items()}
    {'old': 2}
    """
    found: dict[str | None, list[Group]] = {}
    for group in plan.groups:
        found.setdefault((group.name or "").rpartition(CROSSED)[0] or None, []).append(group)
    for name, arms in found.items():
        if len(arms) < 2:
            whose = "This plan" if name is None else f"Group {name!r}"
            raise ValueError(
                f"{whose} has one arm only: whether people followed the rule shows where chance gave some of them "
                "another randomizer. Plan with --arms, or adopt a design of two groups."
            )
    return found
