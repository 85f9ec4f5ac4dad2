"""A group of a plan: one prior, one budget, one mechanism, and the exact check that it keeps the promise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, get_args

from tacit.exact import Number, budget, exact_integers, exact_ratio
from tacit.mechanism import KINDS, Audit, Mechanism, Notion, SetLevel, mse, unbiased_variance
from tacit.mechanism.repeated import Layers
from tacit.plan._certificate import Certificate, is_number
from tacit.prior import Ball, Prior, PriorSet, Value, read_set
from tacit.task import Task, prior_variance

#: Derived numbers are floats: two machines may differ by this share.
_TOLERANCE = 1e-6


#: A level that is found, not chosen, is stated with four decimals.
_DECIMALS = 10_000


class PlanError(ValueError):
    """A plan that cannot be used: malformed, altered, or not keeping its promise."""


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
            name = "this plan" if self.name is None else f"group {self.name!r}"
            reached = self.levels["ldp" if notion == "ldp" else "lip"]
            raise PlanError(
                f"The promise is not kept: {name} states {notion.upper()} ε = {float(level):g} but reaches "
                f"{reached:.6g}; {self.audit.witness}."
            )

    def _check_layers(self, layers: Layers) -> None:
        name = "this plan" if self.name is None else f"group {self.name!r}"
        if layers.product.to_dict() != self.mechanism.to_dict():
            raise PlanError(f"The mechanism of {name} must be the product of its two layers, integer by integer.")
        if layers.lifelong < self.epsilon or self.ldp_cap is not None:
            raise PlanError(f"The lifelong level of {name} must be at least its ε, without an LDP cap beside it.")
        if not layers.keeps(self.notion, self.prior_set):
            raise PlanError(
                f"The promise is not kept: the stored report of {name} does not keep the lifelong "
                f"{self.notion.upper()} level {float(layers.lifelong):g}."
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
        """Raise `PlanError` unless the fields beside the contract follow from it, as far as they are quick to compute.

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
