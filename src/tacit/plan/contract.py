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
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from tacit.exact import at_most_exp, budget, log_above
from tacit.mechanism.auditing import Audit, Notion, audit, belief
from tacit.mechanism.core_tail import POSITION_BITS, CoreTail
from tacit.mechanism.table import Channel
from tacit.plan.certificate import Certificate
from tacit.plan.saving import write_text
from tacit.prior import Prior, Value
from tacit.task import Histogram, Sum, Survey, Task, WeightedSum

FORMAT = 1
#: Derived fields: they are verified against the contract, not part of it, so the hash leaves them out.
_DERIVED = ("certificate", "levels")


class PlanError(ValueError):
    """A plan that cannot be used: malformed, altered, or not keeping its promise."""


@dataclass(frozen=True)
class Group:
    """People who share a prior, a budget and a mechanism: an age band, a region, everybody (name None).

    `weight` and `offset` are the group's a and b in a weighted sum Σ a·x + b.
    """

    name: str | None
    prior: Prior
    epsilon: Fraction
    mechanism: Channel | CoreTail
    notion: Notion = "lip"
    weight: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)
    certificate: Certificate | None = None

    @cached_property
    def _audit(self) -> Audit:
        assert isinstance(self.mechanism, Channel)
        return audit(self.mechanism, self.prior)

    @property
    def odds_ratio(self) -> Fraction | None:
        """The factor by which a report can move odds at most, whatever is believed; None if there is no bound."""
        if isinstance(self.mechanism, CoreTail):
            highest, lowest = self.mechanism.levels()
            return highest / lowest
        return self._audit.ldp.ratio

    @cached_property
    def levels(self) -> dict[str, float]:
        """The exact privacy levels, rounded up."""
        if isinstance(self.mechanism, CoreTail):
            highest, lowest = self.mechanism.levels()
            upper, lower = log_above(highest), log_above(1 / lowest)
            # Mutual information is an average of log-lifts, and log-lifts are at most the upper level.
            ldp = log_above(highest / lowest)
            return {"lip": max(upper, lower), "lip_upper": upper, "lip_lower": lower, "ldp": ldp, "mip": upper}
        levels = self._audit
        return {
            "lip": levels.lip.epsilon,
            "lip_upper": levels.lip_upper.epsilon,
            "lip_lower": levels.lip_lower.epsilon,
            "ldp": levels.ldp.epsilon,
            "mip": levels.mip,
        }

    @property
    def report_range(self) -> tuple[int, int]:
        """How many states and how many positions reports have; a table is a mechanism with one state."""
        if isinstance(self.mechanism, CoreTail):
            return len(self.mechanism.states), self.mechanism.cells
        return 1, self.mechanism.n_outputs

    def can_send(self, report: int) -> bool:
        """Whether the mechanism has such a report."""
        states, positions = self.report_range
        state, position = report >> POSITION_BITS, report & (1 << POSITION_BITS) - 1
        return 0 <= state < states and position < positions

    def check(self) -> None:
        """Raise `PlanError` with the witness unless the mechanism keeps the promise, exactly."""
        name = "this plan" if self.name is None else f"group {self.name!r}"
        stated = f"{name} states {self.notion.upper()} ε = {float(self.epsilon):g} but reaches"
        if isinstance(self.mechanism, CoreTail):
            if self.mechanism.weights != self.prior.on_support().weights:
                raise PlanError(f"The mechanism of {name} was made for another prior.")
            highest, lowest = self.mechanism.levels()
            ratio = highest / lowest if self.notion == "ldp" else max(highest, 1 / lowest)
            if not at_most_exp(ratio, self.epsilon):
                raise PlanError(f"The promise is not kept: {stated} {log_above(ratio):.6g}.")
            return
        levels = self._audit
        level = levels.ldp if self.notion == "ldp" else levels.lip
        if not level.holds(self.epsilon):
            witness = belief(self.mechanism, self.prior, level.value)
            raise PlanError(f"The promise is not kept: {stated} {level.epsilon:.6g}; {witness}.")

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the contract in integers and strings, then what is derived from it."""
        return {
            "group": self.name,
            "epsilon": str(self.epsilon),
            "notion": self.notion,
            "prior": [str(weight) for weight in self.prior.weights],
            "weight": str(self.weight),
            "offset": str(self.offset),
            "mechanism": _mechanism_to_dict(self.mechanism),
            "levels": {name: None if math.isinf(level) else level for name, level in self.levels.items()},
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], values: Sequence[Value]) -> Group:
        """The inverse of `to_dict`; levels are computed again."""
        if not isinstance(data["group"], str | None) or data["notion"] not in get_args(Notion):
            raise PlanError("A group needs a name that is a text or null, and a notion of privacy that is known.")
        prior = Prior(values, _integers(data["prior"]))
        certificate = data.get("certificate")
        return cls(
            data["group"],
            prior,
            budget(_ratio(data["epsilon"])),
            _mechanism_from_dict(data["mechanism"], prior),
            data["notion"],
            _ratio(data["weight"]),
            _ratio(data["offset"]),
            None if certificate is None else Certificate.from_dict(certificate),
        )


@dataclass(frozen=True)
class Plan:
    """A task and the groups it is asked of, all over the same values."""

    task: Task
    groups: tuple[Group, ...]
    question: str | None = None

    def __post_init__(self) -> None:
        names = [group.name for group in self.groups]
        if not names or len(set(names)) < len(names) or (None in names and len(names) > 1):
            raise PlanError("A plan needs one unnamed group, or several groups with different names.")
        if any(group.prior.values != self.values for group in self.groups):
            raise PlanError("All groups of a plan must have the same values, in the same order.")
        if not isinstance(self.task, Histogram):
            # Refuses a sum of names, or a survey of a value that is not there.
            self.task.g(self.groups[0].prior)
        for group in self.groups:
            group.check()

    @property
    def values(self) -> tuple[Value, ...]:
        """The domain: what a respondent can answer."""
        return self.groups[0].prior.values

    def group(self, name: str | None) -> Group:
        """The group of that name."""
        for group in self.groups:
            if group.name == name:
                return group
        raise KeyError(f"This plan has no group {name!r}.")

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the contract in canonical JSON: it names the plan."""
        return contract_hash(self._fields())

    def _fields(self) -> dict[str, Any]:
        numeric = self.groups[0].prior.is_numeric
        return {
            "tacit_plan": FORMAT,
            "question": self.question,
            "task": task_to_dict(self.task, self.groups[0].prior),
            "domain": {"numeric": numeric, "values": [str(value) for value in self.values]},
            "groups": [group.to_dict() for group in self.groups],
        }

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"hash": self.hash} | self._fields()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """Read, check the hash and audit a plan."""
        if data.get("tacit_plan") != FORMAT:
            raise PlanError(f"Not a plan of format {FORMAT}. Got {data.get('tacit_plan')!r} instead.")
        try:
            if contract_hash(data) != data["hash"]:
                raise PlanError("This plan was altered: its content does not match its hash.")
            domain = data["domain"]
            values = [value_from_text(text) if domain["numeric"] else text for text in domain["values"]]
            groups = tuple(Group.from_dict(group, values) for group in data["groups"])
            plan = cls(task_from_dict(data["task"], values), groups, data.get("question"))
            plan._check_derived(data["groups"])
            if not isinstance(plan.question, str | None) or plan.hash != data["hash"]:
                raise PlanError("The question must be a text or null, and everything else written as Tacit writes it.")
        except PlanError:
            raise
        except ValueError as error:
            raise PlanError(f"This plan is refused: {error}") from error
        except (KeyError, TypeError, AttributeError, IndexError, ArithmeticError) as error:
            raise PlanError(f"This plan is malformed: {type(error).__name__} at {error}.") from error
        return plan

    def _check_derived(self, stored: Sequence[Mapping[str, Any]]) -> None:
        """Stated levels may not be better than the real ones."""
        for group, data in zip(self.groups, stored, strict=True):
            for name, level in data.get("levels", {}).items():
                if level is not None and level < group.levels.get(name, math.inf) * (1 - 1e-9):
                    raise PlanError(f"This plan understates the {name} level of group {group.name!r}: {level}.")

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON, atomically."""
        write_text(path, json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read and audit a plan file."""
        return cls.from_dict(read_json(path))


def read_json(path: str | Path) -> dict[str, Any]:
    """The JSON object in a plan file."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise PlanError(f"{path} is not JSON: {error}.") from error
    if not isinstance(data, dict):
        raise PlanError(f"{path} is not a plan.")
    return data


def contract_hash(data: Mapping[str, Any]) -> str:
    """SHA-256 over the contract: sorted keys, no spaces, UTF-8, without the hash and the derived fields.

    The contract holds only strings, small integers, booleans, nulls, lists and objects, so every language writes the
    same canonical text.
    """
    groups = [{key: part for key, part in group.items() if key not in _DERIVED} for group in data["groups"]]
    contract = {key: part for key, part in data.items() if key != "hash"} | {"groups": groups}
    text = json.dumps(contract, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _mechanism_to_dict(mechanism: Channel | CoreTail) -> dict[str, Any]:
    if isinstance(mechanism, CoreTail):
        return mechanism.to_dict()
    position = {value: x for x, value in enumerate(mechanism.values)}
    return {
        "kind": "table",
        "denominator": str(mechanism.denominator),
        "labels": [position[label] for label in mechanism.labels],
        "rows": [[str(cell) for cell in row] for row in mechanism.weights],
    }


def _mechanism_from_dict(data: Mapping[str, Any], prior: Prior) -> Channel | CoreTail:
    if data["kind"] == "core-tail":
        _ratio(data["share"]), _ratio(data["growth"])
        return CoreTail.from_dict(data, prior.on_support().weights)
    if data["kind"] != "table":
        raise PlanError(f"Unknown mechanism {data['kind']!r}.")
    rows = [_integers(row) for row in data["rows"]]
    channel = Channel.from_weights(prior, rows, [prior.values[x] for x in data["labels"]])
    if str(channel.denominator) != data["denominator"]:
        raise PlanError("The rows of a mechanism must sum to its denominator.")
    if channel.denominator & (channel.denominator - 1):
        raise PlanError("The denominator of a mechanism must be a power of two, so that devices can draw from it.")
    return channel


def _integers(texts: Sequence[str]) -> list[int]:
    """Integers as the contract writes them: digits in strings, and nothing else that Python would read."""
    if not isinstance(texts, list) or not all(re.fullmatch(r"-?[0-9]+", text) for text in texts):
        raise PlanError("The integers of a plan must be lists of strings of digits.")
    return [int(text) for text in texts]


def _ratio(text: str) -> Fraction:
    """A rational as the contract writes it. An exponent would ask for a number of any size."""
    if not re.fullmatch(r"-?[0-9]{1,1000}(/0*[1-9][0-9]{0,999})?", text):
        raise PlanError("The rationals of a plan must be written as integer or integer/integer, in strings.")
    return Fraction(text)


def task_to_dict(task: Task, prior: Prior) -> dict[str, Any]:
    """A task for JSON."""
    if isinstance(task, Survey):
        return {"kind": "survey", "values": [prior.position(value) for value in task.wanted]}
    kinds = {Sum: "sum", WeightedSum: "weighted-sum", Histogram: "histogram"}
    if type(task) not in kinds:
        raise PlanError(f"A plan cannot hold the task {type(task).__name__}.")
    return {"kind": kinds[type(task)]}


def task_from_dict(data: Mapping[str, Any], values: Sequence[Value]) -> Task:
    """The inverse of `task_to_dict`."""
    if data["kind"] == "survey":
        if min(data["values"]) < 0:
            raise PlanError("A survey's values are positions in the domain, from 0.")
        wanted = [values[x] for x in data["values"]]
        return Survey(wanted[0]) if len(wanted) == 1 else Survey(tuple(wanted))
    kinds: dict[str, Task] = {"sum": Sum(), "weighted-sum": WeightedSum(), "histogram": Histogram()}
    return kinds[data["kind"]]


def value_from_text(text: str) -> Value:
    """A numeric value as it was written."""
    try:
        return int(text)
    except ValueError:
        return float(text)
