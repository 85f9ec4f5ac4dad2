"""Independent check of a design: promise, error and bound are computed again, without trust in the planner."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.linalg import LinAlgError

from tacit.designs._methods import Design, Promise, possible, unsearched_bound
from tacit.designs._program.bounds import dual_bound
from tacit.designs._program.gain import normalised
from tacit.designs.planning import ldp_comparison
from tacit.designs.without_prior import without_prior_bound
from tacit.exact import Floats
from tacit.mechanism import mse, unbiased_variance
from tacit.plan import Certificate, Group, Plan, PlanError
from tacit.prior import Ball, PriorSet
from tacit.task import Task, prior_variance

#: Recomputed floats may differ by this share from the stated ones.
TOLERANCE = 1e-9
#: A bound may be stated that is lower than the proved one, as after a search that was cut short. Below this share of
#: it, it is that of the other aim: the least MSE is at most a quarter of the least unbiased variance.
_LEAST_SHARE = 0.5
#: And errors of the best LDP channel by this share.
_LDP_TOLERANCE = 0.05
#: Bounds of tables without duals are searched for again, for sets of priors to the planner's gap and, where that does
#: not prove what is stated, to smaller ones; two searches may end so far apart.
_GAPS, _SEARCHED_TOLERANCE = (1e-3, 1e-4, 1e-7), 1e-5


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What a fresh look found. `holds` if the promise is kept exactly and the certificate claims nothing too much.

    `error` and `lower_bound` are of what the design aims at: the MSE or the unbiased variance.
    """

    promise_kept: bool
    error: float
    lower_bound: float
    error_as_stated: bool
    bound_as_stated: bool

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"holds": self.holds}

    @property
    def holds(self) -> bool:
        """Whether the design is what it claims to be."""
        return self.promise_kept and self.error_as_stated and self.bound_as_stated


def verify(found: Design) -> Verification:
    """Audit the integers of a design `found` again, recompute the error from them, and the bound from the certificate's
    duals.

    Any duals prove a bound, so a wrong certificate cannot pass by luck: the bound they prove is what counts. Times,
    iterations and the method's name are not checked.

    >>> from tacit import Histogram, Prior, design
    >>> verify(design(Prior.of({"a": 0.5, "b": 0.3, "c": 0.2}), Histogram(), 1)).holds
    True
    """
    is_table = found.mechanism.table() is not None
    stated, bound = found.certificate, _table_bound(found) if is_table else _unsearched_bound(found)
    errors = {
        "mse": mse(found.mechanism, found.task),
        "unbiased_variance": unbiased_variance(found.mechanism, found.task),
        "prior_variance": prior_variance(found.prior, found.task),
    }
    error = errors["mse" if stated.aim == "mmse" else "unbiased_variance"]
    rounding = TOLERANCE * errors["prior_variance"]
    searched = _SEARCHED_TOLERANCE * bound if is_table and stated.duals is None else 0.0
    most = bound + searched + max(rounding, TOLERANCE * bound)
    return Verification(
        promise_kept=found.promise.kept_by(found.mechanism),
        error=error,
        lower_bound=bound,
        error_as_stated=all(
            math.isclose(getattr(stated, name), number, rel_tol=TOLERANCE, abs_tol=rounding)
            for name, number in errors.items()
        ),
        bound_as_stated=_LEAST_SHARE * min(bound, error) - rounding <= stated.lower_bound <= most,
    )


def verify_group(group: Group, task: Task) -> Verification | None:
    """The same for a group of a plan, from what the plan says; None where it has no certificate."""
    if group.certificate is None:
        return None
    notion: Literal["lip", "ldp"] = "ldp" if group.notion == "ldp" else "lip"
    found = Design(
        task=task,
        promise=Promise(group.epsilon, notion, ldp_cap=group.ldp_cap, prior_set=group.prior_set),
        mechanism=group.mechanism,
        certificate=group.certificate,
    )
    return verify(found)


def verify_plan(plan: Plan, progress: Callable[[int, int], None] | None = None) -> None:
    """Raise `PlanError` if a certificate of a `plan` states an error, a bound or an error of LDP that is not found
    again.

    Groups that differ in their name, weight and offset only are verified once. `progress` is called with groups done
    and groups in all.

    >>> from tacit import make_plan
    >>> verify_plan(make_plan({"yes": 0.1, "no": 0.9}, "histogram", epsilon=1))
    """
    verified: set[str] = set()
    for done, group in enumerate(plan.groups):
        if progress is not None:
            progress(done, len(plan.groups))
        stated, whole = group.certificate, group.to_dict()
        key = json.dumps({name: whole[name] for name in whole if name not in ("group", "weight", "offset")})
        found = None if key in verified else verify_group(group, plan.task)
        verified.add(key)
        if found is None or stated is None:
            continue
        name = f"The certificate of group {group.name!r}"
        if not found.error_as_stated:
            raise PlanError(f"{name} states errors that its mechanism does not have.")
        if not found.bound_as_stated:
            raise PlanError(
                f"{name} states that no channel is better than {stated.lower_bound:.6g}; what is proved is "
                f"{found.lower_bound:.6g}."
            )
        if stated.ldp_aimed is not None and group.notion == "ldp":
            raise PlanError(f"{name} compares with LDP, which is what it promises itself.")
        if stated.ldp_aimed is not None:
            _check_ldp(group, stated, plan.task, name)


def _check_ldp(group: Group, stated: Certificate, task: Task, name: str) -> None:
    """Search for the best LDP channel again: two searches may differ by their time, not by more than this."""
    again = ldp_comparison(group.prior, task, group.epsilon, stated.aim)
    best = None if again is None else again.certificate.aimed
    if best is None or stated.ldp_aimed is None or not math.isclose(stated.ldp_aimed, best, rel_tol=_LDP_TOLERANCE):
        reached = "nothing that can be checked" if best is None else f"{best:.6g}"
        raise PlanError(f"{name} states {stated.ldp_aimed:.6g} for LDP; it reaches {reached}.")


def _table_bound(found: Design) -> float:
    duals, unbiased = found.certificate.duals, found.certificate.aim == "unbiased"
    inside = list(found.prior.support)
    p, (g, unit) = possible(found.prior), normalised(found.task.g(found.prior)[inside])
    lifts, variance = found.promise.lifts, prior_variance(found.prior, found.task)
    # A price for each value and, for several numbers for each answer, an estimate that the bound is proved with.
    size = len(inside) * (1 + g.shape[1]) if duals and len(duals) > len(inside) else len(inside)
    if duals is not None and len(duals) != size:
        raise ValueError(f"The certificate needs {size} duals, one for each value that they price. Got {len(duals)}.")

    def bound(of_g: float) -> float:
        return unit**2 * of_g if unbiased else variance - unit**2 * of_g

    cheap = bound(unsearched_bound(p, g, found.promise, found.certificate.aim))
    if duals is None and (unbiased or found.promise.prior_set is not None):
        try:
            return max(cheap, bound(_searched_bound(found, g, unit)))
        except (ArithmeticError, LinAlgError):
            return cheap
    if duals is None:
        return cheap
    if unbiased and isinstance(found.promise.prior_set, Ball):
        from tacit.designs._program.sets import proven_robust

        epsilon = float(found.promise.main[1])
        return max(cheap, bound(proven_robust(found.promise.prior_set, g, epsilon, np.array(duals))))
    if unbiased:
        from tacit.designs._program.unbiased import proven_variance

        reports, marginal = found.channel.inside_lifts, found.channel.marginal
        return max(cheap, bound(proven_variance(p, g, lifts, reports, marginal, np.array(duals))))
    return max(cheap, bound(dual_bound(p, g, lifts, np.array(duals))))


def _searched_bound(found: Design, g: Floats, unit: float) -> float:
    """The bound of a design without duals, found again: for a set of priors, for a sum by bins, for many values."""
    from tacit.designs._program.sets import MOST_VALUES
    from tacit.designs.knots import sum_variance_bound

    aim, prior_set = found.certificate.aim, found.promise.prior_set
    if prior_set is not None and len(np.unique(g, axis=0)) <= MOST_VALUES:
        return _bound_in(prior_set, g, unit, found)
    if g.shape[1] == 1:
        return sum_variance_bound(possible(found.prior), g[:, 0], found.promise.lifts)
    bounded = found.promise.is_lip_or_ldp and aim == "unbiased"
    return without_prior_bound(found.prior, found.promise) if bounded and found.task.per_value else 0.0


def _bound_in(prior_set: PriorSet, g: Floats, unit: float, found: Design) -> float:
    """What a search over channels for every prior of a set proves, as far as it matters here: of variance or gain."""
    from tacit.designs._program.sets import solve_robust, values_searched

    stated = found.certificate
    unbiased = stated.aim == "unbiased"
    best, least = (max, 0.0) if unbiased else (min, math.inf)
    if values_searched(prior_set, g, stated.aim) is None:
        return least
    claimed = stated.lower_bound if unbiased else stated.prior_variance - stated.lower_bound
    bound = least
    for gap in _GAPS:
        bound = best(bound, solve_robust(prior_set, g, float(found.promise.main[1]), aim=stated.aim, gap=gap).bound)
        if bound == best(bound, claimed / unit**2):
            break
    return bound


def _unsearched_bound(found: Design) -> float:
    from tacit.designs._many_values import gain_bound

    if found.certificate.aim == "unbiased":
        return without_prior_bound(found.prior, found.promise)
    return found.certificate.prior_variance - gain_bound(found.prior, found.promise.main[1])
