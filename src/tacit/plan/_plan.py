"""The plan: the one contract between client, collector and analyst. JSON, exact integers, named by its content.

A plan says what is asked, of which groups, with which prior and budget, and which integers each device uses. Nothing
else is needed to randomize, to tally or to estimate. Reading a plan audits it again: one whose integers do not keep
the promise it states is refused. Every field is described in docs/plan.md and in plan.schema.json.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tacit.disk import kind_of_json, write_text
from tacit.exact import MAX_EPSILON, Number, budget, exact_ratio
from tacit.mechanism import Mechanism, mse, round_channel, unbiased_variance
from tacit.mechanism.repeated import Transition, check_transition
from tacit.mechanism.table import Channel
from tacit.plan._certificate import Certificate
from tacit.plan._group import Group, PlanError, smallest_level
from tacit.plan._recoding import Recoding
from tacit.prior import Prior, Value, has_unseen
from tacit.task import Task, prior_variance

if TYPE_CHECKING:
    from tacit.plan._questionnaire import AnyPlan

FORMAT = 1
#: The errors per respondent that a certificate states.
ErrorField = Literal["aimed", "aimed_for_participants", "ldp_aimed", "prior_variance"]
#: Every wording is hashed with all before it, so their number is bounded.
_MOST_EARLIER = 100
#: Files that are no plans.
_TABLES = (".csv", ".tsv", ".txt", ".parquet", ".xlsx", ".jsonl", ".arrow", ".feather")
#: Derived fields: they are verified against the contract, not part of it, so the hash leaves them out.
_DERIVED = ("certificate", "levels")


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
    """A task and the groups it is asked of, all over the same values.

    Where answers may lie `between` the values, which then are numbers in ascending order, an answer is first rounded at
    random to one of its two neighbours (`Randomizer.rounded`), so that its expectation stays what it is: a question for
    a number needs no categories, and its sum is estimated as if the values were all there is.

    A survey that is repeated is a series of plans: `wave` counts them from 1, and `series` is the hash of the first.
    `earlier` are the earlier wordings of the question in this wave, oldest first (`reworded`). `limit` is the largest
    LIP level that the reports of one person in the series may add up to: devices refuse to draw beyond it.
    `follows` says that the groups are people with the same earlier reports, and the priors what these leave to believe.
    With a `recoding` raw data are read as last year's were: it says how cells become answers and groups.
    """

    task: Task
    groups: tuple[Group, ...]
    question: str | None = None
    between: bool = False
    wave: int = 1
    series: str | None = None
    earlier: tuple[str | None, ...] = ()
    limit: Fraction | None = None
    follows: Follows | None = None
    recoding: Recoding | None = None

    def __post_init__(self) -> None:
        check_series(self)
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

        Args:
            channel: a matrix Q(y|x) with a row for each value and a column for each report, or a `Mechanism`.
            prior: the values and what is believed about them.
            task: what is to be estimated.
            epsilon: the promised level. A matrix is rounded so that it keeps it. Without it the plan promises the
                level that the channel really reaches, to four decimals.
            notion: what is promised, "lip" or "ldp".
            question: kept in the plan.

        Returns:
            The plan. Its certificate has the errors of the channel, and no bound, because nothing was searched.

        Raises:
            PrivacyError: the matrix does not keep `epsilon`.
            PlanError: the mechanism does not keep `epsilon`, or has no finite level.
            ValueError: a row of the matrix does not sum to 1.

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

    @property
    def public_questions(self) -> tuple[str, ...]:
        """Questions whose answers travel as they are; a plan of one question has none."""
        return ()

    @cached_property
    def public_cells(self) -> dict[tuple[str, ...], int]:
        """The combinations of answers to public questions, numbered: without any there is one, of none."""
        return {(): 0}

    @cached_property
    def counted_as(self) -> dict[tuple[str | None, int | None], int]:
        """Where in `groups` a report is counted, by its group and its block; there are no blocks here."""
        return {(group.name, None): place for place, group in enumerate(self.groups)}

    @cached_property
    def row_values(self) -> list[Value | None]:
        """The label of each row of the estimate (`Task.row_values`)."""
        return self.task.row_values(self.values)

    def reading(self, task: Task) -> Plan:
        """The same contract, its reports read for another task. The hash stays: it is about what devices do."""
        other = replace(self, task=task, between=False, recoding=None)
        object.__setattr__(other, "hash", self.hash)
        object.__setattr__(other, "hashes", self.hashes)
        return other

    def reworded(self, question: str | None) -> Plan:
        """The same plan with a corrected question. It carries the earlier wording, so its reports are pooled with the
        earlier ones (`hashes`), and a device that has answered does not draw again.

        >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram", question="Are you il?")
        >>> better = plan.reworded("Are you ill?")
        >>> better.earlier, better.hashes == (plan.hash, better.hash)
        (('Are you il?',), True)
        """
        if question == self.question:
            raise PlanError("This is the wording that the plan has already.")
        return replace(self, question=question, earlier=(*self.earlier, self.question))

    @property
    def group_names(self) -> list[str]:
        """The names of the groups; none where there is one group without a name."""
        return [group.name for group in self.groups if group.name is not None]

    @property
    def takes_weights(self) -> bool:
        """Whether weights of any sign are part of what is asked (`Task.takes_weights`)."""
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
    def hash(self) -> str:
        """SHA-256 of the contract in canonical JSON: it names the plan."""
        return contract_hash(self._fields())

    @cached_property
    def hashes(self) -> tuple[str, ...]:
        """The hashes of this plan in all its wordings, oldest first, its own last; tallies of all of them are pooled.

        Each is computed again by putting the earlier words back. A plan that differs in anything else has another
        hash, so this proves that only words changed. The first one names the wave: it stays when words are corrected.
        """
        now = self._fields()
        before = [
            contract_hash({**_without_earlier(now), "question": words, **_earlier(self.earlier[:place])})
            for place, words in enumerate(self.earlier)
        ]
        return (*before, self.hash)

    @cached_property
    def stored(self) -> str | None:
        """SHA-256 of how reports are stored in two layers: plans of which it is the same share stored reports."""
        told = [each.to_dict() for each in self.groups]
        if any("layers" not in each for each in told):
            return None
        parts = [[each["group"], each["prior"], each["layers"]["stored"]] for each in told]
        return _hash_of(parts)

    @property
    def first_wave(self) -> str:
        """The hash of the first plan of the series, which names it; of a first wave its own, in its first wording."""
        return self.hashes[0] if self.series is None else self.series

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
            **series_fields(self.wave, self.series, self.limit),
            **_earlier(self.earlier),
            **({} if self.follows is None else {"follows": self.follows.to_dict()}),
            **recoding_field(self.recoding),
            "groups": [group.to_dict() for group in self.groups],
        }

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"hash": self.hash} | self._fields()

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
        try:
            if contract_hash(data) != data["hash"]:
                raise PlanError("This plan was altered: its content does not match its hash.")
            domain = data["domain"]
            values = [value_from_text(text) if domain["numeric"] else text for text in domain["values"]]
            groups = tuple(Group.from_dict(group, values) for group in data["groups"])
            between = domain.get("between", False)
            if not isinstance(between, bool):
                raise PlanError("The field 'between' of a domain must be true or false.")
            told = tuple(data.get("earlier", ())), read_limit(data)
            series = data.get("wave", 1), data.get("series"), *told
            follows = Follows.from_dict(data["follows"]) if "follows" in data else None
            more = follows, read_recoding(data)
            plan = cls(Task.from_dict(data["task"], values), groups, data.get("question"), between, *series, *more)
            for group, stored in zip(plan.groups, data["groups"], strict=True):
                group.check_derived(plan.task, stored.get("levels", {}))
            words = (plan.question, *plan.earlier)
            if not all(isinstance(each, str | None) for each in words) or plan.hash != data["hash"]:
                raise PlanError("The question must be a text or null, and everything else written as Tacit writes it.")
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

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read and audit a plan file."""
        return cls.from_dict(read_json(path))


def check_series(plan: AnyPlan) -> None:
    """Raise `PlanError` unless the wave counts from 1, every later wave names the first plan of its series, and the
    limit allows for one report.
    """
    wave, series, limit = plan.wave, plan.series, plan.limit
    if len(plan.earlier) > _MOST_EARLIER:
        raise PlanError(f"A plan has at most {_MOST_EARLIER} earlier wordings. Got {len(plan.earlier)}.")
    if type(wave) is not int or not 1 <= wave < 2**31:
        raise PlanError(f"The wave of a plan must be a whole number, at least 1. Got {wave!r} instead.")
    if (series is None) != (wave == 1):
        raise PlanError("A plan names the first plan of its series from its second wave on, and only then.")
    if series is not None and (not isinstance(series, str) or not re.fullmatch("[0-9a-f]{64}", series)):
        raise PlanError("The series of a plan must be the hash of its first plan, 64 hexadecimal digits.")
    if limit is not None and not max(group.epsilon for group in plan.groups) <= limit <= MAX_EPSILON:
        raise PlanError(f"The limit of a plan must be from its own ε to {MAX_EPSILON}. Got {float(limit):g} instead.")


def series_fields(wave: int, series: str | None, limit: Fraction | None) -> dict[str, Any]:
    """For JSON; left out in a first wave, and without a limit."""
    told: dict[str, Any] = {} if series is None else {"wave": wave, "series": series}
    return told if limit is None else told | {"limit": str(limit)}


def read_limit(data: Mapping[str, Any]) -> Fraction | None:
    """The limit of a plan's JSON; None without one."""
    return exact_ratio(data["limit"]) if "limit" in data else None


def recoding_field(recoding: Recoding | None) -> dict[str, Any]:
    """For JSON; left out where there is none."""
    return {} if recoding is None else {"recoding": recoding.to_dict()}


def read_recoding(data: Mapping[str, Any]) -> Recoding | None:
    """The inverse of `recoding_field`, of the JSON of a plan."""
    return Recoding.from_dict(data["recoding"]) if "recoding" in data else None


def _earlier(words: Sequence[str | None]) -> dict[str, Any]:
    return {"earlier": list(words)} if words else {}


def _without_earlier(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: field for name, field in fields.items() if name != "earlier"}


def malformed(error: Exception) -> PlanError:
    """What is wrong with a plan that cannot be read, in words of plans rather than Python's.

    Args:
        error: what Python raised.

    Returns:
        The error to raise.

    >>> print(malformed(KeyError("epsilon")))
    This plan is malformed: the field 'epsilon' is missing.
    """
    missing = isinstance(error, KeyError)
    what = f"the field {error} is missing" if missing else "a field holds what it cannot hold; see docs/plan.md"
    return PlanError(f"This plan is malformed: {what}.")


def read_json(path: str | Path) -> dict[str, Any]:
    """The JSON object in a plan file.

    Args:
        path: the file.

    Returns:
        The object.

    Raises:
        PlanError: the file is not a JSON object.

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


def contract_hash(data: Mapping[str, Any]) -> str:
    """SHA-256 over the contract: sorted keys, no spaces, UTF-8, without the hash and the derived fields.

    The contract holds only strings, small integers, booleans, nulls, lists and objects, so every language writes the
    same canonical text.

    Args:
        data: a plan as `Plan.to_dict` gives it.

    Returns:
        64 hexadecimal digits.

    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> contract_hash(plan.to_dict()) == plan.hash
    True
    """
    groups = [{key: part for key, part in group.items() if key not in _DERIVED} for group in data["groups"]]
    contract = {key: part for key, part in data.items() if key != "hash"} | {"groups": groups}
    return _hash_of(contract)


def _hash_of(content: Any) -> str:
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def value_from_text(text: str) -> Value:
    """A numeric value as it was written.

    Args:
        text: the number as a plan writes it.

    Returns:
        The number.

    >>> value_from_text("3"), value_from_text("0.5")
    (3, 0.5)
    """
    if len(text) > 1000:
        raise PlanError("A number of a plan has at most 1000 digits.")
    try:
        return int(text)
    except ValueError:
        return float(text)
