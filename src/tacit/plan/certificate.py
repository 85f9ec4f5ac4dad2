"""How good a design is, and how good any design could be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Aim = Literal["mmse", "prior_free"]


@dataclass(frozen=True)
class Certificate:
    """What a design achieves, per respondent, and a proven bound on what any channel under the same promise can.

    `error` is the MSE of the MMSE estimate (aim "mmse") or the variance of the best unbiased estimate at the prior
    (aim "prior_free"), computed from the integers of the finished channel; no channel has an error below `error_bound`.
    `duals` prove the bound where it comes from a linear program: see `tacit.designs.verification`. `ldp_error` is the
    error of the best LDP channel found for the same prior and ε, a yardstick; None where nobody looked.
    """

    aim: Aim
    error: float
    error_bound: float
    prior_variance: float
    method: str
    status: str
    iterations: int = 0
    seconds: float = 0.0
    duals: tuple[float, ...] | None = None
    notes: tuple[str, ...] = ()
    ldp_error: float | None = None

    @property
    def gain(self) -> float:
        """The part of the prior variance that a report removes."""
        return self.prior_variance - self.error

    @property
    def gain_bound(self) -> float:
        """No channel under the same promise removes more."""
        return self.prior_variance - self.error_bound

    @property
    def gap(self) -> float:
        """What a better channel could still win: of the gain for "mmse", of the variance for "prior_free"."""
        most = self.gain_bound if self.aim == "mmse" else self.error
        return max(0.0, (self.error - self.error_bound) / most) if most > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """For JSON. Times and iterations are left out, so that the same design is the same text."""
        return {
            "aim": self.aim,
            "error": self.error,
            "error_bound": self.error_bound,
            "prior_variance": self.prior_variance,
            "gap": self.gap,
            "method": self.method,
            "status": self.status,
            "duals": None if self.duals is None else list(self.duals),
            "notes": list(self.notes),
            "ldp_error": self.ldp_error,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Certificate:
        """The inverse of `to_dict`."""
        duals = data.get("duals")
        return cls(
            data["aim"],
            data["error"],
            data["error_bound"],
            data["prior_variance"],
            data["method"],
            data["status"],
            duals=None if duals is None else tuple(duals),
            notes=tuple(data.get("notes", ())),
            ldp_error=data.get("ldp_error"),
        )
