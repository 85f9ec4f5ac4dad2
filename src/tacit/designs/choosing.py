"""The best channel known to exist for a prior, a task and a budget, with a certificate of how good it is.

    maximise Σ_y λ_y gain(v_y)   subject to   Σ_y λ_y v_y = 1,  λ ≥ 0,  v_y in the lift set of the promise

Closed forms serve two values (and any survey of one value or a set) and uniform priors; column generation serves
everything else, sums at any size; `large_histogram` chooses for histograms of many values, and the mechanism core-tail
serves those that trust the prior. Whatever the method, the finished integers pass the exact audit here, and the
certificate's errors are computed from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
from numpy import errstate
from numpy.linalg import LinAlgError

from tacit.designs import methods
from tacit.designs.for_sets import robust
from tacit.designs.large_histogram import capped_histogram, large_histogram
from tacit.designs.methods import Design, Request, closed_kind
from tacit.designs.one_thread import one_thread
from tacit.designs.program.deadline import Deadline
from tacit.designs.promise import make_promise
from tacit.designs.without_prior import MECHANISMS, without_prior
from tacit.exact import Number
from tacit.mechanism import PrivacyError
from tacit.plan import Aim
from tacit.prior import Prior, PriorSet
from tacit.task import Task

Method = Literal[
    "auto", "closed-form", "columns", "robust", "knots", "plane-circle", "shuffled-circle", "core-tail",
    "repaired", "without-prior", "subset-selection", "projective",
]  # fmt: skip
#: Up to so many values the linear program finds the best unbiased channel; beyond there are rules that need no search.
FEW_VALUES = 12
#: A histogram over more values than this gets the mechanism core-tail.
TABLE_LIMIT = 500
#: Errors are squares, which floats must hold.
LARGEST_DIFFERENCE = 1e150

_BUILD: dict[str, Callable[[Request], Design]] = {
    "closed-form": methods.closed_form,
    "columns": methods.columns,
    "robust": robust,
    "knots": methods.knots,
    "plane-circle": methods.plane_circle,
    "shuffled-circle": methods.shuffled_circle,
    "core-tail": methods.core_tail,
    "repaired": methods.repaired,
    "without-prior": without_prior,
    **{name: partial(without_prior, name=name) for name in MECHANISMS},
}
#: What only "auto" takes.
_AUTOMATIC = {"large histogram": large_histogram, "capped histogram": capped_histogram}


def design(
    prior: Prior,
    task: Task,
    epsilon: Number,
    *,
    aim: Aim = "unbiased",
    notion: Literal["lip", "ldp"] = "lip",
    method: Method = "auto",
    lower_epsilon: Number | None = None,
    ldp_cap: Number | None = None,
    prior_set: PriorSet | None = None,
    invertible: bool = False,
    gap: float | None = None,
    time_limit: float = 30.0,
    groups: int = 1,
    different_groups: int = 1,
    progress: Callable[[float, float], None] | None = None,
) -> Design:
    """The best channel for `task` under `prior` that keeps `notion` at level ε, and a proof of how good it is.

    Args:
        prior: what is believed about one respondent beforehand.
        task: what is to be estimated.
        epsilon: the budget ε, read exactly.
        aim: "unbiased" minimises the variance of the estimate that does not use the prior, and is within a few per
            cent of the best whatever the prior is worth; "mmse", the paper's, the error of the one that trusts it.
        notion: "lip", or "ldp" for the best LDP channel under the same prior, the fair baseline.
        method: how to search; "auto" takes the best way first and safe ones to fall back on; "without-prior" does not
            look at the prior, and the names of LDP mechanisms ask for one of those.
        lower_epsilon: a separate budget for lowering beliefs, math.inf for none.
        ldp_cap: caps the LDP level as well.
        prior_set: LIP is kept for every prior of this set around `prior`, which may be wrong.
        invertible: mixes in what unbiased estimates need, where the aim is "mmse".
        gap: the search stops at this relative gap, by default 0.1% up to 50 values, 0.4% up to 200, 0.8% beyond.
        time_limit: or after so many seconds, or at a keyboard interrupt, with the best channel so far and a valid
            certificate.
        groups: how many groups a plan will hold: if many, "auto" prefers rules to tables, which make it long.
        different_groups: how many of them have designs of their own: if many, those are preferred that are found and
            read quickly.
        progress: is called with gain and bound or, for the aim "unbiased", with variance and bound.

    Raises:
        PrivacyError: no method gave a channel that passes the exact audit.

    >>> from tacit.task import Histogram
    >>> found = design(Prior.of({"a": 0.5, "b": 0.3, "c": 0.2}), Histogram(), epsilon=1)
    >>> found.certificate.status, found.certificate.gap < 1e-3
    ('optimal', True)
    """
    promise = make_promise(epsilon, notion, lower_epsilon, ldp_cap, prior_set)
    if gap is None:
        d = len(prior.support)
        gap = 1e-3 if d <= 50 else 4e-3 if d <= 200 else 8e-3
    request = Request(
        prior=prior, task=task, promise=promise, aim=aim, invertible=invertible, gap=gap,
        deadline=Deadline.after(time_limit), groups=groups, different_groups=different_groups, progress=progress,
    )  # fmt: skip
    _check(request)
    notes: list[str] = []
    for name in _methods(request, method):
        try:
            # What floats cannot hold shows below, in the audit.
            with one_thread(), errstate(all="ignore"):
                found = (_BUILD | _AUTOMATIC)[name](request)
        except (PrivacyError, ArithmeticError, LinAlgError) as failure:
            why = "floats cannot solve its equations" if isinstance(failure, LinAlgError) else failure
            notes.append(f"{name} failed: {why}")
            continue
        if not promise.kept_by(found.mechanism):
            level = found.mechanism.audit().lip.epsilon
            notes.append(f"{name} failed the audit: its channel reaches {level:.6g}.")
            continue
        if request.says_nothing(found):
            notes.append(f"{name} failed: its reports do not depend on what is asked.")
            continue
        return replace(found, certificate=replace(found.certificate, notes=(*notes, *found.certificate.notes)))
    raise PrivacyError(f"No method gave a channel that keeps the promise. {' '.join(notes)}")


def _check(request: Request) -> None:
    d, epsilon = len(request.inside), request.promise.main[1]
    if request.aim not in ("mmse", "unbiased"):
        raise ValueError(f"The 'aim' must be 'mmse' or 'unbiased'. Got {request.aim!r} instead.")
    if not request.is_histogram:
        with errstate(over="ignore"):
            apart = float(np.ptp(request.task.g(request.prior)[request.inside], axis=0).max(initial=0.0))
        if not apart < LARGEST_DIFFERENCE:
            raise ValueError("The values lie too far apart: the squares of their differences exceed what floats hold.")
        if request.aim == "unbiased" and request.g.shape[1] > 1 and request.told_apart > TABLE_LIMIT:
            raise ValueError(
                f"A task with several numbers for each answer has no good unbiased design over more than {TABLE_LIMIT} "
                f"different answers. Got {request.told_apart:,}. Ask for each number in a plan of its own, or merge "
                "values, or use the aim 'mmse'."
            )
    inverts = request.invertible or request.aim == "unbiased"
    if d > 1 and epsilon == 0 and inverts:
        raise ValueError("At ε = 0 reports say nothing, so no unbiased estimate exists. Any ε > 0 is feasible.")
    wishes = request.promise.others or request.invertible
    set_asked = request.promise.prior_set is not None and request.aim == "mmse"
    if d > TABLE_LIMIT and request.is_histogram and (wishes or set_asked):
        raise ValueError(
            f"Histograms over more than {TABLE_LIMIT} values are served by rules, for plain LIP, for a set of priors "
            "with the aim 'unbiased', and for LDP. Merge rare values, or drop the other wishes."
        )


def _methods(request: Request, method: Method) -> list[str]:
    """The method asked for, or the best one first and then safe ones to fall back on."""
    if method == "without-prior" and not (request.is_histogram and request.told_apart > FEW_VALUES):
        method = "auto"  # The linear program, which finds the best channel for few values.
    if method != "auto":
        if method not in _BUILD:
            raise ValueError(f"The 'method' must be one of auto, {', '.join(_BUILD)}. Got {method!r} instead.")
        return [method]
    first = ["closed-form"] if closed_kind(request) else []
    many = request.told_apart > FEW_VALUES
    if request.aim == "unbiased" and many:
        if request.is_sum:
            return ["knots", "repaired"]
        if request.is_histogram and request.promise.others:
            return ["capped histogram", "repaired"]
        if request.is_histogram and request.promise.is_lip_or_ldp:
            return ["large histogram", "repaired"]
    if request.promise.prior_set is not None:
        return ["robust", "repaired"]
    if request.is_histogram and len(request.inside) > TABLE_LIMIT:
        return ["core-tail"]
    return [*first, "columns", "repaired"]
