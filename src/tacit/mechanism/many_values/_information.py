"""What the reports of `many-values` determine: J = E[v vᵀ] = 11ᵀ + q²A and its inverse, from that of the circle.

v = 1 + q(c − m) are the lifts, A is the covariance of the coverage c under reports that ignore the answer. With the
symbols of `_rule`, s = L'/M' the part of the circle under an arc, and W the covariance on the circle given that there
is an arc,

    two others:         A = aW + m(s − m),        (the arc is there for all of them together)
    a giant, another:   A = b = a(L − L')s/N − m²,
    two giants:         A = −m²,      a giant itself:  A = f/(n_g N) − m²,   f = a(L − L')² + (1−a)L².

So J has the block κ11ᵀ + q²aW for the others, κ = 1 + q²m(s − m), the number β = 1 + q²b between them and giants, and
diag(δ) + (1 − q²m²)11ᵀ for giants, δ_g = q²f/(n_g N).

The inverse.  A report covers equally many cells of the circle wherever its arc is, so W P' = 0 for the shares P' of
the others, of sum T. Let S = (11ᵀ + q²aW)⁻¹, which the circle has; S1 = P'/T. From J(f_G, f_O) = (r_G, r_O) follow

    f_O = S r_O − (1 − 1/κ) P'(P'·r_O)/T² − β (1·f_G) P'/(κT),
    (diag(δ) + θ11ᵀ) f_G = r_G − β (P'·r_O)/(κT) · 1,      θ = 1 − q²m² − β²/κ,

the second by the formula of Sherman and Morrison: giants cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tacit.exact import Floats, Integers
from tacit.mechanism.many_values._circle import Information


@dataclass(frozen=True, kw_only=True)
class GiantsAndCircle:
    """J of giants and a circle.

    where: `circle` is 11ᵀ + q²aW, `shares` = P̃, `named` the giants and `others` the values on the circle; `own` = δ,
    `among` = 1 − q²m², `between` = β, `common` = κ and `spreads` = A_xx.
    """

    circle: Information
    shares: Floats
    named: Integers
    others: Integers
    own: Floats
    among: float
    between: float
    common: float
    spreads: Floats

    @cached_property
    def _around(self) -> tuple[Floats, float]:
        """P'/T and T."""
        total = float(self.shares[self.others].sum())
        return self.shares[self.others] / total, total

    @cached_property
    def _theta(self) -> tuple[float, float]:
        """θ, and θ/(1 + θ Σ 1/δ)."""
        theta = self.among - self.between**2 / self.common
        return theta, theta / (1 + theta * float((1 / self.own).sum()))

    def multiply(self, right: Floats) -> Floats:
        """J·right; for each row of a matrix."""
        product = np.empty(np.shape(right))
        giants, others = right[..., self.named], right[..., self.others]
        of_giants, of_others = giants.sum(axis=-1, keepdims=True), others.sum(axis=-1, keepdims=True)
        product[..., self.named] = giants * self.own + self.among * of_giants + self.between * of_others
        seen = self.circle.multiply(others) + (self.common - 1) * of_others
        product[..., self.others] = seen + self.between * of_giants
        return product

    def solve(self, right: Floats) -> Floats:
        """J⁻¹·right; for each row of a matrix."""
        (around, _), result = self._around, np.empty(np.shape(right))
        inner = (right[..., self.others] @ around)[..., None]
        wanted = right[..., self.named] - self.between * inner / self.common
        scaled = wanted / self.own
        giants = scaled - self._theta[1] * scaled.sum(axis=-1, keepdims=True) / self.own
        down = (1 - 1 / self.common) * inner + self.between / self.common * giants.sum(axis=-1, keepdims=True)
        result[..., self.named] = giants
        result[..., self.others] = self.circle.solve(right[..., self.others]) - down * around
        return result

    def inverse_diagonal(self) -> Floats:
        """(J⁻¹)_xx for every value."""
        (around, _), (_, ratio), inverse = self._around, self._theta, np.empty(len(self.shares))
        each = 1 / self.own
        inverse[self.named] = each - ratio * each**2
        both = float(each.sum()) - ratio * float(each.sum()) ** 2  # 1ᵀ(diag(δ) + θ11ᵀ)⁻¹1
        more = (self.between / self.common) ** 2 * both - (1 - 1 / self.common)
        inverse[self.others] = self.circle.inverse_diagonal() + more * around**2
        return inverse

    def inverse_row(self, value: int) -> Floats:
        """(J⁻¹)_xx' of one value x, for every x'."""
        unit = np.zeros(len(self.shares))
        unit[value] = 1.0
        return self.solve(unit)
