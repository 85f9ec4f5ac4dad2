"""How good a design is, and how good any design could be."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

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
        """For JSON: what `tacit audit` can compute again, and how the design was found."""
        return {
            "aim": self.aim,
            "mse": self.mse,
            "unbiased_variance": None if math.isinf(self.unbiased_variance) else self.unbiased_variance,
            "prior_variance": self.prior_variance,
            "lower_bound": self.lower_bound,
            "ldp_aimed": None if self.ldp_aimed is None or math.isinf(self.ldp_aimed) else self.ldp_aimed,
            "method": self.method,
            "duals": None if self.duals is None else list(self.duals),
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Certificate:
        """The inverse of `to_dict`. Refuses other fields and other kinds of them."""
        _check(data)
        duals, variance = data["duals"], data["unbiased_variance"]
        return cls(
            aim=data["aim"],
            mse=data["mse"],
            unbiased_variance=math.inf if variance is None else variance,
            prior_variance=data["prior_variance"],
            lower_bound=data["lower_bound"],
            ldp_aimed=data["ldp_aimed"],
            method=data["method"],
            duals=None if duals is None else tuple(duals),
            notes=tuple(data["notes"]),
        )


_FIELDS = {
    "aim", "mse", "unbiased_variance", "prior_variance", "lower_bound", "ldp_aimed", "method", "duals", "notes",
}  # fmt: skip


def _check(data: Mapping[str, Any]) -> None:
    """Raise `ValueError` where a field is of another kind than `to_dict` writes."""
    if set(data) != _FIELDS:
        raise ValueError(f"A certificate has the fields {', '.join(sorted(_FIELDS))}.")
    optional = {"unbiased_variance", "ldp_aimed"}
    for name in ("mse", "unbiased_variance", "prior_variance", "lower_bound", "ldp_aimed"):
        number: Any = data[name]
        absent = name in optional and number is None
        if not absent and not (is_number(number) and number >= 0):
            raise ValueError(f"The field {name!r} of a certificate must be a number from 0.")
    if data["aim"] not in get_args(Aim) or not isinstance(data["method"], str):
        raise ValueError("A certificate needs an aim that is known, and a method that is a text.")
    duals, notes = data["duals"], data["notes"]
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
