"""The audit of a channel written out, decided on integers.

With A the channel's integer weights over the denominator D, w the prior's integers over W, and
Λ_y = Σ_x w_x A_xy, the lift is the rational v_y(x) = A_xy·W / Λ_y. The levels are

    LIP upper   ln max v     over values x with w_x > 0 and reports y with Λ_y > 0  (also called PML)
    LIP lower   −ln min v    over the same                                          (also called min-lift)
    LDP         ln max A_xy / A_x'y   over all inputs, whatever the prior
    MIP         Σ P(x) Q(y|x) ln v_y(x)

A value with zero prior is outside what LIP, PML and MIP can promise; the audit names such values.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from tacit.exact import float_above
from tacit.mechanism.auditing import Audit, Belief, Level, worse
from tacit.prior import Value

if TYPE_CHECKING:
    from tacit.mechanism.table._channel import Channel


def audit_table(channel: Channel) -> Audit:
    """Every level of the channel under the prior, with the witnesses that reach them."""
    prior = channel.prior
    above, below = lift_levels(channel)
    sent = channel.marginal_weights.astype(bool)
    outside = [x for x, weight in enumerate(prior.weights) if not weight]
    # No information at all is exactly zero; floats would say a little more.
    silent = above.ratio == below.ratio == 1
    worst = worse(above, below).value
    assert worst is not None
    return Audit(
        lip_upper=above,
        lip_lower=below,
        ldp=ldp_level(channel),
        mip=0.0 if silent else float_above(_mutual_information(channel)),
        witness=table_belief(channel, worst),
        outside=tuple(prior.values[x] for x in outside),
        exposed=tuple(prior.values[x] for x in outside if channel.weights[x, ~sent].any()),
    )


def table_belief(channel: Channel, value: Value) -> Belief:
    """The exact range in which a report can put the belief that someone holds `value`."""
    prior = channel.prior
    x = prior.position(value)
    marginal = channel.marginal_weights
    posteriors = [
        Fraction(prior.weights[x] * channel.weights[x, y], marginal[y])
        for y in range(channel.n_possible_reports)
        if marginal[y]
    ]
    return Belief(prior.values[x], Fraction(prior.weights[x], prior.total), min(posteriors), max(posteriors))


def lift_levels(channel: Channel) -> tuple[Level, Level]:
    """The upper and the lower side of LIP."""
    prior, marginal = channel.prior, channel.marginal_weights
    support = list(prior.support)
    inside = channel.weights[support]
    most, least = inside.argmax(axis=0), inside.argmin(axis=0)
    sent = [y for y in range(channel.n_possible_reports) if marginal[y]]
    highest = max(sent, key=lambda y: Fraction(int(inside[most[y], y]), int(marginal[y])))
    lowest = min(sent, key=lambda y: Fraction(int(inside[least[y], y]), int(marginal[y])))
    upper = Fraction(inside[most[highest], highest] * prior.total, marginal[highest])
    lower = Fraction(inside[least[lowest], lowest] * prior.total, marginal[lowest])
    return (
        Level(upper, prior.values[support[most[highest]]], highest),
        Level(1 / lower if lower else None, prior.values[support[least[lowest]]], lowest),
    )


def ldp_level(channel: Channel) -> Level:
    """The largest ratio of two answers' chances of one report, whatever the prior."""
    weights = channel.weights
    most, least = weights.argmax(axis=0), weights.argmin(axis=0)
    used = [y for y in range(channel.n_possible_reports) if weights[most[y], y]]
    for y in used:
        if not weights[least[y], y]:
            return Level(None, channel.values[least[y]], y)
    worst = max(used, key=lambda y: Fraction(weights[most[y], y], weights[least[y], y]))
    ratio = Fraction(weights[most[worst], worst], weights[least[worst], worst])
    return Level(ratio, channel.values[most[worst]], worst)


def _mutual_information(channel: Channel) -> Fraction:
    """An upper bound of Σ P Q ln v, from floats.

    Each probability and lift is a correctly rounded quotient of integers and the sum is exact (`fsum`), so the
    error is at most Σ P Q (|ln v| + 1) · 2⁻⁵⁰, allowing the logarithm four units in its last place.
    """
    prior = channel.prior
    joint = np.array(prior.weights, dtype=object)[:, None] * channel.weights
    marginal = joint.sum(axis=0)
    positive = joint.astype(bool)
    lifts = ((channel.weights * prior.total)[positive] / (np.ones_like(joint) * marginal)[positive]).astype(float)
    shares = (joint[positive] / (prior.total * channel.denominator)).astype(float)
    logs = np.log(lifts)
    total = Fraction(math.fsum(shares * logs))
    error = Fraction(math.fsum(shares * (np.abs(logs) + 1))) / 2**50
    return total + error
