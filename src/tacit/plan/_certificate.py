"""How good a design is, and how good any design could be."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

#: What a design is best for: the estimate that uses the prior, or the one that does not.
Aim = Literal["mmse", "unbiased"]
#: How a search can have ended. "feasible" claims nothing but its bound; "arcs only" and "stalled" went no further.
STATUSES = ("optimal", "within gap", "feasible", "time limit", "stalled", "interrupted", "arcs only")


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What a design achieves, per respondent, and a proven bound on what any channel under the same promise can.

    `mse` is the error of the MMSE estimate if the prior is right, `unbiased_variance` the variance, at the prior, of
    the best estimate that does not use it (∞ where there is none); both are computed from the integers of the finished
    channel. No channel has less than `mse_lower_bound` and `unbiased_variance_lower_bound`; only the one that belongs
    to the `aim` is worth a look. `duals` prove it where it comes from a linear program (`tacit.designs.verification`).
    `ldp_mse` and `ldp_unbiased_variance` are those of the best LDP channel found for the same prior, ε and aim, a
    yardstick; None where nobody looked.
    """

    aim: Aim
    mse: float
    mse_lower_bound: float
    unbiased_variance: float
    unbiased_variance_lower_bound: float = 0.0
    prior_variance: float
    method: str
    status: str
    iterations: int = 0
    seconds: float = 0.0
    duals: tuple[float, ...] | None = None
    notes: tuple[str, ...] = ()
    ldp_mse: float | None = None
    ldp_unbiased_variance: float | None = None

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
    def aimed_lower_bound(self) -> float:
        """No channel under the same promise has less."""
        return self.mse_lower_bound if self.aim == "mmse" else self.unbiased_variance_lower_bound

    @property
    def ldp_aimed(self) -> float | None:
        """The same of the best LDP channel found."""
        return self.ldp_mse if self.aim == "mmse" else self.ldp_unbiased_variance

    @property
    def gain(self) -> float:
        """The part of the prior variance that a report removes."""
        return self.prior_variance - self.mse

    @property
    def gain_bound(self) -> float:
        """No channel under the same promise removes more."""
        return self.prior_variance - self.mse_lower_bound

    @property
    def gap(self) -> float:
        """What a better channel could still win: of the gain for "mmse", of the variance for "unbiased"."""
        most = self.gain_bound if self.aim == "mmse" else self.unbiased_variance
        if not 0 < most < math.inf:
            return 0.0
        return max(0.0, (self.aimed - self.aimed_lower_bound) / most)

    def to_dict(self) -> dict[str, Any]:
        """For JSON. Times and iterations are left out, so that the same design is the same text."""
        return {
            "aim": self.aim,
            "mse": self.mse,
            "mse_lower_bound": self.mse_lower_bound,
            "unbiased_variance": _finite(self.unbiased_variance),
            "unbiased_variance_lower_bound": self.unbiased_variance_lower_bound,
            "prior_variance": self.prior_variance,
            "gap": self.gap,
            "method": self.method,
            "status": self.status,
            "duals": None if self.duals is None else list(self.duals),
            "notes": list(self.notes),
            "ldp_mse": self.ldp_mse,
            "ldp_unbiased_variance": _finite(self.ldp_unbiased_variance),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Certificate:
        """The inverse of `to_dict`; the names of version 0.1 are read too. Refuses what no certificate says."""
        data = _renamed(data)
        _check(data)
        duals, variance = data.get("duals"), data.get("unbiased_variance")
        return cls(
            aim=data["aim"],
            mse=data["mse"],
            mse_lower_bound=data["mse_lower_bound"],
            unbiased_variance=math.inf if variance is None else variance,
            unbiased_variance_lower_bound=data["unbiased_variance_lower_bound"],
            prior_variance=data["prior_variance"],
            method=data["method"],
            status=data["status"],
            duals=None if duals is None else tuple(duals),
            notes=tuple(data.get("notes", ())),
            ldp_mse=data.get("ldp_mse"),
            ldp_unbiased_variance=data.get("ldp_unbiased_variance"),
        )


def _check(data: Mapping[str, Any]) -> None:
    """Raise `ValueError` where a field is of another kind than `to_dict` writes."""
    optional = {"unbiased_variance", "ldp_mse", "ldp_unbiased_variance"}
    needed = {"mse", "mse_lower_bound", "unbiased_variance_lower_bound", "prior_variance"}
    for name in sorted(needed | optional):
        number: Any = data.get(name) if name in optional else data[name]
        absent = name in optional and number is None
        if not absent and not (is_number(number) and number >= 0):
            raise ValueError(f"The field {name!r} of a certificate must be a number from 0.")
    if data["aim"] not in get_args(Aim) or data["status"] not in STATUSES or not isinstance(data["method"], str):
        raise ValueError("A certificate needs an aim and a status that are known, and a method that is a text.")
    duals, notes = data.get("duals"), data.get("notes", ())
    if not isinstance(notes, list | tuple) or not all(isinstance(note, str) for note in notes):
        raise ValueError("The notes of a certificate must be a list of texts.")
    if duals is not None and not (isinstance(duals, list) and all(map(is_number, duals))):
        raise ValueError("The duals of a certificate must be a list of finite numbers, or null.")


def is_number(number: Any) -> bool:
    """Whether it is a number that a float can hold: no boolean, no text, finite.

    >>> is_number(1), is_number(True), is_number(math.nan), is_number(10**400)
    (True, False, False, False)
    """
    return type(number) in (int, float) and -sys.float_info.max <= number <= sys.float_info.max


def _finite(number: float | None) -> float | None:
    return None if number is None or math.isinf(number) else number


def _renamed(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """A certificate of version 0.1, which had one error and one bound, in today's names."""
    if "error" not in data:
        return data
    if data["aim"] != "mmse":
        raise ValueError("Certificates of version 0.1 for the aim 'prior_free' are not read; plan again.")
    named = {"mse": "error", "mse_lower_bound": "error_bound", "ldp_mse": "ldp_error"}
    return {**data, **{new: data.get(old) for new, old in named.items()}, "unbiased_variance_lower_bound": 0.0}
