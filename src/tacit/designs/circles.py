"""Design of circles, shuffled or in a plane: arc and amplitude in closed form, exactly within the promise; a bound.

With E = e^ε, covered mass m and every prior within total variation τ of the circle's own, lifts stay in [1/E, E] iff
the amplitude q (likelihoods are proportional to 1 − mq + qc) keeps

    q ≤ (E−1) / ((E−1)m + max(1 − E·max(m−τ, 0), min(m+τ, 1))),

the two arguments of the maximum being the upper and the lower side (`CircleRule.lift_range`, solved for q). A
value of little mass has an unbiased variance of 1/(q² m(1−m)) per respondent. On every piece where the denominator is a
line αm + β that is least at m = β/(α+2β), so the best m is one of those three, or where two pieces meet:

    m = (1+(E−1)τ)/(E+1)    the two sides meet, r = 1+(E²−1)/(1+2Eτ): best for small τ, and E/(E−1)² at τ = 0;
    m = 1/(E+1)             r = E, which is LDP: the amplitude is never below LDP's, 4E/(E−1)² for light values.

A circle that follows the prior pays for a heavy value, about a third at most at ε = 1, and for arcs that cut values. In
wide balls and under LDP nothing is won by following it. So a second circle is made, with one cell for each value and
an arc of whole cells, and the one of less variance is taken. Under LDP the second one is subset selection, the best LDP
channel for histograms: no design is ever worse than that.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Literal

import numpy as np

from tacit.exact import Number, budget, exp_below, rational
from tacit.mechanism import PlaneCircle
from tacit.mechanism.rounding import PrivacyError
from tacit.mechanism.shuffled_circle import ShuffledCircle, ShuffledCircleRule
from tacit.mechanism.singer import first_full_recurrence, next_prime
from tacit.prior import Ball, Prior, PriorSet

#: Arcs are chosen on a grid of this many, finer than any circle needs.
_GRID = 1 << 52
#: Up to so many values all lie on their own in a plane, in so many slots.
_ALONE, _FEW_SLOTS = 256, 61
#: Beyond, lines cost at most so much of the information, unless that took more slots than so many.
_LOST, _MOST_SLOTS = 0.015, 167


def design_shuffled_circle(
    prior: Prior, epsilon: Number, radius: Number = 0, notion: Literal["lip", "ldp"] = "lip", **bits: int
) -> ShuffledCircle:
    """The shuffled circle for a histogram under ε-LIP for every prior within total variation `radius`, or under ε-LDP.

    The step is the largest that passes the exact audit. `bits` are `cell_bits`, `seed_bits`, `word_bits` of the rule.

    >>> prior = Prior.of({"a": 5, "b": 3, "c": 1, "d": 1})
    >>> circle = design_shuffled_circle(prior, 1, radius="0.01")
    >>> [circle.within(exp_below(Fraction(1)), Fraction(radius)) for radius in ("0.01", "0.011")]
    [True, False]
    """
    ratio = exp_below(budget(epsilon))
    if ratio <= 1:
        raise ValueError("A shuffled circle needs a positive 'epsilon': at 0 no report depends on the answer.")
    within = _radius(radius, notion)
    circles, size = [_circle(prior, ratio, within, bits)], len(prior.support)
    if size > 1 and "cell_bits" not in bits:
        circles.append(_circle(prior, ratio, within, {**bits, "cell_bits": (size - 1).bit_length()}))
    circle = min(circles, key=lambda each: float(each.variances().sum()))
    if not circle.within(ratio, within) or (notion == "ldp" and circle.odds > ratio):
        raise PrivacyError("The closed form of the step does not pass the exact audit.")
    return circle


def _circle(prior: Prior, ratio: Fraction, within: Fraction, bits: dict[str, int]) -> ShuffledCircle:
    """The best arc of a circle with so many cells, and the largest step that passes the audit.

    With b = ⌊2^W/M⌋ the two sides are step·(2^W·(1 − E·least) + (E−1)bL) ≤ (E−1)b·2^W, and the same with `most` for
    1 − E·least.
    """
    # Any arc and step will do to ask for the layout.
    rule = ShuffledCircleRule(prior=prior, arc=1, step=1, **bits)
    cells, off, words = rule.circle, within + rule.cell_error, 1 << rule.choice_bits
    if cells > len(prior.support):
        arc = min(max(round(best_share(ratio, off) * cells), 1), cells - 1)
    else:
        m, e, tau = np.arange(1, cells) / cells, float(ratio), float(off)
        load = (e - 1) * m + np.maximum(1 - e * np.maximum(m - tau, 0), np.minimum(m + tau, 1))
        arc = 1 + int(np.argmax(m * (1 - m) / load**2))
    one, off = (ratio - 1) * rule.uniform_words, within + replace(rule, arc=arc).slack
    step = int(one * words / (words * _side(Fraction(arc, cells), ratio, off) + one * arc))
    if step == 0:
        raise ValueError(f"Words of {rule.word_bits} bits are too short for so small an epsilon.")
    return ShuffledCircle(prior=prior, arc=arc, step=step, **bits)


def in_plane(circle: ShuffledCircle) -> PlaneCircle:
    """The same circle in the orders of a plane; raises `ArithmeticError` where no plane of bounded size holds it.

    Up to `_ALONE` values all lie on their own, of more the light ones on lines. A line takes its length/3 of the
    variance m(1−m) of the coverage of its values; with p slots, about 1/3p. So many are taken that this is at most
    `_LOST` of it, and orders are so many that heavy values are balanced; light are those of less than half a line.

    >>> in_plane(design_shuffled_circle(Prior.uniform(40), 1)).slots
    61
    """
    share, needed = float(circle.share), math.isqrt(len(circle.owners)) + 1
    slots, light = _FEW_SLOTS, 0
    if len(circle.weights) > _ALONE:
        wanted = max(4 * needed // 3, math.ceil(1 / (3 * _LOST * share * (1 - share))))
        slots = next_prime(max(needed, min(wanted, _MOST_SLOTS)))
        light = min(circle.circle // (2 * slots) + 1, circle.arc)
    if max(slots, needed) > _MOST_SLOTS:
        raise ArithmeticError(f"no plane of up to {_MOST_SLOTS} slots holds {len(circle.weights)} values")
    first, second = first_full_recurrence(slots)
    fields = ("prior", "arc", "step", "cell_bits", "seed_bits", "word_bits")
    numbers = {name: getattr(circle, name) for name in fields}
    return PlaneCircle(**numbers, slots=slots, first=first, second=second, light=light)


def best_share(ratio: Fraction, off: Fraction) -> Fraction:
    """The m of least variance, for E = `ratio` and priors within total variation `off` of the circle's own.

    >>> best_share(Fraction(3), Fraction(0)), best_share(Fraction(3), Fraction(1))
    (Fraction(1, 4), Fraction(1, 4))
    """
    e = ratio
    pieces = [(Fraction(-1), 1 + e * off), (e - 1, Fraction(1)), (e, off)]
    candidates = [beta / (alpha + 2 * beta) for alpha, beta in pieces if alpha + 2 * beta]
    candidates += [(1 + (e - 1) * off) / (e + 1), off, 1 - off]
    inside = [Fraction(round(m * _GRID), _GRID) for m in candidates if 0 < m < 1]
    return max(inside, key=lambda m: m * (1 - m) / ((e - 1) * m + _side(m, e, off)) ** 2)


def unbiased_variance_bound(
    prior: Prior, epsilon: Number, within: PriorSet | None = None, notion: Literal["lip", "ldp"] = "lip"
) -> float:
    """A variance per respondent, summed over the histogram, that no channel goes below that promises ε-LIP for the
    prior, for every prior of the set `within`, or ε-LDP: the larger of two bounds.

    Value by value.  Merge all values but x: holding "not x" means holding one of the others, drawn from the prior. An
    estimate of the share of x that is unbiased under every truth is so for these two values. A lift of "not x" is an
    average of lifts, so the merged channel keeps the promise for every Pr(x) in [a, b] = `ranges`, which a prior of the
    set has while the others keep their proportions. For two values that means a ratio t = Q(y|x)/Q(y|not x) of at most
    1 + r with r = min((E−1)/(1−Ea) if Ea < 1, (E−1)/b) and at least 1 − f with f = min((1−1/E)/b, (E−1)/(E−a)), hence
    a lift t/(1−P_x+P_x t) in [lo, hi], whose variance s² is at most (hi−1)(1−lo). The mean lift differs by s²/(1−P_x)
    between the two values, so the estimate's variance at the prior is at least (1−P_x)²/s² (Cauchy–Schwarz), which is
    (1 + P_x r)(1 − P_x f)/rf. Sum over x. ∎

    All together, in a ball and under LDP.  No lift varies by more than V = `most_lift_variance` over the values, so
    J = Σ λ_y v_y v_yᵀ has Σ_x P_x J_xx ≤ 1 + V. From JP = 1 follows J = D^−½ (√P√Pᵀ + K) D^−½ with D = diag P, K√P = 0
    and tr K ≤ V; the variance is tr J⁻¹ − Σ P² = tr DK⁺ ≥ (tr C^½)²/tr K with C = ΠDΠ, Π = 1 − √P√Pᵀ. The eigenvalues
    of C lie between those of D, so that tr C^½ is at least Σ √P without the largest. ∎

    The first tends to E/(E−1)² for every light value and is reached for one prior, the second where values are many and
    equally likely.

    >>> round(unbiased_variance_bound(Prior.uniform(1000), 1) / 1000, 3)
    0.919
    >>> round(unbiased_variance_bound(Prior.uniform(1000), 1, Ball(Prior.uniform(1000), 0.1)) / 1000, 3)
    1.433
    """
    e = float(exp_below(budget(epsilon)))
    p = prior.on_support().probabilities
    if len(p) == 1:
        return 0.0
    a, b = (np.zeros(len(p)), np.ones(len(p))) if notion == "ldp" else (p, p) if within is None else within.ranges
    rise = np.minimum(np.where(e * a < 1, (e - 1) / np.where(e * a < 1, 1 - e * a, 1.0), np.inf), (e - 1) / b)
    fall = np.minimum((1 - 1 / e) / b, (e - 1) / (e - a))
    alone = float(((1 + p * rise) * (1 - p * fall) / (rise * fall)).sum())
    if notion == "lip" and not isinstance(within, Ball):
        return alone
    roots = np.sqrt(p)
    off = 1.0 if notion == "ldp" or within is None else float(within.radius)
    return max(alone, float(roots.sum() - roots.max()) ** 2 / most_lift_variance(e, off))


def most_lift_variance(ratio: float, off: float) -> float:
    """V: of no prior P, on any number of values, has a lift v that keeps ε-LIP in a ball around P a larger Σ P(v−1)².

    where: E = `ratio`, τ = `off` is the radius. V is the larger of (E−1)²/4E and, if τ ≤ ½, the product xy with

        (1+Eτ)x + Eτy = E−1   and   τx + (E+τ)y = E−1.

    Proof.  Let v reach from 1−y to 1+X, and let 1+x and 1−z be its means over the mass τ where it is largest and least.
    The worst priors move that mass to the other end, so the promise says

        (i) X + Eτ(x+y) ≤ E−1   and   (ii) τ(X+z) + Ey ≤ E−1.

    Write u = v − (1−y), and c for its value where the mass τ ends, 0 ≤ c ≤ x+y. Chords bound the squares:
    u² ≤ (X+y+c)u − (X+y)c above c and u² ≤ cu below, so E u² ≤ (X+y)τ(x+y) + c(y − τ(X+y)). If τ(X+y) ≤ y that is
    largest at c = x+y, and the variance S = E u² − y² is at most xy. Else it is so at c = 0: with q = τ(x+y) ≤ y,
    S ≤ (X+y)q − y² ≤ Xq, which by (i), X + Eq ≤ E−1, is at most (E−1)²/4E. The same for −v: S is at most Xz if
    τ(X+y) ≤ X, else yq' with q' = τ(X+z) ≤ X, and by (ii) (E−1)²/4E again. Both are left only if τ ≤ ½, and then
    S ≤ xy and S ≤ Xz.

    Add (i) and (ii) with weights w and 1−w: αX + wEτx + γy + δz ≤ E−1 with α = w + (1−w)τ, γ = wEτ + (1−w)E,
    δ = (1−w)τ. As y ≥ S/x and z ≥ S/X, for r = x/√S and R = X/√S ≥ r this is √S·(wEτr + γ/r + αR + δ/R) ≤ E−1. The
    least of that sum over R ≥ r is convex in r. At R = r it is (α+wEτ)r + (γ+δ)/r, least at r² = (γ+δ)/(α+wEτ); and
    there no larger R is better, since αr² ≥ δ: α(γ+δ) − δ(α+wEτ) = E(w²τ + w(1−w) + (1−w)²τ) ≥ 0. Hence
    S ≤ (E−1)²/4(α+wEτ)(γ+δ) for every w. The least of these is, by duality, the largest xy with (i) and (ii) for
    X = x and z = y; neither side alone is its limit for τ ≤ ½, so both are equalities. ∎

    The two levels of a circle reach it (`best_share`) where values are many and light: nothing is better for them.

    >>> round(1 / most_lift_variance(math.e, 0), 4), round(1 / most_lift_variance(math.e, 1), 4)
    (0.9207, 3.6827)
    """
    e = ratio
    slope = (e + off - e * off) / (1 + e * off - off)
    y = (e - 1) / (off * slope + e + off)
    return max((e - 1) ** 2 / (4 * e), slope * y**2 if off <= 1 / 2 else 0.0)


def _side(m: Fraction, ratio: Fraction, off: Fraction) -> Fraction:
    """max(1 − E·max(m−τ, 0), min(m+τ, 1)), the larger of the two sides."""
    return max(1 - ratio * max(Fraction(0), m - off), min(Fraction(1), m + off))


def _radius(radius: Number, notion: str) -> Fraction:
    """The radius of the ball of priors; LDP is the promise for all of them."""
    if notion not in ("lip", "ldp"):
        raise ValueError(f"The 'notion' must be 'lip' or 'ldp'. Got {notion!r} instead.")
    within = rational(radius, "radius")
    if not 0 <= within <= 1:
        raise ValueError(f"The 'radius' must lie between 0 and 1. Got {radius} instead.")
    return Fraction(1) if notion == "ldp" else within
