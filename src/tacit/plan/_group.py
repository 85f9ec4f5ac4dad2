"""A group of a plan: one prior, one budget, one mechanism, the exact check that it keeps the promise, and the
certificate: how good the mechanism is, and how good any could be.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, get_args

from tacit.exact import Number, budget, exact_integers, exact_ratio
from tacit.mechanism import KINDS, Audit, Mechanism, Notion, SetLevel, mse, unbiased_variance
from tacit.mechanism.repeated import Layers
from tacit.prior import Ball, Prior, PriorSet, Value, read_set
from tacit.task import Task, prior_variance

#: Derived numbers are floats: two machines may differ by this share.
_TOLERANCE = 1e-6
#: A level that is found, not chosen, is stated with four decimals.
_DECIMALS = 10_000


class PlanError(ValueError):
    """A plan that cannot be used: malformed, altered, or not keeping its promise."""


#: What a design is best for: the estimate that uses the prior, or the one that does not.
Aim = Literal["mmse", "unbiased"]


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What a design achieves, per respondent, and a proven bound on what any channel under the same promise can.

    `mse` is the error of the MMSE estimate if the prior is right, `unbiased_variance` the variance, at the prior, of
    the best estimate that does not use it (∞ where there is none); both are computed from the integers of the finished
    channel. No channel has less than `lower_bound` of the one that belongs to the `aim`. `duals` prove it where it
    comes from a linear program (`tacit.designs._verification`). `ldp_aimed` is the same error of the best LDP channel
    found for the same prior, ε and aim, for comparison; None where none was searched for.

    `status`, `iterations` and `seconds` say how the search went. They prove nothing, so a plan does not keep them.
    """

    aim: Aim
    mse: float
    unbiased_variance: float
    prior_variance: float
    lower_bound: float = 0.0
    method: str
    duals: tuple[float, ...] | None = None
    notes: tuple[str, ...] = ()
    ldp_aimed: float | None = None
    status: str = ""
    iterations: int = 0
    seconds: float = 0.0

    @property
    def aimed(self) -> float:
        """What the aim is about: `mse` or `unbiased_variance`."""
        return self.mse if self.aim == "mmse" else self.unbiased_variance

    @property
    def aimed_for_participants(self) -> float:
        """The same for the total of those who take part: an unbiased variance without the spread of the answers, which
        is part of it where the respondents stand for a population.
        """
        return self.mse if self.aim == "mmse" else max(0.0, self.unbiased_variance - self.prior_variance)

    @property
    def gain(self) -> float:
        """The part of the prior variance that a report removes."""
        return self.prior_variance - self.mse

    @property
    def gain_bound(self) -> float:
        """No channel under the same promise removes more; all of the prior variance where the aim is "unbiased"."""
        return self.prior_variance - (self.lower_bound if self.aim == "mmse" else 0.0)

    @property
    def gap(self) -> float:
        """What a better channel could still win: of the gain for "mmse", of the variance for "unbiased"."""
        most = self.gain_bound if self.aim == "mmse" else self.unbiased_variance
        if not 0 < most < math.inf:
            return 0.0
        return max(0.0, (self.aimed - self.lower_bound) / most)

    def to_dict(self) -> dict[str, Any]:
        """For JSON: what `tacit audit` can compute again, and how the design was found. ∞ is null."""
        stated = {name: getattr(self, name) for name in _FIELDS}
        stated |= {name: None if number == math.inf else number for name, number in stated.items()}
        return stated | {"duals": None if self.duals is None else list(self.duals), "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Certificate:
        """The inverse of `to_dict`. Refuses other fields and other kinds of them."""
        _check(data)
        duals, variance = data["duals"], data["unbiased_variance"]
        read = {
            "unbiased_variance": math.inf if variance is None else variance,
            "duals": None if duals is None else tuple(duals),
            "notes": tuple(data["notes"]),
        }
        return cls(**{**data, **read})


_FIELDS = (
    "aim", "mse", "unbiased_variance", "prior_variance", "lower_bound", "ldp_aimed", "method", "duals", "notes",
)  # fmt: skip


def _check(data: Mapping[str, Any]) -> None:
    """Raise `ValueError` where a field is of another kind than `to_dict` writes."""
    if set(data) != set(_FIELDS):
        raise ValueError(f"A certificate has the fields {', '.join(sorted(_FIELDS))}.")
    for name in ("mse", "unbiased_variance", "prior_variance", "lower_bound", "ldp_aimed"):
        absent = name in ("unbiased_variance", "ldp_aimed") and data[name] is None
        if not absent and not (_is_number(data[name]) and data[name] >= 0):
            raise ValueError(f"The field {name!r} of a certificate must be a number from 0.")
    if data["aim"] not in get_args(Aim) or not isinstance(data["method"], str):
        raise ValueError("A certificate needs an aim that is known, and a method that is a text.")
    duals, notes = data["duals"], data["notes"]
    if not isinstance(notes, list | tuple) or not all(isinstance(note, str) for note in notes):
        raise ValueError("The notes of a certificate must be a list of texts.")
    if duals is not None and not (isinstance(duals, list) and all(map(_is_number, duals))):
        raise ValueError("The duals of a certificate must be a list of finite numbers, or null.")


def _is_number(number: Any) -> bool:
    """Whether a float can hold it: no boolean, no text, finite."""
    return type(number) in (int, float) and -sys.float_info.max <= number <= sys.float_info.max


@dataclass(frozen=True, kw_only=True)
class Group:
    """People who share a prior, a budget and a mechanism: an age band, a region, or all people (name None).

    With a `prior_set` LIP is promised for every prior of the set, not for the group's own alone. `ldp_cap` is an LDP
    level that is promised as well. `weight` and `offset` are the group's a and b in a weighted sum
    Σ a·x + b. With `layers` devices store a report of each answer, and send it again or another in every wave; the
    mechanism is then their product, what one wave sends.
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
    layers: Layers | None = None

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
        """Whether the plan uses no prior: LDP holds under any belief, and all values have the same probability."""
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
        """The levels that the mechanism reaches, as floats rounded up: for each notion, and for the set of priors."""
        found = self.audit
        return {
            "lip": found.lip.epsilon,
            "lip_upper": found.lip_upper.epsilon,
            "lip_lower": found.lip_lower.epsilon,
            "ldp": found.ldp.epsilon,
            "mip": found.mip,
            **({} if self.set_levels is None else {"lip_set": max(side.epsilon for side in self.set_levels)}),
        }

    @property
    def _name(self) -> str:
        return "this plan" if self.name is None else f"group {self.name!r}"

    def _contract(self) -> tuple[object, ...]:
        promised = (self.epsilon, self.notion, self.ldp_cap, self.prior_set)
        layers = None if self.layers is None else self.layers.to_dict()
        return self.name, *promised, self.weight, self.offset, self.prior, self.mechanism.to_dict(), layers

    def __eq__(self, other: object) -> bool:
        """Whether both are the same contract: everything but the certificate, which is derived."""
        return isinstance(other, Group) and self._contract() == other._contract()

    def __hash__(self) -> int:
        return hash((self.name, self.epsilon, self.notion, self.prior))

    def check(self) -> None:
        """Raise `PlanError` with the witness unless the mechanism keeps the promise, exactly."""
        if self.notion not in get_args(Notion):
            raise PlanError(f"A plan promises {' or '.join(get_args(Notion))}. Got the notion {self.notion!r} instead.")
        if self.prior_set is not None:
            self._check_set(self.prior_set)
        if self.layers is not None:
            self._check_layers(self.layers)
        for notion, level in self.promised.items():
            if self.mechanism.keeps(notion, level):
                continue
            reached = self.levels["ldp" if notion == "ldp" else "lip"]
            raise PlanError(
                f"The promise is not kept: {self._name} states {notion.upper()} ε = {float(level):g} but reaches "
                f"{reached:.6g}; {self.audit.witness}."
            )

    def _check_layers(self, layers: Layers) -> None:
        if layers.product.to_dict() != self.mechanism.to_dict():
            raise PlanError(f"The mechanism of {self._name} must be the product of its two layers, integer by integer.")
        if layers.lifelong < self.epsilon or self.ldp_cap is not None:
            raise PlanError(f"The lifelong level of {self._name} must be at least its ε, without an LDP cap beside it.")
        if not layers.keeps(self.notion, self.prior_set):
            raise PlanError(
                f"The promise is not kept: the stored report of {self._name} does not keep the lifelong "
                f"{self.notion.upper()} level {float(layers.lifelong):g}."
            )

    def _check_set(self, prior_set: PriorSet) -> None:
        if prior_set.prior != self.prior or self.notion != "lip":
            raise PlanError(f"A set of priors must lie around the prior of {self._name}, and refines LIP.")
        broken = [side for side in self.set_levels or () if not side.holds(self.epsilon)]
        if broken:
            side = max(broken, key=lambda side: side.epsilon)
            worst = "" if side.worst is None else f", under the prior {side.worst}"
            raise PlanError(
                f"The promise is not kept: {self._name} states LIP ε = {float(self.epsilon):g} for a set of priors but "
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
        """Raise `PlanError` unless the fields beside the contract follow from it, as far as they are quick to compute.

        Levels may not be better than the real ones; the certificate's errors must be those of the mechanism. Bounds,
        LDP's errors and the errors of large planes stay as the planner stated them: `tacit audit` finds them again.
        """
        for name, level in levels.items():
            if level is not None and not _is_number(level):
                raise PlanError(f"The {name} level of group {self.name!r} must be a number or null.")
            if level is not None and level < self.levels.get(name, math.inf) * (1 - _TOLERANCE):
                raise PlanError(f"This plan understates the {name} level of group {self.name!r}: {level}.")
        stated = self.certificate
        if stated is None:
            return
        most = len(self.prior.support) * (1 + len(task.row_values(self.prior.values))) + 1
        if stated.duals is not None and len(stated.duals) > most:
            raise PlanError(f"The certificate of group {self.name!r} has more duals than its values and totals allow.")
        found = {"prior_variance": prior_variance(self.prior, task)}
        if self.mechanism.is_quick:
            found["mse"] = mse(self.mechanism, task)
            found["unbiased_variance"] = unbiased_variance(self.mechanism, task)
        for name, number in found.items():
            claim = getattr(stated, name)
            # An error far below the variance is a difference of nearly equal floats.
            rounding = 1e-12 * found["prior_variance"]
            if not math.isclose(claim, number, rel_tol=_TOLERANCE, abs_tol=rounding):
                raise PlanError(
                    f"The certificate of group {self.name!r} states {name} = {claim}; its mechanism has {number:.9g}."
                )
        if stated.lower_bound > stated.aimed * (1 + _TOLERANCE) + 1e-12 * stated.prior_variance:
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
            **({} if self.layers is None else {"layers": self.layers.to_dict()}),
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
            layers=Layers.from_dict(data["layers"], prior) if "layers" in data else None,
        )


def smallest_level(mechanism: Mechanism, notion: Notion, level: float) -> Fraction:
    """The smallest ε of four decimals that the mechanism keeps, decided exactly, near its `level` as a float.

    >>> from tacit import Channel
    >>> smallest_level(Channel.from_weights(Prior.uniform(["yes", "no"]), [[3, 1], [1, 3]]), "ldp", 1.0987)
    Fraction(10987, 10000)
    """
    steps = math.floor(level * _DECIMALS)
    return next(
        epsilon
        for epsilon in (Fraction(step, _DECIMALS) for step in range(max(0, steps - 1), steps + 3))
        if mechanism.keeps(notion, epsilon)
    )
