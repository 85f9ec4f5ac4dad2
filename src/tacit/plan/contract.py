"""The plan: the one contract between client, collector and analyst. JSON, exact integers, named by its content.

A plan says what is asked, of which groups, with which prior and budget, and which integers each device uses. Nothing
else is needed to randomize, to tally or to estimate. Reading a plan audits it again: one whose integers do not keep
the promise it states is refused. Every field is described in docs/plan.md and in plan.schema.json.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from tacit.disk import write_text
from tacit.exact import Number, budget, exact_integers, exact_ratio
from tacit.mechanism import KINDS, Audit, Mechanism, Notion, SetLevel, mse, unbiased_variance
from tacit.mechanism.errors import takes_long
from tacit.mechanism.levels import PROMISED
from tacit.plan.certificate import Certificate, is_number
from tacit.prior import Ball, Prior, PriorSet, Value, has_unseen, read_set
from tacit.task import Task, prior_variance

FORMAT = 1
#: The errors per respondent that a certificate states.
ErrorField = Literal["aimed", "aimed_for_participants", "ldp_aimed", "prior_variance"]
#: Derived fields: they are verified against the contract, not part of it, so the hash leaves them out.
_DERIVED = ("certificate", "levels")
#: Derived numbers are floats: two machines may differ by this share.
_TOLERANCE = 1e-6


class PlanError(ValueError):
    """A plan that cannot be used: malformed, altered, or not keeping its promise."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """People who share a prior, a budget and a mechanism: an age band, a region, everybody (name None).

    With a `prior_set` LIP is promised for every prior of the set, not for the group's own alone. `ldp_cap` is an LDP
    level that is promised as well. `weight` and `offset` are the group's a and b in a weighted sum
    Σ a·x + b.
    """

    name: str | None
    epsilon: Fraction
    mechanism: Mechanism
    notion: Notion = "lip"
    ldp_cap: Fraction | None = None
    prior_set: PriorSet | None = None
    weight: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)
    certificate: Certificate | None = None

    @property
    def prior(self) -> Prior:
        """The prior that the mechanism is bound to."""
        return self.mechanism.prior

    @cached_property
    def audit(self) -> Audit:
        """The levels that the mechanism really reaches under the group's prior."""
        return self.mechanism.audit()

    @property
    def without_prior(self) -> bool:
        """Whether there is no prior to speak of: LDP holds whatever is believed, and all values are alike."""
        return self.notion == "ldp" and self.prior.is_uniform

    @property
    def promised(self) -> dict[Notion, Fraction]:
        """All that is promised: a level for each notion."""
        promised = {self.notion: self.epsilon}
        if self.ldp_cap is not None:
            # Beside a promise of LDP a cap can only tighten it.
            promised["ldp"] = min(self.ldp_cap, promised.get("ldp", self.ldp_cap))
        return promised

    @cached_property
    def levels(self) -> dict[str, float]:
        """The same as numbers, rounded up."""
        found = self.audit
        return {
            "lip": found.lip.epsilon,
            "lip_upper": found.lip_upper.epsilon,
            "lip_lower": found.lip_lower.epsilon,
            "ldp": found.ldp.epsilon,
            "mip": found.mip,
            **({} if self.set_levels is None else {"lip_set": max(side.epsilon for side in self.set_levels)}),
        }

    def check(self) -> None:
        """Raise `PlanError` with the witness unless the mechanism keeps the promise, exactly."""
        if self.notion not in PROMISED:
            raise PlanError(f"A plan promises {' or '.join(PROMISED)}. Got the notion {self.notion!r} instead.")
        if self.prior_set is not None:
            self._check_set(self.prior_set)
        for notion, level in self.promised.items():
            if self.mechanism.keeps(notion, level):
                continue
            name = "this plan" if self.name is None else f"group {self.name!r}"
            reached = self.levels["ldp" if notion == "ldp" else "lip"]
            raise PlanError(
                f"The promise is not kept: {name} states {notion.upper()} ε = {float(level):g} but reaches "
                f"{reached:.6g}; {self.audit.witness}."
            )

    def _check_set(self, prior_set: PriorSet) -> None:
        name = "this plan" if self.name is None else f"group {self.name!r}"
        if prior_set.prior != self.prior or self.notion != "lip":
            raise PlanError(f"A set of priors must lie around the prior of {name}, and refines LIP.")
        broken = [side for side in self.set_levels or () if not side.holds(self.epsilon)]
        if broken:
            side = max(broken, key=lambda side: side.epsilon)
            worst = "" if side.worst is None else f", under the prior {side.worst}"
            raise PlanError(
                f"The promise is not kept: {name} states LIP ε = {float(self.epsilon):g} for a set of priors but "
                f"reaches {side.epsilon:.6g}{worst}."
            )

    @cached_property
    def set_levels(self) -> tuple[SetLevel, SetLevel] | None:
        """The levels of raising and lowering beliefs for the worst prior of the set; None where there is no set."""
        return None if self.prior_set is None else self.mechanism.set_levels(self.prior_set)

    def levels_within(self, radius: Number) -> float:
        """The LIP level if the prior is off by total variation `radius`, and no more; exact or bounded, rounded up."""
        upper, lower = self.mechanism.set_levels(Ball(self.prior, radius))
        return max(upper.epsilon, lower.epsilon)

    def check_derived(self, task: Task, levels: Mapping[str, float | None]) -> None:
        """Raise `PlanError` unless what is stated beside the contract follows from it, as far as that is quickly found.

        Levels may not be better than the real ones; the certificate's errors must be those of the mechanism. Bounds,
        LDP's errors and the errors of large planes stay as the planner stated them: `tacit audit` finds them again.
        """
        for name, level in levels.items():
            if level is not None and not is_number(level):
                raise PlanError(f"The {name} level of group {self.name!r} must be a number or null.")
            if level is not None and level < self.levels.get(name, math.inf) * (1 - _TOLERANCE):
                raise PlanError(f"This plan understates the {name} level of group {self.name!r}: {level}.")
        stated = self.certificate
        if stated is None:
            return
        if stated.duals is not None and len(stated.duals) > len(self.prior.support) + 1:
            raise PlanError(f"The certificate of group {self.name!r} has more duals than there are possible values.")
        found = {"prior_variance": prior_variance(self.prior, task)}
        if not takes_long(self.mechanism):
            found["mse"] = mse(self.mechanism, task)
            if stated.unbiased_variance != math.inf:
                found["unbiased_variance"] = unbiased_variance(self.mechanism, task)
        for name, number in found.items():
            claim = getattr(stated, name)
            # An error far below the variance is a difference of nearly equal floats.
            rounding = 1e-12 * found["prior_variance"]
            if not math.isclose(claim, number, rel_tol=_TOLERANCE, abs_tol=rounding):
                raise PlanError(
                    f"The certificate of group {self.name!r} states {name} = {claim}; its mechanism has {number:.9g}."
                )
        if stated.aimed_lower_bound > stated.aimed * (1 + _TOLERANCE) + 1e-12 * stated.prior_variance:
            raise PlanError(f"The certificate of group {self.name!r} states a bound above what its mechanism reaches.")

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the contract in integers and strings, then what is derived from it."""
        return {
            "group": self.name,
            "epsilon": str(self.epsilon),
            "notion": self.notion,
            **({} if self.ldp_cap is None else {"ldp_cap": str(self.ldp_cap)}),
            **({} if self.prior_set is None else {"prior_set": self.prior_set.to_dict()}),
            "prior": [str(weight) for weight in self.prior.weights],
            "weight": str(self.weight),
            "offset": str(self.offset),
            "mechanism": self.mechanism.to_dict(),
            "levels": {name: None if math.isinf(level) else level for name, level in self.levels.items()},
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], values: Sequence[Value]) -> Group:
        """The inverse of `to_dict`; levels are computed again."""
        if not isinstance(data["group"], str | None):
            raise PlanError("The name of a group must be a text or null.")
        if data["mechanism"]["kind"] not in KINDS:
            raise PlanError(f"Unknown mechanism {data['mechanism']['kind']!r}. This version knows {', '.join(KINDS)}.")
        prior = Prior(values, exact_integers(data["prior"]))
        certificate = data.get("certificate")
        return cls(
            name=data["group"],
            epsilon=budget(exact_ratio(data["epsilon"])),
            mechanism=KINDS[data["mechanism"]["kind"]].from_dict(data["mechanism"], prior),
            notion=data["notion"],
            ldp_cap=budget(exact_ratio(data["ldp_cap"]), "ldp_cap") if "ldp_cap" in data else None,
            prior_set=read_set(data["prior_set"], prior) if "prior_set" in data else None,
            weight=exact_ratio(data["weight"]),
            offset=exact_ratio(data["offset"]),
            certificate=None if certificate is None else Certificate.from_dict(certificate),
        )


@dataclass(frozen=True)
class Plan:
    """A task and the groups it is asked of, all over the same values.

    Where answers may lie `between` the values, which then are numbers in ascending order, an answer is first rounded at
    random to one of its two neighbours (`Randomizer.rounded`), so that its expectation stays what it is: a question for
    a number needs no categories, and its sum is estimated as if the values were all there is.
    """

    task: Task
    groups: tuple[Group, ...]
    question: str | None = None
    between: bool = False

    def __post_init__(self) -> None:
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
        for group in self.groups:
            group.check()

    def _planned_task(self) -> Task:
        """The task as JSON can hold it, which must be the same for all groups."""
        first, *others = (self.task.as_planned(group.prior) for group in self.groups)
        if any(other != first for other in others):
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

    @cached_property
    def row_values(self) -> list[Value | None]:
        """The label of each row of the estimate (`Task.row_values`)."""
        return self.task.row_values(self.values)

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
            "groups": [group.to_dict() for group in self.groups],
        }

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"hash": self.hash} | self._fields()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """Read, check the hash and audit a plan."""
        if data.get("tacit_plan") != FORMAT:
            if "tacit_tally" in data:
                raise PlanError("This is a tally. A plan is what `tacit plan` writes; commands take it first.")
            if "tacit_personal_plan" in data:
                raise PlanError(
                    "This is a plan for individual priors: use `tacit personal perturb`, `tally`, `estimate`."
                )
            raise PlanError(f"Not a plan of format {FORMAT}. Got {data.get('tacit_plan')!r} instead.")
        try:
            if contract_hash(data) != data["hash"]:
                raise PlanError("This plan was altered: its content does not match its hash.")
            domain = data["domain"]
            values = [value_from_text(text) if domain["numeric"] else text for text in domain["values"]]
            groups = tuple(Group.from_dict(group, values) for group in data["groups"])
            between = domain.get("between", False)
            if not isinstance(between, bool):
                raise PlanError("The field 'between' of a domain must be true or false.")
            plan = cls(Task.from_dict(data["task"], values), groups, data.get("question"), between)
            for group, stored in zip(plan.groups, data["groups"], strict=True):
                group.check_derived(plan.task, stored.get("levels", {}))
            if not isinstance(plan.question, str | None) or plan.hash != data["hash"]:
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


def malformed(error: Exception) -> PlanError:
    """What is wrong with a plan that cannot be read, in words of plans rather than Python's.

    >>> print(malformed(KeyError("epsilon")))
    This plan is malformed: the field 'epsilon' is missing.
    """
    missing = isinstance(error, KeyError)
    what = f"the field {error} is missing" if missing else "a field holds what it cannot hold; see docs/plan.md"
    return PlanError(f"This plan is malformed: {what}.")


def read_json(path: str | Path) -> dict[str, Any]:
    """The JSON object in a plan file."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_no_json)
    except (PlanError, json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PlanError(f"{path} is not JSON: {error}.") from error
    if not isinstance(data, dict):
        raise PlanError(f"{path} is not a plan.")
    return data


def _no_json(constant: str) -> None:
    # NaN and Infinity, which Python would take and nobody else.
    raise PlanError(f"{constant} is no number of JSON")


def contract_hash(data: Mapping[str, Any]) -> str:
    """SHA-256 over the contract: sorted keys, no spaces, UTF-8, without the hash and the derived fields.

    The contract holds only strings, small integers, booleans, nulls, lists and objects, so every language writes the
    same canonical text.
    """
    groups = [{key: part for key, part in group.items() if key not in _DERIVED} for group in data["groups"]]
    contract = {key: part for key, part in data.items() if key != "hash"} | {"groups": groups}
    text = json.dumps(contract, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def value_from_text(text: str) -> Value:
    """A numeric value as it was written."""
    if len(text) > 1000:
        raise PlanError("A number of a plan has at most 1000 digits.")
    try:
        return int(text)
    except ValueError:
        return float(text)
