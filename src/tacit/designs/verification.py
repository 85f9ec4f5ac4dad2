"""Checking a design without trusting whoever made it: promise, error and bound are all computed again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.designs.methods import Design
from tacit.designs.program.bounds import cheap_bound, dual_bound
from tacit.designs.program.gain import Gain
from tacit.exact import at_most_exp, exp_below
from tacit.mechanism.auditing import satisfies
from tacit.mechanism.core_tail import CoreTail
from tacit.mechanism.core_tail_histogram import histogram_gain
from tacit.task import mse, unbiased_variance

#: Recomputed floats may differ by this share from the stated ones.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Verification:
    """What a fresh look found. `holds` if the promise is kept exactly and the certificate claims nothing too much."""

    promise_kept: bool
    error: float
    error_bound: float
    error_as_stated: bool
    bound_as_stated: bool

    @property
    def holds(self) -> bool:
        return self.promise_kept and self.error_as_stated and self.bound_as_stated


def verify(found: Design) -> Verification:
    """Audit the integers again, recompute the error from them, and the bound from the certificate's duals.

    Any duals prove a bound, so a wrong certificate cannot pass by luck: the bound they prove is what counts. Times,
    iterations and the method's name are not checked.

    >>> from tacit import Histogram, Prior
    >>> from tacit.designs import design
    >>> verify(design(Prior.of({"a": 0.5, "b": 0.3, "c": 0.2}), Histogram(), 1)).holds
    True
    """
    stated = found.certificate
    error, bound = _error(found), _bound(found)
    scale = TOLERANCE * max(stated.prior_variance, error)
    return Verification(
        _kept(found),
        error,
        bound,
        abs(error - stated.error) <= scale,
        stated.error_bound <= bound + scale,
    )


def _kept(found: Design) -> bool:
    mechanism = found.mechanism
    if isinstance(mechanism, CoreTail):
        highest, lowest = mechanism.levels()
        same = mechanism.weights == found.prior.on_support().weights
        return same and at_most_exp(max(highest, 1 / lowest), found.promise.levels["lip"])
    return all(satisfies(mechanism, found.prior, name, level) for name, level in found.promise.levels.items())


def _error(found: Design) -> float:
    if isinstance(found.mechanism, CoreTail):
        return found.certificate.prior_variance - histogram_gain(found.mechanism)
    measure = mse if found.certificate.aim == "mmse" else unbiased_variance
    return measure(found.task, found.mechanism, found.prior)


def _bound(found: Design) -> float:
    duals, variance = found.certificate.duals, found.certificate.prior_variance
    if isinstance(found.mechanism, CoreTail):
        from tacit.designs.core_tail import gain_bound_of

        ratio = exp_below(found.promise.levels["lip"])
        return variance - gain_bound_of(found.mechanism.weights, found.mechanism.core, ratio, duals or ())
    inside = list(found.prior.support)
    p, g = found.prior.probabilities[inside], found.task.g(found.prior)[inside]
    lifts = found.promise.lifts
    if found.certificate.aim == "prior_free":
        from tacit.designs.program.prior_free import proven_variance

        reports = found.mechanism.lifts(found.prior)[:, inside]
        return proven_variance(p, g, lifts, reports, found.mechanism.marginal(found.prior), np.array(duals))
    gains = [cheap_bound(p, Gain.of(p, g), lifts)]
    if duals is not None:
        gains.append(dual_bound(p, g, lifts, np.array(duals)))
    return variance - min(gains)
